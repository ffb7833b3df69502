//! Detects time means whose times are the ends of their intervals.

use super::nc;
use crate::Time;
use crate::calendar::DAY_SECONDS;
use netcdf::{File, Variable};
use std::path::Path;

/// What is to be said of means over days and months whose times are the ends of these.
const STAND_AT_ENDS: &str = "fields are means over a day or longer, and their times are the ends of that: the mean of \
                             31 January is counted as one of 1 February";

/// Returns a warning if fields are means over a day or longer, labelled with the end of the interval, as in CESM's
/// history files.
pub(super) fn end_of_interval_warning(
    path: &Path,
    file: &File,
    axis: &Variable<'_>,
    times: &[Time],
) -> Option<&'static str> {
    let is_mean = |v: Variable<'_>| {
        let methods = nc::text(&v, "cell_methods").unwrap_or_default();
        methods.contains("time: mean")
    };
    if !file.variables().any(is_mean) {
        return None;
    }
    let name = nc::text(axis, "bounds").unwrap_or_else(|| "time_bnds".into());
    let bounds = file.variable(&name)?;
    // Bounds without a unit have the axis's.
    let unit = nc::text(&bounds, "units").or_else(|| nc::text(axis, "units"))?;
    let ends = nc::coordinate(path, &bounds).ok()?;
    let is_at_end = |(time, ends): (&Time, &[f64])| {
        let at = |value: f64| Time::from_cf(value, &unit, time.calendar()).ok();
        let from_begin = at(ends[0]).map(|begin| time.seconds_since(begin));
        at(ends[1]) == Some(*time) && from_begin.is_some_and(|seconds| seconds >= DAY_SECONDS)
    };
    let is_whole = ends.len() == 2 * times.len();
    // The first interval of a CESM run is empty.
    (is_whole && times.iter().zip(ends.chunks_exact(2)).any(is_at_end)).then_some(STAND_AT_ENDS)
}
