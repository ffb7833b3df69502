//! One loop over values, gradient and moments at once, parallel over fixed chunks of the flat index.
//!
//! Chunks cross the borders between parameters: a thousand small tensors are as parallel as one large one. They never depend on
//! the number of threads and what kernels return comes back in order, so results are the same bits on any number of cores.

use super::mirror::{Mirror, Stripe};
use crate::parameters::{Kind, Parameters};
use rayon::prelude::*;
use std::ops::Range;

/// Values per task: four arrays of so many fit into a core's second-level cache.
const CHUNK: usize = 1 << 14;

/// What an optimiser knows of a parameter.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) shape: Vec<usize>,
    pub(super) range: Range<usize>,
}

impl Place {
    /// The places of all parameters, in order and without gaps.
    pub(super) fn all(parameters: &Parameters) -> Vec<Self> {
        let place = |p: &crate::parameters::Parameter| Self {
            name: p.name.clone(),
            kind: p.kind,
            shape: p.tensor().dims().to_vec(),
            range: p.range.clone(),
        };
        parameters.iter().map(place).collect()
    }
}

/// The arrays that an update reads and writes, all in the flat order of parameters.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) gradient: &'a [f32],
    pub(super) first: &'a mut [f32],
    /// Empty for rules with one moment.
    pub(super) second: &'a mut [f32],
    pub(super) mirror: Option<&'a mut Mirror>,
}

impl Memory<'_> {
    /// The same arrays for a sweep that is not the last: the mirror stays as it is.
    pub(super) fn without_mirror(&mut self) -> Memory<'_> {
        Memory {
            values: self.values,
            gradient: self.gradient,
            first: self.first,
            second: self.second,
            mirror: None,
        }
    }
}

/// The part of one parameter that lies in one chunk.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    /// Which parameter.
    pub(super) parameter: usize,
    pub(super) values: &'a mut [f32],
    pub(super) gradient: &'a [f32],
    pub(super) first: &'a mut [f32],
    pub(super) second: &'a mut [f32],
}

struct Chunk<'a> {
    start: usize,
    values: &'a mut [f32],
    gradient: &'a [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
    mirror: Option<Stripe<'a>>,
}

/// Runs `kernel` once over every value, then rounds new values into the mirror while they are in cache; gives what the kernel
/// returned for each piece with its parameter, in flat order.
pub(super) fn sweep<R: Send>(
    places: &[Place],
    memory: Memory<'_>,
    kernel: impl Fn(Piece<'_>) -> R + Sync,
) -> Vec<(usize, R)> {
    let mut seconds = memory.second.chunks_mut(CHUNK);
    let mut stripes = memory.mirror.map(|mirror| mirror.stripes(CHUNK));
    let chunks: Vec<Chunk<'_>> = (memory.values.chunks_mut(CHUNK))
        .zip(memory.gradient.chunks(CHUNK))
        .zip(memory.first.chunks_mut(CHUNK))
        .enumerate()
        .map(|(index, ((values, gradient), first))| Chunk {
            start: index * CHUNK,
            values,
            gradient,
            first,
            second: seconds.next().unwrap_or_default(),
            mirror: stripes.as_mut().and_then(Iterator::next),
        })
        .collect();
    let parts: Vec<Vec<(usize, R)>> = chunks
        .into_par_iter()
        .map(|mut chunk| {
            let answers = pieces(places, chunk.start, chunk.values.len())
                .map(|(parameter, range)| {
                    let second = if chunk.second.is_empty() {
                        0..0
                    } else {
                        range.clone()
                    };
                    let piece = Piece {
                        parameter,
                        values: &mut chunk.values[range.clone()],
                        gradient: &chunk.gradient[range.clone()],
                        first: &mut chunk.first[range],
                        second: &mut chunk.second[second],
                    };
                    (parameter, kernel(piece))
                })
                .collect();
            if let Some(mut stripe) = chunk.mirror.take() {
                stripe.round(chunk.values);
            }
            answers
        })
        .collect();
    parts.into_iter().flatten().collect()
}

/// Sums of each parameter: those of its pieces, added in order.
pub(super) fn per_parameter(places: &[Place], pieces: Vec<(usize, [f64; 2])>) -> Vec<[f64; 2]> {
    let mut sums = vec![[0.0; 2]; places.len()];
    for (parameter, [a, b]) in pieces {
        sums[parameter][0] += a;
        sums[parameter][1] += b;
    }
    sums
}

/// Σ over each parameter of what `sums` gives for the pieces of two arrays.
pub(super) fn sums_of(
    places: &[Place],
    (a, b): (&[f32], &[f32]),
    sums: impl Fn(&[f32], &[f32]) -> [f64; 2] + Sync,
) -> Vec<[f64; 2]> {
    let parts: Vec<Vec<(usize, [f64; 2])>> = a
        .par_chunks(CHUNK)
        .zip(b.par_chunks(CHUNK))
        .enumerate()
        .map(|(index, (a, b))| {
            pieces(places, index * CHUNK, a.len())
                .map(|(parameter, range)| (parameter, sums(&a[range.clone()], &b[range])))
                .collect()
        })
        .collect();
    per_parameter(places, parts.into_iter().flatten().collect())
}

/// Which parameters lie in `start..start + length`, and where from `start` on.
fn pieces(
    places: &[Place],
    start: usize,
    length: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let first = places.partition_point(|place| place.range.end <= start);
    let inside = move |place: &&Place| place.range.start < start + length;
    (places[first..].iter().take_while(inside))
        .enumerate()
        .map(move |(index, place)| {
            let from = place.range.start.max(start) - start;
            (
                first + index,
                from..place.range.end.min(start + length) - start,
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_cover_every_value_once(lengths in proptest::collection::vec(1usize..40_000, 1..20)) {
            let mut places = Vec::new();
            let mut total = 0;
            for length in &lengths {
                let range = total..total + length;
                total = range.end;
                places.push(Place { name: String::new(), kind: Kind::Bias, shape: vec![*length], range });
            }
            let mut seen = 0;
            for start in (0..total).step_by(CHUNK) {
                for (parameter, range) in pieces(&places, start, CHUNK.min(total - start)) {
                    prop_assert_eq!(start + range.start, seen);
                    prop_assert!(places[parameter].range.contains(&seen));
                    seen = start + range.end;
                    prop_assert!(seen <= places[parameter].range.end && !range.is_empty());
                }
            }
            prop_assert_eq!(seen, total);
        }
    }
}
