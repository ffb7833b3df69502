//! Reads the coverage of a run from `statistics.nc`.

use crate::statistics::{COVERAGE, MISSING, RULES, STEP, TRANSPORT, WIND};
use squall_data::Class;
use std::path::Path;

/// The variables and attributes of `statistics.nc` that describe when and how a run was analysed.
pub(super) struct StoredCoverage {
    /// CF name of the calendar of the data.
    pub calendar: String,
    /// Names of the classes that were searched for, separated by blanks.
    pub classes: String,
    /// First and last analysed time; absent in files of earlier versions.
    pub ends: [Option<String>; 2],
    /// The usual interval of analysed times; absent in files of earlier versions and if there is none.
    pub step_hours: Option<f64>,
    /// Where the wind of cyclones is measured; absent in files of earlier versions.
    pub wind: Option<String>,
    /// The vapour transport by which rivers are ranked; absent in files of earlier versions.
    pub transport: Option<String>,
    /// Lines `name = value` of the rules of events and tracks; absent in files of earlier versions.
    pub rules: Option<String>,
    /// The share of the cells of masks that were missing; absent in files of earlier versions and of boxes.
    pub missing_share: Option<f64>,
    /// Latitudes of the grid.
    pub lat_deg: Vec<f64>,
    /// Longitudes of the grid.
    pub lon_deg: Vec<f64>,
    /// The year of each month with times.
    pub years: Vec<f64>,
    /// The number of each month in its year, 1 to 12.
    pub months: Vec<f64>,
    /// The number of analysed times of each month.
    pub times: Vec<f64>,
    /// The days of each month with analysed times, as bits; empty in files of earlier versions.
    pub days: Vec<f64>,
}

impl StoredCoverage {
    /// Reads a file; must run on the thread of the netCDF library.
    ///
    /// # Errors
    /// Errors of the library, or one that names the missing variable or attribute.
    pub(super) fn read(path: &Path) -> Result<Self, netcdf::Error> {
        let file = netcdf::open(path)?;
        let column = |name: &str| match file.variable(name) {
            Some(variable) => variable.get_values::<f64, _>(..),
            None => Err(netcdf::Error::from(format!("it has no variable `{name}`"))),
        };
        let text = |name: &str| match file.attribute(name).map(|a| a.value()) {
            Some(Ok(netcdf::AttributeValue::Str(text))) => Some(text),
            _ => None,
        };
        let number = |name: &str| match file.attribute(name).map(|a| a.value()) {
            Some(Ok(netcdf::AttributeValue::Double(number))) => Some(number),
            _ => None,
        };
        let calendar =
            text("calendar_of_the_data").ok_or("it has no attribute `calendar_of_the_data`")?;
        // Files of earlier versions lack the attribute; they covered all classes.
        let classes =
            text("classes_looked_for").unwrap_or_else(|| Class::EVENTS.map(Class::name).join(" "));
        let days = match file.variable("days") {
            Some(_) => column("days")?,
            None => Vec::new(),
        };
        Ok(Self {
            calendar,
            classes,
            ends: COVERAGE.map(text),
            step_hours: number(STEP),
            wind: text(WIND),
            transport: text(TRANSPORT),
            rules: text(RULES),
            missing_share: number(MISSING),
            years: column("year")?,
            months: column("month_of_year")?,
            times: column("times")?,
            lat_deg: column("lat")?,
            lon_deg: column("lon")?,
            days,
        })
    }
}
