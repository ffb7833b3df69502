//! The thresholds of the percentile detector, with units and sources.

use crate::error::Result;
use crate::label::{check_numbers, invalid_threshold};
use serde::{Deserialize, Serialize};

/// The field whose percentiles define a river.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moisture {
    /// Vertically integrated vapour transport.
    #[default]
    Transport,
    /// Column water vapour.
    ColumnWater,
}

impl Moisture {
    const ALL: [Self; 2] = [Self::Transport, Self::ColumnWater];

    /// The name in files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::ColumnWater => "column_water",
        }
    }

    /// The variant of this name, if there is one.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// The unit of the field.
    pub(super) fn units(self) -> &'static str {
        match self {
            Self::Transport => "kg m-1 s-1",
            Self::ColumnWater => "kg m-2",
        }
    }

    /// The key of the absolute threshold.
    pub(super) fn floor_key(self) -> &'static str {
        match self {
            Self::Transport => "min_transport_kg_m_s",
            Self::ColumnWater => "min_column_water_kg_m2",
        }
    }
}

/// Criteria for atmospheric rivers by percentile and geometry.
///
/// # Source
/// Guan and Waliser 2015 (JGR Atmos. 120, 12514-12535), section 2, with two differences. Thresholds are computed over
/// blocks of [`Self::climatology_spacing_deg`], not over single cells of finer grids (their fields had 1.5 degrees).
/// Areas that fail the geometry are dropped, not searched again with higher percentiles (their version 2, 2018). With
/// column water instead of transport, the floor is the 2 cm of Ralph, Neiman and Wick 2004 (Mon. Weather Rev. 132,
/// 1721-1745); directions are still those of transport.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PercentileThresholds {
    /// The field whose percentiles define a river.
    pub moisture: Moisture,
    /// Minimum percentile of its place and season, 0 to 100 ...
    pub percentile: f64,
    /// ... and minimum of transport, kg m-1 s-1 ...
    pub min_transport_kg_m_s: f64,
    /// ... or of column water, kg m-2.
    pub min_column_water_kg_m2: f64,
    /// Number of months before and after each month that form its season.
    pub window_months: usize,
    /// Size of the blocks of cells that share a climatology, degrees; bounds memory on fine grids.
    pub climatology_spacing_deg: f64,
    /// Minimum number of times in a season.
    pub min_times: u32,
    /// Minimum length, km.
    pub min_length_km: f64,
    /// Minimum ratio of length to width.
    pub min_length_over_width: f64,
    /// Maximum share of the area whose transport deviates by more than [`Self::max_deviation_deg`] from the mean.
    pub max_deviating_share: f64,
    /// Maximum angle between the transport of a cell and the mean, and between the mean and the long axis, degrees.
    pub max_deviation_deg: f64,
    /// Minimum mean poleward transport, kg m-1 s-1.
    pub min_poleward_kg_m_s: f64,
}

impl Default for PercentileThresholds {
    fn default() -> Self {
        Self {
            moisture: Moisture::Transport,
            percentile: 85.0,
            min_transport_kg_m_s: 100.0,
            min_column_water_kg_m2: 20.0,
            window_months: 2,
            climatology_spacing_deg: 1.0,
            min_times: 40,
            min_length_km: 2000.0,
            min_length_over_width: 2.0,
            max_deviating_share: 0.5,
            max_deviation_deg: 45.0,
            min_poleward_kg_m_s: 50.0,
        }
    }
}

impl PercentileThresholds {
    /// The absolute threshold of moisture.
    pub(super) fn floor(&self) -> f64 {
        match self.moisture {
            Moisture::Transport => self.min_transport_kg_m_s,
            Moisture::ColumnWater => self.min_column_water_kg_m2,
        }
    }

    /// The absolute threshold of moisture, mutable.
    pub(super) fn floor_mut(&mut self) -> &mut f64 {
        match self.moisture {
            Moisture::Transport => &mut self.min_transport_kg_m_s,
            Moisture::ColumnWater => &mut self.min_column_water_kg_m2,
        }
    }

    /// # Errors
    /// [`crate::ClimateError::Invalid`] if a parameter is out of range.
    pub(super) fn check(&self) -> Result<()> {
        let bad = |name: &str, expected: &str, found: f64| {
            Err(invalid_threshold("percentile", name, expected, found))
        };
        if !(0.0..100.0).contains(&self.percentile) {
            return bad("percentile", "0 to below 100", self.percentile);
        }
        if self.window_months > 5 {
            let found = self.window_months as f64;
            return bad("window_months", "at most 5", found);
        }
        if !self.min_poleward_kg_m_s.is_finite() {
            return bad("min_poleward_kg_m_s", "a number", self.min_poleward_kg_m_s);
        }
        if !(0.0..=1.0).contains(&self.max_deviating_share) {
            let found = self.max_deviating_share;
            return bad("max_deviating_share", "a share from 0 to 1", found);
        }
        if !(0.0..=180.0).contains(&self.max_deviation_deg) {
            let found = self.max_deviation_deg;
            return bad("max_deviation_deg", "0 to 180 degrees", found);
        }
        let positive = [
            ("min_transport_kg_m_s", self.min_transport_kg_m_s),
            ("min_column_water_kg_m2", self.min_column_water_kg_m2),
            ("climatology_spacing_deg", self.climatology_spacing_deg),
        ];
        let not_negative = [
            ("min_length_km", self.min_length_km),
            ("min_length_over_width", self.min_length_over_width),
        ];
        check_numbers("percentile", &positive, &not_negative)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_sense_are_refused_by_name() {
        assert!(PercentileThresholds::default().check().is_ok());
        type Change = fn(&mut PercentileThresholds);
        let changes: [(&str, Change); 6] = [
            ("max_deviating_share", |t| t.max_deviating_share = 50.0),
            ("max_deviation_deg", |t| t.max_deviation_deg = f64::NAN),
            ("min_length_km", |t| t.min_length_km = f64::NAN),
            ("min_length_over_width", |t| t.min_length_over_width = -1.0),
            ("min_poleward_kg_m_s", |t| t.min_poleward_kg_m_s = f64::NAN),
            ("climatology_spacing_deg", |t| {
                t.climatology_spacing_deg = 0.0
            }),
        ];
        for (name, change) in changes {
            let mut thresholds = PercentileThresholds::default();
            change(&mut thresholds);
            let error = thresholds.check().unwrap_err().to_string();
            assert!(error.contains(name), "{name}: {error}");
        }
    }
}
