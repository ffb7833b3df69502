//! Intersection over union of predicted and true masks, by the rules in use.

use crate::confusion::Confusion;
use serde::{Deserialize, Serialize};
use squall_data::Class;
use std::fmt;

/// Gathers samples to a [`SegmentationScore`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SegmentationScorer {
    total: Confusion,
    samples: u64,
    /// Sum over samples of the IoU of each class, an absent class counting 1.
    sample_iou_sums: [f64; 3],
}

impl SegmentationScorer {
    /// Nothing scored yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one sample.
    pub fn add(&mut self, sample: &Confusion) {
        self.samples += 1;
        for class in Class::ALL {
            let iou = sample.pixels_of(class).iou().unwrap_or(1.0);
            self.sample_iou_sums[usize::from(class.code())] += iou;
        }
        self.total.merge(sample);
    }

    /// The score of what was added; `None` if that is nothing.
    pub fn score(&self) -> Option<SegmentationScore> {
        if self.samples == 0 {
            return None;
        }
        let classes: Vec<ClassScore> = Class::ALL
            .into_iter()
            .map(|class| {
                let (pixels, area) = (self.total.pixels_of(class), self.total.area_of(class));
                ClassScore {
                    class,
                    iou: pixels.iou(),
                    sample_mean_iou: self.sample_iou_sums[usize::from(class.code())]
                        / self.samples as f64,
                    area_weighted_iou: area.iou(),
                    precision: pixels.precision(),
                    recall: pixels.recall(),
                    area_ratio: area.size(),
                }
            })
            .collect();
        Some(SegmentationScore::of(self.samples, classes, self.total))
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// How well one class was found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassScore {
    /// Which class.
    pub class: Class,
    /// Over all pixels of all samples; none if the class is nowhere.
    pub iou: Option<f64>,
    /// Mean over samples of the sample's IoU, a class absent from both masks counting 1.
    pub sample_mean_iou: f64,
    /// As `iou`, with pixels weighted by their area.
    pub area_weighted_iou: Option<f64>,
    /// Share of predicted pixels that are right.
    pub precision: Option<f64>,
    /// Share of true pixels that were found.
    pub recall: Option<f64>,
    /// Predicted over true area on the sphere; above 1 where masks are too large, as class weights make them.
    pub area_ratio: Option<f64>,
}

/// How well masks agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentationScore {
    /// Masks compared.
    pub samples: u64,
    /// MLPerf HPC DeepCAM's rule: mean over samples of the mean over classes, an absent class counting 1 (target 0.82).
    pub sample_mean_iou: f64,
    /// Mean over the classes present of the IoU over all pixels.
    pub mean_iou: f64,
    /// As `mean_iou`, with pixels weighted by their area.
    pub area_weighted_mean_iou: f64,
    /// Share of pixels with the right class; near 1 for a mask of nothing but background.
    pub accuracy: f64,
    /// Background, tropical cyclone, atmospheric river, but for those left out ([`Self::without`]).
    pub classes: Vec<ClassScore>,
    /// What it was made from: `[true class][predicted class]`.
    pub confusion: Confusion,
}

impl SegmentationScore {
    fn of(samples: u64, classes: Vec<ClassScore>, confusion: Confusion) -> Self {
        Self {
            samples,
            sample_mean_iou: mean(classes.iter().map(|c| c.sample_mean_iou)),
            mean_iou: mean(classes.iter().filter_map(|c| c.iou)),
            area_weighted_mean_iou: mean(classes.iter().filter_map(|c| c.area_weighted_iou)),
            accuracy: confusion.accuracy().unwrap_or(0.0),
            classes,
            confusion,
        }
    }

    /// The same score without some classes, such as those that the masks of a side cannot hold; the means leave them
    /// out, too.
    #[must_use]
    pub fn without(self, left_out: &[Class]) -> Self {
        let mut classes = self.classes;
        classes.retain(|score| !left_out.contains(&score.class));
        Self::of(self.samples, classes, self.confusion)
    }
}

impl fmt::Display for SegmentationScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional =
            |value: Option<f64>| value.map_or("     -".to_string(), |v| format!("{v:6.4}"));
        writeln!(f, "{} masks compared", self.samples)?;
        writeln!(
            f,
            "mean IoU per sample  {:6.4}  mean over samples of the mean over classes; a class absent from both masks counts 1 (MLPerf HPC rule, target 0.82)",
            self.sample_mean_iou
        )?;
        writeln!(
            f,
            "mean IoU             {:6.4}  overlap divided by union, over all pixels together, mean over classes",
            self.mean_iou
        )?;
        writeln!(
            f,
            "mean IoU by area     {:6.4}  the same with every pixel weighted by its area on the sphere",
            self.area_weighted_mean_iou
        )?;
        writeln!(
            f,
            "accuracy             {:6.4}  share of right pixels; a mask of background alone gets nearly 1",
            self.accuracy
        )?;
        writeln!(
            f,
            "{:<20} {:>6} {:>10} {:>8} {:>9} {:>6} {:>10}",
            "class", "IoU", "per sample", "by area", "precision", "recall", "area ratio"
        )?;
        for class in &self.classes {
            writeln!(
                f,
                "{:<20} {} {:>10.4} {:>8} {:>9} {} {:>10}",
                class.class.name(),
                optional(class.iou),
                class.sample_mean_iou,
                optional(class.area_weighted_iou),
                optional(class.precision),
                optional(class.recall),
                optional(class.area_ratio)
            )?;
        }
        write!(
            f,
            "precision: share of the predicted pixels that are right; recall: share of the true pixels that were found; area ratio: predicted over true area"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;
    use ndarray::{Array2, array};

    fn confusion(truth: &Array2<u8>, prediction: &Array2<u8>, areas: &[f64]) -> Confusion {
        Confusion::of_codes(truth.view(), prediction.view(), areas).unwrap()
    }

    #[test]
    fn the_mlperf_rule_by_hand() {
        let mut scorer = SegmentationScorer::new();
        // Background 3 of 4 pixels, cyclone 1 of 2, no river anywhere: (3/4 + 1/2 + 1) / 3.
        let first = confusion(&array![[0, 0, 0, 1, 1]], &array![[0, 0, 0, 0, 1]], &[1.0]);
        scorer.add(&first);
        let score = scorer.score().unwrap();
        assert_relative_eq!(score.sample_mean_iou, (0.75 + 0.5 + 1.0) / 3.0);
        assert_relative_eq!(score.mean_iou, (0.75 + 0.5) / 2.0);
        assert_eq!(score.classes[2].iou, None);
        // A river that was invented counts 0, not 1; a perfect background 4/5 here.
        let second = confusion(&array![[0, 0, 0, 0, 0]], &array![[0, 0, 0, 0, 2]], &[1.0]);
        scorer.add(&second);
        let score = scorer.score().unwrap();
        let (a, b) = ((0.75 + 0.5 + 1.0) / 3.0, (0.8 + 1.0 + 0.0) / 3.0);
        assert_relative_eq!(score.sample_mean_iou, (a + b) / 2.0);
        assert_relative_eq!(score.mean_iou, (7.0 / 9.0 + 0.5 + 0.0) / 3.0);
        assert_eq!(score.classes[2].precision, Some(0.0));
        assert_eq!(score.classes[2].recall, None);
        assert_relative_eq!(score.accuracy, 0.8);
    }

    #[test]
    fn a_class_left_out_is_in_no_mean() {
        let mut scorer = SegmentationScorer::new();
        // Background 3 of 4 pixels, river 1 of 2, no cyclone: as an absent class it would count 1 per sample.
        scorer.add(&confusion(
            &array![[0, 0, 0, 2, 2]],
            &array![[0, 0, 0, 0, 2]],
            &[1.0],
        ));
        let score = scorer.score().unwrap().without(&[Class::TropicalCyclone]);
        assert_relative_eq!(score.sample_mean_iou, (0.75 + 0.5) / 2.0);
        assert_relative_eq!(score.mean_iou, (0.75 + 0.5) / 2.0);
        let classes: Vec<Class> = score.classes.iter().map(|score| score.class).collect();
        assert_eq!(classes, [Class::Background, Class::AtmosphericRiver]);
        assert!(!score.to_string().contains("cyclone"), "{score}");
    }

    #[test]
    fn iou_by_area_goes_by_the_areas_of_rows() {
        // The cyclone is found in the large row and missed in the small one.
        let truth = array![[1, 0], [1, 0]];
        let prediction = array![[1, 0], [0, 0]];
        let mut scorer = SegmentationScorer::new();
        scorer.add(&confusion(&truth, &prediction, &[9.0, 1.0]));
        let score = scorer.score().unwrap();
        assert_relative_eq!(score.classes[1].iou.unwrap(), 0.5);
        assert_relative_eq!(score.classes[1].area_weighted_iou.unwrap(), 0.9);
        assert_relative_eq!(score.area_weighted_mean_iou, (0.9 + 10.0 / 11.0) / 2.0);
        assert_relative_eq!(score.classes[1].area_ratio.unwrap(), 0.9);
        assert_relative_eq!(score.classes[0].area_ratio.unwrap(), 1.1);
        assert_eq!(score.classes[2].area_ratio, None);
        assert!(score.to_string().contains("recall area ratio"), "{score}");
    }

    #[test]
    fn nothing_has_no_score() {
        assert_eq!(SegmentationScorer::new().score(), None);
    }

    #[test]
    fn the_text_names_every_class_and_says_what_a_number_means() {
        let mut scorer = SegmentationScorer::new();
        scorer.add(&confusion(&array![[0, 1]], &array![[0, 1]], &[1.0]));
        let text = scorer.score().unwrap().to_string();
        for part in [
            "mean IoU per sample  1.0000",
            "tropical_cyclone     1.0000",
            "atmospheric_river         -",
            "MLPerf",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
