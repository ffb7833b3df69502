//! All methods on a synthetic run with known truth: each finds storms, and a table shows their agreement.
#![allow(clippy::print_stdout)] // the table is worth reading

mod common;

use common::{detect_series, only};
use squall_climate::detect::agreement::AgreementSource;
use squall_climate::detect::{
    Agreement, DetectFields, Detector, DetectorThresholds, FirstPass, Method, MethodLabels,
};
use squall_climate::error::Result;
use squall_climate::label::{LabelledSnapshot, Labeller, Pass, Thresholds};
use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun};
use squall_data::{Calendar, Class, Snapshot, Time};

fn run(rows: usize, columns: usize, steps: usize) -> SyntheticRun {
    SyntheticRun::new(SyntheticConfig {
        rows,
        columns,
        start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
        step_hours: 6,
        steps,
        scenario: Scenario::PRESENT,
        seed: 3,
    })
    .unwrap()
}

/// Each method gives the same labels with all channels and with only those that it declares for each pass.
#[test]
fn a_pass_looks_at_no_other_channels_than_it_says() {
    let run = run(48, 72, 60);
    let thresholds = DetectorThresholds::default();
    for method in Method::ALL {
        let detectors = [Detector::new(method, &thresholds, run.grid()).unwrap()];
        let labels = |channels: &(dyn Fn(Snapshot, Pass) -> Snapshot + Sync)| {
            let read = |index: usize, pass: Pass| -> Result<DetectFields> {
                Ok(DetectFields::from_snapshot(channels(
                    run.snapshot(index).0,
                    pass,
                )))
            };
            let mut all: Vec<MethodLabels> = Vec::new();
            let summary = detect_series(&detectors, run.len(), read, |_, labels| {
                all.extend(labels);
                Ok(())
            });
            (summary.unwrap(), all)
        };
        let whole = labels(&|snapshot, _| snapshot);
        let found: usize = whole.1.iter().map(|l| l.labelled.objects.len()).sum();
        assert!(found > 60, "{method}: {found}");
        let needed = labels(&|snapshot, pass| only(&snapshot, method.channels_in(pass)));
        // Compared as text: boxes have no length, and NaN does not equal itself.
        assert!(format!("{whole:?}") == format!("{needed:?}"), "{method}");
        let mut both = [Pass::First, Pass::Second]
            .map(|pass| method.channels_in(pass).to_vec())
            .concat();
        both.sort_unstable();
        both.dedup();
        let mut all = [method.channels(), method.useful_channels()].concat();
        all.sort_unstable();
        assert_eq!(both, all, "{method}");
    }
    // The DeepCAM labels alone, including the boxes of lows.
    let labeller = Labeller::new(&Thresholds::default(), run.grid().clone()).unwrap();
    let labels = |channels: &(dyn Fn(Snapshot, Pass) -> Snapshot + Sync)| {
        let read = |index: usize, pass: Pass| -> Result<Snapshot> {
            Ok(channels(run.snapshot(index).0, pass))
        };
        let mut all: Vec<LabelledSnapshot> = Vec::new();
        let summary = labeller.label_series(run.len(), read, |_, labelled| {
            all.push(labelled);
            Ok(())
        });
        (summary.unwrap(), all)
    };
    let whole = labels(&|snapshot, _| snapshot);
    assert!(whole == labels(&|snapshot, pass| only(&snapshot, pass.channels())));
}

/// It used to find nothing, without a word: what one method saw was dropped by the state of another.
#[test]
fn a_first_pass_of_another_method_is_refused() {
    let run = run(48, 72, 8);
    let thresholds = DetectorThresholds::default();
    let read = |index: usize, _: Pass| -> Result<Option<DetectFields>> {
        Ok(Some(DetectFields::from_snapshot(run.snapshot(index).0)))
    };
    for begun in Method::ALL {
        for goes_on in Method::ALL {
            let [one, other] = [begun, goes_on]
                .map(|method| [Detector::new(method, &thresholds, run.grid()).unwrap()]);
            let mut first = FirstPass::new(&one);
            let looked = first.run(&other, run.len(), &read, |_| Ok(()));
            let ended = FirstPass::new(&one).conclude(&other);
            if begun == goes_on {
                assert!(looked.is_ok(), "{begun}");
            } else {
                // Nothing is looked at for a state that needs no first pass.
                assert_eq!(
                    looked.is_ok(),
                    !first.is_needed(),
                    "{begun}, then {goes_on}"
                );
                assert!(ended.is_err(), "{begun}, then {goes_on}");
            }
        }
    }
}

#[test]
fn every_method_agrees_with_the_truth_better_than_by_chance() {
    let run = run(96, 144, 60);
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
    let read = |index: usize, _: Pass| -> Result<DetectFields> {
        Ok(DetectFields::from_snapshot(run.snapshot(index).0))
    };
    let mut counts = [[0; 2]; Method::ALL.len()];
    let summaries = detect_series(&detectors, run.len(), read, |index, labels| {
        for (counts, label) in counts.iter_mut().zip(&labels) {
            for (count, class) in counts.iter_mut().zip(Class::EVENTS) {
                let objects = label.labelled.objects.iter();
                *count += objects.filter(|event| event.class == class).count();
            }
        }
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
    for ((method, summary), counts) in Method::ALL.iter().zip(&summaries).zip(counts) {
        println!("{method}: {summary:?}");
        assert_eq!([summary.cyclones, summary.rivers], counts, "{method}");
        assert_eq!(summary.times, 60);
        if method.classes().contains(&Class::AtmosphericRiver) {
            assert!(summary.rivers > 60, "{method}");
        } else {
            assert!(summary.boxes.iter().sum::<usize>() > 60, "{method}");
        }
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
