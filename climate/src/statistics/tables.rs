//! Statistics as CSV.

use crate::error::{ClimateError, Result};
use crate::statistics::{Basin, Category, MonthCounts, Statistics};
use squall_data::{Class, DataError, atomic};
use std::path::Path;

impl Statistics {
    /// Writes `monthly.csv`, `yearly.csv`, `seasonal_cycle.csv`, `histograms.csv` and `categories.csv` into a folder.
    ///
    /// - `monthly.csv`: year, month, class, basin, times, tracks (begun), objects, ace_1e4_kt2 (cyclones only; blank if
    ///   there are cyclones but no known wind), landfalls (tracks by the place of their first landfall),
    ///   precipitation_km3 (inside the class's events) and precipitation_share (of all that fell on the grid); the last
    ///   two are blank without precipitation
    /// - `yearly.csv`: the same by year
    /// - `seasonal_cycle.csv`: class, basin, month, mean number of tracks begun (blank without a whole month), number of
    ///   whole months, share of the days with times
    /// - `histograms.csv`: class, quantity, unit, from, to, count; the open bins have a blank edge; counts are blank if
    ///   there are tracks but no known value
    /// - `categories.csv`: basin, category, cyclone tracks; blank if tracks began there but no wind is known
    ///
    /// In all tables, counts are blank for classes of masks that were not searched for ([`Statistics::classes`]). If
    /// none was, there are no rows of them, and no histograms and categories, which are of these classes alone. Classes
    /// of boxes have rows if they were searched for or found; they have tracks and objects only.
    ///
    /// # Errors
    /// [`ClimateError::Data`] if writing fails.
    pub fn write_csv(&self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        let write = |name: &str, header: &str, rows: Vec<Vec<String>>| {
            write_rows(&folder.join(name), header, &rows)
        };
        let counts =
            "times,tracks,objects,ace_1e4_kt2,landfalls,precipitation_km3,precipitation_share";
        let monthly = format!("year,month,class,basin,{counts}");
        write("monthly.csv", &monthly, self.monthly_rows())?;
        let yearly = format!("year,class,basin,{counts}");
        write("yearly.csv", &yearly, self.yearly_rows())?;
        let seasonal = "class,basin,month,mean_tracks,months,coverage";
        write("seasonal_cycle.csv", seasonal, self.seasonal_rows())?;
        if !Class::EVENTS
            .iter()
            .any(|class| self.classes().contains(class))
        {
            return Ok(());
        }
        let histograms = "class,quantity,unit,from,to,count";
        write("histograms.csv", histograms, self.histogram_rows())?;
        write(
            "categories.csv",
            "basin,category,tracks",
            self.category_rows(),
        )
    }

    fn monthly_rows(&self) -> Vec<Vec<String>> {
        let (combinations, mut rows) = (self.combinations(), Vec::new());
        for m in self.months() {
            for &(class, basin) in &combinations {
                let mut row = vec![
                    m.year.to_string(),
                    m.month.to_string(),
                    class.name().into(),
                    basin.code().into(),
                    m.times.to_string(),
                ];
                row.extend(self.blank_unless_searched(class, self.counts(m, class, basin)));
                rows.push(row);
            }
        }
        rows
    }

    fn yearly_rows(&self) -> Vec<Vec<String>> {
        let (combinations, mut rows) = (self.combinations(), Vec::new());
        for y in self.years() {
            for &(class, basin) in &combinations {
                let mut row = vec![
                    y.year.to_string(),
                    class.name().into(),
                    basin.code().into(),
                    y.times.to_string(),
                ];
                row.extend(self.blank_unless_searched(class, self.counts(&y, class, basin)));
                rows.push(row);
            }
        }
        rows
    }

    fn seasonal_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let data = self.months_of_year();
        for (class, basin) in self.combinations() {
            let means = self.seasonal_cycle(class, basin);
            for (month, (mean, of_month)) in (1..).zip(means.into_iter().zip(&data)) {
                let mean = if mean.is_nan() {
                    String::new()
                } else {
                    format!("{mean:.4}")
                };
                let [mean] = self.blank_unless_searched(class, [mean]);
                rows.push(vec![
                    class.name().into(),
                    basin.code().into(),
                    format!("{month}"),
                    mean,
                    of_month.whole.to_string(),
                    (of_month.coverage).map_or_else(String::new, |share| format!("{share:.3}")),
                ]);
            }
        }
        rows
    }

    fn histogram_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for class in Class::EVENTS {
            let Some(of_class) = self.histograms(class) else {
                continue;
            };
            let tracks = of_class.lifetime_hours.total();
            for (quantity, unit, histogram) in of_class.all() {
                let is_known = tracks == 0 || histogram.total() > 0;
                let edges = &histogram.edges;
                let mut row = |from: Option<&f64>, to: Option<&f64>, count: u64| {
                    let text = |edge: Option<&f64>| edge.map_or_else(String::new, f64::to_string);
                    let [count] = self.blank_unless_searched(class, [number(count, is_known)]);
                    rows.push(vec![
                        class.name().into(),
                        quantity.into(),
                        unit.into(),
                        text(from),
                        text(to),
                        count,
                    ]);
                };
                row(None, edges.first(), histogram.below);
                for (edge, &count) in edges.windows(2).zip(&histogram.counts) {
                    row(edge.first(), edge.last(), count);
                }
                row(edges.last(), None, histogram.above);
            }
        }
        rows
    }

    fn category_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for basin in Basin::ALL {
            let counts = self.categories(basin);
            let is_known = self.cyclones_begun(basin) == 0 || counts.iter().any(|n| *n > 0);
            for (category, count) in Category::ALL.into_iter().zip(counts) {
                let [count] =
                    self.blank_unless_searched(Class::TropicalCyclone, [number(count, is_known)]);
                rows.push(vec![basin.code().into(), category.name().into(), count]);
            }
        }
        rows
    }

    /// Number of cyclone tracks that began in a basin.
    fn cyclones_begun(&self, basin: Basin) -> u64 {
        let is_cyclone = |class: &Class| *class == Class::TropicalCyclone;
        let cyclones = Class::EVENTS.iter().position(is_cyclone);
        let of_month =
            |month: &MonthCounts| cyclones.map_or(0, |class| month.tracks[class][basin as usize]);
        self.months().iter().map(of_month).sum()
    }

    /// The rows of a month: all basins of each class.
    fn combinations(&self) -> Vec<(Class, Basin)> {
        let classes = self.classes_of_tables().into_iter();
        classes
            .flat_map(|class| Basin::ALL.map(|basin| (class, basin)))
            .collect()
    }

    /// Blanks the cells of a class of masks that was not searched for: a 0 would claim that there were none.
    fn blank_unless_searched<const N: usize>(
        &self,
        class: Class,
        cells: [String; N],
    ) -> [String; N] {
        if self.classes().contains(&class) || !Class::EVENTS.contains(&class) {
            cells
        } else {
            cells.map(|_| String::new())
        }
    }

    /// Tracks, objects, energy, landfalls, water and its share; of classes of boxes the first two.
    fn counts(&self, counts: &MonthCounts, class: Class, basin: Basin) -> [String; 6] {
        let basin = basin as usize;
        let [tracks, objects] = (counts.tracks_and_objects(class)).map(|of| of[basin].to_string());
        let Some(index) = Class::EVENTS.iter().position(|own| *own == class) else {
            let [energy, landfalls, water, share] = [const { String::new() }; 4];
            return [tracks, objects, energy, landfalls, water, share];
        };
        let water_km3 = counts.precipitation_km3[index][basin];
        let all_km3 = counts.all_precipitation_km3;
        let known = |text: String| if all_km3 > 0.0 { text } else { String::new() };
        [
            tracks,
            objects,
            energy(class, counts.known_energy()[basin]),
            number(counts.landfalls[index][basin], self.knows_landfalls(class)),
            known(format!("{water_km3:.3}")),
            known(format!("{:.6}", water_km3 / all_km3)),
        ]
    }
}

/// A count of tracks, blank if there are tracks but no known value.
fn number(count: u64, is_known: bool) -> String {
    if is_known {
        count.to_string()
    } else {
        String::new()
    }
}

fn energy(class: Class, ace: Option<f64>) -> String {
    match (class, ace) {
        (Class::TropicalCyclone, Some(ace)) => format!("{ace:.4}"),
        _ => String::new(),
    }
}

/// Writes comma-separated column names and rows of cells as CSV.
pub(crate) fn write_rows(path: &Path, header: &str, rows: &[Vec<String>]) -> Result<()> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let failed = |error: std::io::Error| ClimateError::Data(DataError::io("write", path)(error));
    csv.write_record(header.split(','))
        .map_err(|error| failed(error.into()))?;
    for row in rows {
        csv.write_record(row)
            .map_err(|error| failed(error.into()))?;
    }
    let bytes = csv
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    Ok(atomic::write(path, &bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Event;
    use squall_data::{Calendar, LatLonGrid, Time};

    #[test]
    fn energy_is_blank_where_it_is_not_known_and_for_other_classes() {
        assert_eq!(energy(Class::TropicalCyclone, Some(0.0)), "0.0000");
        assert_eq!(energy(Class::TropicalCyclone, None), "");
        assert_eq!(energy(Class::AtmosphericRiver, Some(0.0)), "");
    }

    /// Regression: tables of `lows` had blank rows of two classes that were not searched for, and none of the one that
    /// was.
    #[test]
    fn classes_of_boxes_have_rows_and_no_table_is_blank() {
        let grid = LatLonGrid::global(8, 12).unwrap();
        let time = |hours: i64| {
            let start = Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap();
            start.add_seconds(3600 * hours)
        };
        let track = crate::track::Track {
            class: Class::ExtratropicalCyclone,
            ..crate::track::testdata::cyclone(time(0))
        };
        let written = |classes: &[Class]| {
            let mut run = Statistics::new(&grid).of_classes(classes);
            for day in 0..31 {
                run.add_time(time(24 * day), None, 24.0, []).unwrap();
            }
            run.add_track(&track);
            let folder = tempfile::tempdir().unwrap();
            run.write_csv(folder.path()).unwrap();
            let stored = folder.path().join("statistics.nc");
            run.write_netcdf(&stored, &grid, Calendar::NoLeap).unwrap();
            let stored = netcdf::open(stored).unwrap();
            let begun = stored.variable("box_tracks").unwrap();
            let begun = begun.get_values::<f64, _>(..).unwrap();
            let (cyclones, depressions) = begun.split_at(7);
            assert_eq!(cyclones.iter().sum::<f64>(), 1.0);
            // Nobody looked for these.
            assert_eq!(depressions.len(), 7);
            assert!(depressions.iter().all(|count| count.is_nan()));
            let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
            let tables = [
                "monthly.csv",
                "yearly.csv",
                "seasonal_cycle.csv",
                "categories.csv",
            ];
            tables.map(|name| read(name).unwrap_or_default())
        };
        let [months, years, seasons, categories] = written(&[Class::ExtratropicalCyclone]);
        for (table, row) in [
            (&months, "\n2000,8,extratropical_cyclone,WP,31,1,0,,,,\n"),
            (&years, "\n2000,extratropical_cyclone,WP,31,1,0,,,,\n"),
            (&seasons, "\nextratropical_cyclone,WP,8,1.0000,1,1.000\n"),
        ] {
            assert!(table.contains(row), "{table}");
        }
        assert_eq!(
            [&months, &years].map(|table| table.lines().count()),
            [1 + 7; 2]
        );
        assert_eq!(
            (seasons.lines().count(), categories.as_str()),
            (1 + 7 * 12, "")
        );
        // Boxes of unknown origin: those that were found are counted.
        let [months, _, _, categories] = written(&Class::EVENTS);
        assert_eq!(months.lines().count(), 1 + 3 * 7);
        assert!(!categories.is_empty());
    }

    #[test]
    fn tables_are_blank_for_classes_not_looked_for() {
        let grid = LatLonGrid::global(8, 12).unwrap();
        let mut rivers = Statistics::new(&grid).of_classes(&[Class::AtmosphericRiver]);
        let time = Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap();
        let none = std::iter::empty::<&Event>();
        rivers.add_time(time, None, 6.0, none).unwrap();
        let check = |rows: &[Vec<String>], class: usize, numbers: std::ops::Range<usize>| {
            for row in rows {
                let looked_for = row[class] == "atmospheric_river";
                let blank = |cell: &String| cell.is_empty();
                let cells = &row[numbers.clone()];
                assert_eq!(!cells.iter().any(blank), looked_for, "{row:?}");
                assert_eq!(cells.iter().all(blank), !looked_for, "{row:?}");
            }
        };
        check(&rivers.monthly_rows(), 2, 5..7);
        check(&rivers.yearly_rows(), 1, 4..6);
        let landfalls = |row: &Vec<String>| row[7].is_empty();
        assert!(landfalls(&rivers.yearly_rows()[0]));
        check(&rivers.histogram_rows(), 0, 5..6);
        let august = |row: &Vec<String>| row[2] == "8" && row[0] == "tropical_cyclone";
        let seasons = rivers.seasonal_rows();
        let cyclones = seasons.iter().find(|row| august(row)).unwrap();
        assert_eq!(cyclones[3], "");
        let strengths = rivers.category_rows();
        assert!(strengths.iter().all(|row| row[2].is_empty()));
    }
}
