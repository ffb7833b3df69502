//! Where rows come from: CSV, Parquet, GeoJSON. All of them give cells as texts, so that one set of rules reads them.

mod delimited;
mod geojson;
mod parquet;

use super::{EVENT_COLUMNS, TRACK_COLUMNS};
use crate::error::{ClimateError, Result};
use squall_data::{Calendar, DataError};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Some programs begin their texts with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a file of tables is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Text with a header line.
    Delimited,
    /// Columns in Apache's format.
    Parquet,
    /// A collection of features.
    Geojson,
}

/// An open table.
pub(super) struct Opened {
    /// The columns of its rows.
    pub header: csv::StringRecord,
    /// Columns as the file names them, also those that are passed over; of features those of the first one.
    pub names: Vec<String>,
    /// What a row is called in messages.
    pub unit: &'static str,
    /// The calendar, where the file says.
    pub calendar: Option<Calendar>,
    /// The rest.
    pub rows: Box<dyn Rows>,
}

/// Rows one after the other.
pub(super) trait Rows {
    /// Takes the next row, with its place in the file; whether there was one.
    fn next_into(&mut self, cells: &mut csv::StringRecord) -> Result<bool>;
}

/// Opens a table of any layout.
pub(super) fn open(path: &Path) -> Result<Opened> {
    match layout_of(path)? {
        Layout::Delimited => delimited::open(path),
        Layout::Parquet => parquet::open(path),
        Layout::Geojson => geojson::open(path),
    }
}

/// The layout of a file.
pub(crate) fn layout_of(path: &Path) -> Result<Layout> {
    let mut head = Vec::new();
    File::open(path)
        .map_err(DataError::io("open", path))?
        .take(64)
        .read_to_end(&mut head)
        .map_err(DataError::io("read", path))?;
    let start = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head);
    Ok(if start.starts_with(b"PAR1") {
        Layout::Parquet
    } else if start.trim_ascii_start().starts_with(b"{") {
        Layout::Geojson
    } else {
        Layout::Delimited
    })
}

/// The calendar that a file names.
fn calendar_of(path: &Path, name: &str) -> Result<Calendar> {
    Calendar::from_cf(name).ok_or_else(|| ClimateError::Table {
        path: path.into(),
        reason: format!("calendar: found `{name}`, which is none of CF"),
    })
}

/// Whether a column is one of ours; others are passed over.
fn is_known(name: &str) -> bool {
    EVENT_COLUMNS.contains(&name) || TRACK_COLUMNS.contains(&name)
}

/// A row with its place in the file, the first being 1.
fn placed(cells: csv::StringRecord, row: u64) -> csv::StringRecord {
    let (mut cells, mut place) = (cells, csv::Position::new());
    place.set_line(row);
    cells.set_position(Some(place));
    cells
}
