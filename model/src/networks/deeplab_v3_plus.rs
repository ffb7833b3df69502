//! DeepLabV3+: a residual encoder, an atrous pyramid, and a decoder that restores the resolution.
//!
//! # Source
//! 1810.01993 section V-B (16 channels, ResNet-50, output stride 8, full-resolution decoder); Chen et al. 2018
//! (arXiv:1802.02611).

use super::NetworkConfig;
use super::architecture::Architecture;
use super::decoder::Decoder;
use super::resnet::ResNet;
use super::strips::InStrips;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::aspp::{Aspp, Pooling};
use crate::layers::resize::{dropout, dropout_backward};
use crate::layers::{Layer, Style};
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;
use std::ops::Range;

/// Encoder and pyramid, shared with detectors.
#[derive(Debug)]
pub(super) struct Backbone {
    encoder: ResNet,
    pyramid: Aspp,
}

impl Backbone {
    pub(super) fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let style = Style::of(config);
        let encoder = ResNet::new(parameters, config)?;
        let channels = (encoder.channels_out, config.decoder_channels(256));
        let (rates, pooling) = (&config.atrous_rates, Pooling::of_deeplab(style.batch_norm));
        let pyramid = Aspp::new(parameters, "aspp", channels, rates, pooling, style)?;
        Ok(Self { encoder, pyramid })
    }

    pub(super) fn low_level_channels(&self) -> usize {
        self.encoder.low_level_channels
    }

    /// The pyramid's features at the output stride, and the encoder's low-level features.
    pub(super) fn forward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let (deep, low) = self.encoder.forward(parameters, pass, x)?;
        // Drops the encoder's output, the largest field here, as soon as it has been read; the tape keeps it if needed.
        let deep = self.pyramid.forward(parameters, pass, &{ deep })?;
        Ok((deep, low))
    }

    pub(super) fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        (ddeep, dlow): (Tensor, Tensor),
        gradients: &mut Gradients,
    ) -> Result<()> {
        let ddeep = self.pyramid.backward(parameters, pass, ddeep, gradients)?;
        (self.encoder).backward(parameters, pass, ddeep, dlow, gradients)
    }

    pub(super) fn trace(&self, x: Flow, trace: &mut Trace) -> Result<(Flow, Flow)> {
        let (deep, low) = self.encoder.trace(x, trace)?;
        Ok((self.pyramid.trace(deep, trace)?, low))
    }
}

/// Backbone and decoder.
#[derive(Debug)]
pub(super) struct DeepLabV3Plus {
    backbone: Backbone,
    decoder: Decoder,
    dropout: f32,
}

impl DeepLabV3Plus {
    pub(super) fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let backbone = Backbone::new(parameters, config)?;
        let decoder = Decoder::new(parameters, config, backbone.low_level_channels())?;
        Ok(Self {
            backbone,
            decoder,
            dropout: config.dropout,
        })
    }
}

impl Architecture for DeepLabV3Plus {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let (deep, low) = self.backbone.forward(parameters, pass, x)?;
        let deep = dropout(pass, deep, self.dropout)?;
        self.decoder.forward(parameters, pass, [deep, low], x)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dlogits: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let (ddeep, dlow) = (self.decoder).backward(parameters, pass, dlogits, gradients)?;
        let ddeep = dropout_backward(pass, ddeep, self.dropout)?;
        (self.backbone).backward(parameters, pass, (ddeep, dlow), gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()> {
        let (deep, low) = self.backbone.trace(x, trace)?;
        let deep = trace.dropout(deep, self.dropout);
        self.decoder.trace(deep, low, x, trace)
    }

    fn outputs(&self) -> Vec<ParameterId> {
        vec![self.decoder.output()]
    }

    fn in_strips(&self) -> Option<&dyn InStrips> {
        Some(self)
    }
}

impl InStrips for DeepLabV3Plus {
    fn before(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let (deep, low) = self.backbone.forward(p, pass, x)?;
        self.decoder.before(p, pass, [deep, low])
    }

    fn last(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        (before, x): (&Tensor, &Tensor),
        rows: Range<usize>,
    ) -> Result<Tensor> {
        self.decoder.last(p, pass, (before, x), rows)
    }
}
