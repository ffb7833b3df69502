//! The folder of a run: its tables, and the checkpoint from which an interrupted run resumes.

use super::results::{clear_results, clear_those_of};
use crate::error::{ClimateError, Result};
use crate::partial::{EventPart, PartialFolder, cut, length, sync_folder};
use crate::statistics::{PastMonth, Statistics};
use crate::stream::{Decided, EventCounts, EventStream};
use crate::table::{Spill, TableWriter};
use crate::track::Track;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use squall_data::{DataError, atomic, wire};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The working folder of a run, inside its output folder, and the files in it.
const PARTIAL: &str = ".events.partial";
const EVENTS: &str = "events.csv";
const TRACKS: &str = "tracks.jsonl";
const MONTHS: &str = "months.jsonl";
const STATE: &str = "state.cbor";

/// Number of tracks kept in memory while sorting: about two megabytes.
const MAX_TRACKS_IN_MEMORY: usize = 2048;

/// The output folder of a run. `events.csv` and `tracks.csv` appear when the run has finished, each complete. Until
/// then their parts and the run's state are in `.events.partial`.
///
/// [`RunFolder::save`] writes a checkpoint, from which [`RunFolder::open`] resumes. Rows written after the checkpoint
/// are truncated and computed again, so the tables are identical to those of an uninterrupted run. A run with other
/// inputs or options (a different fingerprint) starts from scratch, and so does a run whose results are complete; it
/// first removes the old results ([`clear_results`]).
pub struct RunFolder {
    out: PathBuf,
    partial: PartialFolder,
    fingerprint: String,
    events: EventPart,
    tracks: BufWriter<File>,
    months: BufWriter<File>,
}

/// The result of a finished run besides its tables.
#[derive(Debug)]
pub struct Finished {
    /// Its statistics.
    pub statistics: Statistics,
    /// Its counts.
    pub counts: EventCounts,
}

/// The checkpoint on disk; `S` is an [`EventStream`], borrowed for writing.
#[derive(Serialize, Deserialize)]
struct Saved<S> {
    fingerprint: String,
    next: usize,
    events_bytes: u64,
    tracks_bytes: u64,
    months_bytes: u64,
    stream: S,
}

/// The part of [`Saved`] that says how far a run is.
#[derive(Deserialize)]
struct Position {
    next: usize,
}

impl RunFolder {
    /// Whether a folder contains an interrupted or active run.
    pub fn is_begun(out: &Path) -> bool {
        out.join(PARTIAL).exists()
    }

    /// The number of times done before the checkpoint of an interrupted or active run; `None` without a readable one.
    pub fn times_saved(out: &Path) -> Option<usize> {
        let position: Position = wire::read_file(out.join(PARTIAL).join(STATE)).ok()?;
        Some(position.next)
    }

    /// Opens the folder of a run. Returns the state to resume from and the index of the next time (0 for a new run).
    ///
    /// `fingerprint` must differ if anything differs that affects the result: inputs, their times, options. A
    /// checkpoint is ignored unless `usable` accepts its state and its next time.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if the folder cannot be written.
    pub fn open(
        out: impl AsRef<Path>,
        fingerprint: &str,
        new: EventStream,
        usable: impl Fn(&EventStream, usize) -> bool,
    ) -> Result<(Self, EventStream, usize)> {
        let out = out.as_ref().to_path_buf();
        let partial = PartialFolder::open(&out, PARTIAL)?;
        restore_events_part(&out, &partial)?;
        let saved = partial.state(STATE, |saved: &Saved<EventStream>| {
            saved.fingerprint == fingerprint
                && partial.is_as_long(EVENTS, saved.events_bytes)
                && partial.is_as_long(TRACKS, saved.tracks_bytes)
                && partial.is_as_long(MONTHS, saved.months_bytes)
                && usable(&saved.stream, saved.next)
        })?;
        if saved.is_none() {
            clear_results(&out)?;
            // A run killed during its last step has results in the output folder, but its table of events is still in
            // the working folder.
            clear_those_of(&partial.file(EVENTS), &out)?;
        }
        let (stream, next, lengths) = match saved {
            Some(saved) => (
                saved.stream,
                saved.next,
                [saved.events_bytes, saved.tracks_bytes, saved.months_bytes],
            ),
            None => (new, 0, [0; 3]),
        };
        let open = |name: &str, bytes| {
            Ok::<_, ClimateError>(BufWriter::new(cut(&partial.file(name), bytes)?))
        };
        let folder = Self {
            events: EventPart::open(partial.file(EVENTS), lengths[0])?,
            tracks: open(TRACKS, lengths[1])?,
            months: open(MONTHS, lengths[2])?,
            out,
            partial,
            fingerprint: fingerprint.into(),
        };
        Ok((folder, stream, next))
    }

    /// Appends rows.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
    pub fn write(&mut self, decided: &Decided) -> Result<()> {
        for event in &decided.events {
            self.events.write(event)?;
        }
        for track in &decided.tracks {
            line(&mut self.tracks, track)
                .map_err(DataError::io("write", self.partial.file(TRACKS)))?;
        }
        for month in &decided.months {
            line(&mut self.months, month)
                .map_err(DataError::io("write", self.partial.file(MONTHS)))?;
        }
        Ok(())
    }

    /// Writes a checkpoint, from which an interrupted run resumes; `next` is the index of the next time.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
    pub fn save(&mut self, stream: &EventStream, next: usize) -> Result<()> {
        let [events_bytes, tracks_bytes, months_bytes] = self.flush()?;
        let saved = Saved {
            fingerprint: self.fingerprint.clone(),
            next,
            events_bytes,
            tracks_bytes,
            months_bytes,
            stream,
        };
        self.partial.save(STATE, &saved)
    }

    /// Finishes the run: [`Self::conclude`], then [`Self::close`].
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
    pub fn finish(mut self, stream: EventStream) -> Result<Finished> {
        let finished = self.conclude(stream)?;
        self.close()?;
        Ok(finished)
    }

    /// Finishes the tables: events, sorted tracks, statistics by month, year and basin as CSV. The checkpoint remains
    /// until [`Self::close`], so a run that ends between the two calls resumes from it.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
    pub fn conclude(&mut self, stream: EventStream) -> Result<Finished> {
        let (decided, mut statistics, counts) = stream.finish();
        self.write(&decided)?;
        self.flush()?;
        self.sort_tracks()?;
        self.for_each_line(MONTHS, |part: PastMonth| {
            statistics.put_back(&part);
            Ok(())
        })?;
        statistics.write_csv(&self.out)?;
        // Last, because resuming needs the part; [`restore_events_part`] undoes the rename if necessary.
        self.events.rename(&self.out.join(EVENTS))?;
        sync_folder(&self.out);
        Ok(Finished { statistics, counts })
    }

    /// Removes the working folder, after all files derived from the tables are written.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if it cannot be removed.
    pub fn close(self) -> Result<()> {
        // The checkpoint first: without it the folder counts as that of a finished run.
        atomic::remove(self.partial.file(STATE))?;
        self.partial.remove()
    }

    /// Calls `each` for every line of a file in the working folder.
    fn for_each_line<T: DeserializeOwned>(
        &self,
        name: &str,
        mut each: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let path = self.partial.file(name);
        let failed =
            |error: std::io::Error| ClimateError::Data(DataError::io("read", &path)(error));
        for line in BufReader::new(File::open(&path).map_err(failed)?).lines() {
            let row = serde_json::from_str(&line.map_err(failed)?);
            each(row.map_err(|error| failed(error.into()))?)?;
        }
        Ok(())
    }

    fn sort_tracks(&self) -> Result<()> {
        let mut spill = Spill::<Track>::new(self.partial.file("sorting"), MAX_TRACKS_IN_MEMORY);
        self.for_each_line(TRACKS, |track: Track| spill.push(track.track_id, 0, track))?;
        let mut table = TableWriter::create(self.out.join("tracks.csv"))?;
        for track in spill.sorted()? {
            table.write(&track?)?;
        }
        table.finish()
    }

    /// Syncs all rows to disk and returns the lengths of the files.
    fn flush(&mut self) -> Result<[u64; 3]> {
        let mut lines = [0; 2];
        let files = [(TRACKS, &mut self.tracks), (MONTHS, &mut self.months)];
        for (bytes, (name, file)) in lines.iter_mut().zip(files) {
            let path = self.partial.file(name);
            let flushed = file.flush();
            flushed.map_err(DataError::io("write", &path))?;
            *bytes = length(&path, file.get_ref())?;
        }
        let [tracks_bytes, months_bytes] = lines;
        Ok([self.events.flush()?, tracks_bytes, months_bytes])
    }
}

/// Writes a line of JSON.
fn line<T: Serialize>(file: &mut BufWriter<File>, row: &T) -> std::io::Result<()> {
    serde_json::to_writer(&mut *file, row)?;
    file.write_all(b"\n")
}

/// Moves a finished table of events back to the working folder if its checkpoint still exists. The table belongs to
/// that checkpoint, because a resumable run removes foreign results before it writes.
fn restore_events_part(out: &Path, partial: &PartialFolder) -> Result<()> {
    let (table, part) = (out.join(EVENTS), partial.file(EVENTS));
    if partial.file(STATE).exists() && !part.exists() && table.exists() {
        fs::rename(&table, &part).map_err(DataError::io("rename", &table))?;
    }
    Ok(())
}
