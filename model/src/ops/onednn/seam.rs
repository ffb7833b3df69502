//! Wrapping in longitude without a copy of the field: oneDNN pads with zeros, and the few output columns whose windows
//! cross the seam are recomputed from narrow copies of both edges.
//!
//! Both edges get the width of the wider one, so that they form one batch of one primitive. That primitive packs the
//! kernels a second time; if the kernels are larger than the field, the field is copied instead.

use super::super::conv_spec::{ConvSpec, Convolution};
use super::super::value::Value;

/// Fills a line with consecutive columns of a row that wraps, starting at column `first`, which may be negative.
pub fn columns<V: Value>(row: &[V], channels: usize, first: isize, mut line: &mut [V]) {
    let width = row.len() / channels;
    let mut at = first.rem_euclid(width as isize) as usize;
    while !line.is_empty() {
        let run = line.len().min((width - at) * channels);
        let (to, rest) = line.split_at_mut(run);
        to.copy_from_slice(&row[at * channels..][..run]);
        (at, line) = (0, rest);
    }
}

/// The two edges of a field, which contain the outputs whose windows cross the seam.
pub struct Seam {
    whole: Convolution,
    /// Output columns per edge.
    outputs: usize,
    /// Input columns that an edge reads.
    reach: usize,
    /// The first input column of each edge: west of the field for one, inside it for the other.
    starts: [isize; 2],
}

impl Seam {
    /// The edges of a convolution that wraps. `None` if nothing wraps, if the edges are most of the field, or if the
    /// kernels are larger than the field. Depends on the geometry alone.
    pub fn if_wrapping(geometry: &Convolution) -> Option<Self> {
        let (spec, padding) = (geometry.spec, geometry.spec.padding.1);
        let (width, outputs) = (geometry.x[2], geometry.y[2]);
        // Assumes that fields are about 3/2 as wide as high. The actual height and the batch size are ignored: strips
        // and batches must be bit-identical to whole fields and single samples.
        let kernels = spec.kernel.0 * spec.kernel.1 * geometry.y[3] / spec.groups.max(1);
        let pixels = width * width * 2 / 3;
        if !spec.periodic || padding == 0 || kernels > pixels {
            return None;
        }
        let window = (spec.kernel.1 - 1) * spec.dilation;
        let west = padding.div_ceil(spec.stride);
        let inside = (width + padding)
            .saturating_sub(window)
            .div_ceil(spec.stride);
        let edge = west.max(outputs.saturating_sub(inside)).min(outputs);
        let reach = (edge - 1) * spec.stride + window + 1;
        // If the edges overlapped, wrapped columns would be counted twice.
        (2 * reach <= width && 2 * edge <= outputs).then(|| Self {
            whole: *geometry,
            outputs: edge,
            reach,
            starts: [0, (outputs - edge) * spec.stride]
                .map(|start| start as isize - padding as isize),
        })
    }

    /// The convolution of the whole field, padded with zeros.
    pub fn open(&self) -> Convolution {
        Convolution {
            spec: self.whole.spec.periodic(false),
            ..self.whole
        }
    }

    /// The convolution of both edges as one batch.
    pub fn edges(&self) -> Convolution {
        let Convolution { spec, x, y } = self.whole;
        let ([b, h, _, c], [_, p, _, o]) = (x, y);
        Convolution {
            x: [2 * b, h, self.reach, c],
            y: [2 * b, p, self.outputs, o],
            spec: ConvSpec {
                padding: (spec.padding.0, 0),
                ..spec.periodic(false)
            },
        }
    }

    /// The inputs of both edges, including the wrapped columns.
    pub fn inputs<V: Value>(&self, x: &[V]) -> Vec<V> {
        let [b, h, width, c] = self.whole.x;
        let mut edges = vec![V::default(); 2 * b * h * self.reach * c];
        let mut lines = edges.chunks_exact_mut(self.reach * c);
        for start in self.starts {
            for (row, line) in x.chunks_exact(width * c).zip(&mut lines) {
                columns(row, c, start, line);
            }
        }
        edges
    }

    /// As [`Self::inputs`], with zeros for the columns that do not wrap, which the whole field has already counted.
    pub fn wrapped_inputs<V: Value>(&self, x: &[V]) -> Vec<V> {
        let mut edges = self.inputs(x);
        let channels = self.whole.x[3];
        for (_, column, values) in self.edge_columns(&mut edges, self.reach, channels) {
            if self.is_inside(column) {
                values.fill(V::default());
            }
        }
        edges
    }

    /// Extracts the outputs of both edges.
    pub fn outputs<V: Value>(&self, y: &[V]) -> Vec<V> {
        let [b, p, width, o] = self.whole.y;
        let mut edges = Vec::with_capacity(2 * b * p * self.outputs * o);
        for first in [0, width - self.outputs] {
            for row in y.chunks_exact(width * o) {
                edges.extend_from_slice(&row[first * o..][..self.outputs * o]);
            }
        }
        edges
    }

    /// Copies the outputs of both edges into those of the whole field.
    pub fn put<V: Value>(&self, edges: &[V], y: &mut [V]) {
        let [_, _, width, o] = self.whole.y;
        let mut edges = edges.chunks_exact(self.outputs * o);
        for first in [0, width - self.outputs] {
            for (row, edge) in y.chunks_exact_mut(width * o).zip(&mut edges) {
                row[first * o..][..edge.len()].copy_from_slice(edge);
            }
        }
    }

    /// Adds the input gradients of wrapped columns to the columns that they are copies of.
    pub fn add_wrapped<V: Value>(&self, edges: &mut [V], dx: &mut [V]) {
        let [_, _, width, c] = self.whole.x;
        for (row, column, values) in self.edge_columns(edges, self.reach, c) {
            if self.is_inside(column) {
                continue;
            }
            let origin = column.rem_euclid(width as isize) as usize;
            let target = &mut dx[(row * width + origin) * c..][..c];
            for (x, g) in target.iter_mut().zip(values) {
                *x = V::narrow(x.widen() + g.widen());
            }
        }
    }

    fn is_inside(&self, column: isize) -> bool {
        (0..self.whole.x[2] as isize).contains(&column)
    }

    /// Every column of both edges: (row of the field, column of the unwrapped field, values).
    fn edge_columns<'a, V: Value>(
        &self,
        edges: &'a mut [V],
        reach: usize,
        channels: usize,
    ) -> impl Iterator<Item = (usize, isize, &'a mut [V])> {
        let (rows, starts) = (self.whole.x[0] * self.whole.x[1], self.starts);
        let columns = edges.chunks_exact_mut(channels).enumerate();
        columns.map(move |(index, values)| {
            let (row, column) = (index / reach, index % reach);
            let start = starts[usize::from(row >= rows)];
            (row % rows, start + column as isize, values)
        })
    }
}
