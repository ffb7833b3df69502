//! Concatenation along channels, edges, and per-channel operations.

use super::device::{Gpu, gpu};
use super::elementwise::like;
use super::kernels::{Arg, CHANNELS, Grid, int, long};
use super::{add_to_sink, bring_channels, partial};
use crate::error::Result;
use crate::ops::{Channels, GradientSink};
use candle_core::{DType, Tensor};

/// Concatenates parts with these channel counts.
pub fn concat(parts: &[&Tensor], [b, h, w, channels]: [usize; 4], dtype: DType) -> Result<Tensor> {
    let gpu = gpu()?;
    let y = gpu.empty(&[b, h, w, channels], dtype)?;
    let mut first = 0;
    for part in parts {
        let x = like(gpu, part, dtype)?;
        first += put_channels(gpu, &y, first, &x, b * h * w)?;
    }
    Ok(y)
}

/// Copies x into the channels of y from `first` on, for the same pixels; returns the number of channels copied.
pub(super) fn put_channels(
    gpu: &Gpu,
    y: &Tensor,
    first: usize,
    x: &Tensor,
    pixels: usize,
) -> Result<usize> {
    let c = x.elem_count() / pixels;
    let arguments = [
        y.into(),
        long(y.elem_count() / pixels),
        long(first),
        x.into(),
        long(c),
        long(0),
        long(c),
        long(pixels),
    ];
    let grid = Grid::flat(x.elem_count());
    gpu.launch(CHANNELS, "copy_channels", x.dtype(), grid, &arguments)?;
    Ok(c)
}

/// Splits a tensor into parts with these channel counts.
pub fn split(x: &Tensor, [b, h, w, channels]: [usize; 4], counts: &[usize]) -> Result<Vec<Tensor>> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let (pixels, mut first) = (b * h * w, 0);
    let part = |&c: &usize| {
        let y = gpu.empty(&[b, h, w, c], x.dtype())?;
        let arguments = [
            (&y).into(),
            long(c),
            long(0),
            (&x).into(),
            long(channels),
            long(first),
            long(c),
            long(pixels),
        ];
        let grid = Grid::flat(pixels * c);
        gpu.launch(CHANNELS, "copy_channels", x.dtype(), grid, &arguments)?;
        first += c;
        Ok(y)
    };
    counts.iter().map(part).collect()
}

/// Concatenates fields along the first axis, or along the second axis of each.
pub fn rows(parts: &[&Tensor], shape: &[usize], outer: usize, dtype: DType) -> Result<Tensor> {
    let gpu = gpu()?;
    let y = gpu.empty(shape, dtype)?;
    let mut first = 0;
    for part in parts {
        let x = like(gpu, part, dtype)?;
        first += put_channels(gpu, &y, first, &x, outer)?;
    }
    Ok(y)
}

/// A tensor of zeros on the GPU.
pub fn zeros(shape: &[usize], dtype: DType) -> Result<Tensor> {
    gpu()?.zeros(shape, dtype)
}

/// Cells added around a field (above, below, left, right), and whether they wrap in latitude and in longitude.
#[derive(Debug, Clone, Copy, Default)]
pub struct Edges {
    pub sides: [usize; 4],
    pub wrap: (bool, bool),
}

impl Edges {
    fn arguments(self, [b, h, w, c]: [usize; 4]) -> [Arg<'static>; 10] {
        let [top, bottom, left, right] = self.sides;
        let (high, wide) = self.wrap;
        [
            int(b),
            int(h),
            int(w),
            int(c),
            int(top),
            int(bottom),
            int(left),
            int(right),
            high.into(),
            wide.into(),
        ]
    }

    pub(super) fn shape(self, [b, h, w, c]: [usize; 4]) -> [usize; 4] {
        let [top, bottom, left, right] = self.sides;
        [b, top + h + bottom, left + w + right, c]
    }
}

/// Pads x with edges.
pub fn pad(x: &Tensor, shape: [usize; 4], edges: Edges) -> Result<Tensor> {
    edged("pad", x, edges.shape(shape), edges.arguments(shape))
}

/// The gradient of the field, of `shape`, to which the edges were added.
pub fn pad_backward(dy: &Tensor, shape: [usize; 4], edges: Edges) -> Result<Tensor> {
    edged("pad_backward", dy, shape, edges.arguments(shape))
}

/// A field of this shape from x, by a kernel that takes the edges as arguments.
fn edged(name: &str, x: &Tensor, shape: [usize; 4], edges: [Arg<'_>; 10]) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let y = gpu.empty(&shape, x.dtype())?;
    let arguments = [&[(&y).into(), (&x).into()], &edges[..]].concat();
    let grid = Grid::flat(y.elem_count());
    gpu.launch(CHANNELS, name, x.dtype(), grid, &arguments)?;
    Ok(y)
}

/// Adds the sums over pixels per channel to `sink`.
pub fn add_channel_sums(dy: &Tensor, sink: GradientSink<'_>) -> Result<()> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let c = sink.len();
    let pixels = dy.elem_count() / c;
    let grid = gpu.sums(pixels, c, 1);
    let count = grid.chunks();
    let partial = partial(gpu, count * c)?;
    let arguments = [(&partial).into(), (&dy).into(), long(pixels), int(c)];
    gpu.launch(CHANNELS, "channel_sums", dy.dtype(), grid, &arguments)?;
    add_sums_to_sink(gpu, sink, &partial, count)
}

/// Adds `count` partial sums of each channel to `sink`.
fn add_sums_to_sink(
    gpu: &Gpu,
    sink: GradientSink<'_>,
    partial: &Tensor,
    count: usize,
) -> Result<()> {
    let c = sink.len();
    add_to_sink(gpu, sink, |sums| {
        let arguments = [
            sums.into(),
            partial.into(),
            int(count),
            int(c),
            Arg::F32(1.0),
            true.into(),
        ];
        gpu.launch_named(CHANNELS, "sums_finish_f32", Grid::ends(c, 1), &arguments)
    })
}

pub fn prelu(x: &Tensor, slope: &Channels<'_>) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let (c, slope) = (slope.len(), bring_channels(gpu, slope)?);
    let y = gpu.empty(x.dims(), x.dtype())?;
    let n = x.elem_count();
    let arguments = [
        (&y).into(),
        (&x).into(),
        (&slope).into(),
        long(n / c),
        int(c),
    ];
    gpu.launch(CHANNELS, "prelu", x.dtype(), gpu.pixels(n), &arguments)?;
    Ok(y)
}

pub fn prelu_backward(
    dy: &Tensor,
    x: &Tensor,
    slope: &Channels<'_>,
    dslope: GradientSink<'_>,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let dy = like(gpu, dy, x.dtype())?;
    let (c, slope) = (slope.len(), bring_channels(gpu, slope)?);
    let dx = gpu.empty(x.dims(), x.dtype())?;
    let pixels = x.elem_count() / c;
    let grid = gpu.sums(pixels, c, 1);
    let count = grid.chunks();
    let partial = partial(gpu, count * c)?;
    let arguments = [
        (&dx).into(),
        (&partial).into(),
        (&dy).into(),
        (&x).into(),
        (&slope).into(),
        long(pixels),
        int(c),
    ];
    gpu.launch(CHANNELS, "prelu_backward", x.dtype(), grid, &arguments)?;
    add_sums_to_sink(gpu, dslope, &partial, count)?;
    Ok(dx)
}

pub fn gate(x: &Tensor, z: &Tensor, [b, h, w, c]: [usize; 4]) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let z = like(gpu, z, x.dtype())?;
    let y = gpu.empty(x.dims(), x.dtype())?;
    let arguments = [
        (&y).into(),
        (&x).into(),
        (&z).into(),
        int(b),
        long(h * w),
        int(c),
    ];
    let grid = Grid::flat(x.elem_count());
    gpu.launch(CHANNELS, "gate", x.dtype(), grid, &arguments)?;
    Ok(y)
}

pub fn gate_backward(
    dy: &Tensor,
    x: &Tensor,
    z: &Tensor,
    shape: [usize; 4],
) -> Result<(Tensor, Tensor)> {
    let gpu = gpu()?;
    let [b, h, w, c] = shape;
    let x = gpu.bring(x)?;
    let (dy, z) = (like(gpu, dy, x.dtype())?, like(gpu, z, x.dtype())?);
    let pixels = h * w;
    let grid = gpu.sums(pixels, c, b);
    let count = grid.chunks();
    let partial = partial(gpu, b * count * c)?;
    let arguments = [
        (&partial).into(),
        (&dy).into(),
        (&x).into(),
        long(pixels),
        int(c),
    ];
    gpu.launch(CHANNELS, "gate_sums", x.dtype(), grid, &arguments)?;
    let dz = gpu.empty(&[b, 1, 1, c], x.dtype())?;
    let arguments = [
        (&dz).into(),
        (&partial).into(),
        (&z).into(),
        int(count),
        int(c),
    ];
    let grid = Grid::ends(c, b);
    gpu.launch(CHANNELS, "gate_finish", x.dtype(), grid, &arguments)?;
    Ok((gate(&dy, &z, shape)?, dz))
}
