//! Detectors with one box per cell: a downsampling encoder, three heads on its normalised output, and a decoder that
//! reconstructs the input.
//!
//! # Source
//! Racah et al. 2017 (arXiv:1612.02095) and eracah/hur-detect `scripts/build_network.py`: 5x5 kernels of stride 2 with
//! 128, 256, 512, 768, 1024 and 1280 channels, leaky ReLUs of slope 0.1, biases; batch normalisation before 3x3 heads
//! (box, objectness, class); over time 3x5x5 kernels, and heads that output every second frame. 66.53 M, 16.68 M and
//! 50.02 M parameters. The code's layers over time fall back on their library's plain ReLU; here they are leaky as in
//! the paper.
//!
//! Kurth et al. 2017 (arXiv:1708.05256): nine convolutions and five transposed ones, with one parameter server for each
//! of these fourteen layers; 302.1 MiB of parameters. The layers themselves are not published. Assumed here: six 5x5
//! encoder layers as above, the last without a stride (cells of 32 pixels), three heads, five 3x3 transposed
//! convolutions, and no normalisation.

use super::reconstruction::ReconstructionDecoder;
use super::{Detector, SLOPE, to_f32};
use crate::detection::{CellLayout, DetectorGradient, DetectorOutput, Scheme};
use crate::error::{ModelError, Result};
use crate::gradients::Gradients;
use crate::layers::batch_norm::{BatchNorm, EPS};
use crate::layers::timed_conv::TimedConv;
use crate::layers::{Layer, split};
use crate::networks::NetworkConfig;
use crate::networks::NetworkName;
use crate::networks::architecture::Architecture;
use crate::ops::norm::After;
use crate::ops::{Conv3dSpec, ConvSpec};
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// Channels of the encoder's layers.
const CHANNELS: [usize; 6] = [128, 256, 512, 768, 1024, 1280];
/// Output channels of the box and objectness heads.
const BOX: usize = 4;
const OBJECTNESS: usize = 2;

/// Encoder, heads, decoder.
#[derive(Debug)]
pub(in crate::networks) struct CellDetector {
    name: NetworkName,
    encoder: Vec<TimedConv>,
    norm: Option<BatchNorm>,
    /// The heads of boxes, objectness and classes.
    heads: [TimedConv; 3],
    decoder: ReconstructionDecoder,
    /// Its field extents are placeholders until a forward pass.
    layout: CellLayout,
}

impl CellDetector {
    pub(in crate::networks) fn new(
        parameters: &mut Parameters,
        config: &NetworkConfig,
    ) -> Result<Self> {
        let own_decoder = config.name.has_own_decoder();
        let halvings = config.blocks[0] - usize::from(own_decoder);
        let (time, frames) = match config.name.is_over_time() {
            true => (3, config.time_steps),
            false => (1, 1),
        };
        let halved = config.name.is_halved();
        let mut encoder = Vec::new();
        let mut channels = config.inputs();
        let outputs = CHANNELS.map(|c| config.encoder_channels(if halved { c / 2 } else { c }));
        for (index, &output) in outputs.iter().take(config.blocks[0]).enumerate() {
            let stride = if index < halvings { 2 } else { 1 };
            let plane = ConvSpec::same(config.kernel).stride(stride);
            let spec = Conv3dSpec::same_time(plane.periodic(config.periodic_longitude), time);
            let name = format!("encoder.layer{}", index + 1);
            let ends = (channels, output);
            encoder.push(TimedConv::new(parameters, &name, (spec, frames), ends)?);
            channels = output;
        }
        let norm = (!own_decoder).then(|| BatchNorm::new(parameters, "code.norm", channels, EPS));
        let plane = ConvSpec::same(3).periodic(config.periodic_longitude);
        let spec = Conv3dSpec::same_time(plane, time).stride_t(if time > 1 { 2 } else { 1 });
        let mut head = |name: &str, values: usize| {
            let name = format!("heads.{name}");
            TimedConv::new(parameters, &name, (spec, frames), (channels, values))
        };
        let heads = [
            head("box", BOX)?,
            head("objectness", OBJECTNESS)?,
            head("class", config.classes)?,
        ];
        let decoder = match own_decoder {
            true => ReconstructionDecoder::own(parameters, config, channels)?,
            false => ReconstructionDecoder::Tied,
        };
        Ok(Self {
            name: config.name,
            encoder,
            norm: norm.transpose()?,
            heads,
            decoder,
            layout: CellLayout {
                scheme: Scheme::Cells,
                classes: config.classes,
                cell_px: 1 << halvings,
                field: (0, 0),
                periodic: config.periodic_longitude,
                box_relu: config.box_relu,
            },
        })
    }

    /// The outputs of the heads for a code, concatenated.
    fn heads(&self, p: &Parameters, pass: &mut Pass, code: &Tensor) -> Result<Tensor> {
        let normed = match &self.norm {
            Some(norm) => &norm.forward(p, pass, code, None, false)?,
            None => code,
        };
        let mut parts = Vec::with_capacity(self.heads.len());
        for head in &self.heads {
            parts.push(head.forward(p, pass, normed)?);
        }
        to_f32(pass.backend, &pass.backend.concat(&parts)?)
    }

    /// The gradient of the code, from that of the heads' outputs.
    fn heads_backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dheads: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let counts = [BOX, OBJECTNESS, self.layout.classes];
        let [dbox, dobjectness, dclass] = split(pass, dheads, counts)?;
        let [head_box, objectness, class] = &self.heads;
        // The tape is a stack, so the head that ran last comes first.
        let mut dcode = class.backward(p, pass, dclass, gradients)?;
        for (head, dhead) in [(objectness, dobjectness), (head_box, dbox)] {
            let through = head.backward(p, pass, dhead, gradients)?;
            dcode = pass.backend.add(&dcode, &through)?;
        }
        match &self.norm {
            Some(norm) => Ok(norm.backward(p, pass, dcode, After::NOTHING, gradients)?.0),
            None => Ok(dcode),
        }
    }
}

impl Detector for CellDetector {
    fn detect(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        reconstruct: bool,
    ) -> Result<DetectorOutput> {
        let (_, h, w, _) = x.dims4()?;
        let (mut y, mut fields) = (x.clone(), Vec::new());
        for conv in &self.encoder {
            let linear = conv.forward(p, pass, &y)?;
            let output = pass.backend.leaky_relu(&linear, SLOPE)?;
            pass.push_tensor(&output)?;
            let x = std::mem::replace(&mut y, output);
            if reconstruct {
                fields.push(x);
            }
        }
        let heads = self.heads(p, pass, &y)?;
        let mut reconstruction = None;
        if reconstruct {
            fields.push(y);
            let made = self.decoder.forward(&self.encoder, p, pass, &fields)?;
            reconstruction = Some(to_f32(pass.backend, &made)?);
        }
        Ok(DetectorOutput {
            heads,
            reconstruction,
            segmentation: None,
            layout: CellLayout {
                field: (h, w),
                ..self.layout
            },
            backend: pass.backend,
        })
    }

    fn backward_detection(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        gradient: DetectorGradient,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let dcode = match gradient.reconstruction {
            Some(dy) => Some((self.decoder).backward(&self.encoder, p, pass, dy, gradients)?),
            None => None,
        };
        let mut dy = self.heads_backward(p, pass, &gradient.heads, gradients)?;
        if let Some(dcode) = dcode {
            dy = pass.backend.add(&dy, &dcode)?;
        }
        for (index, conv) in self.encoder.iter().enumerate().rev() {
            let y = pass.pop_tensor()?;
            dy = pass.backend.leaky_relu_backward(&dy, &y, SLOPE)?;
            drop(y);
            if index > 0 {
                dy = conv.backward(p, pass, dy, gradients)?;
            } else {
                conv.backward_parameters(p, pass, &dy, gradients)?;
            }
        }
        Ok(())
    }
}

impl Architecture for CellDetector {
    fn forward(&self, _: &Parameters, _: &mut Pass, _: &Tensor) -> Result<Tensor> {
        Err(self.no_masks())
    }

    fn backward(&self, _: &Parameters, _: &mut Pass, _: Tensor, _: &mut Gradients) -> Result<()> {
        Err(self.no_masks())
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()> {
        let mut fields = vec![x];
        for conv in &self.encoder {
            let linear = conv.trace(fields[fields.len() - 1], trace)?;
            let y = trace.op(&[linear], linear.shape);
            trace.keep(y);
            fields.push(y);
        }
        let code = fields[fields.len() - 1];
        let normed = match &self.norm {
            Some(norm) => norm.trace(code, After::NOTHING, trace),
            None => code,
        };
        for head in &self.heads {
            head.trace(normed, trace)?;
        }
        trace.training_only(|trace| self.decoder.trace(&self.encoder, &fields, trace));
        Ok(())
    }

    fn outputs(&self) -> Vec<ParameterId> {
        let heads = self.heads.iter().map(TimedConv::kernel);
        heads.chain(self.decoder.output()).collect()
    }

    fn detector(&self) -> Option<&dyn Detector> {
        Some(self)
    }
}

impl CellDetector {
    fn no_masks(&self) -> ModelError {
        ModelError::Task {
            network: self.name.as_str().to_string(),
            gives: "boxes",
            asked: "the class of every pixel",
        }
    }
}
