//! Which months and years of a run count, before its tables are read.

use super::TrendInput;
use crate::compare::words::{month_name, months as in_words};
use crate::compare::{Coverage, Selection};
use crate::error::{ClimateError, Result};
use std::collections::BTreeSet;

/// The months that count: those asked for, or those that the run has.
///
/// # Errors
/// [`ClimateError::Period`] if it has none, or lacks one of those asked for.
pub(super) fn of(coverage: &Coverage, wanted: &[i64]) -> Result<Vec<i64>> {
    let found = coverage.seasons();
    let lacking: Vec<i64> = (wanted.iter().copied())
        .filter(|month| !found.contains(month))
        .collect();
    let reason = if found.is_empty() {
        "no month of the year is whole".to_string()
    } else if lacking.is_empty() {
        let wanted: BTreeSet<i64> = wanted.iter().copied().collect();
        return Ok(match wanted.is_empty() {
            true => found,
            false => wanted.into_iter().collect(),
        });
    } else {
        format!("it has {}, not {}", in_words(&found), in_words(&lacking))
    };
    Err(ClimateError::Period {
        path: coverage.path.clone(),
        reason,
    })
}

/// Notes what a year is called that does not begin with January, and that years part a season where the months go on
/// from the end of one year into the next.
pub(super) fn note_year(selection: &Selection, notes: &mut Vec<String>) {
    let first = month_name(selection.year_start);
    if selection.year_start != 1 {
        notes.push(format!(
            "Years begin with {first} and are called after the calendar year of that month: 2001 is {first} 2001 to {} 2002.",
            month_name(selection.year_start - 1)
        ));
    }
    if let Some(start) = selection.parted_season() {
        notes.push(format!(
            "Years begin with {first}: {} of one of them are the end of one season and the beginning of the next. `--year-start {start}` keeps seasons whole.",
            in_words(&selection.months)
        ));
    }
}

/// Notes which years do not count.
///
/// # Errors
/// [`ClimateError::Period`] if none does.
pub(super) fn check_years(
    input: &TrendInput,
    coverage: &Coverage,
    selection: &Selection,
    notes: &mut Vec<String>,
) -> Result<()> {
    const MOST: usize = 5;
    let years = coverage.years(selection, input.years);
    if years.used.is_empty() {
        let reason = match (input.years, years.left_out.first()) {
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
        let listed: Vec<String> = (years.left_out.iter().take(MOST))
            .map(|(year, reason)| format!("{year} ({reason})"))
            .collect();
        let more = match years.left_out.len().saturating_sub(MOST) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        notes.push(format!(
            "Years that are not whole are left out: {}{more}.{}",
            listed.join(", "),
            better_start(coverage, selection, input.years)
        ));
    }
    if !coverage.counted {
        notes.push(format!(
            "There is no statistics.nc: the analysed times are taken to run from the first to the last event ({}), and numbers by time are left out.",
            coverage.calendar
        ));
    }
    Ok(())
}

/// A sentence on the month that years must begin with so that more of them are whole, if there is one: many runs begin
/// with December.
fn better_start(coverage: &Coverage, selection: &Selection, range: Option<(i64, i64)>) -> String {
    let whole = |year_start: i64| {
        let selection = Selection {
            year_start,
            ..selection.clone()
        };
        coverage.years(&selection, range).used.len()
    };
    let used = whole(selection.year_start);
    // Of equally good months the first.
    let best = (1..=12).map(|start| (whole(start), start)).rev();
    match best.max_by_key(|(years, _)| *years) {
        Some((years, start)) if selection.whole_year() && years > used => format!(
            " {years} are whole if they begin with {} (`--year-start {start}`).",
            month_name(start)
        ),
        _ => String::new(),
    }
}
