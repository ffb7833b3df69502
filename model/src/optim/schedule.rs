//! The learning rate as a function of the step.

use crate::error::{ModelError, Result};
use serde::{Deserialize, Serialize};

/// How the rate falls after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decay {
    /// Not at all.
    Constant,
    /// (1 − t)^power.
    Poly,
    /// Half a cosine.
    Cosine,
    /// By `factor` at every milestone.
    Multistep,
}

/// A learning-rate schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    /// The rate after the warm-up.
    pub rate: f32,
    /// How it falls.
    pub decay: Decay,
    /// Steps over which the rate rises linearly.
    pub warmup_steps: u64,
    /// The share of `rate` that the warm-up starts from.
    pub warmup_start: f32,
    /// The share of `rate` that poly and cosine end at.
    pub end: f32,
    /// Exponent of poly.
    pub power: f32,
    /// Steps at which multistep falls.
    pub milestones: Vec<u64>,
    /// What multistep multiplies by.
    pub factor: f32,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            rate: 1e-3,
            decay: Decay::Cosine,
            warmup_steps: 0,
            warmup_start: 0.0,
            end: 0.0,
            power: 0.9,
            milestones: Vec::new(),
            factor: 0.1,
        }
    }
}

impl Schedule {
    /// The rate of step `step` (from 0) of `total`.
    pub fn rate(&self, step: u64, total: u64) -> f32 {
        if step < self.warmup_steps {
            let part = (step + 1) as f32 / self.warmup_steps as f32;
            return self.rate * (self.warmup_start + (1.0 - self.warmup_start) * part);
        }
        let length = total.saturating_sub(self.warmup_steps).max(1);
        let t = ((step - self.warmup_steps) as f64 / length as f64).min(1.0) as f32;
        let share = match self.decay {
            Decay::Constant => 1.0,
            Decay::Poly => self.end + (1.0 - self.end) * (1.0 - t).powf(self.power),
            Decay::Cosine => {
                self.end + (1.0 - self.end) * 0.5 * (1.0 + (std::f32::consts::PI * t).cos())
            }
            Decay::Multistep => {
                let passed = self.milestones.iter().filter(|&&m| step >= m).count();
                self.factor.powi(passed as i32)
            }
        };
        self.rate * share
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`ModelError::Config`] naming the key.
    pub fn check(&self) -> Result<()> {
        let bad = |key, expected: &str, found: f32| {
            let reason = format!("expected {expected}, found {found}");
            Err(ModelError::Config { key, reason })
        };
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return bad("rate", "above 0", self.rate);
        }
        for (key, value) in [("warmup_start", self.warmup_start), ("end", self.end)] {
            if !(0.0..=1.0).contains(&value) {
                return bad(key, "0 to 1", value);
            }
        }
        if self.power.is_nan() || self.power < 0.0 {
            return bad("power", "0 or more", self.power);
        }
        if !(self.factor > 0.0 && self.factor <= 1.0) {
            return bad("factor", "above 0, at most 1", self.factor);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_and_milestones() {
        let cosine = Schedule {
            rate: 2.0,
            warmup_steps: 10,
            ..Schedule::default()
        };
        assert_eq!(cosine.rate(9, 110), 2.0);
        assert_eq!(cosine.rate(10, 110), 2.0);
        assert!((cosine.rate(60, 110) - 1.0).abs() < 1e-6);
        assert!(cosine.rate(110, 110) < 1e-6);
        let steps = Schedule {
            decay: Decay::Multistep,
            milestones: vec![5, 8],
            ..Schedule::default()
        };
        let rates: Vec<f32> = [4, 5, 8]
            .map(|step| steps.rate(step, 10) / steps.rate)
            .to_vec();
        assert_eq!(rates, [1.0, 0.1, 0.1 * 0.1]);
    }

    proptest! {
        #[test]
        fn rises_then_never_rises(warmup in 0u64..50, total in 60u64..500, poly: bool) {
            let decay = if poly { Decay::Poly } else { Decay::Cosine };
            let schedule = Schedule { decay, warmup_steps: warmup, ..Schedule::default() };
            let rates: Vec<f32> = (0..total).map(|step| schedule.rate(step, total)).collect();
            let (up, down) = rates.split_at(warmup as usize);
            prop_assert!(up.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(down.windows(2).all(|pair| pair[0] >= pair[1]));
            prop_assert!(rates.iter().all(|&rate| (0.0..=schedule.rate).contains(&rate)));
        }
    }
}
