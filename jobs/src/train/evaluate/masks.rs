//! Mask scores: confusion matrices of pixels and of areas.
//!
//! The rules are those of `squall_validation`, which depends on this crate and scores finished masks. The exception is
//! the mean that selects the best model: it covers only the classes present in the truth. A mean over the classes
//! present in either mask would cover different classes for different networks, because the first false pixel of a
//! class adds a zero.

use super::mean_of_known;
use crate::error::Result;
use crate::recipe::BestBy;
use crate::train::team::Team;
use serde::{Deserialize, Serialize};
use squall_model::ops::loss::NO_CLASS;
use std::fmt;

/// Classes of a mask.
const CLASSES: usize = 3;

/// Mask scores. Per-class arrays hold background, tropical cyclone, atmospheric river.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaskScores {
    /// Number of samples scored.
    pub samples: u64,
    /// The recipe's loss over all of them.
    #[serde(deserialize_with = "crate::metrics::number_or_nan")]
    pub loss: f64,
    /// Mean IoU over all pixels, averaged over the classes present in the truth.
    pub mean_iou: f64,
    /// MLPerf HPC DeepCAM's rule: the mean over samples of the mean over classes, where a class absent from both masks
    /// counts as 1.
    pub sample_mean_iou: f64,
    /// Like `mean_iou`, with pixels weighted by their area.
    pub area_mean_iou: f64,
    /// IoU of each class over all pixels; `None` if the class occurs in neither mask.
    pub iou: [Option<f64>; CLASSES],
    /// Area-weighted IoU of each class; `None` if the class occurs in neither mask.
    pub area_iou: [Option<f64>; CLASSES],
    /// The mean that selects the best model.
    #[serde(default, skip_serializing_if = "BestBy::is_usual")]
    pub best_by: BestBy,
}

impl MaskScores {
    /// The mean that selects the best model.
    pub(super) fn score(&self) -> f64 {
        match self.best_by {
            BestBy::MeanIou => self.mean_iou,
            BestBy::SampleMeanIou => self.sample_mean_iou,
            BestBy::AreaMeanIou => self.area_mean_iou,
        }
    }

    /// Whether no pixel of any storm was found: the mean is then little but that of the background.
    pub(super) fn finds_nothing(&self) -> bool {
        let mut storms = self.iou[1..].iter().flatten().peekable();
        storms.peek().is_some() && storms.all(|&iou| iou <= 0.0)
    }

    pub(super) fn score_name(&self) -> &'static str {
        self.best_by.name()
    }

    pub(super) fn scalars(&self) -> Vec<(&'static str, f64)> {
        let mut scalars = vec![
            ("validation/loss", self.loss),
            ("validation/mean_iou", self.mean_iou),
            ("validation/sample_mean_iou", self.sample_mean_iou),
            ("validation/area_mean_iou", self.area_mean_iou),
        ];
        let names = [
            "validation/iou_background",
            "validation/iou_tropical_cyclone",
            "validation/iou_atmospheric_river",
        ];
        let known = names.into_iter().zip(self.iou);
        scalars.extend(known.filter_map(|(name, iou)| Some((name, iou?))));
        scalars
    }
}

impl fmt::Display for MaskScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |iou: Option<f64>| iou.map_or("-".to_string(), |iou| format!("{iou:.3}"));
        let [_, cyclone, river] = self.iou.map(text);
        let mean = self.mean_iou;
        write!(f, "IoU {mean:.3}, cyclones {cyclone}, rivers {river}")
    }
}

/// Confusion matrices of pixels and areas, summed over samples.
///
/// Pixel counts are kept per row and everything else per sample, so that the tallies of several ranks merge to exactly
/// the bits of a single rank.
#[derive(Debug, Clone, Default)]
pub struct MaskTally {
    /// Pixel counts of every row, by true and predicted class.
    pixels: Vec<[[u64; CLASSES]; CLASSES]>,
    row_areas_km2: Vec<f64>,
    /// Per sample: its position in the overall order, mean IoU, weighted loss and loss divisor.
    samples: Vec<[f64; 4]>,
}

impl MaskTally {
    /// An empty tally for a grid whose rows have cells of these areas.
    pub fn new(row_areas_km2: &[f64]) -> Self {
        Self {
            pixels: vec![Default::default(); row_areas_km2.len()],
            row_areas_km2: row_areas_km2.to_vec(),
            samples: Vec::new(),
        }
    }

    /// Adds a sample: its position in the overall order, class codes `(lat, lon)`, its loss and the divisor of that
    /// loss.
    pub fn add(
        &mut self,
        place: usize,
        truth: &[u8],
        predicted: &[u8],
        (loss, weight): (f64, f64),
    ) {
        let mut sample = [[0u64; CLASSES]; CLASSES];
        let columns = (truth.len() / self.row_areas_km2.len().max(1)).max(1);
        let rows = truth
            .chunks_exact(columns)
            .zip(predicted.chunks_exact(columns));
        for ((truth, predicted), row) in rows.zip(&mut self.pixels) {
            for (&t, &p) in truth.iter().zip(predicted) {
                // Pixels with codes beyond the classes are ignored.
                let (t, p) = match (usize::from(t), p) {
                    // A pixel with NaN output counts as wrong, whatever the truth.
                    (t, NO_CLASS) => (t, (t + 1) % CLASSES),
                    (t, p) => (t, usize::from(p)),
                };
                if t < CLASSES && p < CLASSES {
                    row[t][p] += 1;
                    sample[t][p] += 1;
                }
            }
        }
        let ious = (0..CLASSES).map(|k| iou(&sample, k, |n| n as f64).unwrap_or(1.0));
        let mean = ious.sum::<f64>() / CLASSES as f64;
        self.samples.push([place as f64, mean, loss, weight]);
    }

    /// Merges the tallies of all ranks of a team, on every rank.
    pub(in crate::train) fn share(&mut self, team: &mut Team) -> Result<()> {
        let mut counts: Vec<u64> = self.pixels.iter().flatten().flatten().copied().collect();
        team.sum_counts(&mut counts)?;
        let cells = self.pixels.iter_mut().flatten().flatten();
        cells.zip(counts).for_each(|(cell, sum)| *cell = sum);
        let all = team.gather_any(bytemuck::cast_slice(&self.samples))?;
        let of_rank = |bytes: Vec<u8>| bytemuck::pod_collect_to_vec::<u8, [f64; 4]>(&bytes);
        self.samples = all.into_iter().flat_map(of_rank).collect();
        Ok(())
    }

    /// The scores; `best_by` says which mean selects the best model. `None` without samples.
    pub fn scores(&self, best_by: BestBy) -> Option<MaskScores> {
        if self.samples.is_empty() {
            return None;
        }
        let mut samples = self.samples.clone();
        samples.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let sum = |which: usize| samples.iter().map(|s| s[which]).sum::<f64>();
        let mut pixels = [[0u64; CLASSES]; CLASSES];
        let mut areas_km2 = [[0.0; CLASSES]; CLASSES];
        for (row, area) in self.pixels.iter().zip(&self.row_areas_km2) {
            for (t, p) in pairs() {
                pixels[t][p] += row[t][p];
                areas_km2[t][p] += row[t][p] as f64 * area;
            }
        }
        let ious = std::array::from_fn(|k| iou(&pixels, k, |n| n as f64));
        let area_ious = std::array::from_fn(|k| iou(&areas_km2, k, |area| area));
        let is_there = pixels.map(|of_class| of_class.iter().any(|&n| n > 0));
        Some(MaskScores {
            samples: samples.len() as u64,
            loss: sum(2) / sum(3).max(f64::MIN_POSITIVE),
            mean_iou: mean_of_true(&ious, is_there),
            sample_mean_iou: sum(1) / samples.len() as f64,
            area_mean_iou: mean_of_true(&area_ious, is_there),
            iou: ious,
            area_iou: area_ious,
            best_by,
        })
    }
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..CLASSES * CLASSES).map(|i| (i / CLASSES, i % CLASSES))
}

/// The mean over the classes present in the truth. A pixel of a class absent from the truth counts against its true
/// class.
fn mean_of_true(ious: &[Option<f64>; CLASSES], is_there: [bool; CLASSES]) -> f64 {
    let of_true: [Option<f64>; CLASSES] = std::array::from_fn(|k| ious[k].filter(|_| is_there[k]));
    mean_of_known(&of_true)
}

/// Intersection over union of a class; `None` if it occurs in neither mask.
fn iou<T: Copy>(
    table: &[[T; CLASSES]; CLASSES],
    class: usize,
    number: impl Fn(T) -> f64,
) -> Option<f64> {
    let of_truth: f64 = (0..CLASSES).map(|k| number(table[class][k])).sum();
    let predicted: f64 = (0..CLASSES).map(|k| number(table[k][class])).sum();
    let both = number(table[class][class]);
    let union = of_truth + predicted - both;
    (union > 0.0).then(|| both / union)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::threads;
    use approx::assert_relative_eq;

    #[test]
    fn scores_by_hand() {
        let mut tally = MaskTally::new(&[1.0]);
        assert_eq!(tally.scores(BestBy::default()), None);
        // Background 3 of 4 pixels, cyclone 1 of 2, no river anywhere: (3/4 + 1/2 + 1) / 3.
        tally.add(0, &[0, 0, 0, 1, 1], &[0, 0, 0, 0, 1], (2.0, 4.0));
        // A river that was invented counts 0 in its sample; a pixel that does not count is left out.
        tally.add(1, &[0, 0, 0, 0, 0, 255], &[0, 0, 0, 0, 2, 1], (1.0, 2.0));
        let scores = tally.scores(BestBy::default()).unwrap();
        let (a, b) = ((0.75 + 0.5 + 1.0) / 3.0, (0.8 + 1.0 + 0.0) / 3.0);
        assert_relative_eq!(scores.sample_mean_iou, (a + b) / 2.0);
        assert_relative_eq!(scores.mean_iou, (7.0 / 9.0 + 0.5) / 2.0);
        assert_eq!(scores.iou[2], Some(0.0));
        assert_eq!(scores.loss, 0.5);
    }

    /// A network whose output overflows must not be judged by the pixels that are left.
    #[test]
    fn pixels_without_a_class_are_wrong() {
        let mut tally = MaskTally::new(&[1.0]);
        let predicted = [0, NO_CLASS, 1, NO_CLASS, NO_CLASS];
        tally.add(0, &[0, 0, 1, 1, 255], &predicted, (f64::NAN, 4.0));
        let scores = tally.scores(BestBy::default()).unwrap();
        // One of two pixels is found of background and of cyclones; the second of background is an invented cyclone.
        assert_eq!(scores.iou[..2], [Some(1.0 / 2.0), Some(1.0 / 3.0)]);
        assert!(scores.loss.is_nan());
    }

    #[test]
    fn areas_weigh() {
        // The cyclone is found in the large row and missed in the small one.
        let mut tally = MaskTally::new(&[9.0, 1.0]);
        tally.add(0, &[1, 0, 1, 0], &[1, 0, 0, 0], (0.0, 1.0));
        let scores = tally.scores(BestBy::default()).unwrap();
        assert_eq!(scores.iou, [Some(2.0 / 3.0), Some(0.5), None]);
        assert!(!scores.finds_nothing());
        assert_relative_eq!(scores.area_iou[1].unwrap(), 0.9);
        assert_relative_eq!(scores.area_mean_iou, (0.9 + 10.0 / 11.0) / 2.0);
    }

    /// One invented pixel of a class that the truth does not have makes no mean over other classes.
    #[test]
    fn a_good_network_is_better_than_background_everywhere() {
        let truth: [u8; 8] = [0, 0, 0, 0, 2, 2, 2, 2];
        let score = |predicted: &[u8]| {
            let mut tally = MaskTally::new(&[1.0]);
            tally.add(0, &truth, predicted, (0.0, 1.0));
            tally.scores(BestBy::default()).unwrap()
        };
        let nothing = score(&[0; 8]);
        let good = score(&[1, 0, 0, 0, 0, 2, 2, 2]);
        assert_relative_eq!(nothing.mean_iou, 0.25);
        assert_eq!(good.iou, [Some(0.6), Some(0.0), Some(0.75)]);
        assert_relative_eq!(good.mean_iou, (0.6 + 0.75) / 2.0);
        assert_relative_eq!(good.area_mean_iou, good.mean_iou);
        assert!(nothing.finds_nothing() && !good.finds_nothing());
        // Over three classes this one would have 0.18.
        let weak = score(&[1, 1, 0, 0, 0, 0, 0, 2]);
        assert!(weak.mean_iou > nothing.mean_iou, "{weak:?}");
    }

    /// What the truth has is what it has on all ranks together.
    #[test]
    fn ranks_leave_the_same_class_out() {
        let samples: [([u8; 4], [u8; 4]); 2] =
            [([0, 0, 1, 1], [0, 2, 1, 0]), ([0; 4], [0, 1, 2, 0])];
        let mut all = MaskTally::new(&[1.0]);
        for (place, (truth, predicted)) in samples.iter().enumerate() {
            all.add(place, truth, predicted, (0.0, 1.0));
        }
        let expected = all.scores(BestBy::default()).unwrap();
        assert!(expected.iou[2] == Some(0.0) && expected.mean_iou > 0.3);
        let shared = threads::run(threads::ranks(2), |rank| {
            let mut team = Team::of(Box::new(rank), Box::new(|_| ()));
            let (truth, predicted) = &samples[team.rank()];
            let mut own = MaskTally::new(&[1.0]);
            own.add(team.rank(), truth, predicted, (0.0, 1.0));
            own.share(&mut team).unwrap();
            own.scores(BestBy::default()).unwrap()
        });
        assert!(
            shared.iter().all(|scores| *scores == expected),
            "{shared:?}"
        );
    }
}
