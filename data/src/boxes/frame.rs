//! Boxes of many times, and the interface of writers.

use super::GeoBox;
use crate::Time;
use crate::error::Result;
use std::path::PathBuf;

/// A box and its track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackedBox {
    /// The box.
    pub geo: GeoBox,
    /// The track of its storm; `None` for a box that was not tracked.
    pub track_id: Option<u64>,
}

impl From<GeoBox> for TrackedBox {
    fn from(geo: GeoBox) -> Self {
        Self {
            geo,
            track_id: None,
        }
    }
}

/// The boxes of one time that was searched for storms.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxFrame {
    /// When.
    pub time: Time,
    /// The boxes; empty if nothing was found.
    pub boxes: Vec<TrackedBox>,
}

/// All frames of a file, in order of time, each time once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BoxFrames {
    frames: Vec<BoxFrame>,
    /// The reader's decisions about the file, one sentence each.
    pub notes: Vec<String>,
    /// Whether the origin of the file, unlike its rows, tells that every searched time is a frame, with boxes or without;
    /// readers do not know.
    pub lists_all_times: bool,
}

impl BoxFrames {
    /// Collects frames from boxes and their times in any order, all in one calendar; a time without a box is one at
    /// which nothing was found.
    pub(super) fn collect(mut rows: Vec<(Time, Option<TrackedBox>)>) -> Self {
        // A stable sort keeps the file's order of boxes at one time.
        rows.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
        let mut frames: Vec<BoxFrame> = Vec::new();
        for (time, found) in rows {
            match frames.last_mut() {
                Some(last) if last.time == time => last.boxes.extend(found),
                _ => frames.push(BoxFrame {
                    time,
                    boxes: found.into_iter().collect(),
                }),
            }
        }
        Self {
            frames,
            notes: Vec::new(),
            lists_all_times: false,
        }
    }

    /// The frames.
    pub fn frames(&self) -> &[BoxFrame] {
        &self.frames
    }

    /// The boxes of a time; `None` if the file does not cover it.
    pub fn at(&self, time: Time) -> Option<&[TrackedBox]> {
        let before = |frame: &BoxFrame| frame.time < time;
        let frame = self.frames.get(self.frames.partition_point(before))?;
        (frame.time == time).then_some(frame.boxes.as_slice())
    }

    /// Filters boxes but keeps all times; returns how many boxes were removed.
    pub fn retain(&mut self, keep: impl Fn(&TrackedBox) -> bool) -> usize {
        let before = self.boxes();
        for frame in &mut self.frames {
            frame.boxes.retain(&keep);
        }
        before - self.boxes()
    }

    /// Total number of boxes.
    pub fn boxes(&self) -> usize {
        self.frames.iter().map(|frame| frame.boxes.len()).sum()
    }
}

/// The contents of a finished box file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkSummary {
    /// The file.
    pub path: PathBuf,
    /// Times written.
    pub times: usize,
    /// Boxes written.
    pub boxes: usize,
    /// Number of boxes that the format had no room for.
    pub left_out: usize,
}

impl SinkSummary {
    /// The summary of an empty file.
    pub(super) fn begun(path: PathBuf) -> Self {
        Self {
            path,
            times: 0,
            boxes: 0,
            left_out: 0,
        }
    }
}

/// A box file that is written time by time and renamed into place when complete.
pub trait BoxSink {
    /// Adds the boxes of the next time; an empty slice means that nothing was found.
    ///
    /// # Errors
    /// [`crate::DataError::Invalid`] for a box that is invalid or off the grid; [`crate::DataError::Io`].
    fn write(&mut self, time: Time, boxes: &[TrackedBox]) -> Result<()>;

    /// Completes the file and returns its summary.
    ///
    /// # Errors
    /// [`crate::DataError::Io`] if it cannot be written, synced or renamed.
    fn finish(self: Box<Self>) -> Result<SinkSummary>;
}

#[cfg(test)]
mod tests {
    use super::super::tests::geo;
    use super::*;
    use crate::Calendar;

    #[test]
    fn rows_become_frames_and_an_empty_time_is_not_an_unknown_one() {
        let time = |day| Time::new(Calendar::NoLeap, 2000, 1, day, 0, 0, 0).unwrap();
        let found = |west| Some(TrackedBox::from(geo(west, 10.0, west + 5.0, 15.0)));
        let frames = BoxFrames::collect(vec![
            (time(3), found(1.0)),
            (time(1), None),
            (time(3), found(2.0)),
            (time(2), found(3.0)),
        ]);
        assert_eq!((frames.frames().len(), frames.boxes()), (3, 3));
        assert_eq!(frames.at(time(1)), Some(&[][..]));
        assert_eq!(frames.at(time(4)), None);
        let there = frames.at(time(3)).unwrap();
        assert_eq!((there[0].geo.west_deg, there[1].geo.west_deg), (1.0, 2.0));
        let mut few = frames;
        assert_eq!(few.retain(|found| found.geo.west_deg < 1.5), 2);
        assert_eq!((few.frames().len(), few.boxes()), (3, 1));
    }
}
