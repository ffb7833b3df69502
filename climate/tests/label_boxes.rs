//! Boxes of all four classes are found at the storms of the synthetic run, in both hemispheres and across the seam.

mod common;

use common::{detect_series, only};
use ndarray::{Array3, s};
use squall_climate::ClimateError;
use squall_climate::detect::{DetectFields, Detector, DetectorThresholds, Method};
use squall_climate::label::{
    FIRST_DEPRESSION, FIRST_EXTRATROPICAL, Labeller, LowCandidate, Pass, Thresholds,
};
use squall_data::grid::{distance_km, lon_difference_deg};
use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun, Truth};
use squall_data::{
    BoxClass, Calendar, Class, GeoBox, LatLonGrid, Snapshot, Time, TrackedBox, Variable,
};
use std::collections::BTreeMap;
use std::sync::Arc;

fn run(shape: (usize, usize), month: i64, days: usize) -> SyntheticRun {
    SyntheticRun::new(SyntheticConfig {
        rows: shape.0,
        columns: shape.1,
        start: Time::new(Calendar::NoLeap, 2000, month, 1, 0, 0, 0).unwrap(),
        step_hours: 6,
        steps: 4 * days,
        scenario: Scenario::PRESENT,
        seed: 5,
    })
    .unwrap()
}

/// All fields of a run, which labelling reads twice, and their truth.
fn computed(run: &SyntheticRun) -> (Vec<Snapshot>, Vec<Truth>) {
    (0..run.len()).map(|index| run.snapshot(index)).unzip()
}

fn label(run: &SyntheticRun, fields: &[Snapshot]) -> Vec<Vec<TrackedBox>> {
    let labeller = Labeller::new(&Thresholds::default(), run.grid().clone()).unwrap();
    let read =
        |index: usize, _: Pass| -> Result<Snapshot, ClimateError> { Ok(fields[index].clone()) };
    let mut found = Vec::new();
    let summary = labeller.label_series(run.len(), read, |_, labelled| {
        found.push(labelled.boxes);
        Ok(())
    });
    let boxes: usize = found.iter().map(Vec::len).sum();
    assert_eq!(summary.unwrap().boxes.iter().sum::<usize>(), boxes);
    found
}

/// All tracks bridge one step of the data, even if it exceeds their gap; only data with shorter steps used to be joined.
#[test]
fn lows_of_daily_and_twelve_hourly_data_are_joined() {
    for (step_hours, joined_before) in [(24, false), (12, true), (6, true)] {
        let run = SyntheticRun::new(SyntheticConfig {
            rows: 48,
            columns: 72,
            start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
            step_hours,
            steps: 60 * 24 / step_hours as usize,
            scenario: Scenario::PRESENT,
            seed: 5,
        })
        .unwrap();
        let times: Vec<Time> = (0..run.len()).map(|index| run.time(index)).collect();
        let plain = Labeller::new(&Thresholds::default(), run.grid().clone()).unwrap();
        let adapted = plain.clone().of_times(&times);
        let (fields, _) = computed(&run);
        let read =
            |index: usize, _: Pass| -> Result<Snapshot, ClimateError> { Ok(fields[index].clone()) };
        // Counts boxes on tracks of extratropical cyclones and of depressions.
        let count = |labeller: &Labeller| {
            let mut counts = [0, 0];
            let summary = labeller.label_series(run.len(), read, |_, labelled| {
                for id in labelled.boxes.iter().filter_map(|found| found.track_id) {
                    counts[0] += usize::from((FIRST_EXTRATROPICAL..FIRST_DEPRESSION).contains(&id));
                    counts[1] += usize::from(id >= FIRST_DEPRESSION);
                }
                Ok(())
            });
            summary.unwrap();
            counts
        };
        let (before, now) = (count(&plain), count(&adapted));
        assert!(now.iter().all(|&boxes| boxes > 0), "{step_hours}: {now:?}");
        assert_eq!(before[0] > 0, joined_before, "{step_hours}: {before:?}");
        assert_eq!(before[1] > 0, step_hours == 6, "{step_hours}: {before:?}");
        if step_hours == 6 {
            assert_eq!(before, now);
        }
        assert!(adapted.untrackable(&times).is_empty());
        assert_eq!(plain.untrackable(&times).is_empty(), step_hours == 6);
    }
}

/// In these eight days, no low poleward of the tropics has a warm core or is close to a tropical cyclone.
#[test]
fn lows_by_pressure_alone_are_those_of_the_boxes() {
    let run = SyntheticRun::new(SyntheticConfig {
        rows: 48,
        columns: 72,
        start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
        step_hours: 6,
        steps: 32,
        scenario: Scenario::PRESENT,
        seed: 1,
    })
    .unwrap();
    let (fields, _) = computed(&run);
    let mut expected = label(&run, &fields);
    for boxes in &mut expected {
        boxes.retain(|found| found.geo.class == BoxClass::ExtratropicalCyclone);
    }
    assert!(expected.iter().map(Vec::len).sum::<usize>() > 60);
    let thresholds = DetectorThresholds::default();
    let detectors = [Detector::new(Method::Lows, &thresholds, run.grid()).unwrap()];
    for channels in [&[Variable::Psl][..], &Variable::CHANNELS[..]] {
        let read = |index: usize, _: Pass| -> Result<DetectFields, ClimateError> {
            Ok(DetectFields::from_snapshot(only(&fields[index], channels)))
        };
        let mut found = Vec::new();
        let summary = detect_series(&detectors, run.len(), read, |_, mut labels| {
            found.push(labels.remove(0).labelled.boxes);
            Ok(())
        });
        summary.unwrap();
        assert!(found == expected, "{channels:?}");
    }
}

/// Times more than a day apart have no tracks; this is known before reading.
#[test]
fn times_too_far_apart_for_tracks_are_known() {
    let run = run((48, 72), 8, 1);
    let start = run.time(0);
    let labeller = Labeller::new(&Thresholds::default(), run.grid().clone()).unwrap();
    let lost = |days: &[i64]| {
        let times: Vec<Time> = days.iter().map(|d| start.add_seconds(86_400 * d)).collect();
        labeller.clone().of_times(&times).untrackable(&times)
    };
    assert_eq!(
        lost(&[0, 2, 4, 6]),
        [
            Class::TropicalCyclone,
            Class::ExtratropicalCyclone,
            Class::TropicalDepression
        ]
    );
    assert!(lost(&[0, 1, 2, 3]).is_empty() && lost(&[0]).is_empty());
    // The series is so short that extratropical cyclones are accepted untracked.
    assert!(!lost(&[0, 2]).contains(&Class::ExtratropicalCyclone));
}

/// The number of boxes of a class in `of`, and how many of them overlap a box of the class in `by` by at least 0.1.
fn met(of: &[Vec<GeoBox>], by: &[Vec<GeoBox>], class: BoxClass) -> [usize; 2] {
    let (mut all, mut met) = (0, 0);
    for (of, by) in of.iter().zip(by) {
        for wanted in of.iter().filter(|b| b.class == class) {
            all += 1;
            let meets = |b: &&GeoBox| b.class == class && b.overlap(wanted) >= 0.1;
            met += usize::from(by.iter().any(|b| meets(&b)));
        }
    }
    [all, met]
}

#[test]
fn most_storms_of_a_synthetic_run_are_boxed() {
    // For every class: true boxes, those that were found, found boxes, those that are true.
    let mut counts = [[0usize; 4]; 4];
    for month in [1, 8] {
        let run = run((96, 144), month, 30);
        let geo = |boxes: &Vec<TrackedBox>| boxes.iter().map(|b| b.geo).collect::<Vec<_>>();
        let (fields, truth) = computed(&run);
        let labelled = label(&run, &fields);
        let found: Vec<Vec<GeoBox>> = labelled.iter().map(geo).collect();
        let truth = (truth.iter()).map(|t| t.boxes.iter().map(|b| b.geo).collect());
        let truth: Vec<Vec<GeoBox>> = truth.collect();
        for class in BoxClass::ALL {
            let counts = &mut counts[usize::from(class.code())];
            let [storms, detected] = met(&truth, &found, class);
            let [boxes, right] = met(&found, &truth, class);
            for (sum, count) in counts.iter_mut().zip([storms, detected, boxes, right]) {
                *sum += count;
            }
        }
        // The boxes of one track move without jumps.
        let mut last: BTreeMap<u64, (usize, GeoBox)> = BTreeMap::new();
        let mut followed = 0;
        for (index, boxes) in labelled.iter().enumerate() {
            for found in boxes
                .iter()
                .filter(|b| b.geo.class == BoxClass::ExtratropicalCyclone)
            {
                let id = found.track_id.expect("a series of a month has tracks");
                if let Some((before, geo)) = last.insert(id, (index, found.geo)) {
                    let ((lat0, lon0), (lat1, lon1)) = (geo.centre(), found.geo.centre());
                    let steps = (index - before) as f64;
                    assert!(distance_km(lat0, lon0, lat1, lon1) <= 700.0 * steps, "{id}");
                    assert!(steps <= 3.0, "{id} is missed for {steps} steps");
                    followed += 1;
                }
            }
        }
        assert!(followed > 100, "{followed}");
    }
    for (class, least_found, least_right) in FLOORS {
        let [storms, detected, boxes, right] = counts[usize::from(class.code())];
        let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
        assert!(storms >= 40 && boxes >= 10, "{class:?}: {counts:?}");
        assert!(
            share(detected, storms) >= least_found,
            "{class:?}: {counts:?}"
        );
        assert!(share(right, boxes) >= least_right, "{class:?}: {counts:?}");
    }
}

/// Class, minimum recall, minimum precision.
const FLOORS: [(BoxClass, f64, f64); 4] = [
    (BoxClass::TropicalDepression, 0.2, 0.2),
    (BoxClass::TropicalCyclone, 0.6, 0.8),
    (BoxClass::ExtratropicalCyclone, 0.6, 0.7),
    (BoxClass::AtmosphericRiver, 0.5, 0.9),
];

fn lows(grid: &Arc<LatLonGrid>, snapshot: &Snapshot) -> Vec<LowCandidate> {
    let labeller = Labeller::new(&Thresholds::default(), grid.clone()).unwrap();
    let lows = labeller.lows(snapshot).unwrap();
    let mut all = lows.extratropical;
    all.extend(lows.depressions);
    // Isolated weak lows have boxes, and boxes contain their centres.
    let boxes = labeller.low_boxes(&all, &[]);
    let weak = |low: &&LowCandidate| low.wind_m_s.is_none_or(|wind| wind < 10.0);
    for low in all.iter().filter(weak) {
        let holds =
            |b: &TrackedBox| b.geo.class == low.class && b.geo.contains(low.lat_deg, low.lon_deg);
        assert!(boxes.iter().any(holds), "{low:?}");
    }
    all
}

/// Both have the same number of lows, and each of `a` has its image in `b`.
fn same(a: &[LowCandidate], b: &[LowCandidate], image: impl Fn(f64, f64) -> (f64, f64)) {
    assert_eq!(a.len(), b.len());
    assert!(a.len() > 5);
    for low in a {
        let (lat, lon) = image(low.lat_deg, low.lon_deg);
        let near = |other: &&LowCandidate| {
            other.class == low.class
                && (other.lat_deg - lat).abs() < 1e-3
                && lon_difference_deg(other.lon_deg, lon).abs() < 1e-3
        };
        assert!(b.iter().any(|other| near(&other)), "{low:?} has no image");
    }
}

#[test]
fn the_southern_hemisphere_is_the_northern_ones_mirror() {
    let run = run((96, 144), 8, 10);
    let snapshot = run.snapshot(30).0;
    let mut mirrored = snapshot.clone();
    mirrored.fields = snapshot.fields.slice(s![.., ..;-1, ..]).to_owned();
    for variable in [Variable::V850, Variable::Vbot] {
        let mut plane = mirrored
            .fields
            .index_axis_mut(ndarray::Axis(0), variable as usize);
        plane.mapv_inplace(|v| -v);
    }
    let (a, b) = (lows(run.grid(), &snapshot), lows(run.grid(), &mirrored));
    same(&a, &b, |lat, lon| (-lat, lon));
}

#[test]
fn the_seam_is_nowhere() {
    let run = run((96, 144), 1, 10);
    let snapshot = run.snapshot(20).0;
    let plain = lows(run.grid(), &snapshot);
    for shift in [1usize, 40, 100, 143] {
        let fields = Array3::from_shape_fn(snapshot.fields.dim(), |(k, j, i)| {
            snapshot.fields[[k, j, (i + 144 - shift) % 144]]
        });
        let rolled = Snapshot {
            fields,
            ..snapshot.clone()
        };
        let east = 2.5 * shift as f64;
        same(&plain, &lows(run.grid(), &rolled), |lat, lon| {
            (lat, lon + east)
        });
    }
}

#[test]
fn nothing_is_found_in_nothing_and_missing_fields_are_named() {
    let run = run((96, 144), 1, 1);
    let mut snapshot = run.snapshot(0).0;
    let labeller = Labeller::new(&Thresholds::default(), run.grid().clone()).unwrap();
    snapshot.variables[Variable::Psl as usize] = Variable::Tmq;
    let error = labeller.lows(&snapshot).unwrap_err();
    assert!(error.to_string().contains("PSL"), "{error}");
    let mut snapshot = run.snapshot(0).0;
    snapshot.fields.fill(f32::NAN);
    let lows = labeller.lows(&snapshot).unwrap();
    assert!(lows.extratropical.is_empty() && lows.depressions.is_empty());
    let bad: Thresholds =
        serde_json::from_str(r#"{"extratropical": {"contour_rise_pa": 0.0}}"#).unwrap();
    let error = Labeller::new(&bad, run.grid().clone()).unwrap_err();
    assert!(
        error.to_string().contains("extratropical.contour_rise_pa"),
        "{error}"
    );
}
