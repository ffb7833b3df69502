//! Tables of tracks with one row per point: what the CSV formats share.

use super::imported::{ImportedPoint, Rows, TrackFormat, TrackTable};
use super::kinds::{Spurs, is_other, is_other_status};
use super::plausible::Plausible;
use super::units::{self, TELLING_WIND, wind_told};
use super::winds::{self, Winds};
use crate::error::{ClimateError, Result};
use crate::statistics::Basin;
use crate::table::lines::{Line, Table, plain_name};
use squall_data::cell::known;
use squall_data::{Calendar, Class, Time};
use std::path::Path;

/// How a tool names its columns, in lower case and without what stands in parentheses. Of several names the first that
/// the table has counts; of pressures the first that a row has, of winds one for each track ([`Winds`]).
pub(super) struct Dialect {
    /// What the file is.
    pub format: TrackFormat,
    /// Identity of the track.
    pub identity: &'static [&'static str],
    /// Name of the storm.
    pub name: &'static [&'static str],
    /// Date as text, or as a number with [`Source::time_units`].
    pub time: &'static [&'static str],
    /// Whether columns `year`, `month`, `day` (and `hour`, `minute`, `second`) come before `time`, if they have an hour.
    pub date_parts: bool,
    /// Longitude.
    pub lon: &'static [&'static str],
    /// Latitude.
    pub lat: &'static [&'static str],
    /// Wind.
    pub wind: &'static [&'static str],
    /// Metres per second of its unit, where its name tells none.
    pub wind_m_s: f64,
    /// Sea-level pressure.
    pub pressure: &'static [&'static str],
    /// Pascal of its unit.
    pub pressure_pa: f64,
    /// Season.
    pub season: &'static [&'static str],
    /// Basin, two letters.
    pub basin: &'static [&'static str],
    /// Main track or spur ([`Spurs`]).
    pub track_type: &'static [&'static str],
    /// Tropical or not ([`is_other`]).
    pub nature: &'static [&'static str],
    /// The same in the words of US agencies ([`is_other_status`]), for tables without the nature.
    pub status: &'static [&'static str],
}

/// The time axis of one file.
pub(super) struct Source<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its calendar.
    pub calendar: Calendar,
    /// CF units of a numeric `time`.
    pub time_units: Option<String>,
    /// The column of winds that a user chose, instead of those of the dialect.
    pub wind_column: Option<&'a str>,
}

/// What the columns of a dialect are called in a table.
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
    /// Only where there is no nature.
    status: Option<String>,
}

enum When {
    /// year, month, day, then hour, minute, second if there.
    Parts([String; 3], [Option<String>; 3]),
    /// A text or a number.
    Column(String),
}

impl Columns {
    fn of(table: &Table, dialect: &Dialect, source: &Source<'_>) -> Result<Self> {
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
            // Without an hour the parts are those of a day, and all of its points would be at midnight.
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

/// The tracks of a table whose columns are called as in a dialect.
///
/// # Errors
/// As [`super::read`].
pub(super) fn read(source: &Source<'_>, dialect: &Dialect) -> Result<TrackTable> {
    let mut table = Table::open(source.path, &[])?;
    let columns = Columns::of(&table, dialect, source)?;
    let factors = columns.wind.iter();
    let factors = factors.map(|name| wind_m_s(name, source.path, dialect));
    let factors = factors.collect::<Result<Vec<f64>>>()?;
    let mut rows = Rows::default();
    let mut plausible = Plausible::default();
    let mut winds = Winds::of(&columns.wind, source.wind_column.is_some());
    let mut spurs = Spurs::default();
    while let Some(line) = table.next()? {
        let name = line.cell(&columns.identity);
        let is_nameless = line.is_blank(&columns.identity);
        // IBTrACS has a row of units under the header, with no identity.
        if is_nameless && line.number(&columns.lat).is_err() {
            continue;
        }
        if is_nameless {
            return Err(line.bad(&columns.identity, "the identity of a track"));
        }
        // pandas writes whole numbers as 1207.0 where a column was once blank.
        let name = name.strip_suffix(".0").unwrap_or(name);
        let cell = |column: &Option<String>| column.as_ref().map(|name| line.cell(name));
        if cell(&columns.track_type).is_some_and(|kind| spurs.is_one(name, kind)) {
            continue;
        }
        let (lon_deg, lat_deg) = line.position(&columns.lon, &columns.lat)?;
        let winds_m_s = winds_of(&line, &columns, &factors, &mut plausible)?;
        let min_psl_pa = pressure_of(&line, &columns, dialect.pressure_pa, &mut plausible)?;
        let point = ImportedPoint {
            time: time_of(&line, &columns.time, source)?,
            lon_deg,
            lat_deg,
            // The winds are chosen when the track is whole.
            max_wind_m_s: None,
            other_wind: cell(&columns.nature).is_some_and(is_other)
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

/// The wind of a row in each of the columns of winds, m/s; `None` where a cell is blank or holds no plausible wind.
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

/// The first plausible pressure of a row, Pa; `unit_pa` is the unit of its columns of pressure.
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

/// Metres per second of the unit of a wind: the one that its name tells, else that of the dialect.
fn wind_m_s(name: &str, path: &Path, dialect: &Dialect) -> Result<f64> {
    let told = wind_told(name).map_err(|found| ClimateError::WindUnit {
        path: path.into(),
        column: name.into(),
        expected: TELLING_WIND,
        found,
    })?;
    Ok(told.unwrap_or(dialect.wind_m_s))
}

fn time_of(line: &Line<'_>, when: &When, source: &Source<'_>) -> Result<Time> {
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
                // Minutes and seconds may be blank; a point without an hour is not one of midnight.
                let value = match line.number(column)? {
                    None if place == 0 => return Err(line.bad(column, "an hour of the day")),
                    value => value.unwrap_or(0.0),
                };
                // Parts of a second are rounded, as TECA has 59.9999998 of hours in days; those of an hour or a minute
                // would give another time.
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
