//! The loss of a detector: its total, its parts, and its gradient, from the detector's output and labels.
//!
//! Everything is computed in f64 from f32 outputs. The published loss also contains an L2 regularisation, 5e-4 Σ w²,
//! which is left to the optimiser: `weight_decay = 1e-3` coupled to the gradient (the derivative of w² is 2 w), for
//! kernels only.
//!
//! Every frame of a batch has the same weight, labelled or not, so the mean over ranks with equal batch sizes is the
//! loss of all their frames.

use super::layout::{CellLayout, Scheme};
use super::mask_loss::{self, MaskTargets};
use super::{BoxTarget, DetectorOutput, cell_loss, centre_loss, check};
use crate::error::{ModelError, Result};
use crate::ops::host::{Host, expect, tensor};
use candle_core::{DType, Tensor};
use serde::{Deserialize, Serialize};

/// The weights of the parts of the loss. The defaults are the published ones.
///
/// # Source
/// Racah et al. 2017 and `hur-detect` for cells (penalties 5, 7 and 0.5, λ 10); TTFNet (arXiv:1909.00700) for scores
/// and overlap (1 and 5).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetectionLossConfig {
    /// Weight of the position of the centre (cells). Default 5.
    pub centre: f64,
    /// Weight of width and height (cells). Default 7.
    pub size: f64,
    /// Weight of objectness in cells with an object. Default 1.
    pub object: f64,
    /// Weight of objectness in cells without an object. Default 0.5.
    pub no_object: f64,
    /// Weight of the object's class (cells). Default 1.
    pub class: f64,
    /// Weight of the class scores (centres). Default 1.
    pub scores: f64,
    /// Weight of the box overlap (centres). Default 5.
    pub overlap: f64,
    /// Weight λ of the mean squared error of the reconstructed input; a schedule may change it from step to step.
    /// Default 10.
    pub reconstruction: f64,
    /// Weight of the masks, if the network outputs them. Default 1.
    pub segmentation: f64,
}

impl Default for DetectionLossConfig {
    fn default() -> Self {
        Self {
            centre: 5.0,
            size: 7.0,
            object: 1.0,
            no_object: 0.5,
            class: 1.0,
            scores: 1.0,
            overlap: 5.0,
            reconstruction: 10.0,
            segmentation: 1.0,
        }
    }
}

impl DetectionLossConfig {
    /// Checks that all values are valid.
    ///
    /// # Errors
    /// [`ModelError::Config`] naming the key.
    pub fn check(&self) -> Result<()> {
        let all = [
            ("centre", self.centre),
            ("size", self.size),
            ("object", self.object),
            ("no_object", self.no_object),
            ("class", self.class),
            ("scores", self.scores),
            ("overlap", self.overlap),
            ("reconstruction", self.reconstruction),
            ("segmentation", self.segmentation),
        ];
        let bad = all.into_iter().find(|(_, v)| !(v.is_finite() && *v >= 0.0));
        match bad {
            None => Ok(()),
            Some((key, found)) => Err(ModelError::Config {
                key,
                reason: format!("expected 0 or more, found {found}"),
            }),
        }
    }
}

/// The targets for a detector's output.
#[derive(Debug, Clone, Copy)]
pub struct DetectionTargets<'a> {
    /// The network's input, `(input frames, h, w, c)` (or `(b, t, h, w, c)`), which is the target of the
    /// reconstruction.
    pub fields: &'a Tensor,
    /// The boxes of every output frame ([`DetectorOutput::frames`]); `None` for unlabelled frames, which train only
    /// through their reconstruction.
    pub boxes: &'a [Option<Vec<BoxTarget>>],
    /// The masks, if the network outputs them.
    pub masks: Option<MaskTargets<'a>>,
}

/// The gradient of the loss with respect to all outputs of a detector, for [`crate::Network::backward_detection`].
#[derive(Debug, Clone)]
pub struct DetectorGradient {
    pub(crate) heads: Tensor,
    pub(crate) reconstruction: Option<Tensor>,
    pub(crate) segmentation: Option<Tensor>,
}

/// The loss of a batch.
#[derive(Debug)]
pub struct DetectionLoss {
    /// The sum of the parts.
    pub total: f64,
    /// The weighted parts by name: for cells `centre`, `size`, `object`, `no_object`, `class`; for centres `scores`,
    /// `overlap`; `reconstruction` and `segmentation` if the network outputs them.
    pub parts: Vec<(&'static str, f64)>,
    /// The number of labelled frames.
    pub labelled: usize,
    /// The gradient of the total, times the requested scale.
    pub gradient: DetectorGradient,
}

impl DetectionLoss {
    /// One part; `None` if this network has no part of this name.
    pub fn part(&self, name: &str) -> Option<f64> {
        let found = self.parts.iter().find(|(part, _)| *part == name);
        found.map(|(_, value)| *value)
    }
}

/// The sums of the frames' terms, including weights.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub centre: f64,
    pub size: f64,
    pub object: f64,
    pub no_object: f64,
    pub class: f64,
    pub scores: f64,
    pub overlap: f64,
}

/// Parameters shared by the losses of all frames of a batch.
pub(super) struct Rules<'a> {
    pub config: &'a DetectionLossConfig,
    pub layout: &'a CellLayout,
    /// The factor on gradients.
    pub factor: f64,
}

/// One frame: the heads' output, the buffer for its gradient, and the target boxes.
pub(super) struct Frame<'a> {
    pub values: &'a [f32],
    pub gradient: &'a mut [f32],
    /// Rows and columns of the grid of cells.
    pub grid: (usize, usize),
    pub targets: &'a [BoxTarget],
}

impl DetectorOutput {
    /// The loss of the output against labels and input, with its gradient times `scale`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the number of frames or pixels differs from the output's; [`ModelError::Box`] naming
    /// the first label that is not a box; [`ModelError::Config`]; [`ModelError::Label`].
    pub fn loss(
        &self,
        targets: &DetectionTargets<'_>,
        config: &DetectionLossConfig,
        scale: f32,
    ) -> Result<DetectionLoss> {
        config.check()?;
        let (mut parts, heads) = self.boxes_loss(targets.boxes, config, scale)?;
        let reconstruction = match &self.reconstruction {
            None => None,
            Some(made) => {
                let weight = config.reconstruction;
                let (value, gradient) = (self.backend).squared_error(
                    made,
                    targets.fields,
                    weight * f64::from(scale),
                )?;
                parts.push(("reconstruction", weight * value));
                Some(gradient)
            }
        };
        let segmentation = match (&self.segmentation, targets.masks) {
            (None, _) => None,
            (Some(logits), None) => Some(logits.zeros_like()?),
            (Some(logits), Some(targets)) => {
                let weight = config.segmentation;
                let factor = weight * f64::from(scale);
                let (value, gradient) = mask_loss::judge(self.backend, logits, &targets, factor)?;
                parts.push(("segmentation", weight * value));
                Some(gradient)
            }
        };
        Ok(DetectionLoss {
            total: parts.iter().map(|(_, value)| value).sum(),
            parts,
            labelled: targets.boxes.iter().flatten().count(),
            gradient: DetectorGradient {
                heads,
                reconstruction,
                segmentation,
            },
        })
    }

    /// The parts that depend on labels, and their gradient.
    fn boxes_loss(
        &self,
        labels: &[Option<Vec<BoxTarget>>],
        config: &DetectionLossConfig,
        scale: f32,
    ) -> Result<(Vec<(&'static str, f64)>, Tensor)> {
        let op = "detection_loss";
        let [frames, rows, columns, channels] = self.shape()?;
        expect(op, "frames with or without labels", frames, labels.len())?;
        let values = Host::of(op, &self.heads)?;
        let mut gradient = vec![0.0f32; values.len()];
        let mut sums = Sums::default();
        let length = rows * columns * channels;
        let rules = Rules {
            config,
            layout: &self.layout,
            factor: f64::from(scale) / frames as f64,
        };
        let each = values.chunks_exact(length);
        let each = each.zip(gradient.chunks_exact_mut(length));
        for (number, ((values, gradient), targets)) in each.zip(labels).enumerate() {
            let Some(targets) = targets else { continue };
            for (index, target) in targets.iter().enumerate() {
                check(target, &self.layout, (number, index))?;
            }
            let frame = Frame {
                values,
                gradient,
                grid: (rows, columns),
                targets,
            };
            match self.layout.scheme {
                Scheme::Cells => cell_loss::add(&rules, frame, &mut sums),
                Scheme::Centres => centre_loss::add(&rules, frame, &mut sums),
            }
        }
        let parts = match self.layout.scheme {
            Scheme::Cells => vec![
                ("centre", sums.centre),
                ("size", sums.size),
                ("object", sums.object),
                ("no_object", sums.no_object),
                ("class", sums.class),
            ],
            Scheme::Centres => vec![("scores", sums.scores), ("overlap", sums.overlap)],
        };
        let mean = |(name, sum): (&'static str, f64)| (name, sum / frames as f64);
        let gradient = tensor(gradient, self.heads.dims(), DType::F32)?;
        Ok((parts.into_iter().map(mean).collect(), gradient))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Backend;
    use crate::ops::loss::Criterion;
    use approx::assert_relative_eq;

    /// Two frames of one cell, with heads of zeros and the given outputs of decoders for 1 x 2 pixels.
    fn output(reconstruction: Option<Tensor>, segmentation: Option<Tensor>) -> DetectorOutput {
        DetectorOutput {
            heads: tensor(vec![0.0; 18], &[2, 1, 1, 9], DType::F32).unwrap(),
            reconstruction,
            segmentation,
            layout: CellLayout {
                scheme: Scheme::Cells,
                classes: 3,
                cell_px: 2,
                field: (1, 2),
                periodic: true,
                box_relu: false,
            },
            backend: Backend::Reference,
        }
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    /// The decoder makes the channel of latitude too, which the network added itself: it does not count.
    #[test]
    fn what_is_made_again_is_compared_with_the_fields_alone() {
        let made = vec![1.0, 2.0, 9.0, 3.0, 4.0, 9.0];
        let made = tensor(made, &[1, 1, 2, 3], DType::F32).unwrap();
        let masks = tensor(vec![1.0; 4], &[1, 1, 2, 2], DType::F32).unwrap();
        let fields = tensor(vec![0.0, 0.0, 1.0, 6.0], &[1, 1, 2, 2], DType::F32).unwrap();
        let targets = DetectionTargets {
            fields: &fields,
            boxes: &[None, Some(Vec::new())],
            masks: None,
        };
        let config = DetectionLossConfig::default();
        let output = output(Some(made), Some(masks));
        let loss = output.loss(&targets, &config, 8.0).unwrap();
        assert_eq!(loss.labelled, 1);
        // 1² + 2² + 2² + 2² over four values, with the weight 10.
        let part = loss.part("reconstruction").unwrap();
        assert_relative_eq!(part, 32.5, max_relative = 1e-12);
        // Of one frame of two, a cell without an object: ½ ln 2.
        assert_relative_eq!(loss.total, 32.5 + 0.25 * 2f64.ln(), max_relative = 1e-6);
        // 2 off / 4, times weight and scale.
        let gradient = values(loss.gradient.reconstruction.as_ref().unwrap());
        assert_eq!(gradient, [40.0, 80.0, 0.0, 80.0, -80.0, 0.0]);
        // Without target masks there is no segmentation loss.
        assert_eq!(loss.part("segmentation"), None);
        assert_eq!(
            values(loss.gradient.segmentation.as_ref().unwrap()),
            [0.0; 4]
        );
    }

    /// Of two pixels with p = ½ for both classes the loss is ln 2, and its gradient (p − 1) / 2 and p / 2.
    #[test]
    fn masks_count_by_their_weight() {
        let logits = tensor(vec![0.0; 4], &[1, 1, 2, 2], DType::F32).unwrap();
        let (labels, criterion): (&[u8], _) = (&[0, 1], Criterion::cross_entropy(&[1.0; 2]));
        let frames = [Some(labels)];
        let targets = DetectionTargets {
            fields: &logits,
            boxes: &[None, None],
            masks: Some(MaskTargets {
                labels: &frames,
                criterion: &criterion,
            }),
        };
        let config = DetectionLossConfig {
            segmentation: 0.5,
            ..DetectionLossConfig::default()
        };
        let output = output(None, Some(logits.clone()));
        let loss = output.loss(&targets, &config, 8.0).unwrap();
        assert_eq!(loss.labelled, 0);
        assert_relative_eq!(loss.total, 0.5 * 2f64.ln(), max_relative = 1e-6);
        assert_eq!(loss.part("segmentation"), Some(loss.total));
        let gradient = values(loss.gradient.segmentation.as_ref().unwrap());
        for (got, expected) in gradient.into_iter().zip([-1.0, 1.0, 1.0, -1.0]) {
            assert_relative_eq!(got, expected, max_relative = 1e-6);
        }
    }

    #[test]
    fn every_weight_below_nothing_is_named() {
        let all = serde_json::to_value(DetectionLossConfig::default()).unwrap();
        let keys: Vec<String> = all.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys.len(), 9);
        for key in keys {
            let mut changed = all.clone();
            changed[&key] = serde_json::json!(-1.0);
            let config: DetectionLossConfig = serde_json::from_value(changed).unwrap();
            let error = config.check().unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{key}`: expected 0 or more")),
                "{error}"
            );
        }
        let config = DetectionLossConfig {
            class: f64::NAN,
            ..DetectionLossConfig::default()
        };
        assert!(config.check().is_err());
    }
}
