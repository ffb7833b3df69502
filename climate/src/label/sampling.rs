//! Interpolates fields between cells: values along a direction, and minima to a fraction of a cell.
//!
//! A field is a closure over (row, column), so that sums and differences of planes need no array of their own.

use crate::events::is_pole;
use squall_data::LatLonGrid;
use squall_data::grid::{eastern_longitude, lon_difference_deg};

/// A position and the value there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Low {
    pub lat_deg: f64,
    pub lon_deg: f64,
    pub value: f64,
}

/// Unit steps, in degrees of longitude and latitude, to the eight neighbours.
const DIRECTIONS: [(f64, f64); 8] = [
    (0.0, 1.0),
    (0.0, -1.0),
    (1.0, 0.0),
    (-1.0, 0.0),
    (1.0, -1.0),
    (1.0, 1.0),
    (-1.0, 1.0),
    (-1.0, -1.0),
];

/// The value at a position, bilinear between cells. Between the last row and the pole it is the value of the last row;
/// NaN outside of a regional grid.
pub(super) fn sample(
    grid: &LatLonGrid,
    field: &impl Fn(usize, usize) -> f64,
    lat_deg: f64,
    lon_deg: f64,
) -> f64 {
    let lat = grid.lat_deg();
    let bounds = grid.lat_bounds_deg();
    let is_off = |beyond_deg: f64, bound_deg: f64| beyond_deg > 1e-9 && !is_pole(bound_deg, grid);
    let last = lat.len() - 1;
    if is_off(lat[0] - lat_deg, bounds[0]) || is_off(lat_deg - lat[last], bounds[last + 1]) {
        return f64::NAN;
    }
    let north = lat.partition_point(|&v| v <= lat_deg).clamp(1, last);
    let up = ((lat_deg - lat[north - 1]) / (lat[north] - lat[north - 1])).clamp(0.0, 1.0);
    let steps = eastern_longitude(lon_deg - grid.lon_deg()[0]) / grid.lon_spacing_deg();
    let west = steps.floor();
    let right = steps - west;
    let columns = grid.shape().1;
    let mut west = west as usize;
    if grid.is_periodic() {
        west %= columns;
    } else if west >= columns {
        return f64::NAN;
    }
    let east = match grid.column(west, 1) {
        Some(east) => east,
        None if right < 1e-9 => west,
        None => return f64::NAN,
    };
    let along = |j: usize| field(j, west) * (1.0 - right) + field(j, east) * right;
    along(north - 1) * (1.0 - up) + along(north) * up
}

/// Whether the field rises by `rise` above the low in all eight directions within `radius_deg`.
///
/// As published, samples are one degree apart (√2 on the diagonals), distances are plain degrees, and samples at the
/// radius itself do not count. (TECA's line search also halves its step if the first step rises by more than 2 units
/// but less than `rise`, and then accepts the direction; this code implements the criterion in TECA's documentation.)
pub(super) fn rises_all_around(
    grid: &LatLonGrid,
    field: &impl Fn(usize, usize) -> f64,
    low: Low,
    rise: f64,
    radius_deg: f64,
) -> bool {
    DIRECTIONS.iter().all(|&(east, north)| {
        let step = f64::hypot(east, north);
        (1..)
            .map(f64::from)
            .take_while(|k| k * step < radius_deg)
            .any(|k| {
                let value = sample(grid, field, low.lat_deg + k * north, low.lon_deg + k * east);
                value - low.value >= rise
            })
    })
}

/// The lowest cell within `radius_deg` (plain degrees) of a position, unless one of its neighbours is lower. Parabolas
/// through the neighbours refine its position to a fraction of a cell.
///
/// TECA minimises a bicubic spline by conjugate gradients from the position and applies the same criterion to the
/// result.
pub(super) fn lowest_near(
    grid: &LatLonGrid,
    field: &impl Fn(usize, usize) -> f64,
    (lat_deg, lon_deg): (f64, f64),
    radius_deg: f64,
) -> Option<Low> {
    let (j0, i0) = grid.nearest(lat_deg, lon_deg);
    let reach = (radius_deg / grid.lon_spacing_deg()).ceil() as isize + 1;
    let reach = reach.min(grid.shape().1 as isize / 2);
    let lat = grid.lat_deg();
    let south = lat.partition_point(|&v| v <= lat_deg - radius_deg).min(j0);
    let north = lat
        .partition_point(|&v| v < lat_deg + radius_deg)
        .max(j0 + 1);
    let mut best: Option<(f64, usize, usize)> = None;
    for (j, row_lat) in lat.iter().enumerate().take(north).skip(south) {
        for step in -reach..=reach {
            let Some(i) = grid.column(i0, step) else {
                continue;
            };
            let east = lon_difference_deg(grid.lon_deg()[i], lon_deg);
            if f64::hypot(east, row_lat - lat_deg) >= radius_deg {
                continue;
            }
            let value = field(j, i);
            if value.is_finite() && best.is_none_or(|(lowest, ..)| value < lowest) {
                best = Some((value, j, i));
            }
        }
    }
    let (value, j, i) = best?;
    if grid.neighbours8(j, i).any(|(a, b)| field(a, b) < value) {
        return None;
    }
    Some(refine(grid, field, j, i))
}

/// The minimum of the biquadratic through a cell, lowest among its neighbours, and the eight cells around it.
fn refine(grid: &LatLonGrid, field: &impl Fn(usize, usize) -> f64, j: usize, i: usize) -> Low {
    let mut low = Low {
        lat_deg: grid.lat_deg()[j],
        lon_deg: grid.lon_deg()[i],
        value: field(j, i),
    };
    let (Some(west), Some(east)) = (grid.column(i, -1), grid.column(i, 1)) else {
        return low;
    };
    if j == 0 || j + 1 == grid.shape().0 {
        return low;
    }
    let at = |y: usize, x: usize| field([j - 1, j, j + 1][y], [west, i, east][x]) - low.value;
    let around: [[f64; 3]; 3] = std::array::from_fn(|y| std::array::from_fn(|x| at(y, x)));
    if around.iter().flatten().any(|v| !v.is_finite()) {
        return low;
    }
    // Minimise along one axis at a time, starting at the cell's centre and staying within half a cell, where the cell
    // is the nearest one.
    let (mut x, mut y) = (0.0f64, 0.0f64);
    for _ in 0..8 {
        let along_x = std::array::from_fn(|k| parabola(around.map(|row| row[k]), y));
        x = vertex(along_x, x);
        y = vertex(around.map(|row| parabola(row, x)), y);
    }
    let shift = parabola(around.map(|row| parabola(row, x)), y);
    if shift <= 0.0 {
        low.value += shift;
        low.lat_deg += if y > 0.0 {
            y * (grid.lat_deg()[j + 1] - low.lat_deg)
        } else {
            y * (low.lat_deg - grid.lat_deg()[j - 1])
        };
        low.lon_deg = eastern_longitude(low.lon_deg + x * grid.lon_spacing_deg());
    }
    low
}

/// The parabola through values at −1, 0 and 1, at `t`.
fn parabola([a, b, c]: [f64; 3], t: f64) -> f64 {
    b + 0.5 * t * (c - a) + 0.5 * t * t * (a - 2.0 * b + c)
}

/// The minimum of the parabola through values at −1, 0 and 1, limited to half a step; `now` if there is no minimum.
fn vertex([a, b, c]: [f64; 3], now: f64) -> f64 {
    let curvature = a - 2.0 * b + c;
    if curvature <= 0.0 {
        return now;
    }
    ((a - c) / (2.0 * curvature)).clamp(-0.5, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bowl(grid: &LatLonGrid, lat: f64, lon: f64) -> impl Fn(usize, usize) -> f64 + '_ {
        move |j, i| {
            let (dy, dx) = (
                grid.lat_deg()[j] - lat,
                lon_difference_deg(grid.lon_deg()[i], lon),
            );
            990.0 + dy * dy + 0.5 * dx * dx + 0.3 * dx * dy
        }
    }

    #[test]
    fn a_bowl_is_found_to_a_fraction_of_a_cell_also_over_the_seam() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        for (lat, lon) in [(12.3, 200.4), (-15.2, 359.7), (20.0, 0.3)] {
            let field = bowl(&grid, lat, lon);
            let low = lowest_near(&grid, &field, (lat + 0.6, lon - 0.9), 2.0).unwrap();
            assert!((low.lat_deg - lat).abs() < 1e-6, "{low:?}");
            assert!(lon_difference_deg(low.lon_deg, lon).abs() < 1e-6, "{low:?}");
            assert!((low.value - 990.0).abs() < 1e-6, "{low:?}");
            assert!(lowest_near(&grid, &field, (lat + 4.0, lon), 2.0).is_none());
        }
    }

    #[test]
    fn a_low_a_breath_west_of_the_seam_is_at_0_and_not_at_360() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let field = |j: usize, i: usize| {
            let east = match i {
                0 => 0.0,
                1 => 1.0 + f64::EPSILON,
                _ => 1.0,
            };
            (grid.lat_deg()[j] - 10.0).powi(2) + east
        };
        let low = lowest_near(&grid, &field, (10.0, 0.0), 2.0).unwrap();
        assert_eq!(low.lon_deg, 0.0);
    }

    #[test]
    fn samples_are_exact_for_planes_and_nan_off_the_grid() {
        let lat: Vec<f64> = (0..11).map(f64::from).collect();
        let lon: Vec<f64> = (0..11).map(|i| 355.0 + f64::from(i)).collect();
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let field = |j: usize, i: usize| 3.0 * j as f64 - 2.0 * i as f64;
        assert!((sample(&grid, &field, 2.25, 1.5) - (6.75 - 13.0)).abs() < 1e-9);
        assert!((sample(&grid, &field, 10.0, 5.0) - (30.0 - 20.0)).abs() < 1e-9);
        for (lat, lon) in [(2.0, 5.5), (2.0, 354.0), (10.5, 0.0), (-0.5, 0.0)] {
            assert!(sample(&grid, &field, lat, lon).is_nan(), "{lat} {lon}");
        }
        // T42: between the last row of a Gaussian grid and the pole there are no other values.
        let step = 2.0 * 87.8638 / 63.0;
        let lat = (0..64).map(|j| -87.8638 + step * f64::from(j)).collect();
        let lon = (0..128).map(|i| 2.8125 * f64::from(i)).collect();
        let gaussian = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let row = |j: usize, _: usize| j as f64;
        assert!((sample(&gaussian, &row, 89.5, 7.0) - 63.0).abs() < 1e-9);
        assert_eq!(sample(&gaussian, &row, -89.5, 7.0), 0.0);
    }

    /// Samples to the north-east and north-west used to follow the edge, where pressure rises along it.
    #[test]
    fn beyond_the_edge_of_a_region_nothing_rises() {
        let lat: Vec<f64> = (0..21).map(f64::from).collect();
        let lon: Vec<f64> = (0..41).map(|i| 200.0 + f64::from(i)).collect();
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        // At the edge, one degree north of the low: 10 north of it, 1 to the north-east, and 14 one degree east of
        // that.
        let field = |j: usize, i: usize| match (j, i.abs_diff(20)) {
            (20, 0) => 10.0,
            (20, 1) => 1.0,
            (20, _) => 14.0,
            (_, east) => (19.0 - j as f64).powi(2) + (east as f64).powi(2),
        };
        let low = Low {
            lat_deg: 19.0,
            lon_deg: 220.0,
            value: 0.0,
        };
        let rises = |rise: f64| rises_all_around(&grid, &field, low, rise, 5.0);
        assert!(rises(0.9) && !rises(3.0));
    }

    #[test]
    fn a_rise_must_be_all_around() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let field = bowl(&grid, 10.0, 359.0);
        let low = lowest_near(&grid, &field, (10.0, 0.0), 2.0).unwrap();
        // The rise is smallest along the longitudes: 0.5 · 4² = 8 at four degrees, the last sample before five.
        assert!(rises_all_around(&grid, &field, low, 7.99, 5.0));
        assert!(!rises_all_around(&grid, &field, low, 8.01, 5.0));
        let open = |j: usize, i: usize| if i == 1 && j > 100 { -1e9 } else { field(j, i) };
        assert!(
            rises_all_around(&grid, &open, low, 2.0, 5.0),
            "north of 10N is out of the way"
        );
        let trough = |j: usize, i: usize| if j == 100 { 990.0 } else { field(j, i) };
        assert!(!rises_all_around(&grid, &trough, low, 1.0, 5.0));
    }
}
