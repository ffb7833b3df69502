//! `kill -9` at random moments: the same bits as an uninterrupted run. A test that fails says which number repeats its
//! moments.
#![allow(clippy::print_stdout)] // that number

mod common;

use common::{contents, path, run, simulate, squall, stage, text};
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const KILLS: usize = 10;

/// About what a few steps, a checkpoint, or opening the input takes.
const LONGEST_MOMENT: Duration = Duration::from_millis(60);

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

/// What all moments follow from: SQUALL_TEST_SEED, or else the clock.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| match std::env::var("SQUALL_TEST_SEED") {
        Ok(given) => given.parse().expect("a number"),
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("a clock after 1970").subsec_nanos().into()
        }
    })
}

/// Numbers in 0..1, scattered: others for each command and each seed.
fn scattered(command: &str) -> impl FnMut() -> f64 {
    let add = |state: u64, letter: u8| state.wrapping_mul(31).wrapping_add(letter.into());
    let mut state = command.bytes().fold(seed(), add);
    move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// Runs the command, killing it `KILLS` times a moment after it has got up to `stride` steps further, then lets it end;
/// gives how often it was alive to be killed.
///
/// What it has done is looked at, and not how long it took before: other tests may slow one run and not the next.
fn with_kills(arguments: &[&str], done: &dyn Fn() -> usize, stride: f64) -> usize {
    let (mut killed, mut scattered) = (0, scattered(arguments[0]));
    println!(
        "SQUALL_TEST_SEED={} kills `{}` like this",
        seed(),
        arguments[0]
    );
    for _ in 0..KILLS {
        let until = done() + (stride * scattered()) as usize;
        let mut child = squall()
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let mut lives = || child.try_wait().expect("waits").is_none();
        while done() < until && lives() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(LONGEST_MOMENT.mul_f64(scattered()));
        if lives() {
            child.kill().expect("is killed"); // SIGKILL
            killed += 1;
        }
        child.wait().expect("ends");
    }
    run(arguments);
    killed
}

/// Files of a folder whose names begin so.
fn count(folder: &Path, begin: &str) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let counted = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(begin));
    counted.count()
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

/// Labels into a folder, is killed once `state` is there, and gives whether the next call, which must end well, went on
/// from it.
fn goes_on(fields: &Path, out: &Path, more: &[&str], state: &str) -> bool {
    let call = [
        &[
            "label",
            path(fields),
            "--out",
            path(out),
            "--save-every",
            "0",
        ],
        more,
    ]
    .concat();
    let mut child = squall()
        .args(&call)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let state = out.join(state);
    while !state.is_file() && child.try_wait().expect("waits").is_none() {
        std::thread::yield_now();
    }
    child.kill().expect("is killed");
    child.wait().expect("ends");
    let output = squall().args(&call).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output));
    let told = text(&output);
    told.contains("labelled before: going on from there")
        && (state.ends_with("first.cbor") || !told.contains("and 0 labelled before"))
}

/// Both passes of all methods: masks, tables, and the agreement between them.
#[test]
fn several_methods_killed_anywhere_give_the_same_labels() {
    const METHODS: [&str; 2] = ["--method", "deepcam,tempest,percentile,bard,lows"];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    // Percentiles want forty times.
    let fields = simulate(folder.path(), 12, 1);
    let truth = fields.join("truth");
    let against = ["--against", path(&truth), "--quiet"];
    let label = |out: &Path, act: &dyn Fn(&[&str])| {
        let call = [
            "label",
            path(&fields),
            "--out",
            path(out),
            "--save-every",
            "0",
        ];
        act(&[&call[..], &METHODS, &against].concat());
    };
    label(&at("whole"), &|arguments| drop(run(arguments)));
    let drawn = || count(&at("killed/bard"), "labels.");
    label(&at("killed"), &|arguments| {
        let killed = with_kills(arguments, &drawn, 2.0);
        assert!(killed > 0, "no labelling lived long enough")
    });
    assert_same("labels of all methods", &at("whole"), &at("killed"), |_| {
        false
    });
    for state in ["first", "second"] {
        let file = format!(".methods.partial/{state}.cbor");
        assert!(
            (0..20).any(|try_| {
                let out = at(&format!("{state}{try_}"));
                let went_on = goes_on(
                    &fields,
                    &out,
                    &[&METHODS[..], &against[..2]].concat(),
                    &file,
                );
                assert_same("labels of all methods", &at("whole"), &out, |_| false);
                went_on
            }),
            "labelling that was left in its {state} pass never went on"
        );
    }
}

/// Masks by the climate of another run need no first pass: there is one state to go on from.
#[test]
fn labels_by_a_given_climatology_killed_anywhere_are_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 12, 1);
    let (own, whole) = (at("own"), at("whole"));
    let label = ["label", path(&fields), "--method", "percentile", "--quiet"];
    run(&[&label[..], &["--out", path(&own)]].concat());
    let given = ["--climatology", path(&own)];
    run(&[&label[..], &given, &["--out", path(&whole)]].concat());
    let more = [&label[2..4], &given].concat();
    assert!(
        (0..20).any(|try_| {
            let out = at(&format!("killed{try_}"));
            let went_on = goes_on(&fields, &out, &more, ".methods.partial/second.cbor");
            assert_same("labels by a climatology", &whole, &out, |_| false);
            went_on
        }),
        "labelling never went on"
    );
}

/// A state of another version, of whichever pass, is not passed over in silence.
#[test]
fn labelling_that_cannot_go_on_from_its_state_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fields = simulate(folder.path(), 2, 1);
    for (method, state) in [
        ("deepcam", ".label.partial/state.cbor"),
        ("tempest", ".methods.partial/first.cbor"),
        ("tempest", ".methods.partial/second.cbor"),
    ] {
        let out = tempfile::tempdir_in(folder.path()).expect("a temporary folder");
        let file = out.path().join(state);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("created");
        std::fs::write(&file, "of another version").expect("written");
        let call = [
            "label",
            path(&fields),
            "--method",
            method,
            "--out",
            path(out.path()),
        ];
        let output = squall().args(call).output().expect("starts");
        let said = text(&output);
        assert!(output.status.success(), "{said}");
        assert!(
            said.contains(&format!("{state}` is of other input")),
            "{said}"
        );
    }
}

/// Names of mask files tell their times only: what another run wrote under them meanwhile is not taken for this run's,
/// and one with other rules is refused.
#[test]
fn a_state_is_not_gone_on_from_with_masks_of_another_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 12, 1);
    // Other fields in files of the same names.
    let warmer = at("warmer");
    std::fs::create_dir(&warmer).expect("created");
    for entry in std::fs::read_dir(simulate(folder.path(), 12, 2)).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_file() {
            let name = name.replace("seed2", "seed1");
            std::fs::copy(&path, warmer.join(name)).expect("copied");
        }
    }
    let label = |fields: &Path, out: &Path, method: &str| {
        let words = [
            "label",
            path(fields),
            "--out",
            path(out),
            "--method",
            method,
            "-q",
        ];
        [&words[..], &["--save-every", "0"]]
            .concat()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let run_it = |call: &[String]| drop(run(&call.iter().map(String::as_str).collect::<Vec<_>>()));
    run_it(&label(&fields, &at("whole"), "tempest"));
    let mut was_left = false;
    for try_ in 0..20 {
        let methods = at(&format!("mixed{try_}"));
        let out = methods.join("tempest");
        let call = label(&fields, &out, "tempest");
        let mut child = squall().args(&call).spawn().expect("starts");
        let state = out.join(".methods.partial/second.cbor");
        while !state.is_file() && child.try_wait().expect("waits").is_none() {
            std::thread::yield_now();
        }
        child.kill().expect("is killed");
        child.wait().expect("ends");
        if !state.is_file() {
            continue;
        }
        was_left = true;
        let other = label(&fields, &out, "deepcam");
        let output = squall().args(&other).output().expect("starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("method was tempest, is deepcam"), "{said}");
        // With another method beside it the same folder is written to, and the state is in another one.
        run_it(&label(&warmer, &methods, "tempest,bard"));
        assert!(state.is_file(), "the first run can no more go on");
        run_it(&call);
        let others = |name: &str| !name.starts_with("labels.");
        assert_same("masks of tempest", &at("whole"), &out, others);
        break;
    }
    assert!(was_left, "no labelling was left in its second pass");
}

/// Whatever a killed run was writing: the next one leaves a folder like that of a run that nothing interrupted.
#[test]
fn what_the_killed_have_begun_is_cleared_away() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 4, 1);
    let after_kills = |out: &Path, left: &[&str], arguments: &[&str]| {
        let call = [arguments, &["--out", path(out), "--quiet"]].concat();
        run(&call);
        let whole = contents(out, |_| false);
        for name in left {
            let file = out.join(format!("{name}.1.tmp"));
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("created");
            std::fs::write(file, "half").expect("written");
        }
        run(&call);
        let names = |files: Vec<(String, Vec<u8>)>| files.into_iter().map(|(name, _)| name);
        let (whole, again): (Vec<_>, Vec<_>) = (
            names(whole).collect(),
            names(contents(out, |_| false)).collect(),
        );
        assert_eq!(whole, again, "{}", arguments[0]);
    };
    let tables = ["..labels.run", ".labels.2000-08-01-00000.nc", ".boxes.csv"];
    let label = ["label", path(&fields)];
    after_kills(&at("labels"), &tables, &label);
    let methods = ["label", path(&fields), "--method", "tempest,deepcam"];
    let left = ["tempest/..labels.run", ".agreement.csv"];
    after_kills(&at("methods"), &left, &methods);
    let labels = at("labels");
    let events = ["events", path(&labels), "--fields", path(&fields)];
    let left = [".events.csv", ".statistics.nc", ".tracks.geojson"];
    after_kills(&at("events"), &left, &events);
    let left = [
        ".squall_present_seed3.cam.h2.2000-08-01-00000.nc",
        "truth/.truth.2000-08-01-00000.nc",
    ];
    let fields = ["simulate", "--grid", "32x48", "--days", "1", "--seed", "3"];
    let start = ["--start", "2000-08-01"];
    after_kills(&at("fields"), &left, &[&fields[..], &start].concat());
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
    let killed_labels = at("labels_killed");
    let label = [
        "label",
        path(&fields),
        "--out",
        path(&killed_labels),
        "--save-every",
        "0",
        "--quiet",
    ];
    let labelled = || count(&killed_labels, "labels.");
    let killed = with_kills(&label, &labelled, 2.0);
    assert!(killed > 0, "no labelling lived long enough");
    assert_same("labels", &at("labels"), &killed_labels, |_| false);
    assert!(
        (0..20).any(|try_| {
            let out = at(&format!("labels_left{try_}"));
            goes_on(&fields, &out, &[], ".label.partial/state.cbor")
        }),
        "labelling that was left never went on"
    );
    stage(&fields, &at("labels"), &at("store"), &[]);

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
    train(&at("whole"), &|arguments| drop(run(arguments)));
    let steps = || {
        let metrics = std::fs::read_to_string(at("killed/metrics.jsonl")).unwrap_or_default();
        metrics.lines().count()
    };
    train(&at("killed"), &|arguments| {
        let killed = with_kills(arguments, &steps, 12.0);
        assert!(killed > 0, "no training lived long enough")
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
    infer(&at("masks"), &|arguments| drop(run(arguments)));
    let files = || count(&at("masks_killed"), "masks.");
    infer(&at("masks_killed"), &|arguments| {
        let killed = with_kills(arguments, &files, 2.0);
        assert!(killed > 0, "no inference lived long enough")
    });
    assert_same("inference", &at("masks"), &at("masks_killed"), timed);
}
