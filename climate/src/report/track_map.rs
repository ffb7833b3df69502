//! Static maps of tracks.

use crate::Event;
use crate::map::colour;
use crate::report::browser::KINDS;
use crate::report::figures::{SAFFIR_SIMPSON, category, whole};
use crate::report::html::escape;
use crate::report::maps::Panel;
use crate::report::numbers;
use crate::report::summary::{Object, objects};
use crate::report::{Source, class_css, class_word};
use squall_data::{Class, LatLonGrid};
use std::fmt::Write as _;

/// Colours on the dark map of winds below tropical storm, of tropical storms, of categories 1 to 5, and of unknown
/// winds.
pub(crate) const CATEGORY_COLOURS: [&str; 8] = [
    "#7d8b99", "#8ecae6", "#ffe8a3", "#ffc45c", "#ff8f4d", "#f2545b", "#e13aa8", "#ffffff",
];
/// Index of the colour of unknown winds.
const UNKNOWN_WIND: usize = CATEGORY_COLOURS.len() - 1;
/// Maximum number of points before tracks are thinned: more would not be visible.
const MAX_TRACK_POINTS: usize = 24_000;

/// The tracks of a class's objects; tropical cyclones are coloured by wind, others have a single colour.
pub(crate) fn track_map(
    grid: &LatLonGrid,
    source: &Source,
    class: Class,
    centre_deg: f64,
) -> String {
    let panel = Panel::for_class(grid, class, centre_deg);
    let found = objects(source, class);
    let points: usize = found.iter().map(|o| o.points.len()).sum();
    let every = points.div_ceil(MAX_TRACK_POINTS).max(1);
    let mut paths: Vec<String> = vec![String::new(); CATEGORY_COLOURS.len()];
    let mut dots = String::new();
    for object in found.iter().step_by(every) {
        draw_object(&panel, object, &mut paths, &mut dots);
    }
    let mut lines = String::new();
    for (path, shade) in paths
        .iter()
        .zip(CATEGORY_COLOURS)
        .filter(|(p, _)| !p.is_empty())
    {
        let own = own_colour(class);
        let stroke = own.as_deref().unwrap_or(shade);
        let _ = write!(
            lines,
            "<path class=\"track {}\" stroke=\"{stroke}\" d=\"{path}\"/>",
            class_css(class)
        );
    }
    let inner = format!(
        "{}{}<g>{lines}{dots}</g>",
        panel.coast("land", "land"),
        panel.graticule()
    );
    // Objects from masks alone may have a track number, but consist of a single time.
    let what = if found.iter().any(|o| o.duration_hours.is_some()) {
        "track"
    } else {
        "object"
    };
    let mut caption = format!("{}: {}", source.label, numbers::counted(found.len(), what));
    if every > 1 {
        let _ = write!(caption, ", every {} shown", whole(every));
    }
    let description = format!("Map of {} by {caption}.", class_word(class));
    format!(
        "<figure class=\"chart\"><figcaption>{}</figcaption>\n{}</figure>\n",
        escape(&caption),
        panel.svg(&inner, &description)
    )
}

/// The single colour of a class; `None` for tropical cyclones, which are coloured by wind.
fn own_colour(class: Class) -> Option<String> {
    if class == Class::TropicalCyclone {
        return None;
    }
    let known = KINDS.iter().find(|(kind, ..)| Class::from(*kind) == class);
    known.map(|(.., colour)| colour::hex(*colour))
}

fn draw_object(panel: &Panel, object: &Object<'_>, paths: &mut [String], dots: &mut String) {
    let (width, _) = panel.size();
    let shade = |wind: Option<f64>| wind.map_or(UNKNOWN_WIND, category);
    if let [only] = object.points.as_slice() {
        let own = own_colour(object.class);
        let fill = own
            .as_deref()
            .unwrap_or(CATEGORY_COLOURS[shade(only.max_wind_m_s)]);
        let _ = write!(
            dots,
            "<circle class=\"genesis\" cx=\"{:.0}\" cy=\"{:.0}\" r=\"{:.0}\" fill=\"{fill}\"/>",
            panel.x(only.lon_deg),
            panel.y(only.lat_deg),
            0.0035 * width
        );
        return;
    }
    for pair in object.points.windows(2) {
        let (x1, y1) = (panel.x(pair[0].lon_deg), panel.y(pair[0].lat_deg));
        let (x2, y2) = (panel.x(pair[1].lon_deg), panel.y(pair[1].lat_deg));
        let path = &mut paths[shade(pair[1].max_wind_m_s.or(pair[0].max_wind_m_s))];
        if (x2 - x1).abs() > 1800.0 {
            // Across the seam: draw the segment on both sides of the map.
            let turn = 3600.0 * (x1 - x2).signum();
            let _ = write!(
                path,
                "M{x1:.0} {y1:.0}L{:.0} {y2:.0}M{:.0} {y1:.0}L{x2:.0} {y2:.0}",
                x2 + turn,
                x1 - turn
            );
        } else if path.ends_with(&format!("L{x1:.0} {y1:.0}")) {
            let _ = write!(path, "L{x2:.0} {y2:.0}");
        } else {
            let _ = write!(path, "M{x1:.0} {y1:.0}L{x2:.0} {y2:.0}");
        }
    }
    if let Some(first) = object
        .points
        .first()
        .filter(|e| e.class == Class::TropicalCyclone)
    {
        let _ = write!(
            dots,
            "<circle class=\"genesis\" cx=\"{:.0}\" cy=\"{:.0}\" r=\"{:.0}\"/>",
            panel.x(first.lon_deg),
            panel.y(first.lat_deg),
            0.0022 * width
        );
    }
}

/// The legend of wind colours on the track maps of some sources.
pub(crate) fn wind_legend(sources: &[&Source]) -> String {
    let mut out = String::from("<ul class=\"legend swatches\"><li><i style=\"background:");
    let _ = write!(out, "{}\"></i>&lt; 17.5 m s⁻¹</li>", CATEGORY_COLOURS[0]);
    for (k, (low, name)) in SAFFIR_SIMPSON.iter().enumerate() {
        let name = if k == 0 {
            "tropical storm".into()
        } else {
            format!("category {name}")
        };
        let _ = write!(
            out,
            "<li><i style=\"background:{}\"></i>{name} (≥ {low})</li>",
            CATEGORY_COLOURS[k + 1]
        );
    }
    let is_unknown =
        |event: &Event| event.class == Class::TropicalCyclone && event.max_wind_m_s.is_none();
    if (sources.iter()).any(|source| source.events.iter().any(is_unknown)) {
        let _ = write!(
            out,
            "<li><i style=\"background:{}\"></i>wind not known</li>",
            CATEGORY_COLOURS[UNKNOWN_WIND]
        );
    }
    out.push_str("<li><i class=\"dot\"></i>where it began</li></ul>\n");
    out
}
