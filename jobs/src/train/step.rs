//! One training step: forward, loss, backward, update.

use super::evaluate::tensor_of;
use crate::error::{JobError, Result};
use crate::recipe::Recipe;
use candle_core::DType;
use rand::Rng;
use squall_data::HostBatch;
use squall_data::random::stream;
use squall_model::ops::loss::Criterion;
use squall_model::optim::{LossScale, Optimizer, Schedule, Update};
use squall_model::{Backend, Gradients, ModelError, Network, NetworkConfig, Pass, Storage};

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepResult {
    /// The recipe's loss before the update.
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
    criterion: Criterion,
    pub(super) loss_scale: LossScale,
    pub(super) storage: Storage,
    seed: u64,
    total_steps: u64,
    /// In a row, allowed.
    max_skipped: u32,
    pub(super) progress: LearnerProgress,
    without_gradient: WithoutGradient,
}

/// Which parameters the first backward pass did not reach.
#[derive(Debug)]
enum WithoutGradient {
    /// No step has been taken yet.
    Unknown,
    /// These, not yet told.
    Found(Vec<String>),
    /// None, or told.
    Settled,
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
        criterion: Criterion,
        total_steps: u64,
    ) -> Result<Self> {
        let backend = Backend::best();
        let (dtype, note) = recipe.precision.resolve(backend);
        if let Some(note) = note {
            tracing::info!("{note}");
        }
        let network = Network::build(network, backend, recipe.seed)?;
        let policy = &recipe.precision;
        let (recompute, saved) = (recipe.training.recompute, recipe.training.saved_activations);
        let storage = policy.storage(network.parameters(), dtype)?;
        let storage = storage.keeping(recompute, saved);
        let loss_scale = policy.loss_scale(dtype);
        Ok(Self {
            optimizer: Optimizer::new(&recipe.optimiser, network.parameters())?,
            gradients: Gradients::new(network.parameters()),
            schedule: recipe.schedule.clone(),
            criterion,
            loss_scale: LossScale::new(loss_scale)?,
            storage,
            seed: recipe.seed,
            total_steps,
            max_skipped: if dtype == DType::F32 && !loss_scale.is_dynamic() {
                0
            } else {
                recipe.training.max_skipped_steps
            },
            progress: LearnerProgress::default(),
            without_gradient: WithoutGradient::Unknown,
            network,
        })
    }

    /// Learns from a batch.
    ///
    /// A loss or gradient that is no number leaves parameters and optimiser as they were.
    ///
    /// # Errors
    /// [`JobError::Diverged`] after more such steps in a row than allowed, naming the first tensor that is no number;
    /// [`JobError::Model`].
    pub fn step(&mut self, batch: &HostBatch) -> Result<StepResult> {
        let step = self.progress.step;
        let learning_rate = self.schedule.rate(step, self.total_steps);
        let backend = self.network.backend();
        let key = stream(self.seed, "dropout", &[step]).random();
        let mut pass = Pass::train(backend, &self.storage, key);
        let logits = self.network.forward(&tensor_of(batch)?, &mut pass)?;
        let scale = self.loss_scale.scale();
        let loss = backend.segmentation_loss(&logits, &batch.labels, &self.criterion, scale)?;
        drop(logits);
        let mut result = StepResult {
            loss: loss.value(),
            gradient_norm: f64::NAN,
            learning_rate,
            skipped: true,
        };
        let fault = if result.loss.is_finite() {
            self.network.update_running_statistics(&mut pass);
            self.gradients.clear();
            self.network
                .backward(&loss.gradient, pass, &mut self.gradients)?;
            let update = Update {
                gradient_scale: 1.0 / scale,
                ..Update::rate(learning_rate)
            };
            let parameters = self.network.parameters_mut();
            let answer = self.optimizer.update(parameters, &self.gradients, update);
            self.loss_scale.record(answer.is_ok());
            match answer {
                Ok(norm) => {
                    (result.gradient_norm, result.skipped) = (norm, false);
                    // Where no pixel counts, no parameter has a gradient, and rightly so.
                    if loss.weighted_sum != 0.0 {
                        self.find_without_gradient();
                    }
                    None
                }
                // A field that is no number can hide behind a ReLU and show in the gradient only.
                Err(error @ ModelError::NotFinite { .. }) => {
                    let field = bad_field(batch).map(|field| format!(", and {field}"));
                    Some(("gradient", format!("{error}{}", field.unwrap_or_default())))
                }
                Err(other) => return Err(other.into()),
            }
        } else {
            Some(("loss", self.why_the_loss(batch)?))
        };
        self.count(fault)?;
        Ok(result)
    }

    /// The parameters that the first backward pass did not reach, once.
    ///
    /// It is told and not an error: a branch whose activations all start below zero has no gradient either, and may get one
    /// later; what is missing from the network's backward pass shows at the first step of any run.
    pub(super) fn take_without_gradient(&mut self) -> Option<Vec<String>> {
        let found = matches!(self.without_gradient, WithoutGradient::Found(_));
        let told =
            found.then(|| std::mem::replace(&mut self.without_gradient, WithoutGradient::Settled));
        match told {
            Some(WithoutGradient::Found(names)) => Some(names),
            _ => None,
        }
    }

    fn find_without_gradient(&mut self) {
        if !matches!(self.without_gradient, WithoutGradient::Unknown) {
            return;
        }
        let zero = self.gradients.all_zero(self.network.parameters());
        let names: Vec<String> = zero.iter().map(|p| p.name.clone()).collect();
        self.without_gradient = if names.is_empty() {
            WithoutGradient::Settled
        } else {
            tracing::warn!(
                "the gradient of {} is exactly zero after the first step: nothing is learnt there",
                names.join(", ")
            );
            WithoutGradient::Found(names)
        };
    }

    /// The first tensor that explains a loss which is no number.
    fn why_the_loss(&self, batch: &HostBatch) -> Result<String> {
        if let Some(parameter) = self.network.parameters().first_not_finite()? {
            return Ok(format!(
                "parameter `{}` holds what is no number",
                parameter.name
            ));
        }
        Ok(bad_field(batch).unwrap_or_else(|| {
            "all parameters and fields are numbers: an activation overflowed".to_string()
        }))
    }

    fn count(&mut self, fault: Option<(&str, String)>) -> Result<()> {
        let progress = &mut self.progress;
        if let Some((what, why)) = fault {
            progress.skipped_in_row += 1;
            progress.skipped += 1;
            tracing::warn!(
                step = progress.step + 1,
                "the {what} is no number: step skipped ({why})"
            );
            if progress.skipped_in_row > self.max_skipped {
                return Err(JobError::Diverged {
                    step: progress.step,
                    reason: format!(
                        "the {what} was no number in {} steps in a row ({why}); lower `schedule.rate`, lengthen `schedule.warmup_steps` or set `optimiser.clip_norm`, and continue from the last checkpoint's model",
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

/// The first value of a batch that is no number, in words.
fn bad_field(batch: &HostBatch) -> Option<String> {
    let at = batch.x.iter().position(|x| !x.is_finite())?;
    Some(format!(
        "value {at} of the batch's fields is {}",
        batch.x[at]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learner(settings: &[&str]) -> Learner {
        let text = "precision = 'f32'\n[optimiser]\nrule = 'sgd'\n[network]\nwidth = 0.05\nblocks = [1, 1]\natrous_rates = [2]\nchannels_in = 3";
        let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
        let recipe = Recipe::parse(text, &settings).unwrap();
        let criterion = recipe.loss.criterion(vec![0.3, 1.0, 0.7]);
        Learner::new(&recipe, &recipe.network, criterion, 10).unwrap()
    }

    fn batch() -> HostBatch {
        let shape = [2, 16, 24, 3];
        let count: usize = shape.iter().product();
        HostBatch {
            x: (0..count)
                .map(|i| (i * i % 101) as f32 / 50.0 - 1.0)
                .collect(),
            shape,
            labels: (0..count / 3).map(|i| (i / 5 % 3) as u8).collect(),
            ids: vec![0, 1],
        }
    }

    fn values(learner: &Learner) -> Vec<Vec<f32>> {
        let named = learner.network.parameters().to_named().unwrap();
        named.into_values().map(|(_, values)| values).collect()
    }

    fn fill(learner: &mut Learner, name: &str, value: f32) {
        let parameters = learner.network.parameters_mut();
        parameters
            .update(|p, values| {
                if p.name == name {
                    values.fill(value);
                }
            })
            .unwrap();
    }

    #[test]
    fn a_power_of_two_loss_scale_changes_no_bit() {
        let run = |settings: &[&str]| {
            let mut learner = learner(settings);
            let losses: Vec<f64> = (0..3)
                .map(|_| learner.step(&batch()).unwrap().loss)
                .collect();
            (losses, values(&learner))
        };
        let plain = run(&[]);
        let scaled =
            "precision={ compute = 'f32', loss_scale = { kind = 'static', scale = 1024.0 } }";
        assert!(run(&[scaled]) == plain);
        // Doubled after each step: the factor does not matter, so how it changes does not either.
        let dynamic = "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 4.0, growth_interval = 1 } }";
        assert!(run(&[dynamic]) == plain);
    }

    #[test]
    fn overflows_are_skipped_counted_and_halve_a_dynamic_scale() {
        let dynamic = "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 1e38, growth_interval = 1 } }";
        let huge = "loss.normalisation={ sum = 1e10 }";
        let mut learner = learner(&[dynamic, huge, "training.max_skipped_steps=2"]);
        let parameters = |learner: &Learner| {
            let all = learner.network.parameters().iter();
            let values = all.map(|p| p.tensor().flatten_all().unwrap().to_vec1::<f32>().unwrap());
            values.collect::<Vec<_>>()
        };
        let before = parameters(&learner);
        for skipped in 1..=2 {
            let result = learner.step(&batch()).unwrap();
            assert!(result.skipped && result.loss.is_finite());
            assert_eq!(learner.loss_scale.skipped(), skipped);
        }
        assert_eq!(learner.loss_scale.scale(), 0.25e38);
        let error = learner.step(&batch()).unwrap_err().to_string();
        assert!(
            error.contains("3 steps in a row") && error.contains("the gradient of `"),
            "{error}"
        );
        assert!(parameters(&learner) == before);
        assert_eq!(learner.optimizer.steps(), 0);
    }

    #[test]
    fn f16_scales_its_loss_unless_told_not_to() {
        // Without normalisation over a few pixels, which makes much of any rounding.
        let mut half = learner(&["precision='f16'", "network.batch_norm=false"]);
        assert_eq!(half.storage.dtype, DType::F16);
        assert_eq!(half.loss_scale.scale(), 65_536.0);
        let mut plain = learner(&["network.batch_norm=false"]);
        for _ in 0..3 {
            let (half, plain) = (half.step(&batch()).unwrap(), plain.step(&batch()).unwrap());
            assert!((half.loss / plain.loss - 1.0).abs() < 0.01 && !half.skipped);
            assert!((half.gradient_norm / plain.gradient_norm - 1.0).abs() < 0.05);
        }
        let off = "precision={ compute = 'f16', loss_scale = { kind = 'static', scale = 1.0 } }";
        assert_eq!(learner(&[off]).loss_scale.scale(), 1.0);
        assert_eq!(learner(&["precision='bf16'"]).loss_scale.scale(), 1.0);
    }

    #[test]
    fn a_loss_that_is_no_number_names_its_cause() {
        let mut learner = learner(&[]);
        let mut broken = batch();
        broken.x[77] = f32::NAN;
        let error = learner.step(&broken).unwrap_err().to_string();
        assert!(
            error.contains("step 0") && error.contains("value 77"),
            "{error}"
        );
        fill(&mut learner, "decoder.classify.weight", f32::INFINITY);
        let error = learner.step(&batch()).unwrap_err().to_string();
        assert!(error.contains("decoder.classify.weight"), "{error}");
    }

    #[test]
    fn parameters_without_gradient_are_told_once() {
        let mut fine = learner(&[]);
        fine.step(&batch()).unwrap();
        assert_eq!(fine.take_without_gradient(), None);
        // Nothing passes a classifier of zeros on the way back.
        let mut cut = learner(&[]);
        fill(&mut cut, "decoder.classify.weight", 0.0);
        cut.step(&batch()).unwrap();
        let names = cut.take_without_gradient().unwrap();
        assert!(names.iter().any(|name| name == "encoder.stem.weight"));
        assert!(
            !names
                .iter()
                .any(|name| name.starts_with("decoder.classify"))
        );
        cut.step(&batch()).unwrap();
        assert_eq!(cut.take_without_gradient(), None);
    }
}
