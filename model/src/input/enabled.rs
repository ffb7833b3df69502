//! Fields to the GPU of this process.

use super::{Samples, Scaling, Stored, channels};
use crate::error::{ModelError, Result};
use crate::ops::{Backend, cuda};
use candle_core::{DType, Tensor};

pub use cuda::Arriving;

/// Sends fields to the GPU, each batch into memory of its own, which later ones use again.
///
/// Threads may share it. With it goes the memory, once nothing of it is arriving any more.
#[derive(Debug)]
pub struct Uploader(cuda::Uploader);

impl Uploader {
    /// An uploader to where this backend computes, of fields that are stored so and normalised in one of these ways;
    /// none where the host normalises.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if scalings have unequal numbers of channels; [`ModelError::Gpu`].
    pub fn of(backend: Backend, stored: Stored, scalings: &[Scaling]) -> Result<Option<Self>> {
        if !backend.is_gpu() {
            return Ok(None);
        }
        let inner = cuda::Uploader::new(stored, scalings, channels(scalings)?)?;
        Ok(Some(Self(inner)))
    }

    /// Begins to copy samples, which may be changed as soon as this returns.
    ///
    /// # Errors
    /// [`ModelError::Gpu`], for instance if the GPU has no room for them.
    pub fn send(&self, bytes: &[u8]) -> Result<Arriving> {
        self.0.send(bytes)
    }

    /// The samples one after the other as `(b, h, w, c)`, normalised, on the GPU. Nothing is waited for.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if there are fewer samples of this size than asked for; [`ModelError::Gpu`].
    pub fn normalised(
        &self,
        samples: &[Samples<'_>],
        (h, w): (usize, usize),
        dtype: DType,
    ) -> Result<Tensor> {
        let channels = self.0.channels();
        let sample_bytes = h * w * channels * self.0.value_bytes();
        let wrong = |what, expected: usize, got: usize| ModelError::Shape {
            op: "normalisation of the input",
            what,
            expected: expected.to_string(),
            got: got.to_string(),
        };
        for part in samples {
            let (sent, end) = (part.arriving.bytes(), part.first + part.count);
            if sent < end * sample_bytes {
                return Err(wrong("bytes", end * sample_bytes, sent));
            }
            if part.scaling >= self.0.tables() {
                return Err(wrong("scalings", self.0.tables(), part.scaling));
            }
        }
        let b = samples.iter().map(|part| part.count).sum();
        if b * sample_bytes == 0 {
            return Err(wrong("samples", 1, 0));
        }
        self.0.normalised(samples, [b, h, w], dtype)
    }
}
