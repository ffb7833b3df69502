//! The C interface of `shim.c`, and nothing else. The safe wrapper is `squall_model::ops::onednn`.

#[cfg(feature = "vendored")]
use onednn_src as _; // links the library
use std::ffi::{c_char, c_int, c_void};

/// Geometry and kind of a convolution; see `shim.c`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names of `squall_conv_desc`
pub struct ConvDesc {
    pub kind: i64,
    pub batch: i64,
    pub channels_in: i64,
    pub height_in: i64,
    pub width_in: i64,
    pub channels_out: i64,
    pub height_out: i64,
    pub width_out: i64,
    pub kernel_h: i64,
    pub kernel_w: i64,
    pub stride: i64,
    pub dilation: i64,
    pub groups: i64,
    pub pad_top: i64,
    pub pad_bottom: i64,
    pub pad_left: i64,
    pub pad_right: i64,
    pub bias: i64,
    pub sum: i64,
    pub relu: i64,
    pub bf16: i64,
}

/// `ConvDesc::kind` of the forward pass.
pub const FORWARD: i64 = 0;
/// `ConvDesc::kind` of the gradient of the input.
pub const BACKWARD_DATA: i64 = 1;
/// `ConvDesc::kind` of the gradient of the weights.
pub const BACKWARD_WEIGHTS: i64 = 2;

/// `dnnl_out_of_memory`.
pub const OUT_OF_MEMORY: c_int = 1;

/// Axes and blocks of kernels at most.
pub const LAYOUT_AXES: usize = 6;

/// Where packed kernels lie; see `shim.c`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names of `squall_layout`
pub struct Layout {
    pub kind: i64,
    pub rank: i64,
    pub blocks: i64,
    pub padded: [i64; LAYOUT_AXES],
    pub strides: [i64; LAYOUT_AXES],
    pub block_sizes: [i64; LAYOUT_AXES],
    pub block_axes: [i64; LAYOUT_AXES],
}

/// A primitive owned by the shim.
#[repr(C)]
#[derive(Debug)]
pub struct Conv {
    _opaque: [u8; 0],
}

#[allow(missing_docs)] // each is described in `shim.c`
unsafe extern "C" {
    pub fn squall_conv_create(out: *mut *mut Conv, desc: *const ConvDesc) -> c_int;
    pub fn squall_conv_execute(
        conv: *mut Conv,
        kind: i64,
        src: *mut c_void,
        weights: *mut c_void,
        bias: *mut c_void,
        dst: *mut c_void,
        gradient: *mut c_void,
    ) -> c_int;
    pub fn squall_conv_layout(conv: *const Conv, layout: *mut Layout) -> c_int;
    pub fn squall_conv_packed_bytes(conv: *const Conv) -> usize;
    pub fn squall_conv_pack(conv: *mut Conv, plain: *mut c_void, packed: *mut c_void) -> c_int;
    pub fn squall_conv_implementation(conv: *const Conv) -> *const c_char;
    pub fn squall_conv_destroy(conv: *mut Conv);
    pub fn squall_gemm(
        transposed: c_int,
        m: i64,
        n: i64,
        k: i64,
        a: *const f32,
        lda: i64,
        b: *const f32,
        ldb: i64,
        beta: f32,
        c: *mut f32,
        ldc: i64,
    ) -> c_int;
    pub fn squall_gemm_bf16(
        a_transposed: c_int,
        b_column: i64,
        m: i64,
        n: i64,
        k: i64,
        a: *mut c_void,
        b: *mut c_void,
        beta: c_int,
        c: *mut f32,
    ) -> c_int;
    pub fn squall_dnnl_version() -> c_int;
    pub fn squall_dnnl_isa() -> u32;
    pub fn squall_openmp_threads() -> c_int;
}
