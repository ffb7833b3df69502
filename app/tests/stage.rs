//! Staging fields with boxes only, with masks only, and without either; staging again; what splits lack.

mod common;

use common::{contents, path, refuses, run, simulate, squall, stage, staged, text};
use ndarray::Array2;
use serde_json::Value;
use squall_data::archive::on_library_thread;
use squall_data::mask_file::{MaskFileOptions, MaskWriter};
use squall_data::{Archive, Calendar, ClassMask, Time};
use std::fs;
use std::path::Path;

fn label(fields: &Path, labels: &Path, more: &[&str]) {
    let call = ["label", path(fields), "--out", path(labels), "--quiet"];
    run(&[&call[..], more].concat());
}

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
    let out = folder.path().join("boxes");
    let mut begun = vec!["stage", path(&fields), "--out", path(&out)];
    begun.extend(both);
    refuses(&begun, 3, &["there already", "without a mask"]);
    let nothing = folder.path().join("nothing");
    let neither = ["stage", path(&fields), "--out", path(&nothing)];
    refuses(&neither, 2, &["--labels", "--boxes"]);
}

#[test]
fn plans_are_of_what_is_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 2, 3);
    let (truth, store) = (fields.join("truth"), folder.path().join("store"));
    let call = ["stage", path(&fields), "--labels", path(&truth), "--out"];
    let plan = || {
        let output = squall().args(call).arg(&store).output().expect("starts");
        let said = text(&output);
        let plan = said.lines().find(|line| line.contains("stage 8 samples"));
        plan.unwrap_or_else(|| panic!("{said}")).to_string()
    };
    let (first, again) = (plan(), plan());
    assert!(first.contains("16 channels: reads about 2 MB"), "{first}");
    assert!(
        again.contains("16 channels (8 are there): needs"),
        "{again}"
    );
    let mut simulate = squall();
    simulate.args(["simulate", "--grid", "48x72", "--days", "2", "--hours", "6"]);
    simulate.args(["--start", "2000-08-01", "--seed", "3", "--out"]);
    let output = simulate.arg(&fields).output().expect("starts");
    let said = text(&output);
    let plan = "simulate 8 times of 48 x 72 (present, 8 are there): needs";
    assert!(output.status.success() && said.contains(plan), "{said}");
}

/// Masks and fields had stayed those of the first call, boxes became those of the second, and all was well.
#[test]
fn a_store_of_other_labels_or_another_run_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 3);
    let other = simulate(folder.path(), 3, 4);
    let (labels, relaxed, store) = (at("labels"), at("relaxed"), at("store"));
    label(&fields, &labels, &[]);
    label(&fields, &relaxed, &["--rivers", "relaxed"]);
    stage(&fields, &labels, &store, &[]);
    let before = contents(&store, |_| false);
    assert!(before.iter().any(|(name, _)| name == "boxes.jsonl"));
    stage(&fields, &labels, &store, &[]);
    assert!(contents(&store, |_| false) == before);

    let truth = fields.join("truth");
    for (fields, labels, said) in [
        (&fields, &relaxed, "river.min_damped_tmq_kg_m2 was"),
        (&fields, &truth, "is another"),
        (&other, &labels, "has other values"),
    ] {
        let call = ["stage", path(fields), "--labels", path(labels)];
        let call = [&call[..], &["--out", path(&store)]].concat();
        let words = ["of other fields or labels", said, "hint:", "--out"];
        refuses(&call, 2, &words);
        assert!(contents(&store, |_| false) == before, "{said}");
    }

    // Shards without an index are what a killed call leaves.
    let index = store.join("store.json");
    fs::remove_file(&index).expect("it was done");
    let call = ["stage", path(&fields), "--labels", path(&relaxed)];
    let call = [&call[..], &["--out", path(&store)]].concat();
    refuses(&call, 2, &["of other fields or labels"]);
    assert!(!index.exists());
    stage(&fields, &labels, &store, &[]);
    assert!(contents(&store, |_| false) == before);

    // Labels that were made again are the same, and a store of an earlier version is compared with what it holds.
    let but_origin = |name: &str| name == "origin.json";
    let samples = contents(&store, but_origin);
    fs::remove_dir_all(&labels).expect("labels");
    label(&fields, &labels, &[]);
    stage(&fields, &labels, &store, &[]);
    assert!(contents(&store, but_origin) == samples);
    fs::remove_file(store.join("origin.json")).expect("it is remembered");
    let call = ["stage", path(&fields), "--labels", path(&truth)];
    let call = [&call[..], &["--out", path(&store)]].concat();
    refuses(&call, 2, &["of other fields or labels", "is another"]);
    assert!(contents(&store, |_| false) == samples);
    stage(&fields, &labels, &store, &[]);
    assert!(contents(&store, but_origin) == samples && store.join("origin.json").is_file());
}

#[test]
fn boxes_are_replaced_by_those_that_are_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 3, 3);
    let (labels, store) = (folder.path().join("labels"), folder.path().join("store"));
    label(&fields, &labels, &[]);
    stage(&fields, &labels, &store, &[]);
    let but_boxes = |name: &str| name == "boxes.jsonl";
    let boxes = || fs::read(store.join("boxes.jsonl")).expect("boxes");
    let (first, samples) = (boxes(), contents(&store, but_boxes));
    let truth = fields.join("truth/boxes.csv");
    stage(&fields, &labels, &store, &["--boxes", path(&truth)]);
    let second = boxes();
    assert!(first != second && contents(&store, but_boxes) == samples);
    // Those among the labels do not come back unasked.
    let call = ["stage", path(&fields), "--labels", path(&labels)];
    let call = [&call[..], &["--out", path(&store)]].concat();
    refuses(&call, 2, &["other boxes", "hint:", "--boxes"]);
    assert!(boxes() == second);
    let own = labels.join("boxes.csv");
    stage(&fields, &labels, &store, &["--boxes", path(&own)]);
    assert!(boxes() == first);
}

/// Says that the times of all files of a folder are those of another calendar.
fn rename_calendar(folder: &Path, calendar: &str) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let file = entry.expect("a readable entry").path();
        if file.extension().is_some_and(|ending| ending == "nc") {
            on_library_thread(|| -> Result<(), netcdf::Error> {
                let mut file = netcdf::append(&file)?;
                let mut time = file.variable_mut("time").ok_or("no time")?;
                time.put_attribute("calendar", calendar)?;
                file.close()
            })
            .expect("changed");
        }
    }
}

/// Writes six-hourly masks of the grid of some fields, each with a cyclone at another place.
fn draw(file: &Path, fields: &Archive, first: Time) {
    let options = MaskFileOptions::default();
    let grid = fields.grid();
    let mut writer = MaskWriter::create(file, grid, first, &options).expect("created");
    for step in 0..4 {
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| u8::from(j == 30 && i == step));
        let time = first.add_seconds(6 * 3600 * step as i64);
        let mask = ClassMask::new(time, codes).expect("a mask");
        writer.write(&mask, None).expect("written");
    }
    writer.finish().expect("written");
}

/// Two Gregorian calendars number the same day differently; masks had been compared by these numbers.
#[test]
fn masks_of_another_calendar_are_at_the_same_instants_or_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 3);
    rename_calendar(&fields, "proleptic_gregorian");
    let archive = Archive::open(path(&fields)).expect("fields");
    let first = archive.times()[0];
    let (standard, noleap) = (at("standard.nc"), at("noleap.nc"));
    for (file, calendar) in [(&standard, Calendar::Standard), (&noleap, Calendar::NoLeap)] {
        let first = first.in_calendar(calendar).expect("a day of all calendars");
        draw(file, &archive, first);
    }
    let (store, labels, other) = (at("store"), at("labels"), at("other"));
    let staged = ["stage", path(&fields), "--out", path(&store), "--json"];
    let printed = run(&[&staged[..], &["--labels", path(&standard), "--quiet"]].concat());
    let summary: Value = serde_json::from_str(&printed).expect("one JSON document");
    assert_eq!(summary["masked"], 4, "{summary}");
    // Compared with what is there, where the store cannot tell what it was made of.
    fs::remove_file(store.join("origin.json")).expect("it is remembered");
    run(&[&staged[..], &["--labels", path(&standard), "--quiet"]].concat());
    let bard = ["label", path(&fields), "--method", "bard", "--against"];
    run(&[&bard[..], &[path(&standard), "--out", path(&labels), "-q"]].concat());
    let table = fs::read_to_string(labels.join("agreement.csv")).expect("a table");
    assert!(
        table.contains("bard,against,atmospheric_river,4,"),
        "{table}"
    );

    // Of another year none is compared, which a table of noughts had not told.
    let later = at("later.nc");
    draw(&later, &archive, first.add_seconds(366 * 86_400));
    let call = [&bard[..], &[path(&later), "--out", path(&other)]].concat();
    refuses(
        &call,
        3,
        &["later.nc", "none of its 4 masks is at a time of"],
    );
    assert!(!other.exists());

    let words = ["calendar", "proleptic_gregorian", "noleap", "hint:"];
    let staged = ["stage", path(&fields), "--labels"];
    for call in [&staged[..], &bard[..]] {
        let call = [call, &[path(&noleap), "--out", path(&other)]].concat();
        refuses(&call, 3, &words);
    }
    let page = at("page.html");
    let truth = format!("truth={}", path(&noleap));
    let report = [
        "report",
        path(&standard),
        truth.as_str(),
        "--out",
        path(&page),
    ];
    refuses(&report, 3, &["calendar", "standard", "noleap", "hint:"]);
    let same = at("same.nc");
    draw(&same, &archive, first);
    let truth = format!("truth={}", path(&same));
    let report = [
        "report",
        path(&standard),
        truth.as_str(),
        "--out",
        path(&page),
    ];
    run(&[&report[..], &["--quiet"]].concat());
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("against Truth"), "{html}");
}

#[test]
fn every_split_says_what_it_has_and_what_it_lacks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 6, 3);
    let truth = fields.join("truth");
    let call = ["stage", path(&fields), "--labels", path(&truth), "--out"];
    // Two blocks of five days are for training.
    let few = folder.path().join("few");
    let output = squall().args(call).arg(&few).output().expect("starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for words in ["no sample is for validation", "--block-days", "in training"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // Of six blocks one is for another split than training: validation comes first.
    let more = folder.path().join("more");
    let more = [path(&more), "--block-days", "1", "--json", "--quiet"];
    let printed = run(&[&call[..], &more].concat());
    let summary: Value = serde_json::from_str(&printed).expect("one JSON document");
    assert_eq!(
        summary["samples"],
        serde_json::json!([20, 4, 0]),
        "{summary}"
    );
    assert_eq!(summary["guarded_times"], 0, "{summary}");
    let shares = &summary["split_class_shares"];
    assert_eq!(shares[0], summary["class_shares"], "{summary}");
    for split in [0, 1] {
        let shares = shares[split].as_array().expect("three shares");
        let all: f64 = shares.iter().filter_map(Value::as_f64).sum();
        assert!((all - 1.0).abs() < 1e-9, "{summary}");
    }
    assert!(shares[2].is_null(), "{summary}");
    // The time before and the time after the block of validation, of which one may lie outside the run.
    let apart = folder.path().join("apart");
    let apart = [path(&apart), "--block-days", "1", "--guard-hours"];
    let call = [&call[..], &apart].concat();
    let printed = run(&[&call[..], &["12", "--json", "--quiet"]].concat());
    let summary: Value = serde_json::from_str(&printed).expect("one JSON document");
    let trained = summary["samples"][0].as_u64().expect("a number");
    assert!((18..20).contains(&trained), "{summary}");
    assert_eq!(summary["samples"][1], 4, "{summary}");
    assert_eq!(summary["skipped_times"], 0, "{summary}");
    assert_eq!(summary["guarded_times"], 20 - trained, "{summary}");
    refuses(
        &[&call[..], &["1000"]].concat(),
        2,
        &["no training sample is 1000 hours"],
    );
}

/// The folder that was looked at had the name with `{node}`, which is nobody's.
#[test]
fn the_folder_of_a_node_must_not_hold_what_another_command_wrote() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("node0")).expect("created");
    fs::write(at("node0/events.csv"), "class\n").expect("written");
    let (store, local) = (at("store"), at("node{node}"));
    let call = ["stage", path(&store), "--local", path(&local)];
    refuses(&call, 2, &["node0` holds tables of `squall events`"]);
}

#[test]
fn a_node_has_a_copy_of_as_many_samples_as_it_asks_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = staged(folder.path(), 1, 3);
    let to = folder.path().join("node{node}");
    let call = ["stage", path(&store), "--local", path(&to), "--json", "-q"];
    // All four times are for training, and a single node has to have each of them.
    let three = [&call[..], &["--per-node", "3"]].concat();
    refuses(&three, 2, &["3 training samples on each of 1 nodes, of 4"]);
    let told: Value = serde_json::from_str(&run(&call)).expect("one JSON document");
    assert_eq!(told["samples_per_node"], 4, "{told}");
    let data = |store: &Path| {
        let shard = store.join("shard-00000.bin");
        fs::read(shard).expect("a shard")
    };
    assert!(data(&folder.path().join("node0")) == data(&store));
}

/// A copy has the samples and splits of its store: what asks for others had been passed over.
#[test]
fn what_makes_a_store_is_not_asked_of_a_copy() {
    let call = ["stage", "store", "--local", "node"];
    for more in [
        &["--skip-bad"][..],
        &["--train-share", "0.5"][..],
        &["--block-days", "3"][..],
        &["--guard-hours", "6"][..],
        &["--tag-class", "atmospheric_river"][..],
    ] {
        refuses(
            &[&call[..], more].concat(),
            2,
            &["cannot be used with", more[0]],
        );
    }
}
