//! The vectorised parametric ReLU, in the storage type of the activations.

use super::whole_pixels;
use crate::ops::value::Value;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// x where it is positive, otherwise x times its channel's slope.
pub fn forward<V: Value>(x: &[V], slope: &[f32]) -> Vec<V> {
    let length = whole_pixels(slope.len());
    let mut y = vec![V::default(); x.len()];
    (y.par_chunks_mut(length).zip(x.par_chunks(length)))
        .for_each(|(y, x)| Arch::new().dispatch(Forward { y, x, slope }));
    y
}

struct Forward<'a, V> {
    y: &'a mut [V],
    x: &'a [V],
    slope: &'a [f32],
}

impl<V: Value> WithSimd for Forward<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (channels, zero) = (self.slope.len(), simd.splat_f32s(0.0));
        let pixels = (self.y.chunks_exact_mut(channels)).zip(self.x.chunks_exact(channels));
        for (y, x) in pixels {
            for at in (0..channels).step_by(S::F32_LANES) {
                let (x, slope) = (V::load(simd, &x[at..]), f32::load(simd, &self.slope[at..]));
                let above = simd.greater_than_f32s(x, zero);
                let y = &mut y[at..];
                V::store(simd, y, simd.select_f32s(above, x, simd.mul_f32s(slope, x)));
            }
        }
    }
}

/// The gradients of x and of each slope.
///
/// Chunks do not depend on the number of threads, and their sums are added in order.
pub fn backward<V: Value>(dy: &[V], x: &[V], slope: &[f32]) -> (Vec<V>, Vec<f64>) {
    let (channels, length) = (slope.len(), whole_pixels(slope.len()));
    let mut dx = vec![V::default(); dy.len()];
    let partials: Vec<Vec<f32>> = (dx.par_chunks_mut(length))
        .zip(dy.par_chunks(length))
        .zip(x.par_chunks(length))
        .map(|((dx, dy), x)| {
            let mut sums = vec![0.0f32; channels];
            Arch::new().dispatch(Backward {
                dx,
                dy,
                x,
                slope,
                sums: &mut sums,
            });
            sums
        })
        .collect();
    let mut sums = vec![0.0; channels];
    for part in partials {
        sums.iter_mut()
            .zip(part)
            .for_each(|(sum, part)| *sum += f64::from(part));
    }
    (dx, sums)
}

struct Backward<'a, V> {
    dx: &'a mut [V],
    dy: &'a [V],
    x: &'a [V],
    slope: &'a [f32],
    sums: &'a mut [f32],
}

impl<V: Value> WithSimd for Backward<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (channels, zero) = (self.slope.len(), simd.splat_f32s(0.0));
        let pixels = (self.dx.chunks_exact_mut(channels))
            .zip(self.dy.chunks_exact(channels))
            .zip(self.x.chunks_exact(channels));
        for ((dx, dy), x) in pixels {
            for at in (0..channels).step_by(S::F32_LANES) {
                let (dy, x) = (V::load(simd, &dy[at..]), V::load(simd, &x[at..]));
                let slope = f32::load(simd, &self.slope[at..]);
                let above = simd.greater_than_f32s(x, zero);
                let through = simd.select_f32s(above, dy, simd.mul_f32s(slope, dy));
                V::store(simd, &mut dx[at..], through);
                let below = simd.select_f32s(above, zero, simd.mul_f32s(dy, x));
                let sums = &mut self.sums[at..];
                f32::store(simd, sums, simd.add_f32s(f32::load(simd, sums), below));
            }
        }
    }
}
