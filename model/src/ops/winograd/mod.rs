//! 3x3 convolutions of stride 1 with a quarter of the multiplications: Winograd's F(4x4, 3x3), all three directions.
//!
//! Outputs are computed in tiles of 4x4 from 6x6 inputs. Both are transformed to 36 points, where the convolution is a
//! product per point: 36 instead of 144 multiplications per tile and channel pair. Channels are innermost, so transforms
//! are plain vector code. Dilated kernels are convolutions of interleaved fields ([`tiles`]), and a field that wraps is a
//! matter of where a tile reads: neither needs a copy.
//!
//! Errors are about 1.3e-6 (relative, f32, 256 channels), four times those of direct sums; `backend_parity.rs` holds them
//! below 1e-5. Arithmetic is f32 for every way of storing.
//!
//! # Source
//! Lavin and Gray 2016 (arXiv:1509.09308).

mod forward;
mod kernels;
#[cfg(test)]
mod tests;
mod tiles;
mod transform;
mod weights;

pub use kernels::Kernels;

use super::conv_spec::ConvSpec;
use super::finish::Finish;
use super::value::Value;
use super::{direct, gemm};
use forward::Geometry;
use tiles::Axis;

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    BackwardData,
    BackwardWeights,
}

/// Whether these loops are faster than a direct convolution. A function of the geometry and the kind of processor, never
/// of a timing, so that two runs of one recipe give the same bits; nor of the batch, so that a sample's result does not depend
/// on what it is computed with.
pub fn pays(spec: &ConvSpec, x: [usize; 4], y: [usize; 4], direction: Direction) -> bool {
    let fits = spec.kernel == (3, 3) && spec.stride == 1 && spec.groups == 1;
    let fits = fits && (!spec.periodic || x[2] == y[2]);
    // The gradient of the input pads by what the kernel has left over.
    let backward = direction == Direction::BackwardData;
    if !fits || backward && !can_turn(spec) || !gemm::is_fast() {
        return false;
    }
    let (inputs, outputs) = (x[3] as f64, y[3] as f64);
    let pixels = (y[1] * y[2]) as f64;
    let geometry = geometry(spec, x, y, direction);
    let tiles = (geometry.rows.starts.len() * geometry.columns.starts.len()) as f64;
    // Costs in multiply-adds. Transforms cost about as much per value as so many multiply-adds (measured).
    // Direct loops leave out the padding that atrous taps see, but for the gradient of the kernels.
    let pairs = direct::pairs(spec, x, y).filter(|_| direction != Direction::BackwardWeights);
    let direct = pairs.map_or(9.0 * pixels, |pairs| pairs as f64) * inputs * outputs;
    let products = 36.0 * tiles * inputs * outputs;
    let transforms = 36.0 * TRANSFORM * (tiles * (inputs + outputs) + KERNELS * inputs * outputs);
    inputs >= 8.0 && outputs >= 8.0 && products + transforms < direct * MARGIN
}

/// Multiply-adds that take as long as transforming, writing and reading one point of one channel.
const TRANSFORM: f64 = 16.0;
/// Points of a kernel cost this much more than those of a tile: they are written once and read once per group of tiles.
const KERNELS: f64 = 1.0;
/// Direct convolutions run nearer to the peak.
const MARGIN: f64 = 0.9;

/// Whether the gradient of the input is such a convolution too: its padding must not be negative.
fn can_turn(spec: &ConvSpec) -> bool {
    let reach = 2 * spec.dilation;
    spec.padding.0 <= reach && spec.padding.1 <= reach
}

fn geometry(spec: &ConvSpec, x: [usize; 4], y: [usize; 4], direction: Direction) -> Geometry {
    let turned = direction == Direction::BackwardData;
    let (from, to) = if turned { (y, x) } else { (x, y) };
    let axis = |index: usize, padding: usize, wraps: bool| {
        let padding = if turned {
            2 * spec.dilation - padding
        } else {
            padding
        };
        Axis::new(to[index], from[index], spec.dilation, padding, wraps)
    };
    Geometry {
        batch: x[0],
        rows: axis(1, spec.padding.0, false),
        columns: axis(2, spec.padding.1, spec.periodic),
        input: (from[1], from[2]),
        output: (to[1], to[2]),
        dense: spec.dilation == 1,
    }
}

/// The convolution of x.
pub fn forward<V: Value>(
    spec: &ConvSpec,
    shapes: ([usize; 4], [usize; 4]),
    x: &[V],
    kernels: &Kernels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let geometry = geometry(spec, shapes.0, shapes.1, Direction::Forward);
    forward::convolve(&geometry, x, kernels, finish)
}

/// The gradient of x.
pub fn backward_data<V: Value>(
    spec: &ConvSpec,
    shapes: ([usize; 4], [usize; 4]),
    dy: &[V],
    kernels: &Kernels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let geometry = geometry(spec, shapes.0, shapes.1, Direction::BackwardData);
    forward::convolve(&geometry, dy, kernels, finish)
}

/// Adds the gradient of the weights to `dw`.
pub fn add_backward_weights<V: Value>(
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    x: &[V],
    dy: &[V],
    dw: &mut [f32],
) {
    let geometry = geometry(spec, x_shape, y_shape, Direction::BackwardWeights);
    weights::add_gradient(&geometry, x, dy, (x_shape[3], y_shape[3]), dw);
}
