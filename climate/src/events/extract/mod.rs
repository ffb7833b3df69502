//! Extracts the events of a class mask, and describes each by the fields inside it, if there are any.

use crate::derived::vapour_transport_proxy;
use crate::error::{ClimateError, Result};
use crate::events::centre::move_to_eyes;
use crate::events::components::{Region, regions};
use crate::events::cyclone_wind::raise_wind;
use crate::events::shape::{bounding_box_deg, measure};
use crate::events::{Event, EventDetails};
use crate::map::LandMask;
use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};
use squall_data::{Class, ClassMask, LatLonGrid, Snapshot, Time, Variable};

/// Which regions count as events.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtractOptions {
    /// Smallest cyclone, km². Default 20,000: a disc of 80 km radius, under the gale area of the smallest cyclones.
    pub min_tropical_cyclone_km2: f64,
    /// Smallest river, km². Default 300,000: 1,500 km (the length test of the DeepCAM labels) by 200 km. For
    /// comparison, TempestExtremes' published command has 400,000 and the members of TECA-BARD 353,000 to 5,000,000.
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

    /// For masks whose own rules have chosen their objects: cyclones of any size, rivers as usual. The mask of a cyclone
    /// may be its eye, which is smaller the stronger the storm; what rules call a river is not an event at any size,
    /// because cyclones and edges cut pieces off.
    pub fn of_rules() -> Self {
        Self {
            min_tropical_cyclone_km2: 0.0,
            ..Self::default()
        }
    }

    /// The smallest area of a class, km².
    pub fn min_area_km2(&self, class: Class) -> f64 {
        match class {
            Class::Background | Class::ExtratropicalCyclone | Class::TropicalDepression => 0.0,
            Class::TropicalCyclone => self.min_tropical_cyclone_km2,
            Class::AtmosphericRiver => self.min_atmospheric_river_km2,
        }
    }
}

/// What is known at the time of a mask besides the mask. What is absent stays blank in the events.
#[derive(Debug, Clone, Default)]
pub struct EventFields<'a> {
    /// Fields on the mask's grid; any of PSL, UBOT, VBOT (else U850, V850), TMQ and PRECT are used.
    pub snapshot: Option<&'a Snapshot>,
    /// Probability of a class, `(lat, lon)`.
    pub probabilities: Vec<(Class, ArrayView2<'a, f32>)>,
    /// Where land is, for landfall.
    pub land: Option<&'a LandMask>,
    /// Size of the vapour transport, kg m-1 s-1, `(lat, lon)`, where it is known and needs no stand-in.
    pub transport: Option<ArrayView2<'a, f32>>,
    /// Whether this time has fields that could not be read and are therefore missing here.
    pub unread: bool,
}

/// Vapour transport of every cell.
#[derive(Debug, Clone, Copy)]
pub enum CellTransport<'a> {
    /// As the fields have it.
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
    /// Fields only.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot: Some(snapshot),
            ..Self::default()
        }
    }

    /// Vapour transport of every cell: [`Self::transport`], else its stand-in.
    pub fn vapour_transport(&self) -> Option<CellTransport<'a>> {
        (self.transport.map(CellTransport::True)).or_else(|| self.transport_proxy())
    }

    /// The stand-in, where TMQ, U850 and V850 are known.
    pub(super) fn transport_proxy(&self) -> Option<CellTransport<'a>> {
        let planes = [Variable::Tmq, Variable::U850, Variable::V850].map(|v| self.plane(v));
        let [tmq, u, v] = planes;
        Some(CellTransport::Proxy([tmq?, u?, v?]))
    }

    /// The wind near the ground, else that at 850 hPa.
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
        for found in planes.chain(fields).chain(land).chain(transport) {
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

/// An event with the cells it covers; what the tracker is fed with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DetectedEvent {
    /// Its properties.
    pub event: Event,
    /// Its cells.
    pub region: Region,
}

/// The events of a mask, by class, then from west to east by the centroid of their area, then from south to north.
///
/// Position, box, length, width and orientation are measured on the sphere (`events/shape.rs`). With fields: a
/// cyclone's centre is where sea-level pressure is lowest, inside or, where a minimum lies downhill from there in the
/// next cell or within 300 km, in that (masks by wind leave out the eye; where pressure falls on, at the deepest
/// minimum inside), to a fraction of a cell by parabolas through its neighbours; other extremes are over the cells,
/// precipitation is weighted by area. Wind is that of the lowest level (UBOT, VBOT); without it that at 850 hPa (U850,
/// V850), of which the surface wind over sea is about 0.8 (Franklin et al. 2003), so that categories come out high. That
/// of a tropical cyclone is also looked for within [`crate::events::cyclone_wind_deg`] of its centre. Missing values are
/// left out; where all are missing the property is blank.
///
/// # Errors
/// [`ClimateError::Mismatch`] if mask, grid and fields differ in shape or time, [`ClimateError::Invalid`] on an unknown
/// class code.
pub fn extract(
    mask: &ClassMask,
    grid: &LatLonGrid,
    fields: &EventFields<'_>,
    options: &ExtractOptions,
) -> Result<Vec<DetectedEvent>> {
    Ok(extract_counting(mask, grid, fields, options)?.0)
}

/// As [`extract()`], and how many areas of cyclones were too small.
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
            DetectedEvent { event, region },
        ));
    }
    move_to_eyes(&mut found, grid, fields);
    for (_, detected) in &mut found {
        raise_wind(&mut detected.event, grid, fields);
        let details = EventDetails::of(detected, grid, &areas, fields);
        detected.event.details = details;
    }
    Ok((in_order(found), small_cyclones))
}

/// Sorts events by class, then from west to east and from south to north by the (longitude, latitude) beside each.
pub(super) fn in_order(mut found: Vec<((f64, f64), DetectedEvent)>) -> Vec<DetectedEvent> {
    found.sort_by(|(a, x), (b, y)| {
        let class = x.event.class.cmp(&y.event.class);
        class.then(a.0.total_cmp(&b.0)).then(a.1.total_cmp(&b.1))
    });
    found.into_iter().map(|(_, detected)| detected).collect()
}

/// The event of a connected area of a class: its shape, and the extremes and means of the fields inside it.
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
