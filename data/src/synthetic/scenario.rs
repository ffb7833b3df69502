//! Climate scenarios that can be simulated, and their differences.

use serde::{Deserialize, Serialize};

/// A climate scenario. The changes of [`Scenario::PLUS_2K`] are known, so that the chain from fields to statistics can
/// be tested as a perfect-model experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Warming of the surface, K.
    pub warming_k: f64,
    /// Ratio of column water to the present: 7 % per kelvin (Clausius-Clapeyron).
    pub moisture: f64,
    /// Ratio of the number of tropical cyclones to the present.
    pub cyclone_count: f64,
    /// Ratio of the central pressure deficit to the present; winds scale with its square root.
    pub cyclone_deficit: f64,
    /// Ratio of the rain rate of tropical cyclones to the present.
    pub cyclone_rain: f64,
    /// Ratio of the share of extratropical cyclones with a river to the present.
    pub river_count: f64,
}

impl Scenario {
    /// The present climate.
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
    /// Knutson et al. 2020 (BAMS 101, E303): medians of wind and rain for +2 K; moisture by Clausius-Clapeyron. The
    /// number of storms is our choice; most models in the paper give fewer cyclones.
    pub const PLUS_2K: Self = Self {
        name: "plus2k",
        warming_k: 2.0,
        moisture: 1.14,
        cyclone_count: 0.9,
        cyclone_deficit: 1.05 * 1.05,
        cyclone_rain: 1.14,
        river_count: 1.2,
    };

    /// Ratio of a tropical cyclone's rain rate to that of a present one with the same deficit. A vortex's rain is
    /// proportional to its deficit, whose change is separate.
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
