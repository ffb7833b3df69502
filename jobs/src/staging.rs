//! Copies a sample store to the disk of every node: the ranks of a job read each sample once from the shared file
//! system and send it to the nodes that need it.
//!
//! Who reads and who forwards is a pure plan ([`squall_data::staging`]); this module executes it, with read-ahead and
//! write-behind on each rank. A killed job can be restarted: samples that are present, by checksum, are not moved
//! again.

use crate::comm::layout::Nodes;
use crate::comm::{Communicator, agree, doing};
use crate::error::{JobError, Result, all_or_none};
use crate::lock::FolderLock;
use serde::Serialize;
use squall_data::staging::{Share, Transfer, transfers, wanted};
use squall_data::store::{LocalCopy, Split};
use squall_data::{DataError, Store};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

/// Samples buffered between reading and writing on each rank: enough to keep disk and network busy at once.
const AHEAD: usize = 2;

/// What [`stage_local`] will do or has done, over all ranks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LocalReport {
    /// Nodes that receive samples.
    pub nodes: usize,
    /// Ranks that move them.
    pub ranks: usize,
    /// Samples that each node holds at the end.
    pub samples_per_node: usize,
    /// Samples already present, summed over nodes.
    pub already: u64,
    /// Bytes read from the shared file system.
    pub read_bytes: u64,
    /// Bytes sent between nodes.
    pub sent_bytes: u64,
    /// Bytes written to the nodes' disks.
    pub written_bytes: u64,
    /// Seconds from the first byte to the last; 0 before the start.
    pub seconds: f64,
}

/// The index of this rank's node; nodes are ordered by their lowest ranks. All ranks call it.
///
/// # Errors
/// [`JobError::Comm`].
pub fn node_number(comm: &mut dyn Communicator) -> Result<usize> {
    let mut node = comm.split_by_node()?;
    Ok(Nodes::agree(comm, &mut *node)?.mine)
}

/// The folder of a node: replaces each `{node}` in the name by its index.
pub fn folder_of_node(named: &Path, node: usize) -> PathBuf {
    const MARK: &[u8] = b"{node}";
    // By bytes: names need not be UTF-8.
    let (mut left, mut own) = (named.as_os_str().as_bytes(), Vec::new());
    while let Some(at) = left.windows(MARK.len()).position(|part| part == MARK) {
        own.extend_from_slice(&left[..at]);
        own.extend_from_slice(node.to_string().as_bytes());
        left = &left[at + MARK.len()..];
    }
    own.extend_from_slice(left);
    PathBuf::from(OsString::from_vec(own))
}

/// Copies a store, or a share of it, to a folder on every node. Returns what was moved, identical on every rank, or
/// `None` if `stop` was set first.
///
/// All ranks call it; each writes into its [`folder_of_node`]. `tell` is called once with the plan, then with the
/// number of this rank's samples that have been moved.
///
/// # Errors
/// [`JobError::Data`] for an unusable store or disk, or a share that would lose samples; [`JobError::Locked`] if two
/// nodes have the same folder; [`JobError::Comm`] if ranks disagree. After a rank fails or stops during the transfer,
/// the others block: it must end the job.
pub fn stage_local(
    store: &Store,
    folder: &Path,
    share: Share,
    mut comm: Box<dyn Communicator>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&LocalReport, usize, usize),
) -> Result<Option<LocalReport>> {
    let comm = &mut *comm;
    let _doing = doing::begin("staging");
    let mut node = comm.split_by_node()?;
    let nodes = Nodes::agree(comm, &mut *node)?;
    let facts = agree::Facts::new()
        .with("the data", store.data_hash().as_bytes())
        .with("the share of a node", format!("{share:?}").as_bytes());
    facts.check(comm)?;
    let folder = &folder_of_node(folder, nodes.mine);

    let held = held(store, share, nodes.ranks.len())?;
    let first = node.rank() == 0;
    let begun = match first {
        true => begin(store, folder).map(Some),
        false => Ok(None),
    };
    let lock = all_or_none(comm, begun)?;
    let copy = LocalCopy::join(store, folder);
    let missing = all_missing(comm, &*node, &nodes, &copy, &held)?;
    let plan = transfers(&missing, &nodes.ranks);
    let mut report = outline(&copy, &nodes, &held, &missing, &plan);
    let room = match first {
        true => make_room(&copy, folder, &held[nodes.mine], missing[nodes.mine].len()),
        false => Ok(()),
    };
    all_or_none(comm, room)?;

    let started = Instant::now();
    let mine: Vec<&Transfer> = plan
        .iter()
        .filter(|transfer| transfer.ranks.contains(&comm.rank()))
        .collect();
    tell(&report, 0, mine.len());
    let moved = move_samples(comm, &copy, &mine, stop, &mut |done| {
        tell(&report, done, mine.len());
    })?;
    if !moved {
        return Ok(None);
    }
    comm.barrier()?;
    let finished = match first {
        true => copy.finish(&held[nodes.mine]).map(|_| ()),
        false => Ok(()),
    };
    all_or_none(comm, finished.map_err(JobError::from))?;
    drop(lock);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(Some(report))
}

/// The samples that each node must hold.
fn held(store: &Store, share: Share, nodes: usize) -> Result<Vec<BTreeSet<usize>>> {
    let others = [store.ids(Split::Validation), store.ids(Split::Test)].concat();
    let held = wanted(&store.ids(Split::Train), &others, nodes, share)?;
    Ok(held.into_iter().map(BTreeSet::from_iter).collect())
}

fn begin(store: &Store, folder: &Path) -> Result<FolderLock> {
    let lock = FolderLock::take(folder)?;
    LocalCopy::begin(store, folder)?;
    Ok(lock)
}

/// The samples that each node lacks, determined by its ranks together.
fn all_missing(
    comm: &mut dyn Communicator,
    node: &dyn Communicator,
    nodes: &Nodes,
    copy: &LocalCopy<'_>,
    held: &[BTreeSet<usize>],
) -> Result<Vec<Vec<usize>>> {
    let mine: Vec<usize> = held[nodes.mine]
        .iter()
        .copied()
        .skip(node.rank())
        .step_by(node.size())
        .collect();
    let found = all_or_none(comm, copy.holds(&mine).map_err(JobError::from))?;
    // One flag per wanted sample, node after node.
    let starts: Vec<usize> = held
        .iter()
        .scan(0, |end, ids| {
            *end += ids.len();
            Some(*end - ids.len())
        })
        .collect();
    let wanted: usize = held.iter().map(BTreeSet::len).sum();
    let mut there = vec![false; wanted];
    for (at, &found) in found.iter().enumerate() {
        there[starts[nodes.mine] + node.rank() + at * node.size()] = found;
    }
    agree::any_of_each(comm, &mut there)?;
    let of_node = |(ids, start): (&BTreeSet<usize>, &usize)| {
        let missing = ids
            .iter()
            .zip(&there[*start..])
            .filter(|(_, there)| !**there);
        missing.map(|(&id, _)| id).collect()
    };
    Ok(held.iter().zip(&starts).map(of_node).collect())
}

/// Summarises what the plan moves.
fn outline(
    copy: &LocalCopy<'_>,
    nodes: &Nodes,
    held: &[BTreeSet<usize>],
    missing: &[Vec<usize>],
    plan: &[Transfer],
) -> LocalReport {
    let bytes = |samples: usize| (samples * copy.record_bytes()) as u64;
    let (wanted, lacking) = (
        held.iter().map(BTreeSet::len).sum::<usize>(),
        missing.iter().map(Vec::len).sum::<usize>(),
    );
    LocalReport {
        nodes: nodes.ranks.len(),
        ranks: nodes.ranks.iter().map(Vec::len).sum(),
        samples_per_node: held.iter().map(BTreeSet::len).max().unwrap_or(0),
        already: (wanted - lacking) as u64,
        read_bytes: bytes(plan.len()),
        sent_bytes: bytes(lacking - plan.len()),
        written_bytes: bytes(lacking),
        seconds: 0.0,
    }
}

/// Deletes samples that are no longer wanted, and fails if the node's disk is too small for the rest.
fn make_room(
    copy: &LocalCopy<'_>,
    folder: &Path,
    held: &BTreeSet<usize>,
    missing: usize,
) -> Result<()> {
    copy.keep_only(held)?;
    let needed = (missing * copy.record_bytes()) as u64;
    let space = rustix::fs::statvfs(folder)
        .map_err(|error| DataError::io("ask for free space of", folder)(error.into()))?;
    let free = space.f_bavail * space.f_frsize;
    if needed <= free {
        return Ok(());
    }
    let reason = format!(
        "{:.1} MB are free, {:.1} MB are to be staged there: give each node fewer training samples",
        free as f64 / 1e6,
        needed as f64 / 1e6
    );
    let full = std::io::Error::new(std::io::ErrorKind::StorageFull, reason);
    Err(DataError::io("stage into", folder)(full).into())
}

/// Executes this rank's part of the plan; returns whether it was completed.
fn move_samples(
    comm: &mut dyn Communicator,
    copy: &LocalCopy<'_>,
    mine: &[&Transfer],
    stop: &AtomicBool,
    tell: &mut dyn FnMut(usize),
) -> Result<bool> {
    let rank = comm.rank();
    std::thread::scope(|scope| {
        let (read, records) = sync_channel(AHEAD);
        let (keep, kept) = sync_channel::<(usize, Vec<u8>)>(AHEAD);
        scope.spawn(move || {
            let own = mine.iter().filter(|transfer| transfer.ranks[0] == rank);
            for transfer in own {
                // Sending fails once this rank has given up.
                if read.send(copy.read(transfer.sample)).is_err() {
                    return;
                }
            }
        });
        let writer = scope.spawn(move || {
            kept.into_iter()
                .try_for_each(|(sample, record)| copy.write(sample, &record))
        });
        for (done, transfer) in mine.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let Some((parent, children)) = transfer.family(rank) else {
                continue;
            };
            let record = match parent {
                None => records.recv().map_err(|_| JobError::Thread("reader"))??,
                Some(parent) => {
                    let mut record = vec![0; copy.record_bytes()];
                    comm.receive(parent, &mut record)?;
                    record
                }
            };
            for child in children {
                comm.send(child, &record)?;
            }
            if keep.send((transfer.sample, record)).is_err() {
                break; // the writer says why
            }
            tell(done + 1);
        }
        drop(keep);
        let written = writer.join().map_err(|_| JobError::Thread("writer"))?;
        written?;
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_s_number_stands_wherever_its_name_says() {
        let of = |named: &str| folder_of_node(Path::new(named), 12);
        assert_eq!(
            of("/nvme/{node}/store-{node}"),
            Path::new("/nvme/12/store-12")
        );
        assert_eq!(of("/nvme/store"), Path::new("/nvme/store"));
        let latin = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        assert_eq!(
            folder_of_node(&latin(b"caf\xe9-{node}"), 3),
            latin(b"caf\xe9-3")
        );
    }
}
