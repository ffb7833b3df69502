//! oneDNN's primitives: built once per geometry and thread, and cached by description.

use super::wrapped::wrapped_columns;
use crate::error::{ModelError, Result};
use crate::ops::conv_spec::Convolution;
use crate::ops::value::Value;
use candle_core::DType;
use squall_onednn_sys as sys;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};

/// A primitive of the shim, destroyed with its owner.
pub(super) struct Primitive(pub(super) *mut sys::Conv);

impl Primitive {
    /// oneDNN's name of the implementation.
    pub(super) fn implementation(&self) -> String {
        // SAFETY: the primitive exists and its name is a C string inside it.
        let name = unsafe { CStr::from_ptr(sys::squall_conv_implementation(self.0)) };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for Primitive {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `squall_conv_create` and nobody else frees it.
        unsafe { sys::squall_conv_destroy(self.0) }
    }
}

thread_local! {
    /// Memory objects inside a primitive are set before each run, so a primitive belongs to one thread.
    static PRIMITIVES: RefCell<HashMap<sys::ConvDesc, Primitive>> = RefCell::new(HashMap::new());
}

pub(super) fn error(op: &'static str, status: i32, desc: &sys::ConvDesc) -> ModelError {
    ModelError::OneDnn {
        op,
        status,
        detail: format!("{desc:?}"),
    }
}

/// The operands of one run; `ConvDesc::kind` determines which of them is written.
pub(super) struct Operands {
    pub(super) src: *mut c_void,
    pub(super) weights: *mut c_void,
    pub(super) bias: *mut c_void,
    pub(super) dst: *mut c_void,
    /// The gradient to which backward-weights adds; null for other kinds.
    pub(super) gradient: *mut c_void,
}

/// Calls `work` with the primitive of `desc`, which is built on this thread's first use.
pub(super) fn with_primitive<T>(
    op: &'static str,
    desc: sys::ConvDesc,
    work: impl FnOnce(&Primitive) -> Result<T>,
) -> Result<T> {
    PRIMITIVES.with_borrow_mut(|primitives| {
        let primitive = match primitives.entry(desc) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let mut conv = std::ptr::null_mut();
                // SAFETY: both pointers are valid for the call; the shim writes `conv` only.
                let status = unsafe { sys::squall_conv_create(&raw mut conv, &raw const desc) };
                if status != 0 {
                    return Err(error(op, status, &desc));
                }
                let primitive = Primitive(conv);
                let name = primitive.implementation();
                if name.starts_with("ref") {
                    tracing::warn!(
                        "oneDNN runs {op} by reference code ({name}), which is slow: {desc:?}"
                    );
                } else {
                    tracing::debug!("oneDNN: {op}: {name}");
                }
                entry.insert(primitive)
            }
        };
        work(primitive)
    })
}

/// Runs the primitive of `desc`.
///
/// # Safety
/// Source, destination and bias must point to as many values, of the type that `desc` says; the bias may be null if
/// `desc` has none. What is written must be writable and overlap nothing else. Weights that are read must come from
/// [`super::Source::packed`] for the same `desc`. Backward weights need the room of [`super::packing::room`] for the
/// same `desc` as weights, and a gradient of as many plain kernels, f32; for others the gradient is null.
pub(super) unsafe fn run(op: &'static str, desc: sys::ConvDesc, operands: &Operands) -> Result<()> {
    with_primitive(op, desc, |primitive| {
        // SAFETY: the caller vouches for the operands; the primitive is this thread's own.
        let status = unsafe {
            let Operands {
                src,
                weights,
                bias,
                dst,
                gradient,
            } = *operands;
            sys::squall_conv_execute(primitive.0, desc.kind, src, weights, bias, dst, gradient)
        };
        if status == 0 {
            Ok(())
        } else {
            Err(error(op, status, &desc))
        }
    })
}

/// The description of a geometry, after `wrapped_columns` have been copied, for values of f32 or bf16.
pub(super) fn descriptor<V: Value>(kind: i64, geometry: &Convolution) -> sys::ConvDesc {
    assert!(
        matches!(V::DTYPE, DType::F32 | DType::BF16),
        "values of another type as f32"
    );
    let ([batch, height, width, channels], [_, out_h, out_w, out]) = (geometry.x, geometry.y);
    let spec = geometry.spec;
    let extra = wrapped_columns(geometry);
    let (width, pad_w) = (width + 2 * extra, spec.padding.1 - extra);
    // oneDNN expects the padding that the last window really uses, which a stride can make smaller than requested.
    let reach =
        |out: usize, kernel: usize| (out - 1) * spec.stride + (kernel - 1) * spec.dilation + 1;
    let high = |out, kernel, extent: usize, low: usize| {
        (reach(out, kernel) as i64) - (extent + low) as i64
    };
    sys::ConvDesc {
        kind,
        batch: batch as i64,
        channels_in: channels as i64,
        height_in: height as i64,
        width_in: width as i64,
        channels_out: out as i64,
        height_out: out_h as i64,
        width_out: out_w as i64,
        kernel_h: spec.kernel.0 as i64,
        kernel_w: spec.kernel.1 as i64,
        stride: spec.stride as i64,
        dilation: spec.dilation as i64,
        groups: spec.groups as i64,
        pad_top: spec.padding.0 as i64,
        pad_bottom: high(out_h, spec.kernel.0, height, spec.padding.0),
        pad_left: pad_w as i64,
        pad_right: high(out_w, spec.kernel.1, width, pad_w),
        bias: 0,
        sum: 0,
        relu: 0,
        bf16: (V::DTYPE == DType::BF16).into(),
    }
}
