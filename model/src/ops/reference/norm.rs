//! Batch normalisation, by its definition.
//!
//! Per channel: m = mean(x), v = mean((x − m)²), y = γ (x − m) / √(v + ε) + β, then optionally + residual, then ReLU.

use crate::ops::elementwise::rectified;

/// Mean and biased variance per channel of `x`, with `channels` innermost.
pub fn moments(x: &[f32], channels: usize) -> (Vec<f64>, Vec<f64>) {
    let count = (x.len() / channels) as f64;
    let mut mean = vec![0.0; channels];
    x.chunks_exact(channels).for_each(|pixel| {
        mean.iter_mut()
            .zip(pixel)
            .for_each(|(m, &v)| *m += f64::from(v) / count)
    });
    let mut variance = vec![0.0; channels];
    for pixel in x.chunks_exact(channels) {
        for c in 0..channels {
            variance[c] += (f64::from(pixel[c]) - mean[c]).powi(2) / count;
        }
    }
    (mean, variance)
}

/// x · scale + shift, + residual, ReLU.
pub fn apply(
    x: &[f32],
    scale: &[f32],
    shift: &[f32],
    residual: Option<&[f32]>,
    relu: bool,
) -> Vec<f32> {
    let channels = scale.len();
    let value = |index: usize| {
        let c = index % channels;
        let y = x[index] * scale[c] + shift[c] + residual.map_or(0.0, |r| r[index]);
        if relu { rectified(y) } else { y }
    };
    (0..x.len()).map(value).collect()
}

/// Sums over pixels of dy and of dy · x̂ per channel: the gradients of β and γ.
pub fn backward_sums(dy: &[f32], x: &[f32], mean: &[f32], inv_std: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let channels = mean.len();
    let (mut sum_dy, mut sum_dy_xhat) = (vec![0.0; channels], vec![0.0; channels]);
    for (dy_pixel, x_pixel) in dy.chunks_exact(channels).zip(x.chunks_exact(channels)) {
        for c in 0..channels {
            let xhat = f64::from((x_pixel[c] - mean[c]) * inv_std[c]);
            sum_dy[c] += f64::from(dy_pixel[c]);
            sum_dy_xhat[c] += f64::from(dy_pixel[c]) * xhat;
        }
    }
    (sum_dy, sum_dy_xhat)
}
