//! The common parts of pages on changes and on trends: header, sentences, notes, cells, tables, method.

use crate::compare::{Group, Interval, Quantity, SEASONS, capital, month_name, words_of_months};
use crate::report::html::{Table, escape, marked, unbroken};
use crate::report::numbers::{counted, significant};
use crate::report::page::Section;
use crate::report::{class_css, class_word};
use crate::statistics::Basin;
use squall_data::Class;
use std::fmt::Write as _;

/// The cell of an unknown value.
const UNKNOWN: &str = "–";

/// What a test says of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Significant,
    NotSignificant,
    /// Nothing was tested: there is no p.
    NotTested,
}

impl Verdict {
    /// Every one of them, in the order of legends.
    const ALL: [Self; 3] = [Self::Significant, Self::NotSignificant, Self::NotTested];

    /// That of a row with this p.
    pub(crate) fn from_p(p: Option<f64>, is_significant: bool) -> Self {
        match (p, is_significant) {
            (_, true) => Self::Significant,
            (Some(_), false) => Self::NotSignificant,
            (None, false) => Self::NotTested,
        }
    }

    /// The word in a legend, and the class of the mark in style sheets.
    fn about(self) -> (&'static str, &'static str) {
        match self {
            Self::Significant => ("significant", "sure"),
            Self::NotSignificant => ("not significant", "unsure"),
            Self::NotTested => ("not tested", "untested"),
        }
    }
}

/// The legend of significance marks: those that occur; empty if none does.
pub(crate) fn marks(verdicts: &[Verdict]) -> String {
    let items: String = (Verdict::ALL.into_iter())
        .filter(|verdict| verdicts.contains(verdict))
        .map(|verdict| {
            let (word, css) = verdict.about();
            format!("<li><i class=\"{css}\"></i>{word}</li>")
        })
        .collect();
    if items.is_empty() {
        return items;
    }
    format!("<ul class=\"legend marks\">{items}</ul>\n")
}

/// The header of a page: its kind, title, subject (`about`, HTML) and facts.
pub(crate) fn header(brand: &str, title: &str, about: &str, facts: &[String]) -> String {
    let facts = facts.iter().fold(String::new(), |mut out, fact| {
        let _ = write!(out, "<li>{}</li>", escape(fact));
        out
    });
    format!(
        "<header><div><p class=\"brand\">{brand}</p>\n<h1>{}</h1>\n<div class=\"about\">{about}</div>\n<ul class=\"facts\">{facts}</ul></div></header>\n",
        escape(title)
    )
}

/// A suffix for spans of years: the month in which years begin, if not January.
pub(crate) fn each_from(year_start: i64) -> String {
    match year_start {
        1 => String::new(),
        month => format!(", each from {} on", month_name(month)),
    }
}

/// The months of a number of years, if not all: `August to October of `.
pub(crate) fn months_of(months: &[i64]) -> String {
    match months.len() {
        0 | 12 => String::new(),
        _ => format!("{} of ", words_of_months(months)),
    }
}

/// Years from the first to the last: `1979 to 2008`, `2005`.
pub(crate) fn from_to(first: i64, last: i64) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first} to {last}")
    }
}

/// Explains which months make up a season if years begin with month `start`.
pub(crate) fn seasons_of_years(start: i64) -> String {
    // Number of months of this month's season that precede it.
    let before = start % 3;
    let first = month_name(start);
    if start == 1 {
        "December, January and February of one calendar year make one season.".into()
    } else if before == 0 {
        format!("Years begin with {first}, so that each season is in one piece.")
    } else {
        let [second, third] = match before {
            1 => [start + 1, start - 1],
            _ => [start - 2, start - 1],
        };
        format!(
            "Years begin with {first}: {first}, {} and {} of one such year, in this order, make one season.",
            month_name(second),
            month_name(third)
        )
    }
}

/// A sentence, and what a test says of it.
pub(crate) type Sentence = (String, Verdict);

/// The sentences of a class: those on the whole Earth and year, and, folded, those on hemispheres, basins and seasons,
/// each of which is a significant `what`.
pub(crate) fn sentences(
    class: Class,
    whole: &[Sentence],
    folded: &[Sentence],
    what: &str,
) -> String {
    let list = |sentences: &[Sentence]| {
        let mut out = String::from("<ul class=\"said\">\n");
        for (text, verdict) in sentences {
            let _ = writeln!(
                out,
                "<li class=\"{} {}\">{}</li>",
                class_css(class),
                verdict.about().1,
                escape(&unbroken(text))
            );
        }
        out + "</ul>\n"
    };
    let mut html = format!("<h3>{}s</h3>\n{}", capital(class_word(class)), list(whole));
    if !folded.is_empty() {
        let _ = write!(
            html,
            "<details><summary>{} in hemispheres, basins and seasons</summary>\n{}</details>\n",
            counted(folded.len(), &format!("significant {what}")),
            list(folded)
        );
    }
    html
}

/// The list of caveats; empty if there are none.
pub(crate) fn warnings(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let mut html = String::from("<div class=\"warnings\"><h3>Before you quote a number</h3><ul>\n");
    for note in notes {
        let _ = writeln!(html, "<li>{}</li>", marked(note));
    }
    html + "</ul></div>\n"
}

/// The name and unit of a quantity.
pub(crate) fn quantity_cell(quantity: Quantity, unit: &str) -> String {
    format!("{} <small>{}</small>", quantity.about().label, escape(unit))
}

/// The word for a region of a class.
pub(crate) fn region_word(class: Class) -> &'static str {
    if Basin::is_of(class) {
        "basin"
    } else {
        "sector"
    }
}

/// The region or season of a group: `all`, `North Atlantic`, `June to August`.
pub(crate) fn place_cell(group: Group, class: Class) -> String {
    let region = group.region.map(|region| capital(region.name_for(class)));
    let season = group.season.map(|season| SEASONS[season].1.to_string());
    let words: Vec<String> = region.into_iter().chain(season).collect();
    if words.is_empty() {
        "all".into()
    } else {
        words.join(", ")
    }
}

/// A number with a number of significant digits.
pub(crate) fn number_cell(value: Option<f64>, digits: i32) -> String {
    value.map_or(UNKNOWN.into(), |value| significant(value, digits))
}

/// A p-value. Those below a millionth, as of trends over a century, are given as an upper bound.
pub(crate) fn p_cell(p: Option<f64>) -> String {
    match p {
        Some(p) if p < 1e-6 => "&lt; 0.000001".into(),
        p => number_cell(p, 2),
    }
}

/// The main number of a row, bold if significant.
pub(crate) fn main_cell(value: Option<f64>, is_significant: bool) -> String {
    let number = number_cell(value, 3);
    if is_significant {
        format!("<strong>{number}</strong>")
    } else {
        number
    }
}

/// Both ends of an interval.
pub(crate) fn interval_cell(interval: Option<Interval>) -> String {
    interval.map_or(UNKNOWN.into(), |ends| {
        format!(
            "{} to {}",
            significant(ends.low, 3),
            significant(ends.high, 3)
        )
    })
}

/// A folded table of a class, with significant `what` in bold; empty without rows.
pub(crate) fn folded_table(
    class: Class,
    what: &str,
    columns: &[(&str, bool)],
    rows: &[Vec<String>],
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let name = capital(class_word(class));
    let caption = format!("{name}s; significant {what} are bold");
    let table = Table {
        caption: &caption,
        columns,
        rows,
    };
    format!(
        "<details><summary>{name}: {} rows</summary>\n{}</details>\n",
        rows.len(),
        table.html()
    )
}

/// The section on the method; `provenance` has names and texts, and `command` is empty if unknown.
pub(crate) fn method(
    paragraphs: &[String],
    provenance: &[(String, String)],
    command: &str,
) -> Section {
    let mut html = String::from("<div class=\"prose\">\n");
    for paragraph in paragraphs {
        let _ = writeln!(html, "<p>{}</p>", escape(paragraph));
    }
    html.push_str("</div>\n<dl class=\"provenance\">\n");
    for (name, words) in provenance {
        let (name, words) = (escape(name), escape(words));
        let _ = writeln!(html, "<div><dt>{name}</dt><dd>{words}</dd></div>");
    }
    html.push_str("</dl>\n");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Region;

    #[test]
    fn places_read_as_words() {
        let said = [
            Group::ALL,
            Group::of_basin(Basin::NorthAtlantic),
            Group::of_region(Region::Northern),
            Group::of_season(2),
        ]
        .map(|group| place_cell(group, Class::TropicalCyclone));
        let words = [
            "all",
            "North Atlantic",
            "Northern hemisphere",
            "June to August",
        ];
        assert_eq!(said, words);
        let atlantic = Group::of_basin(Basin::NorthAtlantic);
        let cell = place_cell(atlantic, Class::AtmosphericRiver);
        assert_eq!(cell, "109°W–30°E north");
    }

    #[test]
    fn a_single_year_is_no_range_and_some_months_are_no_year() {
        assert_eq!(from_to(2005, 2005), "2005");
        assert_eq!(from_to(1979, 2008), "1979 to 2008");
        assert_eq!(months_of(&[8, 9, 10]), "August to October of ");
        assert_eq!(months_of(&(1..=12).collect::<Vec<_>>()), "");
    }

    #[test]
    fn seasons_are_of_the_months_of_one_year() {
        for (start, said) in [
            (
                1,
                "December, January and February of one calendar year make one season.",
            ),
            (
                12,
                "Years begin with December, so that each season is in one piece.",
            ),
            (
                7,
                "July, August and June of one such year, in this order, make one season.",
            ),
            (
                2,
                "February, December and January of one such year, in this order, make one season.",
            ),
        ] {
            assert!(
                seasons_of_years(start).ends_with(said),
                "{}",
                seasons_of_years(start)
            );
        }
    }

    #[test]
    fn only_what_is_significant_is_marked() {
        let of = |significant| ("1 < 2".to_string(), Verdict::from_p(Some(0.5), significant));
        let html = sentences(Class::TropicalCyclone, &[of(false)], &[of(true)], "trend");
        assert_eq!(html.matches(" sure\">1 &lt; 2</li>").count(), 1);
        assert!(
            html.contains("1 significant trend in hemispheres, basins"),
            "{html}"
        );
        assert!(!sentences(Class::TropicalCyclone, &[of(true)], &[], "trend").contains("details"));
        assert_eq!(main_cell(Some(1.5), true), "<strong>1.50</strong>");
        assert_eq!(main_cell(None, false), UNKNOWN);
        assert_eq!(
            [Some(3e-12), Some(0.0123), None].map(p_cell),
            ["&lt; 0.000001", "0.012", UNKNOWN]
        );
        assert_eq!(warnings(&[]), "");
    }

    /// Regression: without a single test the legend said "not significant".
    #[test]
    fn what_was_not_tested_has_a_mark_of_its_own() {
        let untested = Verdict::from_p(None, false);
        let html = sentences(
            Class::TropicalCyclone,
            &[("1 against 2".into(), untested)],
            &[],
            "change",
        );
        assert!(html.contains("cyclone untested\">1 against 2"), "{html}");
        let legend = marks(&[untested, untested]);
        assert!(legend.contains("not tested"), "{legend}");
        assert!(!legend.contains("significant"), "{legend}");
        let legend = marks(&[
            Verdict::from_p(Some(0.5), false),
            Verdict::from_p(Some(0.01), true),
        ]);
        assert!(legend.contains("</i>significant</li>"), "{legend}");
        assert!(legend.contains("</i>not significant</li>"), "{legend}");
        assert!(!legend.contains("not tested"), "{legend}");
        assert_eq!(marks(&[]), "");
    }
}
