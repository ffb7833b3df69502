//! From recipe, store and folder to a run that is ready to start.

use super::Run;
use super::checkpoint::{self, Now, Start};
use super::evaluate::{Asked, Evaluator, Judging};
use super::objective::Objective;
use super::recorder::Recorder;
use super::samples::{self, Labelled, Samples};
use super::share::{Place, Share};
use super::step::Learner;
use super::step_shape::StepShape;
use super::team::Team;
use crate::code;
use crate::comm::agree::Facts;
use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::recipe::{LocalBatch, Recipe, Task};
use crate::run_dir::RunDir;
use squall_data::loader::{Augmentation, LoaderConfig};
use squall_data::store::Split;
use squall_data::{BoxClass, Class, Normalisation, Store, Variable};
use squall_model::NetworkConfig;
use std::sync::Arc;

impl<'a> Run<'a> {
    /// A run at its first step, or at that of its checkpoint.
    pub(super) fn prepare(
        recipe: &'a Recipe,
        store: &'a Arc<Store>,
        run_dir: Option<RunDir>,
        team: &'a mut Team,
    ) -> Result<Self> {
        let share = Share::agree(store, recipe.seed, team)?;
        let place = team.place();
        let mut ready = Ready::agree((recipe, store), run_dir, share, place, team)?;
        ready.learner().join(&recipe.distributed, team)?;
        let mut run = ready.into_run(recipe, store, team);
        // Of groups, if there were any; there are none now.
        run.standing = None;
        Ok(run)
    }
}

/// A run at its first step, or at that of its checkpoint, but for the team that does its steps.
pub(super) struct Ready {
    parts: Parts,
    state: Start,
    run_dir: Option<RunDir>,
    recorder: Option<Recorder>,
    step_ranks: usize,
}

impl Ready {
    /// As one of `team`, which all call it, of a rank that does steps at `place`.
    pub(super) fn agree(
        (recipe, store): (&Recipe, &Arc<Store>),
        run_dir: Option<RunDir>,
        share: Share,
        place: Place,
        team: &mut Team,
    ) -> Result<Self> {
        let parts = Parts::build(recipe, store, place, share);
        let mut parts = team.all_or_none(parts)?;
        parts.agree(recipe, store, team)?;
        let learner = &mut parts.learner;
        let state = match &run_dir {
            Some(run_dir) => {
                let now = Now {
                    recipe,
                    contract: &parts.contract,
                    store,
                    deal: &parts.deal,
                    shape: StepShape {
                        ranks: place.ranks,
                        batch: parts.local_batch,
                        steps_per_epoch: parts.samples.steps_per_epoch(),
                    },
                };
                let start = checkpoint::start(run_dir, learner, now);
                // Not before: a run that is refused stays as it was.
                start.and_then(|start| run_dir.write_recipe(recipe).map(|()| start))
            }
            None => Ok(Start::default()),
        };
        let mut state = team.all_or_none(state)?;
        checkpoint::spread(&mut state, learner, team)?;
        let again = state.standing.as_ref().map(|standing| &standing.validating);
        let again: Vec<u64> = again.into_iter().flatten().map(|(_, step)| *step).collect();
        let recorder = run_dir
            .as_ref()
            .map(|run_dir| Recorder::open(run_dir, learner.progress.step, &again))
            .transpose();
        let recorder = team.all_or_none(recorder)?;
        Ok(Self {
            parts,
            state,
            run_dir,
            recorder,
            step_ranks: place.ranks,
        })
    }

    pub(super) fn learner(&mut self) -> &mut Learner {
        &mut self.parts.learner
    }

    /// The run, with the team that does its steps.
    pub(super) fn into_run<'a>(
        self,
        recipe: &'a Recipe,
        store: &'a Arc<Store>,
        team: &'a mut Team,
    ) -> Run<'a> {
        let Self {
            parts,
            state,
            run_dir,
            recorder,
            step_ranks,
        } = self;
        let per_epoch = parts.samples.steps_per_epoch() as u64;
        let training = &recipe.training;
        Run {
            validate_every: training.validate_every_steps.unwrap_or(per_epoch),
            checkpoint_every: training.checkpoint_every_steps.unwrap_or(per_epoch),
            total_steps: training.total_steps(parts.samples.steps_per_epoch()),
            recipe,
            store,
            team,
            run_dir,
            samples: parts.samples,
            loader: parts.loader,
            learner: parts.learner,
            evaluator: parts.evaluator,
            contract: parts.contract,
            recorder,
            best: state.best,
            class_weights: parts.class_weights,
            validation_samples: parts.validation_samples,
            local_batch: parts.local_batch,
            step_ranks,
            deal: parts.deal,
            pending: state.pending,
            standing: state.standing,
            validation_due: state.validation_due,
        }
    }
}

/// What every rank builds for itself.
struct Parts {
    samples: Samples,
    loader: LoaderConfig,
    learner: Learner,
    evaluator: Option<Evaluator>,
    contract: Contract,
    class_weights: Vec<f32>,
    validation_samples: usize,
    local_batch: LocalBatch,
    deal: String,
}

/// Steps of a run of one rank, by the recipe and the samples that it teaches with.
///
/// # Errors
/// As [`super::train`], where recipe and samples do not fit.
pub fn steps_alone(recipe: &Recipe, store: &Store) -> Result<u64> {
    let batch = local_batch(recipe, Place::ALONE)?;
    let ids = store.ids(Split::Train);
    let (samples, _) = teaching(recipe, store, ids, (recipe.seed, Place::ALONE), batch)?;
    Ok(recipe.training.total_steps(samples.steps_per_epoch()))
}

/// Samples of a step on each of the ranks that do it together.
fn local_batch(recipe: &Recipe, place: Place) -> Result<LocalBatch> {
    recipe.local_batch(place.ranks).map_err(JobError::recipe)
}

/// The samples that teach what the recipe's task asks for, shuffled by this seed at this place among those that share
/// them, and which of them have boxes that are used.
fn teaching(
    recipe: &Recipe,
    store: &Store,
    ids: Vec<usize>,
    (seed, place): (u64, Place),
    batch: LocalBatch,
) -> Result<(Samples, Option<Labelled>)> {
    let config = samples::shuffled(seed, place, batch.samples());
    match recipe.task {
        Task::Segment => Ok((Samples::for_masks(store, ids, config)?, None)),
        Task::Detect => {
            let (samples, labelled) = Samples::for_boxes(recipe, store, ids, config, batch)?;
            Ok((samples, Some(labelled)))
        }
    }
}

impl Parts {
    fn build(recipe: &Recipe, store: &Arc<Store>, place: Place, share: Share) -> Result<Self> {
        let (channels, normalisation) = inputs(recipe, store)?;
        let network = network_of(recipe, channels.len());
        let class_weights = class_weights_of(recipe, store)?;
        if recipe.task == Task::Segment && place.rank == 0 {
            tell_missing_classes(store);
        }
        let local_batch = local_batch(recipe, place)?;
        let shuffled = (share.shuffle_seed, share.place);
        let (samples, labelled) = teaching(recipe, store, share.ids, shuffled, local_batch)?;
        let total_steps = recipe.training.total_steps(samples.steps_per_epoch());
        if place.rank == 0 {
            tell_long_warmup(recipe.schedule.warmup_steps, total_steps);
        }
        let criterion = recipe.loss.criterion(class_weights.clone());
        let objective = Objective::of(recipe, criterion, labelled);
        let learner = Learner::new(
            recipe,
            &network,
            objective.clone(),
            total_steps,
            place.ranks,
        )?;
        let contract = Contract::new(
            recipe,
            &network,
            &normalisation,
            store.grid(),
            store.data_hash(),
        );
        let (threads, prefetch) = recipe.data.readers(learner.network.backend());
        let loader = LoaderConfig {
            channels,
            normalisation: Some(normalisation),
            augmentation: recipe.data.augmentation,
            seed: recipe.seed,
            frames: recipe.network.frames(),
            stored: false,
            threads,
            prefetch,
        };
        let judging = Judging {
            batch: local_batch.samples(),
            loader: LoaderConfig {
                augmentation: Augmentation::default(),
                ..loader.clone()
            },
            objective,
            storage: learner.storage.clone(),
        };
        let (evaluator, validation_samples) = evaluator_of(recipe, store, judging, place)?;
        Ok(Self {
            samples,
            loader,
            learner,
            evaluator,
            contract,
            class_weights,
            validation_samples,
            local_batch,
            deal: with_boxes(share.deal, recipe, store),
        })
    }

    /// Checks that all ranks have the same recipe, data and program.
    fn agree(&self, recipe: &Recipe, store: &Store, team: &mut Team) -> Result<()> {
        let parameters = self.learner.network.parameters();
        let shapes: Vec<String> = (parameters.iter())
            .map(|p| format!("{} = {:?}", p.name, p.range))
            .collect();
        let steps = self.samples.steps_per_epoch().to_string();
        // Gradients are summed, so that ranks would not drift apart; but what they learn would depend on who computes
        // what.
        let dtype = format!("{:?}", self.learner.storage.dtype).to_lowercase();
        let facts = Facts::new()
            .with_text("the program", code::version())
            .with_text("the recipe", recipe.lines())
            .with("the data", store.data_hash().as_bytes())
            .with("the boxes", store.boxes_hash().unwrap_or("").as_bytes())
            .with_text("the network", shapes.join("\n"))
            .with_text("the number of steps of an epoch", steps)
            .with_text("the data type of activations", dtype)
            .with_text("what computes", self.learner.network.backend().kind());
        team.check_facts(&facts)
    }
}

/// The recipe's network, with as many inputs and outputs as its data and its task have.
fn network_of(recipe: &Recipe, channels: usize) -> NetworkConfig {
    NetworkConfig {
        channels_in: channels,
        classes: match recipe.task {
            Task::Segment => Class::ALL.len(),
            Task::Detect => BoxClass::ALL.len(),
        },
        ..recipe.network.clone()
    }
}

/// Weights of the classes of masks: those of the recipe, or by how often the store has them.
fn class_weights_of(recipe: &Recipe, store: &Store) -> Result<Vec<f32>> {
    if let Some(weights) = &recipe.loss.class_weights {
        return Ok(weights.clone());
    }
    let network = &recipe.network;
    let boxes_alone = network.name.is_detector() && network.mask_classes == 0;
    // A store for detectors may have no masks to take them from, and boxes alone need none.
    if boxes_alone && store.masked_ids(Split::Train).is_empty() {
        return Ok(vec![1.0; Class::ALL.len()]);
    }
    if store.masked_ids(Split::Train).is_empty() {
        return Err(samples::without_masks());
    }
    Ok(store.class_weights(recipe.loss.weighting)?)
}

/// Warns of classes that no training or no validation sample has.
fn tell_missing_classes(store: &Store) {
    for (split, samples, so) in [
        (Split::Train, "training", "the network cannot learn it"),
        (
            Split::Validation,
            "validation",
            "nothing is known of how well it is found",
        ),
    ] {
        let counts = store.class_counts(split);
        if counts.iter().sum::<u64>() == 0 {
            // It has none with labels, which is said where they are missed.
            continue;
        }
        for (class, _) in (Class::ALL.iter().zip(counts)).filter(|(_, count)| *count == 0) {
            let name = class.name().replace('_', " ");
            tracing::warn!("no {samples} sample has a pixel of {name}: {so}");
        }
    }
}

/// Says where a run ends before its learning rate is what the recipe has.
fn tell_long_warmup(warmup: u64, steps: u64) {
    if warmup > 0 && warmup >= steps {
        let reached = match warmup == steps {
            true => "reached in the last step alone",
            false => "never reached",
        };
        tracing::warn!(
            "`schedule.warmup_steps` is {warmup} and the run has {steps} steps: `schedule.rate` is {reached}"
        );
    }
}

/// What validates, and on how many samples; nothing if the store has none with labels.
fn evaluator_of(
    recipe: &Recipe,
    store: &Arc<Store>,
    judging: Judging,
    place: Place,
) -> Result<(Option<Evaluator>, usize)> {
    let asked = Asked::of(recipe, store);
    let samples = match recipe.task {
        Task::Segment => asked.samples(),
        // A mask is enough where the network gives masks, too.
        Task::Detect => match labelled_for_validation(store, &asked, place.rank) {
            0 if recipe.network.mask_classes > 0 => asked.samples(),
            labelled => labelled,
        },
    };
    if samples == 0 {
        tracing::warn!(
            "the store has no validation samples with labels: the last model will be the best"
        );
        return Ok((None, 0));
    }
    let evaluator = Evaluator::new(store, asked, judging, place)?;
    Ok((Some(evaluator), samples))
}

/// What decides which samples come when, with the hash of the boxes of a detector: whose boxes were learnt from belongs
/// to the data.
fn with_boxes(deal: String, recipe: &Recipe, store: &Store) -> String {
    match (recipe.task, store.boxes_hash()) {
        (Task::Detect, Some(hash)) => {
            let found = store.found_boxes_hash().unwrap_or_default();
            format!("{deal}{hash}{found}")
        }
        _ => deal,
    }
}

/// How many samples a validation judges boxes of. The first rank says if there is none to be found.
fn labelled_for_validation(store: &Store, asked: &Asked, rank: usize) -> usize {
    let ids = asked.places().into_keys();
    let labelled: Vec<usize> = ids.filter(|&id| store.boxes(id).is_some()).collect();
    let holds = |&id: &usize| store.boxes(id).is_some_and(|boxes| !boxes.is_empty());
    if rank == 0 && !labelled.is_empty() && !labelled.iter().any(holds) {
        tracing::warn!(
            "none of the {} validation samples has a box: average precision has no value, and the last model will be the best",
            labelled.len()
        );
    }
    labelled.len()
}

/// Channels of the batches.
pub(super) fn channels<'a>(recipe: &'a Recipe, store: &'a Store) -> &'a [Variable] {
    let chosen = recipe.data.channels.as_deref();
    chosen.unwrap_or_else(|| store.channels())
}

/// Channels of the batches and their normalisation.
fn inputs(recipe: &Recipe, store: &Store) -> Result<(Vec<Variable>, Normalisation)> {
    let channels = channels(recipe, store).to_vec();
    let all = store.normalisation(recipe.data.normalisation)?;
    let normalisation = all.select(&channels).map_err(|error| {
        JobError::recipe(format!(
            "`data.channels`: the store does not hold them all: {error}"
        ))
    })?;
    Ok((channels, normalisation))
}
