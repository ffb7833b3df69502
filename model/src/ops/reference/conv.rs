//! Convolution, by its definition.
//!
//! y[b, p, q, o] = bias[o] + Σ_{r, s, i} x[b, p·stride + r·dilation − padding, ..., i] · w[o, i, r, s]

use crate::ops::conv_spec::{Convolution, source};
use rayon::prelude::*;

/// The input positions that the taps read.
struct Places {
    kernel: (usize, usize),
    /// For each output row and kernel row.
    rows: Vec<Option<usize>>,
    /// For each output column and kernel column.
    columns: Vec<Option<usize>>,
}

impl Places {
    fn of(conv: &Convolution) -> Self {
        let spec = &conv.spec;
        let ([_, height, width, _], [_, out_h, out_w, _]) = (conv.x, conv.y);
        let (kh, kw) = spec.kernel;
        let row = |at: usize| {
            let offset = at % kh * spec.dilation;
            source(at / kh, spec.stride, offset, spec.padding.0, height, false)
        };
        let column = |at: usize| {
            let (offset, wrap) = (at % kw * spec.dilation, spec.periodic);
            source(at / kw, spec.stride, offset, spec.padding.1, width, wrap)
        };
        Self {
            kernel: spec.kernel,
            rows: (0..out_h * kh).map(row).collect(),
            columns: (0..out_w * kw).map(column).collect(),
        }
    }

    /// Calls `visit` for every tap of output point `(p, q)` that does not read padding, with the tap's index and the
    /// input row and column that it reads.
    fn visit(&self, (p, q): (usize, usize), mut visit: impl FnMut(usize, usize, usize)) {
        let (kh, kw) = self.kernel;
        for (r, h) in self.rows[p * kh..][..kh].iter().enumerate() {
            let Some(h) = *h else { continue };
            for (s, w) in self.columns[q * kw..][..kw].iter().enumerate() {
                if let Some(w) = *w {
                    visit(r * kw + s, h, w);
                }
            }
        }
    }
}

/// y by the definition. Shapes: x `(b, h, w, c)`, weights `(o, c / groups, kh, kw)`, y `(b, p, q, o)`.
pub fn forward(conv: &Convolution, x: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let (spec, x_shape, y_shape) = (&conv.spec, conv.x, conv.y);
    let [_, height, width, channels] = x_shape;
    let [_, out_h, out_w, out] = y_shape;
    let (in_group, out_group) = (channels / spec.groups, out / spec.groups);
    let taps = spec.kernel.0 * spec.kernel.1;
    // Ordered by tap, input, output, so that the inner loop runs over all outputs.
    let mut by_output = vec![0.0f64; weights.len()];
    for (at, weight) in weights.iter().enumerate() {
        let (o, i, tap) = (at / taps / in_group, at / taps % in_group, at % taps);
        by_output[(tap * in_group + i) * out + o] = f64::from(*weight);
    }
    let places = Places::of(conv);
    let mut y = vec![0.0; y_shape.iter().product()];
    y.par_chunks_mut(out_w * out)
        .enumerate()
        .for_each(|(row, y_row)| {
            let (b, p) = (row / out_h, row % out_h);
            let mut sums = vec![0.0f64; out];
            for (q, y_pixel) in y_row.chunks_exact_mut(out).enumerate() {
                for (o, sum) in sums.iter_mut().enumerate() {
                    *sum = bias.map_or(0.0, |bias| f64::from(bias[o]));
                }
                places.visit((p, q), |tap, h, w| {
                    let pixel = &x[((b * height + h) * width + w) * channels..][..channels];
                    for i in 0..in_group {
                        let of_all = &by_output[(tap * in_group + i) * out..][..out];
                        let groups = sums.chunks_exact_mut(out_group);
                        let groups = groups.zip(of_all.chunks_exact(out_group));
                        for (group, (sums, weights)) in groups.enumerate() {
                            let value = f64::from(pixel[group * in_group + i]);
                            let pairs = sums.iter_mut().zip(weights);
                            pairs.for_each(|(sum, weight)| *sum += value * weight);
                        }
                    }
                });
                (y_pixel.iter_mut().zip(&sums)).for_each(|(y, sum)| *y = *sum as f32);
            }
        });
    y
}

/// ∂L/∂x by the definition: the transpose of the forward sum.
pub fn backward_data(conv: &Convolution, dy: &[f32], weights: &[f32]) -> Vec<f32> {
    let (spec, x_shape, y_shape) = (&conv.spec, conv.x, conv.y);
    let [_, height, width, channels] = x_shape;
    let [_, out_h, out_w, out] = y_shape;
    let (in_group, out_group) = (channels / spec.groups, out / spec.groups);
    let taps = spec.kernel.0 * spec.kernel.1;
    // Ordered by tap, output, input, so that the inner loop runs over all inputs of an output.
    let mut by_input = vec![0.0f64; weights.len()];
    for (at, weight) in weights.iter().enumerate() {
        let (o, i, tap) = (at / taps / in_group, at / taps % in_group, at % taps);
        by_input[(tap * out + o) * in_group + i] = f64::from(*weight);
    }
    let places = Places::of(conv);
    let mut dx = vec![0.0; x_shape.iter().product()];
    dx.par_chunks_mut(height * width * channels)
        .enumerate()
        .for_each(|(b, dx_sample)| {
            let mut sums = vec![0.0f64; dx_sample.len()];
            for (p, q) in (0..out_h).flat_map(|p| (0..out_w).map(move |q| (p, q))) {
                let dy_pixel = &dy[((b * out_h + p) * out_w + q) * out..][..out];
                places.visit((p, q), |tap, h, w| {
                    let pixel = &mut sums[(h * width + w) * channels..][..channels];
                    let of_all = &by_input[tap * out * in_group..][..out * in_group];
                    let outputs = dy_pixel.iter().zip(of_all.chunks_exact(in_group));
                    for (o, (grad, weights)) in outputs.enumerate() {
                        let grad = f64::from(*grad);
                        let sums = &mut pixel[o / out_group * in_group..][..in_group];
                        let pairs = sums.iter_mut().zip(weights);
                        pairs.for_each(|(sum, weight)| *sum += grad * weight);
                    }
                });
            }
            dx_sample
                .iter_mut()
                .zip(sums)
                .for_each(|(dx, sum)| *dx = sum as f32);
        });
    dx
}

/// Adds ∂L/∂w to `dw`.
pub fn backward_weights(conv: &Convolution, x: &[f32], dy: &[f32], dw: &mut [f32]) {
    let (spec, x_shape, y_shape) = (&conv.spec, conv.x, conv.y);
    let [batch, height, width, channels] = x_shape;
    let [_, out_h, out_w, out] = y_shape;
    let (in_group, out_group) = (channels / spec.groups, out / spec.groups);
    let taps = spec.kernel.0 * spec.kernel.1;
    let places = Places::of(conv);
    dw.par_chunks_mut(in_group * taps)
        .enumerate()
        .for_each(|(o, dw_out)| {
            let first = o / out_group * in_group;
            // Ordered by tap and input.
            let mut sums = vec![0.0f64; dw_out.len()];
            for (b, p) in (0..batch).flat_map(|b| (0..out_h).map(move |p| (b, p))) {
                for q in 0..out_w {
                    let grad = f64::from(dy[((b * out_h + p) * out_w + q) * out + o]);
                    places.visit((p, q), |tap, h, w| {
                        let pixel = ((b * height + h) * width + w) * channels + first;
                        let sums = sums[tap * in_group..][..in_group].iter_mut();
                        let pairs = sums.zip(&x[pixel..][..in_group]);
                        pairs.for_each(|(sum, x)| *sum += grad * f64::from(*x));
                    });
                }
            }
            for (at, dw) in dw_out.iter_mut().enumerate() {
                *dw += sums[at % taps * in_group + at / taps] as f32;
            }
        });
}
