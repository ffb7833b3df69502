//! Annual extremes and their return levels.

use crate::compare::{
    Comparison, Fit, RETURN_YEARS, ReturnLevels, SPOKEN_LEVEL, capital, in_percent, of_level,
    spoken_unit,
};
use crate::report::figures::figure;
use crate::report::numbers::significant;
use crate::report::page::Section;
use crate::report::svg::Plot;
use crate::report::ticks::nice_ticks;

/// The section with the return levels of both runs; `None` if nothing could be fitted.
pub(super) fn extremes(comparison: &Comparison) -> Option<Section> {
    let shown: Vec<&ReturnLevels> = (comparison.return_levels.iter())
        .filter(|levels| levels.is_fitted())
        .collect();
    if shown.is_empty() {
        return None;
    }
    let mut html = super::legend(comparison) + "<div class=\"grid lone\">\n";
    for levels in shown {
        let note = of_level(levels, comparison);
        html += &figure(
            &format!("{} of a year", capital(&levels.subject)),
            &return_level_plot(levels, comparison),
            &note,
        );
    }
    html.push_str("</div>\n");
    Some(Section {
        id: "extremes".into(),
        nav: "Extremes".into(),
        heading: "Extremes and how often they return".into(),
        lead: format!(
            "Dots are the extreme of each year at its place among the years; lines the fitted distributions, areas their {} % bands. They end at twice the {}: what comes less often is a guess about the shape of the tail.",
            in_percent(comparison.draws.confidence),
            if comparison.a.members.len() + comparison.b.members.len() > 0 {
                "number of years"
            } else {
                "length of a run"
            }
        ),
        html,
    })
}

fn return_level_plot(levels: &ReturnLevels, comparison: &Comparison) -> String {
    let sides = ["side-a", "side-b"];
    let (factor, unit) = spoken_unit(&levels.unit);
    let sign = if levels.lowest { -factor } else { factor };
    let (low, high) = range(levels);
    let (low, high) = (factor * low, factor * high);
    let ticks = nice_ticks(low, high, 5);
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let dots = levels.fits.each_ref().map(dots);
    // With a century of years, the dots extend beyond the fitted lines.
    let ends = (dots.iter().flatten())
        .fold((variate(1.02), variate(100.0)), |(from, to), (at, _)| {
            (from.min(*at), to.max(*at))
        });
    let mut plot = Plot::over(ends, &ticks);
    plot.y_axis(&ticks, unit);
    let years: Vec<(f64, String)> = RETURN_YEARS
        .iter()
        .map(|y| (variate(*y), format!("{y}")))
        .collect();
    plot.x_labels(&years, "years between two such years", true);
    for ((fit, dots), class) in levels.fits.iter().zip(dots).zip(sides) {
        let band: Vec<(f64, f64, f64)> = (RETURN_YEARS.iter().zip(&fit.bands))
            .filter_map(|(years, band)| {
                band.map(|b| (variate(*years), factor * b.low, factor * b.high))
            })
            .collect();
        if band.len() > 1 {
            plot.area(&band, class);
        }
        if let Some(gev) = &fit.gev {
            let curve: Vec<(f64, Option<f64>)> = (0..=60)
                .map(|k| {
                    let years = 1.02 * (100.0f64 / 1.02).powf(f64::from(k) / 60.0);
                    let level = gev.return_level(years, fit.share()).map(|v| sign * v);
                    let is_shown = |v: &f64| years <= fit.longest() && (first..=last).contains(v);
                    (variate(years), level.filter(is_shown))
                })
                .collect();
            plot.line(&curve, class);
        }
        for (at, value) in dots {
            plot.line(&[(at, Some(factor * value))], class);
        }
    }
    let [a, b] = levels.fits.each_ref().map(|fit| {
        let level = fit.levels.get(SPOKEN_LEVEL).copied().flatten();
        level.map_or("unknown".into(), |v| significant(factor * v, 3))
    });
    plot.finish(&format!(
        "{} once in {} years: {a} {unit} in {}, {b} {unit} in {}",
        capital(&levels.subject),
        RETURN_YEARS[SPOKEN_LEVEL],
        comparison.a.label,
        comparison.b.label,
    ))
}

/// The minimum and maximum of all extremes, levels and bands of both runs.
fn range(levels: &ReturnLevels) -> (f64, f64) {
    let values = levels.fits.iter().flat_map(|fit| {
        let bands = fit.bands.iter().flatten();
        (fit.extremes.iter().copied())
            .chain(fit.levels.iter().flatten().copied())
            .chain(bands.flat_map(|band| [band.low, band.high]))
    });
    let finite = values.filter(|value| value.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// The Gumbel variate of a return period: on this axis a Gumbel distribution is a straight line.
fn variate(years: f64) -> f64 {
    -(-(1.0 - 1.0 / years).ln()).ln()
}

/// The extremes of a fit, each with its variate.
///
/// # Source
/// Plotting positions of Gringorten (1963), designed for this kind of distribution.
fn dots(fit: &Fit) -> Vec<(f64, f64)> {
    let count = fit.extremes.len() as f64;
    let dot = |(rank, value): (usize, &f64)| {
        let below = (rank as f64 + 1.0 - 0.44) / (count + 0.12);
        let years = 1.0 / (fit.share() * (1.0 - below));
        (variate(years), *value)
    };
    fit.extremes.iter().enumerate().map(dot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Change, Gev};

    /// Two runs of this many years with rivers, and the largest river of each year.
    fn compared(years: u32) -> Comparison {
        let step = 4e6 / f64::from(years);
        let fit = Fit {
            extremes: (0..years).map(|k| 6e6 + step * f64::from(k)).collect(),
            years: years as usize,
            gev: Some(Gev {
                location: 7e6,
                scale: 1e6,
                shape: 0.0,
            }),
            levels: [7e6, 8e6, 9e6, 1e7, 1.1e7, 1.2e7].map(Some).to_vec(),
            bands: vec![None; 6],
        };
        let levels = ReturnLevels {
            name: "annual_max_area".into(),
            class: 2,
            subject: "the largest area of an atmospheric river".into(),
            unit: "km²".into(),
            lowest: false,
            fits: [fit.clone(), fit],
            changes: vec![Change::of_values(Some(1e7), Some(1e7)); 6],
        };
        let mut comparison = Comparison::of_runs([("a", years as usize), ("b", years as usize)]);
        comparison.return_levels.push(levels);
        comparison
    }

    #[test]
    fn the_extremes_of_a_century_lie_on_the_plot() {
        for years in [20, 100, 300] {
            let comparison = compared(years);
            let svg = return_level_plot(&comparison.return_levels[0], &comparison);
            let places: Vec<f64> = svg
                .split("cx=\"")
                .skip(1)
                .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
                .collect();
            assert_eq!(places.len(), 2 * years as usize);
            // From the labels on the left to the end of the axis.
            let inside = |x: &f64| (46.0..=436.1).contains(x);
            assert!(places.iter().all(inside), "{years} years: {places:?}");
        }
    }

    #[test]
    fn lines_end_at_twice_the_number_of_years() {
        let comparison = compared(20);
        let svg = return_level_plot(&comparison.return_levels[0], &comparison);
        let line = svg.split("class=\"line side-a\" d=\"").nth(1).unwrap();
        let path = line.split('"').next().unwrap();
        let last = path.rsplit('L').next().unwrap();
        let end: f64 = last.split(' ').next().unwrap().parse().unwrap();
        // From 1.02 to 100 years the axis is 5.97 long. 40 years lie 0.92 before its end at 436: at 376, or 377 by the
        // labels.
        assert!((374.0..379.0).contains(&end), "{end}");
    }

    #[test]
    fn dots_lie_at_the_return_periods_of_their_ranks() {
        // Half of the years have an extreme. Of ten such years, 9.56 of 10.12 are below the largest value: it is
        // exceeded once in 10.12 / 0.56 of them, that is, in twice as many years.
        let fit = Fit {
            extremes: (0..10).map(f64::from).collect(),
            years: 20,
            gev: None,
            levels: Vec::new(),
            bands: Vec::new(),
        };
        let (at, value) = dots(&fit)[9];
        let below: f64 = 1.0 - 0.56 / 10.12 / 2.0;
        assert_eq!(value, 9.0);
        assert!((at + (-below.ln()).ln()).abs() < 1e-9, "{at}");
        // -ln ln 2.
        assert!((variate(2.0) - 0.366_512_920_58).abs() < 1e-9);
    }

    #[test]
    fn areas_of_rivers_are_millions_and_their_labels_lie_on_the_plot() {
        let comparison = compared(20);
        let svg = return_level_plot(&comparison.return_levels[0], &comparison);
        assert!(svg.contains(">million km²</text>") && svg.contains("10.0 million km² in a"));
        // Labels end at x and are at most 8.8 wide per letter: none starts left of the plot.
        let labels: Vec<(f64, &str)> = svg
            .split("<text class=\"e\" x=\"")
            .skip(1)
            .map(|text| {
                let (x, rest) = text.split_once('"').unwrap();
                let label = rest.split_once('>').unwrap().1.split('<').next().unwrap();
                (x.parse().unwrap(), label)
            })
            .collect();
        assert!(labels.len() >= 4, "{labels:?}");
        for (x, label) in labels {
            assert!(
                x - 8.8 * label.chars().count() as f64 >= 0.0,
                "{label} at {x}"
            );
        }
        let section = extremes(&comparison).unwrap();
        assert!(
            section
                .html
                .contains("in 20 years is 10.0 million km² against 10.0")
        );
    }
}
