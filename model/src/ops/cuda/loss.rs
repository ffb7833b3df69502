//! Softmax, the loss of a segmentation with its gradient, and the class of the largest logit.

use super::device::gpu;
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
    let sum = gpu.empty(&[1], DType::F64)?;
    let arguments = [(&sum).into(), (&partial).into(), int(grid.width())];
    gpu.launch_named(LOSS, "sum_partials", Grid::blocks(1), &arguments)?;
    let sum: Vec<f64> = gpu.take(&sum)?;
    Ok((sum[0], gradient))
}

pub fn softmax(logits: &Tensor) -> Result<Tensor> {
    let gpu = gpu()?;
    let logits = gpu.bring(logits)?;
    let k = logits.dims().last().copied().unwrap_or(1);
    let y = gpu.empty(logits.dims(), DType::F32)?;
    let pixels = y.elem_count() / k;
    let arguments = [(&y).into(), (&logits).into(), long(pixels), int(k)];
    gpu.launch(
        LOSS,
        "softmax",
        logits.dtype(),
        Grid::flat(pixels),
        &arguments,
    )?;
    Ok(y)
}

pub fn argmax(logits: &Tensor) -> Result<Vec<u8>> {
    let gpu = gpu()?;
    let logits = gpu.bring(logits)?;
    let k = logits.dims().last().copied().unwrap_or(1);
    let pixels = logits.elem_count() / k;
    let y = gpu.empty(&[pixels], DType::U8)?;
    let arguments = [(&y).into(), (&logits).into(), long(pixels), int(k)];
    gpu.launch(
        LOSS,
        "argmax",
        logits.dtype(),
        Grid::flat(pixels),
        &arguments,
    )?;
    gpu.take(&y)
}
