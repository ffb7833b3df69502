//! Pass two, cyclones: which cells around a centre belong to the cyclone.

use super::candidates::CycloneCandidate;
use super::patches::{Touch, patches, row_runs};
use super::thresholds::TcThresholds;
use crate::events::Run;
use ndarray::ArrayView2;
use squall_data::LatLonGrid;
use squall_data::grid::lon_difference_deg;

/// The distance in degrees at which the azimuthal mean wind, outward of its maximum, first falls below the storm wind;
/// 0 if it never exceeds it, or does not fall below it within the search radius.
///
/// # Source
/// TECA `teca_tc_wind_radii`, defaults: the mean of |(u, v)| in 32 rings over 6 degrees (plain degrees), interpolated
/// linearly between ring centres. Rings narrower than the grid spacing may hold no cell; TECA counts these as calm,
/// this code skips them.
pub(super) fn wind_radius_deg(
    grid: &LatLonGrid,
    [u, v]: [ArrayView2<'_, f32>; 2],
    centre: (f64, f64),
    thresholds: &TcThresholds,
) -> f64 {
    let search = thresholds.radius_search_deg;
    let width = search / thresholds.radius_bins as f64;
    let mut rings = vec![(0.0f64, 0u32); thresholds.radius_bins];
    let window = BoxWindow::around(
        grid,
        centre,
        search + grid.lat_spacing_deg().max(grid.lon_spacing_deg()),
    );
    for j in window.south..window.north {
        let north = grid.lat_deg()[j] - centre.0;
        for i in window.columns(grid) {
            let east = lon_difference_deg(grid.lon_deg()[i], centre.1);
            let ring = (north.hypot(east) / width) as usize;
            let speed = f64::from(u[[j, i]]).hypot(f64::from(v[[j, i]]));
            if let Some(ring) = rings.get_mut(ring)
                && speed.is_finite()
            {
                ring.0 += speed;
                ring.1 += 1;
            }
        }
    }
    let profile: Vec<(f64, f64)> = rings
        .iter()
        .enumerate()
        .filter(|(_, ring)| ring.1 > 0)
        .map(|(k, ring)| ((k as f64 + 0.5) * width, ring.0 / f64::from(ring.1)))
        .collect();
    let limit = thresholds.radius_wind_m_s;
    // The first of equal maxima, as in TECA.
    let peak = (0..profile.len()).reduce(|a, b| if profile[b].1 > profile[a].1 { b } else { a });
    let outward = peak
        .filter(|k| profile[*k].1 > limit)
        .map_or(&[][..], |k| &profile[k..]);
    let crossing = outward.windows(2).find(|pair| pair[1].1 < limit);
    crossing.map_or(0.0, |pair| {
        let [(r0, w0), (r1, w1)] = [pair[0], pair[1]];
        r0 + (w0 - limit) / (w0 - w1) * (r1 - r0)
    })
}

/// A box of cells: rows `south..north`, and `width` columns eastward of `west`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BoxWindow {
    pub south: usize,
    pub north: usize,
    pub west: usize,
    pub width: usize,
}

impl BoxWindow {
    /// From the cell nearest to the south-western corner up to, but excluding, the one nearest to the north-eastern
    /// corner, as in the published script; unlike there, the box wraps where the grid does.
    pub(super) fn around(grid: &LatLonGrid, (lat, lon): (f64, f64), half_deg: f64) -> Self {
        let (rows, columns) = grid.shape();
        let (south, west) = grid.nearest((lat - half_deg).max(-90.0), lon - half_deg);
        let (north, _) = grid.nearest((lat + half_deg).min(90.0), lon);
        let (south, north) = (south.min(rows - 1), north.max(south + 1).min(rows));
        if grid.is_periodic() {
            // Counted from the box's western edge, so that a shifted storm has an equally shifted box.
            let from = lon_difference_deg(grid.lon_deg()[west], lon - half_deg);
            let width = ((2.0 * half_deg - from) / grid.lon_spacing_deg()).round() as usize;
            return Self {
                south,
                north,
                west,
                width: width.clamp(1, columns),
            };
        }
        // Regional grid: cut off at the edges. Counted from the middle column, because grids may be wider than half a
        // circle.
        let middle = columns / 2;
        let east = lon_difference_deg(lon, grid.lon_deg()[middle]);
        let offset = middle as f64 + east / grid.lon_spacing_deg();
        let half = half_deg / grid.lon_spacing_deg();
        let edge = |value: f64| value.round().clamp(0.0, columns as f64) as usize;
        let west = edge(offset - half).min(columns - 1);
        let width = edge(offset + half).saturating_sub(west).max(1);
        Self {
            south,
            north,
            west,
            width,
        }
    }

    /// The columns from west to east.
    pub(super) fn columns(self, grid: &LatLonGrid) -> impl Iterator<Item = usize> + use<> {
        let columns = grid.shape().1;
        (self.west..self.west + self.width).map(move |i| i % columns)
    }
}

/// The percentile as defined by numpy: linear between the two nearest ranks. Skips NaN; `None` if nothing is left.
/// Reorders the values.
pub(super) fn percentile_linear(values: &mut Vec<f32>, percent: f64) -> Option<f64> {
    values.retain(|v| !v.is_nan());
    if values.is_empty() {
        return None;
    }
    let position = percent / 100.0 * (values.len() - 1) as f64;
    let rank = (position.floor() as usize).min(values.len() - 1);
    let (_, &mut lower, above) = values.select_nth_unstable_by(rank, f32::total_cmp);
    let upper = above.iter().copied().reduce(f32::min).unwrap_or(lower);
    Some(f64::from(lower) + (position - rank as f64) * (f64::from(upper) - f64::from(lower)))
}

/// Half the side of a cyclone's box, degrees: wind radius + 6.6.
pub(super) fn box_half_deg(
    grid: &LatLonGrid,
    wind: [ArrayView2<'_, f32>; 2],
    cyclone: &CycloneCandidate,
    thresholds: &TcThresholds,
) -> f64 {
    let centre = (cyclone.lat_deg, cyclone.lon_deg);
    wind_radius_deg(grid, wind, centre, thresholds) + thresholds.box_margin_deg
}

/// The cells of one cyclone, as runs of the grid sorted by row and column.
///
/// For each channel (TMQ, U850, V850, PRECT; signed winds, as published), take the cells of the box above its 93rd
/// percentile and keep their largest 8-connected piece. The mask is the largest piece of the union of these. Ties go to
/// the south-westernmost piece. A channel that is constant in the box contributes nothing.
///
/// The published script restarts the mask for each cyclone, so only the last cyclone of a time keeps its union and the
/// others keep the TMQ piece; here each cyclone gets its union.
pub(super) fn cyclone_cells(
    grid: &LatLonGrid,
    channels: &[ArrayView2<'_, f32>],
    half_deg: f64,
    cyclone: &CycloneCandidate,
    thresholds: &TcThresholds,
) -> Vec<Run> {
    let centre = (cyclone.lat_deg, cyclone.lon_deg);
    let window = BoxWindow::around(grid, centre, half_deg);
    let columns: Vec<usize> = window.columns(grid).collect();
    let (width, height) = (window.width, window.north - window.south);
    let mut union = vec![false; width * height];
    let mut values = Vec::with_capacity(width * height);
    for channel in channels {
        let cell = |k: usize| channel[[window.south + k / width, columns[k % width]]];
        values.clear();
        values.extend((0..width * height).map(cell));
        let Some(limit) = percentile_linear(&mut values, thresholds.mask_percentile) else {
            continue;
        };
        let above = |k: usize| f64::from(cell(k)) > limit;
        for run in largest_piece(above, width, height) {
            run.indices().for_each(|(j, i)| union[j * width + i] = true);
        }
    }
    let piece = largest_piece(|k| union[k], width, height);
    to_grid(&piece, window, grid.shape().1)
}

/// The largest 8-connected piece of a box in row-major order.
fn largest_piece(inside: impl Fn(usize) -> bool, width: usize, height: usize) -> Vec<Run> {
    let rows: Vec<_> = (0..height)
        .map(|j| row_runs((0..width).map(|i| inside(j * width + i))))
        .collect();
    let touch = Touch {
        corners: true,
        wrap: false,
    };
    let size = |piece: &Vec<Run>| piece.iter().map(|r| r.cells()).sum::<usize>();
    let pieces = patches(&rows, width as u32, touch);
    let largest = pieces
        .into_iter()
        .reduce(|a, b| if size(&b) > size(&a) { b } else { a });
    largest.unwrap_or_default()
}

/// Converts runs of a box to runs of the grid, split at the seam.
fn to_grid(piece: &[Run], window: BoxWindow, columns: usize) -> Vec<Run> {
    let columns = columns as u32;
    let mut runs = Vec::with_capacity(piece.len());
    for run in piece {
        let row = run.row + window.south as u32;
        let (first, end) = (run.first + window.west as u32, run.end + window.west as u32);
        if first < columns {
            runs.push(Run {
                row,
                first,
                end: end.min(columns),
            });
        }
        if end > columns {
            let first = first.max(columns) - columns;
            runs.push(Run {
                row,
                first,
                end: end - columns,
            });
        }
    }
    runs.sort_unstable();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentile_is_that_of_the_sorted_values(mut values in proptest::collection::vec(-50.0f32..50.0, 1..60), percent in 0.0..100.0f64) {
            let mut sorted = values.clone();
            sorted.sort_by(f32::total_cmp);
            let position = percent / 100.0 * (sorted.len() - 1) as f64;
            let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
            let expected = f64::from(low) + position.fract() * f64::from(high - low);
            values.push(f32::NAN);
            let got = percentile_linear(&mut values, percent).unwrap();
            prop_assert!((got - expected).abs() < 1e-4, "{got} {expected}");
        }
    }

    #[test]
    fn percentile_as_numpy() {
        // numpy.percentile(range(1, 11), 93) = 9.37
        let mut values: Vec<f32> = (1..=10).rev().map(|v| v as f32).collect();
        assert!((percentile_linear(&mut values, 93.0).unwrap() - 9.37).abs() < 1e-6);
        assert_eq!(percentile_linear(&mut vec![f32::NAN], 93.0), None);
    }

    fn storm(lat_deg: f64, lon_deg: f64) -> CycloneCandidate {
        CycloneCandidate {
            lat_deg,
            lon_deg,
            min_psl_pa: 98_000.0,
            vorticity_per_s: 2e-4,
            max_wind_m_s: 20.0,
            warm_core: true,
            thick_core: true,
            core_temperature_k: None,
            core_thickness_m: None,
            track_id: None,
        }
    }

    #[test]
    fn the_wind_radius_is_where_the_profile_falls_below_the_storm_wind() {
        let grid = LatLonGrid::global(768, 1152).unwrap();
        let thresholds = TcThresholds::default();
        // Speed 30 · exp(−(r − 1)/4) outside one degree falls to 17.5 at r = 1 + 4 ln(30/17.5).
        let expected = 1.0 + 4.0 * (30.0f64 / 17.5).ln();
        for (lat, lon) in [(15.0, 200.0), (-12.0, 0.1)] {
            let speed = Array2::from_shape_fn(grid.shape(), |(j, i)| {
                let r = (grid.lat_deg()[j] - lat).hypot(lon_difference_deg(grid.lon_deg()[i], lon));
                (30.0 * (-(r - 1.0).abs() / 4.0).exp()) as f32
            });
            let calm = Array2::zeros(grid.shape());
            let wind = [speed.view(), calm.view()];
            let radius = wind_radius_deg(&grid, wind, (lat, lon), &thresholds);
            assert!((radius - expected).abs() < 0.1, "{radius} for {expected}");
            let half_deg = box_half_deg(&grid, wind, &storm(lat, lon), &thresholds);
            assert!((half_deg - expected - 6.6).abs() < 0.1, "{half_deg}");
            let weak = TcThresholds {
                radius_wind_m_s: 31.0,
                ..thresholds.clone()
            };
            assert_eq!(wind_radius_deg(&grid, wind, (lat, lon), &weak), 0.0);
            let gale = TcThresholds {
                radius_wind_m_s: 5.0,
                ..thresholds.clone()
            };
            assert_eq!(
                wind_radius_deg(&grid, wind, (lat, lon), &gale),
                0.0,
                "beyond six degrees"
            );
        }
    }

    /// A profile that fell to exactly the storm wind in one ring and below it in the next used to give no radius.
    #[test]
    fn a_ring_of_just_the_storm_wind_has_the_radius() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let thresholds = TcThresholds {
            radius_wind_m_s: 17.5,
            radius_bins: 6,
            ..TcThresholds::default()
        };
        let centre = (15.0, 200.0);
        let calm = Array2::zeros(grid.shape());
        let radius = |rings: [f32; 6]| {
            let speed = Array2::from_shape_fn(grid.shape(), |(j, i)| {
                let north = grid.lat_deg()[j] - centre.0;
                let east = lon_difference_deg(grid.lon_deg()[i], centre.1);
                let ring = north.hypot(east) as usize;
                rings.get(ring).copied().unwrap_or(0.0)
            });
            wind_radius_deg(&grid, [speed.view(), calm.view()], centre, &thresholds)
        };
        assert_eq!(radius([30.0, 25.0, 17.5, 10.0, 5.0, 5.0]), 2.5);
        assert_eq!(radius([30.0, 25.0, 20.0, 17.5, 17.5, 5.0]), 4.5);
        // A maximum equal to the storm wind does not exceed it.
        assert_eq!(radius([17.5, 10.0, 5.0, 5.0, 5.0, 5.0]), 0.0);
    }

    #[test]
    fn boxes_wrap_shift_and_stop_at_poles_and_edges() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let b = BoxWindow::around(&grid, (10.0, 2.0), 6.6);
        assert_eq!((b.south, b.north), (93, 107)); // 3.4N and 16.6N, nearest 3N and 17N
        assert_eq!((b.west, b.width), (355, 14)); // 355.4E, nearest 355E, to 8.6E, nearest 9E
        for shift in 0..360 {
            let moved = BoxWindow::around(&grid, (10.0, 2.0 + f64::from(shift)), 6.6);
            assert_eq!(
                (moved.west, moved.width),
                ((355 + shift as usize) % 360, 14)
            );
        }
        assert_eq!(b.columns(&grid).last(), Some(8));
        assert_eq!(BoxWindow::around(&grid, (88.0, 2.0), 6.6).north, 180);
        let lat: Vec<f64> = (0..20).map(f64::from).collect();
        let lon: Vec<f64> = (0..20).map(|i| 350.0 + f64::from(i)).collect();
        let region = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let b = BoxWindow::around(&region, (18.0, 352.0), 6.6);
        assert_eq!((b.south, b.north, b.west, b.width), (11, 19, 0, 9));
        // The Indian and the Pacific Ocean, 30E to 290E.
        let lon: Vec<f64> = (0..261).map(|i| 30.0 + f64::from(i)).collect();
        let lat: Vec<f64> = (0..20).map(f64::from).collect();
        let oceans = LatLonGrid::from_axes(lat, lon).unwrap().0;
        for (lon, expected) in [(40.0, (3, 14)), (230.0, (193, 14)), (289.0, (252, 9))] {
            let b = BoxWindow::around(&oceans, (10.0, lon), 6.6);
            assert_eq!((b.west, b.width), expected, "{lon}");
        }
    }

    #[test]
    fn the_largest_pieces_joined_make_the_mask() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        // Box of 15N 0E: 14 x 14 = 196 cells; the 93rd percentile leaves 13 or 14 above it.
        let paint = |cells: &[(usize, usize)]| {
            let mut plane = Array2::from_elem(grid.shape(), 0.0f32);
            for &(j, i) in cells {
                plane[[j, i]] = 1.0;
            }
            plane
        };
        let block = |j: usize, i: usize, h: usize, w: usize| -> Vec<(usize, usize)> {
            (j..j + h)
                .flat_map(|a| (i..i + w).map(move |b| (a, b % 360)))
                .collect()
        };
        let first = paint(&block(104, 358, 3, 4)); // across the seam
        let mut split = block(106, 1, 2, 3); // touches the first by overlap
        split.extend(block(100, 354, 1, 3)); // a smaller piece that is dropped
        let second = paint(&split);
        let apart = paint(&block(110, 355, 1, 2)); // its largest piece, but apart from the union
        let flat = paint(&[]);
        let calm = Array2::zeros(grid.shape());
        let storm = storm(15.0, 0.0);
        let channels = [first.view(), second.view(), apart.view(), flat.view()];
        let wind = [calm.view(), calm.view()];
        let thresholds = TcThresholds::default();
        let half_deg = box_half_deg(&grid, wind, &storm, &thresholds);
        assert_eq!(half_deg, 6.6);
        let cells = cyclone_cells(&grid, &channels, half_deg, &storm, &thresholds);
        let mut got: Vec<_> = cells.iter().flat_map(|r| r.indices()).collect();
        got.sort_unstable();
        let mut expected = block(104, 358, 3, 4);
        expected.extend(block(106, 1, 2, 3));
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(got, expected);
    }
}
