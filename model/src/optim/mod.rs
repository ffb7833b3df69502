//! Optimisers: update parameters from gradients in one pass over memory.
//!
//! One file per rule (`sgd`, `adam`, `lamb`; LARC in `larc` scales the steps of the first two). `sweep` is their
//! shared loop, `mirror` the bf16 copies that it writes, `state` the part saved in checkpoints, and `average` the
//! moving average over steps.

mod adam;
mod average;
mod config;
mod lamb;
mod larc;
pub mod loss_scale;
pub mod mirror;
pub mod schedule;
mod sgd;
mod state;
mod sweep;

pub use average::Average;
pub use config::{OptimizerConfig, Rule};
pub use larc::Larc;
pub use loss_scale::{LossScale, LossScaleConfig};
pub use mirror::{Mirror, Rounding};
pub use schedule::Schedule;

use crate::error::Result;
use crate::gradients::{Gradients, Slices, squares};
use crate::parameters::Parameters;
use crate::profile;
use adam::Adam;
use sgd::Sgd;
use sweep::{Memory, Order, Place, per_parameter, squares_of, sweep};

/// The inputs of a step beside parameters and gradients.
#[derive(Debug)]
pub struct Update<'a> {
    /// The learning rate.
    pub rate: f32,
    /// The factor on every gradient, applied first: the reciprocal of the loss scale.
    pub gradient_scale: f32,
    /// bf16 copies of the parameters to write in the same pass.
    pub mirror: Option<&'a mut Mirror>,
}

impl Update<'_> {
    /// A step with learning rate `rate` and default values otherwise.
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
    /// The learning-rate multiplier of each parameter.
    rates: Vec<f32>,
    step: u64,
    /// Momentum, or Adam's first moment.
    first: Vec<f32>,
    /// Adam's second moment; empty for SGD.
    second: Vec<f32>,
    /// LAMB's direction buffer within a step; empty for other rules.
    direction: Vec<f32>,
    /// Σ w² of each parameter after LARC's last step, and the version of the parameters at that time.
    weights: Option<(u64, Vec<f64>)>,
    /// The moments on the GPU; the host buffers above are then empty.
    #[cfg(feature = "cuda")]
    on_gpu: Option<crate::ops::cuda::optimizer::State>,
}

impl Optimizer {
    /// An optimiser before its first step.
    ///
    /// # Errors
    /// [`crate::ModelError::Config`] naming the key whose value is invalid.
    pub fn new(config: &OptimizerConfig, parameters: &Parameters) -> Result<Self> {
        config.check()?;
        let places = Place::all(parameters);
        let rates: Vec<f32> = (places.iter())
            .map(|place| config.rate_of(&place.name))
            .collect();
        #[cfg(feature = "cuda")]
        let on_gpu = match parameters.is_on_gpu() {
            false => None,
            true => {
                let ranges: Vec<_> = places.iter().map(|place| place.range.clone()).collect();
                let decay = decay_of_all(config, &places);
                Some(crate::ops::cuda::optimizer::State::new(
                    config, &ranges, &decay, &rates,
                )?)
            }
        };
        let count = if parameters.is_on_gpu() {
            0
        } else {
            parameters.count()
        };
        let second = if config.moments() > 1 { count } else { 0 };
        let direction = match config.rule.keeps_direction() && !parameters.is_on_gpu() {
            true => lamb::direction_len(&places),
            false => 0,
        };
        Ok(Self {
            config: config.clone(),
            places,
            rates,
            step: 0,
            first: vec![0.0; count],
            second: vec![0.0; second],
            direction: vec![0.0; direction],
            weights: None,
            #[cfg(feature = "cuda")]
            on_gpu,
        })
    }

    /// The number of values per moment.
    fn count(&self) -> usize {
        self.places.last().map_or(0, |place| place.range.end)
    }

    /// Updates the parameters with learning rate `rate` and returns the gradient's norm before clipping.
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

    /// Updates the parameters and returns the norm of the gradient, after `gradient_scale` and before clipping.
    ///
    /// The result is bit-identical for any number of threads.
    ///
    /// # Errors
    /// [`crate::ModelError::NotFinite`] naming the first parameter whose gradient is not finite, and
    /// [`crate::ModelError::Shape`] if parameters, gradients or mirror belong to another network; in both cases nothing
    /// has changed. [`crate::ModelError::Candle`] if a parameter is not in host memory.
    pub fn update(
        &mut self,
        parameters: &mut Parameters,
        gradients: &Gradients,
        update: Update<'_>,
    ) -> Result<f64> {
        let _span = profile::span(|| format!("parameters updated, {}", gradients.len()));
        self.check_sizes(parameters, gradients, update.mirror.as_deref())?;
        #[cfg(feature = "cuda")]
        if self.on_gpu.is_some() {
            return self.update_on_gpu(parameters, gradients, update);
        }
        let Update {
            rate,
            gradient_scale,
            mut mirror,
        } = update;
        let sums = match self.config.larc {
            None => None,
            Some(_) => Some(self.squares(parameters, gradients)?),
        };
        // LARC's per-tensor sums also yield the norm of the whole gradient, which saves a pass.
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
        let slopes = gradients.slices();
        let weights = parameters.update_all(|values| {
            let memory = Memory {
                start: 0,
                values,
                gradient: &slopes,
                first: &mut self.first,
                second: &mut self.second,
                direction: &mut self.direction,
                mirror: mirror.map(Mirror::whole),
            };
            let larc = self.config.larc.zip(sums);
            let rates: Vec<f32> = self.rates.iter().map(|factor| rate * factor).collect();
            let mut decay = decay_of_all(&self.config, &self.places);
            let step = Step {
                config: &self.config,
                unbias: self.config.unbias(self.step),
                factor: factors(larc, self.config.rule, &rates, scale, &mut decay),
                rates,
                decay,
            };
            step.take(&self.places, memory)
        })?;
        self.weights = weights.map(|weights| (parameters.version(), weights));
        Ok(norm)
    }

    /// Checks that parameters, gradients and mirror belong to the same network.
    fn check_sizes(
        &self,
        parameters: &Parameters,
        gradients: &Gradients,
        mirror: Option<&Mirror>,
    ) -> Result<()> {
        let expected = self.count();
        let copies = mirror.map_or(expected, Mirror::count);
        for (what, got) in [
            ("parameters", parameters.count()),
            ("gradients", gradients.len()),
            ("mirror", copies),
        ] {
            crate::ops::host::expect("optimizer", what, expected, got)?;
        }
        Ok(())
    }

    /// Σ w² and Σ g² of each parameter; Σ w² is reused from the last step if the parameters have not changed since.
    fn squares(
        &mut self,
        parameters: &mut Parameters,
        gradients: &Gradients,
    ) -> Result<Vec<(f64, f64)>> {
        let kept = self.weights.take();
        let kept = kept.filter(|(version, _)| *version == parameters.version());
        let weights = match kept {
            Some((_, weights)) => weights,
            None => {
                parameters.update_all(|values| squares_of(&self.places, &Slices::one(values)))?
            }
        };
        let gradients = squares_of(&self.places, &gradients.slices());
        Ok(weights.into_iter().zip(gradients).collect())
    }

    #[cfg(feature = "cuda")]
    fn update_on_gpu(
        &mut self,
        parameters: &mut Parameters,
        gradients: &Gradients,
        update: Update<'_>,
    ) -> Result<f64> {
        let Some(state) = &mut self.on_gpu else {
            unreachable!("asked of an optimiser on the GPU")
        };
        let number = self.step + 1;
        let step = crate::ops::cuda::optimizer::Step {
            number,
            rate: update.rate,
            gradient_scale: update.gradient_scale,
            version: parameters.version(),
        };
        let copies = update.mirror.and_then(|mirror| {
            mirror.begin(number);
            mirror.copies()
        });
        let gradient = gradients.on_gpu()?;
        let norm = parameters
            .update_on_gpu(|values| state.step(&self.config, (values, &gradient), step, copies))?;
        state.settle(parameters.version());
        if !norm.is_finite() {
            return Err(gradients.not_finite(parameters, number));
        }
        self.step = number;
        Ok(norm)
    }

    /// Writes the copies as a step would, but without a step: before the first step and after loading.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if the mirror has another size; [`crate::ModelError::Candle`].
    pub fn fill_mirror(&self, parameters: &mut Parameters, mirror: &mut Mirror) -> Result<()> {
        let (expected, got) = (parameters.count(), mirror.count());
        crate::ops::host::expect("optimizer", "mirror", expected, got)?;
        mirror.begin(self.step);
        #[cfg(feature = "cuda")]
        if let Some(copies) = mirror.copies() {
            return parameters
                .update_on_gpu(|values| crate::ops::cuda::optimizer::fill(values, copies));
        }
        parameters.update_all(|values| mirror.round(values))
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.step
    }
}

/// The factor on the gradient of each parameter; with LARC it depends on the parameter's Σ w² and Σ g², and scales the
/// parameter's `decay`, too, where that is a part of the step.
fn factors(
    larc: Option<(Larc, Vec<(f64, f64)>)>,
    rule: Rule,
    rates: &[f32],
    scale: f32,
    decay: &mut [f32],
) -> Vec<f32> {
    let Some((larc, sums)) = larc else {
        return vec![scale; rates.len()];
    };
    let mut factors = Vec::with_capacity(rates.len());
    for (((w, g), &rate), decay) in sums.into_iter().zip(rates).zip(decay) {
        let gradient_norm = g.sqrt() * f64::from(scale);
        let scaled_decay = if rule.shrinks() { 0.0 } else { *decay };
        let local = larc.factor(w.sqrt(), gradient_norm, scaled_decay, rate);
        if !rule.shrinks() {
            *decay *= local;
        }
        factors.push(scale * local);
    }
    factors
}

/// The weight decay of each parameter.
fn decay_of_all(config: &OptimizerConfig, places: &[Place]) -> Vec<f32> {
    let kinds = places.iter().map(|place| place.kind);
    kinds.map(|kind| config.decay_of(kind)).collect()
}

/// A step, as the rules see it.
#[derive(Debug)]
struct Step<'a> {
    config: &'a OptimizerConfig,
    /// 1 / (1 − β₁ᵗ) and 1 / (1 − β₂ᵗ), or ones without bias correction.
    unbias: (f32, f32),
    /// Learning rate, weight decay and gradient factor of each parameter.
    rates: Vec<f32>,
    decay: Vec<f32>,
    factor: Vec<f32>,
}

impl Step<'_> {
    /// Takes the step by the configured rule; returns Σ θ² of each parameter after it, for the next step of LARC.
    fn take(&self, places: &[Place], memory: Memory<'_>) -> Option<Vec<f64>> {
        let sums = match self.config.rule {
            Rule::Sgd => sweep(places, memory, &Sgd(self), Order::Backward),
            Rule::Adam | Rule::AdamW => sweep(places, memory, &Adam(self), Order::Backward),
            Rule::Lamb => {
                lamb::take(self, places, memory);
                return None;
            }
        };
        let squares = |sums: Vec<[f64; 2]>| sums.into_iter().map(|[w, _]| w).collect();
        (self.config.larc.is_some()).then(|| squares(per_parameter(places, sums)))
    }

    /// Learning rate, weight decay and gradient factor of a parameter.
    #[inline(always)]
    fn rate_decay_factor(&self, parameter: usize) -> (f32, f32, f32) {
        (
            self.rates[parameter],
            self.decay[parameter],
            self.factor[parameter],
        )
    }

    /// A kernel's result for Σ θ² of a piece's new values, if the next step of LARC needs it.
    #[inline(always)]
    fn squares(&self, values: &[f32]) -> [f64; 2] {
        match self.config.larc {
            Some(_) => [squares(values), 0.0],
            None => [0.0; 2],
        }
    }
}

#[cfg(test)]
mod tests;
