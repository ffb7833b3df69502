//! GPU memory: the available amount, the peak, and the size of tensors.
//!
//! This process's memory lies in two pools: one for immediate work, one for CUDA graphs. Neither can use the other's
//! free memory.

use super::device::{GPU, Gpu, driver_error};
use crate::error::Result;
use crate::gpu::{GpuError, tells_of_full_memory, tf32_is_allowed};
use crate::lock::locked;
use crate::ops::Convolution;
use candle_core::cuda_backend::cudarc::driver::{CudaContext, sys};
use candle_core::{DType, Tensor};

use sys::CUgraphMem_attribute as OfGraphs;
use sys::CUmemPool_attribute as OfPool;

/// Bytes of GPU memory that this process may use in total: free memory plus what it already holds.
pub fn available_memory() -> Option<u64> {
    let gpu = GPU.get()?;
    gpu.bind().ok()?;
    let (free, _) = gpu.context.mem_get_info().ok()?;
    let taken = OfPool::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    let taken = pool_attribute(&gpu.context, taken).unwrap_or(0);
    let of_graphs = OfGraphs::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
    Some(free as u64 + taken + graph_attribute(&gpu.context, of_graphs))
}

/// The maximum cuDNN workspace in bytes; for f32 fields it depends on the largest of them.
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

/// Peak bytes used since [`forget_peak`]: the sum of the peaks of both pools, which may have occurred at different
/// times.
pub fn peak_memory() -> Option<u64> {
    let context = &GPU.get()?.context;
    let of_graphs = graph_attribute(context, OfGraphs::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH);
    let most = pool_attribute(context, OfPool::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
    Some(most + of_graphs)
}

/// Resets the peak to the current use.
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

/// Returns unused memory to the driver, from which either pool can allocate it again.
///
/// # Errors
/// [`GpuError::Call`], or any earlier error of asynchronous work.
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

/// 0 if the query fails: no graph has memory then.
fn graph_attribute(context: &CudaContext, name: OfGraphs) -> u64 {
    let mut bytes = 0u64;
    // SAFETY: the value is of the attribute's type.
    let status = unsafe {
        sys::cuDeviceGetGraphMemAttribute(context.cu_device(), name, (&raw mut bytes).cast())
    };
    status.result().map_or(0, |()| bytes)
}

impl Gpu {
    /// Returns unused memory to the driver; all work on the stream must be done.
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

    /// Uninitialised memory for a tensor.
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

/// Keeps freed memory in the process: by default it is returned to the driver at every synchronisation.
pub(super) fn keep_memory(context: &CudaContext) -> Result<()> {
    let pool = memory_pool(context)?;
    let mut all = u64::MAX;
    let name = OfPool::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool is the device's own, the value is of the attribute's type.
    let status = unsafe { sys::cuMemPoolSetAttribute(pool, name, (&raw mut all).cast()) };
    let call = "cuMemPoolSetAttribute";
    status.result().map_err(driver_error(call))
}

/// The pool from which all memory of the stream is allocated.
fn memory_pool(context: &CudaContext) -> Result<sys::CUmemoryPool> {
    let mut pool = std::ptr::null_mut();
    // SAFETY: the place is writable.
    let status = unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()) };
    let call = "cuDeviceGetDefaultMemPool";
    status.result().map_err(driver_error(call))?;
    Ok(pool)
}
