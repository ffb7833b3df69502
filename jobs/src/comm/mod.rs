//! Ranks that talk to each other: what every backend offers, and the collectives made of it.
//!
//! A backend offers messages between two ranks ([`Communicator`]); rings, halving-doubling and trees
//! ([`collectives`]) are written once over them, so that threads in one process test what runs over MPI. What averages
//! gradients is an [`AllReduce`]: flat, hierarchical or over a grid of ranks.
//!
//! Every operation here is collective unless it says otherwise: all ranks of a communicator call it, in the same order,
//! with the same sizes.

pub mod agree;
pub mod bench;
pub mod collectives;
pub mod doing;
pub mod error;
pub mod flat;
pub mod grid;
pub mod hierarchical;
pub mod launch;
pub mod layout;
#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(feature = "nccl")]
pub mod nccl;
mod pin;
pub mod reducer;
pub mod solo;
pub mod start;
#[cfg(test)]
mod tests;
pub mod threads;
pub mod watchdog;

pub use error::{CommError, Result};
pub use flat::Flat;
pub use grid::Grid;
pub use hierarchical::{Hierarchical, HierarchicalOptions};
pub use layout::Layout;
#[cfg(feature = "nccl")]
pub use nccl::Nccl;
pub use reducer::Reducer;
pub use solo::Solo;
pub use start::{Processes, Stalls, processes, processes_watched};
pub use watchdog::Watchdog;

use squall_model::gradients::Lent;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Result of a wait for any of several ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// This one has sent something.
    Message(usize),
    /// This one is gone and has sent nothing that is still to be received. MPI ends the whole job instead.
    Gone(usize),
    /// None of them, in the time given.
    Nothing,
}

/// What [`Communicator::send_while`] sends: owned, because the backend may still read it after the receiver has gone.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// Bytes of any meaning.
    Bytes(Vec<u8>),
    /// Values, sent as their bytes.
    Values(Vec<f32>),
}

impl Payload {
    /// The bytes that are sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Values(values) => bytemuck::cast_slice(values),
        }
    }
}

/// What hears of a stall.
pub type StallReport = Box<dyn Fn(&CommError) + Send + Sync>;

/// One rank's end of a group of ranks.
///
/// It is owned by one thread at a time, usually the communication thread.
pub trait Communicator: Send {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Sends bytes to one rank while it receives as many as fit `received` from another. Not collective.
    ///
    /// # Errors
    /// [`CommError::Gone`], [`CommError::Size`] if a message of another length arrives.
    fn send_receive(
        &mut self,
        to: usize,
        sent: &[u8],
        from: usize,
        received: &mut [u8],
    ) -> Result<()>;

    /// Sends bytes to one rank, which receives them. Not collective.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()>;

    /// Receives as many bytes as fit from one rank. Not collective.
    ///
    /// # Errors
    /// [`CommError::Gone`], [`CommError::Size`].
    fn receive(&mut self, from: usize, bytes: &mut [u8]) -> Result<()>;

    /// Waits until one of these ranks has sent something that [`Communicator::receive`] would now get, or is gone, but
    /// no longer than `at_most`; where several have, the one that comes first in `from`. Not collective, and no error
    /// where a rank is gone: a server goes on with the others.
    ///
    /// # Errors
    /// [`CommError::Layout`] if there is no such rank; [`CommError::Library`].
    fn wait_any(&mut self, from: &[usize], at_most: Duration) -> Result<Arrival>;

    /// As [`Communicator::send`], but a rank that is known to be gone is no error; returns whether it could be sent.
    /// Not collective.
    ///
    /// # Errors
    /// [`CommError::Library`].
    fn offer(&mut self, to: usize, bytes: &[u8]) -> Result<bool> {
        self.send(to, bytes).map(|()| true)
    }

    /// As [`Communicator::receive`] from a rank that may disappear meanwhile, as `there` tells; returns whether the
    /// whole message came. Not collective.
    ///
    /// # Errors
    /// As [`Communicator::receive`].
    fn receive_while(
        &mut self,
        from: usize,
        bytes: &mut [u8],
        _there: &dyn Fn() -> bool,
    ) -> Result<bool> {
        self.receive(from, bytes).map(|()| true)
    }

    /// As [`Communicator::send`] to a rank that may go meanwhile, as `there` says: gives the payload back if all was
    /// sent. Not collective.
    ///
    /// # Errors
    /// As [`Communicator::send`].
    fn send_while(
        &mut self,
        to: usize,
        payload: Payload,
        _there: &dyn Fn() -> bool,
    ) -> Result<Option<Payload>> {
        let there = self.offer(to, payload.bytes())?;
        Ok(there.then_some(payload))
    }

    /// Returns when all ranks have come here.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn barrier(&mut self) -> Result<()>;

    /// The ranks that gave the same colour, in the order of `key`, then of rank; `None` on ranks without a colour.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn split(&mut self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Communicator>>>;

    /// The ranks that share this rank's memory, in the order of rank.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn split_by_node(&mut self) -> Result<Box<dyn Communicator>>;

    /// Memory that all ranks of this communicator see, a segment of so many f32 for each; `None` where they cannot
    /// share. Every rank gets the same answer.
    ///
    /// # Errors
    /// [`CommError::Library`].
    fn window(&mut self, floats: usize) -> Result<Option<Box<dyn Window>>>;

    /// Whether ranks are processes, which may be stopped or cut off one by one; threads are not.
    fn are_processes(&self) -> bool {
        false
    }

    /// How long this process may wait for others before the job is ended with a [`CommError::Stalled`], in all its
    /// communicators; where the backend watches its waits at all. Not collective.
    fn limit_waits(&self, _after: Duration) {}

    /// Reports a stall to this callback from now on, instead of to the one that ends the job; none restores that. The
    /// thread that waited never continues. Only where the backend limits waits. Not collective.
    fn on_stall(&self, _instead: Option<StallReport>) {}

    /// Ends this process in order when all others of the job end, and does nothing until then: its other threads stop
    /// at their next use of the backend. For a rank that is no longer needed. Not collective.
    fn retire(&self) -> !;

    /// Ends all ranks of the job with this exit code, at once. Not collective.
    fn abort(&self, code: i32) -> !;

    /// The backend in words, for logs: library, version, ranks.
    fn describe(&self) -> String;
}

/// Memory that the ranks of a node share: each writes its own segment and reads all of them.
///
/// Between writing and reading lies a [`Window::sync`], and another before it is written again.
pub trait Window: Send {
    /// Copies values into this rank's segment from position `at`.
    fn write(&mut self, at: usize, values: &[f32]);

    /// As [`Self::write`], but past this core's caches where that is possible: for readers that do not share them.
    fn stream(&mut self, at: usize, values: &[f32]) {
        self.write(at, values);
    }

    /// Makes sums over all ranks, in the order of rank, of this rank's own `values`, which its segment need not hold,
    /// and those at the positions `range` of the other ranks' segments.
    fn sum(&self, range: Range<usize>, values: &mut [f32]);

    /// Copies a part of one rank's segment.
    fn read(&self, rank: usize, range: Range<usize>, into: &mut [f32]);

    /// Returns when all ranks have come here and see what the others wrote.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn sync(&mut self) -> Result<()>;
}

/// What values are sent as; sums are f32 whatever it is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Unchanged.
    #[default]
    F32,
    /// Eight significant bits, the range of f32.
    Bf16,
    /// Eleven significant bits, up to 65504, so sums are averaged before they are sent. Values below 6.1e-5 have fewer
    /// bits, and those below 3e-8 become zero: scaling the loss is up to the caller.
    F16,
}

impl Wire {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    /// Bytes of a value.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Whether small values lose digits or become zero in it.
    #[must_use]
    pub fn loses_small_values(self) -> bool {
        match self {
            Self::F16 => true,
            Self::F32 | Self::Bf16 => false,
        }
    }

    /// The name in a recipe.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

/// A part of a sum over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Where values go in it.
    pub name: &'static str,
    /// When it began.
    pub from: Instant,
    /// When it was over.
    pub to: Instant,
}

/// Sums a buffer over ranks.
pub trait AllReduce: Send {
    /// Replaces values by their sum over all ranks times `scale`, the same bits on every rank.
    ///
    /// `scale` is applied before values are rounded for the wire, so that averages of large f16 values do not overflow.
    ///
    /// # Errors
    /// [`CommError`] of the backend.
    fn all_reduce(&mut self, values: &mut [f32], scale: f32) -> Result<()>;

    /// Where the time of the last sum went, if it has phases: gives them once.
    fn take_phases(&mut self) -> Vec<Phase> {
        Vec::new()
    }

    /// Whether it sums values that lie on a GPU there; the same answer on every rank.
    fn takes_lent(&self) -> bool {
        false
    }

    /// Begins to replace values on a GPU, which come scaled, by their sum over all ranks. It need not wait for that:
    /// the GPU is told when it is done ([`Lent`]), the host in [`Self::settle`].
    ///
    /// # Errors
    /// [`CommError::Layout`] if it does not take them; those of the backend.
    fn all_reduce_lent(&mut self, values: &Lent) -> Result<()> {
        Err(CommError::lent_to_the_host(values.len()))
    }

    /// Waits until everything that was begun is done.
    ///
    /// # Errors
    /// What went wrong on the way.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Bytes that this rank has sent to other nodes (of a flat one: to other ranks) since it was made.
    fn bytes_sent(&self) -> u64;

    /// How it works, in words, for logs and benchmarks.
    fn describe(&self) -> String;
}

/// The lock of a value that is valid between any two statements, so that a thread which panicked while it held the lock
/// left nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
