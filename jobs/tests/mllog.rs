//! The log in MLPerf's form of short trainings.

mod common;

use common::alone::run;
use common::{recipe, store};
use serde_json::{Value, json};
use squall_data::Store;
use squall_jobs::comm::threads;
use squall_jobs::metrics::{Metric, read_metrics};
use squall_jobs::train::evaluate::Scores;
use squall_jobs::train::{Hardware, MlLog, Team};
use squall_jobs::{Outcome, Recipe, TrainEvent, TrainReport, train};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn log_of(folder: &Path) -> PathBuf {
    folder.with_extension("logs").join("result_0.txt")
}

/// Trains with a log beside the run's folder, and is told to stop after a step.
fn logged(
    recipe: &Recipe,
    store: &Arc<Store>,
    folder: &Path,
    stop_after: Option<u64>,
) -> TrainReport {
    let hardware = Hardware {
        ranks: 1,
        nodes: 1,
        accelerators_per_node: 0,
    };
    let mut log = MlLog::open(&log_of(folder), recipe, hardware).unwrap();
    let stop = AtomicBool::new(false);
    let mut tell = |event: &TrainEvent| {
        log.observe(event);
        if let TrainEvent::Step { step, .. } = event
            && stop_after == Some(*step)
        {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let report = train(recipe, store, folder, &mut tell, &stop);
    log.end(report).unwrap()
}

fn lines(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log_of(folder)).unwrap();
    let object =
        |line: &str| serde_json::from_str::<Value>(line.strip_prefix(":::MLLOG ").unwrap());
    text.lines().map(|line| object(line).unwrap()).collect()
}

fn keys(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["key"].as_str().unwrap())
        .collect()
}

fn count(lines: &[Value], key: &str) -> usize {
    lines.iter().filter(|line| line["key"] == key).count()
}

const EPOCH: [&str; 8] = [
    "epoch_start",
    "learning_rate",
    "train_loss",
    "eval_start",
    "eval_accuracy",
    "eval_loss",
    "eval_stop",
    "epoch_stop",
];

#[test]
fn a_log_has_its_lines_in_order_and_changes_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    // Four steps an epoch, and a validation after each.
    let store = store(&folder.path().join("store"), 8, 2);
    let (recipe, part) = (recipe(&[]), folder.path().join("run"));
    logged(&recipe, &store, &part, None);
    let found = lines(&part);
    let start = found.iter().position(|line| line["key"] == "run_start");
    let start = start.unwrap();
    assert_eq!(
        keys(&found)[start - 3..start],
        ["train_samples", "eval_samples", "init_stop"]
    );
    let expected = [&EPOCH[..], &EPOCH, &EPOCH, &["run_stop"]].concat();
    assert_eq!(keys(&found)[start + 1..], expected);
    let value = |key: &str| &found.iter().find(|line| line["key"] == key).unwrap()["value"];
    assert_eq!(
        (value("train_samples"), value("eval_samples")),
        (&json!(8), &json!(2))
    );
    assert_eq!(
        (value("global_batch_size"), value("seed")),
        (&json!(2), &json!(recipe.seed))
    );
    let epochs = found.iter().filter(|line| line["key"] == "epoch_stop");
    let metadata = |line: &Value| {
        let number = |name: &str| line["metadata"][name].as_u64().unwrap();
        (number("epoch_num"), number("step_num"))
    };
    let epochs: Vec<_> = epochs.map(metadata).collect();
    assert_eq!(epochs, [(1, 4), (2, 8), (3, 12)]);
    assert_eq!(found.last().unwrap()["metadata"]["status"], "success");
    // The accuracy is that of DeepCAM's rule.
    let accuracies = found.iter().filter(|line| line["key"] == "eval_accuracy");
    let accuracies: Vec<f64> = accuracies
        .map(|line| line["value"].as_f64().unwrap())
        .collect();
    let metrics = read_metrics(&part.join("metrics.jsonl")).unwrap();
    let by_rule = |metric: &Metric| match metric {
        Metric::Validation {
            scores: Scores::Masks(masks),
            ..
        } => Some(masks.sample_mean_iou),
        _ => None,
    };
    let expected: Vec<f64> = metrics.iter().filter_map(by_rule).collect();
    assert_eq!(accuracies, expected);
    // The run is what it is without a log.
    let plain = folder.path().join("plain");
    run(&recipe, &store, &plain).unwrap();
    for name in [
        "metrics.jsonl",
        "last.safetensors",
        "recipe.toml",
        "run.json",
    ] {
        let [ours, theirs] = [&part, &plain].map(|run| std::fs::read(run.join(name)).unwrap());
        assert!(ours == theirs, "{name} differs");
    }
}

#[test]
fn a_run_that_is_stopped_is_aborted_and_goes_on_in_the_same_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 8, 2);
    let (recipe, part) = (recipe(&[]), folder.path().join("run"));
    let report = logged(&recipe, &store, &part, Some(5));
    assert_eq!((report.outcome, report.steps), (Outcome::Interrupted, 5));
    let before = lines(&part);
    assert_eq!(
        keys(&before)[before.len() - 2..],
        ["epoch_start", "run_stop"]
    );
    assert_eq!(before.last().unwrap()["metadata"]["status"], "aborted");
    logged(&recipe, &store, &part, None);
    let after = lines(&part);
    // One end of the whole: the checkers want no second one.
    let kept = before.len() - 1;
    assert_eq!(after[..kept], before[..kept]);
    let more = &after[kept..];
    assert_eq!(keys(more), [&EPOCH[..], &EPOCH, &["run_stop"]].concat());
    let begins = &more[0]["metadata"];
    assert_eq!(
        (&begins["epoch_num"], &begins["step_num"]),
        (&json!(2), &json!(5))
    );
    assert_eq!(more.last().unwrap()["metadata"]["status"], "success");
    for key in ["init_start", "init_stop", "run_start", "run_stop", "seed"] {
        assert_eq!(count(&after, key), 1, "{key}");
    }
    // Nothing is left to be done.
    logged(&recipe, &store, &part, None);
    assert_eq!(lines(&part), after);
}

#[test]
fn a_run_succeeds_by_its_target() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 8, 2);
    for (target, status) in [("0.01", "success"), ("1.0", "aborted")] {
        let change = format!("training.target_score={target}");
        let recipe = recipe(&[change.as_str()]);
        let part = folder.path().join(status);
        logged(&recipe, &store, &part, None);
        let found = lines(&part);
        assert_eq!(found.last().unwrap()["metadata"]["status"], status);
        let reached = usize::from(status == "success");
        assert_eq!(
            count(&found, "target_accuracy_reached"),
            reached,
            "{target}"
        );
        if reached > 0 {
            let end = [
                "target_accuracy_reached",
                "eval_stop",
                "epoch_stop",
                "run_stop",
            ];
            assert_eq!(keys(&found)[found.len() - 4..], end);
            assert_eq!(found[found.len() - 4]["value"], 0.01);
        }
    }
}

#[test]
fn ranks_count_their_nodes() {
    let nodes = threads::run(threads::nodes(&[2, 1, 2]), |rank| {
        let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
        team.nodes().unwrap()
    });
    assert_eq!(nodes, [3; 5]);
    assert_eq!(Team::solo().nodes().unwrap(), 1);
}
