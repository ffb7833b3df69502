//! `events.csv`, `objects.csv` and `tracks.csv`.
//!
//! Numbers are written with a fixed number of decimals (positions 0.0001°, lengths 0.1 km, pressure 0.1 Pa, wind 0.001
//! m/s); unknown values are blank. Columns are found by name, in any order; unknown columns are ignored. Tables can be
//! read as CSV, Parquet or GeoJSON, also after a data frame library has saved them: NaN and NA then count as blank, and
//! 7.0 as the integer 7.

mod beside;
pub(crate) mod lines;
mod read;
mod rows;
pub(crate) mod sources;
mod spill;

use crate::error::{ClimateError, Result};
use crate::events::Event;
use crate::track::Track;
use squall_data::DataError;
use squall_data::atomic::Pending;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

pub use beside::calendar_beside;
pub use read::{EventReader, TrackReader, read_events, read_tracks};
pub(crate) use spill::Spill;

/// Header of `events.csv` and `objects.csv`.
///
/// The columns after `mean_probability` were added later and may be absent in tables of other programs. `hours`: the
/// time that a row represents; `touches_edge`: 1 if the event touches the edge of a regional domain; `ar_scale`: 0 to
/// 5, rivers only; the others as in [`crate::events::EventDetails`].
pub const EVENT_COLUMNS: [&str; 28] = rows::names(&rows::EVENT);

/// Header of `tracks.csv`.
///
/// The columns after `basin` were added later and may be absent in tables of other programs; see
/// [`crate::track::TrackDetails`], [`crate::track::Landfall`] and [`crate::track::Identity`]. `split_tracks` and
/// `merged_tracks` are identities separated by blanks.
pub const TRACK_COLUMNS: [&str; 45] = rows::names(&rows::TRACK);

/// Writes a table row by row. The file gets its final name when it is complete.
///
/// `TableWriter<Event>` writes `events.csv`, `TableWriter<Track>` writes `tracks.csv`.
#[derive(Debug)]
pub struct TableWriter<T: Row> {
    csv: csv::Writer<BufWriter<File>>,
    pending: Pending,
    rows: std::marker::PhantomData<T>,
}

/// A type that can be a row of a table.
pub trait Row {
    /// The header.
    fn columns() -> Vec<&'static str>;
    /// The cells, as many as columns.
    fn cells(&self) -> Vec<String>;
}

impl<T: Row> TableWriter<T> {
    /// Creates a table with its header.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if the file cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let pending = Pending::new(path)?;
        let file = pending.create()?;
        let mut writer = Self {
            csv: csv::Writer::from_writer(BufWriter::new(file)),
            pending,
            rows: std::marker::PhantomData,
        };
        writer.record(T::columns())?;
        Ok(writer)
    }

    /// Appends a row.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
    pub fn write(&mut self, row: &T) -> Result<()> {
        self.record(row.cells())
    }

    /// Completes the table and gives it its final name.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing, syncing or renaming fails.
    pub fn finish(mut self) -> Result<()> {
        self.csv
            .flush()
            .map_err(DataError::io("write", self.pending.path()))?;
        drop(self.csv);
        Ok(self.pending.commit()?)
    }

    fn record<S: AsRef<[u8]>>(&mut self, cells: Vec<S>) -> Result<()> {
        self.csv.write_record(cells).map_err(|error| {
            ClimateError::Data(DataError::io("write", self.pending.path())(error.into()))
        })
    }
}

/// Writes `events.csv` or `objects.csv`.
///
/// # Errors
/// [`ClimateError::Data`] if writing fails; an existing file is then unchanged.
pub fn write_events(path: impl Into<PathBuf>, events: &[Event]) -> Result<()> {
    write_rows(path, events)
}

/// Writes `tracks.csv`.
///
/// # Errors
/// [`ClimateError::Data`] if writing fails; an existing file is then unchanged.
pub fn write_tracks(path: impl Into<PathBuf>, tracks: &[Track]) -> Result<()> {
    write_rows(path, tracks)
}

fn write_rows<T: Row>(path: impl Into<PathBuf>, rows: &[T]) -> Result<()> {
    let mut writer = TableWriter::create(path)?;
    for row in rows {
        writer.write(row)?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests;
