//! `squall simulate`: a synthetic CAM5-like run and its truth.

use crate::plan::{Plan, bytes, duration, peak_memory};
use crate::progress::Progress;
use crate::{interrupt, output};
use clap::Args;
use squall_data::synthetic::{
    RunSummary, Scenario, SyntheticConfig, SyntheticRun, WriteOptions, write_run,
};
use squall_data::{Calendar, DataError, Time};
use std::path::PathBuf;
use std::time::Instant;

/// Write a synthetic CAM5-like run (history files, noleap calendar) and the truth about every storm in it.
#[derive(Debug, Args)]
pub struct Simulate {
    /// Folder for the files; truth goes to DIR/truth.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Latitudes x longitudes.
    #[arg(long, default_value = "192x288", value_parser = grid)]
    pub grid: (usize, usize),
    /// Length in years of 365 days.
    #[arg(long, default_value_t = 1.0, conflicts_with = "days")]
    pub years: f64,
    /// Length in days.
    #[arg(long)]
    pub days: Option<f64>,
    /// First day, as YYYY-MM-DD.
    #[arg(long, default_value = "2000-01-01")]
    pub start: String,
    /// Hours between two fields.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=24))]
    pub hours: u32,
    /// `present`, or `plus2k`: the same climate two degrees warmer, with known changes of the storms.
    #[arg(long, default_value = "present")]
    pub scenario: Scenario,
    /// Every storm and every wind follows from this number.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

impl Simulate {
    /// Writes the run; files that are already complete are kept.
    pub fn run(self) -> anyhow::Result<()> {
        let summary = self.write()?;
        if self.json {
            return output::json(&summary);
        }
        tracing::info!(
            "{} times in {} files ({}), {} tropical cyclones, {} rivers: {} at {:.1} times a second, peak memory {}",
            summary.times,
            summary.files,
            bytes(summary.bytes),
            summary.tropical_cyclones,
            summary.rivers,
            duration(summary.seconds),
            summary.times as f64 / summary.seconds.max(1e-3),
            bytes(peak_memory()),
        );
        Ok(())
    }

    /// Writes the run and says what was written.
    pub fn write(&self) -> anyhow::Result<RunSummary> {
        let config = self.config()?;
        let (rows, columns) = self.grid;
        let size = (rows * columns * 16 * 4) as u64;
        // One time computed first gives the rate of this machine.
        let started = Instant::now();
        SyntheticRun::new(config.clone())?.snapshot(0);
        let each = started.elapsed().as_secs_f64() + size as f64 / 4e8;
        Plan {
            work: format!(
                "simulate {} times of {rows} x {columns} ({})",
                config.steps, self.scenario.name
            ),
            write: size * config.steps as u64,
            memory: 60_000_000 + 8 * size,
            seconds: Some(each * config.steps as f64),
            ..Plan::default()
        }
        .announce();
        let mut progress = Progress::new("simulate", config.steps);
        let stop = interrupt::flag();
        let mut stopped = false;
        let written = write_run(&config, &self.out, &WriteOptions::default(), |done| {
            progress.set(done, String::new());
            stopped = stop.load(std::sync::atomic::Ordering::Relaxed);
            if stopped {
                Err(DataError::Invalid("interrupted".into()))
            } else {
                Ok(())
            }
        });
        progress.finish();
        if stopped {
            return Err(interrupt::stopped());
        }
        Ok(written?)
    }

    fn config(&self) -> anyhow::Result<SyntheticConfig> {
        let days = self.days.unwrap_or(365.0 * self.years);
        let steps = (days * 24.0 / f64::from(self.hours)).round();
        if !(1.0..1e8).contains(&steps) {
            let hint = "a year of 3-hourly fields is `--years 1`, ten days are `--days 10`";
            return Err(crate::failure::Advice::usage(
                format!("a run of {days} days has no times"),
                hint,
            ));
        }
        let start = Time::parse(&self.start, Calendar::NoLeap)?;
        Ok(SyntheticConfig {
            rows: self.grid.0,
            columns: self.grid.1,
            start,
            step_hours: self.hours,
            steps: steps as usize,
            scenario: self.scenario,
            seed: self.seed,
        })
    }
}

/// Parses latitudes x longitudes.
pub fn grid(text: &str) -> Result<(usize, usize), String> {
    let parse = || -> Option<(usize, usize)> {
        let (rows, columns) = text.split_once(['x', 'X', '×'])?;
        Some((rows.trim().parse().ok()?, columns.trim().parse().ok()?))
    };
    match parse() {
        Some((rows, columns)) if rows >= 8 && columns >= 8 => Ok((rows, columns)),
        _ => Err("expected latitudes x longitudes, such as 192x288, each at least 8".to_string()),
    }
}
