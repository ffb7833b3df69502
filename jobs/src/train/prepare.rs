//! Builds a run from recipe, store and folder: see [`Run::prepare`].

use super::Run;
use super::evaluate::EvaluatorSettings;
use super::fit;
use super::objective::Objective;
use super::plan::room;
use super::recorder::Recorder;
use super::samples::{self, Labelled, Samples};
use super::share::{RankPosition, Share};
use super::start_from::normalisation_of_start;
use super::step::Learner;
use super::team::Team;
use super::used_labels;
use super::validation::evaluator_of;
use super::warnings;
use crate::clips;
use crate::code;
use crate::comm::agree::Facts;
use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::recipe::{LocalBatch, Recipe, Task};
use crate::run_dir::RunDir;
use squall_data::loader::{Augmentation, LoaderConfig};
use squall_data::store::Split;
use squall_data::{BoxClass, Class, Normalisation, Store, Variable};
use squall_model::{Backend, NetworkConfig};
use std::sync::Arc;

impl<'a> Run<'a> {
    /// Returns a run at its first step, or at the step of its checkpoint. All ranks of `team` call it; only some of
    /// them may do steps together.
    pub(super) fn prepare(
        recipe: &'a Recipe,
        store: &'a Arc<Store>,
        run_dir: Option<RunDir>,
        share: Share,
        team: &mut Team,
    ) -> Result<Self> {
        let node_ranks = team.place_on_node()?.ranks;
        let fits = fit::check_memory(recipe, store, room(Backend::best(), team, node_ranks));
        // Also a barrier: no rank may allocate while another on its node still measures free memory.
        team.all_or_none(fits)?;
        let kept = normalisation_of_start(recipe, run_dir.as_ref(), team)?;
        let built = Self::build(recipe, store, run_dir, share, kept);
        let mut run = team.all_or_none(built)?;
        run.check_agreement(team)?;
        let resumed = run.resume();
        team.after_files(resumed)?;
        run.spread(team)?;
        let recorder = run.open_recorder();
        run.recorder = team.after_files(recorder)?;
        Ok(run)
    }

    /// Builds a run at its first step, on every rank by itself; `kept` is the normalisation of the model it starts from,
    /// if it keeps that.
    fn build(
        recipe: &'a Recipe,
        store: &'a Arc<Store>,
        run_dir: Option<RunDir>,
        share: Share,
        kept: Option<Normalisation>,
    ) -> Result<Self> {
        let place = share.step_place;
        let (channels, normalisation) = inputs(recipe, store, kept)?;
        let network = network_of(recipe, channels.len());
        let class_weights = class_weights_of(recipe, store)?;
        if recipe.task == Task::Segment && share.warns {
            warnings::missing_classes(store);
        }
        let local_batch = local_batch(recipe, place)?;
        let shuffled = (share.shuffle_seed, share.place);
        let (samples, labelled) = teaching(recipe, store, share.ids, shuffled, local_batch)?;
        let steps_per_epoch = samples.steps_per_epoch();
        let (of_epoch, of_step) = match share.deal.is_empty() {
            true => (samples.of_epoch(), samples.of_step()),
            // Nodes that hold other samples may hold a few more or less of them; whole steps are as many on all.
            false => (steps_per_epoch, 1),
        };
        let total_steps = recipe.training.total_steps(of_epoch, of_step);
        if share.warns {
            warnings::long_warmup(recipe.schedule.warmup_steps, total_steps);
            warnings::zero_rate(&recipe.schedule, total_steps);
            warnings::masks_not_read(recipe, store);
            for said in recipe.without_effect() {
                tracing::warn!("{said}");
            }
        }
        let criterion = recipe.loss.criterion(class_weights.clone());
        let objective = Objective::of(recipe, criterion, labelled);
        let ranks = place.ranks;
        let learner = Learner::new(recipe, &network, objective.clone(), total_steps, ranks)?;
        let together = local_batch.samples() * recipe.distributed.norm_ranks(ranks);
        fit::check_norms(recipe, &learner.network, store, together)?;
        let contract = Contract {
            class_weights: weights_in_masks(&network, &class_weights),
            ..contract_of(recipe, store, &network, &normalisation)
        };
        let loader = loader_of(recipe, channels, normalisation, learner.network.backend());
        let settings = EvaluatorSettings {
            batch: local_batch.samples(),
            loader: LoaderConfig {
                augmentation: Augmentation::default(),
                ..loader.clone()
            },
            objective,
            storage: learner.storage.clone(),
            best_by: recipe.training.best_by,
        };
        let (evaluator, validation_samples) =
            evaluator_of(recipe, store, settings, (place, share.warns))?;
        let (training, epoch) = (&recipe.training, steps_per_epoch as u64);
        Ok(Self {
            recipe,
            store,
            run_dir,
            samples,
            loader,
            learner,
            evaluator,
            contract,
            recorder: None,
            best: None,
            total_steps,
            validate_every: training.validate_every_steps.unwrap_or(epoch),
            checkpoint_every: training.checkpoint_every_steps.unwrap_or(epoch),
            class_weights,
            validation_samples,
            local_batch,
            step_ranks: ranks,
            deal: with_boxes(share.deal, recipe, store),
            pending: Vec::new(),
            standing: None,
            validation_due: false,
        })
    }

    /// Fails if the ranks' recipes, data or programs differ.
    fn check_agreement(&self, team: &mut Team) -> Result<()> {
        let store = self.store;
        let parameters = self.learner.network.parameters();
        let shapes: Vec<String> = (parameters.iter())
            .map(|p| format!("{} = {:?}", p.name, p.range))
            .collect();
        let steps = self.samples.steps_per_epoch().to_string();
        let found = store.found_boxes_hash().unwrap_or("");
        // With different data types the parameters would stay equal, since gradients are summed, but the result would
        // depend on which rank computes which samples.
        let dtype = format!("{:?}", self.learner.storage.dtype).to_lowercase();
        let facts = Facts::new()
            .with_text("the program", code::version())
            .with_text("the recipe", self.recipe.lines())
            .with("the data", store.data_hash().as_bytes())
            .with("the boxes", store.boxes_hash().unwrap_or("").as_bytes())
            // The file of `detection.pseudo_labels` may lie on each node's own disk.
            .with("the table of found boxes", found.as_bytes())
            .with_text("the network", shapes.join("\n"))
            .with_text("the number of steps of an epoch", steps)
            .with_text("the data type of activations", dtype)
            .with_text("what computes", self.learner.network.backend().kind());
        team.check_facts(&facts)
    }

    /// Opens the recorder of metrics and times on the first rank; `None` on the others.
    fn open_recorder(&self) -> Result<Option<Recorder>> {
        let step = self.learner.progress.step;
        let again = self.standing.iter().flat_map(|s| &s.validating);
        let mut again: Vec<u64> = again.map(|(_, step)| *step).collect();
        if again.is_empty() && self.validation_due {
            // An earlier call may have validated and then been killed before it saved a checkpoint.
            again.push(step);
        }
        let open = |dir: &RunDir| Recorder::open(dir, step, &again);
        self.run_dir.as_ref().map(open).transpose()
    }
}

/// The number of steps of a whole run on one rank; epochs are converted by the number of samples in the store.
///
/// # Errors
/// As [`super::train`], where recipe and samples do not fit.
pub fn steps_alone(recipe: &Recipe, store: &Store) -> Result<u64> {
    let batch = local_batch(recipe, RankPosition::ALONE)?;
    let ids = store.ids(Split::Train);
    let (samples, _) = teaching(
        recipe,
        store,
        ids,
        (recipe.seed, RankPosition::ALONE),
        batch,
    )?;
    Ok((recipe.training).total_steps(samples.of_epoch(), samples.of_step()))
}

/// Samples with labels (clips, for a network over time) per epoch over all ranks. Samples without labels come on top,
/// as `detection.unlabelled_per_batch` says.
///
/// # Errors
/// As [`super::train`], where recipe and samples do not fit.
pub fn samples_of_epoch(recipe: &Recipe, store: &Store) -> Result<usize> {
    let ids = store.ids(Split::Train);
    // Whether they suffice for a step of many ranks is checked once the number of ranks is known.
    let config = samples::shuffled(recipe.seed, RankPosition::ALONE, 1);
    let least = LocalBatch {
        labelled: 1,
        unlabelled: 1,
    };
    let samples = match recipe.task {
        Task::Segment => Samples::for_masks(store, ids, config)?,
        Task::Detect => Samples::for_boxes(recipe, store, ids, config, least)?.0,
    };
    Ok(samples.of_epoch())
}

/// The batch of each rank of a step.
fn local_batch(recipe: &Recipe, place: RankPosition) -> Result<LocalBatch> {
    recipe.local_batch(place.ranks).map_err(JobError::recipe)
}

/// The samples that teach the recipe's task, shuffled by this seed, for the rank at this place; for a detector also the
/// samples whose labels are used.
fn teaching(
    recipe: &Recipe,
    store: &Store,
    ids: Vec<usize>,
    (seed, place): (u64, RankPosition),
    batch: LocalBatch,
) -> Result<(Samples, Option<Labelled>)> {
    let accumulate = recipe.training.accumulate;
    let step = batch.times(accumulate);
    let config = samples::shuffled(seed, place, step.samples());
    let (samples, labelled) = match recipe.task {
        Task::Segment => (Samples::for_masks(store, ids, config)?, None),
        Task::Detect => {
            let (samples, labelled) = Samples::for_boxes(recipe, store, ids, config, step)?;
            (samples, Some(labelled))
        }
    };
    Ok((samples.in_batches(accumulate), labelled))
}

/// The recipe's network, with inputs and outputs to match its data and task.
pub(super) fn network_of(recipe: &Recipe, channels: usize) -> NetworkConfig {
    NetworkConfig {
        channels_in: channels,
        classes: match recipe.task {
            Task::Segment => Class::ALL.len(),
            Task::Detect => BoxClass::ALL.len(),
        },
        ..recipe.network.clone()
    }
}

/// The contract of the run's models before the first step.
fn contract_of(
    recipe: &Recipe,
    store: &Store,
    network: &NetworkConfig,
    normalisation: &Normalisation,
) -> Contract {
    let (grid, hash) = (store.grid(), store.data_hash());
    let frame_seconds =
        (recipe.clips()).and_then(|shape| shape.frame_seconds(clips::in_time(store, &[]).2));
    let contract = Contract {
        frame_seconds,
        ..Contract::new(recipe, network, normalisation, grid, hash)
    };
    contract.with_sources(store.sources())
}

/// The class weights that a network's masks carry; none if it has no masks.
fn weights_in_masks(network: &NetworkConfig, class_weights: &[f32]) -> Vec<f32> {
    match network.name.is_detector() && network.mask_classes == 0 {
        true => Vec::new(),
        false => class_weights.to_vec(),
    }
}

/// Class weights of masks: from the recipe, or computed from the class frequencies of the training masks that teach.
/// They are those of the whole store, also where each node holds a part of it: all ranks must have the same.
fn class_weights_of(recipe: &Recipe, store: &Store) -> Result<Vec<f32>> {
    if let Some(weights) = &recipe.loss.class_weights {
        return Ok(weights.clone());
    }
    let masked = store.masked_ids(Split::Train);
    let withheld = used_labels::withheld(recipe, store)?;
    let teaching = masked.iter().filter(|id| !withheld.contains(id));
    let mut counts = [0; Class::ALL.len()];
    for &id in teaching {
        for (sum, count) in counts.iter_mut().zip(store.samples()[id].class_counts) {
            *sum += count;
        }
    }
    if counts.iter().any(|&count| count > 0) {
        return Ok(recipe.loss.weighting.weights(&counts)?);
    }
    // A network that only outputs boxes does not use them, and its store may have no masks.
    if recipe.outputs_boxes_alone() {
        return Ok(vec![1.0; Class::ALL.len()]);
    }
    Err(match masked.is_empty() {
        true => samples::without_masks(),
        false => used_labels::withheld_masks(recipe, masked.len()),
    })
}

/// Extends `deal` by what else decides the sample order of a detector: the hash of its boxes.
fn with_boxes(deal: String, recipe: &Recipe, store: &Store) -> String {
    match (recipe.task, store.boxes_hash()) {
        (Task::Detect, Some(hash)) => {
            let found = store.found_boxes_hash().unwrap_or_default();
            format!("{deal}{hash}{found}")
        }
        _ => deal,
    }
}

/// Channels of the batches: those of the recipe, or all in the store.
pub(super) fn channels<'a>(recipe: &'a Recipe, store: &'a Store) -> &'a [Variable] {
    let chosen = recipe.data.channels.as_deref();
    chosen.unwrap_or_else(|| store.channels())
}

/// Channels of the batches and their normalisation: `kept`, or that of the store.
fn inputs(
    recipe: &Recipe,
    store: &Store,
    kept: Option<Normalisation>,
) -> Result<(Vec<Variable>, Normalisation)> {
    let channels = channels(recipe, store).to_vec();
    let all = store.normalisation(recipe.data.normalisation.method())?;
    let own = all.select(&channels).map_err(|error| {
        JobError::recipe(format!(
            "`data.channels`: the store does not hold them all: {error}"
        ))
    })?;
    let normalisation = match kept {
        None => own,
        Some(kept) => kept
            .select(&channels)
            .map_err(|error| JobError::StartFrom {
                model: recipe.training.start_from.clone().unwrap_or_default(),
                reason: error.to_string(),
            })?,
    };
    Ok((channels, normalisation))
}

/// The loader's settings for training samples.
fn loader_of(
    recipe: &Recipe,
    channels: Vec<Variable>,
    normalisation: Normalisation,
    backend: Backend,
) -> LoaderConfig {
    let (threads, prefetch) = recipe.data.readers(backend);
    LoaderConfig {
        channels,
        normalisation: Some(normalisation),
        augmentation: recipe.data.augmentation,
        seed: recipe.seed,
        frames: recipe.network.frames(),
        stored: false,
        threads,
        prefetch,
    }
}
