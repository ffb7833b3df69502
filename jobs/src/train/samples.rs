//! Which samples a rank reads in which step, as pure functions of the step.

use super::share::RankPosition;
use super::used_labels::{no_box, used_labels};
use crate::clips::{self, ClipShape};
use crate::error::{JobError, Result};
use crate::recipe::{LocalBatch, Recipe};
use squall_data::Store;
use squall_data::sampler::{BatchPlan, Cursor, LastBatch, Sampler, SamplerConfig};
use squall_data::store::Split;
use std::collections::HashSet;
use std::sync::Arc;

/// Which samples have their labels used, and which do not.
#[derive(Debug, Clone)]
pub(super) struct Labelled {
    /// Samples that teach boxes: labelled, or covered by `detection.pseudo_labels`.
    pub boxes: Arc<HashSet<usize>>,
    /// Samples that have labels which are not used.
    pub withheld: Arc<HashSet<usize>>,
}

/// The training samples of a run: labelled ones and, for a semi-supervised detector, unlabelled ones.
#[derive(Debug, Clone)]
pub(super) struct Samples {
    /// Samples with labels.
    main: Sampler,
    /// Unlabelled samples, of which every batch contains some.
    unlabelled: Option<Sampler>,
    /// The frames of every clip, for a network over time. The samplers then deal clip indices.
    clips: Option<Arc<Vec<Vec<usize>>>>,
    /// Consecutive batches per step on this rank.
    accumulate: usize,
}

impl Samples {
    /// Splits each step of this rank into `accumulate` batches.
    pub(super) fn in_batches(self, accumulate: usize) -> Self {
        Self { accumulate, ..self }
    }

    /// Selects the samples that have masks.
    ///
    /// # Errors
    /// [`JobError::Recipe`] if no sample has a mask; [`JobError::Data`] if there are too few.
    pub(super) fn for_masks(
        store: &Store,
        mut ids: Vec<usize>,
        config: SamplerConfig,
    ) -> Result<Self> {
        ids.retain(|&id| store.samples()[id].has_mask());
        if ids.is_empty() {
            return Err(without_masks());
        }
        let main = Sampler::new(ids, config)?;
        Ok(Self {
            main,
            unlabelled: None,
            clips: None,
            accumulate: 1,
        })
    }

    /// Selects the samples (or clips) whose boxes are used and, for every batch, some of the others, as
    /// `recipe.detection` says. Also returns which samples have their labels used. `batch` holds the number of each
    /// kind per step on this rank.
    ///
    /// The boxes of a clip are used if they are used in any frame that the network outputs boxes for.
    ///
    /// # Errors
    /// [`JobError::Recipe`] if no sample has boxes, no used sample contains one, no sample is left to train on without
    /// labels, or no clip can be made; [`JobError::Data`] if there are too few of a kind.
    pub(super) fn for_boxes(
        recipe: &Recipe,
        store: &Store,
        ids: Vec<usize>,
        config: SamplerConfig,
        batch: LocalBatch,
    ) -> Result<(Self, Labelled)> {
        let (with_boxes, used) = used_labels(recipe, store, &ids)?;
        if with_boxes.is_empty() {
            let reason = "`task = \"detect\"`: no training sample of the store has boxes: stage it with a folder of labels that holds \
                          boxes.csv, or with --boxes";
            return Err(JobError::recipe(reason.into()));
        }
        let mut labelled: HashSet<usize> = used.into_iter().collect();
        let unlabelled = recipe.detection.unlabelled_per_batch;
        let config_of = |batch| SamplerConfig { batch, ..config };
        let (clips, every) = match recipe.clips() {
            Some(shape) => (Some(clips_of(store, &ids, shape)?), shape.every),
            None => (None, 1),
        };
        // The units that samplers deal: clip indices or samples.
        let units: Vec<usize> = match &clips {
            Some(clips) => (0..clips.len()).collect(),
            None => ids,
        };
        // Whether `such` holds for any sample of the unit that the network outputs boxes for.
        let has = |unit: &usize, such: &dyn Fn(&usize) -> bool| {
            let frames = frames_of(clips.as_deref(), unit);
            frames.iter().step_by(every).any(such)
        };
        let is_labelled = |id: &usize| labelled.contains(id);
        let (teaching, others): (Vec<usize>, Vec<usize>) =
            (units.into_iter()).partition(|unit| has(unit, &is_labelled));
        let has_box =
            |id: &usize| is_labelled(id) && store.boxes(*id).is_some_and(|boxes| !boxes.is_empty());
        // If each node holds only a part of the store, the boxes may be on another node.
        if !store.is_partial() && !teaching.iter().any(|unit| has(unit, &has_box)) {
            return Err(no_box(recipe, labelled.len(), with_boxes.len()));
        }
        check_unlabelled(recipe, store, &others, labelled.len())?;
        let main = Sampler::new(teaching, config_of(batch.labelled))?;
        let unlabelled =
            (unlabelled > 0).then(|| unlabelled_sampler(others, config_of(batch.unlabelled)));
        let samples = Self {
            main,
            unlabelled: unlabelled.transpose()?,
            clips: clips.map(Arc::new),
            accumulate: 1,
        };
        let withheld = with_boxes.iter().filter(|id| !labelled.contains(id));
        let withheld = Arc::new(withheld.copied().collect());
        let found = store.ids(Split::Train).into_iter();
        labelled.extend(found.filter(|&id| store.has_found_boxes(id)));
        let taught = Labelled {
            boxes: Arc::new(labelled),
            withheld,
        };
        Ok((samples, taught))
    }

    /// Number of samples, or clips, with and without labels.
    pub(super) fn count(&self) -> usize {
        self.main.samples() + self.unlabelled.as_ref().map_or(0, Sampler::samples)
    }

    /// Number of labelled samples, or clips, per epoch.
    pub(super) fn of_epoch(&self) -> usize {
        self.main.samples()
    }

    /// Number of these per step over all ranks that share them.
    pub(super) fn of_step(&self) -> usize {
        self.main.samples_per_step()
    }

    /// Whole steps of an epoch, in which every labelled sample appears once; samples that fill none begin the first
    /// step of the next epoch.
    pub(super) fn steps_per_epoch(&self) -> usize {
        self.main.steps_per_epoch()
    }

    /// How many of how many samples of a kind fill no whole step of an epoch, if any.
    pub(super) fn rest(&self) -> Option<(usize, usize)> {
        let kinds = std::iter::once(&self.main).chain(&self.unlabelled);
        let mut rests =
            kinds.map(|kind| (kind.samples() % kind.samples_per_step(), kind.samples()));
        rests.find(|(rest, _)| *rest > 0)
    }

    /// Position of a step in its epoch.
    pub(super) fn cursor(&self, step: u64) -> Cursor {
        self.main.cursor(step)
    }

    /// This rank's batches after `done` steps, without end: first those of the steps `left`, which groups had in
    /// progress when the run stopped, then those of the following steps.
    pub(super) fn resuming_from(
        &self,
        done: u64,
        left: &[u64],
    ) -> impl Iterator<Item = BatchPlan> + Send + use<> {
        let of_step = |&step: &u64| self.starting_at(step).take(self.accumulate);
        let first: Vec<BatchPlan> = left.iter().flat_map(of_step).collect();
        let others = self.starting_at(done + left.len() as u64);
        first.into_iter().chain(others)
    }

    /// This rank's batches from the first one of a step on, without end.
    pub(super) fn starting_at(&self, step: u64) -> Box<dyn Iterator<Item = BatchPlan> + Send> {
        let clips = self.clips.clone();
        let in_frames = move |plan: BatchPlan| match &clips {
            None => plan,
            Some(clips) => {
                let units = plan.ids.iter().zip(&plan.epochs);
                let frames = units
                    .flat_map(|(&clip, &epoch)| clips[clip].iter().map(move |&id| (id, epoch)));
                let (ids, epochs) = frames.unzip();
                BatchPlan {
                    at: plan.at,
                    ids,
                    epochs,
                }
            }
        };
        let accumulate = self.accumulate;
        let batches = move |plan| split(plan, accumulate);
        let main = self.main.endless(self.main.cursor(step));
        let main = main.flat_map(batches);
        let Some(unlabelled) = &self.unlabelled else {
            return Box::new(main.map(in_frames));
        };
        let unlabelled = unlabelled.endless(unlabelled.cursor(step));
        let unlabelled = unlabelled.flat_map(batches);
        let both = main.zip(unlabelled).map(|(main, unlabelled)| BatchPlan {
            at: main.at,
            ids: [main.ids, unlabelled.ids].concat(),
            // Each kind has its own epoch count, so that a repeated sample is augmented differently.
            epochs: [main.epochs, unlabelled.epochs].concat(),
        });
        Box::new(both.map(in_frames))
    }
}

/// Splits the samples of a step into this many batches of equal length.
fn split(plan: BatchPlan, batches: usize) -> Vec<BatchPlan> {
    if batches == 1 {
        return vec![plan];
    }
    let each = plan.ids.len() / batches;
    let of_batch = |first: usize| BatchPlan {
        at: plan.at,
        ids: plan.ids[first..first + each].to_vec(),
        epochs: plan.epochs[first..first + each].to_vec(),
    };
    (0..batches).map(|batch| of_batch(batch * each)).collect()
}

/// Deals unlabelled samples in an order of their own. If they were shuffled like the labelled ones and there were as
/// many of either kind, each would share its batch with the same labelled sample in every epoch.
fn unlabelled_sampler(ids: Vec<usize>, config: SamplerConfig) -> Result<Sampler> {
    Ok(Sampler::new(ids, config)?.for_purpose("sampler beside"))
}

/// The samples of a unit: the frames of the clip with this index, or the sample itself.
fn frames_of<'a>(clips: Option<&'a [Vec<usize>]>, unit: &'a usize) -> &'a [usize] {
    match clips {
        Some(clips) => &clips[*unit],
        None => std::slice::from_ref(unit),
    }
}

/// Rejects `detection.unlabelled_per_batch` if the store has no samples for it: `others` are those whose boxes are not
/// used.
fn check_unlabelled(
    recipe: &Recipe,
    store: &Store,
    others: &[usize],
    labelled: usize,
) -> Result<()> {
    let unlabelled = recipe.detection.unlabelled_per_batch;
    if unlabelled == 0 {
        return Ok(());
    }
    if others.is_empty() {
        return Err(JobError::recipe(format!(
            "`detection.unlabelled_per_batch`: expected 0, found {unlabelled}: all {labelled} training samples have boxes that are used, so that \
             none is left to learn from without: lower `detection.labelled_share`, or stage with --keep-unlabelled"
        )));
    }
    // A recipe without masks has already been checked; only the store knows whether samples without boxes have masks.
    let mask_alone = |&id: &usize| {
        let sample = &store.samples()[id];
        sample.has_mask() && store.boxes(id).is_none()
    };
    let masks = recipe.network.mask_classes > 0 && recipe.detection.pseudo_labels.is_none();
    if masks && !others.iter().any(mask_alone) {
        return Err(JobError::recipe(format!(
            "`detection.unlabelled_per_batch`: expected 0, found {unlabelled}: no sample whose boxes are not used has a mask that is, so \
             samples without labels would teach nothing"
        )));
    }
    Ok(())
}

/// The error when a mask recipe has no masks to train on.
pub(super) fn without_masks() -> JobError {
    JobError::recipe(
        "no training sample of the store has a mask, and this recipe learns masks: stage it with --labels, or, where the store has boxes, \
         take a recipe that detects, such as `detect`"
            .into(),
    )
}

/// The samples of every clip that can be made of these samples.
fn clips_of(store: &Store, ids: &[usize], shape: ClipShape) -> Result<Vec<Vec<usize>>> {
    let (ids, times, step) = clips::in_time(store, ids);
    let clips = clips::whole(&times, step, shape);
    if clips.is_empty() {
        let ClipShape { frames, stride, .. } = shape;
        return Err(JobError::recipe(format!(
            "`network.time_steps`: none of the {} training samples has {} followers {stride} steps apart: stage with \
             longer `--block-days`, which keep consecutive times together",
            times.len(),
            frames - 1
        )));
    }
    let of_clip = |places: Vec<usize>| places.into_iter().map(|place| ids[place]).collect();
    Ok(clips.into_iter().map(of_clip).collect())
}

/// Sampler settings of a rank's share of the samples: shuffled by `seed`, at its place among the ranks that share them.
pub(super) fn shuffled(seed: u64, place: RankPosition, batch: usize) -> SamplerConfig {
    SamplerConfig {
        shuffle: Some(seed),
        rank: place.rank,
        ranks: place.ranks,
        batch,
        last: LastBatch::Wrap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many samples from 0 and from 100 on, one and two in a batch.
    fn mixed(labelled: usize, others: usize) -> Samples {
        let config = |batch| shuffled(3, RankPosition::ALONE, batch);
        Samples {
            main: Sampler::new((0..labelled).collect(), config(1)).unwrap(),
            unlabelled: Some(unlabelled_sampler((100..100 + others).collect(), config(2)).unwrap()),
            clips: None,
            accumulate: 1,
        }
    }

    #[test]
    fn labelled_samples_meet_others_in_every_epoch() {
        let config = shuffled(3, RankPosition::ALONE, 1);
        let main = Sampler::new((0..20).collect(), config).unwrap();
        let unlabelled = unlabelled_sampler((100..120).collect(), config).unwrap();
        for epoch in 0..3 {
            let pairs = main.order(epoch).into_iter().zip(unlabelled.order(epoch));
            let same = pairs.filter(|(id, other)| id + 100 == *other).count();
            assert!(same < 10, "{same} of 20 in epoch {epoch}");
        }
    }

    /// Nine steps were begun; those numbered 2 and 4 are not done.
    #[test]
    fn steps_that_were_under_way_come_first() {
        let samples = mixed(5, 4);
        let plan = |step| samples.starting_at(step).next().unwrap();
        let found: Vec<BatchPlan> = samples.resuming_from(7, &[2, 4]).take(4).collect();
        assert_eq!(found, [2, 4, 9, 10].map(plan));
        let found: Vec<BatchPlan> = samples.resuming_from(7, &[]).take(2).collect();
        assert_eq!(found, [7, 8].map(plan));
    }

    #[test]
    fn a_sample_that_comes_back_is_turned_anew() {
        let samples = mixed(12, 4);
        let mut turned = HashSet::new();
        for plan in samples.starting_at(0).take(36) {
            assert_eq!(plan.epochs.len(), plan.ids.len());
            assert_eq!(plan.epochs[0], plan.at.epoch);
            for seen in plan.ids.into_iter().zip(plan.epochs) {
                assert!(turned.insert(seen), "{seen:?} twice");
            }
        }
    }

    /// As on twice as many ranks: whoever has a batch there has it here, as the first or as the second one.
    #[test]
    fn batches_of_a_step_are_those_of_as_many_ranks() {
        // Samples of a step on each rank, of both kinds.
        let dealt = |ranks: usize, rank: usize, [labelled, others]: [usize; 2]| {
            let config = |batch| shuffled(3, RankPosition { rank, ranks }, batch);
            Samples {
                main: Sampler::new((0..17).collect(), config(labelled)).unwrap(),
                unlabelled: Some(unlabelled_sampler((100..111).collect(), config(others)).unwrap()),
                clips: None,
                accumulate: 1,
            }
        };
        let four = [0, 1, 2, 3].map(|rank| dealt(4, rank, [2, 1]));
        let two = [0, 1].map(|rank| dealt(2, rank, [4, 2]).in_batches(2));
        assert_eq!(two[0].steps_per_epoch(), four[0].steps_per_epoch());
        for from in [0, 1, 5] {
            let of = |samples: &Samples, batches: usize| -> Vec<BatchPlan> {
                samples.starting_at(from).take(batches).collect()
            };
            for (rank, samples) in two.iter().enumerate() {
                let (first, second) = (of(&four[2 * rank], 6), of(&four[2 * rank + 1], 6));
                let expected = first.into_iter().zip(second);
                let expected: Vec<BatchPlan> = expected.flat_map(|(a, b)| [a, b]).collect();
                assert_eq!(of(samples, 12), expected, "from step {from}");
            }
        }
    }

    #[test]
    fn batches_mix_both_kinds_and_go_on_from_any_step() {
        let samples = mixed(4, 11);
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
