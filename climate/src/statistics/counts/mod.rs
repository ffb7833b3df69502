//! Counts by month, class and basin; histograms.

mod month;
mod season;
#[cfg(test)]
mod tests;

pub(in crate::statistics) use month::BOXED;
pub use month::MonthCounts;
pub(crate) use month::days_apart;
use month::{BASINS, boxed_index, class_index};
pub use season::MonthOfYear;
use season::season_of;

use crate::error::Result;
use crate::events::Event;
use crate::statistics::coarse::CoarseMonth;
use crate::statistics::steps::Steps;
use crate::statistics::{
    Basin, Category, CoarseOccurrence, Histogram, Occurrence, Span, ace_of_point,
};
use crate::track::Track;
use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};
use squall_data::{Class, ClassMask, LatLonGrid, Time};

/// Partial counts of a past month, of either kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastMonth {
    counts: Option<MonthCounts>,
    coarse: Option<CoarseMonth>,
}

/// Histograms of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassHistograms {
    /// Duration of tracks, hours.
    pub lifetime_hours: Histogram,
    /// Length of the tracks' paths, km.
    pub distance_km: Histogram,
    /// Highest wind of tracks, m/s.
    pub max_wind_m_s: Histogram,
    /// Lowest pressure of tracks, Pa.
    pub min_psl_pa: Histogram,
    /// Area of objects, km².
    pub area_km2: Histogram,
}

impl ClassHistograms {
    fn new(class: Class) -> Self {
        let area_km2 = match class {
            Class::AtmosphericRiver => Histogram::even(0.0, 500_000.0, 40),
            Class::Background
            | Class::TropicalCyclone
            | Class::ExtratropicalCyclone
            | Class::TropicalDepression => Histogram::even(0.0, 100_000.0, 40),
        };
        Self {
            lifetime_hours: Histogram::even(0.0, 12.0, 60),
            distance_km: Histogram::even(0.0, 500.0, 40),
            max_wind_m_s: Histogram::even(0.0, 5.0, 20),
            min_psl_pa: Histogram::even(88_000.0, 500.0, 32),
            area_km2,
        }
    }

    /// Name in tables, unit and histogram of each quantity.
    pub fn all(&self) -> [(&'static str, &'static str, &Histogram); 5] {
        [
            ("lifetime", "hours", &self.lifetime_hours),
            ("distance", "km", &self.distance_km),
            ("max_wind", "m s-1", &self.max_wind_m_s),
            ("min_psl", "Pa", &self.min_psl_pa),
            ("area", "km2", &self.area_km2),
        ]
    }
}

/// The statistics of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    occurrence: Occurrence,
    /// The same by season.
    seasons: [Occurrence; 4],
    coarse: CoarseOccurrence,
    /// The first and last analysed time.
    span: Span,
    /// The steps between analysed times.
    #[serde(default)]
    steps: Steps,
    /// Ascending by year and month.
    months: Vec<MonthCounts>,
    histograms: [ClassHistograms; 2],
    /// Cyclone tracks by category of their highest wind, for each basin of genesis.
    categories: [[u64; Category::ALL.len()]; BASINS],
    /// Tracks of each class, and how many of them tell of landfalls: rivers of boxes do not.
    #[serde(default)]
    tracks_and_with_land: [[u64; 2]; 2],
    /// The classes that were searched for.
    #[serde(default = "all_classes")]
    classes: Vec<Class>,
    /// Where the wind of categories and cyclone energy is measured, in words.
    #[serde(default)]
    wind: Option<String>,
    /// The vapour transport by which rivers are ranked, in words.
    #[serde(default)]
    transport: Option<String>,
    /// The thresholds that selected events and tracks, by name.
    #[serde(default)]
    rules: Vec<(String, String)>,
    /// The version of the program that made them.
    #[serde(default)]
    program: Option<String>,
}

fn all_classes() -> Vec<Class> {
    Class::EVENTS.to_vec()
}

impl Statistics {
    /// Creates empty statistics.
    pub fn new(grid: &LatLonGrid) -> Self {
        Self {
            occurrence: Occurrence::new(grid),
            seasons: std::array::from_fn(|_| Occurrence::new(grid)),
            coarse: CoarseOccurrence::new(grid),
            span: Span::default(),
            steps: Steps::default(),
            months: Vec::new(),
            histograms: Class::EVENTS.map(ClassHistograms::new),
            categories: Default::default(),
            tracks_and_with_land: Default::default(),
            classes: all_classes(),
            wind: None,
            transport: None,
            rules: Vec::new(),
            program: None,
        }
    }

    /// Records that only these classes were searched for, so that a count of 0 for another class has no meaning.
    #[must_use]
    pub fn of_classes(mut self, classes: &[Class]) -> Self {
        self.classes = classes.to_vec();
        self
    }

    /// Records where the wind of categories and cyclone energy is measured.
    #[must_use]
    pub fn of_wind(mut self, wind: Option<&str>) -> Self {
        self.wind = wind.map(String::from);
        self
    }

    /// Where the wind of categories and cyclone energy is measured, if recorded.
    pub fn wind(&self) -> Option<&str> {
        self.wind.as_deref()
    }

    /// Records the vapour transport by which rivers are ranked.
    #[must_use]
    pub fn of_transport(mut self, transport: Option<String>) -> Self {
        self.transport = transport;
        self
    }

    /// The vapour transport by which rivers are ranked, if recorded.
    pub fn transport(&self) -> Option<&str> {
        self.transport.as_deref()
    }

    /// Records the names and values of the thresholds that selected events and tracks.
    #[must_use]
    pub fn of_rules(mut self, rules: Vec<(String, String)>) -> Self {
        self.rules = rules;
        self
    }

    /// Names and values of the thresholds that selected events and tracks, if recorded.
    pub fn rules(&self) -> &[(String, String)] {
        &self.rules
    }

    /// Records the version of the program that makes them.
    #[must_use]
    pub fn made_by(mut self, version: String) -> Self {
        self.program = Some(version);
        self
    }

    /// The version of the program that made them, if recorded.
    pub fn program(&self) -> Option<&str> {
        self.program.as_deref()
    }

    /// The classes that were searched for.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Adds one time: its mask, if there is one, and its objects. Of classes without masks only these count. Cyclone
    /// energy is weighted by the time that each object represents ([`crate::events::EventDetails::hours`]), or by
    /// `hours` if that is unknown.
    ///
    /// # Errors
    /// [`crate::ClimateError::Mismatch`] if the mask has another shape.
    pub fn add_time<'a>(
        &mut self,
        time: Time,
        mask: Option<&ClassMask>,
        hours: f64,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<()> {
        if let Some(mask) = mask {
            self.occurrence.add(mask)?;
            self.seasons[season_of(mask.time)].add(mask)?;
            self.coarse.add(mask)?;
        }
        self.span.add(time);
        self.steps.add(time);
        let month = self.month(time);
        month.times += 1;
        // Days are 1 to 31.
        month.days |= 1 << (time.date().2 - 1);
        for event in events {
            let basin = Basin::of(event.lat_deg, event.lon_deg) as usize;
            if let Some(class) = boxed_index(event.class) {
                self.month(time).boxed_objects[class][basin] += 1;
            }
            let Some(class) = class_index(event.class) else {
                continue;
            };
            let month = self.month(time);
            month.objects[class][basin] += 1;
            if let (Class::TropicalCyclone, Some(wind)) = (event.class, event.max_wind_m_s) {
                let hours = event.details.hours.unwrap_or(hours);
                month.ace[basin] += ace_of_point(wind, hours);
                month.winds[basin] += 1;
            }
            if let Some(water_km3) = event.details.precipitation_km3 {
                month.precipitation_km3[class][basin] += water_km3;
            }
            self.histograms[class].area_km2.add(event.area_km2);
        }
        Ok(())
    }

    /// Records the cells in which the mask of a time was missing; they do not count in the frequency maps.
    ///
    /// # Errors
    /// [`crate::ClimateError::Mismatch`] if they have another shape.
    pub fn leave_out(&mut self, time: Time, missing: ArrayView2<'_, bool>) -> Result<()> {
        self.occurrence.leave_out(missing)?;
        self.seasons[season_of(time)].leave_out(missing)
    }

    /// Adds the liquid water that fell on the whole grid at one time, km³, the denominator of the share of events.
    pub fn add_precipitation(&mut self, time: Time, all_km3: f64) {
        self.month(time).all_precipitation_km3 += all_km3;
    }

    /// Adds a finished track to the month and basin of its genesis.
    pub fn add_track(&mut self, track: &Track) {
        let basin = Basin::of(track.genesis_lat_deg, track.genesis_lon_deg) as usize;
        if let Some(class) = boxed_index(track.class) {
            self.month(track.start).boxed_tracks[class][basin] += 1;
        }
        let Some(class) = class_index(track.class) else {
            return;
        };
        self.month(track.start).tracks[class][basin] += 1;
        let details = &track.details;
        let tells_land = details.landfalls.is_some() || details.landfall.is_some();
        let [tracks, with_land] = &mut self.tracks_and_with_land[class];
        *tracks += 1;
        *with_land += u64::from(tells_land);
        if let Some(landfall) = &track.details.landfall {
            let basin = Basin::of(landfall.lat_deg, landfall.lon_deg) as usize;
            self.month(landfall.time).landfalls[class][basin] += 1;
        }
        let histograms = &mut self.histograms[class];
        histograms.lifetime_hours.add(track.duration_hours());
        histograms.distance_km.add(track.distance_km);
        histograms
            .min_psl_pa
            .add(track.min_psl_pa.unwrap_or(f64::NAN));
        histograms
            .max_wind_m_s
            .add(track.max_wind_m_s.unwrap_or(f64::NAN));
        if track.class == Class::TropicalCyclone
            && let Some(category) = track.max_wind_m_s.and_then(Category::saffir_simpson)
        {
            self.categories[basin][category as usize] += 1;
        }
    }

    /// Removes and returns the months before that of a time, so that memory does not grow with the length of a run.
    /// Later counts of such a month form another part of it; [`Self::put_back`] adds up the parts.
    pub fn take_months_before(&mut self, time: Time) -> Vec<PastMonth> {
        let (year, month, _) = time.date();
        let past = self
            .months
            .partition_point(|m| (m.year, m.month) < (year, month));
        let counts = self.months.drain(..past).map(|counts| PastMonth {
            counts: Some(counts),
            coarse: None,
        });
        let mut parts: Vec<PastMonth> = counts.collect();
        let coarse = self.coarse.take_before(year, month).into_iter();
        parts.extend(coarse.map(|coarse| PastMonth {
            counts: None,
            coarse: Some(coarse),
        }));
        parts
    }

    /// Adds partial counts returned by [`Self::take_months_before`].
    pub fn put_back(&mut self, part: &PastMonth) {
        if let Some(counts) = &part.counts {
            self.month_of(counts.year, counts.month).add(counts);
        }
        if let Some(coarse) = &part.coarse {
            self.coarse.put_back(coarse);
        }
    }

    /// Whether the landfalls of a class are known: a track of it tells, or there is none.
    pub(in crate::statistics) fn knows_landfalls(&self, class: Class) -> bool {
        class_index(class).is_some_and(|class| {
            let [tracks, with_land] = self.tracks_and_with_land[class];
            tracks == 0 || with_land > 0
        })
    }

    /// Frequency maps.
    pub fn occurrence(&self) -> &Occurrence {
        &self.occurrence
    }

    /// Frequency maps by season, in the order of [`crate::compare::SEASONS`].
    pub fn seasons(&self) -> &[Occurrence; 4] {
        &self.seasons
    }

    /// Monthly frequency on coarse cells.
    pub fn coarse(&self) -> &CoarseOccurrence {
        &self.coarse
    }

    /// The first and last analysed time.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The usual interval of analysed times, hours, ignoring missing times; `None` if there is none.
    pub fn usual_step_hours(&self) -> Option<f64> {
        self.steps.usual_hours()
    }

    /// Counts by month, ascending; months without data are absent.
    pub fn months(&self) -> &[MonthCounts] {
        &self.months
    }

    /// Counts by calendar year in both hemispheres, ascending; their month is 0.
    pub fn years(&self) -> Vec<MonthCounts> {
        let mut years: Vec<MonthCounts> = Vec::new();
        for month in &self.months {
            if years.last().is_none_or(|year| year.year != month.year) {
                years.push(MonthCounts::new(month.year, 0));
            }
            if let Some(year) = years.last_mut() {
                year.add(month);
            }
        }
        years
    }

    /// The classes of tables: those of masks if any was searched for, and those of boxes that were searched for or
    /// found.
    pub(in crate::statistics) fn classes_of_tables(&self) -> Vec<Class> {
        let searched = |class: &Class| self.classes.contains(class);
        let of_masks = Class::EVENTS.iter().any(searched);
        let has = |class: &Class| {
            let mut counts = (self.months.iter())
                .flat_map(|month| month.tracks_and_objects(*class))
                .flatten();
            counts.any(|count| count > 0)
        };
        let of_masks = Class::EVENTS.into_iter().filter(|_| of_masks);
        let of_boxes = BOXED
            .into_iter()
            .filter(|class| searched(class) || has(class));
        of_masks.chain(of_boxes).collect()
    }

    /// Histograms of a class; `None` for classes without histograms.
    pub fn histograms(&self, class: Class) -> Option<&ClassHistograms> {
        class_index(class).map(|index| &self.histograms[index])
    }

    /// Cyclone tracks of a basin by category of their highest wind, weakest first.
    pub fn categories(&self, basin: Basin) -> [u64; Category::ALL.len()] {
        self.categories[basin as usize]
    }

    fn month(&mut self, time: Time) -> &mut MonthCounts {
        let (year, month, _) = time.date();
        self.month_of(year, month)
    }

    fn month_of(&mut self, year: i64, month: i64) -> &mut MonthCounts {
        let key = (year, month);
        let found = self
            .months
            .binary_search_by_key(&key, |m| (m.year, m.month));
        let index = found.unwrap_or_else(|index| {
            self.months.insert(index, MonthCounts::new(year, month));
            index
        });
        &mut self.months[index]
    }
}
