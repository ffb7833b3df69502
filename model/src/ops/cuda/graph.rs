//! CUDA graphs: GPU work that is captured instead of run, and then launched as a whole any number of times.
//!
//! Tensors allocated and freed during capture lie in the graph's own memory, at fixed addresses. They may outlive the
//! launch and be freed by another graph. Copies from and to the host cannot be captured, because their host addresses
//! would be captured too; nor can synchronisation.

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
    /// During capture on this thread: the GPU tensor that is added to the keys of random bits.
    static KEY: RefCell<Option<Tensor>> = const { RefCell::new(None) };
}

/// The GPU tensor that is added to the keys of random bits in captured work, so that every launch can use a different
/// key. `None` outside capture.
pub(super) fn captured_key() -> Option<Tensor> {
    KEY.with_borrow(Option::clone)
}

/// A captured graph.
pub(crate) struct Graph(Mutex<CudaGraph>);

// SAFETY: CUDA wants one call at a time for a graph, from any thread; the mutex sees to it.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    /// Launches the graph once, in stream order.
    pub(crate) fn launch(&self) -> Result<()> {
        let graph = locked(&self.0);
        graph.launch().map_err(driver_error("cuGraphLaunch"))
    }
}

/// A capture in progress. When it ends, in any way, the stream executes work again.
struct Writing(&'static Gpu);

impl Writing {
    fn begin(gpu: &'static Gpu, key: &Tensor) -> Result<Self> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        (gpu.stream.begin_capture(mode)).map_err(driver_error("cuStreamBeginCapture"))?;
        WRITES.set(true);
        KEY.set(Some(key.clone()));
        Ok(Self(gpu))
    }

    /// Ends the capture and returns the graph, ready to launch, with its memory allocated.
    fn end(self) -> Result<Graph> {
        let gpu = self.0;
        // Errors from freeing tensors have not been reported yet.
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
        // Uploading makes a lack of memory show now rather than in the middle of a step. The memory stays allocated
        // until the memory of graphs is given back.
        graph.upload().map_err(driver_error("cuGraphUpload"))?;
        Ok(Graph(Mutex::new(graph)))
    }
}

impl Drop for Writing {
    /// Discards the capture.
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
        // Tensors freed after a failed call could not be freed: no memory was mapped for them.
        let _ = self.0.context.check_err();
    }
}

/// Captures the work that `work` puts on the stream, without executing it. Each launch adds the current value of `key`,
/// an i64, to the keys of its random bits.
///
/// # Errors
/// [`crate::gpu::GpuError::NotCaptured`] if `work` does something that cannot be captured, an error of `work` itself,
/// or that of a CUDA call; the stream is usable as before.
pub(crate) fn capture<T>(key: &Tensor, work: impl FnOnce() -> Result<T>) -> Result<(Graph, T)> {
    let gpu = gpu()?;
    // Keeps other threads from using the stream during capture.
    let _alone = gpu.stream_in_use.write();
    gpu.wait()?;
    let writing = Writing::begin(gpu, key)?;
    // If `work` fails, its tensors are freed during capture, in the graph that is discarded.
    let made = work()?;
    match writing.end() {
        Ok(graph) => Ok((graph, made)),
        Err(error) => {
            // No memory is mapped for its tensors, so they must not be freed.
            std::mem::forget(made);
            Err(error)
        }
    }
}

/// Uninitialised memory for a tensor on the GPU.
pub(crate) fn room(shape: &[usize], dtype: DType) -> Result<Tensor> {
    gpu()?.empty(shape, dtype)
}

/// The address of a tensor on the GPU.
pub(crate) fn address(tensor: &Tensor) -> Result<u64> {
    gpu()?.address(tensor)
}

/// Overwrites a tensor on the GPU with another one of the same shape, on any device.
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
