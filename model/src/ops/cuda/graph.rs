//! Work of the GPU that is captured instead of done, and then done by one call as often as wanted.
//!
//! Tensors that come and go in it lie in memory of its own, at addresses that stay: they may outlive the work and be
//! freed by other work. Copies from and to the host cannot be captured, because their addresses would be; nor can
//! waiting.

use super::device::{Gpu, driver_error, failed, gpu};
use super::elementwise::like;
use super::stream::WRITES;
use crate::error::Result;
use crate::lock::locked;
use crate::ops::host;
use candle_core::cuda_backend::cudarc::driver::{CudaGraph, sys};
use candle_core::{DType, Tensor};
use std::cell::RefCell;
use std::sync::Mutex;

thread_local! {
    /// While this thread captures work: the value on the GPU that is added to the keys of random bits.
    static KEY: RefCell<Option<Tensor>> = const { RefCell::new(None) };
}

/// What is added to the keys of random bits of the work that is captured: a value on the GPU, so that every launch can
/// have another one. None if nothing is captured.
pub(super) fn captured_key() -> Option<Tensor> {
    KEY.with_borrow(Option::clone)
}

/// What was captured.
pub(crate) struct Graph(Mutex<CudaGraph>);

// SAFETY: CUDA wants one call at a time for a graph, from any thread; the mutex sees to it.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    /// Does it once more, in the stream's order.
    pub(crate) fn launch(&self) -> Result<()> {
        let graph = locked(&self.0);
        graph.launch().map_err(driver_error("cuGraphLaunch"))
    }
}

/// Work that is being captured. However that ends, the stream then does again what is put on it.
struct Writing(&'static Gpu);

impl Writing {
    fn begin(gpu: &'static Gpu, key: &Tensor) -> Result<Self> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        (gpu.stream.begin_capture(mode)).map_err(driver_error("cuStreamBeginCapture"))?;
        WRITES.set(true);
        KEY.set(Some(key.clone()));
        Ok(Self(gpu))
    }

    /// What was captured, ready to be launched, with the memory that it takes.
    fn end(self) -> Result<Graph> {
        let gpu = self.0;
        // What failed while tensors were freed has not been reported yet.
        (gpu.context.check_err()).map_err(driver_error("a call that was to be written down"))?;
        std::mem::forget(self);
        WRITES.set(false);
        KEY.take();
        let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = match gpu.stream.end_capture(flags) {
            Ok(Some(graph)) => graph,
            Ok(None) => return Err(failed("cuStreamEndCapture", "nothing was written down")),
            Err(error) => return Err(driver_error("cuGraphInstantiate")(error)),
        };
        // So that too little memory shows now and not in the middle of a step; what it takes stays until memory of
        // graphs is given back.
        graph.upload().map_err(driver_error("cuGraphUpload"))?;
        Ok(Graph(Mutex::new(graph)))
    }
}

impl Drop for Writing {
    /// Nothing of it is kept.
    fn drop(&mut self) {
        WRITES.set(false);
        KEY.take();
        let (stream, mut graph) = (self.0.stream.cu_stream(), std::ptr::null_mut());
        // SAFETY: the stream is capturing; what it gives is destroyed once.
        unsafe {
            let ended = sys::cuStreamEndCapture(stream, &mut graph);
            if ended == sys::CUresult::CUDA_SUCCESS && !graph.is_null() {
                let _ = sys::cuGraphDestroy(graph);
            }
        }
        // Tensors that were freed after a call had failed could not be: there was no memory behind them.
        let _ = self.0.context.check_err();
    }
}

/// Captures what `work` puts on the stream; none of it is done. Whenever it is launched, `key` is added to the keys of
/// its random bits: an i64, as it is then.
///
/// # Errors
/// [`crate::gpu::GpuError::NotCaptured`] if `work` does what cannot be captured, its own error, or that of a call;
/// the stream goes on as before.
pub(crate) fn capture<T>(key: &Tensor, work: impl FnOnce() -> Result<T>) -> Result<(Graph, T)> {
    let gpu = gpu()?;
    // Nobody else puts anything on the stream meanwhile.
    let _alone = gpu.stream_in_use.write();
    gpu.wait()?;
    let writing = Writing::begin(gpu, key)?;
    // What it made is gone when it fails, before the end: freed in what is thrown away.
    let made = work()?;
    match writing.end() {
        Ok(graph) => Ok((graph, made)),
        Err(error) => {
            // There is no memory behind its tensors that could be given back.
            std::mem::forget(made);
            Err(error)
        }
    }
}

/// Memory for a tensor on the GPU, not written yet.
pub(crate) fn room(shape: &[usize], dtype: DType) -> Result<Tensor> {
    gpu()?.empty(shape, dtype)
}

/// Where a tensor on the GPU lies.
pub(crate) fn address(tensor: &Tensor) -> Result<u64> {
    gpu()?.address(tensor)
}

/// Replaces the values of a tensor on the GPU by those of another one of the same shape, wherever that lies.
pub(crate) fn copy_into(from: &Tensor, to: &Tensor) -> Result<()> {
    let gpu = gpu()?;
    host::expect(
        "copy on the GPU",
        "shape",
        format!("{:?}", to.dims()),
        format!("{:?}", from.dims()),
    )?;
    let from = like(gpu, from, to.dtype())?;
    let bytes = to.elem_count() * to.dtype().size_in_bytes();
    let (source, target) = (gpu.address(&from)?, gpu.address(to)?);
    gpu.bind()?;
    // SAFETY: both have that many bytes; the source is freed in the stream's order.
    let status =
        unsafe { sys::cuMemcpyDtoDAsync_v2(target, source, bytes, gpu.stream.cu_stream()) };
    status.result().map_err(driver_error("cuMemcpyDtoDAsync"))
}
