//! Geometries that oneDNN must not see: windows that lie in the padding from end to end, and windows of several taps with gaps
//! between them beside padding. Its AVX-512 code (2.6) reads memory that is not its own in the first (`brgconv`) and gives wrong sums
//! in the second (3 taps every 6 columns of 15, padded by 2). No network has any, so plain loops run them.

use super::Source;
use crate::ops::conv::Pass;
use crate::ops::elementwise::rectified;
use crate::ops::finish::Finish;
use crate::ops::reference;
use crate::ops::value::Value;

/// Whether some window of a pass reads padding only, longitude not wrapped, or windows leave gaps beside padding.
pub fn is_needed(pass: &Pass<'_>) -> bool {
    let spec = pass.spec;
    let axis = |kernel: usize, padding: usize, inputs: usize, outputs: usize| {
        let sees = |output: usize| {
            let mut taps = (0..kernel).map(|tap| output * spec.stride + tap * spec.dilation);
            taps.any(|at| (padding..padding + inputs).contains(&at))
        };
        let gaps = kernel > 1 && spec.stride > (kernel - 1) * spec.dilation + 1;
        gaps && padding > 0 || !(0..outputs).all(sees)
    };
    let ([_, height, width, _], [_, out_h, out_w, _]) = (pass.x_shape, pass.y_shape);
    axis(spec.kernel.0, spec.padding.0, height, out_h)
        || axis(spec.kernel.1, spec.padding.1, width, out_w)
}

fn widened<V: Value>(values: &[V]) -> Vec<f32> {
    values.iter().map(|value| value.widen()).collect()
}

fn narrowed<V: Value>(values: Vec<f32>) -> Vec<V> {
    values.into_iter().map(V::narrow).collect()
}

/// The output of a convolution, + bias, + residual, ReLU.
pub fn forward<V: Value>(
    pass: &Pass<'_>,
    x: &[V],
    weights: Source<'_>,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let (w, y_shape) = (weights.plain, pass.y_shape);
    let x = widened(x);
    let mut y = reference::conv::forward(&x, pass.x_shape, w, finish.bias, y_shape, pass.spec);
    if let Some(residual) = finish.residual {
        y.iter_mut()
            .zip(residual)
            .for_each(|(y, r)| *y += r.widen());
    }
    if finish.relu {
        y.iter_mut().for_each(|y| *y = rectified(*y));
    }
    narrowed(y)
}

/// The gradient of the input.
pub fn backward_data<V: Value>(pass: &Pass<'_>, dy: &[V], weights: Source<'_>) -> Vec<V> {
    let (w, x_shape) = (weights.plain, pass.x_shape);
    let dx = reference::conv::backward_data(&widened(dy), pass.y_shape, w, x_shape, pass.spec);
    narrowed(dx)
}

/// Adds the gradient of the weights to `dw`.
pub fn backward_weights<V: Value>(pass: &Pass<'_>, x: &[V], dy: &[V], dw: &mut [f32]) {
    let (x_shape, y_shape) = (pass.x_shape, pass.y_shape);
    let (x, dy) = (widened(x), widened(dy));
    reference::conv::backward_weights(&x, x_shape, &dy, y_shape, pass.spec, dw);
}
