//! Changes between two runs or two periods, with confidence intervals and significance tests.
//!
//! Every run of both sides is read once into annual sums ([`side::Side`]); a side is one run, or the members of an
//! ensemble. The unit of resampling is the year ([`Unit`] has alternatives). Intervals come from a bootstrap, which
//! draws years of each side with replacement. p-values come from a permutation test, which randomly reassigns the years
//! of both sides. Maps are corrected for their number of cells by the false discovery rate. All quantities and cells
//! use the same resamples ([`Design`]).
//!
//! # Not done
//! Trends within a side (see [`crate::trends`] for those of one run), and persistence between years beyond blocks of
//! years, are not modelled.

mod changes;
mod comparable;
mod comparison;
mod coverage;
mod design;
mod discovery;
mod distribution;
pub(crate) mod files;
mod group;
mod levels;
mod maps;
mod maps_file;
mod mask_size;
mod moisture;
mod names;
mod normal;
pub(crate) mod period;
mod posterior;
mod quantity;
mod reach;
mod read;
mod return_level;
mod side;
pub(crate) mod silence;
mod statistic;
mod unequal;
mod unit;
mod weights;
mod withheld;
pub(crate) mod words;

pub use comparable::ADAPTED;
pub use comparison::{ChangeRow, Comparison, MapSummary, SideSummary};
pub use coverage::{Coverage, Selection, Years};
pub use design::{
    Change, DRAWS, Design, DrawOptions, Interval, IntervalMethod, MIN_BLOCKS, NoInterval,
};
pub use discovery::adjusted_p;
pub(crate) use discovery::{adjusted_by_family, false_rate};
pub use distribution::{Bin, Distribution};
pub use group::{Group, Region, SEASONS};
pub(crate) use levels::spoken_unit;
pub use levels::{Fit, RETURN_YEARS, ReturnLevels};
pub use maps::{MapChange, MapQuantity};
pub(crate) use mask_size::note_of_run;
pub(crate) use names::{grouped, listed};
pub(crate) use normal::normal_quantile;
pub use normal::{normal_cdf, student_limit};
pub use period::NO_WHOLE_MONTH;
pub use quantity::{Extreme, Kind, Quantity, QuantityInfo};
pub use return_level::{Gev, MIN_MAXIMA};
pub use side::{Side, SideOptions};
pub(crate) use side::{is_of_values, needs_values, sum_of_years, unequal_shares};
pub use statistic::Statistic;
pub(crate) use unequal::{
    NO_LIFETIME, bias_of_valueless, fate_of_valueless, quantity_names, shares_in_words,
};
pub use unit::Unit;
pub(crate) use withheld::{FOLLOWS_CELLS, follows_cells, missing_cells};
pub use words::statement;
pub(crate) use words::{
    SPOKEN_LEVEL, capital, each_year, in_percent, month_name, months as words_of_months,
    note_untested, of_level, trimmed, unit_of, untested,
};

use crate::error::{ClimateError, Result};
use changes::{Compared, changes};
use comparable::{
    check_disjoint, check_grids, check_members, check_years, common_calendar, common_months,
    note_rules, note_steps, share_wind,
};
use comparison::{map_summary, summary};
use names::Names;
use period::note_year;
use side::{Ensemble, shared_transport};
use squall_data::Calendar;
use std::path::PathBuf;
use unequal::{lacking, note_classes, note_continued, note_pieces, note_unknown_years, withhold};
use withheld::{withhold_landfalls, withhold_where_missing};

/// One run, or the members of an ensemble, and the range of years to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideInput {
    /// Folders written by `squall events`, one per run.
    pub folders: Vec<PathBuf>,
    /// Its label.
    pub label: String,
    /// First and last year; `None` for all.
    pub years: Option<(i64, i64)>,
}

/// Settings of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareOptions {
    /// Settings of bootstrap and permutation test.
    pub draws: DrawOptions,
    /// Months, 1 to 12; if empty, those that all runs have.
    pub months: Vec<i64>,
    /// The first month of a year.
    pub year_start: i64,
    /// The unit of resampling.
    pub unit: Unit,
    /// Number of consecutive years of a run that are resampled together, if the unit is the year.
    pub block_years: usize,
    /// Calendar of tables without `statistics.nc`. The default is the calendar of files in the same folder
    /// ([`crate::table::calendar_beside`]), otherwise the standard calendar.
    pub calendar: Option<Calendar>,
    /// Compare even if the grids differ.
    pub any_grid: bool,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            draws: DrawOptions::default(),
            months: Vec::new(),
            year_start: 1,
            unit: Unit::Year,
            block_years: 1,
            calendar: None,
            any_grid: false,
        }
    }
}

/// A comparison before its tables are read: the months and years to compare.
#[derive(Debug, Clone)]
pub struct Plan {
    sides: [PlannedSide; 2],
    names: Names,
    unit: Unit,
    notes: Vec<String>,
}

/// A side with the coverage of its runs and the months and years to compare.
#[derive(Debug, Clone)]
struct PlannedSide {
    input: SideInput,
    /// The coverage of each folder.
    members: Vec<Coverage>,
    options: SideOptions,
}

impl PlannedSide {
    fn years(&self, run: &Coverage) -> Years {
        run.years(&self.options.selection, self.options.range)
    }

    /// Number of used years of each run.
    fn used(&self) -> Vec<usize> {
        let runs = self.members.iter();
        runs.map(|run| self.years(run).used.len()).collect()
    }

    /// Number of blocks to resample.
    fn blocks(&self) -> usize {
        let of_run = |years: usize| years.div_ceil(self.options.block_years);
        self.used().into_iter().map(of_run).sum()
    }
}

/// Rejects invalid options.
fn check_options(options: &CompareOptions) -> Result<()> {
    let valid = |month: &i64| (1..=12).contains(month);
    if !valid(&options.year_start) || !options.months.iter().all(valid) || options.block_years == 0
    {
        return Err(ClimateError::Invalid(format!(
            "expected months from 1 to 12 and blocks of at least one year, found months {:?}, years from month {}, blocks of {}",
            options.months, options.year_start, options.block_years
        )));
    }
    if !options.unit.is_year() && options.block_years != 1 {
        return Err(ClimateError::Invalid(format!(
            "blocks of {} years: where {} are drawn a block is all years of a run",
            options.block_years,
            options.unit.plural()
        )));
    }
    // Fails on invalid draw options before a century is read.
    Design::new((0, 0), options.draws)?;
    Ok(())
}

/// Determines the months and years of two sides that can be compared.
///
/// # Errors
/// [`ClimateError::GridsDiffer`]; [`ClimateError::NoCommonMonths`]; [`ClimateError::Period`] if a run lacks requested
/// months or has no whole year; [`ClimateError::SharedYears`] if both sides contain a year of the same folder;
/// [`ClimateError::MemberTwice`]; [`ClimateError::Mismatch`] if pairs need equally many runs on both sides;
/// [`ClimateError::Invalid`] for invalid options; errors of [`Coverage::read`].
pub fn plan(a: SideInput, b: SideInput, options: &CompareOptions) -> Result<Plan> {
    check_options(options)?;
    let names = Names::of([&a, &b]);
    check_members([&a.folders, &b.folders], &names, options.unit)?;
    let read = |input: &SideInput| -> Result<Vec<Coverage>> {
        let folders = input.folders.iter();
        folders
            .map(|folder| Coverage::read(folder, options.calendar))
            .collect()
    };
    let members = [read(&a)?, read(&b)?];
    let runs: Vec<&Coverage> = members.iter().flatten().collect();
    let mut notes = Vec::new();
    check_grids(&runs, &names, options.any_grid, &mut notes)?;
    let months = common_months(&runs, &names, &options.months, &mut notes)?;
    let selection = Selection {
        months,
        year_start: options.year_start,
    };
    note_year(&selection, &mut notes);
    let side_options = SideOptions {
        selection,
        range: None,
        block_years: match options.unit {
            Unit::Year => options.block_years,
            // All years of a run form one block.
            Unit::Member | Unit::Pair => usize::MAX,
        },
        calendar: common_calendar(&runs, &names, &mut notes),
        transport: shared_transport(&runs, &names, &mut notes)?,
        wind: share_wind(&runs, &names, &mut notes),
    };
    note_rules(&runs, &names, &mut notes);
    let side = |input: SideInput, members: Vec<Coverage>| PlannedSide {
        options: SideOptions {
            range: input.years,
            ..side_options.clone()
        },
        input,
        members,
    };
    let [of_a, of_b] = members;
    let sides = [side(a, of_a), side(b, of_b)];
    check_years(&sides[0], 0, &names, &mut notes)?;
    let before = sides[0].members.len();
    check_years(&sides[1], before, &names, &mut notes)?;
    check_disjoint(&sides)?;
    let runs: Vec<&Coverage> = sides.iter().flat_map(|side| &side.members).collect();
    note_steps(&runs, &names, &mut notes);
    let used = sides.each_ref().map(PlannedSide::used);
    if let Some(note) = options.unit.note(&names, used) {
        notes.insert(0, note);
    }
    Ok(Plan {
        sides,
        names,
        unit: options.unit,
        notes,
    })
}

/// The reason for the missing map of frequency.
fn without_frequency(names: &Names, sides: [&Ensemble; 2]) -> String {
    let without = lacking(sides, |run| run.coverage.counted);
    let who = names.format_runs(&without);
    let why = match without.len() {
        0 => "a run's statistics.nc has no marked_cells; `squall events` of this version writes them of masks".to_string(),
        1 => format!("{who} has no statistics.nc, which `squall events` writes of masks"),
        _ => format!("{who} have no statistics.nc, which `squall events` writes of masks"),
    };
    format!("There is no map of the change of frequency: {why}.")
}

/// A callback, called from any thread at intervals; its error cancels the work.
type CancelCheck<'a> = &'a (dyn Fn() -> Result<()> + Sync);

impl Plan {
    /// A description of the planned comparison: years, sides, months.
    pub fn words(&self) -> String {
        let [a, b] = self.sides.each_ref().map(|side| {
            let years: usize = side.used().iter().sum();
            let ending = if years == 1 { "" } else { "s" };
            let members = match side.members.len() {
                1 => String::new(),
                members => format!("{members} members of "),
            };
            format!("{years} year{ending} of {members}{}", side.input.label)
        });
        format!(
            "compare {a} with {b}, {}",
            words::months(&self.sides[0].options.selection.months)
        )
    }

    /// Number of blocks of both sides that are resampled.
    pub fn blocks(&self) -> usize {
        self.sides.iter().map(PlannedSide::blocks).sum()
    }

    /// Whether both sides have enough blocks for intervals.
    pub fn has_intervals(&self) -> bool {
        self.sides.iter().all(|side| side.blocks() >= MIN_BLOCKS)
    }

    /// Reads both sides and compares them. `progress` receives the number of finished steps, of [`Plan::STEPS`], and
    /// can cancel the work with an error. So can `check_cancelled`, which is called from any thread before every run, number
    /// and map cell.
    ///
    /// # Errors
    /// Errors of [`Side::read`], `check_cancelled` and `progress`.
    pub fn run(
        self,
        draws: DrawOptions,
        check_cancelled: &(dyn Fn() -> Result<()> + Sync),
        mut progress: impl FnMut(usize) -> Result<()>,
    ) -> Result<Comparison> {
        let (names, unit) = (&self.names, self.unit);
        let [of_a, of_b] = self.sides;
        let a = Ensemble::read(of_a.members, &of_a.options, check_cancelled)?;
        progress(1)?;
        let b = Ensemble::read(of_b.members, &of_b.options, check_cancelled)?;
        progress(2)?;
        let sides = [&a, &b];
        // Both sides have the same selection.
        let selection = of_a.options.selection;
        let blocks = (a.blocks(), b.blocks());
        let design = match unit {
            Unit::Pair => Design::of_pairs(a.blocks(), draws)?,
            Unit::Year | Unit::Member => Design::new(blocks, draws)?,
        };
        let mut notes = self.notes;
        note_classes(names, sides, &mut notes);
        note_unknown_years(names, sides, &mut notes);
        note_continued(names, sides, &mut notes);
        note_pieces(names, sides, &mut notes);
        let compared = Compared {
            names,
            sides,
            design: &design,
            whole_year: selection.whole_year(),
        };
        let mut changes = changes(&compared, check_cancelled, &mut notes)?;
        withhold(names, sides, &mut changes, &mut notes);
        withhold_landfalls(names, sides, &mut changes, &mut notes);
        withhold_where_missing(names, sides, &mut changes, &mut notes);
        notes.extend(mask_size::note(names, sides, &changes));
        notes.extend(moisture::note(names, sides, &changes));
        progress(3)?;
        let map_changes = maps::map_changes(&a, &b, &design, check_cancelled)?;
        if !map_changes
            .iter()
            .any(|m| m.quantity == MapQuantity::Frequency)
        {
            notes.push(without_frequency(names, sides));
        }
        progress(4)?;
        let return_levels = levels::return_levels(&a, &b, &design);
        let distributions = distribution::distributions(names, sides, &design, &mut notes);
        let rate = false_rate(draws.confidence);
        let map_summaries: Vec<MapSummary> = map_changes
            .iter()
            .map(|map| map_summary(map, rate))
            .collect();
        notes.extend(reach::note(unit, blocks, &draws, &changes, &map_summaries));
        // Levels of single years do not use percentiles of resamples.
        let has_drawn_levels = !return_levels.is_empty() && of_a.options.block_years > 1;
        notes.extend(reach::note_ends(&design, has_drawn_levels));
        let [names_a, names_b] = names.members();
        let mut comparison = Comparison {
            a: summary(&of_a.input, names_a, &a),
            b: summary(&of_b.input, names_b, &b),
            draws,
            months: selection.months,
            year_start: selection.year_start,
            unit,
            notes,
            statements: Vec::new(),
            changes,
            maps: map_summaries,
            return_levels,
            distributions,
            map_changes,
        };
        // The first of the notes, because the sentences leave it out.
        if let Some(note) = note_untested(&comparison) {
            comparison.notes.insert(0, note);
        }
        comparison.statements = words::statements(&comparison);
        progress(Self::STEPS)?;
        Ok(comparison)
    }

    /// Number of steps that [`Plan::run`] reports.
    pub const STEPS: usize = 5;
}
