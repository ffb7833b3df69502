//! Histories of discs on a globe with 2-degree cells, and their tracks.
#![allow(dead_code)] // each test file uses its part

use ndarray::Array2;
use squall_climate::Track;
use squall_climate::events::{DetectedEvent, EventFields, ExtractOptions, extract};
use squall_climate::track::{Tracker, TrackerOptions};
use squall_data::grid::distance_km;
use squall_data::{Calendar, ClassMask, LatLonGrid, Time};

/// Class code, latitude, longitude, radius in km.
pub type Disc = (u8, f64, f64, f64);

/// 91 rows and 180 columns, with rows at the poles.
pub fn grid() -> LatLonGrid {
    LatLonGrid::global(91, 180).unwrap()
}

/// The time `hours` after the first one.
pub fn at(hours: i64) -> Time {
    Time::new(Calendar::NoLeap, 1999, 12, 30, 0, 0, 0)
        .unwrap()
        .add_seconds(3600 * hours)
}

/// The events of a mask made of discs.
pub fn events(grid: &LatLonGrid, hours: i64, discs: &[Disc]) -> Vec<DetectedEvent> {
    let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
        let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
        let inside = |d: &&Disc| distance_km(d.1, d.2, lat, lon) < d.3;
        discs.iter().find(inside).map_or(0, |d| d.0)
    });
    let mask = ClassMask::new(at(hours), codes).unwrap();
    extract(
        &mask,
        grid,
        &EventFields::default(),
        &ExtractOptions::everything(),
    )
    .unwrap()
}

/// The identities at each time, and all tracks in the order of their identities.
pub fn follow(
    options: TrackerOptions,
    history: &[(i64, Vec<Disc>)],
) -> (Vec<Vec<u64>>, Vec<Track>) {
    let grid = grid();
    let mut tracker = Tracker::new(&grid, options).unwrap();
    let (mut ids, mut tracks) = (Vec::new(), Vec::new());
    for (hours, discs) in history {
        let mut found = events(&grid, *hours, discs);
        let step = tracker.push(at(*hours), &mut found).unwrap();
        assert!(
            found
                .iter()
                .map(|e| e.event.track_id)
                .eq(step.ids.iter().map(|&id| Some(id)))
        );
        ids.push(step.ids);
        tracks.extend(step.finished);
    }
    tracks.extend(tracker.finish().finished);
    tracks.sort_by_key(|track| track.track_id);
    (ids, tracks)
}

/// The default rules, but every track is listed.
pub fn keep_all() -> TrackerOptions {
    TrackerOptions::default().keep_all()
}
