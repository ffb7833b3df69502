//! Changes that are not called significant because the runs differ in more than their climate.

use super::names::Names;
use super::side::Ensemble;
use super::unequal::runs;
use super::{ChangeRow, Quantity};
use crate::track::LANDFALLS_OF_PIECES;

/// Calls no change of some quantities significant; returns whether there are any rows of them.
fn silence(rows: &mut [ChangeRow], is_withheld: impl Fn(Quantity) -> bool) -> bool {
    let mut found = false;
    for row in rows.iter_mut().filter(|row| is_withheld(row.quantity)) {
        row.significant = false;
        found = true;
    }
    found
}

/// Calls no change of the landfalls of rivers significant, and notes it, if only some runs count those of rivers that
/// split over land. Runs that record no rules at all are not of `squall events`.
pub(super) fn withhold_landfalls(
    names: &Names,
    sides: [&Ensemble; 2],
    rows: &mut [ChangeRow],
    notes: &mut Vec<String>,
) {
    let recorded = runs(sides)
        .map(|(run, side)| (run, &side.coverage.rules))
        .filter(|(_, rules)| !rules.is_empty());
    let (with, without): (Vec<_>, Vec<_>) =
        recorded.partition(|(_, rules)| rules.contains_key(LANDFALLS_OF_PIECES));
    if with.is_empty() || without.is_empty() {
        return;
    }
    if silence(rows, |quantity| quantity == Quantity::RiverLandfalls) {
        let without: Vec<usize> = without.into_iter().map(|(run, _)| run).collect();
        notes.push(format!(
            "Landfalls of rivers that split over land are not counted in {}, of an earlier version: no change of the landfalls of atmospheric rivers is called significant.",
            names.format_runs(&without)
        ));
    }
}
