//! One self-contained HTML file with the changes between two runs: words first, then intervals, maps and return levels.

mod distributions;
mod extremes;
mod maps;
mod method;
mod seasons;
mod whiskers;

use crate::compare::{
    ChangeRow, Comparison, Group, SideSummary, Unit, capital, in_percent, note_untested, statement,
    unit_of, untested, words_of_months,
};
use crate::error::Result;
use crate::report::class_word;
use crate::report::html::escape;
use crate::report::numbers::{counted, grouped};
use crate::report::page::{Section, Shell};
use crate::report::parts::{self, Sentence, Verdict, number_cell};
use squall_data::Class;
use std::fmt::Write as _;

/// Additions to the common style sheet.
pub(crate) const STYLE: &str = include_str!("../assets/changes.css");

/// The page of a comparison; `command` is the command that made it.
///
/// # Errors
/// [`crate::ClimateError::Data`] if a picture cannot be encoded.
pub fn changes_page(comparison: &Comparison, title: &str, command: &str) -> Result<String> {
    let sections = sections(comparison, command)?;
    let shell = Shell {
        title,
        generator: concat!("squall ", env!("CARGO_PKG_VERSION")),
        style: STYLE,
        header: header(comparison, title),
        sections: &sections,
        has_maps: true,
        tail: String::new(),
    };
    Ok(shell.html())
}

/// All sections of a comparison, in reading order.
fn sections(comparison: &Comparison, command: &str) -> Result<Vec<Section>> {
    let sections = [
        Some(summary(comparison)),
        intervals(comparison),
        maps::section(comparison)?,
        distributions::section(comparison),
        extremes::extremes(comparison),
        Some(numbers(comparison)),
        Some(method::section(comparison, command)),
    ];
    Ok(sections.into_iter().flatten().collect())
}

/// The comparison as one section of another page, where it is number `index` of its kind.
///
/// # Errors
/// [`crate::ClimateError::Data`] if a picture cannot be encoded.
pub(crate) fn section(comparison: &Comparison, index: usize) -> Result<Section> {
    let (a, b) = (&comparison.a.label, &comparison.b.label);
    let mut html = sides(comparison);
    for part in sections(comparison, "")? {
        // One level down: the parts' section headings become h3. The summary's heading is the section's own.
        let inner = part.html.replace("<h3>", "<h4>").replace("</h3>", "</h4>");
        if part.id != "summary" {
            let _ = writeln!(html, "<h3>{}</h3>", escape(&part.heading));
        }
        let _ = write!(
            html,
            "<p class=\"lead\">{}</p>\n{inner}",
            escape(&part.lead)
        );
    }
    Ok(Section {
        id: format!("changes-{}", index + 1).into(),
        nav: "Changes".into(),
        heading: format!("What changes: {b} against {a}").into(),
        lead: String::new(),
        html,
    })
}

/// The legend of the two runs' colours.
fn legend(comparison: &Comparison) -> String {
    format!(
        "<ul class=\"legend\"><li><i class=\"key side-a\"></i>{}</li><li><i class=\"key side-b\"></i>{}</li></ul>\n",
        escape(&comparison.a.label),
        escape(&comparison.b.label)
    )
}

/// Both runs with their colours and years.
fn sides(comparison: &Comparison) -> String {
    let from = parts::each_from(comparison.year_start);
    let of = parts::months_of(&comparison.months);
    let side = |key: &str, side: &SideSummary| {
        format!(
            "<p><i class=\"key {key}\"></i> <strong>{}</strong>: {of}{} ({}{from})</p>",
            escape(&side.label),
            escape(&counted(side.years.len(), "year")),
            escape(&span(side))
        )
    };
    side("side-a", &comparison.a) + &side("side-b", &comparison.b)
}

/// The years of a side, such as `1979 to 2008`, with a remark on gaps and the number of members.
fn span(side: &SideSummary) -> String {
    let (Some(first), Some(last)) = (side.years.iter().min(), side.years.iter().max()) else {
        return "no years".into();
    };
    let runs = side.runs();
    let is_whole = |run: &SideSummary| last - first + 1 == run.years.len() as i64;
    let gaps = match (runs.iter().all(is_whole), runs.len()) {
        (true, _) => "",
        (false, 1) => ", with gaps",
        (false, _) => ", not all of them in each",
    };
    let members = match side.members.len() {
        0 => String::new(),
        members => format!("{members} members, "),
    };
    format!("{members}{}{gaps}", parts::from_to(*first, *last))
}

fn header(comparison: &Comparison, title: &str) -> String {
    let mut facts = vec![words_of_months(&comparison.months)];
    facts.extend(match untested(comparison) {
        Some(_) => vec!["not tested".into()],
        None => vec![
            format!("{} resamples", grouped(comparison.draws.draws as f64, 0)),
            format!("{} % intervals", in_percent(comparison.draws.confidence)),
        ],
    });
    facts.extend(match (&comparison.a.grid, &comparison.b.grid) {
        (Some(a), Some(b)) if a != b => Some(format!("grids {a} against {b}")),
        (Some(grid), _) | (None, Some(grid)) => Some(format!("grid {grid}")),
        (None, None) => None,
    });
    parts::header("Squall comparison", title, &sides(comparison), &facts)
}

/// The classes with a part on the page: those that both runs cover. Tracks of other tools only cover cyclones, masks of
/// rivers only rivers.
fn classes(comparison: &Comparison) -> impl Iterator<Item = Class> + '_ {
    let has_rows = |class: Class| !rows_of(comparison, class, |_| true).is_empty();
    (Class::TRACKED.into_iter()).filter(move |class| has_rows(*class))
}

/// The rows of a class whose group is `wanted`.
fn rows_of(
    comparison: &Comparison,
    class: Class,
    wanted: impl Fn(Group) -> bool,
) -> Vec<&ChangeRow> {
    (comparison.changes.iter())
        .filter(|row| row.quantity.about().class == class && wanted(row.group()))
        .collect()
}

fn to_sentences(rows: Vec<&ChangeRow>, comparison: &Comparison) -> Vec<Sentence> {
    (rows.into_iter())
        .filter_map(|row| {
            let verdict = Verdict::from_p(row.change.p, row.significant);
            Some((statement(row, comparison)?, verdict))
        })
        .collect()
}

fn summary(comparison: &Comparison) -> Section {
    let mut html = String::new();
    let mut verdicts = Vec::new();
    for class in classes(comparison) {
        let whole = rows_of(comparison, class, |group| group == Group::ALL);
        let mut folded = rows_of(comparison, class, Group::is_region_or_season);
        folded.retain(|row| row.significant);
        let [whole, folded] = [whole, folded].map(|rows| to_sentences(rows, comparison));
        verdicts.extend(whole.iter().chain(&folded).map(|(_, verdict)| *verdict));
        if whole.is_empty() {
            let name = capital(class_word(class));
            let none = "<p>Neither side has any such event.</p>";
            let _ = writeln!(html, "<h3>{name}s</h3>\n{none}");
        } else {
            html += &parts::sentences(class, &whole, &folded, "change");
        }
    }
    html += &parts::marks(&verdicts);
    let lead = what_is_tested(comparison);
    // The lead has said it.
    let notes = comparison.notes.iter().filter(|note| **note != lead);
    html += &parts::warnings(&notes.cloned().collect::<Vec<_>>());
    Section {
        id: "summary".into(),
        nav: "In short".into(),
        heading: "What changes".into(),
        lead: format!(
            "From {} to {}. {lead}",
            comparison.a.label, comparison.b.label
        ),
        html,
    }
}

/// Says what makes a change significant, or why none is tested.
fn what_is_tested(comparison: &Comparison) -> String {
    if let Some(note) = note_untested(comparison) {
        return note;
    }
    let units = match comparison.unit {
        Unit::Year => "years",
        Unit::Member | Unit::Pair => "members",
    };
    format!(
        "A change is called significant where {units} randomly assigned to the two sides would seldom differ as much, considering all rows together."
    )
}

fn intervals(comparison: &Comparison) -> Option<Section> {
    let mut html = String::from("<div class=\"grid lone\">\n");
    let mut drawn = 0;
    for class in classes(comparison) {
        let name = capital(class_word(class));
        let tracks = |row: &&ChangeRow| row.name == "tracks";
        let all = rows_of(comparison, class, |group| group == Group::ALL);
        let regions = rows_of(comparison, class, |g| {
            g.region.is_some() && g.season.is_none()
        });
        let seasons = rows_of(comparison, class, |g| {
            g.region.is_none() && g.season.is_some()
        });
        let by_place = seasons.into_iter().chain(regions);
        let by_place: Vec<&ChangeRow> = by_place.filter(tracks).collect();
        for (rows, title, by_part) in [
            (all, format!("{name}s: change in percent"), false),
            (
                by_place,
                format!(
                    "{name}s: number of tracks by season, hemisphere and {} of origin",
                    parts::region_word(class)
                ),
                true,
            ),
        ] {
            if let Some(svg) = whiskers::whiskers(&rows, class, by_part) {
                html += &crate::report::figures::figure(&title, &svg, "");
                drawn += 1;
            }
        }
    }
    html.push_str("</div>\n");
    for class in classes(comparison) {
        html += &seasons::table(comparison, class);
    }
    // Only tested changes have an interval to draw.
    html += &parts::marks(&[Verdict::Significant, Verdict::NotSignificant]);
    (drawn > 0).then(|| Section {
        id: "intervals".into(),
        nav: "Intervals".into(),
        heading: "How large, and how sure".into(),
        lead: format!(
            "Dots are the change in percent from {} to {}, lines its {} % interval; an arrow goes on beyond the axis. Pressure and latitude are in the table below: percent of them mean nothing.",
            comparison.a.label,
            comparison.b.label,
            in_percent(comparison.draws.confidence)
        ),
        html,
    })
}

fn numbers(comparison: &Comparison) -> Section {
    let columns = [
        ("Quantity", false),
        ("Where, when", false),
        (comparison.a.label.as_str(), true),
        (comparison.b.label.as_str(), true),
        ("Difference", true),
        ("Interval", true),
        ("Percent", true),
        ("p", true),
        ("p, adjusted", true),
    ];
    let mut html = String::new();
    for class in classes(comparison) {
        // Seasons of hemispheres and basins would be most of the rows; they are in the files.
        let whole = |group: Group| group.region.is_none() || group.season.is_none();
        let cells: Vec<Vec<String>> = rows_of(comparison, class, whole)
            .iter()
            .filter(|row| row.change.a.is_some() || row.change.b.is_some())
            .map(|row| cells_of(row, &comparison.months))
            .collect();
        html += &parts::folded_table(class, "differences", &columns, &cells);
    }
    Section {
        id: "numbers".into(),
        nav: "Numbers".into(),
        heading: "All numbers".into(),
        lead: "The same as changes.csv and changes.json, which have more digits, and every season of every hemisphere and basin.".into(),
        html,
    }
}

/// The cells of a row in the table of all numbers.
fn cells_of(row: &ChangeRow, months: &[i64]) -> Vec<String> {
    let change = &row.change;
    vec![
        parts::quantity_cell(row.quantity, &unit_of(&row.unit, months)),
        parts::place_cell(row.group(), row.quantity.about().class),
        number_cell(change.a, 3),
        number_cell(change.b, 3),
        parts::main_cell(change.difference, row.significant),
        parts::interval_cell(change.interval),
        number_cell(change.relative.map(|relative| 100.0 * relative), 3),
        number_cell(change.p, 2),
        number_cell(row.adjusted_p, 2),
    ]
}
