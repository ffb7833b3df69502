//! Between the passes: joins the points of each time to tracks, and accepts or rejects the tracks.

use super::settled::{Accepted, Point, Settled};
use crate::error::{ClimateError, Result};
use serde::{Deserialize, Serialize};
use squall_data::Time;
use std::cmp::Reverse;

/// Rules for joining points to tracks and for accepting tracks.
pub(crate) trait Rules<P> {
    /// Whether a series with these first and last times is too short for any track to be accepted.
    fn too_short(&self, first: Time, last: Time) -> bool;

    /// Whether a point of such a series is accepted without a track.
    fn is_accepted_untracked(&self, point: &P) -> bool;

    /// How a track continues at the next time; `free` marks the points at that time that no other track has taken.
    fn next(&self, track: &mut Track<P>, time: Time, points: &[P], free: &[bool]) -> Next;

    /// Whether a completed track is accepted.
    fn is_accepted(&self, track: &Track<P>) -> bool;
}

/// How a track continues at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It continues with the point of this index.
    Point(usize),
    /// It takes no point now, but may take one later.
    Gap,
    /// It ended with its last point.
    End,
}

/// An active track.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Track<P> {
    /// Number of tracks that began before it.
    order: usize,
    /// Time of its first point.
    pub first: Time,
    /// Time of its last point.
    pub last: Time,
    /// Total time as a storm in days, if the rules count it.
    pub storm_days: f64,
    /// Its points, each with the index of its time; never empty.
    pub points: Vec<(usize, P)>,
}

/// Joins points to tracks, time by time.
///
/// At each time every track takes one of the free points or none, as the rules decide: tracks without a gap first, then
/// those with one, oldest first. A point that no track takes begins a new one. If the series is too short for any
/// track, points are accepted without one.
///
/// Memory holds the active tracks and the points of accepted tracks until [`Tracks::forget_before`] discards them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tracks<R, P> {
    rules: R,
    /// First and last time.
    span: Option<(Time, Time)>,
    last_index: usize,
    begun: usize,
    active: Vec<Track<P>>,
    settled: Settled<P>,
    /// Points that are accepted without a track if the series ends up too short for any track.
    early: Vec<(usize, P)>,
}

impl<R: Rules<P>, P: Point> Tracks<R, P> {
    /// An empty set; accepted tracks are numbered from `first_id` in the order in which they began.
    pub fn new(rules: R, first_id: u64) -> Self {
        Self {
            rules,
            span: None,
            last_index: 0,
            begun: 0,
            active: Vec::new(),
            settled: Settled::new(first_id),
            early: Vec::new(),
        }
    }

    /// Adds the points of the next time; [`Self::at`] returns them by `index`.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if the time or the index is not later than the one before.
    pub fn push(&mut self, index: usize, time: Time, points: &[P]) -> Result<()> {
        let first = match self.span {
            Some((_, last)) if time.seconds_since(last) <= 0 || index <= self.last_index => {
                return Err(ClimateError::Invalid(format!(
                    "cyclone tracks: time {index} ({time}) does not come after time {} ({last})",
                    self.last_index
                )));
            }
            Some((first, _)) => first,
            None => time,
        };
        self.span = Some((first, time));
        self.last_index = index;
        let mut free = vec![true; points.len()];
        // Tracks without a gap come first: those with one have a longer reach and would take their points.
        (self.active).sort_by_key(|track| (Reverse(track.points.last().map(|p| p.0)), track.order));
        for mut track in std::mem::take(&mut self.active) {
            match self.rules.next(&mut track, time, points, &free) {
                Next::Point(k) => {
                    free[k] = false;
                    track.points.push((index, points[k]));
                    track.last = time;
                    self.active.push(track);
                }
                Next::Gap => self.active.push(track),
                Next::End => self.close(track),
            }
        }
        for (&point, _) in points.iter().zip(&free).filter(|(_, free)| **free) {
            self.active.push(Track {
                order: self.begun,
                first: time,
                last: time,
                storm_days: 0.0,
                points: vec![(index, point)],
            });
            self.begun += 1;
        }
        if self.too_short() {
            let alone = points
                .iter()
                .filter(|p| self.rules.is_accepted_untracked(p));
            self.early.extend(alone.map(|&point| (index, point)));
        } else {
            self.early = Vec::new();
        }
        self.settle();
        Ok(())
    }

    fn settle(&mut self) {
        let open = self.active.iter().map(|track| track.order).min();
        self.settled.decided_before(open.unwrap_or(self.begun));
    }

    /// The index of the first undecided time; accepted points of earlier times will not change.
    pub fn undecided(&self) -> usize {
        // The series may still turn out too short, and its points be accepted without a track.
        if self.too_short() {
            return 0;
        }
        let first = |track: &Track<P>| track.points.first().map(|(index, _)| *index);
        let oldest = self.active.iter().filter_map(first).min();
        oldest.unwrap_or(self.last_index + 1)
    }

    /// The accepted points at a decided time.
    pub fn at(&self, index: usize) -> &[P] {
        self.settled.at(index)
    }

    /// Discards the points at times before `index`.
    pub fn forget_before(&mut self, index: usize) {
        self.settled.forget_before(index);
    }

    /// Decides all tracks at the end of the series; returns whether the input was too short for tracks.
    pub fn end(&mut self) -> bool {
        if self.span.is_some() && self.too_short() {
            self.active.clear();
            for (index, point) in std::mem::take(&mut self.early) {
                self.settled.add(index, point);
            }
            return true;
        }
        for track in std::mem::take(&mut self.active) {
            self.close(track);
        }
        self.settle();
        false
    }

    /// The accepted points that were not discarded.
    pub fn finish(mut self) -> Accepted<P> {
        let untracked = self.end();
        self.settled.accepted(untracked)
    }

    /// Whether the series is still too short for any track.
    fn too_short(&self) -> bool {
        (self.span).is_none_or(|(first, last)| self.rules.too_short(first, last))
    }

    fn close(&mut self, track: Track<P>) {
        if self.rules.is_accepted(&track) {
            self.settled.accept(track.order, track.points);
        }
    }
}
