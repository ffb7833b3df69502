//! The three decoders of DeepLabV3+, which restore the input's resolution: bilinear; `deconv`, with learnt upsampling;
//! and `deconv1x`, with a full-resolution part after that.
//!
//! # Source
//! ClimDeepLearn `deeplab_model.py`. As published, layers at full resolution have a bias and neither normalisation nor
//! activation; with batch normalisation on, they are units like all other layers.

mod strips;

use super::NetworkConfig;
use super::join::Join;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::conv::Conv;
use crate::layers::resize::{resize, resize_backward};
use crate::layers::unit::MaybeNormed;
use crate::layers::upsample_unit::{UpsampleUnit, half};
use crate::layers::{JoiningParts, Layer, Style};
use crate::ops::ConvSpec;
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// Upsamples twice by a factor of two, from a quarter of the input's resolution to full resolution.
#[derive(Debug)]
struct Deconv {
    second: UpsampleUnit,
    third: UpsampleUnit,
    full_resolution: Option<FullResolution>,
}

impl Deconv {
    fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let (style, channels) = (Style::of(config), config.decoder_channels(256));
        let mut double =
            |name: &str| UpsampleUnit::new(parameters, name, (channels, channels), style);
        let (second, third) = (double("decoder.up2")?, double("decoder.up3")?);
        let full_resolution = config
            .name
            .has_full_resolution()
            .then(|| FullResolution::new(parameters, config))
            .transpose()?;
        Ok(Self {
            second,
            third,
            full_resolution,
        })
    }

    /// Upsamples features from a quarter of the input's resolution to full resolution.
    fn enlarge(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        y: &Tensor,
        size: (usize, usize),
    ) -> Result<Tensor> {
        let y = self.second.forward(p, pass, y, half(size))?;
        self.third.forward(p, pass, &y, size)
    }

    /// As [`Self::enlarge`], followed by the full-resolution part if the decoder has one.
    fn forward(&self, p: &Parameters, pass: &mut Pass, y: Tensor, x: &Tensor) -> Result<Tensor> {
        let (_, h, w, _) = x.dims4()?;
        let y = pass.block([y], |pass, [y]| self.enlarge(p, pass, &y, (h, w)))?;
        let Some(full_resolution) = &self.full_resolution else {
            return Ok(y);
        };
        let skip = pass.block([x.clone()], |pass, [x]| full_resolution.skip(p, pass, &x))?;
        pass.block([y, skip], |pass, inputs| {
            full_resolution.join(p, pass, inputs)
        })
    }

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        mut dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let (_, h, w, _) = dy.dims4()?;
        if let Some(full_resolution) = &self.full_resolution {
            dy = full_resolution.backward(p, pass, dy, gradients)?;
        }
        pass.replay(|pass, [y]| self.enlarge(p, pass, &y, (h, w)))?;
        dy = self.third.backward(p, pass, dy, gradients)?;
        self.second.backward(p, pass, dy, gradients)
    }

    fn trace(&self, y: Flow, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let [_, h, w, _] = x.shape;
        let y = trace.block(&[y], |trace| {
            let y = self.second.trace(y, half((h, w)), trace)?;
            self.third.trace(y, (h, w), trace)
        })?;
        match &self.full_resolution {
            Some(full_resolution) => full_resolution.trace(y, x, trace),
            None => Ok(y),
        }
    }
}

/// The full-resolution part of `deconv1x`: two convolutions of the network's input, concatenation with the decoded
/// features, and two more convolutions.
#[derive(Debug)]
struct FullResolution {
    skip: [MaybeNormed; 2],
    full: [MaybeNormed; 2],
    /// Channels of the decoded features and of the skip.
    parts: [usize; 2],
}

impl FullResolution {
    fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let style = Style::of(config);
        let [c64, c128, c256] = [64, 128, 256].map(|channels| config.decoder_channels(channels));
        let mut layer = |name: &str, ends: (usize, usize)| {
            MaybeNormed::new(parameters, name, ConvSpec::same(3), ends, style)
        };
        Ok(Self {
            skip: [
                layer("decoder.skip1", (config.inputs(), c64))?,
                layer("decoder.skip2", (c64, c128))?,
            ],
            full: [
                layer("decoder.full1", (c256 + c128, c256))?,
                layer("decoder.full2", (c256, c256))?,
            ],
            parts: [c256, c128],
        })
    }

    fn skip(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let skip = self.skip[0].layer().forward(p, pass, x)?;
        self.skip[1].layer().forward(p, pass, &skip)
    }

    fn join(&self, p: &Parameters, pass: &mut Pass, parts: [Tensor; 2]) -> Result<Tensor> {
        let y = (self.full[0].layer()).forward_joined(p, pass, &{ parts })?;
        self.full[1].layer().forward(p, pass, &y)
    }

    /// Returns the gradient of the decoded features.
    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let [skip1, skip2] = self.skip.each_ref().map(MaybeNormed::layer);
        let [full1, full2] = self.full.each_ref().map(MaybeNormed::layer);
        pass.replay(|pass, inputs| self.join(p, pass, inputs))?;
        let dy = full2.backward(p, pass, dy, gradients)?;
        let [dy, dskip] = full1.backward_parts(p, pass, dy, self.parts, gradients)?;
        pass.replay(|pass, [x]| self.skip(p, pass, &x))?;
        let dskip = skip2.backward(p, pass, dskip, gradients)?;
        // The result, the gradient of the network's input, is not needed.
        skip1.backward(p, pass, dskip, gradients)?;
        Ok(dy)
    }

    fn trace(&self, y: Flow, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let skip = trace.block(&[x], |trace| {
            let inner = self.skip[0].layer().trace(x, trace)?;
            self.skip[1].layer().trace(inner, trace)
        })?;
        trace.block_taking(&[y, skip], |trace| {
            let y = self.full[0].layer().trace_joined(&[y, skip], trace)?;
            self.full[1].layer().trace(y, trace)
        })
    }
}

/// Maps pyramid features, low-level features and the network's input to logits.
#[derive(Debug)]
pub(super) struct Decoder {
    join: Join,
    /// `None` in the bilinear decoder, which resizes its logits instead.
    deconv: Option<Deconv>,
    classify: Conv,
    periodic: bool,
}

impl Decoder {
    pub(super) fn new(
        parameters: &mut Parameters,
        config: &NetworkConfig,
        low_level: usize,
    ) -> Result<Self> {
        let doubles = config.name.doubles();
        let low_level = (low_level, usize::from(doubles));
        let join = Join::new(parameters, "decoder", config, low_level)?;
        let deconv = doubles
            .then(|| Deconv::new(parameters, config))
            .transpose()?;
        let (point, channels) = (ConvSpec::same(1), config.decoder_channels(256));
        let ends = (channels, config.classes);
        Ok(Self {
            join,
            deconv,
            classify: Conv::new(parameters, "decoder.classify", point, ends, true)?,
            periodic: config.periodic_longitude,
        })
    }

    /// The kernel of the layer that outputs the logits.
    pub(super) fn output(&self) -> ParameterId {
        self.classify.kernel()
    }

    /// The logits at the resolution of `x`.
    pub(super) fn forward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        inputs: [Tensor; 2],
        x: &Tensor,
    ) -> Result<Tensor> {
        let y = self.join.forward(p, pass, inputs)?;
        let Some(deconv) = &self.deconv else {
            let logits = self.classify.forward(p, pass, &y)?;
            let (_, h, w, _) = x.dims4()?;
            return resize(pass, &logits, (h, w), self.periodic);
        };
        let y = deconv.forward(p, pass, y, x)?;
        self.classify.forward(p, pass, &y)
    }

    /// Returns the gradients of the pyramid's features and of the low-level features.
    pub(super) fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        mut dlogits: Tensor,
        gradients: &mut Gradients,
    ) -> Result<(Tensor, Tensor)> {
        if self.deconv.is_none() {
            dlogits = resize_backward(pass, &dlogits, self.periodic)?;
        }
        let mut dy = self.classify.backward(p, pass, dlogits, gradients)?;
        if let Some(deconv) = &self.deconv {
            dy = deconv.backward(p, pass, dy, gradients)?;
        }
        self.join.backward(p, pass, dy, gradients)
    }

    pub(super) fn trace(&self, deep: Flow, low: Flow, x: Flow, trace: &mut Trace) -> Result<()> {
        let mut y = self.join.trace(deep, low, trace)?;
        trace.begin_strips();
        if let Some(deconv) = &self.deconv {
            y = deconv.trace(y, x, trace)?;
        }
        self.classify.trace(y, trace)?;
        Ok(())
    }
}
