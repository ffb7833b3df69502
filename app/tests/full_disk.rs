//! A netCDF file that cannot be written: an error that says why, and the same bytes once there is room.

mod common;

use common::{contents, path, run, simulate, text};
use std::path::Path;
use std::process::{Command, Output};

/// What `ulimit -f` counts.
const BLOCK_BYTES: u64 = 512;

/// Runs the program where no file may have as many bytes as this: what a full disk is to it, without a disk to fill.
fn without_room_for(bytes: u64, arguments: &[&str]) -> Output {
    let blocks = (bytes - 1) / BLOCK_BYTES;
    let script = "ulimit -f \"$0\"; exec \"$@\"";
    Command::new("sh")
        .args(["-c", script, &blocks.to_string()])
        .arg(env!("CARGO_BIN_EXE_squall"))
        .args(arguments)
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("the shell starts")
}

/// The error that the command must end with: of a netCDF file, with the system's reason and a hint, and nothing else.
fn check_error(output: &Output) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(5), "{:?}\n{said}", output.status);
    for words in [
        "error: cannot write `",
        ".nc`: File too large (os error 27)",
        "hint: `ulimit -f`",
    ] {
        assert!(said.contains(words), "it does not say `{words}`:\n{said}");
    }
    for words in ["HDF5", "HDF error", "netCDF", "panicked"] {
        assert!(!said.contains(words), "it says `{words}`:\n{said}");
    }
}

/// What is in `part` must be in `whole`, to the byte.
fn check_kept(part: &Path, whole: &Path) {
    let whole = contents(whole, |_| false);
    // The state from which a run goes on is no result.
    let is_state = |name: &str| name.starts_with(".events.partial") || name == ".builds.json";
    for file in contents(part, is_state) {
        assert!(whole.contains(&file), "{} is not as it must be", file.0);
    }
}

#[test]
fn tables_of_events_without_room() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let fields = simulate(folder.path(), 3, 5);
    let (truth, whole) = (fields.join("truth"), at("whole"));
    let events = |out: &Path, limit: Option<u64>| {
        let call = [
            "events",
            path(&truth),
            "--fields",
            path(&fields),
            "--format",
            "ibtracs",
            "--object-id",
            "--quiet",
            "--out",
            path(out),
        ];
        match limit {
            Some(bytes) => Some(without_room_for(bytes, &call)),
            None => {
                run(&call);
                None
            }
        }
    };
    events(&whole, None);
    // In the order in which they are written, each larger than all before.
    for name in ["statistics.nc", "tracks.tropical_cyclone.ibtracs.nc"] {
        let out = at(&format!("without {name}"));
        let bytes = whole.join(name).metadata().expect("written").len();
        let output = events(&out, Some(bytes)).expect("it was limited");
        check_error(&output);
        assert!(!out.join(name).exists(), "{name} is there");
        check_kept(&out, &whole);
        events(&out, None);
        assert!(
            contents(&out, |_| false) == contents(&whole, |_| false),
            "other bytes after {name} was written anew"
        );
    }
}

#[test]
fn fields_without_room() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let whole = simulate(folder.path(), 4, 5);
    let out = folder.path().join("begun");
    let call = [
        "simulate",
        "--out",
        path(&out),
        "--grid",
        "48x72",
        "--days",
        "4",
        "--hours",
        "6",
        "--start",
        "2000-08-01",
        "--seed",
        "5",
        "--quiet",
    ];
    let sizes = contents(&whole, |name| !name.ends_with(".nc")).into_iter();
    let largest = sizes.map(|(_, bytes)| bytes.len() as u64).max();
    // In the middle of the fields: it fails before the file is closed.
    let output = without_room_for(largest.expect("fields") / 2, &call);
    check_error(&output);
    check_kept(&out, &whole);
    run(&call);
    assert!(
        contents(&out, |_| false) == contents(&whole, |_| false),
        "other bytes than those of a run that had room"
    );
}

/// Results that nobody can keep are no failure of the run.
#[test]
fn standard_output_without_room() {
    for call in ["summary deepcam --json", "--help", "train -h", "--version"] {
        let script = format!("exec \"$0\" {call} > /dev/full");
        let output = Command::new("sh")
            .args(["-c", &script])
            .arg(env!("CARGO_BIN_EXE_squall"))
            .output()
            .expect("the shell starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(5), "{call}: {said}");
        for words in ["error: cannot write to standard output: No space", "hint: "] {
            assert!(
                said.contains(words),
                "{call} does not say `{words}`:\n{said}"
            );
        }
    }
}
