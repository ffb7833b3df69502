//! Writes a climatology to netCDF.

use super::{
    BLOCK, CALENDAR, COMPUTATION, DIMENSIONS, INPUT, LEVELS, MOISTURE, PERCENTILE, SPACING,
    THRESHOLD, TRANSPORT, UNITS, VARIABLES, WINDOW,
};
use crate::detect::percentile::{Moisture, SavedClimatology};
use crate::error::Result;
use crate::statistics::{COVERAGE, LATITUDE, LONGITUDE};
use netcdf::FileMut;
use squall_data::grid::eastern_longitude;
use squall_data::netcdf_file::{NetcdfFile, put_axis};
use std::path::Path;

impl SavedClimatology {
    /// Writes the climatology as CF netCDF.
    ///
    /// Variables: `threshold(month, lat, lon)` for the months with times, NaN (its fill value) where moisture was
    /// always missing; `times(month)`. `lat` and `lon` are the centres of blocks of `block_rows` x `block_columns`
    /// cells, counted from the south and from the first column of the grid `grid_lat` x `grid_lon`; blocks at its edges
    /// may be smaller. Attributes record the thresholds, the input files and their times, and the variables and levels
    /// from which moisture was computed.
    ///
    /// # Errors
    /// [`crate::ClimateError::Data`] if writing fails.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let file = NetcdfFile::create(path.as_ref(), |file| self.fill(file))?;
        Ok(file.finish()?)
    }

    fn fill(&self, file: &mut FileMut) -> netcdf::Result<()> {
        self.put_attributes(file)?;
        let usual = self.thresholds();
        let grid = self.grid();
        let months: Vec<f64> = usual.months().map(|(month, _)| f64::from(month)).collect();
        let lat_deg = centres(grid.lat_deg(), usual.block.0);
        let lon_deg = centres(grid.lon_deg(), usual.block.1);
        for (name, values, attributes) in [
            (
                "month",
                &months[..],
                [("long_name", "month, 1 to 12"), ("units", "1")],
            ),
            ("lat", &lat_deg[..], LATITUDE),
            ("lon", &lon_deg[..], LONGITUDE),
            ("grid_lat", grid.lat_deg(), LATITUDE),
            ("grid_lon", grid.lon_deg(), LONGITUDE),
        ] {
            file.add_dimension(name, values.len())?;
            put_axis(file, name, values, &attributes)?;
        }
        let mut times = file.add_variable::<f64>("times", &["month"])?;
        times.put_attribute("long_name", "times of the month")?;
        times.put_attribute("units", "1")?;
        let counts: Vec<f64> = (usual.months())
            .map(|(month, _)| f64::from(usual.times[usize::from(month) - 1]))
            .collect();
        times.put_values(&counts, ..)?;
        let mut threshold = file.add_variable::<f32>(THRESHOLD, &DIMENSIONS)?;
        threshold.set_chunking(&[1, lat_deg.len(), lon_deg.len()])?;
        threshold.set_compression(1, true)?;
        threshold.set_fill_value(f32::NAN)?;
        let long_name = match self.rules().moisture {
            Moisture::Transport => {
                "vertically integrated vapour transport that rivers of the month exceed"
            }
            Moisture::ColumnWater => "column water vapour that rivers of the month exceed",
        };
        threshold.put_attribute("long_name", long_name)?;
        threshold.put_attribute("units", self.rules().moisture.units())?;
        for (index, (_, plane)) in usual.months().enumerate() {
            // Infinite thresholds become NaN, because many tools do not draw infinity.
            let known = |value: &f32| if value.is_finite() { *value } else { f32::NAN };
            let values: Vec<f32> = plane.iter().map(known).collect();
            threshold.put_values(&values, (index, .., ..))?;
        }
        Ok(())
    }

    fn put_attributes(&self, file: &mut FileMut) -> netcdf::Result<()> {
        let (rules, origin) = (self.rules(), self.origin());
        file.add_attribute("Conventions", "CF-1.8")?;
        let title = "Thresholds of atmospheric rivers: percentiles of moisture by month and place";
        file.add_attribute("title", title)?;
        let version = env!("CARGO_PKG_VERSION");
        file.add_attribute(
            "history",
            format!("squall {version}: label --method percentile"),
        )?;
        file.add_attribute(MOISTURE, rules.moisture.name())?;
        file.add_attribute(PERCENTILE, rules.percentile)?;
        file.add_attribute(rules.moisture.floor_key(), rules.floor())?;
        file.add_attribute(WINDOW, rules.window_months as f64)?;
        file.add_attribute(SPACING, rules.climatology_spacing_deg)?;
        let (rows, columns) = self.thresholds().block;
        for (name, cells) in BLOCK.into_iter().zip([rows, columns]) {
            file.add_attribute(name, cells as f64)?;
        }
        file.add_attribute(INPUT, origin.input.as_str())?;
        for (name, time) in COVERAGE.into_iter().zip(&origin.span) {
            file.add_attribute(name, time.as_str())?;
        }
        file.add_attribute(CALENDAR, origin.calendar.as_str())?;
        if let Some(transport) = &origin.transport {
            file.add_attribute(TRANSPORT, transport.as_str())?;
        }
        if let Some(moisture) = &origin.moisture {
            file.add_attribute(COMPUTATION, moisture.computation.as_str())?;
            if !moisture.levels_pa.is_empty() {
                file.add_attribute(LEVELS, moisture.levels_pa.clone())?;
            }
            file.add_attribute(VARIABLES, moisture.variables.as_str())?;
            file.add_attribute(UNITS, moisture.units.as_str())?;
        }
        Ok(())
    }
}

/// The centres of an axis's blocks of `cells` cells.
fn centres(axis_deg: &[f64], cells: usize) -> Vec<f64> {
    let blocks = axis_deg.chunks(cells);
    let ends = blocks.filter_map(|block| block.first().zip(block.last()));
    // The longitude axis may cross the seam.
    ends.map(|(first, last)| {
        let half = eastern_longitude(last - first) / 2.0;
        if first + half < 360.0 {
            first + half
        } else {
            first + half - 360.0
        }
    })
    .collect()
}
