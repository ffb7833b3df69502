//! Pooling, resizing and dropout: layers without parameters.

use super::Layer;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::PoolSpec;
use crate::parameters::Parameters;
use crate::pass::{Pass, Saved};
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

pub(crate) fn shape_of(x: &Tensor) -> Result<[usize; 4]> {
    let (b, h, w, c) = x.dims4()?;
    Ok([b, h, w, c])
}

/// The maximum of every window.
#[derive(Debug)]
pub(crate) struct MaxPool(pub PoolSpec);

impl MaxPool {
    /// Takes every `stride`-th pixel: the shortcut of a bottleneck that reduces the extents but keeps the channels.
    pub(crate) fn subsample(stride: usize) -> Self {
        Self(PoolSpec {
            kernel: 1,
            stride,
            padding: 0,
            periodic: false,
        })
    }
}

impl Layer for MaxPool {
    fn forward(&self, _: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let (y, winners) = pass.backend.max_pool(x, &self.0)?;
        pass.push(Saved::Winners(winners));
        pass.push(Saved::Shape(shape_of(x)?));
        Ok(y)
    }

    fn backward(
        &self,
        _: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        _: &mut Gradients,
    ) -> Result<Tensor> {
        let shape = pass.pop_shape();
        let winners = pass.pop_winners();
        pass.backend
            .max_pool_backward(&dy, &winners, shape, &self.0)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let [b, h, w, c] = x.shape;
        let (p, q) = self.0.output_size((h, w));
        trace.keep_bytes((b * p * q * c) as u64);
        Ok(trace.op(&[x], [b, p, q, c]))
    }
}

/// x resized to `size` by bilinear interpolation.
pub(crate) fn resize(
    pass: &mut Pass,
    x: &Tensor,
    size: (usize, usize),
    periodic: bool,
) -> Result<Tensor> {
    pass.push(Saved::Shape(shape_of(x)?));
    pass.backend.resize_bilinear(x, size, periodic)
}

/// The gradient of [`resize`].
pub(crate) fn resize_backward(pass: &mut Pass, dy: &Tensor, periodic: bool) -> Result<Tensor> {
    let shape = pass.pop_shape();
    pass.backend.resize_bilinear_backward(dy, shape, periodic)
}

/// Dropout of a share of the values of x in training; x itself in inference.
pub(crate) fn dropout(pass: &mut Pass, x: Tensor, share: f32) -> Result<Tensor> {
    if share == 0.0 || !pass.is_training() {
        return Ok(x);
    }
    let key = pass.next_key();
    pass.push(Saved::Key(key));
    pass.backend.dropout(&x, share, key)
}

/// The gradient of [`dropout`].
pub(crate) fn dropout_backward(pass: &mut Pass, dy: Tensor, share: f32) -> Result<Tensor> {
    if share == 0.0 {
        return Ok(dy);
    }
    let key = pass.pop_key();
    pass.backend.dropout(&dy, share, key)
}
