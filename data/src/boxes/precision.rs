//! Matches predicted with true boxes, and computes average precision from detections ranked by confidence.

use super::suppress::{by_confidence, sureness};
use crate::GeoBox;
use serde::{Deserialize, Serialize};

/// Overlap thresholds (intersection over union) for a match: ExtremeWeather's 0.1, then COCO's ten.
pub const OVERLAPS: [f64; 11] = [0.1, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];

/// A predicted box: its confidence, and one bit per entry of [`OVERLAPS`] at which it matched a true box.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Confidence of the prediction, 0 to 1.
    pub confidence: f32,
    /// Bit k: it matched a true box at overlap k.
    pub right: u16,
}

/// Matches the predicted boxes of one class and time at every overlap threshold.
///
/// Predictions are processed by falling confidence (ties by their edges). Each takes the unmatched true box that it
/// overlaps most, if the overlap reaches the threshold; a true box is matched once.
///
/// # Source
/// The matching of `hur-detect` (`helper_fxns.py`) and of pycocotools, with areas on the sphere.
pub fn judge(truth: &[GeoBox], predicted: &[GeoBox]) -> Vec<Judged> {
    let mut sorted: Vec<&GeoBox> = predicted.iter().collect();
    sorted.sort_by(|a, b| by_confidence(a, b));
    // For each prediction the true boxes that it overlaps enough at any threshold, best first.
    let candidates: Vec<Vec<(usize, f64)>> = sorted
        .iter()
        .map(|found| {
            let overlaps = truth.iter().map(|real| found.overlap(real));
            let mut near: Vec<(usize, f64)> = overlaps
                .enumerate()
                .filter(|&(_, overlap)| overlap >= OVERLAPS[0])
                .collect();
            near.sort_by(|a, b| {
                let edges = || by_confidence(&truth[a.0], &truth[b.0]);
                b.1.total_cmp(&a.1).then_with(edges)
            });
            near
        })
        .collect();
    let mut judged: Vec<Judged> = sorted
        .iter()
        .map(|found| Judged {
            confidence: sureness(found),
            right: 0,
        })
        .collect();
    for (place, &enough) in OVERLAPS.iter().enumerate() {
        let mut free = vec![true; truth.len()];
        for (judged, near) in judged.iter_mut().zip(&candidates) {
            let best = near
                .iter()
                .find(|&&(t, overlap)| free[t] && overlap >= enough);
            if let Some(&(t, _)) = best {
                free[t] = false;
                judged.right |= 1 << place;
            }
        }
    }
    judged
}

/// A detection for average precision: confidence, correctness, and weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// Confidence of the prediction, 0 to 1.
    pub confidence: f32,
    /// Whether it matched a true box.
    pub right: bool,
    /// Its multiplicity: 1, or the number of times that a bootstrap drew its block.
    pub weight: f64,
}

/// Precision and recall of all boxes with at least this confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The confidence threshold.
    pub confidence: f32,
    /// Share of these boxes that matched.
    pub precision: f64,
    /// Share of the true boxes that were matched.
    pub recall: f64,
    /// Number of true boxes matched.
    pub hits: f64,
}

/// Average precision by three definitions; each is between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AveragePrecision {
    /// Sum over the curve of (recall gain) × precision, without interpolation.
    pub step: f64,
    /// Mean over the recall levels 0, 0.01, ..., 1 of the best precision at that recall or above.
    pub coco: f64,
    /// Like `step`, with recall relative to the true boxes that were found at all, so that misses cost nothing; 0 if
    /// none was found.
    pub of_found: f64,
}

/// The precision-recall curve, from the highest confidence to all boxes; empty without true boxes.
///
/// `sorted` is ordered by falling confidence. Boxes of equal confidence enter together, so that their order does not
/// matter.
pub fn curve(sorted: impl IntoIterator<Item = Detection>, truths: f64) -> Vec<CurvePoint> {
    let mut points: Vec<CurvePoint> = Vec::new();
    if truths <= 0.0 {
        return points;
    }
    let (mut hits, mut all) = (0.0, 0.0);
    for detection in sorted.into_iter().filter(|d| d.weight > 0.0) {
        all += detection.weight;
        hits += if detection.right {
            detection.weight
        } else {
            0.0
        };
        let point = CurvePoint {
            confidence: detection.confidence,
            precision: hits / all,
            recall: hits / truths,
            hits,
        };
        match points.last_mut() {
            Some(last) if last.confidence == detection.confidence => *last = point,
            _ => points.push(point),
        }
    }
    points
}

impl AveragePrecision {
    /// Average precision of a curve; `None` without true boxes.
    ///
    /// # Source
    /// `coco`: `COCOeval.accumulate` of pycocotools (101 recall levels). `step`: `average_precision_score` of
    /// scikit-learn. `of_found`: `scripts/train_val.py` and `helper_fxns.py` of `hur-detect`, the code of Racah et al.
    /// 2017 (arXiv:1612.02095): scikit-learn's function applied to predictions only, so that misses do not lower
    /// recall.
    pub fn of_curve(curve: &[CurvePoint], truths: f64) -> Option<Self> {
        if truths <= 0.0 {
            return None;
        }
        let mut step_hits = 0.0;
        let mut before = 0.0;
        for point in curve {
            step_hits += (point.hits - before) * point.precision;
            before = point.hits;
        }
        // Backwards, keeping the best precision at this recall or above. Recall levels are compared as integers.
        let (mut level, mut best, mut sum) = (100i32, 0.0f64, 0.0);
        for (k, point) in curve.iter().enumerate().rev() {
            best = best.max(point.precision);
            let reached_before = k.checked_sub(1).map_or(-1.0, |k| curve[k].hits);
            while level >= 0 && reached_before * 100.0 < f64::from(level) * truths {
                if point.hits * 100.0 >= f64::from(level) * truths {
                    sum += best;
                }
                level -= 1;
            }
        }
        Some(Self {
            step: step_hits / truths,
            coco: sum / 101.0,
            of_found: if before > 0.0 {
                step_hits / before
            } else {
                0.0
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    /// The hand-worked table: five boxes for four true ones.
    ///
    /// | confidence | right | precision | recall |
    /// |---|---|---|---|
    /// | 0.9 | yes | 1   | 1/4 |
    /// | 0.8 | no  | 1/2 | 1/4 |
    /// | 0.7 | yes | 2/3 | 2/4 |
    /// | 0.6 | yes | 3/4 | 3/4 |
    /// | 0.5 | no  | 3/5 | 3/4 |
    fn table() -> Vec<Detection> {
        [
            (0.9, true),
            (0.8, false),
            (0.7, true),
            (0.6, true),
            (0.5, false),
        ]
        .map(|(confidence, right)| Detection {
            confidence,
            right,
            weight: 1.0,
        })
        .to_vec()
    }

    #[test]
    fn the_hand_worked_table() {
        let points = curve(table(), 4.0);
        let found: Vec<(f64, f64)> = points.iter().map(|p| (p.precision, p.recall)).collect();
        let expected = [
            (1.0, 0.25),
            (0.5, 0.25),
            (2.0 / 3.0, 0.5),
            (0.75, 0.75),
            (0.6, 0.75),
        ];
        assert_eq!(found, expected);
        let ap = AveragePrecision::of_curve(&points, 4.0).unwrap();
        let steps = 1.0 + 2.0 / 3.0 + 0.75;
        assert_relative_eq!(ap.step, steps / 4.0);
        assert_relative_eq!(ap.of_found, steps / 3.0);
        // Recalls 0 to 0.25 (26 levels) at precision 1, 0.26 to 0.75 (50 levels) at 0.75, the other 25 at nothing.
        assert_relative_eq!(ap.coco, (26.0 + 50.0 * 0.75) / 101.0);
    }

    #[test]
    fn all_right_is_one_and_nothing_is_zero() {
        let right: Vec<Detection> = table()
            .into_iter()
            .map(|d| Detection { right: true, ..d })
            .collect();
        let ap = AveragePrecision::of_curve(&curve(right, 5.0), 5.0).unwrap();
        assert_relative_eq!(ap.step, 1.0);
        assert_relative_eq!(ap.coco, 1.0);
        let none = AveragePrecision::of_curve(&curve([], 5.0), 5.0).unwrap();
        assert_eq!((none.step, none.coco, none.of_found), (0.0, 0.0, 0.0));
        assert_eq!(AveragePrecision::of_curve(&curve(table(), 0.0), 0.0), None);
    }

    #[test]
    fn equally_sure_boxes_enter_together_and_weights_repeat() {
        let mut tied = table();
        tied[1].confidence = 0.9;
        let first = curve(tied.clone(), 4.0);
        tied.swap(0, 1);
        assert_eq!(first, curve(tied, 4.0));
        assert_eq!((first[0].precision, first.len()), (0.5, 4));
        let twice: Vec<Detection> = table().iter().flat_map(|d| [*d, *d]).collect();
        let weighted = table().into_iter().map(|d| Detection { weight: 2.0, ..d });
        assert_eq!(curve(twice, 8.0), curve(weighted, 8.0));
        let absent = table().into_iter().map(|d| Detection { weight: 0.0, ..d });
        assert!(curve(absent, 4.0).is_empty());
    }
}
