//! The wind of a vortex itself, without the flow that carries it.

use super::sampling::sample;
use ndarray::ArrayView2;
use squall_data::LatLonGrid;

/// Largest radius of the circles, degrees ...
const SEARCH_DEG: f64 = 4.0;
/// ... their spacing ...
const STEP_DEG: f64 = 0.25;
/// ... and the number of samples on each.
const SAMPLES: usize = 16;
/// Coarsest row spacing at which circles measure the strength of a vortex, degrees.
///
/// Samples are interpolated between cells, and no cell of a coarse grid lies at the radius of maximum wind. For the
/// reference vortex of [`super::GridScaling`], sampled at the cells, the result falls short of the wind factor by 9 %
/// at 1 degree, 11 % at 1.25, 15 % at 1.875 and 27 % at 2.5: hurricanes would become depressions. The strongest cell
/// does not fall short of the factor at any of these spacings.
const COARSEST_DEG: f64 = 1.25;

/// Whether [`vortex_wind_m_s`] on this grid is comparable with a limit that is scaled for the wind of cells.
pub(super) fn resolves_strength(grid: &LatLonGrid) -> bool {
    grid.lat_spacing_deg() <= COARSEST_DEG + 1e-6
}

/// The wind of the vortex around a centre, m s-1: the highest mean wind of all circles around it, combined from the
/// mean tangential and the mean radial component. A uniform flow, and so the vortex's own motion, cancels out.
///
/// Circles with NaN are skipped.
pub(super) fn vortex_wind_m_s(
    grid: &LatLonGrid,
    [u, v]: [ArrayView2<'_, f32>; 2],
    (lat_deg, lon_deg): (f64, f64),
) -> f64 {
    let eastward = |j: usize, i: usize| f64::from(u[[j, i]]);
    let northward = |j: usize, i: usize| f64::from(v[[j, i]]);
    let stretch = 1.0 / lat_deg.to_radians().cos().max(0.05);
    let mean = |radius_deg: f64| {
        let (mut tangential, mut radial) = (0.0, 0.0);
        for sample_index in 0..SAMPLES {
            let angle = std::f64::consts::TAU * sample_index as f64 / SAMPLES as f64;
            let (north, east) = angle.sin_cos();
            let at = (
                lat_deg + radius_deg * north,
                lon_deg + radius_deg * east * stretch,
            );
            let u = sample(grid, &eastward, at.0, at.1);
            let v = sample(grid, &northward, at.0, at.1);
            tangential += v * east - u * north;
            radial += u * east + v * north;
        }
        tangential.hypot(radial) / SAMPLES as f64
    };
    let circles = (1..).map(|k| f64::from(k) * STEP_DEG);
    circles
        .take_while(|radius_deg| *radius_deg <= SEARCH_DEG)
        .map(mean)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use squall_data::grid::lon_difference_deg;

    #[test]
    fn the_flow_around_a_vortex_does_not_count() {
        let grid = LatLonGrid::global(361, 720).unwrap();
        // At 60N a degree of longitude is half a degree of a great circle.
        for (lat, lon) in [(12.0, 200.0), (-15.0, 0.1), (60.0, 200.0)] {
            // 14 m/s at two degrees, in a flow of 9 m/s.
            let plane = |flow: f64, pick: fn(f64, f64) -> f64| {
                Array2::from_shape_fn(grid.shape(), |(j, i)| {
                    let north = grid.lat_deg()[j] - lat;
                    let east =
                        lon_difference_deg(grid.lon_deg()[i], lon) * f64::to_radians(lat).cos();
                    let x = east.hypot(north) / 2.0;
                    let speed = 14.0 * 2.0 * x / (1.0 + x * x) / (2.0 * x).max(1e-9);
                    (flow + speed * pick(-north, east)) as f32
                })
            };
            let (u, v) = (plane(-9.0, |u, _| u), plane(3.0, |_, v| v));
            let wind = vortex_wind_m_s(&grid, [u.view(), v.view()], (lat, lon));
            assert!((wind - 14.0).abs() < 0.3, "{wind}");
            let calm = Array2::from_elem(grid.shape(), 12.0f32);
            let wind = vortex_wind_m_s(&grid, [calm.view(), calm.view()], (lat, lon));
            assert!(wind < 1e-5, "{wind}");
        }
    }

    #[test]
    fn circles_tell_strength_up_to_a_grid_of_one_and_a_quarter_degrees() {
        for (rows, resolves) in [
            (769, true),
            (192, true),
            (181, true),
            (145, true),
            (96, false),
        ] {
            let grid = LatLonGrid::global(rows, 144).unwrap();
            assert_eq!(resolves_strength(&grid), resolves, "{rows}");
        }
    }
}
