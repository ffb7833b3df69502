//! The communication thread: sums buckets of gradients while the backward pass still runs.
//!
//! Only this thread uses its [`AllReduce`], and it takes buckets in the order of a fixed plan, the same on all ranks,
//! so nothing has to be negotiated and nothing can deadlock. Buffers are moved in and out, never copied. How far
//! gradients lag is up to the caller: with lag 0 it waits for the buckets of a step before it updates, with lag 1 it
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

/// What a reducer is given in every step.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// This rank, for errors.
    pub rank: usize,
    /// Values of each bucket, in the order in which buckets are submitted.
    pub lengths: Vec<usize>,
    /// What sums are multiplied by: 1/P for averages over P ranks.
    pub scale: f32,
    /// Hardware threads kept for the communication thread; with none it runs where the scheduler likes.
    pub cores: Vec<usize>,
}

/// A bucket whose values are summed.
#[derive(Debug)]
pub struct Reduced {
    /// The step in which it was submitted.
    pub step: u64,
    /// Its place in the plan.
    pub bucket: usize,
    /// Sums over ranks times the plan's scale; empty where the bucket lies on a GPU.
    pub values: Vec<f32>,
    /// Values on a GPU, whose sums are under way there.
    pub lent: Option<Lent>,
    /// When it was submitted.
    pub submitted: Instant,
    /// When its turn came.
    pub started: Instant,
    /// When it was finished.
    pub finished: Instant,
    /// What its time was spent on, where the engine tells.
    pub phases: Vec<Phase>,
}

/// The bucket that is being summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Underway {
    /// Its step.
    pub step: u64,
    /// Its place in the plan.
    pub bucket: usize,
    /// When its turn came.
    pub since: Instant,
}

/// What the communication thread is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The bucket under way, `None` between buckets.
    pub underway: Option<Underway>,
    /// Buckets finished since the start.
    pub finished: u64,
}

/// Reads a reducer's progress from another thread.
#[derive(Debug, Clone, Default)]
pub struct ProgressReader(Arc<Mutex<Progress>>);

impl ProgressReader {
    /// What the communication thread is at now.
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

/// The caller's end of the communication thread.
///
/// Dropped with buckets outstanding it does not wait for them: the thread ends after the one under way, and keeps its
/// engine until then. Before a library such as MPI is shut down call [`Reducer::finish`].
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
    /// A thread that sums buckets with this engine.
    ///
    /// # Errors
    /// [`CommError::Library`] if the system gives no thread; [`CommError::Layout`] if the plan has no buckets.
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
            // A pool that the communication thread were the first to use would be as small as its cores, and on them.
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

    /// Says to which step the buckets belong that are submitted from now on.
    pub fn set_step(&mut self, step: u64) {
        self.step = step;
    }

    /// Hands over the next bucket of the plan; after the last comes the first.
    ///
    /// # Errors
    /// [`CommError::Size`] if it is not the next bucket or has another length than planned, and then nothing was
    /// submitted; the error of an earlier bucket.
    pub fn submit(&mut self, bucket: usize, values: Vec<f32>) -> Result<()> {
        self.hand_over(bucket, values.len(), values, None)
    }

    /// As [`Self::submit`], for a bucket on a GPU, which is scaled already, if the engine takes such buckets. It comes
    /// back as soon as its sum has begun, so that the GPU waits for it instead of the host; [`Self::progress`] shows it
    /// as under way until the sum is done.
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

    /// The oldest outstanding bucket once it is summed; `None` if nothing is outstanding.
    ///
    /// # Errors
    /// What went wrong between ranks; every later call then gives the same.
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

    /// Buckets that were submitted and not yet waited for.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// What the communication thread is at.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.progress()
    }

    /// A reader of [`Self::progress`] for another thread, usually that of a [`Watchdog`](super::Watchdog).
    #[must_use]
    pub fn progress_reader(&self) -> ProgressReader {
        self.progress.clone()
    }

    /// Ends the thread and gives back its engine. Outstanding buckets are waited for and thrown away.
    ///
    /// # Errors
    /// What went wrong between ranks.
    pub fn finish(mut self) -> Result<Box<dyn AllReduce>> {
        while self.wait()?.is_some() {}
        self.jobs = None;
        let thread = self.thread.take();
        match thread.map(JoinHandle::join) {
            Some(Ok(engine)) => Ok(engine),
            _ => Err(self.panicked()),
        }
    }

    /// Why the thread takes no more buckets: the first error it reported, else a panic.
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
        // A thread in the middle of a sum may wait for ranks that never come; an idle one ends at once.
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
    /// Sums buckets until there are no more, or one fails.
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
            // What goes on without the host is waited for here, so that a stall is seen and an error told.
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
            None => self.engine.all_reduce(&mut values, self.scale),
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

    /// The bucket under way is done, or never will be.
    fn note_end(&self, well: bool) {
        self.progress.set(|progress| {
            progress.underway = None;
            progress.finished += u64::from(well);
        });
    }
}
