//! What a caller asks to happen to a convolution's output.

use candle_core::Tensor;

/// What happens to a convolution's output before it is written.
#[derive(Debug, Clone, Copy)]
pub enum Fuse<'a> {
    /// Nothing.
    None,
    /// max(y, 0); oneDNN turns NaN into 0 here.
    Relu,
    /// y + residual.
    Add(&'a Tensor),
    /// max(y + residual, 0).
    AddRelu(&'a Tensor),
}

impl<'a> Fuse<'a> {
    pub(crate) fn residual(&self) -> Option<&'a Tensor> {
        match self {
            Self::Add(residual) | Self::AddRelu(residual) => Some(residual),
            Self::None | Self::Relu => None,
        }
    }

    pub(crate) fn relu(&self) -> bool {
        matches!(self, Self::Relu | Self::AddRelu(_))
    }
}
