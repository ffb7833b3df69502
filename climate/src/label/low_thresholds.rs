//! The thresholds for lows that masks do not distinguish: extratropical cyclones and tropical depressions.

use super::thresholds::{TcThresholds, check_numbers};
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// Criteria for extratropical cyclones.
///
/// # Source
/// Ullrich et al. 2021 (TempestExtremes v2.1, GMD 14, 5023) after Ullrich and Zarzycki 2017 (GMD 10, 1069):
/// `DetectNodes --searchbymin PSL --closedcontourcmd "PSL,200.0,6.0,0" --mergedist 6.0`, `StitchNodes --range 6.0
/// --mintime 60h --maxgap 18h --min_endpoint_dist 12.0`. They exclude tropical cyclones by a closed contour of Z300 -
/// Z500, which CAM5's sixteen channels lack; this code excludes them by the warm core and thickness maximum of
/// [`TcThresholds`], and by latitude.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EtcThresholds {
    /// Minimum rise of sea-level pressure on every path outwards, Pa ...
    pub contour_rise_pa: f64,
    /// ... within this great-circle distance, degrees.
    pub contour_radius_deg: f64,
    /// Of two lows closer than this, only the deeper one is kept, degrees.
    pub merge_radius_deg: f64,
    /// Minimum distance from the equator, degrees of latitude.
    pub min_latitude_deg: f64,
    /// Maximum distance from the equator, degrees of latitude: over the ice caps, pressure is reduced to a level below
    /// the surface.
    pub max_latitude_deg: f64,
    /// Maximum distance between consecutive points of a track, degrees (per six hours if points are farther apart in
    /// time).
    pub max_range_deg: f64,
    /// Minimum lifetime, hours.
    pub min_hours: f64,
    /// Maximum gap in a track, hours; one step of the data is always bridged, up to 24 h.
    pub max_gap_hours: f64,
    /// Minimum distance between the ends of a track, degrees: stationary lows are heat lows or caused by mountains.
    pub min_endpoint_deg: f64,
    /// Half the side of the box, km: own choice.
    ///
    /// Rudeva and Gulev 2007 (MWR 135, 2568) find mean effective radii from 300 to 400 km over land to more than 900 km
    /// over oceans. 700 km lies within that range, and within the radii of 520 to 850 km of the cyclones in the
    /// synthetic run.
    pub box_half_km: f64,
}

impl Default for EtcThresholds {
    fn default() -> Self {
        Self {
            contour_rise_pa: 200.0,
            contour_radius_deg: 6.0,
            merge_radius_deg: 6.0,
            min_latitude_deg: 30.0,
            max_latitude_deg: 80.0,
            max_range_deg: 6.0,
            min_hours: 60.0,
            max_gap_hours: 18.0,
            min_endpoint_deg: 12.0,
            box_half_km: 700.0,
        }
    }
}

impl EtcThresholds {
    pub(crate) fn check(&self) -> Result<()> {
        let positive = [
            ("extratropical.contour_rise_pa", self.contour_rise_pa),
            ("extratropical.contour_radius_deg", self.contour_radius_deg),
            ("extratropical.max_latitude_deg", self.max_latitude_deg),
            ("extratropical.max_range_deg", self.max_range_deg),
            ("extratropical.box_half_km", self.box_half_km),
        ];
        let others = [
            ("extratropical.merge_radius_deg", self.merge_radius_deg),
            ("extratropical.min_latitude_deg", self.min_latitude_deg),
            ("extratropical.min_hours", self.min_hours),
            ("extratropical.max_gap_hours", self.max_gap_hours),
            ("extratropical.min_endpoint_deg", self.min_endpoint_deg),
        ];
        check_numbers("label", &positive, &others)
    }
}

/// Criteria for tropical depressions: closed lows with vorticity in the tropics and winds below those of a storm.
///
/// # Source
/// A depression is a tropical cyclone with winds below 17 m/s (34 knots; WMO-No. 1194, NHC glossary). Pressure and warm
/// core have the weakest published thresholds for TSTORMS/TECA candidates (ClimDeepLearn's fourth preset,
/// [`TcThresholds::super_relaxed`]). Values without a publication are marked as our own choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TdThresholds {
    /// Minimum vorticity at 850 hPa, positive if cyclonic, s-1. Own choice: about the planetary vorticity at 12
    /// degrees.
    pub min_vorticity_per_s: f64,
    /// Minimum rise of sea-level pressure in all eight directions within five degrees, Pa.
    pub pressure_rise_pa: f64,
    /// Minimum fall of the mean temperature of 200 and 500 hPa in all eight directions within five degrees, K.
    pub warm_core_fall_k: f64,
    /// Maximum distance from the equator, degrees of latitude.
    pub max_latitude_deg: f64,
    /// Minimum wind of a depression, m s-1 (own choice): the wind of the vortex itself, without the flow that carries
    /// it ...
    pub min_wind_m_s: f64,
    /// ... and the wind from which it is a storm. On grids coarser than 1.25 degrees, where too few cells lie around
    /// the centre, cyclones of the masks use [`super::CycloneCandidate::max_wind_m_s`], as their own rule does.
    pub max_wind_m_s: f64,
    /// Depressions closer than this to a tropical cyclone are part of it, degrees. Own choice.
    pub merge_radius_deg: f64,
    /// Maximum distance between consecutive points of a track, degrees (per six hours if points are farther apart in
    /// time). Own choice.
    pub max_range_deg: f64,
    /// Minimum lifetime of the low, as a depression or stronger, hours. Own choice.
    pub min_hours: f64,
    /// Maximum gap in a track, hours; one step of the data is always bridged, up to 24 h.
    pub max_gap_hours: f64,
    /// Half the side of the box, degrees of a great circle. Own choice: 5.5 degrees across, slightly more than the five
    /// degrees within which its pressure must rise.
    pub box_half_deg: f64,
}

impl Default for TdThresholds {
    fn default() -> Self {
        Self {
            min_vorticity_per_s: 3e-5,
            pressure_rise_pa: 100.0,
            warm_core_fall_k: 0.1,
            max_latitude_deg: 35.0,
            min_wind_m_s: 6.0,
            max_wind_m_s: 17.0,
            merge_radius_deg: 6.0,
            max_range_deg: 4.0,
            min_hours: 24.0,
            max_gap_hours: 6.0,
            box_half_deg: 2.75,
        }
    }
}

impl TdThresholds {
    /// These criteria as thresholds of cyclone candidates, for the published grid.
    pub(super) fn candidates(&self) -> TcThresholds {
        TcThresholds {
            min_vorticity_per_s: self.min_vorticity_per_s,
            pressure_rise_pa: self.pressure_rise_pa,
            warm_core_fall_k: self.warm_core_fall_k,
            max_latitude_deg: self.max_latitude_deg,
            min_wind_m_s: self.max_wind_m_s,
            ..TcThresholds::default()
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let positive = [
            ("depression.min_vorticity_per_s", self.min_vorticity_per_s),
            ("depression.max_latitude_deg", self.max_latitude_deg),
            ("depression.max_wind_m_s", self.max_wind_m_s),
            ("depression.max_range_deg", self.max_range_deg),
            ("depression.box_half_deg", self.box_half_deg),
        ];
        let others = [
            ("depression.pressure_rise_pa", self.pressure_rise_pa),
            ("depression.warm_core_fall_k", self.warm_core_fall_k),
            ("depression.min_wind_m_s", self.min_wind_m_s),
            ("depression.merge_radius_deg", self.merge_radius_deg),
            ("depression.min_hours", self.min_hours),
            ("depression.max_gap_hours", self.max_gap_hours),
        ];
        check_numbers("label", &positive, &others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depressions_are_searched_for_by_their_own_numbers() {
        let depression = TdThresholds {
            min_vorticity_per_s: 2e-5,
            pressure_rise_pa: 90.0,
            warm_core_fall_k: 0.2,
            max_latitude_deg: 28.0,
            min_wind_m_s: 5.0,
            max_wind_m_s: 15.0,
            ..TdThresholds::default()
        };
        let expected = TcThresholds {
            min_vorticity_per_s: 2e-5,
            pressure_rise_pa: 90.0,
            warm_core_fall_k: 0.2,
            max_latitude_deg: 28.0,
            // From here on it is a storm.
            min_wind_m_s: 15.0,
            ..TcThresholds::default()
        };
        assert_eq!(depression.candidates(), expected);
    }

    #[test]
    fn nonsense_is_named() {
        assert!(
            EtcThresholds::default().check().is_ok() && TdThresholds::default().check().is_ok()
        );
        let bad = EtcThresholds {
            contour_rise_pa: f64::NAN,
            ..EtcThresholds::default()
        };
        let error = bad.check().unwrap_err().to_string();
        assert!(error.contains("extratropical.contour_rise_pa"), "{error}");
        let bad = TdThresholds {
            min_hours: -1.0,
            ..TdThresholds::default()
        };
        let error = bad.check().unwrap_err().to_string();
        assert!(error.contains("depression.min_hours"), "{error}");
    }
}
