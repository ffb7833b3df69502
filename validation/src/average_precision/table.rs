//! Average precision as text.

use super::{BoxScores, DetectionScore};
use crate::bootstrap::Interval;
use std::fmt;

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |v| format!("{v:.4}"))
}

fn with_interval(value: Option<f64>, interval: Option<Interval>) -> String {
    match interval {
        Some(i) => format!("{} ({:.3} to {:.3})", number(value), i.low, i.high),
        None => number(value),
    }
}

impl fmt::Display for DetectionScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} times from {} to {}",
            self.times, self.first, self.last
        )?;
        self.write_precisions(f)?;
        self.write_other_rules(f)?;
        if !self.classes_without_truth.is_empty() {
            let names: Vec<&str> = self
                .classes_without_truth
                .iter()
                .map(|class| class.name())
                .collect();
            writeln!(
                f,
                "left out of the mean for want of true boxes: {}",
                names.join(", ")
            )?;
        }
        write!(
            f,
            "AP at one IoU: sum of (gain of recall) x precision, not interpolated; COCO: mean of the best precision at or above 101 recalls; \
             found: recall among the boxes that were found at all, as in the ExtremeWeather code (misses cost nothing). \
             Boxes of one time and class are matched the surest first, each true box once, by areas on the sphere"
        )
    }
}

impl DetectionScore {
    /// Writes the average precisions of every class, and their means, with intervals.
    fn write_precisions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<22} {:>8} {:>8}  {:<26} {:<26} {:<26}",
            "class", "true", "boxes", "AP at IoU 0.1", "AP at IoU 0.5", "COCO AP 0.5:0.95"
        )?;
        for class in &self.classes {
            writeln!(
                f,
                "{:<22} {:>8} {:>8}  {:<26} {:<26} {:<26}",
                class.class.name(),
                class.truths,
                class.predictions,
                with_interval(class.at_10.average_precision, class.at_10.interval),
                with_interval(class.at_50.average_precision, class.at_50.interval),
                with_interval(class.coco, class.coco_interval)
            )?;
        }
        let mean = &self.mean;
        writeln!(
            f,
            "{:<22} {:>8} {:>8}  {:<26} {:<26} {:<26}",
            "mean (mAP)",
            "",
            "",
            with_interval(mean.at_10, mean.at_10_interval),
            with_interval(mean.at_50, mean.at_50_interval),
            with_interval(mean.coco, mean.coco_interval)
        )
    }

    /// Writes what other rules give of every class: recall, and average precision as COCO and ExtremeWeather count it.
    fn write_other_rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<22} {:>8} {:>8}  {:>10} {:>10} {:>10} {:>10}",
            "other rules",
            "recall.1",
            "recall.5",
            "COCO at.1",
            "COCO at.5",
            "found at.1",
            "found at.5"
        )?;
        for class in &self.classes {
            writeln!(
                f,
                "{:<22} {:>8} {:>8}  {:>10} {:>10} {:>10} {:>10}",
                class.class.name(),
                number(class.at_10.recall),
                number(class.at_50.recall),
                number(class.at_10.average_precision_coco),
                number(class.at_50.average_precision_coco),
                number(class.at_10.average_precision_of_found),
                number(class.at_50.average_precision_of_found)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for BoxScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.score)?;
        writeln!(f, "times on both sides: {}", self.coverage.both)?;
        for (name, times) in [
            (
                "only in the truth (counted as missed)",
                &self.coverage.only_in_truth,
            ),
            (
                "only in the prediction (counted as false)",
                &self.coverage.only_in_prediction,
            ),
            (
                "at which one side did not look (left out)",
                &self.coverage.left_out,
            ),
        ] {
            writeln!(f, "times {name}: {times}")?;
        }
        write!(
            f,
            "a time missing between the first and last of a table that never lists times without boxes is one without boxes, unless a finished `squall infer` wrote the table"
        )
    }
}
