//! Copies between host memory and the GPU.

use super::device::{Gpu, driver_error, failed, gpu};
use super::upload::{LARGE, Staging};
use crate::error::{ModelError, Result};
use crate::lock::locked;
use crate::ops::host::{self, Typed};
use crate::profile;
use candle_core::cuda_backend::cudarc::driver::{DeviceRepr, sys};
use candle_core::{DType, Device, Tensor};
use half::{bf16, f16};

impl Gpu {
    /// The tensor on this GPU, contiguous; copied if necessary.
    pub(super) fn bring(&self, tensor: &Tensor) -> Result<Tensor> {
        if tensor.device().is_cuda() {
            if !tensor.is_contiguous() {
                return Err(failed(
                    "an operation on the GPU",
                    "its operand is not in one piece",
                ));
            }
            return Ok(tensor.clone());
        }
        let op = "copy to the GPU";
        match tensor.dtype() {
            DType::F32 => self.give::<f32>(&Typed::of(op, tensor)?, tensor.dims()),
            DType::BF16 => self.give::<bf16>(&Typed::of(op, tensor)?, tensor.dims()),
            DType::F16 => self.give(&tensor.flatten_all()?.to_vec1::<f16>()?, tensor.dims()),
            got => Err(ModelError::DType { op, got }),
        }
    }

    /// A tensor of these values.
    pub(super) fn give<T: candle_core::WithDType + DeviceRepr>(
        &self,
        values: &[T],
        shape: &[usize],
    ) -> Result<Tensor> {
        let tensor = self.empty(shape, T::DTYPE)?;
        self.write(&tensor, values)?;
        Ok(tensor)
    }

    /// Replaces a tensor's values.
    pub(super) fn write<T: candle_core::WithDType + DeviceRepr>(
        &self,
        tensor: &Tensor,
        values: &[T],
    ) -> Result<()> {
        host::expect(
            "copy to the GPU",
            "values",
            tensor.elem_count(),
            values.len(),
        )?;
        host::expect("copy to the GPU", "type", tensor.dtype(), T::DTYPE)?;
        if values.is_empty() {
            return Ok(());
        }
        self.must_be_done_now("a copy from the host")?;
        let address = self.address(tensor)?;
        self.bind()?;
        let (bytes, stream) = (size_of_val(values), self.stream.cu_stream());
        let _span = profile::span(|| format!("copied to the GPU, {bytes} bytes"));
        if bytes >= LARGE {
            let mut staging = locked(&self.staging);
            let staging = match &mut *staging {
                Some(staging) => staging,
                none => {
                    let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
                    none.insert(Staging::new(&self.context, flags)?)
                }
            };
            // SAFETY: the values are plain numbers, read as their bytes.
            let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), bytes) };
            return staging.copy(&self.stream, address, bytes);
        }
        // SAFETY: source and target have that many bytes; from pageable memory the call returns when the source was
        // read.
        let status =
            unsafe { sys::cuMemcpyHtoDAsync_v2(address, values.as_ptr().cast(), bytes, stream) };
        status.result().map_err(driver_error("cuMemcpyHtoDAsync"))
    }

    /// Reads a tensor's values.
    pub(super) fn take<T: candle_core::WithDType + DeviceRepr>(
        &self,
        tensor: &Tensor,
    ) -> Result<Vec<T>> {
        let mut values = vec![T::zero(); tensor.elem_count()];
        self.read(tensor, &mut values)?;
        self.wait()?;
        Ok(values)
    }

    /// Starts copying a tensor's values to the host; they are valid after [`Self::wait`].
    pub(super) fn read<T: candle_core::WithDType + DeviceRepr>(
        &self,
        tensor: &Tensor,
        values: &mut [T],
    ) -> Result<()> {
        host::expect(
            "copy from the GPU",
            "values",
            tensor.elem_count(),
            values.len(),
        )?;
        host::expect("copy from the GPU", "type", tensor.dtype(), T::DTYPE)?;
        if values.is_empty() {
            return Ok(());
        }
        self.must_be_done_now("a copy to the host")?;
        let address = self.address(tensor)?;
        self.bind()?;
        let (bytes, stream) = (size_of_val(values), self.stream.cu_stream());
        let _span = profile::span(|| format!("copied from the GPU, {bytes} bytes"));
        // SAFETY: source and target have that many bytes; into pageable memory the call returns when they are written.
        let status = unsafe {
            sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), address, bytes, stream)
        };
        status.result().map_err(driver_error("cuMemcpyDtoHAsync"))
    }
}

/// The same tensor in host memory.
pub(crate) fn to_host(tensor: &Tensor) -> Result<Tensor> {
    if !tensor.device().is_cuda() {
        return Ok(tensor.clone());
    }
    let gpu = gpu()?;
    let tensor = gpu.bring(tensor)?;
    let (shape, cpu) = (tensor.dims(), &Device::Cpu);
    Ok(match tensor.dtype() {
        DType::F32 => Tensor::from_vec(gpu.take::<f32>(&tensor)?, shape, cpu)?,
        DType::BF16 => Tensor::from_vec(gpu.take::<bf16>(&tensor)?, shape, cpu)?,
        DType::F16 => Tensor::from_vec(gpu.take::<f16>(&tensor)?, shape, cpu)?,
        DType::U8 => Tensor::from_vec(gpu.take::<u8>(&tensor)?, shape, cpu)?,
        DType::F64 => Tensor::from_vec(gpu.take::<f64>(&tensor)?, shape, cpu)?,
        got => {
            return Err(ModelError::DType {
                op: "copy from the GPU",
                got,
            });
        }
    })
}
