//! The other heuristics on a real 2.5-degree forecast: GFS, 2011-10-11 00Z, hurricanes Jova and Irwin, rivers.
#![allow(clippy::print_stdout)] // figures for the documentation

mod common;

use common::detect_series;
use squall_climate::detect::percentile::{PercentileDetector, PercentileThresholds};
use squall_climate::detect::tempest::{
    Node, NodeThresholds, TempestDetector, TempestThresholds, closed_lows,
};
use squall_climate::detect::{
    Agreement, DetectFields, Detector, DetectorThresholds, FieldRequest, Method, TransportSource,
    VapourTransport, agreement::AgreementSource, bard::BardDetector,
};
use squall_climate::events::{EventFields, from_boxes};
use squall_climate::statistics::river_scale;
use squall_climate::track::{Tracker, TrackerOptions};
use squall_data::grid::lon_difference_deg;
use squall_data::{Archive, BoxClass, Class, GeoBox, TrackedBox, Variable, testdata};

fn archive() -> Option<Archive> {
    let path = testdata::real("gfs-2p5deg-20111011/gfs_2p5deg_20111011T00.nc")?;
    Some(Archive::open(&path.to_string_lossy()).unwrap())
}

fn fields(archive: &Archive) -> DetectFields {
    let all: Vec<Variable> = archive.available().to_vec();
    DetectFields::read(archive, 0, &FieldRequest::all(&all)).unwrap()
}

fn near(found: (f64, f64), place: (f64, f64)) -> bool {
    (found.0 - place.0).hypot(lon_difference_deg(found.1, place.1)) < 2.6
}

const JOVA: (f64, f64) = (17.5, 255.0);
const IRWIN: (f64, f64) = (17.5, 242.5);
/// A storm of 35 kt in IBTrACS (2011282N08136), which only the true warm core detects.
const BANYAN: (f64, f64) = (10.0, 130.0);

#[test]
fn jova_and_irwin_are_found_with_the_true_warm_core_and_with_its_substitute_and_nothing_false() {
    let Some(archive) = archive() else {
        return;
    };
    let mut fields = fields(&archive);
    assert!(
        fields.upper_thickness_m.is_some(),
        "the file has 300 and 500 hPa"
    );
    let grid = fields.snapshot.grid.clone();
    let detector = TempestDetector::new(&TempestThresholds::default(), grid.clone()).unwrap();
    let psl = fields.snapshot.field(Variable::Psl).unwrap();
    let lows = closed_lows(psl, &grid, &detector.thresholds().node).unwrap();
    let poleward = lows.iter().filter(|low| grid.lat_deg()[low.0].abs() > 35.0);
    assert!(
        poleward.count() >= 10,
        "lows of all kinds have closed contours"
    );
    for warm_core in ["true", "substitute"] {
        let nodes = detector.nodes(&fields).unwrap();
        println!("{warm_core}: {} lows, nodes {nodes:#?}", lows.len());
        let tropical: Vec<_> = nodes
            .iter()
            .filter(|n| n.lat_deg.abs() <= 50.0 && n.max_wind_m_s >= 10.0)
            .collect();
        for (name, place) in [("Jova", JOVA), ("Irwin", IRWIN)] {
            let hits = tropical
                .iter()
                .filter(|n| near((n.lat_deg, n.lon_deg), place));
            assert_eq!(
                hits.count(),
                1,
                "{name} by the {warm_core} warm core: {nodes:#?}"
            );
        }
        let known = |n: &&&Node| {
            [JOVA, IRWIN, BANYAN]
                .iter()
                .any(|place| near((n.lat_deg, n.lon_deg), *place))
        };
        let expected = if warm_core == "true" { 3 } else { 2 };
        assert_eq!(tropical.len(), expected, "{tropical:#?}");
        assert_eq!(tropical.iter().filter(known).count(), expected);
        let jova = tropical
            .iter()
            .find(|n| near((n.lat_deg, n.lon_deg), JOVA))
            .unwrap();
        assert!((jova.min_psl_pa - 99_020.0).abs() < 20.0, "{jova:?}");
        assert!((jova.max_wind_m_s - 34.2).abs() < 0.2, "{jova:?}");
        fields.upper_thickness_m = None;
    }
}

#[test]
fn the_stand_in_for_transport_has_the_right_size() {
    let Some(archive) = archive() else {
        return;
    };
    let fields = fields(&archive);
    let truth = fields.transport().unwrap();
    assert_eq!(truth.source, TransportSource::Levels);
    let proxy = VapourTransport::proxy(&fields.snapshot).unwrap();
    let lat = fields.snapshot.grid.lat_deg();
    let (mut xy, mut xx, mut yy, mut count) = (0.0, 0.0, 0.0, 0);
    let (mut ratios, mut other_steps) = (Vec::new(), 0u32);
    // For a duration between one and two days, the rank is the step itself.
    let step = |kg_m_s: f64| river_scale(kg_m_s, 36.0);
    for ((j, i), &y) in truth.magnitude.indexed_iter() {
        let (x, y) = (f64::from(proxy.magnitude[[j, i]]), f64::from(y));
        if lat[j].abs() > 20.0 && y > 250.0 {
            (xy, xx, yy, count) = (xy + x * y, xx + x * x, yy + y * y, count + 1);
            ratios.push(x / y);
            other_steps += u32::from(step(x) != step(y));
        }
    }
    let (slope, cosine) = (xy / xx, xy / (xx * yy).sqrt());
    println!("{count} cells: slope {slope:.3}, cosine {cosine:.4}");
    assert!(count > 200 && cosine > 0.95);
    // The proxy already includes the factor.
    assert!((slope - 1.0).abs() < 0.05, "{slope}");
    // This says little about single cells (docs/events.md has these figures).
    ratios.sort_by(f64::total_cmp);
    let cells = ratios.len() as f64;
    let [low, high] = [0.05, 0.95].map(|share: f64| ratios[(share * cells) as usize]);
    let share = f64::from(other_steps) / cells;
    println!("{low:.3} to {high:.3} of the transport, {share:.3} of the cells at another step");
    assert!((low - 0.68).abs() < 0.02 && (high - 1.20).abs() < 0.02);
    assert!((share - 0.24).abs() < 0.02);
}

#[test]
fn all_methods_find_the_rivers_of_that_day() {
    let Some(archive) = archive() else {
        return;
    };
    let methods = [Method::Deepcam, Method::Tempest, Method::Bard];
    let thresholds = DetectorThresholds::default();
    let detectors: Vec<Detector> = methods
        .iter()
        .map(|m| Detector::new(*m, &thresholds, archive.grid()).unwrap())
        .collect();
    let sources = methods.map(|m| AgreementSource {
        name: m.name().into(),
        classes: m.classes().to_vec(),
    });
    let mut agreement = Agreement::new(sources.to_vec());
    let all = archive.available().to_vec();
    let grid = archive.grid().clone();
    let mut rivers = Vec::new();
    let summaries = detect_series(
        &detectors,
        1,
        |index, pass| DetectFields::read(&archive, index, &FieldRequest::by(&methods, pass, &all)),
        |_, labels| {
            let masks: Vec<_> = labels.iter().map(|l| Some(&l.labelled.mask)).collect();
            agreement.add(&masks, &grid)?;
            for label in labels {
                let objects = &label.labelled.objects;
                rivers.push(
                    objects
                        .iter()
                        .filter(|e| e.class == Class::AtmosphericRiver)
                        .count(),
                );
                println!("{}:", label.method);
                if label.method == Method::Bard {
                    // TECA-BARD itself tags 3 to 4 % of the globe in 5 to 16 pieces on MERRA-2.
                    let area: f64 = objects.iter().map(|e| e.area_km2).sum();
                    let globe = grid.row_areas_km2().iter().sum::<f64>() * grid.shape().1 as f64;
                    assert!((0.02..0.06).contains(&(area / globe)), "{}", area / globe);
                    assert!((5..=16).contains(&objects.len()));
                }
                for e in objects {
                    println!(
                        "  {} {:.1} {:.1} {:.0} km2, {:.0} x {:.0} km, p {:?}",
                        e.class.name(),
                        e.lat_deg,
                        e.lon_deg,
                        e.area_km2,
                        e.length_km,
                        e.width_km,
                        e.mean_probability
                    );
                }
            }
            Ok(())
        },
    )
    .unwrap();
    println!("{agreement}");
    assert!(summaries[0].untracked && summaries[1].untracked && !summaries[2].untracked);
    assert_eq!(
        (summaries[0].cyclones, summaries[1].cyclones),
        (2, 3),
        "Banyan too"
    );
    assert!(rivers.iter().all(|n| (4..40).contains(n)), "{rivers:?}");
    for row in agreement.rows() {
        let f1 = row.event_f1().unwrap();
        match row.class {
            Class::TropicalCyclone => assert_eq!(row.matched_events, 2, "{agreement}"),
            _ => assert!(f1 > 0.3, "{agreement}"),
        }
    }
    // The North Atlantic river crosses the seam and has a high probability there.
    let fields = fields(&archive);
    let bard = BardDetector::new(&thresholds.bard, archive.grid().clone()).unwrap();
    let p = bard
        .probability(fields.transport().unwrap().magnitude.view())
        .unwrap();
    assert!(p.iter().all(|p| (0.0..=1.0).contains(p)));
    let tropics = p[archive.grid().nearest(0.0, 200.0)];
    let (best, _) = p.indexed_iter().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    println!(
        "tropics {tropics}, highest at {}",
        archive.grid().lat_deg()[best.0]
    );
    assert!(tropics < 0.1 && archive.grid().lat_deg()[best.0].abs() > 20.0);
}

#[test]
fn one_time_is_no_climatology() {
    let Some(archive) = archive() else {
        return;
    };
    let detector =
        PercentileDetector::new(&PercentileThresholds::default(), archive.grid().clone()).unwrap();
    let mut climatology = detector.climatology();
    let fields = fields(&archive);
    let transport = fields.transport().unwrap();
    climatology.add(10, transport.magnitude.view()).unwrap();
    let error = climatology.thresholds(detector.thresholds()).unwrap_err();
    assert!(error.to_string().contains("found 1"), "{error}");
    // With a uniform climatology of 250 kg/(m s), as in fixed-threshold detectors, only the geometry decides.
    let thresholds = PercentileThresholds {
        min_times: 1,
        min_transport_kg_m_s: 250.0,
        ..PercentileThresholds::default()
    };
    let detector = PercentileDetector::new(&thresholds, archive.grid().clone()).unwrap();
    let mut calm = detector.climatology();
    calm.add(10, ndarray::Array2::zeros(archive.grid().shape()).view())
        .unwrap();
    let usual = calm.thresholds(&thresholds).unwrap();
    let rivers = detector
        .rivers(transport.magnitude.view(), &transport, 10, &usual)
        .unwrap();
    println!("{} rivers above 250 kg/(m s)", rivers.len());
    assert!((2..20).contains(&rivers.len()));
}

#[test]
fn ecmwf_lows_are_found_and_are_no_tropical_cyclones() {
    let Some(path) = testdata::real("mslp-ecmwf-0p4-202208/mslp.nc") else {
        return;
    };
    let archive = Archive::open(&path.to_string_lossy()).unwrap();
    let grid = archive.grid().clone();
    let detector = TempestDetector::new(&TempestThresholds::default(), grid.clone()).unwrap();
    let mut deepest = (f32::INFINITY, 0.0);
    for index in 0..archive.times().len() {
        let fields =
            DetectFields::read(&archive, index, &FieldRequest::all(&[Variable::Psl])).unwrap();
        // Pressure alone does not show the kind of cyclone: the method fails instead of guessing.
        assert!(detector.nodes(&fields).is_err());
        let psl = fields.snapshot.field(Variable::Psl).unwrap();
        let lows = closed_lows(psl, &grid, &NodeThresholds::default()).unwrap();
        let at = |low: &(usize, usize)| (grid.lat_deg()[low.0], grid.lon_deg()[low.1]);
        println!("{}: {} closed lows", archive.times()[index], lows.len());
        assert!((10..150).contains(&lows.len()));
        for low in &lows {
            if psl[*low] < deepest.0 {
                deepest = (psl[*low], at(low).0);
            }
        }
        if index == 3 {
            let bay = lows.iter().find(|low| {
                let (lat, lon) = at(low);
                (lat - 20.8).abs() < 1.0 && (lon - 90.0).abs() < 1.0
            });
            let bay = bay.expect("the depression in the Bay of Bengal");
            assert!((psl[*bay] - 99_610.0).abs() < 30.0);
        }
    }
    println!("deepest {deepest:?}");
    // The winter low of the Southern Ocean is beyond 50 degrees, where no track of tropical cyclones is accepted.
    assert!((deepest.0 - 93_310.0).abs() < 30.0 && deepest.1 < -50.0);
}

/// The winter low of the Southern Ocean with uneven steps of 24, 12 and 12 hours: one extratropical track, and no
/// tropical one.
#[test]
fn ecmwf_lows_are_followed_over_uneven_steps_as_what_they_are() {
    let Some(path) = testdata::real("mslp-ecmwf-0p4-202208/mslp.nc") else {
        return;
    };
    let archive = Archive::open(&path.to_string_lossy()).unwrap();
    let grid = archive.grid().clone();
    let mut tracker = Tracker::new(&grid, TrackerOptions::for_boxes()).unwrap();
    let (mut deepest, mut tracks) = (Vec::new(), Vec::new());
    for index in 0..archive.times().len() {
        let snapshot = archive.read(index, &[Variable::Psl]).unwrap();
        let psl = snapshot.field(Variable::Psl).unwrap();
        let lows = closed_lows(psl, &grid, &NodeThresholds::default()).unwrap();
        let boxes: Vec<TrackedBox> = lows
            .iter()
            .map(|&(j, i)| (grid.lat_deg()[j], grid.lon_deg()[i]))
            .filter(|(lat, _)| lat.abs() > 30.0)
            .map(|centre| GeoBox::around(BoxClass::ExtratropicalCyclone, centre, (6.0, 9.0)).into())
            .collect();
        let fields = EventFields::of(&snapshot);
        let mut found = from_boxes(snapshot.time, &boxes, &grid, &fields).unwrap();
        tracks.extend(tracker.push(snapshot.time, &mut found).unwrap().finished);
        let events = found.into_iter().map(|detected| detected.event);
        let low = events.min_by(|a, b| a.min_psl_pa.unwrap().total_cmp(&b.min_psl_pa.unwrap()));
        deepest.push(low.unwrap());
    }
    tracks.extend(tracker.finish().finished);
    assert!(
        tracks
            .iter()
            .all(|track| track.class == Class::ExtratropicalCyclone)
    );
    // Read from the file with numpy: 65S 11E, 66S 7E and 64S 9E on the 18th at 0 and 12 UTC and on the 19th.
    let expected = [
        (-64.8, 11.2, 93_447.0),
        (-65.6, 7.2, 93_312.0),
        (-64.0, 9.2, 93_806.0),
    ];
    for (event, (lat, lon, pa)) in deepest[1..].iter().zip(expected) {
        let off = (event.lat_deg - lat).hypot(event.lon_deg - lon);
        assert!(
            off < 0.5 && (event.min_psl_pa.unwrap() - pa).abs() < 2.0,
            "{event:?}"
        );
    }
    let id = deepest[1].track_id.unwrap();
    assert!(
        deepest[1..].iter().all(|event| event.track_id == Some(id)),
        "{deepest:?}"
    );
    let track = tracks.iter().find(|track| track.track_id == id).unwrap();
    assert!(track.duration_hours() >= 24.0, "{track:?}");
}
