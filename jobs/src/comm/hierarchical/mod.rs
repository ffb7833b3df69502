//! Sums in three phases: inside the node, between nodes, inside the node.
//!
//! Only the phase between nodes uses the network, and it sends each value once per node instead of once per rank.
//! Several ranks of a node, its leaders, do this, each with its part of the values, so that all of the node's network
//! links are busy. Inside a node values go through shared memory: every rank writes the values that others sum, each
//! leader adds up its part from all ranks in rank order (rounding only in the additions), and every rank reads the
//! results. There are two ways of writing to this memory; the faster one is measured periodically (`writing`). If
//! memory cannot be shared, ring algorithms use messages instead; or a library that knows the node's own links, such as
//! NCCL, takes over ([`Hierarchical::with_node`]).
//!
//! The result does not depend on how nodes are numbered: they are ordered by their lowest rank.

mod inside;
mod writing;

pub use inside::{Between, NodeSum};

use super::collectives::lane::PIECE_BYTES;
use super::collectives::{self, Choice, Lane, part, values};
use super::layout::Layout;
use super::{AllReduce, CommError, Communicator, Phase, Result, Wire};
use inside::{Inside, Shards, Shared};
use squall_model::gradients::Lent;
use std::ops::Range;
use std::time::Instant;

/// Settings of [`Hierarchical`]; must be the same on all ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct HierarchicalOptions {
    /// Number of ranks per node that communicate with other nodes; all of them if `None`.
    pub leaders: Option<usize>,
    /// The number format in which values are sent between nodes. Inside a node they stay f32.
    pub wire: Wire,
    /// The algorithm between nodes.
    pub between: Choice,
    /// Whether the ranks of a node share memory if they can.
    pub shared_memory: bool,
    /// Number of values in one piece: longer vectors go through the three phases piece by piece. Shared memory holds
    /// two pieces per rank.
    pub values_at_once: usize,
    /// Maximum number of values in one piece if all ranks are on one node: few enough that what a rank writes is still
    /// in cache when others read it.
    pub values_in_cache: usize,
    /// Maximum message length in bytes in steps that add values: longer messages are split, so that additions overlap
    /// with sending.
    pub piece_bytes: usize,
}

impl Default for HierarchicalOptions {
    fn default() -> Self {
        Self {
            leaders: None,
            wire: Wire::F32,
            between: Choice::Auto,
            shared_memory: true,
            values_at_once: 4 << 20,
            values_in_cache: 256 << 10,
            piece_bytes: PIECE_BYTES,
        }
    }
}

/// An all-reduce over several nodes, which must have equal numbers of ranks.
pub struct Hierarchical {
    layout: Layout,
    leaders: usize,
    options: HierarchicalOptions,
    inside: Inside,
    /// Connects the leaders of the same part on all nodes; `None` on ranks that do not lead.
    between: Option<Box<dyn Communicator>>,
    lane: Lane,
    /// The phases of the last sum.
    phases: Vec<Phase>,
}

impl Hierarchical {
    /// The engine over all ranks of `comm`. Its messages are kept apart from those of other users of `comm`.
    ///
    /// # Errors
    /// [`CommError::Layout`] if nodes have unequal numbers of ranks, or if there cannot be this many leaders; those
    /// of the backend.
    pub fn new(comm: &mut dyn Communicator, options: &HierarchicalOptions) -> Result<Self> {
        Self::build(comm, options, |_, node, at_once| {
            Inside::new(node, options, at_once)
        })
    }

    /// As [`Self::new`], with a [`NodeSum`] inside nodes of several ranks. `connect` makes it from the communicators of
    /// all ranks and of the node's ranks; it must fail on all ranks or on none.
    ///
    /// # Errors
    /// As [`Self::new`]; those of `connect`.
    pub fn with_node(
        comm: &mut dyn Communicator,
        options: &HierarchicalOptions,
        connect: impl FnOnce(&mut dyn Communicator, &mut dyn Communicator) -> Result<Box<dyn NodeSum>>,
    ) -> Result<Self> {
        Self::build(comm, options, |all, mut node, _| match node.size() {
            1 => Ok(Inside::Alone),
            _ => connect(all, &mut *node).map(Inside::Library),
        })
    }

    fn build(
        comm: &mut dyn Communicator,
        options: &HierarchicalOptions,
        inside: impl FnOnce(&mut dyn Communicator, Box<dyn Communicator>, usize) -> Result<Inside>,
    ) -> Result<Self> {
        let mut node = comm.split_by_node()?;
        let layout = Layout::agree(comm, &mut *node)?;
        let leaders = options.leaders.unwrap_or(layout.ranks_per_node);
        if leaders == 0 || leaders > layout.ranks_per_node {
            return Err(CommError::Layout(format!(
                "{leaders} leaders asked for on nodes with {} ranks: 1 to {0} are possible",
                layout.ranks_per_node
            )));
        }
        if options.values_at_once.min(options.values_in_cache) == 0 {
            return Err(CommError::Layout(
                "0 values at once asked for: at least 1 is needed".into(),
            ));
        }
        let leads = layout.local_rank < leaders;
        let colour = u32::try_from(layout.local_rank).ok().filter(|_| leads);
        let between = comm.split(colour, layout.lowest_rank)?;
        let inside = inside(comm, node, at_once(options, layout.nodes))?;
        Ok(Self {
            layout,
            leaders,
            options: options.clone(),
            inside,
            between,
            lane: Lane::new(options.wire).pieces_of(options.piece_bytes),
            phases: Vec::new(),
        })
    }

    /// Sums a leader's part over nodes and records the time that this took as a phase; ranks that do not lead do
    /// nothing.
    fn reduce_between(&mut self, sums: &mut [f32]) -> Result<()> {
        let from = Instant::now();
        let result = self.send_between(sums);
        if self.layout.nodes > 1 && self.between.is_some() {
            self.phases.push(Phase {
                name: BETWEEN,
                from,
                to: Instant::now(),
            });
        }
        result
    }

    fn send_between(&mut self, sums: &mut [f32]) -> Result<()> {
        let Some(between) = &mut self.between else {
            return Ok(());
        };
        let bytes = sums.len() * self.lane.wire().bytes();
        let algorithm = self.options.between.resolve(bytes, between.size());
        collectives::all_reduce(algorithm, &mut **between, sums, &mut self.lane)
    }

    /// The range of each leader's part in a piece of this many values.
    fn parts(&self, values: usize) -> Vec<Range<usize>> {
        let leaders = self.leaders;
        (0..leaders)
            .map(|leader| part(values, leaders, leader))
            .collect()
    }

    /// Sums one piece in three phases.
    fn reduce_piece(&mut self, all: &mut [f32], scale: f32) -> Result<()> {
        let (local, ranks) = (self.layout.local_rank, self.layout.ranks_per_node);
        let leaders = self.leaders;
        let (began, before) = (Instant::now(), self.phases.len());
        // Taken out while it works, so that the phase between nodes may use the rest of `self`.
        let mut inside = std::mem::replace(&mut self.inside, Inside::Alone);
        let result = match &mut inside {
            Inside::Alone => {
                values::scale(all, scale);
                self.reduce_between(all)
            }
            Inside::Shared {
                window,
                half,
                second_half,
                ways,
            } => {
                let base = usize::from(*second_half) * *half;
                *second_half = !*second_half;
                let shared = Shared {
                    window: &mut **window,
                    base,
                    leaders,
                    way: ways.next(all.len()),
                };
                let busy = shared.reduce(all, local, |sums| {
                    values::scale(sums, scale);
                    self.reduce_between(sums)
                });
                busy.map(|busy| ways.passed(all.len(), busy))
            }
            Inside::Library(library) => {
                let parts = self.parts(all.len());
                library.sum(all, &parts, &mut |sums| {
                    values::scale(sums, scale);
                    self.reduce_between(sums)
                })
            }
            Inside::Ring { node, lane } => {
                let shards = Shards {
                    node: &mut **node,
                    ranks,
                    leaders,
                };
                shards.reduce(all, lane, |sums| {
                    values::scale(sums, scale);
                    self.reduce_between(sums)
                })
            }
        };
        self.inside = inside;
        if ranks > 1 {
            self.note_inside(began, before);
        }
        result
    }

    /// Records what a piece took before and after its phase between nodes as phases inside nodes. `before` is the
    /// number of phases that were recorded when the piece began.
    fn note_inside(&mut self, began: Instant, before: usize) {
        let ended = Instant::now();
        let name = INSIDE;
        match self.phases.get(before).copied() {
            Some(between) => {
                let (first, last) = (between.from, between.to);
                let phase = |from, to| Phase { name, from, to };
                self.phases.insert(before, phase(began, first));
                self.phases.push(phase(last, ended));
            }
            None => self.phases.push(Phase {
                name,
                from: began,
                to: ended,
            }),
        }
    }
}

/// The names of phases.
const INSIDE: &str = "inside nodes";
const BETWEEN: &str = "between nodes";

/// Values in one piece on this many nodes.
fn at_once(options: &HierarchicalOptions, nodes: usize) -> usize {
    match nodes {
        1 => options.values_at_once.min(options.values_in_cache),
        _ => options.values_at_once,
    }
}

impl AllReduce for Hierarchical {
    fn take_phases(&mut self) -> Vec<Phase> {
        std::mem::take(&mut self.phases)
    }

    fn all_reduce(&mut self, values: &mut [f32], scale: f32) -> Result<()> {
        self.phases.clear();
        let at_once = at_once(&self.options, self.layout.nodes);
        for piece in values.chunks_mut(at_once) {
            self.reduce_piece(piece, scale)?;
        }
        Ok(())
    }

    fn takes_lent(&self) -> bool {
        matches!(&self.inside, Inside::Library(library) if library.takes_lent())
    }

    fn all_reduce_lent(&mut self, values: &Lent) -> Result<()> {
        // Taken out while it works, so that the phase between nodes may use the rest of `self`.
        let mut inside = std::mem::replace(&mut self.inside, Inside::Alone);
        let result = match &mut inside {
            Inside::Library(library) if self.layout.nodes == 1 => library.sum_lent(values, None),
            Inside::Library(library) => {
                let parts = self.parts(values.len());
                let mut between = |sums: &mut [f32]| self.reduce_between(sums);
                library.sum_lent(values, Some((&parts, &mut between)))
            }
            _ => Err(CommError::lent_to_the_host(values.len())),
        };
        self.inside = inside;
        result
    }

    fn settle(&mut self) -> Result<()> {
        match &mut self.inside {
            Inside::Library(library) => library.settle(),
            _ => Ok(()),
        }
    }

    fn bytes_sent(&self) -> u64 {
        self.lane.bytes_sent()
    }

    fn describe(&self) -> String {
        let inside = match &self.inside {
            Inside::Alone => "one rank",
            Inside::Shared { .. } => "shared memory",
            Inside::Ring { .. } => "rings",
            Inside::Library(library) => library.name(),
        };
        format!(
            "hierarchical: {} nodes with {} ranks, {inside} inside, {} leaders, {} and {} between",
            self.layout.nodes,
            self.layout.ranks_per_node,
            self.leaders,
            self.options.between.name(),
            self.options.wire.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads;

    /// A single node needs a sixteenth of the memory that several need; a container's /dev/shm may not hold more.
    #[test]
    fn windows_are_as_large_as_the_number_of_nodes_needs() {
        let options = HierarchicalOptions::default();
        assert_eq!(at_once(&options, 1), options.values_in_cache);
        assert_eq!(at_once(&options, 2), options.values_at_once);
        let halves = |ranks: Vec<threads::Threads>| {
            threads::run(ranks, |mut comm| {
                let engine = Hierarchical::new(&mut comm, &HierarchicalOptions::default());
                match engine.unwrap().inside {
                    Inside::Shared { half, .. } => half,
                    _ => 0,
                }
            })
        };
        assert_eq!(halves(threads::ranks(2)), [options.values_in_cache; 2]);
        assert_eq!(halves(threads::nodes(&[2, 2])), [options.values_at_once; 4]);
    }

    #[test]
    fn a_sum_tells_its_phases_in_order() {
        let phases = |ranks: Vec<threads::Threads>, options: &HierarchicalOptions| {
            threads::run(ranks, |mut comm| {
                let mut engine = Hierarchical::new(&mut comm, options).unwrap();
                for _ in 0..2 {
                    engine.all_reduce(&mut [1.0; 5], 1.0).unwrap();
                }
                let phases = engine.take_phases();
                assert!(phases.is_sorted_by_key(|phase| phase.from));
                assert!(phases.windows(2).all(|two| two[0].to <= two[1].from));
                assert!(engine.take_phases().is_empty());
                phases.iter().map(|phase| phase.name).collect::<Vec<_>>()
            })
        };
        let two_at_once = HierarchicalOptions {
            leaders: Some(1),
            values_at_once: 3,
            ..HierarchicalOptions::default()
        };
        let found = phases(threads::nodes(&[2, 2]), &two_at_once);
        let piece = [INSIDE, BETWEEN, INSIDE];
        assert_eq!(found[0], [piece, piece].concat());
        assert_eq!(found[1], [INSIDE, INSIDE]);
        let all = HierarchicalOptions::default();
        assert_eq!(phases(threads::nodes(&[1, 1]), &all)[0], [BETWEEN]);
        assert_eq!(phases(threads::ranks(2), &all)[1], [INSIDE]);
    }
}
