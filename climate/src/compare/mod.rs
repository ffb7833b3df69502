//! What changes between two runs or two periods, with honest uncertainty.
//!
//! Both sides are read once into sums by year ([`side::Side`]). Whole years are the units of chance: intervals come from
//! drawing years of both sides with replacement, p-values from dealing the years of both sides anew, and maps are
//! corrected for the number of their cells. The same draws serve every quantity and every cell ([`Design`]).
//!
//! # Not done
//! Trends inside a side, and persistence from year to year beyond blocks of years, are not modelled.

mod coverage;
mod design;
mod discovery;
mod files;
mod group;
mod levels;
mod maps;
mod maps_file;
mod normal;
mod quantity;
mod read;
mod return_level;
mod side;
mod statistic;
mod weights;
mod words;

pub use coverage::{Coverage, Selection, Years};
pub use design::{Change, Design, DrawOptions, Interval, IntervalMethod, MIN_BLOCKS, NoInterval};
pub use discovery::adjusted_p;
pub use group::{Group, SEASONS};
pub use levels::{Fit, RETURN_YEARS, ReturnLevels};
pub use maps::{MapChange, MapQuantity};
pub use quantity::{About, Kind, Quantity};
pub use return_level::{Gev, MIN_MAXIMA};
pub use side::{Side, SideOptions};
pub use statistic::Statistic;
pub use words::{months as words_of_months, statement};
pub(crate) use words::{of_level, trimmed};

use crate::error::{ClimateError, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
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
    /// Calendar of tables without `statistics.nc`.
    pub calendar: Calendar,
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
            calendar: Calendar::Standard,
            any_grid: false,
        }
    }
}

/// The change of one quantity in one basin or season.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeRow {
    /// What is compared.
    pub quantity: Quantity,
    /// Its word in tables.
    pub name: String,
    /// The class in tables.
    pub class: String,
    /// `all`, or the code of a basin.
    pub basin: String,
    /// `all`, or a season.
    pub season: String,
    /// The unit of a, b, difference and interval.
    pub unit: String,
    /// Numbers.
    #[serde(flatten)]
    pub change: Change,
    /// p adjusted for the rows of the same family: all rows of the whole, of basins, or of seasons.
    pub adjusted_p: Option<f64>,
    /// Whether the adjusted p is below 1 - confidence.
    pub significant: bool,
}

impl ChangeRow {
    /// Which part of the events it is about.
    pub fn group(&self) -> Group {
        let found = Group::all()
            .find(|group| group.columns() == (self.basin.as_str(), self.season.as_str()));
        found.unwrap_or(Group::All)
    }
}

/// What is said about a side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideSummary {
    /// What it is called.
    pub label: String,
    /// The folder.
    pub folder: PathBuf,
    /// Calendar of the data.
    pub calendar: String,
    /// Grid of the masks, if known.
    pub grid: Option<String>,
    /// Years that are compared.
    pub years: Vec<i64>,
    /// Years that are not, with the reason.
    pub left_out: Vec<(i64, String)>,
    /// Blocks of years that are drawn.
    pub blocks: usize,
}

/// How many cells of a map changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapSummary {
    /// What the map shows.
    pub name: String,
    /// The class in tables.
    pub class: String,
    /// Cells where a run has an event.
    pub tested: usize,
    /// Cells with a significant increase at the false discovery rate 1 - confidence.
    pub increases: usize,
    /// Cells with a significant decrease.
    pub decreases: usize,
}

/// Everything that a comparison found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The first run.
    pub a: SideSummary,
    /// The second run.
    pub b: SideSummary,
    /// How draws were made.
    pub draws: DrawOptions,
    /// Months that are compared.
    pub months: Vec<i64>,
    /// What a reader must know: years left out, months restricted, columns that are not there.
    pub notes: Vec<String>,
    /// Sentences, the most important first.
    pub statements: Vec<String>,
    /// All numbers.
    pub changes: Vec<ChangeRow>,
    /// Maps in numbers.
    pub maps: Vec<MapSummary>,
    /// Return levels.
    pub return_levels: Vec<ReturnLevels>,
    /// The maps themselves.
    #[serde(skip)]
    pub map_changes: Vec<MapChange>,
}

/// What is known before the tables are read: which months and years will be compared.
#[derive(Debug, Clone)]
pub struct Plan {
    sides: [(SideInput, Coverage, SideOptions); 2],
    notes: Vec<String>,
}

/// Finds which months and years of two runs can be compared.
///
/// # Errors
/// [`ClimateError::Mismatch`] if grids differ or there are no months in common, [`ClimateError::Period`] if a run lacks the
/// months asked for or has no whole year, [`ClimateError::Invalid`] for options without meaning, and what
/// [`Coverage::read`] gives.
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
    let days = coverage.each_ref().map(|c| c.calendar.mean_year_days());
    let year_days = (coverage[0].calendar != coverage[1].calendar).then_some(365.2425);
    if let (Some(common), false) = (year_days, days[0] == days[1]) {
        notes.push(format!(
            "The calendars are {} and {}: numbers by year are scaled to years of {common} days.",
            coverage[0].calendar, coverage[1].calendar
        ));
    }
    let [of_a, of_b] = coverage;
    let side = |input: SideInput, coverage: Coverage, notes: &mut Vec<String>| {
        let side_options = SideOptions {
            selection: selection.clone(),
            range: input.years,
            block_years: options.block_years,
            year_days,
        };
        check_years(&input, &coverage, &side_options, notes)?;
        Ok::<_, ClimateError>((input, coverage, side_options))
    };
    let sides = [side(a, of_a, &mut notes)?, side(b, of_b, &mut notes)?];
    let rates = sides.each_ref().map(|(_, c, _)| c.times_per_day);
    if sides.iter().all(|(_, c, _)| c.counted) && (rates[0] / rates[1] - 1.0).abs() > 0.02 {
        notes.push(format!(
            "There are {:.0} times a day against {:.0}: shorter steps find more short-lived tracks and higher extremes.",
            rates[0], rates[1]
        ));
    }
    Ok(Plan { sides, notes })
}

impl Plan {
    /// What is read, in words: folders, years, months.
    pub fn words(&self) -> String {
        let [a, b] = self.sides.each_ref().map(|(input, coverage, options)| {
            let years = coverage.years(&options.selection, options.range).used.len();
            format!("{years} years of {}", input.label)
        });
        format!(
            "compare {a} with {b}, {}",
            words::months(&self.sides[0].2.selection.months)
        )
    }

    /// Whether both sides have so many blocks of years that there will be intervals.
    pub fn has_intervals(&self) -> bool {
        self.sides.iter().all(|(_, coverage, options)| {
            let years = coverage.years(&options.selection, options.range).used.len();
            years.div_ceil(options.block_years) >= MIN_BLOCKS
        })
    }

    /// Reads both sides and compares them. `progress` is told how many of [`Plan::STEPS`] steps are done, and may stop the
    /// work with an error.
    ///
    /// # Errors
    /// As [`Side::read`], and what `progress` gives.
    pub fn run(
        self,
        draws: DrawOptions,
        mut progress: impl FnMut(usize) -> Result<()>,
    ) -> Result<Comparison> {
        let [
            (input_a, coverage_a, options_a),
            (input_b, coverage_b, options_b),
        ] = self.sides;
        let months = options_a.selection.months.clone();
        let whole_year = options_a.selection.whole_year();
        let a = Side::read(coverage_a, &options_a)?;
        progress(1)?;
        let b = Side::read(coverage_b, &options_b)?;
        progress(2)?;
        let design = Design::new((a.blocks(), b.blocks()), draws)?;
        let mut notes = self.notes;
        let changes = changes(&a, &b, &design, whole_year, &mut notes);
        progress(3)?;
        let map_changes = maps::map_changes(&a, &b, &design)?;
        if !map_changes
            .iter()
            .any(|m| m.quantity == MapQuantity::Frequency)
        {
            notes.push("There is no map of the change of frequency: a run's statistics.nc has no marked_cells; `squall events` of this version writes them.".into());
        }
        progress(4)?;
        let return_levels = levels::return_levels(&a, &b, &design);
        let rate = 1.0 - draws.confidence;
        let mut comparison = Comparison {
            a: summary(&input_a, &a),
            b: summary(&input_b, &b),
            draws,
            months,
            notes,
            statements: Vec::new(),
            changes,
            maps: map_changes
                .iter()
                .map(|map| map_summary(map, rate))
                .collect(),
            return_levels,
            map_changes,
        };
        comparison.statements = words::statements(&comparison);
        progress(Self::STEPS)?;
        Ok(comparison)
    }

    /// Steps that [`Plan::run`] tells.
    pub const STEPS: usize = 5;
}

fn check_grids(coverage: &[Coverage; 2], any_grid: bool, notes: &mut Vec<String>) -> Result<()> {
    let [Some(a), Some(b)] = coverage.each_ref().map(|c| c.grid.as_ref()) else {
        notes.push(
            "Without statistics.nc on both sides the grids are not known and taken to be the same."
                .into(),
        );
        return Ok(());
    };
    if a.hash() == b.hash() {
        return Ok(());
    }
    if any_grid {
        notes.push(format!(
            "The grids differ ({} against {}): part of every change may be the resolution's.",
            a.describe(),
            b.describe()
        ));
        return Ok(());
    }
    Err(ClimateError::Mismatch {
        what: format!("grid of `{}`", coverage[1].path.display()),
        expected: format!("{} as in `{}`", a.describe(), coverage[0].path.display()),
        found: b.describe(),
    })
}

/// The months that are compared: those asked for, or those that both runs have.
fn common_months(
    inputs: [&SideInput; 2],
    coverage: &[Coverage; 2],
    wanted: &[i64],
    notes: &mut Vec<String>,
) -> Result<Vec<i64>> {
    let seasons = coverage.each_ref().map(Coverage::seasons);
    for (input, found) in inputs.iter().zip(&seasons) {
        let lacking: Vec<i64> = wanted
            .iter()
            .copied()
            .filter(|m| !found.contains(m))
            .collect();
        if found.is_empty() || !lacking.is_empty() {
            let reason = if found.is_empty() {
                "no month of the year is whole; changes need whole months of several years"
                    .to_string()
            } else {
                format!(
                    "it has {}, not {}",
                    words::months(found),
                    words::months(&lacking)
                )
            };
            return Err(ClimateError::Period {
                path: input.folder.clone(),
                reason,
            });
        }
    }
    let mut months: Vec<i64> = match wanted {
        [] => seasons[0]
            .iter()
            .copied()
            .filter(|m| seasons[1].contains(m))
            .collect(),
        chosen => chosen.to_vec(),
    };
    months.sort_unstable();
    months.dedup();
    if months.is_empty() {
        return Err(ClimateError::Mismatch {
            what: format!("months of `{}`", inputs[1].folder.display()),
            expected: format!("some of {}", words::months(&seasons[0])),
            found: words::months(&seasons[1]),
        });
    }
    if wanted.is_empty() && seasons[0] != seasons[1] {
        notes.push(format!(
            "{} has {}, {} has {}: only {} are compared.",
            inputs[0].label,
            words::months(&seasons[0]),
            inputs[1].label,
            words::months(&seasons[1]),
            words::months(&months)
        ));
    }
    Ok(months)
}

/// Notes which years are not used; a side without any is refused.
fn check_years(
    input: &SideInput,
    coverage: &Coverage,
    options: &SideOptions,
    notes: &mut Vec<String>,
) -> Result<()> {
    let years = coverage.years(&options.selection, options.range);
    if years.used.is_empty() {
        let reason = match (&options.range, years.left_out.first()) {
            (_, Some((year, reason))) => format!("no year is whole; {year}: {reason}"),
            (Some((from, to)), None) => format!("it has no year from {from} to {to}"),
            (None, None) => "no year is whole".into(),
        };
        return Err(ClimateError::Period {
            path: input.folder.clone(),
            reason,
        });
    }
    if !years.left_out.is_empty() {
        let listed: Vec<String> = (years.left_out.iter().take(5))
            .map(|(year, reason)| format!("{year} ({reason})"))
            .collect();
        let more = years.left_out.len().saturating_sub(5);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        notes.push(format!(
            "Years of {} that are not whole are left out: {}{more}.",
            input.label,
            listed.join(", ")
        ));
    }
    if !coverage.counted {
        notes.push(format!(
            "{} has no statistics.nc: its analysed times are taken to run from the first to the last event ({}), and numbers by time are left out.",
            input.label, coverage.calendar
        ));
    }
    Ok(())
}

/// The changes of all quantities that both sides know, in all groups, with p adjusted family by family.
fn changes(
    a: &Side,
    b: &Side,
    design: &Design,
    whole_year: bool,
    notes: &mut Vec<String>,
) -> Vec<ChangeRow> {
    let known = |q: &Quantity| a.knows(*q) && b.knows(*q);
    let absent: Vec<String> = (Quantity::ALL.iter().filter(|q| !known(q)))
        .map(|q| format!("{} {}", q.about().class.name(), q.about().name))
        .collect();
    if !absent.is_empty() {
        notes.push(format!(
            "Left out, because a run's tables lack their columns or values: {}.",
            absent.join(", ")
        ));
    }
    let wanted: Vec<(Quantity, Group)> = (Quantity::ALL.into_iter().filter(known))
        .flat_map(|quantity| Group::all().map(move |group| (quantity, group)))
        // Parts of seasons would be called by the seasons' names.
        .filter(|(_, group)| whole_year || !matches!(group, Group::Season(_)))
        .collect();
    let mut rows: Vec<ChangeRow> = wanted
        .par_iter()
        .map(|&(quantity, group)| {
            let about = quantity.about();
            let (basin, season) = group.columns();
            let mut change =
                design.change(&a.statistic(quantity, group), &b.statistic(quantity, group));
            if !about.relative {
                (change.relative, change.relative_interval) = (None, None);
            }
            ChangeRow {
                quantity,
                name: about.name.into(),
                class: about.class.name().into(),
                basin: basin.into(),
                season: season.into(),
                unit: about.unit.into(),
                change,
                adjusted_p: None,
                significant: false,
            }
        })
        .collect();
    let family = |group: Group| match group {
        Group::All => 0,
        Group::Basin(_) => 1,
        Group::Season(_) => 2,
    };
    for wanted in 0..3 {
        let members: Vec<usize> = (0..rows.len())
            .filter(|&k| family(rows[k].group()) == wanted)
            .collect();
        let p: Vec<f64> = members
            .iter()
            .map(|&k| rows[k].change.p.unwrap_or(f64::NAN))
            .collect();
        for (&k, adjusted) in members.iter().zip(adjusted_p(&p)) {
            rows[k].adjusted_p = (!adjusted.is_nan()).then_some(adjusted);
            rows[k].significant = adjusted < 1.0 - design.options().confidence;
        }
    }
    rows
}

fn summary(input: &SideInput, side: &Side) -> SideSummary {
    SideSummary {
        label: input.label.clone(),
        folder: input.folder.clone(),
        calendar: side.coverage.calendar.cf_name().into(),
        grid: side.coverage.grid.as_ref().map(|grid| grid.describe()),
        years: side.years.used.clone(),
        left_out: side.years.left_out.clone(),
        blocks: side.blocks(),
    }
}

fn map_summary(map: &MapChange, rate: f64) -> MapSummary {
    let significant = || {
        map.significant(rate)
            .zip(&map.difference)
            .filter(|(yes, _)| *yes)
    };
    MapSummary {
        name: map.quantity.name().into(),
        class: map.class.name().into(),
        tested: map.tested(),
        increases: significant().filter(|(_, d)| **d > 0.0).count(),
        decreases: significant().filter(|(_, d)| **d < 0.0).count(),
    }
}
