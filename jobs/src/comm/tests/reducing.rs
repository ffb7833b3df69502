//! The communication thread: order, moved buffers, lag, and errors that reach the caller.

use crate::comm::collectives::Choice;
use crate::comm::reducer::{Plan, Reducer};
use crate::comm::threads::{Fault, Ranks, Threads, ranks, run};
use crate::comm::{AllReduce, CommError, Communicator, Flat, Result, Wire, pin};

fn start(comm: &mut Threads, lengths: &[usize]) -> Reducer {
    let plan = Plan {
        rank: comm.rank(),
        lengths: lengths.to_vec(),
        scale: 1.0 / comm.size() as f32,
        cores: Vec::new(),
    };
    let engine = Flat::new(comm, Choice::Auto, Wire::F32).unwrap();
    Reducer::start(Box::new(engine), plan).unwrap()
}

#[test]
fn buckets_come_back_in_order_in_the_memory_they_came_in() {
    run(ranks(3), |mut comm| {
        let mut reducer = start(&mut comm, &[5, 0, 7]);
        let mut memory = Vec::new();
        for step in 0..4 {
            reducer.set_step(step);
            for (bucket, length) in [5, 0, 7].into_iter().enumerate() {
                let values = vec![(comm.rank() + bucket) as f32; length];
                memory.push(values.as_ptr() as usize);
                reducer.submit(bucket, values).unwrap();
            }
        }
        assert_eq!(reducer.outstanding(), 12);
        for (number, address) in memory.iter().enumerate() {
            let reduced = reducer.wait().unwrap().unwrap();
            let place = (reduced.step as usize, reduced.bucket);
            assert_eq!(place, (number / 3, number % 3));
            let average = 1.0 + (number % 3) as f32;
            assert!(reduced.values.iter().all(|v| (v - average).abs() < 1e-6));
            assert_eq!(reduced.values.as_ptr() as usize, *address);
            assert!(reduced.submitted <= reduced.started && reduced.started <= reduced.finished);
        }
        assert_eq!(reducer.progress().finished, 12);
        let engine = reducer.finish().unwrap();
        assert!(engine.bytes_sent() > 0);
    });
}

/// Gradient descent on a parabola for each rank: with lag 1 the update of step t uses the gradients of step t - 1, and
/// the first uses none.
#[test]
fn lag_is_the_number_of_steps_that_a_gradient_waits() {
    let (rate, steps) = (0.1_f64, 20);
    for lag in [0, 1] {
        let trained = run(ranks(4), |mut comm| {
            let target = comm.rank() as f32;
            let mut reducer = start(&mut comm, &[1]);
            let mut parameter = 5.0_f32;
            for step in 0..steps {
                reducer.set_step(step);
                reducer.submit(0, vec![parameter - target]).unwrap();
                if reducer.outstanding() > lag {
                    let reduced = reducer.wait().unwrap().unwrap();
                    assert_eq!(reduced.step + lag as u64, step);
                    parameter -= rate as f32 * reduced.values[0];
                }
            }
            while reducer.wait().unwrap().is_some() {}
            parameter
        });
        let (mut parameter, mut waiting) = (5.0_f64, Vec::new());
        for _ in 0..steps {
            waiting.push(parameter - 1.5);
            if waiting.len() > lag {
                parameter -= rate * waiting.remove(0);
            }
        }
        for found in trained {
            assert!(
                (f64::from(found) - parameter).abs() < 1e-5,
                "lag {lag}: {found}, {parameter}"
            );
        }
    }
}

#[test]
fn buckets_out_of_plan_are_refused_and_nothing_is_lost() {
    run(ranks(2), |mut comm| {
        let mut reducer = start(&mut comm, &[2, 3]);
        let error = reducer.submit(1, vec![0.0; 3]).unwrap_err().to_string();
        assert!(
            error.contains("bucket to be submitted in step 0: expected 0, got 1"),
            "{error}"
        );
        let error = reducer.submit(0, vec![0.0; 3]).unwrap_err().to_string();
        assert!(
            error.contains("values of bucket 0 in step 0: expected 2, got 3"),
            "{error}"
        );
        reducer.submit(0, vec![1.0; 2]).unwrap();
        assert_eq!(reducer.wait().unwrap().unwrap().values, [1.0, 1.0]);
    });
}

#[test]
fn an_error_reaches_every_caller_and_stays() {
    let layout = Ranks::nodes(&[3]).fault(1, 15, Fault::Dies);
    let errors = run(layout.start(), |mut comm| {
        let mut reducer = start(&mut comm, &[9]);
        let error = loop {
            if let Err(error) = reducer.submit(0, vec![1.0; 9]) {
                break error;
            }
            if let Err(error) = reducer.wait() {
                break error;
            }
        };
        assert_eq!(reducer.wait().unwrap_err(), error);
        assert_eq!(reducer.submit(0, vec![1.0; 9]).unwrap_err(), error);
        assert!(reducer.finish().is_err());
        error
    });
    for error in errors {
        assert!(matches!(error, CommError::Gone { .. }), "{error}");
    }
}

/// An engine with a mistake in it.
struct Panics;

impl AllReduce for Panics {
    fn all_reduce(&mut self, _values: &mut [f32], _scale: f32) -> Result<()> {
        panic!("a mistake that the test wants");
    }

    fn bytes_sent(&self) -> u64 {
        0
    }

    fn describe(&self) -> String {
        "panics".into()
    }
}

#[test]
fn a_panic_of_the_communication_thread_is_an_error_to_the_caller() {
    let plan = Plan {
        rank: 6,
        lengths: vec![1],
        scale: 1.0,
        cores: Vec::new(),
    };
    let mut reducer = Reducer::start(Box::new(Panics), plan).unwrap();
    reducer.submit(0, vec![0.0]).unwrap();
    let error = reducer.wait().unwrap_err();
    assert!(
        matches!(error, CommError::Library { rank: 6, .. }),
        "{error}"
    );
}

/// An engine that notes where it runs.
struct Notes(std::sync::mpsc::Sender<Vec<usize>>);

impl AllReduce for Notes {
    fn all_reduce(&mut self, _values: &mut [f32], _scale: f32) -> Result<()> {
        self.0.send(pin::stays_on().unwrap()).unwrap();
        Ok(())
    }

    fn bytes_sent(&self) -> u64 {
        0
    }

    fn describe(&self) -> String {
        "notes".into()
    }
}

/// Reserved cores sum; ones that are not there are a warning, and sums run all the same.
#[test]
fn sums_run_on_the_cores_that_are_kept_for_them() {
    let all = pin::stays_on().unwrap();
    let last = all[all.len() - 1];
    for (cores, expected) in [
        (vec![last], vec![last]),
        (Vec::new(), all.clone()),
        (vec![1 << 20], all.clone()),
    ] {
        let (notes, noted) = std::sync::mpsc::channel();
        let plan = Plan {
            rank: 0,
            lengths: vec![1],
            scale: 1.0,
            cores,
        };
        let mut reducer = Reducer::start(Box::new(Notes(notes)), plan).unwrap();
        reducer.submit(0, vec![0.0]).unwrap();
        reducer.wait().unwrap();
        assert_eq!(noted.recv().unwrap(), expected);
        assert_eq!(
            pin::stays_on().unwrap(),
            all,
            "the caller stays where it was"
        );
    }
}
