//! The communication thread: reduces gradient buckets during the backward pass.
//!
//! Only this thread uses its [`AllReduce`], and it processes buckets in the order of a fixed plan that is the same on
//! all ranks, so no negotiation is needed and no deadlock is possible. Buffers are moved in and out, never copied. The
//! gradient lag is up to the caller: with lag 0 it waits for the buckets of a step before the update; with lag 1 it
//! submits a second set of buffers and waits for the first a step later.
//!
//! # Example
//! ```
//! use squall_jobs::comm::{Flat, Reducer, Solo, Wire, collectives::Choice, reducer::Plan};
//! let engine = Flat::new(&mut Solo::new(), Choice::Ring, Wire::F32).unwrap();
//! let plan = Plan { rank: 0, lengths: vec![2, 1], scale: 0.5, cores: vec![] };
//! let mut reducer = Reducer::start(Box::new(engine), plan).unwrap();
//! reducer.submit(0, vec![2.0, 4.0]).unwrap();
//! reducer.submit(1, vec![6.0]).unwrap();
//! assert_eq!(reducer.wait().unwrap().unwrap().values, [1.0, 2.0]);
//! assert_eq!(reducer.wait().unwrap().unwrap().values, [3.0]);
//! assert!(reducer.wait().unwrap().is_none());
//! ```

use super::{AllReduce, CommError, Phase, Result, doing, lock, pin};
use squall_model::gradients::Lent;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// The buckets of every step.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// This rank, for error messages.
    pub rank: usize,
    /// Length of each bucket in values, in the order of submission.
    pub lengths: Vec<usize>,
    /// Factor applied to sums: 1/P for averages over P ranks.
    pub scale: f32,
    /// Hardware threads reserved for the communication thread; if empty, the scheduler decides.
    pub cores: Vec<usize>,
}

/// A reduced bucket.
#[derive(Debug)]
pub struct Reduced {
    /// The step in which it was submitted.
    pub step: u64,
    /// Its index in the plan.
    pub bucket: usize,
    /// Sums over ranks times the plan's scale; empty if the bucket is in GPU memory.
    pub values: Vec<f32>,
    /// Values in GPU memory, whose reduction has been started there.
    pub lent: Option<Lent>,
    /// When it was submitted.
    pub submitted: Instant,
    /// When its reduction started.
    pub started: Instant,
    /// When its reduction finished.
    pub finished: Instant,
    /// The phases of its reduction, if the engine reports them.
    pub phases: Vec<Phase>,
}

/// The bucket being reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Underway {
    /// Its step.
    pub step: u64,
    /// Its index in the plan.
    pub bucket: usize,
    /// When its reduction started.
    pub since: Instant,
}

/// The state of the communication thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The current bucket; `None` between buckets.
    pub underway: Option<Underway>,
    /// Number of buckets finished so far.
    pub finished: u64,
}

/// Gives another thread access to a reducer's progress.
#[derive(Debug, Clone, Default)]
pub struct ProgressReader(Arc<Mutex<Progress>>);

impl ProgressReader {
    /// The current state of the communication thread.
    #[must_use]
    pub fn progress(&self) -> Progress {
        *lock(&self.0)
    }

    fn set(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.0));
    }
}

struct Job {
    step: u64,
    bucket: usize,
    values: Vec<f32>,
    lent: Option<Lent>,
    submitted: Instant,
}

/// The caller's handle to the communication thread.
///
/// Dropping it with outstanding buckets does not wait for them: the thread ends after the current one, and keeps its
/// engine until then. Call [`Reducer::finish`] before shutting down a library such as MPI.
pub struct Reducer {
    plan: Plan,
    step: u64,
    next: usize,
    outstanding: usize,
    failed: Option<CommError>,
    jobs: Option<Sender<Job>>,
    results: Receiver<Result<Reduced>>,
    thread: Option<JoinHandle<Box<dyn AllReduce>>>,
    stop: Arc<AtomicBool>,
    progress: ProgressReader,
}

impl Reducer {
    /// Starts a thread that reduces buckets with this engine.
    ///
    /// # Errors
    /// [`CommError::Library`] if the system cannot start a thread; [`CommError::Layout`] if the plan has no buckets.
    pub fn start(engine: Box<dyn AllReduce>, plan: Plan) -> Result<Self> {
        if plan.lengths.is_empty() {
            return Err(CommError::Layout(format!(
                "rank {}: a plan without buckets",
                plan.rank
            )));
        }
        let (jobs, queue) = channel();
        let (done, results) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let progress = ProgressReader::default();
        let worker = Worker {
            engine,
            scale: plan.scale,
            stop: Arc::clone(&stop),
            progress: progress.clone(),
        };
        let (rank, cores) = (plan.rank, plan.cores.clone());
        if !cores.is_empty() {
            // Creates the global thread pool here: created by the communication thread, it would be limited to its
            // cores.
            rayon::current_num_threads();
        }
        let thread = std::thread::Builder::new()
            .name("squall-comm".into())
            .spawn(move || {
                if let Err(error) = pin::stay_on(&cores) {
                    tracing::warn!("rank {rank}: sums do not run on {cores:?}: {error}");
                }
                worker.run(&queue, &done)
            })
            .map_err(CommError::no_thread(rank))?;
        Ok(Self {
            plan,
            step: 0,
            next: 0,
            outstanding: 0,
            failed: None,
            jobs: Some(jobs),
            results,
            thread: Some(thread),
            stop,
            progress,
        })
    }

    /// Sets the step of the buckets submitted from now on.
    pub fn set_step(&mut self, step: u64) {
        self.step = step;
    }

    /// Submits the next bucket of the plan, which repeats every step.
    ///
    /// # Errors
    /// [`CommError::Size`] if it is not the next bucket or its length differs from the plan, in which case nothing was
    /// submitted; the error of an earlier bucket.
    pub fn submit(&mut self, bucket: usize, values: Vec<f32>) -> Result<()> {
        self.hand_over(bucket, values.len(), values, None)
    }

    /// Like [`Self::submit`], for a bucket in GPU memory, which is already scaled, if the engine accepts them. It is
    /// returned as soon as its reduction has been started, so that the GPU waits for it instead of the host;
    /// [`Self::progress`] shows it until the reduction is done.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_lent(&mut self, bucket: usize, lent: Lent) -> Result<()> {
        self.hand_over(bucket, lent.len(), Vec::new(), Some(lent))
    }

    fn hand_over(
        &mut self,
        bucket: usize,
        length: usize,
        values: Vec<f32>,
        lent: Option<Lent>,
    ) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let wrong = |what: String, expected, got| CommError::Size {
            rank: self.plan.rank,
            what,
            expected,
            got,
        };
        if bucket != self.next {
            let what = format!("bucket to be submitted in step {}", self.step);
            return Err(wrong(what, self.next, bucket));
        }
        if length != self.plan.lengths[bucket] {
            let what = format!("values of bucket {bucket} in step {}", self.step);
            return Err(wrong(what, self.plan.lengths[bucket], length));
        }
        let job = Job {
            step: self.step,
            bucket,
            values,
            lent,
            submitted: Instant::now(),
        };
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.reason_of_the_end());
        }
        self.next = (bucket + 1) % self.plan.lengths.len();
        self.outstanding += 1;
        Ok(())
    }

    /// Waits for the oldest outstanding bucket; `None` if nothing is outstanding.
    ///
    /// # Errors
    /// The communication error; every later call returns the same.
    pub fn wait(&mut self) -> Result<Option<Reduced>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.outstanding == 0 {
            return Ok(None);
        }
        match self.results.recv() {
            Ok(Ok(reduced)) => {
                self.outstanding -= 1;
                Ok(Some(reduced))
            }
            Ok(Err(error)) => {
                self.failed = Some(error.clone());
                Err(error)
            }
            Err(_) => Err(self.reason_of_the_end()),
        }
    }

    /// Number of buckets submitted but not yet waited for.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The current state of the communication thread.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.progress()
    }

    /// A reader of [`Self::progress`] for another thread, usually a [`Watchdog`](super::Watchdog).
    #[must_use]
    pub fn progress_reader(&self) -> ProgressReader {
        self.progress.clone()
    }

    /// Ends the thread and returns its engine. Waits for outstanding buckets and discards them.
    ///
    /// # Errors
    /// The communication error.
    pub fn finish(mut self) -> Result<Box<dyn AllReduce>> {
        while self.wait()?.is_some() {}
        self.jobs = None;
        let thread = self.thread.take();
        match thread.map(JoinHandle::join) {
            Some(Ok(engine)) => Ok(engine),
            _ => Err(self.panicked()),
        }
    }

    /// Why the thread accepts no more buckets: the first error it reported, or else a panic.
    fn reason_of_the_end(&mut self) -> CommError {
        let reported = self.results.try_iter().find_map(Result::err);
        let error = reported.unwrap_or_else(|| self.panicked());
        self.failed = Some(error.clone());
        error
    }

    fn panicked(&self) -> CommError {
        CommError::Library {
            rank: self.plan.rank,
            call: "the communication thread",
            reason: "it panicked; its message is above".into(),
        }
    }
}

impl Drop for Reducer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.jobs = None;
        // A thread in the middle of a reduction may wait for ranks that never come; an idle one ends at once.
        if self.outstanding == 0
            && self.progress().underway.is_none()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

struct Worker {
    engine: Box<dyn AllReduce>,
    scale: f32,
    stop: Arc<AtomicBool>,
    progress: ProgressReader,
}

impl Worker {
    /// Reduces buckets until there are no more, or one fails.
    fn run(mut self, queue: &Receiver<Job>, done: &Sender<Result<Reduced>>) -> Box<dyn AllReduce> {
        for job in queue {
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            let result = self.sum(job);
            let ended = result.is_err();
            let begun = matches!(&result, Ok(reduced) if reduced.lent.is_some());
            if done.send(result).is_err() || ended {
                break;
            }
            // Waits here for reductions that continue without the host, so that stalls are noticed and errors reported.
            let settled = if begun { self.engine.settle() } else { Ok(()) };
            if begun {
                self.note_end(settled.is_ok());
            }
            if let Err(error) = settled {
                let _ = done.send(Err(error));
                break;
            }
        }
        self.engine
    }

    fn sum(&mut self, job: Job) -> Result<Reduced> {
        let Job {
            step,
            bucket,
            mut values,
            lent,
            submitted,
        } = job;
        let since = Instant::now();
        let underway = Underway {
            step,
            bucket,
            since,
        };
        self.progress
            .set(|progress| progress.underway = Some(underway));
        let at_it = doing::begin(format!("the sum of bucket {bucket} in step {step}"));
        let result = match &lent {
            Some(lent) => self.engine.all_reduce_lent(lent),
            None => (self.engine).all_reduce_bucket(bucket, &mut values, self.scale),
        };
        drop(at_it);
        if lent.is_none() || result.is_err() {
            self.note_end(result.is_ok());
        }
        result.map(|()| Reduced {
            step,
            bucket,
            values,
            lent,
            submitted,
            started: since,
            finished: Instant::now(),
            phases: self.engine.take_phases(),
        })
    }

    /// Records that the current bucket is done, or failed.
    fn note_end(&self, well: bool) {
        self.progress.set(|progress| {
            progress.underway = None;
            progress.finished += u64::from(well);
        });
    }
}
