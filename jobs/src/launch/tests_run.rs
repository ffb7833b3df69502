//! Scripts run with a program, launchers and batch systems that only say what they were told.

use super::{Job, script};
use crate::machine::Machine;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Writes down its words; `train` adds a step to the metrics if it is to advance, saves it unless it is not to, and waits
/// for a signal if it is to.
const SQUALL: &str = r#"echo "squall $*" >>log
case $1 in
supervise)
    while [ "$1" != -- ]; do shift; done
    shift
    # Not `exec`: the signal must reach a process that passes it on.
    trap 'kill -USR1 $(jobs -p); echo "supervise was told" >>log' USR1
    "$@" &
    wait $!
    code=$?
    [ $code -gt 128 ] && { wait $!; code=$?; }
    exit $code
    ;;
stage) exit "${STAGE_CODE:-0}" ;;
train)
    run="a run"
    step=$(tail -n 1 "$run/metrics.jsonl" | sed 's/.*"step":\([0-9]*\).*/\1/')
    advance() {
        step=$((step + STEPS))
        echo "{\"kind\":\"step\",\"step\":$step,\"loss\":0}" >>"$run/metrics.jsonl"
        if [ "${SAVES:-yes}" = yes ]; then save "$step"; fi
    }
    # The first bytes of a checkpoint.
    save() {
        printf '\200\204\0\0\0\0\0\0%s%s%s' '{"__metadata__":{"squall":"{\"checkpoint\":\"{\\\"progress\\\":{\\\"step\\\":' \
            "$1" ',\\\"skipped\\\":0},\\\"best\\\":{\\\"step\\\":99}}\"' >"$run/checkpoint.safetensors"
    }
    if [ -n "${WAIT:-}" ]; then
        trap 'advance; exit "${TOLD_CODE:-75}"' USR1
        touch waiting
        for _ in $(seq 400); do sleep 0.05; done
        exit 9
    fi
    advance
    if [ "$CODE" = 0 ]; then echo "${SAYS:-\"outcome\": \"finished\"}"; fi
    exit "$CODE"
    ;;
esac
"#;

/// Writes down its words and becomes the program.
const LAUNCHER: &str = r#"echo "${0##*/} $*" >>log
while [ "$1" != squall ]; do shift; done
exec "$@"
"#;

/// Writes down its words.
const COMMAND: &str = "echo \"${0##*/} $*\" >>log\n";

struct Stage {
    folder: tempfile::TempDir,
}

/// What came of a script.
struct Ended {
    code: Option<i32>,
    log: String,
    /// Its own words.
    said: String,
}

impl Ended {
    fn count(&self, words: &str) -> usize {
        self.log
            .lines()
            .filter(|line| line.starts_with(words))
            .count()
    }
}

impl Stage {
    /// A folder with a store, a run at step 10 of which nothing is saved yet, and a script.
    fn of(machine: &str, change: impl Fn(&mut Job)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut machine = Machine::named(machine).unwrap();
        if let Some(disk) = &mut machine.node.local_disk {
            disk.path = format!("{}/disk", path.display());
        }
        let mut job = Job {
            script: "the job.sh".into(),
            stage: machine.node.local_disk.is_some(),
            ..Job::new("century", "small", "the store", "a run")
        };
        change(&mut job);
        std::fs::write(path.join("the job.sh"), script(&job, &machine).unwrap()).unwrap();
        std::fs::create_dir(path.join("the store")).unwrap();
        std::fs::write(path.join("the store/store.json"), "{}").unwrap();
        std::fs::create_dir(path.join("a run")).unwrap();
        std::fs::write(path.join("a run/metrics.jsonl"), "{\"step\":10}\n").unwrap();
        let bin = path.join("bin");
        std::fs::create_dir(&bin).unwrap();
        command(&bin, "squall", SQUALL);
        for name in ["srun", "jsrun", "mpiexec", "mpirun"] {
            command(&bin, name, LAUNCHER);
        }
        for name in ["scontrol", "qsub"] {
            command(&bin, name, COMMAND);
        }
        command(&bin, "squeue", "echo \"$STATE\"\n");
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn start(&self, variables: &[(&str, &str)]) -> Child {
        let said = std::fs::File::create(self.path().join("said")).unwrap();
        Command::new("bash")
            .args(["-c", "PATH=$PWD/bin:$PATH exec bash 'the job.sh'"])
            .current_dir(self.path())
            .env("PBS_O_WORKDIR", self.path())
            .envs([("SLURM_JOB_ID", "7"), ("SLURM_CPUS_ON_NODE", "64")])
            .env("LSB_JOBID", "7")
            .envs([("CODE", "0"), ("STEPS", "5"), ("STATE", "RUNNING")])
            .envs(variables.iter().copied())
            .stderr(said)
            .spawn()
            .unwrap()
    }

    fn end(&self, mut script: Child) -> Ended {
        let code = script.wait().unwrap().code();
        let read = |name: &str| std::fs::read_to_string(self.path().join(name)).unwrap_or_default();
        Ended {
            code,
            log: read("log"),
            // LSF's script writes into a file of its own.
            said: read("said") + &read("century.7.out"),
        }
    }

    fn run(&self, variables: &[(&str, &str)]) -> Ended {
        self.end(self.start(variables))
    }

    /// Sends a signal to the script as soon as ranks train.
    fn send_signal(&self, signal: &str, variables: &[(&str, &str)]) -> Ended {
        let mut all = vec![("WAIT", "yes")];
        all.extend(variables);
        let script = self.start(&all);
        let begun = Instant::now();
        while !self.path().join("waiting").exists() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nothing trains");
            std::thread::sleep(Duration::from_millis(10));
        }
        // The shell's own `kill`: a small system has no program of that name.
        let kill = format!("kill {signal} {}", script.id());
        let sent = Command::new("bash").args(["-c", &kill]).status();
        assert!(sent.unwrap().success());
        self.end(script)
    }
}

fn command(bin: &Path, name: &str, text: &str) {
    let path = bin.join(name);
    std::fs::write(&path, format!("#!/bin/bash\n{text}")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A machine, what brings its jobs back (LSF: the exit code alone), and the exit code of one that somebody ended.
const SYSTEMS: [(&str, Option<&str>, i32); 4] = [
    ("perlmutter", Some("scontrol requeue 7"), 75),
    ("summit", None, 143),
    ("h100-pbs", Some("qsub the job.sh"), 75),
    ("workstation", None, 75),
];

fn check(machine: &str, again: Option<&str>, ended: &Ended, code: i32, times: usize) {
    assert_eq!(
        ended.code,
        Some(code),
        "{machine}: {}{}",
        ended.log,
        ended.said
    );
    if let Some(again) = again {
        assert_eq!(ended.count(again), times, "{machine}: {}", ended.log);
    }
    let others = ended.count("scontrol") + ended.count("qsub");
    assert_eq!(others, again.map_or(0, |_| times), "{}", ended.log);
}

#[test]
fn a_job_comes_back_while_its_run_advances() {
    for (machine, again, _) in SYSTEMS {
        let stage = Stage::of(machine, |_| ());
        let cases = [("75", "5", 75, 1), ("75", "0", 4, 0), ("0", "5", 0, 0)];
        let failures = [("2", "5", 2, 0), ("137", "5", 137, 0)];
        for (code, steps, expected, times) in cases.into_iter().chain(failures) {
            std::fs::remove_file(stage.path().join("log")).ok();
            let ended = stage.run(&[("CODE", code), ("STEPS", steps)]);
            check(machine, again, &ended, expected, times);
            assert_eq!(ended.count("squall train"), 1, "{}", ended.log);
            let over = ended
                .said
                .contains("after a whole job, so it is not run again");
            assert_eq!(over, expected == 4, "{machine}: {}", ended.said);
            std::fs::remove_file(stage.path().join("century.7.out")).ok();
        }
    }
}

/// What was done and never saved is done again by the next job, and by the next.
#[test]
fn a_job_that_saves_nothing_does_not_come_back() {
    for (machine, again, _) in SYSTEMS {
        let stage = Stage::of(machine, |_| ());
        // Step 15 is saved; 20 is not.
        let ended = stage.run(&[("CODE", "75")]);
        check(machine, again, &ended, 75, 1);
        let advances = ended.said.contains("at step 15, after 0 when");
        assert!(advances, "{machine}: {}", ended.said);
        let lost = [("SAVES", "no"), ("STEPS", "5")];
        let fallen_back = [("SAVES", "yes"), ("STEPS", "-8")];
        for case in [lost, fallen_back] {
            std::fs::remove_file(stage.path().join("log")).unwrap();
            let ended = stage.run(&[&[("CODE", "75")][..], &case].concat());
            check(machine, again, &ended, 4, 0);
            assert_eq!(ended.count("squall train"), 1, "{}", ended.log);
            let why = "nothing beyond step 15 is saved after a whole job, so it is not run again";
            assert!(ended.said.contains(why), "{machine}: {}", ended.said);
        }
    }
}

#[test]
fn a_launcher_that_started_nothing_does_not_make_a_run_done() {
    for (machine, again, _) in SYSTEMS {
        let stage = Stage::of(machine, |_| ());
        let ended = stage.run(&[("SAYS", "nothing"), ("STEPS", "5")]);
        check(machine, again, &ended, 75, 1);
        assert!(
            ended.said.contains("did not say that it is done"),
            "{}",
            ended.said
        );
        std::fs::remove_file(stage.path().join("log")).unwrap();
        let ended = stage.run(&[("SAYS", "nothing"), ("STEPS", "0")]);
        check(machine, again, &ended, 4, 0);
    }
}

#[test]
fn a_signal_before_the_end_reaches_the_ranks_and_the_job_comes_back() {
    for (machine, again, _) in SYSTEMS {
        for signal in ["-USR1", "-USR2"] {
            let ended = Stage::of(machine, |_| ()).send_signal(signal, &[]);
            check(machine, again, &ended, 75, 1);
            assert_eq!(ended.count("supervise was told"), 1, "{}", ended.log);
        }
    }
}

#[test]
fn ranks_that_the_launcher_ended_after_the_signal_come_back_too() {
    for (machine, again, ended_code) in SYSTEMS {
        let killed = [("TOLD_CODE", "137")];
        let ended = Stage::of(machine, |_| ()).send_signal("-USR1", &killed);
        check(machine, again, &ended, 75, 1);
        let ended = Stage::of(machine, |_| ()).send_signal("-TERM", &killed);
        check(machine, again, &ended, ended_code, 0);
        // The disk was full.
        let ended = Stage::of(machine, |_| ()).send_signal("-USR1", &[("TOLD_CODE", "5")]);
        check(machine, again, &ended, 5, 0);
    }
}

#[test]
fn a_job_that_somebody_ends_does_not_come_back() {
    for (machine, again, code) in SYSTEMS {
        let ended = Stage::of(machine, |_| ()).send_signal("-TERM", &[]);
        check(machine, again, &ended, code, 0);
        assert!(
            ended.said.contains("told to end at step 15"),
            "{}",
            ended.said
        );
    }
    // Slurm told the ranks only.
    let ended = Stage::of("perlmutter", |_| ()).run(&[("CODE", "75"), ("STATE", "COMPLETING")]);
    check("perlmutter", Some("scontrol"), &ended, 75, 0);
}

#[test]
fn a_script_that_nobody_tells_watches_the_clock() {
    let soon = |job: &mut Job| (job.hours, job.margin_seconds) = (1.0 / 60.0, 56);
    // 137: the launcher killed the last ranks.
    let codes = ["75", "137"];
    let cases = ["h100-pbs", "workstation"].map(|machine| codes.map(|code| (machine, code)));
    let stages: Vec<_> = (cases.into_iter().flatten())
        .map(|(machine, code)| (machine, code, Stage::of(machine, soon)))
        .collect();
    // All wait at once.
    let scripts: Vec<Child> = (stages.iter())
        .map(|(_, code, stage)| stage.start(&[("WAIT", "yes"), ("TOLD_CODE", *code)]))
        .collect();
    for ((machine, _, stage), script) in stages.iter().zip(scripts) {
        let ended = stage.end(script);
        assert_eq!(ended.code, Some(75), "{}{}", ended.log, ended.said);
        assert!(ended.count("supervise was told") >= 1, "{}", ended.log);
        let again = usize::from(*machine == "h100-pbs");
        assert_eq!(ended.count("qsub"), again, "{}", ended.log);
    }
}

#[test]
fn training_gets_the_time_that_is_left() {
    let stage = Stage::of("perlmutter", |job| job.overrides = vec!["a.b=c d".into()]);
    let ended = stage.run(&[]);
    let train = ended
        .log
        .lines()
        .find(|line| line.starts_with("squall train"));
    let (_, words) = train
        .unwrap()
        .split_once("--out a run --set a.b=c d --json --set ")
        .unwrap();
    let left: u64 = words
        .strip_prefix("training.max_seconds=")
        .unwrap()
        .parse()
        .unwrap();
    assert!((3200..=3300).contains(&left), "{left}");
    assert_eq!(
        ended.count("srun --nodes=1 --ntasks=4 --ntasks-per-node=4 --cpus-per-task=16"),
        1
    );
    let limit = |job: &mut Job| job.overrides = vec!["training.max_seconds=90.5".into()];
    let ended = Stage::of("perlmutter", limit).run(&[]);
    assert!(
        ended.log.contains("--set training.max_seconds=90.5\n"),
        "{}",
        ended.log
    );
}

#[test]
fn a_store_that_cannot_be_staged_ends_the_job() {
    let stage = Stage::of("perlmutter", |_| ());
    let ended = stage.run(&[("STAGE_CODE", "5")]);
    check("perlmutter", Some("scontrol"), &ended, 5, 0);
    assert_eq!(ended.count("squall train"), 0);
    let disk = format!(
        "squall stage the store --local {}/disk/squall-",
        stage.path().display()
    );
    assert_eq!(ended.count(&disk), 1, "{}", ended.log);
    std::fs::remove_dir_all(stage.path().join("the store")).unwrap();
    let ended = stage.run(&[]);
    check("perlmutter", Some("scontrol"), &ended, 3, 0);
    assert!(
        ended.said.contains("there is no store in the store"),
        "{}",
        ended.said
    );
}

#[test]
fn several_hosts_without_a_batch_system_are_listed_in_a_file() {
    let stage = Stage::of("roce-p100", |job| job.nodes = 2);
    let mut child = stage.start(&[]);
    assert!(!child.wait().unwrap().success());
    let said = std::fs::read_to_string(stage.path().join("said")).unwrap();
    assert!(said.contains("a file that lists 2 hosts"), "{said}");
}
