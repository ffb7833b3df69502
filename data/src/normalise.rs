//! Normalisation: scales every channel from SI units to numbers around 0, or in [0, 1], for a network.

use crate::Variable;
use crate::error::{DataError, Result};
use crate::store::{Statistics, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How values are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormalisationMethod {
    /// (x - mean) / standard deviation.
    #[default]
    MeanStd,
    /// (x - min) / (max - min), in [0, 1], as in DeepCAM.
    MinMax,
}

/// The normalisation of one channel: `(x - subtract) / divide`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelScale {
    /// The variable that it applies to.
    pub variable: Variable,
    /// Subtracted first, in the variable's SI unit.
    pub subtract: f64,
    /// Divisor; never 0.
    pub divide: f64,
    /// Substitute for missing values before normalisation: the mean.
    pub missing: f64,
}

impl ChannelScale {
    /// A normalisation that only replaces missing values by the mean.
    pub fn identity(variable: Variable, mean: f64) -> Self {
        Self {
            variable,
            subtract: 0.0,
            divide: 1.0,
            missing: mean,
        }
    }

    /// Substitute for missing values after normalisation: 0 for [`NormalisationMethod::MeanStd`].
    pub fn fill(&self) -> f32 {
        ((self.missing - self.subtract) / self.divide) as f32
    }
}

/// Factors that normalise stored values, channel by channel: `(x - subtract) * factor`, or `fill` if that is NaN.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChannelFactors {
    /// Subtracted first.
    pub subtract: Vec<f32>,
    /// Multiplied next.
    pub factor: Vec<f32>,
    /// Substitute for missing values, after normalisation.
    pub fill: Vec<f32>,
}

/// The normalisation of all channels of a model, in its channel order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalisation {
    /// The method that produced it.
    pub method: NormalisationMethod,
    /// One per channel.
    pub channels: Vec<ChannelScale>,
}

impl Normalisation {
    /// Derives the normalisation from statistics of the training data. A channel that is constant there is only
    /// shifted.
    ///
    /// # Errors
    /// [`DataError::Invalid`] naming a channel without values.
    pub fn from_statistics(method: NormalisationMethod, statistics: &Statistics) -> Result<Self> {
        let scales = statistics.variables.iter().zip(&statistics.channels);
        if let Some((variable, _)) = scales.clone().find(|(_, channel)| channel.count == 0) {
            return Err(DataError::Invalid(format!(
                "no normalisation for channel {variable}: {} training samples with no value of it",
                statistics.samples
            )));
        }
        let channels = scales.map(|(&variable, channel)| {
            let (subtract, divide) = match method {
                NormalisationMethod::MeanStd => (channel.mean, channel.std()),
                NormalisationMethod::MinMax => (channel.min, channel.max - channel.min),
            };
            // Rounding alone gives a constant field a relative spread of about 1e-7.
            let usable = divide > 1e-7 * channel.mean.abs() && divide > 0.0;
            ChannelScale {
                variable,
                subtract,
                divide: if usable { divide } else { 1.0 },
                missing: channel.mean,
            }
        });
        Ok(Self {
            method,
            channels: channels.collect(),
        })
    }

    /// The variables, in channel order.
    pub fn variables(&self) -> Vec<Variable> {
        self.channels.iter().map(|c| c.variable).collect()
    }

    /// The normalisation of some channels, in the requested order.
    ///
    /// # Errors
    /// [`DataError::Invalid`] naming a missing channel.
    pub fn select(&self, variables: &[Variable]) -> Result<Self> {
        let find = |variable: &Variable| {
            let found = self.channels.iter().find(|c| c.variable == *variable);
            found.copied().ok_or_else(|| {
                DataError::Invalid(format!(
                    "the normalisation has no channel {variable} (it has {})",
                    names(&self.variables())
                ))
            })
        };
        Ok(Self {
            method: self.method,
            channels: variables.iter().map(find).collect::<Result<_>>()?,
        })
    }

    /// The factors that [`Self::apply`] uses.
    pub fn factors(&self) -> ChannelFactors {
        let of = |get: &dyn Fn(&ChannelScale) -> f32| self.channels.iter().map(get).collect();
        ChannelFactors {
            subtract: of(&|c| c.subtract as f32),
            factor: of(&|c| (1.0 / c.divide) as f32),
            fill: of(&ChannelScale::fill),
        }
    }

    /// Normalises whole pixels `(..., channel)` in place; NaN becomes the normalised mean. Returns the number of NaN
    /// values.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if the length is not a multiple of the number of channels.
    pub fn apply(&self, pixels: &mut [f32]) -> Result<usize> {
        let channels = self.channels.len();
        if channels == 0 || !pixels.len().is_multiple_of(channels) {
            return Err(DataError::Invalid(format!(
                "normalisation: {} values are not whole pixels of {channels} channels",
                pixels.len()
            )));
        }
        let ChannelFactors {
            subtract,
            factor,
            fill,
        } = self.factors();
        let mut missing = 0;
        for pixel in pixels.chunks_exact_mut(channels) {
            let scales = subtract.iter().zip(&factor).zip(&fill);
            for (x, ((subtract, factor), fill)) in pixel.iter_mut().zip(scales) {
                let value = (*x - subtract) * factor;
                let nan = value.is_nan();
                missing += usize::from(nan);
                *x = if nan { *fill } else { value };
            }
        }
        Ok(missing)
    }

    /// SHA-256 (hexadecimal) of method, channels and factors (as f32, as they are applied to data).
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update([self.method as u8]);
        for channel in &self.channels {
            hasher.update(channel.variable.name());
            hasher.update([0]);
            for number in [channel.subtract, channel.divide, channel.missing] {
                hasher.update((number as f32).to_le_bytes());
            }
        }
        hex(&hasher.finalize())
    }
}

pub(crate) fn names(variables: &[Variable]) -> String {
    let names: Vec<&str> = variables.iter().map(|v| v.name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ChannelStatistics;

    fn statistics() -> Statistics {
        let channel = |mean: f64, spread: f64, min, max| ChannelStatistics {
            count: 4,
            mean,
            squared_deviations: 4.0 * spread * spread,
            min,
            max,
            ..ChannelStatistics::default()
        };
        Statistics {
            variables: vec![Variable::Psl, Variable::Tmq, Variable::Zbot],
            channels: vec![
                channel(101_000.0, 1000.0, 95_000.0, 105_000.0),
                channel(20.0, 10.0, 0.0, 80.0),
                channel(60.0, 0.0, 60.0, 60.0),
            ],
            samples: 1,
        }
    }

    #[test]
    fn values_and_missing_values_follow_the_formulas() {
        let normalisation =
            Normalisation::from_statistics(NormalisationMethod::MeanStd, &statistics()).unwrap();
        let mut pixels = [102_000.0, 25.0, 61.0, f32::NAN, f32::NAN, 60.0];
        assert_eq!(normalisation.apply(&mut pixels).unwrap(), 2);
        assert_eq!(pixels, [1.0, 0.5, 1.0, 0.0, 0.0, 0.0]);
        let normalisation =
            Normalisation::from_statistics(NormalisationMethod::MinMax, &statistics()).unwrap();
        let mut pixels = [105_000.0, 40.0, 60.0, f32::NAN, f32::NAN, f32::NAN];
        assert_eq!(normalisation.apply(&mut pixels).unwrap(), 3);
        for (found, expected) in pixels.iter().zip([1.0, 0.5, 0.0, 0.6, 0.25, 0.0]) {
            assert!(
                (found - expected).abs() < 1e-6,
                "{found} instead of {expected}"
            );
        }
        assert!(normalisation.apply(&mut [0.0; 4]).is_err());
        let mut unseen = statistics();
        unseen.channels[1].count = 0;
        let error = Normalisation::from_statistics(NormalisationMethod::MeanStd, &unseen);
        assert!(error.unwrap_err().to_string().contains("TMQ"));
    }

    #[test]
    fn selection_reorders_and_the_hash_notices() {
        let all =
            Normalisation::from_statistics(NormalisationMethod::MeanStd, &statistics()).unwrap();
        let some = all.select(&[Variable::Tmq, Variable::Psl]).unwrap();
        assert_eq!(some.channels, [all.channels[1], all.channels[0]]);
        assert_ne!(some.hash(), all.hash());
        assert!(
            all.select(&[Variable::U850])
                .unwrap_err()
                .to_string()
                .contains("U850")
        );
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(
            serde_json::from_str::<Normalisation>(&text).unwrap().hash(),
            all.hash()
        );
        let changes: [fn(&mut Normalisation); 5] = [
            |other| other.method = NormalisationMethod::MinMax,
            |other| other.channels[0].variable = Variable::Ps,
            |other| other.channels[0].subtract += 100.0,
            |other| other.channels[0].divide = 1001.0,
            |other| other.channels[2].missing += 1.0,
        ];
        for (which, change) in changes.iter().enumerate() {
            let mut other = all.clone();
            change(&mut other);
            assert_ne!(other.hash(), all.hash(), "{which}");
        }
    }

    /// The spread that f32 leaves of a constant pressure: divided by it, noise would be a signal.
    #[test]
    fn a_spread_of_rounding_is_none() {
        let mut statistics = statistics();
        let divides = |statistics: &Statistics| {
            let made = Normalisation::from_statistics(NormalisationMethod::MeanStd, statistics);
            made.unwrap().channels[0].divide
        };
        for (spread, expected) in [(0.005, 1.0), (0.05, 0.05)] {
            statistics.channels[0].squared_deviations = 4.0 * spread * spread;
            let found = divides(&statistics);
            assert!((found - expected).abs() < 1e-9, "{spread}: {found}");
        }
    }
}
