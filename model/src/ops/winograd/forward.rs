//! The convolution itself: transform tiles, multiply at every point, transform back.

use super::kernels::{Kernels, SQUARE};
use super::tiles::Axis;
use super::transform::{Input, OUTPUTS, Output, POINTS, both_axes};
use crate::ops::finish::Finish;
use crate::ops::value::{PADDING, Value};
use crate::ops::{gemm, scratch};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Tiles that go through all three stages together: their points stay in the cache while kernels stream through it.
const TILES: usize = 48;
/// Channels of the input or output that do so.
const CHANNELS: usize = 256;

/// A stride-1 convolution by [`Kernels`].
#[derive(Debug, Clone)]
pub struct Geometry {
    pub batch: usize,
    pub rows: Axis,
    pub columns: Axis,
    /// (h, w) of the input and of the output.
    pub input: (usize, usize),
    pub output: (usize, usize),
    /// The tiles of a row of tiles cover consecutive pixels, so that it can be cut.
    pub dense: bool,
}

/// A part of a row of tiles with the pixels that it owns.
struct TileRow<'a, V> {
    batch: usize,
    start: usize,
    columns: &'a [usize],
    /// Output pixels from `first_column` on of up to four rows.
    rows: [Option<&'a mut [V]>; OUTPUTS],
    first_column: usize,
}

/// The output, stored as the input.
pub fn convolve<V: Value>(
    geometry: &Geometry,
    x: &[V],
    kernels: &Kernels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let ((height, width), channels) = (geometry.output, kernels.outputs);
    let mut y = vec![V::default(); geometry.batch * height * width * channels];
    let mut rows: Vec<Option<&mut [V]>> = y.chunks_mut(width * channels).map(Some).collect();
    let all = &geometry.columns.starts;
    let cut = if geometry.dense {
        all.len().div_ceil(all.len().div_ceil(TILES))
    } else {
        all.len()
    };
    let mut parts = Vec::new();
    for batch in 0..geometry.batch {
        for &start in &geometry.rows.starts {
            let mut owned = geometry
                .rows
                .writes(start)
                .map(|row| row.and_then(|row| rows[batch * height + row].take()));
            for columns in all.chunks(cut) {
                let first_column = if geometry.dense { columns[0] } else { 0 };
                let pixels = if geometry.dense {
                    OUTPUTS * columns.len()
                } else {
                    width
                };
                let rows = owned.each_mut().map(|row| {
                    let rest = row.take()?;
                    let (part, after) = rest.split_at_mut(rest.len().min(pixels * channels));
                    *row = Some(after);
                    Some(part)
                });
                parts.push(TileRow {
                    batch,
                    start,
                    columns,
                    rows,
                    first_column,
                });
            }
        }
    }
    let total: usize = parts.iter().map(|part| part.columns.len()).sum();
    let together = TILES
        .min(total.div_ceil(rayon::current_num_threads()))
        .max(1);
    let mut units: Vec<Vec<TileRow<'_, V>>> = Vec::new();
    let mut room = 0;
    for part in parts {
        if room < part.columns.len() {
            units.push(Vec::new());
            room = together.max(part.columns.len());
        }
        room -= part.columns.len();
        units.last_mut().expect("one was pushed").push(part);
    }
    units.into_par_iter().for_each(|unit| {
        Arch::new().dispatch(RunUnit {
            geometry,
            x,
            kernels,
            finish,
            unit,
        });
    });
    y
}

struct RunUnit<'a, V> {
    geometry: &'a Geometry,
    x: &'a [V],
    kernels: &'a Kernels,
    finish: Finish<'a, V>,
    unit: Vec<TileRow<'a, V>>,
}

impl<V: Value> WithSimd for RunUnit<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let block = self.kernels.block;
        let tiles: usize = self.unit.iter().map(|part| part.columns.len()).sum();
        let tiles = tiles.next_multiple_of(block.rows);
        let inputs = self.kernels.inputs;
        // Equal parts of at most CHANNELS.
        let depth = inputs
            .div_ceil(inputs.div_ceil(CHANNELS))
            .next_multiple_of(PADDING);
        let panels_at_once = CHANNELS / block.columns;
        // One cache line more than a power of two, lest all rows fall into the same set.
        let tile = SQUARE * depth + 16;
        let width = panels_at_once.min(self.kernels.panels()) * block.columns;
        let point_size = tiles * width + 16;
        let [mut points, mut products] = scratch::take(tiles * tile, SQUARE * point_size);
        for first_panel in (0..self.kernels.panels()).step_by(panels_at_once) {
            let panels = first_panel..self.kernels.panels().min(first_panel + panels_at_once);
            for from in (0..inputs).step_by(depth) {
                let to = inputs.min(from + depth);
                if first_panel == 0 || depth < inputs {
                    self.transform_inputs(simd, &mut points, tile, (from, to), depth);
                }
                for point in 0..SQUARE {
                    for panel in panels.clone() {
                        let place = point * point_size + (panel - first_panel) * block.columns;
                        gemm::rows_by_panel(
                            simd,
                            (tiles, to - from),
                            &points[point * depth..],
                            tile,
                            self.kernels.panel(panel, point, from, to),
                            &mut products[place..],
                            width,
                            from > 0,
                        );
                    }
                }
            }
            let first = first_panel * block.columns;
            let last = self.kernels.outputs.min(panels.end * block.columns);
            self.transform_outputs(simd, &products, point_size, width, first..last);
        }
        scratch::give_back([points, products]);
    }
}

impl<V: Value> RunUnit<'_, V> {
    #[inline(always)]
    fn transform_inputs<S: Simd>(
        &self,
        simd: S,
        points: &mut [f32],
        tile: usize,
        (from, to): (usize, usize),
        depth: usize,
    ) {
        let Geometry {
            input: (height, width),
            rows,
            columns,
            ..
        } = self.geometry;
        let channels = self.kernels.inputs;
        let mut places = points.chunks_exact_mut(tile);
        for part in &self.unit {
            let rows = rows.reads(part.start);
            for (&start, points) in part.columns.iter().zip(&mut places) {
                let columns = columns.reads(start);
                let mut pixels: [&[V]; SQUARE] = [&[]; SQUARE];
                for (at, pixel) in pixels.iter_mut().enumerate() {
                    if let (Some(row), Some(column)) = (rows[at / POINTS], columns[at % POINTS]) {
                        let first = ((part.batch * height + row) * width + column) * channels;
                        *pixel = &self.x[first + from..first + to];
                    }
                }
                input_tile(simd, &pixels, to - from, points, depth);
            }
        }
    }

    #[inline(always)]
    fn transform_outputs<S: Simd>(
        &mut self,
        simd: S,
        products: &[f32],
        point_size: usize,
        width: usize,
        channels: std::ops::Range<usize>,
    ) {
        let all = self.kernels.outputs;
        let (height, full_width) = self.geometry.output;
        let zero = simd.splat_f32s(0.0);
        let mut index = 0;
        for part in &mut self.unit {
            let row_of = self.geometry.rows.writes(part.start);
            for &start in part.columns {
                let columns = self.geometry.columns.writes(start);
                for at in channels.clone().step_by(S::F32_LANES) {
                    let from = index * width + at - channels.start;
                    let mut square = [zero; SQUARE];
                    for (point, vector) in square.iter_mut().enumerate() {
                        *vector = f32::load(simd, &products[point * point_size + from..]);
                    }
                    let values: [S::f32s; OUTPUTS * OUTPUTS] =
                        both_axes::<Output, S, POINTS, OUTPUTS, _, _>(simd, &square);
                    for (place, &value) in values.iter().enumerate() {
                        let (row, column) = (place / OUTPUTS, columns[place % OUTPUTS]);
                        let (Some(target), Some(row), Some(column)) =
                            (&mut part.rows[row], row_of[row], column)
                        else {
                            continue;
                        };
                        let whole = ((part.batch * height + row) * full_width + column) * all;
                        let value = self.finish.apply(simd, value, whole, (at, channels.end));
                        let pixel = (column - part.first_column) * all;
                        V::store(simd, &mut target[pixel + at..pixel + channels.end], value);
                    }
                }
                index += 1;
            }
        }
    }
}

/// The points of one tile: point p, channel c at `p * depth + c`. An empty pixel is zeros.
#[inline(always)]
pub fn input_tile<V: Value, S: Simd>(
    simd: S,
    pixels: &[&[V]; SQUARE],
    channels: usize,
    points: &mut [f32],
    depth: usize,
) {
    let mut square = [simd.splat_f32s(0.0); SQUARE];
    for from in (0..channels).step_by(S::F32_LANES) {
        for (vector, pixel) in square.iter_mut().zip(pixels) {
            *vector = V::load(simd, pixel.get(from..).unwrap_or(&[]));
        }
        let transformed: [S::f32s; SQUARE] =
            both_axes::<Input, S, POINTS, POINTS, _, _>(simd, &square);
        for (point, &vector) in transformed.iter().enumerate() {
            f32::store(simd, &mut points[point * depth + from..], vector);
        }
    }
}
