//! Wide fields cut into strips of longitude, so that the rows that a kernel touches stay in the L1 cache.
//!
//! oneDNN's backward-weights for AVX2 walks whole rows of plain NHWC, which do not fit into the cache for wide fields.
//! Measured for 3x3 at 192 x 288 on a shared machine (two Zen 3 cores, load 5 to 13, alternating builds with and
//! without strips, including copies, ranges of medians of 5 rounds): 48 to 32 channels 1.5 to 2.9 times faster, 64 to
//! 64 1.6 to 2.3, 32 to 24 between 0.9 and 2.5, 24 to 24 between 0.8 and 1.6. Therefore short rows are not cut.

use super::seam;
use crate::ops::conv_spec::{ConvSpec, Convolution};
use crate::ops::value::Value;
use rayon::prelude::*;
use std::ops::Range;

/// Output columns per strip.
const COLUMNS: usize = 36;

/// The minimum size of an input or output row, in bytes, for which cutting is worthwhile.
const WIDE: usize = 32 << 10;

/// Output columns per strip where bf16 is multiplied in tiles: 5 to 20 % faster than 36.
const TILED_COLUMNS: usize = 96;

/// Bytes of the copies of a group of strips, unless a single strip per thread is larger.
const GROUP: usize = 16 << 20;

/// The longest row, in pixels, whose 3x3 gradient oneDNN 2.6 may compute in tiles. Found by trial: from 230 pixels on
/// it writes out of bounds for rows of 72, 96 or 192; up to 216 it never did, nor for other kernels or strides.
const TILED_ROW: usize = 216;

/// Whether oneDNN must not run this convolution on whole rows.
pub fn must_be_cut(geometry: &Convolution, tiles: bool) -> bool {
    let spec = geometry.spec;
    tiles && spec.kernel == (3, 3) && spec.stride == 1 && geometry.y[2] > TILED_ROW
}

/// Bytes of the copies of an uncut field and its output gradient that oneDNN makes for the kernel gradient: its bf16
/// code transposes to pixels before channels, in groups of 16 channels, in every thread that takes a part of the rows
/// (measured with two threads).
pub fn transposed_bytes(geometry: &Convolution) -> usize {
    let values = |shape: [usize; 4]| {
        let [batch, height, width, channels] = shape;
        batch * height * width * channels.next_multiple_of(16)
    };
    let all = size_of::<half::bf16>() * (values(geometry.x) + values(geometry.y));
    all.min(GROUP) * rayon::current_num_threads()
}

/// The cut of a convolution into strips.
pub struct Strips {
    count: usize,
    columns: usize,
    whole: Convolution,
}

impl Strips {
    /// The cut for values of `bytes` bytes, with or without tiles, if it is worthwhile and divides evenly. Depends on
    /// the geometry and the kind of processor.
    pub fn if_worthwhile(geometry: &Convolution, bytes: usize, tiles: bool) -> Option<Self> {
        let (spec, [_, _, width, out]) = (geometry.spec, geometry.y);
        let row = bytes * width * geometry.x[3].max(out);
        let plain = spec.stride == 1 && spec.dilation == 1 && spec.groups == 1;
        let pays = match tiles {
            true => must_be_cut(geometry, tiles),
            false => row >= WIDE,
        };
        if !plain || spec.kernel.1 == 1 || !pays {
            return None;
        }
        let wanted = if tiles { TILED_COLUMNS } else { COLUMNS };
        let columns = (wanted / 2..=wanted * 3 / 2)
            .filter(|columns| width % columns == 0)
            .min_by_key(|columns| columns.abs_diff(wanted))?;
        (columns < width).then(|| Self {
            count: width / columns,
            columns,
            whole: *geometry,
        })
    }

    /// The strips of all fields, in groups that are copied and multiplied together: few enough to limit memory, and
    /// enough to give every thread one.
    pub fn groups<V: Value>(&self) -> impl Iterator<Item = Range<usize>> + use<V> {
        let values = |shape: [usize; 4]| shape.iter().product::<usize>();
        let strip = self.geometry(1);
        let bytes = size_of::<V>() * (values(strip.x) + values(strip.y));
        let most = (GROUP / bytes).max(rayon::current_num_threads());
        let all = self.whole.x[0] * self.count;
        // Groups have equal sizes, except possibly the last, so that one primitive computes them.
        let size = all.div_ceil(all.div_ceil(most));
        (0..all)
            .step_by(size)
            .map(move |first| first..(first + size).min(all))
    }

    /// The geometry of this many strips. A strip includes its neighbours' columns, so none is padded.
    pub fn geometry(&self, strips: usize) -> Convolution {
        let Convolution { spec, x, y } = self.whole;
        let ([_, h, _, c], [_, p, _, o]) = (x, y);
        let width = self.columns + spec.kernel.1 - 1;
        Convolution {
            x: [strips, h, width, c],
            y: [strips, p, self.columns, o],
            spec: ConvSpec {
                padding: (spec.padding.0, 0),
                ..spec.periodic(false)
            },
        }
    }

    /// Writes the inputs of a group of strips, with zeros beyond the edges of a field that does not wrap.
    pub fn inputs<V: Value>(&self, x: &[V], group: &Range<usize>, strips: &mut Vec<V>) {
        let (spec, [_, height, width, channels]) = (self.whole.spec, self.whole.x);
        let reach = self.columns + spec.kernel.1 - 1;
        strips.resize(group.len() * height * reach * channels, V::default());
        self.lines(strips, group, height, |line, (b, strip, h)| {
            let first = (strip * self.columns) as isize - spec.padding.1 as isize;
            let (west, east) = match spec.periodic {
                true => (0, 0),
                false => (
                    (-first).max(0) as usize,
                    (first + reach as isize - width as isize).max(0) as usize,
                ),
            };
            let row = &x[(b * height + h) * width * channels..][..width * channels];
            let (outside, line) = line.split_at_mut(west * channels);
            outside.fill(V::default());
            let (line, outside) = line.split_at_mut(line.len() - east * channels);
            outside.fill(V::default());
            seam::columns(row, channels, first + west as isize, line);
        });
    }

    /// Writes the output gradients of a group of strips.
    pub fn outputs<V: Value>(&self, dy: &[V], group: &Range<usize>, strips: &mut Vec<V>) {
        let [_, height, _, channels] = self.whole.y;
        let length = self.columns * channels;
        strips.resize(group.len() * height * length, V::default());
        self.lines(strips, group, height, |line, (b, strip, h)| {
            let at = ((b * height + h) * self.count + strip) * length;
            line.copy_from_slice(&dy[at..][..length]);
        });
    }

    /// Fills every line of a group of strips, given its field, strip and row.
    fn lines<V: Value>(
        &self,
        strips: &mut [V],
        group: &Range<usize>,
        height: usize,
        fill: impl Fn(&mut [V], (usize, usize, usize)) + Sync,
    ) {
        let lines = strips.par_chunks_exact_mut(strips.len() / (group.len() * height));
        lines.enumerate().with_min_len(4).for_each(|(index, line)| {
            let (strip, h) = (group.start + index / height, index % height);
            fill(line, (strip / self.count, strip % self.count, h));
        });
    }
}
