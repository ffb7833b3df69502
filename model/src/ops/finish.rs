//! What happens to a convolution's sums before they are written.

use super::value::Value;
use candle_core::Tensor;
use pulp::Simd;

/// What a caller asks to happen to a convolution's output before it is written.
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

/// The same for loops over values: + bias, + residual, ReLU; each if it is there.
#[derive(Clone, Copy)]
pub(crate) struct Finish<'a, V> {
    /// Per channel.
    pub bias: Option<&'a [f32]>,
    /// As large as the output.
    pub residual: Option<&'a [V]>,
    pub relu: bool,
}

impl<V: Value> Finish<'_, V> {
    /// Nothing happens.
    #[cfg(any(test, feature = "onednn"))]
    pub(crate) const NOTHING: Self = Self {
        bias: None,
        residual: None,
        relu: false,
    };

    /// The finished sums of channels `at..` of the pixel whose first value is number `pixel` of the output; channels
    /// from `end` on do not matter. NaN stays NaN.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(
        &self,
        simd: S,
        mut sums: S::f32s,
        pixel: usize,
        (at, end): (usize, usize),
    ) -> S::f32s {
        if let Some(bias) = self.bias {
            sums = simd.add_f32s(sums, f32::load(simd, &bias[at..end]));
        }
        if let Some(residual) = self.residual {
            let residual = &residual[pixel + at..pixel + end];
            sums = simd.add_f32s(sums, V::load(simd, residual));
        }
        if self.relu {
            // In this order: of NaN and a number, the maximum is the second operand.
            sums = simd.max_f32s(simd.splat_f32s(0.0), sums);
        }
        sums
    }
}
