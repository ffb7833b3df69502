//! Recursive halving and doubling: reduce-scatter in log2 P exchanges, all-gather in as many.
//!
//! If P is a power of two, it sends as many bytes as a ring, in 2 log2 P messages instead of 2 (P - 1). Other numbers
//! of ranks are folded first: the lowest ranks send their values to their neighbour, sit out, and receive the result at
//! the end. Source: Thakur, Rabenseifner & Gropp 2005, doi:10.1177/1094342005051521, section 4.5.

use super::lane::Exchange;
use super::{Lane, part};
use crate::comm::{Communicator, Result};
use std::ops::Range;

/// Replaces values by their sums over all ranks.
///
/// # Errors
/// Those of the backend.
pub fn all_reduce(comm: &mut dyn Communicator, values: &mut [f32], lane: &mut Lane) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    if size == 1 {
        return Ok(());
    }
    let fold = Fold::for_ranks(size);
    let Some(seat) = fold.seat(rank) else {
        lane.send(comm, rank + 1, values)?;
        return lane.receive(comm, rank + 1, values, false);
    };
    let folded = rank < 2 * fold.pairs;
    if folded {
        lane.receive(comm, rank - 1, values, true)?;
    }
    let block = |blocks: &Range<usize>| {
        let (first, last) = (blocks.start, blocks.end - 1);
        part(values.len(), fold.seats, first).start..part(values.len(), fold.seats, last).end
    };
    let steps: Vec<(Exchange, usize)> = fold
        .halvings(seat)
        .iter()
        .map(|halving| {
            let partner = fold.rank(halving.partner);
            let exchange = Exchange {
                to: partner,
                send: block(&halving.given),
                from: partner,
                receive: block(&halving.kept),
            };
            let longest = exchange.send.len().max(exchange.receive.len());
            (exchange, longest)
        })
        .collect();
    for (step, longest) in &steps {
        lane.exchange_add(comm, values, step, *longest)?;
    }
    let owned = part(values.len(), fold.seats, seat);
    let back = steps.into_iter().rev().map(|(step, _)| Exchange {
        send: step.receive,
        receive: step.send,
        ..step
    });
    lane.gather(comm, values, owned, back)?;
    if folded {
        // Already rounded: the message has exactly the values of this rank.
        lane.send(comm, rank - 1, values)?;
    }
    Ok(())
}

/// Folds ranks to a power of two of seats: of the first `pairs` pairs of ranks only the second has a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fold {
    seats: usize,
    pairs: usize,
}

/// An exchange between a seat and its partner, in blocks of an even division by the number of seats.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Halving {
    partner: usize,
    given: Range<usize>,
    kept: Range<usize>,
}

impl Fold {
    fn for_ranks(size: usize) -> Self {
        let seats = 1 << size.ilog2();
        Self {
            seats,
            pairs: size - seats,
        }
    }

    fn seat(self, rank: usize) -> Option<usize> {
        if rank >= 2 * self.pairs {
            return Some(rank - self.pairs);
        }
        (!rank.is_multiple_of(2)).then_some(rank / 2)
    }

    fn rank(self, seat: usize) -> usize {
        if seat < self.pairs {
            2 * seat + 1
        } else {
            seat + self.pairs
        }
    }

    fn halvings(self, seat: usize) -> Vec<Halving> {
        let mut kept = 0..self.seats;
        let mut found = Vec::new();
        while kept.len() > 1 {
            let half = kept.len() / 2;
            let (low, high) = (kept.start..kept.start + half, kept.start + half..kept.end);
            let in_low = seat & half == 0;
            let given;
            (kept, given) = if in_low { (low, high) } else { (high, low) };
            found.push(Halving {
                partner: seat ^ half,
                given,
                kept: kept.clone(),
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seat_is_taken_once_and_keeps_its_own_block() {
        for size in 1..40 {
            let fold = Fold::for_ranks(size);
            let seated: Vec<usize> = (0..size).filter_map(|rank| fold.seat(rank)).collect();
            assert_eq!(seated, (0..fold.seats).collect::<Vec<_>>(), "{size} ranks");
            for seat in 0..fold.seats {
                assert_eq!(fold.seat(fold.rank(seat)), Some(seat));
                let halvings = fold.halvings(seat);
                let kept = halvings.last().map_or(0..1, |last| last.kept.clone());
                assert_eq!(kept, seat..seat + 1);
                for (number, halving) in halvings.iter().enumerate() {
                    let other = &fold.halvings(halving.partner)[number];
                    assert_eq!((&other.given, other.partner), (&halving.kept, seat));
                }
            }
        }
    }
}
