//! The shape of a step and an epoch: a run resumes only if both are unchanged.

use super::checkpoint::CheckpointFacts;
use crate::recipe::LocalBatch;

/// The shape of a step and an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepShape {
    /// Ranks of a step.
    pub ranks: usize,
    /// Samples per step on each rank.
    pub batch: LocalBatch,
    /// Steps per epoch, counting the samples that teach directly.
    pub steps_per_epoch: usize,
}

impl StepShape {
    /// Returns why a checkpoint's run cannot resume with this shape, or `None` if it can. Old checkpoints lack the
    /// number of unlabelled samples per step: it was the recipe's `unlabelled_key` on each rank.
    pub(super) fn differs(&self, was: &CheckpointFacts, unlabelled_key: usize) -> Option<String> {
        let (ranks, samples) = was.ranks;
        let unlabelled = was.unlabelled.unwrap_or(unlabelled_key);
        let saved = LocalBatch {
            labelled: samples.saturating_sub(unlabelled),
            unlabelled,
        };
        if of_all(ranks, saved) != of_all(self.ranks, self.batch) {
            return Some(other_step((ranks, saved), (self.ranks, self.batch)));
        }
        let (was, is) = (was.steps_per_epoch?, self.steps_per_epoch);
        (was != is).then(|| {
            format!(
                "an epoch had {was} steps, now it would have {is}: train on as many nodes with as many ranks each, or begin a new run with \
                 `training.start_from`"
            )
        })
    }
}

/// Samples per step over all ranks, labelled and unlabelled.
fn of_all(ranks: usize, batch: LocalBatch) -> [usize; 2] {
    [batch.labelled, batch.unlabelled].map(|samples| ranks.saturating_mul(samples))
}

/// Describes the old and the new shape of a step.
fn other_step(was: (usize, LocalBatch), is: (usize, LocalBatch)) -> String {
    let [all, now] = [was, is].map(|(ranks, batch)| of_all(ranks, batch));
    if all[1] == 0 && now[1] == 0 {
        let (was_all, is_all) = (all[0], now[0]);
        let ((ranks, was), (is_ranks, is)) = (was, is);
        return format!(
            "a step had {was_all} samples ({ranks} ranks with {}), now it would have {is_all} ({is_ranks} with {}); with \
             `distributed.global_batch={was_all}` from its beginning a run can go on with any number of ranks that divides it",
            was.labelled, is.labelled
        );
    }
    let step = |[labelled, unlabelled]: [usize; 2]| format!("{labelled} and {unlabelled}");
    format!(
        "a step had {} samples with labels and without on {} ranks, now it would have {} on {}; with `distributed.global_batch={}` and \
         `detection.unlabelled_per_batch={}` from its beginning a run can go on with any number of ranks that divides both",
        step(all),
        was.0,
        step(now),
        is.0,
        all[0].saturating_add(all[1]),
        all[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(ranks: usize, labelled: usize, unlabelled: usize) -> StepShape {
        StepShape {
            ranks,
            batch: LocalBatch {
                labelled,
                unlabelled,
            },
            steps_per_epoch: 5,
        }
    }

    /// A checkpoint of such a run; of one from before `unlabelled` and the steps of an epoch were kept, if `old`.
    fn saved(shape: StepShape, old: bool) -> CheckpointFacts {
        let mut facts = serde_json::json!({
            "progress": {"step": 3, "skipped_in_row": 0, "skipped": 0},
            "best": null,
            "validation_due": false,
            "data_hash": "",
            "ranks": [shape.ranks, shape.batch.samples()],
        });
        if !old {
            facts["unlabelled"] = shape.batch.unlabelled.into();
            facts["steps_per_epoch"] = shape.steps_per_epoch.into();
        }
        serde_json::from_value(facts).unwrap()
    }

    #[test]
    fn a_step_keeps_its_samples_of_both_kinds() {
        let was = saved(shape(1, 6, 2), false);
        assert_eq!(shape(2, 3, 1).differs(&was, 2), None);
        // As many samples, but others: as ranks dealt them that each took as many without labels.
        let why = shape(2, 2, 2).differs(&was, 2).unwrap();
        for word in ["6 and 2", "4 and 4", "global_batch=8", "per_batch=2"] {
            assert!(why.contains(word), "`{why}` lacks `{word}`");
        }
        let why = shape(2, 4, 0).differs(&saved(shape(1, 4, 0), false), 0);
        let why = why.unwrap();
        for word in ["had 4 samples", "now it would have 8", "global_batch=4"] {
            assert!(why.contains(word), "`{why}` lacks `{word}`");
        }
    }

    #[test]
    fn an_epoch_keeps_its_steps() {
        let was = saved(shape(2, 3, 1), false);
        let now = StepShape {
            steps_per_epoch: 6,
            ..shape(2, 3, 1)
        };
        let why = now.differs(&was, 2).unwrap();
        assert!(why.contains("had 5 steps, now it would have 6"), "{why}");
    }

    /// Before, the key counted samples of each rank, whatever the global batch.
    #[test]
    fn old_checkpoints_say_it_by_the_recipe() {
        let one = saved(shape(1, 6, 2), true);
        assert_eq!(shape(2, 3, 1).differs(&one, 2), None);
        let two = saved(shape(2, 2, 2), true);
        assert!(shape(2, 3, 1).differs(&two, 2).is_some());
        assert_eq!(shape(2, 2, 2).differs(&two, 2), None);
    }
}
