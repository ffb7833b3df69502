//! The order of samples, and which of them each rank sees: a pure function of seed, epoch and rank.

use crate::error::{DataError, Result};
use crate::random::stream;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// How to handle samples that do not fill the last global batch of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LastBatch {
    /// Drop them from this epoch; the next one is shuffled differently.
    #[default]
    Drop,
    /// Fill the batch with the first samples of the next epoch, so that every epoch has all samples. For training.
    Wrap,
    /// Deal them evenly to the ranks, some of which may get none. For validation.
    Keep,
}

/// Settings of a [`Sampler`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplerConfig {
    /// Seed of the shuffle; `None` keeps the given order.
    pub shuffle: Option<u64>,
    /// This rank, counted from 0.
    pub rank: usize,
    /// Number of ranks.
    pub ranks: usize,
    /// Samples per rank and step.
    pub batch: usize,
    /// How to handle the last batch.
    pub last: LastBatch,
}

/// A position in the sequence of batches: the next one to be read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Cursor {
    /// Epoch, counted from 0; under [`LastBatch::Wrap`] that of the first sample of the global batch.
    pub epoch: u64,
    /// Step among those that begin in the epoch, counted from 0.
    pub step: usize,
}

/// The samples of one rank at one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPlan {
    /// The epoch and the step.
    pub at: Cursor,
    /// Sample ids; may be empty under [`LastBatch::Keep`].
    pub ids: Vec<usize>,
    /// The epoch of each sample, which determines its augmentation. If a batch combines several samplers, or reaches
    /// into the next epoch, it may differ from that of `at`.
    pub epochs: Vec<u64>,
}

impl BatchPlan {
    /// A plan in which all samples have the epoch of `at`.
    pub fn new(at: Cursor, ids: Vec<usize>) -> Self {
        let epochs = vec![at.epoch; ids.len()];
        Self { at, ids, epochs }
    }
}

/// Default purpose of the shuffle's random stream.
const PURPOSE: &str = "sampler";

/// Deals samples to ranks and steps.
///
/// Global batch k of an epoch is the k-th run of `ranks · batch` samples in the epoch's order, and rank r takes the
/// r-th part of it. So N ranks with batch b see, step by step, the same samples as one rank with batch N·b. Under
/// [`LastBatch::Wrap`] the orders of all epochs follow one another and are cut into global batches as a whole.
#[derive(Debug, Clone)]
pub struct Sampler {
    ids: Vec<usize>,
    config: SamplerConfig,
    purpose: &'static str,
}

impl Sampler {
    /// Creates a sampler over these samples.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if there are no samples, no ranks, an empty batch, or, unless with [`LastBatch::Keep`],
    /// no full global batch.
    pub fn new(ids: Vec<usize>, config: SamplerConfig) -> Result<Self> {
        let SamplerConfig {
            rank,
            ranks,
            batch,
            last,
            ..
        } = config;
        if batch == 0 || rank >= ranks {
            return Err(DataError::Invalid(format!(
                "sampler: rank {rank} of {ranks} with batch {batch} is impossible"
            )));
        }
        let needed = match last {
            LastBatch::Drop | LastBatch::Wrap => ranks * batch,
            LastBatch::Keep => 1,
        };
        if ids.len() < needed {
            return Err(DataError::Invalid(format!(
                "{} samples are too few: a step needs {needed}, {batch} on each of its ranks ({ranks}); make the batch smaller",
                ids.len()
            )));
        }
        Ok(Self {
            ids,
            config,
            purpose: PURPOSE,
        })
    }

    /// Uses a separate random stream. Samplers with the same purpose and seed shuffle equally many samples in the same
    /// way, so that two of them side by side would always give the same pairs.
    #[must_use]
    pub fn for_purpose(self, purpose: &'static str) -> Self {
        Self { purpose, ..self }
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.ids.len()
    }

    /// Samples per step over all ranks that share these samples.
    pub fn samples_per_step(&self) -> usize {
        self.config.ranks * self.config.batch
    }

    /// Steps per epoch, the same on every rank. Under [`LastBatch::Wrap`] those that every epoch has; some have one
    /// more.
    pub fn steps_per_epoch(&self) -> usize {
        let global = self.samples_per_step();
        match self.config.last {
            LastBatch::Drop | LastBatch::Wrap => self.ids.len() / global,
            LastBatch::Keep => self.ids.len().div_ceil(global),
        }
    }

    /// The position after this many steps from the start.
    pub fn cursor(&self, steps: u64) -> Cursor {
        if self.config.last == LastBatch::Wrap {
            // Wide, because a recipe may ask for a practically unlimited number of steps.
            let (samples, global) = (self.ids.len() as u128, self.samples_per_step() as u128);
            let epoch = u128::from(steps) * global / samples;
            let before = (epoch * samples).div_ceil(global);
            return Cursor {
                epoch: epoch as u64,
                step: (u128::from(steps) - before) as usize,
            };
        }
        let per_epoch = self.steps_per_epoch() as u64;
        Cursor {
            epoch: steps / per_epoch,
            step: (steps % per_epoch) as usize,
        }
    }

    /// All samples in the order of an epoch, before they are divided among ranks.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        let mut order = self.ids.clone();
        if let Some(seed) = self.config.shuffle {
            order.shuffle(&mut stream(seed, self.purpose, &[epoch]));
        }
        order
    }

    /// This rank's batches that begin in the epoch of `from`, starting there.
    pub fn epoch(&self, from: Cursor) -> impl Iterator<Item = BatchPlan> + Send + use<> {
        let sampler = self.clone();
        let order = self.order(from.epoch);
        (from.step..self.steps_in(from.epoch)).map(move |step| {
            let epoch = from.epoch;
            sampler.plan(&order, Cursor { epoch, step })
        })
    }

    /// This rank's batches starting at `from`, without end.
    pub fn endless(&self, from: Cursor) -> impl Iterator<Item = BatchPlan> + Send + use<> {
        let sampler = self.clone();
        (from.epoch..).flat_map(move |epoch| {
            let step = if epoch == from.epoch { from.step } else { 0 };
            sampler.epoch(Cursor { epoch, step })
        })
    }

    /// Number of steps that begin in an epoch.
    fn steps_in(&self, epoch: u64) -> usize {
        match self.config.last {
            LastBatch::Drop | LastBatch::Keep => self.steps_per_epoch(),
            LastBatch::Wrap => {
                (self.ids.len() - self.taken(epoch)).div_ceil(self.samples_per_step())
            }
        }
    }

    /// Number of an epoch's first samples that fill the last batch of the epoch before.
    fn taken(&self, epoch: u64) -> usize {
        if self.config.last != LastBatch::Wrap {
            return 0;
        }
        let (samples, global) = (self.ids.len() as u128, self.samples_per_step() as u128);
        let rest = u128::from(epoch) * samples % global;
        ((global - rest) % global) as usize
    }

    /// This rank's part of the global batch at a position, in whose epoch the samples have this order.
    fn plan(&self, order: &[usize], at: Cursor) -> BatchPlan {
        let global = self.samples_per_step();
        let start = self.taken(at.epoch) + at.step * global;
        let mut ids = order[start..order.len().min(start + global)].to_vec();
        let mut epochs = vec![at.epoch; ids.len()];
        if self.config.last == LastBatch::Wrap && ids.len() < global {
            let missing = global - ids.len();
            ids.extend_from_slice(&self.order(at.epoch + 1)[..missing]);
            epochs.resize(global, at.epoch + 1);
        }
        let SamplerConfig { rank, ranks, .. } = self.config;
        let mine = ids.len() * rank / ranks..ids.len() * (rank + 1) / ranks;
        BatchPlan {
            at,
            ids: ids[mine.clone()].to_vec(),
            epochs: epochs[mine].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sampler(n: usize, rank: usize, ranks: usize, batch: usize, last: LastBatch) -> Sampler {
        let config = SamplerConfig {
            shuffle: Some(7),
            rank,
            ranks,
            batch,
            last,
        };
        Sampler::new((100..100 + n).collect(), config).unwrap()
    }

    fn epoch(sampler: &Sampler, epoch: u64) -> Vec<Vec<usize>> {
        sampler
            .epoch(Cursor { epoch, step: 0 })
            .map(|plan| plan.ids)
            .collect()
    }

    proptest! {
        #[test]
        fn ranks_together_see_what_one_rank_sees(
            ranks in 1usize..7, batch in 1usize..5, steps in 1usize..6, rest in 0usize..20, e in 0u64..4, keep: bool
        ) {
            let n = steps * ranks * batch + rest % (ranks * batch);
            let last = if keep { LastBatch::Keep } else { LastBatch::Drop };
            let alone = epoch(&sampler(n, 0, 1, ranks * batch, last), e);
            let each: Vec<_> = (0..ranks).map(|r| epoch(&sampler(n, r, ranks, batch, last), e)).collect();
            for (step, global) in alone.iter().enumerate() {
                let joined: Vec<usize> = each.iter().flat_map(|rank| rank[step].clone()).collect();
                prop_assert_eq!(&joined, global);
                let sizes = each.iter().map(|rank| rank[step].len());
                prop_assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            }
            prop_assert!(each.iter().all(|rank| rank.len() == alone.len()));
            // Every sample at most once; under Keep, exactly once.
            let mut seen: Vec<usize> = alone.concat();
            seen.sort_unstable();
            let count = seen.len();
            seen.dedup();
            prop_assert_eq!(seen.len(), count);
            prop_assert_eq!(count, if keep { n } else { steps * ranks * batch });
        }

        #[test]
        fn a_cursor_resumes_exactly(done in 0u64..40, wrap: bool) {
            let last = if wrap { LastBatch::Wrap } else { LastBatch::Drop };
            let sampler = sampler(23, 1, 2, 3, last);
            let all: Vec<BatchPlan> = sampler.endless(Cursor::default()).take(50).collect();
            let resumed: Vec<BatchPlan> = sampler.endless(sampler.cursor(done)).take(10).collect();
            prop_assert_eq!(&all[done as usize..done as usize + 10], &resumed[..]);
        }

        /// The orders of all epochs, one after the other, whatever the batch and however many ranks share it.
        #[test]
        fn epochs_that_wrap_leave_nothing_out(
            ranks in 1usize..5, batch in 1usize..5, more in 0usize..20, steps in 1usize..30
        ) {
            let global = ranks * batch;
            let n = global + more;
            let each: Vec<_> = (0..ranks).map(|rank| sampler(n, rank, ranks, batch, LastBatch::Wrap)).collect();
            let one = &each[0];
            let epochs = (steps * global).div_ceil(n) as u64;
            let in_order = (0..epochs).flat_map(|e| one.order(e).into_iter().map(move |id| (id, e)));
            let expected: Vec<(usize, u64)> = in_order.take(steps * global).collect();
            let mut dealt: Vec<_> = each.iter().map(|rank| rank.endless(Cursor::default())).collect();
            let mut found = Vec::new();
            for step in 0..steps {
                let at = found.len();
                for rank in &mut dealt {
                    let plan = rank.next().unwrap();
                    prop_assert_eq!(plan.ids.len(), batch);
                    prop_assert_eq!(plan.at, one.cursor(step as u64));
                    found.extend(plan.ids.into_iter().zip(plan.epochs));
                }
                prop_assert_eq!(one.cursor(step as u64).epoch, found[at].1);
            }
            prop_assert_eq!(found, expected);
            // Where the batches fill epochs, these are those of before; so is the first one always.
            let dropping = sampler(n, 0, ranks, batch, LastBatch::Drop);
            let whole = if n.is_multiple_of(global) { steps } else { n / global };
            let same = one.endless(Cursor::default()).take(whole);
            prop_assert!(same.eq(dropping.endless(Cursor::default()).take(whole)));
        }
    }

    #[test]
    fn epochs_differ_and_seeds_decide() {
        let sampler = sampler(40, 0, 1, 4, LastBatch::Drop);
        assert_ne!(sampler.order(0), sampler.order(1));
        assert_eq!(sampler.order(1), sampler.order(1));
        let mut other = sampler.clone();
        other.config.shuffle = Some(8);
        assert_ne!(sampler.order(0), other.order(0));
        other.config.shuffle = None;
        assert_eq!(other.order(3), (100..140).collect::<Vec<_>>());
        // A plan says of which epoch its samples are: by that they are turned.
        let from = Cursor { epoch: 3, step: 9 };
        let plans: Vec<BatchPlan> = sampler.endless(from).take(2).collect();
        let next = Cursor { epoch: 4, step: 0 };
        for (plan, at, order) in [
            (&plans[0], from, &sampler.order(3)[36..]),
            (&plans[1], next, &sampler.order(4)[..4]),
        ] {
            assert_eq!((plan.at, &plan.ids[..]), (at, order));
            assert_eq!(plan.epochs, [at.epoch; 4]);
        }
    }

    #[test]
    fn samplers_for_other_purposes_give_other_pairs() {
        let one = sampler(40, 0, 1, 4, LastBatch::Drop);
        let other = one.clone().for_purpose("beside");
        for epoch in 0..3 {
            let (mut a, mut b) = (one.order(epoch), other.order(epoch));
            assert_ne!(a, b);
            a.sort_unstable();
            b.sort_unstable();
            assert_eq!(a, b);
        }
    }

    #[test]
    fn impossible_demands_are_refused() {
        let config = SamplerConfig {
            shuffle: None,
            rank: 0,
            ranks: 2,
            batch: 4,
            last: LastBatch::Drop,
        };
        let error = Sampler::new((0..7).collect(), config)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("7 samples") && error.contains("needs 8"),
            "{error}"
        );
        for config in [
            SamplerConfig { rank: 2, ..config },
            SamplerConfig { batch: 0, ..config },
            SamplerConfig {
                batch: 11,
                last: LastBatch::Wrap,
                ..config
            },
            SamplerConfig { ranks: 0, ..config },
        ] {
            assert!(Sampler::new((0..20).collect(), config).is_err());
        }
    }
}
