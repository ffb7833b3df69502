//! Extracts events from a class mask and describes each by the fields inside it, if there are any.

use crate::derived::vapour_transport_proxy;
use crate::error::{ClimateError, Result};
use crate::events::centre::move_to_eyes;
use crate::events::components::{Region, regions};
use crate::events::cyclone_wind::raise_wind;
use crate::events::shape::{bounding_box_deg, measure};
use crate::events::{Event, EventDetails, RiverOnLand};
use crate::map::LandMask;
use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};
use squall_data::{Class, ClassMask, LatLonGrid, Snapshot, Time, Variable};

/// The minimum size of regions that count as events.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtractOptions {
    /// Minimum area of a cyclone, km². Default 20,000: a disc of 80 km radius, less than the gale area of the smallest
    /// cyclones.
    pub min_tropical_cyclone_km2: f64,
    /// Minimum area of a river, km². Default 300,000: 1,500 km (the length criterion of the DeepCAM labels) by 200 km.
    /// For comparison, TempestExtremes' published command uses 400,000 and the members of TECA-BARD 353,000 to
    /// 5,000,000.
    pub min_atmospheric_river_km2: f64,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self {
            min_tropical_cyclone_km2: 20_000.0,
            min_atmospheric_river_km2: 300_000.0,
        }
    }
}

impl ExtractOptions {
    /// Every region counts, whatever its size.
    pub fn everything() -> Self {
        Self {
            min_tropical_cyclone_km2: 0.0,
            min_atmospheric_river_km2: 0.0,
        }
    }

    /// For masks whose rules already selected their objects: cyclones of any size, rivers with the usual minimum. The
    /// mask of a cyclone may contain only its eye, which is smaller for stronger storms. Rivers keep their minimum
    /// because cyclones and domain edges cut off pieces that are not events.
    pub fn of_rules() -> Self {
        Self {
            min_tropical_cyclone_km2: 0.0,
            ..Self::default()
        }
    }

    /// The minimum area of a class, km².
    pub fn min_area_km2(&self, class: Class) -> f64 {
        match class {
            Class::Background | Class::ExtratropicalCyclone | Class::TropicalDepression => 0.0,
            Class::TropicalCyclone => self.min_tropical_cyclone_km2,
            Class::AtmosphericRiver => self.min_atmospheric_river_km2,
        }
    }
}

/// Data available at the time of a mask besides the mask. Properties that depend on absent data stay blank.
#[derive(Debug, Clone, Default)]
pub struct EventFields<'a> {
    /// Fields on the mask's grid: PSL, UBOT, VBOT (or U850, V850), TMQ and PRECT are used if present.
    pub snapshot: Option<&'a Snapshot>,
    /// Probabilities per class, `(lat, lon)`.
    pub probabilities: Vec<(Class, ArrayView2<'a, f32>)>,
    /// Land mask, for landfall.
    pub land: Option<&'a LandMask>,
    /// Magnitude of the vapour transport, kg m-1 s-1, `(lat, lon)`, if known without a proxy.
    pub transport: Option<ArrayView2<'a, f32>>,
    /// The cells in which the mask is missing; they do not count in frequency maps.
    pub missing: Option<ArrayView2<'a, bool>>,
    /// Whether this time has fields that could not be read and are therefore absent here.
    pub unread: bool,
}

/// Vapour transport of every cell.
#[derive(Debug, Clone, Copy)]
pub enum CellTransport<'a> {
    /// From the fields.
    True(ArrayView2<'a, f32>),
    /// [`vapour_transport_proxy`] of TMQ, U850 and V850.
    Proxy([ArrayView2<'a, f32>; 3]),
}

impl CellTransport<'_> {
    /// The vapour transport of a cell, kg m-1 s-1.
    pub fn at(&self, cell: (usize, usize)) -> f64 {
        match self {
            Self::True(transport) => f64::from(transport[cell]),
            Self::Proxy(planes) => {
                let [tmq, u, v] = planes.map(|plane| f64::from(plane[cell]));
                vapour_transport_proxy(tmq, u, v)
            }
        }
    }
}

impl<'a> EventFields<'a> {
    /// Only the fields of a snapshot.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot: Some(snapshot),
            ..Self::default()
        }
    }

    /// Vapour transport of every cell: [`Self::transport`], or its proxy if that is absent.
    pub fn vapour_transport(&self) -> Option<CellTransport<'a>> {
        (self.transport.map(CellTransport::True)).or_else(|| self.transport_proxy())
    }

    /// The proxy, if TMQ, U850 and V850 are known.
    pub(super) fn transport_proxy(&self) -> Option<CellTransport<'a>> {
        let planes = [Variable::Tmq, Variable::U850, Variable::V850].map(|v| self.plane(v));
        let [tmq, u, v] = planes;
        Some(CellTransport::Proxy([tmq?, u?, v?]))
    }

    /// The wind near the ground, or that at 850 hPa if it is absent.
    pub(super) fn wind(&self) -> Option<[ArrayView2<'a, f32>; 2]> {
        let parts = |names: [Variable; 2]| {
            let [u, v] = names.map(|name| self.plane(name));
            Some([u?, v?])
        };
        let lowest = parts([Variable::Ubot, Variable::Vbot]);
        lowest.or_else(|| parts([Variable::U850, Variable::V850]))
    }

    pub(super) fn plane(&self, variable: Variable) -> Option<ArrayView2<'a, f32>> {
        self.snapshot.and_then(|s| s.field(variable))
    }

    pub(super) fn check_time(&self, time: Time) -> Result<()> {
        match self.snapshot {
            Some(snapshot) if snapshot.time != time => Err(ClimateError::Mismatch {
                what: "time of fields and events".into(),
                expected: time.to_string(),
                found: snapshot.time.to_string(),
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn check(&self, grid: &LatLonGrid) -> Result<()> {
        let (rows, columns) = grid.shape();
        let planes = self.probabilities.iter().map(|(_, plane)| plane.dim());
        let fields = self.snapshot.map(|s| (s.fields.dim().1, s.fields.dim().2));
        let land = self.land.map(LandMask::dim);
        let transport = self.transport.map(|plane| plane.dim());
        let missing = self.missing.map(|plane| plane.dim());
        for found in planes
            .chain(fields)
            .chain(land)
            .chain(transport)
            .chain(missing)
        {
            if found != (rows, columns) {
                return Err(ClimateError::shapes(
                    "fields and mask",
                    &[rows, columns],
                    &[found.0, found.1],
                ));
            }
        }
        Ok(())
    }
}

/// An event and the cells it covers: the input of the tracker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DetectedEvent {
    /// Its properties.
    pub event: Event,
    /// Its cells.
    pub region: Region,
    /// Rivers in masks: where it reaches land.
    #[serde(default)]
    pub on_land: Option<RiverOnLand>,
}

/// Returns the events of a mask, ordered by class, then from west to east by the centroid of their area, then from
/// south to north.
///
/// Position, box, length, width and orientation are measured on the sphere (`events/shape.rs`). With fields:
///
/// - *Centre* of a cyclone: the cell of lowest sea-level pressure inside. If pressure falls further outside to a
///   minimum in a neighbouring cell or within 300 km, that minimum (masks by wind exclude the eye). If pressure falls
///   beyond that distance, the deepest minimum inside. Parabolas through the neighbours give sub-cell precision.
/// - *Wind*: the highest of the lowest level (UBOT, VBOT), or at 850 hPa (U850, V850) if that is absent. Over sea the
///   surface wind is about 0.8 of the wind at 850 hPa (Franklin et al. 2003), so categories come out too high. For
///   tropical cyclones the search also covers [`crate::events::cyclone_wind_deg`] around the centre.
/// - Other extremes are over the cells; precipitation is weighted by area.
///
/// Missing values are skipped; a property is blank if all of its values are missing.
///
/// # Errors
/// [`ClimateError::Mismatch`] if mask, grid and fields differ in shape or time, [`ClimateError::Invalid`] for an
/// unknown class code.
pub fn extract(
    mask: &ClassMask,
    grid: &LatLonGrid,
    fields: &EventFields<'_>,
    options: &ExtractOptions,
) -> Result<Vec<DetectedEvent>> {
    Ok(extract_counting(mask, grid, fields, options)?.0)
}

/// Like [`extract()`], but also returns the number of cyclone regions that were too small.
///
/// # Errors
/// As [`extract()`].
pub fn extract_counting(
    mask: &ClassMask,
    grid: &LatLonGrid,
    fields: &EventFields<'_>,
    options: &ExtractOptions,
) -> Result<(Vec<DetectedEvent>, usize)> {
    fields.check(grid)?;
    fields.check_time(mask.time)?;
    let areas = grid.row_areas_km2();
    let mut found: Vec<((f64, f64), DetectedEvent)> = Vec::new();
    let mut small_cyclones = 0;
    for region in regions(mask.codes.view(), grid)? {
        if region.area_km2(&areas) < options.min_area_km2(region.class) {
            small_cyclones += usize::from(region.class == Class::TropicalCyclone);
            continue;
        }
        let event = describe(&region, mask.time, grid, &areas, fields);
        found.push((
            (event.lon_deg, event.lat_deg),
            DetectedEvent {
                event,
                region,
                on_land: None,
            },
        ));
    }
    move_to_eyes(&mut found, grid, fields);
    for (_, detected) in &mut found {
        raise_wind(&mut detected.event, grid, fields);
        let details = EventDetails::of(detected, grid, &areas, fields);
        detected.event.details = details;
        detected.on_land = RiverOnLand::where_it_lands(&detected.event, grid, fields);
    }
    Ok((in_order(found), small_cyclones))
}

/// Sorts events by class, then from west to east and from south to north by the given (longitude, latitude).
pub(super) fn in_order(mut found: Vec<((f64, f64), DetectedEvent)>) -> Vec<DetectedEvent> {
    found.sort_by(|(a, x), (b, y)| {
        let class = x.event.class.cmp(&y.event.class);
        class.then(a.0.total_cmp(&b.0)).then(a.1.total_cmp(&b.1))
    });
    found.into_iter().map(|(_, detected)| detected).collect()
}

/// Describes a connected component as an event: its shape, and the extremes and means of the fields inside it.
pub(crate) fn describe(
    region: &Region,
    time: Time,
    grid: &LatLonGrid,
    areas: &[f64],
    fields: &EventFields<'_>,
) -> Event {
    let shape = measure(region, grid, areas);
    let [west_deg, south_deg, east_deg, north_deg] = bounding_box_deg(region, grid);
    let extreme = |plane: Option<ArrayView2<'_, f32>>, pick: fn(f64, f64) -> f64| {
        let plane = plane?;
        let values = region.indices().map(|cell| f64::from(plane[cell]));
        values.filter(|v| v.is_finite()).reduce(pick)
    };
    let mean = |plane: Option<ArrayView2<'_, f32>>| {
        let plane = plane?;
        let (mut sum, mut weight) = (0.0, 0.0);
        for (j, i) in region.indices() {
            let value = f64::from(plane[[j, i]]);
            if value.is_finite() {
                sum += value * areas[j];
                weight += areas[j];
            }
        }
        (weight > 0.0).then(|| sum / weight)
    };
    let max_wind_m_s = fields.wind().and_then(|[u, v]| {
        let speeds = region
            .indices()
            .map(|cell| f64::from(u[cell]).hypot(f64::from(v[cell])));
        speeds.filter(|s| s.is_finite()).reduce(f64::max)
    });
    let probability = fields
        .probabilities
        .iter()
        .find(|(class, _)| *class == region.class);
    Event {
        class: region.class,
        time,
        track_id: None,
        lon_deg: shape.lon_deg,
        lat_deg: shape.lat_deg,
        area_km2: shape.area_km2,
        west_deg,
        south_deg,
        east_deg,
        north_deg,
        length_km: shape.length_km,
        width_km: shape.width_km,
        orientation_deg: shape.orientation_deg,
        min_psl_pa: extreme(fields.plane(Variable::Psl), f64::min),
        max_wind_m_s,
        max_tmq_kg_m2: extreme(fields.plane(Variable::Tmq), f64::max),
        mean_prect_m_s: mean(fields.plane(Variable::Prect)),
        mean_probability: mean(probability.map(|(_, plane)| plane.view())),
        details: EventDetails::default(),
    }
}

#[cfg(test)]
mod tests;
