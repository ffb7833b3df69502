//! Access to the GPU's only stream: shared between threads, or exclusive to a thread that captures its work.

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
    /// Whether this thread is capturing its work on the stream.
    pub(super) static WRITES: Cell<bool> = const { Cell::new(false) };
}

/// Controls whether the stream accepts work of all threads, or only of the one that captures.
#[derive(Default)]
pub(super) struct StreamInUse(RwLock<()>);

impl StreamInUse {
    /// Prevents other threads from capturing until the guard is dropped.
    pub(super) fn read(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let free = !WRITES.get();
        free.then(|| self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prevents other threads from using the stream until the guard is dropped.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gpu {
    /// Returns an error during capture, for operations that cannot be captured.
    pub(super) fn must_be_done_now(&self, what: &'static str) -> Result<()> {
        match WRITES.get() {
            true => Err(GpuError::NotCaptured { what }.into()),
            false => Ok(()),
        }
    }
}

/// A tensor that a thread other than the computing one may free. It must not do so during capture, which would free it
/// at every launch.
pub(super) struct CaptureSafe(Option<Tensor>);

impl From<Tensor> for CaptureSafe {
    fn from(tensor: Tensor) -> Self {
        Self(Some(tensor))
    }
}

impl Deref for CaptureSafe {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        match &self.0 {
            Some(tensor) => tensor,
            None => unreachable!("it is taken when this is dropped"),
        }
    }
}

impl Drop for CaptureSafe {
    fn drop(&mut self) {
        if let Ok(gpu) = gpu() {
            let _in_use = gpu.stream_in_use.read();
            self.0 = None;
        }
    }
}

/// A marker in the stream, for timing.
#[derive(Debug)]
pub(crate) struct Mark(CudaEvent);

impl Mark {
    /// Records the current end of the stream; `None` if no GPU is open, or during capture.
    pub(crate) fn here() -> Option<Self> {
        let gpu = GPU.get().filter(|_| !WRITES.get())?;
        let timed = sys::CUevent_flags::CU_EVENT_DEFAULT;
        let event = gpu.context.new_event(Some(timed)).ok()?;
        event.record(&gpu.stream).ok()?;
        Some(Self(event))
    }

    /// The GPU time from here to a later marker; waits until the GPU reaches that.
    pub(crate) fn until(&self, later: &Self) -> Option<Duration> {
        let milliseconds = self.0.elapsed_ms(&later.0).ok()?;
        Duration::try_from_secs_f32(milliseconds / 1e3).ok()
    }
}
