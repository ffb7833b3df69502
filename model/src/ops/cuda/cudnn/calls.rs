//! What of cuDNN is called, as its header declares it.

use crate::error::Result;
use crate::ops::cuda::device::failed;
use crate::ops::cuda::library::functions;
use candle_core::DType;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Handles and descriptors are pointers to what the library hides.
pub(super) type Pointer = *mut c_void;
pub(super) type Place = *const c_void;

/// What cuDNN tells of an algorithm; the same for all three directions.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Performance {
    pub(super) algorithm: c_int,
    pub(super) status: c_int,
    pub(super) milliseconds: f32,
    pub(super) memory: usize,
    /// 1: the same bits every time.
    pub(super) determinism: c_int,
    pub(super) math: c_int,
    pub(super) reserved: [c_int; 3],
}

/// All three directions take two operands and give one result.
pub(super) type Run = unsafe extern "C" fn(
    Pointer,
    *const f32,
    Pointer,
    Place,
    Pointer,
    Place,
    Pointer,
    c_int,
    Pointer,
    usize,
    *const f32,
    Pointer,
    Pointer,
) -> c_int;
pub(super) type Room =
    unsafe extern "C" fn(Pointer, Pointer, Pointer, Pointer, Pointer, c_int, *mut usize) -> c_int;
pub(super) type Guess = unsafe extern "C" fn(
    Pointer,
    Pointer,
    Pointer,
    Pointer,
    Pointer,
    c_int,
    *mut c_int,
    *mut Performance,
) -> c_int;
pub(super) type Measure = unsafe extern "C" fn(
    Pointer,
    Pointer,
    Place,
    Pointer,
    Place,
    Pointer,
    Pointer,
    Pointer,
    c_int,
    *mut c_int,
    *mut Performance,
    Pointer,
    usize,
) -> c_int;

functions! {
    /// What of cuDNN is used.
    Functions of "cuDNN 9" in &["libcudnn.so.9", "libcudnn.so"];
    cudnnGetVersion: fn() -> usize,
    cudnnGetErrorString: fn(c_int) -> *const c_char,
    cudnnCreate: fn(*mut Pointer) -> c_int,
    cudnnSetStream: fn(Pointer, Pointer) -> c_int,
    cudnnCreateTensorDescriptor: fn(*mut Pointer) -> c_int,
    cudnnSetTensor4dDescriptor: fn(Pointer, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int,
    cudnnCreateFilterDescriptor: fn(*mut Pointer) -> c_int,
    cudnnSetFilter4dDescriptor: fn(Pointer, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int,
    cudnnCreateConvolutionDescriptor: fn(*mut Pointer) -> c_int,
    cudnnSetConvolution2dDescriptor: fn(Pointer, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int,
    cudnnSetConvolutionGroupCount: fn(Pointer, c_int) -> c_int,
    cudnnSetConvolutionMathType: fn(Pointer, c_int) -> c_int,
    cudnnConvolutionForward:
        fn(Pointer, *const f32, Pointer, Place, Pointer, Place, Pointer, c_int, Pointer, usize, *const f32, Pointer, Pointer) -> c_int,
    cudnnGetConvolutionForwardWorkspaceSize: fn(Pointer, Pointer, Pointer, Pointer, Pointer, c_int, *mut usize) -> c_int,
    cudnnGetConvolutionForwardAlgorithm_v7: fn(Pointer, Pointer, Pointer, Pointer, Pointer, c_int, *mut c_int, *mut Performance) -> c_int,
    cudnnFindConvolutionForwardAlgorithmEx:
        fn(Pointer, Pointer, Place, Pointer, Place, Pointer, Pointer, Pointer, c_int, *mut c_int, *mut Performance, Pointer, usize) -> c_int,
    cudnnConvolutionBackwardData:
        fn(Pointer, *const f32, Pointer, Place, Pointer, Place, Pointer, c_int, Pointer, usize, *const f32, Pointer, Pointer) -> c_int,
    cudnnGetConvolutionBackwardDataWorkspaceSize: fn(Pointer, Pointer, Pointer, Pointer, Pointer, c_int, *mut usize) -> c_int,
    cudnnGetConvolutionBackwardDataAlgorithm_v7: fn(Pointer, Pointer, Pointer, Pointer, Pointer, c_int, *mut c_int, *mut Performance) -> c_int,
    cudnnFindConvolutionBackwardDataAlgorithmEx:
        fn(Pointer, Pointer, Place, Pointer, Place, Pointer, Pointer, Pointer, c_int, *mut c_int, *mut Performance, Pointer, usize) -> c_int,
    cudnnConvolutionBackwardFilter:
        fn(Pointer, *const f32, Pointer, Place, Pointer, Place, Pointer, c_int, Pointer, usize, *const f32, Pointer, Pointer) -> c_int,
    cudnnGetConvolutionBackwardFilterWorkspaceSize: fn(Pointer, Pointer, Pointer, Pointer, Pointer, c_int, *mut usize) -> c_int,
    cudnnGetConvolutionBackwardFilterAlgorithm_v7: fn(Pointer, Pointer, Pointer, Pointer, Pointer, c_int, *mut c_int, *mut Performance) -> c_int,
    cudnnFindConvolutionBackwardFilterAlgorithmEx:
        fn(Pointer, Pointer, Place, Pointer, Place, Pointer, Pointer, Pointer, c_int, *mut c_int, *mut Performance, Pointer, usize) -> c_int,
}

/// `CUDNN_TENSOR_NHWC`; extents are given as (n, c, h, w) all the same.
pub(super) const NHWC: c_int = 1;
/// `CUDNN_CROSS_CORRELATION`: kernels are not mirrored.
pub(super) const CROSS_CORRELATION: c_int = 1;
/// `CUDNN_DATA_FLOAT`: what sums are kept in.
pub(super) const FLOAT: c_int = 0;
/// `CUDNN_DEFAULT_MATH`, which is TF32 for f32; `CUDNN_TENSOR_OP_MATH` for half precisions; `CUDNN_FMA_MATH`, with which f32 means f32.
pub(super) const DEFAULT_MATH: c_int = 0;
pub(super) const TENSOR_OP_MATH: c_int = 1;
pub(super) const FMA_MATH: c_int = 3;
/// What is computed: y of x and w; dx of w and dy; dw of x and dy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Direction {
    Forward,
    BackwardData,
    BackwardFilter,
}

impl Functions {
    pub(super) fn version(&self) -> usize {
        // SAFETY: it only gives a number.
        unsafe { (self.cudnnGetVersion)() }
    }

    pub(super) fn check(&self, call: &'static str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library gives a constant text for any number.
        let reason = unsafe { CStr::from_ptr((self.cudnnGetErrorString)(status)) };
        Err(failed(call, &reason.to_string_lossy()))
    }

    pub(super) fn run(&self, direction: Direction) -> (&'static str, Run) {
        match direction {
            Direction::Forward => ("cudnnConvolutionForward", self.cudnnConvolutionForward),
            Direction::BackwardData => (
                "cudnnConvolutionBackwardData",
                self.cudnnConvolutionBackwardData,
            ),
            Direction::BackwardFilter => (
                "cudnnConvolutionBackwardFilter",
                self.cudnnConvolutionBackwardFilter,
            ),
        }
    }

    pub(super) fn room(&self, direction: Direction) -> Room {
        match direction {
            Direction::Forward => self.cudnnGetConvolutionForwardWorkspaceSize,
            Direction::BackwardData => self.cudnnGetConvolutionBackwardDataWorkspaceSize,
            Direction::BackwardFilter => self.cudnnGetConvolutionBackwardFilterWorkspaceSize,
        }
    }

    pub(super) fn guess(&self, direction: Direction) -> Guess {
        match direction {
            Direction::Forward => self.cudnnGetConvolutionForwardAlgorithm_v7,
            Direction::BackwardData => self.cudnnGetConvolutionBackwardDataAlgorithm_v7,
            Direction::BackwardFilter => self.cudnnGetConvolutionBackwardFilterAlgorithm_v7,
        }
    }

    pub(super) fn measure(&self, direction: Direction) -> Measure {
        match direction {
            Direction::Forward => self.cudnnFindConvolutionForwardAlgorithmEx,
            Direction::BackwardData => self.cudnnFindConvolutionBackwardDataAlgorithmEx,
            Direction::BackwardFilter => self.cudnnFindConvolutionBackwardFilterAlgorithmEx,
        }
    }
}

/// A version as release notes write it.
pub(super) fn dotted(version: usize) -> String {
    let (major, rest) = if version >= 90_000 {
        (version / 10_000, version % 10_000)
    } else {
        (version / 1000, version % 1000)
    };
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

/// `cudnnDataType_t`.
pub(super) fn code(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => 2,
        DType::BF16 => 9,
        _ => FLOAT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_in_release_notes() {
        assert_eq!(dotted(91_900), "9.19.0");
        assert_eq!(dotted(8_907), "8.9.7");
    }
}
