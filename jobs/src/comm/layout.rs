//! Placement of ranks on nodes, agreed on by all ranks.

use super::collectives::tree;
use super::{CommError, Communicator, Result};
use std::collections::BTreeMap;

/// The nodes of a job and their ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// The ranks of every node, each in order; nodes are ordered by their lowest ranks.
    pub ranks: Vec<Vec<usize>>,
    /// This rank's node.
    pub mine: usize,
}

impl Nodes {
    /// Determines the nodes of all ranks of `comm`; `node` is the communicator of this node's ranks. All ranks call it.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn agree(comm: &mut dyn Communicator, node: &mut dyn Communicator) -> Result<Self> {
        let mut lowest = (comm.rank() as u64).to_le_bytes();
        tree::broadcast(node, &mut lowest, 0)?;
        let all = tree::all_gather(comm, &lowest)?;
        let mut ranks_of: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (rank, lowest) in all.as_chunks::<8>().0.iter().enumerate() {
            let ranks = ranks_of.entry(u64::from_le_bytes(*lowest)).or_default();
            ranks.push(rank);
        }
        let ranks: Vec<Vec<usize>> = ranks_of.into_values().collect();
        let here = |ranks: &Vec<usize>| ranks.contains(&comm.rank());
        let mine = ranks.iter().position(here).unwrap_or(0);
        Ok(Self { ranks, mine })
    }
}

/// Nodes with equal numbers of ranks, and this rank's position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The number of nodes.
    pub nodes: usize,
    /// Ranks per node.
    pub ranks_per_node: usize,
    /// This rank's index on its node.
    pub local_rank: usize,
    /// The lowest rank of this rank's node; nodes are ordered by it.
    pub lowest_rank: usize,
}

impl Layout {
    /// Determines the layout of all ranks of `comm`; `node` is the communicator of this node's ranks.
    ///
    /// # Errors
    /// [`CommError::Layout`] on all ranks, with the counts, if nodes have unequal numbers of ranks; those of the
    /// backend.
    pub fn agree(comm: &mut dyn Communicator, node: &mut dyn Communicator) -> Result<Self> {
        let nodes = Nodes::agree(comm, node)?;
        let layout = Self {
            nodes: nodes.ranks.len(),
            ranks_per_node: node.size(),
            local_rank: node.rank(),
            lowest_rank: nodes.ranks[nodes.mine][0],
        };
        let mut nodes_with: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for ranks in &nodes.ranks {
            nodes_with.entry(ranks.len()).or_default().push(ranks[0]);
        }
        if nodes_with.len() == 1 {
            return Ok(layout);
        }
        let counts: Vec<String> = nodes_with
            .iter()
            .map(|(ranks, nodes)| {
                format!("{} with {ranks} (that of rank {})", nodes.len(), nodes[0])
            })
            .collect();
        Err(CommError::Layout(format!(
            "nodes must have equal numbers of ranks, found {}",
            counts.join(", ")
        )))
    }
}
