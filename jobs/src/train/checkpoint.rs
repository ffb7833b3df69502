//! Checkpoints: the complete state from which a training run resumes.

use super::groups::Standing;
use super::rules;
use super::start_from::start_from;
use super::step::{Learner, LearnerProgress, PendingStep, StepSums};
use super::step_shape::StepShape;
use super::team::Team;
use super::{Best, Run};
use crate::error::{JobError, Result};
use crate::metrics::to_json;
use crate::run_dir::RunDir;
use serde::{Deserialize, Serialize};
use squall_data::{DataError, Normalisation, Store};
use squall_model::optim::LossScale;
use squall_model::stored_file::facts_alone;
use squall_model::{FileContents, ModelFile, StoredFile, Tensors};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Name of the fact that stores the counters.
const FACT: &str = "checkpoint";

/// Counters stored in a checkpoint. Sample order, augmentation and dropout are pure functions of seed and step, so they
/// need no saved state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointFacts {
    /// Completed and skipped steps.
    pub progress: LearnerProgress,
    /// The loss scale; absent from checkpoints of earlier versions.
    #[serde(default)]
    pub loss_scale: Option<LossScale>,
    /// The best validation so far.
    pub best: Option<Best>,
    /// Whether the validation after the last step was interrupted and must run first.
    pub validation_due: bool,
    /// SHA-256 of the data.
    pub data_hash: String,
    /// Number of ranks, and samples per step on each.
    pub ranks: (usize, usize),
    /// How many of a rank's samples have no labels; absent from checkpoints of earlier versions.
    #[serde(default)]
    pub unlabelled: Option<usize>,
    /// Steps per epoch; absent from checkpoints of earlier versions.
    #[serde(default)]
    pub steps_per_epoch: Option<usize>,
    /// Which samples each node held, if nodes held different parts of the store; otherwise empty.
    #[serde(default)]
    pub deal: String,
    /// The rules of training that the run began by ([`super::rules::NEWEST`]); 0 in checkpoints of earlier versions.
    #[serde(default)]
    pub rules: u32,
    /// With groups: unfinished steps that precede finished ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<u64>,
    /// The normalisation of the model that the run started from, if it keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalisation: Option<Normalisation>,
}

/// Name of the fact that describes pending steps, and prefix of their tensors' names.
const PENDING: &str = "waiting";

/// The saved fields of [`PendingStep`], without its values.
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

/// Warns if a resumed run has lost its best model.
fn warn_lost_best(run: &RunDir, step: u64) {
    let path = run.best();
    if !path.exists() {
        tracing::warn!(
            "`{}`, the model of step {step}, is not there: it comes back with the next validation that scores higher, if one does",
            path.display()
        );
    }
}

/// Renames an unreadable checkpoint: otherwise the next save would overwrite the previous one, which is readable.
fn set_aside(run: &RunDir) -> Result<()> {
    let path = run.checkpoint();
    if path.exists() {
        let aside = run.folder().join("checkpoint.damaged.safetensors");
        std::fs::rename(&path, &aside).map_err(DataError::io("rename", &path))?;
        tracing::warn!("it is kept as `{}`", aside.display());
    }
    Ok(())
}

/// Returns the step count of the newest readable checkpoint of a run, or `None`. A supervisor polls this.
pub fn newest_step(folder: &Path) -> Option<u64> {
    let step = |path: PathBuf| {
        let file = StoredFile::open(&path).ok()?;
        Some(facts_of(&path, &file).ok()?.progress.step)
    };
    RunDir::checkpoints_of(folder).into_iter().find_map(step)
}

/// Like [`newest_step`], but reads only the facts of the newest checkpoint that has its full length. Reading all values
/// is slow when there are many runs.
pub fn newest_step_by_facts(folder: &Path) -> Option<u64> {
    newest_facts(folder).map(|facts| facts.progress.step)
}

/// The normalisation that a run's checkpoint keeps of the model it started from.
pub(super) fn kept_normalisation(folder: &Path) -> Option<Normalisation> {
    newest_facts(folder)?.normalisation
}

/// The facts of the newest checkpoint that has its full length; its values are not read.
fn newest_facts(folder: &Path) -> Option<CheckpointFacts> {
    let facts = |path: PathBuf| {
        let facts = facts_alone(&path).ok()?;
        serde_json::from_str(facts.get(FACT)?).ok()
    };
    RunDir::checkpoints_of(folder).into_iter().find_map(facts)
}

/// Loads a checkpoint of a run that `fits` accepts.
///
/// # Errors
/// [`JobError::Damaged`] if the file is not a checkpoint; the error of `fits`, which runs before weights are read
/// because a change of channels also changes their shapes; [`JobError::Model`] if the checkpoint is of another network.
fn load(
    path: &Path,
    learner: &mut Learner,
    fits: impl Fn(&CheckpointFacts) -> Result<()>,
) -> Result<(CheckpointFacts, Option<Standing>)> {
    // Detects damage before any state changes.
    let file = StoredFile::open(path)?;
    let facts = facts_of(path, &file)?;
    fits(&facts)?;
    let standing = Standing::load_from(path, &file.facts, &file)?;
    restore(path, &file, &facts, learner)?;
    Ok((facts, standing))
}

/// Parses the counters of a checkpoint.
fn facts_of(path: &Path, file: &StoredFile<'_>) -> Result<CheckpointFacts> {
    serde_json::from_str(file.fact(FACT)?)
        .map_err(|error| JobError::damaged(path, format!("checkpoint facts: {error}")))
}

/// Restores a learner from a checkpoint with these counters. Tensors are read directly into their destination, so that
/// no second copy exists.
fn restore(
    path: &Path,
    file: &StoredFile<'_>,
    facts: &CheckpointFacts,
    learner: &mut Learner,
) -> Result<()> {
    let damaged = |reason: String| JobError::damaged(path, reason);
    let pending: Vec<PendingFacts> = match file.facts.get(PENDING) {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| damaged(format!("waiting gradients: {error}")))?,
        None => Vec::new(),
    };
    learner.network.parameters_mut().load(path, file)?;
    learner.optimizer.load_from(path, &file.facts, file)?;
    if let Some(average) = &mut learner.average {
        average.load_from(learner.network.parameters(), path, &file.facts, file)?;
    }
    let count = learner.network.parameters().count();
    let mut pending_steps = VecDeque::new();
    for (at, facts) in pending.into_iter().enumerate() {
        let get = |what: &str| -> Result<Vec<f32>> {
            let name = format!("{PENDING}.{at}.{what}");
            let found = file.values_of(&name)?;
            found.ok_or_else(|| damaged(format!("tensor `{name}` is missing")))
        };
        let (gradients, statistics) = (get("gradients")?, get("statistics")?);
        if gradients.len() != count {
            return Err(damaged(format!(
                "waiting gradients: expected {count} values, found {}",
                gradients.len()
            )));
        }
        pending_steps.push_back(PendingStep {
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
    learner.pending_steps = pending_steps;
    learner.resume_from(facts.progress);
    if let Some(scale) = facts.loss_scale {
        learner.loss_scale = scale;
    }
    Ok(())
}

/// Loads the newest readable checkpoint of a run.
fn load_newest(
    run_dir: &RunDir,
    learner: &mut Learner,
    store: &Store,
) -> Result<(CheckpointFacts, Option<Standing>)> {
    let fits = |facts: &CheckpointFacts| match facts.data_hash == store.data_hash() {
        true => Ok(()),
        false => Err(refused(
            run_dir,
            format!(
                "it was trained on data with hash {}, `{}` has {}",
                facts.data_hash,
                store.folder().display(),
                store.data_hash()
            ),
        )),
    };
    match load(&run_dir.checkpoint(), learner, fits) {
        Err(error) if error.may_be_damage() && run_dir.previous_checkpoint().exists() => {
            tracing::warn!("{error}: continuing from the checkpoint before it");
            let loaded = load(&run_dir.previous_checkpoint(), learner, fits)?;
            set_aside(run_dir)?;
            Ok(loaded)
        }
        // Also taken when there is no previous checkpoint, which would give the same error.
        loaded => loaded,
    }
}

fn refused(run_dir: &RunDir, reason: String) -> JobError {
    JobError::Resume {
        folder: run_dir.folder().to_path_buf(),
        reason,
    }
}

impl Run<'_> {
    /// On the first rank: resumes from the checkpoint in the run's folder, or starts from the weights of the model that
    /// the recipe names; then writes the recipe into the folder.
    ///
    /// # Errors
    /// [`JobError::Resume`] if the checkpoint does not fit; the folder is then unchanged.
    pub(super) fn resume(&mut self) -> Result<()> {
        let Some(run_dir) = &self.run_dir else {
            return Ok(());
        };
        if run_dir.has_checkpoint()? {
            let (facts, standing) = load_newest(run_dir, &mut self.learner, self.store)?;
            self.check_fits(run_dir, &facts)?;
            if let Some(best) = &facts.best {
                warn_lost_best(run_dir, best.step);
            }
            tracing::info!(step = facts.progress.step, "continuing from a checkpoint");
            self.best = facts.best;
            self.validation_due = facts.validation_due;
            self.pending = facts.pending;
            self.standing = standing;
        } else {
            if run_dir.best().exists() {
                tracing::warn!(
                    "`{}` is there, but no checkpoint to continue from: training begins anew and will replace it",
                    run_dir.best().display()
                );
            }
            if let Some(path) = &self.recipe.training.start_from {
                start_from(path, &mut self.learner, &self.contract)?;
            }
        }
        run_dir.write_recipe(self.recipe)
    }

    /// Rejects a checkpoint with a different step shape, whose nodes held other samples or another share of the ranks,
    /// or whose run would go on by other rules than it began by.
    fn check_fits(&self, run_dir: &RunDir, facts: &CheckpointFacts) -> Result<()> {
        if facts.deal != self.deal {
            let reason = "its nodes held other samples than they do now, or had another part of all ranks, or other boxes taught (labels, or \
                          `detection.pseudo_labels`): stage with the same --per-node and --seed to as many nodes, or begin a new run \
                          with `training.start_from`";
            return Err(refused(run_dir, reason.into()));
        }
        let shape = StepShape {
            ranks: self.step_ranks,
            batch: self.step_batch(),
            steps_per_epoch: self.samples.steps_per_epoch(),
        };
        let reason = match shape.differs(facts, self.recipe.detection.unlabelled_per_batch) {
            None => self.other_rules(facts)?,
            reason => reason,
        };
        reason.map_or(Ok(()), |reason| Err(refused(run_dir, reason)))
    }

    /// Writes a checkpoint atomically; the current one becomes the previous one.
    ///
    /// # Errors
    /// [`JobError::Model`] naming the file.
    pub(super) fn write_checkpoint(&self, run_dir: &RunDir) -> Result<()> {
        let (path, previous) = (&run_dir.checkpoint(), &run_dir.previous_checkpoint());
        let contents = self.state(path)?;
        // The newest checkpoint is only missing while the previous one exists, so a crash between the two renames loses
        // nothing.
        if path.exists() {
            std::fs::rename(path, previous).map_err(DataError::io("rename", path))?;
        }
        contents.write(path)?;
        Ok(())
    }

    /// Broadcasts the first rank's state to all ranks of a team.
    pub(super) fn spread(&mut self, team: &mut Team) -> Result<()> {
        if team.size() == 1 {
            return Ok(());
        }
        let path = Path::new("the first rank's state");
        let mut bytes = Vec::new();
        if team.is_first() {
            bytes = self.state(path)?.encode(path)?;
        }
        team.broadcast(&mut bytes)?;
        if !team.is_first() {
            let file = StoredFile::of_bytes(path, &bytes)?;
            let facts = facts_of(path, &file)?;
            restore(path, &file, &facts, &mut self.learner)?;
            (self.best, self.validation_due) = (facts.best, facts.validation_due);
            self.standing = Standing::load_from(path, &file.facts, &file)?;
        }
        Ok(())
    }

    /// The complete training state: facts, and tensors, which are not copied.
    fn state(&self, path: &Path) -> Result<FileContents<'_>> {
        let learner = &self.learner;
        let mut contents = learner.network.parameters().lend();
        learner.optimizer.lend_to(&mut contents)?;
        if let Some(average) = &learner.average {
            average.lend_to(learner.network.parameters(), &mut contents)?;
        }
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
            for (what, values) in [
                ("gradients", gradients),
                ("statistics", &step.statistics.values),
            ] {
                let name = format!("{PENDING}.{at}.{what}");
                contents.lend(name, &[values.len()], values);
            }
        }
        if !pending.is_empty() {
            let pending = to_json(&pending, path)?;
            contents.facts.insert(PENDING.to_string(), pending);
        }
        let facts = to_json(&self.facts(), path)?;
        contents.facts.insert(FACT.to_string(), facts);
        if let Some(standing) = &self.standing {
            let mut copied = ModelFile::default();
            standing.save_into(&mut copied, path)?;
            contents.take(copied);
        }
        Ok(contents)
    }

    /// The current counters.
    fn facts(&self) -> CheckpointFacts {
        let batch = self.step_batch();
        CheckpointFacts {
            progress: self.learner.progress,
            loss_scale: Some(self.learner.loss_scale),
            best: self.best.clone(),
            validation_due: self.validation_due,
            data_hash: self.store.data_hash().to_string(),
            ranks: (self.step_ranks, batch.samples()),
            unlabelled: Some(batch.unlabelled),
            steps_per_epoch: Some(self.samples.steps_per_epoch()),
            deal: self.deal.clone(),
            rules: rules::NEWEST,
            pending: self.pending.clone(),
            normalisation: (self.recipe.normalised_as())
                .map(|_| self.contract.normalisation.clone()),
        }
    }
}
