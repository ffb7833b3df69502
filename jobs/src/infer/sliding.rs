//! Windows of networks over time: which clips are read for which file.

use super::Input;
use super::input::Fields;
use crate::clips::{ClipShape, Window, windows};
use squall_data::Time;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The clips that cover every time of an input exactly once.
///
/// They are computed from the whole time axis, so that results do not depend on how times are divided into files; a
/// clip with outputs in two files is computed for both.
#[derive(Debug)]
pub(super) struct Sliding {
    shape: ClipShape,
    windows: Vec<Window>,
}

impl Sliding {
    pub fn of(input: &Input<'_>, shape: ClipShape) -> Self {
        Self {
            shape,
            windows: windows(input.times(), input.step_seconds(), shape),
        }
    }

    pub fn shape(&self) -> ClipShape {
        self.shape
    }

    /// The clips with outputs for some times, restricted to these outputs.
    pub fn within(&self, times: Range<usize>) -> Vec<Window> {
        // No output is farther from the first one of its clip than the clip is long.
        let reach = self.shape.frames * self.shape.stride;
        let first = |window: &Window| window.takes[0].1;
        let from = self
            .windows
            .partition_point(|window| first(window) + reach < times.start);
        let to = self
            .windows
            .partition_point(|window| first(window) < times.end);
        let limited = self.windows[from..to].iter().map(|window| Window {
            frames: window.frames.clone(),
            takes: (window.takes.iter().copied())
                .filter(|(_, place)| times.contains(place))
                .collect(),
        });
        limited.filter(|window| !window.takes.is_empty()).collect()
    }

    /// Hash of all times that are read for some times: it changes if an extended input adds other neighbours.
    pub fn seen(&self, times: Range<usize>, axis: &[Time]) -> String {
        let mut text = String::new();
        for window in self.within(times) {
            for &frame in &window.frames {
                text += &axis[frame].to_string();
                text.push(' ');
            }
            text.push('\n');
        }
        format!("{:016x}", xxh3_64(text.as_bytes()))
    }
}

/// Replaces each unreadable frame of a clip by its nearest neighbour (the earlier one in a tie); `None` if no frame is
/// readable.
pub(super) fn completed(frames: &[Option<Arc<Fields>>]) -> Option<Vec<Arc<Fields>>> {
    let nearest = |at: usize| {
        (0..frames.len()).find_map(|apart| {
            let before = at.checked_sub(apart).and_then(|k| frames[k].as_ref());
            before.or_else(|| frames.get(at + apart)?.as_ref()).cloned()
        })
    };
    (0..frames.len()).map(nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::super::input::Pixels;
    use super::*;
    use squall_data::Calendar;
    use squall_data::gaps::usual_step_seconds;

    fn axis(count: i64) -> Vec<Time> {
        let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        (0..count)
            .map(|k| start.add_seconds(6 * 3600 * k))
            .collect()
    }

    fn sliding(times: &[Time]) -> Sliding {
        let shape = ClipShape {
            frames: 8,
            stride: 1,
            every: 2,
        };
        Sliding {
            shape,
            windows: windows(times, usual_step_seconds(times), shape),
        }
    }

    #[test]
    fn files_of_any_length_take_every_time_once_from_the_same_clips() {
        let times = axis(37);
        let all = sliding(&times);
        let mut whole: Vec<(usize, Vec<usize>)> = Vec::new();
        for window in all.within(0..37) {
            let taken = window.takes.iter();
            whole.extend(taken.map(|&(_, place)| (place, window.frames.clone())));
        }
        whole.sort();
        for length in [1, 4, 5, 16] {
            let mut parts = Vec::new();
            for start in (0..37).step_by(length) {
                for window in all.within(start..37.min(start + length)) {
                    let taken = window.takes.iter();
                    parts.extend(taken.map(|&(_, place)| (place, window.frames.clone())));
                }
            }
            parts.sort();
            assert_eq!(parts, whole, "files of {length}");
        }
    }

    #[test]
    fn more_times_behind_a_file_are_seen_only_by_clips_that_reach_them() {
        let (short, long) = (axis(24), axis(30));
        let seen = |times: &[Time], of: Range<usize>| sliding(times).seen(of, times);
        assert_eq!(seen(&short, 0..8), seen(&long, 0..8));
        assert_ne!(seen(&short, 20..24), seen(&long, 20..24));
    }

    #[test]
    fn unreadable_frames_are_replaced_by_neighbours() {
        let fields = |missing| {
            Some(Arc::new(Fields {
                time: axis(1)[0],
                pixels: Pixels::Host(Vec::new()),
                missing,
            }))
        };
        let made = completed(&[None, fields(1), None, None, fields(4)]).unwrap();
        let found: Vec<usize> = made.iter().map(|frame| frame.missing).collect();
        assert_eq!(found, [1, 1, 1, 4, 4]);
        assert!(completed(&[None, None]).is_none());
    }
}
