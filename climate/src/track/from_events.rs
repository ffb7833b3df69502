//! Summarises tracks from events whose track numbers are known.

use crate::events::Event;
use crate::track::details::Shore;
use crate::track::{Fate, Origin, Track};
use std::collections::BTreeMap;

/// Returns the tracks of events with a `track_id`, ascending by identity. The events come from ground truth with
/// identities or from a table of tracked events.
///
/// Events without an identity are ignored. Tracks present at the first or last time of all events start before or
/// continue after the data. All other tracks have genesis and lysis, because events do not record splits and merges.
///
/// # Example
/// ```
/// assert!(squall_climate::track::from_events(&[]).is_empty());
/// ```
pub fn from_events(events: &[Event]) -> Vec<Track> {
    let Some(zero) = events.first().map(|event| event.time) else {
        return Vec::new();
    };
    let mut all: Vec<&Event> = events.iter().collect();
    all.sort_by_key(|event| event.time.seconds_since(zero));
    let (first, last) = (all[0].time, all[all.len() - 1].time);
    let mut tracks: BTreeMap<u64, (Track, Shore)> = BTreeMap::new();
    // Sum and count of the known areas.
    let mut areas: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for event in all {
        let Some(id) = event.track_id else { continue };
        if event.area_km2.is_finite() {
            let (sum, count) = areas.entry(id).or_default();
            *sum += event.area_km2;
            *count += 1;
        }
        match tracks.get_mut(&id) {
            Some((track, shore)) => track.extend(event, shore),
            None => {
                let origin = if event.time == first {
                    Origin::StartOfData
                } else {
                    Origin::Genesis
                };
                tracks.insert(
                    id,
                    (Track::begin(id, event, origin, None), Shore::of(event)),
                );
            }
        }
    }
    let mut tracks: Vec<Track> = tracks.into_values().map(|(track, _)| track).collect();
    for track in &mut tracks {
        if track.end != last {
            track.fate = Fate::Lysis;
        }
        // A single unknown area would make the mean NaN.
        let known = areas.get(&track.track_id);
        if let Some(&(sum, count)) = known.filter(|(_, count)| *count < track.points) {
            track.mean_area_km2 = sum / count as f64;
        }
    }
    tracks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::readers::{ImportedPoint, ImportedTrack, TrackFormat, TrackTable};
    use squall_data::{Calendar, Class, Time};

    /// Events of one track at the given hours.
    fn events(hours: &[i64]) -> Vec<Event> {
        let start = Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap();
        let point = |&hours: &i64| ImportedPoint {
            time: start.add_seconds(3600 * hours),
            lon_deg: 200.0,
            lat_deg: 15.0,
            max_wind_m_s: None,
            other_wind: false,
            min_psl_pa: None,
        };
        let track = ImportedTrack {
            name: "a".into(),
            identity: Default::default(),
            class: Class::TropicalCyclone,
            season: None,
            basin: None,
            points: hours.iter().map(point).collect(),
        };
        let table = TrackTable {
            format: TrackFormat::PointsCsv,
            tracks: vec![track],
            facts: Vec::new(),
            notes: Vec::new(),
            covers: None,
        };
        table.events()
    }

    /// Events without a track also count as analysed times.
    #[test]
    fn data_end_with_the_last_event_of_any_track_or_none() {
        let ends = |untracked: &[i64]| {
            let mut all = events(&[0, 6, 12, 18]);
            for (place, event) in (0..).zip(&mut all) {
                if untracked.contains(&place) {
                    event.track_id = None;
                }
            }
            let tracks = from_events(&all);
            assert_eq!(tracks.len(), 1);
            (tracks[0].origin, tracks[0].fate)
        };
        assert_eq!(ends(&[]), (Origin::StartOfData, Fate::EndOfData));
        assert_eq!(ends(&[0]), (Origin::Genesis, Fate::EndOfData));
        assert_eq!(ends(&[3]), (Origin::StartOfData, Fate::Lysis));
        assert_eq!(ends(&[0, 3]), (Origin::Genesis, Fate::Lysis));
        let mut none = events(&[0]);
        none[0].track_id = None;
        assert!(from_events(&none).is_empty());
    }

    #[test]
    fn the_mean_area_is_that_of_the_points_that_have_one() {
        let mean = |areas: [f64; 3]| {
            let mut all = events(&[0, 6, 12]);
            for (event, area) in all.iter_mut().zip(areas) {
                event.area_km2 = area;
            }
            from_events(&all)[0].mean_area_km2
        };
        let none = f64::NAN;
        assert!((mean([1e4, 2e4, 6e4]) - 3e4).abs() < 1e-6);
        assert_eq!(mean([1e4, none, 6e4]), 3.5e4);
        assert_eq!(mean([none, 2e4, none]), 2e4);
        assert!(mean([none; 3]).is_nan());
    }
}
