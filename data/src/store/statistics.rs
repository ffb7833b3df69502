//! Mean, spread and range of every channel, gathered in one pass and mergeable.

use crate::Variable;
use ndarray::{ArrayView1, ArrayView2};
use serde::{Deserialize, Serialize};

const LANES: usize = 8;

/// Calls `f(lane, value)` for every value, cycling through the lanes.
fn each(row: ArrayView1<'_, f32>, mut f: impl FnMut(usize, f32)) {
    match row.to_slice() {
        Some(row) => {
            let (eights, rest) = row.as_chunks::<LANES>();
            for eight in eights {
                (0..LANES).for_each(|lane| f(lane, eight[lane]));
            }
            rest.iter()
                .enumerate()
                .for_each(|(lane, &value)| f(lane, value));
        }
        None => row
            .iter()
            .enumerate()
            .for_each(|(i, &value)| f(i % LANES, value)),
    }
}

/// Statistics of one channel. Every grid value counts once (not area-weighted), as in DeepCAM's `stats.h5`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ChannelStatistics {
    /// Number of valid values.
    pub count: u64,
    /// Number of missing values, not included in `count`.
    pub missing: u64,
    /// Arithmetic mean; 0 without values.
    pub mean: f64,
    /// Sum of squared deviations from the mean.
    pub squared_deviations: f64,
    /// Minimum; 0 without values.
    pub min: f64,
    /// Maximum; 0 without values.
    pub max: f64,
}

impl ChannelStatistics {
    /// Statistics of the values of a plane; NaN and infinite values count as missing.
    pub fn of_plane(plane: ArrayView2<'_, f32>) -> Self {
        let mut total = Self::default();
        for row in plane.rows() {
            let mut part = Self::default();
            // Eight partial sums, so that the loop vectorises.
            let (mut count, mut sum) = ([0u32; LANES], [0.0f64; LANES]);
            let (mut min, mut max) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
            each(row, |lane, value| {
                let known = value.is_finite();
                count[lane] += u32::from(known);
                sum[lane] += if known { f64::from(value) } else { 0.0 };
                min[lane] = min[lane].min(if known { value } else { f32::INFINITY });
                max[lane] = max[lane].max(if known { value } else { f32::NEG_INFINITY });
            });
            part.count = count.iter().map(|&n| u64::from(n)).sum();
            part.missing = row.len() as u64 - part.count;
            if part.count > 0 {
                part.mean = sum.iter().sum::<f64>() / part.count as f64;
                let mut squares = [0.0f64; LANES];
                each(row, |lane, value| {
                    let deviation = f64::from(value) - part.mean;
                    squares[lane] += if value.is_finite() {
                        deviation * deviation
                    } else {
                        0.0
                    };
                });
                part.squared_deviations = squares.iter().sum();
                part.min = f64::from(min.into_iter().fold(f32::INFINITY, f32::min));
                part.max = f64::from(max.into_iter().fold(f32::NEG_INFINITY, f32::max));
            }
            total.merge(&part);
        }
        total
    }

    /// Merges the statistics of another part of the data.
    ///
    /// # Source
    /// Chan, Golub & LeVeque 1979, the pairwise update of means and squared deviations.
    pub fn merge(&mut self, other: &Self) {
        self.missing += other.missing;
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            let missing = self.missing;
            *self = Self { missing, ..*other };
            return;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.mean += delta * m / (n + m);
        self.squared_deviations += other.squared_deviations + delta * delta * n * m / (n + m);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Population standard deviation; 0 without values.
    pub fn std(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        (self.squared_deviations / self.count as f64).sqrt()
    }
}

/// [`ChannelStatistics`] of every channel of a store, over its training samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// The variable of each entry of `channels`.
    pub variables: Vec<Variable>,
    /// In store order.
    pub channels: Vec<ChannelStatistics>,
    /// Number of samples that they cover.
    pub samples: u64,
}

impl Statistics {
    /// Statistics of no samples.
    pub fn empty(variables: &[Variable]) -> Self {
        Self {
            variables: variables.to_vec(),
            channels: vec![ChannelStatistics::default(); variables.len()],
            samples: 0,
        }
    }

    /// Merges the statistics of other samples with the same channels.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.variables, other.variables);
        self.samples += other.samples;
        for (channel, other) in self.channels.iter_mut().zip(&other.channels) {
            channel.merge(other);
        }
    }

    /// The statistics of one channel, if present.
    pub fn channel(&self, variable: Variable) -> Option<&ChannelStatistics> {
        let index = self.variables.iter().position(|&v| v == variable)?;
        self.channels.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;
    use approx::assert_relative_eq;
    use ndarray::Array2;
    use rand::Rng;

    #[test]
    fn merged_parts_equal_two_passes_over_everything() {
        let mut random = stream(1, "statistics", &[]);
        // Pressure-like: the mean is large against the spread, where a sum of squares would lose digits.
        let planes: Vec<Array2<f32>> = (0..7)
            .map(|_| Array2::from_shape_fn((5, 11), |_| 101_325.0 + random.random_range(-9.0..9.0)))
            .collect();
        let mut merged = ChannelStatistics::default();
        for plane in &planes {
            merged.merge(&ChannelStatistics::of_plane(plane.view()));
        }
        let all: Vec<f64> = planes.iter().flatten().map(|&v| f64::from(v)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / all.len() as f64;
        assert_eq!(merged.count, 385);
        assert_relative_eq!(merged.mean, mean, max_relative = 1e-14);
        assert_relative_eq!(merged.std(), variance.sqrt(), max_relative = 1e-10);
        assert_eq!(
            merged.min,
            all.iter().copied().fold(f64::INFINITY, f64::min)
        );
        assert_eq!(merged.max, all.iter().copied().fold(0.0, f64::max));
    }

    #[test]
    fn missing_values_are_counted_and_do_not_spread() {
        let plane = ndarray::array![[f32::NAN, 1.0], [f32::INFINITY, 3.0], [f32::NAN, f32::NAN]];
        let statistics = ChannelStatistics::of_plane(plane.view());
        assert_eq!((statistics.count, statistics.missing), (2, 4));
        assert_eq!((statistics.mean, statistics.std()), (2.0, 1.0));
        assert_eq!((statistics.min, statistics.max), (1.0, 3.0));
    }
}
