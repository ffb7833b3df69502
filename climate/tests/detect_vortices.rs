//! TempestExtremes' cyclones on analytic vortices: found at their position, not found if one criterion fails, and
//! tracked with gaps.

mod common;

use common::{Vortex, detect_series, time, world};
use ndarray::{Array2, Axis};
use squall_climate::detect::tempest::{TempestDetector, TempestThresholds};
use squall_climate::detect::{DetectFields, Detector, DetectorThresholds, Method};
use squall_climate::label::Pass;
use squall_data::grid::distance_km;
use squall_data::{Class, LatLonGrid, Variable};
use std::sync::Arc;

fn one_degree() -> Arc<LatLonGrid> {
    Arc::new(LatLonGrid::global(181, 288).unwrap())
}

fn nodes(grid: &Arc<LatLonGrid>, vortices: &[Vortex]) -> Vec<(f64, f64)> {
    let detector = TempestDetector::new(&TempestThresholds::default(), grid.clone()).unwrap();
    let fields = DetectFields::from_snapshot(world(grid, vortices, time(0)));
    let found = detector.nodes(&fields).unwrap();
    found.iter().map(|n| (n.lat_deg, n.lon_deg)).collect()
}

#[test]
fn a_hurricane_is_found_in_either_hemisphere_and_on_the_seam() {
    let grid = one_degree();
    for (lat_deg, lon_deg) in [(15.1, 210.2), (-17.3, 60.0), (12.0, 359.9), (22.2, 0.05)] {
        let vortex = Vortex {
            lat_deg,
            lon_deg,
            ..Vortex::default()
        };
        let found = nodes(&grid, &[vortex]);
        assert_eq!(found.len(), 1, "{found:?}");
        let miss = distance_km(lat_deg, lon_deg, found[0].0, found[0].1);
        assert!(miss < 90.0, "{miss} km off");
    }
}

#[test]
fn each_criterion_alone_decides() {
    let grid = one_degree();
    let good = Vortex::default();
    let none = [
        (
            "depth",
            Vortex {
                depth_pa: 190.0,
                ..good
            },
        ),
        (
            "a high",
            Vortex {
                depth_pa: -2000.0,
                ..good
            },
        ),
        (
            "warm core",
            Vortex {
                warm_k: 0.2,
                ..good
            },
        ),
        (
            "cold core",
            Vortex {
                warm_k: -3.0,
                thick_m: -150.0,
                ..good
            },
        ),
        (
            "thickness",
            Vortex {
                thick_m: 10.0,
                ..good
            },
        ),
        (
            "place of the core",
            Vortex {
                core_offset_deg: 9.0,
                ..good
            },
        ),
    ];
    for (criterion, vortex) in none {
        assert!(nodes(&grid, &[vortex]).is_empty(), "{criterion}");
    }
    // Of two lows five degrees apart, only the deeper one is kept; of two ten degrees apart, both are.
    let second = |east: f64| Vortex {
        lon_deg: good.lon_deg + east,
        depth_pa: 3000.0,
        ..good
    };
    assert_eq!(nodes(&grid, &[good, second(5.0)]).len(), 1);
    assert_eq!(nodes(&grid, &[good, second(11.0)]).len(), 2);
}

#[test]
fn the_wind_of_a_low_is_the_strongest_within_two_degrees() {
    let grid = one_degree();
    let vortex = Vortex {
        lat_deg: 15.0,
        lon_deg: 210.0,
        ..Vortex::default()
    };
    let mut snapshot = world(&grid, &[vortex], time(0));
    let (row, column) = grid.nearest(15.0, 210.0);
    let [u, v] = [Variable::Ubot, Variable::Vbot].map(|variable| variable as usize);
    for plane in [u, v] {
        let mut plane = snapshot.fields.index_axis_mut(Axis(0), plane);
        plane.fill(0.0);
    }
    // 50 m/s two degrees south of it, and 100 m/s three degrees north.
    for (row, east, north) in [(row - 2, 30.0, -40.0), (row + 3, 60.0, 80.0)] {
        snapshot.fields[[u, row, column]] = east;
        snapshot.fields[[v, row, column]] = north;
    }
    let detector = TempestDetector::new(&TempestThresholds::default(), grid.clone()).unwrap();
    let found = detector
        .nodes(&DetectFields::from_snapshot(snapshot))
        .unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cell, (row, column));
    assert!((found[0].max_wind_m_s - 50.0).abs() < 1e-4, "{found:?}");
    assert!((found[0].min_psl_pa - 97_000.0).abs() < 1.0);
}

/// The thickness from 500 to 300 hPa must fall by 6 m within 6.5 degrees; if it is known, no other field counts.
#[test]
fn the_upper_thickness_tells_a_warm_core_where_it_is_known() {
    let grid = one_degree();
    let detector = TempestDetector::new(&TempestThresholds::default(), grid.clone()).unwrap();
    let warm = Vortex::default();
    let cold = Vortex {
        warm_k: -3.0,
        thick_m: -150.0,
        ..warm
    };
    // Within 600 km it falls by 0.98 of its central value.
    for (vortex, middle_m, expected) in [(cold, 7.0, 1), (warm, 5.5, 0), (warm, -20.0, 0)] {
        let thickness = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
            let r = distance_km(vortex.lat_deg, vortex.lon_deg, lat, lon) / 300.0;
            (3700.0 + middle_m * (-r.powi(2)).exp()) as f32
        });
        let fields = DetectFields {
            upper_thickness_m: Some(thickness),
            ..DetectFields::from_snapshot(world(&grid, &[vortex], time(0)))
        };
        let found = detector.nodes(&fields).unwrap();
        assert_eq!(found.len(), expected, "{middle_m} m: {found:?}");
    }
}

#[test]
fn a_series_is_tracked_over_a_gap_and_its_mask_is_the_closed_contour() {
    let grid = Arc::new(LatLonGrid::global(91, 144).unwrap());
    let methods = [Method::Tempest, Method::Bard];
    let thresholds = DetectorThresholds::default();
    let detectors = methods.map(|m| Detector::new(m, &thresholds, &grid).unwrap());
    let read = |index: usize, _: Pass| -> squall_climate::error::Result<DetectFields> {
        let vortex = Vortex {
            lon_deg: 358.0 + 0.5 * index as f64,
            radius_km: 250.0,
            // Two times without the low.
            depth_pa: if (6..8).contains(&index) {
                10.0
            } else {
                6000.0
            },
            ..Vortex::default()
        };
        Ok(DetectFields::from_snapshot(world(
            &grid,
            &[vortex],
            time(6 * index as i64),
        )))
    };
    let mut seen = Vec::new();
    let summaries = detect_series(&detectors, 16, read, |index, labels| {
        assert_eq!(labels[0].method, Method::Tempest);
        let mask = &labels[0].labelled.mask;
        let storms = labels[0].labelled.objects.iter();
        let storms: Vec<_> = storms
            .filter(|e| e.class == Class::TropicalCyclone)
            .collect();
        if let [storm] = storms[..] {
            let cells = mask.codes.iter().filter(|c| **c == 1).count();
            assert!(cells >= 1 && storm.area_km2 > 0.0, "time {index}");
            assert_eq!(storm.track_id, Some(1));
            assert!(storm.min_psl_pa.unwrap() < 99_000.0);
            seen.push(index);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!((summaries[0].tracks, summaries[0].cyclones), (1, 14));
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!((summaries[1].tracks, summaries[1].candidates), (0, 0));
}
