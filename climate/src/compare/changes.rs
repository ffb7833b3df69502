//! The change of every quantity in every group, with what is significant among many.

use super::{ChangeRow, Design, Group, Quantity, Side, adjusted_p};
use rayon::prelude::*;

/// The changes of all quantities that both sides know, in all groups, with p adjusted family by family.
pub(super) fn changes(
    a: &Side,
    b: &Side,
    design: &Design,
    whole_year: bool,
    notes: &mut Vec<String>,
) -> Vec<ChangeRow> {
    let told = |q: &Quantity| [a, b].iter().all(|side| side.tells(q.about().class));
    let known = |q: &Quantity| told(q) && a.knows(*q) && b.knows(*q);
    let absent: Vec<String> = (Quantity::ALL.iter().filter(|q| told(q) && !known(q)))
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
        .filter(|(_, group)| whole_year || group.season().is_none())
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
    for family in 0..Group::FAMILIES {
        let members: Vec<usize> = (0..rows.len())
            .filter(|&k| rows[k].group().family() == family)
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
