//! Convolutions of stride 1 with fewer multiplications: Winograd's F(4x4, 3x3) and F(4x4, 5x5), in all three
//! directions.
//!
//! Outputs are computed in tiles of 4x4 from inputs of 6x6 (3x3 kernels) or 8x8 (5x5 kernels). Inputs and kernels are
//! transformed to as many points as the tile has inputs, where the convolution becomes one product per point: 36
//! instead of 144, or 64 instead of 400, multiplications per tile and channel pair. Channels are innermost, so
//! transforms vectorise. Dilated kernels are convolutions of interleaved fields ([`tiles`]), and wrapping changes only
//! the positions that a tile reads: neither needs a copy.
//!
//! Errors of 3x3 kernels are about 1.3e-6 (relative, f32, 256 channels), four times those of direct sums; those of 5x5
//! kernels are a few times larger, and `backend_parity` checks that they stay below 1e-5. F(2x2, 5x5) on the six points
//! would have smaller errors (1.2e-6 against 4.1e-6 in a model of the sums over 128 channels), but needs 144
//! multiplications where F(4x4, 5x5) needs 64, and proportionally more transforms. Arithmetic is f32 for every storage
//! type.
//!
//! Const parameters: `P` points per axis, `M` outputs, `R` taps; P = M + R − 1.
//!
//! # Source
//! Lavin and Gray 2016 (arXiv:1509.09308).

mod forward;
mod input;
mod kernels;
mod output;
#[cfg(test)]
mod tests;
mod tiles;
mod transform;
mod units;
mod weights;

pub use kernels::Kernels;

use super::conv_spec::{ConvSpec, Convolution};
use super::finish::Finish;
use super::joined::Joined;
use super::value::Value;
use super::{direct, gemm};
use forward::Geometry;
use tiles::Axis;

/// The pass of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    BackwardData,
    BackwardWeights,
}

/// The number of values of a transformed kernel: one per point of a tile of 4x4 outputs.
pub fn points(spec: &ConvSpec) -> usize {
    (spec.kernel.0 + 3) * (spec.kernel.1 + 3)
}

/// The number of scratch values that a thread needs for these numbers of input and output channels.
pub fn scratch_values(spec: &ConvSpec, channels: (usize, usize)) -> usize {
    forward::scratch_values(spec.kernel.0 + OUTPUTS - 1, channels)
}

/// Whether these loops are faster than a direct convolution. Depends on the geometry and the kind of processor; never
/// on a timing, so that two runs of one recipe are bit-identical; nor on the batch size, so that the result of a sample
/// does not depend on the rest of its batch.
pub fn pays(conv: &Convolution, direction: Direction, baseline: Baseline) -> bool {
    let Convolution { spec, x, y } = conv;
    let fits = matches!(spec.kernel, (3, 3) | (5, 5)) && spec.stride == 1 && spec.groups == 1;
    let fits = fits && (!spec.periodic || x[2] == y[2]);
    // Only the gradient of the input needs this check: its padding is the kernel's reach minus the padding.
    let backward = direction == Direction::BackwardData;
    if !fits || backward && !can_turn(spec) || !gemm::is_fast() {
        return false;
    }
    let (inputs, outputs) = (x[3] as f64, y[3] as f64);
    let (pixels, taps) = ((y[1] * y[2]) as f64, (spec.kernel.0 * spec.kernel.1) as f64);
    let along = spec.kernel.0 + OUTPUTS - 1;
    let points = (along * along) as f64;
    let tiles = tiles_of(spec, if backward { *x } else { *y });
    // Costs are counted in multiply-adds; a transform costs `TRANSFORM` of them per value. Direct loops skip the
    // padding that taps of dilated kernels read; for the gradient of the kernels they do so from a dilation of 3 on.
    let by_taps = direction != Direction::BackwardWeights || spec.dilation >= 3;
    let pairs = direct::pairs(conv).filter(|_| by_taps);
    let direct = pairs.map_or(taps * pixels, |pairs| pairs as f64) * inputs * outputs;
    let products = points * tiles * inputs * outputs;
    let transforms = points * TRANSFORM * (tiles * (inputs + outputs) + KERNELS * inputs * outputs);
    inputs >= 8.0 && outputs >= 8.0 && products + transforms < direct * baseline.margin()
}

/// Outputs of a tile per axis.
const OUTPUTS: usize = 4;
/// The cost of transforming, writing and reading one point of one channel, in multiply-adds (measured).
const TRANSFORM: f64 = 16.0;
/// Cost of a kernel's point relative to a tile's: kernels are written once and read once per group of tiles.
const KERNELS: f64 = 1.0;

/// The direct convolution with which these loops are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// Direct loops in f32.
    F32,
    /// oneDNN's loops in bf16, on a processor that multiplies bf16.
    NativeBf16,
}

impl Baseline {
    /// These loops are faster if they need less than this share of the direct convolution's multiply-adds.
    fn margin(self) -> f64 {
        match self {
            // Direct convolutions run closer to peak.
            Self::F32 => 0.9,
            // oneDNN's loops run at least twice as fast as in f32 (measured on Zen 4: `conv_paths -- bf16`).
            Self::NativeBf16 => 0.31,
        }
    }
}

/// Whether the gradient of the input is a convolution of the same form: its padding must not be negative.
fn can_turn(spec: &ConvSpec) -> bool {
    let (rows, columns) = reach(spec);
    spec.padding.0 <= rows && spec.padding.1 <= columns
}

/// The distance from the first tap to the last, per axis.
fn reach(spec: &ConvSpec) -> (usize, usize) {
    let (rows, columns) = spec.kernel;
    ((rows - 1) * spec.dilation, (columns - 1) * spec.dilation)
}

/// The number of tiles of an output of this shape.
fn tiles_of(spec: &ConvSpec, to: [usize; 4]) -> f64 {
    let [rows, columns] = [to[1], to[2]].map(|extent| tiles::count(extent, spec.dilation, OUTPUTS));
    (rows * columns) as f64
}

fn geometry<const P: usize, const M: usize>(
    conv: &Convolution,
    direction: Direction,
) -> Geometry<P, M> {
    let Convolution { spec, x, y } = conv;
    let turned = direction == Direction::BackwardData;
    let (from, to) = if turned { (y, x) } else { (x, y) };
    let axis = |index: usize, (padding, reach): (usize, usize), wraps: bool| {
        let padding = if turned { reach - padding } else { padding };
        Axis::new(to[index], from[index], spec.dilation, padding, wraps)
    };
    let reach = reach(spec);
    Geometry {
        batch: x[0],
        rows: axis(1, (spec.padding.0, reach.0), false),
        columns: axis(2, (spec.padding.1, reach.1), spec.periodic),
        input: (from[1], from[2]),
        output: (to[1], to[2]),
        dense: spec.dilation == 1,
    }
}

/// The convolution of x.
pub fn forward<V: Value>(
    conv: &Convolution,
    x: &Joined<'_, V>,
    kernels: &Kernels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let fields = (Direction::Forward, &conv.y[3..]);
    let mut y = convolve(conv, fields, x, kernels, finish);
    y.pop().expect("one field")
}

/// The gradient of x, as fields with these numbers of channels.
pub fn backward_data<V: Value>(
    conv: &Convolution,
    dy: &[V],
    kernels: &Kernels,
    finish: Finish<'_, V>,
    fields: &[usize],
) -> Vec<Vec<V>> {
    let [b, p, q, _] = conv.y;
    let dy = Joined::new(std::iter::once(dy), b * p * q);
    convolve(
        conv,
        (Direction::BackwardData, fields),
        &dy,
        kernels,
        finish,
    )
}

fn convolve<V: Value>(
    conv: &Convolution,
    (direction, fields): (Direction, &[usize]),
    x: &Joined<'_, V>,
    kernels: &Kernels,
    finish: Finish<'_, V>,
) -> Vec<Vec<V>> {
    if conv.spec.kernel.0 == 3 {
        let geometry = geometry::<6, OUTPUTS>(conv, direction);
        forward::convolve(&geometry, x, kernels, finish, fields)
    } else {
        let geometry = geometry::<8, OUTPUTS>(conv, direction);
        forward::convolve(&geometry, x, kernels, finish, fields)
    }
}

/// Adds the gradient of the weights to `dw`.
pub fn add_backward_weights<V: Value>(
    conv: &Convolution,
    x: &Joined<'_, V>,
    dy: &[V],
    dw: &mut [f32],
) {
    let channels = (conv.x[3], conv.y[3]);
    if conv.spec.kernel.0 == 3 {
        let geometry = geometry::<6, OUTPUTS>(conv, Direction::BackwardWeights);
        weights::add_gradient::<_, _, _, 3>(&geometry, x, dy, channels, dw);
    } else {
        let geometry = geometry::<8, OUTPUTS>(conv, Direction::BackwardWeights);
        weights::add_gradient::<_, _, _, 5>(&geometry, x, dy, channels, dw);
    }
}
