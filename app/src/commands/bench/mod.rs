//! `squall bench`: how fast the parts are on this machine, and how near their ceilings.

mod all_reduce;
mod groups;
mod network;
mod optimizer;
mod parity;
mod peer;

use crate::commands::simulate::grid;
use crate::device;
use crate::output;
use crate::plan::peak_memory;
use crate::ranks;
use clap::{Args, ValueEnum};
use serde::Serialize;
use squall_climate::label::{Labeller, Thresholds};
use squall_data::synthetic::{Scenario, SyntheticConfig, SyntheticRun, WriteOptions, write_run};
use squall_data::{Archive, Calendar, Time, Variable};
use squall_model::Backend;
use std::fmt;
use std::time::Instant;

/// Measure simulating, labelling, reading, a training step, inference or the optimisers on this machine; or how far fast
/// operations are from plain loops.
#[derive(Debug, Args)]
pub struct Bench {
    /// What to measure.
    #[arg(value_enum, default_value = "all")]
    part: Part,
    /// Latitudes x longitudes of simulating, labelling and reading.
    #[arg(long, default_value = "768x1152", value_parser = grid)]
    grid: (usize, usize),
    #[command(flatten)]
    network: network::NetworkOptions,
    #[command(flatten)]
    all_reduce: all_reduce::AllReduceOptions,
    #[command(flatten)]
    device: device::Options,
    #[command(flatten)]
    hybrid: groups::GroupOptions,
    /// Repetitions; the median counts.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Rows as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    All,
    Simulate,
    Label,
    Read,
    Step,
    Infer,
    Optimizer,
    /// Sums over ranks; not among `all`.
    #[value(name = "allreduce")]
    AllReduce,
    /// Groups of ranks that do not wait for each other, beside ranks in step; not among `all`.
    Groups,
    /// Not among `all`: operations and networks against plain loops, minutes.
    Parity,
}

/// One measured thing.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    /// Seconds of one unit: a field time, a sample.
    ours: f64,
    /// Seconds of another program, where one was measured.
    peer: Option<f64>,
    /// peer / ours: above 1 is faster.
    ratio: Option<f64>,
    /// What the ceiling would take, in percent of ours.
    ceiling_percent: Option<f64>,
    /// What the ceiling is.
    ceiling: &'static str,
    /// Highest memory use of the process so far.
    peak_mb: f64,
    /// What was said before it ran that it would need, where that is said.
    predicted_mb: Option<f64>,
    /// What computed.
    device: String,
}

struct Table(Vec<Row>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<48} {:>9} {:>9} {:>6} {:>11} {:>8} {:>9}  ceiling",
            "", "seconds", "peer", "ratio", "of ceiling", "peak MB", "predicted"
        )?;
        for row in &self.0 {
            let ceiling = row
                .ceiling_percent
                .map_or("-".to_string(), |percent| format!("{percent:.0} %"));
            let or_dash = |value: Option<f64>, digits: usize| {
                value.map_or("-".to_string(), |value| format!("{value:.digits$}"))
            };
            writeln!(
                f,
                "{:<48} {:>9.4} {:>9} {:>6} {ceiling:>11} {:>8.0} {:>9}  {}",
                row.name,
                row.ours,
                or_dash(row.peer, 4),
                or_dash(row.ratio, 2),
                row.peak_mb,
                or_dash(row.predicted_mb, 0),
                row.ceiling
            )?;
        }
        Ok(())
    }
}

impl Bench {
    /// Measures and prints rows.
    pub fn run(self) -> anyhow::Result<()> {
        let backend = self.device.open()?;
        tracing::info!("measured on {}", backend.describe());
        if self.part == Part::Parity {
            return parity::run(self.json);
        }
        if self.part == Part::Groups {
            return groups::run(&self.hybrid, self.json);
        }
        let wants = |part: Part| self.part == part || self.part == Part::All;
        let mut rows = Vec::new();
        if wants(Part::Simulate) {
            rows.push(self.simulate((192, 288))?);
            rows.push(self.simulate(self.grid)?);
        }
        if wants(Part::Label) {
            rows.push(self.label()?);
        }
        if wants(Part::Read) {
            rows.push(self.read()?);
        }
        for (part, work) in [
            (Part::Step, network::Work::Step),
            (Part::Infer, network::Work::Infer),
        ] {
            if wants(part) {
                rows.push(network::measure(&self.network, self.repeat, work)?);
            }
        }
        if self.part == Part::AllReduce {
            rows.extend(all_reduce::rows(&self.all_reduce, self.repeat)?);
            if ranks::number() > 0 {
                return Ok(());
            }
        }
        if wants(Part::Optimizer) {
            rows.extend(optimizer::rows(self.repeat)?);
        }
        if self.json {
            output::json(&rows)
        } else {
            output::text(&Table(rows))
        }
    }

    /// Median seconds of `act`, after one call that does not count.
    fn median(&self, mut act: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
        act()?;
        let mut times = Vec::new();
        for _ in 0..self.repeat.max(1) {
            let started = Instant::now();
            act()?;
            times.push(started.elapsed().as_secs_f64());
        }
        Ok(median(&mut times))
    }

    fn simulate(&self, (rows, columns): (usize, usize)) -> anyhow::Result<Row> {
        let run = SyntheticRun::new(config(rows, columns, 64)?)?;
        let mut index = 0;
        let ours = self.median(|| {
            index += 7;
            run.snapshot(index % run.len());
            Ok(())
        })?;
        // The fields must at least be written to memory once.
        let bytes = rows * columns * 16 * 4;
        let ceiling = bytes as f64 / memory_rate();
        Ok(row(
            format!("simulate a time of {rows} x {columns}"),
            ours,
            Some(ceiling),
            "writing the fields to memory once",
        ))
    }

    fn label(&self) -> anyhow::Result<Row> {
        let (rows, columns) = self.grid;
        let run = SyntheticRun::new(config(rows, columns, 64)?)?;
        let (snapshot, _) = run.snapshot(40);
        let labeller = Labeller::new(&Thresholds::default(), run.grid().clone())?;
        let ours = self.median(|| {
            let candidates = labeller.candidates(&snapshot)?;
            labeller.masks(&snapshot, &candidates)?;
            Ok(())
        })?;
        let ceiling = (rows * columns * 11 * 4) as f64 / memory_rate();
        Ok(row(
            format!("label a time of {rows} x {columns}"),
            ours,
            Some(ceiling),
            "reading the fields from memory once",
        ))
    }

    fn read(&self) -> anyhow::Result<Row> {
        let (rows, columns) = self.grid;
        let folder = tempfile::tempdir()?;
        write_run(
            &config(rows, columns, 4)?,
            folder.path(),
            &WriteOptions::default(),
            |_| Ok(()),
        )?;
        let archive = Archive::open(&folder.path().to_string_lossy())?;
        let path = archive.source_of(0).0.to_path_buf();
        let plain = self.median(|| {
            std::fs::read(&path)?;
            Ok(())
        })? / 4.0;
        let mut index = 0;
        let ours = self.median(|| {
            index += 1;
            archive.read(index % 4, &Variable::CHANNELS)?;
            Ok(())
        })?;
        Ok(row(
            format!("read a time of {rows} x {columns}, netCDF-4"),
            ours,
            Some(plain),
            "reading the file's bytes from the page cache",
        ))
    }
}

/// The middle one, the upper of two.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(super) fn row(name: String, ours: f64, ceiling: Option<f64>, what: &'static str) -> Row {
    Row {
        name,
        ours,
        peer: None,
        ratio: None,
        ceiling_percent: ceiling.map(|ceiling| 100.0 * ceiling / ours),
        ceiling: what,
        peak_mb: peak_memory() as f64 / 1e6,
        predicted_mb: None,
        device: Backend::best().describe(),
    }
}

fn config(rows: usize, columns: usize, steps: usize) -> anyhow::Result<SyntheticConfig> {
    let start = Time::parse("2000-08-01", Calendar::NoLeap)?;
    Ok(SyntheticConfig {
        rows,
        columns,
        start,
        step_hours: 6,
        steps,
        scenario: Scenario::PRESENT,
        seed: 1,
    })
}

/// Bytes a second that one pass over memory moves: a copy larger than any cache.
fn memory_rate() -> f64 {
    let source = vec![1u8; 256 << 20];
    let mut target = vec![0u8; source.len()];
    target.copy_from_slice(&source);
    let started = Instant::now();
    target.copy_from_slice(&source);
    let seconds = started.elapsed().as_secs_f64();
    std::hint::black_box(&target);
    2.0 * source.len() as f64 / seconds
}
