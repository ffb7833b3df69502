//! Pass one, the classes that only have boxes: candidates of extratropical cyclones and tropical depressions at one
//! time.

use super::candidates::{CycloneCandidate, CycloneFields};
use super::low_thresholds::EtcThresholds;
use super::sampling::lowest_near;
use super::thresholds::TcThresholds;
use crate::closed_low::{ClosedLow, DomainEdge};
use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};
use squall_data::grid::distance_km;
use squall_data::{BoxClass, LatLonGrid};

/// A closed low at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LowCandidate {
    /// Extratropical cyclone or tropical depression.
    pub class: BoxClass,
    /// Latitude of the pressure minimum, to a fraction of a cell.
    pub lat_deg: f64,
    /// Longitude of the pressure minimum, [0, 360).
    pub lon_deg: f64,
    /// Pressure, Pa: of extratropical cyclones that of the lowest cell, as data and events have it; of depressions that
    /// at the position.
    pub min_psl_pa: f64,
    /// Wind of the vortex itself at the lowest level, without the flow around it, m s-1; `None` for extratropical
    /// cyclones.
    pub wind_m_s: Option<f64>,
    /// Its track; `None` before tracking, and where the input is too short to track.
    pub track_id: Option<u64>,
}

impl LowCandidate {
    /// Great-circle distance to a position, km.
    pub(super) fn distance_km(&self, lat_deg: f64, lon_deg: f64) -> f64 {
        distance_km(self.lat_deg, self.lon_deg, lat_deg, lon_deg)
    }
}

/// The lows of one time, each class from south to north.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lows {
    /// Extratropical cyclones.
    pub extratropical: Vec<LowCandidate>,
    /// Tropical depressions, including those that are storms at this time: only their tracks show what belongs
    /// together.
    pub depressions: Vec<LowCandidate>,
}

/// Closed lows of sea-level pressure (Pa) poleward of the tropics without a warm core. `is_warm` checks for one, given
/// the cell of the minimum and its interpolated latitude and longitude.
pub(crate) fn extratropical(
    psl: ArrayView2<'_, f32>,
    grid: &LatLonGrid,
    low: &EtcThresholds,
    mut is_warm: impl FnMut((usize, usize), (f64, f64)) -> bool,
) -> Vec<LowCandidate> {
    let closed = ClosedLow {
        rise: low.contour_rise_pa,
        radius_deg: low.contour_radius_deg,
        merge_deg: low.merge_radius_deg,
        latitudes_deg: (low.min_latitude_deg, low.max_latitude_deg),
        edge: DomainEdge::Open,
    };
    let pressure = |j: usize, i: usize| f64::from(psl[[j, i]]);
    let cell_deg = grid.lat_spacing_deg().min(grid.lon_spacing_deg());
    closed
        .find(psl, grid)
        .into_iter()
        .filter_map(|(j, i)| {
            let cell = (grid.lat_deg()[j], grid.lon_deg()[i]);
            let centre = lowest_near(grid, &pressure, cell, 0.5 * cell_deg)?;
            (!is_warm((j, i), (centre.lat_deg, centre.lon_deg))).then_some(LowCandidate {
                class: BoxClass::ExtratropicalCyclone,
                lat_deg: centre.lat_deg,
                lon_deg: centre.lon_deg,
                // Between coarse cells the parabolas fall hectopascals below all of them.
                min_psl_pa: pressure(j, i),
                wind_m_s: None,
                track_id: None,
            })
        })
        .collect()
}

/// Vorticity maxima in the tropics with a closed low, a warm core and a circulation.
pub(super) fn depressions(
    fields: &CycloneFields<'_>,
    thresholds: &TcThresholds,
    min_wind_m_s: f64,
) -> Vec<LowCandidate> {
    let low = |candidate: CycloneCandidate| LowCandidate {
        class: BoxClass::TropicalDepression,
        lat_deg: candidate.lat_deg,
        lon_deg: candidate.lon_deg,
        min_psl_pa: candidate.min_psl_pa,
        wind_m_s: Some(fields.vortex_wind_m_s((candidate.lat_deg, candidate.lon_deg))),
        track_id: None,
    };
    let found = fields.candidates(thresholds).into_iter();
    let found = found.filter(|c| c.warm_core).map(low);
    let has_circulation =
        |low: &LowCandidate| low.wind_m_s.is_some_and(|wind| wind >= min_wind_m_s);
    found.filter(has_circulation).collect()
}
