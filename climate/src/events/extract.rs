//! From a class mask, and fields if there are any, to events.

use crate::derived::vapour_transport_proxy;
use crate::error::{ClimateError, Result};
use crate::events::centre::move_to_eyes;
use crate::events::components::{Region, regions};
use crate::events::shape::{bounding_box_deg, measure};
use crate::events::{Event, EventDetails};
use crate::map::LandMask;
use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};
use squall_data::snapshot::shape_text;
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
    /// Whether there are fields that could not be read, so that they are none of these.
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
    /// Of a cell, kg m-1 s-1.
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
                return Err(ClimateError::Mismatch {
                    what: "fields and mask".into(),
                    expected: shape_text(&[rows, columns]),
                    found: shape_text(&[found.0, found.1]),
                });
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
/// Position, box, length, width and orientation as in [`crate::events::shape`]. With fields: a cyclone's centre is
/// where sea-level pressure is lowest, inside or, where a minimum lies downhill from there in the next cell or within
/// 300 km, in that (masks by wind leave out the eye; where pressure falls on, at the deepest minimum inside), to a
/// fraction of a cell by parabolas through its neighbours; other extremes are over the cells, precipitation is weighted
/// by area. Wind is that of the lowest level (UBOT, VBOT); without it that at 850 hPa (U850, V850), of which the
/// surface wind over sea is about 0.8 (Franklin et al. 2003), so that categories come out high. Missing values are left
/// out; where all are missing the property is blank.
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
    fields.check(grid)?;
    fields.check_time(mask.time)?;
    let areas = grid.row_areas_km2();
    let mut found: Vec<((f64, f64), DetectedEvent)> = Vec::new();
    for region in regions(mask.codes.view(), grid)? {
        if region.area_km2(&areas) < options.min_area_km2(region.class) {
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
        let details = EventDetails::of(detected, grid, &areas, fields);
        detected.event.details = details;
    }
    Ok(in_order(found))
}

/// By class, then from west to east by the place that stands with each, then from south to north.
pub(super) fn in_order(mut found: Vec<((f64, f64), DetectedEvent)>) -> Vec<DetectedEvent> {
    found.sort_by(|(a, x), (b, y)| {
        let class = x.event.class.cmp(&y.event.class);
        class.then(a.0.total_cmp(&b.0)).then(a.1.total_cmp(&b.1))
    });
    found.into_iter().map(|(_, detected)| detected).collect()
}

/// What is known of a connected area of a class.
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
    let wind = |u, v| fields.plane(u).zip(fields.plane(v));
    let lowest = wind(Variable::Ubot, Variable::Vbot);
    let wind = lowest.or_else(|| wind(Variable::U850, Variable::V850));
    let max_wind_m_s = wind.and_then(|(u, v)| {
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
mod tests {
    use super::*;
    use ndarray::{Array2, Array3};
    use proptest::prelude::*;
    use squall_data::grid::{distance_km, lon_difference_deg};
    use squall_data::{Calendar, Time};
    use std::sync::Arc;

    fn time() -> Time {
        Time::new(Calendar::NoLeap, 1996, 8, 26, 3, 0, 0).unwrap()
    }

    /// A storm of 600 km radius whose pressure is lowest `offset` degrees from the middle of its mask.
    fn storm(grid: &Arc<LatLonGrid>, lat: f64, lon: f64) -> (ClassMask, Snapshot) {
        let around = |radius: f64, j: usize, i: usize| {
            distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]) < radius
        };
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| u8::from(around(600.0, j, i)));
        let variables = vec![
            Variable::Psl,
            Variable::Ubot,
            Variable::Vbot,
            Variable::Prect,
        ];
        let (rows, columns) = grid.shape();
        let fields = Array3::from_shape_fn((4, rows, columns), |(k, j, i)| {
            let d = distance_km(lat + 1.3, lon - 0.9, grid.lat_deg()[j], grid.lon_deg()[i]);
            match k {
                0 => 95_000.0 + 0.01 * (d * d) as f32,
                1 => 30.0 * (-(d / 300.0).powi(2)).exp() as f32,
                2 => 40.0 * (-(d / 300.0).powi(2)).exp() as f32,
                _ => 1e-7,
            }
        });
        let snapshot = Snapshot {
            time: time(),
            grid: grid.clone(),
            variables,
            fields,
            source: ("storm".into(), 0),
        };
        (ClassMask::new(time(), codes).unwrap(), snapshot)
    }

    #[test]
    fn fields_give_centre_and_extremes() {
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        let (mask, snapshot) = storm(&grid, -20.0, 0.3);
        let found = extract(
            &mask,
            &grid,
            &EventFields::of(&snapshot),
            &ExtractOptions::default(),
        );
        let event = &found.unwrap()[0].event;
        // The pressure minimum, to a tenth of the one-degree cells, and over the seam.
        let miss = distance_km(-18.7, 359.4, event.lat_deg, event.lon_deg);
        assert!(miss < 11.0, "{miss} km off: {event:?}");
        assert!(event.west_deg > 350.0 && event.east_deg < 10.0);
        assert!((event.max_wind_m_s.unwrap() - 50.0).abs() < 2.5);
        assert!((event.min_psl_pa.unwrap() - 95_000.0).abs() < 60.0);
        assert!((event.mean_prect_m_s.unwrap() / 1e-7 - 1.0).abs() < 1e-6);
        assert_eq!((event.max_tmq_kg_m2, event.mean_probability), (None, None));
    }

    #[test]
    fn an_eye_that_the_mask_leaves_out_is_the_centre_and_no_farther_low() {
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        let (mut mask, snapshot) = storm(&grid, -20.0, 0.3);
        let event = |mask: &ClassMask| {
            let fields = EventFields::of(&snapshot);
            let mut found = extract(mask, &grid, &fields, &ExtractOptions::everything()).unwrap();
            assert_eq!(found.len(), 1);
            found.remove(0).event
        };
        let eye = (-18.7, 359.4);
        let off_eye = |lat: f64, lon: f64| distance_km(eye.0, eye.1, lat, lon);
        let whole = event(&mask);
        let (lat, lon) = (grid.lat_deg().to_vec(), grid.lon_deg().to_vec());
        for ((j, i), code) in mask.codes.indexed_iter_mut() {
            *code *= u8::from(off_eye(lat[j], lon[i]) > 150.0);
        }
        let ring = event(&mask);
        assert!(off_eye(ring.lat_deg, ring.lon_deg) < 11.0, "{ring:?}");
        assert_eq!(ring.min_psl_pa, whole.min_psl_pa);
        // What is left is 500 km and more from the eye: downhill, but another storm's.
        for ((j, i), code) in mask.codes.indexed_iter_mut() {
            *code *= u8::from(off_eye(lat[j], lon[i]) > 500.0 && lat[j] < -22.0);
        }
        let piece = event(&mask);
        assert!(off_eye(piece.lat_deg, piece.lon_deg) > 480.0, "{piece:?}");
        assert!(piece.min_psl_pa > Some(97_000.0), "{piece:?}");
    }

    #[test]
    fn of_two_masks_about_one_eye_the_nearer_has_it() {
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        let (mut mask, snapshot) = storm(&grid, -20.0, 0.3);
        let (lat, lon) = (grid.lat_deg().to_vec(), grid.lon_deg().to_vec());
        // A half of the ring 120 km and more from the eye in the west, one 230 km and more from it in the east.
        for ((j, i), code) in mask.codes.indexed_iter_mut() {
            let off = distance_km(-18.7, 359.4, lat[j], lon[i]);
            let east = lon_difference_deg(lon[i], 359.4);
            *code *= u8::from(east < -0.6 && off > 120.0 || east > 0.6 && off > 230.0);
        }
        let fields = EventFields::of(&snapshot);
        let found = extract(&mask, &grid, &fields, &ExtractOptions::everything()).unwrap();
        let mut off: Vec<f64> = (found.iter())
            .map(|f| distance_km(-18.7, 359.4, f.event.lat_deg, f.event.lon_deg))
            .collect();
        off.sort_by(f64::total_cmp);
        assert_eq!(off.len(), 2);
        assert!(off[0] < 11.0 && off[1] > 200.0, "{off:?}");
    }

    #[test]
    fn of_two_masks_of_equal_pressure_one_has_the_eye() {
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        // The eye at 0E, between two columns that mirror each other.
        let (mut mask, mut snapshot) = storm(&grid, -20.3, 0.9);
        let lat = grid.lat_deg().to_vec();
        for ((j, i), code) in mask.codes.indexed_iter_mut() {
            *code = u8::from((-22.0..=-16.0).contains(&lat[j]) && [2, 3, 357, 358].contains(&i));
        }
        for j in 0..181 {
            for i in 1..180 {
                snapshot.fields[[0, j, 360 - i]] = snapshot.fields[[0, j, i]];
            }
        }
        let fields = EventFields::of(&snapshot);
        let found = extract(&mask, &grid, &fields, &ExtractOptions::everything()).unwrap();
        assert_eq!(found.len(), 2);
        let near = |one: &&DetectedEvent| {
            distance_km(-19.0, 0.0, one.event.lat_deg, one.event.lon_deg) < 60.0
        };
        assert_eq!(found.iter().filter(near).count(), 1, "{found:?}");
    }

    #[test]
    fn a_low_inside_is_the_centre_and_not_the_edge_towards_a_deeper_one() {
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        let (mask, mut snapshot) = storm(&grid, 40.0, 200.0);
        for ((j, i), pa) in snapshot
            .fields
            .index_axis_mut(ndarray::Axis(0), 0)
            .indexed_iter_mut()
        {
            let off =
                |lat: f64, lon: f64| distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]);
            let well =
                |depth: f64, off_km: f64, wide_km: f64| depth * (-(off_km / wide_km).powi(2)).exp();
            *pa = (101_000.0
                - well(800.0, off(40.0, 200.0), 200.0)
                - well(6000.0, off(55.0, 200.0), 900.0)) as f32;
        }
        let fields = EventFields::of(&snapshot);
        let found = extract(&mask, &grid, &fields, &ExtractOptions::everything()).unwrap();
        let event = &found[0].event;
        assert!(
            distance_km(40.0, 200.0, event.lat_deg, event.lon_deg) < 160.0,
            "{event:?}"
        );
    }

    #[test]
    fn without_fields_properties_are_blank_and_small_regions_go() {
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        let (mut mask, mut snapshot) = storm(&grid, 15.0, 200.0);
        mask.codes[[30, 30]] = 1; // one cell of 11,000 km²
        let none = EventFields::default();
        let found = extract(&mask, &grid, &none, &ExtractOptions::default()).unwrap();
        assert_eq!((found.len(), found[0].event.min_psl_pa), (1, None));
        let all = extract(&mask, &grid, &none, &ExtractOptions::everything()).unwrap();
        assert_eq!(all.len(), 2);
        snapshot.fields.fill(f32::NAN);
        let blank = extract(
            &mask,
            &grid,
            &EventFields::of(&snapshot),
            &ExtractOptions::default(),
        );
        assert_eq!(blank.unwrap()[0].event, found[0].event);
        snapshot.time = snapshot.time.add_seconds(3600);
        let error = extract(
            &mask,
            &grid,
            &EventFields::of(&snapshot),
            &ExtractOptions::default(),
        );
        assert!(error.unwrap_err().to_string().contains("1996-08-26T04"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn rolled_and_mirrored_masks_give_rolled_and_mirrored_events(lat in -60.0..60.0f64, lon in 0.0..360.0f64, shift in 0usize..144) {
            let grid = Arc::new(LatLonGrid::global(73, 144).unwrap());
            let (mask, snapshot) = storm(&grid, lat, lon);
            let moved = |mirror: bool| {
                let from = |j: usize, i: usize| (if mirror { 72 - j } else { j }, (i + 144 - shift) % 144);
                let codes = Array2::from_shape_fn((73, 144), |(j, i)| mask.codes[from(j, i)]);
                let fields = Array3::from_shape_fn(snapshot.fields.dim(), |(k, j, i)| {
                    let (j, i) = from(j, i);
                    snapshot.fields[[k, j, i]]
                });
                let snapshot = Snapshot { fields, ..snapshot.clone() };
                let mask = ClassMask { time: mask.time, codes };
                extract(&mask, &grid, &EventFields::of(&snapshot), &ExtractOptions::everything()).unwrap()
            };
            let plain = extract(&mask, &grid, &EventFields::of(&snapshot), &ExtractOptions::everything()).unwrap();
            prop_assert_eq!(plain.len(), 1);
            let a = &plain[0].event;
            let turn = shift as f64 * 2.5;
            for mirror in [false, true] {
                let found = moved(mirror);
                let b = &found[0].event;
                let sign = if mirror { -1.0 } else { 1.0 };
                prop_assert!(distance_km(sign * a.lat_deg, a.lon_deg + turn, b.lat_deg, b.lon_deg) < 1e-3);
                prop_assert!((a.area_km2 - b.area_km2).abs() < 1e-3);
                // A cell on the border of two slices may fall to either.
                prop_assert!((a.length_km / b.length_km - 1.0).abs() < 0.05);
                prop_assert!(((a.west_deg + turn - b.west_deg + 180.0).rem_euclid(360.0) - 180.0).abs() < 1e-9);
                prop_assert_eq!(a.max_wind_m_s, b.max_wind_m_s);
                prop_assert_eq!(a.min_psl_pa, b.min_psl_pa);
                if !mirror {
                    // Where the storm is nearly round the axis has no direction; then only its length is compared.
                    let turned = (a.orientation_deg - b.orientation_deg).abs();
                    prop_assert!(turned.min(180.0 - turned) < 0.1 || a.length_km < 1.1 * a.width_km * 4.0 / std::f64::consts::PI);
                }
            }
        }
    }
}
