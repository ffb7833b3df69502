//! Non-maximum suppression: of overlapping boxes, the most confident one is kept.

use crate::boxes::GeoBox;
use crate::error::{DataError, Result};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Selects which of a detector's boxes at one time are kept (non-maximum suppression).
///
/// Boxes are processed by falling confidence; one that overlaps a kept box of its class by more than `max_overlap` is
/// dropped. Overlap is intersection over union on the sphere, so the seam at 0°E and the poles need no special
/// treatment.
///
/// # Source
/// Defaults as in the SSD recipe of `hur-detect` (branch `keras-tf`): overlap 0.45, confidence 0.01, 200 boxes. The
/// detector of Kurth et al. 2017 (arXiv:1708.05256) keeps boxes with a confidence above 0.8.
///
/// # Example
/// ```
/// use squall_data::boxes::suppress::Suppression;
/// use squall_data::{BoxClass, GeoBox};
/// let at = |west_deg, confidence| GeoBox {
///     class: BoxClass::TropicalCyclone,
///     west_deg,
///     south_deg: 10.0,
///     east_deg: (west_deg + 10.0) % 360.0,
///     north_deg: 20.0,
///     confidence: Some(confidence),
/// };
/// // The second box lies across 0°E and repeats the first.
/// let kept = Suppression::default().keep(&[at(354.0, 0.9), at(356.0, 0.8), at(100.0, 0.5)]);
/// assert_eq!(kept, [0, 2]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Suppression {
    /// Maximum overlap of two kept boxes of one class, 0 to 1; 1 keeps all.
    pub max_overlap: f64,
    /// Minimum confidence. Boxes without a confidence (labels) always pass.
    pub min_confidence: f32,
    /// Maximum number of kept boxes per time, over all classes.
    pub max_boxes: usize,
}

impl Default for Suppression {
    fn default() -> Self {
        Self {
            max_overlap: 0.45,
            min_confidence: 0.01,
            max_boxes: 200,
        }
    }
}

impl Suppression {
    /// # Errors
    /// [`DataError::Invalid`] if the overlap or the confidence is outside of 0 to 1, or `max_boxes` is 0.
    pub fn check(&self) -> Result<()> {
        let fault = if !(0.0..=1.0).contains(&self.max_overlap) {
            format!("max_overlap: expected 0 to 1, found {}", self.max_overlap)
        } else if !(0.0..=1.0).contains(&self.min_confidence) {
            format!(
                "min_confidence: expected 0 to 1, found {}",
                self.min_confidence
            )
        } else if self.max_boxes == 0 {
            "max_boxes: expected at least 1, found 0".into()
        } else {
            return Ok(());
        };
        Err(DataError::Invalid(fault))
    }

    /// Indices in `boxes` of the kept ones, by falling confidence.
    ///
    /// The result does not depend on the order of `boxes`. Time: n log n + kept · n.
    pub fn keep(&self, boxes: &[GeoBox]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..boxes.len())
            .filter(|&k| sureness(&boxes[k]) >= self.min_confidence)
            .collect();
        order.sort_by(|&a, &b| by_confidence(&boxes[a], &boxes[b]));
        let mut kept: Vec<usize> = Vec::new();
        for k in order {
            if kept.len() >= self.max_boxes {
                break;
            }
            let repeats = |&other: &usize| {
                boxes[other].class == boxes[k].class
                    && boxes[other].overlap(&boxes[k]) > self.max_overlap
            };
            if !kept.iter().any(repeats) {
                kept.push(k);
            }
        }
        kept
    }

    /// The kept boxes, by falling confidence.
    pub fn apply(&self, boxes: &[GeoBox]) -> Vec<GeoBox> {
        self.keep(boxes).into_iter().map(|k| boxes[k]).collect()
    }
}

/// The confidence of a box: 1 for those without one.
pub(super) fn sureness(found: &GeoBox) -> f32 {
    found.confidence.unwrap_or(1.0)
}

/// Orders by falling confidence; ties by class, southern, northern, western and eastern edge, so that the result does
/// not depend on the input order.
pub(super) fn by_confidence(a: &GeoBox, b: &GeoBox) -> Ordering {
    let edges = |g: &GeoBox| [g.south_deg, g.north_deg, g.west_deg, g.east_deg];
    let by_edges = || {
        edges(a)
            .into_iter()
            .zip(edges(b))
            .map(|(a, b)| a.total_cmp(&b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    sureness(b)
        .total_cmp(&sureness(a))
        .then(a.class.cmp(&b.class))
        .then_with(by_edges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BoxClass;
    use proptest::prelude::*;

    fn geo(class: BoxClass, west_deg: f64, south_deg: f64, confidence: Option<f32>) -> GeoBox {
        GeoBox {
            class,
            west_deg: west_deg.rem_euclid(360.0),
            south_deg,
            east_deg: (west_deg + 10.0).rem_euclid(360.0),
            north_deg: south_deg + 10.0,
            confidence,
        }
    }

    const TC: BoxClass = BoxClass::TropicalCyclone;

    #[test]
    fn classes_confidence_and_number_by_hand() {
        let boxes = [
            geo(TC, 0.0, 10.0, Some(0.6)),
            geo(TC, 1.0, 10.0, Some(0.9)),
            // The same place and another class: both stay.
            geo(BoxClass::TropicalDepression, 1.0, 10.0, Some(0.7)),
            geo(TC, 50.0, 10.0, Some(0.2)),
            geo(TC, 90.0, 10.0, None),
            geo(TC, 130.0, 10.0, Some(f32::NAN)),
        ];
        let options = Suppression {
            min_confidence: 0.3,
            ..Suppression::default()
        };
        assert_eq!(options.keep(&boxes), [4, 1, 2]);
        let two = Suppression {
            max_boxes: 2,
            ..options
        };
        assert_eq!(two.keep(&boxes), [4, 1]);
        let all = Suppression {
            max_overlap: 1.0,
            min_confidence: 0.0,
            ..options
        };
        assert_eq!(all.keep(&boxes), [4, 1, 2, 0, 3]);
        assert!(Suppression::default().keep(&[]).is_empty());
    }

    #[test]
    fn options_without_meaning_are_errors() {
        assert!(Suppression::default().check().is_ok());
        for (options, part) in [
            (
                Suppression {
                    max_overlap: 1.5,
                    ..Suppression::default()
                },
                "1.5",
            ),
            (
                Suppression {
                    min_confidence: f32::NAN,
                    ..Suppression::default()
                },
                "NaN",
            ),
            (
                Suppression {
                    max_boxes: 0,
                    ..Suppression::default()
                },
                "max_boxes",
            ),
        ] {
            let message = options.check().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    /// Boxes of two classes, crowded enough to overlap; no two are equally sure.
    fn crowd() -> impl Strategy<Value = Vec<GeoBox>> {
        let one = (
            0.0..60.0f64,
            -80.0..70.0f64,
            1.0..40.0f64,
            1.0..10.0f64,
            any::<bool>(),
        );
        proptest::collection::vec(one, 0..40).prop_map(|all| {
            let count = all.len();
            all.into_iter()
                .enumerate()
                .map(|(k, (west, south, width, height, river))| GeoBox {
                    class: if river {
                        BoxClass::AtmosphericRiver
                    } else {
                        TC
                    },
                    west_deg: west,
                    south_deg: south / 4.0,
                    east_deg: west + width,
                    north_deg: south / 4.0 + height,
                    confidence: Some(((k * 7 % 41) as f32 + 1.0) / (count + 42) as f32),
                })
                .collect()
        })
    }

    fn turned(boxes: &[GeoBox], degrees: f64) -> Vec<GeoBox> {
        let turn = |g: &GeoBox| GeoBox {
            west_deg: (g.west_deg + degrees).rem_euclid(360.0),
            east_deg: (g.east_deg + degrees).rem_euclid(360.0),
            ..*g
        };
        boxes.iter().map(turn).collect()
    }

    proptest! {
        #[test]
        fn turning_the_globe_turns_the_result(boxes in crowd(), degrees in 0.0..360.0f64, overlap in 0.05..0.9f64) {
            let options = Suppression { max_overlap: overlap, ..Suppression::default() };
            prop_assert_eq!(options.keep(&boxes), options.keep(&turned(&boxes, degrees)));
        }

        #[test]
        fn kept_boxes_are_apart_and_dropped_ones_repeat_a_surer_one(boxes in crowd(), overlap in 0.0..0.9f64) {
            let options = Suppression { max_overlap: overlap, min_confidence: 0.0, max_boxes: usize::MAX };
            let kept = options.keep(&boxes);
            for (k, &a) in kept.iter().enumerate() {
                for &b in &kept[..k] {
                    prop_assert!(boxes[a].class != boxes[b].class || boxes[a].overlap(&boxes[b]) <= overlap);
                    prop_assert!(sureness(&boxes[b]) >= sureness(&boxes[a]));
                }
            }
            for k in (0..boxes.len()).filter(|k| !kept.contains(k)) {
                let surer = |&&other: &&usize| {
                    let other = &boxes[other];
                    other.class == boxes[k].class && sureness(other) >= sureness(&boxes[k]) && other.overlap(&boxes[k]) > overlap
                };
                prop_assert!(kept.iter().find(surer).is_some(), "{:?} was dropped for nothing", boxes[k]);
            }
        }

        #[test]
        fn twice_is_once_and_order_says_nothing(boxes in crowd(), by in 0usize..40) {
            let options = Suppression { max_boxes: 12, ..Suppression::default() };
            let kept = options.apply(&boxes);
            prop_assert_eq!(&options.apply(&kept), &kept);
            let mut shuffled = boxes.clone();
            if !shuffled.is_empty() {
                let by = by % shuffled.len();
                shuffled.rotate_left(by);
                shuffled.reverse();
            }
            prop_assert_eq!(options.apply(&shuffled), kept);
        }
    }
}
