//! Events found by many ranks, followed by the first.
//!
//! The times are processed in rounds: every rank reads its next block and finds its events, and the first rank follows
//! them in order of time. While it does, the others process their next block. At the end they report the missing values
//! in the fields that they read.

use super::source::Source;
use super::{Events, Fields, MOST_TIMES, Objects};
use crate::interrupt;
use squall_climate::map::LandMask;
use squall_climate::stream::Seen;
use squall_data::{Time, wire};
use squall_jobs::comm::Communicator;
use squall_jobs::comm::collectives::tree;
use std::ops::Range;

/// What a rank found in a round: each time with the number of its cyclones that are too small, and the times whose masks
/// have only missing values.
pub type Found = (Vec<(Seen, usize)>, Vec<Time>);

/// Which rank reads which times in which round.
pub struct Rounds {
    start: usize,
    count: usize,
    /// Times per rank and round.
    each: usize,
    ranks: usize,
}

impl Rounds {
    /// The rounds as determined by the first rank, on all ranks; `start` is the first time that is not done.
    ///
    /// # Errors
    /// Errors of communication.
    pub fn begin(
        comm: &mut dyn Communicator,
        objects: &Objects,
        start: usize,
    ) -> anyhow::Result<Self> {
        let count = objects.times().len();
        let each = rayon::current_num_threads().clamp(1, MOST_TIMES);
        let facts = wire::to_bytes(&(start, count, each))?;
        let facts = tree::broadcast_any(comm, facts, 0)?;
        let (start, first_count, each): (usize, usize, usize) = wire::from_bytes(&facts)?;
        if first_count != count {
            anyhow::bail!(
                "rank {} sees {count} times where the first one sees {first_count}: has the input changed?",
                comm.rank()
            );
        }
        // A table is read faster than it can be sent.
        let ranks = match objects {
            Objects::Masks(_) => comm.size(),
            Objects::Boxes { .. } => 1,
        };
        Ok(Self {
            start,
            count,
            each,
            ranks,
        })
    }

    /// Number of ranks that read.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The first time of every round.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        (self.start..self.count).step_by(self.each * self.ranks)
    }

    /// The times that a rank reads in a round; empty after the last time.
    pub fn block(&self, round: usize, rank: usize) -> Range<usize> {
        let from = (round + rank * self.each).min(self.count);
        from..(from + self.each).min(self.count)
    }

    /// Number of times done after a round.
    pub fn end(&self, round: usize) -> usize {
        (round + self.each * self.ranks).min(self.count)
    }
}

/// The work of the other ranks: reads their blocks and sends the results.
///
/// # Errors
/// Errors of reading and of communication.
pub fn help(
    comm: &mut dyn Communicator,
    arguments: &Events,
    objects: &Objects,
    fields: Option<Fields>,
    land: &LandMask,
) -> anyhow::Result<()> {
    // The first rank ends the job when a signal arrives.
    let _ = interrupt::flag();
    let rounds = Rounds::begin(comm, objects, 0)?;
    if comm.rank() >= rounds.ranks() {
        return Ok(());
    }
    let areas = objects.grid().row_areas_km2();
    let times = objects.times();
    let mut source = Source::new(arguments, objects, fields, land, 0)?;
    for round in rounds.all() {
        let mut seen: Vec<(Seen, usize)> = Vec::new();
        for mut read in source.read(rounds.block(round, comm.rank()))? {
            let found = std::mem::take(&mut read.found);
            let known = read.known(land);
            let of_time = Seen::of(&read.moment(times, &known), found, &areas);
            seen.push((of_time, read.small_cyclones));
        }
        let found: Found = (seen, source.take_without_mask());
        send(comm, &wire::to_bytes(&found)?)?;
    }
    match source.missing() {
        Some(missing) => send(comm, &missing.to_bytes()?),
        None => Ok(()),
    }
}

/// Sends bytes for the first rank's [`receive`].
fn send(comm: &mut dyn Communicator, bytes: &[u8]) -> anyhow::Result<()> {
    comm.send(0, &(bytes.len() as u64).to_le_bytes())?;
    Ok(comm.send(0, bytes)?)
}

/// The results of another rank in a round, or at the end its count of missing values.
///
/// # Errors
/// Errors of communication.
pub fn receive(comm: &mut dyn Communicator, from: usize) -> anyhow::Result<Vec<u8>> {
    let mut length = [0; 8];
    comm.receive(from, &mut length)?;
    let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
    comm.receive(from, &mut bytes)?;
    Ok(bytes)
}
