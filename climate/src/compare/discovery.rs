//! Multiple tests: control of the false discovery rate.

use super::Group;

/// Returns adjusted p-values. Rejecting those below α keeps the expected share of false rejections below α.
///
/// NaN marks cells that were not tested; they stay NaN and do not count.
///
/// # Source
/// Benjamini and Hochberg 1995, J. R. Stat. Soc. B 57, 289-300; for maps Wilks 2016, doi:10.1175/BAMS-D-15-00267.1.
/// Holds for independent tests and for positively dependent ones, such as neighbouring cells.
///
/// # Example
/// ```
/// let adjusted = squall_climate::compare::adjusted_p(&[0.01, 0.04, f64::NAN, 0.03]);
/// assert_eq!(adjusted[..2], [0.03, 0.04]);
/// assert!(adjusted[2].is_nan());
/// ```
pub fn adjusted_p(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&k| !p[k].is_nan()).collect();
    order.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    let tests = order.len() as f64;
    let mut adjusted = vec![f64::NAN; p.len()];
    let mut least = 1.0f64;
    for (rank, &k) in order.iter().enumerate().rev() {
        least = least.min(p[k] * tests / (rank + 1) as f64);
        adjusted[k] = least;
    }
    adjusted
}

/// The limit for an adjusted p to be significant at a confidence level: 1 - confidence in exact decimals, less the
/// rounding error of an adjusted p. In binary, 1 - 0.95 is slightly more than 0.05 and 0.03 * 5 / 3 slightly less, so
/// that a p of exactly 0.05 would count as below the limit.
pub(crate) fn false_rate(confidence: f64) -> f64 {
    // Doubles below 1 are within 6e-17 of the decimals that they represent.
    const DECIMALS: f64 = 1e15;
    // Rounding of p, of its product with the number of tests, and of the quotient by the rank.
    const ROUNDING: f64 = 4.0 * f64::EPSILON;
    ((1.0 - confidence) * DECIMALS).round() / DECIMALS * (1.0 - ROUNDING)
}

/// Adjusts the p of rows of these groups per family; `None` for rows that were not tested.
pub(crate) fn adjusted_by_family(rows: &[(Group, Option<f64>)]) -> Vec<Option<f64>> {
    let mut all = vec![None; rows.len()];
    for family in 0..Group::FAMILIES {
        let members: Vec<usize> = (0..rows.len())
            .filter(|&k| rows[k].0.family() == family)
            .collect();
        let p = members.iter().map(|&k| rows[k].1.unwrap_or(f64::NAN));
        let adjusted = adjusted_p(&p.collect::<Vec<f64>>());
        for (k, adjusted) in members.into_iter().zip(adjusted) {
            all[k] = (!adjusted.is_nan()).then_some(adjusted);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::in_percent;
    use rand::Rng;
    use squall_data::random::stream;

    #[test]
    fn a_row_counts_in_its_own_family_alone() {
        let mut groups = Group::all();
        let part = groups.find(|group| group.family() != Group::ALL.family());
        let (whole, part) = (Group::ALL, part.unwrap());
        let p = [0.01, 0.04, 0.04].map(Some);
        let rows = [(whole, p[0]), (part, p[1]), (whole, None), (whole, p[2])];
        let adjusted = adjusted_by_family(&rows);
        assert_eq!(adjusted, [Some(0.02), Some(0.04), None, Some(0.04)]);
    }

    #[test]
    fn rates_are_those_that_decimals_say() {
        for (confidence, rate) in [
            (0.95, 0.05),
            (0.9, 0.1),
            (0.99, 0.01),
            (0.999, 0.001),
            (0.9973, 0.0027),
            (0.6827, 0.3173),
        ] {
            let found = false_rate(confidence);
            assert!(
                found < rate && found > rate * (1.0 - 1e-14),
                "{found} {rate}"
            );
            assert_eq!(in_percent(found), in_percent(rate));
        }
    }

    /// Regression: the third smallest of five p was 0.05 minus a rounding error.
    #[test]
    fn an_adjusted_p_of_just_the_rate_is_not_below_it() {
        let adjusted = adjusted_p(&[0.01, 0.02, 0.03, 0.5, 0.5]);
        assert!(adjusted[..3].iter().all(|p| *p >= false_rate(0.95)));
        let adjusted = adjusted_p(&[0.01, 0.02, 0.029, 0.5, 0.5]);
        assert!(adjusted[..3].iter().all(|p| *p < false_rate(0.95)));
    }

    #[test]
    fn the_example_of_the_paper() {
        // Benjamini and Hochberg 1995, section 4.1: 15 p-values, of which four are rejected at 0.05.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let adjusted = adjusted_p(&p);
        assert_eq!(adjusted.iter().filter(|q| **q <= 0.05).count(), 4);
        assert!((adjusted[0] - 0.0015).abs() < 1e-12);
        assert!(adjusted.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(adjusted_p(&[]).is_empty());
    }

    #[test]
    fn false_discoveries_stay_below_the_rate() {
        // 200 maps of 900 cells without and 100 with an effect. The expected share of false discoveries is 0.05 ·
        // 900/1000; the mean over 200 maps has a standard error of about 0.002.
        let mut random = stream(5, "discovery", &[]);
        let (mut shares, mut found) = (0.0, 0.0);
        for _ in 0..200 {
            let p: Vec<f64> = (0..1000)
                .map(|k| {
                    let u: f64 = random.random();
                    if k < 900 { u } else { u * 1e-3 }
                })
                .collect();
            let significant: Vec<usize> = (adjusted_p(&p).iter().enumerate())
                .filter(|(_, q)| **q < 0.05)
                .map(|(k, _)| k)
                .collect();
            let wrong = significant.iter().filter(|k| **k < 900).count();
            shares += wrong as f64 / significant.len().max(1) as f64;
            found += (significant.len() - wrong) as f64 / 100.0;
        }
        let (share, power) = (shares / 200.0, found / 200.0);
        assert!((0.035..0.052).contains(&share), "{share}");
        assert!(power > 0.99, "{power}");
    }
}
