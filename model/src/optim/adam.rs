//! Adam, and AdamW: the same moments, weight decay beside them.

use super::sweep::{Kernel, Piece};
use crate::gradients::squares;

/// m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², θ ← θ − η m̂ / (√v̂ + ε) with m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ).
///
/// Adam adds weight decay to the gradient; AdamW shrinks the parameter by 1 − η λ instead.
///
/// # Source
/// Kingma & Ba 2015 (arXiv:1412.6980) algorithm 1; Loshchilov & Hutter 2019 (arXiv:1711.05101) algorithm 2.
#[derive(Debug)]
pub(super) struct Adam {
    pub(super) beta1: f32,
    pub(super) beta2: f32,
    pub(super) epsilon: f32,
    /// 1 / (1 − β₁ᵗ) and 1 / (1 − β₂ᵗ), or ones without bias correction.
    pub(super) unbias: (f32, f32),
    /// Whether the rule is AdamW.
    pub(super) decoupled: bool,
    /// Per parameter: learning rate, weight decay, and what the gradient is multiplied by.
    pub(super) rates: Vec<f32>,
    pub(super) decay: Vec<f32>,
    pub(super) factor: Vec<f32>,
    /// Whether Σ θ² of the new values is wanted.
    pub(super) norms: bool,
}

impl Kernel for Adam {
    #[inline(always)]
    fn run(&self, piece: Piece<'_>) -> [f64; 2] {
        let (beta1, beta2, epsilon) = (self.beta1, self.beta2, self.epsilon);
        // One division a value: with more, the divider and not the memory sets the pace.
        let rate = self.rates[piece.parameter];
        let (step_size, root) = (rate * self.unbias.0, self.unbias.1.sqrt());
        let (decay, factor) = (self.decay[piece.parameter], self.factor[piece.parameter]);
        let (l2, shrink) = if self.decoupled {
            (0.0, 1.0 - rate * decay)
        } else {
            (decay, 1.0)
        };
        let moments = piece.first.iter_mut().zip(piece.second);
        let values = piece.values.iter_mut().zip(piece.gradient);
        for ((value, &g), (m, v)) in values.zip(moments) {
            let g = factor * g + l2 * *value;
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *value = shrink * *value - step_size * *m / (v.sqrt() * root + epsilon);
        }
        let sum = if self.norms {
            squares(piece.values)
        } else {
            0.0
        };
        [sum, 0.0]
    }
}
