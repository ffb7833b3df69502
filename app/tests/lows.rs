//! Extratropical cyclones by sea-level pressure alone, through the program: labels, events, a page, scores.

mod common;

use common::{json, path, refuses, run, score, simulate};
use serde_json::Value;
use squall_climate::compare::Coverage;
use squall_data::Class;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The whole globe, from south to north and from west to east.
const EVERYWHERE: [(f64, f64); 2] = [(-90.0, 90.0), (0.0, 360.0)];

/// Files with the pressure of others between some latitudes and longitudes and nothing else, as the users of TRACK have.
fn pressure_alone(fields: &Path, out: &Path, [lats, lons]: [(f64, f64); 2]) {
    fs::create_dir(out).expect("created");
    for file in files_of(fields) {
        let from = netcdf::open(&file).expect("opened");
        let values = |name: &str| {
            let variable = from.variable(name).expect("a variable");
            variable.get_values::<f64, _>(..).expect("read")
        };
        let [time, lat, lon, psl] = ["time", "lat", "lon", "PSL"].map(values);
        let within = |axis: &[f64], (first, last): (f64, f64)| -> Vec<usize> {
            let inside = |at: &usize| (first..=last).contains(&axis[*at]);
            (0..axis.len()).filter(inside).collect()
        };
        let (rows, columns) = (within(&lat, lats), within(&lon, lons));
        let mut kept = Vec::new();
        for step in 0..time.len() {
            for j in &rows {
                let row = (step * lat.len() + j) * lon.len();
                kept.extend(columns.iter().map(|i| psl[row + i]));
            }
        }
        let of = |axis: &[f64], at: &[usize]| -> Vec<f64> { at.iter().map(|k| axis[*k]).collect() };
        let axes = [
            ("time", time),
            ("lat", of(&lat, &rows)),
            ("lon", of(&lon, &columns)),
        ];
        let to = out.join(file.file_name().expect("a name"));
        let mut to = netcdf::create(to).expect("created");
        for (name, values) in &axes {
            to.add_dimension(name, values.len()).expect("added");
        }
        let axes = axes.map(|(name, values)| (name, vec![name], values));
        let pressure = ("PSL", vec!["time", "lat", "lon"], kept);
        for (name, along, values) in axes.into_iter().chain([pressure]) {
            let mut made = to.add_variable::<f64>(name, &along).expect("added");
            let like = from.variable(name).expect("a variable");
            for attribute in ["units", "calendar"] {
                if let Some(found) = like.attribute(attribute) {
                    let value = found.value().expect("a value");
                    made.put_attribute(attribute, value).expect("written");
                }
            }
            made.put_values(&values, ..).expect("written");
        }
        to.close().expect("closed");
    }
}

fn files_of(fields: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(fields).expect("a folder").flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|kind| kind == "nc"))
        .collect();
    files.sort();
    files
}

fn label(fields: &Path, out: &Path, method: &str) -> Value {
    let call = ["label", path(fields), "--method", method, "--out"];
    json(&[&call[..], &[path(out), "--json", "-q"]].concat())
}

/// The rows of extratropical cyclones in a table.
fn rows(table: &Path) -> Vec<String> {
    let text = fs::read_to_string(table).expect("a table");
    let rows = text.lines().filter(|row| row.contains("extratropical"));
    rows.map(String::from).collect()
}

/// What is said beside boxes.
fn labels_json(labels: &Path) -> Value {
    let text = fs::read(labels.join("labels.json")).expect("a file");
    serde_json::from_slice(&text).expect("JSON")
}

/// In these eight days warm cores are none of the lows, so that all ways to find them agree.
#[test]
fn pressure_alone_gives_the_boxes_of_deepcam_then_events_tracks_and_a_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (fields, pressure) = (simulate(folder.path(), 8, 1), at("pressure"));
    pressure_alone(&fields, &pressure, EVERYWHERE);
    run(&["label", path(&fields), "--out", path(&at("deepcam")), "-q"]);
    let expected = rows(&at("deepcam").join("boxes.csv"));
    assert!(expected.len() > 60, "{}", expected.len());

    let (labels, map, coco) = (at("lows"), at("lows.geojson"), at("lows.json"));
    let formats = ["--boxes-geojson", path(&map), "--boxes-coco", path(&coco)];
    let call = ["label", path(&pressure), "--out", path(&labels), "--method"];
    let told = "`--method deepcam` or `--method lows` alone";
    refuses(&[&call[..], &["bard"], &formats].concat(), 2, &[told]);
    let summary = json(&[&call[..], &["lows", "--json", "-q"], &formats].concat());
    let found = &summary["methods"][0]["extratropical_cyclones"];
    assert_eq!(*found, expected.len());
    let drawn = [(&map, "features"), (&coco, "annotations")].map(|(file, list)| {
        let text = fs::read(file).expect("a file");
        let document: Value = serde_json::from_slice(&text).expect("JSON");
        document[list].as_array().map(Vec::len)
    });
    assert_eq!(drawn, [Some(expected.len()); 2]);
    assert_eq!(rows(&labels.join("boxes.csv")), expected);
    let objects = rows(&labels.join("objects.csv"));
    assert_eq!(objects.len(), expected.len());
    assert!(files_of(&labels).is_empty(), "no masks");
    let core = labels_json(&labels)["warm_core"].to_string();
    assert!(core.contains("tropical cyclones poleward"), "{core}");
    assert_eq!(labels_json(&labels)["classes"], "extratropical_cyclone");

    let events = at("events");
    let call = ["events", path(&labels), "--fields", path(&fields), "--out"];
    run(&[&call[..], &[path(&events), "-q"]].concat());
    let found = rows(&events.join("events.csv"));
    assert_eq!(found.len(), expected.len());
    let table = fs::read_to_string(events.join("events.csv")).expect("a table");
    let columns: Vec<&str> = table.lines().next().expect("a row").split(',').collect();
    for name in ["min_psl_pa", "max_wind_m_s"] {
        let place = columns.iter().position(|column| *column == name);
        let place = place.expect("the column");
        let cells = found.iter().map(|row| row.split(',').nth(place));
        for cell in cells {
            let value: f64 = cell.expect("a cell").parse().expect("a number");
            assert!(value > 0.0, "{name}");
        }
    }
    assert!(!rows(&events.join("tracks.csv")).is_empty());
    let coverage = Coverage::read(&events, None).expect("statistics");
    assert_eq!(coverage.classes, [Class::ExtratropicalCyclone]);
    assert_eq!(coverage.transport, None, "there are no rivers");
    let rules = coverage.rules;
    assert_eq!(rules["masks.contour_rise_pa"], "200.0");
    // Six degrees are less than 1.5 cells of five.
    assert_eq!(rules["extratropical_wind_deg"], "7.5");
    assert!(core.contains(&rules["masks.warm_core"]), "{rules:?}");

    // Without fields the calendar and the grid are those that the labels tell.
    let bare = at("bare");
    run(&["events", path(&labels), "--out", path(&bare), "-q"]);
    let without = Coverage::read(&bare, None).expect("statistics");
    assert_eq!(without.calendar, coverage.calendar);
    assert_eq!(without.rules["extratropical_wind_deg"], "7.5");
    let other = at("other");
    let call = ["events", path(&labels), "--calendar", "360_day", "--out"];
    refuses(
        &[&call[..], &[path(&other)]].concat(),
        3,
        &["tells its own"],
    );
    let told = json(&["inspect", path(&labels), "--json"]);
    let told = told.as_array().expect("a list").iter();
    let calendars: Vec<&str> = told.filter_map(|of| of["calendar"].as_str()).collect();
    assert_eq!(calendars, ["noleap"], "that of objects.csv");

    let (page, shown) = (at("page.html"), [path(&labels), path(&events)].join(":"));
    let report = ["report", &shown, "--fields", path(&pressure), "--out"];
    run(&[&report[..], &[path(&page), "-q"]].concat());
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("xtratropical cyclone"), "they are on it");
    let unsought = "It did not look for tropical cyclones and atmospheric rivers.";
    assert!(html.contains(unsought));
    assert!(html.contains("extratropical cyclone tracks, lows"));
    for wrong in ["0 tropical cyclone", "0 atmospheric river"] {
        assert!(!html.contains(wrong), "{wrong}");
    }
    // Tracks of other tools, of whose class the name of the file tells.
    let truth = at("extratropical_cyclone.csv");
    let of_objects: Vec<String> = (objects.iter())
        .map(|row| row.split(',').collect::<Vec<_>>())
        .map(|cells| [cells[5], cells[1], cells[2], cells[3]].join(","))
        .collect();
    let text = format!("track_id,time,lon,lat\n{}\n", of_objects.join("\n"));
    fs::write(&truth, text).expect("written");
    let scores = score(&events, &truth, &["--calendar", "noleap"]);
    assert!(scores.to_string().contains("extratropical_cyclone"));
    // Zeros of classes that the rules of the truth do not look for stood among the scores.
    let scores = score(&labels, &labels, &[]);
    for by in ["events", "tracks"] {
        let classes = scores[by]["classes"].as_array().expect("a list");
        let names: Vec<&Value> = classes.iter().map(|score| &score["class"]).collect();
        assert_eq!(names, ["extratropical_cyclone"], "{by}");
    }
    let left_out = ["tropical_cyclone", "atmospheric_river"];
    assert_eq!(scores["left_out"], serde_json::json!(left_out));
}

/// Where all files have what tells warm cores it is used and said; beside other methods it is the same.
#[test]
fn lows_stand_beside_other_methods_and_not_in_a_folder_of_theirs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 4, 1);
    let (alone, several) = (at("alone"), at("several"));
    label(&fields, &alone, "lows");
    let core = labels_json(&alone)["warm_core"].to_string();
    assert!(
        core.contains("left out, told by T200, T500"),
        "all channels are there: {core}"
    );
    let applied = labels_json(&alone)["thresholds_applied"].to_string();
    assert!(applied.contains("warm_core_fall_k"), "{applied}");
    label(&fields, &several, "lows,bard,deepcam");
    for name in ["boxes.csv", "objects.csv", "labels.json"] {
        let [one, other] = [&alone, &several.join("lows")].map(|of| fs::read(of.join(name)));
        assert_eq!(one.expect("read"), other.expect("read"), "{name}");
    }
    let agreement = fs::read_to_string(several.join("agreement.csv")).expect("a table");
    assert!(!agreement.contains("lows"), "{agreement}");
    assert!(agreement.contains("deepcam"), "{agreement}");
    label(&fields, &at("rivers"), "bard,lows");
    assert!(!at("rivers").join("agreement.csv").exists());

    for (method, out) in [("bard", &alone), ("lows", &several.join("bard"))] {
        let call = ["label", path(&fields), "--method", method, "--out"];
        let other = if method == "bard" { "lows" } else { "bard" };
        let told = format!("method was {other}, is {method}");
        refuses(&[&call[..], &[path(out)]].concat(), 2, &[&told]);
    }
    // The same again goes on to the same; other numbers do not.
    let before = fs::read(alone.join("boxes.csv")).expect("read");
    label(&fields, &alone, "lows");
    assert_eq!(fs::read(alone.join("boxes.csv")).expect("read"), before);
    let rules = at("rules.toml");
    fs::write(&rules, "[lows]\ncontour_rise_pa = 300.0\n").expect("written");
    let call = ["label", path(&fields), "--method", "lows", "--out"];
    let more = [path(&alone), "--thresholds", path(&rules)];
    let told = "contour_rise_pa was 200.0, is 300.0";
    refuses(&[&call[..], &more].concat(), 2, &[told]);
}

/// A part of the globe, of which one file is no weather.
#[test]
fn a_limited_area_and_a_bad_file_are_no_hindrance() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (fields, pressure) = (simulate(folder.path(), 8, 1), at("pressure"));
    pressure_alone(&fields, &pressure, EVERYWHERE);
    let bad = files_of(&pressure).remove(1);
    let mut file = netcdf::append(&bad).expect("opened");
    let mut variable = file.variable_mut("PSL").expect("a variable");
    let mut values = variable.get_values::<f64, _>(..).expect("read");
    values.fill(1e12);
    variable.put_values(&values, ..).expect("written");
    file.close().expect("closed");
    let labels = at("labels");
    let call = ["label", path(&pressure), "--method", "lows", "--out"];
    let name = bad.file_name().expect("a name").to_string_lossy();
    refuses(&[&call[..], &[path(&labels)]].concat(), 3, &[&*name]);
    let more = [path(&labels), "--skip-bad", "--json", "-q"];
    let summary = json(&[&call[..], &more].concat());
    assert_eq!(summary["skipped_times"], 8, "{summary}");
    let found = &summary["methods"][0]["extratropical_cyclones"];
    assert!(found.as_u64().is_some_and(|found| found > 20), "{summary}");

    let (part, of_part) = (at("part"), at("of-part"));
    pressure_alone(&fields, &part, [(0.0, 90.0), (120.0, 300.0)]);
    label(&part, &of_part, "lows");
    let whole = at("whole");
    label(&fields, &whole, "lows");
    // Lows at the edge are not closed; most are those of the whole globe.
    let [inside, all] = [&of_part, &whole].map(|labels| {
        let rows = rows(&labels.join("objects.csv")).into_iter();
        rows.map(|row| row.split(',').take(4).collect::<Vec<_>>().join(","))
            .collect::<BTreeSet<String>>()
    });
    assert!(!inside.is_empty() && inside.is_subset(&all), "{inside:?}");
}
