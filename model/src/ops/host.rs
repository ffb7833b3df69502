//! Conversions between candle tensors and slices in host memory.

use super::fast::CHUNK;
use super::value::Value;
use crate::error::{ModelError, Result};
use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;
use std::ops::{Deref, Range};

/// The values of a tensor as `V`: borrowed if the tensor stores that type, otherwise converted.
pub(crate) enum Typed<'a, V: Value> {
    /// The tensor's own memory.
    Borrowed(Box<dyn Deref<Target = Storage> + 'a>, Range<usize>),
    /// A converted copy (another type, or a view that is not contiguous).
    Owned(Vec<V>),
}

/// The values of a tensor as f32.
pub(crate) type Host<'a> = Typed<'a, f32>;

impl<'a, V: Value> Typed<'a, V> {
    /// The values of `tensor`, in row-major order.
    ///
    /// # Errors
    /// [`ModelError::DType`] unless it holds f32, bf16 or f16.
    pub(crate) fn of(op: &'static str, tensor: &'a Tensor) -> Result<Self> {
        if !matches!(tensor.dtype(), DType::F32 | DType::BF16 | DType::F16) {
            let got = tensor.dtype();
            return Err(ModelError::DType { op, got });
        }
        #[cfg(feature = "cuda")]
        if tensor.device().is_cuda() {
            let host = super::cuda::to_host(tensor)?;
            let copy = Typed::<V>::of(op, &host)?.into_values();
            return Ok(Self::Owned(copy));
        }
        let (storage, layout) = tensor.storage_and_layout();
        let Some((start, end)) = layout.contiguous_offsets() else {
            drop(storage);
            let flat = tensor.contiguous()?;
            let copy = Typed::<V>::of(op, &flat)?.into_values();
            return Ok(Self::Owned(copy));
        };
        match &*storage {
            Storage::Cpu(host) if V::slice(host).is_some() => {
                Ok(Self::Borrowed(Box::new(storage), start..end))
            }
            Storage::Cpu(CpuStorage::F32(values)) => {
                Ok(Self::Owned(convert(&values[start..end], |v| v)))
            }
            Storage::Cpu(CpuStorage::BF16(values)) => {
                Ok(Self::Owned(convert(&values[start..end], |v: bf16| {
                    v.widen()
                })))
            }
            Storage::Cpu(CpuStorage::F16(values)) => Ok(Self::Owned(of_f16(&values[start..end]))),
            _ => {
                drop(storage);
                let values: Vec<f32> = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
                Ok(Self::Owned(convert(&values, |v| v)))
            }
        }
    }
}

impl<V: Value> Typed<'_, V> {
    /// The values as a vector; converted values are moved, not copied.
    pub(crate) fn into_values(self) -> Vec<V> {
        match self {
            Self::Owned(values) => values,
            borrowed => borrowed.to_vec(),
        }
    }
}

/// Converts every value.
fn convert<T: Copy + Sync, V: Value>(values: &[T], widen: impl Fn(T) -> f32 + Sync) -> Vec<V> {
    let mut converted = vec![V::default(); values.len()];
    let chunks = converted
        .par_chunks_mut(CHUNK)
        .zip(values.par_chunks(CHUNK));
    chunks.for_each(|(to, from)| {
        to.iter_mut()
            .zip(from)
            .for_each(|(to, &from)| *to = V::narrow(widen(from)))
    });
    converted
}

/// Converts f16 to another type in batches: the processor converts eight values at a time, the scalar functions of
/// `half` one.
fn of_f16<V: Value>(values: &[f16]) -> Vec<V> {
    let mut converted = vec![V::default(); values.len()];
    let lines = converted
        .par_chunks_mut(CHUNK)
        .zip(values.par_chunks(CHUNK));
    lines.for_each(|(to, from)| {
        let mut wide = vec![0.0; from.len()];
        from.convert_to_f32_slice(&mut wide);
        to.iter_mut()
            .zip(wide)
            .for_each(|(to, wide)| *to = V::narrow(wide));
    });
    converted
}

/// Converts to f16, rounding to nearest; values beyond its range become infinite.
fn to_f16<V: Value>(values: &[V]) -> Vec<f16> {
    let mut converted = vec![f16::ZERO; values.len()];
    let lines = converted
        .par_chunks_mut(CHUNK)
        .zip(values.par_chunks(CHUNK));
    lines.for_each(|(to, from)| {
        let wide: Vec<f32> = from.iter().map(|v| v.widen()).collect();
        to.convert_from_f32_slice(&wide);
    });
    converted
}

impl<V: Value> Deref for Typed<'_, V> {
    type Target = [V];
    fn deref(&self) -> &[V] {
        match self {
            Self::Owned(values) => values,
            Self::Borrowed(storage, range) => match &***storage {
                Storage::Cpu(host) => match V::slice(host) {
                    Some(values) => &values[range.clone()],
                    None => unreachable!("`Typed::of` borrows storage of its own type only"),
                },
                _ => unreachable!("`Typed::of` borrows host storage only"),
            },
        }
    }
}

/// Makes a tensor of `values`, stored as `dtype`.
pub(crate) fn tensor<V: Value>(values: Vec<V>, shape: &[usize], dtype: DType) -> Result<Tensor> {
    if V::DTYPE == dtype {
        return Ok(Tensor::from_vec(values, shape, &Device::Cpu)?);
    }
    if dtype == DType::BF16 {
        let values: Vec<bf16> = convert(&values, V::widen);
        return Ok(Tensor::from_vec(values, shape, &Device::Cpu)?);
    }
    if dtype == DType::F16 {
        return Ok(Tensor::from_vec(to_f16(&values), shape, &Device::Cpu)?);
    }
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?)
}

/// The four extents of a BHWC tensor.
///
/// # Errors
/// [`ModelError::Shape`] if it does not have four axes, or one is empty.
pub(crate) fn bhwc(op: &'static str, what: &'static str, tensor: &Tensor) -> Result<[usize; 4]> {
    match *tensor.dims() {
        [b, h, w, c] if b * h * w * c > 0 => Ok([b, h, w, c]),
        ref other => Err(ModelError::Shape {
            op,
            what,
            expected: "(b, h, w, c)".into(),
            got: format!("{other:?}"),
        }),
    }
}

/// Checks an extent or shape against its expected value.
pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(
    op: &'static str,
    what: &'static str,
    expected: T,
    got: T,
) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(ModelError::Shape {
        op,
        what,
        expected: format!("{expected:?}"),
        got: format!("{got:?}"),
    })
}
