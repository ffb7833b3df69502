//! Interrupted and resumed labelling, and its state in between.

use squall_climate::ClimateError;
use squall_climate::label::{
    LabelFolder, LabelStream, LabelledSnapshot, Labeller, Pass, SeriesSummary, Thresholds,
};
use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun};
use squall_data::{BoxClass, Calendar, Class, Snapshot, Time};
use std::collections::BTreeSet;

fn run(days: usize) -> (Labeller, SyntheticRun) {
    run_every(6, days)
}

fn run_every(step_hours: u32, days: usize) -> (Labeller, SyntheticRun) {
    let run = SyntheticRun::new(SyntheticConfig {
        rows: 48,
        columns: 72,
        start: Time::new(Calendar::NoLeap, 2000, 8, 1, 0, 0, 0).unwrap(),
        step_hours,
        steps: 24 / step_hours as usize * days,
        scenario: Scenario::PRESENT,
        seed: 5,
    })
    .unwrap();
    let labeller = Labeller::new(&Thresholds::default(), run.grid().clone()).unwrap();
    let times: Vec<Time> = (0..run.len()).map(|index| run.time(index)).collect();
    (labeller.of_times(&times), run)
}

/// A time of the run, always readable.
fn snapshot(run: &SyntheticRun, index: usize) -> Result<Option<Snapshot>, ClimateError> {
    Ok(Some(run.snapshot(index).0))
}

/// Labels from a state on and stops after `until` times in total; returns the labels, and the state at that point as
/// text.
fn part(
    (labeller, run): &(Labeller, SyntheticRun),
    from: LabelStream,
    until: usize,
) -> (Vec<LabelledSnapshot>, String, Option<SeriesSummary>) {
    let (mut labels, mut state) = (Vec::new(), String::new());
    let read = |index: usize, _: Pass| snapshot(run, index);
    let summary = labeller.label_on(from, run.len(), read, |stream, index, labelled| {
        assert_eq!(stream.done(), index + 1);
        labels.extend(labelled);
        state = serde_json::to_string(stream).unwrap();
        if index + 1 == until {
            Err(ClimateError::Invalid("left".into()))
        } else {
            Ok(())
        }
    });
    (labels, state, summary.ok())
}

#[test]
fn a_series_that_was_left_goes_on_as_if_it_had_not_been() {
    let run = run(30);
    let (whole, _, summary) = part(&run, run.0.stream(), usize::MAX);
    let summary = summary.unwrap();
    assert!(
        summary.tracks > 2 && summary.boxes.iter().all(|&count| count > 0),
        "{summary:?}"
    );
    // The summary counts the labels.
    let objects = |class: Class| {
        let all = whole.iter().flat_map(|labelled| &labelled.objects);
        all.filter(move |event| event.class == class)
    };
    let cyclones = objects(Class::TropicalCyclone);
    let tracks: BTreeSet<_> = cyclones.map(|event| event.track_id.unwrap()).collect();
    let boxes = BoxClass::ALL.map(|class| {
        let all = whole.iter().flat_map(|labelled| &labelled.boxes);
        all.filter(|found| found.geo.class == class).count()
    });
    let expected = SeriesSummary {
        times: 120,
        cyclones: objects(Class::TropicalCyclone).count(),
        tracks: tracks.len(),
        rivers: objects(Class::AtmosphericRiver).count(),
        boxes,
        untracked: false,
        ..summary
    };
    assert_eq!(summary, expected);
    for left in [1, 2, 50, 119] {
        let (mut labels, state, none) = part(&run, run.0.stream(), left);
        assert!(none.is_none() && labels.len() == left);
        let (rest, _, again) = part(&run, serde_json::from_str(&state).unwrap(), usize::MAX);
        labels.extend(rest);
        assert_eq!(
            (&labels, again.unwrap()),
            (&whole, summary),
            "left after {left}"
        );
    }
    // Too short for any track: storms are accepted untracked, also after an interruption.
    let short = (run.0.clone(), self::run(1).1);
    let (whole, _, summary) = part(&short, short.0.stream(), usize::MAX);
    let (first, state, _) = part(&short, short.0.stream(), 2);
    let (rest, _, again) = part(&short, serde_json::from_str(&state).unwrap(), usize::MAX);
    assert!(summary.unwrap().untracked);
    assert_eq!(
        (first.into_iter().chain(rest).collect::<Vec<_>>(), again),
        (whole, summary)
    );
}

/// One step of daily data is bridged after an interruption, too, with any number of threads.
#[test]
fn daily_data_goes_on_as_if_it_had_not_been_left() {
    let run = run_every(24, 60);
    let (whole, _, summary) = part(&run, run.0.stream(), usize::MAX);
    let summary = summary.unwrap();
    assert!(summary.boxes.iter().all(|&count| count > 0), "{summary:?}");
    for left in [1, 20, 41] {
        let (mut labels, state, _) = part(&run, run.0.stream(), left);
        let (rest, _, again) = part(&run, serde_json::from_str(&state).unwrap(), usize::MAX);
        labels.extend(rest);
        assert!(labels == whole, "left after {left}");
        assert_eq!(again.unwrap(), summary, "left after {left}");
    }
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let (labels, _, again) = (alone.unwrap()).install(|| part(&run, run.0.stream(), usize::MAX));
    assert!(labels == whole && again == Some(summary));
}

/// Unreadable times are gaps: labels equal those of a series without these times, also after an interruption.
#[test]
fn times_that_cannot_be_read_are_gaps() {
    let run = run(30);
    let bad = [0, 1, 37, 38, 39, 70, 119];
    let good: Vec<usize> = (0..run.1.len()).filter(|i| !bad.contains(i)).collect();
    let mut expected = Vec::new();
    let there = |position: usize, _: Pass| -> Result<Snapshot, ClimateError> {
        Ok(run.1.snapshot(good[position]).0)
    };
    let of_good = run.0.label_series(good.len(), there, |_, labelled| {
        expected.push(labelled);
        Ok(())
    });
    let summary = of_good.unwrap();
    assert!(
        summary.times == good.len() && summary.tracks > 2,
        "{summary:?}"
    );
    let read = |index: usize, _: Pass| {
        if bad.contains(&index) {
            Ok(None)
        } else {
            snapshot(&run.1, index)
        }
    };
    for left in [1, 38, 39, 71, usize::MAX] {
        let (mut labels, mut stream) = (Vec::new(), run.0.stream());
        for until in [left, usize::MAX] {
            let mut state = stream.clone();
            let labelled = run
                .0
                .label_on(stream, run.1.len(), read, |now, index, labelled| {
                    assert_eq!(labelled.is_none(), bad.contains(&index), "{index}");
                    labels.extend(labelled);
                    state = now.clone();
                    if index + 1 == until {
                        Err(ClimateError::Invalid("left".into()))
                    } else {
                        Ok(())
                    }
                });
            stream = state;
            if let Ok(found) = labelled {
                assert_eq!(found, summary, "left after {left}");
                break;
            }
        }
        assert_eq!(labels, expected, "left after {left}");
        assert!(stream.left_out().iter().eq(&bad));
    }
}

/// A time with damage only in the mask fields: its storms remain part of their tracks, but nothing is drawn.
#[test]
fn a_time_that_can_be_read_for_one_pass_alone_has_no_labels() {
    let run = run(30);
    let (whole, _, summary) = part(&run, run.0.stream(), usize::MAX);
    let read = |index: usize, pass: Pass| match (index, pass) {
        (60, Pass::Second) => Ok(None),
        _ => snapshot(&run.1, index),
    };
    let mut labels = Vec::new();
    let labelled = run
        .0
        .label_on(run.0.stream(), run.1.len(), read, |_, _, labelled| {
            labels.push(labelled);
            Ok(())
        });
    assert_eq!(labelled.unwrap().tracks, summary.unwrap().tracks);
    assert!(
        labels
            .iter()
            .zip(&whole)
            .enumerate()
            .all(|(index, (labelled, whole))| {
                match index {
                    60 => labelled.is_none(),
                    _ => labelled.as_ref() == Some(whole),
                }
            })
    );
}

/// Past storms are dropped from the state: it is as small after half a year as at the beginning.
#[test]
fn the_state_does_not_grow_with_the_series() {
    let run = run(200);
    let read = |index: usize, _: Pass| snapshot(&run.1, index);
    let mut largest = [0; 4];
    let quarter = run.1.len() / 4;
    let each = |stream: &LabelStream, index: usize, _: Option<LabelledSnapshot>| {
        let length = serde_json::to_string(stream).unwrap().len();
        let place = &mut largest[(index / quarter).min(3)];
        *place = length.max(*place);
        Ok(())
    };
    run.0
        .label_on(run.0.stream(), run.1.len(), read, each)
        .unwrap();
    assert!(largest[3] < 2 * largest[0], "{largest:?}");
}

/// A folder resumes only from its own state: not from that of another run, nor with another run's rows, nor if
/// something is missing.
#[test]
fn a_folder_goes_on_from_its_own_state_alone() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(3);
    let read = |index: usize, _: Pass| snapshot(&run.1, index);
    // Labels `until` times, saving the state after each if `saves`, then stops; returns how many had been labelled
    // before.
    let call = |fingerprint: &str, until: usize, saves: bool, whole: bool| {
        let new = run.0.stream();
        let opened = LabelFolder::open(folder.path(), fingerprint, new, |_| whole);
        let (mut tables, stream) = opened.unwrap();
        let before = stream.done();
        let labelled = run
            .0
            .label_on(stream, run.1.len(), read, |stream, index, labelled| {
                if index == until {
                    return Err(ClimateError::Invalid("left".into()));
                }
                tables.write(labelled.as_ref().expect("all can be read"))?;
                if saves { tables.save(stream) } else { Ok(()) }
            });
        if labelled.is_ok() {
            tables.finish().unwrap();
        }
        before
    };
    let saved = || LabelFolder::times_saved(folder.path()).map(|[_, done]| done);
    assert_eq!(saved(), None);
    assert_eq!(call("a", 5, true, true), 0);
    assert_eq!(saved(), Some(5));
    assert_eq!(call("a", 7, true, true), 5);
    assert_eq!(saved(), Some(7));
    assert_eq!(
        call("a", 7, true, false),
        0,
        "what is not whole begins anew"
    );
    // Another run leaves additional rows but no state; the first run must not use them.
    assert_eq!(call("b", 11, false, true), 0);
    assert_eq!(call("a", 8, true, true), 0);
    assert_eq!(call("a", usize::MAX, true, true), 8);
    let table = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (boxes, objects) = (table("boxes.csv"), table("objects.csv"));
    assert!(!folder.path().join(".label.partial").exists());
    assert_eq!(call("c", usize::MAX, false, true), 0);
    assert_eq!((table("boxes.csv"), table("objects.csv")), (boxes, objects));
}
