//! Dense blocks: each layer reads the block's input and the outputs of all layers before it.

use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::resize::{dropout, dropout_backward};
use crate::layers::unit::MaybeNormed;
use crate::layers::{Joining, Style};
use crate::ops::ConvSpec;
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// A convolution, normalisation (or a bias instead), a ReLU, and dropout.
#[derive(Debug)]
pub(super) struct Step {
    kernel: MaybeNormed,
    dropout: f32,
}

/// Options common to all steps of one network.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub style: Style,
    pub dropout: f32,
    /// Channels that a layer of a dense block adds.
    pub growth: usize,
    /// Extent of the kernels of dense layers.
    pub kernel: usize,
}

impl Step {
    pub(super) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: ConvSpec,
        channels: (usize, usize),
        shared: Shared,
    ) -> Result<Self> {
        Ok(Self {
            kernel: MaybeNormed::new(parameters, name, spec, channels, shared.style)?,
            dropout: shared.dropout,
        })
    }

    /// The gradient before dropout, at the output of the convolution or unit.
    fn before_dropout(&self, pass: &mut Pass, dy: Tensor) -> Result<Tensor> {
        let dy = dropout_backward(pass, dy, self.dropout)?;
        match &self.kernel {
            MaybeNormed::Normed(_) => Ok(dy),
            MaybeNormed::Biased(_) => {
                let y = pass.pop_tensor()?;
                pass.backend.relu_backward(&dy, &y)
            }
        }
    }

    /// Adds only the parameter gradients, for the first layer of the network.
    pub(super) fn backward_parameters(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let dy = self.before_dropout(pass, dy)?;
        match &self.kernel {
            MaybeNormed::Normed(unit) => unit.backward_parameters(p, pass, dy, gradients),
            MaybeNormed::Biased(conv) => conv.backward_parameters(p, pass, &dy, gradients),
        }
    }
}

impl Joining for Step {
    fn forward_joined(&self, p: &Parameters, pass: &mut Pass, parts: &[Tensor]) -> Result<Tensor> {
        let y = match &self.kernel {
            MaybeNormed::Normed(unit) => unit.forward_joined(p, pass, parts)?,
            MaybeNormed::Biased(conv) => {
                let y = conv.forward_relu(p, pass, parts)?;
                pass.push_tensor(&y)?;
                y
            }
        };
        dropout(pass, y, self.dropout)
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
        (self.kernel.layer()).backward_joined(p, pass, dy, channels, gradients)
    }

    fn trace_joined(&self, parts: &[Flow], trace: &mut Trace) -> Result<Flow> {
        let y = self.kernel.layer().trace_joined(parts, trace)?;
        if let MaybeNormed::Biased(_) = self.kernel {
            trace.keep(y);
        }
        Ok(trace.dropout(y, self.dropout))
    }

    fn channels_in(&self) -> usize {
        self.kernel.layer().channels_in()
    }
}

/// Geometry of a dense block.
pub(super) struct DenseSpec {
    /// Channels of each input tensor.
    pub inputs: Vec<usize>,
    pub layers: usize,
    /// Whether the output is the input and the added tensors, or only the added ones.
    pub includes_input: bool,
}

/// A dense block. Layers read the block's input and earlier outputs in place, without concatenating them in memory.
#[derive(Debug)]
pub(super) struct Dense {
    steps: Vec<Step>,
    /// Channels of each input tensor.
    inputs: Vec<usize>,
    growth: usize,
    /// Whether the output is the input and the added tensors, or only the added ones.
    includes_input: bool,
}

impl Dense {
    pub(super) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: DenseSpec,
        shared: Shared,
    ) -> Result<Self> {
        let DenseSpec {
            inputs,
            layers,
            includes_input,
        } = spec;
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
            includes_input,
        })
    }

    /// Channels of each output tensor.
    pub(super) fn outputs(&self) -> Vec<usize> {
        let kept = self.inputs.iter().filter(|_| self.includes_input).copied();
        kept.chain(self.steps.iter().map(|_| self.growth)).collect()
    }

    pub(super) fn channels_out(&self) -> usize {
        self.outputs().iter().sum()
    }

    /// The output tensors: the unchanged input tensors, if they are included, and one tensor per layer.
    pub(super) fn forward<const N: usize>(
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
        if !self.includes_input {
            parts.drain(..N);
        }
        Ok(parts)
    }

    /// Maps the gradients of the output tensors to those of the input tensors.
    pub(super) fn backward<const N: usize>(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dparts: Vec<Tensor>,
        gradients: &mut Gradients,
    ) -> Result<[Tensor; N]> {
        pass.replay(|pass, inputs: [Tensor; N]| self.inside(p, pass, inputs))?;
        let mut dparts: Vec<Option<Tensor>> = dparts.into_iter().map(Some).collect();
        if !self.includes_input {
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

    pub(super) fn trace(&self, inputs: &[Flow], trace: &mut Trace) -> Result<Vec<Flow>> {
        trace.block(inputs, |trace| {
            let mut parts = inputs.to_vec();
            for step in &self.steps {
                parts.push(step.trace_joined(&parts, trace)?);
            }
            if !self.includes_input {
                parts.drain(..inputs.len());
            }
            Ok(parts)
        })
    }
}
