//! Logs of finished mask files and skipped times.
//!
//! Every rank appends to its own log, `finished.<rank>.jsonl`. The first rank merges them into `finished.jsonl`, in
//! order of time, at the start and the end of a call.

use super::Chunk;
use super::chunks::table_of;
use super::read_from::ReadFrom;
use crate::comm::Communicator;
use crate::comm::collectives::tree;
use crate::error::{JobError, Result};
use crate::metrics::{JsonLines, to_json};
use serde::{Deserialize, Serialize};
use squall_data::DataError;
use squall_data::mask_file::MaskArchive;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The merged log in the output folder, one line per finished file.
pub(super) const LOG: &str = "finished.jsonl";

/// A time without a mask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkippedTime {
    /// The time.
    pub time: String,
    /// Why.
    pub reason: String,
    /// Whether the network failed ([`JobError::NotFinite`]) rather than the input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_network: bool,
}

/// A finished mask file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishedFile {
    /// Its name; the file does not exist if it would contain no mask.
    pub file: String,
    /// Whether there is a box table besides the masks, named with `boxes` and `csv` instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_boxes: bool,
    /// The first time it covers.
    pub first: String,
    /// The last time it covers.
    pub last: String,
    /// Number of masks in it.
    pub masks: usize,
    /// Missing input values that were replaced by the mean.
    pub missing_values: u64,
    /// Skipped times.
    pub skipped: Vec<SkippedTime>,
    /// For a network over time: hash of the times seen by its clips, which extend beyond the file's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// The sources of its fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_from: Option<ReadFrom>,
}

impl FinishedFile {
    /// Number of times that it covers.
    pub(super) fn times(&self) -> usize {
        self.masks + self.skipped.len()
    }

    /// Whether the file exists and is readable to its end.
    pub(super) fn verify(&self, folder: &Path) -> bool {
        if self.masks == 0 {
            return true;
        }
        let path = folder.join(&self.file);
        // Tables are renamed into place, so an existing one is complete.
        if self.with_boxes && !folder.join(table_of(&self.file)).is_file() {
            tracing::warn!(file = %self.file, "the table of boxes beside it is gone: both are made again");
            return false;
        }
        if path.extension().is_some_and(|kind| kind == "csv") {
            return path.is_file();
        }
        let opened = path.exists().then(|| MaskArchive::open_file(&path).ok());
        let whole = opened.flatten().is_some_and(|archive| {
            archive.times().len() == self.masks && archive.read(self.masks - 1).is_ok()
        });
        if !whole {
            tracing::warn!(file = %self.file, "a finished mask file is gone or damaged: it is made again");
        }
        whole
    }
}

fn of_rank(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("finished.{rank}.jsonl"))
}

/// Opens the log of a rank for appending.
pub(super) fn open(folder: &Path, rank: usize) -> Result<JsonLines> {
    JsonLines::open(&of_rank(folder, rank))
}

/// The logs of single ranks of any earlier call.
fn rank_logs(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(DataError::io("list", folder))? {
        let path = entry.map_err(DataError::io("list", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name
            .strip_prefix("finished.")
            .and_then(|n| n.strip_suffix(".jsonl"));
        if number.is_some_and(|number| number.parse::<usize>().is_ok()) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the finished files from all logs, by name; an incomplete line is ignored.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, FinishedFile>> {
    let mut finished = BTreeMap::new();
    let logs = [folder.join(LOG)].into_iter().chain(rank_logs(folder)?);
    for path in logs.filter(|path| path.exists()) {
        let bytes = std::fs::read(&path).map_err(DataError::io("read", &path))?;
        // It may be cut off within a UTF-8 character.
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().map(serde_json::from_str::<FinishedFile>);
        finished.extend(lines.flatten().map(|entry| (entry.file.clone(), entry)));
    }
    Ok(finished)
}

/// Whether an earlier call has started here.
pub(super) fn exists(folder: &Path) -> Result<bool> {
    Ok(folder.join(LOG).exists() || !rank_logs(folder)?.is_empty())
}

/// Replaces all logs by a single one with these files, in this order.
pub(super) fn restart<'f>(
    folder: &Path,
    finished: impl Iterator<Item = &'f FinishedFile>,
) -> Result<()> {
    let path = folder.join(LOG);
    let mut text = String::new();
    for entry in finished {
        text.push_str(&to_json(entry, &path)?);
        text.push('\n');
    }
    squall_data::atomic::write(&path, text.as_bytes())?;
    for old in rank_logs(folder)? {
        std::fs::remove_file(&old).map_err(DataError::io("remove", &old))?;
    }
    Ok(())
}

/// Finished files in the order of time.
pub(super) fn in_order<'f>(
    all: &[Chunk],
    finished: &'f BTreeMap<String, FinishedFile>,
) -> Vec<&'f FinishedFile> {
    all.iter()
        .filter_map(|chunk| finished.get(&chunk.name))
        .collect()
}

/// Broadcasts the first rank's files.
pub(super) fn share(
    comm: &mut dyn Communicator,
    files: &[FinishedFile],
    folder: &Path,
) -> Result<Vec<FinishedFile>> {
    if comm.size() == 1 {
        return Ok(files.to_vec());
    }
    let bytes = to_json(&files, folder)?.into_bytes();
    let bytes = tree::broadcast_any(comm, bytes, 0)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let reason = format!("the first rank's list of finished files: {error}");
        JobError::damaged(folder, reason)
    })
}

/// Counts the times that other ranks have finished, from their logs.
#[derive(Debug)]
pub(super) struct OtherRanksLog {
    logs: Vec<(PathBuf, u64)>,
    times: usize,
    looked: Instant,
    interval: Duration,
}

impl OtherRanksLog {
    /// The ranks other than the first.
    pub fn of(folder: &Path, ranks: usize) -> Self {
        Self {
            logs: (1..ranks).map(|rank| (of_rank(folder, rank), 0)).collect(),
            times: 0,
            looked: Instant::now(),
            // At most a hundred reads per second, over all ranks.
            interval: Duration::from_millis(500).max(Duration::from_millis(10) * ranks as u32),
        }
    }

    /// The current count; reads the logs only at intervals.
    pub fn times(&mut self) -> usize {
        if self.looked.elapsed() >= self.interval {
            self.look();
        }
        self.times
    }

    fn look(&mut self) {
        for (path, read) in &mut self.logs {
            self.times += new_lines(path, read).unwrap_or(0);
        }
        self.looked = Instant::now();
    }
}

/// Counts the times in the complete lines of a log after the `read` bytes processed before.
fn new_lines(path: &Path, read: &mut u64) -> Option<usize> {
    let mut file = File::open(path).ok()?;
    if file.metadata().ok()?.len() <= *read {
        return None;
    }
    let mut text = String::new();
    file.seek(SeekFrom::Start(*read)).ok()?;
    file.read_to_string(&mut text).ok()?;
    let whole = text.rfind('\n')? + 1;
    *read += whole as u64;
    let lines = text[..whole]
        .lines()
        .map(serde_json::from_str::<FinishedFile>);
    Some(lines.flatten().map(|entry| entry.times()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(day: usize) -> FinishedFile {
        FinishedFile {
            file: format!("masks.2000-01-{day:02}.nc"),
            first: "a".into(),
            last: "b".into(),
            with_boxes: false,
            masks: 0,
            missing_values: 0,
            skipped: vec![SkippedTime {
                time: "a".into(),
                reason: "b".into(),
                of_network: day.is_multiple_of(2),
            }],
            seen: None,
            read_from: None,
        }
    }

    /// Logs of earlier versions say nothing of the network.
    #[test]
    fn a_time_is_skipped_for_the_input_unless_the_log_says_otherwise() {
        let read = |line: &str| serde_json::from_str::<SkippedTime>(line).unwrap();
        let line = r#"{"time":"a","reason":"b"}"#;
        assert!(!read(line).of_network);
        assert_eq!(serde_json::to_string(&read(line)).unwrap(), line);
        let line = r#"{"time":"a","reason":"b","of_network":true}"#;
        assert!(read(line).of_network);
        assert_eq!(serde_json::to_string(&read(line)).unwrap(), line);
    }

    #[test]
    fn logs_of_ranks_become_one_and_are_watched_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(!exists(path).unwrap());
        let mut others = OtherRanksLog::of(path, 3);
        for (rank, day) in [(0, 3), (2, 1), (1, 2), (2, 4)] {
            open(path, rank).unwrap().push(&entry(day)).unwrap();
        }
        others.look();
        assert_eq!(others.times, 3);
        // Cut off, within a letter: not read, not counted.
        let mut cut = std::fs::read(of_rank(path, 2)).unwrap();
        cut.extend(b"{\"file\":\"masks\xc3");
        std::fs::write(of_rank(path, 2), cut).unwrap();
        others.look();
        assert_eq!(others.times, 3);
        let found = read(path).unwrap();
        assert_eq!(found.len(), 4);
        restart(path, found.values()).unwrap();
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 1);
        assert_eq!(read(path).unwrap(), found);
        assert!(exists(path).unwrap());
    }
}
