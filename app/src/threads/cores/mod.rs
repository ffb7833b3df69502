//! How the cores of a node are divided: pure functions.
//!
//! A hardware thread is what the system numbers; a core has one or more of them.

use super::options::Options;

/// The hardware threads of one core that may be used, in ascending order.
pub type Core = Vec<usize>;

/// One of the ranks that divide cores among themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// From 0.
    pub rank: usize,
    /// How many there are, at least 1.
    pub ranks: usize,
}

impl Place {
    /// A rank that divides with no other.
    pub const ALONE: Self = Self { rank: 0, ranks: 1 };
}

/// What the hardware threads of one rank are for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Division {
    /// Threads that compute run on these.
    pub computing: Vec<usize>,
    /// The communication thread runs on these; with none, where the scheduler likes.
    pub communication: Vec<usize>,
}

/// More cores are to be reserved than can be spared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot reserve {wanted} of this rank's {share} cores for communication: one must compute")]
pub struct TooFew {
    /// To be reserved.
    pub wanted: usize,
    /// Whole cores of the rank.
    pub share: usize,
}

/// The numbers in a list of the kernel's, such as `0-3,8`; what is no number is left out.
pub fn parse(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Numbers as the kernel lists them.
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

/// The cores that these hardware threads belong to, in the order of their first threads.
///
/// `siblings` gives all hardware threads of a thread's core; one that it does not know is a core of its own.
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

/// The part of a rank where things are dealt equally and in the order of ranks; where ranks outnumber things, one thing
/// for each rank in turn.
fn share<T>(things: &[T], place: Place) -> &[T] {
    let (count, Place { rank, ranks }) = (things.len(), place);
    if count < ranks {
        let at = rank % count.max(1);
        return &things[at..(at + 1).min(count)];
    }
    &things[count * rank / ranks..count * (rank + 1) / ranks]
}

/// What a rank computes and communicates on.
///
/// Whole cores are dealt, so that ranks do not meet on one; the last of a rank's are reserved, with all their hardware
/// threads. Where ranks are more than cores, hardware threads are dealt, and none can be reserved.
///
/// # Errors
/// If no core would be left to compute on.
pub fn divide(cores: &[Core], place: Place, options: &Options) -> Result<Division, TooFew> {
    let wanted = options.reserve_cores.unwrap_or(0);
    let hyper_threads = options.hyper_threads.unwrap_or_default();
    let computing = |cores: &[Core]| -> Vec<usize> {
        let each = cores.iter().flat_map(|core| hyper_threads.of(core));
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
