//! The first server: besides its part it gives out steps, writes the run's files, and ends the run.

use super::ledger::Ledger;
use super::link::parsed;
use super::message::{Orders, Reply, Request, errand, raw};
use super::server::{COUNTED, PART, Server, ServerEvent};
use super::staleness::StalenessSummary;
use super::standing::{ServerStanding, Standing, Views};
use crate::error::Result;
use crate::recipe::Order;
use crate::train::evaluate::Scores;
use crate::train::step::StepResult;
use crate::train::{Spent, TrainEvent, TrainReport};
use squall_model::ModelFile;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Steps that a group has before it has done the first: one under way, one whose samples are read meanwhile.
const AHEAD: usize = 2;

/// A group that scores the network as it was after so many steps, with these running statistics.
pub(super) struct Validating {
    group: usize,
    step: u64,
    running: Vec<f32>,
}

/// The first server at work.
pub(super) struct First<'a, 'b> {
    pub(super) server: Server<'a>,
    pub(super) ledger: Ledger,
    progress: &'b mut dyn FnMut(&TrainEvent),
    pub(super) start: Instant,
    saved_at: Instant,
    /// When the step before was done.
    stepped_at: Instant,
    /// Done by earlier parts of the run.
    pub(super) done_before: u64,
    /// The groups that score the network just now.
    pub(super) validating: Vec<Validating>,
    /// After so many steps there is a checkpoint, besides the usual ones.
    cut: Option<u64>,
    /// Groups that wait for an answer because there is no step for them, but may be one if another group is lost; with
    /// whether they are to get parameters.
    parked: Vec<(usize, bool)>,
    pub(super) last_loss: Option<f64>,
    pub(super) spent: Vec<Spent>,
    pub(super) missing_values: u64,
    /// How stale updates were on all servers, as far as they have told.
    pub(super) staleness: StalenessSummary,
}

impl<'a, 'b> First<'a, 'b> {
    pub fn new(
        server: Server<'a>,
        pending: &[u64],
        progress: &'b mut dyn FnMut(&TrainEvent),
    ) -> Self {
        let done = server.run.learner.progress.step;
        let (total, groups) = (server.run.total_steps, server.layout.groups);
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
            spent: Vec::new(),
            missing_values: 0,
            staleness: StalenessSummary::default(),
        }
    }

    /// Serves until the run is over, and writes its files.
    pub fn serve(mut self, folder: &Path, stop: &AtomicBool) -> Result<TrainReport> {
        let due = std::mem::take(&mut self.server.run.validation_due);
        let standing = self.server.standing.take();
        let groups = self.server.layout.groups;
        // In turns: those come first whose turn it is, as if the run had not been left.
        let next = standing.as_ref().map_or(0, |standing| standing.next);
        let order: Vec<usize> = (0..groups).map(|at| (next + at) % groups).collect();
        let mut steps = self.ledger.held();
        for ahead in 1..=AHEAD {
            for &group in &order {
                if steps[group].len() < ahead {
                    steps[group].extend(self.ledger.issue(group));
                }
            }
        }
        let before = standing.as_ref().map_or(&[][..], |s| &s.validating);
        for (group, steps) in steps.into_iter().enumerate() {
            let left = before.iter().find(|(who, _)| *who == group);
            let validate = due
                && self.server.run.evaluator.is_some()
                && (left.is_some() || before.is_empty() && group == 0);
            let orders = Orders::steps(steps).validating(validate);
            if validate {
                let running = standing.as_ref().and_then(|s| s.running_of(group));
                self.validating.push(Validating {
                    group,
                    step: left.map_or(self.ledger.done(), |(_, step)| *step),
                    running: running
                        .map_or_else(|| self.server.running_statistics(), <[f32]>::to_vec),
                });
            }
            // Everybody has the running statistics of the start.
            let reply = Reply {
                version: 0,
                orders,
                bytes: 0,
            };
            if !self.server.say(group, raw(&reply))? {
                self.server.loses(group);
                self.lost(group);
            }
        }
        while !self.server.turns.over() {
            if stop.load(Ordering::Relaxed) || self.server.run.is_out_of_time(self.start) {
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
                ServerEvent::Errand => {}
            }
            self.release()?;
            let seconds = self.server.run.recipe.training.checkpoint_every_seconds;
            if self.saved_at.elapsed().as_secs_f64() >= seconds {
                self.save_soon()?;
            }
        }
        self.conclude(folder, stop)
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

    /// Books a step and tells of it.
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
            let samples = run.local_batch * self.server.layout.ranks_per_group;
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

    /// Gives a group what it needs for its next step, and saves if it is time.
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

    /// Answers groups that were waiting for a step, if there is one or none will come any more.
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
        match self.server.take_bytes(group, request.bytes)? {
            Some(spent) => self
                .spent
                .extend(bytemuck::pod_collect_to_vec::<u8, Spent>(&spent)),
            None => self.lost(group),
        }
        self.missing_values += request.step;
        Ok(())
    }

    fn lost(&mut self, group: usize) {
        self.ledger.give_back(group);
        self.parked.retain(|(parked, _)| *parked != group);
        self.server.run.validation_due |= self.stops_validating(group).is_some();
    }

    /// After how many steps a group was to score the network, if it was; now it is not.
    fn stops_validating(&mut self, group: usize) -> Option<u64> {
        let at = self.validating.iter().position(|v| v.group == group)?;
        Some(self.validating.remove(at).step)
    }

    /// Nothing has come for a moment, or for long: then whoever is still expected is gone, unless it scores the network
    /// and lives.
    fn silence(&mut self) {
        if self.server.heard.elapsed() <= self.server.limit {
            return;
        }
        let judges: Vec<usize> = self.validating.iter().map(|v| v.group).collect();
        for group in judges {
            if self.server.is_silent(group) {
                self.server.loses(group);
                self.lost(group);
            }
        }
        if !self.validating.is_empty() {
            return;
        }
        if !self.server.gives_up() {
            for group in self.server.turns.listened() {
                // Who waits for this server cannot speak.
                let waits = self.parked.iter().any(|(parked, _)| *parked == group);
                if !waits && !self.server.takes_its_time(group) {
                    self.server.loses(group);
                    self.lost(group);
                }
            }
        }
    }

    /// Takes up what a validation found.
    pub(super) fn scores(&mut self, group: usize, request: &Request) -> Result<()> {
        let step = self.stops_validating(group);
        let step = step.unwrap_or(self.ledger.done());
        if request.stop != 0 {
            self.ledger.close();
        }
        if request.bytes == 0 {
            self.server.run.validation_due = true;
            return Ok(());
        }
        let count = self.server.run.learner.network.parameters().count();
        let (mut values, running) = (vec![0f32; count], self.server.running_statistics());
        let mut theirs = vec![0f32; running.len()];
        let server = &mut self.server;
        let text = server.take_bytes(group, request.bytes)?;
        let whole = text.is_some()
            && server.take(group, bytemuck::cast_slice_mut(&mut values))?
            && server.take(group, bytemuck::cast_slice_mut(&mut theirs))?;
        let (Some(text), true) = (text, whole) else {
            self.server.run.validation_due = true;
            self.server.loses(group);
            self.lost(group);
            return Ok(());
        };
        let scores: Scores = parsed(&text)?;
        // The network as it was scored; the run has gone on meanwhile.
        let run = &mut self.server.run;
        let parameters = run.learner.network.parameters_mut();
        parameters.update_all(|all| all.copy_from_slice(&values))?;
        parameters.set_buffers(&theirs)?;
        run.judge(step, scores, self.progress)?;
        let parameters = run.learner.network.parameters_mut();
        parameters.set_buffers(&running)?;
        Ok(())
    }

    /// Brings what all servers hold into this rank's learner: the state after the same steps on all of them.
    pub(super) fn collect(&mut self) -> Result<()> {
        let server = &mut self.server;
        let counts: Vec<u64> = (server.steps_of.iter().enumerate())
            .map(|(group, &steps)| {
                if server.turns.is_lost(group) {
                    0
                } else {
                    steps
                }
            })
            .collect();
        let path = Path::new(PART);
        let mut file = server.part_file()?;
        let mut counted: Vec<ServerStanding> = vec![parsed(file.fact(path, COUNTED)?.as_bytes())?];
        let count = server.run.learner.network.parameters().count();
        let mut views = match server.turns.in_turns() {
            Some(_) => vec![vec![0.0; count]; server.layout.groups],
            None => Vec::new(),
        };
        Views::scatter(&mut file, &server.slices[0], &mut views);
        let others = 1..server.layout.servers;
        for other in others.clone() {
            send_errand(server, other, errand::PART, bytemuck::cast_slice(&counts))?;
        }
        for other in others {
            let mut length = [0; 8];
            server.between.receive(other, &mut length)?;
            let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
            server.between.receive(other, &mut bytes)?;
            let mut part = ModelFile::decode(path, &bytes)?;
            counted.push(parsed(part.fact(path, COUNTED)?.as_bytes())?);
            Views::scatter(&mut part, &server.slices[other], &mut views);
            file.tensors.extend(part.tensors);
        }
        self.staleness = StalenessSummary::default();
        counted
            .iter()
            .for_each(|server| self.staleness.add(&server.staleness));
        let running = |v: &Validating| v.running.clone();
        server.run.standing = server.turns.in_turns().map(|next| Standing {
            next,
            held: self.ledger.held(),
            servers: counted,
            validating: self.validating.iter().map(|v| (v.group, v.step)).collect(),
            views,
            running: self.validating.iter().map(running).collect(),
        });
        let learner = &mut server.run.learner;
        for buffer in learner.network.parameters().buffers() {
            let values = (vec![buffer.values.len()], buffer.values.clone());
            file.tensors.insert(buffer.name.clone(), values);
        }
        if let Some(recorder) = &mut server.run.recorder {
            recorder.staleness(learner.progress.step, &self.staleness)?;
        }
        let path = Path::new("the servers' parts");
        let parameters = learner.network.parameters_mut();
        parameters.load(path, |name| file.tensor(name))?;
        learner.optimizer.load_from(path, &file)?;
        Ok(())
    }

    /// Writes the last model and the checkpoint now; in turns with several servers after the next step that none of
    /// them can have passed.
    fn save_soon(&mut self) -> Result<()> {
        let Server { layout, turns, .. } = &self.server;
        let (servers, groups) = (layout.servers, layout.groups as u64);
        if servers == 1 || turns.in_turns().is_none() {
            return self.save();
        }
        if self.cut.is_none() {
            // Another server is ahead by one step of each group at most.
            let cut = self.ledger.done() + 2 * groups;
            for other in 1..servers {
                send_errand(
                    &mut self.server,
                    other,
                    errand::CUT,
                    bytemuck::bytes_of(&cut),
                )?;
            }
            self.cut = Some(cut);
        }
        Ok(())
    }

    /// Writes the last model and the checkpoint.
    fn save(&mut self) -> Result<()> {
        self.collect()?;
        self.write()
    }

    pub(super) fn write(&mut self) -> Result<()> {
        let run = &mut self.server.run;
        run.pending = self.ledger.pending();
        let due = run.validation_due;
        run.validation_due |= !self.validating.is_empty();
        let saved = run.save(self.progress);
        run.validation_due = due;
        self.saved_at = Instant::now();
        self.cut = None;
        saved
    }
}

pub(super) fn send_errand(
    server: &mut Server<'_>,
    other: usize,
    errand: u64,
    bytes: &[u8],
) -> Result<()> {
    let head = [errand, bytes.len() as u64];
    server.between.send(other, bytemuck::cast_slice(&head))?;
    server.between.send(other, bytes)?;
    Ok(())
}
