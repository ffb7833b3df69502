//! Ranks that are processes: each test starts itself under `mpirun` and judges in every rank.
//!
//! Where there is no `mpirun` the tests are skipped. `MPIRUN` names another launcher (that of MPICH, say).
#![cfg(feature = "mpi")]
#![allow(clippy::print_stdout)] // what a rank saw is said nowhere else

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use squall_data::testdata::{Need, lacks};
use squall_jobs::comm::launch::Launch;
use squall_jobs::comm::mpi::{Mpi, MpiAllReduce, PANIC_CODE, STALL_CODE, abort_on_panic};
use squall_jobs::comm::{AllReduce, Arrival, CommError, Communicator, Payload, doing};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Tells a copy of this program that it is a rank of this test.
const RANK_OF: &str = "SQUALL_TEST_RANK_OF";

/// The longest that a job of a test may take; all of them end by themselves long before.
const PATIENCE: Duration = Duration::from_secs(120);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// In a rank of this test: its end of the job. In the test itself: what the job of so many ranks left behind.
enum Side {
    Rank(Mpi),
    Test(Output),
    NoLauncher,
}

fn job(test: &str, ranks: usize) -> Side {
    if variable(RANK_OF).as_deref() == Some(test) {
        abort_on_panic();
        let mpi = Mpi::init().expect("MPI starts");
        let launch = Launch::detect(variable).expect("variables of a launcher");
        if let Some(launch) = launch {
            let seen = launch.check(mpi.rank(), mpi.size(), &mpi.describe());
            seen.expect("the launcher belongs to the library");
        }
        return Side::Rank(mpi);
    }
    let program = std::env::current_exe().expect("this program");
    let (launcher, count) = (variable("MPIRUN"), ranks.to_string());
    let mut command = if ranks == 1 {
        Command::new(&program)
    } else {
        let mut command = Command::new(launcher.as_deref().unwrap_or("mpirun"));
        command.args(["-n", &count]).arg(&program);
        command
    };
    // As root, with more ranks than cores, without spinning: Open MPI asks to be told. Version 5 reports an error for
    // every window where UCX finds no device; shared windows are not UCX's.
    let started = Instant::now();
    let output = command
        .args([test, "--nocapture"])
        .env(RANK_OF, test)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        .env("OMPI_MCA_mpi_yield_when_idle", "1")
        .env("OMPI_MCA_osc", "^ucx")
        .output();
    let taken = started.elapsed();
    assert!(taken < PATIENCE, "{test} took {taken:?}");
    match output {
        Ok(output) => Side::Test(output),
        Err(_) => {
            lacks(Need::Mpirun, "mpirun");
            Side::NoLauncher
        }
    }
}

/// Runs `rank` in every rank of a job and demands that all succeed.
fn on_ranks(test: &str, ranks: usize, rank: impl FnOnce(Mpi)) {
    match job(test, ranks) {
        Side::Rank(mpi) => rank(mpi),
        Side::Test(output) => assert!(output.status.success(), "{}", words(&output)),
        Side::NoLauncher => {}
    }
}

/// Runs `rank` in every rank of a job that must end with this code, saying this.
fn ends_with(test: &str, code: i32, saying: &str, rank: impl FnOnce(Mpi)) {
    match job(test, 3) {
        Side::Rank(mpi) => rank(mpi),
        Side::Test(output) => {
            let all = words(&output);
            assert_eq!(output.status.code(), Some(code), "{all}");
            assert!(all.contains(saying), "no `{saying}` in: {all}");
        }
        Side::NoLauncher => {}
    }
}

fn words(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

fn message(rank: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at * 31 + rank * 7 + at / 251) as u8)
        .collect()
}

/// Lengths at and around the borders of pieces, and more pieces than are under way at once.
#[test]
fn messages_of_every_length_arrive_whole() {
    on_ranks("messages_of_every_length_arrive_whole", 4, |mut mpi| {
        let (rank, size) = (mpi.rank(), mpi.size());
        let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
        let piece = 60 * 1024;
        for length in [0, 1, piece - 1, piece, piece + 1, 129 * piece + 3] {
            let mut received = vec![0; length];
            mpi.send_receive(next, &message(rank, length), before, &mut received)
                .expect("a ring step");
            assert!(received == message(before, length), "{length} bytes");
        }
        // Both directions at once may have different lengths, and a rank may talk to itself.
        let mut received = vec![0; if rank % 2 == 0 { 3 * piece } else { 5 }];
        let sent = message(rank, if rank % 2 == 0 { 5 } else { 3 * piece });
        mpi.send_receive(rank ^ 1, &sent, rank ^ 1, &mut received)
            .expect("an uneven exchange");
        assert!(received == message(rank ^ 1, received.len()));
        let mut own = vec![0; 9];
        mpi.send_receive(rank, &message(rank, 9), rank, &mut own)
            .expect("a message to itself");
        assert_eq!(own, message(rank, 9));
        if rank == 0 {
            mpi.send(3, b"one way").expect("sends");
        } else if rank == 3 {
            let mut text = [0; 7];
            mpi.receive(0, &mut text).expect("receives");
            assert_eq!(&text, b"one way");
        }
        mpi.barrier().expect("all come");
    });
}

/// A message is heard of before it is received, whole or not, and the preferred rank first.
#[test]
fn a_rank_waits_for_any_of_several() {
    on_ranks("a_rank_waits_for_any_of_several", 3, |mut mpi| {
        let length = 3 * 60 * 1024 + 5;
        if mpi.rank() > 0 {
            mpi.send(0, &message(mpi.rank(), length)).expect("sends");
            assert_eq!(mpi.offer(0, &[1]), Ok(true));
            mpi.barrier().expect("all come");
            return;
        }
        let long = Duration::from_secs(60);
        for peer in [1, 2] {
            assert_eq!(mpi.wait_any(&[peer], long), Ok(Arrival::Message(peer)));
        }
        for peer in [2, 1] {
            let order = [peer, 3 - peer];
            assert_eq!(mpi.wait_any(&order, long), Ok(Arrival::Message(peer)));
            let mut received = vec![0; length];
            mpi.receive(peer, &mut received).expect("receives");
            assert!(received == message(peer, length));
            mpi.receive(peer, &mut [0]).expect("receives");
            let none = mpi.wait_any(&[peer], Duration::from_millis(5));
            assert_eq!(none, Ok(Arrival::Nothing));
        }
        assert!(mpi.wait_any(&[3], long).is_err());
        mpi.barrier().expect("all come");
    });
}

#[test]
fn a_message_of_another_length_is_an_error() {
    on_ranks("a_message_of_another_length_is_an_error", 2, |mut mpi| {
        let piece = 60 * 1024;
        // Sent, expected, what the receiver makes of it.
        let cases = [
            (4, 8, 4),
            (8, 4, piece),
            (0, 4, 0),
            (piece, piece - 1, piece),
            (piece + 1, piece, 2 * piece),
        ];
        for (sent, expected, seen) in cases {
            if mpi.rank() == 0 {
                mpi.send(1, &message(0, sent)).expect("sends");
            } else {
                let mut bytes = vec![0; expected];
                let error = mpi.receive(0, &mut bytes).expect_err("another length");
                let CommError::Size {
                    rank: 1,
                    expected: want,
                    got,
                    ..
                } = error
                else {
                    panic!("{error}")
                };
                assert_eq!((want, got), (expected, seen));
            }
            if (sent, expected) == (piece + 1, piece) {
                return; // the second piece is left over: no more messages between these two
            }
        }
    });
}

#[test]
fn a_rank_that_does_not_exist_is_an_error() {
    on_ranks("a_rank_that_does_not_exist_is_an_error", 2, |mut mpi| {
        let error = mpi.send(2, b"to nobody").expect_err("there are 0 and 1");
        assert!(error.to_string().contains("no rank 2 among 2"), "{error}");
        assert!(Mpi::init().is_err(), "MPI starts once");
    });
}

#[test]
fn groups_are_split_and_ordered() {
    on_ranks("groups_are_split_and_ordered", 4, |mut mpi| {
        let rank = mpi.rank();
        let colour = (rank != 3).then_some(7);
        let group = mpi.split(colour, 10 - rank).expect("a split");
        assert_eq!(group.is_some(), rank != 3);
        if let Some(mut group) = group {
            assert_eq!((group.rank(), group.size()), (2 - rank, 3));
            let mut seen = [0];
            let (next, before) = ((group.rank() + 1) % 3, (group.rank() + 2) % 3);
            group
                .send_receive(next, &[rank as u8], before, &mut seen)
                .expect("inside the group");
            assert_eq!(usize::from(seen[0]), (rank + 1) % 3);
        }
        let node = mpi.split_by_node().expect("one node");
        assert_eq!((node.rank(), node.size()), (rank, 4));
    });
}

#[test]
fn a_window_sums_in_the_order_of_rank() {
    on_ranks("a_window_sums_in_the_order_of_rank", 4, |mut mpi| {
        let (rank, floats) = (mpi.rank(), 5000);
        let mut window = mpi.window(floats).expect("no failure").expect("one node");
        let values = |rank: usize| -> Vec<f32> {
            (0..floats)
                .map(|at| (at as f32 + 0.1) * 3f32.powi(rank as i32 * 5))
                .collect()
        };
        for round in 0..4 {
            let own = values((rank + round) % 4);
            if round < 2 {
                window.write(0, &own);
            } else {
                // Past the caches, from and to places that no vector begins at.
                window.stream(0, &own[..1]);
                window.stream(1, &own[1..round]);
                window.stream(round, &own[round..floats - 1]);
                window.stream(floats - 1, &own[floats - 1..]);
            }
            window.sync().expect("written");
            let mut sums = own[3..floats - 4].to_vec();
            window.sum(3..floats - 4, &mut sums);
            let [first, second, third, last] = [0, 1, 2, 3].map(|rank| values((rank + round) % 4));
            for (at, sum) in (3..).zip(&sums) {
                let expected = first[at] + second[at] + third[at] + last[at];
                assert_eq!(sum.to_bits(), expected.to_bits(), "position {at}");
            }
            let mut read = vec![0.0; 100];
            window.read((rank + 1) % 4, 50..150, &mut read);
            assert_eq!(read, values((rank + 1 + round) % 4)[50..150]);
            window.sync().expect("read");
        }
    });
}

#[test]
fn the_library_sums_in_place() {
    on_ranks("the_library_sums_in_place", 4, |mpi| {
        for chunk in [None, Some(1000), Some(1 << 20)] {
            let mut library = MpiAllReduce::new(&mpi, chunk).expect("a group");
            let mut values: Vec<f32> = (0..4097).map(|at| (at + mpi.rank()) as f32).collect();
            library.all_reduce(&mut values, 0.25).expect("a sum");
            for (at, value) in values.iter().enumerate() {
                assert_eq!(*value, at as f32 + 1.5);
            }
            assert_eq!(library.bytes_sent(), 2 * 3 * 4097 * 4 / 4);
        }
    });
}

/// Started by hand a program is alone, and MPI says nothing about it.
#[test]
fn a_program_without_launcher_is_alone_and_quiet() {
    let test = "a_program_without_launcher_is_alone_and_quiet";
    match job(test, 1) {
        Side::Rank(mut mpi) => {
            assert_eq!((mpi.rank(), mpi.size()), (0, 1));
            mpi.barrier().expect("alone");
            let window = mpi.window(16).expect("no failure");
            assert!(window.is_some());
        }
        Side::Test(output) => {
            assert!(output.status.success(), "{}", words(&output));
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        }
        Side::NoLauncher => unreachable!("this program starts itself"),
    }
}

/// The others wait for the one that panics: without the hook they would for ever.
#[test]
fn a_panic_ends_the_job() {
    ends_with(
        "a_panic_ends_the_job",
        PANIC_CODE,
        "rank 1 breaks",
        |mut mpi| {
            assert_ne!(mpi.rank(), 1, "rank 1 breaks");
            mpi.barrier().expect("never");
        },
    );
}

/// A library that panics over a damaged file has said that the file is damaged, no more.
#[test]
fn a_panic_that_is_caught_does_not_end_the_job() {
    on_ranks(
        "a_panic_that_is_caught_does_not_end_the_job",
        2,
        |mut mpi| {
            let answer = squall_data::caught::caught(|| assert_ne!(mpi.rank(), 1));
            assert_eq!(answer.is_none(), mpi.rank() == 1);
            mpi.barrier().expect("both are here");
        },
    );
}

#[test]
fn a_stall_is_named_and_ends_the_job() {
    let named = "receiving from rank 1 has not advanced for";
    ends_with(
        "a_stall_is_named_and_ends_the_job",
        STALL_CODE,
        named,
        |mut mpi| {
            if mpi.rank() == 1 {
                std::thread::sleep(PATIENCE);
            }
            let report = |error: &CommError| println!("{error}");
            assert!(mpi.abort_when_stalled(Duration::from_secs(1), report));
            let mut bytes = [0; 8];
            mpi.receive(1, &mut bytes).expect("never");
        },
    );
}

/// One of three ranks sleeps; the others do `work` and wait no longer than a second.
fn while_one_sleeps(test: &str, saying: &str, work: impl FnOnce(&mut Mpi)) {
    ends_with(test, STALL_CODE, saying, |mut mpi| {
        if mpi.rank() == 1 {
            std::thread::sleep(PATIENCE);
        }
        let report = |error: &CommError| println!("{error}");
        assert!(mpi.abort_when_stalled(Duration::from_secs(1), report));
        work(&mut mpi);
        // Its end waits for the others too.
    });
}

#[test]
fn a_stall_says_what_it_waited_for() {
    let test = "a_stall_says_what_it_waited_for";
    while_one_sleeps(
        test,
        "validation: scores: a barrier has not advanced",
        |mpi| {
            let _outer = doing::begin("validation");
            let _inner = doing::begin("scores");
            mpi.barrier().expect("never");
        },
    );
}

/// Groups are made inside the library, where nobody can look at a clock.
#[test]
fn a_stall_inside_the_library_is_named() {
    let test = "a_stall_inside_the_library_is_named";
    while_one_sleeps(test, "MPI_Comm_split has not advanced for 1.", |mpi| {
        mpi.split(Some(0), 0).expect("never");
    });
}

#[test]
fn a_stall_at_the_end_is_named() {
    let test = "a_stall_at_the_end_is_named";
    let saying = "the end, where all ranks meet, has not advanced for 1.";
    while_one_sleeps(test, saying, |_| ());
}

/// In a group ranks have other numbers; people know those of the job.
#[test]
fn a_stall_in_a_group_names_ranks_of_the_job() {
    let test = "a_stall_in_a_group_names_ranks_of_the_job";
    ends_with(
        test,
        STALL_CODE,
        "rank 2: a message exchange, receiving from rank 1 has not advanced",
        |mut mpi| {
            let rank = mpi.rank();
            let group = mpi.split(Some(u32::from(rank > 0)), 9 - rank);
            let mut group = group.expect("a split").expect("a colour");
            if rank < 2 {
                std::thread::sleep(PATIENCE);
            }
            let report = |error: &CommError| println!("{error}");
            assert!(mpi.abort_when_stalled(Duration::from_secs(1), report));
            assert_eq!((group.rank(), group.size()), (0, 2));
            group.receive(1, &mut [0]).expect("never");
        },
    );
}

/// A limit that is raised, and a wait that may last, are no stalls.
#[test]
fn patience_is_no_stall() {
    on_ranks("patience_is_no_stall", 2, |mut mpi| {
        let report = |error: &CommError| println!("{error}");
        assert!(mpi.abort_when_stalled(Duration::from_millis(200), report));
        let pause = Duration::from_millis(900);
        if mpi.rank() == 1 {
            std::thread::sleep(pause);
        }
        let patient = doing::patiently();
        mpi.barrier().expect("late, but there");
        if mpi.rank() == 1 {
            std::thread::sleep(pause);
        }
        mpi.split(Some(0), 0).expect("late, but there");
        drop(patient);
        mpi.limit_waits(Duration::from_secs(60));
        if mpi.rank() == 1 {
            std::thread::sleep(pause);
        }
        mpi.barrier().expect("late, but there");
    });
}

/// Memory that is not there is no error: the answer is the same on all ranks, and the job goes on without.
#[test]
fn a_window_without_room_is_none() {
    on_ranks("a_window_without_room_is_none", 3, |mut mpi| {
        let window = mpi.window(1 << 40).expect("no failure");
        assert!(window.is_none());
        let window = mpi.window(1000).expect("no failure");
        assert!(window.is_some());
        mpi.barrier().expect("all come");
    });
}

/// Shared memory is a file, which the limit of one rank may not let grow: all of them go on without.
#[test]
fn a_window_beyond_the_limit_is_none() {
    on_ranks("a_window_beyond_the_limit_is_none", 3, |mut mpi| {
        let usual = getrlimit(Resource::Fsize);
        if mpi.rank() == 0 {
            let current = Some(2 << 20);
            setrlimit(Resource::Fsize, Rlimit { current, ..usual }).expect("a lower limit");
        }
        let window = mpi.window(1 << 20).expect("no failure");
        assert!(window.is_none());
        setrlimit(Resource::Fsize, usual).expect("the limit from before");
        let window = mpi.window(1 << 20).expect("no failure");
        assert!(window.is_some());
        mpi.barrier().expect("all come");
    });
}

/// A batch system may stop a whole job for a while: time in which nobody could have come is nobody's fault.
#[test]
fn a_job_that_was_stopped_goes_on() {
    on_ranks("a_job_that_was_stopped_goes_on", 2, |mut mpi| {
        let report = |error: &CommError| println!("{error}");
        let limit = Duration::from_secs(4);
        assert!(mpi.abort_when_stalled(limit, report));
        let own = std::process::id();
        let stop = format!("sleep 0.5; kill -STOP {own}; sleep 4.5; kill -CONT {own}");
        let shell = Command::new("sh").args(["-c", &stop]).spawn();
        let began = Instant::now();
        if mpi.rank() == 1 {
            while began.elapsed() < Duration::from_millis(5500) {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        mpi.barrier().expect("late, but there");
        assert!(began.elapsed() > limit, "it was not stopped");
        shell.expect("a shell").wait().expect("its end");
    });
}

/// Who says that another is not there any more gets out of a message to it or from it; that one retires, and the job
/// ends well.
#[test]
fn messages_with_a_departed_rank_end() {
    on_ranks("messages_with_a_departed_rank_end", 3, |mut mpi| {
        let rank = mpi.rank();
        let apart = mpi.split(Some(0), mpi.rank()).expect("a group");
        let apart = apart.expect("a colour was given");
        let (start, lives) = (Instant::now(), Duration::from_millis(600));
        let there = || start.elapsed() < lives;
        // More than the library takes without a receiver.
        let payload = Payload::Values(vec![1.0; 5_000_000]);
        match rank {
            0 => {
                let sent = mpi
                    .send_while(1, payload.clone(), &there)
                    .expect("no failure");
                assert!(sent.is_none() && !there());
                // Whoever is there gets all of it.
                let there = || true;
                let sent = mpi
                    .send_while(2, payload.clone(), &there)
                    .expect("no failure");
                assert_eq!(sent, Some(payload));
            }
            1 => {
                std::thread::spawn(move || {
                    std::thread::sleep(lives / 2);
                    apart.retire()
                });
                // It waits when it retires, and not even a barrier of the others brings it back.
                mpi.receive(2, &mut [0]).expect("never");
                unreachable!("a rank that has retired went on");
            }
            _ => {
                let mut nothing = [7; 4];
                let came = mpi
                    .receive_while(1, &mut nothing, &there)
                    .expect("no failure");
                assert_eq!((came, nothing, there()), (false, [7; 4], false));
                let mut values = vec![0.0f32; 5_000_000];
                let bytes = bytemuck::cast_slice_mut(&mut values);
                assert!(mpi.receive_while(0, bytes, &|| true).expect("no failure"));
                assert_eq!(Payload::Values(values), payload);
                // By now it has retired, and takes nothing.
                mpi.send(1, &[1]).expect("no failure");
            }
        }
    });
}

/// A stall of which somebody else hears does not end the job.
#[test]
fn a_stall_may_be_told_to_others() {
    on_ranks("a_stall_may_be_told_to_others", 2, |mut mpi| {
        let apart = mpi.split(Some(0), mpi.rank()).expect("a group");
        let apart = apart.expect("a colour was given");
        if mpi.rank() == 0 {
            // It never sends, and comes to the end when the other has retired.
            return std::thread::sleep(Duration::from_secs(1));
        }
        let never = |error: &CommError| println!("{error}");
        assert!(mpi.abort_when_stalled(Duration::from_millis(200), never));
        let (tell, told) = std::sync::mpsc::channel();
        mpi.on_stall(Some(Box::new(move |stall| {
            tell.send(stall.clone()).expect("heard")
        })));
        std::thread::spawn(move || {
            let stall: CommError = told.recv().expect("a stall");
            assert!(
                stall.to_string().contains("receiving from rank 0"),
                "{stall}"
            );
            apart.retire()
        });
        mpi.receive(0, &mut [0]).expect("never");
    });
}
