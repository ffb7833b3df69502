//! Pooling and resizing.

use super::device::gpu;
use super::elementwise::marks;
use super::kernels::{Arg, CHANNELS, Grid, POOL, RESIZE, int, long, suffix};
use super::partial;
use crate::error::Result;
use crate::ops::{Marks, PoolSpec};
use candle_core::{DType, Tensor};
use std::ops::Range;

/// b, h, w, c, p, q, kernel, stride, padding, periodic.
fn geometry([b, h, w, c]: [usize; 4], spec: &PoolSpec) -> ([usize; 4], [Arg<'static>; 10]) {
    let (p, q) = spec.output_size((h, w));
    let arguments = [
        int(b),
        int(h),
        int(w),
        int(c),
        int(p),
        int(q),
        int(spec.kernel),
        int(spec.stride),
        int(spec.padding),
        spec.periodic.into(),
    ];
    ([b, p, q, c], arguments)
}

pub fn max_pool(x: &Tensor, shape: [usize; 4], spec: &PoolSpec) -> Result<(Tensor, Marks)> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let (y_shape, geometry) = geometry(shape, spec);
    let y = gpu.empty(&y_shape, x.dtype())?;
    let n = y.elem_count();
    let winner = gpu.empty(&[n], DType::U8)?;
    let arguments = [&[(&y).into(), (&winner).into(), (&x).into()], &geometry[..]].concat();
    gpu.launch(POOL, "max_pool", x.dtype(), Grid::flat(n), &arguments)?;
    Ok((y, Marks::Gpu(winner)))
}

pub fn max_pool_backward(
    dy: &Tensor,
    winner: &Marks,
    shape: [usize; 4],
    spec: &PoolSpec,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let winner = marks(gpu, winner)?;
    let dx = gpu.empty(&shape, dy.dtype())?;
    let arguments = [
        &[(&dx).into(), (&dy).into(), (&winner).into()],
        &geometry(shape, spec).1[..],
    ]
    .concat();
    let grid = Grid::flat(dx.elem_count());
    gpu.launch(POOL, "max_pool_backward", dy.dtype(), grid, &arguments)?;
    Ok(dx)
}

pub fn average_pool(x: &Tensor, shape: [usize; 4], spec: &PoolSpec) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let (y_shape, geometry) = geometry(shape, spec);
    let y = gpu.empty(&y_shape, x.dtype())?;
    let arguments = [&[(&y).into(), (&x).into()], &geometry[..]].concat();
    let grid = Grid::flat(y.elem_count());
    gpu.launch(POOL, "avg_pool", x.dtype(), grid, &arguments)?;
    Ok(y)
}

pub fn average_pool_backward(dy: &Tensor, shape: [usize; 4], spec: &PoolSpec) -> Result<Tensor> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let dx = gpu.empty(&shape, dy.dtype())?;
    let arguments = [&[(&dx).into(), (&dy).into()], &geometry(shape, spec).1[..]].concat();
    let grid = Grid::flat(dx.elem_count());
    gpu.launch(POOL, "avg_pool_backward", dy.dtype(), grid, &arguments)?;
    Ok(dx)
}

/// `factor` times the sum over the pixels of each sample.
fn sums_of_samples(x: &Tensor, [b, h, w, c]: [usize; 4], factor: f32) -> Result<Tensor> {
    let gpu = gpu()?;
    let pixels = h * w;
    let grid = gpu.sums(pixels, c, b);
    let count = grid.chunks();
    let partial = partial(gpu, b * count * c)?;
    let arguments = [(&partial).into(), x.into(), long(pixels), int(c)];
    gpu.launch(CHANNELS, "channel_sums", x.dtype(), grid, &arguments)?;
    let y = gpu.empty(&[b, 1, 1, c], x.dtype())?;
    let name = format!("sums_finish_{}", suffix(x.dtype())?);
    let arguments = [
        (&y).into(),
        (&partial).into(),
        int(count),
        int(c),
        factor.into(),
        false.into(),
    ];
    gpu.launch_named(CHANNELS, &name, Grid::ends(c, b), &arguments)?;
    Ok(y)
}

pub fn global_average(x: &Tensor, shape: [usize; 4]) -> Result<Tensor> {
    let x = gpu()?.bring(x)?;
    sums_of_samples(&x, shape, 1.0 / (shape[1] * shape[2]) as f32)
}

pub fn global_average_backward(dy: &Tensor, shape: [usize; 4]) -> Result<Tensor> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let [b, h, w, c] = shape;
    let dx = gpu.empty(&shape, dy.dtype())?;
    let share = 1.0 / (h * w) as f32;
    let arguments = [
        (&dx).into(),
        (&dy).into(),
        int(b),
        long(h * w),
        int(c),
        share.into(),
    ];
    let grid = Grid::flat(dx.elem_count());
    gpu.launch(CHANNELS, "spread", dy.dtype(), grid, &arguments)?;
    Ok(dx)
}

pub fn resize(
    x: &Tensor,
    [b, h, w, c]: [usize; 4],
    (p, q): (usize, usize),
    rows: Range<usize>,
    periodic: bool,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let y = gpu.empty(&[b, rows.len(), q, c], x.dtype())?;
    let arguments = [
        (&y).into(),
        (&x).into(),
        int(b),
        int(h),
        int(w),
        int(c),
        int(p),
        int(q),
        int(rows.start),
        int(rows.len()),
        periodic.into(),
    ];
    let grid = Grid::flat(y.elem_count());
    gpu.launch(RESIZE, "resize", x.dtype(), grid, &arguments)?;
    Ok(y)
}

pub fn resize_backward(
    dy: &Tensor,
    shape: [usize; 4],
    (p, q): (usize, usize),
    periodic: bool,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let dy = gpu.bring(dy)?;
    let [b, h, w, c] = shape;
    if (h, w) == (1, 1) {
        return sums_of_samples(&dy, [b, p, q, c], 1.0);
    }
    let columns = gpu.empty(&[b, p, w, c], DType::F32)?;
    let arguments = [
        (&columns).into(),
        (&dy).into(),
        long(b * p),
        int(w),
        int(q),
        int(c),
        periodic.into(),
    ];
    let (name, grid) = ("resize_columns_backward", Grid::flat(columns.elem_count()));
    gpu.launch(RESIZE, name, dy.dtype(), grid, &arguments)?;
    let dx = gpu.empty(&shape, dy.dtype())?;
    let arguments = [
        (&dx).into(),
        (&columns).into(),
        int(b),
        int(h),
        int(p),
        long(w * c),
    ];
    let grid = Grid::flat(dx.elem_count());
    gpu.launch(RESIZE, "resize_rows_backward", dy.dtype(), grid, &arguments)?;
    Ok(dx)
}
