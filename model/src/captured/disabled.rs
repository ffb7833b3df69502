//! Stand-in for builds without GPU support, where nothing is captured.

use crate::detection::{DetectorGradient, DetectorOutput};
use crate::error::Result;
use crate::gpu::GpuError;
use crate::pass::Pass;
use crate::storage::Storage;
use crate::{Gradients, Network};
use candle_core::Tensor;

/// A network's captured passes; uninhabited in this build.
#[derive(Debug)]
pub enum Captured {}

impl Captured {
    /// Returns an error: this build has no CUDA graphs.
    ///
    /// # Errors
    /// [`GpuError::NotBuilt`].
    pub fn capture(
        _: &Network,
        _: &Tensor,
        _: &Storage,
        _: &mut Gradients,
        _reconstruct: bool,
    ) -> Result<Self> {
        Err(GpuError::NotBuilt.into())
    }

    /// Whether the passes were captured for this network, input and gradients.
    pub fn fits(&self, _: &Network, _: &Tensor, _: &Gradients, _reconstruct: bool) -> bool {
        match *self {}
    }

    pub(crate) fn forward(&self, _: &Tensor, _: &mut Pass) -> Result<Tensor> {
        match *self {}
    }

    pub(crate) fn detect(&self, _: &Tensor, _: &mut Pass) -> Result<DetectorOutput> {
        match *self {}
    }

    pub(crate) fn backward_detection(
        &self,
        _: &DetectorGradient,
        _: u64,
        _: &mut Gradients,
    ) -> Result<()> {
        match *self {}
    }

    pub(crate) fn backward(&self, _: &Tensor, _: u64, _: &mut Gradients) -> Result<()> {
        match *self {}
    }
}
