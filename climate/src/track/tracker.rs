//! Joins events to tracks, one time after the other, with only the open tracks in memory.

use crate::error::{ClimateError, Result};
use crate::events::{DetectedEvent, Run};
use crate::track::links::links;
use crate::track::matching::Matching;
use crate::track::open_track::OpenTrack;
use crate::track::options::{Linking, TrackerOptions};
use crate::track::{Fate, Origin, Track};
use serde::{Deserialize, Serialize};
use squall_data::{Class, LatLonGrid, Time};

/// What one time adds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// The track of every event, in the order of the events.
    pub ids: Vec<u64>,
    /// Tracks that are now known to have ended, by identity.
    pub finished: Vec<Track>,
    /// Tracks that ended too short, too weak or always near to their beginning, so that they are not listed
    /// ([`Linking::min_duration_hours`], [`Linking::min_peak_wind_m_s`], [`Linking::min_displacement_km`]), by identity; also
    /// those of 30 days that would not be listed yet, which are given up.
    pub discarded: Vec<u64>,
}

/// Joins events to tracks, one time after the other.
///
/// At each time, for each class:
///
/// 1. A track may go on with an event if the event's centre lies within [`Linking::reach_km`] of the track's last
///    centre and within [`Linking::deviation_km`] of the predicted one (its motion of the last 12 hours or more carried
///    on along a great circle), or, where [`Linking::join_by_overlap`] says so, if their cells overlap by
///    [`Linking::min_overlap`] of the smaller area and [`Linking::min_common`] of the larger one, and the centre goes no
///    faster than [`Linking::max_joined_speed_km_per_day`].
/// 2. A pair costs the distance from the predicted centre in parts of the reach, plus one minus the overlap as a share
///    of the larger area. The one-to-one assignment of least total cost is made (where more than 400 tracks or events
///    hang together, the cheapest pair comes first); leaving a track alone costs more than any pair.
/// 3. A track left alone whose cells overlap an event of another track ends there by merging. An event left alone whose
///    cells overlap those of a continued track begins there by splitting. Other events begin by genesis. Where
///    [`Linking::min_common`] is not 0 the other track may be one that begins there, and the one that was split from may
///    have ended: neither of two like rivers that become one goes on, and a new track begins.
/// 4. A track left alone without merging is kept for [`Linking::max_gap_hours`] and then ends at its last point.
///
/// Identities are dealt at genesis, ascending with time, class, longitude and latitude, so that the rows of
/// `events.csv` can be written at once; the row of `tracks.csv` follows when the track ends. Tracks under the shortest
/// duration or the least wind get no row: their identities come in [`Step::discarded`]. Who holds rows back while their
/// track is [`Tracker::undecided`] ([`crate::stream::Ledger`] does) writes them once and for all.
///
/// The state depends on the sequence of times alone, never on files, and can be saved between any two times (serde;
/// lengths that are not known are NaN, which JSON cannot hold).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tracker {
    options: TrackerOptions,
    row_areas_km2: Vec<f64>,
    columns: usize,
    next_id: u64,
    last_time: Option<Time>,
    open: Vec<OpenTrack>,
}

/// A track that has lasted this long without reaching the least wind or distance is given up: without a bound all rows
/// that follow would wait for it.
const MOST_CALM_HOURS: f64 = 30.0 * 24.0;

impl Tracker {
    /// A tracker for masks on a grid.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if an option means nothing.
    pub fn new(grid: &LatLonGrid, options: TrackerOptions) -> Result<Self> {
        options.check()?;
        Ok(Self {
            options,
            row_areas_km2: grid.row_areas_km2(),
            columns: grid.shape().1,
            next_id: 1,
            last_time: None,
            open: Vec::new(),
        })
    }

    /// The options it was made with.
    pub fn options(&self) -> &TrackerOptions {
        &self.options
    }

    /// The last time that was pushed: where to resume after.
    pub fn last_time(&self) -> Option<Time> {
        self.last_time
    }

    /// Number of tracks in memory.
    pub fn open_tracks(&self) -> usize {
        self.open.len()
    }

    /// The open tracks of which it is not known yet whether they will be listed, because they are shorter than the
    /// shortest duration or have not reached the least wind or distance. It is known at the latest one shortest
    /// duration and one gap after a track began; if there is a least wind or distance, after 30 days.
    pub fn undecided(&self) -> impl Iterator<Item = u64> + '_ {
        let undecided = self.open.iter().filter(|open| !self.is_listed(open));
        undecided.map(|open| open.track.track_id)
    }

    /// Discards the open tracks that have lasted too long without reaching the least wind or distance; later events
    /// there begin a new track.
    fn give_up(&mut self, step: &mut Step) {
        let (calm, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| self.is_calm_for_good(open));
        self.open = kept;
        step.discarded
            .extend(calm.iter().map(|open| open.track.track_id));
    }

    fn is_calm_for_good(&self, open: &OpenTrack) -> bool {
        let shortest = self.options.of(open.track.class).min_duration_hours;
        !self.is_listed(open) && open.track.duration_hours() > MOST_CALM_HOURS.max(shortest)
    }

    /// Whether a track would be listed if it ended here.
    ///
    /// Once true it stays true: duration, highest wind and greatest distance never shrink.
    fn is_listed(&self, open: &OpenTrack) -> bool {
        let track = &open.track;
        let linking = self.options.of(track.class);
        let reached = linking.min_peak_wind_m_s == 0.0
            || (track.max_wind_m_s).is_some_and(|wind| wind >= linking.min_peak_wind_m_s);
        track.origin == Origin::StartOfData
            || (reached
                && track.duration_hours() >= linking.min_duration_hours
                && open.farthest_km >= linking.min_displacement_km)
    }

    /// Takes the events of the next time, writes their `track_id`, and returns what ended.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if the time is not later than the one before or of another calendar;
    /// [`ClimateError::Mismatch`] if an event is of another time or reaches outside of the grid. The state is then as
    /// before.
    pub fn push(&mut self, time: Time, events: &mut [DetectedEvent]) -> Result<Step> {
        self.check(time, events)?;
        let mut step = Step::default();
        for class in Class::TRACKED {
            self.close_out_of_reach(class, time, &mut step);
        }
        for class in Class::TRACKED {
            let own = events.iter_mut().filter(|e| e.event.class == class);
            let mut own: Vec<&mut DetectedEvent> = own.collect();
            // From west to east, whatever order the events came in.
            own.sort_by(|a, b| {
                let (a, b) = (&a.event, &b.event);
                a.lon_deg
                    .total_cmp(&b.lon_deg)
                    .then(a.lat_deg.total_cmp(&b.lat_deg))
            });
            self.follow(class, time, &mut own, &mut step);
        }
        self.give_up(&mut step);
        self.last_time = Some(time);
        step.ids = events.iter().filter_map(|e| e.event.track_id).collect();
        step.finished.sort_by_key(|track| track.track_id);
        step.discarded.sort_unstable();
        Ok(step)
    }

    /// Ends all tracks: those seen at the last time by the end of the data, others by dying out.
    pub fn finish(mut self) -> Step {
        let mut step = Step::default();
        for open in std::mem::take(&mut self.open) {
            let fate = self.fate_of_silence(&open.track);
            self.close(open, fate, None, &mut step);
        }
        step.finished.sort_by_key(|track| track.track_id);
        step.discarded.sort_unstable();
        step
    }

    fn check(&self, time: Time, events: &[DetectedEvent]) -> Result<()> {
        if let Some(last) = self.last_time
            && (time.calendar() != last.calendar() || time.seconds_since(last) <= 0)
        {
            return Err(ClimateError::Invalid(format!(
                "tracking needs ascending times of one calendar: {time} ({}) follows {last} ({})",
                time.calendar(),
                last.calendar()
            )));
        }
        for DetectedEvent { event, region } in events {
            if event.time != time {
                return Err(ClimateError::Mismatch {
                    what: format!("time of an event at {}N {}E", event.lat_deg, event.lon_deg),
                    expected: time.to_string(),
                    found: event.time.to_string(),
                });
            }
            let (rows, columns) = (self.row_areas_km2.len(), self.columns);
            let outside = |run: &&Run| run.row as usize >= rows || run.end as usize > columns;
            if let Some(run) = region.runs.iter().find(outside) {
                return Err(ClimateError::Mismatch {
                    what: format!("cells of an event at {}N {}E", event.lat_deg, event.lon_deg),
                    expected: format!("rows below {rows}, columns below {columns}"),
                    found: format!("row {}, columns below {}", run.row, run.end),
                });
            }
        }
        Ok(())
    }

    /// How long after its last point a track may go on, hours.
    fn patience_hours(&self, track: &Track) -> f64 {
        let gap = self.options.of(track.class).max_gap_hours;
        if Some(track.end) == self.last_time {
            gap.max(self.options.max_step_hours)
        } else {
            gap
        }
    }

    /// How a track ended after which the data have a hole or their end.
    fn fate_of_silence(&self, track: &Track) -> Fate {
        if Some(track.end) == self.last_time {
            Fate::EndOfData
        } else {
            Fate::Lysis
        }
    }

    /// Ends what cannot go on at `time`, because of a gap or of a hole in the data.
    fn close_out_of_reach(&mut self, class: Class, time: Time, step: &mut Step) {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|o| {
                o.track.class == class
                    && time.hours_since(o.track.end) > self.patience_hours(&o.track)
            });
        self.open = kept;
        for open in gone {
            let fate = self.fate_of_silence(&open.track);
            self.close(open, fate, None, step);
        }
    }

    /// Goes on with, begins and ends the tracks of a class; `events` are all of the class.
    fn follow(
        &mut self,
        class: Class,
        time: Time,
        events: &mut [&mut DetectedEvent],
        step: &mut Step,
    ) {
        let linking: Linking = *self.options.of(class);
        let (mut tracks, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| open.track.class == class);
        self.open = others;
        let links = links(&tracks, events, time, &linking, &self.row_areas_km2);
        let matching = Matching::of(links, (tracks.len(), events.len()), &linking);
        let hole = self.last_time.is_none_or(|last| {
            time.hours_since(last) > self.options.max_step_hours.max(linking.max_gap_hours)
        });
        let alone = if hole {
            Origin::StartOfData
        } else {
            Origin::Genesis
        };
        let mut born = self.births(&matching, &mut tracks, events, alone);
        for (open, event) in tracks.iter_mut().zip(&matching.event_of) {
            if let Some(event) = *event {
                events[event].event.track_id = Some(open.track.track_id);
                open.go_on(events[event]);
            }
        }
        // Every event has an identity now, that of the track which goes on with it or begins.
        let ids: Vec<u64> = tracks.iter().map(|open| open.track.track_id).collect();
        let mut ends = Vec::new();
        for (index, id) in ids.into_iter().enumerate() {
            let end = matching.ends_in(index);
            let into = end.and_then(|event| events[event].event.track_id);
            let other = match end.map(|event| matching.track_of[event]) {
                Some(Some(other)) => tracks.get_mut(other),
                Some(None) => born.iter_mut().find(|one| Some(one.track.track_id) == into),
                None => None,
            };
            if let Some(other) = other {
                other.track.details.take_in(id);
            }
            ends.push(into);
        }
        for (open, into) in tracks.into_iter().zip(ends) {
            let is_seen = open.track.end == time;
            let silent_hours = time.hours_since(open.track.end);
            if into.is_some() {
                self.close(open, Fate::Merge, into, step);
            } else if !is_seen && silent_hours >= linking.max_gap_hours {
                self.close(open, Fate::Lysis, None, step);
            } else {
                self.open.push(open);
            }
        }
        self.open.append(&mut born);
    }

    /// New tracks of the events that no track goes on with: split from the track that shares most with the event (of
    /// those that go on, unless [`Linking::min_common`] says otherwise), or, where none does, of the origin `alone`.
    fn births(
        &mut self,
        matching: &Matching,
        tracks: &mut [OpenTrack],
        events: &mut [&mut DetectedEvent],
        alone: Origin,
    ) -> Vec<OpenTrack> {
        let mut born = Vec::new();
        for (place, detected) in events.iter_mut().enumerate() {
            if matching.track_of[place].is_some() {
                continue;
            }
            let id = self.next_id;
            let parent = matching.parent_of(place).map(|track| {
                let parent = &mut tracks[track].track;
                parent.details.split_off(id);
                parent.track_id
            });
            let origin = match parent {
                Some(_) => Origin::Split,
                None => alone,
            };
            detected.event.track_id = Some(id);
            born.push(OpenTrack::begin(id, detected, origin, parent));
            self.next_id += 1;
        }
        born
    }

    fn close(&mut self, mut open: OpenTrack, fate: Fate, other: Option<u64>, step: &mut Step) {
        open.end_path();
        open.track.fate = fate;
        open.track.related_track = other.or(open.track.related_track);
        if let Fate::Merge = fate {
            open.track.details.merged_into = other;
        }
        if fate == Fate::EndOfData || self.is_listed(&open) {
            step.finished.push(open.track);
        } else {
            step.discarded.push(open.track.track_id);
        }
    }
}
