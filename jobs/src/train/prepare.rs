//! From recipe, store and folder to a run that can go.

use super::Run;
use super::checkpoint::{self, Start};
use super::evaluate::{Asked, Evaluator};
use super::goal::Goal;
use super::recorder::Recorder;
use super::samples::{self, Labelled, Samples};
use super::step::Learner;
use super::team::Team;
use crate::code;
use crate::comm::agree::Facts;
use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::recipe::{Recipe, Task};
use crate::run_dir::RunDir;
use squall_data::loader::{Augmentation, LoaderConfig};
use squall_data::sampler::SamplerConfig;
use squall_data::store::Split;
use squall_data::{BoxClass, Class, Normalisation, Store, Variable, staging};
use squall_model::{ModelFile, NetworkConfig};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

impl<'a> Run<'a> {
    /// A run at its first step, or at that of its checkpoint.
    pub(super) fn prepare(
        recipe: &'a Recipe,
        store: &'a Arc<Store>,
        run_dir: Option<RunDir>,
        team: &'a mut Team,
    ) -> Result<Self> {
        let share = Share::agree(store, recipe.seed, team)?;
        let place = (team.rank(), team.size());
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
    /// As one of `team`, which all call it, of a rank that does steps at `place`: which rank of how many.
    pub(super) fn agree(
        (recipe, store): (&Recipe, &Arc<Store>),
        run_dir: Option<RunDir>,
        share: Share,
        place: (usize, usize),
        team: &mut Team,
    ) -> Result<Self> {
        let parts = Parts::build(recipe, store, place, share);
        let mut parts = team.all_or_none(parts)?;
        parts.agree(recipe, store, team)?;
        let learner = &mut parts.learner;
        let state = match &run_dir {
            Some(run_dir) => {
                let data = (&**store, parts.deal.as_str());
                checkpoint::start(run_dir, learner, recipe, &parts.contract, data, place.1)
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
            step_ranks: place.1,
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

/// The training samples that a rank deals with others, and its place among those.
pub(super) struct Share {
    ids: Vec<usize>,
    /// Nodes with other samples draw another order.
    shuffle_seed: u64,
    rank: usize,
    ranks: usize,
    /// What decides which samples come when, besides the seed: the same when a run goes on.
    deal: String,
}

impl Share {
    /// All samples among the ranks of every group, of which this is one of so many. All ranks of a team call it.
    pub(super) fn in_groups(
        store: &Store,
        seed: u64,
        (rank, ranks): (usize, usize),
        team: &mut Team,
    ) -> Result<Self> {
        if team.any(store.is_partial())? {
            let reason = "`distributed.groups`: every group learns from all samples, but the local copies of the store hold a part of \
                          them; stage without --per-node";
            return Err(JobError::Recipe {
                path: None,
                reason: reason.into(),
            });
        }
        Ok(Self {
            ids: store.ids(Split::Train),
            shuffle_seed: seed,
            rank,
            ranks,
            deal: String::new(),
        })
    }

    /// All samples among all ranks; where stores are local copies that hold a part, those of the node among its ranks.
    fn agree(store: &Store, seed: u64, team: &mut Team) -> Result<Self> {
        let ids = store.ids(Split::Train);
        if !team.any(store.is_partial())? {
            let (rank, ranks) = (team.rank(), team.size());
            return Ok(Self {
                ids,
                shuffle_seed: seed,
                rank,
                ranks,
                deal: String::new(),
            });
        }
        let (rank, ranks) = team.place_on_node()?;
        let here: Vec<usize> = ids.iter().copied().filter(|&id| store.holds(id)).collect();
        let mut nodes_with: Vec<u64> = (ids.iter())
            .map(|&id| u64::from(rank == 0 && store.holds(id)))
            .collect();
        team.sum_counts(&mut nodes_with)?;
        if team.is_first() {
            let nowhere = nodes_with.iter().filter(|&&nodes| nodes == 0).count();
            tracing::info!(
                "every node learns from samples of its own, the first from {} of {}",
                here.len(),
                ids.len()
            );
            if nowhere > 0 {
                tracing::warn!(
                    "{nowhere} of {} training samples are on no node of this job: nothing is learnt from them",
                    ids.len()
                );
            }
        }
        let (shuffle_seed, fingerprint) = staging::shuffle_seed(seed, &here);
        let all = team.gather(&fingerprint.to_le_bytes())?;
        Ok(Self {
            ids: here,
            shuffle_seed,
            rank,
            ranks,
            deal: format!("{:016x}", xxh3_64(&all)),
        })
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
    local_batch: usize,
    deal: String,
}

/// Steps of a run of one rank, by the recipe and the samples that it teaches with.
///
/// # Errors
/// As [`super::train`], where recipe and samples do not fit.
pub fn steps_alone(recipe: &Recipe, store: &Store) -> Result<u64> {
    let bad = |reason| JobError::Recipe { path: None, reason };
    let batch = (recipe.distributed)
        .local_batch(recipe.training.batch, 1)
        .map_err(bad)?;
    let config = samples::shuffled(recipe.seed, (0, 1), batch);
    let ids = store.ids(Split::Train);
    let (samples, _) = teaching(recipe, store, ids, config)?;
    Ok(recipe.training.total_steps(samples.steps_per_epoch()))
}

/// The samples that teach what the recipe's task asks for, and which of them have boxes that are used.
fn teaching(
    recipe: &Recipe,
    store: &Store,
    ids: Vec<usize>,
    config: SamplerConfig,
) -> Result<(Samples, Option<Labelled>)> {
    match recipe.task {
        Task::Segment => Ok((Samples::for_masks(store, ids, config)?, None)),
        Task::Detect => {
            let (samples, labelled) = Samples::for_boxes(recipe, store, ids, config)?;
            Ok((samples, Some(labelled)))
        }
    }
}

impl Parts {
    fn build(
        recipe: &Recipe,
        store: &Arc<Store>,
        (rank, ranks): (usize, usize),
        share: Share,
    ) -> Result<Self> {
        let (channels, normalisation) = inputs(recipe, store)?;
        let network = NetworkConfig {
            channels_in: channels.len(),
            classes: match recipe.task {
                Task::Segment => Class::ALL.len(),
                Task::Detect => BoxClass::ALL.len(),
            },
            ..recipe.network.clone()
        };
        let class_weights = match &recipe.loss.class_weights {
            Some(weights) => weights.clone(),
            // A store for detectors may have no masks to take them from, and boxes alone need none.
            None if network.name.is_detector()
                && network.mask_classes == 0
                && store.masked_ids(Split::Train).is_empty() =>
            {
                vec![1.0; Class::ALL.len()]
            }
            None => store.class_weights(recipe.loss.weighting)?,
        };
        let bad = |reason| JobError::Recipe { path: None, reason };
        let batch = (recipe.distributed)
            .local_batch(recipe.training.batch, ranks)
            .map_err(bad)?;
        let config = samples::shuffled(share.shuffle_seed, (share.rank, share.ranks), batch);
        let (samples, labelled) = teaching(recipe, store, share.ids, config)?;
        let total_steps = recipe.training.total_steps(samples.steps_per_epoch());
        let criterion = recipe.loss.criterion(class_weights.clone());
        let goal = Goal::of(recipe, criterion, labelled);
        let learner = Learner::new(recipe, &network, goal.clone(), total_steps, ranks)?;
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
        let judged = Asked::of(recipe, store);
        let validation_samples = match recipe.task {
            Task::Segment => judged.samples(),
            // A mask is enough where the network gives masks, too.
            Task::Detect => match labelled_for_validation(store, &judged, rank) {
                0 if network.mask_classes > 0 => judged.samples(),
                labelled => labelled,
            },
        };
        let evaluator = if validation_samples == 0 {
            tracing::warn!(
                "the store has no validation samples with labels: the last model will be the best"
            );
            None
        } else {
            let loader = LoaderConfig {
                augmentation: Augmentation::default(),
                ..loader.clone()
            };
            let storage = learner.storage.clone();
            Some(Evaluator::new(
                store,
                judged,
                batch,
                loader,
                goal,
                storage,
                (rank, ranks),
            )?)
        };
        Ok(Self {
            samples,
            loader,
            learner,
            evaluator,
            contract,
            class_weights,
            validation_samples,
            local_batch: batch,
            // Whose boxes were learnt from belongs to the data.
            deal: match (recipe.task, store.boxes_hash()) {
                (Task::Detect, Some(hash)) => {
                    let found = store.found_boxes_hash().unwrap_or_default();
                    format!("{}{hash}{found}", share.deal)
                }
                _ => share.deal,
            },
        })
    }

    /// Proves that all ranks mean the same.
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

/// Channels of the batches and their normalisation.
fn inputs(recipe: &Recipe, store: &Store) -> Result<(Vec<Variable>, Normalisation)> {
    let channels = recipe
        .data
        .channels
        .clone()
        .unwrap_or_else(|| store.channels().to_vec());
    let all = store.normalisation(recipe.data.normalisation)?;
    let normalisation = all.select(&channels).map_err(|error| JobError::Recipe {
        path: None,
        reason: format!("`data.channels`: the store does not hold them all: {error}"),
    })?;
    Ok((channels, normalisation))
}

/// Takes the weights of a model file as initial values.
pub(super) fn start_from(path: &Path, learner: &mut Learner, contract: &Contract) -> Result<()> {
    let file = ModelFile::read(path)?;
    let theirs = Contract::of(&file, path)?;
    let names = |contract: &Contract| {
        let variables = contract.variables();
        let names: Vec<&str> = variables.iter().map(|v| v.name()).collect();
        names.join(", ")
    };
    if theirs.variables() != contract.variables() {
        let (found, expected) = (names(&theirs), names(contract));
        return Err(JobError::Contract {
            model: path.to_path_buf(),
            reasons: vec![format!(
                "its channels are {found}, those of this run are {expected}"
            )],
        });
    }
    if theirs.normalisation_hash != contract.normalisation_hash {
        tracing::warn!("the weights to start from were trained on fields normalised otherwise");
    }
    let mine = &contract.network;
    let leftover = leftover(&file, learner);
    if !leftover.is_empty() {
        let shown: Vec<&str> = leftover.iter().take(NAMED).map(String::as_str).collect();
        let more = match leftover.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return Err(JobError::Contract {
            model: path.to_path_buf(),
            reasons: vec![format!(
                "the network of this run, `{}`, has no place for its weights {}{more}: give the network that it was trained with, `{}`",
                mine.name.as_str(),
                shown.join(", "),
                theirs.network.name.as_str()
            )],
        });
    }
    let changed = network_changes(&theirs.network, mine);
    if !changed.is_empty() {
        tracing::warn!(
            "the weights to start from fit, but their network was another: {}",
            changed.join(", ")
        );
    }
    let parameters = learner.network.parameters_mut();
    parameters.load(path, |name| file.tensor(name))?;
    tracing::info!(path = %path.display(), "starting from the weights of a model file");
    Ok(())
}

/// Leftover weights named one by one in an error; the rest is counted.
const NAMED: usize = 3;

/// The tensors of a model file that a network has no place for.
fn leftover(file: &ModelFile, learner: &Learner) -> Vec<String> {
    let parameters = learner.network.parameters();
    let places: HashSet<&str> = (parameters.iter().map(|p| p.name.as_str()))
        .chain(parameters.buffers().iter().map(|b| b.name.as_str()))
        .collect();
    let names = file
        .tensors
        .keys()
        .filter(|name| !places.contains(name.as_str()));
    names.cloned().collect()
}

/// The keys in which two networks differ, with both values: those that change no shape, where the weights of one fit
/// the other.
fn network_changes(theirs: &NetworkConfig, mine: &NetworkConfig) -> Vec<String> {
    let table = |config: &NetworkConfig| toml::Table::try_from(config).unwrap_or_default();
    let (theirs, mine) = (table(theirs), table(mine));
    let keys: BTreeSet<&String> = theirs.keys().chain(mine.keys()).collect();
    let text = |value: Option<&toml::Value>| value.map_or("nothing".into(), |v| v.to_string());
    keys.into_iter()
        .filter(|key| theirs.get(*key) != mine.get(*key))
        .map(|key| {
            let (was, is) = (text(theirs.get(key)), text(mine.get(key)));
            format!("`network.{key}` was {was}, is {is}")
        })
        .collect()
}
