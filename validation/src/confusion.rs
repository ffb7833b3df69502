//! Confusion matrices of masks, by pixels and by area: which class was taken for which.

use crate::error::{Result, ValidationError};
use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};
use squall_data::label::UNLABELLED;
use squall_data::snapshot::shape_text;
use squall_data::{Class, ClassMask, LatLonGrid};

/// Pixels and areas of every pair of true and predicted class: `[true class][predicted class]`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Confusion {
    /// Pixels.
    pub pixels: [[u64; 3]; 3],
    /// Areas on the sphere, km².
    pub area_km2: [[f64; 3]; 3],
}

impl Confusion {
    /// The confusion of two masks of one time.
    ///
    /// # Errors
    /// [`ValidationError::Mismatch`] if times or shapes differ; [`ValidationError::Invalid`] for a code that is no
    /// class.
    pub fn of_masks(truth: &ClassMask, prediction: &ClassMask, grid: &LatLonGrid) -> Result<Self> {
        if truth.time != prediction.time {
            return Err(ValidationError::Mismatch {
                what: "time of the predicted mask",
                expected: truth.time.to_string(),
                found: prediction.time.to_string(),
            });
        }
        Self::of_codes(
            truth.codes.view(),
            prediction.codes.view(),
            &grid.row_areas_km2(),
        )
    }

    /// The confusion of class codes `(lat, lon)`; `row_areas_km2` is the area of a cell of each row
    /// ([`LatLonGrid::row_areas_km2`]). Pixels whose true code is [`UNLABELLED`] do not count.
    ///
    /// # Errors
    /// As [`Confusion::of_masks`].
    pub fn of_codes(
        truth: ArrayView2<'_, u8>,
        prediction: ArrayView2<'_, u8>,
        row_areas_km2: &[f64],
    ) -> Result<Self> {
        if truth.dim() != prediction.dim() || truth.nrows() != row_areas_km2.len() {
            return Err(ValidationError::Mismatch {
                what: "shape of the predicted mask (and rows of the grid)",
                expected: format!("{} ({})", shape_text(truth.shape()), truth.nrows()),
                found: format!(
                    "{} ({})",
                    shape_text(prediction.shape()),
                    row_areas_km2.len()
                ),
            });
        }
        let mut confusion = Self::default();
        for ((truth, prediction), area) in truth
            .rows()
            .into_iter()
            .zip(prediction.rows())
            .zip(row_areas_km2)
        {
            let mut row = [[0u64; 3]; 3];
            for (&truth, &prediction) in truth.iter().zip(prediction) {
                if truth == UNLABELLED {
                    continue;
                }
                let slot = row
                    .get_mut(usize::from(truth))
                    .and_then(|of_truth| of_truth.get_mut(usize::from(prediction)));
                *slot.ok_or_else(|| {
                    ValidationError::Invalid(format!(
                        "a pixel has true class {truth} and predicted class {prediction}; classes are 0, 1 and 2"
                    ))
                })? += 1;
            }
            confusion.merge(&Self {
                pixels: row,
                area_km2: row.map(|of_truth| of_truth.map(|pixels| pixels as f64 * area)),
            });
        }
        Ok(confusion)
    }

    /// Adds other pixels.
    pub fn merge(&mut self, other: &Self) {
        for t in 0..3 {
            for p in 0..3 {
                self.pixels[t][p] += other.pixels[t][p];
                self.area_km2[t][p] += other.area_km2[t][p];
            }
        }
    }

    /// Hits, misses and false alarms of a class, in pixels.
    pub fn pixels_of(&self, class: Class) -> Tally {
        Tally::of(
            &self.pixels.map(|row| row.map(|pixels| pixels as f64)),
            class,
        )
    }

    /// Hits, misses and false alarms of a class, in km².
    pub fn area_of(&self, class: Class) -> Tally {
        Tally::of(&self.area_km2, class)
    }

    /// Share of pixels with the right class; `None` without pixels.
    pub fn accuracy(&self) -> Option<f64> {
        let right: u64 = (0..3).map(|k| self.pixels[k][k]).sum();
        ratio(
            right as f64,
            self.pixels.iter().flatten().sum::<u64>() as f64,
        )
    }
}

/// How much of one class was found, missed and invented.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    /// True and predicted.
    pub hits: f64,
    /// True, not predicted.
    pub misses: f64,
    /// Predicted, not true.
    pub false_alarms: f64,
}

impl Tally {
    fn of(table: &[[f64; 3]; 3], class: Class) -> Self {
        let k = usize::from(class.code());
        let hits = table[k][k];
        Self {
            hits,
            misses: table[k].iter().sum::<f64>() - hits,
            false_alarms: table.iter().map(|row| row[k]).sum::<f64>() - hits,
        }
    }

    /// Intersection over union; `None` if the class is neither in the truth nor in the prediction.
    pub fn iou(&self) -> Option<f64> {
        ratio(self.hits, self.hits + self.misses + self.false_alarms)
    }

    /// Share of the prediction that is right; `None` if nothing was predicted.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.hits, self.hits + self.false_alarms)
    }

    /// Share of the truth that was found; `None` if there is none.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.hits, self.hits + self.misses)
    }

    /// Size of the prediction over that of the truth; `None` without truth.
    pub fn size(&self) -> Option<f64> {
        ratio(self.hits + self.false_alarms, self.hits + self.misses)
    }
}

/// `part / whole`; `None` unless `whole` is above 0.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn counts_and_areas_by_hand() {
        let truth = array![[0, 1, 1], [2, 2, UNLABELLED]];
        let prediction = array![[0, 1, 0], [1, 2, 2]];
        let confusion = Confusion::of_codes(truth.view(), prediction.view(), &[10.0, 1.0]).unwrap();
        assert_eq!(confusion.pixels, [[1, 0, 0], [1, 1, 0], [0, 1, 1]]);
        assert_eq!(
            confusion.area_km2,
            [[10.0, 0.0, 0.0], [10.0, 10.0, 0.0], [0.0, 1.0, 1.0]]
        );
        let cyclones = confusion.pixels_of(Class::TropicalCyclone);
        assert_eq!(
            (cyclones.hits, cyclones.misses, cyclones.false_alarms),
            (1.0, 1.0, 1.0)
        );
        assert_eq!(cyclones.iou(), Some(1.0 / 3.0));
        let area = confusion.area_of(Class::TropicalCyclone);
        assert_eq!(
            (area.precision(), area.recall(), area.size()),
            (Some(10.0 / 11.0), Some(0.5), Some(11.0 / 20.0))
        );
        assert_eq!(confusion.accuracy(), Some(0.6));
        let mut twice = confusion;
        twice.merge(&confusion);
        assert_eq!(twice.pixels[2], [0, 2, 2]);
        assert_eq!(twice.area_of(Class::TropicalCyclone).iou(), area.iou());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let two = array![[0u8, 1], [2, 0]];
        let three = array![[0u8, 1, 2], [2, 0, 0]];
        assert!(Confusion::of_codes(two.view(), three.view(), &[1.0, 1.0]).is_err());
        assert!(Confusion::of_codes(two.view(), two.view(), &[1.0]).is_err());
        let bad = array![[0u8, 3], [2, 0]];
        assert!(Confusion::of_codes(two.view(), bad.view(), &[1.0, 1.0]).is_err());
        assert!(Confusion::of_codes(bad.view(), two.view(), &[1.0, 1.0]).is_err());
    }

    #[test]
    fn nothing_has_no_score() {
        let none = Confusion::default().pixels_of(Class::AtmosphericRiver);
        assert_eq!(
            (none.iou(), none.precision(), none.recall()),
            (None, None, None)
        );
        assert_eq!(Confusion::default().accuracy(), None);
    }
}
