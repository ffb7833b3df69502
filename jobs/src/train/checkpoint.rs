//! What training continues from.

use super::Best;
use super::groups::Standing;
use super::start_from::start_from;
use super::step::{Learner, LearnerProgress, PendingStep, StepSums};
use super::step_shape::StepShape;
use super::team::Team;
use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::metrics::to_json;
use crate::recipe::Recipe;
use crate::run_dir::RunDir;
use serde::{Deserialize, Serialize};
use squall_data::{DataError, Store};
use squall_model::ModelFile;
use squall_model::optim::LossScale;
use std::path::Path;

/// The fact under which a checkpoint keeps its counters.
const FACT: &str = "checkpoint";

/// Counters of a checkpoint. The order of samples, augmentation and dropout are pure functions of seed and step, so
/// nothing of them needs saving.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointFacts {
    /// Steps done and skipped.
    pub progress: LearnerProgress,
    /// The factor of the loss now; none in checkpoints from before there was one.
    #[serde(default)]
    pub loss_scale: Option<LossScale>,
    /// The best validation so far.
    pub best: Option<Best>,
    /// The validation of its last step was interrupted and comes first.
    pub validation_due: bool,
    /// SHA-256 of the data.
    pub data_hash: String,
    /// Ranks and samples per rank.
    pub ranks: (usize, usize),
    /// Those of a rank's samples that have no labels; none in checkpoints from before this was kept.
    #[serde(default)]
    pub unlabelled: Option<usize>,
    /// Steps of an epoch; none in checkpoints from before this was kept.
    #[serde(default)]
    pub steps_per_epoch: Option<usize>,
    /// Which samples lay on which node, where nodes held a part of the store each; else empty.
    #[serde(default)]
    pub deal: String,
    /// With groups: steps before the last one done that are still to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<u64>,
}

/// What a run starts with besides the learner's state.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Start {
    /// The best validation so far.
    pub best: Option<Best>,
    /// One was interrupted and comes first.
    pub validation_due: bool,
    /// Steps that are still to be done before those that follow.
    pub pending: Vec<u64>,
    /// Where groups stood, of a run in turns.
    #[serde(skip)]
    pub standing: Option<Standing>,
}

/// Everything that training continues from, as tensors and facts.
fn state(path: &Path, learner: &Learner, facts: &CheckpointFacts) -> Result<ModelFile> {
    let mut file = ModelFile {
        tensors: learner.network.parameters().to_named()?,
        ..ModelFile::default()
    };
    learner.optimizer.save_into(&mut file)?;
    let mut pending = Vec::new();
    for (at, step) in learner.pending_steps.iter().enumerate() {
        let (Some(sums), Some(gradients)) = (step.sums, &step.gradients) else {
            unreachable!("exchanges are finished before pending steps are saved")
        };
        pending.push(PendingFacts {
            step: step.step,
            scale: step.scale,
            sums,
            fault: step.fault.clone(),
            bad_field: step.bad_field.clone(),
        });
        let mut put = |what: &str, values: &[f32]| {
            let name = format!("{PENDING}.{at}.{what}");
            file.tensors
                .insert(name, (vec![values.len()], values.to_vec()));
        };
        put("gradients", gradients);
        put("statistics", &step.statistics.values);
    }
    if !pending.is_empty() {
        let pending = to_json(&pending, path)?;
        file.facts.insert(PENDING.to_string(), pending);
    }
    file.facts.insert(FACT.to_string(), to_json(facts, path)?);
    Ok(file)
}

/// The fact of pending steps, and the beginning of their tensors' names.
const PENDING: &str = "waiting";

/// What is saved of [`PendingStep`] besides its values.
#[derive(Debug, Serialize, Deserialize)]
struct PendingFacts {
    step: u64,
    scale: f32,
    #[serde(rename = "shared")]
    sums: StepSums,
    fault: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bad_field: Option<String>,
}

/// Writes a checkpoint, whole or not at all; the one before becomes the previous one.
///
/// # Errors
/// [`JobError::Model`] naming the file.
pub(super) fn save(
    run: &RunDir,
    learner: &Learner,
    facts: &CheckpointFacts,
    standing: Option<&Standing>,
) -> Result<()> {
    let (path, previous) = (&run.checkpoint(), &run.previous_checkpoint());
    let mut file = state(path, learner, facts)?;
    if let Some(standing) = standing {
        standing.save_into(&mut file, path)?;
    }
    // The newest is never missing without the previous one being there: a crash between the two loses no state.
    if path.exists() {
        std::fs::rename(path, previous).map_err(DataError::io("rename", path))?;
    }
    file.write(path)?;
    Ok(())
}

/// Renames a checkpoint that cannot be read: otherwise the next save would move it over the previous one, which can be
/// read.
fn set_aside(run: &RunDir) -> Result<()> {
    let path = run.checkpoint();
    if path.exists() {
        let aside = run.folder().join("checkpoint.damaged.safetensors");
        std::fs::rename(&path, &aside).map_err(DataError::io("rename", &path))?;
        tracing::warn!("it is kept as `{}`", aside.display());
    }
    Ok(())
}

/// The steps of the newest checkpoint of a run that can be read; none if there is none. What a supervisor watches.
pub fn newest_step(folder: &Path) -> Option<u64> {
    ["checkpoint.safetensors", "checkpoint.previous.safetensors"]
        .into_iter()
        .find_map(|name| {
            let path = folder.join(name);
            let file = ModelFile::read(&path).ok()?;
            let facts = serde_json::from_str::<CheckpointFacts>(file.fact(&path, FACT).ok()?);
            Some(facts.ok()?.progress.step)
        })
}

/// Takes up a checkpoint of a run that `fits`.
///
/// # Errors
/// [`JobError::Damaged`] if it is no checkpoint; what `fits` says before weights are looked at, to which other channels
/// give other shapes; [`JobError::Model`] if it belongs to another network.
fn load(
    path: &Path,
    learner: &mut Learner,
    fits: impl Fn(&CheckpointFacts) -> Result<()>,
) -> Result<(CheckpointFacts, Option<Standing>)> {
    let file = ModelFile::read(path)?;
    fits(&facts_of(path, &file)?)?;
    let standing = Standing::load_from(path, &file)?;
    Ok((take(path, &file, learner)?, standing))
}

/// The counters of a checkpoint.
fn facts_of(path: &Path, file: &ModelFile) -> Result<CheckpointFacts> {
    serde_json::from_str(file.fact(path, FACT)?)
        .map_err(|error| JobError::damaged(path, format!("checkpoint facts: {error}")))
}

fn take(path: &Path, file: &ModelFile, learner: &mut Learner) -> Result<CheckpointFacts> {
    let damaged = |reason: String| JobError::damaged(path, reason);
    let facts = facts_of(path, file)?;
    let pending: Vec<PendingFacts> = match file.facts.get(PENDING) {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| damaged(format!("waiting gradients: {error}")))?,
        None => Vec::new(),
    };
    let parameters = learner.network.parameters_mut();
    parameters.load(path, |name| file.tensor(name))?;
    learner.optimizer.load_from(path, file)?;
    learner.go_on_from(facts.progress);
    if let Some(scale) = facts.loss_scale {
        learner.loss_scale = scale;
    }
    let count = learner.network.parameters().count();
    learner.pending_steps.clear();
    for (at, facts) in pending.into_iter().enumerate() {
        let get = |what: &str| {
            let name = format!("{PENDING}.{at}.{what}");
            let found = file.tensor(&name).map(|(_, values)| values.to_vec());
            found.ok_or_else(|| damaged(format!("tensor `{name}` is missing")))
        };
        let (gradients, statistics) = (get("gradients")?, get("statistics")?);
        if gradients.len() != count {
            return Err(damaged(format!(
                "waiting gradients: expected {count} values, found {}",
                gradients.len()
            )));
        }
        learner.pending_steps.push_back(PendingStep {
            step: facts.step,
            scale: facts.scale,
            count: 0.0,
            sums: Some(facts.sums),
            gradients: Some(gradients),
            statistics: learner.network.statistics_of(statistics),
            fault: facts.fault,
            bad_field: facts.bad_field,
        });
    }
    Ok(facts)
}

/// The run as it is now, which the checkpoint must fit.
pub(super) struct Now<'a> {
    pub recipe: &'a Recipe,
    pub contract: &'a Contract,
    pub store: &'a Store,
    /// Which samples come when, besides the seed.
    pub deal: &'a str,
    /// What a step and an epoch are.
    pub shape: StepShape,
}

/// What the first rank starts from: its checkpoint, the weights of another model, or nothing.
pub(super) fn start(run: &RunDir, learner: &mut Learner, now: Now<'_>) -> Result<Start> {
    let Now {
        recipe,
        contract,
        store,
        deal,
        shape,
    } = now;
    if !run.has_checkpoint() {
        if let Some(path) = &recipe.training.start_from {
            start_from(path, learner, contract)?;
        }
        return Ok(Start::default());
    }
    let refuse = |reason: String| JobError::Resume {
        folder: run.folder().to_path_buf(),
        reason,
    };
    let fits = |facts: &CheckpointFacts| match facts.data_hash == store.data_hash() {
        true => Ok(()),
        false => Err(refuse(format!(
            "it was trained on data with hash {}, `{}` has {}",
            facts.data_hash,
            store.folder().display(),
            store.data_hash()
        ))),
    };
    let (facts, standing) = match load(&run.checkpoint(), learner, fits) {
        // So is the one before.
        Err(error @ JobError::Resume { .. }) => return Err(error),
        Err(error) if run.previous_checkpoint().exists() => {
            tracing::warn!("{error}: continuing from the checkpoint before it");
            let loaded = load(&run.previous_checkpoint(), learner, fits)?;
            set_aside(run)?;
            loaded
        }
        loaded => loaded?,
    };
    if facts.deal != deal {
        return Err(refuse(
            "its nodes held other samples than they do now: stage with the same --per-node and --seed to as many nodes, or \
             begin a new run with `training.start_from`"
                .into(),
        ));
    }
    if let Some(reason) = shape.differs(&facts, recipe.detection.unlabelled_per_batch) {
        return Err(refuse(reason));
    }
    tracing::info!(step = facts.progress.step, "continuing from a checkpoint");
    Ok(Start {
        best: facts.best,
        validation_due: facts.validation_due,
        pending: facts.pending,
        standing,
    })
}

/// Gives the first rank's state to all.
pub(super) fn spread(start: &mut Start, learner: &mut Learner, team: &mut Team) -> Result<()> {
    if team.size() == 1 {
        return Ok(());
    }
    let path = Path::new("the first rank's state");
    let mut bytes = Vec::new();
    if team.is_first() {
        let facts = CheckpointFacts {
            progress: learner.progress,
            loss_scale: Some(learner.loss_scale),
            best: start.best.clone(),
            validation_due: start.validation_due,
            ..CheckpointFacts::default()
        };
        let mut file = state(path, learner, &facts)?;
        if let Some(standing) = &start.standing {
            standing.save_into(&mut file, path)?;
        }
        bytes = file.encode(path)?;
    }
    team.broadcast(&mut bytes)?;
    if !team.is_first() {
        let file = ModelFile::decode(path, &bytes)?;
        let facts = take(path, &file, learner)?;
        (start.best, start.validation_due) = (facts.best, facts.validation_due);
        start.standing = Standing::load_from(path, &file)?;
    }
    Ok(())
}
