//! The training loop: read this first.
//!
//! Batches come from [`squall_data::Loader`], [`step::Learner`] learns from them, [`evaluate::Evaluator`] scores,
//! [`checkpoint`] saves. A run that is killed at any point and started again ends with the same bytes as one that never
//! was: everything random is a pure function of seed and step, and files are written whole.
//!
//! # Not done
//! One process only; the sampler already deals to ranks.

pub mod checkpoint;
pub mod evaluate;
mod recorder;
pub mod step;

use crate::contract::Contract;
use crate::error::{JobError, Result};
use crate::memory::{self, Demand};
use crate::recipe::Recipe;
use crate::run_dir::RunDir;
use checkpoint::CheckpointFacts;
use evaluate::{Evaluator, Scores};
use recorder::Recorder;
use serde::{Deserialize, Serialize};
use squall_data::loader::{Augmentation, LoaderConfig};
use squall_data::sampler::{LastBatch, Sampler, SamplerConfig};
use squall_data::store::Split;
use squall_data::{Loader, Normalisation, Store, Variable};
use squall_model::{ModelFile, NetworkConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use step::{Learner, StepResult};

/// The best validation so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Steps done before it.
    pub step: u64,
    /// Its scores.
    pub scores: Scores,
}

/// What will be done, known before the first step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainPlan {
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Steps that an earlier part of the run has done.
    pub done_steps: u64,
    /// Steps of an epoch.
    pub steps_per_epoch: usize,
    /// Samples to learn from.
    pub training_samples: usize,
    /// Samples of a validation; 0 if the store has none.
    pub validation_samples: usize,
    /// Steps between validations.
    pub validate_every_steps: u64,
    /// Steps between checkpoints.
    pub checkpoint_every_steps: u64,
    /// Trainable values.
    pub parameters: usize,
    /// Floating-point operations of a step.
    pub step_flops: u64,
    /// Bytes of parameters, gradients, optimiser state, activations and batches.
    pub memory_bytes: u64,
    /// Bytes that will be read from the store.
    pub read_bytes: u64,
    /// Bytes that will lie in the run's folder.
    pub write_bytes: u64,
    /// Data type of activations.
    pub dtype: String,
    /// Weights of background, tropical cyclone, atmospheric river.
    pub class_weights: Vec<f32>,
    /// What computes.
    pub backend: String,
}

/// What happens during training.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TrainEvent {
    /// Before the first step.
    Started(TrainPlan),
    /// After a step.
    Step {
        /// Steps done.
        step: u64,
        /// Of so many.
        total: u64,
        /// Epoch, counted from 0.
        epoch: u64,
        /// What it did.
        result: StepResult,
        /// How long it took, waiting included.
        seconds: f64,
        /// How long it waited for data.
        wait_seconds: f64,
    },
    /// After the first step, if its backward pass did not reach some parameters: their whole gradient was exactly zero.
    WithoutGradient {
        /// Steps done.
        step: u64,
        /// Their names.
        parameters: Vec<String>,
    },
    /// After a validation.
    Validated {
        /// Steps done.
        step: u64,
        /// How good the network is.
        scores: Scores,
        /// Whether it is the best so far.
        best: bool,
    },
    /// After a checkpoint.
    CheckpointSaved {
        /// Steps done.
        step: u64,
        /// Where.
        path: PathBuf,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All steps are done.
    Finished,
    /// Told to stop, or out of time; the same call continues.
    Interrupted,
}

/// What came out of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Steps done, those of earlier parts included.
    pub steps: u64,
    /// Steps that were skipped because something was no number.
    pub skipped_steps: u64,
    /// The best validation.
    pub best: Option<Best>,
    /// Loss of the last step of this part.
    pub last_loss: Option<f64>,
    /// Seconds of this part.
    pub seconds: f64,
    /// Missing values that were replaced by the mean in this part.
    pub missing_values: u64,
    /// The model to use.
    pub model: PathBuf,
}

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

impl<'a> Run<'a> {
    fn prepare(recipe: &'a Recipe, store: &'a Arc<Store>, run: RunDir) -> Result<Self> {
        let (channels, normalisation) = inputs(recipe, store)?;
        let network = NetworkConfig {
            channels_in: channels.len(),
            classes: 3,
            ..recipe.network.clone()
        };
        let class_weights = match &recipe.loss.class_weights {
            Some(weights) => weights.clone(),
            None => store.class_weights(recipe.loss.weighting)?,
        };
        let sampler = Sampler::new(
            store.ids(Split::Train),
            SamplerConfig {
                shuffle: Some(recipe.seed),
                rank: 0,
                ranks: 1,
                batch: recipe.training.batch,
                last: LastBatch::Drop,
            },
        )?;
        let per_epoch = sampler.steps_per_epoch();
        let total_steps = recipe.training.total_steps(per_epoch);
        let criterion = recipe.loss.criterion(class_weights.clone());
        let mut learner = Learner::new(recipe, &network, criterion.clone(), total_steps)?;
        let contract = Contract::new(
            recipe,
            &network,
            &normalisation,
            store.grid(),
            store.data_hash(),
        );
        if let Some(path) = &recipe.training.start_from
            && !run.checkpoint().exists()
        {
            start_from(path, &mut learner, &contract)?;
        }
        let (best, validation_due) = resume(&run, &mut learner, store)?;
        let loader = LoaderConfig {
            channels,
            normalisation: Some(normalisation),
            augmentation: recipe.data.augmentation,
            seed: recipe.seed,
            threads: recipe.data.threads,
            prefetch: recipe.data.prefetch,
        };
        let ids = thinned(
            store.ids(Split::Validation),
            recipe.training.validation_samples,
        );
        let validation_samples = ids.len();
        let evaluator = if ids.is_empty() {
            tracing::warn!("the store has no validation samples: the last model will be the best");
            None
        } else {
            let loader = LoaderConfig {
                augmentation: Augmentation::default(),
                ..loader.clone()
            };
            let batch = recipe.training.batch;
            Some(Evaluator::new(
                store,
                ids,
                batch,
                loader,
                criterion,
                learner.storage.clone(),
            )?)
        };
        let recorder = Recorder::open(&run, learner.progress.step)?;
        let training = &recipe.training;
        Ok(Self {
            validate_every: training.validate_every_steps.unwrap_or(per_epoch as u64),
            checkpoint_every: training.checkpoint_every_steps.unwrap_or(per_epoch as u64),
            recipe,
            store,
            run,
            sampler,
            loader,
            learner,
            evaluator,
            contract,
            recorder,
            best,
            total_steps,
            class_weights,
            validation_samples,
            validation_due,
        })
    }

    fn plan(&self) -> Result<TrainPlan> {
        let [rows, columns, _] = self.store.shape();
        let summary = self.learner.network.summary(rows, columns)?;
        let batch = self.recipe.training.batch as u64;
        let parameters = summary.parameters as u64;
        let state: usize = self
            .learner
            .optimizer
            .state()
            .iter()
            .map(|(_, s)| s.len())
            .sum();
        let record = self.store.meta().record_bytes();
        let left = self.total_steps.saturating_sub(self.learner.progress.step);
        let validations = left.div_ceil(self.validate_every);
        let in_memory = (rows * columns * self.loader.channels.len() * 4) as u64;
        let samples = self.recipe.training.batch;
        let demand = Demand {
            summary: summary.clone(),
            storage: self.learner.storage.clone(),
            state,
            loaded: in_memory * (self.loader.prefetch as u64 + 2),
        };
        demand.check(self.recipe, memory::available())?;
        Ok(TrainPlan {
            total_steps: self.total_steps,
            done_steps: self.learner.progress.step,
            steps_per_epoch: self.sampler.steps_per_epoch(),
            training_samples: self.sampler.samples(),
            validation_samples: self.validation_samples,
            validate_every_steps: self.validate_every,
            checkpoint_every_steps: self.checkpoint_every,
            parameters: summary.parameters,
            step_flops: batch * summary.training_flops,
            memory_bytes: demand.bytes(samples),
            read_bytes: record * (left * batch + validations * self.validation_samples as u64),
            write_bytes: 4 * (3 * parameters + state as u64),
            dtype: format!("{:?}", self.learner.storage.dtype).to_lowercase(),
            class_weights: self.class_weights.clone(),
            backend: self.learner.network.backend().describe(),
        })
    }

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

    /// Scores the network and keeps it if it is the best; false if told to stop on the way.
    fn validate(
        &mut self,
        progress: &mut dyn FnMut(&TrainEvent),
        stop: &AtomicBool,
    ) -> Result<bool> {
        let step = self.learner.progress.step;
        let Some(evaluator) = &self.evaluator else {
            self.validation_due = false;
            return self.write_model(&self.run.best(), None).map(|()| true);
        };
        let Some(scores) = evaluator.run(&self.learner.network, stop)? else {
            return Ok(false);
        };
        let better = |best: &Best| scores.mean_iou > best.scores.mean_iou;
        let best = self.best.as_ref().is_none_or(better);
        if best {
            self.write_model(&self.run.best(), Some(scores.mean_iou))?;
            self.best = Some(Best {
                step,
                scores: scores.clone(),
            });
        }
        self.recorder.validation(step, &scores, best)?;
        self.validation_due = false;
        progress(&TrainEvent::Validated { step, scores, best });
        Ok(true)
    }

    fn save(&mut self, progress: &mut dyn FnMut(&TrainEvent)) -> Result<()> {
        let step = self.learner.progress.step;
        let path = self.run.checkpoint();
        self.recorder.sync()?;
        self.write_model(&self.run.last(), None)?;
        let facts = CheckpointFacts {
            progress: self.learner.progress,
            loss_scale: Some(self.learner.loss_scale),
            best: self.best.clone(),
            validation_due: self.validation_due,
            data_hash: self.store.data_hash().to_string(),
            ranks: (1, self.recipe.training.batch),
        };
        checkpoint::save(&path, &self.learner, &facts)?;
        progress(&TrainEvent::CheckpointSaved { step, path });
        Ok(())
    }

    fn write_model(&self, path: &Path, mean_iou: Option<f64>) -> Result<()> {
        let mut file = ModelFile {
            tensors: self.learner.network.parameters().to_named()?,
            ..ModelFile::default()
        };
        let contract = Contract {
            step: self.learner.progress.step,
            mean_iou,
            ..self.contract.clone()
        };
        contract.put(&mut file)?;
        file.write(path)?;
        Ok(())
    }
}

/// Channels of the batches and their normalisation.
fn inputs(recipe: &Recipe, store: &Store) -> Result<(Vec<Variable>, Normalisation)> {
    let channels = recipe
        .data
        .channels
        .clone()
        .unwrap_or_else(|| store.channels().to_vec());
    let all = store.normalisation(recipe.data.normalisation)?;
    let normalisation = all.select(&channels).map_err(|error| JobError::Recipe {
        path: None,
        reason: format!("`data.channels`: the store does not hold them all: {error}"),
    })?;
    Ok((channels, normalisation))
}

/// Takes the weights of a model file as initial values.
fn start_from(path: &Path, learner: &mut Learner, contract: &Contract) -> Result<()> {
    let file = ModelFile::read(path)?;
    let theirs = Contract::of(&file, path)?;
    let names = |contract: &Contract| {
        let variables = contract.variables();
        let names: Vec<&str> = variables.iter().map(|v| v.name()).collect();
        names.join(", ")
    };
    if theirs.variables() != contract.variables() {
        let (found, expected) = (names(&theirs), names(contract));
        return Err(JobError::Contract {
            model: path.to_path_buf(),
            reasons: vec![format!(
                "its channels are {found}, those of this run are {expected}"
            )],
        });
    }
    if theirs.normalisation_hash != contract.normalisation_hash {
        tracing::warn!("the weights to start from were trained on fields normalised otherwise");
    }
    let parameters = learner.network.parameters_mut();
    parameters.load(path, |name| file.tensor(name))?;
    tracing::info!(path = %path.display(), "starting from the weights of a model file");
    Ok(())
}

/// Takes up the checkpoint if there is one; gives the best validation, and whether one was interrupted.
fn resume(run: &RunDir, learner: &mut Learner, store: &Store) -> Result<(Option<Best>, bool)> {
    let path = run.checkpoint();
    if !path.exists() {
        return Ok((None, false));
    }
    let facts = checkpoint::load(&path, learner)?;
    if facts.data_hash != store.data_hash() {
        return Err(JobError::Resume {
            folder: run.folder().to_path_buf(),
            reason: format!(
                "it was trained on data with hash {}, `{}` has {}",
                facts.data_hash,
                store.folder().display(),
                store.data_hash()
            ),
        });
    }
    tracing::info!(step = facts.progress.step, "continuing from a checkpoint");
    Ok((facts.best, facts.validation_due))
}

/// At most `limit` of the ids, evenly spaced.
fn thinned(ids: Vec<usize>, limit: Option<usize>) -> Vec<usize> {
    let count = limit.unwrap_or(ids.len()).min(ids.len());
    (0..count).map(|k| ids[k * ids.len() / count]).collect()
}
