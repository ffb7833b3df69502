//! The modified Xception of MLPerf DeepCAM: the encoder, at a sixteenth of the input.
//!
//! # Source
//! mlcommons/hpc `deepcam/src/deepCam/architecture/deeplab_xception.py`; Chollet 2017 (arXiv:1610.02357) as modified by
//! Chen et al. 2018 (arXiv:1802.02611).

use super::NetworkConfig;
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::batch_norm::{BatchNorm, EPS};
use crate::layers::conv::Conv;
use crate::layers::separable::{Separable, SeparableUnit};
use crate::layers::unit::Unit;
use crate::layers::{Layer, Style};
use crate::ops::ConvSpec;
use crate::ops::norm::After;
use crate::parameters::Parameters;
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// The shortcut from a block's input to its output.
#[derive(Debug)]
enum Shortcut {
    /// The input itself, added after the last normalisation.
    Identity,
    /// A further separable convolution, without normalisation, to which the normalised 1x1 convolution of the input is
    /// added.
    Projection(Box<Projection>),
}

#[derive(Debug)]
struct Projection {
    last: Separable,
    conv: Conv,
    norm: BatchNorm,
}

/// Separable units around a shortcut, with a ReLU between units but not after the last.
#[derive(Debug)]
struct Block {
    units: Vec<SeparableUnit>,
    shortcut: Shortcut,
    /// Whether a ReLU follows the sum.
    relu: bool,
}

/// Geometry of one block.
pub(crate) struct BlockSpec {
    pub name: String,
    /// Channels before the first unit and after each unit.
    pub channels: Vec<usize>,
    /// The stride of the shortcut's 1x1 convolution and of the last separable one; `None` for an identity shortcut.
    pub stride: Option<usize>,
    pub relu: bool,
}

/// The blocks of the encoder in order: three downsampling blocks, the middle blocks, the exit block.
pub(crate) fn plan(config: &NetworkConfig) -> Vec<BlockSpec> {
    let mut blocks = Vec::new();
    let mut add = |channels: &[usize], stride: Option<usize>, relu: bool| {
        let name = format!("encoder.block{}", blocks.len() + 1);
        let channels = channels.iter().map(|&c| config.encoder_channels(c));
        blocks.push(BlockSpec {
            name,
            channels: channels.collect(),
            stride,
            relu,
        });
    };
    add(&[64, 128, 128], Some(2), true);
    add(&[128, 256, 256], Some(2), true);
    add(&[256, 728, 728], Some(2), true);
    (0..config.blocks[0]).for_each(|_| add(&[728; 4], None, true));
    // The exit block widens in its second unit, and no ReLU follows it.
    add(&[728, 728, 1024], Some(1), false);
    blocks
}

impl Block {
    fn new(parameters: &mut Parameters, spec: &BlockSpec, periodic: bool) -> Result<Self> {
        let BlockSpec { name, channels, .. } = spec;
        let kernel = ConvSpec::same(3).periodic(periodic);
        let units = channels
            .windows(2)
            .enumerate()
            .map(|(index, ends)| {
                let name = format!("{name}.sep{}", index + 1);
                SeparableUnit::new(parameters, &name, kernel, (ends[0], ends[1]), EPS)
            })
            .collect::<Result<Vec<_>>>()?;
        let (first, out) = (channels[0], channels[channels.len() - 1]);
        let shortcut = match spec.stride {
            None => Shortcut::Identity,
            Some(stride) => {
                let (last, skip) = (format!("{name}.last"), format!("{name}.skip"));
                let point = ConvSpec::same(1).stride(stride);
                let kernel = kernel.stride(stride);
                Shortcut::Projection(Box::new(Projection {
                    last: Separable::new(parameters, &last, kernel, (out, out))?,
                    conv: Conv::new(parameters, &skip, point, (first, out), false)?,
                    norm: BatchNorm::new(parameters, &format!("{skip}.norm"), out, EPS)?,
                }))
            }
        };
        Ok(Self {
            units,
            shortcut,
            relu: spec.relu,
        })
    }

    /// The operations that follow unit `index`.
    fn after(&self, index: usize) -> After {
        let is_last = index + 1 == self.units.len();
        let identity = matches!(self.shortcut, Shortcut::Identity);
        After {
            residual: is_last && identity,
            relu: !is_last || identity && self.relu,
        }
    }

    fn inside(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let mut y = x.clone();
        for (index, unit) in self.units.iter().enumerate() {
            let after = self.after(index);
            let residual = after.residual.then_some(x);
            y = unit.forward(parameters, pass, &y, residual, after.relu)?;
        }
        let Shortcut::Projection(projection) = &self.shortcut else {
            return Ok(y);
        };
        let Projection { last, conv, norm } = &**projection;
        let y = last.forward(parameters, pass, &y)?;
        norm.forward_after(conv, parameters, pass, x, (Some(&y), self.relu))
    }
}

impl Layer for Block {
    fn forward(&self, parameters: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        pass.block([x.clone()], |pass, [x]| self.inside(parameters, pass, &x))
    }

    fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        mut dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        pass.replay(|pass, [x]| self.inside(parameters, pass, &x))?;
        let mut direct = None;
        if let Shortcut::Projection(projection) = &self.shortcut {
            let Projection { last, conv, norm } = &**projection;
            let after = After {
                residual: true,
                relu: self.relu,
            };
            let (dskip, dlast) = norm.backward(parameters, pass, dy.clone(), after, gradients)?;
            direct = Some(conv.backward(parameters, pass, dskip, gradients)?);
            dy = last.backward(parameters, pass, dlast.unwrap_or(dy), gradients)?;
        }
        for (index, unit) in self.units.iter().enumerate().rev() {
            let (dx, dresidual) =
                unit.backward(parameters, pass, dy, self.after(index), gradients)?;
            dy = dx;
            direct = direct.or(dresidual);
        }
        match direct {
            None => Ok(dy),
            Some(direct) => pass.backend.add(&dy, &direct),
        }
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<Flow> {
        trace.block(&[x], |trace| {
            let mut y = x;
            for (index, unit) in self.units.iter().enumerate() {
                y = unit.trace(y, x, self.after(index), trace)?;
            }
            let Shortcut::Projection(projection) = &self.shortcut else {
                return Ok(y);
            };
            let last = projection.last.trace(y, trace)?;
            let skip = projection.conv.trace(x, trace)?;
            trace.also_reads(last);
            let after = After {
                residual: true,
                relu: self.relu,
            };
            let y = projection.norm.trace(skip, after, trace);
            trace.fused_in_inference(skip, y);
            Ok(y)
        })
    }
}

/// Two convolutions, three downsampling blocks, the middle blocks, the exit block, and three atrous units.
#[derive(Debug)]
pub(super) struct Xception {
    stem: [Unit; 2],
    blocks: Vec<Block>,
    exit: Vec<SeparableUnit>,
    pub(super) channels_out: usize,
    pub(super) low_level_channels: usize,
}

impl Xception {
    pub(super) fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let style = Style::of(config);
        let c = |channels: usize| config.encoder_channels(channels);
        let kernel = ConvSpec::same(3);
        let ends = (config.inputs(), c(32));
        let halve = kernel.stride(2);
        let stem = [
            Unit::new(parameters, "encoder.stem1", halve, ends, style)?,
            Unit::new(parameters, "encoder.stem2", kernel, (c(32), c(64)), style)?,
        ];
        let blocks = plan(config)
            .iter()
            .map(|spec| Block::new(parameters, spec, style.periodic))
            .collect::<Result<Vec<_>>>()?;
        let atrous = kernel.dilation(2).periodic(style.periodic);
        let exit = [c(1024), c(1536), c(1536), c(2048)]
            .windows(2)
            .enumerate()
            .map(|(index, ends)| {
                let name = format!("encoder.exit{}", index + 1);
                SeparableUnit::new(parameters, &name, atrous, (ends[0], ends[1]), EPS)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            stem,
            blocks,
            exit,
            channels_out: c(2048),
            low_level_channels: c(128),
        })
    }

    /// The features at a sixteenth of the input, and the low-level features at a quarter.
    ///
    /// The reference stores the first block's output as low-level features and then applies an in-place ReLU to it, so
    /// its decoder reads the values after the ReLU. This is reproduced here.
    pub(super) fn forward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let mut y = self.stem.forward(parameters, pass, x)?;
        let mut low = None;
        for block in &self.blocks {
            y = block.forward(parameters, pass, &y)?;
            low.get_or_insert_with(|| y.clone());
        }
        let y = pass.block([y], |pass, [y]| self.leave(parameters, pass, y))?;
        Ok((y, low.expect("an encoder has blocks")))
    }

    /// Runs the atrous units at the end.
    fn leave(&self, parameters: &Parameters, pass: &mut Pass, mut y: Tensor) -> Result<Tensor> {
        for unit in &self.exit {
            y = unit.forward(parameters, pass, &y, None, true)?;
        }
        Ok(y)
    }

    pub(super) fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        mut dy: Tensor,
        dlow: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        pass.replay(|pass, [y]| self.leave(parameters, pass, y))?;
        for unit in self.exit.iter().rev() {
            dy = unit
                .backward(parameters, pass, dy, After::RELU, gradients)?
                .0;
        }
        for (index, block) in self.blocks.iter().enumerate().rev() {
            if index == 0 {
                dy = pass.backend.add(&dy, dlow)?;
            }
            dy = block.backward(parameters, pass, dy, gradients)?;
        }
        dy = self.stem[1].backward(parameters, pass, dy, gradients)?;
        self.stem[0].backward_parameters(parameters, pass, dy, gradients)
    }

    pub(super) fn trace(&self, x: Flow, trace: &mut Trace) -> Result<(Flow, Flow)> {
        let mut y = self.stem.trace(x, trace)?;
        let mut low = None;
        for block in &self.blocks {
            y = block.trace(y, trace)?;
            low.get_or_insert(y);
        }
        y = trace.block(&[y], |trace| {
            let mut y = y;
            for unit in &self.exit {
                y = unit.trace(y, y, After::RELU, trace)?;
            }
            Ok(y)
        })?;
        Ok((y, low.unwrap_or(y)))
    }
}
