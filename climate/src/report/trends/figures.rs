//! Small multiples of yearly values with their trend.

use super::{classes, rows_of};
use crate::compare::{capital, in_percent, spoken_unit, unit_of};
use crate::report::figures::figure;
use crate::report::html::unbroken;
use crate::report::numbers::significant;
use crate::report::page::Section;
use crate::report::svg::Plot;
use crate::report::ticks::nice_ticks;
use crate::report::{class_css, class_word};
use crate::trends::{TrendRow, Trends, in_short};
use std::fmt::Write as _;

/// Maximum number of quantities of a class that are shown unfolded.
const SHOWN: usize = 6;

/// The series of all quantities for the whole Earth and year, class by class.
pub(super) fn series(trends: &Trends) -> Option<Section> {
    let mut html = String::new();
    for class in classes(trends) {
        let rows = rows_of(trends, class, TrendRow::is_of_all);
        let drawn: Vec<String> = (rows.iter())
            .filter_map(|row| {
                let title = capital(row.quantity.about().subject);
                let note = unbroken(&in_short(row, trends));
                Some(figure(&title, &plot(row, trends)?, &note))
            })
            .collect();
        if drawn.is_empty() {
            continue;
        }
        let (first, rest) = drawn.split_at(drawn.len().min(SHOWN));
        let _ = writeln!(
            html,
            "<h3>{}s</h3>\n<div class=\"grid lone\">\n{}</div>",
            capital(class_word(class)),
            first.concat()
        );
        if !rest.is_empty() {
            let _ = writeln!(
                html,
                "<details><summary>{} more</summary>\n<div class=\"grid lone\">\n{}</div></details>",
                rest.len(),
                rest.concat()
            );
        }
    }
    (!html.is_empty()).then(|| Section {
        id: "series".into(),
        nav: "Series".into(),
        heading: "Year by year".into(),
        lead: if super::is_tested(trends) {
            format!(
                "Thin lines are the values of whole years, broken where one is not known. Thick ones are their trends, dashed where not significant, with the {} % interval of the slope around the middle of the years.",
                in_percent(trends.confidence)
            )
        } else {
            "Lines are the values of whole years, broken where one is not known.".into()
        },
        html,
    })
}

/// The values of a row over the years, with its trend if there is one; `None` for fewer than two years.
fn plot(row: &TrendRow, trends: &Trends) -> Option<String> {
    let years = &trends.run.years;
    let trend = &row.trend;
    let (first, last) = trend
        .first_year
        .zip(trend.last_year)
        .filter(|(a, b)| a < b)?;
    let (factor, unit) = spoken_unit(&row.unit);
    let unit = &unit_of(unit, &trends.months);
    let value_of = |year: i64| -> Option<f64> {
        let place = years.binary_search(&year).ok()?;
        row.values.get(place).copied()?.map(|value| factor * value)
    };
    let points: Vec<(f64, Option<f64>)> = (first..=last)
        .map(|year| (year as f64, value_of(year)))
        .collect();
    let (from, to) = (first as f64, last as f64);
    let line = trend.line.map(|ends| ends.map(|end| factor * end));
    let band = line.zip(trend.interval).map(|([start, end], slopes)| {
        let (middle, height) = (0.5 * (from + to), 0.5 * (start + end));
        [from, middle, to].map(|year| {
            let ends = [slopes.low, slopes.high]
                .map(|slope| height + factor * slope / 10.0 * (year - middle));
            (year, ends[0].min(ends[1]), ends[0].max(ends[1]))
        })
    });
    let heights = (points.iter().filter_map(|point| point.1))
        .chain(line.into_iter().flatten())
        .chain(band.iter().flatten().flat_map(|at| [at.1, at.2]));
    let (low, high) = heights.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| {
        (low.min(y), high.max(y))
    });
    let ticks = nice_ticks(low, high, 5);
    let mut plot = Plot::over((from, to), &ticks);
    plot.y_axis(&ticks, unit);
    let marks: Vec<f64> = nice_ticks(from, to, 6)
        .into_iter()
        .filter(|year| (from..=to).contains(year) && year.fract() == 0.0)
        .collect();
    plot.x_axis(&marks, "year");
    let class = class_css(row.quantity.about().class);
    if let Some(band) = &band {
        plot.area(band, class);
    }
    plot.line(&points, &format!("{class} years"));
    if let Some([start, end]) = line {
        let sure = if row.significant { "" } else { " dash" };
        let ends = [(from, Some(start)), (to, Some(end))];
        plot.line(&ends, &format!("trend{sure}"));
    }
    let described = trend.slope.map_or("no trend".into(), |slope| {
        format!("trend {} per decade", significant(factor * slope, 2))
    });
    Some(plot.finish(&format!(
        "{}, {unit}, {first} to {last}: {described}",
        capital(row.quantity.about().subject)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Group, Quantity};

    /// Rising values over forty years; 1960 is unknown.
    fn rising(trends: &Trends) -> TrendRow {
        let values = (0..40).map(|k| {
            let value = 4e6 + 1.2e4 * f64::from(k) + 3e4 * f64::from(k % 2);
            (k != 9).then_some(value)
        });
        trends.row(Quantity::RiverArea, Group::ALL, values)
    }

    #[test]
    fn a_series_is_broken_where_a_year_is_not_known_and_has_its_line_and_band() {
        let trends = Trends::of_years(40);
        let row = rising(&trends);
        let svg = plot(&row, &trends).unwrap();
        assert!(svg.contains(">million km²</text>"), "{svg}");
        let said =
            "The mean area of atmospheric rivers, million km², 1951 to 1990: trend 0.12 per decade";
        assert!(svg.contains(said), "{svg}");
        let path = |class: &str| -> String {
            let begin = format!("<path class=\"{class}\" d=\"");
            let (_, rest) = svg
                .split_once(&begin)
                .unwrap_or_else(|| panic!("{class}: {svg}"));
            rest.split('"').next().unwrap_or_default().to_string()
        };
        // Nine years, a gap, thirty years.
        let values = path("line river years");
        assert_eq!(
            (values.matches('M').count(), values.matches('L').count()),
            (2, 37)
        );
        assert_eq!(path("line trend").matches('L').count(), 1);
        assert_eq!(path("area river").matches(['M', 'L']).count(), 6);
        // Labels of years are integers, and all marks are on the plot.
        for label in [">1960<", ">1990<"] {
            assert!(svg.contains(label), "{label} in {svg}");
        }
        let mut unsure = row;
        unsure.significant = false;
        assert!(plot(&unsure, &trends).unwrap().contains("line trend dash"));
        let one = trends.row(Quantity::RiverArea, Group::ALL, [Some(1.0)]);
        assert!(plot(&one, &trends).is_none());
    }

    #[test]
    fn series_without_a_trend_are_drawn_too() {
        let trends = Trends::of_years(5);
        let row = trends.row(
            Quantity::CycloneTracks,
            Group::ALL,
            [3.0, 4.0, 9.0, 2.0, 6.0].map(Some),
        );
        let svg = plot(&row, &trends).unwrap();
        assert!(svg.contains("1951 to 1955: no trend") && !svg.contains("line trend"));
    }
}
