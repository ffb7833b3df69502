//! Small plots as SVG: axes, bars, lines. Colours come from the page's style sheet by class name.

use crate::report::html::escape;
use crate::report::ticks::tick_labels;
use std::fmt::Write as _;

/// Width and height of a plot, in the units of its coordinates; the page scales it.
const SIZE: (f64, f64) = (460.0, 250.0);
/// Room for labels of up to four digits.
const LEFT: f64 = 46.0;
/// Width of a digit at the largest text size: on phones (see the style sheet).
const DIGIT: f64 = 8.8;
/// Half the width of a label of five digits under the last tick.
const RIGHT: f64 = 24.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 42.0;

/// A plot under construction.
pub(crate) struct Plot {
    body: String,
    x: (f64, f64),
    y: (f64, f64),
    left: f64,
}

impl Plot {
    /// A plot over ranges of x and y.
    pub(crate) fn new(x: (f64, f64), y: (f64, f64)) -> Self {
        Self {
            body: String::new(),
            x,
            y,
            left: LEFT,
        }
    }

    /// A plot over a range of x, and over y from the first to the last tick, with room for the ticks' labels.
    pub(crate) fn over(x: (f64, f64), ticks: &[f64]) -> Self {
        let ends = (ticks[0], ticks[ticks.len() - 1]);
        let width = |label: &String| -> f64 {
            let letters = label
                .chars()
                .map(|c| if c.is_whitespace() { 0.4 } else { 1.0 });
            DIGIT * letters.sum::<f64>()
        };
        let widest = tick_labels(ticks).iter().map(width).fold(0.0, f64::max);
        Self {
            left: LEFT.max(widest + 10.0),
            ..Self::new(x, ends)
        }
    }

    /// Horizontal coordinate of a value.
    pub(crate) fn px(&self, x: f64) -> f64 {
        let room = SIZE.0 - self.left - RIGHT;
        self.left + (x - self.x.0) / (self.x.1 - self.x.0) * room
    }

    /// Vertical coordinate of a value.
    pub(crate) fn py(&self, y: f64) -> f64 {
        let floor = SIZE.1 - BOTTOM;
        floor - (y - self.y.0) / (self.y.1 - self.y.0) * (floor - TOP)
    }

    /// Gridlines, labels and the heading of the vertical axis.
    pub(crate) fn y_axis(&mut self, ticks: &[f64], heading: &str) {
        let labelled: Vec<_> = ticks.iter().copied().zip(tick_labels(ticks)).collect();
        self.y_labels(&labelled, heading);
    }

    /// Gridlines with these labels, and the heading of the vertical axis.
    pub(crate) fn y_labels(&mut self, labels: &[(f64, String)], heading: &str) {
        for (tick, label) in labels {
            let y = self.py(*tick);
            let class = if *tick == self.y.0 { "axis" } else { "grid" };
            let _ = writeln!(
                self.body,
                "<line class=\"{class}\" x1=\"{}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"e\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                self.left,
                SIZE.0 - RIGHT,
                self.left - 6.0,
                y + 4.0,
                escape(label),
            );
        }
        let _ = writeln!(
            self.body,
            "<text class=\"h\" x=\"{:.1}\" y=\"12\">{}</text>",
            4.0,
            escape(heading)
        );
    }

    /// Numeric ticks below the horizontal axis, and its heading.
    pub(crate) fn x_axis(&mut self, ticks: &[f64], heading: &str) {
        let labels = tick_labels(ticks);
        let labelled: Vec<_> = ticks.iter().copied().zip(labels).collect();
        self.x_labels(&labelled, heading, true);
    }

    /// Labels below the horizontal axis, and its heading.
    pub(crate) fn x_labels(&mut self, labels: &[(f64, String)], heading: &str, marks: bool) {
        let floor = SIZE.1 - BOTTOM;
        for (place, label) in labels {
            let x = self.px(*place);
            if marks {
                let _ = write!(
                    self.body,
                    "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{floor:.1}\" y2=\"{:.1}\"/>",
                    floor + 4.0
                );
            }
            let _ = writeln!(
                self.body,
                "<text class=\"m\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                floor + 16.0,
                escape(label)
            );
        }
        let _ = writeln!(
            self.body,
            "<text class=\"m h\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (self.left + SIZE.0 - RIGHT) / 2.0,
            SIZE.1 - 7.0,
            escape(heading)
        );
    }

    /// A bar between two values of x, from the bottom to `value`; `tip` is its tooltip.
    pub(crate) fn bar(&mut self, (from, to): (f64, f64), value: f64, class: &str, tip: &str) {
        let (x, width) = (self.px(from), self.px(to) - self.px(from));
        let (top, floor) = (self.py(value), self.py(self.y.0));
        if floor - top > 0.0 {
            let _ = writeln!(
                self.body,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                width.max(0.5),
                floor - top,
                escape(tip)
            );
        }
    }

    /// A shaded column over the full height with a label at its top.
    pub(crate) fn band(&mut self, (from, to): (f64, f64), class: &str, word: &str) {
        let (x, width) = (self.px(from), self.px(to) - self.px(from));
        let floor = SIZE.1 - BOTTOM;
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
            floor - TOP
        );
        if !word.is_empty() {
            let _ = writeln!(
                self.body,
                "<text class=\"m s\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + width / 2.0,
                TOP + 10.0,
                escape(word)
            );
        }
    }

    /// A word above the plot.
    pub(crate) fn word(&mut self, x: f64, word: &str) {
        let _ = writeln!(
            self.body,
            "<text class=\"m s\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            self.px(x),
            TOP - 3.0,
            escape(word)
        );
    }

    /// A thin vertical line with a label at its top, for instance for a threshold.
    pub(crate) fn mark(&mut self, x: f64, word: &str) {
        let place = self.px(x);
        let _ = writeln!(
            self.body,
            "<line class=\"mark\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/><text class=\"m s\" x=\"{place:.1}\" y=\"{:.1}\">{}</text>",
            SIZE.1 - BOTTOM,
            TOP - 3.0,
            escape(word)
        );
    }

    /// A line through points; `None` breaks it. A point with breaks on both sides becomes a dot.
    pub(crate) fn line(&mut self, points: &[(f64, Option<f64>)], class: &str) {
        let mut path = String::new();
        let mut dots = String::new();
        let mut drawing = false;
        for (k, (x, y)) in points.iter().enumerate() {
            let Some(y) = y else {
                drawing = false;
                continue;
            };
            let letter = if drawing { 'L' } else { 'M' };
            let (px, py) = (self.px(*x), self.py(*y));
            let _ = write!(path, "{letter}{px:.1} {py:.1}");
            let alone = !drawing && points.get(k + 1).is_none_or(|next| next.1.is_none());
            if alone {
                let _ = write!(
                    dots,
                    "<circle class=\"dot {class}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"2.5\"/>"
                );
            }
            drawing = true;
        }
        if !path.is_empty() {
            let _ = writeln!(
                self.body,
                "<path class=\"line {class}\" d=\"{path}\"/>{dots}"
            );
        }
    }

    /// The area between two lines: x, lower and upper value.
    pub(crate) fn area(&mut self, points: &[(f64, f64, f64)], class: &str) {
        let mut path = String::new();
        let lower = points.iter().map(|(x, low, _)| (x, low));
        let upper = points.iter().rev().map(|(x, _, high)| (x, high));
        for (k, (x, y)) in lower.chain(upper).enumerate() {
            let letter = if k == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", self.px(*x), self.py(*y));
        }
        let _ = writeln!(self.body, "<path class=\"area {class}\" d=\"{path}Z\"/>");
    }

    /// A step line over bins, at the height of each value.
    pub(crate) fn steps(&mut self, edges: &[f64], values: &[f64], class: &str) {
        let mut path = String::new();
        for (k, value) in values.iter().enumerate() {
            let letter = if k == 0 { 'M' } else { 'L' };
            let (x0, x1, y) = (self.px(edges[k]), self.px(edges[k + 1]), self.py(*value));
            let _ = write!(path, "{letter}{x0:.1} {y:.1}L{x1:.1} {y:.1}");
        }
        let _ = writeln!(self.body, "<path class=\"line {class}\" d=\"{path}\"/>");
    }

    /// The SVG element; `description` is for screen readers.
    pub(crate) fn finish(self, description: &str) -> String {
        format!(
            "<svg class=\"plot\" role=\"img\" viewBox=\"0 0 {} {}\" aria-label=\"{}\">\n{}</svg>\n",
            SIZE.0,
            SIZE.1,
            escape(description),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_labels_have_room_left_of_the_axis() {
        let place = |ticks: &[f64]| Plot::over((0.0, 1.0), ticks).px(0.0);
        assert_eq!(place(&[0.0, 100.0]), LEFT);
        // Ten letters of at most 8.8 each, two of them narrow spaces, and the gap of 6 to the axis.
        let wide = place(&[0.0, 1e7, 2e7]);
        assert!(wide >= 8.0 * DIGIT + 2.0 * 0.4 * DIGIT + 6.0, "{wide}");
        assert_eq!(Plot::over((0.0, 1.0), &[0.0, 2e7]).px(1.0), SIZE.0 - RIGHT);
    }

    #[test]
    fn a_small_plot() {
        let mut plot = Plot::new((0.0, 4.0), (0.0, 2.0));
        plot.y_axis(&[0.0, 1.0, 2.0], "tracks");
        plot.x_axis(&[0.0, 2.0, 4.0], "wind (m s⁻¹)");
        plot.mark(3.0, "hurricane");
        plot.bar((0.2, 0.8), 1.5, "heuristic", "1.5 <tracks>");
        plot.bar((1.2, 1.8), 0.0, "heuristic", "nothing to draw");
        plot.line(
            &[
                (0.0, Some(1.0)),
                (1.0, Some(2.0)),
                (2.0, None),
                (3.0, Some(0.5)),
            ],
            "network",
        );
        plot.steps(&[0.0, 1.0, 2.0], &[1.0, 2.0], "truth");
        insta::assert_snapshot!(plot.finish("Two & a half tracks"));
    }
}
