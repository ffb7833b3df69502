//! The choice of an optimiser and its hyperparameters.

use super::Larc;
use crate::error::{ModelError, Result};
use crate::parameters::{Kind, Parameters, layer_of, lies_under, near};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The update rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Stochastic gradient descent with momentum: v ← μ v + g, θ ← θ − η v.
    Sgd,
    /// Adam (Kingma & Ba 2015), with weight decay added to the gradient.
    Adam,
    /// Adam with decoupled weight decay (Loshchilov & Hutter 2019).
    AdamW,
    /// AdamW's direction, with a step per tensor proportional to the tensor's norm (You et al. 2020).
    Lamb,
}

/// What is true of a rule wherever a rule matters: a new one does not compile before it is placed here.
impl Rule {
    /// The name as in a recipe, by which checkpoints tell whose state they hold.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Adam => "adam",
            Self::AdamW => "adamw",
            Self::Lamb => "lamb",
        }
    }

    /// How many moments it keeps for each parameter.
    pub fn moments(self) -> usize {
        match self {
            Self::Sgd => 1,
            Self::Adam | Self::AdamW | Self::Lamb => 2,
        }
    }

    /// Whether it needs all of a parameter's direction before it changes any of it.
    pub(crate) fn keeps_direction(self) -> bool {
        match self {
            Self::Lamb => true,
            Self::Sgd | Self::Adam | Self::AdamW => false,
        }
    }

    /// Whether it has a rate of its own for each tensor, as LARC has.
    fn has_own_rates(self) -> bool {
        match self {
            Self::Lamb => true,
            Self::Sgd | Self::Adam | Self::AdamW => false,
        }
    }

    /// Whether weight decay shrinks parameters beside the step; with other rules it is a part of it.
    pub fn shrinks(self) -> bool {
        match self {
            Self::AdamW => true,
            Self::Sgd | Self::Adam | Self::Lamb => false,
        }
    }
}

/// An optimiser's configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerConfig {
    /// The update rule. Default `"adamw"`.
    pub rule: Rule,
    /// μ of SGD. Default 0.9.
    pub momentum: f32,
    /// Nesterov's form of momentum. Default false.
    pub nesterov: bool,
    /// β₁ of Adam, AdamW and LAMB. Default 0.9.
    pub beta1: f32,
    /// β₂ of Adam, AdamW and LAMB. Default 0.999.
    pub beta2: f32,
    /// ε of Adam, AdamW and LAMB. Default 1e-8.
    pub epsilon: f32,
    /// Divide Adam's and LAMB's moments by 1 − βᵗ. Default true.
    pub bias_correction: bool,
    /// Whether LAMB's gradient enters the first moment with weight 1 − β₁ rather than 1. Default true.
    pub grad_averaging: bool,
    /// Weight decay, of kernels only unless `decay_all` is set. Default 0.
    pub weight_decay: f32,
    /// Whether biases and normalisation parameters decay too, as in MLPerf HPC DeepCAM. Default false.
    pub decay_all: bool,
    /// Maximum norm of the whole gradient; a larger gradient is scaled down to it. Default none.
    pub clip_norm: Option<f64>,
    /// Layer-wise adaptive rate control, with SGD, Adam or AdamW; it scales the weight decay of the first two as well.
    /// Default none.
    pub larc: Option<Larc>,
    /// Multipliers of the learning rate for some parameters, by a prefix of their names (`encoder`) or a pattern in
    /// which `*` matches any text (`*.bias`). The longest match wins. With 0 a parameter does not change. Default none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rates: BTreeMap<String, f32>,
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
            bias_correction: true,
            grad_averaging: true,
            weight_decay: 0.0,
            decay_all: false,
            clip_norm: None,
            larc: None,
            rates: BTreeMap::new(),
        }
    }
}

impl OptimizerConfig {
    /// LAMB as MLPerf HPC DeepCAM runs it.
    ///
    /// # Source
    /// mlcommons/hpc `deepcam/src/deepCam/utils/optimizer_helpers.py`: Apex's `FusedLAMB` with ε 1e-6, its default
    /// gradient norm of 1, bias correction and gradient averaging; weight decay 0.01 of every parameter.
    pub fn mlperf_deepcam() -> Self {
        Self {
            rule: Rule::Lamb,
            epsilon: 1e-6,
            weight_decay: 0.01,
            decay_all: true,
            clip_norm: Some(1.0),
            ..Self::default()
        }
    }

    /// LARC-Adam of the SC18 runs.
    ///
    /// # Source
    /// Kurth et al. 2018 (arXiv:1810.01993) section V-B and ClimDeepLearn.
    pub fn larc_adam() -> Self {
        Self {
            rule: Rule::Adam,
            larc: Some(Larc::default()),
            ..Self::default()
        }
    }

    /// The number of moments that the rule keeps per parameter.
    pub fn moments(&self) -> usize {
        self.rule.moments()
    }

    /// The number of values that an optimiser keeps per parameter: its moments and, on a GPU, LAMB's direction. On the
    /// CPU the direction exists only for a group of parameters at a time.
    pub fn values_kept(&self, on_gpu: bool) -> usize {
        self.moments() + usize::from(on_gpu && self.rule.keeps_direction())
    }

    /// The factor on gradients, given the factor `scale` and the gradient norm `norm` after scaling by it: `scale`, or
    /// less if clipping applies.
    pub fn clipped(&self, scale: f32, norm: f64) -> f32 {
        let clip = self.clip_norm.filter(|&limit| norm > limit);
        scale * clip.map_or(1.0, |limit| (limit / norm) as f32)
    }

    /// 1 / (1 − β₁ᵗ) and 1 / (1 − β₂ᵗ) of step t, or ones without bias correction.
    pub(crate) fn unbias(&self, step: u64) -> (f32, f32) {
        let unbias = |beta: f32| match self.bias_correction {
            true => (1.0 / (1.0 - f64::from(beta).powf(step as f64))) as f32,
            false => 1.0,
        };
        (unbias(self.beta1), unbias(self.beta2))
    }

    /// The weight decay of parameters of this kind.
    pub(crate) fn decay_of(&self, kind: Kind) -> f32 {
        if self.decay_all || kind == Kind::Weight {
            self.weight_decay
        } else {
            0.0
        }
    }

    /// The multiplier of the learning rate for a parameter.
    pub(crate) fn rate_of(&self, name: &str) -> f32 {
        let fitting = self.rates.iter().filter(|(of, _)| lies_under(of, name));
        let longest = fitting.max_by_key(|(of, _)| of.len());
        longest.map_or(1.0, |(_, factor)| *factor)
    }

    /// Checks that every entry of `rates` matches a parameter of the network.
    ///
    /// # Errors
    /// [`ModelError::Config`] with the closest names.
    pub fn check_rates(&self, parameters: &Parameters) -> Result<()> {
        let names = || parameters.iter().map(|p| p.name.as_str());
        let unknown = |of: &&String| !names().any(|name| lies_under(of, name));
        let Some(unknown) = self.rates.keys().find(unknown) else {
            return Ok(());
        };
        let layers: BTreeSet<&str> = names().map(layer_of).collect();
        Err(ModelError::Config {
            key: "optimiser.rates",
            reason: format!(
                "no parameter is or begins with `{unknown}` (layers: {})",
                near(unknown, layers.iter().copied())
            ),
        })
    }

    /// Checks that all values are valid.
    ///
    /// # Errors
    /// [`ModelError::Config`] naming the key.
    pub fn check(&self) -> Result<()> {
        let refuse = |key, reason: String| Err(ModelError::Config { key, reason });
        let shares = [
            ("momentum", self.momentum),
            ("beta1", self.beta1),
            ("beta2", self.beta2),
        ];
        for (key, value) in shares {
            if !(0.0..1.0).contains(&value) {
                return refuse(key, format!("expected [0, 1), found {value}"));
            }
        }
        // Where gradients are always 0, so are both moments, and without ε their ratio is NaN.
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            return refuse(
                "epsilon",
                format!("expected above 0, found {}", self.epsilon),
            );
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            let reason = format!("expected 0 or more, found {}", self.weight_decay);
            return refuse("weight_decay", reason);
        }
        for (of, factor) in &self.rates {
            if !(*factor >= 0.0 && factor.is_finite()) {
                return refuse(
                    "rates",
                    format!("expected 0 or more for `{of}`, found {factor}"),
                );
            }
        }
        if let Some(norm) = self.clip_norm.filter(|norm| norm.is_nan() || *norm <= 0.0) {
            return refuse("clip_norm", format!("expected above 0, found {norm}"));
        }
        match self.larc {
            Some(_) if self.rule.has_own_rates() => refuse(
                "larc",
                "`lamb` has its own rate for each tensor: leave one of the two out".into(),
            ),
            Some(Larc { eta, .. }) if !(eta > 0.0 && eta.is_finite()) => {
                refuse("larc.eta", format!("expected above 0, found {eta}"))
            }
            Some(Larc { epsilon, .. }) if !(epsilon >= 0.0 && epsilon.is_finite()) => refuse(
                "larc.epsilon",
                format!("expected 0 or more, found {epsilon}"),
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What would train for a night before anybody sees that it learns nothing.
    #[test]
    fn nonsense_names_its_key() {
        let larc = |eta, epsilon| {
            Some(Larc {
                eta,
                epsilon,
                ..Larc::default()
            })
        };
        type Change = Box<dyn Fn(&mut OptimizerConfig)>;
        let cases: [(&str, Change); 12] = [
            ("momentum", Box::new(|c| c.momentum = 1.0)),
            ("momentum", Box::new(|c| c.momentum = -0.1)),
            ("beta1", Box::new(|c| c.beta1 = 1.0)),
            ("beta2", Box::new(|c| c.beta2 = 1.0)),
            ("beta2", Box::new(|c| c.beta2 = f32::NAN)),
            ("weight_decay", Box::new(|c| c.weight_decay = -1e-4)),
            ("weight_decay", Box::new(|c| c.weight_decay = f32::INFINITY)),
            ("clip_norm", Box::new(|c| c.clip_norm = Some(0.0))),
            ("clip_norm", Box::new(|c| c.clip_norm = Some(f64::NAN))),
            ("larc.eta", Box::new(move |c| c.larc = larc(0.0, 0.1))),
            ("larc.epsilon", Box::new(move |c| c.larc = larc(0.1, -0.1))),
            (
                "larc",
                Box::new(|c| (c.rule, c.larc) = (Rule::Lamb, Some(Larc::default()))),
            ),
        ];
        for (key, change) in cases {
            let mut config = OptimizerConfig::default();
            config.check().unwrap();
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}`")), "{key}: {error}");
        }
        let edge = OptimizerConfig {
            momentum: 0.0,
            beta1: 0.0,
            clip_norm: Some(1e-3),
            larc: larc(1e-3, 0.0),
            ..OptimizerConfig::default()
        };
        edge.check().unwrap();
    }

    /// Factors and shifts of normalisations, slopes and biases are pulled to zero only if asked.
    #[test]
    fn kernels_decay_and_nothing_else_does_unasked() {
        let config = |decay_all| OptimizerConfig {
            weight_decay: 0.1,
            decay_all,
            ..OptimizerConfig::default()
        };
        assert_eq!(config(false).decay_of(Kind::Weight), 0.1);
        for kind in [Kind::Bias, Kind::Scale, Kind::Shift, Kind::Slope] {
            assert_eq!(config(false).decay_of(kind), 0.0, "{kind:?}");
            assert_eq!(config(true).decay_of(kind), 0.1, "{kind:?}");
        }
    }
}
