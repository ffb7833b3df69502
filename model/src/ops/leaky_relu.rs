//! The leaky ReLU, with one fixed slope below zero for all channels.
//!
//! y = x where x > 0, otherwise a x; dx = dy where y > 0, otherwise a dy. With a > 0 the sign of y is that of x, so the
//! backward pass reads the output.
//!
//! # Source
//! Maas et al. 2013, "Rectifier nonlinearities improve neural network acoustic models".

use super::elementwise::{map, zip};
use super::host::{Typed, expect, tensor};
use super::value::by_dtype;
use super::{Backend, on_gpu};
use crate::error::Result;
use crate::profile;
use candle_core::Tensor;

/// The factor for a value: a select, which vectorises without branches.
#[inline(always)]
fn factor(value: f32, slope: f32) -> f32 {
    if value > 0.0 { 1.0 } else { slope }
}

impl Backend {
    /// x where it is positive, otherwise x · slope.
    ///
    /// # Shapes
    /// x of any shape → as x
    /// # Errors
    /// [`crate::ModelError::DType`] for integers.
    pub fn leaky_relu(self, x: &Tensor, slope: f32) -> Result<Tensor> {
        let _span = profile::span(|| format!("leaky relu {:?}", x.dims()));
        on_gpu!(self, super::cuda::leaky_relu(x, slope));
        by_dtype!(x.dtype(), V => {
            let values = Typed::<V>::of("leaky_relu", x)?;
            let y = map(&values, move |x| factor(x, slope) * x);
            tensor(y, x.dims(), x.dtype())
        })
    }

    /// The gradient of [`Self::leaky_relu`] from its output: dy where y is positive, otherwise dy · slope. Requires
    /// slope > 0.
    ///
    /// # Shapes
    /// y of any shape, dy as y → as y
    /// # Errors
    /// [`crate::ModelError::Shape`] if shapes differ.
    pub fn leaky_relu_backward(self, dy: &Tensor, y: &Tensor, slope: f32) -> Result<Tensor> {
        let _span = profile::span(|| format!("leaky relu backward {:?}", dy.dims()));
        let op = "leaky_relu_backward";
        expect(op, "y", dy.dims(), y.dims())?;
        on_gpu!(self, super::cuda::leaky_relu_backward(dy, y, slope));
        by_dtype!(dy.dtype(), V => {
            let (grad, value) = (Typed::<V>::of(op, dy)?, Typed::<V>::of(op, y)?);
            let dx = zip(&grad, &value, move |g, y| factor(y, slope) * g);
            tensor(dx, dy.dims(), dy.dtype())
        })
    }
}
