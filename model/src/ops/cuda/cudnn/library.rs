//! The cuDNN functions that are used, with the types, constants and status codes of its headers.

use crate::error::{ModelError, Result};
use crate::gpu::GpuError;
use crate::ops::cuda::device::failed;
use crate::ops::cuda::library::functions;
use candle_core::DType;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Handles and descriptors are opaque pointers.
pub(super) type Pointer = *mut c_void;
pub(super) type Place = *const c_void;

const NAMES: &[&str] = &["libcudnn.so.9", "libcudnn.so"];

functions! {
    /// The version function, which every cuDNN has; other versions lack some of the other functions.
    Version of "cuDNN 9" in NAMES;
    cudnnGetVersion: fn() -> usize,
}

functions! {
    /// The functions of cuDNN that are used.
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

/// The pass: y from x and w; dx from w and dy; dw from x and dy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Direction {
    Forward,
    BackwardData,
    BackwardFilter,
}

/// `CUDNN_DATA_FLOAT`: the accumulation type.
pub(super) const FLOAT: c_int = 0;
/// `CUDNN_CROSS_CORRELATION`: kernels are not flipped.
pub(super) const CROSS_CORRELATION: c_int = 1;

/// `CUDNN_POINTWISE_ADD`.
pub(super) const ADD: c_int = 0;
/// `CUDNN_POINTWISE_RELU_FWD`.
pub(super) const RELU: c_int = 100;
/// `CUDNN_PROPAGATE_NAN`: NaN stays NaN, which would otherwise become 0.
pub(super) const PROPAGATE_NAN: c_int = 1;

/// `cudnnDataType_t`.
pub(super) fn code(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => 2,
        DType::BF16 => 9,
        _ => FLOAT,
    }
}

/// A cuDNN call that failed.
#[derive(Debug)]
pub(super) struct Refused {
    call: &'static str,
    status: c_int,
    /// The subject of the call, the status's name, and cuDNN's message.
    pub(super) reason: String,
}

pub(super) type Answer<T> = std::result::Result<T, Refused>;

impl Refused {
    /// The error for an empty result.
    pub(super) fn empty(call: &'static str, what: String) -> Self {
        Self {
            call,
            status: 0,
            reason: format!("{what}: no value"),
        }
    }

    /// Whether the status only means that cuDNN does not support this.
    pub(super) fn is_not_supported(&self) -> bool {
        self.status / 1000 == 3
    }
}

impl From<Refused> for ModelError {
    fn from(refused: Refused) -> Self {
        failed(refused.call, &refused.reason)
    }
}

/// `None` if cuDNN does not support the request.
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

    /// Converts a status to a result; `what` is the subject of the call.
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

/// The version of the installed library as a number: 9.19.0 is 91900.
pub(super) fn version() -> std::result::Result<usize, GpuError> {
    let library = Version::load()?;
    // SAFETY: it only gives a number.
    Ok(unsafe { (library.cudnnGetVersion)() })
}

/// A version number in the notation of release notes.
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
