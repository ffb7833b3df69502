//! Depthwise convolutions, and separable ones: a kernel per channel, then a 1x1 convolution that mixes the channels.
//!
//! # Source
//! Chollet 2017 (arXiv:1610.02357).

use super::Layer;
use super::batch_norm::BatchNorm;
use super::conv::Conv;
use super::resize::shape_of;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::norm::After;
use crate::ops::{ConvSpec, Convolution};
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// One kernel per channel, without bias.
#[derive(Debug)]
pub(crate) struct Depthwise {
    name: String,
    weight: ParameterId,
    spec: ConvSpec,
    channels: usize,
}

impl Depthwise {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: ConvSpec,
        channels: usize,
    ) -> Result<Self> {
        let shape = [channels, 1, spec.kernel.0, spec.kernel.1];
        let fan_in = spec.kernel.0 * spec.kernel.1;
        Ok(Self {
            name: name.to_string(),
            weight: parameters.weight(format!("{name}.weight"), &shape, fan_in)?,
            spec: ConvSpec {
                groups: channels,
                ..spec
            },
            channels,
        })
    }
}

impl Layer for Depthwise {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let x = pass.push_input(self.weight, x)?;
        (pass.backend).depthwise_conv2d(&x, parameters.kernel(self.weight, pass), &self.spec)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let (x, kept) = pass.pop_input(self.weight)?;
        let dy = pass.gradient(self.weight, dy)?;
        let dw = gradients.sink(parameters.range(self.weight));
        (pass.backend).depthwise_conv2d_backward_weights(&x, &dy, &self.spec, dw)?;
        let shape = shape_of(&x)?;
        drop(x);
        let kernel = parameters.kernel(self.weight, pass);
        let dx = (pass.backend).depthwise_conv2d_backward_data(&dy, kernel, shape, &self.spec)?;
        pass.backend.convert(&dx, kept)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let [b, h, w, _] = x.shape;
        let (p, q) = self.spec.output_size((h, w))?;
        let weights = self.channels * self.spec.kernel.0 * self.spec.kernel.1;
        let y = [b, p, q, self.channels];
        let flops = 2 * (b * p * q * weights) as u64;
        trace.convolution(Convolution {
            spec: self.spec,
            x: x.shape,
            y,
        });
        Ok(trace.layer(&self.name, &[x], y, weights, flops))
    }
}

/// A depthwise convolution directly followed by a 1x1 convolution.
#[derive(Debug)]
pub(crate) struct Separable {
    depthwise: Depthwise,
    pointwise: Conv,
}

impl Separable {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: ConvSpec,
        channels: (usize, usize),
    ) -> Result<Self> {
        let (depth, point) = (format!("{name}.depthwise"), format!("{name}.pointwise"));
        Ok(Self {
            depthwise: Depthwise::new(parameters, &depth, spec, channels.0)?,
            pointwise: Conv::new(parameters, &point, ConvSpec::same(1), channels, false)?,
        })
    }
}

impl Layer for Separable {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let y = self.depthwise.forward(parameters, pass, x)?;
        self.pointwise.forward(parameters, pass, &y)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let dy = self.pointwise.backward(parameters, pass, dy, gradients)?;
        self.depthwise.backward(parameters, pass, dy, gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let y = self.depthwise.trace(x, trace)?;
        self.pointwise.trace(y, trace)
    }
}

/// A separable convolution and its batch normalisation.
#[derive(Debug)]
pub(crate) struct SeparableUnit {
    conv: Separable,
    norm: BatchNorm,
}

impl SeparableUnit {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: ConvSpec,
        channels: (usize, usize),
        eps: f32,
    ) -> Result<Self> {
        Ok(Self {
            conv: Separable::new(parameters, name, spec, channels)?,
            norm: BatchNorm::new(parameters, &format!("{name}.norm"), channels.1, eps)?,
        })
    }

    /// The normalised output, plus `residual` if there is one, then a ReLU if requested.
    pub(crate) fn forward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        residual: Option<&Tensor>,
        relu: bool,
    ) -> Result<Tensor> {
        let Separable {
            depthwise,
            pointwise,
        } = &self.conv;
        let y = depthwise.forward(parameters, pass, x)?;
        (self.norm).forward_after(pointwise, parameters, pass, &y, (residual, relu))
    }

    /// Returns the gradients of x and, if there was one, of the residual.
    pub(crate) fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        after: After,
        gradients: &mut Gradients,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let (dy, dresidual) = (self.norm).backward(parameters, pass, dy, after, gradients)?;
        Ok((
            self.conv.backward(parameters, pass, dy, gradients)?,
            dresidual,
        ))
    }

    /// Returns the output's shape; `residual` is added to the output if `after` includes it.
    pub(crate) fn trace(
        &self,
        x: Flow,
        residual: Flow,
        after: After,
        trace: &mut Trace,
    ) -> Result<Flow> {
        let y = self.conv.trace(x, trace)?;
        if after.residual {
            trace.also_reads(residual);
        }
        let normed = self.norm.trace(y, after, trace);
        trace.fused_in_inference(y, normed);
        Ok(normed)
    }
}
