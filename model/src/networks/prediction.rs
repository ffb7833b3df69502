//! Classes and probabilities from logits.

use crate::error::Result;
use crate::ops::Backend;
use candle_core::Tensor;

/// The class of every pixel of a batch, and the probability of each class.
#[derive(Debug)]
pub struct Prediction {
    /// The most probable class, b · h · w codes; [`NO_CLASS`](crate::ops::loss::NO_CLASS) where a logit is NaN or
    /// infinite.
    pub classes: Vec<u8>,
    /// `(b, h, w, k)`, f32, if requested.
    pub probabilities: Option<Tensor>,
}

impl Prediction {
    /// Classifies logits `(b, h, w, k)`, with probabilities if requested.
    pub(super) fn from_logits(
        backend: Backend,
        logits: &Tensor,
        probabilities: bool,
    ) -> Result<Self> {
        Ok(Self {
            classes: backend.argmax(logits)?,
            probabilities: probabilities
                .then(|| backend.to_host(&backend.softmax(logits)?))
                .transpose()?,
        })
    }
}
