//! One training step: forward, loss and backward of each of its batches, exchange between ranks, update.

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
use super::team::{Signals, Team};
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
use sums::FACTS;
use without_gradient::WithoutGradient;

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepResult {
    /// The recipe's loss before the update.
    pub loss: f64,
    /// Norm of the gradient before clipping; NaN if the loss was not finite.
    pub gradient_norm: f64,
    /// Learning rate.
    pub learning_rate: f32,
    /// Whether the parameters were left as they were.
    pub skipped: bool,
}

/// A network with everything that changes it.
#[derive(Debug)]
pub struct Learner {
    pub(super) network: Network,
    pub(super) optimizer: Optimizer,
    gradients: Gradients,
    /// Batches of a step.
    accumulate: usize,
    /// The step under way, after its first batches (`training.accumulate`).
    begun: Option<Begun>,
    schedule: Schedule,
    objective: Objective,
    pub(super) loss_scale: LossScale,
    pub(super) storage: Storage,
    /// Rounded copies of the kernels, by which training multiplies, if the precision has them.
    copies: Option<Mirror>,
    /// The average of the parameters over steps, which is validated and kept as the model, if the recipe wants one.
    pub(super) average: Option<Average>,
    seed: u64,
    total_steps: u64,
    /// Steps in a row that may be skipped.
    max_skipped: u32,
    pub(super) progress: LearnerProgress,
    /// Whether the search for the loss scale is over, because a step has changed the parameters.
    found_scale: bool,
    /// Why the loss of the last step was not finite, if it was not.
    loss_fault: Option<String>,
    without_gradient: WithoutGradient,
    /// Steps between a gradient and its use.
    lag: usize,
    /// Gradients that wait for their use, the oldest first.
    pub(super) pending_steps: VecDeque<PendingStep>,
    launches: Launches,
}

/// What a learner counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct LearnerProgress {
    /// Steps done.
    pub step: u64,
    /// Steps skipped in a row, up to now.
    pub skipped_in_row: u32,
    /// Steps skipped in all.
    pub skipped: u64,
}

impl Learner {
    /// A learner with an untrained network, on one of `ranks` that do a step together.
    ///
    /// # Errors
    /// [`crate::JobError::Model`] naming the key whose value is impossible.
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
            found_scale: false,
            loss_fault: None,
            without_gradient: WithoutGradient::Unknown,
            lag,
            pending_steps: VecDeque::new(),
            launches: Launches::new(recipe.training.cuda_graphs, obstacle),
            network,
        })
    }

    /// Prepares the exchange of gradients with the other ranks of a team.
    pub(super) fn join(&mut self, options: &Distributed, team: &mut Team) -> Result<()> {
        let parameters = self.network.parameters();
        let is_sent = team.size() > 1 && options.wire.loses_small_values();
        if is_sent && self.loss_scale.scale() == 1.0 && team.is_first() {
            tracing::warn!(
                "`distributed.wire` is f16 and the loss is not scaled: of gradients below 6e-5 digits are lost, and those below 3e-8 become zero; expected \"bf16\", or `precision.loss_scale`"
            );
        }
        let statistics: usize = parameters.buffers().iter().map(|b| b.values.len()).sum();
        let facts = FACTS + self.accumulate * statistics + Signals::FACTS;
        team.begin(options, parameters, &mut self.gradients, facts)
    }

    /// Adds the gradients of a batch to those of the step under way, of which more batches follow.
    ///
    /// # Errors
    /// [`crate::JobError::Model`].
    pub(super) fn accumulate(&mut self, batch: &Batch, team: &mut Team) -> Result<()> {
        let begun = self.forward_backward(batch, team)?;
        self.begun = Some(begun);
        Ok(())
    }

    /// One training step, whose last batch is this one, together with the other ranks of a team.
    ///
    /// With a lag, the result describes the gradients that were used, those of an earlier step; the first steps use
    /// none. A loss or gradient that is not finite on any rank leaves parameters and optimiser as they were on all.
    ///
    /// # Errors
    /// [`crate::JobError::Diverged`] after more such steps in a row than allowed, naming the first tensor that is not
    /// finite; [`crate::JobError::Model`]; [`crate::JobError::Comm`].
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
            mut pending, loss, ..
        } = begun;
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

    /// Continues the counters of an earlier part of the run.
    pub(super) fn go_on_from(&mut self, progress: LearnerProgress) {
        // With a lag the first steps count as skipped, because they have no gradient yet.
        self.found_scale = progress.skipped + (self.lag as u64) < progress.step;
        if self.found_scale {
            // Parameters without gradient were reported after the first step of the run.
            self.without_gradient = WithoutGradient::Settled;
        }
        self.progress = progress;
    }

    /// Searches for the loss scale again, in a group that continues a run: the steps before may be those of other
    /// groups.
    pub(super) fn find_scale_anew(&mut self) {
        self.found_scale = false;
    }

    /// Memory beside the parameters, gradients and state, counted in f32 values: what the optimiser works with, and the
    /// rounded copies of kernels. A copy takes one f32 for each value on a GPU; on the CPU a bf16, and the f32 that it
    /// is read as.
    pub(super) fn values_beside(&self) -> usize {
        let count = self.copies.as_ref().map_or(0, Mirror::count);
        let copies = match self.network.backend().is_gpu() {
            true => count,
            false => 3 * count / 2,
        };
        copies + self.optimizer.working_len()
    }

    /// Makes the rounded copies of the kernels anew, as the last update would have: before the first step of a run, or
    /// of a part of it.
    pub(super) fn round_kernels(&mut self) -> Result<()> {
        let Some(copies) = &mut self.copies else {
            return Ok(());
        };
        let parameters = self.network.parameters_mut();
        self.optimizer.fill_mirror(parameters, copies)?;
        Ok(parameters.compute_with(copies, &self.storage)?)
    }

    /// Returns cached GPU memory between steps and other work: passes launched as CUDA graphs have their own memory,
    /// which other work cannot use, nor can they use what other work leaves cached.
    pub(super) fn give_back_memory(&self) -> Result<()> {
        if self.launches.are_captured() {
            self.network.backend().give_back_memory()?;
        }
        Ok(())
    }

    /// Forward and backward pass of the next batch of a step; gradients go to the other ranks while the backward pass of
    /// the last one runs.
    ///
    /// # Errors
    /// [`crate::JobError::Model`].
    pub(super) fn forward_backward(&mut self, batch: &Batch, team: &mut Team) -> Result<Begun> {
        let step = self.progress.step;
        let backend = self.network.backend();
        let earlier = self.begun.take();
        let done = earlier.as_ref().map_or(0, |step| step.batches);
        // A random stream for each batch of a step, numbered over all ranks: no two drop the same values.
        let place: &[u64] = match team.rank() * self.accumulate + done {
            0 => &[step],
            place => &[step, place as u64],
        };
        let key = stream(self.seed, "dropout", place).random();
        let began = Instant::now();
        let scale = self.loss_scale.scale();
        let x = batch.tensor()?;
        let progress = step as f64 / self.total_steps.max(1) as f64;
        let captured = self.launches.of(
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
            Some(earlier) => earlier.and(loss, statistics),
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
            // Now, because this batch is gone when its gradients are used. A GPU does the backward pass meanwhile.
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
