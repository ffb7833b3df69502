//! The difference between two samples of years: intervals by bootstrap, significance by permutation.

use crate::compare::normal::{normal_cdf, normal_quantile, student_limit};
use crate::compare::reach::least_p;
use crate::compare::statistic::Statistic;
use crate::compare::unit::Unit;
use crate::compare::weights::Weights;
use crate::error::{ClimateError, Result};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Minimum number of blocks per side; with fewer, their spread is unknown.
pub const MIN_BLOCKS: usize = 5;

/// Allowed number of resamples. Fewer cannot resolve small p-values; more take gigabytes without improving the ends of
/// intervals.
pub const DRAWS: RangeInclusive<usize> = 100..=1_000_000;

/// Two ends of a confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval, if both ends are finite.
    fn if_finite(self) -> Option<Self> {
        (self.low.is_finite() && self.high.is_finite()).then_some(self)
    }

    /// The smallest interval that contains both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// Whether a value lies inside, ends included.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// How intervals are computed from resamples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalMethod {
    /// Percentiles of the resamples, widened for small samples.
    #[default]
    Percentile,
    /// Bias-corrected and accelerated (BCa), widened likewise; maps use percentiles.
    Bca,
}

/// Settings of the resampling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DrawOptions {
    /// Number of bootstrap resamples, and of permutations of the test.
    pub draws: usize,
    /// Coverage probability of intervals; a change is significant if p is below 1 - confidence.
    pub confidence: f64,
    /// Seed of the random streams.
    pub seed: u64,
    /// How intervals are computed from resamples.
    pub method: IntervalMethod,
}

impl Default for DrawOptions {
    /// 10,000 draws, 95 %, percentiles.
    fn default() -> Self {
        Self {
            draws: 10_000,
            confidence: 0.95,
            seed: 1,
            method: IntervalMethod::Percentile,
        }
    }
}

/// The reason for a missing interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoInterval {
    /// A side has fewer than [`MIN_BLOCKS`] blocks of years.
    TooFewYears,
    /// The statistic is undefined on a side (a mean without events) or in more than half of the resamples, or fewer
    /// than [`MIN_BLOCKS`] blocks of a side have events.
    TooFewEvents,
    /// Neither side has any event.
    NoEvents,
    /// The return period is more than twice the number of years of a side.
    BeyondRecord,
}

/// The change of a statistic between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The value of the first sample.
    pub a: Option<f64>,
    /// The value of the second sample.
    pub b: Option<f64>,
    /// The difference b - a.
    pub difference: Option<f64>,
    /// The relative change b / a - 1, if a is positive.
    pub relative: Option<f64>,
    /// Confidence interval of the difference.
    pub interval: Option<Interval>,
    /// Confidence interval of the relative change.
    pub relative_interval: Option<Interval>,
    /// Probability of a difference at least this large if years were assigned to the sides at random.
    pub p: Option<f64>,
    /// The reason for a missing interval.
    pub no_interval: Option<NoInterval>,
}

/// All resamples of a comparison. Every quantity and cell uses the same ones, so that changes are comparable.
#[derive(Debug, Clone)]
pub struct Design {
    options: DrawOptions,
    a: Weights,
    b: Weights,
    /// Permutations of the blocks of both sides: the part assigned to the first side, and the rest.
    permuted: [Weights; 2],
    /// The standard normal quantile of the upper end, widened for the number of blocks.
    limit: f64,
    /// The smallest p that the test can reach.
    least_p: f64,
    /// Whether blocks are resampled in pairs, one of each side.
    of_pairs: bool,
}

impl Design {
    /// Creates the resamples for the given number of blocks on each side.
    ///
    /// Percentiles of resamples of n blocks are too narrow by √(1 - 1/n), and ignore Student's t. More extreme
    /// percentiles are used instead, such that the interval of a mean of normal values equals the t interval.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if the confidence is not between 0.5 and 1, or the number of resamples is not in
    /// [`DRAWS`].
    ///
    /// # Source
    /// Hesterberg 2015, "What Teachers Should Know About the Bootstrap", Am. Stat. 69, 371-386, section 5.3.
    pub fn new((blocks_a, blocks_b): (usize, usize), options: DrawOptions) -> Result<Self> {
        let draws = possible_draws(blocks_a.min(blocks_b), &options)?;
        let (n, m) = (blocks_a.max(2) as f64, blocks_b.max(2) as f64);
        let narrow = ((n - 1.0) / (n * n) + (m - 1.0) / (m * m)) / (1.0 / n + 1.0 / m);
        let degrees = (blocks_a + blocks_b).saturating_sub(2);
        Ok(Self {
            options,
            a: Weights::bootstrap(blocks_a, draws, options.seed, 0),
            b: Weights::bootstrap(blocks_b, draws, options.seed, 1),
            permuted: Weights::permutation((blocks_a, blocks_b), draws, options.seed),
            limit: student_limit(options.confidence, degrees) / narrow.sqrt(),
            least_p: least_p(Unit::Year, (blocks_a, blocks_b), options.draws),
            of_pairs: false,
        })
    }

    /// Creates the resamples for pairs of blocks, one of each side. Both sides use the same bootstrap resamples, and
    /// permutations swap blocks within pairs. Effects common to the blocks of a pair, such as those of a model,
    /// therefore neither widen intervals nor hide a change.
    ///
    /// Intervals are widened as in [`Self::new`], to the t interval of the mean difference of the pairs.
    ///
    /// # Errors
    /// Errors of [`Self::new`].
    pub fn of_pairs(pairs: usize, options: DrawOptions) -> Result<Self> {
        let draws = possible_draws(pairs, &options)?;
        let n = pairs.max(2) as f64;
        let drawn = Weights::bootstrap(pairs, draws, options.seed, 0);
        Ok(Self {
            options,
            a: drawn.clone(),
            b: drawn,
            permuted: Weights::swapped(pairs, draws, options.seed),
            limit: student_limit(options.confidence, pairs.saturating_sub(1))
                / ((n - 1.0) / n).sqrt(),
            least_p: least_p(Unit::Pair, (pairs, pairs), options.draws),
            of_pairs: true,
        })
    }

    /// The options of this design.
    pub fn options(&self) -> &DrawOptions {
        &self.options
    }

    /// Whether both sides have enough blocks for intervals.
    pub fn has_draws(&self) -> bool {
        self.a.draws() > 0
    }

    /// The bootstrap resamples of each side.
    pub(crate) fn sides(&self) -> [&Weights; 2] {
        [&self.a, &self.b]
    }

    /// Whether blocks are resampled in pairs.
    pub(crate) fn is_of_pairs(&self) -> bool {
        self.of_pairs
    }

    /// Permutations of the blocks of both sides: the part assigned to the first side, and the rest.
    pub(crate) fn permuted(&self) -> &[Weights; 2] {
        &self.permuted
    }

    /// Computes the change of a statistic.
    pub fn change(&self, a: &Statistic, b: &Statistic) -> Change {
        let mut change = Change::of_values(a.value(), b.value());
        let Some(difference) = change.difference else {
            let none = change.a.is_none() && change.b.is_none();
            change.no_interval = Some(if none {
                NoInterval::NoEvents
            } else {
                NoInterval::TooFewEvents
            });
            return change;
        };
        if change.a == Some(0.0) && change.b == Some(0.0) {
            change.no_interval = Some(NoInterval::NoEvents);
            return change;
        }
        if !self.has_draws() {
            change.no_interval = Some(NoInterval::TooFewYears);
            return change;
        }
        // If one side has events in only a few years, its mean varies more than the means of permuted samples, which
        // have events in about equally many years. The p-value would be too small.
        if a.known_blocks().min(b.known_blocks()) < MIN_BLOCKS {
            change.no_interval = Some(NoInterval::TooFewEvents);
            return change;
        }
        if let Some(joined) = a.joined(b) {
            let [first, rest] = [0, 1].map(|k| joined.of_draws(&self.permuted[k]));
            change.p = self.p_value(difference, first.iter().zip(&rest).map(|(a, b)| b - a));
        }
        let (drawn_a, drawn_b) = (a.of_draws(&self.a), b.of_draws(&self.b));
        let (base, other) = (change.a.unwrap_or(f64::NAN), change.b.unwrap_or(f64::NAN));
        // The influence of each block (or pair of blocks) on a function of both values, by leaving it out.
        let influences = |of: &dyn Fn(f64, f64) -> f64| {
            let without = |side: &Statistic| side.of_draws(&Weights::each_left_out(side.blocks()));
            let (without_a, without_b) = (without(a), without(b));
            if self.of_pairs {
                let pairs = without_a.iter().zip(&without_b);
                return vec![influence(pairs.map(|(a, b)| of(*a, *b)))];
            }
            vec![
                influence(without_a.iter().map(|a| of(*a, other))),
                influence(without_b.iter().map(|b| of(base, *b))),
            ]
        };
        let pairs = || drawn_a.iter().copied().zip(drawn_b.iter().copied());
        change.interval = self.interval(difference, pairs().map(|(a, b)| b - a).collect(), || {
            influences(&|a, b| b - a)
        });
        if let (Some(relative), Some(_)) = (change.relative, change.interval) {
            let draws = pairs().map(|(a, b)| relative_change(a, b)).collect();
            change.relative_interval =
                self.interval(relative, draws, || influences(&relative_change));
        }
        if change.interval.is_none() {
            change.no_interval = Some(NoInterval::TooFewEvents);
        }
        change
    }

    /// The interval of a value from its resamples; `None` as for [`Self::percentile_interval`]. `influences`, of the
    /// blocks of each side or of pairs, is called only if the method needs it.
    fn interval(
        &self,
        value: f64,
        mut draws: Vec<f64>,
        influences: impl FnOnce() -> Vec<Vec<f64>>,
    ) -> Option<Interval> {
        if self.options.method == IntervalMethod::Percentile {
            return self.percentile_interval(&mut draws);
        }
        if !keep_defined(&mut draws) {
            return None;
        }
        let (low, high) = self.bca_shares(value, &draws, &influences());
        let ends = Interval {
            low: nearest_rank(&mut draws, low),
            high: nearest_rank(&mut draws, high),
        };
        ends.if_finite()
    }

    /// The p of a difference, as in the free function [`p_value`], but not below the smallest possible p. The resamples
    /// are only part of all permutations and could by chance give a smaller value than all of them.
    pub(crate) fn p_value(
        &self,
        difference: f64,
        permuted: impl Iterator<Item = f64>,
    ) -> Option<f64> {
        p_value(difference, permuted).map(|p| p.max(self.least_p))
    }

    /// The interval by percentiles of resamples; reorders them. `None` if fewer than half are defined, or if an end is
    /// infinite. Infinite values are kept: dropping them would bias the interval towards the finite resamples.
    pub(crate) fn percentile_interval(&self, draws: &mut Vec<f64>) -> Option<Interval> {
        interval_without(draws, self.tail())
    }

    /// The interval of values drawn from a posterior: like [`Self::percentile_interval`], but not widened, because the
    /// posterior already accounts for the number of years.
    pub(crate) fn credible_interval(&self, draws: &mut Vec<f64>) -> Option<Interval> {
        interval_without(draws, 0.5 * (1.0 - self.options.confidence))
    }

    /// The fraction of resamples below a percentile interval, which equals that above it.
    pub(crate) fn tail(&self) -> f64 {
        normal_cdf(-self.limit)
    }

    /// Whether this many resamples reach beyond the ends of an interval. Otherwise the outermost resamples replace the
    /// ends.
    pub(crate) fn reaches_ends(&self, draws: usize) -> bool {
        draws as f64 * self.tail() >= 0.5
    }

    /// The fractions at which BCa evaluates the resamples.
    ///
    /// # Source
    /// Efron 1987, J. Am. Stat. Assoc. 82, 171-185; acceleration for several samples: Davison and Hinkley 1997,
    /// equation 5.27.
    fn bca_shares(&self, value: f64, draws: &[f64], influences: &[Vec<f64>]) -> (f64, f64) {
        let below = draws.iter().filter(|v| **v < value).count() as f64;
        let equal = draws.iter().filter(|v| **v == value).count() as f64;
        let share = (below + 0.5 * equal) / draws.len() as f64;
        // If all resamples are on one side, the bias correction is limited.
        let bias = normal_quantile(share.clamp(1e-4, 1.0 - 1e-4));
        let (mut cubes, mut squares) = (0.0, 0.0);
        for side in influences {
            let n = side.len() as f64;
            cubes += side.iter().map(|l| l.powi(3)).sum::<f64>() / n.powi(3);
            squares += side.iter().map(|l| l * l).sum::<f64>() / n.powi(2);
        }
        let acceleration = if squares > 0.0 {
            cubes / (6.0 * squares.powf(1.5))
        } else {
            0.0
        };
        let at = |limit: f64| {
            let moved = bias + limit;
            normal_cdf(bias + moved / (1.0 - acceleration * moved).max(0.1))
        };
        (at(-self.limit), at(self.limit))
    }
}

impl Change {
    /// A change without interval or test.
    pub(crate) fn of_values(a: Option<f64>, b: Option<f64>) -> Self {
        let both = a.zip(b);
        Self {
            a,
            b,
            difference: both.map(|(a, b)| b - a),
            relative: both.filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a - 1.0),
            interval: None,
            relative_interval: None,
            p: None,
            no_interval: None,
        }
    }
}

/// The number of resamples for this many blocks: 0 if there are too few blocks.
///
/// # Errors
/// [`ClimateError::Invalid`] for invalid options.
fn possible_draws(blocks: usize, options: &DrawOptions) -> Result<usize> {
    let is_share = options.confidence > 0.5 && options.confidence < 1.0;
    if !is_share || !DRAWS.contains(&options.draws) {
        return Err(ClimateError::Invalid(format!(
            "expected a confidence between 0.5 and 1 and {} to {} resamples, found {} and {}",
            DRAWS.start(),
            DRAWS.end(),
            options.confidence,
            options.draws
        )));
    }
    let enough = blocks >= MIN_BLOCKS;
    Ok(if enough { options.draws } else { 0 })
}

/// The relative change b / a - 1: infinite if only a is zero, NaN if both are.
fn relative_change(a: f64, b: f64) -> f64 {
    match (a > 0.0, b > 0.0) {
        (true, _) => b / a - 1.0,
        (false, true) => f64::INFINITY,
        (false, false) => f64::NAN,
    }
}

/// Drops undefined values; returns whether at least half are left.
fn keep_defined(draws: &mut Vec<f64>) -> bool {
    let asked = draws.len();
    draws.retain(|v| !v.is_nan());
    !draws.is_empty() && draws.len() * 2 >= asked
}

/// The interval that leaves out this fraction of the resamples on either side.
fn interval_without(draws: &mut Vec<f64>, tail: f64) -> Option<Interval> {
    if !keep_defined(draws) {
        return None;
    }
    let ends = Interval {
        low: nearest_rank(draws, tail),
        high: nearest_rank(draws, 1.0 - tail),
    };
    ends.if_finite()
}

/// The two-sided p of a difference among those of permuted samples: the fraction at least as large, counting the
/// observed one (Phipson and Smyth 2010). `None` if fewer than half are defined.
fn p_value(difference: f64, permuted: impl Iterator<Item = f64>) -> Option<f64> {
    // Sums in a different order differ in their last bits.
    let observed = difference.abs() * (1.0 - 1e-9);
    let (mut asked, mut defined, mut larger) = (0usize, 0usize, 0usize);
    for value in permuted {
        asked += 1;
        defined += usize::from(value.is_finite());
        larger += usize::from(value.abs() >= observed);
    }
    (defined > 0 && defined * 2 >= asked).then(|| (larger + 1) as f64 / (defined + 1) as f64)
}

/// Empirical influence of each block: the change of the statistic when the block is left out.
fn influence(without: impl Iterator<Item = f64>) -> Vec<f64> {
    let defined: Vec<f64> = without.filter(|v| v.is_finite()).collect();
    let n = defined.len() as f64;
    let mean = defined.iter().sum::<f64>() / n;
    defined.iter().map(|v| (n - 1.0) * (mean - v)).collect()
}

/// The value at a fraction of the sorted order; reorders the values.
fn nearest_rank(values: &mut [f64], share: f64) -> f64 {
    let place = (share * values.len() as f64 - 0.5).round();
    let index = (place.max(0.0) as usize).min(values.len() - 1);
    *values.select_nth_unstable_by(index, f64::total_cmp).1
}

#[cfg(test)]
mod tests;
