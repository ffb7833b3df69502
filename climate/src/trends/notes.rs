//! Notes on data that the tables of a run lack.

use super::TrendRow;
use crate::compare::words::years_in_words;
use crate::compare::{
    Coverage, FOLLOWS_CELLS, Group, NO_LIFETIME, Quantity, Side, SideOptions, bias_of_valueless,
    fate_of_valueless, follows_cells, grouped, missing_cells, note_of_run, period, quantity_names,
    shares_in_words, sum_of_years, unequal_shares,
};
use crate::error::Result;
use crate::track::note_of_pieces;

/// The quantities of the classes that a run's tables cover.
pub(super) fn covered_quantities(side: &Side) -> impl Iterator<Item = Quantity> {
    Quantity::all().filter(move |quantity| side.covers(quantity.about().class))
}

/// Adds notes on unused years, on a missing record of analysed times, and on years and stretches of months without any
/// row.
///
/// # Errors
/// [`crate::ClimateError::Period`] if no year can be used.
pub(super) fn of_years(
    run: &Coverage,
    options: &SideOptions,
    notes: &mut Vec<String>,
) -> Result<()> {
    let years = period::years_of(run, options)?;
    if !years.left_out.is_empty() {
        notes.push(format!(
            "Years that are not whole are left out: {}",
            period::left_out(run, options, &years)
        ));
    }
    if !run.counted {
        notes.push(format!(
            "There is no statistics.nc: the analysed times are taken to run from the first to the last event ({}), and numbers by time are left out.",
            run.calendar
        ));
    }
    let without = run.years_without_rows(&options.selection, &years.used);
    let used = years.used.len();
    notes.extend(period::note_without_rows("the tables", &without, used));
    let stretches = run.silent_stretches(&options.selection, &years.used);
    notes.extend(period::note_of_silence("the tables", &stretches));
    Ok(())
}

/// Adds notes on missing data (columns, values of whole years, values of some tracks or events), on areas that do not
/// reflect the size of a storm, on tracks cut by a gap in the data, and on pieces of rivers.
pub(super) fn add(label: &str, side: &Side, notes: &mut Vec<String>) {
    let (known, lacking): (Vec<Quantity>, Vec<Quantity>) =
        covered_quantities(side).partition(|quantity| side.knows(*quantity));
    if !lacking.is_empty() {
        let places: Vec<usize> = lacking.iter().map(|quantity| *quantity as usize).collect();
        notes.push(format!(
            "Left out, because the tables of {label} lack their columns or values: {}.",
            quantity_names(&places)
        ));
    }
    notes.extend(note_of_run(label, &side.coverage.rules, &known));
    let shares = known.iter().filter_map(|quantity| {
        let shares = shares_in_words(side.shares_without(*quantity)?);
        Some((*quantity as usize, (shares, fate_of_valueless(*quantity))))
    });
    // Quantities with a common cause lack the same share and get one note.
    for (((share, counted), fate), quantities) in grouped(shares, |a, b| a == b) {
        notes.push(format!(
            "{share} of the tracks or events have no value for {}{counted}: they {fate}.",
            quantity_names(&quantities)
        ));
    }
    let unknown = known.iter().filter_map(|quantity| {
        let years = side.unknown_years(*quantity);
        (!years.is_empty()).then_some((*quantity as usize, years))
    });
    for (years, quantities) in grouped(unknown, |a, b| a == b) {
        notes.push(format!(
            "{} of {} years are unknown for {}, because more than half of their tracks or events have no value: {}.",
            years.len(),
            side.years.used.len(),
            quantity_names(&quantities),
            years_in_words(&years)
        ));
    }
    if side.continued > 0 {
        let begin = if side.continued == 1 {
            "track begins"
        } else {
            "tracks begin"
        };
        notes.push(format!(
            "{} {begin} after a gap in the data: a storm interrupted by a gap counts twice.",
            side.continued
        ));
    }
    let pieces = note_of_pieces(&[(label.to_string(), side.pieces)]);
    notes.extend(pieces.map(|note| format!("{note} {NO_LIFETIME}")));
}

/// Calls no trend significant if the earlier and the later half of its years lack the values of different shares of
/// tracks or events, and notes it.
pub(super) fn withhold(side: &Side, rows: &mut [TrendRow], notes: &mut Vec<String>) {
    let (mut everywhere, mut in_parts) = (Vec::new(), Vec::new());
    for row in rows {
        let place = row.quantity as usize;
        let Some(by_year) = side.total_and_valued_by_year(row.quantity, row.group) else {
            continue;
        };
        let (early, late) = by_year.split_at(by_year.len() / 2);
        let Some(shares) = unequal_shares([early, late].map(sum_of_years)) else {
            continue;
        };
        if row.group == Group::ALL {
            let shares = shares.map(|share| format!("{:.0} %", 100.0 * share));
            everywhere.push((place, (shares, bias_of_valueless(row.quantity))));
        } else if row.significant {
            in_parts.push(place);
        }
        row.significant = false;
    }
    in_parts.retain(|place| everywhere.iter().all(|(other, _)| other != place));
    in_parts.dedup();
    for (([early, late], bias), quantities) in grouped(everywhere, |a, b| a == b) {
        notes.push(format!(
            "Of the tracks or events of the earlier half of the years {early} and of the later half {late} have no value for {}: no trend of these is called significant, because {bias}.",
            quantity_names(&quantities)
        ));
    }
    if !in_parts.is_empty() {
        notes.push(format!(
            "In some basins or seasons the earlier and the later half of the years lack the values of different shares of tracks or events for {}: these trends are not called significant.",
            quantity_names(&in_parts)
        ));
    }
}

/// Calls no trend that depends on the number of cells significant, and notes it, if the masks of the run lack some:
/// which ones, and when, is not recorded.
pub(super) fn withhold_where_missing(side: &Side, rows: &mut [TrendRow], notes: &mut Vec<String>) {
    let Some(share) = missing_cells(side) else {
        return;
    };
    for row in rows.iter_mut().filter(|row| follows_cells(row.quantity)) {
        row.significant = false;
    }
    notes.push(format!(
        "{share} of the cells of masks are missing, and no event is found there: no trend of {FOLLOWS_CELLS} is called significant, because it may be theirs."
    ));
}
