//! `squall stage STORE --local DIR`: copies a sample store to the disk of every node of a job.

use super::Stage;
use crate::own_folder::{self, Holds};
use crate::plan::{Plan, bytes, counted, duration};
use crate::progress::Progress;
use crate::{interrupt, output, ranks};
use squall_data::Store;
use squall_data::staging::Share;
use squall_jobs::comm::{Communicator, Solo};
use squall_jobs::staging::{LocalReport, folder_of_node, node_number, stage_local};
use std::path::Path;

/// Stages to the nodes of this job and reports what was moved.
pub fn run(stage: &Stage, folder: &Path) -> anyhow::Result<()> {
    let comm: Box<dyn Communicator> = match ranks::processes()? {
        Some(world) => Box::new(world),
        None => Box::new(Solo::new()),
    };
    let (first, ranks) = (comm.rank() == 0, comm.size());
    let report = ranks::finish(ranks, move_store(stage, folder, comm))?;
    if !first {
        return Ok(());
    }
    if stage.json {
        return output::json(&report);
    }
    let rate = |size: u64| {
        format!(
            "{}/s",
            bytes((size as f64 / report.seconds.max(1e-9)) as u64)
        )
    };
    tracing::info!(
        "{} on every node (nodes: {}) in {}: {} read ({}), {} between nodes, {} written ({}), {} there already; in {}",
        counted(report.samples_per_node, "sample"),
        report.nodes,
        duration(report.seconds),
        bytes(report.read_bytes),
        rate(report.read_bytes),
        bytes(report.sent_bytes),
        bytes(report.written_bytes),
        rate(report.written_bytes),
        counted(report.already, "sample"),
        folder.display()
    );
    Ok(())
}

fn move_store(
    stage: &Stage,
    folder: &Path,
    mut comm: Box<dyn Communicator>,
) -> anyhow::Result<LocalReport> {
    let own = folder_of_node(folder, node_number(&mut *comm)?);
    own_folder::check(&own, Holds::Store)?;
    let store = Store::open(&stage.input)?;
    let share = stage
        .per_node
        .map_or(Share::Whole, |per_node| Share::Training {
            per_node,
            seed: stage.seed,
        });
    let first = comm.rank() == 0;
    let stop = interrupt::flag();
    let mut progress = Progress::new("stage", 1);
    let mut tell = |report: &LocalReport, done: usize, of: usize| {
        if !first {
            return;
        }
        if done == 0 {
            Plan {
                work: format!(
                    "stage {} to every node (nodes: {}, ranks: {})",
                    counted(report.samples_per_node, "sample"),
                    report.nodes,
                    report.ranks
                ),
                read: report.read_bytes,
                write: report.written_bytes,
                memory: 60_000_000 + 6 * store.meta().record_bytes(),
                seconds: None,
            }
            .announce();
            progress.start(of, 0);
        }
        progress.set(done, String::new());
    };
    let report = stage_local(&store, folder, share, comm, &stop, &mut tell);
    progress.finish();
    match report? {
        Some(report) => Ok(report),
        None => Err(interrupt::stopped()),
    }
}
