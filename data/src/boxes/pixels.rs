//! Converts boxes from degrees to pixels of a grid, and back.
//!
//! A field has edges: its first and last row, and the first and last column of a regional grid. Boxes are clipped at
//! these edges. The boxes of a sample are transformed like its fields.

use super::{GeoBox, PixelBox};
use crate::LatLonGrid;
use crate::error::{DataError, Result};
use crate::grid::eastern_longitude;
use crate::store::View;

/// Differences up to this, in degrees or pixels, are rounding errors.
const SLIVER: f64 = 1e-6;
/// Minimum size in pixels of a clipped box: coordinates rounded to four decimals can move a box this far across an edge
/// that it only touches.
const LEAST_PART: f64 = 1e-3;
/// Relative tolerance for a box around the whole circle: rounding may make it narrower, because a network's edges are
/// f32.
const NARROWER: f64 = 1e-6;

impl GeoBox {
    /// The part of the box on a grid, in pixels. If the box enters a regional grid at both ends, the wider part is
    /// used.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if the box has no extent, is not on the globe, or lies entirely outside the grid.
    pub fn to_pixels(&self, grid: &LatLonGrid) -> Result<PixelBox> {
        self.check()?;
        let outside = || {
            let place = grid.describe();
            DataError::Invalid(format!("{self:?} lies outside the grid, {place}"))
        };
        self.on(grid).ok_or_else(outside)
    }

    /// The part of the box on a grid; the identical box if all of it is on the grid; `None` if it lies entirely
    /// outside.
    ///
    /// # Errors
    /// [`DataError::Invalid`] if the box has no extent or is not on the globe.
    pub fn within(&self, grid: &LatLonGrid) -> Result<Option<Self>> {
        self.check()?;
        let Some(part) = self.on(grid) else {
            return Ok(None);
        };
        let cut = part.to_degrees(grid);
        let lost_deg = [
            self.width_deg() - cut.width_deg(),
            cut.south_deg - self.south_deg,
            self.north_deg - cut.north_deg,
        ];
        let is_cut = lost_deg.iter().any(|&lost| lost > SLIVER);
        let part = if is_cut { cut } else { *self };
        // The rest may be so small that its edges coincide in degrees.
        Ok(part.check().is_ok().then_some(part))
    }

    /// The part on a grid, if any.
    fn on(&self, grid: &LatLonGrid) -> Option<PixelBox> {
        let (y_min, y_max) = self.rows(grid)?;
        let (x_min, x_max) = if grid.is_periodic() {
            self.columns(grid)
        } else {
            self.columns_of_region(grid)?
        };
        (x_min < x_max).then_some(PixelBox {
            class: self.class,
            y_min,
            x_min,
            y_max,
            x_max,
            confidence: self.confidence,
        })
    }

    /// Southern and northern edge, in rows, of the part on the grid, if any.
    fn rows(&self, grid: &LatLonGrid) -> Option<(f64, f64)> {
        let (south, north) = (row(self.south_deg, grid), row(self.north_deg, grid));
        let rows = grid.shape().0 as f64;
        let part = (south.clamp(0.0, rows), north.clamp(0.0, rows));
        stays(part, north - south).then_some(part)
    }

    /// Western and eastern edge in columns; the eastern one may exceed the number of columns.
    fn columns(&self, grid: &LatLonGrid) -> (f64, f64) {
        let west_edge_deg = grid.lon_deg()[0] - grid.lon_spacing_deg() / 2.0;
        let x_min = eastern_longitude(self.west_deg - west_edge_deg) / grid.lon_spacing_deg();
        (x_min, x_min + self.width_deg() / grid.lon_spacing_deg())
    }

    /// The same for the part on a regional grid.
    fn columns_of_region(&self, grid: &LatLonGrid) -> Option<(f64, f64)> {
        let columns = grid.shape().1 as f64;
        let (x_min, x_max) = self.columns(grid);
        let circle = 360.0 / grid.lon_spacing_deg();
        if x_max - x_min >= circle - SLIVER {
            return Some((0.0, columns));
        }
        let part = |x_min: f64, x_max: f64| (x_min.max(0.0), x_max.min(columns));
        // The box may begin east or west of the grid's western edge.
        let (east, west) = (part(x_min, x_max), part(x_min - circle, x_max - circle));
        let width = |(x_min, x_max): (f64, f64)| x_max - x_min;
        let wider = if width(west) > width(east) {
            west
        } else {
            east
        };
        stays(wider, x_max - x_min).then_some(wider)
    }
}

/// Whether enough of a box of `whole` pixels remains: more than half, or more than [`LEAST_PART`].
fn stays((from, to): (f64, f64), whole: f64) -> bool {
    to - from > LEAST_PART.min(whole / 2.0)
}

/// A latitude in rows, extrapolated beyond the grid's edges with the height of the last row.
fn row(lat_deg: f64, grid: &LatLonGrid) -> f64 {
    let (rows, _) = grid.shape();
    let bounds = grid.lat_bounds_deg();
    let above = bounds.partition_point(|&bound| bound <= lat_deg);
    let j = above.clamp(1, rows) - 1;
    j as f64 + (lat_deg - bounds[j]) / (bounds[j + 1] - bounds[j])
}

impl PixelBox {
    /// The same box in degrees.
    pub fn to_degrees(&self, grid: &LatLonGrid) -> GeoBox {
        let (rows, _) = grid.shape();
        let bounds = grid.lat_bounds_deg();
        let lat = |y: f64| {
            let j = (y.floor().max(0.0) as usize).min(rows - 1);
            bounds[j] + (y - j as f64) * (bounds[j + 1] - bounds[j])
        };
        let west_edge = grid.lon_deg()[0] - grid.lon_spacing_deg() / 2.0;
        let lon = |x: f64| eastern_longitude(west_edge + x * grid.lon_spacing_deg());
        // Both edges of a full circle are the same meridian.
        let width_deg = (self.x_max - self.x_min) * grid.lon_spacing_deg();
        let circle = width_deg >= 360.0 * (1.0 - NARROWER);
        let (west_deg, east_deg) = if circle {
            (0.0, 360.0)
        } else {
            (lon(self.x_min), lon(self.x_max))
        };
        GeoBox {
            class: self.class,
            west_deg,
            south_deg: lat(self.y_min),
            east_deg,
            north_deg: lat(self.y_max),
            confidence: self.confidence,
        }
    }
}

impl View {
    /// Applies this view to a box in a field of this shape.
    #[must_use]
    pub fn turn_box(self, found: PixelBox, (rows, columns): (usize, usize)) -> PixelBox {
        let (rows, columns) = (rows as f64, columns as f64);
        let x_min = (found.x_min + self.roll as f64).rem_euclid(columns);
        let (y_min, y_max) = if self.mirror {
            (rows - found.y_max, rows - found.y_min)
        } else {
            (found.y_min, found.y_max)
        };
        PixelBox {
            x_min,
            x_max: x_min + (found.x_max - found.x_min),
            y_min,
            y_max,
            ..found
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BoxClass;
    use super::super::tests::geo;
    use super::*;
    use proptest::prelude::*;

    /// 20 rows from 10.25 S to 9.75 N, and columns of a degree with edges from 95.5 E (or, across 0 E, from 354.7 E).
    fn region(first_lon: f64, columns: usize) -> LatLonGrid {
        let lat = (0..20).map(|j| -9.75 + f64::from(j)).collect();
        let lon = (0..columns).map(|i| first_lon + i as f64).collect();
        LatLonGrid::from_axes(lat, lon).unwrap().0
    }

    /// -1.25 + 2.5 x is then -2.2e-16, whose remainder of 360 is 360 itself.
    #[test]
    fn an_edge_a_hair_west_of_the_meridian_stands_on_it() {
        let found = PixelBox {
            class: BoxClass::TropicalCyclone,
            y_min: 10.0,
            x_min: 0.5 - f64::EPSILON / 4.0,
            y_max: 12.0,
            x_max: 3.0,
            confidence: None,
        };
        let placed = found.to_degrees(&LatLonGrid::global(96, 144).unwrap());
        assert_eq!((placed.west_deg, placed.east_deg), (0.0, 6.25));
    }

    #[test]
    fn what_lies_beyond_a_region_is_cut_off() {
        for first in [96.0, 355.2] {
            let grid = region(first, 30);
            let west_edge = first - 0.5;
            let at = |west: f64, east: f64, south: f64, north: f64| {
                let lon = |x: f64| (west_edge + x).rem_euclid(360.0);
                geo(lon(west), south, lon(east), north)
            };
            for (found, expected) in [
                (at(3.0, 8.0, 0.0, 5.0), Some([3.0, 8.0, 10.25, 15.25])),
                (at(0.0, 30.0, 0.0, 5.0), Some([0.0, 30.0, 10.25, 15.25])),
                (at(-4.0, 6.0, 0.0, 5.0), Some([0.0, 6.0, 10.25, 15.25])),
                (at(25.0, 40.0, 0.0, 5.0), Some([25.0, 30.0, 10.25, 15.25])),
                (at(-5.0, 50.0, -40.0, 40.0), Some([0.0, 30.0, 0.0, 20.0])),
                (geo(0.0, 0.0, 360.0, 5.0), Some([0.0, 30.0, 10.25, 15.25])),
                // Over both ends, further into the eastern one.
                (at(20.0, 364.0, 0.0, 5.0), Some([20.0, 30.0, 10.25, 15.25])),
                (at(-4.0, 0.0, 0.0, 5.0), None),
                (at(30.0, 35.0, 0.0, 5.0), None),
                (at(3.0, 8.0, 9.75, 20.0), None),
                (at(3.0, 8.0, 12.0, 20.0), None),
                (at(100.0, 200.0, 0.0, 5.0), None),
                // Larger ones, of which rounded edges leave next to nothing.
                (at(3.0, 8.0, 9.749_98, 20.0), None),
                (at(3.0, 8.0, -20.0, -10.249_98), None),
                (at(-4.0, 0.000_5, 0.0, 5.0), None),
                (at(29.999_5, 35.0, 0.0, 5.0), None),
                (at(3.0, 8.0, 9.748, 20.0), Some([3.0, 8.0, 19.998, 20.0])),
                // As small, but all of it there.
                (
                    at(3.0, 8.0, 9.749_98, 9.75),
                    Some([3.0, 8.0, 19.999_98, 20.0]),
                ),
                (
                    at(3.0, 3.000_5, 0.0, 5.0),
                    Some([3.0, 3.000_5, 10.25, 15.25]),
                ),
            ] {
                let pixels = found.to_pixels(&grid);
                let within = found.within(&grid).unwrap();
                let Some([x_min, x_max, y_min, y_max]) = expected else {
                    let error = pixels.unwrap_err().to_string();
                    assert!(error.contains("outside the grid"), "{error}");
                    assert_eq!(within, None);
                    continue;
                };
                let part = pixels.unwrap();
                for (is, wanted) in [
                    (part.x_min, x_min),
                    (part.x_max, x_max),
                    (part.y_min, y_min),
                    (part.y_max, y_max),
                ] {
                    assert!((is - wanted).abs() < 1e-6, "{found:?}: {part:?}");
                }
                let again = within.unwrap().to_pixels(&grid).unwrap();
                assert!((again.x_max - again.x_min - (x_max - x_min)).abs() < 1e-6);
            }
            let inside = at(3.0, 8.0, 0.0, 5.0);
            assert_eq!(inside.within(&grid).unwrap(), Some(inside));
        }
    }

    /// Its edges are those that a network says, in f32: x and x + 144 may be a little less than 144 apart.
    #[test]
    fn the_whole_circle_stays_one_wherever_it_begins() {
        let grid = LatLonGrid::global(96, 144).unwrap();
        for step in 0..1440u16 {
            let west = f32::from(step) * 0.1;
            let around = |columns: f32| PixelBox {
                class: BoxClass::AtmosphericRiver,
                y_min: 50.0,
                x_min: f64::from(west),
                y_max: 60.0,
                x_max: f64::from(west + columns),
                confidence: Some(0.5),
            };
            let circle = around(144.0).to_degrees(&grid);
            assert_eq!((circle.west_deg, circle.east_deg), (0.0, 360.0), "{west}");
            let narrower = around(143.9).to_degrees(&grid).width_deg();
            assert!((narrower - 359.75).abs() < 1e-3, "{west}: {narrower}");
        }
    }

    proptest! {
        #[test]
        fn pixels_and_back_is_the_same_box(west in 0.0..360.0f64, width in 1.0..180.0f64, south in -85.0..70.0f64, height in 1.0..15.0f64) {
            let grid = LatLonGrid::global(48, 72).unwrap();
            let original = geo(west, south, (west + width).rem_euclid(360.0), south + height);
            let pixels = original.to_pixels(&grid).unwrap();
            prop_assert!((0.0..72.0).contains(&pixels.x_min));
            let back = pixels.to_degrees(&grid);
            let same = |a: f64, b: f64| crate::grid::lon_difference_deg(a, b).abs() < 1e-6;
            prop_assert!(same(back.west_deg, original.west_deg) && same(back.east_deg, original.east_deg));
            prop_assert!((back.south_deg - original.south_deg).abs() < 1e-6 && (back.north_deg - original.north_deg).abs() < 1e-6);
            prop_assert_eq!(original.within(&grid).unwrap(), Some(original));
        }

        /// Whatever is cut lies on the grid, and cutting it again changes nothing.
        #[test]
        fn parts_lie_on_the_region(
            west in 0.0..360.0f64, width in 0.001..360.0f64, south in -89.0..88.0f64, height in 0.001..100.0f64, first in 0.0..360.0f64,
            columns in 2usize..350,
        ) {
            let grid = region(first, columns);
            let found = geo(west, south, (west + width).rem_euclid(360.0), (south + height).min(90.0));
            if let Some(part) = found.within(&grid).unwrap() {
                part.check().unwrap();
                prop_assert!(part.width_deg() <= found.width_deg() + 1e-6);
                let pixels = part.to_pixels(&grid).unwrap();
                prop_assert!(pixels.x_min >= 0.0 && pixels.x_max <= columns as f64 && pixels.x_min < pixels.x_max);
                prop_assert!(pixels.y_min >= 0.0 && pixels.y_max <= 20.0 && pixels.y_min < pixels.y_max);
                let again = part.within(&grid).unwrap().unwrap();
                prop_assert!((again.width_deg() - part.width_deg()).abs() < 1e-5);
            }
        }
    }

    proptest! {
        /// The pixels of a turned box are the turned pixels of the box.
        #[test]
        fn boxes_turn_as_labels_do(
            x in 0usize..12, width in 1usize..12, y in 0usize..7, height in 1usize..8, roll in 0usize..12, mirror: bool,
        ) {
            let (rows, columns) = (8, 12);
            let found = PixelBox {
                class: BoxClass::TropicalCyclone,
                y_min: y as f64,
                x_min: x as f64,
                y_max: (y + height).min(rows) as f64,
                x_max: (x + width) as f64,
                confidence: None,
            };
            let paint = |found: PixelBox| {
                let mut labels = vec![0u8; rows * columns];
                for j in found.y_min as usize..found.y_max as usize {
                    (found.x_min as usize..found.x_max as usize).for_each(|i| labels[j * columns + i % columns] = 1);
                }
                labels
            };
            let view = View { roll, mirror };
            let mut labels = paint(found);
            view.turn_labels(&mut labels, columns);
            prop_assert_eq!(labels, paint(view.turn_box(found, (rows, columns))));
        }
    }
}
