//! Changes that are not called significant because the runs differ in more than their climate.

use super::names::{Names, grouped};
use super::side::Ensemble;
use super::unequal::runs;
use super::{ChangeRow, Kind, Quantity, Side};
use crate::track::LANDFALLS_OF_PIECES;
use squall_data::Class;

/// A smaller share of missing cells cannot make a change significant.
const MIN_MISSING_SHARE: f64 = 0.001;

/// The quantities that [`follows_cells`] is true of, in words.
pub(crate) const FOLLOWS_CELLS: &str = "the numbers of tropical cyclones and atmospheric rivers, what adds up over them (energy, landfalls, cover, rain), their area and length";

/// Whether a quantity depends on how many cells the masks have: no event is found in missing cells, and those at their
/// edge are cut.
pub(crate) fn follows_cells(quantity: Quantity) -> bool {
    use Quantity::{CycloneArea, RiverArea, RiverLength};
    let about = quantity.about();
    let adds_up = matches!(about.kind, Kind::PerYear | Kind::PerTime);
    let is_size = [CycloneArea, RiverArea, RiverLength].contains(&quantity);
    Class::EVENTS.contains(&about.class) && (adds_up || is_size)
}

/// The share of the cells of a run's masks that are missing, in words; `None` if negligible.
pub(crate) fn missing_cells(run: &Side) -> Option<String> {
    let share = run.coverage.missing_share;
    (share >= MIN_MISSING_SHARE).then(|| format!("{:.1} %", 100.0 * share))
}

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

/// Calls no change that depends on the number of cells significant, and notes it, if the masks of a run lack some:
/// which ones, and when, is not recorded.
pub(super) fn withhold_where_missing(
    names: &Names,
    sides: [&Ensemble; 2],
    rows: &mut [ChangeRow],
    notes: &mut Vec<String>,
) {
    let shares = runs(sides).filter_map(|(run, side)| Some((run, missing_cells(side)?)));
    let shares: Vec<String> = (grouped(shares, |a, b| a == b).into_iter())
        .map(|(share, runs)| format!("{}: {share}", names.format_runs(&runs)))
        .collect();
    if !shares.is_empty() && silence(rows, follows_cells) {
        notes.push(format!(
            "Cells of masks are missing ({}), and no event is found there: no change of {FOLLOWS_CELLS} is called significant, because it may be theirs. The map of the change of frequency counts them as cells without events.",
            shares.join("; ")
        ));
    }
}
