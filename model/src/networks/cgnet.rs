//! CGNet, ClimateNet's small network: its context-guided blocks combine a pixel's neighbours, a wider surrounding and
//! the whole field.
//!
//! # Paddings
//! ClimateNet wraps rows from pole to pole as it wraps columns. Here longitude wraps and latitude does not, also in the
//! final upsampling. `periodic_latitude` reproduces ClimateNet's paddings exactly, for its weights ([`crate::exchange`]
//! maps their names). The average pooling of the input ignores cells beyond the poles.
//!
//! # Source
//! ClimateNet `climatenet/models.py`, `climatenet/modules.py` (andregraubner/ClimateNet): 494,232 parameters for 4
//! channels and 3 classes; Wu et al. 2018 (arXiv:1811.08201).
//!
//! # Not done
//! The reference's optional dropout of whole channels, which ClimateNet does not use.

use super::NetworkConfig;
use super::architecture::Architecture;
use super::cgnet_block::{BlockSpec, ContextGuided, ConvNormPrelu, EPS};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::conv::Conv;
use crate::layers::prelu::NormPrelu;
use crate::layers::resize::{resize, resize_backward};
use crate::layers::wrapped::Padding;
use crate::layers::{Layer, split};
use crate::ops::{ConvSpec, PoolSpec};
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// A downsampling block and the blocks after it.
#[derive(Debug)]
struct Stage {
    halve: ContextGuided,
    blocks: Vec<ContextGuided>,
    channels: usize,
}

impl Stage {
    fn new(parameters: &mut Parameters, name: &str, spec: BlockSpec, count: usize) -> Result<Self> {
        let halve = ContextGuided::new(parameters, &format!("{name}.halve"), spec, true)?;
        let same = BlockSpec {
            channels_in: spec.channels_out,
            ..spec
        };
        let block = |index: usize| {
            let name = format!("{name}.block{index}");
            ContextGuided::new(parameters, &name, same, false)
        };
        Ok(Self {
            halve,
            blocks: (1..count).map(block).collect::<Result<Vec<_>>>()?,
            channels: spec.channels_out,
        })
    }

    /// The outputs of the downsampling block and of the last block.
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let first = self.halve.forward(p, pass, x)?;
        let last = self.blocks.forward(p, pass, &first)?;
        Ok((first, last))
    }

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        (dfirst, dlast): (Tensor, Tensor),
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let mut dy = self.blocks.backward(p, pass, dlast, gradients)?;
        dy = pass.backend.add(&dy, &dfirst)?;
        drop(dfirst);
        self.halve.backward(p, pass, dy, gradients)
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<(Flow, Flow)> {
        let first = self.halve.trace(x, trace)?;
        Ok((first, self.blocks.trace(first, trace)?))
    }
}

/// Three convolutions at half the resolution, a stage at a quarter, a stage at an eighth, and logits upsampled
/// eightfold.
#[derive(Debug)]
pub(super) struct CgNet {
    /// The convolutions at half the resolution.
    stem: Vec<ConvNormPrelu>,
    join1: NormPrelu,
    stage2: Stage,
    join2: NormPrelu,
    stage3: Stage,
    join3: NormPrelu,
    classify: Conv,
    padding: Padding,
    inputs: usize,
    stem_channels: usize,
}

impl CgNet {
    pub(super) fn new(parameters: &mut Parameters, config: &NetworkConfig) -> Result<Self> {
        let padding = Padding::of(config);
        let [c1, c2, c3] = [32, 64, 128].map(|channels| config.encoder_channels(channels));
        let inputs = config.inputs();
        let kernel = ConvSpec::same(3);
        let stem = [(inputs, kernel.stride(2)), (c1, kernel), (c1, kernel)];
        let stem = stem
            .into_iter()
            .enumerate()
            .map(|(index, (channels, spec))| {
                let name = format!("stem{}", index + 1);
                ConvNormPrelu::new(parameters, &name, spec, (channels, c1), padding)
            })
            .collect::<Result<Vec<_>>>()?;
        let join1 = NormPrelu::new(parameters, "join1", c1 + inputs, EPS)?;
        let spec = BlockSpec {
            channels_in: c1 + inputs,
            channels_out: c2,
            dilation: config.atrous_rates[0],
            reduction: 8,
            padding,
        };
        let stage2 = Stage::new(parameters, "stage2", spec, config.blocks[0])?;
        let join2 = NormPrelu::new(parameters, "join2", 2 * c2 + inputs, EPS)?;
        let spec = BlockSpec {
            channels_in: 2 * c2 + inputs,
            channels_out: c3,
            dilation: config.atrous_rates[1],
            reduction: 16,
            padding,
        };
        let stage3 = Stage::new(parameters, "stage3", spec, config.blocks[1])?;
        let join3 = NormPrelu::new(parameters, "join3", 2 * c3, EPS)?;
        let (point, ends) = (ConvSpec::same(1), (2 * c3, config.classes));
        Ok(Self {
            stem,
            join1,
            stage2,
            join2,
            stage3,
            join3,
            classify: Conv::new(parameters, "classify", point, ends, false)?,
            padding,
            inputs,
            stem_channels: c1,
        })
    }

    /// Average pooling of 3 x 3 cells with stride 2.
    fn shrink(&self, pass: &Pass, x: &Tensor) -> Result<Tensor> {
        let pool = PoolSpec::stem(self.padding == Padding::Longitude);
        if self.padding != Padding::Both {
            return pass.backend.avg_pool(x, &pool);
        }
        let wide = pass.backend.wrap(x, pool.padding)?;
        pass.backend
            .avg_pool(&wide, &PoolSpec { padding: 0, ..pool })
    }

    /// Whether the final upsampling wraps in longitude.
    fn wraps_logits(&self) -> bool {
        self.padding == Padding::Longitude
    }
}

impl Architecture for CgNet {
    fn forward(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let (_, h, w, _) = x.dims4()?;
        let half = self.shrink(pass, x)?;
        let quarter = self.shrink(pass, &half)?;
        let mut y = pass.block([x.clone()], |pass, [x]| self.stem.forward(p, pass, &x))?;
        let joined = pass.backend.concat(&[&y, &half])?;
        drop(half);
        y = self.join1.forward(p, pass, &joined)?;
        drop(joined);
        let (first, last) = self.stage2.forward(p, pass, &y)?;
        let joined = pass.backend.concat(&[&last, &first, &quarter])?;
        drop((first, last, quarter));
        y = self.join2.forward(p, pass, &joined)?;
        drop(joined);
        let (first, last) = self.stage3.forward(p, pass, &y)?;
        let joined = pass.backend.concat(&[&first, &last])?;
        drop((first, last));
        y = self.join3.forward(p, pass, &joined)?;
        let logits = self.classify.forward(p, pass, &y)?;
        resize(pass, &logits, (h, w), self.wraps_logits())
    }

    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dlogits: Tensor,
        gradients: &mut Gradients,
    ) -> Result<()> {
        let mut dy = resize_backward(pass, &dlogits, self.wraps_logits())?;
        dy = self.classify.backward(p, pass, dy, gradients)?;
        dy = self.join3.backward(p, pass, dy, gradients)?;
        let c = self.stage3.channels;
        let [dfirst, dlast] = split(pass, &dy, [c, c])?;
        dy = self.stage3.backward(p, pass, (dfirst, dlast), gradients)?;
        dy = self.join2.backward(p, pass, dy, gradients)?;
        let c = self.stage2.channels;
        // The gradients of the pooled inputs are not needed.
        let [dlast, dfirst, _] = split(pass, &dy, [c, c, self.inputs])?;
        dy = self.stage2.backward(p, pass, (dfirst, dlast), gradients)?;
        dy = self.join1.backward(p, pass, dy, gradients)?;
        [dy, _] = split(pass, &dy, [self.stem_channels, self.inputs])?;
        pass.replay(|pass, [x]| self.stem.forward(p, pass, &x))?;
        self.stem.backward(p, pass, dy, gradients)?;
        Ok(())
    }

    fn trace(&self, x: Flow, trace: &mut Trace) -> Result<()> {
        let mut y = trace.block(&[x], |trace| self.stem.trace(x, trace))?;
        let pooled = |trace: &mut Trace, from: Flow, [b, h, w, _]: [usize; 4]| {
            trace.op(&[from], [b, h, w, self.inputs])
        };
        let half = pooled(trace, x, y.shape);
        let joined = trace.concat(&[y, half]);
        y = self.join1.trace(joined, trace)?;
        let (first, last) = self.stage2.trace(y, trace)?;
        let quarter = pooled(trace, half, last.shape);
        let joined = trace.concat(&[last, first, quarter]);
        y = self.join2.trace(joined, trace)?;
        let (first, last) = self.stage3.trace(y, trace)?;
        let joined = trace.concat(&[first, last]);
        y = self.join3.trace(joined, trace)?;
        self.classify.trace(y, trace)?;
        Ok(())
    }

    fn outputs(&self) -> Vec<ParameterId> {
        vec![self.classify.kernel()]
    }
}
