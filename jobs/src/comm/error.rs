//! What can go wrong between ranks.

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
        /// Who saw it.
        rank: usize,
        /// Who is gone.
        peer: usize,
        /// The operation under way.
        doing: String,
    },
    /// There was no progress for too long.
    #[error("rank {rank}: {doing} has not advanced for {:.1} s", waited.as_secs_f64())]
    Stalled {
        /// Who saw it.
        rank: usize,
        /// The operation under way, with bucket and step where there is one.
        doing: String,
        /// How long.
        waited: Duration,
    },
    /// Ranks disagree on something that must be the same on all.
    #[error("rank {rank}: {what} differs between ranks: {reason}")]
    Differs {
        /// Who says so.
        rank: usize,
        /// Recipe, data, code, a tensor.
        what: String,
        /// Which ranks, and how.
        reason: String,
    },
    /// A message or a buffer has another size than expected.
    #[error("rank {rank}: {what}: expected {expected}, got {got}")]
    Size {
        /// Who saw it.
        rank: usize,
        /// What has a size.
        what: String,
        /// What would be right.
        expected: usize,
        /// What was found.
        got: usize,
    },
    /// Ranks cannot be arranged as asked.
    #[error("{0}")]
    Layout(String),
    /// The library under it failed.
    #[error("rank {rank}: {call} failed: {reason}")]
    Library {
        /// Who saw it.
        rank: usize,
        /// The function of the library.
        call: &'static str,
        /// In the library's words.
        reason: String,
    },
}

impl CommError {
    /// That so many values on a GPU were given to what sums in host memory.
    pub(crate) fn lent_to_the_host(values: usize) -> Self {
        Self::Layout(format!(
            "{values} values on a GPU given to what sums in host memory"
        ))
    }

    /// That the system gave this rank no thread.
    pub(crate) fn no_thread(rank: usize) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Library {
            rank,
            call: "std::thread::spawn",
            reason: error.to_string(),
        }
    }
}

/// Refuses a peer that is none of so many ranks.
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
