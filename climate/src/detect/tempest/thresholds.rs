//! The thresholds of the TempestExtremes recipes, with units and sources.

use crate::closed_low::DomainEdge;
use crate::error::Result;
use crate::events::CYCLONE_WIND_DEG;
use crate::events::cyclone_wind::holding_cells;
use crate::label::{check_count, check_numbers, invalid_threshold};
use serde::{Deserialize, Serialize};
use squall_data::LatLonGrid;

/// Criteria for nodes: `DetectNodes`.
///
/// # Source
/// Ullrich et al. 2021 (GMD 14, 5023-5048), the recommended command for tropical cyclones:
/// `--searchbymin MSL --closedcontourcmd "MSL,200.0,5.5,0;_DIFF(Z300,Z500),-58.8,6.5,1.0" --mergedist 6.0
/// --outputcmd "MSL,min,0;_VECMAG(U10,V10),max,2;ZS,min,0"`; semantics as in `src/nodes/DetectNodes.cpp`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeThresholds {
    /// Minimum rise of sea-level pressure, Pa ...
    pub contour_rise_pa: f64,
    /// ... on a closed contour within this great-circle distance of the minimum, degrees.
    pub contour_radius_deg: f64,
    /// Of two minima closer than this, only the deeper one is kept, degrees.
    pub merge_distance_deg: f64,
    /// Minimum fall of the thickness from 500 to 300 hPa, or else to 250 hPa ([`crate::detect::WarmCore`]), m of
    /// geopotential height (58.8 m² s-2) ...
    pub upper_thickness_fall_m: f64,
    /// If files lack both: minimum fall of the mean temperature of 200 and 500 hPa, K ...
    ///
    /// A fall of 6 m corresponds to 0.40 K in the layer's mean virtual temperature: g/R · 6 m / ln(500/300).
    pub substitute_fall_k: f64,
    /// ... and minimum fall of the thickness from 1000 to 200 hPa, m. It corresponds to 0.40 K in the mean of that
    /// layer: R/g · 0.40 K · ln(1000/200).
    ///
    /// Both are required because each alone fails: outside the tropics, 200 hPa reaches the stratosphere, which is warm
    /// above cold lows; and the thickness of the whole layer is large in the warm sector of frontal cyclones. On the
    /// GFS forecast of 2011-10-11 (28 closed lows), the published criterion keeps hurricanes Jova and Irwin, storm
    /// Banyan and two polar lows poleward of 60 degrees; both substitutes together keep only Jova and Irwin, so they
    /// are the stricter test.
    pub substitute_fall_m: f64,
    /// ... on a closed contour within this distance of the maximum, degrees ...
    pub core_radius_deg: f64,
    /// ... which is searched within this distance of the pressure minimum, degrees.
    pub core_search_deg: f64,
    /// The strongest wind is searched within this distance of the minimum, degrees.
    pub wind_radius_deg: f64,
    /// How the edge of a regional grid is treated; no effect on global grids.
    pub domain_edge: DomainEdge,
}

impl Default for NodeThresholds {
    fn default() -> Self {
        Self {
            contour_rise_pa: 200.0,
            contour_radius_deg: 5.5,
            merge_distance_deg: 6.0,
            upper_thickness_fall_m: 6.0,
            substitute_fall_k: 0.40,
            substitute_fall_m: 18.9,
            core_radius_deg: 6.5,
            core_search_deg: 1.0,
            wind_radius_deg: CYCLONE_WIND_DEG,
            domain_edge: DomainEdge::Open,
        }
    }
}

/// Criteria for tracks of cyclones: `StitchNodes`.
///
/// # Source
/// As [`NodeThresholds`]: `--range 8.0 --mintime 54h --maxgap 24h
/// --threshold "wind,>=,10.0,10;lat,<=,50.0,10;lat,>=,-50.0,10;zs,<=,150.0,10"` on 6-hourly fields; semantics as in
/// `src/nodes/StitchNodes.cpp`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StitchThresholds {
    /// Maximum distance between consecutive nodes, degrees, for any gap.
    pub max_range_deg: f64,
    /// Minimum time from first to last node, hours.
    pub min_duration_hours: f64,
    /// Maximum time between consecutive nodes, hours.
    pub max_gap_hours: f64,
    /// Minimum wind, m s-1 ...
    pub min_wind_m_s: f64,
    /// ... maximum distance from the equator, degrees ...
    pub max_abs_latitude_deg: f64,
    /// ... and maximum height of the ground, m (if PS, PSL and TREFHT are available), each ...
    pub max_surface_height_m: f64,
    /// ... at this number of nodes, not necessarily the same ones or consecutive ...
    pub threshold_points: usize,
    /// ... for this time step, hours. With other or uneven steps, a node counts for the time it represents.
    pub published_step_hours: f64,
}

impl Default for StitchThresholds {
    fn default() -> Self {
        Self {
            max_range_deg: 8.0,
            min_duration_hours: 54.0,
            max_gap_hours: 24.0,
            min_wind_m_s: 10.0,
            max_abs_latitude_deg: 50.0,
            max_surface_height_m: 150.0,
            threshold_points: 10,
            published_step_hours: 6.0,
        }
    }
}

/// Criteria for rivers: `DetectBlobs` and `NodeFileFilter`.
///
/// # Source
/// As [`NodeThresholds`]: `--thresholdcmd "_LAPLACIAN{8,10}(_VECMAG(VIWVE,VIWVN)),<=,-20000,0" --minabslat 15
/// --geofiltercmd "area,>=,4e5km2"`, then `NodeFileFilter --bydist 8.0 --invert`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RidgeThresholds {
    /// Number of points on the circle of the discrete Laplacian.
    pub laplacian_points: usize,
    /// Radius of that circle, degrees of a great circle.
    pub laplacian_radius_deg: f64,
    /// Maximum Laplacian of vapour transport on the unit sphere, kg m-1 s-1 rad-2.
    pub max_laplacian: f64,
    /// Minimum distance from the equator, degrees of latitude.
    pub min_abs_latitude_deg: f64,
    /// Minimum area, km².
    pub min_area_km2: f64,
    /// Cells closer than this to a tropical cyclone do not count as rivers, degrees.
    pub cyclone_distance_deg: f64,
}

impl Default for RidgeThresholds {
    fn default() -> Self {
        Self {
            laplacian_points: 8,
            laplacian_radius_deg: 10.0,
            max_laplacian: -20_000.0,
            min_abs_latitude_deg: 15.0,
            min_area_km2: 4e5,
            cyclone_distance_deg: 8.0,
        }
    }
}

/// All thresholds of the TempestExtremes recipes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TempestThresholds {
    /// Lows at one time.
    pub node: NodeThresholds,
    /// Lows through time.
    pub stitch: StitchThresholds,
    /// Rivers.
    pub ridge: RidgeThresholds,
    /// Whether distances grow on coarse grids to at least 1.5 cells (core search, wind) and 2.5 cells (contours), so
    /// that they contain enough cells. Grids of one degree and finer use the published numbers either way.
    pub adapt_to_grid: bool,
}

impl Default for TempestThresholds {
    fn default() -> Self {
        Self {
            node: NodeThresholds::default(),
            stitch: StitchThresholds::default(),
            ridge: RidgeThresholds::default(),
            adapt_to_grid: true,
        }
    }
}

impl NodeThresholds {
    pub(in crate::detect) fn adapted_to(&self, grid: &LatLonGrid) -> Self {
        let cell_deg = grid.lat_spacing_deg().max(grid.lon_spacing_deg());
        Self {
            contour_radius_deg: self.contour_radius_deg.max(2.5 * cell_deg),
            core_radius_deg: self.core_radius_deg.max(2.5 * cell_deg),
            core_search_deg: holding_cells(self.core_search_deg, grid),
            wind_radius_deg: holding_cells(self.wind_radius_deg, grid),
            ..self.clone()
        }
    }
}

impl TempestThresholds {
    /// # Errors
    /// [`crate::ClimateError::Invalid`] if a number is out of range.
    pub(in crate::detect) fn check(&self) -> Result<()> {
        let (node, stitch, ridge) = (&self.node, &self.stitch, &self.ridge);
        let positive = [
            ("contour_rise_pa", node.contour_rise_pa),
            ("contour_radius_deg", node.contour_radius_deg),
            ("upper_thickness_fall_m", node.upper_thickness_fall_m),
            ("substitute_fall_k", node.substitute_fall_k),
            ("substitute_fall_m", node.substitute_fall_m),
            ("core_radius_deg", node.core_radius_deg),
            ("max_range_deg", stitch.max_range_deg),
            ("max_gap_hours", stitch.max_gap_hours),
            ("published_step_hours", stitch.published_step_hours),
            ("laplacian_radius_deg", ridge.laplacian_radius_deg),
        ];
        let not_negative = [
            ("merge_distance_deg", node.merge_distance_deg),
            ("core_search_deg", node.core_search_deg),
            ("wind_radius_deg", node.wind_radius_deg),
            ("min_duration_hours", stitch.min_duration_hours),
            ("min_wind_m_s", stitch.min_wind_m_s),
            ("max_abs_latitude_deg", stitch.max_abs_latitude_deg),
            ("min_abs_latitude_deg", ridge.min_abs_latitude_deg),
            ("min_area_km2", ridge.min_area_km2),
            ("cyclone_distance_deg", ridge.cyclone_distance_deg),
        ];
        check_numbers("tempest", &positive, &not_negative)?;
        check_count("tempest", "laplacian_points", ridge.laplacian_points)?;
        // Infinity disables a criterion, but nothing compares with NaN.
        let of_any_sign = [
            ("max_surface_height_m", stitch.max_surface_height_m),
            ("max_laplacian", ridge.max_laplacian),
        ];
        if let Some((name, found)) = of_any_sign.iter().find(|(_, value)| value.is_nan()) {
            return Err(invalid_threshold("tempest", name, "a number", *found));
        }
        if ridge.laplacian_radius_deg >= 90.0 {
            let found = ridge.laplacian_radius_deg;
            return Err(invalid_threshold(
                "tempest",
                "laplacian_radius_deg",
                "less than 90",
                found,
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_hold_one_and_a_half_or_two_and_a_half_cells() {
        let published = NodeThresholds::default();
        let one_degree = LatLonGrid::global(181, 360).unwrap();
        assert_eq!(published.adapted_to(&one_degree), published);
        // Columns are four degrees apart, rows two and a half.
        let coarse = published.adapted_to(&LatLonGrid::global(73, 90).unwrap());
        let expected = NodeThresholds {
            contour_radius_deg: 10.0,
            core_radius_deg: 10.0,
            core_search_deg: 6.0,
            wind_radius_deg: 6.0,
            ..published
        };
        assert_eq!(coarse, expected);
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused_by_name() {
        assert!(TempestThresholds::default().check().is_ok());
        type Change = fn(&mut TempestThresholds);
        let changes: [(&str, Change); 8] = [
            ("laplacian_points", |t| t.ridge.laplacian_points = 0),
            ("laplacian_points", |t| t.ridge.laplacian_points = 1 << 50),
            ("merge_distance_deg", |t| {
                t.node.merge_distance_deg = f64::NAN;
            }),
            ("core_search_deg", |t| t.node.core_search_deg = -1.0),
            ("min_wind_m_s", |t| t.stitch.min_wind_m_s = f64::NAN),
            ("max_surface_height_m", |t| {
                t.stitch.max_surface_height_m = f64::NAN;
            }),
            ("max_laplacian", |t| t.ridge.max_laplacian = f64::NAN),
            ("cyclone_distance_deg", |t| {
                t.ridge.cyclone_distance_deg = -8.0;
            }),
        ];
        for (name, change) in changes {
            let mut thresholds = TempestThresholds::default();
            change(&mut thresholds);
            let error = thresholds.check().unwrap_err().to_string();
            assert!(error.contains(name), "{name}: {error}");
        }
        let anywhere = StitchThresholds {
            max_surface_height_m: f64::INFINITY,
            ..StitchThresholds::default()
        };
        let thresholds = TempestThresholds {
            stitch: anywhere,
            ..TempestThresholds::default()
        };
        assert!(thresholds.check().is_ok());
    }
}
