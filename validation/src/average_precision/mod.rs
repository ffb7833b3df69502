//! Average precision of predicted boxes: per class, at several overlaps.

mod table;
mod times;

pub use squall_data::boxes::precision::OVERLAPS;
pub use times::{BoxesAt, ComparedTimes, ListsAll, TimeCoverage, compared_times};

use crate::bootstrap::{Bootstrap, Interval};
use crate::error::{Result, ValidationError};
use serde::{Deserialize, Serialize};
use squall_data::boxes::precision::{AveragePrecision, Detection, Judged, curve, judge};
use squall_data::{BoxClass, Calendar, GeoBox, Time};
use std::collections::BTreeMap;

/// Place of 0.5 in [`OVERLAPS`], where COCO's ten begin.
const FIRST_COCO: usize = 1;

/// Gathers the boxes of one time after the other to a [`DetectionScore`].
///
/// # Example
/// ```
/// use squall_data::{BoxClass, Calendar, GeoBox, Time};
/// use squall_validation::average_precision::DetectionScorer;
/// use squall_validation::bootstrap::Bootstrap;
///
/// let time = Time::new(Calendar::NoLeap, 1984, 8, 1, 0, 0, 0).unwrap();
/// let truth = GeoBox {
///     class: BoxClass::TropicalCyclone,
///     west_deg: 355.0, south_deg: 10.0, east_deg: 5.0, north_deg: 20.0,
///     confidence: None,
/// };
/// let found = GeoBox { confidence: Some(0.9), ..truth };
/// let mut scorer = DetectionScorer::new();
/// scorer.add(time, &[truth], &[found]).unwrap();
/// let score = scorer.score(&Bootstrap::default()).unwrap();
/// assert_eq!(score.mean.coco, Some(1.0));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DetectionScorer {
    calendar: Option<Calendar>,
    /// By seconds from the start of year 1 of the calendar; of each class, by its code.
    times: BTreeMap<i64, [Counted; 4]>,
}

/// What one time adds to a class.
#[derive(Debug, Clone, Default, PartialEq)]
struct Counted {
    /// True boxes.
    truths: u32,
    /// Predicted boxes.
    boxes: Vec<Judged>,
}

/// The headline numbers of a class or of the mean of all: average precisions, or their confidence intervals.
#[derive(Debug, Clone, Copy)]
struct Headline<T> {
    /// At an overlap of 0.1, nothing interpolated.
    at_10: Option<T>,
    /// At an overlap of 0.5, nothing interpolated.
    at_50: Option<T>,
    /// COCO's mean.
    coco: Option<T>,
}

impl DetectionScorer {
    /// Nothing scored yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the boxes of one time, which may have none on either side.
    ///
    /// Within a class the surest box comes first (at the same confidence in the order of its edges) and takes the true
    /// box that it overlaps most among those still free, if the overlap is large enough; a true box is found once.
    ///
    /// # Source
    /// The match of `hur-detect` (`helper_fxns.py`) and of pycocotools, with areas on the sphere.
    ///
    /// # Errors
    /// [`ValidationError::Mismatch`] if the calendar is another one, [`ValidationError::Invalid`] if a confidence is
    /// NaN.
    pub fn add(&mut self, time: Time, truth: &[GeoBox], predicted: &[GeoBox]) -> Result<()> {
        let key = self.key(time)?;
        if predicted
            .iter()
            .any(|b| b.confidence.is_some_and(f32::is_nan))
        {
            return Err(ValidationError::Invalid(format!(
                "boxes of {time}: expected confidences from 0 to 1, found NaN"
            )));
        }
        let counted = self.times.entry(key).or_default();
        for class in BoxClass::ALL {
            let of_class = |boxes: &[GeoBox]| -> Vec<GeoBox> {
                boxes.iter().filter(|b| b.class == class).copied().collect()
            };
            let (truth, predicted) = (of_class(truth), of_class(predicted));
            let counted = &mut counted[usize::from(class.code())];
            counted.truths += truth.len() as u32;
            counted.boxes.extend(judge(&truth, &predicted));
        }
        Ok(())
    }

    /// The score of what was added; `None` if that is nothing.
    ///
    /// Intervals come from drawing blocks of time and cost the number of draws times the number of boxes.
    pub fn score(&self, bootstrap: &Bootstrap) -> Option<DetectionScore> {
        let (&first, _) = self.times.first_key_value()?;
        let (&last, _) = self.times.last_key_value()?;
        let block_of = |key: i64| bootstrap.block(key - first);
        // Blocks without any time are none: only those that hold times are drawn.
        let mut blocks: Vec<i64> = self.times.keys().map(|&key| block_of(key)).collect();
        blocks.dedup();
        let place = |key: i64| blocks.binary_search(&block_of(key)).unwrap_or(0) as u32;
        let sorted = BoxClass::ALL.map(|class| Sorted::of(self, class, &place));
        let once = vec![1; blocks.len()];
        let drawn = bootstrap.intervals_of_draws(4, blocks.len(), |drawn| {
            let classes = sorted.each_ref().map(|class| class.headline(drawn));
            let all = classes.into_iter().chain([mean_of(&classes)]);
            all.flat_map(|of| [of.at_10, of.at_50, of.coco]).collect()
        });
        // The mean comes after the classes; without enough blocks there is no interval at all.
        let intervals = |group: usize| {
            let at = |which: usize| drawn.get(3 * group + which).copied().flatten();
            Headline {
                at_10: at(0),
                at_50: at(1),
                coco: at(2),
            }
        };
        let headlines = sorted.each_ref().map(|class| class.headline(&once));
        let classes: Vec<ClassDetection> = BoxClass::ALL
            .into_iter()
            .zip(&sorted)
            .map(|(class, boxes)| {
                boxes.class_score(class, &once, intervals(usize::from(class.code())))
            })
            .collect();
        let (mean, intervals) = (mean_of(&headlines), intervals(BoxClass::ALL.len()));
        let without = classes.iter().filter(|c| c.truths == 0);
        Some(DetectionScore {
            times: self.times.len() as u64,
            first: self.instant(first)?.to_string(),
            last: self.instant(last)?.to_string(),
            classes_without_truth: without.map(|c| c.class).collect(),
            classes,
            mean: MeanPrecision {
                at_10: mean.at_10,
                at_50: mean.at_50,
                coco: mean.coco,
                at_10_interval: intervals.at_10,
                at_50_interval: intervals.at_50,
                coco_interval: intervals.coco,
            },
        })
    }

    fn key(&mut self, time: Time) -> Result<i64> {
        let found = time.calendar();
        let known = *self.calendar.get_or_insert(found);
        if known != found {
            return Err(ValidationError::Mismatch {
                what: "calendar of the boxes",
                expected: known.to_string(),
                found: found.to_string(),
            });
        }
        Ok(time.seconds_since(origin(found)?))
    }

    fn instant(&self, key: i64) -> Option<Time> {
        Some(origin(self.calendar?).ok()?.add_seconds(key))
    }
}

fn origin(calendar: Calendar) -> Result<Time> {
    Ok(Time::new(calendar, 1, 1, 1, 0, 0, 0)?)
}

/// Scores two tables of boxes over their [`compared_times`].
///
/// # Errors
/// [`ValidationError::Invalid`] if the two have no time in common, [`ValidationError::Mismatch`] if calendars differ.
pub fn score_boxes(
    truth: &[BoxesAt],
    predicted: &[BoxesAt],
    lists_all: ListsAll,
    bootstrap: &Bootstrap,
) -> Result<BoxScores> {
    let compared = compared_times(truth, predicted, lists_all)?;
    let mut scorer = DetectionScorer::new();
    for (time, [truth, predicted]) in &compared.times {
        scorer.add(*time, truth, predicted)?;
    }
    let score = scorer.score(bootstrap).ok_or_else(|| {
        ValidationError::Invalid(
            "the boxes of the prediction and of the truth have no time in common".into(),
        )
    })?;
    Ok(BoxScores {
        coverage: compared.coverage,
        score,
    })
}

/// The means over the classes with truth.
fn mean_of(classes: &[Headline<f64>; 4]) -> Headline<f64> {
    let mean = |of: fn(&Headline<f64>) -> Option<f64>| {
        let known: Vec<f64> = classes.iter().filter_map(of).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    Headline {
        at_10: mean(|class| class.at_10),
        at_50: mean(|class| class.at_50),
        coco: mean(|class| class.coco),
    }
}

/// All boxes of one class, the surest first, each with the block of its time.
struct Sorted {
    boxes: Vec<(Judged, u32)>,
    /// True boxes of each block.
    truths: Vec<f64>,
}

impl Sorted {
    fn of(scorer: &DetectionScorer, class: BoxClass, block: &dyn Fn(i64) -> u32) -> Self {
        let code = usize::from(class.code());
        let (mut boxes, mut truths) = (Vec::new(), Vec::new());
        for (&key, counted) in &scorer.times {
            let block = block(key);
            truths.resize(truths.len().max(block as usize + 1), 0.0);
            let counted = &counted[code];
            truths[block as usize] += f64::from(counted.truths);
            boxes.extend(counted.boxes.iter().map(|&judged| (judged, block)));
        }
        boxes.sort_by(|a, b| b.0.confidence.total_cmp(&a.0.confidence));
        Self { boxes, truths }
    }

    /// The detections at one of [`OVERLAPS`], blocks counting as often as told.
    fn at(&self, overlap: usize, drawn: &[u32]) -> impl Iterator<Item = Detection> {
        self.boxes.iter().map(move |&(judged, block)| Detection {
            confidence: judged.confidence,
            right: judged.right >> overlap & 1 == 1,
            weight: f64::from(drawn[block as usize]),
        })
    }

    fn truths(&self, drawn: &[u32]) -> f64 {
        let terms = self.truths.iter().zip(drawn);
        terms
            .map(|(truths, &times)| truths * f64::from(times))
            .sum()
    }

    fn average(&self, overlap: usize, drawn: &[u32]) -> Option<AveragePrecision> {
        let truths = self.truths(drawn);
        AveragePrecision::of_curve(&curve(self.at(overlap, drawn), truths), truths)
    }

    fn headline(&self, drawn: &[u32]) -> Headline<f64> {
        let step = |overlap| self.average(overlap, drawn).map(|ap| ap.step);
        let coco: Option<Vec<f64>> = (FIRST_COCO..OVERLAPS.len())
            .map(|overlap| self.average(overlap, drawn).map(|ap| ap.coco))
            .collect();
        Headline {
            at_10: step(0),
            at_50: step(FIRST_COCO),
            coco: coco.map(|values| values.iter().sum::<f64>() / values.len() as f64),
        }
    }

    fn class_score(
        &self,
        class: BoxClass,
        once: &[u32],
        intervals: Headline<Interval>,
    ) -> ClassDetection {
        let truths = self.truths(once);
        let at = |overlap: usize, interval: Option<Interval>| {
            let hits = self.at(overlap, once).filter(|d| d.right).count() as u64;
            let average = self.average(overlap, once);
            PrecisionAt {
                overlap: OVERLAPS[overlap],
                hits,
                recall: (truths > 0.0).then(|| hits as f64 / truths),
                average_precision: average.map(|ap| ap.step),
                average_precision_coco: average.map(|ap| ap.coco),
                average_precision_of_found: average.map(|ap| ap.of_found),
                interval,
            }
        };
        ClassDetection {
            class,
            truths: truths as u64,
            predictions: self.boxes.len() as u64,
            at_10: at(0, intervals.at_10),
            at_50: at(FIRST_COCO, intervals.at_50),
            coco: self.headline(once).coco,
            coco_interval: intervals.coco,
        }
    }
}

/// How well boxes of one class were found at one overlap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PrecisionAt {
    /// Shared area over covered area that is enough.
    pub overlap: f64,
    /// True boxes that were found.
    pub hits: u64,
    /// hits / true boxes.
    pub recall: Option<f64>,
    /// Area under the steps of precision over recall, nothing interpolated; `None` without true boxes.
    pub average_precision: Option<f64>,
    /// Mean of the best precision at or above the recalls 0, 0.01, ..., 1 (COCO).
    pub average_precision_coco: Option<f64>,
    /// As the ExtremeWeather code computes it: misses are left out of the recall, so it is comparable with published
    /// tables and too high.
    pub average_precision_of_found: Option<f64>,
    /// Confidence interval of `average_precision`, from blocks of time.
    pub interval: Option<Interval>,
}

/// How well the boxes of one class were found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassDetection {
    /// Which class.
    pub class: BoxClass,
    /// True boxes.
    pub truths: u64,
    /// Predicted boxes.
    pub predictions: u64,
    /// At an overlap of 0.1.
    pub at_10: PrecisionAt,
    /// At an overlap of 0.5.
    pub at_50: PrecisionAt,
    /// COCO's AP: mean over the overlaps 0.5, 0.55, ..., 0.95 of the AP with 101 recalls.
    pub coco: Option<f64>,
    /// Confidence interval of `coco`.
    pub coco_interval: Option<Interval>,
}

/// Means over the classes that have true boxes; a class without any is left out, one that was never predicted counts 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeanPrecision {
    /// Mean of `average_precision` at an overlap of 0.1.
    pub at_10: Option<f64>,
    /// Mean of `average_precision` at an overlap of 0.5.
    pub at_50: Option<f64>,
    /// Mean of COCO's AP.
    pub coco: Option<f64>,
    /// Confidence interval of `at_10`.
    pub at_10_interval: Option<Interval>,
    /// Confidence interval of `at_50`.
    pub at_50_interval: Option<Interval>,
    /// Confidence interval of `coco`.
    pub coco_interval: Option<Interval>,
}

/// How well boxes were found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DetectionScore {
    /// Times compared.
    pub times: u64,
    /// The first of them.
    pub first: String,
    /// The last of them.
    pub last: String,
    /// Each class, in the order of the codes.
    pub classes: Vec<ClassDetection>,
    /// mAP.
    pub mean: MeanPrecision,
    /// Classes that the means leave out.
    pub classes_without_truth: Vec<BoxClass>,
}

/// Scores of two tables of boxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoxScores {
    /// Which times were compared.
    pub coverage: TimeCoverage,
    /// Average precision.
    #[serde(flatten)]
    pub score: DetectionScore,
}
