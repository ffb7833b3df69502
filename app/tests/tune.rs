//! Searching for better values of a recipe, through the program.

mod common;

use common::{path, refuses, run, simulate, squall, stage, text};
use serde_json::Value;
use squall_jobs::lock::FolderLock;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A store of a small synthetic run.
fn store(folder: &Path) -> PathBuf {
    let fields = simulate(folder, 8, 3);
    let [labels, store] = ["labels", "store"].map(|name| folder.join(name));
    run(&["label", path(&fields), "--out", path(&labels), "--quiet"]);
    stage(&fields, &labels, &store, &["--block-days", "1"]);
    store
}

/// Four trials, of which one breaks down, with these halts and steps.
fn search(store: &Path, out: &Path, halts: &str, steps: &str) -> Vec<String> {
    let of = ["tune", "--recipe", "small", "--data", path(store)];
    let search = ["--vary", "schedule.rate=1e-3,2e-3,1e25", "--halts", halts];
    let rest = [
        "--keep-one-of",
        "2",
        "--json",
        "--quiet",
        "--out",
        path(out),
    ];
    let settings = [
        steps,
        "training.batch=1",
        "precision=f32",
        "training.validation_samples=4",
        "schedule.warmup_steps=0",
    ];
    let settings = settings.into_iter().flat_map(|set| ["--set", set]);
    let words = of.into_iter().chain(search).chain(rest).chain(settings);
    words.map(String::from).collect()
}

/// Places, trials, steps and scores, which do not depend on the clock.
fn outcome(document: &str) -> (Value, Vec<[Value; 5]>) {
    let board: Value = serde_json::from_str(document).expect("JSON");
    let places = board["places"].as_array().expect("places");
    let keys = ["place", "trial", "steps", "score", "failed"];
    let rows = places
        .iter()
        .map(|place| keys.map(|key| place[key].clone()));
    (board["score"].clone(), rows.collect())
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn the_best_go_to_the_end_and_are_the_runs_of_their_recipes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (store(folder.path()), folder.path().join("tuned"));
    let command = search(&store, &out, "2", "training.steps=8");
    let said = run(&words(&command));
    let (score, rows) = outcome(&said);
    assert_eq!(score, "mean IoU");
    assert_eq!(rows.len(), 4);
    let steps: Vec<_> = rows
        .iter()
        .map(|row| row[2].as_u64().expect("steps"))
        .collect();
    assert_eq!(steps, [8, 8, 4, 0], "{rows:?}");
    let broken = &rows[3];
    assert_eq!(broken[1], 3, "{broken:?}");
    assert!(
        broken[4].as_str().expect("why").contains("diverged"),
        "{broken:?}"
    );
    // Again: nothing is left to do, and nothing changes.
    let tables = ["leaderboard.csv", "best.toml"].map(|name| out.join(name));
    let before = tables
        .each_ref()
        .map(|table| std::fs::read(table).expect("a table"));
    assert_eq!(run(&words(&command)), said);
    assert_eq!(
        before,
        tables
            .each_ref()
            .map(|table| std::fs::read(table).expect("a table"))
    );
    let table = String::from_utf8(before[0].clone()).expect("UTF-8");
    assert!(
        table.starts_with(
            "place,trial,steps,score,seconds,schedule.rate,failed,best_score,best_step,skipped_steps\n1,"
        ),
        "{table}"
    );
    // Also the recipe as it is has its value there.
    let board: Value = serde_json::from_str(&said).expect("JSON");
    let places = board["places"].as_array().expect("places");
    let first = places.iter().find(|place| place["trial"] == 0);
    let rate = first.expect("trial 0")["values"]["schedule.rate"].as_str();
    let rate: f64 = rate.expect("a value").parse().expect("a number");
    let mut rows = table
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let row = rows.find(|row| row[1] == "0").expect("a row");
    assert_eq!(row[5].parse::<f64>(), Ok(rate), "{table}");
    assert!(rate > 0.0 && rate < 0.1, "{rate}");
    // What was halted and went on is what was never halted.
    let alone = folder.path().join("alone");
    run(&[
        "train",
        "--recipe",
        path(&tables[1]),
        "--data",
        path(&store),
        "--out",
        path(&alone),
        "--quiet",
    ]);
    let best = PathBuf::from(board["model"].as_str().expect("a model"));
    for name in ["best.safetensors", "metrics.jsonl"] {
        let [found, expected] = [best.with_file_name(name), alone.join(name)];
        let same =
            std::fs::read(found).expect("found") == std::fs::read(expected).expect("expected");
        assert!(same, "{name}");
    }
}

/// What is wrong with the recipe or the data is so in every trial, and before and after its halt.
#[test]
fn a_warning_of_all_trials_is_told_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (store(folder.path()), folder.path().join("tuned"));
    let mut command = search(&store, &out, "2", "training.steps=8");
    let warmup = command.iter_mut().find(|word| word.contains("warmup"));
    *warmup.expect("a setting") = "schedule.warmup_steps=8".into();
    let output = squall().args(&command).output().expect("it starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let warning = "`schedule.warmup_steps` is 8 and the run has 8 steps";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
}

/// The file in which a trial says what came of it, and what it says.
fn trial(out: &Path, number: &Value) -> (PathBuf, Value) {
    let number = number.as_u64().expect("a number");
    let path = out.join(format!("trials/{number:04}/trial.json"));
    let text = std::fs::read_to_string(&path).expect("a trial");
    (path, serde_json::from_str(&text).expect("JSON"))
}

#[test]
fn the_next_best_goes_on_in_place_of_one_that_breaks_down() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (store(folder.path()), folder.path().join("tuned"));
    let command = search(&store, &out, "2", "training.steps=8");
    let (_, before) = outcome(&run(&words(&command)));
    // As if the first had broken down on its way to the end.
    let (path, mut first) = trial(&out, &before[0][1]);
    let scores = first["scores"].as_array_mut().expect("scores");
    scores.truncate(1);
    first["steps"] = 4.into();
    first["failed"] = "diverged: for a test".into();
    std::fs::write(&path, first.to_string()).expect("written");
    let said = run(&words(&command));
    let (_, after) = outcome(&said);
    let column = |at: usize| -> Vec<&Value> { after.iter().map(|row| &row[at]).collect() };
    assert_eq!(column(2), [8u64, 8, 4, 0], "{after:?}");
    // Second and third go up, in whatever order.
    assert_eq!(column(1)[2], &before[0][1], "{after:?}");
    assert!(column(1)[..2].contains(&&before[2][1]), "{after:?}");
    assert_eq!(run(&words(&command)), said);
}

#[test]
fn the_leaderboard_says_of_which_step_the_model_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (store(folder.path()), folder.path().join("tuned"));
    let mut command = search(&store, &out, "2", "training.steps=8");
    let board = run(&words(&command));
    let board: Value = serde_json::from_str(&board).expect("JSON");
    let number = &board["places"][0]["trial"];
    // As if its validation at the end had been worse than that of its first halt.
    let metrics = trial(&out, number).0.with_file_name("metrics.jsonl");
    let lines = std::fs::read_to_string(&metrics).expect("metrics");
    let (head, last) = lines.trim_end().rsplit_once('\n').expect("lines");
    let last = last.replace("\"best\":true", "\"best\":false");
    assert!(
        last.contains("\"step\":8") && last.contains("\"best\":false"),
        "{last}"
    );
    std::fs::write(&metrics, format!("{head}\n{last}\n")).expect("written");
    let again: Value = serde_json::from_str(&run(&words(&command))).expect("JSON");
    let first = &again["places"][0];
    assert_eq!(&first["trial"], number);
    assert_eq!(first["score"], board["places"][0]["score"]);
    assert_eq!(first["best_step"], 4);
    assert_eq!(first["best_score"], trial(&out, number).1["scores"][0]);
    command.retain(|word| word != "--json");
    let said = run(&words(&command));
    assert!(
        said.contains("at the end, best ")
            && said.contains("at step 4, which is that of the model"),
        "{said}"
    );
}

#[test]
fn several_processes_share_a_search_and_killed_ones_lose_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = store(folder.path());
    let [alone, shared] = ["alone", "shared"].map(|name| folder.path().join(name));
    let (_, expected) = outcome(&run(&words(&search(
        &store,
        &alone,
        "2",
        "training.steps=8",
    ))));
    let command = search(&store, &shared, "2", "training.steps=8");
    let start = || {
        squall()
            .args(&command)
            .stdout(std::process::Stdio::piped())
            .spawn()
    };
    let mut killed = start().expect("starts");
    // In the midst of the first trial, or of whatever it is at.
    let begun = shared.join("trials/0000/recipe.toml");
    while !begun.exists() && killed.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.kill().expect("killed");
    killed.wait().expect("a child");
    let together = [start().expect("starts"), start().expect("starts")];
    for process in together {
        let output = process.wait_with_output().expect("a child");
        assert!(output.status.success(), "{}", text(&output));
        let (_, found) = outcome(&String::from_utf8(output.stdout).expect("UTF-8"));
        assert_eq!(found, expected);
    }
}

/// A stopped process keeps its claim, and the others waited for it without a word.
#[test]
fn a_trial_of_another_process_that_stands_still_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (store(folder.path()), folder.path().join("tuned"));
    let command = search(&store, &out, "1", "training.steps=1");
    let before = outcome(&run(&words(&command)));
    // Trained, but nothing says so yet.
    let claimed = out.join("trials/0000");
    std::fs::remove_file(claimed.join("trial.json")).expect("removed");
    let held = FolderLock::take(&claimed.join("claim")).expect("free");
    let log = folder.path().join("log");
    let waiting = squall()
        .args(&command)
        .env("SQUALL_STALL_SECONDS", "1")
        .stdout(std::process::Stdio::piped())
        .stderr(std::fs::File::create(&log).expect("created"))
        .spawn()
        .expect("it starts");
    let named = format!(": process {}", std::process::id());
    let begun = Instant::now();
    let is_named = loop {
        let said = std::fs::read_to_string(&log).expect("a log");
        let lines = said.lines().filter(|line| line.contains("trial 0 has not"));
        let is_told = lines.filter(|line| line.contains(&named)).count() > 1;
        if is_told || begun.elapsed() > Duration::from_secs(60) {
            break is_told;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    drop(held);
    let output = waiting.wait_with_output().expect("it ends");
    let said = std::fs::read_to_string(&log).expect("a log");
    assert!(is_named && output.status.success(), "{said}");
    let document = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(outcome(&document), before);
}

/// The scores that the run in a folder has at its halts.
fn scores_of_run(out: &Path, name: &str) -> Vec<f64> {
    let path = out.join("trials").join(name).join("trial.json");
    let run: Value = serde_json::from_slice(&std::fs::read(path).expect("a run")).expect("JSON");
    let scores = run["scores"].as_array().expect("scores");
    (scores.iter())
        .map(|score| score.as_f64().expect("a score"))
        .collect()
}

/// With `--vary seed` each seed ran once, and the luckiest was taken for the best recipe.
#[test]
fn repeats_with_other_seeds_are_compared_by_their_means() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = store(folder.path());
    let [alone, shared] = ["alone", "shared"].map(|name| folder.path().join(name));
    let repeated = |out: &Path| {
        let more = ["--repeats", "2"].map(String::from);
        [&search(&store, out, "2", "training.steps=8")[..], &more].concat()
    };
    let said = run(&words(&repeated(&alone)));
    let board: Value = serde_json::from_str(&said).expect("JSON");
    let places = board["places"].as_array().expect("places");
    let steps: Vec<_> = places.iter().map(|place| &place["steps"]).collect();
    assert_eq!(steps, [8u64, 8, 4, 0], "{said}");
    for place in &places[..3] {
        let number = place["trial"].as_u64().expect("a number");
        let names = [format!("{number:04}"), format!("{number:04}-repeat1")];
        let [a, b] = names.map(|name| scores_of_run(&alone, &name));
        assert_eq!(a.len(), b.len());
        let (a, b) = (a[a.len() - 1], b[b.len() - 1]);
        let of = |key: &str| place[key].as_f64().expect("a value");
        assert!((of("score") - (a + b) / 2.0).abs() < 1e-12, "{place}");
        let spread = (a - b).abs() / 2_f64.sqrt();
        assert!((of("spread") - spread).abs() < 1e-12, "{place}");
        let scores = place["scores"].as_array().expect("scores");
        for (score, expected) in scores.iter().zip([a, b]) {
            assert!((score.as_f64().expect("a score") - expected).abs() < 1e-12);
        }
    }
    let lost = places[3]["failed"].as_str().expect("why");
    assert!(lost.contains("diverged"), "{lost}");
    assert_eq!(places[3].get("spread"), None);
    let table = std::fs::read_to_string(alone.join("leaderboard.csv")).expect("a table");
    let head = table.lines().next().expect("a line");
    assert!(head.ends_with(",skipped_steps,spread,scores"), "{head}");
    // The second run is that of the next seed.
    let best = std::fs::read_to_string(alone.join("best.toml")).expect("a recipe");
    let seed = best.lines().find_map(|line| line.strip_prefix("seed = "));
    let seed: u64 = seed.expect("a seed").parse().expect("a number");
    let next = folder.path().join("next");
    let set = format!("seed={}", seed + 1);
    let recipe = alone.join("best.toml");
    let train = ["train", "--recipe", path(&recipe), "--data", path(&store)];
    run(&[
        &train[..],
        &["--set", &set, "--out", path(&next), "--quiet"],
    ]
    .concat());
    let second = format!(
        "trials/{:04}-repeat1",
        places[0]["trial"].as_u64().expect("a number")
    );
    let metrics = |run: &Path| std::fs::read(run.join("metrics.jsonl")).expect("metrics");
    assert!(metrics(&alone.join(second)) == metrics(&next));
    // Several processes share out the runs, and nothing is left to do afterwards.
    let command = repeated(&shared);
    let start = || {
        squall()
            .args(&command)
            .stdout(std::process::Stdio::piped())
            .spawn()
    };
    for process in [start().expect("starts"), start().expect("starts")] {
        let output = process.wait_with_output().expect("a child");
        assert!(output.status.success(), "{}", text(&output));
        let found = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(outcome(&found), outcome(&said));
    }
    assert_eq!(run(&words(&repeated(&alone))), said);
    // With other repeats it is another search.
    let once = search(&store, &alone, "2", "training.steps=8");
    refuses(&words(&once), 2, &["`--repeats` was 2, is 1"]);
    let plain = repeated(&alone).into_iter().filter(|word| word != "--json");
    let shown = run(&words(&plain.collect::<Vec<_>>()));
    assert!(
        shown.contains(" ± ") && shown.contains("standard deviation over 2 seeds"),
        "{shown}"
    );
}

/// Its validation gives a loss of no number, and where there is nothing to find a score of 1 for background everywhere.
#[test]
fn a_network_of_no_numbers_is_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (store(folder.path()), folder.path().join("tuned"));
    let command = search(&store, &out, "1", "training.steps=1");
    for _ in 0..2 {
        let (_, rows) = outcome(&run(&words(&command)));
        assert_eq!(rows.len(), 4, "{rows:?}");
        let last = &rows[3];
        assert_eq!(
            (&last[1], &last[3]),
            (&Value::from(3), &Value::Null),
            "{rows:?}"
        );
        assert!(
            last[4].as_str().expect("why").contains("diverged"),
            "{rows:?}"
        );
    }
}

/// Whether a search goes on its results decide, not the text of what it began with.
#[test]
fn a_folder_of_another_search_says_what_differs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (store(folder.path()), folder.path().join("tuned"));
    let command = search(&store, &out, "1", "training.steps=1");
    let with = |change: &str| {
        let more = ["--set".to_string(), change.to_string()];
        [&command[..], &more[..]].concat()
    };
    let (_, rows) = outcome(&run(&words(&command)));
    let again = with("training.checkpoint_every_seconds=7");
    assert_eq!(outcome(&run(&words(&again))).1, rows);
    let other = with("seed=5");
    refuses(&words(&other), 2, &["another search (`seed` was ", "is 5"]);
}

/// The usual sixteen of the usual spread would have been made, whatever was asked for.
#[test]
fn trials_and_their_spread_are_as_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = store(folder.path());
    // The rates of both trials, that of the recipe first.
    let rates = |seed: &str| -> Vec<String> {
        let out = folder.path().join(seed);
        let of = ["tune", "--recipe", "small", "--data", path(&store)];
        let to = ["--out", path(&out), "--trials", "2", "--seed", seed];
        let rest = "--json --quiet --halts 1 --vary schedule.rate=1e-4..1e-2 --set training.steps=1 --set training.batch=1 \
                    --set precision=f32 --set training.validation_samples=1 --set schedule.warmup_steps=0";
        let rest: Vec<&str> = rest.split_whitespace().collect();
        let board: Value =
            serde_json::from_str(&run(&[&of[..], &to[..], &rest[..]].concat())).expect("JSON");
        let mut places = board["places"].as_array().expect("places").clone();
        places.sort_by_key(|place| place["trial"].as_u64());
        let rates = places.iter().map(|place| &place["values"]["schedule.rate"]);
        rates
            .map(|rate| rate.as_str().expect("a rate").to_string())
            .collect()
    };
    let (one, two) = (rates("1"), rates("2"));
    assert_eq!((one.len(), two.len()), (2, 2), "{one:?} {two:?}");
    assert_eq!(one[0], two[0]);
    assert_ne!(one[1], two[1]);
}

/// The first trial is the run that `squall train` makes, also where its length is in epochs.
#[test]
fn trials_are_as_long_as_trainings() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (store(folder.path()), folder.path().join("tuned"));
    let recipe = folder.path().join("recipe.toml");
    let text = "[training]\nepochs = 1.5\nbatch = 5\nmax_seconds = 1e6\n[network]\nname = 'deeplabv3plus'\n\
                width = 0.1\nblocks = [1, 1]\n";
    std::fs::write(&recipe, text).expect("written");
    let of = [
        "--recipe",
        path(&recipe),
        "--data",
        path(&store),
        "--quiet",
        "--json",
    ];
    let alone = folder.path().join("alone");
    let trained = run(&[&["train", "--out", path(&alone)], &of[..]].concat());
    let trained: Value = serde_json::from_str(&trained).expect("JSON");
    let vary = [
        "tune",
        "--out",
        path(&out),
        "--vary",
        "seed=1,2",
        "--halts",
        "1",
    ];
    let (_, rows) = outcome(&run(&[&vary[..], &of[..]].concat()));
    // The recipe's own seed comes once.
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in rows {
        assert_eq!(row[2], trained["steps"], "{row:?}");
    }
}

#[test]
fn what_cannot_be_searched_is_wrong_usage() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, out) = (store(folder.path()), folder.path().join("tuned"));
    let check = |more: &[&str], expected: &str| {
        let base = [
            "tune",
            "--recipe",
            "small",
            "--data",
            path(&store),
            "--out",
            path(&out),
        ];
        refuses(&[&base[..], more].concat(), 2, &[expected]);
        assert!(!out.join("search.json").exists());
    };
    check(&[], "--vary");
    check(&["--vary", "schedule.rate"], "expected KEY=LOW..HIGH");
    check(
        &["--vary", "schedule.rat=1e-4..1e-2"],
        "did you mean `rate`?",
    );
    check(&["--vary", "training.batch=1,-2"], "training.batch");
    check(
        &["--vary", "seed=1,2", "--vary", "seed=3,4"],
        "varied twice",
    );
    check(
        &["--vary", "seed=1,2", "--set", "training.steps=5"],
        "5 steps are too few",
    );
    check(&["--vary", "seed=1,2", "--halts", "9"], "1 to 8 halts");
    check(
        &["--vary", "seed=1,2", "--repeats", "2"],
        "`seed` cannot be varied with --repeats",
    );
    check(
        &["--vary", "training.batch=1,2", "--repeats", "0"],
        "1 to 100 repeats",
    );
    let many = ["--trials", "18446744073709551615"];
    let range = ["--vary", "schedule.rate=1e-4..1e-2"];
    check(&[many, range].concat(), "--trials");
}
