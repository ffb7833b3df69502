//! Start and lead times of forecasts, and fields whose time differs from the rest of their file.

use super::coordinates::TimeAxis;
use super::nc;
use crate::{Calendar, Time};
use netcdf::{File, Variable};
use std::path::Path;

/// Rank of names that may denote the start of a forecast.
const START: usize = 3;

/// Ranks names of time coordinates by how certainly they hold valid times, most certain first: xarray keeps the start
/// of a forecast next to them.
pub(super) fn rank_of(name: &str) -> usize {
    if name.starts_with("time") {
        0
    } else if name.starts_with("valid") {
        1
    } else if name.contains("reference") || name.contains("init") {
        START
    } else {
        2
    }
}

/// Whether a variable holds start times of forecasts, by the conventions of CF or cfgrib.
pub(super) fn is_start(variable: &Variable<'_>) -> bool {
    let long_name = nc::text(variable, "long_name").unwrap_or_default();
    nc::text(variable, "standard_name").as_deref() == Some("forecast_reference_time")
        || long_name.starts_with("initial time of forecast")
}

/// Whether a variable holds start times of forecasts, or has a name that suggests it, as in NCAR's archive.
pub(super) fn may_be_start(variable: &Variable<'_>) -> bool {
    is_start(variable) || rank_of(&variable.name().to_ascii_lowercase()) == START
}

/// Whether the times of an axis are valid times, as far as the file says: it declares them so, or the axis is CF's
/// `time` and the file has no different times that are called valid.
pub(super) fn is_valid_time(path: &Path, axis: &Variable<'_>, others: &[Variable<'_>]) -> bool {
    let differs = |other: &Variable<'_>| {
        let (own, values) = (nc::coordinate(path, axis), nc::coordinate(path, other));
        let is_same = own.is_ok_and(|own| values.is_ok_and(|values| own == values));
        !is_same || nc::text(axis, "units") != nc::text(other, "units")
    };
    let mut rivals = others.iter().filter(|other| is_called_valid(other));
    is_called_valid(axis) || is_time_of_cf(axis) && !rivals.any(differs)
}

/// Whether a variable has CF's standard name of valid times and is not marked as a start time elsewhere.
fn is_time_of_cf(variable: &Variable<'_>) -> bool {
    let text = |name: &str| nc::text(variable, name).unwrap_or_default();
    text("standard_name") == "time"
        && !may_be_start(variable)
        && !says_start(&text("long_name").to_ascii_lowercase())
}

/// Whether a long name denotes a start time; "time since initialization" does not.
fn says_start(long_name: &str) -> bool {
    let is_start = ["initial", "reference"].map(|word| long_name.contains(word));
    is_start.contains(&true) && !long_name.contains("since")
}

/// Whether a variable calls its times valid.
fn is_called_valid(variable: &Variable<'_>) -> bool {
    let long_name = nc::text(variable, "long_name").unwrap_or_default();
    let mut texts = [variable.name(), long_name].into_iter();
    texts.any(|text| text.to_ascii_lowercase().contains("valid"))
}

/// Whether a variable holds lead times, by the conventions of CF, cfgrib or NCAR's archive.
fn is_lead(variable: &Variable<'_>) -> bool {
    let text = |name: &str| nc::text(variable, name).unwrap_or_default();
    if text("standard_name") == "forecast_period" || variable.name() == "step" {
        return true;
    }
    let says = |text: String| {
        let text = text.to_ascii_lowercase().replace('_', " ");
        let is_called = |name: &str| text.contains(name);
        is_called("forecast hour")
            || is_called("forecast time")
            || text.split(' ').any(|word| word == "lead")
    };
    let is_date = Time::are_units(&text("units"));
    variable.dimensions().len() <= 1
        && !is_date
        && (says(variable.name()) || says(text("long_name")))
}

/// Describes a forecast's lead time; `None` without one.
pub(super) fn lead(path: &Path, file: &File) -> Option<String> {
    let mut leads = file.variables().filter(is_lead);
    leads.find_map(|lead| lead_of(path, &lead))
}

fn lead_of(path: &Path, lead: &Variable<'_>) -> Option<String> {
    let values = nc::coordinate(path, lead).ok()?;
    values.iter().any(|value| *value != 0.0).then(|| {
        let name = lead.name();
        format!("the time at which a forecast began, and `{name}` that is not 0")
    })
}

/// Why the times of an axis are not valid times; `None` if they are, as far as the file says.
pub(super) fn begins_before(path: &Path, file: &File, axis: &Variable<'_>) -> Option<String> {
    if is_start(axis) {
        return lead(path, file);
    }
    // A lead time with its own dimension applies only to the fields on that dimension.
    let leads = file.variables().filter(is_lead);
    let mut of_all = leads.filter(|lead| lead.dimensions().is_empty());
    if may_be_start(axis) {
        of_all.find_map(|lead| lead_of(path, &lead))
    } else {
        None
    }
}

/// A dimension of length 1 whose coordinate has another time than the rest of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OtherTime {
    pub dimension: String,
    pub found: String,
    /// Whether the coordinate is a lead time, which also shifts the times of a time axis.
    pub is_lead: bool,
}

/// The dimensions whose coordinates have another time than the rest of the file.
pub(super) fn other_times(path: &Path, file: &File, axis: &TimeAxis) -> Vec<OtherTime> {
    let mut found = Vec::new();
    for dimension in file.dimensions() {
        let name = dimension.name();
        if dimension.len() != 1 || axis.dimension.as_ref() == Some(&name) {
            continue;
        }
        let is_on = |v: &Variable<'_>| matches!(v.dimensions(), [one] if one.name() == name);
        let coordinates: Vec<Variable<'_>> = file.variables().filter(is_on).collect();
        let mut leads = coordinates.iter().filter(|v| is_lead(v));
        let lead = leads.find_map(|v| lead_of(path, v));
        let lead = lead.filter(|_| !axis.is_valid);
        let is_lead = lead.is_some();
        let time = || another_time(path, &coordinates, axis);
        if let Some(told) = lead.or_else(time) {
            found.push(OtherTime {
                dimension: name.clone(),
                found: told,
                is_lead,
            });
        }
    }
    found
}

/// The time of some coordinates, formatted, if none of them matches the axis.
fn another_time(path: &Path, coordinates: &[Variable<'_>], axis: &TimeAxis) -> Option<String> {
    let told = coordinates.iter().filter(|v| !may_be_start(v));
    let told: Vec<(String, Time)> = told
        .filter_map(|v| Some((v.name(), instant_of(path, v, axis.calendar)?)))
        .collect();
    let is_same = |(_, time): &(String, Time)| {
        let time = time.instant_in(axis.calendar);
        time.is_some_and(|time| axis.times == [time])
    };
    let (name, time) = told.first()?;
    let differs = !told.iter().any(is_same);
    differs.then(|| format!("`{name}`, which is {time}"))
}

/// The first time of a variable, in its own calendar or else the axis's; `None` if it is not a time axis.
fn instant_of(path: &Path, variable: &Variable<'_>, of_axis: Calendar) -> Option<Time> {
    let unit = nc::text(variable, "units").filter(|unit| Time::are_units(unit))?;
    let calendar = match nc::text(variable, "calendar") {
        Some(name) => Calendar::from_cf(&name)?,
        None => of_axis,
    };
    let values = nc::coordinate(path, variable).ok()?;
    Time::from_cf(*values.first()?, &unit, calendar).ok()
}
