//! Boxes against boxes: average precision over the times at which both sides looked.

use super::times::{BoxesAt, TimeCoverage, compared_times};
use super::{DetectionScore, DetectionScorer};
use crate::bootstrap::Bootstrap;
use crate::error::{Result, ValidationError};
use serde::{Deserialize, Serialize};

/// Scores two tables of boxes over their [`compared_times`].
///
/// # Errors
/// [`ValidationError::Invalid`] if the two have no time in common, [`ValidationError::Mismatch`] if calendars differ.
pub fn score_boxes(
    truth: &[BoxesAt],
    predicted: &[BoxesAt],
    bootstrap: &Bootstrap,
) -> Result<BoxScores> {
    let compared = compared_times(truth, predicted)?;
    let mut scorer = DetectionScorer::new();
    for (time, [truth, predicted]) in &compared.times {
        scorer.add(*time, truth, predicted)?;
    }
    let score = scorer.score(bootstrap).ok_or_else(|| {
        ValidationError::Invalid(
            "the boxes of the prediction and of the truth have no time in common".into(),
        )
    })?;
    Ok(BoxScores {
        coverage: compared.coverage,
        score,
    })
}

/// Scores of two tables of boxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoxScores {
    /// Which times were compared.
    pub coverage: TimeCoverage,
    /// Average precision.
    #[serde(flatten)]
    pub score: DetectionScore,
}
