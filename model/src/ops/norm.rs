//! Batch normalisation, fused with the residual add and the ReLU that follow it.

#[cfg(feature = "onednn")]
use super::fast;
use super::host::{Host, bhwc, expect, tensor};
use super::{Backend, reference};
use crate::error::Result;
use candle_core::Tensor;

/// What the backward pass needs from the forward one.
#[derive(Debug, Clone)]
pub struct BatchNormSaved {
    /// Mean per channel over batch, latitude and longitude.
    pub mean: Vec<f32>,
    /// 1 / √(variance + ε) per channel.
    pub inv_std: Vec<f32>,
    /// Biased variance per channel.
    pub variance: Vec<f32>,
    /// Pixels that the statistics are over.
    pub count: usize,
}

/// What follows the normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// A residual was added.
    pub residual: bool,
    /// ReLU was applied last.
    pub relu: bool,
}

impl Backend {
    /// Mean and biased variance per channel: the part of batch normalisation that ranks would share.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if x is not BHWC.
    pub fn batch_norm_statistics(self, x: &Tensor, eps: f32) -> Result<BatchNormSaved> {
        let [b, h, w, c] = bhwc("batch_norm", "x", x)?;
        let values = Host::of("batch_norm", x)?;
        let (mean, variance) = match self {
            Self::Reference => reference::norm::moments(&values, c),
            #[cfg(feature = "onednn")]
            Self::OneDnn => fast::norm::moments(&values, c),
        };
        Ok(BatchNormSaved {
            mean: mean.iter().map(|&m| m as f32).collect(),
            inv_std: variance
                .iter()
                .map(|v| (1.0 / (v + f64::from(eps)).sqrt()) as f32)
                .collect(),
            variance: variance.iter().map(|&v| v as f32).collect(),
            count: b * h * w,
        })
    }

    /// x · scale + shift per channel, then + residual, then ReLU.
    ///
    /// # Shapes
    /// x and residual `(b, h, w, c)`, scale and shift `c`.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn batch_norm_apply(
        self,
        x: &Tensor,
        scale: &[f32],
        shift: &[f32],
        residual: Option<&Tensor>,
        relu: bool,
    ) -> Result<Tensor> {
        let shape = bhwc("batch_norm_apply", "x", x)?;
        expect(
            "batch_norm_apply",
            "scale and shift",
            (shape[3], shape[3]),
            (scale.len(), shift.len()),
        )?;
        if let Some(residual) = residual {
            expect("batch_norm_apply", "residual", x.dims(), residual.dims())?;
        }
        let values = Host::of("batch_norm_apply", x)?;
        let residual = residual
            .map(|r| Host::of("batch_norm_apply", r))
            .transpose()?;
        let y = match self {
            Self::Reference => {
                reference::norm::apply(&values, scale, shift, residual.as_deref(), relu)
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn => fast::norm::apply(&values, scale, shift, residual.as_deref(), relu),
        };
        tensor(y, &shape, x.dtype())
    }

    /// x normalised by its own statistics, scaled, shifted, + residual, ReLU; and what the backward pass needs.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn batch_norm_forward(
        self,
        x: &Tensor,
        gamma: &[f32],
        beta: &[f32],
        eps: f32,
        residual: Option<&Tensor>,
        relu: bool,
    ) -> Result<(Tensor, BatchNormSaved)> {
        let saved = self.batch_norm_statistics(x, eps)?;
        let (scale, shift) = fold(gamma, beta, &saved.mean, &saved.inv_std);
        Ok((
            self.batch_norm_apply(x, &scale, &shift, residual, relu)?,
            saved,
        ))
    }

    /// The gradients of [`Self::batch_norm_forward`]: of x, of the residual if there was one; γ's and β's are added.
    ///
    /// With g = dy where y > 0 (if ReLU followed), n pixels, x̂ = (x − m)/σ:
    /// dβ = Σ g, dγ = Σ g x̂, dx = γ/σ (g − dβ/n − x̂ dγ/n), d(residual) = g.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    #[allow(clippy::too_many_arguments)] // the equation has as many terms
    pub fn batch_norm_backward(
        self,
        dy: &Tensor,
        x: &Tensor,
        y: &Tensor,
        gamma: &[f32],
        saved: &BatchNormSaved,
        after: After,
        dgamma: &mut [f32],
        dbeta: &mut [f32],
    ) -> Result<(Tensor, Option<Tensor>)> {
        let shape = bhwc("batch_norm_backward", "x", x)?;
        expect("batch_norm_backward", "dy", x.dims(), dy.dims())?;
        expect("batch_norm_backward", "gamma", shape[3], gamma.len())?;
        // Only a residual needs the masked gradient as a tensor of its own; plain loops take the same way always.
        let split = after.relu && (after.residual || self == Self::Reference);
        let masked = if split {
            self.relu_backward(dy, y)?
        } else {
            dy.clone()
        };
        let op = "batch_norm_backward";
        let gate = (after.relu && !split)
            .then(|| {
                expect(op, "y", x.dims(), y.dims())?;
                Host::of(op, y)
            })
            .transpose()?;
        let (grad, values) = (Host::of(op, &masked)?, Host::of(op, x)?);
        let (sum, sum_xhat) = match self {
            Self::Reference => {
                reference::norm::backward_sums(&grad, &values, &saved.mean, &saved.inv_std)
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn => {
                let operands = fast::norm::Operands {
                    dy: &grad,
                    x: &values,
                    gate: gate.as_deref(),
                };
                fast::norm::backward_sums(operands, &saved.mean, &saved.inv_std)
            }
        };
        dgamma
            .iter_mut()
            .zip(&sum_xhat)
            .for_each(|(d, &s)| *d += s as f32);
        dbeta
            .iter_mut()
            .zip(&sum)
            .for_each(|(d, &s)| *d += s as f32);
        // dx is linear in g and x per channel: dx = a g + b x + c.
        let n = saved.count as f64;
        let channels = shape[3];
        let (mut a, mut b, mut c) = (
            vec![0.0; channels],
            vec![0.0; channels],
            vec![0.0; channels],
        );
        for i in 0..channels {
            let (inv, mean) = (f64::from(saved.inv_std[i]), f64::from(saved.mean[i]));
            let lead = f64::from(gamma[i]) * inv;
            a[i] = lead as f32;
            b[i] = (-lead * inv * sum_xhat[i] / n) as f32;
            c[i] = (-lead * sum[i] / n + lead * inv * mean * sum_xhat[i] / n) as f32;
        }
        let dx = match self {
            Self::Reference => {
                let scaled_x = reference::norm::apply(&values, &b, &c, None, false);
                let zero = vec![0.0; channels];
                reference::norm::apply(&grad, &a, &zero, Some(&scaled_x), false)
            }
            #[cfg(feature = "onednn")]
            Self::OneDnn => {
                let operands = fast::norm::Operands {
                    dy: &grad,
                    x: &values,
                    gate: gate.as_deref(),
                };
                fast::norm::backward_apply(operands, &a, &b, &c)
            }
        };
        drop((grad, values, gate));
        let dx = tensor(dx, &shape, x.dtype())?;
        Ok((dx, after.residual.then_some(masked)))
    }
}

/// Normalisation as one multiply and one add per value: scale = γ/σ, shift = β − m γ/σ.
pub fn fold(gamma: &[f32], beta: &[f32], mean: &[f32], inv_std: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let scale: Vec<f32> = gamma.iter().zip(inv_std).map(|(g, s)| g * s).collect();
    let shift = beta
        .iter()
        .zip(mean)
        .zip(&scale)
        .map(|((b, m), s)| b - m * s)
        .collect();
    (scale, shift)
}
