//! The lines of runs that are told by hand.

use super::*;
use crate::recipe::BestBy;
use crate::train::evaluate::MaskScores;
use crate::train::{Balance, Best, EndedEarly, Spent};
use serde_json::{Value, json};
use std::fs;

const HARDWARE: Hardware = Hardware {
    ranks: 64,
    nodes: 16,
    accelerators_per_node: 4,
};

/// MLPerf HPC's DeepCAM, of three epochs at most.
fn deepcam(changes: &[&str]) -> Recipe {
    let usual = ["distributed.global_batch=128", "training.target_score=0.8"];
    let changes: Vec<String> = (usual.iter().chain(changes))
        .map(ToString::to_string)
        .collect();
    Recipe::named(Path::new("deepcam"), &changes).unwrap()
}

fn plan() -> TrainPlan {
    TrainPlan {
        total_steps: 2844,
        done_steps: 0,
        steps_per_epoch: 948,
        epoch_samples: 948 * 128,
        step_samples: 128,
        training_samples: 121_266,
        validation_samples: 15_158,
        validate_every_steps: 948,
        checkpoint_every_steps: 948,
        parameters: 0,
        step_flops: 0,
        memory_bytes: 0,
        read_bytes: 0,
        write_bytes: 0,
        dtype: "f32".into(),
        class_weights: Vec::new(),
        backend: "nothing".into(),
    }
}

fn step(step: u64, loss: f64, learning_rate: f32) -> TrainEvent {
    TrainEvent::Step {
        step,
        total: 2844,
        epoch: (step - 1) / 948,
        result: StepResult {
            loss,
            gradient_norm: 1.0,
            learning_rate,
            skipped: false,
        },
        seconds: 1.0,
        wait_seconds: 0.0,
    }
}

fn scores(loss: f64, mean_iou: f64, sample_mean_iou: f64) -> Scores {
    Scores::Masks(MaskScores {
        samples: 15_158,
        loss,
        mean_iou,
        sample_mean_iou,
        area_mean_iou: 0.0,
        iou: [None; 3],
        area_iou: [None; 3],
        best_by: BestBy::SampleMeanIou,
    })
}

fn validated(step: u64, scores: Scores) -> TrainEvent {
    TrainEvent::Validated {
        step,
        scores,
        best: true,
    }
}

/// The report of a run that validated last after so many steps.
fn report(outcome: Outcome, steps: u64, scores: Scores) -> TrainReport {
    TrainReport {
        outcome,
        ended_early: (outcome == Outcome::Finished).then_some(EndedEarly::TargetScore),
        steps,
        new_steps: steps,
        total_steps: steps,
        skipped_steps: 0,
        best: Some(Best {
            step: steps,
            scores,
        }),
        last_loss: Some(0.5),
        seconds: 1.0,
        ranks: 64,
        spent: Spent::default(),
        balance: Balance {
            samples_per_second: 0.0,
            flops_per_second: 0.0,
            imbalance: 0.0,
            slowest: 0,
        },
        missing_values: 0,
        staleness: None,
        model: "best.safetensors".into(),
    }
}

fn objects(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let object = |line: &str| serde_json::from_str::<Value>(line.strip_prefix(":::MLLOG ")?).ok();
    text.lines().filter_map(object).collect()
}

fn keys(path: &Path) -> Vec<String> {
    let key = |object: &Value| object["key"].as_str().unwrap().to_string();
    objects(path).iter().map(key).collect()
}

/// A line in which a whole number of this name is 0.
fn masked(line: &str, name: &str) -> String {
    let name = format!("\"{name}\": ");
    let (before, after) = line.split_once(&name).unwrap();
    let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    format!("{before}{name}0{rest}")
}

/// MLPerf's own checker takes `expected.txt` (`python -m mlperf_logging.compliance_checker --usage hpc --ruleset
/// 3.0.0`), also as of the closed division.
#[test]
fn a_run_is_written_down_as_the_checker_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result_0.txt");
    let mut log = MlLog::open(&path, &deepcam(&[]), HARDWARE).unwrap();
    log.observe(&TrainEvent::Started(plan()));
    log.observe(&step(1, 1.0, 1e-6));
    log.observe(&step(948, 0.5, 1.25e-3));
    log.observe(&validated(948, scores(0.25, 0.7, 0.71)));
    log.observe(&step(949, 0.5, 1e-3));
    log.observe(&step(1896, 0.375, 1e-3));
    let reached = scores(0.125, 0.81, 0.83);
    log.observe(&validated(1896, reached.clone()));
    log.end(Ok(report(Outcome::Finished, 1896, reached)))
        .unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let mut found = String::new();
    for line in text.lines() {
        found += &masked(&masked(line, "time_ms"), "lineno");
        found.push('\n');
    }
    assert_eq!(found, include_str!("expected.txt"));
    let times: Vec<u64> = (objects(&path).iter())
        .map(|object| object["time_ms"].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted() && times[0] > 1_700_000_000_000);
}

#[test]
fn a_run_that_goes_on_continues_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result_0.txt");
    let recipe = deepcam(&[]);
    // It fails in the middle of an epoch.
    let mut log = MlLog::open(&path, &recipe, HARDWARE).unwrap();
    log.observe(&TrainEvent::Started(plan()));
    log.observe(&step(1, 1.0, 1e-6));
    let failed = log.end(Err(JobError::Thread("loader")));
    assert!(matches!(failed, Err(JobError::Thread("loader"))));
    let first = keys(&path);
    assert_eq!(first[first.len() - 2..], ["epoch_start", "run_stop"]);
    assert_eq!(
        objects(&path).last().unwrap()["metadata"]["status"],
        "aborted"
    );
    // It is killed in the middle of a validation, and of a line, wherever in it.
    let mut log = MlLog::open(&path, &recipe, HARDWARE).unwrap();
    log.observe(&TrainEvent::Started(plan()));
    log.observe(&step(1, 1.0, 1e-6));
    log.observe(&step(948, 0.5, 1e-3));
    drop(log);
    let whole = fs::read_to_string(&path).unwrap();
    for torn in [":", ":::MLLOG ", ":::MLLOG {\"namespace\""] {
        fs::write(&path, format!("{whole}{torn}")).unwrap();
        drop(MlLog::open(&path, &recipe, HARDWARE).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), whole, "{torn}");
    }
    // It validates and is stopped.
    let mut log = MlLog::open(&path, &recipe, HARDWARE).unwrap();
    log.observe(&TrainEvent::Started(plan()));
    let low = scores(0.25, 0.7, 0.71);
    log.observe(&validated(948, low.clone()));
    log.end(Ok(report(Outcome::Interrupted, 948, low))).unwrap();
    // Each part begins where the end of the one before stood.
    let then = [
        "epoch_start",
        "learning_rate",
        "train_loss",
        "eval_start",
        "eval_start",
        "eval_accuracy",
        "eval_loss",
        "eval_stop",
        "epoch_stop",
        "run_stop",
    ];
    assert_eq!(keys(&path)[first.len() - 1..], then);
    let lines = fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!(lines, keys(&path).len(), "half a line was left");
    // Called once more when it is finished, it has no second end.
    let before = fs::read(&path).unwrap();
    let mut log = MlLog::open(&path, &recipe, HARDWARE).unwrap();
    log.observe(&TrainEvent::Started(plan()));
    let reached = scores(0.125, 0.81, 0.83);
    log.end(Ok(report(Outcome::Finished, 2844, reached)))
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
    // And a log of nothing else tells of no success.
    let other = folder.path().join("result_1.txt");
    let mut log = MlLog::open(&other, &recipe, HARDWARE).unwrap();
    log.observe(&TrainEvent::Started(plan()));
    let reached = scores(0.125, 0.81, 0.83);
    log.end(Ok(report(Outcome::Finished, 2844, reached)))
        .unwrap();
    assert_eq!(
        objects(&other).last().unwrap()["metadata"]["status"],
        "aborted"
    );
}

/// A colon at its end had been cut as the beginning of a line, and a line does not begin behind other text.
#[test]
fn a_file_that_is_no_log_keeps_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for text in ["first:\n:", "first\n::", "first\nlast", "first"] {
        fs::write(&path, text).unwrap();
        let mut log = MlLog::open(&path, &deepcam(&[]), HARDWARE).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        log.observe(&TrainEvent::Started(plan()));
        let written = fs::read_to_string(&path).unwrap();
        assert!(
            written.starts_with(&format!("{text}\n:::MLLOG ")),
            "{written}"
        );
        assert!(!written.contains("\n\n"), "{written}");
    }
}

#[test]
fn a_run_that_was_killed_before_its_end_is_ended_when_it_is_called_again() {
    let folder = tempfile::tempdir().unwrap();
    let reached = scores(0.125, 0.81, 0.83);
    let often = TrainPlan {
        validate_every_steps: 500,
        ..plan()
    };
    // At the end of an epoch, in the middle of one, and with steps that this log does not have.
    for (at, steps, plan, ends) in [
        (
            948,
            948,
            plan(),
            vec!["eval_stop", "epoch_stop", "run_stop"],
        ),
        (500, 500, often, vec!["eval_stop", "epoch_stop", "run_stop"]),
        (
            948,
            1896,
            plan(),
            vec!["target_accuracy_reached", "eval_stop", "epoch_stop"],
        ),
    ] {
        let path = folder.path().join(format!("result_{at}_{steps}.txt"));
        let mut log = MlLog::open(&path, &deepcam(&[]), HARDWARE).unwrap();
        log.observe(&TrainEvent::Started(plan.clone()));
        log.observe(&step(1, 1.0, 1e-6));
        log.observe(&step(at, 0.5, 1e-3));
        log.observe(&validated(at, scores(0.125, 0.81, 0.83)));
        drop(log);
        // Twice: there is one end.
        for _ in 0..2 {
            let mut log = MlLog::open(&path, &deepcam(&[]), HARDWARE).unwrap();
            log.observe(&TrainEvent::Started(TrainPlan {
                done_steps: steps,
                ..plan.clone()
            }));
            log.end(Ok(report(Outcome::Finished, steps, reached.clone())))
                .unwrap();
            let found = keys(&path);
            let last = found[found.len() - 3..].to_vec();
            assert_eq!(last, ends, "{at} of {steps}");
            let count = |key: &str| found.iter().filter(|found| *found == key).count();
            assert_eq!(count("epoch_start"), count("epoch_stop"));
        }
        let end = objects(&path).pop().unwrap();
        if ends[2] == "run_stop" {
            assert_eq!(end["metadata"]["status"], "success");
        }
    }
}

/// Two runs in one file would be one that took the time of both.
#[test]
fn another_run_has_no_place_in_the_log_of_one_that_succeeded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result_0.txt");
    let run = || {
        let mut log = MlLog::open(&path, &deepcam(&[]), HARDWARE).unwrap();
        log.observe(&TrainEvent::Started(plan()));
        log.observe(&step(1, 1.0, 1e-6));
        let reached = scores(0.125, 0.81, 0.83);
        log.end(Ok(report(Outcome::Finished, 2844, reached)))
    };
    run().unwrap();
    let before = fs::read(&path).unwrap();
    let message = run().unwrap_err().to_string();
    assert!(message.contains("result_0.txt"), "{message}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Five samples in steps of two: the third step has the last sample of the first epoch and the first one of the second.
#[test]
fn epochs_that_fill_no_whole_steps_end_with_the_step_of_their_last_sample() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result_0.txt");
    let mut log = MlLog::open(&path, &deepcam(&[]), HARDWARE).unwrap();
    log.observe(&TrainEvent::Started(TrainPlan {
        total_steps: 8,
        steps_per_epoch: 2,
        epoch_samples: 5,
        step_samples: 2,
        validation_samples: 0,
        ..plan()
    }));
    for at in 1..=8 {
        log.observe(&step(at, 0.5, 1e-3));
    }
    let all = objects(&path);
    let of = |key: &str| -> Vec<(u64, u64)> {
        let found = all.iter().filter(|object| object["key"] == key);
        let number = |object: &Value, name: &str| object["metadata"][name].as_u64().unwrap();
        let at = |object| (number(object, "epoch_num"), number(object, "step_num"));
        found.map(at).collect()
    };
    assert_eq!(of("epoch_start"), [(1, 0), (2, 3), (3, 5)]);
    assert_eq!(of("epoch_stop"), [(1, 3), (2, 5), (3, 8)]);
}

#[test]
fn groups_go_on_while_one_validates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result_0.txt");
    let mut log = MlLog::open(&path, &deepcam(&[]), HARDWARE).unwrap();
    log.observe(&TrainEvent::Started(plan()));
    log.observe(&step(948, 0.5, 1e-3));
    log.observe(&step(949, 0.5, 1e-3));
    log.observe(&step(1896, 0.5, 1e-3));
    for step in [948, 1896] {
        log.observe(&validated(step, scores(0.25, 0.7, 0.71)));
    }
    let all = objects(&path);
    let of = |key: &str| -> Vec<u64> {
        let found = all.iter().filter(|object| object["key"] == key);
        let step = |object: &Value| object["metadata"]["step_num"].as_u64().unwrap();
        found.map(step).collect()
    };
    assert_eq!(
        (of("eval_start"), of("eval_stop")),
        (vec![948, 1896], vec![948, 1896])
    );
    assert_eq!(
        (of("epoch_start"), of("epoch_stop")),
        (vec![947, 948], vec![948, 1896])
    );
}

/// Nobody could see that the accuracy is not of the weights whose loss stands beside it.
#[test]
fn a_validation_of_averaged_weights_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for (changes, told) in [
        (
            &["training.average=0.875"][..],
            [json!("average"), json!(0.875)],
        ),
        (&[], [Value::Null, Value::Null]),
    ] {
        let path = folder.path().join(format!("result_{}.txt", changes.len()));
        let mut log = MlLog::open(&path, &deepcam(changes), HARDWARE).unwrap();
        log.observe(&TrainEvent::Started(plan()));
        log.observe(&step(948, 0.5, 1e-3));
        log.observe(&validated(948, scores(0.25, 0.7, 0.71)));
        let of = |key: &str| {
            let found = objects(&path).into_iter().find(|found| found["key"] == key);
            let metadata = found.unwrap()["metadata"].clone();
            ["weights", "decay"].map(|name| metadata[name].clone())
        };
        assert_eq!((of("eval_accuracy"), of("eval_loss")), (told.clone(), told));
        assert_eq!(of("train_loss"), [Value::Null, Value::Null]);
    }
}

/// What is written of a recipe's optimiser and schedule.
#[test]
fn numbers_mean_what_they_mean_in_the_reference() {
    let check = |changes: &[&str], expected: &[(&str, Value)]| {
        let facts = facts::of_run(&deepcam(changes), &plan(), HARDWARE).unwrap();
        for (key, value) in expected {
            let found = facts.iter().find(|(name, _)| name == key);
            assert_eq!(
                found.map(|(_, value)| value),
                Some(value),
                "{key} of {changes:?}"
            );
        }
    };
    check(
        &[
            "distributed.rate_scaling=none",
            "schedule.warmup_steps=400",
            "schedule.warmup_start=0.25",
            "schedule.end=0.5",
            "schedule.rate=0.002",
        ],
        &[
            ("opt_lr", json!(0.0005)),
            ("scheduler_lr_warmup_factor", json!(4.0)),
            ("scheduler_eta_min", json!(0.001)),
        ],
    );
    check(
        &[
            "schedule.decay=multistep",
            "schedule.milestones=[800, 1600]",
        ],
        &[
            ("scheduler_type", json!("multistep")),
            ("scheduler_milestones", json!([800, 1600])),
            ("scheduler_decay_rate", json!(0.1)),
        ],
    );
    check(
        &[
            "optimiser.rule=sgd",
            "schedule.decay=constant",
            "distributed.norm_ranks=0",
        ],
        &[
            ("opt_name", json!("SGD")),
            ("opt_momentum", json!(0.9)),
            ("scheduler_type", json!("constant")),
            ("batchnorm_group_size", json!(64)),
        ],
    );
    // 64 times `training.batch`, which is 2.
    check(
        &["distributed.rate_scaling=sqrt", "schedule.rate=0.25"],
        &[("opt_lr", json!(2.0))],
    );
    // The global batch is that of a step, in however many batches.
    check(
        &["training.accumulate=2"],
        &[
            ("global_batch_size", json!(128)),
            ("gradient_accumulation_frequency", json!(2)),
        ],
    );
}

/// Without a global batch a step has more samples for it, and the rate follows.
#[test]
fn batches_of_a_step_count() {
    let changes = [
        "training.batch=2",
        "training.accumulate=4",
        "distributed.rate_scaling=linear",
        "schedule.rate=0.001",
    ];
    let changes = changes.map(str::to_string);
    let recipe = Recipe::named(Path::new("deepcam"), &changes).unwrap();
    let facts = facts::of_run(&recipe, &plan(), HARDWARE).unwrap();
    for expected in [
        ("global_batch_size", json!(512)),
        ("gradient_accumulation_frequency", json!(4)),
        ("opt_lr", json!(0.256)),
    ] {
        assert!(facts.contains(&expected), "{expected:?} of {facts:?}");
    }
}

/// A training is worth more than its log, which says at the end what it lacks.
#[cfg(target_os = "linux")]
#[test]
fn a_log_that_cannot_be_written_fails_after_the_run() {
    let full = Path::new("/dev/full");
    let open = || {
        let mut log = MlLog::open(full, &deepcam(&[]), HARDWARE).unwrap();
        log.observe(&TrainEvent::Started(plan()));
        log.observe(&step(1, 1.0, 1e-6));
        log
    };
    let low = scores(0.25, 0.7, 0.71);
    let ended = open().end(Ok(report(Outcome::Finished, 2844, low)));
    let message = ended.unwrap_err().to_string();
    assert!(message.contains("/dev/full"), "{message}");
    let ended = open().end(Err(JobError::Thread("loader")));
    assert!(matches!(ended, Err(JobError::Thread("loader"))));
}
