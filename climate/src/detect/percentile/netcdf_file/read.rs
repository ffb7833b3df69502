//! Reads a climatology from netCDF. The file may be damaged, or no climatology.

use super::{
    BLOCK, CALENDAR, COMPUTATION, INPUT, LEVELS, MOISTURE, PERCENTILE, SPACING, THRESHOLD,
    TRANSPORT, UNITS, VARIABLES, WINDOW,
};
use crate::detect::percentile::saved::refused;
use crate::detect::percentile::{
    ClimateOrigin, Moisture, MoistureRecord, MonthlyThresholds, PercentileThresholds,
    SavedClimatology,
};
use crate::error::{ClimateError, Result};
use crate::statistics::COVERAGE;
use ndarray::Array2;
use netcdf::{AttributeValue, File};
use squall_data::archive::on_library_thread;
use squall_data::snapshot::shape_text;
use squall_data::{DataError, LatLonGrid};
use std::path::Path;
use std::sync::Arc;

impl SavedClimatology {
    /// Reads a file that [`Self::write`] wrote.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if the file is missing or damaged, [`ClimateError::Climatology`] if it is no climatology
    /// or its content is invalid.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // netCDF does not distinguish missing from damaged files.
        std::fs::metadata(path).map_err(DataError::io("open", path))?;
        on_library_thread(|| Stored::open(path)?.climatology())
    }
}

/// An open file.
pub(super) struct Stored<'p> {
    path: &'p Path,
    /// The library's handle.
    pub file: File,
}

impl<'p> Stored<'p> {
    /// Opens a file.
    pub fn open(path: &'p Path) -> Result<Self> {
        let file = netcdf::open(path).map_err(|error| unreadable(path, &error))?;
        Ok(Self { path, file })
    }

    fn climatology(&self) -> Result<SavedClimatology> {
        let Some(threshold) = self.file.variable(THRESHOLD) else {
            let expected = "thresholds that `squall label --method percentile` wrote";
            let found = "none";
            return Err(self.refused(format!("variable `{THRESHOLD}`"), expected, found));
        };
        let rules = self.rules()?;
        let units = match threshold.attribute_value("units") {
            Some(Ok(AttributeValue::Str(text))) => text,
            _ => "none".into(),
        };
        if units != rules.moisture.units() {
            let what = format!("units of `{THRESHOLD}`");
            return Err(self.refused(what, rules.moisture.units(), units));
        }
        let grid = self.grid()?;
        let months = self.months()?;
        let [height, width] = [self.count(BLOCK[0])?, self.count(BLOCK[1])?];
        if height == 0 || width == 0 {
            let found = format!("{height} x {width}");
            return Err(self.refused("cells of a block", "at least 1 x 1", found));
        }
        let (rows, columns) = grid.shape();
        let (rows, columns) = (rows.div_ceil(height), columns.div_ceil(width));
        let expected = [months.len(), rows, columns];
        let dimensions = threshold.dimensions().iter();
        let found: Vec<usize> = dimensions.map(|dimension| dimension.len()).collect();
        if found != expected {
            let what = format!("values of `{THRESHOLD}`");
            return Err(self.refused(what, shape_text(&expected), shape_text(&found)));
        }
        let times = self.times(months.len())?;
        let values = threshold.get_values::<f32, _>(..);
        let values = values.map_err(|error| unreadable(self.path, &error))?;
        let floor = rules.floor() as f32;
        if let Some(low) = values.iter().find(|value| **value < floor) {
            let what = format!("values of `{THRESHOLD}`");
            return Err(self.refused(what, format!("{floor} or more"), low));
        }
        let mut usual = MonthlyThresholds {
            planes: Default::default(),
            block: (height, width),
            times: [0; 12],
        };
        let planes = values.chunks_exact(rows * columns);
        for ((month, times), plane) in months.into_iter().zip(times).zip(planes) {
            let known = |value: &f32| {
                if value.is_nan() {
                    f32::INFINITY
                } else {
                    *value
                }
            };
            let plane: Vec<f32> = plane.iter().map(known).collect();
            usual.planes[month - 1] = Array2::from_shape_vec((rows, columns), plane).ok();
            usual.times[month - 1] = times;
        }
        SavedClimatology::new(Arc::new(usual), &rules, Arc::new(grid), self.origin()?)
    }

    fn rules(&self) -> Result<PercentileThresholds> {
        let name: String = self.attribute(MOISTURE, "text")?;
        let Some(moisture) = Moisture::from_name(&name) else {
            return Err(self.refused(MOISTURE, "transport or column_water", name));
        };
        let mut rules = PercentileThresholds {
            moisture,
            percentile: self.attribute(PERCENTILE, "a number")?,
            window_months: self.count(WINDOW)?,
            climatology_spacing_deg: self.attribute(SPACING, "a number")?,
            ..PercentileThresholds::default()
        };
        *rules.floor_mut() = self.attribute(moisture.floor_key(), "a number")?;
        let sense = rules.check();
        sense.map_err(|error| self.refused("its rules", "numbers that make sense", error))?;
        Ok(rules)
    }

    fn origin(&self) -> Result<ClimateOrigin> {
        let text = |name: &str| self.attribute::<String>(name, "text");
        Ok(ClimateOrigin {
            input: text(INPUT)?,
            span: [text(COVERAGE[0])?, text(COVERAGE[1])?],
            calendar: text(CALENDAR)?,
            transport: match self.file.attribute(TRANSPORT) {
                Some(_) => Some(text(TRANSPORT)?),
                None => None,
            },
            moisture: self.moisture()?,
        })
    }

    /// How moisture was computed; `None` in files of versions that did not record it.
    fn moisture(&self) -> Result<Option<MoistureRecord>> {
        if self.file.attribute(COMPUTATION).is_none() {
            return Ok(None);
        }
        let text = |name: &str| self.attribute::<String>(name, "text");
        Ok(Some(MoistureRecord {
            computation: text(COMPUTATION)?,
            levels_pa: self.numbers(LEVELS)?,
            variables: text(VARIABLES)?,
            units: text(UNITS)?,
        }))
    }

    fn grid(&self) -> Result<LatLonGrid> {
        let [lat_deg, lon_deg] = [self.column("grid_lat")?, self.column("grid_lon")?];
        match LatLonGrid::from_axes(lat_deg, lon_deg) {
            Ok((grid, order)) if order == Default::default() => Ok(grid),
            Ok(_) => {
                let found = "others that descend or begin elsewhere";
                Err(self.refused("grid", "axes in the order of Squall's grids", found))
            }
            Err(error) => Err(self.refused("grid", "latitudes and longitudes", error)),
        }
    }

    /// The months (1 to 12) with thresholds, ascending.
    fn months(&self) -> Result<Vec<usize>> {
        let found = self.column("month")?;
        let months: Vec<usize> = found.iter().map(|month| *month as usize).collect();
        let are_months = (found.iter().zip(&months))
            .all(|(found, month)| *found == *month as f64 && (1..=12).contains(month));
        if !are_months || months.is_empty() || !months.is_sorted_by(|a, b| a < b) {
            let expected = "ascending numbers from 1 to 12";
            return Err(self.refused("variable `month`", expected, format!("{found:?}")));
        }
        Ok(months)
    }

    /// The number of times of each month; `months` is the number of months.
    fn times(&self, months: usize) -> Result<Vec<u32>> {
        let found = self.column("times")?;
        if found.len() != months {
            return Err(self.refused("values of `times`", months.to_string(), found.len()));
        }
        let times: Vec<u32> = found.iter().map(|times| *times as u32).collect();
        let are_counts = (found.iter().zip(&times))
            .all(|(found, times)| *found == f64::from(*times) && *times > 0);
        if !are_counts {
            let expected = "whole numbers above 0";
            return Err(self.refused("variable `times`", expected, format!("{found:?}")));
        }
        Ok(times)
    }

    /// The values of a variable.
    pub fn column(&self, name: &str) -> Result<Vec<f64>> {
        let Some(variable) = self.file.variable(name) else {
            return Err(self.refused(format!("variable `{name}`"), "numbers", "none"));
        };
        let values = variable.get_values::<f64, _>(..);
        values.map_err(|error| unreadable(self.path, &error))
    }

    /// An attribute with a whole number.
    fn count(&self, name: &str) -> Result<usize> {
        let number: f64 = self.attribute(name, "a number")?;
        let count = number as usize;
        if count as f64 == number {
            Ok(count)
        } else {
            let found = number.to_string();
            Err(self.refused(format!("attribute `{name}`"), "a whole number", found))
        }
    }

    /// The numbers of an attribute; empty if it is missing.
    fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        match self.file.attribute(name).map(|found| found.value()) {
            None => Ok(Vec::new()),
            Some(Ok(AttributeValue::Double(number))) => Ok(vec![number]),
            Some(Ok(AttributeValue::Doubles(numbers))) => Ok(numbers),
            Some(Ok(other)) => {
                let found = format!("{other:?}");
                Err(self.refused(format!("attribute `{name}`"), "numbers", found))
            }
            Some(Err(error)) => Err(unreadable(self.path, &error)),
        }
    }

    fn attribute<T: TryFrom<AttributeValue>>(&self, name: &str, expected: &str) -> Result<T> {
        let value = self.file.attribute(name).map(|found| found.value());
        let found = match &value {
            Some(Ok(value)) => format!("{value:?}"),
            _ => "none".into(),
        };
        let converted = value.and_then(|value| T::try_from(value.ok()?).ok());
        converted.ok_or_else(|| self.refused(format!("attribute `{name}`"), expected, found))
    }

    fn refused(
        &self,
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> ClimateError {
        refused(self.path, what, expected, found)
    }
}

/// The error for a file that the library cannot read.
fn unreadable(path: &Path, error: &netcdf::Error) -> ClimateError {
    DataError::unreadable(path, format!("netCDF: {error}")).into()
}
