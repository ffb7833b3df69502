//! Training by groups that do not wait for each other, through servers that hold the parameters.
//!
//! `cargo run -p squall-jobs --example groups` runs two servers and two groups of two ranks as threads; `mpirun -n 5`
//! (or 6) `target/debug/examples/groups` one server (or two) and the same groups as processes. Each checks that every
//! step was done once, that the network learnt, and that the run's files are those of any training.
//!
//! How fast groups are beside training in step, and what they reach: `squall bench groups`.

#[path = "../tests/common/mod.rs"]
mod common;

use squall_data::Store;
use squall_jobs::comm::collectives::tree;
use squall_jobs::comm::{Communicator, processes, threads};
use squall_jobs::metrics::{Metric, read_metrics};
use squall_jobs::train::{Team, train_together};
use squall_jobs::{Contract, JobError, Outcome, Recipe, TrainReport};
use squall_model::StoredFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    Contract::of(&StoredFile::open(&model)?.facts, &model)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
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
