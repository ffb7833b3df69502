//! Scripts of `validation`, with a program that only writes down what it is asked for: what they do in a folder that
//! holds something already. And `run.sh`, with an `apt-get` that fails.
#![cfg(target_os = "linux")]

mod common;

use common::{Need, lacks, text};
use ndarray::array;
use squall_validation::{Confusion, SegmentationScorer};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with a program that fails where its second argument is `stage`.
struct Place {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = folder.path().join("program.sh");
        let asked = folder.path().join("asked");
        let lines = format!(
            "#!/bin/sh\necho \"$*\" >> '{}'\n[ \"$2\" != stage ] || exit 9\n",
            asked.display()
        );
        fs::write(&program, lines).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        Self { folder, program }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a script in the folder; `None` where there is no bash.
    fn run(&self, script: &str, arguments: &[&str], seed: &str) -> Option<Output> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../validation")
            .join(script);
        let output = Command::new("bash")
            .arg(script)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("SQUALL", &self.program)
            .env("CENTURY", &self.program)
            .env("SEED", seed)
            .env_remove("STEPS")
            .env_remove("LEARN")
            .output();
        if output.is_err() {
            lacks(Need::Bash, "bash");
        }
        output.ok()
    }

    /// What the program was asked for.
    fn asked(&self) -> String {
        fs::read_to_string(self.at("asked")).unwrap_or_default()
    }
}

/// A folder is there as soon as a run begins: of one that was killed a part was learnt from.
#[test]
fn a_run_that_was_killed_is_finished_before_it_is_learnt_from() {
    for script in ["boxes.sh", "semi_supervised.sh"] {
        let place = Place::new();
        for name in ["seen", "unseen", "store"] {
            fs::create_dir_all(place.at("of boxes").join(name)).expect("a folder");
        }
        let Some(output) = place.run(script, &["of boxes"], "1") else {
            return;
        };
        assert_eq!(output.status.code(), Some(9), "{}", text(&output));
        let out = place.at("of boxes").canonicalize().expect("a folder");
        let asked = place.asked();
        for words in ["simulate --out OUT/seen", "simulate --out OUT/unseen"] {
            let words = words.replace("OUT", common::path(&out));
            assert!(asked.contains(&words), "no `{words}`: {asked}");
        }
    }
}

/// They were told as those of the seed that was asked for.
#[test]
fn results_of_another_experiment_are_not_told_as_those_of_this_one() {
    let place = Place::new();
    let call = |seed| place.run("perfect_model.sh", &["out", "2", "24x36"], seed);
    let Some(first) = call("11") else {
        return;
    };
    assert!(!first.status.success(), "{}", text(&first));
    let before = place.asked();
    let other = call("29").expect("bash");
    assert_eq!(other.status.code(), Some(2), "{}", text(&other));
    assert!(text(&other).contains("seed 11"), "{}", text(&other));
    assert_eq!(place.asked(), before);
    // The same goes on.
    let again = call("11").expect("bash");
    assert_ne!(again.status.code(), Some(2), "{}", text(&again));
    assert!(place.asked().len() > before.len());
}

/// With a column more in the table of pixels the number of true boxes was taken for the overlap of rivers.
#[test]
fn thresholds_are_fitted_to_the_overlap_of_rivers() {
    let place = Place::new();
    let (truth, predicted) = (array![[2_u8, 2, 0, 0]], array![[2_u8, 0, 0, 0]]);
    let mut scorer = SegmentationScorer::new();
    scorer.add(&Confusion::of_codes(truth.view(), predicted.view(), &[1.0]).expect("one row"));
    let pixels = scorer.score().expect("one sample was added");
    let boxes = "atmospheric_river  503  39  0.0775  0.0165  0.0063";
    let scores = place.at("scores");
    fs::write(&scores, format!("masks:\n{pixels}\n\nboxes:\n{boxes}\n")).expect("written");
    let mut lines = fs::read_to_string(&place.program).expect("the program");
    lines += &format!("[ \"$2\" != score ] || cat '{}'\n", scores.display());
    fs::write(&place.program, lines).expect("written");
    let Some(output) = place.run("perfect_model.sh", &["out", "2", "24x36"], "11") else {
        return;
    };
    let fitted = fs::read_to_string(place.at("out/fit.csv")).expect("a table");
    let rows: Vec<&str> = fitted.lines().skip(1).collect();
    assert_eq!(
        rows.first(),
        Some(&"2,16,0.5000,0.5000"),
        "{}",
        text(&output)
    );
}

/// Those of the grid before were followed under the name of this one.
#[test]
fn river_masks_of_another_grid_are_made_anew() {
    let place = Place::new();
    let call = |grid| place.run("century.sh", &["out", "1", "24x36", "24", grid], "1");
    for (grid, made) in [("181x288", 1), ("181x288", 1), ("91x144", 2)] {
        let Some(output) = call(grid) else {
            return;
        };
        let asked = place.asked();
        let rivers = asked.lines().filter(|line| line.starts_with("rivers "));
        assert_eq!(rivers.count(), made, "{asked}\n{}", text(&output));
    }
    assert!(place.asked().contains("rivers 91 144 40 6 rivers"));
}

/// Left of `&&` a failed command of `setup` was passed over: it went on with the package lists of before.
#[test]
fn nothing_is_built_where_setup_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let asked = folder.path().join("asked");
    // No package is there; only the update of their lists fails.
    for (name, line) in [
        ("apt-get", "[ \"$1\" != update ] || exit 100"),
        ("dpkg-query", "exit 1"),
        ("id", "echo 0"),
        ("cargo", ""),
        ("python3", "exit 1"),
    ] {
        let program = folder.path().join(name);
        let lines = format!(
            "#!/bin/sh\necho \"{name} $*\" >> '{}'\n{line}\n",
            asked.display()
        );
        fs::write(&program, lines).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    }
    let others = std::env::var("PATH").unwrap_or_default();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../run.sh");
    for command in ["setup", "lint", "onednn-v3-test", "mpi-test"] {
        fs::write(&asked, "").expect("written");
        let output = Command::new("bash")
            .arg(&script)
            .arg(command)
            .env("PATH", format!("{}:{others}", folder.path().display()))
            .output()
            .expect("bash starts");
        let asked = fs::read_to_string(&asked).expect("what was asked for");
        let said = format!("{command}: {}\n{asked}", text(&output));
        assert_eq!(output.status.code(), Some(100), "{said}");
        assert!(asked.contains("apt-get update"), "{said}");
        for unasked in ["apt-get install", "cargo", "python3"] {
            assert!(!asked.contains(unasked), "{said}");
        }
    }
}
