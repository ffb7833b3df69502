//! Tree algorithms for bytes and small vectors: broadcast, sums in a fixed order, gather to all, and a barrier.

use crate::comm::error::check_peer;
use crate::comm::{Communicator, Result};

/// Maximum length of a broadcast message, so that longer ones are pipelined down the tree.
const PIECE_BYTES: usize = 4 << 20;

/// Broadcasts the bytes of `root` along a binomial tree.
///
/// # Errors
/// [`CommError::Layout`](crate::comm::CommError::Layout) if there is no rank `root`; those of the backend.
pub fn broadcast(comm: &mut dyn Communicator, bytes: &mut [u8], root: usize) -> Result<()> {
    let (parent, children) = family(comm, root)?;
    for piece in bytes.chunks_mut(PIECE_BYTES) {
        if let Some(parent) = parent {
            comm.receive(parent, piece)?;
        }
        for &child in &children {
            comm.send(child, piece)?;
        }
    }
    Ok(())
}

/// Broadcasts the values of `root`, bit for bit.
///
/// # Errors
/// [`CommError::Layout`](crate::comm::CommError::Layout) if there is no rank `root`; those of the backend.
pub fn broadcast_values(
    comm: &mut dyn Communicator,
    values: &mut [f32],
    root: usize,
) -> Result<()> {
    broadcast(comm, bytemuck::cast_slice_mut(values), root)
}

/// Broadcasts the bytes of `root` to ranks that do not know their number.
///
/// # Errors
/// [`CommError::Layout`](crate::comm::CommError::Layout) if there is no rank `root`; those of the backend.
pub fn broadcast_any(
    comm: &mut dyn Communicator,
    mut bytes: Vec<u8>,
    root: usize,
) -> Result<Vec<u8>> {
    let mut length = (bytes.len() as u64).to_le_bytes();
    broadcast(comm, &mut length, root)?;
    bytes.resize(u64::from_le_bytes(length) as usize, 0);
    broadcast(comm, &mut bytes, root)?;
    Ok(bytes)
}

/// Folds the values of all ranks element-wise, in an order that depends only on the number of ranks, and gives every
/// rank the result.
///
/// # Errors
/// Those of the backend.
pub fn all_fold<T: bytemuck::Pod>(
    comm: &mut dyn Communicator,
    values: &mut [T],
    fold: impl Fn(&mut T, T),
) -> Result<()> {
    reduce(comm, values, 0, fold)?;
    broadcast(comm, bytemuck::cast_slice_mut(values), 0)
}

/// Concatenates the bytes of all ranks, each as many as `mine`, in about log2 P messages.
///
/// # Source
/// Bruck et al. 1997, doi:10.1109/71.642949.
///
/// # Errors
/// Errors of the backend; [`CommError::Size`](crate::comm::CommError::Size) if a rank passes another number of bytes.
pub fn all_gather(comm: &mut dyn Communicator, mine: &[u8]) -> Result<Vec<u8>> {
    let (rank, size, each) = (comm.rank(), comm.size(), mine.len());
    let mut found = mine.to_vec();
    let mut have = 1;
    while have < size {
        let more = have.min(size - have);
        let mut arrived = vec![0; more * each];
        let (to, from) = ((rank + size - have) % size, (rank + have) % size);
        comm.send_receive(to, &found[..more * each], from, &mut arrived)?;
        found.extend(arrived);
        have += more;
    }
    // The first block is this rank's own; block 0 lies `rank` blocks before it.
    found.rotate_right(rank * each);
    Ok(found)
}

/// Gathers the bytes of each rank, whose number may vary; for transfer, blocks are padded to the longest.
///
/// # Errors
/// Those of the backend.
pub fn all_gather_any(comm: &mut dyn Communicator, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
    let lengths = all_gather(comm, &(mine.len() as u64).to_le_bytes())?;
    let lengths: Vec<usize> = (lengths.as_chunks().0.iter())
        .map(|length| u64::from_le_bytes(*length) as usize)
        .collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    if longest == 0 {
        return Ok(vec![Vec::new(); lengths.len()]);
    }
    let mut block = mine.to_vec();
    block.resize(longest, 0);
    let all = all_gather(comm, &block)?;
    let blocks = all.chunks(longest).zip(lengths);
    Ok(blocks
        .map(|(block, length)| block[..length].to_vec())
        .collect())
}

/// Returns once all ranks have called it, using messages: for backends without a barrier of their own.
///
/// # Source
/// Hensgen, Finkel & Manber 1988, doi:10.1007/BF01379320 (dissemination).
///
/// # Errors
/// Those of the backend.
pub fn barrier(comm: &mut dyn Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let mut distance = 1;
    while distance < size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        comm.send_receive(to, &[0], from, &mut [0])?;
        distance *= 2;
    }
    Ok(())
}

/// Folds along the tree of [`broadcast`], from the leaves to the root. Other ranks end with partial results.
fn reduce<T: bytemuck::Pod>(
    comm: &mut dyn Communicator,
    values: &mut [T],
    root: usize,
    fold: impl Fn(&mut T, T),
) -> Result<()> {
    let (parent, children) = family(comm, root)?;
    let mut arrived = values.to_vec();
    // Nearest first: the farthest child has the largest subtree and is ready last.
    for &child in children.iter().rev() {
        comm.receive(child, bytemuck::cast_slice_mut(&mut arrived))?;
        for (total, value) in values.iter_mut().zip(&arrived) {
            fold(total, *value);
        }
    }
    match parent {
        Some(parent) => comm.send(parent, bytemuck::cast_slice(values)),
        None => Ok(()),
    }
}

/// This rank's parent and children in the binomial tree below `root`, the child with the largest subtree first.
fn family(comm: &dyn Communicator, root: usize) -> Result<(Option<usize>, Vec<usize>)> {
    let (rank, size) = (comm.rank(), comm.size());
    check_peer(rank, root, size)?;
    let place = (rank + size - root) % size;
    let whole = size.next_power_of_two();
    // The lowest set bit of a place is the distance to its parent; smaller powers of two lead to children.
    let reach = if place == 0 {
        whole
    } else {
        1 << place.trailing_zeros()
    };
    let rank_of = |place: usize| (place + root) % size;
    let parent = (place > 0).then(|| rank_of(place - reach));
    let mut children = Vec::new();
    let mut distance = reach / 2;
    while distance > 0 {
        if place + distance < size {
            children.push(rank_of(place + distance));
        }
        distance /= 2;
    }
    Ok((parent, children))
}
