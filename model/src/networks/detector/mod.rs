//! Networks that find boxes, and how [`super::Network`] runs them.

mod cells;
mod centres;
mod reconstruction;
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
    /// The heads' output for fields, and their reconstruction if `reconstruct` is set and the network has a decoder for
    /// it.
    ///
    /// # Shapes
    /// x `(frames, h, w, c)`, c including the latitude channels
    fn detect(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        reconstruct: bool,
    ) -> Result<DetectorOutput>;

    /// Adds the gradient of every parameter to `gradients`, given the gradients of the outputs of [`Self::detect`].
    fn backward_detection(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        gradient: DetectorGradient,
        gradients: &mut Gradients,
    ) -> Result<()>;

    /// Whether the network also classifies every pixel.
    fn gives_masks(&self) -> bool {
        false
    }
}

/// Converts `x` to f32, the type in which losses are computed.
fn to_f32(backend: Backend, x: &Tensor) -> Result<Tensor> {
    backend.convert(x, DType::F32)
}
