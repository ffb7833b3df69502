//! The convolution itself: transform tiles, multiply at every point, transform back.

use super::OUTPUTS;
use super::input::{Columns, Lines};
use super::kernels::Kernels;
use super::output::{Products, Writing, kept_values};
use super::tiles::Axis;
use super::transform::{Input, Transform};
use super::units::{self, TileRow};
use crate::ops::finish::Finish;
use crate::ops::joined::Joined;
use crate::ops::value::{PADDING, Value};
use crate::ops::{gemm, scratch};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// The number of tiles and channels that go through all three stages together, small enough that they stay in the cache
/// while kernels are streamed.
struct Portion {
    tiles: usize,
    inputs: usize,
    outputs: usize,
}

/// The portion for tiles with this many points per axis.
const fn portion(points: usize) -> Portion {
    let large = points > 6;
    Portion {
        tiles: 24,
        inputs: if large { 256 } else { 512 },
        outputs: if large { 128 } else { 256 },
    }
}

/// The number of scratch values that a thread needs, for tiles with this many points per axis.
pub fn scratch_values(along: usize, (inputs, outputs): (usize, usize)) -> usize {
    let portion = portion(along);
    let (depth, width) = (inputs.min(portion.inputs), outputs.min(portion.outputs));
    let kept = (along * along * depth).max(kept_values(along, OUTPUTS, width));
    kept + along * along * portion.tiles * (depth + width)
}

/// The geometry of a stride-1 convolution, or of one of its gradients.
#[derive(Debug, Clone)]
pub struct Geometry<const P: usize, const M: usize> {
    pub batch: usize,
    pub rows: Axis<P, M>,
    pub columns: Axis<P, M>,
    /// The extents (h, w) of the input and of the output.
    pub input: (usize, usize),
    pub output: (usize, usize),
    /// Whether tiles cover consecutive pixels (no dilation), so that a row of tiles can be cut anywhere.
    pub dense: bool,
}

/// Computes the output as fields with these numbers of channels, stored in the type of the input.
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
    let (height, width) = geometry.output;
    let pixels = geometry.batch * height * width;
    let field = |&channels: &usize| vec![V::default(); pixels * channels];
    let mut y: Vec<Vec<V>> = fields.iter().map(field).collect();
    let size = units::size(geometry, portion(P).tiles, kernels.block.rows);
    units::cut(geometry, (&mut y, fields), size)
        .into_par_iter()
        .for_each(|unit| {
            Arch::new().dispatch(RunUnit {
                geometry,
                x,
                kernels,
                writing: Writing {
                    fields,
                    all: kernels.outputs,
                    finish,
                },
                unit,
            });
        });
    y
}

/// Computes the tiles of one unit.
struct RunUnit<'a, V, const P: usize, const M: usize> {
    geometry: &'a Geometry<P, M>,
    x: &'a Joined<'a, V>,
    kernels: &'a Kernels,
    writing: Writing<'a, V>,
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
        // Splits the input channels into equal parts, none larger than a portion.
        let depth = inputs
            .div_ceil(inputs.div_ceil(portion.inputs))
            .next_multiple_of(PADDING);
        let panels_at_once = portion.outputs / block.columns;
        // One cache line more than a power of two, so that rows do not all map to the same cache set.
        let tile = P * P * depth + 16;
        let width = panels_at_once.min(self.kernels.panels()) * block.columns;
        let point_size = tiles * width + 16;
        let kept = (P * P * depth).max(kept_values(P, M, width));
        let [mut both, mut products] = scratch::take(kept + tiles * tile, P * P * point_size);
        let (kept, points) = both.split_at_mut(kept);
        for first_panel in (0..self.kernels.panels()).step_by(panels_at_once) {
            let panels = first_panel..self.kernels.panels().min(first_panel + panels_at_once);
            for from in (0..inputs).step_by(depth) {
                let to = inputs.min(from + depth);
                if first_panel == 0 || depth < inputs {
                    self.transform_inputs(simd, (points, &mut *kept), tile, (from, to), depth);
                }
                for point in 0..P * P {
                    for panel in panels.clone() {
                        let place = point * point_size + (panel - first_panel) * block.columns;
                        let a = gemm::Rows {
                            values: &points[point * depth..],
                            stride: tile,
                            count: tiles,
                            k: to - from,
                        };
                        let b = self.kernels.panel(panel, point, from, to);
                        let target = gemm::Target {
                            stride: width,
                            add: from > 0,
                        };
                        gemm::rows_by_panel(simd, a, b, &mut products[place..], target);
                    }
                }
            }
            let first = first_panel * block.columns;
            let last = self.kernels.outputs.min(panels.end * block.columns);
            let products = Products {
                values: &products,
                apart: (point_size, width),
            };
            let written = (products, &mut *kept);
            self.writing
                .write(simd, self.geometry, &mut self.unit, written, first..last);
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
}
