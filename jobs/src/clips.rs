//! Clips of consecutive times, for networks over time: training clips, and windows for validation and inference.
//!
//! Two times are consecutive if they differ by the time step of the data: the most common step on the time axis (for a
//! split, on the axis of its whole store). A missing time ends a run of consecutive times. Frames of a clip are
//! [`ClipShape::stride`] steps apart. A training clip lies within one run ([`whole`]): no clip starts at a sample with
//! too few successors. In validation and inference every time is scored exactly once ([`windows`]); a clip that extends
//! past the end of its run repeats the last time.

use serde::{Deserialize, Serialize};
use squall_data::gaps::usual_step_seconds;
use squall_data::{Store, Time};
use squall_model::NetworkConfig;

/// Length of a clip and spacing of its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClipShape {
    /// Frames per clip.
    pub frames: usize,
    /// Time steps between consecutive frames.
    pub stride: usize,
    /// The network outputs a result for every `every`-th frame, starting with the first.
    pub every: usize,
}

/// A clip and the outputs that are used from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Indices of the frames on the time axis; the last one may repeat.
    pub frames: Vec<usize>,
    /// The outputs to use, and the time index of each: `(output, time)`.
    pub takes: Vec<(usize, usize)>,
}

impl ClipShape {
    /// The clips of a network, with frames `stride` steps apart; `None` for a network that sees single fields.
    pub fn for_network(network: &NetworkConfig, stride: usize) -> Option<Self> {
        (network.frames() > 1).then(|| Self {
            frames: network.frames(),
            stride: stride.max(1),
            every: network.frames_per_answer(),
        })
    }

    /// Seconds between frames if times are `step` seconds apart; `None` if there is a single time.
    pub fn frame_seconds(&self, step: Option<i64>) -> Option<i64> {
        Some(step?.saturating_mul(self.stride as i64))
    }

    /// Outputs of the network per clip.
    pub fn answers(&self) -> usize {
        self.frames.div_ceil(self.every)
    }
}

/// Returns these samples ordered by time, their times, and the time step of the whole store, since a split may contain
/// only some of its times.
pub(crate) fn in_time(store: &Store, ids: &[usize]) -> (Vec<usize>, Vec<Time>, Option<i64>) {
    let all = store.times();
    let sorted = |mut ids: Vec<usize>| {
        if let Some(&first) = ids.first() {
            ids.sort_by_key(|&id| (all[id].seconds_since(all[first]), id));
        }
        ids
    };
    let mut whole: Vec<Time> = sorted((0..store.len()).collect())
        .into_iter()
        .map(|id| all[id])
        .collect();
    // Samples of different runs may have equal times, which are not a step apart.
    whole.dedup();
    let ids = sorted(ids.to_vec());
    let times = ids.iter().map(|&id| all[id]).collect();
    (ids, times, usual_step_seconds(&whole))
}

/// Series of indices that are `stride` steps apart, each as long as its run allows. Every index is in exactly one
/// series.
fn series(times: &[Time], step: Option<i64>, stride: usize) -> Vec<Vec<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for place in 0..times.len() {
        let follows = place > 0 && Some(times[place].seconds_since(times[place - 1])) == step;
        match runs.last_mut() {
            Some(run) if follows => run.end = place + 1,
            _ => runs.push(place..place + 1),
        }
    }
    let dealt = |run: std::ops::Range<usize>| {
        let phases = 0..stride.min(run.len());
        phases.map(move |phase| (run.start + phase..run.end).step_by(stride).collect())
    };
    runs.into_iter().flat_map(dealt).collect()
}

/// The frame indices of all clips that lie within one run, ordered by first frame. `times` ascend; `step` is the time
/// step of the data.
pub fn whole(times: &[Time], step: Option<i64>, shape: ClipShape) -> Vec<Vec<usize>> {
    let all = series(times, step, shape.stride);
    let mut clips: Vec<Vec<usize>> = all
        .iter()
        .flat_map(|series| series.windows(shape.frames).map(<[usize]>::to_vec))
        .collect();
    clips.sort_unstable();
    clips
}

/// Clips that cover every time exactly once, ordered by the first time covered. `times` ascend; `step` is the time step
/// of the data.
///
/// # Example
/// ```
/// use squall_data::{Calendar, Time};
/// use squall_jobs::clips::{ClipShape, windows};
/// let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
/// let times: Vec<Time> = (0..5).map(|k| start.add_seconds(k * 10800)).collect();
/// let shape = ClipShape { frames: 4, stride: 1, every: 2 };
/// let found = windows(&times, Some(10800), shape);
/// assert_eq!(found[0].frames, [0, 1, 2, 3]);
/// assert_eq!(found[0].takes, [(0, 0), (1, 2)]);
/// // The last time ends the run: it stands for the one that follows.
/// assert_eq!(found[2].frames, [2, 3, 4, 4]);
/// assert_eq!(found[2].takes, [(1, 4)]);
/// ```
pub fn windows(times: &[Time], step: Option<i64>, shape: ClipShape) -> Vec<Window> {
    let mut all = Vec::new();
    for series in series(times, step, shape.stride) {
        let last = series.len() - 1;
        for phase in 0..shape.every.min(series.len()) {
            let taken: Vec<usize> = (phase..series.len()).step_by(shape.every).collect();
            for taken in taken.chunks(shape.answers()) {
                let mut first = taken[0];
                // A clip that would extend past its run starts earlier if its outputs still cover the same times:
                // better than repeating the last frame.
                while first + shape.frames - 1 > last && first >= shape.every {
                    let ends = first - shape.every + (shape.answers() - 1) * shape.every;
                    if ends < taken[taken.len() - 1] {
                        break;
                    }
                    first -= shape.every;
                }
                let frames = first..first + shape.frames;
                all.push(Window {
                    frames: frames.map(|at| series[at.min(last)]).collect(),
                    takes: taken
                        .iter()
                        .map(|&at| ((at - first) / shape.every, series[at]))
                        .collect(),
                });
            }
        }
    }
    all.sort_by_key(|window: &Window| window.takes[0].1);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use squall_data::Calendar;

    fn axis(steps: &[i64]) -> Vec<Time> {
        let mut time = Time::new(Calendar::NoLeap, 1999, 12, 30, 0, 0, 0).unwrap();
        let mut times = vec![time];
        for hours in steps {
            time = time.add_seconds(3600 * hours);
            times.push(time);
        }
        times
    }

    #[test]
    fn clips_end_where_a_time_is_missing() {
        let times = axis(&[6, 6, 6, 12, 6, 6, 6]);
        let shape = |frames, stride| ClipShape {
            frames,
            stride,
            every: 2,
        };
        let step = usual_step_seconds(&times);
        assert_eq!(
            whole(&times, step, shape(3, 1)),
            [[0, 1, 2], [1, 2, 3], [4, 5, 6], [5, 6, 7]]
        );
        assert_eq!(
            whole(&times, step, shape(2, 2)),
            [[0, 2], [1, 3], [4, 6], [5, 7]]
        );
        assert!(whole(&times, step, shape(5, 1)).is_empty());
        let alone = windows(&times[..1], None, shape(3, 1));
        assert_eq!((alone.len(), &alone[0].frames[..]), (1, &[0, 0, 0][..]));
    }

    proptest! {
        /// Every time is taken once, from a frame that is that time, whatever the holes in the axis.
        #[test]
        fn every_time_is_taken_once(
            steps in proptest::collection::vec(prop_oneof![5 => Just(3i64), 1 => Just(9i64)], 0..40),
            frames in 2usize..9, stride in 1usize..4, every in 1usize..3,
        ) {
            let times = axis(&steps);
            let shape = ClipShape { frames, stride, every };
            let step = Some(3 * 3600);
            let found = windows(&times, step, shape);
            let mut taken: Vec<usize> = Vec::new();
            for window in &found {
                prop_assert_eq!(window.frames.len(), frames);
                for pair in window.frames.windows(2) {
                    let apart = times[pair[1]].seconds_since(times[pair[0]]);
                    prop_assert!(apart == 3 * 3600 * stride as i64 || pair[0] == pair[1]);
                }
                for &(answer, place) in &window.takes {
                    prop_assert!(answer < shape.answers());
                    prop_assert_eq!(window.frames[answer * every], place);
                    taken.push(place);
                }
            }
            taken.sort_unstable();
            prop_assert_eq!(taken, (0..times.len()).collect::<Vec<_>>());
            for clip in whole(&times, step, shape) {
                let span = times[clip[frames - 1]].seconds_since(times[clip[0]]);
                prop_assert_eq!(span, 3 * 3600 * (stride * (frames - 1)) as i64);
            }
        }
    }
}
