//! Batch normalisation followed by a parametric ReLU.

use super::Layer;
use super::batch_norm::BatchNorm;
use super::conv::Conv;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::norm::After;
use crate::parameters::{Kind, ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// The initial slope below zero, as in PyTorch.
const SLOPE: f32 = 0.25;

/// Batch normalisation, then a slope per channel below zero.
#[derive(Debug)]
pub(crate) struct NormPrelu {
    norm: BatchNorm,
    name: String,
    slope: ParameterId,
    channels: usize,
}

impl NormPrelu {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        channels: usize,
        eps: f32,
    ) -> Result<Self> {
        let norm = BatchNorm::new(parameters, &format!("{name}.norm"), channels, eps)?;
        let slope = format!("{name}.slope");
        Ok(Self {
            norm,
            slope: parameters.vector(slope.clone(), Kind::Slope, channels, SLOPE)?,
            name: slope,
            channels,
        })
    }

    /// As [`Layer::forward`] on `conv` of x; inference folds the normalisation into the convolution.
    pub(crate) fn forward_after(
        &self,
        conv: &Conv,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
    ) -> Result<Tensor> {
        let normed = (self.norm).forward_after(conv, parameters, pass, x, (None, false))?;
        self.activate(parameters, pass, &normed)
    }

    /// Applies the parametric ReLU to the normalised values.
    fn activate(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let x = pass.push_input(self.slope, x)?;
        let slope = parameters.channels(self.slope)?;
        let y = pass.backend.prelu(&x, &slope)?;
        pass.recompute_from_prelu(&y, &x, slope);
        Ok(y)
    }
}

impl Layer for NormPrelu {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let normed = self.norm.forward(parameters, pass, x, None, false)?;
        self.activate(parameters, pass, &normed)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let slope = parameters.channels(self.slope)?;
        let dslope = gradients.sink(parameters.range(self.slope));
        let (x, kept) = pass.pop_input(self.slope)?;
        let mut dy = pass.gradient(self.slope, dy)?;
        dy = pass.backend.prelu_backward(&dy, &x, slope, dslope)?;
        drop(x);
        dy = pass.backend.convert(&dy, kept)?;
        let (dx, _) = (self.norm).backward(parameters, pass, dy, After::NOTHING, gradients)?;
        Ok(dx)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let normed = self.norm.trace(x, After::NOTHING, trace);
        Ok(self.trace_slope(normed, trace))
    }
}

impl NormPrelu {
    /// As [`Layer::trace`], after a convolution into which inference folds the normalisation.
    pub(crate) fn trace_folded(&self, x: Flow, trace: &mut Trace) -> Flow {
        let normed = self.norm.trace(x, After::NOTHING, trace);
        trace.fused_in_inference(x, normed);
        self.trace_slope(normed, trace)
    }

    fn trace_slope(&self, normed: Flow, trace: &mut Trace) -> Flow {
        let y = trace.layer(&self.name, &[normed], normed.shape, self.channels, 0);
        trace.recompute_from(y, normed);
        y
    }
}
