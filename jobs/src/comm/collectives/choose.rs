//! Selects the algorithm of a sum by its length and the number of ranks, never by timing, which would vary between
//! runs.

use serde::{Deserialize, Serialize};

/// How vectors are summed over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// [`ring`](super::ring): least traffic.
    Ring,
    /// [`halving`](super::halving): fewest messages.
    Halving,
}

/// The requested algorithm.
///
/// The bits of a sum depend on the algorithm: name one explicitly to keep them when bucket lengths or the number of
/// ranks change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// The cheaper one by [`Link::cheaper`].
    #[default]
    Auto,
    /// Always a ring.
    Ring,
    /// Always halving and doubling.
    Halving,
}

impl Choice {
    /// The algorithm for this many bytes and ranks over a default link.
    #[must_use]
    pub fn resolve(self, bytes: usize, ranks: usize) -> Algorithm {
        match self {
            Self::Auto => Link::default().cheaper(bytes, ranks),
            Self::Ring => Algorithm::Ring,
            Self::Halving => Algorithm::Halving,
        }
    }

    /// The name in a recipe.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ring => "ring",
            Self::Halving => "halving",
        }
    }
}

/// The cost of a message: latency and bandwidth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Latency in microseconds.
    pub latency_us: f64,
    /// Bytes per microsecond.
    pub bytes_per_us: f64,
}

impl Default for Link {
    /// A typical cluster network: 2 µs, 10 GB/s.
    fn default() -> Self {
        Self {
            latency_us: 2.0,
            bytes_per_us: 10_000.0,
        }
    }
}

impl Link {
    /// Time of an all-reduce in microseconds, without the additions.
    ///
    /// A ring sends 2 (P - 1) messages of 1/P. Halving and doubling send 2 log2 P messages with the same total; if P is
    /// not a power of two, one full-length message each way is added.
    ///
    /// # Source
    /// Thakur, Rabenseifner & Gropp 2005, doi:10.1177/1094342005051521, sections 4.4 and 4.5.
    #[must_use]
    pub fn time_us(&self, algorithm: Algorithm, bytes: usize, ranks: usize) -> f64 {
        if ranks < 2 {
            return 0.0;
        }
        let whole = bytes as f64 / self.bytes_per_us;
        match algorithm {
            Algorithm::Ring => {
                let steps = 2.0 * (ranks as f64 - 1.0);
                steps * (self.latency_us + whole / ranks as f64)
            }
            Algorithm::Halving => {
                let seats = 1_u64 << ranks.ilog2();
                let steps = 2.0 * f64::from(ranks.ilog2());
                let folds = if ranks.is_power_of_two() { 0.0 } else { 2.0 };
                let shares = 2.0 * (1.0 - 1.0 / seats as f64);
                (steps + folds) * self.latency_us + (shares + folds) * whole
            }
        }
    }

    /// The faster algorithm; a ring if both take equally long.
    ///
    /// Halving must be predicted to be twice as fast: its exchanges between distant ranks share links, which the
    /// formula ignores (over TCP they reached half the rate of a ring).
    #[must_use]
    pub fn cheaper(&self, bytes: usize, ranks: usize) -> Algorithm {
        let time = |algorithm| self.time_us(algorithm, bytes, ranks);
        if 2.0 * time(Algorithm::Halving) < time(Algorithm::Ring) {
            Algorithm::Halving
        } else {
            Algorithm::Ring
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_vectors_go_by_ring_and_short_ones_between_many_by_halving() {
        let check = |bytes, ranks, expected| {
            let found = Choice::Auto.resolve(bytes, ranks);
            assert_eq!(found, expected, "{bytes} bytes, {ranks} ranks");
        };
        check(172 << 20, 8, Algorithm::Ring);
        check(172 << 20, 2, Algorithm::Ring);
        check(4 << 20, 64, Algorithm::Ring);
        check(4096, 64, Algorithm::Halving);
        check(4 << 20, 4096, Algorithm::Halving);
        check(4, 1, Algorithm::Ring);
        assert_eq!(Choice::Ring.resolve(4, 4096), Algorithm::Ring);
        assert_eq!(Choice::Halving.resolve(172 << 20, 2), Algorithm::Halving);
    }

    /// 4560 nodes of Summit, a leader's quarter of 43 M values: 18 ms of latency alone make a ring the wrong choice.
    #[test]
    fn the_ring_between_all_nodes_of_summit_is_bound_by_latency() {
        let link = Link::default();
        let ring = link.time_us(Algorithm::Ring, 43 << 20, 4560);
        let latency = 2.0 * 4559.0 * 2.0;
        assert!(ring > latency && latency > 0.5 * ring, "{ring} us");
        assert!(link.time_us(Algorithm::Halving, 43 << 20, 4560) < ring);
    }

    #[test]
    fn names_are_those_of_recipes() {
        for choice in [Choice::Auto, Choice::Ring, Choice::Halving] {
            let text = serde_json::to_string(&choice).unwrap();
            assert_eq!(text, format!("\"{}\"", choice.name()));
        }
    }
}
