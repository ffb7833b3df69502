//! Static maps of the page: their panels, and maps of class frequencies.

use crate::compare::capital;
use crate::error::Result;
use crate::map::image::{data_url, indexed_png};
use crate::map::resample::{Resampler, levels};
use crate::map::{ColourMap, Projection, colour};
use crate::report::html::escape;
use crate::report::numbers;
use crate::report::ticks::{nice_ticks, tick_labels};
use crate::report::viewer::bar_labels;
use crate::report::{FrequencyMap, class_word};
use ndarray::Array2;
use squall_data::grid::eastern_longitude;
use squall_data::{Class, LatLonGrid};
use std::fmt::Write as _;

/// The index of the colour of frequency maps for cells in which masks are always missing, after those of shares.
const UNKNOWN: u8 = 64;

/// A map panel: a window of the Earth whose SVG units are tenths of a degree.
pub(crate) struct Panel {
    map: Projection,
}

impl Panel {
    /// The window for a class: global maps omit the latitudes where it does not occur.
    pub(crate) fn for_class(grid: &LatLonGrid, class: Class, centre_deg: f64) -> Self {
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
        10.0 * eastern_longitude(lon_deg - self.map.west_deg)
    }

    pub(super) fn y(&self, lat_deg: f64) -> f64 {
        10.0 * (self.map.north_deg - lat_deg)
    }

    /// Copies of the page's `#land` or `#shores` path that are visible in this window.
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

    /// Meridians and parallels with their labels.
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

/// The upper end of the colours of one class's frequency maps: a round number that few cells exceed.
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
    let panel = Panel::for_class(grid, map.class, centre_deg);
    let picture = Resampler::new(grid, 192, 288).mean(map.share.view());
    let mut indices = levels(&picture, 0.0, (top / 100.0) as f32).mapv(|v| v / 4);
    indices.zip_mut_with(&picture, |index, share| {
        if share.is_nan() {
            *index = UNKNOWN;
        }
    });
    let own = Projection::of_grid(grid);
    let (mut left, mut span) = (
        10.0 * own.west_deg - 10.0 * panel.map.west_deg,
        10.0 * own.lon_span_deg,
    );
    if own.is_global() {
        let columns = indices.ncols();
        let east = eastern_longitude(panel.map.west_deg - own.west_deg);
        let shift = (east / 360.0 * columns as f64).floor();
        let rolled = Array2::from_shape_fn((indices.nrows(), columns + 1), |(r, c)| {
            indices[[r, (c + shift as usize) % columns]]
        });
        left = -(east - shift * 360.0 / columns as f64) * 10.0;
        span = 3600.0 * (columns + 1) as f64 / columns as f64;
        indices = rolled;
    }
    let mut palette: Vec<[u8; 4]> = (0..UNKNOWN)
        .map(|k| {
            let [r, g, b] = colours_of(map.class).at(f64::from(k) / 63.0);
            [r, g, b, 255]
        })
        .collect();
    palette.push([128, 128, 128, 255]);
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

/// A remark for a colour bar that the last colour `stands` for all values above `top`; empty if there are none.
pub(super) fn overflow_remark(stands: &str, highest: f64, top: f64, unit: &str) -> String {
    if highest > 1.0001 * top {
        let highest = numbers::distinct_from(highest, top);
        format!("; {stands} for more, up to {highest}{unit}")
    } else {
        String::new()
    }
}

/// The colour bar of frequency maps, with a remark if cells exceed its end.
pub(crate) fn frequency_bar(class: Class, top: f64, maps: &[&FrequencyMap]) -> String {
    let shares = maps.iter().flat_map(|map| &map.share);
    let highest = f64::from(shares.copied().fold(0.0f32, f32::max));
    let more = overflow_remark(
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
        // A small share in few cells does not become 0.
        let bar = frequency_bar(map.class, 0.04, &[]);
        assert!(bar.contains("Colours from 0 to 0.04 percent"), "{bar}");
    }
}
