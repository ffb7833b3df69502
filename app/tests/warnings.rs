//! Commands warn of what they use.

mod common;

use common::{path, refuses, run, simulate, squall, stage, text};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Gives a channel a unit that it cannot have: ZBOT is then computed, PS is not there.
fn spoil(channel: &str, unit: &str, fields: &Path) {
    let entries = std::fs::read_dir(fields).expect("readable");
    for file in entries.map(|entry| entry.expect("an entry").path()) {
        if file.extension().is_some_and(|e| e == "nc") {
            let mut file = netcdf::append(&file).expect("opened");
            let mut variable = file.variable_mut(channel).expect("the channel");
            variable.put_attribute("units", unit).expect("written");
        }
    }
}

#[test]
fn channels_that_nobody_uses_are_no_reason_to_warn() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 3);
    spoil("ZBOT", "K", &fields);
    let says = |call: &[&str]| {
        let output = squall().args(call).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        said.contains("ZBOT is computed") || said.contains("`ZBOT` cannot serve")
    };
    assert!(says(&["inspect", path(&fields)]));
    let (labels, events) = (at("labels"), at("events"));
    for method in ["deepcam", "tempest"] {
        let out = at(method);
        let label = ["label", path(&fields), "--method", method, "--out"];
        assert!(!says(&[&label[..], &[path(&out)]].concat()), "{method}");
    }
    assert!(!says(&["label", path(&fields), "--out", path(&labels)]));
    let call = ["events", path(&labels), "--fields", path(&fields), "--out"];
    assert!(!says(&[&call[..], &[path(&events)]].concat()));
    let store = at("store");
    let stage = ["stage", path(&fields), "--labels", path(&labels), "--out"];
    assert!(says(&[&stage[..], &[path(&store)]].concat()));
}

/// Serves the wind of the lowest level as that at 10 m: UBOT is then read from `u10`.
fn lift_wind(fields: &Path) {
    let entries = std::fs::read_dir(fields).expect("readable");
    for file in entries.map(|entry| entry.expect("an entry").path()) {
        if file.extension().is_some_and(|e| e == "nc") {
            let mut file = netcdf::append(&file).expect("opened");
            let wind = file.variable("UBOT").expect("the channel");
            let values: Vec<f32> = wind.get_values(..).expect("read");
            let along = ["time", "lat", "lon"];
            let mut other = file.add_variable::<f32>("u10", &along).expect("added");
            other.put_attribute("units", "m s-1").expect("written");
            other.put_values(&values, ..).expect("written");
            file.close().expect("closed");
        }
    }
    spoil("UBOT", "K", fields);
}

/// A network that learnt from 10 m wind ran on the wind of the lowest level without a word, and from heights that were
/// computed on those of files.
#[test]
fn channels_of_other_sources_than_in_training_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (fields, learnt) = (simulate(folder.path(), 1, 2), simulate(folder.path(), 3, 1));
    lift_wind(&learnt);
    spoil("ZBOT", "K", &learnt);
    let (store, truth) = (at("store"), learnt.join("truth"));
    stage(&learnt, &truth, &store, &["--block-days=1"]);
    let train = |out: &str| {
        let out = at(out);
        let call = ["train", "--recipe=small", "--data", path(&store), "-q"];
        let short = ["--set=training.steps=1", "--set=network.width=0.1"];
        run(&[&call[..], &["--out", path(&out)], &short[..]].concat());
        out.join("last.safetensors")
    };
    let warns = |model: &Path, input: &Path, out: &str| {
        let call = ["infer", path(input), "--model", path(model), "--out"];
        let output = squall().args(call).arg(at(out)).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let lines = said
            .lines()
            .filter(|line| line.contains("in training; here"));
        lines.map(str::to_string).collect::<Vec<_>>()
    };
    let model = train("model");
    let wind = "UBOT was `u10` (10 m wind instead of the lowest model level) in training; here it is `UBOT`";
    let height = "ZBOT was computed in training; here it is `ZBOT`";
    let told = warns(&model, &fields, "masks");
    assert!(
        told.len() == 2 && told[0].contains(wind) && told[1].contains(height),
        "{told:?}"
    );
    assert!(warns(&model, &learnt, "same").is_empty());
    assert!(warns(&model, &store, "stored").is_empty());
    let shown = run(&["model", "show", path(&model)]);
    let rows = "training\n  UBOT     `u10` (10 m wind instead of the lowest model level)\n  ZBOT     computed\n";
    assert!(shown.contains(rows), "{shown}");

    // A store of an earlier version tells no sources.
    let index = store.join("store.json");
    let told = std::fs::read(&index).expect("a store");
    let mut told: Value = serde_json::from_slice(&told).expect("JSON");
    let sources = told.as_object_mut().and_then(|all| all.remove("sources"));
    assert_eq!(sources.expect("known")["UBOT"][0]["variable"], "u10");
    std::fs::write(&index, told.to_string()).expect("written");
    let old = train("old");
    assert!(warns(&old, &fields, "unknown").is_empty());
    assert!(warns(&model, &store, "untold").is_empty());
    assert!(!run(&["model", "show", path(&old)]).contains("served as a channel"));
    // Staging again makes it known.
    stage(&learnt, &truth, &store, &["--block-days=1"]);
    let staged = std::fs::read_to_string(&index).expect("a store");
    assert!(staged.contains("\"sources\""));
}

/// By index, masks had been put upside down on fields from north to south, and nothing said so.
#[test]
fn masks_whose_axes_are_not_those_of_the_fields_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 3);
    let says = |out: &str| {
        let out = folder.path().join(out);
        let call = ["label", path(&fields), "--out", path(&out)];
        let output = squall().args(call).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        said.contains("the fields from north to south: put them together by their coordinates")
    };
    assert!(!says("before"));
    for file in std::fs::read_dir(&fields).expect("readable") {
        let file = file.expect("an entry").path();
        if file.extension().is_some_and(|e| e == "nc") {
            let mut file = netcdf::append(&file).expect("opened");
            let mut lat = file.variable_mut("lat").expect("an axis");
            let mut values = lat.get_values::<f64, _>(..).expect("read");
            values.reverse();
            lat.put_values(&values, ..).expect("written");
        }
    }
    assert!(says("after"));
}

/// Vapour transport over levels ends at the ground, or below it where PS cannot be read.
#[test]
fn surface_pressure_is_of_use_where_transport_is_summed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 3);
    spoil("PS", "K", &fields);
    for (method, is_said) in [
        ("deepcam", false),
        ("tempest", true),
        ("percentile", true),
        ("bard", true),
    ] {
        let out = folder.path().join(method);
        let call = ["label", path(&fields), "--method", method, "--out"];
        let output = squall().args(call).arg(&out).output().expect("starts");
        let said = text(&output);
        assert_eq!(
            said.contains("`PS` cannot serve as PS"),
            is_said,
            "{method}: {said}"
        );
    }
}

/// Files such as MERRA-2's leave levels below the ground blank, and in nearly every low 1000 hPa are there: no cyclone was
/// found in them.
#[test]
fn heights_that_are_blank_below_the_ground_hide_no_cyclones() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 12, 3);
    let cyclones = |method: &str, out: &str| {
        let call = ["label", path(&fields), "--method", method, "--out"];
        let out = folder.path().join(out);
        let output = squall().args(call).arg(&out).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let table = std::fs::read_to_string(out.join("objects.csv")).expect("a table");
        let rows = table.lines().filter(|row| row.contains("tropical_cyclone"));
        let centres: Vec<String> = rows
            .map(|row| row.split(',').take(4).collect::<Vec<_>>().join(","))
            .collect();
        let is_told = said.contains("Z1000 is blank in places, as below the ground");
        (centres, is_told)
    };
    let (whole, is_told) = cyclones("deepcam", "whole");
    assert!(!whole.is_empty() && !is_told);
    for file in std::fs::read_dir(&fields).expect("readable").flatten() {
        if file.path().extension().is_some_and(|e| e == "nc") {
            let mut file = netcdf::append(file.path()).expect("opened");
            let ps = file.variable("PS").expect("PS");
            let ps: Vec<f32> = ps.get_values(..).expect("read");
            let mut height = file.variable_mut("Z1000").expect("Z1000");
            let mut values: Vec<f32> = height.get_values(..).expect("read");
            for (value, ps) in values.iter_mut().zip(ps) {
                if ps < 100_000.0 {
                    *value = f32::NAN;
                }
            }
            height.put_values(&values, ..).expect("written");
            file.close().expect("closed");
        }
    }
    assert_eq!(cyclones("deepcam", "blank"), (whole, true));
    // Rivers need no heights.
    assert!(!cyclones("bard", "rivers").1);
    // A network gets what is computed: who uses it hears of it as well.
    let [store, trained, masks] =
        ["store", "trained", "masks"].map(|name| folder.path().join(name));
    stage(&fields, &fields.join("truth"), &store, &["--block-days=1"]);
    let train = ["train", "--recipe=small", "--data", path(&store), "--out"];
    let short = ["--set=training.steps=1", "--set=training.batch=1"];
    let short = [&short[..], &["--set=schedule.warmup_steps=0", "--quiet"]].concat();
    run(&[&train[..], &[path(&trained)], &short[..]].concat());
    let model = trained.join("best.safetensors");
    let infer = ["infer", path(&fields), "--model", path(&model), "--out"];
    let output = squall().args(infer).arg(&masks).output().expect("starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Z1000 is blank in places"), "{said}");
}

/// The rules of DeepCAM take the northward wind with its sign, so that they draw other cyclones in a mirrored field.
#[test]
fn masks_that_cannot_be_mirrored_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    // As above: there are cyclones in it.
    let fields = simulate(folder.path(), 12, 3);
    let labels = at("labels");
    run(&["label", path(&fields), "--out", path(&labels), "--quiet"]);
    let single = ["--block-days", "0", "--train-share", "0.9"];
    stage(&fields, &labels, &at("ruled"), &single);
    stage(&fields, &fields.join("truth"), &at("true"), &single);
    let warns = |store: &str, mirror: bool| {
        let mut train = squall();
        train.args(["train", "--recipe", "small", "--data", path(&at(store))]);
        train.args(["--out", path(&at(&format!("{store}-{mirror}")))]);
        let mirror = format!("data.augmentation.mirror={mirror}");
        for setting in ["training.steps=1", "network.width=0.1", mirror.as_str()] {
            train.args(["--set", setting]);
        }
        let output = train.output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        said.contains("deepcam drew the masks")
    };
    assert!(warns("ruled", true));
    assert!(!warns("ruled", false));
    // Nobody says what drew these.
    assert!(!warns("true", true));
}

/// The rate of 0 after the end of a cosine looks like any other in a log that nobody reads.
#[test]
fn steps_that_change_nothing_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 1);
    let store = at("store");
    let truth = fields.join("truth");
    stage(&fields, &truth, &store, &["--block-days", "1"]);
    let said = |name: &str, settings: &[&str]| {
        let mut train = squall();
        train.args(["train", "--recipe", "small", "--data", path(&store)]);
        train.args(["--out", path(&at(name)), "--set", "training.steps=3"]);
        let usual = ["network.width=0.1", "schedule.warmup_steps=0"];
        for setting in usual.iter().chain(settings) {
            train.arg("--set").arg(setting);
        }
        let output = train.output().expect("starts");
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    };
    let cosine = said("cosine", &["schedule.decay=cosine", "schedule.t_max=1"]);
    let told = "by `schedule.t_max` 2 of the run's 3 steps have a learning rate of 0";
    assert!(cosine.contains(told), "{cosine}");
    let pieces = [
        "schedule.decay=piecewise",
        "schedule.milestones=[2]",
        "schedule.shares=[0.0]",
    ];
    let piecewise = said("piecewise", &pieces);
    let told = "by `schedule.shares` 1 of the run's 3 steps have";
    assert!(piecewise.contains(told), "{piecewise}");
    let whole = said("whole", &["schedule.decay=cosine"]);
    assert!(!whole.contains("learning rate of 0"), "{whole}");
}

/// The last line is not worth a training that is done: what --recipe names may be gone by then.
#[test]
fn a_recipe_that_is_gone_at_the_end_fails_no_training() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 1);
    let (store, out, recipe) = (at("store"), at("run"), at("own.toml"));
    let truth = fields.join("truth");
    stage(&fields, &truth, &store, &["--block-days", "1"]);
    let text_of_recipe = "name = 'own'\n[training]\nsteps = 30\n[network]\nname = 'deeplabv3plus-bilinear'\n\
        width = 0.1\nblocks = [1, 1, 1]\natrous_rates = [2, 4]\n[distributed]\nwire = 'f16'\n";
    std::fs::write(&recipe, text_of_recipe).expect("written");
    let mut train = squall();
    train.args(["train", "--recipe", path(&recipe), "--data", path(&store)]);
    train.args(["--out", path(&out), "--json", "-q"]);
    train.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = train.spawn().expect("starts");
    // It is written when the recipe has been read, before the first step.
    while !out.join("recipe.toml").exists() && child.try_wait().expect("waits").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::remove_file(&recipe).expect("it was there");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", text(&output));
    // A single rank sends no gradient that could lose digits.
    assert!(!text(&output).contains("`distributed.wire`"));
    let told: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert!(told["percent_of_peak"].as_f64() > Some(0.0), "{told}");
}

/// A finished run would name a best model that is not there, and an unfinished one take any recipe.
#[test]
fn what_is_gone_from_a_run_is_missed_when_it_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 1);
    let (store, model) = (at("store"), at("model"));
    let truth = fields.join("truth");
    stage(&fields, &truth, &store, &["--block-days", "1"]);
    let trained = || {
        let mut train = squall();
        train.args(["train", "--recipe", "small", "--data", path(&store)]);
        train.args(["--out", path(&model), "--set", "training.steps=1"]);
        let output = train.args(["--set", "network.width=0.1"]).output();
        let output = output.expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        said
    };
    let files = ["best.safetensors", "recipe.toml"];
    for warned in [false, false, true] {
        if warned {
            for file in files {
                std::fs::remove_file(model.join(file)).expect("it was there");
            }
        }
        let said = trained();
        for file in files {
            let missed =
                (said.lines()).any(|line| line.contains(file) && line.contains("is not there"));
            assert_eq!(missed, warned, "{file}: {said}");
        }
    }
    // Whose checkpoint was deleted to save space, the model of the whole run is lost.
    std::fs::write(model.join("best.safetensors"), "of the run before").expect("written");
    assert!(!trained().contains("will replace it"));
    std::fs::remove_file(model.join("checkpoint.safetensors")).expect("it was there");
    // It is refused to another recipe, which no repetition of the call gives back.
    let kept = std::fs::read(model.join("best.safetensors")).expect("there");
    let other = ["train", "--recipe", "small", "--data", path(&store)];
    let other = [&other[..], &["--out", path(&model), "--set", "seed=9"]].concat();
    refuses(
        &other,
        2,
        &["its recipe or data differ", "best.safetensors"],
    );
    let left = std::fs::read(model.join("best.safetensors")).expect("there");
    assert_eq!(left, kept);
    assert!(trained().contains("begins anew and will replace it"));
}

/// Tables and scores of a part of the times would be taken for those of the run.
#[test]
fn masks_of_a_labelling_that_was_stopped_are_told_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 2, 1);
    let (labels, events) = (at("labels"), at("events"));
    run(&["label", path(&fields), "--out", path(&labels), "-q"]);
    let said = |arguments: &[&str]| {
        let output = squall().args(arguments).arg("-q").output();
        let output = output.expect("starts");
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    };
    let call = ["events", path(&labels), "--out", path(&events)];
    let score = ["score", "--prediction", path(&labels)];
    let score = [&score[..], &["--truth", path(&labels)]].concat();
    let stopped = "a labelling that was stopped";
    for arguments in [&call[..], &score] {
        assert!(!said(arguments).contains(stopped), "{arguments:?}");
    }
    // What stays in the folder of one that is not done.
    std::fs::write(labels.join(".labels.run"), "of a run").expect("written");
    for arguments in [&call[..], &score] {
        assert!(said(arguments).contains(stopped), "{arguments:?}");
    }
}

/// Other tracks came out without a word.
#[test]
fn centres_that_no_pressure_tells_are_told_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 12, 3);
    let (truth, out) = (fields.join("truth").join("*.nc"), at("events"));
    let call = ["events", path(&truth), "--out", path(&out), "-q"];
    let warns = |more: &[&str]| {
        let output = squall().args(call).args(more).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        said.contains("a cyclone's centre is the middle of its area")
    };
    assert!(warns(&[]));
    assert!(!warns(&["--fields", path(&fields)]));
}

/// They were not read, and nobody heard of it.
#[test]
fn masks_that_a_training_of_masks_and_boxes_does_not_read_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 6, 3);
    // Boxes of the first half of the run only.
    let truth = fields.join("truth");
    let all = std::fs::read_to_string(truth.join("boxes.csv")).expect("boxes of the run");
    let days = ["2000-08-01", "2000-08-02", "2000-08-03"];
    let (header, rows) = all.split_once('\n').expect("a header");
    let known = |row: &&str| days.iter().any(|day| row.contains(day));
    let known: Vec<&str> = rows.lines().filter(known).collect();
    let (boxes, store) = (at("known.csv"), at("store"));
    std::fs::write(&boxes, format!("{header}\n{}\n", known.join("\n"))).expect("written");
    let more = ["--block-days", "1", "--boxes", path(&boxes)];
    stage(&fields, &truth, &store, &more);
    for (unlabelled, times) in [("0", 1), ("1", 0)] {
        let unlabelled = format!("detection.unlabelled_per_batch={unlabelled}");
        let out = at(&unlabelled);
        let mut train = squall();
        train.args(["train", "--recipe", "masks-and-boxes"]);
        train.args(["--data", path(&store), "--out", path(&out)]);
        for set in ["training.steps=1", "training.batch=2", &unlabelled] {
            train.args(["--set", set]);
        }
        let output = train.output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let warning = "have a mask and no boxes, and are not read";
        assert_eq!(said.matches(warning).count(), times, "{said}");
    }
}

/// A network looks better where it has learnt the answers.
#[test]
fn scores_at_times_of_training_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 6, 1);
    let (store, trained, truth) = (at("store"), at("trained"), fields.join("truth"));
    let single = ["--block-days=0", "--train-share=0.5"];
    stage(&fields, &truth, &store, &single);
    let train = ["train", "--recipe=small", "--data", path(&store), "--out"];
    let short = ["--set=training.steps=1", "--set=schedule.warmup_steps=0"];
    let narrow = ["--set=network.width=0.1", "--quiet"];
    run(&[&train[..], &[path(&trained)], &short[..], &narrow[..]].concat());
    let model = trained.join("best.safetensors");
    for (name, input, more, learnt) in [
        ("whole", &store, &[][..], true),
        ("unseen", &store, &["--split=test"], false),
        // Files do not say what was made of them.
        ("files", &fields, &[], false),
    ] {
        let masks = at(name);
        let infer = ["infer", path(input), "--model", path(&model), "--out"];
        let output = squall().args(infer).arg(&masks).args(more).output();
        let output = output.expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let warns = said.contains("of the 24 times were the model's training");
        assert_eq!(warns, learnt, "{name}: {said}");
        let score = ["score", "--prediction", path(&masks), "--truth"];
        let output = squall().args(score).arg(&truth).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let warns = said.contains("were its network's training");
        assert_eq!(warns, learnt, "{name}: {said}");
        // Also for those who only see the page, as its first caution.
        let page = at("page.html");
        let report = ["report", path(&masks), path(&truth), "--out", path(&page)];
        run(&report);
        let page = std::fs::read_to_string(&page).expect("a page");
        let (_, cautions) = page
            .split_once("quote a number</h3><ul>")
            .expect("cautions");
        let first = cautions.split("</li>").next().unwrap_or_default();
        let warns = first.contains("were its network&#39;s training");
        assert_eq!(warns, learnt, "{name}: {first}");
    }
}

/// Percentiles of a part of the globe are others: of the globe's rivers few were found, and nobody heard of it.
#[test]
fn percentiles_of_a_part_of_the_globe_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 3);
    for (name, is_part) in [("globe", false), ("part", true)] {
        if is_part {
            halve_latitudes(&fields);
        }
        let (labels, page) = (at(name), at("page.html"));
        let call = ["label", path(&fields), "--method", "bard", "--out"];
        let output = squall().args(call).arg(&labels).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let caution = "bard: its percentiles are those of all cells of the grid";
        assert_eq!(said.contains(caution), is_part, "{name}: {said}");
        run(&["report", path(&labels), "--out", path(&page), "-q"]);
        let html = std::fs::read_to_string(&page).expect("a page");
        assert_eq!(html.contains(caution), is_part, "{name}");
    }
}

/// `label` said so, and the page, which is what others see, had a first number of 0 cyclones without a word.
#[test]
fn a_page_says_that_the_grid_is_too_coarse_for_the_rules_of_deepcam() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 1, 3);
    let caution = "its rules miss half of the cyclones or more";
    for (method, is_said) in [("deepcam", true), ("tempest", false)] {
        let (labels, page) = (at(method), at("page.html"));
        let call = ["label", path(&fields), "--method", method, "--out"];
        run(&[&call[..], &[path(&labels), "-q"]].concat());
        run(&["report", path(&labels), "--out", path(&page), "-q"]);
        let html = std::fs::read_to_string(&page).expect("a page");
        assert_eq!(html.contains(caution), is_said, "{method}");
    }
}

/// Leaves the fields as they are, on a grid that ends far from the poles.
fn halve_latitudes(fields: &Path) {
    let entries = std::fs::read_dir(fields).expect("readable");
    for file in entries.map(|entry| entry.expect("an entry").path()) {
        if file.extension().is_some_and(|e| e == "nc") {
            let mut file = netcdf::append(&file).expect("opened");
            let mut axis = file.variable_mut("lat").expect("latitudes");
            let whole: Vec<f64> = axis.get_values(..).expect("read");
            let halves: Vec<f64> = whole.iter().map(|lat_deg| lat_deg / 2.0).collect();
            axis.put_values(&halves, ..).expect("written");
        }
    }
}

/// Means of days had been labelled and followed without a word, although rules of cyclones need instants.
#[test]
fn times_a_day_apart_are_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let caution = "rules and tracks of cyclones are made for instants every 3 or 6 hours";
    for (hours, is_said) in [("6", false), ("24", true)] {
        let [fields, labels, page] =
            ["run", "labels", "page.html"].map(|name| at(hours).join(name));
        let grid = ["simulate", "--grid", "48x72", "--days", "4", "--hours"];
        run(&[&grid[..], &[hours, "--out", path(&fields), "-q"]].concat());
        let inspected = run(&["inspect", path(&fields)]);
        assert_eq!(inspected.contains(caution), is_said, "{inspected}");
        for (method, follows) in [("bard", false), ("tempest", true)] {
            let out = labels.join(method);
            let call = ["label", path(&fields), "--method", method, "--out"];
            let output = squall().args(call).arg(&out).output().expect("starts");
            let said = text(&output);
            assert!(output.status.success(), "{said}");
            assert_eq!(said.contains(caution), is_said && follows, "{said}");
            run(&["report", path(&out), "--out", path(&page), "-q"]);
            let html = std::fs::read_to_string(&page).expect("a page");
            assert_eq!(html.contains(caution), is_said && follows, "{method}");
        }
    }
}

/// At 2 degrees the rules of deepcam found 14 of 43 cyclones, those of tempest 28, and nobody heard of it.
#[test]
fn rules_that_find_few_cyclones_on_a_coarse_grid_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let caution = "on grids coarser than 1.25 degrees its rules miss half";
    // Rows are 1.22 and 1.33 degrees apart.
    for (grid, is_coarse) in [("149x72", false), ("136x72", true)] {
        let at = |name: &str| folder.path().join(grid).join(name);
        let (fields, thresholds) = (at("run"), at("thresholds.toml"));
        let call = ["simulate", "--grid", grid, "--days", "1", "--hours", "6"];
        run(&[&call[..], &["--out", path(&fields), "-q"]].concat());
        std::fs::write(&thresholds, "adapt_to_grid = true\n").expect("written");
        let inspected = run(&["inspect", path(&fields)]);
        assert_eq!(inspected.contains(caution), is_coarse, "{inspected}");
        for (name, more, by_presets) in [
            ("deepcam", &[][..], true),
            ("tempest", &["--method", "tempest"], false),
            ("own", &["--thresholds", path(&thresholds)], false),
        ] {
            let call = ["label", path(&fields), "--out"];
            let mut label = squall();
            label.args(call).arg(at(name)).args(more);
            let output = label.output().expect("starts");
            let said = text(&output);
            assert!(output.status.success(), "{said}");
            assert_eq!(said.contains(caution), is_coarse && by_presets, "{said}");
        }
    }
}

/// Half of a run had other threads, and nobody heard of it.
#[test]
fn a_run_that_goes_on_with_other_threads_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 1);
    let (store, out) = (at("store"), at("out"));
    stage(&fields, &fields.join("truth"), &store, &["--block-days=1"]);
    let trained = |limit: &str, code: i32| {
        let mut train = squall();
        train.args(["train", "--recipe", "small", "--data", path(&store)]);
        train.args(["--out", path(&out), "--set", "training.steps=4"]);
        train.args(["--set", "training.batch=1", "--set", "network.width=0.1"]);
        let output = train.args(["--set", limit]).output().expect("starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        said.contains("was begun on 9999 threads")
    };
    // Stopped after its first step, twice.
    let short = "training.max_seconds=1e-6";
    assert!(!trained(short, 75) && !trained(short, 75));
    let facts = out.join("run.json");
    let told = std::fs::read(&facts).expect("read");
    let mut told: Value = serde_json::from_slice(&told).expect("JSON");
    told["all_threads"] = serde_json::json!([9999]);
    std::fs::write(&facts, told.to_string()).expect("written");
    assert!(trained("training.max_seconds=1e9", 0));
    if !cfg!(feature = "onednn") {
        return;
    }
    // Those that the process could have were counted, not those that oneDNN computes on.
    let mut train = squall();
    train.args(["train", "--recipe", "small", "--data", path(&store)]);
    train.args(["--out", path(&at("one")), "--set", "training.steps=1"]);
    train.args(["--set", "training.batch=1", "--set", "network.width=0.1"]);
    let output = train.env("OMP_NUM_THREADS", "1").output().expect("starts");
    assert!(output.status.success(), "{}", text(&output));
    let told = std::fs::read(at("one/run.json")).expect("read");
    let told: Value = serde_json::from_slice(&told).expect("JSON");
    assert_eq!(told["threads"], 1);
}

/// Background everywhere was the best of all validations, ended the run by `training.patience`, and was not told.
#[test]
fn a_network_that_finds_nothing_is_told_and_trained_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 6, 1);
    let (store, out) = (at("store"), at("out"));
    stage(&fields, &fields.join("truth"), &store, &["--block-days=1"]);
    let mut train = squall();
    train.args(["train", "--recipe", "small", "--data", path(&store)]);
    train.args(["--out", path(&out), "--quiet"]);
    for set in [
        "training.steps=16",
        "training.batch=1",
        "training.validate_every_steps=4",
        "training.patience=1",
        "network.width=0.1",
        "schedule.warmup_steps=0",
        "schedule.rate=0.02",
        "loss.class_weights=[1.0, 0.001, 0.001]",
    ] {
        train.args(["--set", set]);
    }
    let output = train.output().expect("starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("; `{}`)", path(&out.join("best.safetensors")))));
    let words = "the model finds no tropical cyclone and no atmospheric river";
    assert!(said.contains(words), "{said}");
    let metrics = std::fs::read_to_string(out.join("metrics.jsonl")).expect("metrics");
    assert_eq!(metrics.matches(r#""kind":"step""#).count(), 16, "{metrics}");
}
