//! Stochastic gradient descent with momentum.

use super::sweep::{Kernel, Piece};
use crate::gradients::squares;

/// v ← μ v + g, θ ← θ − η v; Nesterov's form takes g + μ v instead of v.
///
/// Weight decay is added to the gradient.
///
/// # Source
/// Sutskever et al. 2013, in PyTorch's form, where the rate multiplies the velocity and not the gradient.
#[derive(Debug)]
pub(super) struct Sgd {
    pub(super) momentum: f32,
    pub(super) nesterov: bool,
    /// Per parameter: learning rate, weight decay, and what the gradient is multiplied by.
    pub(super) rates: Vec<f32>,
    pub(super) decay: Vec<f32>,
    pub(super) factor: Vec<f32>,
    /// Whether Σ θ² of the new values is wanted.
    pub(super) norms: bool,
}

impl Kernel for Sgd {
    #[inline(always)]
    fn run(&self, piece: Piece<'_>) -> [f64; 2] {
        let (momentum, rate) = (self.momentum, self.rates[piece.parameter]);
        let (decay, factor) = (self.decay[piece.parameter], self.factor[piece.parameter]);
        let velocity = piece.first.iter_mut();
        let all = piece.values.iter_mut().zip(piece.gradient).zip(velocity);
        if self.nesterov {
            for ((value, &g), v) in all {
                let g = factor * g + decay * *value;
                *v = momentum * *v + g;
                *value -= rate * (g + momentum * *v);
            }
        } else {
            for ((value, &g), v) in all {
                *v = momentum * *v + (factor * g + decay * *value);
                *value -= rate * *v;
            }
        }
        let sum = if self.norms {
            squares(piece.values)
        } else {
            0.0
        };
        [sum, 0.0]
    }
}
