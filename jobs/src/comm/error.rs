//! Errors of communication between ranks.

use std::time::Duration;

/// Result of communication.
pub type Result<T> = std::result::Result<T, CommError>;

/// A failure between ranks; every variant names the rank that saw it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// Another rank is gone: its process ended or it gave up.
    #[error("rank {rank}: rank {peer} is gone during {doing}")]
    Gone {
        /// The rank that noticed.
        rank: usize,
        /// The rank that is gone.
        peer: usize,
        /// The operation in progress.
        doing: String,
    },
    /// No progress for too long.
    #[error("rank {rank}: {doing} has not advanced for {:.1} s", waited.as_secs_f64())]
    Stalled {
        /// The rank that noticed.
        rank: usize,
        /// The operation in progress, with bucket and step if applicable.
        doing: String,
        /// How long it waited.
        waited: Duration,
    },
    /// Ranks differ in something that must be identical.
    #[error("rank {rank}: {what} differs between ranks: {reason}")]
    Differs {
        /// The rank that reports it.
        rank: usize,
        /// Recipe, data, code, a tensor.
        what: String,
        /// Which ranks, and how.
        reason: String,
    },
    /// A message or a buffer has an unexpected size.
    #[error("rank {rank}: {what}: expected {expected}, got {got}")]
    Size {
        /// The rank that noticed.
        rank: usize,
        /// The message or buffer.
        what: String,
        /// The expected size.
        expected: usize,
        /// The actual size.
        got: usize,
    },
    /// Ranks cannot be arranged as requested.
    #[error("{0}")]
    Layout(String),
    /// The underlying library failed.
    #[error("rank {rank}: {call} failed: {reason}")]
    Library {
        /// The rank that noticed.
        rank: usize,
        /// The function of the library.
        call: &'static str,
        /// The library's message.
        reason: String,
    },
}

impl CommError {
    /// The error when this many values in GPU memory are passed to an engine that sums in host memory.
    pub(crate) fn lent_to_the_host(values: usize) -> Self {
        Self::Layout(format!(
            "{values} values on a GPU given to what sums in host memory"
        ))
    }

    /// The error when the system cannot start a thread.
    pub(crate) fn no_thread(rank: usize) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Library {
            rank,
            call: "std::thread::spawn",
            reason: error.to_string(),
        }
    }
}

/// Rejects a peer outside of `0..size`.
///
/// # Errors
/// [`CommError::Layout`].
pub(super) fn check_peer(rank: usize, peer: usize, size: usize) -> Result<()> {
    if peer < size {
        return Ok(());
    }
    Err(CommError::Layout(format!(
        "rank {rank}: there is no rank {peer} among {size}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_read_them() {
        let stall = CommError::Stalled {
            rank: 1,
            doing: "a barrier".into(),
            waited: Duration::from_nanos(6_541_151_808),
        };
        assert_eq!(
            stall.to_string(),
            "rank 1: a barrier has not advanced for 6.5 s"
        );
    }
}
