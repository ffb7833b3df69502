//! Resampling weights of blocks of years.

use rand::Rng;
use rand::seq::SliceRandom;
use squall_data::random::stream;

/// The number of times each block occurs in each resample.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    blocks: usize,
    draws: usize,
    /// Ordered by block, then draw, for sums over blocks.
    by_block: Vec<f32>,
    /// Ordered by draw, then block, for passes over sorted values.
    by_draw: Vec<u16>,
}

impl Weights {
    /// Every block once: the original sample.
    pub(crate) fn once(blocks: usize) -> Self {
        Self::of(blocks, 1, vec![1; blocks])
    }

    /// Jackknife: the sample without one block, for each block in turn.
    pub(crate) fn each_left_out(blocks: usize) -> Self {
        let mut by_draw = vec![1; blocks * blocks];
        (0..blocks).for_each(|k| by_draw[k * blocks + k] = 0);
        Self::of(blocks, blocks, by_draw)
    }

    /// Bootstrap: as many blocks as in the sample, drawn with replacement; `side` selects the random stream.
    pub(crate) fn bootstrap(blocks: usize, draws: usize, seed: u64, side: u64) -> Self {
        let mut random = stream(seed, "compare bootstrap", &[side]);
        let mut by_draw = vec![0u16; blocks * draws];
        for draw in by_draw.chunks_exact_mut(blocks.max(1)) {
            for _ in 0..blocks {
                draw[random.random_range(0..blocks)] += 1;
            }
        }
        Self::of(blocks, draws, by_draw)
    }

    /// Permutation: the blocks of both sides, randomly reassigned. Returns the first side and the rest.
    pub(crate) fn permutation((a, b): (usize, usize), draws: usize, seed: u64) -> [Self; 2] {
        let mut random = stream(seed, "compare permutation", &[]);
        let all = a + b;
        let mut first = vec![0u16; all * draws];
        let mut order: Vec<usize> = (0..all).collect();
        for draw in first.chunks_exact_mut(all.max(1)) {
            let (chosen, _) = order.partial_shuffle(&mut random, a);
            chosen.iter().for_each(|&k| draw[k] = 1);
        }
        let rest = first.iter().map(|w| 1 - w).collect();
        [Self::of(all, draws, first), Self::of(all, draws, rest)]
    }

    /// Permutation of pairs of blocks, randomly swapped within each pair. Returns the first side and the rest. The
    /// blocks of both sides are concatenated, as in [`Self::permutation`].
    pub(crate) fn swapped(pairs: usize, draws: usize, seed: u64) -> [Self; 2] {
        let mut random = stream(seed, "compare pairs", &[]);
        let mut first = vec![0u16; 2 * pairs * draws];
        for draw in first.chunks_exact_mut((2 * pairs).max(1)) {
            for pair in 0..pairs {
                let other = random.random_bool(0.5);
                draw[pair + if other { pairs } else { 0 }] = 1;
            }
        }
        let rest = first.iter().map(|w| 1 - w).collect();
        [
            Self::of(2 * pairs, draws, first),
            Self::of(2 * pairs, draws, rest),
        ]
    }

    fn of(blocks: usize, draws: usize, by_draw: Vec<u16>) -> Self {
        let by_block = (0..blocks)
            .flat_map(|k| {
                by_draw
                    .iter()
                    .skip(k)
                    .step_by(blocks)
                    .map(|&w| f32::from(w))
            })
            .collect();
        Self {
            blocks,
            draws,
            by_block,
            by_draw,
        }
    }

    /// Number of draws.
    pub(crate) fn draws(&self) -> usize {
        self.draws
    }

    /// The weight of each block in one resample.
    pub(crate) fn draw(&self, index: usize) -> &[u16] {
        &self.by_draw[index * self.blocks..][..self.blocks]
    }

    /// For each draw, computes the weighted sum of values over the blocks into `sums`.
    pub(crate) fn sums_into(&self, values: &[f64], sums: &mut Vec<f64>) {
        debug_assert_eq!(values.len(), self.blocks);
        sums.clear();
        sums.resize(self.draws, 0.0);
        for (value, weights) in values
            .iter()
            .zip(self.by_block.chunks_exact(self.draws.max(1)))
        {
            // Most map cells are empty.
            if *value != 0.0 {
                (sums.iter_mut().zip(weights)).for_each(|(sum, w)| *sum += f64::from(*w) * value);
            }
        }
    }

    /// Like [`Self::sums_into`], but returns a new vector.
    pub(crate) fn sums(&self, values: &[f64]) -> Vec<f64> {
        let mut sums = Vec::new();
        self.sums_into(values, &mut sums);
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn draws_have_as_many_blocks_as_the_sample() {
        let drawn = Weights::bootstrap(7, 50, 3, 0);
        assert!(drawn.sums(&[1.0; 7]).iter().all(|sum| *sum == 7.0));
        assert_eq!(drawn.draw(4), Weights::bootstrap(7, 50, 3, 0).draw(4));
        let other = Weights::bootstrap(7, 50, 3, 1);
        assert!((0..50).any(|k| drawn.draw(k) != other.draw(k)));
        let [first, rest] = Weights::permutation((3, 5), 40, 3);
        assert!(first.sums(&[1.0; 8]).iter().all(|sum| *sum == 3.0));
        assert!(rest.sums(&[1.0; 8]).iter().all(|sum| *sum == 5.0));
        assert_eq!(
            Weights::each_left_out(3).sums(&[1.0, 10.0, 100.0]),
            [110.0, 101.0, 11.0]
        );
        assert!(
            Weights::bootstrap(0, 5, 1, 0)
                .sums(&[])
                .iter()
                .all(|sum| *sum == 0.0)
        );
    }

    #[test]
    fn of_each_pair_one_block_is_dealt_to_each_side() {
        let [first, rest] = Weights::swapped(4, 600, 3);
        let (mut stayed, mut ways) = (0, BTreeSet::new());
        for draw in 0..600 {
            let (a, b) = (first.draw(draw), rest.draw(draw));
            for pair in 0..4 {
                assert_eq!((a[pair] + a[pair + 4], b[pair] + b[pair + 4]), (1, 1));
                assert_eq!(a[pair] + b[pair], 1);
                stayed += usize::from(a[pair]);
            }
            ways.insert(a.to_vec());
        }
        // Half of 2400, with a standard error of 24.5; all 16 combinations.
        assert!((1100..1300).contains(&stayed), "{stayed}");
        assert_eq!(ways.len(), 16);
        assert!(
            Weights::swapped(0, 5, 1)[0]
                .sums(&[])
                .iter()
                .all(|sum| *sum == 0.0)
        );
    }

    #[test]
    fn every_block_is_dealt_to_each_side_equally_often() {
        let [first, _] = Weights::permutation((2, 6), 8000, 11);
        for block in 0..8 {
            let mut one = [0.0; 8];
            one[block] = 1.0;
            let share = first.sums(&one).iter().sum::<f64>() / 8000.0;
            // Standard error 0.005.
            assert!((share - 0.25).abs() < 0.02, "{block}: {share}");
        }
    }
}
