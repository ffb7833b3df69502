//! Agreement between ranks: facts that must be identical, and small values that are combined.
//!
//! A network's graph never changes, so ranks need not negotiate about tensors in every step. Instead they compare
//! hashes once, at the start ([`Facts`]), and periodically check that they still hold the same parameters
//! ([`same_parameters`]).

mod sums;

pub use sums::{any, any_of_each, sum_counts, sum_exactly};

use super::collectives::tree;
use super::{CommError, Communicator, Result};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Ranks named one by one in an error; the rest is counted.
const NAMED_RANKS: usize = 8;

/// Named facts that ranks compare by hash. Some also have a text of lines `key = value`.
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
///
/// let errors = threads::run(threads::ranks(3), |mut rank| {
///     let recipe = if rank.member() == 1 { "rate = 1\nseed = 5" } else { "rate = 1\nseed = 7" };
///     let facts = Facts::new().with_text("recipe", recipe);
///     facts.check(&mut rank).unwrap_err().to_string()
/// });
/// assert!(errors[0].contains("the other 2: `seed = 5` instead of `seed = 7`"), "{}", errors[0]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    names: Vec<String>,
    hashes: Vec<u64>,
    /// Texts that an error can quote.
    texts: Vec<Option<String>>,
}

impl Facts {
    /// No facts yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, name: &str, content: &[u8]) -> Self {
        self.names.push(name.into());
        self.hashes.push(xxh3_64(content));
        self.texts.push(None);
        self
    }

    /// Adds a fact with a text; if it differs, the error shows the first differing line.
    #[must_use]
    pub fn with_text(mut self, name: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        self.names.push(name.into());
        self.hashes.push(xxh3_64(text.as_bytes()));
        self.texts.push(Some(text));
        self
    }

    /// Compares the facts of all ranks. All ranks return the same result.
    ///
    /// # Errors
    /// [`CommError::Differs`] with the first fact that differs and the ranks in the minority; errors of the backend.
    pub fn check(&self, comm: &mut dyn Communicator) -> Result<()> {
        let Some(found) = compare(
            comm,
            "the program or its list of facts",
            &self.names,
            &self.hashes,
        )?
        else {
            return Ok(());
        };
        let mut error = found.error(comm.rank());
        if let (Some(Some(text)), CommError::Differs { reason, .. }) =
            (self.texts.get(found.number), &mut error)
        {
            let right = broadcast_text(comm, found.right, text)?;
            let wrong = broadcast_text(comm, found.others[0], text)?;
            if let Some((wrong, right)) = first_difference(&wrong, &right) {
                reason.push_str(&format!(": {wrong} instead of {right}"));
            }
        }
        Err(error)
    }
}

/// Compares parameters bit by bit over all ranks, using one hash per tensor. All ranks return the same result.
///
/// # Errors
/// [`CommError::Differs`] with the first tensor that differs and the ranks in the minority; errors of the backend.
pub fn same_parameters<'a>(
    comm: &mut dyn Communicator,
    tensors: impl IntoIterator<Item = (&'a str, &'a [f32])>,
) -> Result<()> {
    same_parameters_from(0, comm, tensors)
}

/// Like [`same_parameters`], for consecutive ranks of a job, the first of which has the given number: errors use
/// job-wide numbers.
pub(crate) fn same_parameters_from<'a>(
    first_in_job: usize,
    comm: &mut dyn Communicator,
    tensors: impl IntoIterator<Item = (&'a str, &'a [f32])>,
) -> Result<()> {
    let hashed = tensors.into_iter().map(|(name, values)| {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        (format!("tensor {name}"), xxh3_64(bytes))
    });
    let (names, hashes): (Vec<_>, Vec<_>) = hashed.unzip();
    let Some(mut found) = compare(comm, "the list of tensors", &names, &hashes)? else {
        return Ok(());
    };
    found
        .others
        .iter_mut()
        .for_each(|rank| *rank += first_in_job);
    Err(found.error(first_in_job + comm.rank()))
}

/// Broadcasts the text of one rank.
fn broadcast_text(comm: &mut dyn Communicator, rank: usize, own: &str) -> Result<String> {
    let bytes = tree::broadcast_any(comm, own.as_bytes().to_vec(), rank)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first differing line of each text. Lines are matched by key if they have one, because a key may be absent from
/// the other text.
fn first_difference(one: &str, other: &str) -> Option<(String, String)> {
    fn by_key(text: &str) -> BTreeMap<&str, &str> {
        let key = |line: &'_ str| line.find(" = ").unwrap_or(0);
        text.lines()
            .map(|line| (&line[..key(line)], line))
            .collect()
    }
    let (one, other) = (by_key(one), by_key(other));
    let keys = one.keys().chain(other.keys());
    let first = keys.filter(|key| one.get(*key) != other.get(*key)).min()?;
    let shown = |lines: &BTreeMap<&str, &str>| match lines.get(first) {
        Some(line) => format!("`{line}`"),
        None => format!("no `{first}`"),
    };
    Some((shown(&one), shown(&other)))
}

/// A fact that differs between ranks.
struct Difference {
    /// Its index in the list; the list itself comes last.
    number: usize,
    what: String,
    /// The lowest rank of the majority, and the size of the majority.
    right: usize,
    majority: usize,
    /// The ranks outside the majority.
    others: Vec<usize>,
}

impl Difference {
    fn error(&self, rank: usize) -> CommError {
        let others = match self.others.len() {
            1 => format!("rank {} has", self.others[0]),
            _ => format!("ranks {} have", listed(&self.others)),
        };
        CommError::Differs {
            rank,
            what: self.what.clone(),
            reason: format!("{others} another than the other {}", self.majority),
        }
    }
}

/// Finds the first of these hashes that differs between ranks. Compares a combined hash first, and all of them only if
/// that differs.
fn compare(
    comm: &mut dyn Communicator,
    list: &str,
    names: &[String],
    hashes: &[u64],
) -> Result<Option<Difference>> {
    let mut hasher = Xxh3::new();
    for name in names {
        // Hashing the length distinguishes "ab", "c" from "a", "bc".
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    let names_hash = hasher.digest();
    let all_hash = xxh3_64(bytemuck::cast_slice(hashes));
    let gathered = gather(comm, &[names_hash, all_hash])?;
    let column = |all: &[Vec<u64>], number: usize| all.iter().map(|found| found[number]).collect();
    if let Some(found) = difference(names.len(), list, column(&gathered, 0)) {
        return Ok(Some(found));
    }
    let first = &gathered[0];
    if gathered.iter().all(|found| found == first) {
        return Ok(None);
    }
    let gathered = gather(comm, hashes)?;
    let mut numbered = names.iter().enumerate();
    Ok(numbered.find_map(|(number, name)| difference(number, name, column(&gathered, number))))
}

/// Gathers the numbers of every rank.
fn gather(comm: &mut dyn Communicator, mine: &[u64]) -> Result<Vec<Vec<u64>>> {
    let bytes = tree::all_gather(comm, bytemuck::cast_slice(mine))?;
    let each = bytes.chunks(8 * mine.len());
    Ok(each.map(bytemuck::pod_collect_to_vec).collect())
}

/// The ranks outside the majority, if any. The most frequent hash counts as right; in a tie, the one of the lowest
/// rank.
fn difference(number: usize, what: &str, hashes: Vec<u64>) -> Option<Difference> {
    let mut ranks_with: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (rank, hash) in hashes.into_iter().enumerate() {
        ranks_with.entry(hash).or_default().push(rank);
    }
    if ranks_with.len() < 2 {
        return None;
    }
    let mut groups: Vec<Vec<usize>> = ranks_with.into_values().collect();
    groups.sort_by_key(|ranks| (usize::MAX - ranks.len(), ranks[0]));
    let right = groups.remove(0);
    let mut others: Vec<usize> = groups.concat();
    others.sort_unstable();
    Some(Difference {
        number,
        what: what.into(),
        right: right[0],
        majority: right.len(),
        others,
    })
}

/// Lists ranks for a message, up to a limit.
fn listed(ranks: &[usize]) -> String {
    let named = &ranks[..ranks.len().min(NAMED_RANKS)];
    let words: Vec<String> = named.iter().map(ToString::to_string).collect();
    match ranks.len() - named.len() {
        0 => words.join(", "),
        more => format!("{} and {more} more", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn the_first_key_that_differs_is_shown() {
        let check = |one: &str, other: &str, expected: Option<(&str, &str)>| {
            let found = first_difference(one, other);
            let found = found.as_ref().map(|(a, b)| (a.as_str(), b.as_str()));
            assert_eq!(found, expected, "{one:?} {other:?}");
        };
        check("a = 1\nb = 2", "a = 1\nb = 2", None);
        check("a = 1\nb = 2", "a = 1\nb = 3", Some(("`b = 2`", "`b = 3`")));
        // A key that only one has does not shift the others.
        check(
            "a = 1\nc = 2",
            "a = 1\nb = 0\nc = 2",
            Some(("no `b`", "`b = 0`")),
        );
        check("bf16", "f32", Some(("`bf16`", "`f32`")));
    }
}
