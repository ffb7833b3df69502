//! `squall bench simulate|label|read`: the processing of fields before a network sees them.

use super::ceilings::{LONG, Triad};
use super::{Row, forget_peak, median, row_of_cpu};
use crate::arguments::grid;
use clap::Args;
use squall_climate::detect::tempest::{TempestDetector, TempestThresholds};
use squall_climate::detect::{DetectFields, FieldRequest};
use squall_climate::label::{Labeller, Thresholds};
use squall_data::synthetic::{STEPS_PER_FILE, Scenario, SyntheticConfig, SyntheticRun, write_run};
use squall_data::{Archive, Calendar, Time, Variable};
use squall_model::Backend;
use std::time::Instant;

/// The size of fields.
#[derive(Debug, Args)]
pub struct FieldOptions {
    /// Grid to simulate, label and read, latitudes x longitudes.
    #[arg(long, default_value = "768x1152", value_parser = grid)]
    grid: (usize, usize),
}

/// The size of synthetic fields, or files of fields.
#[derive(Debug, Args)]
pub struct LabelOptions {
    #[command(flatten)]
    pub(super) fields_of: FieldOptions,
    /// Fields whose first time is labelled [default: a synthetic time].
    #[arg(long, value_name = "INPUT")]
    fields: Option<String>,
}

/// Median seconds of `act` after one warm-up call, which also resets the peak memory.
fn time(repeat: usize, mut act: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    forget_peak();
    act()?;
    let mut times = Vec::new();
    for _ in 0..repeat.max(1) {
        let started = Instant::now();
        act()?;
        times.push(started.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}

/// One time of a synthetic run, on the 1-degree grid and on the requested one.
pub(super) fn simulate(options: &FieldOptions, repeat: usize) -> anyhow::Result<Vec<Row>> {
    let mut found = Vec::new();
    for (rows, columns) in [(192, 288), options.grid] {
        let run = SyntheticRun::new(config(rows, columns, 64)?)?;
        let mut index = 0;
        let ours = time(repeat, || {
            index += 7;
            run.snapshot(index % run.len());
            Ok(())
        })?;
        // The fields must be written to memory at least once.
        let bytes = rows * columns * 16 * 4;
        let name = format!("simulate a time of {rows} x {columns}");
        let what = "writing the fields to memory once";
        found.push((row_of_cpu(name, ours, None, what), bytes));
    }
    with_ceilings(found)
}

/// Adds to each row the time for its minimum memory traffic at the measured triad rate. The triad runs after all of
/// them, so that its arrays do not count in their peak memory.
fn with_ceilings(found: Vec<(Row, usize)>) -> anyhow::Result<Vec<Row>> {
    let rate = Triad::new(Backend::best_of_cpu(), LONG)?.rate()?;
    let beside = |(mut row, bytes): (Row, usize)| {
        row.ceiling_percent = Some(100.0 * bytes as f64 / rate / row.ours);
        row
    };
    Ok(found.into_iter().map(beside).collect())
}

/// Labels one time with the DeepCAM rules, and with TempestExtremes' for cyclones and rivers.
pub(super) fn label(options: &LabelOptions, repeat: usize) -> anyhow::Result<Vec<Row>> {
    let fields = match &options.fields {
        Some(input) => {
            let archive = Archive::open(input)?;
            DetectFields::read(&archive, 0, &FieldRequest::all(archive.available()))?
        }
        None => {
            let (rows, columns) = options.fields_of.grid;
            let run = SyntheticRun::new(config(rows, columns, 64)?)?;
            DetectFields::from_snapshot(run.snapshot(40).0)
        }
    };
    let grid = &fields.snapshot.grid;
    let (rows, columns) = grid.shape();
    let labeller = Labeller::new(&Thresholds::default(), grid.clone())?;
    let tempest = TempestDetector::new(&TempestThresholds::default(), grid.clone())?;
    let transport = fields.transport()?.into_owned().magnitude;
    // Called right after the measured work, because it reads the peak memory.
    let of = |what: &str, planes: usize, seconds: f64| {
        let name = format!("{what} of {rows} x {columns}");
        let ceiling = "reading the fields from memory once";
        let bytes = planes * rows * columns * 4;
        (row_of_cpu(name, seconds, None, ceiling), bytes)
    };
    let deepcam = time(repeat, || {
        let candidates = labeller.candidates(&fields.snapshot)?;
        labeller.masks(&fields.snapshot, &candidates)?;
        Ok(())
    })?;
    let deepcam = of("label a time", 11, deepcam);
    let nodes = time(repeat, || {
        tempest.nodes(&fields)?;
        Ok(())
    })?;
    let nodes = of("lows by closed contours, a time", 7, nodes);
    let rivers = time(repeat, || {
        tempest.rivers(transport.view())?;
        Ok(())
    })?;
    let rivers = of("rivers by a Laplacian, a time", 1, rivers);
    with_ceilings(vec![deepcam, nodes, rivers])
}

/// Reads one time from a file of four.
pub(super) fn read(options: &FieldOptions, repeat: usize) -> anyhow::Result<Row> {
    let (rows, columns) = options.grid;
    let folder = tempfile::tempdir()?;
    write_run(
        &config(rows, columns, 4)?,
        folder.path(),
        STEPS_PER_FILE,
        |_| Ok(()),
    )?;
    let archive = Archive::open(&folder.path().to_string_lossy())?;
    let path = archive.source_of(0).0.to_path_buf();
    let plain = time(repeat, || {
        std::fs::read(&path)?;
        Ok(())
    })? / 4.0;
    let mut index = 0;
    let ours = time(repeat, || {
        index += 1;
        archive.read(index % 4, &Variable::CHANNELS)?;
        Ok(())
    })?;
    Ok(row_of_cpu(
        format!("read a time of {rows} x {columns}, netCDF-4"),
        ours,
        Some(plain),
        "reading the file's bytes from the page cache",
    ))
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
