//! What holds between ranks, tried on threads.

mod agreement;
mod backends;
mod faults;
mod reducing;
mod sums;
mod trees;

use super::threads::{Ranks, run};
use super::{AllReduce, CommError, Communicator, Wire};

/// Makes an engine on every rank.
type Make<'a> = &'a (dyn Fn(&mut dyn Communicator) -> Result<Box<dyn AllReduce>, CommError> + Sync);

/// A rank's values: signs and sizes are mixed, and no two ranks have the same.
fn values(rank: usize, length: usize) -> Vec<f32> {
    let value = |place: usize| {
        let mixed = (place as u64 + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(rank as u64 + 1)
            .wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed >> 40) as f32 / (1 << 23) as f32 - 1.0) * 8.0
    };
    (0..length).map(value).collect()
}

/// Each length's result on every rank: `results[rank][length]`.
fn reduce(ranks: Ranks, lengths: &[usize], scale: f32, make: Make) -> Vec<Vec<Vec<f32>>> {
    run(ranks.start(), |mut comm| {
        let mut engine = make(&mut comm).unwrap();
        let reduced = lengths.iter().map(|&length| {
            let mut mine = values(comm.rank(), length);
            engine.all_reduce(&mut mine, scale).unwrap();
            mine
        });
        reduced.collect()
    })
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Half the distance between neighbours, relative: what one rounding costs.
fn rounding(wire: Wire) -> f64 {
    match wire {
        Wire::F32 => 2.0_f64.powi(-24),
        Wire::Bf16 => 2.0_f64.powi(-8),
        Wire::F16 => 2.0_f64.powi(-11),
    }
}

/// Fails unless all ranks hold the same bits, and those the sums but for so many roundings to the wire's type.
fn check_sums(results: &[Vec<Vec<f32>>], scale: f32, (wire, roundings): (Wire, usize), what: &str) {
    let ranks = results.len();
    for (number, first) in results[0].iter().enumerate() {
        let length = first.len();
        for (rank, result) in results.iter().enumerate() {
            assert!(
                bits(&result[number]) == bits(first),
                "{what}: rank {rank} differs from rank 0 at length {length}"
            );
        }
        let all: Vec<Vec<f32>> = (0..ranks).map(|rank| values(rank, length)).collect();
        for (place, found) in first.iter().enumerate() {
            let terms = all.iter().map(|values| f64::from(values[place] * scale));
            let (sum, size) = terms.fold((0.0, 0.0), |(s, a), t| (s + t, a + t.abs()));
            let wire_error = roundings as f64 * rounding(wire);
            let float_error = (ranks + 1) as f64 * rounding(Wire::F32);
            // f16 below its smallest normal number has a fixed distance between neighbours.
            let bound = (wire_error + float_error) * size + roundings as f64 * 2.0_f64.powi(-25);
            let error = (f64::from(*found) - sum).abs();
            assert!(
                error <= bound,
                "{what}: length {length}, place {place}: {found}, expected {sum} to {bound:e}, off by {error:e}"
            );
        }
    }
}

const WIRES: [Wire; 3] = [Wire::F32, Wire::Bf16, Wire::F16];

fn counts() -> impl Iterator<Item = usize> {
    (1..=9).chain([12, 16])
}

fn lengths(ranks: usize) -> [usize; 6] {
    [0, 1, ranks - 1, ranks, ranks + 1, 10_007]
}
