//! Normalisation and the ReLU after it.

use super::{Layer, Style};
use crate::error::Result;
use crate::ops::norm::{After, fold};
use crate::parameters::{BufferId, Gradients, Kind, ParameterId, Parameters};
use crate::pass::{Pass, Saved};
use crate::summary::Trace;
use candle_core::Tensor;

/// Added to the variance.
const EPS: f32 = 1e-5;

/// Normalisation over batch and space, then ReLU.
#[derive(Debug)]
pub(crate) enum Norm {
    /// Batch normalisation.
    Batch(BatchNorm),
    /// x / 2: what the SC18 runs used instead, to keep f16 in range (1810.01993; ClimDeepLearn `deeplab_model.py`).
    Half,
}

/// γ, β and the running statistics.
#[derive(Debug)]
pub(crate) struct BatchNorm {
    name: String,
    scale: ParameterId,
    shift: ParameterId,
    mean: BufferId,
    variance: BufferId,
    channels: usize,
}

impl Norm {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        channels: usize,
        style: Style,
    ) -> Result<Self> {
        if !style.batch_norm {
            return Ok(Self::Half);
        }
        Ok(Self::Batch(BatchNorm {
            name: name.to_string(),
            scale: parameters.vector(format!("{name}.scale"), Kind::Scale, channels, 1.0)?,
            shift: parameters.vector(format!("{name}.shift"), Kind::Shift, channels, 0.0)?,
            mean: parameters.buffer(format!("{name}.running_mean"), channels, 0.0),
            variance: parameters.buffer(format!("{name}.running_variance"), channels, 1.0),
            channels,
        }))
    }
}

impl BatchNorm {
    /// Inference as one multiply and one add per value.
    pub(crate) fn folded(&self, parameters: &Parameters) -> Result<(Vec<f32>, Vec<f32>)> {
        let variance = parameters.running(self.variance);
        let inv_std: Vec<f32> = variance.iter().map(|v| 1.0 / (v + EPS).sqrt()).collect();
        let (gamma, beta) = (
            parameters.values(self.scale)?,
            parameters.values(self.shift)?,
        );
        Ok(fold(&gamma, &beta, parameters.running(self.mean), &inv_std))
    }
}

impl Layer for Norm {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let norm = match self {
            Self::Half => {
                let channels = x.dim(3)?;
                let (half, zero) = (vec![0.5; channels], vec![0.0; channels]);
                let y = (pass.backend).batch_norm_apply(x, &half, &zero, None, true)?;
                pass.push_tensor(&y);
                return Ok(y);
            }
            Self::Batch(norm) => norm,
        };
        if !pass.is_training() {
            let (scale, shift) = norm.folded(parameters)?;
            return (pass.backend).batch_norm_apply(x, &scale, &shift, None, true);
        }
        let (gamma, beta) = (
            parameters.values(norm.scale)?,
            parameters.values(norm.shift)?,
        );
        let (y, saved) = (pass.backend).batch_norm_forward(x, &gamma, &beta, EPS, None, true)?;
        pass.record_statistics(norm.mean, norm.variance, &saved);
        pass.push_tensor(x);
        pass.push(Saved::Norm(saved));
        Ok(y)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let norm = match self {
            Self::Half => {
                let dx = pass.backend.relu_backward(&dy, &pass.pop_tensor())?;
                return pass.backend.scale(&dx, 0.5);
            }
            Self::Batch(norm) => norm,
        };
        let saved = pass.pop_norm();
        let x = pass.pop_tensor();
        let after = After {
            residual: false,
            relu: true,
        };
        let (gamma, beta) = (
            parameters.values(norm.scale)?,
            parameters.values(norm.shift)?,
        );
        let ranges = (parameters.range(norm.scale), parameters.range(norm.shift));
        let (dgamma, dbeta) = gradients.of_two(ranges.0, ranges.1);
        let (dx, _) = (pass.backend).batch_norm_backward(
            &dy,
            &x,
            None,
            (&gamma, &beta),
            &saved,
            after,
            dgamma,
            dbeta,
        )?;
        Ok(dx)
    }

    fn trace(&self, x: [usize; 4], trace: &mut Trace) -> Result<[usize; 4]> {
        if let Self::Batch(norm) = self {
            trace.row(&norm.name, x, 2 * norm.channels, 0);
        }
        Ok(x)
    }
}
