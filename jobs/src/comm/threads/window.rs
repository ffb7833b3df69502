//! Memory shared by threads, with a lock per rank's segment.

use super::meeting::{Lateness, Meeting};
use crate::comm::collectives::values::add_in_order;
use crate::comm::{Result, Window};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The segments of all ranks of a group.
pub(super) struct Segments {
    pub meeting: Meeting,
    segments: Vec<RwLock<Vec<f32>>>,
}

impl Segments {
    pub fn new(meeting: Meeting, lengths: impl Iterator<Item = usize>) -> Self {
        let segments = lengths
            .map(|floats| RwLock::new(vec![0.0; floats]))
            .collect();
        Self { meeting, segments }
    }

    fn segment(&self, rank: usize) -> RwLockReadGuard<'_, Vec<f32>> {
        self.segments[rank]
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// One rank's view of the segments.
pub(super) struct ThreadWindow {
    shared: Arc<Segments>,
    rank: usize,
    lateness: Lateness,
}

impl ThreadWindow {
    pub fn new(shared: Arc<Segments>, rank: usize) -> Self {
        let meeting = &shared.meeting;
        let lateness = meeting.world().lateness(meeting.members()[rank]);
        Self {
            shared,
            rank,
            lateness,
        }
    }
}

impl Drop for ThreadWindow {
    fn drop(&mut self) {
        self.shared.meeting.leave(self.rank);
    }
}

impl Window for ThreadWindow {
    fn write(&mut self, at: usize, values: &[f32]) {
        let mut segment = self.shared.segments[self.rank]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        segment[at..at + values.len()].copy_from_slice(values);
    }

    fn sum(&self, range: Range<usize>, values: &mut [f32]) {
        let own = values.to_vec();
        let all: Vec<_> = (0..self.shared.segments.len())
            .map(|rank| self.shared.segment(rank))
            .collect();
        add_in_order(values, all.len(), |rank| match rank == self.rank {
            true => &own,
            false => &all[rank][range.clone()],
        });
    }

    fn read(&self, rank: usize, range: Range<usize>, into: &mut [f32]) {
        into.copy_from_slice(&self.shared.segment(rank)[range]);
    }

    fn sync(&mut self) -> Result<()> {
        let meeting = &self.shared.meeting;
        let rank = meeting.members()[self.rank];
        let doing = "the window's synchronisation";
        self.lateness.pass();
        meeting.world().meet_fault(rank, doing)?;
        meeting.wait(self.rank, doing)?;
        // Delayed once more, so that ranks do not read or write in lockstep.
        self.lateness.pass();
        Ok(())
    }
}
