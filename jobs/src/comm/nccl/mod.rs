//! Sums over ranks with one NVIDIA GPU each, using NCCL: over NVLink inside a node, over the network between nodes.
//!
//! The driver and NCCL are loaded when the first sum is set up, so a program with this feature runs without them; if
//! they are missing, every rank gets an error with advice. Ranks connect through the [`Communicator`] that they already
//! have. What needs a GPU is behind two small traits (`Gpu`, `Group`); everything else is tested on threads with a
//! stand-in.
//! What trains on the GPU lends its gradients, which NCCL then sums where they lie; values in host memory go to a
//! buffer on the GPU and back.
//!
//! # Not done
//! Values in host memory are copied through pageable memory. They are f32 on the wire: NCCL adds half types in half
//! precision, and a [`Wire`](super::Wire) promises sums in f32. A sum whose peer is gone does not return: that is for
//! the [`Watchdog`](super::Watchdog) to end.

#[allow(unsafe_code, reason = "loading NVIDIA's libraries, and NCCL's handle")]
mod ffi;
#[cfg(feature = "cuda")]
mod region;

use super::collectives::{tree, values};
use super::hierarchical::{Between, NodeSum};
use super::{AllReduce, CommError, Communicator, Hierarchical, HierarchicalOptions, Result, doing};
use squall_model::gradients::Lent;
use std::collections::BTreeMap;
use std::ops::Range;

/// NCCL's unique id, made by rank 0, by which ranks find each other.
type Ticket = [u8; 128];

/// A GPU opened by a rank, not yet in a group.
trait Gpu {
    /// Its UUID: the same ordinal may mean different GPUs in different processes.
    fn uuid(&self) -> [u8; 16];

    /// Creates the ticket, on rank 0.
    fn ticket(&self) -> Result<Ticket>;

    /// Joins the group of this many ranks with this ticket. All of them call it.
    fn join(self: Box<Self>, size: usize, ticket: Ticket) -> Result<Box<dyn Group>>;
}

/// One rank's membership in a group of GPUs.
trait Group: Send {
    /// Capacity of the GPU's buffer in values.
    fn room(&self) -> usize;

    /// Resizes the buffer, discarding its contents.
    fn make_room(&mut self, length: usize) -> Result<()>;

    /// Replaces values, which must fit the buffer, by their sums over the group.
    fn sum(&mut self, values: &mut [f32]) -> Result<()>;

    /// Does the sums of [`NodeSum::sum`] on values that fit the buffer; this member leads the part with its own number.
    fn sum_parts(
        &mut self,
        values: &mut [f32],
        parts: &[Range<usize>],
        between: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()>;

    /// Whether it sums values lent by another part of the program in GPU memory.
    fn takes_lent(&self) -> bool {
        false
    }

    /// Starts the sums of [`NodeSum::sum_lent`].
    fn sum_lent(&mut self, values: &Lent, parts: Option<Between<'_>>) -> Result<()> {
        let _ = (values, parts);
        Err(CommError::Layout("values on a GPU that is none".into()))
    }

    /// Waits for started sums.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Describes library, version and GPU.
    fn describe(&self) -> String;
}

/// An NCCL all-reduce over all ranks of a communicator, each with its own GPU.
///
/// It may move between threads, but NCCL forbids concurrent work on one GPU from different threads. All ranks must drop
/// it after the same sum: dropping aborts, which may cut off the sum of a slower rank.
///
/// # Source
/// <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage.html>
pub struct Nccl {
    group: Box<dyn Group>,
    ranks: usize,
    bytes_sent: u64,
}

/// The GPUs of a node, for the phases inside it.
struct Node(Box<dyn Group>);

impl NodeSum for Node {
    fn sum(
        &mut self,
        all: &mut [f32],
        parts: &[Range<usize>],
        between: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        if self.0.room() < all.len() {
            self.0.make_room(all.len())?;
        }
        self.0.sum_parts(all, parts, between)
    }

    fn takes_lent(&self) -> bool {
        self.0.takes_lent()
    }

    fn sum_lent(&mut self, all: &Lent, parts: Option<Between<'_>>) -> Result<()> {
        self.0.sum_lent(all, parts)
    }

    fn settle(&mut self) -> Result<()> {
        self.0.settle()
    }

    fn name(&self) -> &'static str {
        match self.0.takes_lent() {
            true => "NCCL from GPU to GPU",
            false => "NCCL",
        }
    }
}

impl Nccl {
    /// Sums in three phases: NCCL inside nodes, messages between them. Each rank uses the GPU with its number on the
    /// node.
    ///
    /// # Errors
    /// As [`Self::new`] and [`Hierarchical::new`].
    pub fn inside_nodes(
        comm: &mut dyn Communicator,
        options: &HierarchicalOptions,
    ) -> Result<Hierarchical> {
        Hierarchical::with_node(comm, options, |all, node| {
            let device = node.rank();
            let open = |rank| Ok(Box::new(ffi::Device::open(rank, device)?) as Box<dyn Gpu>);
            Self::connect_node(all, node, open)
        })
    }

    fn connect_node(
        all: &mut dyn Communicator,
        node: &mut dyn Communicator,
        open: impl FnOnce(usize) -> Result<Box<dyn Gpu>>,
    ) -> Result<Box<dyn NodeSum>> {
        let device = node.rank();
        let group = Self::with(node, device, open).map(|nccl| Node(nccl.group));
        // Must fail on all nodes together, or a node without GPUs would leave the others waiting.
        Ok(Box::new(together(all, "NCCL inside nodes", group)?))
    }

    /// Creates a group of all ranks of `comm`; this rank uses GPU `device`, as CUDA numbers those visible to the
    /// process.
    ///
    /// # Errors
    /// On all ranks if on any: [`CommError::Library`], with advice, if the driver, NCCL or the GPU is unavailable;
    /// [`CommError::Layout`] if two ranks were given the same GPU; errors of the backend.
    pub fn new(comm: &mut dyn Communicator, device: usize) -> Result<Self> {
        Self::with(comm, device, |rank| {
            Ok(Box::new(ffi::Device::open(rank, device)?))
        })
    }

    fn with(
        comm: &mut dyn Communicator,
        device: usize,
        open: impl FnOnce(usize) -> Result<Box<dyn Gpu>>,
    ) -> Result<Self> {
        let (rank, size) = (comm.rank(), comm.size());
        let gpu = together(comm, "opening a GPU", open(rank))?;
        one_gpu_each(comm, device, gpu.uuid())?;
        let ticket = match rank {
            0 => gpu.ticket(),
            _ => Ok([0; 128]),
        };
        let mut ticket = together(comm, "ncclGetUniqueId", ticket)?;
        tree::broadcast(comm, &mut ticket, 0)?;
        let joined = gpu.join(size, ticket);
        // The other ranks may be blocked in NCCL: whoever ends the job then reports why this rank waits.
        let failed = joined.as_ref().err();
        let _doing = failed.map(|error| doing::begin(format!("after {error}")));
        let group = together(comm, "ncclCommInitRank", joined)?;
        Ok(Self {
            group,
            ranks: size,
            bytes_sent: 0,
        })
    }
}

/// This rank's result if all ranks succeeded, so that no rank goes on to wait for one that failed.
fn together<T>(comm: &mut dyn Communicator, call: &'static str, own: Result<T>) -> Result<T> {
    let failed = tree::all_gather(comm, &[u8::from(own.is_err())])?;
    let value = own?;
    match failed.iter().position(|&failed| failed != 0) {
        None => Ok(value),
        Some(peer) => Err(CommError::Library {
            rank: comm.rank(),
            call,
            reason: format!("not here, but on rank {peer}, whose own error says why"),
        }),
    }
}

/// Rejects two ranks of a node with the same GPU, on all ranks: NCCL may hang (its guide, "Creating a Communicator").
fn one_gpu_each(comm: &mut dyn Communicator, device: usize, uuid: [u8; 16]) -> Result<()> {
    let mut lowest = (comm.rank() as u64).to_le_bytes();
    let mut node = comm.split_by_node()?;
    tree::broadcast(&mut *node, &mut lowest, 0)?;
    let mine = [&lowest[..], &uuid, &(device as u64).to_le_bytes()].concat();
    let all = tree::all_gather(comm, &mine)?;
    let number = |bytes: &[u8]| u64::from_le(bytemuck::pod_read_unaligned(bytes));
    // Keyed by node as well: virtual machines may show the same UUID on many nodes.
    let mut owners = BTreeMap::new();
    for (rank, place) in all.chunks(mine.len()).enumerate() {
        let (gpu, device) = (&place[..24], number(&place[24..]));
        if let Some((owner, theirs)) = owners.insert(gpu, (rank, device)) {
            return Err(CommError::Layout(format!(
                "rank {owner} (GPU {theirs}) and rank {rank} (GPU {device}), both on the node of rank {}, have the same \
                 GPU: NCCL needs one for each rank; give each rank of a node another number, or its own CUDA_VISIBLE_DEVICES",
                number(&place[..8])
            )));
        }
    }
    Ok(())
}

impl AllReduce for Nccl {
    fn all_reduce(&mut self, values: &mut [f32], scale: f32) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        values::scale(values, scale);
        if self.group.room() < values.len() {
            self.group.make_room(values.len())?;
        }
        self.group.sum(values)?;
        self.bytes_sent += (2 * (self.ranks - 1) * size_of_val(values) / self.ranks) as u64;
        Ok(())
    }

    fn takes_lent(&self) -> bool {
        self.group.takes_lent()
    }

    fn all_reduce_lent(&mut self, values: &Lent) -> Result<()> {
        self.group.sum_lent(values, None)?;
        self.bytes_sent += (8 * (self.ranks - 1) * values.len() / self.ranks) as u64;
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.group.settle()
    }

    /// The minimum that any algorithm sends to other ranks: NCCL does not report it.
    fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    fn describe(&self) -> String {
        format!(
            "{}, {} ranks, f32 on the wire",
            self.group.describe(),
            self.ranks
        )
    }
}

#[cfg(test)]
mod tests;
