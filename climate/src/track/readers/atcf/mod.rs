//! Decks of ATCF, the forecasting system of US agencies: best tracks (b-decks), and forecasts of one model.

mod survey;
#[cfg(test)]
mod tests;

use super::agency_text::{Cells, Degrees, Ocean, Report, digits, each_line};
use super::imported::{MAX_STEP_SECONDS, TrackBuilder, TrackFormat, TrackTable};
use super::plausible::Plausible;
use crate::error::Result;
use squall_data::{Calendar, Class, Time};
use std::collections::HashMap;
use std::path::Path;
use survey::{Content, survey};

/// Columns of a line; the longitude follows the latitude.
const BASIN: usize = 0;
const NUMBER: usize = 1;
const DATE: usize = 2;
const MINUTES: usize = 3;
const TECHNIQUE: usize = 4;
const LEAD: usize = 5;
const LAT: usize = 6;
const WIND: usize = 8;
const PRESSURE: usize = 9;
const STATUS: usize = 10;
const NAME: usize = 27;

/// The technique code of best tracks.
const BEST: &str = "BEST";

/// Reads lines such as `AL, 09, 2021082612,   , BEST,   0, 165N,  789W,  30, 1006, TD,  34, NEQ, ...`, of one or many
/// storms. A point has one line per wind radius (34, 50 and 64 kt). Winds are in knots, pressures in hPa; 0 means
/// missing. Lines of old decks end after the wind.
///
/// A track is named by basin, number and season of its storm, such as `AL092021`. Southern seasons begin in July, and a
/// storm that continues after the end of its season keeps its name. Winds of extratropical points and disturbances are
/// dropped, as for IBTrACS ([`super::kinds`]).
///
/// In files of forecasts (a-decks, output of the GFDL vortex tracker), each technique and each start time has its own
/// track of a storm; only files with one technique and one start time are accepted. The lead time is in hours, or in
/// hundredths of hours if it has five digits, as in the tracker's `fort.69`.
///
/// # Source
/// NRL, "Best Track/Objective Aid/Wind Radii Format"; GFDL vortex tracker, `output_atcfunix`.
///
/// # Errors
/// Errors of [`super::read`]; [`crate::ClimateError::ManyForecasts`] if there are several techniques or start times.
pub(super) fn read(path: &Path) -> Result<TrackTable> {
    let mut reader = Reader {
        path,
        content: survey(path)?,
        storms: HashMap::new(),
        lost: 0,
        rows: TrackBuilder::default(),
        plausible: Plausible::default(),
    };
    each_line(path, |line, text| reader.read_line(line, text))?;
    Ok(reader.finish())
}

/// Whether a line belongs to a deck; used to recognise the format.
pub(super) fn is_line(line: &str) -> bool {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [code, number, date, minutes, technique, lead, ..] = cells[..] else {
        return false;
    };
    code.len() == 2
        && code.bytes().all(|byte| byte.is_ascii_uppercase())
        && is_number(number)
        && digits(date, 10).is_some()
        && minutes.len() <= 2
        && !technique.is_empty()
        && lead.parse::<i64>().is_ok()
}

/// Whether a text is the number of a storm: two digits, or up to four if the GFDL tracker found the storm.
fn is_number(text: &str) -> bool {
    (2..=4).any(|count| digits(text, count).is_some())
}

/// The latest point of a storm whose lines are being read.
struct Storm {
    time: Time,
    line: u64,
    lon_deg: f64,
    lat_deg: f64,
    knots: Option<f64>,
}

struct Reader<'a> {
    path: &'a Path,
    content: Content,
    /// Storms by identity.
    storms: HashMap<String, Storm>,
    /// Number of points without a position.
    lost: usize,
    rows: TrackBuilder,
    plausible: Plausible,
}

impl Reader<'_> {
    fn read_line(&mut self, line: u64, text: &str) -> Result<()> {
        let cells = Cells::split(self.path, line, text);
        if cells.count() <= WIND {
            return Err(cells.unexpected_layout("a line of ATCF from the basin to the wind"));
        }
        let ocean = Ocean::from_code(cells.get(BASIN));
        let ocean = ocean.ok_or_else(|| cells.bad("basin", BASIN, Ocean::CODES))?;
        if !is_number(cells.get(NUMBER)) {
            return Err(cells.bad("number", NUMBER, "the number of the storm, two digits"));
        }
        if self.content == Content::BestTracks && cells.get(TECHNIQUE) != BEST {
            let expected = "BEST as in the first line: a file has best tracks or forecasts";
            return Err(cells.bad("technique", TECHNIQUE, expected));
        }
        let start = start_of(&cells)?;
        let time = self.valid(&cells, start)?;
        if self.content == Content::Forecast && has_zero_position(&cells) {
            self.lost += 1;
            return Ok(());
        }
        let (lon_deg, lat_deg) = cells.position(LAT, ocean, Degrees::Tenths)?;
        if lon_deg == 0.0 && lat_deg == 0.0 {
            return Err(cells.bad("lat", LAT, "a position, which 0N 0E is not"));
        }
        // Zero means unknown.
        let knots = cells.measure("wind", WIND)?.filter(|knots| *knots > 0.0);
        let hpa = cells.measure("pressure", PRESSURE)?;
        let status = cells.status(STATUS)?;
        let (id, season) = self.identity(&cells, ocean, start, time);
        let storm = Storm {
            time,
            line,
            lon_deg,
            lat_deg,
            knots,
        };
        if self.is_known(&id, &storm, &cells)? {
            return Ok(());
        }
        self.storms.insert(id.clone(), storm);
        let report = Report {
            time,
            lon_deg,
            lat_deg,
            wind_knots: knots,
            pressure_hpa: hpa,
            status,
        };
        let point = report.point(&mut self.plausible);
        let track = self.rows.add(&id, point, || {
            let basin = ocean.basin(lon_deg, lat_deg);
            (Class::TropicalCyclone, Some(season), basin)
        });
        // Forecast files have numbers in this column.
        if self.content == Content::BestTracks {
            self.rows.call(track, cells.get(NAME));
        }
        Ok(())
    }

    /// The valid time of a line.
    fn valid(&self, cells: &Cells<'_>, start: Time) -> Result<Time> {
        let text = cells.get(LEAD);
        let hours = text.parse::<i64>().ok().filter(|_| text.len() <= 4);
        let hundredths = digits(text, 5).map(|lead| lead * 36);
        let seconds = hours.map(|lead| lead * 3600).or(hundredths);
        match (self.content, seconds) {
            (Content::Forecast, Some(seconds)) => Ok(start.add_seconds(seconds)),
            (Content::Forecast, None) => {
                let expected = "hours of lead time, or hundredths of them in five digits";
                Err(cells.bad("lead time", LEAD, expected))
            }
            (Content::BestTracks, Some(0)) => {
                let text = cells.get(MINUTES);
                let minutes = match text {
                    "" => Some(0),
                    _ => digits(text, 2).filter(|minutes| *minutes < 60),
                };
                let bad = || cells.bad("minutes", MINUTES, "blank, or minutes from 00 to 59");
                Ok(start.add_seconds(minutes.ok_or_else(bad)? * 60))
            }
            (Content::BestTracks, _) => Err(cells.bad("lead time", LEAD, "0 in a best track")),
        }
    }

    /// The name and season of the storm of a line.
    fn identity(&self, cells: &Cells<'_>, ocean: Ocean, start: Time, time: Time) -> (String, i64) {
        let id = |season: i64| format!("{}{}{season:04}", cells.get(BASIN), cells.get(NUMBER));
        let season = ocean.season(start);
        let before = id(season - 1);
        let storm = self.storms.get(&before);
        match storm.map(|storm| time.seconds_since(storm.time).abs() <= MAX_STEP_SECONDS) {
            Some(true) => (before, season - 1),
            _ => (id(season), season),
        }
    }

    /// Whether a line only adds a wind radius to the last point of its storm.
    fn is_known(&self, id: &str, now: &Storm, cells: &Cells<'_>) -> Result<bool> {
        let Some(last) = self.storms.get(id) else {
            return Ok(false);
        };
        let ahead = now.time.seconds_since(last.time);
        if ahead < 0 {
            let (column, place) = match self.content {
                Content::BestTracks => ("date", DATE),
                Content::Forecast => ("lead time", LEAD),
            };
            let expected = "a time that is not before that of the line above of the same storm";
            return Err(cells.bad(column, place, expected));
        }
        let is_same =
            (now.lon_deg, now.lat_deg, now.knots) == (last.lon_deg, last.lat_deg, last.knots);
        if ahead == 0 && !is_same {
            let line = last.line;
            let expected = format!("position and wind of line {line}, of the same storm and time");
            return Err(cells.unexpected_layout(&expected));
        }
        Ok(ahead == 0)
    }

    fn finish(self) -> TrackTable {
        let mut table = self.rows.finish(TrackFormat::Atcf);
        table.notes.extend(self.plausible.notes(TrackFormat::Atcf));
        if self.lost > 0 {
            table.notes.push(format!(
                "{} lines have no position, where the forecast lost its storm, and are left out",
                self.lost
            ));
        }
        table
    }
}

/// The date of a line: the time of a best track, the start time of a forecast.
fn start_of(cells: &Cells<'_>) -> Result<Time> {
    let bad = || cells.bad("date", DATE, "a date yyyymmddhh");
    let date = digits(cells.get(DATE), 10).ok_or_else(bad)?;
    let (year, month, day) = (date / 1_000_000, date / 10_000 % 100, date / 100 % 100);
    Time::new(Calendar::Standard, year, month, day, date % 100, 0, 0).map_err(|_| bad())
}

/// Whether the position of a line is zero, with or without hemisphere letters.
fn has_zero_position(cells: &Cells<'_>) -> bool {
    let is_zero = |text: &str| text.trim_end_matches(['N', 'S', 'E', 'W']).trim_end() == "0";
    is_zero(cells.get(LAT)) && is_zero(cells.get(LAT + 1))
}
