//! Transposed convolutions: each is the gradient of a convolution with respect to its input.

use super::conv_spec::ConvTransposeSpec;
use super::host::{bhwc, expect};
use super::{Backend, Fuse, GradientSink, Weights};
use crate::error::Result;
use candle_core::Tensor;

impl Backend {
    /// The transposed convolution of x with weights, plus bias.
    ///
    /// # Shapes
    /// x `(b, p, q, o)`, weights `(o, c / groups, kh, kw)`, bias `c` → `(b, h, w, c)` with [`ConvTransposeSpec::output_size`].
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv_transpose2d(
        self,
        x: &Tensor,
        weights: &Tensor,
        bias: Option<&Tensor>,
        spec: &ConvTransposeSpec,
    ) -> Result<Tensor> {
        let mut all = Weights::transposed(weights);
        if let Some(bias) = bias {
            all = all.biased(self.channels_of("conv_transpose2d", bias)?);
        }
        self.conv_transpose2d_with(x, &all, spec, false)
    }

    /// As [`Self::conv_transpose2d`], with weights that cache their packed forms, then a ReLU if requested.
    ///
    /// # Shapes
    /// As [`Self::conv_transpose2d`]; the weights hold the bias.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv_transpose2d_with(
        self,
        x: &Tensor,
        weights: &Weights,
        spec: &ConvTransposeSpec,
        relu: bool,
    ) -> Result<Tensor> {
        let [b, p, q, _] = bhwc("conv_transpose2d", "x", x)?;
        let (h, w) = spec.output_size((p, q));
        let channels = weights.dims().get(1).copied().unwrap_or(0) * spec.conv.groups;
        self.transposed(x, weights, [b, h, w, channels], &spec.conv, relu)
    }

    /// The gradient of [`Self::conv_transpose2d`] with respect to x.
    ///
    /// # Shapes
    /// dy `(b, h, w, c)`, weights `(o, c / groups, kh, kw)` → `(b, p, q, o)`
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv_transpose2d_backward_data(
        self,
        dy: &Tensor,
        weights: &Tensor,
        spec: &ConvTransposeSpec,
    ) -> Result<Tensor> {
        self.conv2d(dy, weights, None, &spec.conv, Fuse::None)
    }

    /// Adds the gradients of [`Self::conv_transpose2d`] with respect to the weights and the bias.
    ///
    /// # Shapes
    /// x `(b, p, q, o)`, dy `(b, h, w, c)`; dw has the values of `(o, c / groups, kh, kw)`, dbias `c`.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn conv_transpose2d_backward_weights<'d>(
        self,
        x: &Tensor,
        dy: &Tensor,
        spec: &ConvTransposeSpec,
        dw: impl Into<GradientSink<'d>>,
        dbias: Option<GradientSink<'_>>,
    ) -> Result<()> {
        // The transposed convolution is the transpose of the convolution from dy to x.
        self.conv2d_backward_weights(dy, x, &spec.conv, dw, None)?;
        if let Some(dbias) = dbias {
            let op = "conv_transpose2d_backward_weights";
            expect(op, "dbias", dy.dims()[3], dbias.len())?;
            self.add_channel_sums(op, dy, dbias)?;
        }
        Ok(())
    }
}
