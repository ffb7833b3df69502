//! `squall compare`: what changes between two runs, ensembles or periods, with intervals and significance.

use crate::arguments::{Months, calendar, months, years};
use crate::command_line::CommandLine;
use crate::events_folder::{own_name, table_bytes};
use crate::failure::Advice;
use crate::own_folder::{self, Holds};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::{interrupt, output, ranks};
use clap::{Args, ValueEnum};
use squall_climate::ClimateError;
use squall_climate::compare::{
    self, CompareOptions, Comparison, DrawOptions, IntervalMethod, MIN_BLOCKS, NO_WHOLE_MONTH,
    SideInput, Unit,
};
use squall_climate::report::changes::changes_page;
use squall_data::archive::folders_of;
use squall_data::{Calendar, atomic};
use squall_jobs::lock::FolderLock;
use std::path::{Path, PathBuf};

/// The output files of a comparison.
const FILES: [&str; 7] = [
    "changes.csv",
    "changes.json",
    "return_levels.csv",
    "distributions.csv",
    "maps.nc",
    "statements.txt",
    "changes.html",
];

/// Compare two runs, ensembles or periods: changes in counts, intensity, maps and extremes, with confidence intervals
/// and significance.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall compare events warmer/events --out changes\n  squall compare 'present/m*/events' 'warmer/m*/events' --out changes\n  squall compare events events --years-a 1981-2000 --years-b 2001-2020 --out changes"
)]
pub struct Compare {
    /// Output folder of `squall events` for the first run; for an ensemble, a quoted glob such as 'present/m*/events',
    /// or a text file that lists the members' folders.
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The same for the second run; give folder A again to compare two periods of one run (--years-a, --years-b).
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Output folder for changes.csv, changes.json, return_levels.csv, distributions.csv, maps.nc, statements.txt and
    /// changes.html.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Name of the first run [default: that of its folder, or of the last folder before a wildcard].
    #[arg(long, value_name = "NAME")]
    pub label_a: Option<String>,
    /// Name of the second run.
    #[arg(long, value_name = "NAME")]
    pub label_b: Option<String>,
    /// Years of the first run [default: all whole years].
    #[arg(long, value_name = "FROM-TO", value_parser = years)]
    pub years_a: Option<(i64, i64)>,
    /// Years of the second run [default: all whole years].
    #[arg(long, value_name = "FROM-TO", value_parser = years)]
    pub years_b: Option<(i64, i64)>,
    /// Months to compare, such as `JJA`, `6-11` or `1,2,3` [default: those that both runs have].
    #[arg(long, value_name = "MONTHS", value_parser = months)]
    pub months: Option<Months>,
    /// First month of a year: 7 keeps the southern season whole. Years are named after the calendar year of this month:
    /// 2001 is then July 2001 to June 2002.
    #[arg(long, value_name = "MONTH", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=12))]
    pub year_start: i64,
    /// Confidence level of the intervals; a change is significant if its adjusted p-value is below 1 minus this.
    #[arg(long, value_name = "SHARE", default_value_t = DrawOptions::default().confidence)]
    pub confidence: f64,
    /// Number of bootstrap draws, and of permutations; 100 to 1000000.
    #[arg(long, value_name = "N", default_value_t = DrawOptions::default().draws)]
    pub resamples: usize,
    /// Method that derives intervals from the draws.
    #[arg(long, value_enum, default_value_t = Ends::Percentile)]
    pub interval: Ends,
    /// What is drawn and permuted: years, members with all their years, or pairs of members.
    #[arg(long, value_enum, default_value_t = Drawn::Year, value_name = "UNIT")]
    pub unit: Drawn,
    /// Consecutive years to draw together, if years depend on those before. If this does not divide the number of
    /// years, blocks are shorter and as equal as possible.
    #[arg(long, value_name = "YEARS", default_value_t = 1)]
    pub block_years: usize,
    /// Random seed of all draws.
    #[arg(long, default_value_t = DrawOptions::default().seed)]
    pub seed: u64,
    /// Calendar of tables without a statistics.nc [default: that of masks beside them, else standard].
    #[arg(long, value_name = "NAME", value_parser = calendar)]
    pub calendar: Option<Calendar>,
    /// Compare even if the grids differ.
    #[arg(long)]
    pub any_grid: bool,
    /// Heading of the page.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Print all results as one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// How intervals follow from draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ends {
    /// Percentiles, widened for small samples.
    Percentile,
    /// Bias-corrected and accelerated; percentiles in maps.
    Bca,
}

/// What is resampled and permuted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Drawn {
    /// Years: members differ only in their weather.
    Year,
    /// Members: they differ in more than weather, as models do.
    Member,
    /// Pairs of members, the first of A with the first of B and so on: the same models on both sides.
    Pair,
}

impl Compare {
    /// Compares, writes, and reports the changes.
    pub fn run(self) -> anyhow::Result<()> {
        let comparison = match self.compare() {
            Err(error) if ranks::another_rank_works(&error) => {
                tracing::warn!("another rank compares into `{}`", self.out.display());
                return Ok(());
            }
            comparison => comparison?,
        };
        if self.json {
            return output::json(&comparison);
        }
        output::text(&comparison.headlines())?;
        tracing::info!("tables, maps and changes.html in {}", self.out.display());
        Ok(())
    }

    /// Compares and writes all files.
    pub fn compare(&self) -> anyhow::Result<Comparison> {
        // From here on signals set a flag.
        interrupt::flag();
        own_folder::check(&self.out, Holds::Changes)?;
        let options = self.options();
        let [a, b] = self.inputs([folders_of(&self.a)?, folders_of(&self.b)?])?;
        let title = match &self.title {
            Some(title) => title.clone(),
            None => format!("Extreme weather: {} against {}", b.label, a.label),
        };
        let folders = a.folders.iter().chain(&b.folders);
        let read = folders
            .map(|folder| table_bytes(folder))
            .sum::<anyhow::Result<u64>>()?;
        let work = compare::plan(a, b, &options).map_err(with_advice)?;
        self.announce(&work, read);
        let mut progress = Progress::new("compare", compare::Plan::STEPS);
        interrupt::check_whole()?;
        let _lock = FolderLock::take(&self.out)?;
        // Removes unfinished files of a killed call.
        atomic::sweep(&self.out, |name| FILES.contains(&name))?;
        let goes_on = || -> Result<(), ClimateError> { Ok(interrupt::check()?) };
        let found = work.run(options.draws, &goes_on, |step| {
            progress.set(step, String::new());
            goes_on()
        });
        progress.finish();
        // A signal ends the command with its own exit code, whatever error it caused above.
        interrupt::check_whole()?;
        let comparison = found?;
        self.write(&comparison, &title)?;
        Ok(comparison)
    }

    /// Converts the arguments to the library's options.
    fn options(&self) -> CompareOptions {
        CompareOptions {
            draws: DrawOptions {
                draws: self.resamples,
                confidence: self.confidence,
                seed: self.seed,
                method: match self.interval {
                    Ends::Percentile => IntervalMethod::Percentile,
                    Ends::Bca => IntervalMethod::Bca,
                },
            },
            months: self.months.clone().unwrap_or_default().0,
            year_start: self.year_start,
            unit: match self.unit {
                Drawn::Year => Unit::Year,
                Drawn::Member => Unit::Member,
                Drawn::Pair => Unit::Pair,
            },
            block_years: self.block_years,
            calendar: self.calendar,
            any_grid: self.any_grid,
        }
    }

    /// Logs what the comparison will take if `read` bytes of tables are read, and warns if it will have no intervals.
    fn announce(&self, work: &compare::Plan, read: u64) {
        Plan {
            work: work.words(),
            read,
            write: 3_000_000,
            // 20 bytes per draw and block.
            memory: 80_000_000 + self.resamples as u64 * (20 * work.blocks() as u64).max(6000),
            seconds: Some(seconds(read, self.resamples, work.blocks())),
        }
        .announce();
        if !work.has_intervals() {
            tracing::warn!(
                "there will be no intervals: a side has fewer than {MIN_BLOCKS} {}",
                match self.unit {
                    Drawn::Year => "blocks of whole years",
                    Drawn::Member | Drawn::Pair => "members",
                }
            );
        }
    }

    /// Writes the tables and the page.
    fn write(&self, comparison: &Comparison, title: &str) -> anyhow::Result<()> {
        let page = changes_page(comparison, title, &self.command())?;
        let path = self.out.join("changes.html");
        // Removes an older page first, so that after an interruption it is not next to newer tables.
        atomic::remove(&path)?;
        comparison.write(&self.out)?;
        atomic::write(path, page.as_bytes())?;
        Ok(())
    }

    /// Both sides, from these folders, with names that distinguish them; rejects equal names.
    fn inputs(&self, [of_a, of_b]: [Vec<PathBuf>; 2]) -> anyhow::Result<[SideInput; 2]> {
        let label =
            |given: &Option<String>, input: &Path, years: Option<(i64, i64)>, letter: &str| {
                if let Some(label) = given {
                    return label.clone();
                }
                match (own_name(&self.a) == own_name(&self.b), years) {
                    (false, _) => own_name(input),
                    (true, Some((from, to))) if self.years_a != self.years_b => {
                        // Texts are phrased from one side to the other: "from 1981-1999 to 2001-2023".
                        format!("{from}-{to}")
                    }
                    (true, _) => format!("{letter} ({})", input.display()),
                }
            };
        let sides = [
            SideInput {
                folders: of_a,
                label: label(&self.label_a, &self.a, self.years_a, "A"),
                years: self.years_a,
            },
            SideInput {
                folders: of_b,
                label: label(&self.label_b, &self.b, self.years_b, "B"),
                years: self.years_b,
            },
        ];
        if sides[0].label == sides[1].label {
            Err(Advice::usage(
                format!("both sides are called `{}`", sides[0].label),
                "give each a name of its own with --label-a and --label-b",
            ))
        } else {
            Ok(sides)
        }
    }

    /// The command that reproduces the result.
    fn command(&self) -> String {
        let years = |years: Option<(i64, i64)>| years.map(|(from, to)| format!("{from}-{to}"));
        let unit = match self.unit {
            Drawn::Year => None,
            Drawn::Member => Some("member"),
            Drawn::Pair => Some("pair"),
        };
        CommandLine::new("compare", [self.a.display(), self.b.display()])
            .with("--label-a", &self.label_a)
            .with("--label-b", &self.label_b)
            .with("--years-a", years(self.years_a))
            .with("--years-b", years(self.years_b))
            .with("--months", &self.months)
            .with("--year-start", [self.year_start])
            .with("--block-years", unit.is_none().then_some(self.block_years))
            .with("--unit", unit)
            .with("--confidence", [self.confidence])
            .with("--resamples", [self.resamples])
            .with("--seed", [self.seed])
            .with("--interval", (self.interval == Ends::Bca).then_some("bca"))
            .with("--calendar", self.calendar.map(Calendar::cf_name))
            .with_flag("--any-grid", self.any_grid)
            .with("--title", &self.title)
            .with("--out", [self.out.display()])
            .text()
    }
}

/// Estimated seconds for reading `read` bytes of tables and comparing them with this many draws of blocks of years:
/// each draw is a sum over the blocks, for every quantity and map cell.
fn seconds(read: u64, draws: usize, blocks: usize) -> f64 {
    read as f64 / 4e7 + 8e-6 * draws as f64 * blocks as f64
}

/// Adds a hint to the error if a side has too few months or years.
fn with_advice(error: ClimateError) -> anyhow::Error {
    match error {
        ClimateError::Period { ref reason, .. } => {
            let months = match reason.starts_with(NO_WHOLE_MONTH) {
                true => "",
                false => ", or --months for a season",
            };
            let hint = format!(
                "a comparison needs whole months of several years: `squall events` over the whole run{months}"
            );
            Advice::input(error.to_string(), hint)
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests;
