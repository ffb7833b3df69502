//! Joins events of consecutive times to tracks, keeping only open tracks in memory.

use crate::error::{ClimateError, Result};
use crate::events::{DetectedEvent, Run};
use crate::track::links::links;
use crate::track::matching::Matching;
use crate::track::open_track::OpenTrack;
use crate::track::options::{Linking, TrackerOptions};
use crate::track::{Fate, Origin, Track};
use serde::{Deserialize, Serialize};
use squall_data::{Class, LatLonGrid, Time};

/// The result of one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// The track of each event, in the order of the events.
    pub ids: Vec<u64>,
    /// Tracks known to have ended, ordered by identity.
    pub finished: Vec<Track>,
    /// Tracks that are not listed, ordered by identity: those that ended too short ([`Linking::min_duration_hours`]),
    /// too weak ([`Linking::min_peak_wind_m_s`]) or too close to their start ([`Linking::min_displacement_km`]), and
    /// those still unlisted after 30 days, which are abandoned.
    pub discarded: Vec<u64>,
}

/// Joins events of consecutive times to tracks.
///
/// At each time, for each class:
///
/// 1. An event may continue a track in two ways. *Centre*: it lies within [`Linking::reach_km`] of the track's last
///    centre and within [`Linking::deviation_km`] of the predicted one, which extrapolates the motion of the last 12
///    hours or more along a great circle. *Overlap*, if [`Linking::join_by_overlap`] is set: the common cells are at
///    least [`Linking::min_overlap`] of the smaller area and [`Linking::min_common`] of the larger one, and the centre
///    moves no faster than [`Linking::max_joined_speed_km_per_day`].
/// 2. The cost of a pair is the distance from the predicted centre divided by the reach, plus one minus the overlap as
///    a share of the larger area. The tracker makes the one-to-one assignment of minimum total cost; connected groups
///    of more than 400 tracks or events are assigned greedily. An unmatched track costs more than any pair.
/// 3. An unmatched track whose cells overlap an event of a continued track ends in a merge. An unmatched event whose
///    cells overlap those of a continued track starts with a split. Other unmatched events start with genesis. If
///    [`Linking::min_common`] is positive, a track may also merge into a new track, and an event may also split from a
///    track that ends. So if two similar rivers merge, neither continues, and a new track starts.
/// 4. Any other unmatched track stays open for [`Linking::max_gap_hours`] and then ends at its last point.
///
/// Identities are assigned at genesis, ascending with time, class, longitude and latitude, so that rows of `events.csv`
/// can be written immediately. The row of `tracks.csv` follows when the track ends. Tracks that do not meet the minimum
/// duration, wind or displacement get no row; [`Step::discarded`] returns their identities. A caller that holds back
/// the rows of [`Tracker::undecided`] tracks, as [`crate::stream::Ledger`] does, never has to change a written row.
///
/// The state depends only on the sequence of times, not on files, and can be saved between any two times with serde.
/// JSON is unsuitable because unknown lengths are NaN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tracker {
    options: TrackerOptions,
    row_areas_km2: Vec<f64>,
    columns: usize,
    next_id: u64,
    last_time: Option<Time>,
    open: Vec<OpenTrack>,
}

/// A track that lasts this long without reaching the minimum wind or displacement is abandoned. Without a limit all
/// later rows would wait for it.
const MAX_STALLED_HOURS: f64 = 30.0 * 24.0;

impl Tracker {
    /// Creates a tracker for masks on a grid.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if an option is invalid.
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

    /// The options of this tracker.
    pub fn options(&self) -> &TrackerOptions {
        &self.options
    }

    /// The last time pushed; resume after it.
    pub fn last_time(&self) -> Option<Time> {
        self.last_time
    }

    /// Number of open tracks.
    pub fn open_tracks(&self) -> usize {
        self.open.len()
    }

    /// The open tracks that may or may not be listed, because they have not yet reached the minimum duration, wind or
    /// displacement. The decision comes at most one minimum duration and one gap after a track started, or after 30
    /// days if there is a minimum wind or displacement.
    pub fn undecided(&self) -> impl Iterator<Item = u64> + '_ {
        let undecided = self.open.iter().filter(|open| !self.is_listed(open));
        undecided.map(|open| open.track.track_id)
    }

    /// Discards open tracks that lasted too long without reaching the minimum wind or displacement. Later events there
    /// start a new track.
    fn abandon_stalled(&mut self, step: &mut Step) {
        let (stalled, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| self.is_stalled(open));
        self.open = kept;
        step.discarded
            .extend(stalled.iter().map(|open| open.track.track_id));
    }

    fn is_stalled(&self, open: &OpenTrack) -> bool {
        let shortest = self.options.linking(open.track.class).min_duration_hours;
        !self.is_listed(open) && open.track.duration_hours() > MAX_STALLED_HOURS.max(shortest)
    }

    /// Whether a track would be listed if it ended now.
    ///
    /// Once true it stays true: duration, highest wind and greatest displacement never decrease.
    fn is_listed(&self, open: &OpenTrack) -> bool {
        let track = &open.track;
        let linking = self.options.linking(track.class);
        let reached = linking.min_peak_wind_m_s == 0.0
            || (track.max_wind_m_s).is_some_and(|wind| wind >= linking.min_peak_wind_m_s);
        track.origin == Origin::StartOfData
            || (reached
                && track.duration_hours() >= linking.min_duration_hours
                && open.farthest_km >= linking.min_displacement_km)
    }

    /// Adds the events of the next time, sets their `track_id`, and returns the tracks that ended.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if the time does not follow the previous one or has another calendar, or for an event of
    /// the background;
    /// [`ClimateError::Mismatch`] if an event has another time or extends beyond the grid. The state is then unchanged.
    pub fn push(&mut self, time: Time, events: &mut [DetectedEvent]) -> Result<Step> {
        self.check(time, events)?;
        let mut step = Step::default();
        for class in Class::TRACKED {
            self.close_out_of_reach(class, time, &mut step);
        }
        for class in Class::TRACKED {
            let own = events.iter_mut().filter(|e| e.event.class == class);
            let mut own: Vec<&mut DetectedEvent> = own.collect();
            // From west to east, independent of the input order.
            own.sort_by(|a, b| {
                let (a, b) = (&a.event, &b.event);
                a.lon_deg
                    .total_cmp(&b.lon_deg)
                    .then(a.lat_deg.total_cmp(&b.lat_deg))
            });
            self.advance_class(class, time, &mut own, &mut step);
        }
        self.abandon_stalled(&mut step);
        self.last_time = Some(time);
        step.ids = events.iter().filter_map(|e| e.event.track_id).collect();
        step.finished.sort_by_key(|track| track.track_id);
        step.discarded.sort_unstable();
        Ok(step)
    }

    /// Raises the rank at the landfall of every open river to what rivers reached there in the stay that the landfall
    /// is part of; `rank` returns that of a cell (row, column) at the last time, if there is one.
    pub(crate) fn rank_landfalls(&mut self, rank: impl Fn((u32, u32)) -> Option<u8>) {
        let Some(time) = self.last_time else { return };
        for open in &mut self.open {
            open.rank_landfall(time, &rank);
        }
    }

    /// Ends all tracks: with `EndOfData` if seen at the last time, otherwise with `Lysis`.
    pub fn finish(mut self) -> Step {
        let mut step = Step::default();
        for open in std::mem::take(&mut self.open) {
            let fate = self.fate_at_gap(&open.track);
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
        for DetectedEvent { event, region, .. } in events {
            if event.class == Class::Background {
                return Err(ClimateError::Invalid(format!(
                    "tracking: an event at {}N {}E is of the background, which has none",
                    event.lat_deg, event.lon_deg
                )));
            }
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

    /// How long after its last point a track may continue, hours.
    fn max_silence_hours(&self, track: &Track) -> f64 {
        let gap = self.options.linking(track.class).max_gap_hours;
        if Some(track.end) == self.last_time {
            gap.max(self.options.max_step_hours)
        } else {
            gap
        }
    }

    /// The fate of a track that is followed by a gap in the data or by their end.
    fn fate_at_gap(&self, track: &Track) -> Fate {
        if Some(track.end) == self.last_time {
            Fate::EndOfData
        } else {
            Fate::Lysis
        }
    }

    /// Ends tracks that cannot continue at `time`, because of a gap in the track or in the data.
    fn close_out_of_reach(&mut self, class: Class, time: Time, step: &mut Step) {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|o| {
                o.track.class == class
                    && time.hours_since(o.track.end) > self.max_silence_hours(&o.track)
            });
        self.open = kept;
        for open in gone {
            let fate = self.fate_at_gap(&open.track);
            self.close(open, fate, None, step);
        }
    }

    /// Continues, starts and ends the tracks of a class; `events` are all events of the class.
    fn advance_class(
        &mut self,
        class: Class,
        time: Time,
        events: &mut [&mut DetectedEvent],
        step: &mut Step,
    ) {
        let linking: Linking = *self.options.linking(class);
        let (mut tracks, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|open| open.track.class == class);
        self.open = others;
        let links = links(&tracks, events, time, &linking, &self.row_areas_km2);
        let matching = Matching::of(links, (tracks.len(), events.len()), &linking);
        let after_gap = self.last_time.is_none_or(|last| {
            time.hours_since(last) > self.options.max_step_hours.max(linking.max_gap_hours)
        });
        let isolated_origin = if after_gap {
            Origin::StartOfData
        } else {
            Origin::Genesis
        };
        let mut new_tracks = self.start_tracks(&matching, &mut tracks, events, isolated_origin);
        for (open, event) in tracks.iter_mut().zip(&matching.event_of) {
            if let Some(event) = *event {
                events[event].event.track_id = Some(open.track.track_id);
                open.extend(events[event]);
            }
        }
        // Every event now has an identity, of a continued or a new track.
        let ids: Vec<u64> = tracks.iter().map(|open| open.track.track_id).collect();
        let mut ends = Vec::new();
        for (index, id) in ids.into_iter().enumerate() {
            let end = matching.ends_in(index);
            let into = end.and_then(|event| events[event].event.track_id);
            let other = match end.map(|event| matching.track_of[event]) {
                Some(Some(other)) => tracks.get_mut(other),
                Some(None) => new_tracks
                    .iter_mut()
                    .find(|one| Some(one.track.track_id) == into),
                None => None,
            };
            if let Some(other) = other {
                other.track.details.add_merged(id);
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
        self.open.append(&mut new_tracks);
    }

    /// Starts new tracks at the unmatched events. Each splits from the track with the largest overlap (a continued one,
    /// unless [`Linking::min_common`] is positive). Without overlap its origin is `isolated_origin`.
    fn start_tracks(
        &mut self,
        matching: &Matching,
        tracks: &mut [OpenTrack],
        events: &mut [&mut DetectedEvent],
        isolated_origin: Origin,
    ) -> Vec<OpenTrack> {
        let mut new_tracks = Vec::new();
        for (index, detected) in events.iter_mut().enumerate() {
            if matching.track_of[index].is_some() {
                continue;
            }
            let id = self.next_id;
            let parent = matching.parent_of(index).map(|track| {
                let parent = &mut tracks[track].track;
                parent.details.add_split(id);
                parent.track_id
            });
            let origin = match parent {
                Some(_) => Origin::Split,
                None => isolated_origin,
            };
            detected.event.track_id = Some(id);
            let mut open = OpenTrack::begin(id, detected, origin, parent);
            if parent.is_some() {
                let sources = matching.sources_of(index).map(|track| &tracks[track]);
                open.land_from(sources, detected);
            }
            new_tracks.push(open);
            self.next_id += 1;
        }
        new_tracks
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
