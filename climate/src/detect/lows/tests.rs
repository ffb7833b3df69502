//! Synthetic lows: which are found, which have a warm core, and how they are tracked.

use super::*;
use crate::detect::{Detector, FirstPass, Method, MethodLabels, SecondPass};
use crate::label::Pass;
use ndarray::{Array3, Axis, stack};
use squall_data::grid::{distance_km, lon_difference_deg};
use squall_data::{BoxClass, Calendar, Class, Snapshot};

fn one_degree() -> Arc<LatLonGrid> {
    Arc::new(LatLonGrid::global(181, 360).unwrap())
}

/// exp(-(r/radius)²) around a centre.
fn bell(grid: &LatLonGrid, (lat, lon): (f64, f64), radius_km: f64) -> Array2<f64> {
    Array2::from_shape_fn(grid.shape(), |(j, i)| {
        let off = distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]);
        (-(off / radius_km).powi(2)).exp()
    })
}

fn time(index: usize) -> Time {
    let start = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
    start.add_seconds(6 * 3600 * index as i64)
}

fn snapshot(grid: &Arc<LatLonGrid>, index: usize, planes: &[(Variable, Array2<f64>)]) -> Snapshot {
    let views: Vec<_> = planes.iter().map(|(_, plane)| plane.view()).collect();
    let fields: Array3<f64> = stack(Axis(0), &views).unwrap();
    Snapshot {
        time: time(index),
        grid: grid.clone(),
        variables: planes.iter().map(|(variable, _)| *variable).collect(),
        fields: fields.mapv(|value| value as f32),
        source: ("lows".into(), index),
    }
}

fn detector(grid: &Arc<LatLonGrid>) -> LowsDetector {
    LowsDetector::new(&DetectorThresholds::default(), grid.clone()).unwrap()
}

/// One low has a channel to the east, 50 Pa above its lowest pressure; the other rises on all sides.
#[test]
fn a_closed_low_is_found_by_pressure_alone_and_an_open_one_is_not() {
    let grid = one_degree();
    let closed = bell(&grid, (50.0, 100.0), 400.0);
    let open = bell(&grid, (50.0, 250.0), 400.0);
    let mut psl = (closed + open).mapv(|depth| 101_000.0 - 1000.0 * depth);
    let found = |psl: &Array2<f64>| {
        let fields =
            DetectFields::from_snapshot(snapshot(&grid, 0, &[(Variable::Psl, psl.clone())]));
        let lows = detector(&grid).lows(&fields).unwrap();
        lows.iter()
            .map(|low| (low.lat_deg.round(), low.lon_deg.round(), low.class))
            .collect::<Vec<_>>()
    };
    let class = BoxClass::ExtratropicalCyclone;
    assert_eq!(
        found(&psl),
        [(50.0, 100.0, class), (50.0, 250.0, class)],
        "without the channel"
    );
    for column in 251..290 {
        psl[[140, column]] = 100_050.0;
    }
    assert_eq!(found(&psl), [(50.0, 100.0, class)]);
}

/// Regression: the pressure was that of parabolas between cells, which the data do not have.
#[test]
fn the_pressure_of_a_low_is_that_of_its_cell_and_its_place_is_finer() {
    let grid = Arc::new(LatLonGrid::global(73, 144).unwrap());
    // A third of a cell off the nearest one, whose place is 50N 100E.
    let psl = bell(&grid, (50.8, 100.8), 400.0).mapv(|depth| 101_000.0 - 3000.0 * depth);
    let lowest = psl.iter().fold(f64::INFINITY, |least, pa| least.min(*pa));
    let fields = DetectFields::from_snapshot(snapshot(&grid, 0, &[(Variable::Psl, psl)]));
    let lows = detector(&grid).lows(&fields).unwrap();
    assert_eq!(lows.len(), 1);
    assert_eq!(lows[0].min_psl_pa, f64::from(lowest as f32));
    assert!(
        lows[0].lat_deg > 50.1 && lows[0].lon_deg > 100.1,
        "{lows:?}"
    );
}

#[test]
fn a_warm_core_is_left_out_where_fields_tell_it() {
    let grid = one_degree();
    let place = (40.0, 100.0);
    let core = bell(&grid, place, 300.0);
    let psl = bell(&grid, place, 400.0).mapv(|depth| 101_000.0 - 3000.0 * depth);
    let found = |upper: Option<f64>, warm: Option<f64>| {
        let mut planes = vec![(Variable::Psl, psl.clone())];
        if let Some(warm) = warm {
            // Four degrees and 200 m for a full warm core.
            planes.extend([
                (Variable::T200, core.mapv(|c| 220.0 + 4.0 * warm * c)),
                (Variable::T500, core.mapv(|c| 268.0 + 4.0 * warm * c)),
                (Variable::Z1000, Array2::from_elem(grid.shape(), 100.0)),
                (Variable::Z200, core.mapv(|c| 12_000.0 + 200.0 * warm * c)),
            ]);
        }
        let thickness = |warm: f64| core.mapv(|c| (3600.0 + 30.0 * warm * c) as f32);
        let fields = DetectFields {
            upper_thickness_m: upper.map(thickness),
            ..DetectFields::from_snapshot(snapshot(&grid, 0, &planes))
        };
        detector(&grid).lows(&fields).unwrap().len()
    };
    assert_eq!(found(None, None), 1, "nothing tells");
    assert_eq!((found(None, Some(0.0)), found(None, Some(1.0))), (1, 0));
    assert_eq!((found(Some(0.0), None), found(Some(1.0), None)), (1, 0));
    // Heights take precedence.
    let both = [(0.0, 1.0), (1.0, 0.0)].map(|(upper, warm)| found(Some(upper), Some(warm)));
    assert_eq!(both, [1, 0]);
}

/// Four degrees to the east every six hours, across the date line and the seam of the grid.
#[test]
fn a_low_is_one_track_over_the_date_line_and_over_the_seam() {
    let grid = Arc::new(LatLonGrid::global(73, 144).unwrap());
    for first_deg in [160.0, 340.0] {
        let place = |index: usize| (50.0, (first_deg + 4.0 * index as f64) % 360.0);
        let read = |index: usize, _: Pass| -> Result<Option<DetectFields>> {
            let low = bell(&grid, place(index), 600.0);
            let psl = low.mapv(|depth| 101_000.0 - 3000.0 * depth);
            let fields = snapshot(&grid, index, &[(Variable::Psl, psl)]);
            Ok(Some(DetectFields::from_snapshot(fields)))
        };
        let thresholds = DetectorThresholds::default();
        let detectors = [Detector::new(Method::Lows, &thresholds, &grid).unwrap()];
        let mut first = FirstPass::new(&detectors);
        first.run(&detectors, 11, &read, |_| Ok(())).unwrap();
        let conclusions = first.conclude(&detectors).unwrap();
        let mut second = SecondPass::new(&detectors);
        let mut seen = 0;
        let each = |_: &SecondPass, index: usize, labels: Option<Vec<MethodLabels>>| {
            let labelled = labels.unwrap().remove(0).labelled;
            assert!(labelled.mask.codes.iter().all(|code| *code == 0));
            let (object, found) = (&labelled.objects[0], labelled.boxes[0]);
            assert_eq!(object.class, Class::ExtratropicalCyclone);
            assert_eq!(object.track_id, Some(FIRST_EXTRATROPICAL));
            assert_eq!(found.track_id, object.track_id);
            let (lat, lon) = place(index);
            assert!((object.lat_deg - lat).abs() < 2.5, "{object:?}");
            assert!(lon_difference_deg(object.lon_deg, lon).abs() < 2.5);
            assert!(found.geo.contains(object.lat_deg, object.lon_deg));
            assert!(object.min_psl_pa.unwrap() < 98_500.0 && object.length_km.is_nan());
            seen += labelled.objects.len();
            Ok(())
        };
        second
            .run(&detectors, &conclusions, 11, &read, each)
            .unwrap();
        assert_eq!(seen, 11, "{first_deg}");
        let summary = second.summaries(&conclusions)[0];
        assert_eq!((summary.tracks, summary.boxes), (1, [0, 0, 11, 0]));
        assert_eq!((summary.cyclones, summary.rivers), (0, 0));
    }
}

/// Daily data are tracked as by `deepcam`, which knows the usual step of the series.
#[test]
fn one_step_of_daily_data_is_bridged() {
    let grid = Arc::new(LatLonGrid::global(37, 72).unwrap());
    let times: Vec<Time> = (0..8).map(|day| time(4 * day)).collect();
    let plain = detector(&grid);
    assert!(plain.never_joins(&times));
    assert!(!plain.of_times(&times).never_joins(&times));
}

#[test]
fn numbers_that_make_no_sense_are_named() {
    let mut thresholds = DetectorThresholds::default();
    thresholds.lows.contour_rise_pa = 0.0;
    let error = LowsDetector::new(&thresholds, one_degree()).unwrap_err();
    assert!(error.to_string().contains("contour_rise_pa"), "{error}");
}
