//! Convolutions of any kernel, stride and dilation (one group) as matrix products over lines of pixels, without copies
//! of the field: zero padding is a line of zeros, a field that wraps is a matter of where a line begins, and the zeros
//! that a stride puts between the pixels of a gradient are never multiplied.

mod axis;
mod forward;
mod panels;
#[cfg(test)]
mod tests;
mod weights;

pub use panels::Panels;

use super::conv_spec::ConvSpec;
use super::finish::Finish;
use super::gemm;
use super::value::Value;
use axis::Axis;
use forward::Geometry;

/// Whether these loops should run the convolution: they are two to six times faster than oneDNN's (AVX2) where kernels
/// stride, they leave out atrous taps that see nothing but padding, and they are slower for few channels. A function of
/// the geometry alone.
pub fn pays(spec: &ConvSpec, x: [usize; 4], y: [usize; 4]) -> bool {
    let taps = spec.kernel.0 * spec.kernel.1;
    if taps == 1 || x[3].min(y[3]) < 32 || !gemm::is_fast() {
        return false;
    }
    let all = taps * y[1] * y[2];
    pairs(spec, x, y).is_some_and(|pairs| spec.stride > 1 || pairs * 4 < all * 3)
}

/// Pairs of a pixel and a tap that reads it, where the rest is padding: what these loops multiply, once for each pair
/// of channels. None if they cannot run it. The gradient of the input has the same pairs.
pub fn pairs(spec: &ConvSpec, x: [usize; 4], y: [usize; 4]) -> Option<usize> {
    let Geometry { rows, columns, .. } = geometry(spec, x, y);
    fits(spec, x, y).then(|| rows.seen(y[1]) * columns.seen(y[2]))
}

/// Whether these loops can: fields that wrap must be as wide as their strides say.
fn fits(spec: &ConvSpec, x: [usize; 4], y: [usize; 4]) -> bool {
    spec.groups == 1 && (!spec.periodic || x[2] == y[2] * spec.stride)
}

fn geometry(spec: &ConvSpec, x: [usize; 4], y: [usize; 4]) -> Geometry {
    Geometry {
        rows: Axis::forward(spec, spec.kernel.0, spec.padding.0, x[1], false),
        columns: Axis::forward(spec, spec.kernel.1, spec.padding.1, x[2], spec.periodic),
        input: (x[1], x[2]),
        output: (y[1], y[2]),
        kernel_width: spec.kernel.1,
    }
}

/// The convolution of x.
pub fn forward<V: Value>(
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    x: &[f32],
    panels: &Panels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    forward::convolve(
        &geometry(spec, x_shape, y_shape),
        x_shape[0],
        x,
        panels,
        finish,
    )
}

/// The gradient of x.
pub fn backward_data<V: Value>(
    spec: &ConvSpec,
    (x, y): ([usize; 4], [usize; 4]),
    dy: &[f32],
    panels: &Panels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let geometry = Geometry {
        rows: Axis::backward(spec, spec.kernel.0, spec.padding.0, y[1], false),
        columns: Axis::backward(spec, spec.kernel.1, spec.padding.1, y[2], spec.periodic),
        input: (y[1], y[2]),
        output: (x[1], x[2]),
        kernel_width: spec.kernel.1,
    };
    forward::convolve(&geometry, x[0], dy, panels, finish)
}

/// Adds the gradient of the weights to `dw`.
pub fn add_backward_weights<V: Value>(
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    x: &[V],
    dy: &[V],
    dw: &mut [f32],
) {
    let geometry = geometry(spec, x_shape, y_shape);
    weights::add_gradient(&geometry, x_shape[0], x, dy, (x_shape[3], y_shape[3]), dw);
}
