//! Ranks as threads of one process, with configurable nodes and faults for tests.
//!
//! Real messages and real collectives without MPI: results hold for any backend that keeps the promises of
//! [`Communicator`](super::Communicator). Errors name ranks by their numbers at the start, also in groups made by
//! splitting.
//!
//! # Example
//! ```
//! use squall_jobs::comm::{Communicator, threads};
//! let sizes = threads::run(threads::nodes(&[2, 2, 3]), |mut rank| {
//!     let node = rank.split_by_node().unwrap();
//!     (rank.member(), node.size())
//! });
//! assert_eq!(sizes[3], (3, 2));
//! assert_eq!(sizes[4], (4, 3));
//! ```

mod endpoint;
mod group;
mod meeting;
mod window;

pub use endpoint::Threads;

use group::Group;
use meeting::World;
use std::sync::Arc;
use std::time::Duration;

/// Injected faults.
#[derive(Debug, Clone, Default)]
struct Faults {
    delays: Option<(u64, Duration)>,
    limit: Option<Duration>,
    injected: Vec<(usize, u64, Fault)>,
}

/// A fault injected into a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It gives up: this operation and all later ones fail, and its peers see that it is gone.
    Dies,
    /// It sleeps for this long, then continues.
    Sleeps(Duration),
}

/// A builder of ranks: their nodes, delays and faults.
#[derive(Debug, Clone)]
pub struct Ranks {
    node_of: Vec<usize>,
    faults: Faults,
}

impl Ranks {
    /// One rank for each entry, which is the number of its node.
    #[must_use]
    pub fn placed(node_of: &[usize]) -> Self {
        Self {
            node_of: node_of.to_vec(),
            faults: Faults::default(),
        }
    }

    /// Nodes with these numbers of ranks; ranks are numbered node by node.
    #[must_use]
    pub fn nodes(ranks_per_node: &[usize]) -> Self {
        let nodes = ranks_per_node.iter().enumerate();
        let node_of: Vec<usize> = nodes
            .flat_map(|(node, &ranks)| std::iter::repeat_n(node, ranks))
            .collect();
        Self::placed(&node_of)
    }

    /// Delays every operation randomly by up to `longest`, from this seed.
    #[must_use]
    pub fn delays(mut self, seed: u64, longest: Duration) -> Self {
        self.faults.delays = Some((seed, longest));
        self
    }

    /// Makes an operation that waits longer than this fail as stalled. Without a limit it waits while its peers are
    /// alive.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.faults.limit = Some(limit);
        self
    }

    /// Injects a fault into this rank's operation with this number, counted from 0 over all its groups.
    #[must_use]
    pub fn fault(mut self, rank: usize, operation: u64, fault: Fault) -> Self {
        self.faults.injected.push((rank, operation, fault));
        self
    }

    /// Creates the ranks, in order.
    #[must_use]
    pub fn start(self) -> Vec<Threads> {
        let count = self.node_of.len();
        let world = Arc::new(World::new(self.node_of, self.faults));
        let group = Arc::new(Group::new(world, (0..count).collect()));
        (0..count)
            .map(|rank| Threads::new(Arc::clone(&group), rank))
            .collect()
    }
}

/// Ranks on a single node.
#[must_use]
pub fn ranks(count: usize) -> Vec<Threads> {
    Ranks::nodes(&[count]).start()
}

/// Nodes with these numbers of ranks.
#[must_use]
pub fn nodes(ranks_per_node: &[usize]) -> Vec<Threads> {
    Ranks::nodes(ranks_per_node).start()
}

/// Runs a function for every rank on its own thread, and returns the results.
///
/// # Panics
/// When a rank panics, with the same message.
pub fn run<T: Send>(ranks: Vec<Threads>, work: impl Fn(Threads) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let started: Vec<_> = ranks
            .into_iter()
            .map(|rank| scope.spawn(move || work(rank)))
            .collect();
        let ended = started.into_iter().map(|thread| thread.join());
        ended
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
