//! Batch normalisation in as few passes over memory as possible.

use super::CHUNK;
use rayon::prelude::*;

/// Whole pixels per chunk.
fn chunk_len(channels: usize) -> usize {
    (CHUNK / channels).max(1) * channels
}

/// Mean and (biased) variance per channel, in one pass over memory: each chunk is read twice while it is in cache.
///
/// Chunks are merged by the parallel-variance formula of Chan, Golub and LeVeque (1983).
pub fn moments(x: &[f32], channels: usize) -> (Vec<f64>, Vec<f64>) {
    let partials: Vec<(f64, Vec<f32>, Vec<f32>)> = x
        .par_chunks(chunk_len(channels))
        .map(|chunk| {
            let count = (chunk.len() / channels) as f32;
            let mut mean = vec![0.0f32; channels];
            chunk
                .chunks_exact(channels)
                .for_each(|pixel| mean.iter_mut().zip(pixel).for_each(|(m, v)| *m += v));
            mean.iter_mut().for_each(|m| *m /= count);
            let mut square = vec![0.0f32; channels];
            for pixel in chunk.chunks_exact(channels) {
                for ((s, v), m) in square.iter_mut().zip(pixel).zip(&mean) {
                    *s += (v - m) * (v - m);
                }
            }
            (f64::from(count), mean, square)
        })
        .collect();
    let (mut count, mut mean, mut square) = (0.0, vec![0.0; channels], vec![0.0; channels]);
    for (n, chunk_mean, chunk_square) in partials {
        let total = count + n;
        for c in 0..channels {
            let delta = f64::from(chunk_mean[c]) - mean[c];
            mean[c] += delta * n / total;
            square[c] += f64::from(chunk_square[c]) + delta * delta * count * n / total;
        }
        count = total;
    }
    square.iter_mut().for_each(|s| *s /= count);
    (mean, square)
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
    let length = chunk_len(channels);
    let mut y = vec![0.0; x.len()];
    let floor = if relu { 0.0 } else { f32::NEG_INFINITY };
    y.par_chunks_mut(length).enumerate().for_each(|(index, y)| {
        let range = index * length..index * length + y.len();
        let pixels = y
            .chunks_exact_mut(channels)
            .zip(x[range.clone()].chunks_exact(channels));
        match residual {
            None => pixels.for_each(|(y, x)| {
                for c in 0..channels {
                    y[c] = (x[c] * scale[c] + shift[c]).max(floor);
                }
            }),
            Some(residual) => {
                pixels
                    .zip(residual[range].chunks_exact(channels))
                    .for_each(|((y, x), r)| {
                        for c in 0..channels {
                            y[c] = (x[c] * scale[c] + shift[c] + r[c]).max(floor);
                        }
                    })
            }
        }
    });
    y
}

/// What the backward pass reads. The gradient counts only where `gate` (the output of a ReLU) is above 0.
#[derive(Clone, Copy)]
pub struct Operands<'a> {
    pub dy: &'a [f32],
    pub x: &'a [f32],
    pub gate: Option<&'a [f32]>,
}

impl<'a> Operands<'a> {
    /// The same values of each operand. Without a gate, any other operand stands in for it.
    fn part(&self, range: std::ops::Range<usize>) -> [&'a [f32]; 3] {
        let gate = self.gate.unwrap_or(self.dy);
        [
            &self.dy[range.clone()],
            &self.x[range.clone()],
            &gate[range],
        ]
    }
}

/// Sums over pixels of the gradient and of the gradient · x̂ per channel.
pub fn backward_sums(
    operands: Operands<'_>,
    mean: &[f32],
    inv_std: &[f32],
) -> (Vec<f64>, Vec<f64>) {
    let (channels, gated) = (mean.len(), operands.gate.is_some());
    let (length, total) = (chunk_len(mean.len()), operands.dy.len());
    let partials: Vec<(Vec<f32>, Vec<f32>)> = (0..total.div_ceil(length))
        .into_par_iter()
        .map(|index| {
            let range = index * length..total.min((index + 1) * length);
            let [dy, x, gate] = operands.part(range);
            let (mut sum, mut sum_x) = (vec![0.0f32; channels], vec![0.0f32; channels]);
            let pixels = dy
                .chunks_exact(channels)
                .zip(x.chunks_exact(channels))
                .zip(gate.chunks_exact(channels));
            for ((dy, x), gate) in pixels {
                for c in 0..channels {
                    let g = if gate[c] > 0.0 || !gated { dy[c] } else { 0.0 };
                    sum[c] += g;
                    sum_x[c] += g * ((x[c] - mean[c]) * inv_std[c]);
                }
            }
            (sum, sum_x)
        })
        .collect();
    let (mut sum, mut sum_x) = (vec![0.0; channels], vec![0.0; channels]);
    for (part, part_x) in partials {
        for c in 0..channels {
            sum[c] += f64::from(part[c]);
            sum_x[c] += f64::from(part_x[c]);
        }
    }
    (sum, sum_x)
}

/// a · gradient + b · x + c per channel.
pub fn backward_apply(operands: Operands<'_>, a: &[f32], b: &[f32], c: &[f32]) -> Vec<f32> {
    let (channels, gated) = (a.len(), operands.gate.is_some());
    let length = chunk_len(channels);
    let mut dx = vec![0.0; operands.dy.len()];
    dx.par_chunks_mut(length)
        .enumerate()
        .for_each(|(index, dx)| {
            let [dy, x, gate] = operands.part(index * length..index * length + dx.len());
            let pixels = dx
                .chunks_exact_mut(channels)
                .zip(dy.chunks_exact(channels))
                .zip(x.chunks_exact(channels))
                .zip(gate.chunks_exact(channels));
            for (((dx, dy), x), gate) in pixels {
                for i in 0..channels {
                    let g = if gate[i] > 0.0 || !gated { dy[i] } else { 0.0 };
                    dx[i] = a[i] * g + (b[i] * x[i] + c[i]);
                }
            }
        });
    dx
}
