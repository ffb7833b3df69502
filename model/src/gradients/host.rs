//! Gradients in host memory: one buffer, or one buffer per bucket, so that buckets can be given away without a copy.

use crate::ops::GradientSink;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// Values per task when clearing.
const TOGETHER: usize = 1 << 18;

/// The values of consecutive ranges of the flat index, which together cover all of it.
#[derive(Debug)]
pub(super) struct Host {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    range: Range<usize>,
    /// Empty while the piece is given away.
    values: Vec<f32>,
}

impl Piece {
    fn is_away(&self) -> bool {
        self.values.len() < self.range.len()
    }
}

impl Host {
    /// A buffer of `count` zeros, in one piece.
    pub fn new(count: usize) -> Self {
        Self::from_values(vec![0.0; count])
    }

    /// A buffer of these values, in one piece.
    pub fn from_values(values: Vec<f32>) -> Self {
        let range = 0..values.len();
        Self {
            pieces: vec![Piece { range, values }],
        }
    }

    pub fn len(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.range.end)
    }

    /// Sets all values to zero. If `buckets` are given, they become the new pieces; they must cover the flat index.
    pub fn clear(&mut self, buckets: &[Range<usize>]) {
        let mut ranges: Vec<_> = buckets.to_vec();
        ranges.sort_unstable_by_key(|range| range.start);
        let as_now = |pieces: &[Piece]| pieces.iter().map(|piece| &piece.range).eq(&ranges);
        if !ranges.is_empty() && !as_now(&self.pieces) {
            let piece = |range| Piece {
                range,
                values: Vec::new(),
            };
            self.pieces = ranges.into_iter().map(piece).collect();
        }
        for piece in &mut self.pieces {
            piece
                .values
                .par_chunks_mut(TOGETHER)
                .for_each(|values| values.fill(0.0));
            piece.values.resize(piece.range.len(), 0.0);
        }
    }

    fn position(&self, at: usize) -> usize {
        self.pieces.partition_point(|piece| piece.range.end <= at)
    }

    /// Takes the piece of this range out of the buffer until [`Self::put`]; a copy of the values if pieces have other
    /// boundaries.
    pub fn take(&mut self, range: &Range<usize>) -> Vec<f32> {
        let at = self.position(range.start);
        match self.pieces.get_mut(at) {
            Some(piece) if piece.range == *range => std::mem::take(&mut piece.values),
            _ => self.whole()[range.clone()].to_vec(),
        }
    }

    /// Puts values back: as the piece of their range if its boundaries match, otherwise by copying.
    pub fn put(&mut self, range: &Range<usize>, values: Vec<f32>) {
        let at = self.position(range.start);
        match self.pieces.get_mut(at) {
            Some(piece) if piece.range == *range => piece.values = values,
            _ => self.whole_mut()[range.clone()].copy_from_slice(&values),
        }
    }

    /// All values; copied if they are in several pieces.
    pub fn whole(&self) -> Cow<'_, [f32]> {
        match &self.pieces[..] {
            [piece] if !piece.is_away() => Cow::Borrowed(&piece.values),
            _ => Cow::Owned(self.joined()),
        }
    }

    /// All values; merges the pieces into one.
    pub fn whole_mut(&mut self) -> &mut [f32] {
        if self.pieces.len() > 1 || self.pieces.iter().any(Piece::is_away) {
            *self = Self::from_values(self.joined());
        }
        self.pieces
            .first_mut()
            .map_or(&mut [], |piece| &mut piece.values)
    }

    /// All values in one buffer, with zeros for pieces that are given away.
    fn joined(&self) -> Vec<f32> {
        let mut all = vec![0.0; self.len()];
        for piece in self.pieces.iter().filter(|piece| !piece.is_away()) {
            all[piece.range.clone()].copy_from_slice(&piece.values);
        }
        all
    }

    /// The pieces that are not given away.
    pub fn slices(&self) -> Slices<'_> {
        let here = self.pieces.iter().filter(|piece| !piece.is_away());
        Slices(here.map(|p| (p.range.start, &p.values[..])).collect())
    }

    /// The gradient buffers of two ranges, the second after the first; neither may cross a piece boundary.
    pub fn sinks(
        &mut self,
        first: Range<usize>,
        second: Range<usize>,
    ) -> (GradientSink<'_>, GradientSink<'_>) {
        let (at, then) = (self.position(first.start), self.position(second.start));
        let (head, tail) = self.pieces.split_at_mut(at + 1);
        let near = &mut head[at];
        let start = near.range.start;
        if then > at && !second.is_empty() {
            let far = &mut tail[then - at - 1];
            let place = second.start - far.range.start..second.end - far.range.start;
            return (
                GradientSink::Host(&mut near.values[first.start - start..first.end - start]),
                GradientSink::Host(&mut far.values[place]),
            );
        }
        let (front, back) = near.values.split_at_mut(first.end - start);
        let gap = second.start.saturating_sub(first.end);
        (
            GradientSink::Host(&mut front[first.start - start..]),
            GradientSink::Host(&mut back[gap..][..second.len()]),
        )
    }
}

/// Slices of values with their offsets in the flat index.
#[derive(Debug)]
pub(crate) struct Slices<'a>(Vec<(usize, &'a [f32])>);

impl<'a> Slices<'a> {
    /// All values as a single slice.
    pub(crate) fn one(values: &'a [f32]) -> Self {
        Self(vec![(0, values)])
    }

    /// The pieces in order, with their offsets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &'a [f32])> + '_ {
        self.0.iter().copied()
    }

    /// The number of values.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|(_, values)| values.len()).sum()
    }

    /// The values of a range, without pieces that are given away; copied only if a piece boundary lies inside the
    /// range.
    pub(crate) fn at(&self, range: Range<usize>) -> Cow<'a, [f32]> {
        let after = self.0.partition_point(|&(start, _)| start <= range.start);
        let mut parts = self.0[after.saturating_sub(1)..]
            .iter()
            .take_while(|(start, _)| *start < range.end)
            .map(|&(start, values)| {
                let place = |at: usize| at.saturating_sub(start).min(values.len());
                &values[place(range.start)..place(range.end)]
            });
        let first = parts.next().unwrap_or_default();
        if first.len() == range.len() {
            return Cow::Borrowed(first);
        }
        let mut all = first.to_vec();
        parts.for_each(|part| all.extend_from_slice(part));
        Cow::Owned(all)
    }

    /// Values inside one parameter, where there is no piece boundary.
    #[inline(always)]
    pub(crate) fn within(&self, range: Range<usize>) -> &'a [f32] {
        let after = self.0.partition_point(|&(start, _)| start <= range.start);
        let (start, values) = self.0[after - 1];
        &values[range.start - start..range.end - start]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes 1, 2, ... by the places that are handed out for these pairs of lengths.
    fn fill(host: &mut Host, pairs: &[(usize, usize)]) {
        let (mut at, mut next) = (0, 1.0);
        let mut write = |sink: GradientSink<'_>| {
            let values = sink.host().unwrap();
            for value in values {
                *value += next;
                next += 1.0;
            }
        };
        for &(first, second) in pairs {
            let (middle, end) = (at + first, at + first + second);
            let (one, other) = host.sinks(at..middle, middle..end);
            write(one);
            write(other);
            at = end;
        }
    }

    proptest! {
        /// Whichever parameter boundaries are piece boundaries, and whichever pieces were given away in between.
        #[test]
        fn pieces_are_one_buffer(
            pairs in proptest::collection::vec((1usize..5, 0usize..4), 1..8),
            cuts in proptest::collection::vec(any::<bool>(), 16),
        ) {
            let lengths = pairs.iter().flat_map(|&(a, b)| [a, b]);
            let ends: Vec<usize> = lengths.scan(0, |end, n| { *end += n; Some(*end) }).collect();
            let count = *ends.last().unwrap();
            let mut borders: Vec<usize> = (ends.iter().zip(&cuts)).filter(|(_, cut)| **cut).map(|(end, _)| *end).collect();
            borders.extend([0, count]);
            borders.sort_unstable();
            borders.dedup();
            let buckets: Vec<_> = borders.windows(2).rev().map(|pair| pair[0]..pair[1]).collect();
            let mut host = Host::new(count);
            let expected: Vec<f32> = (1..=count).map(|v| v as f32).collect();
            for _ in 0..2 {
                host.clear(&buckets);
                fill(&mut host, &pairs);
                prop_assert_eq!(&*host.whole(), &expected[..]);
                let away: Vec<_> = buckets.iter().map(|range| (range, host.take(range))).collect();
                prop_assert_eq!(host.slices().count(), 0);
                for (range, values) in away {
                    prop_assert_eq!(&values[..], &expected[range.clone()]);
                    host.put(range, values.iter().map(|v| 2.0 * v).collect());
                }
                let slices = host.slices();
                for start in 0..count {
                    let part: Vec<f32> = expected[start..].iter().map(|v| 2.0 * v).collect();
                    prop_assert_eq!(&*slices.at(start..count), &part[..]);
                    prop_assert_eq!(&*slices.at(0..count - start), &host.whole()[..count - start]);
                }
                for (value, place) in expected.iter().zip(0..) {
                    prop_assert_eq!(host.slices().within(place..place + 1), [2.0 * value]);
                }
                prop_assert_eq!(host.len(), count);
            }
            let doubled: Vec<f32> = expected.iter().map(|v| 2.0 * v).collect();
            prop_assert_eq!(&*host.whole_mut(), &doubled[..]);
        }
    }
}
