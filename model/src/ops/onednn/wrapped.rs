//! Fields copied with more columns in front and behind, for windows that wrap.

use super::seam;
use crate::ops::conv_spec::Convolution;
use crate::ops::value::Value;
use std::borrow::Cow;

/// Columns to copy in front of and behind a field that wraps.
pub(super) fn wrapped_columns(geometry: &Convolution) -> usize {
    if geometry.spec.periodic {
        geometry.spec.padding.1
    } else {
        0
    }
}

/// x with `extra` columns of the other side in front and behind; borrowed if there are none.
pub(super) fn wrap<V: Value>(x: &[V], shape: [usize; 4], extra: usize) -> Cow<'_, [V]> {
    if extra == 0 {
        return x.into();
    }
    let [_, _, width, channels] = shape;
    let (rows, line) = (
        x.chunks_exact(width * channels),
        (width + 2 * extra) * channels,
    );
    let mut wide = vec![V::default(); rows.len() * line];
    for (row, line) in rows.zip(wide.chunks_exact_mut(line)) {
        seam::columns(row, channels, -(extra as isize), line);
    }
    wide.into()
}

/// The transpose of [`wrap`]: gradients of copied columns are added to the columns they were copied from.
pub(super) fn unwrap_columns<V: Value>(wide: &[V], shape: [usize; 4], extra: usize) -> Vec<V> {
    let [_, _, width, channels] = shape;
    let total = width + 2 * extra;
    let mut x = Vec::with_capacity(wide.len() / total * width);
    for row in wide.chunks_exact(total * channels) {
        let start = x.len();
        x.extend_from_slice(&row[extra * channels..][..width * channels]);
        let copied = (0..extra).chain(extra + width..total);
        for column in copied {
            let target = start + (column + extra * (width - 1)) % width * channels;
            let source = &row[column * channels..][..channels];
            x[target..target + channels]
                .iter_mut()
                .zip(source)
                .for_each(|(x, g)| *x = V::narrow(x.widen() + g.widen()));
        }
    }
    x
}
