//! Tables of tracks with one row per point: shared code of the CSV formats.

use super::imported::{ImportedPoint, TrackBuilder, TrackFormat, TrackTable};
use super::kinds::{Spurs, is_other_nature, is_other_status};
use super::plausible::Plausible;
use super::units::{self, EXPECTED_WIND_UNIT, wind_unit_of_name};
use super::winds::{self, Winds};
use crate::error::{ClimateError, Result};
use crate::statistics::Basin;
use crate::table::lines::{Line, Table, plain_name};
use squall_data::cell::known;
use squall_data::{Calendar, Class, Time};
use std::path::Path;

/// The column names of a tool, in lower case and without parentheses. The first name found in the table is used.
/// Exceptions: the first plausible pressure of a row, and one column of winds per track ([`Winds`]).
pub(super) struct Dialect {
    /// The format.
    pub format: TrackFormat,
    /// Identity of the track.
    pub identity: &'static [&'static str],
    /// Name of the storm.
    pub name: &'static [&'static str],
    /// Date as text, or as a number with [`TableSource::time_units`].
    pub time: &'static [&'static str],
    /// Whether columns `year`, `month`, `day` (and `hour`, `minute`, `second`) take precedence over `time`, if there is
    /// an hour.
    pub date_parts: bool,
    /// Longitude.
    pub lon: &'static [&'static str],
    /// Latitude.
    pub lat: &'static [&'static str],
    /// Wind.
    pub wind: &'static [&'static str],
    /// Unit of the wind in m/s, if its name does not state one.
    pub wind_m_s: f64,
    /// Sea-level pressure.
    pub pressure: &'static [&'static str],
    /// Unit of the pressure in Pa.
    pub pressure_pa: f64,
    /// Season.
    pub season: &'static [&'static str],
    /// Basin, two-letter code.
    pub basin: &'static [&'static str],
    /// Main track or spur ([`Spurs`]).
    pub track_type: &'static [&'static str],
    /// Nature: tropical or not ([`is_other_nature`]).
    pub nature: &'static [&'static str],
    /// Status in the codes of US agencies ([`is_other_status`]), for tables without nature.
    pub status: &'static [&'static str],
}

/// Facts about a file that its dialect does not determine.
pub(super) struct TableSource<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its calendar.
    pub calendar: Calendar,
    /// CF units of a numeric `time`.
    pub time_units: Option<String>,
    /// The wind column chosen by the user, instead of those of the dialect.
    pub wind_column: Option<&'a str>,
}

/// The columns of a table that match a dialect.
struct Columns {
    identity: String,
    name: Option<String>,
    lon: String,
    lat: String,
    time: When,
    wind: Vec<String>,
    pressure: Vec<String>,
    season: Option<String>,
    basin: Option<String>,
    track_type: Option<String>,
    nature: Option<String>,
    /// Only if there is no nature.
    status: Option<String>,
}

enum When {
    /// Year, month, day, then hour, minute, second if present.
    Parts([String; 3], [Option<String>; 3]),
    /// A text or a number.
    Column(String),
}

impl Columns {
    fn of(table: &Table, dialect: &Dialect, source: &TableSource<'_>) -> Result<Self> {
        let names = table.names();
        let one = |name: &str| {
            names
                .iter()
                .find(|known| plain_name(known) == name)
                .cloned()
        };
        let find = |wanted: &[&str]| wanted.iter().find_map(|name| one(name));
        let need = |wanted: &[&str]| {
            find(wanted).ok_or_else(|| ClimateError::Table {
                path: source.path.into(),
                reason: format!(
                    "line 1: expected a column `{}` as in {}, found {}",
                    wanted.join("` or `"),
                    dialect.format.name(),
                    names.join(", ")
                ),
            })
        };
        let all = |wanted: &[&str]| wanted.iter().filter_map(|name| one(name)).collect();
        let parts = || Some([one("year")?, one("month")?, one("day")?]);
        let clock = || [one("hour"), one("minute"), one("second")];
        let time = match (dialect.date_parts.then(parts).flatten(), find(dialect.time)) {
            // Without an hour, all points of a day would be at midnight.
            (Some(_), Some(column)) if one("hour").is_none() => When::Column(column),
            (Some(date), _) => When::Parts(date, clock()),
            (None, Some(column)) => When::Column(column),
            (None, None) if dialect.time.is_empty() => need(&["year"]).map(When::Column)?,
            (None, None) => When::Column(need(dialect.time)?),
        };
        let nature = find(dialect.nature);
        Ok(Self {
            identity: need(dialect.identity)?,
            name: find(dialect.name),
            lon: need(dialect.lon)?,
            lat: need(dialect.lat)?,
            time,
            wind: match source.wind_column {
                Some(asked) => vec![winds::named(source.path, names, asked)?],
                None => all(dialect.wind),
            },
            pressure: all(dialect.pressure),
            season: find(dialect.season),
            basin: find(dialect.basin),
            track_type: find(dialect.track_type),
            status: (nature.is_none()).then(|| find(dialect.status)).flatten(),
            nature,
        })
    }
}

/// Reads the tracks of a table whose columns match a dialect.
///
/// # Errors
/// Errors of [`super::read`].
pub(super) fn read(source: &TableSource<'_>, dialect: &Dialect) -> Result<TrackTable> {
    let mut table = Table::open(source.path, &[])?;
    let columns = Columns::of(&table, dialect, source)?;
    let factors = columns.wind.iter();
    let factors = factors.map(|name| wind_m_s(name, source.path, dialect));
    let factors = factors.collect::<Result<Vec<f64>>>()?;
    let mut rows = TrackBuilder::default();
    let mut plausible = Plausible::default();
    let mut winds = Winds::from_columns(&columns.wind, source.wind_column.is_some());
    let mut spurs = Spurs::default();
    while let Some(line) = table.next()? {
        let name = line.cell(&columns.identity);
        let is_nameless = line.is_blank(&columns.identity);
        // IBTrACS has a row of units below the header, without identity.
        if is_nameless && line.number(&columns.lat).is_err() {
            continue;
        }
        if is_nameless {
            return Err(line.bad(&columns.identity, "the identity of a track"));
        }
        // pandas writes integers as 1207.0 if a column contains blanks.
        let name = name.strip_suffix(".0").unwrap_or(name);
        let cell = |column: &Option<String>| column.as_ref().map(|name| line.cell(name));
        if cell(&columns.track_type).is_some_and(|kind| spurs.is_spur(name, kind)) {
            continue;
        }
        let (lon_deg, lat_deg) = line.position(&columns.lon, &columns.lat)?;
        let winds_m_s = winds_of(&line, &columns, &factors, &mut plausible)?;
        let min_psl_pa = pressure_of(&line, &columns, dialect.pressure_pa, &mut plausible)?;
        let point = ImportedPoint {
            time: time_of(&line, &columns.time, source)?,
            lon_deg,
            lat_deg,
            // Winds are chosen when the track is complete.
            max_wind_m_s: None,
            other_wind: cell(&columns.nature).is_some_and(is_other_nature)
                || cell(&columns.status).is_some_and(is_other_status),
            min_psl_pa,
        };
        let season = columns.season.as_ref().map(|name| line.number(name));
        let season = season.transpose()?;
        let basin = cell(&columns.basin);
        let track = rows.add(name, point, || {
            (
                Class::TropicalCyclone,
                season.flatten().map(|year| year as i64),
                basin.and_then(Basin::from_code),
            )
        });
        rows.call(track, cell(&columns.name).map_or("", known));
        winds.add(track, winds_m_s);
    }
    let mut found = rows.finish_with(dialect.format, winds);
    found.notes.extend(spurs.note());
    found.notes.extend(plausible.notes(dialect.format));
    let names = || table.names().iter().map(String::as_str);
    if columns.wind.is_empty() {
        found.notes.extend(units::unread_wind(names()));
    }
    if columns.pressure.is_empty() {
        found.notes.extend(units::unread_pressure(names()));
    }
    Ok(found)
}

/// The wind of a row in each wind column, m/s; `None` if a cell is blank or implausible.
fn winds_of(
    line: &Line<'_>,
    columns: &Columns,
    factors: &[f64],
    plausible: &mut Plausible,
) -> Result<Vec<Option<f64>>> {
    let mut winds_m_s = Vec::with_capacity(columns.wind.len());
    for (name, factor) in columns.wind.iter().zip(factors) {
        let value = line.number(name)?;
        winds_m_s.push(value.and_then(|value| plausible.wind(value * factor)));
    }
    Ok(winds_m_s)
}

/// The first plausible pressure of a row, Pa; `unit_pa` is the unit of the pressure columns.
fn pressure_of(
    line: &Line<'_>,
    columns: &Columns,
    unit_pa: f64,
    plausible: &mut Plausible,
) -> Result<Option<f64>> {
    for name in &columns.pressure {
        let value = line.number(name)?;
        let pressure_pa = value.and_then(|value| plausible.pressure(value * unit_pa));
        if pressure_pa.is_some() {
            return Ok(pressure_pa);
        }
    }
    Ok(None)
}

/// Unit of a wind in m/s: the one stated by its name, otherwise that of the dialect.
fn wind_m_s(name: &str, path: &Path, dialect: &Dialect) -> Result<f64> {
    let unit_m_s = wind_unit_of_name(name).map_err(|found| ClimateError::WindUnit {
        path: path.into(),
        column: name.into(),
        expected: EXPECTED_WIND_UNIT,
        found,
    })?;
    Ok(unit_m_s.unwrap_or(dialect.wind_m_s))
}

fn time_of(line: &Line<'_>, when: &When, source: &TableSource<'_>) -> Result<Time> {
    match when {
        When::Parts([year, month, day], clock) => {
            let whole = |column: &str, expected: &'static str| {
                let value = line.number(column)?.filter(|v| v.fract() == 0.0);
                value
                    .map(|v| v as i64)
                    .ok_or_else(|| line.bad(column, expected))
            };
            let (years, months, days) = (
                whole(year, "a year")?,
                whole(month, "a month from 1 to 12")?,
                whole(day, "a day of the month")?,
            );
            let mut hms = [0i64; 3];
            for (place, (slot, column)) in hms.iter_mut().zip(clock).enumerate() {
                let Some(column) = column else { continue };
                // Minute and second may be blank, but a missing hour is not midnight.
                let value = match line.number(column)? {
                    None if place == 0 => return Err(line.bad(column, "an hour of the day")),
                    value => value.unwrap_or(0.0),
                };
                // Fractions of a second are rounded, because TECA writes hours in days as 59.9999998. Fractions of an
                // hour or minute would mean another time.
                if place < 2 && value.fract() != 0.0 {
                    return Err(line.bad(column, "a whole number"));
                }
                if place == 2 && !(0.0..60.0).contains(&value) {
                    return Err(line.bad(column, "seconds from 0 to 59"));
                }
                *slot = value.round() as i64;
            }
            let [hour, minute, second] = hms;
            let time = Time::new(source.calendar, years, months, days, hour, minute, 0);
            let time = time.map(|time| time.add_seconds(second));
            time.map_err(|_| {
                let expected = "a day and time of day that the calendar has";
                line.bad_date(day, expected.into())
            })
        }
        When::Column(column) => {
            let text = line.cell(column);
            if let Ok(time) = Time::parse(text, source.calendar) {
                return Ok(time);
            }
            let expected = "a date such as 1996-08-26 03:00:00, or a number in a file that tells its time units";
            let (Some(units), Ok(Some(value))) = (&source.time_units, line.number(column)) else {
                return Err(line.bad(column, expected));
            };
            Time::from_cf(value, units, source.calendar)
                .map_err(|_| line.bad(column, "a number in the time units of the file"))
        }
    }
}
