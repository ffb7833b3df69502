//! Kernels as oneDNN's primitives want them, kept from call to call.

use super::primitive::{error, with_primitive};
use super::taps::Tap;
use super::{Trimmed, sys};
use crate::error::Result;
use crate::ops::kept::pages;
use crate::ops::weights::Factors;
use half::bf16;
use memmap2::MmapMut;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// Packed kernels by what they were packed for: another batch or type of activations may want another order.
#[derive(Debug, Default)]
pub struct Packings {
    packed: Mutex<HashMap<sys::ConvDesc, Arc<Packed>>>,
    /// A field and its edges, say, mostly want the same.
    shared: Mutex<HashMap<Order, Arc<Packed>>>,
    /// By the indices of the taps.
    by_tap: Mutex<HashMap<Vec<usize>, Arc<Vec<bf16>>>>,
}

/// What packed kernels hold, and where.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Order {
    trimmed: Option<Trimmed>,
    layout: sys::Layout,
}

/// Kernels in the order that one primitive reads.
#[derive(Debug)]
pub struct Packed(MmapMut);

impl Packed {
    pub fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

/// The kernels of a convolution, and where packed ones are kept, if they are.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    pub values: &'a [f32],
    /// What they still are to be multiplied by.
    pub factors: Option<Factors<'a>>,
    /// The taps that are left of them then, if not all.
    pub trimmed: Option<&'a Trimmed>,
    pub packings: Option<&'a Packings>,
}

impl<'a> Source<'a> {
    /// The kernels times their factors, trimmed: made anew, because once they are packed nobody asks.
    pub fn plain(&self) -> Cow<'a, [f32]> {
        let all = match self.factors {
            Some(factors) => Cow::Owned(factors.times(self.values)),
            None => Cow::Borrowed(self.values),
        };
        match self.trimmed {
            Some(trimmed) => Cow::Owned(trimmed.kernels(&all)),
            None => all,
        }
    }

    /// The same kernels, of which nothing is kept.
    pub fn unpacked(self) -> Self {
        Self {
            packings: None,
            ..self
        }
    }
}

impl Source<'_> {
    /// Packed for a primitive; none where packing is left to each run.
    pub fn packed(&self, op: &'static str, desc: sys::ConvDesc) -> Result<Option<Arc<Packed>>> {
        let Some(Packings { packed, shared, .. }) = self.packings else {
            return Ok(None);
        };
        let mut known = packed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(packed) = known.get(&desc) {
            return Ok(Some(packed.clone()));
        }
        let order = with_primitive(op, desc, |primitive| {
            let mut layout = sys::Layout::default();
            // SAFETY: the primitive exists; the layout is written.
            let told = unsafe { sys::squall_conv_layout(primitive.0, &raw mut layout) };
            let trimmed = self.trimmed.cloned();
            Ok((told == 1).then_some(Order { trimmed, layout }))
        })?;
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(packed) = order.as_ref().and_then(|order| shared.get(order)) {
            known.insert(desc, packed.clone());
            return Ok(Some(packed.clone()));
        }
        let pages = with_primitive(op, desc, |primitive| {
            // SAFETY: the primitive exists.
            let bytes = unsafe { sys::squall_conv_packed_bytes(primitive.0) };
            let Some(mut pages) = pages(bytes) else {
                return Ok(None);
            };
            let plain = self.plain();
            let from = plain.as_ptr() as *mut c_void;
            // SAFETY: the plain kernels have the size that `desc` says, which `conv.rs` has checked, and are only read;
            // the pages have room for as many bytes as the primitive asks for.
            let status =
                unsafe { sys::squall_conv_pack(primitive.0, from, pages.as_mut_ptr().cast()) };
            if status == 0 {
                Ok(Some(pages))
            } else {
                Err(error(op, status, &desc))
            }
        })?;
        let Some(pages) = pages else {
            return Ok(None);
        };
        let packed = Arc::new(Packed(pages));
        known.insert(desc, packed.clone());
        if let Some(order) = order {
            shared.insert(order, packed.clone());
        }
        Ok(Some(packed))
    }

    /// What `make` makes of the kernels for products by some of their taps.
    pub fn by_tap(self, taps: &[Tap], make: impl FnOnce(&[f32]) -> Vec<bf16>) -> Arc<Vec<bf16>> {
        let made = || Arc::new(make(&self.plain()));
        let Some(Packings { by_tap, .. }) = self.packings else {
            return made();
        };
        let mut known = by_tap.lock().unwrap_or_else(PoisonError::into_inner);
        let indices = taps.iter().map(|tap| tap.index).collect();
        known.entry(indices).or_insert_with(made).clone()
    }
}

impl<'a> From<&'a [f32]> for Source<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self {
            values,
            factors: None,
            trimmed: None,
            packings: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::ConvSpec;
    use crate::ops::conv::Pass;
    use crate::ops::finish::Finish;
    use crate::ops::testing::draw;

    #[test]
    fn a_field_and_its_edges_share_packed_kernels() {
        let spec = ConvSpec::same(5).stride(2).periodic(true);
        let pass = Pass {
            x_shape: [1, 48, 96, 32],
            y_shape: [1, 24, 48, 64],
            spec: &spec,
        };
        let (x, w) = (draw(1, 48 * 96 * 32), draw(2, 64 * 32 * 25));
        let packings = Packings::default();
        let kept = Source {
            packings: Some(&packings),
            ..w[..].into()
        };
        let finish = || Finish::<f32> {
            bias: None,
            residual: None,
            relu: false,
        };
        let y = super::super::forward(&pass, &x, kept, finish()).unwrap();
        assert_eq!(
            y,
            super::super::forward(&pass, &x, w[..].into(), finish()).unwrap()
        );
        let known = packings.packed.lock().unwrap();
        assert_eq!(known.len(), 2, "a field and its edges");
        assert_eq!(packings.shared.lock().unwrap().len(), 1);
    }
}
