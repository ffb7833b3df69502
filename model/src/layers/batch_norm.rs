//! Batch normalisation, optionally followed by a residual sum, a ReLU or both.

use super::Layer;
use super::conv::{Conv, Fold};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::Fuse;
use crate::ops::norm::{After, NormBackward, fold};
use crate::parameters::{BufferId, Kind, ParameterId, Parameters};
use crate::pass::{Normed, Pass, Saved};
use crate::trace::{Flow, Trace};
use candle_core::{DType, Tensor};

/// The default ε added to the variance.
pub(crate) const EPS: f32 = 1e-5;

/// γ, β and the running statistics.
#[derive(Debug)]
pub(crate) struct BatchNorm {
    name: String,
    scale: ParameterId,
    shift: ParameterId,
    mean: BufferId,
    variance: BufferId,
    channels: usize,
    eps: f32,
}

impl BatchNorm {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        channels: usize,
        eps: f32,
    ) -> Result<Self> {
        Ok(Self {
            name: name.to_string(),
            scale: parameters.vector(format!("{name}.scale"), Kind::Scale, channels, 1.0)?,
            shift: parameters.vector(format!("{name}.shift"), Kind::Shift, channels, 0.0)?,
            mean: parameters.buffer(format!("{name}.running_mean"), channels, 0.0),
            variance: parameters.buffer(format!("{name}.running_variance"), channels, 1.0),
            channels,
            eps,
        })
    }

    /// The type in which this layer computes.
    pub(crate) fn dtype(&self, pass: &Pass) -> DType {
        pass.dtype_of(self.scale)
    }

    /// The normalisation in inference as one scale and shift per channel.
    pub(crate) fn folded(&self, parameters: &Parameters) -> Result<Fold> {
        let variance = parameters.running(self.variance);
        let inv_std: Vec<f32> = variance
            .iter()
            .map(|v| 1.0 / (v + self.eps).sqrt())
            .collect();
        let (gamma, beta) = (
            parameters.values(self.scale)?,
            parameters.values(self.shift)?,
        );
        Ok(fold(&gamma, &beta, parameters.running(self.mean), &inv_std))
    }

    /// Normalises x, adds `residual` if there is one, then applies a ReLU if requested.
    pub(crate) fn forward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        residual: Option<&Tensor>,
        relu: bool,
    ) -> Result<Tensor> {
        if !pass.is_training() {
            let (scale, shift) = self.folded(parameters)?;
            let x = pass.backend.convert(x, self.dtype(pass))?;
            return (pass.backend).batch_norm_apply(&x, &scale, &shift, residual, relu);
        }
        let (gamma, beta) = (
            parameters.channels(self.scale)?,
            parameters.channels(self.shift)?,
        );
        let (x, kept) = pass.push_input_kept(self.scale, x)?;
        let (y, saved) = (pass.backend).batch_norm_forward(
            &x,
            &gamma,
            &beta,
            self.eps,
            residual,
            relu,
            pass.norm_ranks(),
        )?;
        pass.record_statistics(self.mean, self.variance, &saved);
        // Without a residual the backward pass derives the ReLU's gate from x.
        if relu && residual.is_some() {
            pass.push_tensor(&y)?;
        }
        if relu && residual.is_none() {
            pass.push_gate(&y)?;
        }
        if let (None, Some(kept)) = (residual, kept) {
            let [scale, shift] = saved.folded(&gamma, &beta)?;
            let normed = Normed {
                x: kept,
                dtype: x.dtype(),
                scale,
                shift,
                relu,
            };
            pass.recompute_from_norm(&y, normed);
        }
        pass.push(Saved::Norm(saved));
        Ok(y)
    }

    /// As [`Self::forward`] on `conv` of x; inference folds the normalisation and what follows it into the convolution.
    pub(crate) fn forward_after(
        &self,
        conv: &Conv,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        (residual, relu): (Option<&Tensor>, bool),
    ) -> Result<Tensor> {
        if pass.is_training() {
            let y = conv.forward(parameters, pass, x)?;
            return self.forward(parameters, pass, &y, residual, relu);
        }
        let fuse = match (residual, relu) {
            (None, false) => Fuse::None,
            (None, true) => Fuse::Relu,
            (Some(residual), false) => Fuse::Add(residual),
            (Some(residual), true) => Fuse::AddRelu(residual),
        };
        let (fold, after) = (|| self.folded(parameters), self.dtype(pass));
        let x = std::slice::from_ref(x);
        conv.forward_folded(parameters, pass, x, fold, (fuse, after))
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
        let saved = pass.pop_norm();
        let y = (after.relu && after.residual).then(|| pass.pop_tensor());
        let y = y.transpose()?;
        let gate = (after.relu && !after.residual).then(|| pass.pop_gate());
        let (x, kept) = pass.pop_input(self.scale)?;
        let mut dy = pass.gradient(self.scale, dy)?;
        let mut after = after;
        if let Some(bits) = gate.flatten() {
            (dy, after.relu) = (pass.backend.masked(&dy, &bits)?, false);
        }
        let (gamma, beta) = (
            parameters.channels(self.scale)?,
            parameters.channels(self.shift)?,
        );
        let ranges = (parameters.range(self.scale), parameters.range(self.shift));
        let (dgamma, dbeta) = gradients.two_sinks(ranges.0, ranges.1);
        let of = NormBackward {
            dy: &dy,
            x: &x,
            y: y.as_ref(),
            gamma,
            beta,
            saved: &saved,
            after,
            ranks: pass.norm_ranks(),
        };
        let (dx, dresidual) = (pass.backend).batch_norm_backward(&of, dgamma, dbeta)?;
        Ok((pass.backend.convert(&dx, kept)?, dresidual))
    }

    pub(crate) fn trace(&self, x: Flow, after: After, trace: &mut Trace) -> Flow {
        let y = trace.layer(&self.name, &[x], x.shape, 2 * self.channels, 0);
        if after.residual && after.relu {
            trace.keep(y);
        }
        if after.relu && !after.residual {
            trace.keep_gate(y);
        }
        if !after.residual {
            trace.recompute_from_norm(y, !after.relu);
        }
        y
    }
}
