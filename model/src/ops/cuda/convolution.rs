//! Convolutions by cuDNN, with wrapping in longitude and fused epilogues.

use super::channels::{Edges, add_channel_sums, pad, pad_backward, put_channels};
use super::cudnn::{Direction, Ending, Problem, are_aligned, samples};
use super::depthwise::geometry;
use super::device::{Gpu, gpu};
use super::elementwise::like;
use super::graph::copy_into;
use super::kernels::{Arg, CONVOLVE, FILTER, Grid, int};
use super::norm::finish;
use super::plain::gather;
use super::{add_to_sink, bring_channels};
use crate::error::Result;
use crate::gpu::tf32_is_allowed;
use crate::lock::locked;
use crate::ops::{ConvSpec, Convolution, Fuse, GradientSink, Weights};
use candle_core::{DType, Tensor};

/// The edges that wrap longitude. cuDNN pads only with zeros, so a field that wraps is padded beforehand.
fn edges(spec: &ConvSpec) -> Option<Edges> {
    let side = spec.padding.1;
    (spec.periodic && side > 0).then_some(Edges {
        sides: [0, 0, side, side],
        wrap: (false, true),
    })
}

fn problem(direction: Direction, dtype: DType, conv: &Convolution) -> Problem {
    let Convolution { spec, x, y } = *conv;
    let edges = edges(&spec);
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
        padding_below: spec.padding.0,
        stride: spec.stride,
        dilation: spec.dilation,
        groups: spec.groups,
        ending: None,
    }
}

/// The kernels in cuDNN's layout, (outer, taps, inner), in the activations' type and with scales folded in.
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
        let grid = Grid::flat(y.elem_count());
        gpu.launch(FILTER, "filter_to_taps", dtype, grid, &arguments)?;
        Ok(y)
    })
}

/// The bias on the GPU, if there is one, copied to an aligned address if necessary: a parameter may begin anywhere in
/// the shared buffer.
fn bias_as(gpu: &Gpu, weights: &Weights, dtype: DType) -> Result<Option<Tensor>> {
    weights.bias_on_gpu(dtype, |bias| {
        let bias = like(gpu, &bring_channels(gpu, bias)?, dtype)?;
        if are_aligned(&[gpu.address(&bias)?]) {
            return Ok(bias);
        }
        let copy = gpu.empty(bias.dims(), dtype)?;
        copy_into(&bias, &copy)?;
        Ok(copy)
    })
}

/// Whether the input of a kernel's window is small enough to be rearranged as the channels of one pixel. cuDNN's
/// engines for a few channels use no tensor cores, even if channels are padded with zeros (three channels to 256 with a
/// stride of 2 take an H200 2 ms).
fn sees_little(dtype: DType, conv: &Convolution) -> bool {
    let Convolution { spec, x, y } = conv;
    let seen = x[3] * spec.kernel.0 * spec.kernel.1;
    // The rearranged copy is larger than the field and at most half as large as the result.
    dtype != DType::F32 && spec.groups == 1 && x[3] <= 4 && seen > x[3] && 2 * seen <= y[3]
}

/// The equivalent problem where [`sees_little`] holds.
fn problem_of_patches(dtype: DType, conv: &Convolution) -> Problem {
    let Convolution { spec, x, y } = *conv;
    let ([b, _, _, c], [_, p, q, _]) = (x, y);
    let k = (c * spec.kernel.0 * spec.kernel.1).next_multiple_of(8);
    let spec = ConvSpec {
        kernel: (1, 1),
        padding: (0, 0),
        stride: 1,
        dilation: 1,
        ..spec
    };
    let x = [b, p, q, k];
    problem(Direction::Forward, dtype, &Convolution { spec, x, y })
}

/// The patches that each output reads, as channels of one pixel, with matching kernels, and the resulting problem.
fn patches(
    gpu: &Gpu,
    conv: &Convolution,
    x: &Tensor,
    w: &Tensor,
) -> Result<(Tensor, Tensor, Problem)> {
    let dtype = x.dtype();
    let problem = problem_of_patches(dtype, conv);
    let (k, o) = (problem.x[3], problem.y[3]);
    let y = gpu.empty(&problem.x, dtype)?;
    let arguments = [&[(&y).into(), x.into()], &geometry(conv)[..], &[int(k)]];
    let grid = Grid::flat(y.elem_count());
    gpu.launch(CONVOLVE, "patches", dtype, grid, &arguments.concat())?;
    let filter = gpu.zeros(&[o, k], dtype)?;
    put_channels(gpu, &filter, 0, w, o)?;
    Ok((y, filter, problem))
}

/// Whether the result has few channels in f32, such as logits: cuDNN's only engine for these is a plain loop.
fn gives_little(problem: &Problem) -> bool {
    let (c, taps) = (problem.x[3], problem.kernel.0 * problem.kernel.1);
    let one_group = problem.groups == 1;
    // The intermediate products take less than half of the memory of their operand.
    problem.dtype == DType::F32 && one_group && c <= 4 && taps > 1 && 2 * c * taps <= problem.y[3]
}

/// The equivalent problem where [`gives_little`] holds.
fn problem_of_products(problem: &Problem) -> Problem {
    let ([_, _, _, c], [b, p, q, _]) = (problem.x, problem.y);
    let k = (c * problem.kernel.0 * problem.kernel.1).next_multiple_of(8);
    Problem {
        x: [b, p, q, k],
        kernel: (1, 1),
        padding: (0, 0),
        padding_below: 0,
        stride: 1,
        dilation: 1,
        ..*problem
    }
}

/// dx from dy where [`gives_little`] holds: products with every tap of the kernel, as channels of one pixel, then the
/// sum of those that contribute to each input.
fn by_products(gpu: &Gpu, dy: &Tensor, w: &Tensor, problem: &Problem) -> Result<Tensor> {
    let product = problem_of_products(problem);
    let ([b, _, _, k], o) = (product.x, product.y[3]);
    let filter = gpu.zeros(&[o, k], problem.dtype)?;
    put_channels(gpu, &filter, 0, w, o)?;
    let parts = gpu.empty(&product.x, problem.dtype)?;
    for (at, part) in gpu.parts(&product) {
        let (dy, parts) = (samples(dy, &at, b)?, samples(&parts, &at, b)?);
        gpu.convolve(&part, &filter, &dy, &parts)?;
    }
    let dx = gpu.empty(&problem.x, problem.dtype)?;
    gather(gpu, problem, &parts, &dx)?;
    Ok(dx)
}

/// The problem passed to cuDNN for a convolution in one direction.
#[cfg(test)]
pub(super) fn asked(direction: Direction, dtype: DType, conv: &Convolution) -> Problem {
    let problem = problem(direction, dtype, conv);
    match direction {
        Direction::Forward if sees_little(dtype, conv) => problem_of_patches(dtype, conv),
        Direction::BackwardData if gives_little(&problem) => problem_of_products(&problem),
        _ => problem,
    }
}

/// The convolution of x, plus bias, then `fuse`.
pub fn forward(
    conv: &Convolution,
    x: &Tensor,
    weights: &Weights,
    fuse: Fuse<'_>,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let dtype = x.dtype();
    let w = filter(gpu, weights, dtype)?;
    let (x, w, problem) = if sees_little(dtype, conv) {
        patches(gpu, conv, &x, &w)?
    } else {
        let x = match edges(&conv.spec) {
            Some(edges) => pad(&x, conv.x, edges)?,
            None => x,
        };
        (x, w, problem(Direction::Forward, dtype, conv))
    };
    let y = gpu.empty(&conv.y, dtype)?;
    let batch = conv.x[0];
    let rounded = bias_as(gpu, weights, dtype)?;
    let residual = fuse
        .residual()
        .map(|residual| like(gpu, residual, dtype))
        .transpose()?;
    for (at, part) in gpu.parts(&problem) {
        let (x, y) = (samples(&x, &at, batch)?, samples(&y, &at, batch)?);
        let residual = residual.as_ref().map(|r| samples(r, &at, batch));
        let residual = residual.transpose()?;
        if let Some(bias) = &rounded {
            let ending = Ending {
                residual: residual.is_some(),
                relu: fuse.relu(),
            };
            let part = Problem {
                ending: Some(ending),
                ..part
            };
            if gpu.convolve_and_end(&part, (&x, &w, &y), bias, residual.as_ref())? {
                continue;
            }
        }
        gpu.convolve(&part, &x, &w, &y)?;
        let bias = bias_as(gpu, weights, DType::F32)?;
        if bias.is_some() || residual.is_some() || fuse.relu() {
            // Only the last extent matters, as the number of channels.
            let pixels = y.reshape(((), conv.y[3]))?;
            finish(gpu, &pixels, bias.as_ref(), residual.as_ref(), fuse.relu())?;
        }
    }
    Ok(y)
}

/// dx from dy, plus bias, then a ReLU if requested.
pub fn transposed(
    conv: &Convolution,
    dy: &Tensor,
    weights: &Weights,
    relu: bool,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let dtype = dy.dtype();
    let w = filter(gpu, weights, dtype)?;
    let problem = problem(Direction::BackwardData, dtype, conv);
    let dx = if gives_little(&problem) {
        by_products(gpu, &dy, &w, &problem)?
    } else {
        let dx = gpu.empty(&problem.x, dtype)?;
        let batch = conv.x[0];
        for (at, part) in gpu.parts(&problem) {
            gpu.convolve(
                &part,
                &w,
                &samples(&dy, &at, batch)?,
                &samples(&dx, &at, batch)?,
            )?;
        }
        dx
    };
    let dx = match edges(&conv.spec) {
        Some(edges) => pad_backward(&dx, conv.x, edges)?,
        None => dx,
    };
    let bias = bias_as(gpu, weights, DType::F32)?;
    if bias.is_some() || relu {
        finish(gpu, &dx, bias.as_ref(), None, relu)?;
    }
    Ok(dx)
}

/// The type in which [`backward_weights`] computes dw before adding it; if its bands differ, the type that rounds.
/// `None` if not all bands of these shapes have been computed yet.
pub fn kernel_gradient_type(dtype: DType, conv: &Convolution) -> Result<Option<DType>> {
    let cudnn = locked(&gpu()?.cudnn);
    let problem = problem(Direction::BackwardFilter, dtype, conv);
    let bands = problem.bands(cudnn.most_memory(None));
    // Bands differ in extents and padding, so each may use another engine.
    let types = bands.iter().map(|band| cudnn.result_type(&band.problem));
    let types: Option<Vec<DType>> = types.collect();
    Ok(types.and_then(|types| {
        let rounded = types.iter().find(|&&dtype| dtype != DType::F32);
        rounded.or(types.first()).copied()
    }))
}

/// Adds dw, and dbias.
pub fn backward_weights(
    conv: &Convolution,
    x: &Tensor,
    dy: &Tensor,
    dw: GradientSink<'_>,
    dbias: Option<GradientSink<'_>>,
) -> Result<()> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let dtype = x.dtype();
    let dy = like(gpu, dy, dtype)?;
    if let Some(dbias) = dbias {
        add_channel_sums(&dy, dbias)?;
    }
    let x = match edges(&conv.spec) {
        Some(edges) => pad(&x, conv.x, edges)?,
        None => x,
    };
    let problem = problem(Direction::BackwardFilter, dtype, conv);
    add_to_sink(gpu, dw, |sums| {
        for band in gpu.bands(&problem) {
            let (x, dy) = band.slices(&problem, &x, &dy)?;
            let dk = gpu.kernel_gradient(&band.problem, &x, &dy)?;
            let (outer, taps, inner) = dk.dims3()?;
            let arguments: [Arg<'_>; 5] =
                [sums.into(), (&dk).into(), int(outer), int(inner), int(taps)];
            let grid = Grid::flat(dk.elem_count());
            gpu.launch(FILTER, "filter_add_from_taps", dk.dtype(), grid, &arguments)?;
        }
        Ok(())
    })
}
