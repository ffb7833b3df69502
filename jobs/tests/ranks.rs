//! Several ranks train one network: the same as one, the same bits on all, the same bits after interruptions.

mod common;

use common::learnt::{distance, losses, weights};
use common::{CHANNELS, grid, recipe, sample, store};
use squall_data::staging::Share;
use squall_data::store::{Split, StoreMeta, StoreWriter};
use squall_data::{Calendar, Store};
use squall_jobs::comm::CommError;
use squall_jobs::comm::threads::{self, Fault, Ranks, Threads};
use squall_jobs::staging::{LocalReport, folder_of_node, stage_local};
use squall_jobs::train::{EndedEarly, Team, train_together};
use squall_jobs::{JobError, Outcome, Recipe, TrainEvent, TrainReport};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Every rank's answer.
type Answers = Vec<Result<TrainReport, JobError>>;

/// Trains with these ranks; the first is told to stop after so many steps, as by a signal that only it gets.
fn train_on(
    ranks: Vec<Threads>,
    recipe: &Recipe,
    store: &Arc<Store>,
    folder: &Path,
    stop_after: Option<u64>,
) -> Answers {
    let same = |_: usize| store.clone();
    train_each(ranks, recipe, &same, folder, stop_after)
}

/// The same where every rank opens a store of its own.
fn train_each(
    ranks: Vec<Threads>,
    recipe: &Recipe,
    open: &(dyn Fn(usize) -> Arc<Store> + Sync),
    folder: &Path,
    stop_after: Option<u64>,
) -> Answers {
    threads::run(ranks, |rank| {
        let store = open(rank.member());
        let team_is_first = rank.member() == 0;
        let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
        let stop = AtomicBool::new(false);
        let mut steps = 0;
        let mut tell = |event: &TrainEvent| {
            if let TrainEvent::Step { .. } = event {
                steps += 1;
                // Only the first rank hears of it, and from it the others.
                if team_is_first && stop_after.is_some_and(|limit| steps > limit) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        };
        train_together(recipe, &store, folder, &mut tell, &stop, &mut team)
    })
}

fn all_finished(answers: Answers) -> Vec<TrainReport> {
    let reports: Vec<TrainReport> = answers.into_iter().map(Result::unwrap).collect();
    assert!(reports.iter().all(|r| r.outcome == Outcome::Finished));
    reports
}

/// Without what depends on a rank or on the order of sums.
const SAME: [&str; 6] = [
    "network.dropout=0.0",
    "network.batch_norm=true",
    "distributed.global_batch=4",
    "distributed.check_every_steps=1",
    "optimiser.rule=sgd",
    "training.steps=8",
];

fn with(changes: &[&str]) -> Recipe {
    recipe(&[&SAME[..], changes].concat())
}

#[test]
fn ranks_learn_what_one_learns() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 3);
    let at = |name: &str| folder.path().join(name);
    all_finished(train_on(
        threads::ranks(1),
        &with(&[]),
        &store,
        &at("one"),
        None,
    ));
    let cases: [(&str, Vec<Threads>, &[&str]); 5] = [
        ("two", threads::ranks(2), &["distributed.norm_ranks=2"]),
        (
            "four",
            threads::nodes(&[2, 2]),
            &["distributed.norm_ranks=4"],
        ),
        (
            "grid",
            threads::ranks(4),
            &["distributed.norm_ranks=4", "distributed.algorithm=grid"],
        ),
        (
            "a row of ranks",
            threads::ranks(4),
            &[
                "distributed.norm_ranks=0",
                "distributed.algorithm=grid",
                "distributed.grid=[1, 4]",
                "distributed.between=halving",
            ],
        ),
        (
            "small buckets",
            threads::nodes(&[2, 2]),
            &["distributed.norm_ranks=4", "distributed.bucket_mb=0.001"],
        ),
    ];
    let (expected, wanted) = (losses(&at("one")), weights(&at("one")));
    for (name, ranks, changes) in cases {
        let reports = all_finished(train_on(ranks, &with(changes), &store, &at(name), None));
        for (step, (loss, expected)) in losses(&at(name)).iter().zip(&expected).enumerate() {
            assert!(
                (loss / expected - 1.0).abs() < 1e-4,
                "{name}, step {step}: {loss} instead of {expected}"
            );
        }
        let off = distance(&weights(&at(name)), &wanted);
        assert!(off < 1e-4, "{name}: {off}");
        // The scores of the best model are merged, not one rank's.
        let best = |report: &TrainReport| report.best.clone().unwrap().scores;
        assert!(reports.iter().all(|r| best(r) == best(&reports[0])));
        assert_eq!(best(&reports[0]).samples(), 3);
    }
}

/// Every rank averages for itself.
#[test]
fn ranks_keep_the_average_that_one_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 3);
    let at = |name: &str| folder.path().join(name);
    let averaged = ["training.average=0.5", "distributed.norm_ranks=0"];
    let run = |name: &str, ranks: usize, changes: &[&str]| {
        let (recipe, ranks) = (with(changes), threads::ranks(ranks));
        all_finished(train_on(ranks, &recipe, &store, &at(name), None))
    };
    let one = run("one", 1, &averaged);
    let two = run("two", 2, &averaged);
    run("plain", 1, &averaged[1..]);
    let expected = weights(&at("one"));
    let off = distance(&weights(&at("two")), &expected);
    assert!(off < 1e-4, "{off}");
    let apart = distance(&weights(&at("plain")), &expected);
    assert!(apart > 1e-4, "{apart}");
    let loss = |report: &TrainReport| report.best.clone().unwrap().scores.loss();
    assert_eq!(loss(&two[0]), loss(&two[1]));
    assert!((loss(&two[0]) / loss(&one[0]) - 1.0).abs() < 1e-4);
}

/// A step has the same samples, dealt to ranks or one batch after the other, and dropout clears the same of them. Without
/// batch normalisation, whose gradients differ more by the order of sums.
#[test]
fn batches_of_a_step_are_learnt_from_like_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 3);
    let at = |name: &str| folder.path().join(name);
    let alike = [
        "network.batch_norm=false",
        "network.dropout=0.1",
        "distributed.rate_scaling=linear",
    ];
    let train = |name: &str, ranks: usize, changes: &[&str]| {
        let recipe = with(&[&alike[..], changes].concat());
        let answers = train_on(threads::ranks(ranks), &recipe, &store, &at(name), None);
        all_finished(answers);
    };
    for lag in ["distributed.gradient_lag=0", "distributed.gradient_lag=1"] {
        let named = |name: &str| format!("{name}, {lag}");
        train(&named("four"), 4, &[lag]);
        let (expected, wanted) = (losses(&at(&named("four"))), weights(&at(&named("four"))));
        let small = "distributed.bucket_mb=0.001";
        let cases: [(&str, usize, &[&str]); 3] = [
            ("one", 1, &["training.accumulate=4", lag]),
            ("two", 2, &["training.accumulate=2", lag]),
            ("small", 2, &["training.accumulate=2", lag, small]),
        ];
        for (name, ranks, changes) in cases {
            let name = named(name);
            train(&name, ranks, changes);
            let ours = losses(&at(&name));
            assert_eq!(ours.len(), expected.len(), "{name}");
            for (step, (loss, expected)) in ours.iter().zip(&expected).enumerate() {
                assert!(
                    (loss / expected - 1.0).abs() < 1e-4,
                    "{name}, step {step}: {loss} instead of {expected}"
                );
            }
            let off = distance(&weights(&at(&name)), &wanted);
            assert!(off < 1e-4, "{name}: {off}");
        }
    }
}

#[test]
fn a_half_wire_and_a_lag_learn_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let at = |name: &str| folder.path().join(name);
    // A half wire is one between nodes.
    let long = ["training.steps=40"];
    for (name, changes) in [
        ("f32", &[][..]),
        ("bf16", &["distributed.wire=bf16"]),
        ("f16", &["distributed.wire=f16"]),
        ("lag", &["distributed.gradient_lag=1"]),
    ] {
        let recipe = with(&[&long[..], changes].concat());
        all_finished(train_on(
            threads::nodes(&[1, 1]),
            &recipe,
            &store,
            &at(name),
            None,
        ));
        let losses = losses(&at(name));
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (first, last) = (mean(&losses[..4]), mean(&losses[losses.len() - 4..]));
        assert!(last < 0.9 * first, "{name}: loss from {first} to {last}");
    }
    let off = distance(&weights(&at("bf16")), &weights(&at("f32")));
    assert!(off > 0.0 && off < 0.1, "{off}");
}

#[test]
fn an_interrupted_run_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let at = |name: &str| folder.path().join(name);
    for (name, changes) in [
        ("plain", &["distributed.norm_ranks=2"][..]),
        // In many buckets, which a run that goes on has in one piece; the norm counts where gradients are clipped.
        (
            "lagged",
            &[
                "distributed.gradient_lag=1",
                "distributed.bucket_mb=0.001",
                "optimiser.clip_norm=0.1",
            ],
        ),
        (
            "averaged",
            &["training.average=0.9", "distributed.gradient_lag=1"],
        ),
        (
            "rounded",
            &["precision={compute=\"bf16\",kernels=\"stochastic\"}"],
        ),
        // With a gradient that is still to be used, between two checkpoints.
        (
            "early",
            &[
                "distributed.gradient_lag=1",
                "training.steps=40",
                "training.validate_every_steps=19",
                "training.target_score=1e-6",
            ],
        ),
    ] {
        let recipe = with(&[&["training.steps=20"], changes].concat());
        let (whole, parts) = (at(&format!("{name} whole")), at(&format!("{name} parts")));
        let reports = all_finished(train_on(threads::ranks(2), &recipe, &store, &whole, None));
        let (steps, why) = match name {
            "early" => (19, Some(EndedEarly::TargetScore)),
            _ => (20, None),
        };
        for report in &reports {
            assert_eq!((report.steps, report.ended_early), (steps, why), "{name}");
        }
        let mut interruptions = 0;
        loop {
            let stop = Some(interruptions % 3);
            let answers = train_on(threads::ranks(2), &recipe, &store, &parts, stop);
            let outcomes: Vec<Outcome> = answers.into_iter().map(|a| a.unwrap().outcome).collect();
            assert!(outcomes.iter().all(|o| *o == outcomes[0]), "{outcomes:?}");
            if outcomes[0] == Outcome::Finished {
                break;
            }
            interruptions += 1;
            assert!(interruptions < 40);
        }
        assert!(interruptions > 2, "{interruptions}");
        for file in ["last.safetensors", "best.safetensors", "metrics.jsonl"] {
            let read = |folder: &Path| std::fs::read(folder.join(file)).unwrap();
            assert!(read(&parts) == read(&whole), "{name}: {file}");
        }
    }
}

/// The first rank reads it for all, from the model file or, once that is gone, from the checkpoint.
#[test]
fn ranks_keep_the_normalisation_of_the_model_they_start_from() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (large, small) = (store(&at("large"), 12, 2), store(&at("small"), 4, 2));
    let short = with(&["training.steps=1"]);
    all_finished(train_on(
        threads::ranks(1),
        &short,
        &large,
        &at("first"),
        None,
    ));
    let model = at("first").join("last.safetensors");
    let start = format!("training.start_from='{}'", model.display());
    let keep = with(&["data.normalisation=start_from", &start]);
    let run =
        |name: &str, stop: Option<u64>| train_on(threads::ranks(2), &keep, &small, &at(name), stop);
    all_finished(run("whole", None));
    for answer in run("part", Some(3)) {
        assert_eq!(answer.unwrap().outcome, Outcome::Interrupted);
    }
    std::fs::remove_file(&model).unwrap();
    all_finished(run("part", None));
    assert_eq!(losses(&at("part")), losses(&at("whole")));
    assert!(weights(&at("part")) == weights(&at("whole")));
}

/// Batch systems give so much time between the signal and the end. The first rank is told when its third step is over,
/// and the others hear of it with the next one's facts, which with a lag are used a step later.
#[test]
fn all_ranks_stop_after_the_first_step_that_can_tell_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    for (lag, steps) in [(0, 4), (1, 5)] {
        // A validation would ask all ranks at once.
        let mut recipe = with(&["training.steps=20", "training.validate_every_steps=20"]);
        recipe.distributed.gradient_lag = lag;
        let out = folder.path().join(format!("lag {lag}"));
        for answer in train_on(threads::ranks(2), &recipe, &store, &out, Some(2)) {
            let report = answer.unwrap();
            let expected = (Outcome::Interrupted, steps);
            assert_eq!((report.outcome, report.steps), expected, "lag {lag}");
        }
    }
}

#[test]
fn a_plan_counts_what_all_ranks_read_and_compute() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let recipe = with(&["training.steps=2"]);
    let plans = |count: usize| {
        let out = folder.path().join(count.to_string());
        threads::run(threads::ranks(count), |rank| {
            let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
            let mut plan = None;
            let mut hear = |event: &TrainEvent| {
                if let TrainEvent::Started(told) = event {
                    plan = Some((told.read_bytes, told.step_flops));
                }
            };
            let stop = AtomicBool::new(false);
            train_together(&recipe, &store, &out, &mut hear, &stop, &mut team).unwrap();
            plan.unwrap()
        })
    };
    let alone = plans(1)[0];
    // Two steps of four samples, and two samples of the validation at the end.
    assert_eq!(alone.0, (2 * 4 + 2) * store.meta().record_bytes());
    assert_eq!(plans(2), [alone; 2]);
}

/// Of an epoch, in which every sample lacks a value.
#[test]
fn missing_values_are_counted_over_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let meta = StoreMeta::new(grid(), Calendar::NoLeap, CHANNELS.to_vec());
    let mut writer = StoreWriter::create(at("store"), meta).unwrap();
    for index in 0..12 {
        let (mut snapshot, mask) = sample(index);
        snapshot.fields[(1, 3, index)] = f32::NAN;
        writer.push(&snapshot, &mask, Split::Train).unwrap();
    }
    let store = Arc::new(writer.finish().unwrap());
    let recipe = with(&["training.steps=3"]);
    for count in [1, 2] {
        let out = at(&count.to_string());
        let reports = all_finished(train_on(threads::ranks(count), &recipe, &store, &out, None));
        for report in reports {
            assert_eq!(report.missing_values, 12, "{count} ranks");
        }
    }
}

/// The first rank writes a checkpoint for longer than it is to the next one, and its clock begins anew when it has
/// written: the others' clocks are ahead of it from then on.
#[test]
fn checkpoints_by_the_clock_come_after_the_same_steps_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let mut recipe = with(&[
        "distributed.check_every_steps=1000",
        "distributed.stall_seconds=10",
        "training.steps=60",
        "training.checkpoint_every_steps=1000",
        "training.validate_every_steps=1000",
    ]);
    recipe.training.checkpoint_every_seconds = 0.05;
    for (name, lag) in [("at once", 0), ("late", 1)] {
        recipe.distributed.gradient_lag = lag;
        let out = folder.path().join(name);
        let answers = threads::run(threads::ranks(4), |rank| {
            let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
            let mut saved = Vec::new();
            let mut tell = |event: &TrainEvent| {
                if let TrainEvent::CheckpointSaved { step, .. } = event {
                    saved.push(*step);
                    std::thread::sleep(Duration::from_millis(80));
                }
            };
            let stop = AtomicBool::new(false);
            let trained = train_together(&recipe, &store, &out, &mut tell, &stop, &mut team);
            (trained.unwrap().outcome, saved)
        });
        assert!(
            answers
                .iter()
                .all(|(outcome, _)| *outcome == Outcome::Finished)
        );
        let saved = &answers[0].1;
        // With a lag the others know one step later, and one asks but once for each.
        let apart = saved.windows(2).map(|two| two[1] - two[0]);
        assert!(
            saved.len() > 3 && apart.clone().all(|steps| steps > 0),
            "{saved:?}"
        );
        assert!(answers[1..].iter().all(|(_, saved)| saved.is_empty()));
    }
}

/// The other ranks went on into the next sum, where such a wait is a stall: a slow file system ended the job at every
/// checkpoint.
#[test]
fn files_may_take_longer_to_write_than_ranks_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let recipe = with(&[
        "distributed.stall_seconds=5",
        "training.steps=4",
        "training.checkpoint_every_steps=2",
        "training.validate_every_steps=2",
    ]);
    let stalls: Arc<Mutex<Vec<String>>> = Arc::default();
    let answers = threads::run(threads::ranks(2), |rank| {
        let (first, seen) = (rank.member() == 0, Arc::clone(&stalls));
        let note = move |stall: CommError| seen.lock().unwrap().push(stall.to_string());
        let mut team = Team::of(Box::new(rank), Box::new(note));
        let mut tell = |event: &TrainEvent| {
            let is_written = match event {
                TrainEvent::Validated { step, .. } | TrainEvent::CheckpointSaved { step, .. } => {
                    *step == 2
                }
                _ => false,
            };
            if first && is_written {
                std::thread::sleep(Duration::from_secs(6));
            }
        };
        let stop = AtomicBool::new(false);
        train_together(&recipe, &store, folder.path(), &mut tell, &stop, &mut team)
    });
    all_finished(answers);
    let stalls = stalls.lock().unwrap();
    assert!(stalls.is_empty(), "{stalls:?}");
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let at = |name: &str| folder.path().join(name);
    // Statistics over all ranks, and a rate that follows the samples of a step, which stay.
    let elastic = [
        "distributed.norm_ranks=0",
        "distributed.rate_scaling=linear",
    ];
    let recipe = with(&elastic);
    all_finished(train_on(
        threads::ranks(1),
        &recipe,
        &store,
        &at("one"),
        None,
    ));
    for ranks in [1, 2, 4] {
        train_on(
            threads::ranks(ranks),
            &recipe,
            &store,
            &at("elastic"),
            Some(2),
        );
    }
    all_finished(train_on(
        threads::ranks(2),
        &recipe,
        &store,
        &at("elastic"),
        None,
    ));
    let (ours, expected) = (losses(&at("elastic")), losses(&at("one")));
    assert_eq!(ours.len(), expected.len());
    for (step, (loss, expected)) in ours.iter().zip(&expected).enumerate() {
        assert!(
            (loss / expected - 1.0).abs() < 1e-4,
            "step {step}: {loss} {expected}"
        );
    }
    // Another global batch would be another run.
    let other = with(&[&elastic[..], &["distributed.global_batch=6"]].concat());
    let refused = train_on(threads::ranks(2), &other, &store, &at("elastic"), None);
    assert!(refused.iter().all(Result::is_err));
}

/// With half the ranks a step is done in twice as many batches.
#[test]
fn a_run_goes_on_with_other_ranks_that_take_more_batches() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let at = |name: &str| folder.path().join(name);
    for lag in ["distributed.gradient_lag=0", "distributed.gradient_lag=1"] {
        let in_batches = |accumulate: usize| {
            let accumulate = format!("training.accumulate={accumulate}");
            with(&["network.batch_norm=false", lag, &accumulate])
        };
        let train = |ranks: usize, accumulate: usize, name: &str, until: Option<u64>| {
            let recipe = in_batches(accumulate);
            train_on(threads::ranks(ranks), &recipe, &store, &at(name), until)
        };
        let (whole, parts) = (format!("whole {lag}"), format!("parts {lag}"));
        all_finished(train(4, 1, &whole, None));
        train(4, 1, &parts, Some(2));
        train(1, 4, &parts, Some(4));
        all_finished(train(2, 2, &parts, None));
        let (ours, expected) = (losses(&at(&parts)), losses(&at(&whole)));
        assert_eq!(ours.len(), expected.len());
        for (step, (loss, expected)) in ours.iter().zip(&expected).enumerate() {
            let differ = (loss / expected - 1.0).abs() >= 1e-4;
            assert!(!differ, "{lag}, step {step}: {loss} {expected}");
        }
    }
}

#[test]
fn ranks_that_disagree_or_fail_end_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let recipes = [with(&[]), with(&["schedule.rate=1e-3"])];
    let answers = threads::run(threads::ranks(3), |rank| {
        let recipe = &recipes[usize::from(rank.member() == 1)];
        let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
        let stop = AtomicBool::new(false);
        let folder = folder.path().join("differs");
        let recipe = Recipe {
            distributed: squall_jobs::recipe::Distributed {
                global_batch: Some(3),
                ..recipe.distributed.clone()
            },
            ..recipe.clone()
        };
        train_together(&recipe, &store, &folder, &mut |_| {}, &stop, &mut team)
    });
    for answer in answers {
        let text = answer.unwrap_err().to_string();
        assert!(
            text.contains("the recipe differs between ranks: rank 1"),
            "{text}"
        );
    }
    let uneven = train_on(
        threads::ranks(3),
        &with(&[]),
        &store,
        &folder.path().join("uneven"),
        None,
    );
    for answer in uneven {
        let text = answer.unwrap_err().to_string();
        assert!(
            text.contains("global_batch") || text.contains("another rank"),
            "{text}"
        );
    }
    // A rank that is gone is an error on the others, not a wait.
    let dying = Ranks::nodes(&[2]).fault(1, 60, Fault::Dies).start();
    let answers = train_on(dying, &with(&[]), &store, &folder.path().join("gone"), None);
    assert!(answers.iter().all(Result::is_err));
}

/// Trains on two nodes with so many ranks, which hold what was staged to `local`.
fn train_on_nodes(
    ranks: [usize; 2],
    recipe: &Recipe,
    local: &Path,
    out: &Path,
    stop_after: Option<u64>,
) -> Answers {
    let node_of = |rank: usize| usize::from(rank >= ranks[0]);
    let open = |rank: usize| Arc::new(Store::open(folder_of_node(local, node_of(rank))).unwrap());
    train_each(threads::nodes(&ranks), recipe, &open, out, stop_after)
}

/// Each of two nodes learns from its half of the samples; resumed, from the same half in the same order, and from no
/// other.
#[test]
fn nodes_with_a_part_of_the_store_learn_from_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let source = store(&folder.path().join("store"), 16, 4);
    let stage = |name: &str, seed: u64| {
        let local = folder.path().join(name);
        let share = Share::Training { per_node: 8, seed };
        threads::run(threads::nodes(&[2, 2]), |rank| {
            let stop = AtomicBool::new(false);
            let tell = &mut |_: &LocalReport, _, _| ();
            stage_local(&source, &local, share, Box::new(rank), &stop, tell).unwrap();
        });
        local
    };
    let (local, other) = (stage("node{node}", 3), stage("other{node}", 4));
    let recipe = recipe(&["training.steps=10", "distributed.check_every_steps=1"]);
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    all_finished(train_on_nodes([2, 2], &recipe, &local, &whole, None));
    train_on_nodes([2, 2], &recipe, &local, &parts, Some(4));
    let refused = train_on_nodes([2, 2], &recipe, &other, &parts, None);
    let told = |answer: &Result<TrainReport, JobError>| {
        let error = answer.as_ref().unwrap_err().to_string();
        error.contains("its nodes held other samples")
    };
    assert!(refused.iter().any(told));
    all_finished(train_on_nodes([2, 2], &recipe, &local, &parts, None));
    assert_eq!(weights(&whole), weights(&parts));
    assert_eq!(losses(&whole).len(), 10);

    // Of the global batch a node takes the same samples, whichever of its ranks.
    let recipe = with(&["distributed.norm_ranks=0"]);
    let (whole, parts) = (folder.path().join("four"), folder.path().join("two"));
    all_finished(train_on_nodes([2, 2], &recipe, &local, &whole, None));
    train_on_nodes([2, 2], &recipe, &local, &parts, Some(2));
    all_finished(train_on_nodes([1, 1], &recipe, &local, &parts, None));
    let (ours, expected) = (losses(&parts), losses(&whole));
    assert_eq!(ours.len(), expected.len());
    for (step, (loss, expected)) in ours.iter().zip(&expected).enumerate() {
        let differ = (loss / expected - 1.0).abs() >= 1e-4;
        assert!(!differ, "step {step}: {loss} {expected}");
    }

    // Of the eight samples of a node three ranks take six in a step, four ranks all.
    let recipe = common::recipe(&["training.steps=3"]);
    let uneven = folder.path().join("seven");
    train_on_nodes([3, 4], &recipe, &local, &uneven, Some(0));
    let refused = train_on_nodes([4, 3], &recipe, &local, &uneven, None);
    assert!(refused.iter().any(told));
    all_finished(train_on_nodes([3, 4], &recipe, &local, &uneven, None));
}
