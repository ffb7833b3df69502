//! Staging fields with boxes only, with masks only, and without either.

mod common;

use common::{path, run, simulate, squall, text};
use serde_json::Value;
use std::fs;

#[test]
fn boxes_alone_make_a_store_and_unlabelled_times_can_stay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 6, 3);
    // Boxes of the first half of the run only.
    let all = fs::read_to_string(fields.join("truth/boxes.csv")).expect("boxes of the run");
    let (header, rows) = all.split_once('\n').expect("a header");
    let known: Vec<&str> = (rows.lines())
        .filter(|row| {
            row.contains("2000-08-01") || row.contains("2000-08-02") || row.contains("2000-08-03")
        })
        .collect();
    let boxes = folder.path().join("known.csv");
    fs::write(&boxes, format!("{header}\n{}\n", known.join("\n"))).expect("written");
    let stage = |out: &str, more: &[&str]| {
        let out = folder.path().join(out);
        let call = [
            "stage",
            path(&fields),
            "--out",
            path(&out),
            "--json",
            "--quiet",
        ];
        let printed = run(&[&call[..], more].concat());
        let summary: Value = serde_json::from_str(&printed).expect("one JSON document");
        let samples = summary["samples"].as_array().expect("three numbers");
        let samples: u64 = samples.iter().filter_map(Value::as_u64).sum();
        let of = |key: &str| summary[key].as_u64().unwrap_or_default();
        [samples, of("masked"), of("boxed"), of("unlabelled")]
    };
    let (boxes, labels) = (path(&boxes), fields.join("truth"));
    let labels = path(&labels);
    assert_eq!(stage("boxes", &["--boxes", boxes]), [12, 0, 12, 12]);
    let keep = ["--boxes", boxes, "--keep-unlabelled"];
    assert_eq!(stage("keep", &keep), [24, 0, 12, 12]);
    let both = ["--labels", labels, "--boxes", boxes];
    assert_eq!(stage("both", &both), [24, 24, 12, 0]);

    // Another choice of samples does not go on with a store that was begun.
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let output = squall().args(arguments).output().expect("starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        for word in words {
            assert!(said.contains(word), "{said}");
        }
    };
    let out = folder.path().join("boxes");
    let mut begun = vec!["stage", path(&fields), "--out", path(&out)];
    begun.extend(both);
    refused(&begun, 3, &["there already", "without a mask"]);
    let nothing = folder.path().join("nothing");
    let neither = ["stage", path(&fields), "--out", path(&nothing)];
    refused(&neither, 2, &["--labels", "--boxes"]);
}
