//! The main path in miniature, as a user types it.

mod common;

use common::{json, path, real, refuses, run, score, simulate, squall, stage, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn from_files_to_a_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 6, 1);
    let inspected = json(&["inspect", path(&fields), "--json"]);
    assert_eq!(inspected["channels"].as_array().map(Vec::len), Some(16));
    assert_eq!(inspected["calendar"], "noleap");

    let (labels, events) = (at("labels"), at("events"));
    let labelled = json(&[
        "label",
        path(&fields),
        "--out",
        path(&labels),
        "--json",
        "-q",
    ]);
    assert_eq!(labelled["times"], 24);
    let found = json(&[
        "events",
        path(&labels),
        "--fields",
        path(&fields),
        "--out",
        path(&events),
        "--json",
        "-q",
    ]);
    assert_eq!(found["times"], 24);
    let table = fs::read_to_string(events.join("events.csv")).expect("a table");
    let rows = found["cyclones"].as_u64().unwrap_or(0) + found["rivers"].as_u64().unwrap_or(0);
    assert_eq!(
        table.lines().count() as u64,
        rows + 1,
        "a header and a row for each object"
    );
    assert!(table.starts_with("class,time,lon_deg,lat_deg,area_km2"));
    for name in ["tracks.csv", "monthly.csv", "statistics.nc"] {
        assert!(events.join(name).is_file(), "{name}");
    }

    // Good masks and tables were told like faults.
    let inspected = run(&["inspect", path(&labels)]);
    assert!(!inspected.contains("note:"), "{inspected}");
    let inspected = run(&["inspect", path(&events)]);
    assert!(inspected.contains("it holds tables of `squall events`"));
    assert_eq!(inspected.matches("note:").count(), 1, "{inspected}");

    // A mask against itself is perfect; against the truth it is something between nothing and perfect.
    let own = score(&labels, &labels, &[]);
    assert_eq!(own["pixels"]["mean_iou"], 1.0);
    let truth = fields.join("truth");
    let real = score(&labels, &truth, &[]);
    let iou = real["pixels"]["mean_iou"].as_f64().expect("a number");
    assert!((0.34..1.0).contains(&iou), "{iou}");

    let page = at("report.html");
    let sources = format!("{}:{}", path(&labels), path(&events));
    let (pictures, movie) = (at("pictures"), at("run.png"));
    let (trained, recipe) = (at("trained"), at("own.toml"));
    fs::create_dir(&trained).expect("a folder");
    let step = r#"{"kind":"step","step":1,"epoch":0,"loss":2.0,"gradient_norm":1.0,"learning_rate":0.001,"skipped":false}"#;
    fs::write(trained.join("metrics.jsonl"), format!("{step}\n")).expect("written");
    fs::write(&recipe, "seed = 7654321\n").expect("written");
    let training = format!("first try={}", path(&trained));
    run(&[
        "report",
        &sources,
        path(&truth),
        path(&truth.join("boxes.csv")),
        "--fields",
        path(&fields),
        "--out",
        path(&page),
        "--movie",
        path(&movie),
        "--movie",
        path(&pictures),
        "--frames",
        "6",
        "--movie-width",
        "320",
        "--title",
        "Six days",
        "--about",
        "Of a synthetic August.",
        "--training",
        &training,
        "--recipe",
        path(&recipe),
        "-q",
    ]);
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("<title>Six days</title>"));
    for part in [
        "Of a synthetic August.",
        "first try, 1 step",
        "seed = 7654321",
        "<li>Heuristic: the DeepCAM rules, in labels</li>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(
        html.contains("</html>") && !html.contains("src=\"http"),
        "the page needs nothing from elsewhere"
    );
    for part in ["id=\"life\"", "id=\"layer-boxes-2\"", "Boxes: truth"] {
        assert!(html.contains(part), "{part}");
    }
    // 24 times, every fourth.
    assert_eq!(fs::read_dir(&pictures).expect("pictures").count(), 6);
    let moving = fs::read(&movie).expect("a movie");
    assert!(moving.windows(4).filter(|bytes| *bytes == b"fcTL").count() == 6);
    // The width of a PNG follows its mark, and the length and name of its first chunk.
    assert_eq!(moving[16..20], 320_u32.to_be_bytes());

    // A recipe that comes with Squall, by its name as everywhere; another name is refused before anything is read.
    let call = ["report", path(&truth), "--out", path(&page), "--recipe"];
    run(&[&call[..], &["small", "-q"]].concat());
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("augmentation = { roll = true }"));
    let call = ["report", "nowhere", "--out", path(&page), "--recipe"];
    let words = ["there is no recipe `smal`", "masks-and-boxes"];
    refuses(&[&call[..], &["smal"]].concat(), 2, &words);

    // Boxes alone need fields for their grid.
    let boxes = at("boxes");
    fs::create_dir(&boxes).expect("a folder");
    fs::copy(truth.join("boxes.csv"), boxes.join("boxes.csv")).expect("a copy");
    let alone = at("alone.html");
    let arguments = ["report", path(&boxes), "--out", path(&alone), "-q"];
    refuses(&arguments, 2, &["boxes with --fields"]);
    run(&[&arguments[..], &["--fields", path(&fields)]].concat());
    let html = fs::read_to_string(&alone).expect("a page");
    assert!(html.contains("Boxes: boxes") && html.contains("id=\"event-data\""));
}

#[test]
fn hurricanes_and_rivers_of_a_real_forecast() {
    let Some(file) = real("gfs-2p5deg-20111011/gfs_2p5deg_20111011T00.nc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("labels");
    let found = json(&["label", path(&file), "--out", path(&out), "--json", "-q"]);
    assert_eq!(
        (found["cyclones"].as_u64(), found["untracked"].as_bool()),
        (Some(2), Some(true))
    );
    assert!(found["rivers"].as_u64() >= Some(4), "{found}");
    let table = fs::read_to_string(out.join("objects.csv")).expect("a table");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    let number = |row: &Vec<&str>, column: usize| row[column].parse::<f64>().expect("a number");
    // The file's pressure minima: Jova at 17.5N 105W, Irwin at 17.5N 117.5W.
    for (lat, lon) in [(17.5, 255.0), (17.5, 242.5)] {
        let near = |row: &&Vec<&str>| {
            row[0] == "tropical_cyclone"
                && (number(row, 3) - lat).abs() < 3.0
                && (number(row, 2) - lon).abs() < 3.0
        };
        assert_eq!(rows.iter().filter(near).count(), 1, "{table}");
    }
    let over_the_seam =
        |row: &&Vec<&str>| row[0] == "atmospheric_river" && number(row, 6) > number(row, 8);
    assert_eq!(rows.iter().filter(over_the_seam).count(), 1, "{table}");
}

#[test]
fn published_network_counts() {
    let normed = json(&["summary", "deeplabv3plus", "--batch-norm", "--json"]);
    let summary = json(&["summary", "deeplabv3plus", "--json"]);
    assert!(normed["parameters"].as_u64() > summary["parameters"].as_u64());
    assert_eq!(summary["parameters"], 43_669_251);
    let training = summary["training_flops"].as_f64().expect("a number");
    assert!((training - 13.02e12).abs() < 0.01e12, "{training}");
    // A quarter of the cells takes a quarter of the work, half the width about a quarter of the weights.
    let with =
        |option: &str, value: &str| json(&["summary", "deeplabv3plus", "--json", option, value]);
    let quarter = with("--grid", "384x576");
    assert_eq!(quarter["input"], serde_json::json!([384, 576, 16]));
    let share = quarter["training_flops"].as_f64().expect("a number") / training;
    assert!((share - 0.25).abs() < 1e-3, "{share}");
    let eight = with("--channels", "8");
    assert_eq!(eight["input"], serde_json::json!([768, 1152, 8]));
    assert!(eight["parameters"].as_u64() < summary["parameters"].as_u64());
    let thin = with("--width", "0.5")["parameters"].as_f64();
    let share = thin.expect("a number") / 43_669_251.0;
    assert!((0.24..0.26).contains(&share), "{share}");
    for (network, parameters) in [
        ("deepcam", 56_454_720),
        ("tiramisu", 7_148_611),
        ("cgnet", 494_232),
    ] {
        assert_eq!(
            json(&["summary", network, "--json"])["parameters"],
            parameters
        );
    }
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let mut child = squall()
        .args(["summary", "deeplabv3plus"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("ends").success());
    let version = squall().arg("--version").output().expect("starts");
    let version = text(&version);
    for word in ["squall", concat!("sources ", env!("SQUALL_SOURCES"))] {
        assert!(version.contains(word), "no `{word}` in {version}");
    }
}

#[test]
fn boxes_are_scored_by_average_precision() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let header = "class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n";
    let table = |name: &str, rows: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("{header}{rows}")).expect("a table");
        path
    };
    let truth = table(
        "truth.csv",
        "tropical_cyclone,1984-02-28T00:00:00,355,10,5,20,,\ntropical_cyclone,1984-02-28T06:00:00,40,10,50,20,,\n\
         atmospheric_river,1984-02-28T12:00:00,100,30,140,50,,\n",
    );
    let found = table(
        "boxes.csv",
        "tropical_cyclone,1984-02-28T00:00:00,355,10,5,20,0.9,\ntropical_cyclone,1984-02-28T12:00:00,200,10,210,20,0.95,\n",
    );
    let scores = score(&found, &truth, &["--calendar", "noleap"]);
    let cyclones = &scores["classes"][1];
    // The surest box is wrong, the second right, one of two true ones is missed: precision 1/2 at recall 1/2.
    assert_eq!(cyclones["at_50"]["average_precision"], 0.25);
    assert_eq!(scores["mean"]["at_50"], 0.125);
    assert_eq!(scores["coverage"]["only_in_truth"]["count"], 1);
    let said = run(&[
        "score",
        "--prediction",
        path(&found),
        "--truth",
        path(&truth),
    ]);
    assert!(
        said.contains("1984-02-28T06:00:00") && said.contains("left out of the mean"),
        "{said}"
    );
}

/// A cyclone that drifts westward over the seam for three days, with boxes of this confidence, six-hourly; at one time
/// two more boxes: a sure low elsewhere and an unsure one.
fn drifting(confidence: &str) -> String {
    let mut rows =
        String::from("class,time,west_deg,south_deg,east_deg,north_deg,confidence,track_id\n");
    for step in 0..13 {
        let (day, hour) = (1 + step / 4, 6 * (step % 4));
        let time = format!("2001-08-{day:02}T{hour:02}:00:00");
        let west = (8 + 360 - 2 * step) % 360;
        let east = (west + 13) % 360;
        rows += &format!("tropical_cyclone,{time},{west},10,{east},23,{confidence},\n");
        if step == 5 {
            rows += &format!("extratropical_cyclone,{time},200,40,215,52,0.9,\n");
            rows += &format!("tropical_cyclone,{time},100,10,113,23,0.2,\n");
        }
    }
    rows
}

#[test]
fn boxes_become_events_and_tracks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let boxes = folder.path().join("found/boxes.csv");
    fs::create_dir(folder.path().join("found")).expect("a folder");
    fs::write(&boxes, drifting("0.75")).expect("a table");
    let out = folder.path().join("events");
    let events = |extra: &[&str], out: &Path| {
        let found = folder.path().join("found");
        let mut arguments = vec!["events", path(&found), "--out", path(out), "--json"];
        arguments.extend(["--calendar", "noleap"]);
        arguments.extend(extra);
        json(&arguments)
    };
    let summary = events(&["--format", "gfdl"], &out);
    assert_eq!(
        (&summary["times"], &summary["cyclones"]),
        (&13.into(), &13.into())
    );
    // The low was there at one time only, which makes no track.
    assert_eq!(
        (&summary["others"], &summary["other_tracks"]),
        (&1.into(), &0.into())
    );
    assert_eq!(summary["cyclone_tracks"], 1);
    let table = fs::read_to_string(out.join("events.csv")).expect("events.csv");
    let row: Vec<&str> = table.lines().nth(1).expect("a row").split(',').collect();
    let column = |name: &str| {
        let header = table.lines().next().expect("a header");
        row[header
            .split(',')
            .position(|found| found == name)
            .expect("a column")]
    };
    assert_eq!(
        (column("lon_deg"), column("mean_probability")),
        ("14.5000", "0.75000")
    );
    assert_eq!(
        (
            column("length_km"),
            column("mean_prect_m_s"),
            column("track_id")
        ),
        ("", "", "1")
    );
    assert!(
        table.contains("extratropical_cyclone,2001-08-02T06:00:00"),
        "{table}"
    );
    let tracks = fs::read_to_string(out.join("tracks.csv")).expect("tracks.csv");
    let (rows, first) = (
        tracks.lines().count(),
        tracks.lines().nth(1).expect("a track"),
    );
    assert!(
        rows == 2
            && first.contains("tropical_cyclone,2001-08-01T00:00:00,2001-08-04T00:00:00,72.00,13"),
        "{tracks}"
    );
    assert!(out.join("tracks.tropical_cyclone.gfdl.txt").is_file());
    assert!(!out.join("tracks.extratropical_cyclone.gfdl.txt").exists());
    // Less sure ones too.
    let all = events(&["--min-confidence", "0"], &folder.path().join("all"));
    assert_eq!(all["cyclones"], 14);
    let none = events(&["--min-confidence", "0.8"], &folder.path().join("none"));
    assert_eq!((&none["cyclones"], &none["others"]), (&0.into(), &1.into()));

    // The same boxes without confidences judge them.
    let truth = folder.path().join("truth.csv");
    fs::write(&truth, drifting("")).expect("a table");
    let scores = score(&boxes, &truth, &["--calendar", "noleap"]);
    let of = |kind: &str, class: &str| {
        let classes = scores[kind]["classes"].as_array().expect("classes");
        let found = classes.iter().find(|score| score["class"] == class);
        found.cloned().unwrap_or_default()
    };
    let cyclones = of("events", "tropical_cyclone");
    assert_eq!(
        (&cyclones["hits"], &cyclones["misses"]),
        (&13.into(), &1.into())
    );
    assert_eq!(
        (&cyclones["false_alarms"], &cyclones["far"]),
        (&0.into(), &0.0.into())
    );
    assert_eq!(of("events", "extratropical_cyclone")["pod"], 1.0);
    let tracks = of("tracks", "tropical_cyclone");
    assert_eq!(
        (&tracks["true_tracks"], &tracks["hits"]),
        (&1.into(), &1.into())
    );

    let call = ["events", path(&boxes), "--out", path(&out), "--object-id"];
    refuses(&call, 2, &["--object-id is for masks"]);
}

#[test]
fn tracks_are_scored_against_best_tracks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let best = folder.path().join("ibtracs.csv");
    fs::write(
        &best,
        "track_id,season,basin,time,lon,lat,wind,slp\na,2001,WP,2001-08-01 00:00:00,140.0,15.0,40,990\n\
         a,2001,WP,2001-08-01 06:00:00,139.0,15.0,45,985\nb,2001,NA,2001-08-01 06:00:00,300.0,20.0,30,1000\n",
    )
    .expect("a table");
    let tracks = folder.path().join("tracks.txt");
    fs::write(
        &tracks,
        "start 2 2001 8 1 0\n 1 2 140.0 16.0 99000.0 20.0 2001 8 1 0\n 1 2 139.0 16.0 98500.0 22.0 2001 8 1 6\n",
    )
    .expect("a table");
    let scores = score(&tracks, &best, &[]);
    let total = &scores["tracks"][0]["total"];
    assert_eq!(
        (&total["pod"], &total["far"]),
        (&Value::from(0.5), &Value::from(0.0))
    );
    let median = total["distance"]["median_km"].as_f64().unwrap_or(0.0);
    assert!((median - 111.2).abs() < 0.1, "{median}");
    // Masks cannot be compared with tracks.
    let masks = folder.path().join("masks");
    fs::create_dir(&masks).expect("a folder");
    let truth = simulate(folder.path(), 1, 3).join("truth");
    for file in fs::read_dir(truth).expect("readable").flatten() {
        if file.path().extension().is_some_and(|e| e == "nc") {
            fs::copy(file.path(), masks.join(file.file_name())).expect("a copy");
        }
    }
    let sides = ["--prediction", path(&masks), "--truth", path(&best)];
    refuses(&[&["score"][..], &sides].concat(), 2, &["holds masks"]);
    // A whole run, where the real best tracks are at hand.
    if let Some(best) = real("ibtracs-6h/ibtracs_wmo.csv") {
        let own = score(&best, &best, &["--min-wind", "17"]);
        let scores = &own["tracks"][0];
        assert_eq!(scores["total"]["pod"], 1.0);
        // Weak storms are left out of both sides.
        assert_eq!(scores["total"]["far"], 0.0);
        assert_eq!(scores["density"]["taylor"]["rms"], 0.0);
    }
}

fn all_classes(scores: &Value) -> impl Iterator<Item = &Value> {
    scores["classes"].as_array().into_iter().flatten()
}

/// One network for both tasks, from a store to scores, an interruption between: every command takes what the one before
/// gave.
#[test]
fn masks_and_boxes_of_one_network() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 10, 3);
    let (store, model, found) = (at("store"), at("model"), at("found"));
    let truth = fields.join("truth");
    stage(&fields, &truth, &store, &["--block-days", "1"]);
    run(&[
        "train",
        "--recipe",
        "masks-and-boxes",
        "--data",
        path(&store),
        "--out",
        path(&model),
        "--set",
        "training.steps=12",
        "--set",
        "training.validate_every_steps=6",
        "--set",
        "network.width=0.1",
        "--mllog",
        path(&at("result_0.txt")),
        "-q",
    ]);
    let log = fs::read_to_string(at("result_0.txt")).expect("a log");
    let all_of_mlperf = log
        .lines()
        .all(|line| line.starts_with(":::MLLOG {\"namespace\": \"\", "));
    assert!(all_of_mlperf, "{log}");
    let accuracies = log.matches("\"key\": \"eval_accuracy\"").count();
    assert_eq!(
        (accuracies, log.matches("\"status\": \"success\"").count()),
        (2, 1)
    );
    let metrics = fs::read_to_string(model.join("metrics.jsonl")).expect("metrics");
    let of_both = |line: &&str| {
        let line: Value = serde_json::from_str(line).expect("a JSON line");
        line["scores"]["masks"]["mean_iou"].is_number()
            && line["scores"]["boxes"]["mean_ap_50"].is_number()
    };
    assert_eq!(metrics.lines().filter(of_both).count(), 2);

    let best = model.join("best.safetensors");
    // An exchanged graph ends with masks; the weights leave all the same.
    let (graph, weights) = (at("both.onnx"), at("both.safetensors"));
    let export = |out: &[&str]| {
        let arguments = [&["model", "export", path(&best), "--out"], out].concat();
        let output = squall().args(arguments).output().expect("starts");
        (output.status.code(), text(&output))
    };
    for out in [
        &[path(&graph)][..],
        &[path(&weights), "--sample", path(&graph)],
    ] {
        let (code, said) = export(out);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("recipe `masks-and-boxes`"), "{said}");
        assert!(said.contains("hint: its weights can be"), "{said}");
        assert!(!graph.exists() && !weights.exists());
    }
    assert_eq!(export(&[path(&weights)]).0, Some(0));
    let infer = [
        "infer",
        path(&fields),
        "--model",
        path(&best),
        "--out",
        path(&found),
        "--json",
        "-q",
    ];
    let report = json(&infer);
    assert_eq!(
        (&report["gives"], &report["masks"]),
        (&"both".into(), &40.into())
    );
    let contents = || common::contents(&found, |name| name == ".lock");
    let first = contents();
    let count = |end: &str| first.iter().filter(|(name, _)| name.ends_with(end)).count();
    // A table for each of ten days, and that of all.
    assert_eq!((count(".nc"), count(".csv")), (10, 11));
    // What is gone is made again, and nothing else.
    let gone = ["boxes.2000-08-03.csv", "masks.2000-08-05.nc"];
    gone.iter()
        .for_each(|name| fs::remove_file(found.join(name)).expect("a file"));
    assert_eq!(json(&infer)["new_masks"], 8);
    let again = contents();
    let differ = first.iter().zip(&again).filter(|(a, b)| a != b);
    let differ: Vec<_> = differ
        .map(|((name, _), (other, _))| (name, other))
        .collect();
    assert!(
        differ.is_empty() && again.len() == first.len(),
        "{differ:?}"
    );

    let scores = score(&found, &truth, &[]);
    assert!(scores["pixels"]["mean_iou"].is_number());
    assert!(scores["boxes"]["mean"]["at_10"].is_number());
    // The boxes of a run that is done, in pixels.
    let coco = at("found.json");
    let formats = ["--boxes-coco", path(&coco), "--min-confidence", "0"];
    assert_eq!(json(&[&infer[..], &formats].concat())["new_masks"], 0);
    let scored = |prediction: &Path| {
        let truth = truth.join("boxes.csv");
        let score = ["score", "--prediction", path(prediction), "--truth"];
        json(
            &[
                &score[..],
                &[path(&truth), "--calendar", "noleap", "--json", "-q"],
            ]
            .concat(),
        )
    };
    let (of_table, of_pixels) = (scored(&found.join("boxes.csv")), scored(&coco));
    let precisions = |scores: &Value| -> Vec<Option<f64>> {
        let classes = all_classes(scores).map(|class| &class["at_10"]["average_precision"]);
        classes.map(Value::as_f64).collect()
    };
    let counts = |scores: &Value| -> Vec<Value> {
        let classes = all_classes(scores).map(|class| class["predictions"].clone());
        classes.collect()
    };
    assert_eq!(counts(&of_table), counts(&of_pixels));
    let (ours, theirs) = (precisions(&of_table), precisions(&of_pixels));
    // All four classes, and a number where there are true boxes: rivers are in every run.
    assert_eq!((ours.len(), theirs.len()), (4, 4), "{of_pixels}");
    assert!(ours.iter().any(Option::is_some), "{of_table}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!(
            ours.zip(*theirs).is_none_or(|(a, b)| (a - b).abs() < 1e-6),
            "{of_pixels}"
        );
        assert_eq!(ours.is_some(), theirs.is_some(), "{of_pixels}");
    }
    // Masks by the folder, boxes by their table.
    for (input, out) in [(found.clone(), "a"), (found.join("boxes.csv"), "b")] {
        let out = at(out);
        let events = json(&[
            "events",
            path(&input),
            "--fields",
            path(&fields),
            "--out",
            path(&out),
            "--json",
            "-q",
        ]);
        assert_eq!(events["times"], 40);
    }
}
