//! The time of a reduction: messages and bytes of the algorithms in [`crate::comm`] over a machine's links.

use crate::comm::HierarchicalOptions;
use crate::comm::collectives::choose::Link;
use crate::comm::collectives::{Algorithm as Algo, Choice};
use crate::comm::grid::nearly_square;
use crate::machine::{self, Machine};
use crate::recipe::{Algorithm, Distributed};

/// How reducing ranks are placed on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Total number of ranks.
    pub ranks: usize,
    /// Number of nodes with such ranks.
    pub nodes: usize,
    /// Ranks per node; the last one may have fewer.
    pub each: usize,
}

impl Shape {
    /// The placement of this many consecutive ranks on a machine's nodes.
    #[must_use]
    pub fn on_machine(machine: &Machine, ranks: usize) -> Self {
        Self::on_nodes_of(machine.node.ranks, ranks)
    }

    /// The placement of this many consecutive ranks on nodes of `each` ranks.
    #[must_use]
    pub fn on_nodes_of(each: usize, ranks: usize) -> Self {
        let each = each.min(ranks).max(1);
        Self {
            ranks,
            nodes: ranks.div_ceil(each),
            each,
        }
    }

    fn is_even(self) -> bool {
        self.ranks == self.nodes * self.each
    }
}

/// Checks that these ranks can reduce as the recipe says.
///
/// # Errors
/// Key, expected and found.
pub fn check(shape: &Shape, how: &Distributed) -> Result<(), String> {
    let too_many = how.leaders.filter(|leaders| *leaders > shape.each);
    match (how.algorithm, how.grid, too_many) {
        (Algorithm::Grid, Some((rows, columns)), _)
            if rows.checked_mul(columns) != Some(shape.ranks) =>
        {
            Err(format!(
                "`distributed.grid`: expected rows and columns of {} ranks, found {rows} x {columns}",
                shape.ranks
            ))
        }
        // These algorithms have no leaders.
        (Algorithm::Ring | Algorithm::Halving | Algorithm::Grid, ..) => Ok(()),
        (_, _, Some(leaders)) => Err(format!(
            "`distributed.leaders`: expected at most the {} ranks of a node, found {leaders}",
            shape.each
        )),
        // By default the program ignores nodes when reducing, unless it needs leaders on each.
        (Algorithm::Auto, ..) if how.leaders.is_none() => Ok(()),
        _ if shape.is_even() => Ok(()),
        _ => Err(format!(
            "`distributed.algorithm`: expected one without nodes{} for {} ranks on nodes of {}",
            match how.leaders {
                Some(_) => ", and no `distributed.leaders`,",
                None => "",
            },
            shape.ranks,
            shape.each
        )),
    }
}

/// Seconds to reduce this many values.
#[must_use]
pub fn seconds(values: usize, shape: &Shape, machine: &Machine, how: &Distributed) -> f64 {
    let bytes = values * how.wire.bytes();
    let over = |choice, ranks, bytes| flat(choice, (ranks, bytes), shape, machine);
    match how.algorithm {
        Algorithm::Ring => over(Choice::Ring, shape.ranks, bytes),
        Algorithm::Halving => over(Choice::Halving, shape.ranks, bytes),
        Algorithm::Auto if shape.each == 1 || !shape.is_even() => {
            over(Choice::Auto, shape.ranks, bytes)
        }
        Algorithm::Grid => {
            let (rows, columns) = how.grid.unwrap_or_else(|| nearly_square(shape.ranks));
            let along = bytes / columns.max(1);
            over(Choice::Ring, columns, bytes) + over(how.between, rows, along)
        }
        Algorithm::Auto | Algorithm::Hierarchical | Algorithm::Nccl => {
            // In pieces, one after the other, as the program sends them.
            let at_once = HierarchicalOptions::default().values_at_once;
            let pieces = values.div_ceil(at_once).max(1);
            let piece = hierarchical(values.div_ceil(pieces), shape, machine, how);
            pieces as f64 * piece
        }
    }
}

/// Seconds of the final reduction of a step over all ranks: of this many facts, always in f32.
#[must_use]
pub fn seconds_of_facts(facts: usize, shape: &Shape, machine: &Machine) -> f64 {
    flat(Choice::Auto, (shape.ranks, 4 * facts), shape, machine)
}

/// All ranks in one algorithm: over one link of the node, or over one inside it.
fn flat(choice: Choice, (ranks, bytes): (usize, usize), shape: &Shape, machine: &Machine) -> f64 {
    let algorithm = choice.resolve(bytes, ranks);
    let link = match shape.nodes {
        1 => &machine.inside,
        _ => &machine.network,
    };
    // A ring passes each link once; in halving, the partners of all ranks of a node are on other nodes at the same
    // time.
    let sharing = match algorithm {
        Algo::Halving if shape.nodes > 1 => shape.each,
        _ => 1,
    };
    1e-6 * shared(link, sharing).time_us(algorithm, bytes, ranks)
}

/// Inside nodes, then between them by leaders that share the node's links, then inside again.
fn hierarchical(values: usize, shape: &Shape, machine: &Machine, how: &Distributed) -> f64 {
    let leaders = how.leaders.unwrap_or(shape.each).clamp(1, shape.each);
    let part = values.div_ceil(leaders) * how.wire.bytes();
    let inside = shared(&machine.inside, 1).time_us(Algo::Ring, 4 * values, shape.each);
    let algorithm = how.between.resolve(part, shape.nodes);
    let between = shared(&machine.network, leaders).time_us(algorithm, part, shape.nodes);
    1e-6 * (inside + between)
}

/// A link as seen by one of several concurrent senders.
fn shared(link: &machine::Link, senders: usize) -> Link {
    Link {
        latency_us: link.latency_us,
        bytes_per_us: 1e3 * link.gb_s / senders as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Wire;

    fn summit() -> Machine {
        Machine::named("summit").unwrap()
    }

    /// 4 million f32 on 4,560 nodes by hand: a quarter to each of four leaders, which share 23 GB/s.
    #[test]
    fn summit_by_hand() {
        let (machine, values) = (summit(), 4_000_000);
        let shape = Shape::on_machine(&machine, 27_360);
        assert_eq!((shape.nodes, shape.each), (4560, 6));
        let how = Distributed {
            leaders: Some(4),
            between: Choice::Ring,
            ..Distributed::default()
        };
        let found = seconds(values, &shape, &machine, &how);
        let bytes = 4.0 * values as f64;
        let inside = 2.0 * 5.0 / 6.0 * bytes / 32e9 + 10.0 * 3e-6;
        let between = 2.0 * 4559.0 * (1.5e-6 + bytes / 4.0 / 4560.0 / (23e9 / 4.0));
        assert!((found - inside - between).abs() < 1e-4 * found, "{found}");
        // Longer vectors go in pieces, one after the other.
        let longer = seconds(3 << 22, &shape, &machine, &how);
        let piece = seconds(1 << 22, &shape, &machine, &how);
        assert!((longer - 3.0 * piece).abs() < 1e-9, "{longer}");
    }

    #[test]
    fn half_on_the_wire_halves_what_goes_between_nodes_only() {
        let machine = summit();
        let on = |nodes: usize| Shape::on_machine(&machine, 6 * nodes);
        let with = |wire| {
            let how = Distributed {
                wire,
                between: Choice::Ring,
                ..Distributed::default()
            };
            seconds(4_000_000, &on(16), &machine, &how)
        };
        let one_node = seconds(4_000_000, &on(1), &machine, &Distributed::default());
        let ratio = (with(Wire::F16) - one_node) / (with(Wire::F32) - one_node);
        assert!((0.5..0.54).contains(&ratio), "{ratio}");
    }

    /// Partners of halving lie on other nodes for all ranks of a node at once, neighbours of a ring for one of them. Rows
    /// of a grid hold all values, columns the part of one of the row.
    #[test]
    fn flat_sums_by_hand() {
        let (machine, values) = (summit(), 3_000_000);
        let bytes = 4.0 * values as f64;
        let with = |algorithm, grid| Distributed {
            algorithm,
            grid,
            between: Choice::Ring,
            ..Distributed::default()
        };
        let near = |ranks: usize, how: Distributed, expected: f64| {
            let found = seconds(values, &Shape::on_machine(&machine, ranks), &machine, &how);
            let off = (found / expected - 1.0).abs();
            assert!(off < 1e-6, "{how:?}: {found} and not {expected}");
        };
        let ring = |ranks: f64, bytes: f64, latency: f64, rate: f64| {
            2.0 * (ranks - 1.0) * (latency + bytes / ranks / rate)
        };
        // One node: NVLink. Eight nodes: InfiniBand.
        let flat = with(Algorithm::Ring, None);
        near(6, flat.clone(), ring(6.0, bytes, 3e-6, 32e9));
        near(48, flat, ring(48.0, bytes, 1.5e-6, 23e9));
        // 32 of 48 ranks are seats of five rounds, after and before a message with everything; six ranks share a link.
        let rate = 23e9 / 6.0;
        let halving = (10.0 + 2.0) * 1.5e-6 + (2.0 * 31.0 / 32.0 + 2.0) * bytes / rate;
        near(48, with(Algorithm::Halving, None), halving);
        let grid = ring(12.0, bytes, 1.5e-6, 23e9) + ring(4.0, bytes / 12.0, 1.5e-6, 23e9);
        near(48, with(Algorithm::Grid, Some((4, 12))), grid);
    }

    #[test]
    fn one_rank_sums_nothing() {
        let (machine, how) = (summit(), Distributed::default());
        let alone = Shape::on_machine(&machine, 1);
        assert_eq!(seconds(1000, &alone, &machine, &how), 0.0);
        assert_eq!(seconds_of_facts(1000, &alone, &machine), 0.0);
    }

    /// DeepCAM's, mostly running statistics, between two ranks on two nodes: two messages of half each.
    #[test]
    fn facts_take_as_long_as_their_bytes() {
        let machine = summit();
        let two = Shape::on_nodes_of(1, 2);
        let found = seconds_of_facts(97_765, &two, &machine);
        let expected = 2.0 * (1.5e-6 + 4.0 * 97_765.0 / 2.0 / 23e9);
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn what_the_program_refuses_is_not_predicted() {
        let machine = summit();
        let refused = |ranks, how: &Distributed| check(&Shape::on_machine(&machine, ranks), how);
        let nine = Distributed {
            leaders: Some(9),
            ..Distributed::default()
        };
        assert!(
            refused(24, &nine)
                .unwrap_err()
                .contains("distributed.leaders")
        );
        // Without regard to nodes nobody leads.
        let ring = Distributed {
            algorithm: Algorithm::Ring,
            ..nine
        };
        assert!(refused(24, &ring).is_ok());
        let grid = Distributed {
            algorithm: Algorithm::Grid,
            grid: Some((5, 7)),
            ..Distributed::default()
        };
        assert!(refused(24, &grid).unwrap_err().contains("found 5 x 7"));
        assert!(refused(35, &grid).is_ok());
        // Whose product is 2^64 + 24.
        let wrapping = Distributed {
            grid: Some((1 << 3, (1 << 61) + 3)),
            ..grid
        };
        assert!(refused(24, &wrapping).is_err());
        let uneven = Distributed {
            algorithm: Algorithm::Hierarchical,
            ..Distributed::default()
        };
        assert!(refused(20, &uneven).is_err() && refused(24, &uneven).is_ok());
        // Left to itself the program sums without regard to nodes then, but not with leaders on each.
        assert!(refused(20, &Distributed::default()).is_ok());
        let led = Distributed {
            leaders: Some(2),
            ..Distributed::default()
        };
        let said = refused(20, &led).unwrap_err();
        assert!(said.contains("no `distributed.leaders`"), "{said}");
        assert!(refused(24, &led).is_ok());
    }

    #[test]
    fn grids_are_nearly_square() {
        assert_eq!(nearly_square(12), (3, 4));
        assert_eq!(nearly_square(7), (1, 7));
    }
}
