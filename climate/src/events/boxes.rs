//! Converts boxes to events and describes each event by the fields inside its box, if there are any.

use crate::error::Result;
use crate::events::centre::move_to_lows;
use crate::events::components::{Region, Run};
use crate::events::cyclone_wind::{pressure_around, wind_around};
use crate::events::extract::{DetectedEvent, EventFields, describe, in_order};
use crate::events::{Event, EventDetails};
use squall_data::grid::eastern_longitude;
use squall_data::{Class, GeoBox, LatLonGrid, Time, TrackedBox};

/// Returns one event per box of a time, in the order of [`crate::events::extract()`].
///
/// - *Area and edges*: those of the box. *Probability*: the confidence of the box.
/// - *Centre*: the middle of the box. For cyclones it is a minimum of sea-level pressure inside the box, if pressure is
///   known and no other box of the class has taken that minimum.
/// - *Cells*, which the tracker uses for overlaps: the grid cells whose centres lie in the box.
/// - *Moisture and vapour transport*, and for rivers also pressure and wind: extremes over the box. For cyclones,
///   pressure and wind are extremes within [`crate::events::cyclone_wind_deg`] of the centre, because the box is much
///   larger and may contain other storms; they are blank if the centre is off a regional grid.
/// - *Blank*, because a box does not determine them: length, width, orientation and rain. For rivers also land share
///   and rank, because most of the box is not river.
/// - *Track identities* of the boxes are kept until a tracker assigns its own.
///
/// Boxes off a regional grid are skipped.
///
/// # Errors
/// [`crate::ClimateError::Mismatch`] if grid and fields differ in shape or time; [`crate::ClimateError::Data`] for a
/// box without extent.
///
/// # Example
/// ```
/// use squall_climate::events::{EventFields, from_boxes};
/// use squall_data::{BoxClass, Calendar, Class, GeoBox, LatLonGrid, Time};
/// let grid = LatLonGrid::global(180, 360).unwrap();
/// let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
/// let low = GeoBox::around(BoxClass::ExtratropicalCyclone, (50.0, 359.0), (6.0, 9.0));
/// let found = from_boxes(time, &[low.into()], &grid, &EventFields::default()).unwrap();
/// assert_eq!(found[0].event.class, Class::ExtratropicalCyclone);
/// assert!((found[0].event.lon_deg - 359.0).abs() < 1e-9 && found[0].event.length_km.is_nan());
/// ```
pub fn from_boxes(
    time: Time,
    boxes: &[TrackedBox],
    grid: &LatLonGrid,
    fields: &EventFields<'_>,
) -> Result<Vec<DetectedEvent>> {
    fields.check(grid)?;
    fields.check_time(time)?;
    let areas = grid.row_areas_km2();
    let mut found = Vec::new();
    for TrackedBox { geo, track_id } in boxes {
        geo.check()?;
        let Some(region) = region_of(geo, grid) else {
            continue;
        };
        let inside = describe(&region, time, grid, &areas, fields);
        found.push(DetectedEvent {
            event: Event {
                track_id: *track_id,
                ..event_of_box(geo, inside)
            },
            region,
            on_land: None,
        });
    }
    let places: Vec<(f64, f64)> = (found.iter())
        .map(|one| (one.event.lon_deg, one.event.lat_deg))
        .collect();
    let have_lows = move_to_lows(&mut found, grid, fields);
    for (detected, has_low) in found.iter_mut().zip(have_lows) {
        let event = &mut detected.event;
        if event.class.is_cyclone() {
            event.max_wind_m_s = wind_around(event, grid, fields);
            if !has_low {
                event.min_psl_pa = pressure_around(event, grid, fields);
            }
        }
        let known = EventDetails::of(detected, grid, &areas, fields);
        detected.event.details = if detected.event.class.is_cyclone() {
            known
        } else {
            EventDetails {
                land_share: None,
                land_lon_deg: None,
                land_lat_deg: None,
                ..known
            }
        };
    }
    Ok(in_order(places.into_iter().zip(found).collect()))
}

/// Combines the properties of a box with those of the fields inside it.
fn event_of_box(geo: &GeoBox, inside: Event) -> Event {
    let (lat_deg, lon_deg) = geo.centre();
    // Eastern edges are below 360 degrees, and a box around the globe ends slightly short of its western edge.
    let east_deg = match geo.east_deg {
        _ if geo.width_deg() >= 360.0 => eastern_longitude(geo.west_deg - 0.001),
        east => eastern_longitude(east),
    };
    Event {
        lon_deg,
        lat_deg,
        area_km2: geo.area_km2(),
        west_deg: eastern_longitude(geo.west_deg),
        south_deg: geo.south_deg,
        east_deg,
        north_deg: geo.north_deg,
        length_km: f64::NAN,
        width_km: f64::NAN,
        orientation_deg: f64::NAN,
        mean_prect_m_s: None,
        mean_probability: geo.confidence.map(f64::from),
        ..inside
    }
}

/// The cells whose centres lie in a box. If the box contains no cell centre, the cell nearest to its middle; `None` if
/// that is off the grid.
fn region_of(geo: &GeoBox, grid: &LatLonGrid) -> Option<Region> {
    let class = Class::from(geo.class);
    let (rows, columns) = grid.shape();
    let lats = grid.lat_deg();
    let first_row = lats.partition_point(|&lat| lat < geo.south_deg);
    let end_row = lats.partition_point(|&lat| lat <= geo.north_deg);
    let inside = |i: usize| {
        let from_west = eastern_longitude(grid.lon_deg()[i] - geo.west_deg);
        from_west <= geo.width_deg()
    };
    // At most two ranges: a box crosses the seam at most once.
    let mut stretches: Vec<(u32, u32)> = Vec::new();
    for i in (0..columns).filter(|&i| inside(i)) {
        match stretches.last_mut() {
            Some((_, end)) if *end as usize == i => *end += 1,
            _ => stretches.push((i as u32, i as u32 + 1)),
        }
    }
    let run = |row: usize, (first, end): (u32, u32)| Run {
        row: row as u32,
        first,
        end,
    };
    let runs: Vec<Run> = (first_row..end_row)
        .flat_map(|row| stretches.iter().map(move |&stretch| run(row, stretch)))
        .collect();
    if !runs.is_empty() {
        return Some(Region { class, runs });
    }
    let (lat, lon) = geo.centre();
    let bounds = grid.lat_bounds_deg();
    let step_deg = grid.lon_spacing_deg();
    let from_west = eastern_longitude(lon - grid.lon_deg()[0] + step_deg / 2.0);
    // If a regional grid crosses 0°E, its last longitude is less than its first.
    let on_grid = (bounds[0]..=bounds[rows]).contains(&lat)
        && (grid.is_periodic() || from_west <= step_deg * columns as f64);
    on_grid.then(|| {
        let (row, column) = grid.nearest(lat, lon);
        let runs = vec![run(row, (column as u32, column as u32 + 1))];
        Region { class, runs }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::LandMask;
    use ndarray::Array3;
    use proptest::prelude::*;
    use squall_data::grid::distance_km;
    use squall_data::{BoxClass, Calendar, Snapshot, Variable};
    use std::sync::Arc;

    fn time() -> Time {
        Time::new(Calendar::NoLeap, 1996, 8, 26, 3, 0, 0).unwrap()
    }

    fn only(geo: GeoBox, grid: &LatLonGrid) -> Option<DetectedEvent> {
        let found = from_boxes(time(), &[geo.into()], grid, &EventFields::default()).unwrap();
        assert!(found.len() <= 1);
        found.into_iter().next()
    }

    #[test]
    fn fields_move_the_centre_of_cyclones_and_of_nothing_else() {
        let grid = Arc::new(LatLonGrid::global(90, 180).unwrap());
        let (rows, columns) = grid.shape();
        let low = (37usize, 0usize);
        let fields = Array3::from_shape_fn((2, rows, columns), |(k, j, i)| match k {
            0 => 101_000.0 - 3000.0 * f32::from(u8::from((j, i) == low)),
            _ => 40.0,
        });
        let snapshot = Snapshot {
            time: time(),
            grid: grid.clone(),
            variables: vec![Variable::Psl, Variable::Prect],
            fields,
            source: ("boxes".into(), 0),
        };
        let (lat, lon) = (grid.lat_deg()[low.0], grid.lon_deg()[low.1]);
        for class in BoxClass::ALL {
            let mut geo = GeoBox::around(class, (lat + 2.0, lon - 3.0), (6.0, 8.0));
            geo.confidence = Some(0.75);
            let fields = EventFields::of(&snapshot);
            let found = from_boxes(time(), &[geo.into()], &grid, &fields).unwrap();
            let event = &found[0].event;
            let centre = if class == BoxClass::AtmosphericRiver {
                (lat + 2.0, (lon - 3.0).rem_euclid(360.0))
            } else {
                (lat, lon)
            };
            assert!((event.lat_deg - centre.0).abs() < 1e-6, "{event:?}");
            assert!((event.lon_deg - centre.1).abs() < 1e-6, "{event:?}");
            assert_eq!(event.min_psl_pa, Some(98_000.0));
            assert_eq!((event.mean_prect_m_s, event.max_wind_m_s), (None, None));
            assert_eq!(event.mean_probability, Some(0.75));
            assert!(event.length_km.is_nan() && event.orientation_deg.is_nan());
        }
    }

    /// A snapshot of sea-level pressure only.
    fn pressure_snapshot(grid: &Arc<LatLonGrid>, fields: Array3<f32>) -> Snapshot {
        Snapshot {
            time: time(),
            grid: grid.clone(),
            variables: vec![Variable::Psl],
            fields,
            source: ("boxes".into(), 0),
        }
    }

    /// A deep low at 50N 180E, a smaller one at 45N 190E, and nothing at 60N 150E.
    #[test]
    fn every_low_is_one_boxs_and_a_slope_is_none() {
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        let (rows, columns) = grid.shape();
        let fields = Array3::from_shape_fn((1, rows, columns), |(_, j, i)| {
            let well = |depth: f64, lat: f64, lon: f64, wide_km: f64| {
                let off = distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]);
                depth / (1.0 + (off / wide_km).powi(2))
            };
            // Small dips between cells, as real pressure has on any slope.
            let rough = ((j * 7919 + i * 104_729) % 61) as f64;
            (101_000.0 - well(5000.0, 50.0, 180.0, 800.0) - well(2500.0, 45.0, 190.0, 250.0)
                + rough) as f32
        });
        let snapshot = pressure_snapshot(&grid, fields);
        let around = |class, lat: f64, lon: f64| {
            TrackedBox::from(GeoBox::around(class, (lat, lon), (8.0, 14.0)))
        };
        let low = BoxClass::ExtratropicalCyclone;
        let boxes = [
            around(low, 46.0, 188.0),
            around(low, 49.0, 181.0),
            around(low, 60.0, 150.0),
            around(BoxClass::TropicalDepression, 50.0, 185.0),
        ];
        let found = from_boxes(time(), &boxes, &grid, &EventFields::of(&snapshot)).unwrap();
        let at = |class: Class, lat: f64, lon: f64| {
            let near = |event: &Event| distance_km(lat, lon, event.lat_deg, event.lon_deg) < 150.0;
            let same = found.iter().filter(|one| one.event.class == class);
            same.filter(|one| near(&one.event)).count()
        };
        let low = Class::ExtratropicalCyclone;
        let places = [(50.0, 180.0), (45.0, 190.0), (60.0, 150.0)];
        assert_eq!(
            places.map(|(lat, lon)| at(low, lat, lon)),
            [1, 1, 1],
            "{found:?}"
        );
        // A box of another class may use the same low.
        assert_eq!(at(Class::TropicalDepression, 50.0, 180.0), 1);
    }

    /// The last row of a Gaussian grid lies a few degrees from the pole, and no row lies beyond it.
    #[test]
    fn a_low_beside_the_pole_is_the_centre_on_a_gaussian_grid() {
        let lats = (0..32).map(|j| -85.76 + 171.52 * f64::from(j) / 31.0);
        let lons = (0..64).map(|i| 5.625 * f64::from(i));
        let grid = LatLonGrid::from_axes(lats.collect(), lons.collect()).unwrap();
        let grid = Arc::new(grid.0);
        assert!(grid.lat_bounds_deg()[32] < 89.0);
        // Two cells of equal pressure, 943 km apart, are two lows.
        let fields = Array3::from_shape_fn((1, 32, 64), |(_, j, i)| {
            101_000.0 - 3000.0 * f32::from(u8::from(j == 31 && [10, 42].contains(&i)))
        });
        let snapshot = pressure_snapshot(&grid, fields);
        let low = BoxClass::ExtratropicalCyclone;
        let boxes = [50.0, 230.0]
            .map(|lon| TrackedBox::from(GeoBox::around(low, (84.0, lon), (5.0, 20.0))));
        let found = from_boxes(time(), &boxes, &grid, &EventFields::of(&snapshot)).unwrap();
        for lon in [56.25, 236.25] {
            let is_there = |one: &DetectedEvent| {
                let event = &one.event;
                (event.lat_deg - 85.76).abs() < 1e-6 && (event.lon_deg - lon).abs() < 1e-6
            };
            assert!(found.iter().any(is_there), "{lon}: {found:?}");
        }
    }

    /// All cells of a row on the pole are one point with one pressure. Regression: a box without the first of these
    /// cells got no low.
    #[test]
    fn a_low_on_the_pole_is_the_centre_of_one_box_that_reaches_it() {
        let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
        let fields = Array3::from_shape_fn((1, 181, 360), |(_, j, _)| {
            101_000.0 - 3000.0 / (181 - j) as f32
        });
        let snapshot = pressure_snapshot(&grid, fields);
        let around = |lat: f64, lon: f64| {
            let low = BoxClass::ExtratropicalCyclone;
            let geo = GeoBox::around(low, (lat, lon), (90.0 - lat, 20.0));
            TrackedBox::from(geo)
        };
        let boxes = [around(86.0, 180.0), around(85.0, 300.0)];
        let found = from_boxes(time(), &boxes, &grid, &EventFields::of(&snapshot)).unwrap();
        let lats = [1, 2].map(|sector| {
            let is_in = |one: &&DetectedEvent| (one.event.lon_deg / 120.0) as i32 == sector;
            found.iter().find(is_in).unwrap().event.lat_deg
        });
        assert_eq!(lats, [90.0, 85.0], "{found:?}");
    }

    #[test]
    fn boxes_without_a_cell_centre_take_the_nearest_and_boxes_off_a_region_none() {
        let globe = LatLonGrid::global(18, 36).unwrap();
        let tiny = GeoBox::around(BoxClass::TropicalCyclone, (12.0, 1.0), (0.5, 0.5));
        assert_eq!(only(tiny, &globe).unwrap().region.cells(), 1);
        let lats: Vec<f64> = (0..20).map(|j| 20.0 + f64::from(j)).collect();
        let lons: Vec<f64> = (0..30).map(|i| 300.0 + f64::from(i)).collect();
        let region = LatLonGrid::from_axes(lats, lons).unwrap().0;
        assert_eq!(only(tiny, &region), None);
        let there = GeoBox::around(BoxClass::TropicalCyclone, (30.0, 310.0), (0.2, 0.2));
        assert_eq!(only(there, &region).unwrap().region.cells(), 1);
    }

    #[test]
    fn boxes_without_a_cell_centre_are_on_a_region_that_crosses_greenwich() {
        let lats: Vec<f64> = (0..20).map(|j| 40.0 + f64::from(j)).collect();
        let lons: Vec<f64> = (0..30).map(|i| 345.0 + f64::from(i)).collect();
        let region = LatLonGrid::from_axes(lats, lons).unwrap().0;
        assert!(region.lon_deg()[29] < region.lon_deg()[0]);
        let cell = |lon: f64| {
            let tiny = GeoBox::around(BoxClass::TropicalCyclone, (50.4, lon), (0.1, 0.1));
            only(tiny, &region).map(|found| found.region.runs[0])
        };
        // Rows begin at 40°N, columns at 345°E and end at 14°E; edges lie half a degree beyond.
        let run = |first: u32| Run {
            row: 10,
            first,
            end: first + 1,
        };
        assert_eq!(cell(350.4), Some(run(5)));
        assert_eq!(cell(2.4), Some(run(17)));
        assert_eq!(cell(14.4), Some(run(29)));
        assert_eq!((cell(14.7), cell(344.3), cell(180.4)), (None, None, None));
    }

    /// Most of the box of a river is not river.
    #[test]
    fn land_is_told_of_cyclones_alone_and_identities_stay() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let land = LandMask::natural_earth(&grid);
        let fields = EventFields {
            land: Some(&land),
            ..EventFields::default()
        };
        // All boxes are in Kansas.
        let boxes = BoxClass::ALL.map(|class| TrackedBox {
            geo: GeoBox::around(class, (39.0, 260.0), (1.5, 1.5)),
            track_id: Some(u64::from(class.code()) + 7),
        });
        let found = from_boxes(time(), &boxes, &grid, &fields).unwrap();
        assert_eq!(found.len(), 4);
        for DetectedEvent { event, .. } in &found {
            let id = u64::from(event.bounding_box().class.code()) + 7;
            assert_eq!(event.track_id, Some(id), "{event:?}");
            let details = &event.details;
            let place = details.land_lat_deg.zip(details.land_lon_deg);
            if event.class == Class::AtmosphericRiver {
                assert_eq!((details.land_share, place), (None, None));
                continue;
            }
            let share = details.land_share.unwrap();
            assert!((share - 1.0).abs() < 1e-9, "{event:?}");
            assert_eq!(place, Some((39.0, 260.0)));
        }
    }

    #[test]
    fn a_box_around_the_globe_is_an_event_of_all_columns() {
        let grid = LatLonGrid::global(18, 36).unwrap();
        let belt = GeoBox::around(BoxClass::AtmosphericRiver, (40.0, 10.0), (10.0, 180.0));
        let found = only(belt, &grid).unwrap();
        assert_eq!(found.region.cells(), 2 * 36);
        assert!((found.event.east_deg - 359.999).abs() < 1e-9);
    }

    proptest! {
        /// The cells of a box cover its area, wherever on the globe it lies.
        #[test]
        fn cells_cover_the_box(lat in -70.0..70.0f64, lon in 0.0..360.0f64, half_lat in 2.0..10.0f64, half_lon in 2.0..30.0f64) {
            let grid = LatLonGrid::global(360, 720).unwrap();
            let geo = GeoBox::around(BoxClass::TropicalCyclone, (lat, lon), (half_lat, half_lon));
            let found = only(geo, &grid).unwrap();
            let covered = found.region.area_km2(&grid.row_areas_km2()) / geo.area_km2();
            // Tolerance: half a cell at each of the four edges.
            let slack = 0.5 / (2.0 * half_lat) + 0.5 / (2.0 * half_lon) + 0.05;
            prop_assert!((covered - 1.0).abs() < slack, "{covered}");
            prop_assert!(found.region.runs.is_sorted());
            let event = &found.event;
            prop_assert!((event.area_km2 / geo.area_km2() - 1.0).abs() < 1e-12);
            prop_assert!((0.0..360.0).contains(&event.east_deg) && (0.0..360.0).contains(&event.lon_deg));
        }
    }
}
