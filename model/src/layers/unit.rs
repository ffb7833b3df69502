//! Convolution, normalisation, ReLU: the basic unit of the networks.

use super::conv::Conv;
use super::norm::Norm;
use super::{Joining, Layer, Style};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::{ConvSpec, Fuse};
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// A convolution without bias, its normalisation and a ReLU.
#[derive(Debug)]
pub(crate) struct Unit {
    conv: Conv,
    norm: Norm,
}

impl Unit {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: ConvSpec,
        channels: (usize, usize),
        style: Style,
    ) -> Result<Self> {
        let spec = spec.periodic(style.periodic);
        Ok(Self {
            conv: Conv::new(parameters, name, spec, channels, false)?,
            norm: Norm::new(parameters, &format!("{name}.norm"), channels.1, style)?,
        })
    }

    /// Adds only the parameter gradients, for a first layer, whose input needs no gradient.
    pub(crate) fn backward_parameters(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let dy = self.norm.backward(parameters, pass, dy, gradients)?;
        (self.conv).backward_parameters(parameters, pass, &dy, gradients)
    }
}

impl Joining for Unit {
    fn forward_joined(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        parts: &[Tensor],
    ) -> Result<Tensor> {
        if !pass.is_training() {
            let fold = || self.norm.folded(parameters, self.conv.channels_out);
            let after = self.norm.dtype_after(pass, self.conv.output_dtype(pass));
            return (self.conv).forward_folded(parameters, pass, parts, fold, (Fuse::Relu, after));
        }
        let x = self.conv.forward_joined(parameters, pass, parts)?;
        self.norm.forward(parameters, pass, &x)
    }

    fn backward_joined(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        channels: &[usize],
        gradients: &mut Gradients,
    ) -> Result<Vec<Tensor>> {
        let dy = self.norm.backward(parameters, pass, dy, gradients)?;
        (self.conv).backward_joined(parameters, pass, dy, channels, gradients)
    }

    fn trace_joined(&self, parts: &[Flow], trace: &mut Trace) -> Result<Flow> {
        let x = self.conv.trace_joined(parts, trace)?;
        let y = self.norm.trace(x, trace)?;
        trace.fused_in_inference(x, y);
        Ok(y)
    }

    fn channels_in(&self) -> usize {
        self.conv.channels_in()
    }
}

/// A unit if batch normalisation is on, otherwise a convolution with a bias and no activation.
#[derive(Debug)]
pub(crate) enum MaybeNormed {
    Normed(Unit),
    Biased(Conv),
}

impl MaybeNormed {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: ConvSpec,
        channels: (usize, usize),
        style: Style,
    ) -> Result<Self> {
        if style.batch_norm {
            let unit = Unit::new(parameters, name, spec, channels, style)?;
            return Ok(Self::Normed(unit));
        }
        let spec = spec.periodic(style.periodic);
        let conv = Conv::new(parameters, name, spec, channels, true)?;
        Ok(Self::Biased(conv))
    }

    /// The layer, of either variant.
    pub(crate) fn layer(&self) -> &dyn Joining {
        match self {
            Self::Normed(unit) => unit,
            Self::Biased(conv) => conv,
        }
    }
}
