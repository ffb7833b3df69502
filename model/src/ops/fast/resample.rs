//! Pooling and bilinear resizing, row by row.

use crate::ops::conv_spec::{PoolSpec, source};
use crate::ops::resample::Axis;
use pulp::Arch;
use rayon::prelude::*;

/// Writes row by row, in the widest vectors of this processor.
fn by_rows(values: &mut [f32], row_len: usize, write: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = values.par_chunks_mut(row_len).enumerate();
    rows.for_each(|(row, values)| {
        Arch::new().dispatch(
            #[inline(always)]
            || write(row, values),
        );
    });
}

/// Largest value of every window, and which cell of the window it was (the first of equals).
pub fn max_pool(x: &[f32], x_shape: [usize; 4], spec: &PoolSpec) -> (Vec<f32>, Vec<u8>) {
    let [batch, height, width, channels] = x_shape;
    let (out_h, out_w) = spec.output_size((height, width));
    let mut y = vec![f32::NEG_INFINITY; batch * out_h * out_w * channels];
    let mut winner = vec![0u8; y.len()];
    let row_len = out_w * channels;
    y.par_chunks_mut(row_len)
        .zip(winner.par_chunks_mut(row_len))
        .enumerate()
        .for_each(|(row, (y, winner))| {
            let (b, p) = (row / out_h, row % out_h);
            Arch::new().dispatch(
                #[inline(always)]
                || {
                    for r in 0..spec.kernel {
                        let Some(h) = source(p, spec.stride, r, spec.padding, height, false) else {
                            continue;
                        };
                        for (q, (y, winner)) in y
                            .chunks_exact_mut(channels)
                            .zip(winner.chunks_exact_mut(channels))
                            .enumerate()
                        {
                            for s in 0..spec.kernel {
                                let Some(w) =
                                    source(q, spec.stride, s, spec.padding, width, spec.periodic)
                                else {
                                    continue;
                                };
                                let x = &x[((b * height + h) * width + w) * channels..][..channels];
                                let cell = (r * spec.kernel + s) as u8;
                                for c in 0..channels {
                                    // The first NaN wins.
                                    let better = x[c] > y[c] || x[c].is_nan() && !y[c].is_nan();
                                    y[c] = if better { x[c] } else { y[c] };
                                    winner[c] = if better { cell } else { winner[c] };
                                }
                            }
                        }
                    }
                },
            );
        });
    (y, winner)
}

/// Every output's gradient goes to the cell that won: gathered per input row, so that rows are independent.
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

/// Two rows are blended, then their columns.
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

/// The transpose: columns are gathered, then rows, so that every input row is written once.
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
