//! Average pooling: the mean of every window over the cells inside the field.

use super::conv_spec::{PoolSpec, source};
use super::host::{Host, bhwc, expect, tensor};
use super::{Backend, Cpu, on_gpu};
use crate::error::Result;
use candle_core::Tensor;
use rayon::prelude::*;

impl Backend {
    /// The mean of every window, excluding padding.
    ///
    /// # Shapes
    /// `(b, h, w, c)` → `(b, p, q, c)` with [`PoolSpec::output_size`]
    /// # Errors
    /// [`crate::ModelError::Shape`] if x is not BHWC.
    pub fn avg_pool(self, x: &Tensor, spec: &PoolSpec) -> Result<Tensor> {
        let shape = bhwc("avg_pool", "x", x)?;
        on_gpu!(self, super::cuda::average_pool(x, shape, spec));
        let (out_h, out_w) = spec.output_size((shape[1], shape[2]));
        let values = Host::of("avg_pool", x)?;
        let y = match self.on_cpu() {
            Cpu::Reference => plain(&values, shape, spec),
            Cpu::Fast => parallel(&values, shape, spec),
        };
        tensor(y, &[shape[0], out_h, out_w, shape[3]], x.dtype())
    }

    /// The gradient of [`Self::avg_pool`] with respect to its input.
    ///
    /// # Shapes
    /// dy `(b, p, q, c)` as [`Self::avg_pool`] gives it → `x_shape`, `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if dy does not have the shape of the pooled output.
    pub fn avg_pool_backward(
        self,
        dy: &Tensor,
        x_shape: [usize; 4],
        spec: &PoolSpec,
    ) -> Result<Tensor> {
        let op = "avg_pool_backward";
        let (out_h, out_w) = spec.output_size((x_shape[1], x_shape[2]));
        let expected = [x_shape[0], out_h, out_w, x_shape[3]];
        expect(op, "dy", expected, bhwc(op, "dy", dy)?)?;
        on_gpu!(self, super::cuda::average_pool_backward(dy, x_shape, spec));
        let grad = Host::of(op, dy)?;
        let dx = match self.on_cpu() {
            Cpu::Reference => plain_backward(&grad, x_shape, spec),
            Cpu::Fast => parallel_backward(&grad, x_shape, spec),
        };
        tensor(dx, &x_shape, dy.dtype())
    }
}

/// The input positions on one axis in the window of output `p`.
fn window(spec: &PoolSpec, p: usize, extent: usize, wrap: bool) -> Vec<usize> {
    (0..spec.kernel)
        .filter_map(|r| source(p, spec.stride, r, spec.padding, extent, wrap))
        .collect()
}

fn plain(x: &[f32], [batch, height, width, channels]: [usize; 4], spec: &PoolSpec) -> Vec<f32> {
    let (out_h, out_w) = spec.output_size((height, width));
    let mut y = Vec::with_capacity(batch * out_h * out_w * channels);
    for (b, p) in (0..batch).flat_map(|b| (0..out_h).map(move |p| (b, p))) {
        let rows = window(spec, p, height, false);
        for q in 0..out_w {
            let columns = window(spec, q, width, spec.periodic);
            for c in 0..channels {
                let cells = rows
                    .iter()
                    .flat_map(|h| columns.iter().map(move |w| (h, w)));
                let sum: f64 = cells
                    .map(|(h, w)| f64::from(x[((b * height + h) * width + w) * channels + c]))
                    .sum();
                y.push((sum / (rows.len() * columns.len()) as f64) as f32);
            }
        }
    }
    y
}

fn plain_backward(dy: &[f32], x_shape: [usize; 4], spec: &PoolSpec) -> Vec<f32> {
    let [batch, height, width, channels] = x_shape;
    let (out_h, out_w) = spec.output_size((height, width));
    let mut dx = vec![0.0; x_shape.iter().product()];
    let mut gradients = dy.iter();
    for (b, p) in (0..batch).flat_map(|b| (0..out_h).map(move |p| (b, p))) {
        let rows = window(spec, p, height, false);
        for q in 0..out_w {
            let columns = window(spec, q, width, spec.periodic);
            let share = 1.0 / (rows.len() * columns.len()) as f32;
            for (c, grad) in gradients.by_ref().take(channels).enumerate() {
                for (h, w) in rows
                    .iter()
                    .flat_map(|h| columns.iter().map(move |w| (h, w)))
                {
                    dx[((b * height + h) * width + w) * channels + c] += share * grad;
                }
            }
        }
    }
    dx
}

/// Parallel over output rows.
fn parallel(x: &[f32], [batch, height, width, channels]: [usize; 4], spec: &PoolSpec) -> Vec<f32> {
    let (out_h, out_w) = spec.output_size((height, width));
    let columns: Vec<_> = (0..out_w)
        .map(|q| window(spec, q, width, spec.periodic))
        .collect();
    let mut y = vec![0.0; batch * out_h * out_w * channels];
    y.par_chunks_mut(out_w * channels)
        .enumerate()
        .for_each(|(row, y)| {
            let (b, p) = (row / out_h, row % out_h);
            let rows = window(spec, p, height, false);
            for (y, columns) in y.chunks_exact_mut(channels).zip(&columns) {
                for (h, w) in rows
                    .iter()
                    .flat_map(|h| columns.iter().map(move |w| (h, w)))
                {
                    let x = &x[((b * height + h) * width + w) * channels..][..channels];
                    y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
                }
                let share = 1.0 / (rows.len() * columns.len()) as f32;
                y.iter_mut().for_each(|y| *y *= share);
            }
        });
    y
}

/// Parallel over input rows: each gathers from the output rows whose windows contain it.
fn parallel_backward(dy: &[f32], x_shape: [usize; 4], spec: &PoolSpec) -> Vec<f32> {
    let [_, height, width, channels] = x_shape;
    let (out_h, out_w) = spec.output_size((height, width));
    let windows: Vec<_> = (0..out_h).map(|p| window(spec, p, height, false)).collect();
    let columns: Vec<_> = (0..out_w)
        .map(|q| window(spec, q, width, spec.periodic))
        .collect();
    let mut dx = vec![0.0; x_shape.iter().product()];
    dx.par_chunks_mut(width * channels)
        .enumerate()
        .for_each(|(row, dx)| {
            let (b, h) = (row / height, row % height);
            let readers = windows
                .iter()
                .enumerate()
                .filter(|(_, rows)| rows.contains(&h));
            for (p, rows) in readers {
                for (q, columns) in columns.iter().enumerate() {
                    let grad = &dy[((b * out_h + p) * out_w + q) * channels..][..channels];
                    let share = 1.0 / (rows.len() * columns.len()) as f32;
                    for w in columns {
                        let dx = &mut dx[w * channels..][..channels];
                        dx.iter_mut().zip(grad).for_each(|(dx, g)| *dx += share * g);
                    }
                }
            }
        });
    dx
}
