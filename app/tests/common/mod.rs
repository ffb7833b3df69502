//! Running the program as a user does.
#![allow(dead_code, unused_imports)] // each test file uses its part

pub mod stand_in;

use serde_json::Value;
pub use squall_data::testdata::{Need, lacks, real, skipped};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program, to be given arguments.
pub fn squall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_squall"));
    command.stdin(Stdio::null()).env("RUST_BACKTRACE", "0");
    command
}

/// Whether tests run where a closed terminal does not matter, as by `nohup`: the programs that they start ignore SIGHUP.
pub fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.expect("a mask").trim(), 16);
    mask.expect("a number") & 1 != 0
}

/// What starts ranks, to be given their number and programs: `mpirun`, or what MPIRUN names.
pub fn mpirun() -> Command {
    let launcher = std::env::var("MPIRUN");
    let mut command = Command::new(launcher.as_deref().unwrap_or("mpirun"));
    command
        .stdin(Stdio::null())
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        .env("OMPI_MCA_mpi_yield_when_idle", "1")
        .env("OMPI_MCA_osc", "^ucx");
    command
}

/// Runs the program and demands success; gives standard output.
pub fn run(arguments: &[&str]) -> String {
    let output = squall()
        .args(arguments)
        .output()
        .expect("the program starts");
    assert!(
        output.status.success(),
        "squall {}: {:?}\n{}",
        arguments.join(" "),
        output.status.code(),
        text(&output)
    );
    String::from_utf8(output.stdout).expect("UTF-8 output")
}

/// As [`run`]; gives the one JSON document that the program prints.
pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&run(arguments)).expect("one JSON document")
}

/// What `squall score` says of a prediction and the truth, with more options than those.
pub fn score(prediction: &Path, truth: &Path, more: &[&str]) -> Value {
    let sides = ["--prediction", path(prediction), "--truth", path(truth)];
    json(&[&["score", "--json", "-q"][..], &sides, more].concat())
}

/// Runs the program, which must fail with `code`, say every one of `words`, and not panic.
pub fn refuses(arguments: &[&str], code: i32, words: &[&str]) {
    let output = squall().args(arguments).output();
    let output = output.expect("the program starts");
    let said = text(&output);
    let call = format!("squall {}", arguments.join(" "));
    assert_eq!(output.status.code(), Some(code), "{call}:\n{said}");
    assert!(!said.contains("panicked"), "{call}:\n{said}");
    for word in words {
        assert!(said.contains(word), "{call} does not say `{word}`:\n{said}");
    }
}

/// Everything that a run printed.
pub fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

/// A small synthetic run: 48 x 72, some days of six-hourly fields from the start of August.
pub fn simulate(folder: &Path, days: usize, seed: u64) -> PathBuf {
    let out = folder.join(format!("run{seed}"));
    let (days, seed) = (days.to_string(), seed.to_string());
    run(&[
        "simulate",
        "--out",
        path(&out),
        "--grid",
        "48x72",
        "--days",
        &days,
        "--hours",
        "6",
        "--start",
        "2000-08-01",
        "--seed",
        &seed,
        "--quiet",
    ]);
    out
}

/// Adds heights of 500 and 300 hPa to a file, 3,600 m apart everywhere: no core is warm by them.
pub fn add_level_heights(file: &Path) {
    add_heights_up_to(30_000.0, file);
}

/// As [`add_level_heights`] with another pressure, Pa, than that of 300 hPa.
pub fn add_heights_up_to(upper_pa: f64, file: &Path) {
    let mut file = netcdf::append(file).expect("opened");
    let length = |name: &str| file.dimension_len(name).expect("a dimension");
    let [times, rows, columns] = ["time", "lat", "lon"].map(length);
    file.add_dimension("plev", 2).expect("added");
    let mut levels = file.add_variable::<f64>("plev", &["plev"]).expect("added");
    levels.put_attribute("units", "Pa").expect("written");
    levels
        .put_values(&[upper_pa, 50_000.0], ..)
        .expect("written");
    let along = ["time", "plev", "lat", "lon"];
    let mut heights = file.add_variable::<f32>("zg", &along).expect("added");
    heights.put_attribute("units", "m").expect("written");
    for time in 0..times {
        for (level, height) in [9_300.0f32, 5_700.0].into_iter().enumerate() {
            let plane = vec![height; rows * columns];
            let place: [netcdf::Extent; 4] = [time.into(), level.into(), (..).into(), (..).into()];
            heights.put_values(&plane, place).expect("written");
        }
    }
    file.close().expect("closed");
}

/// Stages fields with these labels, with more options than those.
pub fn stage(fields: &Path, labels: &Path, store: &Path, more: &[&str]) {
    let call = ["stage", path(fields), "--labels", path(labels)];
    run(&[&call[..], &["--out", path(store), "--quiet"], more].concat());
}

/// The store of a small synthetic run ([`simulate`]) with the usual labels.
pub fn staged(folder: &Path, days: usize, seed: u64) -> PathBuf {
    let fields = simulate(folder, days, seed);
    let [labels, store] = ["labels", "store"].map(|name| folder.join(name));
    run(&["label", path(&fields), "--out", path(&labels), "--quiet"]);
    stage(&fields, &labels, &store, &[]);
    store
}

/// A path as an argument.
pub fn path(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Name and bytes of every file under a folder, sorted, but of locks, which say who wrote; `skip` leaves out what may
/// differ between runs.
pub fn contents(folder: &Path, skip: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        for entry in std::fs::read_dir(&current).expect("a readable folder") {
            let entry = entry.expect("a readable entry").path();
            let name = entry
                .strip_prefix(folder)
                .expect("under the folder")
                .to_string_lossy()
                .into_owned();
            if entry.is_dir() {
                folders.push(entry);
            } else if !name.ends_with(".lock") && !skip(&name) {
                found.push((name, std::fs::read(&entry).expect("a readable file")));
            }
        }
    }
    found.sort();
    found
}
