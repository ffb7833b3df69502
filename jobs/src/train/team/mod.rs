//! The ranks that train one network, seen from one of them.
//!
//! A [`Reducer`] exchanges gradients while the backward pass runs: bucket after bucket, and last the facts of the step
//! (divisors of its loss, stop requests) with the batch statistics, always in f32. Agreement outside of steps uses a
//! separate communicator, so that its messages never mix with buckets.

mod agreement;
mod engine;
mod signals;

use super::exchange::{Exchange, Setup};
use super::groups::Link;
use super::share::RankPosition;
use super::timeline::Timeline;
use crate::comm::collectives::Choice;
use crate::comm::{
    AllReduce, CommError, Communicator, Flat, Solo, Wire, agree, doing, lock, reducer,
};
use crate::error::Result;
use crate::recipe::Distributed;
use engine::{Group, WithFacts, engine};
pub(super) use signals::Signals;
use squall_model::ops::norm::BatchNormRanks;
use squall_model::{Gradients, Parameters};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Called when communication has stalled; it usually ends the job.
pub type OnStall = Box<dyn FnOnce(CommError) + Send>;

/// The ranks that train together, seen from one of them.
pub struct Team {
    rank: usize,
    size: usize,
    /// Job-wide number of the first of these ranks, which are consecutive.
    first_in_job: usize,
    description: String,
    /// Communicator for everything outside of steps.
    control: Box<dyn Communicator>,
    on_stall: Option<OnStall>,
    exchange: Option<Exchange>,
    norm_ranks: Option<Arc<dyn BatchNormRanks>>,
    /// Nanoseconds spent waiting for batch statistics that the timeline has not counted yet.
    waited: Arc<AtomicU64>,
    /// Hardware threads reserved for the communication thread.
    cores: Vec<usize>,
    /// Signals of this rank that have not been sent to the others.
    says: Signals,
    /// Signals, of any rank, that all ranks know.
    known: Signals,
    /// Whether the first rank has requested a checkpoint that the others do not know of yet.
    asked: bool,
    /// Where the time of this rank goes.
    pub(super) timeline: Timeline,
    /// Link to the parameter servers; `None` if every rank holds the parameters itself.
    pub(super) link: Option<Link>,
    /// Artificial delay per step, to measure the cost of a slow rank.
    step_delay: Duration,
    /// Upper limit in bytes of this rank's host memory.
    memory_limit: Option<u64>,
    /// How long this rank waits for another, once it is known.
    longest_wait: Duration,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

impl Team {
    /// A team of a single rank, without communication.
    pub fn solo() -> Self {
        Self {
            rank: 0,
            size: 1,
            first_in_job: 0,
            description: "one rank".into(),
            control: Box::new(Solo::new()),
            on_stall: None,
            exchange: None,
            norm_ranks: None,
            waited: Arc::default(),
            cores: Vec::new(),
            says: Signals::default(),
            known: Signals::default(),
            asked: false,
            timeline: Timeline::new(0, 0, Arc::default()),
            link: None,
            step_delay: Duration::ZERO,
            memory_limit: None,
            longest_wait: Duration::MAX,
        }
    }

    /// A team of all ranks of a communicator. `on_stall` is called when communication has stalled for longer than the
    /// recipe allows.
    pub fn of(comm: Box<dyn Communicator>, on_stall: OnStall) -> Self {
        if comm.size() == 1 {
            return Self::solo();
        }
        Self {
            rank: comm.rank(),
            size: comm.size(),
            description: comm.describe(),
            control: comm,
            on_stall: Some(on_stall),
            ..Self::solo()
        }
    }

    /// Pins the communication thread to these hardware threads; if empty, the scheduler decides.
    #[must_use]
    pub fn communicating_on(self, cores: Vec<usize>) -> Self {
        Self { cores, ..self }
    }

    /// Makes this rank sleep for this long after the backward pass of every step, to measure the cost of a slow rank.
    #[must_use]
    pub fn slowed(self, by: Duration) -> Self {
        Self {
            step_delay: by,
            ..self
        }
    }

    /// Limits this rank's host memory to this many bytes, because it shares its node with processes outside the team;
    /// `None` means all free memory.
    #[must_use]
    pub fn within(self, memory_limit: Option<u64>) -> Self {
        Self {
            memory_limit,
            ..self
        }
    }

    /// Bytes that this rank may use if the system has `left` bytes free.
    pub(crate) fn may_hold(&self, left: Option<u64>) -> Option<u64> {
        left.into_iter().chain(self.memory_limit).min()
    }

    /// Returns a second stall callback, for another watcher; only the first stall is reported.
    pub(super) fn on_stall_shared(&mut self) -> OnStall {
        let own = Arc::new(Mutex::new(self.on_stall.take()));
        let share = |own: Arc<Mutex<Option<OnStall>>>| -> OnStall {
            Box::new(move |stall| {
                let told = lock(&own).take();
                told.into_iter().for_each(|tell| tell(stall.clone()));
            })
        };
        self.on_stall = Some(share(Arc::clone(&own)));
        share(own)
    }

    /// Replaces the stall callback.
    pub(super) fn hears_of_stalls(&mut self, on_stall: OnStall) {
        self.on_stall = Some(on_stall);
    }

    /// Makes a team of consecutive ranks of this team, usable while this team does not communicate.
    pub(super) fn group(&mut self, comm: Box<dyn Communicator>, link: Option<Link>) -> Self {
        let on_stall = self.on_stall.take().unwrap_or_else(|| Box::new(|_| ()));
        Self {
            first_in_job: self.rank_in_job() - comm.rank(),
            cores: self.cores.clone(),
            step_delay: self.step_delay,
            memory_limit: self.memory_limit,
            link,
            ..Self::of(comm, on_stall)
        }
    }

    /// Limits how long ranks wait for each other from now on, if the backend supports it.
    pub(super) fn limit_waits(&mut self, after: Duration) {
        self.longest_wait = after;
        self.control.limit_waits(after);
    }

    /// Blocks until the job ends and then ends this process cleanly: for a rank that gave up
    /// ([`crate::JobError::GaveUp`]).
    pub fn retire(&self) -> ! {
        self.control.retire()
    }

    /// The communicator for agreement outside of steps.
    pub(super) fn control(&mut self) -> &mut dyn Communicator {
        &mut *self.control
    }

    /// The link to the parameter servers, on a rank that has one.
    pub(super) fn link(&mut self) -> Result<&mut Link> {
        let none = || CommError::Layout("this rank has no parameter servers: this is a bug".into());
        self.link.as_mut().ok_or_else(|| none().into())
    }

    /// Sleeps for the artificial delay of a step.
    pub(super) fn delay_step(&self) {
        if !self.step_delay.is_zero() {
            std::thread::sleep(self.step_delay);
        }
    }

    /// This rank's index in the team, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// This rank's index in the job, of which the team may be a part. Messages to users use this number.
    fn rank_in_job(&self) -> usize {
        self.first_in_job + self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether this rank writes the run's files and reports progress.
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Describes the ranks and their gradient exchange.
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// The ranks that share batch statistics with this one.
    pub(super) fn norm_ranks(&self) -> Option<&Arc<dyn BatchNormRanks>> {
        self.norm_ranks.as_ref()
    }

    /// Sets up the exchange of these gradients and of `facts` extra values.
    pub(super) fn begin(
        &mut self,
        options: &Distributed,
        parameters: &Parameters,
        gradients: &mut Gradients,
        facts: usize,
    ) -> Result<()> {
        let (rank, size, rank_in_job) = (self.rank, self.size, self.rank_in_job());
        if size == 1 {
            return Ok(());
        }
        self.longest_wait = options.longest_wait();
        let control = &mut *self.control;
        let _doing = doing::begin("the groups of ranks that sum gradients");
        let ranges = Gradients::buckets(parameters, options.bucket_values());
        let on_gpu = !agree::any(control, !gradients.is_on_gpu())?;
        let engine = WithFacts {
            buckets: engine(control, options, on_gpu)?,
            facts: Box::new(Flat::new(control, Choice::Auto, Wire::F32)?),
            facts_bucket: ranges.len(),
        };
        self.description = format!("{}; {}", control.describe(), engine.describe());
        let norm_ranks = options.norm_ranks(size);
        if norm_ranks > 1 {
            let colour = u32::try_from(rank / norm_ranks).unwrap_or(u32::MAX);
            let group = control.split(Some(colour), rank)?;
            let waited = Arc::clone(&self.waited);
            let together = |comm| Group {
                comm: Mutex::new(comm),
                waited,
            };
            self.norm_ranks = group.map(|comm| Arc::new(together(comm)) as Arc<_>);
        }
        let lengths = ranges.iter().map(Range::len).chain([facts]).collect();
        let scale = 1.0 / size as f32;
        let plan = reducer::Plan {
            rank: rank_in_job,
            lengths,
            scale,
            cores: self.cores.clone(),
        };
        let setup = Setup {
            // A gradient that is applied later is copied to host memory.
            lends: on_gpu && engine.takes_lent() && options.gradient_lag == 0,
            engine: Box::new(engine),
            plan,
            ranges,
            limit: options.longest_wait(),
            on_stall: self.on_stall.take().unwrap_or_else(|| Box::new(|_| ())),
        };
        self.exchange = Some(Exchange::start(setup, gradients)?);
        Ok(())
    }

    /// Starts timing, and traces the first `steps` steps.
    pub(super) fn begin_timeline(&mut self, steps: usize) {
        self.waited.store(0, Ordering::Relaxed);
        self.timeline = Timeline::new(self.rank_in_job(), steps, Arc::clone(&self.waited));
    }

    /// Sets the step that the next buckets belong to.
    pub(super) fn set_step(&mut self, step: u64) {
        if let Some(exchange) = &self.exchange {
            exchange.set_step(step);
        }
    }

    /// Ends a step's exchange by submitting its facts.
    pub(super) fn submit_facts(&mut self, mut facts: Vec<f32>) -> Result<()> {
        facts.extend(self.says.facts());
        if let Some(exchange) = &self.exchange {
            exchange.submit_facts(facts)?;
        }
        Ok(())
    }

    /// Waits for the gradients of the oldest step in flight and stores their averages over ranks; returns the summed
    /// facts and the signals of all ranks.
    pub(super) fn collect(&mut self, gradients: &mut Gradients) -> Result<(Vec<f32>, Signals)> {
        let Some(exchange) = &self.exchange else {
            return Ok((Vec::new(), Signals::default()));
        };
        let mut facts = exchange.collect(gradients, &mut self.timeline)?;
        facts.iter_mut().for_each(|v| *v *= self.size as f32);
        let signals = facts.split_off(facts.len().saturating_sub(Signals::FACTS));
        Ok((facts, Signals::of_facts(&signals)))
    }

    /// Records whether this rank was asked to stop. The next submitted facts inform the other ranks.
    pub(super) fn ask_to_stop(&mut self, told: bool) {
        self.says.stop |= told;
    }

    /// Whether all ranks know that some rank was asked to stop.
    pub(super) fn is_to_stop(&self) -> bool {
        match self.size {
            1 => self.says.stop,
            _ => self.known.stop,
        }
    }

    /// Likewise records whether a checkpoint is due. Only the first rank's clock counts: with separate clocks, ranks
    /// would save after different steps and deadlock.
    pub(super) fn ask_to_save(&mut self, due: bool) {
        match self.size {
            1 => self.known.save = due,
            _ => {
                self.says.save = due && self.is_first() && !self.asked;
                self.asked |= self.says.save;
            }
        }
    }

    /// Whether all ranks know that a checkpoint is due; true only once per checkpoint.
    pub(super) fn is_to_save(&mut self) -> bool {
        let save = std::mem::take(&mut self.known.save);
        self.asked &= !save;
        save
    }

    /// Records signals that all ranks now know.
    pub(super) fn note_signals(&mut self, signals: Signals) {
        self.known.stop |= signals.stop;
        self.known.save |= signals.save;
    }

    /// This rank's position among all.
    pub(super) fn place(&self) -> RankPosition {
        RankPosition {
            rank: self.rank,
            ranks: self.size,
        }
    }
}
