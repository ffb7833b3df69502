//! Fields copied with extra columns on both sides, for windows that wrap.

use super::seam;
use crate::ops::conv_spec::Convolution;
use crate::ops::value::Value;
use std::borrow::Cow;

/// The number of columns to copy on each side of a field that wraps.
pub(super) fn wrapped_columns(geometry: &Convolution) -> usize {
    if geometry.spec.periodic {
        geometry.spec.padding.1
    } else {
        0
    }
}

/// x with `extra` columns from the opposite side added on both sides; borrowed if there are none.
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

/// The transpose of [`wrap`]: adds the gradients of copied columns to those of their originals.
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
