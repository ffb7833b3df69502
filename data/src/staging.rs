//! Plans the distribution of a sample store to the disks of all nodes: which rank holds, reads and forwards which
//! sample. Pure functions, identical on every rank.
//!
//! [`crate::store::LocalCopy`] writes a node's samples; the transfer between ranks is implemented above this crate.
//!
//! # Source
//! Kurth et al. 2018 (arXiv:1810.01993), section V-A1: every file is read once, and sent to the other nodes that need
//! it.

use crate::error::{DataError, Result};
use crate::random::stream;
use rand::seq::SliceRandom;
use xxhash_rust::xxh3::xxh3_64;

/// What a node must hold besides the validation and test samples, which all nodes hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// All training samples.
    Whole,
    /// This many, dealt at random so that over all nodes each sample is held equally often, give or take one.
    Training {
        /// Training samples per node.
        per_node: usize,
        /// Seed of the random deal.
        seed: u64,
    },
}

/// The samples that each node must hold, ascending.
///
/// # Errors
/// [`DataError::NodeShare`] if nodes would hold no samples, more than exist, or if some sample would be on no node.
pub fn wanted(
    training: &[usize],
    others: &[usize],
    nodes: usize,
    share: Share,
) -> Result<Vec<Vec<usize>>> {
    let Share::Training { per_node, seed } = share else {
        let all = sorted(training.iter().chain(others));
        return Ok(vec![all; nodes]);
    };
    let samples = training.len();
    if per_node == 0 || per_node > samples || per_node.saturating_mul(nodes) < samples {
        return Err(DataError::NodeShare {
            per_node,
            nodes,
            samples,
        });
    }
    let mut order = training.to_vec();
    order.shuffle(&mut stream(seed, "staging", &[]));
    let of_node = |node: usize| {
        let places = (0..per_node).map(|place| (node * per_node + place) % samples);
        let mine: Vec<usize> = places.map(|place| order[place]).collect();
        sorted(mine.iter().chain(others))
    };
    Ok((0..nodes).map(of_node).collect())
}

/// The seed with which a node shuffles its samples, and a fingerprint of these.
///
/// Nodes must not share a seed: with equally many samples they would draw the same list positions in every step, so
/// that any two samples would share a batch either always or never.
pub fn shuffle_seed(seed: u64, held: &[usize]) -> (u64, u64) {
    let bytes: Vec<u8> = held.iter().flat_map(|id| id.to_le_bytes()).collect();
    let fingerprint = xxh3_64(&bytes);
    (seed ^ fingerprint, fingerprint)
}

fn sorted<'a>(ids: impl Iterator<Item = &'a usize>) -> Vec<usize> {
    let mut ids: Vec<usize> = ids.copied().collect();
    ids.sort_unstable();
    ids
}

/// The transfer of one sample: the first rank reads it, and all of them keep it, each on a different node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The id of the sample.
    pub sample: usize,
    /// The ranks that keep it.
    pub ranks: Vec<usize>,
}

impl Transfer {
    /// The rank from which a rank receives the sample (`None`: the shared file system), and those to which it forwards
    /// it; `None` for a rank that is not involved.
    ///
    /// Ranks form a binomial tree, so that with a thousand nodes a sample takes at most ten hops from its reader.
    pub fn family(&self, rank: usize) -> Option<(Option<usize>, Vec<usize>)> {
        let place = self.ranks.iter().position(|&r| r == rank)?;
        let parent = (place > 0).then(|| place & (place - 1));
        let reach = match place {
            0 => self.ranks.len().next_power_of_two(),
            _ => 1 << place.trailing_zeros(),
        };
        let distances = std::iter::successors(Some(reach / 2), |d| Some(d / 2));
        let children = distances.take_while(|&d| d > 0).map(|d| place + d);
        let children = children.filter_map(|child| self.ranks.get(child).copied());
        Some((parent.map(|parent| self.ranks[parent]), children.collect()))
    }
}

/// Plans the transfers of all missing samples, in an order that all ranks follow: a rank that processes its transfers
/// one after the other cannot deadlock.
///
/// Every sample is read once, by the node that has read least so far among those that need it; on each node its ranks
/// take turns.
///
/// `missing` lists the samples that each node needs and lacks, ascending; `ranks` lists the ranks on each node.
pub fn transfers(missing: &[Vec<usize>], ranks: &[Vec<usize>]) -> Vec<Transfer> {
    let mut wanting: Vec<(usize, usize)> = (missing.iter().enumerate())
        .flat_map(|(node, ids)| ids.iter().map(move |&id| (id, node)))
        .collect();
    wanting.sort_unstable();
    let (mut reads, mut turns) = (vec![0usize; ranks.len()], vec![0usize; ranks.len()]);
    let of_sample = |group: &[(usize, usize)]| {
        let mut nodes: Vec<usize> = group.iter().map(|&(_, node)| node).collect();
        // The node that has read least comes first; the tree below it is rotated each time, so that all forward equally
        // much.
        let reader = (0..nodes.len()).min_by_key(|&at| (reads[nodes[at]], nodes[at]));
        nodes.rotate_left(reader.unwrap_or(0));
        reads[nodes[0]] += 1;
        let ranks = nodes.iter().map(|&node| {
            let turn = turns[node];
            turns[node] += 1;
            ranks[node][turn % ranks[node].len()]
        });
        Transfer {
            sample: group[0].0,
            ranks: ranks.collect(),
        }
    };
    wanting.chunk_by(|a, b| a.0 == b.0).map(of_sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{LastBatch, Sampler, SamplerConfig};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_whole_copy_is_everything_everywhere() {
        let all = wanted(&[3, 1], &[2], 2, Share::Whole).unwrap();
        assert_eq!(all, [vec![1, 2, 3], vec![1, 2, 3]]);
    }

    #[test]
    fn shares_that_lose_samples_are_refused() {
        for (per_node, nodes) in [(0, 4), (11, 4), (2, 4)] {
            let share = Share::Training { per_node, seed: 1 };
            let error = wanted(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[], nodes, share).unwrap_err();
            assert!(error.to_string().contains("of 10 in all"), "{error}");
        }
    }

    #[test]
    fn nodes_draw_their_samples_in_orders_of_their_own() {
        let held = wanted(
            &(0..40).collect::<Vec<_>>(),
            &[],
            2,
            Share::Training {
                per_node: 20,
                seed: 3,
            },
        )
        .unwrap();
        let places = |node: usize| -> Vec<usize> {
            let ids = &held[node];
            let config = SamplerConfig {
                shuffle: Some(shuffle_seed(7, ids).0),
                rank: 0,
                ranks: 1,
                batch: 1,
                last: LastBatch::Drop,
            };
            let sampler = Sampler::new(ids.clone(), config).unwrap();
            let drawn = sampler
                .endless(sampler.cursor(0))
                .take(20)
                .flat_map(|plan| plan.ids);
            drawn.map(|id| ids.binary_search(&id).unwrap()).collect()
        };
        let (first, second) = (places(0), places(1));
        let together = first.iter().zip(&second).filter(|(a, b)| a == b).count();
        assert!(
            together < 8,
            "{together} of 20 draws at the same place of both lists"
        );
        assert_eq!(first, places(0));
    }

    proptest! {
        #[test]
        fn every_sample_is_held_equally_often(
            samples in 1usize..60, others in 0usize..9, nodes in 1usize..12, spare in 0usize..40, seed in 0u64..9,
        ) {
            let per_node = (samples.div_ceil(nodes) + spare).min(samples);
            let training: Vec<usize> = (0..samples).map(|i| 2 * i).collect();
            let others: Vec<usize> = (0..others).map(|i| 2 * i + 1).collect();
            let held = wanted(&training, &others, nodes, Share::Training { per_node, seed }).unwrap();
            let mut times: BTreeMap<usize, usize> = BTreeMap::new();
            for node in &held {
                prop_assert!(node.is_sorted());
                prop_assert_eq!(node.iter().collect::<BTreeSet<_>>().len(), per_node + others.len());
                prop_assert!(others.iter().all(|id| node.contains(id)));
                node.iter().filter(|&id| id % 2 == 0).for_each(|&id| *times.entry(id).or_default() += 1);
            }
            prop_assert_eq!(times.len(), samples);
            let (least, most) = (times.values().min().unwrap(), times.values().max().unwrap());
            prop_assert!(most - least <= 1);
        }

        /// Played through by ranks that block until their parent has the sample: all end, everybody has what it wants.
        #[test]
        fn transfers_bring_every_sample_to_everybody_and_end(
            sizes in prop::collection::vec(1usize..4, 1..7), wishes in prop::collection::vec(any::<u8>(), 1..40),
        ) {
            let mut next = 0;
            let ranks: Vec<Vec<usize>> = sizes.iter().map(|&n| { next += n; (next - n..next).collect() }).collect();
            let missing: Vec<Vec<usize>> = (0..ranks.len())
                .map(|node| (0..wishes.len()).filter(|&id| wishes[id] >> node & 1 == 1).collect())
                .collect();
            let plan = transfers(&missing, &ranks);
            prop_assert_eq!(&plan, &transfers(&missing, &ranks));
            let node_of = |rank: usize| ranks.iter().position(|r| r.contains(&rank)).unwrap();
            let mut reads = vec![0; ranks.len()];
            let mut got: Vec<Vec<usize>> = vec![Vec::new(); ranks.len()];
            for transfer in &plan {
                reads[node_of(transfer.ranks[0])] += 1;
                let mut parents = BTreeMap::new();
                for &rank in &transfer.ranks {
                    got[node_of(rank)].push(transfer.sample);
                    let (parent, children) = transfer.family(rank).unwrap();
                    prop_assert_eq!(parent.is_none(), rank == transfer.ranks[0]);
                    for child in children {
                        prop_assert!(parents.insert(child, rank).is_none());
                    }
                    if let Some(parent) = parent {
                        prop_assert_eq!(parents.get(&rank), Some(&parent));
                    }
                }
            }
            prop_assert_eq!(&got, &missing);
            // Read once each, by the node with the fewest reads among those that want it.
            prop_assert_eq!(reads.iter().sum::<usize>(), plan.len());
            let everywhere = wishes.iter().all(|w| (0..ranks.len()).all(|node| w >> node & 1 == 1));
            if everywhere {
                prop_assert!(reads.iter().max().unwrap() - reads.iter().min().unwrap() <= 1);
            }
        }
    }
}
