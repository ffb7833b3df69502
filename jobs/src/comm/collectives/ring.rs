//! Ring algorithms: every rank sends to the next and receives from the previous one, in P - 1 steps for a
//! reduce-scatter and P - 1 for an all-gather.
//!
//! Each value crosses every link about twice, whatever the number of ranks, which is optimal; but the 2 (P - 1)
//! sequential messages are too many for short vectors between thousands of ranks. Source: Patarasuk & Yuan 2009,
//! doi:10.1016/j.jpdc.2008.09.002.

use super::lane::Exchange;
use super::{Lane, part};
use crate::comm::{Communicator, Result};
use std::ops::Range;

/// Returns the range of `values` that then holds this rank's sums: part number `rank` of an even division.
///
/// The other parts hold partial sums.
///
/// # Errors
/// Those of the backend.
pub fn reduce_scatter(
    comm: &mut dyn Communicator,
    values: &mut [f32],
    lane: &mut Lane,
) -> Result<Range<usize>> {
    let (rank, size) = (comm.rank(), comm.size());
    let segment = |back: usize| part(values.len(), size, (rank + 2 * size - back) % size);
    let longest = part(values.len(), size, 0).len();
    let steps: Vec<Exchange> = (1..size)
        .map(|step| neighbours(rank, size, segment(step), segment(step + 1)))
        .collect();
    for step in &steps {
        lane.exchange_add(comm, values, step, longest)?;
    }
    Ok(part(values.len(), size, rank))
}

/// Gathers every rank's own part, as left by [`reduce_scatter`], into `values` on all ranks.
///
/// With a half-precision wire format, owners round their parts, and every rank ends with the rounded values.
///
/// # Errors
/// Those of the backend.
pub fn all_gather(comm: &mut dyn Communicator, values: &mut [f32], lane: &mut Lane) -> Result<()> {
    let (rank, size, length) = (comm.rank(), comm.size(), values.len());
    let segment = move |back: usize| part(length, size, (rank + size - back) % size);
    let steps = (1..size).map(move |step| neighbours(rank, size, segment(step - 1), segment(step)));
    lane.gather(comm, values, segment(0), steps)
}

/// Replaces values by their sums over all ranks.
///
/// # Errors
/// Those of the backend.
pub fn all_reduce(comm: &mut dyn Communicator, values: &mut [f32], lane: &mut Lane) -> Result<()> {
    if comm.size() == 1 {
        return Ok(());
    }
    reduce_scatter(comm, values, lane)?;
    all_gather(comm, values, lane)
}

fn neighbours(rank: usize, size: usize, send: Range<usize>, receive: Range<usize>) -> Exchange {
    Exchange {
        to: (rank + 1) % size,
        send,
        from: (rank + size - 1) % size,
        receive,
    }
}
