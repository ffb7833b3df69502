//! Machine descriptions in TOML: nodes, devices, links, disks and batch system.
//!
//! [`crate::performance`] predicts from them, and [`crate::launch`] writes job scripts from them. Those in
//! `jobs/machines` are built in; for another machine, copy the most similar one and enter its figures.

mod check;

use crate::error::{JobError, Result};
use crate::recipe::explain::explain;
use serde::{Deserialize, Serialize};
use squall_data::DataError;
use std::collections::BTreeMap;
use std::path::Path;

/// Built-in machines, by name.
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

/// Number formats that devices compute in.
const PRECISIONS: [&str; 3] = ["f32", "f16", "bf16"];

/// Maximum number of ranks: more than any machine has. A prediction keeps a clock for each of them.
const MOST_RANKS: usize = 1 << 22;

/// A machine description. Unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// A title in one line.
    pub title: String,
    /// Number of nodes available to a job.
    pub nodes: usize,
    /// The hardware of a node.
    pub node: Node,
    /// What a rank computes on.
    pub device: Device,
    /// Link between the devices of a node; required if it has several ranks.
    #[serde(default)]
    pub inside: Link,
    /// Network between nodes: the rate that a node sends at while receiving as much; required for several nodes.
    #[serde(default)]
    pub network: Link,
    /// The shared file system, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// How jobs are submitted and started.
    pub scheduler: Scheduler,
    /// What a node costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// The hardware of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Ranks per node: one per GPU, or one per processor.
    pub ranks: usize,
    /// Physical cores available to jobs, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// Host memory in GB, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<f64>,
    /// A disk, or memory used as one, that is local to the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_disk: Option<LocalDisk>,
}

/// Node-local storage for copies of samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalDisk {
    /// Its folder; may contain shell variables.
    pub path: String,
    /// Capacity in GB.
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
    /// One GPU per rank.
    Gpu,
    /// CPU cores.
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
    /// Device memory in GB, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<f64>,
    /// Peak rate by number format in TFLOP/s, as stated by the vendor.
    #[serde(default)]
    pub peak_tflops: BTreeMap<String, f64>,
    /// Assumed share of the peak that training reaches, used if no measurement applies.
    #[serde(default)]
    pub utilisation: BTreeMap<String, f64>,
    /// Standard deviation of the speed of equal devices, relative to their mean. Default 0.
    #[serde(default)]
    pub spread: f64,
    /// Measured training rates of one device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<Measured>,
}

/// A measured training rate of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The network, named as in recipes, on 768 x 1152 fields.
    pub network: String,
    /// The number format.
    pub precision: String,
    /// Samples per step.
    pub batch: usize,
    /// TFLOP per sample of a training step, as `squall summary` counts them: the measured rate applies to networks with
    /// this count.
    pub sample_tflop: f64,
    /// Samples per second.
    pub samples_s: f64,
    /// Who measured it.
    pub source: String,
}

/// The cost of messages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// GB/s that a node (or a device, inside a node) sends while receiving as much, as measured by programs.
    pub gb_s: f64,
    /// Latency in microseconds.
    pub latency_us: f64,
    /// Mean delay of a step by other traffic, as a share of its computing time; exponentially distributed and
    /// independent for each rank and step. Default 0.
    #[serde(default)]
    pub jitter: f64,
}

impl Default for Link {
    /// The link of a machine that needs none: it costs nothing.
    fn default() -> Self {
        Self {
            gb_s: f64::INFINITY,
            latency_us: 0.0,
            jitter: 0.0,
        }
    }
}

/// A file system shared by all nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystem {
    /// Its name.
    pub name: String,
    /// Total read rate of all nodes, in GB/s.
    pub gb_s: f64,
}

/// The price of node time.
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
    /// None: users start the scripts themselves.
    None,
}

/// The launcher of ranks.
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
    /// The command's name.
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

/// How jobs are submitted and started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// The batch system.
    pub kind: Batch,
    /// The launcher of ranks inside a job.
    pub launcher: Starter,
    /// The queue, partition or quality of service, if one is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The longest wall time of a job in hours, if limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hours: Option<f64>,
    /// Additional batch system options, one per line of the script, with their dashes: `--constraint=gpu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directives: Vec<String>,
    /// Shell lines that run before anything starts, such as `module load`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// Environment of the ranks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

impl Machine {
    /// Loads a built-in machine by name, or a machine file.
    ///
    /// # Errors
    /// [`JobError::Machine`] naming the line and key, or the built-in machines.
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

    /// Parses a machine description.
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
