//! Communication between ranks: the interface of backends, and collectives built on it.
//!
//! A backend provides messages between two ranks ([`Communicator`]). Rings, halving-doubling and trees
//! ([`collectives`]) are written once on top of them, so that tests on threads in one process cover what runs over MPI.
//! An [`AllReduce`] averages gradients: flat, hierarchical or over a grid of ranks.
//!
//! Every operation here is collective unless stated otherwise: all ranks of a communicator call it, in the same order
//! and with the same sizes.

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
    /// This rank has sent a message.
    Message(usize),
    /// This rank is gone, and all its messages have been received. MPI ends the whole job instead.
    Gone(usize),
    /// None of them within the time limit.
    Nothing,
}

/// The payload of [`Communicator::send_while`]; owned, because the backend may still read it after the receiver has
/// gone.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// Uninterpreted bytes.
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

/// Callback for stalls.
pub type StallReport = Box<dyn Fn(&CommError) + Send + Sync>;

/// One rank's handle to a group of ranks.
///
/// One thread uses it at a time, usually the communication thread.
pub trait Communicator: Send {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Sends bytes to one rank while receiving exactly `received.len()` bytes from another. Not collective.
    ///
    /// # Errors
    /// [`CommError::Gone`]; [`CommError::Size`] if a message of another length arrives.
    fn send_receive(
        &mut self,
        to: usize,
        sent: &[u8],
        from: usize,
        received: &mut [u8],
    ) -> Result<()>;

    /// Sends bytes to one rank. Not collective.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()>;

    /// Receives exactly `bytes.len()` bytes from one rank. Not collective.
    ///
    /// # Errors
    /// [`CommError::Gone`], [`CommError::Size`].
    fn receive(&mut self, from: usize, bytes: &mut [u8]) -> Result<()>;

    /// Waits, at most for `at_most`, until one of these ranks is gone or has sent something that
    /// [`Communicator::receive`] would return. If there are several, the first in `from` wins. Not collective. A rank
    /// that is gone is not an error, because a server continues with the others.
    ///
    /// # Errors
    /// [`CommError::Layout`] if there is no such rank; [`CommError::Library`].
    fn wait_any(&mut self, from: &[usize], at_most: Duration) -> Result<Arrival>;

    /// Like [`Communicator::send`], but a rank that is known to be gone is not an error; returns whether the message
    /// could be sent. Not collective.
    ///
    /// # Errors
    /// [`CommError::Library`].
    fn offer(&mut self, to: usize, bytes: &[u8]) -> Result<bool> {
        self.send(to, bytes).map(|()| true)
    }

    /// Like [`Communicator::receive`] from a rank that may disappear meanwhile, as reported by `there`; returns whether
    /// the whole message arrived. Not collective.
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

    /// Like [`Communicator::send`] to a rank that may disappear meanwhile, as reported by `there`; returns the payload
    /// if all of it was sent. Not collective.
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

    /// Returns once all ranks have called it.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn barrier(&mut self) -> Result<()>;

    /// A communicator of the ranks with the same colour, ordered by `key`, then by rank; `None` on ranks without a
    /// colour.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn split(&mut self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Communicator>>>;

    /// A communicator of the ranks on the same node, in rank order.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn split_by_node(&mut self) -> Result<Box<dyn Communicator>>;

    /// Memory shared by all ranks of this communicator, with a segment of this many f32 for each; `None` if they cannot
    /// share memory. Every rank gets the same answer.
    ///
    /// # Errors
    /// [`CommError::Library`].
    fn window(&mut self, floats: usize) -> Result<Option<Box<dyn Window>>>;

    /// Whether ranks are processes, which can be stopped or disconnected individually; threads cannot.
    fn are_processes(&self) -> bool {
        false
    }

    /// Limits how long this process may wait for others, in all its communicators, before the job ends with
    /// [`CommError::Stalled`]; only on backends that watch their waits. Not collective.
    fn limit_waits(&self, _after: Duration) {}

    /// Replaces the stall callback that ends the job; `None` restores it. The thread that waited never continues. Only
    /// on backends that limit waits. Not collective.
    fn on_stall(&self, _instead: Option<StallReport>) {}

    /// Blocks until all other processes of the job end, then ends this one cleanly; its other threads stop at their
    /// next use of the backend. For a rank that is no longer needed. Not collective.
    fn retire(&self) -> !;

    /// Immediately ends all ranks of the job with this exit code. Not collective.
    fn abort(&self, code: i32) -> !;

    /// Describes the backend for logs: library, version, ranks.
    fn describe(&self) -> String;
}

/// Memory shared by the ranks of a node: each writes its own segment and reads all of them.
///
/// Between writing and reading, and before writing again, all ranks must call [`Window::sync`].
pub trait Window: Send {
    /// Copies values into this rank's segment from position `at`.
    fn write(&mut self, at: usize, values: &[f32]);

    /// Like [`Self::write`], but bypassing this core's caches where possible: for readers that do not share them.
    fn stream(&mut self, at: usize, values: &[f32]) {
        self.write(at, values);
    }

    /// Replaces `values` by sums over all ranks, in rank order: this rank's own `values`, which need not be in its
    /// segment, and positions `range` of the other ranks' segments.
    fn sum(&self, range: Range<usize>, values: &mut [f32]);

    /// Copies a part of one rank's segment.
    fn read(&self, rank: usize, range: Range<usize>, into: &mut [f32]);

    /// Returns once all ranks have called it; all then see what the others wrote.
    ///
    /// # Errors
    /// [`CommError::Gone`].
    fn sync(&mut self) -> Result<()>;
}

/// The number format on the wire; sums are always f32.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Unchanged.
    #[default]
    F32,
    /// Eight significant bits, with the range of f32.
    Bf16,
    /// Eleven significant bits, up to 65504, so sums are averaged before they are sent. Values below 6.1e-5 lose bits,
    /// and those below 3e-8 become zero: scaling the loss is up to the caller.
    F16,
}

impl Wire {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    /// Bytes per value.
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

/// A phase of a sum over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Where values travel in it.
    pub name: &'static str,
    /// When it began.
    pub from: Instant,
    /// When it was over.
    pub to: Instant,
}

/// An all-reduce engine.
pub trait AllReduce: Send {
    /// Replaces values by their sum over all ranks times `scale`, with the same bits on every rank.
    ///
    /// `scale` is applied before rounding for the wire, so that averages of large f16 values do not overflow.
    ///
    /// # Errors
    /// [`CommError`] of the backend.
    fn all_reduce(&mut self, values: &mut [f32], scale: f32) -> Result<()>;

    /// As [`Self::all_reduce`], of this bucket of a [`reducer::Plan`]: for engines that do not sum all buckets alike.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    fn all_reduce_bucket(&mut self, _bucket: usize, values: &mut [f32], scale: f32) -> Result<()> {
        self.all_reduce(values, scale)
    }

    /// The phases of the last sum, if it has any; only the first call returns them.
    fn take_phases(&mut self) -> Vec<Phase> {
        Vec::new()
    }

    /// Whether it sums values directly in GPU memory; the same answer on every rank.
    fn takes_lent(&self) -> bool {
        false
    }

    /// Starts replacing values in GPU memory, which are already scaled, by their sum over all ranks. May return before
    /// the sum is done: the GPU is ordered after it by [`Lent`], the host by [`Self::settle`].
    ///
    /// # Errors
    /// [`CommError::Layout`] if it does not take them; those of the backend.
    fn all_reduce_lent(&mut self, values: &Lent) -> Result<()> {
        Err(CommError::lent_to_the_host(values.len()))
    }

    /// Waits for all started sums.
    ///
    /// # Errors
    /// Errors of these sums.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Bytes that this rank has sent to other nodes (for flat engines: to other ranks) so far.
    fn bytes_sent(&self) -> u64;

    /// Describes the method for logs and benchmarks.
    fn describe(&self) -> String;
}

/// Locks a value that is valid between any two statements, so that poisoning by a panicking thread can be ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
