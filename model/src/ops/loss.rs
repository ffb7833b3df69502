//! Softmax, weighted cross entropy, focal loss and argmax.

use super::fast;
use super::host::{Host, bhwc, expect, tensor};
use super::{Backend, Cpu, on_gpu, reference};
use crate::error::{ModelError, Result};
use crate::profile;
use candle_core::{DType, Tensor};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The label of pixels that the loss ignores.
pub const IGNORED: u8 = 255;

/// The result of [`Backend::argmax`] where a logit is NaN or infinite. Networks have fewer classes than this.
pub const NO_CLASS: u8 = 255;

/// Focal loss, which reduces the weight of well-classified pixels: α (1 − p)^γ times the cross entropy, where p is the
/// probability of the pixel's label.
///
/// # Source
/// Lin et al. 2017 (arXiv:1708.02002) equation 5, of a softmax; optional in 1810.01993 with α 1 and γ 2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Focal {
    /// α. Default 1.
    pub alpha: f32,
    /// γ; 0 is plain cross entropy. Default 2.
    pub gamma: f32,
}

impl Default for Focal {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            gamma: 2.0,
        }
    }
}

/// The normalisation of the sum over pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalisation {
    /// Divided by the sum of the pixels' class weights: the weighted mean, as in PyTorch's `reduction="mean"`.
    #[default]
    Weights,
    /// Divided by the number of pixels that are not ignored, whatever their weights (MLPerf HPC DeepCAM).
    Pixels,
    /// Multiplied by this constant (1810.01993).
    Sum(f32),
}

/// The loss of a segmentation: class weights, form and normalisation.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    /// One weight per class.
    pub class_weights: Vec<f32>,
    /// Focal loss instead of cross entropy.
    pub focal: Option<Focal>,
    /// The normalisation of the sum over pixels.
    pub normalisation: Normalisation,
}

impl Criterion {
    /// Softmax cross entropy, divided by the sum of weights.
    pub fn cross_entropy(class_weights: &[f32]) -> Self {
        Self {
            class_weights: class_weights.to_vec(),
            focal: None,
            normalisation: Normalisation::default(),
        }
    }

    /// Checks that all values are valid.
    ///
    /// # Errors
    /// [`ModelError::Config`] naming the key.
    pub fn check(&self) -> Result<()> {
        let refuse = |key, expected: &str, found: f32| {
            let reason = format!("expected {expected}, found {found}");
            Err(ModelError::Config { key, reason })
        };
        if let Some(Focal { alpha, gamma }) = self.focal {
            if !(alpha > 0.0 && alpha.is_finite()) {
                return refuse("focal.alpha", "above 0", alpha);
            }
            if !(gamma >= 0.0 && gamma.is_finite()) {
                return refuse("focal.gamma", "0 or more", gamma);
            }
        }
        match self.normalisation {
            Normalisation::Sum(factor) if !(factor > 0.0 && factor.is_finite()) => {
                refuse("normalisation.sum", "above 0", factor)
            }
            _ => Ok(()),
        }
    }

    /// Whether the sum over pixels is divided by a quantity that depends on the labels, rather than multiplied by a
    /// constant.
    pub fn is_mean(&self) -> bool {
        !matches!(self.normalisation, Normalisation::Sum(_))
    }

    /// The constant factor on the sum over pixels, or 1 if the normalisation has none.
    pub fn constant_factor(&self) -> f64 {
        match self.normalisation {
            Normalisation::Sum(factor) => f64::from(factor),
            _ => 1.0,
        }
    }

    fn divisor(&self, counts: &[u64]) -> f64 {
        match self.normalisation {
            Normalisation::Weights => self.weight_sum(counts),
            Normalisation::Pixels => counts.iter().sum::<u64>() as f64,
            Normalisation::Sum(factor) => 1.0 / f64::from(factor),
        }
    }

    fn weight_sum(&self, counts: &[u64]) -> f64 {
        let weights = self.class_weights.iter().zip(counts);
        weights.map(|(&w, &n)| f64::from(w) * n as f64).sum()
    }
}

/// The loss of one batch and its gradient.
#[derive(Debug)]
pub struct Loss {
    /// Σ w(label) · −ln p(label), including the focal factor if there is one.
    pub weighted_sum: f64,
    /// Σ w(label).
    pub weight_sum: f64,
    /// The divisor of the sum.
    pub divisor: f64,
    /// The divisor for these labels alone. Sums and divisors of several batches can be added.
    pub own_divisor: f64,
    /// The gradient of [`Loss::value`] times `scale` with respect to the logits.
    pub gradient: Tensor,
}

impl Loss {
    /// The normalised loss; 0 if every pixel is ignored.
    pub fn value(&self) -> f64 {
        if self.divisor > 0.0 {
            self.weighted_sum / self.divisor
        } else {
            0.0
        }
    }

    /// The weighted mean, whatever the normalisation.
    pub fn mean(&self) -> f64 {
        if self.weight_sum > 0.0 {
            self.weighted_sum / self.weight_sum
        } else {
            0.0
        }
    }
}

/// The parameters of each pixel's loss and gradient.
pub(super) struct PixelRule<'a> {
    pub(super) class_weights: &'a [f32],
    pub(super) focal: Option<Focal>,
    /// The factor on gradients: the scale divided by the divisor.
    pub(super) factor: f32,
}

impl Backend {
    /// Weighted softmax cross entropy and its gradient, computed together, in f32 or wider: the weighted mean.
    ///
    /// # Shapes
    /// As [`Backend::segmentation_loss`].
    /// # Errors
    /// As [`Backend::segmentation_loss`].
    pub fn softmax_cross_entropy(
        self,
        logits: &Tensor,
        labels: &[u8],
        class_weights: &[f32],
        scale: f32,
    ) -> Result<Loss> {
        let criterion = Criterion::cross_entropy(class_weights);
        self.segmentation_loss(logits, labels, &criterion, scale)
    }

    /// The loss and its gradient times `scale`, computed together with the softmax, in f32 or wider.
    ///
    /// # Shapes
    /// logits `(b, h, w, k)`, labels `b·h·w` codes below k or [`IGNORED`], class weights `k`.
    /// # Errors
    /// [`ModelError::Shape`] if sizes differ; [`ModelError::Label`] with value and position of the first label that is
    /// no class.
    pub fn segmentation_loss(
        self,
        logits: &Tensor,
        labels: &[u8],
        criterion: &Criterion,
        scale: f32,
    ) -> Result<Loss> {
        self.segmentation_loss_within(logits, labels, criterion, scale, None)
    }

    /// The contribution of a batch to the loss of a larger one with the given divisor, for data-parallel training: the
    /// sum of the ranks' gradients is then the gradient of the whole.
    ///
    /// # Shapes
    /// As [`Backend::segmentation_loss`].
    /// # Errors
    /// As [`Backend::segmentation_loss`].
    pub fn segmentation_loss_within(
        self,
        logits: &Tensor,
        labels: &[u8],
        criterion: &Criterion,
        scale: f32,
        divisor: Option<f64>,
    ) -> Result<Loss> {
        let _span = profile::span(|| format!("loss {:?}", logits.dims()));
        let op = "segmentation_loss";
        let shape = bhwc(op, "logits", logits)?;
        expect(op, "class weights", shape[3], criterion.class_weights.len())?;
        expect(op, "labels", shape[0] * shape[1] * shape[2], labels.len())?;
        let counts = counted(op, labels, shape)?;
        let own_divisor = criterion.divisor(&counts);
        let divisor = divisor.unwrap_or(own_divisor);
        let rule = PixelRule {
            class_weights: &criterion.class_weights,
            focal: criterion.focal,
            factor: if divisor > 0.0 {
                (f64::from(scale) / divisor) as f32
            } else {
                0.0
            },
        };
        let (weighted_sum, gradient) = self.judge(logits, labels, &rule)?;
        Ok(Loss {
            weighted_sum,
            weight_sum: criterion.weight_sum(&counts),
            divisor,
            own_divisor,
            gradient,
        })
    }

    /// The weighted sum over pixels, and the gradient of the loss.
    fn judge(self, logits: &Tensor, labels: &[u8], rule: &PixelRule<'_>) -> Result<(f64, Tensor)> {
        on_gpu!(self, super::cuda::segmentation(logits, labels, rule));
        let values = Host::of("segmentation_loss", logits)?;
        let (sum, gradient) = match self.on_cpu() {
            Cpu::Reference => reference::loss::segmentation(&values, labels, rule),
            Cpu::Fast => fast::loss::segmentation(&values, labels, rule),
        };
        Ok((sum, tensor(gradient, logits.dims(), DType::F32)?))
    }

    /// The mean of (made − fields)² and its gradient times `factor`. Channels that the network adds to its input
    /// (latitude) come last in `made` and are ignored.
    pub(crate) fn squared_error(
        self,
        made: &Tensor,
        fields: &Tensor,
        factor: f64,
    ) -> Result<(f64, Tensor)> {
        let op = "reconstruction";
        let [n, h, w, wide] = bhwc(op, "reconstruction", made)?;
        let channels = fields.dims().last().copied().unwrap_or(0);
        expect(op, "fields", n * h * w * channels, fields.elem_count())?;
        if channels == 0 || channels > wide {
            expect(op, "channels", wide, channels)?;
        }
        let count = (n * h * w * channels) as f64;
        let slope = (2.0 * factor / count) as f32;
        on_gpu!(self, {
            let extents = [wide, channels];
            let (sum, gradient) = super::cuda::squared_error(made, fields, slope, extents)?;
            Ok((sum / count, gradient))
        });
        let (ours, theirs) = (Host::of(op, made)?, Host::of(op, fields)?);
        let mut gradient = vec![0.0f32; ours.len()];
        // Row sums are added in order, whatever the number of threads.
        let rows: Vec<f64> = gradient
            .par_chunks_mut(w * wide)
            .zip(ours.par_chunks(w * wide))
            .zip(theirs.par_chunks(w * channels))
            .map(|((g, made), field)| {
                let mut sum = 0.0f64;
                let pixels = g.chunks_exact_mut(wide).zip(made.chunks_exact(wide));
                for ((g, made), field) in pixels.zip(field.chunks_exact(channels)) {
                    for ((g, made), field) in g.iter_mut().zip(made).zip(field) {
                        let off = made - field;
                        *g = slope * off;
                        sum += f64::from(off) * f64::from(off);
                    }
                }
                sum
            })
            .collect();
        let gradient = tensor(gradient, made.dims(), DType::F32)?;
        Ok((rows.iter().sum::<f64>() / count, gradient))
    }

    /// The probability of every class, f32.
    ///
    /// # Shapes
    /// `(b, h, w, k)` → as logits
    /// # Errors
    /// [`ModelError::Shape`] if logits are not BHWK.
    pub fn softmax(self, logits: &Tensor) -> Result<Tensor> {
        let shape = bhwc("softmax", "logits", logits)?;
        on_gpu!(self, super::cuda::softmax(logits));
        let values = Host::of("softmax", logits)?;
        let probabilities = match self.on_cpu() {
            Cpu::Reference => reference::loss::softmax(&values, shape[3]),
            Cpu::Fast => fast::loss::softmax(&values, shape[3]),
        };
        tensor(probabilities, &shape, DType::F32)
    }

    /// The class of the largest logit per pixel, the first one in a tie; [`NO_CLASS`] where a logit is NaN or infinite.
    ///
    /// # Shapes
    /// `(b, h, w, k)` → `b·h·w` classes
    /// # Errors
    /// [`ModelError::Shape`] if logits are not BHWK.
    pub fn argmax(self, logits: &Tensor) -> Result<Vec<u8>> {
        let shape = bhwc("argmax", "logits", logits)?;
        on_gpu!(self, super::cuda::argmax(logits));
        let values = Host::of("argmax", logits)?;
        let best = |pixel: &[f32]| {
            let (mut best, mut top, mut is_finite) = (0, f32::NEG_INFINITY, true);
            for (k, &z) in pixel.iter().enumerate() {
                is_finite &= z.is_finite();
                if z > top {
                    (best, top) = (k as u8, z);
                }
            }
            if is_finite { best } else { NO_CLASS }
        };
        Ok(values.chunks_exact(shape[3]).map(best).collect())
    }
}

/// The number of pixels of each class.
fn counted(op: &'static str, labels: &[u8], [_, h, w, k]: [usize; 4]) -> Result<Vec<u64>> {
    let counts = tally(labels);
    if counts[k.min(255)..255].iter().any(|&count| count > 0) {
        let wrong = |&label: &u8| label != IGNORED && usize::from(label) >= k;
        let place = labels.iter().position(wrong).unwrap_or_default();
        return Err(ModelError::Label {
            op,
            value: labels[place],
            sample: place / (h * w),
            row: place / w % h,
            column: place % w,
            classes: k,
        });
    }
    Ok(counts[..k.min(255)].to_vec())
}

/// The number of occurrences of each code among the labels.
fn tally(labels: &[u8]) -> [u64; 256] {
    let of_part = |part: &[u8]| {
        // Neighbouring labels are mostly equal; four separate counters avoid a dependency on the previous increment.
        let mut lanes = [[0u64; 256]; 4];
        for four in part.chunks(4) {
            for (lane, &label) in lanes.iter_mut().zip(four) {
                lane[usize::from(label)] += 1;
            }
        }
        lanes.into_iter().fold([0; 256], sum)
    };
    labels
        .par_chunks(1 << 17)
        .map(of_part)
        .reduce(|| [0; 256], sum)
}

fn sum(mut all: [u64; 256], more: [u64; 256]) -> [u64; 256] {
    all.iter_mut()
        .zip(more)
        .for_each(|(all, more)| *all += more);
    all
}
