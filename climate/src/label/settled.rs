//! Points of tracks that stand, as soon as nothing that follows can change them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A point that can be told the track it belongs to.
pub(crate) trait Point: Copy {
    fn on_track(self, id: u64) -> Self;
}

/// The points that stand, by time, on tracks numbered in the order in which they began.
///
/// A track's number is known once it is decided of all that began before whether they stand, and the points of a time
/// are complete once that is decided of all that had begun by then. So what is kept is as old as the oldest track that
/// is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settled<P> {
    /// Tracks that stand but have no number yet, by the order in which they began.
    standing: BTreeMap<usize, Vec<(usize, P)>>,
    by_index: BTreeMap<usize, Vec<P>>,
    next_id: u64,
    tracks: usize,
}

impl<P: Point> Settled<P> {
    /// Nothing yet; tracks are numbered from `first_id`.
    pub fn new(first_id: u64) -> Self {
        Self {
            standing: BTreeMap::new(),
            by_index: BTreeMap::new(),
            next_id: first_id,
            tracks: 0,
        }
    }

    /// A track stands, which began as the `order`th.
    pub fn stands(&mut self, order: usize, points: Vec<(usize, P)>) {
        self.standing.insert(order, points);
    }

    /// It is decided of all tracks that began before this one.
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

    /// A point stands without a track, or on one that it knows.
    pub fn add(&mut self, index: usize, point: P) {
        self.by_index.entry(index).or_default().push(point);
    }

    /// The points at one time.
    pub fn at(&self, index: usize) -> &[P] {
        self.by_index.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Lets go of the points at times before this one.
    pub fn forget_before(&mut self, index: usize) {
        self.by_index = self.by_index.split_off(&index);
    }

    /// What stands and was not let go; `untracked` if the input was too short for tracks.
    pub fn accepted(self, untracked: bool) -> Accepted<P> {
        Accepted {
            by_index: self.by_index,
            tracks: self.tracks,
            untracked,
        }
    }
}

/// The points that stand: with their track, or without where the input was too short for any.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Accepted<P> {
    /// By the index of their time, on older tracks first.
    pub by_index: BTreeMap<usize, Vec<P>>,
    /// Number of tracks.
    pub tracks: usize,
    /// Whether the input was too short for tracks, so that points stand by what they are at one time.
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
