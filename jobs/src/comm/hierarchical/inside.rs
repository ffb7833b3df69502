//! The phases of a sum that stay inside a node: through shared memory, by messages, or by a library that knows the
//! node's own links, such as NCCL.

use super::HierarchicalOptions;
use super::writing::{Busy, WriteMode, WriteModes};
use crate::comm::collectives::{Lane, part, ring};
use crate::comm::{CommError, Communicator, Result, Window, Wire};
use squall_model::gradients::Lent;
use std::ops::Range;
use std::time::Duration;

/// How the ranks of a node reach each other.
pub(super) enum Inside {
    Shared {
        window: Box<dyn Window>,
        /// Number of values in each half of a rank's segment.
        half: usize,
        /// Whether the next piece uses the second half. Pieces alternate between halves, because a slower rank may
        /// still be reading the one before.
        second_half: bool,
        ways: WriteModes,
    },
    Ring {
        node: Box<dyn Communicator>,
        lane: Lane,
    },
    Library(Box<dyn NodeSum>),
    /// The node has one rank: there is nothing to sum inside.
    Alone,
}

/// The range of values that each leader sums between nodes, and the function that does so: a leader gives it the sums
/// of its own range over the node, and it replaces them by the sums over all nodes.
pub type Between<'a> = (
    &'a [Range<usize>],
    &'a mut dyn FnMut(&mut [f32]) -> Result<()>,
);

/// A way to sum over the ranks of a node other than shared memory and messages.
pub trait NodeSum: Send {
    /// Replaces `all` on every rank by its sum over the node, which leaders change first: local rank i leads `parts[i]`
    /// and calls `between` with the sums of that part, and every rank ends with all parts as their leaders left them.
    ///
    /// # Errors
    /// Those of the library, and of `between`.
    fn sum(
        &mut self,
        all: &mut [f32],
        parts: &[Range<usize>],
        between: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()>;

    /// Whether [`Self::sum_lent`] sums values in GPU memory where they lie; the same answer on every rank.
    fn takes_lent(&self) -> bool {
        false
    }

    /// Begins to sum values in GPU memory as [`Self::sum`] does; [`Self::settle`] waits for the end. Without `parts` it
    /// sums over this node alone. Only the part that this rank leads is copied to the host.
    ///
    /// # Errors
    /// [`CommError::Layout`] if it does not take them; as [`Self::sum`].
    fn sum_lent(&mut self, all: &Lent, parts: Option<Between<'_>>) -> Result<()> {
        let _ = parts;
        Err(CommError::lent_to_the_host(all.len()))
    }

    /// Waits until what was begun is done.
    ///
    /// # Errors
    /// Those of the library.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// The name of this way in messages to the user, in a word or two.
    fn name(&self) -> &'static str;
}

impl Inside {
    /// Shared memory if the options ask for it and the node has enough, else messages.
    pub(super) fn new(
        mut node: Box<dyn Communicator>,
        options: &HierarchicalOptions,
        at_once: usize,
    ) -> Result<Self> {
        if node.size() == 1 {
            return Ok(Self::Alone);
        }
        let window = match options.shared_memory {
            true => node.window(2 * at_once)?,
            false => None,
        };
        if window.is_none() && options.shared_memory && node.rank() == 0 {
            let megabytes = (node.size() * 2 * at_once * size_of::<f32>()) as f64 / 1e6;
            tracing::warn!(
                "the {} ranks of a node cannot share {megabytes:.0} MB of memory, so they send each other messages: a larger /dev/shm \
                 is faster",
                node.size()
            );
        }
        Ok(match window {
            Some(window) => Self::Shared {
                window,
                half: at_once,
                second_half: false,
                ways: WriteModes::new(),
            },
            None => Self::Ring {
                node,
                lane: Lane::new(Wire::F32).pieces_of(options.piece_bytes),
            },
        })
    }
}

/// One piece of values on its way through shared memory.
pub(super) struct Shared<'a> {
    pub(super) window: &'a mut dyn Window,
    /// Where the half that is used begins in every rank's segment.
    pub(super) base: usize,
    pub(super) leaders: usize,
    pub(super) way: WriteMode,
}

impl Shared<'_> {
    /// Sums `all` over the node and, by `between`, over nodes; returns how long this rank worked, without its waits.
    /// `local` is its number on the node. A leader does not write its own part before it is summed: nobody else reads
    /// those values, only their sums.
    pub(super) fn reduce(
        mut self,
        all: &mut [f32],
        local: usize,
        between: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<Duration> {
        let mut busy = Busy::begin();
        let own = match local < self.leaders {
            true => part(all.len(), self.leaders, local),
            false => all.len()..all.len(),
        };
        self.write(0, &all[..own.start]);
        self.write(own.end, &all[own.end..]);
        busy.pause();
        self.window.sync()?;
        if local < self.leaders {
            let (start, end) = (own.start, own.end);
            let sums = &mut all[own];
            busy.go_on();
            self.window.sum(self.base + start..self.base + end, sums);
            busy.pause();
            between(sums)?;
            busy.go_on();
            // No wait is needed: until the next `sync` nobody else reads this part of this rank's segment, because only
            // this leader sums it.
            self.write(start, sums);
            busy.pause();
        }
        self.window.sync()?;
        busy.go_on();
        for leader in (0..self.leaders).filter(|&leader| leader != local) {
            let theirs = part(all.len(), self.leaders, leader);
            let (start, end) = (self.base + theirs.start, self.base + theirs.end);
            self.window.read(leader, start..end, &mut all[theirs]);
        }
        Ok(busy.end())
    }

    fn write(&mut self, at: usize, values: &[f32]) {
        match self.way {
            WriteMode::Cached => self.window.write(self.base + at, values),
            WriteMode::Streamed => self.window.stream(self.base + at, values),
        }
    }
}

/// One piece of values on its way by messages inside the node: every rank sums a shard (an equal share of the values),
/// and leaders collect the shards of the part that they sum between nodes.
pub(super) struct Shards<'a> {
    pub(super) node: &'a mut dyn Communicator,
    pub(super) ranks: usize,
    pub(super) leaders: usize,
}

impl Shards<'_> {
    pub(super) fn reduce(
        mut self,
        all: &mut [f32],
        lane: &mut Lane,
        between: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        ring::reduce_scatter(self.node, all, lane)?;
        self.regroup(all, false)?;
        let local = self.node.rank();
        if local < self.leaders {
            let own = part(all.len(), self.leaders, local);
            between(&mut all[own])?;
        }
        self.regroup(all, true)?;
        ring::all_gather(self.node, all, lane)
    }

    /// Sends sums from the owners of shards to the leaders of the parts that they lie in or, with `back`, from leaders
    /// to owners.
    ///
    /// This cannot deadlock, although a send may wait for its receive: all ranks go through the pairs in the same
    /// order, so a rank waits only for one that is busy with an earlier pair.
    fn regroup(&mut self, all: &mut [f32], back: bool) -> Result<()> {
        let local = self.node.rank();
        for leader in 0..self.leaders {
            let wanted = part(all.len(), self.leaders, leader);
            for owner in (0..self.ranks).filter(|&owner| owner != leader) {
                let shard = part(all.len(), self.ranks, owner);
                let common = shard.start.max(wanted.start)..shard.end.min(wanted.end);
                let (from, to) = if back {
                    (leader, owner)
                } else {
                    (owner, leader)
                };
                if common.is_empty() {
                    continue;
                }
                if local == from {
                    self.node.send(to, bytemuck::cast_slice(&all[common]))?;
                } else if local == to {
                    let into = bytemuck::cast_slice_mut(&mut all[common]);
                    self.node.receive(from, into)?;
                }
            }
        }
        Ok(())
    }
}
