//! Whether two runs can be compared, and where they differ in more than their climate: grid, winds, rules, months and
//! years before their tables are read, classes and missing values after.

use super::{Coverage, PlannedSide, Quantity, Selection, Side, SideInput, words};
use crate::error::{ClimateError, Result};
use squall_data::Class;
use std::collections::BTreeSet;

/// Grids must be the same, unless asked otherwise; then a note says that they are not.
pub(super) fn check_grids(
    coverage: &[Coverage; 2],
    any_grid: bool,
    notes: &mut Vec<String>,
) -> Result<()> {
    let [Some(a), Some(b)] = coverage.each_ref().map(|c| c.grid.as_ref()) else {
        notes.push(
            "Without statistics.nc on both sides the grids are not known and taken to be the same."
                .into(),
        );
        return Ok(());
    };
    if a.same_as(b) {
        return Ok(());
    }
    if any_grid {
        notes.push(format!(
            "The grids differ ({} against {}): part of every change may be the resolution's.",
            a.describe(),
            b.describe()
        ));
        return Ok(());
    }
    Err(ClimateError::GridsDiffer {
        path: coverage[1].path.clone(),
        expected: a.describe(),
        other: coverage[0].path.clone(),
        found: b.describe(),
    })
}

/// Whether the winds of both runs are of one level, as far as their statistics say it; where they are not a note says so.
pub(super) fn share_wind(
    [a, b]: [&SideInput; 2],
    coverage: &[Coverage; 2],
    notes: &mut Vec<String>,
) -> bool {
    let [Some(of_a), Some(of_b)] = coverage.each_ref().map(|c| c.wind.as_ref()) else {
        // Two periods of one folder have the same winds, whatever they are.
        if a.folder != b.folder && coverage.iter().any(|c| c.grid.is_none()) {
            notes.push(
                "Without statistics.nc on both sides it is not known at what level winds are and over what time they are means: part of every change of wind, category and energy may be theirs (ten-minute means of best tracks are about a tenth below one-minute means)."
                    .into(),
            );
        }
        return true;
    };
    if of_a != of_b {
        notes.push(format!(
            "Winds are not compared, nor what follows from them (hurricanes, cyclone energy, the latitude when strongest), because they are of different levels ({}: {of_a}; {}: {of_b}).",
            a.label, b.label
        ));
    }
    of_a == of_b
}

/// Notes which numbers of the rules by which events and tracks were chosen differ, where both runs tell theirs.
pub(super) fn note_rules(
    inputs: [&SideInput; 2],
    coverage: &[Coverage; 2],
    notes: &mut Vec<String>,
) {
    const MOST: usize = 5;
    // How names of what made the masks begin.
    const MASKS: &str = "masks.";
    // Of which climate percentiles are.
    const CLIMATE: &str = "masks.percentile_climatology";
    let [a, b] = coverage.each_ref().map(|c| &c.rules);
    if a.is_empty() || b.is_empty() {
        return;
    }
    let climates = [a, b].map(|rules| rules.get(CLIMATE));
    if let [Some(of_a), Some(of_b)] = climates
        && of_a != of_b
    {
        let [a, b] = inputs.map(|input| &input.label);
        notes.push(format!(
            "Rivers are those by percentiles of two climates ({a}: {of_a}; {b}: {of_b}). Those of a warmer climate are higher, which hides a part of the change: `squall label --method percentile --climatology` takes those of one run for both."
        ));
    }
    let both_tell_climates = climates.iter().all(Option::is_some);
    let is_of_masks = |name: &String| name.starts_with(MASKS);
    // Statistics of earlier versions say nothing about them, and masks of other tools do not say how they were made.
    let both_tell_masks = [a, b].iter().all(|rules| rules.keys().any(is_of_masks));
    let names: BTreeSet<&String> = (a.keys().chain(b.keys()))
        .filter(|name| both_tell_masks || !is_of_masks(name))
        .filter(|name| !both_tell_climates || *name != CLIMATE)
        .collect();
    let differing: Vec<String> = (names.into_iter())
        .filter(|name| a.get(*name) != b.get(*name))
        .map(|name| {
            let [a, b] = [a, b].map(|rules| rules.get(name).map_or("none", String::as_str));
            format!("{name} ({a} against {b})")
        })
        .collect();
    if differing.is_empty() {
        return;
    }
    let more = match differing.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    notes.push(format!(
        "Events and tracks were chosen by different rules, so that part of every change may be theirs: {}{more}.",
        differing[..differing.len().min(MOST)].join(", ")
    ));
}

/// The months that are compared: those asked for, or those that both runs have.
pub(super) fn common_months(
    inputs: [&SideInput; 2],
    coverage: &[Coverage; 2],
    wanted: &[i64],
    notes: &mut Vec<String>,
) -> Result<Vec<i64>> {
    let seasons = coverage.each_ref().map(Coverage::seasons);
    for (input, found) in inputs.iter().zip(&seasons) {
        let lacking: Vec<i64> = wanted
            .iter()
            .copied()
            .filter(|m| !found.contains(m))
            .collect();
        if found.is_empty() || !lacking.is_empty() {
            let reason = if found.is_empty() {
                "no month of the year is whole; changes need whole months of several years"
                    .to_string()
            } else {
                format!(
                    "it has {}, not {}",
                    words::months(found),
                    words::months(&lacking)
                )
            };
            return Err(ClimateError::Period {
                path: input.folder.clone(),
                reason,
            });
        }
    }
    let mut months: Vec<i64> = match wanted {
        [] => seasons[0]
            .iter()
            .copied()
            .filter(|m| seasons[1].contains(m))
            .collect(),
        chosen => chosen.to_vec(),
    };
    months.sort_unstable();
    months.dedup();
    if months.is_empty() {
        return Err(ClimateError::NoCommonMonths {
            path: inputs[1].folder.clone(),
            expected: words::months(&seasons[0]),
            found: words::months(&seasons[1]),
        });
    }
    if wanted.is_empty() && seasons[0] != seasons[1] {
        notes.push(format!(
            "{} has {}, {} has {}: only {} are compared.",
            inputs[0].label,
            words::months(&seasons[0]),
            inputs[1].label,
            words::months(&seasons[1]),
            words::months(&months)
        ));
    }
    Ok(months)
}

/// Notes what a year is called that does not begin with January, and that years part a season where the compared months
/// go on from the end of one year into the next.
pub(super) fn note_year(selection: &Selection, notes: &mut Vec<String>) {
    let first = words::month_name(selection.year_start);
    if selection.year_start != 1 {
        notes.push(format!(
            "Years begin with {first} and are called after the calendar year of that month: 2001 is {first} 2001 to {} 2002.",
            words::month_name(selection.year_start - 1)
        ));
    }
    if let Some(start) = selection.parted_season() {
        notes.push(format!(
            "Years begin with {first}: {} of one of them are the end of one season and the beginning of the next, also for annual extremes. `squall compare --year-start {start}` keeps seasons whole.",
            words::months(&selection.months)
        ));
    }
}

/// A sentence on the month that years must begin with so that more than `used` of them are whole, if there is one: many
/// runs begin with December.
fn better_start(side: &PlannedSide, used: usize) -> String {
    let options = &side.options;
    if !options.selection.whole_year() {
        return String::new();
    }
    let whole = |year_start: i64| {
        let selection = Selection {
            year_start,
            ..options.selection.clone()
        };
        side.coverage.years(&selection, options.range).used.len()
    };
    // Of equally good months the first.
    let best = (1..=12).map(|start| (whole(start), start)).rev();
    match best.max_by_key(|(years, _)| *years) {
        Some((years, start)) if years > used => format!(
            " {years} are whole if they begin with {} (`squall compare --year-start {start}`).",
            words::month_name(start)
        ),
        _ => String::new(),
    }
}

/// Notes which years are not used; a side without any is refused.
pub(super) fn check_years(side: &PlannedSide, notes: &mut Vec<String>) -> Result<()> {
    let PlannedSide {
        input, coverage, ..
    } = side;
    let years = side.years();
    if years.used.is_empty() {
        let reason = match (&side.options.range, years.left_out.first()) {
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
        let listed: Vec<String> = (years.left_out.iter().take(5))
            .map(|(year, reason)| format!("{year} ({reason})"))
            .collect();
        let more = years.left_out.len().saturating_sub(5);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        notes.push(format!(
            "Years of {} that are not whole are left out: {}{more}.{}",
            input.label,
            listed.join(", "),
            better_start(side, years.used.len())
        ));
    }
    if !coverage.counted {
        notes.push(format!(
            "{} has no statistics.nc: its analysed times are taken to run from the first to the last event ({}), and numbers by time are left out.",
            input.label, coverage.calendar
        ));
    }
    Ok(())
}

/// Notes which classes that only boxes tell apart are compared, and which classes are not because one run's tables have
/// no row of them.
pub(super) fn note_classes(labels: [&str; 2], sides: [&Side; 2], notes: &mut Vec<String>) {
    let (mut both, mut one) = (Vec::new(), Vec::new());
    for class in Class::TRACKED {
        let words = format!("{}s", class.name().replace('_', " "));
        match sides.map(|side| side.tells(class)) {
            [true, true] if !Class::EVENTS.contains(&class) => both.push(words),
            [true, false] => one.push((class, words, labels[1])),
            [false, true] => one.push((class, words, labels[0])),
            _ => {}
        }
    }
    if !both.is_empty() {
        notes.push(format!(
            "Maps and return levels are of tropical cyclones and atmospheric rivers only, not of {}.",
            both.join(" and ")
        ));
    }
    for (class, words, lacking) in one {
        let words = words[..1].to_uppercase() + &words[1..];
        let why = if Class::EVENTS.contains(&class) {
            ", and nothing says that they were looked for"
        } else {
            " (tables made of masks never have)"
        };
        notes.push(format!(
            "{words} are not compared: the tables of {lacking} have none of them{why}."
        ));
    }
}

/// Notes how many tracks begin after a hole in the data.
pub(super) fn note_continued(labels: [&str; 2], sides: [&Side; 2], notes: &mut Vec<String>) {
    for (label, side) in labels.into_iter().zip(sides) {
        let tracks = match side.continued {
            0 => continue,
            1 => "1 track is".to_string(),
            more => format!("{more} tracks are"),
        };
        notes.push(format!(
            "In the compared years of {label} {tracks} there after a hole in the data: a storm that a hole cuts counts twice."
        ));
    }
}

/// Notes in which years numbers by year are unknown, because tracks or events lack the value that they are a sum of.
pub(super) fn note_unknown_years(labels: [&str; 2], sides: [&Side; 2], notes: &mut Vec<String>) {
    let compared = |q: &Quantity| {
        let mut sides = sides.iter();
        sides.all(|side| side.tells(q.about().class) && side.knows(*q))
    };
    for (label, side) in labels.into_iter().zip(sides) {
        // Those of one cause are unknown in the same years.
        let mut by_years: Vec<(Vec<i64>, Vec<String>)> = Vec::new();
        for quantity in Quantity::all().filter(compared) {
            let years = side.unknown_years(quantity);
            if years.is_empty() {
                continue;
            }
            let about = quantity.about();
            let name = format!("{} {}", about.class.name(), about.name);
            match by_years.iter_mut().find(|(known, _)| *known == years) {
                Some((_, names)) => names.push(name),
                None => by_years.push((years, vec![name])),
            }
        }
        note_partly_known(label, side, Quantity::all().filter(compared), notes);
        for (years, names) in by_years {
            notes.push(format!(
                "Of {label} {} of {} years are not counted for {}, because more than half of their tracks or events have no value: {}.",
                years.len(),
                side.years.used.len(),
                names.join(", "),
                words::years_in_words(&years)
            ));
        }
    }
}

/// Says which numbers by year count tracks or events without a value as none.
fn note_partly_known(
    label: &str,
    side: &Side,
    compared: impl Iterator<Item = Quantity>,
    notes: &mut Vec<String>,
) {
    // Those of one cause lack the same share.
    let mut by_share: Vec<(String, Vec<String>)> = Vec::new();
    for quantity in compared {
        let Some(share) = side.share_without(quantity) else {
            continue;
        };
        let about = quantity.about();
        let share = format!("{:.0} %", 100.0 * share);
        let name = format!("{} {}", about.class.name(), about.name);
        match by_share.iter_mut().find(|(known, _)| *known == share) {
            Some((_, names)) => names.push(name),
            None => by_share.push((share, vec![name])),
        }
    }
    for (share, names) in by_share {
        notes.push(format!(
            "Of {label} {share} of the tracks or events have no value for {}: they count as none.",
            names.join(", ")
        ));
    }
}

/// One run's years on both sides would be taken for different weather: no interval and no p would hold.
pub(super) fn check_apart(sides: &[PlannedSide; 2]) -> Result<()> {
    let [a, b] = sides.each_ref().map(|side| {
        let folder = &side.input.folder;
        folder.canonicalize().unwrap_or(folder.clone())
    });
    let [years_a, years_b] = sides.each_ref().map(|side| side.years().used);
    let both = |year: &&i64| years_b.contains(year);
    let shared: Vec<i64> = years_a.iter().filter(both).copied().collect();
    match (a == b, shared.first(), shared.last()) {
        (true, Some(first), Some(last)) => Err(ClimateError::SharedYears {
            path: sides[0].input.folder.clone(),
            first: *first,
            last: *last,
        }),
        _ => Ok(()),
    }
}
