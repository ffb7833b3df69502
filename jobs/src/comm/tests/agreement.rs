//! Facts, parameters, flags and exact sums over ranks.

use super::counts;
use crate::comm::agree::{
    Facts, any, any_of_each, same_parameters, same_parameters_from, sum_counts, sum_exactly,
};
use crate::comm::threads::{Threads, ranks, run};
use crate::comm::{CommError, Communicator};

/// What all ranks report, which must be the same but for their own number.
fn differs(
    count: usize,
    check: impl Fn(&mut Threads) -> Result<(), CommError> + Sync,
) -> (String, String) {
    let errors = run(ranks(count), |mut comm| check(&mut comm));
    let mut found: Vec<(String, String)> = errors
        .into_iter()
        .enumerate()
        .map(|(number, result)| match result {
            Err(CommError::Differs { rank, what, reason }) if rank == number => (what, reason),
            other => panic!("rank {number}: {other:?}"),
        })
        .collect();
    let first = found.remove(0);
    assert!(found.iter().all(|other| *other == first), "{found:?}");
    first
}

#[test]
fn equal_facts_pass() {
    for count in counts() {
        run(ranks(count), |mut comm| {
            let facts = Facts::new().with("recipe", b"a = 1").with("plan", &[1, 2]);
            facts.check(&mut comm).unwrap();
            Facts::new().check(&mut comm).unwrap();
        });
    }
}

#[test]
fn a_fact_that_differs_is_named_with_its_ranks() {
    let (what, reason) = differs(5, |comm| {
        let other = [1, 4].contains(&comm.rank());
        let recipe = if other { "a = 2" } else { "a = 1" };
        let facts = Facts::new()
            .with("code", b"v1")
            .with("recipe", recipe.as_bytes())
            .with("data", recipe.as_bytes());
        facts.check(comm)
    });
    assert_eq!(what, "recipe");
    assert_eq!(reason, "ranks 1, 4 have another than the other 3");
    let (what, reason) = differs(2, |comm| {
        Facts::new().with("data", &[comm.rank() as u8]).check(comm)
    });
    assert_eq!(
        (what.as_str(), reason.as_str()),
        ("data", "rank 1 has another than the other 1")
    );
    // What most ranks have is right, also against rank 0.
    let (_, reason) = differs(3, |comm| {
        Facts::new()
            .with("data", &[u8::from(comm.rank() == 0)])
            .check(comm)
    });
    assert_eq!(reason, "rank 0 has another than the other 2");
    let (_, reason) = differs(16, |comm| {
        Facts::new().with("data", &[comm.rank() as u8]).check(comm)
    });
    assert_eq!(
        reason,
        "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 7 more have another than the other 1"
    );
}

#[test]
fn another_list_of_facts_is_noticed_whatever_its_length() {
    let (what, reason) = differs(3, |comm| {
        let facts = Facts::new().with("code", b"v1");
        match comm.rank() {
            2 => facts.with("more", b"").check(comm),
            _ => facts.check(comm),
        }
    });
    assert_eq!(what, "the program or its list of facts");
    assert_eq!(reason, "rank 2 has another than the other 2");
}

/// One bit in one value of one tensor of one rank.
#[test]
fn the_first_tensor_that_differs_is_named() {
    let check = |flipped: Option<usize>| {
        move |comm: &mut Threads| {
            let mut weights = [vec![0.5_f32; 1000], vec![0.25; 10], vec![-0.0; 3]];
            if comm.rank() == 2
                && let Some(tensor) = flipped
            {
                let last = weights[tensor].last_mut().unwrap();
                *last = f32::from_bits(last.to_bits() ^ 1);
            }
            let names = ["encoder.conv1", "encoder.norm", "decoder"];
            let tensors = names.into_iter().zip(weights.iter().map(Vec::as_slice));
            same_parameters(comm, tensors)
        }
    };
    run(ranks(4), |mut comm| check(None)(&mut comm).unwrap());
    for (tensor, name) in ["encoder.conv1", "encoder.norm", "decoder"]
        .iter()
        .enumerate()
    {
        let (what, reason) = differs(4, check(Some(tensor)));
        assert_eq!(what, format!("tensor {name}"));
        assert_eq!(reason, "rank 2 has another than the other 3");
    }
}

/// Ranks 5 to 8 of a job.
#[test]
fn ranks_of_a_group_that_differ_are_named_by_their_numbers_in_the_job() {
    let said = run(ranks(4), |mut comm| {
        let weights = [if comm.rank() == 2 { 0.5 } else { 0.25 }];
        let error = same_parameters_from(5, &mut comm, [("bias", &weights[..])]);
        error.unwrap_err().to_string()
    });
    for (rank, said) in (5..).zip(said) {
        let expected = format!(
            "rank {rank}: tensor bias differs between ranks: rank 7 has another than the other 3"
        );
        assert_eq!(said, expected);
    }
}

#[test]
fn a_flag_of_one_rank_is_everybodys() {
    for count in counts() {
        for raised in 0..count {
            let found = run(ranks(count), |mut comm| {
                let none = any(&mut comm, false).unwrap();
                let flag = comm.rank() == raised;
                // More than fit into one word.
                let mut flags = vec![false; 70];
                (flags[comm.rank()], flags[69]) = (flag, true);
                any_of_each(&mut comm, &mut flags).unwrap();
                any_of_each(&mut comm, &mut []).unwrap();
                (none, any(&mut comm, flag).unwrap(), flags)
            });
            let mut flags = vec![false; 70];
            (flags[raised], flags[69]) = (true, true);
            assert_eq!(found, vec![(false, true, flags); count]);
        }
    }
}

#[test]
fn counts_are_summed_exactly_or_refused_everywhere() {
    let large = u64::MAX / 5;
    let found = run(ranks(5), |mut comm| {
        let mut counts = [large, comm.rank() as u64];
        sum_counts(&mut comm, &mut counts).unwrap();
        let too_large = sum_counts(&mut comm, &mut [large + 1]).unwrap_err();
        assert!(matches!(too_large, CommError::Layout(_)));
        counts
    });
    assert_eq!(found, vec![[u64::MAX, 10]; 5]);
}

/// Scores that cancel: any order of plain additions would lose the small ones.
#[test]
fn sums_of_scores_do_not_depend_on_the_order_of_ranks() {
    for count in [1, 2, 5, 9] {
        let found = run(ranks(count), |mut comm| {
            let rank = comm.rank();
            let shifted = |by: usize| ((rank + by) % count) as f64;
            let large = if rank == 0 { 1e18 } else { 0.0 };
            let minus = if rank + 1 == count { -1e18 } else { 0.0 };
            let mut values = [0.1 * shifted(0), 0.1 * shifted(1), large + minus, 0.0];
            values[3] = if count > 1 {
                large + minus + 0.125 * f64::from(rank != 0 && rank + 1 != count)
            } else {
                0.0
            };
            sum_exactly(&mut comm, &mut values).unwrap();
            sum_exactly(&mut comm, &mut []).unwrap();
            values
        });
        let first = found[0];
        assert!(found.iter().all(|values| *values == first));
        assert_eq!(first[0].to_bits(), first[1].to_bits());
        assert_eq!(first[2], 0.0);
        assert_eq!(first[3], 0.125 * count.saturating_sub(2) as f64);
    }
}
