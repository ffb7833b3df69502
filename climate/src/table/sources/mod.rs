//! Sources of rows: CSV, Parquet, GeoJSON. All of them produce text cells, so that the same parsing rules apply.

mod delimited;
mod geojson;
mod parquet;

use super::{EVENT_COLUMNS, TRACK_COLUMNS};
use crate::error::{ClimateError, Result};
use squall_data::{Calendar, DataError};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Some programs write it at the start of text files.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The format of a table, detected from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableFormat {
    /// Text with a header line.
    Delimited,
    /// Apache Parquet.
    Parquet,
    /// A GeoJSON feature collection.
    Geojson,
}

/// An open table.
pub(super) struct Opened {
    /// The columns of the rows.
    pub header: csv::StringRecord,
    /// Columns as named in the file, including ignored ones; for GeoJSON those of the first feature.
    pub names: Vec<String>,
    /// The name of a row in messages.
    pub unit: &'static str,
    /// The calendar, if the file states it.
    pub calendar: Option<Calendar>,
    /// The rows.
    pub rows: Box<dyn RowSource>,
}

/// An iterator over rows.
pub(super) trait RowSource {
    /// Reads the next row, with its position in the file; returns whether there was one.
    fn next_into(&mut self, cells: &mut csv::StringRecord) -> Result<bool>;
}

/// Opens a table of any format.
pub(super) fn open(path: &Path) -> Result<Opened> {
    match detect_format(path)? {
        TableFormat::Delimited => delimited::open(path),
        TableFormat::Parquet => parquet::open(path),
        TableFormat::Geojson => geojson::open(path),
    }
}

/// Detects the format of a file.
pub(crate) fn detect_format(path: &Path) -> Result<TableFormat> {
    let mut head = Vec::new();
    File::open(path)
        .map_err(DataError::io("open", path))?
        .take(64)
        .read_to_end(&mut head)
        .map_err(DataError::io("read", path))?;
    let start = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head);
    Ok(if start.starts_with(b"PAR1") {
        TableFormat::Parquet
    } else if start.trim_ascii_start().starts_with(b"{") {
        TableFormat::Geojson
    } else {
        TableFormat::Delimited
    })
}

/// Parses the calendar stated in a file.
fn calendar_of(path: &Path, name: &str) -> Result<Calendar> {
    Calendar::from_cf(name).ok_or_else(|| ClimateError::Table {
        path: path.into(),
        reason: format!("calendar: found `{name}`, which is none of CF"),
    })
}

/// Whether a column is known; others are ignored.
fn is_known(name: &str) -> bool {
    EVENT_COLUMNS.contains(&name) || TRACK_COLUMNS.contains(&name)
}

/// Sets the position of a row in the file, counted from 1.
fn with_position(cells: csv::StringRecord, row: u64) -> csv::StringRecord {
    let (mut cells, mut place) = (cells, csv::Position::new());
    place.set_line(row);
    cells.set_position(Some(place));
    cells
}
