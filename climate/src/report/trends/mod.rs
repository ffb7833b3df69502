//! One self-contained HTML file of the trends within a run: words first, then series, then numbers.

mod figures;

use crate::compare::{in_percent, unit_of, words_of_months};
use crate::report::changes;
use crate::report::html::escape;
use crate::report::numbers::counted;
use crate::report::page::{Section, Shell};
use crate::report::parts::{self, Sentence, Verdict, number_cell};
use crate::trends::{MIN_YEARS, NoTrend, TrendRow, Trends, note_untested, statement};
use squall_data::Class;

/// Additions to the style of the page of changes.
const STYLE: &str = include_str!("../assets/trends.css");

/// The page of the trends of a run; `command` is the command that made it.
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
        has_maps: false,
        tail: String::new(),
    };
    shell.html()
}

fn header(trends: &Trends, title: &str) -> String {
    let run = &trends.run;
    let tested = if is_tested(trends) {
        format!("{} % intervals", in_percent(trends.confidence))
    } else {
        "not tested".into()
    };
    let mut facts = vec![words_of_months(&trends.months), tested];
    facts.extend(run.grid.as_ref().map(|grid| format!("grid {grid}")));
    let about = format!(
        "<p><strong>{}</strong>: {}{} ({})</p>",
        escape(&run.label),
        parts::months_of(&trends.months),
        escape(&counted(run.years.len(), "year")),
        escape(&span(trends))
    );
    parts::header("Squall trends", title, &about, &facts)
}

/// Whether any row has a trend and its test.
fn is_tested(trends: &Trends) -> bool {
    trends.trends.iter().any(|row| row.trend.p.is_some())
}

/// The years of the run, such as `1951 to 2100`, with a remark on gaps.
fn span(trends: &Trends) -> String {
    let years = &trends.run.years;
    let (Some(first), Some(last)) = (years.first(), years.last()) else {
        return "no years".into();
    };
    let whole = last - first + 1 == years.len() as i64;
    let gaps = if whole { "" } else { ", with gaps" };
    let from = parts::each_from(trends.year_start);
    format!("{}{gaps}{from}", parts::from_to(*first, *last))
}

/// The `wanted` rows of a class in which some year has an event.
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

fn to_sentences(rows: Vec<&TrendRow>, trends: &Trends) -> Vec<Sentence> {
    (rows.into_iter())
        .filter_map(|row| {
            let verdict = Verdict::from_p(row.trend.p, row.significant);
            Some((statement(row, trends)?, verdict))
        })
        .collect()
}

fn summary(trends: &Trends) -> Section {
    let mut html = String::new();
    let mut verdicts = Vec::new();
    for class in classes(trends) {
        let whole = rows_of(trends, class, TrendRow::is_of_all);
        let folded = rows_of(trends, class, |row| row.is_of_part() && row.significant);
        let [whole, folded] = [whole, folded].map(|rows| to_sentences(rows, trends));
        verdicts.extend(whole.iter().chain(&folded).map(|(_, verdict)| *verdict));
        html += &parts::sentences(class, &whole, &folded, "trend");
    }
    if html.is_empty() {
        html.push_str("<p>No year has any event.</p>\n");
    }
    html += &parts::marks(&verdicts);
    let lead = what_is_tested(trends);
    // The lead has said it.
    let notes = trends.notes.iter().filter(|note| **note != lead);
    html += &parts::warnings(&notes.cloned().collect::<Vec<_>>());
    Section {
        id: "summary".into(),
        nav: "In short".into(),
        heading: "What rises and falls".into(),
        lead,
        html,
    }
}

/// Says what makes a trend significant, or why none is tested.
fn what_is_tested(trends: &Trends) -> String {
    if let Some(note) = note_untested(trends) {
        return note;
    }
    if is_tested(trends) {
        "A trend is called significant where years without one, each depending on the one before as much as here, would seldom seem to have one as clear, counted for all rows together.".into()
    } else {
        "No trend is tested: the sentences say why.".into()
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
        // Seasons of hemispheres and basins would be most of the rows; they are in the files.
        let whole = |row: &TrendRow| row.is_of_all() || row.is_of_part();
        let cells: Vec<Vec<String>> = (rows_of(trends, class, whole).iter())
            .map(|row| cells_of(row, &trends.months))
            .collect();
        html += &parts::folded_table(class, "slopes", &columns, &cells);
    }
    Section {
        id: "numbers".into(),
        nav: "Numbers".into(),
        heading: "All numbers".into(),
        lead: "The same as trends.csv and trends.json, which have more digits, every season of every hemisphere and basin, and why there is no trend where there is none. yearly.csv has the values of all years.".into(),
        html,
    }
}

/// The cells of a row in the table of all numbers.
fn cells_of(row: &TrendRow, months: &[i64]) -> Vec<String> {
    let trend = &row.trend;
    vec![
        parts::quantity_cell(row.quantity, &unit_of(&row.unit, months)),
        parts::place_cell(row.group, row.quantity.about().class),
        trend.years.to_string(),
        number_cell(trend.mean, 3),
        number_cell(trend.sd, 3),
        parts::main_cell(trend.slope, row.significant),
        parts::interval_cell(trend.interval),
        number_cell(row.relative.map(|relative| 100.0 * relative), 3),
        number_cell(trend.persistence, 2),
        parts::p_cell(trend.p),
        parts::p_cell(row.adjusted_p),
    ]
}

fn method(trends: &Trends, command: &str) -> Section {
    let counted = format!(
        "A track counts for the year, the season, the basin and the hemisphere in which it begins, an object for those in which it is. Only whole years count. {}",
        parts::seasons_of_years(trends.year_start)
    );
    let needed = format!(
        "At least {MIN_YEARS} years must be known, and 70 % of those from the first to the last."
    );
    let paragraphs = if is_tested(trends) {
        let [slope, adjusted, limits] = of_tests(trends);
        vec![format!("{slope} {needed}"), adjusted, counted, limits]
    } else {
        vec![format!("No trend was computed. {needed}"), counted]
    };
    let run = &trends.run;
    let folder = run.folder.display();
    let words = format!("{}: {folder}, calendar {}", run.label, run.calendar);
    parts::method(&paragraphs, &[("Run".into(), words)], command)
}

/// How slopes and p were found, how p is adjusted, and which uncertainties both leave out.
fn of_tests(trends: &Trends) -> [String; 3] {
    let confidence = in_percent(trends.confidence);
    [
        format!(
            "The slope is Sen's: the median of the slopes between any two years, which a few extreme years do not move. p is that of a two-sided Mann-Kendall test that accounts for equal values and persistence: the variance of Kendall's S is multiplied by the ratio of the number of years to the effective number of independent years (Yue and Wang 2004), from the correlation of the ranks of neighbouring years without the trend. The ends of the {confidence} % interval are the most extreme slopes that the same test does not reject."
        ),
        "p-values are adjusted by Benjamini and Hochberg's procedure in families: the rows of the whole Earth and year, those of hemispheres and basins, those of seasons, those of seasons of hemispheres and basins. Significant is what has an adjusted p below one minus the confidence; a mean or percentile also needs values of about the same share of tracks in both halves of the years.".into(),
        "The line need not be straight: a slope also summarises a rise that is slow at first and fast later. Intervals cover random variation from year to year. They do not cover errors of the model or of the detection; a trend of a reanalysis or of best tracks may come from changes in what was observed, and how.".into(),
    ]
}
