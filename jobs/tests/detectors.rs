//! Detectors through the trainer: each learns, few labels teach with many fields, ranks and groups as for masks.

mod common;

use common::alone::{run, run_for, run_telling};
use common::boxes::{CELLS, CELLS_15PF, CENTRES, Known, recipe, store};
use common::learnt::{distance, losses, weights};
use squall_data::Store;
use squall_jobs::comm::threads::{self, Ranks, Threads};
use squall_jobs::train::evaluate::Scores;
use squall_jobs::train::{Team, train_together};
use squall_jobs::{Outcome, Recipe, TrainEvent, TrainReport};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn train_on(
    ranks: Vec<Threads>,
    recipe: &Recipe,
    store: &Arc<Store>,
    folder: &Path,
) -> Vec<TrainReport> {
    threads::run(ranks, |rank| {
        let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
        let stop = AtomicBool::new(false);
        let report = train_together(recipe, store, folder, &mut |_| {}, &stop, &mut team);
        let report = report.unwrap();
        assert_eq!(report.outcome, Outcome::Finished);
        report
    })
}

/// Everything that must not depend on interruptions, or on who was late.
fn written(folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
    [
        "best.safetensors",
        "last.safetensors",
        "checkpoint.safetensors",
        "metrics.jsonl",
    ]
    .map(|name| (name, std::fs::read(folder.join(name)).unwrap()))
    .to_vec()
}

/// How the mean of the last eighth of the losses compares with that of the first.
fn fallen(losses: &[f64]) -> f64 {
    let part = losses.len() / 8;
    let sum = |losses: &[f64]| losses.iter().sum::<f64>();
    sum(&losses[losses.len() - part..]) / sum(&losses[..part])
}

#[test]
fn every_kind_of_detector_learns() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(
        &folder.path().join("store"),
        &[Known::Box; 12],
        &[Known::Box; 2],
    );
    for (name, network) in [("cells", CELLS), ("15pf", CELLS_15PF), ("centres", CENTRES)] {
        let recipe = recipe(network, &["training.steps=48"]);
        let out = folder.path().join(name);
        let report = run(&recipe, &store, &out).unwrap();
        let fallen = fallen(&losses(&out));
        assert!(fallen < 0.7, "{name}: {fallen}");
        let Scores::Boxes(scores) = report.best.unwrap().scores else {
            panic!("{name} gives boxes")
        };
        assert_eq!((scores.samples, scores.truths), (2, [0, 2, 0, 0]));
    }
}

/// A quarter of the labels, and in every batch as many fields whose labels are not used.
const SEMI: [&str; 4] = [
    "detection.labelled_share=0.25",
    "detection.unlabelled_per_batch=2",
    "detection.loss.reconstruction=10",
    "detection.reconstruction_end=5",
];

#[test]
fn few_labels_and_many_fields_teach_together() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(
        &folder.path().join("store"),
        &[Known::Box; 12],
        &[Known::Box; 2],
    );
    let with = |name: &str, changes: &[&str]| {
        let out = folder.path().join(name);
        run(&recipe(CELLS, &[&SEMI[..], changes].concat()), &store, &out).unwrap();
        out
    };
    // The weight stays, so that only learning makes the loss fall.
    let long = ["training.steps=48", "detection.reconstruction_end=10"];
    let fallen = fallen(&losses(&with("long", &long)));
    assert!(fallen < 0.8, "{fallen}");
    let base = weights(&with("base", &[]));
    assert!(weights(&with("again", &[])) == base);
    for change in [
        "detection.reconstruction_end=20",
        "detection.labelled_share=0.5",
        "detection.labelled_seed=3",
        "detection.unlabelled_per_batch=1",
        "detection.loss.reconstruction=1",
    ] {
        let changed = weights(&with(change, &[change]));
        let off = distance(&changed, &base);
        assert!(off > 1e-4, "{change} changes nothing: {off}");
    }
}

#[test]
fn killed_anywhere_it_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(
        &folder.path().join("store"),
        &[Known::Box; 12],
        &[Known::Box; 2],
    );
    let recipe = recipe(CELLS, &SEMI);
    let whole = folder.path().join("whole");
    run(&recipe, &store, &whole).unwrap();
    let expected = written(&whole);
    std::panic::set_hook(Box::new(|_| {}));
    for kill in [1, 4, 7] {
        let part = folder.path().join(format!("killed{kill}"));
        let mut killer = |event: &TrainEvent| {
            assert!(!matches!(event, TrainEvent::Step { step, .. } if *step == kill));
        };
        let killed = AssertUnwindSafe(|| run_telling(&mut killer, &recipe, &store, &part));
        assert!(catch_unwind(killed).is_err());
        assert_eq!(run(&recipe, &store, &part).unwrap().steps, 8);
        for ((name, bytes), (_, expected)) in written(&part).iter().zip(&expected) {
            assert!(bytes == expected, "{name} differs after a kill at {kill}");
        }
    }
    let _ = std::panic::take_hook();
}

/// As for masks: sums in another order, and nothing else.
#[test]
fn ranks_learn_what_one_learns() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(
        &folder.path().join("store"),
        &[Known::Box; 12],
        &[Known::Box; 5],
    );
    let same = [
        "distributed.global_batch=4",
        "distributed.check_every_steps=1",
        "distributed.norm_ranks=0",
        "optimiser.rule=sgd",
    ];
    for (name, network) in [("cells", CELLS), ("15pf", CELLS_15PF), ("centres", CENTRES)] {
        let recipe = recipe(network, &same);
        let at = |ranks: usize| folder.path().join(format!("{name}{ranks}"));
        let one = train_on(threads::ranks(1), &recipe, &store, &at(1));
        let two = train_on(threads::ranks(2), &recipe, &store, &at(2));
        let pairs = losses(&at(2)).into_iter().zip(losses(&at(1)));
        for (step, (loss, expected)) in pairs.enumerate() {
            assert!(
                (loss / expected - 1.0).abs() < 1e-4,
                "{name}, step {step}: {loss} instead of {expected}"
            );
        }
        let off = distance(&weights(&at(2)), &weights(&at(1)));
        assert!(off < 1e-4, "{name}: {off}");
        let best = |report: &TrainReport| report.best.clone().unwrap().scores;
        assert_eq!(best(&two[0]), best(&two[1]), "{name}");
        assert_eq!((best(&two[0]).samples(), best(&one[0]).samples()), (5, 5));
    }
}

/// A global batch says how many of its samples have no labels, whoever takes them, also where a run goes on with another
/// number of ranks.
#[test]
fn few_labels_teach_the_same_on_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(
        &folder.path().join("store"),
        &[Known::Box; 12],
        &[Known::Box; 2],
    );
    let same = [
        "distributed.global_batch=4",
        "distributed.check_every_steps=1",
        "distributed.norm_ranks=0",
        "optimiser.rule=sgd",
    ];
    let recipe = recipe(CELLS, &[&SEMI[..], &same[..]].concat());
    let at = |name: &str| folder.path().join(name);
    train_on(threads::ranks(1), &recipe, &store, &at("one"));
    train_on(threads::ranks(2), &recipe, &store, &at("two"));
    let begun = run_for(1, &recipe, &store, &at("both"));
    assert_eq!(begun.outcome, Outcome::Interrupted);
    train_on(threads::ranks(2), &recipe, &store, &at("both"));
    let expected = losses(&at("one"));
    for name in ["two", "both"] {
        let ours = losses(&at(name));
        assert_eq!(ours.len(), expected.len(), "{name}");
        for (step, (loss, expected)) in ours.iter().zip(&expected).enumerate() {
            assert!(
                (loss / expected - 1.0).abs() < 1e-4,
                "{name}, step {step}: {loss} instead of {expected}"
            );
        }
    }

    let refused = threads::run(threads::ranks(4), |rank| {
        let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
        let never = AtomicBool::new(false);
        train_together(&recipe, &store, &at("four"), &mut |_| {}, &never, &mut team)
    });
    for answer in refused {
        let text = answer.unwrap_err().to_string();
        assert!(
            text.contains("`detection.unlabelled_per_batch`") || text.contains("another rank"),
            "{text}"
        );
    }
}

/// Without a step that moves weights, and without statistics of batches, nothing but the dealing of samples differs.
#[test]
fn ranks_judge_what_one_judges() {
    let folder = tempfile::tempdir().unwrap();
    let known = [
        Known::Box,
        Known::NoBox,
        Known::Box,
        Known::Nothing,
        Known::Box,
    ];
    let store = store(&folder.path().join("store"), &[Known::Box; 8], &known);
    let still = [
        "distributed.global_batch=4",
        "optimiser.rule=sgd",
        "schedule.rate=1e-30",
        "training.steps=1",
        "training.validate_every_steps=1",
        "detection.suppression.min_confidence=0.01",
    ];
    let recipe = recipe(CELLS_15PF, &still);
    let scores = |ranks: usize| {
        let out = folder.path().join(format!("ranks{ranks}"));
        let reports = train_on(threads::ranks(ranks), &recipe, &store, &out);
        let best = reports.into_iter().map(|r| r.best.unwrap().scores);
        best.collect::<Vec<Scores>>()
    };
    let one = scores(1).remove(0);
    let Scores::Boxes(boxes) = &one else {
        panic!("a detector gives boxes")
    };
    assert_eq!((boxes.samples, boxes.truths), (4, [0, 3, 0, 0]));
    assert!(boxes.loss > 0.0);
    for ranks in [2, 4] {
        for (rank, scores) in scores(ranks).iter().enumerate() {
            assert_eq!(scores, &one, "rank {rank} of {ranks}");
        }
    }
}

#[test]
fn groups_in_turns_give_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(
        &folder.path().join("store"),
        &[Known::Box; 12],
        &[Known::Box; 2],
    );
    let changes = [
        "distributed.groups=2",
        "distributed.servers=1",
        "distributed.order=round-robin",
        "distributed.check_every_steps=1",
        "training.steps=12",
        "training.batch=2",
        "optimiser.rule=sgd",
    ];
    let recipe = recipe(CELLS, &changes);
    let mut first: Option<Vec<(&'static str, Vec<u8>)>> = None;
    for seed in 0..2 {
        let out = folder.path().join(format!("run{seed}"));
        let late = Ranks::nodes(&[5]).delays(seed, Duration::from_millis(1));
        let reports = train_on(late.start(), &recipe, &store, &out);
        assert_eq!(reports[0].steps, 12);
        assert_eq!(losses(&out).len(), 12);
        let now = written(&out);
        let first = first.get_or_insert_with(|| now.clone());
        for ((name, bytes), (_, expected)) in now.iter().zip(first.iter()) {
            assert!(bytes == expected, "{name} differs in run {seed}");
        }
    }
}
