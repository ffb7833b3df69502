//! Optimisers: gradients to changes of the parameters, in one pass over memory.
//!
//! One file per rule (`sgd`, `adam`, `lamb`; LARC in `larc` scales the gradients of the first two); `sweep` is the loop
//! that they share, `mirror` the bf16 copies it writes on the way.

mod adam;
mod config;
mod lamb;
mod larc;
pub mod loss_scale;
pub mod mirror;
pub mod schedule;
mod sgd;
mod sweep;

pub use config::{OptimizerConfig, Rule};
pub use larc::Larc;
pub use loss_scale::{LossScale, LossScaleConfig};
pub use mirror::{Mirror, Rounding};
pub use schedule::Schedule;

use crate::error::{ModelError, Result};
use crate::model_file::ModelFile;
use crate::parameters::{Gradients, Kind, Parameters};
use adam::Adam;
use lamb::Lamb;
use sgd::Sgd;
use std::path::Path;
use sweep::{Memory, Order, Place, per_parameter, squares_of, sweep};

/// The fact that keeps the number of steps taken.
const STEPS: &str = "optimizer.steps";
/// What the names of saved moments begin with.
const MOMENTS: [&str; 2] = ["optimizer.first.", "optimizer.second."];

/// How one step is taken.
#[derive(Debug)]
pub struct Update<'a> {
    /// The learning rate.
    pub rate: f32,
    /// What every gradient is multiplied by first: the reciprocal of a loss scale.
    pub gradient_scale: f32,
    /// bf16 copies of the parameters to write on the way.
    pub mirror: Option<&'a mut Mirror>,
}

impl Update<'_> {
    /// A plain step with learning rate `rate`.
    pub fn rate(rate: f32) -> Self {
        Self {
            rate,
            gradient_scale: 1.0,
            mirror: None,
        }
    }
}

/// An optimiser with its state.
#[derive(Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    places: Vec<Place>,
    step: u64,
    /// Momentum, or Adam's first moment.
    first: Vec<f32>,
    /// Adam's second moment; empty for SGD.
    second: Vec<f32>,
    /// Where LAMB keeps directions within a step; empty for others.
    direction: Vec<f32>,
    /// Σ w² of each parameter as LARC's last step left them, and the parameters' version since.
    weights: Option<(u64, Vec<f64>)>,
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
        let places = Place::all(parameters);
        let direction = match config.rule {
            Rule::Lamb => lamb::direction_len(&places),
            _ => 0,
        };
        Ok(Self {
            config: config.clone(),
            places,
            step: 0,
            first: vec![0.0; count],
            second: vec![0.0; second],
            direction: vec![0.0; direction],
            weights: None,
        })
    }

    /// Changes the parameters along the gradients with learning rate `rate`; gives the gradient's norm before clipping.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub fn step(
        &mut self,
        parameters: &mut Parameters,
        gradients: &Gradients,
        rate: f32,
    ) -> Result<f64> {
        self.update(parameters, gradients, Update::rate(rate))
    }

    /// Changes the parameters along the gradients; gives the (unscaled) gradient's norm before clipping.
    ///
    /// The new values are the same bits on any number of threads.
    ///
    /// # Errors
    /// [`ModelError::NotFinite`] naming the first parameter whose gradient is no number, and [`ModelError::Shape`] if
    /// parameters, gradients or mirror are another network's; both before anything is changed. [`ModelError::Candle`] if a
    /// parameter is not in host memory.
    pub fn update(
        &mut self,
        parameters: &mut Parameters,
        gradients: &Gradients,
        update: Update<'_>,
    ) -> Result<f64> {
        let Update {
            rate,
            gradient_scale,
            mut mirror,
        } = update;
        let expected = self.first.len();
        let copies = mirror.as_ref().map_or(expected, |m| m.as_slice().len());
        for (what, got) in [
            ("parameters", parameters.count()),
            ("gradients", gradients.as_slice().len()),
            ("mirror", copies),
        ] {
            crate::ops::host::expect("optimizer", what, expected, got)?;
        }
        // LARC's norms of each tensor give that of the whole gradient too: one pass less.
        let sums = match self.config.larc {
            None => None,
            Some(_) => {
                let kept = self.weights.take();
                let kept = kept.filter(|(version, _)| *version == parameters.version());
                let weights = match kept {
                    Some((_, weights)) => weights,
                    None => parameters.update_all(|values| squares_of(&self.places, values))?,
                };
                let gradients = squares_of(&self.places, gradients.as_slice());
                Some(weights.into_iter().zip(gradients).collect::<Vec<_>>())
            }
        };
        let norm = match &sums {
            None => gradients.norm(),
            Some(sums) => sums.iter().map(|(_, g)| g).sum::<f64>().sqrt(),
        } * f64::from(gradient_scale);
        if !norm.is_finite() {
            return Err(gradients.not_finite(parameters, self.step + 1));
        }
        let scale = self.config.clipped(gradient_scale, norm);
        self.step += 1;
        if let Some(mirror) = &mut mirror {
            mirror.begin(self.step);
        }
        let weights = parameters.update_all(|values| {
            let memory = Memory {
                start: 0,
                values,
                gradient: gradients.as_slice(),
                first: &mut self.first,
                second: &mut self.second,
                direction: &mut self.direction,
                mirror: mirror.map(Mirror::whole),
            };
            let larc = self.config.larc.zip(sums);
            let factor = factors(larc, &self.places, (rate, scale));
            apply(
                &self.config,
                self.step,
                &self.places,
                memory,
                (rate, factor),
            )
        })?;
        self.weights = weights.map(|weights| (parameters.version(), weights));
        Ok(norm)
    }

    /// Writes the copies as a step would, without one: before the first step and after loading.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the mirror has another size; [`ModelError::Candle`].
    pub fn fill_mirror(&self, parameters: &mut Parameters, mirror: &mut Mirror) -> Result<()> {
        let (expected, got) = (parameters.count(), mirror.as_slice().len());
        crate::ops::host::expect("optimizer", "mirror", expected, got)?;
        mirror.begin(self.step);
        parameters.update_all(|values| mirror.round(values))
    }

    /// The moments, in the order of [`crate::parameters::Parameter::range`]; the second is empty for SGD.
    pub fn state(&self) -> [(&'static str, &[f32]); 2] {
        [
            ("optimizer.first", &self.first),
            ("optimizer.second", &self.second),
        ]
    }

    /// Puts the whole state into a model file, beside the parameters: a tensor of each moment for each of them.
    pub fn save_into(&self, file: &mut ModelFile) {
        for (prefix, (_, values)) in MOMENTS.iter().zip(self.state()) {
            for place in self.places.iter().filter(|_| !values.is_empty()) {
                let values = values[place.range.clone()].to_vec();
                let name = format!("{prefix}{}", place.name);
                (file.tensors).insert(name, (place.shape.clone(), values));
            }
        }
        let steps = self.step.to_string();
        file.facts.insert(STEPS.to_string(), steps);
    }

    /// Takes up the state that [`Self::save_into`] put into `file`, which was read from `path`.
    ///
    /// # Errors
    /// [`ModelError::File`] if it is another rule's; [`ModelError::MissingWeight`] or [`ModelError::WeightShape`] naming the first
    /// moment that is missing or has another shape than its parameter.
    pub fn load_from(&mut self, path: &Path, file: &ModelFile) -> Result<()> {
        let bad = |reason: String| ModelError::File {
            path: path.into(),
            reason,
        };
        let steps = file.fact(path, STEPS)?;
        let steps = (steps.parse()).map_err(|_| bad(format!("`{STEPS}` is `{steps}`")))?;
        let [first, second] = MOMENTS;
        let has_second = file.tensors.keys().any(|name| name.starts_with(second));
        if has_second == self.second.is_empty() {
            let of = |second| if second { "Adam or LAMB" } else { "SGD" };
            return Err(bad(format!(
                "it holds the optimiser's state of {}, this run's rule is {}",
                of(has_second),
                of(!has_second)
            )));
        }
        let (mut new_first, mut new_second) = (self.first.clone(), self.second.clone());
        for (prefix, values) in [(first, &mut new_first), (second, &mut new_second)] {
            let places = if values.is_empty() {
                &[]
            } else {
                self.places.as_slice()
            };
            for place in places {
                let name = format!("{prefix}{}", place.name);
                match file.tensor(&name) {
                    None => {
                        return Err(ModelError::MissingWeight {
                            path: path.into(),
                            name,
                            expected: place.shape.clone(),
                        });
                    }
                    Some((found, _)) if found != place.shape => {
                        return Err(ModelError::WeightShape {
                            path: path.into(),
                            name,
                            expected: place.shape.clone(),
                            found: found.into(),
                        });
                    }
                    Some((_, saved)) => values[place.range.clone()].copy_from_slice(saved),
                }
            }
        }
        (self.step, self.first, self.second) = (steps, new_first, new_second);
        Ok(())
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.step
    }
}

/// What the gradient of each parameter is multiplied by, from Σ w² and Σ g² of each with LARC.
fn factors(
    larc: Option<(Larc, Vec<(f64, f64)>)>,
    places: &[Place],
    (rate, scale): (f32, f32),
) -> Vec<f32> {
    let Some((larc, sums)) = larc else {
        return vec![scale; places.len()];
    };
    let factor = |(w, g): (f64, f64)| {
        let gradient_norm = g.sqrt() * f64::from(scale);
        scale * larc.factor(w.sqrt(), gradient_norm, rate)
    };
    sums.into_iter().map(factor).collect()
}

/// One step of the configured rule; gives Σ w² of each parameter after it, for the next step of LARC.
fn apply(
    config: &OptimizerConfig,
    step: u64,
    places: &[Place],
    memory: Memory<'_>,
    (rate, factor): (f32, Vec<f32>),
) -> Option<Vec<f64>> {
    let norms = config.larc.is_some();
    let decays = |place: &Place| config.decay_all || place.kind == Kind::Weight;
    let decay = (places.iter())
        .map(|place| {
            if decays(place) {
                config.weight_decay
            } else {
                0.0
            }
        })
        .collect();
    let unbias = |beta: f32| match config.bias_correction {
        true => (1.0 / (1.0 - f64::from(beta).powf(step as f64))) as f32,
        false => 1.0,
    };
    let unbias = (unbias(config.beta1), unbias(config.beta2));
    let (beta1, beta2, epsilon) = (config.beta1, config.beta2, config.epsilon);
    let sums = match config.rule {
        Rule::Sgd => {
            let sgd = Sgd {
                momentum: config.momentum,
                nesterov: config.nesterov,
                rate,
                decay,
                factor,
                norms,
            };
            sweep(places, memory, &sgd, Order::Backward)
        }
        Rule::Adam | Rule::AdamW => {
            let adam = Adam {
                beta1,
                beta2,
                epsilon,
                unbias,
                rate,
                decoupled: config.rule == Rule::AdamW,
                decay,
                factor,
                norms,
            };
            sweep(places, memory, &adam, Order::Backward)
        }
        Rule::Lamb => {
            let lamb = Lamb {
                beta1,
                beta3: if config.grad_averaging {
                    1.0 - beta1
                } else {
                    1.0
                },
                beta2,
                epsilon,
                unbias,
                rate,
                decay,
                factor,
            };
            lamb.step(places, memory);
            return None;
        }
    };
    let squares = |sums: Vec<[f64; 2]>| sums.into_iter().map(|[w, _]| w).collect();
    norms.then(|| squares(per_parameter(places, sums)))
}

#[cfg(test)]
mod tests;
