//! How the samples of a step are divided among ranks.

use super::{Distributed, Recipe};

/// Samples of one batch. Each rank of a step takes one batch or, with `training.accumulate`, several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalBatch {
    /// Number of samples whose labels are used.
    pub labelled: usize,
    /// Number of additional samples, without labels or with unused ones.
    pub unlabelled: usize,
}

impl LocalBatch {
    /// Total number of samples.
    pub fn samples(self) -> usize {
        self.labelled + self.unlabelled
    }

    /// The samples of this many batches.
    #[must_use]
    pub fn times(self, batches: usize) -> Self {
        Self {
            labelled: self.labelled.saturating_mul(batches),
            unlabelled: self.unlabelled.saturating_mul(batches),
        }
    }

    /// Returns the batch size of a step on which each of `ranks` ranks takes `accumulate` batches. A global batch is
    /// divided evenly, for both kinds of samples, so that a step is the same on any number of ranks. Otherwise each
    /// batch has `training.batch` samples, `unlabelled` of them without labels.
    ///
    /// # Errors
    /// Key, expected and found, if a kind does not divide evenly, no labelled sample is left, or the batch
    /// normalisation groups do not fit.
    pub fn of(
        distributed: &Distributed,
        (batch, unlabelled): (usize, usize),
        (ranks, accumulate): (usize, usize),
    ) -> Result<Self, String> {
        check_unlabelled(distributed, batch, unlabelled)?;
        if !ranks.is_multiple_of(distributed.norm_ranks(ranks)) {
            return Err(format!(
                "`distributed.norm_ranks`: expected a divisor of {ranks} ranks, found {}",
                distributed.norm_ranks
            ));
        }
        let Some(global) = distributed.global_batch else {
            return Ok(Self {
                labelled: batch - unlabelled,
                unlabelled,
            });
        };
        let batches = ranks.saturating_mul(accumulate);
        let part = |key: &str, samples: usize, why: &str| match samples.is_multiple_of(batches) {
            true => Ok(samples / batches),
            false => Err(format!(
                "`{key}`: expected a multiple of {}{why}, found {samples}",
                dealt_to(ranks, accumulate)
            )),
        };
        let samples = part("distributed.global_batch", global, "")?;
        let why = ", as of `distributed.global_batch`, whose samples it counts";
        let unlabelled = part("detection.unlabelled_per_batch", unlabelled, why)?;
        Ok(Self {
            labelled: samples - unlabelled,
            unlabelled,
        })
    }
}

impl Recipe {
    /// The batch size of a step on `ranks` ranks: [`LocalBatch::of`] this recipe.
    ///
    /// # Errors
    /// Those of [`LocalBatch::of`].
    pub fn local_batch(&self, ranks: usize) -> Result<LocalBatch, String> {
        let batch = (self.training.batch, self.detection.unlabelled_per_batch);
        let dealt = (ranks, self.training.accumulate);
        LocalBatch::of(&self.distributed, batch, dealt)
    }
}

/// Describes what the samples of a step are divided among.
fn dealt_to(ranks: usize, accumulate: usize) -> String {
    match accumulate {
        1 => format!("{ranks} ranks"),
        _ => format!("{ranks} ranks times {accumulate}, `training.accumulate`"),
    }
}

/// Rejects unlabelled samples that fill the global batch or, without one, a rank's.
pub(super) fn check_unlabelled(
    distributed: &Distributed,
    batch: usize,
    unlabelled: usize,
) -> Result<(), String> {
    let (key, batch) = match distributed.global_batch {
        Some(global) => ("distributed.global_batch", global),
        None => ("training.batch", batch),
    };
    match unlabelled < batch {
        true => Ok(()),
        false => Err(format!(
            "`detection.unlabelled_per_batch`: expected less than `{key}`, {batch}, found {unlabelled}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{Detection, Training};

    fn recipe(batch: usize, global_batch: Option<usize>, unlabelled: usize) -> Recipe {
        Recipe {
            training: Training {
                batch,
                ..Training::default()
            },
            distributed: Distributed {
                global_batch,
                ..Distributed::default()
            },
            detection: Detection {
                unlabelled_per_batch: unlabelled,
                ..Detection::default()
            },
            ..Recipe::default()
        }
    }

    #[test]
    fn batches_are_dealt_evenly_or_not_at_all() {
        let samples = |distributed: &Distributed, batch: usize, dealt: (usize, usize)| {
            LocalBatch::of(distributed, (batch, 0), dealt).map(LocalBatch::samples)
        };
        let plain = Distributed::default();
        assert_eq!(samples(&plain, 2, (5, 1)), Ok(2));
        let global = Distributed {
            global_batch: Some(12),
            ..Distributed::default()
        };
        assert_eq!(samples(&global, 2, (4, 1)), Ok(3));
        let uneven = samples(&global, 2, (5, 1)).unwrap_err();
        assert!(uneven.contains("5 ranks, found 12"), "{uneven}");
        // Each of several batches has its part.
        assert_eq!(samples(&plain, 2, (5, 4)), Ok(2));
        assert_eq!(samples(&global, 2, (2, 3)), Ok(2));
        let uneven = samples(&global, 2, (3, 8)).unwrap_err();
        let words = "a multiple of 3 ranks times 8, `training.accumulate`, found 12";
        assert!(uneven.contains(words), "{uneven}");
        let normalised_by = |norm_ranks| Distributed {
            norm_ranks,
            ..Distributed::default()
        };
        let uneven = samples(&normalised_by(3), 1, (4, 1)).unwrap_err();
        assert!(uneven.contains("norm_ranks"), "{uneven}");
        assert_eq!(samples(&normalised_by(3), 1, (6, 1)), Ok(1));
        assert_eq!(samples(&normalised_by(0), 1, (5, 1)), Ok(1));
        let shared = [
            normalised_by(0).norm_ranks(5),
            normalised_by(3).norm_ranks(6),
        ];
        assert_eq!(shared, [5, 3]);
    }

    #[test]
    fn a_step_of_a_global_batch_is_the_same_on_any_number_of_ranks() {
        for (global, unlabelled) in [(8_usize, 2_usize), (8, 0), (12, 8), (24, 4)] {
            let recipe = recipe(1, Some(global), unlabelled);
            for ranks in 1..=global {
                let local = recipe.local_batch(ranks);
                if !global.is_multiple_of(ranks) || !unlabelled.is_multiple_of(ranks) {
                    assert!(local.is_err(), "{ranks} ranks: {local:?}");
                    continue;
                }
                let LocalBatch {
                    labelled,
                    unlabelled: beside,
                } = local.unwrap();
                let step = (ranks * labelled, ranks * beside);
                assert_eq!(step, (global - unlabelled, unlabelled), "{ranks} ranks");
            }
        }
    }

    #[test]
    fn without_a_global_batch_every_rank_takes_what_the_recipe_says() {
        let recipe = recipe(4, None, 1);
        for ranks in [1, 3, 4] {
            let local = recipe.local_batch(ranks).unwrap();
            assert_eq!((local.labelled, local.unlabelled), (3, 1));
            assert_eq!(local.samples(), 4);
        }
    }

    #[test]
    fn batches_of_a_step_are_dealt_like_ranks() {
        for (global, unlabelled) in [(None, 1), (Some(12), 4), (Some(24), 0)] {
            let of = |ranks: usize, accumulate: usize| {
                let mut recipe = recipe(4, global, unlabelled);
                recipe.training.accumulate = accumulate;
                recipe.local_batch(ranks)
            };
            for (ranks, accumulate) in [(1, 2), (1, 4), (2, 2)] {
                let each = of(ranks, accumulate).unwrap();
                assert_eq!(Ok(each), of(ranks * accumulate, 1), "{global:?}");
                let step = each.times(ranks * accumulate);
                assert_eq!(step.samples(), global.unwrap_or(4 * ranks * accumulate));
            }
        }
        let mut uneven = recipe(4, Some(12), 2);
        uneven.training.accumulate = 2;
        let error = uneven.local_batch(2).unwrap_err();
        assert!(error.contains("2 ranks times 2, `training.acc"), "{error}");
    }

    #[test]
    fn what_cannot_be_dealt_is_refused_by_its_key() {
        for (recipe, ranks, words) in [
            (
                recipe(4, Some(8), 2),
                4,
                ["`detection.unlabelled_per_batch`", "4 ranks", "found 2"],
            ),
            (
                recipe(4, Some(8), 2),
                3,
                ["`distributed.global_batch`", "3 ranks", "found 8"],
            ),
            (
                recipe(9, Some(8), 8),
                1,
                [
                    "`detection.unlabelled_per_batch`",
                    "global_batch`, 8",
                    "found 8",
                ],
            ),
            (
                recipe(2, None, 3),
                1,
                [
                    "`detection.unlabelled_per_batch`",
                    "training.batch`, 2",
                    "found 3",
                ],
            ),
        ] {
            let error = recipe.local_batch(ranks).unwrap_err();
            for word in words {
                assert!(error.contains(word), "`{error}` lacks `{word}`");
            }
        }
    }
}
