//! Transforms the products at a tile's points to its output pixels.
//!
//! Transforms run along one axis at a time, for all channels. They read and write a few memory streams at a time, which
//! the hardware prefetches; all points of a tile at once would be too many streams.

use super::forward::Geometry;
use super::transform::{Output, Transform};
use super::units::TileRow;
use crate::ops::finish::Finish;
use crate::ops::value::Value;
use pulp::Simd;
use std::ops::Range;

/// Products of a unit, in the layout `[point][tile][channel]`.
#[derive(Clone, Copy)]
pub struct Products<'a> {
    pub values: &'a [f32],
    /// Strides between points and between tiles.
    pub apart: (usize, usize),
}

/// The destination of the output and the epilogue.
#[derive(Clone, Copy)]
pub struct Writing<'a, V> {
    /// The number of channels of each output field; their sum is that of the whole output.
    pub fields: &'a [usize],
    pub all: usize,
    pub finish: Finish<'a, V>,
}

/// The number of values kept of a tile between the two axes.
pub const fn kept_values(points: usize, outputs: usize, channels: usize) -> usize {
    points * outputs * channels
}

impl<V: Value> Writing<'_, V> {
    /// Writes a range of channels of the pixels of a unit's tiles; the products start at the unit's first tile. `kept`
    /// has room for [`kept_values`].
    #[inline(always)]
    pub fn write<S: Simd, const P: usize, const M: usize>(
        &self,
        simd: S,
        geometry: &Geometry<P, M>,
        unit: &mut [TileRow<'_, V, M>],
        (products, kept): (Products<'_>, &mut [f32]),
        channels: Range<usize>,
    ) {
        let across = channels.len().next_multiple_of(S::F32_LANES);
        let mut tile = 0;
        for part in unit {
            for &start in part.columns {
                products.along_height::<S, P, M>(simd, tile, kept, across);
                self.along_width(simd, geometry, part, start, (kept, across), &channels);
                tile += 1;
            }
        }
    }

    /// Transforms the lines of a tile along their width and writes them.
    #[inline(always)]
    fn along_width<S: Simd, const P: usize, const M: usize>(
        &self,
        simd: S,
        geometry: &Geometry<P, M>,
        part: &mut TileRow<'_, V, M>,
        start: usize,
        (kept, across): (&[f32], usize),
        channels: &Range<usize>,
    ) {
        let (height, width) = geometry.output;
        let rows = geometry.rows.writes(part.start);
        let columns = geometry.columns.writes(start);
        let lines = rows.into_iter().zip(kept.chunks_exact(P * across));
        for (index, (row, line)) in lines.enumerate() {
            let Some(row) = row else { continue };
            let mut sources = [&line[..0]; P];
            for (source, values) in sources.iter_mut().zip(line.chunks_exact(across)) {
                *source = values;
            }
            let mut end = 0;
            for (lines, &count) in part.lines.iter_mut().zip(self.fields) {
                let first = end;
                end += count;
                let range = channels.start.max(first)..channels.end.min(end);
                let Some(target) = lines[index].as_mut() else {
                    continue;
                };
                // The index of a pixel's first channel, in its field and in the whole output.
                let places = columns.map(|column| {
                    let column = column?;
                    let all = ((part.batch * height + row) * width + column) * self.all;
                    Some(((column - part.first_column) * count, all))
                });
                for at in range.clone().step_by(S::F32_LANES) {
                    let from = at - channels.start;
                    let mut vectors = [simd.splat_f32s(0.0); P];
                    for (vector, source) in vectors.iter_mut().zip(&sources) {
                        *vector = f32::load(simd, &source[from..]);
                    }
                    let values: [S::f32s; M] = Output::apply(simd, vectors);
                    for i in 0..M {
                        let Some((own, all)) = places[i] else {
                            continue;
                        };
                        let value = (self.finish).apply(simd, values[i], all, (at, channels.end));
                        let place = own + at - first..own + range.end - first;
                        V::store(simd, &mut target[place], value);
                    }
                }
            }
        }
    }
}

impl Products<'_> {
    /// Transforms the points of a tile along its height, to the layout `[line][point][channel]`.
    #[inline(always)]
    fn along_height<S: Simd, const P: usize, const M: usize>(
        &self,
        simd: S,
        tile: usize,
        kept: &mut [f32],
        across: usize,
    ) {
        for column in 0..P {
            let mut sources = [&self.values[..0]; P];
            for (row, source) in sources.iter_mut().enumerate() {
                let place = (row * P + column) * self.apart.0 + tile * self.apart.1;
                *source = &self.values[place..][..across];
            }
            for from in (0..across).step_by(S::F32_LANES) {
                let mut line = [simd.splat_f32s(0.0); P];
                for (vector, source) in line.iter_mut().zip(&sources) {
                    *vector = f32::load(simd, &source[from..]);
                }
                let done: [S::f32s; M] = Output::apply(simd, line);
                for (row, &vector) in done.iter().enumerate() {
                    let place = (row * P + column) * across + from;
                    f32::store(simd, &mut kept[place..], vector);
                }
            }
        }
    }
}
