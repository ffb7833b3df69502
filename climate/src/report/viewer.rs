//! The interactive map: its controls, and the fallback without JavaScript.

use crate::map::colour::hex;
use crate::report::browser::{KINDS, finders_of_boxes};
use crate::report::frames::sources_of;
use crate::report::html::escape;
use crate::report::numbers::moment;
use crate::report::page::{Page, Section};
use crate::report::ticks::{nice_ticks, tick_labels};
use crate::report::{FieldInfo, SourceKind};
use squall_data::boxes::BoxClass;
use std::fmt::Write as _;

/// The section of the interactive map.
pub(crate) fn section(page: &Page<'_>) -> Section {
    let html = if page.frames.is_empty() {
        "<p class=\"empty\">No fields or masks were given for the map.</p>\n".to_string()
    } else {
        viewer(page)
    };
    Section {
        id: "map".into(),
        nav: "Map".into(),
        heading: "Map".into(),
        lead: lead(page),
        html,
    }
}

fn lead(page: &Page<'_>) -> String {
    let shown = page.frames.len();
    match (shown, page.every) {
        (0, _) => String::new(),
        (1, _) => format!("The field and masks at {}.", moment(page.frames[0].time)),
        (_, 1) => format!("All {shown} times that were given for the map."),
        (_, n) => {
            let ordinal = match (n % 10, n % 100) {
                (1, h) if h != 11 => "st",
                (2, h) if h != 12 => "nd",
                (3, h) if h != 13 => "rd",
                _ => "th",
            };
            format!(
                "{shown} of {} times: every {n}{ordinal}, to keep the file small.",
                page.offered
            )
        }
    }
}

fn checkbox(id: &str, label: &str, key: &str, on: bool) -> String {
    let checked = if on { " checked" } else { "" };
    format!(
        "<label><input type=\"checkbox\" id=\"{id}\"{checked}><i class=\"{key}\"></i>{}</label>",
        escape(label)
    )
}

fn viewer(page: &Page<'_>) -> String {
    let shown = sources_of(page.frames);
    let last = page.frames.len() - 1;
    let layers = layers(page, &shown);
    let mode = view_modes(page, &shown);
    let centre = if page.input.grid.is_periodic() {
        "<label class=\"select\">Centre <select id=\"centre\"><option value=\"180\">Pacific</option><option value=\"300\">Atlantic</option><option value=\"80\">Indian Ocean</option></select></label>"
    } else {
        ""
    };
    let box_keys = box_keys(page);
    format!(
        r#"<div class="viewer" id="viewer">
<div class="stage"><canvas id="canvas" tabindex="0" role="application" aria-label="Map of {long_name} and masks. Arrow keys change the time, plus and minus zoom." aria-describedby="map-help"></canvas>
<p id="stamp" class="stamp"></p><p id="tip" class="tip" hidden></p>
<div class="zoom"><button type="button" id="zoom-in" aria-label="Zoom in">+</button><button type="button" id="zoom-out" aria-label="Zoom out">−</button><button type="button" id="zoom-reset" aria-label="Show the whole map">⤢</button></div>
<noscript><p class="empty">This map needs JavaScript. The maps and tables below do not.</p></noscript></div>
<div class="transport"><button type="button" id="play" aria-pressed="false" aria-label="Play">▶</button><button type="button" id="back" aria-label="Previous time">‹</button><input type="range" id="time" min="0" max="{last}" value="0" step="1" aria-label="Time"><button type="button" id="next" aria-label="Next time">›</button><output id="position" for="time"></output></div>
<div class="keys">{bar}<ul class="legend" id="class-legend"><li><i class="key cyclone"></i>tropical cyclone</li><li><i class="key river"></i>atmospheric river</li>{box_keys}</ul>
<ul class="legend" id="difference-legend" hidden><li><i class="key both"></i>both</li><li><i class="key first"></i><span id="first-name"></span></li><li><i class="key second"></i><span id="second-name"></span></li><li><i class="key differ"></i>both, as different classes</li></ul></div>
<fieldset class="layers"><legend>Layers</legend>{layers}</fieldset>
<div class="selects">{mode}{centre}<label class="select">Colours <select id="colours"><option value="slate">Slate</option><option value="viridis">Viridis</option><option value="cividis">Cividis</option></select></label></div>
<p class="note" id="counts"></p>
<p class="note" id="map-help">With the map in focus: ← and → change the time, space plays, + and − zoom, 0 shows the whole map; drag, or shift with an arrow, to move when zoomed in.{event_help}{difference_help}</p>
</div>
"#,
        event_help = if page.browser.is_some() {
            " A click on a storm opens its life. Between two pictures the map shows events alone."
        } else {
            ""
        },
        difference_help = if shown.len() > 1 {
            " The other views show where two sources differ."
        } else {
            ""
        },
        long_name = escape(&page.input.field.long_name),
        bar = field_bar(
            &page.input.field,
            page.frames.iter().any(|f| f.field.is_some())
        ),
    )
}

/// A checkbox for every layer.
fn layers(page: &Page<'_>, shown: &[SourceKind]) -> String {
    let mut layers = String::new();
    for (index, kind) in shown.iter().enumerate() {
        let key = format!("stroke {}", kind.css());
        layers += &checkbox(
            &format!("layer-{index}"),
            &page.label(*kind),
            &key,
            index < 2,
        );
    }
    for (finder, boxes) in finders_of_boxes(page.input).iter().zip(&page.input.boxes) {
        layers += &checkbox(
            &format!("layer-boxes-{finder}"),
            &format!("Boxes: {}", boxes.label),
            &format!("box {}", boxes.kind.css()),
            true,
        );
    }
    let any_tracks = page.input.sources.iter().any(|s| !s.tracks.is_empty());
    let any_boxes = !page.input.boxes.is_empty();
    if any_tracks || any_boxes {
        layers += &checkbox("layer-tracks", "Tracks, last 5 days", "stroke path", true);
    }
    if page.frames.iter().any(|f| f.pressure.is_some()) {
        layers += &checkbox(
            "layer-pressure",
            "Sea-level pressure, every 8 hPa",
            "stroke pressure",
            false,
        );
    }
    if page.frames.iter().any(|f| f.wind.is_some()) {
        layers += &checkbox("layer-wind", "Wind", "stroke wind", false);
    }
    layers
}

/// The choice between all layers and the differences of two sources; empty if there is only one source.
fn view_modes(page: &Page<'_>, shown: &[SourceKind]) -> String {
    let mut differences = String::new();
    for (a, first) in shown.iter().enumerate() {
        for (b, second) in shown.iter().enumerate().skip(a + 1) {
            let _ = write!(
                differences,
                "<option value=\"{a}-{b}\">{} against {}</option>",
                escape(&page.label(*first)),
                escape(&page.label(*second))
            );
        }
    }
    if differences.is_empty() {
        String::new()
    } else {
        format!(
            "<label class=\"select\">View <select id=\"mode\"><option value=\"layers\">Layers</option>{differences}</select></label>"
        )
    }
}

/// Legend entries of the classes that only boxes have.
fn box_keys(page: &Page<'_>) -> String {
    let boxes = || {
        let frames = page.input.boxes.iter().flat_map(|b| b.frames.frames());
        frames.flat_map(|frame| &frame.boxes)
    };
    let masks_have = [BoxClass::TropicalCyclone, BoxClass::AtmosphericRiver];
    KINDS
        .iter()
        .filter(|(class, ..)| !masks_have.contains(class))
        .filter(|(class, ..)| boxes().any(|found| found.geo.class == *class))
        .fold(String::new(), |mut out, (_, name, colour)| {
            let _ = write!(
                out,
                "<li><i class=\"key\" style=\"background:{}\"></i>{name}</li>",
                hex(*colour)
            );
            out
        })
}

fn field_bar(field: &FieldInfo, shown: bool) -> String {
    if !shown {
        return "<p class=\"note\">No field was given: masks are drawn alone.</p>\n".into();
    }
    let (low, high) = (f64::from(field.range.0), f64::from(field.range.1));
    let labels = bar_labels(low, high, "");
    format!(
        "<div class=\"bar\"><i id=\"field-bar\"></i><div>{labels}</div><p>{} ({}, {})</p></div>\n",
        escape(&field.long_name),
        escape(&field.name),
        escape(&field.unit)
    )
}

/// Labels below a colour bar, each at its value.
pub(crate) fn bar_labels(low: f64, high: f64, unit: &str) -> String {
    let ticks: Vec<f64> = nice_ticks(low, high, 4)
        .into_iter()
        .filter(|t| *t >= low - 1e-9 && *t <= high + 1e-9)
        .collect();
    let place = |t: f64| 100.0 * (t - low) / (high - low);
    let labels = ticks.iter().zip(tick_labels(&ticks));
    labels.fold(String::new(), |mut out, (tick, label)| {
        let _ = write!(
            out,
            "<span style=\"left:{:.1}%\">{label}{unit}</span>",
            place(*tick)
        );
        out
    })
}
