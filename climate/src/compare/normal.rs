//! The normal and Student's t distribution.

use std::f64::consts::PI;

/// Probability that a standard normal variable is below `x`.
///
/// # Source
/// Hart 1968, algorithm 5666, as written down by West 2005, "Better approximations to cumulative normal functions";
/// good to about 1e-15.
pub fn normal_cdf(x: f64) -> f64 {
    const UPPER: [f64; 7] = [
        3.526_249_659_989_11e-2,
        0.700_383_064_443_688,
        6.373_962_203_531_65,
        33.912_866_078_383,
        112.079_291_497_871,
        221.213_596_169_931,
        220.206_867_912_376,
    ];
    const LOWER: [f64; 8] = [
        8.838_834_764_831_84e-2,
        1.755_667_163_182_64,
        16.064_177_579_207,
        86.780_732_202_946_1,
        296.564_248_779_674,
        637.333_633_378_831,
        793.826_512_519_948,
        440.413_735_824_752,
    ];
    let away = x.abs();
    let bell = (-0.5 * away * away).exp();
    let horner = |of: &[f64]| of.iter().fold(0.0, |sum, c| sum * away + c);
    let tail = if away > 37.0 {
        0.0
    } else if away < 7.071_067_811_865_47 {
        bell * horner(&UPPER) / horner(&LOWER)
    } else {
        let fraction = [4.0, 3.0, 2.0, 1.0]
            .into_iter()
            .fold(away + 0.65, |below, k| away + k / below);
        bell / fraction / (2.0 * PI).sqrt()
    };
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// The quantile of the standard normal distribution; infinite for 0 and 1.
pub(crate) fn normal_quantile(probability: f64) -> f64 {
    if probability <= 0.0 || probability >= 1.0 {
        return if probability <= 0.0 {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
    }
    bisect(-40.0, 40.0, |x| normal_cdf(x) < probability)
}

/// The limit that |t| exceeds with probability `1 - inside`, for Student's t with some degrees of freedom.
///
/// # Source
/// The finite series of Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
pub fn student_limit(inside: f64, degrees: usize) -> f64 {
    let degrees = degrees.max(1);
    bisect(0.0, 1e4, |t| student_inside(t, degrees) < inside)
}

/// Probability that |t| is below a number.
fn student_inside(t: f64, degrees: usize) -> f64 {
    let angle = (t / (degrees as f64).sqrt()).atan();
    let (sine, square) = (angle.sin(), angle.cos().powi(2));
    let odd = degrees % 2 == 1;
    // Each term follows from the one before: (1·3·5…)/(2·4·6…) for even degrees, (2·4…)/(1·3…) for odd ones.
    let (mut term, mut sum) = (if odd { angle.cos() } else { 1.0 }, 0.0);
    let mut k = if odd { 1.0 } else { 0.0 };
    while k < degrees as f64 - 1.0 {
        sum += term;
        k += 2.0;
        term *= square * (k - 1.0) / k;
    }
    if odd {
        2.0 / PI * (angle + sine * sum)
    } else {
        sine * sum
    }
}

/// The point at which `below` changes from true to false.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_tables() {
        // NIST/SEMATECH e-Handbook, tables of the normal and the t distribution.
        for (x, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (-1.959_963_984_540_054, 0.025),
        ] {
            assert!((normal_cdf(x) - p).abs() < 1e-12, "{x}: {}", normal_cdf(x));
            assert!((normal_quantile(p) - x).abs() < 1e-9);
        }
        assert!((normal_cdf(-8.0) / 6.220_960_574_271_78e-16 - 1.0).abs() < 1e-6);
        for (degrees, limit) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (8, 2.306),
            (9, 2.262),
            (58, 2.002),
        ] {
            let found = student_limit(0.95, degrees);
            assert!((found - limit).abs() < 6e-4, "{degrees}: {found}");
        }
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
    }
}
