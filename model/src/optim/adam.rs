//! Adam and AdamW: the same moments, with coupled or decoupled weight decay.

use super::Step;
use super::sweep::{Kernel, Piece};

/// m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², θ ← θ − η m̂ / (√v̂ + ε) with m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ).
///
/// Adam adds weight decay to the gradient; AdamW shrinks the parameter by 1 − η λ instead.
///
/// # Source
/// Kingma & Ba 2015 (arXiv:1412.6980) algorithm 1; Loshchilov & Hutter 2019 (arXiv:1711.05101) algorithm 2.
#[derive(Debug)]
pub(super) struct Adam<'a>(pub(super) &'a Step<'a>);

impl Kernel for Adam<'_> {
    #[inline(always)]
    fn run(&self, piece: Piece<'_>) -> [f64; 2] {
        let &Step { config, unbias, .. } = self.0;
        let (beta1, beta2, epsilon) = (config.beta1, config.beta2, config.epsilon);
        let (rate, decay, factor) = self.0.rate_decay_factor(piece.parameter);
        // One division per value: with more, the sweep would be bound by the divider rather than by memory.
        let (step_size, root) = (rate * unbias.0, unbias.1.sqrt());
        let (l2, shrink) = match config.rule.shrinks() {
            true => (0.0, 1.0 - rate * decay),
            false => (decay, 1.0),
        };
        let moments = piece.first.iter_mut().zip(piece.second);
        let values = piece.values.iter_mut().zip(piece.gradient);
        for ((value, &g), (m, v)) in values.zip(moments) {
            let g = factor * g + l2 * *value;
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *value = shrink * *value - step_size * *m / (v.sqrt() * root + epsilon);
        }
        self.0.squares(piece.values)
    }
}
