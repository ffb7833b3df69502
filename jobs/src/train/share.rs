//! Which training samples a rank shares with which other ranks.

use super::team::Team;
use crate::error::{JobError, Result};
use squall_data::store::Split;
use squall_data::{Store, staging};
use xxhash_rust::xxh3::xxh3_64;

/// The position of a rank among several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RankPosition {
    /// The rank's index, from 0.
    pub rank: usize,
    /// The number of ranks.
    pub ranks: usize,
}

impl RankPosition {
    /// A single rank.
    pub const ALONE: Self = Self { rank: 0, ranks: 1 };
}

/// The training samples that a rank shares with others, and its position among them.
pub(super) struct Share {
    pub ids: Vec<usize>,
    /// Seed of the order of these samples; nodes that hold different samples have different seeds.
    pub shuffle_seed: u64,
    pub place: RankPosition,
    /// This rank's position among the ranks of a step, some of which may have other samples.
    pub step_place: RankPosition,
    /// Whether this rank logs warnings about recipe and store, on behalf of all ranks of the job.
    pub warns: bool,
    /// A hash of which node holds which samples. It decides the sample order besides the seed, so a resumed run must
    /// have the same one.
    pub deal: String,
}

impl Share {
    /// Shares all samples among the ranks of every group; this rank is in one of the groups. All ranks of a team call
    /// it.
    pub(super) fn in_groups(
        store: &Store,
        seed: u64,
        place: RankPosition,
        team: &mut Team,
    ) -> Result<Self> {
        if team.any(store.is_partial())? {
            let reason = "`distributed.groups`: every group learns from all samples, but the local copies of the store hold a part of \
                          them; stage without --per-node";
            return Err(JobError::recipe(reason.into()));
        }
        Ok(Self {
            ids: store.ids(Split::Train),
            shuffle_seed: seed,
            place,
            step_place: place,
            warns: team.is_first(),
            deal: String::new(),
        })
    }

    /// Shares all samples among all ranks; if stores are partial local copies, those of each node among its ranks.
    pub(super) fn agree(store: &Store, seed: u64, team: &mut Team) -> Result<Self> {
        let ids = store.ids(Split::Train);
        let step_place = team.place();
        if !team.any(store.is_partial())? {
            return Ok(Self {
                ids,
                shuffle_seed: seed,
                place: step_place,
                step_place,
                warns: team.is_first(),
                deal: String::new(),
            });
        }
        let place = team.place_on_node()?;
        let here: Vec<usize> = ids.iter().copied().filter(|&id| store.holds(id)).collect();
        let mut nodes_with: Vec<u64> = (ids.iter())
            .map(|&id| u64::from(place.rank == 0 && store.holds(id)))
            .collect();
        team.sum_counts(&mut nodes_with)?;
        if team.is_first() {
            let nowhere = nodes_with.iter().filter(|&&nodes| nodes == 0).count();
            tracing::info!(
                "every node learns from samples of its own, the first from {} of {}",
                here.len(),
                ids.len()
            );
            if nowhere > 0 {
                tracing::warn!(
                    "{nowhere} of {} training samples are on no node of this job: nothing is learnt from them",
                    ids.len()
                );
            }
        }
        let (shuffle_seed, fingerprint) = staging::shuffle_seed(seed, &here);
        // Only the first rank of a node counts: the samples of a node's step do not depend on how many ranks share
        // them, as long as the node has the same share of all ranks.
        let part = match place.rank {
            0 => (place.ranks as f64 / step_place.ranks as f64).to_bits(),
            _ => 0,
        };
        let all = team.gather(bytemuck::bytes_of(&[fingerprint, part]))?;
        let all: Vec<[u64; 2]> = bytemuck::pod_collect_to_vec(&all);
        let firsts = all.into_iter().filter(|[_, part]| *part != 0);
        let (mut nodes, parts): (Vec<u64>, Vec<u64>) = firsts.map(<(u64, u64)>::from).unzip();
        if parts.windows(2).any(|pair| pair[0] != pair[1]) {
            nodes.extend(parts);
        }
        Ok(Self {
            ids: here,
            shuffle_seed,
            place,
            step_place,
            warns: team.is_first(),
            deal: format!("{:016x}", xxh3_64(bytemuck::cast_slice(&nodes))),
        })
    }
}
