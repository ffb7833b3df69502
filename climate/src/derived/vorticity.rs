//! Relative vorticity on the sphere.

use super::{check_shape, plane_by_rows};
use crate::error::Result;
use ndarray::{Array2, ArrayView2};
use squall_data::LatLonGrid;
use squall_data::grid::EARTH_RADIUS_KM;

/// Relative vorticity, ζ = 1/(R cos φ) ∂v/∂λ − 1/(R cos φ) ∂(u cos φ)/∂φ, by centred differences.
///
/// The second term includes the curvature of the parallels: a solid rotation u = Ω R cos φ gives 2 Ω sin φ. Longitude
/// wraps where the grid does. Differences are one-sided at the edges of a regional grid, and on first and last rows
/// that are not poles. A pole's row holds one value, the circulation around the adjacent parallel divided by the area
/// of the cap (Stokes), or NaN if the grid is not periodic.
///
/// # Shapes
/// All planes (lat, lon).
/// # Units
/// m s-1 in, s-1 out.
/// # Errors
/// [`crate::ClimateError::Mismatch`] if a field does not have the grid's shape.
pub fn relative_vorticity(
    u_m_s: ArrayView2<'_, f32>,
    v_m_s: ArrayView2<'_, f32>,
    grid: &LatLonGrid,
) -> Result<Array2<f32>> {
    check_shape("eastward wind", &u_m_s, grid)?;
    check_shape("northward wind", &v_m_s, grid)?;
    let (rows, columns) = grid.shape();
    Ok(plane_by_rows((rows, columns), |j, row| {
        if let Some(value) = polar_cap(u_m_s, grid, j) {
            row.fill(value);
            return;
        }
        let here = Row::new(grid, j);
        let (u_south, u_north) = (u_m_s.row(here.south), u_m_s.row(here.north));
        let v = v_m_s.row(j);
        let one = |west: usize, i: usize, east: usize| {
            let steps = f64::from(u8::from(west != i) + u8::from(east != i));
            let shear_v = f64::from(v[east] - v[west]) / steps * here.per_column;
            let shear_u = f64::from(u_north[i]) * here.weight_north
                - f64::from(u_south[i]) * here.weight_south;
            (shear_v - shear_u) as f32
        };
        for (i, out) in row.iter_mut().enumerate().take(columns - 1).skip(1) {
            *out = one(i - 1, i, i + 1);
        }
        let last = columns - 1;
        row[0] = one(grid.column(0, -1).unwrap_or(0), 0, 1);
        row[last] = one(last - 1, last, grid.column(last, 1).unwrap_or(last));
    }))
}

/// Coefficients of the differences in one row.
struct Row {
    south: usize,
    north: usize,
    /// 1 / (R cos φ Δλ).
    per_column: f64,
    /// cos φ_north / (R cos φ (φ_north − φ_south)).
    weight_north: f64,
    /// cos φ_south / (R cos φ (φ_north − φ_south)).
    weight_south: f64,
}

impl Row {
    fn new(grid: &LatLonGrid, j: usize) -> Self {
        let lat = |row: usize| grid.lat_deg()[row].to_radians();
        let (south, north) = (j.saturating_sub(1), (j + 1).min(grid.shape().0 - 1));
        let radius_m = EARTH_RADIUS_KM * 1000.0;
        let rise = radius_m * lat(j).cos() * (lat(north) - lat(south));
        Self {
            south,
            north,
            per_column: 1.0 / (radius_m * lat(j).cos() * grid.lon_spacing_deg().to_radians()),
            weight_north: lat(north).cos() / rise,
            weight_south: lat(south).cos() / rise,
        }
    }
}

/// Vorticity of the polar cap; `None` if row `j` is not a pole.
fn polar_cap(u_m_s: ArrayView2<'_, f32>, grid: &LatLonGrid, j: usize) -> Option<f32> {
    let lat = grid.lat_deg();
    if 90.0 - lat[j].abs() > 1e-3 {
        return None;
    }
    if !grid.is_periodic() {
        return Some(f32::NAN);
    }
    let next = if j == 0 { 1 } else { j - 1 };
    let (sin, cos) = lat[next].to_radians().sin_cos();
    let row = u_m_s.row(next);
    let mean = row.iter().map(|&u| f64::from(u)).sum::<f64>() / row.len() as f64;
    // Circulation 2πR cos φ ū over the cap 2πR²(1 − |sin φ|); eastward is anticlockwise only around the north pole.
    let value = mean * cos / (EARTH_RADIUS_KM * 1000.0 * (1.0 - sin.abs()));
    Some((value * lat[j].signum()) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OMEGA: f64 = 1e-5;

    #[test]
    fn solid_rotation_has_twice_omega_sine_latitude() {
        for (rows, columns) in [(73, 144), (192, 288)] {
            let grid = LatLonGrid::global(rows, columns).unwrap();
            let u = Array2::from_shape_fn(grid.shape(), |(j, _)| {
                (OMEGA * 6_371_008.8 * grid.lat_deg()[j].to_radians().cos()) as f32
            });
            let v = Array2::zeros(grid.shape());
            let vorticity = relative_vorticity(u.view(), v.view(), &grid).unwrap();
            for ((j, _), &value) in vorticity.indexed_iter() {
                let expected = 2.0 * OMEGA * grid.lat_deg()[j].to_radians().sin();
                // Second order in the spacing: 1 − sin(5°)/5° = 0.0013 of 2Ω.
                let error = f64::from(value) - expected;
                assert!(
                    error.abs() < 2e-3 * 2.0 * OMEGA,
                    "row {j}: {value} for {expected}"
                );
            }
        }
    }

    #[test]
    fn rotation_about_an_axis_in_the_equator_crosses_seam_and_poles() {
        // Solid rotation about the axis through 0N 0E: u = −ΩR sin φ cos λ, v = ΩR sin λ, ζ = 2Ω cos φ cos λ.
        let grid = LatLonGrid::global(181, 360).unwrap();
        let wind = |f: fn(f64, f64) -> f64| {
            Array2::from_shape_fn(grid.shape(), |(j, i)| {
                let (lat, lon) = (
                    grid.lat_deg()[j].to_radians(),
                    grid.lon_deg()[i].to_radians(),
                );
                (OMEGA * 6_371_008.8 * f(lat, lon)) as f32
            })
        };
        let (u, v) = (
            wind(|lat, lon| -lat.sin() * lon.cos()),
            wind(|_, lon| lon.sin()),
        );
        let vorticity = relative_vorticity(u.view(), v.view(), &grid).unwrap();
        for ((j, i), &value) in vorticity.indexed_iter() {
            let (lat, lon) = (
                grid.lat_deg()[j].to_radians(),
                grid.lon_deg()[i].to_radians(),
            );
            let expected = 2.0 * OMEGA * lat.cos() * lon.cos();
            // Errors of the differences are about (1°)² of Ω and grow as 1/cos φ towards the poles.
            let allowed = 4e-4 * OMEGA / lat.cos().max(0.01);
            assert!(
                (f64::from(value) - expected).abs() < allowed,
                "{j} {i}: {value} {expected}"
            );
        }
    }

    #[test]
    fn regional_edges_are_one_sided_and_shapes_are_checked() {
        let lat: Vec<f64> = (0..9).map(f64::from).collect();
        let lon: Vec<f64> = (0..11).map(|i| 355.0 + f64::from(i)).collect();
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        // v linear in longitude: the same shear everywhere, edges included.
        let u = Array2::zeros((9, 11));
        let v = Array2::from_shape_fn((9, 11), |(_, i)| i as f32);
        let vorticity = relative_vorticity(u.view(), v.view(), &grid).unwrap();
        for ((j, _), &value) in vorticity.indexed_iter() {
            let expected = 1.0 / (111_195.08 * grid.lat_deg()[j].to_radians().cos());
            approx::assert_relative_eq!(f64::from(value), expected, max_relative = 1e-5);
        }
        let error = relative_vorticity(u.view(), v.t(), &grid).unwrap_err();
        assert!(error.to_string().contains("northward wind and grid"));
    }

    /// Every longitude is adjacent to the pole.
    #[test]
    fn a_region_has_no_vorticity_at_a_pole() {
        let lat: Vec<f64> = (0..6).map(|j| 85.0 + f64::from(j)).collect();
        let lon: Vec<f64> = (0..9).map(f64::from).collect();
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let wind = Array2::from_elem((6, 9), 10f32);
        let vorticity = relative_vorticity(wind.view(), wind.view(), &grid).unwrap();
        for ((j, _), value) in vorticity.indexed_iter() {
            assert_eq!(value.is_nan(), j == 5, "{j}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn rolling_longitudes_rolls_it(seed in any::<u64>(), shift in 0usize..24) {
            let grid = LatLonGrid::global(13, 24).unwrap();
            let noise = |salt: u64| Array2::from_shape_fn((13, 24), |(j, i)| {
                let cell = (seed ^ salt).wrapping_add((j * 24 + i) as u64 + 1);
                (cell.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32 / 1e6
            });
            let roll = |a: &Array2<f32>| Array2::from_shape_fn((13, 24), |(j, i)| a[[j, (i + 24 - shift) % 24]]);
            let (u, v) = (noise(1), noise(2));
            let plain = relative_vorticity(u.view(), v.view(), &grid).unwrap();
            let rolled = relative_vorticity(roll(&u).view(), roll(&v).view(), &grid).unwrap();
            for (a, b) in roll(&plain).iter().zip(&rolled) {
                // The mean around the pole is summed in another order.
                prop_assert!((a - b).abs() <= 1e-5 * a.abs().max(1e-9), "{a} {b}");
            }
        }
    }
}
