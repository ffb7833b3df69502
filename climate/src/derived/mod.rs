//! Fields derived from the model's channels at one time: vorticity, wind speed, moisture.
//!
//! All planes are `(lat, lon)`, latitude ascending. NaN in, NaN out.

mod moisture;
mod vorticity;
mod wind;

pub use moisture::{integrated_vapour_transport, vapour_transport_proxy};
pub(crate) use moisture::{transport_components, tropical_damping};
pub use vorticity::relative_vorticity;
pub use wind::wind_speed;

use crate::error::{ClimateError, Result};
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use squall_data::LatLonGrid;

/// Rejects a field that does not have the grid's shape.
pub(crate) fn check_shape(
    what: &str,
    plane: &ArrayView2<'_, f32>,
    grid: &LatLonGrid,
) -> Result<()> {
    check_extents(what, plane, grid.shape())
}

/// The same check for a known shape.
pub(crate) fn check_extents(
    what: &str,
    plane: &ArrayView2<'_, f32>,
    (rows, columns): (usize, usize),
) -> Result<()> {
    if plane.dim() == (rows, columns) {
        return Ok(());
    }
    Err(ClimateError::shapes(
        format!("{what} and grid"),
        &[rows, columns],
        plane.shape(),
    ))
}

/// Fills a field row by row, in parallel, by `fill(j, row)`.
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
