//! Networks that find boxes, and how [`super::Network`] runs them.

mod cells;
mod centres;
mod mirror;
mod run;

pub(super) use cells::CellDetector;
pub(super) use centres::CentreDetector;

use crate::detection::{DetectorGradient, DetectorOutput};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::Backend;
use crate::parameters::Parameters;
use crate::pass::Pass;
use candle_core::{DType, Tensor};
use std::fmt::Debug;

/// Slope of the leaky ReLUs below zero.
pub(super) const SLOPE: f32 = 0.1;

/// The layers of a network that finds boxes.
pub(super) trait Detector: Debug + Send + Sync {
    /// What it says about fields `(frames, h, w, c)`, and the fields made again if asked.
    fn detect(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        reconstruct: bool,
    ) -> Result<DetectorOutput>;

    /// Adds the gradient of every parameter to `gradients`.
    fn learn(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        gradient: DetectorGradient,
        gradients: &mut Gradients,
    ) -> Result<()>;

    /// Whether it also gives the class of every pixel.
    fn gives_masks(&self) -> bool {
        false
    }
}

/// In f32, in which losses are computed.
fn wide(backend: Backend, x: &Tensor) -> Result<Tensor> {
    backend.convert(x, DType::F32)
}
