//! Depthwise convolutions by kernels of our own, because cuDNN's are slow.

use super::device::{Gpu, gpu};
use super::elementwise::like;
use super::kernels::{Arg, DEPTHWISE, DEPTHWISE_WALK, File, Grid, int};
use super::{add_to_sink, partial};
use crate::error::Result;
use crate::ops::{Convolution, GradientSink};
use crate::profile;
use candle_core::{DType, Tensor};

fn span(what: &str, Convolution { spec, x, .. }: &Convolution) -> profile::Span {
    profile::span(|| format!("depthwise_conv2d{what} {x:?} {}", spec.brief()))
}

/// Whether the kernels that walk down columns apply.
fn walks(gpu: &Gpu, conv: &Convolution, operands: [&Tensor; 3]) -> Result<bool> {
    let (spec, [_, _, w, c], [_, _, q, _]) = (&conv.spec, conv.x, conv.y);
    let usual = spec.kernel == (3, 3) && spec.stride <= 2 && c % 4 == 0;
    // No position is read twice by the nine taps of one output.
    if !usual || spec.periodic && (q - 1) * spec.stride >= w {
        return Ok(false);
    }
    for operand in operands {
        if gpu.address(operand)? % 16 != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The source file of the applicable kernels, and their name prefix.
fn kernels(walks: bool) -> (&'static File, &'static str) {
    match walks {
        true => (DEPTHWISE_WALK, "depthwise_walk"),
        false => (DEPTHWISE, "depthwise"),
    }
}

/// b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic.
pub(super) fn geometry(conv: &Convolution) -> [Arg<'static>; 13] {
    let (spec, [b, h, w, c], [_, p, q, _]) = (&conv.spec, conv.x, conv.y);
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

pub fn depthwise(conv: &Convolution, x: &Tensor, weights: &Tensor) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let w = like(gpu, weights, DType::F32)?;
    let [b, p, q, c] = conv.y;
    let _span = span("", conv);
    let y = gpu.empty(&conv.y, x.dtype())?;
    let arguments = [
        &[(&y).into(), (&x).into(), (&w).into(), Arg::Null],
        &geometry(conv)[..],
        &[false.into()],
    ];
    let (file, name) = kernels(walks(gpu, conv, [&x, &y, &w])?);
    let grid = gpu.depthwise(b * p * q, c, 1);
    gpu.launch(file, name, x.dtype(), grid, &arguments.concat())?;
    Ok(y)
}

pub fn depthwise_backward_data(
    conv: &Convolution,
    dy: &Tensor,
    weights: &Tensor,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let w = like(gpu, weights, DType::F32)?;
    let (spec, [b, h, width, c]) = (&conv.spec, conv.x);
    let _span = span(" backward data", conv);
    let dx = gpu.empty(&conv.x, dy.dtype())?;
    let arguments = [
        &[(&dx).into(), (&dy).into(), (&w).into()],
        &geometry(conv)[..],
    ]
    .concat();
    // For stride 1 they flip the kernel, which requires equal input and output widths on the globe; for stride 2 they
    // process 2x2 blocks of positions.
    let reversible = match spec.stride {
        1 => !spec.periodic || conv.y[2] == width,
        _ => spec.dilation == 1 && (!spec.periodic || width.is_multiple_of(2)),
    };
    let (file, name) = kernels(reversible && walks(gpu, conv, [&dx, &dy, &w])?);
    let grid = gpu.depthwise(b * h * width, c, 1);
    let name = format!("{name}_backward_data");
    gpu.launch(file, &name, dy.dtype(), grid, &arguments)?;
    Ok(dx)
}

pub fn depthwise_backward_weights(
    conv: &Convolution,
    x: &Tensor,
    dy: &Tensor,
    dw: GradientSink<'_>,
) -> Result<()> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let dy = like(gpu, dy, x.dtype())?;
    let (spec, [b, p, q, c]) = (&conv.spec, conv.y);
    let _span = span(" backward weights", conv);
    let (pixels, taps) = (b * p * q, spec.kernel.0 * spec.kernel.1);
    let walks = walks(gpu, conv, [&x, &dy, &dy])?;
    let (file, name) = kernels(walks);
    // A walk handles all rows of the kernel at once.
    let rows = if walks { 1 } else { spec.kernel.0 };
    let grid = gpu.depthwise(pixels, c, rows);
    let count = grid.chunks();
    let partial = partial(gpu, count * taps * c)?;
    let arguments = [
        &[(&partial).into(), (&x).into(), (&dy).into()],
        &geometry(conv)[..],
    ]
    .concat();
    let name = format!("{name}_backward_filter");
    gpu.launch(file, &name, x.dtype(), grid, &arguments)?;
    add_to_sink(gpu, dw, |sums| {
        let arguments = [
            sums.into(),
            (&partial).into(),
            int(count),
            int(c),
            int(taps),
        ];
        let grid = Grid::ends(c * taps, 1);
        gpu.launch_named(DEPTHWISE, "depthwise_filter_finish", grid, &arguments)
    })
}
