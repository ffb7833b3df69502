//! `validation/gpu/check.sh` on the stand-in: its commands, what it reads of their answers, and its tables.
#![cfg(feature = "cuda")]

mod common;

use common::stand_in::{stand_in, with_stand_in};
use common::{Need, lacks, path, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Steps that run on the stand-in in seconds; `operations`, `extents` and `optimizers` take minutes, `two-gpus` needs
/// `nvidia-smi`.
const STEPS: &str = "golden,speed,graphs,inference,memory,learning,profile,two-gpus";

/// Runs a script beside `check.py` that asserts.
fn holds(script: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../validation/gpu");
    let Ok(output) = Command::new("python3").arg(folder.join(script)).output() else {
        return lacks(Need::Python, "python3");
    };
    assert!(output.status.success(), "{}", text(&output));
}

/// What the script does with PyTorch's processes, with others in their place.
#[test]
fn peers_that_do_not_answer_are_given_up() {
    holds("peers_check.py");
}

#[test]
fn a_step_that_is_cut_off_tells_what_it_missed() {
    holds("steps_check.py");
}

#[test]
fn the_check_script_finds_what_it_looks_for() {
    let Some(stand_in) = stand_in() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("check");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../validation/gpu/check.sh");
    let check = |steps: &str, devices: &str| {
        let mut command = Command::new("bash");
        command
            .arg(&script)
            .args([env!("CARGO_BIN_EXE_squall"), path(&out)]);
        command.args(["--tiny", "--minutes", "30", "--only", steps]);
        with_stand_in(&mut command, &stand_in);
        command.env("SQUALL_STAND_IN_DEVICES", devices).output()
    };
    let Ok(output) = check(STEPS, "1") else {
        return lacks(Need::Bash, "bash");
    };
    let told = text(&output);
    if told.contains("python3: not found") {
        return lacks(Need::Python, "python3");
    }
    assert!(output.status.success(), "{told}");
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("written");
    let result: Value = serde_json::from_str(&read("check.json")).expect("JSON");
    let steps = result["steps"].as_array().expect("steps");
    let status = |name: &str| {
        let step = steps.iter().find(|step| step["name"] == name);
        step.expect("a step")["status"]
            .as_str()
            .expect("words")
            .to_string()
    };
    for name in STEPS.split(',').filter(|name| *name != "two-gpus") {
        assert_eq!(status(name), "passed", "{name}\n{told}");
    }
    assert_eq!(status("two-gpus"), "skipped");
    let speed = steps
        .iter()
        .find(|step| step["name"] == "speed")
        .expect("a step");
    let rows = speed["rows"].as_array().expect("rows");
    // Two networks, training and inference; one of them also with no layer in f32.
    assert_eq!(rows.len(), 6, "{speed}");
    let all_layers = rows
        .iter()
        .filter(|row| row["precision"] == "bf16, all layers");
    assert_eq!(all_layers.count(), 2, "{speed}");
    for row in rows {
        assert!(
            row["samples_per_second"].as_f64().expect("a rate") > 0.0,
            "{row}"
        );
        assert!(row["peak_mb"].as_f64().expect("a size") > 0.0, "{row}");
    }
    let page = read("check.md");
    for word in ["| golden |", "| network | batch |", "GPU 0"] {
        assert!(page.contains(word), "no `{word}` in\n{page}");
    }

    // Without a GPU it ends at once and fails.
    let output = check("golden", "0").expect("as before");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("no GPU"), "{}", text(&output));
}
