//! The folder of a run: its tables, and the saved state from which an interrupted run continues.

use super::results::{clear_results, clear_those_of};
use crate::error::{ClimateError, Result};
use crate::partial::{EventPart, PartialFolder, cut, length, sync_folder};
use crate::statistics::{PastMonth, Statistics};
use crate::stream::{Decided, EventCounts, EventStream};
use crate::table::{Spill, TableWriter};
use crate::track::Track;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use squall_data::{DataError, atomic};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where the state of a run lies in its folder, and the files there.
const PARTIAL: &str = ".events.partial";
const EVENTS: &str = "events.csv";
const TRACKS: &str = "tracks.jsonl";
const MONTHS: &str = "months.jsonl";
const STATE: &str = "state.cbor";

/// Tracks held in memory while they are sorted: some two megabytes.
const MOST_HELD: usize = 2048;

/// The folder of a run: `events.csv` and `tracks.csv` appear in it whole when the run has ended; until then their parts
/// and the run's state lie in `.events.partial`.
///
/// [`RunFolder::save`] fixes a state from which [`RunFolder::open`] goes on: rows written after it are cut off and
/// computed again, so that the tables are those of a run that nothing interrupted. A run of other inputs or options
/// (another fingerprint) begins anew, and so does one whose results are there; it removes those first
/// ([`clear_results`]).
pub struct RunFolder {
    out: PathBuf,
    partial: PartialFolder,
    fingerprint: String,
    events: EventPart,
    tracks: BufWriter<File>,
    months: BufWriter<File>,
}

/// What a finished run gives besides its tables.
#[derive(Debug)]
pub struct Finished {
    /// Its statistics.
    pub statistics: Statistics,
    /// Its counts.
    pub counts: EventCounts,
}

/// The state on disk; `S` is an [`EventStream`], borrowed where it is written.
#[derive(Serialize, Deserialize)]
struct Saved<S> {
    fingerprint: String,
    next: usize,
    events_bytes: u64,
    tracks_bytes: u64,
    months_bytes: u64,
    stream: S,
}

impl RunFolder {
    /// Whether a folder holds a run that was interrupted or is under way.
    pub fn is_begun(out: &Path) -> bool {
        out.join(PARTIAL).exists()
    }

    /// Opens the folder of a run; returns the state to continue from and the index of the next time (0 in a new run).
    ///
    /// `fingerprint` must differ for whatever would change the result: inputs, their times, options. A state that is not
    /// `usable`, with the next time that it names, is none.
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
        bring_back(&out, &partial)?;
        let saved = partial.state(STATE, |saved: &Saved<EventStream>| {
            saved.fingerprint == fingerprint
                && partial.is_as_long(EVENTS, saved.events_bytes)
                && partial.is_as_long(TRACKS, saved.tracks_bytes)
                && partial.is_as_long(MONTHS, saved.months_bytes)
                && usable(&saved.stream, saved.next)
        })?;
        if saved.is_none() {
            clear_results(&out)?;
            // A run that was killed while it ended has results, and its table of events among its parts.
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

    /// Writes rows behind those that were written before.
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

    /// Saves the state, from which an interrupted run continues; `next` is the index of the time that follows.
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

    /// Ends the run: [`Self::conclude`], then [`Self::close`].
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
    pub fn finish(mut self, stream: EventStream) -> Result<Finished> {
        let finished = self.conclude(stream)?;
        self.close()?;
        Ok(finished)
    }

    /// Ends the tables: events, sorted tracks, statistics by month, year and basin as CSV. The state of
    /// [`Self::save`] stays until [`Self::close`]: a run that ends between the two goes on from it.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
    pub fn conclude(&mut self, stream: EventStream) -> Result<Finished> {
        let (decided, mut statistics, counts) = stream.finish();
        self.write(&decided)?;
        self.flush()?;
        self.sort_tracks()?;
        self.each_line(MONTHS, |part: PastMonth| {
            statistics.put_back(&part);
            Ok(())
        })?;
        statistics.write_csv(&self.out)?;
        // Last, because its part is what a run goes on from; it takes it back if it must ([`bring_back`]).
        self.events.rename(&self.out.join(EVENTS))?;
        sync_folder(&self.out);
        Ok(Finished { statistics, counts })
    }

    /// Removes the state: all that follows from the tables is there too.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if it cannot be removed.
    pub fn close(self) -> Result<()> {
        // The state first: without it the folder is that of a finished run.
        atomic::remove(self.partial.file(STATE))?;
        self.partial.remove()
    }

    /// Calls `each` for every line of a part.
    fn each_line<T: DeserializeOwned>(
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
        let mut spill = Spill::<Track>::new(self.partial.file("sorting"), MOST_HELD);
        self.each_line(TRACKS, |track: Track| spill.push(track.track_id, 0, track))?;
        let mut table = TableWriter::create(self.out.join("tracks.csv"))?;
        for track in spill.sorted()? {
            table.write(&track?)?;
        }
        table.finish()
    }

    /// Brings all rows to the disk and says how long the files are.
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

/// Takes a finished table of events for a part again where the run had not ended: what a run goes on from removes all
/// results that are not its own before it writes, so a state without its part left the table.
fn bring_back(out: &Path, partial: &PartialFolder) -> Result<()> {
    let (table, part) = (out.join(EVENTS), partial.file(EVENTS));
    if partial.file(STATE).exists() && !part.exists() && table.exists() {
        fs::rename(&table, &part).map_err(DataError::io("rename", &table))?;
    }
    Ok(())
}
