//! What one file offers: its grid, its times, and where each channel is found.

use super::alias::{self, HUMIDITY, Match};
use super::nc::{self, Decoder};
use super::{file_date, units};
use crate::error::{DataError, Result};
use crate::grid::AxisOrder;
use crate::{Calendar, LatLonGrid, Time, Variable};
use netcdf::{Extent, File};
use std::path::{Path, PathBuf};

/// What a dimension of a variable means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Role {
    Time,
    Lat,
    Lon,
    Level,
    /// A dimension of length 1 that says nothing (height = 2 m, ensemble member).
    Single,
}

/// Where a channel is found in a file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The variable's name in the file.
    pub name: String,
    /// The index of its pressure level, if it has levels.
    pub level: Option<usize>,
    /// What is not quite the channel, in words.
    pub proxy: Option<&'static str>,
    pub roles: Vec<Role>,
    pub decoder: Decoder,
}

impl Source {
    /// The extents of the plane at a time index (and a level index).
    pub(crate) fn extents(&self, time: usize, level: Option<usize>) -> Vec<Extent> {
        let at = |role: &Role| match role {
            Role::Lat | Role::Lon => Extent::from(..),
            Role::Time => Extent::from(time),
            Role::Level => Extent::from(level.or(self.level).unwrap_or(0)),
            Role::Single => Extent::from(0),
        };
        self.roles.iter().map(at).collect()
    }

    /// Whether longitude varies slower than latitude in the file.
    pub(crate) fn is_transposed(&self) -> bool {
        let place = |role| self.roles.iter().position(|r| *r == role);
        place(Role::Lon) < place(Role::Lat)
    }
}

/// A field on pressure levels.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    pub pressure_pa: Vec<f64>,
    pub source: Source,
}

/// What one file offers.
#[derive(Debug)]
pub(crate) struct FileInfo {
    pub path: PathBuf,
    pub grid: LatLonGrid,
    pub order: AxisOrder,
    /// Extents in the file, before a repeated column is dropped.
    pub file_shape: (usize, usize),
    pub times: Vec<Time>,
    pub calendar: Calendar,
    pub channels: Vec<(Variable, Source)>,
    pub humidity: Option<Levels>,
    /// Sentences for the user: guesses, proxies.
    pub problems: Vec<String>,
}

/// Coordinates found by name, axis attribute or unit.
pub(crate) struct Axes {
    pub lat: (String, Vec<f64>),
    pub lon: (String, Vec<f64>),
}

/// The 1-D latitude and longitude axes of a file.
///
/// # Errors
/// [`DataError::MissingVariable`] or [`DataError::BadVariable`] saying which coordinate is not there or not 1-D.
pub(crate) fn axes(path: &Path, file: &File) -> Result<Axes> {
    let find = |what: &str, names: &[&str], units: &[&str]| {
        let is = |variable: &netcdf::Variable<'_>| {
            let name = variable.name().to_ascii_lowercase();
            let unit = nc::text(variable, "units")
                .unwrap_or_default()
                .to_ascii_lowercase();
            names.contains(&name.as_str()) || units.contains(&unit.as_str())
        };
        let mut candidates: Vec<_> = file.variables().filter(is).collect();
        // A coordinate variable (named as its dimension) wins over auxiliary ones such as slat.
        candidates.sort_by_key(|v| {
            let own = v.dimensions().len() == 1 && v.dimensions()[0].name() == v.name();
            (
                !own,
                !names.contains(&v.name().to_ascii_lowercase().as_str()),
            )
        });
        let Some(found) = candidates.into_iter().next() else {
            let found = file.variables().map(|v| v.name()).take(30).collect();
            return Err(DataError::MissingVariable {
                path: path.into(),
                variable: what.to_string(),
                found,
            });
        };
        if found.dimensions().len() != 1 {
            return Err(DataError::BadVariable {
                path: path.into(),
                variable: found.name(),
                expected: format!("a {what} axis of one dimension"),
                found: format!(
                    "{} dimensions (curvilinear or rotated grids must be regridded first)",
                    found.dimensions().len()
                ),
            });
        }
        Ok((found.dimensions()[0].name(), nc::coordinate(path, &found)?))
    };
    Ok(Axes {
        lat: find(
            "latitude",
            &["lat", "latitude", "nav_lat"],
            &["degrees_north", "degree_north", "degrees_n"],
        )?,
        lon: find(
            "longitude",
            &["lon", "longitude", "nav_lon"],
            &["degrees_east", "degree_east", "degrees_e"],
        )?,
    })
}

/// A file's time axis.
pub(crate) struct TimeAxis {
    pub dimension: Option<String>,
    pub times: Vec<Time>,
    pub calendar: Calendar,
    pub problems: Vec<String>,
}

/// The time axis of a file; from its name if it has none.
///
/// # Errors
/// [`DataError::Time`] or [`DataError::BadVariable`] if an axis is there but makes no sense, or there is no date at all.
pub(crate) fn time_axis(path: &Path, file: &File) -> Result<TimeAxis> {
    let mut problems = Vec::new();
    let is_time = |v: &netcdf::Variable<'_>| {
        let unit = nc::text(v, "units").unwrap_or_default();
        v.dimensions().len() <= 1 && unit.to_ascii_lowercase().contains(" since ")
    };
    let mut candidates: Vec<_> = file.variables().filter(is_time).collect();
    candidates.sort_by_key(|v| {
        let own = v.dimensions().first().is_some_and(|d| d.name() == v.name());
        (!own, !v.name().to_ascii_lowercase().starts_with("time"))
    });
    let Some(axis) = candidates.into_iter().next() else {
        return match file_date::from_name(path) {
            Some(time) => {
                problems.push("no time axis: the time is taken from the file name".to_string());
                let dimension = file.dimension("time").map(|d| d.name());
                Ok(TimeAxis {
                    dimension,
                    times: vec![time],
                    calendar: time.calendar(),
                    problems,
                })
            }
            None => Err(DataError::Time(format!(
                "`{}` has no time axis and no date in its name",
                path.display()
            ))),
        };
    };
    let bad = |expected: &str, found: String| DataError::BadVariable {
        path: path.into(),
        variable: axis.name(),
        expected: expected.into(),
        found,
    };
    let calendar = match nc::text(&axis, "calendar") {
        Some(name) => {
            Calendar::from_cf(&name).ok_or_else(|| bad("a CF calendar", format!("`{name}`")))?
        }
        None => {
            problems.push("the time axis names no calendar: `standard` is assumed".to_string());
            Calendar::from_cf("standard").expect("a known word")
        }
    };
    let unit = nc::text(&axis, "units").unwrap_or_default();
    let values = nc::coordinate(path, &axis)?;
    let times = values
        .iter()
        .map(|&value| {
            Time::from_cf(value, &unit, calendar).map_err(|e| bad("a time", e.to_string()))
        })
        .collect::<Result<Vec<_>>>()?;
    if times.is_empty() {
        return Err(bad("at least one time", "none".into()));
    }
    if !times.windows(2).all(|pair| pair[0] < pair[1]) {
        return Err(bad("times that rise", "times that repeat or fall".into()));
    }
    let dimension = axis.dimensions().first().map(|d| d.name());
    Ok(TimeAxis {
        dimension,
        times,
        calendar,
        problems,
    })
}

/// The roles of a variable's dimensions, if it is a field on the grid.
fn roles(
    variable: &netcdf::Variable<'_>,
    axes: &Axes,
    time: Option<&str>,
    levels: &[(String, Vec<f64>)],
) -> Option<Vec<Role>> {
    let role = |dimension: &netcdf::Dimension<'_>| {
        let name = dimension.name();
        if name == axes.lat.0 {
            Some(Role::Lat)
        } else if name == axes.lon.0 {
            Some(Role::Lon)
        } else if Some(name.as_str()) == time {
            Some(Role::Time)
        } else if levels.iter().any(|(level, _)| *level == name) {
            Some(Role::Level)
        } else {
            (dimension.len() == 1).then_some(Role::Single)
        }
    };
    let roles: Vec<Role> = variable
        .dimensions()
        .iter()
        .map(role)
        .collect::<Option<_>>()?;
    (roles.contains(&Role::Lat) && roles.contains(&Role::Lon)).then_some(roles)
}

/// The pressure axes of a file: dimension and pressures in Pa.
fn pressure_axes(path: &Path, file: &File) -> Vec<(String, Vec<f64>)> {
    let axis = |v: netcdf::Variable<'_>| {
        let [dimension] = v.dimensions() else {
            return None;
        };
        let named = [
            "lev",
            "level",
            "plev",
            "pressure",
            "isobaric",
            "pressure_level",
            "lev_p",
            "isobaricinhpa",
        ];
        let named = named.contains(&v.name().to_ascii_lowercase().as_str());
        let hybrid = nc::text(&v, "standard_name")
            .is_some_and(|n| n.contains("hybrid") || n.contains("sigma"));
        let unit = nc::text(&v, "units").unwrap_or_default();
        let factor = units::conversion("Pa", &unit).map(|(factor, _)| factor);
        // ERA5 files of some ages write "millibars" or nothing at all.
        let factor = factor.or_else(|| (named && unit.is_empty()).then_some(100.0))?;
        if hybrid || dimension.name() != v.name() && !named {
            return None;
        }
        let values = nc::coordinate(path, &v).ok()?;
        Some((
            dimension.name(),
            values.into_iter().map(|p| p * factor).collect(),
        ))
    };
    file.variables().filter_map(axis).collect()
}

/// Looks at a file.
///
/// # Errors
/// Whatever makes it unusable, naming file and variable.
pub(crate) fn scan(path: &Path) -> Result<FileInfo> {
    let file = nc::open(path)?;
    let axes = axes(path, &file)?;
    let file_shape = (axes.lat.1.len(), axes.lon.1.len());
    let (grid, order) =
        LatLonGrid::from_axes(axes.lat.1.clone(), axes.lon.1.clone()).map_err(|error| {
            DataError::Unreadable {
                path: path.into(),
                reason: error.to_string(),
            }
        })?;
    let TimeAxis {
        dimension,
        times,
        calendar,
        mut problems,
    } = time_axis(path, &file)?;
    let pressure = pressure_axes(path, &file);
    let mut channels: Vec<(Variable, Source)> = Vec::new();
    let mut humidity = None;
    for variable in file.variables() {
        let name = variable.name();
        let is_humidity = HUMIDITY.contains(&name.to_ascii_lowercase().as_str());
        let found = alias::matches(&name);
        if found.is_empty() && !is_humidity || !nc::is_numeric(&variable) {
            continue;
        }
        let Some(roles) = roles(&variable, &axes, dimension.as_deref(), &pressure) else {
            continue;
        };
        let level_axis = roles.iter().position(|r| *r == Role::Level);
        let pressures = level_axis.and_then(|at| {
            let name = variable.dimensions()[at].name();
            pressure
                .iter()
                .find(|(level, _)| *level == name)
                .map(|(_, p)| p.clone())
        });
        let unit = nc::text(&variable, "units");
        let source = |target: &str, level, proxy| {
            let unit = unit.clone().unwrap_or_else(|| target.to_string());
            let conversion =
                units::conversion(target, &unit).ok_or_else(|| DataError::BadVariable {
                    path: path.into(),
                    variable: name.clone(),
                    expected: format!("a unit that converts to {target}"),
                    found: format!("`{unit}`"),
                })?;
            let decoder = Decoder::new(&variable, conversion);
            Ok(Source {
                name: name.clone(),
                level,
                proxy,
                roles: roles.clone(),
                decoder,
            })
        };
        if let (true, Some(pressure_pa)) = (is_humidity, &pressures) {
            humidity = Some(Levels {
                pressure_pa: pressure_pa.clone(),
                source: source("kg kg-1", None, None)?,
            });
        }
        for (channel, kind) in found {
            let (level, proxy) = match (kind, &pressures) {
                (Match::Same, None) => (None, None),
                (Match::Proxy(difference), None) => (None, Some(difference)),
                (Match::Level(hpa), Some(pressures)) => {
                    let near = |p: &f64| (p - hpa * 100.0).abs() < hpa;
                    match pressures.iter().position(near) {
                        Some(level) => (Some(level), None),
                        None => continue,
                    }
                }
                _ => continue,
            };
            if unit.is_none() {
                problems.push(format!(
                    "`{name}` names no unit: {} is assumed",
                    channel.entry().unit
                ));
            }
            let source = source(channel.entry().unit, level, proxy)?;
            // The channel itself wins over a level, a level over a proxy.
            let rank = |s: &Source| (s.proxy.is_some(), s.level.is_some());
            match channels.iter_mut().find(|(known, _)| *known == channel) {
                Some((_, known)) if rank(&source) < rank(known) => *known = source,
                Some(_) => {}
                None => channels.push((channel, source)),
            }
        }
    }
    for (channel, source) in &channels {
        if let Some(difference) = source.proxy {
            problems.push(format!(
                "{channel} is read from `{}`: {difference}",
                source.name
            ));
        }
    }
    channels.sort_by_key(|(channel, _)| *channel);
    Ok(FileInfo {
        path: path.into(),
        grid,
        order,
        file_shape,
        times,
        calendar,
        channels,
        humidity,
        problems,
    })
}
