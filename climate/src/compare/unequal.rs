//! Notes on data that only some of the runs have: classes, values, tracks cut by a gap in the data.

use super::names::{Names, grouped};
use super::side::Ensemble;
use super::{ChangeRow, Group, Quantity, Side, is_of_values, unequal_shares, words};
use crate::track::{Pieces, note_of_pieces};
use squall_data::Class;

/// Appended to the note on pieces of rivers.
pub(crate) const NO_LIFETIME: &str = "Lifetimes leave them out.";

/// Maximum number of members whose years are listed.
const MAX_LISTED: usize = 5;

/// All runs with their numbers, those of the first side first.
pub(super) fn runs(sides: [&Ensemble; 2]) -> impl Iterator<Item = (usize, &Side)> {
    let runs = sides.into_iter().flat_map(|side| side.members());
    runs.enumerate()
}

/// The runs for which `holds` is false.
pub(super) fn lacking(sides: [&Ensemble; 2], holds: impl Fn(&Side) -> bool) -> Vec<usize> {
    let without = runs(sides).filter(|(_, run)| !holds(run));
    without.map(|(run, _)| run).collect()
}

/// Notes which classes known only from boxes are compared, and which classes are not because the tables of a run have
/// no rows of them.
pub(super) fn note_classes(names: &Names, sides: [&Ensemble; 2], notes: &mut Vec<String>) {
    let all = runs(sides).count();
    let (mut both, mut some) = (Vec::new(), Vec::new());
    for class in Class::TRACKED {
        let plural = format!("{}s", class.name().replace('_', " "));
        let without = lacking(sides, |run| run.covers(class));
        match without.len() {
            0 if !Class::EVENTS.contains(&class) => both.push(plural),
            0 => {}
            few if few < all => some.push((class, plural, names.format_runs(&without))),
            _ => {}
        }
    }
    if !both.is_empty() {
        notes.push(format!(
            "Maps and return levels are of tropical cyclones and atmospheric rivers only, not of {}.",
            both.join(" and ")
        ));
    }
    for (class, plural, without) in some {
        let plural = words::capital(&plural);
        let why = if Class::EVENTS.contains(&class) {
            ", and nothing says that they were looked for"
        } else {
            " (tables made of masks never have)"
        };
        notes.push(format!(
            "{plural} are not compared: the tables of {without} have none of them{why}."
        ));
    }
}

/// Notes how many tracks begin after a gap in the data.
pub(super) fn note_continued(names: &Names, sides: [&Ensemble; 2], notes: &mut Vec<String>) {
    for (label, side) in names.labels().into_iter().zip(sides) {
        let continued = side.members().iter().map(|run| run.continued);
        let tracks = match continued.sum::<usize>() {
            0 => continue,
            1 => "1 track begins".to_string(),
            more => format!("{more} tracks begin"),
        };
        notes.push(format!(
            "In the compared years of {label} {tracks} after a gap in the data: a storm interrupted by a gap counts twice."
        ));
    }
}

/// Notes which share of river tracks are pieces, if rivers are compared.
pub(super) fn note_pieces(names: &Names, sides: [&Ensemble; 2], notes: &mut Vec<String>) {
    let class = Class::AtmosphericRiver;
    if !sides.iter().all(|side| side.covers(class)) {
        return;
    }
    let of = |(label, side): (&str, &Ensemble)| {
        let runs = side.members().iter().map(|run| run.pieces);
        (label.to_string(), runs.fold(Pieces::default(), Pieces::and))
    };
    let of: Vec<(String, Pieces)> = names.labels().into_iter().zip(sides).map(of).collect();
    notes.extend(note_of_pieces(&of).map(|note| format!("{note} {NO_LIFETIME}")));
}

/// Notes the years in which annual numbers or means are unknown because tracks or events lack the summed value.
pub(super) fn note_unknown_years(names: &Names, sides: [&Ensemble; 2], notes: &mut Vec<String>) {
    let compared = |quantity: &Quantity| {
        let mut sides = sides.iter();
        sides.all(|side| side.covers(quantity.about().class) && side.knows(*quantity))
    };
    for ((label, members), side) in names.labels().into_iter().zip(names.members()).zip(sides) {
        note_partly_known(label, side, Quantity::all().filter(compared), notes);
        let unknown = Quantity::all().filter(compared).filter_map(|quantity| {
            let runs = side.members().iter();
            let years: Vec<Vec<i64>> = runs.map(|run| run.unknown_years(quantity)).collect();
            let some = years.iter().any(|years| !years.is_empty());
            some.then_some((quantity as usize, years))
        });
        // Quantities with a common cause are unknown in the same years.
        for (years, quantities) in grouped(unknown, |a, b| a == b) {
            // Years of an unknown mean have no known extreme either.
            let is_extreme = |quantity: Quantity| quantities.contains(&(quantity as usize));
            let extremes = [Quantity::CycloneWind, Quantity::CyclonePressure];
            let too = match extremes.into_iter().any(is_extreme) {
                true => " Return levels and distributions of these leave the years out, too.",
                false => "",
            };
            notes.push(format!(
                "Of {label} {} of {} years are not counted for {}, because more than half of their tracks or events have no value: {}.{too}",
                years.iter().map(Vec::len).sum::<usize>(),
                side.years(),
                quantity_names(&quantities),
                years_of_members(&years, members)
            ));
        }
    }
}

/// Calls no change significant for which the sides lack the values of different shares of tracks or events, and notes
/// it.
pub(super) fn withhold(
    names: &Names,
    sides: [&Ensemble; 2],
    rows: &mut [ChangeRow],
    notes: &mut Vec<String>,
) {
    let (mut everywhere, mut in_parts) = (Vec::new(), Vec::new());
    for row in rows {
        let (quantity, group) = (row.quantity, row.group());
        let [a, b] = sides.map(|side| side.total_and_valued(quantity, group));
        let (Some(a), Some(b)) = (a, b) else { continue };
        let Some(shares) = unequal_shares([a, b]) else {
            continue;
        };
        if group == Group::ALL {
            let shares = shares.map(|share| format!("{:.0} %", 100.0 * share));
            everywhere.push((quantity as usize, (shares, bias_of_valueless(quantity))));
        } else if row.significant {
            in_parts.push(quantity as usize);
        }
        row.significant = false;
    }
    in_parts.retain(|place| everywhere.iter().all(|(other, _)| other != place));
    in_parts.dedup();
    let [label_a, label_b] = names.labels();
    // Quantities with a common cause lack the same shares.
    for (([a, b], bias), quantities) in grouped(everywhere, |a, b| a == b) {
        notes.push(format!(
            "Of {label_a} {a} and of {label_b} {b} of the tracks or events have no value for {}: no change of these is called significant, because {bias}.",
            quantity_names(&quantities)
        ));
    }
    if !in_parts.is_empty() {
        notes.push(format!(
            "In some basins or seasons {label_a} and {label_b} lack the values of different shares of tracks or events for {}: these changes are not called significant.",
            quantity_names(&in_parts)
        ));
    }
}

/// The names in tables of quantities given by their indices in [`Quantity::all`].
pub(crate) fn quantity_names(places: &[usize]) -> String {
    let all = Quantity::all().filter(|quantity| places.contains(&(*quantity as usize)));
    let names = all.map(|quantity| {
        let about = quantity.about();
        format!("{} {}", about.class.name(), about.name)
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Years of the runs of a side; with member names if there are several runs.
fn years_of_members(years: &[Vec<i64>], members: &[String]) -> String {
    if let [only] = years {
        return words::years_in_words(only);
    }
    let some: Vec<String> = (years.iter().zip(members))
        .filter(|(years, _)| !years.is_empty())
        .map(|(years, member)| format!("{} of {member}", words::years_in_words(years)))
        .collect();
    match some.len().saturating_sub(MAX_LISTED) {
        0 => some.join("; "),
        more => format!(
            "{}; and of {more} more members",
            some[..MAX_LISTED].join("; ")
        ),
    }
}

/// The share of tracks or events without a value of all years, and an addition about the counted years where it is
/// another.
pub(crate) fn shares_in_words(shares: [f64; 2]) -> (String, String) {
    let [all, counted] = shares.map(|share| format!("{:.0} %", 100.0 * share));
    let addition = if counted == all {
        String::new()
    } else {
        format!(", of those of the counted years {counted}")
    };
    (all, addition)
}

/// What becomes of tracks or events without a value.
pub(crate) fn fate_of_valueless(quantity: Quantity) -> &'static str {
    if is_of_values(quantity) {
        "are left out"
    } else {
        "count as none"
    }
}

/// Why different shares of tracks or events without a value are a change of their own.
pub(crate) fn bias_of_valueless(quantity: Quantity) -> &'static str {
    if is_of_values(quantity) {
        "tracks without a value, mostly weak ones, are left out of one more than of the other"
    } else {
        "what has no value counts as none, in one more than in the other"
    }
}

/// Notes which annual numbers count tracks or events without a value as none, and which means leave them out.
fn note_partly_known(
    label: &str,
    side: &Ensemble,
    compared: impl Iterator<Item = Quantity>,
    notes: &mut Vec<String>,
) {
    let without = compared.filter_map(|quantity| {
        let shares = side.shares_without(quantity)?;
        Some((
            quantity as usize,
            (shares_in_words(shares), fate_of_valueless(quantity)),
        ))
    });
    // Quantities with a common cause lack the same share.
    for (((share, counted), fate), quantities) in grouped(without, |a, b| a == b) {
        notes.push(format!(
            "Of {label} {share} of the tracks or events have no value for {}{counted}: they {fate}.",
            quantity_names(&quantities)
        ));
    }
}
