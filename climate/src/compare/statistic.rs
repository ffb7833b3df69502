//! A statistic computed from blocks of years, or from any resample of them.

use crate::compare::weights::Weights;
use std::collections::HashSet;

/// A statistic of blocks of years.
#[derive(Debug, Clone, PartialEq)]
pub enum Statistic {
    /// A sum over the blocks divided by another sum, such as counts by years, or values by events.
    Ratio {
        /// For each block.
        numerator: Vec<f64>,
        /// For each block.
        denominator: Vec<f64>,
    },
    /// A quantile of all values in the blocks: the smallest value not exceeded by a share of them.
    Quantile {
        /// The share, 0 to 1.
        share: f64,
        /// Ascending values, each with its block.
        values: Vec<(f64, u32)>,
        /// Number of blocks.
        blocks: usize,
    },
}

impl Statistic {
    /// A rate: counts per block, and the years (or other exposure) in which they were counted.
    pub fn ratio(numerator: Vec<f64>, denominator: Vec<f64>) -> Self {
        Self::Ratio {
            numerator,
            denominator,
        }
    }

    /// A quantile of values, each with its block; non-finite values are dropped.
    pub fn quantile(share: f64, mut values: Vec<(f64, u32)>, blocks: usize) -> Self {
        values.retain(|(value, block)| value.is_finite() && (*block as usize) < blocks);
        values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Self::Quantile {
            share,
            values,
            blocks,
        }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        match self {
            Self::Ratio { numerator, .. } => numerator.len(),
            Self::Quantile { blocks, .. } => *blocks,
        }
    }

    /// Number of blocks with data: for a mean or a quantile over events, those with events.
    pub fn known_blocks(&self) -> usize {
        match self {
            Self::Ratio { denominator, .. } => denominator.iter().filter(|d| **d > 0.0).count(),
            Self::Quantile { values, .. } => {
                let blocks: HashSet<u32> = values.iter().map(|(_, block)| *block).collect();
                blocks.len()
            }
        }
    }

    /// The statistic of the original sample; `None` if undefined, such as a mean over no events.
    pub fn value(&self) -> Option<f64> {
        let value = self.of_draws(&Weights::once(self.blocks()))[0];
        value.is_finite().then_some(value)
    }

    /// The statistic of each resample; non-finite if undefined.
    pub(crate) fn of_draws(&self, weights: &Weights) -> Vec<f64> {
        match self {
            Self::Ratio {
                numerator,
                denominator,
            } => {
                let mut values = weights.sums(numerator);
                let below = weights.sums(denominator);
                (values.iter_mut().zip(&below)).for_each(|(value, sum)| *value /= sum);
                values
            }
            Self::Quantile {
                share,
                values,
                blocks,
            } => {
                let mut counts = vec![0.0; *blocks];
                (values.iter()).for_each(|(_, block)| counts[*block as usize] += 1.0);
                let totals = weights.sums(&counts);
                (totals.iter().enumerate())
                    .map(|(draw, total)| quantile(*share * total, values, weights.draw(draw)))
                    .collect()
            }
        }
    }

    /// Joins two samples, with the blocks of `other` after those of `self`; `None` if they are of different kinds.
    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        Self::concat([self, other])
    }

    /// Joins samples of one kind by appending their blocks; `None` if there are none or their kinds differ.
    pub(crate) fn concat<'a>(samples: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut samples = samples.into_iter();
        let mut whole = samples.next()?.clone();
        for sample in samples {
            match (&mut whole, sample) {
                (
                    Self::Ratio {
                        numerator,
                        denominator,
                    },
                    Self::Ratio {
                        numerator: n,
                        denominator: d,
                    },
                ) => {
                    numerator.extend(n);
                    denominator.extend(d);
                }
                (
                    Self::Quantile { values, blocks, .. },
                    Self::Quantile {
                        values: v,
                        blocks: b,
                        ..
                    },
                ) => {
                    let before = *blocks as u32;
                    values.extend(v.iter().map(|(value, block)| (*value, before + block)));
                    *blocks += b;
                }
                _ => return None,
            }
        }
        match whole {
            Self::Quantile {
                share,
                values,
                blocks,
            } => Some(Self::quantile(share, values, blocks)),
            ratio => Some(ratio),
        }
    }
}

/// The smallest value that at least `wanted` of the weight does not exceed.
fn quantile(wanted: f64, values: &[(f64, u32)], weights: &[u16]) -> f64 {
    // Sums of integers are exact; the rounding of the share must not shift the rank.
    let wanted = wanted - 1e-9;
    let mut below = 0u32;
    for (value, block) in values {
        below += u32::from(weights[*block as usize]);
        if below > 0 && f64::from(below) >= wanted {
            return *value;
        }
    }
    f64::NAN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_small_samples() {
        let rate = Statistic::ratio(vec![3.0, 5.0, 4.0], vec![1.0; 3]);
        assert_eq!(rate.value(), Some(4.0));
        assert_eq!(Statistic::ratio(vec![0.0; 3], vec![0.0; 3]).value(), None);
        let values = vec![(5.0, 1), (1.0, 0), (3.0, 0), (f64::NAN, 0), (2.0, 1)];
        let median = |share| Statistic::quantile(share, values.clone(), 2).value();
        assert_eq!(
            (median(0.5), median(0.9), median(0.25)),
            (Some(2.0), Some(5.0), Some(1.0))
        );
        assert_eq!(Statistic::quantile(0.5, Vec::new(), 4).value(), None);
    }

    #[test]
    fn joined_samples_are_the_sum_of_both() {
        let a = Statistic::quantile(0.5, vec![(1.0, 0), (9.0, 1)], 2);
        let b = Statistic::quantile(0.5, vec![(4.0, 0), (5.0, 0), (6.0, 0)], 1);
        let both = a.joined(&b).unwrap();
        assert_eq!((both.blocks(), both.value()), (3, Some(5.0)));
        assert!(a.joined(&Statistic::ratio(vec![1.0], vec![1.0])).is_none());
        let rates =
            [[3.0, 5.0], [4.0, 8.0], [1.0, 9.0]].map(|n| Statistic::ratio(n.into(), vec![1.0; 2]));
        let all = Statistic::concat(&rates).unwrap();
        assert_eq!((all.blocks(), all.value()), (6, Some(5.0)));
        let medians = [&both, &a];
        let all = Statistic::concat(medians).unwrap();
        assert_eq!((all.blocks(), all.value()), (5, Some(5.0)));
        assert_eq!(Statistic::concat([&a]).unwrap(), a);
        assert_eq!(Statistic::concat(std::iter::empty()), None);
    }
}
