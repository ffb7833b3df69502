//! Softmax, the segmentation loss with its gradient, and argmax.

use super::device::{Gpu, gpu};
use super::elementwise::like;
use super::kernels::{Grid, LOSS, int, long};
use super::partial;
use crate::error::Result;
use crate::ops::loss::{Focal, PixelRule};
use candle_core::{DType, Tensor};

/// The weighted sum over pixels, and the gradient, f32.
pub fn segmentation(logits: &Tensor, labels: &[u8], rule: &PixelRule<'_>) -> Result<(f64, Tensor)> {
    let gpu = gpu()?;
    let logits = gpu.bring(logits)?;
    let (pixels, k) = (labels.len(), rule.class_weights.len());
    let labels = gpu.give(labels, &[pixels])?;
    let weights = gpu.give(rule.class_weights, &[k])?;
    let Focal { alpha, gamma } = rule.focal.unwrap_or(Focal {
        alpha: 1.0,
        gamma: 0.0,
    });
    let gradient = gpu.empty(logits.dims(), DType::F32)?;
    let grid = Grid::loss(pixels);
    let partial = partial(gpu, grid.width())?;
    let arguments = [
        (&partial).into(),
        (&gradient).into(),
        (&logits).into(),
        (&labels).into(),
        (&weights).into(),
        alpha.into(),
        gamma.into(),
        rule.factor.into(),
        long(pixels),
        int(k),
    ];
    gpu.launch(LOSS, "segmentation_loss", logits.dtype(), grid, &arguments)?;
    Ok((sum_of(gpu, &partial, grid)?, gradient))
}

/// The sum of the partial sums of a grid's blocks.
fn sum_of(gpu: &Gpu, partial: &Tensor, grid: Grid) -> Result<f64> {
    let sum = gpu.empty(&[1], DType::F64)?;
    let arguments = [(&sum).into(), partial.into(), int(grid.width())];
    gpu.launch_named(LOSS, "sum_partials", Grid::blocks(1), &arguments)?;
    let sum: Vec<f64> = gpu.take(&sum)?;
    Ok(sum[0])
}

/// The sum of (made − fields)², and `slope` · (made − fields), f32. Channels of `made` beyond those of `fields` are
/// ignored.
pub fn squared_error(
    made: &Tensor,
    fields: &Tensor,
    slope: f32,
    [wide, channels]: [usize; 2],
) -> Result<(f64, Tensor)> {
    let gpu = gpu()?;
    // If the types differ, both are converted to f32, which represents either exactly.
    let dtype = match made.dtype() == fields.dtype() {
        true => made.dtype(),
        false => DType::F32,
    };
    let (made, fields) = (like(gpu, made, dtype)?, like(gpu, fields, dtype)?);
    let pixels = made.elem_count() / wide;
    let gradient = gpu.empty(made.dims(), DType::F32)?;
    let grid = Grid::loss(made.elem_count());
    let partial = partial(gpu, grid.width())?;
    let arguments = [
        (&partial).into(),
        (&gradient).into(),
        (&made).into(),
        (&fields).into(),
        slope.into(),
        long(pixels),
        int(wide),
        int(channels),
    ];
    gpu.launch(LOSS, "squared_error", dtype, grid, &arguments)?;
    Ok((sum_of(gpu, &partial, grid)?, gradient))
}

pub fn softmax(logits: &Tensor) -> Result<Tensor> {
    let gpu = gpu()?;
    let logits = gpu.bring(logits)?;
    let k = logits.dims().last().copied().unwrap_or(1);
    let y = gpu.empty(logits.dims(), DType::F32)?;
    let pixels = y.elem_count() / k;
    let arguments = [(&y).into(), (&logits).into(), long(pixels), int(k)];
    let grid = Grid::flat(pixels);
    gpu.launch(LOSS, "softmax", logits.dtype(), grid, &arguments)?;
    Ok(y)
}

pub fn argmax(logits: &Tensor) -> Result<Vec<u8>> {
    let gpu = gpu()?;
    let logits = gpu.bring(logits)?;
    let k = logits.dims().last().copied().unwrap_or(1);
    let pixels = logits.elem_count() / k;
    let y = gpu.empty(&[pixels], DType::U8)?;
    let arguments = [(&y).into(), (&logits).into(), long(pixels), int(k)];
    let grid = Grid::flat(pixels);
    gpu.launch(LOSS, "argmax", logits.dtype(), grid, &arguments)?;
    gpu.take(&y)
}
