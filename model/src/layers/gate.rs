//! Channels weighted by a function of the field's mean (squeeze and excitation).
//!
//! # Source
//! Hu et al. 2018 (arXiv:1709.01507), as `FGlo` of CGNet (arXiv:1811.08201): mean, 1x1, ReLU, 1x1, sigmoid.

use super::Layer;
use super::conv::Conv;
use super::resize::shape_of;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::ConvSpec;
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// Multiplies x by a number between 0 and 1 per sample and channel.
#[derive(Debug)]
pub(crate) struct ChannelGate {
    reduce: Conv,
    expand: Conv,
}

impl ChannelGate {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        channels: usize,
        reduction: usize,
    ) -> Result<Self> {
        let (point, inner) = (ConvSpec::same(1), (channels / reduction).max(1));
        let (reduce, expand) = (format!("{name}.reduce"), format!("{name}.expand"));
        Ok(Self {
            reduce: Conv::new(parameters, &reduce, point, (channels, inner), true)?,
            expand: Conv::new(parameters, &expand, point, (inner, channels), true)?,
        })
    }
}

impl Layer for ChannelGate {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let mean = pass.backend.global_average_pool(x)?;
        let inner = self.reduce.forward_relu(parameters, pass, &[mean])?;
        pass.push_tensor(&inner)?;
        let z = self.expand.forward(parameters, pass, &inner)?;
        pass.push_tensor(x)?;
        pass.push_tensor(&z)?;
        pass.backend.gate(x, &z)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let (z, x) = (pass.pop_tensor()?, pass.pop_tensor()?);
        let shape = shape_of(&x)?;
        let (dx, dz) = pass.backend.gate_backward(&dy, &x, &z)?;
        drop((dy, x));
        let dinner = self.expand.backward(parameters, pass, dz, gradients)?;
        let inner = pass.pop_tensor()?;
        let dinner = pass.backend.relu_backward(&dinner, &inner)?;
        let dmean = self.reduce.backward(parameters, pass, dinner, gradients)?;
        let through = (pass.backend).global_average_pool_backward(&dmean, shape)?;
        pass.backend.add(&dx, &through)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let [b, _, _, c] = x.shape;
        let mean = trace.op(&[x], [b, 1, 1, c]);
        let inner = self.reduce.trace(mean, trace)?;
        trace.keep(inner);
        let z = self.expand.trace(inner, trace)?;
        trace.keep(x);
        trace.keep(z);
        Ok(trace.op(&[x, z], x.shape))
    }
}
