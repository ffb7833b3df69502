//! Relative changes and their intervals as dots and whiskers.

use crate::compare::{ChangeRow, capital};
use crate::report::class_css;
use crate::report::html::escape;
use crate::report::numbers::significant;
use crate::report::ticks::{nice_ticks, tick_labels};
use squall_data::Class;
use std::fmt::Write as _;

const WIDTH: f64 = 460.0;
const LEFT: f64 = 168.0;
const RIGHT: f64 = 66.0;
const ROW: f64 = 23.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;
/// Upper bound of the width of a label's letter, on narrow screens.
const LETTER: f64 = 8.8;

/// Dots and whiskers of relative changes, one row each; `None` if no row has an interval.
pub(super) fn whiskers(rows: &[&ChangeRow], class: Class, by_part: bool) -> Option<String> {
    let known: Vec<Whisker<'_>> = rows
        .iter()
        .filter_map(|row| Whisker::from_row(row))
        .collect();
    if known.is_empty() {
        return None;
    }
    let axis = Axis::for_whiskers(&known);
    let height = TOP + ROW * known.len() as f64 + BOTTOM;
    let mut body = axis.grid(height);
    for (index, whisker) in known.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5);
        body += &whisker.draw(&axis, y, &whisker.label(by_part), class_css(class));
    }
    let described: Vec<String> = (known.iter())
        .map(|Whisker { row, percent, .. }| {
            let label = row.quantity.about().label;
            format!("{label} {} %", rounded(*percent))
        })
        .collect();
    Some(format!(
        "<svg class=\"plot\" role=\"img\" viewBox=\"0 0 {WIDTH} {height:.0}\" aria-label=\"Changes: {}\">\n{body}</svg>\n",
        escape(&described.join(", "))
    ))
}

/// The horizontal axis, percent.
struct Axis {
    ticks: Vec<f64>,
    first: f64,
    last: f64,
}

impl Axis {
    fn for_whiskers(known: &[Whisker<'_>]) -> Self {
        let spans: Vec<[f64; 3]> = known.iter().map(|w| [w.from, w.percent, w.to]).collect();
        Self::over(&spans)
    }

    /// An axis for spans of lower end, change and upper end; there must be at least one.
    fn over(spans: &[[f64; 3]]) -> Self {
        // A single long whisker of a rare event must not squeeze all others, but most whiskers must fit entirely.
        let largest = spans.iter().map(|s| s[1].abs()).fold(4.0, f64::max);
        let mut reaches: Vec<f64> = spans.iter().map(|s| s[0].abs().max(s[2].abs())).collect();
        reaches.sort_by(f64::total_cmp);
        let usual = reaches[reaches.len() / 2];
        let furthest = f64::max(2.5 * largest, 1.25 * usual);
        let limit = |end: f64| end.clamp(-furthest, furthest);
        let low = spans.iter().map(|s| limit(s[0])).fold(0.0, f64::min);
        let high = spans.iter().map(|s| limit(s[2])).fold(0.0, f64::max);
        let ticks = nice_ticks(low, high, 6);
        Self {
            first: ticks[0],
            last: ticks[ticks.len() - 1],
            ticks,
        }
    }

    fn px(&self, percent: f64) -> f64 {
        LEFT + (percent - self.first) / (self.last - self.first) * (WIDTH - LEFT - RIGHT)
    }

    /// The label at each tick. Only zero and every n-th tick from it have one, so that labels do not touch.
    fn labels(&self) -> Vec<String> {
        let sign = |tick: f64| if tick > 0.0 { "+" } else { "" };
        let ticks = self.ticks.iter().zip(tick_labels(&self.ticks));
        let labels: Vec<String> = ticks
            .map(|(tick, label)| format!("{}{label}", sign(*tick)))
            .collect();
        let letters = labels.iter().map(|label| label.chars().count()).max();
        let width = LETTER * (letters.unwrap_or(0) as f64 + 0.5);
        let apart = (self.px(self.last) - self.px(self.first)) / (labels.len() - 1) as f64;
        let every = (width / apart).ceil().max(1.0) as usize;
        let zero = self.ticks.iter().position(|tick| *tick == 0.0);
        let has_one = |at: usize| at.abs_diff(zero.unwrap_or(0)).is_multiple_of(every);
        let labels = labels.into_iter().enumerate();
        labels
            .map(|(at, label)| if has_one(at) { label } else { String::new() })
            .collect()
    }

    /// Gridlines, their labels and the axis title.
    fn grid(&self, height: f64) -> String {
        let floor = height - BOTTOM;
        let mut body = String::new();
        for (tick, label) in self.ticks.iter().zip(self.labels()) {
            let x = self.px(*tick);
            let line = if *tick == 0.0 { "zero" } else { "grid" };
            let _ = writeln!(
                body,
                "<line class=\"{line}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{floor:.1}\"/><text class=\"m\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>",
                floor + 16.0
            );
        }
        let _ = writeln!(
            body,
            "<text class=\"m h\" x=\"{:.1}\" y=\"{:.1}\">change (%)</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            height - 6.0
        );
        body
    }
}

/// A relative change and the ends of its interval, percent.
struct Whisker<'a> {
    row: &'a ChangeRow,
    percent: f64,
    from: f64,
    to: f64,
}

impl<'a> Whisker<'a> {
    fn from_row(row: &'a ChangeRow) -> Option<Self> {
        let interval = row.change.relative_interval?;
        Some(Self {
            row,
            percent: 100.0 * row.change.relative?,
            from: 100.0 * interval.low,
            to: 100.0 * interval.high,
        })
    }

    fn label(&self, by_part: bool) -> String {
        let group = self.row.group();
        match (group.region, group.season) {
            (Some(region), None) if by_part => {
                capital(region.name_for(self.row.quantity.about().class))
            }
            (None, Some(_)) if by_part => self.row.season.clone(),
            // Also rows by season and region, which have a table instead.
            _ => self.row.quantity.about().label.to_string(),
        }
    }

    fn draw(&self, axis: &Axis, y: f64, label: &str, class: &str) -> String {
        let &Self {
            row,
            percent,
            from,
            to,
        } = self;
        let unsure = if row.significant { "" } else { " unsure" };
        let (x1, x2) = (axis.px(from.max(axis.first)), axis.px(to.min(axis.last)));
        let mut path = format!("M{x1:.1} {y:.1}H{x2:.1}");
        if from < axis.first {
            let _ = write!(path, "M{:.1} {:.1}l-4 4l4 4", x1 + 4.0, y - 4.0);
        }
        if to > axis.last {
            let _ = write!(path, "M{:.1} {:.1}l4 4l-4 4", x2 - 4.0, y - 4.0);
        }
        let tip = format!(
            "{label}: {} % ({} to {} %)",
            significant(percent, 3),
            significant(from, 3),
            significant(to, 3)
        );
        format!(
            "<text class=\"e label{unsure}\" x=\"{:.1}\" y=\"{:.1}\">{}</text><g><title>{}</title><path class=\"whisker {class}{unsure}\" d=\"{path}\"/><circle class=\"point {class}{unsure}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/></g><text class=\"e label{unsure}\" x=\"{:.1}\" y=\"{:.1}\">{}{} %</text>\n",
            LEFT - 10.0,
            y + 4.0,
            escape(label),
            escape(&tip),
            axis.px(percent.clamp(axis.first, axis.last)),
            WIDTH - 6.0,
            y + 4.0,
            if percent > 0.0 { "+" } else { "" },
            rounded(percent),
        )
    }
}

/// Percentages to two digits, or three from 100 on: the sentences say 114 %, not 110.
fn rounded(percent: f64) -> String {
    significant(percent, if percent.abs() < 100.0 { 2 } else { 3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_whiskers_end_on_the_axis_and_a_rare_thing_squeezes_none() {
        let ends = |spans: &[[f64; 3]]| {
            let axis = Axis::over(spans);
            (axis.first, axis.last)
        };
        // Counts of few years: changes are small, their intervals are wide.
        let counts = [
            [-46.0, -4.7, 72.0],
            [-49.0, -5.2, 79.0],
            [-47.0, 1.9, 105.0],
            [-46.0, 2.5, 97.0],
            [-49.0, -4.2, 80.0],
            [-4.1, -0.3, 3.9],
        ];
        let (first, last) = ends(&counts);
        let inside = |s: &&[f64; 3]| s[0] >= first && s[2] <= last;
        assert!(counts.iter().filter(inside).count() >= 5, "{first} {last}");
        // The whisker of a rare event extends beyond the axis.
        let usual = [-12.0, 3.0, 14.0];
        let (first, last) = ends(&[usual, usual, usual, usual, [-90.0, 20.0, 900.0]]);
        assert!(first <= -50.0 && last <= 60.0, "{first} {last}");
    }

    #[test]
    fn labels_of_an_axis_do_not_touch_and_zero_has_one() {
        for (low, high) in [
            (-12.0, 268.0),
            (-3.0, 9.0),
            (-40.0, 40.0),
            (0.0, 390.0),
            (-0.4, 0.0),
            (-90.0, 2_600.0),
            (-100.0, 41_000.0),
        ] {
            let axis = Axis::over(&[[low, 0.5 * (low + high), high]]);
            let labels = axis.labels();
            assert_eq!(labels.len(), axis.ticks.len());
            let drawn: Vec<(f64, &String)> = (axis.ticks.iter().zip(&labels))
                .filter(|(_, label)| !label.is_empty())
                .map(|(tick, label)| (axis.px(*tick), label))
                .collect();
            let is_zero = |(x, _): &(f64, &String)| (x - axis.px(0.0)).abs() < 1e-6;
            assert!(drawn.iter().any(is_zero), "{drawn:?}");
            for pair in drawn.windows(2) {
                let half = |label: &str| 0.5 * 8.8 * label.chars().count() as f64;
                let ends = pair[0].0 + half(pair[0].1);
                assert!(ends < pair[1].0 - half(pair[1].1), "{drawn:?}");
            }
        }
        // The axis that `squall compare` labelled as +100+150+200.
        let axis = Axis::over(&[
            [90.0, 114.0, 142.0],
            [57.0, 135.0, 268.0],
            [-12.0, -8.0, -3.0],
        ]);
        assert_eq!(axis.ticks.len(), 8, "{:?}", axis.ticks);
        let labels = axis.labels().join(" ");
        assert_eq!(labels, " 0  +100  +200  +300");
    }

    #[test]
    fn percents_are_those_of_the_sentences() {
        assert_eq!(rounded(114.3), "114");
        assert_eq!(rounded(-7.64), "−7.6");
        assert_eq!(rounded(-135.2), "−135");
        assert_eq!(rounded(99.7), "100");
        assert_eq!(rounded(0.94), "0.94");
    }
}
