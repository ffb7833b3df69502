//! Extraction against plain loops over cells: the seam, the poles, small areas.

use super::*;
use crate::events::shape::TangentPlane;
use ndarray::{Array2, Array3};
use proptest::prelude::*;
use squall_data::grid::{distance_km, lon_difference_deg};
use squall_data::{Calendar, Time};
use std::sync::Arc;

fn time() -> Time {
    Time::new(Calendar::NoLeap, 1996, 8, 26, 3, 0, 0).unwrap()
}

/// A storm of 600 km radius whose pressure minimum lies 1.3 degrees north and 0.9 degrees west of the middle of its
/// mask.
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
    // The centre is the pressure minimum, to a tenth of the one-degree cells, across the seam.
    let miss = distance_km(-18.7, 359.4, event.lat_deg, event.lon_deg);
    assert!(miss < 11.0, "{miss} km off: {event:?}");
    assert!(event.west_deg > 350.0 && event.east_deg < 10.0);
    assert!((event.max_wind_m_s.unwrap() - 50.0).abs() < 2.5);
    assert!((event.min_psl_pa.unwrap() - 95_000.0).abs() < 60.0);
    assert!((event.mean_prect_m_s.unwrap() / 1e-7 - 1.0).abs() < 1e-6);
    assert_eq!((event.max_tmq_kg_m2, event.mean_probability), (None, None));
    // 50 exp(-(d/300)²) falls below 17.5 m/s at 307 km; rings are 111 km wide.
    let gales = event.details.gale_radius_km.unwrap();
    assert!((gales - 307.0).abs() < 40.0, "{gales}");
}

/// A column of cells from the equator to 60N at 7E, where all fields vary by row.
#[test]
fn properties_are_extremes_and_means_by_area_of_what_lies_inside() {
    let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
    let mut codes = Array2::<u8>::zeros(grid.shape());
    (90..151).for_each(|j| codes[(j, 7)] = 2);
    let mask = ClassMask::new(time(), codes).unwrap();
    let fields = Array3::from_shape_fn((7, 181, 360), |(k, j, i)| match (k, i, j) {
        // Including any value from outside would change the results.
        (0, 7, 150) => f32::NAN,
        (0, 7, _) => j as f32 - 80.0,
        (1, 7, _) => 101_000.0 + j as f32,
        (2, 7, ..120) => 1e-7,
        (2, 7, _) => 4e-7,
        (3, 7, 100) => 3.0,
        (4, 7, 100) => -4.0,
        (3 | 4, 7, _) => 0.0,
        (5, 7, _) => -6.0,
        (6, 7, _) => 8.0,
        _ => 999.0,
    });
    let snapshot = Snapshot {
        time: time(),
        grid: grid.clone(),
        variables: vec![
            Variable::Tmq,
            Variable::Psl,
            Variable::Prect,
            Variable::Ubot,
            Variable::Vbot,
            Variable::U850,
            Variable::V850,
        ],
        fields,
        source: ("column".into(), 0),
    };
    let sure = Array2::from_shape_fn(grid.shape(), |(j, _)| match j {
        ..120 => 0.5f32,
        _ => 0.75,
    });
    let other = Array2::from_elem(grid.shape(), 0.125f32);
    let transport = Array2::from_shape_fn(grid.shape(), |(j, i)| match (j, i) {
        (110, 7) => 900f32,
        (_, 7) => 300.0,
        _ => 1200.0,
    });
    let event = |snapshot: &Snapshot| {
        let fields = EventFields {
            probabilities: vec![
                (Class::TropicalCyclone, other.view()),
                (Class::AtmosphericRiver, sure.view()),
            ],
            transport: Some(transport.view()),
            ..EventFields::of(snapshot)
        };
        let mut found = extract(&mask, &grid, &fields, &ExtractOptions::everything()).unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0).event
    };
    let found = event(&snapshot);
    // Rows 90 to 119 cover 0.5S to 29.5N, all rows up to 60.5N: 30 of 61 cells, but 57 % of the area.
    let sine = |lat_deg: f64| lat_deg.to_radians().sin();
    let south = (sine(29.5) + sine(0.5)) / (sine(60.5) + sine(0.5));
    let rain = 1e-7 * south + 4e-7 * (1.0 - south);
    assert!((found.mean_prect_m_s.unwrap() / rain - 1.0).abs() < 1e-5);
    let probability = 0.5 * south + 0.75 * (1.0 - south);
    assert!((found.mean_probability.unwrap() - probability).abs() < 1e-5);
    assert_eq!(found.max_tmq_kg_m2, Some(69.0), "the last row is missing");
    assert_eq!(found.min_psl_pa, Some(101_090.0));
    assert_eq!(found.max_wind_m_s, Some(5.0), "that of the lowest level");
    let details = &found.details;
    assert_eq!(details.max_ivt_proxy_kg_m_s, Some(690.0));
    assert_eq!(details.max_ivt_kg_m_s, Some(900.0));
    assert_eq!(details.gale_radius_km, None, "a river has none");
    let mut without = snapshot.clone();
    without.variables[3] = Variable::T200;
    assert_eq!(event(&without).max_wind_m_s, Some(10.0), "at 850 hPa");
}

/// A column along 100W from the Pacific at 10N to the Great Plains at 50N; the coast of Mexico is near 17N.
#[test]
fn land_under_an_event_is_a_share_of_its_area_and_a_place() {
    let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
    let land = LandMask::natural_earth(&grid);
    let areas = grid.row_areas_km2();
    let area = |on_land: bool| -> f64 {
        let cells = (100..141).filter(|&j| !on_land || land.is_land((j, 260)));
        cells.map(|j| areas[j]).sum()
    };
    let event = |code: u8, fields: EventFields<'_>| {
        let mut codes = Array2::<u8>::zeros(grid.shape());
        (100..141).for_each(|j| codes[(j, 260)] = code);
        let mask = ClassMask::new(time(), codes).unwrap();
        let fields = EventFields {
            land: Some(&land),
            ..fields
        };
        let mut found = extract(&mask, &grid, &fields, &ExtractOptions::everything()).unwrap();
        found.remove(0).event
    };
    let place = |event: &Event| (event.details.land_lat_deg).zip(event.details.land_lon_deg);
    let river = event(2, EventFields::default());
    let share = area(true) / area(false);
    assert!((river.details.land_share.unwrap() - share).abs() < 1e-9);
    let rows = (100..141).filter(|&j| land.is_land((j, 260))).count();
    assert!(rows as f64 / 41.0 - share > 0.02, "not what cells say");
    // Without moisture and transport, the land cell nearest to the centroid (28.6N) is chosen: 29N.
    assert_eq!(place(&river), Some((29.0, 260.0)));
    // Transport is highest over sea, and on land at 40N; moisture on land is highest at 35N.
    let strength = |on_land: usize| {
        Array2::from_shape_fn(grid.shape(), |(j, _)| match j {
            100..105 => 1000f32,
            _ if j == on_land => 600.0,
            _ => 300.0,
        })
    };
    let (transport, water) = (strength(130), strength(125));
    let snapshot = Snapshot {
        time: time(),
        grid: grid.clone(),
        variables: vec![Variable::Tmq],
        fields: water.insert_axis(ndarray::Axis(0)),
        source: ("land".into(), 0),
    };
    let moist = event(2, EventFields::of(&snapshot));
    assert_eq!(place(&moist), Some((35.0, 260.0)));
    let known = EventFields {
        transport: Some(transport.view()),
        ..EventFields::of(&snapshot)
    };
    let strong = event(2, known);
    assert_eq!(place(&strong), Some((40.0, 260.0)));
    // For a cyclone the centre counts.
    let cyclone = event(1, EventFields::default());
    assert_eq!(place(&cyclone), Some((cyclone.lat_deg, cyclone.lon_deg)));
}

#[test]
fn events_are_in_order_of_class_and_from_west_to_east_and_large_enough_for_their_class() {
    let grid = Arc::new(LatLonGrid::global(181, 360).unwrap());
    let found = |stretches: &[(u8, usize, usize, usize)], options: &ExtractOptions| {
        let mut codes = Array2::<u8>::zeros(grid.shape());
        for &(code, row, west, cells) in stretches {
            (west..west + cells).for_each(|i| codes[(row, i)] = code);
        }
        let mask = ClassMask::new(time(), codes).unwrap();
        let found = extract(&mask, &grid, &EventFields::default(), options).unwrap();
        let of = |one: DetectedEvent| {
            let Event { class, lon_deg, .. } = one.event;
            (class.code(), lon_deg.round() as i32, one.region.runs[0].row)
        };
        found.into_iter().map(of).collect::<Vec<_>>()
    };
    // Rows in mixed order. Two rivers at 5E: the southern one comes first.
    let all = [
        (1, 110, 199, 3),
        (1, 120, 19, 3),
        (2, 50, 4, 3),
        (2, 130, 4, 3),
        (2, 40, 299, 3),
    ];
    let order: [(u8, i32, u32); 5] = [
        (1, 20, 120),
        (1, 200, 110),
        (2, 5, 50),
        (2, 5, 130),
        (2, 300, 40),
    ];
    assert_eq!(found(&all, &ExtractOptions::everything()), order);
    // A cell at the equator has 12,364 km²: one cell is below the minimum of cyclones (20,000), 24 are below that of
    // rivers (300,000).
    let sizes = [
        (1, 90, 10, 1),
        (1, 90, 20, 3),
        (2, 90, 100, 24),
        (2, 90, 200, 25),
    ];
    let large: [(u8, i32, u32); 2] = [(1, 21, 90), (2, 212, 90)];
    assert_eq!(found(&sizes, &ExtractOptions::default()), large);
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
    // The rest of the mask is 500 km or more from the eye: downhill, but belonging to another storm.
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
    // A western half ring starting 120 km from the eye, and an eastern one starting 230 km from it.
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
    // The eye is at 0E, between two columns that mirror each other.
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
    let near =
        |one: &&DetectedEvent| distance_km(-19.0, 0.0, one.event.lat_deg, one.event.lon_deg) < 60.0;
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
        let off = |lat: f64, lon: f64| distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]);
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
    // Masks by rules have already selected cyclones, whatever their size.
    for (options, events, small) in [
        (ExtractOptions::default(), 1, 1),
        (ExtractOptions::of_rules(), 2, 0),
    ] {
        let (found, left_out) = extract_counting(&mask, &grid, &none, &options).unwrap();
        assert_eq!((found.len(), left_out), (events, small));
    }
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

/// The circular storms below have no axis direction, so this test uses a band.
#[test]
fn a_rolled_band_keeps_its_tilt_and_a_mirrored_one_has_the_opposite() {
    let grid = LatLonGrid::global(73, 144).unwrap();
    // 4,000 km x 800 km around 40N 2E, 30 degrees anticlockwise from east.
    let plane = TangentPlane::new(40.0, 2.0);
    let (sin, cos) = 30f64.to_radians().sin_cos();
    let band = Array2::from_shape_fn(grid.shape(), |(j, i)| {
        let (east, north) = plane.project(grid.lat_deg()[j], grid.lon_deg()[i]);
        let (along, across) = (east * cos + north * sin, north * cos - east * sin);
        2 * u8::from(along.abs() < 2000.0 && across.abs() < 400.0)
    });
    let tilt = |mirror: bool, shift: usize| {
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let j = if mirror { 72 - j } else { j };
            band[[j, (i + 144 - shift) % 144]]
        });
        let mask = ClassMask::new(time(), codes).unwrap();
        let fields = EventFields::default();
        let found = extract(&mask, &grid, &fields, &ExtractOptions::default()).unwrap();
        assert_eq!(found.len(), 1);
        found[0].event.orientation_deg
    };
    let plain = tilt(false, 0);
    assert!((plain - 30.0).abs() < 3.0, "{plain}");
    for shift in [0, 1, 70, 143] {
        let (rolled, mirrored) = (tilt(false, shift), tilt(true, shift));
        assert!((rolled - plain).abs() < 1e-6, "{shift}: {rolled} {plain}");
        assert!(
            (mirrored + plain - 180.0).abs() < 1e-6,
            "{shift}: {mirrored} {plain}"
        );
    }
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
            // Rounding may move a cell between two slices.
            prop_assert!((a.length_km / b.length_km - 1.0).abs() < 0.05);
            prop_assert!(((a.west_deg + turn - b.west_deg + 180.0).rem_euclid(360.0) - 180.0).abs() < 1e-9);
            prop_assert_eq!(a.max_wind_m_s, b.max_wind_m_s);
            prop_assert_eq!(a.min_psl_pa, b.min_psl_pa);
        }
    }
}
