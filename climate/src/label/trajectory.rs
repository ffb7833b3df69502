//! Joins candidates to tracks of tropical cyclones.

use super::candidates::CycloneCandidate;
use super::settled::Point;
use super::thresholds::TcThresholds;
use super::tracks::{Next, Rules, Track, Tracks};
use squall_data::Time;
use squall_data::grid::distance_km;

const SECONDS_PER_DAY: f64 = 86_400.0;

/// Tracks of tropical cyclones.
pub(crate) type Trajectories = Tracks<TcThresholds, CycloneCandidate>;

impl Point for CycloneCandidate {
    fn on_track(self, id: u64) -> Self {
        Self {
            track_id: Some(id),
            ..self
        }
    }
}

/// TECA's rule, for thresholds as they are (see [`TcThresholds::adapted_to`]). Each track, oldest first, takes the
/// nearest candidate of the next time that it can reach at the maximum speed, and ends if there is none (no gaps). A
/// track is accepted if it has more than one point and spent enough time as a storm (wind, warm core and thickness) in
/// total, not necessarily without interruption; each point counts for the time to the next one. TECA follows one
/// candidate to its end before the next one starts, which assigns candidates in the same way. Distances here are great
/// circles and cross the seam; `teca_tc_trajectory` measures plain degrees and ends tracks at the seam.
impl Rules<CycloneCandidate> for TcThresholds {
    fn too_short(&self, first: Time, last: Time) -> bool {
        (last.seconds_since(first) as f64) < self.min_storm_days * SECONDS_PER_DAY
    }

    fn is_accepted_untracked(&self, candidate: &CycloneCandidate) -> bool {
        candidate.is_storm(self.min_wind_m_s)
    }

    fn next(
        &self,
        track: &mut Track<CycloneCandidate>,
        time: Time,
        candidates: &[CycloneCandidate],
        free: &[bool],
    ) -> Next {
        let days = time.seconds_since(track.last) as f64 / SECONDS_PER_DAY;
        if days * 24.0 > self.max_step_hours + 1e-9 {
            return Next::End;
        }
        let Some(&(_, tip)) = track.points.last() else {
            return Next::End;
        };
        if tip.is_storm(self.min_wind_m_s) {
            track.storm_days += days;
        }
        nearest(&tip, candidates, free, self.max_speed_km_per_day * days)
            .map_or(Next::End, Next::Point)
    }

    fn is_accepted(&self, track: &Track<CycloneCandidate>) -> bool {
        // Tolerance: sixteen steps of 1/8 day add up to exactly 2, but ten of 1/10 day need not add up to 1.
        track.points.len() > 1 && track.storm_days >= self.min_storm_days - 1e-9
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
    use super::super::settled::Accepted;
    use super::*;
    use squall_data::Calendar;

    fn candidate(lat_deg: f64, lon_deg: f64) -> CycloneCandidate {
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

    /// Tracks `(hours, candidates)`.
    fn track(times: &[(i64, Vec<CycloneCandidate>)]) -> Accepted<CycloneCandidate> {
        let mut tracks = Trajectories::new(TcThresholds::default(), 1);
        for (index, (hours, candidates)) in times.iter().enumerate() {
            tracks.push(index, time(*hours), candidates).unwrap();
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
        // Sixteen steps of three hours from its first point to its first absence: two days.
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
        // 1600 km/day is 200 km in three hours: 1.7 degrees of latitude are within reach, 1.9 are not.
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
        // Fifteen steps count before the hole and fifteen after it: neither part lasts two days.
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
        let mut tracks = Trajectories::new(TcThresholds::default(), 1);
        tracks.push(0, time(6), &[]).unwrap();
        let error = tracks.push(1, time(6), &[]).unwrap_err().to_string();
        assert!(error.contains("does not come after time 0"), "{error}");
    }
}
