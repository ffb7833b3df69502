//! Tracks of events that already know theirs.

use crate::events::Event;
use crate::track::details::Shore;
use crate::track::{Fate, Origin, Track};
use std::collections::BTreeMap;

/// The tracks of events whose `track_id` is known, ascending by identity: of a truth that came with identities, or of a
/// table of tracked events.
///
/// Events without an identity are left out. What was there at the first or last time of all events began before or went
/// on after the data; how others began or ended (by splitting or merging) is not in the events, so they have genesis
/// and lysis.
///
/// # Example
/// ```
/// assert!(squall_climate::track::from_events(&[]).is_empty());
/// ```
pub fn from_events(events: &[Event]) -> Vec<Track> {
    let mut listed: Vec<&Event> = events.iter().filter(|e| e.track_id.is_some()).collect();
    let Some(zero) = listed.first().map(|event| event.time) else {
        return Vec::new();
    };
    listed.sort_by_key(|event| event.time.seconds_since(zero));
    let (first, last) = (listed[0].time, listed[listed.len() - 1].time);
    let mut tracks: BTreeMap<u64, (Track, Shore)> = BTreeMap::new();
    for event in listed {
        let Some(id) = event.track_id else { continue };
        match tracks.get_mut(&id) {
            Some((track, shore)) => track.go_on(event, shore),
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
    }
    tracks
}
