//! Masks of others that are missing in some cells, or at whole times: unknown, not without events.

mod common;

use common::{json, path, refuses, run, score, squall, text};
use std::path::Path;

const ROWS: usize = 36;
const COLUMNS: usize = 72;
/// Where the river is.
const RIVER: (usize, usize) = (28, 41);

/// Writes six-hourly tags of one river of 3 by 3 cells. If some are `missing`: all of the second time, the eastern half
/// of the third, and one column always.
fn write(file: &Path, missing: bool) {
    let mut file = netcdf::create(file).expect("created");
    let axis = |count: usize, first: f64, step: f64| -> Vec<f64> {
        (0..count).map(|k| first + step * k as f64).collect()
    };
    for (name, units, values) in [
        ("time", "hours since 2000-08-01", axis(4, 0.0, 6.0)),
        ("lat", "degrees_north", axis(ROWS, -87.5, 5.0)),
        ("lon", "degrees_east", axis(COLUMNS, 0.0, 5.0)),
    ] {
        file.add_dimension(name, values.len()).expect("added");
        let mut axis = file.add_variable::<f64>(name, &[name]).expect("added");
        axis.put_attribute("units", units).expect("written");
        axis.put_values(&values, ..).expect("written");
    }
    let dimensions = ["time", "lat", "lon"];
    let tags = file.add_variable::<f32>("ar_binary_tag", &dimensions);
    let values: Vec<f32> = (0..4 * ROWS * COLUMNS)
        .map(|k| {
            let (time, row, column) = (k / COLUMNS / ROWS, k / COLUMNS % ROWS, k % COLUMNS);
            let is_missing = time == 1 || time == 2 && column >= COLUMNS / 2 || column == 5;
            let is_river = row.abs_diff(RIVER.0) < 2 && column.abs_diff(RIVER.1) < 2;
            match (missing && is_missing, is_river) {
                (true, _) => f32::NAN,
                (false, true) => 1.0,
                (false, false) => 0.0,
            }
        })
        .collect();
    tags.expect("added")
        .put_values(&values, ..)
        .expect("written");
    file.close().expect("closed");
}

#[test]
fn a_missing_cell_is_not_one_without_a_river() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (whole, gaps, out) = (at("whole.nc"), at("gaps.nc"), at("events"));
    write(&whole, false);
    write(&gaps, true);
    let call = ["events", path(&gaps), "--out", path(&out)];
    let words = ["2000-08-01T06:00:00", "only missing values", "--skip-bad"];
    refuses(&call, 3, &words);
    let call = [&call[..], &["--skip-bad"]].concat();
    let output = squall().args(&call).output().expect("starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    // 1 + 37 + 1 of 3 times 72 columns.
    for words in [
        "18.056 % of the cells",
        "the mask of 2000-08-01T06:00:00 has only missing values and is left out",
        "; times with only missing values: 1",
    ] {
        assert!(said.contains(words), "{said}");
    }
    // Before, that time stood for all of its file, of which the others are read.
    assert!(!said.contains("so is all of its file"), "{said}");
    let file = netcdf::open(out.join("statistics.nc")).expect("opened");
    let frequency = file.variable("frequency").expect("a variable");
    let frequency: Vec<f64> = frequency.get_values(..).expect("read");
    let of_river = |row: usize, column: usize| frequency[(ROWS + row) * COLUMNS + column];
    assert_eq!(of_river(RIVER.0, RIVER.1), 1.0);
    assert_eq!(of_river(0, RIVER.1), 0.0);
    assert!((0..ROWS).all(|row| of_river(row, 5).is_nan()));
    let summary = json(&[&call[..], &["--json"]].concat());
    let counts = ["times", "unread_times"].map(|name| summary[name].as_u64());
    assert_eq!(counts, [Some(3), Some(1)], "{summary}");
    assert_eq!(summary["times_without_mask"], 1);
    let share = summary["missing_share"].as_f64().expect("a number");
    assert!((share - 39.0 / 216.0).abs() < 1e-12, "{share}");

    for (prediction, truth) in [(&gaps, &whole), (&whole, &gaps)] {
        let scores = score(prediction, truth, &[]);
        assert_eq!(scores["pixels"]["samples"], 3);
        assert_eq!(scores["pixels"]["mean_iou"], 1.0);
        assert_eq!(scores["times_without_mask"], 1);
        let share = scores["missing_share"].as_f64().expect("a number");
        assert!((share - 39.0 / 216.0).abs() < 1e-12, "{share}");
        let rivers = &scores["events"]["classes"][0];
        let counts = ["hits", "misses", "false_alarms"].map(|name| rivers[name].as_u64());
        assert_eq!(counts, [Some(2), Some(0), Some(0)], "{rivers}");
        let sides = ["--prediction", path(prediction), "--truth", path(truth)];
        let output = squall().arg("score").args(sides).output().expect("starts");
        let said = text(&output);
        for words in ["1 time at which a side has only", "18.056 % of the cells"] {
            assert!(said.contains(words), "{said}");
        }
    }
}

/// Before, the river that the table lists in the half that the other side lacks counted as false or missed.
#[test]
fn events_listed_in_missing_cells_are_neither_scored_nor_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (listed, gaps, out) = (at("listed"), at("gaps.nc"), at("events"));
    std::fs::create_dir(&listed).expect("created");
    write(&listed.join("whole.nc"), false);
    write(&gaps, true);
    run(&["events", path(&listed), "--out", path(&out), "-q"]);
    let table = std::fs::read_to_string(out.join("events.csv")).expect("a table");
    assert_eq!(table.lines().count(), 1 + 4, "{table}");
    std::fs::write(listed.join("events.csv"), table).expect("written");
    for (prediction, truth) in [(&gaps, &listed), (&listed, &gaps)] {
        let rivers = score(prediction, truth, &[])["events"]["classes"][0].clone();
        let counts = ["hits", "misses", "false_alarms"].map(|name| rivers[name].as_u64());
        assert_eq!(counts, [Some(2), Some(0), Some(0)], "{rivers}");
        let sides = ["--prediction", path(prediction), "--truth", path(truth)];
        let output = squall().arg("score").args(sides).output().expect("starts");
        let said = text(&output);
        assert!(said.contains("at 3 times with missing cells"), "{said}");
    }

    // Nor are missing cells compared on the page.
    let page = at("page.html");
    let (other, truth) = (path(&listed), path(&gaps));
    let (other, truth) = (format!("other={other}"), format!("truth={truth}"));
    run(&["report", &other, &truth, "--out", path(&page), "-q"]);
    let html = std::fs::read_to_string(&page).expect("a page");
    for words in [
        "<b>1.00</b><span>IoU of atmospheric river areas",
        "missing: 18\u{a0}% of the truth.",
        // Of all cells, and of those in the 71 columns that are known at any time.
        "Other 0.33\u{a0}%, Truth 0.34\u{a0}%",
        "18.056 % of the cells are missing on one side",
        "1 time at which a side has only missing values",
    ] {
        assert!(html.contains(words), "{words}");
    }
}
