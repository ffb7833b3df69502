//! What a backend promises: messages, groups and windows.

use crate::comm::threads::{Ranks, Threads, nodes, ranks, run};
use crate::comm::{Arrival, CommError, Communicator, Solo};
use std::time::{Duration, Instant};

#[test]
fn messages_between_two_ranks_arrive_in_order() {
    run(ranks(2), |mut comm| {
        let other = 1 - comm.rank();
        for number in 0..50_u8 {
            comm.send(other, &[number]).unwrap();
        }
        for number in 0..50_u8 {
            let mut found = [0];
            comm.receive(other, &mut found).unwrap();
            assert_eq!(found, [number]);
        }
        let mut found = [0; 3];
        let mine = [comm.rank() as u8; 3];
        comm.send_receive(other, &mine, other, &mut found).unwrap();
        assert_eq!(found, [other as u8; 3]);
    });
}

/// What a server lives on: it hears whoever comes first, prefers as it likes, and goes on when one is gone.
#[test]
fn a_rank_waits_for_any_of_several_and_outlives_them() {
    run(ranks(3), |mut comm| {
        let long = Duration::from_secs(20);
        if comm.rank() > 0 {
            comm.send(0, &[7]).unwrap();
            // The answer comes to one that is there.
            comm.receive(0, &mut [0]).unwrap();
            return;
        }
        for order in [[2, 1], [1, 2]] {
            // Both have sent, sooner or later; then the preferred one is first.
            for peer in [1, 2] {
                assert_eq!(comm.wait_any(&[peer], long), Ok(Arrival::Message(peer)));
            }
            let found = comm.wait_any(&order, Duration::ZERO);
            assert_eq!(found, Ok(Arrival::Message(order[0])));
        }
        comm.receive(2, &mut [0]).unwrap();
        let start = Instant::now();
        let none = comm.wait_any(&[2], Duration::from_millis(30));
        assert_eq!(none, Ok(Arrival::Nothing));
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert_eq!(comm.offer(2, &[1]), Ok(true));
        assert_eq!(comm.wait_any(&[2], long), Ok(Arrival::Gone(2)));
        assert_eq!(comm.offer(2, &[1]), Ok(false));
        // What it had sent before it went is not lost, and neither is this rank for the others.
        assert_eq!(comm.offer(1, &[1]), Ok(true));
        assert_eq!(comm.wait_any(&[2, 1], long), Ok(Arrival::Message(1)));
        comm.receive(1, &mut [0]).unwrap();
        assert!(comm.wait_any(&[3], long).is_err());
    });
}

#[test]
fn a_message_of_another_length_is_an_error_with_both_lengths() {
    let errors = run(ranks(2), |mut comm| match comm.rank() {
        0 => comm.send(1, &[1, 2, 3]).err(),
        _ => comm.receive(0, &mut [0; 4]).err(),
    });
    let expected = CommError::Size {
        rank: 1,
        what: "bytes of a message from rank 0".into(),
        expected: 4,
        got: 3,
    };
    assert_eq!(errors, [None, Some(expected)]);
}

#[test]
fn groups_are_ordered_by_key_then_rank() {
    let found = run(ranks(7), |mut comm| {
        let rank = comm.rank();
        let colour = (rank != 3).then_some(rank as u32 % 2);
        let group = comm.split(colour, 10 - rank / 4).unwrap();
        // The groups are used at once, side by side.
        group.map(|mut group| {
            let mut sum = [rank as u64];
            crate::comm::agree::sum_counts(&mut *group, &mut sum).unwrap();
            (group.rank(), group.size(), sum[0])
        })
    });
    let expected = [
        Some((2, 4, 12)),
        Some((1, 2, 6)),
        Some((3, 4, 12)),
        None,
        Some((0, 4, 12)),
        Some((0, 2, 6)),
        Some((1, 4, 12)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn nodes_are_the_ranks_that_live_together() {
    let found = run(nodes(&[2, 2, 3]), |mut comm| {
        let node = comm.split_by_node().unwrap();
        (node.rank(), node.size())
    });
    let expected = [(0, 2), (1, 2), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
    assert_eq!(found, expected);
}

#[test]
fn a_window_is_shared_on_a_node_and_nowhere_else() {
    run(nodes(&[3, 3]), |mut comm| {
        assert!(comm.window(4).unwrap().is_none());
        let mut node = comm.split_by_node().unwrap();
        let mut window = node.window(4).unwrap().unwrap();
        let base = comm.rank() as f32;
        for round in 0..3 {
            if round < 2 {
                window.write(1, &[base + round as f32, 10.0]);
            } else {
                window.stream(1, &[base + round as f32, 10.0]);
            }
            window.sync().unwrap();
            let first = (comm.rank() / 3 * 3) as f32;
            // A rank's own terms are those it gives, whatever it wrote.
            let mut sums = [7.0, base + round as f32, 4.0];
            window.sum(0..3, &mut sums);
            let expected = 3.0 * (first + round as f32) + 3.0;
            assert_eq!(sums, [7.0, expected, 24.0]);
            let mut last = [0.0; 1];
            window.read(2, 1..2, &mut last);
            assert_eq!(last, [first + 2.0 + round as f32]);
            window.sync().unwrap();
        }
    });
}

#[test]
fn ranks_that_do_not_exist_are_refused() {
    let check = |comm: &mut dyn Communicator| {
        let size = comm.size();
        for error in [
            comm.send(size, &[]).unwrap_err(),
            comm.receive(size, &mut []).unwrap_err(),
            comm.send_receive(0, &[], size, &mut []).unwrap_err(),
        ] {
            assert!(matches!(error, CommError::Layout(_)), "{error}");
        }
    };
    let mut alone: Vec<Threads> = Ranks::nodes(&[1]).start();
    check(&mut alone[0]);
    check(&mut Solo::new());
}

#[test]
fn a_rank_may_send_to_itself() {
    let check = |comm: &mut dyn Communicator| {
        let mut found = [0; 2];
        comm.send(0, &[1, 2]).unwrap();
        comm.send_receive(0, &[3, 4], 0, &mut found).unwrap();
        assert_eq!(found, [1, 2]);
        comm.receive(0, &mut found).unwrap();
        assert_eq!(found, [3, 4]);
    };
    check(&mut Solo::new());
    check(&mut ranks(1)[0]);
    assert!(Solo::new().receive(0, &mut [0]).is_err());
}
