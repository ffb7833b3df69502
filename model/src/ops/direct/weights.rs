//! The gradient of the kernels: for every tap, the sum over output pixels of the input that the tap reads times the
//! output gradient.

use super::forward::Geometry;
use crate::ops::gemm::{block, panels_by_panels};
use crate::ops::scratch;
use crate::ops::value::{PADDING, Value};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Pixels per block of a sum.
const PIXELS: usize = 256;
/// Input channels per unit of work.
const CHANNELS: usize = 96;

/// Adds the gradient of weights `(outputs, inputs, taps)` to `dw`.
///
/// The sums of a tap and a block of channels belong to one thread and run over the pixels in order, so the result does
/// not depend on the number of threads.
pub fn add_gradient<V: Value>(
    geometry: &Geometry,
    batch: usize,
    x: &[V],
    dy: &[V],
    (inputs, outputs): (usize, usize),
    dw: &mut [f32],
) {
    let block = block();
    let width = outputs.next_multiple_of(block.columns);
    let (row_class, column_class) = (&geometry.rows.classes[0], &geometry.columns.classes[0]);
    let taps: Vec<(isize, isize)> = (row_class.taps.iter())
        .flat_map(|&(_, down)| {
            column_class
                .taps
                .iter()
                .map(move |&(_, right)| (down, right))
        })
        .collect();
    let pieces: Vec<(usize, usize)> = (0..taps.len())
        .flat_map(|tap| (0..inputs).step_by(CHANNELS).map(move |from| (tap, from)))
        .collect();
    let depth = CHANNELS.min(inputs).next_multiple_of(block.rows);
    let mut sums = vec![0.0; pieces.len() * depth * width];
    let (height, across) = geometry.output;
    let pixels = batch * height * across;
    let together = PIXELS.min(pixels);
    let mut packed = vec![0.0; together * width];
    for first in (0..pixels).step_by(together) {
        let here = together.min(pixels - first);
        let lines = &dy[first * outputs..][..here * outputs];
        pack(lines, outputs, block.columns, &mut packed[..here * width]);
        let work = sums.par_chunks_exact_mut(depth * width).zip(&pieces);
        work.for_each(|(sums, &(tap, from))| {
            Arch::new().dispatch(SumPiece {
                geometry,
                x,
                inputs,
                offsets: taps[tap],
                channels: (from, inputs.min(from + CHANNELS)),
                pixels: (first, here),
                dy: &packed[..here * width],
                sums,
                width,
                block_rows: block.rows,
            });
        });
    }
    let parts = inputs.div_ceil(CHANNELS);
    debug_assert!(
        (pieces.iter().enumerate())
            .all(|(index, &piece)| piece == (index / parts, index % parts * CHANNELS))
    );
    add_pieces(&sums, (depth, width), (inputs, taps.len()), dw);
}

/// Packs the lines of some pixels into panels of `columns` columns, padding the last with zeros.
fn pack<V: Value>(lines: &[V], outputs: usize, columns: usize, packed: &mut [f32]) {
    let pixels = lines.len() / outputs;
    let panels = packed.par_chunks_exact_mut(pixels * columns);
    panels.enumerate().for_each(|(panel, values)| {
        let from = panel * columns;
        let to = outputs.min(from + columns);
        let places = values.chunks_exact_mut(columns);
        for (line, to_line) in lines.chunks_exact(outputs).zip(places) {
            Arch::new().dispatch(Copy {
                from: &line[from..to],
                to: to_line,
            });
        }
    });
}

/// Adds sums to the gradient of weights `(outputs, inputs, taps)`. The sums are ordered by tap, then in pieces of up to
/// [`CHANNELS`] inputs, each of shape `(depth, width)`, where the second extent runs over outputs.
fn add_pieces(
    sums: &[f32],
    (depth, width): (usize, usize),
    (inputs, taps): (usize, usize),
    dw: &mut [f32],
) {
    let parts = inputs.div_ceil(CHANNELS);
    dw.par_chunks_mut(inputs * taps * PADDING)
        .enumerate()
        .for_each(|(group, dw)| {
            let first = group * PADDING;
            // Channel by channel, so that the kernels of an input stay in the cache for all taps.
            for input in 0..inputs {
                let (part, channel) = (input / CHANNELS, input % CHANNELS);
                for tap in 0..taps {
                    let piece = (tap * parts + part) * depth * width;
                    let line = &sums[piece + channel * width + first..];
                    let outputs = dw.chunks_exact_mut(inputs * taps);
                    for (dw, sum) in outputs.zip(line) {
                        dw[input * taps + tap] += sum;
                    }
                }
            }
        });
}

/// Widens values and pads them with 0.
struct Copy<'a, V> {
    from: &'a [V],
    to: &'a mut [f32],
}

impl<V: Value> WithSimd for Copy<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for at in (0..self.to.len()).step_by(S::F32_LANES) {
            let values = self.from.get(at..).unwrap_or(&[]);
            f32::store(simd, &mut self.to[at..], V::load(simd, values));
        }
    }
}

/// Adds the products of some pixels to the sums of one tap and some input channels.
struct SumPiece<'a, V> {
    geometry: &'a Geometry,
    x: &'a [V],
    inputs: usize,
    offsets: (isize, isize),
    channels: (usize, usize),
    pixels: (usize, usize),
    dy: &'a [f32],
    sums: &'a mut [f32],
    width: usize,
    block_rows: usize,
}

impl<V: Value> WithSimd for SumPiece<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (from, to) = self.channels;
        let (first, count) = self.pixels;
        let (height, across) = self.geometry.output;
        let (rows, columns) = (&self.geometry.rows, &self.geometry.columns);
        let depth = (to - from).next_multiple_of(self.block_rows);
        let [mut packed, mut line] = scratch::take(depth * count, CHANNELS + PADDING);
        for index in 0..count {
            let pixel = first + index;
            let (batch, row, column) = (
                pixel / (height * across),
                pixel / across % height,
                pixel % across,
            );
            let row = rows.source(&rows.classes[0], row, self.offsets.0);
            let column = columns.source(&columns.classes[0], column, self.offsets.1);
            let values = match (row, column) {
                (Some(row), Some(column)) => {
                    let (height, across) = self.geometry.input;
                    let pixel = (batch * height + row) * across + column;
                    &self.x[pixel * self.inputs + from..pixel * self.inputs + to]
                }
                _ => &[],
            };
            for at in (0..depth).step_by(S::F32_LANES) {
                let values = values.get(at..).unwrap_or(&[]);
                f32::store(simd, &mut line[at..], V::load(simd, values));
            }
            for (panel, values) in line[..depth].chunks_exact(self.block_rows).enumerate() {
                let place = (panel * count + index) * self.block_rows;
                packed[place..place + self.block_rows].copy_from_slice(values);
            }
        }
        panels_by_panels(
            simd,
            count,
            &packed[..depth * count],
            self.dy,
            self.sums,
            self.width,
        );
        scratch::give_back([packed, line]);
    }
}
