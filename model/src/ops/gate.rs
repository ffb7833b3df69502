//! The channel gate: multiplies every channel of a sample by a number between 0 and 1.
//!
//! y = x σ(z), σ(z) = 1 / (1 + exp(−z)); dx = dy σ(z), dz = σ(z) (1 − σ(z)) Σ dy x over the pixels of a sample.

use super::fast::whole_pixels;
use super::host::{Host, bhwc, expect, tensor};
use super::{Backend, Cpu, on_gpu};
use crate::error::Result;
use candle_core::Tensor;
use rayon::prelude::*;

fn sigmoid(z: &[f32]) -> Vec<f32> {
    z.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect()
}

impl Backend {
    /// Multiplies x by σ(z) of its sample and channel.
    ///
    /// # Shapes
    /// x `(b, h, w, c)`, z `(b, 1, 1, c)` → as x
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn gate(self, x: &Tensor, z: &Tensor) -> Result<Tensor> {
        let shape @ [b, _, _, c] = bhwc("gate", "x", x)?;
        expect("gate", "z", &[b, 1, 1, c][..], z.dims())?;
        on_gpu!(self, super::cuda::gate(x, z, shape));
        let factors = sigmoid(&Host::of("gate", z)?);
        let y = self.times(&Host::of("gate", x)?, shape, &factors);
        tensor(y, &shape, x.dtype())
    }

    /// The gradients of [`Self::gate`] with respect to x and z.
    ///
    /// # Shapes
    /// dy and x `(b, h, w, c)`, z `(b, 1, 1, c)` → as x, as z
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn gate_backward(self, dy: &Tensor, x: &Tensor, z: &Tensor) -> Result<(Tensor, Tensor)> {
        let op = "gate_backward";
        let shape @ [b, h, w, c] = bhwc(op, "x", x)?;
        expect(op, "dy", x.dims(), dy.dims())?;
        expect(op, "z", &[b, 1, 1, c][..], z.dims())?;
        on_gpu!(self, super::cuda::gate_backward(dy, x, z, shape));
        let factors = sigmoid(&Host::of(op, z)?);
        let (grad, values) = (Host::of(op, dy)?, Host::of(op, x)?);
        let mut dz = Vec::with_capacity(b * c);
        let samples = (grad.chunks_exact(h * w * c)).zip(values.chunks_exact(h * w * c));
        for ((dy, x), factors) in samples.zip(factors.chunks_exact(c)) {
            let sums = match self.on_cpu() {
                Cpu::Reference => plain_sums(dy, x, c),
                Cpu::Fast => parallel_sums(dy, x, c),
            };
            let slope = |f: &f32| f64::from(f * (1.0 - f));
            dz.extend(
                sums.iter()
                    .zip(factors)
                    .map(|(sum, f)| (sum * slope(f)) as f32),
            );
        }
        let dx = self.times(&grad, shape, &factors);
        Ok((
            tensor(dx, &shape, dy.dtype())?,
            tensor(dz, &[b, 1, 1, c], z.dtype())?,
        ))
    }

    /// Multiplies every value by the factor of its sample and channel.
    fn times(self, x: &[f32], [_, h, w, c]: [usize; 4], factors: &[f32]) -> Vec<f32> {
        match self.on_cpu() {
            Cpu::Reference => {
                let factor = |index: usize| factors[index / (h * w * c) * c + index % c];
                let value = |(index, x): (usize, &f32)| x * factor(index);
                x.iter().enumerate().map(value).collect()
            }
            Cpu::Fast => {
                let mut y = vec![0.0; x.len()];
                let rows = y.par_chunks_mut(w * c).zip(x.par_chunks(w * c));
                rows.enumerate().for_each(|(row, (y, x))| {
                    let factors = &factors[row / h * c..][..c];
                    for (y, x) in y.chunks_exact_mut(c).zip(x.chunks_exact(c)) {
                        for i in 0..c {
                            y[i] = x[i] * factors[i];
                        }
                    }
                });
                y
            }
        }
    }
}

/// Σ dy x per channel.
fn plain_sums(dy: &[f32], x: &[f32], channels: usize) -> Vec<f64> {
    let mut sums = vec![0.0; channels];
    for (index, (dy, x)) in dy.iter().zip(x).enumerate() {
        sums[index % channels] += f64::from(*dy) * f64::from(*x);
    }
    sums
}

/// Σ dy x per channel, chunk by chunk; chunks do not depend on the number of threads, so results are reproducible.
fn parallel_sums(dy: &[f32], x: &[f32], channels: usize) -> Vec<f64> {
    let length = whole_pixels(channels);
    let partials: Vec<Vec<f32>> = (dy.par_chunks(length).zip(x.par_chunks(length)))
        .map(|(dy, x)| {
            let mut sums = vec![0.0f32; channels];
            for (dy, x) in dy.chunks_exact(channels).zip(x.chunks_exact(channels)) {
                for c in 0..channels {
                    sums[c] += dy[c] * x[c];
                }
            }
            sums
        })
        .collect();
    let mut sums = vec![0.0; channels];
    for part in partials {
        sums.iter_mut()
            .zip(part)
            .for_each(|(sum, part)| *sum += f64::from(part));
    }
    sums
}
