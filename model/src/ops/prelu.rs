//! The parametric ReLU: a slope per channel below zero.
//!
//! y = x where x > 0, else a x; dx = dy or a dy likewise, da = Σ dy x over the pixels where x ≤ 0.
//!
//! # Source
//! He et al. 2015 (arXiv:1502.01852); at exactly 0 as PyTorch's.

#[cfg(feature = "onednn")]
use super::fast::CHUNK;
use super::host::{Host, bhwc, expect, tensor};
use super::{Backend, Channels, Landing, on_gpu};
use crate::error::Result;
use candle_core::Tensor;
#[cfg(feature = "onednn")]
use rayon::prelude::*;

impl Backend {
    /// x where it is above 0, else x times its channel's slope.
    ///
    /// # Shapes
    /// x `(b, h, w, c)`, slope `c`
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn prelu<'c>(self, x: &Tensor, slope: impl Into<Channels<'c>>) -> Result<Tensor> {
        let slope = slope.into();
        let shape = bhwc("prelu", "x", x)?;
        expect("prelu", "slope", shape[3], slope.len())?;
        on_gpu!(self, super::cuda::prelu(x, &slope));
        let slope = &*slope.host()?;
        let values = Host::of("prelu", x)?;
        let y = match self {
            Self::Reference => plain(&values, slope),
            #[cfg(feature = "onednn")]
            Self::OneDnn => {
                let mut y = vec![0.0; values.len()];
                let length = whole_pixels(slope.len());
                (y.par_chunks_mut(length).zip(values.par_chunks(length)))
                    .for_each(|(y, x)| forward(y, x, slope));
                y
            }
            #[cfg(feature = "cuda")]
            Self::Cuda => unreachable!("given above"),
        };
        tensor(y, &shape, x.dtype())
    }

    /// The gradient of [`Self::prelu`] with respect to x; the slope's is added to `dslope`.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn prelu_backward<'c, 'd>(
        self,
        dy: &Tensor,
        x: &Tensor,
        slope: impl Into<Channels<'c>>,
        dslope: impl Into<Landing<'d>>,
    ) -> Result<Tensor> {
        let op = "prelu_backward";
        let (slope, dslope) = (slope.into(), dslope.into());
        let shape = bhwc(op, "x", x)?;
        expect(op, "dy", x.dims(), dy.dims())?;
        expect(
            op,
            "slope",
            (shape[3], shape[3]),
            (slope.len(), dslope.len()),
        )?;
        on_gpu!(self, super::cuda::prelu_backward(dy, x, &slope, dslope));
        let (slope, dslope) = (&*slope.host()?, dslope.host()?);
        let (grad, values) = (Host::of(op, dy)?, Host::of(op, x)?);
        let (dx, sums) = match self {
            Self::Reference => plain_backward(&grad, &values, slope),
            #[cfg(feature = "onednn")]
            Self::OneDnn => parallel_backward(&grad, &values, slope),
            #[cfg(feature = "cuda")]
            Self::Cuda => unreachable!("given above"),
        };
        dslope
            .iter_mut()
            .zip(sums)
            .for_each(|(d, sum)| *d += sum as f32);
        tensor(dx, &shape, dy.dtype())
    }
}

fn plain(x: &[f32], slope: &[f32]) -> Vec<f32> {
    let value = |(index, &x): (usize, &f32)| {
        let a = slope[index % slope.len()];
        if x > 0.0 { x } else { a * x }
    };
    x.iter().enumerate().map(value).collect()
}

fn plain_backward(dy: &[f32], x: &[f32], slope: &[f32]) -> (Vec<f32>, Vec<f64>) {
    let (mut dx, mut sums) = (dy.to_vec(), vec![0.0f64; slope.len()]);
    for (index, (dx, &x)) in dx.iter_mut().zip(x).enumerate() {
        let c = index % slope.len();
        if x <= 0.0 {
            sums[c] += f64::from(*dx) * f64::from(x);
            *dx *= slope[c];
        }
    }
    (dx, sums)
}

#[cfg(feature = "onednn")]
fn whole_pixels(channels: usize) -> usize {
    (CHUNK / channels).max(1) * channels
}

#[cfg(feature = "onednn")]
fn forward(y: &mut [f32], x: &[f32], slope: &[f32]) {
    let channels = slope.len();
    for (y, x) in y.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
        for c in 0..channels {
            y[c] = if x[c] > 0.0 { x[c] } else { slope[c] * x[c] };
        }
    }
}

/// Chunks do not depend on the number of threads, and their sums are added in order.
#[cfg(feature = "onednn")]
fn parallel_backward(dy: &[f32], x: &[f32], slope: &[f32]) -> (Vec<f32>, Vec<f64>) {
    let (channels, length) = (slope.len(), whole_pixels(slope.len()));
    let mut dx = vec![0.0; dy.len()];
    let partials: Vec<Vec<f32>> = (dx.par_chunks_mut(length))
        .zip(dy.par_chunks(length))
        .zip(x.par_chunks(length))
        .map(|((dx, dy), x)| {
            let mut sums = vec![0.0f32; channels];
            let pixels = (dx.chunks_exact_mut(channels))
                .zip(dy.chunks_exact(channels))
                .zip(x.chunks_exact(channels));
            for ((dx, dy), x) in pixels {
                for c in 0..channels {
                    let above = x[c] > 0.0;
                    dx[c] = if above { dy[c] } else { slope[c] * dy[c] };
                    sums[c] += if above { 0.0 } else { dy[c] * x[c] };
                }
            }
            sums
        })
        .collect();
    let mut sums = vec![0.0; channels];
    for part in partials {
        sums.iter_mut()
            .zip(part)
            .for_each(|(sum, part)| *sum += f64::from(part));
    }
    (dx, sums)
}
