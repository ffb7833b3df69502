//! Who puts work on the GPU's one stream: the thread that computes, others beside it, or only one that captures its
//! work.

use super::device::{GPU, Gpu, gpu};
use crate::error::Result;
use crate::gpu::GpuError;
use candle_core::Tensor;
use candle_core::cuda_backend::cudarc::driver::{CudaEvent, sys};
use std::cell::Cell;
use std::ops::Deref;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

thread_local! {
    /// Whether this thread captures what it puts on the stream.
    pub(super) static WRITES: Cell<bool> = const { Cell::new(false) };
}

/// Whether the stream takes work of several threads, or only of the one that captures its own.
#[derive(Default)]
pub(super) struct StreamInUse(RwLock<()>);

impl StreamInUse {
    /// Until this is gone nobody else captures what is put on the stream.
    pub(super) fn read(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let free = !WRITES.get();
        free.then(|| self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Until this is gone nobody else puts anything on it.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gpu {
    /// Refuses, while work is captured, what cannot be.
    pub(super) fn must_be_done_now(&self, what: &'static str) -> Result<()> {
        match WRITES.get() {
            true => Err(GpuError::NotCaptured { what }.into()),
            false => Ok(()),
        }
    }
}

/// A tensor that a thread beside the one that computes may give back: not while work is captured, which would free
/// it at every launch.
pub(super) struct Beside(Option<Tensor>);

impl From<Tensor> for Beside {
    fn from(tensor: Tensor) -> Self {
        Self(Some(tensor))
    }
}

impl Deref for Beside {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        match &self.0 {
            Some(tensor) => tensor,
            None => unreachable!("it is taken when this is dropped"),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Ok(gpu) = gpu() {
            let _in_use = gpu.stream_in_use.read();
            self.0 = None;
        }
    }
}

/// A place in the stream, and when the GPU came by.
#[derive(Debug)]
pub(crate) struct Mark(CudaEvent);

impl Mark {
    /// The end of the stream as it is now; none if no GPU is open, or while work is captured.
    pub(crate) fn here() -> Option<Self> {
        let gpu = GPU.get().filter(|_| !WRITES.get())?;
        let timed = sys::CUevent_flags::CU_EVENT_DEFAULT;
        let event = gpu.context.new_event(Some(timed)).ok()?;
        event.record(&gpu.stream).ok()?;
        Some(Self(event))
    }

    /// The GPU's time from here to a later place; waits until it is there.
    pub(crate) fn until(&self, later: &Self) -> Option<Duration> {
        let milliseconds = self.0.elapsed_ms(&later.0).ok()?;
        Duration::try_from_secs_f32(milliseconds / 1e3).ok()
    }
}
