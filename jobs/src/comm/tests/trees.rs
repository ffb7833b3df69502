//! Broadcasts, small sums, gathering and barriers, for any number of ranks and any root.

use super::counts;
use crate::comm::collectives::tree;
use crate::comm::threads::{ranks, run};
use crate::comm::{CommError, Communicator, Solo};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_broadcast_reaches_every_rank_from_any_root() {
    for count in counts() {
        for root in 0..count {
            let received = run(ranks(count), |mut comm| {
                let mut bytes = vec![comm.rank() as u8; 5];
                tree::broadcast(&mut comm, &mut bytes, root).unwrap();
                let mut values = [comm.rank() as f32, f32::NAN];
                tree::broadcast_values(&mut comm, &mut values, root).unwrap();
                (bytes, values[0])
            });
            assert_eq!(received, vec![(vec![root as u8; 5], root as f32); count]);
        }
    }
}

#[test]
fn small_sums_are_everywhere_the_same_and_in_a_fixed_order() {
    for count in counts() {
        let once = || {
            run(ranks(count), |mut comm| {
                let mut values = [0.1 * (comm.rank() + 1) as f64, 1.0];
                tree::all_fold(&mut comm, &mut values, |sum, value| *sum += value).unwrap();
                values
            })
        };
        let found = once();
        assert!(found.iter().all(|values| values == &found[0]));
        assert_eq!(found[0][1], count as f64);
        let expected = 0.1 * (count * (count + 1) / 2) as f64;
        assert!((found[0][0] - expected).abs() < 1e-14 * count as f64 * expected);
        assert_eq!(found, once());
    }
}

#[test]
fn gathered_bytes_are_in_the_order_of_rank_everywhere() {
    for count in counts() {
        let gathered = run(ranks(count), |mut comm| {
            let mine = [comm.rank() as u8, 100 + comm.rank() as u8, 7];
            assert!(tree::all_gather(&mut comm, &[]).unwrap().is_empty());
            tree::all_gather(&mut comm, &mine).unwrap()
        });
        let expected: Vec<u8> = (0..count as u8).flat_map(|r| [r, 100 + r, 7]).collect();
        assert_eq!(gathered, vec![expected; count]);
    }
}

#[test]
fn ranks_need_not_know_how_much_the_others_have_to_say() {
    for count in counts() {
        let root = count - 1;
        // The first rank has nothing to say.
        let words = |rank: usize| vec![rank as u8; 3 * rank];
        let heard = run(ranks(count), |mut comm| {
            let mine = words(comm.rank());
            let nothing = tree::all_gather_any(&mut comm, &[]).unwrap();
            assert_eq!(nothing, vec![Vec::<u8>::new(); count]);
            let all = tree::all_gather_any(&mut comm, &mine).unwrap();
            (all, tree::broadcast_any(&mut comm, mine, root).unwrap())
        });
        let all: Vec<Vec<u8>> = (0..count).map(words).collect();
        assert_eq!(heard, vec![(all, words(root)); count]);
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    for count in counts() {
        for dissemination in [true, false] {
            let come = AtomicUsize::new(0);
            let seen = run(ranks(count), |mut comm| {
                std::thread::sleep(std::time::Duration::from_micros(200 * comm.rank() as u64));
                come.fetch_add(1, Ordering::SeqCst);
                match dissemination {
                    true => tree::barrier(&mut comm).unwrap(),
                    false => comm.barrier().unwrap(),
                }
                come.load(Ordering::SeqCst)
            });
            assert_eq!(seen, vec![count; count]);
        }
    }
}

#[test]
fn a_root_that_is_no_rank_is_refused() {
    let error = tree::broadcast(&mut Solo::new(), &mut [0], 1).unwrap_err();
    let expected = "rank 0: there is no rank 1 among 1";
    assert_eq!(error, CommError::Layout(expected.into()));
}
