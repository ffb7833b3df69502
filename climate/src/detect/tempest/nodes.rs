//! Lows with closed contours and warm cores at one time: `DetectNodes`.

use super::thresholds::NodeThresholds;
use crate::closed_low::{ClosedLow, Walker};
use crate::derived::check_shape;
use crate::detect::transport::DetectFields;
use crate::error::Result;
use crate::label::{CycloneCandidate, planes};
use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};
use squall_data::{LatLonGrid, Snapshot, Variable};

/// A low that meets all criteria at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Row and column of the pressure minimum.
    pub cell: (usize, usize),
    /// Latitude of the cell.
    pub lat_deg: f64,
    /// Longitude of the cell, [0, 360).
    pub lon_deg: f64,
    /// Sea-level pressure there, Pa.
    pub min_psl_pa: f64,
    /// Strongest lowest-level wind near it, m s-1; 0 if unknown.
    pub max_wind_m_s: f64,
    /// Height of the ground there, m, if PS, PSL and TREFHT are available.
    pub surface_height_m: Option<f64>,
    /// Its track; `None` before stitching, and where the input is too short to stitch.
    pub track_id: Option<u64>,
}

impl Node {
    /// Converts to a candidate of the DeepCAM recipe, for tables of objects.
    pub(super) fn as_candidate(&self) -> CycloneCandidate {
        CycloneCandidate {
            lat_deg: self.lat_deg,
            lon_deg: self.lon_deg,
            min_psl_pa: self.min_psl_pa,
            vorticity_per_s: f64::NAN,
            max_wind_m_s: self.max_wind_m_s,
            warm_core: true,
            thick_core: true,
            core_temperature_k: None,
            core_thickness_m: None,
            track_id: self.track_id,
        }
    }
}

/// The lows with a closed contour and no deeper low nearby, from south to north: cyclones of all kinds.
///
/// # Errors
/// [`crate::ClimateError::Mismatch`] if the field does not have the grid's shape.
pub fn closed_lows(
    psl_pa: ArrayView2<'_, f32>,
    grid: &LatLonGrid,
    thresholds: &NodeThresholds,
) -> Result<Vec<(usize, usize)>> {
    check_shape("sea-level pressure", &psl_pa, grid)?;
    let criteria = ClosedLow {
        rise: thresholds.contour_rise_pa,
        radius_deg: thresholds.contour_radius_deg,
        merge_deg: thresholds.merge_distance_deg,
        latitudes_deg: (0.0, 90.0),
        edge: thresholds.domain_edge,
    };
    Ok(criteria.find(psl_pa, grid))
}

/// The fields that show a warm core.
enum Core<'a> {
    /// Height of 300 hPa, as published, or of 250 hPa above 500 hPa.
    Upper(ArrayView2<'a, f32>),
    /// T200, T500, Z200, Z1000.
    Substitute([ArrayView2<'a, f32>; 4]),
}

impl<'a> Core<'a> {
    fn from_fields(fields: &'a DetectFields) -> Result<Self> {
        use Variable::{T200, T500, Z200, Z1000};
        if let Some(upper) = &fields.upper_thickness_m {
            check_shape(
                "thickness of the upper layer",
                &upper.view(),
                &fields.snapshot.grid,
            )?;
            return Ok(Self::Upper(upper.view()));
        }
        let needed = [T200, T500, Z200, Z1000];
        planes(&fields.snapshot, "the warm core of a cyclone", needed).map(Self::Substitute)
    }

    fn is_warm(&self, walker: &mut Walker<'_>, low: (usize, usize), t: &NodeThresholds) -> bool {
        // Maxima and their contours are searched for as minima of the negated field.
        let mut falls = |negative: &dyn Fn(usize, usize) -> f32, fall: f64| {
            let field = |j: usize, i: usize| negative(j, i);
            let top = walker.lowest_near(&field, low, t.core_search_deg);
            walker.contour(&field, top, fall, t.core_radius_deg).closed
        };
        match self {
            Self::Upper(plane) => falls(&|j, i| -plane[[j, i]], t.upper_thickness_fall_m),
            Self::Substitute([t200, t500, z200, z1000]) => {
                let cold = |j: usize, i: usize| -0.5 * (t200[[j, i]] + t500[[j, i]]);
                let thin = |j: usize, i: usize| z1000[[j, i]] - z200[[j, i]];
                falls(&thin, t.substitute_fall_m) && falls(&cold, t.substitute_fall_k)
            }
        }
    }
}

/// Whether a low has a warm core, by the height of an upper pressure level above 500 hPa.
pub(in crate::detect) fn is_warm_above(
    upper_thickness_m: ArrayView2<'_, f32>,
    walker: &mut Walker<'_>,
    low: (usize, usize),
    thresholds: &NodeThresholds,
) -> bool {
    Core::Upper(upper_thickness_m).is_warm(walker, low, thresholds)
}

/// The nodes of one time, from south to north.
pub(super) fn nodes(fields: &DetectFields, thresholds: &NodeThresholds) -> Result<Vec<Node>> {
    use Variable::{Psl, Ubot, Vbot};
    let snapshot = &fields.snapshot;
    let grid = snapshot.grid.as_ref();
    let [psl, u, v] = planes(snapshot, "the tempest cyclones", [Psl, Ubot, Vbot])?;
    let core = Core::from_fields(fields)?;
    let mut walker = Walker::new(grid, thresholds.domain_edge);
    let lows = closed_lows(psl, grid, thresholds)?;
    let warm = lows
        .into_iter()
        .filter(|&low| core.is_warm(&mut walker, low, thresholds));
    let warm: Vec<(usize, usize)> = warm.collect();
    let ground = Ground::from_snapshot(snapshot);
    let calm = |j: usize, i: usize| -u[[j, i]].hypot(v[[j, i]]);
    let describe = |cell: (usize, usize)| {
        let windy = walker.lowest_near(&calm, cell, thresholds.wind_radius_deg);
        let wind = f64::from(-calm(windy.0, windy.1));
        Node {
            cell,
            lat_deg: grid.lat_deg()[cell.0],
            lon_deg: grid.lon_deg()[cell.1],
            min_psl_pa: f64::from(psl[cell]),
            max_wind_m_s: if wind.is_nan() { 0.0 } else { wind },
            surface_height_m: ground.as_ref().and_then(|g| g.height_m(cell)),
            track_id: None,
        }
    };
    Ok(warm.into_iter().map(describe).collect())
}

/// The fields from which the height of the ground is computed; it is not a channel itself.
struct Ground<'a> {
    ps: ArrayView2<'a, f32>,
    psl: ArrayView2<'a, f32>,
    temperature: ArrayView2<'a, f32>,
}

impl<'a> Ground<'a> {
    fn from_snapshot(snapshot: &'a Snapshot) -> Option<Self> {
        Some(Self {
            ps: snapshot.field(Variable::Ps)?,
            psl: snapshot.field(Variable::Psl)?,
            temperature: snapshot.field(Variable::Trefht)?,
        })
    }

    /// Inverts the reduction to sea level: R/g · T · ln(PSL/PS), with T in the middle of the layer by 6.5 K/km.
    fn height_m(&self, cell: (usize, usize)) -> Option<f64> {
        let [ps, psl, t] = [&self.ps, &self.psl, &self.temperature].map(|f| f64::from(f[cell]));
        let depth = 29.27 * (psl / ps).ln();
        let height = depth * t / (1.0 - 0.003_25 * depth);
        height.is_finite().then_some(height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array3;
    use squall_data::{Calendar, Time};
    use std::sync::Arc;

    /// Pressure and temperature of the standard atmosphere: 101,325 Pa and 288.15 K at sea level, 6.5 K/km.
    #[test]
    fn the_ground_is_as_high_as_in_the_standard_atmosphere() {
        let height_m = |ps: f32, temperature: f32, last: Variable| {
            let values = [temperature, ps, 101_325.0];
            let snapshot = Snapshot {
                time: Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap(),
                grid: Arc::new(LatLonGrid::global(4, 4).unwrap()),
                variables: vec![Variable::Trefht, Variable::Ps, last],
                fields: Array3::from_shape_fn((3, 4, 4), |(k, _, _)| values[k]),
                source: ("air".into(), 0),
            };
            let ground = Ground::from_snapshot(&snapshot)?;
            ground.height_m((1, 2))
        };
        for (expected, ps, temperature) in [
            (0.0, 101_325.0, 288.15),
            (150.0, 99_536.0, 287.175),
            (1000.0, 89_874.6, 281.65),
            (3000.0, 70_108.5, 268.65),
        ] {
            let found = height_m(ps, temperature, Variable::Psl).unwrap();
            assert!((found - expected).abs() < 2.0, "{found} for {expected}");
        }
        assert_eq!(height_m(f32::NAN, 288.15, Variable::Psl), None);
        assert_eq!(height_m(101_325.0, 288.15, Variable::Tmq), None);
    }
}
