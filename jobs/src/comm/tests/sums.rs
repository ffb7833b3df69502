//! Every engine gives the sums, the same bits on all ranks, and the same bits again.

use super::{WIRES, bits, check_sums, counts, lengths, reduce};
use crate::comm::collectives::Choice;
use crate::comm::threads::{Ranks, nodes, run};
use crate::comm::{
    AllReduce, CommError, Communicator, Flat, Grid, Hierarchical, HierarchicalOptions, Solo, Wire,
};
use proptest::prelude::*;
use std::time::Duration;

const CHOICES: [Choice; 3] = [Choice::Ring, Choice::Halving, Choice::Auto];

/// Short pieces make several of them out of 10,007 values, with the helping thread.
const PIECES: [usize; 2] = [4 << 20, 1000];

#[test]
fn flat_sums_are_right_for_any_number_of_ranks() {
    for ranks in counts() {
        for wire in WIRES {
            for (choice, piece) in CHOICES.iter().flat_map(|c| PIECES.map(|p| (*c, p))) {
                let scale = 1.0 / ranks as f32;
                let make = |comm: &mut dyn Communicator| {
                    let engine = Flat::with_pieces(comm, choice, wire, piece)?;
                    Ok(Box::new(engine) as Box<dyn AllReduce>)
                };
                let results = reduce(Ranks::nodes(&[ranks]), &lengths(ranks), scale, &make);
                let what = format!("{ranks} ranks, {choice:?}, {wire:?}, pieces of {piece}");
                let roundings = match choice {
                    Choice::Halving => ranks.ilog2() as usize + 2,
                    _ => ranks.max(ranks.ilog2() as usize + 2),
                };
                check_sums(&results, scale, (wire, roundings), &what);
            }
        }
    }
}

#[test]
fn grids_of_any_shape_give_the_sums() {
    for ranks in counts() {
        for rows in (1..=ranks).filter(|rows| ranks % rows == 0) {
            let columns = ranks / rows;
            for wire in WIRES {
                let make = |comm: &mut dyn Communicator| {
                    let engine = Grid::new(comm, (rows, columns), Choice::Auto, wire)?;
                    Ok(Box::new(engine) as Box<dyn AllReduce>)
                };
                let results = reduce(Ranks::nodes(&[ranks]), &lengths(ranks), 0.25, &make);
                let what = format!("{rows} x {columns}, {wire:?}");
                check_sums(&results, 0.25, (wire, rows + columns + 2), &what);
            }
        }
    }
}

fn hierarchical(
    options: &HierarchicalOptions,
) -> impl Fn(&mut dyn Communicator) -> Result<Box<dyn AllReduce>, CommError> + Sync {
    let options = options.clone();
    move |comm| Ok(Box::new(Hierarchical::new(comm, &options)?) as Box<dyn AllReduce>)
}

#[test]
fn hierarchical_sums_are_right_for_any_layout_and_number_of_leaders() {
    for (count, each) in [
        (1, 1),
        (1, 4),
        (5, 1),
        (2, 2),
        (3, 2),
        (2, 3),
        (4, 2),
        (2, 6),
        (3, 5),
    ] {
        for leaders in 1..=each {
            for (wire, shared_memory) in WIRES.iter().flat_map(|w| [(*w, true), (*w, false)]) {
                let options = HierarchicalOptions {
                    leaders: Some(leaders),
                    wire,
                    shared_memory,
                    values_at_once: 4000,
                    piece_bytes: 1000,
                    ..HierarchicalOptions::default()
                };
                let make = hierarchical(&options);
                let ranks = count * each;
                let layout = Ranks::nodes(&vec![each; count]);
                let results = reduce(layout, &lengths(ranks), 1.0, &make);
                let what = format!("{count} x {each}, {options:?}");
                check_sums(&results, 1.0, (wire, count + 2), &what);
            }
        }
    }
}

/// Sums of whole numbers are exact in any order, so hierarchical and flat must agree in every bit.
#[test]
fn hierarchical_equals_flat_where_nothing_is_rounded() {
    let outcomes = run(nodes(&[3, 3, 3]), |mut comm| {
        let whole: Vec<f32> = (0..5000)
            .map(|i| ((i * 7 + comm.rank()) % 1000) as f32)
            .collect();
        let mut flat = whole.clone();
        let mut engine = Flat::new(&mut comm, Choice::Ring, Wire::F32).unwrap();
        engine.all_reduce(&mut flat, 1.0).unwrap();
        let options = HierarchicalOptions {
            leaders: Some(2),
            ..HierarchicalOptions::default()
        };
        let mut three_phases = whole;
        let mut engine = Hierarchical::new(&mut comm, &options).unwrap();
        engine.all_reduce(&mut three_phases, 1.0).unwrap();
        (flat, three_phases)
    });
    for (flat, three_phases) in outcomes {
        assert_eq!(flat, three_phases);
    }
}

#[test]
fn delays_change_no_bit() {
    let options = HierarchicalOptions {
        leaders: Some(2),
        wire: Wire::Bf16,
        values_at_once: 300,
        piece_bytes: 64,
        ..HierarchicalOptions::default()
    };
    let flat = |comm: &mut dyn Communicator| {
        let engine = Flat::with_pieces(comm, Choice::Auto, Wire::F32, 256)?;
        Ok(Box::new(engine) as Box<dyn AllReduce>)
    };
    let grid = |comm: &mut dyn Communicator| {
        Ok(Box::new(Grid::square(comm, Choice::Halving, Wire::F16)?) as Box<dyn AllReduce>)
    };
    let makes: [super::Make; 3] = [&hierarchical(&options), &flat, &grid];
    for make in makes {
        let layout = Ranks::nodes(&[3, 3]);
        let expected = reduce(layout.clone(), &[1, 997], 1.0, make);
        for seed in 0..3 {
            let delayed = layout.clone().delays(seed, Duration::from_micros(300));
            let found = reduce(delayed, &[1, 997], 1.0, make);
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}

/// Which machine a node is, and how it is numbered, is chance: with the same ranks together the bits are the same.
#[test]
fn the_order_of_nodes_changes_no_bit() {
    let options = HierarchicalOptions {
        leaders: Some(1),
        ..HierarchicalOptions::default()
    };
    let make = hierarchical(&options);
    let first = reduce(Ranks::placed(&[0, 1, 2, 0, 1, 2]), &[1000], 1.0, &make);
    let renamed = reduce(Ranks::placed(&[7, 3, 5, 7, 3, 5]), &[1000], 1.0, &make);
    assert_eq!(bits(&first[0][0]), bits(&renamed[0][0]));
    check_sums(&first, 1.0, (Wire::F32, 0), "by node");
}

/// 2 (P - 1) / P of the vector flat, 2 (N - 1) / N of a leader's part between nodes, and half of it with a half type.
#[test]
fn as_few_bytes_are_sent_as_can_be() {
    let sent = |ranks: Ranks, make: super::Make| {
        run(ranks.start(), |mut comm| {
            let mut engine = make(&mut comm).unwrap();
            engine.all_reduce(&mut vec![1.0; 1200], 1.0).unwrap();
            engine.bytes_sent()
        })
    };
    for choice in [Choice::Ring, Choice::Halving] {
        for (wire, bytes) in [(Wire::F32, 4), (Wire::Bf16, 2), (Wire::F16, 2)] {
            let flat = |comm: &mut dyn Communicator| {
                Ok(Box::new(Flat::new(comm, choice, wire)?) as Box<dyn AllReduce>)
            };
            let found = sent(Ranks::nodes(&[4]), &flat);
            assert_eq!(found, [2 * 900 * bytes; 4], "{choice:?} {wire:?}");
            let options = HierarchicalOptions {
                wire,
                between: choice,
                leaders: Some(2),
                ..HierarchicalOptions::default()
            };
            let found = sent(Ranks::nodes(&[3, 3, 3, 3]), &hierarchical(&options));
            let leader = 2 * 450 * bytes;
            let expected: Vec<u64> = [leader, leader, 0].repeat(4);
            assert_eq!(found, expected, "{choice:?} {wire:?}");
        }
    }
}

/// Two averages of 60,000 do not fit f16 before they are divided.
#[test]
fn averages_are_scaled_before_they_are_rounded() {
    let options = HierarchicalOptions {
        wire: Wire::F16,
        ..HierarchicalOptions::default()
    };
    let flat = |comm: &mut dyn Communicator| {
        Ok(Box::new(Flat::new(comm, Choice::Ring, Wire::F16)?) as Box<dyn AllReduce>)
    };
    let makes: [super::Make; 2] = [&flat, &hierarchical(&options)];
    for make in makes {
        let averages = run(nodes(&[2, 2]), |mut comm| {
            let mut values = [60_000.0; 7];
            make(&mut comm)
                .unwrap()
                .all_reduce(&mut values, 0.25)
                .unwrap();
            values
        });
        assert_eq!(averages, [[60_000.0; 7]; 4]);
    }
}

#[test]
fn impossible_layouts_are_refused_on_all_ranks_with_their_counts() {
    let check = |nodes: &[usize], leaders: Option<usize>, expected: &str| {
        let errors = run(Ranks::nodes(nodes).start(), |mut comm| {
            let options = HierarchicalOptions {
                leaders,
                ..HierarchicalOptions::default()
            };
            let error = Hierarchical::new(&mut comm, &options).err().unwrap();
            assert!(matches!(error, CommError::Layout(_)));
            error.to_string()
        });
        for error in errors {
            assert!(error.contains(expected), "{error}");
        }
    };
    let unequal = "found 2 with 2 (that of rank 0), 1 with 3 (that of rank 4)";
    check(&[2, 2, 3], None, unequal);
    check(
        &[2, 2],
        Some(0),
        "0 leaders asked for on nodes with 2 ranks",
    );
    check(
        &[2, 2],
        Some(3),
        "3 leaders asked for on nodes with 2 ranks",
    );
    let grid = run(Ranks::nodes(&[6]).start(), |mut comm| {
        Grid::new(&mut comm, (2, 4), Choice::Ring, Wire::F32).err()
    });
    let expected = "a grid of 2 rows and 4 columns does not fit 6 ranks";
    assert_eq!(grid, vec![Some(CommError::Layout(expected.into())); 6]);
}

#[test]
fn one_rank_alone_only_scales() {
    let mut solo = Solo::new();
    let options = HierarchicalOptions::default();
    let engines: [Box<dyn AllReduce>; 3] = [
        Box::new(Flat::new(&mut solo, Choice::Auto, Wire::Bf16).unwrap()),
        Box::new(Hierarchical::new(&mut solo, &options).unwrap()),
        Box::new(Grid::square(&mut solo, Choice::Auto, Wire::F32).unwrap()),
    ];
    for mut engine in engines {
        let mut values = [2.0, -4.0];
        engine.all_reduce(&mut values, 0.5).unwrap();
        assert_eq!(values, [1.0, -2.0], "{}", engine.describe());
        assert_eq!(engine.bytes_sent(), 0);
    }
}

fn any_wire() -> impl Strategy<Value = Wire> {
    (0..WIRES.len()).prop_map(|number| WIRES[number])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_placement_gives_the_sums(
        (count, each) in (1_usize..5, 1_usize..5),
        leader in 0_usize..5,
        wire in any_wire(),
        between in (0..CHOICES.len()).prop_map(|number| CHOICES[number]),
        shared_memory in any::<bool>(),
        by_node in any::<bool>(),
        length in 0_usize..700,
        values_at_once in 1_usize..500,
    ) {
        let options = HierarchicalOptions {
            leaders: Some(leader % each + 1),
            wire,
            between,
            shared_memory,
            values_at_once,
            // Of a single node, whichever of the two is smaller counts.
            values_in_cache: 1 + values_at_once / 2,
            piece_bytes: 128,
        };
        let node_of: Vec<usize> = (0..count * each)
            .map(|rank| if by_node { rank % count } else { rank / each })
            .collect();
        let make = hierarchical(&options);
        let results = reduce(Ranks::placed(&node_of), &[length], 0.5, &make);
        check_sums(&results, 0.5, (wire, count + 2), &format!("{node_of:?} {options:?}"));
    }
}
