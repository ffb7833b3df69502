//! Batch normalisation, fused with the residual add and the ReLU that follow it.

mod backward;

pub use backward::NormBackward;

use super::fast;
use super::host::{Host, Typed, bhwc, expect, tensor};
use super::value::by_dtype;
use super::{Backend, Channels, Cpu, GradientSink, on_gpu, reference};
use crate::error::Result;
use crate::profile;
use candle_core::Tensor;

/// What the forward pass keeps for the backward pass.
#[derive(Debug, Clone)]
pub struct BatchNormSaved {
    /// Mean per channel over batch, latitude and longitude.
    pub mean: Vec<f32>,
    /// 1 / √(variance + ε) per channel.
    pub inv_std: Vec<f32>,
    /// Biased variance per channel.
    pub variance: Vec<f32>,
    /// The number of pixels in the statistics.
    pub count: usize,
    /// The statistics on the GPU; the vectors are then empty until [`Self::host`].
    #[cfg(feature = "cuda")]
    pub(crate) on_gpu: Option<super::cuda::Moments>,
}

/// The ranks of synchronised batch normalisation, which normalise as if their samples were one batch.
///
/// All ranks run the same layers in the same order.
pub trait BatchNormRanks: std::fmt::Debug + Send + Sync {
    /// Replaces the values by their sums over the ranks, bit-identical on every rank.
    ///
    /// # Errors
    /// [`crate::ModelError::BatchNormRanks`] if another rank has failed.
    fn sum(&self, values: &mut [f64]) -> Result<()>;
}

impl BatchNormSaved {
    fn from_moments(mean: &[f64], variance: &[f64], count: usize, eps: f32) -> Self {
        let inv_std = |v: &f64| (1.0 / (v + f64::from(eps)).sqrt()) as f32;
        Self {
            mean: mean.iter().map(|&m| m as f32).collect(),
            inv_std: variance.iter().map(inv_std).collect(),
            variance: variance.iter().map(|&v| v as f32).collect(),
            count,
            #[cfg(feature = "cuda")]
            on_gpu: None,
        }
    }

    #[cfg(feature = "cuda")]
    fn on_gpu((moments, count): (super::cuda::Moments, usize)) -> Self {
        Self {
            on_gpu: Some(moments),
            ..Self::from_moments(&[], &[], count, 0.0)
        }
    }

    /// These statistics, with their vectors in host memory.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if they cannot be read.
    pub fn host(self) -> Result<Self> {
        #[cfg(feature = "cuda")]
        if let Some(moments) = &self.on_gpu {
            let [mean, inv_std, variance] = moments.read()?;
            return Ok(Self {
                mean,
                inv_std,
                variance,
                ..self
            });
        }
        Ok(self)
    }

    /// Normalisation, γ and β combined into a scale and a shift per channel.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if γ or β cannot be read.
    pub(crate) fn folded(
        &self,
        gamma: &Channels<'_>,
        beta: &Channels<'_>,
    ) -> Result<[Channels<'static>; 2]> {
        #[cfg(feature = "cuda")]
        if let Some(moments) = &self.on_gpu {
            return moments.folded();
        }
        let (scale, shift) = fold(&gamma.host()?, &beta.host()?, &self.mean, &self.inv_std);
        Ok([scale.into(), shift.into()])
    }
}

/// The operations after the normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// Whether a residual is added.
    pub residual: bool,
    /// Whether a ReLU is applied last.
    pub relu: bool,
}

impl After {
    /// Neither.
    pub(crate) const NOTHING: Self = Self {
        residual: false,
        relu: false,
    };

    /// A ReLU alone.
    pub(crate) const RELU: Self = Self {
        residual: false,
        relu: true,
    };
}

impl Backend {
    /// Mean and biased variance per channel, over the samples of this rank and of `ranks`, if given.
    ///
    /// # Shapes
    /// x `(b, h, w, c)` → `c` of each
    /// # Errors
    /// [`crate::ModelError::Shape`] if x is not BHWC; [`crate::ModelError::BatchNormRanks`].
    pub fn batch_norm_statistics(
        self,
        x: &Tensor,
        eps: f32,
        ranks: Option<&dyn BatchNormRanks>,
    ) -> Result<BatchNormSaved> {
        self.statistics(x, eps, None, ranks)?.host()
    }

    /// The same statistics on their device; on a GPU with γ and β folded in, if given.
    fn statistics(
        self,
        x: &Tensor,
        eps: f32,
        affine: Option<(&Channels<'_>, &Channels<'_>)>,
        ranks: Option<&dyn BatchNormRanks>,
    ) -> Result<BatchNormSaved> {
        let _span = profile::span(|| format!("batch norm statistics {:?}", x.dims()));
        let op = "batch_norm";
        let [b, h, w, c] = bhwc(op, "x", x)?;
        on_gpu!(self, {
            let moments = super::cuda::statistics(x, c, eps, affine, ranks)?;
            Ok(BatchNormSaved::on_gpu(moments))
        });
        let _ = affine;
        let (mut mean, mut variance) = match self.on_cpu() {
            Cpu::Reference => reference::norm::moments(&Host::of(op, x)?, c),
            Cpu::Fast => {
                by_dtype!(x.dtype(), V => fast::norm::moments(&Typed::<V>::of(op, x)?, c))
            }
        };
        let mut count = b * h * w;
        if let Some(ranks) = ranks {
            count = share_moments(ranks, &mut mean, &mut variance, count)?;
        }
        Ok(BatchNormSaved::from_moments(&mean, &variance, count, eps))
    }

    /// x · scale + shift per channel, then + residual, then a ReLU.
    ///
    /// # Shapes
    /// x and residual `(b, h, w, c)`, scale and shift `c`.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn batch_norm_apply<'c, 'd>(
        self,
        x: &Tensor,
        scale: impl Into<Channels<'c>>,
        shift: impl Into<Channels<'d>>,
        residual: Option<&Tensor>,
        relu: bool,
    ) -> Result<Tensor> {
        let (scale, shift) = (scale.into(), shift.into());
        let _span = profile::span(|| format!("batch norm apply {:?}", x.dims()));
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
        let op = "batch_norm_apply";
        on_gpu!(self, super::cuda::apply(x, &scale, &shift, residual, relu));
        let (scale, shift) = (&*scale.host()?, &*shift.host()?);
        match self.on_cpu() {
            Cpu::Reference => {
                let values = Host::of(op, x)?;
                let residual = residual.map(|r| Host::of(op, r)).transpose()?;
                let y = reference::norm::apply(&values, scale, shift, residual.as_deref(), relu);
                tensor(y, &shape, x.dtype())
            }
            Cpu::Fast => by_dtype!(x.dtype(), V => {
                let values = Typed::<V>::of(op, x)?;
                let residual = residual.map(|r| Typed::<V>::of(op, r)).transpose()?;
                let y = fast::norm::apply(&values, scale, shift, residual.as_deref(), relu);
                tensor(y, &shape, x.dtype())
            }),
        }
    }

    /// Normalises x by its own statistics, applies γ and β, the residual and the ReLU; also returns what the backward
    /// pass needs.
    ///
    /// # Shapes
    /// x and residual `(b, h, w, c)`, gamma and beta `c` → as x
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    #[allow(clippy::too_many_arguments)] // operands of one fused operation
    pub fn batch_norm_forward<'c, 'd>(
        self,
        x: &Tensor,
        gamma: impl Into<Channels<'c>>,
        beta: impl Into<Channels<'d>>,
        eps: f32,
        residual: Option<&Tensor>,
        relu: bool,
        ranks: Option<&dyn BatchNormRanks>,
    ) -> Result<(Tensor, BatchNormSaved)> {
        let _span = profile::span(|| format!("batch norm forward {:?}", x.dims()));
        let (gamma, beta) = (gamma.into(), beta.into());
        let channels = bhwc("batch_norm_forward", "x", x)?[3];
        expect(
            "batch_norm_forward",
            "gamma and beta",
            (channels, channels),
            (gamma.len(), beta.len()),
        )?;
        let saved = self.statistics(x, eps, Some((&gamma, &beta)), ranks)?;
        let [scale, shift] = saved.folded(&gamma, &beta)?;
        Ok((
            self.batch_norm_apply(x, scale, shift, residual, relu)?,
            saved,
        ))
    }

    /// Adds the gradients of a scale and a shift per channel: Σ dy x and Σ dy.
    ///
    /// Meant for few pixels: on the CPU the sums are plain loops.
    ///
    /// # Shapes
    /// dy and x `(b, h, w, c)`; dscale and dshift have `c` values.
    /// # Errors
    /// [`crate::ModelError::Shape`] naming what differs.
    pub fn affine_backward<'d, 'e>(
        self,
        dy: &Tensor,
        x: &Tensor,
        dscale: impl Into<GradientSink<'d>>,
        dshift: impl Into<GradientSink<'e>>,
    ) -> Result<()> {
        let (op, dscale, dshift) = ("affine_backward", dscale.into(), dshift.into());
        let channels = bhwc(op, "x", x)?[3];
        expect(op, "dy", x.dims(), dy.dims())?;
        expect(
            op,
            "gradients",
            (channels, channels),
            (dscale.len(), dshift.len()),
        )?;
        on_gpu!(self, super::cuda::affine_backward(dy, x, dscale, dshift));
        let (dscale, dshift) = (dscale.host()?, dshift.host()?);
        let (x, grad) = (Host::of(op, x)?, Host::of(op, dy)?);
        for (x, grad) in x.chunks_exact(channels).zip(grad.chunks_exact(channels)) {
            for c in 0..channels {
                dscale[c] += grad[c] * x[c];
                dshift[c] += grad[c];
            }
        }
        Ok(())
    }
}

/// Combines means and variances over the samples of all ranks; returns the total number of pixels.
fn share_moments(
    ranks: &dyn BatchNormRanks,
    mean: &mut [f64],
    variance: &mut [f64],
    count: usize,
) -> Result<usize> {
    let n = count as f64;
    let channels = mean.len();
    let mut sums = vec![n];
    sums.extend(mean.iter().map(|m| n * m));
    sums.extend(mean.iter().zip(&*variance).map(|(m, v)| n * (v + m * m)));
    ranks.sum(&mut sums)?;
    let total = sums[0];
    for c in 0..channels {
        mean[c] = sums[1 + c] / total;
        // Squares and their sums are f64, so cancellation is small even if the variance is small against the mean.
        let found = sums[1 + channels + c] / total - mean[c] * mean[c];
        // Rounding may make the variance of a constant channel negative. `max` would turn NaN into 0, so it is not
        // used.
        variance[c] = if found < 0.0 { 0.0 } else { found };
    }
    Ok(total as usize)
}

/// The normalisation as one scale and shift per channel: scale = γ/σ, shift = β − m γ/σ.
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
