//! Collectives over messages between two ranks, the same for every backend.
//!
//! Long vectors use [`ring`], short ones between many ranks [`halving`], bytes and small vectors [`tree`]; [`choose`]
//! decides. All of them give the same bits on every rank and in every run: the order of additions depends only on the
//! number of ranks and the length.

pub mod choose;
pub mod halving;
pub mod lane;
pub mod ring;
pub mod tree;
pub(super) mod values;

pub use choose::{Algorithm, Choice};
pub use lane::Lane;

use super::{Communicator, Result};
use std::ops::Range;

/// Range `index` of an even division of this many values; earlier parts are longer by one if the division has a
/// remainder.
///
/// # Example
/// ```
/// use squall_jobs::comm::collectives::part;
/// assert_eq!(part(10, 4, 1), 3..6);
/// assert_eq!(part(10, 4, 3), 8..10);
/// ```
#[must_use]
pub fn part(values: usize, parts: usize, index: usize) -> Range<usize> {
    let (each, longer) = (values / parts, values % parts);
    let start = index * each + index.min(longer);
    start..start + each + usize::from(index < longer)
}

/// Replaces values by their sums over all ranks, using this algorithm and the lane's wire format.
///
/// # Errors
/// Those of the backend.
pub fn all_reduce(
    algorithm: Algorithm,
    comm: &mut dyn Communicator,
    values: &mut [f32],
    lane: &mut Lane,
) -> Result<()> {
    match algorithm {
        Algorithm::Ring => ring::all_reduce(comm, values, lane),
        Algorithm::Halving => halving::all_reduce(comm, values, lane),
    }
}
