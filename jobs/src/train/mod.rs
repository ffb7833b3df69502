//! The training loop. Start reading here.
//!
//! [`train_together`] checks recipe and store, `prepare` builds a `Run`, and `Run::train` is the loop. Batches come
//! from [`squall_data::Loader`] through `feed`, `step::Learner` trains on them, [`evaluate`] scores, `keep` and
//! [`checkpoint`] save. A run that is killed at any point and restarted ends with the same bytes as an uninterrupted
//! one: all randomness is a pure function of seed and step, and files are written atomically.
//!
//! A step is one batch, or several whose gradients are accumulated (`training.accumulate`).
//!
//! The ranks of a [`Team`] run the same loop: each trains on its share of the samples, gradients are averaged during
//! the backward pass, and the first rank writes the files. With `distributed.groups` there are several such groups of
//! ranks, which do not wait for each other; servers hold the parameters: see `groups`.

pub mod checkpoint;
mod early_stopping;
pub mod evaluate;
mod exchange;
pub(crate) mod feed;
mod fit;
mod groups;
mod keep;
mod mllog;
mod objective;
mod plan;
mod prepare;
mod progress;
mod recorder;
mod rules;
mod samples;
mod self_training;
mod share;
mod start_from;
mod step;
mod step_shape;
mod team;
mod timeline;
mod used_labels;
mod validation;
mod warnings;

pub use early_stopping::EndedEarly;
pub use groups::StalenessSummary;
pub use mllog::{Hardware, MlLog};
pub use plan::TrainPlan;
use prepare::channels;
pub use prepare::samples_of_epoch;
pub(crate) use prepare::steps_alone;
pub use progress::{Best, Outcome, TrainEvent, TrainReport};
pub use step::StepResult;
pub(crate) use step::facts_of_step;
pub use team::{OnStall, Team};
pub use timeline::{Balance, Spent};
pub(crate) use validation::has_validation;

use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::recipe::{LocalBatch, Recipe};
use crate::run_dir::RunDir;
use evaluate::Evaluator;
use feed::{Batch, Feed};
use recorder::Recorder;
use samples::Samples;
use share::Share;
use squall_data::Store;
use squall_data::loader::LoaderConfig;
use squall_model::summary::Summary;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use step::Learner;
use timeline::StepPhase;

/// Trains a network on a store, into a run's folder; resumes what an earlier call there began.
///
/// `progress` receives the events of the run. Setting `stop` saves a checkpoint after the current step and returns
/// [`Outcome::Interrupted`].
///
/// # Errors
/// [`JobError::Locked`], [`JobError::Memory`], [`JobError::Resume`], [`JobError::Diverged`]; [`JobError::Recipe`] if
/// data and recipe disagree; any error of reading, computing or writing.
pub fn train(
    recipe: &Recipe,
    store: &Arc<Store>,
    folder: &Path,
    progress: &mut dyn FnMut(&TrainEvent),
    stop: &AtomicBool,
) -> Result<TrainReport> {
    train_together(recipe, store, folder, progress, stop, &mut Team::solo())
}

/// Like [`train`], on several ranks: collective over all ranks of the team, with the same recipe and data. Only the
/// first rank writes into `folder`; it also reads the checkpoint and sends it to the others. After an error on one rank
/// the others may block, so the caller must end the job.
///
/// # Errors
/// As [`train`]; [`JobError::Comm`] if ranks disagree or cannot communicate; [`JobError::Elsewhere`] if another rank
/// failed.
pub fn train_together(
    recipe: &Recipe,
    store: &Arc<Store>,
    folder: &Path,
    progress: &mut dyn FnMut(&TrainEvent),
    stop: &AtomicBool,
    team: &mut Team,
) -> Result<TrainReport> {
    team.limit_waits(recipe.distributed.longest_wait());
    let fitted = (recipe.check())
        .and_then(|()| fit::check_grid(recipe, store))
        .and_then(|()| recipe.with_channels(channels(recipe, store).len()));
    let opened = fitted.and_then(|recipe| {
        let run_dir = team.is_first().then(|| RunDir::open(folder)).transpose()?;
        run_dir
            .iter()
            .try_for_each(|run_dir| run_dir.check_recipe(&recipe, store.data_hash()))?;
        Ok((run_dir, recipe))
    });
    let (run_dir, recipe) = team.after_files(opened)?;
    let recipe = &recipe;
    let store = &team.all_or_none(self_training::relabelled(recipe, store))?;
    if team.size() > 1
        && let Some(groups) = recipe.distributed.groups
    {
        let job = groups::Job {
            recipe,
            store,
            folder,
            stop,
        };
        let report = groups::train(job, groups, run_dir, progress, team)?;
        if team.is_first() {
            warnings::nothing_found(&report, store, recipe);
        }
        return learnt(report, recipe);
    }
    let share = Share::agree(store, recipe.seed, team)?;
    let mut run = Run::prepare(recipe, store, run_dir, share, team)?;
    // The checkpoint may come from a run with groups; this run has none.
    run.standing = None;
    run.learner.join(&recipe.distributed, team)?;
    run.announce(team, progress)?;
    let report = run.train(team, folder, progress, stop)?;
    if team.is_first() {
        warnings::nothing_found(&report, store, recipe);
    }
    learnt(report, recipe)
}

/// Refuses the result of a finished run whose every step was skipped: its models hold the initial values. Called with
/// the report, and thus again by a call after the end.
///
/// # Errors
/// [`JobError::Diverged`], on all ranks alike.
fn learnt(report: TrainReport, recipe: &Recipe) -> Result<TrainReport> {
    // With a lag the first steps had no gradient to apply.
    let lag = recipe.distributed.gradient_lag as u64;
    let none = report.skipped_steps > 0 && report.skipped_steps + lag >= report.steps;
    if report.outcome != Outcome::Finished || !none {
        return Ok(report);
    }
    Err(JobError::Diverged {
        step: report.steps,
        reason: format!(
            "none of its {} steps changed the network: in each the loss or the gradient was not finite",
            report.steps
        ),
    })
}

/// A run in progress.
struct Run<'a> {
    recipe: &'a Recipe,
    store: &'a Arc<Store>,
    /// The run's folder; only on the first rank, which writes there.
    run_dir: Option<RunDir>,
    samples: Samples,
    loader: LoaderConfig,
    learner: Learner,
    evaluator: Option<Evaluator>,
    contract: Contract,
    /// Metrics and times; only on the first rank.
    recorder: Option<Recorder>,
    best: Option<Best>,
    total_steps: u64,
    validate_every: u64,
    checkpoint_every: u64,
    class_weights: Vec<f32>,
    validation_samples: usize,
    /// Samples per batch on this rank.
    local_batch: LocalBatch,
    /// Ranks that do a step together.
    step_ranks: usize,
    /// Which samples this rank's node holds. Together with the seed it decides the sample order, so a run resumes only
    /// if it is unchanged.
    deal: String,
    /// With groups: steps in progress when the checkpoint was taken, which are done first.
    pending: Vec<u64>,
    /// With groups in round-robin order: the state of each group at the last checkpoint.
    standing: Option<groups::Standing>,
    /// Whether the last step still needs its validation.
    validation_due: bool,
}

/// Returns the next batch and the seconds spent waiting for it.
fn next_batch(team: &mut Team, loader: &mut Feed) -> Result<(Batch, f64)> {
    let before = Instant::now();
    let batch = loader.next().ok_or(JobError::Thread("loader"))??;
    let seconds = before.elapsed().as_secs_f64();
    team.timeline.note(StepPhase::Input, before);
    if let Some(read) = &batch.read {
        team.timeline.read(read);
    }
    Ok((batch, seconds))
}

/// How the training loop ended on this rank.
struct LoopEnd {
    started: Instant,
    /// Steps done by earlier calls.
    done_before: u64,
    /// Whether it was asked to stop.
    interrupted: bool,
    last_loss: Option<f64>,
    /// Missing values in the fields read by this rank.
    missing_values: u64,
}

/// When this rank started to train, and when it last saved.
struct Clock {
    started: Instant,
    saved: Instant,
}

impl Run<'_> {
    /// Sends the plan to `progress` and writes the facts that the numbers depend on into the run's folder. Fails if the
    /// machine lacks memory. All ranks of `team` call it.
    fn announce(&self, team: &mut Team, progress: &mut dyn FnMut(&TrainEvent)) -> Result<()> {
        let node_ranks = team.place_on_node()?.ranks;
        let plan = self.plan(team, node_ranks);
        let plan = team.all_or_none(plan)?;
        let written = match (&self.run_dir, &self.recorder) {
            (Some(run_dir), Some(recorder)) => {
                let has_steps = plan.done_steps < plan.total_steps && self.ends_early().is_none();
                let computes_on = has_steps.then(|| self.learner.network.backend());
                recorder.facts(run_dir, &plan, self.store, computes_on)
            }
            _ => Ok(()),
        };
        team.after_files(written)?;
        progress(&TrainEvent::Started(plan));
        Ok(())
    }

    /// Trains with the other ranks of `team` until the last step or until asked to stop.
    fn train(
        mut self,
        team: &mut Team,
        folder: &Path,
        progress: &mut dyn FnMut(&TrainEvent),
        stop: &AtomicBool,
    ) -> Result<TrainReport> {
        let started = Instant::now();
        self.learner.round_kernels()?;
        if team.is_first() {
            self.warn_ends_without_scores();
        }
        team.begin_timeline(self.recipe.training.trace_steps);
        let done = self.learner.progress.step;
        let left = self.total_steps.saturating_sub(done) as usize;
        let batches = left.saturating_mul(self.recipe.training.accumulate);
        let plans = self
            .samples
            .resuming_from(done, &self.pending)
            .take(batches);
        let backend = self.learner.network.backend();
        let mut loader = Feed::new(self.store, plans, &self.loader, backend)?;
        let mut clock = Clock {
            started,
            saved: Instant::now(),
        };
        let mut last_loss = None;
        let mut interrupted = false;
        if self.validation_due {
            interrupted = !self.validate(team, progress, stop)?;
            self.save(team, progress)?;
        }
        let is_over =
            |run: &Self| run.learner.progress.step >= run.total_steps || run.ends_early().is_some();
        while !interrupted && !is_over(&self) {
            let loss = self.one_step(team, &mut loader, &clock, progress, stop)?;
            last_loss = Some(loss);
            team.timeline.step(folder)?;
            interrupted = self.after_step(team, &mut clock, progress, stop)?;
        }
        team.timeline.end(folder)?;
        let loop_end = LoopEnd {
            started,
            done_before: done,
            interrupted,
            last_loss,
            missing_values: loader.missing_values(),
        };
        self.report(loop_end, team, folder)
    }

    /// The report of a run whose loop has ended, from the results of all ranks of `team`.
    fn report(&self, end: LoopEnd, team: &mut Team, folder: &Path) -> Result<TrainReport> {
        let steps = self.learner.progress.step;
        let before_last = steps < self.total_steps && !end.interrupted;
        let ended_early = before_last.then(|| self.ends_early()).flatten();
        if let (Some(why), true) = (ended_early, team.is_first()) {
            self.log_ended_early(why);
        }
        let spent = team.timeline.spent;
        let of_all = team.gather(bytemuck::bytes_of(&spent))?;
        let of_all: Vec<Spent> = bytemuck::pod_collect_to_vec(&of_all);
        let new_steps = steps - end.done_before;
        let balance = self.balance(&of_all, new_steps)?;
        let mut missing_values = [end.missing_values];
        team.sum_counts(&mut missing_values)?;
        Ok(TrainReport {
            balance,
            outcome: match end.interrupted {
                true => Outcome::Interrupted,
                false => Outcome::Finished,
            },
            ended_early,
            steps,
            new_steps,
            total_steps: self.total_steps,
            skipped_steps: self.learner.progress.skipped,
            best: self.best.clone(),
            last_loss: end.last_loss,
            seconds: end.started.elapsed().as_secs_f64(),
            missing_values: missing_values[0],
            ranks: team.size(),
            spent,
            staleness: None,
            model: folder.join("best.safetensors"),
        })
    }

    /// Trains on the batches of the next step, then records and reports it; returns its loss.
    fn one_step(
        &mut self,
        team: &mut Team,
        loader: &mut Feed,
        clock: &Clock,
        progress: &mut dyn FnMut(&TrainEvent),
        stop: &AtomicBool,
    ) -> Result<f64> {
        let before = Instant::now();
        let accumulate = self.recipe.training.accumulate;
        let mut wait_seconds = 0.0;
        for _ in 1..accumulate {
            let (batch, waited) = next_batch(team, loader)?;
            wait_seconds += waited;
            self.learner.accumulate(&batch, team)?;
            loader.give_back(batch);
        }
        let (batch, waited) = next_batch(team, loader)?;
        wait_seconds += waited;
        let begun = self.learner.forward_backward(&batch, team)?;
        // Last thing before the exchange that informs the other ranks, so that a signal during the passes still ends
        // the run after this step.
        team.ask_to_stop(self.is_told_to_stop(clock.started, stop));
        let every = self.recipe.training.checkpoint_every_seconds;
        team.ask_to_save(clock.saved.elapsed().as_secs_f64() >= every);
        let result = self.learner.end_step(begun, &batch, team)?;
        let samples = accumulate * batch.host.len() / self.loader.frames;
        loader.give_back(batch);
        let step = self.learner.progress.step;
        let pending = self.pending.drain(..self.pending.len().min(1)).next();
        let epoch = self.samples.cursor(pending.unwrap_or(step - 1)).epoch;
        let seconds = before.elapsed().as_secs_f64();
        if let Some(recorder) = &mut self.recorder {
            recorder.step(step, epoch, &result)?;
            recorder.timing(step, seconds, wait_seconds, samples * team.size())?;
        }
        if let Some(parameters) = self.learner.take_without_gradient() {
            progress(&TrainEvent::WithoutGradient { step, parameters });
        }
        progress(&TrainEvent::Step {
            step,
            total: self.total_steps,
            epoch,
            result,
            seconds,
            wait_seconds,
        });
        Ok(result.loss)
    }

    /// Runs the checks, validation and saves that are due after a step; returns whether the run ends here because it
    /// was asked to stop.
    fn after_step(
        &mut self,
        team: &mut Team,
        clock: &mut Clock,
        progress: &mut dyn FnMut(&TrainEvent),
        stop: &AtomicBool,
    ) -> Result<bool> {
        let step = self.learner.progress.step;
        let last = step == self.total_steps;
        if last {
            self.learner.check_end()?;
        }
        let checked = last || step.is_multiple_of(self.recipe.distributed.check_every_steps);
        if checked {
            team.check_parameters(self.learner.network.parameters())?;
        }
        self.validation_due = last || step.is_multiple_of(self.validate_every);
        let mut interrupted = self.validation_due && !self.validate(team, progress, stop)?;
        let over = last || self.ends_early().is_some();
        // A single rank need not wait for the next exchange.
        let alone = team.size() == 1 && self.is_told_to_stop(clock.started, stop);
        interrupted |= !over && (team.is_to_stop() || alone);
        let due = team.is_to_save() || step.is_multiple_of(self.checkpoint_every);
        if over || interrupted || due {
            // A checkpoint would preserve a state in which the ranks' parameters differ.
            if !checked {
                team.check_parameters(self.learner.network.parameters())?;
            }
            self.save(team, progress)?;
            clock.saved = Instant::now();
        }
        Ok(interrupted)
    }

    /// Samples per step on this rank.
    fn step_batch(&self) -> LocalBatch {
        self.local_batch.times(self.recipe.training.accumulate)
    }

    /// How evenly ranks with these times shared these steps.
    fn balance(&self, spent: &[Spent], steps: u64) -> Result<Balance> {
        let samples = steps * (self.step_batch().samples() * self.step_ranks) as u64;
        let flops = self.training_summary()?.training_flops;
        Ok(Balance::of(spent, samples as f64, flops as f64))
    }

    /// The network's summary at the grid size of the store.
    fn training_summary(&self) -> Result<Summary> {
        let [rows, columns, _] = self.store.shape();
        let reconstruct = self.recipe.detection.reconstructs();
        let network = &self.learner.network;
        Ok(network.training_summary(rows, columns, reconstruct)?)
    }

    /// Whether this rank should stop: by request, or because the time limit since `start` has passed.
    fn is_told_to_stop(&self, start: Instant, stop: &AtomicBool) -> bool {
        let limit = self.recipe.training.max_seconds;
        let is_over = limit.is_some_and(|limit| start.elapsed().as_secs_f64() >= limit);
        is_over || stop.load(Ordering::Relaxed)
    }
}
