//! The sections of the page, in reading order.

use crate::compare::{capital, listed};
use crate::error::Result;
use crate::report::agreement::PairAgreement;
use crate::report::figures;
use crate::report::html::{escape, paragraphs};
use crate::report::numbers::{counted, percent};
use crate::report::page::{Page, Section};
use crate::report::summary::objects;
use crate::report::{
    FrequencyMap, Provenance, Source, SourceKind, changes, class_word, histograms, maps, overview,
    tables, track_map,
};
use squall_data::Class;
use std::fmt::Write as _;

/// Maximum number of agreement charts that covers all pairs of sources: those of four sources.
const MAX_CHARTS: usize = 6;

/// All sections with content.
pub(crate) fn all(page: &Page<'_>) -> Result<Vec<Section>> {
    let before = [
        Some(overview::summary(page)),
        Some(super::viewer::section(page)),
        page.browser.map(|browser| browser.section(page)),
        frequency(page)?,
        season(page),
        distributions(page),
        tracks(page),
        extremes(page),
        agreement(page),
        scores(page),
    ];
    let mut all: Vec<Section> = before.into_iter().flatten().collect();
    for (index, comparison) in page.input.comparisons.iter().enumerate() {
        all.push(changes::section(comparison, index)?);
    }
    all.extend(super::training::section(page));
    all.push(method(page));
    Ok(all)
}

fn frequency(page: &Page<'_>) -> Result<Option<Section>> {
    let counted;
    // The frequency of a single time is the mask itself, which the map already shows.
    if page.input.frequencies.is_empty() && page.counter.times() < 2 {
        return Ok(None);
    }
    let given: &[FrequencyMap] = if page.input.frequencies.is_empty() {
        counted = page.counter.frequencies();
        &counted
    } else {
        &page.input.frequencies
    };
    let mut html = String::new();
    for class in Class::EVENTS {
        let of_class: Vec<&FrequencyMap> = (given.iter())
            .filter(|m| m.class == class && page.input.looked_for(m.source, class))
            .collect();
        if of_class.is_empty() {
            continue;
        }
        let top = maps::common_top(&of_class);
        let _ = writeln!(html, "<div class=\"grid wide n{}\">", of_class.len());
        for map in &of_class {
            html += &maps::frequency_map(
                &page.input.grid,
                map,
                &page.label(map.source),
                top,
                page.options.centre_deg,
            )?;
        }
        html.push_str("</div>\n");
        html += &maps::frequency_bar(class, top, &of_class);
        let shares: Vec<String> = of_class
            .iter()
            .map(|m| format!("{} {}", page.label(m.source), percent(mean_share(page, m))))
            .collect();
        let _ = writeln!(
            html,
            "<p class=\"note\">Mean share of the map's area, weighted by cell area: {}.</p>",
            escape(&shares.join(", "))
        );
        let counted: Vec<SourceKind> = given
            .iter()
            .filter(|map| map.class == class)
            .map(|map| map.source)
            .collect();
        html += &not_looked_for(page, &counted, class);
    }
    Ok((!html.is_empty()).then(|| Section {
        id: "where".into(),
        nav: "Where".into(),
        heading: "Where: how often each class is present".into(),
        lead: "Share of the analysed times at which a cell belongs to a class. All maps of a class share one colour scale.".into(),
        html,
    }))
}

/// Area-weighted mean of a frequency map where it is known.
fn mean_share(page: &Page<'_>, map: &FrequencyMap) -> f64 {
    let areas = page.input.grid.row_areas_km2();
    let rows = map.share.rows().into_iter().zip(&areas);
    let (mut sum, mut known_km2) = (0.0, 0.0);
    for (row, area) in rows {
        for share in row.iter().filter(|share| share.is_finite()) {
            sum += area * f64::from(*share);
            known_km2 += area;
        }
    }
    sum / known_km2
}

fn has_events(page: &Page<'_>) -> bool {
    page.input
        .sources
        .iter()
        .any(|s| !s.events.is_empty() || !s.tracks.is_empty())
}

/// A note on the sources of `whose` that do not detect a class, so that their absence means nothing; empty if all do.
fn not_looked_for(page: &Page<'_>, whose: &[SourceKind], class: Class) -> String {
    let blind = whose
        .iter()
        .filter(|kind| !page.input.looked_for(**kind, class));
    let names: Vec<String> = blind.map(|kind| page.label(*kind)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "<p class=\"note\">Not looked for: {}s by {}.</p>\n",
        class_word(class),
        escape(&listed(&names))
    )
}

/// The kinds of all sources of events.
fn kinds(page: &Page<'_>) -> Vec<SourceKind> {
    page.input
        .sources
        .iter()
        .map(|source| source.kind)
        .collect()
}

fn season(page: &Page<'_>) -> Option<Section> {
    let period = page.period.filter(|_| has_events(page))?;
    let (days, years) = (period.days_per_month, period.years());
    let calendar = period.last.calendar();
    let sources = &page.input.sources;
    // Of lows alone there is no figure.
    if (Class::EVENTS.into_iter()).all(|class| page.input.sources_of(class).is_empty()) {
        return None;
    }
    let mut html = figures::source_legend(sources);
    html.push_str("<div class=\"grid\">\n");
    for class in Class::EVENTS {
        let of_class = page.input.sources_of(class);
        let Some(first) = of_class.first() else {
            continue;
        };
        html += &figures::seasonal(&of_class, class, &days, years, calendar);
        html += &figures::basin_calendar(first, class, &days, years, calendar);
    }
    html.push_str("</div>\n");
    for class in Class::EVENTS {
        html += &not_looked_for(page, &kinds(page), class);
    }
    html.push_str("<details><summary>Counts by basin and sector as tables</summary>\n");
    html += &tables::basin_tables(page.input);
    html.push_str("</details>\n");
    let empty = days.iter().filter(|d| **d == 0.0).count();
    let lead = if empty > 0 {
        format!(
            "By month, and by basin (rivers: sector of a hemisphere) of origin. The data do not reach {}: shaded grey, not zero.",
            counted(empty, "month")
        )
    } else {
        "By month, and by basin (rivers: sector of a hemisphere) of origin.".into()
    };
    Some(Section {
        id: "when".into(),
        nav: "When".into(),
        heading: "When: the seasonal cycle".into(),
        lead,
        html,
    })
}

fn distributions(page: &Page<'_>) -> Option<Section> {
    let sources = &page.input.sources;
    let mut html = figures::source_legend(sources);
    let mut any = false;
    for class in Class::EVENTS {
        let charts: String = histograms::quantities(class)
            .iter()
            .map(|q| histograms::histogram(sources, class, q))
            .collect();
        if !charts.is_empty() {
            any = true;
            let _ = write!(
                html,
                "<h3>{}s</h3>\n<div class=\"grid\">\n{charts}</div>\n",
                capital(class_word(class))
            );
        }
    }
    any.then(|| Section {
        id: "distributions".into(),
        nav: "Intensity, size".into(),
        heading: "Intensity, lifetime and size".into(),
        lead: "One value per object: its extreme over its life. Lifetimes of objects that touch the first or last time are cut short, and so are those of rivers that meet others.".into(),
        html,
    })
}

fn tracks(page: &Page<'_>) -> Option<Section> {
    let sources = &page.input.sources;
    let mut html = String::new();
    for class in Class::TRACKED {
        let with: Vec<&Source> = sources
            .iter()
            .filter(|s| !objects(s, class).is_empty())
            .collect();
        if with.is_empty() {
            continue;
        }
        let _ = writeln!(html, "<h3>{}s</h3>", capital(class_word(class)));
        if class == Class::TropicalCyclone {
            html += &track_map::wind_legend(&with);
        }
        let _ = writeln!(html, "<div class=\"grid wide n{}\">", with.len());
        for source in with {
            html += &track_map::track_map(&page.input.grid, source, class, page.options.centre_deg);
        }
        html.push_str("</div>\n");
        if Class::EVENTS.contains(&class) {
            html += &not_looked_for(page, &kinds(page), class);
        }
    }
    (!html.is_empty()).then(|| Section {
        id: "tracks".into(),
        nav: "Tracks".into(),
        heading: "Tracks".into(),
        lead: "Paths of the centres. Tropical cyclones are coloured by their wind along the way."
            .into(),
        html,
    })
}

fn extremes(page: &Page<'_>) -> Option<Section> {
    let rows = page.options.table_rows;
    let source = page.input.sources.first()?;
    let html: String = [
        tables::strongest_cyclones(source, rows),
        tables::longest_rivers(source, rows),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!html.is_empty()).then(|| Section {
        id: "extremes".into(),
        nav: "Extremes".into(),
        heading: "The strongest and the longest".into(),
        lead: String::new(),
        html,
    })
}

fn agreement(page: &Page<'_>) -> Option<Section> {
    let pairs = page.counter.pairs();
    if pairs.is_empty() {
        return None;
    }
    let first = &pairs[0];
    let (a, b) = (
        page.in_sentence(first.first),
        page.in_sentence(first.second),
    );
    let sentence = |total: &PairAgreement, class: Class| {
        let iou = total.iou()?;
        let union = total.union_km2();
        Some(format!(
            "Of the area that {a} or {b} marks as {}, both mark {}; {} is marked by {a} alone and {} by {b} alone.",
            class_word(class),
            percent(iou),
            percent(total.only_first_km2 / union),
            percent(total.only_second_km2 / union)
        ))
    };
    let sentences = first.total.iter().zip(Class::EVENTS);
    let sentences: Vec<String> = sentences.filter_map(|(t, c)| sentence(t, c)).collect();
    let mut html = format!(
        "<div class=\"prose\">{}</div>\n{}",
        paragraphs(&sentences.join("\n\n")),
        tables::agreement_table(
            pairs,
            |kind| page.label(kind),
            |kind, class| page.input.looked_for(kind, class)
        )
    );
    // For many sources, the table has all pairs, and the charts only compare the first source with each other one.
    let all = pairs.len() <= MAX_CHARTS;
    let drawn = pairs.iter().filter(|p| all || p.first == first.first);
    let charts: String = drawn
        .map(|p| figures::agreement_series(p, (&page.label(p.first), &page.label(p.second))))
        .collect();
    if !charts.is_empty() {
        let _ = write!(
            html,
            "{}<div class=\"grid lone\">\n{charts}</div>\n",
            figures::class_legend()
        );
    }
    Some(Section {
        id: "agreement".into(),
        nav: "Agreement".into(),
        heading: "Do the sources agree?".into(),
        lead: "Intersection over union (IoU) of the areas on the sphere: 1 if both mark the same cells, 0 if they share none. Small objects such as cyclones score low for shifts of one cell.".into(),
        html,
    })
}

fn scores(page: &Page<'_>) -> Option<Section> {
    (!page.input.scores.is_empty()).then(|| Section {
        id: "scores".into(),
        nav: "Scores".into(),
        heading: "Scores, and what they mean".into(),
        lead: String::new(),
        html: tables::score_table(&page.input.scores),
    })
}

/// The text of an entry, with its numbers folded away.
fn folded(said: &Provenance) -> String {
    let value = escape(&said.value);
    if said.numbers.is_empty() {
        return value;
    }
    let numbers = counted(said.numbers.len(), "value");
    let summary = match &*value {
        "" => numbers,
        value => format!("{value}: {numbers}"),
    };
    format!(
        "<details><summary>{summary}</summary><pre tabindex=\"0\">{}</pre></details>",
        escape(&said.numbers.join("\n"))
    )
}

fn method(page: &Page<'_>) -> Section {
    let input = page.input;
    let mut html = String::new();
    if !input.provenance.is_empty() {
        html.push_str("<dl class=\"provenance\">");
        for said in &input.provenance {
            let _ = write!(
                html,
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape(&said.name),
                folded(said)
            );
        }
        html.push_str("</dl>\n");
    }
    let _ = writeln!(
        html,
        "<p class=\"prose\">Grid: {}.</p>",
        escape(&input.grid.describe())
    );
    if let Some(recipe) = input.recipe.as_deref().filter(|r| !r.trim().is_empty()) {
        let _ = writeln!(
            html,
            "<details><summary>Thresholds and recipe</summary><pre tabindex=\"0\">{}</pre></details>",
            escape(recipe)
        );
    }
    if !input.commands.is_empty() {
        let _ = writeln!(
            html,
            "<h3>How to make this page again</h3>\n<pre tabindex=\"0\">{}</pre>",
            escape(&input.commands.join("\n"))
        );
    }
    Section {
        id: "method".into(),
        nav: "Data and method".into(),
        heading: "Data and method".into(),
        lead: String::new(),
        html,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_folded_behind_what_they_are() {
        let said = |value: &str, numbers: &[&str]| {
            folded(&Provenance {
                numbers: numbers.iter().map(ToString::to_string).collect(),
                ..Provenance::new("rules", value)
            })
        };
        assert_eq!(said("noleap &\nmore", &[]), "noleap &amp;\nmore");
        let behind = |summary: &str, lines: &str| {
            format!(
                "<details><summary>{summary}</summary><pre tabindex=\"0\">{lines}</pre></details>"
            )
        };
        assert_eq!(
            said("by <these> rules", &["a = 1", "b = <2"]),
            behind("by &lt;these&gt; rules: 2 values", "a = 1\nb = &lt;2")
        );
        assert_eq!(said("", &["a = 1"]), behind("1 value", "a = 1"));
    }
}
