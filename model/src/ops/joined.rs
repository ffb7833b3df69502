//! Concatenation without a copy: several fields, each in its own memory, are read as if their channels were
//! concatenated.

use super::host::{Typed, bhwc, expect};
use super::value::{PADDING, Value};
use crate::error::{ModelError, Result};
use candle_core::Tensor;

/// The shape of the concatenation of several tensors.
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

/// Whether part boundaries are aligned, so that no vector of channels spans two parts.
pub(crate) fn is_aligned(channels: impl DoubleEndedIterator<Item = usize>) -> bool {
    channels.rev().skip(1).all(|c| c.is_multiple_of(PADDING))
}

/// Whether loops over vectors of channels can read these tensors in place.
pub(super) fn can_be_read(parts: &[&Tensor]) -> bool {
    let channels = parts.iter().map(|part| part.dims().last().copied());
    is_aligned(channels.map(Option::unwrap_or_default))
        && (parts.windows(2)).all(|pair| pair[0].dtype() == pair[1].dtype())
}

/// The values of the tensors, in host memory.
pub(super) fn values<'a, V: Value>(
    op: &'static str,
    parts: &[&'a Tensor],
) -> Result<Vec<Typed<'a, V>>> {
    parts.iter().map(|part| Typed::of(op, part)).collect()
}

/// Fields and the number of channels of each.
#[derive(Debug, Clone)]
pub struct Joined<'a, V>(Vec<(&'a [V], usize)>);

impl<'a, V> Joined<'a, V> {
    /// Joins fields of `pixels` pixels each.
    pub fn new(fields: impl Iterator<Item = &'a [V]>, pixels: usize) -> Self {
        Self(fields.map(|field| (field, field.len() / pixels)).collect())
    }

    /// The fields that overlap the channels `from..to`. For each: the field, its number of channels, the range of its
    /// own channels, and the offset of that range from `from`.
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
