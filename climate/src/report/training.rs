//! Training curves of networks: the loss and the validation score of all runs in common charts.

use crate::report::TrainingCurve;
use crate::report::figures::figure;
use crate::report::html::escape;
use crate::report::numbers::{counted, significant};
use crate::report::page::{Page, Section};
use crate::report::svg::Plot;
use crate::report::ticks::{nice_ticks, tick_labels};
use std::fmt::Write as _;

/// Maximum number of points of a curve; longer curves are averaged.
const POINTS: usize = 150;

/// Different colours and dashes keep overlapping curves visible.
const LINES: [&str; 5] = [
    "heuristic wide",
    "river dash",
    "cyclone dot",
    "network",
    "truth",
];

/// The section; `None` if there are no runs.
pub(crate) fn section(page: &Page<'_>) -> Option<Section> {
    let curves = &page.input.training;
    if curves.is_empty() {
        return None;
    }
    let mut html = String::from("<ul class=\"legend\">");
    for (curve, line) in curves.iter().zip(LINES.iter().cycle()) {
        let colour = line.split(' ').next().unwrap_or(line);
        let _ = write!(
            html,
            "<li><i class=\"key {colour}\"></i>{}, {}</li>",
            escape(&curve.label),
            counted(curve.loss.len(), "step")
        );
    }
    html.push_str("</ul>\n<div class=\"grid\">\n");
    let loss: Vec<_> = curves.iter().map(|c| thinned(&c.loss)).collect();
    html += &chart("Loss", "training loss", &loss, &Scale::Decades);
    for name in score_names(curves) {
        // Runs with another score have no line here, but keep their colour.
        let score: Vec<_> = curves
            .iter()
            .map(|c| {
                if c.score_name == name {
                    c.score.clone()
                } else {
                    Vec::new()
                }
            })
            .collect();
        let axis = format!("{name} of validation");
        html += &chart("Validation", &axis, &score, &Scale::Share);
    }
    html.push_str("</div>\n");
    Some(Section {
        id: "training".into(),
        nav: "Training".into(),
        heading: "How the network learnt".into(),
        lead: "Loss on the training samples, averaged where steps are many, and agreement on samples that are held back.".into(),
        html,
    })
}

/// The distinct validation scores, in the order of the runs.
fn score_names(curves: &[TrainingCurve]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for curve in curves.iter().filter(|curve| !curve.score.is_empty()) {
        if !names.contains(&curve.score_name.as_str()) {
            names.push(&curve.score_name);
        }
    }
    names
}

/// The vertical axis of a chart.
enum Scale {
    /// Shares from 0 to 1.
    Share,
    /// A logarithmic axis of whole decades; values that are not positive are left out.
    Decades,
}

impl Scale {
    /// The coordinate of a value on the axis.
    fn place(&self, value: f64) -> Option<f64> {
        match self {
            Self::Share => Some(value),
            Self::Decades => (value > 0.0).then(|| value.log10()),
        }
    }

    /// The ends and the labels of the axis.
    fn axis(&self, places: impl Iterator<Item = f64>) -> ((f64, f64), Vec<(f64, String)>) {
        let ends = match self {
            Self::Share => (0.0, 1.0),
            Self::Decades => {
                let (low, high) = places
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| {
                        (low.min(y), high.max(y))
                    });
                (low.floor(), high.ceil().max(low.floor() + 1.0))
            }
        };
        let labels = match self {
            Self::Share => {
                let ticks = nice_ticks(0.0, 1.0, 5);
                let labels = tick_labels(&ticks);
                ticks.into_iter().zip(labels).collect()
            }
            Self::Decades => {
                let decades = ends.0 as i32..=ends.1 as i32;
                let label = |decade: i32| match decade {
                    0.. => format!("{}", 10f64.powi(decade)),
                    _ => format!("{:.*}", decade.unsigned_abs() as usize, 10f64.powi(decade)),
                };
                decades.map(|d| (f64::from(d), label(d))).collect()
            }
        };
        (ends, labels)
    }
}

/// A plot of several curves; empty if none has a point.
fn chart(title: &str, axis: &str, curves: &[Vec<(f64, f64)>], scale: &Scale) -> String {
    let places: Vec<Vec<(f64, Option<f64>)>> = curves
        .iter()
        .map(|curve| curve.iter().map(|&(x, y)| (x, scale.place(y))).collect())
        .collect();
    let drawn = || places.iter().flatten().filter_map(|&(x, y)| Some((x, y?)));
    let Some(last) = drawn().map(|p| p.0).reduce(f64::max) else {
        return String::new();
    };
    let last = last.max(1.0);
    let (ends, labels) = scale.axis(drawn().map(|p| p.1));
    let mut plot = Plot::new((0.0, last), ends);
    plot.y_labels(&labels, axis);
    let ticks: Vec<f64> = nice_ticks(0.0, last, 5)
        .into_iter()
        .filter(|&t| t <= last)
        .collect();
    plot.x_axis(&ticks, "training step");
    for (curve, line) in places.iter().zip(LINES.iter().cycle()) {
        plot.line(curve, line);
    }
    let ends: Vec<String> = curves
        .iter()
        .filter_map(|curve| curve.last())
        .map(|(_, y)| significant(*y, 3))
        .collect();
    let described = format!(
        "{title} of {}, at the end {}",
        counted(curves.len(), "run"),
        ends.join(", ")
    );
    figure(title, &plot.finish(&described), "")
}

/// At most [`POINTS`] points, each the mean of equally many.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let each = points.len().div_ceil(POINTS).max(1);
    let mean = |group: &[(f64, f64)]| {
        let sum = group.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
        (sum.0 / group.len() as f64, sum.1 / group.len() as f64)
    };
    points.chunks(each).map(mean).collect()
}

impl TrainingCurve {
    /// A run without points.
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            loss: Vec::new(),
            score_name: String::new(),
            score: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_are_averaged() {
        let points: Vec<(f64, f64)> = (0..301).map(|k| (f64::from(k), 2.0)).collect();
        let few = thinned(&points);
        assert_eq!(
            (few.len(), few[0], few[100]),
            (101, (1.0, 2.0), (300.0, 2.0))
        );
    }

    #[test]
    fn a_chart_of_validation_is_called_by_its_score() {
        let run = |name: &str, at: f64| TrainingCurve {
            score_name: name.into(),
            score: vec![(1.0, at)],
            ..TrainingCurve::new("run")
        };
        let unvalidated = TrainingCurve::new("new");
        let runs = [
            run("mAP", 0.2),
            run("mean IoU", 0.5),
            run("mAP", 0.3),
            unvalidated,
        ];
        assert_eq!(score_names(&runs), ["mAP", "mean IoU"]);
    }

    #[test]
    fn two_runs_on_one_chart() {
        let curves = [
            vec![(0.0, 1.0), (5.0, 0.5), (10.0, 0.025)],
            vec![(0.0, 1.0), (6.0, 0.0), (10.0, 0.3)],
        ];
        let html = chart("Loss", "training loss", &curves, &Scale::Decades);
        assert!(html.contains("Loss of 2 runs, at the end 0.025"), "{html}");
        assert_eq!(html.matches("<path").count(), 2);
        for label in [">0.01<", ">0.1<", ">1<"] {
            assert!(html.contains(label), "{label} in {html}");
        }
        let none = chart("Loss", "training loss", &[Vec::new()], &Scale::Decades);
        assert!(none.is_empty());
    }
}
