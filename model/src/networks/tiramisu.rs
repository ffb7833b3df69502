//! Tiramisu: a fully convolutional DenseNet, in which every layer sees what all layers of its block before it found.
//!
//! # Source
//! 1810.01993 section V-B and ClimDeepLearn `tiramisu_model.py`, after Jégou et al. 2017 (arXiv:1611.09326): blocks of
//! 2, 2, 2, 4 and 5 layers that add 32 channels each, 5x5 kernels. The published count of 7,427,923 parameters includes
//! 279,312 of a transition after the last block, whose result nothing reads; it is left out here, so there are
//! 7,148,611.
//!
//! # Not done
//! Transposed convolutions lie as PyTorch's do (an output pixel of even index over each input pixel), TensorFlow's one
//! pixel further: its weights would have to be turned round. The reference drops out logits too; here dropout ends
//! before them.

use super::NetworkConfig;
use super::architecture::Architecture;
use crate::error::Result;
use crate::layers::conv::{Conv, Upsample};
use crate::layers::unit::Unit;
use crate::layers::{Joining, JoiningParts, Style};
use crate::ops::ConvSpec;
use crate::parameters::{Gradients, Parameters};
use crate::pass::{Pass, Saved};
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// A convolution, normalisation or in its place a bias, a ReLU, dropout.
#[derive(Debug)]
struct Step {
    kernel: Kernel,
    dropout: f32,
}

#[derive(Debug)]
enum Kernel {
    Normed(Unit),
    Biased(Conv),
}

/// What the steps of one network share.
#[derive(Clone, Copy)]
struct Shared {
    style: Style,
    dropout: f32,
    growth: usize,
    kernel: usize,
}

impl Step {
    fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: ConvSpec,
        channels: (usize, usize),
        shared: Shared,
    ) -> Result<Self> {
        let style = shared.style;
        let kernel = if style.batch_norm {
            Kernel::Normed(Unit::new(parameters, name, spec, channels, style)?)
        } else {
            let spec = spec.periodic(style.periodic);
            Kernel::Biased(Conv::new(parameters, name, spec, channels, true)?)
        };
        Ok(Self {
            kernel,
            dropout: shared.dropout,
        })
    }

    /// The gradient at the output of the kernel's convolution or unit.
    fn before_dropout(&self, pass: &mut Pass, mut dy: Tensor) -> Result<Tensor> {
        if self.dropout > 0.0 {
            let key = pass.pop_key();
            dy = pass.backend.dropout(&dy, self.dropout, key)?;
        }
        match &self.kernel {
            Kernel::Normed(_) => Ok(dy),
            Kernel::Biased(_) => {
                let y = pass.pop_tensor()?;
                pass.backend.relu_backward(&dy, &y)
            }
        }
    }

    /// Adds the parameters' gradients only: for the first layer.
    fn backward_parameters(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let dy = self.before_dropout(pass, dy)?;
        match &self.kernel {
            Kernel::Normed(unit) => unit.backward_parameters(p, pass, dy, gradients),
            Kernel::Biased(conv) => conv
                .backward_parameters(p, pass, &dy, gradients)
                .map(|_| ()),
        }
    }
}

impl Joining for Step {
    fn forward_joined(&self, p: &Parameters, pass: &mut Pass, parts: &[Tensor]) -> Result<Tensor> {
        let mut y = match &self.kernel {
            Kernel::Normed(unit) => unit.forward_joined(p, pass, parts)?,
            Kernel::Biased(conv) => {
                let y = conv.forward_relu(p, pass, parts)?;
                pass.push_tensor(&y)?;
                y
            }
        };
        if self.dropout > 0.0 && pass.is_training() {
            let key = pass.next_key();
            y = pass.backend.dropout(&y, self.dropout, key)?;
            pass.push(Saved::Key(key));
        }
        Ok(y)
    }

    fn backward_joined(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        channels: &[usize],
        gradients: &mut Gradients,
    ) -> Result<Vec<Tensor>> {
        let dy = self.before_dropout(pass, dy)?;
        match &self.kernel {
            Kernel::Normed(unit) => unit.backward_joined(p, pass, dy, channels, gradients),
            Kernel::Biased(conv) => conv.backward_joined(p, pass, dy, channels, gradients),
        }
    }

    fn trace_joined(&self, parts: &[Flow], trace: &mut Trace) -> Result<Flow> {
        let y = match &self.kernel {
            Kernel::Normed(unit) => unit.trace_joined(parts, trace)?,
            Kernel::Biased(conv) => {
                let y = conv.trace_joined(parts, trace)?;
                trace.keep(y);
                y
            }
        };
        Ok(if self.dropout > 0.0 {
            trace.dropout(y)
        } else {
            y
        })
    }
}

/// Layers each of which reads the block's input and what all before it added, each where it lies.
#[derive(Debug)]
struct Dense {
    steps: Vec<Step>,
    /// Channels of the tensors that make the input.
    inputs: Vec<usize>,
    growth: usize,
    /// The output is the input and all that was added; else only what was added.
    whole: bool,
}

impl Dense {
    fn new(
        parameters: &mut Parameters,
        name: &str,
        (inputs, layers): (Vec<usize>, usize),
        whole: bool,
        shared: Shared,
    ) -> Result<Self> {
        let (growth, spec) = (shared.growth, ConvSpec::same(shared.kernel));
        let before: usize = inputs.iter().sum();
        let step = |layer: usize| {
            let channels = (before + layer * growth, growth);
            let name = format!("{name}.layer{}", layer + 1);
            Step::new(parameters, &name, spec, channels, shared)
        };
        Ok(Self {
            steps: (0..layers).map(step).collect::<Result<Vec<_>>>()?,
            inputs,
            growth,
            whole,
        })
    }

    /// Channels of the tensors that make the output.
    fn outputs(&self) -> Vec<usize> {
        let kept = self.inputs.iter().filter(|_| self.whole).copied();
        kept.chain(self.steps.iter().map(|_| self.growth)).collect()
    }

    fn channels_out(&self) -> usize {
        self.outputs().iter().sum()
    }

    /// The tensors that make the output: those of the input, as they are, and one of every layer.
    fn forward<const N: usize>(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        inputs: [Tensor; N],
    ) -> Result<Vec<Tensor>> {
        pass.block(inputs, |pass, inputs| self.inside(p, pass, inputs))
    }

    fn inside<const N: usize>(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        inputs: [Tensor; N],
    ) -> Result<Vec<Tensor>> {
        let mut parts = Vec::from(inputs);
        for step in &self.steps {
            let y = step.forward_joined(p, pass, &parts)?;
            parts.push(y);
        }
        if !self.whole {
            parts.drain(..N);
        }
        Ok(parts)
    }

    /// The gradients of the tensors that make the input, from those of the tensors that make the output.
    fn backward<const N: usize>(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dparts: Vec<Tensor>,
        gradients: &mut Gradients,
    ) -> Result<[Tensor; N]> {
        pass.replay(|pass, inputs: [Tensor; N]| self.inside(p, pass, inputs))?;
        let mut dparts: Vec<Option<Tensor>> = dparts.into_iter().map(Some).collect();
        if !self.whole {
            dparts.splice(..0, vec![None; N]);
        }
        let mut channels = self.inputs.clone();
        channels.resize(N + self.steps.len(), self.growth);
        for step in self.steps.iter().rev() {
            let dstep = dparts
                .pop()
                .flatten()
                .expect("every layer's output is read");
            channels.pop();
            let through = step.backward_joined(p, pass, dstep, &channels, gradients)?;
            for (dpart, through) in dparts.iter_mut().zip(through) {
                *dpart = Some(match dpart.take() {
                    Some(dpart) => pass.backend.add(&dpart, &through)?,
                    None => through,
                });
            }
        }
        let dinputs: Vec<Tensor> = dparts.into_iter().flatten().collect();
        Ok(dinputs.try_into().expect("every input is read"))
    }

    fn trace(&self, inputs: &[Flow], trace: &mut Trace) -> Result<Vec<Flow>> {
        trace.block(inputs, |trace| {
            let mut parts = inputs.to_vec();
            for step in &self.steps {
                parts.push(step.trace_joined(&parts, trace)?);
            }
            if !self.whole {
                parts.drain(..inputs.len());
            }
            Ok(parts)
        })
    }
}

/// A way down of dense blocks and halvings, a block at the bottom, a way up of doublings and dense blocks.
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
            style: Style {
                periodic: config.periodic_longitude,
                batch_norm: config.batch_norm,
            },
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
            let inputs = (vec![channels], layers);
            let block = Dense::new(parameters, &name, inputs, true, shared)?;
            channels = block.channels_out();
            let halve = ConvSpec::same(1).stride(2);
            let name = format!("{name}.halve");
            let same = (channels, channels);
            down.push((block, Step::new(parameters, &name, halve, same, shared)?));
        }
        let inputs = (vec![channels], *bottom);
        let bottom = Dense::new(parameters, "bottom", inputs, false, shared)?;
        let (mut up, mut channels) = (Vec::<(Upsample, Dense)>::new(), bottom.channels_out());
        for (index, &layers) in above.iter().enumerate().rev() {
            let name = format!("up{}", index + 1);
            let (same, periodic) = ((channels, channels), shared.style.periodic);
            let double = format!("{name}.double");
            let double = Upsample::new(parameters, &double, periodic, same, true)?;
            let inputs = vec![channels, down[index].0.channels_out()];
            let whole = index == 0;
            let block = Dense::new(parameters, &name, (inputs, layers), whole, shared)?;
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
        let mut y = (self.input).forward_joined(p, pass, std::slice::from_ref(x))?;
        let mut skips = Vec::with_capacity(self.down.len());
        for (block, halve) in &self.down {
            let parts = block.forward(p, pass, [y])?;
            // Once, for the halving and for the way up.
            let skip = pass.backend.concat(&parts.iter().collect::<Vec<_>>())?;
            y = halve.forward_joined(p, pass, std::slice::from_ref(&skip))?;
            skips.push(skip);
        }
        let mut parts = self.bottom.forward(p, pass, [y])?;
        for ((double, block), skip) in self.up.iter().zip(skips.into_iter().rev()) {
            let (_, h, w, _) = skip.dims4()?;
            y = pass.backend.concat(&parts.iter().collect::<Vec<_>>())?;
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
            let channels = [block.channels_out()];
            [dy] = halve.backward_parts(p, pass, dy, channels, gradients)?;
            dy = pass.backend.add(&dy, &dskip)?;
            let dparts = pass.backend.split(&dy, &block.outputs())?;
            [dy] = block.backward::<1>(p, pass, dparts, gradients)?;
        }
        self.input.backward_parameters(p, pass, dy, gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()> {
        let mut y = self.input.trace_joined(&[x], trace)?;
        let mut skips = Vec::new();
        for (block, halve) in &self.down {
            let parts = block.trace(&[y], trace)?;
            let skip = trace.concat(&parts);
            y = halve.trace_joined(&[skip], trace)?;
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
}
