//! Whether runs can be compared, and where they differ in more than their climate, before their tables are read: grid,
//! calendar, time step, winds, rules, months and years.
//!
//! All runs are looked at together, the members of a side like the sides: what two sides must share members must, too.

use super::names::{Names, grouped, listed};
use super::period::{self, months_of, years_of};
use super::{Coverage, PlannedSide, Unit, words};
use crate::error::{ClimateError, Result};
use squall_data::Calendar;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The calendar to whose months numbers by year are scaled where calendars differ.
const COMMON_CALENDAR: Calendar = Calendar::ProlepticGregorian;

/// Values that are named one by one.
const MOST: usize = 5;

/// Of a number of the masks' rules that was adapted to the grid: what stands between the number that it is at a quarter of
/// a degree and the factor, as in `271.8 (400.0 at a quarter of a degree, times 0.6794)`.
pub const ADAPTED: &str = " at a quarter of a degree";

/// Whether numbers of the masks' rules were adapted to the grid, and to which; the second is not in statistics of
/// earlier versions, whose numbers are those at a quarter of a degree.
const ADAPTS: &str = "masks.adapt_to_grid";
const ADAPTED_TO: &str = "masks.adapted_to_spacing_km";

/// What statistics of earlier versions do not tell of masks, or tell in another way.
const TOLD_LATER: [&str; 7] = [
    ADAPTED_TO,
    "masks.warm_core",
    "masks.ensemble",
    "masks.moisture_transport",
    "masks.members",
    "masks.member_count",
    "masks.seed",
];

/// A number of the masks' rules as it is at a quarter of a degree, whether it was adapted or not.
fn at_quarter_degree(value: &str) -> &str {
    let published = value.split_once(ADAPTED);
    let published = published.and_then(|(told, _)| told.split_once('('));
    published.map_or(value, |(_, published)| published)
}

/// The rule that says of which climate the percentiles of rivers are.
const CLIMATE: &str = "masks.percentile_climatology";

/// The same folder, however its path is spelled.
fn whole(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.into())
}

/// No side may have a folder twice: its years would count twice. Pairs need as many runs on both sides.
pub(super) fn check_members(folders: [&[PathBuf]; 2], names: &Names, unit: Unit) -> Result<()> {
    let labels = names.labels();
    for (own, label) in folders.iter().zip(labels) {
        if own.is_empty() {
            return Err(ClimateError::Invalid(format!("{label} has no run")));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = own.iter().find(|folder| !seen.insert(whole(folder))) {
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

/// Grids must be the same, unless asked otherwise; then a note says that they are not.
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
            "Without statistics.nc {} the grids are not known and taken to be the same.",
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

/// The calendar to whose months numbers by year are scaled where calendars differ; a note says so where their years are not
/// equally long.
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

/// Notes where runs have other numbers of times a day, if all are known.
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
            // Of steps of several days a part of one.
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

/// Whether the winds of all runs are of one level, as far as their statistics say it; where they are not a note says so.
pub(super) fn share_wind(runs: &[&Coverage], names: &Names, notes: &mut Vec<String>) -> bool {
    let told = (runs.iter().enumerate()).filter_map(|(run, c)| Some((run, c.wind.as_ref()?)));
    let levels = grouped(told, |a, b| a == b);
    if levels.len() > 1 {
        let levels: Vec<String> = (levels.iter())
            .map(|(level, runs)| format!("{}: {level}", names.who(runs)))
            .collect();
        notes.push(format!(
            "Winds are not compared, nor what follows from them (hurricanes, cyclone energy, the latitude when strongest), because they are of different levels ({}).",
            levels.join("; ")
        ));
        return false;
    }
    // Two periods of one folder have the same winds, whatever they are.
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

/// Notes which numbers of the rules by which events and tracks were chosen differ, among the runs that tell theirs.
pub(super) fn note_rules(runs: &[&Coverage], names: &Names, notes: &mut Vec<String>) {
    // How names of what made the masks begin.
    const MASKS: &str = "masks.";
    let told: Vec<(usize, &BTreeMap<String, String>)> = (runs.iter().enumerate())
        .map(|(run, coverage)| (run, &coverage.rules))
        .filter(|(_, rules)| !rules.is_empty())
        .collect();
    let of_climates = several_climates(&told, names);
    let is_said = of_climates.is_some();
    notes.extend(of_climates);
    let is_of_masks = |name: &String| name.starts_with(MASKS);
    // Statistics of earlier versions say nothing about them, and masks of other tools do not say how they were made.
    let all_tell_masks = (told.iter()).all(|(_, rules)| rules.keys().any(is_of_masks));
    let all_tell = |name: &str| told.iter().all(|(_, rules)| rules.contains_key(name));
    let rules: BTreeSet<&String> = (told.iter())
        .flat_map(|(_, rules)| rules.keys())
        .filter(|name| all_tell_masks || !is_of_masks(name))
        .filter(|name| !is_said || *name != CLIMATE)
        .filter(|name| !TOLD_LATER.contains(&name.as_str()) || all_tell(name))
        .collect();
    // Where a run does not tell what was applied, what was asked for is compared.
    let tell_applied = (told.iter()).all(|(_, rules)| {
        rules.contains_key(ADAPTED_TO) || rules.get(ADAPTS).is_none_or(|adapts| adapts != "true")
    });
    let apart = |name: &String| -> Option<String> {
        let value = |rules: &BTreeMap<String, String>| -> String {
            match rules.get(name) {
                None => "none".into(),
                Some(value) if tell_applied => value.clone(),
                Some(value) => at_quarter_degree(value).into(),
            }
        };
        let values = told.iter().map(|(run, rules)| (*run, value(rules)));
        let groups = grouped(values, |a, b| a == b);
        let values = names.each(&groups).join(" against ");
        (groups.len() > 1).then(|| format!("{name} ({values})"))
    };
    let differing: Vec<String> = rules.into_iter().filter_map(apart).collect();
    if differing.is_empty() {
        return;
    }
    let more = match differing.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    notes.push(format!(
        "Events and tracks were chosen by different rules, so that part of every change may be theirs: {}{more}.",
        differing[..differing.len().min(MOST)].join(", ")
    ));
}

/// What is said where rivers are by percentiles of several climates, such as each run's own.
fn several_climates(told: &[(usize, &BTreeMap<String, String>)], names: &Names) -> Option<String> {
    let climates = told.iter().map(|(run, rules)| (*run, rules.get(CLIMATE)));
    let climates = grouped(climates, |a, b| a == b);
    let known = climates.iter().filter(|(climate, _)| climate.is_some());
    let how_many = match known.count() {
        0 | 1 => return None,
        2 => "two",
        _ => "several",
    };
    let each: Vec<String> = (climates.iter().take(MOST))
        .map(|(climate, runs)| {
            let climate = climate.map_or("unknown", String::as_str);
            format!("{}: {climate}", names.who(runs))
        })
        .collect();
    let more = match climates.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!(
        "Rivers are those by percentiles of {how_many} climates ({}{more}). Those of a warmer climate are higher, which hides a part of the change: `squall label --method percentile --climatology` takes those of one run for all.",
        each.join("; ")
    ))
}

/// The months that are compared: those asked for, or those that all runs have.
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
            format!("{} {has} {}", names.who(runs), words::months(found))
        });
        notes.push(format!(
            "{}: only {} are compared.",
            said.collect::<Vec<_>>().join(", "),
            words::months(&months)
        ));
    }
    Ok(months)
}

/// Notes which years of a side are not used, and which are although the tables have no row of them; a run without any
/// is refused. `before` runs are of the side before it.
pub(super) fn check_years(
    side: &PlannedSide,
    before: usize,
    names: &Names,
    notes: &mut Vec<String>,
) -> Result<()> {
    let (mut left_out, mut uncounted, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    for (place, run) in side.members.iter().enumerate() {
        let years = years_of(run, &side.options)?;
        if !years.left_out.is_empty() {
            let which = period::left_out(run, &side.options, &years);
            left_out.push((before + place, which));
        }
        if !run.counted {
            uncounted.push((before + place, run.calendar));
        }
        let without = run.years_without_rows(&side.options.selection, &years.used);
        empty.push((before + place, (without, years.used.len())));
    }
    for (which, runs) in grouped(left_out, |a, b| a == b) {
        notes.push(format!(
            "Years of {} that are not whole are left out: {which}",
            names.who(&runs)
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
            names.who(&runs)
        ));
    }
    for ((without, used), runs) in grouped(empty, |a, b| a == b) {
        let tables = format!("the tables of {}", names.who(&runs));
        notes.extend(period::note_without_rows(&tables, &without, used));
    }
    Ok(())
}

/// One run's years on both sides would be taken for different weather: no interval and no p would hold.
pub(super) fn check_apart([a, b]: &[PlannedSide; 2]) -> Result<()> {
    let others: Vec<(PathBuf, &Coverage)> = (b.members.iter())
        .map(|run| (whole(&run.path), run))
        .collect();
    for run in &a.members {
        let folder = whole(&run.path);
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

    /// There had been 0 times a day.
    #[test]
    fn of_steps_of_several_days_a_day_has_a_part_of_a_time() {
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
