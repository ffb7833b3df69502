//! Concatenation without a copy: several fields, each in its own memory, read as if their channels lay side by side.

use super::host::{Typed, bhwc, expect};
use super::value::{PADDING, Value};
use crate::error::{ModelError, Result};
use candle_core::Tensor;

/// The extents of several tensors side by side.
///
/// # Errors
/// [`ModelError::Shape`] if batch or extents differ, [`ModelError::Config`] if there are none.
pub(super) fn shape(op: &'static str, parts: &[&Tensor]) -> Result<[usize; 4]> {
    let Some(first) = parts.first() else {
        return Err(ModelError::Config {
            key: op,
            reason: "nothing to put side by side".into(),
        });
    };
    let [b, h, w, mut channels] = bhwc(op, "x", first)?;
    for part in &parts[1..] {
        let [pb, ph, pw, c] = bhwc(op, "x", part)?;
        expect(op, "(b, h, w)", (b, h, w), (pb, ph, pw))?;
        channels += c;
    }
    Ok([b, h, w, channels])
}

/// Whether vectors of channels never reach from one part into the next.
pub(crate) fn is_aligned(channels: impl DoubleEndedIterator<Item = usize>) -> bool {
    channels.rev().skip(1).all(|c| c.is_multiple_of(PADDING))
}

/// Whether loops over vectors of channels can read these tensors where they lie.
pub(super) fn can_be_read(parts: &[&Tensor]) -> bool {
    let channels = parts.iter().map(|part| part.dims().last().copied());
    is_aligned(channels.map(Option::unwrap_or_default))
        && (parts.windows(2)).all(|pair| pair[0].dtype() == pair[1].dtype())
}

/// The values of tensors side by side, in host memory.
pub(super) fn values<'a, V: Value>(
    op: &'static str,
    parts: &[&'a Tensor],
) -> Result<Vec<Typed<'a, V>>> {
    parts.iter().map(|part| Typed::of(op, part)).collect()
}

/// Fields and how many channels each has.
#[derive(Debug, Clone)]
pub struct Joined<'a, V>(Vec<(&'a [V], usize)>);

impl<'a, V> Joined<'a, V> {
    /// The fields, of this many pixels each, side by side.
    pub fn new(fields: impl Iterator<Item = &'a [V]>, pixels: usize) -> Self {
        Self(fields.map(|field| (field, field.len() / pixels)).collect())
    }

    /// The fields that have some of these channels: each field, its channels, which of them, and where the first of
    /// them lies from `from`.
    pub fn within(
        &self,
        (from, to): (usize, usize),
    ) -> impl Iterator<Item = (&'a [V], usize, (usize, usize), usize)> {
        let mut end = 0;
        self.0.iter().filter_map(move |&(field, channels)| {
            let first = end;
            end += channels;
            let range = (from.max(first), to.min(end));
            (range.0 < range.1).then(|| {
                let inside = (range.0 - first, range.1 - first);
                (field, channels, inside, range.0 - from)
            })
        })
    }
}
