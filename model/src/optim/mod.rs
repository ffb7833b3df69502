//! Optimisers: gradients to changes of the parameters, element by element, in one pass over memory.

mod larc;
pub mod loss_scale;
pub mod schedule;

pub use larc::Larc;
pub use loss_scale::{LossScale, LossScaleConfig};
pub use schedule::Schedule;

use crate::error::{ModelError, Result};
use crate::model_file::ModelFile;
use crate::parameters::{Gradients, Kind, Parameters};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The fact that keeps the number of steps taken.
const STEPS: &str = "optimizer.steps";

/// Values per task: the same for any number of threads, so that results do not depend on it.
const CHUNK: usize = 1 << 14;

/// Which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Stochastic gradient descent with momentum: v ← μ v + g, θ ← θ − η v.
    Sgd,
    /// Adam (Kingma & Ba 2015), weight decay added to the gradient.
    Adam,
    /// Adam with decoupled weight decay (Loshchilov & Hutter 2019).
    AdamW,
}

/// An optimiser's configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Which rule.
    pub rule: Rule,
    /// μ of SGD.
    pub momentum: f32,
    /// Nesterov's form of momentum.
    pub nesterov: bool,
    /// β₁ of Adam.
    pub beta1: f32,
    /// β₂ of Adam.
    pub beta2: f32,
    /// ε of Adam.
    pub epsilon: f32,
    /// Weight decay of kernels; biases and normalisations have none.
    pub weight_decay: f32,
    /// Largest norm of the whole gradient; a longer one is scaled down to it.
    pub clip_norm: Option<f64>,
    /// Layer-wise adaptive rate control.
    pub larc: Option<Larc>,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self {
            rule: Rule::AdamW,
            momentum: 0.9,
            nesterov: false,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            clip_norm: None,
            larc: None,
        }
    }
}

impl OptimizerConfig {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`ModelError::Config`] naming the key.
    pub fn check(&self) -> Result<()> {
        let shares = [
            ("momentum", self.momentum),
            ("beta1", self.beta1),
            ("beta2", self.beta2),
        ];
        for (key, value) in shares {
            if !(0.0..1.0).contains(&value) {
                let reason = format!("expected [0, 1), found {value}");
                return Err(ModelError::Config { key, reason });
            }
        }
        for (key, value) in [
            ("epsilon", self.epsilon),
            ("weight_decay", self.weight_decay),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                let reason = format!("expected 0 or more, found {value}");
                return Err(ModelError::Config { key, reason });
            }
        }
        if self
            .clip_norm
            .is_some_and(|norm| norm.is_nan() || norm <= 0.0)
        {
            let reason = format!("expected above 0, found {:?}", self.clip_norm);
            return Err(ModelError::Config {
                key: "clip_norm",
                reason,
            });
        }
        Ok(())
    }
}

/// An optimiser with its state.
#[derive(Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    step: u64,
    /// Momentum, or Adam's first moment.
    first: Vec<f32>,
    /// Adam's second moment; empty for SGD.
    second: Vec<f32>,
}

impl Optimizer {
    /// An optimiser at rest.
    ///
    /// # Errors
    /// [`ModelError::Config`] naming the key that makes no sense.
    pub fn new(config: &OptimizerConfig, parameters: &Parameters) -> Result<Self> {
        config.check()?;
        let count = parameters.count();
        let second = if config.rule == Rule::Sgd { 0 } else { count };
        Ok(Self {
            config: config.clone(),
            step: 0,
            first: vec![0.0; count],
            second: vec![0.0; second],
        })
    }

    /// Changes the parameters along the gradients with learning rate `rate`; gives the gradient's norm before clipping.
    ///
    /// Gradients are scaled in place by clipping and LARC.
    ///
    /// # Errors
    /// [`ModelError::Candle`] if a parameter is not in host memory.
    pub fn step(
        &mut self,
        parameters: &mut Parameters,
        gradients: &mut Gradients,
        rate: f32,
    ) -> Result<f64> {
        let norm = gradients.norm();
        if let Some(limit) = self.config.clip_norm.filter(|&limit| norm > limit) {
            gradients.scale((limit / norm) as f32);
        }
        self.step += 1;
        let Self {
            config,
            step,
            first,
            second,
        } = self;
        let correct = |beta: f32| 1.0 - f64::from(beta).powf(*step as f64);
        let (bias1, bias2) = (correct(config.beta1) as f32, correct(config.beta2) as f32);
        parameters.update(|parameter, values| {
            let range = parameter.range.clone();
            let gradient = gradients.of(range.clone());
            if let Some(larc) = &config.larc {
                larc.scale(values, gradient, rate);
            }
            let decay = match parameter.kind {
                Kind::Weight => config.weight_decay,
                _ => 0.0,
            };
            let first = &mut first[range.clone()];
            if config.rule == Rule::Sgd {
                sgd(config, values, gradient, first, (rate, decay));
            } else {
                let second = &mut second[range];
                let moments = Moments {
                    first,
                    second,
                    bias1,
                    bias2,
                };
                adam(config, values, gradient, moments, (rate, decay));
            }
        })?;
        Ok(norm)
    }

    /// The state as (name, values), to be saved beside the parameters.
    pub fn state(&self) -> [(&'static str, &[f32]); 2] {
        [
            ("optimizer.first", &self.first),
            ("optimizer.second", &self.second),
        ]
    }

    /// Puts the whole state into a model file, beside the parameters.
    pub fn save_into(&self, file: &mut ModelFile) {
        for (name, values) in self.state() {
            (file.tensors).insert(name.to_string(), (vec![values.len()], values.to_vec()));
        }
        let steps = self.step.to_string();
        file.facts.insert(STEPS.to_string(), steps);
    }

    /// Takes up the state that [`Self::save_into`] put into `file`, which was read from `path`.
    ///
    /// # Errors
    /// [`ModelError::File`] if it is not there, [`ModelError::Config`] if it belongs to another network or rule.
    pub fn load_from(&mut self, path: &Path, file: &ModelFile) -> Result<()> {
        let bad = |reason: String| ModelError::File {
            path: path.into(),
            reason,
        };
        let state = |name: &str| {
            let tensor = file.tensor(name).map(|(_, values)| values);
            tensor.ok_or_else(|| bad(format!("the optimiser's state `{name}` is missing")))
        };
        let steps = file.fact(path, STEPS)?;
        let steps = (steps.parse()).map_err(|_| bad(format!("`{STEPS}` is `{steps}`")))?;
        self.restore(steps, state("optimizer.first")?, state("optimizer.second")?)
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Takes up a saved state.
    ///
    /// # Errors
    /// [`ModelError::Config`] if it belongs to another network or rule.
    pub fn restore(&mut self, step: u64, first: &[f32], second: &[f32]) -> Result<()> {
        if first.len() != self.first.len() || second.len() != self.second.len() {
            let (expected, found) = (
                self.first.len() + self.second.len(),
                first.len() + second.len(),
            );
            let reason = format!("the saved state has {found} values, this optimiser {expected}");
            return Err(ModelError::Config {
                key: "optimizer",
                reason,
            });
        }
        self.step = step;
        self.first.copy_from_slice(first);
        self.second.copy_from_slice(second);
        Ok(())
    }
}

fn sgd(
    config: &OptimizerConfig,
    values: &mut [f32],
    gradient: &[f32],
    velocity: &mut [f32],
    (rate, decay): (f32, f32),
) {
    let (momentum, nesterov) = (config.momentum, config.nesterov);
    let chunks = (values.par_chunks_mut(CHUNK))
        .zip(gradient.par_chunks(CHUNK))
        .zip(velocity.par_chunks_mut(CHUNK));
    chunks.for_each(|((values, gradient), velocity)| {
        for ((value, &g), v) in values.iter_mut().zip(gradient).zip(velocity) {
            let g = g + decay * *value;
            *v = momentum * *v + g;
            *value -= rate * if nesterov { g + momentum * *v } else { *v };
        }
    });
}

struct Moments<'a> {
    first: &'a mut [f32],
    second: &'a mut [f32],
    bias1: f32,
    bias2: f32,
}

fn adam(
    config: &OptimizerConfig,
    values: &mut [f32],
    gradient: &[f32],
    moments: Moments<'_>,
    (rate, decay): (f32, f32),
) {
    let decoupled = config.rule == Rule::AdamW;
    let (l2, shrink) = if decoupled {
        (0.0, 1.0 - rate * decay)
    } else {
        (decay, 1.0)
    };
    let (beta1, beta2, epsilon) = (config.beta1, config.beta2, config.epsilon);
    let (step_size, root_bias) = (rate / moments.bias1, moments.bias2.sqrt());
    let chunks = (values.par_chunks_mut(CHUNK))
        .zip(gradient.par_chunks(CHUNK))
        .zip(moments.first.par_chunks_mut(CHUNK))
        .zip(moments.second.par_chunks_mut(CHUNK));
    chunks.for_each(|(((values, gradient), first), second)| {
        let state = first.iter_mut().zip(second);
        for ((value, &g), (m, v)) in values.iter_mut().zip(gradient).zip(state) {
            let g = g + l2 * *value;
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *value = shrink * *value - step_size * *m / (v.sqrt() / root_bias + epsilon);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    fn quadratic(config: &OptimizerConfig, rate: f32, steps: usize) -> (f32, f32) {
        // One weight and one bias at 1, gradient = value: both must go to 0.
        let mut parameters = Parameters::new(1);
        let weight = parameters.weight("w".into(), &[1, 1, 1, 1], 6).unwrap();
        let bias = parameters.vector("b".into(), Kind::Bias, 1, 1.0).unwrap();
        parameters.update(|_, values| values.fill(1.0)).unwrap();
        let mut optimizer = Optimizer::new(config, &parameters).unwrap();
        let mut gradients = Gradients::new(&parameters);
        for _ in 0..steps {
            let at = [
                parameters.values(weight).unwrap()[0],
                parameters.values(bias).unwrap()[0],
            ];
            gradients.as_mut_slice().copy_from_slice(&at);
            optimizer
                .step(&mut parameters, &mut gradients, rate)
                .unwrap();
        }
        (
            parameters.values(weight).unwrap()[0],
            parameters.values(bias).unwrap()[0],
        )
    }

    #[test]
    fn two_steps_by_hand() {
        let sgd = OptimizerConfig {
            rule: Rule::Sgd,
            weight_decay: 0.5,
            ..OptimizerConfig::default()
        };
        // Weight: g = 1.5, v = 1.5, θ = 0.85; g = 1.275, v = 2.625, θ = 0.5875. Bias without decay: 0.9, then 0.72.
        let (weight, bias) = quadratic(&sgd, 0.1, 2);
        assert_relative_eq!(weight, 0.5875, epsilon = 1e-6);
        assert_relative_eq!(bias, 0.72, epsilon = 1e-6);
        // Adam's first step is the learning rate itself, whatever the gradient.
        let adam = OptimizerConfig {
            rule: Rule::Adam,
            ..OptimizerConfig::default()
        };
        assert_relative_eq!(quadratic(&adam, 0.1, 1).0, 0.9, epsilon = 1e-6);
        let adamw = OptimizerConfig {
            weight_decay: 0.5,
            ..OptimizerConfig::default()
        };
        let (weight, bias) = quadratic(&adamw, 0.1, 1);
        assert_relative_eq!(weight, 0.95 - 0.1, epsilon = 1e-6);
        assert_relative_eq!(bias, 0.9, epsilon = 1e-6);
    }

    #[test]
    fn every_rule_finds_the_minimum() {
        for rule in [Rule::Sgd, Rule::Adam, Rule::AdamW] {
            let config = OptimizerConfig {
                rule,
                ..OptimizerConfig::default()
            };
            let (weight, bias) = quadratic(&config, 0.03, 400);
            assert!(
                weight.abs() < 0.02 && bias.abs() < 0.02,
                "{rule:?}: {weight} {bias}"
            );
        }
    }

    #[test]
    fn clipping_keeps_the_direction() {
        let config = OptimizerConfig {
            rule: Rule::Sgd,
            momentum: 0.0,
            clip_norm: Some(0.5),
            ..OptimizerConfig::default()
        };
        // The gradient (1, 1) has norm √2; clipped to 0.5 each part is 0.3536.
        let (weight, bias) = quadratic(&config, 1.0, 1);
        assert_relative_eq!(weight, 1.0 - 0.353_553_4, epsilon = 1e-6);
        assert_relative_eq!(bias, weight, epsilon = 1e-6);
    }
}
