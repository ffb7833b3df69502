//! Where tracks run: tracks per year and cell.

use super::Taylor;
use crate::error::Result;
use ndarray::Array2;
use serde::{Deserialize, Serialize};
use squall_climate::track::readers::ImportedTrack;
use squall_data::LatLonGrid;
use std::collections::BTreeSet;

/// Tracks per year that have a point in each cell, `(lat, lon)`: a track counts once in a cell however long it stays.
///
/// Points are not joined, so cells should be wider than the way between two points: 5 degrees for 6-hourly tracks.
pub fn track_density(tracks: &[ImportedTrack], grid: &LatLonGrid, years: f64) -> Array2<f64> {
    let mut density = Array2::zeros(grid.shape());
    for track in tracks {
        let points = track.points.iter();
        let cells: BTreeSet<(usize, usize)> = points
            .map(|point| grid.nearest(point.lat_deg, point.lon_deg))
            .collect();
        for cell in cells {
            density[cell] += 1.0 / years;
        }
    }
    density
}

/// Two maps of [`track_density`] and how alike they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DensityComparison {
    /// Side of a cell.
    pub cell_deg: f64,
    /// Years that both sides cover.
    pub years: f64,
    /// Latitudes of the cells.
    pub lat_deg: Vec<f64>,
    /// Longitudes of the cells.
    pub lon_deg: Vec<f64>,
    /// Tracks per year in each cell of the reference, row by row from the south.
    pub reference: Vec<Vec<f64>>,
    /// Tracks per year in the same cells of the prediction.
    pub predicted: Vec<Vec<f64>>,
    /// The prediction against the reference, over the cells that either has tracks in.
    pub taylor: Option<Taylor>,
}

/// Compares where two sets of tracks run; `None` if they cover no time or cells of that size make no grid.
///
/// # Errors
/// [`crate::ValidationError::Data`] if the grid is none.
pub fn compare_density(
    reference: &[ImportedTrack],
    predicted: &[ImportedTrack],
    cell_deg: f64,
    years: f64,
) -> Result<Option<DensityComparison>> {
    if !(1.0..=45.0).contains(&cell_deg) || years <= 0.0 {
        return Ok(None);
    }
    // Whole cells between the poles, none across 0°E.
    let rows = (180.0 / cell_deg).round().max(4.0) as usize;
    let columns = (360.0 / cell_deg).round().max(4.0) as usize;
    let centres = |count: usize, first: f64, whole: f64| -> Vec<f64> {
        let at = |k: usize| first + whole * (k as f64 + 0.5) / count as f64;
        (0..count).map(at).collect()
    };
    let (grid, _) =
        LatLonGrid::from_axes(centres(rows, -90.0, 180.0), centres(columns, 0.0, 360.0))?;
    let [a, b] = [reference, predicted].map(|tracks| track_density(tracks, &grid, years));
    let known = |own: &Array2<f64>| {
        let mut own = own.clone();
        ndarray::Zip::from(&mut own)
            .and(&a)
            .and(&b)
            .for_each(|own, &a, &b| {
                if a + b == 0.0 {
                    *own = f64::NAN;
                }
            });
        own
    };
    let taylor = Taylor::of(known(&a).view(), known(&b).view(), &grid.row_areas_km2());
    let list = |map: &Array2<f64>| map.rows().into_iter().map(|row| row.to_vec()).collect();
    Ok(Some(DensityComparison {
        cell_deg,
        years,
        lat_deg: grid.lat_deg().to_vec(),
        lon_deg: grid.lon_deg().to_vec(),
        reference: list(&a),
        predicted: list(&b),
        taylor,
    }))
}
