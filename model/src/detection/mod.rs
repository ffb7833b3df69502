//! Detection of boxes around objects: a detector's output, its target labels, and the loss between the two.
//!
//! A detection network ([`crate::Network::is_detector`]) returns a [`DetectorOutput`] for every batch of fields. It can
//! be decoded to boxes ([`DetectorOutput::decode`]) or compared with labels ([`DetectorOutput::loss`]); the gradient of
//! the loss is propagated back through the network ([`crate::Network::backward_detection`]).
//!
//! There are two schemes. A **cell** detector predicts one box per cell of a coarse grid (`cells`, `cell_loss`). A
//! **centre** detector predicts a score per class and pixel, which peaks at the centres of objects, and the distances
//! from there to the box's sides (`centres`, `centre_loss`).
//!
//! Boxes are in pixels of the field: pixel (j, i) covers y from j to j + 1 and x from i to i + 1. Classes are numbers.
//!
//! # Example
//! ```
//! use candle_core::{DType, Device, Tensor};
//! use squall_model::detection::{BoxTarget, DetectionLossConfig, DetectionTargets};
//! use squall_model::networks::NetworkName;
//! use squall_model::{Backend, Gradients, Network, NetworkConfig, Pass};
//!
//! let config = NetworkConfig { width: 0.05, blocks: vec![3], channels_in: 4, ..NetworkConfig::of(NetworkName::Detector2d) };
//! let network = Network::build(&config, Backend::best(), 1)?;
//! let x = Tensor::ones((1, 32, 64, 4), DType::F32, &Device::Cpu)?;
//! let mut pass = Pass::train(network.backend(), DType::F32, 0);
//! let output = network.detect(&x, &mut pass, true)?;
//! let cyclone = BoxTarget { class: 1, y_min: 4.0, x_min: 60.0, y_max: 14.0, x_max: 70.0 };
//! let targets = DetectionTargets { fields: &x, boxes: &[Some(vec![cyclone])], masks: None };
//! let loss = output.loss(&targets, &DetectionLossConfig::default(), 1.0)?;
//! let mut gradients = Gradients::new(network.parameters());
//! network.backward_detection(loss.gradient, pass, &mut gradients)?;
//! assert!(loss.total > 0.0 && gradients.norm() > 0.0);
//! let boxes = network.find_boxes(&x, DType::F32, 0.5)?;
//! assert_eq!(boxes.len(), 1);
//! # Ok::<(), squall_model::ModelError>(())
//! ```

mod cell_loss;
mod cells;
mod centre_loss;
mod centres;
mod giou;
mod layout;
mod loss;
mod mask_loss;
#[cfg(test)]
mod tests;

pub(crate) use layout::{CellLayout, Scheme};
pub use loss::{DetectionLoss, DetectionLossConfig, DetectionTargets, DetectorGradient};
pub use mask_loss::MaskTargets;

use crate::error::{ModelError, Result};
use crate::networks::Prediction;
use crate::ops::Backend;
use crate::ops::host::Host;
use candle_core::Tensor;
use layout::are_numbers;
use serde::{Deserialize, Serialize};

/// A target box.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BoxTarget {
    /// The class of the object in the box.
    pub class: usize,
    /// First row, pixels.
    pub y_min: f32,
    /// First column, pixels.
    pub x_min: f32,
    /// End of the rows (exclusive), pixels.
    pub y_max: f32,
    /// End of the columns (exclusive), pixels; larger than the field's width if the box crosses the seam of a global
    /// field.
    pub x_max: f32,
}

/// A box found by a detector.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScoredBox {
    /// The class of the object in the box.
    pub class: usize,
    /// First row, pixels.
    pub y_min: f32,
    /// First column, pixels, [0, width).
    pub x_min: f32,
    /// End of the rows (exclusive), pixels.
    pub y_max: f32,
    /// End of the columns (exclusive), pixels; larger than the field's width if the box crosses the seam of a global
    /// field.
    pub x_max: f32,
    /// The network's confidence, from 0 to 1.
    pub confidence: f32,
}

impl ScoredBox {
    /// The box without the confidence.
    pub fn target(&self) -> BoxTarget {
        BoxTarget {
            class: self.class,
            y_min: self.y_min,
            x_min: self.x_min,
            y_max: self.y_max,
            x_max: self.x_max,
        }
    }
}

/// The boxes of a batch and, if the network outputs them, the masks.
#[derive(Debug)]
pub struct Findings {
    /// The boxes of every frame, most confident first.
    pub boxes: Vec<Vec<ScoredBox>>,
    /// The number of cells of every frame whose head outputs are NaN or infinite, and whose boxes are therefore
    /// missing.
    pub not_finite: Vec<usize>,
    /// The masks, if the network outputs them.
    pub masks: Option<Prediction>,
}

/// The output of a detector for a batch, before it is decoded.
#[derive(Debug, Clone)]
pub struct DetectorOutput {
    /// The output of its heads before any activation, f32, `(frames, rows, columns, values)`.
    pub(crate) heads: Tensor,
    /// The input as reconstructed by the decoder, `(input frames, h, w, c)`, if requested.
    pub(crate) reconstruction: Option<Tensor>,
    /// The logits of the masks, `(b, h, w, k)`, if the network outputs them.
    pub(crate) segmentation: Option<Tensor>,
    pub(crate) layout: CellLayout,
    pub(crate) backend: Backend,
}

impl DetectorOutput {
    /// The number of frames that have boxes: the batch size or, for clips, the frames that remain after the heads'
    /// stride in time.
    pub fn frames(&self) -> usize {
        self.heads.dims()[0]
    }

    /// The output of the heads before any activation, f32, `(frames, rows, columns, values)`. The values of a cell
    /// detector are the box (x and y in the cell, log2 of width and height in cells), two of objectness (object first),
    /// and one per class. Those of a centre detector are one per class, then the logarithms of the distances to the
    /// box's sides.
    pub fn heads(&self) -> &Tensor {
        &self.heads
    }

    /// The input as reconstructed by the decoder, `(input frames, h, w, c)`, if requested.
    pub fn reconstruction(&self) -> Option<&Tensor> {
        self.reconstruction.as_ref()
    }

    /// The logits of the masks, f32, `(b, h, w, k)`, if the network outputs them.
    pub fn segmentation(&self) -> Option<&Tensor> {
        self.segmentation.as_ref()
    }

    /// The boxes of every frame with at least this confidence, most confident first.
    ///
    /// A cell detector yields one box per cell, with its objectness as confidence; neighbours are not suppressed (as
    /// published). A centre detector yields one per cell and class whose score is the highest among its eight
    /// neighbours.
    ///
    /// # Errors
    /// [`ModelError::Gpu`] if the heads lie on a GPU and cannot be read.
    pub fn decode(&self, min_confidence: f32) -> Result<Vec<Vec<ScoredBox>>> {
        let values = Host::of("decode", &self.heads)?;
        let [frames, rows, columns, channels] = self.shape()?;
        let grid = (rows, columns);
        let of_frame = |values: &[f32]| {
            let mut boxes = match self.layout.scheme {
                Scheme::Cells => cells::decode(&self.layout, values, grid, min_confidence),
                Scheme::Centres => centres::decode(&self.layout, values, grid, min_confidence),
            };
            boxes.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
            boxes
        };
        let length = rows * columns * channels;
        let all: Vec<_> = values.chunks_exact(length).map(of_frame).collect();
        debug_assert_eq!(all.len(), frames);
        Ok(all)
    }

    /// The number of cells of every frame whose head outputs are NaN or infinite, which [`Self::decode`] skips.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn not_finite(&self) -> Result<Vec<usize>> {
        let values = Host::of("decode", &self.heads)?;
        let [_, rows, columns, channels] = self.shape()?;
        let of_frame = |values: &[f32]| {
            let cells = values.chunks_exact(channels);
            cells.filter(|cell| !are_numbers(cell)).count()
        };
        let frames = values.chunks_exact(rows * columns * channels);
        Ok(frames.map(of_frame).collect())
    }

    /// The shape of the heads' output: frames, rows, columns, channels.
    fn shape(&self) -> Result<[usize; 4]> {
        crate::ops::host::bhwc("detector", "heads", &self.heads)
    }
}

/// The share of a field's width by which rounding may make a box wider than the field.
const WIDER: f32 = 1e-5;

/// Checks that a label is a valid box for this network: of a known class, with positive extents, and not wholly outside
/// the field.
fn check(target: &BoxTarget, layout: &CellLayout, (frame, index): (usize, usize)) -> Result<()> {
    let all = [target.y_min, target.x_min, target.y_max, target.x_max];
    let reason = if target.class >= layout.classes {
        format!("class {} of {}", target.class, layout.classes)
    } else if all.iter().any(|edge| !edge.is_finite()) {
        "an edge is not finite".to_string()
    } else if target.y_min >= target.y_max || target.x_min >= target.x_max {
        "it has no extent".to_string()
    } else if let Some(reason) = outside(target, layout) {
        reason
    } else {
        return Ok(());
    };
    Err(ModelError::Box {
        frame,
        index,
        reason,
    })
}

/// The reason why a box lies wholly outside the field; `None` if part of it lies inside. Longitude wraps on a globe,
/// latitude never does.
fn outside(target: &BoxTarget, layout: &CellLayout) -> Option<String> {
    let (h, w) = (layout.field.0 as f32, layout.field.1 as f32);
    let (from, to) = (target.y_min, target.y_max);
    if from >= h || to <= 0.0 {
        return Some(format!(
            "its rows {from} to {to} lie outside the {h} rows of the field"
        ));
    }
    let (from, to) = (target.x_min, target.x_max);
    if layout.periodic {
        // Edges are rounded, so a box around the whole globe may be slightly wider than the field.
        return (to - from > w * (1.0 + WIDER))
            .then(|| format!("its columns {from} to {to} go more than once round a field of {w}"));
    }
    (from >= w || to <= 0.0)
        .then(|| format!("its columns {from} to {to} lie outside the {w} columns of the field"))
}
