//! Between the passes: lows joined to tracks, as they come in.

use super::lows::LowCandidate;
use super::settled::{Point, Settled};
use serde::{Deserialize, Serialize};
use squall_data::Time;
use squall_data::grid::{KM_PER_DEGREE, distance_km};

/// What makes points a track, and a track one that stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct LowRules {
    /// Largest distance from one point to the next, degrees; in proportion where they are more than six hours apart.
    pub max_range_deg: f64,
    /// Longest time between two points, hours; no shorter than a step of the data.
    pub max_gap_hours: f64,
    /// Shortest life, hours.
    pub min_hours: f64,
    /// Least distance between the ends, degrees.
    pub min_endpoint_deg: f64,
}

/// Hours between two times for which the range is meant.
pub(super) const RANGE_HOURS: f64 = 6.0;

/// Joins lows to tracks, time by time.
///
/// Each track, those without a gap and then the oldest first, takes the nearest low within its range; what no track
/// takes begins one. A track that took none for longer than the gap ends. Where the series is shorter than the shortest
/// life, all lows stand, without a track.
///
/// # Source
/// TempestExtremes `StitchNodes` (Ullrich and Zarzycki 2017, GMD 10, 1069), whose published range is meant for input
/// every six hours. `StitchNodes` takes the same range whatever the time between two points is; here it grows in
/// proportion to that time beyond six hours, so that input every twelve hours, and a track that was missed once, are
/// followed as far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LowTracks {
    rules: LowRules,
    first: Option<Time>,
    last: Option<Time>,
    last_index: usize,
    active: Vec<LowTrack>,
    settled: Settled<LowCandidate>,
    begun: usize,
    /// All lows of the first hours, in case the input ends before a track can stand.
    early: Vec<(usize, LowCandidate)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LowTrack {
    order: usize,
    first: Time,
    last: Time,
    points: Vec<(usize, LowCandidate)>,
}

impl Point for LowCandidate {
    fn on_track(self, id: u64) -> Self {
        Self {
            track_id: Some(id),
            ..self
        }
    }
}

impl LowTracks {
    /// None yet; those that stand are numbered from `first_id`.
    pub(super) fn new(rules: LowRules, first_id: u64) -> Self {
        Self {
            rules,
            first: None,
            last: None,
            last_index: 0,
            active: Vec::new(),
            settled: Settled::new(first_id),
            begun: 0,
            early: Vec::new(),
        }
    }

    /// Takes the lows of the next time, which must be later than the one before.
    pub(super) fn push(&mut self, index: usize, time: Time, lows: &[LowCandidate]) {
        self.first.get_or_insert(time);
        self.last = Some(time);
        self.last_index = index;
        let mut free = vec![true; lows.len()];
        // Who was there a moment ago comes before who has been missed, and then reaches far.
        (self.active).sort_by_key(|track| {
            (
                std::cmp::Reverse(track.points.last().map(|p| p.0)),
                track.order,
            )
        });
        for mut track in std::mem::take(&mut self.active) {
            let elapsed = time.hours_since(track.last);
            let next = (elapsed <= self.rules.max_gap_hours.max(RANGE_HOURS) + 1e-9)
                .then(|| nearest(&track, lows, &free, self.reach_km(elapsed)));
            match next {
                None => self.close(track),
                // Nothing within its reach: the gap goes on.
                Some(None) => self.active.push(track),
                Some(Some(k)) => {
                    free[k] = false;
                    track.points.push((index, lows[k]));
                    track.last = time;
                    self.active.push(track);
                }
            }
        }
        for (&low, _) in lows.iter().zip(&free).filter(|(_, free)| **free) {
            self.active.push(LowTrack {
                order: self.begun,
                first: time,
                last: time,
                points: vec![(index, low)],
            });
            self.begun += 1;
        }
        if self.too_short() {
            self.early.extend(lows.iter().map(|&low| (index, low)));
        } else {
            self.early = Vec::new();
        }
        self.settle();
    }

    fn settle(&mut self) {
        let open = self.active.iter().map(|track| track.order).min();
        self.settled.decided_before(open.unwrap_or(self.begun));
    }

    /// The index of the first time of which nothing is decided.
    pub(super) fn undecided(&self) -> usize {
        let first = |track: &LowTrack| track.points.first().map(|(index, _)| *index);
        match self.last {
            None => 0,
            _ if self.too_short() => 0,
            _ => (self.active.iter().filter_map(first).min()).unwrap_or(self.last_index + 1),
        }
    }

    /// The lows at a time of which it is decided.
    pub(super) fn at(&self, index: usize) -> &[LowCandidate] {
        self.settled.at(index)
    }

    /// Lets go of the lows at times before this one.
    pub(super) fn forget_before(&mut self, index: usize) {
        self.settled.forget_before(index);
    }

    /// No time follows: everything is decided.
    pub(super) fn end(&mut self) {
        if self.too_short() {
            self.active.clear();
            for (index, low) in std::mem::take(&mut self.early) {
                self.settled.add(index, low);
            }
            return;
        }
        for track in std::mem::take(&mut self.active) {
            self.close(track);
        }
        self.settle();
    }

    fn too_short(&self) -> bool {
        self.first
            .zip(self.last)
            .is_none_or(|(first, last)| last.hours_since(first) < self.rules.min_hours)
    }

    /// How far a low may be from the last point of its track: the range, in proportion to the elapsed time beyond six
    /// hours, which `StitchNodes` does not do.
    fn reach_km(&self, elapsed_hours: f64) -> f64 {
        self.rules.max_range_deg * KM_PER_DEGREE * (elapsed_hours / RANGE_HOURS).max(1.0)
    }

    fn close(&mut self, track: LowTrack) {
        let (Some((_, start)), Some((_, end))) = (track.points.first(), track.points.last()) else {
            return;
        };
        let moved_km = distance_km(start.lat_deg, start.lon_deg, end.lat_deg, end.lon_deg);
        let stands = track.last.hours_since(track.first) >= self.rules.min_hours - 1e-9
            && moved_km >= self.rules.min_endpoint_deg * KM_PER_DEGREE;
        if stands {
            self.settled.stands(track.order, track.points);
        }
    }
}

fn nearest(track: &LowTrack, lows: &[LowCandidate], free: &[bool], reach_km: f64) -> Option<usize> {
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
    fn track(count: usize, lows: impl Fn(usize) -> Vec<LowCandidate>) -> LowTracks {
        track_every(6, RULES, count, lows)
    }

    fn track_every(
        hours: i64,
        rules: LowRules,
        count: usize,
        lows: impl Fn(usize) -> Vec<LowCandidate>,
    ) -> LowTracks {
        let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        let mut tracks = LowTracks::new(rules, 7);
        for index in 0..count {
            let time = start.add_seconds(index as i64 * hours * 3600);
            tracks.push(index, time, &lows(index));
        }
        tracks.end();
        tracks
    }

    #[test]
    fn a_track_must_last_and_move() {
        let moving = |index: usize| vec![low(50.0, (350.0 + 4.0 * index as f64) % 360.0)];
        let found = track(11, moving);
        assert_eq!(
            (found.settled.tracks(), found.at(10)[0].track_id),
            (1, Some(7))
        );
        // Shorter by one step: a series that is long enough, a life that is not.
        let short = track(14, |k| if k < 10 { moving(k) } else { vec![] });
        assert_eq!(short.settled.tracks(), 0);
        let still = track(20, |_| vec![low(50.0, 100.0)]);
        assert_eq!(still.settled.tracks(), 0);
        let slow = track(20, |k| vec![low(50.0, 100.0 + k as f64)]);
        assert_eq!(slow.settled.tracks(), 1);
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
        assert_eq!(gap(10..12).settled.tracks(), 1);
        assert_eq!(gap(10..12).at(12)[0].track_id, Some(7));
        assert_eq!(
            gap(10..13).settled.tracks(),
            0,
            "neither part lasts sixty hours"
        );
        let jump = track(30, |k| {
            vec![low(if k < 15 { 40.0 } else { 50.0 }, 4.0 * k as f64)]
        });
        assert_eq!(jump.settled.tracks(), 2);
    }

    /// The gap is given by the labeller, which knows the step; the reach follows from the time between two points.
    #[test]
    fn one_step_of_daily_data_is_bridged_and_two_are_not() {
        let rules = LowRules {
            max_gap_hours: 24.0,
            ..RULES
        };
        let daily = |rules: LowRules, missing: Option<usize>| {
            let lows = |k: usize| match Some(k) == missing {
                true => vec![],
                false => vec![low(50.0, 100.0 + 12.0 * k as f64)],
            };
            track_every(24, rules, 8, lows).settled.tracks()
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
        assert_eq!(
            (found.settled.tracks(), found.at(2)),
            (0, &[low(50.0, 100.0)][..])
        );
    }
}
