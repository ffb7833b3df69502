//! Kernels as oneDNN's primitives want them, kept from call to call.

use super::primitive::{error, with_primitive};
use super::taps::Tap;
use super::{Trimmed, sys};
use crate::error::Result;
use half::bf16;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// A cache line of packed kernels.
#[repr(align(64))]
#[derive(Debug, Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]);

/// Packed kernels by what they were packed for: another batch or type of activations may want another order.
#[derive(Debug, Default)]
pub struct Packings {
    packed: Mutex<HashMap<sys::ConvDesc, Arc<Packed>>>,
    trimmed: Mutex<HashMap<Trimmed, Arc<Vec<f32>>>>,
    /// By the indices of the taps.
    by_tap: Mutex<HashMap<Vec<usize>, Arc<Vec<bf16>>>>,
}

/// Kernels in the order that one primitive reads.
#[derive(Debug)]
pub struct Packed(Vec<Line>);

impl Packed {
    pub fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

/// The kernels of a convolution, and where packed ones are kept, if they are.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    pub plain: &'a [f32],
    pub packings: Option<&'a Packings>,
}

impl Source<'_> {
    /// Packed for a primitive; none where packing is left to each run.
    pub fn packed(&self, op: &'static str, desc: sys::ConvDesc) -> Result<Option<Arc<Packed>>> {
        let Some(Packings { packed, .. }) = self.packings else {
            return Ok(None);
        };
        let mut known = packed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(packed) = known.get(&desc) {
            return Ok(Some(packed.clone()));
        }
        let lines = with_primitive(op, desc, |primitive| {
            // SAFETY: the primitive exists.
            let bytes = unsafe { sys::squall_conv_packed_bytes(primitive.0) };
            let mut lines = vec![Line([0; 64]); bytes.div_ceil(64)];
            let plain = self.plain.as_ptr() as *mut c_void;
            // SAFETY: the plain kernels have the size that `desc` says, which `conv.rs` has checked, and are only read;
            // the lines have room for as many bytes as the primitive asks for.
            let status =
                unsafe { sys::squall_conv_pack(primitive.0, plain, lines.as_mut_ptr().cast()) };
            if status == 0 {
                Ok(lines)
            } else {
                Err(error(op, status, &desc))
            }
        })?;
        let packed = Arc::new(Packed(lines));
        known.insert(desc, packed.clone());
        Ok(Some(packed))
    }

    /// What `make` makes of the kernels for products by some of their taps.
    pub fn by_tap(self, taps: &[Tap], make: impl FnOnce(&[f32]) -> Vec<bf16>) -> Arc<Vec<bf16>> {
        let made = || Arc::new(make(self.plain));
        let Some(Packings { by_tap, .. }) = self.packings else {
            return made();
        };
        let mut known = by_tap.lock().unwrap_or_else(PoisonError::into_inner);
        let indices = taps.iter().map(|tap| tap.index).collect();
        known.entry(indices).or_insert_with(made).clone()
    }

    /// The kernels without the taps that read nothing.
    pub fn trimmed(self, to: &Trimmed) -> Arc<Vec<f32>> {
        let Some(Packings { trimmed, .. }) = self.packings else {
            return Arc::new(to.kernels(self));
        };
        let mut known = trimmed.lock().unwrap_or_else(PoisonError::into_inner);
        let kernels = known.entry(to.clone());
        kernels
            .or_insert_with(|| Arc::new(to.kernels(self)))
            .clone()
    }
}

impl<'a> From<&'a [f32]> for Source<'a> {
    fn from(plain: &'a [f32]) -> Self {
        Self {
            plain,
            packings: None,
        }
    }
}
