//! Ranks that go, and ranks that are late: an error or a diagnosis everywhere, a hang nowhere.

use crate::comm::collectives::Choice;
use crate::comm::reducer::Plan;
use crate::comm::threads::{Fault, Ranks, run};
use crate::comm::{
    AllReduce, CommError, Communicator, Flat, Grid, Hierarchical, HierarchicalOptions, Reducer,
    Result, Watchdog, Wire,
};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Long enough that it never ends by itself.
fn reduce_for_ever(mut engine: Box<dyn AllReduce>) -> CommError {
    loop {
        if let Err(error) = engine.all_reduce(&mut [1.0; 100], 1.0) {
            return error;
        }
    }
}

fn make(kind: usize, comm: &mut dyn Communicator) -> Result<Box<dyn AllReduce>> {
    let options = |shared_memory| HierarchicalOptions {
        shared_memory,
        values_at_once: 64,
        ..HierarchicalOptions::default()
    };
    Ok(match kind {
        0 => Box::new(Flat::new(comm, Choice::Ring, Wire::F32)?),
        1 => Box::new(Flat::new(comm, Choice::Halving, Wire::Bf16)?),
        2 => Box::new(Grid::square(comm, Choice::Auto, Wire::F32)?),
        3 => Box::new(Hierarchical::new(comm, &options(true))?),
        _ => Box::new(Hierarchical::new(comm, &options(false))?),
    })
}

#[test]
fn a_rank_that_dies_ends_in_errors_everywhere_within_two_seconds() {
    for kind in 0..5 {
        for (dying, operation) in [(0, 40), (2, 61), (5, 3)] {
            let layout = Ranks::nodes(&[2, 2, 2]).fault(dying, operation, Fault::Dies);
            let start = Instant::now();
            let errors = run(layout.start(), |mut comm| {
                // The communicator stays alive: it is the failed operation that tells the others, not the drop.
                match make(kind, &mut comm) {
                    Ok(engine) => reduce_for_ever(engine),
                    Err(error) => error,
                }
            });
            let seconds = start.elapsed().as_secs_f64();
            assert!(seconds < 2.0, "engine {kind}: {seconds} s");
            for (rank, error) in errors.into_iter().enumerate() {
                let named = matches!(&error, CommError::Gone { rank: by, .. } if *by == rank);
                assert!(named, "engine {kind}, rank {rank}: {error}");
            }
        }
    }
}

#[test]
fn a_rank_that_is_dropped_is_gone_for_messages_barriers_and_splits() {
    let operations: [fn(&mut dyn Communicator) -> Result<()>; 5] = [
        |comm| comm.barrier(),
        |comm| comm.split(Some(0), 0).map(|_| ()),
        |comm| comm.window(1).map(|_| ()),
        |comm| comm.receive(1, &mut [0]),
        |comm| comm.send_receive(1, &[0], 1, &mut [0]),
    ];
    for operation in operations {
        let errors = run(Ranks::nodes(&[3]).start(), |mut comm| {
            if comm.rank() == 1 {
                return None;
            }
            operation(&mut comm).err()
        });
        for rank in [0, 2] {
            let gone =
                matches!(&errors[rank], Some(CommError::Gone { rank: by, .. }) if *by == rank);
            assert!(gone, "{errors:?}");
        }
    }
}

/// What a rank sent before it went is still delivered: the last one out of a collective does not break it.
#[test]
fn messages_of_a_rank_that_has_left_still_arrive() {
    let found = run(Ranks::nodes(&[2]).start(), |mut comm| {
        if comm.rank() == 0 {
            return comm.send(1, &[9]).map(|()| 0);
        }
        std::thread::sleep(Duration::from_millis(50));
        let mut found = [0];
        comm.receive(0, &mut found).map(|()| found[0])
    });
    assert_eq!(found, [Ok(0), Ok(9)]);
}

#[test]
fn a_limit_turns_waiting_into_an_error() {
    let limit = Duration::from_millis(80);
    let late = Fault::Sleeps(Duration::from_millis(400));
    let layout = Ranks::nodes(&[2]).limit(limit).fault(1, 0, late);
    let errors = run(layout.start(), |mut comm| comm.barrier().err());
    match &errors[0] {
        Some(CommError::Stalled {
            rank: 0,
            doing,
            waited,
        }) => assert!(doing == "a barrier" && *waited >= limit),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_watchdog_names_rank_bucket_and_step_and_says_nothing_before() {
    let late = Fault::Sleeps(Duration::from_millis(600));
    // Operations before the sums are those of the duplicate.
    let layout = Ranks::nodes(&[2]).fault(1, 22, late);
    let (tell, told) = channel();
    run(layout.start(), |mut comm| {
        let rank = comm.rank();
        let engine = Flat::new(&mut comm, Choice::Ring, Wire::F32).unwrap();
        let plan = Plan {
            rank,
            lengths: vec![8, 4],
            scale: 0.5,
            cores: Vec::new(),
        };
        let mut reducer = Reducer::start(Box::new(engine), plan).unwrap();
        let tell = tell.clone();
        let limit = Duration::from_millis(150);
        let bark = move |error| tell.send(error).unwrap();
        let _watchdog = Watchdog::start(reducer.progress_reader(), rank, limit, bark).unwrap();
        for step in 0..10 {
            reducer.set_step(step);
            for (bucket, length) in [(0, 8), (1, 4)] {
                reducer.submit(bucket, vec![1.0; length]).unwrap();
            }
            while let Some(reduced) = reducer.wait().unwrap() {
                assert!(reduced.values.iter().all(|value| *value == 1.0));
            }
        }
    });
    drop(tell);
    let told: Vec<CommError> = told.iter().collect();
    // Both stand in the same bucket: one asleep, the other waiting.
    assert_eq!(told.len(), 2, "{told:?}");
    for error in told {
        let CommError::Stalled { doing, waited, .. } = &error else {
            panic!("{error}");
        };
        let expected = "the sum of bucket 0 in step 5, after 10 finished buckets,";
        assert_eq!(doing, expected);
        assert!(*waited > Duration::from_millis(150));
    }
}
