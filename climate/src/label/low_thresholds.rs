//! The numbers of the recipes for lows that masks do not tell apart: extratropical cyclones and tropical depressions.

use super::thresholds::{TcThresholds, check_numbers};
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// Criteria for extratropical cyclones.
///
/// # Source
/// Ullrich et al. 2021 (TempestExtremes v2.1, GMD 14, 5023) after Ullrich and Zarzycki 2017 (GMD 10, 1069):
/// `DetectNodes --searchbymin PSL --closedcontourcmd "PSL,200.0,6.0,0" --mergedist 6.0`, `StitchNodes --range 6.0
/// --mintime 60h --maxgap 18h --min_endpoint_dist 12.0`. There tropical cyclones are told apart by a closed contour of
/// Z300 - Z500, which CAM5's sixteen channels lack: here by the warm core and the thickness maximum of the tropical
/// cyclones' recipe ([`TcThresholds`]), and by latitude.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EtcThresholds {
    /// Sea-level pressure must rise by this on every way out, Pa ...
    pub contour_rise_pa: f64,
    /// ... within this great-circle distance, degrees.
    pub contour_radius_deg: f64,
    /// Of two lows closer than this the deeper one stands, degrees.
    pub merge_radius_deg: f64,
    /// Lows closer to the equator are not extratropical, degrees.
    pub min_latitude_deg: f64,
    /// Lows closer to a pole are not searched for, degrees: pressure over the ice caps is reduced to a level below
    /// them.
    pub max_latitude_deg: f64,
    /// Largest distance from one point of a track to the next, degrees (per six hours where points are farther apart).
    pub max_range_deg: f64,
    /// Shortest life, hours.
    pub min_hours: f64,
    /// Longest time that a track may be missed, hours; one step of the data is always bridged, up to 24 h.
    pub max_gap_hours: f64,
    /// Least distance between the ends of a track, degrees: what stays is a heat low or a mountain's.
    pub min_endpoint_deg: f64,
    /// Half the side of the box, km: own choice.
    ///
    /// Rudeva and Gulev 2007 (MWR 135, 2568) find mean effective radii from 300 to 400 km over land to more than 900 km
    /// over oceans. 700 km lies within that range and is what the cyclones of the synthetic run have, whose radii are
    /// 520 to 850 km.
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

/// Criteria for tropical depressions: closed lows with vorticity in the tropics whose wind is below that of a storm.
///
/// # Source
/// A depression is a tropical cyclone with winds below 17 m/s (34 knots; WMO-No. 1194, NHC glossary): the candidates of
/// TSTORMS/TECA with the weakest published thresholds (ClimDeepLearn's fourth setting, [`TcThresholds::super_relaxed`])
/// for pressure and warm core. What no publication gives is marked as own choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TdThresholds {
    /// Lowest vorticity at 850 hPa, positive in the sense of a cyclone, s-1. Own choice: about the planet's own at
    /// 12 degrees.
    pub min_vorticity_per_s: f64,
    /// Rise of the sea-level pressure in all eight directions within five degrees, Pa.
    pub pressure_rise_pa: f64,
    /// Fall of the mean temperature of 200 and 500 hPa in all eight directions within five degrees, K.
    pub warm_core_fall_k: f64,
    /// Depressions farther from the equator are not searched for, degrees.
    pub max_latitude_deg: f64,
    /// Wind of the vortex itself, without the flow that carries it, from which it is a depression, m s-1 (own choice)
    /// ...
    pub min_wind_m_s: f64,
    /// ... and from which it is a storm. A cyclone of the masks on a grid coarser than 1.25 degrees, where too few cells
    /// lie around its centre, is one by [`super::CycloneCandidate::max_wind_m_s`], as in its own rule.
    pub max_wind_m_s: f64,
    /// Depressions closer than this to a tropical cyclone are part of it, degrees. Own choice.
    pub merge_radius_deg: f64,
    /// Largest distance from one point of a track to the next, degrees (per six hours where points are farther apart).
    /// Own choice.
    pub max_range_deg: f64,
    /// Shortest life of the low, as a depression or stronger, hours. Own choice.
    pub min_hours: f64,
    /// Longest time that a track may be missed, hours; one step of the data is always bridged, up to 24 h.
    pub max_gap_hours: f64,
    /// Half the side of the box, degrees of a great circle. Own choice: 5.5 degrees across, a little more than the
    /// five within which its pressure must rise.
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
    /// The criteria as those of a cyclone's candidates, for the published grid.
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
