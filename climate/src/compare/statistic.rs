//! A number computed from blocks of years, and the same from any draw of them.

use crate::compare::weights::Weights;
use std::collections::HashSet;

/// A number that follows from some blocks of years.
#[derive(Debug, Clone, PartialEq)]
pub enum Statistic {
    /// A sum over the blocks divided by another one: counts by years, or values by events.
    Ratio {
        /// For each block.
        numerator: Vec<f64>,
        /// For each block.
        denominator: Vec<f64>,
    },
    /// A quantile of all values of the blocks: the smallest value that a share of them does not exceed.
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
    /// A rate for each block: counts and the years (or other exposure) that they were counted in.
    pub fn ratio(numerator: Vec<f64>, denominator: Vec<f64>) -> Self {
        Self::Ratio {
            numerator,
            denominator,
        }
    }

    /// A quantile of values, each given with its block; values that are not numbers are left out.
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

    /// Number of blocks that the number is taken over: those with events, for a mean or a quantile over events.
    pub fn known_blocks(&self) -> usize {
        match self {
            Self::Ratio { denominator, .. } => denominator.iter().filter(|d| **d > 0.0).count(),
            Self::Quantile { values, .. } => {
                let blocks: HashSet<u32> = values.iter().map(|(_, block)| *block).collect();
                blocks.len()
            }
        }
    }

    /// The number of the sample as it is; `None` where it is not defined, as a mean over no events.
    pub fn value(&self) -> Option<f64> {
        let value = self.of_draws(&Weights::once(self.blocks()))[0];
        value.is_finite().then_some(value)
    }

    /// The number for each draw; not finite where it is not defined.
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

    /// Both samples as one, the blocks of `other` after those of `self`; `None` if they are of different kinds.
    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (
                Self::Ratio {
                    numerator: n,
                    denominator: d,
                },
                Self::Ratio {
                    numerator,
                    denominator,
                },
            ) => Some(Self::ratio(
                [n.as_slice(), numerator].concat(),
                [d.as_slice(), denominator].concat(),
            )),
            (
                Self::Quantile {
                    share,
                    values: v,
                    blocks: b,
                },
                Self::Quantile { values, blocks, .. },
            ) => {
                let moved = values
                    .iter()
                    .map(|(value, block)| (*value, block + *b as u32));
                Some(Self::quantile(
                    *share,
                    v.iter().copied().chain(moved).collect(),
                    b + blocks,
                ))
            }
            _ => None,
        }
    }
}

/// The smallest value that at least `wanted` of the weight does not exceed.
fn quantile(wanted: f64, values: &[(f64, u32)], weights: &[u16]) -> f64 {
    // Sums of whole numbers are exact; the share's rounding must not move the rank.
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
    }
}
