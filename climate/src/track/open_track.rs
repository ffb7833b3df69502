//! A track that may go on: its path so far, and where it should be next.

use crate::events::shape::TangentPlane;
use crate::events::{DetectedEvent, Event, Region};
use crate::track::details::Shore;
use crate::track::options::Linking;
use crate::track::{Origin, Place, Track};
use serde::{Deserialize, Serialize};
use squall_data::Time;
use squall_data::grid::distance_km;
use std::collections::VecDeque;

/// Shortest time over which the motion of a track is measured, once it is as old: between two times of 3-hourly data
/// the jitter of centres is as large as the motion.
const MOTION_HOURS: f64 = 12.0;

/// Where pressure is known at some times only, its path waits for so long for the next centre by pressure: the middle of
/// a mask may be a hundred kilometres off, and a path from one kind of centre to the other and back would zigzag.
const MOST_WITHOUT_LOW_HOURS: f64 = 24.0;

/// A track that may go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenTrack {
    /// What is known so far; its fate is not.
    pub track: Track,
    /// Where it was before its last point: time, latitude, longitude; back to the last that is [`MOTION_HOURS`]
    /// earlier.
    before: VecDeque<(Time, f64, f64)>,
    /// Its cells at its last point.
    pub region: Region,
    /// Whether its last point was over land.
    shore: Shore,
    /// Distance of its farthest centre from the first.
    pub farthest_km: f64,
    /// Cyclones: the last centre by pressure, if the path waits for the next.
    #[serde(default)]
    low: Option<Place>,
}

/// Whether the centre of an event is where pressure is lowest.
fn has_low(event: &Event) -> bool {
    event.class.is_cyclone() && event.min_psl_pa.is_some()
}

impl OpenTrack {
    /// A track of one event.
    pub fn begin(id: u64, detected: &DetectedEvent, origin: Origin, parent: Option<u64>) -> Self {
        let event = &detected.event;
        let track = Track::begin(id, event, origin, parent);
        Self {
            track,
            before: VecDeque::new(),
            region: detected.region.clone(),
            shore: Shore::of(event),
            farthest_km: 0.0,
            low: has_low(event).then(|| Place::of(event)),
        }
    }

    /// Where the step to the next event begins; none if that event has no pressure, but those before have.
    fn step_from(&mut self, event: &Event) -> Option<Place> {
        let from = match self.low {
            None => Some(self.track.last_place()),
            Some(low) if has_low(event) => Some(low),
            Some(low) => (event.time.hours_since(low.time) > MOST_WITHOUT_LOW_HOURS).then_some(low),
        };
        if has_low(event) {
            self.low = Some(Place::of(event));
        } else if from.is_some() {
            self.low = None;
        }
        from
    }

    /// Ends the path at the last point, so that it is as long as the track lasts: after the last centre by pressure no
    /// other has come.
    pub fn end_path(&mut self) {
        if let Some(low) = self.low.take()
            && low.time != self.track.end
        {
            self.track.end_path(low);
        }
    }

    /// Adds the next event.
    pub fn go_on(&mut self, detected: &DetectedEvent) {
        let event = &detected.event;
        let from = self.step_from(event);
        let track = &mut self.track;
        let before = &mut self.before;
        before.push_back((track.end, track.end_lat_deg, track.end_lon_deg));
        while before.len() > 1 && event.time.hours_since(before[1].0) >= MOTION_HOURS {
            before.pop_front();
        }
        track.go_on_from(from, event, &mut self.shore);
        let (lat, lon) = (track.genesis_lat_deg, track.genesis_lon_deg);
        let km = distance_km(lat, lon, event.lat_deg, event.lon_deg);
        self.farthest_km = self.farthest_km.max(km);
        self.region.clone_from(&detected.region);
    }

    /// Hours that the motion took which is carried on; `None` of a track of one point.
    pub fn hours_behind(&self) -> Option<f64> {
        let first = self.before.front()?;
        Some(self.track.end.hours_since(first.0))
    }

    /// Where it would be if it moved on as it did: latitude, longitude.
    pub fn predicted(&self, time: Time, linking: &Linking) -> (f64, f64) {
        let (lat, lon) = (self.track.end_lat_deg, self.track.end_lon_deg);
        let Some(&(since, lat_before, lon_before)) = self.before.front() else {
            return (lat, lon);
        };
        let plane = TangentPlane::new(lat, lon);
        let (east, north) = plane.project(lat_before, lon_before);
        let ahead = time.hours_since(self.track.end);
        let behind = self.track.end.hours_since(since);
        let moved_km = east.hypot(north) * ahead / behind;
        // A centre that jumped, by a merge for instance, does not go on jumping.
        let limit = (linking.max_speed_km_per_day * ahead / 24.0 / moved_km.max(1e-9)).min(1.0);
        let scale = -limit * ahead / behind;
        plane.unproject(east * scale, north * scale)
    }
}
