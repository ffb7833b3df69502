//! The sections of the page, in reading order.

use crate::error::Result;
use crate::report::agreement::PairAgreement;
use crate::report::figures::{self, capital, category};
use crate::report::html::{escape, paragraphs};
use crate::report::numbers::{counted, day, duration, grouped, moment, percent, significant};
use crate::report::page::{Page, Section};
use crate::report::summary::{Object, days_per_month, is_tracked, mean_per_time, objects};
use crate::report::{FrequencyMap, Source, SourceKind, class_css, class_word, maps, tables};
use squall_data::Class;
use std::fmt::Write as _;

/// All sections that have something to say.
pub(crate) fn all(page: &Page<'_>) -> Result<Vec<Section>> {
    let sections = [
        Some(summary(page)),
        Some(super::viewer::section(page)),
        frequency(page)?,
        season(page),
        distributions(page),
        tracks(page),
        extremes(page),
        agreement(page),
        scores(page),
        Some(method(page)),
    ];
    Ok(sections.into_iter().flatten().collect())
}

/// Title, description and the facts of the run.
pub(crate) fn header(page: &Page<'_>) -> String {
    let input = page.input;
    let mut facts = Vec::new();
    if let Some((first, last)) = page.period() {
        if first == last {
            facts.push(moment(first));
        } else {
            let span = last.seconds_since(first) as f64 / 3600.0;
            facts.push(format!(
                "{} to {} ({})",
                day(first),
                day(last),
                duration(span)
            ));
        }
        facts.push(format!("calendar {}", first.calendar()));
    }
    if page.times() > 0 {
        facts.push(counted(page.times(), "analysed time"));
    }
    let (rows, columns) = input.grid.shape();
    facts.push(format!(
        "grid {rows} × {columns}, about {} km",
        significant(input.grid.spacing_km(), 2)
    ));
    let facts = facts.iter().fold(String::new(), |mut out, fact| {
        let _ = write!(out, "<li>{}</li>", escape(fact));
        out
    });
    format!(
        "<header><div><p class=\"brand\">Squall report</p>\n<h1>{}</h1>\n<div class=\"about\">{}</div>\n<ul class=\"facts\">{facts}</ul></div></header>\n",
        escape(&input.title),
        paragraphs(&input.description)
    )
}

fn strongest<'a>(source: &'a Source) -> Option<Object<'a>> {
    objects(source, Class::TropicalCyclone)
        .into_iter()
        .filter(|o| o.max_wind_m_s.is_some())
        .max_by(|a, b| {
            a.max_wind_m_s
                .unwrap_or(0.0)
                .total_cmp(&b.max_wind_m_s.unwrap_or(0.0))
        })
}

/// Sentences on one source.
fn sentences(page: &Page<'_>, source: &Source) -> String {
    let mut parts = Vec::new();
    for class in Class::EVENTS {
        let found = objects(source, class);
        let noun = if is_tracked(source, class) {
            class_word(class).to_string()
        } else {
            format!("{} object", class_word(class))
        };
        let mut text = counted(found.len(), &noun);
        if let (true, Some(mean)) = (page.times() > 1, mean_per_time(source, class, page.times())) {
            let _ = write!(
                text,
                " ({} present at an average time)",
                significant(mean, 2)
            );
        }
        parts.push(text);
    }
    let mut out = format!(
        "<strong><i class=\"key {}\"></i>{}</strong> found {}.",
        source.kind.css(),
        escape(&source.label),
        parts.join(" and ")
    );
    if let Some(top) = strongest(source) {
        let wind = top.max_wind_m_s.unwrap_or(0.0);
        let grade = match category(wind) {
            0 => "below tropical-storm strength".to_string(),
            1 => "a tropical storm".into(),
            c => format!("category {}", c - 1),
        };
        let pressure = top
            .min_psl_pa
            .map_or(String::new(), |p| format!(" and {:.0}\u{a0}hPa", p / 100.0));
        let basin = super::basins::BASINS[top.basin()];
        let _ = write!(
            out,
            " Its strongest cyclone, first seen in the {basin} on {}, reached {}\u{a0}m\u{a0}s⁻¹ ({grade}){pressure}.",
            day(top.start),
            significant(wind, 3)
        );
    }
    let rivers = objects(source, Class::AtmosphericRiver);
    let longest = rivers
        .iter()
        .filter_map(|o| o.longest)
        .max_by(|a, b| a.length_km.total_cmp(&b.length_km));
    if let Some(event) = longest.filter(|e| e.length_km > 0.0) {
        let _ = write!(
            out,
            " Its longest river stretched over {}\u{a0}km on {}.",
            significant(event.length_km, 3),
            day(event.time)
        );
    }
    format!("<p>{out}</p>\n")
}

fn tile(value: &str, what: &str, class: &str) -> String {
    format!(
        "<li class=\"{class}\"><b>{}</b><span>{}</span></li>",
        escape(value),
        escape(what)
    )
}

fn summary(page: &Page<'_>) -> Section {
    let mut tiles = String::new();
    if let Some(source) = page.input.sources.first() {
        for class in Class::EVENTS {
            let unit = if is_tracked(source, class) {
                "tracks"
            } else {
                "objects"
            };
            let what = format!("{} {unit}, {}", class_word(class), source.label);
            tiles += &tile(
                &grouped(objects(source, class).len() as f64, 0),
                &what,
                class_css(class),
            );
        }
        if let Some(wind) = strongest(source).and_then(|o| o.max_wind_m_s) {
            tiles += &tile(
                &format!("{} m s⁻¹", significant(wind, 3)),
                "strongest cyclone wind",
                "cyclone",
            );
        }
    }
    if let Some(pair) = page.counter.pairs().first() {
        for (total, class) in pair.total.iter().zip(Class::EVENTS) {
            if let Some(iou) = total.iou() {
                let what = format!(
                    "IoU of {} areas, {} and {}",
                    class_word(class),
                    page.label(pair.first).to_lowercase_first(),
                    page.label(pair.second).to_lowercase_first()
                );
                tiles += &tile(&format!("{iou:.2}"), &what, class_css(class));
            }
        }
    }
    let mut html = String::new();
    if !tiles.is_empty() {
        let _ = writeln!(html, "<ul class=\"tiles\">{tiles}</ul>");
    }
    html.push_str("<div class=\"split\"><div class=\"prose\">");
    for source in &page.input.sources {
        html += &sentences(page, source);
    }
    if page.input.sources.is_empty() {
        html += "<p>No table of events was given, so the page shows masks and fields only.</p>\n";
    } else if page
        .input
        .sources
        .iter()
        .all(|s| s.events.is_empty() && s.tracks.is_empty())
    {
        html += "<p>No events were found by any source. If that is a surprise, look at the thresholds at the end of the page and at the fields on the map.</p>\n";
    }
    html.push_str("</div>\n");
    let warnings = warnings(page);
    if !warnings.is_empty() {
        html.push_str("<aside class=\"warnings\" aria-label=\"Caveats\"><h3>Before you quote a number</h3><ul>");
        for warning in warnings {
            let _ = write!(html, "<li>{}</li>", escape(&warning));
        }
        html.push_str("</ul></aside>\n");
    }
    html.push_str("</div>\n");
    Section {
        id: "summary",
        nav: "Summary",
        heading: "Summary",
        lead: String::new(),
        html,
    }
}

/// What the page itself sees that a reader must know, after what the caller knows.
fn warnings(page: &Page<'_>) -> Vec<String> {
    let mut out = page.input.warnings.clone();
    let sources = &page.input.sources;
    match page.period() {
        Some((first, last)) if first == last => {
            out.push(
                "One time only: nothing can be tracked, and counts describe this moment.".into(),
            );
        }
        Some((first, last)) if last.days_since(first) < 3650.0 => {
            out.push(format!(
                "The data cover {}. Counts, frequencies and extremes describe this sample; year-to-year changes of cyclone and river numbers are large, and a climate statement needs decades.",
                duration(last.seconds_since(first) as f64 / 3600.0)
            ));
        }
        _ => {}
    }
    let has_wind = sources
        .iter()
        .flat_map(|s| &s.events)
        .any(|e| e.max_wind_m_s.is_some());
    if has_wind {
        out.push(format!(
            "Categories use the Saffir–Simpson bounds on the model's lowest-level wind at output times. The scale is defined for one-minute wind at 10 m, and a grid of about {} km smooths the core of a cyclone: compare with other runs on the same grid, not with observed categories.",
            significant(page.input.grid.spacing_km(), 2)
        ));
    }
    let has = |kind| sources.iter().any(|s| s.kind == kind);
    if has(SourceKind::Heuristic) && has(SourceKind::Network) && !has(SourceKind::Truth) {
        out.push("There is no truth to compare with. Agreement says how alike heuristic and network are, not which of them is right; a network trained on the heuristic's labels also learns its errors.".into());
    }
    out
}

fn frequency(page: &Page<'_>) -> Result<Option<Section>> {
    let counted;
    // The share of a single time is the mask itself, which the map shows already.
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
        let of_class: Vec<&FrequencyMap> = given.iter().filter(|m| m.class == class).collect();
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
        html += &maps::frequency_bar(class, top);
        let shares: Vec<String> = of_class
            .iter()
            .map(|m| format!("{} {}", page.label(m.source), percent(mean_share(page, m))))
            .collect();
        let _ = writeln!(
            html,
            "<p class=\"note\">Mean share of the map's area, weighted by cell area: {}.</p>",
            escape(&shares.join(", "))
        );
    }
    Ok((!html.is_empty()).then(|| Section {
        id: "where",
        nav: "Where",
        heading: "Where: how often each class is present",
        lead: "Share of the analysed times at which a cell belongs to a class. All maps of a class share one colour scale.".into(),
        html,
    }))
}

/// Area-weighted mean of a frequency map.
fn mean_share(page: &Page<'_>, map: &FrequencyMap) -> f64 {
    let areas = page.input.grid.row_areas_km2();
    let rows = map.share.rows().into_iter().zip(&areas);
    let sum: f64 = rows
        .map(|(row, area)| area * row.iter().map(|v| f64::from(*v)).sum::<f64>())
        .sum();
    sum / (areas.iter().sum::<f64>() * map.share.ncols() as f64)
}

fn has_events(page: &Page<'_>) -> bool {
    page.input
        .sources
        .iter()
        .any(|s| !s.events.is_empty() || !s.tracks.is_empty())
}

fn season(page: &Page<'_>) -> Option<Section> {
    let period = page.period().filter(|_| has_events(page))?;
    let days = days_per_month(period);
    let years = period.1.days_since(period.0) / period.0.calendar().mean_year_days();
    let sources = &page.input.sources;
    let mut html = figures::source_legend(sources);
    html.push_str("<div class=\"grid\">\n");
    for class in Class::EVENTS {
        html += &figures::seasonal(sources, class, &days, years);
        html += &figures::basin_calendar(&sources[0], class, &days);
    }
    html.push_str("</div>\n<details><summary>Counts by basin as a table</summary>\n");
    html += &tables::basin_table(sources);
    html.push_str("</details>\n");
    let empty = days.iter().filter(|d| **d == 0.0).count();
    let lead = if empty > 0 {
        format!(
            "By month and basin of origin. The data do not reach {}: shaded grey, not zero.",
            counted(empty, "month")
        )
    } else {
        "By month and basin of origin.".into()
    };
    Some(Section {
        id: "when",
        nav: "When",
        heading: "When: the seasonal cycle",
        lead,
        html,
    })
}

fn distributions(page: &Page<'_>) -> Option<Section> {
    let sources = &page.input.sources;
    let mut html = figures::source_legend(sources);
    let mut any = false;
    for class in Class::EVENTS {
        let charts: String = figures::quantities(class)
            .iter()
            .map(|q| figures::histogram(sources, class, q))
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
        id: "distributions",
        nav: "Intensity, size",
        heading: "Intensity, lifetime and size",
        lead: "One value per object: its extreme over its life. Lifetimes of objects that touch the first or last time are cut short.".into(),
        html,
    })
}

fn tracks(page: &Page<'_>) -> Option<Section> {
    let sources = &page.input.sources;
    let mut html = String::new();
    for class in Class::EVENTS {
        let with: Vec<&Source> = sources
            .iter()
            .filter(|s| !objects(s, class).is_empty())
            .collect();
        if with.is_empty() {
            continue;
        }
        let _ = writeln!(html, "<h3>{}s</h3>", capital(class_word(class)));
        if class == Class::TropicalCyclone {
            html += &maps::wind_legend();
        }
        let _ = writeln!(html, "<div class=\"grid wide n{}\">", with.len());
        for source in with {
            html += &maps::track_map(&page.input.grid, source, class, page.options.centre_deg);
        }
        html.push_str("</div>\n");
    }
    (!html.is_empty()).then(|| Section {
        id: "tracks",
        nav: "Tracks",
        heading: "Tracks",
        lead: "Paths of the centres. Cyclones are coloured by their wind along the way.".into(),
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
        id: "extremes",
        nav: "Extremes",
        heading: "The strongest and the longest",
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
    let (a, b) = (page.label(first.first), page.label(first.second));
    let sentence = |total: &PairAgreement, class: Class| {
        let iou = total.iou()?;
        let union = total.both_km2 + total.only_first_km2 + total.only_second_km2;
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
        tables::agreement_table(pairs, |kind| page.label(kind))
    );
    let charts: String = pairs
        .iter()
        .map(|p| figures::agreement_series(p, (&page.label(p.first), &page.label(p.second))))
        .collect();
    if !charts.is_empty() {
        let _ = write!(
            html,
            "{}<div class=\"grid\">\n{charts}</div>\n",
            figures::class_legend()
        );
    }
    Some(Section {
        id: "agreement",
        nav: "Agreement",
        heading: "Do the sources agree?",
        lead: "Intersection over union (IoU) of the areas on the sphere: 1 if both mark the same cells, 0 if they share none. Small objects such as cyclones score low for shifts of one cell.".into(),
        html,
    })
}

fn scores(page: &Page<'_>) -> Option<Section> {
    (!page.input.scores.is_empty()).then(|| Section {
        id: "scores",
        nav: "Scores",
        heading: "Scores, and what they mean",
        lead: String::new(),
        html: tables::score_table(&page.input.scores),
    })
}

fn method(page: &Page<'_>) -> Section {
    let input = page.input;
    let mut html = String::new();
    if !input.provenance.is_empty() {
        html.push_str("<dl class=\"provenance\">");
        for (name, value) in &input.provenance {
            let _ = write!(
                html,
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape(name),
                escape(value)
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
        id: "method",
        nav: "Data and method",
        heading: "Data and method",
        lead: String::new(),
        html,
    }
}

/// A word inside a sentence: `Heuristic` becomes `heuristic`, `DeepCAM recipe` and `DeepLabV3+` stay.
trait InSentence {
    fn to_lowercase_first(&self) -> String;
}

impl InSentence for String {
    fn to_lowercase_first(&self) -> String {
        if SourceKind::ALL.iter().any(|k| k.name() == self) {
            format!("the {}", self.to_lowercase())
        } else {
            self.clone()
        }
    }
}
