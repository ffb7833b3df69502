//! Joins tracks with their points.

use crate::error::{ClimateError, Result};
use crate::events::Event;
use crate::table::{EventReader, Spill, TrackReader};
use crate::track::Track;
use squall_data::{Calendar, DataError, Time};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Number of events kept in memory while sorting by track.
const MAX_EVENTS_IN_MEMORY: usize = 32_768;

/// The folder for the remaining events while sorting.
const SORTING: &str = ".events.sorting";

/// Removes the sorting folder left by a killed run.
///
/// # Errors
/// [`ClimateError::Data`] if it cannot be removed.
pub(super) fn clear(folder: &Path) -> Result<()> {
    let sorting = folder.join(SORTING);
    match fs::remove_dir_all(&sorting) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(DataError::io("remove", sorting)(error).into())
        }
        _ => Ok(()),
    }
}

/// Calls `each` for every row of `tracks.csv`, ascending by identity, with its rows of `events.csv`, ascending by time.
///
/// # Errors
/// [`ClimateError::Mismatch`] if a track has another number of events than stated; errors of reading and of `each`.
pub(super) fn for_each_track(
    folder: &Path,
    calendar: Calendar,
    mut each: impl FnMut(&Track, &[Event]) -> Result<()>,
) -> Result<()> {
    let mut spill = Spill::<Event>::new(folder.join(SORTING), MAX_EVENTS_IN_MEMORY);
    let mut zero: Option<Time> = None;
    for event in EventReader::open(folder.join("events.csv"), calendar)? {
        let event = event?;
        if let Some(id) = event.track_id {
            let zero = *zero.get_or_insert(event.time);
            // JSON has no NaN, and no format uses shapes.
            let event = Event {
                length_km: 0.0,
                width_km: 0.0,
                orientation_deg: 0.0,
                area_km2: if event.area_km2.is_finite() {
                    event.area_km2
                } else {
                    0.0
                },
                ..event
            };
            spill.push(id, event.time.seconds_since(zero), event)?;
        }
    }
    let mut events = spill.sorted()?.peekable();
    for track in TrackReader::open(folder.join("tracks.csv"), calendar)? {
        let track = track?;
        let mut points = Vec::new();
        loop {
            match events.peek() {
                Some(Ok(event)) if event.track_id < Some(track.track_id) => drop(events.next()),
                Some(Ok(event)) if event.track_id == Some(track.track_id) => {
                    points.extend(events.next().transpose()?);
                }
                Some(Ok(_)) | None => break,
                Some(Err(_)) => {
                    return Err(events
                        .next()
                        .and_then(Result::err)
                        .unwrap_or_else(|| ClimateError::Invalid("sorting events failed".into())));
                }
            }
        }
        if points.len() != track.points {
            return Err(ClimateError::Mismatch {
                what: format!(
                    "events of track {} in `{}`",
                    track.track_id,
                    folder.join("events.csv").display()
                ),
                expected: track.points.to_string(),
                found: points.len().to_string(),
            });
        }
        each(&track, &points)?;
    }
    Ok(())
}
