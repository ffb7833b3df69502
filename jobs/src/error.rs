//! What can stop a training or an inference.

use crate::comm::{CommError, Communicator, agree};
use rustix::io::Errno;
use squall_data::DataError;
use squall_model::ModelError;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, JobError>;

/// Everything that a recipe, a file, a device or numbers can cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A recipe that cannot be used.
    #[error("bad recipe{}: {reason}", path.as_ref().map_or(String::new(), |p| format!(" `{}`", p.display())))]
    Recipe {
        /// The file, if it came from one.
        path: Option<PathBuf>,
        /// Line, key, what is wrong and what would be right.
        reason: String,
        /// Whether the recipe was changed, and has a key that says nothing about the network that it then has.
        keeps_foreign_key: bool,
    },
    /// A description of a machine that cannot be used.
    #[error("bad machine `{name}`: {reason}")]
    Machine {
        /// Its name or file.
        name: String,
        /// Line, key, what is wrong and what would be right.
        reason: String,
    },
    /// A job that a machine or its batch system cannot have.
    #[error("`{option}`: expected {expected}, found {found}")]
    Submit {
        /// The option of the command, or the key of the machine's file.
        option: &'static str,
        /// What it may be there.
        expected: String,
        /// What was asked for.
        found: String,
    },
    /// A model cannot be used on these data.
    #[error("the model `{}` does not fit its input:\n  {}", model.display(), reasons.join("\n  "))]
    Contract {
        /// The model file.
        model: PathBuf,
        /// One sentence for each disagreement.
        reasons: Vec<String>,
    },
    /// A training cannot begin with the weights of a model.
    #[error("cannot start from the model `{}`: {reason}", model.display())]
    StartFrom {
        /// The model file.
        model: PathBuf,
        /// What is another one.
        reason: String,
    },
    /// Models whose answers cannot be averaged.
    #[error("the models {} do not go together: {reason}", quoted(models))]
    Ensemble {
        /// The model files.
        models: Vec<PathBuf>,
        /// Why their answers have no mean.
        reason: String,
    },
    /// A model file without a usable contract.
    #[error("`{}` is no model file of Squall: {reason}", path.display())]
    NoContract {
        /// The model file.
        path: PathBuf,
        /// What is missing or cannot be read.
        reason: String,
    },
    /// Weights of a model are NaN or infinite.
    #[error("the model `{}` cannot be used: {count} values of `{tensor}` are NaN or infinite", model.display())]
    Weights {
        /// The model file.
        model: PathBuf,
        /// The first tensor that has such values.
        tensor: String,
        /// How many of its values.
        count: usize,
    },
    /// A network gives NaN or infinities: what it computes with overflowed.
    #[error("the output of the model `{}` at {time}{} is not finite at {points} points", model.display(), origin.as_ref().map_or(String::new(), |file| format!(" ({file})")))]
    NotFinite {
        /// The model file.
        model: PathBuf,
        /// The time of the fields.
        time: String,
        /// The files of the fields, if they are known.
        origin: Option<String>,
        /// Pixels of a mask, and cells of a detector.
        points: usize,
    },
    /// Another process writes to the folder.
    #[error("`{}` is in use by another process{}", folder.display(), holder.as_ref().map_or(String::new(), |h| format!(" ({h})")))]
    Locked {
        /// The run's or the output's folder.
        folder: PathBuf,
        /// Process and machine, if the lock file says so.
        holder: Option<String>,
    },
    /// A folder that all ranks write to is not one and the same for them.
    #[error("rank {rank} cannot write into `{}`, which the first rank made for all: {source}", folder.display())]
    NotShared {
        /// The rank.
        rank: usize,
        /// The output's folder.
        folder: PathBuf,
        /// What the system says.
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
    /// The loss or the gradients are not finite any more.
    #[error("training diverged at step {step}: {reason}")]
    Diverged {
        /// Steps done before.
        step: u64,
        /// What was seen, over how many steps.
        reason: String,
    },
    /// The machine has too little memory for the run.
    #[error("training needs {:.1} GB of memory, {:.1} GB are to be had{}", *needed as f64 / 1e9, *available as f64 / 1e9, match ranks { 1 => String::new(), _ => format!(" for each of {ranks} ranks that share a memory") })]
    Memory {
        /// Bytes at the peak, predicted; of a network whose values alone do not fit, those of the values.
        needed: u64,
        /// Bytes that the process may hold.
        available: u64,
        /// Ranks that share the machine's memory.
        ranks: u64,
        /// Settings that would fit, as options of the command line; the one that changes least first.
        fits: Vec<String>,
    },
    /// Inference does not fit into the memory that it was given, in however many strips.
    #[error("inference needs at least {:.2} GB of memory, {:.2} GB are to be had{}", *needed as f64 / 1e9, *available as f64 / 1e9, batch.map_or(String::new(), |batch| format!("; a batch of {batch} would fit")))]
    Strips {
        /// Bytes at the peak, predicted, for the number of strips that needs least.
        needed: u64,
        /// Bytes that it may hold.
        available: u64,
        /// A smaller batch that would fit, if there is one.
        batch: Option<std::num::NonZeroUsize>,
    },
    /// A file of this crate holds what it should not.
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
    /// Ranks could not talk to each other, or disagree.
    #[error("{0}")]
    Comm(CommError),
    /// Ranks that had the same parameters have them no longer.
    #[error("{0}, although they began alike: what was learnt since the last check is of no use")]
    Apart(CommError),
    /// This rank cannot go on, and its group with it; other groups do its steps. Its process is to retire
    /// ([`crate::train::Team::retire`]): the job would end with it.
    #[error("this rank gives up, and its group with it; the other groups go on")]
    GaveUp(#[source] Box<JobError>),
    /// All groups are lost, each of whose ranks said why itself, and there is something left to do: what follows `left`.
    #[error("no group is left {0}")]
    NoGroup(String),
    /// Another rank of the job failed, and says why itself.
    #[error("another rank failed; its own message says why")]
    Elsewhere,
    /// Reading or writing data failed.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The network failed.
    #[error(transparent)]
    Model(ModelError),
}

/// Paths in a sentence.
fn quoted(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = (paths.iter())
        .map(|path| format!("`{}`", path.display()))
        .collect();
    paths.join(" and ")
}

impl JobError {
    /// A recipe that cannot be used, where its file is not known.
    pub(crate) fn recipe(reason: String) -> Self {
        Self::Recipe {
            path: None,
            reason,
            keeps_foreign_key: false,
        }
    }

    /// Whether it may be the bytes of a file that are wrong, and not the way to them, this process or its device, or what
    /// they are for. Only what is listed: of a checkpoint that is damaged a run loses the steps since the one before.
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

    /// A file that holds what it should not.
    pub(crate) fn damaged(path: impl Into<PathBuf>, reason: impl std::fmt::Display) -> Self {
        Self::Damaged {
            path: path.into(),
            reason: reason.to_string(),
        }
    }
}

/// Whether a file, or a part of it, is gone: after a crash between two renames, or from a disk or file system that cannot
/// read its own blocks any more.
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

/// Whether the way to a file failed and not the file: a server is away, or a parallel file system has shut this machine
/// out for a while.
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
    // Lustre's word for it, which Rust has no name for.
    let is_shut_out = Errno::from_io_error(source) == Some(Errno::SHUTDOWN);
    is_shut_out || of_network.contains(&source.kind())
}

impl From<candle_core::Error> for JobError {
    fn from(error: candle_core::Error) -> Self {
        Self::Model(error.into())
    }
}

impl From<ModelError> for JobError {
    /// Where ranks could not normalise together, what kept them from it: to others that is as any failure between ranks.
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

/// What this rank got, if no rank failed. All ranks call it.
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
