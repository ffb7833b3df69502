//! Between the passes: candidates joined to tracks, as they come in.

use super::candidates::CycloneCandidate;
use super::settled::{Point, Settled};
use super::thresholds::TcThresholds;
use crate::error::{ClimateError, Result};
use serde::{Deserialize, Serialize};
use squall_data::Time;
use squall_data::grid::distance_km;

const SECONDS_PER_DAY: f64 = 86_400.0;

/// Joins candidates to tracks, time by time.
///
/// Each track, oldest first, takes the nearest candidate of the next time within reach of the greatest speed; it ends
/// where there is none (no gaps). What no track takes begins one. A track stands if it has more than one point and the
/// time it spent as a storm (wind, warm core and thickness), not necessarily in one piece, adds up to enough; each
/// point counts for the time to the next one. This is TECA's rule: there each candidate in turn is followed to its end
/// before the next one begins, which deals the candidates out the same way. Distances are great circles over the seam of
/// longitude; `teca_tc_trajectory` measures degrees in a plane and ends tracks there.
///
/// Memory holds the tracks that are under way and, until they are let go ([`Trajectories::forget_before`]), the points
/// of those that stand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trajectories {
    thresholds: TcThresholds,
    first: Option<Time>,
    last: Option<Time>,
    last_index: usize,
    begun: usize,
    active: Vec<Trajectory>,
    settled: Settled<CycloneCandidate>,
    /// Storms of the first days, in case the input ends before a track can stand.
    early: Vec<(usize, CycloneCandidate)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Trajectory {
    order: usize,
    storm_days: f64,
    points: Vec<(usize, CycloneCandidate)>,
}

/// The candidates that are cyclones: with their track, or without where the input was too short for any.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptedCyclones {
    settled: Settled<CycloneCandidate>,
    /// Number of tracks.
    pub tracks: usize,
    /// Whether the input was too short for tracks, so that storms stand by what they are at one time.
    pub untracked: bool,
}

impl AcceptedCyclones {
    /// The cyclones at one time of the series.
    pub fn at(&self, index: usize) -> &[CycloneCandidate] {
        self.settled.at(index)
    }

    /// Number of cyclones over all times.
    pub fn points(&self) -> usize {
        self.settled.points()
    }
}

impl Point for CycloneCandidate {
    fn on_track(self, id: u64) -> Self {
        Self {
            track_id: Some(id),
            ..self
        }
    }
}

impl Trajectories {
    /// No track yet. The thresholds are taken as they are (see [`TcThresholds::adapted_to`]).
    pub fn new(thresholds: &TcThresholds) -> Self {
        Self {
            thresholds: thresholds.clone(),
            first: None,
            last: None,
            last_index: 0,
            begun: 0,
            active: Vec::new(),
            settled: Settled::new(1),
            early: Vec::new(),
        }
    }

    /// Takes the candidates of the next time; `index` is what [`AcceptedCyclones::at`] will know the time by.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if the time or the index is not later than the one before.
    pub fn push(
        &mut self,
        index: usize,
        time: Time,
        candidates: Vec<CycloneCandidate>,
    ) -> Result<()> {
        match self.last {
            Some(last) if time.seconds_since(last) <= 0 || index <= self.last_index => {
                return Err(ClimateError::Invalid(format!(
                    "cyclone tracks: time {index} ({time}) does not come after time {} ({last})",
                    self.last_index
                )));
            }
            Some(last) => self.extend(index, time.seconds_since(last), candidates.as_slice()),
            None => self.begin(index, &candidates, &vec![true; candidates.len()]),
        }
        self.first.get_or_insert(time);
        self.last = Some(time);
        self.last_index = index;
        if self.too_short() {
            let storms = candidates
                .iter()
                .filter(|c| c.is_storm(self.thresholds.min_wind_m_s));
            self.early.extend(storms.map(|&c| (index, c)));
        } else {
            self.early = Vec::new();
        }
        self.settle();
        Ok(())
    }

    fn settle(&mut self) {
        let open = self.active.first().map_or(self.begun, |track| track.order);
        self.settled.decided_before(open);
    }

    /// The index of the first time of which nothing is decided; what stands at those before will not change.
    pub fn undecided(&self) -> usize {
        match (
            self.last,
            self.active.first().map(|track| &track.points[..]),
        ) {
            (None, _) => 0,
            // Storms may yet stand untracked.
            _ if self.too_short() => 0,
            (_, Some(&[(index, _), ..])) => index,
            _ => self.last_index + 1,
        }
    }

    /// The cyclones at a time of which it is decided.
    pub fn at(&self, index: usize) -> &[CycloneCandidate] {
        self.settled.at(index)
    }

    /// Lets go of the cyclones at times before this one.
    pub fn forget_before(&mut self, index: usize) {
        self.settled.forget_before(index);
    }

    /// The cyclones that were not let go. Tracks are numbered from 1 in the order in which they began, then from south
    /// to north.
    pub fn finish(mut self) -> AcceptedCyclones {
        let untracked = self.end();
        AcceptedCyclones {
            tracks: self.settled.tracks() as usize,
            untracked,
            settled: self.settled,
        }
    }

    /// No time follows, so that everything is decided; gives whether the input was too short for tracks.
    pub(super) fn end(&mut self) -> bool {
        let untracked = self.last.is_some() && self.too_short();
        if untracked {
            self.active.clear();
            for (index, candidate) in std::mem::take(&mut self.early) {
                self.settled.add(index, candidate);
            }
            return true;
        }
        for track in std::mem::take(&mut self.active) {
            self.close(track);
        }
        self.settle();
        false
    }

    /// Whether no track could have lasted long enough yet.
    fn too_short(&self) -> bool {
        self.first.zip(self.last).is_none_or(|(first, last)| {
            (last.seconds_since(first) as f64) < self.thresholds.min_storm_days * SECONDS_PER_DAY
        })
    }

    fn extend(&mut self, index: usize, step_seconds: i64, candidates: &[CycloneCandidate]) {
        let days = step_seconds as f64 / SECONDS_PER_DAY;
        let linked = days * 24.0 <= self.thresholds.max_step_hours + 1e-9;
        let mut free = vec![true; candidates.len()];
        for mut track in std::mem::take(&mut self.active) {
            let Some(&(_, tip)) = track.points.last() else {
                continue;
            };
            let next = linked
                .then(|| {
                    if tip.is_storm(self.thresholds.min_wind_m_s) {
                        track.storm_days += days;
                    }
                    nearest(
                        &tip,
                        candidates,
                        &free,
                        self.thresholds.max_speed_km_per_day * days,
                    )
                })
                .flatten();
            match next {
                Some(k) => {
                    free[k] = false;
                    track.points.push((index, candidates[k]));
                    self.active.push(track);
                }
                None => self.close(track),
            }
        }
        self.begin(index, candidates, &free);
    }

    fn begin(&mut self, index: usize, candidates: &[CycloneCandidate], free: &[bool]) {
        for (&candidate, _) in candidates.iter().zip(free).filter(|(_, free)| **free) {
            self.active.push(Trajectory {
                order: self.begun,
                storm_days: 0.0,
                points: vec![(index, candidate)],
            });
            self.begun += 1;
        }
    }

    fn close(&mut self, track: Trajectory) {
        // Sixteen steps of an eighth are two, but ten of a tenth need not be one.
        if track.points.len() > 1 && track.storm_days >= self.thresholds.min_storm_days - 1e-9 {
            self.settled.stands(track.order, track.points);
        }
    }
}

fn nearest(
    tip: &CycloneCandidate,
    candidates: &[CycloneCandidate],
    free: &[bool],
    reach_km: f64,
) -> Option<usize> {
    let mut best = (reach_km, None);
    for (k, candidate) in candidates.iter().enumerate().filter(|(k, _)| free[*k]) {
        let distance = distance_km(
            tip.lat_deg,
            tip.lon_deg,
            candidate.lat_deg,
            candidate.lon_deg,
        );
        if distance <= best.0 {
            best = (distance, Some(k));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    pub(crate) fn candidate(lat_deg: f64, lon_deg: f64) -> CycloneCandidate {
        CycloneCandidate {
            lat_deg,
            lon_deg,
            min_psl_pa: 98_000.0,
            vorticity_per_s: 3e-4,
            max_wind_m_s: 30.0,
            warm_core: true,
            thick_core: true,
            core_temperature_k: Some(245.0),
            core_thickness_m: Some(12_300.0),
            track_id: None,
        }
    }

    fn time(hours: i64) -> Time {
        Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0)
            .unwrap()
            .add_seconds(hours * 3600)
    }

    /// Feeds `(hours, candidates)`.
    fn track(times: &[(i64, Vec<CycloneCandidate>)]) -> AcceptedCyclones {
        let mut tracks = Trajectories::new(&TcThresholds::default());
        for (index, (hours, candidates)) in times.iter().enumerate() {
            tracks
                .push(index, time(*hours), candidates.clone())
                .unwrap();
        }
        tracks.finish()
    }

    fn steps(
        count: i64,
        at: impl Fn(i64) -> Vec<CycloneCandidate>,
    ) -> Vec<(i64, Vec<CycloneCandidate>)> {
        (0..count).map(|k| (3 * k, at(k))).collect()
    }

    #[test]
    fn a_storm_of_two_days_stands_and_a_shorter_one_does_not() {
        // Sixteen steps of three hours from its first point to the time at which it is missed: two days.
        let seen = |n: i64| {
            track(&steps(24, |k| {
                if k < n {
                    vec![candidate(15.0, 359.0 + 0.2 * k as f64)]
                } else {
                    vec![]
                }
            }))
        };
        let full = seen(16);
        assert_eq!((full.tracks, full.points(), full.untracked), (1, 16, false));
        assert!((0..16).all(|k| full.at(k)[0].track_id == Some(1)));
        assert_eq!(seen(15).points(), 0);
    }

    #[test]
    fn storm_time_need_not_be_in_one_piece_but_gaps_end_a_track() {
        let weak = CycloneCandidate {
            warm_core: false,
            ..candidate(15.0, 300.0)
        };
        let on_and_off = |k: i64| {
            vec![if k % 2 == 0 {
                candidate(15.0, 300.0)
            } else {
                weak
            }]
        };
        assert_eq!(track(&steps(32, on_and_off)).points(), 32);
        assert_eq!(track(&steps(30, on_and_off)).points(), 0);
        let gap = |k: i64| {
            if k == 12 {
                vec![]
            } else {
                vec![candidate(15.0, 300.0)]
            }
        };
        assert_eq!(track(&steps(24, gap)).points(), 0);
        for lacking in [
            CycloneCandidate {
                max_wind_m_s: 16.9,
                ..weak
            },
            CycloneCandidate {
                thick_core: false,
                ..candidate(15.0, 300.0)
            },
        ] {
            assert_eq!(track(&steps(40, |_| vec![lacking])).points(), 0);
        }
    }

    #[test]
    fn speed_is_limited_and_the_nearest_is_taken() {
        // 1600 km/day is 200 km in three hours: 1.7 degrees of latitude are, 1.9 are not within reach.
        let run = |step: f64| {
            track(&steps(20, |k| {
                vec![candidate(-30.0 + step * k as f64, 100.0)]
            }))
            .tracks
        };
        assert_eq!((run(1.7), run(1.9)), (1, 0));
        let two = track(&steps(20, |k| {
            let k = k as f64 * 0.3;
            vec![candidate(10.0 + k, 200.0), candidate(11.2 + k, 200.0)]
        }));
        assert_eq!(two.tracks, 2);
        for k in 0..20 {
            let at = two.at(k);
            assert_eq!((at[0].track_id, at[1].track_id), (Some(1), Some(2)));
            assert!(at[0].lat_deg < at[1].lat_deg);
        }
    }

    #[test]
    fn a_hole_in_the_data_is_not_bridged() {
        let mut times = steps(32, |_| vec![candidate(15.0, 300.0)]);
        times[16..]
            .iter_mut()
            .for_each(|(hours, _)| *hours += 30 * 24);
        // Fifteen steps count before the hole and fifteen after it: neither is two days.
        assert_eq!(track(&times).points(), 0);
    }

    #[test]
    fn short_input_lets_storms_stand_untracked() {
        let weak = CycloneCandidate {
            max_wind_m_s: 10.0,
            ..candidate(10.0, 20.0)
        };
        let accepted = track(&[(0, vec![candidate(15.0, 300.0), weak])]);
        assert!(accepted.untracked);
        assert_eq!(accepted.at(0), [candidate(15.0, 300.0)]);
        assert!(accepted.at(1).is_empty());
        assert_eq!(
            track(&steps(16, |_| vec![candidate(15.0, 300.0)])).points(),
            16
        );
        assert_eq!((track(&[]).points(), track(&[]).untracked), (0, false));
    }

    #[test]
    fn times_must_ascend() {
        let mut tracks = Trajectories::new(&TcThresholds::default());
        tracks.push(0, time(6), vec![]).unwrap();
        let error = tracks.push(1, time(6), vec![]).unwrap_err().to_string();
        assert!(error.contains("does not come after time 0"), "{error}");
    }
}
