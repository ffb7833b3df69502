//! Files that open and whose data cannot be used: fatal, or left out where the user says `--skip-bad`.

mod common;

use common::{add_level_heights, contents, path, run, simulate, squall, stage, text};
use serde_json::Value;
use squall_data::Variable;
use std::fs;
use std::path::{Path, PathBuf};

/// A run of six days whose second file was spoilt, the same run without that file, and the file.
fn spoilt_and_without(folder: &Path, spoil: fn(&Path)) -> (PathBuf, PathBuf, PathBuf) {
    let damaged = simulate(folder, 6, 3);
    let without = folder.join("without");
    fs::create_dir(&without).expect("created");
    let mut fields = files_of(&damaged);
    let bad = fields.remove(1);
    for file in &fields {
        let name = file.file_name().expect("a name");
        fs::copy(file, without.join(name)).expect("copied");
    }
    spoil(&bad);
    (damaged, without, bad)
}

/// The files of a run, sorted.
fn files_of(run: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run).expect("a folder").flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|kind| kind == "nc"))
        .collect();
    files.sort();
    files
}

/// Numbers that are no weather, as of a unit that is another than the file says.
fn fill_with_nonsense(path: &Path) {
    let mut file = netcdf::append(path).expect("opened");
    for channel in Variable::CHANNELS {
        let mut variable = file.variable_mut(channel.name()).expect("a channel");
        let mut values = variable.get_values::<f32, _>(..).expect("read");
        values.fill(1e12);
        variable.put_values(&values, ..).expect("written");
    }
    file.close().expect("closed");
}

/// Takes the column water out of a file.
fn take_water(path: &Path) {
    take(path, "TMQ");
}

/// Takes the column water out of a file, and the rain, which not all methods need.
fn take_water_and_rain(path: &Path) {
    take(path, "TMQ");
    take(path, "PRECT");
}

/// Takes a channel out of a file.
fn take(path: &Path, channel: &str) {
    keep(path, |name| name != channel);
}

/// Takes all channels but one out of a file.
fn take_all_but(path: &Path, channel: &str) {
    let others = Variable::CHANNELS.map(Variable::name);
    keep(path, |name| name == channel || !others.contains(&name));
}

/// Takes all variables out of a file that are not kept by their name.
fn keep(path: &Path, is_kept: impl Fn(&str) -> bool) {
    let whole = path.with_extension("whole");
    fs::rename(path, &whole).expect("renamed");
    let from = netcdf::open(&whole).expect("opened");
    let mut to = netcdf::create(path).expect("created");
    for dimension in from.dimensions() {
        let made = to.add_dimension(&dimension.name(), dimension.len());
        made.expect("a dimension");
    }
    for variable in from
        .variables()
        .filter(|variable| is_kept(&variable.name()))
    {
        let dimensions = variable
            .dimensions()
            .iter()
            .map(|dimension| dimension.name());
        let dimensions: Vec<String> = dimensions.collect();
        let dimensions: Vec<&str> = dimensions.iter().map(String::as_str).collect();
        let values = variable.get_values::<f64, _>(..).expect("read");
        let made = to.add_variable::<f64>(&variable.name(), &dimensions);
        let mut made = made.expect("a variable");
        for attribute in variable.attributes().filter(|a| a.name() != "_FillValue") {
            let value = attribute.value().expect("a value");
            made.put_attribute(attribute.name(), value).expect("noted");
        }
        made.put_values(&values, ..).expect("written");
    }
    to.close().expect("closed");
    drop(from);
    fs::remove_file(whole).expect("removed");
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
    labels_are_those_of_the_others(fill_with_nonsense);
}

#[test]
fn labels_are_those_of_the_times_that_have_all_channels() {
    labels_are_those_of_the_others(take_water);
}

/// What only a time that is left out lacks had been read at no time: rivers had no rain, and of MERRA-2's beside files of
/// hourly means vapour transport had been summed without the surface pressure.
#[test]
fn labels_are_by_all_that_the_times_with_all_channels_have() {
    labels_are_those_of_the_others(take_water_and_rain);
}

#[test]
fn channels_that_are_never_together_are_told_as_such() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = simulate(folder.path(), 4, 3);
    let files = files_of(&run);
    for (index, file) in files.iter().enumerate() {
        take(file, ["TMQ", "PSL"][index % 2]);
    }
    let out = folder.path().join("labels");
    let call = ["label", path(&run), "--out", path(&out)];
    let output = squall().args(call).output().expect("it starts");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("no time has all of them"), "{said}");
    assert!(files.len() > 1 && !said.contains("--skip-bad"), "{said}");
}

/// They were counted and not named.
#[test]
fn inspect_names_missing_channels_and_the_methods_that_lack_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 3);
    let inspected = |text: &str| run(&["inspect", path(&fields)]).contains(text);
    assert!(!inspected("missing   "));
    let all = "label     by bard, deepcam, lows, percentile, tempest\n";
    assert!(inspected(all));
    for file in files_of(&fields) {
        take(&file, "QREFHT");
        take(&file, "PRECT");
    }
    let dew_point = "QREFHT (or the dew point with the surface pressure: d2m and sp)";
    assert!(inspected(&format!("missing   {dew_point}, PRECT\n")));
    assert!(inspected(
        "by bard, lows, percentile, tempest; deepcam lacks PRECT\n"
    ));
    let told = summary(&["inspect", path(&fields)]);
    assert_eq!(told["missing"].as_array().map(Vec::len), Some(2), "{told}");
    assert_eq!(told["label_lacks"]["deepcam"][0], "PRECT", "{told}");
}

/// As 3-hourly `pr` of CMIP, a mean over an interval: no command could do without, and none said why.
#[test]
fn rain_between_the_hours_of_all_else_is_left_out_where_it_is_not_needed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 4, 3);
    for file in files_of(&fields) {
        let rain = file.with_extension("rain.nc");
        fs::copy(&file, &rain).expect("copied");
        take(&file, "PRECT");
        take_all_but(&rain, "PRECT");
        let mut rain = netcdf::append(&rain).expect("opened");
        let mut time = rain.variable_mut("time").expect("an axis");
        let days: Vec<f64> = time.get_values(..).expect("read");
        let days: Vec<f64> = days.iter().map(|day| day + 0.125).collect();
        time.put_values(&days, ..).expect("written");
        rain.close().expect("closed");
    }
    let told = "16 of 32 times have PRECT alone, first 2000-08-01T";
    let inspected = run(&["inspect", path(&fields)]);
    assert!(inspected.contains(told), "{inspected}");
    assert!(
        !inspected.contains("no channel of the sixteen"),
        "{inspected}"
    );
    let able = "label     by bard, lows, percentile, tempest; deepcam lacks PRECT\n";
    assert!(inspected.contains(able), "{inspected}");
    let says = |call: &[&str]| {
        let output = squall().args(call).output().expect("it starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        assert!(
            said.contains(told) && !said.contains("missing at"),
            "{said}"
        );
        said
    };
    let (labels, events, store) = (at("labels"), at("events"), at("store"));
    let label = ["label", path(&fields), "--method", "tempest", "--out"];
    says(&[&label[..], &[path(&labels)]].concat());
    let again = at("again");
    let said = summary(&[&label[..], &[path(&again), "--skip-bad"]].concat());
    assert_eq!(said["methods"][0]["times"], 16, "{said}");
    assert_eq!(said["skipped_times"], 0, "{said}");
    let of = ["events", path(&labels), "--fields", path(&fields), "--out"];
    let said = says(&[&of[..], &[path(&events)]].concat());
    assert!(said.contains("no PRECT in the fields"), "{said}");
    let stage = ["stage", path(&fields), "--labels", path(&labels), "--out"];
    says(&[&stage[..], &[path(&store)]].concat());
    // deepcam needs the rain: no time has all.
    let deepcam = at("deepcam");
    let call = ["label", path(&fields), "--out", path(&deepcam)];
    let output = squall().args(call).output().expect("it starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("no time has all of them"));
}

/// It was the error of a wrong list, which nobody had given, and told none.
#[test]
fn a_store_of_files_without_a_common_channel_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = simulate(folder.path(), 4, 3);
    let files = files_of(&run);
    for (index, file) in files.iter().enumerate() {
        take_all_but(file, ["TMQ", "PSL"][index % 2]);
    }
    let (truth, out) = (run.join("truth"), folder.path().join("store"));
    let call = ["stage", path(&run), "--labels", path(&truth), "--out"];
    let output = squall().args(call).arg(&out).output().expect("it starts");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let told = "no channel is at all of the 16 times: TMQ, PSL are at some of them";
    assert!(said.contains(told), "{said}");
    assert!(
        said.contains("hint:") && said.contains("shifttime"),
        "{said}"
    );
}

/// Heights of 300 and 500 hPa stand in for channels, and a file may lack them as it may lack a channel.
#[test]
fn labels_are_those_of_the_times_that_have_heights() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, without, file) = spoilt_and_without(folder.path(), |_| {});
    for other in [files_of(&damaged), files_of(&without)].concat() {
        take(&other, "T200");
        if other != file {
            add_level_heights(&other);
        }
    }
    labels_are_those_without(folder.path(), [&damaged, &without, &file], "tempest");
}

/// It had ended a run that goes on without bad files, after all of its first pass.
#[test]
fn labels_are_those_of_the_times_that_have_transport() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, without, file) = spoilt_and_without(folder.path(), |_| {});
    for other in [files_of(&damaged), files_of(&without)].concat() {
        if other != file {
            add_transport(&other);
        }
    }
    labels_are_those_without(folder.path(), [&damaged, &without, &file], "tempest");
}

/// The first file had decided for all: one that alone lacks what the others have had ended the run.
#[test]
fn the_first_file_may_be_the_one_that_lacks_heights_or_transport() {
    for (lacking, add) in [
        ("heights", add_level_heights as fn(&Path)),
        ("transport", add_transport as fn(&Path)),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let fields = simulate(folder.path(), 6, 3);
        let files = files_of(&fields);
        if lacking == "heights" {
            files.iter().for_each(|file| take(file, "T200"));
        }
        files[1..].iter().for_each(|file| add(file));
        let at = |name: &str| folder.path().join(name);
        let call = ["label", path(&fields), "--method", "tempest", "--out"];
        refuses(&[&call[..], &[path(&at("strict"))]].concat(), &files[0]);
        let said = summary(&[&call[..], &[path(&at("labels")), "--skip-bad"]].concat());
        assert_eq!(said["skipped_times"], 8, "{lacking}: {said}");
    }
}

/// All others had been left out, although they are alike.
#[test]
fn the_first_file_may_be_the_one_that_has_transport() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 6, 3);
    let files = files_of(&fields);
    add_transport(&files[0]);
    let at = |name: &str| folder.path().join(name);
    let call = ["label", path(&fields), "--method", "bard", "--out"];
    refuses(&[&call[..], &[path(&at("strict"))]].concat(), &files[0]);
    let said = summary(&[&call[..], &[path(&at("labels")), "--skip-bad"]].concat());
    assert_eq!(said["skipped_times"], 8, "{said}");
}

/// Adds vapour transport to a file: more in the north.
fn add_transport(path: &Path) {
    let mut file = netcdf::append(path).expect("opened");
    let length = |name: &str| file.dimension_len(name).expect("a dimension");
    let [times, rows, columns] = ["time", "lat", "lon"].map(length);
    let along = ["time", "lat", "lon"];
    let mut transport = file.add_variable::<f32>("IVT", &along).expect("added");
    transport
        .put_attribute("units", "kg m-1 s-1")
        .expect("written");
    let cells = times * rows * columns;
    let values: Vec<f32> = (0..cells).map(|k| (k / columns % rows) as f32).collect();
    transport.put_values(&values, ..).expect("written");
    file.close().expect("closed");
}

/// Labels of a run one of whose files is spoilt are those of the run without that file.
fn labels_are_those_of_the_others(spoil: fn(&Path)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, without, file) = spoilt_and_without(folder.path(), spoil);
    for methods in ["deepcam", "tempest", "deepcam,bard"] {
        labels_are_those_without(folder.path(), [&damaged, &without, &file], methods);
    }
}

/// Labels of a run that has a bad file are refused, and with `--skip-bad` those of the run without that file.
fn labels_are_those_without(folder: &Path, [damaged, without, file]: [&PathBuf; 3], methods: &str) {
    let at = |name: &str| folder.join(format!("{name}-{methods}"));
    let (strict, out, expected) = (at("strict"), at("skipped"), at("expected"));
    let call = |input| ["label", path(input), "--method", methods, "--out"];
    refuses(&[&call(damaged)[..], &[path(&strict)]].concat(), file);
    let skips = [path(&out), "--skip-bad"];
    let said = summary(&[&call(damaged)[..], &skips].concat());
    assert_eq!(said["skipped_times"], 8, "{said}");
    assert_eq!(said["skipped_files"], 0, "{said}");
    let said = summary(&[&call(without)[..], &[path(&expected)]].concat());
    assert_eq!(said["skipped_times"], 0, "{said}");
    let [out, expected] = [out, expected].map(|out| contents(&out, |_| false));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|f| f.0.clone()).collect();
    let (has, should): (Vec<String>, Vec<String>) = (names(&out), names(&expected));
    assert_eq!(has, should, "{methods}");
    for ((name, has), (_, should)) in out.iter().zip(&expected) {
        assert!(has == should, "{methods}: {name}");
    }
}

/// The first pass had left them out, and the second then drew no masks of them, in silence.
#[test]
fn times_that_an_interrupted_run_left_out_are_errors_without_skip_bad() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, _, file) = spoilt_and_without(folder.path(), fill_with_nonsense);
    let at = |name: &str| folder.path().join(name);
    let (out, rules) = (at("labels"), at("rules.toml"));
    fs::write(&rules, "[percentile]\nmin_times = 1\n").expect("written");
    // Between its passes the run makes this folder, and ends where it cannot.
    let obstacle = out.join("climatology");
    fs::create_dir(&out).expect("created");
    fs::write(&obstacle, "").expect("written");
    let call = ["label", path(&damaged), "--method", "percentile", "--out"];
    let strict = [&call[..], &[path(&out), "--thresholds", path(&rules)]].concat();
    let skips = [&strict[..], &["--skip-bad"]].concat();
    let output = squall().args(&skips).output().expect("it starts");
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    let state = out.join(".methods.partial/first.cbor");
    assert!(state.is_file(), "{said}");
    fs::remove_file(&obstacle).expect("removed");
    refuses(&strict, &file);
    assert_eq!(summary(&skips)["skipped_times"], 8);
}

#[test]
fn samples_are_the_times_that_can_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, _, file) = spoilt_and_without(folder.path(), fill_with_nonsense);
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

/// Of a channel that one file lacks either the channel is left out or the file's times: both are said.
#[test]
fn samples_have_all_channels_or_are_of_all_times() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (fields, _, file) = spoilt_and_without(folder.path(), take_water);
    let truth = fields.join("truth");
    let stage = |name: &str, more: &[&str]| {
        let store = folder.path().join(name);
        let call = ["stage", path(&fields), "--labels", path(&truth), "--out"];
        let mut program = squall();
        program.args(call).arg(&store).args(more).arg("--json");
        let output = program.output().expect("it starts");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (said, text(&output))
    };
    let samples = |said: &Value| {
        let splits = said["samples"].as_array().expect("three splits").iter();
        splits.filter_map(Value::as_u64).sum::<u64>()
    };
    let (all, said) = stage("all", &[]);
    assert_eq!(samples(&all), 24, "{said}");
    assert_eq!(all["channels"].as_array().expect("names").len(), 15);
    assert!(
        said.contains("without TMQ: missing at some times"),
        "{said}"
    );
    let (some, said) = stage("some", &["--skip-bad"]);
    assert_eq!(samples(&some), 16, "{said}");
    assert_eq!(some["channels"].as_array().expect("names").len(), 16);
    assert_eq!(some["skipped_times"], 8, "{said}");
    assert!(!said.contains("without TMQ"), "{said}");
    let (none, said) = stage("none", &["--channels", "TMQ,PSL"]);
    let name = file.file_name().expect("a name").to_string_lossy();
    assert!(none.is_null() && said.contains(&*name), "{said}");
    assert!(
        said.contains("TMQ") && !said.contains("needs PSL"),
        "{said}"
    );
    assert!(said.contains("--skip-bad leaves out"), "{said}");
}

#[test]
fn masks_of_a_network_are_those_of_the_times_that_can_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, _, file) = spoilt_and_without(folder.path(), fill_with_nonsense);
    let at = |name: &str| folder.path().join(name);
    let (store, trained, out) = (at("store"), at("trained"), at("masks"));
    let fields = simulate(folder.path(), 8, 4);
    stage(
        &fields,
        &fields.join("truth"),
        &store,
        &["--block-days", "1"],
    );
    let train = ["train", "--recipe", "small", "--data", path(&store)];
    let settings = [
        "training.steps=1",
        "training.batch=1",
        "schedule.warmup_steps=0",
    ];
    let settings: Vec<&str> = (settings.into_iter().flat_map(|set| ["--set", set])).collect();
    let to = ["--out", path(&trained), "--quiet"];
    run(&[&train[..], &to, &settings[..]].concat());
    let model = trained.join("best.safetensors");
    let call = ["infer", path(&damaged), "--model", path(&model), "--out"];
    refuses(&[&call[..], &[path(&at("strict"))]].concat(), &file);
    let output = squall()
        .args([&call[..], &[path(&out), "--skip-bad"]].concat())
        .output()
        .expect("it starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let words = "8 times of 24 could not be used and are left out";
    assert!(said.contains(words), "{said}");
}

/// Such times had become samples that the store was said not to have, and its boxes were too few.
#[test]
fn what_can_be_read_by_now_is_a_sample() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, _, file) = spoilt_and_without(folder.path(), fill_with_nonsense);
    let (truth, store) = (damaged.join("truth"), folder.path().join("store"));
    let call = ["stage", path(&damaged), "--labels", path(&truth), "--out"];
    let call = [&call[..], &[path(&store)]].concat();
    summary(&[&call[..], &["--skip-bad"]].concat());
    // As a killed call leaves it whose first shard was not whole.
    for name in ["shard-00000.bin", "store.json", "boxes.jsonl"] {
        fs::remove_file(store.join(name)).expect(name);
    }
    assert!(store.join("left_out.txt").is_file());
    let again = folder.path().join("again");
    fs::create_dir(&again).expect("created");
    let whole = simulate(&again, 6, 3).join(file.file_name().expect("a name"));
    fs::copy(whole, &file).expect("copied");
    let said = summary(&call);
    let samples = said["samples"].as_array().expect("of three splits");
    let samples: u64 = samples.iter().filter_map(Value::as_u64).sum();
    assert_eq!((samples, said["masked"].as_u64()), (24, Some(24)), "{said}");
    assert_eq!(said["skipped_times"], 0, "{said}");
    assert!(!store.join("left_out.txt").exists());
}

#[test]
fn events_are_described_by_the_fields_that_can_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (damaged, _, file) = spoilt_and_without(folder.path(), fill_with_nonsense);
    let (truth, out) = (damaged.join("truth"), folder.path().join("events"));
    let call = ["events", path(&truth), "--fields", path(&damaged), "--out"];
    refuses(
        &[&call[..], &[path(&folder.path().join("strict"))]].concat(),
        &file,
    );
    let says = |out: &Path, more: &[&str]| {
        let mut command = squall();
        command
            .args(call)
            .args([path(out), "--skip-bad"])
            .args(more);
        let output = command.output().expect("it starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        let blank = "the fields of 8 of 24 times could not be read: their columns stay blank";
        assert!(said.contains(blank), "{said}");
        said.contains("no wind is known at 8 of 24 times: tracks may be missing")
    };
    assert!(!says(&out, &[]));
    // Whichever way a track has to reach a wind.
    let tracking = folder.path().join("tracking.toml");
    fs::write(&tracking, "[tropical_cyclone]\nmin_peak_wind_m_s = 17\n").expect("written");
    for (name, more) in [
        ("strong", ["--min-wind", "17"]),
        ("file", ["--tracking", path(&tracking)]),
    ] {
        assert!(says(&folder.path().join(name), &more), "{name}");
    }
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
