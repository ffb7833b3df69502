//! One self-contained HTML file of what changed between two runs: words first, then intervals, maps and return levels.

mod distributions;
mod figures;
mod maps;
mod method;
mod seasons;

use crate::compare::{
    ChangeRow, Comparison, Group, SideSummary, Unit, capital, month_name, statement, trimmed,
};
use crate::error::Result;
use crate::report::html::{Table, escape};
use crate::report::numbers::{counted, grouped, significant};
use crate::report::page::{Section, Shell};
use crate::report::{class_css, class_word};
use squall_data::Class;
use std::fmt::Write as _;

/// What the page adds to the common style sheet.
pub(crate) const STYLE: &str = include_str!("../assets/changes.css");

/// The page of a comparison; `command` is what made it.
///
/// # Errors
/// [`crate::ClimateError::Data`] if a picture cannot be made.
pub fn changes_page(comparison: &Comparison, title: &str, command: &str) -> Result<String> {
    let sections = parts(comparison, command)?;
    let shell = Shell {
        title,
        generator: concat!("squall ", env!("CARGO_PKG_VERSION")),
        style: STYLE,
        header: header(comparison, title),
        sections: &sections,
        tail: String::new(),
    };
    Ok(shell.html())
}

/// Everything that is said of a comparison, in reading order.
fn parts(comparison: &Comparison, command: &str) -> Result<Vec<Section>> {
    let parts = [
        Some(summary(comparison)),
        intervals(comparison),
        maps::section(comparison)?,
        distributions::section(comparison),
        figures::extremes(comparison),
        Some(numbers(comparison)),
        Some(method::section(comparison, command)),
    ];
    Ok(parts.into_iter().flatten().collect())
}

/// The comparison as one section of another page, the `index`-th of its kind.
///
/// # Errors
/// [`crate::ClimateError::Data`] if a picture cannot be made.
pub(crate) fn section(comparison: &Comparison, index: usize) -> Result<Section> {
    let (a, b) = (&comparison.a.label, &comparison.b.label);
    let mut html = sides(comparison);
    for part in parts(comparison, "")? {
        // One level down: what was a section's heading is a part's here. "What changes" is the section's own.
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

/// Which colour is which run.
fn legend(comparison: &Comparison) -> String {
    format!(
        "<ul class=\"legend\"><li><i class=\"key side-a\"></i>{}</li><li><i class=\"key side-b\"></i>{}</li></ul>\n",
        escape(&comparison.a.label),
        escape(&comparison.b.label)
    )
}

/// Both runs with their colours and years.
fn sides(comparison: &Comparison) -> String {
    let from = match comparison.year_start {
        1 => String::new(),
        month => format!(", each from {} on", month_name(month)),
    };
    let side = |key: &str, side: &SideSummary| {
        format!(
            "<p><i class=\"key {key}\"></i> <strong>{}</strong>: {} ({}{from})</p>",
            escape(&side.label),
            escape(&counted(side.years.len(), "year")),
            escape(&span(side))
        )
    };
    side("side-a", &comparison.a) + &side("side-b", &comparison.b)
}

/// `1979 to 2008`, and whether some between are missing; of how many members.
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
    format!("{members}{first} to {last}{gaps}")
}

fn header(comparison: &Comparison, title: &str) -> String {
    let mut facts = vec![
        crate::compare::words_of_months(&comparison.months),
        format!("{} resamples", grouped(comparison.draws.draws as f64, 0)),
        format!(
            "{} % intervals",
            trimmed(100.0 * comparison.draws.confidence)
        ),
    ];
    facts.extend(
        comparison
            .a
            .grid
            .as_ref()
            .map(|grid| format!("grid {grid}")),
    );
    let facts = facts.iter().fold(String::new(), |mut out, fact| {
        let _ = write!(out, "<li>{}</li>", escape(fact));
        out
    });
    format!(
        "<header><div><p class=\"brand\">Squall comparison</p>\n<h1>{}</h1>\n<div class=\"about\">{}</div>\n<ul class=\"facts\">{facts}</ul></div></header>\n",
        escape(title),
        sides(comparison)
    )
}

/// Classes that have a part on the page: those that both runs tell about. Tracks of other tools are cyclones alone,
/// masks of rivers rivers alone.
fn classes(comparison: &Comparison) -> impl Iterator<Item = Class> + '_ {
    let has_rows = |class: Class| !rows_of(comparison, class, |_| true).is_empty();
    (Class::TRACKED.into_iter()).filter(move |class| has_rows(*class))
}

/// Rows of a class in some groups.
fn rows_of(
    comparison: &Comparison,
    class: Class,
    wanted: impl Fn(Group) -> bool,
) -> Vec<&ChangeRow> {
    (comparison.changes.iter())
        .filter(|row| row.quantity.about().class == class && wanted(row.group()))
        .collect()
}

fn said(rows: &[&ChangeRow], comparison: &Comparison) -> String {
    let mut out = String::from("<ul class=\"said\">\n");
    for row in rows {
        if let Some(text) = statement(row, comparison) {
            let sure = if row.significant { " sure" } else { "" };
            let class = class_css(row.quantity.about().class);
            let _ = writeln!(out, "<li class=\"{class}{sure}\">{}</li>", escape(&text));
        }
    }
    out.push_str("</ul>\n");
    out
}

fn summary(comparison: &Comparison) -> Section {
    let mut html = String::new();
    for class in classes(comparison) {
        let _ = writeln!(html, "<h3>{}s</h3>", capital(class_word(class)));
        html += &said(
            &rows_of(comparison, class, |group| group == Group::ALL),
            comparison,
        );
        let parts: Vec<&ChangeRow> = rows_of(comparison, class, Group::is_region_or_season)
            .into_iter()
            .filter(|row| row.significant)
            .collect();
        if !parts.is_empty() {
            let what = counted(parts.len(), "significant change");
            let _ = write!(
                html,
                "<details><summary>{what} in hemispheres, basins and seasons</summary>\n{}</details>\n",
                said(&parts, comparison)
            );
        }
    }
    html.push_str("<ul class=\"legend marks\"><li><i class=\"sure\"></i>significant</li><li><i></i>not significant</li></ul>\n");
    if !comparison.notes.is_empty() {
        html.push_str("<div class=\"warnings\"><h3>Before you quote a number</h3><ul>\n");
        for note in &comparison.notes {
            let _ = writeln!(html, "<li>{}</li>", escape(note));
        }
        html.push_str("</ul></div>\n");
    }
    Section {
        id: "summary".into(),
        nav: "In short".into(),
        heading: "What changes".into(),
        lead: format!(
            "From {} to {}. A change is called significant where {} dealt to the two sides by chance would seldom differ as much, counted for all rows together.",
            comparison.a.label,
            comparison.b.label,
            match comparison.unit {
                Unit::Year => "years",
                Unit::Member | Unit::Pair => "members",
            }
        ),
        html,
    }
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
        let parts = seasons.into_iter().chain(regions);
        let parts: Vec<&ChangeRow> = parts.filter(tracks).collect();
        for (rows, title, by_part) in [
            (all, format!("{name}s: change in percent"), false),
            (
                parts,
                format!("{name}s: number of tracks by season, hemisphere and basin of origin"),
                true,
            ),
        ] {
            if let Some(svg) = figures::whiskers(&rows, class, by_part) {
                html += &crate::report::figures::figure(&title, &svg, "");
                drawn += 1;
            }
        }
    }
    html.push_str("</div>\n");
    for class in classes(comparison) {
        html += &seasons::table(comparison, class);
    }
    html.push_str("<ul class=\"legend marks\"><li><i class=\"sure\"></i>significant</li><li><i></i>not significant</li></ul>\n");
    (drawn > 0).then(|| Section {
        id: "intervals".into(),
        nav: "Intervals".into(),
        heading: "How large, and how sure".into(),
        lead: format!(
            "Dots are the change in percent from {} to {}, lines its {} % interval; an arrow goes on beyond the axis. Pressure and latitude are in the table below: percent of them mean nothing.",
            comparison.a.label,
            comparison.b.label,
            trimmed(100.0 * comparison.draws.confidence)
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
        // Seasons of hemispheres and basins are in the files: here they would be most rows.
        let whole = |group: Group| group.region.is_none() || group.season.is_none();
        let cells: Vec<Vec<String>> = rows_of(comparison, class, whole)
            .iter()
            .filter(|row| row.change.a.is_some() || row.change.b.is_some())
            .map(|row| cells_of(row))
            .collect();
        if cells.is_empty() {
            continue;
        }
        let caption = format!(
            "{}s; significant differences are bold",
            capital(class_word(class))
        );
        let table = Table {
            caption: &caption,
            columns: &columns,
            rows: &cells,
        };
        let _ = write!(
            html,
            "<details><summary>{}: {} rows</summary>\n{}</details>\n",
            capital(class_word(class)),
            cells.len(),
            table.html()
        );
    }
    Section {
        id: "numbers".into(),
        nav: "Numbers".into(),
        heading: "All numbers".into(),
        lead: "The same as changes.csv and changes.json, which have more digits, and every season of every hemisphere and basin.".into(),
        html,
    }
}

/// A row of the table of all numbers.
fn cells_of(row: &ChangeRow) -> Vec<String> {
    let text = |value: Option<f64>| value.map_or("–".to_string(), |v| significant(v, 3));
    let change = &row.change;
    let group = row.group();
    let place = match (group.region, group.season) {
        (None, None) => "all",
        (Some(region), None) => region.name(),
        (_, Some(_)) => row.season.as_str(),
    };
    let difference = text(change.difference);
    vec![
        format!(
            "{} <small>{}</small>",
            row.quantity.about().label,
            escape(&row.unit)
        ),
        place.into(),
        text(change.a),
        text(change.b),
        if row.significant {
            format!("<strong>{difference}</strong>")
        } else {
            difference
        },
        change.interval.map_or("–".into(), |i| {
            format!("{} to {}", significant(i.low, 3), significant(i.high, 3))
        }),
        change
            .relative
            .map_or("–".into(), |r| significant(100.0 * r, 3)),
        change.p.map_or("–".into(), |p| significant(p, 2)),
        row.adjusted_p.map_or("–".into(), |p| significant(p, 2)),
    ]
}
