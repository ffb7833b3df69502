//! Depthwise convolution by loops of our own: rows in parallel, channels innermost.
//!
//! Forward and backward-data are the same loop over different tables, which list for every row and column of the result
//! the rows and columns that it reads and the taps. Stride, dilation, padding and wrapping are all encoded in the
//! tables.

use super::CHUNK;
use crate::ops::conv_spec::{ConvSpec, Convolution, source};
use rayon::prelude::*;

/// For every position of one axis, the (position read, tap) pairs.
type Table = Vec<Vec<(usize, usize)>>;

/// Channels whose sums are kept in registers at a time.
const LANES: usize = 16;

/// The pairs of every output position.
fn reads(spec: &ConvSpec, inputs: usize, outputs: usize, latitude: bool) -> Table {
    let (kernel, padding, wrap) = if latitude {
        (spec.kernel.0, spec.padding.0, false)
    } else {
        (spec.kernel.1, spec.padding.1, spec.periodic)
    };
    let position = |p: usize| {
        let tap = |r: usize| {
            let at = source(p, spec.stride, r * spec.dilation, padding, inputs, wrap)?;
            Some((at, r))
        };
        (0..kernel).filter_map(tap).collect()
    };
    (0..outputs).map(position).collect()
}

/// The same pairs, listed by the position that is read.
fn transposed(table: &Table, inputs: usize) -> Table {
    let mut readers = vec![Vec::new(); inputs];
    for (p, reads) in table.iter().enumerate() {
        reads
            .iter()
            .for_each(|&(at, tap)| readers[at].push((p, tap)));
    }
    readers
}

/// Weights `(c, 1, kh, kw)` with channels innermost: `(kh · kw, c)`.
fn taps_first(weights: &[f32], channels: usize) -> Vec<f32> {
    let taps = weights.len() / channels;
    let mut turned = vec![0.0; weights.len()];
    for (c, kernel) in weights.chunks_exact(taps).enumerate() {
        kernel
            .iter()
            .enumerate()
            .for_each(|(tap, w)| turned[tap * channels + c] = *w);
    }
    turned
}

/// result[row, column] = Σ over the pairs of both tables of values[·] · weights[tap].
fn gather(
    values: &[f32],
    [batch, height, width, channels]: [usize; 4],
    weights: &[f32],
    kernel_width: usize,
    (rows, columns): (&Table, &Table),
) -> Vec<f32> {
    let mut result = vec![0.0; batch * rows.len() * columns.len() * channels];
    result
        .par_chunks_mut(columns.len() * channels)
        .enumerate()
        .for_each(|(row, result)| {
            let (b, p) = (row / rows.len(), row % rows.len());
            let mut pairs = Vec::new();
            for (pixel, columns) in result.chunks_exact_mut(channels).zip(columns) {
                pairs.clear();
                for &(h, r) in &rows[p] {
                    let start = (b * height + h) * width;
                    pairs.extend(columns.iter().map(|&(w, s)| {
                        let (at, tap) = ((start + w) * channels, r * kernel_width + s);
                        (
                            &values[at..][..channels],
                            &weights[tap * channels..][..channels],
                        )
                    }));
                }
                let whole = channels / LANES * LANES;
                for first in (0..whole).step_by(LANES) {
                    let mut sum = [0.0f32; LANES];
                    for (value, weight) in &pairs {
                        let (value, weight) = (&value[first..][..LANES], &weight[first..][..LANES]);
                        for lane in 0..LANES {
                            sum[lane] += value[lane] * weight[lane];
                        }
                    }
                    pixel[first..][..LANES].copy_from_slice(&sum);
                }
                for (value, weight) in &pairs {
                    for c in whole..channels {
                        pixel[c] += value[c] * weight[c];
                    }
                }
            }
        });
    result
}

/// y. Shapes: x `(b, h, w, c)`, weights `(c, 1, kh, kw)`, y `(b, p, q, c)`.
pub fn forward(conv: &Convolution, x: &[f32], weights: &[f32]) -> Vec<f32> {
    let (spec, x_shape, y_shape) = (&conv.spec, conv.x, conv.y);
    let rows = reads(spec, x_shape[1], y_shape[1], true);
    let columns = reads(spec, x_shape[2], y_shape[2], false);
    let weights = taps_first(weights, x_shape[3]);
    gather(x, x_shape, &weights, spec.kernel.1, (&rows, &columns))
}

/// ∂L/∂x.
pub fn backward_data(conv: &Convolution, dy: &[f32], weights: &[f32]) -> Vec<f32> {
    let (spec, x_shape, y_shape) = (&conv.spec, conv.x, conv.y);
    let rows = reads(spec, x_shape[1], y_shape[1], true);
    let columns = reads(spec, x_shape[2], y_shape[2], false);
    let tables = (
        &transposed(&rows, x_shape[1]),
        &transposed(&columns, x_shape[2]),
    );
    let weights = taps_first(weights, x_shape[3]);
    gather(dy, y_shape, &weights, spec.kernel.1, tables)
}

/// Adds ∂L/∂w to `dw`. Rows are summed in chunks that do not depend on the number of threads.
pub fn backward_weights(conv: &Convolution, x: &[f32], dy: &[f32], dw: &mut [f32]) {
    let spec = &conv.spec;
    let ([_, height, width, channels], [batch, out_h, out_w, _]) = (conv.x, conv.y);
    let rows = reads(spec, height, out_h, true);
    let columns = reads(spec, width, out_w, false);
    // Ordered by tap: the (output column, input column) pairs, so that one tap's sums stay in the cache.
    let mut by_tap = vec![Vec::new(); spec.kernel.1];
    for (q, reads) in columns.iter().enumerate() {
        reads.iter().for_each(|&(w, s)| by_tap[s].push((q, w)));
    }
    let per_chunk = (CHUNK / (out_w * channels)).clamp(1, 16);
    let lines = batch * out_h;
    let partial = |chunk: usize| {
        let mut sums = vec![0.0f32; dw_len(spec, channels)];
        for line in chunk * per_chunk..lines.min((chunk + 1) * per_chunk) {
            let (b, p) = (line / out_h, line % out_h);
            let dy = &dy[line * out_w * channels..][..out_w * channels];
            for &(h, r) in &rows[p] {
                let x = &x[(b * height + h) * width * channels..][..width * channels];
                for (s, pairs) in by_tap.iter().enumerate() {
                    let sums = &mut sums[(r * spec.kernel.1 + s) * channels..][..channels];
                    add_products(sums, x, dy, pairs);
                }
            }
        }
        sums
    };
    let partials: Vec<Vec<f32>> = (0..lines.div_ceil(per_chunk))
        .into_par_iter()
        .map(partial)
        .collect();
    let taps = spec.kernel.0 * spec.kernel.1;
    for (index, dw) in dw.iter_mut().enumerate() {
        let at = index % taps * channels + index / taps;
        let sum: f64 = partials.iter().map(|part| f64::from(part[at])).sum();
        *dw += sum as f32;
    }
}

fn dw_len(spec: &ConvSpec, channels: usize) -> usize {
    spec.kernel.0 * spec.kernel.1 * channels
}

/// Adds Σ over pairs (q, w) of dy[q] · x[w], per channel.
fn add_products(sums: &mut [f32], x: &[f32], dy: &[f32], pairs: &[(usize, usize)]) {
    let channels = sums.len();
    let whole = channels / LANES * LANES;
    for first in (0..whole).step_by(LANES) {
        let mut sum = [0.0f32; LANES];
        for &(q, w) in pairs {
            let value = &x[w * channels + first..][..LANES];
            let grad = &dy[q * channels + first..][..LANES];
            for lane in 0..LANES {
                sum[lane] += value[lane] * grad[lane];
            }
        }
        sums[first..][..LANES]
            .iter_mut()
            .zip(sum)
            .for_each(|(total, sum)| *total += sum);
    }
    for &(q, w) in pairs {
        for c in whole..channels {
            sums[c] += x[w * channels + c] * dy[q * channels + c];
        }
    }
}
