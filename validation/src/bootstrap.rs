//! Confidence intervals of ratios, by drawing blocks of time again.

use rand::Rng;
use serde::{Deserialize, Serialize};
use squall_climate::compare::{MIN_BLOCKS, normal_cdf, student_limit};
use squall_data::calendar::DAY_SECONDS;
use squall_data::random::stream;

pub use squall_climate::compare::Interval;

/// How confidence intervals are computed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bootstrap {
    /// Seed of the draws.
    pub seed: u64,
    /// Number of draws; 0 makes no intervals.
    pub draws: usize,
    /// Length of the blocks that are drawn as a whole. Events last for days, so single times are not independent.
    pub block_days: f64,
    /// Probability inside an interval.
    pub level: f64,
}

impl Default for Bootstrap {
    /// 1000 draws of blocks of 5 days, 95 %.
    fn default() -> Self {
        Self {
            seed: 12345,
            draws: 1000,
            block_days: 5.0,
            level: 0.95,
        }
    }
}

impl Bootstrap {
    /// The block of a time so many seconds after the first one.
    pub(crate) fn block(&self, seconds: i64) -> i64 {
        let length = (self.block_days * DAY_SECONDS as f64).max(1.0);
        (seconds as f64 / length).floor() as i64
    }

    /// Percentile intervals of statistics of a sum over blocks, widened for few blocks as those of a comparison
    /// ([`squall_climate::compare::Design::new`]).
    ///
    /// Blocks are drawn with replacement, their `N` numbers added, and `statistics` computes `K` values from the sums
    /// (`None` where undefined). An interval needs at least five blocks and a value in at least half of the draws.
    ///
    /// # Source
    /// Hesterberg 2015, "What Teachers Should Know About the Bootstrap", Am. Stat. 69, 371-386, section 5.3.
    pub fn intervals<const N: usize, const K: usize>(
        &self,
        purpose: u64,
        blocks: &[[f64; N]],
        statistics: impl Fn(&[f64; N]) -> [Option<f64>; K],
    ) -> [Option<Interval>; K] {
        let none = [None; K];
        if !self.possible(blocks.len()) {
            return none;
        }
        let mut random = stream(self.seed, "bootstrap", &[purpose]);
        let mut values: [Vec<f64>; K] = std::array::from_fn(|_| Vec::with_capacity(self.draws));
        for _ in 0..self.draws {
            let mut sums = [0.0; N];
            for _ in 0..blocks.len() {
                add(&mut sums, &blocks[random.random_range(0..blocks.len())]);
            }
            for (values, value) in values.iter_mut().zip(statistics(&sums)) {
                values.extend(value);
            }
        }
        values.map(|values| self.interval(values, blocks.len()))
    }

    /// Percentile intervals of statistics that are no function of sums, such as an average precision: `statistics` is
    /// told how often each block was drawn and gives as many values each time, `None` where undefined.
    ///
    /// Without enough blocks the result is empty; otherwise the rules are those of [`Self::intervals`].
    pub fn intervals_of_draws(
        &self,
        purpose: u64,
        blocks: usize,
        mut statistics: impl FnMut(&[u32]) -> Vec<Option<f64>>,
    ) -> Vec<Option<Interval>> {
        if !self.possible(blocks) {
            return Vec::new();
        }
        let mut random = stream(self.seed, "bootstrap", &[purpose]);
        let mut values: Vec<Vec<f64>> = Vec::new();
        for _ in 0..self.draws {
            let mut times_drawn = vec![0; blocks];
            for _ in 0..blocks {
                times_drawn[random.random_range(0..blocks)] += 1;
            }
            let drawn = statistics(&times_drawn);
            values.resize(drawn.len(), Vec::new());
            for (values, value) in values.iter_mut().zip(drawn) {
                values.extend(value);
            }
        }
        let values = values.into_iter();
        let intervals = values.map(|values| self.interval(values, blocks));
        intervals.collect()
    }

    /// Whether so many blocks can be drawn from.
    fn possible(&self, blocks: usize) -> bool {
        blocks >= MIN_BLOCKS && self.draws > 0 && (0.0..1.0).contains(&self.level)
    }

    /// The interval of the values of all draws of so many blocks, of which there are enough.
    fn interval(&self, mut values: Vec<f64>, blocks: usize) -> Option<Interval> {
        if values.len() * 2 < self.draws {
            return None;
        }
        values.sort_by(f64::total_cmp);
        // Draws of n blocks are too narrow by √(1 - 1/n) and know nothing of Student's t.
        let n = blocks as f64;
        let limit = student_limit(self.level, blocks - 1) / ((n - 1.0) / n).sqrt();
        let tail = normal_cdf(-limit);
        let at = |share: f64| {
            let place = share * (values.len() - 1) as f64;
            values[place.round() as usize]
        };
        Some(Interval {
            low: at(tail),
            high: at(1.0 - tail),
        })
    }
}

/// Adds numbers one by one.
pub(crate) fn add<const N: usize>(sums: &mut [f64; N], more: &[f64; N]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(sums: &[f64; 2]) -> [Option<f64>; 1] {
        [(sums[1] > 0.0).then(|| sums[0] / sums[1])]
    }

    #[test]
    fn the_interval_of_a_share_has_the_width_of_theory() {
        // 400 independent blocks of one event, 30 % hits: standard error sqrt(0.3 · 0.7 / 400) = 0.0229.
        let blocks: Vec<[f64; 2]> = (0..400)
            .map(|k| [f64::from(u8::from(k % 10 < 3)), 1.0])
            .collect();
        let bootstrap = Bootstrap {
            draws: 4000,
            ..Bootstrap::default()
        };
        let [interval] = bootstrap.intervals(0, &blocks, rate);
        let interval = interval.unwrap();
        assert!(
            (interval.low - (0.3 - 1.96 * 0.0229)).abs() < 0.006,
            "{interval:?}"
        );
        assert!(
            (interval.high - (0.3 + 1.96 * 0.0229)).abs() < 0.006,
            "{interval:?}"
        );
        assert_eq!([Some(interval)], bootstrap.intervals(0, &blocks, rate));
    }

    #[test]
    fn intervals_of_few_blocks_hold_the_truth_as_often_as_they_say() {
        // 95 % of 400 are 380. Python with other random numbers: 367, and 330 of plain percentiles.
        let bootstrap = Bootstrap {
            draws: 400,
            ..Bootstrap::default()
        };
        let mut held = 0;
        for repetition in 0..400 {
            let mut random = stream(41, "blocks", &[repetition]);
            let blocks: Vec<[f64; 2]> = (0..5).map(|_| [random.random(), 1.0]).collect();
            let [interval] = bootstrap.intervals(repetition, &blocks, rate);
            held += usize::from(interval.unwrap().holds(0.5));
        }
        assert!((350..=395).contains(&held), "{held}");
    }

    #[test]
    fn too_little_data_gives_no_interval() {
        let bootstrap = Bootstrap::default();
        assert_eq!(bootstrap.intervals(0, &[[1.0, 2.0]; 4], rate), [None]);
        assert_eq!(bootstrap.intervals(0, &[[0.0, 0.0]; 40], rate), [None]);
        assert!(bootstrap.intervals(0, &[[1.0, 2.0]; 5], rate)[0].is_some());
    }

    #[test]
    fn half_of_the_draws_must_have_a_value() {
        // Ten of 20 blocks have a 1: the sum of a draw is 10 or more in 59 % of the draws, 11 or more in 41 %.
        let blocks: Vec<[f64; 1]> = (0..20).map(|k| [f64::from(k % 2)]).collect();
        let from = |least: f64| {
            let sum = |sums: &[f64; 1]| [(sums[0] >= least).then_some(sums[0])];
            Bootstrap::default().intervals(0, &blocks, sum)[0]
        };
        assert!(from(10.0).is_some());
        assert_eq!(from(11.0), None);
    }

    #[test]
    fn an_interval_of_a_lower_level_is_narrower() {
        // Of a normal distribution 80 % lie within 1.28 standard errors, 95 % within 1.96. A share of 400 blocks goes in
        // steps, of which the wider one has 36.
        let blocks: Vec<[f64; 2]> = (0..400)
            .map(|k| [f64::from(u8::from(k % 10 < 3)), 1.0])
            .collect();
        let width = |level: f64| {
            let bootstrap = Bootstrap {
                draws: 4000,
                level,
                ..Bootstrap::default()
            };
            let [interval] = bootstrap.intervals(0, &blocks, rate);
            interval.map(|i| i.high - i.low).unwrap()
        };
        let ratio = width(0.8) / width(0.95);
        assert!((ratio - 1.28 / 1.96).abs() < 0.08, "{ratio}");
    }

    #[test]
    fn drawing_numbers_of_blocks_is_drawing_blocks() {
        let blocks: Vec<[f64; 2]> = (0..30).map(|k| [f64::from(k % 3), 2.0]).collect();
        let bootstrap = Bootstrap::default();
        let of_draws = bootstrap.intervals_of_draws(7, blocks.len(), |drawn| {
            let sum = |n: usize| -> f64 {
                let terms = blocks.iter().zip(drawn);
                terms
                    .map(|(block, &times)| block[n] * f64::from(times))
                    .sum()
            };
            rate(&[sum(0), sum(1)]).to_vec()
        });
        assert_eq!(of_draws, bootstrap.intervals(7, &blocks, rate));
        assert!(
            bootstrap
                .intervals_of_draws(7, 4, |_| vec![None])
                .is_empty()
        );
    }
}
