//! Resamples fields and masks to the pixels of a picture whose row 0 is the north.
//!
//! Pictures start at the grid's own first column, so that the viewer can place the seam.

use crate::map::Projection;
use ndarray::{Array2, ArrayView2};
use squall_data::LatLonGrid;
use std::ops::Range;

/// The ranges of grid rows and columns that each pixel of a picture covers.
#[derive(Debug, Clone)]
pub struct Resampler {
    rows: Vec<Range<usize>>,
    columns: Vec<Range<usize>>,
}

impl Resampler {
    /// Pixels over the window [`Projection::of_grid`], at most `max_rows` x `max_columns`, and never finer than the
    /// grid.
    pub fn new(grid: &LatLonGrid, max_rows: usize, max_columns: usize) -> Self {
        let (rows, columns) = grid.shape();
        let (height, width) = (rows.min(max_rows.max(1)), columns.min(max_columns.max(1)));
        let map = Projection::of_grid(grid);
        let lat = grid.lat_deg();
        let row_range = |r: usize| {
            let north = map.lat_deg(r as f64 / height as f64);
            let south = map.lat_deg((r + 1) as f64 / height as f64);
            let first = lat.partition_point(|&v| v < south);
            // The northernmost pixel includes a row exactly on its edge, as at the pole.
            let last = if r == 0 {
                rows
            } else {
                lat.partition_point(|&v| v < north)
            };
            if first < last && height < rows {
                return first..last;
            }
            let nearest = grid.nearest((north + south) / 2.0, grid.lon_deg()[0]).0;
            nearest..nearest + 1
        };
        let column_range = |c: usize| {
            let (first, last) = (c * columns / width, (c + 1) * columns / width);
            first..last.max(first + 1)
        };
        Self {
            rows: (0..height).map(row_range).collect(),
            columns: (0..width).map(column_range).collect(),
        }
    }

    /// (rows, columns) of the picture.
    pub fn picture_shape(&self) -> (usize, usize) {
        (self.rows.len(), self.columns.len())
    }

    /// The mean of the finite values under each pixel; NaN if there are none.
    ///
    /// # Shapes
    /// `field` must have the grid's shape (lat, lon).
    pub fn mean(&self, field: ArrayView2<'_, f32>) -> Array2<f32> {
        Array2::from_shape_fn(self.picture_shape(), |(r, c)| {
            let mut sum = 0.0;
            let mut count = 0u32;
            for j in self.rows[r].clone() {
                for i in self.columns[c].clone() {
                    let value = field[[j, i]];
                    if value.is_finite() {
                        sum += f64::from(value);
                        count += 1;
                    }
                }
            }
            (sum / f64::from(count)) as f32
        })
    }

    /// The most frequent code under each pixel. Ties go to the highest code, so that small objects remain visible.
    ///
    /// # Shapes
    /// `codes` must have the grid's shape (lat, lon).
    pub fn majority(&self, codes: ArrayView2<'_, u8>) -> Array2<u8> {
        Array2::from_shape_fn(self.picture_shape(), |(r, c)| {
            let mut counts = [0u32; 4];
            for j in self.rows[r].clone() {
                for i in self.columns[c].clone() {
                    counts[usize::from(codes[[j, i]]).min(3)] += 1;
                }
            }
            (0..4u8)
                .max_by_key(|&k| counts[usize::from(k)])
                .unwrap_or(0)
        })
    }
}

/// Values as 8-bit levels: 0 is missing (NaN), `low` is 1, `high` is 255, values outside are clipped.
pub fn levels_or_none(field: &Array2<f32>, low: f32, high: f32) -> Array2<u8> {
    let scale = 254.0 / (high - low).max(f32::MIN_POSITIVE);
    field.mapv(|v| {
        if v.is_nan() {
            0
        } else {
            (1.0 + (v - low) * scale).round().clamp(1.0, 255.0) as u8
        }
    })
}

/// Values as 8-bit levels: `low` is 0, `high` is 255, values outside are clipped, NaN is 0.
pub fn levels(field: &Array2<f32>, low: f32, high: f32) -> Array2<u8> {
    let scale = 255.0 / (high - low).max(f32::MIN_POSITIVE);
    field.mapv(|v| ((v - low) * scale).round().clamp(0.0, 255.0) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn north_is_up_and_means_are_kept() {
        let grid = LatLonGrid::global(32, 64).unwrap();
        let field = Array2::from_shape_fn((32, 64), |(j, _)| grid.lat_deg()[j] as f32);
        let small = Resampler::new(&grid, 16, 32).mean(field.view());
        assert_eq!(small.dim(), (16, 32));
        assert!(small[[0, 0]] > 80.0 && small[[15, 0]] < -80.0);
        let mean: f32 = small.iter().sum::<f32>() / 512.0;
        assert!(mean.abs() < 1e-3, "{mean}");
        let same = Resampler::new(&grid, 500, 500);
        assert_eq!(same.picture_shape(), (32, 64));
        let full = same.mean(field.view());
        assert_eq!(full[[0, 5]], field[[31, 5]]);
        assert_eq!(full[[31, 5]], field[[0, 5]]);
    }

    #[test]
    fn missing_values_do_not_spread() {
        let grid = LatLonGrid::global(8, 8).unwrap();
        let mut field = Array2::from_elem((8, 8), 4.0f32);
        field[[0, 0]] = f32::NAN;
        let small = Resampler::new(&grid, 4, 4).mean(field.view());
        assert!(small.iter().all(|&v| v == 4.0));
        assert_eq!(levels(&small, 0.0, 8.0)[[0, 0]], 128);
        assert_eq!(levels(&small.mapv(|_| f32::NAN), 0.0, 8.0)[[0, 0]], 0);
    }

    #[test]
    fn missing_is_a_level_of_its_own() {
        let field = ndarray::arr2(&[[f32::NAN, -5.0, 0.0, 35.0, 70.0, 90.0]]);
        let found = levels_or_none(&field, 0.0, 70.0);
        assert_eq!(found, ndarray::arr2(&[[0, 1, 1, 128, 255, 255]]));
    }

    #[test]
    fn small_objects_survive_majority() {
        let grid = LatLonGrid::global(16, 16).unwrap();
        let mut codes = Array2::zeros((16, 16));
        codes[[8, 8]] = 1;
        codes[[8, 9]] = 1;
        codes[[7, 8]] = 1;
        codes[[7, 9]] = 1;
        let small = Resampler::new(&grid, 8, 8).majority(codes.view());
        assert!(small.iter().filter(|&&c| c == 1).count() >= 1);
        assert!(small.iter().all(|&c| c < 3));
    }
}
