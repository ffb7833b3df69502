//! Convolution in time and space, by its definition.
//!
//! y[b, u, p, q, o] = bias[o] + Σ_{k, r, s, i} x[b, u·stride_t + k − padding_t, p·stride + r·dilation − padding, ...,
//! i] · w[k, o, i, r, s]

use crate::ops::conv_spec::source;
use crate::ops::conv3d::Conv3dSpec;

/// Shapes of the input and the output.
type Shapes = ([usize; 5], [usize; 5]);

/// Channel and tap counts.
struct Counts {
    /// Channels of the input, of a group of them, of the output and of a group of those.
    channels: usize,
    in_group: usize,
    out: usize,
    out_group: usize,
    /// The number of spatial taps of the kernel.
    in_plane: usize,
}

impl Counts {
    fn of(spec: &Conv3dSpec, (x, y): Shapes) -> Self {
        let (groups, (kh, kw)) = (spec.plane.groups, spec.plane.kernel);
        Self {
            channels: x[4],
            in_group: x[4] / groups,
            out: y[4],
            out_group: y[4] / groups,
            in_plane: kh * kw,
        }
    }

    /// Tap, output and input of the weight at index `at`.
    fn of_weight(&self, at: usize) -> (usize, usize, usize) {
        let (rest, in_plane) = (at / self.in_plane, at % self.in_plane);
        let (rest, input) = (rest / self.in_group, rest % self.in_group);
        let (k, output) = (rest / self.out, rest % self.out);
        (k * self.in_plane + in_plane, output, input)
    }

    /// The index of a weight in the order tap, output, input.
    fn by_input(&self, at: usize) -> usize {
        let (tap, output, input) = self.of_weight(at);
        (tap * self.out + output) * self.in_group + input
    }

    /// The index of a weight in the order tap, input, output.
    fn by_output(&self, at: usize) -> usize {
        let (tap, output, input) = self.of_weight(at);
        (tap * self.in_group + input) * self.out + output
    }
}

/// Reorders weights.
fn ordered(weights: &[f32], place: impl Fn(usize) -> usize) -> Vec<f64> {
    let mut ordered = vec![0.0; weights.len()];
    for (at, weight) in weights.iter().enumerate() {
        ordered[place(at)] = f64::from(*weight);
    }
    ordered
}

/// Calls `visit` for every output point and every tap that does not read padding there, with the indices of the point,
/// the tap and the input pixel.
fn reads(spec: &Conv3dSpec, (x, y): Shapes, mut visit: impl FnMut(usize, usize, usize)) {
    let ([batch, t, h, w, _], [_, u, p, q, _]) = (x, y);
    let (plane, (kh, kw)) = (spec.plane, spec.plane.kernel);
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
            visit(point, tap, ((sample * t + at) * h + lat) * w + lon);
        }
    }
}

/// The output, by the definition.
pub fn forward(
    x: &[f32],
    weights: &[f32],
    bias: Option<&[f32]>,
    shapes: Shapes,
    spec: &Conv3dSpec,
) -> Vec<f32> {
    let counts = Counts::of(spec, shapes);
    let Counts {
        channels,
        in_group,
        out,
        out_group,
        ..
    } = counts;
    // Ordered by tap, input, output, so that the inner loop runs over all outputs.
    let by_output = ordered(weights, |at| counts.by_output(at));
    let start = |at: usize| bias.map_or(0.0, |bias| f64::from(bias[at % out]));
    let mut y: Vec<f64> = (0..shapes.1.iter().product()).map(start).collect();
    reads(spec, shapes, |point, tap, pixel| {
        let (x, y) = (&x[pixel * channels..], &mut y[point * out..][..out]);
        for i in 0..in_group {
            let of_all = &by_output[(tap * in_group + i) * out..][..out];
            let groups = y.chunks_exact_mut(out_group);
            let groups = groups.zip(of_all.chunks_exact(out_group));
            for (group, (sums, weights)) in groups.enumerate() {
                let value = f64::from(x[group * in_group + i]);
                let pairs = sums.iter_mut().zip(weights);
                pairs.for_each(|(sum, weight)| *sum += value * weight);
            }
        }
    });
    y.into_iter().map(|y| y as f32).collect()
}

/// The gradient ∂L/∂x, derived from the definition.
pub fn backward_data(dy: &[f32], weights: &[f32], shapes: Shapes, spec: &Conv3dSpec) -> Vec<f32> {
    let counts = Counts::of(spec, shapes);
    let Counts {
        channels,
        in_group,
        out,
        out_group,
        ..
    } = counts;
    // Ordered by tap, output, input, so that the inner loop runs over all inputs of an output.
    let by_input = ordered(weights, |at| counts.by_input(at));
    let mut dx = vec![0.0f64; shapes.0.iter().product()];
    reads(spec, shapes, |point, tap, pixel| {
        let dx = &mut dx[pixel * channels..][..channels];
        let of_all = &by_input[tap * out * in_group..][..out * in_group];
        let outputs = dy[point * out..][..out].iter();
        let outputs = outputs.zip(of_all.chunks_exact(in_group));
        for (o, (grad, weights)) in outputs.enumerate() {
            let grad = f64::from(*grad);
            let sums = &mut dx[o / out_group * in_group..][..in_group];
            let pairs = sums.iter_mut().zip(weights);
            pairs.for_each(|(sum, weight)| *sum += grad * weight);
        }
    });
    dx.into_iter().map(|dx| dx as f32).collect()
}

/// Adds ∂L/∂w to `dw`.
pub fn backward_weights(x: &[f32], dy: &[f32], shapes: Shapes, spec: &Conv3dSpec, dw: &mut [f32]) {
    let counts = Counts::of(spec, shapes);
    let Counts {
        channels,
        in_group,
        out,
        out_group,
        ..
    } = counts;
    // Ordered by tap, output, input.
    let mut sums = vec![0.0f64; dw.len()];
    reads(spec, shapes, |point, tap, pixel| {
        let x = &x[pixel * channels..][..channels];
        let of_all = &mut sums[tap * out * in_group..][..out * in_group];
        let outputs = dy[point * out..][..out].iter();
        let outputs = outputs.zip(of_all.chunks_exact_mut(in_group));
        for (o, (grad, sums)) in outputs.enumerate() {
            let grad = f64::from(*grad);
            let inputs = &x[o / out_group * in_group..][..in_group];
            let pairs = sums.iter_mut().zip(inputs);
            pairs.for_each(|(sum, x)| *sum += f64::from(*x) * grad);
        }
    });
    for (at, dw) in dw.iter_mut().enumerate() {
        *dw += sums[counts.by_input(at)] as f32;
    }
}
