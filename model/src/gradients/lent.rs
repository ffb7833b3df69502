//! Gradients lent to another stream of the GPU, and a stand-in for builds without GPU support.

#[cfg(feature = "cuda")]
pub use crate::ops::cuda::Lent;

/// Values on a GPU; uninhabited in this build.
#[cfg(not(feature = "cuda"))]
#[derive(Debug)]
pub enum Lent {}

#[cfg(not(feature = "cuda"))]
impl Lent {
    /// The number of values.
    pub fn len(&self) -> usize {
        match *self {}
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        match *self {}
    }
}
