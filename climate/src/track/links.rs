//! Finds the events that may continue a track at one time, and overlaps.

use crate::events::{DetectedEvent, Region};
use crate::track::assign::Pair;
use crate::track::matching::Link;
use crate::track::open_track::OpenTrack;
use crate::track::options::Linking;
use squall_data::Time;
use squall_data::grid::{KM_PER_DEGREE, distance_km, eastern_longitude};

/// All pairs of a track and an event of one class that overlap or are within reach.
pub(super) fn links(
    tracks: &[OpenTrack],
    events: &[&mut DetectedEvent],
    time: Time,
    linking: &Linking,
    row_areas_km2: &[f64],
) -> Vec<Link> {
    let areas_km2 = events.iter().map(|at| at.region.area_km2(row_areas_km2));
    let areas_km2: Vec<f64> = areas_km2.collect();
    let mut links = Vec::new();
    for (track, open) in tracks.iter().enumerate() {
        let last = &open.track;
        let ahead = time.hours_since(last.end);
        let reach_km = linking.reach_km(ahead).max(1e-6);
        let joined_reach_km = linking.joined_reach_km(ahead);
        // A track of one point has no motion to extrapolate.
        let deviation_km = match open.motion_hours() {
            Some(behind) => linking.deviation_km(ahead, behind),
            None => f64::INFINITY,
        };
        let (lat, lon) = open.predicted(time, linking);
        let own_km2 = open.region.area_km2(row_areas_km2);
        for (event, detected) in events.iter().enumerate() {
            let DetectedEvent {
                event: at, region, ..
            } = &**detected;
            // Cheap test first: in noisy masks nearly all events are far from a track.
            if is_beyond(reach_km, last.end_lat_deg, at.lat_deg)
                && share_no_row(&open.region, region)
            {
                continue;
            }
            let moved_km = distance_km(last.end_lat_deg, last.end_lon_deg, at.lat_deg, at.lon_deg);
            let overlap_km2 = open.region.overlap_km2(region, row_areas_km2);
            let area_km2 = areas_km2[event];
            let share = overlap_km2 / own_km2.min(area_km2).max(1e-9);
            let larger_km2 = own_km2.max(area_km2).max(1e-9);
            let common = overlap_km2 / larger_km2;
            let joined = linking.join_by_overlap
                && share > 0.0
                && share >= linking.min_overlap
                && common >= linking.min_common
                && moved_km <= joined_reach_km;
            let missed_km = distance_km(lat, lon, at.lat_deg, at.lon_deg);
            let alike = own_km2.min(area_km2) >= linking.min_common * larger_km2;
            let near = alike && moved_km <= reach_km && missed_km <= deviation_km;
            let east_deg = at.lon_deg - last.end_lon_deg;
            let pair = (joined || near).then(|| {
                let cost = (missed_km / reach_km).min(1.0) + 1.0 - common;
                Pair {
                    track,
                    event,
                    cost: break_tie(cost, east_deg),
                }
            });
            if pair.is_some() || share > 0.0 {
                links.push(Link {
                    track,
                    event,
                    overlap_km2,
                    share,
                    west: west(east_deg),
                    pair,
                });
            }
        }
    }
    links
}

/// Whether two latitudes alone are farther apart than a distance.
fn is_beyond(distance_km: f64, lat1_deg: f64, lat2_deg: f64) -> bool {
    // The tolerance covers rounding of a distance along a meridian.
    (lat1_deg - lat2_deg).abs() * KM_PER_DEGREE > distance_km * (1.0 + 1e-9) + 1e-6
}

/// Whether all rows of one region lie south of those of the other. Runs are sorted by row.
fn share_no_row(a: &Region, b: &Region) -> bool {
    match (&a.runs[..], &b.runs[..]) {
        ([a_first, ..], [b_first, ..]) => {
            let (a_last, b_last) = (a.runs[a.runs.len() - 1], b.runs[b.runs.len() - 1]);
            a_last.row < b_first.row || b_last.row < a_first.row
        }
        _ => true,
    }
}

/// Rounds a cost so that its last digits do not decide, and breaks ties in favour of the more easterly event, wherever
/// longitude begins.
fn break_tie(cost: f64, east_deg: f64) -> f64 {
    (cost * 1e9).round() * 1e-9 + 1e-10 * west(east_deg)
}

/// Direction of an event as a share of a full turn: 0 is 180 degrees to the east, 1 is 180 degrees to the west.
fn west(east_deg: f64) -> f64 {
    eastern_longitude(180.0 - east_deg) / 360.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::regions;
    use ndarray::Array2;
    use proptest::prelude::*;
    use squall_data::LatLonGrid;

    proptest! {
        /// Guarantees that no pair within reach is skipped.
        #[test]
        fn what_is_beyond_by_latitude_is_beyond(
            (lat1, lat2) in (-90.0..=90.0_f64, -90.0..=90.0_f64),
            (lon1, lon2) in (0.0..360.0_f64, 0.0..360.0_f64),
            share in 0.9..1.1_f64,
        ) {
            for east in [lon1, lon2] {
                let distance = distance_km(lat1, lon1, lat2, east);
                prop_assert!(!is_beyond(distance, lat1, lat2));
            }
            let apart = (lat1 - lat2).abs() * KM_PER_DEGREE;
            prop_assume!(apart > 1.0 && (share - 1.0).abs() > 1e-3);
            prop_assert_eq!(is_beyond(apart * share, lat1, lat2), share < 1.0);
        }

        /// Guarantees that no overlap is skipped.
        #[test]
        fn regions_without_a_common_row_do_not_overlap(rows in (0usize..6, 1usize..4, 0usize..6, 1usize..4)) {
            let grid = LatLonGrid::global(10, 8).unwrap();
            let areas = grid.row_areas_km2();
            let of = |from: usize, count: usize| {
                let codes = Array2::from_shape_fn((10, 8), |(j, i)| {
                    u8::from((from..from + count).contains(&j) && i < 3)
                });
                regions(codes.view(), &grid).unwrap().remove(0)
            };
            let (a, b) = (of(rows.0, rows.1), of(rows.2, rows.3));
            prop_assert_eq!(share_no_row(&a, &b), a.overlap_km2(&b, &areas) == 0.0);
        }
    }
}
