//! Layer-wise adaptive rate control.

use serde::{Deserialize, Serialize};

/// LARC: each tensor's gradient is scaled so that its step is a fixed share of the tensor's own norm.
///
/// # Source
/// 1810.01993 section V-B and ClimDeepLearn: the local rate is η ‖w‖ / ‖g‖, or `epsilon` where either norm is 0; with
/// `clip` the gradient is scaled by min(local, rate) / rate, otherwise by the local rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Larc {
    /// η, the trust coefficient.
    pub eta: f32,
    /// The local rate where a norm is zero.
    pub epsilon: f32,
    /// Never a larger step than without LARC.
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
    /// Scales the gradient of one tensor.
    pub(super) fn scale(&self, values: &[f32], gradient: &mut [f32], rate: f32) {
        let (weight_norm, gradient_norm) = (norm(values), norm(gradient));
        let local = if weight_norm > 0.0 && gradient_norm > 0.0 {
            self.eta * (weight_norm / gradient_norm) as f32
        } else {
            self.epsilon
        };
        let factor = if !self.clip {
            local
        } else if rate > 0.0 {
            local.min(rate) / rate
        } else {
            0.0
        };
        gradient.iter_mut().for_each(|g| *g *= factor);
    }
}

fn norm(values: &[f32]) -> f64 {
    let squares: f64 = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    squares.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn the_published_formula() {
        let larc = Larc::default();
        // ‖w‖ = 5, ‖g‖ = 10: local 0.001.
        let (weights, gradient) = ([3.0, 4.0], [6.0, 8.0]);
        let mut clipped = gradient;
        larc.scale(&weights, &mut clipped, 0.01);
        assert_relative_eq!(clipped[0], 0.6, epsilon = 1e-6);
        let mut never_more = gradient;
        larc.scale(&weights, &mut never_more, 1e-4);
        assert_relative_eq!(never_more[1], 8.0, epsilon = 1e-6);
        let mut free = gradient;
        Larc {
            clip: false,
            ..larc
        }
        .scale(&weights, &mut free, 0.01);
        assert_relative_eq!(free[1], 0.008, epsilon = 1e-6);
        let mut from_zero = gradient;
        larc.scale(&[0.0, 0.0], &mut from_zero, 0.01);
        assert_relative_eq!(from_zero[0], 6.0 / 160.0, epsilon = 1e-6);
    }
}
