//! The trait that every network implements, and the function that builds each of them.

use super::cgnet::CgNet;
use super::deepcam::DeepCam;
use super::deeplab_v3_plus::DeepLabV3Plus;
use super::detector::{CellDetector, CentreDetector, Detector};
use super::strips::InStrips;
use super::tiramisu::Tiramisu;
use super::{NetworkConfig, NetworkName};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;
use std::fmt::Debug;

/// The layers of a network, which map a field to logits of its size and propagate gradients back.
pub(super) trait Architecture: Debug + Send + Sync {
    /// The logits at the resolution of `x`.
    ///
    /// # Shapes
    /// x `(b, h, w, c)`, c including the latitude channels → `(b, h, w, k)`
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor>;

    /// Adds the gradient of every parameter to `gradients`.
    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dlogits: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()>;

    /// Adds the costs for an input of this shape to `trace`.
    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()>;

    /// The kernels of the output layers, whose results go to the loss and to callers: they stay in f32 unless a
    /// precision policy overrides it.
    fn outputs(&self) -> Vec<ParameterId>;

    /// This network as one that inference can compute in strips, if it can.
    fn in_strips(&self) -> Option<&dyn InStrips> {
        None
    }

    /// This network as a detector, if it finds boxes.
    fn detector(&self) -> Option<&dyn Detector> {
        None
    }
}

/// Builds the layers that a configuration describes and adds their parameters to `parameters`.
pub(super) fn build(
    parameters: &mut Parameters,
    config: &NetworkConfig,
) -> Result<Box<dyn Architecture>> {
    Ok(match config.name {
        NetworkName::DeepLabV3Plus
        | NetworkName::DeepLabV3PlusDeconv
        | NetworkName::DeepLabV3PlusBilinear => Box::new(DeepLabV3Plus::new(parameters, config)?),
        NetworkName::DeepCam => Box::new(DeepCam::new(parameters, config)?),
        NetworkName::Tiramisu => Box::new(Tiramisu::new(parameters, config)?),
        NetworkName::CgNet => Box::new(CgNet::new(parameters, config)?),
        NetworkName::Detector2d
        | NetworkName::Detector2dHalf
        | NetworkName::Detector3d
        | NetworkName::Detector15pf => Box::new(CellDetector::new(parameters, config)?),
        NetworkName::DetectorDense => Box::new(CentreDetector::new(parameters, config)?),
    })
}
