//! Layer-wise adaptive rate control.

use serde::{Deserialize, Serialize};

/// LARC: each tensor's gradient is scaled so that its step is a fixed share of the tensor's norm.
///
/// With weight decay λ that is a part of the step, g + λ w is scaled, so that decay cannot pass the bound either. AdamW's
/// decay is none of the step: it is not scaled, and does not enter the local rate.
///
/// # Source
/// 1810.01993 section V-B and ClimDeepLearn: the local rate is η ‖w‖ / ‖g‖, or `epsilon` where either norm is 0; with
/// `clip` the gradient is scaled by min(local, rate) / rate, otherwise by the local rate. With weight decay the local
/// rate is η ‖w‖ / (‖g‖ + λ ‖w‖), as in LARS (You et al. 2017, arXiv:1708.03888) and Apex's `LARC`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Larc {
    /// η, the trust coefficient.
    pub eta: f32,
    /// The local rate where a norm is zero.
    pub epsilon: f32,
    /// Whether a step is never larger than without LARC.
    pub clip: bool,
}

impl Default for Larc {
    fn default() -> Self {
        Self {
            eta: 0.002,
            epsilon: 1.0 / 16000.0,
            clip: true,
        }
    }
}

impl Larc {
    /// The factor on the gradient of one tensor and on its `decay`, from ‖w‖ and ‖g‖.
    pub(super) fn factor(
        &self,
        weight_norm: f64,
        gradient_norm: f64,
        decay: f32,
        rate: f32,
    ) -> f32 {
        let local = if weight_norm > 0.0 && gradient_norm > 0.0 {
            let step_norm = gradient_norm + f64::from(decay) * weight_norm;
            // A ratio beyond f32 would be infinite, and would turn gradient values of 0 into NaN.
            (self.eta * (weight_norm / step_norm) as f32).min(f32::MAX)
        } else {
            self.epsilon
        };
        if !self.clip {
            local
        } else if rate > 0.0 {
            local.min(rate) / rate
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn the_published_formula() {
        let larc = Larc::default();
        // ‖w‖ = 5, ‖g‖ = 10: local 0.001, a tenth of the rate 0.01.
        assert_relative_eq!(larc.factor(5.0, 10.0, 0.0, 0.01), 0.1, epsilon = 1e-6);
        // Decay 6 of ‖w‖ = 5 is 30 beside ‖g‖ = 10: a quarter of that.
        assert_relative_eq!(larc.factor(5.0, 10.0, 6.0, 0.01), 0.025, epsilon = 1e-6);
        // Never more than without LARC.
        assert_eq!(larc.factor(5.0, 10.0, 0.0, 1e-4), 1.0);
        let scale = Larc {
            clip: false,
            ..larc
        };
        assert_relative_eq!(scale.factor(5.0, 10.0, 0.0, 0.01), 0.001, epsilon = 1e-9);
        // 1/16000 of the rate 0.01: 1/160.
        assert_relative_eq!(
            larc.factor(0.0, 10.0, 0.0, 0.01),
            1.0 / 160.0,
            epsilon = 1e-8
        );
        assert_eq!(larc.factor(5.0, 10.0, 0.0, 0.0), 0.0);
    }

    /// The gradient of a layer that is all but dead: one value of it is 1e-41, the others are 0.
    #[test]
    fn the_smallest_gradients_have_a_factor() {
        for clip in [true, false] {
            let larc = Larc {
                clip,
                ..Larc::default()
            };
            let factor = larc.factor(5.0, 1e-41, 0.0, 0.01);
            assert!(factor.is_finite() && factor >= 1.0, "{factor}");
        }
    }
}
