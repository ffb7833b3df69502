//! Wide fields cut into strips of longitude, so that the rows that a kernel touches stay in the first-level cache.
//!
//! oneDNN's backward-weights for AVX2 walks whole rows of plain NHWC, which do not fit the cache on wide fields. Measured on
//! a shared machine (two Zen 3 cores, load 5 to 13, builds with and without strips in turn, copies included, ranges of medians
//! of 5 rounds), 3x3 at 192 x 288: 48 to 32 channels 1.5 to 2.9 times faster, 64 to 64 1.6 to 2.3, 32 to 24 between 0.9 and
//! 2.5, 24 to 24 between 0.8 and 1.6, which is why rows that short are left whole.

use super::seam;
use crate::ops::conv::Pass;
use crate::ops::conv_spec::ConvSpec;
use crate::ops::value::Value;
use rayon::prelude::*;

/// Columns of a strip's output.
const COLUMNS: usize = 36;

/// Bytes of a row of input or output from which cutting pays.
const WIDE: usize = 32 << 10;

/// Columns of a strip's output where tiles of bf16 are multiplied: 5 to 20 % faster than 36.
const TILED_COLUMNS: usize = 96;

/// Pixels of the longest row whose 3x3 gradient oneDNN 2.6 may compute in tiles. Found by trying: of 230 and more it writes over memory
/// that is not its own if the rows are 72, 96 or 192, of up to 216 it never did, nor for other kernels or strides.
const TILED_ROW: usize = 216;

/// Whether oneDNN must not see this pass whole.
pub fn must_be_cut(pass: &Pass<'_>, tiles: bool) -> bool {
    let spec = pass.spec;
    tiles && spec.kernel == (3, 3) && spec.stride == 1 && pass.y_shape[2] > TILED_ROW
}

/// How to cut one convolution.
pub struct Strips {
    count: usize,
    columns: usize,
    x_shape: [usize; 4],
    y_shape: [usize; 4],
    /// Of the strips, which bring their neighbours' columns.
    spec: ConvSpec,
    /// Columns of padding of the whole field.
    padding: usize,
    periodic: bool,
}

impl Strips {
    /// The cut for values of so many bytes, multiplied in `tiles` or not, if it pays and comes out even. A function of the geometry
    /// and the kind of processor.
    pub fn of(pass: &Pass<'_>, bytes: usize, tiles: bool) -> Option<Self> {
        let (spec, [_, _, width, out]) = (pass.spec, pass.y_shape);
        let row = bytes * width * pass.x_shape[3].max(out);
        let plain = spec.stride == 1 && spec.dilation == 1 && spec.groups == 1;
        let pays = match tiles {
            true => must_be_cut(pass, tiles),
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
            x_shape: pass.x_shape,
            y_shape: pass.y_shape,
            spec: ConvSpec {
                padding: (spec.padding.0, 0),
                periodic: false,
                ..*spec
            },
            padding: spec.padding.1,
            periodic: spec.periodic,
        })
    }

    /// The geometry of the strips: (input, output, spec). A strip brings its neighbours' columns, so none is padded.
    pub fn geometry(&self) -> ([usize; 4], [usize; 4], ConvSpec) {
        let ([b, h, _, c], [_, p, _, o]) = (self.x_shape, self.y_shape);
        let width = self.columns + self.spec.kernel.1 - 1;
        let batch = b * self.count;
        ([batch, h, width, c], [batch, p, self.columns, o], self.spec)
    }

    /// The input's strips, with zeros where the field ends unless it wraps.
    pub fn inputs<V: Value>(&self, x: &[V]) -> Vec<V> {
        let [batch, height, width, channels] = self.x_shape;
        let reach = self.columns + self.spec.kernel.1 - 1;
        let mut strips = vec![V::default(); batch * self.count * height * reach * channels];
        self.lines(&mut strips, height, |line, (b, strip, h)| {
            let first = (strip * self.columns) as isize - self.padding as isize;
            let (west, east) = match self.periodic {
                true => (0, 0),
                false => (
                    (-first).max(0) as usize,
                    (first + reach as isize - width as isize).max(0) as usize,
                ),
            };
            let row = &x[(b * height + h) * width * channels..][..width * channels];
            let line = &mut line[west * channels..(reach - east) * channels];
            seam::columns(row, channels, first + west as isize, line);
        });
        strips
    }

    /// The output gradient's strips.
    pub fn outputs<V: Value>(&self, dy: &[V]) -> Vec<V> {
        let [_, height, _, channels] = self.y_shape;
        let length = self.columns * channels;
        let mut strips = vec![V::default(); dy.len()];
        self.lines(&mut strips, height, |line, (b, strip, h)| {
            let at = ((b * height + h) * self.count + strip) * length;
            line.copy_from_slice(&dy[at..][..length]);
        });
        strips
    }

    /// Fills every line of all strips, told the field, the strip and the row that it belongs to.
    fn lines<V: Value>(
        &self,
        strips: &mut [V],
        height: usize,
        fill: impl Fn(&mut [V], (usize, usize, usize)) + Sync,
    ) {
        let fields = self.x_shape[0] * self.count * height;
        let lines = strips.par_chunks_exact_mut(strips.len() / fields);
        lines.enumerate().with_min_len(4).for_each(|(index, line)| {
            let (strip, h) = (index / height, index % height);
            fill(line, (strip / self.count, strip % self.count, h));
        });
    }
}
