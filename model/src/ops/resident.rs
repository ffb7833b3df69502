//! Values of channels, gradients and marks, which lie in host memory or where the backend computes.
//!
//! On the CPU they are slices. On a GPU they are tensors that stay there from the forward to the backward pass, because
//! every look at them would stop it.

use super::{Backend, on_gpu};
use crate::error::Result;
#[cfg(feature = "cuda")]
use candle_core::Tensor;
use std::borrow::Cow;

/// One value for each channel.
#[derive(Debug, Clone)]
pub enum Channels<'a> {
    /// In host memory.
    Host(Cow<'a, [f32]>),
    /// On the GPU, f32.
    #[cfg(feature = "cuda")]
    Gpu(Tensor),
}

impl Channels<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(values) => values.len(),
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => values.elem_count(),
        }
    }

    /// Whether there are none.
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

    /// These values, owned.
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
    /// This many channels of one value, where this backend computes.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if a GPU has no memory for them.
    pub fn equal_channels(self, value: f32, count: usize) -> Result<Channels<'static>> {
        on_gpu!(self, super::cuda::filled(value, count).map(Channels::Gpu));
        Ok(vec![value; count].into())
    }
}

/// Where the gradient of a parameter is added.
#[derive(Debug)]
pub enum Landing<'a> {
    /// In host memory.
    Host(&'a mut [f32]),
    /// On the GPU, f32.
    #[cfg(feature = "cuda")]
    Gpu(Tensor),
}

impl<'a> Landing<'a> {
    /// How many values it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(values) => values.len(),
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => values.elem_count(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place, of operations on the CPU.
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

    /// This place, for one more use.
    pub(crate) fn again(&mut self) -> Landing<'_> {
        match self {
            Self::Host(values) => Landing::Host(values),
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => Landing::Gpu(values.clone()),
        }
    }

    /// As many pieces of equal length, one after the other.
    ///
    /// # Errors
    /// [`crate::ModelError::Candle`]
    pub(crate) fn pieces(self, count: usize) -> Result<Vec<Landing<'a>>> {
        let length = self.len() / count.max(1);
        match self {
            Self::Host(values) => {
                let pieces = values.chunks_exact_mut(length.max(1));
                Ok(pieces.take(count).map(Landing::Host).collect())
            }
            #[cfg(feature = "cuda")]
            Self::Gpu(values) => {
                let flat = values.flatten_all()?;
                (0..count)
                    .map(|at| Ok(Landing::Gpu(flat.narrow(0, at * length, length)?)))
                    .collect()
            }
        }
    }
}

impl<'a> From<&'a mut [f32]> for Landing<'a> {
    fn from(values: &'a mut [f32]) -> Self {
        Self::Host(values)
    }
}

impl<'a> From<&'a mut Vec<f32>> for Landing<'a> {
    fn from(values: &'a mut Vec<f32>) -> Self {
        Self::Host(values)
    }
}

impl<'a, const N: usize> From<&'a mut [f32; N]> for Landing<'a> {
    fn from(values: &'a mut [f32; N]) -> Self {
        Self::Host(values)
    }
}

/// Bytes that a forward pass leaves for the backward pass: winning cells, or one bit a value.
#[derive(Debug, Clone)]
pub enum Marks {
    /// In host memory.
    Host(Vec<u8>),
    /// On the GPU, u8.
    #[cfg(feature = "cuda")]
    Gpu(Tensor),
}

impl Marks {
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(bytes) => bytes.len(),
            #[cfg(feature = "cuda")]
            Self::Gpu(bytes) => bytes.elem_count(),
        }
    }

    /// Whether there are none.
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
