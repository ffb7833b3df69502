//! A file by which one rank asks all others of a call to stop.

use super::polling::Polling;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the file, in the folder of claims.
const STOP: &str = "stop";
/// Longest polling interval.
const LOOK: Duration = Duration::from_secs(1);

/// Sends stop requests to all ranks of a call, and receives them.
#[derive(Debug)]
pub(super) struct StopSignal {
    /// `None` for a single rank.
    path: Option<PathBuf>,
    polling: Polling,
    seen: bool,
    send_when_dropped: bool,
}

impl StopSignal {
    /// The signal shared by the ranks with this folder of claims; inactive for a single rank.
    pub fn within(claims: Option<&Path>) -> Self {
        Self {
            path: claims.map(|folder| folder.join(STOP)),
            polling: Polling::slowing_to(LOOK),
            seen: false,
            send_when_dropped: false,
        }
    }

    /// Sends the signal when dropped, so that a panic of this rank stops the others, too.
    pub fn armed(mut self) -> Self {
        self.send_when_dropped = true;
        self
    }

    /// Undoes [`Self::armed`].
    pub fn disarm(&mut self) {
        self.send_when_dropped = false;
    }

    /// Sends the request, which the others notice within a second; returns whether it could be sent.
    pub fn send(&self) -> bool {
        let Some(path) = &self.path else {
            return true;
        };
        let sent = std::fs::write(path, b"");
        if let Err(error) = &sent {
            tracing::warn!(%error, "the other ranks cannot be told to stop");
        }
        sent.is_ok()
    }

    /// Whether any rank has sent it; accesses the file system only when a poll is due.
    pub fn is_sent(&mut self) -> bool {
        if let Some(path) = &self.path
            && !self.seen
            && self.polling.due().is_some()
        {
            self.seen = path.exists();
        }
        self.seen
    }
}

impl Drop for StopSignal {
    fn drop(&mut self) {
        if self.send_when_dropped {
            self.send();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::claims::Claims;
    use crate::comm::{Communicator, Solo, threads};

    #[test]
    fn a_signal_that_cannot_be_sent_says_so() {
        let folder = tempfile::tempdir().unwrap();
        threads::run(threads::ranks(2), |mut comm| {
            let claims = Claims::begin(folder.path(), 1, &mut comm).unwrap();
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                assert!(claims.stop_signal().send());
                claims.end().unwrap();
                assert!(!claims.stop_signal().send());
            }
        });
        let alone = Claims::begin(folder.path(), 1, &mut Solo::new()).unwrap();
        assert!(alone.stop_signal().send());
    }

    #[test]
    fn an_armed_signal_is_sent_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let seen = threads::run(threads::ranks(2), |mut comm| {
            let claims = Claims::begin(folder.path(), 1, &mut comm).unwrap();
            if comm.rank() == 0 {
                drop(claims.stop_signal().armed());
            }
            comm.barrier().unwrap();
            claims.stop_signal().is_sent()
        });
        assert_eq!(seen, [true, true]);
        let alone = Claims::begin(folder.path(), 1, &mut Solo::new()).unwrap();
        drop(alone.stop_signal().armed());
        assert!(!alone.stop_signal().is_sent());
    }
}
