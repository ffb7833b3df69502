//! The complete labels on analytic vortices: found at their position, not found if one criterion fails.

mod common;

use common::{Vortex, time, world};
use ndarray::{Array2, Array3, Axis};
use proptest::prelude::*;
use squall_climate::ClimateError;
use squall_climate::label::{
    CycloneCandidate, LabelledSnapshot, Labeller, LowCandidate, Pass, TcThresholds, Thresholds,
};
use squall_data::grid::distance_km;
use squall_data::{BoxClass, Class, LatLonGrid, Snapshot, Variable};
use std::sync::Arc;

/// The regional quarter-degree window 0..40N (or S) around a vortex: published thresholds with few cells.
fn quarter_degree(vortex: &Vortex) -> Arc<LatLonGrid> {
    let step = 180.0 / 767.0;
    let south = if vortex.lat_deg > 0.0 { -5.0 } else { -35.0 };
    let lat = (0..170).map(|j| south + step * f64::from(j)).collect();
    let west = (vortex.lon_deg - 20.0).floor();
    let lon = (0..128).map(|i| west + 0.3125 * f64::from(i)).collect();
    Arc::new(LatLonGrid::from_axes(lat, lon).unwrap().0)
}

fn find(vortex: Vortex) -> Vec<CycloneCandidate> {
    let grid = quarter_degree(&vortex);
    let labeller = Labeller::new(&Thresholds::default(), grid.clone()).unwrap();
    assert_eq!(
        labeller.cyclone_thresholds(),
        &Thresholds::default().cyclone
    );
    labeller
        .candidates(&world(&grid, &[vortex], time(0)))
        .unwrap()
}

fn is_storm(c: &CycloneCandidate) -> bool {
    c.is_storm(17.0)
}

#[test]
fn a_hurricane_is_found_where_it_is_in_either_hemisphere_and_on_the_seam() {
    for (lat_deg, lon_deg) in [(15.1, 210.2), (-17.3, 60.0), (12.0, 359.9), (22.2, 0.05)] {
        let vortex = Vortex {
            lat_deg,
            lon_deg,
            ..Vortex::default()
        };
        let found = find(vortex);
        assert_eq!(found.len(), 1, "{found:?}");
        let miss = distance_km(lat_deg, lon_deg, found[0].lat_deg, found[0].lon_deg);
        assert!(miss < 3.0, "{miss} km off");
        assert!((found[0].min_psl_pa - 97_000.0).abs() < 40.0, "{found:?}");
        assert!((found[0].max_wind_m_s - 32.0).abs() < 1.0, "{found:?}");
        assert!(found[0].vorticity_per_s > 5e-4 && is_storm(&found[0]));
        // Means of 220 and 268 K, and 12,300 m, plus the core's contribution, minus that of latitude.
        let cold = (lat_deg / 90.0).powi(2);
        let temperature_k = found[0].core_temperature_k.unwrap();
        assert!((temperature_k - (248.0 - 15.0 * cold)).abs() < 0.1);
        let thickness_m = found[0].core_thickness_m.unwrap();
        assert!((thickness_m - (12_500.0 - 800.0 * cold)).abs() < 3.0);
    }
}

#[test]
fn each_criterion_alone_decides() {
    let good = Vortex::default();
    assert!(is_storm(&find(good)[0]));
    let none = [
        (
            "vorticity",
            Vortex {
                wind_m_s: 2.0,
                ..good
            },
        ),
        (
            "sense of rotation",
            Vortex {
                wind_m_s: -40.0,
                ..good
            },
        ),
        (
            "pressure rise",
            Vortex {
                depth_pa: 300.0,
                ..good
            },
        ),
        (
            "pressure minimum",
            Vortex {
                depth_pa: -1000.0,
                ..good
            },
        ),
    ];
    for (criterion, vortex) in none {
        assert!(find(vortex).is_empty(), "{criterion}");
    }
    let warm = find(Vortex {
        warm_k: 0.7,
        ..good
    });
    assert!(!warm[0].warm_core && warm[0].thick_core, "{warm:?}");
    let cold = find(Vortex {
        warm_k: -3.0,
        thick_m: -100.0,
        ..good
    });
    assert!(!cold[0].warm_core && !cold[0].thick_core, "{cold:?}");
    let thin = find(Vortex {
        thick_m: 45.0,
        ..good
    });
    assert!(thin[0].warm_core && !thin[0].thick_core, "{thin:?}");
    let apart = find(Vortex {
        core_offset_deg: 3.0,
        ..good
    });
    assert!(!apart[0].warm_core && !apart[0].thick_core, "{apart:?}");
    // At a smaller scale, vorticity suffices, but not the wind.
    let breeze = find(Vortex {
        wind_m_s: 19.0,
        radius_km: 60.0,
        ..good
    });
    assert!(
        breeze[0].max_wind_m_s < 17.0 && !is_storm(&breeze[0]),
        "{breeze:?}"
    );
}

/// Varies one threshold at a time: is the vortex above still found, and are its cores warm and thick?
#[test]
fn each_threshold_is_that_of_its_own_criterion() {
    let good = Vortex::default();
    // Warm core and thickness maximum one and a half degrees north of the low.
    let apart = Vortex {
        core_offset_deg: 1.5,
        ..good
    };
    let south = Vortex {
        lat_deg: -15.1,
        ..good
    };
    type Change = fn(&mut TcThresholds);
    // Expected warm core and thick core, if found.
    let cases: [(Vortex, Change, Option<[bool; 2]>); 11] = [
        (good, |t| t.max_latitude_deg = 16.0, Some([true, true])),
        (good, |t| t.max_latitude_deg = 14.0, None),
        (south, |t| t.max_latitude_deg = 16.0, Some([true, true])),
        (south, |t| t.max_latitude_deg = 14.0, None),
        // Its central pressure is 97,000 Pa.
        (
            good,
            |t| t.min_credible_pressure_pa = 96_900.0,
            Some([true, true]),
        ),
        (good, |t| t.min_credible_pressure_pa = 97_500.0, None),
        // No sample on the diagonals is that close.
        (good, |t| t.pressure_radius_deg = 1.2, None),
        (good, |t| t.warm_core_radius_deg = 1.2, Some([false, true])),
        (good, |t| t.thickness_radius_deg = 1.2, Some([true, false])),
        (apart, |_| (), Some([true, true])),
        (apart, |t| t.max_core_radius_deg = 1.0, Some([false, false])),
    ];
    for (case, (vortex, change, expected)) in cases.into_iter().enumerate() {
        let grid = quarter_degree(&vortex);
        let mut thresholds = Thresholds::default();
        change(&mut thresholds.cyclone);
        let labeller = Labeller::new(&thresholds, grid.clone()).unwrap();
        let found = labeller.candidates(&world(&grid, &[vortex], time(0)));
        let found = found.unwrap();
        assert_eq!(found.len(), usize::from(expected.is_some()), "{case}");
        let cores = found.first().map(|c| [c.warm_core, c.thick_core]);
        assert_eq!(cores, expected, "{case}: {found:?}");
    }
}

#[test]
fn lows_are_told_apart_by_latitude_core_and_wind() {
    let (grid, labeller) = one_degree();
    let cold = Vortex {
        warm_k: -3.0,
        thick_m: -150.0,
        depth_pa: 3000.0,
        ..large()
    };
    let warm = Vortex {
        wind_m_s: 14.0,
        depth_pa: 1500.0,
        ..large()
    };
    // Temperature and thickness decrease poleward in the background, so at 45 degrees the core must be stronger.
    let strong = Vortex {
        warm_k: 8.0,
        thick_m: 500.0,
        ..warm
    };
    let at = |vortex: Vortex, lat_deg: f64| Vortex { lat_deg, ..vortex };
    let count = |vortex: Vortex| {
        let lows = labeller.lows(&world(&grid, &[vortex], time(0))).unwrap();
        let here = |low: &&LowCandidate| {
            let (lat, lon) = (vortex.lat_deg, vortex.lon_deg);
            distance_km(lat, lon, low.lat_deg, low.lon_deg) < 100.0
        };
        let count = |lows: &[LowCandidate]| lows.iter().filter(here).count();
        (count(&lows.extratropical), count(&lows.depressions))
    };
    for (vortex, expected) in [
        // From 30 to 80 degrees, and without both a warm and a thick core.
        (at(cold, 45.2), (1, 0)),
        (at(cold, -45.2), (1, 0)),
        (at(cold, 32.2), (1, 0)),
        (at(cold, 28.2), (0, 0)),
        (at(cold, 78.2), (1, 0)),
        (at(cold, 82.2), (0, 0)),
        (at(strong, 45.2), (0, 0)),
        (
            Vortex {
                thick_m: -150.0,
                ..at(strong, 45.2)
            },
            (1, 0),
        ),
        (
            Vortex {
                warm_k: -3.0,
                ..at(strong, 45.2)
            },
            (1, 0),
        ),
        // Up to 35 degrees, with a warm core and a wind of its own.
        (at(warm, 20.2), (0, 1)),
        (at(warm, -20.2), (0, 1)),
        (at(warm, 33.8), (0, 1)),
        (at(warm, 36.2), (0, 0)),
        (
            Vortex {
                warm_k: -3.0,
                ..at(warm, 20.2)
            },
            (0, 0),
        ),
        (
            Vortex {
                wind_m_s: 4.0,
                ..at(warm, 20.2)
            },
            (0, 0),
        ),
    ] {
        assert_eq!(count(vortex), expected, "{vortex:?}");
    }
}

#[test]
fn two_storms_in_one_window_are_one_and_in_two_are_two() {
    let first = Vortex::default();
    let grid = quarter_degree(&first);
    let labeller = Labeller::new(&Thresholds::default(), grid.clone()).unwrap();
    let count = |apart: f64| {
        let second = Vortex {
            lat_deg: first.lat_deg + apart,
            wind_m_s: 35.0,
            ..first
        };
        labeller
            .candidates(&world(&grid, &[first, second], time(0)))
            .unwrap()
            .len()
    };
    assert_eq!((count(3.0), count(8.0)), (1, 2));
}

fn one_degree() -> (Arc<LatLonGrid>, Labeller) {
    let grid = Arc::new(LatLonGrid::global(91, 180).unwrap());
    let labeller = Labeller::new(&Thresholds::default(), grid.clone()).unwrap();
    (grid, labeller)
}

/// A vortex large enough for a two-degree grid.
fn large() -> Vortex {
    Vortex {
        radius_km: 200.0,
        ..Vortex::default()
    }
}

fn roll(snapshot: &Snapshot, shift: usize) -> Snapshot {
    let (channels, rows, columns) = snapshot.fields.dim();
    let fields = Array3::from_shape_fn((channels, rows, columns), |(k, j, i)| {
        snapshot.fields[[k, j, (i + columns - shift) % columns]]
    });
    Snapshot {
        fields,
        ..snapshot.clone()
    }
}

/// Fields with two storms and two mid-latitude rivers.
fn stormy(grid: &Arc<LatLonGrid>, lon_deg: f64) -> Snapshot {
    let south = Vortex {
        lat_deg: -18.0,
        lon_deg: (lon_deg + 70.0) % 360.0,
        ..large()
    };
    let mut snapshot = world(grid, &[Vortex { lon_deg, ..large() }, south], time(0));
    for ((k, j, i), value) in snapshot.fields.indexed_iter_mut() {
        let (lat, along) = (
            grid.lat_deg()[j],
            (grid.lon_deg()[i] - lon_deg - 20.0).rem_euclid(360.0),
        );
        let river = |from: f64| {
            (lat.abs() - 30.0 - (along - from)).abs() < 4.0 && (30.0..52.0).contains(&lat.abs())
        };
        if k == 0 && (river(0.0) && lat > 0.0 || river(150.0) && lat < 0.0) {
            *value = 45.0;
        }
    }
    snapshot
}

fn label(labeller: &Labeller, snapshot: &Snapshot) -> LabelledSnapshot {
    let candidates = labeller.candidates(snapshot).unwrap();
    let limit = labeller.cyclone_thresholds().min_wind_m_s;
    let storms: Vec<_> = candidates
        .into_iter()
        .filter(|c| c.is_storm(limit))
        .collect();
    labeller.masks(snapshot, &storms).unwrap()
}

#[test]
fn storms_and_rivers_are_masked_and_described() {
    let (grid, labeller) = one_degree();
    let labelled = label(&labeller, &stormy(&grid, 210.0));
    let counts = labelled.mask.pixel_counts();
    assert!(counts[1] >= 4 && counts[2] > 50, "{counts:?}");
    let classes: Vec<Class> = labelled.objects.iter().map(|e| e.class).collect();
    use Class::{AtmosphericRiver as Ar, TropicalCyclone as Tc};
    assert_eq!(classes, [Tc, Tc, Ar, Ar]);
    let storm = &labelled.objects[1];
    assert!(
        distance_km(storm.lat_deg, storm.lon_deg, 15.1, 210.0) < 60.0,
        "{storm:?}"
    );
    assert!(storm.area_km2 > 100_000.0 && storm.track_id.is_none());
    assert!(storm.min_psl_pa.unwrap() < 98_000.0 && storm.max_wind_m_s.unwrap() > 20.0);
    let river = &labelled.objects[3];
    assert!(
        river.length_km > 2000.0 && river.width_km < 1000.0,
        "{river:?}"
    );
    assert_eq!(river.max_tmq_kg_m2, Some(45.0));
    // Every masked cell belongs to an object.
    let areas = grid.row_areas_km2();
    for class in Class::EVENTS {
        let masked: f64 = labelled
            .mask
            .codes
            .indexed_iter()
            .filter(|(_, code)| **code == class.code())
            .map(|((j, _), _)| areas[j])
            .sum();
        let described: f64 = labelled
            .objects
            .iter()
            .filter(|e| e.class == class)
            .map(|e| e.area_km2)
            .sum();
        approx::assert_relative_eq!(masked, described, max_relative = 1e-9);
    }
}

/// At 2.5 degrees, no circle around a storm reaches the scaled wind of a storm; its strongest cell does.
#[test]
fn a_storm_of_a_coarse_grid_is_boxed_as_one() {
    let grid = Arc::new(LatLonGrid::global(73, 144).unwrap());
    let labeller = Labeller::new(&Thresholds::default(), grid.clone()).unwrap();
    let limit = labeller.cyclone_thresholds().min_wind_m_s;
    for (wind_m_s, class) in [
        (28.0, BoxClass::TropicalCyclone),
        (12.0, BoxClass::TropicalDepression),
    ] {
        let vortex = Vortex {
            lat_deg: 16.2,
            lon_deg: 211.2,
            wind_m_s,
            ..Vortex::default()
        };
        let snapshot = world(&grid, &[vortex], time(0));
        let found = labeller.candidates(&snapshot).unwrap();
        let is_storm = class == BoxClass::TropicalCyclone;
        assert!(
            found.len() == 1 && found[0].is_storm(limit) == is_storm,
            "{found:?}"
        );
        let labelled = labeller.masks(&snapshot, &found).unwrap();
        assert_eq!(labelled.boxes.len(), 1);
        assert_eq!(labelled.boxes[0].geo.class, class, "{wind_m_s}");
    }
}

/// On a fine grid only the wind of the vortex itself counts, without the flow that carries it.
#[test]
fn a_weak_vortex_in_a_strong_flow_is_boxed_as_a_depression() {
    for (wind_m_s, flow_m_s, class) in [
        (14.0, 12f32, BoxClass::TropicalDepression),
        (30.0, 0.0, BoxClass::TropicalCyclone),
    ] {
        let vortex = Vortex {
            wind_m_s,
            ..Vortex::default()
        };
        let grid = quarter_degree(&vortex);
        let mut snapshot = world(&grid, &[vortex], time(0));
        let eastward = Variable::Ubot as usize;
        let mut eastward = snapshot.fields.index_axis_mut(Axis(0), eastward);
        eastward.mapv_inplace(|u| u + flow_m_s);
        let labeller = Labeller::new(&Thresholds::default(), grid).unwrap();
        let found = labeller.candidates(&snapshot).unwrap();
        assert!(found.len() == 1 && found[0].max_wind_m_s > 20.0);
        let labelled = labeller.masks(&snapshot, &found).unwrap();
        assert_eq!(labelled.boxes[0].geo.class, class, "{wind_m_s}");
    }
}

#[test]
fn cyclones_override_rivers() {
    let (grid, labeller) = one_degree();
    let mut snapshot = world(
        &grid,
        &[Vortex {
            lat_deg: 31.0,
            ..large()
        }],
        time(0),
    );
    // A moist band through the middle of the storm.
    for ((k, j, i), value) in snapshot.fields.indexed_iter_mut() {
        let (north, east) = (grid.lat_deg()[j] - 31.0, grid.lon_deg()[i] - 210.0);
        if k == 0 && (north - east).abs() < 5.0 && north.abs() < 14.0 {
            *value += 20.0;
        }
    }
    let storms = labeller.candidates(&snapshot).unwrap();
    let with = labeller.masks(&snapshot, &storms).unwrap();
    let without = labeller.masks(&snapshot, &[]).unwrap();
    let (mut taken, mut kept) = (0, 0);
    for (after, before) in with.mask.codes.iter().zip(&without.mask.codes) {
        assert!(after == before || *after == 1);
        taken += usize::from(*after == 1 && *before == 2);
        kept += usize::from(*after == 2);
    }
    assert!(taken > 0 && kept > 0, "{taken} taken, {kept} kept");
}

#[test]
fn missing_fields_and_other_grids_are_named() {
    let (grid, labeller) = one_degree();
    let mut snapshot = world(&grid, &[large()], time(0));
    snapshot.variables[0] = Variable::Tmq;
    let keep: Vec<usize> = (0..16)
        .filter(|&k| k != Variable::T200 as usize && k != Variable::Z200 as usize)
        .collect();
    let without = Snapshot {
        variables: keep.iter().map(|&k| snapshot.variables[k]).collect(),
        fields: snapshot.fields.select(Axis(0), &keep),
        ..snapshot.clone()
    };
    let error = labeller.candidates(&without).unwrap_err();
    assert!(matches!(error, ClimateError::MissingField { .. }));
    let text = error.to_string();
    assert!(
        text.contains("T200, Z200") && text.contains("analytic world"),
        "{text}"
    );
    let other = Arc::new(LatLonGrid::global(19, 36).unwrap());
    let error = labeller
        .masks(&world(&other, &[], time(0)), &[])
        .unwrap_err();
    assert!(error.to_string().contains("91 x 180"), "{error}");
    // All values missing: nothing is found, and nothing fails.
    snapshot.fields.fill(f32::NAN);
    assert!(labeller.candidates(&snapshot).unwrap().is_empty());
    assert_eq!(labeller.masks(&snapshot, &[]).unwrap().objects, []);
}

#[test]
fn a_series_is_labelled_by_its_tracks_whatever_the_number_of_threads() {
    let (grid, labeller) = one_degree();
    let read = |index: usize, _: Pass| -> Result<Snapshot, ClimateError> {
        // Seventeen three-hourly steps westward across the seam; a second storm only for the first five.
        let hours = 3 * index as i64;
        let lon_deg = (4.0 - 0.6 * index as f64).rem_euclid(360.0);
        let mut storms = vec![Vortex { lon_deg, ..large() }];
        if index < 5 {
            storms.push(Vortex {
                lon_deg: 120.0,
                ..large()
            });
        }
        Ok(world(&grid, &storms, time(hours)))
    };
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let mut got = Vec::new();
        let summary = pool.install(|| {
            labeller.label_series(17, read, |index, labelled| {
                assert_eq!(index, got.len());
                got.push(labelled);
                Ok(())
            })
        });
        (summary.unwrap(), got)
    };
    let (summary, got) = run(2);
    assert_eq!(
        (summary.times, summary.tracks, summary.cyclones),
        (17, 1, 17),
        "{summary:?}"
    );
    assert_eq!(
        (summary.candidates, summary.untracked),
        (22, false),
        "{summary:?}"
    );
    for (index, labelled) in got.iter().enumerate() {
        assert_eq!(labelled.objects[0].track_id, Some(1), "time {index}");
        let storms = labelled
            .objects
            .iter()
            .filter(|e| e.class == Class::TropicalCyclone);
        assert_eq!(storms.count(), 1);
    }
    assert_eq!((summary, got), run(1));
    // Shorter than two days: both are accepted untracked.
    let mut at_once = Vec::new();
    let each = |_, labelled: LabelledSnapshot| {
        at_once.push(labelled.objects.len());
        Ok(())
    };
    let summary = labeller.label_series(1, read, each).unwrap();
    assert!(
        summary.untracked && summary.tracks == 0 && at_once == [2],
        "{summary:?} {at_once:?}"
    );
    let failing = |index: usize, pass: Pass| {
        if index == 3 {
            Err(ClimateError::Invalid("broken".into()))
        } else {
            read(index, pass)
        }
    };
    let error = labeller
        .label_series(6, failing, |_, _| Ok(()))
        .unwrap_err();
    assert_eq!(error.to_string(), "broken");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn rolling_the_world_rolls_the_labels(lon_deg in 0.0..360.0f64, shift in 1usize..180) {
        let (grid, labeller) = one_degree();
        let snapshot = stormy(&grid, lon_deg);
        let plain = label(&labeller, &snapshot);
        let rolled = label(&labeller, &roll(&snapshot, shift));
        let expected = Array2::from_shape_fn((91, 180), |(j, i)| plain.mask.codes[[j, (i + 180 - shift) % 180]]);
        prop_assert!(plain.mask.pixel_counts()[1] > 0 && plain.mask.pixel_counts()[2] > 0);
        prop_assert_eq!(rolled.mask.codes, expected);
        prop_assert_eq!(plain.objects.len(), rolled.objects.len());
    }
}
