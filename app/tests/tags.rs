//! Masks that can hold one class alone, through the program.

mod common;

use common::{path, run, simulate, squall, text};
use serde_json::Value;
use std::path::Path;

/// The sides of a score and a JSON document.
fn scored(prediction: &Path, truth: &Path) -> [String; 2] {
    let sides = [
        "score",
        "--prediction",
        path(prediction),
        "--truth",
        path(truth),
        "--tag-class",
        "atmospheric_river",
    ];
    let document = run(&[&sides[..], &["--json"]].concat());
    [run(&sides), document]
}

#[test]
fn a_class_that_a_side_cannot_hold_is_not_scored() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (truth, events) = (simulate(folder.path(), 3, 3).join("truth"), at("events"));
    let make = ["events", path(&truth), "--object-id", "--quiet", "--out"];
    run(&[&make[..], &[path(&events)]].concat());
    let tags = events.join("object_id.nc");
    for (prediction, of, side) in [(&tags, &truth, "predicted"), (&truth, &tags, "true")] {
        let [said, document] = scored(prediction, of);
        let sentence =
            format!("tropical_cyclone: not scored, the {side} masks are of other classes");
        assert!(said.contains(&sentence), "{said}");
        assert!(!said.contains("tropical_cyclone: 0 hits"), "{said}");
        let scores: Value = serde_json::from_str(&document).expect("JSON");
        assert_eq!(scores["left_out"][0]["class"], "tropical_cyclone");
        for table in [&scores["pixels"]["classes"], &scores["events"]["classes"]] {
            let classes = table.as_array().expect("classes");
            let cyclones = classes.iter().any(|row| row["class"] == "tropical_cyclone");
            assert!(!classes.is_empty() && !cyclones, "{table}");
        }
    }
    // The folder is one of tables, although the exports beside them are netCDF.
    let folder = path(&events);
    let score = ["score", "--prediction", folder, "--truth", folder];
    let output = squall().args(score).output().expect("starts");
    assert!(!text(&output).contains("LABELS"), "{}", text(&output));
    // Of tags the tables do not say that there was no cyclone.
    let again = at("again");
    let make = ["events", path(&tags), "--quiet", "--out", path(&again)];
    run(&make);
    let months = std::fs::read_to_string(again.join("monthly.csv")).expect("a table");
    for row in months
        .lines()
        .filter(|row| row.contains("tropical_cyclone"))
    {
        let cells: Vec<&str> = row.split(',').collect();
        assert!(cells[5..].iter().all(|cell| cell.is_empty()), "{row}");
    }
}

#[test]
fn a_class_for_masks_that_name_their_own_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let truth = simulate(folder.path(), 3, 3).join("truth");
    let says = |masks: &Path, out: &Path, more: &[&str]| {
        let call = ["events", path(masks), "--tag-class", "tropical_cyclone"];
        let call = [&call[..], &["--out", path(out)], more].concat();
        let output = squall().args(call).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        said.contains("--tag-class has no effect")
    };
    let named = at("named");
    assert!(says(&truth, &named, &["--object-id"]));
    assert!(!says(&named.join("object_id.nc"), &at("tags"), &[]));
}
