//! `squall train` under `mpirun`, where a rank of one of several groups cannot go on.
//!
//! Where there is no `mpirun` the tests say so and judge nothing.
#![cfg(feature = "mpi")]
#![allow(clippy::print_stdout)] // that nothing was judged

mod common;

use common::{path, run, simulate, text};
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

/// A store, the same with every fourth sample damaged, and a recipe for two servers and two groups of two ranks.
struct Prepared {
    folder: tempfile::TempDir,
    fields: PathBuf,
    good: PathBuf,
    bad: PathBuf,
    recipe: PathBuf,
}

fn prepare() -> Prepared {
    let folder = tempfile::tempdir().expect("a folder");
    let fields = simulate(folder.path(), 12, 1);
    let good = folder.path().join("good");
    let truth = fields.join("truth");
    run(&[
        "stage",
        path(&fields),
        "--labels",
        path(&truth),
        "--out",
        path(&good),
        "--quiet",
    ]);
    let bad = folder.path().join("bad");
    fs::create_dir(&bad).expect("a folder");
    for entry in fs::read_dir(&good).expect("a store") {
        let from = entry.expect("a file").path();
        let to = bad.join(from.file_name().expect("a name"));
        fs::copy(&from, &to).expect("is copied");
        if to.extension().is_some_and(|end| end == "bin") {
            damage(&to);
        }
    }
    let recipe = folder.path().join("recipe.toml");
    fs::write(&recipe, RECIPE).expect("is written");
    Prepared {
        folder,
        fields,
        good,
        bad,
        recipe,
    }
}

/// Inverts a byte here and there.
fn damage(file: &Path) {
    let mut open = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(file)
        .expect("opens");
    let length = open.metadata().expect("its length").len();
    for at in (length / 16..length).step_by((length / 8) as usize) {
        let mut byte = [0];
        open.seek(SeekFrom::Start(at)).expect("seeks");
        open.read_exact(&mut byte).expect("reads");
        open.seek(SeekFrom::Start(at)).expect("seeks");
        open.write_all(&[!byte[0]]).expect("writes");
    }
}

impl Prepared {
    fn out(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Six ranks, of which those in `bad` have the damaged store; none without a launcher.
    fn train(&self, name: &str, settings: &[&str], bad: &[usize]) -> Option<Output> {
        let launcher = std::env::var("MPIRUN");
        let mut command = Command::new(launcher.as_deref().unwrap_or("mpirun"));
        let out = self.out(name);
        for rank in 0..6 {
            let data = if bad.contains(&rank) {
                &self.bad
            } else {
                &self.good
            };
            if rank > 0 {
                command.arg(":");
            }
            command.args(["-n", "1", env!("CARGO_BIN_EXE_squall"), "train", "--recipe"]);
            command.args([
                path(&self.recipe),
                "--data",
                path(data),
                "--out",
                path(&out),
            ]);
            for setting in settings {
                command.args(["--set", setting]);
            }
        }
        let command = command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
            .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
            .env("OMPI_MCA_mpi_yield_when_idle", "1")
            .env("OMPI_MCA_osc", "^ucx");
        let output = command.output().ok();
        if output.is_none() {
            println!("{name}: nothing judged, there is no mpirun");
        }
        output
    }

    /// How many steps the run's file of metrics knows.
    fn steps(&self, name: &str) -> usize {
        let metrics = self.out(name).join("metrics.jsonl");
        let lines = fs::read_to_string(metrics).expect("metrics");
        let steps = lines
            .lines()
            .filter(|line| line.contains(r#""kind":"step""#));
        steps.count()
    }
}

/// Whoever of a group fails, in whatever order groups are served: the error is told, the other group does all steps, and the job succeeds.
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
        let Some(output) = prepared.train(name, &[&steps, &order], &[rank]) else {
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
            &format!("of its group"),
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
    let Some(output) = prepared.train("all", &[&steps], &[3, 4]) else {
        return;
    };
    let said = text(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("no group is left after"), "{said}");
    let output = prepared.train("all", &[&steps], &[]).expect("a launcher");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(prepared.steps("all"), STEPS);
}
