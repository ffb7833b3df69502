//! The coordinator of a run, which is the first server: besides serving its part it assigns steps, writes the run's
//! files, and ends the run.

mod saving;
mod validating;

use super::last_message::LastMessage;
use super::ledger::Ledger;
use super::message::{Orders, Reply, Request, raw};
use super::server::{Server, ServerEvent};
use super::staleness::StalenessSummary;
use crate::error::Result;
use crate::recipe::Order;
use crate::train::step::StepResult;
use crate::train::{Spent, TrainEvent, TrainReport};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use validating::Validating;

/// Steps assigned to a group in advance: the current one, and one whose samples are being read.
const AHEAD: usize = 2;

/// The first server at work.
pub(super) struct Coordinator<'a, 'b> {
    pub(super) server: Server<'a>,
    pub(super) ledger: Ledger,
    progress: &'b mut dyn FnMut(&TrainEvent),
    pub(super) start: Instant,
    saved_at: Instant,
    /// When the previous step was done.
    stepped_at: Instant,
    /// Steps done by earlier parts of the run.
    pub(super) done_before: u64,
    /// The groups that are currently scoring the network.
    validating: Vec<Validating>,
    /// The step after which an extra checkpoint is taken, besides the regular ones.
    cut: Option<u64>,
    /// Groups waiting for an answer because no step is left, although one may be returned if another group is lost;
    /// with a flag for whether they must receive parameters.
    parked: Vec<(usize, bool)>,
    pub(super) last_loss: Option<f64>,
    /// Times of every rank whose group has left, by job-wide rank.
    pub(super) spent: BTreeMap<usize, Spent>,
    pub(super) missing_values: u64,
    /// Staleness of updates on all servers that have reported.
    pub(super) staleness: StalenessSummary,
}

impl<'a, 'b> Coordinator<'a, 'b> {
    pub fn new(
        server: Server<'a>,
        pending: &[u64],
        progress: &'b mut dyn FnMut(&TrainEvent),
    ) -> Self {
        let done = server.run.learner.progress.step;
        let (total, groups) = (server.run.total_steps, server.mail.layout.groups);
        let now = Instant::now();
        let mut ledger = Ledger::new(total, groups, done, pending);
        if let Some(standing) = &server.standing {
            ledger.hold(&standing.held);
        }
        Self {
            ledger,
            server,
            progress,
            start: now,
            saved_at: now,
            stepped_at: now,
            done_before: done,
            validating: Vec::new(),
            cut: None,
            parked: Vec::new(),
            last_loss: None,
            spent: BTreeMap::new(),
            missing_values: 0,
            staleness: StalenessSummary::default(),
        }
    }

    /// Serves until the run is over, and writes its files.
    pub fn serve(mut self, folder: &Path, stop: &AtomicBool) -> Result<TrainReport> {
        self.begin()?;
        while !self.server.turns.over() {
            if self.server.run.is_told_to_stop(self.start, stop) {
                self.ledger.close();
            }
            match self.server.next()? {
                ServerEvent::Update {
                    group,
                    request,
                    staleness,
                } => self.update(group, &request, staleness)?,
                ServerEvent::Skip { group, request } => self.skip(group, &request)?,
                ServerEvent::Left { group, request } => self.left(group, &request)?,
                ServerEvent::Scores { group, request } => self.scores(group, &request)?,
                ServerEvent::Lost(group) => self.lost(group),
                ServerEvent::Nothing => self.silence(),
                ServerEvent::Command => {}
            }
            self.release()?;
            let seconds = self.server.run.recipe.training.checkpoint_every_seconds;
            if self.saved_at.elapsed().as_secs_f64() >= seconds {
                self.save_soon()?;
            }
        }
        self.conclude(folder, stop)
    }

    /// Assigns every group its first steps, and unfinished validations of an earlier part of the run to the groups that
    /// had them.
    fn begin(&mut self) -> Result<()> {
        let due = std::mem::take(&mut self.server.run.validation_due);
        let standing = self.server.standing.take().unwrap_or_default();
        let before = &standing.validating;
        for (group, steps) in self.first_steps(standing.next).into_iter().enumerate() {
            let left = before.iter().find(|(who, _)| *who == group);
            let validate = due
                && self.server.run.evaluator.is_some()
                && (left.is_some() || before.is_empty() && group == 0);
            let orders = Orders::steps(steps).validating(validate);
            if validate {
                let running = standing.running_of(group).map(<[f32]>::to_vec);
                self.validating.push(Validating {
                    group,
                    step: left.map_or(self.ledger.done(), |(_, step)| *step),
                    running: running.unwrap_or_else(|| self.server.running_statistics()),
                });
            }
            // All groups have the initial running statistics.
            let reply = Reply {
                version: 0,
                orders,
                bytes: 0,
            };
            if !self.server.mail.say(group, raw(&reply))? {
                self.loses(group);
            }
        }
        Ok(())
    }

    /// The first steps of each group. In round-robin order group `next` comes first, as in an uninterrupted run.
    fn first_steps(&mut self, next: usize) -> Vec<Vec<u64>> {
        let mut steps = self.ledger.held();
        let groups = steps.len();
        for ahead in 1..=AHEAD {
            for group in (0..groups).map(|at| (next + at) % groups) {
                if steps[group].len() < ahead {
                    steps[group].extend(self.ledger.issue(group));
                }
            }
        }
        steps
    }

    fn update(&mut self, group: usize, request: &Request, staleness: u64) -> Result<()> {
        let learner = &mut self.server.run.learner;
        let statistics = std::mem::take(&mut self.server.statistics);
        let fresh = learner.network.statistics_of(statistics);
        learner.network.blend_statistics(&fresh);
        self.server.statistics = fresh.values;
        let result = StepResult {
            loss: request.loss,
            gradient_norm: request.norm,
            learning_rate: request.rate,
            skipped: false,
        };
        self.count(group, request, result, Some(staleness))?;
        self.reply(group, request, true)
    }

    fn skip(&mut self, group: usize, request: &Request) -> Result<()> {
        self.server.run.learner.progress.skipped += 1;
        let result = StepResult {
            loss: request.loss,
            gradient_norm: f64::NAN,
            learning_rate: request.rate,
            skipped: true,
        };
        self.count(group, request, result, None)?;
        self.reply(group, request, false)
    }

    /// Records a step as done and reports it.
    fn count(
        &mut self,
        group: usize,
        request: &Request,
        result: StepResult,
        staleness: Option<u64>,
    ) -> Result<()> {
        self.ledger.finish(group, request.step);
        let run = &mut self.server.run;
        let step = self.ledger.done();
        run.learner.progress.step = step;
        let epoch = run.samples.cursor(request.step).epoch;
        let seconds = self.stepped_at.elapsed().as_secs_f64();
        self.stepped_at = Instant::now();
        self.last_loss = Some(result.loss);
        if let Some(recorder) = &mut run.recorder {
            recorder.step(step, epoch, &result)?;
            if let Some(staleness) = staleness {
                recorder.update(step, group, staleness)?;
            }
            let samples = run.local_batch.samples() * self.server.mail.layout.ranks_per_group;
            recorder.timing(step, seconds, 0.0, samples)?;
        }
        (self.progress)(&TrainEvent::Step {
            step,
            total: run.total_steps,
            epoch,
            result,
            seconds,
            wait_seconds: 0.0,
        });
        Ok(())
    }

    /// Sends a group what it needs for its next step, and saves if due.
    fn reply(&mut self, group: usize, request: &Request, values: bool) -> Result<()> {
        if request.stop != 0 {
            self.ledger.close();
        }
        let (step, run) = (self.ledger.done(), &self.server.run);
        let due = step.is_multiple_of(run.validate_every)
            && !self.ledger.is_complete()
            && run.evaluator.is_some();
        let usual = step.is_multiple_of(run.checkpoint_every);
        let save = (usual || self.cut == Some(step)) && !self.ledger.is_complete();
        if due {
            let running = self.server.running_statistics();
            self.validating.push(Validating {
                group,
                step,
                running,
            });
        }
        let next = self.ledger.issue(group);
        let by_arrival = run.recipe.distributed.order == Order::Arrival;
        if by_arrival && next.is_none() && !due && self.ledger.waits(group) {
            self.parked.push((group, values));
        } else {
            self.give(group, next, due, values)?;
        }
        if save {
            self.save()?;
        }
        Ok(())
    }

    /// Answers a group.
    fn give(&mut self, group: usize, next: Option<u64>, due: bool, values: bool) -> Result<()> {
        let orders = Orders::steps(next)
            .validating(due)
            .stopping(self.ledger.is_closed());
        if !self.server.answer(group, orders, values)? {
            self.lost(group);
        }
        Ok(())
    }

    /// Answers groups that were waiting for a step, if there is one now or there will be none.
    fn release(&mut self) -> Result<()> {
        for (group, values) in std::mem::take(&mut self.parked) {
            let next = self.ledger.issue(group);
            if next.is_none() && self.ledger.waits(group) {
                self.parked.push((group, values));
            } else {
                self.give(group, next, false, values)?;
            }
        }
        Ok(())
    }

    fn left(&mut self, group: usize, request: &Request) -> Result<()> {
        self.ledger.give_back(group);
        if request.stop != 0 {
            self.ledger.close();
        }
        match self.server.mail.take_bytes(group, request.bytes)? {
            Some(spent) => {
                let first = self.server.mail.layout.leader(group);
                let spent = bytemuck::pod_collect_to_vec::<u8, Spent>(&spent);
                self.spent.extend((first..).zip(spent));
            }
            None => self.lost(group),
        }
        self.missing_values += request.step;
        Ok(())
    }

    /// Continues without a group.
    fn loses(&mut self, group: usize) {
        self.server.loses(group);
        self.lost(group);
    }

    /// Continues without a group: others take over its steps.
    fn lost(&mut self, group: usize) {
        self.ledger.give_back(group);
        self.parked.retain(|(parked, _)| *parked != group);
        self.server.run.validation_due |= self.stops_validating(group).is_some();
    }

    /// Handles a moment without messages. After a long silence, groups that are still expected count as lost; groups
    /// that are scoring the network and are alive get more time.
    fn silence(&mut self) {
        if self.server.last_message.elapsed() <= self.server.mail.limit {
            return;
        }
        let (mail, since) = (&self.server.mail, self.server.last_message.since());
        let judges = self.validating.iter().map(|v| v.group);
        let late: Vec<usize> = judges.filter(|&g| !mail.waits_for(g, since)).collect();
        if !late.is_empty() {
            late.into_iter().for_each(|group| self.loses(group));
            // Groups that waited for them, or for their turn, get a fresh time limit.
            self.server.last_message = LastMessage::at(Instant::now());
            return;
        }
        if !self.validating.is_empty() {
            return;
        }
        if !self.server.gives_up() {
            for group in self.server.turns.listened() {
                // A group that waits for this server cannot send anything.
                let waits = self.parked.iter().any(|(parked, _)| *parked == group);
                if !waits && !self.server.is_slow_but_alive(group) {
                    self.loses(group);
                }
            }
        }
    }
}
