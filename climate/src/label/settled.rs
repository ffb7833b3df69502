//! Collects the points of accepted tracks, and returns them once no later time can change them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A point that can carry the number of its track.
pub(crate) trait Point: Copy {
    fn on_track(self, id: u64) -> Self;
}

/// The accepted points by time. Tracks are numbered in the order in which they began.
///
/// A track's number is known once all tracks that began before it are accepted or rejected. The points of a time are
/// complete once this holds for all tracks that had begun by then. Nothing older than the oldest active track needs to
/// be kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settled<P> {
    /// Accepted tracks that have no number yet, keyed by the order in which they began.
    standing: BTreeMap<usize, Vec<(usize, P)>>,
    by_index: BTreeMap<usize, Vec<P>>,
    next_id: u64,
    tracks: usize,
}

impl<P: Point> Settled<P> {
    /// An empty collection; tracks are numbered from `first_id`.
    pub fn new(first_id: u64) -> Self {
        Self {
            standing: BTreeMap::new(),
            by_index: BTreeMap::new(),
            next_id: first_id,
            tracks: 0,
        }
    }

    /// Accepts the track that began as number `order`.
    pub fn accept(&mut self, order: usize, points: Vec<(usize, P)>) {
        self.standing.insert(order, points);
    }

    /// Declares all tracks that began before number `order` decided.
    pub fn decided_before(&mut self, order: usize) {
        let later = self.standing.split_off(&order);
        for (_, points) in std::mem::replace(&mut self.standing, later) {
            for (index, point) in points {
                self.add(index, point.on_track(self.next_id));
            }
            self.next_id += 1;
            self.tracks += 1;
        }
    }

    /// Accepts a point without a track, or one that already carries its track's number.
    pub fn add(&mut self, index: usize, point: P) {
        self.by_index.entry(index).or_default().push(point);
    }

    /// The points at one time.
    pub fn at(&self, index: usize) -> &[P] {
        self.by_index.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Discards the points at times before `index`.
    pub fn forget_before(&mut self, index: usize) {
        self.by_index = self.by_index.split_off(&index);
    }

    /// The remaining accepted points; `untracked` if the input was too short for tracks.
    pub fn accepted(self, untracked: bool) -> Accepted<P> {
        Accepted {
            by_index: self.by_index,
            tracks: self.tracks,
            untracked,
        }
    }
}

/// The accepted points, with their tracks, or without any if the input was too short for tracks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Accepted<P> {
    /// By time index; points on older tracks come first.
    pub by_index: BTreeMap<usize, Vec<P>>,
    /// Number of tracks.
    pub tracks: usize,
    /// Whether the input was too short for tracks, so that points were accepted by their own properties alone.
    pub untracked: bool,
}

impl<P> Accepted<P> {
    /// The points at one time of the series.
    pub fn at(&self, index: usize) -> &[P] {
        self.by_index.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Number of points over all times.
    pub fn points(&self) -> usize {
        self.by_index.values().map(Vec::len).sum()
    }
}
