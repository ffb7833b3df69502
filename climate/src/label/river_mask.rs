//! Pass two, rivers: long, narrow areas of precipitable water outside the tropics.

use super::patches::{Touch, patches, row_runs};
use super::thresholds::ArThresholds;
use crate::derived::tropical_damping;
use crate::error::Result;
use crate::events::Run;
use ndarray::ArrayView2;
use rayon::prelude::*;
use squall_data::LatLonGrid;
use squall_data::grid::{EARTH_RADIUS_KM, distance_km};

/// The rivers in scan order, each as runs of the grid sorted by row and column.
///
/// Cells where TMQ · (1 − exp(−φ²/2σ²)) exceeds the threshold form pieces that connect across edges (and across the
/// seam, where the published flood fill stops). A piece is a river if the diagonal of its bounding box is long enough
/// and its area divided by its north-south extent is small enough. Box corners are cell centres, as published.
///
/// # Errors
/// [`crate::ClimateError::Mismatch`] if the field does not have the grid's shape.
pub(super) fn rivers(
    tmq_kg_m2: ArrayView2<'_, f32>,
    grid: &LatLonGrid,
    thresholds: &ArThresholds,
) -> Result<Vec<Vec<Run>>> {
    crate::derived::check_shape("precipitable water", &tmq_kg_m2, grid)?;
    let (rows, columns) = grid.shape();
    let lines: Vec<Vec<(u32, u32)>> = (0..rows)
        .into_par_iter()
        .with_min_len(32)
        .map(|j| {
            let damping = tropical_damping(grid.lat_deg()[j], thresholds.damping_sigma_deg);
            // Dividing the threshold is cheaper than multiplying each cell; where the damping is 0, no cell reaches it.
            let limit = (thresholds.min_damped_tmq_kg_m2 / damping) as f32;
            row_runs(tmq_kg_m2.row(j).iter().map(|&tmq| tmq > limit))
        })
        .collect();
    let touch = Touch {
        corners: false,
        wrap: grid.is_periodic(),
    };
    let areas = grid.row_areas_km2();
    let mut pieces = patches(&lines, columns as u32, touch);
    pieces.retain(|piece| is_river(piece, grid, &areas, thresholds));
    Ok(pieces)
}

fn is_river(piece: &[Run], grid: &LatLonGrid, areas: &[f64], thresholds: &ArThresholds) -> bool {
    let (Some(first), Some(last)) = (piece.first(), piece.last()) else {
        return false;
    };
    let lat = grid.lat_deg();
    let (south, north) = (lat[first.row as usize], lat[last.row as usize]);
    let width_deg = east_west_extent_deg(piece, grid);
    if first.row == last.row || width_deg <= 0.0 {
        return false;
    }
    let margin = thresholds.box_margin_deg;
    let (south, north) = (
        (south - margin / 2.0).max(-90.0),
        (north + margin / 2.0).min(90.0),
    );
    let width_deg = (width_deg + margin).min(360.0);
    let extent_km = distance_km(south, 0.0, north, 0.0);
    let diagonal_km = distance_km(south, 0.0, north, width_deg);
    let area_km2: f64 = piece
        .iter()
        .map(|run| run.cells() as f64 * areas[run.row as usize])
        .sum();
    let area_km2 = area_km2 * (thresholds.area_radius_km / EARTH_RADIUS_KM).powi(2);
    diagonal_km > thresholds.min_length_km && area_km2 / extent_km < thresholds.max_width_km
}

/// Degrees between the centres of the westernmost and the easternmost column: the circle minus the widest gap.
fn east_west_extent_deg(piece: &[Run], grid: &LatLonGrid) -> f64 {
    let columns = grid.shape().1;
    let mut spans: Vec<(u32, u32)> = piece.iter().map(|run| (run.first, run.end)).collect();
    spans.sort_unstable();
    let begin = spans.first().map_or(0, |span| span.0);
    // Walk east and remember the widest range of empty columns.
    let (mut reached, mut gap) = (begin, 0);
    for (first, end) in spans {
        gap = gap.max(first.saturating_sub(reached));
        reached = reached.max(end);
    }
    let used = if grid.is_periodic() {
        let seam = columns as u32 - reached + begin;
        columns as u32 - gap.max(seam)
    } else {
        reached - begin
    };
    f64::from(used.saturating_sub(1)) * grid.lon_spacing_deg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::shape::TangentPlane;
    use ndarray::Array2;
    use squall_data::grid::lon_difference_deg;

    fn grid() -> LatLonGrid {
        LatLonGrid::global(181, 360).unwrap()
    }

    /// 10 kg m-2, and 40 inside.
    fn moist(grid: &LatLonGrid, inside: impl Fn(f64, f64) -> bool) -> Array2<f32> {
        Array2::from_shape_fn(grid.shape(), |(j, i)| {
            if inside(grid.lat_deg()[j], grid.lon_deg()[i]) {
                40.0
            } else {
                10.0
            }
        })
    }

    fn filament(grid: &LatLonGrid, lon: f64, length_km: f64, width_km: f64) -> Array2<f32> {
        let plane = TangentPlane::new(42.0, lon);
        let (sin, cos) = 45f64.to_radians().sin_cos();
        moist(grid, |lat, lon| {
            let (e, n) = plane.project(lat, lon);
            (e * cos + n * sin).abs() < length_km / 2.0
                && (n * cos - e * sin).abs() < width_km / 2.0
        })
    }

    #[test]
    fn a_filament_is_a_river_wherever_it_lies_and_a_blob_is_not() {
        let grid = grid();
        let cells = |tmq: Array2<f32>| -> Vec<usize> {
            let found = rivers(tmq.view(), &grid, &ArThresholds::default()).unwrap();
            found
                .iter()
                .map(|r| r.iter().map(|run| run.cells()).sum())
                .collect()
        };
        let reference = cells(filament(&grid, 180.0, 3000.0, 400.0));
        assert_eq!(reference.len(), 1);
        for lon in [0.0, 5.0, 355.0] {
            assert_eq!(
                cells(filament(&grid, lon, 3000.0, 400.0)),
                reference,
                "{lon}"
            );
        }
        assert!(
            cells(filament(&grid, 100.0, 1100.0, 400.0)).is_empty(),
            "too short"
        );
        let disc = |radius: f64| {
            moist(&grid, move |lat, lon| {
                distance_km(45.0, 0.0, lat, lon) < radius
            })
        };
        // A disc of radius r: diagonal about 2.8 r, area / extent = 0.79 · 2r: 900 km is too wide, 300 km too short.
        assert!(cells(disc(900.0)).is_empty());
        assert!(cells(disc(300.0)).is_empty());
        let mut holes = filament(&grid, 180.0, 3000.0, 400.0);
        holes.map_inplace(|v| {
            if *v > 20.0 {
                *v = f32::NAN
            }
        });
        assert!(cells(holes).is_empty(), "missing values are no water");
    }

    #[test]
    fn the_tropics_are_damped_and_the_threshold_is_a_parameter() {
        let grid = grid();
        let band = |south: f64| {
            moist(&grid, move |lat, lon| {
                let along = lon_difference_deg(lon, 200.0);
                lat > south && lat < south + 14.0 && (along - (lat - south)).abs() < 3.0
            })
        };
        let count = |south: f64, thresholds: &ArThresholds| {
            rivers(band(south).view(), &grid, thresholds).unwrap().len()
        };
        // Damped 40 kg m-2 reach 24 from |φ| = 19 √(2 ln(1/(1 − 0.6))) = 25.7 degrees on, 21 from 23.3 on.
        assert_eq!(count(5.0, &ArThresholds::labels_0()), 0);
        assert_eq!(count(30.0, &ArThresholds::labels_0()), 1);
        assert_eq!(count(-50.0, &ArThresholds::labels_0()), 1);
        let cells = |t: &ArThresholds| -> usize {
            rivers(
                band(20.0).view(),
                &grid,
                &ArThresholds {
                    min_length_km: 500.0,
                    ..t.clone()
                },
            )
            .unwrap()[0]
                .iter()
                .map(|r| r.row as usize)
                .min()
                .unwrap()
        };
        assert_eq!(cells(&ArThresholds::labels_0()), 90 + 26);
        assert_eq!(cells(&ArThresholds::labels_1()), 90 + 24);
    }

    /// 21 rows from 30N to 50N and ten columns: R² Δλ (sin 50.5° − sin 29.5°) = 1,977,929 km², or 1,855,089 on a sphere
    /// of 6170 km.
    #[test]
    fn length_is_the_diagonal_and_width_the_area_over_the_height() {
        let grid = grid();
        let (first, end) = (20, 30);
        let piece: Vec<Run> = (120..141).map(|row| Run { row, first, end }).collect();
        let areas = grid.row_areas_km2();
        // Between the outermost centres 20 degrees are 2223.9 km, and the diagonal 2348.2; with a margin of two degrees
        // 2446.3 and 2612.9. Widths: 834.2 and 758.3 km.
        for (box_margin_deg, min_length_km, max_width_km, expected) in [
            (0.0, 2347.0, 835.0, true),
            (0.0, 2350.0, 835.0, false),
            (0.0, 2347.0, 833.0, false),
            (2.0, 2612.0, 759.0, true),
            (2.0, 2614.0, 759.0, false),
            (2.0, 2612.0, 757.0, false),
        ] {
            let thresholds = ArThresholds {
                box_margin_deg,
                min_length_km,
                max_width_km,
                ..ArThresholds::default()
            };
            let found = is_river(&piece, &grid, &areas, &thresholds);
            assert_eq!(found, expected, "{thresholds:?}");
        }
    }

    #[test]
    fn extents_run_over_the_seam() {
        let grid = grid();
        let run = |first: u32, end: u32| Run { row: 5, first, end };
        assert_eq!(east_west_extent_deg(&[run(10, 20)], &grid), 9.0);
        assert_eq!(
            east_west_extent_deg(&[run(0, 5), run(350, 360)], &grid),
            14.0
        );
        assert_eq!(east_west_extent_deg(&[run(0, 360)], &grid), 359.0);
        assert_eq!(
            east_west_extent_deg(&[run(4, 30), run(0, 5), run(355, 360)], &grid),
            34.0
        );
    }
}
