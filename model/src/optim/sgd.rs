//! Stochastic gradient descent with momentum.

use super::Step;
use super::sweep::{Kernel, Piece};

/// v ← μ v + g, θ ← θ − η v; Nesterov's form uses g + μ v instead of v.
///
/// Weight decay is added to the gradient.
///
/// # Source
/// Sutskever et al. 2013, in PyTorch's form, which multiplies the velocity, not the gradient, by the rate.
#[derive(Debug)]
pub(super) struct Sgd<'a>(pub(super) &'a Step<'a>);

impl Kernel for Sgd<'_> {
    #[inline(always)]
    fn run(&self, piece: Piece<'_>) -> [f64; 2] {
        let momentum = self.0.config.momentum;
        let (rate, decay, factor) = self.0.rate_decay_factor(piece.parameter);
        let velocity = piece.first.iter_mut();
        let all = piece.values.iter_mut().zip(piece.gradient).zip(velocity);
        if self.0.config.nesterov {
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
        self.0.squares(piece.values)
    }
}
