//! One time of a simulation.

use crate::{LatLonGrid, Time, Variable};
use ndarray::{Array3, ArrayView2, Axis};
use std::path::PathBuf;
use std::sync::Arc;

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
}

/// A shape as people write it: `(8, 768, 1152)`.
pub fn shape_text(shape: &[usize]) -> String {
    let inner: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("({})", inner.join(", "))
}
