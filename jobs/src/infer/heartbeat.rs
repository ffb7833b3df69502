//! Heartbeats: whether other ranks are alive while this one waits for them.
//!
//! A rank that finds no mask file left to claim waits for the ranks that are still working. That may take hours, so a
//! long wait does not mean that one of them is dead. Therefore every rank has a thread that writes an increasing number
//! into the rank's file until its work is done, and a waiting rank checks that these numbers increase: the first rank
//! watches all others, and every other rank watches the first.

use super::claims::Claims;
use super::polling::Polling;
use crate::comm::CommError;
use crate::error::Result;
use squall_data::DataError;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between heartbeats.
const COUNT: Duration = Duration::from_secs(5);
/// Longest interval between checks of the files.
const LOOK: Duration = Duration::from_millis(500);
/// A rank without a heartbeat for this long is considered dead: file systems may take minutes to recover.
pub(super) const DEAD_AFTER: Duration = Duration::from_secs(300);
/// Maximum silence that a single check may add. A rank that did not check for longer was itself suspended (by a batch
/// system, say), and so may the others have been. The limit is this high because checking thousands of files on a slow
/// file system takes time, too.
const LONGEST: Duration = Duration::from_secs(60);
/// What a rank writes when its work is done.
const DONE: &str = "done";

/// The file of a rank's heartbeat.
pub(super) fn file_of(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("rank{rank}"))
}

/// The thread that writes this rank's heartbeat, until dropped.
#[derive(Debug)]
pub(super) struct Heartbeat {
    path: PathBuf,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Starts the heartbeat in the folder of these claims; `None` for a single rank.
    ///
    /// # Errors
    /// [`JobError::Data`] if the system cannot start a thread.
    pub fn start(claims: &Claims, rank: usize) -> Result<Option<Self>> {
        let Some(folder) = claims.folder() else {
            return Ok(None);
        };
        let path = file_of(folder, rank);
        let (end, ended) = channel::<()>();
        let counted = path.clone();
        let count = move || {
            for number in 0u64.. {
                write(&counted, &number.to_string());
                if ended.recv_timeout(COUNT) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("squall-alive".into());
        let thread = thread
            .spawn(count)
            .map_err(DataError::io("start a thread for", &path))?;
        Ok(Some(Self {
            path,
            end: Some(end),
            thread: Some(thread),
        }))
    }

    /// Announces that this rank has nothing left to do or to wait for.
    pub fn done(mut self) {
        self.stop();
        write(&self.path, DONE);
    }

    fn stop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes a heartbeat. Errors are ignored: the other ranks consider a rank that cannot write dead, and it could not
/// write its masks either.
fn write(path: &Path, text: &str) {
    if let Err(error) = std::fs::write(path, text) {
        tracing::debug!(%error, path = %path.display(), "not written");
    }
}

/// The ranks whose heartbeats this one watches.
#[derive(Debug)]
pub(super) struct WatchedRanks {
    own: usize,
    /// Those that are not done.
    ranks: Vec<WatchedRank>,
    polling: Polling,
}

/// A rank whose heartbeat is watched.
#[derive(Debug)]
struct WatchedRank {
    rank: usize,
    path: PathBuf,
    /// The last content of its file.
    text: String,
    /// How long the content has been unchanged.
    silent: Duration,
}

impl WatchedRanks {
    /// The ranks, of `size`, that `rank` watches.
    pub fn of(claims: &Claims, rank: usize, size: usize) -> Self {
        let others = match rank {
            0 => 1..size,
            _ => 0..1,
        };
        let folder = claims.folder().into_iter();
        let ranks = folder.flat_map(|folder| {
            let counting = move |rank| WatchedRank {
                rank,
                path: file_of(folder, rank),
                text: String::new(),
                silent: Duration::ZERO,
            };
            others.clone().map(counting)
        });
        Self {
            own: rank,
            ranks: ranks.collect(),
            polling: Polling::slowing_to(LOOK),
        }
    }

    /// Whether all of them are done; reads their files only when a check is due.
    ///
    /// # Errors
    /// [`CommError::Stalled`] naming a rank whose heartbeat has been silent for longer than `limit`.
    pub fn are_done(&mut self, limit: Duration) -> Result<bool> {
        match self.polling.due() {
            Some(since) => self.look(since, limit),
            None => Ok(self.ranks.is_empty()),
        }
    }

    /// Like [`Self::are_done`], but checks now, this long after the last check.
    fn look(&mut self, since: Duration, limit: Duration) -> Result<bool> {
        for other in &mut self.ranks {
            let text = std::fs::read_to_string(&other.path).unwrap_or_default();
            other.silent = match text == other.text {
                true => other.silent + since.min(LONGEST),
                false => Duration::ZERO,
            };
            other.text = text;
        }
        self.ranks.retain(|other| other.text != DONE);
        match self.ranks.iter().find(|other| other.silent > limit) {
            Some(WatchedRank { rank, silent, .. }) => Err(CommError::Stalled {
                rank: self.own,
                doing: format!("inference: rank {rank}, which has mask files to finish,"),
                waited: *silent,
            }
            .into()),
            None => Ok(self.ranks.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::{Communicator, threads};
    use std::time::Instant;

    #[test]
    fn ranks_are_done_alive_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let limit = Duration::from_millis(1500);
        threads::run(threads::ranks(3), |mut comm| {
            let rank = comm.rank();
            let claims = Claims::begin(folder.path(), 1, &mut comm).unwrap();
            // The last rank is dead from the start.
            let heartbeat = (rank < 2).then(|| Heartbeat::start(&claims, rank).unwrap().unwrap());
            comm.barrier().unwrap();
            if rank == 1 {
                heartbeat.unwrap().done();
            }
            comm.barrier().unwrap();
            let mut watched = WatchedRanks::of(&claims, rank, 3);
            let start = Instant::now();
            let found = loop {
                match watched.are_done(limit) {
                    Ok(false) if start.elapsed() < 2 * limit => std::thread::sleep(LOOK / 4),
                    other => break other,
                }
            };
            match rank {
                0 => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.starts_with("rank 0: inference: rank 2, "), "{error}");
                }
                // The first counts too seldom for such a limit, but its first count was news.
                _ => assert!(found.is_err()),
            }
            comm.barrier().unwrap();
        });
    }

    #[test]
    fn a_dead_rank_is_found_however_long_looks_take_and_a_stop_is_no_silence() {
        let folder = tempfile::tempdir().unwrap();
        let path = file_of(folder.path(), 1);
        write(&path, "7");
        let watched = || WatchedRanks {
            own: 0,
            ranks: vec![WatchedRank {
                rank: 1,
                path: path.clone(),
                text: String::new(),
                silent: Duration::ZERO,
            }],
            polling: Polling::slowing_to(LOOK),
        };
        // Thousands of files are read in more time than lies between two counts.
        let slow = 2 * COUNT;
        let mut dead = watched();
        let looks = (0..40).map(|_| dead.look(slow, DEAD_AFTER));
        let found: Vec<Result<bool>> = looks.take_while(Result::is_ok).collect();
        // News, then 300 s in steps of 10 s.
        assert_eq!(found.len(), 31);
        let error = dead.look(slow, DEAD_AFTER).unwrap_err().to_string();
        assert!(error.starts_with("rank 0: inference: rank 1, "), "{error}");
        // One that counts is alive.
        let mut alive = watched();
        for number in 0..40 {
            write(&path, &number.to_string());
            assert!(!alive.look(slow, DEAD_AFTER).unwrap());
        }
        // The whole job was stopped for an hour: others have not counted, either.
        assert!(!alive.look(Duration::from_secs(3600), DEAD_AFTER).unwrap());
    }

    #[test]
    fn a_single_rank_waits_for_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::begin(folder.path(), 1, &mut crate::comm::Solo::new()).unwrap();
        assert!(Heartbeat::start(&claims, 0).unwrap().is_none());
        assert!(WatchedRanks::of(&claims, 0, 1).are_done(LOOK).unwrap());
    }
}
