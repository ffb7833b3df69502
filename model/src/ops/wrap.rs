//! Padding on all four sides with values from the opposite side, with the same loops for every backend.
//!
//! Only for weights trained this way. On a globe it is wrong in latitude, and [`super::ConvSpec`] wraps longitude
//! without a copy.

use super::host::{Host, bhwc, expect, tensor};
use super::{Backend, on_gpu};
use crate::error::Result;
use candle_core::Tensor;
use rayon::prelude::*;

/// The position in the field that position `at` of the padded field copies.
fn origin(at: usize, margin: usize, extent: usize) -> usize {
    (at + extent * margin.div_ceil(extent) - margin) % extent
}

impl Backend {
    /// Pads x with `margin` rows and columns on each side, copied from the opposite side.
    ///
    /// # Shapes
    /// `(b, h, w, c)` → `(b, h + 2 margin, w + 2 margin, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if x is not BHWC.
    pub fn wrap(self, x: &Tensor, margin: usize) -> Result<Tensor> {
        let [b, h, w, c] = bhwc("wrap", "x", x)?;
        let (tall, wide) = (h + 2 * margin, w + 2 * margin);
        on_gpu!(self, super::cuda::wrap(x, [b, h, w, c], margin));
        let host = Host::of("wrap", x)?;
        let values: &[f32] = &host;
        let mut y = vec![0.0; b * tall * wide * c];
        y.par_chunks_mut(wide * c).enumerate().for_each(|(row, y)| {
            let from = row / tall * h + origin(row % tall, margin, h);
            let x = &values[from * w * c..][..w * c];
            for (column, y) in y.chunks_exact_mut(c).enumerate() {
                y.copy_from_slice(&x[origin(column, margin, w) * c..][..c]);
            }
        });
        tensor(y, &[b, tall, wide, c], x.dtype())
    }

    /// The gradient of [`Self::wrap`] with respect to its input.
    ///
    /// # Shapes
    /// dy `(b, h + 2 margin, w + 2 margin, c)` → `x_shape`, `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if dy does not have the shape of the padded field.
    pub fn wrap_backward(self, dy: &Tensor, x_shape: [usize; 4], margin: usize) -> Result<Tensor> {
        let ([b, h, w, c], op) = (x_shape, "wrap_backward");
        let (tall, wide) = (h + 2 * margin, w + 2 * margin);
        expect(op, "dy", [b, tall, wide, c], bhwc(op, "dy", dy)?)?;
        on_gpu!(self, super::cuda::wrap_backward(dy, x_shape, margin));
        let host = Host::of(op, dy)?;
        let grad: &[f32] = &host;
        let mut dx = vec![0.0; b * h * w * c];
        dx.par_chunks_mut(w * c).enumerate().for_each(|(row, dx)| {
            let (sample, h_to) = (row / h, row % h);
            for at in (0..tall).filter(|&at| origin(at, margin, h) == h_to) {
                let dy = &grad[(sample * tall + at) * wide * c..][..wide * c];
                for (column, dy) in dy.chunks_exact(c).enumerate() {
                    let dx = &mut dx[origin(column, margin, w) * c..][..c];
                    dx.iter_mut().zip(dy).for_each(|(dx, g)| *dx += g);
                }
            }
        });
        tensor(dx, &x_shape, dy.dtype())
    }
}
