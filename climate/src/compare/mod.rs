//! What changes between two runs or two periods, with honest uncertainty.
//!
//! Both sides are read once into sums by year ([`side::Side`]). Whole years are the units of chance: intervals come
//! from drawing years of both sides with replacement, p-values from dealing the years of both sides anew, and maps are
//! corrected for the number of their cells. The same draws serve every quantity and every cell ([`Design`]).
//!
//! # Not done
//! Trends inside a side, and persistence from year to year beyond blocks of years, are not modelled.

mod changes;
mod comparable;
mod comparison;
mod coverage;
mod design;
mod discovery;
mod distribution;
mod files;
mod group;
mod levels;
mod maps;
mod maps_file;
mod normal;
mod quantity;
mod reach;
mod read;
mod return_level;
mod side;
mod statistic;
mod weights;
mod words;

pub use comparison::{ChangeRow, Comparison, MapSummary, SideSummary};
pub use coverage::{Coverage, Selection, Years};
pub use design::{Change, Design, DrawOptions, Interval, IntervalMethod, MIN_BLOCKS, NoInterval};
pub use discovery::adjusted_p;
pub use distribution::{Bin, Distribution};
pub use group::{Group, Region, SEASONS};
pub(crate) use levels::spoken_unit;
pub use levels::{Fit, RETURN_YEARS, ReturnLevels};
pub use maps::{MapChange, MapQuantity};
pub use normal::student_limit;
pub use quantity::{About, Kind, Quantity};
pub use return_level::{Gev, MIN_MAXIMA};
pub use side::{Side, SideOptions};
pub use statistic::Statistic;
pub use words::statement;
pub(crate) use words::{
    SPOKEN_LEVEL, capital, month_name, months as words_of_months, of_level, trimmed,
};

use crate::error::{ClimateError, Result};
use changes::changes;
use comparable::{
    check_apart, check_grids, check_years, common_months, note_classes, note_continued, note_rules,
    note_unknown_years, note_year, share_wind,
};
use comparison::{map_summary, summary};
use side::shared_transport;
use squall_data::Calendar;
use std::path::PathBuf;

/// One run and which of its years are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideInput {
    /// Folder that `squall events` wrote.
    pub folder: PathBuf,
    /// What it is called.
    pub label: String,
    /// First and last year, if not all.
    pub years: Option<(i64, i64)>,
}

/// How two runs are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareOptions {
    /// Bootstrap and test.
    pub draws: DrawOptions,
    /// Months, 1 to 12; those that both runs have if empty.
    pub months: Vec<i64>,
    /// The month that years begin with.
    pub year_start: i64,
    /// Consecutive years that are drawn together.
    pub block_years: usize,
    /// Calendar of tables without `statistics.nc`; by default that of what lies beside them
    /// ([`crate::table::calendar_beside`]), else the standard one.
    pub calendar: Option<Calendar>,
    /// Go on although the grids differ.
    pub any_grid: bool,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            draws: DrawOptions::default(),
            months: Vec::new(),
            year_start: 1,
            block_years: 1,
            calendar: None,
            any_grid: false,
        }
    }
}

/// What is known before the tables are read: which months and years will be compared.
#[derive(Debug, Clone)]
pub struct Plan {
    sides: [PlannedSide; 2],
    notes: Vec<String>,
}

/// A run of which it is known when it was analysed and which of its months and years will be compared.
#[derive(Debug, Clone)]
struct PlannedSide {
    input: SideInput,
    coverage: Coverage,
    options: SideOptions,
}

impl PlannedSide {
    fn years(&self) -> Years {
        let options = &self.options;
        self.coverage.years(&options.selection, options.range)
    }
}

/// Finds which months and years of two runs can be compared.
///
/// # Errors
/// [`ClimateError::GridsDiffer`], [`ClimateError::NoCommonMonths`], [`ClimateError::Period`] if a run lacks the months
/// asked for or has no whole year, [`ClimateError::SharedYears`] if both sides have a year of one folder,
/// [`ClimateError::Invalid`] for options without meaning, and what [`Coverage::read`] gives.
pub fn plan(a: SideInput, b: SideInput, options: &CompareOptions) -> Result<Plan> {
    let valid = |month: &i64| (1..=12).contains(month);
    if !valid(&options.year_start) || !options.months.iter().all(valid) || options.block_years == 0
    {
        return Err(ClimateError::Invalid(format!(
            "expected months from 1 to 12 and blocks of at least one year, found months {:?}, years from month {}, blocks of {}",
            options.months, options.year_start, options.block_years
        )));
    }
    // Wrong numbers of draws must not be found after a century was read.
    Design::new((0, 0), options.draws)?;
    let coverage = [
        Coverage::read(&a.folder, options.calendar)?,
        Coverage::read(&b.folder, options.calendar)?,
    ];
    let mut notes = Vec::new();
    check_grids(&coverage, options.any_grid, &mut notes)?;
    let months = common_months([&a, &b], &coverage, &options.months, &mut notes)?;
    let selection = Selection {
        months,
        year_start: options.year_start,
    };
    note_year(&selection, &mut notes);
    let days = coverage.each_ref().map(|c| c.calendar.mean_year_days());
    let year_days = (coverage[0].calendar != coverage[1].calendar).then_some(365.2425);
    if let (Some(common), false) = (year_days, days[0] == days[1]) {
        notes.push(format!(
            "The calendars are {} and {}: numbers by year are scaled to years of {common} days.",
            coverage[0].calendar, coverage[1].calendar
        ));
    }
    let transport = shared_transport([&a, &b], &mut notes)?;
    let wind = share_wind([&a, &b], &coverage, &mut notes);
    note_rules([&a, &b], &coverage, &mut notes);
    let [of_a, of_b] = coverage;
    let side = |input: SideInput, coverage: Coverage, notes: &mut Vec<String>| {
        let options = SideOptions {
            selection: selection.clone(),
            range: input.years,
            block_years: options.block_years,
            year_days,
            transport,
            wind,
        };
        let side = PlannedSide {
            input,
            coverage,
            options,
        };
        check_years(&side, notes)?;
        Ok::<_, ClimateError>(side)
    };
    let sides = [side(a, of_a, &mut notes)?, side(b, of_b, &mut notes)?];
    check_apart(&sides)?;
    let rates = sides.each_ref().map(|side| side.coverage.times_per_day);
    let counted = sides.iter().all(|side| side.coverage.counted);
    if counted && (rates[0] / rates[1] - 1.0).abs() > 0.02 {
        notes.push(format!(
            "There are {:.0} times a day against {:.0}: shorter steps find more short-lived tracks and higher extremes.",
            rates[0], rates[1]
        ));
    }
    Ok(Plan { sides, notes })
}

/// Why there is no map of frequency.
fn without_frequency(labels: [&str; 2], sides: [&Side; 2]) -> String {
    let without: Vec<&str> = (labels.into_iter().zip(sides))
        .filter(|(_, side)| !side.coverage.counted)
        .map(|(label, _)| label)
        .collect();
    let why = match &without[..] {
        [] => "a run's statistics.nc has no marked_cells; `squall events` of this version writes them of masks".to_string(),
        [one] => format!("{one} has no statistics.nc, which `squall events` writes of masks"),
        _ => format!("{} have no statistics.nc, which `squall events` writes of masks", without.join(" and ")),
    };
    format!("There is no map of the change of frequency: {why}.")
}

/// Asked now and then from any thread: an error ends the work.
type GoesOn<'a> = &'a (dyn Fn() -> Result<()> + Sync);

impl Plan {
    /// What is read, in words: folders, years, months.
    pub fn words(&self) -> String {
        let [a, b] = self.sides.each_ref().map(|side| {
            let years = side.years().used.len();
            let ending = if years == 1 { "" } else { "s" };
            format!("{years} year{ending} of {}", side.input.label)
        });
        format!(
            "compare {a} with {b}, {}",
            words::months(&self.sides[0].options.selection.months)
        )
    }

    /// Whether both sides have so many blocks of years that there will be intervals.
    pub fn has_intervals(&self) -> bool {
        self.sides.iter().all(|side| {
            let years = side.years().used.len();
            years.div_ceil(side.options.block_years) >= MIN_BLOCKS
        })
    }

    /// Reads both sides and compares them. `progress` is told how many of [`Plan::STEPS`] steps are done, and may stop
    /// the work with an error. So may `goes_on` inside of a step: it is asked before every number and every cell of a
    /// map, from any thread.
    ///
    /// # Errors
    /// As [`Side::read`], and what `goes_on` and `progress` give.
    pub fn run(
        self,
        draws: DrawOptions,
        goes_on: &(dyn Fn() -> Result<()> + Sync),
        mut progress: impl FnMut(usize) -> Result<()>,
    ) -> Result<Comparison> {
        let [of_a, of_b] = self.sides;
        let a = Side::read(of_a.coverage, &of_a.options)?;
        progress(1)?;
        let b = Side::read(of_b.coverage, &of_b.options)?;
        progress(2)?;
        // That of the other run is the same.
        let selection = of_a.options.selection;
        let design = Design::new((a.blocks(), b.blocks()), draws)?;
        let mut notes = self.notes;
        let labels = [of_a.input.label.as_str(), of_b.input.label.as_str()];
        note_classes(labels, [&a, &b], &mut notes);
        note_unknown_years(labels, [&a, &b], &mut notes);
        note_continued(labels, [&a, &b], &mut notes);
        let whole_year = selection.whole_year();
        let changes = changes(labels, [&a, &b], (&design, goes_on), whole_year, &mut notes)?;
        progress(3)?;
        let map_changes = maps::map_changes(&a, &b, &design, goes_on)?;
        if !map_changes
            .iter()
            .any(|m| m.quantity == MapQuantity::Frequency)
        {
            notes.push(without_frequency(labels, [&a, &b]));
        }
        progress(4)?;
        let return_levels = levels::return_levels(&a, &b, &design);
        let distributions = distribution::distributions(&a, &b, &design);
        let rate = 1.0 - draws.confidence;
        let map_summaries: Vec<MapSummary> = map_changes
            .iter()
            .map(|map| map_summary(map, rate))
            .collect();
        let blocks = (a.blocks(), b.blocks());
        notes.extend(reach::note(blocks, &draws, &changes, &map_summaries));
        let mut comparison = Comparison {
            a: summary(&of_a.input, &a),
            b: summary(&of_b.input, &b),
            draws,
            months: selection.months,
            year_start: selection.year_start,
            notes,
            statements: Vec::new(),
            changes,
            maps: map_summaries,
            return_levels,
            distributions,
            map_changes,
        };
        comparison.statements = words::statements(&comparison);
        progress(Self::STEPS)?;
        Ok(comparison)
    }

    /// Steps that [`Plan::run`] tells.
    pub const STEPS: usize = 5;
}
