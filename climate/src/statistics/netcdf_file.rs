//! Statistics as `statistics.nc`.

use crate::error::Result;
use crate::statistics::coarse::{COARSE_CELL_DEG, COARSE_CELLS, COARSE_COLUMNS, COARSE_ROWS};
use crate::statistics::{Basin, Statistics};
use squall_data::netcdf_file::NetcdfFile;
use squall_data::{Calendar, Class, LatLonGrid};
use std::path::Path;

impl Statistics {
    /// Writes frequency maps and monthly counts as CF netCDF.
    ///
    /// Variables: `frequency(class, lat, lon)`; `times(month)`, `days(month)`, `tracks(month, class, basin)`,
    /// `objects(month, class, basin)`, `ace(month, basin)`, `landfalls(month, class, basin)`,
    /// `precipitation(month, class, basin)` and `all_precipitation(month)` with `year(month)` and
    /// `month_of_year(month)`; `days` has a bit for each day of the month with an analysed time. Precipitation is NaN,
    /// its fill value, in months without any, as it is blank in the tables. Classes and basins are named in
    /// `flag_meanings`. For changes of frequency `marked_cells(month, class, coarse_lat, coarse_lon)`: grid cells of
    /// the class in cells of 5 degrees, over all times of the month; of `grid_cells(coarse_lat, coarse_lon)`. The
    /// attribute `classes_looked_for` names the classes of which a 0 means that there were none, `wind_of_cyclones` which
    /// wind categories and cyclone energy are of.
    ///
    /// # Errors
    /// [`crate::ClimateError::Mismatch`] if the grid is another one, [`crate::ClimateError::Data`] if writing fails.
    pub fn write_netcdf(
        &self,
        path: impl AsRef<Path>,
        grid: &LatLonGrid,
        calendar: Calendar,
    ) -> Result<()> {
        let path = path.as_ref();
        let found = self.occurrence().frequency(Class::TropicalCyclone).dim();
        if found != grid.shape() {
            return Err(crate::ClimateError::Mismatch {
                what: "statistics and grid".into(),
                expected: format!("{:?}", grid.shape()),
                found: format!("{found:?}"),
            });
        }
        let file = NetcdfFile::create(path, |file| self.fill(file, grid, calendar))?;
        Ok(file.finish()?)
    }

    fn fill(
        &self,
        file: &mut netcdf::FileMut,
        grid: &LatLonGrid,
        calendar: Calendar,
    ) -> netcdf::Result<()> {
        let (rows, columns) = grid.shape();
        let months = self.months();
        file.add_attribute("Conventions", "CF-1.8")?;
        file.add_attribute("title", "Statistics of extreme weather events")?;
        let version = env!("CARGO_PKG_VERSION");
        file.add_attribute("history", format!("squall {version}: events"))?;
        file.add_attribute("calendar_of_the_data", calendar.cf_name())?;
        let looked_for: Vec<&str> = self.classes().iter().map(|class| class.name()).collect();
        file.add_attribute("classes_looked_for", looked_for.join(" "))?;
        if let Some(wind) = self.wind() {
            file.add_attribute("wind_of_cyclones", wind)?;
        }
        let times: u64 = months.iter().map(|month| month.times).sum();
        file.add_attribute("analysed_times", times as f64)?;
        for (name, length) in [
            ("class", Class::EVENTS.len()),
            ("basin", Basin::ALL.len()),
            // A dimension of length 0 would be unlimited.
            ("month", months.len().max(1)),
            ("coarse_lat", COARSE_ROWS),
            ("coarse_lon", COARSE_COLUMNS),
            ("lat", rows),
            ("lon", columns),
        ] {
            file.add_dimension(name, length)?;
        }
        for (name, values, standard, units) in [
            ("lat", grid.lat_deg(), "latitude", "degrees_north"),
            ("lon", grid.lon_deg(), "longitude", "degrees_east"),
        ] {
            let mut axis = file.add_variable::<f64>(name, &[name])?;
            axis.put_attribute("standard_name", standard)?;
            axis.put_attribute("units", units)?;
            axis.put_values(values, ..)?;
        }
        let mut class = file.add_variable::<i8>("class", &["class"])?;
        class.put_attribute("long_name", "kind of event")?;
        class.put_attribute("units", "1")?;
        class.put_attribute("flag_values", vec![1i8, 2])?;
        class.put_attribute("flag_meanings", Class::EVENTS.map(Class::name).join(" "))?;
        class.put_values(&Class::EVENTS.map(|c| c.code() as i8), ..)?;
        let mut basin = file.add_variable::<i8>("basin", &["basin"])?;
        let codes: Vec<i8> = (0..Basin::ALL.len() as i8).collect();
        basin.put_attribute("long_name", "ocean basin")?;
        basin.put_attribute("units", "1")?;
        basin.put_attribute("flag_values", codes.clone())?;
        basin.put_attribute("flag_meanings", Basin::ALL.map(Basin::code).join(" "))?;
        basin.put_values(&codes, ..)?;

        // Of boxes nobody knows where the events are in them.
        if self.occurrence().times() > 0 || self.months().is_empty() {
            let mut frequency = file.add_variable::<f64>("frequency", &["class", "lat", "lon"])?;
            frequency.set_chunking(&[1, rows, columns])?;
            frequency.set_compression(1, true)?;
            frequency.put_attribute("long_name", "share of the analysed times of the class")?;
            frequency.put_attribute("units", "1")?;
            for (index, class) in Class::EVENTS.into_iter().enumerate() {
                let plane = self.occurrence().frequency(class);
                let values: Vec<f64> = plane.iter().copied().collect();
                frequency.put_values(&values, (index, .., ..))?;
            }

            self.fill_coarse(file)?;
        }

        let whole = |get: &dyn Fn(usize) -> Vec<f64>| -> Vec<f64> {
            (0..months.len()).flat_map(get).collect()
        };
        let by_class = |counts: &[[u64; Basin::ALL.len()]; 2]| -> Vec<f64> {
            counts.iter().flatten().map(|&n| n as f64).collect()
        };
        // A month in which nothing fell anywhere is one whose precipitation is not known.
        let water = |m: usize, km3: f64| match months[m].all_precipitation_km3 > 0.0 {
            true => km3,
            false => f64::NAN,
        };
        let tables: [(&str, &str, &[&str], Vec<f64>); 10] = [
            (
                "year",
                "year",
                &["month"],
                whole(&|m| vec![months[m].year as f64]),
            ),
            (
                "month_of_year",
                "month, 1 to 12",
                &["month"],
                whole(&|m| vec![months[m].month as f64]),
            ),
            (
                "times",
                "analysed times",
                &["month"],
                whole(&|m| vec![months[m].times as f64]),
            ),
            (
                "days",
                "days of the month with analysed times: 1 for the first, 2 for the second, 4 for the third, and so on, added up",
                &["month"],
                whole(&|m| vec![f64::from(months[m].days)]),
            ),
            (
                "tracks",
                "tracks that began in the month and basin",
                &["month", "class", "basin"],
                whole(&|m| by_class(&months[m].tracks)),
            ),
            (
                "objects",
                "objects, one for each event and time",
                &["month", "class", "basin"],
                whole(&|m| by_class(&months[m].objects)),
            ),
            (
                "ace",
                "accumulated cyclone energy of tropical cyclones",
                &["month", "basin"],
                whole(&|m| months[m].ace.to_vec()),
            ),
            (
                "landfalls",
                "tracks whose first landfall was in the month and basin",
                &["month", "class", "basin"],
                whole(&|m| by_class(&months[m].landfalls)),
            ),
            (
                "precipitation",
                "liquid water that fell inside of events",
                &["month", "class", "basin"],
                whole(&|m| {
                    let km3 = months[m].precipitation_km3.concat();
                    km3.into_iter().map(|km3| water(m, km3)).collect()
                }),
            ),
            (
                "all_precipitation",
                "liquid water that fell on the grid",
                &["month"],
                whole(&|m| vec![water(m, months[m].all_precipitation_km3)]),
            ),
        ];
        for (name, long_name, dimensions, values) in tables {
            let mut variable = file.add_variable::<f64>(name, dimensions)?;
            variable.put_attribute("long_name", long_name)?;
            let units = match name {
                "ace" => "1e4 knot2",
                "precipitation" | "all_precipitation" => "km3",
                _ => "1",
            };
            variable.put_attribute("units", units)?;
            if units == "km3" {
                variable.set_fill_value(f64::NAN)?;
            }
            if !values.is_empty() {
                variable.put_values(&values, ..)?;
            }
        }
        Ok(())
    }

    fn fill_coarse(&self, file: &mut netcdf::FileMut) -> netcdf::Result<()> {
        for (name, count, first, standard, units) in [
            (
                "coarse_lat",
                COARSE_ROWS,
                -90.0,
                "latitude",
                "degrees_north",
            ),
            (
                "coarse_lon",
                COARSE_COLUMNS,
                0.0,
                "longitude",
                "degrees_east",
            ),
        ] {
            let centre = |k: usize| first + COARSE_CELL_DEG * (k as f64 + 0.5);
            let values: Vec<f64> = (0..count).map(centre).collect();
            let mut axis = file.add_variable::<f64>(name, &[name])?;
            axis.put_attribute("standard_name", standard)?;
            axis.put_attribute("units", units)?;
            axis.put_values(&values, ..)?;
        }
        let mut cells = file.add_variable::<i32>("grid_cells", &["coarse_lat", "coarse_lon"])?;
        cells.put_attribute("long_name", "cells of the grid in each coarse cell")?;
        cells.put_attribute("units", "1")?;
        let values: Vec<i32> = self.coarse().cells().iter().map(|&n| n as i32).collect();
        cells.put_values(&values, ..)?;
        let dimensions = ["month", "class", "coarse_lat", "coarse_lon"];
        let mut marked = file.add_variable::<i32>("marked_cells", &dimensions)?;
        marked.set_chunking(&[1, Class::EVENTS.len(), COARSE_ROWS, COARSE_COLUMNS])?;
        marked.set_compression(1, true)?;
        let long_name = "cells of the grid of the class, over all analysed times of the month";
        marked.put_attribute("long_name", long_name)?;
        marked.put_attribute("units", "1")?;
        for (index, month) in self.months().iter().enumerate() {
            let counts = self.coarse().of_month(month.year, month.month);
            let values: Vec<i32> = match counts {
                Some(counts) => counts.marked.iter().flatten().map(|&n| n as i32).collect(),
                None => vec![0; Class::EVENTS.len() * COARSE_CELLS],
            };
            marked.put_values(&values, (index, .., .., ..))?;
        }
        Ok(())
    }
}
