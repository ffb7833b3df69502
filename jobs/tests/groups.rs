//! Groups that do not wait for each other: one is synchronous training, in turns they give the same bits in every run,
//! and a slow or lost one does not hold up the others.

mod common;

use common::learnt::losses;
use common::{recipe, store};
use squall_data::Store;
use squall_jobs::comm::threads::{self, Fault, Ranks, Threads};
use squall_jobs::metrics::{Metric, read_metrics};
use squall_jobs::train::checkpoint::newest_step;
use squall_jobs::train::{Team, train_together};
use squall_jobs::{Contract, JobError, Outcome, Recipe, TrainEvent, TrainReport};
use squall_model::ModelFile;
use squall_model::parameters::NamedTensors;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Trains with these ranks, of which the last takes so much longer in every step; the first is told to stop after so
/// many steps.
fn train_on(
    ranks: Vec<Threads>,
    recipe: &Recipe,
    store: &Arc<Store>,
    folder: &Path,
    (slow, stop_after): (Duration, Option<u64>),
) -> Vec<Result<TrainReport, JobError>> {
    let last = ranks.len() - 1;
    threads::run(ranks, |rank| {
        let (is_first, is_last) = (rank.member() == 0, rank.member() == last);
        let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
        if is_last {
            team = team.slowed(slow);
        }
        let stop = AtomicBool::new(false);
        let mut steps = 0;
        let mut tell = |event: &TrainEvent| {
            if let TrainEvent::Step { .. } = event {
                steps += 1;
                if is_first && stop_after.is_some_and(|limit| steps >= limit) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        };
        train_together(recipe, store, folder, &mut tell, &stop, &mut team)
    })
}

const AT_ONCE: (Duration, Option<u64>) = (Duration::ZERO, None);

fn tensors(folder: &Path, file: &str) -> NamedTensors {
    ModelFile::read(&folder.join(file)).unwrap().tensors
}

fn metrics(folder: &Path) -> Vec<Metric> {
    read_metrics(&folder.join("metrics.jsonl")).unwrap()
}

/// What synchronous training writes as well: every step, and when the network was scored and was the best.
fn common_metrics(folder: &Path) -> Vec<(Option<Metric>, u64, bool)> {
    let common = |metric: Metric| match metric {
        Metric::Validation { step, best, .. } => Some((None, step, best)),
        Metric::Step { step, .. } => Some((Some(metric), step, false)),
        _ => None,
    };
    metrics(folder).into_iter().filter_map(common).collect()
}

/// How many updates of each group, and how stale they were.
fn updates(folder: &Path) -> Vec<(usize, u64)> {
    let update = |metric| match metric {
        Metric::Update {
            group, staleness, ..
        } => Some((group, staleness)),
        _ => None,
    };
    metrics(folder).into_iter().filter_map(update).collect()
}

#[test]
fn one_group_is_synchronous_training() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 3);
    let rules: [&[&str]; 3] = [
        &["optimiser.rule=sgd", "optimiser.clip_norm=0.5"],
        &["optimiser.weight_decay=0.01"],
        &["optimiser.rule=lamb", "distributed.momentum=tuned"],
    ];
    for (number, rule) in rules.iter().enumerate() {
        let at = |name: &str| folder.path().join(format!("{name}{number}"));
        let synchronous = recipe(&rule[..rule.len().min(if number == 2 { 1 } else { 2 })]);
        let ranks = threads::ranks(2);
        let reports = train_on(ranks, &synchronous, &store, &at("sync"), AT_ONCE);
        let expected = reports.into_iter().next().unwrap().unwrap();
        for servers in 1..=3 {
            let name = format!("servers{servers}-");
            let servers_key = format!("distributed.servers={servers}");
            let grouped = ["distributed.groups=1", &servers_key];
            let recipe = recipe(&[rule, &grouped[..]].concat());
            let ranks = threads::ranks(2 + servers);
            let reports = train_on(ranks, &recipe, &store, &at(&name), AT_ONCE);
            for report in reports {
                let report = report.unwrap();
                assert_eq!(report.outcome, Outcome::Finished);
                assert_eq!(report.steps, expected.steps);
                assert_eq!(report.staleness.unwrap().max, 0);
            }
            assert_eq!(common_metrics(&at(&name)), common_metrics(&at("sync")));
            // LAMB's norms are sums in another order where layers lie elsewhere.
            let exact = number < 2 || servers == 1;
            for file in ["last.safetensors", "best.safetensors"] {
                let same = tensors(&at(&name), file) == tensors(&at("sync"), file);
                assert!(same || !exact, "{file} with {rule:?} and {servers} servers");
            }
            let model = at(&name).join("best.safetensors");
            Contract::of(&ModelFile::read(&model).unwrap().facts, &model).unwrap();
        }
    }
}

/// No step finds a scale at which gradients are finite: all ranks say so at the end. What skipped batches were like shows
/// nowhere: the network is scored, and kept, with the running statistics of the start.
#[test]
fn one_group_skips_steps_as_synchronous_training_does() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 3);
    let at = |name: &str| folder.path().join(name);
    let keys = [
        "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 1e38, growth_interval = 1000 } }",
        "loss.normalisation={ sum = 1e33 }",
        "training.steps=4",
        "training.validate_every_steps=1",
    ];
    let grouped = [&keys[..], &["distributed.groups=1"]].concat();
    for (name, recipe, ranks) in [("sync", recipe(&keys), 2), ("groups", recipe(&grouped), 3)] {
        for report in train_on(threads::ranks(ranks), &recipe, &store, &at(name), AT_ONCE) {
            let error = report.unwrap_err();
            assert!(
                matches!(error, JobError::Diverged { step: 4, .. }),
                "{name}: {error}"
            );
            let said = error.to_string();
            assert!(
                said.contains("none of its 4 steps changed the network"),
                "{name}: {said}"
            );
        }
    }
    assert_eq!(common_metrics(&at("groups")), common_metrics(&at("sync")));
    for file in ["last.safetensors", "best.safetensors"] {
        let same = tensors(&at("groups"), file) == tensors(&at("sync"), file);
        assert!(same, "{file}");
    }
}

#[test]
fn in_turns_every_run_gives_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let recipe = recipe(&[
        "distributed.groups=2",
        "distributed.servers=2",
        "distributed.order=round-robin",
        "distributed.check_every_steps=1",
        "optimiser.rule=sgd",
        "training.steps=25",
    ]);
    let mut found: Option<(NamedTensors, Vec<u8>)> = None;
    for seed in 0..3 {
        let out = folder.path().join(format!("run{seed}"));
        let late = Ranks::nodes(&[6]).delays(seed, Duration::from_millis(1));
        let reports = train_on(late.start(), &recipe, &store, &out, AT_ONCE);
        let report = reports.into_iter().next().unwrap().unwrap();
        assert_eq!((report.outcome, report.steps), (Outcome::Finished, 25));
        let staleness = report.staleness.unwrap();
        // Of both servers; the first update of all has seen no other.
        assert_eq!(staleness.histogram, [2, 48], "{:?}", updates(&out));
        let groups: Vec<usize> = updates(&out).iter().map(|u| u.0).collect();
        assert!(
            groups.iter().enumerate().all(|(at, &g)| g == at % 2),
            "{groups:?}"
        );
        let text = std::fs::read(out.join("metrics.jsonl")).unwrap();
        let now = (tensors(&out, "checkpoint.safetensors"), text);
        let (weights, text) = found.get_or_insert_with(|| now.clone());
        let lines = String::from_utf8_lossy(text);
        for (was, is) in lines.lines().zip(String::from_utf8_lossy(&now.1).lines()) {
            assert_eq!(was, is, "run {seed} writes something else");
        }
        let differs: Vec<_> = (weights.iter().zip(&now.0))
            .filter(|(was, is)| was != is)
            .map(|((name, _), _)| name)
            .collect();
        assert!(
            differs.is_empty() && text.len() == now.1.len(),
            "run {seed}: {differs:?}"
        );
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// All that a run in turns has written and that must not depend on interruptions: weights, the state to go on from,
/// every step, update and validation, and how stale updates were in the end.
fn written(folder: &Path) -> (Vec<NamedTensors>, Vec<Metric>, Option<Metric>) {
    let files = [
        "best.safetensors",
        "last.safetensors",
        "checkpoint.safetensors",
    ];
    let weights = files.iter().map(|file| tensors(folder, file)).collect();
    let (mut steps, mut stale) = (Vec::new(), None);
    for metric in metrics(folder) {
        match metric {
            Metric::Step { .. } | Metric::Update { .. } | Metric::Validation { .. } => {
                steps.push(metric);
            }
            Metric::Staleness { .. } => stale = Some(metric),
        }
    }
    (weights, steps, stale)
}

#[test]
fn in_turns_a_run_goes_on_as_if_it_had_not_been_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    for (groups, servers) in [(2, 1), (3, 2)] {
        let keys = [
            format!("distributed.groups={groups}"),
            format!("distributed.servers={servers}"),
        ];
        let mut changes = vec![
            "distributed.order=round-robin",
            "distributed.check_every_steps=1",
            "training.steps=23",
            "training.validate_every_steps=5",
        ];
        changes.extend(keys.iter().map(String::as_str));
        let recipe = recipe(&changes);
        let at = |name: &str| folder.path().join(format!("{name}-{groups}"));
        let run = |out: &Path, stop_after| {
            let ranks = threads::ranks(groups + servers);
            let reports = train_on(ranks, &recipe, &store, out, (Duration::ZERO, stop_after));
            reports.into_iter().next().unwrap().unwrap()
        };

        // Every checkpoint on the way is kept as a kill just after it would leave it.
        let whole = at("whole");
        threads::run(threads::ranks(groups + servers), |rank| {
            let is_first = rank.member() == 0;
            let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
            let mut keep = |event: &TrainEvent| {
                if let (true, TrainEvent::CheckpointSaved { step, .. }) = (is_first, event) {
                    copy(&whole, &at(&format!("killed{step}")));
                }
            };
            let stop = AtomicBool::new(false);
            train_together(&recipe, &store, &whole, &mut keep, &stop, &mut team).unwrap();
        });
        let expected = written(&whole);
        assert_eq!(losses(&whole).len(), 23);
        for step in [3, 6, 15, 21] {
            let killed = at(&format!("killed{step}"));
            assert_eq!(newest_step(&killed), Some(step));
            assert_eq!(run(&killed, None).outcome, Outcome::Finished);
            assert!(
                written(&killed) == expected,
                "{groups} groups, killed at {step}"
            );
        }
        for stop_after in [1, 4, 10] {
            let stopped = at(&format!("stopped{stop_after}"));
            let report = run(&stopped, Some(stop_after));
            assert_eq!(report.outcome, Outcome::Interrupted);
            assert!(report.steps < 23);
            assert_eq!(run(&stopped, None).outcome, Outcome::Finished);
            assert!(
                written(&stopped) == expected,
                "{groups} groups, stopped at {stop_after}"
            );
        }
    }
}

#[test]
fn checkpoints_by_the_clock_are_exact_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 0);
    let mut recipe = recipe(&[
        "distributed.order=round-robin",
        "distributed.groups=2",
        "distributed.servers=2",
        "training.steps=20",
        "training.checkpoint_every_steps=1000",
    ]);
    let plain = folder.path().join("plain");
    train_on(threads::ranks(4), &recipe, &store, &plain, AT_ONCE);
    recipe.training.checkpoint_every_seconds = 1e-9;
    let whole = folder.path().join("whole");
    let kept = std::sync::Mutex::new(Vec::new());
    threads::run(threads::ranks(4), |rank| {
        let is_first = rank.member() == 0;
        let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
        let mut keep = |event: &TrainEvent| {
            if let (true, TrainEvent::CheckpointSaved { step, .. }) = (is_first, event) {
                copy(&whole, &folder.path().join(format!("killed{step}")));
                kept.lock().unwrap().push(*step);
            }
        };
        let stop = AtomicBool::new(false);
        train_together(&recipe, &store, &whole, &mut keep, &stop, &mut team).unwrap();
    });
    let kept = kept.into_inner().unwrap();
    assert!(kept.len() > 2 && kept[0] >= 4, "{kept:?}");
    let expected = tensors(&plain, "checkpoint.safetensors");
    assert!(tensors(&whole, "checkpoint.safetensors") == expected);
    for step in kept.into_iter().filter(|&step| step < 20) {
        let killed = folder.path().join(format!("killed{step}"));
        train_on(threads::ranks(4), &recipe, &store, &killed, AT_ONCE);
        let now = tensors(&killed, "checkpoint.safetensors");
        assert!(now == expected, "killed at {step}");
    }
}

#[test]
fn a_slow_group_does_fewer_steps_and_all_are_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let recipe = recipe(&[
        "distributed.groups=3",
        "distributed.servers=2",
        "distributed.momentum=tuned",
        "training.steps=60",
        "training.validate_every_steps=20",
    ]);
    let out = folder.path().join("run");
    let slow = (Duration::from_millis(600), None);
    let reports = train_on(threads::ranks(5), &recipe, &store, &out, slow);
    for report in &reports {
        let report = report.as_ref().unwrap();
        assert_eq!((report.outcome, report.steps), (Outcome::Finished, 60));
        assert_eq!(report.ranks, 5);
    }
    let updates = updates(&out);
    let of = |group: usize| updates.iter().filter(|u| u.0 == group).count();
    assert_eq!(updates.len(), 60);
    assert!(of(2) >= 1 && of(2) < of(0) && of(2) < of(1), "{}", of(2));
    let oldest = updates.iter().map(|u| u.1).max().unwrap();
    assert!(oldest > 1, "{oldest}");
    // Its gradients are the oldest, and are counted by every server.
    let staleness = reports[0].as_ref().unwrap().staleness.clone().unwrap();
    assert_eq!(
        (staleness.updates, staleness.histogram.iter().sum()),
        (120, 120)
    );
    assert!(staleness.max >= oldest && staleness.mean > 0.5);
    // By its number among all ranks, two of which are servers.
    assert_eq!(reports[0].as_ref().unwrap().balance.slowest, 4);
    let steps: Vec<u64> = common_metrics(&out)
        .iter()
        .filter(|(step, ..)| step.is_some())
        .map(|(_, step, _)| *step)
        .collect();
    assert_eq!(steps, (1..=60).collect::<Vec<u64>>());
    let validations = common_metrics(&out).len() - 60;
    assert_eq!(validations, 3);
    let losses = losses(&out);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    assert!(
        mean(&losses[50..]) < 0.9 * mean(&losses[..10]),
        "{losses:?}"
    );
}

#[test]
fn a_lost_group_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    for order in ["arrival", "round-robin"] {
        let order_key = format!("distributed.order={order}");
        let recipe = recipe(&[
            "distributed.groups=3",
            "distributed.servers=2",
            &order_key,
            "training.steps=40",
        ]);
        let out = folder.path().join(order);
        // The second rank of the second group dies in the midst of the run; its leader then cannot go on either.
        let dying = Ranks::nodes(&[8]).fault(5, 100, Fault::Dies).start();
        let reports = train_on(dying, &recipe, &store, &out, AT_ONCE);
        for (rank, report) in reports.iter().enumerate() {
            match rank {
                4 | 5 => assert!(report.is_err(), "rank {rank} of the lost group"),
                _ => {
                    let report = report.as_ref().unwrap();
                    let ended = (report.outcome, report.steps);
                    assert_eq!(ended, (Outcome::Finished, 40), "{order}, rank {rank}");
                }
            }
        }
        let updates = updates(&out);
        let of = |group: usize| updates.iter().filter(|u| u.0 == group).count();
        assert_eq!(updates.len(), 40);
        assert!(of(1) > 0 && of(1) < 15 && of(0) + of(2) > 25, "{updates:?}");
    }
}

#[test]
fn an_interrupted_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let at = |name: &str| folder.path().join(name);
    // Of one group with the same bits.
    let one = recipe(&["distributed.groups=1", "training.steps=14"]);
    let ranks = || threads::ranks(3);
    for report in train_on(ranks(), &one, &store, &at("whole"), AT_ONCE) {
        report.unwrap();
    }
    for stop_after in [3, 5] {
        for report in train_on(
            ranks(),
            &one,
            &store,
            &at("parts"),
            (Duration::ZERO, Some(stop_after)),
        ) {
            assert_eq!(report.unwrap().outcome, Outcome::Interrupted);
        }
    }
    for report in train_on(ranks(), &one, &store, &at("parts"), AT_ONCE) {
        assert_eq!(report.unwrap().outcome, Outcome::Finished);
    }
    for file in ["last.safetensors", "best.safetensors"] {
        assert!(
            tensors(&at("parts"), file) == tensors(&at("whole"), file),
            "{file}"
        );
    }
    assert_eq!(common_metrics(&at("parts")), common_metrics(&at("whole")));

    // Of several with every step once.
    let several = recipe(&[
        "distributed.groups=3",
        "distributed.servers=2",
        "training.steps=40",
    ]);
    let mut interruptions = 0;
    loop {
        let told = (Duration::from_millis(20), Some(7));
        let reports = train_on(threads::ranks(5), &several, &store, &at("several"), told);
        let outcomes: Vec<Outcome> = reports.into_iter().map(|r| r.unwrap().outcome).collect();
        assert!(outcomes.iter().all(|o| *o == outcomes[0]), "{outcomes:?}");
        if outcomes[0] == Outcome::Finished {
            break;
        }
        interruptions += 1;
        assert!(interruptions < 12);
    }
    assert!(interruptions > 1, "{interruptions}");
    assert_eq!(newest_step(&at("several")), Some(40));
    assert_eq!(
        (losses(&at("several")).len(), updates(&at("several")).len()),
        (40, 40)
    );
}

#[test]
fn every_rank_that_computes_leaves_a_trace_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 0);
    let recipe = recipe(&[
        "distributed.groups=2",
        "training.steps=4",
        "training.trace_steps=1",
    ]);
    let out = folder.path().join("run");
    for report in train_on(threads::ranks(3), &recipe, &store, &out, AT_ONCE) {
        report.unwrap();
    }
    assert!(!out.join("trace.rank0.json").exists());
    for rank in [1, 2] {
        let text = std::fs::read_to_string(out.join(format!("trace.rank{rank}.json"))).unwrap();
        assert!(text.contains(&format!("\"pid\":{rank}")), "{text}");
    }
}

#[test]
fn all_ranks_say_that_the_last_validation_was_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let recipe = recipe(&["distributed.groups=2", "training.validate_every_steps=100"]);
    let out = folder.path().join("run");
    let train = |stops: bool| -> Vec<TrainReport> {
        // As a signal reaches all ranks: when all steps are done.
        let stop = AtomicBool::new(false);
        threads::run(threads::ranks(3), |rank| {
            let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
            let mut tell = |event: &TrainEvent| {
                if let TrainEvent::CheckpointSaved { step: 12, .. } = event {
                    stop.fetch_or(stops, Ordering::Relaxed);
                }
            };
            train_together(&recipe, &store, &out, &mut tell, &stop, &mut team).unwrap()
        })
    };
    for report in train(true) {
        assert_eq!((report.outcome, report.steps), (Outcome::Interrupted, 12));
    }
    for report in train(false) {
        assert_eq!((report.outcome, report.steps), (Outcome::Finished, 12));
    }
    let validations = common_metrics(&out).len() - 12;
    assert_eq!(validations, 1);
}

/// One rank alone has no groups. What they had begun comes first, and no step comes twice.
#[test]
fn one_rank_goes_on_with_the_steps_that_groups_had_begun() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 0);
    // The parameters stay as they are, so that a loss tells which samples it is of.
    let recipe = recipe(&[
        "distributed.groups=2",
        "schedule.rate=1e-30",
        "network.dropout=0.0",
        "data.augmentation.roll=false",
        "data.augmentation.mirror=false",
    ]);
    let at = |name: &str| folder.path().join(name);
    let alone = |name: &str, stop_after| {
        let told = (Duration::ZERO, stop_after);
        let reports = train_on(threads::ranks(1), &recipe, &store, &at(name), told);
        reports.into_iter().next().unwrap().unwrap().outcome
    };
    assert_eq!(alone("whole", None), Outcome::Finished);
    assert_eq!(alone("parts", Some(7)), Outcome::Interrupted);
    // As two groups leave it that have done seven of nine steps.
    let path = at("parts").join("checkpoint.safetensors");
    let mut file = ModelFile::read(&path).unwrap();
    let facts = file.facts.get_mut("checkpoint").unwrap();
    let mut changed: serde_json::Value = serde_json::from_str(facts).unwrap();
    changed["pending"] = serde_json::json!([2, 4]);
    *facts = changed.to_string();
    file.write(&path).unwrap();
    assert_eq!(alone("parts", None), Outcome::Finished);

    let whole = losses(&at("whole"));
    let order = [0, 1, 2, 3, 4, 5, 6, 2, 4, 9, 10, 11];
    let found = losses(&at("parts"));
    assert_eq!(found.len(), order.len());
    for (step, (found, of)) in found.into_iter().zip(order).enumerate() {
        let expected = whole[of];
        let off = (found - expected).abs() / expected;
        assert!(off < 1e-5, "step {step}: {found} instead of {expected}");
    }
    let epochs = |metric| match metric {
        Metric::Step { epoch, .. } => Some(epoch),
        _ => None,
    };
    let epochs: Vec<u64> = metrics(&at("parts"))
        .into_iter()
        .filter_map(epochs)
        .collect();
    assert_eq!(epochs, [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1]);
    let file = ModelFile::read(&path).unwrap();
    assert!(!file.facts["checkpoint"].contains("pending"));
}

#[test]
fn ranks_that_do_not_divide_are_refused_on_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 12, 2);
    let recipe = recipe(&["distributed.groups=2"]);
    let out = folder.path().join("run");
    for report in train_on(threads::ranks(4), &recipe, &store, &out, AT_ONCE) {
        let error = report.unwrap_err().to_string();
        assert!(
            error.contains("a multiple of 2 other ranks, found 4"),
            "{error}"
        );
    }
}
