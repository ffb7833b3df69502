//! The convolution itself: transform tiles, multiply at every point, transform back.

use super::input::{Columns, Lines};
use super::kernels::Kernels;
use super::tiles::Axis;
use super::transform::{Input, Output, Transform, both_axes};
use crate::ops::finish::Finish;
use crate::ops::joined::Joined;
use crate::ops::value::{PADDING, Value};
use crate::ops::{gemm, scratch};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// What goes through all three stages together, so that it stays in the cache while kernels stream through it.
struct Portion {
    tiles: usize,
    inputs: usize,
    outputs: usize,
}

/// What is computed at once, of tiles with so many points along an axis.
const fn portion(points: usize) -> Portion {
    let large = points > 6;
    Portion {
        tiles: if large { 24 } else { 48 },
        inputs: 256,
        outputs: if large { 128 } else { 256 },
    }
}

/// Values that a thread works in, of tiles with so many points along an axis.
pub fn scratch_values(along: usize, (inputs, outputs): (usize, usize)) -> usize {
    let portion = portion(along);
    let (depth, width) = (inputs.min(portion.inputs), outputs.min(portion.outputs));
    along * along * (depth * (1 + portion.tiles) + portion.tiles * width)
}

/// A stride-1 convolution by [`Kernels`].
#[derive(Debug, Clone)]
pub struct Geometry<const P: usize, const M: usize> {
    pub batch: usize,
    pub rows: Axis<P, M>,
    pub columns: Axis<P, M>,
    /// (h, w) of the input and of the output.
    pub input: (usize, usize),
    pub output: (usize, usize),
    /// The tiles of a row of tiles cover consecutive pixels, so that it can be cut.
    pub dense: bool,
}

/// A part of a row of tiles with the pixels that it owns.
struct TileRow<'a, V, const M: usize> {
    batch: usize,
    start: usize,
    columns: &'a [usize],
    /// The pixels from `first_column` on of up to `M` rows, for every output field.
    rows: Vec<[Option<&'a mut [V]>; M]>,
    first_column: usize,
}

/// The output in fields of so many channels each, stored as the input.
pub fn convolve<V: Value, const P: usize, const M: usize>(
    geometry: &Geometry<P, M>,
    x: &Joined<'_, V>,
    kernels: &Kernels,
    finish: Finish<'_, V>,
    fields: &[usize],
) -> Vec<Vec<V>>
where
    Input: Transform<P, P>,
{
    let portion = portion(P);
    let (height, width) = geometry.output;
    let pixels = geometry.batch * height * width;
    let field = |&channels: &usize| vec![V::default(); pixels * channels];
    let mut y: Vec<Vec<V>> = fields.iter().map(field).collect();
    let mut rows: Vec<Vec<Option<&mut [V]>>> = (y.iter_mut().zip(fields))
        .map(|(y, channels)| y.chunks_mut(width * channels).map(Some).collect())
        .collect();
    let all = &geometry.columns.starts;
    let cut = if geometry.dense {
        all.len().div_ceil(all.len().div_ceil(portion.tiles))
    } else {
        all.len()
    };
    let mut parts = Vec::new();
    for batch in 0..geometry.batch {
        for &start in &geometry.rows.starts {
            let writes = geometry.rows.writes(start);
            let mut owned: Vec<[Option<&mut [V]>; M]> = (rows.iter_mut())
                .map(|rows| writes.map(|row| row.and_then(|row| rows[batch * height + row].take())))
                .collect();
            for columns in all.chunks(cut) {
                let first_column = if geometry.dense { columns[0] } else { 0 };
                let pixels = if geometry.dense {
                    M * columns.len()
                } else {
                    width
                };
                let rows = (owned.iter_mut().zip(fields))
                    .map(|(owned, channels)| {
                        owned.each_mut().map(|row| front(row, pixels * channels))
                    })
                    .collect();
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
    in_units(parts, portion.tiles)
        .into_par_iter()
        .for_each(|unit| {
            Arch::new().dispatch(RunUnit {
                geometry,
                x,
                kernels,
                finish,
                fields,
                unit,
            });
        });
    y
}

/// Parts that one thread computes together: up to `most` tiles, less where there would be too few for all threads.
fn in_units<V, const M: usize>(
    parts: Vec<TileRow<'_, V, M>>,
    most: usize,
) -> Vec<Vec<TileRow<'_, V, M>>> {
    let total: usize = parts.iter().map(|part| part.columns.len()).sum();
    let together = most
        .min(total.div_ceil(rayon::current_num_threads()))
        .max(1);
    let mut units: Vec<Vec<TileRow<'_, V, M>>> = Vec::new();
    let mut room = 0;
    for part in parts {
        if room < part.columns.len() {
            units.push(Vec::new());
            room = together.max(part.columns.len());
        }
        room -= part.columns.len();
        units.last_mut().expect("one was pushed").push(part);
    }
    units
}

/// Cuts up to so many values from the front of a row.
fn front<'a, V>(row: &mut Option<&'a mut [V]>, values: usize) -> Option<&'a mut [V]> {
    let rest = row.take()?;
    let (part, after) = rest.split_at_mut(rest.len().min(values));
    *row = Some(after);
    Some(part)
}

struct RunUnit<'a, V, const P: usize, const M: usize> {
    geometry: &'a Geometry<P, M>,
    x: &'a Joined<'a, V>,
    kernels: &'a Kernels,
    finish: Finish<'a, V>,
    fields: &'a [usize],
    unit: Vec<TileRow<'a, V, M>>,
}

impl<V: Value, const P: usize, const M: usize> WithSimd for RunUnit<'_, V, P, M>
where
    Input: Transform<P, P>,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let block = self.kernels.block;
        let tiles: usize = self.unit.iter().map(|part| part.columns.len()).sum();
        let tiles = tiles.next_multiple_of(block.rows);
        let inputs = self.kernels.inputs;
        let portion = portion(P);
        // Equal parts.
        let depth = inputs
            .div_ceil(inputs.div_ceil(portion.inputs))
            .next_multiple_of(PADDING);
        let panels_at_once = portion.outputs / block.columns;
        // One cache line more than a power of two, lest all rows fall into the same set.
        let tile = P * P * depth + 16;
        let width = panels_at_once.min(self.kernels.panels()) * block.columns;
        let point_size = tiles * width + 16;
        let kept = P * P * depth;
        let [mut both, mut products] = scratch::take(kept + tiles * tile, P * P * point_size);
        let (kept, points) = both.split_at_mut(kept);
        for first_panel in (0..self.kernels.panels()).step_by(panels_at_once) {
            let panels = first_panel..self.kernels.panels().min(first_panel + panels_at_once);
            for from in (0..inputs).step_by(depth) {
                let to = inputs.min(from + depth);
                if first_panel == 0 || depth < inputs {
                    self.transform_inputs(simd, (points, kept), tile, (from, to), depth);
                }
                for point in 0..P * P {
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
        scratch::give_back([both, products]);
    }
}

impl<V: Value, const P: usize, const M: usize> RunUnit<'_, V, P, M>
where
    Input: Transform<P, P>,
{
    #[inline(always)]
    fn transform_inputs<S: Simd>(
        &self,
        simd: S,
        (points, kept): (&mut [f32], &mut [f32]),
        tile: usize,
        range: (usize, usize),
        depth: usize,
    ) {
        let mut places = points.chunks_exact_mut(tile);
        for part in &self.unit {
            let lines = Lines::of(self.geometry, self.x, range, (part.batch, part.start));
            let mut columns = Columns::<P, M>::new(kept, depth);
            for (&start, points) in part.columns.iter().zip(&mut places) {
                let reads = self.geometry.columns.reads(start);
                columns.tile(simd, &lines, reads, (points, depth));
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
        let fields = self.fields;
        let mut index = 0;
        for part in &mut self.unit {
            let row_of = self.geometry.rows.writes(part.start);
            for &start in part.columns {
                let columns = self.geometry.columns.writes(start);
                for at in channels.clone().step_by(S::F32_LANES) {
                    let (field, first, count) = field_of(fields, at);
                    let end = channels.end.min(first + count);
                    let from = index * width + at - channels.start;
                    let mut square = [[zero; P]; P];
                    for (point, vector) in square.as_flattened_mut().iter_mut().enumerate() {
                        *vector = f32::load(simd, &products[point * point_size + from..]);
                    }
                    let values: [[S::f32s; M]; M] = both_axes::<Output, S, P, M>(simd, &square);
                    for (place, &value) in values.as_flattened().iter().enumerate() {
                        let (row, column) = (place / M, columns[place % M]);
                        let (Some(target), Some(row), Some(column)) =
                            (&mut part.rows[field][row], row_of[row], column)
                        else {
                            continue;
                        };
                        let whole = ((part.batch * height + row) * full_width + column) * all;
                        let value = self.finish.apply(simd, value, whole, (at, channels.end));
                        let pixel = (column - part.first_column) * count;
                        let place = pixel + at - first..pixel + end - first;
                        V::store(simd, &mut target[place], value);
                    }
                }
                index += 1;
            }
        }
    }
}

/// The field that holds a channel, its first one, and how many it has.
#[inline(always)]
fn field_of(fields: &[usize], channel: usize) -> (usize, usize, usize) {
    let mut first = 0;
    for (field, &count) in fields.iter().enumerate() {
        if channel < first + count {
            return (field, first, count);
        }
        first += count;
    }
    unreachable!("fields have as many channels as kernels have outputs")
}
