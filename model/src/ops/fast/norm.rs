//! Batch normalisation in the fewest possible passes over memory.

use super::whole_pixels;
use crate::ops::finish::at_least;
use crate::ops::value::Value;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Mean and (biased) variance per channel, in one pass over memory: each chunk is read twice while it is in cache.
///
/// Chunks are merged by the parallel-variance formula of Chan, Golub and LeVeque (1983).
pub fn moments<V: Value>(x: &[V], channels: usize) -> (Vec<f64>, Vec<f64>) {
    let partials: Vec<(f64, Vec<f32>, Vec<f32>)> = x
        .par_chunks(whole_pixels(channels))
        .map(|chunk| {
            let count = (chunk.len() / channels) as f32;
            let (mut mean, mut square) = (vec![0.0f32; channels], vec![0.0f32; channels]);
            Arch::new().dispatch(Moments {
                chunk,
                mean: &mut mean,
                square: &mut square,
            });
            (f64::from(count), mean, square)
        })
        .collect();
    let (mut count, mut mean, mut square) = (0.0, vec![0.0; channels], vec![0.0; channels]);
    for (n, chunk_mean, chunk_square) in partials {
        let total = count + n;
        for c in 0..channels {
            let delta = f64::from(chunk_mean[c]) - mean[c];
            mean[c] += delta * n / total;
            square[c] += f64::from(chunk_square[c]) + delta * delta * count * n / total;
        }
        count = total;
    }
    square.iter_mut().for_each(|s| *s /= count);
    (mean, square)
}

struct Moments<'a, V> {
    chunk: &'a [V],
    mean: &'a mut [f32],
    square: &'a mut [f32],
}

impl<V: Value> WithSimd for Moments<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let channels = self.mean.len();
        let share = simd.splat_f32s(channels as f32 / self.chunk.len() as f32);
        for at in (0..channels).step_by(S::F32_LANES) {
            let mut sum = simd.splat_f32s(0.0);
            for pixel in self.chunk.chunks_exact(channels) {
                sum = simd.add_f32s(sum, V::load(simd, &pixel[at..]));
            }
            let mean = simd.mul_f32s(sum, share);
            let mut square = simd.splat_f32s(0.0);
            for pixel in self.chunk.chunks_exact(channels) {
                let off = simd.sub_f32s(V::load(simd, &pixel[at..]), mean);
                square = simd.mul_add_f32s(off, off, square);
            }
            f32::store(simd, &mut self.mean[at..], mean);
            f32::store(simd, &mut self.square[at..], square);
        }
    }
}

/// x · scale + shift, + residual, ReLU.
pub fn apply<V: Value>(
    x: &[V],
    scale: &[f32],
    shift: &[f32],
    residual: Option<&[V]>,
    relu: bool,
) -> Vec<V> {
    let length = whole_pixels(scale.len());
    let mut y = vec![V::default(); x.len()];
    y.par_chunks_mut(length).enumerate().for_each(|(index, y)| {
        let range = index * length..index * length + y.len();
        Arch::new().dispatch(Apply {
            x: &x[range.clone()],
            scale,
            shift,
            residual: residual.map(|residual| &residual[range]),
            relu,
            y,
        });
    });
    y
}

struct Apply<'a, V> {
    x: &'a [V],
    scale: &'a [f32],
    shift: &'a [f32],
    residual: Option<&'a [V]>,
    relu: bool,
    y: &'a mut [V],
}

impl<V: Value> WithSimd for Apply<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let channels = self.scale.len();
        let floor = simd.splat_f32s(if self.relu { 0.0 } else { f32::NEG_INFINITY });
        for (index, y) in self.y.chunks_exact_mut(channels).enumerate() {
            let here = index * channels..(index + 1) * channels;
            let x = &self.x[here.clone()];
            let residual = self.residual.map(|residual| &residual[here]);
            for at in (0..channels).step_by(S::F32_LANES) {
                let scale = f32::load(simd, &self.scale[at..]);
                let shift = f32::load(simd, &self.shift[at..]);
                let mut value = simd.mul_add_f32s(V::load(simd, &x[at..]), scale, shift);
                if let Some(residual) = residual {
                    value = simd.add_f32s(value, V::load(simd, &residual[at..]));
                }
                V::store(simd, &mut y[at..], at_least(simd, floor, value));
            }
        }
    }
}

/// + shift, ReLU, in place.
#[cfg(feature = "onednn")]
pub fn shift_in_place<V: Value>(y: &mut [V], shift: &[f32], relu: bool) {
    y.par_chunks_mut(whole_pixels(shift.len()))
        .for_each(|y| Arch::new().dispatch(Shift { y, shift, relu }));
}

#[cfg(feature = "onednn")]
struct Shift<'a, V> {
    y: &'a mut [V],
    shift: &'a [f32],
    relu: bool,
}

#[cfg(feature = "onednn")]
impl<V: Value> WithSimd for Shift<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let channels = self.shift.len();
        let floor = simd.splat_f32s(if self.relu { 0.0 } else { f32::NEG_INFINITY });
        for y in self.y.chunks_exact_mut(channels) {
            for at in (0..channels).step_by(S::F32_LANES) {
                let shift = f32::load(simd, &self.shift[at..]);
                let value = simd.add_f32s(V::load(simd, &y[at..]), shift);
                V::store(simd, &mut y[at..], at_least(simd, floor, value));
            }
        }
    }
}

/// Where gradients pass.
#[derive(Clone, Copy)]
pub enum Gate<'a> {
    /// Everywhere.
    Open,
    /// Where x · scale + shift, computed as in [`apply`], is positive or NaN. This saves reading the output.
    Recomputed(&'a [f32], &'a [f32]),
}

/// The inputs of the backward pass.
#[derive(Clone, Copy)]
pub struct Operands<'a, V> {
    pub dy: &'a [V],
    pub x: &'a [V],
    pub gate: Gate<'a>,
}

impl<'a, V: Value> Operands<'a, V> {
    /// The same range of each operand.
    fn part(&self, range: std::ops::Range<usize>) -> Self {
        Self {
            dy: &self.dy[range.clone()],
            x: &self.x[range],
            gate: self.gate,
        }
    }

    /// The gated gradient and x, for channels `at..` of the pixel that begins at `pixel`.
    #[inline(always)]
    fn load<S: Simd>(&self, simd: S, pixel: usize, at: usize, end: usize) -> (S::f32s, S::f32s) {
        let here = pixel + at..pixel + end;
        let (dy, x) = (
            V::load(simd, &self.dy[here.clone()]),
            V::load(simd, &self.x[here]),
        );
        let value = match self.gate {
            Gate::Open => return (dy, x),
            Gate::Recomputed(scale, shift) => simd.mul_add_f32s(
                x,
                f32::load(simd, &scale[at..]),
                f32::load(simd, &shift[at..]),
            ),
        };
        let zero = simd.splat_f32s(0.0);
        (
            simd.select_f32s(simd.less_than_or_equal_f32s(value, zero), zero, dy),
            x,
        )
    }
}

/// Sums over pixels of the gradient and of the gradient · x̂ per channel.
pub fn backward_sums<V: Value>(
    operands: Operands<'_, V>,
    mean: &[f32],
    inv_std: &[f32],
) -> (Vec<f64>, Vec<f64>) {
    let channels = mean.len();
    let (length, total) = (whole_pixels(channels), operands.dy.len());
    let partials: Vec<(Vec<f32>, Vec<f32>)> = (0..total.div_ceil(length))
        .into_par_iter()
        .map(|index| {
            let range = index * length..total.min((index + 1) * length);
            let (mut sum, mut sum_x) = (vec![0.0f32; channels], vec![0.0f32; channels]);
            Arch::new().dispatch(Sums {
                operands: operands.part(range),
                mean,
                inv_std,
                sum: &mut sum,
                sum_x: &mut sum_x,
            });
            (sum, sum_x)
        })
        .collect();
    let (mut sum, mut sum_x) = (vec![0.0; channels], vec![0.0; channels]);
    for (part, part_x) in partials {
        for c in 0..channels {
            sum[c] += f64::from(part[c]);
            sum_x[c] += f64::from(part_x[c]);
        }
    }
    (sum, sum_x)
}

struct Sums<'a, V> {
    operands: Operands<'a, V>,
    mean: &'a [f32],
    inv_std: &'a [f32],
    sum: &'a mut [f32],
    sum_x: &'a mut [f32],
}

impl<V: Value> WithSimd for Sums<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let channels = self.mean.len();
        for pixel in (0..self.operands.dy.len()).step_by(channels) {
            for at in (0..channels).step_by(S::F32_LANES) {
                let (g, x) = self.operands.load(simd, pixel, at, channels);
                let off = simd.sub_f32s(x, f32::load(simd, &self.mean[at..]));
                let normal = simd.mul_f32s(off, f32::load(simd, &self.inv_std[at..]));
                let sum = simd.add_f32s(f32::load(simd, &self.sum[at..]), g);
                let sum_x = simd.mul_add_f32s(g, normal, f32::load(simd, &self.sum_x[at..]));
                f32::store(simd, &mut self.sum[at..], sum);
                f32::store(simd, &mut self.sum_x[at..], sum_x);
            }
        }
    }
}

/// a · gradient + b · x + c per channel.
pub fn backward_apply<V: Value>(
    operands: Operands<'_, V>,
    a: &[f32],
    b: &[f32],
    c: &[f32],
) -> Vec<V> {
    let length = whole_pixels(a.len());
    let mut dx = vec![V::default(); operands.dy.len()];
    dx.par_chunks_mut(length)
        .enumerate()
        .for_each(|(index, dx)| {
            Arch::new().dispatch(BackwardApply {
                operands: operands.part(index * length..index * length + dx.len()),
                factors: [a, b, c],
                dx,
            });
        });
    dx
}

struct BackwardApply<'a, V> {
    operands: Operands<'a, V>,
    factors: [&'a [f32]; 3],
    dx: &'a mut [V],
}

impl<V: Value> WithSimd for BackwardApply<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [a, b, c] = self.factors;
        let channels = a.len();
        for (index, dx) in self.dx.chunks_exact_mut(channels).enumerate() {
            for at in (0..channels).step_by(S::F32_LANES) {
                let (g, x) = self.operands.load(simd, index * channels, at, channels);
                let rest =
                    simd.mul_add_f32s(f32::load(simd, &b[at..]), x, f32::load(simd, &c[at..]));
                let value = simd.mul_add_f32s(f32::load(simd, &a[at..]), g, rest);
                V::store(simd, &mut dx[at..], value);
            }
        }
    }
}
