//! The boxes of a synthetic run's truth.

use squall_data::boxes;
use squall_data::grid::distance_km;
use squall_data::synthetic::{
    STEPS_PER_FILE, Scenario, SyntheticConfig, SyntheticRun, TruthObject, write_run,
};
use squall_data::{BoxClass, Calendar, Class, Time};

fn run(month: i64, days: usize) -> SyntheticRun {
    SyntheticRun::new(SyntheticConfig {
        rows: 96,
        columns: 144,
        ..config(month, days * 4)
    })
    .unwrap()
}

fn config(month: i64, steps: usize) -> SyntheticConfig {
    SyntheticConfig {
        rows: 48,
        columns: 72,
        start: Time::new(Calendar::NoLeap, 2000, month, 1, 0, 0, 0).unwrap(),
        step_hours: 6,
        steps,
        scenario: Scenario::PRESENT,
        seed: 5,
    }
}

#[test]
fn boxes_hold_their_centres_and_follow_the_state_of_the_storms() {
    let mut counts = [0usize; 4];
    for month in [1, 8] {
        let run = run(month, 20);
        for index in (0..run.len()).step_by(3) {
            let (_, truth) = run.snapshot(index);
            for found in &truth.boxes {
                let class = found.geo.class;
                counts[usize::from(class.code())] += 1;
                found.geo.check().unwrap();
                assert!(
                    found.geo.contains(found.lat_deg, found.lon_deg),
                    "{found:?}"
                );
                let height = found.geo.north_deg - found.geo.south_deg;
                let expected = match class {
                    BoxClass::TropicalDepression => 5.5 - 1e-9..5.5 + 1e-9,
                    BoxClass::TropicalCyclone => 13.2 - 1e-9..25.2,
                    // 520 to 850 km to either side.
                    BoxClass::ExtratropicalCyclone => 9.35..15.29,
                    BoxClass::AtmosphericRiver => 5.0..90.0,
                };
                let polar = found.geo.north_deg == 90.0 || found.geo.south_deg == -90.0;
                assert!(polar || expected.contains(&height), "{found:?}");
                // No storm is two things at once, but a low and its river.
                let tropical = [BoxClass::TropicalDepression, BoxClass::TropicalCyclone];
                let twins = truth.boxes.iter().filter(|other| {
                    other.track_id == found.track_id && tropical.contains(&other.geo.class)
                });
                assert!(twins.count() <= 1, "{found:?}");
            }
            // The cyclones and rivers of the mask have boxes.
            let boxed = |id: u64, class: BoxClass| {
                truth
                    .boxes
                    .iter()
                    .any(|b| b.track_id == id && b.geo.class == class)
            };
            for object in &truth.objects {
                let class = match object.class {
                    Class::TropicalCyclone => BoxClass::TropicalCyclone,
                    _ => BoxClass::AtmosphericRiver,
                };
                assert!(boxed(object.track_id, class), "{object:?}");
            }
        }
    }
    assert!(counts.iter().all(|&count| count >= 10), "{counts:?}");
}

/// Of cyclones that no other is near: theirs are the cells of the mask within their edges, and reach these.
#[test]
fn objects_have_the_area_and_the_edges_of_their_cells() {
    let run = run(8, 30);
    let grid = run.grid();
    let half_lat = grid.lat_spacing_deg() / 2.0;
    let half_lon = grid.lon_spacing_deg() / 2.0;
    let mut compared = 0;
    for index in (0..run.len()).step_by(20) {
        let (_, truth) = run.snapshot(index);
        let cyclones = (truth.objects.iter()).filter(|o| o.class == Class::TropicalCyclone);
        let cyclones: Vec<&TruthObject> = cyclones.collect();
        for found in &cyclones {
            let is_far = |other: &&TruthObject| {
                let (a, b) = (found, other);
                let km = distance_km(a.lat_deg, a.lon_deg, b.lat_deg, b.lon_deg);
                other.track_id == found.track_id || km > 4000.0
            };
            if !cyclones.iter().all(is_far) {
                continue;
            }
            let rows = found.south_deg..=found.north_deg;
            let width = (found.east_deg - found.west_deg).rem_euclid(360.0);
            let from_west = |i: usize| (grid.lon_deg()[i] - found.west_deg).rem_euclid(360.0);
            let (mut area, mut lat, mut lon) = (0.0, Vec::new(), Vec::new());
            for ((j, i), code) in truth.mask.codes.indexed_iter() {
                let is_inside = rows.contains(&grid.lat_deg()[j]) && from_west(i) <= width;
                if *code == Class::TropicalCyclone.code() && is_inside {
                    area += grid.cell_area_km2(j);
                    lat.push(grid.lat_deg()[j]);
                    lon.push(from_west(i));
                }
            }
            let off = area / found.area_km2 - 1.0;
            assert!(off.abs() < 1e-9, "{found:?}: {area}");
            let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            for (edge, expected) in [
                (least(&lat) - half_lat, found.south_deg),
                (most(&lat) + half_lat, found.north_deg),
                (least(&lon) - half_lon, 0.0),
                (most(&lon) + half_lon, width),
            ] {
                assert!((edge - expected).abs() < 1e-6, "{found:?}: {edge}");
            }
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared}");
}

#[test]
fn a_run_writes_its_boxes_and_goes_on_after_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(8, 10);
    write_run(&config, folder.path(), STEPS_PER_FILE, |_| Ok(())).unwrap();
    let path = folder.path().join("truth/boxes.csv");
    let run = SyntheticRun::new(config.clone()).unwrap();
    let read = boxes::read(&path, run.grid(), Calendar::NoLeap).unwrap();
    assert_eq!(read.frames().len(), 10);
    for index in 0..10 {
        let (snapshot, truth) = run.snapshot(index);
        let found = read.at(snapshot.time).unwrap();
        assert_eq!(found.len(), truth.boxes.len());
        for (a, b) in found.iter().zip(truth.tracked_boxes()) {
            assert_eq!((a.geo.class, a.track_id), (b.geo.class, b.track_id));
            assert!(a.geo.overlap(&b.geo) > 0.999);
        }
    }
    let whole = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let summary = write_run(&config, folder.path(), STEPS_PER_FILE, |_| Ok(())).unwrap();
    assert_eq!(summary.kept, summary.files);
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}
