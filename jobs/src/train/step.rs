//! One training step: forward, loss, backward, update.

use super::evaluate::tensor_of;
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use candle_core::DType;
use rand::Rng;
use squall_data::HostBatch;
use squall_data::random::stream;
use squall_model::optim::{Optimizer, Schedule};
use squall_model::{Backend, Gradients, Network, NetworkConfig, Pass};

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepResult {
    /// Weighted mean cross entropy before the update.
    pub loss: f64,
    /// Norm of the gradient before clipping; NaN if the loss was no number.
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
    schedule: Schedule,
    class_weights: Vec<f32>,
    pub(super) dtype: DType,
    seed: u64,
    total_steps: u64,
    /// In a row, allowed.
    max_skipped: u32,
    pub(super) progress: LearnerProgress,
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
    /// An untrained network of a recipe.
    ///
    /// # Errors
    /// [`JobError::Model`] naming the key that cannot be.
    pub fn new(
        recipe: &Recipe,
        network: &NetworkConfig,
        class_weights: Vec<f32>,
        total_steps: u64,
    ) -> Result<Self> {
        let backend = Backend::best();
        let (dtype, note) = recipe.precision.resolve(backend);
        if let Some(note) = note {
            tracing::info!("{note}");
        }
        let network = Network::build(network, backend, recipe.seed)?;
        Ok(Self {
            optimizer: Optimizer::new(&recipe.optimiser, network.parameters())?,
            gradients: Gradients::new(network.parameters()),
            schedule: recipe.schedule.clone(),
            class_weights,
            dtype,
            seed: recipe.seed,
            total_steps,
            max_skipped: if dtype == DType::F32 {
                0
            } else {
                recipe.training.max_skipped_steps
            },
            progress: LearnerProgress::default(),
            network,
        })
    }

    /// Learns from a batch.
    ///
    /// A loss or gradient that is no number leaves parameters and optimiser as they were.
    ///
    /// # Errors
    /// [`JobError::Diverged`] after more such steps in a row than allowed; [`JobError::Model`].
    pub fn step(&mut self, batch: &HostBatch) -> Result<StepResult> {
        let step = self.progress.step;
        let learning_rate = self.schedule.rate(step, self.total_steps);
        let backend = self.network.backend();
        let key = stream(self.seed, "dropout", &[step]).random();
        let mut pass = Pass::train(backend, self.dtype, key);
        let logits = self.network.forward(&tensor_of(batch)?, &mut pass)?;
        let loss =
            backend.softmax_cross_entropy(&logits, &batch.labels, &self.class_weights, 1.0)?;
        drop(logits);
        let mut result = StepResult {
            loss: loss.mean(),
            gradient_norm: f64::NAN,
            learning_rate,
            skipped: true,
        };
        if result.loss.is_finite() {
            self.network.update_running_statistics(&mut pass);
            self.gradients.clear();
            self.network
                .backward(&loss.gradient, pass, &mut self.gradients)?;
            result.gradient_norm = self.gradients.norm();
            if result.gradient_norm.is_finite() {
                self.optimizer.step(
                    self.network.parameters_mut(),
                    &self.gradients,
                    learning_rate,
                )?;
                result.skipped = false;
            }
        }
        self.count(&result)?;
        Ok(result)
    }

    fn count(&mut self, result: &StepResult) -> Result<()> {
        let progress = &mut self.progress;
        if result.skipped {
            progress.skipped_in_row += 1;
            progress.skipped += 1;
            let what = if result.loss.is_finite() {
                "gradient"
            } else {
                "loss"
            };
            tracing::warn!(
                step = progress.step + 1,
                "the {what} is no number: step skipped"
            );
            if progress.skipped_in_row > self.max_skipped {
                return Err(JobError::Diverged {
                    step: progress.step,
                    reason: format!(
                        "the {what} was no number in {} steps in a row; lower `schedule.rate`, lengthen `schedule.warmup_steps` or set `optimiser.clip_norm`, and continue from the last checkpoint's model",
                        progress.skipped_in_row
                    ),
                });
            }
        } else {
            progress.skipped_in_row = 0;
        }
        progress.step += 1;
        Ok(())
    }
}
