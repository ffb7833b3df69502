//! Atrous spatial pyramid pooling: one 1x1 convolution, several atrous 3x3 ones and the mean of the whole field,
//! concatenated.
//!
//! # Source
//! Chen et al. 2018 (arXiv:1802.02611), with the rates of 1810.01993 doubled for output stride 8.

use super::affine::Affine;
use super::conv::Conv;
use super::resize::{resize, resize_backward, shape_of};
use super::unit::Unit;
use super::{Layer, Style};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::ops::ConvSpec;
use crate::parameters::Parameters;
use crate::pass::{Pass, Saved};
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// The pyramid and the 1x1 convolution that mixes its branches.
#[derive(Debug)]
pub(crate) struct Aspp {
    branches: Vec<Unit>,
    pooled: ImagePooling,
    mix: Unit,
    channels: usize,
}

impl Aspp {
    pub(crate) fn new(
        parameters: &mut Parameters,
        name: &str,
        (channels_in, channels): (usize, usize),
        rates: &[usize],
        pooling: Pooling,
        style: Style,
    ) -> Result<Self> {
        let point = ("conv_1x1".to_string(), ConvSpec::same(1));
        let atrous = rates.iter().enumerate().map(|(i, &rate)| {
            let spec = ConvSpec::same(3).dilation(rate);
            (format!("conv_3x3_{}", i + 1), spec)
        });
        let branches = std::iter::once(point)
            .chain(atrous)
            .map(|(branch, spec)| {
                let name = format!("{name}.{branch}");
                Unit::new(parameters, &name, spec, (channels_in, channels), style)
            })
            .collect::<Result<Vec<_>>>()?;
        let pooled_name = format!("{name}.image_pooling");
        let ends = (channels_in, channels);
        let pooled = ImagePooling::new(parameters, &pooled_name, ends, pooling)?;
        let side_by_side = (branches.len() + 1) * channels;
        let mix_name = format!("{name}.mix");
        let point = ConvSpec::same(1);
        let mix = Unit::new(
            parameters,
            &mix_name,
            point,
            (side_by_side, channels),
            style,
        )?;
        Ok(Self {
            branches,
            pooled,
            mix,
            channels,
        })
    }

    fn inside(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let mut parts = Vec::with_capacity(self.branches.len() + 1);
        for branch in &self.branches {
            parts.push(branch.forward(parameters, pass, x)?);
        }
        parts.push(self.pooled.forward(parameters, pass, x)?);
        let all = pass.backend.concat(&parts)?;
        drop(parts);
        self.mix.forward(parameters, pass, &all)
    }
}

impl Layer for Aspp {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        pass.block([x.clone()], |pass, [x]| self.inside(parameters, pass, &x))
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        pass.replay(|pass, [x]| self.inside(parameters, pass, &x))?;
        let dall = self.mix.backward(parameters, pass, dy, gradients)?;
        let counts = vec![self.channels; self.branches.len() + 1];
        let mut parts = pass.backend.split(&dall, &counts)?;
        drop(dall);
        let pooled = parts.pop().expect("the pooled branch is always there");
        let mut dx = self.pooled.backward(parameters, pass, pooled, gradients)?;
        for (branch, part) in self.branches.iter().zip(parts).rev() {
            let through = branch.backward(parameters, pass, part, gradients)?;
            dx = pass.backend.add(&dx, &through)?;
        }
        Ok(dx)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        trace.block(&[x], |trace| {
            let mut parts = Vec::with_capacity(self.branches.len() + 1);
            for branch in &self.branches {
                parts.push(branch.trace(x, trace)?);
            }
            parts.push(self.pooled.trace(x, trace)?);
            let all = trace.concat(&parts);
            self.mix.trace(all, trace)
        })
    }
}

/// The replacement for batch normalisation in the pooled branch, where one value per sample is too few for batch
/// statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// A bias.
    Bias,
    /// A multiplication by one half, as throughout the SC18 runs.
    Half,
    /// A trainable scale and shift, as in MLPerf DeepCAM.
    Affine,
}

impl Pooling {
    /// The choice of DeepLabV3+, by whether its other layers have batch normalisation.
    pub(crate) fn of_deeplab(batch_norm: bool) -> Self {
        match batch_norm {
            true => Self::Bias,
            false => Self::Half,
        }
    }
}

/// The field's mean, passed through a 1x1 convolution and a ReLU, and broadcast to every pixel.
#[derive(Debug)]
struct ImagePooling {
    conv: Conv,
    after: Option<Affine>,
}

impl ImagePooling {
    fn new(
        parameters: &mut Parameters,
        name: &str,
        channels: (usize, usize),
        pooling: Pooling,
    ) -> Result<Self> {
        let bias = pooling == Pooling::Bias;
        let conv = Conv::new(parameters, name, ConvSpec::same(1), channels, bias)?;
        let after = match pooling {
            Pooling::Bias => None,
            Pooling::Half => Some(Affine::Half),
            Pooling::Affine => Some(Affine::trainable(parameters, name, channels.1)?),
        };
        Ok(Self { conv, after })
    }
}

impl Layer for ImagePooling {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        pass.push(Saved::Shape(shape_of(x)?));
        let mean = pass.backend.global_average_pool(x)?;
        let mut y = self.conv.forward(parameters, pass, &mean)?;
        if let Some(after) = &self.after {
            y = after.forward(parameters, pass, &y)?;
        }
        let y = pass.backend.relu(&y)?;
        pass.push_tensor(&y)?;
        let (_, h, w, _) = x.dims4()?;
        resize(pass, &y, (h, w), true)
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let mut dy = resize_backward(pass, &dy, true)?;
        let y = pass.pop_tensor()?;
        dy = pass.backend.relu_backward(&dy, &y)?;
        if let Some(after) = &self.after {
            dy = after.backward(parameters, pass, dy, gradients)?;
        }
        let dmean = self.conv.backward(parameters, pass, dy, gradients)?;
        let shape = pass.pop_shape();
        pass.backend.global_average_pool_backward(&dmean, shape)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        let [b, h, w, c] = x.shape;
        let mean = trace.op(&[x], [b, 1, 1, c]);
        let mut y = self.conv.trace(mean, trace)?;
        if let Some(after) = &self.after {
            y = after.trace(y, trace)?;
        }
        trace.keep(y);
        Ok(trace.op(&[y], [b, h, w, y.shape[3]]))
    }
}
