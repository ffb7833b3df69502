//! Runs that are killed or stopped end with the bytes of those that are not.

use super::common::alone::{run, run_for, run_telling};
use super::common::learnt::{as_by_rules, as_of_an_earlier_version, losses};
use super::common::{recipe, store};
use super::{assert_same, result};
use squall_jobs::{Contract, JobError, Outcome, Recipe, TrainEvent};
use squall_model::ModelFile;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs that are killed after a step, a validation or a checkpoint: there is a validation after 4, 8, 12 and a
/// checkpoint after 3, 6, 9, 12.
fn killed(recipe: &Recipe, kills: &[(&str, u64)]) {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 7, 2);
    let whole = folder.path().join("whole");
    run(recipe, &store, &whole).unwrap();
    let expected = result(&whole);
    // A panic in the middle drops everything as it is, like a kill: nothing is saved on the way out.
    std::panic::set_hook(Box::new(|_| {}));
    for &kill in kills {
        let part = folder.path().join(format!("killed{kill:?}"));
        let mut killer = |event: &TrainEvent| {
            let now = match event {
                TrainEvent::Step { step, .. } => ("step", *step),
                TrainEvent::Validated { step, .. } => ("validation", *step),
                TrainEvent::CheckpointSaved { step, .. } => ("checkpoint", *step),
                _ => ("start", 0),
            };
            assert!(now != kill, "killed");
        };
        let killed = AssertUnwindSafe(|| run_telling(&mut killer, recipe, &store, &part));
        assert!(catch_unwind(killed).is_err());
        let report = run(recipe, &store, &part).unwrap();
        assert_eq!(report.steps, 12);
        assert_same(&part, &expected, &format!("a kill after {kill:?}"));
    }
    let _ = std::panic::take_hook();
}

#[test]
fn killed_anywhere_it_ends_with_the_same_bytes() {
    let kills = [
        ("step", 1),
        ("step", 4),
        ("step", 5),
        ("step", 11),
        ("validation", 8),
        ("checkpoint", 6),
        ("validation", 12),
        ("checkpoint", 12),
    ];
    killed(&recipe(&[]), &kills);
}

#[test]
fn killed_with_an_average_it_ends_with_the_same_bytes() {
    let kills = [("step", 5), ("validation", 8), ("checkpoint", 9)];
    killed(&recipe(&["training.average=0.8"]), &kills);
}

/// The validation that a stop left to the next part is done twice if that is killed before it saves, and told once.
#[test]
fn killed_after_a_validation_that_was_left_it_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 7, 2);
    let recipe = recipe(&[]);
    let [whole, part] = ["whole", "part"].map(|name| folder.path().join(name));
    run(&recipe, &store, &whole).unwrap();
    // Step 4 is followed by a validation, which the flag then interrupts.
    run_for(4, &recipe, &store, &part);
    let mut killer = |event: &TrainEvent| {
        let left = matches!(event, TrainEvent::Validated { step: 4, .. });
        assert!(!left, "killed");
    };
    let killed = AssertUnwindSafe(|| run_telling(&mut killer, &recipe, &store, &part));
    assert!(catch_unwind(killed).is_err());
    run(&recipe, &store, &part).unwrap();
    assert_same(&part, &result(&whole), "a kill after a validation left");
}

#[test]
fn told_to_stop_it_saves_and_goes_on() {
    stopped_every_two_steps(&recipe(&[]));
}

/// Gradients wait beside the average, and LARC finds other norms after every exchange with it.
#[test]
fn told_to_stop_with_an_average_it_goes_on_with_the_same_bytes() {
    stopped_every_two_steps(&recipe(&[
        "training.average=0.8",
        "distributed.gradient_lag=1",
        "optimiser.larc={}",
    ]));
}

fn stopped_every_two_steps(recipe: &Recipe) {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 7, 2);
    let whole = folder.path().join("whole");
    run(recipe, &store, &whole).unwrap();
    let part = folder.path().join("part");
    let (mut parts, mut new_steps) = (0, 0);
    loop {
        // Step 4 of the run is followed by a validation, which the flag then interrupts.
        let report = run_for(2, recipe, &store, &part);
        parts += 1;
        new_steps += report.new_steps;
        assert_eq!((new_steps, report.total_steps), (report.steps, 12));
        if report.outcome == Outcome::Finished {
            break;
        }
        assert!(part.join("checkpoint.safetensors").exists());
        assert!(parts < 20, "it does not advance");
    }
    assert!(parts >= 6, "only {parts} parts");
    assert_same(&part, &result(&whole), "stops every two steps");
    // A finished run is left as it is.
    let again = run(recipe, &store, &part).unwrap();
    assert_eq!(
        (again.outcome, again.steps, again.new_steps, again.last_loss),
        (Outcome::Finished, 12, 0, None)
    );
    assert_same(&part, &result(&whole), "one call too many");
}

/// A step is whole or not there: with a lag its gradients wait with the statistics of all its batches.
#[test]
fn steps_of_several_batches_go_on_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 7, 2);
    for lag in ["distributed.gradient_lag=0", "distributed.gradient_lag=1"] {
        let two = ["training.batch=1", "training.accumulate=2", lag];
        let recipe_of_two = recipe(&two);
        let at = |name: &str| folder.path().join(format!("{name}, {lag}"));
        let mut plan = None;
        let mut planned = |event: &TrainEvent| {
            if let TrainEvent::Started(told) = event {
                plan = Some(told.clone());
            }
        };
        run_telling(&mut planned, &recipe_of_two, &store, &at("whole")).unwrap();
        let plan = plan.unwrap();
        // Three steps of two samples, of seven samples.
        assert_eq!((plan.steps_per_epoch, plan.total_steps), (3, 12));
        let report = run_for(5, &recipe_of_two, &store, &at("part"));
        assert_eq!((report.outcome, report.steps), (Outcome::Interrupted, 5));
        // Other steps are another run.
        let refused = run(&recipe(&["training.batch=1", lag]), &store, &at("part")).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("`training.accumulate` was 2"), "{text}");
        run(&recipe_of_two, &store, &at("part")).unwrap();
        assert_same(&at("part"), &result(&at("whole")), lag);
        // Earlier versions moved the running statistics twice a step.
        run_for(5, &recipe_of_two, &store, &at("older"));
        as_of_an_earlier_version(&at("older"));
        let refused = run(&recipe_of_two, &store, &at("older")).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("each of the 2 batches of a step"), "{text}");
        // As many samples at once are learnt from otherwise: batch normalisation sees them together.
        let once = ["training.batch=2", lag];
        let mut planned = |event: &TrainEvent| {
            if let TrainEvent::Started(told) = event {
                assert_eq!(told.step_flops, plan.step_flops);
                assert_eq!(told.read_bytes, plan.read_bytes);
                assert_eq!(told.steps_per_epoch, plan.steps_per_epoch);
                assert!(told.memory_bytes > plan.memory_bytes);
            }
        };
        run_telling(&mut planned, &recipe(&once), &store, &at("once")).unwrap();
        assert!(losses(&at("once")) != losses(&at("whole")));
    }
}

/// Earlier versions left samples out of every epoch that fill no step. Where they fill steps, nothing has changed.
#[test]
fn a_run_of_an_earlier_version_goes_on_where_its_epochs_are_whole_steps() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(&[]);
    for samples in [7, 8] {
        let at = |name: &str| folder.path().join(format!("{name} of {samples}"));
        let store = store(&at("store"), samples, 2);
        run(&recipe, &store, &at("whole")).unwrap();
        run_for(5, &recipe, &store, &at("part"));
        as_of_an_earlier_version(&at("part"));
        let answer = run(&recipe, &store, &at("part"));
        if samples == 8 {
            answer.unwrap();
            assert_same(&at("part"), &result(&at("whole")), "an earlier version");
        } else {
            let text = answer.unwrap_err().to_string();
            let words = "left out 1 of 7 samples";
            assert!(text.contains(words), "{text}");
        }
        // What is done is done by any rules.
        as_of_an_earlier_version(&at("whole"));
        let report = run(&recipe, &store, &at("whole")).unwrap();
        assert_eq!((report.outcome, report.steps), (Outcome::Finished, 12));
    }
}

/// A run may be continued by another build; which ones trained it is known afterwards.
#[test]
fn builds_that_trained_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 8, 2);
    let part = folder.path().join("part");
    let path = part.join("run.json");
    let read =
        || -> serde_json::Value { serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap() };
    run_for(3, &recipe(&[]), &store, &part);
    let this = squall_jobs::code::version();
    assert_eq!(read()["builds"], serde_json::json!([this]));
    // As of a version that recorded only the program of the last call.
    let mut facts = read();
    facts["code_version"] = "another".into();
    facts.as_object_mut().unwrap().remove("builds");
    std::fs::write(&path, facts.to_string()).unwrap();
    for _ in 0..2 {
        run_for(3, &recipe(&[]), &store, &part);
        assert_eq!(read()["builds"], serde_json::json!(["another", this]));
        assert_eq!(read()["code_version"], this);
    }
    // A program with nothing left to do trains nothing.
    run(&recipe(&[]), &store, &part).unwrap();
    let mut facts = read();
    facts["builds"] = serde_json::json!(["another"]);
    std::fs::write(&path, facts.to_string()).unwrap();
    run(&recipe(&[]), &store, &part).unwrap();
    assert_eq!(read()["builds"], serde_json::json!(["another"]));
    let model = ModelFile::read(&part.join("last.safetensors")).unwrap();
    let contract = Contract::of(&model.facts, &part).unwrap();
    assert_eq!(contract.code_version, this);
    // Nor does one that comes after an early end.
    let (early, at) = (
        recipe(&["training.target_score=1e-6"]),
        folder.path().join("early"),
    );
    assert!(run(&early, &store, &at).unwrap().steps < 12);
    let path = at.join("run.json");
    let told = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, told.replace(&this, "another")).unwrap();
    run(&early, &store, &at).unwrap();
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(told["builds"], serde_json::json!(["another"]));
}

/// Sums over other numbers of threads round differently, and only the last number was known.
#[test]
fn numbers_of_threads_that_trained_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 8, 2);
    let part = folder.path().join("part");
    let path = part.join("run.json");
    let read =
        || -> serde_json::Value { serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap() };
    run_for(3, &recipe(&[]), &store, &part);
    let mut facts = read();
    let this = facts["threads"].clone();
    assert_eq!(facts["all_threads"], serde_json::json!([this]));
    // As of a version that recorded only those of the last call.
    facts["threads"] = 9999.into();
    facts.as_object_mut().unwrap().remove("all_threads");
    std::fs::write(&path, facts.to_string()).unwrap();
    for _ in 0..2 {
        run_for(3, &recipe(&[]), &store, &part);
        assert_eq!(read()["all_threads"], serde_json::json!([9999, this]));
        assert_eq!(read()["threads"], this);
    }
}

const LARC: &str = "optimiser.larc={}";
const DECAY: &str = "optimiser.weight_decay=0.1";

/// Earlier versions added weight decay beside what LARC scales; AdamW's decay is still there.
#[test]
fn a_run_of_an_earlier_version_goes_on_where_larc_scales_no_decay() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("store"), 8, 2);
    let cases: [(&str, &[&str], bool); 5] = [
        ("adam", &[LARC, DECAY], true),
        ("sgd", &[LARC, DECAY], true),
        ("adamw", &[LARC, DECAY], false),
        ("adam", &[LARC], false),
        ("adam", &[DECAY], false),
    ];
    for (rule, changes, refused) in cases {
        let rule = format!("optimiser.rule={rule}");
        let recipe = recipe(&[&[rule.as_str()][..], changes].concat());
        let part = folder.path().join(format!("{rule}, {changes:?}"));
        run_for(5, &recipe, &store, &part);
        as_by_rules(Some(1), &part);
        let answer = run(&recipe, &store, &part);
        if refused {
            let text = answer.unwrap_err().to_string();
            assert!(text.contains("LARC left weight decay"), "{text}");
        } else {
            answer.unwrap();
        }
    }
}

/// Where checkpoints were deleted, another store or another model to start from replaced the model without a refusal.
#[test]
fn a_model_without_checkpoints_is_not_replaced_from_another_start_or_other_data() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (one, other) = (store(&at("one"), 4, 1), store(&at("other"), 5, 1));
    run(&recipe(&["training.steps=2"]), &one, &at("begun")).unwrap();
    let start = format!(
        "training.start_from='{}'",
        at("begun/best.safetensors").display()
    );
    let (from_model, run_folder) = (recipe(&["training.steps=2", &start]), at("run"));
    run(&from_model, &one, &run_folder).unwrap();
    for name in ["checkpoint.safetensors", "checkpoint.previous.safetensors"] {
        let path = run_folder.join(name);
        if path.exists() {
            std::fs::remove_file(path).unwrap();
        }
    }
    let model = || std::fs::read(run_folder.join("best.safetensors")).unwrap();
    let before = model();
    let from_nothing = recipe(&["training.steps=2"]);
    let cases = [
        (&from_nothing, &one, "`training.start_from` was "),
        (&from_model, &other, "the data had hash "),
    ];
    for (recipe, store, words) in cases {
        let error = run(recipe, store, &run_folder).unwrap_err();
        assert!(matches!(error, JobError::Resume { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(model() == before, "{words}");
    }
    // The same from the same begins anew, and comes to the same model.
    run(&from_model, &one, &run_folder).unwrap();
    assert!(model() == before);
}
