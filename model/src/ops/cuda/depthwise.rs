//! Depthwise convolutions: own kernels, because cuDNN's are slow.

use super::device::gpu;
use super::elementwise::like;
use super::kernels::{Arg, DEPTHWISE, Grid, depthwise_chunks, int};
use super::{land, partial};
use crate::error::Result;
use crate::ops::{ConvSpec, Landing};
use crate::profile;
use candle_core::{DType, Tensor};

fn span(what: &str, x: [usize; 4], spec: &ConvSpec) -> profile::Span {
    profile::span(|| format!("depthwise_conv2d{what} {x:?} {}", spec.brief()))
}

/// b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic.
fn geometry(
    [b, h, w, c]: [usize; 4],
    [_, p, q, _]: [usize; 4],
    spec: &ConvSpec,
) -> [Arg<'static>; 13] {
    let (kernel, padding) = (spec.kernel, spec.padding);
    [
        int(b),
        int(h),
        int(w),
        int(c),
        int(p),
        int(q),
        int(kernel.0),
        int(kernel.1),
        int(spec.stride),
        int(spec.dilation),
        int(padding.0),
        int(padding.1),
        spec.periodic.into(),
    ]
}

pub fn depthwise(
    x: &Tensor,
    weights: &Tensor,
    spec: &ConvSpec,
    shapes: ([usize; 4], [usize; 4]),
) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let w = like(gpu, weights, DType::F32)?;
    let (x_shape, y_shape @ [b, p, q, c]) = shapes;
    let _span = span("", x_shape, spec);
    let y = gpu.empty(&y_shape, x.dtype())?;
    let arguments = [
        &[(&y).into(), (&x).into(), (&w).into(), Arg::Null],
        &geometry(x_shape, y_shape, spec)[..],
        &[false.into()],
    ];
    gpu.launch(
        DEPTHWISE,
        "depthwise",
        x.dtype(),
        Grid::depthwise(b * p * q, c),
        &arguments.concat(),
    )?;
    Ok(y)
}

pub fn depthwise_backward_data(
    dy: &Tensor,
    weights: &Tensor,
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
) -> Result<Tensor> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let w = like(gpu, weights, DType::F32)?;
    let [b, h, width, c] = x_shape;
    let _span = span(" backward data", x_shape, spec);
    let dx = gpu.empty(&x_shape, dy.dtype())?;
    let arguments = [
        &[(&dx).into(), (&dy).into(), (&w).into()],
        &geometry(x_shape, y_shape, spec)[..],
    ]
    .concat();
    let grid = Grid::depthwise(b * h * width, c);
    gpu.launch(
        DEPTHWISE,
        "depthwise_backward_data",
        dy.dtype(),
        grid,
        &arguments,
    )?;
    Ok(dx)
}

pub fn depthwise_backward_weights(
    x: &Tensor,
    dy: &Tensor,
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    dw: Landing<'_>,
) -> Result<()> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let dy = like(gpu, dy, x.dtype())?;
    let [b, p, q, c] = y_shape;
    let _span = span(" backward weights", x_shape, spec);
    let (pixels, taps) = (b * p * q, spec.kernel.0 * spec.kernel.1);
    let count = depthwise_chunks(pixels);
    let partial = partial(gpu, count * taps * c)?;
    let arguments = [
        &[(&partial).into(), (&x).into(), (&dy).into()],
        &geometry(x_shape, y_shape, spec)[..],
    ]
    .concat();
    // All rows of the usual kernel at once.
    let rows = match spec.kernel {
        (3, 3) if spec.stride <= 2 => 1,
        (rows, _) => rows,
    };
    let grid = Grid::depthwise_filter(pixels, c, rows);
    gpu.launch(
        DEPTHWISE,
        "depthwise_backward_filter",
        x.dtype(),
        grid,
        &arguments,
    )?;
    land(gpu, dw, |sums| {
        let arguments = [
            sums.into(),
            (&partial).into(),
            int(count),
            int(c),
            int(taps),
        ];
        gpu.launch_named(
            DEPTHWISE,
            "depthwise_filter_finish",
            Grid::ends(c * taps, 1),
            &arguments,
        )
    })
}
