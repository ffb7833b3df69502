//! Maps of changes: colours for the difference, dots for significance.

use crate::compare::{
    Comparison, MapChange, MapQuantity, capital, each_year, false_rate, in_percent, untested,
};
use crate::error::Result;
use crate::map::colour::{change_colour, hex};
use crate::map::image::{data_url, indexed_png};
use crate::report::class_css;
use crate::report::html::escape;
use crate::report::maps::{Panel, overflow_remark};
use crate::report::page::Section;
use crate::report::ticks::{nice_ticks, tick_labels};
use crate::report::viewer::bar_labels;
use crate::statistics::coarse::{COARSE_CELL_DEG, COARSE_COLUMNS, COARSE_ROWS, coarse_grid};
use ndarray::Array2;
use std::fmt::Write as _;

/// Number of colours on each side of zero; index 0 of the picture is transparent.
const LEVELS: i32 = 60;

/// The section with all maps; `None` if no map has a difference.
pub(crate) fn section(comparison: &Comparison) -> Result<Option<Section>> {
    let mut html = String::new();
    for map in comparison
        .map_changes
        .iter()
        .filter(|map| map.difference.iter().any(|d| d.abs() > 0.0))
    {
        html += &figure(map, comparison)?;
    }
    let dots = match untested(comparison) {
        Some(why) => format!("No cell is tested, because {why}."),
        None => format!(
            "White dots mark cells whose change is significant at a false discovery rate of {} %: of all dots of a map about that share is expected to be wrong.",
            in_percent(false_rate(comparison.draws.confidence))
        ),
    };
    Ok((!html.is_empty()).then(|| Section {
        id: "where".into(),
        nav: "Where".into(),
        heading: "Where it changes".into(),
        lead: format!(
            "{} minus {} on cells of 5 degrees. {dots}",
            comparison.b.label, comparison.a.label
        ),
        html: format!("<div class=\"grid lone\">\n{html}</div>\n"),
    }))
}

/// Factor and unit of the displayed numbers; `months` are those compared.
fn shown(quantity: MapQuantity, months: &[i64]) -> (f64, String) {
    match quantity {
        MapQuantity::GenesisDensity => {
            let often = match months.len() {
                0 | 12 => "per year".into(),
                _ => each_year(months),
            };
            (1.0, format!(" {often} and million km²"))
        }
        MapQuantity::Frequency => (100.0, " % of the time".into()),
    }
}

fn figure(map: &MapChange, comparison: &Comparison) -> Result<String> {
    let grid = coarse_grid()?;
    let (factor, unit) = shown(map.quantity, &comparison.months);
    let ticks = nice_ticks(0.0, usual_size(map, factor), 3);
    let top = ticks[ticks.len() - 1];
    let panel = Panel::for_class(&grid, map.class, 180.0);
    let png = picture(map, factor, top)?;
    let (dots, count) = dots(map, false_rate(comparison.draws.confidence), &panel);
    let inner = format!(
        "<image class=\"cells\" x=\"0\" y=\"{:.1}\" width=\"3600\" height=\"1800\" preserveAspectRatio=\"none\" href=\"{}\"/>{}{}<path class=\"stipple\" d=\"{dots}\"/>",
        panel.y(90.0),
        data_url(&png),
        panel.coast("shores", "shore"),
        panel.graticule(),
    );
    let subject = map.quantity.subject(map.class);
    let found = match map.tested() {
        0 => "not tested".to_string(),
        tested => format!("significant in {count} of {tested} cells"),
    };
    let description = format!("Map of the change of the {subject}; {found}.");
    let stops = (-4..=4)
        .map(|k| hex(change_colour(f64::from(k) / 4.0)))
        .collect::<Vec<_>>()
        .join(",");
    let note = if map.tested() == 0 {
        "Not tested.".to_string()
    } else {
        format!(
            "Significant in {count} of {} cells with any event.",
            map.tested()
        )
    };
    let class = class_css(map.class);
    let sizes = map.difference.iter().map(|d| factor * d.abs());
    let more = overflow_remark(
        "the last colours also stand",
        sizes.fold(0.0, f64::max),
        top,
        &unit,
    );
    let end = tick_labels(&[top]).concat();
    Ok(format!(
        "<figure class=\"chart {class}\"><figcaption>{}</figcaption>\n{}<div class=\"bar\" role=\"img\" aria-label=\"Colours from minus {end} to {end}{unit}\"><i style=\"background:linear-gradient(90deg,{stops})\"></i><div>{}</div><p>difference,{unit}{more}</p></div><p class=\"note\">{}</p></figure>\n",
        escape(&capital(subject)),
        panel.svg(&inner, &description),
        bar_labels(-top, top, ""),
        escape(&note)
    ))
}

/// A magnitude of differences that few cells exceed.
fn usual_size(map: &MapChange, factor: f64) -> f64 {
    let mut sizes: Vec<f64> = map
        .difference
        .iter()
        .map(|d| factor * d.abs())
        .filter(|d| *d > 0.0)
        .collect();
    sizes.sort_by(f64::total_cmp);
    let place = sizes.len().saturating_sub(1) * 99 / 100;
    sizes.get(place).copied().unwrap_or(1.0)
}

/// The differences as a coloured PNG; the brightest colours stand for `top` and more.
fn picture(map: &MapChange, factor: f64, top: f64) -> Result<Vec<u8>> {
    let mut palette = vec![[0u8, 0, 0, 0]];
    for level in -LEVELS..=LEVELS {
        let [r, g, b] = change_colour(f64::from(level) / f64::from(LEVELS));
        palette.push([r, g, b, 255]);
    }
    let indices = Array2::from_shape_fn((COARSE_ROWS, COARSE_COLUMNS), |(row, column)| {
        let difference = map.difference[(COARSE_ROWS - 1 - row) * COARSE_COLUMNS + column];
        if difference.is_nan() {
            return 0;
        }
        let level = (factor * difference / top * f64::from(LEVELS)).round();
        (level.clamp(-f64::from(LEVELS), f64::from(LEVELS)) as i32 + LEVELS + 1) as u8
    });
    indexed_png(&indices, &palette)
}

/// An SVG path with a dot in each cell that is significant at a false discovery rate, and the number of dots.
fn dots(map: &MapChange, rate: f64, panel: &Panel) -> (String, usize) {
    let mut dots = String::new();
    let mut count = 0;
    for (cell, _) in map.significant(rate).enumerate().filter(|(_, yes)| *yes) {
        let (row, column) = (cell / COARSE_COLUMNS, cell % COARSE_COLUMNS);
        let _ = write!(
            dots,
            "M{:.0} {:.0}h0",
            panel.x((column as f64 + 0.5) * COARSE_CELL_DEG),
            panel.y((row as f64 + 0.5) * COARSE_CELL_DEG - 90.0)
        );
        count += 1;
    }
    (dots, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::coarse::COARSE_CELLS;
    use squall_data::Class;

    /// The figure of a frequency map whose cells differ by 0.3 %, one of them by more.
    fn with_one(highest: f64) -> String {
        let mut difference = vec![0.003; COARSE_CELLS];
        difference[700] = highest;
        let map = MapChange {
            quantity: MapQuantity::Frequency,
            class: Class::TropicalCyclone,
            a: vec![0.1; COARSE_CELLS],
            b: difference.iter().map(|d| 0.1 + d).collect(),
            difference,
            low: vec![f64::NAN; COARSE_CELLS],
            high: vec![f64::NAN; COARSE_CELLS],
            p: vec![f64::NAN; COARSE_CELLS],
            adjusted_p: vec![f64::NAN; COARSE_CELLS],
        };
        figure(&map, &Comparison::of_runs([("a", 30), ("b", 30)])).unwrap()
    }

    #[test]
    fn a_colour_bar_says_where_cells_exceed_its_end() {
        let html = with_one(-0.5);
        assert!(
            html.contains("Colours from minus 0.3 to 0.3 % of the time"),
            "{html}"
        );
        let more = "; the last colours also stand for more, up to 50 % of the time";
        assert!(html.contains(more), "{html}");
        assert!(!with_one(0.002).contains("stand for more"));
    }
}
