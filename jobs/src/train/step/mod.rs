//! One training step: forward pass, loss and backward pass of each batch, gradient exchange, update.

mod average;
mod fault;
mod finite;
mod launches;
mod pending;
mod sums;
mod update;
mod without_gradient;

use super::feed::Batch;
use super::objective::{LossInput, Objective};
use super::team::Team;
use super::timeline::StepPhase;
use crate::error::Result;
use crate::recipe::{Distributed, Recipe};
use candle_core::DType;
use rand::Rng;
use squall_data::random::stream;
use squall_model::gpu::allow_tf32;
use squall_model::optim::{Average, LossScale, Mirror, Optimizer, Schedule};
use squall_model::{Backend, Gradients, Network, NetworkConfig, Pass, Storage};
use std::collections::VecDeque;
use std::time::Instant;

use fault::bad_field;
use launches::{Launches, graph_obstacle};
use pending::Begun;
pub(super) use pending::{PendingStep, StepSums};
pub(crate) use sums::facts_of_step;
use without_gradient::WithoutGradient;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepResult {
    /// The recipe's loss before the update.
    pub loss: f64,
    /// Norm of the gradient before clipping; NaN if the loss was not finite.
    pub gradient_norm: f64,
    /// Learning rate.
    pub learning_rate: f32,
    /// Whether the parameters were left unchanged.
    pub skipped: bool,
}

/// A network and all state that training changes.
#[derive(Debug)]
pub struct Learner {
    pub(super) network: Network,
    pub(super) optimizer: Optimizer,
    gradients: Gradients,
    /// Batches per step.
    accumulate: usize,
    /// The current step after its first batches (`training.accumulate`).
    begun: Option<Begun>,
    schedule: Schedule,
    objective: Objective,
    pub(super) loss_scale: LossScale,
    pub(super) storage: Storage,
    /// Rounded copies of the kernels for training in reduced precision, if the precision uses them.
    copies: Option<Mirror>,
    /// Moving average of the parameters, which is validated and saved as the model, if the recipe asks for one.
    pub(super) average: Option<Average>,
    seed: u64,
    total_steps: u64,
    /// Allowed number of consecutive skipped steps.
    max_skipped: u32,
    pub(super) progress: LearnerProgress,
    /// Why the loss of the last step was not finite, if so.
    loss_fault: Option<String>,
    without_gradient: WithoutGradient,
    /// Steps between computing a gradient and applying it.
    lag: usize,
    /// Gradients waiting to be applied, oldest first.
    pub(super) pending_steps: VecDeque<PendingStep>,
    launches: Launches,
}

/// Counters of a learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct LearnerProgress {
    /// Steps done.
    pub step: u64,
    /// Current number of consecutive skipped steps.
    pub skipped_in_row: u32,
    /// Total number of skipped steps.
    pub skipped: u64,
}

impl Learner {
    /// Creates a learner with an untrained network, on one of `ranks` that do steps together.
    ///
    /// # Errors
    /// [`crate::JobError::Model`] naming the key with an invalid value.
    pub(super) fn new(
        recipe: &Recipe,
        network: &NetworkConfig,
        objective: Objective,
        total_steps: u64,
        ranks: usize,
    ) -> Result<Self> {
        let backend = Backend::best();
        let (dtype, note) = recipe.precision.resolve(backend);
        if let Some(note) = note {
            tracing::info!("{note}");
        }
        let network = Network::build(network, backend, recipe.seed)?;
        recipe.optimiser.check_rates(network.parameters())?;
        let policy = &recipe.precision;
        allow_tf32(policy.tf32);
        let (recompute, saved) = (recipe.training.recompute, recipe.training.saved_activations);
        let storage = policy.storage(&network, dtype)?;
        let storage = storage.keeping(recompute, saved);
        let copies = policy.copies(network.parameters(), dtype, recipe.seed)?;
        let average = recipe.training.average;
        let average = average.map(|decay| Average::new(decay, network.parameters()));
        let loss_scale = policy.loss_scale(dtype);
        let lag = recipe.distributed.gradient_lag;
        let obstacle = graph_obstacle(backend, ranks, lag);
        Ok(Self {
            optimizer: Optimizer::new(&recipe.optimiser, network.parameters())?,
            gradients: Gradients::new(network.parameters()),
            accumulate: recipe.training.accumulate,
            begun: None,
            schedule: recipe.scaled_schedule(ranks),
            objective,
            loss_scale: LossScale::new(loss_scale)?,
            storage,
            copies,
            average: average.transpose()?,
            seed: recipe.seed,
            total_steps,
            max_skipped: if dtype == DType::F32 && !loss_scale.is_dynamic() {
                0
            } else {
                recipe.training.max_skipped_steps
            },
            progress: LearnerProgress::default(),
            loss_fault: None,
            without_gradient: WithoutGradient::Unknown,
            lag,
            pending_steps: VecDeque::new(),
            launches: Launches::new(recipe.training.cuda_graphs, obstacle),
            network,
        })
    }

    /// Sets up the gradient exchange with the other ranks of a team.
    pub(super) fn join(&mut self, options: &Distributed, team: &mut Team) -> Result<()> {
        let parameters = self.network.parameters();
        let is_sent = team.size() > 1 && options.wire.loses_small_values();
        if is_sent && self.loss_scale.scale() == 1.0 && team.is_first() {
            tracing::warn!(
                "`distributed.wire` is f16 and the loss is not scaled: of gradients below 6e-5 digits are lost, and those below 3e-8 become zero; expected \"bf16\", or `precision.loss_scale`"
            );
        }
        let facts = facts_of_step(parameters);
        team.begin(options, parameters, &mut self.gradients, facts)
    }

    /// Adds the gradients of a batch that is not the last of its step.
    ///
    /// # Errors
    /// [`crate::JobError::Model`].
    pub(super) fn accumulate(&mut self, batch: &Batch, team: &mut Team) -> Result<()> {
        let begun = self.forward_backward(batch, team)?;
        self.begun = Some(begun);
        Ok(())
    }

    /// Does one training step, whose last batch is this one, together with the other ranks of a team.
    ///
    /// With a lag, the result describes the gradients that were applied, those of an earlier step; the first steps
    /// apply none. If the loss or gradient is not finite on any rank, parameters and optimiser stay unchanged on all
    /// ranks.
    ///
    /// # Errors
    /// [`crate::JobError::Diverged`] after too many consecutive skipped steps, naming the first non-finite tensor;
    /// [`crate::JobError::Model`]; [`crate::JobError::Comm`].
    pub fn step(&mut self, batch: &Batch, team: &mut Team) -> Result<StepResult> {
        let begun = self.forward_backward(batch, team)?;
        self.end_step(begun, batch, team)
    }

    /// The rest of [`Self::step`] after the passes of its last batch.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub(super) fn end_step(
        &mut self,
        begun: Begun,
        batch: &Batch,
        team: &mut Team,
    ) -> Result<StepResult> {
        let Begun {
            mut pending,
            loss,
            batches,
        } = begun;
        // Running statistics move once a step, by the mean over its batches, as over as many ranks.
        pending.statistics.average_over(batches);
        self.hand_over(&mut pending, loss, team)?;
        self.pending_steps.push_back(pending);
        if self.pending_steps.len() <= self.lag {
            self.progress.step += 1;
            return Ok(StepResult {
                loss: f64::NAN,
                gradient_norm: f64::NAN,
                learning_rate: 0.0,
                skipped: true,
            });
        }
        let Some(oldest) = self.pending_steps.pop_front() else {
            unreachable!("one was just added")
        };
        self.apply_gradients(oldest, batch, team)
    }

    /// Restores the counters of an earlier part of the run.
    pub(super) fn resume_from(&mut self, progress: LearnerProgress) {
        // With a lag the first steps count as skipped, because they have no gradient to apply yet.
        if progress.skipped + (self.lag as u64) < progress.step {
            // Parameters without gradient were already reported after the run's first step.
            self.without_gradient = WithoutGradient::Settled;
        }
        self.progress = progress;
    }

    /// Memory besides parameters, gradients and state, in f32 values: the optimiser's workspace and the rounded kernel
    /// copies. A copy takes one f32 per value on a GPU; on the CPU a bf16 and the f32 that it is expanded to.
    pub(super) fn extra_values(&self) -> usize {
        let count = self.copies.as_ref().map_or(0, Mirror::count);
        let copies = match self.network.backend().is_gpu() {
            true => count,
            false => 3 * count / 2,
        };
        copies + self.optimizer.working_len()
    }

    /// Recreates the rounded kernel copies as the last update would have left them; called before a run starts or
    /// resumes.
    pub(super) fn round_kernels(&mut self) -> Result<()> {
        let Some(copies) = &mut self.copies else {
            return Ok(());
        };
        let parameters = self.network.parameters_mut();
        self.optimizer.fill_mirror(parameters, copies)?;
        Ok(parameters.compute_with(copies, &self.storage)?)
    }

    /// Frees cached GPU memory between steps and other work: captured CUDA graphs have their own memory, which other
    /// work cannot use, and cannot use what other work leaves cached.
    pub(super) fn give_back_memory(&self) -> Result<()> {
        if self.launches.are_captured() {
            self.network.backend().give_back_memory()?;
        }
        Ok(())
    }

    /// Forward and backward pass of the next batch of a step. During the backward pass of the last batch, gradients are
    /// sent to the other ranks.
    ///
    /// # Errors
    /// [`crate::JobError::Model`].
    pub(super) fn forward_backward(&mut self, batch: &Batch, team: &mut Team) -> Result<Begun> {
        let step = self.progress.step;
        let backend = self.network.backend();
        let earlier = self.begun.take();
        let done = earlier.as_ref().map_or(0, |step| step.batches);
        // A separate random stream for each batch of a step, numbered over all ranks, so that dropout masks differ.
        let place: &[u64] = match team.rank() * self.accumulate + done {
            0 => &[step],
            place => &[step, place as u64],
        };
        let key = stream(self.seed, "dropout", place).random();
        let began = Instant::now();
        let scale = self.loss_scale.scale();
        let x = batch.tensor()?;
        let progress = step as f64 / self.total_steps.max(1) as f64;
        let captured = self.launches.captured_passes(
            &self.network,
            &x,
            &self.storage,
            &mut self.gradients,
            self.objective.reconstructs(progress),
        )?;
        let mut pass = Pass::train(backend, &self.storage, key)
            .normalising(team.norm_ranks().cloned())
            .launching(captured);
        let input = LossInput {
            x: &x,
            batch: &batch.host,
            scale,
            in_parts: team.size() > 1 || self.accumulate > 1,
            progress,
        };
        let output = self.objective.loss(&self.network, input, &mut pass)?;
        drop(x);
        let began = team.timeline.note(StepPhase::Forward, began);
        let loss = output.loss;
        let statistics = pass.batch_statistics()?;
        let mut begun = match earlier {
            Some(earlier) => earlier.and(loss, &statistics),
            None => {
                self.gradients.clear();
                team.set_step(step);
                Begun::with((step, scale), loss, statistics)
            }
        };
        let more = begun.batches < self.accumulate;
        let pending = &mut begun.pending;
        if !loss.is_finite() && pending.fault.is_none() {
            pending.fault = Some(self.why_the_loss(&batch.host)?);
        }
        self.gradients.more_follows(more);
        if loss.is_finite() || team.size() > 1 {
            // Even if they are useless: the other ranks wait for this rank's gradients.
            output.backward(&self.network, pass, &mut self.gradients)?;
        }
        if (more || self.lag > 0) && pending.bad_field.is_none() {
            // Checked now, because this batch will be gone when its gradients are applied. A GPU runs the backward pass
            // meanwhile.
            pending.bad_field = bad_field(&batch.host);
        }
        if !more {
            team.delay_step();
        }
        team.timeline.note(StepPhase::Backward, began);
        Ok(begun)
    }
}

#[cfg(test)]
mod tests;
