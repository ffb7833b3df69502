//! Channel values, gradient buffers and marks, in host memory or on the device of the backend.
//!
//! On the CPU they are slices. On a GPU they are tensors that stay on the device from the forward to the backward pass,
//! because reading them would synchronise.

use super::{Backend, on_gpu};
use crate::error::Result;
#[cfg(feature = "cuda")]
use candle_core::Tensor;
use std::borrow::Cow;

/// One value per channel.
#[derive(Debug, Clone)]
pub enum Channels<'a> {
    /// In host memory.
    Host(Cow<'a, [f32]>),
    /// On the GPU, f32.
    #[cfg(feature = "cuda")]
    Gpu(Tensor),
}

impl Channels<'_> {
    /// The number of channels.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(values) => values.len(),
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => values.elem_count(),
        }
    }

    /// Whether there are no channels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values, copied if they lie on the GPU.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if they cannot be read.
    pub fn host(&self) -> Result<Cow<'_, [f32]>> {
        match self {
            Self::Host(values) => Ok(Cow::Borrowed(values)),
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => Ok(Cow::Owned(super::cuda::read(values)?)),
        }
    }

    /// These values with ownership.
    pub fn into_owned(self) -> Channels<'static> {
        match self {
            Self::Host(values) => Channels::Host(Cow::Owned(values.into_owned())),
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => Channels::Gpu(values),
        }
    }
}

impl<'a> From<&'a [f32]> for Channels<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self::Host(Cow::Borrowed(values))
    }
}

impl<'a> From<&'a Vec<f32>> for Channels<'a> {
    fn from(values: &'a Vec<f32>) -> Self {
        Self::Host(Cow::Borrowed(values))
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Channels<'a> {
    fn from(values: &'a [f32; N]) -> Self {
        Self::Host(Cow::Borrowed(values))
    }
}

impl From<Vec<f32>> for Channels<'static> {
    fn from(values: Vec<f32>) -> Self {
        Self::Host(Cow::Owned(values))
    }
}

impl<'a> From<&'a Channels<'_>> for Channels<'a> {
    fn from(values: &'a Channels<'_>) -> Self {
        match values {
            Channels::Host(values) => Self::Host(Cow::Borrowed(values)),
            #[cfg(feature = "cuda")]
            Channels::Gpu(values) => Self::Gpu(values.clone()),
        }
    }
}

impl Backend {
    /// `count` channels of the same value, on the device of the backend.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if the GPU is out of memory.
    pub fn equal_channels(self, value: f32, count: usize) -> Result<Channels<'static>> {
        on_gpu!(self, super::cuda::filled(value, count).map(Channels::Gpu));
        Ok(vec![value; count].into())
    }
}

/// The buffer to which the gradient of a parameter is added.
#[derive(Debug)]
pub enum GradientSink<'a> {
    /// In host memory.
    Host(&'a mut [f32]),
    /// On the GPU, f32.
    #[cfg(feature = "cuda")]
    Gpu(Tensor),
}

impl<'a> GradientSink<'a> {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(values) => values.len(),
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => values.elem_count(),
        }
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slice, for operations on the CPU.
    ///
    /// # Errors
    /// [`crate::ModelError::Config`] if it lies on the GPU.
    pub(crate) fn host(self) -> Result<&'a mut [f32]> {
        match self {
            Self::Host(values) => Ok(values),
            #[cfg(feature = "cuda")]
            Self::Gpu(_) => Err(crate::ModelError::Config {
                key: "backend",
                reason: "gradients on the GPU are added to by operations on the GPU".into(),
            }),
        }
    }

    /// A reborrow of this buffer, for a further use.
    pub(crate) fn again(&mut self) -> GradientSink<'_> {
        match self {
            Self::Host(values) => GradientSink::Host(values),
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => GradientSink::Gpu(values.clone()),
        }
    }

    /// Splits the buffer into `count` consecutive pieces of equal length.
    ///
    /// # Errors
    /// [`crate::ModelError::Candle`]
    pub(crate) fn pieces(self, count: usize) -> Result<Vec<GradientSink<'a>>> {
        let length = self.len() / count.max(1);
        match self {
            Self::Host(values) => {
                let pieces = values.chunks_exact_mut(length.max(1));
                Ok(pieces.take(count).map(GradientSink::Host).collect())
            }
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => {
                let flat = values.flatten_all()?;
                (0..count)
                    .map(|at| Ok(GradientSink::Gpu(flat.narrow(0, at * length, length)?)))
                    .collect()
            }
        }
    }
}

impl<'a> From<&'a mut [f32]> for GradientSink<'a> {
    fn from(values: &'a mut [f32]) -> Self {
        Self::Host(values)
    }
}

impl<'a> From<&'a mut Vec<f32>> for GradientSink<'a> {
    fn from(values: &'a mut Vec<f32>) -> Self {
        Self::Host(values)
    }
}

impl<'a, const N: usize> From<&'a mut [f32; N]> for GradientSink<'a> {
    fn from(values: &'a mut [f32; N]) -> Self {
        Self::Host(values)
    }
}

/// Bytes that a forward pass keeps for the backward pass: winning cells of max pooling, or one bit per value.
#[derive(Debug, Clone)]
pub enum Marks {
    /// In host memory.
    Host(Vec<u8>),
    /// On the GPU, u8.
    #[cfg(feature = "cuda")]
    Gpu(Tensor),
}

impl Marks {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(bytes) => bytes.len(),
            #[cfg(feature = "cuda")]
            Self::Gpu(bytes) => bytes.elem_count(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, copied if they lie on the GPU.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if they cannot be read.
    pub fn host(&self) -> Result<Cow<'_, [u8]>> {
        match self {
            Self::Host(bytes) => Ok(Cow::Borrowed(bytes)),
            #[cfg(feature = "cuda")]
            Self::Gpu(bytes) => Ok(Cow::Owned(super::cuda::read(bytes)?)),
        }
    }
}

impl From<Vec<u8>> for Marks {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Host(bytes)
    }
}
