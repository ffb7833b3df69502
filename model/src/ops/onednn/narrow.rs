//! The gradient of a classifier's input: 1x1 kernels with very few outputs.
//!
//! oneDNN 2.6 computes it in bf16 by a matrix product that keeps an f32 result per thread: eight bytes per value of the
//! network's widest field, 1.8 GB at 768 x 1152. A few multiplications per value do not need that.

use crate::ops::conv_spec::Convolution;
use crate::ops::value::Value;
use candle_core::DType;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// The maximum number of outputs of a narrow kernel.
const MOST: usize = 8;

/// Whether these loops run. Depends on the geometry alone.
pub fn is_needed<V: Value>(geometry: &Convolution) -> bool {
    let spec = geometry.spec;
    let point = spec.kernel == (1, 1) && spec.stride == 1 && spec.padding == (0, 0);
    V::DTYPE == DType::BF16 && point && spec.groups == 1 && geometry.y[3] <= MOST
}

/// The gradient of the input.
pub fn backward_data<V: Value>(geometry: &Convolution, dy: &[V], weights: &[f32]) -> Vec<V> {
    let ([.., width, channels], outputs) = (geometry.x, geometry.y[3]);
    // Rounded as in oneDNN and the forward pass.
    let weights: Vec<f32> = weights.iter().map(|&w| V::narrow(w).widen()).collect();
    let weights = &weights[..];
    let mut dx = vec![V::default(); dy.len() / outputs * channels];
    let rows = dx.par_chunks_mut(width * channels);
    rows.zip(dy.par_chunks(width * outputs))
        .for_each(|(dx, dy)| {
            Arch::new().dispatch(Row {
                dx,
                dy,
                weights,
                size: (channels, outputs),
            });
        });
    dx
}

/// Computes a row of pixels.
struct Row<'a, V> {
    dx: &'a mut [V],
    dy: &'a [V],
    weights: &'a [f32],
    /// Input and output channels.
    size: (usize, usize),
}

impl<V: Value> WithSimd for Row<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (channels, outputs) = self.size;
        let pixels = (self.dx.chunks_exact_mut(channels)).zip(self.dy.chunks_exact(outputs));
        for (dx, dy) in pixels {
            for from in (0..channels).step_by(S::F32_LANES) {
                let mut sum = simd.splat_f32s(0.0);
                for (kernel, dy) in self.weights.chunks_exact(channels).zip(dy) {
                    let kernel = f32::load(simd, &kernel[from..]);
                    sum = simd.mul_add_f32s(simd.splat_f32s(dy.widen()), kernel, sum);
                }
                V::store(simd, &mut dx[from..], sum);
            }
        }
    }
}
