//! One row per object of a source, for figures and tables.

use crate::Event;
use crate::report::Source;
use crate::statistics::Basin;
use squall_data::{Class, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// An object over its life; an untracked event is an object with a single time and unknown lifetime.
#[derive(Debug, Clone)]
pub(crate) struct Object<'a> {
    pub(crate) id: Option<u64>,
    pub(crate) class: Class,
    pub(crate) start: Time,
    pub(crate) lat_deg: f64,
    pub(crate) lon_deg: f64,
    pub(crate) duration_hours: Option<f64>,
    pub(crate) distance_km: Option<f64>,
    pub(crate) max_wind_m_s: Option<f64>,
    pub(crate) min_psl_pa: Option<f64>,
    pub(crate) max_tmq_kg_m2: Option<f64>,
    pub(crate) max_area_km2: f64,
    /// The event at which it is longest; `None` for boxes, which have no length.
    pub(crate) longest: Option<&'a Event>,
    /// Its events in time order.
    pub(crate) points: Vec<&'a Event>,
}

impl Object<'_> {
    /// Index of the basin in which it began.
    pub(crate) fn basin(&self) -> usize {
        Basin::of(self.lat_deg, self.lon_deg) as usize
    }
}

/// Compares two times of the same calendar.
pub(crate) fn by_time(a: Time, b: Time) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// Whether the source has tracks of a class, so that its objects have a lifetime.
pub(crate) fn is_tracked(source: &Source, class: Class) -> bool {
    source.tracks.iter().any(|t| t.class == class)
}

/// The objects of a class: its tracks, or its events if there are no tracks.
pub(crate) fn objects(source: &Source, class: Class) -> Vec<Object<'_>> {
    let mut groups: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
    for event in source.events.iter().filter(|e| e.class == class) {
        if let Some(id) = event.track_id {
            groups.entry(id).or_default().push(event);
        }
    }
    groups
        .values_mut()
        .for_each(|points| points.sort_by(|a, b| by_time(a.time, b.time)));
    if !is_tracked(source, class) {
        let events = source.events.iter().filter(|e| e.class == class);
        return events.map(of_event).collect();
    }
    let tracks = source.tracks.iter().filter(|t| t.class == class);
    tracks
        .map(|track| {
            let points = groups.remove(&track.track_id).unwrap_or_default();
            Object {
                id: Some(track.track_id),
                class,
                start: track.start,
                lat_deg: track.genesis_lat_deg,
                lon_deg: track.genesis_lon_deg,
                duration_hours: Some(track.duration_hours()),
                distance_km: Some(track.distance_km),
                max_wind_m_s: track.max_wind_m_s,
                min_psl_pa: track.min_psl_pa,
                max_tmq_kg_m2: track.max_tmq_kg_m2,
                max_area_km2: track.max_area_km2,
                longest: points
                    .iter()
                    .copied()
                    .filter(|e| e.length_km.is_finite())
                    .max_by(|a, b| a.length_km.total_cmp(&b.length_km)),
                points,
            }
        })
        .collect()
}

/// The events of a class that are on none of its tracks: those too brief to be tracked. Empty if the class has no
/// tracks.
pub(crate) fn strays(source: &Source, class: Class) -> Vec<Object<'_>> {
    let tracks = source.tracks.iter().filter(|t| t.class == class);
    let followed: BTreeSet<u64> = tracks.map(|t| t.track_id).collect();
    let stray =
        |e: &&Event| e.class == class && e.track_id.is_none_or(|id| !followed.contains(&id));
    if followed.is_empty() {
        // In this case `objects` returns them all.
        Vec::new()
    } else {
        source.events.iter().filter(stray).map(of_event).collect()
    }
}

fn of_event(event: &Event) -> Object<'_> {
    Object {
        id: event.track_id,
        class: event.class,
        start: event.time,
        lat_deg: event.lat_deg,
        lon_deg: event.lon_deg,
        duration_hours: None,
        distance_km: None,
        max_wind_m_s: event.max_wind_m_s,
        min_psl_pa: event.min_psl_pa,
        max_tmq_kg_m2: event.max_tmq_kg_m2,
        max_area_km2: event.area_km2,
        longest: Some(event).filter(|e| e.length_km.is_finite()),
        points: vec![event],
    }
}

/// Mean number of events of a class per analysed time; `times` is the page's number, for sources without their own.
/// `None` for a single time.
pub(crate) fn mean_per_time(source: &Source, class: Class, times: usize) -> Option<f64> {
    let times = source.times.unwrap_or(times);
    let count = source.events.iter().filter(|e| e.class == class).count();
    (times > 1).then(|| count as f64 / times as f64)
}
