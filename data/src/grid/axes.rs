//! Axes of a file in any order, and their mapping to those of a grid.

use super::{eastern_longitude, lon_difference_deg};
use crate::error::{DataError, Result};
use ndarray::{ArrayView2, ArrayViewMut2, Axis};
use serde::{Deserialize, Serialize};

/// Maps the axes of a file to a [`LatLonGrid`](super::LatLonGrid): reversed rows, rotated columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AxisOrder {
    /// The file's latitude descends.
    pub flip_lat: bool,
    /// The file's column that is column 0 of the grid.
    pub first_column: usize,
    /// The file's longitude descends.
    pub flip_lon: bool,
    /// The file repeats its first meridian at the end; the last column is dropped.
    pub drop_last_column: bool,
    /// Some longitude of the file is below 0 or not below 360, but for rounding.
    pub moved_lon: bool,
}

impl AxisOrder {
    /// Whether the file's latitude descends, and whether its longitudes are others than those of the grid or in another
    /// order.
    pub fn differs(&self) -> [bool; 2] {
        let of_lon = [
            self.first_column > 0,
            self.flip_lon,
            self.drop_last_column,
            self.moved_lon,
        ];
        [self.flip_lat, of_lon.contains(&true)]
    }

    /// Copies a plane in file order to grid order.
    pub fn copy_plane<T: Copy>(&self, file: ArrayView2<'_, T>, mut grid: ArrayViewMut2<'_, T>) {
        let (rows, columns) = grid.dim();
        for (j, mut row) in grid.rows_mut().into_iter().enumerate() {
            let source_row = file.row(if self.flip_lat { rows - 1 - j } else { j });
            if self.flip_lon {
                for (i, value) in row.iter_mut().enumerate() {
                    *value = source_row[columns - 1 - (i + self.first_column) % columns];
                }
            } else {
                // Columns are moved in two blocks, west and east of the seam.
                let (west, rest) = source_row.split_at(Axis(0), self.first_column);
                let (east, _repeated) = rest.split_at(Axis(0), columns - self.first_column);
                let (mut left, mut right) = row.split_at(Axis(0), east.len());
                left.assign(&east);
                right.assign(&west);
            }
        }
    }
}

/// Bounds of rows with these centres.
pub(super) fn latitude_bounds(lat: &[f64]) -> Vec<f64> {
    let n = lat.len();
    let mut bounds = Vec::with_capacity(n + 1);
    bounds.push((lat[0] - (lat[1] - lat[0]) / 2.0).max(-90.0));
    bounds.extend(lat.windows(2).map(|w| (w[0] + w[1]) / 2.0));
    bounds.push((lat[n - 1] + (lat[n - 1] - lat[n - 2]) / 2.0).min(90.0));
    bounds
}

/// Distance between 360 and the preceding `f32`.
const F32_STEP_AT_360: f64 = 1.0 / 32_768.0;

/// Maps longitudes to [0, 360) ascending (eastward if regional), and reports whether they close the circle.
pub(super) fn normalise_longitude(
    mut lon: Vec<f64>,
    order: &mut AxisOrder,
) -> Result<(Vec<f64>, bool)> {
    let bad = |why: &str| DataError::Grid(format!("longitude {why}"));
    if lon.iter().any(|v| !v.is_finite() || v.abs() > 720.0) {
        return Err(bad("has values that are no longitudes"));
    }
    if lon_difference_deg(lon[1], lon[0]) < 0.0 {
        lon.reverse();
        order.flip_lon = true;
    }
    let steps: Vec<f64> = lon
        .windows(2)
        .map(|w| eastern_longitude(w[1] - w[0]))
        .collect();
    let span: f64 = steps.iter().sum();
    let mean = span / steps.len() as f64;
    if steps
        .iter()
        .any(|&s| s <= 0.0 || (s - mean).abs() > 0.1 * mean)
    {
        return Err(bad("is not evenly spaced"));
    }
    if (span - 360.0).abs() < 0.1 * mean {
        // The file's last column, which comes first if its longitude descends.
        let last = if order.flip_lon { 0 } else { lon.len() - 1 };
        lon.remove(last);
        order.drop_last_column = true;
    } else if span > 360.0 {
        return Err(bad("covers more than a circle"));
    }
    let periodic = (mean * lon.len() as f64 - 360.0).abs() < 0.5 * mean;
    // Rounding must neither turn 0 into the last column nor merge two columns.
    let near = F32_STEP_AT_360.min(0.1 * mean);
    order.moved_lon = lon.iter().any(|v| !(-near..360.0).contains(v));
    lon.iter_mut().for_each(|v| {
        let wrapped = eastern_longitude(*v);
        *v = if wrapped >= 360.0 - near {
            0.0
        } else {
            wrapped
        };
    });
    if periodic {
        let first = (0..lon.len())
            .min_by(|&a, &b| lon[a].total_cmp(&lon[b]))
            .unwrap_or(0);
        lon.rotate_left(first);
        order.first_column = first;
    }
    Ok((lon, periodic))
}

#[cfg(test)]
mod tests {
    use crate::grid::LatLonGrid;
    use ndarray::Array2;

    /// The column at 0°E had become the last one, of another grid.
    #[test]
    fn a_meridian_that_is_zero_but_for_rounding_is_the_first() {
        let grid = LatLonGrid::global(192, 1152).unwrap();
        let with = |lon: Vec<f64>| LatLonGrid::from_axes(grid.lat_deg().to_vec(), lon).unwrap();
        for zero in [-1.5e-5, -1e-13, f64::from(359.99997_f32), 1.5e-5] {
            let mut lon = grid.lon_deg().to_vec();
            lon[0] = zero;
            for first_column in [0, 576] {
                let (stored, order) = with(lon.clone());
                assert!(stored.same_as(&grid), "{zero}");
                assert_eq!(order.first_column, first_column, "{zero}");
                // As files have it that begin at the date line.
                lon.rotate_left(576);
            }
        }
        // What is no rounding stays where it is.
        let moved = grid.lon_deg().iter().map(|lon| lon - 1e-3).collect();
        let (moved, order) = with(moved);
        assert_eq!(order.first_column, 1);
        assert!((moved.lon_deg()[1151] - 359.999).abs() < 1e-9 && !moved.same_as(&grid));
        // Three metres between columns: none falls on another.
        let fine = (0..8).map(|i| 360.0 - 3e-5 * f64::from(4 - i)).collect();
        let (fine, _) = with(fine);
        let mut steps = fine.lon_deg().windows(2).map(|w| w[1] - w[0]);
        assert!(steps.all(|step| step.rem_euclid(360.0) > 2e-5));
    }

    #[test]
    fn file_orders_are_undone() {
        // GFS: latitude descends; wind file: longitude from -180.
        let lat: Vec<f64> = (0..73).map(|j| 90.0 - 2.5 * f64::from(j)).collect();
        let lon: Vec<f64> = (0..144).map(|i| -180.0 + 2.5 * f64::from(i)).collect();
        let (grid, order) = LatLonGrid::from_axes(lat.clone(), lon.clone()).unwrap();
        assert_eq!(
            (grid.lat_deg()[0], grid.lon_deg()[0], grid.is_periodic()),
            (-90.0, 0.0, true)
        );
        assert_eq!(order.differs(), [true, true]);
        let own = grid.lon_deg().to_vec();
        let (_, order_of_gfs) = LatLonGrid::from_axes(lat.clone(), own).unwrap();
        assert_eq!(order_of_gfs.differs(), [true, false]);
        // The Atlantic, of which no column is moved to another place.
        let atlantic: Vec<f64> = (0..20).map(|i| -60.0 + 2.5 * f64::from(i)).collect();
        let north = vec![0.0, 2.5, 5.0];
        let (_, order_of_region) = LatLonGrid::from_axes(north, atlantic).unwrap();
        assert_eq!(order_of_region.differs(), [false, true]);
        let file = Array2::from_shape_fn((73, 144), |(j, i)| {
            lat[j] * 1000.0 + lon[i].rem_euclid(360.0)
        });
        let mut out = Array2::zeros((73, 144));
        order.copy_plane(file.view(), out.view_mut());
        for ((j, i), value) in out.indexed_iter() {
            assert_eq!(*value, grid.lat_deg()[j] * 1000.0 + grid.lon_deg()[i]);
        }
    }

    #[test]
    fn repeated_meridian_is_dropped_and_regions_are_not_periodic() {
        let lat = vec![-1.0, 0.0, 1.0];
        let closed: Vec<f64> = (0..=36).map(|i| f64::from(i) * 10.0).collect();
        let (grid, order) = LatLonGrid::from_axes(lat.clone(), closed).unwrap();
        assert_eq!((grid.shape(), order.drop_last_column), ((3, 36), true));
        let region: Vec<f64> = (0..20).map(|i| 350.0 + f64::from(i)).collect();
        let (grid, _) = LatLonGrid::from_axes(lat, region).unwrap();
        assert!(!grid.is_periodic());
        assert_eq!(grid.neighbours8(0, 0).count(), 3);
    }

    /// It had been refused.
    #[test]
    fn a_meridian_at_both_ends_may_stand_in_a_row_that_descends() {
        let lat = vec![-1.0, 0.0, 1.0];
        for west in [0.0, -180.0, 350.0] {
            let lon: Vec<f64> = (0..=36)
                .map(|i| west + 360.0 - f64::from(i) * 10.0)
                .collect();
            let (grid, order) = LatLonGrid::from_axes(lat.clone(), lon.clone()).unwrap();
            assert_eq!((grid.shape(), grid.is_periodic()), ((3, 36), true));
            let file = Array2::from_shape_fn((3, 37), |(j, i)| lat[j] + lon[i].rem_euclid(360.0));
            let mut out = Array2::zeros((3, 36));
            order.copy_plane(file.view(), out.view_mut());
            for ((j, i), value) in out.indexed_iter() {
                assert_eq!(*value, lat[j] + 10.0 * i as f64, "{west}");
            }
        }
    }

    #[test]
    fn nonsense_axes_are_refused() {
        let lat = vec![0.0, 1.0, 2.0];
        let lon = vec![0.0, 1.0, 2.0];
        for (lat, lon) in [
            (vec![0.0, 1.0, 0.5], lon.clone()),
            (vec![0.0, f64::NAN, 2.0], lon.clone()),
            (vec![80.0, 90.0, 100.0], lon.clone()),
            (lat.clone(), vec![0.0, 1.0, 5.0]),
            (lat.clone(), vec![0.0, f64::INFINITY, 1.0]),
            (lat.clone(), vec![3.0]),
        ] {
            assert!(LatLonGrid::from_axes(lat, lon).is_err());
        }
    }
}
