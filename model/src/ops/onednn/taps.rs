//! Backward-weights as one matrix product per kernel tap: dW[:, :, r, s] = Σ dyᵀ x over the pixels that the tap reads.

use super::machine::multiplies_tiles;
use super::product::gemm_transposed;
use super::{seam, strips};
use crate::error::Result;
use crate::ops::conv_spec::Convolution;
use crate::ops::scratch;
use crate::ops::value::Value;
use candle_core::DType;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// Whether the tap products are preferred over oneDNN's own backward-weights, with or without tiles.
///
/// Measured (see `docs/decisions.md`): 1x1 kernels always; 3x3 kernels once the dilation leaves oneDNN's fast path. The
/// rule depends on the geometry, never on a timing, so that results are reproducible. Two cases need it for
/// correctness: 1x1 kernels with a stride, where oneDNN 2.6 returns wrong gradients if the last window leaves input
/// unread (`backend_parity` has the case), and rows that oneDNN must not run uncut and that strips do not divide.
pub fn are_faster(geometry: &Convolution, tiles: bool) -> bool {
    let spec = geometry.spec;
    let point = spec.kernel == (1, 1) && spec.padding == (0, 0);
    let uneven = strips::must_be_cut(geometry, tiles)
        && strips::Strips::if_worthwhile(geometry, 2, tiles).is_none();
    spec.groups == 1 && (point || spec.stride == 1 && spec.dilation >= 3 || uneven)
}

/// Whether the kernel gradient for activations of `dtype` is computed as one product for each of several taps, which
/// are then added to the accumulated gradient.
pub fn adds_up_taps(geometry: &Convolution, dtype: DType) -> bool {
    let tiles = dtype == DType::BF16 && multiplies_tiles();
    are_faster(geometry, tiles) && geometry.spec.kernel != (1, 1)
}

/// Adds the gradient to `dw`.
pub fn backward_weights<V: Value>(
    geometry: &Convolution,
    x: &[V],
    dy: &[V],
    dw: &mut [f32],
) -> Result<()> {
    let ([batch, _, _, channels], [_, out_h, out_w, out]) = (geometry.x, geometry.y);
    let spec = geometry.spec;
    if spec.kernel == (1, 1) && spec.padding == (0, 0) {
        let read = every_stride(x, geometry.x, spec.stride);
        return gemm_transposed((out, channels, batch * out_h * out_w), dy, &read, true, dw);
    }
    let taps: Vec<Tap> = Tap::all(geometry).collect();
    let pairs = out * channels;
    let [mut products, rest] = scratch::take(taps.len() * pairs, 0);
    let (mut x_seen, mut dy_seen) = (Vec::new(), Vec::new());
    for (tap, product) in taps.iter().zip(products.chunks_exact_mut(pairs)) {
        let x = tap.inputs(geometry, x, &mut x_seen);
        let dy = tap.outputs(geometry, dy, &mut dy_seen);
        let pixels = batch * tap.rows.len() * tap.columns.len();
        gemm_transposed((out, channels, pixels), dy, x, false, product)?;
    }
    // The taps of a pair of channels are adjacent in `dw`, so one pass over it serves all of them.
    let area = spec.kernel.0 * spec.kernel.1;
    dw.par_chunks_exact_mut(area)
        .with_min_len(MERGED)
        .enumerate()
        .for_each(|(pair, dw)| {
            for (tap, product) in taps.iter().zip(products.chunks_exact(pairs)) {
                dw[tap.index] += product[pair];
            }
        });
    scratch::give_back([products, rest]);
    Ok(())
}

/// The minimum number of channel pairs that a thread merges.
const MERGED: usize = 2048;

/// A tap of a kernel of stride 1, and the outputs for which it reads inside the field.
pub struct Tap {
    pub index: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    /// The input position read for the first of these outputs.
    first: (usize, isize),
}

impl Tap {
    /// The taps that read more than padding.
    pub fn all(geometry: &Convolution) -> impl Iterator<Item = Self> {
        let spec = geometry.spec;
        let ([_, height, width, _], [_, out_h, out_w, _]) = (geometry.x, geometry.y);
        let taps = (0..spec.kernel.0).flat_map(move |r| (0..spec.kernel.1).map(move |s| (r, s)));
        let tap = move |(r, s): (usize, usize)| {
            let rows = seen(out_h, r * spec.dilation, spec.padding.0, height);
            let columns = match spec.periodic {
                true => 0..out_w,
                false => seen(out_w, s * spec.dilation, spec.padding.1, width),
            };
            let top = (rows.start + r * spec.dilation).saturating_sub(spec.padding.0);
            let left = (columns.start + s * spec.dilation) as isize - spec.padding.1 as isize;
            Self {
                index: r * spec.kernel.1 + s,
                rows,
                columns,
                first: (top, left),
            }
        };
        let reads = |tap: &Self| !tap.rows.is_empty() && !tap.columns.is_empty();
        taps.map(tap).filter(reads)
    }

    /// The input pixels that the tap reads, contiguously: a view where they are contiguous in the field, otherwise a
    /// copy.
    pub fn inputs<'a, V: Value>(
        &self,
        geometry: &Convolution,
        x: &'a [V],
        room: &'a mut Vec<V>,
    ) -> &'a [V] {
        let [_, height, width, channels] = geometry.x;
        let (top, left) = self.first;
        self.pixels((height, width, channels), (top, left), x, room)
    }

    /// The outputs to which the tap contributes, likewise.
    fn outputs<'a, V: Value>(
        &self,
        geometry: &Convolution,
        dy: &'a [V],
        room: &'a mut Vec<V>,
    ) -> &'a [V] {
        let [_, height, width, channels] = geometry.y;
        let first = (self.rows.start, self.columns.start as isize);
        self.pixels((height, width, channels), first, dy, room)
    }

    fn pixels<'a, V: Value>(
        &self,
        (height, width, channels): (usize, usize, usize),
        (top, left): (usize, isize),
        field: &'a [V],
        room: &'a mut Vec<V>,
    ) -> &'a [V] {
        let (rows, row) = (self.rows.len(), width * channels);
        let batch = field.len() / (height * row);
        let whole = left == 0 && self.columns.len() == width;
        if whole && (batch == 1 || rows == height) {
            return &field[top * row..][..batch * rows * row];
        }
        let line = self.columns.len() * channels;
        room.resize(batch * rows * line, V::default());
        let lines = room.par_chunks_exact_mut(line).enumerate();
        lines.with_min_len(4).for_each(|(index, line)| {
            let (b, h) = (index / rows, top + index % rows);
            seam::columns(
                &field[(b * height + h) * row..][..row],
                channels,
                left,
                line,
            );
        });
        room
    }
}

/// The pixels that a 1x1 kernel with this stride reads.
fn every_stride<V: Value>(x: &[V], shape: [usize; 4], stride: usize) -> Cow<'_, [V]> {
    if stride == 1 {
        return x.into();
    }
    let [_, height, width, channels] = shape;
    let mut read = Vec::with_capacity(x.len() / (stride * stride) + x.len() / stride);
    for field in x.chunks_exact(height * width * channels) {
        for row in field.chunks_exact(width * channels).step_by(stride) {
            let pixels = row.chunks_exact(channels).step_by(stride);
            pixels.for_each(|pixel| read.extend_from_slice(pixel));
        }
    }
    read.into()
}

/// Output positions for which the tap at `offset` reads inside the input (stride 1).
fn seen(outputs: usize, offset: usize, padding: usize, extent: usize) -> Range<usize> {
    let start = padding.saturating_sub(offset).min(outputs);
    let end = (extent + padding).saturating_sub(offset).min(outputs);
    start..end.max(start)
}
