//! Joins nodes of successive times to tracks, with gaps: `StitchNodes`.

use super::nodes::Node;
use super::thresholds::StitchThresholds;
use crate::error::{ClimateError, Result};
use crate::label::settled::{Accepted, Point, Settled};
use crate::stream::half_of_both;
use serde::{Deserialize, Serialize};
use squall_data::Time;
use squall_data::grid::{EARTH_RADIUS_KM, distance_km};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Joins nodes to tracks, time by time.
///
/// Each node links to the nearest node of the first later time, within the maximum gap, at which the nearest node is
/// within range. If several tracks link to one node, the one that began first (the southernmost of equals) continues;
/// the others end with that node. A track is accepted if it lasts long enough and enough of its nodes meet the
/// thresholds of wind, latitude and ground height.
///
/// Memory holds the times within the maximum gap, the active tracks, and the points of accepted tracks.
///
/// # Source
/// TempestExtremes `GeneratePathSegmentsSetBasic` and `GeneratePathsBasic` (`src/nodes/StitchNodes.cpp`), which hold
/// the whole series in memory. There, thresholds count nodes regardless of the time step; see
/// [`StitchThresholds::published_step_hours`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stitcher {
    thresholds: StitchThresholds,
    recent: VecDeque<Slice>,
    open: BTreeMap<usize, Vec<TrackNode>>,
    settled: Settled<Node>,
    begun: usize,
    span: Option<(Time, Time)>,
    last_index: usize,
    /// Hours between the last two times.
    step_hours: Option<f64>,
    /// Storms of the first days, in case the input ends before a track can be accepted.
    early: Vec<(usize, Node)>,
}

/// A node of an active track.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TrackNode {
    index: usize,
    time: Time,
    /// Hours to the previous and the next time of the series; `None` at the ends.
    steps_hours: [Option<f64>; 2],
    node: Node,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Slice {
    time: Time,
    /// Each node with the track that it ends; `None` once linked.
    tips: Vec<(Node, Option<usize>)>,
}

impl Point for Node {
    fn on_track(self, id: u64) -> Self {
        Self {
            track_id: Some(id),
            ..self
        }
    }
}

impl Stitcher {
    /// An empty set of tracks.
    pub fn new(thresholds: &StitchThresholds) -> Self {
        Self {
            thresholds: thresholds.clone(),
            recent: VecDeque::new(),
            open: BTreeMap::new(),
            settled: Settled::new(1),
            begun: 0,
            span: None,
            last_index: 0,
            step_hours: None,
            early: Vec::new(),
        }
    }

    /// Adds the nodes of the next time; [`Accepted::at`] returns them by `index`.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if the time or the index is not later than the one before.
    pub fn push(&mut self, index: usize, time: Time, nodes: Vec<Node>) -> Result<()> {
        let first = match self.span {
            Some((_, last)) if time.seconds_since(last) <= 0 || index <= self.last_index => {
                return Err(ClimateError::Invalid(format!(
                    "tempest tracks: time {index} ({time}) does not come after time {} ({last})",
                    self.last_index
                )));
            }
            Some((first, last)) => {
                self.step_hours = Some(time.hours_since(last));
                first
            }
            None => time,
        };
        let tips = self.open.values_mut().filter_map(|track| track.last_mut());
        for tip in tips.filter(|tip| tip.index == self.last_index) {
            tip.steps_hours[1] = self.step_hours;
        }
        self.span = Some((first, time));
        self.last_index = index;
        self.forget(time);
        let arrivals = self.link(&nodes);
        let mut tips = Vec::with_capacity(nodes.len());
        for (node, mut tracks) in nodes.into_iter().zip(arrivals) {
            tracks.sort_unstable();
            let owner = tracks.first().copied().unwrap_or_else(|| {
                self.begun += 1;
                self.begun - 1
            });
            for &track in tracks
                .is_empty()
                .then_some(&owner)
                .into_iter()
                .chain(&tracks)
            {
                self.open.entry(track).or_default().push(TrackNode {
                    index,
                    time,
                    steps_hours: [self.step_hours, None],
                    node,
                });
            }
            for track in tracks.into_iter().skip(1) {
                self.close(track);
            }
            tips.push((node, Some(owner)));
        }
        if self.too_short() {
            let storms = tips.iter().map(|(node, _)| *node);
            let storms = storms.filter(|node| passes(node, &self.thresholds).iter().all(|p| *p));
            self.early.extend(storms.map(|node| (index, node)));
        } else {
            self.early = Vec::new();
        }
        self.recent.push_back(Slice { time, tips });
        Ok(())
    }

    /// The accepted cyclones. Tracks are numbered from 1 in the order in which they began, then from south to north.
    pub fn finish(mut self) -> Accepted<Node> {
        let untracked = self.span.is_some() && self.too_short();
        if untracked {
            for (index, node) in self.early {
                self.settled.add(index, node);
            }
        } else {
            let open: Vec<usize> = self.open.keys().copied().collect();
            open.into_iter().for_each(|track| self.close(track));
            self.settled.decided_before(self.begun);
        }
        let mut accepted = self.settled.accepted(untracked);
        // A node shared by two tracks is one cyclone; it belongs to the older track.
        for nodes in accepted.by_index.values_mut() {
            let mut cells = HashSet::new();
            nodes.retain(|node| cells.insert(node.cell));
        }
        accepted
    }

    /// Whether the series is still too short for any track.
    fn too_short(&self) -> bool {
        self.span.is_none_or(|(first, last)| {
            last.hours_since(first) < self.thresholds.min_duration_hours
        })
    }

    /// Ends the tracks whose last node is too old.
    fn forget(&mut self, now: Time) {
        while let Some(slice) = self.recent.front() {
            if now.hours_since(slice.time) <= self.thresholds.max_gap_hours + 1e-9 {
                break;
            }
            let ended: Vec<usize> = slice.tips.iter().filter_map(|(_, track)| *track).collect();
            ended.into_iter().for_each(|track| self.close(track));
            self.recent.pop_front();
        }
    }

    /// The tracks that link to each node.
    fn link(&mut self, nodes: &[Node]) -> Vec<Vec<usize>> {
        let mut arrivals = vec![Vec::new(); nodes.len()];
        for (tip, track) in self.recent.iter_mut().flat_map(|slice| &mut slice.tips) {
            if track.is_none() {
                continue;
            }
            let far = |node: &Node| {
                let km = distance_km(tip.lat_deg, tip.lon_deg, node.lat_deg, node.lon_deg);
                (km / EARTH_RADIUS_KM).to_degrees()
            };
            let nearest = nodes
                .iter()
                .map(far)
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((k, distance)) = nearest
                && distance <= self.thresholds.max_range_deg
            {
                arrivals[k].extend(track.take());
            }
        }
        arrivals
    }

    fn close(&mut self, track: usize) {
        let Some(points) = self.open.remove(&track) else {
            return;
        };
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return;
        };
        let t = &self.thresholds;
        let needed_hours = t.threshold_points as f64 * t.published_step_hours;
        let mut passed_hours = [0.0; 3];
        for point in &points {
            // A step longer than the maximum gap is a hole in the series.
            let stands_for = half_of_both(point.steps_hours, t.max_gap_hours);
            let stands_for = stands_for.unwrap_or(t.published_step_hours);
            for (sum, passed) in passed_hours.iter_mut().zip(passes(&point.node, t)) {
                *sum += if passed { stands_for } else { 0.0 };
            }
        }
        let lasts = last.time.hours_since(first.time) >= t.min_duration_hours - 1e-9;
        let mut sums = passed_hours.iter();
        if points.len() > 1 && lasts && sums.all(|sum| *sum >= needed_hours - 1e-6) {
            let kept = points.into_iter().map(|point| (point.index, point.node));
            self.settled.accept(track, kept.collect());
        }
    }
}

/// Whether a node meets the thresholds of wind, latitude and ground height.
fn passes(node: &Node, t: &StitchThresholds) -> [bool; 3] {
    [
        node.max_wind_m_s >= t.min_wind_m_s,
        node.lat_deg.abs() <= t.max_abs_latitude_deg,
        node.surface_height_m
            .is_none_or(|height| height <= t.max_surface_height_m),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::Calendar;

    fn node(lat_deg: f64, lon_deg: f64) -> Node {
        Node {
            cell: ((lat_deg * 10.0) as usize, (lon_deg * 10.0) as usize),
            lat_deg,
            lon_deg,
            min_psl_pa: 98_000.0,
            max_wind_m_s: 20.0,
            surface_height_m: Some(0.0),
            track_id: None,
        }
    }

    fn stitch(step_hours: i64, count: i64, at: impl Fn(i64) -> Vec<Node>) -> Accepted<Node> {
        let start = Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap();
        let mut stitcher = Stitcher::new(&StitchThresholds::default());
        for k in 0..count {
            let time = start.add_seconds(k * step_hours * 3600);
            stitcher.push(k as usize, time, at(k)).unwrap();
        }
        stitcher.finish()
    }

    #[test]
    fn fifty_four_hours_and_ten_nodes_are_needed() {
        let seen = |n: i64| {
            stitch(6, 30, |k| {
                if k < n {
                    vec![node(15.0, 10.0)]
                } else {
                    vec![]
                }
            })
        };
        assert_eq!((seen(10).tracks, seen(10).points()), (1, 10));
        assert_eq!(seen(9).points(), 0);
        // Three-hourly: 54 hours are nineteen nodes; ten six-hourly nodes correspond to twenty.
        let seen = |n: i64| {
            stitch(3, 40, |k| {
                if k < n {
                    vec![node(15.0, 10.0)]
                } else {
                    vec![]
                }
            })
        };
        assert_eq!((seen(20).tracks, seen(19).tracks), (1, 0));
    }

    #[test]
    fn a_node_counts_by_the_time_it_stands_for() {
        // Six-hourly times, with additional ones at these hours; the storm ends at the last hour.
        let tracks = |more: &[i64], last_hour: i64| {
            let mut hours: Vec<i64> = (0..30).map(|k| 6 * k).chain(more.to_vec()).collect();
            hours.sort_unstable();
            let start = Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap();
            let mut stitcher = Stitcher::new(&StitchThresholds::default());
            for (index, hour) in hours.into_iter().enumerate() {
                let nodes = if hour <= last_hour {
                    vec![node(15.0, 10.0)]
                } else {
                    vec![]
                };
                let time = start.add_seconds(3600 * hour);
                stitcher.push(index, time, nodes).unwrap();
            }
            stitcher.finish().tracks
        };
        assert_eq!((tracks(&[], 54), tracks(&[], 48)), (1, 0));
        // One additional time makes no difference, neither before the storm nor during it.
        assert_eq!(
            (tracks(&[103], 54), tracks(&[19], 54), tracks(&[19], 48)),
            (1, 1, 0)
        );
        // Three-hourly in the first two days, or after them.
        let first: Vec<i64> = (0..8).map(|k| 6 * k + 3).collect();
        assert_eq!((tracks(&first, 60), tracks(&first, 54)), (1, 0));
        let then: Vec<i64> = (10..29).map(|k| 6 * k + 3).collect();
        assert_eq!((tracks(&then, 54), tracks(&then, 48)), (1, 0));
    }

    #[test]
    fn steps_of_six_and_twelve_hours_make_no_storm_longer() {
        // A storm until `last_hour`, in a series that repeats these steps.
        let tracks = |steps: &[i64], last_hour: i64| {
            let start = Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap();
            let mut stitcher = Stitcher::new(&StitchThresholds::default());
            let mut hour = 0;
            for index in 0..40 {
                let seen = (hour <= last_hour).then(|| node(15.0, 10.0));
                let time = start.add_seconds(3600 * hour);
                stitcher
                    .push(index, time, seen.into_iter().collect())
                    .unwrap();
                hour += steps[index % steps.len()];
            }
            stitcher.finish().tracks
        };
        // At 0, 6, 18, 24, 36, 42 and 54 hours: six, and six times nine.
        assert_eq!((tracks(&[6, 12], 54), tracks(&[6, 12], 42)), (1, 0));
        // At 0, 12, ... 60 hours, and with six in the middle once: four times twelve, and twice nine.
        assert_eq!((tracks(&[12], 60), tracks(&[12], 48)), (1, 0));
        assert_eq!(tracks(&[12, 12, 6, 12, 12], 54), 1);
    }

    #[test]
    fn gaps_of_a_day_are_bridged_and_longer_ones_are_not() {
        let with_gap = |missing: i64| {
            stitch(6, 40, |k| {
                if (8..8 + missing).contains(&k) {
                    vec![]
                } else {
                    vec![node(15.0, 100.0 + 0.5 * k as f64)]
                }
            })
        };
        // Three missing times make a step of 24 hours.
        let bridged = with_gap(3);
        assert_eq!((bridged.tracks, bridged.points()), (1, 37));
        assert!(bridged.at(9).is_empty() && bridged.at(11)[0].track_id == Some(1));
        let cut = with_gap(4);
        assert_eq!(
            (cut.tracks, cut.points()),
            (1, 28),
            "eight nodes are too few"
        );
    }

    #[test]
    fn range_and_thresholds_decide() {
        let moving =
            |step: f64| stitch(6, 12, |k| vec![node(-20.0 + step * k as f64, 10.0)]).tracks;
        assert_eq!((moving(5.8), moving(8.1)), (1, 0));
        let calm = Node {
            max_wind_m_s: 9.9,
            ..node(15.0, 10.0)
        };
        let mountain = Node {
            surface_height_m: Some(160.0),
            ..node(15.0, 10.0)
        };
        for lacking in [calm, mountain, node(50.5, 10.0)] {
            assert_eq!(stitch(6, 12, |_| vec![lacking]).tracks, 0, "{lacking:?}");
            // Ten good nodes are enough, in any order.
            let mixed = stitch(6, 20, |k| {
                vec![if k % 2 == 0 {
                    lacking
                } else {
                    node(15.0, 10.0)
                }]
            });
            assert_eq!(mixed.tracks, 1);
        }
    }

    #[test]
    fn of_two_tracks_that_meet_the_older_goes_on() {
        // The second begins later and farther north, and comes to the first at the tenth time.
        let joined = stitch(6, 24, |k| {
            let mut nodes = vec![node(12.0, 200.0 + 0.4 * k as f64)];
            if (2..12).contains(&k) {
                nodes.push(node(12.0 + 0.8 * (12 - k) as f64, 200.0 + 0.4 * k as f64));
            }
            nodes
        });
        assert_eq!(joined.tracks, 2);
        assert!((0..24).all(|k| joined.at(k)[0].track_id == Some(1)));
        assert_eq!(joined.at(5).len(), 2);
        assert_eq!(joined.at(12).len(), 1, "the shared node counts once");
    }

    #[test]
    fn short_input_stands_untracked() {
        let far = node(55.0, 10.0);
        let short = stitch(6, 2, |_| vec![node(15.0, 10.0), far]);
        assert!(short.untracked);
        assert_eq!(short.at(0), [node(15.0, 10.0)]);
    }
}
