//! The decoder of a cell detector, which reconstructs the input from the encoder's output, so that unlabelled fields
//! also train the encoder.
//!
//! The published decoder has no parameters of its own. It is what Theano returns for "the gradient of the layer": for
//! each layer, the slopes that the encoder's leaky ReLU had, then the transpose of the layer's kernel, without a bias.
//! The detector of the 15-petaflop runs has transposed convolutions of its own.

use super::SLOPE;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::resize::shape_of;
use crate::layers::timed_conv::TimedConv;
use crate::layers::upsample::Upsample;
use crate::networks::NetworkConfig;
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// A decoder from the code (the encoder's output) back to fields.
#[derive(Debug)]
pub(super) enum ReconstructionDecoder {
    /// The encoder's kernels, transposed, without parameters of its own.
    Tied,
    /// Separate kernels with biases, and a leaky ReLU after all but the last.
    Own(Vec<Upsample>),
}

/// Channels of the 15-petaflop network's transposed convolutions, except the last. They are not published, and are
/// chosen so that with the encoder of Racah et al. there are 79.18 million parameters, the published 302.1 MiB.
const OWN_CHANNELS: [usize; 4] = [640, 448, 384, 320];

impl ReconstructionDecoder {
    /// A decoder with separate kernels, for a code of `channels`.
    pub(super) fn own(
        parameters: &mut Parameters,
        config: &NetworkConfig,
        mut channels: usize,
    ) -> Result<Self> {
        let scaled = OWN_CHANNELS.map(|channels| config.encoder_channels(channels));
        let outputs = scaled.into_iter().chain([config.inputs()]);
        let mut layers = Vec::new();
        for (index, output) in outputs.enumerate() {
            let name = format!("decoder.layer{}", index + 1);
            let ends = (channels, output);
            let periodic = config.periodic_longitude;
            layers.push(Upsample::new(parameters, &name, periodic, ends, true)?);
            channels = output;
        }
        Ok(Self::Own(layers))
    }

    /// The kernel of the decoder's last layer if it has its own; a tied decoder ends with the encoder's first kernel.
    pub(super) fn output(&self) -> Option<ParameterId> {
        match self {
            Self::Tied => None,
            Self::Own(layers) => layers.last().map(Upsample::kernel),
        }
    }

    /// The reconstructed fields. `fields` holds the input and the output of every encoder layer; the last one is the
    /// code.
    pub(super) fn forward(
        &self,
        encoder: &[TimedConv],
        p: &Parameters,
        pass: &mut Pass,
        fields: &[Tensor],
    ) -> Result<Tensor> {
        let mut y = fields[encoder.len()].clone();
        match self {
            Self::Tied => {
                for (index, conv) in encoder.iter().enumerate().rev() {
                    let (x, output) = (&fields[index], &fields[index + 1]);
                    pass.push_tensor(output)?;
                    let g = pass.backend.leaky_relu_backward(&y, output, SLOPE)?;
                    y = conv.forward_transposed(p, pass, &g, shape_of(x)?)?;
                }
            }
            Self::Own(layers) => {
                // From the code, whose layer has no stride, back to the input: each output has the size of the
                // corresponding encoder input.
                let sizes = fields.iter().take(layers.len()).rev();
                for (index, (layer, like)) in layers.iter().zip(sizes).enumerate() {
                    let (_, h, w, _) = like.dims4()?;
                    y = layer.forward(p, pass, &y, (h, w))?;
                    if index + 1 < layers.len() {
                        y = pass.backend.leaky_relu(&y, SLOPE)?;
                        pass.push_tensor(&y)?;
                    }
                }
            }
        }
        Ok(y)
    }

    /// Returns the gradient of the code.
    pub(super) fn backward(
        &self,
        encoder: &[TimedConv],
        p: &Parameters,
        pass: &mut Pass,
        mut dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        match self {
            Self::Tied => {
                for conv in encoder {
                    let dg = conv.backward_transposed(p, pass, &dy, gradients)?;
                    let output = pass.pop_tensor()?;
                    dy = pass.backend.leaky_relu_backward(&dg, &output, SLOPE)?;
                }
            }
            Self::Own(layers) => {
                for (index, layer) in layers.iter().enumerate().rev() {
                    if index + 1 < layers.len() {
                        let y = pass.pop_tensor()?;
                        dy = pass.backend.leaky_relu_backward(&dy, &y, SLOPE)?;
                    }
                    dy = layer.backward(p, pass, dy, gradients)?;
                }
            }
        }
        Ok(dy)
    }

    /// Adds the costs of [`Self::forward`] to `trace`.
    pub(super) fn trace(&self, encoder: &[TimedConv], fields: &[Flow], trace: &mut Trace) {
        let mut y = fields[encoder.len()];
        match self {
            Self::Tied => {
                for (index, conv) in encoder.iter().enumerate().rev() {
                    let name = format!("decoder.layer{}", encoder.len() - index);
                    trace.keep(fields[index + 1]);
                    let g = trace.op(&[y], y.shape);
                    y = conv.trace_transposed(&name, g, fields[index], trace);
                }
            }
            Self::Own(layers) => {
                let sizes = fields.iter().take(layers.len()).rev();
                for (index, (layer, like)) in layers.iter().zip(sizes).enumerate() {
                    let [_, h, w, _] = like.shape;
                    y = layer.trace(y, (h, w), trace);
                    if index + 1 < layers.len() {
                        y = trace.op(&[y], y.shape);
                        trace.keep(y);
                    }
                }
            }
        }
    }
}
