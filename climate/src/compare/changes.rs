//! The change of every quantity in every group, with significance corrected for multiple tests.

use super::names::{Names, grouped};
use super::side::Ensemble;
use super::unequal::{lacking, quantity_names};
use super::{CancelCheck, ChangeRow, Design, Group, Quantity, adjusted_by_family, false_rate};
use crate::error::{ClimateError, Result};
use rayon::prelude::*;
use std::cmp::Reverse;

/// What the changes are computed from.
pub(super) struct Compared<'a> {
    pub names: &'a Names,
    pub sides: [&'a Ensemble; 2],
    pub design: &'a Design,
    /// Whether both sides have all months.
    pub whole_year: bool,
}

/// Returns the changes of all quantities known to both sides, in all groups, with p adjusted per family. Adds notes on
/// the quantities that are missing from some runs.
///
/// # Errors
/// Errors of `check_cancelled`.
pub(super) fn changes(
    compared: &Compared<'_>,
    check_cancelled: CancelCheck<'_>,
    notes: &mut Vec<String>,
) -> Result<Vec<ChangeRow>> {
    let Compared {
        names,
        sides: [a, b],
        design,
        whole_year,
    } = *compared;
    note_unknown(names, [a, b], notes);
    let wanted: Vec<(Quantity, Group)> = shared_quantities([a, b])
        .filter(|&quantity| a.knows(quantity) && b.knows(quantity))
        .flat_map(|quantity| Group::all().map(move |group| (quantity, group)))
        // Partial seasons would carry the names of full ones.
        .filter(|(_, group)| whole_year || group.season.is_none())
        .collect();
    let mut rows: Vec<ChangeRow> = wanted
        .par_iter()
        .map(|&(quantity, group)| {
            check_cancelled()?;
            let about = quantity.about();
            let (basin, season) = group.columns();
            let mut change =
                design.change(&a.statistic(quantity, group), &b.statistic(quantity, group));
            if !about.relative {
                (change.relative, change.relative_interval) = (None, None);
            }
            Ok::<_, ClimateError>(ChangeRow {
                quantity,
                name: about.name.into(),
                class: about.class.name().into(),
                basin: basin.into(),
                season: season.into(),
                unit: about.unit.into(),
                change,
                years: Some([a, b].map(|side| side.known_years(quantity, group))),
                adjusted_p: None,
                significant: false,
            })
        })
        .collect::<Result<_>>()?;
    let p: Vec<_> = (rows.iter().map(|row| (row.group(), row.change.p))).collect();
    let rate = false_rate(design.options().confidence);
    for (row, adjusted) in rows.iter_mut().zip(adjusted_by_family(&p)) {
        row.adjusted_p = adjusted;
        row.significant = adjusted.is_some_and(|p| p < rate);
    }
    Ok(rows)
}

/// The quantities of the classes that both sides cover.
fn shared_quantities(sides: [&Ensemble; 2]) -> impl Iterator<Item = Quantity> {
    Quantity::all().filter(move |quantity| {
        let class = quantity.about().class;
        sides.iter().all(|side| side.covers(class))
    })
}

/// Notes which quantities are omitted, and which runs' tables lack them.
fn note_unknown(names: &Names, sides: [&Ensemble; 2], notes: &mut Vec<String>) {
    let unknown = shared_quantities(sides).filter_map(|quantity| {
        let without = lacking(sides, |run| run.knows(quantity));
        (!without.is_empty()).then_some((quantity as usize, without))
    });
    let mut groups = grouped(unknown, |a, b| a == b);
    let all: usize = sides.iter().map(|side| side.members().len()).sum();
    groups.sort_by_key(|(without, _)| (without.len(), Reverse(without.first().copied())));
    for (without, quantities) in groups {
        let who = names.format_runs(&without);
        let lack = if without.len() == all {
            format!("the tables of {who} have no columns or values to compare")
        } else {
            format!("the tables of {who} lack their columns or values")
        };
        notes.push(format!(
            "Left out, because {lack}: {}.",
            quantity_names(&quantities)
        ));
    }
}
