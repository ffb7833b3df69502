//! Depthwise convolutions: one kernel per channel.
//!
//! oneDNN is fast in the forward pass, and in the backward passes of kernels without dilation. With dilation it falls
//! back to code up to 27 times slower than the loops of `fast::depthwise`
//! (`cargo run --release -p squall-model --example depthwise_paths`). The dispatch depends on the geometry alone, so
//! that two runs of one recipe are bit-identical.
//!
//! # Shapes
//! x `(b, h, w, c)`, weights `(c, 1, kh, kw)` → `(b, p, q, c)`; the spec's `groups` is c.

use super::Fuse;
use super::conv_spec::Convolution;
use super::fast;
use super::host::{Host, bhwc, expect, tensor};
use super::{Backend, ConvSpec, Cpu, GradientSink, on_gpu, reference};
use crate::error::Result;
use crate::profile;
use candle_core::Tensor;

/// Whether oneDNN is faster than our own loops.
pub(crate) fn is_fast_in_onednn(spec: &ConvSpec, backward: bool) -> bool {
    spec.groups.is_multiple_of(8) && (spec.dilation == 1 || !backward)
}

/// Profiles our own loops; oneDNN's operations record their own names.
fn span(what: &str, x: [usize; 4], spec: &ConvSpec) -> profile::Span {
    profile::span(|| format!("{what} {x:?} {}", spec.brief()))
}

impl Backend {
    /// The convolution of every channel of x with its own kernel.
    ///
    /// # Shapes
    /// x `(b, h, w, c)`, weights `(c, 1, kh, kw)` → `(b, p, q, c)` with [`ConvSpec::output_size`]
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn depthwise_conv2d(self, x: &Tensor, weights: &Tensor, spec: &ConvSpec) -> Result<Tensor> {
        let op = "depthwise_conv2d";
        let x_shape = bhwc(op, "x", x)?;
        expect(op, "groups", x_shape[3], spec.groups)?;
        let conv = &Convolution::of(op, spec, x_shape, weights.dims())?;
        expect(op, "outputs", x_shape[3], conv.y[3])?;
        on_gpu!(self, super::cuda::depthwise(conv, x, weights));
        if self.is_onednn() && is_fast_in_onednn(spec, false) {
            return self.conv2d(x, weights, None, spec, Fuse::None);
        }
        let _span = span("depthwise_conv2d", x_shape, spec);
        let (values, w) = (Host::of(op, x)?, Host::of(op, weights)?);
        let y = match self.on_cpu() {
            Cpu::Reference => reference::conv::forward(conv, &values, &w, None),
            Cpu::Fast => fast::depthwise::forward(conv, &values, &w),
        };
        tensor(y, &conv.y, x.dtype())
    }

    /// The gradient of [`Self::depthwise_conv2d`] with respect to x.
    ///
    /// # Shapes
    /// dy `(b, p, q, c)`, weights `(c, 1, kh, kw)` → `x_shape`, `(b, h, w, c)`
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn depthwise_conv2d_backward_data(
        self,
        dy: &Tensor,
        weights: &Tensor,
        x_shape: [usize; 4],
        spec: &ConvSpec,
    ) -> Result<Tensor> {
        let op = "depthwise_conv2d_backward_data";
        expect(op, "groups", x_shape[3], spec.groups)?;
        let conv = &Convolution::of(op, spec, x_shape, weights.dims())?;
        expect(op, "dy", &conv.y[..], dy.dims())?;
        on_gpu!(
            self,
            super::cuda::depthwise_backward_data(conv, dy, weights)
        );
        if self.is_onednn() && is_fast_in_onednn(spec, true) {
            return self.conv2d_backward_data(dy, weights, x_shape, spec);
        }
        let _span = span("depthwise_conv2d backward data", x_shape, spec);
        let (grad, w) = (Host::of(op, dy)?, Host::of(op, weights)?);
        let dx = match self.on_cpu() {
            Cpu::Reference => reference::conv::backward_data(conv, &grad, &w),
            Cpu::Fast => fast::depthwise::backward_data(conv, &grad, &w),
        };
        tensor(dx, &x_shape, dy.dtype())
    }

    /// Adds the gradient of [`Self::depthwise_conv2d`] with respect to the weights.
    ///
    /// # Shapes
    /// x `(b, h, w, c)`, dy `(b, p, q, c)`; dw has the values of `(c, 1, kh, kw)`.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn depthwise_conv2d_backward_weights<'d>(
        self,
        x: &Tensor,
        dy: &Tensor,
        spec: &ConvSpec,
        dw: impl Into<GradientSink<'d>>,
    ) -> Result<()> {
        let dw = dw.into();
        let op = "depthwise_conv2d_backward_weights";
        let (x_shape, y_shape) = (bhwc(op, "x", x)?, bhwc(op, "dy", dy)?);
        let weights = [x_shape[3], 1, spec.kernel.0, spec.kernel.1];
        expect(op, "groups", x_shape[3], spec.groups)?;
        let conv = &Convolution::of(op, spec, x_shape, &weights)?;
        expect(op, "dy", conv.y, y_shape)?;
        expect(op, "dw", weights.iter().product(), dw.len())?;
        on_gpu!(
            self,
            super::cuda::depthwise_backward_weights(conv, x, dy, dw)
        );
        let dw = dw.host()?;
        if self.is_onednn() && is_fast_in_onednn(spec, true) {
            return self.conv2d_backward_weights(x, dy, spec, dw, None);
        }
        let _span = span("depthwise_conv2d backward weights", x_shape, spec);
        let (values, grad) = (Host::of(op, x)?, Host::of(op, dy)?);
        match self.on_cpu() {
            Cpu::Reference => reference::conv::backward_weights(conv, &values, &grad, dw),
            Cpu::Fast => fast::depthwise::backward_weights(conv, &values, &grad, dw),
        }
        Ok(())
    }
}
