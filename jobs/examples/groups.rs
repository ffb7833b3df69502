//! Training by groups that do not wait for each other, through servers that hold the parameters.
//!
//! `cargo run -p squall-jobs --example groups` runs two servers and two groups of two ranks as threads; `mpirun -n 5` (or 6)
//! `target/debug/examples/groups` one server (or two) and the same groups as processes. Each checks that every step was done once,
//! that the network learnt, and that the run's files are those of any training.
//!
//! `cargo run --release -p squall-jobs --example groups -- measure` compares four groups of one rank with one synchronous group of
//! four, where one rank is three times as slow as the others, and prints the table of docs/groups.md. Every step sleeps, so that
//! it is scheduling that is measured and not the cores of this machine.

#![allow(clippy::print_stdout)] // the table of a measurement

#[path = "../tests/common/mod.rs"]
mod common;

use squall_data::Store;
use squall_jobs::comm::collectives::tree;
use squall_jobs::comm::{Communicator, processes, threads};
use squall_jobs::metrics::{Metric, read_metrics};
use squall_jobs::train::{Team, train_together};
use squall_jobs::{Contract, JobError, Outcome, Recipe, TrainReport};
use squall_model::ModelFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const STEPS: u64 = 40;

/// Two groups of two ranks; the other ranks are servers.
fn hybrid(ranks: usize) -> Recipe {
    let servers = format!("distributed.servers={}", ranks - 4);
    let steps = format!("training.steps={STEPS}");
    common::recipe(&[
        "distributed.groups=2",
        "distributed.momentum=tuned",
        "training.validate_every_steps=10",
        &servers,
        &steps,
    ])
}

fn train(rank: impl Communicator + 'static, recipe: &Recipe, folder: &Path) -> TrainReport {
    let store = Arc::new(Store::open(folder.join("store")).expect("the store was written"));
    let mut team = Team::of(Box::new(rank), Box::new(|stall| panic!("{stall}")));
    let (out, stop) = (folder.join("run"), AtomicBool::new(false));
    train_together(recipe, &store, &out, &mut |_| {}, &stop, &mut team).expect("trains")
}

/// What every rank is told, and what the first has written.
fn check(report: &TrainReport, folder: Option<&Path>) -> Result<(), JobError> {
    assert_eq!((report.outcome, report.steps), (Outcome::Finished, STEPS));
    let staleness = report.staleness.as_ref().expect("groups count it");
    assert!(staleness.updates >= STEPS && staleness.mean < 4.0);
    let Some(folder) = folder else {
        return Ok(());
    };
    let metrics = read_metrics(&folder.join("run/metrics.jsonl"))?;
    let losses: Vec<f64> = (metrics.iter())
        .filter_map(|metric| match metric {
            Metric::Step { loss, .. } => *loss,
            _ => None,
        })
        .collect();
    assert_eq!(losses.len() as u64, STEPS);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    assert!(mean(&losses[30..]) < mean(&losses[..10]), "{losses:?}");
    let model = folder.join("run/best.safetensors");
    Contract::of(&ModelFile::read(&model)?, &model)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|argument| argument == "measure") {
        return measure();
    }
    if let Some(mut world) = processes(|name| std::env::var(name).ok())? {
        // The first process makes the store, and all use it.
        let kept = (world.rank() == 0).then(tempfile::tempdir).transpose()?;
        let mut place = [0u8; 512];
        if let Some(folder) = &kept {
            common::store(&folder.path().join("store"), 12, 3);
            let path = folder.path().to_string_lossy().into_owned();
            place[..path.len()].copy_from_slice(path.as_bytes());
        }
        tree::broadcast(&mut world, &mut place, 0)?;
        let path = String::from_utf8_lossy(&place);
        let folder = PathBuf::from(path.trim_end_matches('\0'));
        let recipe = hybrid(world.size());
        let report = train(world, &recipe, &folder);
        check(&report, kept.as_ref().map(|folder| folder.path()))?;
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    common::store(&folder.path().join("store"), 12, 3);
    let recipe = hybrid(6);
    let reports = threads::run(threads::ranks(6), |rank| {
        train(rank, &recipe, folder.path())
    });
    for (rank, report) in reports.iter().enumerate() {
        check(report, (rank == 0).then_some(folder.path()))?;
    }
    Ok(())
}

/// What a way to train needed and reached.
struct Row {
    samples_per_second: f64,
    loss: f64,
    mean_iou: f64,
    staleness: String,
}

/// Trains on as many samples by each way and prints what it took.
fn measure() -> Result<(), Box<dyn std::error::Error>> {
    const SAMPLES: u64 = 960;
    const SLEEP: Duration = Duration::from_millis(100);
    let folder = tempfile::tempdir()?;
    common::store(&folder.path().join("store"), 48, 12);
    let run = |name: &str, seed: u64, slow: u32| -> Result<Row, JobError> {
        // A sample for each rank and step, and a rate in proportion to the samples of a step.
        let groups = usize::from(name != "synchronous") * 4;
        let steps = if groups == 0 { SAMPLES / 4 } else { SAMPLES };
        let (steps, seed) = (format!("training.steps={steps}"), format!("seed={seed}"));
        let warmup = if groups == 0 { 5 } else { 20 };
        let warmup = format!("schedule.warmup_steps={warmup}");
        let every = "training.validate_every_steps=1000000";
        let save = "training.checkpoint_every_steps=1000000";
        let mut settings = vec![
            &*steps,
            &*seed,
            &*warmup,
            every,
            save,
            "training.batch=1",
            "optimiser.rule=sgd",
            "optimiser.momentum=0.9",
            "schedule.rate=5e-3",
            "distributed.rate_scaling=linear",
            "network.dropout=0.0",
        ];
        if groups > 0 {
            settings.push("distributed.groups=4");
        }
        if name.contains("tuned") {
            settings.push("distributed.momentum=tuned");
        }
        let recipe = common::recipe(&settings);
        let servers = usize::from(groups > 0);
        let at = folder.path().join(format!("{name}{slow}{seed}"));
        std::fs::create_dir_all(&at).map_err(JobError::io("create", &at))?;
        let reports = threads::run(threads::ranks(servers + 4), |rank| {
            let last = rank.member() == servers + 3;
            let sleep = SLEEP * if last { slow } else { 1 };
            let store = Arc::new(Store::open(folder.path().join("store"))?);
            let mut team = Team::of(Box::new(rank), Box::new(|_| ())).slowed(sleep);
            let stop = AtomicBool::new(false);
            train_together(&recipe, &store, &at, &mut |_| {}, &stop, &mut team)
        });
        let report = reports.into_iter().next().expect("ranks")?;
        let best = read_metrics(&at.join("metrics.jsonl"))?;
        let last = best.iter().rev().find_map(|metric| match metric {
            Metric::Validation { scores, .. } => Some(scores.clone()),
            _ => None,
        });
        let last = last.expect("a validation at the end");
        Ok(Row {
            samples_per_second: SAMPLES as f64 / report.seconds,
            loss: last.loss(),
            mean_iou: last.score(),
            staleness: report
                .staleness
                .map_or("-".into(), |s| format!("{:.2}, {}", s.mean, s.max)),
        })
    };
    println!(
        "| training | slowest rank | seed | samples/s | faster by | validation loss | against synchronous | mean IoU | staleness: mean, max |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for slow in [1, 3] {
        let mut means = [[0.0; 2]; 3];
        let seeds = 3;
        for seed in 1..=seeds {
            let mut synchronous = None;
            for (at, name) in ["synchronous", "4 groups", "4 groups, momentum tuned"]
                .into_iter()
                .enumerate()
            {
                let row = run(name, seed, slow)?;
                let (rate, loss) = *synchronous.get_or_insert((row.samples_per_second, row.loss));
                println!(
                    "| {name} | {slow}x | {seed} | {:.1} | {:.2} | {:.4} | {:+.1} % | {:.3} | {} |",
                    row.samples_per_second,
                    row.samples_per_second / rate,
                    row.loss,
                    100.0 * (row.loss / loss - 1.0),
                    row.mean_iou,
                    row.staleness
                );
                means[at][0] += row.samples_per_second / seeds as f64;
                means[at][1] += row.loss / seeds as f64;
            }
        }
        for (mean, name) in means
            .iter()
            .zip(["synchronous", "4 groups", "4 groups, tuned"])
        {
            println!(
                "| mean: {name} | {slow}x | | {:.1} | {:.2} | {:.4} | {:+.1} % | | |",
                mean[0],
                mean[0] / means[0][0],
                mean[1],
                100.0 * (mean[1] / means[0][1] - 1.0)
            );
        }
    }
    Ok(())
}
