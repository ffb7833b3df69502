//! All that needs no GPU, with a stand-in that sums by messages; and that without a GPU every rank is told so.

use super::*;
use crate::comm::collectives::Choice;
use crate::comm::threads::{Ranks, Threads, nodes, run};
use crate::comm::{Flat, Solo, Wire};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a rank is inside NCCL that stays there.
const STAY: Duration = Duration::from_millis(2500);

/// What was asked of all stand-ins.
type Calls = Arc<Mutex<Vec<String>>>;

/// A GPU that is none: it sums by messages of its own, and fails where it is told to.
struct StandIn {
    flat: Flat,
    node: Box<dyn Communicator>,
    room: usize,
    uuid: u8,
    fails_at: &'static str,
    calls: Calls,
}

impl StandIn {
    fn call(&self, what: &str, argument: usize) -> Result<()> {
        let mut calls = self.calls.lock().unwrap();
        calls.push(format!("{what} {argument}"));
        if self.fails_at != what {
            return Ok(());
        }
        Err(CommError::Layout(format!("{what} was told to fail")))
    }
}

impl Gpu for StandIn {
    fn uuid(&self) -> [u8; 16] {
        [self.uuid; 16]
    }

    fn ticket(&self) -> Result<Ticket> {
        self.call("ticket", 0)?;
        Ok(std::array::from_fn(|place| place as u8))
    }

    fn join(self: Box<Self>, size: usize, ticket: Ticket) -> Result<Box<dyn Group>> {
        self.call("join", size)?;
        if self.fails_at == "stay" {
            std::thread::sleep(STAY);
        }
        let expected = |(place, &byte): (usize, &u8)| usize::from(byte) == place;
        assert!(ticket.iter().enumerate().all(expected));
        Ok(self)
    }
}

impl Group for StandIn {
    fn room(&self) -> usize {
        self.room
    }

    fn make_room(&mut self, length: usize) -> Result<()> {
        self.room = length;
        self.call("make room", length)
    }

    fn sum(&mut self, values: &mut [f32]) -> Result<()> {
        assert!(values.len() <= self.room);
        self.flat.all_reduce(values, 1.0)
    }

    fn sum_parts(
        &mut self,
        values: &mut [f32],
        parts: &[Range<usize>],
        between: &mut dyn FnMut(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        assert!(values.len() <= self.room);
        self.flat.all_reduce(values, 1.0)?;
        // Only a leader's own part is its to change; the others come from theirs.
        let rank = self.node.rank();
        if let Some(own) = parts.get(rank).filter(|part| !part.is_empty()) {
            between(&mut values[own.clone()])?;
        }
        for (leader, part) in parts.iter().enumerate() {
            if leader != rank {
                values[part.clone()].fill(f32::NAN);
            }
            tree::broadcast_values(&mut *self.node, &mut values[part.clone()], leader)?;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        "a stand-in".into()
    }
}

impl StandIn {
    fn new(
        comm: &mut dyn Communicator,
        uuid: usize,
        fails_at: &'static str,
        calls: &Calls,
    ) -> Self {
        Self {
            flat: Flat::new(comm, Choice::Auto, Wire::F32).unwrap(),
            node: comm.split(Some(0), comm.rank()).unwrap().unwrap(),
            room: 0,
            uuid: uuid as u8,
            fails_at,
            calls: Arc::clone(calls),
        }
    }
}

/// Sets up a stand-in with this UUID for GPU 0 of every process.
fn start(comm: &mut Threads, uuid: usize, fails_at: &'static str, calls: &Calls) -> Result<Nccl> {
    let stand_in = StandIn::new(comm, uuid, fails_at, calls);
    let open = |_| {
        stand_in.call("open", 0)?;
        Ok(Box::new(stand_in) as Box<dyn Gpu>)
    };
    Nccl::with(comm, 0, open)
}

fn count(calls: &Calls, what: &str) -> usize {
    let calls = calls.lock().unwrap();
    calls.iter().filter(|call| call.starts_with(what)).count()
}

#[test]
fn values_are_scaled_and_summed_and_the_buffer_grows_only_for_longer_ones() {
    let calls = Calls::default();
    run(nodes(&[2, 1]), |mut comm| {
        let rank = comm.rank();
        // The same UUID on another node is another GPU.
        let mut nccl = start(&mut comm, rank % 2, "", &calls).unwrap();
        for length in [3, 10, 0, 5, 11, 11] {
            let own = |place: usize| (place * (rank + 1)) as f32;
            let mut values: Vec<f32> = (0..length).map(own).collect();
            nccl.all_reduce(&mut values, 0.5).unwrap();
            let expected: Vec<f32> = (0..length).map(|place| 3.0 * place as f32).collect();
            assert_eq!(values, expected);
        }
        // A ring of three sends each value's four bytes 4/3 times: 16, 53, 0, 26, 58 and 58 bytes.
        assert_eq!(nccl.bytes_sent(), 211);
        assert_eq!(nccl.describe(), "a stand-in, 3 ranks, f32 on the wire");
    });
    let lengths = ["make room 3", "make room 10", "make room 11"];
    assert_eq!(lengths.map(|length| count(&calls, length)), [3; 3]);
    assert_eq!(count(&calls, "make room"), 9);
    assert_eq!((count(&calls, "ticket"), count(&calls, "join 3")), (1, 3));
}

#[test]
fn two_ranks_of_a_node_with_one_gpu_are_refused_on_all_ranks_before_nccl_is_called() {
    let calls = Calls::default();
    let errors = run(nodes(&[1, 3]), |mut comm| {
        let uuid = [1, 1, 2, 1][comm.rank()];
        let refused = start(&mut comm, uuid, "", &calls).err();
        refused.unwrap().to_string()
    });
    for error in errors {
        let expected =
            "rank 1 (GPU 0) and rank 3 (GPU 0), both on the node of rank 1, have the same GPU";
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!((count(&calls, "ticket"), count(&calls, "join")), (0, 0));
}

#[test]
fn what_fails_on_one_rank_fails_on_all_and_nobody_waits() {
    for (faulty, stage, call) in [
        (2, "open", "opening a GPU"),
        (0, "ticket", "ncclGetUniqueId"),
        (1, "join", "ncclCommInitRank"),
    ] {
        let calls = Calls::default();
        let errors = run(nodes(&[4]), |mut comm| {
            let rank = comm.rank();
            let fails_at = if rank == faulty { stage } else { "" };
            let failed = start(&mut comm, rank, fails_at, &calls).err();
            failed.unwrap().to_string()
        });
        for (rank, error) in errors.iter().enumerate() {
            let expected = match rank == faulty {
                true => format!("{stage} was told to fail"),
                false => format!(
                    "rank {rank}: {call} failed: not here, but on rank {faulty}, whose own error says why"
                ),
            };
            assert_eq!(*error, expected);
        }
        // A rank that fails while it joins may leave others inside NCCL; before that none may get there.
        let joins = count(&calls, "join");
        assert_eq!(joins, if stage == "join" { 4 } else { 0 }, "{stage}");
    }
}

/// A rank that cannot join waits for one that NCCL keeps: what ends the job tells the reason.
#[test]
fn a_wait_for_ranks_that_nccl_keeps_tells_why_this_one_is_not_there() {
    let calls = Calls::default();
    let layout = Ranks::nodes(&[2]).limit(Duration::from_secs(1));
    let errors = run(layout.start(), |mut comm| {
        let rank = comm.rank();
        start(&mut comm, rank, ["stay", "join"][rank], &calls).err()
    });
    match &errors[1] {
        Some(CommError::Stalled { rank: 1, doing, .. }) => {
            assert!(
                doing.starts_with("after join was told to fail: "),
                "{doing}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// Without a GPU the errors are what is tested; with one, a group of one rank, and that two ranks cannot share it.
#[test]
fn a_machine_without_gpu_says_what_is_missing_on_all_ranks_and_one_with_a_gpu_sums() {
    let alone = Nccl::new(&mut Solo::new(), 0);
    let errors = run(nodes(&[2]), |mut comm| {
        let error = Nccl::new(&mut comm, 0).err().unwrap();
        (comm.rank(), error.to_string())
    });
    let mut nccl = match alone {
        Ok(nccl) => nccl,
        Err(CommError::Library { call, .. }) => {
            for (rank, error) in errors {
                let named = error.starts_with(&format!("rank {rank}: {call} failed: "));
                assert!(named, "{error}");
                let advice = match call {
                    "loading libcuda" => "run on a machine with a GPU",
                    "loading libnccl" => "ln -s /where/it/is/libnccl.so.2 folder/libnccl.so",
                    _ => "",
                };
                assert!(error.contains(advice), "{error}");
            }
            return;
        }
        Err(error) => panic!("{error}"),
    };
    for (_, error) in errors {
        assert!(error.contains("have the same GPU"), "{error}");
    }
    for length in [1, 1000, 77] {
        let mut values: Vec<f32> = (0..length).map(|place| place as f32).collect();
        let expected: Vec<f32> = values.iter().map(|value| value * 0.25).collect();
        nccl.all_reduce(&mut values, 0.25).unwrap();
        assert_eq!(values, expected);
    }
    assert!(nccl.describe().starts_with("NCCL "), "{}", nccl.describe());
}

#[test]
fn inside_nodes_the_three_phases_give_what_one_phase_gives() {
    for leaders in [1, 2, 3] {
        let calls = Calls::default();
        run(nodes(&[3, 3]), |mut comm| {
            let rank = comm.rank();
            let options = HierarchicalOptions {
                leaders: Some(leaders),
                values_at_once: 7,
                ..HierarchicalOptions::default()
            };
            let connect = |all: &mut dyn Communicator, node: &mut dyn Communicator| {
                let gpu = StandIn::new(node, rank, "", &calls);
                Nccl::connect_node(all, node, |_| Ok(Box::new(gpu) as Box<dyn Gpu>))
            };
            let mut sums = Hierarchical::with_node(&mut comm, &options, connect).unwrap();
            for length in [1, 2, 7, 20] {
                let mut values: Vec<f32> = (0..length).map(|at| (at + rank) as f32).collect();
                sums.all_reduce(&mut values, 0.5).unwrap();
                let expected: Vec<f32> = (0..length).map(|at| (6 * at + 15) as f32 / 2.0).collect();
                assert_eq!(values, expected, "{leaders} leaders, {length} values");
            }
            assert!(sums.describe().contains("NCCL inside"));
        });
    }
}

#[test]
fn a_node_without_a_gpu_stops_all_nodes() {
    let calls = Calls::default();
    let answers = run(nodes(&[2, 2]), |mut comm| {
        let rank = comm.rank();
        let connect = |all: &mut dyn Communicator, node: &mut dyn Communicator| {
            let gpu = StandIn::new(node, rank, if rank == 3 { "join" } else { "" }, &calls);
            Nccl::connect_node(all, node, |_| Ok(Box::new(gpu) as Box<dyn Gpu>))
        };
        let options = HierarchicalOptions::default();
        Hierarchical::with_node(&mut comm, &options, connect).map(|_| ())
    });
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
}
