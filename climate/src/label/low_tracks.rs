//! Joins lows to tracks of extratropical cyclones and tropical depressions.

use super::low_thresholds::EtcThresholds;
use super::lows::LowCandidate;
use super::never_joined;
use super::settled::Point;
use super::tracks::{Next, Rules, Track, Tracks};
use serde::{Deserialize, Serialize};
use squall_data::Time;
use squall_data::grid::{KM_PER_DEGREE, distance_km};

/// Tracks of one class of lows.
pub(crate) type LowTracks = Tracks<LowRules, LowCandidate>;

/// The limits for joining points to a track and for accepting a track.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct LowRules {
    /// Maximum distance between consecutive points, degrees; grows in proportion if they are more than six hours apart.
    pub max_range_deg: f64,
    /// Maximum time between consecutive points, hours; at least one step of the data.
    pub max_gap_hours: f64,
    /// Minimum lifetime, hours.
    pub min_hours: f64,
    /// Minimum distance between the ends, degrees.
    pub min_endpoint_deg: f64,
}

/// Time step in hours that the published range refers to.
pub(super) const RANGE_HOURS: f64 = 6.0;

/// Maximum time step of the data, hours, that tracks of lows bridge even if their gap is shorter; the same as
/// [`crate::track::TrackerOptions::max_step_hours`].
const MAX_STEP_HOURS: f64 = 24.0;

/// The longest gap that tracks of lows bridge: `gap_hours`, or one step of the data if it is known and longer.
pub(super) fn gap_hours(gap_hours: f64, step_hours: Option<f64>) -> f64 {
    step_hours
        .filter(|step| *step <= MAX_STEP_HOURS + 1e-9)
        .map_or(gap_hours, |step| gap_hours.max(step))
}

impl LowRules {
    /// The rules for extratropical cyclones; `step_hours` is the time step of the data, if known.
    pub(crate) fn extratropical(low: &EtcThresholds, step_hours: Option<f64>) -> Self {
        Self {
            max_range_deg: low.max_range_deg,
            max_gap_hours: gap_hours(low.max_gap_hours, step_hours),
            min_hours: low.min_hours,
            min_endpoint_deg: low.min_endpoint_deg,
        }
    }

    /// Whether these times are too far apart to join any track, and the series so long that no low is accepted without
    /// one.
    pub(crate) fn never_join(&self, times: &[Time]) -> bool {
        never_joined(times, self.max_gap_hours.max(RANGE_HOURS), self.min_hours)
    }
}

impl Point for LowCandidate {
    fn on_track(self, id: u64) -> Self {
        Self {
            track_id: Some(id),
            ..self
        }
    }
}

/// Each track takes the nearest low within its range, and ends once it has found none for longer than the gap. If the
/// series is shorter than the minimum lifetime, all lows are accepted without a track.
///
/// # Source
/// TempestExtremes `StitchNodes` (Ullrich and Zarzycki 2017, GMD 10, 1069), whose published range assumes six-hourly
/// input. `StitchNodes` uses the same range for any time step. Here the range grows in proportion to the time between
/// two points beyond six hours, so that 12-hourly input, and a track with one missing point, are followed equally far.
impl Rules<LowCandidate> for LowRules {
    fn too_short(&self, first: Time, last: Time) -> bool {
        last.hours_since(first) < self.min_hours
    }

    fn is_accepted_untracked(&self, _: &LowCandidate) -> bool {
        true
    }

    fn next(
        &self,
        track: &mut Track<LowCandidate>,
        time: Time,
        lows: &[LowCandidate],
        free: &[bool],
    ) -> Next {
        let elapsed = time.hours_since(track.last);
        if elapsed > self.max_gap_hours.max(RANGE_HOURS) + 1e-9 {
            return Next::End;
        }
        let reach_km = self.max_range_deg * KM_PER_DEGREE * (elapsed / RANGE_HOURS).max(1.0);
        nearest(track, lows, free, reach_km).map_or(Next::Gap, Next::Point)
    }

    fn is_accepted(&self, track: &Track<LowCandidate>) -> bool {
        let (Some((_, start)), Some((_, end))) = (track.points.first(), track.points.last()) else {
            return false;
        };
        let moved_km = distance_km(start.lat_deg, start.lon_deg, end.lat_deg, end.lon_deg);
        track.last.hours_since(track.first) >= self.min_hours - 1e-9
            && moved_km >= self.min_endpoint_deg * KM_PER_DEGREE
    }
}

fn nearest(
    track: &Track<LowCandidate>,
    lows: &[LowCandidate],
    free: &[bool],
    reach_km: f64,
) -> Option<usize> {
    let (_, tip) = track.points.last()?;
    let distance = |k: usize| tip.distance_km(lows[k].lat_deg, lows[k].lon_deg);
    (0..lows.len())
        .filter(|&k| free[k])
        .map(|k| (k, distance(k)))
        .filter(|(_, distance)| *distance <= reach_km)
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(k, _)| k)
}

#[cfg(test)]
mod tests {
    use super::super::settled::Accepted;
    use super::*;
    use squall_data::{BoxClass, Calendar};

    const RULES: LowRules = LowRules {
        max_range_deg: 6.0,
        max_gap_hours: 18.0,
        min_hours: 60.0,
        min_endpoint_deg: 12.0,
    };

    fn low(lat_deg: f64, lon_deg: f64) -> LowCandidate {
        LowCandidate {
            class: BoxClass::ExtratropicalCyclone,
            lat_deg,
            lon_deg,
            min_psl_pa: 98_000.0,
            wind_m_s: None,
            track_id: None,
        }
    }

    /// Six-hourly times.
    fn track(count: usize, lows: impl Fn(usize) -> Vec<LowCandidate>) -> Accepted<LowCandidate> {
        track_every(6, RULES, count, lows)
    }

    fn track_every(
        hours: i64,
        rules: LowRules,
        count: usize,
        lows: impl Fn(usize) -> Vec<LowCandidate>,
    ) -> Accepted<LowCandidate> {
        let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        let mut tracks = LowTracks::new(rules, 7);
        for index in 0..count {
            let time = start.add_seconds(index as i64 * hours * 3600);
            tracks.push(index, time, &lows(index)).unwrap();
        }
        tracks.finish()
    }

    #[test]
    fn a_track_must_last_and_move() {
        let moving = |index: usize| vec![low(50.0, (350.0 + 4.0 * index as f64) % 360.0)];
        let found = track(11, moving);
        assert_eq!((found.tracks, found.at(10)[0].track_id), (1, Some(7)));
        // One step shorter: the series is long enough, but not the lifetime.
        let short = track(14, |k| if k < 10 { moving(k) } else { vec![] });
        assert_eq!(short.tracks, 0);
        let still = track(20, |_| vec![low(50.0, 100.0)]);
        assert_eq!(still.tracks, 0);
        let slow = track(20, |k| vec![low(50.0, 100.0 + k as f64)]);
        assert_eq!(slow.tracks, 1);
    }

    #[test]
    fn gaps_are_bridged_up_to_their_length_and_jumps_are_not() {
        let gap = |missing: std::ops::Range<usize>| {
            track(23, |k| {
                if missing.contains(&k) {
                    vec![]
                } else {
                    vec![low(50.0, 100.0 + 4.0 * k as f64)]
                }
            })
        };
        assert_eq!(gap(10..12).tracks, 1);
        assert_eq!(gap(10..12).at(12)[0].track_id, Some(7));
        assert_eq!(gap(10..13).tracks, 0, "neither part lasts sixty hours");
        let jump = track(30, |k| {
            vec![low(if k < 15 { 40.0 } else { 50.0 }, 4.0 * k as f64)]
        });
        assert_eq!(jump.tracks, 2);
    }

    #[test]
    fn each_track_takes_the_nearest_low_whatever_the_order_of_lows() {
        let found = track(12, |k| {
            let lon = 100.0 + 4.0 * k as f64;
            let mut lows = vec![low(50.0, lon), low(53.0, lon)];
            // Both are within reach of both.
            lows.rotate_left(k % 2);
            lows
        });
        assert_eq!(found.tracks, 2);
        for k in 0..12 {
            let of = |low: &LowCandidate| (low.track_id, low.lat_deg);
            let at: Vec<_> = found.at(k).iter().map(of).collect();
            assert_eq!(at, [(Some(7), 50.0), (Some(8), 53.0)], "{k}");
        }
    }

    /// Twelve hours after its last point, the older track has a reach of twelve degrees; the younger track's low is
    /// eleven degrees away.
    #[test]
    fn a_track_that_was_missed_does_not_take_the_low_of_one_that_was_not() {
        let found = track(25, |k| {
            let lon = 100.0 + 4.0 * k as f64;
            let older = (k <= 12).then(|| low(40.0, lon));
            let younger = (k >= 2).then(|| low(49.0, lon));
            older.into_iter().chain(younger).collect()
        });
        assert_eq!(found.tracks, 2);
        for k in 0..25 {
            let ids: Vec<_> = found.at(k).iter().map(|low| low.track_id).collect();
            let expected = (7..=8).filter(|&id| id == 7 && k <= 12 || id == 8 && k >= 2);
            assert!(ids.into_iter().eq(expected.map(Some)), "{k}");
        }
    }

    /// The labeller, which knows the step, sets the gap; the reach follows from the time between two points.
    #[test]
    fn one_step_of_daily_data_is_bridged_and_two_are_not() {
        let rules = LowRules {
            max_gap_hours: 24.0,
            ..RULES
        };
        let daily = |rules: LowRules, missing: Option<usize>| {
            let lows = |k: usize| {
                if Some(k) == missing {
                    vec![]
                } else {
                    vec![low(50.0, 100.0 + 12.0 * k as f64)]
                }
            };
            track_every(24, rules, 8, lows).tracks
        };
        assert_eq!(daily(RULES, None), 0, "shorter than a step");
        assert_eq!(daily(rules, None), 1);
        assert_eq!(daily(rules, Some(0)), 1);
        assert_eq!(
            daily(rules, Some(4)),
            1,
            "four days before it, three after it"
        );
    }

    #[test]
    fn a_short_series_lets_all_stand() {
        let found = track(3, |_| vec![low(50.0, 100.0)]);
        assert_eq!((found.tracks, found.at(2)), (0, &[low(50.0, 100.0)][..]));
    }
}
