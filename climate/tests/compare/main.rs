//! Compares two runs with known storms, from the tables and statistics that `squall events` writes to the changes.

mod by_hand;
mod changes;
mod classes;
mod ensembles;
mod inputs;
mod members;
mod periods;
mod tables;
mod units;
mod unknown;
mod withheld;

use ndarray::Array2;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use squall_climate::ClimateError;
use squall_climate::compare::{
    self, CompareOptions, Comparison, DrawOptions, Group, MapQuantity, NoInterval, Quantity,
    Region, SideInput,
};
use squall_climate::report::changes::changes_page;
use squall_climate::report::{ReportBuilder, ReportInput};
use squall_climate::statistics::{Basin, Statistics};
use squall_climate::track::{TrackerOptions, rule_of_landfalls};
use squall_data::random::stream;
use squall_data::{Calendar, ClassMask, LatLonGrid, Time};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run whose storms all follow the same rule.
#[derive(Clone)]
struct Run {
    calendar: Calendar,
    grid: (usize, usize),
    years: std::ops::RangeInclusive<i64>,
    months: Vec<i64>,
    /// Year and month before which there are no times.
    from: (i64, i64),
    /// Mean number of cyclones per month.
    storms: usize,
    wind_m_s: f64,
    /// Probability that the river cell at 42°N 202°E is marked at a time.
    river_chance: f64,
    /// A month without times.
    gap: Option<(i64, i64)>,
    /// The last day of each month that has a time.
    last_day: i64,
    /// Times per day.
    times_per_day: i64,
    /// The level of its winds.
    wind: Option<&'static str>,
    /// The minimum peak wind of its cyclones, one of the tracking rules.
    min_wind: f64,
    /// The percentile that its masks were made with.
    masks: Option<&'static str>,
    /// The climatology from which the percentiles of its rivers were taken.
    climate: Option<&'static str>,
    /// Further settings of its masks.
    mask_settings: &'static [(&'static str, &'static str)],
    /// Whether landfalls of rivers that split over land count.
    landfalls_of_pieces: bool,
    /// Number of columns of its masks that are missing at all times.
    missing_columns: usize,
    seed: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            calendar: Calendar::NoLeap,
            grid: (19, 36),
            years: 2001..=2012,
            months: (1..=12).collect(),
            from: (0, 1),
            storms: 5,
            wind_m_s: 40.0,
            river_chance: 0.2,
            gap: None,
            last_day: 31,
            times_per_day: 1,
            wind: None,
            min_wind: 0.0,
            masks: None,
            climate: None,
            mask_settings: &[],
            landfalls_of_pieces: true,
            missing_columns: 0,
            seed: 1,
        }
    }
}

impl Run {
    fn time(&self, year: i64, month: i64, day: i64) -> Time {
        Time::new(self.calendar, year, month, day, 0, 0, 0).unwrap()
    }

    /// Writes events.csv, tracks.csv and statistics.nc.
    fn write(&self, folder: &Path) {
        write_together(&[self], folder);
    }

    /// Appends this run's times, events and tracks to those of other runs.
    fn add(&self, statistics: &mut Statistics, events: &mut Vec<String>, tracks: &mut Vec<String>) {
        let grid = LatLonGrid::global(self.grid.0, self.grid.1).unwrap();
        let mut random = stream(self.seed, "compare test", &[]);
        let river = grid.nearest(42.0, 202.0);
        for year in self.years.clone() {
            let has = |month: i64| (year, month) >= self.from && self.gap != Some((year, month));
            for &month in self.months.iter().filter(|month| has(**month)) {
                let days = self.calendar.days_in_month(year, month).min(self.last_day);
                for step in 0..days * self.times_per_day {
                    let mut codes = Array2::zeros(self.grid);
                    codes[river] = 2 * u8::from(random.random::<f64>() < self.river_chance);
                    let time =
                        (self.time(year, month, 1)).add_seconds(step * 86_400 / self.times_per_day);
                    let mask = ClassMask::new(time, codes).unwrap();
                    statistics
                        .add_time(mask.time, Some(&mask), 24.0, [])
                        .unwrap();
                    if self.missing_columns > 0 {
                        let missing =
                            Array2::from_shape_fn(self.grid, |(_, i)| i < self.missing_columns);
                        statistics.leave_out(mask.time, missing.view()).unwrap();
                    }
                }
                let count = self.storms.saturating_sub(2)
                    + random.random_range(0..5usize.min(2 * self.storms + 1));
                for _ in 0..if self.storms == 0 { 0 } else { count } {
                    // The header is row 0, so the length is the next identity.
                    let id = tracks.len();
                    self.storm(id, (year, month), &mut random, events, tracks);
                }
            }
        }
    }

    fn storm(
        &self,
        id: usize,
        (year, month): (i64, i64),
        random: &mut ChaCha8Rng,
        events: &mut Vec<String>,
        tracks: &mut Vec<String>,
    ) {
        let start = self.time(year, month, random.random_range(1..26));
        let lon = random.random_range(130.0..160.0);
        let strongest = self.wind_m_s * random.random_range(0.7..1.3);
        for day in 0..4 {
            let wind = strongest * [0.6, 0.8, 1.0, 0.7][day];
            let lat = 10.0 + 4.0 * day as f64;
            events.push(format!(
                "tropical_cyclone,{},{lon:.2},{lat:.2},90000,{id},{wind:.3},2e-7",
                start.add_seconds(day as i64 * 86_400)
            ));
        }
        let end = start.add_seconds(3 * 86_400);
        tracks.push(format!(
            "{id},tropical_cyclone,{start},{end},{lon:.2},10.00,{:.1},{strongest:.3}",
            101_000.0 - 2.0 * strongest * strongest
        ));
    }
}

/// Writes several runs with different years as one run.
fn write_together(runs: &[&Run], folder: &Path) {
    let first = runs[0];
    let grid = LatLonGrid::global(first.grid.0, first.grid.1).unwrap();
    let mut statistics = Statistics::new(&grid);
    let mut events = vec![
        "class,time,lon_deg,lat_deg,area_km2,track_id,max_wind_m_s,mean_prect_m_s".to_string(),
    ];
    let mut tracks = vec!["track_id,class,start_time,end_time,genesis_lon_deg,genesis_lat_deg,min_psl_pa,max_wind_m_s".to_string()];
    for run in runs {
        run.add(&mut statistics, &mut events, &mut tracks);
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("events.csv"), events.join("\n") + "\n").unwrap();
    fs::write(folder.join("tracks.csv"), tracks.join("\n") + "\n").unwrap();
    let mut tracking = TrackerOptions::default();
    tracking.tropical_cyclone.min_peak_wind_m_s = first.min_wind;
    let mut rules = tracking.rules();
    let percentile = |value: &str| ("masks.percentile".to_string(), value.to_string());
    rules.extend(first.masks.map(percentile));
    let climate = |of: &str| ("masks.percentile_climatology".to_string(), of.to_string());
    rules.extend(first.climate.map(climate));
    let settings = (first.mask_settings.iter())
        .map(|(name, value)| (format!("masks.{name}"), value.to_string()));
    rules.extend(settings);
    rules.extend(first.landfalls_of_pieces.then(rule_of_landfalls));
    statistics
        .of_wind(first.wind)
        .of_rules(rules)
        .write_netcdf(folder.join("statistics.nc"), &grid, first.calendar)
        .unwrap();
}

fn side(folder: &Path, label: &str) -> SideInput {
    SideInput {
        folders: vec![folder.into()],
        label: label.into(),
        years: None,
    }
}

/// Writes the runs as members `m1`, `m2`, ... of a side into `LABEL/m1/events` and so on.
fn ensemble(folder: &Path, label: &str, runs: &[Run]) -> SideInput {
    let of = |k: usize| folder.join(label).join(format!("m{k}")).join("events");
    let folders: Vec<PathBuf> = (1..=runs.len()).map(of).collect();
    (runs.iter().zip(&folders)).for_each(|(run, path)| run.write(path));
    SideInput {
        folders,
        label: label.into(),
        years: None,
    }
}

/// The default run with other years and other random weather.
fn years(years: std::ops::RangeInclusive<i64>, seed: u64) -> Run {
    Run {
        years,
        seed,
        ..Run::default()
    }
}

/// All results, without the names of the sides and the notes. As text because NaN is not equal to itself.
fn numbers(found: &Comparison) -> String {
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        found.changes, found.maps, found.map_changes, found.return_levels, found.distributions
    )
}

fn options() -> CompareOptions {
    CompareOptions {
        draws: DrawOptions {
            draws: 1000,
            ..DrawOptions::default()
        },
        ..CompareOptions::default()
    }
}

fn compare_with(
    a: SideInput,
    b: SideInput,
    options: &CompareOptions,
) -> Result<Comparison, ClimateError> {
    compare::plan(a, b, options)?.run(options.draws, &|| Ok(()), |_| Ok(()))
}

/// Writes two runs and compares them.
fn compare(a: &Run, b: &Run, options: &CompareOptions) -> Result<Comparison, ClimateError> {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("a"), folder.path().join("b")];
    a.write(&paths[0]);
    b.write(&paths[1]);
    compare_with(side(&paths[0], "first"), side(&paths[1], "second"), options)
}

fn row(comparison: &Comparison, quantity: Quantity, group: Group) -> &compare::ChangeRow {
    let found =
        (comparison.changes.iter()).find(|row| row.quantity == quantity && row.group() == group);
    found.unwrap_or_else(|| panic!("no row of {quantity:?} {group:?}"))
}
