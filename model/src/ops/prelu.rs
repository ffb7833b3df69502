//! The parametric ReLU, with a trainable slope below zero per channel.
//!
//! y = x where x > 0, otherwise a x; dx = dy or a dy accordingly; da = Σ dy x over the pixels where x > 0 is false.
//! This includes NaN, so that the slope's gradient does not hide it.
//!
//! # Source
//! He et al. 2015 (arXiv:1502.01852); at exactly 0 as in PyTorch.

use super::fast;
use super::host::{Host, Typed, bhwc, expect, tensor};
use super::value::by_dtype;
use super::{Backend, Channels, GradientSink, on_gpu};
use crate::error::Result;
use candle_core::Tensor;

impl Backend {
    /// x where it is positive, otherwise x times its channel's slope.
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
        if self.is_onednn() {
            return by_dtype!(x.dtype(), V => {
                let y = fast::prelu::forward(&Typed::<V>::of("prelu", x)?, slope);
                tensor(y, &shape, x.dtype())
            });
        }
        let y = plain(&Host::of("prelu", x)?, slope);
        tensor(y, &shape, x.dtype())
    }

    /// Returns the gradient of [`Self::prelu`] with respect to x and adds that of the slope to `dslope`.
    ///
    /// # Shapes
    /// dy and x `(b, h, w, c)`, slope `c` → as x; dslope has `c` values.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn prelu_backward<'c, 'd>(
        self,
        dy: &Tensor,
        x: &Tensor,
        slope: impl Into<Channels<'c>>,
        dslope: impl Into<GradientSink<'d>>,
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
        let mut add = |sums: Vec<f64>| {
            let sums = dslope.iter_mut().zip(sums);
            sums.for_each(|(dslope, sum)| *dslope += sum as f32);
        };
        if self.is_onednn() {
            return by_dtype!(dy.dtype(), V => {
                let (grad, values) = (Typed::<V>::of(op, dy)?, Typed::<V>::of(op, x)?);
                let (dx, sums) = fast::prelu::backward(&grad, &values, slope);
                add(sums);
                tensor(dx, &shape, dy.dtype())
            });
        }
        let (dx, sums) = plain_backward(&Host::of(op, dy)?, &Host::of(op, x)?, slope);
        add(sums);
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
        let above = x > 0.0;
        if !above {
            sums[c] += f64::from(*dx) * f64::from(x);
            *dx *= slope[c];
        }
    }
    (dx, sums)
}
