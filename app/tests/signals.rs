//! Signals of batch systems and terminals, at moments at which they ended the program like a crash.

mod common;

use common::{hangups_are_ignored, path, run, simulate, squall, stage, staged, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs the program, which gets this signal while it reads `pipe`, an empty file.
fn signalled_while_reading(arguments: &[&str], pipe: &Path, signal: &str) -> Output {
    let made = Command::new("mkfifo").arg(pipe).status();
    assert!(made.expect("mkfifo starts").success());
    let program = squall()
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // The shell opens the pipe when the program does, and closes it at its own end.
    let script = r#"exec 3>"$1"; kill -s "$2" "$3""#;
    let mut writer = Command::new("sh")
        .args(["-c", script, "sh", path(pipe), signal])
        .arg(program.id().to_string())
        .spawn()
        .expect("sh starts");
    let output = program.wait_with_output().expect("it ends");
    // It would wait for ever for a program that did not open the pipe.
    let _ = writer.kill();
    writer.wait().expect("sh ends");
    std::fs::remove_file(pipe).expect("removed");
    output
}

/// They ended with the signal until everything was opened, which takes minutes for thousands of files.
#[test]
fn a_signal_before_the_work_begins_means_run_me_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 4, 5);
    let [labels, events, pipe] =
        ["labels", "events", "empty.toml"].map(|name| folder.path().join(name));
    let calls = [
        [
            "label",
            path(&fields),
            "--out",
            path(&labels),
            "--thresholds",
        ],
        [
            "events",
            path(&labels),
            "--out",
            path(&events),
            "--tracking",
        ],
    ];
    for call in calls {
        let call = [&call[..], &[path(&pipe), "--quiet"]].concat();
        // SIGHUP and SIGXCPU ended a training without a checkpoint, too.
        for signal in ["USR1", "XCPU", "HUP"] {
            let output = signalled_while_reading(&call, &pipe, signal);
            let expected = if signal == "HUP" && hangups_are_ignored() {
                0
            } else {
                75
            };
            let said = text(&output);
            let code = output.status.code();
            assert_eq!(code, Some(expected), "{signal} to {}: {said}", call[0]);
        }
        std::fs::write(&pipe, "").expect("written");
        run(&call);
        std::fs::remove_file(&pipe).expect("removed");
    }
}

/// What reads standard output got an empty document at the normal end of a turn.
#[test]
fn a_training_whose_time_is_up_tells_programs_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (staged(folder.path(), 4, 5), folder.path().join("model"));
    let words = "--recipe small --json --quiet --set training.steps=50 --set training.batch=1 --set precision=f32 \
                 --set training.validation_samples=1 --set training.max_seconds=0.001";
    let output = squall()
        .args(["train", "--data", path(&store), "--out", path(&out)])
        .args(words.split_whitespace())
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(75), "{}", text(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(summary["outcome"], "interrupted");
    assert_eq!(summary["steps"], 1);
    assert_eq!(summary["total_steps"], 50);
    // Nothing was validated, and the file that the document named was not there.
    assert_eq!(summary["model"], Value::Null);
    assert_eq!(summary["percent_of_peak"], Value::Null);
}

/// The JSON document of a call that gets SIGUSR1 as soon as a file whose name begins with `name` is in `folder`.
fn interrupted_when_there(arguments: &[&str], folder: &Path, name: &str) -> Value {
    let mut program = squall()
        .args(arguments)
        .args(["--json", "--quiet"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let is_there = || {
        std::fs::read_dir(folder).is_ok_and(|entries| {
            let mut names = entries.flatten().map(|entry| entry.file_name());
            names.any(|found| found.to_string_lossy().starts_with(name))
        })
    };
    while !is_there() && program.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("sh")
        .args(["-c", r#"kill -s USR1 "$1""#, "sh"])
        .arg(program.id().to_string())
        .status();
    assert!(sent.expect("sh starts").success());
    let output = program.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(75), "{}", text(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// Of training alone there was a document at the end of a turn.
#[test]
fn an_inference_and_a_search_that_are_stopped_tell_programs_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    // With samples for validation, which a search needs.
    let (fields, store) = (simulate(folder.path(), 6, 1), at("store"));
    stage(&fields, &fields.join("truth"), &store, &["--block-days=1"]);
    let short = ["--set=training.steps=1", "--set=training.batch=1"];
    let train = ["train", "--recipe", "small", "--data", path(&store), "-q"];
    let model = at("model");
    run(&[&train[..], &short, &["--out", path(&model)]].concat());
    // Sixteen views of every time: it is not done before the signal comes.
    let (best, masks) = (model.join("best.safetensors"), at("masks"));
    let infer = ["infer", path(&store), "--model", path(&best), "--mirror"];
    let more = ["--roll=2,4,6,8,10,12,14", "--batch=1", "--file-per=1"];
    let call = [&infer[..], &more, &["--out", path(&masks)]].concat();
    let summary = interrupted_when_there(&call, &masks, "masks.");
    assert_eq!(summary["outcome"], "interrupted");
    assert!(summary["masks"].is_u64(), "{summary}");
    let tuned = at("tuned");
    let tune = ["tune", "--recipe", "small", "--data", path(&store)];
    let more = [
        "--vary=schedule.rate=1e-4,1e-3",
        "--set=training.steps=90000",
    ];
    let call = [&tune[..], &more, &["--out", path(&tuned)]].concat();
    let board = interrupted_when_there(&call, &tuned.join("trials/0000"), "recipe.toml");
    assert_eq!(board["outcome"], "interrupted");
    assert_eq!(board["model"], Value::Null);
    assert_eq!(board["places"][0]["score"], Value::Null);
}
