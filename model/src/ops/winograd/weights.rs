//! The gradient of the kernels: at every point, the sum over all tiles of input times gradient.

use super::forward::{Geometry, input_tile};
use super::kernels::SQUARE;
use super::transform::{KernelTransposed, OUTPUTS, OutputTransposed, POINTS, TAPS, both_axes};
use crate::ops::gemm::{Block, block, panels_by_panels};
use crate::ops::value::{PADDING, Value};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Tiles that are summed together.
const TILES: usize = 96;
/// Input channels that are summed together: bounds the memory of the sums.
const CHANNELS: usize = 512;

/// Adds the gradient of the weights `(outputs, inputs, 3, 3)` to `dw`.
///
/// Every point's sums belong to one thread and run over the tiles in order: the bits do not depend on the number of threads.
pub fn add_gradient<V: Value>(
    geometry: &Geometry,
    x: &[V],
    dy: &[V],
    (inputs, outputs): (usize, usize),
    dw: &mut [f32],
) {
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
        part.add(dw);
    }
}

/// The gradient with respect to some of the input channels.
#[derive(Clone, Copy)]
struct Part<'a, V> {
    geometry: &'a Geometry,
    x: &'a [V],
    dy: &'a [V],
    inputs: usize,
    outputs: usize,
    channels: (usize, usize),
    block: Block,
}

impl<V: Value> Part<'_, V> {
    fn add(self, dw: &mut [f32]) {
        let count = self.channels.1 - self.channels.0;
        let (depth, width) = (
            count.next_multiple_of(PADDING),
            self.outputs.next_multiple_of(PADDING),
        );
        let padded = (
            count.next_multiple_of(self.block.rows),
            self.outputs.next_multiple_of(self.block.columns),
        );
        let tile_row = &self.geometry.columns.starts;
        let tiles = self.geometry.batch * self.geometry.rows.starts.len() * tile_row.len();
        let together = TILES.min(tiles);
        let (x_tile, dy_tile) = (SQUARE * depth + 16, SQUARE * width + 16);
        let mut x_points = vec![0.0; together * x_tile];
        let mut dy_points = vec![0.0; together * dy_tile];
        let mut sums = vec![0.0; SQUARE * padded.0 * padded.1];
        for first in (0..tiles).step_by(together) {
            let here = together.min(tiles - first);
            (x_points
                .par_chunks_exact_mut(x_tile)
                .zip(dy_points.par_chunks_exact_mut(dy_tile)))
            .take(here)
            .enumerate()
            .for_each(|(index, (x_points, dy_points))| {
                Arch::new().dispatch(TransformTile {
                    part: self,
                    tile: first + index,
                    x_points,
                    dy_points,
                    depth,
                    width,
                });
            });
            sums.par_chunks_exact_mut(padded.0 * padded.1)
                .enumerate()
                .for_each(|(point, sums)| {
                    Arch::new().dispatch(SumPoint {
                        block: self.block,
                        tiles: here,
                        x: (&x_points[point * depth..], x_tile, count),
                        dy: (&dy_points[point * width..], dy_tile, self.outputs),
                        sums,
                        padded,
                    });
                });
        }
        let per_output = self.inputs * TAPS * TAPS;
        dw.par_chunks_mut(per_output * PADDING)
            .enumerate()
            .for_each(|(group, dw)| {
                Arch::new().dispatch(BackToTaps {
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

struct TransformTile<'a, V> {
    part: Part<'a, V>,
    tile: usize,
    x_points: &'a mut [f32],
    dy_points: &'a mut [f32],
    depth: usize,
    width: usize,
}

impl<V: Value> WithSimd for TransformTile<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Part {
            geometry,
            x,
            dy,
            inputs,
            outputs,
            channels: (from, to),
            ..
        } = self.part;
        let (row_starts, column_starts) = (&geometry.rows.starts, &geometry.columns.starts);
        let (row, column) = (
            self.tile / column_starts.len(),
            self.tile % column_starts.len(),
        );
        let (batch, row) = (row / row_starts.len(), row % row_starts.len());
        let (row, column) = (row_starts[row], column_starts[column]);

        let (rows, columns) = (geometry.rows.reads(row), geometry.columns.reads(column));
        let (height, width) = geometry.input;
        let mut pixels: [&[V]; SQUARE] = [&[]; SQUARE];
        for (at, pixel) in pixels.iter_mut().enumerate() {
            if let (Some(row), Some(column)) = (rows[at / POINTS], columns[at % POINTS]) {
                let first = ((batch * height + row) * width + column) * inputs;
                *pixel = &x[first + from..first + to];
            }
        }
        input_tile(simd, &pixels, to - from, self.x_points, self.depth);

        let (rows, columns) = (geometry.rows.writes(row), geometry.columns.writes(column));
        let (height, width) = geometry.output;
        let mut pixels: [&[V]; OUTPUTS * OUTPUTS] = [&[]; OUTPUTS * OUTPUTS];
        for (at, pixel) in pixels.iter_mut().enumerate() {
            if let (Some(row), Some(column)) = (rows[at / OUTPUTS], columns[at % OUTPUTS]) {
                *pixel = &dy[((batch * height + row) * width + column) * outputs..][..outputs];
            }
        }
        let mut square = [simd.splat_f32s(0.0); OUTPUTS * OUTPUTS];
        for from in (0..outputs).step_by(S::F32_LANES) {
            for (vector, pixel) in square.iter_mut().zip(pixels) {
                *vector = V::load(simd, pixel.get(from..).unwrap_or(&[]));
            }
            let points: [S::f32s; SQUARE] =
                both_axes::<OutputTransposed, S, OUTPUTS, POINTS, _, _>(simd, &square);
            for (point, &vector) in points.iter().enumerate() {
                f32::store(
                    simd,
                    &mut self.dy_points[point * self.width + from..],
                    vector,
                );
            }
        }
    }
}

/// Values, distance from tile to tile, channels.
type Operand<'a> = (&'a [f32], usize, usize);

struct SumPoint<'a> {
    block: Block,
    tiles: usize,
    x: Operand<'a>,
    dy: Operand<'a>,
    sums: &'a mut [f32],
    padded: (usize, usize),
}

impl WithSimd for SumPoint<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let buffers =
            crate::ops::scratch::take(self.tiles * self.padded.0, self.tiles * self.padded.1);
        let [mut left, mut right] = buffers;
        let (a, b) = (
            &mut left[..self.tiles * self.padded.0],
            &mut right[..self.tiles * self.padded.1],
        );
        pack(self.x, self.tiles, self.block.rows, a);
        pack(self.dy, self.tiles, self.block.columns, b);
        panels_by_panels(simd, self.tiles, a, b, self.sums, self.padded.1);
        crate::ops::scratch::give_back([left, right]);
    }
}

/// Panels of `width` channels, each tiles x width; what lies beyond the channels is 0.
#[inline(always)]
fn pack((values, tile, channels): Operand<'_>, tiles: usize, width: usize, panels: &mut [f32]) {
    for (panel, packed) in panels.chunks_exact_mut(tiles * width).enumerate() {
        let first = panel * width;
        let count = width.min(channels - first);
        for (index, packed) in packed.chunks_exact_mut(width).enumerate() {
            packed[..count].copy_from_slice(&values[index * tile + first..][..count]);
            packed[count..].fill(0.0);
        }
    }
}

struct BackToTaps<'a, V> {
    part: Part<'a, V>,
    sums: &'a [f32],
    padded: (usize, usize),
    first_output: usize,
    outputs: usize,
    dw: &'a mut [f32],
}

impl<V: Value> WithSimd for BackToTaps<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let per_output = self.part.inputs * TAPS * TAPS;
        let (from, to) = self.part.channels;
        for channel in 0..to - from {
            for first in (0..self.outputs).step_by(S::F32_LANES) {
                let mut square = [simd.splat_f32s(0.0); SQUARE];
                for (point, vector) in square.iter_mut().enumerate() {
                    let row = (point * self.padded.0 + channel) * self.padded.1;
                    *vector = f32::load(simd, &self.sums[row + self.first_output + first..]);
                }
                let taps: [S::f32s; TAPS * TAPS] =
                    both_axes::<KernelTransposed, S, POINTS, TAPS, _, _>(simd, &square);
                let mut lanes = [[0.0f32; PADDING]; TAPS * TAPS];
                for (lanes, &tap) in lanes.iter_mut().zip(&taps) {
                    f32::store(simd, lanes, tap);
                }
                let outputs = self.dw[first * per_output..].chunks_exact_mut(per_output);
                for (output, dw) in outputs.take(S::F32_LANES).enumerate() {
                    let dw = &mut dw[(from + channel) * TAPS * TAPS..][..TAPS * TAPS];
                    dw.iter_mut()
                        .zip(&lanes)
                        .for_each(|(dw, tap)| *dw += tap[output]);
                }
            }
        }
    }
}
