//! Converts the events of consecutive times to the tables of a run, in memory that does not grow with its length.
//!
//! [`EventStream`] is the state between two times: the tracker, the rows whose track is undecided, and the statistics.
//! Its input are the events of masks or boxes ([`crate::events::extract()`], [`crate::events::from_boxes`]). These
//! depend on a single time only and can therefore be computed anywhere and in any order. It returns rows as soon as
//! they are final. [`RunFolder`] writes them, saves checkpoints, and resumes after a kill.
//!
//! The tables depend only on the sequence of times. They are byte-identical however the times are spread over files,
//! split between processes, or interrupted.

mod folder;
mod hours;
mod ledger;
mod results;
mod river_places;
mod seen;

pub use folder::{Finished, RunFolder};
pub(crate) use hours::half_of_both;
pub use hours::hours_of;
pub use ledger::Ledger;
pub use results::{clear_results, is_result};
use river_places::RiverPlaces;
pub use seen::Seen;

use crate::error::Result;
use crate::events::{DetectedEvent, Event, EventFields};
use crate::statistics::{PastMonth, Statistics};
use crate::track::{Track, Tracker, TrackerOptions};
use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};
use squall_data::{Class, ClassMask, LatLonGrid, Time};

/// Numbers of times, events and tracks of a run so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCounts {
    /// Times processed.
    pub times: usize,
    /// Times whose fields could not be read.
    pub unread_fields: usize,
    /// Cyclone events, summed over times.
    pub cyclones: usize,
    /// Cyclone regions too small to be events ([`EventStream::leave_out`]).
    pub small_cyclones: usize,
    /// River events, summed over times.
    pub rivers: usize,
    /// Events of extratropical cyclones and tropical depressions, summed over times; boxes only.
    pub others: usize,
    /// Tracks of cyclones.
    pub cyclone_tracks: usize,
    /// Tracks of rivers.
    pub river_tracks: usize,
    /// Tracks of extratropical cyclones and tropical depressions.
    pub other_tracks: usize,
}

/// One time of a run.
pub struct Moment<'a> {
    /// The time.
    pub time: Time,
    /// The mask; `None` if events come from boxes, in which case neither frequency nor rain is counted.
    pub mask: Option<&'a ClassMask>,
    /// Hours that the mask or the boxes represent ([`hours_of`]).
    pub hours: f64,
    /// Hours that the fields represent: [`hours_of`] on the axis of times with fields, which may be sparser than that
    /// of masks.
    pub fields_hours: f64,
    /// The fields and other data of this time.
    pub fields: &'a EventFields<'a>,
}

/// Final rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decided {
    /// Events, ordered by time; those of unlisted tracks have no identity.
    pub events: Vec<Event>,
    /// Tracks, ordered by the time at which their end became known.
    pub tracks: Vec<Track>,
    /// Partial counts of past months, removed from the statistics in memory ([`Statistics::put_back`]).
    pub months: Vec<PastMonth>,
}

/// The state of a run between two times. Its size depends on the number of open tracks, not on the length of the run.
///
/// # Example
/// ```
/// use squall_climate::events::{EventFields, ExtractOptions, extract};
/// use squall_climate::stream::{EventStream, Moment};
/// use squall_climate::track::TrackerOptions;
/// use squall_data::{Calendar, ClassMask, LatLonGrid, Time};
/// let grid = LatLonGrid::global(19, 36).unwrap();
/// let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
/// let mask = ClassMask::new(time, ndarray::Array2::zeros((19, 36))).unwrap();
/// let mut stream = EventStream::new(&grid, TrackerOptions::default()).unwrap();
/// let fields = EventFields::default();
/// let found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
/// let moment = Moment { time, mask: Some(&mask), hours: 3.0, fields_hours: 3.0, fields: &fields };
/// assert!(stream.add(&moment, found).unwrap().events.is_empty());
/// assert_eq!(stream.counts().times, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventStream {
    tracker: Tracker,
    ledger: Ledger,
    statistics: Statistics,
    places: RiverPlaces,
    /// The last time with known vapour transport.
    last_transport: Option<Time>,
    row_areas_km2: Vec<f64>,
    counts: EventCounts,
    /// The times left out because their masks have only missing values.
    #[serde(default)]
    without_mask: Vec<Time>,
}

impl EventStream {
    /// Creates the state of a new run.
    ///
    /// # Errors
    /// [`crate::ClimateError::Invalid`] if an option is invalid.
    pub fn new(grid: &LatLonGrid, options: TrackerOptions) -> Result<Self> {
        Ok(Self {
            tracker: Tracker::new(grid, options)?,
            ledger: Ledger::default(),
            statistics: Statistics::new(grid),
            places: RiverPlaces::new(grid),
            last_transport: None,
            row_areas_km2: grid.row_areas_km2(),
            counts: EventCounts::default(),
            without_mask: Vec::new(),
        })
    }

    /// Adds the events of the next time.
    ///
    /// # Errors
    /// Errors of [`Tracker::push`], and [`crate::ClimateError::Mismatch`] if the mask has another grid.
    pub fn add(&mut self, moment: &Moment<'_>, found: Vec<DetectedEvent>) -> Result<Decided> {
        let seen = Seen::without_mask(moment, found, &self.row_areas_km2);
        self.advance(seen, moment.mask, moment.fields.missing)
    }

    /// Counts cyclone regions of the next time that are too small to be events.
    pub fn leave_out(&mut self, small_cyclones: usize) {
        self.counts.small_cyclones += small_cyclones;
    }

    /// Leaves out times whose masks have only missing values.
    pub fn leave_out_times(&mut self, times: impl IntoIterator<Item = Time>) {
        self.without_mask.extend(times);
    }

    /// Adds the next time, as summarised by this or another process ([`Seen::of`]).
    ///
    /// # Errors
    /// Errors of [`Self::add`]; [`crate::ClimateError::Data`] if the summary is inconsistent.
    pub fn take(&mut self, seen: Seen) -> Result<Decided> {
        let (mask, missing) = (seen.mask()?, seen.missing()?);
        let missing = missing.as_ref().map(|missing| missing.view());
        self.advance(seen, mask.as_ref(), missing)
    }

    fn advance(
        &mut self,
        seen: Seen,
        mask: Option<&ClassMask>,
        missing: Option<ArrayView2<'_, bool>>,
    ) -> Result<Decided> {
        let Seen {
            time,
            hours,
            fields_hours,
            mut found,
            transport,
            rain_km3,
            unread,
            ..
        } = seen;
        let last = self.tracker.last_time();
        for detected in &mut found {
            detected.event.details.hours = Some(fields_hours);
        }
        self.update_river_places(time, fields_hours, &mut found, transport.as_deref());
        // After ranking rivers, because tracks take the ranks from their events.
        let step = self.tracker.push(time, &mut found)?;
        let places = &self.places;
        self.tracker.rank_landfalls(|cell| places.rank(cell));
        let events: Vec<Event> = found.into_iter().map(|one| one.event).collect();
        self.statistics.add_time(time, mask, hours, &events)?;
        if let Some(missing) = missing {
            self.statistics.leave_out(time, missing)?;
        }
        if let Some(all_km3) = rain_km3 {
            self.statistics.add_precipitation(time, all_km3);
        }
        self.counts.times += 1;
        self.counts.unread_fields += usize::from(unread);
        for event in &events {
            match event.class {
                Class::TropicalCyclone => self.counts.cyclones += 1,
                Class::AtmosphericRiver => self.counts.rivers += 1,
                Class::ExtratropicalCyclone | Class::TropicalDepression => self.counts.others += 1,
                // No event has this class.
                Class::Background => {}
            }
        }
        let events = self.ledger.add(events, &self.tracker, &step.discarded);
        let mut decided = self.decided(events, step.finished);
        if last.is_some_and(|last| (last.year(), last.month()) != (time.year(), time.month())) {
            decided.months = self.statistics.take_months_before(time);
        }
        Ok(decided)
    }

    /// Updates how long rivers have covered each cell. At a time without known transport, between times with it, only
    /// cells not covered by any river restart from zero.
    fn update_river_places(
        &mut self,
        time: Time,
        hours: f64,
        found: &mut [DetectedEvent],
        transport: Option<&[f64]>,
    ) {
        // A longer step is a gap, as for tracks of rivers.
        let options = self.tracker.options();
        let most = (options.max_step_hours).max(options.atmospheric_river.max_gap_hours);
        let is_near = |last: Time| time.seconds_since(last) as f64 <= most * 3600.0;
        if !self.last_transport.is_some_and(is_near) {
            self.places.reset();
        }
        match transport {
            Some(transport) => {
                self.places.add(found, hours, transport);
                self.last_transport = Some(time);
            }
            None => self.places.keep_covered(found),
        }
    }

    /// Records in the statistics that only these classes were searched for, so that a count of 0 for another class has
    /// no meaning.
    #[must_use]
    pub fn of_classes(mut self, classes: &[Class]) -> Self {
        self.statistics = self.statistics.of_classes(classes);
        self
    }

    /// Finishes the run. Returns the last rows, the statistics without the months already returned, and the counts.
    pub fn finish(mut self) -> (Decided, Statistics, EventCounts) {
        let step = self.tracker.clone().finish();
        let events = std::mem::take(&mut self.ledger).finish(&step.discarded);
        let decided = self.decided(events, step.finished);
        (decided, self.statistics, self.counts)
    }

    /// Numbers of times, events and tracks so far.
    pub fn counts(&self) -> EventCounts {
        self.counts
    }

    /// The times of [`Self::leave_out_times`] so far.
    pub fn times_without_mask(&self) -> &[Time] {
        &self.without_mask
    }

    /// Number of rows held back until their track is decided.
    pub fn waiting_rows(&self) -> usize {
        self.ledger.len()
    }

    fn decided(&mut self, events: Vec<Event>, tracks: Vec<Track>) -> Decided {
        for track in &tracks {
            self.statistics.add_track(track);
            match track.class {
                Class::TropicalCyclone => self.counts.cyclone_tracks += 1,
                Class::AtmosphericRiver => self.counts.river_tracks += 1,
                Class::ExtratropicalCyclone | Class::TropicalDepression => {
                    self.counts.other_tracks += 1;
                }
                // No track has this class.
                Class::Background => {}
            }
        }
        Decided {
            events,
            tracks,
            months: Vec::new(),
        }
    }
}

/// Volume of rain, km³, from a rate in m/s summed over km², and its duration in hours.
fn water_km3(rain_m_s_km2: f64, hours: f64) -> f64 {
    rain_m_s_km2 * 1e-3 * hours * 3600.0
}
