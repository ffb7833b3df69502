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

/// Columns of a strip's output.
const COLUMNS: usize = 36;

/// Bytes of a row of input or output from which cutting pays.
const WIDE: usize = 32 << 10;

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
    /// The cut for values of so many bytes, if it pays and comes out even. A function of the geometry alone.
    pub fn of(pass: &Pass<'_>, bytes: usize) -> Option<Self> {
        let (spec, [_, _, width, out]) = (pass.spec, pass.y_shape);
        let row = bytes * width * pass.x_shape[3].max(out);
        let plain = spec.stride == 1 && spec.dilation == 1 && spec.groups == 1;
        if !plain || spec.kernel.1 == 1 || row < WIDE {
            return None;
        }
        let columns = (COLUMNS / 2..=COLUMNS * 3 / 2)
            .filter(|columns| width % columns == 0)
            .min_by_key(|columns| columns.abs_diff(COLUMNS))?;
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
        let mut strips = Vec::with_capacity(batch * self.count * height * reach * channels);
        for (b, strip) in (0..batch).flat_map(|b| (0..self.count).map(move |s| (b, s))) {
            let first = (strip * self.columns) as isize - self.padding as isize;
            let (west, east) = match self.periodic {
                true => (0, 0),
                false => (
                    (-first).max(0) as usize,
                    (first + reach as isize - width as isize).max(0) as usize,
                ),
            };
            for row in x[b * height * width * channels..][..height * width * channels]
                .chunks_exact(width * channels)
            {
                strips.resize(strips.len() + west * channels, V::default());
                let seen = reach - west - east;
                seam::columns(row, channels, first + west as isize, seen, &mut strips);
                strips.resize(strips.len() + east * channels, V::default());
            }
        }
        strips
    }

    /// The output gradient's strips.
    pub fn outputs<V: Value>(&self, dy: &[V]) -> Vec<V> {
        let [batch, height, _, channels] = self.y_shape;
        let length = self.columns * channels;
        let mut strips = Vec::with_capacity(dy.len());
        for (b, strip) in (0..batch).flat_map(|b| (0..self.count).map(move |s| (b, s))) {
            for h in 0..height {
                let at = ((b * height + h) * self.count + strip) * length;
                strips.extend_from_slice(&dy[at..][..length]);
            }
        }
        strips
    }
}
