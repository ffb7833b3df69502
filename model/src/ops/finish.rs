//! The epilogue of a convolution: bias, residual and ReLU, applied to sums before they are written.

use super::value::Value;
use candle_core::Tensor;
use pulp::Simd;

/// The operation that a caller requests on a convolution's output before it is written.
#[derive(Debug, Clone, Copy)]
pub enum Fuse<'a> {
    /// Nothing.
    None,
    /// max(y, 0); NaN stays NaN, except that oneDNN maps it to 0 unless the field is f16.
    Relu,
    /// y + residual.
    Add(&'a Tensor),
    /// max(y + residual, 0), with NaN handled as in [`Self::Relu`].
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

/// max(x, floor), but NaN stays NaN; the maxima of processors and of Rust disagree on it.
#[inline(always)]
pub(crate) fn at_least<S: Simd>(simd: S, floor: S::f32s, x: S::f32s) -> S::f32s {
    simd.select_f32s(simd.less_than_f32s(x, floor), floor, x)
}

/// An epilogue for loops over values: + bias, + residual, ReLU, each optional.
#[derive(Clone, Copy)]
pub(crate) struct Finish<'a, V> {
    /// One value per channel.
    pub bias: Option<&'a [f32]>,
    /// Same shape as the output.
    pub residual: Option<&'a [V]>,
    pub relu: bool,
}

impl<V: Value> Finish<'_, V> {
    /// The empty epilogue.
    #[cfg(any(test, feature = "onednn"))]
    pub(crate) const NOTHING: Self = Self {
        bias: None,
        residual: None,
        relu: false,
    };

    /// Applies the epilogue to sums for channels `at..` of the pixel whose first value has index `pixel` in the output.
    /// Lanes of channels from `end` on are ignored. NaN stays NaN.
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
            sums = at_least(simd, simd.splat_f32s(0.0), sums);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::{Arch, Scalar, WithSimd};

    /// Replaces values by their ReLU.
    struct Relu<'a>(&'a mut [f32]);

    impl WithSimd for Relu<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let finish = Finish::<f32> {
                relu: true,
                ..Finish::NOTHING
            };
            let end = self.0.len();
            for at in (0..end).step_by(S::F32_LANES) {
                let x = f32::load(simd, &self.0[at..]);
                f32::store(simd, &mut self.0[at..], finish.apply(simd, x, 0, (at, end)));
            }
        }
    }

    /// Whether or not the processor has vectors: Rust's own maximum drops NaN.
    #[test]
    fn nan_and_the_sign_of_zero_pass_a_relu() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let x = [nan, -0.0, 0.0, -1.0, 2.0, inf, -inf, -nan, 1e-45, -1e-45];
        let (mut one_by_one, mut in_vectors) = (x, x);
        Relu(&mut one_by_one).with_simd(Scalar::new());
        Arch::new().dispatch(Relu(&mut in_vectors));
        let bits = |values: [f32; 10]| values.map(f32::to_bits);
        let expected = [nan, -0.0, 0.0, 0.0, 2.0, inf, 0.0, -nan, 1e-45, 0.0];
        assert_eq!(bits(one_by_one), bits(expected));
        assert_eq!(bits(in_vectors), bits(expected));
    }
}
