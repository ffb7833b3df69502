//! What the tables of a run tell, and what a reader must know where they do not.

use crate::compare::words::years_in_words;
use crate::compare::{Quantity, Side};

/// The quantities of the classes that a run tells of.
pub(super) fn told(side: &Side) -> impl Iterator<Item = Quantity> {
    Quantity::all().filter(move |quantity| side.tells(quantity.about().class))
}

/// Notes what the tables lack: columns, values of whole years, values of some tracks or events, tracks across a hole.
pub(super) fn add(label: &str, side: &Side, notes: &mut Vec<String>) {
    let (known, lacking): (Vec<Quantity>, Vec<Quantity>) =
        told(side).partition(|quantity| side.knows(*quantity));
    if !lacking.is_empty() {
        notes.push(format!(
            "Left out, because the tables of {label} lack their columns or values: {}.",
            names(&lacking)
        ));
    }
    let share = |quantity: Quantity| {
        let share = side.share_without(quantity)?;
        Some(format!("{:.0} %", 100.0 * share))
    };
    for (share, quantities) in alike(&known, share) {
        notes.push(format!(
            "{share} of the tracks or events have no value for {}: they count as none.",
            names(&quantities)
        ));
    }
    let unknown = |quantity: Quantity| {
        let years = side.unknown_years(quantity);
        (!years.is_empty()).then_some(years)
    };
    for (years, quantities) in alike(&known, unknown) {
        notes.push(format!(
            "{} of {} years are unknown for {}, because more than half of their tracks or events have no value: {}.",
            years.len(),
            side.years.used.len(),
            names(&quantities),
            years_in_words(&years)
        ));
    }
    if side.continued > 0 {
        let are = if side.continued == 1 {
            "track is"
        } else {
            "tracks are"
        };
        notes.push(format!(
            "{} {are} there after a hole in the data: a storm that a hole cuts counts twice.",
            side.continued
        ));
    }
}

/// Quantities with what is to be said of them, those of one cause together.
fn alike<T: PartialEq>(
    quantities: &[Quantity],
    said: impl Fn(Quantity) -> Option<T>,
) -> Vec<(T, Vec<Quantity>)> {
    let mut groups: Vec<(T, Vec<Quantity>)> = Vec::new();
    for &quantity in quantities {
        let Some(own) = said(quantity) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, members)) => members.push(quantity),
            None => groups.push((own, vec![quantity])),
        }
    }
    groups
}

/// Class and name of each quantity.
fn names(quantities: &[Quantity]) -> String {
    let abouts = quantities.iter().map(|quantity| quantity.about());
    let names: Vec<String> = abouts
        .map(|about| format!("{} {}", about.class.name(), about.name))
        .collect();
    names.join(", ")
}
