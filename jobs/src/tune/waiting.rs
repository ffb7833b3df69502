//! Notices trials of other processes that do not advance: a stopped process keeps its claim.

use super::TuneEvent;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Shortest interval between looks at the files of trials.
const LEAST: Duration = Duration::from_millis(500);

/// A trial and which of its repeats.
type Run = (usize, usize);

/// A run that another process has claimed, and that process, if its claim names it.
pub(super) type Claimed = (Run, Option<String>);

/// Bytes of all files of a trial and when the newest was written: training adds to its metrics at every step.
type Mark = (u64, Option<SystemTime>);

/// The runs that this process waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    limit: Duration,
    looked: Instant,
    runs: BTreeMap<Run, Still>,
}

/// A run since its files last changed.
#[derive(Debug)]
struct Still {
    mark: Mark,
    idle: Duration,
    /// It is named once this has passed.
    named_at: Duration,
}

impl Waiting {
    /// Names trials whose files have not changed for `limit`, and again each time it passes.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            looked: Instant::now(),
            runs: BTreeMap::new(),
        }
    }

    /// The events to report of the trials that other processes hold now; looks at their files only at intervals.
    pub fn look(
        &mut self,
        claimed: Vec<Claimed>,
        folder_of: impl Fn(Run) -> PathBuf,
    ) -> Vec<TuneEvent<'static>> {
        let interval = (self.limit / 10).max(LEAST);
        let since = self.looked.elapsed();
        if since < interval {
            return Vec::new();
        }
        self.looked = Instant::now();
        // Time during which this process was itself stopped says nothing of the others.
        let since = since.min(2 * interval);
        self.runs
            .retain(|run, _| claimed.iter().any(|(other, _)| other == run));
        let note = |(run, holder): Claimed| {
            let idle = self.note(run, mark_of(&folder_of(run)), since)?;
            Some(TuneEvent::StandsStill {
                trial: run.0,
                holder,
                idle,
            })
        };
        claimed.into_iter().filter_map(note).collect()
    }

    /// Takes in the files of a run, this long after the last time; returns how long they have been the same, if that
    /// is to be reported.
    fn note(&mut self, run: Run, mark: Mark, since: Duration) -> Option<Duration> {
        let still = match self.runs.get_mut(&run) {
            Some(still) if still.mark == mark => still,
            _ => {
                let still = Still {
                    mark,
                    idle: Duration::ZERO,
                    named_at: self.limit,
                };
                self.runs.insert(run, still);
                return None;
            }
        };
        still.idle += since;
        if still.idle <= still.named_at {
            return None;
        }
        still.named_at = still.idle.saturating_add(self.limit);
        Some(still.idle)
    }
}

/// The state of the files of a trial. What cannot be read counts as nothing.
fn mark_of(folder: &Path) -> Mark {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok());
    let nothing: Mark = (0, None);
    files.fold(nothing, |(bytes, newest), data| {
        (bytes + data.len(), newest.max(data.modified().ok()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_stands_still_is_named_again_and_again() {
        let mut waiting = Waiting::new(Duration::from_secs(10));
        let mut named = |looks: u64, advances: bool| -> Vec<u64> {
            let looks = 0..looks;
            let found = looks.filter_map(|look| {
                let bytes = if advances { 100 + look } else { 7 };
                waiting.note((3, 0), (bytes, None), Duration::from_secs(4))
            });
            found.map(|idle| idle.as_secs()).collect()
        };
        assert!(named(20, true).is_empty());
        // The first look is the change itself.
        assert_eq!(named(12, false), [12, 24, 36]);
        assert!(named(20, true).is_empty());
    }

    #[test]
    fn a_file_that_grows_or_is_written_anew_is_an_advance() {
        let folder = tempfile::tempdir().unwrap();
        let absent = mark_of(&folder.path().join("absent"));
        assert_eq!(absent, (0, None));
        let metrics = folder.path().join("metrics.jsonl");
        std::fs::write(&metrics, "{}\n").unwrap();
        let first = mark_of(folder.path());
        assert_eq!((first.0, mark_of(folder.path())), (3, first));
        std::fs::write(&metrics, "{}\n{}\n").unwrap();
        assert_ne!(mark_of(folder.path()), first);
    }
}
