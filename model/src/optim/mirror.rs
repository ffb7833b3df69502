//! bf16 copies of the parameters, written by the optimiser while the new values are in cache.

use crate::error::Result;
use crate::ops::value::Value;
use crate::parameters::Parameters;
#[cfg(feature = "cuda")]
use candle_core::Tensor;
use half::bf16;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How an f32 is rounded to bf16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rounding {
    /// To nearest, ties to even.
    #[default]
    Nearest,
    /// Up or down with probabilities that preserve the expectation, so that small updates are not always lost.
    ///
    /// # Source
    /// Gupta et al. 2015 (arXiv:1502.02551).
    Stochastic {
        /// The random bits are a function of this seed, the step and the value's index.
        seed: u64,
    },
}

/// All parameters in bf16, in flat order, on the parameters' device.
#[derive(Debug)]
pub struct Mirror {
    /// The values in host memory; empty if the parameters lie on a GPU.
    values: Vec<bf16>,
    /// The values on a GPU, stored as f32 but exactly representable in bf16.
    #[cfg(feature = "cuda")]
    on_gpu: Option<Tensor>,
    rounding: Rounding,
    /// The step count of the optimiser that writes the mirror.
    step: u64,
}

impl Mirror {
    /// Zeros for these parameters, to be written by the first step.
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if the GPU that holds the parameters is out of memory.
    pub fn new(parameters: &Parameters, rounding: Rounding) -> Result<Self> {
        let count = parameters.count();
        #[cfg(feature = "cuda")]
        let on_gpu = match parameters.is_on_gpu() {
            true => Some(crate::ops::cuda::zeros(&[count], candle_core::DType::F32)?),
            false => None,
        };
        let in_host_memory = if parameters.is_on_gpu() { 0 } else { count };
        Ok(Self {
            values: vec![bf16::ZERO; in_host_memory],
            #[cfg(feature = "cuda")]
            on_gpu,
            rounding,
            step: 0,
        })
    }

    /// All values, in the order of [`crate::parameters::Parameter::range`].
    ///
    /// # Errors
    /// [`crate::ModelError::Gpu`] if they cannot be read.
    pub fn values(&self) -> Result<Cow<'_, [bf16]>> {
        #[cfg(feature = "cuda")]
        if let Some(copies) = &self.on_gpu {
            let values: Vec<f32> = crate::ops::cuda::read(copies)?;
            return Ok(values.into_iter().map(bf16::from_f32).collect());
        }
        Ok(Cow::Borrowed(&self.values))
    }

    /// The number of values.
    pub fn count(&self) -> usize {
        #[cfg(feature = "cuda")]
        if let Some(copies) = &self.on_gpu {
            return copies.elem_count();
        }
        self.values.len()
    }

    /// The values, of parameters in host memory.
    pub(crate) fn in_host_memory(&self) -> &[bf16] {
        &self.values
    }

    /// Rounds all values.
    pub(super) fn round(&mut self, values: &[f32]) {
        self.whole().round(0, values);
    }

    pub(super) fn begin(&mut self, step: u64) {
        self.step = step;
    }

    /// The key of the random bits, for stochastic rounding.
    fn key(&self) -> Option<u64> {
        match self.rounding {
            Rounding::Nearest => None,
            Rounding::Stochastic { seed } => Some(mix(seed ^ mix(self.step))),
        }
    }

    /// The whole mirror as one stripe.
    pub(super) fn whole(&mut self) -> Stripe<'_> {
        let key = self.key();
        Stripe {
            start: 0,
            values: &mut self.values,
            key,
        }
    }

    /// The values on the GPU, of parameters that lie there.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_gpu(&self) -> Option<&Tensor> {
        self.on_gpu.as_ref()
    }

    /// The destination and rounding for an optimiser that runs on the GPU.
    #[cfg(feature = "cuda")]
    pub(super) fn copies(&self) -> Option<crate::ops::cuda::optimizer::Copies<'_>> {
        let to = self.on_gpu.as_ref()?;
        let key = self.key();
        Some(crate::ops::cuda::optimizer::Copies { to, key })
    }
}

/// A contiguous part of a mirror.
#[derive(Debug)]
pub(super) struct Stripe<'a> {
    start: usize,
    values: &'a mut [bf16],
    key: Option<u64>,
}

impl Stripe<'_> {
    /// Splits off the first `length` values.
    pub(super) fn split_at(self, length: usize) -> (Self, Self) {
        let (values, others) = self.values.split_at_mut(length);
        let tail = Self {
            start: self.start + length,
            values: others,
            key: self.key,
        };
        (Self { values, ..self }, tail)
    }

    /// Rounds new values into the positions from `at` on.
    #[inline(always)]
    pub(super) fn round(&mut self, at: usize, values: &[f32]) {
        let halves = &mut self.values[at..at + values.len()];
        match self.key {
            None => {
                for (half, &value) in halves.iter_mut().zip(values) {
                    *half = bf16::narrow(value);
                }
            }
            Some(key) => {
                let start = self.start + at;
                // One hash supplies the random bits of an aligned group of four values; this range may start inside a
                // group.
                let missing = (start.next_multiple_of(4) - start).min(values.len());
                let (head, halves) = halves.split_at_mut(missing);
                let (first, values) = values.split_at(missing);
                stochastic_group(head, first, mix_of(key, start) >> (16 * (start % 4)));
                let groups = halves.chunks_mut(4).zip(values.chunks(4));
                for (group, (halves, values)) in groups.enumerate() {
                    let random = mix_of(key, start + missing + 4 * group);
                    stochastic_group(halves, values, random);
                }
            }
        }
    }
}

/// The random bits of the aligned group of four values that contains index `at`.
#[inline(always)]
fn mix_of(key: u64, at: usize) -> u64 {
    mix(key.wrapping_add((at / 4) as u64))
}

#[inline(always)]
fn stochastic_group(halves: &mut [bf16], values: &[f32], random: u64) {
    for (lane, (half, &value)) in halves.iter_mut().zip(values).enumerate() {
        *half = stochastic(value, (random >> (16 * lane)) as u16);
    }
}

/// Adds `random` below the last kept bit and truncates: rounds away from zero with a probability equal to the truncated
/// fraction.
#[inline(always)]
fn stochastic(value: f32, random: u16) -> bf16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(u32::from(random)) >> 16) as u16;
    if value.is_finite() {
        bf16::from_bits(rounded)
    } else {
        bf16::narrow(value)
    }
}

/// The finaliser of SplitMix64 (Steele et al. 2014): every bit of the input changes half of the bits of the output.
#[inline(always)]
fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Kind;
    use proptest::prelude::*;

    fn rounded(values: &[f32], rounding: Rounding, step: u64, length: usize) -> Vec<bf16> {
        let mut parameters = Parameters::new(1);
        let name = "values".to_string();
        (parameters.vector(name, Kind::Bias, values.len(), 0.0)).expect("a vector");
        let mut mirror = Mirror::new(&parameters, rounding).expect("in host memory");
        mirror.begin(step);
        for (index, part) in values.chunks(length).enumerate() {
            mirror.whole().round(index * length, part);
        }
        mirror.values
    }

    proptest! {
        #[test]
        fn stochastic_takes_a_neighbour(value in -1e30f32..1e30, random: u16) {
            let got = stochastic(value, random).to_f32();
            let down = f32::from_bits(value.to_bits() & 0xffff_0000);
            let up = f32::from_bits((value.to_bits() & 0xffff_0000).wrapping_add(0x1_0000));
            prop_assert!(got == down || got == up && value != down, "{} to {}", value, got);
        }
    }

    #[test]
    fn stochastic_rounding_has_no_bias() {
        // 1 + 0.3 of the distance 2^-7 between neighbours: 30 % go up.
        let gap = 2f32.powi(-7);
        for (value, share) in [(1.0 + 0.3 * gap, 0.3), (-1.0 - 0.9 * gap, 0.9), (1.0, 0.0)] {
            let count = 200_000;
            let halves = rounded(
                &vec![value; count],
                Rounding::Stochastic { seed: 7 },
                3,
                1 << 14,
            );
            let away = halves.iter().filter(|h| h.to_f32().abs() > 1.0).count();
            let found = away as f64 / count as f64;
            // Four standard deviations of a share of 200,000 draws are below 0.0042.
            assert!(
                (found - share).abs() < 0.0042,
                "{value}: {found} instead of {share}"
            );
            let mean = halves.iter().map(|h| f64::from(h.to_f32())).sum::<f64>() / count as f64;
            assert!(
                (mean - f64::from(value)).abs() < 0.0042 * f64::from(gap),
                "{mean}"
            );
        }
    }

    #[test]
    fn random_bits_follow_from_seed_step_and_place() {
        let values: Vec<f32> = (0..5000).map(|i| 1.0 + i as f32 * 1e-4).collect();
        let bits = |seed, step, length| {
            let halves = rounded(&values, Rounding::Stochastic { seed }, step, length);
            halves.iter().map(|h| h.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(1, 1, 64), bits(1, 1, 1024));
        assert_eq!(bits(1, 1, 64), bits(1, 1, 7));
        assert_ne!(bits(1, 1, 64), bits(2, 1, 64));
        assert_ne!(bits(1, 1, 64), bits(1, 2, 64));
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
        let kept = rounded(&odd, Rounding::Stochastic { seed: 1 }, 1, 8);
        assert!(kept[0].is_nan());
        assert_eq!(
            kept[1..].iter().map(|h| h.to_f32()).collect::<Vec<_>>(),
            odd[1..]
        );
    }
}
