//! Box scores: average precision over the samples of all ranks.
//!
//! Uses the matching rules of `squall_validation`: both call [`squall_data::boxes::precision`].

use super::mean_of_known;
use crate::error::{JobError, Result};
use crate::train::team::Team;
use serde::{Deserialize, Serialize};
use squall_data::boxes::precision::{AveragePrecision, Detection, Judged, OVERLAPS, curve, judge};
use squall_data::{BoxClass, GeoBox};
use std::fmt;
use std::path::Path;

/// Classes of boxes.
const CLASSES: usize = BoxClass::ALL.len();

/// Box scores; per-class arrays are in the order of the class codes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoxScores {
    /// Number of labelled samples scored.
    pub samples: u64,
    /// The recipe's loss over all of them, without the reconstruction.
    #[serde(deserialize_with = "crate::metrics::number_or_nan")]
    pub loss: f64,
    /// Mean over the classes that have true boxes of the average precision at an overlap of 0.1.
    pub mean_ap_10: f64,
    /// Mean over the classes that have true boxes of the average precision at an overlap of 0.5. The best model is
    /// chosen by the mean of `mean_ap_10` and this.
    pub mean_ap_50: f64,
    /// Average precision of every class at an overlap of 0.1; `None` without true boxes.
    pub ap_10: [Option<f64>; CLASSES],
    /// Average precision of every class at an overlap of 0.5; `None` without true boxes.
    pub ap_50: [Option<f64>; CLASSES],
    /// True boxes of every class.
    pub truths: [u64; CLASSES],
}

impl BoxScores {
    /// Whether no true box was found, not even roughly, although there are some.
    pub(super) fn finds_nothing(&self) -> bool {
        let mut known = self.ap_10.iter().flatten().peekable();
        known.peek().is_some() && known.all(|&ap| ap <= 0.0)
    }
}

/// Scored boxes of every sample, accumulated.
#[derive(Debug, Clone, Default)]
pub struct BoxTally {
    samples: Vec<Sample>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Sample {
    /// The sample's position in the overall order.
    place: usize,
    #[serde(deserialize_with = "crate::metrics::number_or_nan")]
    loss: f64,
    truths: [u64; CLASSES],
    found: [Vec<Judged>; CLASSES],
}

impl BoxTally {
    /// Adds a sample: its position in the overall order, its boxes, and its loss.
    pub fn add(&mut self, place: usize, truth: &[GeoBox], found: &[GeoBox], loss: f64) {
        let of = |boxes: &[GeoBox], class: BoxClass| -> Vec<GeoBox> {
            boxes.iter().filter(|b| b.class == class).copied().collect()
        };
        let classes = BoxClass::ALL.map(|class| (of(truth, class), of(found, class)));
        self.samples.push(Sample {
            place,
            loss,
            truths: classes.each_ref().map(|(truth, _)| truth.len() as u64),
            found: classes.map(|(truth, found)| judge(&truth, &found)),
        });
    }

    /// Merges the tallies of all ranks of a team, on every rank.
    pub(in crate::train) fn share(&mut self, team: &mut Team) -> Result<()> {
        let mine = crate::metrics::to_json(&self.samples, Path::new("judged boxes"))?;
        self.samples.clear();
        for bytes in team.gather_any(mine.as_bytes())? {
            let parsed = serde_json::from_slice::<Vec<Sample>>(&bytes);
            let parsed =
                parsed.map_err(|error| JobError::damaged("judged boxes of another rank", error))?;
            self.samples.extend(parsed);
        }
        self.samples.sort_by_key(|sample| sample.place);
        Ok(())
    }

    /// The scores; `None` without samples.
    pub fn scores(&self) -> Option<BoxScores> {
        if self.samples.is_empty() {
            return None;
        }
        let truths: [u64; CLASSES] =
            std::array::from_fn(|k| self.samples.iter().map(|s| s.truths[k]).sum());
        let average = |k: usize, overlap: usize| {
            let judged = self.samples.iter().flat_map(|sample| &sample.found[k]);
            let mut sorted: Vec<Detection> = judged
                .map(|judged| Detection {
                    confidence: judged.confidence,
                    right: judged.right & 1 << overlap != 0,
                    weight: 1.0,
                })
                .collect();
            sorted.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
            let of = truths[k] as f64;
            AveragePrecision::of_curve(&curve(sorted, of), of).map(|ap| ap.step)
        };
        let place = |wanted: f64| OVERLAPS.iter().position(|&o| o == wanted).unwrap_or(0);
        let at = |overlap: f64| std::array::from_fn(|k| average(k, place(overlap)));
        let (ap_10, ap_50): ([Option<f64>; CLASSES], [Option<f64>; CLASSES]) = (at(0.1), at(0.5));
        let samples = self.samples.len();
        Some(BoxScores {
            samples: samples as u64,
            loss: self.samples.iter().map(|s| s.loss).sum::<f64>() / samples as f64,
            mean_ap_10: mean_of_known(&ap_10),
            mean_ap_50: mean_of_known(&ap_50),
            ap_10,
            ap_50,
            truths,
        })
    }
}

impl BoxScores {
    /// The mean over both overlaps.
    pub(super) fn score(&self) -> f64 {
        (self.mean_ap_10 + self.mean_ap_50) / 2.0
    }

    pub(super) fn scalars(&self) -> Vec<(&'static str, f64)> {
        let mut scalars = vec![
            ("validation/loss", self.loss),
            ("validation/mean_ap_10", self.mean_ap_10),
            ("validation/mean_ap_50", self.mean_ap_50),
        ];
        let names = [
            "validation/ap_50_tropical_depression",
            "validation/ap_50_tropical_cyclone",
            "validation/ap_50_extratropical_cyclone",
            "validation/ap_50_atmospheric_river",
        ];
        let known = names.into_iter().zip(self.ap_50);
        scalars.extend(known.filter_map(|(name, ap)| Some((name, ap?))));
        scalars
    }
}

impl fmt::Display for BoxScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (loose, tight) = (self.mean_ap_10, self.mean_ap_50);
        write!(
            f,
            "mAP {loose:.3} at an overlap of 0.1, {tight:.3} at 0.5 ("
        )?;
        for (k, class) in BoxClass::ALL.into_iter().enumerate() {
            let ap = |ap: Option<f64>| ap.map_or("-".to_string(), |ap| format!("{ap:.2}"));
            let comma = if k == 0 { "" } else { ", " };
            let name = class.name().replace('_', " ");
            write!(
                f,
                "{comma}{name} {}/{}",
                ap(self.ap_10[k]),
                ap(self.ap_50[k])
            )?;
        }
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads;

    fn at(class: BoxClass, west_deg: f64, confidence: Option<f32>) -> GeoBox {
        GeoBox {
            class,
            west_deg,
            south_deg: 10.0,
            east_deg: west_deg + 10.0,
            north_deg: 20.0,
            confidence,
        }
    }

    #[test]
    fn scores_by_hand() {
        use BoxClass::{AtmosphericRiver, TropicalCyclone};
        let mut tally = BoxTally::default();
        assert_eq!(tally.scores(), None);
        // One of two cyclones is found exactly, by the surer of two boxes; a river is found by a third of it.
        let truth = [
            at(TropicalCyclone, 0.0, None),
            at(TropicalCyclone, 50.0, None),
            at(AtmosphericRiver, 100.0, None),
        ];
        let found = [
            at(TropicalCyclone, 0.0, Some(0.9)),
            at(TropicalCyclone, 200.0, Some(0.4)),
            at(AtmosphericRiver, 105.0, Some(0.5)),
        ];
        tally.add(0, &truth, &found, 2.0);
        tally.add(1, &[], &[], 4.0);
        let scores = tally.scores().unwrap();
        assert_eq!((scores.samples, scores.loss), (2, 3.0));
        assert_eq!(scores.ap_10, [None, Some(0.5), None, Some(1.0)]);
        assert_eq!(scores.ap_50, [None, Some(0.5), None, Some(0.0)]);
        assert_eq!((scores.mean_ap_10, scores.mean_ap_50), (0.75, 0.25));
        assert_eq!(scores.score(), 0.5);
    }

    /// A network that has diverged is scored as such and ends no validation.
    #[test]
    fn a_loss_that_is_not_finite_goes_to_the_other_ranks() {
        let truth = [at(BoxClass::TropicalCyclone, 0.0, None)];
        let mut tally = BoxTally::default();
        tally.add(0, &truth, &[], f64::INFINITY);
        tally.add(1, &truth, &[], 2.0);
        tally.share(&mut Team::solo()).unwrap();
        let scores = tally.scores().unwrap();
        assert!(scores.loss.is_nan());
        assert_eq!((scores.samples, scores.mean_ap_50), (2, 0.0));
    }

    /// Ranks have every second sample. Added up rank by rank the loss of 1 would be lost beside that of 1e16.
    #[test]
    fn ranks_together_have_the_scores_of_one() {
        let class = BoxClass::TropicalCyclone;
        let truth = [at(class, 0.0, None)];
        let add = |tally: &mut BoxTally, place: usize| {
            let (loss, west_deg, confidence) =
                [(1e16, 0.0, 0.5), (-1e16, 100.0, 0.75), (1.0, 200.0, 0.25)][place];
            tally.add(
                place,
                &truth,
                &[at(class, west_deg, Some(confidence))],
                loss,
            );
        };
        let mut all = BoxTally::default();
        (0..3).for_each(|place| add(&mut all, place));
        let expected = all.scores().unwrap();
        // The second of three boxes is right, of three true ones: a third of them at a precision of a half.
        assert_eq!((expected.samples, expected.loss), (3, 1.0 / 3.0));
        assert!((expected.mean_ap_50 - 1.0 / 6.0).abs() < 1e-12);
        let shared = threads::run(threads::ranks(2), |rank| {
            let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
            let mut own = BoxTally::default();
            (team.rank()..3)
                .step_by(2)
                .for_each(|place| add(&mut own, place));
            own.share(&mut team).unwrap();
            own.scores().unwrap()
        });
        assert!(
            shared.iter().all(|scores| *scores == expected),
            "{shared:?}"
        );
    }
}
