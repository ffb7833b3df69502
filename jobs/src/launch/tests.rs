//! What scripts say, and what is refused.

use super::{Job, script};
use crate::machine::{Machine, Starter};
use std::process::Command;

/// A job for this machine, as large and as special as it allows.
fn job(name: &str) -> Job {
    let usual = Job {
        made_by: format!("squall submit --machine {name} --recipe deepcam --data store --out run"),
        nodes: 16,
        hours: 6.0,
        account: Some("geo123".into()),
        overrides: vec!["training.batch=2".into()],
        ..Job::new("century", "deepcam", "/project/store", "/project/run")
    };
    match name {
        "summit" => Job {
            exclude: vec!["a01n01".into(), "h36n18".into()],
            stage: true,
            hours: 2.0,
            ..usual
        },
        "cori-knl" => Job {
            overrides: vec!["training.max_seconds=7200.5".into()],
            ..usual
        },
        "perlmutter" => Job {
            exclude: vec!["nid001000".into()],
            stage: true,
            ..usual
        },
        "workstation" => Job {
            nodes: 1,
            account: None,
            store: "/data/my store's $copy".into(),
            ..usual
        },
        _ => Job {
            stage: true,
            ..usual
        },
    }
}

fn written(name: &str, job: &Job) -> String {
    script(job, &Machine::named(name).unwrap()).unwrap()
}

fn accepts(text: &str) {
    let output = Command::new("bash")
        .args(["-n", "-c", text])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{text}");
}

macro_rules! snapshot {
    ($test:ident, $machine:literal) => {
        #[test]
        fn $test() {
            let text = written($machine, &job($machine));
            accepts(&text);
            let mut settings = insta::Settings::clone_current();
            settings.set_prepend_module_to_snapshot(false);
            settings.set_omit_expression(true);
            settings.bind(|| insta::assert_snapshot!($machine, text));
        }
    };
}

snapshot!(summit, "summit");
snapshot!(cori_knl, "cori-knl");
snapshot!(perlmutter, "perlmutter");
snapshot!(h100_pbs, "h100-pbs");
snapshot!(workstation, "workstation");

#[test]
fn bash_accepts_the_scripts_of_all_machines() {
    for (name, _) in crate::machine::BUILT_IN {
        let machine = Machine::named(name).unwrap();
        for stage in [false, machine.node.local_disk.is_some()] {
            let out = "/a run's \"$folder\" `x` \\";
            let job = Job {
                stage,
                overrides: vec!["name=\"it's $HOME\"".into()],
                nodes: machine.nodes.min(2),
                ..Job::new("a_job", "my recipe.toml", "/the store", out)
            };
            accepts(&script(&job, &machine).unwrap());
        }
    }
}

#[test]
fn slurm_takes_ranges_of_hosts() {
    let mut job = Job::new("century", "small", "/store", "/run");
    // At commas the command line takes them apart.
    job.exclude = ["nid[001-004", "010]", "nid[020-022]"]
        .map(String::from)
        .into();
    let script = script(&job, &Machine::named("perlmutter").unwrap()).unwrap();
    let line = "#SBATCH --exclude=nid[001-004,010],nid[020-022]";
    assert!(script.lines().any(|one| one == line), "{script}");
}

#[test]
fn what_cannot_be_asked_for_is_named() {
    let check = |machine: &str, change: &dyn Fn(&mut Job), expected: &str| {
        let mut job = Job::new("century", "small", "store", "run");
        change(&mut job);
        let error = script(&job, &Machine::named(machine).unwrap()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
    };
    let summit = |change: &dyn Fn(&mut Job), expected: &str| check("summit", change, expected);
    summit(&|job| job.nodes = 4609, "`--nodes`: expected 1 to 4608");
    summit(&|job| job.nodes = 0, "`--nodes`");
    summit(
        &|job| job.hours = 24.1,
        "`--hours`: expected above 0 and at most 24",
    );
    summit(&|job| job.hours = 0.0, "`--hours`");
    summit(&|job| job.hours = f64::NAN, "`--hours`");
    // Five minutes, all of which would be kept for the last checkpoint.
    summit(&|job| job.hours = 0.084, "longer than the 300 s");
    summit(
        &|job| job.ranks_per_node = Some(7),
        "`--ranks-per-node`: expected 1 to 6",
    );
    summit(&|job| job.ranks_per_node = Some(0), "`--ranks-per-node`");
    // Processors have as many as they have cores.
    check(
        "cori-knl",
        &|job| job.ranks_per_node = Some(69),
        "`--ranks-per-node`: expected 1 to 68",
    );
    summit(&|job| job.tries = 0, "`--tries`");
    for name in ["", "two words", "a/b", "-x", ".hidden", "a;b", "ü", "a\nb"] {
        summit(&|job| job.name = name.into(), "`--name`: expected letters");
        for machine in ["summit", "perlmutter"] {
            check(
                machine,
                &|job| job.exclude = vec![name.into()],
                "`--exclude`",
            );
        }
    }
    for hosts in [
        "nid[001",
        "nid[]",
        "nid[a-b]",
        "nid[004-001]",
        "nid001]",
        "nid[1,]",
        "[,",
    ] {
        let ranges = &|job: &mut Job| job.exclude = hosts.split(',').map(String::from).collect();
        check("perlmutter", ranges, "`--exclude`");
    }
    // As Slurm names several hosts, and no other.
    summit(
        &|job| job.exclude = vec!["h[001-004]".into()],
        "`--exclude`",
    );
    summit(&|job| job.account = Some("a b".into()), "`--account`");
    summit(&|job| job.queue = Some(String::new()), "`--queue`");
    for path in ["", "a\nb", "-v"] {
        summit(
            &|job| job.recipe = path.into(),
            "`--recipe`: expected one line",
        );
        summit(&|job| job.store = path.into(), "`--data`");
        summit(&|job| job.out = path.into(), "`--out`");
        summit(&|job| job.program = path.into(), "`--program`");
        summit(&|job| job.script = path.into(), "`--script`");
        summit(&|job| job.overrides = vec![path.into()], "`--set`");
    }
    summit(&|job| job.made_by = "a\n#BSUB -q fast".into(), "made_by");
    summit(&|job| job.overrides = vec!["batch".into()], "KEY=VALUE");
    let limit = |job: &mut Job| job.overrides = vec!["training.max_seconds=soon".into()];
    summit(&limit, "found `soon`");
    check(
        "workstation",
        &|job| job.stage = true,
        "`--stage`: expected a machine",
    );
    check(
        "workstation",
        &|job| job.queue = Some("q".into()),
        "`--queue`: expected none",
    );
    check(
        "roce-p100",
        &|job| job.exclude = vec!["h".into()],
        "`--exclude`",
    );
    check(
        "h100-pbs",
        &|job| job.exclude = vec!["h".into()],
        "`--exclude`: expected none: PBS",
    );
    let late = |job: &mut Job| (job.hours, job.margin_seconds) = (20.0, 70_000);
    check("perlmutter", &late, "`--margin`: expected at most 65535");
}

#[test]
fn nodes_may_get_a_part_of_the_store() {
    let mut job = Job::new("century", "small", "/project/store", "/project/run");
    (job.nodes, job.stage, job.per_node) = (4, true, Some(1500));
    let machine = Machine::named("perlmutter").unwrap();
    let text = script(&job, &machine).unwrap();
    assert!(text.contains("--per-node 1500"), "{text}");
    // Copies of another part lie elsewhere.
    assert!(text.contains("/store-${content%% *}-1500\""), "{text}");
    job.stage = false;
    let error = script(&job, &machine).unwrap_err().to_string();
    assert!(error.contains("`--per-node`"), "{error}");
    // Staging would refuse it, after the job's time in the queue.
    (job.nodes, job.stage) = (1, true);
    let error = script(&job, &machine).unwrap_err().to_string();
    let expected = "`--per-node`: expected none with a single node";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_launcher_of_another_batch_system_is_refused() {
    let mut machine = Machine::named("perlmutter").unwrap();
    machine.scheduler.launcher = Starter::Jsrun;
    let job = Job::new("century", "small", "store", "run");
    let text = script(&job, &machine).unwrap_err().to_string();
    assert!(text.contains("`scheduler.launcher`"), "{text}");
    let mut machine = Machine::named("cori-knl").unwrap();
    machine.scheduler.environment = [("A B".to_string(), "1".to_string())].into();
    let text = script(&job, &machine).unwrap_err().to_string();
    assert!(text.contains("`scheduler.environment`"), "{text}");
}

/// Of a whole node Slurm gives all cores, but no more memory than is asked for.
#[test]
fn nodes_of_slurm_come_with_all_of_their_memory() {
    let mut machine = Machine::named("perlmutter").unwrap();
    let job = Job::new("century", "small", "store", "run");
    let text = script(&job, &machine).unwrap();
    assert!(text.contains("#SBATCH --mem=0\n"), "{text}");
    let own = "--mem-per-cpu=4G".to_string();
    machine.scheduler.directives.push(own);
    let text = script(&job, &machine).unwrap();
    assert!(!text.contains("--mem=0"), "{text}");
}

#[test]
fn hosts_are_given_by_an_option_that_every_launcher_has() {
    let mut machine = Machine::named("roce-p100").unwrap();
    let job = Job {
        nodes: 2,
        ..Job::new("century", "small", "store", "run")
    };
    for launcher in [Starter::Mpirun, Starter::Mpiexec] {
        machine.scheduler.launcher = launcher;
        let text = script(&job, &machine).unwrap();
        accepts(&text);
        let starts = format!("{} -n ", launcher.name());
        let line = text.lines().find(|line| line.contains(&starts)).unwrap();
        assert!(line.contains(" --hostfile \"$hosts\""), "{line}");
    }
}

#[test]
fn the_shorter_of_two_limits_counts() {
    let job = |overrides: &[&str], recipe: Option<f64>| Job {
        max_seconds: recipe,
        overrides: overrides.iter().map(|o| o.to_string()).collect(),
        ..Job::new("century", "small", "store", "run")
    };
    let check = |overrides: &[&str], recipe, limit: Option<&str>| {
        let text = written("perlmutter", &job(overrides, recipe));
        let line = text.lines().find_map(|line| line.strip_prefix("    left="));
        assert_eq!(line, limit, "{overrides:?}");
        // Once, at the end of the command.
        assert_eq!(text.matches("training.max_seconds").count(), 1, "{text}");
    };
    check(&[], None, None);
    check(&[], Some(600.0), Some("600"));
    check(&["training.max_seconds=90.5"], Some(600.0), Some("90.5"));
    let twice = ["training.max_seconds=1", " training.max_seconds = 1e3"];
    check(&twice, None, Some("1000"));
}

#[test]
fn a_queue_may_be_a_quality_of_service() {
    let job = |queue: &str| Job {
        queue: Some(queue.into()),
        ..Job::new("century", "small", "store", "run")
    };
    let text = written("perlmutter", &job("qos=debug"));
    assert!(text.contains("#SBATCH --qos=debug\n") && !text.contains("--partition"));
    let text = written("perlmutter", &job("debug"));
    assert!(text.contains("#SBATCH --partition=debug\n") && !text.contains("--qos"));
    // Elsewhere it would be the name of a queue that is not there.
    for machine in ["summit", "h100-pbs"] {
        let mut machine = Machine::named(machine).unwrap();
        let refused = |job: &Job, machine: &Machine, key: &str| {
            let said = script(job, machine).unwrap_err().to_string();
            assert!(said.contains("`qos=NAME` is for Slurm"), "{said}");
            assert!(said.contains(key), "{said}");
        };
        refused(&job("qos=debug"), &machine, "--queue");
        machine.scheduler.queue = Some("qos=debug".into());
        let unnamed = Job::new("century", "small", "store", "run");
        refused(&unnamed, &machine, "scheduler.queue");
        assert!(script(&job("debug"), &machine).is_ok());
    }
}

#[test]
fn a_core_is_reserved_where_ranks_have_many_and_talk() {
    let reserves = |machine: &str, nodes, ranks| {
        let job = Job {
            nodes,
            ranks_per_node: Some(ranks),
            ..Job::new("century", "small", "store", "run")
        };
        written(machine, &job).contains("SQUALL_RESERVE_CORES=1")
    };
    assert!(reserves("cori-knl", 2, 1));
    assert!(!reserves("cori-knl", 1, 1));
    assert!(reserves("cori-knl", 1, 2));
    assert!(!reserves("cori-knl", 2, 4));
    assert!(!reserves("perlmutter", 2, 1));
}

/// 2.05 hours are 122.99999999999999 minutes to a computer.
#[test]
fn a_turn_has_the_minutes_that_were_asked_for() {
    let time = |hours| {
        let job = Job {
            hours,
            ..Job::new("century", "small", "store", "run")
        };
        let text = written("cori-knl", &job);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("#SBATCH --time="));
        line.unwrap().to_string()
    };
    assert_eq!(time(2.05), "2:03:00");
    assert_eq!(time(0.1), "0:06:00");
    // Never more than was asked for.
    assert_eq!(time(1.0 + 119.9 / 3600.0), "1:01:00");
}
