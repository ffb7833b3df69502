//! Which ranks live together: nodes, agreed on by all ranks.

use super::collectives::tree;
use super::{CommError, Communicator, Result};
use std::collections::BTreeMap;

/// Nodes with the same number of ranks each, and this rank's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// How many nodes there are.
    pub nodes: usize,
    /// Ranks on each of them.
    pub ranks_per_node: usize,
    /// This rank among those of its node.
    pub local_rank: usize,
    /// The lowest rank of this rank's node: nodes are ordered by it.
    pub lowest_rank: usize,
}

impl Layout {
    /// The layout of all ranks of `comm`, where `node` are those that live with this one.
    ///
    /// # Errors
    /// [`CommError::Layout`] on all ranks, with the counts, if nodes have unequal numbers of ranks; those of the backend.
    pub fn agree(comm: &mut dyn Communicator, node: &mut dyn Communicator) -> Result<Self> {
        let mut lowest = (comm.rank() as u64).to_le_bytes();
        tree::broadcast(node, &mut lowest, 0)?;
        let all = tree::all_gather(comm, &lowest)?;
        let mut ranks_of: BTreeMap<u64, usize> = BTreeMap::new();
        for lowest in all.as_chunks::<8>().0 {
            *ranks_of.entry(u64::from_le_bytes(*lowest)).or_default() += 1;
        }
        let layout = Self {
            nodes: ranks_of.len(),
            ranks_per_node: node.size(),
            local_rank: node.rank(),
            lowest_rank: u64::from_le_bytes(lowest) as usize,
        };
        let mut nodes_with: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (&lowest, &ranks) in &ranks_of {
            nodes_with.entry(ranks).or_default().push(lowest);
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
