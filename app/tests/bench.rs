//! Benchmarks of single operations: rows that a program can read, a peer in turn, and what is refused.

mod common;

use common::{path, run};
use serde_json::Value;
use std::fs;

const SMALL: [&str; 8] = [
    "bench", "ops", "--size", "16x24", "--repeat", "1", "--json", "-q",
];

fn rows(more: &[&str]) -> Vec<Value> {
    let told = run(&[&SMALL[..], more].concat());
    serde_json::from_str(&told).expect("a list of rows")
}

fn number(row: &Value, key: &str) -> f64 {
    let found = row[key].as_f64();
    found.unwrap_or_else(|| panic!("no number `{key}` in {row}"))
}

#[test]
fn every_operation_has_a_row_beside_its_ceiling() {
    let all = rows(&["--network", "cgnet"]);
    let has = |text: &str| {
        let mut names = all.iter().filter_map(|row| row["name"].as_str());
        assert!(names.any(|name| name.contains(text)), "no {text}");
    };
    for kind in [
        "3x3 depthwise",
        "gradient of kernel",
        "gradient of input",
        "batch norm",
        "max pool",
        "global average",
        "resize",
        "dropout",
        "cross entropy",
        "argmax",
    ] {
        has(kind);
    }
    for row in &all {
        assert!(number(row, "ours") > 0.0 && number(row, "peak_mb") > 0.0);
        assert!(number(row, "ceiling_percent") > 0.0);
        assert!(row["peer"].is_null() && row["ratio"].is_null(), "{row}");
    }
}

/// A stride in time leaves out frames of what the heads give.
#[test]
fn convolutions_of_clips_are_timed_too() {
    let heads = rows(&["--network", "detector-3d", "--only", "3x3 640 to 4,"]);
    assert_eq!(heads.len(), 3, "{heads:?}");
}

#[test]
#[cfg(unix)]
fn a_peer_is_asked_for_each_operation() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (script, asked) = (folder.path().join("peer.sh"), folder.path().join("asked"));
    let answer = r#"{"seconds": 5.0, "peak_mb": 1.0, "torch": "none", "mode": "eager"}"#;
    let lines = format!(
        "echo ready\nwhile read -r line; do echo \"$line\" >> '{}'; echo '{answer}'; done\n",
        path(&asked)
    );
    fs::write(&script, lines).expect("a script");
    let command = format!("sh {}", path(&script));
    let found = rows(&["--only", "7x7", "--precision", "bf16", "--peer", &command]);
    assert_eq!(found.len(), 3);
    for row in &found {
        assert_eq!(number(row, "peer"), 5.0);
        let ratio = 5.0 / number(row, "ours");
        assert!((number(row, "ratio") / ratio - 1.0).abs() < 1e-9, "{row}");
    }
    let asked = fs::read_to_string(&asked).expect("what was asked");
    let first: Value = serde_json::from_str(asked.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["op"], "convolution");
    assert_eq!(first["direction"], "forward");
    assert_eq!(first["x"], serde_json::json!([1, 16, 24, 16]));
    assert_eq!(first["kernel"], serde_json::json!([7, 7]));
}

#[test]
fn what_cannot_be_timed_is_refused() {
    let huge = ["bench", "ops", "--size", "768x1152", "--batch", "65535"];
    for (more, words) in [
        (&["--only", "nothing"][..], "no operation of deeplabv3plus"),
        (&["--network", "resnet"], "deeplabv3plus"),
        (&["--batch", "0"], "--batch"),
        (&["--peer", "/no/such/program"], "does not start"),
    ] {
        refuses(&[&SMALL[..], more].concat(), words);
    }
    refuses(&huge, "may have");
}

fn refuses(arguments: &[&str], words: &str) {
    common::refuses(arguments, 2, &[words]);
}
