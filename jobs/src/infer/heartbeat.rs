//! Heartbeats: whether other ranks are alive while this one waits for them.
//!
//! A rank that finds no mask file left to claim waits for the ranks that are still working. That may take hours, so a
//! long wait does not mean that one of them is dead. Therefore every rank has a thread that writes an increasing number
//! into the rank's file until its work is done, and a waiting rank checks that these numbers increase: the first rank
//! watches all others, and every other rank watches the first. Beside the number stands how far the rank's work is,
//! because this thread lives on while another one is stuck.

use super::claims::Claims;
use super::polling::Polling;
use super::work::{Standing, Work};
use crate::comm::CommError;
use crate::error::Result;
use squall_data::DataError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between heartbeats.
const COUNT: Duration = Duration::from_secs(5);
/// Longest interval between checks of the files.
const LOOK: Duration = Duration::from_millis(500);
/// A rank without a heartbeat for this long is considered dead: file systems may take minutes to recover.
const DEAD_AFTER: Duration = Duration::from_secs(300);
/// Maximum silence that a single check may add. A rank that did not check for longer was itself suspended (by a batch
/// system, say), and so may the others have been. The limit is this high because checking thousands of files on a slow
/// file system takes time, too.
const LONGEST: Duration = Duration::from_secs(60);
/// What a rank writes when its work is done.
const DONE: &str = "done";
/// A rank whose work stands still is named after this fraction (one in ...) of its limit.
const NAMED_AFTER: u32 = 10;
/// A rank without a heartbeat is named after this fraction (one in ...) of its limit, for longer than a single check may
/// add: a job that was suspended is not warned of.
const SILENT_NAMED_AFTER: u32 = 3;

/// How long other ranks may stand still.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Without a heartbeat.
    silent: Duration,
    /// With heartbeats, but without progress of their work.
    idle: Duration,
    /// Predictions of a batch, each of which may take that long.
    members: u32,
}

impl Limits {
    /// Those of an ensemble of so many members if work may stand still for `stalled_after`; at least as long as a rank
    /// may be silent.
    pub fn new(stalled_after: Duration, members: usize) -> Self {
        Self {
            silent: DEAD_AFTER,
            idle: stalled_after.max(DEAD_AFTER),
            members: u32::try_from(members).unwrap_or(u32::MAX),
        }
    }
}

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
    /// Starts the heartbeat of a rank with this work in the folder of these claims; `None` for a single rank.
    ///
    /// # Errors
    /// [`JobError::Data`] if the system cannot start a thread.
    pub fn start(claims: &Claims, rank: usize, work: Arc<Work>) -> Result<Option<Self>> {
        let Some(folder) = claims.folder() else {
            return Ok(None);
        };
        let path = file_of(folder, rank);
        let (end, ended) = channel::<()>();
        let counted = path.clone();
        let count = move || {
            for number in 0u64.. {
                write(&counted, &format!("{number} {}", work.standing()));
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
    /// The last work in it.
    standing: Option<Standing>,
    /// How long that has been the same.
    idle: Duration,
    /// The longest that it was the same before it advanced.
    recovered: Duration,
    /// Whether a warning has named it since its work advanced.
    is_named: bool,
}

impl WatchedRank {
    fn new(rank: usize, path: PathBuf) -> Self {
        Self {
            rank,
            path,
            text: String::new(),
            silent: Duration::ZERO,
            standing: None,
            idle: Duration::ZERO,
            recovered: Duration::ZERO,
            is_named: false,
        }
    }

    /// Takes in the content of its file, this long after the last time.
    fn note(&mut self, text: String, since: Duration) {
        self.silent = match text == self.text {
            true => self.silent + since,
            false => Duration::ZERO,
        };
        let standing = text.split_once(' ');
        let standing = standing.and_then(|(_, standing)| Standing::parse(standing));
        if standing.is_some() && standing != self.standing {
            self.recovered = self.recovered.max(self.idle);
            (self.standing, self.idle, self.is_named) = (standing, Duration::ZERO, false);
        } else {
            // Also if the file is empty, as for a moment whenever it is written.
            self.idle += since;
        }
        self.text = text;
    }

    /// Its work and the limit of that, if it has exceeded one in `parts` of the limit.
    fn stands_still(&self, limits: Limits, parts: u32) -> Option<(&Standing, Duration)> {
        let standing = self.standing.as_ref()?;
        let limit = standing.limit(limits.idle, limits.members);
        (self.idle > limit / parts).then_some((standing, limit))
    }

    /// What it seems to be stuck in, and for how long, if that exceeds a limit.
    fn stalled(&self, limits: Limits) -> Option<(String, Duration)> {
        let rank = self.rank;
        if self.silent > limits.silent {
            let last = self.standing.as_ref();
            let last = last.map_or(String::new(), |last| {
                format!(" (last: {})", last.in_words())
            });
            let doing = format!("inference: rank {rank}, whose heartbeats are missing{last},");
            return Some((doing, self.silent));
        }
        let (standing, _) = self.stands_still(limits, 1)?;
        let doing = format!("inference: rank {rank}, which is {},", standing.in_words());
        Some((doing, self.idle))
    }

    /// Warns once of a rank that stands still.
    fn warn(&mut self, limits: Limits) {
        if !self.is_named
            && let Some(said) = self.warning(limits)
        {
            tracing::warn!("{said}");
            self.is_named = true;
        }
    }

    /// What to say of a rank whose heartbeats are missing, or else of work that has stood still for a part of its limit, and
    /// for longer than is usual with it: every batch of a slow machine may take as long. A rank that sends nothing does
    /// not advance either; the limit of its silence ends the job if it is reached first.
    fn warning(&self, limits: Limits) -> Option<String> {
        let rank = self.rank;
        if self.silent > limits.silent / SILENT_NAMED_AFTER && self.ends_by_silence(limits) {
            return Some(format!(
                "rank {rank} has sent no heartbeat for {:.0} s: the job ends after {:.0} s",
                self.silent.as_secs_f64(),
                limits.silent.as_secs_f64()
            ));
        }
        if self.idle <= self.recovered.saturating_mul(2) {
            return None;
        }
        let (standing, limit) = self.stands_still(limits, NAMED_AFTER)?;
        Some(format!(
            "rank {rank} has not advanced for {:.0} s, {}: the job ends after {:.0} s",
            self.idle.as_secs_f64(),
            standing.in_words(),
            limit.as_secs_f64()
        ))
    }

    /// Whether its silence would reach its limit before its work does.
    fn ends_by_silence(&self, limits: Limits) -> bool {
        let left_of_work = self.standing.as_ref().map(|standing| {
            let limit = standing.limit(limits.idle, limits.members);
            limit.saturating_sub(self.idle)
        });
        let left = limits.silent.saturating_sub(self.silent);
        left_of_work.is_none_or(|of_work| left <= of_work)
    }
}

impl WatchedRanks {
    /// The ranks, of `size`, that `rank` watches.
    pub fn watched_by(claims: &Claims, rank: usize, size: usize) -> Self {
        let others = match rank {
            0 => 1..size,
            _ => 0..1,
        };
        let folder = claims.folder().into_iter();
        let ranks = folder.flat_map(|folder| {
            let counting = move |rank| WatchedRank::new(rank, file_of(folder, rank));
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
    /// [`CommError::Stalled`] naming a rank whose heartbeat or work has stood still for longer than `limits` allow.
    pub fn are_done(&mut self, limits: Limits) -> Result<bool> {
        match self.polling.due() {
            Some(since) => self.look(since, limits),
            None => Ok(self.ranks.is_empty()),
        }
    }

    /// Like [`Self::are_done`], but checks now, this long after the last check.
    fn look(&mut self, since: Duration, limits: Limits) -> Result<bool> {
        for other in &mut self.ranks {
            let text = std::fs::read_to_string(&other.path).unwrap_or_default();
            other.note(text, since.min(LONGEST));
        }
        self.ranks.retain(|other| other.text != DONE);
        let stalled = self.ranks.iter().find_map(|other| other.stalled(limits));
        if let Some((doing, waited)) = stalled {
            let rank = self.own;
            return Err(CommError::Stalled {
                rank,
                doing,
                waited,
            }
            .into());
        }
        // All others watch the first rank: one of them warns.
        if self.own < 2 {
            self.ranks.iter_mut().for_each(|other| other.warn(limits));
        }
        Ok(self.ranks.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::Stage;
    use super::*;
    use crate::comm::{Communicator, threads};
    use std::time::Instant;

    #[test]
    fn ranks_are_done_alive_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let limit = Duration::from_millis(1500);
        let limits = Limits {
            silent: limit,
            ..Limits::new(Duration::MAX, 1)
        };
        threads::run(threads::ranks(3), |mut comm| {
            let rank = comm.rank();
            let claims = Claims::begin(folder.path(), 1, &mut comm).unwrap();
            // The last rank is dead from the start.
            let start = || Heartbeat::start(&claims, rank, Arc::default());
            let heartbeat = (rank < 2).then(|| start().unwrap().unwrap());
            comm.barrier().unwrap();
            if rank == 1 {
                heartbeat.unwrap().done();
            }
            comm.barrier().unwrap();
            let mut watched = WatchedRanks::watched_by(&claims, rank, 3);
            let start = Instant::now();
            let found = loop {
                match watched.are_done(limits) {
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
            ranks: vec![WatchedRank::new(1, path.clone())],
            polling: Polling::slowing_to(LOOK),
        };
        let limits = Limits::new(Duration::MAX, 1);
        // Thousands of files are read in more time than lies between two counts.
        let slow = 2 * COUNT;
        let mut dead = watched();
        let looks = (0..40).map(|_| dead.look(slow, limits));
        let found: Vec<Result<bool>> = looks.take_while(Result::is_ok).collect();
        // News, then 300 s in steps of 10 s.
        assert_eq!(found.len(), 31);
        let error = dead.look(slow, limits).unwrap_err().to_string();
        assert!(error.starts_with("rank 0: inference: rank 1, "), "{error}");
        // One that counts is alive.
        let mut alive = watched();
        for number in 0..40 {
            write(&path, &number.to_string());
            assert!(!alive.look(slow, limits).unwrap());
        }
        // The whole job was stopped for an hour: others have not counted, either.
        assert!(!alive.look(Duration::from_secs(3600), limits).unwrap());
    }

    /// As in a read that never returns, or a GPU whose driver hangs: the thread that counts lives on.
    #[test]
    fn a_rank_whose_work_stands_still_is_named_although_it_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = file_of(folder.path(), 1);
        let mut watched = WatchedRanks {
            own: 0,
            ranks: vec![WatchedRank::new(1, path.clone())],
            polling: Polling::slowing_to(LOOK),
        };
        let limits = Limits::new(Duration::from_secs(900), 1);
        let (work, mut number) = (Work::default(), 0);
        let mut look = |watched: &mut WatchedRanks, work: &Work| {
            number += 1;
            write(&path, &format!("{number} {}", work.standing()));
            watched.look(2 * COUNT, limits)
        };
        // Long work that advances, if only now and then.
        for turn in 0..400 {
            if turn % 80 == 0 {
                work.advance();
            }
            assert!(!look(&mut watched, &work).unwrap(), "look {turn}");
        }
        work.begin(Stage::Computing, "masks.7.nc");
        let mut ended = |watched: &mut WatchedRanks| {
            let looks = (0..1000).map(|_| look(watched, &work));
            let still: Vec<_> = looks.take_while(Result::is_ok).collect();
            let error = look(watched, &work).unwrap_err().to_string();
            (still.len(), error)
        };
        // News, then 900 s in steps of 10 s.
        let (looks, error) = ended(&mut watched);
        assert_eq!(looks, 91);
        let expected = "rank 0: inference: rank 1, which is computing `masks.7.nc`, has not";
        assert!(error.starts_with(expected), "{error}");
        // A read may take four times as long.
        work.begin(Stage::Reading, "masks.8.nc");
        let (looks, error) = ended(&mut watched);
        assert_eq!(looks, 361);
        assert!(
            error.contains("reading the fields of `masks.8.nc`"),
            "{error}"
        );
    }

    /// A stopped rank sends nothing: the limit of its work was announced, and the job ended by that of its silence.
    #[test]
    fn the_limit_that_ends_the_job_first_is_announced() {
        let work = Work::default();
        work.begin(Stage::Reading, "masks.8.nc");
        let limits = Limits::new(Duration::from_secs(300), 1);
        let said = |is_alive: bool| {
            let mut watched = WatchedRank::new(1, PathBuf::new());
            for number in 0..14 {
                let number = if is_alive { number } else { 0 };
                watched.note(format!("{number} {}", work.standing()), 2 * COUNT);
            }
            watched.warning(limits)
        };
        // After the news, 130 s: more than a tenth of 1200 s, which a read may take, and a third of 300 s.
        assert_eq!(
            said(false).unwrap(),
            "rank 1 has sent no heartbeat for 130 s: the job ends after 300 s"
        );
        assert_eq!(
            said(true).unwrap(),
            "rank 1 has not advanced for 130 s, reading the fields of `masks.8.nc`: the job ends after 1200 s"
        );
    }

    /// A rank that ends by its silence was said to have files to finish.
    #[test]
    fn a_rank_without_heartbeats_is_told_from_one_whose_work_stands_still() {
        let work = Work::default();
        work.begin(Stage::Reading, "masks.8.nc");
        let limits = Limits::new(Duration::from_secs(300), 1);
        let mut watched = WatchedRank::new(1, PathBuf::new());
        for _ in 0..32 {
            watched.note(format!("7 {}", work.standing()), 2 * COUNT);
        }
        let (doing, waited) = watched.stalled(limits).unwrap();
        assert_eq!(waited, Duration::from_secs(310));
        let expected = "inference: rank 1, whose heartbeats are missing (last: reading the fields of `masks.8.nc`),";
        assert_eq!(doing, expected);
    }

    /// Every batch of a slow machine was warned of.
    #[test]
    fn work_that_usually_takes_as_long_is_not_named_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = file_of(folder.path(), 1);
        let mut watched = WatchedRanks {
            own: 0,
            ranks: vec![WatchedRank::new(1, path.clone())],
            polling: Polling::slowing_to(LOOK),
        };
        let limits = Limits::new(Duration::from_secs(900), 1);
        let work = Work::default();
        // The first look of a batch sees the news; the others are 10 s apart.
        for (looks, is_named) in [(12, true), (12, false), (20, false), (40, true)] {
            work.begin(Stage::Computing, "masks.7.nc");
            for number in 0..looks {
                write(&path, &format!("{number} {}", work.standing()));
                assert!(!watched.look(2 * COUNT, limits).unwrap());
            }
            assert_eq!(watched.ranks[0].is_named, is_named, "{looks} looks");
        }
    }

    #[test]
    fn a_single_rank_waits_for_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::begin(folder.path(), 1, &mut crate::comm::Solo::new()).unwrap();
        let heartbeat = Heartbeat::start(&claims, 0, Arc::default());
        assert!(heartbeat.unwrap().is_none());
        let limits = Limits::new(LOOK, 1);
        assert!(
            WatchedRanks::watched_by(&claims, 0, 1)
                .are_done(limits)
                .unwrap()
        );
    }
}
