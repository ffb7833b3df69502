//! LAMB: Adam's direction, with a step of each tensor that is a share of the tensor's own norm.

use super::sweep::{Memory, Place, per_parameter, sweep};
use crate::parameters::squares;

/// Values whose direction is kept between two loops.
const BLOCK: usize = 256;

/// u = m̂ / (√v̂ + ε) + λ θ, θ ← θ − η r u with r = ‖θ‖ / ‖u‖ of each tensor.
///
/// r is 1 where a norm is zero and for tensors without weight decay (Apex's `use_nvlamb = False`). The gradient was
/// clipped before. Two passes over memory: the first moves the moments and sums both norms, the second computes u again,
/// which reads no more than a stored u would.
///
/// # Source
/// You et al. 2020 (arXiv:1904.00962) algorithm 2, as Apex's `multi_tensor_lamb.cu` has it, which MLPerf HPC DeepCAM uses.
#[derive(Debug)]
pub(super) struct Lamb {
    pub(super) beta1: f32,
    /// What the gradient enters the first moment with: 1 − β₁ with gradient averaging, else 1.
    pub(super) beta3: f32,
    pub(super) beta2: f32,
    pub(super) epsilon: f32,
    /// 1 / (1 − β₁ᵗ) and 1 / (1 − β₂ᵗ), or ones without bias correction.
    pub(super) unbias: (f32, f32),
    pub(super) rate: f32,
    /// Per parameter: weight decay, and what the gradient is multiplied by.
    pub(super) decay: Vec<f32>,
    pub(super) factor: Vec<f32>,
}

impl Lamb {
    /// One step of all parameters.
    pub(super) fn step(&self, places: &[Place], mut memory: Memory<'_>) {
        let (beta1, beta2, beta3) = (self.beta1, self.beta2, self.beta3);
        let sums = sweep(places, memory.without_mirror(), |piece| {
            let (decay, factor) = (self.decay[piece.parameter], self.factor[piece.parameter]);
            let mut squared = 0.0;
            // In blocks: a loop that also adds to one sum in f64 would run one value at a time.
            let blocks = (piece.values.chunks(BLOCK).zip(piece.gradient.chunks(BLOCK))).zip(
                piece
                    .first
                    .chunks_mut(BLOCK)
                    .zip(piece.second.chunks_mut(BLOCK)),
            );
            for ((values, gradient), (first, second)) in blocks {
                let mut direction = [0.0; BLOCK];
                let moments = first.iter_mut().zip(second);
                let all = values.iter().zip(gradient).zip(moments);
                for (((&value, &g), (m, v)), u) in all.zip(&mut direction) {
                    let g = factor * g;
                    *m = beta1 * *m + beta3 * g;
                    *v = beta2 * *v + (1.0 - beta2) * g * g;
                    *u = self.direction(value, *m, *v, decay);
                }
                squared += squares(&direction[..values.len()]);
            }
            [squares(piece.values), squared]
        });
        let rates: Vec<f32> = (per_parameter(places, sums).iter().zip(&self.decay))
            .map(|(&sums, &decay)| self.rate * trust(sums, decay))
            .collect();
        sweep(places, memory, |piece| {
            let (decay, rate) = (self.decay[piece.parameter], rates[piece.parameter]);
            let moments = piece.first.iter().zip(piece.second.iter());
            for (value, (&m, &v)) in piece.values.iter_mut().zip(moments) {
                *value -= rate * self.direction(*value, m, v, decay);
            }
        });
    }

    fn direction(&self, value: f32, m: f32, v: f32, decay: f32) -> f32 {
        let (first, second) = self.unbias;
        (m * first) / ((v * second).sqrt() + self.epsilon) + decay * value
    }
}

/// r of one tensor, from Σ θ² and Σ u².
fn trust([values, direction]: [f64; 2], decay: f32) -> f32 {
    if decay != 0.0 && values > 0.0 && direction > 0.0 {
        (values.sqrt() / direction.sqrt()) as f32
    } else {
        1.0
    }
}
