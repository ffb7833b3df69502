//! Which samples a rank reads in which step: pure functions of the step.

use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use squall_data::Store;
use squall_data::sampler::{BatchPlan, Cursor, LastBatch, Sampler, SamplerConfig};
use std::collections::HashSet;
use std::sync::Arc;

/// What teaches directly, and what a batch has beside it.
#[derive(Debug, Clone)]
pub(super) struct Samples {
    main: Sampler,
    /// Without labels: of a semi-supervised detector.
    beside: Option<Sampler>,
}

impl Samples {
    /// All samples.
    pub(super) fn all(ids: Vec<usize>, config: SamplerConfig) -> Result<Self> {
        let main = Sampler::new(ids, config)?;
        Ok(Self { main, beside: None })
    }

    /// Those whose boxes are used, and beside them in every batch some of the others, as `recipe.detection` says; also which
    /// have boxes that are used.
    ///
    /// # Errors
    /// [`JobError::Recipe`] if no sample has boxes; [`JobError::Data`] if there are too few of a kind.
    pub(super) fn for_boxes(
        recipe: &Recipe,
        store: &Store,
        ids: Vec<usize>,
        config: SamplerConfig,
    ) -> Result<(Self, Arc<HashSet<usize>>)> {
        let with_boxes: Vec<usize> = (ids.iter().copied())
            .filter(|&id| store.boxes(id).is_some())
            .collect();
        if with_boxes.is_empty() {
            let reason = "`task = \"detect\"`: no training sample of the store has boxes: stage it with a folder of labels that holds \
                          boxes.csv, or with --boxes";
            return Err(JobError::Recipe {
                path: None,
                reason: reason.into(),
            });
        }
        let used = recipe.detection.share().choose(&with_boxes)?;
        let labelled: HashSet<usize> = used.iter().copied().collect();
        let beside = recipe.detection.unlabelled_per_batch;
        let config_of = |batch| SamplerConfig { batch, ..config };
        let main = Sampler::new(used, config_of(config.batch - beside))?;
        let others = ids
            .into_iter()
            .filter(|id| !labelled.contains(id))
            .collect();
        let beside = (beside > 0).then(|| Sampler::new(others, config_of(beside)));
        let samples = Self {
            main,
            beside: beside.transpose()?,
        };
        Ok((samples, Arc::new(labelled)))
    }

    /// Samples that teach directly and beside.
    pub(super) fn count(&self) -> usize {
        self.main.samples() + self.beside.as_ref().map_or(0, Sampler::samples)
    }

    /// Steps of an epoch of the samples that teach directly.
    pub(super) fn steps_per_epoch(&self) -> usize {
        self.main.steps_per_epoch()
    }

    /// Where a step lies in its epoch.
    pub(super) fn cursor(&self, step: u64) -> Cursor {
        self.main.cursor(step)
    }

    /// This rank's batches from a step on, without end.
    pub(super) fn starting_at(&self, step: u64) -> Box<dyn Iterator<Item = BatchPlan> + Send> {
        let main = self.main.endless(self.main.cursor(step));
        let Some(beside) = &self.beside else {
            return Box::new(main);
        };
        let beside = beside.endless(beside.cursor(step));
        Box::new(main.zip(beside).map(|(main, beside)| BatchPlan {
            at: main.at,
            ids: [main.ids, beside.ids].concat(),
        }))
    }
}

/// How a rank shuffles its part of the samples: by `seed`, as `place` among those that share them.
pub(super) fn shuffled(seed: u64, (rank, ranks): (usize, usize), batch: usize) -> SamplerConfig {
    SamplerConfig {
        shuffle: Some(seed),
        rank,
        ranks,
        batch,
        last: LastBatch::Drop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_mix_both_kinds_and_go_on_from_any_step() {
        let sampler =
            |ids: Vec<usize>, batch| Sampler::new(ids, shuffled(3, (0, 1), batch)).unwrap();
        let samples = Samples {
            main: sampler((0..4).collect(), 1),
            beside: Some(sampler((100..111).collect(), 2)),
        };
        let from_start: Vec<BatchPlan> = samples.starting_at(0).take(20).collect();
        for (step, plan) in from_start.iter().enumerate() {
            assert!(plan.ids[0] < 100 && plan.ids[1..].iter().all(|&id| id >= 100));
            assert_eq!(plan.at, samples.cursor(step as u64));
        }
        let resumed: Vec<BatchPlan> = samples.starting_at(7).take(13).collect();
        assert_eq!(resumed[..], from_start[7..]);
        assert_eq!((samples.count(), samples.steps_per_epoch()), (15, 4));
    }
}
