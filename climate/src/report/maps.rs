//! Still maps of the page: how often each class is where, and the paths of the tracks.

use crate::Event;
use crate::compare::capital;
use crate::error::Result;
use crate::map::image::{data_url, indexed_png};
use crate::map::resample::{Resampler, levels};
use crate::map::{ColourMap, Projection, colour};
use crate::report::browser::KINDS;
use crate::report::figures::{SAFFIR_SIMPSON, category, whole};
use crate::report::html::escape;
use crate::report::numbers;
use crate::report::summary::{Object, objects};
use crate::report::ticks::{nice_ticks, tick_labels};
use crate::report::viewer::bar_labels;
use crate::report::{FrequencyMap, Source, class_css, class_word};
use ndarray::Array2;
use squall_data::{Class, LatLonGrid};
use std::fmt::Write as _;

/// Colours of winds below tropical storm, of tropical storms, of categories 1 to 5, and of winds that are not known, on
/// the dark map.
pub(crate) const CATEGORY_COLOURS: [&str; 8] = [
    "#7d8b99", "#8ecae6", "#ffe8a3", "#ffc45c", "#ff8f4d", "#f2545b", "#e13aa8", "#ffffff",
];
/// Place of the colour of winds that are not known.
const UNKNOWN_WIND: usize = CATEGORY_COLOURS.len() - 1;
/// More points than this are thinned: the page would grow without showing more.
const MAX_TRACK_POINTS: usize = 24_000;

/// A map panel: a window of the Earth whose SVG units are tenths of a degree.
pub(crate) struct Panel {
    map: Projection,
}

impl Panel {
    /// The window that shows a class: latitudes without it are cut off global maps.
    pub(crate) fn of(grid: &LatLonGrid, class: Class, centre_deg: f64) -> Self {
        let mut map = Projection::showing(grid, centre_deg);
        let limit = if class == Class::TropicalCyclone {
            60.0
        } else {
            78.0
        };
        if map.is_global() {
            map.south_deg = map.south_deg.max(-limit);
            map.north_deg = map.north_deg.min(limit);
        }
        Self { map }
    }

    pub(super) fn size(&self) -> (f64, f64) {
        let Projection {
            lon_span_deg,
            south_deg,
            north_deg,
            ..
        } = self.map;
        (10.0 * lon_span_deg, 10.0 * (north_deg - south_deg))
    }

    pub(super) fn x(&self, lon_deg: f64) -> f64 {
        10.0 * (lon_deg - self.map.west_deg).rem_euclid(360.0)
    }

    pub(super) fn y(&self, lat_deg: f64) -> f64 {
        10.0 * (self.map.north_deg - lat_deg)
    }

    /// Places of the page's `#land` or `#shores` path in this window.
    pub(super) fn coast(&self, id: &str, class: &str) -> String {
        let (width, _) = self.size();
        let dy = 10.0 * (self.map.north_deg - 90.0);
        (0..3)
            .map(|k| 3600.0 * f64::from(k) - 10.0 * self.map.west_deg)
            .filter(|dx| dx + 1800.0 > 0.0 && dx - 1800.0 < width)
            .fold(String::new(), |mut out, dx| {
                let _ = write!(
                    out,
                    "<use href=\"#{id}\" class=\"{class}\" x=\"{dx:.1}\" y=\"{dy:.1}\"/>"
                );
                out
            })
    }

    /// Meridians and parallels with their names.
    pub(super) fn graticule(&self) -> String {
        let (width, height) = self.size();
        let step = if self.map.lon_span_deg > 180.0 {
            60
        } else {
            10
        };
        let mut out = String::from("<g class=\"graticule\" aria-hidden=\"true\">");
        for lon in (0..360).step_by(step) {
            let x = self.x(f64::from(lon));
            if x > 0.02 * width && x < 0.98 * width {
                let signed = if lon > 180 { 360 - lon } else { lon };
                let side = match lon {
                    0 | 180 => "",
                    l if l < 180 => "E",
                    _ => "W",
                };
                let _ = write!(
                    out,
                    "<path d=\"M{x:.0} 0V{height:.0}\"/><text class=\"m\" x=\"{x:.0}\" y=\"{:.0}\">{signed}°{side}</text>",
                    height - 0.006 * width
                );
            }
        }
        let step = if self.map.lon_span_deg > 180.0 {
            30
        } else {
            10
        };
        for lat in (-90i32..=90).step_by(step) {
            let y = self.y(f64::from(lat));
            if y > 0.06 * height && y < 0.9 * height {
                let side = match lat {
                    0 => "",
                    l if l < 0 => "S",
                    _ => "N",
                };
                let _ = write!(
                    out,
                    "<path d=\"M0 {y:.0}H{width:.0}\"/><text x=\"{:.0}\" y=\"{:.0}\">{}°{side}</text>",
                    0.005 * width,
                    y - 0.006 * width,
                    lat.abs()
                );
            }
        }
        out.push_str("</g>");
        out
    }

    pub(super) fn svg(&self, inner: &str, description: &str) -> String {
        let (width, height) = self.size();
        // The style sheet sizes text by --w, so that regional maps look like global ones.
        format!(
            "<svg class=\"map\" role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" style=\"--w:{width:.0}px\" aria-label=\"{}\">{inner}</svg>\n",
            escape(description)
        )
    }
}

/// The upper end of the colours of frequency maps of one class: a round number that few cells exceed.
pub(crate) fn common_top(maps: &[&FrequencyMap]) -> f64 {
    let mut values: Vec<f32> = maps
        .iter()
        .flat_map(|m| m.share.iter().copied())
        .filter(|v| *v > 0.0)
        .collect();
    values.sort_by(f32::total_cmp);
    let high = values
        .get(values.len().saturating_sub(1) * 995 / 1000)
        .copied();
    let high = 100.0 * f64::from(high.unwrap_or(0.01));
    let ticks = nice_ticks(0.0, high, 4);
    ticks[ticks.len() - 1]
}

/// A frequency map with colours up to `top` percent.
pub(crate) fn frequency_map(
    grid: &LatLonGrid,
    map: &FrequencyMap,
    label: &str,
    top: f64,
    centre_deg: f64,
) -> Result<String> {
    let panel = Panel::of(grid, map.class, centre_deg);
    let picture = Resampler::new(grid, 192, 288).mean(map.share.view());
    let mut indices = levels(&picture, 0.0, (top / 100.0) as f32).mapv(|v| v / 4);
    let own = Projection::of_grid(grid);
    let (mut left, mut span) = (
        10.0 * own.west_deg - 10.0 * panel.map.west_deg,
        10.0 * own.lon_span_deg,
    );
    if own.is_global() {
        let columns = indices.ncols();
        let shift = ((panel.map.west_deg - own.west_deg).rem_euclid(360.0) / 360.0
            * columns as f64)
            .floor();
        let rolled = Array2::from_shape_fn((indices.nrows(), columns + 1), |(r, c)| {
            indices[[r, (c + shift as usize) % columns]]
        });
        left = -((panel.map.west_deg - own.west_deg).rem_euclid(360.0)
            - shift * 360.0 / columns as f64)
            * 10.0;
        span = 3600.0 * (columns + 1) as f64 / columns as f64;
        indices = rolled;
    }
    let palette: Vec<[u8; 4]> = (0..64)
        .map(|k| {
            let [r, g, b] = colours_of(map.class).at(f64::from(k) / 63.0);
            [r, g, b, 255]
        })
        .collect();
    let png = indexed_png(&indices, &palette)?;
    let inner = format!(
        "<image x=\"{left:.1}\" y=\"{:.1}\" width=\"{span:.1}\" height=\"{:.1}\" preserveAspectRatio=\"none\" href=\"{}\"/>{}{}",
        panel.y(own.north_deg),
        10.0 * (own.north_deg - own.south_deg),
        data_url(&png),
        panel.coast("shores", "shore"),
        panel.graticule(),
    );
    let highest = map.share.iter().copied().fold(0.0f32, f32::max);
    let description = format!(
        "Map of the share of time with {}s by {label}; highest {}.",
        class_word(map.class),
        numbers::percent(f64::from(highest))
    );
    Ok(format!(
        "<figure class=\"chart\"><figcaption>{}s, {}</figcaption>\n{}</figure>\n",
        capital(class_word(map.class)),
        escape(label),
        panel.svg(&inner, &description)
    ))
}

fn colours_of(class: Class) -> ColourMap {
    if class == Class::TropicalCyclone {
        ColourMap::Cyclone
    } else {
        ColourMap::River
    }
}

/// The words of a colour bar from whose end on, `top`, one colour `stands` for all values; empty if there are none.
pub(super) fn beyond(stands: &str, highest: f64, top: f64, unit: &str) -> String {
    if highest > 1.0001 * top {
        let highest = numbers::told_apart(highest, top);
        format!("; {stands} for more, up to {highest}{unit}")
    } else {
        String::new()
    }
}

/// The colour bar of frequency maps, which says so where cells exceed its end.
pub(crate) fn frequency_bar(class: Class, top: f64, maps: &[&FrequencyMap]) -> String {
    let shares = maps.iter().flat_map(|map| &map.share);
    let highest = f64::from(shares.copied().fold(0.0f32, f32::max));
    let more = beyond(
        "the last colour also stands",
        100.0 * highest,
        top,
        "\u{a0}%",
    );
    let stops = (0..=8)
        .map(|k| colour::hex(colours_of(class).at(f64::from(k) / 8.0)))
        .collect::<Vec<_>>()
        .join(",");
    let labels = bar_labels(0.0, top, " %");
    format!(
        "<div class=\"bar\" role=\"img\" aria-label=\"Colours from 0 to {} percent of the time\"><i style=\"background:linear-gradient(90deg,{stops})\"></i><div>{labels}</div><p>share of time with {} {}{more}</p></div>\n",
        tick_labels(&[top]).concat(),
        if class == Class::TropicalCyclone {
            "a"
        } else {
            "an"
        },
        class_word(class)
    )
}

/// The paths of a class's objects: cyclones coloured by wind, rivers in one colour.
pub(crate) fn track_map(
    grid: &LatLonGrid,
    source: &Source,
    class: Class,
    centre_deg: f64,
) -> String {
    let panel = Panel::of(grid, class, centre_deg);
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
    // Objects of masks alone have a track's number, but are one time of it.
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

/// The one colour of a class; none of tropical cyclones, which have those of their wind.
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
            // Over the seam: once on each side of the map.
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

/// The colours of winds on track maps of some sources.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SourceKind;

    #[test]
    fn a_colour_bar_says_where_cells_exceed_its_end() {
        let map = |highest: f32| FrequencyMap {
            source: SourceKind::Heuristic,
            class: Class::AtmosphericRiver,
            share: Array2::from_shape_fn((20, 50), |(row, column)| match (row, column) {
                (7, 9) => highest,
                _ => 0.3,
            }),
        };
        for (highest, more) in [(1.0, true), (0.3, false)] {
            let map = map(highest);
            let top = common_top(&[&map]);
            let bar = frequency_bar(map.class, top, &[&map]);
            assert_eq!(bar.contains("up to 100\u{a0}%"), more, "{bar}");
        }
        let map = map(0.3049);
        let bar = frequency_bar(map.class, 30.0, &[&map]);
        assert!(bar.contains("up to 30.5\u{a0}%"), "{bar}");
        // What few cells have at few times is not 0.
        let bar = frequency_bar(map.class, 0.04, &[]);
        assert!(bar.contains("Colours from 0 to 0.04 percent"), "{bar}");
    }
}
