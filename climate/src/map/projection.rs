//! The equirectangular map: longitude to the right, latitude upwards, with a seam chosen by the caller.

use squall_data::LatLonGrid;
use squall_data::grid::{eastern_longitude, lon_difference_deg};

/// A longitude in [-180, 180), as in coastlines and many tracks of other tools.
pub(crate) fn signed_longitude(lon_deg: f64) -> f64 {
    lon_difference_deg(lon_deg, 0.0)
}

/// A window of longitude and latitude, in degrees, mapped linearly to fractions of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    /// Longitude of the left edge, [0, 360).
    pub west_deg: f64,
    /// Width of the window, at most 360.
    pub lon_span_deg: f64,
    /// Latitude of the lower edge.
    pub south_deg: f64,
    /// Latitude of the upper edge.
    pub north_deg: f64,
}

impl Projection {
    /// The window of a grid between its outer cell edges; global grids start at their own first column.
    pub fn of_grid(grid: &LatLonGrid) -> Self {
        let half = grid.lon_spacing_deg() / 2.0;
        let (bounds, lon) = (grid.lat_bounds_deg(), grid.lon_deg());
        let span = if grid.is_periodic() {
            360.0
        } else {
            grid.lon_spacing_deg() * lon.len() as f64
        };
        Self {
            west_deg: eastern_longitude(lon[0] - half),
            lon_span_deg: span,
            south_deg: bounds[0].max(-90.0),
            north_deg: bounds[bounds.len() - 1].min(90.0),
        }
    }

    /// The map for a grid: centred on `centre_deg` for a global grid, its own window for a regional one.
    pub fn showing(grid: &LatLonGrid, centre_deg: f64) -> Self {
        let own = Self::of_grid(grid);
        if grid.is_periodic() {
            Self {
                west_deg: eastern_longitude(centre_deg - 180.0),
                ..own
            }
        } else {
            own
        }
    }

    /// Whether the window spans the whole circle of longitude.
    pub fn is_global(&self) -> bool {
        self.lon_span_deg >= 359.999
    }

    /// Visits every pixel of a picture of `(rows, columns)` along a line of (longitude, latitude), with its index along
    /// the line. Segments take the shorter way around; pixels outside are skipped.
    pub fn along(
        &self,
        (rows, columns): (usize, usize),
        places: &[(f64, f64)],
        mut visit: impl FnMut(usize, (usize, usize)),
    ) {
        let mut count = 0;
        for pair in places.windows(2) {
            let ((lon1, lat1), (lon2, lat2)) = (pair[0], pair[1]);
            let step = lon_difference_deg(lon2, lon1);
            let across = (step / self.lon_span_deg * columns as f64).abs();
            let down = ((self.y(lat2) - self.y(lat1)) * rows as f64).abs();
            let pieces = (across.max(down).ceil() as usize).clamp(1, 4 * columns);
            for k in 0..pieces {
                let t = (k as f64 + 0.5) / pieces as f64;
                let x = self.x(lon1 + t * step) * columns as f64;
                let y = self.y(lat1 + t * (lat2 - lat1)) * rows as f64;
                if x < columns as f64 && (0.0..rows as f64).contains(&y) {
                    visit(count, (y as usize, x as usize));
                }
                count += 1;
            }
        }
    }

    /// Fraction of the width: [0, 1) inside the window, larger for longitudes outside.
    pub fn x(&self, lon_deg: f64) -> f64 {
        eastern_longitude(lon_deg - self.west_deg) / self.lon_span_deg
    }

    /// Fraction of the height from the top.
    pub fn y(&self, lat_deg: f64) -> f64 {
        (self.north_deg - lat_deg) / (self.north_deg - self.south_deg)
    }

    /// Longitude, [0, 360), at a fraction of the width.
    pub fn lon_deg(&self, x: f64) -> f64 {
        eastern_longitude(self.west_deg + x * self.lon_span_deg)
    }

    /// Latitude at a fraction of the height from the top.
    pub fn lat_deg(&self, y: f64) -> f64 {
        self.north_deg - y * (self.north_deg - self.south_deg)
    }

    /// Height of a picture with this width and equal scales on both axes; at least 1.
    pub fn height_for(&self, width: usize) -> usize {
        let ratio = (self.north_deg - self.south_deg) / self.lon_span_deg;
        ((width as f64 * ratio).round() as usize).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The whole Earth centred on a longitude.
    fn global(centre_deg: f64) -> Projection {
        Projection::showing(&LatLonGrid::global(18, 36).unwrap(), centre_deg)
    }

    #[test]
    fn the_pacific_is_whole_when_centred_on_180() {
        let map = global(180.0);
        assert_eq!(map.x(180.0), 0.5);
        assert!(map.x(120.0) < map.x(200.0) && map.x(200.0) < map.x(280.0));
        assert_eq!((map.y(90.0), map.y(0.0), map.y(-90.0)), (0.0, 0.5, 1.0));
        assert_eq!(map.height_for(720), 360);
    }

    #[test]
    fn a_regional_grid_across_the_seam_keeps_its_window() {
        let lon: Vec<f64> = (0..21).map(|i| (350.0 + f64::from(i)) % 360.0).collect();
        let lat: Vec<f64> = (0..11).map(f64::from).collect();
        let (grid, _) = LatLonGrid::from_axes(lat, lon).unwrap();
        let map = Projection::showing(&grid, 180.0);
        assert!((map.west_deg - 349.5).abs() < 1e-9 && (map.lon_span_deg - 21.0).abs() < 1e-9);
        assert!(map.x(0.0) > map.x(355.0) && map.x(9.0) < 1.0);
    }

    proptest! {
        #[test]
        fn places_round_trip(lon in 0.0f64..360.0, lat in -90.0f64..90.0, centre in 0.0f64..360.0) {
            let map = global(centre);
            let back = map.lon_deg(map.x(lon));
            let apart = (back - lon).abs();
            prop_assert!(apart < 1e-9 || (apart - 360.0).abs() < 1e-9);
            prop_assert!((map.lat_deg(map.y(lat)) - lat).abs() < 1e-9);
            prop_assert!((0.0..1.0).contains(&map.x(lon)));
        }
    }
}
