//! How long a training step will take on a machine, before anybody asks for its nodes.
//!
//! A step of all ranks is run through on a virtual clock ([`clock`]): every rank computes at its own pace, buckets of
//! gradients land while the backward pass goes on, and are summed one after the other as soon as the last rank has
//! them. What a sum takes follows from messages and bytes of the very algorithms that [`crate::comm`] has ([`sums`]),
//! what a rank computes from a rate that somebody measured ([`rate`]). [`published`] holds the model against what was
//! measured on up to 27,360 GPUs.
//!
//! What it does not know: switches and their contention (only as a machine's `jitter`), batch statistics over ranks
//! (`distributed.norm_ranks`), validations, checkpoints and whatever fails.

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
use clock::{Landing, Servers, Step};
use serde::Serialize;

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// What a rank computes and sends.
    pub workload: &'a Workload,
    /// How ranks work together.
    pub distributed: &'a Distributed,
    /// `training.batch`: samples of a batch on each rank, where no global batch says otherwise.
    pub batch: usize,
    /// `training.accumulate`: batches of a step on each rank.
    pub accumulate: usize,
    /// `detection.unlabelled_per_batch`: so many of the global batch, or else of a rank's, have no labels.
    pub unlabelled: usize,
    /// The machine that it is asked about.
    pub machine: &'a Machine,
    /// How fast one device is.
    pub rate: &'a Rate,
    /// How long the training is.
    pub length: Length,
    /// Whether samples lie on the nodes' own disks.
    pub staged: bool,
    /// The seed of the random paces of ranks.
    pub seed: u64,
}

/// How long a training is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Length {
    /// Samples of an epoch, those that teach directly ([`crate::train::samples_of_epoch`]), if that is known.
    pub samples: Option<usize>,
    /// How often each is seen; of a training whose length is not in steps.
    pub epochs: Option<f64>,
    /// Steps of the training.
    pub steps: Option<u64>,
}

impl Length {
    /// Steps of the training, if they can be told; an epoch has whole steps of `batch` such samples only.
    ///
    /// # Errors
    /// What was expected and found, if there is no whole step.
    fn steps(&self, batch: usize) -> std::result::Result<Option<u64>, String> {
        if let Some(samples) = self.samples.filter(|samples| *samples < batch) {
            return Err(format!(
                "a step needs {batch} samples, and there are {samples}: use fewer nodes or a smaller batch"
            ));
        }
        let epochs = self.epochs.zip(self.samples);
        let of_epochs =
            |(epochs, samples): (f64, usize)| Training::steps_of(epochs, samples / batch);
        Ok(self.steps.or(epochs.map(of_epochs)))
    }
}

/// What is expected of a job of so many nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Nodes of the job.
    pub nodes: usize,
    /// Ranks on all of them.
    pub ranks: usize,
    /// Samples of a step of all ranks (of all groups).
    pub global_batch: usize,
    /// Bytes that a rank needs, but for what libraries take.
    #[serde(skip_serializing_if = "is_zero")]
    pub memory_bytes: u64,
    /// Mean time of a step.
    pub step_seconds: f64,
    /// A tenth of the steps take less.
    pub step_seconds_p10: f64,
    /// A tenth of the steps take more.
    pub step_seconds_p90: f64,
    /// Seconds of a step in which one rank alone would compute.
    pub compute_seconds: f64,
    /// Seconds of a step in which devices wait for samples: what would be gained if these were always there.
    pub input_seconds: f64,
    /// Seconds of a step in which ranks wait for slower ones.
    pub straggler_seconds: f64,
    /// Seconds of a step in which ranks wait for sums of gradients, and for servers of parameters.
    pub exposed_seconds: f64,
    /// What the sums of a step take, hidden or not.
    pub communication_seconds: f64,
    /// Samples that all ranks learn from in a second.
    pub samples_per_second: f64,
    /// Share of the samples a second that as many devices would do without waiting for each other.
    pub efficiency: f64,
    /// Operations of all ranks in a second.
    pub flops_per_second: f64,
    /// Steps of the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Hours of the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours: Option<f64>,
    /// Hours of all nodes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_hours: Option<f64>,
    /// What these cost, in the unit of the machine's price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// How often the speeds of all devices are drawn: enough to know the slowest of thousands to some thousandths.
const DRAWS: u64 = 10;

/// Steps that are simulated with each draw.
const STEPS: usize = 40;

/// The first of these steps, which are not counted: ranks that do not wait for each other in every step first drift
/// apart, up to a limit.
const WARM_UP: usize = 10;

/// The share of a step that is its backward pass: twice as many operations as forward.
const BACKWARD: f64 = 2.0 / 3.0;

impl Question<'_> {
    /// What is expected of this many nodes.
    ///
    /// # Errors
    /// [`JobError::Submit`] if the machine has fewer nodes; [`JobError::Recipe`] if a batch or groups cannot be dealt
    /// evenly to the ranks, there are fewer samples than a step needs, or ranks cannot sum as the recipe says.
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
        // Refused for the same reasons as by training, here and below.
        let group = self.distributed.step_ranks(ranks).map_err(bad)?;
        let workers = group * groups;
        let dealt = (group, self.accumulate);
        let local = LocalBatch::of(self.distributed, (self.batch, self.unlabelled), dealt);
        let local = local.map_err(bad)?;
        let of_rank = local.times(self.accumulate);
        let samples = of_rank.samples();
        if group > 1 {
            sums::check(&sums::Shape::of(self.machine, group), self.distributed).map_err(bad)?;
        }
        let steps = self.length.steps(of_rank.labelled * group);
        let steps = steps.map_err(bad)?;
        let step = self.step(nodes, group, samples);
        let servers = (servers > 0).then(|| self.servers(groups, servers, group));
        let whole = self.times(&step, servers.as_ref());
        // The same steps with the same draws, each time without one kind of wait: what that kind costs.
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
        // Steps are shared by the groups.
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

    /// A step of so many samples on each rank.
    fn step(&self, nodes: usize, group: usize, samples: usize) -> Step {
        let machine = self.machine;
        let compute = samples as f64 / self.rate.samples_s(self.workload);
        let shape = sums::Shape::of(machine, group);
        let buckets = self.workload.buckets(self.distributed.bucket_values());
        let alone = group == 1;
        let gradients = buckets.iter().map(|bucket| Landing {
            at: bucket.at,
            seconds: sums::seconds(bucket.values, &shape, machine, self.distributed),
        });
        let facts = Landing {
            at: 1.0,
            seconds: sums::seconds_of_facts(&shape, machine),
        };
        let sums = gradients.chain([facts]).filter(|_| !alone);
        Step {
            compute,
            // Gradients leave with the last batch.
            backward: BACKWARD / self.accumulate as f64,
            sums: sums.collect(),
            input: self.input_seconds(nodes, samples),
            lag: self.distributed.gradient_lag,
            ranks: group,
            // A single device is one of mean pace, and nobody is in its way.
            spread: if alone { 0.0 } else { machine.device.spread },
            jitter: match nodes {
                _ if alone => 0.0,
                1 => machine.inside.jitter,
                _ => machine.network.jitter,
            },
        }
    }

    /// What reading the samples of a step takes.
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
        // The first ranks serve, so those of a node share its link.
        let links = servers.div_ceil(self.machine.node.ranks);
        Servers {
            groups,
            busy: bytes / (links as f64 * rate),
            // One rank of a group sends the gradients and then gets the parameters.
            exchange: 2.0 * (latency + bytes / rate),
            hand_round: match group {
                1 => 0.0,
                _ => latency * (group as f64).log2().ceil() + 2.0 * bytes / rate,
            },
        }
    }
}

/// How long steps take, over many of them.
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
