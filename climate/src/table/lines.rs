//! Reads tables: cells by column name, with errors that state the location.

use super::sources::{self, Opened};
use crate::error::{ClimateError, Result};
use squall_data::cell::{digits, known};
use squall_data::grid::eastern_longitude;
use squall_data::{Calendar, Class, Time};
use std::path::{Path, PathBuf};

const CLASSES: &str =
    "tropical_cyclone, atmospheric_river, extratropical_cyclone or tropical_depression";
const EXPECTED_LONGITUDE: &str = "a longitude in degrees";

/// Normalises a column name of another tool: lower case, without quotes and TECA's type codes.
pub(crate) fn plain_name(name: &str) -> String {
    let name = name.trim().trim_matches('"');
    let name = name.split('(').next().unwrap_or(name);
    name.trim().to_ascii_lowercase()
}

/// An open table: CSV, Parquet or GeoJSON, as detected from its first bytes.
pub(crate) struct Table {
    path: PathBuf,
    opened: Opened,
    cells: csv::StringRecord,
}

impl Table {
    /// Opens a table that must have the required columns.
    pub fn open(path: &Path, required: &[&str]) -> Result<Self> {
        let table = Self {
            path: path.into(),
            opened: sources::open(path)?,
            cells: csv::StringRecord::new(),
        };
        let names = &table.opened.names;
        let is_there = |name: &&&str| names.iter().any(|known| known == *name);
        if let Some(missing) = required.iter().find(|name| !is_there(name)) {
            return Err(ClimateError::MissingColumn {
                path: path.into(),
                unit: table.opened.unit,
                column: (*missing).into(),
                found: names.clone(),
            });
        }
        Ok(table)
    }

    /// The calendar of its dates, if the file states it.
    pub fn calendar(&self) -> Option<Calendar> {
        self.opened.calendar
    }

    /// Names of the columns as in the file.
    pub fn names(&self) -> &[String] {
        &self.opened.names
    }

    /// Index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.opened.header.iter().position(|column| column == name)
    }

    /// The next line; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Line<'_>>> {
        let more = self.opened.rows.next_into(&mut self.cells)?;
        Ok(more.then_some(Line { table: self }))
    }
}

/// One line of a table.
pub(crate) struct Line<'a> {
    table: &'a Table,
}

impl Line<'_> {
    /// Whether a cell is blank or its column absent.
    pub fn is_blank(&self, column: &str) -> bool {
        self.known(column).is_empty()
    }

    /// The text of a cell; empty for a missing-value marker.
    fn known(&self, column: &str) -> &str {
        known(self.cell(column))
    }

    /// The text of a cell; empty if there is no such column.
    pub fn cell(&self, column: &str) -> &str {
        let index = self.table.column(column);
        index.and_then(|k| self.table.cells.get(k)).unwrap_or("")
    }

    /// An error for a cell.
    pub fn bad(&self, column: &str, expected: &'static str) -> ClimateError {
        ClimateError::TableCell {
            path: self.table.path.clone(),
            unit: self.table.opened.unit,
            line: self.table.cells.position().map_or(0, csv::Position::line),
            column: column.into(),
            expected,
            found: self.cell(column).into(),
        }
    }

    /// An error for a cell that is not a date in its calendar.
    pub fn bad_date(&self, column: &str, expected: String) -> ClimateError {
        ClimateError::TableDate {
            path: self.table.path.clone(),
            unit: self.table.opened.unit,
            line: self.table.cells.position().map_or(0, csv::Position::line),
            column: column.into(),
            expected,
            found: self.cell(column).into(),
        }
    }

    /// A number; `None` if missing.
    pub fn number(&self, column: &str) -> Result<Option<f64>> {
        let text = self.known(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Some(value)),
            _ => Err(self.bad(column, "a finite number")),
        }
    }

    /// A string; `None` if missing.
    pub fn text(&self, column: &str) -> Option<String> {
        let text = self.known(column);
        (!text.is_empty()).then(|| text.to_string())
    }

    /// A non-negative integer; `None` if missing.
    pub fn whole(&self, column: &str) -> Result<Option<u64>> {
        let text = self.known(column);
        if text.is_empty() {
            return Ok(None);
        }
        let value = digits(text).parse();
        value
            .map(Some)
            .map_err(|_| self.bad(column, "a whole number that is not negative"))
    }

    /// 0 or 1; `None` if missing.
    pub fn flag(&self, column: &str) -> Result<Option<bool>> {
        match digits(self.known(column)) {
            "" => Ok(None),
            "0" => Ok(Some(false)),
            "1" => Ok(Some(true)),
            _ => Err(self.bad(column, "0 or 1")),
        }
    }

    /// A rank from 0 to 5; `None` if missing.
    pub fn rank(&self, column: &str) -> Result<Option<u8>> {
        match self.whole(column)? {
            None => Ok(None),
            Some(rank @ 0..=5) => Ok(Some(rank as u8)),
            Some(_) => Err(self.bad(column, "a rank from 0 to 5")),
        }
    }

    /// Identities separated by blanks.
    pub fn list(&self, column: &str) -> Result<Vec<u64>> {
        let parts = self.known(column).split_whitespace();
        let ids: std::result::Result<_, _> = parts.map(|id| digits(id).parse::<u64>()).collect();
        ids.map_err(|_| self.bad(column, "identities of tracks with blanks between them"))
    }

    /// A longitude in [0, 360); `None` if missing.
    pub fn longitude(&self, column: &str) -> Result<Option<f64>> {
        let lon_deg = self.number(column)?;
        if lon_deg.is_some_and(|v| v.abs() > 720.0) {
            return Err(self.bad(column, EXPECTED_LONGITUDE));
        }
        Ok(lon_deg.map(eastern_longitude))
    }

    /// A longitude in [0, 360), and a latitude.
    pub fn position(&self, lon: &str, lat: &str) -> Result<(f64, f64)> {
        let lon_deg = self
            .longitude(lon)?
            .ok_or_else(|| self.bad(lon, EXPECTED_LONGITUDE))?;
        let lat_deg = self
            .number(lat)?
            .filter(|v| v.abs() <= 90.0)
            .ok_or_else(|| self.bad(lat, "a latitude from -90 to 90"))?;
        Ok((lon_deg, lat_deg))
    }

    /// The date in a column.
    pub fn time(&self, column: &str, calendar: Calendar) -> Result<Time> {
        Time::parse(self.cell(column), calendar).map_err(|_| {
            let name = calendar.cf_name();
            let expected = format!("a date of the calendar {name} such as 1996-08-26T03:00:00");
            self.bad_date(column, expected)
        })
    }

    /// The class in the column `class`.
    pub fn class(&self) -> Result<Class> {
        self.word("class", &Class::TRACKED, Class::name)?
            .ok_or_else(|| self.bad("class", CLASSES))
    }

    /// One of several words; `None` if missing.
    pub fn word<T: Copy>(
        &self,
        column: &str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Option<T>> {
        let text = self.known(column);
        if text.is_empty() {
            return Ok(None);
        }
        let found = all.iter().copied().find(|&item| name(item) == text);
        let expected = match column {
            "class" => CLASSES,
            "origin" => "genesis, split or start_of_data",
            _ => "lysis, merge or end_of_data",
        };
        found.map(Some).ok_or_else(|| self.bad(column, expected))
    }
}
