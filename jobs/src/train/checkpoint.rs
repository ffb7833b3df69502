//! What training continues from.

use super::Best;
use super::step::{Learner, LearnerProgress};
use crate::error::{JobError, Result};
use crate::metrics::to_json;
use crate::run_dir::RunDir;
use serde::{Deserialize, Serialize};
use squall_data::Store;
use squall_model::ModelFile;
use squall_model::optim::LossScale;
use std::path::Path;

/// The fact under which a checkpoint keeps its counters.
const FACT: &str = "checkpoint";

/// Counters of a checkpoint. The order of samples, augmentation and dropout are pure functions of seed and step, so
/// nothing of them needs saving.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
}

/// Writes a checkpoint, whole or not at all.
///
/// # Errors
/// [`JobError::Model`] naming the file.
pub fn save(path: &Path, learner: &Learner, facts: &CheckpointFacts) -> Result<()> {
    let mut file = ModelFile {
        tensors: learner.network.parameters().to_named()?,
        ..ModelFile::default()
    };
    learner.optimizer.save_into(&mut file);
    file.facts.insert(FACT.to_string(), to_json(facts, path)?);
    file.write(path)?;
    Ok(())
}

/// Takes up a checkpoint.
///
/// # Errors
/// [`JobError::Damaged`] if it is no checkpoint; [`JobError::Model`] if it belongs to another network.
pub fn load(path: &Path, learner: &mut Learner) -> Result<CheckpointFacts> {
    let damaged = |reason: String| JobError::Damaged {
        path: path.to_path_buf(),
        reason,
    };
    let file = ModelFile::read(path)?;
    let facts: CheckpointFacts = serde_json::from_str(file.fact(path, FACT)?)
        .map_err(|error| damaged(format!("checkpoint facts: {error}")))?;
    let parameters = learner.network.parameters_mut();
    parameters.load(path, |name| file.tensor(name))?;
    learner.optimizer.load_from(path, &file)?;
    learner.progress = facts.progress;
    if let Some(scale) = facts.loss_scale {
        learner.loss_scale = scale;
    }
    Ok(facts)
}

/// Takes up the checkpoint if there is one; gives the best validation, and whether one was interrupted.
pub(super) fn resume(
    run: &RunDir,
    learner: &mut Learner,
    store: &Store,
) -> Result<(Option<Best>, bool)> {
    let path = run.checkpoint();
    if !path.exists() {
        return Ok((None, false));
    }
    let facts = load(&path, learner)?;
    if facts.data_hash != store.data_hash() {
        return Err(JobError::Resume {
            folder: run.folder().to_path_buf(),
            reason: format!(
                "it was trained on data with hash {}, `{}` has {}",
                facts.data_hash,
                store.folder().display(),
                store.data_hash()
            ),
        });
    }
    tracing::info!(step = facts.progress.step, "continuing from a checkpoint");
    Ok((facts.best, facts.validation_due))
}
