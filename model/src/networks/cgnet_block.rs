//! The parts of CGNet: a convolution with its activation, and the context-guided block.
//!
//! # Source
//! ClimateNet `climatenet/modules.py`; Wu et al. 2018 (arXiv:1811.08201).

use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::conv::Conv;
use crate::layers::gate::ChannelGate;
use crate::layers::prelu::NormPrelu;
use crate::layers::separable::Depthwise;
use crate::layers::wrapped::{Padding, Wrapped};
use crate::layers::{Layer, split};
use crate::ops::ConvSpec;
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// The ε that normalisations add to the variance.
pub(crate) const EPS: f32 = 1e-3;

/// A convolution without bias, batch normalisation, a parametric ReLU.
#[derive(Debug)]
pub(super) struct ConvNormPrelu {
    conv: Wrapped<Conv>,
    act: NormPrelu,
}

impl ConvNormPrelu {
    pub(super) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: ConvSpec,
        channels: (usize, usize),
        padding: Padding,
    ) -> Result<Self> {
        let (spec, margin) = padding.apply(spec);
        let layer = Conv::new(parameters, name, spec, channels, false)?;
        Ok(Self {
            conv: Wrapped { layer, margin },
            act: NormPrelu::new(parameters, name, channels.1, EPS)?,
        })
    }
}

impl Layer for ConvNormPrelu {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let wide = self.conv.widen(pass, x)?;
        (self.act).forward_after(&self.conv.layer, parameters, pass, &wide)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let dy = self.act.backward(parameters, pass, dy, gradients)?;
        self.conv.backward(parameters, pass, dy, gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let y = self.conv.trace(x, trace)?;
        Ok(self.act.trace_folded(y, trace))
    }
}

/// Geometry of a context-guided block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockSpec {
    pub channels_in: usize,
    pub channels_out: usize,
    /// Dilation of the kernels that see the surrounding context.
    pub dilation: usize,
    /// How many times fewer channels there are inside the gate.
    pub reduction: usize,
    pub padding: Padding,
}

/// The context-guided block: a plain and a dilated depthwise convolution of a pixel's surroundings, concatenated, then
/// weighted per channel by a function of the field's mean.
#[derive(Debug)]
pub(super) struct ContextGuided {
    enter: ConvNormPrelu,
    local: Wrapped<Depthwise>,
    surround: Wrapped<Depthwise>,
    joint: NormPrelu,
    /// A 1x1 convolution to the block's channels, in a downsampling block.
    reduce: Option<Conv>,
    gate: ChannelGate,
    inner: usize,
}

impl ContextGuided {
    /// A block that halves the field, or one that keeps it and adds its input to what it found.
    pub(super) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: BlockSpec,
        halves: bool,
    ) -> Result<Self> {
        let at = |part: &str| format!("{name}.{part}");
        let BlockSpec {
            channels_in,
            channels_out,
            padding,
            ..
        } = spec;
        let (enter, inner) = if halves {
            (ConvSpec::same(3).stride(2), channels_out)
        } else {
            (ConvSpec::same(1), channels_out / 2)
        };
        let ends = (channels_in, inner);
        let enter = ConvNormPrelu::new(parameters, &at("enter"), enter, ends, padding)?;
        let mut depthwise = |part: &str, dilation: usize| {
            let (spec, margin) = padding.apply(ConvSpec::same(3).dilation(dilation));
            let layer = Depthwise::new(parameters, &at(part), spec, inner)?;
            Result::Ok(Wrapped { layer, margin })
        };
        let local = depthwise("local", 1)?;
        let surround = depthwise("surround", spec.dilation)?;
        let joint = NormPrelu::new(parameters, &at("joint"), 2 * inner, EPS)?;
        let (reduce, ends) = (at("reduce"), (2 * inner, channels_out));
        let point = ConvSpec::same(1);
        let reduce = halves
            .then(|| Conv::new(parameters, &reduce, point, ends, false))
            .transpose()?;
        let gate = ChannelGate::new(parameters, &at("gate"), channels_out, spec.reduction)?;
        Ok(Self {
            enter,
            local,
            surround,
            joint,
            reduce,
            gate,
            inner,
        })
    }

    fn inside(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let inner = self.enter.forward(p, pass, x)?;
        let local = self.local.forward(p, pass, &inner)?;
        let surround = self.surround.forward(p, pass, &inner)?;
        drop(inner);
        let joined = pass.backend.concat(&[&local, &surround])?;
        drop((local, surround));
        let mut y = self.joint.forward(p, pass, &joined)?;
        drop(joined);
        if let Some(reduce) = &self.reduce {
            y = reduce.forward(p, pass, &y)?;
            return self.gate.forward(p, pass, &y);
        }
        y = self.gate.forward(p, pass, &y)?;
        pass.backend.add(x, &y)
    }
}

impl Layer for ContextGuided {
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
        let mut through = self.gate.backward(p, pass, dy.clone(), gradients)?;
        if let Some(reduce) = &self.reduce {
            through = reduce.backward(p, pass, through, gradients)?;
        }
        through = self.joint.backward(p, pass, through, gradients)?;
        let [dlocal, dsurround] = split(pass, &through, [self.inner, self.inner])?;
        let far = self.surround.backward(p, pass, dsurround, gradients)?;
        let near = self.local.backward(p, pass, dlocal, gradients)?;
        let dinner = pass.backend.add(&near, &far)?;
        let dx = self.enter.backward(p, pass, dinner, gradients)?;
        match self.reduce {
            Some(_) => Ok(dx),
            None => pass.backend.add(&dx, &dy),
        }
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        trace.block(&[x], |trace| {
            let inner = self.enter.trace(x, trace)?;
            let near = self.local.trace(inner, trace)?;
            let far = self.surround.trace(inner, trace)?;
            let joined = trace.concat(&[near, far]);
            let mut y = self.joint.trace(joined, trace)?;
            if let Some(reduce) = &self.reduce {
                y = reduce.trace(y, trace)?;
            }
            y = self.gate.trace(y, trace)?;
            Ok(match self.reduce {
                Some(_) => y,
                None => trace.op(&[x, y], y.shape),
            })
        })
    }
}
