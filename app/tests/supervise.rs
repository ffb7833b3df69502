//! `squall supervise` with commands that fail in every way.

mod common;

use common::{Need, hangups_are_ignored, lacks, mpirun, path, skipped, squall, staged, text};
use squall_jobs::lock::FolderLock;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

/// A supervised shell script that watches this folder.
fn supervise(folder: &Path, tries: u32, script: &str) -> std::process::Command {
    let mut command = squall();
    let tries = tries.to_string();
    command.args([
        "supervise",
        "--watch",
        path(folder),
        "--pause",
        "0",
        "--tries",
        &tries,
    ]);
    command.args(["--", "sh", "-c", script]).current_dir(folder);
    command
}

fn ended(folder: &Path, tries: u32, script: &str) -> Output {
    supervise(folder, tries, script).output().expect("starts")
}

/// How often the script began.
fn starts(folder: &Path) -> usize {
    let lines = std::fs::read_to_string(folder.join("starts")).unwrap_or_default();
    lines.lines().count()
}

#[test]
fn what_fails_is_started_again_while_it_advances() {
    let folder = tempfile::tempdir().expect("a folder");
    // Each start leaves more behind; the fourth ends well.
    let output = ended(
        folder.path(),
        2,
        "echo >>starts; [ $(wc -l <starts) -ge 4 ]",
    );
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(starts(folder.path()), 4);
}

/// Tries are those in a row: an advance begins them anew.
#[test]
fn an_advance_forgets_the_failures_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    // The second of four starts leaves more behind. What begins with a dot is no progress.
    let script = "echo >>.n; n=$(wc -l <.n); [ $n -ne 2 ] || echo >>starts; [ $n -ge 4 ]";
    let output = ended(folder.path(), 2, script);
    assert!(output.status.success(), "{}", text(&output));
    // Survivors of a failure have a pause to go in.
    let mut paused = squall();
    paused.args(["supervise", "--watch", path(folder.path()), "--pause=0.5"]);
    paused.args(["--tries=2", "--", "sh", "-c", "exit 9"]);
    let begun = Instant::now();
    assert_eq!(paused.output().expect("starts").status.code(), Some(9));
    assert!(begun.elapsed() >= Duration::from_millis(500));
}

#[test]
fn what_does_not_advance_is_given_up_with_its_own_code() {
    let folder = tempfile::tempdir().expect("a folder");
    // What begins with a dot is no progress.
    let output = ended(folder.path(), 3, "echo >>.n; exit 9");
    assert_eq!(output.status.code(), Some(9), "{}", text(&output));
    assert!(
        text(&output).contains("3 times without progress"),
        "{}",
        text(&output)
    );
    let tried = std::fs::read_to_string(folder.path().join(".n")).expect("written");
    assert_eq!(tried.lines().count(), 3);
}

/// As of a training that the system kills in its first steps: each start leaves another file of metrics behind.
#[test]
fn a_training_that_never_comes_to_a_checkpoint_is_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "echo >>.n; n=$(wc -l <.n); [ $n -lt 6 ] || exit 0; \
                  echo >>metrics.jsonl; echo >events.out.tfevents.$n; exit 9";
    let output = ended(folder.path(), 2, script);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(9), "{said}");
    assert!(said.contains("2 times without progress"), "{said}");
}

/// It had given up at the first failure, however far the command had come.
#[test]
fn no_tries_at_all_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = ended(folder.path(), 0, "echo >>starts");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--tries"), "{said}");
    assert_eq!(starts(folder.path()), 0, "{said}");
}

/// A rank on another machine may have the number of the supervisor's process by chance: it took itself for one that was
/// started anew already, and left the cores of its node undivided.
#[test]
fn a_command_does_not_hear_the_number_of_its_supervisor() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "[ -z \"$SQUALL_PREPARED_PROCESS\" ] || exit 9";
    let output = ended(folder.path(), 1, script);
    assert!(output.status.success(), "{}", text(&output));
}

/// Ranks elsewhere have other quotas of processor time.
#[test]
fn a_command_does_not_hear_the_threads_of_its_supervisor() {
    let folder = tempfile::tempdir().expect("a folder");
    for (own, expected) in [(Some("1"), "none"), (None, "3")] {
        let script = format!("[ \"${{OMP_NUM_THREADS-none}}\" = {expected} ] || exit 9");
        let mut command = supervise(folder.path(), 1, &script);
        command.env_remove("SQUALL_OWN_NUM_THREADS");
        command.env("OMP_NUM_THREADS", "3");
        if let Some(own) = own {
            command.env("SQUALL_OWN_NUM_THREADS", own);
        }
        let output = command.output().expect("starts");
        assert!(output.status.success(), "{own:?}: {}", text(&output));
    }
}

/// Wrong usage, unusable input, and what saved and asks to be run again later.
#[test]
fn some_ends_are_not_tried_again() {
    for code in [2, 3, 75] {
        let folder = tempfile::tempdir().expect("a folder");
        let output = ended(folder.path(), 5, &format!("echo >>starts; exit {code}"));
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert_eq!(starts(folder.path()), 1, "exit code {code}");
        // A command that is wrong goes on from nowhere.
        let goes_on = text(&output).contains("goes on from the newest valid state");
        assert_eq!(goes_on, code != 2, "{}", text(&output));
    }
}

/// Large checkpoints take longer to read than a batch system leaves after its last signal. Here one takes for ever.
#[test]
fn an_end_that_is_not_tried_again_does_not_wait_for_what_was_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "mkfifo checkpoint.safetensors && exit 75";
    let mut child = supervise(folder.path(), 5, script)
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let begun = Instant::now();
    while child.try_wait().expect("asked").is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().expect("ended");
            panic!("it reads what the command saved");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(child.wait().expect("ends").code(), Some(75));
}

/// As of a supervisor that was killed: its training goes on, and each of its checkpoints would be a reason to try again.
#[test]
fn nothing_is_started_beside_a_process_that_works_in_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let held = FolderLock::take(folder.path()).expect("held");
    let script = "echo >>starts; [ $(wc -l <starts) -ge 5 ] || exit 5";
    let output = ended(folder.path(), 3, script);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    let who = format!("in use by another process (process {}", std::process::id());
    assert!(said.contains(&who) && said.contains("hint:"), "{said}");
    assert_eq!(starts(folder.path()), 0, "{said}");
    drop(held);
    let output = ended(folder.path(), 3, script);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(starts(folder.path()), 5);
}

/// As of ranks that outlive their launcher: each failed try used to give them another pause.
#[test]
fn what_is_left_of_a_killed_command_has_the_pauses_of_all_tries() {
    let folder = tempfile::tempdir().expect("a folder");
    let held = FolderLock::take(folder.path()).expect("held");
    let survivor = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(4));
        drop(held);
    });
    let output = ended(folder.path(), 20, "echo >>starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("waiting 20 s for its end"), "{said}");
    assert_eq!(starts(folder.path()), 1, "{said}");
    survivor.join().expect("ends");
}

#[test]
fn a_signal_goes_on_and_the_end_counts() {
    use rustix::process::{Pid, Signal, kill_process};
    for signal in [Signal::TERM, Signal::HUP] {
        if signal == Signal::HUP && hangups_are_ignored() {
            skipped("SIGHUP is ignored here");
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let script = "trap 'exit 75' TERM HUP; echo >>starts; while :; do sleep 0.02; done";
        let mut child = supervise(folder.path(), 5, script)
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let patience = Instant::now() + Duration::from_secs(20);
        while starts(folder.path()) == 0 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&child), signal).expect("told");
        let status = child.wait().expect("ends");
        assert_eq!(status.code(), Some(75), "{signal:?}");
        assert_eq!(starts(folder.path()), 1);
    }
}

/// As of `supervise -- env NAME=VALUE mpirun ...`: Open MPI would kill the ranks soon after a SIGTERM, and exit with 1.
#[test]
fn ranks_of_a_launcher_in_the_place_of_another_program_hear_a_signal_that_leaves_time() {
    let launcher = mpirun();
    let version = std::process::Command::new(launcher.get_program())
        .arg("--version")
        .output();
    let Ok(version) = version else {
        return lacks(Need::Mpirun, "mpirun");
    };
    if !text(&version).contains("Open MPI") {
        return skipped("mpirun is not that of Open MPI");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = squall();
    for (name, value) in launcher.get_envs() {
        command.env(name, value.expect("nothing is taken away"));
    }
    let script = "trap 'exit 75' USR1; echo >>starts; while :; do sleep 0.02; done";
    let mut child = command
        .args(["supervise", "--watch", path(folder.path()), "--", "env"])
        .arg(launcher.get_program())
        .args(["-n", "1", "sh", "-c", script])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let patience = Instant::now() + Duration::from_secs(60);
    while starts(folder.path()) == 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
    assert_eq!(child.wait().expect("ends").code(), Some(75));
    assert_eq!(starts(folder.path()), 1);
}

#[test]
fn a_signal_between_two_starts_is_answered_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = folder.path().join(".said");
    let mut child = squall()
        .args([
            "supervise",
            "--watch",
            path(folder.path()),
            "--pause",
            "600",
        ])
        .args(["--", "sh", "-c", "exit 9"])
        .stderr(std::fs::File::create(&said).expect("created"))
        .spawn()
        .expect("starts");
    let pauses = || {
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        said.contains("starting it again")
    };
    let begun = Instant::now();
    while !pauses() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told");
    let told = Instant::now();
    while child.try_wait().expect("asked").is_none() {
        if told.elapsed() > Duration::from_secs(20) {
            child.kill().expect("ended");
            panic!("it waits for the end of its pause");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(child.wait().expect("ends").code(), Some(75));
}

/// Ctrl-C reaches every process of a terminal's group, and the command once more from its supervisor: it saves all the
/// same.
#[test]
fn a_training_that_hears_ctrl_c_twice_saves() {
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let store = staged(folder.path(), 3, 3);
    let settings = "training.steps=100000 training.checkpoint_every_steps=100000 \
                    training.validate_every_steps=100000 training.batch=1";
    let settings = settings.split_whitespace().flat_map(|set| ["--set", set]);
    let mut child = squall()
        .args(["supervise", "--", env!("CARGO_BIN_EXE_squall"), "train"])
        .args(["--recipe", "small", "--data", path(&store)])
        .args(["--out", path(&at("run"))])
        .args(settings)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("starts");
    let steps = || {
        let metrics = std::fs::read_to_string(at("run/metrics.jsonl")).unwrap_or_default();
        metrics.lines().count()
    };
    let patience = Instant::now() + Duration::from_secs(60);
    while steps() < 3 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).expect("told");
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), Some(75));
    assert!(at("run/checkpoint.safetensors").exists());
}

#[test]
fn a_training_that_is_stopped_says_which_step_is_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = staged(folder.path(), 3, 3);
    let ended = squall()
        .args(["supervise", "--", env!("CARGO_BIN_EXE_squall"), "train"])
        .args(["--recipe", "small", "--data", path(&store)])
        .args(["--out", path(&folder.path().join("run"))])
        .args(["--set", "training.steps=50", "--set", "training.batch=1"])
        .args(["--set", "training.max_seconds=1e-3"])
        .output()
        .expect("starts");
    assert_eq!(ended.status.code(), Some(75));
    let said = text(&ended);
    assert!(
        said.contains("stopped after step 1, which the checkpoint holds"),
        "{said}"
    );
}
