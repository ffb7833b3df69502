//! MLPerf HPC DeepCAM: an Xception encoder, an atrous pyramid, and a decoder of transposed convolutions.
//!
//! Every layer, padding, stride, bias and ε matches the PyTorch reference, so that its checkpoints give the same
//! results here; [`crate::exchange`] maps their names. Only initial values differ: kernels are uniform, with the
//! variance of the reference's normal distribution.
//!
//! # Source
//! mlcommons/hpc `deepcam/src/deepCam/architecture/deeplab_xception.py`: 56,454,720 parameters, 0.655 TF for the
//! forward pass of a 768 x 1152 sample. The reference tiles its pooled branch to 48 x 72 and so supports one size only.
//! Here any size works: extents are rounded up to multiples of 16 internally and cropped at the end.

use super::NetworkConfig;
use super::architecture::Architecture;
use super::join::Join;
use super::strips::{self, InStrips};
use super::xception::Xception;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::aspp::{Aspp, Pooling};
use crate::layers::conv::Conv;
use crate::layers::upsample::Upsample;
use crate::layers::upsample_unit::{UpsampleUnit, half};
use crate::layers::{Layer, Style};
use crate::ops::ConvSpec;
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;
use std::ops::Range;

/// Encoder, pyramid, decoder.
#[derive(Debug)]
pub(super) struct DeepCam {
    encoder: Xception,
    pyramid: Aspp,
    /// Joins deep features at a sixteenth of the input with low-level ones at a quarter.
    join: Join,
    project: Conv,
    /// Upsamples to half the resolution.
    up3: UpsampleUnit,
    /// Upsamples to full resolution and outputs logits; without bias.
    classify: Upsample,
}

impl DeepCam {
    pub(super) fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let style = Style::of(config);
        let encoder = Xception::new(parameters, config)?;
        let channels = config.decoder_channels(256);
        let pyramid = Aspp::new(
            parameters,
            "aspp",
            (encoder.channels_out, channels),
            &config.atrous_rates,
            Pooling::Affine,
            style,
        )?;
        let low_level = (encoder.low_level_channels, 2);
        let join = Join::new(parameters, "decoder", config, low_level)?;
        let (point, same) = (ConvSpec::same(1), (channels, channels));
        let project = Conv::new(parameters, "decoder.project", point, same, true)?;
        let up3 = UpsampleUnit::new(parameters, "decoder.up3", same, style)?;
        let ends = (channels, config.classes);
        let name = "decoder.classify";
        let classify = Upsample::new(parameters, name, style.periodic, ends, false)?;
        Ok(Self {
            encoder,
            pyramid,
            join,
            project,
            up3,
            classify,
        })
    }
}

impl Architecture for DeepCam {
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let (_, h, w, _) = x.dims4()?;
        let mut y = self.before(p, pass, x)?;
        y = self.up3.forward(p, pass, &y, half((h, w)))?;
        self.classify.forward(p, pass, &y, (h, w))
    }

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dlogits: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let mut dy = self.classify.backward(p, pass, dlogits, gradients)?;
        dy = self.up3.backward(p, pass, dy, gradients)?;
        dy = self.project.backward(p, pass, dy, gradients)?;
        let (ddeep, dlow) = self.join.backward(p, pass, dy, gradients)?;
        let ddeep = self.pyramid.backward(p, pass, ddeep, gradients)?;
        self.encoder.backward(p, pass, ddeep, &dlow, gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()> {
        let (deep, low) = self.encoder.trace(x, trace)?;
        let [_, h, w, _] = x.shape;
        let deep = self.pyramid.trace(deep, trace)?;
        let mut y = self.join.trace(deep, low, trace)?;
        y = self.project.trace(y, trace)?;
        trace.begin_strips();
        y = self.up3.trace(y, half((h, w)), trace)?;
        self.classify.trace(y, (h, w), trace);
        Ok(())
    }

    fn outputs(&self) -> Vec<ParameterId> {
        vec![self.classify.kernel()]
    }

    fn in_strips(&self) -> Option<&dyn InStrips> {
        Some(self)
    }
}

impl InStrips for DeepCam {
    fn before(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let (deep, low) = self.encoder.forward(p, pass, x)?;
        let deep = self.pyramid.forward(p, pass, &{ deep })?;
        let y = self.join.forward(p, pass, [deep, low])?;
        self.project.forward(p, pass, &y)
    }

    fn last(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        (before, x): (&Tensor, &Tensor),
        rows: Range<usize>,
    ) -> Result<Tensor> {
        let (_, h, w, _) = x.dims4()?;
        let ((half_h, half_w), quarter_h) = (half((h, w)), before.dim(1)?);
        let up = |pass: &mut Pass, rows| {
            let quarter = |_: &mut Pass, rows| strips::cut(before, 0, &rows);
            strips::doubled(pass, (rows, quarter_h), quarter, |pass, y, rows| {
                self.up3.forward(p, pass, y, (rows, half_w))
            })
        };
        strips::doubled(pass, (rows, half_h), up, |pass, y, rows| {
            self.classify.forward(p, pass, y, (rows, w))
        })
    }
}
