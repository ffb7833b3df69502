//! One run as sums by year: what is left of a century of events when they have been read once.

mod ensemble;
mod known;
mod of_class;
mod tables;

pub(crate) use ensemble::{Ensemble, joined};
pub(super) use tables::shared_transport;

use crate::compare::coverage::{Coverage, Selection, Years};
use crate::compare::group::{Group, SEASONS, season_of};
use crate::compare::maps::YearMaps;
use crate::compare::quantity::{Kind, Quantity};
use crate::compare::statistic::Statistic;
use crate::error::Result;
use crate::statistics::{Basin, Category};
use crate::track::Pieces;
use squall_data::{Calendar, Class};

/// Pascals of a hectopascal.
const HPA: f64 = 100.0;
/// Millimetres a day of a metre a second.
const MM_PER_DAY: f64 = 1000.0 * 86_400.0;

/// A sum and what it is divided by.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    total: f64,
    count: f64,
}

/// Year (by its place among those used), basin and season that something counts for.
#[derive(Debug, Clone, Copy)]
struct Place {
    year: usize,
    basin: Basin,
    season: usize,
}

impl Place {
    fn is_in(&self, group: Group) -> bool {
        group.holds(self.basin, self.season)
    }
}

/// The sums of one run.
#[derive(Debug, Clone)]
pub struct Side {
    /// When it was analysed.
    pub coverage: Coverage,
    /// Which years are used, and which are not.
    pub years: Years,
    /// Block of each used year: years that are drawn together.
    blocks: Vec<usize>,
    /// Counts in all selected months and in each season are scaled by this to months of the common calendar.
    scales: [f64; 1 + SEASONS.len()],
    /// By quantity, year and group.
    sums: Vec<Vec<[Sum; Group::COUNT]>>,
    /// By [`Extreme`]: the value of each track, and where the track counts.
    extremes: [Vec<(f64, Place)>; Extreme::COUNT],
    /// Analysed times by year and group; 0 where they were not counted.
    times: Vec<[f64; Group::COUNT]>,
    /// Columns that were there, by quantity.
    known: [bool; Quantity::COUNT],
    /// Tracks that were there after a hole in the data; those that lived through it were counted before it too.
    pub(crate) continued: usize,
    /// Tracks of rivers that are pieces.
    pub(crate) pieces: Pieces,
    /// Classes that a row of the tables is of, by place in [`Class::TRACKED`].
    listed: [bool; Class::TRACKED.len()],
    /// Density of genesis and frequency, by year.
    pub(crate) maps: YearMaps,
}

/// How the years of a run are read.
#[derive(Debug, Clone)]
pub struct SideOptions {
    /// Which months count, and when years begin.
    pub selection: Selection,
    /// First and last year that may be used.
    pub range: Option<(i64, i64)>,
    /// Consecutive years that are drawn together.
    pub block_years: usize,
    /// The calendar to whose months counts are scaled; the run's own if `None`.
    pub calendar: Option<Calendar>,
    /// The column of the transport in rivers; it is not looked at if `None`.
    pub transport: Option<&'static str>,
    /// Whether winds are looked at: not where the other run has those of another level.
    pub wind: bool,
}

impl Side {
    /// Reads the tables and statistics of a folder, row by row: memory grows with years and tracks of cyclones, not
    /// with events.
    ///
    /// # Errors
    /// [`crate::ClimateError::Table`] and [`crate::ClimateError::TableCell`] for tables that cannot be understood,
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

    /// How long the selected months of the common calendar, or those of a season, are, relative to the run's own.
    pub(crate) fn scale(&self, season: Option<usize>) -> f64 {
        self.scales[season.map_or(0, |season| 1 + season)]
    }

    /// Whether the tables have what a quantity needs: its columns, and values in them where there are events, in some
    /// year those of nearly all.
    pub fn knows(&self, quantity: Quantity) -> bool {
        use Quantity as Q;
        let about = quantity.about();
        let any = |q: Q| self.has_any(q);
        let source = match quantity {
            Q::Hurricanes | Q::MajorHurricanes | Q::CycloneWindHigh => Q::CycloneWind,
            Q::CyclonePressureLow => Q::CyclonePressure,
            other => other,
        };
        let always = of_class::is_number(quantity);
        let events = of_class::quantities(about.class).is_some_and(|q| any(q.tracks));
        let timed = match about.kind {
            Kind::PerTime => self.coverage.counted,
            Kind::PerYear => self.known_years(quantity).contains(&true),
            Kind::Mean | Kind::Quantile(_) => true,
        };
        // Without events there is nothing to be known of them; with events, blank cells are not zeros.
        self.known[quantity as usize] && timed && (always || any(source) || !events)
    }

    /// Whether any event counts for a quantity.
    pub(crate) fn has_any(&self, quantity: Quantity) -> bool {
        let years = &self.sums[quantity as usize];
        years.iter().any(|year| year[0].count > 0.0)
    }

    /// Whether the tables tell events of a class. Those of masks tell the classes that were looked for, also where there
    /// are none, and have no rows of others whatever the weather was; tables without `statistics.nc`, such as imported
    /// tracks, tell the classes of their rows.
    pub fn tells(&self, class: Class) -> bool {
        let listed = Class::TRACKED.iter().zip(self.listed);
        self.coverage.classes.contains(&class)
            || listed.into_iter().any(|(c, has)| *c == class && has)
    }

    /// The number of a quantity in a group, from its blocks of years.
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
        let total = |scale: f64| by_block(&|year| sums[year][index].total * scale);
        match quantity.about().kind {
            Kind::PerYear => {
                // A year of unknown winds is not one without hurricanes.
                let known = self.known_years(quantity);
                let share = |year: usize| f64::from(u8::from(known[year]));
                let of_known = |year: usize| share(year) * sums[year][index].total;
                let scale = self.scale(group.season);
                let numerator = by_block(&|year| of_known(year) * scale);
                Statistic::ratio(numerator, by_block(&share))
            }
            Kind::PerTime => {
                Statistic::ratio(total(1.0), by_block(&|year| self.times[year][index]))
            }
            Kind::Mean => Statistic::ratio(total(1.0), by_block(&|year| sums[year][index].count)),
            Kind::Quantile(share) => {
                let values = self.values(match quantity {
                    Quantity::CyclonePressureLow => Extreme::CyclonePressure,
                    _ => Extreme::CycloneWind,
                });
                let values = (values.iter())
                    .filter(|(_, place)| place.is_in(group))
                    .map(|(value, place)| (*value, self.blocks[place.year] as u32))
                    .collect();
                Statistic::quantile(share, values, blocks)
            }
        }
    }

    /// Highest wind (m/s), lowest pressure (hPa), largest river (km²) or highest transport (kg m-1 s-1) of each used
    /// year. Years of whose tracks none has a value are unknown and left out; those without a track are counted.
    pub(crate) fn extremes(&self, of: Extreme) -> Extremes {
        let sign = if of.is_lowest() { -1.0 } else { 1.0 };
        let mut best = vec![f64::NEG_INFINITY; self.blocks.len()];
        for (value, place) in self.values(of) {
            best[place.year] = best[place.year].max(sign * value);
        }
        let tracks = &self.sums[of.tracks() as usize];
        let mut found = Extremes {
            values: Vec::new(),
            years: vec![0; self.blocks()],
        };
        for (year, (value, &block)) in best.iter().zip(&self.blocks).enumerate() {
            let known = value.is_finite();
            if known {
                found.values.push((sign * value, block as u32));
            }
            found.years[block] += u32::from(known || tracks[year][0].count == 0.0);
        }
        found
    }

    /// The same of each track, with the block of its year; and the years of each block that they are of: those whose
    /// tracks nearly all have a value.
    pub(crate) fn extremes_of_tracks(&self, of: Extreme) -> (Vec<(f64, u32)>, Vec<f64>) {
        let known = self.known_years_of(of);
        let values = (self.values(of).iter())
            .filter(|(_, place)| known[place.year])
            .map(|(value, place)| (*value, self.blocks[place.year] as u32))
            .collect();
        (values, self.years_by_block(&known))
    }

    fn values(&self, of: Extreme) -> &[(f64, Place)] {
        &self.extremes[of as usize]
    }

    fn note_class(&mut self, class: Class) {
        if let Some(place) = Class::TRACKED.iter().position(|known| *known == class) {
            self.listed[place] = true;
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

    /// Where something at a time and place counts; `None` outside the compared months and years.
    fn place(
        &self,
        selection: &Selection,
        date: (i64, i64),
        position: (f64, f64),
    ) -> Option<Place> {
        let (year, month) = date;
        if !selection.months.contains(&month) {
            return None;
        }
        let year = selection.year_of(year, month);
        let year = self.years.used.binary_search(&year).ok()?;
        Some(Place {
            year,
            basin: Basin::of(position.0, position.1),
            season: season_of(month),
        })
    }

    /// Adds to a sum, and `count` to what it is divided by, in all groups of a place.
    fn add(&mut self, quantity: Quantity, place: Place, total: f64, count: f64) {
        for group in Group::around(place.basin, place.season) {
            let sum = &mut self.sums[quantity as usize][place.year][group.index()];
            sum.total += total;
            sum.count += count;
        }
    }

    fn add_mean(&mut self, quantity: Quantity, place: Place, value: Option<f64>) {
        if let Some(value) = value {
            self.add(quantity, place, value, 1.0);
        }
    }

    fn add_extreme(&mut self, of: Extreme, place: Place, value: Option<f64>) {
        self.extremes[of as usize].extend(value.map(|value| (value, place)));
    }

    /// Counts a cyclone's highest wind.
    fn add_wind(&mut self, place: Place, wind_m_s: Option<f64>) {
        let Some(wind_m_s) = wind_m_s else { return };
        self.add(Quantity::CycloneWind, place, wind_m_s, 1.0);
        self.add_extreme(Extreme::CycloneWind, place, Some(wind_m_s));
        let category = Category::saffir_simpson(wind_m_s);
        if category >= Some(Category::One) {
            self.add(Quantity::Hurricanes, place, 1.0, 1.0);
        }
        if category >= Some(Category::Three) {
            self.add(Quantity::MajorHurricanes, place, 1.0, 1.0);
        }
    }
}

/// How long the months of the common calendar are, relative to those of the run's own: all selected months, then those of
/// each season. A February of 30 days has more storms than one of 28.
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

/// The block of each of so many years, of which none has more than `block_years`: as many blocks as it takes, as equal
/// as can be. Blocks are drawn and dealt alike, so that none may be the short rest of the others.
fn blocks_of(years: usize, block_years: usize) -> Vec<usize> {
    let blocks = years.div_ceil(block_years.max(1));
    (0..years).map(|year| year * blocks / years).collect()
}

/// An extreme of a track, and so of a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extreme {
    CycloneWind,
    CyclonePressure,
    RiverArea,
    RiverTransport,
}

impl Extreme {
    /// Number of extremes.
    const COUNT: usize = Self::RiverTransport as usize + 1;

    /// Its unit in tables.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::CycloneWind => "m/s",
            Self::CyclonePressure => "hPa",
            Self::RiverArea => "km²",
            Self::RiverTransport => "kg m⁻¹ s⁻¹",
        }
    }

    /// Whether it is the smallest value.
    pub(crate) fn is_lowest(self) -> bool {
        self == Self::CyclonePressure
    }

    /// The number of tracks that it is an extreme of.
    pub(crate) fn tracks(self) -> Quantity {
        match self {
            Self::CycloneWind | Self::CyclonePressure => Quantity::CycloneTracks,
            Self::RiverArea | Self::RiverTransport => Quantity::RiverTracks,
        }
    }
}

/// The extremes of the years of a run, and how many years they are of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Extremes {
    /// The extreme of each year that has one, with the year's block.
    pub values: Vec<(f64, u32)>,
    /// Years of each block, those without an event among them.
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
        // It had been that of a year, 1.015.
        let [february, ..] = scales_of(Calendar::Day360, &options(&[2]));
        assert!((february - 28.2425 / 30.0).abs() < 1e-12);
        // January has 31 days in both.
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
        // They had been four of five years and one of one.
        assert_eq!(lengths(21, 5), [5, 4, 4, 4, 4]);
        assert_eq!(lengths(6, 5), [3, 3]);
        assert_eq!(lengths(30, usize::MAX), [30]);
        assert!(lengths(0, 5).is_empty());
    }
}
