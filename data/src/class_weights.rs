//! Weights of classes in the loss.

use crate::error::{DataError, Result};
use serde::{Deserialize, Serialize};

/// The rule by which class weights follow from class frequencies f.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassWeighting {
    /// f^(-1/2), normalised to sum 1 (Kurth et al. 2018, section V-B1).
    #[default]
    InverseSqrt,
    /// f^(-0.125), not normalised (MLPerf HPC DeepCAM).
    Deepcam,
    /// 1 for all.
    None,
}

impl ClassWeighting {
    /// Computes class weights from pixel counts.
    ///
    /// A class without pixels gets the largest weight of the others: training never sees it, and in a validation loss
    /// it counts like the rarest known class.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if there are no pixels at all.
    ///
    /// # Example
    /// ```
    /// use squall_data::class_weights::ClassWeighting;
    /// let weights = ClassWeighting::InverseSqrt.weights(&[982_081, 708, 16_900]).unwrap();
    /// assert!((weights[0] - 0.0218).abs() < 1e-4);
    /// ```
    pub fn weights(self, counts: &[u64]) -> Result<Vec<f32>> {
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return Err(DataError::Invalid(
                "class weights: no labelled pixel to take frequencies from".to_string(),
            ));
        }
        let weight = |count: u64| {
            let frequency = count as f64 / total as f64;
            match self {
                Self::InverseSqrt => frequency.powf(-0.5),
                Self::Deepcam => frequency.powf(-0.125),
                Self::None => 1.0,
            }
        };
        let largest = counts
            .iter()
            .filter(|&&count| count > 0)
            .map(|&count| weight(count))
            .fold(0.0, f64::max);
        let mut weights: Vec<f64> = counts
            .iter()
            .map(|&count| if count > 0 { weight(count) } else { largest })
            .collect();
        if self == Self::InverseSqrt {
            let sum: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        Ok(weights.into_iter().map(|weight| weight as f32).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(weighting: ClassWeighting, counts: &[u64], expected: &[f32]) {
        let weights = weighting.weights(counts).unwrap();
        for (weight, expected) in weights.iter().zip(expected) {
            assert!((weight / expected - 1.0).abs() < 3e-3, "{weights:?}");
        }
    }

    #[test]
    fn published_weights_come_out() {
        // The squares of the 0.991, 0.0266 and 0.13 in the published code, from frequencies 0.982, 0.0007 and 0.017.
        let paper = [98_208_100, 70_756, 1_690_000];
        check(ClassWeighting::InverseSqrt, &paper, &[0.0218, 0.812, 0.166]);
        let mlperf = [98_626_800, 45_787, 1_327_430];
        check(ClassWeighting::Deepcam, &mlperf, &[1.0017, 2.6146, 1.7164]);
        check(ClassWeighting::None, &paper, &[1.0, 1.0, 1.0]);
    }

    #[test]
    fn an_absent_class_gets_the_largest_weight() {
        check(
            ClassWeighting::InverseSqrt,
            &[75, 0, 25],
            &[0.2240, 0.3880, 0.3880],
        );
        check(ClassWeighting::InverseSqrt, &[5, 0, 0], &[1.0 / 3.0; 3]);
        assert!(ClassWeighting::InverseSqrt.weights(&[0, 0, 0]).is_err());
    }
}
