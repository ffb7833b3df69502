//! Training learns, resumes bit for bit, and refuses what it must.

#[path = "../common/mod.rs"]
mod common;
mod goes_on;
mod normalisation;

use common::alone::{run, run_for, run_telling};
use common::learnt::losses;
use common::tensorboard::read_scalars;
use common::{CHANNELS, COLUMNS, ROWS, recipe, sample, store, store_of};
use squall_data::normalise::NormalisationMethod;
use squall_data::store::{Split, StoreMeta, StoreWriter};
use squall_data::{Calendar, LatLonGrid, Store};
use squall_jobs::train::checkpoint::newest_step;
use squall_jobs::train::{EndedEarly, TrainPlan};
use squall_jobs::{JobError, Outcome, Recipe, TrainEvent, TrainReport};
use squall_model::ModelFile;
use squall_model::parameters::NamedTensors;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Everything that must not depend on interruptions.
fn result(folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
    [
        "best.safetensors",
        "last.safetensors",
        "checkpoint.safetensors",
        "metrics.jsonl",
        "recipe.toml",
    ]
    .map(|name| (name, std::fs::read(folder.join(name)).unwrap()))
    .to_vec()
}

fn assert_same(ours: &Path, expected: &[(&'static str, Vec<u8>)], when: &str) {
    for ((name, ours), (_, expected)) in result(ours).iter().zip(expected) {
        assert!(ours == expected, "{name} differs after {when}");
    }
}

#[test]
fn training_learns() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 8, 2);
    let run_folder = folder.path().join("run");
    let recipe = recipe(&["training.steps=40", "training.validate_every_steps=20"]);
    let report = run(&recipe, &store, &run_folder).unwrap();
    assert_eq!((report.outcome, report.steps), (Outcome::Finished, 40));
    let losses = losses(&run_folder);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&losses[..5]), mean(&losses[35..]));
    assert!(last < 0.75 * first, "loss from {first} to {last}");
    let best = report.best.unwrap();
    assert!(best.scores.score() > 0.4, "{:?}", best.scores);
    assert_eq!(best.scores.samples(), 2);
}

#[test]
fn training_starts_from_the_weights_of_a_model_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let at = |name: &str| folder.path().join(name);
    run(&recipe(&["training.steps=3"]), &store, &at("first")).unwrap();
    let path = at("first").join("last.safetensors");
    let start = format!("training.start_from='{}'", path.display());
    let changes = ["seed=9", "training.steps=1", "schedule.rate=1e-9", &start];
    run(&recipe(&changes), &store, &at("second")).unwrap();
    let weights = |run: &str| ModelFile::read(&at(run).join("last.safetensors")).unwrap();
    let (first, second) = (weights("first"), weights("second"));
    for (name, (_, values)) in &first.tensors {
        let statistic = name.contains(".running_");
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
        let equal = values.iter().zip(&second.tensors[name].1).all(near);
        assert!(
            equal || statistic,
            "{name} does not start where the first run ended"
        );
    }
    let other = ["data.channels=['U850', 'TMQ', 'PSL']", &start];
    let error = run(&recipe(&other), &store, &at("third")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("its channels are TMQ, U850, PSL"), "{text}");
}

/// All that a smaller network asks for is there; what it does not ask for would be lost without a word.
#[test]
fn weights_without_a_place_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let at = |name: &str| folder.path().join(name);
    let larger = ["training.steps=1", "network.blocks=[2, 1]"];
    run(&recipe(&larger), &store, &at("larger")).unwrap();
    let path = at("larger").join("last.safetensors");
    let start = format!("training.start_from='{}'", path.display());
    let error = run(
        &recipe(&["training.steps=1", &start]),
        &store,
        &at("smaller"),
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("no place for its weights encoder.block1.unit2") && text.contains("more"),
        "{text}"
    );
    run(
        &recipe(&[&larger[..], &[&start]].concat()),
        &store,
        &at("same"),
    )
    .unwrap();
}

/// It would learn that one edge of the region borders on the other, and nothing could be inferred with it there.
#[test]
fn a_network_whose_longitude_wraps_learns_nothing_from_a_region() {
    let folder = tempfile::tempdir().unwrap();
    let degrees =
        |from: f64, count: usize| -> Vec<f64> { (0..count).map(|at| from + at as f64).collect() };
    let (region, _) = LatLonGrid::from_axes(degrees(5.0, ROWS), degrees(260.0, COLUMNS)).unwrap();
    let region = Arc::new(region);
    let meta = StoreMeta::new(Arc::clone(&region), Calendar::NoLeap, CHANNELS.to_vec());
    let mut writer = StoreWriter::create(folder.path().join("store"), meta).unwrap();
    for (index, split) in [Split::Train, Split::Train, Split::Validation]
        .into_iter()
        .enumerate()
    {
        let (mut snapshot, mask) = sample(index);
        snapshot.grid = Arc::clone(&region);
        writer.push(&snapshot, &mask, split).unwrap();
    }
    let store = Arc::new(writer.finish().unwrap());
    let still = [
        "training.steps=1",
        "data.augmentation.roll=false",
        "data.augmentation.mirror=false",
    ];
    let folder = folder.path().join("run");
    let error = run(&recipe(&still), &store, &folder).unwrap_err();
    let text = error.to_string();
    for part in ["`network.periodic_longitude`: expected false", "5.0..20.0N"] {
        assert!(text.contains(part), "`{text}` lacks `{part}`");
    }
    assert!(!text.contains("augmentation"), "{text}");
    // One after the other they had been told, the last two without the key.
    let turned = [
        "training.steps=1",
        "data.augmentation.roll=true",
        "data.augmentation.mirror=true",
    ];
    let error = run(&recipe(&turned), &store, &folder).unwrap_err();
    let JobError::Grid { settings, .. } = &error else {
        panic!("{error}");
    };
    let keys: Vec<&str> = settings.iter().map(|(key, _)| *key).collect();
    let expected = [
        "network.periodic_longitude",
        "data.augmentation.roll",
        "data.augmentation.mirror",
    ];
    assert_eq!(keys, expected);
    assert!(!folder.exists());
    let edges = [&still[..], &["network.periodic_longitude=false"]].concat();
    assert_eq!(run(&recipe(&edges), &store, &folder).unwrap().steps, 1);
}

/// Nothing is learnt, so that scores stay as they are once running statistics have settled.
#[test]
fn a_run_ends_when_validations_do_not_get_better_and_goes_on_with_more_patience() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 7, 2);
    let at = |name: &str| folder.path().join(name);
    let slow = [
        "training.steps=60",
        "training.validate_every_steps=2",
        "schedule.rate=1e-9",
    ];
    let patient = recipe(&slow);
    let impatient = recipe(&[&slow[..], &["training.patience=3"]].concat());
    let report = run(&impatient, &store, &at("early")).unwrap();
    assert_eq!(report.outcome, Outcome::Finished);
    assert_eq!(report.ended_early, Some(EndedEarly::Patience));
    assert_eq!(report.steps, report.best.as_ref().unwrap().step + 6);
    assert!(report.steps < 60, "{}", report.steps);
    let expected = result(&at("early"));
    // Again: nothing is done.
    let again = run(&impatient, &store, &at("early")).unwrap();
    assert_eq!((again.steps, again.last_loss), (report.steps, None));
    assert_eq!(again.ended_early, report.ended_early);
    assert_same(&at("early"), &expected, "another call");
    // Interrupted on the way.
    let part = run_for(5, &impatient, &store, &at("parts"));
    assert_eq!((part.outcome, part.steps), (Outcome::Interrupted, 5));
    run(&impatient, &store, &at("parts")).unwrap();
    assert_same(&at("parts"), &expected, "an interruption");
    // On to the last step, as if it had never ended.
    let whole = run(&patient, &store, &at("early")).unwrap();
    assert_eq!((whole.steps, whole.ended_early), (60, None));
    run(&patient, &store, &at("whole")).unwrap();
    assert_same(&at("early"), &result(&at("whole")), "an early end");
}

#[test]
fn a_run_ends_with_the_score_that_it_was_to_reach() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let score = |target: &str| {
        let changes = ["training.validate_every_steps=4", target];
        let report = run(&recipe(&changes), &store, &folder.path().join(target)).unwrap();
        (report.steps, report.ended_early)
    };
    let reached = score("training.target_score=1e-6");
    assert_eq!(reached, (4, Some(EndedEarly::TargetScore)));
    assert_eq!(score("training.target_score=1.0"), (12, None));
    // What ended nothing leaves no trace in the models.
    let at = |name: &str| folder.path().join(name);
    let whole = recipe(&["training.validate_every_steps=4"]);
    let mut first = None;
    let mut hear = |event: &TrainEvent| {
        if let TrainEvent::Validated { scores, .. } = event {
            first = first.or(Some(scores.score()));
        }
    };
    run_telling(&mut hear, &whole, &store, &at("whole")).unwrap();
    for name in ["best.safetensors", "last.safetensors"] {
        let bytes = |run: &str| std::fs::read(at(run).join(name)).unwrap();
        assert!(
            bytes("whole") == bytes("training.target_score=1.0"),
            "{name}"
        );
    }
    // What is exactly the target reaches it.
    let target = format!("training.target_score={:?}", first.unwrap());
    assert_eq!(score(&target), (4, Some(EndedEarly::TargetScore)));
}

/// As the keys say: where they are left out there is one of each at the end of an epoch.
#[test]
fn a_run_validates_and_saves_every_epoch_unless_told_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let text = recipe(&["training.steps=5"]).to_toml();
    let left_out = ["validate_every_steps", "checkpoint_every_steps"];
    let lines = text.lines();
    let lines = lines.filter(|line| !left_out.iter().any(|key| line.starts_with(key)));
    let recipe = Recipe::parse(&lines.collect::<Vec<_>>().join("\n"), &[]).unwrap();
    let (mut validated, mut saved) = (Vec::new(), Vec::new());
    let mut hear = |event: &TrainEvent| match event {
        TrainEvent::Started(plan) => {
            let every = (plan.validate_every_steps, plan.checkpoint_every_steps);
            assert_eq!(every, (2, 2));
        }
        TrainEvent::Validated { step, .. } => validated.push(*step),
        TrainEvent::CheckpointSaved { step, .. } => saved.push(*step),
        _ => {}
    };
    run_telling(&mut hear, &recipe, &store, &folder.path().join("run")).unwrap();
    // Four samples are two steps of two; the fifth step is the last one.
    assert_eq!((validated, saved), (vec![2, 4, 5], vec![2, 4, 5]));
}

#[test]
fn the_best_model_is_chosen_by_the_score_that_the_recipe_names() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    for best_by in ["mean_iou", "sample_mean_iou", "area_mean_iou"] {
        let key = format!("training.best_by={best_by}");
        let recipe = recipe(&["training.validate_every_steps=1", &key]);
        let mut highest = 0.0;
        let mut judge = |event: &TrainEvent| {
            if let TrainEvent::Validated { scores, best, .. } = event {
                let scores = serde_json::to_value(scores).unwrap();
                let score = scores[best_by].as_f64().unwrap();
                assert_eq!(*best, score > highest, "{best_by}");
                highest = score.max(highest);
            }
        };
        let at = folder.path().join(best_by);
        let report = run_telling(&mut judge, &recipe, &store, &at).unwrap();
        let best = report.best.unwrap().scores.score();
        assert_eq!(best.to_bits(), highest.to_bits(), "{best_by}");
    }
}

/// Nothing is learnt, so that only what is read makes a difference.
#[test]
fn fields_are_turned_for_training_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 8, 2);
    let seen = |roll: bool, mirror: bool| {
        let turns = [
            format!("data.augmentation.roll={roll}"),
            format!("data.augmentation.mirror={mirror}"),
        ];
        let changes = [
            "schedule.rate=1e-30",
            "schedule.warmup_steps=0",
            "network.batch_norm=false",
            "training.validate_every_steps=12",
            turns[0].as_str(),
            turns[1].as_str(),
        ];
        let at = folder.path().join(format!("{roll}-{mirror}"));
        let report = run(&recipe(&changes), &store, &at).unwrap();
        (losses(&at), report.best.unwrap().scores.loss())
    };
    let (as_they_are, judged) = seen(false, false);
    for (roll, mirror) in [(true, false), (false, true)] {
        let (turned, same) = seen(roll, mirror);
        assert_ne!(turned, as_they_are, "{roll} {mirror}");
        assert!((same / judged - 1.0).abs() < 1e-6, "{same} and {judged}");
    }
}

/// Trains four steps from the weights of a model file; gives the tensors of the checkpoint after every step, the plan
/// and the report.
fn four_steps(
    changes: &[&str],
    store: &Arc<Store>,
    folder: &Path,
) -> (Vec<NamedTensors>, TrainPlan, TrainReport) {
    let every_step = ["training.steps=4", "training.checkpoint_every_steps=1"];
    let recipe = recipe(&[&every_step[..], changes].concat());
    let (mut seen, mut plan) = (Vec::new(), None);
    let mut look = |event: &TrainEvent| match event {
        TrainEvent::Started(told) => plan = Some(told.clone()),
        TrainEvent::CheckpointSaved { path, .. } => {
            seen.push(ModelFile::read(path).unwrap().tensors);
        }
        _ => {}
    };
    let report = run_telling(&mut look, &recipe, store, folder).unwrap();
    assert_eq!(seen.len(), 4);
    (seen, plan.unwrap(), report)
}

/// Worked out from the weights after every step: decays are 1/10, 2/11, and then that of the recipe.
#[test]
fn model_files_hold_the_average_of_the_weights() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 8, 2);
    let at = |name: &str| folder.path().join(name);
    let tensors = |run: &str, file: &str| ModelFile::read(&at(run).join(file)).unwrap();
    run(&recipe(&["training.steps=1"]), &store, &at("start")).unwrap();
    let start = at("start").join("last.safetensors");
    let start = format!("training.start_from='{}'", start.display());
    let changes = ["training.average=0.2", &start];
    let (seen, plan, report) = four_steps(&changes, &store, &at("averaged"));
    let mut expected = tensors("start", "last.safetensors").tensors;
    for (values, decay) in seen.iter().zip([0.1, 2.0 / 11.0, 0.2, 0.2]) {
        let share = (1.0 - decay) as f32;
        for (name, (_, average)) in &mut expected {
            for (average, value) in average.iter_mut().zip(&values[name].1) {
                *average += share * (value - *average);
            }
        }
    }
    for file in ["best.safetensors", "last.safetensors"] {
        let model = tensors("averaged", file);
        assert!(model.tensors == expected, "{file}");
        assert!(model.facts["contract"].contains("average = 0.2"), "{file}");
    }

    // The network that learns is the same, and without an average it is what is judged and kept.
    let (plain_seen, plain_plan, plain_report) = four_steps(&[&start], &store, &at("plain"));
    assert_eq!(losses(&at("averaged")), losses(&at("plain")));
    let last = tensors("plain", "last.safetensors").tensors;
    for (name, values) in &last {
        assert!(seen[3][name] == *values && plain_seen[3][name] == *values);
    }
    assert!(last != expected);
    let loss = |report: &TrainReport| report.best.clone().unwrap().scores.loss();
    assert_ne!(loss(&report), loss(&plain_report));
    assert!(!plain_seen[3].keys().any(|name| name.contains("average")));
    let values: usize = expected.values().map(|(_, values)| values.len()).sum();
    let more = 4 * values as u64;
    assert_eq!(plan.memory_bytes - plain_plan.memory_bytes, more);
    // Both checkpoints have it.
    assert_eq!(plan.write_bytes - plain_plan.write_bytes, 2 * more);
    // All that lies there, but for the running statistics, which are few.
    let files = ["best", "last", "checkpoint", "checkpoint.previous"];
    let held = files.map(|file| {
        let tensors = tensors("plain", &format!("{file}.safetensors")).tensors;
        tensors
            .values()
            .map(|(_, values)| values.len())
            .sum::<usize>()
    });
    let told = plain_plan.write_bytes as f64 / (4 * held.iter().sum::<usize>()) as f64;
    assert!((0.8..=1.0).contains(&told), "{told}");
}

/// What the scripts of batch jobs take for the step of the newest checkpoint.
fn step_for_a_script(run: &Path) -> String {
    let functions = concat!(env!("CARGO_MANIFEST_DIR"), "/src/launch/functions.sh");
    let output = std::process::Command::new("bash")
        .args([
            "-c",
            ". \"$1\"; run_folder=$2; newest_step",
            "bash",
            functions,
        ])
        .arg(run)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The next checkpoint would take its place among the two that are kept, and a crash while it is written leave none.
#[test]
fn a_checkpoint_that_cannot_be_read_does_not_replace_one_that_can() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 7, 2);
    let (recipe, part) = (recipe(&[]), folder.path().join("part"));
    run_for(7, &recipe, &store, &part);
    assert_eq!(newest_step(&part), Some(7));
    assert_eq!(step_for_a_script(&part), "7");
    let newest = part.join("checkpoint.safetensors");
    let bytes = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &bytes[..bytes.len() / 2]).unwrap();
    let before = newest_step(&part).unwrap();
    assert!(before < 7, "{before}");
    // It goes on from the one before and is killed in the midst of writing the next.
    let killed = catch_unwind(AssertUnwindSafe(|| {
        let mut at_once = |event: &TrainEvent| {
            if let TrainEvent::Step { .. } = event {
                panic!("killed");
            }
        };
        run_telling(&mut at_once, &recipe, &store, &part)
    }));
    assert!(killed.is_err());
    assert!(!newest.exists() && part.join("checkpoint.damaged.safetensors").exists());
    assert_eq!(newest_step(&part), Some(before));
    run_for(1, &recipe, &store, &part);
    assert_eq!(newest_step(&part), Some(before + 1));
    let previous = ModelFile::read(&part.join("checkpoint.previous.safetensors"));
    assert!(previous.is_ok(), "the readable one is kept");
}

/// Of a value of the last tensor, when a reader that takes up one after the other has taken up all others.
#[test]
fn a_changed_value_is_found_before_anything_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let (turns, whole) = (folder.path().join("turns"), folder.path().join("whole"));
    let turn = recipe(&["training.steps=3", "training.max_seconds=1e-6"]);
    for steps in 1..=2 {
        assert_eq!(run(&turn, &store, &turns).unwrap().steps, steps);
    }
    let newest = turns.join("checkpoint.safetensors");
    let mut bytes = std::fs::read(&newest).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    assert_eq!(newest_step(&turns), Some(1));
    let to_the_end = recipe(&["training.steps=3"]);
    run(&to_the_end, &store, &turns).unwrap();
    run(&to_the_end, &store, &whole).unwrap();
    for name in ["best.safetensors", "last.safetensors"] {
        let bytes = |run: &Path| std::fs::read(run.join(name)).unwrap();
        assert!(bytes(&turns) == bytes(&whole), "{name}");
    }
    assert!(turns.join("checkpoint.damaged.safetensors").exists());
}

#[test]
fn a_time_limit_stops_like_an_interruption() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let recipe = recipe(&["training.max_seconds=1e-6"]);
    let report = run(&recipe, &store, &folder.path().join("run")).unwrap();
    assert_eq!((report.outcome, report.steps), (Outcome::Interrupted, 1));
}

/// A batch job gives every turn the time that it has left.
#[test]
fn turns_with_time_limits_end_with_the_bytes_of_a_run_without() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let (turns, whole) = (folder.path().join("turns"), folder.path().join("whole"));
    for (limit, steps) in [(1e-6, 1), (1e-7, 2), (1e-8, 3)] {
        let limit = format!("training.max_seconds={limit:?}");
        let turn = run(&recipe(&["training.steps=3", &limit]), &store, &turns).unwrap();
        assert_eq!(turn.steps, steps);
    }
    run(&recipe(&["training.steps=3"]), &store, &whole).unwrap();
    for name in ["best.safetensors", "last.safetensors", "metrics.jsonl"] {
        let bytes = |run: &Path| std::fs::read(run.join(name)).unwrap();
        assert!(bytes(&turns) == bytes(&whole), "{name}");
    }
}

#[test]
fn another_recipe_or_other_data_do_not_continue_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let (one, other) = (store(&one, 4, 1), store(&other, 5, 1));
    let run_folder = folder.path().join("run");
    run(&recipe(&["training.steps=2"]), &one, &run_folder).unwrap();
    let error = run(&recipe(&["training.steps=2", "seed=5"]), &one, &run_folder).unwrap_err();
    assert!(error.to_string().contains("`seed` was 1, is 5"), "{error}");
    let error = run(&recipe(&["training.steps=2"]), &other, &run_folder).unwrap_err();
    assert!(
        error.to_string().contains("trained on data with hash"),
        "{error}"
    );
    let wrong = recipe(&["network.channels_in=5"]);
    let error = run(&wrong, &one, &folder.path().join("new")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`network.channels_in`: expected 3"),
        "{error}"
    );
    let wrong = recipe(&["data.channels=['TMQ', 'TS']"]);
    let error = run(&wrong, &one, &folder.path().join("new")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no channel TS (it has TMQ, U850, PSL)"),
        "{error}"
    );
}

/// Other channels make another network, whose shapes fit no checkpoint: that of the data is said, and nothing is touched.
#[test]
fn a_run_that_is_refused_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let three = store(&at("three"), 4, 1);
    let two = store_of(&CHANNELS[..2], &at("two"), 4, 1);
    let (recipe, run_folder) = (recipe(&["training.steps=6"]), at("run"));
    run(&recipe, &three, &run_folder).unwrap();
    assert!(run_folder.join("checkpoint.previous.safetensors").is_file());
    let before = result(&run_folder);
    let error = run(&recipe, &two, &run_folder).unwrap_err();
    assert!(matches!(error, JobError::Resume { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("trained on data with hash"), "{said}");
    assert_same(&run_folder, &before, "a refusal");
    let finished = run(&recipe, &three, &run_folder).unwrap();
    assert_eq!((finished.outcome, finished.steps), (Outcome::Finished, 6));
}

#[test]
fn a_run_that_diverges_ends_with_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    // Without normalisation of activations a huge rate overflows within a few steps.
    let wild = recipe(&[
        "schedule.rate=1e30",
        "schedule.warmup_steps=0",
        "network.batch_norm=false",
        "optimiser.rule=sgd",
    ]);
    let error = run(&wild, &store, &folder.path().join("run")).unwrap_err();
    assert!(matches!(error, JobError::Diverged { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("was not finite in"), "{said}");
    // What to try is one advice, the program's.
    assert!(!said.contains("schedule.rate"), "{said}");
}

/// With halves so many steps may be skipped that a short run would end before it diverged.
#[test]
fn a_network_that_is_not_finite_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let rarely = [
        "schedule.warmup_steps=0",
        "network.batch_norm=false",
        "optimiser.rule=sgd",
        "training.validate_every_steps=100",
        "training.checkpoint_every_steps=100",
    ];
    let cases: [(&str, &[&str], &str); 2] = [
        (
            "loss",
            &["precision=bf16", "schedule.rate=1e30", "training.steps=5"],
            "it ends with a loss that is not finite, 4 steps skipped in a row",
        ),
        (
            "parameters",
            &[
                "schedule.rate=3e38",
                "optimiser.weight_decay=1e3",
                "training.steps=1",
            ],
            "of the network holds a value that is not finite",
        ),
    ];
    for (name, changes, words) in cases {
        let out = folder.path().join(name);
        let wild = recipe(&[&rarely[..], changes].concat());
        let error = run(&wild, &store, &out).unwrap_err();
        assert!(matches!(error, JobError::Diverged { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        for model in ["best.safetensors", "last.safetensors"] {
            assert!(!out.join(model).exists(), "{name}: {model}");
        }
    }
}

/// Its models hold the initial values, whatever their names say; neither does calling it again make it a success.
#[test]
fn a_run_that_changed_nothing_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let searching = recipe(&[
        "precision={ compute = 'f32', loss_scale = { kind = 'dynamic', initial = 1e30, growth_interval = 1 } }",
        "loss.normalisation={ sum = 1e33 }",
        "training.steps=3",
    ]);
    let out = folder.path().join("run");
    for _ in 0..2 {
        let error = run(&searching, &store, &out).unwrap_err();
        assert!(
            matches!(error, JobError::Diverged { step: 3, .. }),
            "{error}"
        );
        let said = error.to_string();
        assert!(
            said.contains("none of its 3 steps changed the network"),
            "{said}"
        );
    }
}

#[test]
fn tensorboard_shows_what_the_metrics_hold() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let run_folder = folder.path().join("run");
    run(&recipe(&["training.steps=4"]), &store, &run_folder).unwrap();
    let is_events = |path: &std::path::PathBuf| path.to_string_lossy().contains("tfevents");
    let mut files = std::fs::read_dir(&run_folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    let scalars = read_scalars(&files.find(is_events).unwrap()).unwrap();
    let of = |tag: &str| -> Vec<f32> {
        scalars
            .iter()
            .filter(|s| s.tag == tag)
            .map(|s| s.value)
            .collect()
    };
    let expected: Vec<f32> = losses(&run_folder)
        .into_iter()
        .map(|loss| loss as f32)
        .collect();
    assert_eq!(of("train/loss"), expected);
    assert_eq!(of("train/learning_rate").len(), 4);
    assert_eq!(of("validation/mean_iou").len(), 1);
}

#[test]
fn only_one_process_trains_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let run_folder = folder.path().join("run");
    let small = recipe(&["training.steps=1"]);
    let mut refused = 0;
    let mut second = |event: &TrainEvent| {
        if let TrainEvent::Step { .. } = event {
            let error = run(&small, &store, &run_folder).unwrap_err();
            refused += usize::from(matches!(error, JobError::Locked { .. }));
        }
    };
    run_telling(&mut second, &small, &store, &run_folder).unwrap();
    assert_eq!(refused, 1);
}

#[test]
fn the_model_file_holds_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 4, 1);
    let report = run(
        &recipe(&["training.steps=2"]),
        &store,
        &folder.path().join("run"),
    )
    .unwrap();
    let file = ModelFile::read(&report.model).unwrap();
    let contract = squall_jobs::Contract::of(&file.facts, &report.model).unwrap();
    assert_eq!(contract.variables(), CHANNELS);
    assert_eq!(contract.data_hash, store.data_hash());
    assert_eq!(contract.step, 2);
    assert_eq!(contract.score, report.best.map(|best| best.scores.score()));
    assert_eq!(contract.normalisation.method, NormalisationMethod::MeanStd);
    let other = recipe(&["training.steps=1", "data.normalisation=min-max"]);
    let other = run(&other, &store, &folder.path().join("other")).unwrap();
    let file = ModelFile::read(&other.model).unwrap();
    let other = squall_jobs::Contract::of(&file.facts, &other.model).unwrap();
    assert_eq!(other.normalisation.method, NormalisationMethod::MinMax);
    let recipe = Recipe::parse(&contract.recipe, &[]).unwrap();
    assert_eq!(recipe.name, "tiny");
    assert_eq!(recipe.network.channels_in, CHANNELS.len());
}
