//! `kill -9` at random moments: the same bits as an uninterrupted run.

mod common;

use common::{contents, path, run, simulate, squall};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const KILLS: usize = 10;

const RECIPE: &str = r#"
name = "kill-test"
seed = 7

[training]
batch = 2
steps = 60
validate_every_steps = 15
checkpoint_every_steps = 5

[network]
name = "deeplabv3plus-bilinear"
width = 0.125
blocks = [1, 1, 1]
atrous_rates = [2, 4]
"#;

/// Fractions of a run at which it is killed: scattered, different on each run of the test, printed when it fails.
fn moments() -> Vec<f64> {
    let mut state = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a clock after 1970")
        .subsec_nanos() as u64;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    (0..KILLS).map(|_| next()).collect()
}

/// Runs the command, killing it `KILLS` times after random parts of `whole`, then lets it end.
fn with_kills(arguments: &[&str], whole: Duration) -> usize {
    let mut killed = 0;
    for part in moments() {
        let mut child = squall()
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let until = Instant::now() + whole.mul_f64(part * 0.6);
        while Instant::now() < until && child.try_wait().expect("waits").is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        if child.try_wait().expect("waits").is_none() {
            child.kill().expect("is killed"); // SIGKILL
            killed += 1;
        }
        child.wait().expect("ends");
    }
    run(arguments);
    killed
}

fn assert_same(kind: &str, a: &Path, b: &Path, skip: fn(&str) -> bool) {
    let (a, b) = (contents(a, skip), contents(b, skip));
    let names = |files: &[(String, Vec<u8>)]| {
        files
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&a), names(&b), "{kind}: the files differ");
    for ((name, a), (_, b)) in a.iter().zip(&b) {
        assert!(
            a == b,
            "{kind}: {name} differs after kills ({} and {} bytes)",
            a.len(),
            b.len()
        );
    }
}

#[test]
fn training_and_inference_killed_anywhere_give_the_same_bits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 5, 1);
    std::fs::write(at("recipe.toml"), RECIPE).expect("written");
    run(&[
        "label",
        path(&fields),
        "--out",
        path(&at("labels")),
        "--quiet",
    ]);
    run(&[
        "stage",
        path(&fields),
        "--labels",
        path(&at("labels")),
        "--out",
        path(&at("store")),
        "--quiet",
    ]);

    let (recipe, store) = (at("recipe.toml"), at("store"));
    let train = |out: &Path, act: &dyn Fn(&[&str])| {
        act(&[
            "train",
            "--recipe",
            path(&recipe),
            "--data",
            path(&store),
            "--out",
            path(out),
            "--quiet",
        ]);
    };
    let started = Instant::now();
    train(&at("whole"), &|arguments| drop(run(arguments)));
    let whole = started.elapsed();
    train(&at("killed"), &|arguments| {
        assert!(with_kills(arguments, whole) > 0, "no run lived long enough")
    });
    // What may differ: times of the clock, TensorBoard's time stamps, and where the last call began (run.json).
    let timed = |name: &str| {
        ["timing", "tfevents", "run.json"]
            .iter()
            .any(|part| name.contains(part))
            || name.ends_with("lock")
    };
    assert_same("training", &at("whole"), &at("killed"), timed);

    let model = at("whole/best.safetensors");
    let infer = |out: &Path, act: &dyn Fn(&[&str])| {
        act(&[
            "infer",
            path(&fields),
            "--model",
            path(&model),
            "--out",
            path(out),
            "--quiet",
        ]);
    };
    let started = Instant::now();
    infer(&at("masks"), &|arguments| drop(run(arguments)));
    let whole = started.elapsed();
    infer(&at("masks_killed"), &|arguments| {
        assert!(with_kills(arguments, whole) <= KILLS)
    });
    assert_same("inference", &at("masks"), &at("masks_killed"), timed);
}
