//! Large copies to the GPU through page-locked memory: the GPU copies one part while the host writes the next.
//!
//! From pageable memory the driver does the same on one core; here all cores write.

use super::device::{driver_error, failed};
use crate::error::Result;
use candle_core::cuda_backend::cudarc::driver::{
    CudaContext, CudaEvent, CudaStream, PinnedHostSlice, sys,
};
use rayon::prelude::*;
use std::sync::Arc;

/// The size of a part in bytes, and the number of parts.
const PART: usize = 16 << 20;
const PARTS: usize = 3;
/// Bytes per task.
const PIECE: usize = 1 << 20;
/// Smaller copies do not benefit.
pub(super) const LARGE: usize = 4 << 20;

/// Page-locked memory: each part with the event after which it may be overwritten.
pub(super) struct Staging {
    parts: Vec<(PinnedHostSlice<u8>, CudaEvent)>,
    next: usize,
}

impl Staging {
    /// Allocates the parts, with events of this kind.
    pub(super) fn new(context: &Arc<CudaContext>, flags: sys::CUevent_flags) -> Result<Self> {
        let part = |_| {
            let event = context
                .new_event(Some(flags))
                .map_err(driver_error("cuEventCreate"))?;
            // SAFETY: every byte is written before it is read.
            let memory = unsafe { context.alloc_pinned::<u8>(PART) };
            Ok((memory.map_err(driver_error("cuMemHostAlloc"))?, event))
        };
        Ok(Self {
            parts: (0..PARTS).map(part).collect::<Result<_>>()?,
            next: 0,
        })
    }

    /// Copies to an address on the GPU with room for as many bytes, in stream order.
    pub(super) fn copy(&mut self, stream: &CudaStream, address: u64, bytes: &[u8]) -> Result<()> {
        for (number, from) in bytes.chunks(PART).enumerate() {
            let at = self.next;
            self.next = (at + 1) % self.parts.len();
            let (memory, event) = &mut self.parts[at];
            // Waits until the GPU has copied the part's previous contents.
            event
                .synchronize()
                .map_err(driver_error("cuEventSynchronize"))?;
            let memory = memory
                .as_mut_slice()
                .map_err(driver_error("cuEventSynchronize"))?;
            let Some(to) = memory.get_mut(..from.len()) else {
                return Err(failed("copy to the GPU", "a part is longer than its place"));
            };
            to.par_chunks_mut(PIECE)
                .zip(from.par_chunks(PIECE))
                .for_each(|(to, from)| to.copy_from_slice(from));
            let place = address + (number * PART) as u64;
            // SAFETY: source and target have that many bytes; the source is not written before its event is over.
            let status = unsafe {
                sys::cuMemcpyHtoDAsync_v2(place, to.as_ptr().cast(), to.len(), stream.cu_stream())
            };
            status.result().map_err(driver_error("cuMemcpyHtoDAsync"))?;
            event
                .record(stream)
                .map_err(driver_error("cuEventRecord"))?;
        }
        Ok(())
    }
}
