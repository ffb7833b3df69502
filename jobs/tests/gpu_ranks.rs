//! Ranks with a GPU each: gradients are summed where they lie, and what is learnt is what sums on the host teach.
//!
//! Each test starts itself under `mpirun`, on the stand-in GPU, once for every order in which its streams may work.
//! Where there is no `mpirun` or no C++ compiler the tests are skipped.
#![cfg(all(feature = "cuda", feature = "nccl", feature = "mpi"))]

mod common;

use candle_core::{DType, Device, Tensor};
use common::{recipe, store};
use squall_data::Store;
use squall_data::testdata::{Need, lacks};
use squall_jobs::comm::collectives::{Choice, tree};
use squall_jobs::comm::mpi::{Mpi, abort_on_panic};
use squall_jobs::comm::{
    AllReduce, Arrival, Communicator, HierarchicalOptions, Nccl, Reducer, Result, Window, reducer,
};
use squall_jobs::metrics::{Metric, read_metrics};
use squall_jobs::train::{Team, train_together};
use squall_model::ops::cuda;
use squall_model::{
    Backend, DeviceChoice, Gradients, ModelFile, Network, NetworkConfig, Pass, networks,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Tells a copy of this program that it is a rank of this test, and where the test's files are.
const RANK_OF: &str = "SQUALL_TEST_RANK_OF";
const FOLDER: &str = "SQUALL_TEST_FOLDER";

/// Which streams of the stand-in work late: those that sum. With the one that computes late too, memory is freed so
/// late that a job takes minutes.
const ORDERS: [&str; 1] = ["others"];

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The stand-in's libraries, built if they are not there yet.
fn stand_in() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/stand_in_gpu/build.sh");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stand-in-gpu");
    let built = Command::new("sh").arg(&source).arg(&folder).output();
    match built {
        Ok(built) if built.status.success() => {
            let folder = String::from_utf8(built.stdout).expect("a path in UTF-8");
            Some(folder.trim_end().into())
        }
        other => {
            lacks(Need::Cxx, &format!("the stand-in GPU ({other:?})"));
            None
        }
    }
}

/// In a rank: runs `rank` on its GPU. In the test itself: starts so many ranks for every order, then lets `judge` look
/// at the folder.
fn on_gpus(test: &str, ranks: usize, rank: impl FnOnce(Mpi, &Path), judge: impl Fn(&str, &Path)) {
    on_gpus_with(&[], test, ranks, rank, judge);
}

/// The same with these variables.
fn on_gpus_with(
    variables: &[(&str, &str)],
    test: &str,
    ranks: usize,
    rank: impl FnOnce(Mpi, &Path),
    judge: impl Fn(&str, &Path),
) {
    let Some(libraries) = stand_in() else { return };
    if variable(RANK_OF).as_deref() == Some(test) {
        abort_on_panic();
        let mpi = Mpi::init().expect("MPI starts");
        // Behind others whose names take more room than a path may.
        let others =
            (0..40).map(|number| PathBuf::from(format!("/none/{number}{}", "-".repeat(200))));
        cuda::look_in(&others.chain([libraries]).collect::<Vec<_>>());
        let gpu = DeviceChoice::Cuda(None).open(mpi.rank()).expect("a GPU");
        assert!(gpu.is_gpu());
        return rank(mpi, Path::new(&variable(FOLDER).expect("a folder")));
    }
    for order in ORDERS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = std::env::current_exe().expect("this program");
        let launcher = variable("MPIRUN");
        let output = Command::new(launcher.as_deref().unwrap_or("mpirun"))
            .args(["-n", &ranks.to_string()])
            .arg(&program)
            .args([test, "--nocapture"])
            .env(RANK_OF, test)
            .env(FOLDER, folder.path())
            .env("SQUALL_STAND_IN_DEVICES", ranks.to_string())
            .env("SQUALL_STAND_IN_LATE", order)
            .env("SQUALL_STAND_IN_NCCL_LOG", folder.path().join("nccl.log"))
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
            .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
            .env("OMPI_MCA_mpi_yield_when_idle", "1")
            .env("OMPI_MCA_osc", "^ucx")
            .env("RAYON_NUM_THREADS", "1")
            .envs(variables.iter().copied())
            .output();
        let Ok(output) = output else {
            return lacks(Need::Mpirun, "mpirun");
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{order}: {all}");
        judge(order, folder.path());
    }
}

/// How often each call was made of NCCL, over all ranks.
fn calls(folder: &Path, what: &str) -> usize {
    let log = std::fs::read_to_string(folder.join("nccl.log")).unwrap_or_default();
    log.lines().filter(|line| line.starts_with(what)).count()
}

/// All ranks, two of which make a node.
struct Pairs(Mpi);

impl Communicator for Pairs {
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn size(&self) -> usize {
        self.0.size()
    }
    fn send_receive(&mut self, to: usize, a: &[u8], from: usize, b: &mut [u8]) -> Result<()> {
        self.0.send_receive(to, a, from, b)
    }
    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()> {
        self.0.send(to, bytes)
    }
    fn receive(&mut self, from: usize, bytes: &mut [u8]) -> Result<()> {
        self.0.receive(from, bytes)
    }
    fn wait_any(&mut self, from: &[usize], at_most: Duration) -> Result<Arrival> {
        self.0.wait_any(from, at_most)
    }
    fn barrier(&mut self) -> Result<()> {
        self.0.barrier()
    }
    fn split(&mut self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Communicator>>> {
        self.0.split(colour, key)
    }
    fn split_by_node(&mut self) -> Result<Box<dyn Communicator>> {
        let (node, rank) = (self.rank() as u32 / 2, self.rank());
        Ok(self.0.split(Some(node), rank)?.expect("a colour was given"))
    }
    fn window(&mut self, floats: usize) -> Result<Option<Box<dyn Window>>> {
        self.0.window(floats)
    }
    fn retire(&self) -> ! {
        self.0.retire()
    }

    fn abort(&self, code: i32) -> ! {
        self.0.abort(code)
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

fn small() -> NetworkConfig {
    NetworkConfig {
        channels_in: 4,
        width: 0.06,
        blocks: vec![1, 1],
        atrous_rates: vec![2],
        ..NetworkConfig::of(networks::NetworkName::DeepLabV3PlusBilinear)
    }
}

/// The gradients of a step, as this rank computes them from fields of its own.
fn learn(network: &Network, rank: usize, gradients: &mut Gradients) {
    let count = 12 * 20 * 4;
    let values = (0..count).map(|i| ((i * (7 + rank) + 3 * rank) % 23) as f32 / 11.0 - 1.0);
    let values: Vec<f32> = values.collect();
    let x = Tensor::from_vec(values, (1, 12, 20, 4), &Device::Cpu).expect("a tensor");
    gradients.clear();
    let mut pass = Pass::train(Backend::best(), DType::F32, 5);
    let logits = network.forward(&x, &mut pass).expect("logits");
    (network.backward(&logits, pass, gradients)).expect("gradients");
}

/// Three steps with gradients that the engine averages on the GPU, against averages of the same gradients made on the
/// host.
fn averages_agree(comm: &mut dyn Communicator, leaders: Option<usize>) {
    let (rank, ranks) = (comm.rank(), comm.size());
    let network = Network::build(&small(), Backend::best(), 3).expect("a network");
    let mut gradients = Gradients::new(network.parameters());
    learn(&network, rank, &mut gradients);
    let mut expected = gradients.as_slice().to_vec();
    tree::all_fold(comm, &mut expected, |sum, value| *sum += value).expect("sums");
    let share = 1.0 / ranks as f32;
    expected.iter_mut().for_each(|value| *value *= share);

    let options = HierarchicalOptions {
        leaders,
        between: Choice::Ring,
        ..HierarchicalOptions::default()
    };
    let engine = Nccl::inside_nodes(comm, &options).expect("NCCL");
    assert!(engine.takes_lent(), "{}", engine.describe());
    let buckets = Gradients::buckets(network.parameters(), 2000);
    assert!(buckets.len() > 2);
    let plan = reducer::Plan {
        rank,
        lengths: buckets.iter().map(|bucket| bucket.len()).collect(),
        scale: share,
        cores: Vec::new(),
    };
    let reducer = Reducer::start(Box::new(engine), plan).expect("a thread");
    let reducer = Arc::new(Mutex::new(reducer));
    let sender = Arc::clone(&reducer);
    let lent = gradients.lend(
        buckets.clone(),
        share,
        Box::new(move |bucket, lent| {
            let lent = lent.expect("gradients are lent");
            let mut sender = sender.lock().expect("nobody panicked");
            sender.submit_lent(bucket, lent).expect("is taken");
        }),
    );
    assert!(lent);
    for step in 0..3 {
        learn(&network, rank, &mut gradients);
        for _ in &buckets {
            let reduced = reducer.lock().expect("nobody panicked").wait();
            let reduced = reduced.expect("a sum").expect("a bucket");
            let lent = reduced.lent.as_ref().expect("values on the GPU");
            gradients.take_back(lent).expect("they come back");
        }
        for (at, (got, want)) in gradients.as_slice().iter().zip(&expected).enumerate() {
            let near = (got - want).abs() <= 1e-6 + 1e-5 * want.abs();
            assert!(near, "step {step}: {got} instead of {want} at {at}");
        }
    }
    drop(gradients);
    let reducer = Arc::into_inner(reducer).expect("nobody else listens");
    let engine = reducer.into_inner().expect("nobody panicked").finish();
    comm.barrier().expect("all come");
    drop(engine);
}

#[test]
fn gradients_are_summed_where_they_lie() {
    let test = "gradients_are_summed_where_they_lie";
    let rank = |mut mpi: Mpi, _: &Path| {
        averages_agree(&mut mpi, None);
        // As two nodes: only leaders' parts pass the host.
        let mut pairs = Pairs(mpi);
        averages_agree(&mut pairs, None);
        averages_agree(&mut pairs, Some(1));
    };
    on_gpus(test, 4, rank, |order, folder| {
        for what in ["all-reduce", "reduce", "broadcast"] {
            assert!(calls(folder, what) > 0, "{order}: no {what}");
        }
    });
}

/// What NCCL cannot end is let go: the ranks' work is done.
#[test]
fn a_communicator_that_cannot_be_aborted_ends_no_job() {
    let test = "a_communicator_that_cannot_be_aborted_ends_no_job";
    let rank = |mut mpi: Mpi, folder: &Path| {
        let number = mpi.rank();
        let mut engine = Nccl::new(&mut mpi, number).expect("NCCL");
        let mut values = [1.0; 3];
        engine.all_reduce(&mut values, 1.0).expect("sums");
        assert_eq!(values, [2.0; 3]);
        mpi.barrier().expect("all come");
        drop(engine);
        std::fs::write(folder.join(format!("done-{number}")), "").expect("written");
    };
    let refused = [("SQUALL_STAND_IN_NCCL_ABORT", "1")];
    on_gpus_with(&refused, test, 2, rank, |order, folder| {
        for number in 0..2 {
            let done = folder.join(format!("done-{number}"));
            assert!(done.is_file(), "{order}: rank {number}");
        }
    });
}

fn losses(folder: &Path) -> Vec<u64> {
    let metrics = read_metrics(&folder.join("metrics.jsonl")).expect("metrics");
    let loss = |metric| match metric {
        Metric::Step { loss, .. } => loss,
        _ => None,
    };
    metrics
        .into_iter()
        .filter_map(loss)
        .map(f64::to_bits)
        .collect()
}

fn weights(folder: &Path) -> Vec<u32> {
    let file = ModelFile::read(&folder.join("last.safetensors")).expect("a model");
    let values = file.tensors.into_values().flat_map(|(_, v)| v);
    values.map(f32::to_bits).collect()
}

/// Two ranks: every way adds two numbers.
#[test]
fn training_gives_the_bits_of_sums_on_the_host() {
    let ways = ["ring", "nccl", "auto"];
    // Of a step in one batch, and in two of which only the last one's gradients leave.
    let cases = || (ways.into_iter()).flat_map(|way| [(way, 1), (way, 2)]);
    let test = "training_gives_the_bits_of_sums_on_the_host";
    let rank = |mpi: Mpi, folder: &Path| {
        let mut mpi = mpi;
        let path = folder.join("store");
        if mpi.rank() == 0 {
            store(&path, 12, 3);
        }
        mpi.barrier().expect("all come");
        let store = Arc::new(Store::open(&path).expect("a store"));
        for (way, batches) in cases() {
            let algorithm = format!("distributed.algorithm={way}");
            let accumulate = format!("training.accumulate={batches}");
            let changes = [
                algorithm.as_str(),
                accumulate.as_str(),
                "distributed.global_batch=4",
                "distributed.bucket_mb=0.01",
                "training.steps=6",
                "training.validate_every_steps=3",
            ];
            let group = mpi.split(Some(0), mpi.rank()).expect("a group");
            let mut team = Team::of(group.expect("a colour was given"), Box::new(|_| ()));
            let report = train_together(
                &recipe(&changes),
                &store,
                &folder.join(format!("{way}{batches}")),
                &mut |_| (),
                &AtomicBool::new(false),
                &mut team,
            );
            let spent = report.expect("a trained network").spent;
            // How long sums take on the GPU the host does not know.
            assert_eq!(spent.hidden().is_some(), way == "ring", "{spent:?}");
            if way != "ring" {
                assert!(
                    team.describe().contains("GPU to GPU"),
                    "{}",
                    team.describe()
                );
            }
            mpi.barrier().expect("all come");
        }
    };
    on_gpus(test, 2, rank, |order, folder| {
        let learnt = |way: &str, batches: usize| {
            let at = folder.join(format!("{way}{batches}"));
            (losses(&at), weights(&at))
        };
        for (way, batches) in cases() {
            let (got, expected) = (learnt(way, batches), learnt("ring", batches));
            assert_eq!(expected.0.len(), 6);
            assert!(got == expected, "{order}: {way} learns something else");
        }
        assert!(calls(folder, "all-reduce") >= 2 * 2 * 2 * 6, "{order}");
        // Nothing of it comes to the host.
        assert_eq!(calls(folder, "reduce") + calls(folder, "broadcast"), 0);
    });
}
