//! Distributions of events by strength in both runs.

use crate::compare::{
    Bin, Comparison, Distribution, capital, each_year, in_percent, spoken_unit, trimmed, untested,
};
use crate::report::figures::figure;
use crate::report::html::{Table, escape};
use crate::report::numbers::{counted, significant};
use crate::report::page::Section;
use crate::report::parts::{Verdict, interval_cell, main_cell, marks, number_cell};
use crate::report::svg::Plot;
use crate::report::ticks::nice_ticks;

/// The section with both runs' distributions side by side; `None` if there are none.
pub(crate) fn section(comparison: &Comparison) -> Option<Section> {
    if comparison.distributions.is_empty() {
        return None;
    }
    let mut html = super::legend(comparison) + "<div class=\"grid lone\">\n";
    for found in &comparison.distributions {
        html += &figure(
            &capital(&found.subject),
            &plot(found, comparison),
            &note(found, comparison),
        );
    }
    html.push_str("</div>\n");
    let is_tested = untested(comparison).is_none();
    let each = each_year(&comparison.months);
    if is_tested {
        html += &marks(&[Verdict::Significant]);
    }
    for found in &comparison.distributions {
        html += &numbers(found, comparison);
    }
    Some(Section {
        id: "distributions".into(),
        nav: "Strengths".into(),
        heading: "How many of each strength".into(),
        lead: if is_tested {
            format!(
                "Tracks {each} by their strongest moment. Dots mark bins that differ significantly, counted for all bins of a figure together; pointing at a bin shows its numbers with the {} % interval, and so do the tables below.",
                in_percent(comparison.draws.confidence)
            )
        } else {
            format!(
                "Tracks {each} by their strongest moment. Pointing at a bin shows its numbers, and so do the tables below."
            )
        },
        html,
    })
}

fn plot(found: &Distribution, comparison: &Comparison) -> String {
    let (factor, unit) = spoken_unit(&found.unit);
    let edges: Vec<f64> = found.edges.iter().map(|edge| factor * edge).collect();
    let side = |of: &dyn Fn(&Bin) -> Option<f64>| -> Vec<f64> {
        let values = found.bins.iter().map(of);
        values.map(|value| value.unwrap_or(0.0)).collect()
    };
    let (before, after) = (side(&|bin| bin.change.a), side(&|bin| bin.change.b));
    let top = before.iter().chain(&after).copied().fold(0.0, f64::max);
    let ticks = nice_ticks(0.0, top.max(1e-6), 5);
    let ends = (edges[0], edges[edges.len() - 1]);
    let mut plot = Plot::over(ends, &ticks);
    let each = each_year(&comparison.months);
    plot.y_axis(&ticks, &format!("tracks {each}"));
    let inside = |tick: &f64| (ends.0..=ends.1).contains(tick);
    let places: Vec<f64> = nice_ticks(ends.0, ends.1, 6)
        .into_iter()
        .filter(inside)
        .collect();
    plot.x_axis(&places, unit);
    plot.steps(&edges, &before, "side-a");
    plot.steps(&edges, &after, "side-b");
    for (index, bin) in found.bins.iter().enumerate() {
        let (from, to) = (edges[index], edges[index + 1]);
        if bin.significant {
            let height = before[index].max(after[index]);
            plot.line(&[((from + to) / 2.0, Some(height))], "sure");
        }
        plot.bar(
            (from, to),
            ticks[ticks.len() - 1],
            "hover",
            &tip(bin, (from, to), unit, comparison),
        );
    }
    plot.finish(&format!(
        "{}: tracks {each} by bins of {} {unit} in {} and {}",
        capital(&found.subject),
        trimmed(edges[1] - edges[0]),
        comparison.a.label,
        comparison.b.label
    ))
}

fn tip(bin: &Bin, (from, to): (f64, f64), unit: &str, comparison: &Comparison) -> String {
    let value = |value: Option<f64>| significant(value.unwrap_or(0.0), 3);
    let interval = bin.change.interval.map_or(String::new(), |interval| {
        format!(
            "; difference {} ({} to {})",
            value(bin.change.difference),
            significant(interval.low, 2),
            significant(interval.high, 2)
        )
    });
    format!(
        "{} to {} {unit}: {} {} in {}, {} in {}{interval}",
        trimmed(from),
        trimmed(to),
        value(bin.change.a),
        each_year(&comparison.months),
        comparison.a.label,
        value(bin.change.b),
        comparison.b.label
    )
}

/// The tooltips of the bins as a folded table: for paper, phones and keyboards.
fn numbers(found: &Distribution, comparison: &Comparison) -> String {
    let (factor, unit) = spoken_unit(&found.unit);
    let subject = capital(&found.subject);
    let bin = format!("Bin, {unit}");
    let columns = [
        (bin.as_str(), false),
        (comparison.a.label.as_str(), true),
        (comparison.b.label.as_str(), true),
        ("Difference", true),
        ("Interval", true),
    ];
    let row = |(bin, edges): (&Bin, &[f64])| {
        vec![
            format!(
                "{} to {}",
                trimmed(factor * edges[0]),
                trimmed(factor * edges[1])
            ),
            number_cell(bin.change.a, 3),
            number_cell(bin.change.b, 3),
            main_cell(bin.change.difference, bin.significant),
            interval_cell(bin.change.interval),
        ]
    };
    let rows: Vec<Vec<String>> = (found.bins.iter().zip(found.edges.windows(2)))
        .map(row)
        .collect();
    let caption = format!(
        "{subject}: tracks {}; significant differences are bold",
        each_year(&comparison.months)
    );
    let table = Table {
        caption: &caption,
        columns: &columns,
        rows: &rows,
    };
    format!(
        "<details><summary>{}: {}</summary>\n{}</details>\n",
        escape(&subject),
        counted(rows.len(), "bin"),
        table.html()
    )
}

/// Describes in which bins the runs differ.
fn note(found: &Distribution, comparison: &Comparison) -> String {
    let of = |rises: bool| {
        let sign = if rises { 1.0 } else { -1.0 };
        let differs = |bin: &&Bin| bin.change.difference.is_some_and(|d| sign * d > 0.0);
        let bins = found.bins.iter().filter(|bin| bin.significant);
        bins.filter(differs).count()
    };
    // With fewer than five years, for instance.
    if found.bins.iter().all(|bin| bin.adjusted_p.is_none()) {
        return "Not tested.".into();
    }
    match (of(true), of(false)) {
        (0, 0) => "No bin differs significantly.".into(),
        (more, fewer) => format!(
            "Significantly more of them in {} in {}, fewer in {}.",
            comparison.b.label,
            counted(more, "bin"),
            counted(fewer, "bin")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Change, Interval};

    fn found(difference: f64, significant: bool) -> Bin {
        let mut change = Change::of_values(Some(4.0), Some(4.0 + difference));
        change.interval = Some(Interval {
            low: difference - 1.0,
            high: difference + 1.0,
        });
        Bin {
            change,
            adjusted_p: Some(if significant { 0.01 } else { 0.4 }),
            significant,
        }
    }

    #[test]
    fn bins_that_differ_have_a_dot_and_words() {
        let mut comparison = Comparison::of_runs([("now", 20), ("then", 20)]);
        assert!(section(&comparison).is_none());
        comparison.distributions.push(Distribution {
            name: "max_wind".into(),
            class: 1,
            subject: "lifetime-maximum wind of tropical cyclones".into(),
            unit: "m/s".into(),
            edges: vec![20.0, 25.0, 30.0, 35.0],
            bins: vec![found(-2.0, true), found(0.5, false), found(3.0, true)],
        });
        let html = section(&comparison).unwrap().html;
        assert_eq!(html.matches("class=\"dot sure\"").count(), 2);
        assert!(
            html.contains("more of them in then in 1 bin, fewer in 1 bin"),
            "{html}"
        );
        assert!(
            html.contains(
                "30 to 35 m/s: 4.00 a year in now, 7.00 in then; difference 3.00 (2.0 to 4.0)"
            ),
            "{html}"
        );
        // The numbers are not only in tooltips.
        let row = html.split(">30 to 35</th>").nth(1).unwrap();
        let row = row.split("</tr>").next().unwrap();
        for cell in [
            ">4.00<",
            ">7.00<",
            "<strong>3.00</strong>",
            ">2.00 to 4.00<",
        ] {
            assert!(row.contains(cell), "{row}");
        }
        comparison.distributions[0].bins = vec![found(0.1, false); 3];
        let html = section(&comparison).unwrap().html;
        assert!(html.contains("No bin differs") && !html.contains("dot sure"));
        let bins = &mut comparison.distributions[0].bins;
        bins.iter_mut().for_each(|bin| bin.adjusted_p = None);
        let html = section(&comparison).unwrap().html;
        assert!(html.contains("Not tested.") && !html.contains("No bin differs"));
    }
}
