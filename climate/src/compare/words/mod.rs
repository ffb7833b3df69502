//! Sentences about the changes between two runs.

mod numbers;

use numbers::decimals;
pub(crate) use numbers::{in_percent, p_text, percent, signed_value, trimmed, value};

use crate::compare::design::{Change, Interval, MIN_BLOCKS, NoInterval};
use crate::compare::group::Group;
use crate::compare::levels::{RETURN_YEARS, ReturnLevels, spoken_unit};
use crate::compare::quantity::QuantityInfo;
use crate::compare::{
    ChangeRow, Comparison, MapQuantity, MapSummary, SideSummary, Unit, false_rate, is_of_values,
    needs_values,
};
use squall_data::Class;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Index in [`RETURN_YEARS`] of the level used in sentences: 20 years.
pub(crate) const SPOKEN_LEVEL: usize = 3;

/// The name of a month, 1 to 12; other numbers wrap around: 13 is January, 0 December.
pub(crate) fn month_name(month: i64) -> &'static str {
    MONTHS[(month - 1).rem_euclid(12) as usize]
}

/// Months in words: `June to November`, `all months`, `January, March`.
pub(crate) fn months(months: &[i64]) -> String {
    let name = month_name;
    let has = |month: i64| months.contains(&((month - 1).rem_euclid(12) + 1));
    match months {
        [] => return "no months".into(),
        [only] => return name(*only).into(),
        all if all.len() == 12 => return "all months".into(),
        _ => {}
    }
    let starts: Vec<i64> = months.iter().copied().filter(|m| !has(m - 1)).collect();
    if let [start] = starts.as_slice() {
        return format!(
            "{} to {}",
            name(*start),
            name(start + months.len() as i64 - 1)
        );
    }
    let names: Vec<&str> = months.iter().map(|m| name(*m)).collect();
    names.join(", ")
}

/// How often what adds up over a year is counted: `a year`, or the months of each year that are compared. Fourteen
/// cyclones of August to October are not "14 a year".
pub(crate) fn each_year(of: &[i64]) -> String {
    let words = months(of);
    match of.len() {
        0 | 12 => "a year".into(),
        _ if words.contains(", ") => format!("in {words} of each year"),
        _ => format!("each {words}"),
    }
}

/// A unit in words: amounts a year are those of the compared months.
pub(crate) fn unit_of(unit: &str, months: &[i64]) -> String {
    match unit.strip_suffix("a year") {
        Some(amount) => format!("{amount}{}", each_year(months)),
        None => unit.into(),
    }
}

/// Years in words: `1952 to 1975, 1980`. `years` ascend; consecutive ones are joined, and only the first few ranges are
/// named.
pub(crate) fn years_in_words(years: &[i64]) -> String {
    const MAX_LISTED: usize = 5;
    let stretches: Vec<&[i64]> = years.chunk_by(|a, b| a + 1 == *b).collect();
    let words = |stretch: &&[i64]| match stretch {
        [first, .., last] => format!("{first} to {last}"),
        _ => stretch.iter().map(i64::to_string).collect(),
    };
    let said: Vec<String> = stretches.iter().take(MAX_LISTED).map(words).collect();
    let more: usize = stretches.iter().skip(MAX_LISTED).map(|s| s.len()).sum();
    match more {
        0 => said.join(", "),
        more => format!("{} and {more} more", said.join(", ")),
    }
}

/// All sentences: those about the whole globe and year, then significant ones about hemispheres, basins and seasons,
/// then those about maps and return levels.
pub(crate) fn statements(comparison: &Comparison) -> Vec<String> {
    let of = |wanted: &dyn Fn(&ChangeRow) -> bool| -> Vec<String> {
        (comparison.changes.iter())
            .filter(|row| wanted(row))
            .filter_map(|row| statement(row, comparison))
            .collect()
    };
    let mut all = of(&|row| row.group() == Group::ALL);
    // Seasons of hemispheres and basins would add hundreds of sentences.
    all.extend(of(&|row| {
        row.group().is_region_or_season() && row.significant
    }));
    all.extend(comparison.maps.iter().map(|map| of_map(map, comparison)));
    all.extend(
        comparison
            .return_levels
            .iter()
            .map(|levels| of_level(levels, comparison)),
    );
    all
}

/// The sentence for a row; `None` if neither run has an event.
pub fn statement(row: &ChangeRow, comparison: &Comparison) -> Option<String> {
    let about = row.quantity.about();
    let change = &row.change;
    let subject = format!("{}{}", about.subject, row.group().words(about.class));
    let years = years(row, comparison);
    let unit = unit_of(about.unit, &comparison.months);
    let (a, b) = match (change.a, change.b) {
        (Some(a), Some(b)) => (a, b),
        (None, None) => return None,
        (known, _) => {
            let (with, without) = match known {
                Some(_) => (&comparison.a.label, &comparison.b.label),
                None => (&comparison.b.label, &comparison.a.label),
            };
            let value = value(change.a.or(change.b).unwrap_or(f64::NAN));
            // A mean is also unknown where most of the events have no value.
            let none = if is_of_values(row.quantity) {
                "none known"
            } else {
                "no events"
            };
            return Some(capital(&format!(
                "{subject} cannot be compared: {value} {unit} in {with}, {none} in {without}; {years}."
            )));
        }
    };
    if change.no_interval == Some(NoInterval::NoEvents) && a == 0.0 && b == 0.0 {
        return None;
    }
    let Some(interval) = shown_interval(&about, change) else {
        let why = match untested(comparison) {
            // It is said once for all sentences.
            Some(_) => String::new(),
            None => format!("; no interval, because {}", reason_of_row(row, comparison)),
        };
        let relative = change.relative.map_or(String::new(), |r| {
            format!(" ({})", percent(r, decimals(r).max(1), true))
        });
        return Some(capital(&format!(
            "{subject}: {} against {} {unit}{relative}{why}; {years}.",
            value(a),
            value(b)
        )));
    };
    let evidence = evidence(&about, change, interval, comparison);
    if !row.significant {
        let number = if about.counted { "the number of " } else { "" };
        let verdict = match (comparison.has_no_power(), change.p) {
            (true, Some(_)) => format!("Too few {} to tell a change", comparison.too_few()),
            _ => "No significant change".into(),
        };
        return Some(format!(
            "{verdict} of {number}{subject}: {} ({evidence}{}); {years}.",
            amount(&about, change, &unit, true),
            after_correction(row, comparison)
        ));
    }
    let rises = b > a;
    let amount = amount(&about, change, &unit, false);
    let text = match (
        about.counted && about.relative && change.relative.is_some(),
        rises,
    ) {
        (true, true) => format!("{subject} become {amount} more frequent ({evidence}); {years}."),
        (true, false) => format!("{subject} become {amount} fewer ({evidence}); {years}."),
        (false, true) => format!(
            "{subject} {} by {amount} ({evidence}); {years}.",
            verb(&about, "rise")
        ),
        (false, false) => format!(
            "{subject} {} by {amount} ({evidence}); {years}.",
            verb(&about, "fall")
        ),
    };
    Some(capital(&text))
}

/// The verb for the subject: countable subjects are plural, so their verb has no s.
pub(crate) fn verb(about: &QuantityInfo, word: &str) -> String {
    if about.counted {
        word.into()
    } else {
        format!("{word}s")
    }
}

/// The note that nothing is tested, if a side has too few years or members.
pub(crate) fn note_untested(comparison: &Comparison) -> Option<String> {
    untested(comparison)
        .map(|why| format!("No change is tested or has an interval, because {why}."))
}

/// Why nothing is tested and no number has an interval, if a side has too few years or members for either.
pub(crate) fn untested(comparison: &Comparison) -> Option<String> {
    let fewest = comparison.a.blocks.min(comparison.b.blocks);
    (fewest < MIN_BLOCKS).then(|| reason(None, comparison))
}

/// The reason for a missing interval, in words.
pub(crate) fn reason(reason: Option<NoInterval>, comparison: &Comparison) -> String {
    match reason {
        Some(NoInterval::TooFewYears) | None => {
            let (a, b) = (&comparison.a, &comparison.b);
            let few = if a.blocks < MIN_BLOCKS { a } else { b };
            let are_years = few.blocks == few.years.len();
            let s = if few.blocks == 1 { "" } else { "s" };
            // A year of which three months are compared is not whole.
            let (whole, of) = match comparison.months.len() {
                0 | 12 => ("whole ", String::new()),
                _ => ("", format!(" of {}", months(&comparison.months))),
            };
            let blocks = match (comparison.unit, are_years) {
                (Unit::Member | Unit::Pair, _) => format!("member{s}"),
                (Unit::Year, true) => format!("{whole}year{s}{of}"),
                (Unit::Year, false) => format!("block{s} of {whole}years{of}"),
            };
            format!(
                "{} has only {} {blocks} and at least {MIN_BLOCKS} are needed",
                few.label, few.blocks
            )
        }
        Some(NoInterval::TooFewEvents) => "too few years have such events".into(),
        Some(NoInterval::NoEvents) => "there are no such events".into(),
        Some(NoInterval::BeyondRecord) => "a side has less than half as many years".into(),
    }
}

/// The reason for the missing interval of a row, in words: if it is known in too few years, events are not what is
/// missing.
fn reason_of_row(row: &ChangeRow, comparison: &Comparison) -> String {
    let of_sides = row.years.map(|[a, b]| {
        if a <= b {
            (a, &comparison.a.label)
        } else {
            (b, &comparison.b.label)
        }
    });
    match (row.change.no_interval, of_sides) {
        (Some(NoInterval::TooFewEvents), Some((years, label))) if years < MIN_BLOCKS => {
            let (s, is) = if years == 1 { ("", "is") } else { ("s", "are") };
            format!("only {years} year{s} of {label} {is} known")
        }
        (reason_of_change, _) => reason(reason_of_change, comparison),
    }
}

/// The number of years in which a row is known, of how many members, and which of their months, in words.
fn years(row: &ChangeRow, comparison: &Comparison) -> String {
    let sides = [&comparison.a, &comparison.b];
    let [a, b] = row
        .years
        .unwrap_or_else(|| sides.map(|side| side.years.len()));
    let [of_a, of_b] = sides.map(of_members);
    let s = if a == 1 { "" } else { "s" };
    let only = match comparison.months.as_slice() {
        [] => String::new(),
        all if all.len() == 12 => String::new(),
        some => format!(", {} only", months(some)),
    };
    format!("{a} year{s}{of_a} against {b}{of_b}{only}")
}

/// ` of 4 members`, or empty for a side of one run.
fn of_members(side: &SideSummary) -> String {
    match side.members.len() {
        0 => String::new(),
        members => format!(" of {members} members"),
    }
}

/// The interval for a sentence: of the relative change if percentages are meaningful, otherwise of the difference. Also
/// of the difference if the relative change has no upper end, because a run has no event in too many resamples.
fn shown_interval(about: &QuantityInfo, change: &Change) -> Option<Interval> {
    relative_interval(about, change).or(change.interval)
}

/// The interval of the relative change, if percentages are meaningful.
fn relative_interval(about: &QuantityInfo, change: &Change) -> Option<Interval> {
    let means = about.relative && change.relative.is_some();
    change.relative_interval.filter(|_| means)
}

/// The size of a change: in percent if meaningful, otherwise in the quantity's unit.
fn amount(about: &QuantityInfo, change: &Change, unit: &str, signed: bool) -> String {
    match change.relative.filter(|_| about.relative) {
        Some(relative) => percent(relative, decimals(relative), signed),
        None => {
            let difference = change.difference.unwrap_or(f64::NAN);
            let text = value(difference.abs());
            let sign = match (signed, difference < 0.0) {
                (true, true) => "-",
                (true, false) => "+",
                (false, _) => "",
            };
            format!("{sign}{text} {unit}")
        }
    }
}

/// The confidence interval and the p-value, in words.
fn evidence(
    about: &QuantityInfo,
    change: &Change,
    interval: Interval,
    comparison: &Comparison,
) -> String {
    let ends = if relative_interval(about, change).is_some() {
        // An end next to zero does not give the other one digits that nobody knows.
        let digits = decimals(interval.low).max(decimals(interval.high)).min(1);
        let low = percent(interval.low, digits, true);
        format!(
            "{} to {}",
            low.trim_end_matches(" %"),
            percent(interval.high, digits, true)
        )
    } else {
        format!(
            "{} to {} {}",
            signed_value(interval.low),
            signed_value(interval.high),
            unit_of(about.unit, &comparison.months)
        )
    };
    let p = change
        .p
        .map_or(String::new(), |p| format!(", {}", p_text(p)));
    format!(
        "{} % interval {ends}{p}",
        in_percent(comparison.draws.confidence)
    )
}

/// An addition for changes whose p is small but which are not significant: after correction, or because the sides
/// differ in more than climate, such as in the share of tracks without a value; otherwise empty.
fn after_correction(row: &ChangeRow, comparison: &Comparison) -> &'static str {
    let is_small = |p: Option<f64>| p.is_some_and(|p| p < false_rate(comparison.draws.confidence));
    if is_small(row.adjusted_p) && is_of_values(row.quantity) && needs_values(row.quantity) {
        ", but more tracks of one side have no value"
    } else if is_small(row.adjusted_p) {
        // Numbers may be withheld for several reasons.
        ", but maybe not by climate alone, as the notes say"
    } else if is_small(row.change.p) {
        " for this row alone, more after correction for the number of rows"
    } else {
        ""
    }
}

/// The sentence about the number of changed cells of a map.
fn of_map(map: &MapSummary, comparison: &Comparison) -> String {
    let (name, class) = (map.name.as_str(), map.class.as_str());
    let quantity = MapQuantity::ALL.into_iter().find(|q| q.name() == name);
    let class = Class::EVENTS.into_iter().find(|c| c.name() == class);
    let subject = match (quantity, class) {
        (Some(quantity), Some(class)) => quantity.subject(class),
        _ => name,
    };
    let rate = in_percent(false_rate(comparison.draws.confidence));
    if map.tested == 0 {
        let why = untested(comparison).unwrap_or_else(|| "there are no such events".into());
        return format!("The map of the {subject} is not tested, because {why}.");
    }
    if comparison.has_no_power() {
        return format!(
            "The map of the {subject} cannot have a significant change: there are too few {}.",
            comparison.too_few()
        );
    }
    format!(
        "The {subject} rises significantly in {} and falls in {} of {} cells of 5 degrees (false discovery rate {rate} %).",
        map.increases, map.decreases, map.tested
    )
}

/// The sentence about the change of a return level.
pub(crate) fn of_level(levels: &ReturnLevels, comparison: &Comparison) -> String {
    let subject = capital(&levels.subject);
    let Some(change) = levels.changes.get(SPOKEN_LEVEL) else {
        let (label, fit) = if levels.fits[0].gev.is_none() {
            (&comparison.a.label, &levels.fits[0])
        } else {
            (&comparison.b.label, &levels.fits[1])
        };
        let why = fit.reason().unwrap_or_default();
        return format!("{subject} has no return levels: {label} has {why}.");
    };
    let years = RETURN_YEARS[SPOKEN_LEVEL];
    let without = years_without(levels, comparison);
    if change.difference.is_none() {
        return format!(
            "{subject} has no level of {years} years: events come in too few years{without}."
        );
    }
    let (factor, unit) = spoken_unit(&levels.unit);
    let spoken = |value: Option<f64>| factor * value.unwrap_or(f64::NAN);
    let (a, b) = (spoken(change.a), spoken(change.b));
    let interval = change.interval.map_or_else(
        || "no interval".into(),
        |i| {
            format!(
                "change {} {unit}, {} % interval {} to {} {unit}",
                signed_value(b - a),
                in_percent(comparison.draws.confidence),
                signed_value(factor * i.low),
                signed_value(factor * i.high)
            )
        },
    );
    format!(
        "{subject} in {years} years is {} {unit} against {} {unit} ({interval}{without}).",
        value(a),
        value(b)
    )
}

/// The number of years without an event: `; 12 of 30 years of present without any`, or empty.
fn years_without(levels: &ReturnLevels, comparison: &Comparison) -> String {
    let labels = [&comparison.a.label, &comparison.b.label];
    let sides = levels.fits.iter().zip(labels);
    let lacking = sides.filter(|(fit, _)| fit.years_without() > 0);
    let said = lacking.map(|(fit, label)| {
        format!(
            "; {} of {} years of {label} without any",
            fit.years_without(),
            fit.years
        )
    });
    said.collect()
}

/// The text with its first letter capitalised.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests;
