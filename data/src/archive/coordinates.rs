//! The coordinates of a file: latitude, longitude, time and level axes, found by name or unit.

use super::{file_date, forecast, nc, time_mean, units};
use crate::calendar::are_date_numbers;
use crate::error::{DataError, Result};
use crate::grid::AxisOrder;
use crate::{Calendar, LatLonGrid, Time};
use netcdf::File;
use netcdf::types::{FloatType, NcVariableType};
use std::path::Path;

/// Latitude and longitude of a file, found by name or unit, and the resulting grid.
pub(crate) struct GridAxes {
    /// Name of the latitude dimension.
    pub lat: String,
    /// Name of the longitude dimension.
    pub lon: String,
    pub grid: LatLonGrid,
    /// How rows and columns of the file map to those of the grid.
    pub order: AxisOrder,
    /// Rows and columns in the file, before a repeated column is dropped.
    pub file_shape: (usize, usize),
}

impl GridAxes {
    /// Finds the axes and the grid of a file.
    ///
    /// # Errors
    /// [`DataError::MissingVariable`] or [`DataError::BadVariable`] if a coordinate is missing or not 1-D;
    /// [`DataError::Unreadable`] if they do not form a grid.
    pub(crate) fn of(path: &Path, file: &File) -> Result<Self> {
        let [lat, lon] = axes(path, file)?;
        let file_shape = (lat.values.len(), lon.values.len());
        let (grid, order) = LatLonGrid::from_axes(lat.values, lon.values)
            .map_err(|error| DataError::unreadable(path, error))?;
        Ok(Self {
            lat: lat.dimension,
            lon: lon.dimension,
            grid,
            order,
            file_shape,
        })
    }
}

/// One axis of a grid as stored in a file.
struct Axis {
    dimension: String,
    /// Degrees.
    values: Vec<f64>,
}

/// Finds latitude and longitude, each with its own dimension.
fn axes(path: &Path, file: &File) -> Result<[Axis; 2]> {
    let lat = find_axis(
        path,
        file,
        "latitude",
        &["lat", "latitude", "nav_lat"],
        &[
            "degrees_north",
            "degree_north",
            "degrees_n",
            "degree_n",
            "degreesn",
            "degreen",
        ],
    )?;
    let lon = find_axis(
        path,
        file,
        "longitude",
        &["lon", "longitude", "nav_lon"],
        &[
            "degrees_east",
            "degree_east",
            "degrees_e",
            "degree_e",
            "degreese",
            "degreee",
        ],
    )?;
    if lat.dimension == lon.dimension {
        return Err(DataError::bad_variable(
            path,
            &lat.dimension,
            "latitude and longitude with dimensions of their own",
            format!(
                "{} columns of an unstructured grid, which must be regridded first",
                lat.values.len()
            ),
        ));
    }
    Ok([lat, lon])
}

/// Finds the axis of `what` by its name or unit.
fn find_axis(path: &Path, file: &File, what: &str, names: &[&str], units: &[&str]) -> Result<Axis> {
    let is = |variable: &netcdf::Variable<'_>| {
        let name = variable.name().to_ascii_lowercase();
        let unit = nc::text(variable, "units")
            .unwrap_or_default()
            .to_ascii_lowercase();
        names.contains(&name.as_str()) || units.contains(&unit.as_str())
    };
    // A coordinate variable (named as its dimension) wins over auxiliary ones such as slat.
    let best = file.variables().filter(is).min_by_key(|v| {
        let own = v.dimensions().len() == 1 && v.dimensions()[0].name() == v.name();
        let named = names.contains(&v.name().to_ascii_lowercase().as_str());
        (!own, !named)
    });
    let Some(found) = best else {
        return Err(nc::missing(path, file, what));
    };
    let [dimension] = found.dimensions() else {
        return Err(DataError::bad_variable(
            path,
            found.name(),
            format!("a {what} axis of one dimension"),
            format!(
                "{} dimensions (curvilinear or rotated grids must be regridded first)",
                found.dimensions().len()
            ),
        ));
    };
    let mut values = nc::coordinate(path, &found)?;
    let unit = nc::text(&found, "units").unwrap_or_default();
    if unit.to_ascii_lowercase().starts_with("rad") {
        values.iter_mut().for_each(|v| *v = v.to_degrees());
    }
    Ok(Axis {
        dimension: dimension.name(),
        values,
    })
}

/// A file's time axis.
pub(crate) struct TimeAxis {
    pub dimension: Option<String>,
    pub times: Vec<Time>,
    pub calendar: Calendar,
    /// Whether the file declares these to be the valid times of its fields.
    pub is_valid: bool,
    pub problems: Vec<String>,
}

/// The time axis of a file, or the time in its name if it has no axis and holds one time.
///
/// # Errors
/// [`DataError::Time`] or [`DataError::BadVariable`] if the axis is invalid, there is no date at all, or there are
/// several times without an axis.
pub(crate) fn time_axis(path: &Path, file: &File) -> Result<TimeAxis> {
    let mut problems = Vec::new();
    let is_time = |v: &netcdf::Variable<'_>| {
        let unit = nc::text(v, "units").unwrap_or_default();
        v.dimensions().len() <= 1 && Time::are_units(&unit)
    };
    let mut candidates: Vec<_> = file.variables().filter(is_time).collect();
    candidates.sort_by_key(|v| {
        let own = v.dimensions().first().is_some_and(|d| d.name() == v.name());
        let name = v.name().to_ascii_lowercase();
        (forecast::is_start(v), !own, forecast::rank_of(&name))
    });
    let has_start = candidates.iter().skip(1).any(forecast::may_be_start);
    let Some((axis, others)) = candidates.split_first() else {
        return time_of_name(path, file);
    };
    let bad =
        |expected: &str, found: String| DataError::bad_variable(path, axis.name(), expected, found);
    let calendar = match nc::text(axis, "calendar") {
        Some(name) => {
            Calendar::from_cf(&name).ok_or_else(|| bad("a CF calendar", format!("`{name}`")))?
        }
        None => {
            problems.push("the time axis names no calendar: `standard` is assumed".to_string());
            Calendar::Standard
        }
    };
    let unit = nc::text(axis, "units").unwrap_or_default();
    if are_date_numbers(&unit) && axis.vartype() == NcVariableType::Float(FloatType::F32) {
        let found = "numbers of f32, which have no room for all digits of a date";
        return Err(bad("dates as numbers of f64", found.into()));
    }
    let values = nc::coordinate(path, axis)?;
    // 0 is the origin of the axis, even if the fill value is 0.
    let unwritten = nc::unwritten(axis).filter(|value| *value != 0.0);
    if let Some(at) = values.iter().position(|value| Some(*value) == unwritten) {
        let found = format!("the fill value as number {at}: no time was written there");
        return Err(bad("a time for each step", found));
    }
    let times = values
        .iter()
        .map(|&value| {
            Time::from_cf(value, &unit, calendar).map_err(|e| bad("a time", e.to_string()))
        })
        .collect::<Result<Vec<_>>>()?;
    if times.is_empty() {
        return Err(bad("at least one time", "none".into()));
    }
    if let Some(lead) = forecast::begins_before(path, file, axis) {
        return Err(bad("the time that fields are valid at", lead));
    }
    if !times.windows(2).all(|pair| pair[0] < pair[1]) {
        return Err(bad("times that rise", "times that repeat or fall".into()));
    }
    let ends = time_mean::end_of_interval_warning(path, file, axis, &times);
    problems.extend(ends.map(str::to_string));
    let dimension = axis.dimensions().first().map(|d| d.name());
    Ok(TimeAxis {
        dimension,
        times,
        calendar,
        is_valid: forecast::is_valid_time(path, axis, others)
            || has_start && !forecast::may_be_start(axis),
        problems,
    })
}

/// The time axis of a file without one: the time in its name, if the file holds a single time.
fn time_of_name(path: &Path, file: &File) -> Result<TimeAxis> {
    let Some(time) = file_date::from_name(path) else {
        return Err(DataError::Time(format!(
            "`{}` has no time axis and no date in its name that tells a time",
            path.display()
        )));
    };
    let is_time = |dimension: &netcdf::Dimension<'_>| {
        let name = dimension.name().to_ascii_lowercase();
        dimension.is_unlimited() || ["time", "times", "valid_time", "t"].contains(&name.as_str())
    };
    let mut dimensions = file.dimensions();
    if let Some(many) = dimensions.find(|dimension| is_time(dimension) && dimension.len() > 1) {
        let (name, count) = (many.name(), many.len());
        return Err(DataError::bad_variable(
            path,
            &name,
            format!(
                "a time, in units such as `days since 2000-01-01`, for each of the {count} steps of dimension `{name}`"
            ),
            "no such variable, and a file name tells one time only",
        ));
    }
    Ok(TimeAxis {
        dimension: file.dimension("time").map(|d| d.name()),
        times: vec![time],
        calendar: time.calendar(),
        is_valid: false,
        problems: vec!["no time axis: the time is taken from the file name".to_string()],
    })
}

/// A level axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelAxis {
    pub dimension: String,
    /// Pressures in Pa; for hybrid levels only their order is meaningful.
    pub pressure_pa: Vec<f64>,
    /// Whether these are terrain-following model levels: they have no constant pressure, but the last one is the lowest
    /// level of the channels.
    pub hybrid: bool,
    /// Whether values increase upwards, as heights do, rather than downwards, as pressures do.
    pub upward: bool,
}

impl LevelAxis {
    /// Index of the level nearest to a pressure, within one percent.
    pub(crate) fn at_hpa(&self, hpa: f64) -> Option<usize> {
        nearest_level(&self.pressure_pa, hpa, hpa)
    }

    /// Index of the lowest level.
    pub(crate) fn lowest(&self) -> Option<usize> {
        let levels = 0..self.pressure_pa.len();
        let by_value = |a: &usize, b: &usize| self.pressure_pa[*a].total_cmp(&self.pressure_pa[*b]);
        if self.upward {
            levels.min_by(by_value)
        } else {
            levels.max_by(by_value)
        }
    }
}

/// Index of the pressure nearest to `hpa`, if less than `within_pa` away.
pub(super) fn nearest_level(pressure_pa: &[f64], hpa: f64, within_pa: f64) -> Option<usize> {
    let distances = pressure_pa.iter().map(|p| (p - hpa * 100.0).abs());
    let near = distances.enumerate().filter(|(_, far)| *far < within_pa);
    near.min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(level, _)| level)
}

/// Names of level axes that may lack a unit.
const LEVEL_NAMES: [&str; 9] = [
    "lev",
    "level",
    "plev",
    "pressure",
    "isobaric",
    "pressure_level",
    "lev_p",
    "isobaricinhpa",
    "p",
];

/// The pressure and hybrid level axes of a file.
pub(crate) fn level_axes(path: &Path, file: &File) -> Vec<LevelAxis> {
    let axes = file.variables().filter(|v| v.dimensions().len() == 1);
    axes.filter_map(|v| level_axis(path, &v)).collect()
}

/// Pressures in scalar coordinates, by name: remnants of an axis from which one level was selected.
pub(crate) fn picked_levels(path: &Path, file: &File) -> Vec<(String, LevelAxis)> {
    let scalars = file.variables().filter(|v| v.dimensions().is_empty());
    let levels = scalars.filter_map(|v| Some((v.name(), level_axis(path, &v)?)));
    levels.filter(|(_, level)| !level.hybrid).collect()
}

/// Interprets the variable as a level axis, if it is one; a scalar has no dimension.
fn level_axis(path: &Path, v: &netcdf::Variable<'_>) -> Option<LevelAxis> {
    let named = LEVEL_NAMES.contains(&v.name().to_ascii_lowercase().as_str());
    let dimension = match v.dimensions() {
        [dimension] if named || dimension.name() == v.name() => dimension.name(),
        [] if named => String::new(),
        _ => return None,
    };
    let text = |name: &str| nc::text(v, name).unwrap_or_default().to_ascii_lowercase();
    let (unit, positive, standard) = (text("units"), text("positive"), text("standard_name"));
    let (follows, numbered) = (follows_terrain(v), numbers_levels(v));
    let factor = units::conversion("Pa", &unit).map(|to_pa| to_pa.factor);
    // ERA5 files of different ages have "millibars" or no unit at all.
    let without_unit = numbered || named && (unit.is_empty() || follows);
    let factor = factor.or_else(|| without_unit.then_some(100.0))?;
    let values = nc::coordinate(path, v).ok()?;
    let counted = unit.is_empty() && is_count(&values);
    let directed = ["up", "down"].contains(&positive.as_str());
    if counted && !follows && !numbered && !directed {
        // Neither pressures nor a known direction.
        return None;
    }
    let upward = match positive.as_str() {
        "up" => true,
        "down" => false,
        _ => standard.contains("height"),
    };
    Some(LevelAxis {
        dimension,
        pressure_pa: values.into_iter().map(|p| p * factor).collect(),
        hybrid: follows || numbered || counted,
        // CAM's hybrid levels are labelled with pressures and may have `positive = up`, contrary to their values.
        upward: upward && !standard.contains("pressure"),
    })
}

/// Whether levels follow the terrain: pressures on their axis, as FV3 writes them, then only hold over the sea.
fn follows_terrain(v: &netcdf::Variable<'_>) -> bool {
    let says = |attribute: &str| {
        let text = nc::text(v, attribute).unwrap_or_default();
        let text = text.to_ascii_lowercase();
        ["hybrid", "sigma", "ref full pressure"]
            .iter()
            .any(|word| text.contains(word))
    };
    let edges = nc::text(v, "edges").unwrap_or_default();
    says("standard_name")
        || v.name().eq_ignore_ascii_case("pfull")
        || edges.eq_ignore_ascii_case("phalf")
        || says("long_name")
        || says("units")
        || v.attribute("formula_terms").is_some()
}

/// Whether an axis holds model level numbers, as ecCodes' `grib_to_netcdf` writes them: without a unit, under a name
/// that elsewhere means pressures. They count downwards unless `positive` says otherwise.
fn numbers_levels(v: &netcdf::Variable<'_>) -> bool {
    let says = |attribute: &str| {
        let text = nc::text(v, attribute).unwrap_or_default();
        let text = text.to_ascii_lowercase().replace('_', " ");
        text.contains("model level")
    };
    says("long_name") || says("standard_name")
}

/// Whether the numbers are 1, 2, 3, and so on.
fn is_count(values: &[f64]) -> bool {
    let mut numbered = values.iter().zip(1u32..);
    numbered.all(|(value, number)| *value == f64::from(number))
}
