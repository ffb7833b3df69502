//! The upload of fields to a GPU, which normalises them itself.
//!
//! On the CPU the reader of fields normalises them in the same pass. A GPU gets them as they are stored: an
//! [`Uploader`] puts them into page-locked memory and begins a copy that runs while the GPU computes, and one kernel
//! turns them into the network's input when their turn comes. The arithmetic is the host's, (x − subtract) · factor in
//! f32 and a replacement for missing values, so the bits are the host's too.

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
    /// Single precision, in the machine's order of bytes.
    F32,
    /// Half precision.
    F16,
}

impl Stored {
    /// The bytes that one stored value takes.
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

/// How each channel is normalised: `(x − subtract) · factor`, and `fill` where that is NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// What is subtracted first, one value for each channel.
    pub subtract: Vec<f32>,
    /// What the difference is multiplied by, one value for each channel.
    pub factor: Vec<f32>,
    /// What stands for a missing value afterwards.
    pub fill: Vec<f32>,
}

/// Some of the samples that were sent together.
#[derive(Debug)]
pub struct Samples<'a> {
    /// The samples that were sent together, of which these are some.
    pub arriving: &'a Arriving,
    /// The index of the first of these among them.
    pub first: usize,
    /// The number of these.
    pub count: usize,
    /// The index of the uploader's scaling that they need.
    pub scaling: usize,
}

/// The channels of scalings; an error where they disagree.
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
