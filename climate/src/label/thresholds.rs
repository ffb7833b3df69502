//! The thresholds of the label recipes, with units and sources.

use super::low_thresholds::{EtcThresholds, TdThresholds};
use super::scaling::{GridScaling, PUBLISHED_DEG};
use crate::error::{ClimateError, Result};
use serde::{Deserialize, Serialize};
use squall_data::LatLonGrid;
use squall_data::grid::KM_PER_DEGREE;

/// Criteria for tropical cyclones.
///
/// # Source
/// GFDL TSTORMS as in TECA (`alg/teca_tc_candidates.cxx`, `gfdl_tc_candidates.f90.in`, `gfdl_tc_trajectory.f90.in`,
/// `teca_tc_wind_radii.cxx`) for candidates, tracks and the wind radius; ClimDeepLearn
/// (`create_multichannel_multithreshold_labels.py`) for the window, the four presets and the mask. The published
/// numbers hold for a quarter-degree grid; [`TcThresholds::adapted_to`] adapts them to coarser ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcThresholds {
    /// Minimum vorticity at 850 hPa, positive if cyclonic, s-1.
    pub min_vorticity_per_s: f64,
    /// Side of the window in which the vorticity must be the largest, degrees of latitude.
    pub vorticity_window_deg: f64,
    /// Maximum distance of the pressure minimum from the vorticity maximum, and of the warm core and the thickness
    /// maximum from the pressure minimum, degrees.
    pub max_core_radius_deg: f64,
    /// Lower values of sea-level pressure are taken for bad data, Pa.
    pub min_credible_pressure_pa: f64,
    /// Minimum rise of sea-level pressure in all eight directions, Pa ...
    pub pressure_rise_pa: f64,
    /// ... within this distance, degrees.
    pub pressure_radius_deg: f64,
    /// Minimum fall of the mean temperature of 200 and 500 hPa in all eight directions, K ...
    pub warm_core_fall_k: f64,
    /// ... within this distance, degrees.
    pub warm_core_radius_deg: f64,
    /// Minimum fall of the thickness from 1000 to 200 hPa in all eight directions, m ...
    pub thickness_fall_m: f64,
    /// ... within this distance, degrees.
    pub thickness_radius_deg: f64,
    /// Maximum distance of candidates from the equator, degrees of latitude.
    pub max_latitude_deg: f64,
    /// Maximum speed of a cyclone, km per day.
    pub max_speed_km_per_day: f64,
    /// Minimum wind of a storm, m s-1.
    pub min_wind_m_s: f64,
    /// Minimum total time as a storm with warm core and thickness maximum, days.
    pub min_storm_days: f64,
    /// Maximum time between two linked points, hours. (TECA has no such limit; its input has no holes.)
    pub max_step_hours: f64,
    /// Margin added to the wind radius to obtain half the side of a cyclone's box, degrees.
    pub box_margin_deg: f64,
    /// Wind speed that defines the wind radius, m s-1: 63 km/h, the lower end of tropical storms.
    pub radius_wind_m_s: f64,
    /// Search radius of the wind radius, degrees ...
    pub radius_search_deg: f64,
    /// ... and the number of rings in it.
    pub radius_bins: usize,
    /// Cells of the box above this percentile belong to the cyclone.
    pub mask_percentile: f64,
}

impl Default for TcThresholds {
    fn default() -> Self {
        Self {
            min_vorticity_per_s: 1.6e-4,
            vorticity_window_deg: 7.74446,
            max_core_radius_deg: 2.0,
            min_credible_pressure_pa: 50_000.0,
            pressure_rise_pa: 400.0,
            pressure_radius_deg: 5.0,
            warm_core_fall_k: 0.8,
            warm_core_radius_deg: 5.0,
            thickness_fall_m: 50.0,
            thickness_radius_deg: 4.0,
            max_latitude_deg: 80.0,
            max_speed_km_per_day: 1600.0,
            min_wind_m_s: 17.0,
            min_storm_days: 2.0,
            max_step_hours: 24.0,
            box_margin_deg: 6.6,
            radius_wind_m_s: 63.0 / 3.6,
            radius_search_deg: 6.0,
            radius_bins: 32,
            mask_percentile: 93.0,
        }
    }
}

impl TcThresholds {
    /// The names of the presets, strictest first.
    const PRESETS: [&'static str; 4] = ["default", "medium", "relaxed", "super_relaxed"];

    /// The published preset of this name.
    ///
    /// # Errors
    /// [`ClimateError::Invalid`] if there is no preset of this name.
    pub fn preset(name: &str) -> Result<Self> {
        match name {
            "default" => Ok(Self::default()),
            "medium" => Ok(Self::with(1.5e-4, 0.7, 350.0)),
            "relaxed" => Ok(Self::with(1.4e-4, 0.6, 300.0)),
            "super_relaxed" => Ok(Self::super_relaxed()),
            other => Err(ClimateError::Invalid(format!(
                "no cyclone thresholds `{other}`: expected one of {}",
                Self::PRESETS.join(", ")
            ))),
        }
    }

    /// Vorticity 0.1e-4 s-1, warm core 0.1 K, pressure 100 Pa.
    pub fn super_relaxed() -> Self {
        Self::with(0.1e-4, 0.1, 100.0)
    }

    fn with(min_vorticity_per_s: f64, warm_core_fall_k: f64, pressure_rise_pa: f64) -> Self {
        Self {
            min_vorticity_per_s,
            warm_core_fall_k,
            pressure_rise_pa,
            ..Self::default()
        }
    }

    /// These criteria adapted to a grid of another spacing; see [`GridScaling`]. At a quarter of a degree and finer
    /// nothing changes. Distances are physical and stay the same, unless they are too short to reach a neighbouring
    /// cell: the core radius grows to at least 1.5 cells, the others to two cells.
    pub fn adapted_to(&self, grid: &LatLonGrid) -> Self {
        let scaling = GridScaling::for_spacing_km(grid.spacing_km());
        let cell_deg = grid.lat_spacing_deg().max(grid.lon_spacing_deg());
        Self {
            min_vorticity_per_s: self.min_vorticity_per_s * scaling.vorticity,
            pressure_rise_pa: self.pressure_rise_pa * scaling.pressure,
            warm_core_fall_k: self.warm_core_fall_k * scaling.core,
            thickness_fall_m: self.thickness_fall_m * scaling.core,
            min_wind_m_s: self.min_wind_m_s * scaling.wind,
            radius_wind_m_s: self.radius_wind_m_s * scaling.wind,
            max_core_radius_deg: self.max_core_radius_deg.max(1.5 * cell_deg),
            pressure_radius_deg: self.pressure_radius_deg.max(2.0 * cell_deg),
            warm_core_radius_deg: self.warm_core_radius_deg.max(2.0 * cell_deg),
            thickness_radius_deg: self.thickness_radius_deg.max(2.0 * cell_deg),
            ..self.clone()
        }
    }

    /// # Errors
    /// [`ClimateError::Invalid`] if a number is out of range.
    pub(crate) fn check(&self) -> Result<()> {
        let positive = [
            ("min_vorticity_per_s", self.min_vorticity_per_s),
            ("vorticity_window_deg", self.vorticity_window_deg),
            ("max_core_radius_deg", self.max_core_radius_deg),
            ("pressure_radius_deg", self.pressure_radius_deg),
            ("warm_core_radius_deg", self.warm_core_radius_deg),
            ("thickness_radius_deg", self.thickness_radius_deg),
            ("max_latitude_deg", self.max_latitude_deg),
            ("max_speed_km_per_day", self.max_speed_km_per_day),
            ("max_step_hours", self.max_step_hours),
            ("box_margin_deg", self.box_margin_deg),
            ("radius_search_deg", self.radius_search_deg),
        ];
        let not_negative = [
            ("min_credible_pressure_pa", self.min_credible_pressure_pa),
            ("pressure_rise_pa", self.pressure_rise_pa),
            ("warm_core_fall_k", self.warm_core_fall_k),
            ("thickness_fall_m", self.thickness_fall_m),
            ("min_wind_m_s", self.min_wind_m_s),
            ("min_storm_days", self.min_storm_days),
            ("radius_wind_m_s", self.radius_wind_m_s),
        ];
        check_numbers("label", &positive, &not_negative)?;
        check_count("label", "radius_bins", self.radius_bins)?;
        if !(0.0..100.0).contains(&self.mask_percentile) {
            let found = self.mask_percentile;
            return Err(invalid_threshold(
                "label",
                "mask_percentile",
                "0 to below 100",
                found,
            ));
        }
        Ok(())
    }
}

/// Criteria for atmospheric rivers.
///
/// # Source
/// ClimDeepLearn, `create_multichannel_multithreshold_labels.py`, `get_AR_semantic_mask`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArThresholds {
    /// Minimum of damped precipitable water, kg m-2: 24 in the data set's labels 0, 21 in its labels 1.
    pub min_damped_tmq_kg_m2: f64,
    /// Width of the damping around the equator, degrees of latitude.
    pub damping_sigma_deg: f64,
    /// Minimum diagonal of the bounding box, km.
    pub min_length_km: f64,
    /// Maximum of area divided by the north-south extent of the bounding box, km.
    pub max_width_km: f64,
    /// Radius of the sphere for the areas in the width, km. 6170 as published (the Earth's is 6371).
    pub area_radius_km: f64,
    /// Added to the height and width of the bounding box, degrees. 0 as published: the box runs between cell centres.
    pub box_margin_deg: f64,
}

impl Default for ArThresholds {
    fn default() -> Self {
        Self {
            min_damped_tmq_kg_m2: 24.0,
            damping_sigma_deg: 19.0,
            min_length_km: 1500.0,
            max_width_km: 1000.0,
            area_radius_km: 6170.0,
            box_margin_deg: 0.0,
        }
    }
}

impl ArThresholds {
    /// The wetter of the two published presets: rivers above 24 kg m-2 (`labels_0`).
    pub fn labels_0() -> Self {
        Self::default()
    }

    /// The drier preset: 21 kg m-2 (`labels_1`).
    pub fn labels_1() -> Self {
        Self {
            min_damped_tmq_kg_m2: 21.0,
            ..Self::default()
        }
    }

    /// These criteria adapted to a grid of another spacing; at a quarter of a degree and finer nothing changes.
    ///
    /// Moisture and lengths are physical and stay the same. A coarse grid changes the outline. A box between cell
    /// centres is one cell too small in height and width; the margin makes up for that, except for the quarter of a
    /// degree that is lost at the published spacing, too. Widths have an error of half a cell, so the maximum width
    /// grows by as much.
    pub fn adapted_to(&self, grid: &LatLonGrid) -> Self {
        let coarser_deg = (grid.lat_spacing_deg() - PUBLISHED_DEG).max(0.0);
        Self {
            max_width_km: self.max_width_km + 0.5 * coarser_deg * KM_PER_DEGREE,
            box_margin_deg: self.box_margin_deg + coarser_deg,
            ..self.clone()
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let positive = [
            ("min_damped_tmq_kg_m2", self.min_damped_tmq_kg_m2),
            ("damping_sigma_deg", self.damping_sigma_deg),
            ("max_width_km", self.max_width_km),
            ("area_radius_km", self.area_radius_km),
        ];
        let not_negative = [
            ("min_length_km", self.min_length_km),
            ("box_margin_deg", self.box_margin_deg),
        ];
        check_numbers("label", &positive, &not_negative)
    }
}

/// A distance or extent cannot exceed a full circle; a search over more degrees would not end.
const MAX_DEG: f64 = 360.0;
/// Upper bound of samples on a circle, or rings of it: more add no information and take memory.
const MAX_SAMPLES: usize = 1000;

/// Rejects thresholds that are not finite or have the wrong sign, and degrees (names ending in `_deg`) beyond a full
/// circle; `what` names the rule in the error.
pub(crate) fn check_numbers(
    what: &str,
    positive: &[(&str, f64)],
    not_negative: &[(&str, f64)],
) -> Result<()> {
    if let Some((name, value)) = positive.iter().find(|(_, v)| !(v.is_finite() && *v > 0.0)) {
        return Err(invalid_threshold(what, name, "a number above 0", *value));
    }
    if let Some((name, value)) = (not_negative.iter()).find(|(_, v)| !(v.is_finite() && *v >= 0.0))
    {
        return Err(invalid_threshold(
            what,
            name,
            "a number of 0 or more",
            *value,
        ));
    }
    let mut all = positive.iter().chain(not_negative);
    match all.find(|(name, value)| name.ends_with("_deg") && *value > MAX_DEG) {
        Some((name, value)) => Err(invalid_threshold(what, name, "at most 360 degrees", *value)),
        None => Ok(()),
    }
}

/// Rejects a number of samples or rings that is 0 or needlessly large.
pub(crate) fn check_count(what: &str, name: &str, count: usize) -> Result<()> {
    if (1..=MAX_SAMPLES).contains(&count) {
        return Ok(());
    }
    Err(invalid_threshold(what, name, "1 to 1000", count as f64))
}

/// The error for an invalid number among the thresholds of `what`.
pub(crate) fn invalid_threshold(
    what: &str,
    name: &str,
    expected: &str,
    found: f64,
) -> ClimateError {
    ClimateError::Invalid(format!(
        "{what} thresholds: {name}: expected {expected}, found {found}"
    ))
}

/// All thresholds of the labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// For tropical cyclones.
    pub cyclone: TcThresholds,
    /// For atmospheric rivers.
    pub river: ArThresholds,
    /// For extratropical cyclones, which have boxes only.
    pub extratropical: EtcThresholds,
    /// For tropical depressions, which have boxes only.
    pub depression: TdThresholds,
    /// Whether the thresholds are adapted to the grid ([`TcThresholds::adapted_to`], [`ArThresholds::adapted_to`]); on
    /// by default. Grids of a quarter of a degree or finer use the published numbers either way.
    pub adapt_to_grid: bool,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            cyclone: TcThresholds::default(),
            river: ArThresholds::default(),
            extratropical: EtcThresholds::default(),
            depression: TdThresholds::default(),
            adapt_to_grid: true,
        }
    }
}

#[cfg(test)]
mod tests;
