//! One self-contained HTML file of the trends within a run: words first, then series, then numbers.

mod figures;

use crate::compare::{capital, month_name, trimmed, words_of_months};
use crate::report::changes;
use crate::report::html::{Table, escape};
use crate::report::numbers::{counted, significant};
use crate::report::page::{Section, Shell};
use crate::report::{class_css, class_word};
use crate::trends::{MIN_YEARS, NoTrend, TrendRow, Trends, statement};
use squall_data::Class;
use std::fmt::Write as _;

/// What the page adds to that of changes.
const STYLE: &str = include_str!("../assets/trends.css");

/// The page of the trends of a run; `command` is what made it.
pub fn trends_page(trends: &Trends, title: &str, command: &str) -> String {
    let sections: Vec<Section> = [
        Some(summary(trends)),
        figures::series(trends),
        Some(numbers(trends)),
        Some(method(trends, command)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let style = format!("{}{STYLE}", changes::STYLE);
    let shell = Shell {
        title,
        generator: concat!("squall ", env!("CARGO_PKG_VERSION")),
        style: &style,
        header: header(trends, title),
        sections: &sections,
        tail: String::new(),
    };
    shell.html()
}

fn header(trends: &Trends, title: &str) -> String {
    let run = &trends.run;
    let mut facts = vec![
        words_of_months(&trends.months),
        format!("{} % intervals", trimmed(100.0 * trends.confidence)),
    ];
    facts.extend(run.grid.as_ref().map(|grid| format!("grid {grid}")));
    let facts = facts.iter().fold(String::new(), |mut out, fact| {
        let _ = write!(out, "<li>{}</li>", escape(fact));
        out
    });
    format!(
        "<header><div><p class=\"brand\">Squall trends</p>\n<h1>{}</h1>\n<div class=\"about\"><p><strong>{}</strong>: {} ({})</p></div>\n<ul class=\"facts\">{facts}</ul></div></header>\n",
        escape(title),
        escape(&run.label),
        escape(&counted(run.years.len(), "year")),
        escape(&span(trends))
    )
}

/// `1951 to 2100`, with gaps where some years do not count.
fn span(trends: &Trends) -> String {
    let years = &trends.run.years;
    let (Some(first), Some(last)) = (years.first(), years.last()) else {
        return "no years".into();
    };
    let whole = last - first + 1 == years.len() as i64;
    let gaps = if whole { "" } else { ", with gaps" };
    let from = match trends.year_start {
        1 => String::new(),
        month => format!(", each from {} on", month_name(month)),
    };
    format!("{first} to {last}{gaps}{from}")
}

/// Rows of a class, of which some year has an event.
fn rows_of(trends: &Trends, class: Class, wanted: impl Fn(&TrendRow) -> bool) -> Vec<&TrendRow> {
    (trends.trends.iter())
        .filter(|row| row.quantity.about().class == class && wanted(row))
        .filter(|row| row.trend.no_trend != Some(NoTrend::NoEvents))
        .collect()
}

/// Classes that have a part on the page.
fn classes(trends: &Trends) -> impl Iterator<Item = Class> {
    (Class::TRACKED.into_iter())
        .filter(move |class| !rows_of(trends, *class, TrendRow::is_of_all).is_empty())
}

/// Where and when the events of a row are: `North Atlantic`, `June to August`, `all`.
fn place(row: &TrendRow) -> String {
    let words = row.group.words();
    let words = words.trim_start_matches(" in ").trim_start_matches("the ");
    if words.is_empty() {
        "all".into()
    } else {
        capital(words)
    }
}

fn said(rows: &[&TrendRow], trends: &Trends) -> String {
    let mut out = String::from("<ul class=\"said\">\n");
    for row in rows {
        if let Some(text) = statement(row, trends) {
            let sure = if row.significant { " sure" } else { "" };
            let class = class_css(row.quantity.about().class);
            let _ = writeln!(out, "<li class=\"{class}{sure}\">{}</li>", escape(&text));
        }
    }
    out.push_str("</ul>\n");
    out
}

fn summary(trends: &Trends) -> Section {
    let mut html = String::new();
    for class in classes(trends) {
        let _ = writeln!(html, "<h3>{}s</h3>", capital(class_word(class)));
        html += &said(&rows_of(trends, class, TrendRow::is_of_all), trends);
        let parts = rows_of(trends, class, |row| row.is_of_part() && row.significant);
        if !parts.is_empty() {
            let _ = write!(
                html,
                "<details><summary>{} in parts of the Earth and seasons</summary>\n{}</details>\n",
                counted(parts.len(), "significant trend"),
                said(&parts, trends)
            );
        }
    }
    if html.is_empty() {
        html.push_str("<p>No year has any event.</p>\n");
    }
    html.push_str("<ul class=\"legend marks\"><li><i class=\"sure\"></i>significant</li><li><i></i>not significant</li></ul>\n");
    if !trends.notes.is_empty() {
        html.push_str("<div class=\"warnings\"><h3>Before you quote a number</h3><ul>\n");
        for note in &trends.notes {
            let _ = writeln!(html, "<li>{}</li>", escape(note));
        }
        html.push_str("</ul></div>\n");
    }
    Section {
        id: "summary".into(),
        nav: "In short".into(),
        heading: "What rises and falls".into(),
        lead: "A trend is called significant where years without one, each depending on the one before as much as here, would seldom seem to have one as clear, counted for all rows together.".into(),
        html,
    }
}

fn numbers(trends: &Trends) -> Section {
    let columns = [
        ("Quantity", false),
        ("Where, when", false),
        ("Years", true),
        ("Mean", true),
        ("Deviation", true),
        ("Slope per decade", true),
        ("Interval", true),
        ("Percent per decade", true),
        ("Persistence", true),
        ("p", true),
        ("p, adjusted", true),
    ];
    let mut html = String::new();
    for class in classes(trends) {
        // Seasons of regions are in the files: here they would be most rows.
        let whole = |row: &TrendRow| row.is_of_all() || row.is_of_part();
        let cells: Vec<Vec<String>> = (rows_of(trends, class, whole).iter())
            .map(|row| cells_of(row))
            .collect();
        let name = capital(class_word(class));
        let table = Table {
            caption: &format!("{name}s; significant slopes are bold"),
            columns: &columns,
            rows: &cells,
        };
        let _ = write!(
            html,
            "<details><summary>{name}: {} rows</summary>\n{}</details>\n",
            cells.len(),
            table.html()
        );
    }
    Section {
        id: "numbers".into(),
        nav: "Numbers".into(),
        heading: "All numbers".into(),
        lead: "The same as trends.csv and trends.json, which have more digits, every season of every region, and why there is no trend where there is none. yearly.csv has the values of all years.".into(),
        html,
    }
}

/// A row of the table of all numbers.
fn cells_of(row: &TrendRow) -> Vec<String> {
    let text = |value: Option<f64>, digits| value.map_or("–".into(), |v| significant(v, digits));
    let trend = &row.trend;
    let slope = text(trend.slope, 3);
    vec![
        format!(
            "{} <small>{}</small>",
            row.quantity.about().label,
            escape(&row.unit)
        ),
        place(row),
        trend.years.to_string(),
        text(trend.mean, 3),
        text(trend.sd, 3),
        if row.significant {
            format!("<strong>{slope}</strong>")
        } else {
            slope
        },
        trend.interval.map_or("–".into(), |i| {
            format!("{} to {}", significant(i.low, 3), significant(i.high, 3))
        }),
        text(row.relative.map(|relative| 100.0 * relative), 3),
        text(trend.persistence, 2),
        text(trend.p, 2),
        text(row.adjusted_p, 2),
    ]
}

fn method(trends: &Trends, command: &str) -> Section {
    let confidence = trimmed(100.0 * trends.confidence);
    let paragraphs = [
        format!(
            "The slope is Sen's: the median of the slopes between any two years, which a few extreme years do not move. p is that of a Mann-Kendall test, two-sided, with equal values and persistence regarded: the variance of Kendall's S is multiplied by the number of years by that of independent ones that would tell as much (Yue and Wang 2004), from the correlation of the ranks of neighbouring years without the trend. The {confidence} % interval has the slopes for its ends that the same test would just not refuse. At least {MIN_YEARS} years must be known, and 70 % of those from the first to the last."
        ),
        "p-values are adjusted by Benjamini and Hochberg's procedure in families: the rows of the whole Earth and year, those of parts of the Earth, those of seasons, those of seasons of parts of the Earth. Significant is what has an adjusted p below one minus the confidence.".into(),
        "A track counts for the year, the season and the basin in which it begins, an object for those in which it is. Only whole years count.".into(),
        "The line need not be straight: a slope sums up a rise that goes slowly first and fast later. Intervals hold chance from year to year. They do not hold errors of the model or of the detection; a trend of a reanalysis or of best tracks may be that of what was observed, and how.".into(),
    ];
    let mut html = String::from("<div class=\"prose\">\n");
    for paragraph in paragraphs {
        let _ = writeln!(html, "<p>{}</p>", escape(&paragraph));
    }
    let run = &trends.run;
    let _ = writeln!(
        html,
        "</div>\n<dl class=\"provenance\">\n<div><dt>Run</dt><dd>{}: {}, calendar {}</dd></div>\n</dl>",
        escape(&run.label),
        escape(&run.folder.display().to_string()),
        escape(&run.calendar)
    );
    if !command.is_empty() {
        let _ = writeln!(
            html,
            "<h3>The command</h3>\n<pre tabindex=\"0\">{}</pre>",
            escape(command)
        );
    }
    Section {
        id: "method".into(),
        nav: "Method".into(),
        heading: "How it was found".into(),
        lead: String::new(),
        html,
    }
}
