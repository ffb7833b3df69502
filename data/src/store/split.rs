//! Divides samples into training, validation and test sets.

use super::SampleEntry;
use crate::Time;
use crate::error::{DataError, Result};
use crate::random::stream;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// The role of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// For training weights and computing statistics.
    Train,
    /// For choosing settings.
    Validation,
    /// For the final score, used once.
    Test,
}

impl Split {
    /// All splits.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

/// How samples are divided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "rule", deny_unknown_fields)]
pub enum SplitRule {
    /// Individual samples, as in DeepCAM. Neighbouring times are nearly equal, so scores are too optimistic.
    Shuffled {
        /// Seed of the shuffle.
        seed: u64,
        /// Share of training; the rest is for the test.
        train: f64,
        /// Share of validation.
        validation: f64,
    },
    /// Whole blocks of days, dealt at random, so that a storm is in two splits only at the edges of blocks. If storms
    /// live longer than blocks last, most are at an edge.
    Blocks {
        /// Seed of the shuffle.
        seed: u64,
        /// Share of training.
        train: f64,
        /// Share of validation.
        validation: f64,
        /// Length of a block.
        days: f64,
    },
    /// Training times first, then validation, then test.
    Chronological {
        /// Share of training.
        train: f64,
        /// Share of validation.
        validation: f64,
    },
}

impl Default for SplitRule {
    /// Individual samples, 0.8/0.1/0.1 with seed 12345: the split of the published DeepCAM data.
    fn default() -> Self {
        Self::Shuffled {
            seed: 12345,
            train: 0.8,
            validation: 0.1,
        }
    }
}

impl SplitRule {
    /// Assigns a split to every time. A pure function of the rule and the times.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if the shares are not in [0, 1] or add up to more than 1, or a block has no length.
    pub fn assign(&self, times: &[Time]) -> Result<Vec<Split>> {
        let (train, validation) = self.shares();
        let bad_share = |share: f64| !(0.0..=1.0).contains(&share);
        if bad_share(train) || bad_share(validation) || train + validation > 1.0 + 1e-9 {
            return Err(DataError::Invalid(format!(
                "split: shares of training {train} and validation {validation} must be in [0, 1] and add up to at most 1"
            )));
        }
        // Units are assigned as a whole: samples, or blocks of them.
        let unit_of: Vec<usize> = match *self {
            Self::Blocks { days, .. } => blocks(times, days)?,
            Self::Shuffled { .. } | Self::Chronological { .. } => (0..times.len()).collect(),
        };
        let units = unit_of.iter().max().map_or(0, |last| last + 1);
        let mut order: Vec<usize> = (0..units).collect();
        if let Self::Shuffled { seed, .. } | Self::Blocks { seed, .. } = *self {
            order.shuffle(&mut stream(seed, "split", &[]));
        } else {
            order.sort_by(|&a, &b| times[a].partial_cmp(&times[b]).unwrap_or(a.cmp(&b)));
        }
        let first_validation = (train * units as f64).round() as usize;
        let mut first_test = ((train + validation) * units as f64).round() as usize;
        // Training without validation could not select a model: a single unit goes to validation unless the test has a
        // larger share.
        let equal = validation > 0.0 && train + 2.0 * validation > 1.0 - 1e-9;
        if equal && first_test == first_validation && first_test + 1 == units {
            first_test = units;
        }
        let mut split_of_unit = vec![Split::Test; units];
        for (position, &unit) in order.iter().enumerate() {
            if position < first_validation {
                split_of_unit[unit] = Split::Train;
            } else if position < first_test {
                split_of_unit[unit] = Split::Validation;
            }
        }
        Ok(unit_of
            .into_iter()
            .map(|unit| split_of_unit[unit])
            .collect())
    }

    /// Adapts newly assigned splits to a store that an earlier version began, which assigned a single unit to the test.
    /// The splits of samples already `there` are kept.
    pub fn keep_single_test(splits: &mut [Split], there: &[SampleEntry]) {
        let has = |split: Split| there.iter().any(|entry| entry.split == split);
        if has(Split::Test) && !has(Split::Validation) && !splits.contains(&Split::Test) {
            for split in splits {
                if *split == Split::Validation {
                    *split = Split::Test;
                }
            }
        }
    }

    fn shares(&self) -> (f64, f64) {
        match *self {
            Self::Shuffled {
                train, validation, ..
            }
            | Self::Blocks {
                train, validation, ..
            }
            | Self::Chronological { train, validation } => (train, validation),
        }
    }
}

/// Numbers the block of every time, from the earliest; blocks without times are not counted.
fn blocks(times: &[Time], days: f64) -> Result<Vec<usize>> {
    let seconds = days * crate::calendar::DAY_SECONDS as f64;
    if !(seconds >= 1.0 && seconds.is_finite()) {
        return Err(DataError::Invalid(format!(
            "split: blocks of {days} days have no length"
        )));
    }
    let Some(&first) = times
        .iter()
        .min_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal))
    else {
        return Ok(Vec::new());
    };
    let raw: Vec<u64> = times
        .iter()
        .map(|time| (time.seconds_since(first) as f64 / seconds) as u64)
        .collect();
    let mut used = raw.clone();
    used.sort_unstable();
    used.dedup();
    Ok(raw
        .iter()
        .map(|block| used.partition_point(|b| b < block))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Calendar;

    fn three_hourly(n: i64) -> Vec<Time> {
        let start = Time::new(Calendar::NoLeap, 1996, 1, 1, 0, 0, 0).unwrap();
        (0..n).map(|i| start.add_seconds(i * 10_800)).collect()
    }

    fn counts(splits: &[Split]) -> [usize; 3] {
        Split::ALL.map(|split| splits.iter().filter(|&&s| s == split).count())
    }

    #[test]
    fn shares_are_met_and_the_seed_decides() {
        let times = three_hourly(1000);
        let rule = SplitRule::default();
        let splits = rule.assign(&times).unwrap();
        assert_eq!(counts(&splits), [800, 100, 100]);
        assert_eq!(splits, rule.assign(&times).unwrap());
        let other = SplitRule::Shuffled {
            seed: 1,
            train: 0.8,
            validation: 0.1,
        };
        assert_ne!(splits, other.assign(&times).unwrap());
    }

    /// Five days a block: 30 days are six blocks, of which one is not for training.
    #[test]
    fn a_single_block_is_for_validation() {
        let dealt = |days: i64, validation: f64| {
            let rule = SplitRule::Blocks {
                seed: 3,
                train: 0.8,
                validation,
                days: 5.0,
            };
            counts(&rule.assign(&three_hourly(8 * days)).unwrap())
        };
        assert_eq!(dealt(30, 0.1), [200, 40, 0]);
        // Nobody asked for validation.
        assert_eq!(dealt(30, 0.0), [200, 0, 40]);
        assert_eq!(dealt(20, 0.1), [120, 40, 0]);
        assert_eq!(dealt(40, 0.1), [240, 40, 40]);
        // Too few for either.
        assert_eq!(dealt(10, 0.1), [80, 0, 0]);
    }

    #[test]
    fn what_was_dealt_to_the_test_before_stays_there() {
        let entry = |split| SampleEntry {
            time: "2000-01-01T00:00:00".into(),
            source: "fields.nc".into(),
            source_index: 0,
            split,
            class_counts: [0; 3],
            missing: 0,
            checksum: String::new(),
        };
        let turned = |there: &[Split]| {
            let there: Vec<SampleEntry> = there.iter().map(|&split| entry(split)).collect();
            let mut splits = vec![Split::Train, Split::Validation];
            SplitRule::keep_single_test(&mut splits, &there);
            splits[1]
        };
        assert_eq!(turned(&[Split::Train, Split::Test]), Split::Test);
        assert_eq!(turned(&[Split::Train]), Split::Validation);
        assert_eq!(
            turned(&[Split::Train, Split::Validation]),
            Split::Validation
        );
        assert_eq!(turned(&[]), Split::Validation);
    }

    #[test]
    fn blocks_stay_whole_and_chronological_stays_in_order() {
        let times = three_hourly(8 * 100);
        let rule = SplitRule::Blocks {
            seed: 3,
            train: 0.8,
            validation: 0.1,
            days: 5.0,
        };
        let splits = rule.assign(&times).unwrap();
        assert_eq!(counts(&splits), [640, 80, 80]);
        assert!(
            splits
                .chunks(40)
                .all(|block| block.iter().all(|s| *s == block[0]))
        );
        let rule = SplitRule::Chronological {
            train: 0.5,
            validation: 0.25,
        };
        let splits = rule.assign(&times).unwrap();
        assert!(splits.windows(2).all(|pair| pair[0] as u8 <= pair[1] as u8));
        assert_eq!(counts(&splits), [400, 200, 200]);
    }

    /// Files may come in any order.
    #[test]
    fn what_is_dealt_goes_by_time_and_not_by_place() {
        let times = three_hourly(8 * 60);
        let mut mixed: Vec<usize> = (0..times.len()).rev().collect();
        mixed.rotate_left(137);
        let mixed_times: Vec<Time> = mixed.iter().map(|&at| times[at]).collect();
        for rule in [
            SplitRule::Blocks {
                seed: 3,
                train: 0.5,
                validation: 0.25,
                days: 5.0,
            },
            SplitRule::Chronological {
                train: 0.5,
                validation: 0.25,
            },
        ] {
            let splits = rule.assign(&times).unwrap();
            let expected: Vec<Split> = mixed.iter().map(|&at| splits[at]).collect();
            assert!(rule.assign(&mixed_times).unwrap() == expected, "{rule:?}");
        }
    }

    #[test]
    fn impossible_shares_are_refused() {
        for (train, validation) in [(0.9, 0.2), (-0.1, 0.1), (f64::NAN, 0.1)] {
            let rule = SplitRule::Chronological { train, validation };
            assert!(rule.assign(&three_hourly(4)).is_err());
        }
        let rule = SplitRule::Blocks {
            seed: 1,
            train: 0.8,
            validation: 0.1,
            days: 0.0,
        };
        assert!(rule.assign(&three_hourly(4)).is_err());
        assert!(SplitRule::default().assign(&[]).unwrap().is_empty());
    }
}
