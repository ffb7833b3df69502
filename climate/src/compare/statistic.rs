//! A number computed from blocks of years, and the same from any draw of them.

use crate::compare::weights::Weights;

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
    pub /// The smallest value that at least `wanted` of the weight does not exceed.
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
