//! Softmax, weighted cross entropy and argmax.

#[cfg(feature = "onednn")]
use super::fast;
use super::host::{Host, bhwc, expect, tensor};
use super::{Backend, reference};
use crate::error::{ModelError, Result};
use crate::profile;
use candle_core::{DType, Tensor};

/// The label of pixels that do not count.
pub const IGNORED: u8 = 255;

/// The loss of one batch and its gradient.
#[derive(Debug)]
pub struct Loss {
    /// Σ w(label) · −ln p(label).
    pub weighted_sum: f64,
    /// Σ w(label).
    pub weight_sum: f64,
    /// The gradient of `weighted_sum / weight_sum · scale` with respect to the logits.
    pub gradient: Tensor,
}

impl Loss {
    /// The weighted mean.
    pub fn mean(&self) -> f64 {
        if self.weight_sum > 0.0 {
            self.weighted_sum / self.weight_sum
        } else {
            0.0
        }
    }
}

impl Backend {
    /// Weighted softmax cross entropy and its gradient, computed together, in f32 or wider.
    ///
    /// # Shapes
    /// logits `(b, h, w, k)`, labels `b·h·w` codes below k or [`IGNORED`], class weights `k`.
    /// # Errors
    /// [`ModelError::Shape`] if sizes differ or a label is no class.
    pub fn softmax_cross_entropy(
        self,
        logits: &Tensor,
        labels: &[u8],
        class_weights: &[f32],
        scale: f32,
    ) -> Result<Loss> {
        let _span = profile::span(|| format!("loss {:?}", logits.dims()));
        let op = "softmax_cross_entropy";
        let shape = bhwc(op, "logits", logits)?;
        expect(op, "class weights", shape[3], class_weights.len())?;
        expect(op, "labels", shape[0] * shape[1] * shape[2], labels.len())?;
        if let Some(label) = labels
            .iter()
            .find(|&&l| l != IGNORED && usize::from(l) >= shape[3])
        {
            let expected = format!("a class below {} or {IGNORED} (ignored)", shape[3]);
            return Err(ModelError::Shape {
                op,
                what: "label",
                expected,
                got: label.to_string(),
            });
        }
        let values = Host::of(op, logits)?;
        let (weighted_sum, weight_sum, mut gradient) = match self {
            Self::Reference => reference::loss::cross_entropy(&values, labels, class_weights),
            #[cfg(feature = "onednn")]
            Self::OneDnn => fast::loss::cross_entropy(&values, labels, class_weights),
        };
        let factor = if weight_sum > 0.0 {
            (f64::from(scale) / weight_sum) as f32
        } else {
            0.0
        };
        gradient.iter_mut().for_each(|g| *g *= factor);
        Ok(Loss {
            weighted_sum,
            weight_sum,
            gradient: tensor(gradient, &shape, DType::F32)?,
        })
    }

    /// The probability of every class, f32.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if logits are not BHWK.
    pub fn softmax(self, logits: &Tensor) -> Result<Tensor> {
        let shape = bhwc("softmax", "logits", logits)?;
        let values = Host::of("softmax", logits)?;
        let probabilities = match self {
            Self::Reference => reference::loss::softmax(&values, shape[3]),
            #[cfg(feature = "onednn")]
            Self::OneDnn => fast::loss::softmax(&values, shape[3]),
        };
        tensor(probabilities, &shape, DType::F32)
    }

    /// The class of the largest logit per pixel, the first of equals.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if logits are not BHWK.
    pub fn argmax(self, logits: &Tensor) -> Result<Vec<u8>> {
        let shape = bhwc("argmax", "logits", logits)?;
        let values = Host::of("argmax", logits)?;
        let best = |pixel: &[f32]| {
            let start = (0, pixel[0]);
            let larger =
                |best: (usize, f32), (k, &z): (usize, &f32)| if z > best.1 { (k, z) } else { best };
            pixel.iter().enumerate().fold(start, larger).0 as u8
        };
        Ok(values.chunks_exact(shape[3]).map(best).collect())
    }
}
