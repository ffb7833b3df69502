//! The top of the page: title, numbers in sentences, and caveats.

use crate::compare::listed;
use crate::events::Event;
use crate::report::figures::category;
use crate::report::html::{escape, marked, paragraphs};
use crate::report::numbers::{counted, day, grouped, moment, percent, significant};
use crate::report::page::{Page, Section};
use crate::report::summary::{Object, is_tracked, mean_per_time, objects};
use crate::report::{BoxSource, Source, SourceKind, SourceWind, class_css, class_word};
use crate::statistics::Basin;
use crate::track::{Pieces, note_of_pieces};
use squall_data::Class;
use squall_data::boxes::BoxClass;
use std::fmt::Write as _;

/// The page's header with title, description and facts of the run.
pub(crate) fn header(page: &Page<'_>) -> String {
    let input = page.input;
    let mut facts = Vec::new();
    if let Some(period) = page.period {
        facts.push(if period.is_moment() {
            moment(period.first)
        } else {
            format!(
                "{} to {} ({})",
                day(period.first),
                day(period.last),
                period.words()
            )
        });
        facts.push(format!("calendar {}", period.first.calendar()));
    }
    if page.times() > 0 {
        facts.push(counted(page.times(), "analysed time"));
    }
    let (rows, columns) = input.grid.shape();
    facts.push(format!(
        "grid {rows} × {columns}, about {} km",
        significant(input.grid.spacing_km(), 2)
    ));
    // A name such as "Heuristic" does not tell which rules.
    let made_by = input.made_by.iter();
    facts.extend(made_by.map(|(kind, text)| format!("{}: {text}", input.label(*kind))));
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

/// The paragraph on one source.
fn sentences(page: &Page<'_>, source: &Source) -> String {
    let mut parts = Vec::new();
    let mut blind = Vec::new();
    for class in Class::TRACKED {
        if !page.input.looked_for(source.kind, class) {
            blind.push(format!("{}s", class_word(class)));
            continue;
        }
        let found = objects(source, class);
        // Masks only have the two event classes, so a missing one of the others is not worth a remark.
        if found.is_empty() && !Class::EVENTS.contains(&class) {
            continue;
        }
        let noun = if is_tracked(source, class) {
            class_word(class).to_string()
        } else {
            format!("{} object", class_word(class))
        };
        let mut text = counted(found.len(), &noun);
        let mean = mean_per_time(source, class, page.times());
        if let Some(mean) = mean.filter(|_| !found.is_empty()) {
            let _ = write!(
                text,
                " ({} present at an average time)",
                significant(mean, 2)
            );
        }
        parts.push(text);
    }
    if parts.is_empty() {
        parts.push("nothing".into());
    }
    let mut out = format!(
        "<strong><i class=\"key {}\"></i>{}</strong> found {}.",
        source.kind.css(),
        escape(&source.label),
        listed(&parts)
    );
    if !blind.is_empty() {
        let _ = write!(out, " It did not look for {}.", listed(&blind));
    }
    if let Some(top) = strongest(source) {
        out += &strongest_sentence(&top);
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

/// A sentence on when and where the strongest cyclone was first seen, and its maximum strength.
fn strongest_sentence(cyclone: &Object<'_>) -> String {
    let wind = cyclone.max_wind_m_s.unwrap_or(0.0);
    let grade = match category(wind) {
        0 => "below tropical-storm strength".to_string(),
        1 => "a tropical storm".into(),
        c => format!("category {}", c - 1),
    };
    let pressure = cyclone
        .min_psl_pa
        .map_or(String::new(), |p| format!(" and {:.0}\u{a0}hPa", p / 100.0));
    let basin = Basin::NAMES[cyclone.basin()];
    format!(
        " Its strongest cyclone, first seen in the {basin} on {}, reached {}\u{a0}m\u{a0}s⁻¹ ({grade}){pressure}.",
        day(cyclone.start),
        significant(wind, 3)
    )
}

/// A paragraph on one source of boxes: how many are shown, of which classes, and how many are left out.
fn box_sentence(source: &BoxSource) -> String {
    let frames = source.frames.frames();
    let number = |class: BoxClass| {
        let boxes = frames.iter().flat_map(|frame| &frame.boxes);
        boxes.filter(|found| found.geo.class == class).count()
    };
    let classes: Vec<String> = BoxClass::ALL
        .into_iter()
        .filter(|class| number(*class) > 0)
        .map(|class| counted(number(class), class_word(class.into())))
        .collect();
    let shown = source.frames.boxes();
    let of_classes = if classes.is_empty() {
        String::new()
    } else {
        format!(": {}", listed(&classes))
    };
    let less_sure = match source.left_out {
        Some((least, count)) if count > 0 => format!(
            " {} of less than {} confidence {} left out.",
            boxes(count),
            percent(f64::from(least)),
            if count == 1 { "is" } else { "are" }
        ),
        _ => String::new(),
    };
    format!(
        "<p><strong><i class=\"key {}\"></i>{}</strong> has {} at {}{of_classes}.{less_sure}</p>\n",
        source.kind.css(),
        escape(&source.label),
        boxes(shown),
        counted(frames.len(), "time"),
    )
}

fn boxes(count: usize) -> String {
    match count {
        0 => "no boxes".into(),
        1 => "1 box".into(),
        _ => format!("{} boxes", grouped(count as f64, 0)),
    }
}

fn tile(value: &str, what: &str, class: &str) -> String {
    format!(
        "<li class=\"{class}\"><b>{}</b><span>{}</span></li>",
        escape(value),
        escape(what)
    )
}

/// The classes whose objects are counted at the top: those of masks that the source looks for, else what it found.
fn headline_classes(page: &Page<'_>, source: &Source) -> Vec<Class> {
    let looked = |class: &Class| page.input.looked_for(source.kind, *class);
    let of_masks: Vec<Class> = Class::EVENTS.into_iter().filter(looked).collect();
    if !of_masks.is_empty() {
        return of_masks;
    }
    let is_found = |class: &Class| looked(class) && !objects(source, *class).is_empty();
    Class::TRACKED.into_iter().filter(is_found).collect()
}

/// The tiles at the top: objects of the first source, its strongest wind, and the IoU of the first two sources.
fn tiles(page: &Page<'_>) -> String {
    let mut tiles = String::new();
    if let Some(source) = page.input.sources.first() {
        for class in headline_classes(page, source) {
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
                    page.in_sentence(pair.first),
                    page.in_sentence(pair.second)
                );
                tiles += &tile(&format!("{iou:.2}"), &what, class_css(class));
            }
        }
    }
    tiles
}

/// The section at the top of the page: tiles, a paragraph on every source, and caveats.
pub(crate) fn summary(page: &Page<'_>) -> Section {
    let tiles = tiles(page);
    let mut html = String::new();
    if !tiles.is_empty() {
        let _ = writeln!(html, "<ul class=\"tiles\">{tiles}</ul>");
    }
    html.push_str("<div class=\"split\"><div class=\"prose\">");
    for source in &page.input.sources {
        html += &sentences(page, source);
    }
    for boxes in &page.input.boxes {
        html += &box_sentence(boxes);
    }
    if page.input.sources.is_empty() && page.input.boxes.is_empty() {
        html += "<p>No table of events was given, so the page shows masks and fields only.</p>\n";
    } else if !page.input.sources.is_empty()
        && (page.input.sources.iter()).all(|s| s.events.is_empty() && s.tracks.is_empty())
    {
        html += "<p>No events were found by any source. If that is a surprise, look at the thresholds at the end of the page and at the fields on the map.</p>\n";
    }
    html.push_str("</div>\n");
    let warnings = warnings(page);
    if !warnings.is_empty() {
        html.push_str("<aside class=\"warnings\" aria-label=\"Caveats\"><h3>Before you quote a number</h3><ul>");
        for warning in warnings {
            let _ = write!(html, "<li>{}</li>", marked(&warning));
        }
        html.push_str("</ul></aside>\n");
    }
    html.push_str("</div>\n");
    Section {
        id: "summary".into(),
        nav: "Summary".into(),
        heading: "Summary".into(),
        lead: String::new(),
        html,
    }
}

/// Caveats on categories, which tropical cyclones alone have, for each kind of their wind.
fn wind_caveats(page: &Page<'_>) -> Vec<String> {
    let with = |wind: SourceWind| -> Vec<String> {
        let has_category =
            |e: &Event| e.class == Class::TropicalCyclone && e.max_wind_m_s.is_some();
        let known = |s: &&Source| s.events.iter().any(has_category);
        let of_wind = page.input.sources.iter().filter(|s| s.wind == wind);
        let named = of_wind.filter(known).map(|s| page.in_sentence(s.kind));
        named.collect()
    };
    let (fields, vortex) = (with(SourceWind::Fields), with(SourceWind::Vortex));
    // The sources are only named if there are two kinds of wind.
    let of = |own: &[String], others: &[String]| match others {
        [] => String::new(),
        _ => format!(" of {}", listed(own)),
    };
    let mut out = Vec::new();
    if !fields.is_empty() {
        out.push(format!(
            "Categories{} use the Saffir–Simpson bounds on the wind of the fields at output times: of the lowest model level, or what the data have instead of it. The scale is defined for one-minute wind at 10 m, and a grid of about {} km smooths the core of a cyclone: compare with other runs on the same grid, not with observed categories.",
            of(&fields, &vortex),
            significant(page.input.grid.spacing_km(), 2)
        ));
    }
    if !vortex.is_empty() {
        out.push(format!(
            "Categories{} use the Saffir–Simpson bounds on the vortices' own wind above the boundary layer, which is higher than that of the fields: the scale is defined for one-minute wind at 10 m.",
            of(&vortex, &fields)
        ));
    }
    out
}

/// A caveat on river ranks, if some are not based on vapour transport.
fn rank_caveat(page: &Page<'_>) -> Option<String> {
    let by_proxy = page.input.sources.iter().filter(|s| s.ranks_by_proxy());
    let named: Vec<String> = by_proxy.map(|s| page.in_sentence(s.kind)).collect();
    (!named.is_empty()).then(|| {
        format!(
            "Ranks of rivers (the scale of Ralph et al. 2019) of {} are approximate: in place of vapour transport stands a proxy, column water times the wind at 850 hPa. By the integral over levels one place in four had another rank, some strong rivers by two.",
            listed(&named)
        )
    })
}

/// A caveat on the share of river tracks that are fragments.
fn fragment_caveat(page: &Page<'_>) -> Option<String> {
    let sources = page.input.sources.iter();
    let of = sources.map(|s| (page.in_sentence(s.kind), Pieces::of(&s.tracks)));
    let note = note_of_pieces(&of.collect::<Vec<_>>())?;
    Some(format!("{note} Their lifetimes are those of the pieces."))
}

/// A caveat for each class that some sources count by tracks and others by single-time objects: the numbers cannot be
/// compared.
fn counting_caveats(page: &Page<'_>) -> Vec<String> {
    let of_class = |class: Class| {
        let with = |tracked: bool| -> Vec<String> {
            let has = |s: &&Source| s.events.iter().any(|event| event.class == class);
            let sources = page.input.sources.iter().filter(has);
            let alike = sources.filter(|s| is_tracked(s, class) == tracked);
            alike.map(|s| page.in_sentence(s.kind)).collect()
        };
        let (tracked, single) = (with(true), with(false));
        (!tracked.is_empty() && !single.is_empty()).then(|| {
            format!(
                "Numbers of {}s are tracks of {} but objects at single times of {}: they cannot be compared. `squall events` follows the latter, too.",
                class_word(class),
                listed(&tracked),
                listed(&single)
            )
        })
    };
    Class::EVENTS.into_iter().filter_map(of_class).collect()
}

/// A caveat on sources whose storms nobody has followed through time, although there is more than one time.
fn untracked_caveat(page: &Page<'_>) -> Option<String> {
    let is_untracked = |source: &&Source| {
        let mut times = source.events.iter().map(|event| event.time);
        let first = times.next();
        source.tracks.is_empty() && times.any(|time| Some(time) != first)
    };
    let of = page.input.sources.iter().filter(is_untracked);
    let named: Vec<String> = of.map(|s| page.in_sentence(s.kind)).collect();
    (!named.is_empty()).then(|| {
        format!(
            "Events of {} are objects at single times: a storm counts once at each of its times, and has no lifetime and no path. `squall events MASKS --out EVENTS` follows them through time; give the page `MASKS:EVENTS`.",
            listed(&named)
        )
    })
}

/// All caveats: the caller's, those that the page detects itself, and the caller's remarks.
fn warnings(page: &Page<'_>) -> Vec<String> {
    let mut out = page.input.warnings.clone();
    let sources = &page.input.sources;
    match page.period {
        Some(period) if period.is_moment() => {
            out.push(
                "One time only: nothing can be tracked, and counts describe this moment.".into(),
            );
        }
        Some(period) if period.hours() < 3650.0 * 24.0 => {
            out.push(format!(
                "The data cover {}. Counts, frequencies and extremes describe this sample; year-to-year changes of cyclone and river numbers are large, and a climate statement needs decades.",
                period.words()
            ));
        }
        _ => {}
    }
    out.extend(page.counter.missing_caveat(|kind| page.in_sentence(kind)));
    out.extend(wind_caveats(page));
    out.extend(rank_caveat(page));
    let counting = counting_caveats(page);
    if counting.is_empty() {
        out.extend(untracked_caveat(page));
    }
    out.extend(counting);
    out.extend(fragment_caveat(page));
    // Masks without tables are scored and compared, too.
    let has = |kind| {
        let of_masks = page.input.labels.iter().any(|(of, _)| *of == kind);
        of_masks || sources.iter().any(|s| s.kind == kind)
    };
    if has(SourceKind::Heuristic) && has(SourceKind::Network) && !has(SourceKind::Truth) {
        out.push("There is no truth to compare with. Agreement says how alike heuristic and network are, not which of them is right; a network trained on the heuristic's labels also learns its errors.".into());
    }
    out.extend(page.input.remarks.iter().cloned());
    out
}
