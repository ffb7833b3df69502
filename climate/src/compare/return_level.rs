//! Return levels: a generalised extreme value distribution fitted to annual maxima by L-moments.

use serde::{Deserialize, Serialize};

/// Minimum number of annual maxima for a fit of three parameters.
pub const MIN_MAXIMA: usize = 10;

/// A generalised extreme value distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gev {
    /// Location, in the unit of the maxima.
    pub location: f64,
    /// Scale, in the unit of the maxima; above 0.
    pub scale: f64,
    /// Shape ξ: the tail is heavy if positive, bounded if negative.
    pub shape: f64,
}

impl Gev {
    /// Fits the distribution to ascending maxima by L-moments; `None` for fewer than [`MIN_MAXIMA`] maxima or equal
    /// values.
    ///
    /// # Source
    /// Hosking, Wallis and Wood 1985, Technometrics 27, 251-261 (there k = -ξ): the approximation of k from τ₃, with an
    /// error below 9e-4 for |τ₃| < 0.5. L-moments by the unbiased estimators of Hosking 1990.
    pub(crate) fn fit(sorted: &[f64]) -> Option<Self> {
        if sorted.len() < MIN_MAXIMA {
            return None;
        }
        let moments = l_moments(sorted);
        let [mean, l2, skewness] = moments;
        if l2 <= 1e-12 * mean.abs().max(1e-300) {
            return None;
        }
        let c = 2.0 / (3.0 + skewness) - 2f64.ln() / 3f64.ln();
        let k = 7.8590 * c + 2.9554 * c * c;
        let fitted = Self::of_l_moments(moments, -k);
        (fitted.scale.is_finite() && fitted.scale > 0.0).then_some(fitted)
    }

    /// The distribution with this shape and the first two of these L-moments.
    pub(crate) fn of_l_moments([mean, l2, _]: [f64; 3], shape: f64) -> Self {
        let k = -shape;
        let (scale, location) = if k.abs() < 1e-6 {
            let scale = l2 / 2f64.ln();
            (scale, mean - 0.577_215_664_901_532_9 * scale)
        } else {
            let gamma = gamma(1.0 + k);
            let scale = l2 * k / ((1.0 - 2f64.powf(-k)) * gamma);
            (scale, mean - scale * (1.0 - gamma) / k)
        };
        Self {
            location,
            scale,
            shape,
        }
    }

    /// The value that a fraction `probability` of years stays below.
    pub fn quantile(&self, probability: f64) -> f64 {
        let y = -(-probability.ln()).ln();
        if self.shape.abs() < 1e-9 {
            return self.location + self.scale * y;
        }
        self.location + self.scale * ((self.shape * y).exp() - 1.0) / self.shape
    }

    /// The value exceeded once in `years` years on average. Only a fraction `share` of years has a maximum, and the
    /// distribution describes those years. `None` if they are too rare for any value to be exceeded that often.
    pub fn return_level(&self, years: f64, share: f64) -> Option<f64> {
        let such_years = years * share;
        (such_years > 1.0).then(|| self.quantile(1.0 - 1.0 / such_years))
    }
}

/// Mean, second L-moment and L-skewness of ascending values.
pub(crate) fn l_moments(sorted: &[f64]) -> [f64; 3] {
    let n = sorted.len() as f64;
    let (mut b0, mut b1, mut b2) = (0.0, 0.0, 0.0);
    for (rank, value) in sorted.iter().enumerate() {
        let j = rank as f64;
        b0 += value;
        b1 += value * j / (n - 1.0);
        b2 += value * j * (j - 1.0) / ((n - 1.0) * (n - 2.0));
    }
    let (b0, b1, b2) = (b0 / n, b1 / n, b2 / n);
    let l2 = 2.0 * b1 - b0;
    [b0, l2, (6.0 * b2 - 6.0 * b1 + b0) / l2]
}

/// The gamma function (Lanczos, g = 7, nine terms; accurate to 1e-14).
fn gamma(x: f64) -> f64 {
    use std::f64::consts::PI;
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return PI / ((PI * x).sin() * gamma(1.0 - x));
    }
    let x = x - 1.0;
    let sum =
        (TERMS.iter().enumerate().skip(1)).fold(TERMS[0], |sum, (k, c)| sum + c / (x + k as f64));
    let t = x + 7.5;
    (2.0 * PI).sqrt() * t.powf(x + 0.5) * (-t).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use squall_data::random::stream;

    #[test]
    fn gamma_of_known_numbers() {
        assert!((gamma(5.0) - 24.0).abs() < 1e-11);
        assert!((gamma(0.5) - std::f64::consts::PI.sqrt()).abs() < 1e-13);
        assert!((gamma(1.2) - 0.918_168_742_399_760_6).abs() < 1e-13);
    }

    #[test]
    fn known_parameters_come_back() {
        for (index, shape) in [-0.25, 0.0, 0.2].into_iter().enumerate() {
            let truth = Gev {
                location: 50.0,
                scale: 6.0,
                shape,
            };
            let mut random = stream(1, "gev", &[index as u64]);
            let mut values: Vec<f64> = (0..40_000)
                .map(|_| truth.quantile(random.random_range(1e-12..1.0)))
                .collect();
            values.sort_by(f64::total_cmp);
            let found = Gev::fit(&values).unwrap();
            // Standard errors at 40,000: location 0.03, scale 0.025, shape 0.005.
            assert!((found.location - 50.0).abs() < 0.15, "{found:?}");
            assert!((found.scale - 6.0).abs() < 0.12, "{found:?}");
            assert!((found.shape - shape).abs() < 0.02, "{found:?}");
            let [a, b] = [found, truth].map(|gev| gev.return_level(50.0, 1.0).unwrap());
            assert!((a / b - 1.0).abs() < 0.01, "{a} {b}");
        }
    }

    #[test]
    fn few_or_equal_maxima_are_not_fitted() {
        assert_eq!(Gev::fit(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(Gev::fit(&[7.0; 30]), None);
        assert_eq!(Gev::fit(&[f64::NAN; 30]), None);
    }

    #[test]
    fn a_return_level_is_exceeded_as_often_as_it_says() {
        let gev = Gev {
            location: 40.0,
            scale: 5.0,
            shape: -0.1,
        };
        let below = |level: f64| {
            (-(1.0 + gev.shape * (level - gev.location) / gev.scale).powf(-1.0 / gev.shape)).exp()
        };
        let level = gev.return_level(20.0, 1.0).unwrap();
        assert!((below(level) - 0.95).abs() < 1e-12);
        // 40 of 100 years have an event, which exceeds the level in 5 of them.
        let level = gev.return_level(20.0, 0.4).unwrap();
        assert!((0.4 * (1.0 - below(level)) - 0.05).abs() < 1e-12);
        assert_eq!(gev.return_level(2.0, 0.5), None);
        assert_eq!(gev.return_level(2.0, 0.4), None);
    }
}
