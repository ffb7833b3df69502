//! MLPerf HPC DeepCAM: an Xception encoder, a pyramid of atrous convolutions, a decoder of transposed convolutions.
//!
//! Every layer, padding, stride, bias and ε is that of the PyTorch reference, so that its checkpoints mean the same
//! here; [`super::deepcam_names`] has their names. Initial values differ: kernels are uniform with the variance of the
//! reference's normal ones.
//!
//! # Source
//! mlcommons/hpc `deepcam/src/deepCam/architecture/deeplab_xception.py`: 56,454,720 parameters, 0.655 TF for the
//! forward pass of a 768 x 1152 sample. The reference tiles its pooled branch to 48 x 72 and so knows one size only;
//! here any size works, and extents that are not multiples of 16 are rounded up inside and cut at the end.

use super::NetworkConfig;
use super::architecture::Architecture;
use super::decoder::Double;
use super::strips::{self, InStrips};
use super::xception::Xception;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::aspp::{Aspp, Pooling};
use crate::layers::conv::{Conv, Upsample};
use crate::layers::unit::Unit;
use crate::layers::{Joining, JoiningParts, Layer, Style};
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
    low: Unit,
    /// Doublings from a sixteenth of the input to an eighth, and to a quarter.
    up: [Double; 2],
    refine: [Unit; 2],
    project: Conv,
    /// The doubling to a half.
    up3: Double,
    /// The doubling to the whole, which gives logits; without bias.
    classify: Upsample,
    channels: usize,
    low_channels: usize,
}

impl DeepCam {
    pub(super) fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let style = Style::of(config);
        let encoder = Xception::new(parameters, config, style)?;
        let (channels, low_channels) = (config.decoder_channels(256), config.decoder_channels(48));
        let pyramid = Aspp::new(
            parameters,
            "aspp",
            (encoder.channels_out, channels),
            &config.atrous_rates,
            Pooling::Affine,
            style,
        )?;
        let (point, kernel) = (ConvSpec::same(1), ConvSpec::same(3));
        let low = (encoder.low_level_channels, low_channels);
        let joined = (channels + low_channels, channels);
        let same = (channels, channels);
        let low = Unit::new(parameters, "decoder.low_level", point, low, style)?;
        let up = [
            Double::new(parameters, "decoder.up1", same, style)?,
            Double::new(parameters, "decoder.up2", same, style)?,
        ];
        let refine = [
            Unit::new(parameters, "decoder.refine1", kernel, joined, style)?,
            Unit::new(parameters, "decoder.refine2", kernel, same, style)?,
        ];
        let project = Conv::new(parameters, "decoder.project", point, same, true)?;
        let up3 = Double::new(parameters, "decoder.up3", same, style)?;
        let ends = (channels, config.classes);
        let name = "decoder.classify";
        let classify = Upsample::new(parameters, name, style.periodic, ends, false)?;
        Ok(Self {
            encoder,
            pyramid,
            low,
            up,
            refine,
            project,
            up3,
            classify,
            channels,
            low_channels,
        })
    }
}

/// Half an extent, rounded up, as every strided convolution here leaves it.
fn half((h, w): (usize, usize)) -> (usize, usize) {
    (h.div_ceil(2), w.div_ceil(2))
}

impl DeepCam {
    /// Pyramid and low-level features at a quarter of the input, refined.
    fn join(&self, p: &Parameters, pass: &mut Pass, [deep, low]: [Tensor; 2]) -> Result<Tensor> {
        let (_, h, w, _) = low.dims4()?;
        let low = self.low.forward(p, pass, &low)?;
        let y = self.up[0].forward(p, pass, &deep, half((h, w)))?;
        let y = self.up[1].forward(p, pass, &y, (h, w))?;
        drop(deep);
        let y = self.refine[0].forward_joined(p, pass, &{ [y, low] })?;
        self.refine[1].forward(p, pass, &y)
    }
}

impl Architecture for DeepCam {
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let (_, h, w, _) = x.dims4()?;
        let (deep, low) = self.encoder.forward(p, pass, x)?;
        let mut y = self.pyramid.forward(p, pass, &deep)?;
        drop(deep);
        y = pass.block([y, low], |pass, inputs| self.join(p, pass, inputs))?;
        y = self.project.forward(p, pass, &y)?;
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
        pass.replay(|pass, inputs| self.join(p, pass, inputs))?;
        dy = self.refine[1].backward(p, pass, dy, gradients)?;
        let counts = [self.channels, self.low_channels];
        let [ddeep, dlow] = self.refine[0].backward_parts(p, pass, dy, counts, gradients)?;
        dy = self.up[1].backward(p, pass, ddeep, gradients)?;
        dy = self.up[0].backward(p, pass, dy, gradients)?;
        let dlow = self.low.backward(p, pass, dlow, gradients)?;
        dy = self.pyramid.backward(p, pass, dy, gradients)?;
        self.encoder.backward(p, pass, dy, &dlow, gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()> {
        let (deep, low) = self.encoder.trace(x, trace)?;
        let [_, h, w, _] = x.shape;
        let deep = self.pyramid.trace(deep, trace)?;
        let mut y = trace.block_taking(&[deep, low], |trace| {
            let quarter = (low.shape[1], low.shape[2]);
            let low = self.low.trace(low, trace)?;
            let y = self.up[0].trace(deep, half(quarter), trace)?;
            let y = self.up[1].trace(y, quarter, trace)?;
            let y = self.refine[0].trace_joined(&[y, low], trace)?;
            self.refine[1].trace(y, trace)
        })?;
        y = self.project.trace(y, trace)?;
        trace.begin_last();
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
        let y = self.join(p, pass, [deep, low])?;
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
