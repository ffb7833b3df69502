//! Serial correlation of annual values, and its effect on a trend test.

/// Upper limit: closer to 1, a series is effectively a single year.
const MAX_PERSISTENCE: f64 = 0.95;

/// The lag-one correlation of the ranks of a detrended series, 0 to 0.95. Values closer than `same` have equal ranks.
/// Only consecutive years count as neighbours.
///
/// If mean and trend are estimated from the series itself, the correlation is underestimated by about (2 + 4ρ) / n,
/// which is corrected. Negative values are set to 0: negative serial correlation is more often chance than real, and
/// would narrow intervals.
///
/// # Source
/// Ranks as in Hamed and Rao 1998, doi:10.1016/S0022-1694(97)00125-X; the bias after Shaman and Stine 1988, "The Bias
/// of Autoregressive Coefficient Estimators", J. Am. Stat. Assoc. 83, 842-848.
pub(super) fn persistence(residuals: &[(i64, f64)], same: f64) -> f64 {
    let values: Vec<f64> = residuals.iter().map(|r| (r.1 / same).round()).collect();
    let count = residuals.len() as f64;
    let middle = 0.5 * (count + 1.0);
    let ranks: Vec<f64> = ranks(&values).into_iter().map(|r| r - middle).collect();
    let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
    let neighbours: Vec<f64> = (residuals.windows(2).zip(ranks.windows(2)))
        .filter(|(pair, _)| pair[1].0 - pair[0].0 == 1)
        .map(|(_, ranks)| ranks[0] * ranks[1])
        .collect();
    if squares == 0.0 || neighbours.is_empty() {
        return 0.0;
    }
    let products: f64 = neighbours.iter().sum();
    let found = products * (count - 1.0) / (neighbours.len() as f64 * squares);
    let unbiased = (count * found + 2.0) / (count - 4.0).max(1.0);
    unbiased.clamp(0.0, MAX_PERSISTENCE)
}

/// The inflation of the variance of Kendall's S for a first-order autoregressive series of `count` years: the number of
/// years divided by the effective number of independent years.
///
/// # Source
/// Yue and Wang 2004, doi:10.1023/B:WARM.0000043140.61082.60, equation of the effective sample size.
pub(super) fn inflation(count: usize, persistence: f64) -> f64 {
    let n = count as f64;
    let mut power = 1.0;
    let lags = (1..count).map(|lag| {
        power *= persistence;
        (1.0 - lag as f64 / n) * power
    });
    1.0 + 2.0 * lags.sum::<f64>()
}

/// The rank of each value, from 1; ties get the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0.0;
    for equal in order.chunk_by(|&i, &j| values[i] == values[j]) {
        let count = equal.len() as f64;
        equal
            .iter()
            .for_each(|&k| ranks[k] = before + 0.5 * (count + 1.0));
        before += count;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_the_mean_of_their_ranks() {
        assert_eq!(
            ranks(&[3.0, 1.0, 3.0, -0.0, 0.0]),
            [4.5, 3.0, 4.5, 1.5, 1.5]
        );
        assert!(ranks(&[]).is_empty());
    }

    #[test]
    fn the_variance_grows_as_that_of_an_autoregressive_series() {
        assert_eq!(inflation(50, 0.0), 1.0);
        // By hand: 1 + 2 (2/3 · 1/2 + 1/3 · 1/4).
        assert!((inflation(3, 0.5) - (1.0 + 2.0 * (1.0 / 3.0 + 1.0 / 12.0))).abs() < 1e-12);
        // For a long series (1 + ρ) / (1 - ρ).
        assert!((inflation(100_000, 0.6) - 4.0).abs() < 1e-3);
    }

    #[test]
    fn neighbours_are_years_that_follow_each_other() {
        // Ranks 1 to 12: the products of neighbours divided by the squares are 0.75, and (12 · 0.75 + 2) / 8 exceeds
        // the upper limit.
        let rising: Vec<(i64, f64)> = (1..=12).map(|k| (k, k as f64)).collect();
        assert_eq!(persistence(&rising, 1e-9), MAX_PERSISTENCE);
        let other = |k: i64| if k % 2 == 0 { 1.0 } else { -1.0 };
        let alternating: Vec<(i64, f64)> = (1..=12).map(|k| (k, other(k))).collect();
        assert_eq!(persistence(&alternating, 1e-9), 0.0);
        // With every second year missing, there are no neighbours.
        let apart: Vec<(i64, f64)> = (1..=12).map(|k| (2 * k, k as f64)).collect();
        assert_eq!(persistence(&apart, 1e-9), 0.0);
        // Differences below `same` count as ties.
        let noise: Vec<(i64, f64)> = (1..=12).map(|k| (k, 1e-14 * k as f64)).collect();
        assert_eq!(persistence(&noise, 1e-9), 0.0);
    }

    #[test]
    fn persistence_is_given_its_bias_back() {
        let order = [1.0, 1.0, 5.0, 5.0, 2.0, 2.0, 4.0, 4.0, 3.0, 3.0, 6.0, 6.0];
        let series: Vec<(i64, f64)> = (1..).zip(order).collect();
        // Ranks minus their mean are ±1, ±3 and ±5: by hand, the products of neighbours add up to 37, the squares to
        // 140.
        let expected = (12.0 * 37.0 / 140.0 + 2.0) / 8.0;
        assert!((persistence(&series, 1e-9) - expected).abs() < 1e-12);
    }
}
