//! Rules of training that changed: a run of an earlier version resumes only where they make no difference to it.

use super::Run;
use super::checkpoint::CheckpointFacts;
use crate::error::Result;
use crate::recipe::Task;
use squall_data::store::Split;

/// The number of the newest rules, which checkpoints keep. Those before kept none, and are 0.
pub(super) const NEWEST: u32 = 1;

/// How a run that the new rules would change can still be used.
const WAY_OUT: &str =
    "finish it with the version that began it, or begin a new run with `training.start_from`";

impl Run<'_> {
    /// Returns why a checkpoint's run would go on differently than it began, or `None` if it would not.
    ///
    /// # Errors
    /// [`crate::JobError::Data`] if a store has no mask although its masks are learnt.
    pub(super) fn other_rules(&self, facts: &CheckpointFacts) -> Result<Option<String>> {
        if facts.rules >= NEWEST {
            return Ok(None);
        }
        let weights = self.weights_of_all_masks()?.map(|before| {
            format!(
                "class weights came from all masks of the store ({before:?}), also from those that `detection.labelled_share` leaves out; now \
                 they would be {:?}",
                self.class_weights
            )
        });
        Ok(weights.map(|reason| format!("{reason}: {WAY_OUT}")))
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
