//! Nodes of known shape, shared and reserved; lists as the kernel writes them.

use super::*;
use std::num::NonZeroUsize;

fn options(reserve: usize, hyper_threads: usize) -> Options {
    use crate::threads::options::HyperThreads;
    Options {
        reserve_cores: Some(reserve),
        hyper_threads: NonZeroUsize::new(hyper_threads).map(HyperThreads::AtMost),
        memory_node: None,
    }
}

/// Knights Landing and most x86 machines: first threads of all cores, then second ones.
fn interleaved(cores: usize, threads: usize) -> Vec<Core> {
    let siblings = |thread: usize| (0..threads).map(|t| thread % cores + t * cores).collect();
    let all: Vec<usize> = (0..cores * threads).collect();
    group(&all, siblings)
}

/// POWER: the threads of a core side by side.
fn adjacent(cores: usize, threads: usize) -> Vec<Core> {
    let siblings = |thread: usize| {
        let first = thread / threads * threads;
        (first..first + threads).collect()
    };
    let all: Vec<usize> = (0..cores * threads).collect();
    group(&all, siblings)
}

fn position(rank: usize, ranks: usize) -> RankPosition {
    RankPosition { rank, ranks }
}

#[test]
fn lists_are_read_and_written_as_the_kernel_does() {
    let check = |text: &str, numbers: &[usize]| {
        assert_eq!(parse(text), numbers, "{text}");
        assert_eq!(parse(&list(numbers)), numbers, "{text}");
    };
    check("0-3,8", &[0, 1, 2, 3, 8]);
    check("0-1\n", &[0, 1]);
    check("", &[]);
    check("7", &[7]);
    assert_eq!(parse("x,3-1,2-"), [0; 0]);
    assert_eq!(list(&[8, 0, 1, 2, 3, 5, 6]), "0-3,5-6,8");
}

#[test]
fn siblings_make_a_core_if_they_may_be_used() {
    assert_eq!(interleaved(2, 2), [[0, 2], [1, 3]]);
    assert_eq!(adjacent(2, 2), [[0, 1], [2, 3]]);
    let siblings = |thread: usize| vec![thread % 4, thread % 4 + 4];
    // Only some threads are allowed.
    assert_eq!(group(&[1, 2, 6], siblings), [vec![1], vec![2, 6]]);
    assert_eq!(group(&[3, 5], |_| Vec::new()), [[3], [5]]);
}

/// Without options each hardware thread counts as a core.
#[test]
fn hardware_threads_are_dealt_once_each() {
    let deal = |threads: &[usize], rank, ranks| {
        let cores: Vec<Core> = threads.iter().map(|&thread| vec![thread]).collect();
        let division = divide(&cores, position(rank, ranks), &Options::default());
        division.expect("nothing is reserved")
    };
    let computing: Vec<_> = (0..3)
        .map(|rank| deal(&[0, 1, 2, 3, 8, 9, 10], rank, 3).computing)
        .collect();
    assert_eq!(computing, [&[0, 1][..], &[2, 3], &[8, 9, 10]]);
    assert_eq!(deal(&[4, 5], 2, 3).computing, [4]);
    assert_eq!(deal(&[], 0, 1), Division::default());
}

#[test]
fn a_knights_landing_node_is_shared_by_whole_cores() {
    let node = interleaved(68, 4);
    let check = |place: RankPosition, options: Options, computing: &str, communication: &str| {
        let division = divide(&node, place, &options).expect("cores enough");
        let found = (list(&division.computing), list(&division.communication));
        let expected = (computing.to_string(), communication.to_string());
        assert_eq!(found, expected, "{place:?} {options:?}");
    };
    let alone = RankPosition::ALONE;
    check(alone, options(0, 0), "0-271", "");
    check(
        alone,
        options(2, 1),
        "0-65",
        "66-67,134-135,202-203,270-271",
    );
    check(
        alone,
        options(2, 2),
        "0-65,68-133",
        "66-67,134-135,202-203,270-271",
    );
    check(
        position(3, 4),
        options(1, 2),
        "51-66,119-134",
        "67,135,203,271",
    );
    // More ranks than cores: two hardware threads of a core each.
    check(position(0, 136), options(0, 0), "0,68", "");
    check(position(1, 136), options(0, 0), "136,204", "");
    check(position(135, 136), options(0, 0), "203,271", "");
    check(position(70, 136), options(0, 1), "2", "");
}

/// Six ranks on 42 cores of four threads: seven cores each, one of them for communication.
#[test]
fn a_summit_like_node_is_shared_by_whole_cores() {
    let node = adjacent(42, 4);
    let last = divide(&node, position(5, 6), &options(1, 1)).expect("seven cores");
    assert_eq!(last.computing, [140, 144, 148, 152, 156, 160]);
    assert_eq!(last.communication, [164, 165, 166, 167]);
}

#[test]
fn no_hardware_thread_is_given_twice_and_no_core_to_two_ranks() {
    for (cores, threads, ranks, reserve) in
        [(7, 2, 3, 1), (68, 4, 9, 2), (5, 1, 5, 0), (8, 8, 3, 1)]
    {
        let node = interleaved(cores, threads);
        let mut seen = std::collections::BTreeSet::new();
        let mut owner = vec![None; cores];
        for rank in 0..ranks {
            let division =
                divide(&node, position(rank, ranks), &options(reserve, 0)).expect("enough");
            assert_eq!(division.communication.len(), reserve * threads);
            for thread in [division.computing, division.communication].concat() {
                assert!(seen.insert(thread), "{thread} twice");
                let core = owner[thread % cores].get_or_insert(rank);
                assert_eq!(*core, rank, "core {} twice", thread % cores);
            }
        }
        assert_eq!(seen.len(), cores * threads);
    }
}

#[test]
fn one_core_at_least_computes() {
    let node = interleaved(4, 2);
    let check = |place, reserve, share| {
        let refused = divide(&node, place, &options(reserve, 0));
        let wanted = reserve;
        assert_eq!(refused, Err(TooFew { wanted, share }));
    };
    check(RankPosition::ALONE, 4, 4);
    check(position(0, 2), 2, 2);
    check(position(0, 2), 9, 2);
    check(position(4, 5), 1, 0);
}
