//! Inside a node: shared memory, messages, or a library that knows the node's own links.

use super::HierarchicalOptions;
use super::writing::{Busy, Way, Ways};
use crate::comm::collectives::{Lane, part, ring};
use crate::comm::{CommError, Communicator, Result, Window, Wire};
use squall_model::gradients::Lent;
use std::ops::Range;
use std::time::Duration;

/// How the ranks of a node reach each other.
pub(super) enum Inside {
    Shared {
        window: Box<dyn Window>,
        /// Values of a half of it.
        half: usize,
        /// Which half of the window comes next: the other may still be read by a slower rank.
        odd: bool,
        ways: Ways,
    },
    Ring {
        node: Box<dyn Communicator>,
        lane: Lane,
    },
    Library(Box<dyn NodeSum>),
    Alone,
}

/// The parts of the leaders, and what changes a leader's own between nodes.
pub type Between<'a> = (
    &'a [Range<usize>],
    &'a mut dyn FnMut(&mut [f32]) -> Result<()>,
);

/// The ranks of a node, connected by something else than memory and messages.
pub trait NodeSum: Send {
    /// Sums `all` over the node in parts, one for each leader, which `between` then changes on that leader (local rank
    /// `part` leads part number `part`); every rank ends with all parts as their leaders left them.
    ///
    /// # Errors
    /// Those of the library, and of `between`.
    fn sum(
        &mut self,
        all: &mut [f32],
        parts: &[Range<usize>],
        between: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()>;

    /// Whether it sums values that lie on a GPU there; the same answer on every rank.
    fn takes_lent(&self) -> bool {
        false
    }

    /// Begins the same with values on a GPU; over this node alone where there are no `parts`. Only the part that this
    /// rank leads comes to the host.
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

    /// What connects them, in a word or two.
    fn name(&self) -> &'static str;
}

impl Inside {
    /// By shared memory where it can be had, else by messages.
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
                odd: false,
                ways: Ways::new(),
            },
            None => Self::Ring {
                node,
                lane: Lane::new(Wire::F32).pieces_of(options.piece_bytes),
            },
        })
    }
}

/// One pass through shared memory.
pub(super) struct Shared<'a> {
    pub(super) window: &'a mut dyn Window,
    pub(super) base: usize,
    pub(super) leaders: usize,
    pub(super) way: Way,
}

impl Shared<'_> {
    /// Gives the time that this rank was busy. What a leader sums it keeps to itself: the others read only the sums.
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
            // Nobody else reads this part of this segment before the next synchronisation: it was this leader's to sum.
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
            Way::Cached => self.window.write(self.base + at, values),
            Way::Streamed => self.window.stream(self.base + at, values),
        }
    }
}

/// One pass by messages inside the node: every rank sums a shard, leaders collect the shards of their part.
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

    /// Carries values between the owners of shards and the leaders of parts: to the leaders, or back.
    ///
    /// All ranks go through the pairs in the same order, so a send that waits for its receive waits for a pair before
    /// its own.
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
