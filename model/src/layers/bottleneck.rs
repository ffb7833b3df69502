//! The pre-activated bottleneck of ResNet v2.
//!
//! # Source
//! He et al. 2016 (arXiv:1603.05027), in the layout of TensorFlow slim's `resnet_v2`. The shortcut of a unit that keeps
//! its number of channels is the input itself, otherwise a 1x1 convolution of the pre-activation. The convolutions
//! whose outputs are summed have a bias and no normalisation. The SC18 runs replaced the normalisation by x / 2
//! (ClimDeepLearn `deeplab_model.py`). This also removed the pre-activation's ReLU, which slim requests as an option of
//! the normalisation.

use super::conv::Conv;
use super::norm::Norm;
use super::resize::MaxPool;
use super::unit::Unit;
use super::{Layer, Style};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::ConvSpec;
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

#[derive(Debug)]
enum Shortcut {
    Projection(Conv),
    Subsample(MaxPool),
    Identity,
}

/// Geometry of one unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BottleneckSpec {
    pub channels_in: usize,
    pub inner: usize,
    pub channels_out: usize,
    pub stride: usize,
    pub dilation: usize,
}

/// 1x1, 3x3 and 1x1 convolutions around a shortcut.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    preactivation: Norm,
    shortcut: Shortcut,
    reduce: Unit,
    spatial: Unit,
    expand: Conv,
}

impl Bottleneck {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        spec: BottleneckSpec,
        style: Style,
    ) -> Result<Self> {
        let at = |part: &str| format!("{name}.{part}");
        let (point, inner) = (ConvSpec::same(1), spec.inner);
        let preactivation =
            Norm::preactivation(parameters, &at("preact"), spec.channels_in, style)?;
        let shortcut = if spec.channels_in != spec.channels_out {
            let channels = (spec.channels_in, spec.channels_out);
            let conv = point.stride(spec.stride);
            Shortcut::Projection(Conv::new(
                parameters,
                &at("shortcut"),
                conv,
                channels,
                true,
            )?)
        } else if spec.stride > 1 {
            Shortcut::Subsample(MaxPool::subsample(spec.stride))
        } else {
            Shortcut::Identity
        };
        let spatial = ConvSpec::same(3)
            .dilation(spec.dilation)
            .stride(spec.stride);
        let (outer, conv1) = (spec.channels_in, at("conv1"));
        Ok(Self {
            preactivation,
            shortcut,
            reduce: Unit::new(parameters, &conv1, point, (outer, inner), style)?,
            spatial: Unit::new(parameters, &at("conv2"), spatial, (inner, inner), style)?,
            expand: Conv::new(
                parameters,
                &at("conv3"),
                point,
                (inner, spec.channels_out),
                true,
            )?,
        })
    }

    /// The output, and the reduced features inside the unit, which feed the decoder's skip.
    pub(crate) fn forward_tapped(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        pass.block([x.clone()], |pass, [x]| self.inside(parameters, pass, &x))
    }

    fn inside(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let active = self.preactivation.forward(parameters, pass, x)?;
        let shortcut = match &self.shortcut {
            Shortcut::Projection(conv) => conv.forward(parameters, pass, &active)?,
            Shortcut::Subsample(pool) => pool.forward(parameters, pass, x)?,
            Shortcut::Identity => x.clone(),
        };
        let reduced = self.reduce.forward(parameters, pass, &active)?;
        drop(active);
        let inner = self.spatial.forward(parameters, pass, &reduced)?;
        if pass.is_replaying() {
            self.expand.forward_unread(pass, &inner)?;
            return Ok((inner, reduced));
        }
        let y = (self.expand).forward_adding(parameters, pass, &inner, &shortcut)?;
        Ok((y, reduced))
    }

    /// The gradient of the input, given those of the output and of the reduced features.
    pub(crate) fn backward_tapped(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        dreduced: Option<Tensor>,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        pass.replay(|pass, [x]| self.inside(parameters, pass, &x))?;
        let dinner = (self.expand).backward(parameters, pass, dy.clone(), gradients)?;
        let mut through = self.spatial.backward(parameters, pass, dinner, gradients)?;
        if let Some(tapped) = dreduced {
            through = pass.backend.add(&through, &tapped)?;
        }
        let mut dactive = self.reduce.backward(parameters, pass, through, gradients)?;
        let direct = match &self.shortcut {
            Shortcut::Projection(conv) => {
                let projected = conv.backward(parameters, pass, dy, gradients)?;
                dactive = pass.backend.add(&dactive, &projected)?;
                None
            }
            Shortcut::Subsample(pool) => Some(pool.backward(parameters, pass, dy, gradients)?),
            Shortcut::Identity => Some(dy),
        };
        let dx = (self.preactivation).backward(parameters, pass, dactive, gradients)?;
        match direct {
            None => Ok(dx),
            Some(direct) => pass.backend.add(&dx, &direct),
        }
    }

    /// The shapes of the output and of the reduced features.
    pub(crate) fn trace_tapped(&self, x: Flow, trace: &mut Trace) -> Result<(Flow, Flow)> {
        trace.block(&[x], |trace| {
            let active = self.preactivation.trace(x, trace)?;
            let shortcut = match &self.shortcut {
                Shortcut::Projection(conv) => conv.trace(active, trace)?,
                Shortcut::Subsample(pool) => pool.trace(x, trace)?,
                Shortcut::Identity => x,
            };
            let reduced = self.reduce.trace(active, trace)?;
            let inner = self.spatial.trace(reduced, trace)?;
            trace.also_reads(shortcut);
            Ok((self.expand.trace(inner, trace)?, reduced))
        })
    }
}
