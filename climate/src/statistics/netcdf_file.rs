//! Statistics as `statistics.nc`.

use crate::compare::SEASONS;
use crate::error::Result;
use crate::statistics::coarse::{COARSE_CELL_DEG, COARSE_CELLS, COARSE_COLUMNS, COARSE_ROWS};
use crate::statistics::counts::BOXED;
use crate::statistics::{Basin, MonthCounts, Statistics, month_axis};
use netcdf::FileMut;
use squall_data::netcdf_file::{NetcdfFile, put_axis};
use squall_data::{Calendar, Class, LatLonGrid};
use std::path::Path;

/// Attributes of the first and last analysed time, named as in ACDD 1.3.
pub const COVERAGE: [&str; 2] = ["time_coverage_start", "time_coverage_end"];
/// Attribute of the usual interval of analysed times, hours.
pub const STEP: &str = "usual_step_hours";
/// Attribute of where the wind of cyclones is measured.
pub const WIND: &str = "wind_of_cyclones";
/// Attribute of the vapour transport by which rivers are ranked.
pub const TRANSPORT: &str = "transport_of_rivers";
/// Attribute of the share of the cells of all masks that were missing.
pub const MISSING: &str = "missing_share";
/// Attribute of the thresholds that selected events and tracks, as lines `name = value`.
pub const RULES: &str = "rules_of_events";
/// Attribute of the program's version, as mask files have it.
const VERSION: &str = "squall_version";

/// Attributes of a latitude axis.
pub const LATITUDE: [(&str, &str); 2] = [("standard_name", "latitude"), ("units", "degrees_north")];
/// Attributes of a longitude axis.
pub const LONGITUDE: [(&str, &str); 2] =
    [("standard_name", "longitude"), ("units", "degrees_east")];

impl Statistics {
    /// Writes frequency maps and monthly counts as CF netCDF.
    ///
    /// Variables:
    ///
    /// - `frequency(class, lat, lon)`, and by season `seasonal_frequency(season, class, lat, lon)` and
    ///   `season_times(season)`
    /// - `time(month)`, its middle, with bounds; `year(month)`, `month_of_year(month)`, `times(month)`; `days(month)`, with a bit per day of the month with
    ///   analysed times
    /// - `tracks`, `objects` and `landfalls(month, class, basin)`
    /// - `box_tracks` and `box_objects(month, box_class, basin)` of the classes that only boxes distinguish, if there are
    ///   any
    /// - `ace(month, basin)`; NaN, the fill value, if there are cyclones but no known wind
    /// - `precipitation(month, class, basin)` and `all_precipitation(month)`; NaN in months without precipitation
    /// - `marked_cells(month, class, coarse_lat, coarse_lon)`, for changes of frequency: grid cells of the class in
    ///   cells of 5 degrees, summed over all times of the month, of `grid_cells(coarse_lat, coarse_lon)`
    ///
    /// Frequencies and numbers by month are NaN for classes that were not looked for. Classes and basins are named in
    /// `flag_meanings`. Attributes:
    ///
    /// - `classes_looked_for`: the classes of which a count of 0 means that there were none
    /// - `wind_of_cyclones`: the wind of categories and cyclone energy
    /// - `transport_of_rivers`: the transport by which rivers are ranked
    /// - `rules_of_events`: the thresholds that selected events and tracks
    /// - `missing_share`: the share of the cells of all masks that were missing, if there are masks
    /// - `time_coverage_start`, `time_coverage_end`: the first and last analysed time
    /// - `usual_step_hours`: the usual interval of analysed times
    /// - `squall_version`: the version of the program
    ///
    /// # Errors
    /// [`crate::ClimateError::Mismatch`] if the grid differs from that of the statistics, [`crate::ClimateError::Data`]
    /// if writing fails.
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
        file: &mut FileMut,
        grid: &LatLonGrid,
        calendar: Calendar,
    ) -> netcdf::Result<()> {
        self.put_attributes(file, calendar)?;
        put_dimensions(file, grid, self.months().len())?;
        put_axis(file, "lat", grid.lat_deg(), &LATITUDE)?;
        put_axis(file, "lon", grid.lon_deg(), &LONGITUDE)?;
        let classes = Class::EVENTS.map(|class| (class.code() as i8, class.name()));
        put_flags(file, "class", "kind of event", &classes)?;
        let basins = Basin::ALL.map(|basin| (basin as i8, basin.code()));
        let meaning =
            "ocean basin of tropical cyclones; of other classes the sector between its meridians";
        put_flags(file, "basin", meaning, &basins)?;
        // Boxes do not determine which cells belong to events.
        if self.occurrence().times() > 0 || self.months().is_empty() {
            self.put_frequencies(file, grid)?;
            self.put_coarse(file)?;
        }
        month_axis::put(file, self.months(), calendar)?;
        self.put_months(file, &MONTHLY)?;
        let mut classes = self.classes_of_tables().into_iter();
        if classes.any(|class| BOXED.contains(&class)) {
            file.add_dimension("box_class", BOXED.len())?;
            let flags = BOXED.map(|class| (class.code() as i8, class.name()));
            put_flags(file, "box_class", "kind of event of boxes alone", &flags)?;
            self.put_months(file, &MONTHLY_OF_BOXES)?;
        }
        Ok(())
    }

    fn put_attributes(&self, file: &mut FileMut, calendar: Calendar) -> netcdf::Result<()> {
        file.add_attribute("Conventions", "CF-1.8")?;
        file.add_attribute("title", "Statistics of extreme weather events")?;
        let version = env!("CARGO_PKG_VERSION");
        file.add_attribute("history", format!("squall {version}: events"))?;
        if let Some(version) = self.program() {
            file.add_attribute(VERSION, version)?;
        }
        file.add_attribute("calendar_of_the_data", calendar.cf_name())?;
        let looked_for: Vec<&str> = self.classes().iter().map(|class| class.name()).collect();
        file.add_attribute("classes_looked_for", looked_for.join(" "))?;
        if let Some(wind) = self.wind() {
            file.add_attribute(WIND, wind)?;
        }
        if let Some(transport) = self.transport() {
            file.add_attribute(TRANSPORT, transport)?;
        }
        let rules: Vec<String> = (self.rules().iter())
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        if !rules.is_empty() {
            file.add_attribute(RULES, rules.join("\n"))?;
        }
        if self.occurrence().times() > 0 {
            file.add_attribute(MISSING, self.occurrence().missing_share())?;
        }
        let times: u64 = self.months().iter().map(|month| month.times).sum();
        file.add_attribute("analysed_times", times as f64)?;
        if let Some((first, last)) = self.span().ends() {
            file.add_attribute(COVERAGE[0], first.to_string())?;
            file.add_attribute(COVERAGE[1], last.to_string())?;
        }
        if let Some(hours) = self.usual_step_hours() {
            file.add_attribute(STEP, hours)?;
        }
        Ok(())
    }

    fn put_months(&self, file: &mut FileMut, tables: &[MonthTable]) -> netcdf::Result<()> {
        // Boxes of unknown origin do not tell what was looked for: what they have was.
        let found = self.classes_of_tables().into_iter();
        let found = found.filter(|class| BOXED.contains(class));
        let known: Vec<Class> = found.chain(self.classes().iter().copied()).collect();
        for table in tables {
            let mut variable = file.add_variable::<f64>(table.name, table.dimensions)?;
            variable.put_attribute("long_name", table.long_name)?;
            variable.put_attribute("units", table.unit)?;
            if !["year", "month_of_year"].contains(&table.name) {
                variable.put_attribute("coordinates", month_axis::COORDINATES)?;
            }
            let has_classes = [BY_CLASS, BY_BOX_CLASS].contains(&table.dimensions);
            if has_classes || [WATER_UNIT, ENERGY_UNIT].contains(&table.unit) {
                variable.set_fill_value(f64::NAN)?;
            }
            let mut known = known.clone();
            if table.name == "landfalls" {
                known.retain(|class| self.knows_landfalls(*class));
            }
            let months = self.months().iter();
            let values: Vec<f64> = months
                .flat_map(|month| nan_unless_known(table, (table.values)(month), &known))
                .collect();
            if !values.is_empty() {
                variable.put_values(&values, ..)?;
            }
        }
        Ok(())
    }

    fn put_coarse(&self, file: &mut FileMut) -> netcdf::Result<()> {
        let centres = |count: usize, first: f64| -> Vec<f64> {
            let centre = |k: usize| first + COARSE_CELL_DEG * (k as f64 + 0.5);
            (0..count).map(centre).collect()
        };
        let lat_deg = centres(COARSE_ROWS, -90.0);
        put_axis(file, "coarse_lat", &lat_deg, &LATITUDE)?;
        let lon_deg = centres(COARSE_COLUMNS, 0.0);
        put_axis(file, "coarse_lon", &lon_deg, &LONGITUDE)?;
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
        marked.put_attribute("coordinates", month_axis::COORDINATES)?;
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

fn put_dimensions(file: &mut FileMut, grid: &LatLonGrid, months: usize) -> netcdf::Result<()> {
    let (rows, columns) = grid.shape();
    for (name, length) in [
        ("class", Class::EVENTS.len()),
        ("basin", Basin::ALL.len()),
        ("season", SEASONS.len()),
        // netCDF treats length 0 as unlimited.
        ("month", months.max(1)),
        ("coarse_lat", COARSE_ROWS),
        ("coarse_lon", COARSE_COLUMNS),
        ("lat", rows),
        ("lon", columns),
    ] {
        file.add_dimension(name, length)?;
    }
    Ok(())
}

/// Adds a coordinate variable of codes with their meanings.
pub(super) fn put_flags(
    file: &mut FileMut,
    name: &str,
    long_name: &str,
    flags: &[(i8, &str)],
) -> netcdf::Result<()> {
    let (codes, words): (Vec<i8>, Vec<&str>) = flags.iter().copied().unzip();
    let mut variable = file.add_variable::<i8>(name, &[name])?;
    variable.put_attribute("long_name", long_name)?;
    variable.put_attribute("units", "1")?;
    variable.put_attribute("flag_values", codes.clone())?;
    variable.put_attribute("flag_meanings", words.join(" "))?;
    variable.put_values(&codes, ..)
}

/// A variable of monthly numbers.
struct MonthTable {
    name: &'static str,
    long_name: &'static str,
    unit: &'static str,
    dimensions: &'static [&'static str],
    /// The numbers of one month, in the order of the remaining dimensions.
    values: fn(&MonthCounts) -> Vec<f64>,
}

const WATER_UNIT: &str = "km3";
const ENERGY_UNIT: &str = "1e4 knot2";
const BY_MONTH: &[&str] = &["month"];
const BY_CLASS: &[&str] = &["month", "class", "basin"];
const BY_BOX_CLASS: &[&str] = &["month", "box_class", "basin"];

const MONTHLY: [MonthTable; 10] = [
    MonthTable {
        name: "year",
        long_name: "year",
        unit: "1",
        dimensions: BY_MONTH,
        values: |month| vec![month.year as f64],
    },
    MonthTable {
        name: "month_of_year",
        long_name: "month, 1 to 12",
        unit: "1",
        dimensions: BY_MONTH,
        values: |month| vec![month.month as f64],
    },
    MonthTable {
        name: "times",
        long_name: "analysed times",
        unit: "1",
        dimensions: BY_MONTH,
        values: |month| vec![month.times as f64],
    },
    MonthTable {
        name: "days",
        long_name: "days of the month with analysed times: 1 for the first, 2 for the second, 4 for the third, and so on, added up",
        unit: "1",
        dimensions: BY_MONTH,
        values: |month| vec![f64::from(month.days)],
    },
    MonthTable {
        name: "tracks",
        long_name: "tracks that began in the month and basin",
        unit: "1",
        dimensions: BY_CLASS,
        values: |month| numbers(&month.tracks),
    },
    MonthTable {
        name: "objects",
        long_name: "objects, one for each event and time",
        unit: "1",
        dimensions: BY_CLASS,
        values: |month| numbers(&month.objects),
    },
    MonthTable {
        name: "ace",
        long_name: "accumulated cyclone energy of tropical cyclones",
        unit: ENERGY_UNIT,
        dimensions: &["month", "basin"],
        values: |month| {
            let known = month.known_energy().into_iter();
            known.map(|ace| ace.unwrap_or(f64::NAN)).collect()
        },
    },
    MonthTable {
        name: "landfalls",
        long_name: "tracks whose first landfall was in the month and basin",
        unit: "1",
        dimensions: BY_CLASS,
        values: |month| numbers(&month.landfalls),
    },
    MonthTable {
        name: "precipitation",
        long_name: "liquid water that fell inside of events",
        unit: WATER_UNIT,
        dimensions: BY_CLASS,
        values: |month| known_water(month, month.precipitation_km3.concat()),
    },
    MonthTable {
        name: "all_precipitation",
        long_name: "liquid water that fell on the grid",
        unit: WATER_UNIT,
        dimensions: BY_MONTH,
        values: |month| known_water(month, vec![month.all_precipitation_km3]),
    },
];

/// Those of the classes that only boxes distinguish.
const MONTHLY_OF_BOXES: [MonthTable; 2] = [
    MonthTable {
        name: "box_tracks",
        long_name: "tracks that began in the month and basin",
        unit: "1",
        dimensions: BY_BOX_CLASS,
        values: |month| numbers(&month.boxed_tracks),
    },
    MonthTable {
        name: "box_objects",
        long_name: "objects, one for each event and time",
        unit: "1",
        dimensions: BY_BOX_CLASS,
        values: |month| numbers(&month.boxed_objects),
    },
];

/// The numbers of one month, NaN for classes that were not looked for: 0 would say that there were none.
fn nan_unless_known(table: &MonthTable, mut values: Vec<f64>, known: &[Class]) -> Vec<f64> {
    let basins = Basin::ALL.len();
    let classes: &[Class] = if table.dimensions == BY_CLASS {
        &Class::EVENTS
    } else if table.dimensions == BY_BOX_CLASS {
        &BOXED
    } else if table.unit == ENERGY_UNIT {
        &[Class::TropicalCyclone]
    } else {
        &[]
    };
    for (class, of_class) in classes.iter().zip(values.chunks_mut(basins)) {
        if !known.contains(class) {
            of_class.fill(f64::NAN);
        }
    }
    values
}

/// Flattens counts by class and basin.
fn numbers(counts: &[[u64; Basin::ALL.len()]; 2]) -> Vec<f64> {
    counts.iter().flatten().map(|&n| n as f64).collect()
}

/// Water of a month; NaN if none fell anywhere, because precipitation is then unknown.
fn known_water(month: &MonthCounts, km3: Vec<f64>) -> Vec<f64> {
    if month.all_precipitation_km3 > 0.0 {
        km3
    } else {
        vec![f64::NAN; km3.len()]
    }
}
