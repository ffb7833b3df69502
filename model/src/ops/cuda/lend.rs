//! Gradients on the GPU lent to another stream: that of a library that all-reduces them.

use super::device::{driver_error, gpu};
use super::kernels::{ELEMENTWISE, Grid, long};
use crate::error::Result;
use candle_core::Tensor;
use candle_core::cuda_backend::cudarc::driver::{CudaEvent, sys};
use std::fmt;
use std::sync::Arc;

/// f32 values on this process's GPU. The holder may modify them on any stream that first waits for [`Self::ready`] and
/// finally records [`Self::done`].
pub struct Lent {
    values: Tensor,
    address: u64,
    ready: CudaEvent,
    done: Arc<CudaEvent>,
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({} values)", self.len())
    }
}

impl Lent {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.values.elem_count()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of the values, valid as long as this lives.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The event, recorded on the compute stream, after which the values are complete.
    pub fn ready(&self) -> &CudaEvent {
        &self.ready
    }

    /// The event to record when the modification is complete.
    pub fn done(&self) -> &Arc<CudaEvent> {
        &self.done
    }

    /// Makes later work on the compute stream wait for [`Self::done`] as currently recorded; the host does not wait.
    pub(crate) fn take_back(&self) -> Result<()> {
        let stream = &gpu()?.stream;
        (stream.wait(&self.done)).map_err(driver_error("cuStreamWaitEvent"))
    }
}

/// Lends the values, multiplied by a factor.
pub(crate) fn lend(values: Tensor, factor: f32) -> Result<Lent> {
    let gpu = gpu()?;
    let n = values.elem_count();
    if factor != 1.0 {
        let arguments = [(&values).into(), (&values).into(), factor.into(), long(n)];
        let grid = Grid::flat(n);
        gpu.launch(ELEMENTWISE, "scale", values.dtype(), grid, &arguments)?;
    }
    let event = |flags| {
        let made = gpu.stream.context().new_event(Some(flags));
        made.map_err(driver_error("cuEventCreate"))
    };
    let ready = event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
    (ready.record(&gpu.stream)).map_err(driver_error("cuEventRecord"))?;
    Ok(Lent {
        address: gpu.address(&values)?,
        values,
        ready,
        // The host thread that waits for it has nothing else to do, so it sleeps instead of spinning.
        done: Arc::new(event(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC)?),
    })
}
