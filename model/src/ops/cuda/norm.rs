//! Batch normalisation, with statistics that stay on the GPU from the forward to the backward pass.

use super::device::{Gpu, gpu};
use super::elementwise::like;
use super::kernels::{Arg, Grid, NORM, int, long};
use super::{add_to_sink, bring_channels, partial};
use crate::error::Result;
use crate::ops::norm::{After, BatchNormRanks, BatchNormSaved, fold};
use crate::ops::{Channels, GradientSink};
use candle_core::{DType, Tensor};

/// The layout of the results of `norm_finish`: consecutive vectors of c values each.
const MEAN: usize = 0;
const VARIANCE: usize = 2;
const SCALE: usize = 3;
const SHIFT: usize = 4;

/// Batch statistics on the GPU.
#[derive(Debug, Clone)]
pub struct Moments(Tensor);

impl Moments {
    fn part(&self, part: usize) -> Result<Tensor> {
        let channels = self.0.elem_count() / 5;
        Ok(self.0.narrow(0, part * channels, channels)?)
    }

    /// Uploads statistics from host memory.
    pub fn of(saved: &BatchNormSaved, gamma: &[f32], beta: &[f32]) -> Result<Self> {
        let (scale, shift) = fold(gamma, beta, &saved.mean, &saved.inv_std);
        let all = [
            &saved.mean[..],
            &saved.inv_std,
            &saved.variance,
            &scale,
            &shift,
        ]
        .concat();
        Ok(Self(gpu()?.give(&all, &[all.len()])?))
    }

    /// Means, then 1 / √(variance + ε), then biased variances.
    pub fn read(&self) -> Result<[Vec<f32>; 3]> {
        let all: Vec<f32> = super::read(&self.0)?;
        let channels = all.len() / 5;
        let part = |part: usize| all[part * channels..(part + 1) * channels].to_vec();
        Ok([part(MEAN), part(MEAN + 1), part(VARIANCE)])
    }

    /// Means and biased variances as tensors.
    pub fn mean_and_variance(&self) -> Result<[Tensor; 2]> {
        Ok([self.part(MEAN)?, self.part(VARIANCE)?])
    }

    /// Normalisation, γ and β as a scale and a shift.
    pub fn folded(&self) -> Result<[Channels<'static>; 2]> {
        Ok([
            Channels::Gpu(self.part(SCALE)?),
            Channels::Gpu(self.part(SHIFT)?),
        ])
    }
}

/// Statistics of x over the samples of all ranks, and the total number of pixels; without γ and β, ones and zeros are
/// used.
pub fn statistics(
    x: &Tensor,
    channels: usize,
    eps: f32,
    affine: Option<(&Channels<'_>, &Channels<'_>)>,
    ranks: Option<&dyn BatchNormRanks>,
) -> Result<(Moments, usize)> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let (c, pixels) = (channels, x.elem_count() / channels);
    let grid = gpu.sums(pixels, c, 1);
    let count = grid.chunks();
    let partial = partial(gpu, 2 * count * c)?;
    let arguments = [(&partial).into(), (&x).into(), long(pixels), int(c)];
    gpu.launch(NORM, "norm_moments", x.dtype(), grid, &arguments)?;
    let (ones, zeros);
    let (gamma, beta) = match affine {
        Some(affine) => affine,
        None => {
            ones = Channels::Gpu(gpu.filled(1.0, c)?);
            zeros = Channels::Gpu(gpu.filled(0.0, c)?);
            (&ones, &zeros)
        }
    };
    let (gamma, beta) = (bring_channels(gpu, gamma)?, bring_channels(gpu, beta)?);
    let saved = gpu.empty(&[5 * c], DType::F32)?;
    let Some(ranks) = ranks else {
        let arguments = [
            (&saved).into(),
            (&partial).into(),
            (&gamma).into(),
            (&beta).into(),
            eps.into(),
            int(count),
            int(c),
            long(pixels),
        ];
        gpu.launch_named(NORM, "norm_collect_finish", Grid::ends(c, 1), &arguments)?;
        return Ok((Moments(saved), pixels));
    };
    let sums = gpu.empty(&[1 + 2 * c], DType::F64)?;
    let arguments = [
        (&sums).into(),
        (&partial).into(),
        int(count),
        int(c),
        long(pixels),
    ];
    gpu.launch_named(NORM, "norm_collect", Grid::ends(c, 1), &arguments)?;
    let pixels = share(gpu, &sums, ranks)?[0] as usize;
    let arguments = [
        (&saved).into(),
        (&sums).into(),
        (&gamma).into(),
        (&beta).into(),
        eps.into(),
        int(c),
    ];
    gpu.launch_named(NORM, "norm_finish", Grid::flat(c), &arguments)?;
    Ok((Moments(saved), pixels))
}

/// Replaces sums by those over all ranks, and returns them.
fn share(gpu: &Gpu, sums: &Tensor, ranks: &dyn BatchNormRanks) -> Result<Vec<f64>> {
    let mut values: Vec<f64> = gpu.take(sums)?;
    ranks.sum(&mut values)?;
    gpu.write(sums, &values)?;
    Ok(values)
}

/// y · scale + shift + residual, then ReLU, in place; operands that are not given are skipped.
pub(super) fn finish(
    gpu: &Gpu,
    y: &Tensor,
    shift: Option<&Tensor>,
    residual: Option<&Tensor>,
    relu: bool,
) -> Result<()> {
    launch_apply(gpu, y, y, [None, shift], residual, relu)
}

fn launch_apply(
    gpu: &Gpu,
    y: &Tensor,
    x: &Tensor,
    [scale, shift]: [Option<&Tensor>; 2],
    residual: Option<&Tensor>,
    relu: bool,
) -> Result<()> {
    let c = x.dims().last().copied().unwrap_or(1);
    let n = x.elem_count();
    let arguments = [
        y.into(),
        x.into(),
        scale.into(),
        shift.into(),
        residual.into(),
        relu.into(),
        long(n / c),
        int(c),
    ];
    gpu.launch(NORM, "norm_apply", x.dtype(), gpu.pixels(n), &arguments)
}

/// x · scale + shift, + residual, ReLU.
pub fn apply(
    x: &Tensor,
    scale: &Channels<'_>,
    shift: &Channels<'_>,
    residual: Option<&Tensor>,
    relu: bool,
) -> Result<Tensor> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let (scale, shift) = (bring_channels(gpu, scale)?, bring_channels(gpu, shift)?);
    let residual = residual
        .map(|residual| like(gpu, residual, x.dtype()))
        .transpose()?;
    let y = gpu.empty(x.dims(), x.dtype())?;
    launch_apply(
        gpu,
        &y,
        &x,
        [Some(&scale), Some(&shift)],
        residual.as_ref(),
        relu,
    )?;
    Ok(y)
}

/// The gradient gate: open, positive normalised values, or positive outputs.
const OPEN: i32 = 0;
const BY_X: i32 = 1;
const BY_Y: i32 = 2;

/// Operands of the backward pass.
pub struct Operands<'a> {
    pub dy: &'a Tensor,
    pub x: &'a Tensor,
    /// The output, if it includes a residual.
    pub y: Option<&'a Tensor>,
    pub gamma: &'a Channels<'a>,
    pub saved: &'a Moments,
    /// The number of pixels of all ranks.
    pub count: usize,
    pub after: After,
}

/// Returns the gradients of x and, if there was one, of the residual; adds those of γ and β.
pub fn backward(
    of: &Operands<'_>,
    ranks: Option<&dyn BatchNormRanks>,
    dgamma: GradientSink<'_>,
    dbeta: GradientSink<'_>,
) -> Result<(Tensor, Option<Tensor>)> {
    let gpu = gpu()?;
    let x = gpu.bring(of.x)?;
    let dtype = x.dtype();
    let dy = like(gpu, of.dy, dtype)?;
    let y =
        of.y.filter(|_| of.after.relu)
            .map(|y| like(gpu, y, dtype))
            .transpose()?;
    let gate = match (&y, of.after.relu) {
        (Some(_), true) => BY_Y,
        (None, true) => BY_X,
        (_, false) => OPEN,
    };
    let masked = match of.after.residual && of.after.relu {
        true => Some(gpu.empty(x.dims(), dtype)?),
        false => None,
    };
    let c = of.gamma.len();
    let pixels = x.elem_count() / c;
    let grid = gpu.sums(pixels, c, 1);
    let count = grid.chunks();
    let partial = partial(gpu, 2 * count * c)?;
    let saved = &of.saved.0;
    let arguments = [
        (&partial).into(),
        masked.as_ref().into(),
        (&dy).into(),
        (&x).into(),
        saved.into(),
        Arg::I32(gate),
        y.as_ref().into(),
        Arg::Null,
        long(pixels),
        int(c),
    ];
    gpu.launch(NORM, "norm_backward_sums", dtype, grid, &arguments)?;
    let factors = backward_factors(gpu, of, (&partial, count), ranks, (dgamma, dbeta))?;
    let (grad, gate) = match &masked {
        Some(masked) => (masked, OPEN),
        None => (&dy, gate),
    };
    let dx = gpu.empty(x.dims(), dtype)?;
    let arguments = [
        (&dx).into(),
        grad.into(),
        (&x).into(),
        (&factors).into(),
        saved.into(),
        Arg::I32(gate),
        y.as_ref().into(),
        Arg::Null,
        long(pixels),
        int(c),
    ];
    let grid = gpu.pixels(x.elem_count());
    gpu.launch(NORM, "norm_backward_apply", dtype, grid, &arguments)?;
    let residual = of.after.residual.then(|| masked.unwrap_or(dy));
    Ok((dx, residual))
}

/// The three coefficients of dx per channel, from `count` partial sums each; adds the gradients of γ and β.
fn backward_factors(
    gpu: &Gpu,
    of: &Operands<'_>,
    (partial, count): (&Tensor, usize),
    ranks: Option<&dyn BatchNormRanks>,
    (dgamma, dbeta): (GradientSink<'_>, GradientSink<'_>),
) -> Result<Tensor> {
    let (saved, c) = (&of.saved.0, of.gamma.len());
    let gamma = bring_channels(gpu, of.gamma)?;
    let factors = gpu.empty(&[3 * c], DType::F32)?;
    let pixels_of_all = Arg::F64(of.count as f64);
    if let Some(ranks) = ranks {
        // The gradients of γ and β are all-reduced later with all others; that of x needs the total now.
        let sums = collect(gpu, partial, (count, c), (dgamma, dbeta))?;
        share(gpu, &sums, ranks)?;
        let arguments = [
            (&factors).into(),
            (&sums).into(),
            saved.into(),
            (&gamma).into(),
            pixels_of_all,
            int(c),
        ];
        gpu.launch_named(NORM, "norm_backward_factors", Grid::flat(c), &arguments)?;
    } else {
        add_to_sink(gpu, dgamma, |dgamma| {
            add_to_sink(gpu, dbeta, |dbeta| {
                let arguments = [
                    (&factors).into(),
                    dgamma.into(),
                    dbeta.into(),
                    partial.into(),
                    saved.into(),
                    (&gamma).into(),
                    pixels_of_all,
                    int(count),
                    int(c),
                ];
                gpu.launch_named(NORM, "norm_backward_finish", Grid::ends(c, 1), &arguments)
            })
        })?;
    }
    Ok(factors)
}

/// Adds Σ dy x and Σ dy per channel.
pub fn affine_backward(
    dy: &Tensor,
    x: &Tensor,
    dscale: GradientSink<'_>,
    dshift: GradientSink<'_>,
) -> Result<()> {
    let gpu = gpu()?;
    let x = gpu.bring(x)?;
    let dy = like(gpu, dy, x.dtype())?;
    let c = dscale.len();
    let pixels = x.elem_count() / c;
    let grid = gpu.sums(pixels, c, 1);
    let count = grid.chunks();
    // With mean 0 and deviation 1, x̂ equals x.
    let plain = gpu.filled(0.0, 5 * c)?;
    gpu.fill(&plain.narrow(0, c, 3 * c)?, 1.0)?;
    let partial = partial(gpu, 2 * count * c)?;
    let arguments = [
        (&partial).into(),
        Arg::Null,
        (&dy).into(),
        (&x).into(),
        (&plain).into(),
        Arg::I32(OPEN),
        Arg::Null,
        Arg::Null,
        long(pixels),
        int(c),
    ];
    gpu.launch(NORM, "norm_backward_sums", x.dtype(), grid, &arguments)?;
    collect(gpu, &partial, (count, c), (dscale, dshift))?;
    Ok(())
}

/// Adds the sums over all chunks to both gradients, and returns them for the gradient of x.
fn collect(
    gpu: &Gpu,
    partial: &Tensor,
    (count, c): (usize, usize),
    (dscale, dshift): (GradientSink<'_>, GradientSink<'_>),
) -> Result<Tensor> {
    let sums = gpu.empty(&[2 * c], DType::F64)?;
    add_to_sink(gpu, dscale, |dscale| {
        add_to_sink(gpu, dshift, |dshift| {
            let arguments = [
                (&sums).into(),
                dscale.into(),
                dshift.into(),
                partial.into(),
                int(count),
                int(c),
            ];
            gpu.launch_named(NORM, "norm_backward_collect", Grid::ends(c, 1), &arguments)
        })
    })?;
    Ok(sums)
}
