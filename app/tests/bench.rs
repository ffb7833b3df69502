//! Benchmarks of single operations: rows that a program can read, a peer in turn, and what is refused.

mod common;

use common::{path, run};
use serde_json::Value;
use std::fs;
#[cfg(target_os = "linux")]
use std::{path::Path, process::Command};

const SMALL: [&str; 8] = [
    "bench", "ops", "--size", "16x24", "--repeat", "1", "--json", "-q",
];

fn rows(more: &[&str]) -> Vec<Value> {
    let told = run(&[&SMALL[..], more].concat());
    serde_json::from_str(&told).expect("a list of rows")
}

fn number(row: &Value, key: &str) -> f64 {
    let found = row[key].as_f64();
    found.unwrap_or_else(|| panic!("no number `{key}` in {row}"))
}

#[test]
fn every_operation_has_a_row_beside_its_ceiling() {
    let all = rows(&["--network", "cgnet"]);
    let has = |text: &str| {
        let mut names = all.iter().filter_map(|row| row["name"].as_str());
        assert!(names.any(|name| name.contains(text)), "no {text}");
    };
    for kind in [
        "3x3 depthwise",
        "gradient of kernel",
        "gradient of input",
        "batch norm",
        "max pool",
        "global average",
        "resize",
        "dropout",
        "cross entropy",
        "argmax",
    ] {
        has(kind);
    }
    for row in &all {
        assert!(number(row, "ours") > 0.0 && number(row, "peak_mb") > 0.0);
        assert!(number(row, "ceiling_percent") > 0.0);
        assert!(row["peer"].is_null() && row["ratio"].is_null(), "{row}");
    }
}

/// A stride in time leaves out frames of what the heads give.
#[test]
fn convolutions_of_clips_are_timed_too() {
    let heads = rows(&["--network", "detector-3d", "--only", "3x3 640 to 4,"]);
    assert_eq!(heads.len(), 3, "{heads:?}");
}

#[test]
#[cfg(unix)]
fn a_peer_is_asked_for_each_operation() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (script, asked) = (folder.path().join("peer.sh"), folder.path().join("asked"));
    let answer = r#"{"seconds": 5.0, "peak_mb": 1.0, "torch": "none", "mode": "eager"}"#;
    let lines = format!(
        "echo ready\nwhile read -r line; do echo \"$line\" >> '{}'; echo '{answer}'; done\n",
        path(&asked)
    );
    fs::write(&script, lines).expect("a script");
    let command = format!("sh {}", path(&script));
    let found = rows(&["--only", "7x7", "--precision", "bf16", "--peer", &command]);
    assert_eq!(found.len(), 3);
    for row in &found {
        assert_eq!(number(row, "peer"), 5.0);
        let ratio = 5.0 / number(row, "ours");
        assert!((number(row, "ratio") / ratio - 1.0).abs() < 1e-9, "{row}");
    }
    let asked = fs::read_to_string(&asked).expect("what was asked");
    let first: Value = serde_json::from_str(asked.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["op"], "convolution");
    assert_eq!(first["direction"], "forward");
    assert_eq!(first["x"], serde_json::json!([1, 16, 24, 16]));
    assert_eq!(first["kernel"], serde_json::json!([7, 7]));
}

/// A row would look as if they had been heeded.
#[test]
fn options_of_other_work_are_refused() {
    let step = ["bench", "step", "--size", "24x36", "--repeat", "1"];
    let infer = ["bench", "infer", "--size", "24x36", "--repeat", "1"];
    for (call, option) in [
        (step, &["--strips", "4"][..]),
        (infer, &["--recompute", "blocks"]),
        (infer, &["--saved-bf16"]),
        (infer, &["--graphs"]),
    ] {
        let words = [option[0], "hint: leave"];
        common::refuses(&[&call[..], option].concat(), 2, &words);
    }
}

/// What a benchmark printed, and how it ended, beside a peer that is this script.
#[cfg(unix)]
fn beside(lines: &str, call: &[&str]) -> (Vec<Value>, String, Option<i32>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = folder.path().join("peer.sh");
    fs::write(&script, lines).expect("a script");
    let peer = format!("sh {}", path(&script));
    let output = common::squall()
        .args(call)
        .args(["--peer", &peer])
        .output()
        .expect("the program starts");
    let printed = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (printed, said, output.status.code())
}

/// The arrays that the ceiling is measured with are none of the memory of what was measured: together they are 134 MB.
/// Without a GPU, whose libraries alone may take more.
#[test]
#[cfg(target_os = "linux")]
fn a_ceiling_has_no_part_in_the_memory_beside_it() {
    let options = "--grid 48x72 --repeat 1 --json -q --device cpu";
    let options = Vec::from_iter(options.split(' '));
    for part in ["simulate", "label"] {
        let told = run(&[&["bench", part][..], &options[..]].concat());
        let rows: Vec<Value> = serde_json::from_str(&told).expect("a list of rows");
        for row in &rows {
            assert!(number(row, "ceiling_percent") > 0.0, "{row}");
            let peak = number(row, "peak_mb");
            assert!(peak > 1.0 && peak < 130.0, "{row}");
        }
    }
}

/// It had that of all before it: inference the peak of a training step, labelling that of the triad's arrays (134 MB),
/// and rules that of the optimiser with copies of the parameters (87 MB).
#[test]
#[cfg(target_os = "linux")]
fn what_is_measured_among_all_has_its_own_peak() {
    if fs::write("/proc/self/clear_refs", "5").is_err() {
        return common::skipped("the system cannot forget a peak");
    }
    let options = "bench all --grid 48x72 --size 24x36 --repeat 1 --json -q --device cpu";
    let told = run(&Vec::from_iter(options.split(' ')));
    let rows: Vec<Value> = serde_json::from_str(&told).expect("a list of rows");
    let peak = |begin: &str| {
        let is_it = |row: &&Value| {
            row["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(begin))
        };
        let row = rows.iter().find(is_it);
        number(
            row.unwrap_or_else(|| panic!("no `{begin}`: {told}")),
            "peak_mb",
        )
    };
    for part in ["label", "lows", "rivers", "read", "infer"] {
        assert!(peak(part) < 130.0, "{part}: {told}");
    }
    assert!(
        peak("LARC-Adam") < peak("AdamW + bf16 copies") - 40.0,
        "{told}"
    );
}

/// TempestExtremes that fails on the first of two files is no TempestExtremes of half the time, nor of 0 s.
#[test]
#[cfg(target_os = "linux")]
fn a_tempest_that_fails_has_no_row() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    fs::create_dir_all(out.join("fields")).expect("a folder");
    for name in ["a.nc", "b.nc"] {
        fs::write(out.join("fields").join(name), "").expect("written");
    }
    // It fails on what it is given first, and is done with the second.
    let program = folder.path().join("DetectNodes");
    let lines = "#!/bin/sh\n[ -e begun ] && exit 0\n: > begun\necho no such variable >&2\nexit 1\n";
    fs::write(&program, lines).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../validation/peers/tempest.sh");
    let output = Command::new("bash")
        .args([&script, &out])
        .env("TEMPEST", folder.path())
        .env("SQUALL", env!("CARGO_BIN_EXE_squall"))
        .env_remove("MINIMA")
        .output();
    let Ok(output) = output else {
        return common::lacks(common::Need::Bash, "bash");
    };
    let said = common::text(&output);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("no such variable"), "{said}");
    assert!(!said.contains("| TempestExtremes DetectNodes |"), "{said}");
}

/// What `getrusage` says begins with the peak of the program that started the peer: this one, with 300 MB.
#[test]
#[cfg(target_os = "linux")]
fn the_peak_of_a_peer_is_its_own() {
    let held = std::hint::black_box(vec![1u8; 300 << 20]);
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../validation/peers");
    let output = Command::new("python3")
        .args(["-B", "-c", "import memory; print(memory.peak_mb())"])
        .env("PYTHONPATH", peers)
        .output();
    drop(held);
    let Ok(output) = output else {
        return common::lacks(common::Need::Python, "python3");
    };
    assert!(output.status.success(), "{}", common::text(&output));
    let told = String::from_utf8_lossy(&output.stdout);
    let peak: f64 = told.trim().parse().expect("a number");
    assert!(peak > 1.0 && peak < 150.0, "{peak} MB");
}

/// Squall's threads sleep between operations; PyTorch's wait as they do where its user starts it.
#[test]
#[cfg(unix)]
fn a_peer_has_the_users_way_to_wait() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (script, told) = (folder.path().join("peer.sh"), folder.path().join("told"));
    let lines = format!(
        "echo \"${{OMP_WAIT_POLICY-none}} ${{SQUALL_OWN_WAIT_POLICY-none}}\" > '{}'\necho ready\n",
        path(&told)
    );
    fs::write(&script, lines).expect("a script");
    for (users, expected) in [(None, "none none"), (Some("active"), "active none")] {
        let mut command = common::squall();
        command
            .env_remove("OMP_WAIT_POLICY")
            .env_remove("SQUALL_OWN_WAIT_POLICY");
        if let Some(policy) = users {
            command.env("OMP_WAIT_POLICY", policy);
        }
        let peer = format!("sh {}", path(&script));
        let call = [&SMALL[..], &["--only", "7x7", "--peer", &peer]].concat();
        // It ends when it has told.
        let output = command.args(call).output().expect("the program starts");
        let found = fs::read_to_string(&told).unwrap_or_default();
        assert_eq!(found.trim(), expected, "{}", common::text(&output));
    }
}

/// Every method with every type for every length, by threads.
#[test]
fn sums_are_timed_as_asked_for() {
    let call = "bench allreduce --methods ring,grid --wires bf16 --millions 0.02,0.01 --ranks 3 --repeat 1 --json -q";
    let told = run(&Vec::from_iter(call.split(' ')));
    let rows: Vec<Value> = serde_json::from_str(&told).expect("a list of rows");
    let mut names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    names.sort_unstable();
    let of = |method: &str, millions: &str| format!("{method} bf16, {millions} M over 1 x 3 ranks");
    let expected = ["grid", "ring"].map(|method| ["0.01", "0.02"].map(|m| of(method, m)));
    assert_eq!(names, expected.concat());
}

/// Four answers are those of two operations, twice each.
#[test]
#[cfg(unix)]
fn a_peer_that_ends_takes_no_measured_row_with_it() {
    let lines = r#"echo ready
for turn in 1 2 3 4; do
  read -r line
  echo '{"seconds": 5.0, "peak_mb": 1.0, "torch": "none", "mode": "eager"}'
done
exit 3
"#;
    let call = "bench ops --size 16x24 --only 7x7 --repeat 2 --json -q";
    let (rows, said, code) = beside(lines, &Vec::from_iter(call.split(' ')));
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(number(&rows[1], "peer"), 5.0);
    for words in ["ended before it answered", "exit status: 3", "hint:"] {
        assert!(said.contains(words), "no `{words}`: {said}");
    }
}

/// It has no memory for a second step, say: ours took its time, too.
#[test]
#[cfg(unix)]
fn a_network_is_timed_alone_where_its_peer_fails() {
    let lines = r#"echo ready
read -r line
echo '{"seconds": 5.0, "peak_mb": 1.0, "torch": "none", "mode": "eager"}'
kill -9 $$
"#;
    let call = "bench infer --size 24x36 --repeat 2 --json -q";
    let (rows, said, code) = beside(lines, &Vec::from_iter(call.split(' ')));
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(number(&rows[0], "ours") > 0.0);
    assert!(
        rows[0]["peer"].is_null() && rows[0]["ratio"].is_null(),
        "{rows:?}"
    );
    assert!(said.contains("signal: 9"), "{said}");
}

#[test]
#[cfg(unix)]
fn what_is_no_time_is_no_answer_of_a_peer() {
    let call = "bench ops --size 16x24 --only 7x7 --repeat 1 --json -q";
    for (answer, words) in [
        (
            r#"{"seconds": 0, "peak_mb": 1, "torch": "", "mode": ""}"#,
            "above 0 s",
        ),
        (
            r#"{"seconds": -1, "peak_mb": 1, "torch": "", "mode": ""}"#,
            "above 0 s",
        ),
        (r#"{"error": "no such operation"}"#, "no such operation"),
    ] {
        let lines = format!("echo ready\nwhile read -r line; do echo '{answer}'; done\n");
        let (rows, said, code) = beside(&lines, &Vec::from_iter(call.split(' ')));
        assert_eq!((code, rows.len()), (Some(4), 0), "{said}");
        assert!(said.contains(words), "no `{words}`: {said}");
    }
}

#[test]
fn what_cannot_be_timed_is_refused() {
    let huge = ["bench", "ops", "--size", "768x1152", "--batch", "65535"];
    for (more, words) in [
        (&["--only", "nothing"][..], "no operation of deeplabv3plus"),
        (&["--network", "resnet"], "deeplabv3plus"),
        (&["--batch", "0"], "--batch"),
        (&["--peer", "/no/such/program"], "does not start"),
    ] {
        refuses(&[&SMALL[..], more].concat(), words);
    }
    refuses(&huge, "may have");
}

fn refuses(arguments: &[&str], words: &str) {
    common::refuses(arguments, 2, &[words]);
}
