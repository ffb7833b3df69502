//! All methods on a synthetic run, whose truth is known: each finds storms, and the table says how far they agree.
#![allow(clippy::print_stdout)] // the table is worth reading

use squall_climate::detect::agreement::AgreementSource;
use squall_climate::detect::{
    Agreement, DetectFields, Detector, DetectorThresholds, Method, detect_series,
};
use squall_climate::error::Result;
use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun};
use squall_data::{Calendar, Class, Time};

#[test]
fn every_method_agrees_with_the_truth_better_than_by_chance() {
    let run = SyntheticRun::new(SyntheticConfig {
        rows: 96,
        columns: 144,
        start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
        step_hours: 6,
        steps: 60,
        scenario: Scenario::PRESENT,
        seed: 3,
    })
    .unwrap();
    let grid = run.grid().clone();
    let thresholds = DetectorThresholds::default();
    let detectors = Method::ALL.map(|m| Detector::new(m, &thresholds, &grid).unwrap());
    let mut sources: Vec<AgreementSource> = Method::ALL
        .iter()
        .map(|m| AgreementSource {
            name: m.name().into(),
            classes: m.classes().to_vec(),
        })
        .collect();
    sources.push(AgreementSource {
        name: "truth".into(),
        classes: Class::EVENTS.to_vec(),
    });
    let mut agreement = Agreement::new(sources);
    let read =
        |index: usize| -> Result<DetectFields> { Ok(DetectFields::of(run.snapshot(index).0)) };
    let summaries = detect_series(&detectors, run.len(), read, |index, labels| {
        let truth = run.snapshot(index).1.mask;
        let mut masks: Vec<_> = labels.iter().map(|l| Some(&l.labelled.mask)).collect();
        masks.push(Some(&truth));
        for label in &labels {
            let looks_for = label.method.classes();
            let objects = &label.labelled.objects;
            assert!(objects.iter().all(|e| looks_for.contains(&e.class)));
            assert_eq!(label.labelled.mask.time, run.time(index));
        }
        agreement.add(&masks, &grid)
    })
    .unwrap();
    println!("{agreement}");
    for (method, summary) in Method::ALL.iter().zip(&summaries) {
        println!("{method}: {summary:?}");
        assert_eq!(summary.times, 60);
        assert!(summary.rivers > 60, "{method}");
    }
    for row in agreement.rows().iter().filter(|row| row.second == "truth") {
        let (least_f1, least_iou) = match row.class {
            Class::TropicalCyclone => (0.3, 0.02),
            _ => (0.2, 0.1),
        };
        let (f1, iou) = (row.event_f1().unwrap(), row.area_iou().unwrap());
        assert!(f1 > least_f1 && iou > least_iou, "{row:?}: {f1} {iou}");
    }
}
