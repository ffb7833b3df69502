//! One time of a simulation.

use crate::{DataError, LatLonGrid, Time, Variable};
use ndarray::{Array3, ArrayView2, Axis};
use std::path::PathBuf;
use std::sync::Arc;

/// So many rows tell the mean of a field.
const MEAN_ROWS: usize = 64;

/// The fields of one time, in SI units, latitude ascending, longitude in [0, 360), NaN where missing.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// When.
    pub time: Time,
    /// Where.
    pub grid: Arc<LatLonGrid>,
    /// Which field each plane of `fields` is.
    pub variables: Vec<Variable>,
    /// `(channel, lat, lon)`.
    pub fields: Array3<f32>,
    /// The file it came from, and the index in that file's time axis.
    pub source: (PathBuf, usize),
}

impl Snapshot {
    /// The plane of a variable, `(lat, lon)`, if this snapshot has it.
    pub fn field(&self, variable: Variable) -> Option<ArrayView2<'_, f32>> {
        let index = self.variables.iter().position(|&v| v == variable)?;
        Some(self.fields.index_axis(Axis(0), index))
    }

    /// Number of NaN values over all fields.
    pub fn missing_count(&self) -> usize {
        self.fields.iter().filter(|v| v.is_nan()).count()
    }

    /// Refuses a field whose mean is out of the range of its values, as that of hPa that are called Pa is. Some rows
    /// stand for all.
    ///
    /// # Errors
    /// [`DataError::BadVariable`] naming file, variable and the mean.
    pub fn check_means(&self) -> Result<(), DataError> {
        let step = (self.grid.shape().0 / MEAN_ROWS).max(1);
        for (&variable, plane) in self.variables.iter().zip(self.fields.outer_iter()) {
            let (mut finite, mut sum) = (0usize, 0f64);
            for row in plane.outer_iter().step_by(step) {
                for &value in row.iter().filter(|value| value.is_finite()) {
                    finite += 1;
                    sum += f64::from(value);
                }
            }
            let (entry, mean) = (variable.entry(), sum / finite.max(1) as f64);
            let (low, high) = (f64::from(entry.plausible.0), f64::from(entry.plausible.1));
            if finite > 0 && !(low..=high).contains(&mean) {
                return Err(DataError::BadVariable {
                    path: self.source.0.clone(),
                    variable: variable.name().to_string(),
                    expected: format!("a mean of {low} to {high} {}", entry.unit),
                    found: format!("{mean:.6} at {}: is its unit right?", self.time),
                });
            }
        }
        Ok(())
    }
}

/// A shape as people write it: `(8, 768, 1152)`.
pub fn shape_text(shape: &[usize]) -> String {
    let inner: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("({})", inner.join(", "))
}
