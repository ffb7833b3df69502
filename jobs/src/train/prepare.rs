//! From recipe, store and folder to a run that is ready to start.

use super::Run;
use super::evaluate::{Asked, Evaluator, Judging};
use super::objective::Objective;
use super::plan::room;
use super::recorder::Recorder;
use super::samples::{self, Labelled, Samples};
use super::share::{Place, Share};
use super::step::Learner;
use super::team::Team;
use super::told;
use crate::clips;
use crate::code;
use crate::comm::agree::Facts;
use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::memory;
use crate::recipe::{LocalBatch, Recipe, Task};
use crate::run_dir::RunDir;
use squall_data::loader::{Augmentation, LoaderConfig};
use squall_data::store::Split;
use squall_data::{BoxClass, Class, Normalisation, Store, Variable};
use squall_model::{Backend, Network, NetworkConfig};
use std::collections::HashSet;
use std::sync::Arc;

impl<'a> Run<'a> {
    /// A run at its first step, or at that of its checkpoint. All ranks of `team` call it, which need not be those that do
    /// its steps.
    pub(super) fn prepare(
        recipe: &'a Recipe,
        store: &'a Arc<Store>,
        run_dir: Option<RunDir>,
        share: Share,
        team: &mut Team,
    ) -> Result<Self> {
        let node_ranks = team.place_on_node()?.ranks;
        let fits = fits(recipe, store, room(Backend::best(), team, node_ranks));
        // Nobody allocates while another still asks what is left of a memory that both share.
        team.all_or_none(fits)?;
        let built = Self::build(recipe, store, run_dir, share);
        let mut run = team.all_or_none(built)?;
        run.check_agreement(team)?;
        let resumed = run.resume();
        team.all_or_none(resumed)?;
        run.spread(team)?;
        let recorder = run.open_recorder();
        run.recorder = team.all_or_none(recorder)?;
        Ok(run)
    }

    /// A run at its first step, which every rank builds for itself.
    fn build(
        recipe: &'a Recipe,
        store: &'a Arc<Store>,
        run_dir: Option<RunDir>,
        share: Share,
    ) -> Result<Self> {
        let place = share.step_place;
        let (channels, normalisation) = inputs(recipe, store)?;
        let network = network_of(recipe, channels.len());
        let class_weights = class_weights_of(recipe, store)?;
        if recipe.task == Task::Segment && share.tells {
            told::missing_classes(store);
        }
        let local_batch = local_batch(recipe, place)?;
        let shuffled = (share.shuffle_seed, share.place);
        let (samples, labelled) = teaching(recipe, store, share.ids, shuffled, local_batch)?;
        let steps_per_epoch = samples.steps_per_epoch();
        let total_steps = recipe.training.total_steps(steps_per_epoch);
        if share.tells {
            told::long_warmup(recipe.schedule.warmup_steps, total_steps);
            told::masks_not_read(recipe, store);
            for said in recipe.without_effect() {
                tracing::warn!("{said}");
            }
        }
        let criterion = recipe.loss.criterion(class_weights.clone());
        let objective = Objective::of(recipe, criterion, labelled);
        let ranks = place.ranks;
        let learner = Learner::new(recipe, &network, objective.clone(), total_steps, ranks)?;
        let together = local_batch.samples() * recipe.distributed.norm_ranks(ranks);
        check_norms(recipe, &learner.network, store, together)?;
        let (grid, hash) = (store.grid(), store.data_hash());
        let contract = Contract {
            frame_seconds: (recipe.clips())
                .and_then(|shape| shape.frame_seconds(clips::in_time(store, &[]).2)),
            ..Contract::new(recipe, &network, &normalisation, grid, hash)
        };
        let loader = loader_of(recipe, channels, normalisation, learner.network.backend());
        let judging = Judging {
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
            evaluator_of(recipe, store, judging, (place, share.tells))?;
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

    /// Refuses ranks with another recipe, other data or another program.
    fn check_agreement(&self, team: &mut Team) -> Result<()> {
        let store = self.store;
        let parameters = self.learner.network.parameters();
        let shapes: Vec<String> = (parameters.iter())
            .map(|p| format!("{} = {:?}", p.name, p.range))
            .collect();
        let steps = self.samples.steps_per_epoch().to_string();
        let found = store.found_boxes_hash().unwrap_or("");
        // Gradients are summed, so that ranks would not drift apart; but what they learn would depend on who computes
        // what.
        let dtype = format!("{:?}", self.learner.storage.dtype).to_lowercase();
        let facts = Facts::new()
            .with_text("the program", code::version())
            .with_text("the recipe", self.recipe.lines())
            .with("the data", store.data_hash().as_bytes())
            .with("the boxes", store.boxes_hash().unwrap_or("").as_bytes())
            // Of `detection.pseudo_labels`, whose file may lie on the disk of each node.
            .with("the table of found boxes", found.as_bytes())
            .with_text("the network", shapes.join("\n"))
            .with_text("the number of steps of an epoch", steps)
            .with_text("the data type of activations", dtype)
            .with_text("what computes", self.learner.network.backend().kind());
        team.check_facts(&facts)
    }

    /// What writes metrics and times, on the first rank.
    fn open_recorder(&self) -> Result<Option<Recorder>> {
        let step = self.learner.progress.step;
        let again = self.standing.iter().flat_map(|s| &s.validating);
        let mut again: Vec<u64> = again.map(|(_, step)| *step).collect();
        if again.is_empty() && self.validation_due {
            // An earlier part may have done it and been killed before it saved that.
            again.push(step);
        }
        let open = |dir: &RunDir| Recorder::open(dir, step, &again);
        self.run_dir.as_ref().map(open).transpose()
    }
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

/// Samples of an epoch of all ranks, of a network over time clips: those that teach directly. Of the others as many come
/// beside them as `detection.unlabelled_per_batch` says.
///
/// # Errors
/// As [`super::train`], where recipe and samples do not fit.
pub fn samples_of_epoch(recipe: &Recipe, store: &Store) -> Result<usize> {
    let ids = store.ids(Split::Train);
    // Of a step of many nodes it is known later whether there are enough.
    let config = samples::shuffled(recipe.seed, Place::ALONE, 1);
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

/// Each batch of a step of the ranks that do it together.
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

/// Refuses a recipe whose network alone needs more than this rank may hold, of a memory that so many share, before any
/// of it is allocated.
fn fits(recipe: &Recipe, store: &Store, (available, ranks): (Option<u64>, u64)) -> Result<()> {
    let network = network_of(recipe, channels(recipe, store).len());
    let outline = Network::outline(&network, Backend::best(), recipe.seed)?;
    memory::check_values(recipe, &outline, available, ranks)
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

/// Refuses a network whose longitude wraps on a grid that does not go around the globe: it would learn that one edge of
/// the region borders on the other, and inference refuses such a model on that very grid.
pub(super) fn check_longitude(recipe: &Recipe, store: &Store) -> Result<()> {
    let grid = store.grid();
    if grid.is_periodic() || !recipe.network.periodic_longitude {
        return Ok(());
    }
    Err(JobError::recipe(format!(
        "`network.periodic_longitude`: expected false, found true: the grid of the store, {}, does not go around the globe",
        grid.describe()
    )))
}

/// Refuses batches of so many samples that leave a batch normalisation one value of each channel, as PyTorch does: its
/// output would be the same whatever the fields are, and a running variance that falls to nothing would blow up what
/// inference sees.
fn check_norms(recipe: &Recipe, network: &Network, store: &Store, samples: usize) -> Result<()> {
    let [rows, columns, _] = store.shape();
    let summary = network.summary(rows, columns)?;
    let statistics = network.parameters().buffers().iter();
    let norms: HashSet<&str> = statistics
        .filter_map(|statistics| statistics.name.strip_suffix(".running_mean"))
        .collect();
    let single = summary.layers.iter().find(|layer| {
        let [h, w, _] = layer.output;
        norms.contains(layer.name.as_str()) && h * w * summary.frames * samples == 1
    });
    let key = match recipe.distributed.global_batch {
        Some(_) => "distributed.global_batch",
        None => "training.batch",
    };
    single.map_or(Ok(()), |layer| {
        Err(JobError::recipe(format!(
            "`{key}`: expected batches of 2 samples or more, found 1: fields of {rows} x {columns} cells leave the batch normalisation `{}` one \
             value of each channel, of which it makes the same whatever it is (detectors of cells: `network.blocks` has their halvings)",
            layer.name
        )))
    })
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

/// What validates at a place, and on how many samples; nothing if the store has none with labels, which one rank tells.
fn evaluator_of(
    recipe: &Recipe,
    store: &Arc<Store>,
    judging: Judging,
    (place, tells): (Place, bool),
) -> Result<(Option<Evaluator>, usize)> {
    let asked = Asked::of(recipe, store);
    let samples = judged(recipe, store, &asked, tells);
    if samples == 0 {
        if tells {
            tracing::warn!(
                "the store has no validation samples with labels: the last model will be the best"
            );
        }
        return Ok((None, 0));
    }
    let evaluator = Evaluator::new(store, asked, judging, place)?;
    Ok((Some(evaluator), samples))
}

/// Whether validations tell networks apart: where a detector has nothing to find, each has the same score.
pub fn has_validation(recipe: &Recipe, store: &Store) -> bool {
    let (asked, masks) = (Asked::of(recipe, store), recipe.network.mask_classes > 0);
    let has_box = |id: usize| store.boxes(id).is_some_and(|boxes| !boxes.is_empty());
    let tells = |id: usize| has_box(id) || masks && store.samples()[id].has_mask();
    match recipe.task {
        Task::Segment => asked.samples() > 0,
        Task::Detect => asked.places().into_keys().any(tells),
    }
}

/// How many samples a validation judges.
fn judged(recipe: &Recipe, store: &Store, asked: &Asked, tells: bool) -> usize {
    match recipe.task {
        Task::Segment => asked.samples(),
        // A mask is enough where the network gives masks, too.
        Task::Detect => match labelled_for_validation(store, asked, tells) {
            0 if recipe.network.mask_classes > 0 => asked.samples(),
            labelled => labelled,
        },
    }
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

/// How many samples a validation judges boxes of. The rank that tells says if there is none to be found.
fn labelled_for_validation(store: &Store, asked: &Asked, tells: bool) -> usize {
    let ids = asked.places().into_keys();
    let labelled: Vec<usize> = ids.filter(|&id| store.boxes(id).is_some()).collect();
    let holds = |&id: &usize| store.boxes(id).is_some_and(|boxes| !boxes.is_empty());
    if tells && !labelled.is_empty() && !labelled.iter().any(holds) {
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

/// How training samples are read.
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
