//! The training loop: read this first.
//!
//! Batches come from [`squall_data::Loader`], [`step::Learner`] learns from them, [`evaluate::Evaluator`] scores,
//! `keep` and [`checkpoint`] save. A run that is killed at any point and started again ends with the same bytes as one that never
//! was: everything random is a pure function of seed and step, and files are written whole.
//!
//! # Not done
//! One process only; the sampler already deals to ranks.

pub mod checkpoint;
pub mod evaluate;
mod keep;
mod plan;
mod prepare;
mod progress;
mod recorder;
pub mod step;

pub use plan::TrainPlan;
pub use progress::{Best, Outcome, TrainEvent, TrainReport};

use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use crate::run_dir::RunDir;
use evaluate::Evaluator;
use recorder::Recorder;
use squall_data::loader::LoaderConfig;
use squall_data::sampler::Sampler;
use squall_data::{Loader, Store};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use step::Learner;

/// Trains a network on a store, into a run's folder; continues what an earlier call there began.
///
/// `progress` is told what happens. Setting `stop` makes it save a checkpoint after the step under way and return
/// [`Outcome::Interrupted`].
///
/// # Errors
/// [`JobError::Locked`], [`JobError::Memory`], [`JobError::Resume`], [`JobError::Diverged`], [`JobError::Recipe`] if data and recipe disagree; whatever
/// reading, computing and writing may cause.
pub fn train(
    recipe: &Recipe,
    store: &Arc<Store>,
    folder: &Path,
    progress: &mut dyn FnMut(&TrainEvent),
    stop: &AtomicBool,
) -> Result<TrainReport> {
    recipe.check()?;
    let run = RunDir::open(folder)?;
    run.settle_recipe(recipe)?;
    let training = Run::prepare(recipe, store, run)?;
    let plan = training.plan()?;
    training.recorder.facts(&training.run, &plan, store)?;
    progress(&TrainEvent::Started(plan));
    training.go(progress, stop)
}

/// A run under way.
struct Run<'a> {
    recipe: &'a Recipe,
    store: &'a Arc<Store>,
    run: RunDir,
    sampler: Sampler,
    loader: LoaderConfig,
    learner: Learner,
    evaluator: Option<Evaluator>,
    contract: Contract,
    recorder: Recorder,
    best: Option<Best>,
    total_steps: u64,
    validate_every: u64,
    checkpoint_every: u64,
    class_weights: Vec<f32>,
    validation_samples: usize,
    /// The step under way still needs its validation.
    validation_due: bool,
}

impl Run<'_> {
    fn go(
        mut self,
        progress: &mut dyn FnMut(&TrainEvent),
        stop: &AtomicBool,
    ) -> Result<TrainReport> {
        let start = Instant::now();
        let done = self.learner.progress.step;
        let left = self.total_steps.saturating_sub(done) as usize;
        let plans = self.sampler.endless(self.sampler.cursor(done)).take(left);
        let mut loader = Loader::new(self.store, plans, &self.loader)?;
        let mut saved_at = Instant::now();
        let mut last_loss = None;
        let mut interrupted = false;
        if self.validation_due {
            interrupted = !self.validate(progress, stop)?;
            self.save(progress)?;
        }
        while !interrupted && self.learner.progress.step < self.total_steps {
            let before = Instant::now();
            let batch = loader.next().ok_or(JobError::Thread("loader"))??;
            let wait_seconds = before.elapsed().as_secs_f64();
            let result = self.learner.step(&batch)?;
            let samples = batch.len();
            loader.give_back(batch);
            let step = self.learner.progress.step;
            let epoch = self.sampler.cursor(step - 1).epoch;
            let seconds = before.elapsed().as_secs_f64();
            self.recorder.step(step, epoch, &result)?;
            self.recorder.timing(step, seconds, wait_seconds, samples)?;
            last_loss = Some(result.loss);
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
            let out_of_time = (self.recipe.training.max_seconds)
                .is_some_and(|limit| start.elapsed().as_secs_f64() >= limit);
            let last = step == self.total_steps;
            self.validation_due = last || step.is_multiple_of(self.validate_every);
            interrupted = self.validation_due && !self.validate(progress, stop)?;
            interrupted |= !last && (out_of_time || stop.load(Ordering::Relaxed));
            let due = step.is_multiple_of(self.checkpoint_every)
                || saved_at.elapsed().as_secs_f64()
                    >= self.recipe.training.checkpoint_every_seconds;
            if last || interrupted || due {
                self.save(progress)?;
                saved_at = Instant::now();
            }
        }
        let report = TrainReport {
            outcome: if interrupted {
                Outcome::Interrupted
            } else {
                Outcome::Finished
            },
            steps: self.learner.progress.step,
            skipped_steps: self.learner.progress.skipped,
            best: self.best.clone(),
            last_loss,
            seconds: start.elapsed().as_secs_f64(),
            missing_values: loader.missing_values(),
            model: self.run.best(),
        };
        Ok(report)
    }
}
