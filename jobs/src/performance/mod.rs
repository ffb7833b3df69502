//! Predicts how long a training step takes on a machine, before requesting its nodes.
//!
//! A virtual clock per rank ([`clock`]) simulates the steps: every rank computes at its own pace, gradient buckets
//! become ready during the backward pass and are reduced one after the other as soon as the last rank has them. The
//! time of a reduction follows from the messages and bytes of the algorithms in [`crate::comm`] ([`sums`]); computing
//! time follows from a measured rate ([`rate`]). [`published`] compares the model with measurements on up to 27,360
//! GPUs.
//!
//! Not modelled: network contention (except as a machine's `jitter`), batch statistics over ranks
//! (`distributed.norm_ranks`), validations, checkpoints and failures.

pub mod clock;
pub mod published;
pub mod rate;
pub mod sums;
pub mod workload;

pub use rate::Rate;
pub use workload::Workload;

use crate::error::{JobError, Result};
use crate::machine::Machine;
use crate::recipe::{Distributed, LocalBatch, Training};
use clock::{BucketReduction, Servers, Step};
use serde::Serialize;

/// The inputs of a prediction.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The work of a rank.
    pub workload: &'a Workload,
    /// How ranks cooperate.
    pub distributed: &'a Distributed,
    /// `training.batch`: samples per batch on each rank, unless there is a global batch.
    pub batch: usize,
    /// `training.accumulate`: batches per step on each rank.
    pub accumulate: usize,
    /// `detection.unlabelled_per_batch`: unlabelled samples in the global batch or, without one, in a rank's batch.
    pub unlabelled: usize,
    /// The machine.
    pub machine: &'a Machine,
    /// The speed of one device.
    pub rate: &'a Rate,
    /// The length of the training.
    pub length: Length,
    /// Whether samples are on the nodes' own disks.
    pub staged: bool,
    /// Seed of the random device speeds.
    pub seed: u64,
}

/// The length of a training.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Length {
    /// Samples per epoch that teach directly ([`crate::train::samples_of_epoch`]), if known.
    pub samples: Option<usize>,
    /// Number of epochs, for a training whose length is not in steps.
    pub epochs: Option<f64>,
    /// Number of steps, if given.
    pub steps: Option<u64>,
}

impl Length {
    /// Number of steps of the training, if known, with `batch` such samples in a step.
    ///
    /// # Errors
    /// What was expected and found, if an epoch is shorter than a step.
    fn steps(&self, batch: usize) -> std::result::Result<Option<u64>, String> {
        if let Some(samples) = self.samples.filter(|samples| *samples < batch) {
            return Err(format!(
                "a step needs {batch} samples, and there are {samples}: use fewer nodes or a smaller batch"
            ));
        }
        let epochs = self.epochs.zip(self.samples);
        let of_epochs = |(epochs, samples)| Training::steps_of(epochs, samples, batch);
        Ok(self.steps.or(epochs.map(of_epochs)))
    }
}

/// The prediction for a job on some number of nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Nodes of the job.
    pub nodes: usize,
    /// Total number of ranks.
    pub ranks: usize,
    /// Samples per step over all ranks (of all groups).
    pub global_batch: usize,
    /// Bytes per rank, excluding the needs of libraries.
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_bytes: u64,
    /// Mean time of a step.
    pub step_seconds: f64,
    /// 10th percentile of the step time.
    pub step_seconds_p10: f64,
    /// 90th percentile of the step time.
    pub step_seconds_p90: f64,
    /// Seconds per step that one rank alone would compute.
    pub compute_seconds: f64,
    /// Seconds per step spent waiting for samples: the gain if they were always ready.
    pub input_seconds: f64,
    /// Seconds per step spent waiting for slower ranks.
    pub straggler_seconds: f64,
    /// Seconds per step spent waiting for reductions and parameter servers.
    pub exposed_seconds: f64,
    /// Seconds of reductions per step, hidden or not.
    pub communication_seconds: f64,
    /// Samples per second over all ranks.
    pub samples_per_second: f64,
    /// Throughput relative to the same number of devices without any waiting.
    pub efficiency: f64,
    /// Operations per second over all ranks.
    pub flops_per_second: f64,
    /// Steps of the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Wall-clock hours of the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours: Option<f64>,
    /// Node hours of the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_hours: Option<f64>,
    /// Their cost, in the unit of the machine's price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Number of random draws of all device speeds: enough to estimate the slowest of thousands to a few thousandths.
const DRAWS: u64 = 10;

/// Simulated steps per draw.
const STEPS: usize = 40;

/// The first of these steps, which are discarded: ranks that do not wait for each other in every step first drift
/// apart, up to a limit.
const WARM_UP: usize = 10;

/// The backward pass's share of a step: it has twice the operations of the forward pass.
const BACKWARD: f64 = 2.0 / 3.0;

impl Question<'_> {
    /// Predicts a job on this many nodes.
    ///
    /// # Errors
    /// [`JobError::Submit`] if the machine has fewer nodes; [`JobError::Recipe`] if a batch or groups do not divide
    /// evenly among ranks, there are fewer samples than a step needs, or ranks cannot reduce as the recipe says.
    pub fn predict(&self, nodes: usize) -> Result<Prediction> {
        if nodes == 0 || nodes > self.machine.nodes {
            return Err(JobError::Submit {
                option: "--nodes",
                expected: format!("1 to {}", self.machine.nodes),
                found: nodes.to_string(),
            });
        }
        let bad = |reason: String| JobError::recipe(format!("on {nodes} nodes: {reason}"));
        let ranks = nodes * self.machine.node.ranks;
        let (groups, servers) = match self.distributed.groups {
            Some(groups) if ranks > 1 => (groups, self.distributed.servers),
            _ => (1, 0),
        };
        // Rejected for the same reasons as in training, here and below.
        let group = self.distributed.step_ranks(ranks).map_err(bad)?;
        let workers = group * groups;
        let dealt = (group, self.accumulate);
        let local = LocalBatch::of(self.distributed, (self.batch, self.unlabelled), dealt);
        let local = local.map_err(bad)?;
        let of_rank = local.times(self.accumulate);
        let samples = of_rank.samples();
        if group > 1 {
            sums::check(
                &sums::Shape::on_machine(self.machine, group),
                self.distributed,
            )
            .map_err(bad)?;
        }
        let steps = self.length.steps(of_rank.labelled * group);
        let steps = steps.map_err(bad)?;
        let step = self.step(nodes, group, samples);
        let servers = (servers > 0).then(|| self.servers(groups, servers, group));
        let whole = self.times(&step, servers.as_ref());
        // Simulates the same steps with the same draws, each time without one kind of wait, to measure its cost.
        let fed = Step {
            input: 0.0,
            ..step.clone()
        };
        let silent = self.times(&fed.clone().without_sums(), None).mean;
        let fed = match step.input > 0.0 {
            true => self.times(&fed, servers.as_ref()).mean,
            false => whole.mean,
        };
        let compute = step.compute;
        let global_batch = samples * workers;
        let samples_per_second = global_batch as f64 / whole.mean;
        let alone = self.rate.samples_s(self.workload);
        // Groups share the steps.
        let hours = steps.map(|s| s as f64 / groups as f64 * whole.mean / 3600.0);
        let node_hours = hours.map(|hours| hours * nodes as f64);
        let price = self.machine.price.as_ref();
        Ok(Prediction {
            nodes,
            ranks,
            global_batch,
            memory_bytes: self.workload.memory_bytes(local.samples()),
            step_seconds: whole.mean,
            step_seconds_p10: whole.p10,
            step_seconds_p90: whole.p90,
            compute_seconds: compute,
            input_seconds: (whole.mean - fed).max(0.0),
            straggler_seconds: (silent - compute).max(0.0),
            exposed_seconds: (fed - silent).max(0.0),
            communication_seconds: step.sums.iter().map(|sum| sum.seconds).sum(),
            samples_per_second,
            efficiency: samples_per_second / (alone * ranks as f64),
            flops_per_second: samples_per_second * self.workload.training_flops,
            steps,
            hours,
            node_hours,
            cost: price.and_then(|price| node_hours.map(|hours| hours * price.node_hour)),
        })
    }

    fn times(&self, step: &Step, servers: Option<&Servers>) -> Times {
        let draw = |draw| {
            let seconds = clock::run(step, servers, STEPS, self.seed.wrapping_add(draw));
            let skipped = WARM_UP * servers.map_or(1, |servers| servers.groups);
            seconds.into_iter().skip(skipped)
        };
        Times::of((0..DRAWS).flat_map(draw).collect())
    }

    /// A step with this many samples on each rank.
    fn step(&self, nodes: usize, group: usize, samples: usize) -> Step {
        let machine = self.machine;
        let compute = samples as f64 / self.rate.samples_s(self.workload);
        let shape = sums::Shape::on_machine(machine, group);
        let buckets = self.workload.buckets(self.distributed.bucket_values());
        let alone = group == 1;
        let gradients = buckets.iter().map(|bucket| BucketReduction {
            at: bucket.at,
            seconds: sums::seconds(bucket.values, &shape, machine, self.distributed),
        });
        let facts = BucketReduction {
            at: 1.0,
            seconds: sums::seconds_of_facts(self.workload.facts, &shape, machine),
        };
        let sums = gradients.chain([facts]).filter(|_| !alone);
        Step {
            compute,
            // Gradients are sent with the last batch.
            backward: BACKWARD / self.accumulate as f64,
            sums: sums.collect(),
            input: self.input_seconds(nodes, samples),
            lag: self.distributed.gradient_lag,
            ranks: group,
            // A single device has average speed and no contention.
            spread: if alone { 0.0 } else { machine.device.spread },
            jitter: match nodes {
                _ if alone => 0.0,
                1 => machine.inside.jitter,
                _ => machine.network.jitter,
            },
        }
    }

    /// Seconds to read the samples of a step.
    fn input_seconds(&self, nodes: usize, samples: usize) -> f64 {
        let machine = self.machine;
        let of_node = (samples * machine.node.ranks) as f64 * self.workload.sample_bytes;
        let disk = (machine.node.local_disk.as_ref()).filter(|_| self.staged);
        let rate = match (disk, &machine.file_system) {
            (Some(disk), _) => disk.read_gb_s,
            (None, Some(system)) => (system.gb_s / nodes as f64).min(machine.network.gb_s),
            (None, None) => return 0.0,
        };
        of_node / (rate * 1e9)
    }

    fn servers(&self, groups: usize, servers: usize, group: usize) -> Servers {
        let bytes = 4.0 * self.workload.values() as f64;
        let rate = self.machine.network.gb_s * 1e9;
        let latency = 1e-6 * self.machine.network.latency_us;
        // The first ranks are servers, so those on the same node share its link.
        let links = servers.div_ceil(self.machine.node.ranks);
        Servers {
            groups,
            busy: bytes / (links as f64 * rate),
            // One rank per group sends the gradients and receives the parameters.
            exchange: 2.0 * (latency + bytes / rate),
            hand_round: match group {
                1 => 0.0,
                _ => latency * (group as f64).log2().ceil() + 2.0 * bytes / rate,
            },
        }
    }
}

/// Statistics of the step time.
struct Times {
    mean: f64,
    p10: f64,
    p90: f64,
}

impl Times {
    fn of(mut seconds: Vec<f64>) -> Self {
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| seconds[(share * (seconds.len() - 1) as f64).round() as usize];
        Self {
            mean,
            p10: at(0.1),
            p90: at(0.9),
        }
    }
}

#[cfg(test)]
mod tests;
