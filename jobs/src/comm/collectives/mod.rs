//! Collectives over messages between two ranks, the same for every backend.
//!
//! Long vectors go by [`ring`], short ones between many ranks by [`halving`], bytes and small vectors by [`tree`];
//! [`choose`] says which. All of them give every rank the same bits, and the same bits again in the next run: the order
//! of additions follows from the number of ranks and the length alone.

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

/// The part with number `index` when so many values are divided evenly; earlier parts are longer by one if it must be.
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

/// Replaces values by their sums over all ranks, by this algorithm and with the lane's type on the wire.
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
