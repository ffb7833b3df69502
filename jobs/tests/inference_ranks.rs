//! Inference on many ranks: the same files, byte for byte, for any number of them and whatever happens on the way.

mod common;

use common::CHANNELS;
use common::fields::{contents, history, prepared};
use squall_data::archive::{Archive, BadFiles};
use squall_jobs::comm::{Arrival, CommError, Communicator, Window, threads};
use squall_jobs::infer::{
    BadInput, Ensemble, FilePer, InferOptions, InferReport, Inference, Input, Model, open_archive,
};
use squall_jobs::{InferEvent, JobError, Outcome};
use squall_model::Precision;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Two times share a file, so that there are ten.
fn options() -> InferOptions {
    InferOptions {
        file_per: FilePer::Times(NonZeroUsize::new(2).unwrap()),
        batch: NonZeroUsize::new(2),
        bad_input: BadInput::Skip,
        ..InferOptions::default()
    }
}

/// What every rank reports; none if it panicked.
type Reports = Vec<Option<Result<InferReport, JobError>>>;

/// Infers on so many ranks; `act` hears of every event of every rank.
fn on_ranks(
    ranks: usize,
    (archive, model): (&Archive, &Model),
    (out, options): (&Path, &InferOptions),
    act: impl Fn(usize, &InferEvent<'_>, &AtomicBool) + Sync,
) -> Reports {
    threads::run(threads::ranks(ranks), |mut comm| {
        let rank = comm.rank();
        let stop = AtomicBool::new(false);
        let inference = Inference {
            input: Input::archive(archive),
            ensemble: Ensemble::of(model),
            out,
            options,
        };
        let mut tell = |event: &InferEvent<'_>| act(rank, event, &stop);
        let run = AssertUnwindSafe(|| inference.run(&mut comm, &mut tell, &stop));
        catch_unwind(run).ok()
    })
}

fn assert_same(a: &Path, b: &Path, what: &str) {
    let (a, b) = (contents(a), contents(b));
    let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
        files.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&a), names(&b), "{what}");
    for ((name, a), (_, b)) in a.iter().zip(&b) {
        assert!(a == b, "{what}: {name} has other bytes");
    }
}

#[test]
fn folders_are_the_same_for_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    // A time that cannot be used, so that there is something to skip.
    history(&Path::new(&input).join("h2.c.nc"), 20..23, None, Some(21)).unwrap();
    let archive = Archive::open(&input).unwrap();
    let alone = folder.path().join("alone");
    let report = on_ranks(1, (&archive, &model), (&alone, &options()), |_, _, _| {}).remove(0);
    let alone_report = report.unwrap().unwrap();
    assert_eq!((alone_report.masks, alone_report.skipped.len()), (22, 1));
    let spent = alone_report.spent;
    let sum = spent.network + spent.input + spent.output + spent.rest;
    assert!(spent.network > 0.0 && (sum - 1.0).abs() < 1e-6, "{spent:?}");
    for ranks in [2, 3, 5, 14] {
        let out = folder.path().join(format!("on{ranks}"));
        let (made, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let count = |rank: usize, event: &InferEvent<'_>, _: &AtomicBool| match event {
            InferEvent::Started(plan) => {
                assert_eq!((plan.times, plan.ranks), (23, ranks));
                let idle = plan
                    .notes
                    .iter()
                    .any(|note| note.contains("have nothing to do"));
                assert_eq!(idle, ranks > 12);
            }
            InferEvent::Mask { done, total, .. } => {
                made.fetch_add(1, Ordering::Relaxed);
                assert!(done <= total);
                if rank == 0 {
                    told.fetch_max(*done, Ordering::Relaxed);
                }
            }
            _ => {}
        };
        let reports = on_ranks(ranks, (&archive, &model), (&out, &options()), count);
        for report in reports {
            let report = report.unwrap().unwrap();
            assert_eq!((report.outcome, report.ranks), (Outcome::Finished, ranks));
            assert_eq!((report.masks, report.new_masks), (22, 22));
            assert_eq!(report.skipped, alone_report.skipped);
        }
        assert_eq!(made.into_inner(), 22, "{ranks} ranks made some masks twice");
        assert!(told.into_inner() <= 23);
        assert_same(&out, &alone, &format!("{ranks} ranks"));
        // No claim is left behind.
        let hidden = std::fs::read_dir(&out).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with(".claims")
        });
        assert_eq!(hidden.count(), 0);
    }
}

/// Ranks panic or are told to stop at random masks; other numbers of ranks go on, again and again.
#[test]
fn killed_and_continued_by_other_numbers_of_ranks_it_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let whole = folder.path().join("whole");
    on_ranks(1, (&archive, &model), (&whole, &options()), |_, _, _| {});
    let mut state = 12345u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((state >> 33) % below) as usize
    };
    std::panic::set_hook(Box::new(|_| {}));
    for attempt in 0..8 {
        let out = folder.path().join(format!("killed{attempt}"));
        let mut before = 0;
        for call in 0..4 {
            let ranks = 1 + random(4);
            let (victim, at, panics) = (random(ranks as u64), 1 + random(5), random(2) == 0);
            let seen = AtomicUsize::new(0);
            let act = |rank: usize, event: &InferEvent<'_>, stop: &AtomicBool| {
                if let (true, InferEvent::Mask { .. }) = (rank == victim, event)
                    && seen.fetch_add(1, Ordering::Relaxed) + 1 == at
                {
                    stop.store(true, Ordering::Relaxed);
                    assert!(!panics, "killed");
                }
            };
            let reports = on_ranks(ranks, (&archive, &model), (&out, &options()), act);
            let struck = seen.into_inner() >= at;
            let what = format!("attempt {attempt}, call {call}, {ranks} ranks");
            for (rank, report) in reports.into_iter().enumerate() {
                match report {
                    None => assert!(panics && rank == victim, "{what}: rank {rank} panicked"),
                    Some(Ok(report)) => {
                        assert!(report.masks >= before, "{what}: finished masks are lost");
                        before = before.max(report.masks);
                    }
                    Some(Err(JobError::Comm(CommError::Gone { .. }))) => {
                        assert!(panics && struck, "{what}");
                    }
                    Some(Err(other)) => panic!("{what}: {other}"),
                }
            }
            // As a real kill leaves it: a torn file, a claim of nobody.
            std::fs::write(out.join(".masks.2000-01-02-00000.nc.1.tmp"), b"torn").unwrap();
            std::fs::create_dir_all(out.join(".claims-1-1")).unwrap();
            std::fs::write(out.join(".claims-1-1/000000"), b"").unwrap();
        }
        let ranks = 1 + random(4);
        let last = on_ranks(ranks, (&archive, &model), (&out, &options()), |_, _, _| {});
        for report in last {
            let report = report.unwrap().unwrap();
            assert_eq!((report.outcome, report.masks), (Outcome::Finished, 20));
        }
        assert_same(&out, &whole, &format!("attempt {attempt}"));
        assert!(!out.join(".claims-1-1").exists());
        assert!(!out.join(".masks.2000-01-02-00000.nc.1.tmp").exists());
    }
    let _ = std::panic::take_hook();
}

#[test]
fn finished_files_are_looked_at_by_all_and_made_again_where_they_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join("out");
    on_ranks(2, (&archive, &model), (&out, &options()), |_, _, _| {});
    let whole = contents(&out);
    for name in ["masks.2000-01-01-21600.nc", "masks.2000-01-02-64800.nc"] {
        let bytes = std::fs::read(out.join(name)).unwrap();
        std::fs::write(out.join(name), &bytes[..bytes.len() / 2]).unwrap();
    }
    std::fs::remove_file(out.join("masks.2000-01-03-00000.nc")).unwrap();
    for report in on_ranks(3, (&archive, &model), (&out, &options()), |_, _, _| {}) {
        assert_eq!(report.unwrap().unwrap().new_masks, 6);
    }
    assert!(contents(&out) == whole);
}

#[test]
fn an_error_of_one_rank_ends_all_and_keeps_what_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    history(&Path::new(&input).join("h2.c.nc"), 20..23, None, Some(20)).unwrap();
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join("out");
    let strict = InferOptions {
        bad_input: BadInput::Fail,
        ..options()
    };
    let reports = on_ranks(3, (&archive, &model), (&out, &strict), |_, _, _| {});
    let errors: Vec<JobError> = reports
        .into_iter()
        .map(|r| r.unwrap().unwrap_err())
        .collect();
    let elsewhere = errors
        .iter()
        .filter(|e| matches!(e, JobError::Elsewhere))
        .count();
    let named = errors
        .iter()
        .filter(|e| e.to_string().contains("h2.c.nc"))
        .count();
    assert_eq!((elsewhere, named), (2, 1), "{errors:?}");
    for report in on_ranks(2, (&archive, &model), (&out, &options()), |_, _, _| {}) {
        let report = report.unwrap().unwrap();
        assert_eq!((report.masks, report.skipped.len()), (22, 1));
        assert!(report.new_masks < 22, "nothing was kept");
    }
}

/// A rank that notes the longest time that it waits inside of a communication.
struct Noting {
    comm: threads::Threads,
    longest: Duration,
}

impl Noting {
    fn note<T>(&mut self, call: impl FnOnce(&mut threads::Threads) -> T) -> T {
        let began = Instant::now();
        let answer = call(&mut self.comm);
        self.longest = self.longest.max(began.elapsed());
        answer
    }
}

impl Communicator for Noting {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn send_receive(
        &mut self,
        to: usize,
        sent: &[u8],
        from: usize,
        received: &mut [u8],
    ) -> Result<(), CommError> {
        self.note(|comm| comm.send_receive(to, sent, from, received))
    }

    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), CommError> {
        self.note(|comm| comm.send(to, bytes))
    }

    fn receive(&mut self, from: usize, bytes: &mut [u8]) -> Result<(), CommError> {
        self.note(|comm| comm.receive(from, bytes))
    }

    fn wait_any(&mut self, from: &[usize], at_most: Duration) -> Result<Arrival, CommError> {
        self.comm.wait_any(from, at_most)
    }

    fn barrier(&mut self) -> Result<(), CommError> {
        self.note(Communicator::barrier)
    }

    fn split(
        &mut self,
        colour: Option<u32>,
        key: usize,
    ) -> Result<Option<Box<dyn Communicator>>, CommError> {
        self.comm.split(colour, key)
    }

    fn split_by_node(&mut self) -> Result<Box<dyn Communicator>, CommError> {
        self.comm.split_by_node()
    }

    fn window(&mut self, values: usize) -> Result<Option<Box<dyn Window>>, CommError> {
        self.comm.window(values)
    }

    fn retire(&self) -> ! {
        self.comm.retire()
    }

    fn abort(&self, code: i32) -> ! {
        self.comm.abort(code)
    }

    fn describe(&self) -> String {
        self.comm.describe()
    }
}

/// As ranks that outlive the first one, which had the lock: the next call may have other settings.
#[test]
fn ranks_leave_the_output_to_a_later_call() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join("out");
    // What a call does first, before any rank has ended a file.
    let begin = |_: usize, event: &InferEvent<'_>, _: &AtomicBool| {
        if !matches!(event, InferEvent::Mask { .. }) {
            return;
        }
        let names = std::fs::read_dir(&out).unwrap().flatten();
        for claims in names.map(|entry| entry.path()).filter(|path| path.is_dir()) {
            // Ranks may write there meanwhile.
            while claims.exists() {
                let _ = std::fs::remove_dir_all(&claims);
            }
        }
    };
    for report in on_ranks(2, (&archive, &model), (&out, &options()), begin) {
        let error = report.unwrap().unwrap_err();
        assert!(matches!(error, JobError::Locked { .. }), "{error}");
    }
    let left = contents(&out);
    let masks = left.iter().filter(|(name, _)| name.starts_with("masks."));
    assert_eq!(masks.count(), 0);
}

/// A rank whose last file takes long is waited for by looking whether it lives, not in a communication, which would end
/// the job after a while.
#[test]
fn nobody_communicates_while_a_rank_still_computes() {
    const LONG: Duration = Duration::from_secs(3);
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let options = options();
    let inference = Inference {
        input: Input::archive(&archive),
        ensemble: Ensemble::of(&model),
        out: &folder.path().join("out"),
        options: &options,
    };
    let waits = threads::run(threads::ranks(3), |comm| {
        let longest = Duration::ZERO;
        let mut comm = Noting { comm, longest };
        let (rank, stop, mut slept) = (comm.rank(), AtomicBool::new(false), false);
        let mut tell = |event: &InferEvent<'_>| match event {
            InferEvent::Mask { .. } if rank == 2 && !slept => {
                slept = true;
                std::thread::sleep(LONG);
            }
            // So that there is a file for every rank.
            InferEvent::Mask { .. } => std::thread::sleep(Duration::from_millis(50)),
            _ => (),
        };
        let report = inference.run(&mut comm, &mut tell, &stop).unwrap();
        assert_eq!(report.outcome, Outcome::Finished);
        (comm.longest, slept)
    });
    assert!(waits[2].1, "a file for every rank");
    for (rank, (longest, _)) in waits.iter().enumerate() {
        assert!(*longest < LONG / 2, "rank {rank} waited for {longest:?}");
    }
}

#[test]
fn ranks_that_mean_different_work_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join("out");
    let errors = threads::run(threads::ranks(3), |mut comm| {
        let options = InferOptions {
            probabilities: comm.rank() == 1,
            ..options()
        };
        let inference = Inference {
            input: Input::archive(&archive),
            ensemble: Ensemble::of(&model),
            out: &out,
            options: &options,
        };
        let stop = AtomicBool::new(false);
        let error = inference.run(&mut comm, &mut |_| {}, &stop).unwrap_err();
        error.to_string()
    });
    for error in errors {
        assert!(
            error.contains("options differs between ranks: rank 1"),
            "{error}"
        );
    }
    assert!(!out.exists(), "nothing is written before all agree");
    // A model that does not fit is refused by all, before anything is written.
    history(
        &folder.path().join("bare.nc"),
        0..3,
        Some(squall_data::Variable::Psl),
        None,
    )
    .unwrap();
    let bare = folder.path().join("bare.nc");
    let bare = Archive::open_with(&bare.to_string_lossy(), BadFiles::Fail).unwrap();
    let strict = InferOptions::default();
    for report in on_ranks(2, (&bare, &model), (&out, &strict), |_, _, _| {}) {
        let error = report.unwrap().unwrap_err();
        assert!(matches!(error, JobError::Contract { .. }), "{error}");
    }
    assert!(!out.exists());
}

/// As `auto` gives on machines of which one has fast bf16.
#[test]
fn ranks_that_compute_in_different_types_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let (model, input) = prepared(folder.path());
    let archive = Archive::open(&input).unwrap();
    let out = folder.path().join("out");
    let in_type = |precision| Model::load(model.path(), Some(precision)).unwrap();
    let (single, half) = (in_type(Precision::F32), in_type(Precision::Bf16));
    let errors = threads::run(threads::ranks(3), |mut comm| {
        let inference = Inference {
            input: Input::archive(&archive),
            ensemble: Ensemble::of(if comm.rank() == 2 { &half } else { &single }),
            out: &out,
            options: &options(),
        };
        let stop = AtomicBool::new(false);
        let error = inference.run(&mut comm, &mut |_| {}, &stop).unwrap_err();
        error.to_string()
    });
    for error in errors {
        let expected = "what computes differs between ranks: rank 2";
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(", bf16` instead of `"), "{error}");
    }
    assert!(!out.exists(), "nothing is written before all agree");
}

/// What every rank sees in an input.
fn opened(ranks: usize, input: &str, bad_files: BadFiles) -> Vec<Result<String, JobError>> {
    threads::run(threads::ranks(ranks), |mut comm| {
        let archive = open_archive(&mut comm, input, bad_files)?;
        let seen: Vec<_> = (0..archive.times().len())
            .map(|index| (archive.times()[index], archive.source_of(index)))
            .collect();
        let fields = archive.read(archive.times().len() - 1, &CHANNELS).unwrap();
        let (available, problems) = (archive.available(), archive.problems());
        Ok(format!(
            "{seen:?} {available:?} {problems:?} {:?}",
            fields.fields
        ))
    })
}

#[test]
fn ranks_that_each_open_some_files_see_what_one_sees() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().to_str().unwrap();
    for (k, name) in ["a", "b", "c", "d", "e"].iter().enumerate() {
        let path = folder.path().join(format!("h2.{name}.nc"));
        history(&path, 4 * k..4 * k + 4, None, None).unwrap();
    }
    let alone = opened(1, input, BadFiles::Fail).remove(0).unwrap();
    for ranks in [2, 3, 8] {
        for seen in opened(ranks, input, BadFiles::Fail) {
            assert_eq!(seen.unwrap(), alone, "{ranks} ranks");
        }
    }
    // A file that only the third of three ranks looks at.
    std::fs::write(folder.path().join("h2.c.nc"), b"no fields").unwrap();
    let said = opened(1, input, BadFiles::Fail).remove(0).unwrap_err();
    let said = said.to_string();
    assert!(said.contains("h2.c.nc"), "{said}");
    for (rank, seen) in opened(3, input, BadFiles::Fail).into_iter().enumerate() {
        match (rank, seen.unwrap_err()) {
            (2, error) => assert_eq!(error.to_string(), said),
            (_, error) => assert!(matches!(error, JobError::Elsewhere), "{error}"),
        }
    }
    let rest = opened(1, input, BadFiles::Skip).remove(0).unwrap();
    assert!(rest.contains("skipped: "), "{rest}");
    for seen in opened(3, input, BadFiles::Skip) {
        assert_eq!(seen.unwrap(), rest);
    }
    // Nothing there: the first rank says so.
    let nowhere = folder.path().join("nowhere");
    let errors = opened(3, nowhere.to_str().unwrap(), BadFiles::Fail);
    let says = |error: &&Result<String, JobError>| matches!(error, Err(JobError::Data(_)));
    assert_eq!(errors.iter().filter(says).count(), 1, "{errors:?}");
}
