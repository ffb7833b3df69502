//! Convolutions: cuDNN's, with longitude wrapped around them and what follows them in one pass.

use super::channels::{Edges, pad, pad_backward};
use super::cudnn::{Direction, Problem};
use super::device::{Gpu, gpu};
use super::elementwise::like;
use super::kernels::{Arg, FILTER, Grid, int};
use super::norm::finish;
use super::{add_channel_sums, bring_channels, land};
use crate::error::Result;
use crate::gpu::tf32_is_allowed;
use crate::ops::{ConvSpec, Fuse, Landing, Weights};
use candle_core::{DType, Tensor};

/// How longitude is continued: cuDNN pads with zeros only, so a field that wraps gets its edges first.
fn edges(spec: &ConvSpec) -> Option<Edges> {
    let side = spec.padding.1;
    (spec.periodic && side > 0).then_some(Edges {
        sides: [0, 0, side, side],
        wrap: (false, true),
    })
}

fn problem(
    direction: Direction,
    dtype: DType,
    x: [usize; 4],
    y: [usize; 4],
    spec: &ConvSpec,
) -> Problem {
    let edges = edges(spec);
    Problem {
        direction,
        dtype,
        tf32: dtype == DType::F32 && tf32_is_allowed(),
        x: edges.map_or(x, |edges| edges.shape(x)),
        y,
        kernel: spec.kernel,
        padding: (
            spec.padding.0,
            if edges.is_some() { 0 } else { spec.padding.1 },
        ),
        stride: spec.stride,
        dilation: spec.dilation,
        groups: spec.groups,
    }
}

/// The kernels as cuDNN wants them, (outer, taps, inner) in the activations' type, factors folded in.
fn filter(gpu: &Gpu, weights: &Weights, dtype: DType) -> Result<Tensor> {
    weights.on_gpu(dtype, |values, scale, transposed| {
        let values = gpu.bring(values)?;
        let dims = values.dims();
        let (outer, inner) = (dims[0], dims[1]);
        let taps = values.elem_count() / (outer * inner);
        let scale = scale
            .map(|scale| gpu.give(scale, &[scale.len()]))
            .transpose()?;
        let y = gpu.empty(&[outer, taps, inner], dtype)?;
        let arguments = [
            (&y).into(),
            (&values).into(),
            scale.as_ref().into(),
            transposed.into(),
            int(outer),
            int(inner),
            int(taps),
        ];
        gpu.launch(
            FILTER,
            "filter_to_taps",
            dtype,
            Grid::flat(y.elem_count()),
            &arguments,
        )?;
        Ok(y)
    })
}

/// y of x, plus bias, then `fuse`.
pub fn forward(
    x: &Tensor,
    weights: &Weights,
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    fuse: Fuse<'_>,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let dtype = x.dtype();
    let w = filter(gpu, weights, dtype)?;
    let x = match edges(spec) {
        Some(edges) => pad(&x, x_shape, edges)?,
        None => x,
    };
    let y = gpu.empty(&y_shape, dtype)?;
    gpu.convolve(
        &problem(Direction::Forward, dtype, x_shape, y_shape, spec),
        &x,
        &w,
        &y,
    )?;
    drop(x);
    let bias = weights
        .channels()
        .map(|bias| bring_channels(gpu, bias))
        .transpose()?;
    let residual = fuse
        .residual()
        .map(|residual| like(gpu, residual, dtype))
        .transpose()?;
    if bias.is_some() || residual.is_some() || fuse.relu() {
        finish(gpu, &y, bias.as_ref(), residual.as_ref(), fuse.relu())?;
    }
    Ok(y)
}

/// dx of dy, plus bias, then ReLU if asked.
pub fn transposed(
    dy: &Tensor,
    weights: &Weights,
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    relu: bool,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let dtype = dy.dtype();
    let w = filter(gpu, weights, dtype)?;
    let problem = problem(Direction::BackwardData, dtype, x_shape, y_shape, spec);
    let dx = gpu.empty(&problem.x, dtype)?;
    gpu.convolve(&problem, &w, &dy, &dx)?;
    let dx = match edges(spec) {
        Some(edges) => pad_backward(&dx, x_shape, edges)?,
        None => dx,
    };
    let bias = weights
        .channels()
        .map(|bias| bring_channels(gpu, bias))
        .transpose()?;
    if bias.is_some() || relu {
        finish(gpu, &dx, bias.as_ref(), None, relu)?;
    }
    Ok(dx)
}

/// Adds dw, and dbias.
pub fn backward_weights(
    x: &Tensor,
    dy: &Tensor,
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    dw: Landing<'_>,
    dbias: Option<Landing<'_>>,
) -> Result<()> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let dtype = x.dtype();
    let dy = like(gpu, dy, dtype)?;
    if let Some(dbias) = dbias {
        add_channel_sums(&dy, dbias)?;
    }
    let x = match edges(spec) {
        Some(edges) => pad(&x, x_shape, edges)?,
        None => x,
    };
    let (outer, inner, taps) = (
        y_shape[3],
        x_shape[3] / spec.groups,
        spec.kernel.0 * spec.kernel.1,
    );
    let dk = gpu.empty(&[outer, taps, inner], dtype)?;
    gpu.convolve(
        &problem(Direction::BackwardFilter, dtype, x_shape, y_shape, spec),
        &x,
        &dy,
        &dk,
    )?;
    drop(x);
    land(gpu, dw, |sums| {
        let arguments: [Arg<'_>; 5] =
            [sums.into(), (&dk).into(), int(outer), int(inner), int(taps)];
        let grid = Grid::flat(dk.elem_count());
        gpu.launch(FILTER, "filter_add_from_taps", dtype, grid, &arguments)
    })
}
