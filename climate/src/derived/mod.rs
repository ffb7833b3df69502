//! Fields that follow from the model's channels at one time: vorticity, wind speed, moisture.
//!
//! All planes are `(lat, lon)`, latitude ascending. NaN in, NaN out.

mod moisture;
mod vorticity;
mod wind;

pub use moisture::{
    STANDARD_GRAVITY, integrated_vapour_transport, transport_components, tropical_damping,
    vapour_transport_proxy,
};
pub use vorticity::relative_vorticity;
pub use wind::wind_speed;

use crate::error::{ClimateError, Result};
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use squall_data::LatLonGrid;
use squall_data::snapshot::shape_text;

/// Refuses a plane that is not of the grid's shape.
pub(crate) fn check_shape(
    what: &str,
    plane: &ArrayView2<'_, f32>,
    grid: &LatLonGrid,
) -> Result<()> {
    check_extents(what, plane, grid.shape())
}

/// The same where only the grid's extents are known.
pub(crate) fn check_extents(
    what: &str,
    plane: &ArrayView2<'_, f32>,
    (rows, columns): (usize, usize),
) -> Result<()> {
    if plane.dim() == (rows, columns) {
        return Ok(());
    }
    Err(ClimateError::Mismatch {
        what: format!("{what} and grid"),
        expected: shape_text(&[rows, columns]),
        found: shape_text(plane.shape()),
    })
}

/// A plane filled row by row, in parallel: `fill(j, row)`.
pub(crate) fn plane_by_rows(
    shape: (usize, usize),
    fill: impl Fn(usize, &mut [f32]) + Sync,
) -> Array2<f32> {
    let mut plane = Array2::zeros(shape);
    if let Some(cells) = plane.as_slice_mut() {
        cells
            .par_chunks_mut(shape.1.max(1))
            .enumerate()
            .for_each(|(j, row)| fill(j, row));
    }
    plane
}
