//! A scale and a shift per channel.

use super::Layer;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::parameters::{Kind, ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// y = scale · x + shift per channel.
#[derive(Debug)]
pub(crate) enum Affine {
    /// Scale and shift are trainable.
    Trainable {
        name: String,
        scale: ParameterId,
        shift: ParameterId,
        channels: usize,
    },
    /// x / 2.
    Half,
}

impl Affine {
    /// A trainable scale and shift that start as the identity.
    pub(crate) fn trainable(
        parameters: &mut Parameters,
        name: &str,
        channels: usize,
    ) -> Result<Self> {
        Ok(Self::Trainable {
            name: format!("{name}.affine"),
            scale: parameters.vector(format!("{name}.scale"), Kind::Scale, channels, 1.0)?,
            shift: parameters.vector(format!("{name}.shift"), Kind::Shift, channels, 0.0)?,
            channels,
        })
    }
}

impl Layer for Affine {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Half => pass.backend.scale(x, 0.5),
            Self::Trainable { scale, shift, .. } => {
                let x = pass.push_input(*scale, x)?;
                let (scale, shift) = (parameters.channels(*scale)?, parameters.channels(*shift)?);
                (pass.backend).batch_norm_apply(&x, scale, shift, None, false)
            }
        }
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let (scale, shift) = match self {
            Self::Half => return pass.backend.scale(&dy, 0.5),
            Self::Trainable { scale, shift, .. } => (*scale, *shift),
        };
        let dy = pass.gradient(scale, dy)?;
        let (x, kept) = pass.pop_input(scale)?;
        let (dscale, dshift) =
            gradients.two_sinks(parameters.range(scale), parameters.range(shift));
        pass.backend.affine_backward(&dy, &x, dscale, dshift)?;
        let factors = parameters.channels(scale)?;
        let zeros = pass.backend.equal_channels(0.0, factors.len())?;
        let dx = (pass.backend).batch_norm_apply(&dy, factors, zeros, None, false)?;
        pass.backend.convert(&dx, kept)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        if let Self::Trainable { name, channels, .. } = self {
            return Ok(trace.layer(name, &[x], x.shape, 2 * channels, 0));
        }
        Ok(trace.op(&[x], x.shape))
    }
}
