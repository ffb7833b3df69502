//! Longitude that wraps, without a copy of the field: oneDNN pads with zeros, and the few output columns whose windows
//! cross the seam are computed again from narrow copies of both edges.
//!
//! Both edges are as wide as the wider needs to be, so that they are one batch of one primitive. It brings the kernels
//! into its order once more: where they are more than the field, the field is copied instead.

use super::super::conv_spec::{ConvSpec, Convolution};
use super::super::value::Value;

/// Fills a line with columns of a row that wraps, from column `first` of any sign.
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

/// The two edges of a field, and the outputs whose windows cross the seam.
pub struct Seam {
    whole: Convolution,
    /// Output columns of an edge.
    outputs: usize,
    /// Input columns that they read.
    reach: usize,
    /// Where those begin: west of the field for one edge, inside it for the other.
    starts: [isize; 2],
}

impl Seam {
    /// The edges of a convolution that wraps; none if nothing wraps, if the edges are most of the field, or if the kernels are
    /// more than the field. A function of the geometry alone.
    pub fn of(geometry: &Convolution) -> Option<Self> {
        let (spec, padding) = (geometry.spec, geometry.spec.padding.1);
        let (width, outputs) = (geometry.x[2], geometry.y[2]);
        // A field is about three halves as wide as it is high. Its true height is not asked, nor how many there are:
        // strips and batches must have the bits of whole fields and single samples.
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
        // Edges that share an output would count its wrapped columns twice.
        (2 * reach <= width && 2 * edge <= outputs).then(|| Self {
            whole: *geometry,
            outputs: edge,
            reach,
            starts: [0, (outputs - edge) * spec.stride]
                .map(|start| start as isize - padding as isize),
        })
    }

    /// The whole field without its seam.
    pub fn open(&self) -> Convolution {
        Convolution {
            spec: self.whole.spec.periodic(false),
            ..self.whole
        }
    }

    /// Both edges.
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

    /// Both edges of the input, with the columns that wrap.
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

    /// The same with zeros in place of the columns that do not wrap, which the whole field has accounted for.
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

    /// The outputs of both edges.
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

    /// Puts the outputs of both edges into the whole field's.
    pub fn put<V: Value>(&self, edges: &[V], y: &mut [V]) {
        let [_, _, width, o] = self.whole.y;
        let mut edges = edges.chunks_exact(self.outputs * o);
        for first in [0, width - self.outputs] {
            for (row, edge) in y.chunks_exact_mut(width * o).zip(&mut edges) {
                row[first * o..][..edge.len()].copy_from_slice(edge);
            }
        }
    }

    /// Adds the input gradients of the columns that wrap to the columns that they show.
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

    /// Every column of both edges: (row of the field, column of the field continued, values).
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
