//! The gradient of the kernels: at every point of the transform, the sum over all tiles of the transformed input times
//! the transformed output gradient.

use super::forward::Geometry;
use super::input::{Columns, Lines};
use super::transform::{Input, KernelTransposed, OutputTransposed, Transform, both_axes};
use crate::ops::gemm::{Block, block, columns_by_columns};
use crate::ops::joined::Joined;
use crate::ops::scratch;
use crate::ops::value::{PADDING, Value};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Tiles per group: transformed together before their products are summed.
const TILES: usize = 96;
/// Consecutive tiles that one thread transforms.
const RUN: usize = 12;
/// Input channels summed together, which limits the memory of the sums.
const CHANNELS: usize = 512;

/// Adds the gradient of the weights `(outputs, inputs, R, R)` to `dw`.
///
/// The sums of a point belong to one thread and run over the tiles in order, so the result does not depend on the
/// number of threads.
pub fn add_gradient<V: Value, const P: usize, const M: usize, const R: usize>(
    geometry: &Geometry<P, M>,
    x: &Joined<'_, V>,
    dy: &[V],
    (inputs, outputs): (usize, usize),
    dw: &mut [f32],
) where
    Input: Transform<P, P>,
{
    for first in (0..inputs).step_by(CHANNELS) {
        let part = Part {
            geometry,
            x,
            dy,
            inputs,
            outputs,
            channels: (first, inputs.min(first + CHANNELS)),
            block: block(),
        };
        part.add::<R>(dw);
    }
}

/// The gradient for a range of input channels.
#[derive(Clone, Copy)]
struct Part<'a, V, const P: usize, const M: usize> {
    geometry: &'a Geometry<P, M>,
    x: &'a Joined<'a, V>,
    dy: &'a [V],
    inputs: usize,
    outputs: usize,
    /// The range of these input channels (start, end).
    channels: (usize, usize),
    block: Block,
}

impl<V: Value, const P: usize, const M: usize> Part<'_, V, P, M>
where
    Input: Transform<P, P>,
{
    fn add<const R: usize>(self, dw: &mut [f32]) {
        let count = self.channels.1 - self.channels.0;
        let padded = (
            count.next_multiple_of(self.block.rows),
            self.outputs.next_multiple_of(self.block.columns),
        );
        let (depth, width) = (apart(padded.0), apart(padded.1));
        let tile_row = &self.geometry.columns.starts;
        let tiles = self.geometry.batch * self.geometry.rows.starts.len() * tile_row.len();
        let together = TILES.min(tiles);
        let run = (P * P * RUN * depth, P * P * RUN * width);
        let mut x_points = vec![0.0; together.div_ceil(RUN) * run.0];
        let mut dy_points = vec![0.0; together.div_ceil(RUN) * run.1];
        let mut sums = vec![0.0; P * P * padded.0 * padded.1];
        for first in (0..tiles).step_by(together) {
            let here = together.min(tiles - first);
            let runs = here.div_ceil(RUN);
            (x_points
                .par_chunks_exact_mut(run.0)
                .zip(dy_points.par_chunks_exact_mut(run.1)))
            .take(runs)
            .enumerate()
            .for_each(|(index, (x_points, dy_points))| {
                let start = first + index * RUN;
                Arch::new().dispatch(TransformRun {
                    part: self,
                    tiles: start..(first + here).min(start + RUN),
                    x_points,
                    dy_points,
                    depth,
                    width,
                });
            });
            sums.par_chunks_exact_mut(padded.0 * padded.1)
                .enumerate()
                .for_each(|(point, sums)| {
                    let pieces: Vec<_> = (0..runs)
                        .map(|index| {
                            let tiles = RUN.min(here - index * RUN);
                            let x = &x_points[index * run.0 + point * RUN * depth..];
                            let dy = &dy_points[index * run.1 + point * RUN * width..];
                            (&x[..tiles * depth], &dy[..tiles * width])
                        })
                        .collect();
                    Arch::new().dispatch(SumPoint {
                        pieces: &pieces,
                        apart: (depth, width),
                        sums,
                        padded,
                    });
                });
        }
        let per_output = self.inputs * R * R;
        dw.par_chunks_mut(per_output * PADDING)
            .enumerate()
            .for_each(|(group, dw)| {
                Arch::new().dispatch(BackToTaps::<_, P, M, R> {
                    part: self,
                    sums: &sums,
                    padded,
                    first_output: group * PADDING,
                    outputs: dw.len() / per_output,
                    dw,
                });
            });
    }
}

/// Room for this many channels of a tile: an odd number of cache lines, so that tiles do not map to the same cache
/// sets.
fn apart(channels: usize) -> usize {
    (channels.div_ceil(PADDING) | 1) * PADDING
}

/// Transforms consecutive tiles of x and dy. Point p, tile t, channel c is at `(p * RUN + t) * depth + c`.
struct TransformRun<'a, V, const P: usize, const M: usize> {
    part: Part<'a, V, P, M>,
    tiles: std::ops::Range<usize>,
    x_points: &'a mut [f32],
    dy_points: &'a mut [f32],
    depth: usize,
    width: usize,
}

impl<V: Value, const P: usize, const M: usize> WithSimd for TransformRun<'_, V, P, M>
where
    Input: Transform<P, P>,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Part {
            geometry,
            x,
            channels,
            ..
        } = self.part;
        let (row_starts, column_starts) = (&geometry.rows.starts, &geometry.columns.starts);
        let [mut kept, mut lines_kept] = scratch::take(P * P * self.depth, P * M * self.width);
        let mut next = self.tiles.start;
        while next < self.tiles.end {
            // Limited to the rest of the current row of tiles.
            let (row, column) = (next / column_starts.len(), next % column_starts.len());
            let count = (self.tiles.end - next).min(column_starts.len() - column);
            let (batch, row) = (row / row_starts.len(), row_starts[row % row_starts.len()]);
            let lines = Lines::of(geometry, x, channels, (batch, row));
            let mut columns = Columns::<P, M>::new(&mut kept, self.depth);
            for (index, &column) in column_starts[column..column + count].iter().enumerate() {
                let tile = next - self.tiles.start + index;
                let (points, apart) = (&mut self.x_points[tile * self.depth..], RUN * self.depth);
                let reads = geometry.columns.reads(column);
                columns.tile(simd, &lines, reads, (points, apart));
                self.gradient(simd, (batch, row, column), tile, &mut lines_kept);
            }
            next += count;
        }
        scratch::give_back([kept, lines_kept]);
    }
}

impl<V: Value, const P: usize, const M: usize> TransformRun<'_, V, P, M> {
    /// Transforms the output gradient of one tile to points. `kept` has room for the lines between the two axes.
    #[inline(always)]
    fn gradient<S: Simd>(
        &mut self,
        simd: S,
        (batch, row, column): (usize, usize, usize),
        tile: usize,
        kept: &mut [f32],
    ) {
        let Part {
            geometry,
            dy,
            outputs,
            ..
        } = self.part;
        let (rows, columns) = (geometry.rows.writes(row), geometry.columns.writes(column));
        let (height, width) = geometry.output;
        let pixel = |row: Option<usize>, column: Option<usize>| {
            let (Some(row), Some(column)) = (row, column) else {
                return &dy[..0];
            };
            let first = ((batch * height + row) * width + column) * outputs;
            &dy[first..first + outputs]
        };
        let across = outputs.next_multiple_of(S::F32_LANES);
        // One axis at a time, for all channels, as in `output`.
        for (index, &column) in columns.iter().enumerate() {
            let pixels = rows.map(|row| pixel(row, column));
            for from in (0..across).step_by(S::F32_LANES) {
                let mut line = [simd.splat_f32s(0.0); M];
                for (vector, pixel) in line.iter_mut().zip(&pixels) {
                    *vector = V::load(simd, pixel.get(from..).unwrap_or(&[]));
                }
                let done: [S::f32s; P] = OutputTransposed::apply(simd, line);
                for (row, &vector) in done.iter().enumerate() {
                    f32::store(simd, &mut kept[(row * M + index) * across + from..], vector);
                }
            }
        }
        let points = &mut self.dy_points[tile * self.width..];
        for (row, line) in kept.chunks_exact(M * across).take(P).enumerate() {
            for from in (0..across).step_by(S::F32_LANES) {
                let mut vectors = [simd.splat_f32s(0.0); M];
                for (column, vector) in vectors.iter_mut().enumerate() {
                    *vector = f32::load(simd, &line[column * across + from..]);
                }
                let done: [S::f32s; P] = OutputTransposed::apply(simd, vectors);
                for (column, &vector) in done.iter().enumerate() {
                    let place = (row * P + column) * RUN * self.width + from;
                    f32::store(simd, &mut points[place..], vector);
                }
            }
        }
    }
}

/// Adds products to the sums of one point.
struct SumPoint<'a> {
    /// Tiles of x and of dy, with strides `apart`.
    pieces: &'a [(&'a [f32], &'a [f32])],
    apart: (usize, usize),
    sums: &'a mut [f32],
    /// Input and output channels, each rounded up to whole blocks.
    padded: (usize, usize),
}

impl WithSimd for SumPoint<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        columns_by_columns(simd, self.pieces, self.apart, self.sums, self.padded);
    }
}

/// Transforms the sums of some outputs back to taps and adds them to the gradient of the weights.
struct BackToTaps<'a, V, const P: usize, const M: usize, const R: usize> {
    part: Part<'a, V, P, M>,
    sums: &'a [f32],
    padded: (usize, usize),
    first_output: usize,
    outputs: usize,
    dw: &'a mut [f32],
}

impl<V: Value, const P: usize, const M: usize, const R: usize> WithSimd
    for BackToTaps<'_, V, P, M, R>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let per_output = self.part.inputs * R * R;
        let (from, to) = self.part.channels;
        for channel in 0..to - from {
            for first in (0..self.outputs).step_by(S::F32_LANES) {
                let mut square = [[simd.splat_f32s(0.0); P]; P];
                for (point, vector) in square.as_flattened_mut().iter_mut().enumerate() {
                    let row = (point * self.padded.0 + channel) * self.padded.1;
                    *vector = f32::load(simd, &self.sums[row + self.first_output + first..]);
                }
                let taps: [[S::f32s; R]; R] = both_axes::<KernelTransposed, S, P, R>(simd, &square);
                let mut lanes = [[[0.0f32; PADDING]; R]; R];
                for (lanes, &tap) in (lanes.as_flattened_mut().iter_mut()).zip(taps.as_flattened())
                {
                    f32::store(simd, lanes, tap);
                }
                let outputs = self.dw[first * per_output..].chunks_exact_mut(per_output);
                for (output, dw) in outputs.take(S::F32_LANES).enumerate() {
                    let dw = &mut dw[(from + channel) * R * R..][..R * R];
                    dw.iter_mut()
                        .zip(lanes.as_flattened())
                        .for_each(|(dw, tap)| *dw += tap[output]);
                }
            }
        }
    }
}
