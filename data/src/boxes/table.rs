//! `boxes.csv`: one row per box and time.
//!
//! Degrees have four decimals; unknown values are blank. A row with only a time means that this time was searched and
//! has no box, which distinguishes it from a time that was never labelled. Columns are found by name, in any order;
//! others are ignored. Longitudes may be in 0 to 360 or -180 to 180. Tables saved again from data frames are accepted:
//! NaN and NA are blank, 7.0 is a track id.

use super::fault::{BoxFault, edges};
use super::{BoxClass, BoxFrames, BoxSink, GeoBox, SinkSummary, TrackedBox};
use crate::atomic::TextFile;
use crate::cell::{digits, known};
use crate::error::{DataError, Result};
use crate::grid::wrapped;
use crate::{Calendar, Time};
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Smallest extent that four decimals can represent.
const LEAST_DEG: f64 = 1e-4;

/// The header.
const BOX_COLUMNS: [&str; 8] = [
    "class",
    "time",
    "west_deg",
    "south_deg",
    "east_deg",
    "north_deg",
    "confidence",
    "track_id",
];
/// Indices into [`BOX_COLUMNS`].
const CLASS: usize = 0;
const TIME: usize = 1;
const WEST: usize = 2;
const SOUTH: usize = 3;
const EAST: usize = 4;
const NORTH: usize = 5;
/// From here on columns are optional.
const CONFIDENCE: usize = 6;
const TRACK_ID: usize = 7;

/// Writes a table of boxes.
#[derive(Debug)]
pub struct BoxTableWriter {
    file: TextFile,
    done: SinkSummary,
    text: String,
}

impl BoxTableWriter {
    /// Creates the table.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = TextFile::create(&path)?;
        let mut writer = Self {
            file,
            done: SinkSummary::begun(path),
            text: header(),
        };
        writer.put()?;
        Ok(writer)
    }

    fn put(&mut self) -> Result<()> {
        self.file.write(&self.text)?;
        self.text.clear();
        Ok(())
    }
}

impl BoxSink for BoxTableWriter {
    fn write(&mut self, time: Time, boxes: &[TrackedBox]) -> Result<()> {
        boxes.iter().try_for_each(|found| found.geo.check())?;
        append_rows(time, boxes, &mut self.text);
        self.done.times += 1;
        self.done.boxes += boxes.len();
        self.put()
    }

    fn finish(self: Box<Self>) -> Result<SinkSummary> {
        self.file.finish()?;
        Ok(self.done)
    }
}

/// The header line.
pub fn header() -> String {
    BOX_COLUMNS.join(",") + "\n"
}

/// Appends the rows of a time to a table.
pub fn append_rows(time: Time, boxes: &[TrackedBox], table: &mut String) {
    // Writing to a string cannot fail.
    if boxes.is_empty() {
        let _ = writeln!(table, ",{time},,,,,,");
    }
    for TrackedBox { geo, track_id } in boxes {
        let text = |value: Option<String>| value.unwrap_or_default();
        let fixed = |degrees: f64| format!("{degrees:.4}");
        let (mut west, mut east) = (fixed(geo.west_deg), fixed(geo.east_deg));
        // A western edge in [0, 360) must not be rounded to 360, nor a sliver to the full circle.
        if west == "360.0000" {
            west = fixed(0.0);
            east = if east == "360.0000" { fixed(0.0) } else { east };
        }
        let (mut south, mut north) = (fixed(geo.south_deg), fixed(geo.north_deg));
        // Rounding must not remove its extent either: equal edges mean a sliver, or nearly the full circle.
        if east == west && geo.width_deg() > 180.0 {
            (west, east) = (fixed(0.0), fixed(360.0));
        } else if east == west {
            let turned = wrapped(geo.west_deg, 360.0 - LEAST_DEG / 2.0);
            east = fixed(turned + LEAST_DEG);
        }
        if north == south && geo.north_deg + LEAST_DEG <= 90.0 {
            north = fixed(geo.north_deg + LEAST_DEG);
        } else if north == south {
            south = fixed(geo.south_deg - LEAST_DEG);
        }
        let _ = writeln!(
            table,
            "{},{time},{west},{south},{east},{north},{},{}",
            geo.class.name(),
            text(geo.confidence.map(|value| value.to_string())),
            text(track_id.map(|id| id.to_string())),
        );
    }
}

/// Reads a table of boxes.
///
/// # Errors
/// [`DataError::BadBox`] naming line, fault, what was expected and what was found; [`DataError::MissingVariable`]
/// naming a column; [`DataError::Unreadable`] if it is not a table; [`DataError::Io`].
pub fn read_table(path: &Path, calendar: Calendar) -> Result<BoxFrames> {
    let rows: Result<Vec<_>> = BoxRows::open(path, calendar)?.collect();
    Ok(BoxFrames::collect(rows?))
}

/// Iterates over the rows of a table: a time, and a box unless the row says that there is none.
pub(super) struct BoxRows {
    path: PathBuf,
    calendar: Calendar,
    csv: csv::Reader<File>,
    record: csv::StringRecord,
    columns: [Option<usize>; BOX_COLUMNS.len()],
}

impl BoxRows {
    pub(super) fn open(path: &Path, calendar: Calendar) -> Result<Self> {
        let file = File::open(path).map_err(DataError::io("open", path))?;
        let mut csv = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(file);
        let header = csv.headers().map_err(|error| unreadable(path, &error))?;
        let names: Vec<String> = header
            .iter()
            // Spreadsheet programs start their files with a byte order mark.
            .map(|name| name.trim_start_matches('\u{feff}').to_string())
            .collect();
        let mut columns = [None; BOX_COLUMNS.len()];
        for (place, name) in columns.iter_mut().zip(BOX_COLUMNS) {
            *place = names.iter().position(|column| column == name);
        }
        if let Some(missing) = (0..CONFIDENCE).find(|&k| columns[k].is_none()) {
            return Err(DataError::MissingVariable {
                path: path.into(),
                variable: format!("column {}", BOX_COLUMNS[missing]),
                found: names,
            });
        }
        Ok(Self {
            path: path.into(),
            calendar,
            csv,
            record: csv::StringRecord::new(),
            columns,
        })
    }
}

impl Iterator for BoxRows {
    type Item = Result<(Time, Option<TrackedBox>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.csv.read_record(&mut self.record) {
            Ok(false) => return None,
            Ok(true) => {}
            Err(error) => return Some(Err(unreadable(&self.path, &error))),
        }
        let line = Line {
            path: &self.path,
            record: &self.record,
            columns: self.columns,
        };
        Some(line.parse(self.calendar))
    }
}

fn unreadable(path: &Path, error: &csv::Error) -> DataError {
    DataError::unreadable(path, error)
}

/// A line of a table.
struct Line<'a> {
    path: &'a Path,
    record: &'a csv::StringRecord,
    /// Position of each of [`BOX_COLUMNS`].
    columns: [Option<usize>; BOX_COLUMNS.len()],
}

impl Line<'_> {
    fn cell(&self, column: usize) -> &str {
        self.columns[column]
            .and_then(|k| self.record.get(k))
            .unwrap_or("")
    }

    fn is_blank(&self, column: usize) -> bool {
        known(self.cell(column)).is_empty()
    }

    fn bad(&self, fault: BoxFault, expected: &str, found: &str) -> DataError {
        let line = self.record.position().map_or(0, csv::Position::line);
        fault.at(self.path, format!("line {line}"), expected, found)
    }

    fn number(&self, column: usize) -> Result<f64> {
        let text = self.cell(column);
        let value = text.parse().ok().filter(|value: &f64| value.is_finite());
        value.ok_or_else(|| {
            let found = format!("{} `{text}`", BOX_COLUMNS[column]);
            self.bad(BoxFault::NoNumber, "a finite number", &found)
        })
    }

    fn parse(&self, calendar: Calendar) -> Result<(Time, Option<TrackedBox>)> {
        let date = self.cell(TIME);
        let time = Time::parse(date, calendar).map_err(|_| {
            let expected = format!("a date of the calendar {calendar} such as 1996-08-26T03:00:00");
            self.bad(BoxFault::NoTime, &expected, &format!("`{date}`"))
        })?;
        let mut others = (0..BOX_COLUMNS.len()).filter(|&column| column != TIME);
        if others.all(|column| self.is_blank(column)) {
            return Ok((time, None));
        }
        let name = self.cell(CLASS);
        let class = BoxClass::from_name(name).ok_or_else(|| {
            let all = BoxClass::ALL.map(BoxClass::name).join(", ");
            self.bad(BoxFault::UnknownClass, &all, &format!("`{name}`"))
        })?;
        let (west_deg, east_deg) = GeoBox::turned_deg(self.number(WEST)?, self.number(EAST)?);
        let confidence = if self.is_blank(CONFIDENCE) {
            None
        } else {
            let share = self.number(CONFIDENCE)? as f32;
            if !(0.0..=1.0).contains(&share) {
                let found = self.cell(CONFIDENCE);
                return Err(self.bad(BoxFault::NoConfidence, "a confidence from 0 to 1", found));
            }
            Some(share)
        };
        let geo = GeoBox {
            class,
            west_deg,
            south_deg: self.number(SOUTH)?,
            east_deg,
            north_deg: self.number(NORTH)?,
            confidence,
        };
        if let Some((fault, expected)) = BoxFault::find(&geo) {
            return Err(self.bad(fault, expected, &edges(&geo)));
        }
        let track_id = match known(self.cell(TRACK_ID)) {
            "" => None,
            text => Some(digits(text).parse().map_err(|_| {
                let found = format!("track_id `{text}`");
                self.bad(BoxFault::NoNumber, "a whole number", &found)
            })?),
        };
        Ok((time, Some(TrackedBox { geo, track_id })))
    }
}
