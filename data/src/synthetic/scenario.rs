//! The climates that can be simulated, and by how much they differ.

use serde::{Deserialize, Serialize};

/// What sets one climate apart from another. The changes of [`Scenario::PLUS_2K`] are known, so that the chain from
/// fields to statistics can be tested as a perfect-model experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Warming of the surface, K.
    pub warming_k: f64,
    /// Column water relative to the present: 7 % per kelvin (Clausius-Clapeyron).
    pub moisture: f64,
    /// Number of tropical cyclones relative to the present.
    pub cyclone_count: f64,
    /// Central pressure deficit relative to the present; winds go as its root.
    pub cyclone_deficit: f64,
    /// Rain rate of tropical cyclones relative to the present.
    pub cyclone_rain: f64,
    /// Share of extratropical cyclones with a river, relative to the present.
    pub river_count: f64,
}

impl Scenario {
    /// The climate of today.
    pub const PRESENT: Self = Self {
        name: "present",
        warming_k: 0.0,
        moisture: 1.0,
        cyclone_count: 1.0,
        cyclone_deficit: 1.0,
        cyclone_rain: 1.0,
        river_count: 1.0,
    };

    /// Two degrees warmer: fewer cyclones (-10 %) with stronger winds (+5 %) and more rain (+14 %), more rivers
    /// (+20 %).
    ///
    /// # Source
    /// Knutson et al. 2020 (BAMS 101, E303): medians of wind and rain for +2 K; moisture by Clausius-Clapeyron. How many
    /// storms there are is our choice; most models that the paper has give fewer cyclones.
    pub const PLUS_2K: Self = Self {
        name: "plus2k",
        warming_k: 2.0,
        moisture: 1.14,
        cyclone_count: 0.9,
        cyclone_deficit: 1.05 * 1.05,
        cyclone_rain: 1.14,
        river_count: 1.2,
    };

    /// Rain rate of a tropical cyclone relative to one of the present with the same deficit: a vortex rains in proportion
    /// to its deficit, which has a change of its own.
    pub(super) fn rain_of_a_deficit(&self) -> f64 {
        self.cyclone_rain / self.cyclone_deficit
    }
}

impl std::str::FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "present" => Ok(Self::PRESENT),
            "plus2k" => Ok(Self::PLUS_2K),
            other => Err(format!("expected `present` or `plus2k`, found `{other}`")),
        }
    }
}
