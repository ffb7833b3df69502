//! The functions of cuDNN that are called, with the types and constants of its header, and its status codes.

use crate::error::{ModelError, Result};
use crate::gpu::GpuError;
use crate::ops::cuda::device::failed;
use crate::ops::cuda::library::functions;
use candle_core::DType;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Handles and descriptors are pointers to what the library hides.
pub(super) type Pointer = *mut c_void;
pub(super) type Place = *const c_void;

const NAMES: &[&str] = &["libcudnn.so.9", "libcudnn.so"];

functions! {
    /// The function that gives the version of any cuDNN; other versions lack some of what is used.
    Version of "cuDNN 9" in NAMES;
    cudnnGetVersion: fn() -> usize,
}

functions! {
    /// What of cuDNN is used.
    Functions of "cuDNN 9" in NAMES;
    cudnnGetVersion: fn() -> usize,
    cudnnGetErrorString: fn(c_int) -> *const c_char,
    cudnnGetLastErrorString: fn(*mut c_char, usize) -> (),
    cudnnCreate: fn(*mut Pointer) -> c_int,
    cudnnSetStream: fn(Pointer, Pointer) -> c_int,
    cudnnBackendCreateDescriptor: fn(c_int, *mut Pointer) -> c_int,
    cudnnBackendSetAttribute: fn(Pointer, c_int, c_int, i64, Place) -> c_int,
    cudnnBackendGetAttribute: fn(Pointer, c_int, c_int, i64, *mut i64, Pointer) -> c_int,
    cudnnBackendFinalize: fn(Pointer) -> c_int,
    cudnnBackendDestroyDescriptor: fn(Pointer) -> c_int,
    cudnnBackendExecute: fn(Pointer, Pointer, Pointer) -> c_int,
}

/// What is computed: y of x and w; dx of w and dy; dw of x and dy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Direction {
    Forward,
    BackwardData,
    BackwardFilter,
}

/// `CUDNN_DATA_FLOAT`: what sums are kept in.
pub(super) const FLOAT: c_int = 0;
/// `CUDNN_CROSS_CORRELATION`: kernels are not mirrored.
pub(super) const CROSS_CORRELATION: c_int = 1;

/// `CUDNN_POINTWISE_ADD`.
pub(super) const ADD: c_int = 0;
/// `CUDNN_POINTWISE_RELU_FWD`.
pub(super) const RELU: c_int = 100;
/// `CUDNN_PROPAGATE_NAN`: NaN stays NaN, where it would become 0 otherwise.
pub(super) const PROPAGATE_NAN: c_int = 1;

/// `cudnnDataType_t`.
pub(super) fn code(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => 2,
        DType::BF16 => 9,
        _ => FLOAT,
    }
}

/// A call that cuDNN refused.
#[derive(Debug)]
pub(super) struct Refused {
    call: &'static str,
    status: c_int,
    /// What the call was about, the status's name, and what cuDNN says besides.
    pub(super) reason: String,
}

pub(super) type Answer<T> = std::result::Result<T, Refused>;

impl Refused {
    /// An empty answer.
    pub(super) fn empty(call: &'static str, what: String) -> Self {
        Self {
            call,
            status: 0,
            reason: format!("{what}: no value"),
        }
    }

    /// Whether it says only that cuDNN has nothing here.
    pub(super) fn is_not_supported(&self) -> bool {
        self.status / 1000 == 3
    }
}

impl From<Refused> for ModelError {
    fn from(refused: Refused) -> Self {
        failed(refused.call, &refused.reason)
    }
}

/// None where cuDNN has nothing here.
pub(super) fn if_supported<T>(answer: Answer<T>) -> Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(refused) if refused.is_not_supported() => Ok(None),
        Err(refused) => Err(refused.into()),
    }
}

impl Functions {
    pub(super) fn version(&self) -> usize {
        // SAFETY: it only gives a number.
        unsafe { (self.cudnnGetVersion)() }
    }

    /// `what`: what the call was about.
    pub(super) fn check(&self, call: &'static str, what: &str, status: c_int) -> Answer<()> {
        if status == 0 {
            return Ok(());
        }
        let mut text = [0u8; 512];
        // SAFETY: the library gives a constant text for any number, and writes at most that many bytes.
        let name = unsafe {
            (self.cudnnGetLastErrorString)(text.as_mut_ptr().cast(), text.len());
            CStr::from_ptr((self.cudnnGetErrorString)(status))
        };
        let more = text.split(|&byte| byte == 0 || byte == b'\n').next();
        let more = String::from_utf8_lossy(more.unwrap_or_default());
        let parts = [what, &name.to_string_lossy(), more.trim()];
        let parts = parts.iter().copied().filter(|part| !part.is_empty());
        Err(Refused {
            call,
            status,
            reason: parts.collect::<Vec<_>>().join(": "),
        })
    }
}

/// The version of the library that there is, as it counts: 9.19.0 is 91900.
pub(super) fn version() -> std::result::Result<usize, GpuError> {
    let library = Version::load()?;
    // SAFETY: it only gives a number.
    Ok(unsafe { (library.cudnnGetVersion)() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_in_release_notes() {
        assert_eq!(dotted(91_900), "9.19.0");
        assert_eq!(dotted(8_907), "8.9.7");
    }

    #[test]
    fn what_is_not_supported_is_no_error() {
        let refused = |status| Refused {
            call: "cudnnBackendFinalize",
            status,
            reason: "Plan".to_string(),
        };
        for (status, none) in [(3000, true), (3007, true), (2000, false), (4001, false)] {
            let answer = if_supported::<()>(Err(refused(status)));
            assert_eq!(matches!(answer, Ok(None)), none, "{status}");
            assert_eq!(answer.is_err(), !none, "{status}");
        }
        assert!(matches!(if_supported(Ok(1)), Ok(Some(1))));
    }
}
