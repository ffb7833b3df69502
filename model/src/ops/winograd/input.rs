//! Transforms a row of input tiles to points.
//!
//! Tiles start `M` positions apart and are `P` wide, so neighbours share columns of pixels: each column is transformed
//! along its height once and kept for the next tile. Both steps process channels in a few memory streams at a time,
//! which the hardware prefetches; all pixels of a tile at once would be too many streams.

use super::forward::Geometry;
use super::transform::{Input, Transform};
use crate::ops::joined::Joined;
use crate::ops::value::Value;
use pulp::Simd;

/// The lines of pixels that a row of tiles reads.
pub struct Lines<'a, V, const P: usize> {
    /// One part per field that contains some of the channels.
    parts: Vec<Part<'a, V, P>>,
    /// The number of channels to transform.
    count: usize,
}

/// The lines of one of the joined fields.
struct Part<'a, V, const P: usize> {
    /// Empty slices for zero padding.
    lines: [&'a [V]; P],
    /// The number of channels per pixel, and the range to transform.
    channels: usize,
    range: (usize, usize),
    /// The offset of this range among all transformed channels.
    at: usize,
}

impl<'a, V, const P: usize> Lines<'a, V, P> {
    /// The lines for the tiles that start at output line `start`, restricted to the channels in `range`.
    pub fn of<const M: usize>(
        geometry: &Geometry<P, M>,
        x: &Joined<'a, V>,
        range: (usize, usize),
        (batch, start): (usize, usize),
    ) -> Self {
        let (height, width) = geometry.input;
        let part = |(x, channels, range, at): (&'a [V], usize, (usize, usize), usize)| Part {
            lines: geometry.rows.reads(start).map(|row| {
                row.map_or(&[][..], |row| {
                    &x[(batch * height + row) * width * channels..][..width * channels]
                })
            }),
            channels,
            range,
            at,
        };
        Self {
            parts: x.within(range).map(part).collect(),
            count: range.1 - range.0,
        }
    }
}

/// A ring of the last tile's columns, transformed along their height.
pub struct Columns<'a, const P: usize, const M: usize> {
    /// Layout `[slot][point][channel]`, with `depth` channels.
    values: &'a mut [f32],
    depth: usize,
    /// The column in each slot: `None` for an empty slot, `Some(None)` for zeros outside the field.
    held: [Option<Option<usize>>; P],
    /// The slot of the first column.
    first: usize,
}

impl<'a, const P: usize, const M: usize> Columns<'a, P, M>
where
    Input: Transform<P, P>,
{
    /// An empty ring. `values` has room for `P * P * depth`.
    pub fn new(values: &'a mut [f32], depth: usize) -> Self {
        Self {
            values,
            depth,
            held: [None; P],
            first: 0,
        }
    }

    /// Writes the points of the tile that reads these columns: point p, channel c at `p * apart + c`. All calls must
    /// pass the same `lines`; columns still held from the previous call are not transformed again.
    #[inline(always)]
    pub fn tile<V: Value, S: Simd>(
        &mut self,
        simd: S,
        lines: &Lines<'_, V, P>,
        columns: [Option<usize>; P],
        (points, apart): (&mut [f32], usize),
    ) {
        let first = self.first;
        self.first = (first + M) % P;
        for (index, &column) in columns.iter().enumerate() {
            let slot = (first + index) % P;
            if self.held[slot] != Some(column) {
                self.held[slot] = Some(column);
                self.fill(simd, lines, column, slot);
            }
        }
        let (depth, count) = (self.depth, lines.count);
        for row in 0..P {
            let mut sources = [&self.values[..0]; P];
            for (index, source) in sources.iter_mut().enumerate() {
                *source = &self.values[(((first + index) % P) * P + row) * depth..][..depth];
            }
            for from in (0..count).step_by(S::F32_LANES) {
                let mut line = [simd.splat_f32s(0.0); P];
                for (vector, source) in line.iter_mut().zip(&sources) {
                    *vector = f32::load(simd, &source[from..]);
                }
                let done = Input::apply(simd, line);
                for (index, &vector) in done.iter().enumerate() {
                    f32::store(
                        simd,
                        &mut points[(row * P + index) * apart + from..],
                        vector,
                    );
                }
            }
        }
    }

    /// Transforms one column into its slot.
    #[inline(always)]
    fn fill<V: Value, S: Simd>(
        &mut self,
        simd: S,
        lines: &Lines<'_, V, P>,
        column: Option<usize>,
        slot: usize,
    ) {
        let values = &mut self.values[slot * P * self.depth..][..P * self.depth];
        for part in &lines.parts {
            let (channels, (from, to)) = (part.channels, part.range);
            let mut pixels = [&part.lines[0][..0]; P];
            if let Some(column) = column {
                for (pixel, line) in pixels.iter_mut().zip(&part.lines) {
                    *pixel = (line.get(column * channels + from..column * channels + to))
                        .unwrap_or_default();
                }
            }
            for from in (0..to - from).step_by(S::F32_LANES) {
                let mut line = [simd.splat_f32s(0.0); P];
                for (vector, pixel) in line.iter_mut().zip(&pixels) {
                    *vector = V::load(simd, pixel.get(from..).unwrap_or_default());
                }
                let done = Input::apply(simd, line);
                for (index, &vector) in done.iter().enumerate() {
                    let place = index * self.depth + part.at + from;
                    f32::store(simd, &mut values[place..], vector);
                }
            }
        }
    }
}
