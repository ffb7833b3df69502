//! Normalisation and the ReLU after it.

use super::batch_norm::{BatchNorm, EPS};
use super::conv::Fold;
use super::{Layer, Style};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::norm::After;
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::{DType, Tensor};

/// Normalisation over batch and space, then a ReLU (except in [`Norm::preactivation`] of a network without one).
#[derive(Debug)]
pub(crate) enum Norm {
    /// Batch normalisation.
    Batch(BatchNorm),
    /// x / 2: used by the SC18 runs instead, to keep f16 in range (1810.01993; ClimDeepLearn `deeplab_model.py`).
    Half {
        /// Whether a ReLU follows.
        relu: bool,
    },
}

impl Norm {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        channels: usize,
        style: Style,
    ) -> Result<Self> {
        if !style.batch_norm {
            return Ok(Self::Half { relu: true });
        }
        Ok(Self::Batch(BatchNorm::new(
            parameters, name, channels, EPS,
        )?))
    }

    /// The normalisation before a residual unit.
    pub(crate) fn preactivation(
        parameters: &mut Parameters,
        name: &str,
        channels: usize,
        style: Style,
    ) -> Result<Self> {
        match (style.batch_norm, style.preactivation_relu) {
            (false, relu) => Ok(Self::Half { relu }),
            (true, _) => Self::new(parameters, name, channels, style),
        }
    }

    /// The normalisation in inference as one scale and shift per channel.
    pub(crate) fn folded(&self, parameters: &Parameters, channels: usize) -> Result<Fold> {
        match self {
            Self::Batch(norm) => norm.folded(parameters),
            Self::Half { .. } => Ok((vec![0.5; channels], vec![0.0; channels])),
        }
    }

    /// The type of its output; x / 2 keeps that of the preceding `convolution`.
    pub(crate) fn dtype_after(&self, pass: &Pass, convolution: DType) -> DType {
        match self {
            Self::Batch(norm) => norm.dtype(pass),
            Self::Half { .. } => convolution,
        }
    }
}

impl Layer for Norm {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Half { relu: false } => pass.backend.scale(x, 0.5),
            Self::Half { relu: true } => {
                let channels = x.dim(3)?;
                let of = |value| pass.backend.equal_channels(value, channels);
                let (half, zero) = (of(0.5)?, of(0.0)?);
                let y = (pass.backend).batch_norm_apply(x, half, zero, None, true)?;
                pass.push_tensor(&y)?;
                Ok(y)
            }
            Self::Batch(norm) => norm.forward(parameters, pass, x, None, true),
        }
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        match self {
            Self::Half { relu: false } => pass.backend.scale(&dy, 0.5),
            Self::Half { relu: true } => {
                let y = pass.pop_tensor()?;
                let dx = pass.backend.relu_backward(&dy, &y)?;
                drop((dy, y));
                pass.backend.scale(&dx, 0.5)
            }
            Self::Batch(norm) => Ok(norm
                .backward(parameters, pass, dy, After::RELU, gradients)?
                .0),
        }
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        Ok(match self {
            Self::Batch(norm) => norm.trace(x, After::RELU, trace),
            Self::Half { relu } => {
                let y = trace.op(&[x], x.shape);
                if *relu {
                    trace.keep(y);
                }
                y
            }
        })
    }
}
