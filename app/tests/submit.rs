//! Job scripts, through the program.

mod common;

use common::{path, run, squall, staged, text};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const PERLMUTTER: [&str; 13] = [
    "submit",
    "--recipe",
    "deepcam",
    "--machine",
    "perlmutter",
    "--nodes",
    "4",
    "--hours",
    "2",
    "--data",
    "/scratch/store",
    "--out",
    "/scratch/run",
];

/// Whether the shell can read it.
fn check_shell(script: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("job.sh");
    std::fs::write(&file, script).expect("written");
    let output = Command::new("bash")
        .arg("-n")
        .arg(&file)
        .output()
        .expect("bash starts");
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_script_is_printed_for_every_machine() {
    let machines = [
        ("perlmutter", "#SBATCH --nodes=1"),
        ("piz-daint", "#SBATCH --constraint=gpu"),
        ("cori-knl", "--core-spec=2"),
        ("juwels-booster", "srun"),
        ("summit", "#BSUB -W 1:00"),
        ("h100-pbs", "#PBS -l "),
        ("roce-p100", "mpirun"),
        ("workstation", "squall train"),
    ];
    for (machine, expected) in machines {
        let to = ["--data", "/scratch/store", "--out", "/scratch/run"];
        let ask = ["submit", "--recipe", "small", "--machine", machine];
        let script = run(&[&ask[..], &to].concat());
        assert!(script.contains(expected), "{machine}:\n{script}");
        assert!(script.contains("squall supervise"), "{machine}:\n{script}");
        check_shell(&script);
    }
}

#[test]
fn a_script_is_written_and_sent() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let job = at("job.sh");
    // Stands in for the batch system: says what it was given, also in the environment, which the job will have.
    let write = |file: &Path, code: i32| {
        let given = "$1 ${SQUALL_PREPARED_PROCESS-none} ${SQUALL_OWN_WAIT_POLICY-none}";
        let stub = format!("#!/bin/sh\necho \"sent {given}\"\nexit {code}\n");
        std::fs::write(file, stub).expect("written");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("set");
    };
    write(&at("sbatch"), 0);
    let path_of = format!(
        "{}:{}",
        path(folder.path()),
        std::env::var("PATH").unwrap_or_default()
    );
    let send = || {
        let more = ["--script", path(&job), "--send"];
        squall()
            .args(PERLMUTTER)
            .args(more)
            .env("PATH", &path_of)
            .output()
            .expect("starts")
    };
    let output = send();
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains(&format!("sent {} none none", job.display())),
        "{}",
        text(&output)
    );
    let script = std::fs::read_to_string(&job).expect("a script");
    assert!(
        script.contains("#SBATCH --time=2:00:00") && script.contains("--job-name=deepcam"),
        "{script}"
    );
    assert_eq!(
        std::fs::metadata(&job).expect("there").permissions().mode() & 0o111,
        0o111
    );
    write(&at("sbatch"), 1);
    let output = send();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(
        text(&output).contains("`sbatch` refused"),
        "{}",
        text(&output)
    );
}

/// Nobody would have noticed a script that trains another recipe, on somebody else's account.
#[test]
fn every_option_is_in_the_script() {
    let words = "--ranks-per-node 2 --margin 120 --name century --account geo123 --queue debug --exclude nid1,nid2 \
                 --exclude nid3 --per-node 100 --tries 7 --program /opt/squall --set training.batch=3 --set seed=5";
    let words: Vec<&str> = words.split_whitespace().collect();
    let script = run(&[&PERLMUTTER[..], &words[..]].concat());
    for part in [
        "#SBATCH --job-name=century\n",
        "#SBATCH --nodes=4\n",
        "#SBATCH --ntasks-per-node=2\n",
        "#SBATCH --time=2:00:00\n",
        "#SBATCH --signal=B:USR1@120\n",
        "#SBATCH --partition=debug\n",
        "#SBATCH --account=geo123\n",
        "#SBATCH --exclude=nid1,nid2,nid3\n",
        // Two hours without the seconds that are kept.
        "stop_at=$(($(date +%s) + 7080))\n",
        "run_folder=/scratch/run\nstore=/scratch/store\n",
        "    /opt/squall stage \"$store\"\n",
        "--per-node 100\n",
        "    /opt/squall train\n    --recipe deepcam\n",
        "    --set training.batch=3\n    --set seed=5\n",
        "run /opt/squall supervise --tries 7 ",
    ] {
        assert!(script.contains(part), "{part} is not in:\n{script}");
    }
    let made_by = format!(
        "# Written by: squall {} {}\n",
        PERLMUTTER.join(" "),
        words.join(" ")
    );
    assert!(script.contains(&made_by), "{script}");
    let unstaged = run(&[&PERLMUTTER[..], &["--no-staging"]].concat());
    assert!(run(&PERLMUTTER).contains("squall stage"));
    assert!(!unstaged.contains("squall stage"), "{unstaged}");
    assert!(unstaged.contains("\ndata=$store\n"), "{unstaged}");
    // Name and limit of time are the recipe's own, where no option says otherwise.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recipe = folder.path().join("own.toml");
    let text = "name = 'limited'\n[training]\nmax_seconds = 600.0\n";
    std::fs::write(&recipe, text).expect("written");
    let ask = ["submit", "--recipe", path(&recipe), "--machine"];
    let rest = ["perlmutter", "--data", "/s", "--out", "/r"];
    let limited = run(&[&ask[..], &rest[..]].concat());
    assert!(limited.contains("\n    left=600\n"), "{limited}");
    assert!(limited.contains("--job-name=limited\n"), "{limited}");
}

#[test]
fn what_no_machine_gives_is_wrong_usage() {
    let check = |more: &[&str], expected: &str| {
        let output = squall()
            .args(PERLMUTTER)
            .args(more)
            .output()
            .expect("starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(output.stdout.is_empty(), "{said}");
    };
    check(&["--name", "two words"], "--name");
    check(&["--set", "training.batch=0"], "training.batch");
    check(&["--margin", "7200"], "7200 s kept for the last checkpoint");
    check(&["--exclude", "a;b"], "--exclude");
    check(&["--ranks-per-node", "0"], "--ranks-per-node");
    check(&["--send"], "--script");
    let ask = |machine: &str, more: &[&str]| {
        let ask = [
            "submit",
            "--recipe",
            "small",
            "--machine",
            machine,
            "--data",
            "/s",
            "--out",
            "/r",
        ];
        squall().args(ask).args(more).output().expect("starts")
    };
    for (machine, more) in [
        ("summit", ["--nodes", "5000"]),
        ("summit", ["--hours", "30"]),
    ] {
        let output = ask(machine, &more);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(more[0]), "{}", text(&output));
    }
    // Not the batch, which nobody is dealt.
    let nobody = ["--nodes", "0", "--set", "distributed.global_batch=64"];
    let said = text(&ask("summit", &nobody));
    assert!(said.contains("`--nodes`: expected 1 to 4608"), "{said}");
}

/// Its script had named a folder that is not there, with `\u{fffd}` for the letter that is no UTF-8.
#[test]
fn a_path_that_a_script_cannot_name_is_refused() {
    for option in ["--data", "--out", "--script"] {
        let mut command = squall();
        command.args(["submit", "--recipe", "small", "--machine", "workstation"]);
        for (known, path) in [("--data", "/s"), ("--out", "/r")] {
            if known != option {
                command.args([known, path]);
            }
        }
        let latin = OsStr::from_bytes(b"/stor\xe9");
        let output = command.arg(option).arg(latin).output().expect("starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{option}: {said}");
        assert!(said.contains("the path is not UTF-8"), "{option}: {said}");
        assert!(said.contains(option) && output.stdout.is_empty(), "{said}");
    }
}

/// As of a queue for debugging: nobody asked for the hour that is the default elsewhere.
#[test]
fn a_turn_is_no_longer_than_the_machine_lets_it_be() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let machine = folder.path().join("mine.toml");
    let text = include_str!("../../jobs/machines/perlmutter.toml");
    let text = text.replacen("max_hours = 48.0", "max_hours = 0.5", 1);
    std::fs::write(&machine, text).expect("written");
    let to = ["--data", "/scratch/store", "--out", "/scratch/run"];
    let ask = ["submit", "--recipe", "small", "--machine", path(&machine)];
    let script = run(&[&ask[..], &to].concat());
    assert!(script.contains("#SBATCH --time=0:30:00\n"), "{script}");
}

/// Ranks divide the global batch, but not its samples without labels, or not into groups: training would refuse them.
#[test]
fn ranks_that_training_would_refuse_are_refused_before_a_script_is_written() {
    let check = |more: &[&str], expected: &str| {
        let to = ["--data", "/scratch/store", "--out", "/scratch/run"];
        let ask = ["submit", "--recipe", "detect", "--machine", "summit"];
        let output = squall().args([&ask[..], &to, more].concat()).output();
        let output = output.expect("starts");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(output.stdout.is_empty(), "{said}");
    };
    let global = [
        "--set",
        "distributed.global_batch=48",
        "--set",
        "detection.unlabelled_per_batch=12",
        "--set",
        "detection.loss.reconstruction=10",
    ];
    let four = [&global[..], &["--nodes", "4"]].concat();
    check(
        &four,
        "`detection.unlabelled_per_batch`: expected a multiple of 24 ranks",
    );
    let groups = ["--set", "distributed.groups=2", "--nodes", "3"];
    check(&groups, "`distributed.groups`");
    // Two groups of eight ranks, with two servers: 12 does not divide.
    let grouped = [
        "--nodes",
        "3",
        "--set",
        "distributed.groups=2",
        "--set",
        "distributed.servers=2",
    ];
    check(
        &[&global[..], &grouped].concat(),
        "`detection.unlabelled_per_batch`: expected a multiple of 8 ranks",
    );
    // Nor of a part of the samples on each node.
    let part = ["--nodes", "4", "--per-node", "100"];
    let groups = [
        "--set",
        "distributed.groups=2",
        "--set",
        "distributed.servers=4",
    ];
    let found = [
        "detection.pseudo_labels=a.csv",
        "detection.unlabelled_per_batch=1",
    ];
    let found = ["--set", found[0], "--set", found[1]];
    for (settings, key) in [
        (groups, "distributed.groups"),
        (found, "detection.pseudo_labels"),
    ] {
        let expected = format!("`--per-node`: expected none with `{key}`");
        check(&[&part[..], &settings].concat(), &expected);
    }
    // Nor as ranks are to sum.
    let leaders = ["--set", "distributed.leaders=4", "--ranks-per-node", "3"];
    check(
        &leaders,
        "`distributed.leaders`: expected at most the 3 ranks",
    );
    let grid = ["distributed.algorithm=grid", "distributed.grid=[2, 2]"];
    let grid = ["--set", grid[0], "--set", grid[1]];
    check(&grid, "`distributed.grid`: expected rows and columns of 6");
}

#[test]
fn a_script_takes_the_place_of_a_script_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [script, table] = ["job.sh", "tracks.csv"].map(|name| folder.path().join(name));
    let write = |to: &Path| {
        let call = [&PERLMUTTER[..], &["--script", path(to)]].concat();
        squall().args(call).output().expect("it starts")
    };
    for _ in 0..2 {
        let written = write(&script);
        assert!(written.status.success(), "{}", text(&written));
    }
    std::fs::write(&table, "class,time\n").expect("written");
    let refused = write(&table);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("is no script"));
    assert_eq!(std::fs::read(&table).expect("readable"), b"class,time\n");
    // No folder is made for a slip of the keyboard.
    let nowhere = folder.path().join("no/such");
    let refused = write(&nowhere.join("job.sh"));
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    let hint = format!("mkdir -p {}", nowhere.display());
    assert!(text(&refused).contains(&hint), "{}", text(&refused));
    assert!(!folder.path().join("no").exists());
}

#[test]
fn who_has_no_batch_system_hears_what_starts_the_script() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = folder.path().join("job.sh");
    let said = |nodes: &str| {
        let to = ["--data", "/scratch/store", "--out", "/scratch/run"];
        let written = squall()
            .args(["submit", "--recipe", "small", "--machine", "roce-p100"])
            .args(["--nodes", nodes, "--script", path(&script)])
            .args(to)
            .output()
            .expect("it starts");
        assert!(written.status.success(), "{}", text(&written));
        text(&written)
    };
    let start = format!("`bash {}", script.display());
    let one = said("1");
    assert!(one.contains(&format!("{start}` starts it")), "{one}");
    let two = said("2");
    let due = format!("{start} HOSTS` starts it, with a file that lists 2 hosts");
    assert!(two.contains(&due), "{two}");
}

/// The job waited for its nodes, and ended at its first step.
#[test]
fn a_batch_that_no_rank_has_memory_for_is_told_before_the_queue() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = staged(folder.path(), 2, 5);
    let said = |batch: &str, data: &str| {
        let written = squall()
            .args(["submit", "--recipe", "small", "--machine", "cori-knl"])
            .args(["--ranks-per-node", "4", "--set", batch, "--data", data])
            .args(["--out", "/scratch/run"])
            .output()
            .expect("it starts");
        assert!(written.status.success(), "{}", text(&written));
        String::from_utf8_lossy(&written.stderr).into_owned()
    };
    let huge = "training.batch=1000000";
    let warned = said(huge, path(&store));
    assert!(warned.contains("a rank needs about"), "{warned}");
    // Four ranks share the memory that the machine's file gives its one rank.
    assert!(warned.contains("has 24.00 GB: take a smaller"), "{warned}");
    let fits = said("training.batch=2", path(&store));
    assert!(!fits.contains("a rank needs"), "{fits}");
    // Nobody knows the grid of a store that is not here.
    let elsewhere = said(huge, "/scratch/store");
    assert!(!elsewhere.contains("a rank needs"), "{elsewhere}");
}
