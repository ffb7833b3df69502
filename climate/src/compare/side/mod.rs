//! Annual sums of one run, accumulated in one pass over its tables.

mod ensemble;
mod known;
mod of_class;
mod tables;

pub(crate) use ensemble::{Ensemble, joined};
pub(crate) use known::{is_of_values, needs_values, sum_of_years, unequal_shares};
pub(super) use tables::shared_transport;

use crate::compare::coverage::{Coverage, Selection, Years};
use crate::compare::group::{Group, SEASONS, season_of};
use crate::compare::maps::YearMaps;
use crate::compare::quantity::{Extreme, Kind, Quantity};
use crate::compare::statistic::Statistic;
use crate::error::Result;
use crate::statistics::{Basin, Category};
use crate::track::Pieces;
use squall_data::{Calendar, Class};

/// Pascals per hectopascal.
const HPA: f64 = 100.0;
/// Millimetres per day in metres per second.
const MM_PER_DAY: f64 = 1000.0 * 86_400.0;

/// A sum and its denominator.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    total: f64,
    count: f64,
}

/// Year (as an index into the used years), basin and season to which something is attributed.
#[derive(Debug, Clone, Copy)]
struct GroupKey {
    year: usize,
    basin: Basin,
    season: usize,
}

impl GroupKey {
    fn is_in(&self, group: Group) -> bool {
        group.holds(self.basin, self.season)
    }
}

/// The annual sums of one run.
#[derive(Debug, Clone)]
pub struct Side {
    /// The analysed times.
    pub coverage: Coverage,
    /// The used and unused years.
    pub years: Years,
    /// Block of each used year; years of a block are resampled together.
    blocks: Vec<usize>,
    /// Factors that scale counts to the month lengths of the common calendar: for all selected months, then for each
    /// season.
    scales: [f64; 1 + SEASONS.len()],
    /// Sums by quantity, year and group.
    sums: Vec<Vec<[Sum; Group::COUNT]>>,
    /// By [`Extreme`]: the value of each track, and its attribution.
    extremes: [Vec<(f64, GroupKey)>; Extreme::COUNT],
    /// Analysed times by year and group; 0 if not counted.
    times: Vec<[f64; Group::COUNT]>,
    /// Whether the column of each quantity exists.
    known: [bool; Quantity::COUNT],
    /// Tracks that begin after a gap in the data. A storm that lasts through a gap was also counted before it.
    pub(crate) continued: usize,
    /// Tracks of rivers that are pieces.
    pub(crate) pieces: Pieces,
    /// Classes with rows in the tables, by index in [`Class::TRACKED`].
    listed: [bool; Class::TRACKED.len()],
    /// Density of genesis and frequency, by year.
    pub(crate) maps: YearMaps,
}

/// How the years of a run are read.
#[derive(Debug, Clone)]
pub struct SideOptions {
    /// The months to use, and the first month of a year.
    pub selection: Selection,
    /// First and last usable year.
    pub range: Option<(i64, i64)>,
    /// Number of consecutive years in a block.
    pub block_years: usize,
    /// The calendar to whose months counts are scaled; `None` for the run's own.
    pub calendar: Option<Calendar>,
    /// The column of the transport of rivers; `None` if transport is not compared.
    pub transport: Option<&'static str>,
    /// Whether winds are compared; false if the runs have winds of different levels.
    pub wind: bool,
}

impl Side {
    /// Reads the tables and statistics of a folder row by row. Memory grows with the number of years and cyclone
    /// tracks, not with the number of events.
    ///
    /// # Errors
    /// [`crate::ClimateError::Table`] and [`crate::ClimateError::TableCell`] for malformed tables,
    /// [`crate::ClimateError::Data`] if a file cannot be read.
    pub fn read(coverage: Coverage, options: &SideOptions) -> Result<Self> {
        let years = coverage.years(&options.selection, options.range);
        let count = years.used.len();
        let empty = vec![[Sum::default(); Group::COUNT]; count];
        let mut side = Self {
            blocks: blocks_of(count, options.block_years),
            scales: scales_of(coverage.calendar, options),
            sums: vec![empty; Quantity::COUNT],
            extremes: Default::default(),
            times: Vec::new(),
            known: [false; Quantity::COUNT],
            continued: 0,
            pieces: Pieces::default(),
            listed: [false; Class::TRACKED.len()],
            maps: YearMaps::new(count),
            coverage,
            years,
        };
        side.count_times(&options.selection);
        let mut storms = side.read_tracks(options)?;
        side.read_events(options, &mut storms)?;
        side.end_storms(storms);
        side.maps
            .read_occurrence(&side.coverage, &side.years, &options.selection)?;
        Ok(side)
    }

    /// Number of blocks of years.
    pub fn blocks(&self) -> usize {
        self.blocks.last().map_or(0, |last| last + 1)
    }

    /// Block of each used year.
    pub(crate) fn block_of_year(&self) -> &[usize] {
        &self.blocks
    }

    /// Length of the selected months, or of a season, in the common calendar relative to the run's own calendar.
    pub(crate) fn scale(&self, season: Option<usize>) -> f64 {
        self.scales[season.map_or(0, |season| 1 + season)]
    }

    /// Whether the tables contain a quantity: its columns, values if there are events, and at least one known year.
    pub fn knows(&self, quantity: Quantity) -> bool {
        let about = quantity.about();
        let any = |q: Quantity| self.has_any(q);
        let valued = match about.kind {
            Kind::Quantile(of, _) => !self.values(of).is_empty(),
            Kind::PerYear | Kind::PerTime | Kind::Mean => any(about.source),
        };
        let always = of_class::is_number(quantity);
        let events = of_class::quantities(about.class).is_some_and(|q| any(q.tracks));
        let timed = match about.kind {
            Kind::PerTime => self.coverage.counted,
            Kind::PerYear | Kind::Mean | Kind::Quantile(..) => {
                self.known_years(quantity, Group::ALL).contains(&true)
            }
        };
        // Without events nothing is missing; with events, blank cells are not zeros.
        self.known[quantity as usize] && timed && (always || valued || !events)
    }

    /// Whether any event counts for a quantity.
    pub(crate) fn has_any(&self, quantity: Quantity) -> bool {
        let years = &self.sums[quantity as usize];
        years.iter().any(|year| year[0].count > 0.0)
    }

    /// Whether the tables cover a class. Tables made from masks cover the classes that were searched for, even without
    /// events, and never have rows of others. Tables without `statistics.nc`, such as imported tracks, cover the
    /// classes of their rows.
    pub fn covers(&self, class: Class) -> bool {
        let listed = Class::TRACKED.iter().zip(self.listed);
        self.coverage.classes.contains(&class)
            || listed.into_iter().any(|(c, has)| *c == class && has)
    }

    /// The statistic of a quantity in a group, from the blocks of years.
    pub fn statistic(&self, quantity: Quantity, group: Group) -> Statistic {
        let index = group.index();
        let blocks = self.blocks();
        let by_block = |of_year: &dyn Fn(usize) -> f64| {
            let mut sums = vec![0.0; blocks];
            for (year, &block) in self.blocks.iter().enumerate() {
                sums[block] += of_year(year);
            }
            sums
        };
        let sums = &self.sums[quantity as usize];
        // A year with unknown winds is not a year without hurricanes, and its few winds are not those of all.
        let known = self.known_years(quantity, group);
        let weight = |year: usize| f64::from(u8::from(known[year]));
        let total = |scale: f64| by_block(&|year| weight(year) * sums[year][index].total * scale);
        match quantity.about().kind {
            Kind::PerYear => Statistic::ratio(total(self.scale(group.season)), by_block(&weight)),
            Kind::PerTime => {
                Statistic::ratio(total(1.0), by_block(&|year| self.times[year][index]))
            }
            Kind::Mean => {
                let count = by_block(&|year| weight(year) * sums[year][index].count);
                Statistic::ratio(total(1.0), count)
            }
            Kind::Quantile(of, share) => {
                let values = (self.values(of).iter())
                    .filter(|(_, key)| key.is_in(group) && known[key.year])
                    .map(|(value, key)| (*value, self.blocks[key.year] as u32))
                    .collect();
                Statistic::quantile(share, values, blocks)
            }
        }
    }

    /// Highest wind (m/s), lowest pressure (hPa), largest river (km²) or highest transport (kg m-1 s-1) of each used
    /// year. Years in which too few tracks have a value are unknown and omitted, as in distributions: the extreme of
    /// the few is not that of all. Years without tracks count.
    pub(crate) fn extremes(&self, of: Extreme) -> Extremes {
        let sign = if of.is_lowest() { -1.0 } else { 1.0 };
        let mut best = vec![f64::NEG_INFINITY; self.blocks.len()];
        for (value, key) in self.values(of) {
            best[key.year] = best[key.year].max(sign * value);
        }
        let mut found = Extremes {
            values: Vec::new(),
            years: vec![0; self.blocks()],
        };
        let years = best.iter().zip(&self.blocks).zip(self.known_years_of(of));
        for ((value, &block), _) in years.filter(|(_, known)| *known) {
            if value.is_finite() {
                found.values.push((sign * value, block as u32));
            }
            found.years[block] += 1;
        }
        found
    }

    /// The value of each track with the block of its year, and the number of known years of each block.
    pub(crate) fn extremes_of_tracks(&self, of: Extreme) -> (Vec<(f64, u32)>, Vec<f64>) {
        let known = self.known_years_of(of);
        let values = (self.values(of).iter())
            .filter(|(_, key)| known[key.year])
            .map(|(value, key)| (*value, self.blocks[key.year] as u32))
            .collect();
        (values, self.years_by_block(&known))
    }

    fn values(&self, of: Extreme) -> &[(f64, GroupKey)] {
        &self.extremes[of as usize]
    }

    fn note_class(&mut self, class: Class) {
        if let Some(index) = Class::TRACKED.iter().position(|known| *known == class) {
            self.listed[index] = true;
        }
    }

    fn count_times(&mut self, selection: &Selection) {
        let of_year = |&year: &i64| {
            let mut times = [0.0; Group::COUNT];
            for group in Group::all() {
                let wanted = |month| group.season.is_none_or(|season| season_of(month) == season);
                times[group.index()] = self.coverage.times(selection, year, wanted);
            }
            times
        };
        self.times = self.years.used.iter().map(of_year).collect();
    }

    /// Attributes something at a time and position; `None` outside the compared months and years.
    fn key(
        &self,
        selection: &Selection,
        date: (i64, i64),
        position: (f64, f64),
    ) -> Option<GroupKey> {
        let (year, month) = date;
        if !selection.months.contains(&month) {
            return None;
        }
        let year = selection.year_of(year, month);
        let year = self.years.used.binary_search(&year).ok()?;
        Some(GroupKey {
            year,
            basin: Basin::of(position.0, position.1),
            season: season_of(month),
        })
    }

    /// Adds `total` to the sum and `count` to the denominator, in all groups that contain a place.
    fn add(&mut self, quantity: Quantity, key: GroupKey, total: f64, count: f64) {
        for group in Group::around(key.basin, key.season) {
            let sum = &mut self.sums[quantity as usize][key.year][group.index()];
            sum.total += total;
            sum.count += count;
        }
    }

    fn add_mean(&mut self, quantity: Quantity, key: GroupKey, value: Option<f64>) {
        if let Some(value) = value {
            self.add(quantity, key, value, 1.0);
        }
    }

    fn add_extreme(&mut self, of: Extreme, key: GroupKey, value: Option<f64>) {
        self.extremes[of as usize].extend(value.map(|value| (value, key)));
    }

    /// Adds a cyclone's highest wind.
    fn add_wind(&mut self, key: GroupKey, wind_m_s: Option<f64>) {
        let Some(wind_m_s) = wind_m_s else { return };
        self.add(Quantity::CycloneWind, key, wind_m_s, 1.0);
        self.add_extreme(Extreme::CycloneWind, key, Some(wind_m_s));
        let category = Category::saffir_simpson(wind_m_s);
        if category >= Some(Category::One) {
            self.add(Quantity::Hurricanes, key, 1.0, 1.0);
        }
        if category >= Some(Category::Three) {
            self.add(Quantity::MajorHurricanes, key, 1.0, 1.0);
        }
    }
}

/// Month lengths of the common calendar relative to the run's own: for all selected months, then for each season. A
/// February of 30 days has more storms than one of 28.
fn scales_of(own: Calendar, options: &SideOptions) -> [f64; 1 + SEASONS.len()] {
    let common = options.calendar.unwrap_or(own);
    let days = |calendar: Calendar, is_of: &dyn Fn(i64) -> bool| {
        let months = (1..=12).filter(|month| is_of(*month));
        months
            .map(|month| calendar.mean_month_days(month))
            .sum::<f64>()
    };
    let ratio = |is_of: &dyn Fn(i64) -> bool| days(common, is_of) / days(own, is_of);
    std::array::from_fn(|part| match part.checked_sub(1) {
        None => ratio(&|month| options.selection.months.contains(&month)),
        Some(season) => ratio(&|month| season_of(month) == season),
    })
}

/// The block of each year: as many blocks of at most `block_years` as necessary, as equal in length as possible. Blocks
/// are resampled with equal weight, so that none may be a short remainder.
fn blocks_of(years: usize, block_years: usize) -> Vec<usize> {
    let blocks = years.div_ceil(block_years.max(1));
    (0..years).map(|year| year * blocks / years).collect()
}

/// Annual extremes of a run, and the number of years that they represent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Extremes {
    /// The extreme of each year that has one, with the year's block.
    pub values: Vec<(f64, u32)>,
    /// Number of known years in each block, including those without an event.
    pub years: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_scaled_by_the_lengths_of_their_own_months() {
        let options = |months: &[i64]| SideOptions {
            selection: Selection {
                months: months.to_vec(),
                year_start: 1,
            },
            range: None,
            block_years: 1,
            calendar: Some(Calendar::Standard),
            transport: None,
            wind: true,
        };
        let all: Vec<i64> = (1..=12).collect();
        let [year, winter, spring, summer, autumn] = scales_of(Calendar::Day360, &options(&all));
        assert!((year - 365.2425 / 360.0).abs() < 1e-12);
        assert!((winter - 90.2425 / 90.0).abs() < 1e-12);
        assert_eq!(
            [spring, summer, autumn],
            [92.0 / 90.0, 92.0 / 90.0, 91.0 / 90.0]
        );
        // Regression: it was that of a year, 1.015.
        let [february, ..] = scales_of(Calendar::Day360, &options(&[2]));
        assert!((february - 28.2425 / 30.0).abs() < 1e-12);
        // January has 31 days in both calendars.
        assert_eq!(scales_of(Calendar::NoLeap, &options(&[1]))[0], 1.0);
        let own = SideOptions {
            calendar: None,
            ..options(&[2])
        };
        assert_eq!(scales_of(Calendar::Day360, &own), [1.0; 5]);
    }

    #[test]
    fn blocks_of_years_are_as_equal_as_can_be() {
        let lengths = |years, block_years| {
            let of_year = blocks_of(years, block_years);
            assert!(of_year.is_sorted());
            let blocks = of_year.last().map_or(0, |last| last + 1);
            let count = |block: usize| of_year.iter().filter(|of| **of == block).count();
            (0..blocks).map(count).collect::<Vec<_>>()
        };
        assert_eq!(lengths(12, 3), [3; 4]);
        assert_eq!(lengths(3, 1), [1; 3]);
        // Regression: there were four blocks of five years and one of one.
        assert_eq!(lengths(21, 5), [5, 4, 4, 4, 4]);
        assert_eq!(lengths(6, 5), [3, 3]);
        assert_eq!(lengths(30, usize::MAX), [30]);
        assert!(lengths(0, 5).is_empty());
    }
}
