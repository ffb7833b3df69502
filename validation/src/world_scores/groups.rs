//! Hits, false alarms and distances of groups of storms: basins, quarters, years.

use super::matching::TrackPair;
use crate::bootstrap::{Bootstrap, Interval, add};
use crate::chance::skill;
use crate::confusion::ratio;
use serde::{Deserialize, Serialize};
use squall_climate::statistics::Basin;
use squall_climate::track::readers::ImportedTrack;
use squall_data::Class;
use std::collections::{BTreeMap, HashSet};

/// How far apart two tracks of one storm are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DistanceSummary {
    /// Points compared.
    pub points: u64,
    /// Mean.
    pub mean_km: f64,
    /// Median.
    pub median_km: f64,
    /// Nine of ten are no farther apart.
    pub p90_km: f64,
}

impl DistanceSummary {
    fn from_distances(mut distances_km: Vec<f64>) -> Option<Self> {
        if distances_km.is_empty() {
            return None;
        }
        distances_km.sort_by(f64::total_cmp);
        let count = distances_km.len();
        // Between the two neighbours, as numpy's percentile.
        let at = |share: f64| {
            let place = share * (count - 1) as f64;
            let (below, part) = (place.floor() as usize, place.fract());
            let above = (below + 1).min(count - 1);
            distances_km[below] * (1.0 - part) + distances_km[above] * part
        };
        Some(Self {
            points: count as u64,
            mean_km: distances_km.iter().sum::<f64>() / count as f64,
            median_km: at(0.5),
            p90_km: at(0.9),
        })
    }
}

/// How a group of storms was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrackGroup {
    /// Which storms: the year, the quarter, the basin of cyclones or the sector of rivers and extratropical cyclones.
    pub name: String,
    /// Storms of the reference.
    pub reference_tracks: u64,
    /// Storms of the reference that a predicted track found.
    pub hits: u64,
    /// Predicted tracks.
    pub predicted_tracks: u64,
    /// Predicted tracks that are no storm of the reference.
    pub false_alarms: u64,
    /// Hit rate: hits / reference tracks.
    pub pod: Option<f64>,
    /// False-alarm ratio: false alarms / predicted tracks.
    pub far: Option<f64>,
    /// Confidence interval of `pod`, from cyclone years drawn again; needs five.
    pub pod_interval: Option<Interval>,
    /// Confidence interval of `far`.
    pub far_interval: Option<Interval>,
    /// Predicted tracks per storm found: above 1, storms are broken into pieces.
    pub pieces_per_hit: Option<f64>,
    /// Distances at all times of all pairs.
    pub distance: Option<DistanceSummary>,
    /// Mean over pairs of the highest wind of the predicted track less that of the storm, m/s.
    pub wind_difference_m_s: Option<f64>,
    /// Mean over pairs of the lowest pressure of the predicted track less that of the storm, Pa.
    pub pressure_difference_pa: Option<f64>,
    /// `pod` of the predicted tracks moved in time: what is found without knowing when.
    pub chance_pod: Option<f64>,
    /// `far` of these.
    pub chance_far: Option<f64>,
    /// (`pod` - `chance_pod`) / (1 - `chance_pod`).
    pub skill: Option<f64>,
}

impl TrackGroup {
    /// Adds the chance levels: the rates of the groups of its name among those of moved tracks, together.
    fn add_chance<'a>(&mut self, moved: impl Iterator<Item = &'a Self>) {
        let mut sums = [0.0; 4];
        for group in moved.filter(|group| group.name == self.name) {
            let counts = [
                group.hits,
                group.reference_tracks,
                group.false_alarms,
                group.predicted_tracks,
            ];
            add(&mut sums, &counts.map(|count| count as f64));
        }
        [self.chance_pod, self.chance_far] = rates(&sums);
        self.skill = skill(self.pod, self.chance_pod);
    }
}

/// The scores of all storms, and of those of each basin, quarter and year.
pub(super) struct Groupings {
    pub total: TrackGroup,
    pub basins: Vec<TrackGroup>,
    pub quarters: Vec<TrackGroup>,
    pub years: Vec<TrackGroup>,
}

/// The basin, quarter and year of a track, by its first point. Southern tropical cyclones belong to the year in which
/// their season ends; rivers and extratropical cyclones have no such season.
#[derive(Clone, Copy, PartialEq)]
struct Home {
    basin: Basin,
    quarter: usize,
    year: i64,
}

const QUARTERS: [&str; 4] = ["DJF", "MAM", "JJA", "SON"];

impl Home {
    fn at_genesis(track: &ImportedTrack) -> Option<Self> {
        let first = track.points.first()?;
        let (year, month, _) = first.time.date();
        // By one rule for both sides, whatever the file says.
        let basin = Basin::of(first.lat_deg, first.lon_deg);
        let has_season = match track.class {
            Class::TropicalCyclone | Class::TropicalDepression => true,
            Class::AtmosphericRiver | Class::ExtratropicalCyclone | Class::Background => false,
        };
        Some(Self {
            basin,
            quarter: (month % 12 / 3) as usize,
            year: year + i64::from(has_season && basin.is_southern() && month >= 7),
        })
    }
}

impl Groupings {
    pub fn of(
        reference: &[ImportedTrack],
        predicted: &[ImportedTrack],
        pairs: &[TrackPair],
        bootstrap: &Bootstrap,
    ) -> Self {
        let mut homes = [reference, predicted].map(|tracks| {
            tracks
                .iter()
                .map(Home::at_genesis)
                .collect::<Vec<Option<Home>>>()
        });
        // A track that found a storm begins earlier or later, maybe in another quarter: the row of the storm would have
        // a hit by none of its tracks.
        for pair in pairs {
            homes[1][pair.predicted] = homes[0][pair.reference];
        }
        let years: std::collections::BTreeSet<i64> = homes
            .iter()
            .flatten()
            .flatten()
            .map(|home| home.year)
            .collect();
        let all = Storms {
            reference,
            predicted,
            pairs,
            hit: pairs.iter().map(|pair| pair.reference).collect(),
            real: pairs.iter().map(|pair| pair.predicted).collect(),
            homes,
            bootstrap,
        };
        let first = reference.iter().chain(predicted).next();
        let class = first.map_or(Class::TropicalCyclone, |track| track.class);
        let basins = Basin::ALL.into_iter().map(|basin| {
            let name = basin.name_for(class).to_string();
            all.group(name, &|home| home.basin == basin)
        });
        let quarters = (0..4)
            .map(|quarter| all.group(QUARTERS[quarter].into(), &|home| home.quarter == quarter));
        let some = |group: &TrackGroup| group.reference_tracks + group.predicted_tracks > 0;
        Self {
            total: all.group("all".into(), &|_| true),
            basins: basins.filter(some).collect(),
            quarters: quarters.filter(some).collect(),
            years: years
                .into_iter()
                .map(|year| all.group(year.to_string(), &|home| home.year == year))
                .collect(),
        }
    }

    /// Adds the chance levels: the rates of predicted tracks that were moved in time, over all shifts together.
    pub fn add_chance(&mut self, moved: &[Self]) {
        self.total.add_chance(moved.iter().map(|one| &one.total));
        for group in &mut self.basins {
            group.add_chance(moved.iter().flat_map(|one| &one.basins));
        }
        for group in &mut self.quarters {
            group.add_chance(moved.iter().flat_map(|one| &one.quarters));
        }
        for group in &mut self.years {
            group.add_chance(moved.iter().flat_map(|one| &one.years));
        }
    }
}

/// What groups are made of.
struct Storms<'a> {
    reference: &'a [ImportedTrack],
    predicted: &'a [ImportedTrack],
    pairs: &'a [TrackPair],
    /// The storms that were found.
    hit: HashSet<usize>,
    /// The predicted tracks that are a storm.
    real: HashSet<usize>,
    /// Of the tracks of the reference, and of the predicted ones: of one that is a storm, that of the storm. `None` of
    /// one without points.
    homes: [Vec<Option<Home>>; 2],
    bootstrap: &'a Bootstrap,
}

impl Storms<'_> {
    /// Hits, storms, false alarms and predicted tracks of a group, for each cyclone year that has any of them.
    fn counts_by_year(&self, belongs: &dyn Fn(&Home) -> bool) -> Vec<[f64; 4]> {
        let [storms, tracks] = &self.homes;
        let mut blocks: BTreeMap<i64, [f64; 4]> = BTreeMap::new();
        for (k, home) in storms.iter().enumerate() {
            if let Some(home) = home.filter(|home| belongs(home)) {
                let block = blocks.entry(home.year).or_default();
                block[0] += f64::from(u8::from(self.hit.contains(&k)));
                block[1] += 1.0;
            }
        }
        for (k, home) in tracks.iter().enumerate() {
            if let Some(home) = home.filter(|home| belongs(home)) {
                let block = blocks.entry(home.year).or_default();
                block[2] += f64::from(u8::from(!self.real.contains(&k)));
                block[3] += 1.0;
            }
        }
        blocks.into_values().collect()
    }

    /// The scores of a group: of the storms of the reference and the predicted tracks for which `belongs` holds, and of
    /// the pairs whose storm is one of these.
    fn group(&self, name: String, belongs: &dyn Fn(&Home) -> bool) -> TrackGroup {
        let blocks = self.counts_by_year(belongs);
        let mut sums = [0.0; 4];
        blocks.iter().for_each(|block| add(&mut sums, block));
        let [pod, far] = rates(&sums);
        let [pod_interval, far_interval] = self.bootstrap.intervals(5, &blocks, rates);
        let pairs: Vec<&TrackPair> = self
            .pairs
            .iter()
            .filter(|pair| self.homes[0][pair.reference].is_some_and(|home| belongs(&home)))
            .collect();
        let difference = |extreme: &dyn Fn(&ImportedTrack) -> Option<f64>| {
            let differences = pairs.iter().filter_map(|pair| {
                Some(
                    extreme(&self.predicted[pair.predicted])?
                        - extreme(&self.reference[pair.reference])?,
                )
            });
            let differences: Vec<f64> = differences.collect();
            ratio(differences.iter().sum(), differences.len() as f64)
        };
        let distances = pairs
            .iter()
            .flat_map(|pair| pair.distances_km.iter().copied());
        TrackGroup {
            name,
            hits: sums[0] as u64,
            reference_tracks: sums[1] as u64,
            false_alarms: sums[2] as u64,
            predicted_tracks: sums[3] as u64,
            pod,
            far,
            pod_interval,
            far_interval,
            pieces_per_hit: ratio(pairs.len() as f64, sums[0]),
            distance: DistanceSummary::from_distances(distances.collect()),
            wind_difference_m_s: difference(&|track| {
                let winds = track.points.iter().filter_map(|p| p.max_wind_m_s);
                winds.reduce(f64::max)
            }),
            pressure_difference_pa: difference(&|track| {
                let pressures = track.points.iter().filter_map(|p| p.min_psl_pa);
                pressures.reduce(f64::min)
            }),
            chance_pod: None,
            chance_far: None,
            skill: None,
        }
    }
}

fn rates(&[hits, storms, false_alarms, tracks]: &[f64; 4]) -> [Option<f64>; 2] {
    [ratio(hits, storms), ratio(false_alarms, tracks)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_climate::track::readers::ImportedPoint;
    use squall_data::{Calendar, Time};

    /// A river over Moscow was one of the North Indian Ocean.
    #[test]
    fn rivers_are_of_sectors_and_cyclones_of_basins() {
        for (class, name) in [
            (Class::TropicalCyclone, "North Indian"),
            (Class::AtmosphericRiver, "30–100°E north"),
        ] {
            let point = ImportedPoint {
                time: Time::new(Calendar::Standard, 2001, 8, 1, 0, 0, 0).unwrap(),
                lon_deg: 40.0,
                lat_deg: 55.0,
                max_wind_m_s: None,
                other_wind: false,
                min_psl_pa: None,
            };
            let track = ImportedTrack {
                name: "a".into(),
                identity: Default::default(),
                class,
                season: None,
                basin: None,
                points: vec![point],
            };
            let groups = Groupings::of(&[], &[track], &[], &Bootstrap::default());
            let names: Vec<&str> = groups.basins.iter().map(|g| g.name.as_str()).collect();
            assert_eq!(names, [name]);
        }
    }
}
