//! `squall trends`: yearly series of one run and their trends, with intervals and significance.

use crate::arguments::{Months, calendar, months, years};
use crate::command_line::CommandLine;
use crate::events_folder::{run_name, table_bytes};
use crate::failure::Advice;
use crate::own_folder::{self, Holds};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::{interrupt, output, ranks};
use clap::Args;
use squall_climate::ClimateError;
use squall_climate::compare::NO_WHOLE_MONTH;
use squall_climate::report::trends::trends_page;
use squall_climate::trends::{self, MIN_YEARS, TrendInput, TrendOptions};
use squall_data::archive::folders_of;
use squall_data::{Calendar, atomic};
use squall_jobs::lock::FolderLock;
use std::path::PathBuf;

/// The output files.
const FILES: [&str; 5] = [
    "yearly.csv",
    "trends.csv",
    "trends.json",
    "statements.txt",
    "trends.html",
];

/// Find trends within one run: yearly series of counts and intensity, and their slopes with confidence intervals and
/// significance.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  squall trends events --out trends\n  squall trends events --years 1980-2020 --months 6-11 --out trends"
)]
pub struct Trends {
    /// Output folder of `squall events`: of a historical run continued by a scenario, a reanalysis or best tracks; or a
    /// glob or list of folders as for `squall compare`. One run only: each ensemble member has its own trends.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Output folder for yearly.csv, trends.csv, trends.json, statements.txt and trends.html.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Name of the run [default: that of its folder, or of the parent folder if that is `events`].
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Years to use [default: all whole years].
    #[arg(long, value_name = "FROM-TO", value_parser = years)]
    pub years: Option<(i64, i64)>,
    /// Months to use, such as `JJA`, `6-11` or `1,2,3` [default: those that the run has].
    #[arg(long, value_name = "MONTHS", value_parser = months)]
    pub months: Option<Months>,
    /// First month of a year: 7 keeps the southern season whole. Years are named after the calendar year of this month:
    /// 2001 is then July 2001 to June 2002.
    #[arg(long, value_name = "MONTH", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=12))]
    pub year_start: i64,
    /// Confidence level of the intervals; a trend is significant if its adjusted p-value is below 1 minus this.
    #[arg(long, value_name = "SHARE", default_value_t = TrendOptions::default().confidence)]
    pub confidence: f64,
    /// Calendar of tables without a statistics.nc [default: that of masks beside them, else standard].
    #[arg(long, value_name = "NAME", value_parser = calendar)]
    pub calendar: Option<Calendar>,
    /// Heading of the page.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Print all results except the yearly values as one JSON document.
    #[arg(long)]
    pub json: bool,
}

impl Trends {
    /// Finds the trends, writes them, and reports what rises and falls.
    pub fn run(self) -> anyhow::Result<()> {
        let found = match self.find() {
            Err(error) if ranks::another_rank_works(&error) => {
                tracing::warn!("another rank writes into `{}`", self.out.display());
                return Ok(());
            }
            found => found?,
        };
        if self.json {
            return output::json(&found);
        }
        output::text(&found.headlines())?;
        tracing::info!("tables and trends.html in {}", self.out.display());
        Ok(())
    }

    /// Finds the trends and writes all files.
    pub fn find(&self) -> anyhow::Result<trends::Trends> {
        // From here on signals set a flag.
        interrupt::flag();
        own_folder::check(&self.out, Holds::Trends)?;
        let options = TrendOptions {
            months: self.months.clone().unwrap_or_default().0,
            year_start: self.year_start,
            confidence: self.confidence,
            calendar: self.calendar,
        };
        let (folder, label) = (self.folder()?, self.label());
        let read = table_bytes(&folder)?;
        let input = TrendInput {
            folder,
            label: label.clone(),
            years: self.years,
        };
        let work = trends::plan(input, &options).map_err(with_advice)?;
        let years = work.years();
        Plan {
            work: work.words(),
            read,
            write: 500_000 + 100_000 * years as u64,
            memory: 80_000_000 + 500_000 * years as u64,
            seconds: Some(read as f64 / 4e7 + 1e-4 * (years * years) as f64),
        }
        .announce();
        if years < MIN_YEARS {
            tracing::warn!(
                "there will be no trends: they need {MIN_YEARS} whole years, and there are {years}"
            );
        }
        let mut progress = Progress::new("trends", trends::Plan::STEPS);
        interrupt::check_whole()?;
        let _lock = FolderLock::take(&self.out)?;
        // Removes unfinished files of a killed call.
        atomic::sweep(&self.out, |name| FILES.contains(&name))?;
        let goes_on = || -> Result<(), ClimateError> { Ok(interrupt::check()?) };
        let found = work.run(&goes_on, |step| {
            progress.set(step, String::new());
            goes_on()
        });
        progress.finish();
        // Whatever ended it, nothing is kept.
        interrupt::check_whole()?;
        let found = found?;
        let title = match &self.title {
            Some(title) => title.clone(),
            None => format!("Trends of extreme weather: {label}"),
        };
        let page = trends_page(&found, &title, &self.command());
        // Removes an older page first, so that it is never next to newer tables.
        let path = self.out.join("trends.html");
        atomic::remove(&path)?;
        found.write(&self.out)?;
        atomic::write(path, page.as_bytes())?;
        Ok(found)
    }

    /// The folder of the run; rejects several.
    fn folder(&self) -> anyhow::Result<PathBuf> {
        match folders_of(&self.run)?.as_slice() {
            [only] => Ok(only.clone()),
            several => Err(Advice::usage(
                format!("`{}` names {} runs", self.run.display(), several.len()),
                "trends are of one run: call `squall trends` for each member of an ensemble",
            )),
        }
    }

    /// The name of the run.
    fn label(&self) -> String {
        self.label.clone().unwrap_or_else(|| run_name(&self.run))
    }

    /// The command that reproduces the result.
    fn command(&self) -> String {
        let years = self.years.map(|(from, to)| format!("{from}-{to}"));
        CommandLine::new("trends", [self.run.display()])
            .with("--label", &self.label)
            .with("--years", years)
            .with("--months", &self.months)
            .with("--year-start", [self.year_start])
            .with("--confidence", [self.confidence])
            .with("--calendar", self.calendar.map(Calendar::cf_name))
            .with("--title", &self.title)
            .with("--out", [self.out.display()])
            .text()
    }
}

/// Adds a hint to the error if a run has too few months or years.
fn with_advice(error: ClimateError) -> anyhow::Error {
    match error {
        ClimateError::Period { ref reason, .. } => {
            let months = match reason.starts_with(NO_WHOLE_MONTH) {
                true => "",
                false => ", or --months for a season",
            };
            let hint = format!(
                "trends need whole months of at least {MIN_YEARS} years: `squall events` over the whole run{months}"
            );
            Advice::input(error.to_string(), hint)
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parsed;

    #[test]
    fn a_run_is_called_by_its_folder_and_the_command_makes_the_same_page() {
        let call: Trends = parsed(["cesm/my run", "--out", "trends"]).unwrap();
        assert_eq!(call.label(), "my run");
        assert_eq!(
            call.command(),
            "squall trends 'cesm/my run' --year-start 1 --confidence 0.95 --out trends"
        );
        for (folder, label) in [
            ("cesm/present/events", "present"),
            ("present/events/", "present"),
            ("/runs/m*/events", "runs"),
            ("events", "events"),
            ("../events", "events"),
            ("events/present", "present"),
        ] {
            let call: Trends = parsed([folder, "--out", "trends"]).unwrap();
            assert_eq!(call.label(), label, "{folder}");
        }
        let words = [
            "run",
            "--out",
            "trends",
            "--label",
            "a model's",
            "--years",
            "1951-2100",
            "--months",
            "11-2",
            "--year-start",
            "7",
            "--confidence",
            "0.9",
            "--calendar",
            "365_day",
            "--title",
            "One run",
        ];
        let call: Trends = parsed(words).unwrap();
        assert_eq!(call.label(), "a model's");
        assert_eq!(
            call.command(),
            "squall trends run --label 'a model'\\''s' --years 1951-2100 --months 1,2,11,12 --year-start 7 \
             --confidence 0.9 --calendar noleap --title 'One run' --out trends"
        );
    }
}
