//! Pooling and resizing.

use super::conv_spec::PoolSpec;
use super::fast;
use super::host::{Host, Typed, bhwc, expect, tensor};
use super::value::by_dtype;
use super::{Backend, Cpu, Marks, on_gpu, reference};
use crate::error::Result;
use crate::profile;
use candle_core::Tensor;
use std::ops::Range;

/// For every output position of an axis, the two input positions that are blended and the weight of the second.
///
/// Half-pixel centres: output p reads (p + ½) · in / out − ½ (PyTorch's `align_corners=False`). Beyond the ends the
/// axis wraps if periodic; otherwise the edge value is repeated.
pub(crate) struct Axis(Vec<(usize, usize, f32)>);

impl Axis {
    pub(crate) fn new(input: usize, output: usize, periodic: bool) -> Self {
        let at = |index: isize| {
            if periodic {
                index.rem_euclid(input as isize) as usize
            } else {
                index.clamp(0, input as isize - 1) as usize
            }
        };
        let blend = |p: usize| {
            let position = (p as f64 + 0.5) * input as f64 / output as f64 - 0.5;
            let below = position.floor();
            (
                at(below as isize),
                at(below as isize + 1),
                (position - below) as f32,
            )
        };
        Self((0..output).map(blend).collect())
    }

    /// Restricts the axis to a range of outputs.
    fn part(mut self, outputs: Range<usize>) -> Self {
        self.0.truncate(outputs.end);
        self.0.drain(..outputs.start.min(self.0.len()));
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The (input position, weight) pairs of output `p`.
    pub(crate) fn taps(&self, p: usize) -> [(usize, f32); 2] {
        let (low, high, fraction) = self.0[p];
        [(low, 1.0 - fraction), (high, fraction)]
    }

    /// For every input position, the (output position, weight) pairs that read it; the transpose of [`Self::taps`].
    pub(crate) fn readers(&self, input: usize) -> Vec<Vec<(usize, f32)>> {
        let mut readers = vec![Vec::new(); input];
        (0..self.len()).for_each(|p| {
            self.taps(p)
                .iter()
                .for_each(|&(at, weight)| readers[at].push((p, weight)))
        });
        readers
    }
}

impl Backend {
    /// The maximum of every window, and the winning cell of each window for the backward pass.
    ///
    /// # Shapes
    /// x `(b, h, w, c)` → y `(b, p, q, c)`, winners as many as y.
    /// # Errors
    /// [`crate::ModelError::Shape`] if x is not BHWC.
    pub fn max_pool(self, x: &Tensor, spec: &PoolSpec) -> Result<(Tensor, Marks)> {
        let _span = profile::span(|| format!("max pool {:?}", x.dims()));
        let shape = bhwc("max_pool", "x", x)?;
        on_gpu!(self, super::cuda::max_pool(x, shape, spec));
        let (out_h, out_w) = spec.output_size((shape[1], shape[2]));
        let y_shape = [shape[0], out_h, out_w, shape[3]];
        let (y, winner) = match self.on_cpu() {
            Cpu::Reference => {
                let values = Host::of("max_pool", x)?;
                let (y, winner) = reference::resample::max_pool(&values, shape, spec);
                (tensor(y, &y_shape, x.dtype())?, winner)
            }
            Cpu::Fast => by_dtype!(x.dtype(), V => {
                let values = Typed::<V>::of("max_pool", x)?;
                let (y, winner) = fast::resample::max_pool(&values, shape, spec);
                (tensor(y, &y_shape, x.dtype())?, winner)
            }),
        };
        Ok((y, winner.into()))
    }

    /// The gradient of [`Self::max_pool`] with respect to its input.
    ///
    /// # Shapes
    /// dy `(b, p, q, c)`, winners as [`Self::max_pool`] gives them → `x_shape`, `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if dy does not have the shape of the pooled output.
    pub fn max_pool_backward(
        self,
        dy: &Tensor,
        winner: &Marks,
        x_shape: [usize; 4],
        spec: &PoolSpec,
    ) -> Result<Tensor> {
        let _span = profile::span(|| format!("max pool backward {x_shape:?}"));
        let (out_h, out_w) = spec.output_size((x_shape[1], x_shape[2]));
        expect(
            "max_pool_backward",
            "dy",
            [x_shape[0], out_h, out_w, x_shape[3]],
            bhwc("max_pool_backward", "dy", dy)?,
        )?;
        let values = dy.elem_count();
        expect("max_pool_backward", "winners", values, winner.len())?;
        on_gpu!(
            self,
            super::cuda::max_pool_backward(dy, winner, x_shape, spec)
        );
        let (values, winner) = (Host::of("max_pool_backward", dy)?, &*winner.host()?);
        let dx = match self.on_cpu() {
            Cpu::Reference => {
                reference::resample::max_pool_backward(&values, winner, x_shape, spec)
            }
            Cpu::Fast => fast::resample::max_pool_backward(&values, winner, x_shape, spec),
        };
        tensor(dx, &x_shape, dy.dtype())
    }

    /// The mean over latitude and longitude.
    ///
    /// # Shapes
    /// `(b, h, w, c)` → `(b, 1, 1, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if x is not BHWC.
    pub fn global_average_pool(self, x: &Tensor) -> Result<Tensor> {
        let _span = profile::span(|| format!("global average pool {:?}", x.dims()));
        let [b, h, w, c] = bhwc("global_average_pool", "x", x)?;
        on_gpu!(self, super::cuda::global_average(x, [b, h, w, c]));
        let values = Host::of("global_average_pool", x)?;
        let mut means: Vec<f32> = Vec::with_capacity(b * c);
        for sample in values.chunks_exact(h * w * c) {
            let (mean, _) = match self.on_cpu() {
                Cpu::Reference => reference::norm::moments(sample, c),
                Cpu::Fast => fast::norm::moments(sample, c),
            };
            means.extend(mean.iter().map(|&m| m as f32));
        }
        tensor(means, &[b, 1, 1, c], x.dtype())
    }

    /// The gradient of [`Self::global_average_pool`]: the gradient of a sample, divided equally among its pixels.
    ///
    /// # Shapes
    /// dy `(b, 1, 1, c)` → `x_shape`, `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if dy is not `(b, 1, 1, c)` of `x_shape`.
    pub fn global_average_pool_backward(self, dy: &Tensor, x_shape: [usize; 4]) -> Result<Tensor> {
        let _span = profile::span(|| format!("global average pool backward {x_shape:?}"));
        let [b, h, w, c] = x_shape;
        expect(
            "global_average_pool_backward",
            "dy",
            [b, 1, 1, c],
            bhwc("global_average_pool_backward", "dy", dy)?,
        )?;
        on_gpu!(self, super::cuda::global_average_backward(dy, x_shape));
        let values = Host::of("global_average_pool_backward", dy)?;
        let share = 1.0 / (h * w) as f32;
        let mut dx = Vec::with_capacity(b * h * w * c);
        for sample in values.chunks_exact(c) {
            let pixel: Vec<f32> = sample.iter().map(|g| g * share).collect();
            (0..h * w).for_each(|_| dx.extend_from_slice(&pixel));
        }
        tensor(dx, &x_shape, dy.dtype())
    }

    /// Resizes x to `(h, w)` by bilinear interpolation with half-pixel centres.
    ///
    /// # Shapes
    /// `(b, h₀, w₀, c)` → `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if x is not BHWC.
    pub fn resize_bilinear(
        self,
        x: &Tensor,
        (h, w): (usize, usize),
        periodic: bool,
    ) -> Result<Tensor> {
        self.resize_bilinear_rows(x, (h, w), 0..h, periodic)
    }

    /// As [`Self::resize_bilinear`], for a range of output rows.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if x is not BHWC.
    pub(crate) fn resize_bilinear_rows(
        self,
        x: &Tensor,
        (h, w): (usize, usize),
        rows: Range<usize>,
        periodic: bool,
    ) -> Result<Tensor> {
        let _span = profile::span(|| format!("resize {:?}", x.dims()));
        let shape = bhwc("resize_bilinear", "x", x)?;
        on_gpu!(self, super::cuda::resize(x, shape, (h, w), rows, periodic));
        let (rows, columns) = (
            Axis::new(shape[1], h, false).part(rows),
            Axis::new(shape[2], w, periodic),
        );
        let values = Host::of("resize_bilinear", x)?;
        let y = match self.on_cpu() {
            Cpu::Reference => reference::resample::resize(&values, shape, &rows, &columns),
            Cpu::Fast => fast::resample::resize(&values, shape, &rows, &columns),
        };
        tensor(y, &[shape[0], rows.len(), w, shape[3]], x.dtype())
    }

    /// The gradient of [`Self::resize_bilinear`] with respect to its input.
    ///
    /// # Shapes
    /// dy `(b, h, w, c)` → `x_shape`, `(b, h₀, w₀, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] if dy is not BHWC with the batch and channels of `x_shape`.
    pub fn resize_bilinear_backward(
        self,
        dy: &Tensor,
        x_shape: [usize; 4],
        periodic: bool,
    ) -> Result<Tensor> {
        let _span = profile::span(|| format!("resize backward {:?}", dy.dims()));
        let [b, h, w, c] = bhwc("resize_bilinear_backward", "dy", dy)?;
        expect(
            "resize_bilinear_backward",
            "dy (b, c)",
            (x_shape[0], x_shape[3]),
            (b, c),
        )?;
        on_gpu!(
            self,
            super::cuda::resize_backward(dy, x_shape, (h, w), periodic)
        );
        let (rows, columns) = (
            Axis::new(x_shape[1], h, false),
            Axis::new(x_shape[2], w, periodic),
        );
        let values = Host::of("resize_bilinear_backward", dy)?;
        let dx = match self.on_cpu() {
            Cpu::Reference => {
                reference::resample::resize_backward(&values, x_shape, &rows, &columns)
            }
            Cpu::Fast => fast::resample::resize_backward(&values, x_shape, &rows, &columns),
        };
        tensor(dx, &x_shape, dy.dtype())
    }
}
