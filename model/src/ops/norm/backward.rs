//! The backward pass of batch normalisation and the operations fused with it.

use super::{After, BatchNormRanks, BatchNormSaved, fold};
use crate::error::Result;
use crate::ops::fast;
use crate::ops::host::{Host, Typed, bhwc, expect, tensor};
use crate::ops::value::by_dtype;
use crate::ops::{Backend, Channels, Cpu, GradientSink, reference};
use crate::profile;
use candle_core::Tensor;

const OP: &str = "batch_norm_backward";

/// The operands of [`Backend::batch_norm_backward`].
#[derive(Debug, Clone)]
pub struct NormBackward<'a> {
    /// The gradient of the output.
    pub dy: &'a Tensor,
    /// The input of the forward pass.
    pub x: &'a Tensor,
    /// The output of the forward pass; needed only if there was a residual, otherwise its sign is recomputed.
    pub y: Option<&'a Tensor>,
    /// The scale per channel.
    pub gamma: Channels<'a>,
    /// The shift per channel.
    pub beta: Channels<'a>,
    /// What the forward pass kept.
    pub saved: &'a BatchNormSaved,
    /// The operations after the normalisation.
    pub after: After,
    /// The ranks over which the statistics are.
    pub ranks: Option<&'a dyn BatchNormRanks>,
}

impl Backend {
    /// Returns the gradients of [`Self::batch_norm_forward`] with respect to x and, if there was one, the residual;
    /// adds those of γ and β.
    ///
    /// With g = dy where y > 0 or is NaN (if ReLU followed), n pixels, x̂ = (x − m)/σ:
    /// dβ = Σ g, dγ = Σ g x̂, dx = γ/σ (g − dβ/n − x̂ dγ/n), d(residual) = g.
    ///
    /// # Shapes
    /// dy, x and y `(b, h, w, c)`, gamma and beta `c` → as x, each; dgamma and dbeta have `c` values.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn batch_norm_backward<'d, 'e>(
        self,
        of: &NormBackward<'_>,
        dgamma: impl Into<GradientSink<'d>>,
        dbeta: impl Into<GradientSink<'e>>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let NormBackward {
            dy,
            x,
            saved,
            after,
            ranks,
            ..
        } = *of;
        let (dgamma, dbeta) = (dgamma.into(), dbeta.into());
        let _span = profile::span(|| format!("batch norm backward {:?}", x.dims()));
        let shape = bhwc(OP, "x", x)?;
        expect(OP, "dy", x.dims(), dy.dims())?;
        expect(
            OP,
            "gamma and beta",
            (shape[3], shape[3]),
            (of.gamma.len(), of.beta.len()),
        )?;
        #[cfg(feature = "cuda")]
        if self == Self::Cuda {
            return by_cuda(of, dgamma, dbeta);
        }
        let (gamma, beta) = (&*of.gamma.host()?, &*of.beta.host()?);
        let sums = Sums {
            gamma,
            saved,
            ranks,
            dgamma: dgamma.host()?,
            dbeta: dbeta.host()?,
        };
        let (scale, shift) = fold(gamma, beta, &saved.mean, &saved.inv_std);
        // Only a residual needs the masked gradient as a separate tensor; plain loops always use this path.
        let split = after.relu && (after.residual || self == Self::Reference);
        let masked = if split {
            self.masked_gradient(of, &scale, &shift)?
        } else {
            dy.clone()
        };
        let dx = match self.on_cpu() {
            Cpu::Reference => plain(sums, &masked, x)?,
            Cpu::Fast => {
                let gate = match after.relu && !split {
                    true => fast::norm::Gate::Recomputed(&scale, &shift),
                    false => fast::norm::Gate::Open,
                };
                in_few_passes(sums, &masked, x, gate)?
            }
        };
        Ok((dx, after.residual.then_some(masked)))
    }

    /// dy where the ReLU passed its input, otherwise 0; derived from the output y or, without a residual, from x.
    fn masked_gradient(
        self,
        of: &NormBackward<'_>,
        scale: &[f32],
        shift: &[f32],
    ) -> Result<Tensor> {
        if let Some(y) = of.y {
            return self.relu_backward(of.dy, y);
        }
        expect(OP, "y, which a residual needs,", false, of.after.residual)?;
        let y = self.batch_norm_apply(of.x, scale, shift, None, true)?;
        self.relu_backward(of.dy, &y)
    }
}

/// [`Backend::batch_norm_backward`] on the GPU.
#[cfg(feature = "cuda")]
fn by_cuda(
    of: &NormBackward<'_>,
    dgamma: GradientSink<'_>,
    dbeta: GradientSink<'_>,
) -> Result<(Tensor, Option<Tensor>)> {
    let needs = of.after.residual && of.after.relu && of.y.is_none();
    expect(OP, "y, which a residual needs,", false, needs)?;
    let moments = match &of.saved.on_gpu {
        Some(moments) => moments,
        None => &crate::ops::cuda::Moments::of(of.saved, &of.gamma.host()?, &of.beta.host()?)?,
    };
    let operands = crate::ops::cuda::Operands {
        dy: of.dy,
        x: of.x,
        y: of.y.filter(|_| of.after.residual),
        gamma: &of.gamma,
        saved: moments,
        count: of.saved.count,
        after: of.after,
    };
    crate::ops::cuda::norm_backward(&operands, of.ranks, dgamma, dbeta)
}

/// The destinations of the sums over pixels: the gradients of γ and β and, summed over all ranks, the gradient of x.
struct Sums<'a> {
    gamma: &'a [f32],
    saved: &'a BatchNormSaved,
    ranks: Option<&'a dyn BatchNormRanks>,
    dgamma: &'a mut [f32],
    dbeta: &'a mut [f32],
}

impl Sums<'_> {
    /// Adds Σ g and Σ g x̂ to the gradients of β and γ, and returns the coefficients of [`factors`].
    fn into_factors(self, (mut sum, mut sum_xhat): (Vec<f64>, Vec<f64>)) -> Result<[Vec<f32>; 3]> {
        let add = |to: &mut [f32], from: &[f64]| {
            to.iter_mut().zip(from).for_each(|(d, &s)| *d += s as f32);
        };
        add(self.dgamma, &sum_xhat);
        add(self.dbeta, &sum);
        // The gradients of γ and β are all-reduced later with all others; that of x needs the total now.
        if let Some(ranks) = self.ranks {
            share_sums(ranks, &mut sum, &mut sum_xhat)?;
        }
        Ok(factors(self.gamma, self.saved, &sum, &sum_xhat))
    }
}

/// The gradient of x by plain loops.
fn plain(sums: Sums<'_>, dy: &Tensor, x: &Tensor) -> Result<Tensor> {
    let (grad, values) = (Host::of(OP, dy)?, Host::of(OP, x)?);
    let BatchNormSaved { mean, inv_std, .. } = sums.saved;
    let [a, b, c] = sums.into_factors(reference::norm::backward_sums(
        &grad, &values, mean, inv_std,
    ))?;
    let scaled_x = reference::norm::apply(&values, &b, &c, None, false);
    let zero = vec![0.0; a.len()];
    let dx = reference::norm::apply(&grad, &a, &zero, Some(&scaled_x), false);
    tensor(dx, x.dims(), x.dtype())
}

/// The gradient of x by parallel loops; `gate` selects where `dy` counts.
fn in_few_passes(
    sums: Sums<'_>,
    dy: &Tensor,
    x: &Tensor,
    gate: fast::norm::Gate<'_>,
) -> Result<Tensor> {
    by_dtype!(x.dtype(), V => {
        let (grad, values) = (Typed::<V>::of(OP, dy)?, Typed::<V>::of(OP, x)?);
        let operands = fast::norm::Operands { dy: &grad, x: &values, gate };
        let BatchNormSaved { mean, inv_std, .. } = sums.saved;
        let [a, b, c] = sums.into_factors(fast::norm::backward_sums(operands, mean, inv_std))?;
        tensor(fast::norm::backward_apply(operands, &a, &b, &c), x.dims(), x.dtype())
    })
}

/// All-reduces both sums over the ranks.
fn share_sums(ranks: &dyn BatchNormRanks, sum: &mut [f64], sum_xhat: &mut [f64]) -> Result<()> {
    let mut both = [&*sum, &*sum_xhat].concat();
    ranks.sum(&mut both)?;
    let (first, second) = both.split_at(sum.len());
    sum.copy_from_slice(first);
    sum_xhat.copy_from_slice(second);
    Ok(())
}

/// The coefficients a, b and c per channel of dx = a g + b x + c, which is linear in g and x.
fn factors(gamma: &[f32], saved: &BatchNormSaved, sum: &[f64], sum_xhat: &[f64]) -> [Vec<f32>; 3] {
    let n = saved.count as f64;
    let mut factors = [const { Vec::new() }; 3];
    for (i, &gamma) in gamma.iter().enumerate() {
        let (inv, mean) = (f64::from(saved.inv_std[i]), f64::from(saved.mean[i]));
        let lead = f64::from(gamma) * inv;
        let values = [
            lead,
            -lead * inv * sum_xhat[i] / n,
            -lead * sum[i] / n + lead * inv * mean * sum_xhat[i] / n,
        ];
        factors
            .iter_mut()
            .zip(values)
            .for_each(|(f, v)| f.push(v as f32));
    }
    factors
}
