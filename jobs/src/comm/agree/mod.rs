//! What all ranks must have in common, and small values they agree on.
//!
//! A network's graph never changes, so ranks need not negotiate about tensors in every step; they prove once, by hashes, that
//! they mean the same ([`Facts`]), and now and then that they still hold the same parameters ([`same_parameters`]).

mod sums;

pub use sums::{any, or_flags, sum_counts, sum_exactly};

use super::collectives::tree;
use super::{CommError, Communicator, Result};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Ranks named one by one in an error; the rest is counted.
const NAMED_RANKS: usize = 8;

/// Named facts, each known by a hash.
///
/// # Example
/// ```
/// use squall_jobs::comm::{agree::Facts, threads};
/// let errors = threads::run(threads::ranks(3), |mut rank| {
///     let recipe = if rank.member() == 1 { "rate = 1" } else { "rate = 2" };
///     let facts = Facts::new().with("code", b"v1").with("recipe", recipe.as_bytes());
///     facts.check(&mut rank).unwrap_err().to_string()
/// });
/// assert!(errors[0].contains("recipe differs between ranks: rank 1 has another than the other 2"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    names: Vec<String>,
    hashes: Vec<u64>,
}

impl Facts {
    /// No facts yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// These facts and one more.
    #[must_use]
    pub fn with(mut self, name: &str, content: &[u8]) -> Self {
        self.names.push(name.into());
        self.hashes.push(xxh3_64(content));
        self
    }

    /// Compares the facts of all ranks. All of them return the same verdict.
    ///
    /// # Errors
    /// [`CommError::Differs`] with the first fact that differs and the ranks in the minority; those of the backend.
    pub fn check(&self, comm: &mut dyn Communicator) -> Result<()> {
        compare(comm, "the list of facts", &self.names, &self.hashes)
    }
}

/// Compares parameters bit by bit over all ranks, by a hash for each tensor. All ranks return the same verdict.
///
/// # Errors
/// [`CommError::Differs`] with the first tensor that differs and the ranks in the minority; those of the backend.
pub fn same_parameters<'a>(
    comm: &mut dyn Communicator,
    tensors: impl IntoIterator<Item = (&'a str, &'a [f32])>,
) -> Result<()> {
    let hashed = tensors.into_iter().map(|(name, values)| {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        (format!("tensor {name}"), xxh3_64(bytes))
    });
    let (names, hashes): (Vec<_>, Vec<_>) = hashed.unzip();
    compare(comm, "the list of tensors", &names, &hashes)
}

/// Compares hashes over ranks: first a single one, then, if that differs, all of them.
fn compare(
    comm: &mut dyn Communicator,
    list: &str,
    names: &[String],
    hashes: &[u64],
) -> Result<()> {
    let mut hasher = Xxh3::new();
    for name in names {
        // The length keeps "ab", "c" apart from "a", "bc".
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    let names_hash = hasher.digest();
    let all_hash = xxh3_64(bytemuck::cast_slice(hashes));
    let gathered = gather(comm, &[names_hash, all_hash])?;
    verdict(comm.rank(), list, gathered.iter().map(|found| found[0]))?;
    let first = &gathered[0];
    if gathered.iter().all(|found| found == first) {
        return Ok(());
    }
    let gathered = gather(comm, hashes)?;
    for (number, name) in names.iter().enumerate() {
        verdict(
            comm.rank(),
            name,
            gathered.iter().map(|found| found[number]),
        )?;
    }
    Ok(())
}

/// The numbers of every rank.
fn gather(comm: &mut dyn Communicator, mine: &[u64]) -> Result<Vec<Vec<u64>>> {
    let bytes = tree::all_gather(comm, bytemuck::cast_slice(mine))?;
    let each = bytes.chunks(8 * mine.len());
    Ok(each.map(bytemuck::pod_collect_to_vec).collect())
}

/// An error if not all hashes are the same; right is what most ranks have, and among equals what the lowest has.
fn verdict(rank: usize, what: &str, hashes: impl Iterator<Item = u64>) -> Result<()> {
    let mut ranks_with: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (rank, hash) in hashes.enumerate() {
        ranks_with.entry(hash).or_default().push(rank);
    }
    if ranks_with.len() < 2 {
        return Ok(());
    }
    let mut groups: Vec<Vec<usize>> = ranks_with.into_values().collect();
    groups.sort_by_key(|ranks| (usize::MAX - ranks.len(), ranks[0]));
    let majority = groups.remove(0).len();
    let mut others: Vec<usize> = groups.concat();
    others.sort_unstable();
    Err(CommError::Differs {
        rank,
        what: what.into(),
        reason: format!(
            "{} another than the other {majority}",
            match others.len() {
                1 => format!("rank {} has", others[0]),
                _ => format!("ranks {} have", listed(&others)),
            }
        ),
    })
}

/// Ranks in words, as many as are worth reading.
fn listed(ranks: &[usize]) -> String {
    let named = &ranks[..ranks.len().min(NAMED_RANKS)];
    let words: Vec<String> = named.iter().map(ToString::to_string).collect();
    match ranks.len() - named.len() {
        0 => words.join(", "),
        more => format!("{} and {more} more", words.join(", ")),
    }
}
