//! Histograms with fixed edges, comparable between runs.

use serde::{Deserialize, Serialize};

/// Counts between edges; values outside are counted separately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Ascending edges; bin `k` is `edges[k] <= value < edges[k + 1]`.
    pub edges: Vec<f64>,
    /// Counts of the bins, one fewer than edges.
    pub counts: Vec<u64>,
    /// Values below the first edge.
    pub below: u64,
    /// Values at or above the last edge.
    pub above: u64,
}

impl Histogram {
    /// Creates `bins` bins of equal width from `first`.
    pub fn even(first: f64, width: f64, bins: usize) -> Self {
        Self {
            edges: (0..=bins).map(|k| first + width * k as f64).collect(),
            counts: vec![0; bins],
            below: 0,
            above: 0,
        }
    }

    /// Adds a value; NaN is ignored.
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        match self.edges.partition_point(|&edge| edge <= value) {
            0 => self.below += 1,
            k if k > self.counts.len() => self.above += 1,
            k => self.counts[k - 1] += 1,
        }
    }

    /// Number of values counted.
    pub fn total(&self) -> u64 {
        self.below + self.above + self.counts.iter().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_belong_to_the_bin_above() {
        let mut histogram = Histogram::even(0.0, 12.0, 3);
        for value in [-0.1, 0.0, 11.9, 12.0, 35.9, 36.0, f64::NAN, f64::INFINITY] {
            histogram.add(value);
        }
        assert_eq!(histogram.counts, [2, 1, 1]);
        assert_eq!(
            (histogram.below, histogram.above, histogram.total()),
            (1, 2, 7)
        );
    }
}
