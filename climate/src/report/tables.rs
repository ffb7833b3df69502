//! Tables of the strongest cyclones, the longest rivers, basins, agreement and scores.

use crate::Event;
use crate::compare::capital;
use crate::report::figures::{category, whole};
use crate::report::html::{Table, escape};
use crate::report::numbers::{days, moment, percent, place, significant};
use crate::report::parts::region_word;
use crate::report::summary::{Object, objects};
use crate::report::{Agreement, ReportInput, Score, Source, SourceKind, class_word};
use crate::statistics::Basin;
use squall_data::Class;
use squall_data::boxes::{BoxClass, GeoBox};
use std::fmt::Write as _;

const UNKNOWN: &str = "–";
/// Hours within which rivers without tracks are taken for one if they overlap.
const ONE_RIVER_HOURS: i64 = 72;
/// Minimum overlap (intersection over union) of their boxes.
const ONE_RIVER_OVERLAP: f64 = 0.1;

fn or_unknown(value: Option<f64>, digits: i32) -> String {
    value.map_or_else(|| UNKNOWN.into(), |v| significant(v, digits))
}

fn number_of(object: &Object<'_>, rank: usize) -> String {
    object
        .id
        .map_or_else(|| format!("{rank}."), |id| format!("{id}"))
}

/// The heading of [`number_of`].
fn number_heading(found: &[Object<'_>]) -> &'static str {
    if found.iter().any(|o| o.id.is_some()) {
        "Track"
    } else {
        "Rank"
    }
}

/// Removes the last columns while no row knows them: objects without tracks have no lifetime. Tables show as many cells
/// of a row as there are columns.
fn leave_out_unknown(columns: &mut Vec<(&str, bool)>, rows: &[Vec<String>]) {
    let is_unknown = |column: usize| rows.iter().all(|row| row[column] == UNKNOWN);
    while columns.last().is_some() && is_unknown(columns.len() - 1) {
        columns.pop();
    }
}

/// The cyclones with the strongest wind, or with the lowest pressure if the wind is unknown.
pub(crate) fn strongest_cyclones(source: &Source, rows: usize) -> Option<String> {
    let mut found = objects(source, Class::TropicalCyclone);
    let key = |o: &Object<'_>| {
        let pressure = o.min_psl_pa.map_or(0.0, |p| 1e6 - p);
        (o.max_wind_m_s.unwrap_or(0.0), pressure)
    };
    found.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    let cells: Vec<Vec<String>> = found
        .iter()
        .take(rows)
        .enumerate()
        .map(|(k, o)| {
            let grade = o
                .max_wind_m_s
                .map_or(UNKNOWN.to_string(), |w| match category(w) {
                    0 => "depression".into(),
                    1 => "storm".into(),
                    c => format!("{}", c - 1),
                });
            vec![
                number_of(o, k + 1),
                moment(o.start),
                format!(
                    "{} <small>{}</small>",
                    place(o.lat_deg, o.lon_deg),
                    Basin::NAMES[o.basin()]
                ),
                or_unknown(o.max_wind_m_s, 3),
                grade,
                o.min_psl_pa
                    .map_or(UNKNOWN.into(), |p| format!("{:.0}", p / 100.0)),
                o.duration_hours.map_or(UNKNOWN.into(), days),
                or_unknown(o.distance_km, 3),
            ]
        })
        .collect();
    let mut columns = vec![
        (number_heading(&found), false),
        ("First seen", false),
        ("Where", false),
        ("Wind (m s⁻¹)", true),
        ("Category", true),
        ("Pressure (hPa)", true),
        ("Lifetime (days)", true),
        ("Path (km)", true),
    ];
    leave_out_unknown(&mut columns, &cells);
    (!cells.is_empty()).then(|| {
        Table {
            caption: &format!("Strongest tropical cyclones, {}", source.label),
            columns: &columns,
            rows: &cells,
        }
        .html()
    })
}

/// Up to `rows` rivers with the event at which they are longest. Of those without tracks that overlap within three days
/// there is the first only: else one river at all its times fills the table.
fn distinct<'f, 'a>(found: &'f [Object<'a>], rows: usize) -> Vec<(&'f Object<'a>, &'a Event)> {
    let box_of = |event: &Event| GeoBox {
        class: BoxClass::AtmosphericRiver,
        west_deg: event.west_deg,
        south_deg: event.south_deg,
        east_deg: event.east_deg,
        north_deg: event.north_deg,
        confidence: None,
    };
    let are_one = |a: &Event, b: &Event| {
        a.time.seconds_since(b.time).abs() <= ONE_RIVER_HOURS * 3600
            && box_of(a).overlap(&box_of(b)) >= ONE_RIVER_OVERLAP
    };
    let mut told: Vec<(&Object<'a>, &'a Event)> = Vec::new();
    for river in found {
        let Some(event) = river.longest else {
            continue;
        };
        let is_told = |&(_, other): &(&Object<'a>, &'a Event)| are_one(event, other);
        if river.duration_hours.is_none() && told.iter().any(is_told) {
            continue;
        }
        if told.len() == rows {
            break;
        }
        told.push((river, event));
    }
    told
}

/// The longest rivers.
pub(crate) fn longest_rivers(source: &Source, rows: usize) -> Option<String> {
    let mut found = objects(source, Class::AtmosphericRiver);
    let length = |o: &Object<'_>| o.longest.map_or(0.0, |e| e.length_km);
    found.sort_by(|a, b| length(b).total_cmp(&length(a)));
    let cells: Vec<Vec<String>> = distinct(&found, rows)
        .into_iter()
        .enumerate()
        .map(|(k, (o, at))| {
            vec![
                number_of(o, k + 1),
                moment(at.time),
                format!(
                    "{} <small>{}</small>",
                    place(at.lat_deg, at.lon_deg),
                    Basin::of(at.lat_deg, at.lon_deg).name_for(Class::AtmosphericRiver)
                ),
                significant(at.length_km, 3),
                significant(at.width_km, 3),
                or_unknown(o.max_tmq_kg_m2, 3),
                o.duration_hours.map_or(UNKNOWN.into(), days),
            ]
        })
        .collect();
    let mut columns = vec![
        (number_heading(&found), false),
        ("When longest", false),
        ("Centre then", false),
        ("Length (km)", true),
        ("Width (km)", true),
        ("Water (kg m⁻²)", true),
        ("Lifetime (days)", true),
    ];
    leave_out_unknown(&mut columns, &cells);
    (!cells.is_empty()).then(|| {
        Table {
            caption: &format!("Longest atmospheric rivers, {}", source.label),
            columns: &columns,
            rows: &cells,
        }
        .html()
    })
}

/// Objects per basin or sector, for the sources that detect them: one table per class.
pub(crate) fn basin_tables(input: &ReportInput) -> String {
    let of_class = |class| basin_table(&input.sources_of(class), class);
    Class::EVENTS.into_iter().map(of_class).collect()
}

/// The objects of a class in each basin or sector; empty if there are no sources.
fn basin_table(sources: &[&Source], class: Class) -> String {
    if sources.is_empty() {
        return String::new();
    }
    let heading = format!("{} of origin", capital(region_word(class)));
    let mut columns = vec![(heading.as_str(), false)];
    columns.extend(sources.iter().map(|source| (source.label.as_str(), true)));
    let counts: Vec<Vec<usize>> = sources
        .iter()
        .map(|source| {
            let mut count = vec![0usize; Basin::ALL.len()];
            let found = objects(source, class);
            found.iter().for_each(|object| count[object.basin()] += 1);
            count
        })
        .collect();
    let mut rows: Vec<Vec<String>> = Basin::names_for(class)
        .iter()
        .enumerate()
        .map(|(b, name)| {
            let mut row = vec![name.to_string()];
            row.extend(counts.iter().map(|c| whole(c[b])));
            row
        })
        .collect();
    let mut total = vec!["All".to_string()];
    total.extend(counts.iter().map(|c| whole(c.iter().sum())));
    rows.push(total);
    let caption = format!(
        "{}s by {} of origin",
        capital(class_word(class)),
        region_word(class)
    );
    Table {
        caption: &caption,
        columns: &columns,
        rows: &rows,
    }
    .html()
}

/// IoU and the area marked by only one of two sources, for classes that both detect (`looked`).
pub(crate) fn agreement_table(
    pairs: &[Agreement],
    label: impl Fn(SourceKind) -> String,
    looked: impl Fn(SourceKind, Class) -> bool,
) -> String {
    let mut rows = Vec::new();
    for pair in pairs {
        let (first, second) = (label(pair.first), label(pair.second));
        let both = |class: &Class| looked(pair.first, *class) && looked(pair.second, *class);
        let totals = pair.total.iter().zip(Class::EVENTS);
        for (total, class) in totals.filter(|(_, class)| both(class)) {
            let union = total.union_km2();
            rows.push(vec![
                format!("{} and {}", escape(&first), escape(&second)),
                class_word(class).to_string(),
                total
                    .iou()
                    .map_or(UNKNOWN.into(), |v| format!("<strong>{v:.2}</strong>")),
                percent(total.both_km2 / union),
                percent(total.only_first_km2 / union),
                percent(total.only_second_km2 / union),
            ]);
        }
    }
    Table {
        caption: "Agreement of the marked areas, over all compared times",
        columns: &[
            ("First and second", false),
            ("Class", false),
            ("IoU", true),
            ("Marked by both", true),
            ("First alone", true),
            ("Second alone", true),
        ],
        rows: &rows,
    }
    .html()
}

/// The scores by group, each with its meaning.
pub(crate) fn score_table(scores: &[Score]) -> String {
    let mut out = String::new();
    let mut rest = scores;
    while let Some(first) = rest.first() {
        let size = rest.iter().take_while(|s| s.group == first.group).count();
        let (group, after) = rest.split_at(size);
        let _ = write!(
            out,
            "<h3>{}</h3>\n<dl class=\"scores\">\n",
            escape(&first.group)
        );
        for score in group {
            let bar = score.fraction.map_or(String::new(), |f| {
                format!("<span class=\"gauge\" aria-hidden=\"true\"><i style=\"width:{:.1}%\"></i></span>", 100.0 * f)
            });
            let _ = writeln!(
                out,
                "<div><dt>{}</dt><dd class=\"value\">{}{bar}</dd><dd>{}</dd></div>",
                escape(&score.name),
                escape(&score.value),
                escape(&score.meaning)
            );
        }
        out.push_str("</dl>\n");
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests;
