//! Bad input: a clear message that names the thing, a hint, a distinct exit code, never a panic.

mod common;

use common::{contents, path, real, refuses, run, simulate, squall, text};
use std::fs;
use std::path::Path;
use std::process::Stdio;

#[test]
fn vectors_that_no_memory_holds_and_links_without_a_rate() {
    for millions in ["inf", "NaN", "-1", "0", "1e30", "4.3,inf", "many"] {
        let asked = format!("--millions={millions}");
        let words = ["expected millions of values", "--millions"];
        refuses(&["bench", "allreduce", &asked], 2, &words);
    }
    for rate in ["0", "-1", "inf", "fast"] {
        let asked = format!("--link-mbit={rate}");
        let words = ["expected Mbit/s above 0", "--link-mbit"];
        refuses(&["bench", "allreduce", &asked], 2, &words);
    }
    refuses(
        &["bench", "allreduce", "--ranks=0"],
        2,
        &["nothing to sum", "hint:"],
    );
    // Within what an option may be, and more than any machine has: it was killed for memory.
    let many = ["bench", "allreduce", "--millions=10000", "--ranks=1000"];
    refuses(&many, 2, &["1000 ranks need 40.0 TB", "hint:"]);
}

#[test]
fn batches_that_no_memory_holds() {
    for work in ["step", "infer"] {
        let of = |batch: &'static str| ["bench", work, "--network", "small", "--batch", batch];
        refuses(&of("100000000000000"), 2, &["--batch", "16777216"]);
        refuses(&of("0"), 2, &["--batch"]);
        refuses(&of("10000000"), 2, &["needs", "may have", "fits"]);
    }
}

/// Networks and recipes are both named where both are taken.
#[test]
fn what_is_neither_network_nor_recipe() {
    let words = [
        "deeplabv3plus-bilinear",
        "found `nope`",
        "hint:",
        "small, full",
    ];
    refuses(&["summary", "nope"], 2, &words);
    for work in ["step", "infer"] {
        refuses(&["bench", work, "--network", "nope"], 2, &words);
    }
}

/// The exit code and signal of a program whose standard output or error is a pipe that nobody reads.
fn unread(arguments: &[&str], errors: bool) -> std::process::ExitStatus {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = squall();
    command.args(arguments);
    if errors {
        command.stdout(Stdio::null()).stderr(writer)
    } else {
        command.stdout(writer).stderr(Stdio::null())
    };
    command.status().expect("the program starts")
}

#[test]
fn pipes_that_nobody_reads_change_no_exit_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("run");
    let simulate = format!("simulate --days 1 --grid 24x36 -v --out {}", path(&out));
    for (line, code) in [
        ("inspect /nowhere/a.nc", 3),
        ("summary", 2),
        // What shells make of a pattern has a hint of its own.
        ("inspect /dev/null /dev/zero", 2),
        (simulate.as_str(), 0),
    ] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(unread(&arguments, true).code(), Some(code), "{line}");
    }
    for line in ["summary tiramisu", "--help", "scale --published"] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(unread(&arguments, false).code(), Some(0), "{line}");
    }
}

/// Before anything is started anew, read or written.
#[test]
fn cores_and_memory_that_the_machine_has_not() {
    let with = |option: &[&str], words: &[&str]| {
        refuses(&[&["inspect", "missing.nc"][..], option].concat(), 2, words);
    };
    with(&["--reserve-cores", "one"], &["SQUALL_RESERVE_CORES"]);
    with(&["--reserve-cores=9999"], &["one must compute", "hint:"]);
    with(&["--hyper-threads=0"], &["or `all`"]);
    with(&["--memory-node=9999"], &["no NUMA node 9999", "hint:"]);
}

/// Who misspells the plain loops does not get the fast operations without a word.
#[test]
fn plain_loops_by_another_name() {
    let version = |word: &str| {
        let mut command = squall();
        let command = command.arg("--version").env("SQUALL_BACKEND", word);
        command.output().expect("starts")
    };
    let known = version("reference");
    assert!(known.status.success(), "{}", text(&known));
    let said = text(&known);
    assert!(said.contains("reference operations"), "{said}");
    let unknown = version("refrence");
    let said = text(&unknown);
    assert_eq!(unknown.status.code(), Some(2), "{said}");
    for words in ["expected `reference`, found `refrence`", "hint:"] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
}

#[test]
fn paths_that_lead_nowhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("created");
    let out = folder.path().join("out");
    let missing = folder.path().join("missing.nc");
    refuses(&["inspect", path(&missing)], 3, &["missing.nc", "hint:"]);
    refuses(
        &["label", path(&empty), "--out", path(&out)],
        3,
        &["empty", "hint:"],
    );
    refuses(
        &["label", "/nowhere/*.nc", "--out", path(&out)],
        3,
        &["/nowhere/*.nc", "hint:"],
    );
    assert!(
        !out.exists() || fs::read_dir(&out).expect("readable").next().is_none(),
        "nothing was written"
    );
}

#[test]
fn files_that_are_not_what_they_seem() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 3);
    let file = fs::read_dir(&fields)
        .expect("readable")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|e| e == "nc"))
        .expect("a history file");
    let out = folder.path().join("out");

    let text_file = folder.path().join("notes.nc");
    fs::write(&text_file, "not a netCDF file").expect("written");
    refuses(
        &["label", path(&text_file), "--out", path(&out)],
        3,
        &["notes.nc", "hint:"],
    );

    let cut = folder.path().join("cut.nc");
    let bytes = fs::read(&file).expect("readable");
    fs::write(&cut, &bytes[..bytes.len() / 2]).expect("written");
    refuses(&["label", path(&cut), "--out", path(&out)], 3, &["cut.nc"]);
}

/// It opens, and there is nothing in it that anything reads.
#[test]
fn what_is_of_no_use_is_described_and_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("other.nc");
    squall_data::archive::on_library_thread(|| {
        let mut file = netcdf::create(&file).expect("created");
        file.add_dimension("station", 3).expect("added");
        let mut tide = (file.add_variable::<f32>("tide", &["station"])).expect("added");
        tide.put_values(&[0.1_f32, 0.2, 0.3], ..).expect("written");
        // Its name is that of a channel, and it is no field.
        let mut pressure = (file.add_variable::<f32>("PS", &["station"])).expect("added");
        pressure.put_attribute("units", "Pa").expect("written");
    });
    let words = ["tide", "PS ", "note:", "can be used", "hint:"];
    refuses(&["inspect", path(&file)], 3, &words);
    let output = squall()
        .args(["inspect", path(&file), "--json"])
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(json["usable"], false, "{json}");
    let pressure = &json["makes"][0]["variables"][1];
    assert_eq!(pressure["name"], "PS", "{json}");
    assert_eq!(pressure["channels"], serde_json::json!([]), "{json}");
    // Masks have no channel and are of use.
    let truth = simulate(folder.path(), 1, 3).join("truth");
    run(&["inspect", path(&truth)]);
}

#[test]
fn a_file_that_tells_no_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("contour.nc");
    squall_data::archive::on_library_thread(|| {
        let mut file = netcdf::create(&file).expect("created");
        for (name, units, count) in [("lat", "degrees_north", 5), ("lon", "degrees_east", 6)] {
            file.add_dimension(name, count).expect("added");
            let mut axis = file.add_variable::<f64>(name, &[name]).expect("added");
            axis.put_attribute("units", units).expect("written");
            let degrees: Vec<f64> = (0..count).map(|k| 10.0 * k as f64).collect();
            axis.put_values(&degrees, ..).expect("written");
        }
        let mut pressure = (file.add_variable::<f32>("PSL", &["lat", "lon"])).expect("added");
        pressure.put_attribute("units", "Pa").expect("written");
    });
    let out = folder.path().join("labels");
    let words = ["has no time axis", "hint:", "hours since 2000-01-01"];
    refuses(&["label", path(&file), "--out", path(&out)], 3, &words);
}

/// Files as of CMIP, one for each of these variables: those on levels have 850, 500 and 250 hPa, and `pr` is a mean whose
/// times are between those of the others.
fn a_file_of_each_variable(folder: &Path, names: &[&str]) {
    for name in names {
        squall_data::archive::on_library_thread(|| {
            let path = folder.join(format!("{name}.nc"));
            let mut file = netcdf::create(path).expect("created");
            let times = match *name {
                "pr" => [0.125, 0.375],
                _ => [0.0, 0.25],
            };
            for (axis, units, values) in [
                ("time", "days since 2000-01-01", &times[..]),
                ("plev", "Pa", &[85_000.0, 50_000.0, 25_000.0][..]),
                ("lat", "degrees_north", &[-60.0, -20.0, 20.0, 60.0][..]),
                ("lon", "degrees_east", &[0.0, 90.0, 180.0, 270.0][..]),
            ] {
                file.add_dimension(axis, values.len()).expect("added");
                let mut axis = file.add_variable::<f64>(axis, &[axis]).expect("added");
                axis.put_attribute("units", units).expect("written");
                axis.put_values(values, ..).expect("written");
            }
            let on_levels = &["time", "plev", "lat", "lon"][..];
            let (units, dimensions) = match *name {
                "ta" => ("K", on_levels),
                "ua" | "va" => ("m s-1", on_levels),
                "zg" => ("m", on_levels),
                "uas" | "vas" => ("m s-1", &["time", "lat", "lon"][..]),
                "prw" => ("kg m-2", &["time", "lat", "lon"][..]),
                "pr" => ("kg m-2 s-1", &["time", "lat", "lon"][..]),
                "tas" | "ts" => ("K", &["time", "lat", "lon"][..]),
                _ => ("Pa", &["time", "lat", "lon"][..]),
            };
            let mut field = file.add_variable::<f32>(name, dimensions).expect("added");
            field.put_attribute("units", units).expect("written");
        });
    }
}

/// All files of a time had been named, and no level.
#[test]
fn files_of_a_variable_each_without_the_level_that_is_needed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    a_file_of_each_variable(folder.path(), &["psl", "ps", "prw", "tas", "ts", "ta"]);
    let out = folder.path().join("labels");
    let words = [
        "labelling needs U850, V850",
        "psl.nc` and 3 more files (found",
        "hint: the files have `ta` at 850, 500, 250 hPa; nothing is interpolated",
    ];
    refuses(
        &["label", path(folder.path()), "--out", path(&out)],
        3,
        &words,
    );
}

/// The hint sent those whom another method serves to fields on model levels, which most archives do not have.
#[test]
fn files_for_another_method_are_refused_with_its_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let label = |names: &[&str], hint: &str| {
        a_file_of_each_variable(folder.path(), names);
        let out = folder.path().join("labels");
        let call = ["label", path(folder.path()), "--out", path(&out)];
        let levels = "For `deepcam`: the files have `ta";
        refuses(&call, 3, &["labelling needs", hint, levels]);
    };
    let rivers = "hint: `--method bard` or `percentile` finds rivers in these files";
    label(&["prw", "ua", "va", "ta"], rivers);
    let both = "hint: `--method tempest` works with these files; rivers also with `bard`";
    label(&["psl", "uas", "vas", "zg"], both);
    // `pr` stands at other times: nothing is at all of them, and --skip-bad alone had been advised.
    label(&["pr"], both);
    let out = folder.path().join("labels");
    let call = ["label", path(folder.path()), "--out", path(&out)];
    let never = "labelling needs T200, Z1000, Z200, which no time has, and TMQ,";
    refuses(&call, 3, &[never, both]);
    refuses(&[&call[..], &["--skip-bad"]].concat(), 3, &[both]);
}

#[test]
fn fields_in_another_unit_than_they_say() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 3);
    let labels = folder.path().join("labels");
    run(&["label", path(&fields), "--out", path(&labels), "--quiet"]);
    for entry in fs::read_dir(&fields).expect("readable") {
        let file = entry.expect("an entry").path();
        if file.extension().is_some_and(|e| e == "nc") {
            let mut file = netcdf::append(&file).expect("opened");
            let mut pressure = file.variable_mut("PSL").expect("PSL");
            let values: Vec<f32> = pressure.get_values(..).expect("read");
            let in_hpa: Vec<f32> = values.iter().map(|pa| pa / 100.0).collect();
            pressure.put_values(&in_hpa, ..).expect("written");
        }
    }
    let words = ["PSL", "110000 Pa", "is its unit right?", "hint:"];
    let out = folder.path().join("out");
    for method in ["deepcam", "tempest", "deepcam,tempest"] {
        let label = ["label", path(&fields), "--method", method];
        refuses(&[&label[..], &["--out", path(&out)]].concat(), 3, &words);
    }
    let of = ["events", path(&labels), "--fields", path(&fields)];
    refuses(&[&of[..], &["--out", path(&out)]].concat(), 3, &words);
}

#[test]
fn what_a_shell_or_a_hurry_makes_of_a_call() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 2, 3);
    let mut entries = fs::read_dir(&fields).expect("readable");
    let file = entries
        .find_map(|entry| {
            let path = entry.expect("an entry").path();
            path.extension().is_some_and(|e| e == "nc").then_some(path)
        })
        .expect("a history file");
    // A pattern without quotes.
    let call = ["inspect", path(&file), path(&file)];
    refuses(&call, 2, &["hint:", "in quotes"]);
    // Out among what is read: nothing is written there.
    let before = fs::read_dir(&fields).expect("readable").count();
    let words = ["holds the fields", "hint:"];
    refuses(&["label", path(&fields), "--out", path(&fields)], 2, &words);
    let label = ["label", path(&fields), "--method", "tempest"];
    refuses(&[&label[..], &["--out", path(&fields)]].concat(), 2, &words);
    let truth = fields.join("truth");
    let stage = ["stage", path(&fields), "--labels", path(&truth)];
    refuses(&[&stage[..], &["--out", path(&fields)]].concat(), 2, &words);
    assert_eq!(fs::read_dir(&fields).expect("readable").count(), before);
    // A folder above that of the files; a folder instead of a model.
    let above = path(folder.path());
    refuses(&["inspect", above], 3, &["are not looked into", "hint:"]);
    let masks = folder.path().join("masks");
    let infer = ["infer", path(&fields), "--model", above, "--out"];
    refuses(
        &[&infer[..], &[path(&masks)]].concat(),
        3,
        &["best.safetensors"],
    );
    // A day that is none.
    let simulate = ["simulate", "--out", path(&masks), "--start", "2000-13-01"];
    refuses(&simulate, 2, &["--start", "2000-13-01", "hint:"]);
    // Boxes where the demo shows masks.
    let demo = ["demo", "--recipe", "detect", "--out", path(&masks)];
    refuses(&demo, 2, &["gives boxes alone", "hint:"]);
}

/// A truth has tables of the names that labels have, and masks beside those of another command make a folder unreadable.
#[test]
fn a_folder_with_the_work_of_another_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (fields, other) = (simulate(folder.path(), 1, 3), simulate(folder.path(), 1, 4));
    let (truth, others) = (fields.join("truth"), other.join("truth"));
    let before = contents(&truth, |_| false);
    let out = ["--out", path(&truth)];
    let (read, compared) = (path(&other), path(&others));
    for call in [
        &["label", read][..],
        &["label", read, "--method", "tempest"],
        &["label", path(&fields)],
        &["stage", read, "--labels", compared],
        &["simulate", "--grid", "24x36", "--days", "1"],
        &["compare", compared, compared],
        &["events", compared],
    ] {
        let words = [
            "holds masks or fields (`truth.2000-08-01-00000.nc`)",
            "hint:",
        ];
        refuses(&[call, &out].concat(), 2, &words);
    }
    assert!(contents(&truth, |_| false) == before);
    // What the command itself left there is gone on with.
    let labels = folder.path().join("labels");
    let label = ["label", path(&fields), "--out", path(&labels), "--quiet"];
    run(&label);
    run(&label);
    simulate(folder.path(), 1, 3);
    let events = ["events", compared, "--out", path(&labels)];
    refuses(&events, 2, &["holds masks or fields (`labels."]);
}

#[test]
fn a_folder_that_another_process_writes_into() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 3);
    let truth = fields.join("truth");
    let out = folder.path().join("out");
    let held = squall_jobs::lock::FolderLock::take(&out).expect("free");
    let words = ["is in use by another process", "hint:"];
    let label = ["label", path(&fields), "--out", path(&out)];
    refuses(&label, 5, &words);
    refuses(&[&label[..], &["--method", "tempest"]].concat(), 5, &words);
    refuses(&["events", path(&truth), "--out", path(&out)], 5, &words);
    let stage = ["stage", path(&fields), "--labels", path(&truth)];
    refuses(&[&stage[..], &["--out", path(&out)]].concat(), 5, &words);
    let simulate = ["simulate", "--grid", "48x72", "--days", "1"];
    refuses(&[&simulate[..], &["--out", path(&out)]].concat(), 5, &words);
    drop(held);
    let free = squall()
        .args(label)
        .arg("--quiet")
        .env("SLURM_JOB_ID", "4711")
        .output();
    let free = free.expect("the program starts");
    assert!(free.status.success(), "{}", text(&free));
    let holder = fs::read_to_string(out.join(".lock")).expect("a lock");
    assert!(holder.ends_with(", job 4711\n"), "{holder}");
}

#[test]
fn recipes_with_mistakes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recipe = folder.path().join("recipe.toml");
    let train = [
        "train",
        "--recipe",
        path(&recipe),
        "--data",
        "store",
        "--out",
        "run",
    ];
    fs::write(&recipe, "name = \"x\"\nlearning_rat = 0.1\n").expect("written");
    refuses(&train, 2, &["recipe.toml", "learning_rat"]);
    fs::write(&recipe, "name = [").expect("written");
    refuses(&train, 2, &["recipe.toml"]);
    refuses(
        &[
            "train",
            "--recipe",
            "no-such.toml",
            "--data",
            "store",
            "--out",
            "run",
        ],
        2,
        &["no-such.toml"],
    );
    refuses(
        &[
            "train", "--recipe", "small", "--data", "no-store", "--out", "run",
        ],
        3,
        &["no-store", "hint:", "squall stage"],
    );
    refuses(&["summary", "resnet"], 2, &["deeplabv3plus"]);
}

#[test]
fn a_model_that_does_not_fit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 4);
    let model = folder.path().join("model.safetensors");
    fs::write(&model, b"not a model").expect("written");
    let out = folder.path().join("masks");
    refuses(
        &[
            "infer",
            path(&fields),
            "--model",
            path(&model),
            "--out",
            path(&out),
        ],
        3,
        &["model.safetensors"],
    );
    let call = ["infer", path(&fields), "--model", path(&model), "--out"];
    let strips = [path(&out), "--strips", "3", "--memory", "0.1"];
    let words = ["--memory is for --strips auto", "hint:"];
    refuses(&[&call[..], &strips].concat(), 2, &words);
}

#[test]
fn every_stress_file_is_described_or_refused() {
    let Some(folder) = real("netcdf-stress") else {
        return;
    };
    let mut seen = 0;
    for entry in fs::read_dir(folder).expect("readable") {
        let file = entry.expect("an entry").path();
        if file.extension().is_some_and(|e| e == "md") {
            continue;
        }
        let output = squall()
            .args(["inspect", path(&file), "--json"])
            .output()
            .expect("starts");
        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | 3)),
            "{}: {code:?}\n{}",
            file.display(),
            text(&output)
        );
        if code == Some(0) {
            let json: serde_json::Value =
                serde_json::from_slice(&output.stdout).expect("one JSON document");
            assert!(json.get("makes").is_some(), "{}: {json}", file.display());
        }
        seen += 1;
    }
    assert!(seen > 10, "only {seen} files");
}

#[test]
fn help_is_there_for_every_command() {
    let help = run(&["--help"]);
    for command in [
        "simulate", "inspect", "label", "stage", "train", "infer", "events", "score", "report",
        "summary", "bench", "demo",
    ] {
        assert!(help.contains(command), "{command} is missing in:\n{help}");
        assert!(run(&[command, "--help"]).contains("Usage:"));
    }
}
