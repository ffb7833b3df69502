//! Uploads of fields: copied on a separate stream while the GPU computes, and later normalised by a kernel.
//!
//! Events synchronise the streams: a copy waits until the previous contents of its slot have been read, and readers of
//! a slot wait for its copy. The host waits only before it overwrites page-locked memory that the GPU is still reading.

use super::device::{Gpu, driver_error, gpu};
use super::kernels::{Arg, ELEMENTWISE, int, long, suffix};
use super::stream::CaptureSafe;
use super::upload::Staging;
use crate::error::{ModelError, Result};
use crate::input::{Samples, Scaling, Stored, channels};
use crate::lock::locked;
use crate::ops::Backend;
use candle_core::cuda_backend::cudarc::driver::{CudaEvent, CudaStream, sys};
use candle_core::{DType, Tensor};
use std::fmt;
use std::sync::{Arc, Mutex};

/// The copy stream, and the page-locked memory from which it copies.
pub(super) struct Lane {
    stream: Arc<CudaStream>,
    staging: Mutex<Staging>,
}

impl Lane {
    pub(super) fn new(gpu: &Gpu) -> Result<Self> {
        let context = gpu.stream.context();
        let stream = context
            .new_stream()
            .map_err(driver_error("cuStreamCreate"))?;
        // The thread that waits for page-locked memory has nothing else to do, so it sleeps instead of spinning.
        let flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
        Ok(Self {
            stream,
            staging: Mutex::new(Staging::new(context, flags)?),
        })
    }
}

/// A GPU buffer for uploaded fields.
struct Slot {
    memory: CaptureSafe,
    bytes: usize,
    /// Recorded when the copy is done.
    copied: CudaEvent,
    /// Recorded when the contents have been read, and initially when the memory is allocated.
    read: CudaEvent,
}

impl Slot {
    fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        let flags = Some(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let event = || {
            let made = gpu.stream.context().new_event(flags);
            made.map_err(driver_error("cuEventCreate"))
        };
        let (copied, read) = (event()?, event()?);
        // The memory belongs to the compute stream, which may be capturing.
        let memory = {
            let _in_use = gpu.stream_in_use.read();
            let memory = gpu.empty(&[bytes.max(1)], DType::U8)?;
            (read.record(&gpu.stream)).map_err(driver_error("cuEventRecord"))?;
            memory.into()
        };
        Ok(Self {
            memory,
            bytes,
            copied,
            read,
        })
    }

    fn was_read(&self, gpu: &Gpu) -> Result<()> {
        (self.read.record(&gpu.stream)).map_err(driver_error("cuEventRecord"))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Memory is freed in the order of the compute stream, which must wait for the copy to it.
        let Ok(gpu) = gpu() else { return };
        let _in_use = gpu.stream_in_use.read();
        if let Err(error) = gpu.stream.wait(&self.copied) {
            tracing::error!("cuStreamWaitEvent: {error}");
        }
    }
}

/// Unused slots.
#[derive(Default)]
struct Free(Mutex<Vec<Slot>>);

impl Free {
    /// A slot of at least this many bytes, if one is unused.
    fn take(&self, bytes: usize) -> Option<Slot> {
        let mut slots = locked(&self.0);
        let fits = slots.iter().position(|slot| slot.bytes >= bytes)?;
        // The least recently used one, whose last reader has most likely finished.
        Some(slots.remove(fits))
    }

    fn give(&self, slot: Slot) {
        let mut slots = locked(&self.0);
        slots.push(slot);
    }
}

/// The per-channel offsets and factors, on the GPU.
struct Table {
    subtract: CaptureSafe,
    factor: CaptureSafe,
    fill: CaptureSafe,
}

impl Table {
    fn new(gpu: &Gpu, scaling: &Scaling) -> Result<Self> {
        let give = |values: &[f32]| gpu.give(values, &[values.len()]).map(CaptureSafe::from);
        Ok(Self {
            subtract: give(&scaling.subtract)?,
            factor: give(&scaling.factor)?,
            fill: give(&scaling.fill)?,
        })
    }
}

/// Uploads fields to this process's GPU. Each batch gets a buffer that later batches reuse.
///
/// It may be shared between threads. Its memory is freed when it is dropped and no upload is in flight.
pub struct Uploader {
    stored: Stored,
    tables: Vec<Table>,
    channels: usize,
    free: Arc<Free>,
}

impl fmt::Debug for Uploader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uploader({:?}, {} channels)", self.stored, self.channels)
    }
}

impl Uploader {
    /// An uploader to the device of this backend, for fields of this stored type with these normalisations; `None` if
    /// the host normalises.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if scalings differ in their numbers of channels; [`ModelError::Gpu`].
    pub fn of(backend: Backend, stored: Stored, scalings: &[Scaling]) -> Result<Option<Self>> {
        if !backend.is_gpu() {
            return Ok(None);
        }
        let channels = channels(scalings)?;
        let gpu = gpu()?;
        let table = |scaling| Table::new(gpu, scaling);
        Ok(Some(Self {
            stored,
            tables: scalings.iter().map(table).collect::<Result<_>>()?,
            channels,
            free: Arc::default(),
        }))
    }

    /// Starts copying samples, which may be modified as soon as this returns.
    ///
    /// # Errors
    /// [`ModelError::Gpu`], for instance if the GPU is out of memory.
    pub fn send(&self, bytes: &[u8]) -> Result<Arriving> {
        let gpu = gpu()?;
        let lane = gpu.lane()?;
        let slot = match self.free.take(bytes.len()) {
            Some(slot) => slot,
            None => Slot::new(gpu, bytes.len())?,
        };
        let address = gpu.address(&slot.memory)?;
        (lane.stream.wait(&slot.read)).map_err(driver_error("cuStreamWaitEvent"))?;
        let mut staging = locked(&lane.staging);
        let copied = staging.copy(&lane.stream, address, bytes);
        // Also after a copy that failed halfway: its first parts may be in flight.
        let recorded = slot.copied.record(&lane.stream);
        let arriving = Arriving {
            slot: Some(slot),
            bytes: bytes.len(),
            free: Arc::clone(&self.free),
        };
        copied?;
        recorded.map_err(driver_error("cuEventRecord"))?;
        Ok(arriving)
    }

    /// The samples, concatenated as `(b, h, w, c)` and normalised, on the GPU. Does not synchronise.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the upload has fewer samples of this size; [`ModelError::Gpu`].
    pub fn normalised(
        &self,
        samples: &[Samples<'_>],
        (h, w): (usize, usize),
        dtype: DType,
    ) -> Result<Tensor> {
        let c = self.channels;
        let sample_bytes = h * w * c * self.stored.bytes();
        self.check(samples, sample_bytes)?;
        let b: usize = samples.iter().map(|part| part.count).sum();
        let gpu = gpu()?;
        let y = gpu.empty(&[b, h, w, c], dtype)?;
        let kernel = format!(
            "normalise_{}_{}",
            suffix(self.stored.dtype())?,
            suffix(dtype)?
        );
        let mut at = 0;
        for part in samples {
            let (slot, table) = (part.arriving.slot()?, &self.tables[part.scaling]);
            let (first, length) = (part.first * sample_bytes, part.count * sample_bytes);
            let x = slot.memory.narrow(0, first, length)?;
            let place = y.narrow(0, at, part.count)?;
            at += part.count;
            let arguments = [
                (&place).into(),
                Arg::Null,
                (&x).into(),
                (&*table.subtract).into(),
                (&*table.factor).into(),
                (&*table.fill).into(),
                long(part.count * h * w),
                int(c),
            ];
            (gpu.stream.wait(&slot.copied)).map_err(driver_error("cuStreamWaitEvent"))?;
            let grid = gpu.pixels(part.count * h * w * c);
            gpu.launch_named(ELEMENTWISE, &kernel, grid, &arguments)?;
            slot.was_read(gpu)?;
        }
        Ok(y)
    }

    /// Checks that the samples lie within the upload and are not empty.
    fn check(&self, samples: &[Samples<'_>], sample_bytes: usize) -> Result<()> {
        let op = "normalisation of the input";
        let wrong = |what, expected: usize, got: usize| ModelError::Shape {
            op,
            what,
            expected: expected.to_string(),
            got: got.to_string(),
        };
        for part in samples {
            let (sent, end) = (part.arriving.bytes, part.first + part.count);
            if sent < end * sample_bytes {
                return Err(wrong("bytes", end * sample_bytes, sent));
            }
            if part.scaling >= self.tables.len() {
                return Err(wrong("scalings", self.tables.len(), part.scaling));
            }
        }
        if samples.iter().all(|part| part.count * sample_bytes == 0) {
            return Err(wrong("samples", 1, 0));
        }
        Ok(())
    }
}

/// Fields being uploaded.
pub struct Arriving {
    /// `None` only during `drop`.
    slot: Option<Slot>,
    bytes: usize,
    free: Arc<Free>,
}

impl fmt::Debug for Arriving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arriving({} bytes)", self.bytes)
    }
}

impl Arriving {
    fn slot(&self) -> Result<&Slot> {
        self.slot.as_ref().ok_or(ModelError::Config {
            key: "input",
            reason: "fields without memory: this is a bug".into(),
        })
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.free.give(slot);
        }
    }
}
