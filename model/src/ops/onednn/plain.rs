//! Geometries that oneDNN must not run: its AVX-512 code (2.6) reads out of bounds or sums the wrong values. No
//! published network has any of them; plain loops run them, or oneDNN in f32. A survey of 150 000 random geometries on
//! a heap filled with garbage found only these (`fields_of_any_geometry` draws more).

use super::Source;
use crate::ops::conv_spec::Convolution;
use crate::ops::elementwise::rectified;
use crate::ops::finish::Finish;
use crate::ops::reference;
use crate::ops::value::Value;
use crate::ops::winograd::Direction;

/// Whether plain loops must run every direction: some window reads only padding without wrapping, or windows with
/// several taps are more than two positions apart and there is padding.
pub fn is_needed(geometry: &Convolution) -> bool {
    let spec = geometry.spec;
    let axis = |kernel: usize, padding: usize, inputs: usize, outputs: usize| {
        let sees = |output: usize| {
            let mut taps = (0..kernel).map(|tap| output * spec.stride + tap * spec.dilation);
            taps.any(|at| (padding..padding + inputs).contains(&at))
        };
        let far = kernel > 1 && spec.stride > 2 && padding > 0;
        far || !(0..outputs).all(sees)
    };
    let ([_, height, width, _], [_, out_h, out_w, _]) = (geometry.x, geometry.y);
    axis(spec.kernel.0, spec.padding.0, height, out_h)
        || axis(spec.kernel.1, spec.padding.1, width, out_w)
}

/// Whether oneDNN must compute a gradient in f32, whatever the storage type.
pub fn must_widen<V: Value>(direction: Direction, geometry: &Convolution) -> bool {
    let (spec, [.., width, inputs]) = (geometry.spec, geometry.x);
    let fails = match direction {
        Direction::Forward => false,
        // One tap and an odd number of outputs: pairs of outputs are read from the wrong pixels.
        Direction::BackwardData => {
            spec.kernel == (1, 1) && !(geometry.y[3] / spec.groups).is_multiple_of(2)
        }
        // Dilated taps with a remainder of channels after whole vectors, or fields narrower than the window.
        Direction::BackwardWeights => {
            spec.dilation > 1 && !(inputs / spec.groups).is_multiple_of(16)
                || spec.stride > 1 && width < (spec.kernel.1 - 1) * spec.dilation + 1
        }
    };
    fails && size_of::<V>() < size_of::<f32>()
}

pub fn widened<V: Value>(values: &[V]) -> Vec<f32> {
    values.iter().map(|value| value.widen()).collect()
}

pub fn narrowed<V: Value>(values: Vec<f32>) -> Vec<V> {
    values.into_iter().map(V::narrow).collect()
}

/// The output of a convolution, + bias, + residual, ReLU.
pub fn forward<V: Value>(
    geometry: &Convolution,
    x: &[V],
    weights: Source<'_>,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let mut y = reference::conv::forward(geometry, &widened(x), &weights.plain(), finish.bias);
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
pub fn backward_data<V: Value>(geometry: &Convolution, dy: &[V], weights: Source<'_>) -> Vec<V> {
    let dx = reference::conv::backward_data(geometry, &widened(dy), &weights.plain());
    narrowed(dx)
}

/// Adds the gradient of the weights to `dw`.
pub fn backward_weights<V: Value>(geometry: &Convolution, x: &[V], dy: &[V], dw: &mut [f32]) {
    reference::conv::backward_weights(geometry, &widened(x), &widened(dy), dw);
}
