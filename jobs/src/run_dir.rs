//! The folder of a training run.

use crate::error::{JobError, Result};
use crate::lock::FolderLock;
use crate::recipe::Recipe;
use squall_data::{DataError, atomic};
use std::path::{Path, PathBuf};

/// A run's folder, locked by one process.
///
/// ```text
/// RUN/best.safetensors         the model with the best validation score so far
/// RUN/last.safetensors         the model of the last checkpoint
/// RUN/checkpoint.safetensors   everything that training continues from
/// RUN/checkpoint.previous.safetensors   the one before, for the case that a disk damages the newest
/// RUN/recipe.toml              the resolved recipe
/// RUN/run.json                 code version, all builds that trained, data: what the numbers depend on besides the recipe
/// RUN/metrics.jsonl            losses and scores; the same bytes whether or not the run was interrupted
/// RUN/timing.jsonl             seconds
/// RUN/events.out.tfevents.*    for TensorBoard
/// ```
#[derive(Debug)]
pub struct RunDir {
    folder: PathBuf,
    _lock: FolderLock,
}

impl RunDir {
    /// Locks the folder, creating it if needed.
    ///
    /// # Errors
    /// [`JobError::Locked`] if another process trains there; [`JobError::Data`].
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let lock = FolderLock::take(&folder)?;
        atomic::sweep(&folder, |_| true)?;
        Ok(Self {
            _lock: lock,
            folder,
        })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The best model so far.
    pub fn best(&self) -> PathBuf {
        self.folder.join("best.safetensors")
    }

    /// The model of the last checkpoint.
    pub fn last(&self) -> PathBuf {
        self.folder.join("last.safetensors")
    }

    /// The checkpoint from which training resumes.
    pub fn checkpoint(&self) -> PathBuf {
        let [newest, _] = Self::checkpoints_of(&self.folder);
        newest
    }

    /// The checkpoint before the newest.
    pub(crate) fn previous_checkpoint(&self) -> PathBuf {
        let [_, previous] = Self::checkpoints_of(&self.folder);
        previous
    }

    /// Whether there is a checkpoint to resume from.
    ///
    /// # Errors
    /// [`JobError::Data`] if the file system does not answer: a run started afresh would overwrite what is there.
    pub(crate) fn has_checkpoint(&self) -> Result<bool> {
        for path in Self::checkpoints_of(&self.folder) {
            if path.try_exists().map_err(DataError::io("read", &path))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The newest and the previous checkpoint of a run, by its folder, without opening the run.
    pub(crate) fn checkpoints_of(folder: &Path) -> [PathBuf; 2] {
        ["checkpoint.safetensors", "checkpoint.previous.safetensors"].map(|name| folder.join(name))
    }

    /// Losses and scores.
    pub fn metrics(&self) -> PathBuf {
        Self::metrics_of(&self.folder)
    }

    /// The metrics file of a run, by its folder, without opening the run.
    pub fn metrics_of(folder: &Path) -> PathBuf {
        folder.join("metrics.jsonl")
    }

    /// Seconds.
    pub fn timing(&self) -> PathBuf {
        self.folder.join("timing.jsonl")
    }

    /// The resolved recipe.
    pub fn recipe(&self) -> PathBuf {
        self.folder.join("recipe.toml")
    }

    /// Code version, backend, data.
    pub fn facts(&self) -> PathBuf {
        self.folder.join("run.json")
    }

    /// Fails if the folder holds a run whose recipe gives other results, even one that cannot go on because its checkpoints
    /// were deleted: its model would be replaced. Such a run begins anew, so the model that it starts from and the data,
    /// of this hash, must be those of before, too; with a checkpoint the data are compared with it.
    ///
    /// Time limits and saving intervals may change between parts of a run ([`Recipe::changes_of_result`]); its length
    /// may not, because schedules depend on it.
    ///
    /// # Errors
    /// [`JobError::Resume`] naming what changed; [`JobError::Recipe`] if the recipe there cannot be read.
    pub(crate) fn check_recipe(&self, recipe: &Recipe, data_hash: &str) -> Result<()> {
        let path = self.recipe();
        let goes_on = self.has_checkpoint()?;
        let has_model = self.best().exists() && path.exists();
        if !goes_on && !has_model {
            return Ok(());
        }
        if !path.exists() {
            tracing::warn!(
                "`{}` is not there: whether the run began with this recipe cannot be checked",
                path.display()
            );
            return Ok(());
        }
        let there = Recipe::read(&path, &[])?;
        let mut changed = recipe.changes_of_result(&there);
        if !goes_on {
            let starts = [&there, recipe].map(|recipe| recipe.training.start_from.as_deref());
            changed.extend(changed_start(starts));
            changed.extend(self.changed_data(data_hash));
        }
        if changed.is_empty() {
            return Ok(());
        }
        let changed = changed.join("; ");
        let reason = if goes_on {
            format!(
                "its recipe differs ({changed}); use a new folder for a new recipe, with `--set training.start_from={}` if it is to \
                 begin with what was learnt",
                self.last().display()
            )
        } else {
            format!(
                "its recipe or data differ ({changed}), and its model would be replaced; use a new folder for a new run, or delete `{}` if \
                 nobody needs it",
                self.best().display()
            )
        };
        Err(JobError::Resume {
            folder: self.folder.clone(),
            reason,
        })
    }

    /// What differs if the run there was trained on data of another hash; `None` if it does not say on which.
    fn changed_data(&self, data_hash: &str) -> Option<String> {
        let text = std::fs::read(self.facts()).ok()?;
        let facts: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let before = facts["data_hash"].as_str()?;
        (before != data_hash).then(|| format!("the data had hash {before}, have {data_hash}"))
    }

    /// Writes the resolved recipe of a run that starts, or that may resume.
    ///
    /// # Errors
    /// [`JobError::Data`].
    pub(crate) fn write_recipe(&self, recipe: &Recipe) -> Result<()> {
        Ok(atomic::write(self.recipe(), recipe.to_toml().as_bytes())?)
    }
}

/// What differs if a run started from another model before than it does now.
fn changed_start([before, now]: [Option<&Path>; 2]) -> Option<String> {
    let text =
        |path: Option<&Path>| path.map_or("nothing".to_string(), |path| path.display().to_string());
    (before != now).then(|| {
        format!(
            "`training.start_from` was {}, is {}",
            text(before),
            text(now)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run began anew where the file system did not say what was there, and replaced it with its first checkpoints.
    #[test]
    fn a_checkpoint_that_cannot_be_asked_for_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::open(folder.path()).unwrap();
        assert!(!run.has_checkpoint().unwrap());
        std::fs::write(run.previous_checkpoint(), "bytes").unwrap();
        assert!(run.has_checkpoint().unwrap());
        // A link to itself stands in for a server that is away: nobody knows what is behind it.
        let newest = run.checkpoint();
        std::os::unix::fs::symlink(&newest, &newest).unwrap();
        let error = run.has_checkpoint().unwrap_err().to_string();
        assert!(error.contains("checkpoint.safetensors"), "{error}");
    }
}
