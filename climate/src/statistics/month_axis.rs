//! The months of `statistics.nc` as a CF time coordinate.

use crate::statistics::MonthCounts;
use netcdf::FileMut;
use squall_data::{Calendar, Time};

/// The `coordinates` attribute of variables by month.
pub(super) const COORDINATES: &str = "time year month_of_year";

/// Adds `time(month)`, the middle of each month, and its bounds.
///
/// It is an auxiliary coordinate because the dimension is called `month`.
///
/// # Errors
/// Errors of the netCDF library, and an error for a month that the calendar does not have.
pub(super) fn put(
    file: &mut FileMut,
    months: &[MonthCounts],
    calendar: Calendar,
) -> netcdf::Result<()> {
    let Some(first) = months.first() else {
        return Ok(());
    };
    let reference = start(calendar, first.year, first.month)?;
    let mut bounds = Vec::with_capacity(2 * months.len());
    for month in months {
        let (year, next) = match month.month {
            12 => (month.year + 1, 1),
            before => (month.year, before + 1),
        };
        bounds.push(start(calendar, month.year, month.month)?.days_since(reference));
        bounds.push(start(calendar, year, next)?.days_since(reference));
    }
    let middles: Vec<f64> = (bounds.chunks_exact(2))
        .map(|ends| (ends[0] + ends[1]) / 2.0)
        .collect();
    file.add_dimension("bounds", 2)?;
    let mut time = file.add_variable::<f64>("time", &["month"])?;
    time.put_attribute("standard_name", "time")?;
    time.put_attribute("long_name", "middle of the month")?;
    time.put_attribute("units", reference.cf_units())?;
    time.put_attribute("calendar", calendar.cf_name())?;
    time.put_attribute("bounds", "time_bounds")?;
    time.put_values(&middles, ..)?;
    let mut ends = file.add_variable::<f64>("time_bounds", &["month", "bounds"])?;
    ends.put_values(&bounds, ..)
}

fn start(calendar: Calendar, year: i64, month: i64) -> netcdf::Result<Time> {
    Time::new(calendar, year, month, 1, 0, 0, 0)
        .map_err(|error| netcdf::Error::Str(error.to_string()))
}
