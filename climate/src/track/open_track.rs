//! An open track: its path so far, and its predicted position.

use crate::events::shape::TangentPlane;
use crate::events::{DetectedEvent, Event, Region};
use crate::track::details::Shore;
use crate::track::options::Linking;
use crate::track::{Origin, PathPoint, Track};
use serde::{Deserialize, Serialize};
use squall_data::grid::distance_km;
use squall_data::{Class, Time};
use std::collections::VecDeque;

/// Minimum time over which the motion of a track is measured once the track is old enough. Between two times of
/// 3-hourly data the jitter of centres is as large as the motion.
const MOTION_HOURS: f64 = 12.0;

/// If pressure is known only at some times, the path waits up to this long for the next pressure centre. The middle of
/// a mask may be a hundred kilometres off, so a path that alternates between the two kinds of centre would zigzag.
const MAX_PRESSURE_GAP_HOURS: f64 = 24.0;

/// A track that may continue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenTrack {
    /// The track so far; its fate is provisional.
    pub track: Track,
    /// Earlier points (time, latitude, longitude), back to the latest one that is at least [`MOTION_HOURS`] older than
    /// the last point.
    before: VecDeque<(Time, f64, f64)>,
    /// The cells of its last point.
    pub region: Region,
    /// Its state at the last point, for the landfall test.
    shore: Shore,
    /// Greatest distance of a centre from the first.
    pub farthest_km: f64,
    /// Cyclones: the last pressure centre, if the path waits for the next one.
    #[serde(default)]
    low: Option<PathPoint>,
    /// Rivers: row and column of the landfall, while the stay of rivers there lasts.
    #[serde(default)]
    landfall_cell: Option<(u32, u32)>,
}

/// Whether the centre of an event is a pressure minimum.
fn has_low(event: &Event) -> bool {
    event.class.is_cyclone() && event.min_psl_pa.is_some()
}

impl OpenTrack {
    /// Starts a track at an event.
    pub fn begin(id: u64, detected: &DetectedEvent, origin: Origin, parent: Option<u64>) -> Self {
        let event = &detected.event;
        let track = Track::begin(id, event, origin, parent);
        Self {
            track,
            before: VecDeque::new(),
            region: detected.region.clone(),
            shore: Shore::of(event),
            farthest_km: 0.0,
            low: has_low(event).then(|| PathPoint::of(event)),
            landfall_cell: None,
        }
    }

    /// Counts the landfall of a piece of rivers that begins over land although all of those were at sea; rivers break
    /// into pieces so often that a twentieth of all landfalls would be lost. A piece of the mask of a cyclone is none.
    pub fn land_from<'a>(
        &mut self,
        sources: impl Iterator<Item = &'a Self>,
        detected: &DetectedEvent,
    ) {
        if self.track.class == Class::AtmosphericRiver {
            self.shore = Shore::of_all(sources.map(|source| source.shore));
            let details = &mut self.track.details;
            details.landfall(&detected.event, &mut self.shore);
            self.add_landfall_place(detected);
        }
    }

    /// Adds the place of a river's landfall, and the transport there, if this event is the landfall.
    fn add_landfall_place(&mut self, detected: &DetectedEvent) {
        if let (Some(landfall), Some(place)) = (&mut self.track.details.landfall, detected.on_land)
            && landfall.time == detected.event.time
        {
            landfall.ivt_kg_m_s = place.ivt_kg_m_s;
            landfall.ivt_proxy_kg_m_s = place.ivt_proxy_kg_m_s;
            self.landfall_cell = Some(place.cell);
        }
    }

    /// The start of the step to the next event; `None` while the path waits for the next pressure centre.
    fn step_from(&mut self, event: &Event) -> Option<PathPoint> {
        let from = match self.low {
            None => Some(self.track.last_point()),
            Some(low) if has_low(event) => Some(low),
            Some(low) => (event.time.hours_since(low.time) > MAX_PRESSURE_GAP_HOURS).then_some(low),
        };
        if has_low(event) {
            self.low = Some(PathPoint::of(event));
        } else if from.is_some() {
            self.low = None;
        }
        from
    }

    /// Extends the path to the last point if it still waits for a pressure centre, so that it covers the whole track.
    pub fn end_path(&mut self) {
        if let Some(low) = self.low.take()
            && low.time != self.track.end
        {
            self.track.end_path(low);
        }
    }

    /// Adds the next event.
    pub fn extend(&mut self, detected: &DetectedEvent) {
        let event = &detected.event;
        let from = self.step_from(event);
        let track = &mut self.track;
        let before = &mut self.before;
        before.push_back((track.end, track.end_lat_deg, track.end_lon_deg));
        while before.len() > 1 && event.time.hours_since(before[1].0) >= MOTION_HOURS {
            before.pop_front();
        }
        track.extend_from(from, event, &mut self.shore);
        let (lat, lon) = (track.genesis_lat_deg, track.genesis_lon_deg);
        let km = distance_km(lat, lon, event.lat_deg, event.lon_deg);
        self.farthest_km = self.farthest_km.max(km);
        self.region.clone_from(&detected.region);
        self.add_landfall_place(detected);
    }

    /// Raises the rank at the landfall to that of its cell at `time`; a stay that has ended there counts no further.
    pub fn rank_landfall(&mut self, time: Time, rank: impl Fn((u32, u32)) -> Option<u8>) {
        let Some(cell) = self.landfall_cell else {
            return;
        };
        let reached = rank(cell);
        if reached.is_none() {
            self.landfall_cell = None;
        } else if self.track.end == time
            && let Some(landfall) = &mut self.track.details.landfall
        {
            landfall.river_scale = landfall.river_scale.max(reached);
        }
    }

    /// Duration of the motion that is extrapolated, hours; `None` for a track of one point.
    pub fn motion_hours(&self) -> Option<f64> {
        let first = self.before.front()?;
        Some(self.track.end.hours_since(first.0))
    }

    /// The position extrapolated from the recent motion: latitude, longitude.
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
        // A jump of the centre, for instance in a merge, is not extrapolated at full speed.
        let limit = (linking.max_speed_km_per_day * ahead / 24.0 / moved_km.max(1e-9)).min(1.0);
        let scale = -limit * ahead / behind;
        plane.unproject(east * scale, north * scale)
    }
}
