//! `squall scale`: predicts step times and training costs of a recipe on a machine.

use crate::arguments::grid;
use crate::failure::Advice;
use crate::output;
use crate::plan::{bytes, counted, duration};
use clap::Args;
use serde::Serialize;
use squall_data::store::{Encoding, Split};
use squall_data::{Store, Variable};
use squall_jobs::machine::DeviceKind;
use squall_jobs::performance::{Length, Prediction, Question, Rate, Workload, published};
use squall_jobs::train::samples_of_epoch;
use squall_jobs::{Machine, Recipe};
use std::fmt;
use std::path::{Path, PathBuf};

/// Predict step time, efficiency and cost of a recipe on any number of nodes of a machine.
///
/// On a virtual clock, ranks compute at varying speeds, as on the machine, and sum gradient buckets during the backward
/// pass. docs/scaling.md describes what the model includes and its errors against published measurements.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  squall scale --recipe deeplabv3plus-published --machine summit --nodes 1,64,4560 \\\n      --samples 63000"
)]
pub struct Scale {
    /// Recipe file, or the name of a built-in recipe.
    #[arg(long, value_name = "RECIPE", required_unless_present = "published")]
    recipe: Option<PathBuf>,
    /// Machine file, or a built-in machine (jobs/machines): summit, piz-daint, cori-knl, juwels-booster, perlmutter,
    /// h100-pbs, roce-p100, workstation.
    #[arg(long, value_name = "MACHINE", required_unless_present = "published")]
    machine: Option<String>,
    /// Numbers of nodes, comma-separated [default: 1, 4, 16 ... and all].
    #[arg(long, value_delimiter = ',', value_name = "N,N")]
    nodes: Vec<usize>,
    /// Set a recipe key, such as training.batch=2; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Sample store, for its grid, channels, encoding and number of training samples.
    #[arg(long, value_name = "STORE", conflicts_with_all = ["grid", "samples"])]
    data: Option<PathBuf>,
    /// Grid of the fields, latitudes x longitudes.
    #[arg(long, default_value = "768x1152", value_parser = grid)]
    grid: (usize, usize),
    /// Training samples per epoch (with labels that are used), for hours and cost.
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    /// Samples per second that one device trains on, as measured by `squall bench step` [default: the machine file's
    /// rate].
    #[arg(long, value_name = "RATE")]
    samples_per_second: Option<f64>,
    /// Read samples from the shared file system, not from the nodes' own disks.
    #[arg(long)]
    no_staging: bool,
    /// Compare published runs with their predictions instead.
    #[arg(long, conflicts_with_all = ["recipe", "machine", "nodes", "overrides", "data", "samples", "samples_per_second", "no_staging"])]
    published: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Scale {
    /// Predicts, and prints the predictions.
    pub fn run(self) -> anyhow::Result<()> {
        if self.published {
            let points = published::points()?;
            return output::result(&Published(&points), self.json);
        }
        output::result(&self.answer()?, self.json)
    }

    /// Predictions for all numbers of nodes, and their assumptions.
    fn answer(&self) -> anyhow::Result<Answer> {
        let (Some(recipe), Some(name)) = (&self.recipe, &self.machine) else {
            return Err(Advice::usage(
                "neither a recipe nor a machine",
                "give --recipe and --machine, or --published",
            ));
        };
        let mut recipe = Recipe::named(recipe, &self.overrides)?;
        let machine = Machine::named(name)?;
        let store = self.data.as_ref().map(Store::open).transpose()?;
        let mut shape = self.grid;
        // All of the model's channels as f16, and a byte of label.
        let mut of_pixel = Variable::CHANNELS.len() * Encoding::F16.bytes() + 1;
        let mut samples = self.samples;
        let mut staged_samples = self.samples;
        if let Some(store) = &store {
            let [rows, columns, _] = store.shape();
            shape = (rows, columns);
            let known = &store.meta().channels;
            recipe.data.channels.get_or_insert_with(|| known.clone());
            of_pixel = known.len() * store.meta().encoding.bytes() + 1;
            samples = Some(samples_of_epoch(&recipe, store)?);
            staged_samples = Some(store.ids(Split::Train).len());
        }
        let auto = auto_precision(&machine);
        let workload = Workload::of(&recipe, shape, of_pixel, auto)?;
        let batch = recipe.training.batch;
        let measure = self.measuring(shape, batch, &workload.precision);
        let rate = match self.samples_per_second {
            Some(rate) => given_rate(rate, &workload, &measure)?,
            None => Rate::of(&machine, &workload, batch, name).map_err(|error| {
                let hint = format!(
                    "{measure} on one device measures it: give --samples-per-second, 1 by its seconds"
                );
                Advice::usage(error.to_string(), hint)
            })?,
        };
        let question = Question {
            workload: &workload,
            distributed: &recipe.distributed,
            batch,
            accumulate: recipe.training.accumulate,
            unlabelled: recipe.detection.unlabelled_per_batch,
            machine: &machine,
            rate: &rate,
            length: length(&recipe, samples)?,
            staged: !self.no_staging,
            seed: recipe.seed,
        };
        let rows = self.rows(&question)?;
        let memory = rows.iter().map(|row| row.memory_bytes).max().unwrap_or(0);
        let room = machine.device.memory_gb.map(|gb| (gb * 1e9) as u64);
        Ok(Answer {
            note: about_samples(&machine, &workload, staged_samples, question.staged),
            memory,
            room,
            machine: machine.title.clone(),
            network: workload.network.clone(),
            precision: workload.precision.clone(),
            parameters: workload.values(),
            batch,
            rate: rate.source.clone(),
            assumed: rate.assumed,
            measure,
            unit: machine.price.as_ref().map(|price| price.unit.clone()),
            rows,
        })
    }

    /// A sentence with the command that measures the speed of one device; it takes changes of the network only from a
    /// file.
    fn measuring(&self, (rows, columns): (usize, usize), batch: usize, precision: &str) -> String {
        let is_of_network = |change: &String| change.trim_start().starts_with("network.");
        let (recipe, changes) = match &self.recipe {
            Some(recipe) if !self.overrides.iter().any(is_of_network) => (recipe.as_path(), ""),
            _ => (Path::new("R.toml"), ", a recipe with these --set,"),
        };
        format!(
            "`squall bench step --network {} --size {rows}x{columns} --batch {batch} --precision {precision}`{changes}",
            recipe.display()
        )
    }

    /// Predictions for the requested numbers of nodes, or else for powers of four and all nodes; numbers that the
    /// recipe does not support are skipped.
    fn rows(&self, question: &Question<'_>) -> anyhow::Result<Vec<Prediction>> {
        let all = question.machine.nodes;
        let powers = (0..).map(|power| 4_usize.pow(power));
        let usual = powers.take_while(|nodes| *nodes < all).chain([all]);
        let nodes = if self.nodes.is_empty() {
            usual.collect()
        } else {
            self.nodes.clone()
        };
        let mut rows = Vec::new();
        let mut refused = Vec::new();
        for nodes in nodes {
            match question.predict(nodes) {
                Ok(row) => rows.push(row),
                Err(error) => refused.push(error),
            }
        }
        if rows.is_empty() && !refused.is_empty() {
            return Err(refused.swap_remove(0).into());
        }
        for error in refused {
            tracing::warn!("left out: {error}");
        }
        Ok(rows)
    }
}

/// Validates the rate of --samples-per-second; `measure` is the command that measures it.
fn given_rate(rate: f64, workload: &Workload, measure: &str) -> anyhow::Result<Rate> {
    if rate.is_finite() && rate > 0.0 {
        return Ok(Rate::given(rate, workload));
    }
    Err(Advice::usage(
        format!("--samples-per-second: expected above 0, found {rate}"),
        format!("{measure} measures it"),
    ))
}

/// The precision that `auto` selects on a machine.
pub(super) fn auto_precision(machine: &Machine) -> &'static str {
    let computes = |precision| machine.device.peak_tflops.contains_key(precision);
    match machine.device.kind {
        DeviceKind::Gpu if computes("bf16") => "bf16",
        _ => "f32",
    }
}

/// The recipe's training length, with `samples` per epoch.
fn length(recipe: &Recipe, samples: Option<usize>) -> anyhow::Result<Length> {
    if samples == Some(0) {
        return Err(Advice::usage(
            "--samples: expected 1 or more, found 0",
            "it is the number of training samples of an epoch",
        ));
    }
    let training = &recipe.training;
    Ok(Length {
        samples,
        epochs: match training.steps {
            Some(_) => None,
            None => Some(training.passes()),
        },
        steps: training.steps,
    })
}

/// A note about reading `samples`, if a disk is too small for them or the machine's file lacks information.
fn about_samples(
    machine: &Machine,
    workload: &Workload,
    samples: Option<usize>,
    staged: bool,
) -> Option<String> {
    let disk = machine.node.local_disk.as_ref().filter(|_| staged);
    let store = samples.map(|samples| samples as f64 * workload.sample_bytes);
    match (disk, store) {
        (Some(disk), Some(store)) if store > 1e9 * disk.capacity_gb => Some(format!(
            "the samples take {}, a node's disk holds {}: stage a part on each node (squall stage --per-node)",
            bytes(store as u64),
            bytes((1e9 * disk.capacity_gb) as u64)
        )),
        (None, _) if machine.file_system.is_none() => {
            let missing = match staged {
                true => "disk or file system",
                false => "file system that nodes share",
            };
            Some(format!(
                "reading is not counted: the machine's file tells of no {missing} to read from"
            ))
        }
        _ => None,
    }
}

/// The complete output.
#[derive(Debug, Serialize)]
struct Answer {
    machine: String,
    network: String,
    precision: String,
    parameters: usize,
    /// Samples per batch on each rank, without a global batch.
    batch: usize,
    /// Origin of a device's rate.
    rate: String,
    assumed: bool,
    /// The command that measures this rate.
    #[serde(skip)]
    measure: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Maximum bytes per rank.
    #[serde(skip)]
    memory: u64,
    /// Bytes of device memory.
    #[serde(
        skip_serializing_if = "Option::is_none",
        rename = "device_memory_bytes"
    )]
    room: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    rows: Vec<Prediction>,
}

impl Answer {
    /// Compares a rank's memory needs with its memory. With a global batch, ranks get fewer samples on more nodes.
    fn memory_in_words(&self) -> String {
        let needed = format!("a rank needs about {}", bytes(self.memory));
        let Some(room) = self.room else {
            return format!("{needed} of memory");
        };
        let has = bytes(room);
        if self.memory <= room {
            return format!("{needed} of its {has} of memory");
        }
        let most = self.rows.iter().max_by_key(|row| row.memory_bytes);
        let fitting = self.rows.iter().filter(|row| row.memory_bytes <= room);
        let advice = "a smaller batch, or training.recompute";
        match most.zip(fitting.min_by_key(|row| row.nodes)) {
            Some((most, fitting)) => format!(
                "on {} {needed} of memory and has {has}: take {}, where it needs about {}, {advice}",
                counted(most.nodes, "node"),
                counted(fitting.nodes, "node"),
                bytes(fitting.memory_bytes)
            ),
            None => format!("{needed} of memory and has {has}: take {advice}"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ({:.2} M parameters) in {} on {}",
            self.network,
            self.parameters as f64 / 1e6,
            self.precision,
            self.machine
        )?;
        writeln!(f, "one device: {}", self.rate)?;
        writeln!(f, "{}\n", self.memory_in_words())?;
        writeln!(
            f,
            "{:>6} {:>7} {:>7} {:>10} {:>11} {:>10}   of a step, waiting for",
            "nodes", "ranks", "batch", "step", "samples/s", "efficiency"
        )?;
        write!(
            f,
            "{:>56}   {:>8} {:>8} {:>8}",
            "", "samples", "slower", "sums"
        )?;
        let timed = self.rows.iter().any(|row| row.hours.is_some());
        if timed {
            write!(f, " {:>12} {:>12}", "training", "node-hours")?;
        }
        if let Some(unit) = &self.unit {
            write!(f, " {unit:>10}")?;
        }
        for row in &self.rows {
            write_row(f, row)?;
        }
        if !timed {
            write!(
                f,
                "\n\n--samples N (or --data STORE) tells how long a training takes, too"
            )?;
        }
        if let Some(note) = &self.note {
            write!(f, "\n\n{note}")?;
        }
        if self.assumed {
            write!(
                f,
                "\n\nNobody measured this network on this device, so this is an estimate: {} there gives the true rate, for \
                 --samples-per-second (1 by its seconds)",
                self.measure
            )?;
        }
        Ok(())
    }
}

/// Formats one line of the table.
fn write_row(f: &mut fmt::Formatter<'_>, row: &Prediction) -> fmt::Result {
    write!(
        f,
        "\n{:>6} {:>7} {:>7} {:>8.1} ms {:>11.1} {:>8.1} %   {:>6.1} % {:>6.1} % {:>6.1} %",
        row.nodes,
        row.ranks,
        row.global_batch,
        1e3 * row.step_seconds,
        row.samples_per_second,
        100.0 * row.efficiency,
        100.0 * row.input_seconds / row.step_seconds,
        100.0 * row.straggler_seconds / row.step_seconds,
        100.0 * row.exposed_seconds / row.step_seconds,
    )?;
    if let (Some(hours), Some(node_hours)) = (row.hours, row.node_hours) {
        write!(f, " {:>12} {node_hours:>12.2}", duration(3600.0 * hours))?;
    }
    if let Some(cost) = row.cost {
        let digits = if cost < 100.0 { 2 } else { 0 };
        write!(f, " {cost:>10.digits$}")?;
    }
    Ok(())
}

/// Published runs compared with their predictions.
#[derive(Debug, Serialize)]
struct Published<'a>(&'a [published::Point]);

impl fmt::Display for Published<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<46} {:>6} {:>7} {:>11} {:>10} {:>11}  source",
            "run", "nodes", "ranks", "published", "predicted", "difference"
        )?;
        for point in self.0 {
            let name = match point.relative_to {
                Some(nodes) => format!("{}, as of {nodes} nodes", point.name),
                None => point.name.clone(),
            };
            write!(
                f,
                "\n{name:<46} {:>6} {:>7} {:>9.1} % {:>8.1} % {:>+8.1} pts  {}{}",
                point.nodes,
                point.ranks,
                100.0 * point.published_efficiency,
                100.0 * point.predicted_efficiency,
                100.0 * point.difference,
                if point.fitted {
                    "fitted to this row; "
                } else {
                    ""
                },
                point.source
            )?;
        }
        Ok(())
    }
}
