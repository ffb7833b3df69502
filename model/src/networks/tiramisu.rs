//! Tiramisu: a fully convolutional DenseNet, in which every layer sees what all layers of its block before it found.
//!
//! # Source
//! 1810.01993 section V-B and ClimDeepLearn `tiramisu_model.py`, after Jégou et al. 2017 (arXiv:1611.09326): blocks of 2, 2,
//! 2, 4 and 5 layers that add 32 channels each, 5x5 kernels. The published count of 7,427,923 parameters includes 279,312
//! of a transition after the last block, whose result nothing reads; it is left out here, so there are 7,148,611.
//!
//! # Not done
//! Transposed convolutions lie as PyTorch's do (an output pixel of even index over each input pixel), TensorFlow's one
//! pixel further: its weights would have to be turned round. The reference drops out logits too; here dropout ends before
//! them.

use super::architecture::Architecture;
use super::config::NetworkConfig;
use crate::error::Result;
use crate::layers::conv::{Conv, Upsample};
use crate::layers::unit::Unit;
use crate::layers::{Layer, Style};
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

impl Layer for Step {
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let mut y = match &self.kernel {
            Kernel::Normed(unit) => unit.forward(p, pass, x)?,
            Kernel::Biased(conv) => {
                let y = conv.forward_relu(p, pass, x)?;
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

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let dy = self.before_dropout(pass, dy)?;
        match &self.kernel {
            Kernel::Normed(unit) => unit.backward(p, pass, dy, gradients),
            Kernel::Biased(conv) => conv.backward(p, pass, dy, gradients),
        }
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let y = match &self.kernel {
            Kernel::Normed(unit) => unit.trace(x, trace)?,
            Kernel::Biased(conv) => {
                let y = conv.trace(x, trace)?;
                trace.keep(y);
                y
            }
        };
        Ok(if self.dropout > 0.0 {
            trace.tensor(y.shape)
        } else {
            y
        })
    }
}

/// Layers each of which reads the block's input and what all before it added.
#[derive(Debug)]
struct Dense {
    steps: Vec<Step>,
    channels_in: usize,
    growth: usize,
    /// The output is the input and all that was added; else only what was added.
    whole: bool,
}

impl Dense {
    fn new(
        parameters: &mut Parameters,
        name: &str,
        (channels_in, layers): (usize, usize),
        whole: bool,
        shared: Shared,
    ) -> Result<Self> {
        let (growth, spec) = (shared.growth, ConvSpec::same(shared.kernel));
        let step = |layer: usize| {
            let channels = (channels_in + layer * growth, growth);
            let name = format!("{name}.layer{}", layer + 1);
            Step::new(parameters, &name, spec, channels, shared)
        };
        Ok(Self {
            steps: (0..layers).map(step).collect::<Result<Vec<_>>>()?,
            channels_in,
            growth,
            whole,
        })
    }

    fn channels_out(&self) -> usize {
        let kept = if self.whole { self.channels_in } else { 0 };
        kept + self.steps.len() * self.growth
    }
}

impl Dense {
    fn inside(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let (mut joined, mut added) = (x.clone(), Vec::with_capacity(self.steps.len()));
        for (index, step) in self.steps.iter().enumerate() {
            let y = step.forward(p, pass, &joined)?;
            if self.whole || index + 1 < self.steps.len() {
                joined = pass.backend.concat(&[&joined, &y])?;
            }
            added.push(y);
        }
        if self.whole {
            return Ok(joined);
        }
        pass.backend.concat(&added.iter().collect::<Vec<_>>())
    }
}

impl Layer for Dense {
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        pass.block([x.clone()], |pass, [x]| self.inside(p, pass, &x))
    }

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        pass.replay(|pass, [x]| self.inside(p, pass, &x))?;
        let mut djoined = if self.whole {
            dy
        } else {
            let (b, h, w, _) = dy.dims4()?;
            let nothing = pass
                .backend
                .zeros([b, h, w, self.channels_in], dy.dtype())?;
            pass.backend.concat(&[&nothing, &dy])?
        };
        for (index, step) in self.steps.iter().enumerate().rev() {
            let before = self.channels_in + index * self.growth;
            let mut parts = pass.backend.split(&djoined, &[before, self.growth])?;
            drop(djoined);
            let dstep = parts.pop().expect("two parts");
            let through = step.backward(p, pass, dstep, gradients)?;
            djoined = pass
                .backend
                .add(&parts.pop().expect("two parts"), &through)?;
        }
        Ok(djoined)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        trace.block(&[x], |trace| {
            let (mut joined, mut added) = (x, Vec::with_capacity(self.steps.len()));
            for step in &self.steps {
                let y = step.trace(joined, trace)?;
                joined = trace.concat(&[joined, y]);
                added.push(y);
            }
            Ok(if self.whole {
                joined
            } else {
                trace.concat(&added)
            })
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
            let block = Dense::new(parameters, &name, (channels, layers), true, shared)?;
            channels = block.channels_out();
            let halve = ConvSpec::same(1).stride(2);
            let name = format!("{name}.halve");
            let same = (channels, channels);
            down.push((block, Step::new(parameters, &name, halve, same, shared)?));
        }
        let bottom = Dense::new(parameters, "bottom", (channels, *bottom), false, shared)?;
        let (mut up, mut channels) = (Vec::<(Upsample, Dense)>::new(), bottom.channels_out());
        for (index, &layers) in above.iter().enumerate().rev() {
            let name = format!("up{}", index + 1);
            let (same, periodic) = ((channels, channels), shared.style.periodic);
            let double = format!("{name}.double");
            let double = Upsample::new(parameters, &double, periodic, same, true)?;
            let joined = channels + down[index].0.channels_out();
            let block = Dense::new(parameters, &name, (joined, layers), index == 0, shared)?;
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
            let skip = block.forward(p, pass, &y)?;
            y = halve.forward(p, pass, &skip)?;
            skips.push(skip);
        }
        y = self.bottom.forward(p, pass, &y)?;
        for ((double, block), skip) in self.up.iter().zip(skips.into_iter().rev()) {
            let (_, h, w, _) = skip.dims4()?;
            y = double.forward(p, pass, &y, (h, w))?;
            let joined = pass.backend.concat(&[&y, &skip])?;
            drop(skip);
            y = block.forward(p, pass, &joined)?;
        }
        self.classify.forward(p, pass, &y)
    }

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dlogits: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let mut dy = self.classify.backward(p, pass, dlogits, gradients)?;
        let mut dskips = Vec::with_capacity(self.up.len());
        for ((double, block), (beside, _)) in self.up.iter().rev().zip(&self.down) {
            dy = block.backward(p, pass, dy, gradients)?;
            let skipped = beside.channels_out();
            let counts = [block.channels_in - skipped, skipped];
            let mut parts = pass.backend.split(&dy, &counts)?;
            dskips.extend(parts.pop());
            dy = parts.pop().expect("two parts");
            dy = double.backward(p, pass, dy, gradients)?;
        }
        dy = self.bottom.backward(p, pass, dy, gradients)?;
        for ((block, halve), dskip) in self.down.iter().zip(dskips).rev() {
            dy = halve.backward(p, pass, dy, gradients)?;
            dy = pass.backend.add(&dy, &dskip)?;
            dy = block.backward(p, pass, dy, gradients)?;
        }
        self.input.backward_parameters(p, pass, dy, gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()> {
        let mut y = self.input.trace(x, trace)?;
        let mut skips = Vec::new();
        for (block, halve) in &self.down {
            let skip = block.trace(y, trace)?;
            y = halve.trace(skip, trace)?;
            skips.push(skip);
        }
        y = self.bottom.trace(y, trace)?;
        for ((double, block), skip) in self.up.iter().zip(skips.into_iter().rev()) {
            let [_, h, w, _] = skip.shape;
            y = double.trace(y, (h, w), trace);
            let joined = trace.concat(&[y, skip]);
            y = block.trace(joined, trace)?;
        }
        self.classify.trace(y, trace)?;
        Ok(())
    }
}
