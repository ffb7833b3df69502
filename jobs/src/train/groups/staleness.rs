//! Staleness: how old parameters are when a gradient computed from them arrives.

use serde::{Deserialize, Serialize};

/// Number of histogram bins; the last one is open-ended.
const CLASSES: usize = 64;

/// Updates by other groups between a group's reading of parameters and its own update, over many updates.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StalenessSummary {
    /// Number of updates on all servers.
    pub updates: u64,
    /// Mean staleness.
    pub mean: f64,
    /// Maximum staleness.
    pub max: u64,
    /// Number of updates with staleness 0, 1, 2, ...; the 64th bin counts 63 or more.
    pub histogram: Vec<u64>,
}

impl StalenessSummary {
    /// Counts an update.
    pub fn count(&mut self, staleness: u64) {
        self.updates += 1;
        self.mean += (staleness as f64 - self.mean) / self.updates as f64;
        self.max = self.max.max(staleness);
        let class = (staleness as usize).min(CLASSES - 1);
        if self.histogram.len() <= class {
            self.histogram.resize(class + 1, 0);
        }
        self.histogram[class] += 1;
    }

    /// Merges the counts of another server.
    pub fn add(&mut self, other: &Self) {
        let (a, b) = (self.updates as f64, other.updates as f64);
        if a + b > 0.0 {
            self.mean = (self.mean * a + other.mean * b) / (a + b);
        }
        self.updates += other.updates;
        self.max = self.max.max(other.max);
        let classes = self.histogram.len().max(other.histogram.len());
        self.histogram.resize(classes, 0);
        let pairs = self.histogram.iter_mut().zip(&other.histogram);
        pairs.for_each(|(count, more)| *count += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_hand() {
        let mut one = StalenessSummary::default();
        [0, 3, 3, 100].into_iter().for_each(|s| one.count(s));
        assert_eq!((one.updates, one.max), (4, 100));
        assert!((one.mean - 26.5).abs() < 1e-12);
        assert_eq!((one.histogram[3], one.histogram[63]), (2, 1));
        let mut other = StalenessSummary::default();
        other.count(1);
        other.add(&one);
        assert!((other.mean - 107.0 / 5.0).abs() < 1e-12 && other.histogram[1] == 1);
        assert_eq!(other.histogram.iter().sum::<u64>(), 5);
        one.add(&StalenessSummary::default());
        assert_eq!(one.updates, 4);
    }
}
