//! The boxes of a synthetic run's truth.

use squall_data::boxes;
use squall_data::synthetic::{STEPS_PER_FILE, Scenario, SyntheticConfig, SyntheticRun, write_run};
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
