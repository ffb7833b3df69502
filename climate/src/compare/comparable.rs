//! Checks before tables are read: whether runs can be compared, and how they differ in more than climate (grid,
//! calendar, time step, winds, rules, months and years).
//!
//! All runs are checked together: what both sides must have in common, the members of a side must have in common, too.

use super::names::{Names, grouped, listed};
use super::period::{self, months_of, years_of};
use super::{Coverage, PlannedSide, Unit, words};
use crate::error::{ClimateError, Result};
use squall_data::Calendar;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The calendar to whose month lengths annual numbers are scaled if calendars differ.
const COMMON_CALENDAR: Calendar = Calendar::ProlepticGregorian;

/// Maximum number of values listed individually.
const MAX_LISTED: usize = 5;

/// The marker in a mask threshold that was adapted to the grid. It separates the value at a quarter of a degree from
/// the factor, as in `271.8 (400.0 at a quarter of a degree, times 0.6794)`.
pub const ADAPTED: &str = " at a quarter of a degree";

/// Whether mask thresholds were adapted to the grid, and to which grid. Statistics of earlier versions lack the second
/// rule; their thresholds are those at a quarter of a degree.
const ADAPTS: &str = "masks.adapt_to_grid";
const ADAPTED_TO: &str = "masks.adapted_to_spacing_km";

/// Mask rules that statistics of earlier versions lack or store differently.
const ADDED_LATER: [&str; 7] = [
    ADAPTED_TO,
    "masks.warm_core",
    "masks.ensemble",
    "masks.moisture_transport",
    "masks.members",
    "masks.member_count",
    "masks.seed",
];

/// The value of a mask threshold at a quarter of a degree, whether adapted or not.
fn at_quarter_degree(value: &str) -> &str {
    let published = value.split_once(ADAPTED);
    let published = published.and_then(|(prefix, _)| prefix.split_once('('));
    published.map_or(value, |(_, published)| published)
}

/// The rule that names the climate of the percentiles of rivers.
const CLIMATE: &str = "masks.percentile_climatology";

/// The canonical path of a folder.
fn canonical(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.into())
}

/// Checks that no side contains a folder twice, since its years would count twice, and that pairs have equally many
/// runs on both sides.
pub(super) fn check_members(folders: [&[PathBuf]; 2], names: &Names, unit: Unit) -> Result<()> {
    let labels = names.labels();
    for (own, label) in folders.iter().zip(labels) {
        if own.is_empty() {
            return Err(ClimateError::Invalid(format!("{label} has no run")));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = own.iter().find(|folder| !seen.insert(canonical(folder))) {
            return Err(ClimateError::MemberTwice {
                path: twice.clone(),
                side: label.into(),
            });
        }
    }
    let [a, b] = folders.map(<[_]>::len);
    if unit == Unit::Pair && a != b {
        return Err(ClimateError::Mismatch {
            what: format!(
                "members of {}, each of which has one of {}",
                labels[1], labels[0]
            ),
            expected: a.to_string(),
            found: b.to_string(),
        });
    }
    Ok(())
}

/// Checks that grids are equal. If `any_grid` is set, different grids only add a note.
pub(super) fn check_grids(
    runs: &[&Coverage],
    names: &Names,
    any_grid: bool,
    notes: &mut Vec<String>,
) -> Result<()> {
    let grids = (runs.iter().enumerate()).filter_map(|(run, c)| Some((run, c.grid.as_ref()?)));
    let groups = grouped(grids, |a, b| a.same_as(b));
    if runs.iter().any(|run| run.grid.is_none()) {
        notes.push(format!(
            "Without statistics.nc {} the grids are unknown and assumed to be the same.",
            names.everywhere()
        ));
    }
    let [(first, of_first), (other, of_other), ..] = &groups[..] else {
        return Ok(());
    };
    if any_grid {
        let described: Vec<(String, Vec<usize>)> = (groups.iter())
            .map(|(grid, runs)| (grid.describe(), runs.clone()))
            .collect();
        notes.push(format!(
            "The grids differ ({}): part of every change may be the resolution's.",
            names.each(&described).join(" against ")
        ));
        return Ok(());
    }
    let [expected, found] = first.describe_beside(other);
    Err(ClimateError::GridsDiffer {
        path: runs[of_other[0]].path.clone(),
        expected,
        other: runs[of_first[0]].path.clone(),
        found,
    })
}

/// The calendar to whose month lengths annual numbers are scaled if calendars differ. Adds a note if the lengths of
/// years differ.
pub(super) fn common_calendar(
    runs: &[&Coverage],
    names: &Names,
    notes: &mut Vec<String>,
) -> Option<Calendar> {
    let calendars = runs.iter().map(|run| run.calendar);
    let groups = grouped(calendars.enumerate(), |a, b| a == b);
    if groups.len() < 2 {
        return None;
    }
    let lengths = groups.iter().map(|(calendar, _)| calendar.mean_year_days());
    if grouped(lengths.enumerate(), |a, b| a == b).len() > 1 {
        notes.push(format!(
            "The calendars are {}: numbers by year are scaled to the lengths of Gregorian months (February has 28.2425 days).",
            listed(&names.each(&groups))
        ));
    }
    Some(COMMON_CALENDAR)
}

/// Notes different numbers of times per day, if known for all runs.
pub(super) fn note_steps(runs: &[&Coverage], names: &Names, notes: &mut Vec<String>) {
    if runs.iter().any(|run| !run.counted) {
        return;
    }
    let rates = runs.iter().map(|run| run.times_per_day).enumerate();
    let groups = grouped(rates, |known, rate| (known / rate - 1.0).abs() <= 0.02);
    if groups.len() < 2 {
        return;
    }
    let mut unit = " times a day";
    let rates: Vec<(String, Vec<usize>)> = (groups.into_iter())
        .map(|(rate, runs)| {
            // With steps of several days, a fraction of one.
            let rate = if rate < 1.0 {
                words::trimmed(rate)
            } else {
                format!("{rate:.0}")
            };
            (format!("{rate}{}", std::mem::take(&mut unit)), runs)
        })
        .collect();
    notes.push(format!(
        "There are {}: shorter steps find more short-lived tracks and higher extremes.",
        names.each(&rates).join(" against ")
    ));
}

/// Whether the winds of all runs are of the same level, as far as recorded. Adds a note if not.
pub(super) fn share_wind(runs: &[&Coverage], names: &Names, notes: &mut Vec<String>) -> bool {
    let recorded = (runs.iter().enumerate()).filter_map(|(run, c)| Some((run, c.wind.as_ref()?)));
    let levels = grouped(recorded, |a, b| a == b);
    if levels.len() > 1 {
        let levels: Vec<String> = (levels.iter())
            .map(|(level, runs)| format!("{}: {level}", names.format_runs(runs)))
            .collect();
        notes.push(format!(
            "Winds are not compared, nor what follows from them (hurricanes, cyclone energy, the latitude when strongest), because they are of different levels ({}).",
            levels.join("; ")
        ));
        return false;
    }
    // Two periods of one folder have the same winds, even if unrecorded.
    let is_one_folder = runs.windows(2).all(|pair| pair[0].path == pair[1].path);
    let is_unknown = runs.iter().any(|run| run.wind.is_none());
    if is_unknown && !is_one_folder && runs.iter().any(|run| run.grid.is_none()) {
        notes.push(format!(
            "Without statistics.nc {} it is not known at what level winds are and over what time they are means: part of every change of wind, category and energy may be theirs (ten-minute means of best tracks are about a tenth below one-minute means).",
            names.everywhere()
        ));
    }
    true
}

/// Notes which thresholds for events and tracks differ, among the runs that record theirs.
pub(super) fn note_rules(runs: &[&Coverage], names: &Names, notes: &mut Vec<String>) {
    // Prefix of rules that describe the making of masks.
    const MASKS: &str = "masks.";
    let recorded: Vec<(usize, &BTreeMap<String, String>)> = (runs.iter().enumerate())
        .map(|(run, coverage)| (run, &coverage.rules))
        .filter(|(_, rules)| !rules.is_empty())
        .collect();
    let of_climates = several_climates(&recorded, names);
    let has_climate_note = of_climates.is_some();
    notes.extend(of_climates);
    let is_of_masks = |name: &String| name.starts_with(MASKS);
    // Statistics of earlier versions, and masks of other tools, do not record how masks were made.
    let all_record_masks = (recorded.iter()).all(|(_, rules)| rules.keys().any(is_of_masks));
    let all_record = |name: &str| recorded.iter().all(|(_, rules)| rules.contains_key(name));
    let rules: BTreeSet<&String> = (recorded.iter())
        .flat_map(|(_, rules)| rules.keys())
        .filter(|name| all_record_masks || !is_of_masks(name))
        .filter(|name| !has_climate_note || *name != CLIMATE)
        .filter(|name| !ADDED_LATER.contains(&name.as_str()) || all_record(name))
        .collect();
    // If a run does not record the applied values, compare the requested ones.
    let record_applied = (recorded.iter()).all(|(_, rules)| {
        rules.contains_key(ADAPTED_TO) || rules.get(ADAPTS).is_none_or(|adapts| adapts != "true")
    });
    let apart = |name: &String| -> Option<String> {
        let value = |rules: &BTreeMap<String, String>| -> String {
            match rules.get(name) {
                None => "none".into(),
                Some(value) if record_applied => value.clone(),
                Some(value) => at_quarter_degree(value).into(),
            }
        };
        let values = recorded.iter().map(|(run, rules)| (*run, value(rules)));
        let groups = grouped(values, |a, b| a == b);
        let values = names.each(&groups).join(" against ");
        (groups.len() > 1).then(|| format!("{name} ({values})"))
    };
    let differing: Vec<String> = rules.into_iter().filter_map(apart).collect();
    if differing.is_empty() {
        return;
    }
    let more = match differing.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    notes.push(format!(
        "Events and tracks were chosen by different rules, so that part of every change may be theirs: {}{more}.",
        differing[..differing.len().min(MAX_LISTED)].join(", ")
    ));
}

/// The note if rivers are defined by percentiles of several climates, such as each run's own.
fn several_climates(
    recorded: &[(usize, &BTreeMap<String, String>)],
    names: &Names,
) -> Option<String> {
    let climates = recorded
        .iter()
        .map(|(run, rules)| (*run, rules.get(CLIMATE)));
    let climates = grouped(climates, |a, b| a == b);
    let known = climates.iter().filter(|(climate, _)| climate.is_some());
    let how_many = match known.count() {
        0 | 1 => return None,
        2 => "two",
        _ => "several",
    };
    let each: Vec<String> = (climates.iter().take(MAX_LISTED))
        .map(|(climate, runs)| {
            let climate = climate.map_or("unknown", String::as_str);
            format!("{}: {climate}", names.format_runs(runs))
        })
        .collect();
    let more = match climates.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!(
        "Rivers are those by percentiles of {how_many} climates ({}{more}). Those of a warmer climate are higher, which hides a part of the change: `squall label --method percentile --climatology` takes those of one run for all.",
        each.join("; ")
    ))
}

/// The months to compare: the requested ones, or those that all runs have.
pub(super) fn common_months(
    runs: &[&Coverage],
    names: &Names,
    wanted: &[i64],
    notes: &mut Vec<String>,
) -> Result<Vec<i64>> {
    let seasons: Vec<Vec<i64>> = (runs.iter())
        .map(|run| months_of(run, wanted))
        .collect::<Result<_>>()?;
    let mut months: Vec<i64> = (1..=12).collect();
    for (run, found) in runs.iter().zip(&seasons) {
        let shared = |month: &i64| found.contains(month);
        let common: Vec<i64> = months.iter().copied().filter(shared).collect();
        if common.is_empty() {
            return Err(ClimateError::NoCommonMonths {
                path: run.path.clone(),
                expected: words::months(&months),
                found: words::months(found),
            });
        }
        months = common;
    }
    let groups = grouped(seasons.iter().enumerate(), |a, b| a == b);
    if groups.len() > 1 {
        let said = groups.iter().map(|(found, runs)| {
            let has = if runs.len() == 1 { "has" } else { "have" };
            format!("{} {has} {}", names.format_runs(runs), words::months(found))
        });
        notes.push(format!(
            "{}: only {} are compared.",
            said.collect::<Vec<_>>().join(", "),
            words::months(&months)
        ));
    }
    Ok(months)
}

/// Notes which years of a side are not used, and which used years and stretches of months have no rows in the tables. Fails if a run has no
/// usable year. `before` is the number of runs of the other side that precede it.
pub(super) fn check_years(
    side: &PlannedSide,
    before: usize,
    names: &Names,
    notes: &mut Vec<String>,
) -> Result<()> {
    let (mut left_out, mut uncounted, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    let mut silent = Vec::new();
    for (place, run) in side.members.iter().enumerate() {
        let years = years_of(run, &side.options)?;
        if !years.left_out.is_empty() {
            let which = period::left_out(run, &side.options, &years);
            left_out.push((before + place, which));
        }
        if !run.counted {
            uncounted.push((before + place, run.calendar));
        }
        let selection = &side.options.selection;
        let without = run.years_without_rows(selection, &years.used);
        empty.push((before + place, (without, years.used.len())));
        silent.push((before + place, run.silent_stretches(selection, &years.used)));
    }
    for (which, runs) in grouped(left_out, |a, b| a == b) {
        notes.push(format!(
            "Years of {} that are not whole are left out: {which}",
            names.format_runs(&runs)
        ));
    }
    for (calendar, runs) in grouped(uncounted, |a, b| a == b) {
        let (has, its) = if runs.len() == 1 {
            ("has", "its")
        } else {
            ("have", "their")
        };
        notes.push(format!(
            "{} {has} no statistics.nc: {its} analysed times are taken to run from the first to the last event ({calendar}), and numbers by time are left out.",
            names.format_runs(&runs)
        ));
    }
    for ((without, used), runs) in grouped(empty, |a, b| a == b) {
        let tables = format!("the tables of {}", names.format_runs(&runs));
        notes.extend(period::note_without_rows(&tables, &without, used));
    }
    for (stretches, runs) in grouped(silent, |a, b| a == b) {
        let tables = format!("the tables of {}", names.format_runs(&runs));
        notes.extend(period::note_of_silence(&tables, &stretches));
    }
    Ok(())
}

/// Checks that both sides have no year of the same run. Such years would count as independent weather, which
/// invalidates intervals and p-values.
pub(super) fn check_disjoint([a, b]: &[PlannedSide; 2]) -> Result<()> {
    let others: Vec<(PathBuf, &Coverage)> = (b.members.iter())
        .map(|run| (canonical(&run.path), run))
        .collect();
    for run in &a.members {
        let folder = canonical(&run.path);
        for (_, other) in others.iter().filter(|(path, _)| *path == folder) {
            let years = b.years(other).used;
            let both = |year: &i64| years.contains(year);
            let shared: Vec<i64> = a.years(run).used.into_iter().filter(both).collect();
            if let (Some(first), Some(last)) = (shared.first(), shared.last()) {
                return Err(ClimateError::SharedYears {
                    path: run.path.clone(),
                    first: *first,
                    last: *last,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::SideInput;
    use crate::statistics::Statistics;
    use squall_data::{LatLonGrid, Time};

    #[test]
    fn a_number_that_was_adapted_is_known_at_a_quarter_of_a_degree() {
        for (value, expected) in [
            (
                "271.8 (400.0 at a quarter of a degree, times 0.6794)",
                "400.0",
            ),
            ("2.25 (0.0 at a quarter of a degree)", "0.0"),
            ("400.0", "400.0"),
            ("heights (Z300, Z500)", "heights (Z300, Z500)"),
        ] {
            assert_eq!(at_quarter_degree(value), expected);
        }
    }

    /// Regression: the note said 0 times a day.
    #[test]
    fn times_per_day_may_be_fractions() {
        let folder = tempfile::tempdir().unwrap();
        let grid = LatLonGrid::global(13, 24).unwrap();
        let start = Time::new(Calendar::NoLeap, 2001, 1, 1, 0, 0, 0).unwrap();
        let every = |days: usize, name: &str| {
            let mut statistics = Statistics::new(&grid);
            for day in (0..360).step_by(days) {
                let time = start.add_seconds(86_400 * day);
                statistics.add_time(time, None, 24.0, []).unwrap();
            }
            let run = folder.path().join(name);
            std::fs::create_dir(&run).unwrap();
            let path = run.join("statistics.nc");
            (statistics.write_netcdf(path, &grid, Calendar::NoLeap)).unwrap();
            Coverage::read(&run, None).unwrap()
        };
        let runs = [every(5, "coarse"), every(1, "daily")];
        let side = |label: &str| SideInput {
            folders: vec![label.into()],
            label: label.into(),
            years: None,
        };
        let names = Names::of([&side("coarse"), &side("daily")]);
        let mut notes = Vec::new();
        note_steps(&runs.each_ref(), &names, &mut notes);
        let begin = "There are 0.2 times a day against 1:";
        assert!(notes[0].starts_with(begin), "{notes:?}");
    }
}
