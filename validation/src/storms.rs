//! Storms of the truth, each found or missed.

use crate::confusion::ratio;
use crate::world_scores::TrackPair;
use serde::{Deserialize, Serialize};
use squall_climate::Event;
use squall_climate::track::readers::ImportedTrack;
use squall_data::Class;
use std::collections::HashMap;

/// A cyclone of the truth, and what found it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Storm {
    /// Which class.
    pub class: Class,
    /// Its identity in the truth: the number of a track, or what a file of best tracks calls it, such as IBTrACS's SID.
    pub id: String,
    /// When it begins.
    pub first: String,
    /// Its highest wind in the truth, m/s.
    pub max_wind_m_s: Option<f64>,
    /// The predicted tracks that found it, by their identity; none if it was missed.
    pub found_by: Vec<String>,
    /// Mean distance of these at the times that were compared.
    pub mean_distance_km: Option<f64>,
}

impl Storm {
    /// A storm of its points, and the predicted track that found it with the mean distance; `None` without points.
    pub(crate) fn of_points(id: u64, points: &[&Event], found: Option<(u64, f64)>) -> Option<Self> {
        let zero = points.first()?;
        let first = (points.iter()).min_by_key(|point| point.time.seconds_since(zero.time))?;
        let winds = points.iter().filter_map(|point| point.max_wind_m_s);
        Some(Self {
            class: zero.class,
            id: id.to_string(),
            first: first.time.to_string(),
            max_wind_m_s: winds.reduce(f64::max),
            found_by: found.iter().map(|(id, _)| id.to_string()).collect(),
            mean_distance_km: found.map(|(_, mean_km)| mean_km),
        })
    }

    /// The cyclones of a reference, with all tracks that are one of them.
    pub(crate) fn of_pairs(
        reference: &[ImportedTrack],
        predicted: &[ImportedTrack],
        pairs: &[TrackPair],
    ) -> Vec<Self> {
        let mut of_storm: HashMap<usize, Vec<&TrackPair>> = HashMap::new();
        for pair in pairs {
            of_storm.entry(pair.reference).or_default().push(pair);
        }
        let storm = |(place, track): (usize, &ImportedTrack)| {
            let found = of_storm.get(&place).map(Vec::as_slice).unwrap_or_default();
            let distances = found.iter().flat_map(|pair| &pair.distances_km);
            let times = distances.clone().count();
            let winds = track.points.iter().filter_map(|point| point.max_wind_m_s);
            Some(Self {
                class: track.class,
                id: track.name.clone(),
                first: track.points.first()?.time.to_string(),
                max_wind_m_s: winds.reduce(f64::max),
                found_by: (found.iter())
                    .map(|pair| predicted[pair.predicted].name.clone())
                    .collect(),
                mean_distance_km: ratio(distances.sum(), times as f64),
            })
        };
        let cyclones = (reference.iter().enumerate()).filter(|(_, track)| track.class.is_cyclone());
        cyclones.filter_map(storm).collect()
    }
}
