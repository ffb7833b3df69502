//! An upsampling unit: a transposed convolution that doubles the resolution, then normalisation and ReLU.

use super::norm::Norm;
use super::upsample::Upsample;
use super::{Layer, Style};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// Half of each extent, rounded up: the extents after a convolution of stride 2.
pub(crate) fn half((h, w): (usize, usize)) -> (usize, usize) {
    (h.div_ceil(2), w.div_ceil(2))
}

/// A transposed convolution that doubles the resolution. With batch normalisation it has no bias and is followed by
/// normalisation and ReLU; otherwise it has a bias and nothing after it.
#[derive(Debug)]
pub(crate) struct UpsampleUnit {
    conv: Upsample,
    norm: Option<Norm>,
}

impl UpsampleUnit {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        channels: (usize, usize),
        style: Style,
    ) -> Result<Self> {
        let conv = Upsample::new(
            parameters,
            name,
            style.periodic,
            channels,
            !style.batch_norm,
        )?;
        let norm = (style.batch_norm)
            .then(|| Norm::new(parameters, &format!("{name}.norm"), channels.1, style))
            .transpose()?;
        Ok(Self { conv, norm })
    }

    pub(crate) fn forward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        size: (usize, usize),
    ) -> Result<Tensor> {
        if let Some(norm) = self.norm.as_ref().filter(|_| !pass.is_training()) {
            let (conv, channels) = (&self.conv, self.conv.channels_out);
            let fold = || norm.folded(parameters, channels);
            let after = norm.dtype_after(pass, conv.dtype(pass));
            return conv.forward_folded(parameters, pass, x, size, fold, after);
        }
        let y = self.conv.forward(parameters, pass, x, size)?;
        match &self.norm {
            Some(norm) => norm.forward(parameters, pass, &y),
            None => Ok(y),
        }
    }

    pub(crate) fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        mut dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        if let Some(norm) = &self.norm {
            dy = norm.backward(parameters, pass, dy, gradients)?;
        }
        self.conv.backward(parameters, pass, dy, gradients)
    }

    pub(crate) fn trace(&self, x: Flow, size: (usize, usize), trace: &mut Trace) -> Result<Flow> {
        let y = self.conv.trace(x, size, trace);
        let Some(norm) = &self.norm else {
            return Ok(y);
        };
        let normed = norm.trace(y, trace)?;
        trace.fused_in_inference(y, normed);
        Ok(normed)
    }
}
