//! One loop over values, gradients and moments, parallel over fixed chunks of the flat index.
//!
//! Chunks may span several parameters, so a thousand small tensors are as parallel as one large one. Chunks do not
//! depend on the number of threads and sums are added in flat order, so results are bit-identical on any number of
//! cores. Kernels are plain loops, compiled for the processor's widest vectors without contraction to fused
//! multiply-adds, so results do not depend on the vector width either.

use super::mirror::Stripe;
use crate::gradients::{Slices, squares};
use crate::parameters::{Kind, Parameters};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;

/// Values per task.
const CHUNK: usize = 1 << 14;
/// Values per kernel call. Five arrays of this size fit into a core's L1 cache, so that the sum of squares and the
/// mirror read what the kernel has just written.
const BLOCK: usize = 1 << 11;

/// An optimiser's view of a parameter.
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

/// The arrays that an update reads and writes, all in flat parameter order.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    /// The flat index at which the arrays begin.
    pub(super) start: usize,
    pub(super) values: &'a mut [f32],
    /// The gradients of all parameters; not offset by `start`.
    pub(super) gradient: &'a Slices<'a>,
    pub(super) first: &'a mut [f32],
    /// Empty for rules with one moment.
    pub(super) second: &'a mut [f32],
    /// LAMB's direction buffer between two sweeps; empty for other rules.
    pub(super) direction: &'a mut [f32],
    pub(super) mirror: Option<Stripe<'a>>,
}

impl<'a> Memory<'a> {
    /// Splits off the first `length` values of each array.
    pub(super) fn split_at(self, length: usize) -> (Self, Self) {
        let (values, other_values) = self.values.split_at_mut(length);
        let (first, other_first) = self.first.split_at_mut(length);
        let (second, other_second) = self.second.split_at_mut(length.min(self.second.len()));
        let kept = length.min(self.direction.len());
        let (direction, other_direction) = self.direction.split_at_mut(kept);
        let (mirror, other_mirror) = match self.mirror {
            Some(mirror) => {
                let (mirror, other) = mirror.split_at(length);
                (Some(mirror), Some(other))
            }
            None => (None, None),
        };
        let head = Self {
            start: self.start,
            values,
            gradient: self.gradient,
            first,
            second,
            direction,
            mirror,
        };
        let tail = Self {
            start: self.start + length,
            values: other_values,
            gradient: self.gradient,
            first: other_first,
            second: other_second,
            direction: other_direction,
            mirror: other_mirror,
        };
        (head, tail)
    }

    /// These arrays without the mirror, for a sweep that is not the last one.
    pub(super) fn without_mirror(&mut self) -> Memory<'_> {
        Memory {
            start: self.start,
            values: self.values,
            gradient: self.gradient,
            first: self.first,
            second: self.second,
            direction: self.direction,
            mirror: None,
        }
    }

    fn chunks(self) -> Vec<Self> {
        let mut chunks = Vec::with_capacity(self.values.len().div_ceil(CHUNK));
        let mut left = self;
        while left.values.len() > CHUNK {
            let (chunk, rest) = left.split_at(CHUNK);
            chunks.push(chunk);
            left = rest;
        }
        chunks.push(left);
        chunks
    }
}

/// The part of a parameter that lies in one block.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    /// The index of the parameter.
    pub(super) parameter: usize,
    pub(super) values: &'a mut [f32],
    pub(super) gradient: &'a [f32],
    pub(super) first: &'a mut [f32],
    pub(super) second: &'a mut [f32],
    pub(super) direction: &'a mut [f32],
}

/// An operation on each piece.
pub(super) trait Kernel: Sync {
    /// Updates a piece. The returned values are summed over the parameter.
    ///
    /// Implementations must be `#[inline(always)]` and their loops must not call closures; otherwise they are not
    /// compiled for wide vectors.
    fn run(&self, piece: Piece<'_>) -> [f64; 2];
}

/// The end of the arrays at which a sweep begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Forward,
    /// For a sweep after a forward one, which leaves the end of the arrays in cache.
    Backward,
}

/// Runs `kernel` once over every value and rounds new values into the mirror. Returns the kernel's results, summed per
/// parameter and chunk, in flat order.
pub(super) fn sweep<K: Kernel>(
    places: &[Place],
    memory: Memory<'_>,
    kernel: &K,
    order: Order,
) -> Vec<(usize, [f64; 2])> {
    let mut chunks = memory.chunks();
    if order == Order::Backward {
        chunks.reverse();
    }
    let task = |chunk| {
        Arch::new().dispatch(Task {
            places,
            chunk,
            kernel,
        })
    };
    let mut parts: Vec<Vec<_>> = chunks.into_par_iter().map(task).collect();
    if order == Order::Backward {
        parts.reverse();
    }
    parts.into_iter().flatten().collect()
}

struct Task<'a, K> {
    places: &'a [Place],
    chunk: Memory<'a>,
    kernel: &'a K,
}

impl<K: Kernel> WithSimd for Task<'_, K> {
    type Output = Vec<(usize, [f64; 2])>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let mut chunk = self.chunk;
        let mut sums = Vec::new();
        for (parameter, range) in pieces(self.places, chunk.start, chunk.values.len()) {
            let second = part_of(chunk.second, &range);
            let direction = part_of(chunk.direction, &range);
            let place = chunk.start + range.start..chunk.start + range.end;
            let answer = self.kernel.run(Piece {
                parameter,
                values: &mut chunk.values[range.clone()],
                gradient: chunk.gradient.within(place),
                first: &mut chunk.first[range.clone()],
                second,
                direction,
            });
            add(&mut sums, parameter, answer);
            if let Some(mirror) = &mut chunk.mirror {
                mirror.round(range.start, &chunk.values[range]);
            }
        }
        sums
    }
}

/// The given range of an array, or an empty slice of an empty array.
#[inline(always)]
fn part_of<'a>(array: &'a mut [f32], range: &Range<usize>) -> &'a mut [f32] {
    array.get_mut(range.clone()).unwrap_or_default()
}

/// Σ v² of each parameter, bit-identical to the sums of a kernel that returns `squares(piece.values)`.
pub(super) fn squares_of(places: &[Place], values: &Slices<'_>) -> Vec<f64> {
    let count = values.count();
    let starts = (0..count).into_par_iter().step_by(CHUNK);
    let parts: Vec<Vec<_>> = starts
        .map(|start| {
            Arch::new().dispatch(Squares {
                places,
                range: start..count.min(start + CHUNK),
                values,
            })
        })
        .collect();
    let sums = per_parameter(places, parts.into_iter().flatten());
    sums.into_iter().map(|[sum, _]| sum).collect()
}

struct Squares<'a> {
    places: &'a [Place],
    range: Range<usize>,
    values: &'a Slices<'a>,
}

impl WithSimd for Squares<'_> {
    type Output = Vec<(usize, [f64; 2])>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let mut sums = Vec::new();
        let start = self.range.start;
        for (parameter, range) in pieces(self.places, start, self.range.len()) {
            let values = self.values.within(start + range.start..start + range.end);
            add(&mut sums, parameter, [squares(values), 0.0]);
        }
        sums
    }
}

fn add(sums: &mut Vec<(usize, [f64; 2])>, parameter: usize, [a, b]: [f64; 2]) {
    match sums.last_mut() {
        Some((last, sum)) if *last == parameter => {
            sum[0] += a;
            sum[1] += b;
        }
        _ => sums.push((parameter, [a, b])),
    }
}

/// Sums per parameter, adding those of its chunks in order.
pub(super) fn per_parameter(
    places: &[Place],
    chunks: impl IntoIterator<Item = (usize, [f64; 2])>,
) -> Vec<[f64; 2]> {
    let mut sums = vec![[0.0; 2]; places.len()];
    for (parameter, [a, b]) in chunks {
        sums[parameter][0] += a;
        sums[parameter][1] += b;
    }
    sums
}

/// The parameters that overlap `start..start + length`, in pieces of at most a block, with their ranges relative to
/// `start`.
fn pieces(
    places: &[Place],
    start: usize,
    length: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut parameter = places.partition_point(|place| place.range.end <= start);
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == length {
            return None;
        }
        while places.get(parameter)?.range.end <= start + at {
            parameter += 1;
        }
        let block = (at / BLOCK + 1) * BLOCK;
        let end = block.min(length).min(places[parameter].range.end - start);
        let range = at..end;
        at = end;
        Some((parameter, range))
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
