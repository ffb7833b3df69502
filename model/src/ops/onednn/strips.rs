//! Wide fields cut into strips of longitude, so that the rows that a kernel touches stay in the first-level cache.
//!
//! oneDNN's backward-weights for AVX2 walks whole rows of plain NHWC, which do not fit the cache on wide fields.
//! Measured on a shared machine (two Zen 3 cores, load 5 to 13, builds with and without strips in turn, copies
//! included, ranges of medians of 5 rounds), 3x3 at 192 x 288: 48 to 32 channels 1.5 to 2.9 times faster, 64 to 64 1.6
//! to 2.3, 32 to 24 between 0.9 and 2.5, 24 to 24 between 0.8 and 1.6, which is why rows that short are left whole.

use super::seam;
use crate::ops::conv_spec::{ConvSpec, Convolution};
use crate::ops::value::Value;
use rayon::prelude::*;
use std::ops::Range;

/// Columns of a strip's output.
const COLUMNS: usize = 36;

/// Bytes of a row of input or output from which cutting pays.
const WIDE: usize = 32 << 10;

/// Columns of a strip's output where tiles of bf16 are multiplied: 5 to 20 % faster than 36.
const TILED_COLUMNS: usize = 96;

/// Bytes of the copies of a group of strips, if a thread's strip is no larger.
const GROUP: usize = 16 << 20;

/// Pixels of the longest row whose 3x3 gradient oneDNN 2.6 may compute in tiles. Found by trying: of 230 and more it
/// writes over memory that is not its own if the rows are 72, 96 or 192, of up to 216 it never did, nor for other
/// kernels or strides.
const TILED_ROW: usize = 216;

/// Whether oneDNN must not see this convolution whole.
pub fn must_be_cut(geometry: &Convolution, tiles: bool) -> bool {
    let spec = geometry.spec;
    tiles && spec.kernel == (3, 3) && spec.stride == 1 && geometry.y[2] > TILED_ROW
}

/// Bytes of copies that the gradient of the kernels makes of a field that is read whole, and of its gradient: oneDNN's
/// code for bf16 puts pixels before channels, 16 of which lie together, in every thread that takes a part of the rows
/// (measured with two).
pub fn transposed_bytes(geometry: &Convolution) -> usize {
    let values = |shape: [usize; 4]| {
        let [batch, height, width, channels] = shape;
        batch * height * width * channels.next_multiple_of(16)
    };
    let all = size_of::<half::bf16>() * (values(geometry.x) + values(geometry.y));
    all.min(GROUP) * rayon::current_num_threads()
}

/// How to cut one convolution.
pub struct Strips {
    count: usize,
    columns: usize,
    whole: Convolution,
}

impl Strips {
    /// The cut for values of this many bytes, multiplied in `tiles` or not, if it pays and comes out even. A function
    /// of the geometry and the kind of processor.
    pub fn of(geometry: &Convolution, bytes: usize, tiles: bool) -> Option<Self> {
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

    /// The strips of all fields, in groups that are copied and multiplied together: few enough to take little memory,
    /// enough for every thread to have one.
    pub fn groups<V: Value>(&self) -> impl Iterator<Item = Range<usize>> + use<V> {
        let values = |shape: [usize; 4]| shape.iter().product::<usize>();
        let strip = self.geometry(1);
        let bytes = size_of::<V>() * (values(strip.x) + values(strip.y));
        let most = (GROUP / bytes).max(rayon::current_num_threads());
        let all = self.whole.x[0] * self.count;
        // Groups of one size, so that one primitive computes them, but for what is left in the last.
        let size = all.div_ceil(all.div_ceil(most));
        (0..all)
            .step_by(size)
            .map(move |first| first..(first + size).min(all))
    }

    /// The geometry of this many strips. A strip brings its neighbours' columns, so none is
    /// padded.
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

    /// Writes the input of a group of strips, with zeros where the field ends unless it wraps.
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

    /// Writes the output gradient of a group of strips.
    pub fn outputs<V: Value>(&self, dy: &[V], group: &Range<usize>, strips: &mut Vec<V>) {
        let [_, height, _, channels] = self.whole.y;
        let length = self.columns * channels;
        strips.resize(group.len() * height * length, V::default());
        self.lines(strips, group, height, |line, (b, strip, h)| {
            let at = ((b * height + h) * self.count + strip) * length;
            line.copy_from_slice(&dy[at..][..length]);
        });
    }

    /// Fills every line of a group of strips, told the field, the strip and the row that it belongs to.
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
