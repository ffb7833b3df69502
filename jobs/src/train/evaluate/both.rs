//! How good a network is that gives boxes and masks.

use super::{BoxScores, MaskScores};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How good boxes and masks of one network are, on the same samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BothScores {
    /// Of boxes; their loss is the recipe's of both, without the reconstruction.
    pub boxes: BoxScores,
    /// Scores of the masks.
    pub masks: MaskScores,
}

impl BothScores {
    /// The mean of the two scores: neither task is given up for the other.
    pub(super) fn score(&self) -> f64 {
        (self.boxes.score() + self.masks.mean_iou) / 2.0
    }

    pub(super) fn scalars(&self) -> Vec<(&'static str, f64)> {
        let of_masks = self.masks.scalars().into_iter();
        let of_masks = of_masks.filter(|(name, _)| *name != "validation/loss");
        self.boxes.scalars().into_iter().chain(of_masks).collect()
    }
}

impl fmt::Display for BothScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.boxes, self.masks)
    }
}
