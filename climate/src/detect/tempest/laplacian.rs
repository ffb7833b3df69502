//! The Laplacian of `DetectBlobs` as one stencil per row.
//!
//! # Source
//! TempestExtremes `BuildLaplacianOperator` (`src/base/DataOp.cpp`), called as `_LAPLACIAN{points,degrees}`. Equally
//! spaced points on a circle around a cell, starting in the west, are each replaced by the nearest cell; duplicates and
//! the centre cell are skipped. The result is the sum of 4/n · (f − f₀) / d², where d is the great-circle distance of
//! that cell in radians.
//!
//! The original is a sparse matrix, built with a tree search for every cell. On a latitude-longitude grid the nearest
//! cells are the same for all cells of a row except for a shift, so a field costs n + 1 passes over its rows.

use crate::events::is_pole;
use ndarray::ArrayView2;
use rayon::prelude::*;
use squall_data::LatLonGrid;
use std::cmp::Ordering;

/// The stencils of a grid.
#[derive(Debug, Clone)]
pub(super) struct Laplacian {
    rows: Vec<Stencil>,
    columns: usize,
    periodic: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Stencil {
    centre: f32,
    taps: Vec<Tap>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Tap {
    row: usize,
    /// Number of columns to the east.
    shift: isize,
    weight: f32,
}

impl Laplacian {
    /// The operator with `points` points on a circle of `radius_deg`.
    pub(super) fn new(grid: &LatLonGrid, points: usize, radius_deg: f64) -> Self {
        let rows = (0..grid.shape().0)
            .into_par_iter()
            .map(|j| stencil(grid, j, points, radius_deg.to_radians()))
            .collect();
        Self {
            rows,
            columns: grid.shape().1,
            periodic: grid.is_periodic(),
        }
    }

    /// One row of the Laplacian on the unit sphere (units of the field per radian squared). NaN where the circle
    /// includes a missing value or leaves a regional grid.
    pub(super) fn row(&self, field: ArrayView2<'_, f32>, j: usize, out: &mut [f32]) {
        let stencil = &self.rows[j];
        for (out, &value) in out.iter_mut().zip(field.row(j)) {
            *out = stencil.centre * value;
        }
        for tap in &stencil.taps {
            let source = field.row(tap.row);
            let line = source.as_slice();
            let copied;
            let line = match line {
                Some(line) => line,
                None => {
                    copied = source.to_vec();
                    &copied
                }
            };
            let add = |out: &mut [f32], line: &[f32]| {
                for (out, &value) in out.iter_mut().zip(line) {
                    *out += tap.weight * value;
                }
            };
            if self.periodic {
                let shift = tap.shift.rem_euclid(self.columns as isize) as usize;
                let (left, right) = out.split_at_mut(self.columns - shift);
                add(left, &line[shift..]);
                add(right, &line[..shift]);
            } else {
                let shift = tap.shift.unsigned_abs().min(self.columns);
                let inner = self.columns - shift;
                if tap.shift >= 0 {
                    add(&mut out[..inner], &line[shift..]);
                    out[inner..].fill(f32::NAN);
                } else {
                    add(&mut out[shift..], &line[..inner]);
                    out[..shift].fill(f32::NAN);
                }
            }
        }
    }
}

fn stencil(grid: &LatLonGrid, j: usize, points: usize, radius: f64) -> Stencil {
    let lat = grid.lat_deg()[j].to_radians();
    let (sin_lat, cos_lat) = lat.sin_cos();
    let mut seen = vec![(j, 0)];
    let mut taps = Vec::with_capacity(points);
    let mut centre = 0.0;
    for k in 0..points {
        let angle = std::f64::consts::TAU * k as f64 / points as f64;
        let (north, west) = angle.sin_cos();
        // From (cos φ, 0, sin φ): west is (0, −1, 0), north (−sin φ, 0, cos φ).
        let reach = radius.tan();
        let target = [
            cos_lat - reach * north * sin_lat,
            -reach * west,
            sin_lat + reach * north * cos_lat,
        ];
        let length = target.iter().map(|v| v * v).sum::<f64>().sqrt();
        let target = target.map(|v| v / length);
        // An incomplete circle gives no value, as at the eastern and western edges.
        let Some((row, shift)) = nearest(grid, j, target) else {
            return Stencil {
                centre: f32::NAN,
                taps: Vec::new(),
            };
        };
        if seen.contains(&(row, shift)) {
            continue;
        }
        seen.push((row, shift));
        let distance = chord([cos_lat, 0.0, sin_lat], cell(grid, row, shift));
        let distance = 2.0 * (0.5 * distance).asin();
        let weight = 4.0 / points as f64 / distance.powi(2);
        centre -= weight;
        taps.push(Tap {
            row,
            shift,
            weight: weight as f32,
        });
    }
    Stencil {
        centre: centre as f32,
        taps,
    }
}

/// The unit vector of a cell `shift` columns east of the zero meridian.
fn cell(grid: &LatLonGrid, row: usize, shift: isize) -> [f64; 3] {
    let (sin_lat, cos_lat) = grid.lat_deg()[row].to_radians().sin_cos();
    let (sin_lon, cos_lon) = (shift as f64 * grid.lon_spacing_deg())
        .to_radians()
        .sin_cos();
    [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat]
}

fn chord(a: [f64; 3], b: [f64; 3]) -> f64 {
    let squares = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2));
    squares.sum::<f64>().sqrt()
}

/// The cell nearest to a position, as row and number of columns east of the cell in row `j`. Ties go to the cell nearer
/// to the equator, then to the one in the hemisphere of row `j`, so that north and south mirror each other.
fn nearest(grid: &LatLonGrid, j: usize, target: [f64; 3]) -> Option<(usize, isize)> {
    let lat = target[2].clamp(-1.0, 1.0).asin().to_degrees();
    let columns_east = target[1].atan2(target[0]).to_degrees() / grid.lon_spacing_deg();
    // Halves are rounded away from zero; the first rounding removes noise in the last bits.
    let shift = ((columns_east * 1e6).round() / 1e6).round() as isize;
    let shift = match grid.is_periodic() {
        // Half the circle is the same column in either direction.
        true if 2 * shift.unsigned_abs() == grid.shape().1 => shift.abs(),
        _ => shift,
    };
    let margin = grid.lat_spacing_deg() + grid.lon_spacing_deg();
    let rows = grid.lat_deg();
    let first = rows.partition_point(|&row| row < lat - margin);
    let last = rows.partition_point(|&row| row <= lat + margin);
    // A position beyond the edge of a regional grid has no cell; TempestExtremes uses the cell at the edge. Beyond the
    // last row of a Gaussian grid lies the pole.
    let bounds = grid.lat_bounds_deg();
    let (south, north) = (bounds[0], bounds[rows.len()]);
    if lat < south - 1e-9 && !is_pole(south, grid) || lat > north + 1e-9 && !is_pole(north, grid) {
        return None;
    }
    let key = |row: usize| {
        let distance = chord(target, cell(grid, row, shift));
        let other_side = rows[row] * rows[j] < 0.0;
        (distance, rows[row].abs(), other_side)
    };
    let compare = |a: &usize, b: &usize| {
        let (a, b) = (key(*a), key(*b));
        let near = |x: f64, y: f64| {
            if (x - y).abs() < 1e-10 {
                Ordering::Equal
            } else {
                x.total_cmp(&y)
            }
        };
        near(a.0, b.0).then(near(a.1, b.1)).then(a.2.cmp(&b.2))
    };
    let row = (first..last).min_by(compare)?;
    Some((row, shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derived::plane_by_rows;
    use ndarray::Array2;
    use squall_data::grid::EARTH_RADIUS_KM;

    impl Laplacian {
        fn apply(&self, field: ArrayView2<'_, f32>) -> Array2<f32> {
            plane_by_rows(field.dim(), |j, row| self.row(field, j, row))
        }
    }

    fn plane(grid: &LatLonGrid, f: impl Fn(f64, f64) -> f64) -> Array2<f32> {
        Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
            f(lat.to_radians(), lon.to_radians()) as f32
        })
    }

    #[test]
    fn spherical_harmonics_are_its_eigenfunctions() {
        // The mean of a harmonic of degree l on a circle of radius d is P_l(cos d) times the value at the centre.
        let grid = LatLonGrid::global(721, 1440).unwrap();
        let d = 10f64.to_radians();
        let operator = Laplacian::new(&grid, 8, 10.0);
        type Harmonic = fn(f64, f64) -> f64;
        let cases: [(Harmonic, f64, f64); 3] = [
            (|lat, _| lat.sin(), d.cos(), -2.0),
            (|lat, lon| lat.cos() * lon.cos(), d.cos(), -2.0),
            (
                |lat, lon| lat.cos().powi(2) * (2.0 * lon).cos(),
                1.5 * d.cos().powi(2) - 0.5,
                -6.0,
            ),
        ];
        for (harmonic, mean, eigenvalue) in cases {
            let expected = 4.0 * (mean - 1.0) / d.powi(2);
            // The circle is ten degrees wide: a few percent less than the exact operator.
            assert!((expected / eigenvalue - 1.0).abs() < 0.02);
            let found = operator.apply(plane(&grid, harmonic).view());
            let right = plane(&grid, |lat, lon| expected * harmonic(lat, lon));
            let worst = (&found - &right)
                .indexed_iter()
                .filter(|((j, _), _)| (60..661).contains(j))
                .fold(0f32, |w, (_, e)| w.max(e.abs()));
            // A cell may be off its point by an eighth of a degree in either direction, which contributes 16.4 · 0.0031
            // · gradient (up to 2) for each of the eight: 0.8 if all were off to the same side, which they are not.
            assert!(worst < 0.2, "{worst}");
        }
    }

    #[test]
    fn it_is_the_sum_over_nearest_cells_by_brute_force() {
        // Ten degrees are no half-integer multiple of these spacings, so no two cells are equally near.
        let grid = LatLonGrid::global(47, 91).unwrap();
        let field = plane(&grid, |lat, lon| {
            (3.0 * lat).sin() + (5.0 * lon).cos() * lat.cos() + 0.3 * (7.0 * lat + 2.0 * lon).sin()
        });
        let found = Laplacian::new(&grid, 8, 10.0).apply(field.view());
        let unit = |j: usize, i: usize| {
            let (lat, lon) = (
                grid.lat_deg()[j].to_radians(),
                grid.lon_deg()[i].to_radians(),
            );
            [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()]
        };
        for (j, i) in [(24, 0), (30, 90), (10, 17), (38, 44), (7, 3)] {
            let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
            let mut seen = vec![(j, i)];
            let mut sum = 0.0;
            for k in 0..8 {
                let bearing = 45.0 * f64::from(k);
                let plane = crate::events::shape::TangentPlane::new(lat, lon);
                let km = 10f64.to_radians() * EARTH_RADIUS_KM;
                let (north, east) = f64::to_radians(bearing).sin_cos();
                let (y, x) = plane.unproject(km * east, km * north);
                let target = {
                    let (y, x) = (y.to_radians(), x.to_radians());
                    [y.cos() * x.cos(), y.cos() * x.sin(), y.sin()]
                };
                let all = (0..47).flat_map(|a| (0..91).map(move |b| (a, b)));
                let at = |&(a, b): &(usize, usize)| chord(unit(a, b), target);
                let cell = all.min_by(|a, b| at(a).total_cmp(&at(b))).unwrap();
                if seen.contains(&cell) {
                    continue;
                }
                seen.push(cell);
                let d = 2.0 * (0.5 * chord(unit(j, i), unit(cell.0, cell.1))).asin();
                sum += 0.5 * f64::from(field[cell] - field[[j, i]]) / d.powi(2);
            }
            let error = (f64::from(found[[j, i]]) - sum).abs();
            assert!(
                error < 1e-3 * (1.0 + sum.abs()),
                "{j} {i}: {} {sum}",
                found[[j, i]]
            );
        }
    }

    #[test]
    fn it_commutes_with_shifts_and_mirrors() {
        for rows in [60, 61] {
            let grid = LatLonGrid::global(rows, 96).unwrap();
            let operator = Laplacian::new(&grid, 8, 10.0);
            let field = plane(&grid, |lat, lon| {
                (4.0 * lat + lon).sin() + (3.0 * lon).cos()
            });
            let image = operator.apply(field.view());
            let close = |a: &Array2<f32>, b: &Array2<f32>| {
                let worst = (a - b).iter().fold(0f32, |w, e| w.max(e.abs()));
                assert!(worst < 1e-3, "{worst}");
            };
            let shifted = Array2::from_shape_fn(field.dim(), |(j, i)| field[[j, (i + 37) % 96]]);
            let expected = Array2::from_shape_fn(field.dim(), |(j, i)| image[[j, (i + 37) % 96]]);
            close(&operator.apply(shifted.view()), &expected);
            let turned = |plane: &Array2<f32>, south: bool| {
                let (rows, columns) = plane.dim();
                Array2::from_shape_fn((rows, columns), |(j, i)| {
                    if south {
                        plane[[rows - 1 - j, i]]
                    } else {
                        plane[[j, columns - 1 - i]]
                    }
                })
            };
            for south in [true, false] {
                let found = operator.apply(turned(&field, south).view());
                close(&found, &turned(&image, south));
            }
        }
    }

    #[test]
    fn regional_grids_have_no_value_where_the_circle_leaves_them() {
        let lat: Vec<f64> = (0..41).map(|j| 10.0 + f64::from(j)).collect();
        let lon: Vec<f64> = (0..61).map(|i| 330.0 + f64::from(i)).collect();
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let operator = Laplacian::new(&grid, 8, 10.0);
        let found = operator.apply(Array2::from_elem((41, 61), 7.0).view());
        assert!(found[[20, 30]].abs() < 1e-3);
        assert!(found[[20, 5]].is_nan() && found[[20, 57]].is_nan());
        assert!(found[[5, 30]].is_nan() && found[[35, 30]].is_nan());
    }

    /// A slope has no curvature, but the southern half of its circle alone does.
    #[test]
    fn a_slope_at_the_northern_edge_is_no_ridge() {
        let lat: Vec<f64> = (0..61).map(|j| f64::from(j) - 10.0).collect();
        let lon: Vec<f64> = (0..360).map(f64::from).collect();
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let slope = plane(&grid, |lat, _| 60.0 * lat.to_degrees());
        let found = Laplacian::new(&grid, 8, 10.0).apply(slope.view());
        let ridge = |row: usize| found[[row, 100]] <= -20_000.0;
        assert!((0..61).all(|row| !ridge(row)));
        assert!(found[[30, 100]].is_finite() && found[[55, 100]].is_nan());
    }

    #[test]
    fn gaussian_grids_have_values_up_to_the_poles() {
        // T42: the last row lies 2.1 degrees from the pole.
        let step = 2.0 * 87.8638 / 63.0;
        let lat = (0..64).map(|j| -87.8638 + step * f64::from(j)).collect();
        let lon = (0..128).map(|i| 2.8125 * f64::from(i)).collect();
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let operator = Laplacian::new(&grid, 8, 10.0);
        let found = operator.apply(Array2::from_elem((64, 128), 7.0).view());
        assert!(found.iter().all(|value| value.abs() < 1e-2));
    }
}
