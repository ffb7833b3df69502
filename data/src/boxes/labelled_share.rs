//! Selects the training samples that count as labelled if only a share of them may.

use crate::error::{DataError, Result};
use crate::random::stream;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// A random share of samples, for training with few labels and many unlabelled fields.
///
/// For the same seed, a smaller share is a subset of every larger one, so that scores over shares are of nested sets.
///
/// # Source
/// Racah et al. 2017 (ExtremeWeather), arXiv:1612.02095, section 4: unlabelled frames besides labelled ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledShare {
    /// Share of the samples, 0 to 1.
    pub share: f64,
    /// Seed of the selection.
    pub seed: u64,
}

impl LabelledShare {
    /// Returns the ids that count as labelled, ascending: the share rounded to a whole number, but at least one if the
    /// share is not 0. A pure function of share, seed and the set of ids, regardless of their order.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if the share is outside of 0 to 1.
    /// # Example
    /// ```
    /// use squall_data::boxes::LabelledShare;
    /// let tenth = LabelledShare { share: 0.1, seed: 7 };
    /// let ids: Vec<usize> = (0..50).collect();
    /// assert_eq!(tenth.choose(&ids).unwrap().len(), 5);
    /// ```
    pub fn choose(self, ids: &[usize]) -> Result<Vec<usize>> {
        if !(0.0..=1.0).contains(&self.share) {
            return Err(DataError::Invalid(format!(
                "share of labelled samples: expected 0 to 1, found {}",
                self.share
            )));
        }
        let mut order = ids.to_vec();
        order.sort_unstable();
        order.dedup();
        order.shuffle(&mut stream(self.seed, "labelled share", &[]));
        let wanted = (self.share * order.len() as f64).round() as usize;
        order.truncate(wanted.max(usize::from(self.share > 0.0)));
        order.sort_unstable();
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(share: f64, seed: u64, ids: &[usize]) -> Vec<usize> {
        LabelledShare { share, seed }.choose(ids).unwrap()
    }

    #[test]
    fn shares_are_met_nested_and_drawn_by_the_seed() {
        let ids: Vec<usize> = (0..200).map(|k| 3 * k + 1).collect();
        let (tenth, half) = (choose(0.1, 5, &ids), choose(0.5, 5, &ids));
        assert_eq!((tenth.len(), half.len()), (20, 100));
        assert!(tenth.iter().all(|id| half.contains(id)));
        assert!(half.is_sorted() && half.iter().all(|id| ids.contains(id)));
        assert_ne!(choose(0.1, 6, &ids), tenth);
        let mut turned = ids.clone();
        turned.reverse();
        assert_eq!(choose(0.1, 5, &turned), tenth);
        assert_eq!(choose(1.0, 5, &ids), ids);
        assert!(choose(0.0, 5, &ids).is_empty());
        assert_eq!(choose(1e-6, 5, &ids).len(), 1);
        assert!(choose(0.5, 5, &[]).is_empty());
    }

    #[test]
    fn impossible_shares_are_refused() {
        for share in [-0.1, 1.1, f64::NAN] {
            let error = LabelledShare { share, seed: 1 }.choose(&[1]).unwrap_err();
            assert!(error.to_string().contains("0 to 1"), "{error}");
        }
    }
}
