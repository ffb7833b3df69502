//! Pooling and bilinear resizing, row by row.

use crate::ops::conv_spec::{PoolSpec, source};
use crate::ops::resample::Axis;
use crate::ops::value::{PADDING, Value};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Writes row by row, with the processor's widest vectors.
fn by_rows(values: &mut [f32], row_len: usize, write: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = values.par_chunks_mut(row_len).enumerate();
    rows.for_each(|(row, values)| {
        Arch::new().dispatch(
            #[inline(always)]
            || write(row, values),
        );
    });
}

/// The maximum of every window, and the index of its cell in the window (the first one in a tie).
pub fn max_pool<V: Value>(x: &[V], x_shape: [usize; 4], spec: &PoolSpec) -> (Vec<V>, Vec<u8>) {
    let [batch, _, _, channels] = x_shape;
    let (out_h, out_w) = spec.output_size((x_shape[1], x_shape[2]));
    let mut y = vec![V::default(); batch * out_h * out_w * channels];
    let mut winner = vec![0u8; y.len()];
    let row_len = out_w * channels;
    let rows = (y.par_chunks_mut(row_len), winner.par_chunks_mut(row_len));
    rows.into_par_iter()
        .enumerate()
        .for_each(|(row, (y, winner))| {
            Arch::new().dispatch(LargestOfRow {
                x,
                x_shape,
                spec,
                place: (row / out_h, row % out_h),
                y,
                winner,
            });
        });
    (y, winner)
}

/// One row of [`max_pool`].
struct LargestOfRow<'a, V> {
    x: &'a [V],
    x_shape: [usize; 4],
    spec: &'a PoolSpec,
    /// The sample and the output row.
    place: (usize, usize),
    y: &'a mut [V],
    winner: &'a mut [u8],
}

impl<V: Value> WithSimd for LargestOfRow<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (spec, [_, height, width, channels]) = (self.spec, self.x_shape);
        let (b, p) = self.place;
        let mut cells = Vec::with_capacity(spec.kernel * spec.kernel);
        let winners = self.winner.chunks_exact_mut(channels);
        let pixels = self.y.chunks_exact_mut(channels).zip(winners);
        for (q, (y, winner)) in pixels.enumerate() {
            cells.clear();
            for cell in 0..spec.kernel * spec.kernel {
                let (r, s) = (cell / spec.kernel, cell % spec.kernel);
                let h = source(p, spec.stride, r, spec.padding, height, false);
                let w = source(q, spec.stride, s, spec.padding, width, spec.periodic);
                if let (Some(h), Some(w)) = (h, w) {
                    let at = ((b * height + h) * width + w) * channels;
                    cells.push((cell as f32, &self.x[at..][..channels]));
                }
            }
            largest(simd, &cells, y, winner);
        }
    }
}

/// The maximum of each channel over cells, and the index of its cell; the first NaN wins.
#[inline(always)]
fn largest<S: Simd, V: Value>(simd: S, cells: &[(f32, &[V])], y: &mut [V], winner: &mut [u8]) {
    let always = simd.equal_f32s(simd.splat_f32s(0.0), simd.splat_f32s(0.0));
    let mut numbers = [0f32; PADDING];
    for at in (0..y.len()).step_by(S::F32_LANES) {
        let mut best = simd.splat_f32s(f32::NEG_INFINITY);
        let mut cell_of = simd.splat_f32s(0.0);
        for &(cell, x) in cells {
            let value = V::load(simd, &x[at..]);
            let is_nan = simd.xor_m32s(always, simd.equal_f32s(value, value));
            let first_nan = simd.and_m32s(is_nan, simd.equal_f32s(best, best));
            let better = simd.or_m32s(simd.less_than_f32s(best, value), first_nan);
            best = simd.select_f32s(better, value, best);
            cell_of = simd.select_f32s(better, simd.splat_f32s(cell), cell_of);
        }
        V::store(simd, &mut y[at..], best);
        f32::store(simd, &mut numbers, cell_of);
        let numbers = &numbers[..S::F32_LANES];
        (winner[at..].iter_mut().zip(numbers)).for_each(|(winner, &cell)| *winner = cell as u8);
    }
}

/// Adds every output's gradient to its winning cell: gathered per input row, so that rows are independent.
pub fn max_pool_backward(
    dy: &[f32],
    winner: &[u8],
    x_shape: [usize; 4],
    spec: &PoolSpec,
) -> Vec<f32> {
    let [batch, height, width, channels] = x_shape;
    let (out_h, out_w) = spec.output_size((height, width));
    let mut dx = vec![0.0; batch * height * width * channels];
    by_rows(
        &mut dx,
        width * channels,
        #[inline(always)]
        |row, dx| {
            let (b, h) = (row / height, row % height);
            for r in 0..spec.kernel {
                let Some(top) = (h + spec.padding).checked_sub(r) else {
                    continue;
                };
                if top % spec.stride != 0 || top / spec.stride >= out_h {
                    continue;
                }
                let p = top / spec.stride;
                for (q, s) in (0..out_w).flat_map(|q| (0..spec.kernel).map(move |s| (q, s))) {
                    let Some(w) = source(q, spec.stride, s, spec.padding, width, spec.periodic)
                    else {
                        continue;
                    };
                    let from = ((b * out_h + p) * out_w + q) * channels;
                    let cell = (r * spec.kernel + s) as u8;
                    let dx = &mut dx[w * channels..][..channels];
                    for ((dx, &grad), &won) in dx.iter_mut().zip(&dy[from..]).zip(&winner[from..]) {
                        *dx += if won == cell { grad } else { 0.0 };
                    }
                }
            }
        },
    );
    dx
}

/// Blends two rows, then their columns.
pub fn resize(x: &[f32], x_shape: [usize; 4], rows: &Axis, columns: &Axis) -> Vec<f32> {
    let [batch, height, width, channels] = x_shape;
    let mut y = vec![0.0; batch * rows.len() * columns.len() * channels];
    by_rows(
        &mut y,
        columns.len() * channels,
        #[inline(always)]
        |row, y| {
            let (b, p) = (row / rows.len(), row % rows.len());
            let mut blended = vec![0.0; width * channels];
            for (h, weight) in rows.taps(p) {
                let x = &x[(b * height + h) * width * channels..][..width * channels];
                blended
                    .iter_mut()
                    .zip(x)
                    .for_each(|(sum, x)| *sum += weight * x);
            }
            for (q, y) in y.chunks_exact_mut(channels).enumerate() {
                for (w, weight) in columns.taps(q) {
                    y.iter_mut()
                        .zip(&blended[w * channels..])
                        .for_each(|(y, x)| *y += weight * x);
                }
            }
        },
    );
    y
}

/// The transpose of [`resize`]: gathers columns, then rows, so that every input row is written once.
pub fn resize_backward(dy: &[f32], x_shape: [usize; 4], rows: &Axis, columns: &Axis) -> Vec<f32> {
    let [_, height, width, channels] = x_shape;
    let readers = rows.readers(height);
    let mut dx = vec![0.0; x_shape.iter().product()];
    by_rows(
        &mut dx,
        width * channels,
        #[inline(always)]
        |row, dx| {
            let (b, h) = (row / height, row % height);
            let mut gathered = vec![0.0; columns.len() * channels];
            for &(p, weight) in &readers[h] {
                let dy = &dy[(b * rows.len() + p) * columns.len() * channels..][..gathered.len()];
                gathered
                    .iter_mut()
                    .zip(dy)
                    .for_each(|(sum, g)| *sum += weight * g);
            }
            for (q, grad) in gathered.chunks_exact(channels).enumerate() {
                for (w, weight) in columns.taps(q) {
                    dx[w * channels..][..channels]
                        .iter_mut()
                        .zip(grad)
                        .for_each(|(dx, g)| *dx += weight * g);
                }
            }
        },
    );
    dx
}
