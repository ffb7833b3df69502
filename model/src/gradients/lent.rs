//! Gradients that are lent to another stream of the GPU, and a stand-in for builds without GPUs.

#[cfg(feature = "cuda")]
pub use crate::ops::cuda::Lent;

/// Values on a GPU; there is none in this build.
#[cfg(not(feature = "cuda"))]
#[derive(Debug)]
pub enum Lent {}

#[cfg(not(feature = "cuda"))]
impl Lent {
    /// How many values there are.
    pub fn len(&self) -> usize {
        match *self {}
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        match *self {}
    }
}
