//! `squall bench`: the speed of the parts on this machine, compared with their upper bounds.

mod all_reduce;
mod ceilings;
mod fields;
mod groups;
mod network;
mod ops;
mod optimizer;
mod parity;
mod peer;

use crate::arguments::{number, parsed};
use crate::device;
use crate::output;
use crate::plan::peak_memory;
use crate::ranks;
use clap::{Args, Subcommand};
use network::{NetworkOptions, Work};
use serde::Serialize;
use squall_model::Backend;
use std::fmt;

/// Measure the speed of Squall's parts on this machine, and compare it with their upper bounds.
#[derive(Debug, Args)]
#[command(
    subcommand_value_name = "PART",
    subcommand_help_heading = "Parts",
    after_help = "Examples:\n  squall bench\n  squall bench step --network small --size 96x144"
)]
pub struct Bench {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    device: device::Options,
    /// Number of repetitions; the median is reported.
    #[arg(long, value_name = "N", default_value_t = 5, global = true, value_parser = repetitions)]
    repeat: usize,
    /// Print rows as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// What one process shows.
#[derive(Debug, Args)]
struct All {
    #[command(flatten)]
    fields: fields::LabelOptions,
    #[command(flatten)]
    network: NetworkOptions,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Simulate, label, read, step, infer and optimizer; the default.
    All(All),
    /// Generate times of a synthetic run.
    Simulate(fields::FieldOptions),
    /// Label one time by rules.
    Label(fields::LabelOptions),
    /// Read one time of a netCDF file.
    Read(fields::FieldOptions),
    /// Each operation of a network separately (not in `all`).
    Ops(ops::OpsOptions),
    /// Training step of a network.
    // In `all`, --grid is the grid of the fields.
    #[command(mut_arg("size", |size| size.visible_alias("grid")))]
    Step(NetworkOptions),
    /// Inference of a network.
    #[command(mut_arg("size", |size| size.visible_alias("grid")))]
    Infer(NetworkOptions),
    /// Step of every optimiser.
    Optimizer,
    /// All-reduce by several methods (not in `all`).
    #[command(name = "allreduce")]
    AllReduce(all_reduce::AllReduceOptions),
    /// Asynchronous groups of ranks, compared with synchronous training (not in `all`).
    Groups(groups::GroupOptions),
    /// Errors of fast operations and networks relative to plain loops, in minutes (not in `all`).
    Parity(parity::ParityOptions),
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    /// Seconds per unit: a time of fields, a sample.
    ours: f64,
    /// Seconds of another program, if measured; the fastest of several.
    peer: Option<f64>,
    /// How the other program runs the network.
    peer_mode: Option<String>,
    /// Peak memory of the other program.
    peer_peak_mb: Option<f64>,
    /// peer / ours: above 1, ours is faster.
    ratio: Option<f64>,
    /// Time at the ceiling, as a percentage of ours.
    ceiling_percent: Option<f64>,
    /// What the ceiling is.
    ceiling: &'static str,
    /// Floating-point operations per second, if counted.
    flops_per_second: Option<f64>,
    /// Peak memory during the measurement: of the GPU, or else of the process. For operations and sums on a CPU, and
    /// where the system cannot reset the peak, it is that of the process so far.
    peak_mb: f64,
    /// Predicted memory, if there was a prediction.
    predicted_mb: Option<f64>,
    /// The compute device.
    device: String,
}

/// All of them.
#[derive(Debug, Serialize)]
struct Table(Vec<Row>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|row| row.name.chars().count());
        let wide = names.fold(48, usize::max);
        writeln!(
            f,
            "{:<wide$} {:>9} {:>9} {:>6} {:>11} {:>8} {:>9}  ceiling",
            "", "seconds", "peer", "ratio", "of ceiling", "peak MB", "predicted"
        )?;
        for row in &self.0 {
            let ceiling = row
                .ceiling_percent
                .map_or("-".to_string(), |percent| format!("{percent:.0} %"));
            let or_dash = |value: Option<f64>, digits: usize| {
                value.map_or("-".to_string(), |value| format!("{value:.digits$}"))
            };
            // Operations take from microseconds to minutes.
            let digits = |seconds: f64| if seconds < 0.1 { 6 } else { 4 };
            writeln!(
                f,
                "{:<wide$} {:>9} {:>9} {:>6} {ceiling:>11} {:>8.0} {:>9}  {}",
                row.name,
                or_dash(Some(row.ours), digits(row.ours)),
                or_dash(row.peer, row.peer.map_or(4, digits)),
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
        match &self.part {
            Some(Part::Groups(options)) => return groups::run(options, self.json),
            Some(Part::Parity(options)) => return parity::run(options, self.json),
            _ => {}
        }
        let mut rows = Vec::new();
        let measured = self.measure(&mut rows);
        // Ranks measure concurrently, and the first one reports, including what was measured before a failure.
        if ranks::number() == 0 && (measured.is_ok() || !rows.is_empty()) {
            output::result(&Table(rows), self.json)?;
        }
        measured
    }

    /// Adds a row for every measurement; those before an error are kept.
    fn measure(&self, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        match &self.part {
            None => self.all(&parsed::<All>([""; 0])?, rows)?,
            Some(Part::All(options)) => self.all(options, rows)?,
            Some(Part::Simulate(options)) => rows.extend(fields::simulate(options, self.repeat)?),
            Some(Part::Label(options)) => rows.extend(fields::label(options, self.repeat)?),
            Some(Part::Read(options)) => rows.push(fields::read(options, self.repeat)?),
            Some(Part::Ops(options)) => ops::measure(options, self.repeat, rows)?,
            Some(Part::Step(options)) => {
                network::measure(options, self.repeat, Work::Step, rows)?;
            }
            Some(Part::Infer(options)) => {
                network::measure(options, self.repeat, Work::Infer, rows)?;
            }
            Some(Part::Optimizer) => rows.extend(optimizer::rows(self.repeat)?),
            Some(Part::AllReduce(options)) => all_reduce::measure_all(options, self.repeat, rows)?,
            // These print tables of their own.
            Some(Part::Groups(_) | Part::Parity(_)) => {}
        }
        Ok(())
    }

    fn all(&self, All { fields, network }: &All, rows: &mut Vec<Row>) -> anyhow::Result<()> {
        // Report typing errors before anything is measured.
        network.resolve()?;
        for work in [Work::Step, Work::Infer] {
            network::check_options(&network.for_work(work), work, Backend::best())?;
        }
        rows.extend(fields::simulate(&fields.fields_of, self.repeat)?);
        rows.extend(fields::label(fields, self.repeat)?);
        rows.push(fields::read(&fields.fields_of, self.repeat)?);
        for work in [Work::Step, Work::Infer] {
            network::measure(&network.for_work(work), self.repeat, work, rows)?;
        }
        rows.extend(optimizer::rows(self.repeat)?);
        Ok(())
    }
}

fn repetitions(text: &str) -> Result<usize, String> {
    number(text, |times: &usize| *times > 0, "1 repetition or more")
}

/// The median; for an even number of values the upper one of the two in the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(super) fn row(name: String, ours: f64, ceiling: Option<f64>, what: &'static str) -> Row {
    Row {
        name,
        ours,
        peer: None,
        peer_mode: None,
        peer_peak_mb: None,
        ratio: None,
        ceiling_percent: ceiling.map(|ceiling| 100.0 * ceiling / ours),
        ceiling: what,
        flops_per_second: None,
        peak_mb: peak() as f64 / 1e6,
        predicted_mb: None,
        device: Backend::best().describe(),
    }
}

/// Like [`row`], for work that always runs on the CPU.
pub(super) fn row_of_cpu(name: String, ours: f64, ceiling: Option<f64>, what: &'static str) -> Row {
    Row {
        peak_mb: peak_memory() as f64 / 1e6,
        device: Backend::best_of_cpu().describe(),
        ..row(name, ours, ceiling, what)
    }
}

/// Peak memory in bytes on the compute device.
pub(super) fn peak() -> u64 {
    (Backend::best().peak_memory()).unwrap_or_else(peak_memory)
}

/// Resets the peak memory to the current use, after returning freed memory to the system.
pub(super) fn forget_peak() {
    Backend::best().forget_peak();
    squall_model::memory::give_back_freed();
    // See proc(5): 5 resets the peak. Where the file does not exist or is not writable, the peak remains that of the
    // process so far.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_beside_the_ceiling() {
        assert_eq!(median(&mut [3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 3.0);
        // The ceiling would take a quarter of the time.
        let row = row("any".into(), 2.0, Some(0.5), "-");
        assert_eq!(row.ceiling_percent, Some(25.0));
    }

    #[test]
    fn short_times_and_long_names_can_be_read() {
        let long = "n".repeat(60);
        let rows = [(&long[..], 0.000_012), ("short", 12.0)];
        let rows = rows.map(|(name, seconds)| row(name.into(), seconds, None, "-"));
        let told = Table(rows.into()).to_string();
        let lines: Vec<&str> = told.lines().collect();
        let title = "seconds";
        let end = lines[0].find(title).expect("a title") + title.len();
        assert!(lines[1][..end].ends_with(" 0.000012"), "{told}");
        assert!(lines[2][..end].ends_with(" 12.0000"), "{told}");
    }
}
