//! Predictions for machines, through the program.

mod common;

use common::{path, refuses, run, squall, staged, text};
use serde_json::Value;

fn rows(arguments: &[&str]) -> Vec<Value> {
    let document: Value = serde_json::from_str(&run(arguments)).expect("JSON");
    let rows = document.as_array().or(document["rows"].as_array());
    rows.expect("rows").clone()
}

#[test]
fn published_runs_stand_beside_predictions() {
    let rows = rows(&["scale", "--published", "--json"]);
    let summit = &rows[0];
    assert_eq!(
        (summit["nodes"].as_u64(), summit["ranks"].as_u64()),
        (Some(4560), Some(27_360))
    );
    for row in &rows {
        let [published, predicted] = ["published_efficiency", "predicted_efficiency"].map(|key| {
            let share = row[key].as_f64().expect("a number");
            assert!((0.5..=1.0).contains(&share), "{row}");
            share
        });
        // A copy of the published figure would be no prediction.
        assert!(published != predicted, "{row}");
    }
    let table = run(&["scale", "--published"]);
    assert!(
        table.contains("90.7 %") && table.contains("fitted"),
        "{table}"
    );
}

#[test]
fn a_recipe_is_predicted_on_any_number_of_nodes() {
    let summit = [
        "scale",
        "--recipe",
        "deeplabv3plus-published",
        "--machine",
        "summit",
    ];
    let asked = ["--nodes", "1,64,4560", "--samples", "63000", "--json"];
    let found = rows(&[&summit[..], &asked].concat());
    assert_eq!(found.len(), 3);
    let of = |row: usize, key: &str| found[row][key].as_f64().expect("a number");
    for row in &found {
        let of = |key: &str| row[key].as_f64().expect("a number");
        let parts = ["compute", "input", "straggler", "exposed"];
        let parts = parts.map(|part| of(&format!("{part}_seconds")));
        let whole = of("step_seconds");
        assert!(
            (parts.iter().sum::<f64>() / whole - 1.0).abs() < 0.02,
            "{row}"
        );
        let hours = of("steps") * whole / 3600.0;
        assert!((hours / of("hours") - 1.0).abs() < 1e-9, "{row}");
        assert!((of("hours") * of("nodes") / of("node_hours") - 1.0).abs() < 1e-9);
        // 32 epochs; the last step may reach beyond.
        let steps = (32.0 * 63_000.0 / of("global_batch")).ceil();
        assert_eq!(of("steps"), steps, "{row}");
    }
    assert!(of(2, "efficiency") < of(0, "efficiency"));
    assert!(of(2, "samples_per_second") > 60.0 * of(1, "samples_per_second"));
    let late = [
        &summit[..],
        &["--set", "distributed.gradient_lag=1"],
        &asked,
    ]
    .concat();
    let late = rows(&late);
    assert!(late[2]["exposed_seconds"].as_f64() < found[2]["exposed_seconds"].as_f64());
    let table = run(&summit);
    assert!(
        table.contains("4608") && table.contains("--samples N"),
        "{table}"
    );
}

#[test]
fn every_number_of_nodes_that_is_left_out_is_said() {
    let command = "scale --recipe small --machine summit --samples-per-second 10 \
                   --set distributed.global_batch=48 --nodes 1,2,3,5,7 --json";
    let arguments = command.split_whitespace();
    let output = squall().args(arguments).output().expect("starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for nodes in [3, 5, 7] {
        let sentence = format!("on {nodes} nodes: ");
        assert!(said.contains(&sentence), "{said}");
    }
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let nodes = document["rows"].as_array().expect("rows").iter();
    let nodes: Vec<_> = nodes.map(|row| row["nodes"].as_u64()).collect();
    assert_eq!(nodes, [Some(1), Some(2)]);
}

/// A global batch of 48 divides among all of these, its twelve samples without labels do not.
#[test]
fn nodes_that_samples_without_labels_cannot_be_dealt_to_are_left_out() {
    let command = "scale --recipe detect --machine summit --samples-per-second 10 --grid 192x288 \
                   --set distributed.global_batch=48 --set detection.unlabelled_per_batch=12 \
                   --set detection.loss.reconstruction=10";
    let ask = |nodes: &str| {
        let arguments = command.split_whitespace().chain(["--nodes", nodes]);
        squall().args(arguments).output().expect("starts")
    };
    let output = ask("1,2,4");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let reason = "on 4 nodes: `detection.unlabelled_per_batch`: expected a multiple of 24 ranks";
    assert!(said.contains(reason), "{said}");
    assert!(!said.contains("on 2 nodes"), "{said}");
    let refused = ask("4");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains(reason), "{}", text(&refused));
}

#[test]
fn a_machine_of_cpus_is_estimated_by_its_matrix_rate() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machine = folder.path().join("mine.toml");
    let text = include_str!("../../jobs/machines/workstation.toml");
    let known = "kind = \"cpu\"\npeak_tflops = { f32 = 0.2 }";
    let text = text.replacen("kind = \"cpu\"", known, 1);
    std::fs::write(&machine, text).expect("written");
    let on = ["scale", "--recipe", "small", "--machine", path(&machine)];
    let table = run(&[&on[..], &["--grid", "192x288"]].concat());
    for words in [
        "60 % of 0.2 TF/s",
        "this is an estimate",
        "squall bench step --network small --size 192x288",
    ] {
        assert!(table.contains(words), "{words} is not in: {table}");
    }
}

/// Its disk is there, but samples are not copied to it.
#[test]
fn without_staging_it_is_the_shared_file_system_that_is_missed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machine = folder.path().join("mine.toml");
    let text = include_str!("../../jobs/machines/workstation.toml");
    let disk = "{ path = \"/raid\", capacity_gb = 100.0, read_gb_s = 1.0, write_gb_s = 1.0 }";
    let with_disk = format!("ranks = 1\nlocal_disk = {disk}");
    std::fs::write(&machine, text.replacen("ranks = 1", &with_disk, 1)).expect("written");
    let on = ["scale", "--recipe", "small", "--machine", path(&machine)];
    let on = [&on[..], &["--samples-per-second", "10"]].concat();
    assert!(!run(&on).contains("reading is not counted"));
    let table = run(&[&on[..], &["--no-staging"]].concat());
    let missing = "tells of no file system that nodes share to read from";
    assert!(table.contains(missing), "{table}");
}

/// Of a global batch each of more ranks has fewer samples: what does not fit on some nodes does on more.
#[test]
fn the_nodes_are_named_on_which_a_global_batch_fits() {
    let full = ["scale", "--recipe", "full", "--machine", "perlmutter"];
    let batch = ["--set", "distributed.global_batch=2048"];
    let on = |nodes: &str| run(&[&full[..], &batch, &["--nodes", nodes]].concat());
    let table = on("64,512");
    assert!(table.contains("on 64 nodes a rank needs about"), "{table}");
    assert!(
        table.contains(": take 512 nodes, where it needs"),
        "{table}"
    );
    // Where it fits on none of those asked for.
    assert!(on("16,64").contains(": take a smaller batch, or training.recompute"));
    assert!(!on("512").contains("take 512 nodes"));
}

#[test]
fn a_store_says_grid_and_samples() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = staged(folder.path(), 4, 3);
    let small = [
        "scale",
        "--recipe",
        "small",
        "--machine",
        "workstation",
        "--json",
    ];
    let rate = ["--samples-per-second", "10", "--set", "training.epochs=3"];
    let asked = |more: &[&str]| rows(&[&small[..], &rate[..], more].concat());
    let found = asked(&["--data", path(&store)]);
    let of = |row: &Value, key: &str| row[key].as_f64().expect("a number");
    let alone = of(&found[0], "efficiency");
    assert!(found.len() == 1 && (alone - 1.0).abs() < 1e-9, "{found:?}");
    // Three epochs in steps of two samples, of a fifth of a second each.
    let index = std::fs::read_to_string(store.join("store.json")).expect("a store");
    let training = index.matches("\"train\"").count();
    let steps = (3 * training).div_ceil(2) as f64;
    assert_eq!(of(&found[0], "steps"), steps);
    assert!(
        (of(&found[0], "hours") / (steps * 0.2 / 3600.0) - 1.0).abs() < 1e-6,
        "{found:?}"
    );
    let training = training.to_string();
    let same = asked(&["--grid", "48x72", "--samples", &training]).swap_remove(0);
    for key in ["steps", "memory_bytes", "flops_per_second"] {
        assert_eq!(same[key], found[0][key], "{key}");
    }
    // That is not the usual grid: memory grows with the cells.
    let usual = asked(&["--samples", &training]).swap_remove(0);
    assert!(of(&usual, "memory_bytes") > 10.0 * of(&same, "memory_bytes"));
}

#[test]
fn what_cannot_be_predicted_is_wrong_usage_with_a_hint() {
    let check = |arguments: &[&str], expected: &str| refuses(arguments, 2, &[expected]);
    let on = |machine: &'static str| ["scale", "--recipe", "small", "--machine", machine];
    check(&["scale"], "--recipe");
    check(&on("sumit"), "one of summit");
    let measure = "squall bench step --network small --size 768x1152 --batch 2 --precision f32";
    check(&on("workstation"), measure);
    // `bench` knows no --set: of the recipe itself it would measure another network.
    let changed = [&on("workstation")[..], &["--set", "network.width=0.5"]].concat();
    check(
        &changed,
        "--network R.toml --size 768x1152 --batch 2 --precision f32`, a recipe with these --set,",
    );
    check(
        &[&on("summit")[..], &["--nodes", "5000"]].concat(),
        "`--nodes`: expected 1 to 4608",
    );
    check(&[&on("summit")[..], &["--nodes", "0"]].concat(), "found 0");
    check(
        &[&on("summit")[..], &["--samples", "0"]].concat(),
        "--samples",
    );
    check(
        &[&on("summit")[..], &["--set", "precision=bf16"]].concat(),
        "device.peak_tflops.bf16",
    );
    let uneven = ["--nodes", "7", "--set", "distributed.global_batch=64"];
    check(
        &[&on("summit")[..], &uneven].concat(),
        "distributed.global_batch",
    );
}

/// Of `auto` the type that training will choose there, and what does not fit on a disk.
#[test]
fn a_machine_says_the_type_and_the_room_for_samples() {
    let answer = |machine: &str, more: &[&str]| -> Value {
        let ask = ["scale", "--recipe", "small", "--machine", machine];
        let rest = ["--nodes", "1", "--samples-per-second", "10", "--json"];
        let said = run(&[&ask[..], &rest, more].concat());
        serde_json::from_str(&said).expect("JSON")
    };
    // A100 have bf16, V100 have not, and CPUs are asked for f32.
    for (machine, precision) in [
        ("perlmutter", "bf16"),
        ("summit", "f32"),
        ("cori-knl", "f32"),
    ] {
        assert_eq!(answer(machine, &[])["precision"], precision, "{machine}");
    }
    // Disks of Summit hold 1.6 TB. A sample of 768 x 1152 cells with 16 channels of two bytes and a byte of label has
    // 29,196,288 bytes: 54,801 of them fit.
    let note = |samples: &str| answer("summit", &["--samples", samples])["note"].clone();
    assert!(note("54801").is_null());
    let told = note("54802");
    let told = told.as_str().expect("a note");
    assert!(told.contains("a node's disk holds 1.6 TB"), "{told}");
}
