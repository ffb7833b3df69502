//! Convolution in time and space, as its definition says.
//!
//! y[b, u, p, q, o] = bias[o] + Σ_{k, r, s, i} x[b, u·stride_t + k − padding_t, p·stride + r·dilation − padding, ...,
//! i] · w[k, o, i, r, s]

use crate::ops::conv_spec::source;
use crate::ops::conv3d::Conv3dSpec;

/// Shapes of the input and the output.
type Shapes = ([usize; 5], [usize; 5]);

/// Calls `visit` with every product of the sum: places in x, y and the weights.
fn products(spec: &Conv3dSpec, (x, y): Shapes, mut visit: impl FnMut(usize, usize, usize)) {
    let ([batch, t, h, w, c], [_, u, p, q, o]) = (x, y);
    let (plane, (kh, kw)) = (spec.plane, spec.plane.kernel);
    let (in_group, out_group) = (c / plane.groups, o / plane.groups);
    for point in 0..batch * u * p * q {
        let (column, row) = (point % q, point / q % p);
        let (frame, sample) = (point / q / p % u, point / q / p / u);
        for tap in 0..spec.kernel_t * kh * kw {
            let (k, r, s) = (tap / (kh * kw), tap / kw % kh, tap % kw);
            let at = spec.frame(frame, k, t);
            let (d, pad) = (plane.dilation, plane.padding);
            let lat = source(row, plane.stride, r * d, pad.0, h, false);
            let lon = source(column, plane.stride, s * d, pad.1, w, plane.periodic);
            let (Some(at), Some(lat), Some(lon)) = (at, lat, lon) else {
                continue;
            };
            let pixel = ((sample * t + at) * h + lat) * w + lon;
            for out in 0..o {
                let first = out / out_group * in_group;
                for i in 0..in_group {
                    let weight = (((k * o + out) * in_group + i) * kh + r) * kw + s;
                    visit(pixel * c + first + i, point * o + out, weight);
                }
            }
        }
    }
}

/// The output, as the definition has it.
pub fn forward(
    x: &[f32],
    weights: &[f32],
    bias: Option<&[f32]>,
    shapes: Shapes,
    spec: &Conv3dSpec,
) -> Vec<f32> {
    let channels = shapes.1[4];
    let start = |at: usize| bias.map_or(0.0, |bias| f64::from(bias[at % channels]));
    let mut y: Vec<f64> = (0..shapes.1.iter().product()).map(start).collect();
    products(spec, shapes, |from, to, weight| {
        y[to] += f64::from(x[from]) * f64::from(weights[weight]);
    });
    y.into_iter().map(|y| y as f32).collect()
}

/// The gradient ∂L/∂x, as it follows from the definition.
pub fn backward_data(dy: &[f32], weights: &[f32], shapes: Shapes, spec: &Conv3dSpec) -> Vec<f32> {
    let mut dx = vec![0.0f64; shapes.0.iter().product()];
    products(spec, shapes, |from, to, weight| {
        dx[from] += f64::from(dy[to]) * f64::from(weights[weight]);
    });
    dx.into_iter().map(|dx| dx as f32).collect()
}

/// Adds ∂L/∂w to `dw`.
pub fn backward_weights(x: &[f32], dy: &[f32], shapes: Shapes, spec: &Conv3dSpec, dw: &mut [f32]) {
    let mut sums = vec![0.0f64; dw.len()];
    products(spec, shapes, |from, to, weight| {
        sums[weight] += f64::from(x[from]) * f64::from(dy[to]);
    });
    dw.iter_mut()
        .zip(sums)
        .for_each(|(dw, sum)| *dw += sum as f32);
}
