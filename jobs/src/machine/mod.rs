//! Facts of a machine as one TOML file: nodes, devices, links, disks, and how its batch system is asked.
//!
//! [`crate::performance`] predicts from them, [`crate::launch`] writes job scripts from them. Those of `jobs/machines`
//! come with the program; for another machine copy the nearest one and write its figures into it.

mod check;

use crate::error::{JobError, Result};
use crate::recipe::explain::explain;
use serde::{Deserialize, Serialize};
use squall_data::DataError;
use std::collections::BTreeMap;
use std::path::Path;

/// Machines that come with the program, by name.
pub const BUILT_IN: [(&str, &str); 8] = [
    ("summit", include_str!("../../machines/summit.toml")),
    ("piz-daint", include_str!("../../machines/piz-daint.toml")),
    ("cori-knl", include_str!("../../machines/cori-knl.toml")),
    (
        "juwels-booster",
        include_str!("../../machines/juwels-booster.toml"),
    ),
    ("perlmutter", include_str!("../../machines/perlmutter.toml")),
    ("h100-pbs", include_str!("../../machines/h100-pbs.toml")),
    ("roce-p100", include_str!("../../machines/roce-p100.toml")),
    (
        "workstation",
        include_str!("../../machines/workstation.toml"),
    ),
];

/// Types that devices compute in.
const PRECISIONS: [&str; 3] = ["f32", "f16", "bf16"];

/// Largest number of ranks: more than any machine has. A prediction keeps a clock for each of them.
const MOST_RANKS: usize = 1 << 22;

/// What is known of a machine. Unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// A title in one line.
    pub title: String,
    /// Nodes that a job can have.
    pub nodes: usize,
    /// What a node is made of.
    pub node: Node,
    /// What a rank computes on.
    pub device: Device,
    /// Between the devices of a node; needed where it has several ranks.
    #[serde(default)]
    pub inside: Link,
    /// Between nodes: what one node sends, and receives at the same time; needed where there are several.
    #[serde(default)]
    pub network: Link,
    /// What all nodes read from together, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// How jobs are started.
    pub scheduler: Scheduler,
    /// What a node costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// What a node is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Ranks of a node: one for each GPU, or one for each processor.
    pub ranks: usize,
    /// Physical cores that jobs may use, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// Memory of the processors, in GB, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<f64>,
    /// A disk, or memory used as one, that only this node has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_disk: Option<LocalDisk>,
}

/// Where a node keeps its own copy of samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalDisk {
    /// Its folder; may hold variables of the shell.
    pub path: String,
    /// Room, in GB.
    pub capacity_gb: f64,
    /// Rate of reading, in GB/s.
    pub read_gb_s: f64,
    /// Rate of writing, in GB/s.
    pub write_gb_s: f64,
}

/// Whether a rank computes on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// One GPU for each rank.
    Gpu,
    /// Cores of the processors.
    Cpu,
}

/// What a rank computes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Whether it is a GPU.
    pub kind: DeviceKind,
    /// Its memory, in GB, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<f64>,
    /// Rate of multiplications and additions by type, as its maker states it, in TF/s.
    #[serde(default)]
    pub peak_tflops: BTreeMap<String, f64>,
    /// The share of that which training reaches, where nothing measured fits: an assumption.
    #[serde(default)]
    pub utilisation: BTreeMap<String, f64>,
    /// Standard deviation of the rate between devices of one kind, as a share of their mean. Default 0.
    #[serde(default)]
    pub spread: f64,
    /// Rates of training that somebody measured on one device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Measured>,
}

/// A rate of training that somebody measured on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The network, named as in recipes, on fields of 768 x 1152.
    pub network: String,
    /// The type that it computed in.
    pub precision: String,
    /// Samples of a step.
    pub batch: usize,
    /// Operations of a training step for a sample, in TF, as `squall summary` counts them: the measured rate is one of
    /// a network with as many.
    pub sample_tflop: f64,
    /// Samples a second.
    pub samples_s: f64,
    /// Who measured it.
    pub source: String,
}

/// What a message costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// What a node (a device, inside of one) sends while it receives as much, in GB/s, as programs see it.
    pub gb_s: f64,
    /// Time of an empty message, in microseconds.
    pub latency_us: f64,
    /// Mean of what a step is held up by others, as a share of its computing, exponentially distributed and anew for
    /// each rank and step. Default 0.
    #[serde(default)]
    pub jitter: f64,
}

impl Default for Link {
    /// The link of a machine that has none: it costs nothing.
    fn default() -> Self {
        Self {
            gb_s: f64::INFINITY,
            latency_us: 0.0,
            jitter: 0.0,
        }
    }
}

/// What all nodes read from together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystem {
    /// Its name.
    pub name: String,
    /// What all nodes read together, in GB/s.
    pub gb_s: f64,
}

/// What a node costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price of a node for an hour.
    pub node_hour: f64,
    /// The currency or unit of the price.
    pub unit: String,
}

/// Which batch system runs jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batch {
    /// IBM's LSF: `bsub`.
    Lsf,
    /// Slurm: `sbatch`.
    Slurm,
    /// PBS Professional or OpenPBS: `qsub`.
    Pbs,
    /// None: jobs are scripts that somebody starts.
    None,
}

/// How ranks are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Starter {
    /// IBM's, of LSF.
    Jsrun,
    /// Slurm's.
    Srun,
    /// Open MPI's.
    Mpirun,
    /// That of MPICH, of Intel MPI and of Cray's PALS.
    Mpiexec,
}

impl Starter {
    /// The command.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Jsrun => "jsrun",
            Self::Srun => "srun",
            Self::Mpirun => "mpirun",
            Self::Mpiexec => "mpiexec",
        }
    }
}

/// How jobs are asked for and started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Which batch system.
    pub kind: Batch,
    /// What starts ranks inside a job.
    pub launcher: Starter,
    /// The queue, partition or quality of service, if one must be named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The longest time of a job, in hours, if there is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hours: Option<f64>,
    /// More options of the batch system, a line of the script each, with their dashes: `--constraint=gpu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directives: Vec<String>,
    /// Lines of the script before anything starts, such as `module load`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// Environment of the ranks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

impl Machine {
    /// A machine that comes with the program, or one of a file.
    ///
    /// # Errors
    /// [`JobError::Machine`] naming the line and key, or the machines that there are.
    ///
    /// # Example
    /// ```
    /// use squall_jobs::Machine;
    /// let summit = Machine::named("summit")?;
    /// assert_eq!((summit.nodes, summit.node.ranks), (4608, 6));
    /// assert!(Machine::named("sumit").unwrap_err().to_string().contains("summit"));
    /// # Ok::<(), squall_jobs::JobError>(())
    /// ```
    pub fn named(name: &str) -> Result<Self> {
        let path = Path::new(name);
        if path.is_file() {
            let text = std::fs::read_to_string(path).map_err(DataError::io("read", path))?;
            return Self::parse(name, &text);
        }
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(name, text),
            None => {
                let known: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
                Err(JobError::Machine {
                    name: name.to_string(),
                    reason: format!("expected a TOML file, or one of {}", known.join(", ")),
                })
            }
        }
    }

    /// The machine that a text describes.
    ///
    /// # Errors
    /// [`JobError::Machine`] naming the line and key.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let bad = |reason: String| JobError::Machine {
            name: name.to_string(),
            reason,
        };
        let machine: Self =
            toml::from_str(text).map_err(|error| bad(explain(text, &error, |_| Vec::new())))?;
        machine.check().map_err(bad)?;
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_come_along_can_be_read() {
        for (name, _) in BUILT_IN {
            let machine = Machine::named(name).unwrap();
            let again = toml::to_string(&machine).unwrap();
            assert_eq!(Machine::parse(name, &again).unwrap(), machine, "{name}");
            for measured in &machine.device.measured {
                assert!(
                    machine.device.peak_tflops.contains_key(&measured.precision),
                    "{name}: {measured:?}"
                );
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let summit = BUILT_IN[0].1;
        let refused = |from: &str, to: &str| {
            assert!(summit.contains(from), "{from}");
            let text = summit.replacen(from, to, 1);
            Machine::parse("mine.toml", &text).unwrap_err().to_string()
        };
        let check = |from, to, expected: &str| {
            let found = refused(from, to);
            assert!(found.contains(expected), "{found}");
            assert!(found.contains("`mine.toml`"), "{found}");
        };
        check("nodes = 4608", "nodes = 0", "`nodes`: expected 1 or more");
        check("ranks = 6", "ranks = 0", "`node.ranks`");
        check("gb_s = 23.0", "gb_s = -1.0", "`network.gb_s`");
        check("gb_s = 23.0", "gb_s = nan", "`network.gb_s`");
        check("spread = 0.015", "spread = 1.5", "`device.spread`");
        check(
            "f16 = 125.0",
            "fp16 = 125.0",
            "expected one of f32, f16, bf16",
        );
        check(
            "[inside]\ngb_s = 32.0\nlatency_us = 3.0",
            "",
            "`inside.gb_s`",
        );
        check(
            "latency_us = 1.5",
            "latency_us = 1.5\njitter = 3.2",
            "`network.jitter`",
        );
        check("nodes = 4608", "nodes = 4608000", "at most");
        // Predictions divide by these, and scripts ask for them.
        for (from, to, key) in [
            (
                "read_gb_s = 5.5",
                "read_gb_s = 0.0",
                "node.local_disk.read_gb_s",
            ),
            (
                "write_gb_s = 2.1",
                "write_gb_s = nan",
                "node.local_disk.write_gb_s",
            ),
            (
                "capacity_gb = 1600.0",
                "capacity_gb = -1.0",
                "node.local_disk.capacity_gb",
            ),
            ("gb_s = 2500.0", "gb_s = 0.0", "file_system.gb_s"),
            ("max_hours = 24.0", "max_hours = 0.0", "scheduler.max_hours"),
            ("memory_gb = 512.0", "memory_gb = inf", "node.memory_gb"),
            ("memory_gb = 16.0", "memory_gb = 0.0", "device.memory_gb"),
            ("f32 = 15.7", "f32 = 0.0", "device.peak_tflops.f32"),
            ("f16 = 0.25", "f16 = 0.0", "device.utilisation.f16"),
            (
                "samples_s = 0.87",
                "samples_s = 0.0",
                "device.measured.samples_s",
            ),
            (
                "sample_tflop = 13.024",
                "sample_tflop = nan",
                "device.measured.sample_tflop",
            ),
            ("gb_s = 32.0", "gb_s = 0.0", "inside.gb_s"),
            ("latency_us = 3.0", "latency_us = -3.0", "inside.latency_us"),
            ("latency_us = 1.5", "latency_us = nan", "network.latency_us"),
            (
                "latency_us = 3.0",
                "latency_us = 3.0\njitter = 0.2",
                "inside.jitter",
            ),
            ("spread = 0.015", "spread = -0.1", "device.spread"),
            (
                "[node]",
                "[price]\nnode_hour = -1.0\nunit = 'EUR'\n[node]",
                "price.node_hour",
            ),
        ] {
            check(from, to, &format!("`{key}`"));
        }
        check("f16 = 0.25", "f16 = 25.0", "`device.utilisation.f16`");
        check("nodes = 4608", "nods = 4608", "did you mean `nodes`?");
        check("kind = \"lsf\"", "kind = \"lfs\"", "did you mean `lsf`?");
        let key = "`scheduler.directives`: expected";
        let given = "'-alloc_flags \"smt4 nvme\"'";
        for other in [
            "'alloc_flags smt4'",
            "'--alloc_flags'",
            "'#BSUB -x'",
            "\"-x\\nrm\"",
            "''",
        ] {
            check(given, other, key);
        }
        check("kind = \"lsf\"", "kind = \"none\"", key);
    }

    #[test]
    fn options_of_slurm_are_short_or_long() {
        let (_, perlmutter) = BUILT_IN[4];
        let with = |directive: &str| {
            let text = perlmutter.replacen("--constraint=gpu", directive, 1);
            assert_ne!(text, perlmutter);
            Machine::parse("mine.toml", &text).map_err(|error| error.to_string())
        };
        assert!(with("-C gpu").is_ok() && with("--partition=x").is_ok());
        for refused in ["partition=x", "---partition=x", "SBATCH --partition=x"] {
            let said = with(refused).unwrap_err();
            assert!(said.contains("such as `--partition=x`"), "{said}");
        }
    }
}
