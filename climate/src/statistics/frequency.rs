//! Frequency maps as variables of `statistics.nc`.

use crate::compare::SEASONS;
use crate::statistics::netcdf_file::put_flags;
use crate::statistics::{Occurrence, Statistics};
use ndarray::Array2;
use netcdf::FileMut;
use squall_data::{Class, LatLonGrid};

impl Statistics {
    /// Adds `frequency(class, lat, lon)`, `seasonal_frequency(season, class, lat, lon)`, the number of masks of each
    /// season, and the coordinate of seasons.
    ///
    /// # Errors
    /// Errors of the netCDF library.
    pub(super) fn put_frequencies(
        &self,
        file: &mut FileMut,
        grid: &LatLonGrid,
    ) -> netcdf::Result<()> {
        let (rows, columns) = grid.shape();
        let mut frequency = file.add_variable::<f64>("frequency", &["class", "lat", "lon"])?;
        frequency.set_chunking(&[1, rows, columns])?;
        frequency.set_compression(1, true)?;
        frequency.put_attribute("long_name", "share of the analysed times of the class")?;
        frequency.put_attribute("units", "1")?;
        frequency.set_fill_value(f64::NAN)?;
        for (index, class) in Class::EVENTS.into_iter().enumerate() {
            let share = self.share_of(class, self.occurrence());
            let values: Vec<f64> = share.into_iter().collect();
            frequency.put_values(&values, (index, .., ..))?;
        }
        let seasons = (0i8..).zip(SEASONS).map(|(code, (name, _))| (code, name));
        let months = "season, by the initials of its months";
        put_flags(file, "season", months, &seasons.collect::<Vec<_>>())?;
        let mut times = file.add_variable::<i32>("season_times", &["season"])?;
        times.put_attribute("long_name", "analysed times of the season")?;
        times.put_attribute("units", "1")?;
        let masks = self.seasons().iter().map(|season| season.times() as i32);
        times.put_values(&masks.collect::<Vec<_>>(), ..)?;
        let dimensions = ["season", "class", "lat", "lon"];
        let mut seasonal = file.add_variable::<f32>("seasonal_frequency", &dimensions)?;
        seasonal.set_chunking(&[1, 1, rows, columns])?;
        seasonal.set_compression(1, true)?;
        let long_name = "share of the analysed times of the season of the class";
        seasonal.put_attribute("long_name", long_name)?;
        seasonal.put_attribute("units", "1")?;
        seasonal.set_fill_value(f32::NAN)?;
        for (season, occurrence) in self.seasons().iter().enumerate() {
            for (index, class) in Class::EVENTS.into_iter().enumerate() {
                let share = self.share_of(class, occurrence);
                let values: Vec<f32> = share.into_iter().map(|share| share as f32).collect();
                seasonal.put_values(&values, (season, index, .., ..))?;
            }
        }
        Ok(())
    }

    /// The frequency of a class, NaN if it was not looked for.
    fn share_of(&self, class: Class, occurrence: &Occurrence) -> Array2<f64> {
        let share = occurrence.frequency(class);
        if self.classes().contains(&class) {
            share
        } else {
            Array2::from_elem(share.dim(), f64::NAN)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::{Calendar, ClassMask, Time};

    #[test]
    fn frequencies_of_seasons_are_those_of_their_months() {
        let grid = LatLonGrid::global(4, 8).unwrap();
        let mut run = Statistics::new(&grid);
        // A river in two columns in March and in one in December, none in January and July.
        for (month, columns) in [(1, 0), (3, 2), (7, 0), (12, 1)] {
            let time = Time::new(Calendar::NoLeap, 2001, month, 1, 0, 0, 0).unwrap();
            let codes = Array2::from_shape_fn((4, 8), |(_, i)| if i < columns { 2 } else { 0 });
            let mask = ClassMask::new(time, codes).unwrap();
            run.add_time(time, Some(&mask), 6.0, []).unwrap();
            // The last column is unknown in July.
            let missing = Array2::from_shape_fn((4, 8), |(_, i)| month == 7 && i == 7);
            run.leave_out(time, missing.view()).unwrap();
        }
        let run = run.of_classes(&[Class::AtmosphericRiver]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("statistics.nc");
        run.write_netcdf(&path, &grid, Calendar::NoLeap).unwrap();
        let file = netcdf::open(&path).unwrap();
        let values =
            |name: &str| -> Vec<f64> { file.variable(name).unwrap().get_values(..).unwrap() };
        assert_eq!(values("season_times"), [2.0, 1.0, 1.0, 0.0]);
        let shares = values("seasonal_frequency");
        // By season: cyclones, which nobody looked for, then rivers.
        let rows: Vec<&[f64]> = shares.chunks(8).collect();
        assert!(
            rows[..4]
                .iter()
                .flat_map(|row| row.iter())
                .all(|v| v.is_nan())
        );
        let first_of_rivers = |season: usize| rows[8 * season + 4];
        assert_eq!(first_of_rivers(0)[..3], [0.5, 0.0, 0.0]);
        assert_eq!(first_of_rivers(1)[..3], [1.0, 1.0, 0.0]);
        assert_eq!(first_of_rivers(2)[..3], [0.0, 0.0, 0.0]);
        assert!(first_of_rivers(2)[7].is_nan() && first_of_rivers(3)[0].is_nan());
        // Of all times.
        assert_eq!(values("frequency")[32..35], [0.5, 0.25, 0.0]);
    }
}
