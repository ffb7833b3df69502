//! The loss section, for masks.

use serde::{Deserialize, Serialize};
use squall_data::class_weights::ClassWeighting;
use squall_model::ops::loss::{Criterion, Focal, Normalisation};

/// How far off a prediction is: softmax cross entropy or focal loss, with weights of classes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Loss {
    /// From class frequencies to class weights. Default `"inverse-sqrt"`.
    pub weighting: ClassWeighting,
    /// The weights themselves, in class order; instead of `weighting`.
    pub class_weights: Option<Vec<f32>>,
    /// Focal loss, `{ alpha = 1.0, gamma = 2.0 }`, instead of cross entropy. Default none.
    pub focal: Option<Focal>,
    /// What the sum over pixels is divided by: `"weights"`, `"pixels"` (MLPerf) or `{ sum = FACTOR }`, which
    /// multiplies. Default `"weights"`.
    pub normalisation: Normalisation,
}

impl Loss {
    /// The loss function with these class weights.
    pub fn criterion(&self, class_weights: Vec<f32>) -> Criterion {
        Criterion {
            class_weights,
            focal: self.focal,
            normalisation: self.normalisation,
        }
    }
}
