//! Elementwise operations.

use super::device::{Gpu, gpu};
use super::kernels::{Arg, ELEMENTWISE, Grid, long, suffix};
use crate::error::Result;
use crate::ops::Marks;
use candle_core::{DType, Tensor};

/// A new tensor like `x`, written by a kernel with the arguments y, x, `more` and the number of values.
fn map(name: &str, x: &Tensor, more: &[Arg<'_>]) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let y = gpu.empty(x.dims(), x.dtype())?;
    let n = x.elem_count();
    let arguments = [&[(&y).into(), (&x).into()], more, &[long(n)]].concat();
    gpu.launch(ELEMENTWISE, name, x.dtype(), Grid::flat(n), &arguments)?;
    Ok(y)
}

/// As [`map`] for two tensors; the result has the type of the first.
fn zip(name: &str, a: &Tensor, b: &Tensor, more: &[Arg<'_>]) -> Result<Tensor> {
    let gpu = gpu()?;
    let a = gpu.bring(a)?;
    let b = like(gpu, b, a.dtype())?;
    let y = gpu.empty(a.dims(), a.dtype())?;
    let n = a.elem_count();
    let arguments = [&[(&y).into(), (&a).into(), (&b).into()], more, &[long(n)]].concat();
    gpu.launch(ELEMENTWISE, name, a.dtype(), Grid::flat(n), &arguments)?;
    Ok(y)
}

/// The tensor on the GPU, converted to a type.
pub(super) fn like(gpu: &Gpu, x: &Tensor, dtype: DType) -> Result<Tensor> {
    let x = gpu.bring(x)?;
    if x.dtype() == dtype {
        return Ok(x);
    }
    let y = gpu.empty(x.dims(), dtype)?;
    let n = x.elem_count();
    let name = format!("cast_{}_{}", suffix(x.dtype())?, suffix(dtype)?);
    let arguments = [(&y).into(), (&x).into(), long(n)];
    gpu.launch_named(ELEMENTWISE, &name, Grid::flat(n), &arguments)?;
    Ok(y)
}

pub fn convert(x: &Tensor, dtype: DType) -> Result<Tensor> {
    like(gpu()?, x, dtype)
}

pub fn relu(x: &Tensor) -> Result<Tensor> {
    map("relu", x, &[])
}

pub fn relu_backward(dy: &Tensor, y: &Tensor) -> Result<Tensor> {
    zip("relu_backward", dy, y, &[])
}

pub fn leaky_relu(x: &Tensor, slope: f32) -> Result<Tensor> {
    map("leaky_relu", x, &[slope.into()])
}

pub fn leaky_relu_backward(dy: &Tensor, y: &Tensor, slope: f32) -> Result<Tensor> {
    zip("leaky_relu_backward", dy, y, &[slope.into()])
}

pub fn add(a: &Tensor, b: &Tensor, dtype: DType) -> Result<Tensor> {
    zip("add", &convert(a, dtype)?, b, &[])
}

pub fn scale(x: &Tensor, factor: f32) -> Result<Tensor> {
    map("scale", x, &[factor.into()])
}

/// `threshold` and `keep` are those of the CPU loops, so that the same values are dropped.
pub fn dropout(x: &Tensor, key: u64, threshold: u64, keep: f32) -> Result<Tensor> {
    let more = super::graph::captured_key();
    let arguments = [
        key.into(),
        more.as_ref().into(),
        threshold.into(),
        keep.into(),
    ];
    map("dropout", x, &arguments)
}

pub fn positive(y: &Tensor) -> Result<Marks> {
    let gpu = gpu()?;
    let y = gpu.bring(y)?;
    let n = y.elem_count();
    let bits = gpu.empty(&[n.div_ceil(8)], DType::U8)?;
    let arguments = [(&bits).into(), (&y).into(), long(n)];
    let grid = Grid::flat(n);
    gpu.launch(ELEMENTWISE, "positive", y.dtype(), grid, &arguments)?;
    Ok(Marks::Gpu(bits))
}

pub fn masked(dy: &Tensor, bits: &Marks) -> Result<Tensor> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let bits = marks(gpu, bits)?;
    let dx = gpu.empty(dy.dims(), dy.dtype())?;
    let n = dy.elem_count();
    let arguments = [(&dx).into(), (&dy).into(), (&bits).into(), long(n)];
    gpu.launch(ELEMENTWISE, "masked", dy.dtype(), Grid::flat(n), &arguments)?;
    Ok(dx)
}

/// The marks on the GPU, copied there if necessary.
pub(super) fn marks(gpu: &Gpu, marks: &Marks) -> Result<Tensor> {
    match marks {
        Marks::Host(bytes) => gpu.give(bytes, &[bytes.len()]),
        Marks::Gpu(bytes) => Ok(bytes.clone()),
    }
}
