//! The parts that need a GPU: NVIDIA's driver and NCCL, through cudarc's safe interface.
//!
//! cudarc panics when it calls a missing library, so both are checked first.

#[cfg(feature = "cuda")]
use super::region::Region;
#[cfg(feature = "cuda")]
use super::{Between, Lent};
use super::{Gpu, Group, Ticket};
use crate::comm::{CommError, Result};
use cudarc::driver::result;
#[cfg(not(feature = "cuda"))]
use cudarc::driver::sys;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError};
#[cfg(feature = "cuda")]
use cudarc::driver::{CudaEvent, PinnedHostSlice};
use cudarc::nccl::result::{NcclError, get_nccl_version};
use cudarc::nccl::{Comm, Id, ReduceOp, group_end, group_start};
use squall_data::caught::caught;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

const NO_DRIVER: &str = "NVIDIA's driver (libcuda.so.1) is not found: run on a machine with a GPU and its driver, or sum \
     without NCCL";

#[cfg(feature = "cuda")]
const NO_NCCL: &str = "NCCL (libnccl.so.2) is not found: `pip install nvidia-nccl-cu13` (for a driver of CUDA 12 `nvidia-nccl-cu12`) \
     brings it; name its folder in SQUALL_CUDA_LIBRARIES, or sum without NCCL";

#[cfg(not(feature = "cuda"))]
const NO_NCCL: &str = "NCCL is not found: it is looked for as libnccl.so, never as libnccl.so.2, the name under which most \
     packages have it; make a folder with a link, `ln -s /where/it/is/libnccl.so.2 folder/libnccl.so`, and put the folder \
     in front of LD_LIBRARY_PATH";

/// NCCL versions compatible with the bindings, as [`dotted`] reads them.
const VERSIONS: Range<i32> = 20_900..30_000;

/// A GPU with a stream dedicated to sums.
pub(super) struct Device {
    rank: usize,
    uuid: [u8; 16],
    name: String,
    stream: Arc<CudaStream>,
}

/// A GPU in a group.
struct Member {
    rank: usize,
    name: String,
    // Dropped before the buffer: dropping it ends what still runs there.
    handle: Handle,
    buffer: Option<CudaSlice<f32>>,
    stream: Arc<CudaStream>,
    #[cfg(feature = "cuda")]
    lent: Borrowed,
}

/// State of a group whose members lend their values.
#[cfg(feature = "cuda")]
#[derive(Default)]
struct Borrowed {
    /// Page-locked memory for the part that this member leads.
    shard: Option<PinnedHostSlice<f32>>,
    /// Marks the end of the last started sum.
    last: Option<Arc<CudaEvent>>,
}

/// NCCL's communicator, a pointer.
struct Handle(ManuallyDrop<Comm>);

// SAFETY: NCCL's user guide ("Thread Safety") allows a communicator on any thread as long as one at a time operates it,
// and NCCL selects the communicator's GPU in every call. The only owner is a `Member`, which uses it by `&mut` and
// drops it.
unsafe impl Send for Handle {}

impl Drop for Handle {
    /// cudarc panics if NCCL cannot abort, as after an error of the GPU or the network. A panic would end the job of
    /// all ranks, whose work may be done.
    fn drop(&mut self) {
        // SAFETY: it is taken once, and nobody uses it afterwards.
        let comm = unsafe { ManuallyDrop::take(&mut self.0) };
        if caught(move || drop(comm)).is_none() {
            tracing::warn!("ncclCommAbort fails (NCCL_DEBUG=WARN says more)");
        }
    }
}

impl Device {
    pub fn open(rank: usize, device: usize) -> Result<Self> {
        let missing = |call, text: &str| CommError::Library {
            rank,
            call,
            reason: text.into(),
        };
        if !is_there(Library::Driver) {
            return Err(missing("loading libcuda", NO_DRIVER));
        }
        if !is_there(Library::Nccl) {
            return Err(missing("loading libnccl", NO_NCCL));
        }
        let version = get_nccl_version().map_err(nccl(rank, "ncclGetVersion"))?;
        if !VERSIONS.contains(&version) {
            let found = dotted(version);
            let reason = format!("NCCL {found} does not fit: expected 2.9 or a later 2");
            return Err(missing("ncclGetVersion", &reason));
        }
        let count = CudaContext::device_count().map_err(driver(rank, "cuDeviceGetCount"))?;
        // A launcher may show each process only its own GPU, which is then number 0.
        let visible = usize::try_from(count).unwrap_or(0);
        if visible == 0 {
            return Err(missing(
                "cuDeviceGet",
                "this process sees no GPU (see CUDA_VISIBLE_DEVICES)",
            ));
        }
        let device = the_one_that_computes().unwrap_or(device % visible);
        let context = CudaContext::new(device).map_err(driver(rank, "opening a GPU"))?;
        let uuid = context.uuid().map_err(driver(rank, "cuDeviceGetUuid"))?;
        let name = context.name().map_err(driver(rank, "cuDeviceGetName"))?;
        // High priority: other ranks wait for these sums.
        let (_, first) = result::stream::get_priority_range()
            .map_err(driver(rank, "cuCtxGetStreamPriorityRange"))?;
        let stream = context.new_stream_with_priority(first);
        Ok(Self {
            rank,
            uuid: bytemuck::cast(uuid.bytes),
            name: format!("{name} ({device})"),
            stream: stream.map_err(driver(rank, "cuStreamCreate"))?,
        })
    }
}

enum Library {
    Driver,
    Nccl,
}

/// Whether a library can be loaded.
#[cfg(not(feature = "cuda"))]
fn is_there(library: Library) -> bool {
    // SAFETY: it loads a library and lets it go, which runs the library's own start and end. The names are NVIDIA's,
    // and what has them is trusted as any library the program is linked with.
    unsafe {
        match library {
            Library::Driver => sys::is_culib_present(),
            Library::Nccl => cudarc::nccl::sys::is_culib_present(),
        }
    }
}

/// The same if cudarc is linked against functions that load the library at their first call (`model/candle-kernels`).
#[cfg(feature = "cuda")]
fn is_there(library: Library) -> bool {
    match library {
        Library::Driver => squall_model::ops::cuda::finds("libcuda.so.1"),
        Library::Nccl => ["libnccl.so.2", "libnccl.so"]
            .into_iter()
            .any(squall_model::ops::cuda::finds),
    }
}

/// The ordinal of the GPU that this process computes on, whose values NCCL sums in place.
fn the_one_that_computes() -> Option<usize> {
    #[cfg(feature = "cuda")]
    return squall_model::ops::cuda::identity().map(|(_, number)| number);
    #[cfg(not(feature = "cuda"))]
    None
}

impl Gpu for Device {
    fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    fn ticket(&self) -> Result<Ticket> {
        let id = Id::new().map_err(nccl(self.rank, "ncclGetUniqueId"))?;
        Ok(bytemuck::cast(*id.internal()))
    }

    fn join(self: Box<Self>, size: usize, ticket: Ticket) -> Result<Box<dyn Group>> {
        let Self {
            rank, name, stream, ..
        } = *self;
        // NCCL uses the thread's current GPU.
        let bound = stream.context().bind_to_thread();
        bound.map_err(driver(rank, "cuCtxSetCurrent"))?;
        let id = Id::uninit(bytemuck::cast(ticket));
        let comm = Comm::from_rank(Arc::clone(&stream), rank, size, id);
        let comm = comm.map_err(nccl(rank, "ncclCommInitRank"))?;
        Ok(Box::new(Member {
            rank,
            name,
            handle: Handle(ManuallyDrop::new(comm)),
            buffer: None,
            stream,
            #[cfg(feature = "cuda")]
            lent: Borrowed::default(),
        }))
    }
}

impl Group for Member {
    fn room(&self) -> usize {
        self.buffer.as_ref().map_or(0, CudaSlice::len)
    }

    fn make_room(&mut self, length: usize) -> Result<()> {
        // Frees the old buffer first, so that the GPU need not hold both.
        self.buffer = None;
        let buffer = self.stream.alloc_zeros(length);
        self.buffer = Some(buffer.map_err(driver(self.rank, "cuMemAlloc"))?);
        Ok(())
    }

    fn sum_parts(
        &mut self,
        values: &mut [f32],
        parts: &[Range<usize>],
        between: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let (rank, stream, room) = (self.rank, &self.stream, self.room());
        let (expected, comm) = (values.len(), &self.handle.0);
        let outside = || too_small(rank, expected, room);
        let buffer = self.buffer.as_mut().ok_or_else(outside)?;
        // The leader of each non-empty part: the same list on every rank.
        let led: Vec<(i32, &Range<usize>)> = (0..)
            .zip(parts)
            .filter(|(_, part)| !part.is_empty())
            .collect();
        let mut view = buffer.try_slice_mut(..expected).ok_or_else(outside)?;
        let sent = stream.memcpy_htod(&*values, &mut view);
        sent.map_err(driver(rank, "cuMemcpyHtoD"))?;
        grouped(rank, "ncclReduce", || {
            led.iter().try_for_each(|(leader, part)| {
                let mut part = view.try_slice_mut((*part).clone()).ok_or_else(outside)?;
                let summed = comm.reduce_in_place(&mut part, &ReduceOp::Sum, *leader);
                summed.map(|_| ()).map_err(nccl(rank, "ncclReduce"))
            })
        })?;
        if let Some((_, part)) = led.iter().find(|(leader, _)| *leader == comm.rank() as i32) {
            let (own, place) = (&mut values[(*part).clone()], (*part).clone());
            let mut part = view.try_slice_mut(place).ok_or_else(outside)?;
            let received = stream.memcpy_dtoh(&part, own);
            received.map_err(driver(rank, "cuMemcpyDtoH"))?;
            stream.synchronize().map_err(driver(rank, "ncclReduce"))?;
            between(own)?;
            let sent = stream.memcpy_htod(&*own, &mut part);
            sent.map_err(driver(rank, "cuMemcpyHtoD"))?;
        }
        grouped(rank, "ncclBroadcast", || {
            led.iter().try_for_each(|(leader, part)| {
                let mut part = view.try_slice_mut((*part).clone()).ok_or_else(outside)?;
                let given = comm.broadcast_in_place(&mut part, *leader);
                given.map(|_| ()).map_err(nccl(rank, "ncclBroadcast"))
            })
        })?;
        let received = stream.memcpy_dtoh(&view, values);
        received.map_err(driver(rank, "cuMemcpyDtoH"))?;
        stream.synchronize().map_err(driver(rank, "ncclBroadcast"))
    }

    fn sum(&mut self, values: &mut [f32]) -> Result<()> {
        let (rank, stream, room) = (self.rank, &self.stream, self.room());
        let buffer = self.buffer.as_mut();
        let view = buffer.and_then(|buffer| buffer.try_slice_mut(..values.len()));
        let mut view = view.ok_or_else(|| too_small(rank, values.len(), room))?;
        let sent = stream.memcpy_htod(&*values, &mut view);
        sent.map_err(driver(rank, "cuMemcpyHtoD"))?;
        let summed = self.handle.0.all_reduce_in_place(&mut view, &ReduceOp::Sum);
        summed.map_err(nccl(rank, "ncclAllReduce"))?;
        let received = stream.memcpy_dtoh(&view, values);
        received.map_err(driver(rank, "cuMemcpyDtoH"))?;
        // Errors of the sum itself appear here.
        let done = stream.synchronize();
        done.map_err(driver(rank, "ncclAllReduce"))
    }

    #[cfg(feature = "cuda")]
    fn takes_lent(&self) -> bool {
        true
    }

    #[cfg(feature = "cuda")]
    fn sum_lent(&mut self, values: &Lent, parts: Option<Between<'_>>) -> Result<()> {
        let (rank, stream) = (self.rank, &self.stream);
        let waits = stream.wait(values.ready());
        waits.map_err(driver(rank, "cuStreamWaitEvent"))?;
        match parts {
            None => {
                let mut all = self.region(values, 0..values.len())?;
                let summed = self.handle.0.all_reduce_in_place(&mut all, &ReduceOp::Sum);
                summed.map_err(nccl(rank, "ncclAllReduce"))?;
            }
            Some(parts) => self.sum_lent_parts(values, parts)?,
        }
        let done = values.done();
        let recorded = done.record(&self.stream);
        recorded.map_err(driver(rank, "cuEventRecord"))?;
        self.lent.last = Some(Arc::clone(done));
        Ok(())
    }

    #[cfg(feature = "cuda")]
    fn settle(&mut self) -> Result<()> {
        let last = self.lent.last.take();
        let done = last.map_or(Ok(()), |done| done.synchronize());
        done.map_err(driver(self.rank, "NCCL's sums"))
    }

    fn describe(&self) -> String {
        let version = get_nccl_version().map_or_else(|_| "of unknown version".into(), dotted);
        format!("NCCL {version} on {}", self.name)
    }
}

#[cfg(feature = "cuda")]
impl Member {
    fn region<'a>(&'a self, values: &'a Lent, range: Range<usize>) -> Result<Region<'a>> {
        let (expected, got) = (range.end, values.len());
        Region::within(values, range, &self.stream)
            .ok_or_else(|| too_small(self.rank, expected, got))
    }

    /// Reduces parts to their leaders, which process theirs on the host, and broadcasts them.
    fn sum_lent_parts(&mut self, values: &Lent, (parts, between): Between<'_>) -> Result<()> {
        let (rank, me) = (self.rank, self.handle.0.rank());
        let led = || (0i32..).zip(parts).filter(|(_, part)| !part.is_empty());
        grouped(rank, "ncclReduce", || {
            led().try_for_each(|(leader, part)| {
                let mut part = self.region(values, part.clone())?;
                let comm = &self.handle.0;
                let summed = comm.reduce_in_place(&mut part, &ReduceOp::Sum, leader);
                summed.map(|_| ()).map_err(nccl(rank, "ncclReduce"))
            })
        })?;
        if let Some(own) = parts.get(me).filter(|part| !part.is_empty()) {
            // The previous part must have been fetched.
            self.settle()?;
            let mut shard = self.shard(own.len())?;
            let mut place = self.region(values, own.clone())?;
            let stream = &self.stream;
            let got = shard.as_mut_slice();
            let host = &mut got.map_err(driver(rank, "cuEventSynchronize"))?[..own.len()];
            let received = stream.memcpy_dtoh(&place, host);
            received.map_err(driver(rank, "cuMemcpyDtoH"))?;
            stream.synchronize().map_err(driver(rank, "ncclReduce"))?;
            between(host)?;
            let sent = stream.memcpy_htod(&*host, &mut place);
            sent.map_err(driver(rank, "cuMemcpyHtoD"))?;
            self.lent.shard = Some(shard);
        }
        grouped(rank, "ncclBroadcast", || {
            led().try_for_each(|(leader, part)| {
                let mut part = self.region(values, part.clone())?;
                let given = self.handle.0.broadcast_in_place(&mut part, leader);
                given.map(|_| ()).map_err(nccl(rank, "ncclBroadcast"))
            })
        })
    }

    /// Page-locked memory for this many values.
    fn shard(&mut self, length: usize) -> Result<PinnedHostSlice<f32>> {
        if let Some(shard) = self.lent.shard.take().filter(|shard| shard.len() >= length) {
            return Ok(shard);
        }
        // Not write-combined, because the host reads it.
        // SAFETY: every value is written before it is read.
        let shard = unsafe { (self.stream.context()).alloc_pinned_with_flags(length, 0) };
        shard.map_err(driver(self.rank, "cuMemHostAlloc"))
    }
}

/// Groups NCCL calls so that they start together; the group is closed even if a call fails.
fn grouped(rank: usize, call: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    group_start().map_err(nccl(rank, call))?;
    let done = work();
    let ended = group_end().map_err(nccl(rank, call));
    done.and(ended.map(|_| ()))
}

fn too_small(rank: usize, expected: usize, got: usize) -> CommError {
    CommError::Size {
        rank,
        what: "the buffer on the GPU".into(),
        expected,
        got,
    }
}

/// Formats NCCL's version number: since 2.9 its minor version has two digits, before that one.
fn dotted(version: i32) -> String {
    let (major, minor, patch) = match version {
        old if old < 10_000 => (old / 1000, old / 100 % 10, old % 100),
        new => (new / 10_000, new / 100 % 100, new % 100),
    };
    format!("{major}.{minor}.{patch}")
}

fn driver(rank: usize, call: &'static str) -> impl Fn(DriverError) -> CommError {
    move |error| CommError::Library {
        rank,
        call,
        reason: error.to_string(),
    }
}

fn nccl(rank: usize, call: &'static str) -> impl Fn(NcclError) -> CommError {
    move |error| CommError::Library {
        rank,
        call,
        reason: format!("{:?} (NCCL_DEBUG=WARN says more)", error.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_in_release_notes() {
        assert_eq!(dotted(22809), "2.28.9");
        assert_eq!(dotted(2708), "2.7.8");
    }
}
