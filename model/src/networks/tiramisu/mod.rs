//! Tiramisu: a fully convolutional DenseNet, in which every layer reads the outputs of all earlier layers of its block.
//!
//! # Source
//! 1810.01993 section V-B and ClimDeepLearn `tiramisu_model.py`, after Jégou et al. 2017 (arXiv:1611.09326): blocks of
//! 2, 2, 2, 4 and 5 layers that add 32 channels each, 5x5 kernels. The published count of 7,427,923 parameters includes
//! 279,312 of a transition after the last block whose output is unused. It is omitted here, which leaves 7,148,611.
//!
//! # Not done
//! Weights of TensorFlow's transposed convolutions cannot be used as they are: the alignment here is PyTorch's (an
//! output pixel of even index over each input pixel), and TensorFlow's is one pixel further. The reference applies
//! dropout to the logits as well; here it ends before them.

mod dense;

use super::NetworkConfig;
use super::architecture::Architecture;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::conv::Conv;
use crate::layers::upsample::Upsample;
use crate::layers::{Joining, Layer, Style};
use crate::ops::ConvSpec;
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;
use dense::{Dense, DenseSpec, Shared, Step};

/// A down path of dense blocks and downsampling, a bottom block, and an up path of upsampling and dense blocks.
#[derive(Debug)]
pub(super) struct Tiramisu {
    input: Step,
    down: Vec<(Dense, Step)>,
    bottom: Dense,
    up: Vec<(Upsample, Dense)>,
    classify: Conv,
}

impl Tiramisu {
    pub(super) fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let shared = Shared {
            style: Style::of(config),
            dropout: config.dropout,
            growth: config.encoder_channels(config.growth),
            kernel: config.kernel,
        };
        let ends = (config.inputs(), config.encoder_channels(48));
        let spec = ConvSpec::same(config.kernel);
        let input = Step::new(parameters, "input", spec, ends, shared)?;
        let (bottom, above) = config
            .blocks
            .split_last()
            .expect("checked: 2 blocks or more");
        let (mut down, mut channels) = (Vec::new(), ends.1);
        for (index, &layers) in above.iter().enumerate() {
            let name = format!("down{}", index + 1);
            let spec = DenseSpec {
                inputs: vec![channels],
                layers,
                includes_input: true,
            };
            let block = Dense::new(parameters, &name, spec, shared)?;
            channels = block.channels_out();
            let halve = ConvSpec::same(1).stride(2);
            let name = format!("{name}.halve");
            let same = (channels, channels);
            down.push((block, Step::new(parameters, &name, halve, same, shared)?));
        }
        let spec = DenseSpec {
            inputs: vec![channels],
            layers: *bottom,
            includes_input: false,
        };
        let bottom = Dense::new(parameters, "bottom", spec, shared)?;
        let (mut up, mut channels) = (Vec::<(Upsample, Dense)>::new(), bottom.channels_out());
        for (index, &layers) in above.iter().enumerate().rev() {
            let name = format!("up{}", index + 1);
            let (same, periodic) = ((channels, channels), shared.style.periodic);
            let double = format!("{name}.double");
            let double = Upsample::new(parameters, &double, periodic, same, true)?;
            let spec = DenseSpec {
                inputs: vec![channels, down[index].0.channels_out()],
                layers,
                includes_input: index == 0,
            };
            let block = Dense::new(parameters, &name, spec, shared)?;
            channels = block.channels_out();
            up.push((double, block));
        }
        let (point, ends) = (ConvSpec::same(1), (channels, config.classes));
        Ok(Self {
            input,
            down,
            bottom,
            up,
            classify: Conv::new(parameters, "classify", point, ends, true)?,
        })
    }
}

impl Architecture for Tiramisu {
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let mut y = self.input.forward(p, pass, x)?;
        let mut skips = Vec::with_capacity(self.down.len());
        for (block, halve) in &self.down {
            let parts = block.forward(p, pass, [y])?;
            // Concatenated once, for downsampling and for the skip connection.
            let skip = pass.backend.concat(&parts)?;
            y = halve.forward(p, pass, &skip)?;
            skips.push(skip);
        }
        let mut parts = self.bottom.forward(p, pass, [y])?;
        for ((double, block), skip) in self.up.iter().zip(skips.into_iter().rev()) {
            let (_, h, w, _) = skip.dims4()?;
            y = pass.backend.concat(&parts)?;
            drop(parts);
            y = double.forward(p, pass, &y, (h, w))?;
            parts = block.forward(p, pass, [y, skip])?;
        }
        self.classify.forward_joined(p, pass, &parts)
    }

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dlogits: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let channels = (self.up.last()).map_or(vec![], |(_, block)| block.outputs());
        let mut dparts = (self.classify).backward_joined(p, pass, dlogits, &channels, gradients)?;
        let mut dskips = Vec::with_capacity(self.up.len());
        for (index, (double, block)) in self.up.iter().enumerate().rev() {
            let [dy, dskip] = block.backward::<2>(p, pass, dparts, gradients)?;
            dskips.push(dskip);
            let dy = double.backward(p, pass, dy, gradients)?;
            let below = match index {
                0 => &self.bottom,
                _ => &self.up[index - 1].1,
            };
            dparts = pass.backend.split(&dy, &below.outputs())?;
        }
        let [mut dy] = self.bottom.backward::<1>(p, pass, dparts, gradients)?;
        for ((block, halve), dskip) in self.down.iter().zip(dskips).rev() {
            dy = halve.backward(p, pass, dy, gradients)?;
            dy = pass.backend.add(&dy, &dskip)?;
            let dparts = pass.backend.split(&dy, &block.outputs())?;
            [dy] = block.backward::<1>(p, pass, dparts, gradients)?;
        }
        self.input.backward_parameters(p, pass, dy, gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()> {
        let mut y = self.input.trace(x, trace)?;
        let mut skips = Vec::new();
        for (block, halve) in &self.down {
            let parts = block.trace(&[y], trace)?;
            let skip = trace.concat(&parts);
            y = halve.trace(skip, trace)?;
            skips.push(skip);
        }
        let mut parts = self.bottom.trace(&[y], trace)?;
        for ((double, block), skip) in self.up.iter().zip(skips.into_iter().rev()) {
            let [_, h, w, _] = skip.shape;
            y = trace.concat(&parts);
            y = double.trace(y, (h, w), trace);
            parts = block.trace(&[y, skip], trace)?;
        }
        self.classify.trace_joined(&parts, trace)?;
        Ok(())
    }

    fn outputs(&self) -> Vec<ParameterId> {
        vec![self.classify.kernel()]
    }
}
