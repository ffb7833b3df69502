//! Rules of training that changed: a run of an earlier version resumes only where they make no difference to it.

use super::Run;
use super::checkpoint::CheckpointFacts;
use crate::error::Result;
use crate::recipe::Task;
use squall_data::store::Split;

/// The number of the newest rules, which checkpoints keep; it rises with every change of a rule, together with a check
/// of whom the change concerns in [`Run::other_rules`].
///
/// 0: versions that kept none. 1: class weights of teaching masks alone, running statistics once a step, the rest of an
/// epoch begins the next. 2: LARC scales weight decay that is a part of the step.
pub(super) const NEWEST: u32 = 2;

/// How a run that the new rules would change can still be used.
const WAY_OUT: &str =
    "finish it with the version that began it, or begin a new run with `training.start_from`";

impl Run<'_> {
    /// Returns why a checkpoint's run would go on differently than it began, or `None` if it would not.
    ///
    /// # Errors
    /// [`crate::JobError::Data`] if a store has no mask although its masks are learnt.
    pub(super) fn other_rules(&self, facts: &CheckpointFacts) -> Result<Option<String>> {
        // A run that is done has nothing left to do by any rules.
        if facts.rules >= NEWEST || facts.progress.step >= self.total_steps {
            return Ok(None);
        }
        let before_1 = match facts.rules {
            0 => self.differs_from_0()?,
            _ => None,
        };
        let reason = before_1.or_else(|| self.decay_beside_larc());
        Ok(reason.map(|reason| format!("{reason}: {WAY_OUT}")))
    }

    /// What the rules before 1 did otherwise, if anything.
    fn differs_from_0(&self) -> Result<Option<String>> {
        let weights = self.weights_of_all_masks()?.map(|before| {
            format!(
                "class weights came from all masks of the store ({before:?}), also from those that `detection.labelled_share` leaves out; now \
                 they would be {:?}",
                self.class_weights
            )
        });
        Ok((weights.or_else(|| self.statistics_by_batch())).or_else(|| self.rest_left_out()))
    }

    /// What the rules before 2 did with weight decay under LARC, if there are both.
    fn decay_beside_larc(&self) -> Option<String> {
        let optimiser = &self.recipe.optimiser;
        let is_scaled = optimiser.larc.is_some() && !optimiser.rule.shrinks();
        (is_scaled && optimiser.weight_decay > 0.0).then(|| {
            "LARC left weight decay as it was, beside the step that it scales; now it would scale both".to_string()
        })
    }

    /// What earlier versions did with running statistics, if steps have several batches and batches are normalised.
    fn statistics_by_batch(&self) -> Option<String> {
        let normalises = !self.learner.network.parameters().buffers().is_empty();
        let batches = self.recipe.training.accumulate;
        (batches > 1 && normalises).then(|| {
            format!(
                "running statistics of batch normalisation moved with each of the {batches} batches of a step; now they would move once a \
                 step"
            )
        })
    }

    /// What earlier versions did with samples that fill no step of an epoch, if there are any.
    fn rest_left_out(&self) -> Option<String> {
        let (rest, samples) = self.samples.rest()?;
        Some(format!(
            "every epoch left out {rest} of {samples} samples, which fill no step; now they would begin the next epoch, and `training.epochs` \
             be more steps"
        ))
    }

    /// The class weights that earlier versions gave a detector with masks, if they were others.
    fn weights_of_all_masks(&self) -> Result<Option<Vec<f32>>> {
        let recipe = self.recipe;
        let given = recipe.loss.class_weights.is_some();
        if recipe.task == Task::Segment || recipe.outputs_boxes_alone() || given {
            return Ok(None);
        }
        let counts = self.store.class_counts(Split::Train);
        let before = recipe.loss.weighting.weights(&counts)?;
        Ok((before != self.class_weights).then_some(before))
    }
}
