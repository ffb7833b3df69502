//! What a run will do, read, write and need.

use super::evaluate::Evaluator;
use super::feed::STORED_ON_GPU;
use super::{Run, Team};
use crate::error::Result;
use crate::memory::{self, Demand, Sharing};
use serde::Serialize;
use squall_model::Backend;

/// The plan of a run, known before the first step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainPlan {
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Steps done by earlier parts of the run.
    pub done_steps: u64,
    /// Whole steps per epoch.
    pub steps_per_epoch: usize,
    /// Number of samples, or clips, per epoch that teach directly.
    pub epoch_samples: usize,
    /// Number of these per step. Those of an epoch that fill no step begin the first step of the next one.
    pub step_samples: usize,
    /// Number of training samples.
    pub training_samples: usize,
    /// Number of samples per validation; 0 if the store has none.
    pub validation_samples: usize,
    /// Steps between validations.
    pub validate_every_steps: u64,
    /// Steps between checkpoints.
    pub checkpoint_every_steps: u64,
    /// Trainable values.
    pub parameters: usize,
    /// Floating-point operations per step, over all ranks of the step.
    pub step_flops: u64,
    /// Peak memory in bytes: parameters, gradients, optimiser state, average, activations and batches; or that of
    /// receiving the first rank's state, if larger.
    pub memory_bytes: u64,
    /// Bytes that all ranks together will read from the store.
    pub read_bytes: u64,
    /// Bytes in the run's folder at the end: two models and two checkpoints.
    pub write_bytes: u64,
    /// Data type of activations.
    pub dtype: String,
    /// Weights of background, tropical cyclone, atmospheric river.
    pub class_weights: Vec<f32>,
    /// The compute backend.
    pub backend: String,
}

impl Run<'_> {
    /// The plan from the current step on, for a rank of `team` that is one of `node_ranks` on its node.
    ///
    /// # Errors
    /// [`crate::JobError::Memory`] if the machine has too little.
    pub(super) fn plan(&self, team: &Team, node_ranks: usize) -> Result<TrainPlan> {
        let [rows, columns, _] = self.store.shape();
        let summary = self.training_summary()?;
        let samples = self.local_batch.samples();
        let step_samples = (self.step_batch().samples() * self.step_ranks) as u64;
        let parameters = summary.parameters as u64;
        let state = self.learner.state_len();
        let record = self.store.meta().record_bytes();
        let left = self.total_steps.saturating_sub(self.learner.progress.step);
        let validations = left.div_ceil(self.validate_every);
        // For a network over time, samples of a batch are clips, and every frame is read and kept.
        let frames = self.loader.frames;
        let judged = self.evaluator.as_ref().map_or(0, Evaluator::samples_read);
        // Saturating: a recipe may ask for a practically unlimited number of steps, to be stopped by hand.
        let of_steps = left.saturating_mul(step_samples);
        let samples_read = (of_steps.saturating_mul(frames as u64))
            .saturating_add(validations.saturating_mul(judged));
        let in_memory = (rows * columns * frames * self.loader.channels.len() * 4) as u64;
        let backend = self.learner.network.backend();
        let loaded = match backend.is_gpu() {
            // In stored form while they wait, and once as the network's input.
            true => {
                let value = self.store.meta().encoding.bytes() as u64;
                in_memory + in_memory / 4 * value * STORED_ON_GPU
            }
            false => in_memory * (self.loader.prefetch as u64 + 2),
        };
        let demand = Demand {
            summary: summary.clone(),
            backend,
            storage: self.learner.storage.clone(),
            state,
            beside: self.learner.extra_values(),
            loaded,
            spreads: team.size() > 1,
        };
        let (available, memory_ranks) = room(backend, team, node_ranks);
        let sharing = Sharing {
            batch: samples,
            step_batches: self.step_ranks * self.recipe.training.accumulate,
            memory_ranks,
        };
        demand.check(self.recipe, sharing, available)?;
        Ok(TrainPlan {
            total_steps: self.total_steps,
            done_steps: self.learner.progress.step,
            steps_per_epoch: self.samples.steps_per_epoch(),
            epoch_samples: self.samples.of_epoch(),
            step_samples: self.samples.of_step(),
            training_samples: self.samples.count(),
            validation_samples: self.validation_samples,
            validate_every_steps: self.validate_every,
            checkpoint_every_steps: self.checkpoint_every,
            parameters: summary.parameters,
            step_flops: step_samples.saturating_mul(summary.training_flops),
            memory_bytes: demand.bytes(samples),
            read_bytes: record.saturating_mul(samples_read),
            write_bytes: 4 * (4 * parameters + 2 * state as u64),
            dtype: format!("{:?}", self.learner.storage.dtype).to_lowercase(),
            class_weights: self.class_weights.clone(),
            backend: self.learner.network.backend().describe(),
        })
    }
}

/// Bytes that a rank of `team`, one of `node_ranks` on its node, may use on its compute device, and the number of ranks
/// that share that memory.
pub(super) fn room(backend: Backend, team: &Team, node_ranks: usize) -> (Option<u64>, u64) {
    match backend.is_gpu() {
        // Every rank has a GPU of its own.
        true => (backend.available_memory(), 1),
        false => {
            let left = memory::available_memory(node_ranks as u64);
            (team.may_hold(left), node_ranks as u64)
        }
    }
}
