//! Flat sums: one algorithm over all ranks.

use super::collectives::{self, Choice, Lane, lane::PIECE_BYTES, values};
use super::{AllReduce, CommError, Communicator, Result, Wire};

/// Sums over all ranks without regard to nodes.
pub struct Flat {
    comm: Box<dyn Communicator>,
    choice: Choice,
    lane: Lane,
}

/// A communicator of the ranks with the same colour, with separate messages. All ranks call it.
pub(super) fn group_of(comm: &mut dyn Communicator, colour: u32) -> Result<Box<dyn Communicator>> {
    let rank = comm.rank();
    let group = comm.split(Some(colour), rank)?;
    group.ok_or_else(|| {
        CommError::Layout(format!("rank {rank}: no group although it gave a colour"))
    })
}

impl Flat {
    /// Creates the engine over all ranks of `comm`, with messages separate from its other users.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn new(comm: &mut dyn Communicator, choice: Choice, wire: Wire) -> Result<Self> {
        Self::with_pieces(comm, choice, wire, PIECE_BYTES)
    }

    /// The same, with messages of at most `piece_bytes` bytes where values are added.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn with_pieces(
        comm: &mut dyn Communicator,
        choice: Choice,
        wire: Wire,
        piece_bytes: usize,
    ) -> Result<Self> {
        Ok(Self {
            // Keeps buckets apart from other messages.
            comm: group_of(comm, 0)?,
            choice,
            lane: Lane::new(wire).pieces_of(piece_bytes),
        })
    }
}

impl AllReduce for Flat {
    fn all_reduce(&mut self, values: &mut [f32], scale: f32) -> Result<()> {
        values::scale(values, scale);
        let bytes = values.len() * self.lane.wire().bytes();
        let algorithm = self.choice.resolve(bytes, self.comm.size());
        collectives::all_reduce(algorithm, &mut *self.comm, values, &mut self.lane)
    }

    fn bytes_sent(&self) -> u64 {
        self.lane.bytes_sent()
    }

    fn describe(&self) -> String {
        format!(
            "flat over {} ranks, {}, {} on the wire",
            self.comm.size(),
            self.choice.name(),
            self.lane.wire().name()
        )
    }
}
