//! `squall train` under `mpirun`, where a rank of one of several groups cannot go on.
//!
//! Where there is no `mpirun` the tests are skipped.
#![cfg(feature = "mpi")]

mod common;

use common::{Need, lacks, mpirun, path, run, simulate, stage, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const STEPS: usize = 40;

const RECIPE: &str = r#"
name = "lost-group"

[training]
batch = 2
validate_every_steps = 10
checkpoint_every_steps = 10

[network]
name = "deeplabv3plus-bilinear"
width = 0.125
blocks = [1, 1, 1]
atrous_rates = [2, 4]

[distributed]
groups = 2
servers = 2
stall_seconds = 60
"#;

/// GOOD OTHER RANKS COMMAND...: what a rank runs, with the other store if it is one of these ranks. One program for all
/// of them: the mpirun of Debian 13 (Open MPI 5.0.7) crashes where several are given.
const RANK: &str = r#"
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} store=$1
case " $3 " in *" $rank "*) store=$2 ;; esac
shift 3
exec "$@" --data "$store"
"#;

/// A store, damaged copies of it, and a recipe for two servers and two groups of two ranks.
struct Prepared {
    folder: tempfile::TempDir,
    fields: PathBuf,
    good: PathBuf,
    /// Every second sample is damaged: whoever reads a few meets one.
    bad: PathBuf,
    /// Those of validation are.
    blind: PathBuf,
    recipe: PathBuf,
}

fn prepare() -> Prepared {
    let folder = tempfile::tempdir().expect("a folder");
    let fields = simulate(folder.path(), 12, 1);
    let good = folder.path().join("good");
    let truth = fields.join("truth");
    stage(&fields, &truth, &good, &[]);
    let splits = splits(&good);
    let bad = folder.path().join("bad");
    copy_damaged(&good, &bad, |sample| sample % 2 == 1);
    let blind = folder.path().join("blind");
    copy_damaged(&good, &blind, |sample| splits[sample] == "validation");
    let recipe = folder.path().join("recipe.toml");
    fs::write(&recipe, RECIPE).expect("is written");
    Prepared {
        folder,
        fields,
        good,
        bad,
        blind,
        recipe,
    }
}

/// The part of the data that each sample of a store is of.
fn splits(store: &Path) -> Vec<String> {
    let text = fs::read(store.join("store.json")).expect("a store");
    let meta: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let samples = meta["samples"].as_array().expect("samples");
    let split = |sample: &serde_json::Value| sample["split"].as_str().expect("a name").to_string();
    samples.iter().map(split).collect()
}

/// Copies a store of one file and inverts a byte in the midst of each of these samples.
fn copy_damaged(good: &Path, bad: &Path, damaged: impl Fn(usize) -> bool) {
    fs::create_dir(bad).expect("a folder");
    let samples = splits(good).len();
    for entry in fs::read_dir(good).expect("a store") {
        let from = entry.expect("a file").path();
        let mut bytes = fs::read(&from).expect("is read");
        if from.extension().is_some_and(|end| end == "bin") {
            let length = bytes.len();
            for sample in (0..samples).filter(|sample| damaged(*sample)) {
                let at = length * (2 * sample + 1) / (2 * samples);
                bytes[at] = !bytes[at];
            }
        }
        fs::write(bad.join(from.file_name().expect("a name")), bytes).expect("is written");
    }
}

impl Prepared {
    fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Six ranks, of which those in `bad` have another store, and which only warn; none without a launcher.
    fn train(&self, name: &str, settings: &[&str], bad: &[usize], other: &Path) -> Option<Output> {
        let mut command = mpirun();
        command.args(["-n", "6", "sh", "-c", RANK, "sh"]);
        let bad: Vec<String> = bad.iter().map(usize::to_string).collect();
        command.args([path(&self.good), path(other), &bad.join(" ")]);
        command.args([env!("CARGO_BIN_EXE_squall"), "train", "-q", "--recipe"]);
        command.args([path(&self.recipe), "--out", path(&self.out(name))]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        let output = command.output().ok();
        if output.is_none() {
            lacks(Need::Mpirun, "mpirun");
        }
        output
    }

    /// How many steps the run's file of metrics knows.
    fn steps(&self, name: &str) -> usize {
        self.metrics(name, r#""kind":"step""#)
    }

    /// How many lines of the run's file of metrics have these words.
    fn metrics(&self, name: &str, words: &str) -> usize {
        let metrics = self.out(name).join("metrics.jsonl");
        let lines = fs::read_to_string(metrics).expect("metrics");
        lines.lines().filter(|line| line.contains(words)).count()
    }
}

/// Whoever of a group fails, in whatever order groups are served: the error is told, the other group does all steps,
/// and the job succeeds.
#[test]
fn a_rank_that_fails_takes_its_group_with_it_and_nobody_else() {
    let prepared = prepare();
    let steps = format!("training.steps={STEPS}");
    for (name, order, rank) in [
        ("member", "arrival", 5),
        ("leader", "arrival", 2),
        ("in-turns", "round-robin", 3),
    ] {
        let order = format!("distributed.order={order}");
        let Some(output) = prepared.train(name, &[&steps, &order], &[rank], &prepared.bad) else {
            return;
        };
        let said = text(&output);
        assert!(output.status.success(), "{name}: {}\n{said}", output.status);
        let group = (rank - 2) / 2;
        for words in [
            "error: this rank gives up, and its group with it",
            "because: ",
            "hint: delete the damaged file",
            &format!("group {group} is lost"),
            "of its group",
        ] {
            assert!(said.contains(words), "{name}: no `{words}` in {said}");
        }
        assert_eq!(prepared.steps(name), STEPS, "{name}: {said}");
        let best = prepared.out(name).join("best.safetensors");
        let masks = prepared.out(&format!("{name}-masks"));
        run(&[
            "infer",
            path(&prepared.fields),
            "--model",
            path(&best),
            "--out",
            path(&masks),
            "--quiet",
        ]);
    }
}

/// Where all groups are lost what was done is kept, the job fails, and the same call with whole data does the rest.
#[test]
fn a_job_without_groups_fails_and_goes_on_when_called_again() {
    let prepared = prepare();
    let steps = format!("training.steps={STEPS}");
    let Some(output) = prepared.train("all", &[&steps], &[3, 4], &prepared.bad) else {
        return;
    };
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("no group is left after"), "{said}");
    let output = prepared
        .train("all", &[&steps], &[], &prepared.bad)
        .expect("a launcher");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(prepared.steps("all"), STEPS);
}

/// The first ranks of both groups and the servers know the same of the recipe.
#[test]
fn warnings_on_a_recipe_with_groups_appear_once() {
    let prepared = prepare();
    let settings = ["training.steps=2", "schedule.warmup_steps=2"];
    let Some(output) = prepared.train("warned", &settings, &[], &prepared.bad) else {
        return;
    };
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let warning = "`schedule.warmup_steps` is 2 and the run has 2 steps";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
}

/// The processes of a run under the launcher, of this rank.
#[cfg(target_os = "linux")]
fn process_of(rank: usize, out: &Path) -> Option<u32> {
    let is_it = |pid: &u32| {
        let file = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let words = |text: Vec<u8>| -> Vec<String> {
            let all = text.split(|byte| *byte == 0);
            all.map(|word| String::from_utf8_lossy(word).into_owned())
                .collect()
        };
        let own = words(file("environ")).iter().any(|entry| {
            let name = entry.split_once('=');
            name.is_some_and(|(name, value)| {
                ["OMPI_COMM_WORLD_RANK", "PMI_RANK"].contains(&name) && value == rank.to_string()
            })
        });
        own && words(file("cmdline")).iter().any(|word| word == path(out))
    };
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let mut all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.find(is_it)
}

/// Stops a rank after the first checkpoint of a job and judges what comes of it.
#[cfg(target_os = "linux")]
fn stop_and_judge(prepared: &Prepared, name: &str, rank: usize) {
    let settings = ["training.steps=150", "distributed.stall_seconds=4"];
    let out = prepared.out(name);
    let (output, stopped) = std::thread::scope(|scope| {
        let job = scope.spawn(|| prepared.train(name, &settings, &[], &prepared.bad));
        while !job.is_finished() && !out.join("checkpoint.safetensors").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let process = process_of(rank, &out);
        let stopped = process.is_some_and(|process| {
            // The shell's own `kill`: a small system has no program of that name.
            let kill = format!("kill -STOP {process}");
            let status = Command::new("sh").args(["-c", &kill]).status();
            status.is_ok_and(|status| status.success())
        });
        (job.join().expect("ends"), stopped)
    });
    let Some(output) = output else {
        return;
    };
    let said = text(&output);
    assert!(stopped, "rank {rank} was not found: {said}");
    assert_eq!(output.status.code(), Some(102), "{name}: {said}");
    let group = (rank - 2) / 2;
    for words in [
        &format!("group {group} is lost"),
        "will not come to the end of the job",
        "the end, where all ranks meet",
    ] {
        assert!(said.contains(words), "{name}: no `{words}` in {said}");
    }
    assert_eq!(prepared.steps(name), 150, "{name}: {said}");
    // The run is finished: once more, and nothing is left to do.
    let again = prepared
        .train(name, &settings, &[], &prepared.bad)
        .expect("a launcher");
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(prepared.steps(name), 150);
}

/// A stopped leader or member never comes to the end: all steps are done, and the job says what is missing and ends by
/// force. Both jobs at once: most of their time is waiting.
#[cfg(target_os = "linux")]
#[test]
fn a_stopped_rank_costs_its_group_and_the_end() {
    let prepared = &prepare();
    std::thread::scope(|scope| {
        for (name, rank) in [("stopped-member", 5), ("stopped-leader", 2)] {
            scope.spawn(move || stop_and_judge(prepared, name, rank));
        }
    });
}

/// The group that is to score the last state cannot: another does.
#[test]
fn a_validation_is_done_by_whoever_can() {
    let prepared = prepare();
    // One validation, at the end; the samples of training are whole everywhere.
    let (steps, only) = ("training.steps=12", "training.validate_every_steps=100");
    let Some(output) = prepared.train("judge", &[steps, only], &[2, 3], &prepared.blind) else {
        return;
    };
    let said = text(&output);
    assert!(output.status.success(), "{}\n{said}", output.status);
    assert!(said.contains("group 0 is lost"), "{said}");
    let scores = r#""kind":"validation","step":12,"#;
    assert_eq!(prepared.metrics("judge", scores), 1, "{said}");
    // Where nobody can, the run is not done, and says so; it is once somebody can.
    let blind = prepared.train("unscored", &[steps, only], &[2, 3, 4, 5], &prepared.blind);
    let blind = blind.expect("a launcher");
    let said = text(&blind);
    assert_eq!(blind.status.code(), Some(4), "{said}");
    assert!(said.contains("no group is left to score"), "{said}");
    let again = prepared.train("unscored", &[steps, only], &[], &prepared.blind);
    let again = again.expect("a launcher");
    assert!(again.status.success(), "{}", text(&again));
}
