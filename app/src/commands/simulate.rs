//! `squall simulate`: writes a synthetic CAM5-like run and its truth.

use crate::arguments::grid;
use crate::failure::Advice;
use crate::own_folder::{self, Holds};
use crate::plan::{Plan, bytes, counted, duration, peak_memory};
use crate::progress::Progress;
use crate::{interrupt, output};
use clap::Args;
use squall_data::synthetic::{
    RunSummary, STEPS_PER_FILE, Scenario, SyntheticConfig, SyntheticRun, times_there, write_run,
};
use squall_data::{Calendar, Time};
use squall_jobs::lock::FolderLock;
use std::path::PathBuf;
use std::time::Instant;

/// Maximum number of times: 34 thousand years of 3-hourly fields.
const MOST_TIMES: f64 = 1e8;

/// Bytes that the storms of a year take in memory.
const STORMS_OF_A_YEAR: f64 = 550_000.0;

/// Write a synthetic CAM5-like run (history files, noleap calendar) and the truth for every storm in it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall simulate --out run --grid 192x288 --days 60 --hours 6\n  squall simulate --out warmer/run --scenario plus2k --years 5"
)]
pub struct Simulate {
    /// Output folder; the truth goes to DIR/truth.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Grid size, latitudes x longitudes. Grids with fewer than 32 latitudes have few tropical cyclones, with 20 hardly
    /// any.
    #[arg(long, default_value = "192x288", value_parser = grid)]
    pub grid: (usize, usize),
    /// Length in years of 365 days.
    #[arg(long, default_value_t = 1.0, conflicts_with = "days")]
    pub years: f64,
    /// Length in days, instead of --years.
    #[arg(long)]
    pub days: Option<f64>,
    /// First day, YYYY-MM-DD.
    #[arg(long, default_value = "2000-01-01")]
    pub start: String,
    /// Time step of the fields, in hours.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=24))]
    pub hours: u32,
    /// Climate: `present`, or `plus2k`, which is two degrees warmer, with known changes in storms.
    #[arg(long, default_value = "present")]
    pub scenario: Scenario,
    /// Random seed: it determines every storm and all winds.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print a summary as one JSON document.
    #[arg(long)]
    pub json: bool,
}

impl Simulate {
    /// Writes the run; existing complete files are kept.
    pub fn run(self) -> anyhow::Result<()> {
        let summary = self.write()?;
        if self.json {
            return output::json(&summary);
        }
        tracing::info!("{}, peak memory {}", words(&summary), bytes(peak_memory()));
        Ok(())
    }

    /// Writes the run and returns what was written.
    pub fn write(&self) -> anyhow::Result<RunSummary> {
        let config = self.config()?;
        own_folder::check(&self.out, Holds::Fields)?;
        own_folder::check(&self.out.join("truth"), Holds::Truth)?;
        check_memory(&config, squall_jobs::available_memory(1))?;
        let (rows, columns) = self.grid;
        let size = (rows * columns * 16 * 4) as u64;
        let run = SyntheticRun::new(config.clone())?;
        // Computes one time first to measure the speed of this machine.
        let started = Instant::now();
        run.snapshot(0);
        let each = started.elapsed().as_secs_f64() + size as f64 / 4e8;
        let there = times_there(&run, &self.out, STEPS_PER_FILE);
        drop(run);
        let left = config.steps - there;
        let before = match there {
            0 => String::new(),
            there => format!(", {there} are there"),
        };
        Plan {
            work: format!(
                "simulate {} of {rows} x {columns} ({}{before})",
                counted(config.steps, "time"),
                self.scenario.name
            ),
            write: size * left as u64,
            memory: memory(&config),
            seconds: Some(each * left as f64),
            ..Plan::default()
        }
        .announce();
        let _lock = FolderLock::take(&self.out)?;
        let mut progress = Progress::new("simulate", config.steps);
        progress.start(config.steps, there);
        // From here on signals set a flag.
        interrupt::flag();
        let written = write_run(&config, &self.out, STEPS_PER_FILE, |done| {
            progress.set(done, String::new());
            interrupt::check()
        });
        progress.finish();
        Ok(written?)
    }

    fn config(&self) -> anyhow::Result<SyntheticConfig> {
        let days = self.days.unwrap_or(365.0 * self.years);
        let steps = (days * 24.0 / f64::from(self.hours)).round();
        if !(1.0..=MOST_TIMES).contains(&steps) {
            let hint = "a year of 3-hourly fields is `--years 1`, ten days are `--days 10`";
            let message = if steps > MOST_TIMES {
                format!("a run of {days} days has more than {MOST_TIMES} times")
            } else {
                format!("a run of {days} days has no times")
            };
            return Err(Advice::usage(message, hint));
        }
        let start = Time::parse(&self.start, Calendar::NoLeap).map_err(|error| {
            let hint =
                "the calendar has no leap days: a day is 2000-08-01, a time 2000-08-01T06:00";
            Advice::usage(format!("--start: {error}"), hint)
        })?;
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

/// Describes what was written, and the time and rate; existing files do not count in the rate.
fn words(summary: &RunSummary) -> String {
    let pace = match summary.kept {
        0 => format!(
            " at {:.1} times a second",
            summary.times as f64 / summary.seconds.max(1e-3)
        ),
        kept => format!(", {} there before", counted(kept, "file")),
    };
    format!(
        "{} in {} ({}), {}, {}: {}{pace}",
        counted(summary.times, "time"),
        counted(summary.files, "file"),
        bytes(summary.bytes),
        counted(summary.tropical_cyclones, "tropical cyclone"),
        counted(summary.rivers, "river"),
        duration(summary.seconds),
    )
}

/// Memory of a run in bytes: two times of 16 channels with their intermediate fields, and all storms.
fn memory(config: &SyntheticConfig) -> u64 {
    let field = (config.rows * config.columns * 4) as u64;
    let years = config.steps as f64 * f64::from(config.step_hours) / (365.0 * 24.0);
    60_000_000 + 8 * 16 * field + (STORMS_OF_A_YEAR * years) as u64
}

/// Rejects a run that needs more than twice the free memory. The factor is needed because half of the estimate is a
/// single time, or the storms before there are fields.
fn check_memory(config: &SyntheticConfig, free: Option<u64>) -> anyhow::Result<()> {
    let needed = memory(config);
    match free {
        Some(free) if needed / 2 > free => Err(Advice::usage(
            format!(
                "{} of {} x {} need memory of about {}, this process may have {}",
                counted(config.steps, "time"),
                config.rows,
                config.columns,
                bytes(needed),
                bytes(free)
            ),
            "a coarser --grid needs less, and so do fewer --years with their storms",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parsed;

    /// All storms are drawn, and one time is computed, before the plan is told.
    #[test]
    fn a_run_that_no_memory_holds_is_refused() {
        let check = |words: [&str; 6], free| {
            let call: Simulate = parsed([&["--out", "run"][..], &words].concat()).unwrap();
            check_memory(&call.config().unwrap(), free)
        };
        let fine = ["--grid", "5000x9999", "--hours", "6", "--days", "1"];
        let long = ["--grid", "48x72", "--hours", "24", "--years", "250000"];
        let usual = ["--grid", "768x1152", "--hours", "3", "--years", "1"];
        for words in [fine, long] {
            let refused = check(words, Some(8_000_000_000)).unwrap_err();
            assert!(
                refused.to_string().contains("may have 8.00 GB"),
                "{refused}"
            );
            assert!(check(words, None).is_ok());
        }
        assert!(check(usual, Some(1_000_000_000)).is_ok());
    }

    /// The scenario and half of the others had been in no test of the command.
    #[test]
    fn every_option_reaches_the_run() {
        let words = "--out run --grid 40x60 --years 2 --start 2001-03-04 --hours 6 --scenario plus2k --seed 9";
        let call: Simulate = parsed(words.split_whitespace()).unwrap();
        let config = call.config().unwrap();
        assert_eq!((config.rows, config.columns), (40, 60));
        assert_eq!(config.scenario, Scenario::PLUS_2K);
        assert_eq!((config.step_hours, config.seed), (6, 9));
        // Two years of 365 days, four times a day.
        assert_eq!(config.steps, 2920);
        let start = Time::new(Calendar::NoLeap, 2001, 3, 4, 0, 0, 0).unwrap();
        assert_eq!(config.start, start);
        let usual: Simulate = parsed(["--out", "run"]).unwrap();
        let config = usual.config().unwrap();
        // A year of 3-hourly fields.
        assert_eq!((config.scenario, config.steps), (Scenario::PRESENT, 2920));
    }

    /// Before anything is computed or allocated.
    #[test]
    fn a_run_that_no_disk_holds_is_refused_in_true_words() {
        let said = |days: &str| {
            let call: Simulate = parsed(["--out", "run", "--days", days]).unwrap();
            call.config().unwrap_err().to_string()
        };
        assert!(said("100000000").contains("more than 100000000 times"));
        assert!(said("0").contains("has no times"));
        assert!(said("nan").contains("has no times"));
    }

    /// Of 240 times that were all there it had computed 3,000 a second.
    #[test]
    fn files_that_existed_do_not_count_as_speed() {
        let told = |kept: usize| {
            words(&RunSummary {
                times: 240,
                files: 30,
                kept,
                bytes: 56_000_000,
                tropical_cyclones: 14,
                rivers: 1,
                seconds: 2.0,
            })
        };
        let run = "240 times in 30 files (56 MB), 14 tropical cyclones, 1 river: 2 s";
        assert_eq!(told(0), format!("{run} at 120.0 times a second"));
        assert_eq!(told(29), format!("{run}, 29 files there before"));
    }

    /// Measured on one thread: 48 MB of a year, 97 MB of a century, 582 MB of ten.
    #[test]
    fn storms_of_a_long_run_take_memory_too() {
        let told = |years: &str| {
            let words = [
                "--out", "run", "--grid", "48x72", "--hours", "6", "--years", years,
            ];
            let call: Simulate = parsed(words).unwrap();
            memory(&call.config().unwrap()) / 1_000_000
        };
        assert_eq!((told("1"), told("100"), told("1000")), (62, 116, 611));
    }
}
