//! One time of a simulation.

use crate::{DataError, LatLonGrid, Time, Variable};
use ndarray::{Array3, ArrayView2, Axis};
use std::path::PathBuf;
use std::sync::Arc;

/// Approximate number of evenly spaced rows over which the mean of a field is computed.
const MEAN_ROWS: usize = 64;
/// Maximum plausible wind at 850 hPa or below, m/s. Storm winds in km/h or knots that are labelled m/s exceed it.
const FASTEST_M_S: f32 = 150.0;
/// Minimum plausible global mean of column water, kg m-2. Values in cm that are labelled kg m-2 are below it.
const DRIEST_GLOBE: f32 = 8.0;
/// Latitude range in degrees from which [`DRIEST_GLOBE`] applies: polar air alone is drier.
const GLOBE_DEG: f64 = 120.0;

/// The fields of one time, in SI units, latitude ascending, longitude in [0, 360), NaN where missing.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The time.
    pub time: Time,
    /// The grid.
    pub grid: Arc<LatLonGrid>,
    /// The variable of each plane of `fields`.
    pub variables: Vec<Variable>,
    /// `(channel, lat, lon)`.
    pub fields: Array3<f32>,
    /// The file it came from (the first of several), and the time index in that file.
    pub source: (PathBuf, usize),
}

impl Snapshot {
    /// The plane of a variable, `(lat, lon)`, if present.
    pub fn field(&self, variable: Variable) -> Option<ArrayView2<'_, f32>> {
        let index = self.variables.iter().position(|&v| v == variable)?;
        Some(self.fields.index_axis(Axis(0), index))
    }

    /// How many values of each plane are missing, that is not finite.
    pub fn missing_values(&self) -> impl Iterator<Item = (Variable, usize)> {
        let planes = self.variables.iter().zip(self.fields.outer_iter());
        planes.map(|(variable, plane)| {
            let missing = plane.iter().filter(|value| !value.is_finite());
            (*variable, missing.count())
        })
    }

    /// Rejects fields whose mean (over some of their rows) is outside of the variable's plausible range, such as
    /// pressure in hPa labelled Pa, and impossibly fast winds.
    ///
    /// # Errors
    /// [`DataError::BadVariable`] naming file, variable, and the mean or the speed.
    pub fn check_plausible(&self) -> Result<(), DataError> {
        use Variable::{U850, Ubot, V850, Vbot};
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
            let (low, high) = self.mean_of(variable);
            if finite > 0 && !(f64::from(low)..=f64::from(high)).contains(&mean) {
                let expected = format!("a mean of {low} to {high} {}", entry.unit);
                return Err(self.doubtful(variable, expected, format!("{mean:.6}")));
            }
            if matches!(variable, U850 | V850 | Ubot | Vbot) {
                // Infinite values count as missing, not as speeds.
                let speeds = plane.iter().map(|value| value.abs());
                let fastest = speeds
                    .filter(|speed| speed.is_finite())
                    .fold(0f32, f32::max);
                if fastest > FASTEST_M_S {
                    let expected = format!("speeds of at most {FASTEST_M_S} {}", entry.unit);
                    return Err(self.doubtful(variable, expected, format!("{fastest:.1}")));
                }
            }
        }
        Ok(())
    }

    /// The minimum and maximum plausible mean of a variable.
    fn mean_of(&self, variable: Variable) -> (f32, f32) {
        let (low, high) = variable.entry().plausible;
        let lat = self.grid.lat_deg();
        let is_globe = self.grid.is_periodic() && lat[lat.len() - 1] - lat[0] > GLOBE_DEG;
        match variable {
            Variable::Tmq if is_globe => (DRIEST_GLOBE, high),
            _ => (low, high),
        }
    }

    fn doubtful(&self, variable: Variable, expected: String, found: String) -> DataError {
        DataError::bad_variable(
            &self.source.0,
            variable.name(),
            expected,
            format!("{found} at {}: is its unit right?", self.time),
        )
    }
}

/// Formats a shape: `(8, 768, 1152)`.
pub fn shape_text(shape: &[usize]) -> String {
    let inner: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("({})", inner.join(", "))
}
