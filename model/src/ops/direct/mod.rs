//! Convolutions of any kernel, stride and dilation (one group) as matrix products over lines of pixels, without copying
//! the field. Zero padding is a shared line of zeros, wrapping changes only the start of a line, and the zeros that a
//! stride inserts between the pixels of a gradient are never multiplied.

mod axis;
mod forward;
mod panels;
#[cfg(test)]
mod tests;
mod weights;

pub use panels::Panels;

use super::conv_spec::Convolution;
use super::finish::Finish;
use super::gemm;
use super::value::Value;
use axis::Axis;
use forward::Geometry;

/// Whether these loops should run the convolution. Compared with oneDNN (AVX2) they are two to six times faster for
/// strided kernels and skip atrous taps that read only padding, but are slower for few channels. Depends on the
/// geometry alone.
pub fn pays(conv: &Convolution) -> bool {
    let (spec, y) = (&conv.spec, conv.y);
    let taps = spec.kernel.0 * spec.kernel.1;
    if taps == 1 || conv.x[3].min(y[3]) < 32 || !gemm::is_fast() {
        return false;
    }
    let all = taps * y[1] * y[2];
    pairs(conv).is_some_and(|pairs| spec.stride > 1 || pairs * 4 < all * 3)
}

/// The number of (output pixel, tap) pairs whose tap does not read padding, each of which costs one multiplication per
/// pair of channels. `None` if these loops cannot run the convolution. The gradient of the input has the same pairs.
pub fn pairs(conv: &Convolution) -> Option<usize> {
    let Geometry { rows, columns, .. } = geometry(conv);
    fits(conv).then(|| rows.seen(conv.y[1]) * columns.seen(conv.y[2]))
}

/// Whether these loops can run the convolution: a field that wraps must be exactly as wide as the output times the
/// stride.
fn fits(conv: &Convolution) -> bool {
    let spec = &conv.spec;
    spec.groups == 1 && (!spec.periodic || conv.x[2] == conv.y[2] * spec.stride)
}

fn geometry(conv: &Convolution) -> Geometry {
    let Convolution { spec, x, y } = conv;
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
    conv: &Convolution,
    x: &[f32],
    panels: &Panels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    forward::convolve(&geometry(conv), conv.x[0], x, panels, finish)
}

/// The gradient of x.
pub fn backward_data<V: Value>(
    conv: &Convolution,
    dy: &[f32],
    panels: &Panels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let Convolution { spec, x, y } = conv;
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
pub fn add_backward_weights<V: Value>(conv: &Convolution, x: &[V], dy: &[V], dw: &mut [f32]) {
    let channels = (conv.x[3], conv.y[3]);
    weights::add_gradient(&geometry(conv), conv.x[0], x, dy, channels, dw);
}
