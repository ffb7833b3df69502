//! The detection section: loss weights, use of labels, and box suppression.

use serde::{Deserialize, Serialize};
use squall_data::boxes::LabelledShare;
use squall_data::boxes::suppress::Suppression;
use squall_model::detection::DetectionLossConfig;
use std::path::PathBuf;

/// What `task = "detect"` needs besides the rest of a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Detection {
    /// How much each part of the loss counts. Defaults as published.
    pub loss: DetectionLossConfig,
    /// What `loss.reconstruction` becomes, evenly, over the run. Default: it stays.
    pub reconstruction_end: Option<f64>,
    /// Share of the labelled training samples whose boxes are used, drawn by `labelled_seed`; the others teach by their
    /// reconstruction, if at all. Default 1.
    pub labelled_share: f64,
    /// Seed of that draw. Default 1.
    pub labelled_seed: u64,
    /// Samples of every batch that come from those without labels (or whose labels are not used), which teach by their
    /// reconstruction, or by `pseudo_labels`. They are part of each rank's batch; with `distributed.global_batch` part
    /// of that one, and the number of ranks (times `training.accumulate`) must divide them, too. Default 0: these are not
    /// read.
    pub unlabelled_per_batch: usize,
    /// A file of boxes that a network found in the samples whose labels are not used
    /// (`squall infer STORE --split train` writes boxes.csv): these samples teach them as if they were labels. Default
    /// none.
    pub pseudo_labels: Option<PathBuf>,
    /// Least confidence of the boxes of `pseudo_labels` that are used. Samples whose boxes all have less stay without
    /// labels. Default 0.9, as published.
    pub pseudo_min_confidence: f32,
    /// Which boxes are kept, in validation and inference.
    pub suppression: Suppression,
}

impl Default for Detection {
    fn default() -> Self {
        Self {
            loss: DetectionLossConfig::default(),
            reconstruction_end: None,
            labelled_share: 1.0,
            labelled_seed: 1,
            unlabelled_per_batch: 0,
            pseudo_labels: None,
            pseudo_min_confidence: 0.9,
            suppression: Suppression::default(),
        }
    }
}

impl Detection {
    /// Which labelled samples have their labels used.
    pub fn share(&self) -> LabelledShare {
        LabelledShare {
            share: self.labelled_share,
            seed: self.labelled_seed,
        }
    }

    /// The loss at this share of the run.
    pub fn loss_at(&self, progress: f64) -> DetectionLossConfig {
        let (start, end) = (self.loss.reconstruction, self.reconstruction_end);
        DetectionLossConfig {
            reconstruction: end.map_or(start, |end| {
                start + (end - start) * progress.clamp(0.0, 1.0)
            }),
            ..self.loss
        }
    }

    /// Whether the reconstruction has weight at any point of the run; if not, the decoder is never run.
    pub fn reconstructs(&self) -> bool {
        [0.0, 1.0]
            .iter()
            .any(|&progress| self.loss_at(progress).reconstruction > 0.0)
    }

    /// # Errors
    /// What is wrong, as text.
    pub(super) fn check(&self) -> Result<(), String> {
        let bad = |error: &dyn std::fmt::Display| format!("[detection] {error}");
        self.loss.check().map_err(|error| bad(&error))?;
        self.loss_at(1.0).check().map_err(|error| bad(&error))?;
        self.suppression.check().map_err(|error| bad(&error))?;
        if !(self.labelled_share > 0.0 && self.labelled_share <= 1.0) {
            let found = self.labelled_share;
            return Err(format!(
                "`detection.labelled_share`: expected above 0, at most 1, found {found}"
            ));
        }
        if !(0.0..=1.0).contains(&self.pseudo_min_confidence) {
            let found = self.pseudo_min_confidence;
            return Err(format!(
                "`detection.pseudo_min_confidence`: expected 0 to 1, found {found}"
            ));
        }
        if self.pseudo_labels.is_some() && self.unlabelled_per_batch == 0 {
            return Err(
                "`detection.pseudo_labels`: no sample without labels is read; set `detection.unlabelled_per_batch`"
                    .into(),
            );
        }
        Ok(())
    }
}
