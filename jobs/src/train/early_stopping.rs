//! Early stopping: ends a run when its validation scores say so.

use super::Run;
use serde::Serialize;

/// Why a run ended before its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedEarly {
    /// A validation reached `training.target_score`.
    TargetScore,
    /// `training.patience` consecutive validations did not improve on the best one.
    Patience,
}

impl Run<'_> {
    /// Returns why the run ends after its current step, or `None` if it goes on.
    ///
    /// The answer depends only on the step and the best validation. A checkpoint has both and all ranks know them, so a
    /// run resumed from any point ends at the same step.
    pub(super) fn ends_early(&self) -> Option<EndedEarly> {
        let (training, best) = (&self.recipe.training, self.best.as_ref()?);
        if self.validation_due {
            return None;
        }
        let reached = |target: f64| best.scores.score() >= target;
        if training.target_score.is_some_and(reached) {
            return Some(EndedEarly::TargetScore);
        }
        let since_best = self.learner.progress.step.saturating_sub(best.step);
        let in_vain = since_best / self.validate_every;
        // Until the first storm is found, the best score is that of the background.
        let has_begun = !best.scores.finds_nothing();
        let is_over = |&patience: &u64| has_begun && in_vain >= patience;
        training
            .patience
            .filter(is_over)
            .map(|_| EndedEarly::Patience)
    }

    /// Logs why the run ends early.
    pub(super) fn log_ended_early(&self, why: EndedEarly) {
        let Some(best) = &self.best else { return };
        let (step, total) = (self.learner.progress.step, self.total_steps);
        let (name, score) = (best.scores.score_name(), best.scores.score());
        match why {
            EndedEarly::TargetScore => tracing::info!(
                "training ends at step {step} of {total}: {name} {score:.4} at step {} reaches `training.target_score`",
                best.step
            ),
            EndedEarly::Patience => tracing::info!(
                "training ends at step {step} of {total}: no validation since step {} was better than its {name} {score:.4} (`training.patience`)",
                best.step
            ),
        }
    }

    /// Warns if the recipe stops on scores that no validation will produce.
    pub(super) fn warn_ends_without_scores(&self) {
        let training = &self.recipe.training;
        for (key, given) in [
            ("target_score", training.target_score.is_some()),
            ("patience", training.patience.is_some()),
        ] {
            if given && self.evaluator.is_none() {
                tracing::warn!(
                    "`training.{key}` has no effect: the store has no validation samples with labels"
                );
            }
        }
    }
}
