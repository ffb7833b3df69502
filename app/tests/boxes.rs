//! Boxes through the program: written in every format, scored, staged, and on a page.

mod common;

use common::{json, path, refuses, run, score, simulate, squall, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn scored(prediction: &Path, truth: &Path) -> Value {
    score(prediction, truth, &["--calendar", "noleap"])
}

#[test]
fn a_format_of_boxes_does_not_replace_fields() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 1);
    let entries = fs::read_dir(&fields).expect("fields").flatten();
    let mut files = entries.map(|entry| entry.path());
    let is_field = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "nc");
    let file = files.find(is_field).expect("a file");
    let before = fs::read(&file).expect("read");
    let labels = folder.path().join("labels");
    let label = ["label", path(&fields), "--out", path(&labels)];
    let boxes = ["--boxes-hdf5", path(&file)];
    refuses(&[&label[..], &boxes].concat(), 2, &["would be replaced"]);
    assert_eq!(fs::read(&file).expect("read"), before);
}

#[test]
fn every_format_of_boxes_is_scored_and_staged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 1);
    let labels = at("labels");
    let (hdf5, coco, geojson) = (at("boxes.h5"), at("boxes.json"), at("boxes.geojson"));
    run(&[
        "label",
        path(&fields),
        "--out",
        path(&labels),
        "--boxes-hdf5",
        path(&hdf5),
        "--boxes-coco",
        path(&coco),
        "--boxes-geojson",
        path(&geojson),
        "-q",
    ]);
    let table = labels.join("boxes.csv");
    let rows = fs::read_to_string(&table).expect("boxes.csv");
    // A time without a box has a row without a class.
    let boxes = rows.lines().skip(1).filter(|row| !row.starts_with(','));
    let boxes = boxes.count();
    assert!(boxes > 12, "{rows}");

    // The files are of 48 x 72 cells and say so: nobody gives the grid, and both are read where the table has its
    // boxes.
    let exact = scored(&coco, &table);
    assert_eq!(exact["coverage"]["both"], 12);
    assert_eq!(exact["mean"]["coco"], 1.0, "{exact}");
    assert_eq!(exact["coverage"]["left_out"]["count"], 0);
    // Whole pixels are 3.8 x 5 degrees: boxes overlap, and are the same from file to file.
    let rounded = scored(&hdf5, &table);
    assert_eq!(rounded["mean"]["at_10"], 1.0, "{rounded}");
    assert!(
        rounded["mean"]["coco"].as_f64().is_some_and(|ap| ap < 1.0),
        "{rounded}"
    );
    assert_eq!(scored(&hdf5, &hdf5)["mean"]["coco"], 1.0);
    let events = rounded["events"]["classes"].as_array().expect("classes");
    let misses = events
        .iter()
        .map(|class| class["misses"].as_u64().unwrap_or(99));
    assert_eq!(misses.sum::<u64>(), 0, "{rounded}");

    let map: Value = serde_json::from_str(&fs::read_to_string(&geojson).expect("GeoJSON"))
        .expect("one JSON document");
    assert_eq!(map["features"].as_array().map(Vec::len), Some(boxes));

    for file in [&table, &hdf5, &coco] {
        let store = at("store");
        let said = json(&[
            "stage",
            path(&fields),
            "--labels",
            path(&labels),
            "--boxes",
            path(file),
            "--out",
            path(&store),
            "--json",
            "-q",
        ]);
        assert_eq!(said["boxed"], 12, "{}: {said}", file.display());
        assert_eq!(said["boxes"], boxes, "{}", file.display());
        fs::remove_dir_all(&store).expect("a store");
    }
}

/// A table of boxes as a network would find those of another: most of them, less sure the further they are off, and
/// noise.
fn found_by_a_network(truth: &str) -> String {
    let mut rows = String::new();
    for (k, line) in truth.lines().enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        if k == 0 {
            rows += "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n";
        } else if cells[0].is_empty() {
            rows += &format!("{line}\n");
        } else {
            let sure = if k % 4 == 0 { 0.2 } else { 0.9 };
            rows += &format!("{},{sure},\n", cells[..6].join(","));
        }
    }
    rows
}

#[test]
fn a_page_shows_sure_boxes_their_tracks_and_scores() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 2);
    let truth = fields.join("truth/boxes.csv");
    let table = fs::read_to_string(&truth).expect("the truth");
    fs::create_dir(at("detector")).expect("a folder");
    let found = at("detector/boxes.csv");
    fs::write(&found, found_by_a_network(&table)).expect("a table");
    let events = at("events");
    let call = ["events", path(&found), "--fields", path(&fields), "--out"];
    let call = [&call[..], &[path(&events)]].concat();
    let output = squall().args(&call).output().expect("squall runs");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    // Boxes have no ranks, and words of ranks were said of them.
    for words in ["are ranked", "ranks of rivers"] {
        assert!(!said.contains(words), "{said}");
    }
    let page = |boxes: &str, extra: &[&str]| {
        let out = at("page.html");
        let mut arguments = vec!["report", boxes, path(&truth), "--fields", path(&fields)];
        arguments.extend(["--out", path(&out), "-q"]);
        arguments.extend(extra);
        run(&arguments);
        fs::read_to_string(&out).expect("a page")
    };
    let unsure = (table.lines().enumerate())
        .filter(|(k, line)| k % 4 == 0 && *k > 0 && !line.starts_with(','))
        .count();
    let html = page(path(&found), &[]);
    let left_out = format!("{unsure} boxes of less than 50\u{a0}% confidence are left out.");
    assert!(html.contains(&left_out), "{left_out}");
    assert!(!page(path(&found), &["--min-confidence", "0.1"]).contains("are left out."));
    for score in [
        "Boxes of detector against truth",
        "mAP at 0.5 to 0.95",
        "AP at 0.1, extratropical cyclones",
        "POD, extratropical cyclones",
    ] {
        assert!(html.contains(score), "{score}");
    }
    // What `squall events` found out about them: winds of tracks, which boxes alone do not have.
    assert!(!html.contains("<h2>Tracks</h2>"));
    let followed = page(&format!("{}:{}", path(&found), path(&events)), &[]);
    assert!(followed.contains("Tracks, last 5 days") && followed.contains("\"confidence\":false"));
    assert!(followed.contains("id=\"tracks\""), "no section of tracks");

    let refuse = |arguments: &[&str]| {
        let output = squall().args(arguments).output().expect("squall runs");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        text(&output)
    };
    let nowhere = format!("{}:{}", path(&found), path(&at("nowhere")));
    assert!(refuse(&["report", &nowhere, "--fields", path(&fields)]).contains("no events.csv"));
    let share = [
        "report",
        path(&found),
        "--fields",
        path(&fields),
        "--min-confidence",
        "5",
    ];
    assert!(refuse(&share).contains("from 0 to 1"));
}
