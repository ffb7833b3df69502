//! Between candle tensors and plain slices in host memory.

use crate::error::{ModelError, Result};
use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use std::ops::{Deref, Range};

/// The values of a tensor as `f32`: borrowed where they are stored so, converted otherwise.
pub(crate) enum Host<'a> {
    /// The tensor's own memory.
    Borrowed(Box<dyn Deref<Target = Storage> + 'a>, Range<usize>),
    /// A converted copy (half precisions, or a view that is not contiguous).
    Owned(Vec<f32>),
}

impl<'a> Host<'a> {
    /// The values of `tensor`, in row-major order.
    ///
    /// # Errors
    /// [`ModelError::DType`] unless it holds f32, bf16 or f16.
    pub(crate) fn of(op: &'static str, tensor: &'a Tensor) -> Result<Self> {
        match tensor.dtype() {
            DType::F32 => {}
            DType::BF16 | DType::F16 => {
                return Ok(Self::Owned(
                    tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?,
                ));
            }
            got => return Err(ModelError::DType { op, got }),
        }
        let (storage, layout) = tensor.storage_and_layout();
        let is_host = matches!(&*storage, Storage::Cpu(CpuStorage::F32(_)));
        match layout.contiguous_offsets() {
            Some((start, end)) if is_host => Ok(Self::Borrowed(Box::new(storage), start..end)),
            _ => {
                drop(storage);
                Ok(Self::Owned(tensor.flatten_all()?.to_vec1()?))
            }
        }
    }
}

impl Deref for Host<'_> {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        match self {
            Self::Owned(values) => values,
            Self::Borrowed(storage, range) => match &***storage {
                Storage::Cpu(CpuStorage::F32(values)) => &values[range.clone()],
                _ => unreachable!("`Host::of` borrows f32 host storage only"),
            },
        }
    }
}

/// A tensor of `values`, stored as `dtype`.
pub(crate) fn tensor(values: Vec<f32>, shape: &[usize], dtype: DType) -> Result<Tensor> {
    let tensor = Tensor::from_vec(values, shape, &Device::Cpu)?;
    Ok(if dtype == DType::F32 {
        tensor
    } else {
        tensor.to_dtype(dtype)?
    })
}

/// The four extents of a BHWC tensor.
///
/// # Errors
/// [`ModelError::Shape`] if it has another rank or an empty axis.
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

/// Checks one extent or shape against what it must be.
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
