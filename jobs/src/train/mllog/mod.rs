//! Training logs in the format of MLPerf HPC's DeepCAM benchmark, for its checkers and summaries.
//!
//! The log is written from [`TrainEvent`]s alone. A resumed run continues its log: submission, settings, start and end
//! appear once, as the checkers require.
//!
//! # Source
//! mlcommons/logging `compliance_checker/hpc_3.0.0` (which keys there are, in which order) and mlcommons/hpc
//! `deepcam/src/deepCam` (`train.py`, `driver`: when each is written).

mod facts;
mod line;
#[cfg(test)]
mod tests;

use super::evaluate::Scores;
use super::step::StepResult;
use super::{Outcome, TrainEvent, TrainPlan, TrainReport};
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use facts::{SUBMISSION, short};
use line::{Line, Lines, now_ms};
use std::collections::BTreeSet;
use std::path::Path;

/// The hardware that trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hardware {
    /// Ranks of the job.
    pub ranks: usize,
    /// Nodes that they are on.
    pub nodes: usize,
    /// GPUs per node; 0 for training on CPUs.
    pub accelerators_per_node: usize,
}

/// A log in progress, on the first rank.
#[derive(Debug)]
pub struct MlLog {
    lines: Lines,
    recipe: Recipe,
    hardware: Hardware,
    opened_ms: u64,
    /// Whether an earlier part of the run has begun the log.
    continues: bool,
    /// Known once the run has started.
    rhythm: Option<Rhythm>,
    /// Start time of the epoch whose first step is in progress.
    epoch_began_ms: u64,
    /// The current epoch, from 0; `None` between epochs.
    epoch: Option<u64>,
    /// Steps whose validations are in progress; with groups there may be several.
    validating: BTreeSet<u64>,
    /// Whether this part of the run has done any work.
    worked: bool,
    /// The error that ended the log before the run ended.
    failed: Option<JobError>,
}

/// Which steps end an epoch, and which are followed by a validation.
#[derive(Debug, Clone, Copy)]
struct Rhythm {
    epoch_samples: u64,
    step_samples: u64,
    total_steps: u64,
    /// `None` without validation.
    validate_every: Option<u64>,
}

impl Rhythm {
    fn of(plan: &TrainPlan) -> Self {
        Self {
            epoch_samples: (plan.epoch_samples as u64).max(1),
            step_samples: plan.step_samples as u64,
            total_steps: plan.total_steps,
            validate_every: (plan.validation_samples > 0).then_some(plan.validate_every_steps),
        }
    }

    /// The number of epochs that so many steps complete.
    fn complete_after(self, steps: u64) -> u64 {
        let samples = u128::from(steps) * u128::from(self.step_samples);
        (samples / u128::from(self.epoch_samples)) as u64
    }

    /// The epoch, from 0, in which this many steps' last one begins.
    fn epoch_of(self, step: u64) -> u64 {
        self.complete_after(step.saturating_sub(1))
    }

    fn ends_epoch(self, step: u64) -> bool {
        step == self.total_steps || self.complete_after(step) > self.epoch_of(step)
    }

    fn validates(self, step: u64) -> bool {
        let due = |every| step == self.total_steps || step.is_multiple_of(every);
        self.validate_every.is_some_and(due)
    }
}

impl MlLog {
    /// Opens the log of a run that starts or resumes; its first lines follow [`TrainEvent::Started`].
    ///
    /// # Errors
    /// [`JobError::Data`] if the file cannot be read or written.
    pub fn open(path: &Path, recipe: &Recipe, hardware: Hardware) -> Result<Self> {
        let (lines, continues) = Lines::open(path)?;
        Ok(Self {
            lines,
            recipe: recipe.clone(),
            hardware,
            opened_ms: now_ms(),
            continues,
            rhythm: None,
            epoch_began_ms: 0,
            epoch: None,
            validating: BTreeSet::new(),
            worked: false,
            failed: None,
        })
    }

    /// Logs an event. A write error ends the log but not the run, which is worth more; [`Self::end`] returns the error.
    pub fn observe(&mut self, event: &TrainEvent) {
        if self.failed.is_some() {
            return;
        }
        let written = match event {
            TrainEvent::Started(plan) => self.started(plan),
            TrainEvent::Step { step, result, .. } => self.step(*step, result),
            TrainEvent::Validated { step, scores, .. } => self.validated(*step, scores),
            _ => Ok(()),
        };
        if let Err(error) = written {
            tracing::warn!("{error}: the training goes on without its MLPerf log");
            self.failed = Some(error);
        }
    }

    /// Ends the log of a run, or of a part of it, and returns the run's report.
    ///
    /// # Errors
    /// The run's own error, or the one that ended the log.
    pub fn end(mut self, report: Result<TrainReport>) -> Result<TrainReport> {
        if self.failed.is_none() {
            self.failed = self.ended(report.as_ref().ok()).err();
        }
        let report = report?;
        self.failed.map_or(Ok(report), Err)
    }

    fn started(&mut self, plan: &TrainPlan) -> Result<()> {
        if !self.continues {
            self.begin(plan)?;
        } else if plan.done_steps == 0 {
            self.lines.check_new_run()?;
        }
        self.rhythm = Some(Rhythm::of(plan));
        self.epoch_began_ms = now_ms();
        Ok(())
    }

    fn begin(&mut self, plan: &TrainPlan) -> Result<()> {
        let facts = facts::of_run(&self.recipe, plan, self.hardware)?;
        for (key, value) in SUBMISSION {
            let line = Line::point(key, value).at(self.opened_ms);
            self.lines.push(&line)?;
        }
        let line = Line::start("init_start").at(self.opened_ms);
        self.lines.push(&line)?;
        // The system's file cache is not cleared.
        self.lines.push(&Line::point("cache_clear", false))?;
        for (key, value) in facts {
            self.lines.push(&Line::point(key, value))?;
        }
        self.lines.push(&Line::end("init_stop"))?;
        self.lines.push(&Line::start("run_start"))
    }

    fn step(&mut self, step: u64, result: &StepResult) -> Result<()> {
        let Some(rhythm) = self.rhythm else {
            return Ok(());
        };
        self.worked = true;
        let epoch = rhythm.epoch_of(step);
        if self.epoch != Some(epoch) {
            // Other groups keep training while one validates.
            self.end_epoch(step - 1)?;
            let line = Line::start("epoch_start").at_step(epoch, step - 1);
            self.lines.push(&line.at(self.epoch_began_ms))?;
            self.epoch = Some(epoch);
        }
        let (ends, validates) = (rhythm.ends_epoch(step), rhythm.validates(step));
        if ends {
            let rate = Line::point("learning_rate", short(result.learning_rate));
            self.lines.push(&rate.at_step(epoch, step))?;
            let loss = Line::point("train_loss", result.loss);
            self.lines.push(&loss.at_step(epoch, step))?;
        }
        if validates {
            let line = Line::start("eval_start").at_step(epoch, step);
            self.lines.push(&line)?;
            self.validating.insert(step);
        } else if ends {
            self.end_epoch(step)?;
        }
        Ok(())
    }

    fn validated(&mut self, step: u64, scores: &Scores) -> Result<()> {
        let Some(rhythm) = self.rhythm else {
            return Ok(());
        };
        self.worked = true;
        let epoch = rhythm.epoch_of(step);
        if !self.validating.remove(&step) {
            // A validation interrupted in the previous part of the run: this part runs it first, in that part's epoch.
            let line = Line::start("eval_start").at_step(epoch, step);
            self.lines.push(&line.at(self.epoch_began_ms))?;
            self.epoch.get_or_insert(epoch);
        }
        let (name, accuracy) = accuracy_of(scores);
        let line = self.judged(Line::point("eval_accuracy", accuracy));
        self.lines
            .push(&line.with("score", name).at_step(epoch, step))?;
        let line = self.judged(Line::point("eval_loss", scores.loss()));
        self.lines.push(&line.at_step(epoch, step))?;
        let target = self.recipe.training.target_score;
        if let Some(target) = target.filter(|&target| scores.score() >= target) {
            let line = Line::point("target_accuracy_reached", target);
            let line = line.with("score", scores.score_name());
            self.lines.push(&line.at_step(epoch, step))?;
        }
        self.lines
            .push(&Line::end("eval_stop").at_step(epoch, step))?;
        if self.epoch == Some(epoch) && rhythm.ends_epoch(step) {
            self.end_epoch(step)?;
        }
        Ok(())
    }

    /// Marks a line about a validation if the validated weights are not those of a single step.
    fn judged(&self, line: Line) -> Line {
        match self.recipe.training.average {
            Some(decay) => line.with("weights", "average").with("decay", decay),
            None => line,
        }
    }

    /// Ends the current epoch, if any, after this many steps.
    fn end_epoch(&mut self, step: u64) -> Result<()> {
        let Some(epoch) = self.epoch.take() else {
            return Ok(());
        };
        self.lines
            .push(&Line::end("epoch_stop").at_step(epoch, step))?;
        self.epoch_began_ms = now_ms();
        Ok(())
    }

    /// Writes how the run ended; without a report it failed.
    fn ended(&mut self, report: Option<&TrainReport>) -> Result<()> {
        let finished = report.filter(|report| report.outcome == Outcome::Finished);
        // An earlier process did the last step and was killed before it logged the end; only the end is left to log.
        let left = finished.and_then(|report| self.lines.left_after(report.steps));
        let left = left.filter(|_| !self.worked);
        // Calling a finished run again must not log a second end.
        let worked = self.worked || left.is_some();
        let tells = self.rhythm.is_some() && (worked || !self.continues);
        if !tells {
            return Ok(());
        }
        if let Some(report) = finished {
            if left == Some(false) {
                self.epoch = self.rhythm.map(|rhythm| rhythm.epoch_of(report.steps));
            }
            self.end_epoch(report.steps)?;
        }
        // Neither a run that misses its target nor a log without its steps is a success.
        let reaches = |report: &TrainReport| {
            let best = report.best.as_ref().map(|best| best.scores.score());
            let target = self.recipe.training.target_score;
            target.is_none_or(|target| best.is_some_and(|best| best >= target))
        };
        let status = match worked && finished.is_some_and(reaches) {
            true => "success",
            false => "aborted",
        };
        let line = Line::end("run_stop").with("status", status);
        self.lines.push(&line)
    }
}

/// Name and value of what MLPerf calls accuracy: IoU by DeepCAM's rule for masks; the box score for boxes, for which
/// MLPerf has no rule.
fn accuracy_of(scores: &Scores) -> (&'static str, f64) {
    match scores {
        Scores::Masks(masks) => ("sample mean IoU", masks.sample_mean_iou),
        Scores::Both(both) => ("sample mean IoU", both.masks.sample_mean_iou),
        Scores::Boxes(_) => (scores.score_name(), scores.score()),
    }
}
