//! Sen's slope and the Mann-Kendall test, with gaps, ties and serial correlation.

use super::persistence::{inflation, persistence};
use crate::compare::{Interval, normal_cdf, normal_quantile};
use serde::Serialize;

/// Minimum number of years for a trend: the normal approximation of Kendall's S holds from ten values (Kendall 1975).
pub const MIN_YEARS: usize = 10;

/// Minimum share of known years between the first and the last known one.
const MIN_SHARE: f64 = 0.7;

/// Values closer than this share of the largest count as equal. Rounding in sums of different order, and in means over
/// different counts, stays below it.
const RELATIVE_TOLERANCE: f64 = 1e-9;

/// Slopes are per decade.
const DECADE: f64 = 10.0;

/// The reason for a missing trend or interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoTrend {
    /// No year has such an event, or no year with events has a value.
    NoEvents,
    /// Fewer than [`MIN_YEARS`] years are known; or there is a slope, but too few years for an interval of this
    /// confidence.
    TooFewYears,
    /// Less than 70 % of the years between the first and the last known one are known.
    MissingYears,
    /// All years have the same value.
    Constant,
    /// Serial correlation is so strong that no two slopes enclose the interval; there is still a slope and a p.
    Persistence,
}

impl NoTrend {
    /// The word used in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoEvents => "no_events",
            Self::TooFewYears => "too_few_years",
            Self::MissingYears => "missing_years",
            Self::Constant => "constant",
            Self::Persistence => "persistence",
        }
    }
}

/// The trend of a series of annual values.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Trend {
    /// Number of years with a value.
    pub years: usize,
    /// The first of them.
    pub first_year: Option<i64>,
    /// The last of them.
    pub last_year: Option<i64>,
    /// Mean of the values.
    pub mean: Option<f64>,
    /// Standard deviation of the values, with n - 1 degrees of freedom.
    pub sd: Option<f64>,
    /// Sen's slope: the median of the slopes between all pairs of years, per decade.
    pub slope: Option<f64>,
    /// Confidence interval of the slope.
    pub interval: Option<Interval>,
    /// Values of the trend line, which has Sen's slope and passes through the medians, in the first and last year.
    pub line: Option<[f64; 2]>,
    /// Kendall's τ_b of values and years: 1 if every year exceeds all earlier ones, -1 if every year is below them.
    pub tau: Option<f64>,
    /// Serial correlation of the detrended ranks, 0 to 0.95.
    pub persistence: Option<f64>,
    /// Two-sided probability of a τ at least this far from 0 without a trend.
    pub p: Option<f64>,
    /// The reason for a missing trend or interval.
    pub no_trend: Option<NoTrend>,
}

impl Trend {
    /// Computes the trend of annual values. The years ascend and may have gaps.
    ///
    /// The slope is Sen's. p is that of the Mann-Kendall test with continuity correction. The variance of Kendall's S
    /// accounts for ties and is inflated for serial correlation after Yue and Wang. The interval contains the slopes
    /// that this test does not reject, so that it excludes 0 if p is below 1 - confidence. (With many ties, 0 may be an
    /// end of it.)
    ///
    /// # Source
    /// Sen 1968, "Estimates of the Regression Coefficient Based on Kendall's Tau", J. Am. Stat. Assoc. 63, 1379-1389,
    /// for slope and interval; Mann 1945 and Kendall 1975, "Rank Correlation Methods", for the test; Yue and Wang 2004,
    /// doi:10.1023/B:WARM.0000043140.61082.60, for serial correlation.
    pub fn of(series: &[(i64, f64)], confidence: f64) -> Self {
        let mut trend = Self::without_slope(series);
        if trend.no_trend.is_some() {
            return trend;
        }
        let series = &merge_ties(series);
        let pairs = Pairs::of(series);
        let sen = median(&pairs.slopes);
        let (first, span) = span(series);
        let residuals: Vec<(i64, f64)> = (series.iter())
            .map(|&(year, value)| (year, value - sen * (year - first) as f64))
            .collect();
        let level = median(&sorted(residuals.iter().map(|r| r.1)));
        let persistence = persistence(&residuals, RELATIVE_TOLERANCE * largest(series));
        let variance = pairs.variance * inflation(series.len(), persistence);
        let deviation = variance.sqrt();
        let z = ((pairs.s.abs() - 1) as f64).max(0.0) / deviation;
        let limit = normal_quantile(0.5 + 0.5 * confidence) * deviation;
        trend.slope = Some(DECADE * sen);
        trend.line = Some([level, level + sen * span as f64]);
        trend.tau = Some(pairs.tau_b);
        trend.persistence = Some(persistence);
        trend.p = Some(2.0 * normal_cdf(-z));
        trend.interval = pairs.interval(limit);
        trend.no_trend = (trend.interval.is_none()).then_some(if persistence > 0.0 {
            NoTrend::Persistence
        } else {
            NoTrend::TooFewYears
        });
        trend
    }

    /// Years, mean and standard deviation, and the reason if a series has no trend.
    fn without_slope(series: &[(i64, f64)]) -> Self {
        let count = series.len() as f64;
        let mean = series.iter().map(|s| s.1).sum::<f64>() / count;
        let squares: f64 = series.iter().map(|s| (s.1 - mean).powi(2)).sum();
        let (low, high) = (series.iter())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), s| {
                (low.min(s.1), high.max(s.1))
            });
        let (_, span) = span(series);
        let no_trend = if largest(series) == 0.0 {
            Some(NoTrend::NoEvents)
        } else if series.len() < MIN_YEARS {
            Some(NoTrend::TooFewYears)
        } else if count < MIN_SHARE * (span + 1) as f64 {
            Some(NoTrend::MissingYears)
        } else if high - low <= RELATIVE_TOLERANCE * largest(series) {
            Some(NoTrend::Constant)
        } else {
            None
        };
        Self {
            years: series.len(),
            first_year: series.first().map(|s| s.0),
            last_year: series.last().map(|s| s.0),
            mean: (!series.is_empty()).then_some(mean),
            sd: (series.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
            no_trend,
            ..Self::default()
        }
    }
}

/// Replaces values that are equal up to [`RELATIVE_TOLERANCE`] by one value, so that rounding creates neither rises nor
/// falls.
fn merge_ties(series: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let same = RELATIVE_TOLERANCE * largest(series);
    let mut merged = series.to_vec();
    let mut ascending: Vec<&mut (i64, f64)> = merged.iter_mut().collect();
    ascending.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
    let mut level = f64::NEG_INFINITY;
    for (_, value) in ascending {
        if *value - level > same {
            level = *value;
        }
        *value = level;
    }
    merged
}

/// Statistics of all pairs of years of a series.
struct Pairs {
    /// Slopes per year, ascending.
    slopes: Vec<f64>,
    /// Kendall's S: the number of rising pairs minus that of falling ones.
    s: i64,
    /// Variance of S without trend and serial correlation.
    variance: f64,
    tau_b: f64,
}

impl Pairs {
    fn of(series: &[(i64, f64)]) -> Self {
        let (mut slopes, mut s) = (Vec::new(), 0);
        for (k, (year, value)) in series.iter().enumerate() {
            for (later, other) in &series[k + 1..] {
                slopes.push((other - value) / (later - year) as f64);
                s += i64::from(other > value) - i64::from(other < value);
            }
        }
        slopes.sort_unstable_by(f64::total_cmp);
        let values = sorted(series.iter().map(|s| s.1));
        let tied = |of: fn(f64) -> f64| -> f64 {
            let groups = values.chunk_by(|a, b| a == b);
            groups.map(|group| of(group.len() as f64)).sum()
        };
        let n = series.len() as f64;
        let of_variance = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
        let all = slopes.len() as f64;
        let untied = all - tied(|n| n * (n - 1.0) / 2.0);
        Self {
            slopes,
            s,
            variance: (of_variance(n) - tied(of_variance)) / 18.0,
            tau_b: s as f64 / (untied * all).sqrt(),
        }
    }

    /// The slopes not rejected by a test that rejects |S| above `limit` + 1; `None` if it rejects none.
    fn interval(&self, limit: f64) -> Option<Interval> {
        let all = self.slopes.len();
        let rank = ((all as f64 - limit - 1.0) / 2.0).ceil();
        // Number of slopes below the interval, and above it.
        let outside = (rank >= 1.0).then(|| rank as usize - 1)?;
        let end = |place: usize| self.slopes.get(place).map(|slope| DECADE * slope);
        Some(Interval {
            low: end(outside)?,
            high: end(all.checked_sub(outside + 1)?)?,
        })
    }
}

/// The first year, and the number of years from it to the last.
fn span(series: &[(i64, f64)]) -> (i64, i64) {
    match series {
        [] => (0, 0),
        [only] => (only.0, 0),
        [first, .., last] => (first.0, last.0 - first.0),
    }
}

/// The largest absolute value; 0 without values.
fn largest(series: &[(i64, f64)]) -> f64 {
    series.iter().map(|s| s.1.abs()).fold(0.0, f64::max)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The median of ascending values, of which there must be at least one.
fn median(ascending: &[f64]) -> f64 {
    let count = ascending.len();
    0.5 * (ascending[(count - 1) / 2] + ascending[count / 2])
}

#[cfg(test)]
mod tests;
