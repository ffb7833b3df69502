//! The months and years of one run that count, and notes on those that do not; for comparisons and trends.

use super::silence::{Stretch, stretches_in_words};
use super::words::{month_name, months as in_words, years_in_words};
use super::{Coverage, Selection, SideOptions, Years};
use crate::error::{ClimateError, Result};
use std::collections::BTreeSet;

/// How the reason begins why a run is not used that has no whole month, so that no choice of months helps.
pub const NO_WHOLE_MONTH: &str = "no month of the year is whole";
/// Maximum number of omitted years listed individually.
const MAX_LISTED: usize = 5;

/// The usable months of a run, ascending: the requested ones, or all complete ones if none are requested.
///
/// # Errors
/// [`ClimateError::Period`] if the run has no complete month, or lacks a requested one.
pub(crate) fn months_of(run: &Coverage, wanted: &[i64]) -> Result<Vec<i64>> {
    let found = run.seasons();
    let wanted: BTreeSet<i64> = wanted.iter().copied().collect();
    let lacking: Vec<i64> = (wanted.iter().copied())
        .filter(|month| !found.contains(month))
        .collect();
    let reason = if found.is_empty() {
        match run.fullest_month() {
            Some(((year, month), share)) => format!(
                "{NO_WHOLE_MONTH}; {} {year} has {:.0} % of its times",
                month_name(month),
                100.0 * share
            ),
            None => NO_WHOLE_MONTH.into(),
        }
    } else if !lacking.is_empty() {
        format!("it has {}, not {}", in_words(&found), in_words(&lacking))
    } else if wanted.is_empty() {
        return Ok(found);
    } else {
        return Ok(wanted.into_iter().collect());
    };
    Err(ClimateError::Period {
        path: run.path.clone(),
        reason,
    })
}

/// Notes the naming of years that do not begin in January, and years that split a season at their boundary.
pub(crate) fn note_year(selection: &Selection, notes: &mut Vec<String>) {
    let first = month_name(selection.year_start);
    if selection.year_start != 1 {
        notes.push(format!(
            "Years begin with {first} and are called after the calendar year of that month: 2001 is {first} 2001 to {} 2002.",
            month_name(selection.year_start - 1)
        ));
    }
    if let Some(start) = selection.split_season() {
        notes.push(format!(
            "Years begin with {first}: {} of one of them are the end of one season and the beginning of the next. `--year-start {start}` keeps seasons whole.",
            in_words(&selection.months)
        ));
    }
}

/// The years of a run that count, and those that do not.
///
/// # Errors
/// [`ClimateError::Period`] if no year counts.
pub(crate) fn years_of(run: &Coverage, options: &SideOptions) -> Result<Years> {
    let years = run.years(&options.selection, options.range);
    if !years.used.is_empty() {
        return Ok(years);
    }
    let reason = match (options.range, years.left_out.first()) {
        (_, Some((year, reason))) => format!("no year is whole; {year}: {reason}"),
        (Some((from, to)), None) => format!("it has no year from {from} to {to}"),
        (None, None) => "no year is whole".into(),
    };
    Err(ClimateError::Period {
        path: run.path.clone(),
        reason,
    })
}

/// A note on used years without any row in the tables; `None` if there are none.
pub(crate) fn note_without_rows(tables: &str, without: &[i64], used: usize) -> Option<String> {
    (!without.is_empty()).then(|| {
        format!(
            "In {} of {used} years {tables} have no rows: {}. They count as years without an event, although the data may be missing.",
            without.len(),
            years_in_words(without)
        )
    })
}

/// A note on unusually long stretches of months without any row in the tables; `None` if there are none.
pub(crate) fn note_of_silence(tables: &str, stretches: &[Stretch]) -> Option<String> {
    (!stretches.is_empty()).then(|| {
        format!(
            "In {} {tables} have no rows. Such months count as months without an event, although the data may be missing.",
            stretches_in_words(stretches)
        )
    })
}

/// The years of a run that do not count, with reasons, and advice if more would count with another first month.
pub(crate) fn left_out(run: &Coverage, options: &SideOptions, years: &Years) -> String {
    let listed: Vec<String> = (years.left_out.iter().take(MAX_LISTED))
        .map(|(year, reason)| format!("{year} ({reason})"))
        .collect();
    let more = match years.left_out.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let better = better_start(run, options, years.used.len());
    format!("{}{more}.{better}", listed.join(", "))
}

/// A sentence on the first month with which more than `used` years are complete, if there is one; many runs begin in
/// December.
fn better_start(run: &Coverage, options: &SideOptions, used: usize) -> String {
    if !options.selection.whole_year() {
        return String::new();
    }
    let whole = |year_start: i64| {
        let selection = Selection {
            year_start,
            ..options.selection.clone()
        };
        run.years(&selection, options.range).used.len()
    };
    // On ties the first month wins.
    let best = (1..=12).map(|start| (whole(start), start)).rev();
    match best.max_by_key(|(years, _)| *years) {
        Some((years, start)) if years > used => format!(
            " {years} are whole if they begin with {} (`--year-start {start}`).",
            month_name(start)
        ),
        _ => String::new(),
    }
}
