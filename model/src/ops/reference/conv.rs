//! Convolution, as its definition says.
//!
//! y[b, p, q, o] = bias[o] + Σ_{r, s, i} x[b, p·stride + r·dilation − padding, ..., i] · w[o, i, r, s]

use crate::ops::conv_spec::{ConvSpec, Convolution, source};
use rayon::prelude::*;

/// The positions of one convolution: calls `visit` for every tap of output point `(p, q)` with the tap's row and column
/// in the kernel, and the row and column of the input that it reads.
fn taps(
    spec: &ConvSpec,
    x: [usize; 4],
    p: usize,
    q: usize,
    mut visit: impl FnMut(usize, usize, usize, usize),
) {
    let [_, height, width, _] = x;
    for r in 0..spec.kernel.0 {
        let Some(h) = source(
            p,
            spec.stride,
            r * spec.dilation,
            spec.padding.0,
            height,
            false,
        ) else {
            continue;
        };
        for s in 0..spec.kernel.1 {
            let column = source(
                q,
                spec.stride,
                s * spec.dilation,
                spec.padding.1,
                width,
                spec.periodic,
            );
            if let Some(w) = column {
                visit(r, s, h, w);
            }
        }
    }
}

/// y of the definition. Shapes: x `(b, h, w, c)`, weights `(o, c / groups, kh, kw)`, y `(b, p, q, o)`.
pub fn forward(conv: &Convolution, x: &[f32], weights: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let (spec, x_shape, y_shape) = (&conv.spec, conv.x, conv.y);
    let [_, height, width, channels] = x_shape;
    let [_, out_h, out_w, out] = y_shape;
    let (in_group, out_group) = (channels / spec.groups, out / spec.groups);
    let (kh, kw) = spec.kernel;
    let mut y = vec![0.0; y_shape.iter().product()];
    y.par_chunks_mut(out_w * out)
        .enumerate()
        .for_each(|(row, y_row)| {
            let (b, p) = (row / out_h, row % out_h);
            for q in 0..out_w {
                for o in 0..out {
                    let mut sum = bias.map_or(0.0, |bias| f64::from(bias[o]));
                    let first = o / out_group * in_group;
                    taps(spec, x_shape, p, q, |r, s, h, w| {
                        let pixel = ((b * height + h) * width + w) * channels + first;
                        for i in 0..in_group {
                            let weight = weights[((o * in_group + i) * kh + r) * kw + s];
                            sum += f64::from(x[pixel + i]) * f64::from(weight);
                        }
                    });
                    y_row[q * out + o] = sum as f32;
                }
            }
        });
    y
}

/// ∂L/∂x of the definition: every product of the sum, read the other way.
pub fn backward_data(conv: &Convolution, dy: &[f32], weights: &[f32]) -> Vec<f32> {
    let (spec, x_shape, y_shape) = (&conv.spec, conv.x, conv.y);
    let [_, height, width, channels] = x_shape;
    let [_, out_h, out_w, out] = y_shape;
    let (in_group, out_group) = (channels / spec.groups, out / spec.groups);
    let (kh, kw) = spec.kernel;
    let mut dx = vec![0.0; x_shape.iter().product()];
    dx.par_chunks_mut(height * width * channels)
        .enumerate()
        .for_each(|(b, dx_sample)| {
            let mut sums = vec![0.0f64; dx_sample.len()];
            for (p, q) in (0..out_h).flat_map(|p| (0..out_w).map(move |q| (p, q))) {
                let dy_pixel = &dy[((b * out_h + p) * out_w + q) * out..][..out];
                taps(spec, x_shape, p, q, |r, s, h, w| {
                    let pixel = (h * width + w) * channels;
                    for (o, &grad) in dy_pixel.iter().enumerate() {
                        let first = o / out_group * in_group;
                        for i in 0..in_group {
                            let weight = weights[((o * in_group + i) * kh + r) * kw + s];
                            sums[pixel + first + i] += f64::from(grad) * f64::from(weight);
                        }
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
    let (kh, kw) = spec.kernel;
    dw.par_chunks_mut(in_group * kh * kw)
        .enumerate()
        .for_each(|(o, dw_out)| {
            let first = o / out_group * in_group;
            let mut sums = vec![0.0f64; dw_out.len()];
            for (b, p) in (0..batch).flat_map(|b| (0..out_h).map(move |p| (b, p))) {
                for q in 0..out_w {
                    let grad = f64::from(dy[((b * out_h + p) * out_w + q) * out + o]);
                    taps(spec, x_shape, p, q, |r, s, h, w| {
                        let pixel = ((b * height + h) * width + w) * channels + first;
                        for i in 0..in_group {
                            sums[(i * kh + r) * kw + s] += grad * f64::from(x[pixel + i]);
                        }
                    });
                }
            }
            dw_out
                .iter_mut()
                .zip(sums)
                .for_each(|(dw, sum)| *dw += sum as f32);
        });
}
