//! Local minima of a field, and the suppression of those close to a deeper one.

use ndarray::{ArrayView1, ArrayView2};
use rayon::prelude::*;
use squall_data::LatLonGrid;

/// Cells with no lower neighbour across an edge, from south to north, then by column. Missing values neither are minima
/// nor count as lower.
///
/// Of touching equal cells, only those without an equal cell to the south or west count, so that a plateau yields one
/// minimum or a few; `DetectNodes` takes all its cells. A pole's row counts as one point, in its first column.
pub(super) fn local_minima(field: ArrayView2<'_, f32>, grid: &LatLonGrid) -> Vec<(usize, usize)> {
    let (rows, columns) = grid.shape();
    let row_minima = |j: usize| {
        let here = field.row(j);
        let south = j.checked_sub(1).map(|south| field.row(south));
        let north = (j + 1 < rows).then(|| field.row(j + 1));
        if is_single_point(here, grid, j) {
            // Its cells are equal neighbours of each other, so only the adjacent row decides.
            let around = || south.iter().chain(&north).flatten();
            let value = here[0];
            let is_lowest = !around().any(|v| *v < value) && around().any(|v| *v > value);
            return if is_lowest { vec![(j, 0)] } else { Vec::new() };
        }
        let is_minimum = |i: usize, west: Option<f32>, east: Option<f32>| {
            let value = here[i];
            // `<=` instead of a negated `>`: a missing neighbour, NaN, does not count.
            let not_above = |other: Option<f32>| other.is_some_and(|other| other <= value);
            let below = |other: Option<f32>| other.is_some_and(|other| other < value);
            value.is_finite()
                && !not_above(west)
                && !below(east)
                && !not_above(south.map(|row| row[i]))
                && !below(north.map(|row| row[i]))
        };
        let at = |i: usize, step: isize| grid.column(i, step).map(|column| here[column]);
        let mut found = Vec::new();
        for i in 0..columns {
            let inner = i > 0 && i + 1 < columns;
            let (west, east) = if inner {
                // The cheap test that rules out most cells.
                if here[i - 1] <= here[i] || here[i + 1] < here[i] {
                    continue;
                }
                (Some(here[i - 1]), Some(here[i + 1]))
            } else {
                (at(i, -1), at(i, 1))
            };
            if is_minimum(i, west, east) {
                found.push((j, i));
            }
        }
        found
    };
    (0..rows)
        .into_par_iter()
        .with_min_len(16)
        .flat_map_iter(row_minima)
        .collect()
}

/// Whether a row lies at a pole and holds a single value.
fn is_single_point(row: ArrayView1<'_, f32>, grid: &LatLonGrid, j: usize) -> bool {
    grid.is_periodic()
        && 90.0 - grid.lat_deg()[j].abs() < 1e-3
        && row.iter().all(|value| *value == row[0])
}

/// The minima without a deeper one closer than `distance_deg` (great circle); of equally deep ones, the first.
///
/// A minimum that is itself suppressed still suppresses others, as in `DetectNodes`.
pub(super) fn merged(
    minima: &[(usize, usize)],
    field: ArrayView2<'_, f32>,
    grid: &LatLonGrid,
    distance_deg: f64,
) -> Vec<(usize, usize)> {
    if distance_deg <= 0.0 {
        return minima.to_vec();
    }
    // Bands of latitude at least as high as the distance and as a row, each with its minima sorted by longitude.
    let height_deg = distance_deg.max(grid.lat_spacing_deg());
    let band_of = |lat: f64| ((lat + 90.0) / height_deg) as usize;
    let mut bands: Vec<Vec<Candidate>> = vec![Vec::new(); band_of(90.0) + 2];
    let candidates: Vec<Candidate> = minima
        .iter()
        .enumerate()
        .map(|(order, &(j, i))| Candidate::new(grid, (j, i), field[[j, i]], order))
        .collect();
    for candidate in &candidates {
        bands[band_of(candidate.lat_deg)].push(*candidate);
    }
    for band in &mut bands {
        band.sort_by(|a, b| a.lon_deg.total_cmp(&b.lon_deg));
    }
    let least = distance_deg.to_radians().cos();
    let is_kept = |candidate: &Candidate| {
        let band = band_of(candidate.lat_deg);
        let reach = lon_reach_deg(candidate.lat_deg, distance_deg);
        let near = band.saturating_sub(1)..(band + 2).min(bands.len());
        !bands[near].iter().any(|others| {
            windows(others, candidate.lon_deg, reach)
                .into_iter()
                .flatten()
                .any(|other| other.suppresses(candidate) && other.cosine(candidate) >= least)
        })
    };
    candidates
        .par_iter()
        .with_min_len(64)
        .filter(|candidate| is_kept(candidate))
        .map(|candidate| candidate.cell)
        .collect()
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    cell: (usize, usize),
    lat_deg: f64,
    lon_deg: f64,
    unit: [f64; 3],
    value: f32,
    order: usize,
}

impl Candidate {
    fn new(grid: &LatLonGrid, cell: (usize, usize), value: f32, order: usize) -> Self {
        let (lat_deg, lon_deg) = (grid.lat_deg()[cell.0], grid.lon_deg()[cell.1]);
        let (sin_lat, cos_lat) = lat_deg.to_radians().sin_cos();
        let (sin_lon, cos_lon) = lon_deg.to_radians().sin_cos();
        Self {
            cell,
            lat_deg,
            lon_deg,
            unit: [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat],
            value,
            order,
        }
    }

    fn suppresses(&self, other: &Self) -> bool {
        self.value < other.value || self.value == other.value && self.order < other.order
    }

    fn cosine(&self, other: &Self) -> f64 {
        self.unit.iter().zip(&other.unit).map(|(a, b)| a * b).sum()
    }
}

/// Maximum longitude difference of points within a distance: asin(sin d / cos φ), or 180 if the pole is within it.
fn lon_reach_deg(lat_deg: f64, distance_deg: f64) -> f64 {
    let ratio = distance_deg.to_radians().sin() / lat_deg.to_radians().cos().max(1e-12);
    if distance_deg >= 90.0 || ratio >= 1.0 || lat_deg.abs() + distance_deg >= 90.0 {
        return 180.0;
    }
    ratio.asin().to_degrees() + 1e-9
}

/// The points of a band from `lon − reach` to `lon + reach`, in two slices if they cross the seam.
fn windows(band: &[Candidate], lon_deg: f64, reach_deg: f64) -> [&[Candidate]; 2] {
    if reach_deg >= 180.0 {
        return [band, &[]];
    }
    let from = |lon: f64| band.partition_point(|candidate| candidate.lon_deg < lon);
    let until = |lon: f64| band.partition_point(|candidate| candidate.lon_deg <= lon);
    let (west, east) = (lon_deg - reach_deg, lon_deg + reach_deg);
    let middle = &band[from(west)..until(east)];
    if west < 0.0 {
        [middle, &band[from(west + 360.0)..]]
    } else if east >= 360.0 {
        [middle, &band[..until(east - 360.0)]]
    } else {
        [middle, &[]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use proptest::prelude::*;
    use squall_data::grid::{EARTH_RADIUS_KM, distance_km};

    #[test]
    fn single_cells_seams_and_plateaus() {
        let grid = LatLonGrid::global(9, 12).unwrap();
        let mut field = Array2::from_elem((9, 12), 5.0f32);
        field[[4, 0]] = 1.0;
        field[[4, 11]] = 2.0; // next to it over the seam
        field[[6, 5]] = 0.0;
        field[[6, 6]] = 0.0; // plateau of two
        field[[2, 3]] = f32::NAN;
        let found = local_minima(field.view(), &grid);
        // Other cells of the flat rest have an equal cell to the south or west, except next to the lows and the hole.
        let low: Vec<_> = found.iter().filter(|&&c| field[c] < 5.0).collect();
        assert_eq!(low, [&(4, 0), &(6, 5)]);
        assert!(local_minima(Array2::zeros((9, 12)).view(), &grid).is_empty());
    }

    #[test]
    fn a_pole_is_one_place() {
        let grid = LatLonGrid::global(9, 12).unwrap();
        for (pole, next) in [(0, 1), (8, 7)] {
            let mut field = Array2::from_shape_fn((9, 12), |(j, _)| j.abs_diff(pole) as f32);
            let found = |field: &Array2<f32>| local_minima(field.view(), &grid);
            assert_eq!(found(&field), [(pole, 0)]);
            field[[next, 3]] = -1.0;
            assert_eq!(found(&field), [(next, 3)], "deeper beside the pole");
        }
    }

    /// Bands as low as the distance used to take more memory than available.
    #[test]
    fn next_to_no_distance_leaves_all_minima() {
        let grid = LatLonGrid::global(9, 12).unwrap();
        // Every other cell between the poles; each pole is one point.
        let field = Array2::from_shape_fn((9, 12), |(j, i)| match j {
            0 | 8 => 1.0,
            _ => ((j + i) % 2) as f32,
        });
        let minima = local_minima(field.view(), &grid);
        assert_eq!(minima.len(), 7 * 6);
        assert_eq!(merged(&minima, field.view(), &grid, 1e-17), minima);
    }

    fn far(grid: &LatLonGrid, a: (usize, usize), b: (usize, usize)) -> f64 {
        let at = |c: (usize, usize)| (grid.lat_deg()[c.0], grid.lon_deg()[c.1]);
        let ((la, lo), (lb, mo)) = (at(a), at(b));
        (distance_km(la, lo, lb, mo) / EARTH_RADIUS_KM).to_degrees()
    }

    proptest! {
        #[test]
        fn merging_agrees_with_all_pairs(values in proptest::collection::vec(0u8..40, 24 * 36), distance in 3.1f64..41.3) {
            let grid = LatLonGrid::global(24, 36).unwrap();
            let field = Array2::from_shape_fn((24, 36), |(j, i)| f32::from(values[j * 36 + i]));
            let minima = local_minima(field.view(), &grid);
            let found = merged(&minima, field.view(), &grid, distance);
            let expected: Vec<_> = minima.iter().enumerate().filter(|(k, a)| {
                !minima.iter().enumerate().any(|(n, b)| {
                    let deeper = field[*b] < field[**a] || field[*b] == field[**a] && n < *k;
                    deeper && far(&grid, **a, *b) <= distance
                })
            }).map(|(_, a)| *a).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
