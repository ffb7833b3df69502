//! Best tracks of the US National Hurricane Center in its text format HURDAT2.

#[cfg(test)]
mod tests;

use super::agency_text::{Cells, Degrees, Ocean, Report, digits, each_line, unexpected_layout};
use super::imported::{TrackBuilder, TrackFormat, TrackTable};
use super::plausible::Plausible;
use crate::error::Result;
use squall_data::{Calendar, Class, Time};
use std::collections::HashSet;
use std::path::Path;

/// The columns of a row; older files lack the last one.
const COLUMNS: [&str; 21] = [
    "date",
    "time",
    "record",
    "status",
    "lat",
    "lon",
    "wind",
    "pressure",
    "radius of 34 kt, NE",
    "radius of 34 kt, SE",
    "radius of 34 kt, SW",
    "radius of 34 kt, NW",
    "radius of 50 kt, NE",
    "radius of 50 kt, SE",
    "radius of 50 kt, SW",
    "radius of 50 kt, NW",
    "radius of 64 kt, NE",
    "radius of 64 kt, SE",
    "radius of 64 kt, SW",
    "radius of 64 kt, NW",
    "radius of the highest wind",
];

/// Column indices. The longitude follows the latitude; all columns from the wind on are numeric.
const RECORD: usize = 2;
const STATUS: usize = 3;
const LAT: usize = 4;
const WIND: usize = 6;

/// Codes for rows between regular hours: closest approach, genesis, intensity, landfall, lowest pressure, detail of the
/// intensity, change of status, detail of the track, highest wind.
const RECORDS: [&str; 10] = ["", "C", "G", "I", "L", "P", "R", "S", "T", "W"];

/// The expected layout of a header.
const HEADER: &str = "a header such as `AL122005, KATRINA, 34,`";

/// Reads headers such as `AL092021, IDA, 40,`, each followed by that many rows: `20210829, 1655, L, HU, 29.1N,  90.2W,
/// 130,  931, ...` in knots and hPa.
///
/// A track is named by the identity of its storm, such as `AL092021`. Winds of extratropical points and disturbances
/// are dropped, as for IBTrACS ([`super::kinds`]).
///
/// # Source
/// NHC, "The revised Atlantic hurricane database (HURDAT2)", and its Pacific counterpart; Landsea and Franklin 2013,
/// doi:10.1175/MWR-D-12-00254.1.
///
/// # Errors
/// Errors of [`super::read`].
pub(super) fn read(path: &Path) -> Result<TrackTable> {
    let mut reader = Reader {
        path,
        line: 0,
        storm: None,
        seen: HashSet::new(),
        rows: TrackBuilder::default(),
        plausible: Plausible::default(),
    };
    each_line(path, |line, text| reader.read_line(line, text))?;
    reader.finish()
}

/// Whether a line is a header; used to recognise the format.
pub(super) fn is_header(line: &str) -> bool {
    let line = line.strip_suffix(',').unwrap_or(line);
    let id = line.split(',').next().unwrap_or("").trim();
    let parts = id.split_at_checked(2);
    line.split(',').count() == 3
        && parts.is_some_and(|(code, number)| {
            code.bytes().all(|byte| byte.is_ascii_uppercase()) && digits(number, 6).is_some()
        })
}

/// The storm being read.
struct Storm {
    id: String,
    name: String,
    season: i64,
    ocean: Ocean,
    /// Line of its header.
    line: u64,
    /// Number of missing rows.
    left: u64,
    /// Time of its last row.
    last: Option<Time>,
}

struct Reader<'a> {
    path: &'a Path,
    line: u64,
    storm: Option<Storm>,
    seen: HashSet<String>,
    rows: TrackBuilder,
    plausible: Plausible,
}

impl Reader<'_> {
    fn read_line(&mut self, line: u64, text: &str) -> Result<()> {
        self.line = line;
        let cells = Cells::split(self.path, line, text);
        let is_row = text.starts_with(|c: char| c.is_ascii_digit());
        if is_row {
            self.row(&cells)
        } else {
            self.end_storm(text)?;
            self.begin(&cells)
        }
    }

    fn begin(&mut self, cells: &Cells<'_>) -> Result<()> {
        if cells.count() != 3 {
            return Err(cells.unexpected_layout(HEADER));
        }
        let id = cells.get(0);
        let parts = || {
            digits(id.get(2..4)?, 2)?;
            Some((Ocean::from_code(id.get(..2)?)?, digits(id.get(4..)?, 4)?))
        };
        let Some((ocean, season)) = parts() else {
            let expected = "basin, number and year of a storm such as AL122005";
            return Err(cells.bad("storm", 0, expected));
        };
        if !self.seen.insert(id.into()) {
            return Err(cells.bad("storm", 0, "a storm that is not above"));
        }
        let left = cells.get(2).parse::<u64>().ok().filter(|rows| *rows > 0);
        self.storm = Some(Storm {
            id: id.into(),
            name: cells.get(1).into(),
            season,
            ocean,
            line: self.line,
            left: left.ok_or_else(|| cells.bad("rows", 2, "the number of its rows"))?,
            last: None,
        });
        Ok(())
    }

    fn row(&mut self, cells: &Cells<'_>) -> Result<()> {
        let storm = self.storm.as_mut().filter(|storm| storm.left > 0);
        let storm = storm.ok_or_else(|| cells.unexpected_layout(HEADER))?;
        if !(COLUMNS.len() - 1..=COLUMNS.len()).contains(&cells.count()) {
            return Err(cells.unexpected_layout("a row of 20 or 21 values"));
        }
        let columns = || COLUMNS.into_iter().enumerate().take(cells.count());
        if let Some((place, column)) =
            columns().find(|(place, _)| *place != RECORD && cells.get(*place).is_empty())
        {
            return Err(cells.bad(
                column,
                place,
                "a value, or -99 or -999 where it is not known",
            ));
        }
        let time = time_of(cells)?;
        match storm.last {
            Some(last) if time.seconds_since(last) <= 0 => {
                let column = if time.midnight() == last.midnight() {
                    ("time", 1)
                } else {
                    ("date", 0)
                };
                return Err(cells.bad(column.0, column.1, "one after that of the row above"));
            }
            None if time.year() != storm.season => {
                return Err(cells.bad("date", 0, "one in the year of the storm"));
            }
            _ => {}
        }
        if !RECORDS.contains(&cells.get(RECORD)) {
            let expected = "none, or one of C, G, I, L, P, R, S, T, W";
            return Err(cells.bad(COLUMNS[RECORD], RECORD, expected));
        }
        let status = cells.status(STATUS)?;
        let (lon_deg, lat_deg) = cells.position(LAT, storm.ocean, Degrees::Decimal)?;
        let mut measures = [None; 2];
        for (place, column) in columns().skip(WIND) {
            let value = cells.measure(column, place)?;
            if let Some(slot) = measures.get_mut(place - WIND) {
                *slot = value;
            }
        }
        let [wind_knots, pressure_hpa] = measures;
        let report = Report {
            time,
            lon_deg,
            lat_deg,
            wind_knots,
            pressure_hpa,
            status,
        };
        let point = report.point(&mut self.plausible);
        (storm.left, storm.last) = (storm.left - 1, Some(time));
        let basin = storm.ocean.basin(lon_deg, lat_deg);
        let track = self.rows.add(&storm.id, point, || {
            (Class::TropicalCyclone, Some(storm.season), basin)
        });
        self.rows.call(track, &storm.name);
        Ok(())
    }

    /// Fails if a storm is incomplete.
    fn end_storm(&self, found: &str) -> Result<()> {
        match &self.storm {
            Some(Storm { left, line, .. }) if *left > 0 => {
                let expected = format!("{left} more rows of the storm of line {line}");
                Err(unexpected_layout(self.path, self.line, &expected, found))
            }
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<TrackTable> {
        self.end_storm("the end of the file")?;
        let mut table = self.rows.finish(TrackFormat::Hurdat2);
        table
            .notes
            .extend(self.plausible.notes(TrackFormat::Hurdat2));
        Ok(table)
    }
}

/// The time of a row.
fn time_of(cells: &Cells<'_>) -> Result<Time> {
    let bad_date = || cells.bad("date", 0, "a date yyyymmdd");
    let date = digits(cells.get(0), 8).ok_or_else(bad_date)?;
    let clock = digits(cells.get(1), 4).filter(|clock| clock / 100 < 24 && clock % 100 < 60);
    let clock = clock.ok_or_else(|| cells.bad("time", 1, "a time of day hhmm"))?;
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let (hour, minute) = (clock / 100, clock % 100);
    Time::new(Calendar::Standard, year, month, day, hour, minute, 0).map_err(|_| bad_date())
}
