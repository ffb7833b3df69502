//! Files that open and whose data cannot be used: fatal, or left out where the user says `--skip-bad`.

mod common;

use common::{contents, path, run, simulate, squall, text};
use serde_json::Value;
use squall_data::Variable;
use std::fs;
use std::path::{Path, PathBuf};

/// A run of six days whose second file holds nonsense, the same run without that file, and the file.
fn damaged_and_without(folder: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let damaged = simulate(folder, 6, 3);
    let without = folder.join("without");
    fs::create_dir(&without).expect("created");
    let entries = fs::read_dir(&damaged).expect("a folder").flatten();
    let mut fields: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|kind| kind == "nc"))
        .collect();
    fields.sort();
    let bad = fields.remove(1);
    for file in &fields {
        let name = file.file_name().expect("a name");
        fs::copy(file, without.join(name)).expect("copied");
    }
    // Numbers that are no weather, as of a unit that is another than the file says.
    let mut file = netcdf::append(&bad).expect("opened");
    for channel in Variable::CHANNELS {
        let mut variable = file.variable_mut(channel.name()).expect("a channel");
        let mut values = variable.get_values::<f32, _>(..).expect("read");
        values.fill(1e12);
        variable.put_values(&values, ..).expect("written");
    }
    file.close().expect("closed");
    (damaged, without, bad)
}

/// Runs the program, which must refuse its input and name the file.
fn refuses(arguments: &[&str], file: &Path) {
    let output = squall().args(arguments).output().expect("it starts");
    let said = text(&output);
    let name = file.file_name().expect("a name").to_string_lossy();
    assert_eq!(output.status.code(), Some(3), "{arguments:?}:\n{said}");
    assert!(said.contains(&*name), "{arguments:?}:\n{said}");
    assert!(said.contains("hint:"), "{arguments:?}:\n{said}");
}

/// What a command says of itself with `--json`.
fn summary(arguments: &[&str]) -> Value {
    let said = run(&[arguments, &["--json", "--quiet"]].concat());
    serde_json::from_str(&said).expect("JSON")
}

#[test]
fn labels_are_those_of_the_times_that_can_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, without, file) = damaged_and_without(folder.path());
    for methods in ["deepcam", "tempest", "deepcam,bard"] {
        let at = |name: &str| folder.path().join(format!("{name}-{methods}"));
        let (strict, out, expected) = (at("strict"), at("skipped"), at("without"));
        let call = |input| ["label", path(input), "--method", methods, "--out"];
        refuses(&[&call(&damaged)[..], &[path(&strict)]].concat(), &file);
        let skips = [path(&out), "--skip-bad"];
        let said = summary(&[&call(&damaged)[..], &skips].concat());
        assert_eq!(said["skipped_times"], 8, "{said}");
        assert_eq!(said["skipped_files"], 0, "{said}");
        let said = summary(&[&call(&without)[..], &[path(&expected)]].concat());
        assert_eq!(said["skipped_times"], 0, "{said}");
        let [out, expected] = [out, expected].map(|out| contents(&out, |_| false));
        let names = |files: &[(String, Vec<u8>)]| files.iter().map(|f| f.0.clone()).collect();
        let (has, should): (Vec<String>, Vec<String>) = (names(&out), names(&expected));
        assert_eq!(has, should, "{methods}");
        for ((name, has), (_, should)) in out.iter().zip(&expected) {
            assert!(has == should, "{methods}: {name}");
        }
    }
}

#[test]
fn samples_are_the_times_that_can_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, _, file) = damaged_and_without(folder.path());
    let (truth, store) = (damaged.join("truth"), folder.path().join("store"));
    let call = ["stage", path(&damaged), "--labels", path(&truth), "--out"];
    refuses(
        &[&call[..], &[path(&folder.path().join("strict"))]].concat(),
        &file,
    );
    let call = [&call[..], &[path(&store), "--skip-bad"]].concat();
    let said = summary(&call);
    let samples = said["samples"].as_array().expect("of three splits");
    let samples: u64 = samples.iter().filter_map(Value::as_u64).sum();
    assert_eq!(samples, 16, "{said}");
    assert_eq!(said["skipped_times"], 8, "{said}");
    let before = contents(&store, |_| false);
    // The same again finds it made.
    assert_eq!(summary(&call), said);
    assert!(contents(&store, |_| false) == before);
}

#[test]
fn events_are_described_by_the_fields_that_can_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, _, file) = damaged_and_without(folder.path());
    let (truth, out) = (damaged.join("truth"), folder.path().join("events"));
    let call = ["events", path(&truth), "--fields", path(&damaged), "--out"];
    refuses(
        &[&call[..], &[path(&folder.path().join("strict"))]].concat(),
        &file,
    );
    run(&[&call[..], &[path(&out), "--skip-bad"]].concat());
    let table = fs::read_to_string(out.join("events.csv")).expect("a table");
    let mut rows = table.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let columns = rows.next().expect("columns");
    let column = |name: &str| {
        columns
            .iter()
            .position(|column| *column == name)
            .expect(name)
    };
    let (time, wind) = (column("time"), column("max_wind_m_s"));
    let rows: Vec<Vec<&str>> = rows.collect();
    let is_bad = |row: &Vec<&str>| ["2000-08-03", "2000-08-04"].contains(&&row[time][..10]);
    assert!(rows.iter().any(is_bad) && !rows.iter().all(is_bad));
    for row in &rows {
        assert_eq!(row[wind].is_empty(), is_bad(row), "{row:?}");
    }
}
