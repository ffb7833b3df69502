//! The end of a run: the last state, its scores, and the dismissal of all groups.

use super::coordinator::Coordinator;
use super::last_message::LastMessage;
use super::link::json;
use super::message::{Orders, Reply, Request, command, raw};
use super::staleness::StalenessSummary;
use crate::comm::{Arrival, Payload};
use crate::error::{JobError, Result};
use crate::train::{Balance, Best, Outcome, Spent, TrainReport};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the end of the job waits for ranks that have long been silent.
const FOR_THE_MISSING: Duration = Duration::from_secs(5);

/// How a run ended, as sent to all ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ending {
    /// Whether all steps are done.
    finished: bool,
    steps: u64,
    new_steps: u64,
    total_steps: u64,
    skipped_steps: u64,
    best: Option<Best>,
    balance: Balance,
    ranks: usize,
    staleness: StalenessSummary,
}

impl Ending {
    /// A server's report.
    pub(super) fn report(
        self,
        folder: &Path,
        start: Instant,
        last_loss: Option<f64>,
        missing_values: u64,
    ) -> TrainReport {
        TrainReport {
            ended_early: None,
            outcome: match self.finished {
                true => Outcome::Finished,
                false => Outcome::Interrupted,
            },
            steps: self.steps,
            new_steps: self.new_steps,
            total_steps: self.total_steps,
            skipped_steps: self.skipped_steps,
            best: self.best,
            last_loss,
            seconds: start.elapsed().as_secs_f64(),
            ranks: self.ranks,
            spent: Spent::default(),
            balance: self.balance,
            missing_values,
            staleness: Some(self.staleness),
            model: folder.join("best.safetensors"),
        }
    }
}

impl Coordinator<'_, '_> {
    /// Concludes the run after all groups have left or are lost: saves the last state, has it scored, and dismisses the
    /// groups.
    pub(super) fn conclude(mut self, folder: &Path, stop: &AtomicBool) -> Result<TrainReport> {
        self.collect()?;
        let finished = self.ledger.is_complete();
        let judged = self.server.run.evaluator.is_some();
        let due = self.server.run.validation_due || self.ledger.done() > self.done_before;
        let scored = finished && judged && due;
        if finished && !judged {
            self.server.run.write_last_as_best()?;
        }
        self.server.run.validation_due |= scored;
        // Saved before anything else can fail.
        self.write()?;
        let ending = self.ending(finished)?;
        let mut groups = self.server.turns.left();
        let mut asks = scored;
        while asks && let Some(at) = groups.iter().position(|g| !self.server.mail.is_silent(*g)) {
            let judge = groups.remove(at);
            self.dismiss(judge, &ending, true)?;
            self.server.run.validation_due = false;
            // If the group is lost, the next one takes its place.
            asks = !self.wait_for_scores(judge)?;
            if !self.server.run.validation_due {
                self.write()?;
            }
        }
        let ending = self.ending(finished && !self.server.run.validation_due)?;
        for group in groups {
            self.dismiss(group, &ending, false)?;
        }
        let text = json(&ending)?;
        for other in 1..self.server.mail.layout.servers {
            (self.server.mail).send_command(other, command::END, &text)?;
        }
        let layout = self.server.mail.layout;
        let missing = |group: usize| self.server.mail.heartbeats.is_missing(layout.leader(group));
        if (0..layout.groups).any(missing) {
            tracing::warn!(
                "ranks of a lost group will not come to the end of the job, which then ends by force; nothing of the run is lost"
            );
            self.server.mail.between.limit_waits(FOR_THE_MISSING);
        }
        self.server.mail.heartbeats.end();
        let told = self.ledger.is_closed() || stop.load(Ordering::Relaxed);
        let (done, total) = (self.ledger.done(), self.server.run.total_steps);
        // The next call does the rest.
        if !finished && !told {
            return Err(JobError::NoGroup(format!("after {done} of {total} steps")));
        }
        if asks {
            let what = format!("to score the state after {done} steps");
            return Err(JobError::NoGroup(what));
        }
        let report = ending.report(folder, self.start, self.last_loss, self.missing_values);
        let spent: Vec<Spent> = self.spent.into_values().collect();
        Ok(TrainReport {
            spent: Spent::mean(&spent),
            ..report
        })
    }

    /// Dismisses a group; sends the parameters if it must score them.
    fn dismiss(&mut self, group: usize, ending: &Ending, validate: bool) -> Result<()> {
        let text = json(ending)?;
        let reply = Reply {
            version: 0,
            orders: Orders::steps([]).validating(validate),
            bytes: text.len() as u64,
        };
        let mut values = Vec::new();
        if validate {
            let parameters = self.server.run.learner.network.parameters_mut();
            parameters.update_all(|all| values.extend_from_slice(all))?;
        }
        let running = self.server.running_statistics();
        let mail = &mut self.server.mail;
        let mut there = mail.say(group, raw(&reply))? && mail.say(group, &text)?;
        if there && validate {
            let running = Payload::Values(running);
            there = mail.send(group, Payload::Values(values))?.is_some()
                && mail.send(group, running)?.is_some();
        }
        if !there {
            tracing::warn!("group {group} went before the run was over");
        }
        Ok(())
    }

    /// Waits for the scores of a dismissed group, or for its answer that there are none because it was asked to stop;
    /// returns whether it answered.
    fn wait_for_scores(&mut self, group: usize) -> Result<bool> {
        let leader = self.server.mail.leader_between(group);
        let mut request = Request::of(0, 0);
        let bytes = bytemuck::bytes_of_mut(&mut request);
        self.server.last_message = LastMessage::at(Instant::now());
        loop {
            match self.server.wait(&[leader])? {
                Arrival::Message(_) if self.server.mail.take(group, bytes)? => {
                    self.scores(group, &request)?;
                    return Ok(!self.server.turns.is_lost(group));
                }
                Arrival::Nothing
                    if self
                        .server
                        .mail
                        .waits_for(group, self.server.last_message.since()) => {}
                _ => break,
            }
        }
        tracing::warn!("group {group} is lost while it scores the last state");
        self.server.loses(group);
        self.server.run.validation_due = true;
        Ok(false)
    }

    fn ending(&self, finished: bool) -> Result<Ending> {
        let run = &self.server.run;
        let layout = self.server.mail.layout;
        let new_steps = self.ledger.done() - self.done_before;
        let (ranks, spent): (Vec<usize>, Vec<Spent>) = self
            .spent
            .iter()
            .map(|(&rank, &spent)| (rank, spent))
            .unzip();
        let balance = run.balance(&spent, new_steps)?;
        Ok(Ending {
            finished,
            steps: self.ledger.done(),
            new_steps,
            total_steps: run.total_steps,
            skipped_steps: run.learner.progress.skipped,
            best: run.best.clone(),
            balance: Balance {
                slowest: ranks.get(balance.slowest).copied().unwrap_or_default(),
                ..balance
            },
            ranks: layout.servers + layout.groups * layout.ranks_per_group,
            staleness: self.staleness.clone(),
        })
    }
}
