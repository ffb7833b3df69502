//! Memory of the GPU: how much there is, how much was used, and what a tensor takes of it.
//!
//! Two pools hold what this process has taken: one for what is done at once, one for what CUDA graphs take and give
//! back. Neither uses what the other has free.

use super::device::{GPU, Gpu, driver_error};
use crate::error::Result;
use crate::gpu::{GpuError, tells_of_full_memory, tf32_is_allowed};
use crate::lock::locked;
use crate::ops::Convolution;
use candle_core::cuda_backend::cudarc::driver::{CudaContext, sys};
use candle_core::{DType, Tensor};

use sys::CUgraphMem_attribute as OfGraphs;
use sys::CUmemPool_attribute as OfPool;

/// Bytes of its memory that this process may use in all: what is free, and what it has taken already.
pub fn available_memory() -> Option<u64> {
    let gpu = GPU.get()?;
    gpu.bind().ok()?;
    let (free, _) = gpu.context.mem_get_info().ok()?;
    let taken = OfPool::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    let taken = pool_attribute(&gpu.context, taken).unwrap_or(0);
    let of_graphs = OfGraphs::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
    Some(free as u64 + taken + graph_attribute(&gpu.context, of_graphs))
}

/// Bytes that cuDNN works in at most, beside its operands and results; for fields of f32, for the largest of them.
pub(crate) fn working_memory<'a>(f32s: impl Iterator<Item = &'a Convolution>) -> u64 {
    let cudnn = GPU.get().map(|gpu| &gpu.cudnn);
    cudnn.map_or(0, |cudnn| {
        let cudnn = locked(cudnn);
        let most = cudnn.most_memory(None);
        let of_f32s = f32s
            .filter(|_| !tf32_is_allowed())
            .map(|conv| cudnn.most_memory(Some((conv.x, conv.y))));
        of_f32s.fold(most, usize::max) as u64
    })
}

/// Bytes of its memory that this process has used since [`forget_peak`]: the most of what was done at once and the most
/// of graphs, which may not have been at the same time.
pub fn peak_memory() -> Option<u64> {
    let context = &GPU.get()?.context;
    let of_graphs = graph_attribute(context, OfGraphs::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH);
    let most = pool_attribute(context, OfPool::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
    Some(most + of_graphs)
}

/// Counts the peak from what is used now.
pub fn forget_peak() {
    let Some(gpu) = GPU.get() else { return };
    let Ok(pool) = memory_pool(&gpu.context) else {
        return;
    };
    let mut none = 0u64;
    let (most, of_graphs) = (
        OfPool::CU_MEMPOOL_ATTR_USED_MEM_HIGH,
        OfGraphs::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
    );
    // SAFETY: the value is of the attributes' type. Where it fails the peak is that of the whole process, which is no
    // less.
    let _ = unsafe {
        sys::cuMemPoolSetAttribute(pool, most, (&raw mut none).cast());
        let device = gpu.context.cu_device();
        sys::cuDeviceSetGraphMemAttribute(device, of_graphs, (&raw mut none).cast())
    };
}

/// Gives memory that nothing uses back to the driver, from where either pool takes it again.
///
/// # Errors
/// [`GpuError::Call`], or that of work that went wrong before.
pub(crate) fn give_back_memory() -> Result<()> {
    match GPU.get() {
        Some(gpu) => {
            gpu.wait()?;
            gpu.give_back_memory()
        }
        None => Ok(()),
    }
}

fn pool_attribute(context: &CudaContext, name: OfPool) -> Option<u64> {
    let pool = memory_pool(context).ok()?;
    let mut bytes = 0u64;
    // SAFETY: the pool is the device's own, the value is of the attribute's type.
    let status = unsafe { sys::cuMemPoolGetAttribute(pool, name, (&raw mut bytes).cast()) };
    status.result().ok().map(|()| bytes)
}

/// None where it fails: then no graph has any.
fn graph_attribute(context: &CudaContext, name: OfGraphs) -> u64 {
    let mut bytes = 0u64;
    // SAFETY: the value is of the attribute's type.
    let status = unsafe {
        sys::cuDeviceGetGraphMemAttribute(context.cu_device(), name, (&raw mut bytes).cast())
    };
    status.result().map_or(0, |()| bytes)
}

impl Gpu {
    /// Gives memory that nothing uses back to the driver; what was put on the stream must be done.
    pub(super) fn give_back_memory(&self) -> Result<()> {
        let pool = memory_pool(&self.context)?;
        // SAFETY: the pool is the device's own.
        let status = unsafe { sys::cuMemPoolTrimTo(pool, 0) };
        status.result().map_err(driver_error("cuMemPoolTrimTo"))?;
        // SAFETY: a call without operands of ours.
        let status = unsafe { sys::cuDeviceGraphMemTrim(self.context.cu_device()) };
        status
            .result()
            .map_err(driver_error("cuDeviceGraphMemTrim"))
    }

    /// Memory for a tensor, not written yet.
    pub(super) fn empty(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        // SAFETY: the caller writes every value before anything reads it.
        let made = unsafe { Tensor::empty(shape, dtype, &self.device) };
        made.map_err(|error| {
            if !tells_of_full_memory(&error.to_string()) {
                return error.into();
            }
            let asked = shape.iter().product::<usize>() * dtype.size_in_bytes();
            let (free, total) = self.context.mem_get_info().unwrap_or_default();
            let mb = |bytes: usize| bytes as u64 >> 20;
            let (asked_mb, free_mb, total_mb) = (mb(asked), mb(free), mb(total));
            GpuError::OutOfMemory {
                asked_mb,
                free_mb,
                total_mb,
            }
            .into()
        })
    }
}

/// Freed memory stays with the process: by default it goes back to the driver whenever the stream is waited for.
pub(super) fn keep_memory(context: &CudaContext) -> Result<()> {
    let pool = memory_pool(context)?;
    let mut all = u64::MAX;
    let name = OfPool::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool is the device's own, the value is of the attribute's type.
    let status = unsafe { sys::cuMemPoolSetAttribute(pool, name, (&raw mut all).cast()) };
    let call = "cuMemPoolSetAttribute";
    status.result().map_err(driver_error(call))
}

/// Where all its memory comes from.
fn memory_pool(context: &CudaContext) -> Result<sys::CUmemoryPool> {
    let mut pool = std::ptr::null_mut();
    // SAFETY: the place is writable.
    let status = unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()) };
    let call = "cuDeviceGetDefaultMemPool";
    status.result().map_err(driver_error(call))?;
    Ok(pool)
}
