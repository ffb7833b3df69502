//! Optimisers on the GPU: values, gradients and moments stay there. Each step reads one number, the gradient's norm.

use super::device::{Gpu, gpu};
use super::kernels::{Arg, Grid, OPTIMIZER, int, long};
use crate::error::Result;
use crate::optim::{OptimizerConfig, Rule};
use candle_core::{DType, Tensor};
use std::ops::Range;

/// Values per chunk; must match `kernels/optimizer.cu`.
const CHUNK: usize = 4096;

/// Moments, and the layout of the tensors.
#[derive(Debug)]
pub(crate) struct State {
    first: Tensor,
    second: Option<Tensor>,
    direction: Option<Tensor>,
    chunk_tensor: Tensor,
    chunk_start: Tensor,
    tensor_first: Tensor,
    tensor_end: Tensor,
    decay: Tensor,
    rates: Tensor,
    chunks: usize,
    tensors: usize,
    /// Σ w² of each tensor after the last step, and the version of the parameters at that time.
    weights: Option<(u64, Tensor)>,
}

/// One step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// The step's number, from 1.
    pub number: u64,
    pub rate: f32,
    pub gradient_scale: f32,
    /// The parameters' version before the step.
    pub version: u64,
}

/// Copies of the values, stored as f32 but exact in bf16: the destination, and the key of random bits for stochastic
/// rounding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copies<'a> {
    pub to: &'a Tensor,
    pub key: Option<u64>,
}

impl Copies<'_> {
    fn kind(self) -> Arg<'static> {
        Arg::I32(if self.key.is_some() { 2 } else { 1 })
    }

    fn key(self) -> Arg<'static> {
        self.key.unwrap_or(0).into()
    }
}

impl State {
    /// The state before the first step. `places` are the tensors' positions in the flat order, `decay` the weight decay
    /// of each, `rates` the learning-rate multiplier of each.
    pub(crate) fn new(
        config: &OptimizerConfig,
        places: &[Range<usize>],
        decay: &[f32],
        rates: &[f32],
    ) -> Result<Self> {
        let gpu = gpu()?;
        let (mut chunk_tensor, mut chunk_start, mut tensor_first) =
            (Vec::new(), Vec::new(), Vec::new());
        for (tensor, place) in places.iter().enumerate() {
            tensor_first.push(chunk_tensor.len() as i32);
            for start in place.clone().step_by(CHUNK) {
                chunk_tensor.push(tensor as i32);
                chunk_start.push(start as i64);
            }
        }
        let chunks = chunk_tensor.len();
        tensor_first.push(chunks as i32);
        let ends: Vec<i64> = places.iter().map(|place| place.end as i64).collect();
        let count = places.last().map_or(0, |place| place.end);
        let moment = || gpu.zeros(&[count], DType::F32);
        Ok(Self {
            first: moment()?,
            second: (config.moments() > 1).then(moment).transpose()?,
            direction: config.rule.keeps_direction().then(moment).transpose()?,
            chunk_tensor: gpu.give(&chunk_tensor, &[chunks])?,
            chunk_start: gpu.give(&chunk_start, &[chunks])?,
            tensor_first: gpu.give(&tensor_first, &[places.len() + 1])?,
            tensor_end: gpu.give(&ends, &[places.len()])?,
            decay: gpu.give(decay, &[places.len()])?,
            rates: gpu.give(rates, &[places.len()])?,
            chunks,
            tensors: places.len(),
            weights: None,
        })
    }

    /// The moments; the second is empty for SGD.
    pub(crate) fn read(&self) -> Result<[Vec<f32>; 2]> {
        let second = self.second.as_ref().map(super::read).transpose()?;
        Ok([super::read(&self.first)?, second.unwrap_or_default()])
    }

    /// Replaces a range of a moment: 0 is the first, 1 the second.
    pub(crate) fn write(
        &mut self,
        moment: usize,
        range: Range<usize>,
        values: &[f32],
    ) -> Result<()> {
        self.weights = None;
        match [Some(&self.first), self.second.as_ref()][moment] {
            Some(tensor) => super::write(&tensor.narrow(0, range.start, range.len())?, values),
            None => Ok(()),
        }
    }

    fn table(&self) -> [Arg<'_>; 3] {
        [
            (&self.chunk_tensor).into(),
            (&self.chunk_start).into(),
            (&self.tensor_end).into(),
        ]
    }

    /// The leading arguments of all rules: values, gradient, moments, tensor offsets, decay and factors.
    fn operands<'a>(&'a self, of: &Operands<'a>) -> Vec<Arg<'a>> {
        let moments = [&self.first].into_iter().chain(&self.second);
        let tensors = [of.values, of.gradient].into_iter().chain(moments);
        let tensors = tensors.map(Arg::from);
        let ends = [of.decay.into(), of.factor.into()];
        tensors.chain(self.table()).chain(ends).collect()
    }

    /// Σ x² of each tensor.
    fn squares(&self, gpu: &Gpu, x: &Tensor) -> Result<Tensor> {
        let partial = gpu.empty(&[self.chunks], DType::F64)?;
        let arguments = [&[(&partial).into(), x.into()], &self.table()[..]].concat();
        let grid = Grid::blocks(self.chunks);
        gpu.launch_named(OPTIMIZER, "squares_by_chunk", grid, &arguments)?;
        self.by_tensor(gpu, &partial)
    }

    fn by_tensor(&self, gpu: &Gpu, partial: &Tensor) -> Result<Tensor> {
        let sums = gpu.empty(&[self.tensors], DType::F64)?;
        let arguments = [
            (&sums).into(),
            partial.into(),
            (&self.tensor_first).into(),
            int(self.tensors),
        ];
        let grid = Grid::blocks(self.tensors);
        gpu.launch_named(OPTIMIZER, "sums_by_tensor", grid, &arguments)?;
        Ok(sums)
    }

    /// Updates `values` and returns the scaled gradient's norm; if that is not finite, nothing changes.
    pub(crate) fn step(
        &mut self,
        config: &OptimizerConfig,
        (values, gradient): (&Tensor, &Tensor),
        step: Step,
        copies: Option<Copies<'_>>,
    ) -> Result<f64> {
        let gpu = gpu()?;
        let gradient_squares = self.squares(gpu, gradient)?;
        let known = self
            .weights
            .take()
            .filter(|(version, _)| *version == step.version);
        let weight_squares = match (config.larc, known) {
            (None, _) => None,
            (Some(_), Some((_, known))) => Some(known),
            (Some(_), None) => Some(self.squares(gpu, values)?),
        };
        let larc = config.larc.unwrap_or_default();
        let factor = gpu.empty(&[self.tensors], DType::F32)?;
        let decay = gpu.empty(&[self.tensors], DType::F32)?;
        let (norm, skip) = (gpu.empty(&[1], DType::F64)?, gpu.empty(&[1], DType::U32)?);
        let arguments = [
            (&factor).into(),
            (&decay).into(),
            (&norm).into(),
            (&skip).into(),
            (&gradient_squares).into(),
            weight_squares.as_ref().into(),
            (&self.decay).into(),
            int(self.tensors),
            step.gradient_scale.into(),
            (config.clip_norm.unwrap_or(0.0) as f32).into(),
            larc.eta.into(),
            larc.epsilon.into(),
            larc.clip.into(),
            config.rule.shrinks().into(),
            step.rate.into(),
            (&self.rates).into(),
        ];
        gpu.launch_named(OPTIMIZER, "step_factors", Grid::blocks(1), &arguments)?;
        let squares = match config.larc {
            Some(_) => Some(gpu.empty(&[self.chunks], DType::F64)?),
            None => None,
        };
        let of = Operands {
            config,
            step,
            values,
            gradient,
            factor: &factor,
            decay: &decay,
            skip: &skip,
            copies,
            squares: squares.as_ref(),
        };
        match config.rule {
            Rule::Sgd => self.sgd(gpu, &of)?,
            Rule::Adam | Rule::AdamW => self.adam(gpu, &of)?,
            Rule::Lamb => self.lamb(gpu, &of)?,
        }
        let norm: Vec<f64> = gpu.take(&norm)?;
        // A skipped step wrote no sums, so the previous ones are still valid.
        self.weights = match (&squares, norm[0].is_finite()) {
            (Some(squares), true) => Some(self.by_tensor(gpu, squares)?),
            _ => weight_squares,
        }
        .map(|sums| (step.version, sums));
        Ok(norm[0])
    }

    /// Records the version of the parameters after the last step.
    pub(crate) fn settle(&mut self, version: u64) {
        if let Some((known, _)) = &mut self.weights {
            *known = version;
        }
    }

    fn sgd(&self, gpu: &Gpu, of: &Operands<'_>) -> Result<()> {
        let (config, step) = (of.config, of.step);
        let arguments = [
            &self.operands(of)[..],
            &[
                config.momentum.into(),
                config.nesterov.into(),
                step.rate.into(),
                (&self.rates).into(),
            ],
            &of.mirror()[..],
            &[of.squares.into()],
        ];
        let grid = Grid::blocks(self.chunks);
        gpu.launch_named(OPTIMIZER, "sgd_step", grid, &arguments.concat())
    }

    fn adam(&self, gpu: &Gpu, of: &Operands<'_>) -> Result<()> {
        let (config, step) = (of.config, of.step);
        let unbias = config.unbias(step.number);
        let arguments = [
            &self.operands(of)[..],
            &[
                config.beta1.into(),
                config.beta2.into(),
                config.epsilon.into(),
                unbias.0.into(),
                unbias.1.into(),
                step.rate.into(),
                (&self.rates).into(),
                config.rule.shrinks().into(),
            ],
            &of.mirror()[..],
            &[of.squares.into()],
        ];
        let grid = Grid::blocks(self.chunks);
        gpu.launch_named(OPTIMIZER, "adam_step", grid, &arguments.concat())
    }

    fn lamb(&self, gpu: &Gpu, of: &Operands<'_>) -> Result<()> {
        let (config, step) = (of.config, of.step);
        let unbias = config.unbias(step.number);
        let direction: Arg<'_> = self.direction.as_ref().into();
        let partial = gpu.empty(&[2 * self.chunks], DType::F64)?;
        let beta3 = if config.grad_averaging {
            1.0 - config.beta1
        } else {
            1.0
        };
        let arguments = [
            &[direction, (&partial).into()],
            &self.operands(of)[..],
            &[
                config.beta1.into(),
                config.beta2.into(),
                beta3.into(),
                config.epsilon.into(),
                unbias.0.into(),
                unbias.1.into(),
                of.skip.into(),
            ],
        ];
        let grid = Grid::blocks(self.chunks);
        gpu.launch_named(OPTIMIZER, "lamb_moments", grid, &arguments.concat())?;
        let rates = gpu.empty(&[self.tensors], DType::F32)?;
        let arguments = [
            (&rates).into(),
            (&partial).into(),
            (&self.tensor_first).into(),
            (&self.decay).into(),
            step.rate.into(),
            (&self.rates).into(),
            int(self.tensors),
        ];
        let grid = Grid::blocks(self.tensors);
        gpu.launch_named(OPTIMIZER, "lamb_rates", grid, &arguments)?;
        let arguments = [
            &[of.values.into(), direction],
            &self.table()[..],
            &[(&rates).into()],
            &of.mirror()[..],
        ];
        let grid = Grid::blocks(self.chunks);
        gpu.launch_named(OPTIMIZER, "lamb_apply", grid, &arguments.concat())
    }
}

/// The inputs and outputs common to all rules.
struct Operands<'a> {
    config: &'a OptimizerConfig,
    step: Step,
    values: &'a Tensor,
    gradient: &'a Tensor,
    factor: &'a Tensor,
    /// The weight decay of each tensor, as LARC scales it.
    decay: &'a Tensor,
    skip: &'a Tensor,
    copies: Option<Copies<'a>>,
    squares: Option<&'a Tensor>,
}

impl Operands<'_> {
    /// The arguments skip, mirror, kind and key.
    fn mirror(&self) -> [Arg<'_>; 4] {
        let [to, kind, key] = match self.copies {
            Some(copies) => [copies.to.into(), copies.kind(), copies.key()],
            None => [Arg::Null, Arg::I32(0), Arg::U64(0)],
        };
        [self.skip.into(), to, kind, key]
    }
}

/// Rounds all values into the copies.
pub(crate) fn fill(values: &Tensor, copies: Copies<'_>) -> Result<()> {
    let n = values.elem_count();
    let arguments = [
        copies.to.into(),
        values.into(),
        long(n),
        copies.kind(),
        copies.key(),
    ];
    gpu()?.launch_named(OPTIMIZER, "mirror_fill", Grid::flat(n), &arguments)
}

/// Moves averages by this share of the distance to the values.
pub(crate) fn average(average: &Tensor, values: &Tensor, share: f32) -> Result<()> {
    let n = average.elem_count();
    let arguments = [average.into(), values.into(), long(n), share.into()];
    gpu()?.launch_named(OPTIMIZER, "average_step", Grid::flat(n), &arguments)
}

/// Swaps the values of two tensors of the same size, without moving either.
pub(crate) fn exchange(a: &Tensor, b: &Tensor) -> Result<()> {
    let n = a.elem_count();
    let arguments = [a.into(), b.into(), long(n)];
    gpu()?.launch_named(OPTIMIZER, "exchange_values", Grid::flat(n), &arguments)
}
