//! One-to-one assignment of tracks to events with minimum total cost.
//!
//! The feasible pairs fall into small independent groups, since two cyclones an ocean apart share no candidate. Each
//! group is solved separately by the Hungarian method with shortest augmenting paths, or greedily (cheapest pair first)
//! if it has more than 400 tracks or events.
//! Source: Kuhn 1955, doi:10.1002/nav.3800020109; Jonker and Volgenant 1987, doi:10.1007/BF02278710.

use crate::events::components::Forest;

/// A feasible pair and its cost, which must be less than [`UNMATCHED`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair {
    /// Index of the track.
    pub track: usize,
    /// Index of the event.
    pub event: usize,
    /// Cost of joining them.
    pub cost: f64,
}

/// Cost of leaving a track without an event. Every feasible pair must cost less.
pub(crate) const UNMATCHED: f64 = 2.5;
/// Larger groups are assigned greedily, because the exact method is cubic. Realistic masks stay far below this size.
const EXACT_LIMIT: usize = 400;

/// Returns the event that continues each track. The total cost is minimal unless a group has more than [`EXACT_LIMIT`]
/// tracks or events. The result does not depend on the order of `pairs`; ties are broken deterministically.
pub(crate) fn assign(tracks: usize, events: usize, pairs: &[Pair]) -> Vec<Option<usize>> {
    let mut pairs = pairs.to_vec();
    pairs.sort_by_key(|a| (a.track, a.event));
    let mut result = vec![None; tracks];
    for group in groups(tracks, events, &pairs) {
        let mut rows: Vec<usize> = group.iter().map(|p| p.track).collect();
        let mut columns: Vec<usize> = group.iter().map(|p| p.event).collect();
        rows.dedup();
        columns.sort_unstable();
        columns.dedup();
        if rows.len().max(columns.len()) > EXACT_LIMIT {
            greedy(&group, events, &mut result);
            continue;
        }
        // One extra column per row, for leaving the row unmatched.
        let width = columns.len() + rows.len();
        let mut cost = vec![vec![UNMATCHED; width]; rows.len()];
        for line in &mut cost {
            line[..columns.len()].fill(f64::from(u16::MAX));
        }
        for pair in &group {
            let row = rows.partition_point(|&t| t < pair.track);
            let column = columns.partition_point(|&e| e < pair.event);
            cost[row][column] = pair.cost;
        }
        for (row, column) in hungarian(&cost).into_iter().enumerate() {
            result[rows[row]] = columns.get(column).copied();
        }
    }
    result
}

/// Splits the pairs into groups that share no track and no event.
fn groups(tracks: usize, events: usize, pairs: &[Pair]) -> Vec<Vec<Pair>> {
    let mut forest = Forest::default();
    forest.grow(tracks + events);
    for pair in pairs {
        forest.join(pair.track, tracks + pair.event);
    }
    let mut groups: Vec<Vec<Pair>> = Vec::new();
    let mut number = vec![usize::MAX; tracks + events];
    for pair in pairs {
        let root = forest.root(pair.track);
        if number[root] == usize::MAX {
            number[root] = groups.len();
            groups.push(Vec::new());
        }
        groups[number[root]].push(*pair);
    }
    groups
}

fn greedy(group: &[Pair], events: usize, result: &mut [Option<usize>]) {
    let mut order = group.to_vec();
    order.sort_by(|a, b| a.cost.total_cmp(&b.cost)); // stable: ties stay by track, then event
    let mut taken = vec![false; events];
    for pair in order {
        if result[pair.track].is_none() && !taken[pair.event] {
            result[pair.track] = Some(pair.event);
            taken[pair.event] = true;
        }
    }
}

/// The column assigned to each row at minimum total cost; there are at least as many columns as rows.
fn hungarian(cost: &[Vec<f64>]) -> Vec<usize> {
    let rows = cost.len();
    let columns = cost.first().map_or(0, Vec::len);
    // Column 0 means "free"; rows and columns count from 1.
    let mut row_potential = vec![0.0; rows + 1];
    let mut column_potential = vec![0.0; columns + 1];
    let mut row_of = vec![0; columns + 1];
    for row in 1..=rows {
        let mut way = vec![0; columns + 1];
        let mut slack = vec![f64::INFINITY; columns + 1];
        let mut visited = vec![false; columns + 1];
        let mut column = 0;
        row_of[0] = row;
        // Grow a tree of alternating paths until it reaches a free column.
        while row_of[column] != 0 {
            visited[column] = true;
            let from = row_of[column];
            let (mut delta, mut next) = (f64::INFINITY, 0);
            for j in 1..=columns {
                if visited[j] {
                    continue;
                }
                let reduced = cost[from - 1][j - 1] - row_potential[from] - column_potential[j];
                if reduced < slack[j] {
                    slack[j] = reduced;
                    way[j] = column;
                }
                if slack[j] < delta {
                    delta = slack[j];
                    next = j;
                }
            }
            for j in 0..=columns {
                if visited[j] {
                    row_potential[row_of[j]] += delta;
                    column_potential[j] -= delta;
                } else {
                    slack[j] -= delta;
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[way[column]];
            column = way[column];
        }
    }
    let mut column_of = vec![0; rows];
    for (column, &row) in row_of.iter().enumerate().skip(1) {
        if row > 0 {
            column_of[row - 1] = column - 1;
        }
    }
    column_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference: the minimum total cost over all assignments.
    fn best_cost(track: usize, tracks: usize, used: u32, pairs: &[Pair]) -> f64 {
        if track == tracks {
            return 0.0;
        }
        let alone = UNMATCHED + best_cost(track + 1, tracks, used, pairs);
        pairs
            .iter()
            .filter(|p| p.track == track && used & (1 << p.event) == 0)
            .map(|p| p.cost + best_cost(track + 1, tracks, used | 1 << p.event, pairs))
            .fold(alone, f64::min)
    }

    proptest! {
        #[test]
        fn total_cost_is_least(costs in proptest::collection::vec(proptest::option::of(0.0..2.4f64), 20), shift in 0usize..20) {
            let mut pairs: Vec<Pair> = costs
                .iter()
                .enumerate()
                .filter_map(|(k, cost)| cost.map(|cost| Pair { track: k / 5, event: k % 5, cost }))
                .collect();
            let found = assign(4, 5, &pairs);
            let total: f64 = (0..4)
                .map(|t| match found[t] {
                    None => UNMATCHED,
                    Some(e) => pairs.iter().find(|p| (p.track, p.event) == (t, e)).unwrap().cost,
                })
                .sum();
            prop_assert!((total - best_cost(0, 4, 0, &pairs)).abs() < 1e-9);
            let mut events: Vec<_> = found.iter().flatten().collect();
            events.sort_unstable();
            prop_assert!(events.windows(2).all(|w| w[0] != w[1]));
            // The result does not depend on the order of the pairs.
            let len = pairs.len().max(1);
            pairs.rotate_left(shift % len);
            prop_assert_eq!(assign(4, 5, &pairs), found);
        }
    }

    #[test]
    fn the_nearest_pair_gives_way_where_the_sum_is_less() {
        // A greedy assignment would take (0, 0) at 0.1 and leave track 1 unmatched.
        let pair = |track, event, cost| Pair { track, event, cost };
        let pairs = [pair(0, 0, 0.1), pair(0, 1, 0.4), pair(1, 0, 0.3)];
        assert_eq!(assign(2, 2, &pairs), [Some(1), Some(0)]);
    }
}
