//! Atrous convolutions in bf16 tiles as one matrix product per tap over the pixels that it reads. oneDNN's own
//! convolutions run at less than half the rate of its matrix products there, and multiply the padding as well.

use super::product::gemm_of_bf16;
use super::taps::Tap;
use super::{Finish, Source};
use crate::error::Result;
use crate::ops::conv_spec::Convolution;
use crate::ops::elementwise::rectified;
use crate::ops::scratch;
use crate::ops::value::Value;
use half::bf16;
use rayon::prelude::*;

/// Whether these products are faster than oneDNN's convolution. Depends on the geometry and the kind of processor.
pub fn is_faster(geometry: &Convolution, tiles: bool) -> bool {
    let spec = geometry.spec;
    let same_width = !spec.periodic || geometry.x[2] == geometry.y[2];
    let atrous = spec.stride == 1 && spec.groups == 1 && spec.dilation >= 5;
    tiles && atrous && same_width && spec.kernel != (1, 1)
}

/// The output of a convolution, + bias, + residual, ReLU.
pub fn forward<V: Value>(
    geometry: &Convolution,
    x: &[V],
    weights: Source<'_>,
    finish: Finish<'_, V>,
) -> Result<Vec<V>> {
    let ([batch, _, _, inputs], [_, out_h, out_w, outputs]) = (geometry.x, geometry.y);
    let taps: Vec<Tap> = Tap::all(geometry).collect();
    let area = geometry.spec.kernel.0 * geometry.spec.kernel.1;
    let kernels = weights.by_tap(&taps, |plain| by_tap(plain, inputs, area, &taps));
    let (row, field) = (out_w * outputs, out_h * out_w * outputs);
    let [mut sums, mut product] = scratch::take(batch * field, batch * field);
    let sums_of_all = &mut sums[..batch * field];
    sums_of_all
        .par_chunks_mut(row)
        .for_each(|row| row.fill(0.0));
    let mut seen = Vec::new();
    for (index, tap) in taps.iter().enumerate() {
        let kernel = (&kernels[index * inputs..], taps.len() * inputs);
        let x = tap.inputs(geometry, x, &mut seen);
        let (rows, line) = (tap.rows.len(), tap.columns.len() * outputs);
        let sizes = (batch * rows * tap.columns.len(), outputs, inputs);
        let first = tap.rows.start * row + tap.columns.start * outputs;
        if line == row && (batch == 1 || rows == out_h) {
            gemm_of_bf16(sizes, x, kernel, true, &mut sums_of_all[first..])?;
            continue;
        }
        gemm_of_bf16(sizes, x, kernel, false, &mut product)?;
        for (sums, product) in sums_of_all
            .chunks_exact_mut(field)
            .zip(product.chunks_exact(rows * line))
        {
            let seen = sums.par_chunks_exact_mut(row).skip(tap.rows.start);
            (seen.zip(product.par_chunks_exact(line))).for_each(|(sums, product)| {
                let sums = &mut sums[tap.columns.start * outputs..][..line];
                sums.iter_mut().zip(product).for_each(|(s, p)| *s += p);
            });
        }
    }
    let y = finished(sums_of_all, row, outputs, finish);
    scratch::give_back([sums, product]);
    Ok(y)
}

/// The taps of kernels `(out, in, taps)` that read more than padding, as `(out, tap, in)`.
fn by_tap(plain: &[f32], inputs: usize, area: usize, taps: &[Tap]) -> Vec<bf16> {
    let mut kernels = vec![bf16::ZERO; plain.len() / area * taps.len()];
    let outputs = kernels.par_chunks_exact_mut(taps.len() * inputs);
    outputs
        .zip(plain.par_chunks_exact(inputs * area))
        .for_each(|(to, from)| {
            for (to, tap) in to.chunks_exact_mut(inputs).zip(taps) {
                let from = from[tap.index..].iter().step_by(area);
                to.iter_mut()
                    .zip(from)
                    .for_each(|(to, from)| *to = bf16::narrow(*from));
            }
        });
    kernels
}

fn finished<V: Value>(sums: &[f32], row: usize, outputs: usize, finish: Finish<'_, V>) -> Vec<V> {
    let mut y = vec![V::default(); sums.len()];
    let rows = y.par_chunks_exact_mut(row).zip(sums.par_chunks_exact(row));
    rows.enumerate().for_each(|(index, (y, sums))| {
        for (pixel, (y, sums)) in y
            .chunks_exact_mut(outputs)
            .zip(sums.chunks_exact(outputs))
            .enumerate()
        {
            let at = index * row + pixel * outputs;
            for (channel, (y, sum)) in y.iter_mut().zip(sums).enumerate() {
                let bias = finish.bias.map_or(0.0, |bias| bias[channel]);
                let residual = finish.residual.map_or(0.0, |r| r[at + channel].widen());
                let sum = sum + bias + residual;
                *y = V::narrow(if finish.relu { rectified(sum) } else { sum });
            }
        }
    });
    y
}
