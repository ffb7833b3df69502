//! The roles of ranks, and the layers of each server: pure functions of a few numbers.

use crate::recipe::ranks_per_group;
use squall_model::Parameters;
use std::ops::Range;

/// The division of ranks: servers first, then groups of consecutive ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Groups that train asynchronously.
    pub groups: usize,
    /// Ranks that hold parameters.
    pub servers: usize,
    /// Ranks per group.
    pub ranks_per_group: usize,
}

/// The role of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It holds a part of the parameters; the first server also writes the run's files.
    Server(usize),
    /// It computes gradients.
    Worker {
        /// The group, counted from 0.
        group: usize,
        /// The rank in its group; the first is the leader.
        rank: usize,
    },
}

impl Layout {
    /// The layout of this many ranks.
    ///
    /// # Errors
    /// Key, expected and found, if no ranks are left to compute or they do not divide evenly.
    pub fn of(world: usize, groups: usize, servers: usize) -> Result<Self, String> {
        Ok(Self {
            groups,
            servers,
            ranks_per_group: ranks_per_group(world, groups, servers)?,
        })
    }

    /// The rank that leads a group.
    pub fn leader(&self, group: usize) -> usize {
        self.servers + group * self.ranks_per_group
    }

    /// The role of a rank of the world.
    pub fn role(&self, rank: usize) -> Role {
        match rank.checked_sub(self.servers) {
            None => Role::Server(rank),
            Some(worker) => Role::Worker {
                group: worker / self.ranks_per_group,
                rank: worker % self.ranks_per_group,
            },
        }
    }
}

/// The ranges of a network's layers in the flat order of its parameters: tensors whose names differ only after the last
/// dot, such as kernel and bias, form one layer.
pub fn layers(parameters: &Parameters) -> Vec<Range<usize>> {
    let layer = |name: &str| name.rsplit_once('.').map_or(name, |(layer, _)| layer).len();
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut last = String::new();
    for parameter in parameters.iter() {
        let name = &parameter.name[..layer(&parameter.name)];
        match found.last_mut() {
            Some(range) if last == name => range.end = parameter.range.end,
            _ => found.push(parameter.range.clone()),
        }
        last = name.to_string();
    }
    found
}

/// Assigns whole layers to servers, largest first to the one with the fewest values, so that all have about equally
/// many. Adjacent layers of a server form one range.
///
/// # Errors
/// Key, expected and found, if there are more servers than layers.
pub fn deal(layers: &[Range<usize>], servers: usize) -> Result<Vec<Vec<Range<usize>>>, String> {
    if servers == 0 || servers > layers.len() {
        return Err(format!(
            "`distributed.servers`: expected 1 to {} for a network with as many layers, found {servers}",
            layers.len()
        ));
    }
    let mut by_size: Vec<&Range<usize>> = layers.iter().collect();
    by_size.sort_by_key(|range| (usize::MAX - range.len(), range.start));
    let mut held = vec![0usize; servers];
    let mut dealt = vec![Vec::new(); servers];
    for range in by_size {
        let least = (0..servers).min_by_key(|&server| (held[server], server));
        let least = least.unwrap_or(0);
        held[least] += range.len();
        dealt[least].push(range.clone());
    }
    Ok(dealt.into_iter().map(merged).collect())
}

/// Sorted ranges, with adjacent ones merged.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// Appends the values in these ranges to `into`.
pub(super) fn gather(ranges: &[Range<usize>], from: &[f32], into: &mut Vec<f32>) {
    ranges
        .iter()
        .for_each(|range| into.extend_from_slice(&from[range.clone()]));
}

/// Distributes consecutive values to these ranges.
pub(super) fn scatter(ranges: &[Range<usize>], from: &[f32], into: &mut [f32]) {
    let mut left = from;
    for range in ranges {
        let (values, others) = left.split_at(range.len());
        into[range.clone()].copy_from_slice(values);
        left = others;
    }
}

/// Number of values in these ranges.
pub(super) fn count(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(Range::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn servers_come_first_then_groups_of_neighbours() {
        let layout = Layout::of(6, 2, 2).unwrap();
        let roles: Vec<Role> = (0..6).map(|rank| layout.role(rank)).collect();
        let worker = |group, rank| Role::Worker { group, rank };
        assert_eq!(
            roles,
            [
                Role::Server(0),
                Role::Server(1),
                worker(0, 0),
                worker(0, 1),
                worker(1, 0),
                worker(1, 1)
            ]
        );
        for (world, groups, servers) in [(4, 2, 1), (2, 1, 2), (1, 1, 1), (3, 0, 1)] {
            let error = Layout::of(world, groups, servers).unwrap_err();
            assert!(error.contains(&format!("found {world} ranks")), "{error}");
        }
    }

    #[test]
    fn large_layers_go_first_and_loads_are_even() {
        let layers = [0..10, 10..100, 100..150, 150..190];
        let dealt = deal(&layers, 2).unwrap();
        // 90 | 50 + 40, and the 10 to the first.
        assert_eq!(dealt.len(), 2);
        assert_eq!(dealt.concat(), [0..100, 100..190]);
        let alone = deal(&layers, 1).unwrap().concat();
        assert_eq!((alone.len(), alone[0].clone()), (1, 0..190));
        assert!(deal(&layers, 5).unwrap_err().contains("1 to 4"));
    }

    #[test]
    fn kernel_and_bias_are_one_layer() {
        use squall_model::{Backend, Network, NetworkConfig};
        let config = NetworkConfig {
            width: 0.05,
            blocks: vec![1, 1],
            atrous_rates: vec![2],
            ..NetworkConfig::default()
        };
        let network = Network::build(&config, Backend::best(), 1).unwrap();
        let parameters = network.parameters();
        let layers = layers(parameters);
        assert!(layers.len() < parameters.iter().len());
        assert_eq!(
            layers.iter().map(Range::len).sum::<usize>(),
            parameters.count()
        );
        assert!(layers.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    proptest! {
        /// Every value has one owner, and no server has more than the mean and one layer.
        #[test]
        fn all_layers_are_dealt_once(
            sizes in proptest::collection::vec(1usize..1000, 1..40),
            servers in 1usize..8,
        ) {
            prop_assume!(servers <= sizes.len());
            let mut end = 0;
            let layers: Vec<Range<usize>> = sizes.iter().map(|size| {
                end += size;
                end - size..end
            }).collect();
            let dealt = deal(&layers, servers).unwrap();
            let mut owners = vec![0; end];
            dealt.iter().flatten().flat_map(Clone::clone).for_each(|at| owners[at] += 1);
            prop_assert!(owners.iter().all(|&owners| owners == 1));
            let largest = *sizes.iter().max().unwrap();
            for ranges in &dealt {
                prop_assert!(!ranges.is_empty() && count(ranges) <= end / servers + largest);
                let values: Vec<f32> = (0..end).map(|at| at as f32).collect();
                let (mut part, mut back) = (Vec::new(), vec![-1.0; end]);
                gather(ranges, &values, &mut part);
                scatter(ranges, &part, &mut back);
                let kept = back.iter().zip(&values).filter(|(back, value)| back == value);
                prop_assert_eq!(kept.count(), count(ranges));
            }
        }
    }
}
