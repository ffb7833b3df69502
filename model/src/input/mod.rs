//! The upload of fields to a GPU, which normalises them there.
//!
//! On the CPU the reader of fields normalises them in the same pass. For a GPU fields are uploaded in their stored
//! type: an [`Uploader`] puts them into page-locked memory and starts a copy that overlaps with computation, and later
//! one kernel converts them to the network's input. The arithmetic is the host's, (x − subtract) · factor in f32 and a
//! replacement for missing values, so results are bit-identical.

#[cfg(not(feature = "cuda"))]
mod disabled;

#[cfg(feature = "cuda")]
pub use crate::ops::cuda::{Arriving, Uploader};
#[cfg(not(feature = "cuda"))]
pub use disabled::{Arriving, Uploader};

use crate::error::{ModelError, Result};
use candle_core::DType;

/// The type in which fields are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Single precision, in the machine's byte order.
    F32,
    /// Half precision.
    F16,
}

impl Stored {
    /// The size of a stored value in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.dtype().size_in_bytes()
    }

    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
        }
    }
}

/// The normalisation of each channel: `(x − subtract) · factor`, or `fill` where the result is NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// The offset per channel, subtracted first.
    pub subtract: Vec<f32>,
    /// The factor per channel.
    pub factor: Vec<f32>,
    /// The value per channel that replaces a missing one.
    pub fill: Vec<f32>,
}

/// A range of the samples of one upload.
#[derive(Debug)]
pub struct Samples<'a> {
    /// The upload.
    pub arriving: &'a Arriving,
    /// The index of the first sample of the range.
    pub first: usize,
    /// The number of samples.
    pub count: usize,
    /// The index of the uploader's scaling that applies to them.
    pub scaling: usize,
}

/// The number of channels of the scalings; an error if they disagree.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
pub(crate) fn channels(scalings: &[Scaling]) -> Result<usize> {
    let lengths = |s: &Scaling| [s.subtract.len(), s.factor.len(), s.fill.len()];
    let mut all = scalings.iter().flat_map(lengths);
    let expected = all.next().unwrap_or(0);
    match all.find(|&length| length != expected) {
        None if expected > 0 => Ok(expected),
        got => Err(ModelError::Shape {
            op: "normalisation of the input",
            what: "channels",
            expected: expected.to_string(),
            got: got.unwrap_or(0).to_string(),
        }),
    }
}
