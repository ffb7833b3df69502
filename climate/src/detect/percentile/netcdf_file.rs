//! A climatology as netCDF.

use super::climatology::MonthlyThresholds;
use super::saved::{ClimateOrigin, SavedClimatology, refused};
use super::thresholds::{Moisture, PercentileThresholds};
use crate::error::{ClimateError, Result};
use crate::statistics::{COVERAGE, LATITUDE, LONGITUDE};
use ndarray::Array2;
use netcdf::{AttributeValue, File, FileMut};
use squall_data::archive::on_library_thread;
use squall_data::netcdf_file::{NetcdfFile, put_axis};
use squall_data::snapshot::shape_text;
use squall_data::{DataError, LatLonGrid};
use std::path::Path;
use std::sync::Arc;

/// The variable of the thresholds.
const THRESHOLD: &str = "threshold";
/// Its dimensions.
const DIMENSIONS: [&str; 3] = ["month", "lat", "lon"];
/// Attributes of the rules, and of the rows and columns of a block.
const MOISTURE: &str = "moisture";
const PERCENTILE: &str = "percentile";
const WINDOW: &str = "window_months";
const SPACING: &str = "climatology_spacing_deg";
const BLOCK: [&str; 2] = ["block_rows", "block_columns"];
/// Attributes of the origin.
const INPUT: &str = "squall_input";
const CALENDAR: &str = "calendar_of_the_data";
const TRANSPORT: &str = "moisture_transport";

impl SavedClimatology {
    /// Writes it as CF netCDF.
    ///
    /// Variables: `threshold(month, lat, lon)` for the months with times, NaN, its fill value, where moisture was never
    /// known; `times(month)`. `lat` and `lon` are the centres of blocks of `block_rows` x `block_columns` cells, counted
    /// from the south and from the first column, of the grid `grid_lat` x `grid_lon`: at its edges blocks may be smaller.
    /// Attributes tell by which numbers, of which files, times and moisture.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
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
            // Nothing exceeds infinity, which many tools do not draw.
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
        Ok(())
    }

    /// Reads what [`Self::write`] wrote.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if there is no such file or it is damaged, [`ClimateError::Climatology`] if it is another
    /// one, or what it holds makes no sense.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // netCDF does not tell a file that is not there from one that is damaged.
        std::fs::metadata(path).map_err(DataError::io("open", path))?;
        on_library_thread(|| Stored::open(path)?.climatology())
    }
}

/// The middles of blocks of so many cells of an axis.
fn centres(axis_deg: &[f64], cells: usize) -> Vec<f64> {
    let blocks = axis_deg.chunks(cells);
    let ends = blocks.filter_map(|block| block.first().zip(block.last()));
    // An axis of longitudes may cross the seam.
    ends.map(|(first, last)| {
        let half = (last - first).rem_euclid(360.0) / 2.0;
        if first + half < 360.0 {
            first + half
        } else {
            first + half - 360.0
        }
    })
    .collect()
}

/// An open file.
struct Stored<'p> {
    path: &'p Path,
    file: File,
}

impl<'p> Stored<'p> {
    fn open(path: &'p Path) -> Result<Self> {
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
        let counts = self.column("times")?;
        if counts.len() != months.len() {
            let (expected, found) = (months.len().to_string(), counts.len());
            return Err(self.refused("values of `times`", expected, found));
        }
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
        for ((month, count), plane) in months.into_iter().zip(counts).zip(planes) {
            let known = |value: &f32| {
                if value.is_nan() {
                    f32::INFINITY
                } else {
                    *value
                }
            };
            let plane: Vec<f32> = plane.iter().map(known).collect();
            usual.planes[month - 1] = Array2::from_shape_vec((rows, columns), plane).ok();
            usual.times[month - 1] = count as u32;
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
        })
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

    /// The values of a variable.
    fn column(&self, name: &str) -> Result<Vec<f64>> {
        let Some(variable) = self.file.variable(name) else {
            return Err(self.refused(format!("variable `{name}`"), "numbers", "none"));
        };
        let values = variable.get_values::<f64, _>(..);
        values.map_err(|error| unreadable(self.path, &error))
    }

    /// An attribute that counts something.
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

/// The error of a file that the library cannot read.
fn unreadable(path: &Path, error: &netcdf::Error) -> ClimateError {
    DataError::unreadable(path, format!("netCDF: {error}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::percentile::TransportClimatology;

    fn rules() -> PercentileThresholds {
        PercentileThresholds {
            min_times: 1,
            climatology_spacing_deg: 15.0,
            ..PercentileThresholds::default()
        }
    }

    /// A climatology of January and March on blocks of 3 x 2 cells, with a place where moisture is never known.
    fn climatology() -> SavedClimatology {
        let lat_deg: Vec<f64> = (0..19).map(|j| -45.0 + 5.0 * f64::from(j)).collect();
        // Across the seam.
        let lon_deg = (0..11)
            .map(|i| (340.0 + 7.5 * f64::from(i)) % 360.0)
            .collect();
        let grid = Arc::new(LatLonGrid::from_axes(lat_deg, lon_deg).unwrap().0);
        let rules = rules();
        let mut counts = TransportClimatology::new(&rules, &grid);
        for (month, times) in [(1, 5), (3, 7)] {
            for time in 0..times {
                let plane = Array2::from_shape_fn(grid.shape(), |(j, i)| {
                    if j < 3 && i < 2 {
                        f32::NAN
                    } else {
                        37.0 * (1 + (j * 5 + i * 3 + time * 11) % 23) as f32
                    }
                });
                counts.add(month, plane.view()).unwrap();
            }
        }
        let thresholds = Arc::new(counts.thresholds(&rules).unwrap());
        let origin = ClimateOrigin {
            input: "a.nc and 3 more files".into(),
            span: ["2000-01-01T00:00:00", "2000-03-31T18:00:00"].map(String::from),
            calendar: "360_day".into(),
            transport: None,
        };
        SavedClimatology::new(thresholds, &rules, grid, origin).unwrap()
    }

    #[test]
    fn a_climatology_comes_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/percentile_thresholds.nc");
        let written = climatology();
        written.write(&path).unwrap();
        let read = SavedClimatology::read(&path).unwrap();
        assert!(read == written);
        assert_eq!(read.describe(), written.describe());
        let usual = read.thresholds();
        assert_eq!(usual.at(3, (0, 1)), Some(f32::INFINITY));
        assert!(usual.at(3, (18, 10)).is_some_and(|value| value > 100.0));
        assert_eq!(usual.at(2, (18, 10)), None);
        assert_eq!((usual.times[0], usual.times[2]), (5, 7));
    }

    /// What other tools see.
    #[test]
    fn a_file_has_the_centres_and_units_of_its_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("percentile_thresholds.nc");
        climatology().write(&path).unwrap();
        on_library_thread(|| {
            let stored = Stored::open(&path).unwrap();
            assert_eq!(stored.column("month").unwrap(), [1.0, 3.0]);
            // Rows -45, -40, -35 are one block, 45 is the last alone.
            let lat_deg = stored.column("lat").unwrap();
            assert_eq!((lat_deg.len(), lat_deg[0], lat_deg[6]), (7, -40.0, 45.0));
            // Columns 340 and 347.5, 355 and 2.5, ...; 55 alone.
            let lon_deg = stored.column("lon").unwrap();
            assert_eq!(lon_deg, [343.75, 358.75, 13.75, 28.75, 43.75, 55.0]);
            let threshold = stored.file.variable(THRESHOLD).unwrap();
            let units = threshold.attribute_value("units").unwrap().unwrap();
            assert_eq!(units, AttributeValue::from("kg m-1 s-1"));
            let values = threshold
                .get_values::<f32, _>((1usize, 0usize, ..))
                .unwrap();
            assert!(values[0].is_nan() && values[1].is_finite(), "{values:?}");
        });
    }

    #[test]
    fn a_file_that_is_no_climatology_or_another_is_refused_by_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("percentile_thresholds.nc");
        let said = || SavedClimatology::read(&path).unwrap_err().to_string();
        assert!(said().contains("cannot open"), "{}", said());
        std::fs::write(&path, "text").unwrap();
        assert!(said().contains("netCDF: "), "{}", said());
        type Change = fn(&mut FileMut) -> netcdf::Result<()>;
        let changes: [(&str, Change); 5] = [
            (
                "units of `threshold`: expected kg m-1 s-1, found kg m-2",
                |file| {
                    let mut threshold = file.variable_mut(THRESHOLD).ok_or("none")?;
                    threshold.put_attribute("units", "kg m-2").map(|_| ())
                },
            ),
            (
                "moisture: expected transport or column_water, found rain",
                |file| file.add_attribute(MOISTURE, "rain").map(|_| ()),
            ),
            (
                "attribute `min_column_water_kg_m2`: expected a number, found none",
                |file| file.add_attribute(MOISTURE, "column_water").map(|_| ()),
            ),
            ("percentile: expected 0 to below 100, found 185", |file| {
                file.add_attribute(PERCENTILE, 185.0).map(|_| ())
            }),
            (
                "values of `threshold`: expected (2, 10, 6), found (2, 7, 6)",
                |file| file.add_attribute(BLOCK[0], 2.0).map(|_| ()),
            ),
        ];
        for (expected, change) in changes {
            climatology().write(&path).unwrap();
            let changed = on_library_thread(|| change(&mut netcdf::append(&path)?));
            changed.unwrap();
            let said = said();
            assert!(said.contains(expected), "{expected}: {said}");
            assert!(said.contains("percentile_thresholds.nc"), "{said}");
        }
        climatology().write(&path).unwrap();
        let low = on_library_thread(|| -> netcdf::Result<()> {
            let mut file = netcdf::append(&path)?;
            let mut threshold = file.variable_mut(THRESHOLD).ok_or("none")?;
            threshold.put_values(&[3.5f32], (1usize, 2usize, 1usize..2))
        });
        low.unwrap();
        assert!(
            said().contains("expected 100 or more, found 3.5"),
            "{}",
            said()
        );
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(said().contains("netCDF: "), "{}", said());
        let statistics = on_library_thread(|| netcdf::create(&path).map(drop));
        statistics.unwrap();
        assert!(
            said().contains("variable `threshold`: expected thresholds that"),
            "{}",
            said()
        );
    }
}
