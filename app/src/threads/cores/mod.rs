//! Divides the cores of a node among ranks: pure functions.
//!
//! The system numbers hardware threads; a core has one or more of them.

use super::options::Options;

/// The usable hardware threads of one core, in ascending order.
pub type Core = Vec<usize>;

/// The position of a rank among those that divide cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankPosition {
    /// From 0.
    pub rank: usize,
    /// Number of ranks, at least 1.
    pub ranks: usize,
}

impl RankPosition {
    /// A rank that shares with no other.
    pub const ALONE: Self = Self { rank: 0, ranks: 1 };
}

/// The use of a rank's hardware threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Division {
    /// Threads for computation.
    pub computing: Vec<usize>,
    /// Threads for communication; if empty, the scheduler decides.
    pub communication: Vec<usize>,
}

/// More cores are to be reserved than can be spared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot reserve {wanted} of this rank's {share} cores for communication: one must compute")]
pub struct TooFew {
    /// Number of cores to reserve.
    pub wanted: usize,
    /// Number of whole cores of the rank.
    pub share: usize,
}

/// Parses a kernel list such as `0-3,8`; invalid numbers are ignored.
pub fn parse(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Formats numbers as a kernel list.
pub fn list(numbers: &[usize]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a + 1 == *b);
    let words: Vec<String> = runs
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run[0].to_string(),
        })
        .collect();
    words.join(",")
}

/// Groups hardware threads by core, ordered by their first threads.
///
/// `siblings` returns all hardware threads of a thread's core; an unknown thread counts as a core of its own.
pub fn group(threads: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Vec<Core> {
    let mut cores: Vec<Core> = Vec::new();
    let mut dealt = std::collections::BTreeSet::new();
    for &thread in threads {
        if dealt.contains(&thread) {
            continue;
        }
        let mut core: Core = siblings(thread);
        core.retain(|sibling| threads.contains(sibling) && !dealt.contains(sibling));
        if !core.contains(&thread) {
            core.push(thread);
        }
        core.sort_unstable();
        dealt.extend(core.iter().copied());
        cores.push(core);
    }
    cores
}

/// A rank's part of an even division in rank order; if there are more ranks than things, ranks take single things in
/// turn.
fn share<T>(things: &[T], place: RankPosition) -> &[T] {
    let (count, RankPosition { rank, ranks }) = (things.len(), place);
    if count < ranks {
        let at = rank % count.max(1);
        return &things[at..(at + 1).min(count)];
    }
    &things[count * rank / ranks..count * (rank + 1) / ranks]
}

/// Divides a rank's cores into computation and communication.
///
/// Whole cores are assigned, so that ranks never share one; the last of a rank's cores are reserved with all their
/// hardware threads. If there are more ranks than cores, hardware threads are assigned, and none can be reserved.
///
/// # Errors
/// If no core would be left to compute on.
pub fn divide(cores: &[Core], place: RankPosition, options: &Options) -> Result<Division, TooFew> {
    let wanted = options.reserve_cores.unwrap_or(0);
    let hyper_threads = options.hyper_threads.unwrap_or_default();
    let computing = |cores: &[Core]| -> Vec<usize> {
        let each = cores.iter().flat_map(|core| hyper_threads.computing(core));
        each.copied().collect()
    };
    if cores.len() < place.ranks {
        let threads = computing(cores);
        return match wanted {
            0 => Ok(Division {
                computing: share(&threads, place).to_vec(),
                communication: Vec::new(),
            }),
            _ => Err(TooFew { wanted, share: 0 }),
        };
    }
    let mine = share(cores, place);
    if wanted >= mine.len() {
        let share = mine.len();
        return Err(TooFew { wanted, share });
    }
    let (compute, reserved) = mine.split_at(mine.len() - wanted);
    Ok(Division {
        computing: computing(compute),
        communication: reserved.concat(),
    })
}

#[cfg(test)]
mod tests;
