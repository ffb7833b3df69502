//! `squall infer` and `squall events` under `mpirun`: the files of one process, whatever the number of ranks.
//!
//! Where there is no `mpirun` the tests are skipped. Ranks that are killed: `validation/kill_jobs.sh`.
#![cfg(feature = "mpi")]

mod common;

use common::{Need, contents, lacks, mpirun, path, run, simulate, squall, stage, text};
use squall_jobs::lock::FolderLock;
use std::fs;
use std::path::Path;
use std::process::Command;

const RECIPE: &str = r#"
name = "ranks"
seed = 7

[training]
batch = 2
steps = 6
validate_every_steps = 6

[network]
name = "deeplabv3plus-bilinear"
width = 0.125
blocks = [1, 1, 1]
atrous_rates = [2, 4]
"#;

/// Runs a command as so many ranks and demands success; whether there was a launcher.
fn run_as(ranks: &str, arguments: &[&str]) -> bool {
    output_as(ranks, arguments).is_some()
}

/// What a command says as so many ranks, of which success is demanded; none where there is no launcher.
fn output_as(ranks: &str, arguments: &[&str]) -> Option<String> {
    let mut command = mpirun();
    command.args(["-n", ranks, env!("CARGO_BIN_EXE_squall")]);
    let Ok(output) = command.args(arguments).output() else {
        lacks(Need::Mpirun, "mpirun");
        return None;
    };
    assert!(
        output.status.success(),
        "{ranks} ranks, {}: {:?}\n{}",
        arguments.join(" "),
        output.status.code(),
        text(&output)
    );
    Some(text(&output))
}

/// Two folders hold the same files, but for locks and what tells how long things took.
fn assert_same(what: &str, one: &Path, many: &Path) {
    let timed = |name: &str| name.ends_with("lock") || name.contains("timing");
    let (one, many) = (contents(one, timed), contents(many, timed));
    let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
        files.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&one), names(&many), "{what}");
    for ((name, one), (_, many)) in one.iter().zip(&many) {
        assert!(one == many, "{what}: {name} differs");
    }
}

#[test]
fn masks_and_events_do_not_depend_on_the_number_of_ranks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 6, 1);
    let truth = fields.join("truth");
    fs::write(at("recipe.toml"), RECIPE).expect("written");
    let (store, recipe, trained) = (at("store"), at("recipe.toml"), at("trained"));
    stage(&fields, &truth, &store, &[]);
    run(&[
        "train",
        "--recipe",
        path(&recipe),
        "--data",
        path(&store),
        "--out",
        path(&trained),
        "-q",
    ]);
    let model = trained.join("best.safetensors");
    let (one, many) = (at("masks"), at("masks-of-3"));
    let infer = [
        "infer",
        path(&fields),
        "--model",
        path(&model),
        "--probabilities",
        "-q",
    ];
    run(&[&infer[..], &["--out", path(&one)]].concat());
    let infer_many = [&infer[..], &["--out", path(&many)]].concat();
    if !run_as("3", &infer_many) {
        return;
    }
    assert_same("masks by 3 ranks", &one, &many);
    // Some are lost, and another number of ranks makes them again.
    let files = fs::read_dir(&many).expect("masks").flatten();
    let masks = files.map(|entry| entry.path()).filter(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("masks.")
    });
    let lost = masks
        .take(2)
        .map(|file| fs::remove_file(file).expect("removed"));
    assert_eq!(lost.count(), 2);
    assert!(run_as("2", &infer_many));
    assert_same("masks by 2 ranks after a loss", &one, &many);

    let (one, many) = (at("events"), at("events-of-3"));
    let events = [
        "events",
        path(&truth),
        "--fields",
        path(&fields),
        "--object-id",
        "-q",
    ];
    run(&[&events[..], &["--out", path(&one)]].concat());
    assert!(run_as(
        "3",
        &[&events[..], &["--out", path(&many)]].concat()
    ));
    assert_same("events by 3 ranks", &one, &many);
}

/// Each of them said it.
#[test]
fn ranks_are_warned_of_too_many_threads_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let none = folder.path().join("none");
    let mut command = mpirun();
    command.args(["-n", "2", env!("CARGO_BIN_EXE_squall"), "infer"]);
    command.args([path(&none), "--model", path(&none), "--out", path(&none)]);
    let Ok(output) = command.env("OMP_NUM_THREADS", "4096").output() else {
        lacks(Need::Mpirun, "mpirun");
        return;
    };
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    assert_eq!(said.matches("asks for 4096 threads").count(), 1, "{said}");
}

/// A file system that was slow to give the first rank its checkpoint or model ended the job at each start.
#[test]
fn files_may_take_longer_to_read_than_ranks_wait_for_each_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 6, 1);
    fs::write(at("recipe.toml"), RECIPE).expect("written");
    let (store, recipe) = (at("store"), at("recipe.toml"));
    stage(&fields, &fields.join("truth"), &store, &[]);
    let train = |out: &Path, act: &dyn Fn(&[&str]), more: &[&str]| {
        let call = ["train", "--recipe", path(&recipe), "--data", path(&store)];
        act(&[&call[..], &["--out", path(out), "-q"], more].concat());
    };
    let first = at("first");
    train(&first, &|call| drop(run(call)), &[]);
    let (model, slow) = (first.join("last.safetensors"), at("slow.safetensors"));
    let made = Command::new("mkfifo").arg(&slow).status();
    assert!(made.expect("mkfifo starts").success());
    // The shell opens the pipe when the program does.
    let script = r#"{ sleep 8; cat "$1"; } > "$2""#;
    let mut writer = Command::new("sh")
        .args(["-c", script, "sh", path(&model), path(&slow)])
        .spawn()
        .expect("sh starts");
    let start = format!("training.start_from={}", path(&slow));
    let limit = "distributed.stall_seconds=5";
    let more = ["--set", start.as_str(), "--set", limit];
    train(&at("second"), &|call| drop(output_as("2", call)), &more);
    // Where there is no launcher it still waits for a reader.
    let _ = writer.kill();
    writer.wait().expect("sh ends");
}

/// Cells without a number, in a file that not all ranks read, are told once and as one rank tells them.
#[test]
fn missing_cells_of_all_ranks_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 6, 1);
    let entries = fs::read_dir(&fields).expect("fields").flatten();
    let files = entries.map(|entry| entry.path());
    let last = files.filter(|file| file.extension().is_some_and(|kind| kind == "nc"));
    let mut file = netcdf::append(last.max().expect("a file")).expect("opened");
    let mut water = file.variable_mut("TMQ").expect("column water");
    let mut values: Vec<f32> = water.get_values(..).expect("read");
    values
        .iter_mut()
        .step_by(10)
        .for_each(|value| *value = f32::NAN);
    water.put_values(&values, ..).expect("written");
    file.close().expect("closed");
    let told = |ranks: &str| -> Option<Vec<String>> {
        let (truth, out) = (fields.join("truth"), folder.path().join(ranks));
        let events = ["events", path(&truth), "--fields", path(&fields), "--out"];
        let said = output_as(ranks, &[&events[..], &[path(&out)]].concat())?;
        let is_it = |line: &&str| line.contains("of the fields are missing");
        Some(said.lines().filter(is_it).map(str::to_string).collect())
    };
    let (Some(one), Some(three)) = (told("1"), told("3")) else {
        return;
    };
    assert_eq!(one.len(), 1, "{one:?}");
    assert!(one[0].contains("of TMQ"), "{one:?}");
    let sentence = |line: &str| line.split("WARN").last().map(str::to_string);
    assert_eq!(three.len(), 1, "{three:?}");
    assert_eq!(sentence(&one[0]), sentence(&three[0]));
}

/// The rank that knows why a job fails says so before the others say that one has failed.
#[test]
fn a_file_that_cannot_be_read_is_named_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 6, 1);
    let entries = fs::read_dir(&fields).expect("fields").flatten();
    let files = entries.map(|entry| entry.path());
    let last = files.filter(|file| file.extension().is_some_and(|kind| kind == "nc"));
    let last = last.max().expect("a file");
    let file = fs::File::options().write(true).open(&last);
    (file.expect("opened").set_len(60_000)).expect("cut short");
    let (truth, out) = (fields.join("truth"), folder.path().join("events"));
    let mut command = mpirun();
    command.args([
        "-n",
        "3",
        env!("CARGO_BIN_EXE_squall"),
        "events",
        path(&truth),
    ]);
    command.args(["--fields", path(&fields), "--out", path(&out)]);
    let Ok(output) = command.output() else {
        return lacks(Need::Mpirun, "mpirun");
    };
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    let why = said.find("cannot read").expect("the reason");
    let others = said.find("another rank failed");
    assert!(others.is_none_or(|others| why < others), "{said}");
}

/// What is wrong for all ranks is said once.
#[test]
fn an_error_of_all_ranks_is_said_by_the_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("run");
    // The ranks of a training talk to each other, those of a search do not.
    for (name, change, code, words) in [
        (
            "train",
            ["--set", "training.btch=2"],
            2,
            "unknown key `btch`",
        ),
        (
            "tune",
            ["--vary", "schedule.rate=1e-4,1e-3"],
            3,
            "is no sample store",
        ),
    ] {
        let mut command = mpirun();
        command.args(["-n", "3", env!("CARGO_BIN_EXE_squall"), name]);
        command.args([
            "--recipe",
            "small",
            "--data",
            "no store",
            "--out",
            path(&out),
        ]);
        command.args(change);
        let Ok(output) = command.output() else {
            return lacks(Need::Mpirun, "mpirun");
        };
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{name}: {said}");
        assert_eq!(said.matches(words).count(), 1, "{name}: {said}");
    }
}

/// A command that works in one process: one of two that a launcher starts takes the folder, the other says what to do.
#[test]
fn a_command_of_one_process_says_so_where_several_are_started() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = simulate(folder.path(), 1, 9);
    let out = folder.path().join("labels");
    // The first rank is at work.
    let _taken = FolderLock::take(&out).expect("nobody else has it");
    let mut second = squall();
    second
        .args(["label", path(&run), "--out", path(&out)])
        .env("OMPI_COMM_WORLD_RANK", "1")
        .env("OMPI_COMM_WORLD_SIZE", "2");
    let output = second.output().expect("it starts");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("work in one process"), "{said}");
}

/// A document that is printed once by each rank is none.
#[test]
fn only_the_first_rank_prints_documents() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 1, 9);
    // As a launcher starts them.
    let as_rank = |rank: &str, arguments: &[&str]| {
        let mut command = squall();
        command
            .args(arguments)
            .env("OMPI_COMM_WORLD_RANK", rank)
            .env("OMPI_COMM_WORLD_SIZE", "2");
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", text(&output));
        output.stdout
    };
    let truth = fields.join("truth");
    let score = ["score", "--prediction", path(&truth), "--truth"];
    let score = [&score[..], &[path(&truth), "--json"]].concat();
    for call in [&["inspect", path(&fields), "--json"][..], &score[..]] {
        let told = as_rank("0", call);
        let document = serde_json::from_slice::<serde_json::Value>(&told);
        assert!(document.is_ok(), "{call:?}: {document:?}");
        assert!(as_rank("1", call).is_empty(), "{call:?}");
    }
    // A task that writes a file of its own has its own work.
    let file = folder.path().join("own.json");
    let mut command = squall();
    command
        .args(["inspect", path(&fields), "--json"])
        .env("OMPI_COMM_WORLD_RANK", "1")
        .env("OMPI_COMM_WORLD_SIZE", "2")
        .stdout(fs::File::create(&file).expect("a file"));
    assert!(command.status().expect("it starts").success());
    let told = fs::read(&file).expect("read");
    assert!(serde_json::from_slice::<serde_json::Value>(&told).is_ok());
}

/// Whoever of several ranks comes second leaves the work to the first, whose launcher would else end the job.
#[test]
fn one_of_several_ranks_compares() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 40, 9);
    let truth = fields.join("truth");
    let (events, other) = (at("events"), at("other"));
    for out in [&events, &other] {
        run(&["events", path(&truth), "--out", path(out), "-q"]);
    }
    let changes = at("changes");
    let call = [
        "compare",
        path(&events),
        path(&other),
        "--out",
        path(&changes),
    ];
    if run_as("3", &call) {
        assert!(changes.join("changes.csv").is_file());
    }
}
