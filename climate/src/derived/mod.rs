//! Fields that follow from the model's channels at one time: vorticity, wind speed, warm core, thickness, moisture.
//!
//! All planes are `(lat, lon)`, latitude ascending. NaN in, NaN out.

mod moisture;
mod thermal;
mod vorticity;

pub use moisture::{
    damped_precipitable_water, integrated_vapour_transport, tropical_damping, STANDARD_GRAVITY,
};
pub use thermal::{thickness, upper_mean_temperature, wind_speed};
pub use vorticity::relative_vorticity;

use crate::error::{ClimateError, Result};
use ndarray::ArrayView2;
use squall_data::LatLonGrid;
use squall_data::snapshot::shape_text;

/// Refuses a plane that is not of the grid's shape.
pub(crate) fn check_shape(what: &str, plane: &ArrayView2<'_, f32>, grid: &LatLonGrid) -> Result<()> {
    let (rows, columns) = grid.shape();
    if plane.dim() == (rows, columns) {
        return Ok(());
    }
    Err(ClimateError::Mismatch {
        what: format!("{what} and grid"),
        expected: shape_text(&[rows, columns]),
        found: shape_text(plane.shape()),
    })
}
