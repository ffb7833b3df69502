//! Boxes around objects: a detector's output, the labels it should give, and the loss between the two.
//!
//! A detection network ([`crate::Network::is_detector`]) gives a [`DetectorOutput`] for every batch of fields. It can
//! be decoded to boxes ([`DetectorOutput::decode`]) or compared with labels ([`DetectorOutput::loss`]); the loss's
//! gradient goes back through the network ([`crate::Network::backward_detection`]).
//!
//! There are two schemes. A detector of **cells** predicts one box for each cell of a coarse grid (`cells`,
//! `cell_loss`); a detector of **centres** predicts a score for each class and pixel, which peaks at centres of
//! objects, and the distances from there to the box's sides (`centres`, `centre_loss`).
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

pub(crate) use layout::{Layout, Scheme};
pub use loss::{DetectionLoss, DetectionLossConfig, DetectionTargets, DetectorGradient};
pub use mask_loss::MaskTargets;

use crate::error::{ModelError, Result};
use crate::networks::Prediction;
use crate::ops::Backend;
use crate::ops::host::Host;
use candle_core::Tensor;
use layout::are_numbers;
use serde::{Deserialize, Serialize};

/// A box that a detector should find.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BoxTarget {
    /// The class of what the box holds.
    pub class: usize,
    /// First row, pixels.
    pub y_min: f32,
    /// First column, pixels.
    pub x_min: f32,
    /// End of the rows, pixels.
    pub y_max: f32,
    /// End of the columns, pixels; more than the field's width where the box crosses the seam of a global field.
    pub x_max: f32,
}

/// A box that a detector found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScoredBox {
    /// The class of what the box holds.
    pub class: usize,
    /// First row, pixels.
    pub y_min: f32,
    /// First column, pixels, [0, width).
    pub x_min: f32,
    /// End of the rows, pixels.
    pub y_max: f32,
    /// End of the columns, pixels; more than the field's width where the box crosses the seam of a global field.
    pub x_max: f32,
    /// How sure the network is, 0 to 1.
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

/// Boxes, and masks if there are any, of a batch.
#[derive(Debug)]
pub struct Findings {
    /// The boxes of every frame, the surest first.
    pub boxes: Vec<Vec<ScoredBox>>,
    /// Cells of every frame for which the heads give NaN or infinities: their boxes are missing.
    pub not_finite: Vec<usize>,
    /// The masks of a network that gives them too.
    pub masks: Option<Prediction>,
}

/// The output of a detector for a batch, before it is decoded.
#[derive(Debug, Clone)]
pub struct DetectorOutput {
    /// What its heads give before any activation, f32, `(frames, rows, columns, values)`.
    pub(crate) heads: Tensor,
    /// The input as the decoder makes it again, `(input frames, h, w, c)`, if it was asked for.
    pub(crate) reconstruction: Option<Tensor>,
    /// The logits of masks, `(b, h, w, k)`, of a network that gives them too.
    pub(crate) segmentation: Option<Tensor>,
    pub(crate) layout: Layout,
    pub(crate) backend: Backend,
}

impl DetectorOutput {
    /// Frames that it has boxes for: the batch; of clips, the frames that the heads' stride in time leaves.
    pub fn frames(&self) -> usize {
        self.heads.dims()[0]
    }

    /// What the heads give before any activation, f32, `(frames, rows, columns, values)`. Of a detector of cells,
    /// values are the box (x and y in the cell, log2 of width and height in cells), two of objectness (object first),
    /// one for each class; of a detector of centres, one for each class, then the logarithms of the distances to the
    /// box's sides.
    pub fn heads(&self) -> &Tensor {
        &self.heads
    }

    /// The input as the decoder makes it again, `(input frames, h, w, c)`, if it was asked for.
    pub fn reconstruction(&self) -> Option<&Tensor> {
        self.reconstruction.as_ref()
    }

    /// The logits of masks, f32, `(b, h, w, k)`, of a network that gives them too.
    pub fn segmentation(&self) -> Option<&Tensor> {
        self.segmentation.as_ref()
    }

    /// The boxes of every frame of at least this confidence, the surest first.
    ///
    /// A detector of cells gives one box for each cell, with its objectness as confidence; neighbours are not
    /// suppressed (as published). A detector of centres gives one for each cell and class whose score is the highest
    /// among its eight neighbours.
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

    /// Cells of every frame for which the heads give NaN or infinities, of which [`Self::decode`] makes no boxes.
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

    /// The extents of the heads: frames, rows, columns, channels.
    fn shape(&self) -> Result<[usize; 4]> {
        crate::ops::host::bhwc("detector", "heads", &self.heads)
    }
}

/// Share of a field's width by which rounding may make a box wider than the field.
const WIDER: f32 = 1e-5;

/// Refuses a label that is not a box of this network's: of a class that it does not know, without extent, or wholly
/// outside the field.
fn check(target: &BoxTarget, layout: &Layout, (frame, index): (usize, usize)) -> Result<()> {
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

/// Why a box lies wholly outside the field; none if a part of it lies there. Longitude wraps on a globe, latitude
/// nowhere does.
fn outside(target: &BoxTarget, layout: &Layout) -> Option<String> {
    let (h, w) = (layout.field.0 as f32, layout.field.1 as f32);
    let (from, to) = (target.y_min, target.y_max);
    if from >= h || to <= 0.0 {
        return Some(format!(
            "its rows {from} to {to} lie outside the {h} rows of the field"
        ));
    }
    let (from, to) = (target.x_min, target.x_max);
    if layout.periodic {
        // Edges are rounded: the whole circle may be a little wider than the field.
        return (to - from > w * (1.0 + WIDER))
            .then(|| format!("its columns {from} to {to} go more than once round a field of {w}"));
    }
    (from >= w || to <= 0.0)
        .then(|| format!("its columns {from} to {to} lie outside the {w} columns of the field"))
}
