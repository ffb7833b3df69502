//! The errors of training and inference.

use crate::comm::{CommError, Communicator, agree};
use rustix::io::Errno;
use squall_data::DataError;
use squall_model::ModelError;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, JobError>;

/// Every error that a recipe, a file, a device or numerical values can cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The recipe is invalid.
    #[error("bad recipe{}: {reason}", path.as_ref().map_or(String::new(), |p| format!(" `{}`", p.display())))]
    Recipe {
        /// The file, if it came from one.
        path: Option<PathBuf>,
        /// Line, key, what is wrong and what would be right.
        reason: String,
        /// Whether the recipe was changed but still has a key that does not apply to its new network.
        keeps_foreign_key: bool,
    },
    /// Settings of a recipe that the grid of its store does not allow.
    #[error("bad recipe for a store on {grid}: {}", not_allowed(settings))]
    Grid {
        /// A description of the grid.
        grid: String,
        /// Keys that must be false, each with what the grid does not do.
        settings: Vec<(&'static str, &'static str)>,
    },
    /// A machine description is invalid.
    #[error("bad machine `{name}`: {reason}")]
    Machine {
        /// Its name or file.
        name: String,
        /// Line, key, what is wrong and what would be right.
        reason: String,
    },
    /// A job that the machine or its batch system does not support.
    #[error("`{option}`: expected {expected}, found {found}")]
    Submit {
        /// The option of the command, or the key of the machine's file.
        option: &'static str,
        /// The allowed values.
        expected: String,
        /// The requested value.
        found: String,
    },
    /// A model cannot be used on this input.
    #[error("the model `{}` does not fit its input:\n  {}", model.display(), reasons.join("\n  "))]
    Contract {
        /// The model file.
        model: PathBuf,
        /// One sentence for each disagreement.
        reasons: Vec<String>,
    },
    /// Training cannot start from the weights of a model.
    #[error("cannot start from the model `{}`: {reason}", model.display())]
    StartFrom {
        /// The model file.
        model: PathBuf,
        /// What differs.
        reason: String,
    },
    /// Models whose outputs cannot be averaged.
    #[error("the models {} do not go together: {reason}", quoted(models))]
    Ensemble {
        /// The model files.
        models: Vec<PathBuf>,
        /// Why not.
        reason: String,
    },
    /// A model file without a usable contract.
    #[error("`{}` is no model file of Squall: {reason}", path.display())]
    NoContract {
        /// The model file.
        path: PathBuf,
        /// What is missing or unreadable.
        reason: String,
    },
    /// Weights of a model are NaN or infinite.
    #[error("the model `{}` cannot be used: {count} values of `{tensor}` are NaN or infinite", model.display())]
    Weights {
        /// The model file.
        model: PathBuf,
        /// The first tensor with non-finite values.
        tensor: String,
        /// The number of its non-finite values.
        count: usize,
    },
    /// A network outputs NaN or infinities: its computation overflowed.
    #[error("the output of the model `{}` at {time}{} is not finite at {points} points", model.display(), origin.as_ref().map_or(String::new(), |file| format!(" ({file})")))]
    NotFinite {
        /// The model file.
        model: PathBuf,
        /// The time of the fields.
        time: String,
        /// The files of the fields, if they are known.
        origin: Option<String>,
        /// Number of affected pixels of a mask or cells of a detector.
        points: usize,
    },
    /// Another process writes to the folder.
    #[error("`{}` is in use by another process{}", folder.display(), holder.as_ref().map_or(String::new(), |h| format!(" ({h})")))]
    Locked {
        /// The run's or the output's folder.
        folder: PathBuf,
        /// Process and machine, if the lock file names them.
        holder: Option<String>,
    },
    /// The output folder is not the same folder on all ranks.
    #[error("rank {rank} cannot write into `{}`, which the first rank made for all: {source}", folder.display())]
    NotShared {
        /// The rank.
        rank: usize,
        /// The output's folder.
        folder: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A run cannot be continued with these settings.
    #[error("cannot continue the run in `{}`: {reason}", folder.display())]
    Resume {
        /// The run's folder.
        folder: PathBuf,
        /// What changed.
        reason: String,
    },
    /// The loss or the gradients are no longer finite.
    #[error("training diverged at step {step}: {reason}")]
    Diverged {
        /// Steps done before.
        step: u64,
        /// What happened, over how many steps.
        reason: String,
    },
    /// The machine has too little memory for the run.
    #[error("training needs {:.1} GB of memory, {:.1} GB are to be had{}", *needed as f64 / 1e9, *available as f64 / 1e9, match ranks { 1 => String::new(), _ => format!(" for each of {ranks} ranks that share a memory") })]
    Memory {
        /// Predicted peak memory in bytes; if the network's values alone do not fit, their size.
        needed: u64,
        /// Bytes that the process may use.
        available: u64,
        /// Ranks that share the machine's memory.
        ranks: u64,
        /// Settings that would fit, as command-line options, smallest change first.
        fits: Vec<String>,
    },
    /// Inference does not fit into the memory limit with any number of strips.
    #[error("inference needs at least {:.2} GB of memory, {:.2} GB are to be had{}", *needed as f64 / 1e9, *available as f64 / 1e9, batch.map_or(String::new(), |batch| format!("; a batch of {batch} would fit")))]
    Strips {
        /// Predicted peak memory in bytes, for the most economical number of strips.
        needed: u64,
        /// The memory limit in bytes.
        available: u64,
        /// A smaller batch that would fit, if there is one.
        batch: Option<std::num::NonZeroUsize>,
    },
    /// A file of this crate has invalid contents.
    #[error("`{}` is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line or key, and what is wrong.
        reason: String,
    },
    /// A worker thread ended without a result.
    #[error("the {0} thread panicked: this is a bug")]
    Thread(&'static str),
    /// Ranks could not communicate, or disagree.
    #[error("{0}")]
    Comm(CommError),
    /// Ranks no longer hold the same parameters.
    #[error("{0}, although they began alike: what was learnt since the last check is of no use")]
    Apart(CommError),
    /// This rank and its group cannot continue; other groups take over their steps. The process must retire
    /// ([`crate::train::Team::retire`]), because exiting would end the job.
    #[error("this rank gives up, and its group with it; the other groups go on")]
    GaveUp(#[source] Box<JobError>),
    /// All groups are lost, and each of their ranks has reported why; `left` describes the unfinished work.
    #[error("no group is left {0}")]
    NoGroup(String),
    /// Another rank of the job failed and reports the reason.
    #[error("another rank failed; its own message says why")]
    Elsewhere,
    /// Reading or writing data failed.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The network failed.
    #[error(transparent)]
    Model(ModelError),
}

/// Formats keys that must be false for a sentence.
fn not_allowed(settings: &[(&str, &str)]) -> String {
    let settings: Vec<String> = (settings.iter())
        .map(|(key, reason)| format!("`{key}`: expected false, found true, and the grid {reason}"))
        .collect();
    settings.join("; ")
}

/// Formats paths for a sentence.
fn quoted(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = (paths.iter())
        .map(|path| format!("`{}`", path.display()))
        .collect();
    paths.join(" and ")
}

impl JobError {
    /// An invalid recipe whose file is unknown.
    pub(crate) fn recipe(reason: String) -> Self {
        Self::Recipe {
            path: None,
            reason,
            keeps_foreign_key: false,
        }
    }

    /// Whether the bytes of a file may be at fault, rather than access to it, this process, its device or the use of
    /// the file. Only the listed errors qualify, because treating a checkpoint as damaged costs the run the steps since
    /// the previous one.
    pub(crate) fn may_be_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Model(error) => match error {
                ModelError::Io { source, .. } => is_lost(source),
                ModelError::File { .. }
                | ModelError::MissingWeight { .. }
                | ModelError::WeightShape { .. } => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// A file with invalid contents.
    pub(crate) fn damaged(path: impl Into<PathBuf>, reason: impl std::fmt::Display) -> Self {
        Self::Damaged {
            path: path.into(),
            reason: reason.to_string(),
        }
    }
}

/// Whether a file, or a part of it, is gone: after a crash between two renames, or because its blocks are unreadable.
fn is_lost(source: &std::io::Error) -> bool {
    let is_short = [ErrorKind::NotFound, ErrorKind::UnexpectedEof].contains(&source.kind());
    let of_blocks = [
        Errno::IO,
        Errno::NODATA,
        Errno::ILSEQ,
        Errno::BADMSG,
        Errno::UCLEAN,
    ];
    is_short || Errno::from_io_error(source).is_some_and(|error| of_blocks.contains(&error))
}

/// Whether access to a file failed rather than the file itself: a server is down, or a parallel file system has evicted
/// this machine for a while.
#[must_use]
pub fn is_away(source: &std::io::Error) -> bool {
    let of_network = [
        ErrorKind::StaleNetworkFileHandle,
        ErrorKind::TimedOut,
        ErrorKind::NotConnected,
        ErrorKind::HostUnreachable,
        ErrorKind::NetworkUnreachable,
        ErrorKind::NetworkDown,
    ];
    // Lustre's error code, which Rust has no name for.
    let is_shut_out = Errno::from_io_error(source) == Some(Errno::SHUTDOWN);
    is_shut_out || of_network.contains(&source.kind())
}

impl From<candle_core::Error> for JobError {
    fn from(error: candle_core::Error) -> Self {
        Self::Model(error.into())
    }
}

impl From<ModelError> for JobError {
    /// If ranks could not normalise together, the cause: for the others this is like any failure between ranks.
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::BatchNormRanks(source) => match source.downcast::<CommError>() {
                Ok(between_ranks) => Self::Comm(*between_ranks),
                Err(source) => Self::Model(ModelError::BatchNormRanks(source)),
            },
            other => Self::Model(other),
        }
    }
}

impl From<CommError> for JobError {
    fn from(error: CommError) -> Self {
        Self::Comm(error)
    }
}

/// Returns this rank's result if no rank failed. All ranks call it.
///
/// # Errors
/// This rank's own; [`JobError::Elsewhere`] if another failed; [`JobError::Comm`].
pub(crate) fn all_or_none<T>(comm: &mut dyn Communicator, got: Result<T>) -> Result<T> {
    let failed = agree::any(comm, got.is_err())?;
    match got {
        Ok(_) if failed => Err(JobError::Elsewhere),
        got => got,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a checkpoint that is damaged a run goes on from the one before, and loses what lies between.
    #[test]
    fn a_file_system_that_is_away_damages_no_file() {
        let read = |source: std::io::Error| {
            JobError::from(ModelError::Io {
                action: "read",
                path: "checkpoint.safetensors".into(),
                source,
            })
        };
        for away in [Errno::STALE, Errno::TIMEDOUT, Errno::SHUTDOWN] {
            assert!(!read(away.into()).may_be_damage(), "{away}");
        }
        // Nor does a process that may not read it, or not now.
        for own in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ACCESS] {
            assert!(!read(own.into()).may_be_damage(), "{own}");
        }
        let of_another = JobError::from(ModelError::Task {
            network: "cgnet".into(),
            gives: "masks",
            asked: "boxes",
        });
        assert!(!of_another.may_be_damage());
        // A disk that cannot read its own sectors any more; a crash between two renames.
        for lost in [Errno::IO, Errno::BADMSG, Errno::NOENT] {
            assert!(read(lost.into()).may_be_damage(), "{lost}");
        }
        assert!(read(ErrorKind::UnexpectedEof.into()).may_be_damage());
        let cut = JobError::from(ModelError::File {
            path: "checkpoint.safetensors".into(),
            reason: "cut".into(),
        });
        assert!(cut.may_be_damage());
    }
}
