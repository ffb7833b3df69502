//! A store on the disks of several nodes: whole or in part, resumed, and trained from.

mod common;

use common::store;
use squall_data::Store;
use squall_data::staging::Share;
use squall_data::store::{Split, View};
use squall_jobs::JobError;
use squall_jobs::comm::{Communicator, threads};
use squall_jobs::staging::{LocalReport, stage_local};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const NODES: [usize; 3] = [2, 1, 2];

type Answers = Vec<Result<LocalReport, JobError>>;

fn stage(source: &Arc<Store>, folder: &Path, share: Share, nodes: &[usize]) -> Answers {
    threads::run(threads::nodes(nodes), |rank| {
        stage_local(
            source,
            folder,
            share,
            Box::new(rank),
            &AtomicBool::new(false),
            &mut |_, _, _| (),
        )
        .map(|report| report.unwrap())
    })
}

fn report(answers: Answers) -> LocalReport {
    let mut reports: Vec<LocalReport> = answers.into_iter().map(Result::unwrap).collect();
    reports.iter_mut().for_each(|r| r.seconds = 0.0);
    assert!(reports.windows(2).all(|w| w[0] == w[1]), "ranks disagree");
    reports[0].clone()
}

fn sample(store: &Arc<Store>, id: usize) -> (Vec<u32>, Vec<u8>) {
    let [h, w, c] = store.shape();
    let (mut x, mut labels) = (vec![0.0; h * w * c], vec![0; h * w]);
    let reader = store.reader(store.channels(), None).unwrap();
    let view = View::default();
    reader.read_into(id, view, &mut x, &mut labels).unwrap();
    (x.into_iter().map(f32::to_bits).collect(), labels)
}

fn same(copy: &Arc<Store>, source: &Arc<Store>, ids: &[usize]) {
    assert_eq!(copy.data_hash(), source.data_hash());
    for &id in ids {
        assert_eq!(sample(copy, id), sample(source, id), "sample {id}");
    }
}

#[test]
fn every_node_gets_the_whole_store_of_which_each_sample_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let source = store(&folder.path().join("store"), 11, 3);
    let local = folder.path().join("node{node}");
    let found = report(stage(&source, &local, Share::Whole, &NODES));
    assert_eq!(
        (found.nodes, found.ranks, found.samples_per_node),
        (3, 5, 14)
    );
    assert_eq!(
        (found.sent_bytes, found.written_bytes),
        (2 * found.read_bytes, 3 * found.read_bytes)
    );
    for node in 0..3 {
        let copy = Arc::new(Store::open(folder.path().join(format!("node{node}"))).unwrap());
        assert!(!copy.is_partial());
        same(&copy, &source, &(0..14).collect::<Vec<_>>());
        let index = |folder: &Path| fs::read(folder.join("store.json")).unwrap();
        assert_eq!(index(copy.folder()), index(source.folder()));
    }
    // Again: nothing is left to do.
    let again = report(stage(&source, &local, Share::Whole, &NODES));
    assert_eq!((again.read_bytes, again.already), (0, 3 * 14));
}

#[test]
fn a_share_takes_no_more_room_than_its_samples() {
    let folder = tempfile::tempdir().unwrap();
    let source = store(&folder.path().join("store"), 60, 2);
    let local = folder.path().join("node{node}");
    let share = Share::Training {
        per_node: 20,
        seed: 4,
    };
    let found = report(stage(&source, &local, share, &NODES));
    assert_eq!(found.samples_per_node, 22);
    let mut seen = Vec::new();
    for node in 0..3 {
        let copy = Arc::new(Store::open(folder.path().join(format!("node{node}"))).unwrap());
        assert!(copy.is_partial());
        let held: Vec<usize> = (0..62).filter(|&id| copy.holds(id)).collect();
        same(&copy, &source, &held);
        assert_eq!(copy.verify().unwrap().samples, 22);
        seen.extend(
            held.into_iter()
                .filter(|id| source.samples()[*id].split == Split::Train),
        );
        let absent = (0..62).find(|&id| !copy.holds(id)).unwrap();
        let refusal = copy.read_mask(absent).unwrap_err().to_string();
        assert!(refusal.contains("was not staged"), "{refusal}");
        // Holes take no room, where the file system knows them.
        let shard = fs::metadata(copy.folder().join("shard-00000.bin")).unwrap();
        assert!(
            shard.blocks() * 512 < shard.size() / 2,
            "{} of {}",
            shard.blocks() * 512,
            shard.size()
        );
    }
    seen.sort_unstable();
    assert_eq!(seen, source.ids(Split::Train), "each once");
    // Staged again to more nodes, the first gives back what it need not hold any more.
    let blocks = || {
        let shard = folder.path().join("node0/shard-00000.bin");
        fs::metadata(shard).unwrap().blocks()
    };
    let before = blocks();
    let share = Share::Training {
        per_node: 6,
        seed: 5,
    };
    report(stage(&source, &local, share, &[1; 10]));
    assert!(2 * blocks() < before, "{} of {before}", blocks());
}

/// What a job that was killed leaves: no index, some records whole, one torn.
#[test]
fn a_killed_job_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let source = store(&folder.path().join("store"), 9, 1);
    let local = folder.path().join("node{node}");
    report(stage(&source, &local, Share::Whole, &[1, 1]));
    let second = folder.path().join("node1");
    fs::remove_file(second.join("store.json")).unwrap();
    let shard = fs::OpenOptions::new()
        .write(true)
        .open(second.join("shard-00000.bin"))
        .unwrap();
    let record = source.meta().record_bytes();
    shard.write_all_at(&[7; 100], 4 * record + 50).unwrap();
    let opened = Store::open(&second).unwrap_err().to_string();
    assert!(opened.contains("staging has not finished"), "{opened}");
    // Another number of ranks finishes it.
    let found = report(stage(&source, &local, Share::Whole, &[2, 2]));
    assert_eq!(found.already, 19);
    same(
        &Arc::new(Store::open(&second).unwrap()),
        &source,
        &(0..10).collect::<Vec<_>>(),
    );
}

#[test]
fn what_cannot_be_staged_is_refused_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let source = store(&folder.path().join("store"), 6, 1);
    let errors = |folder: &Path, share, nodes: &[usize]| -> Vec<String> {
        let answers = stage(&source, folder, share, nodes);
        answers
            .into_iter()
            .map(|a| a.unwrap_err().to_string())
            .collect()
    };
    // Two nodes that share a folder.
    let shared = errors(&folder.path().join("shared"), Share::Whole, &[1, 1]);
    assert!(
        shared
            .iter()
            .any(|e| e.contains("in use by another process")),
        "{shared:?}"
    );
    // The store itself.
    let own = errors(source.folder(), Share::Whole, &[2]);
    assert!(
        own.iter().any(|e| e.contains("is the store itself")),
        "{own:?}"
    );
    Store::open(source.folder()).unwrap();
    // A folder that holds another store, which stays as it is.
    let other = store(&folder.path().join("other"), 4, 1);
    let foreign = errors(other.folder(), Share::Whole, &[2]);
    let named = |e: &String| e.contains("holds another store");
    assert!(foreign.iter().any(named), "{foreign:?}");
    same(
        &Arc::new(Store::open(other.folder()).unwrap()),
        &other,
        &[0, 1, 2, 3, 4],
    );
    // A share that loses samples.
    let share = Share::Training {
        per_node: 2,
        seed: 1,
    };
    let few = errors(&folder.path().join("few{node}"), share, &[1, 1]);
    assert!(few.iter().all(|e| e.contains("of 6 in all")), "{few:?}");
}

/// A rank that was told another folder than the first of its node finds nothing there, where it would write.
#[test]
fn ranks_of_a_node_need_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let source = store(&folder.path().join("store"), 5, 1);
    let errors = threads::run(threads::nodes(&[2]), |rank| {
        let local = folder.path().join(format!("disk{}", rank.rank()));
        let never = AtomicBool::new(false);
        let comm = Box::new(rank);
        stage_local(
            &source,
            &local,
            Share::Whole,
            comm,
            &never,
            &mut |_, _, _| (),
        )
        .unwrap_err()
    });
    assert!(matches!(errors[0], JobError::Elsewhere), "{}", errors[0]);
    let said = errors[1].to_string();
    assert!(
        said.contains("cannot reopen") && said.contains("disk1"),
        "{said}"
    );
}

#[test]
fn damage_in_the_source_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = store(&folder.path().join("store"), 3, 1);
    let shard = source.folder().join("shard-00000.bin");
    let file = fs::OpenOptions::new().write(true).open(&shard).unwrap();
    file.write_all_at(&[9; 16], source.meta().record_bytes() + 8)
        .unwrap();
    let answers = stage(
        &source,
        &folder.path().join("node{node}"),
        Share::Whole,
        &[1],
    );
    let error = answers.into_iter().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("checksum of sample 1"), "{error}");
}
