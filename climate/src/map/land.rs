//! Land and sea on a grid.

use crate::map::Coastline;
use crate::map::projection::signed_longitude;
use ndarray::Array2;
use squall_data::LatLonGrid;

/// The land cells of a grid, by their centres, and the land at single positions independent of any grid.
#[derive(Debug, Clone, PartialEq)]
pub struct LandMask {
    land: Array2<bool>,
    coastline: Coastline,
}

impl LandMask {
    /// The land of the embedded Natural Earth outlines at 1:110 million.
    ///
    /// Its points are about 80 km apart, and islands below some 10,000 km² are missing (Hawaii's Big Island is
    /// included, Guam is not). This suffices for landfall on continents and large islands on grids of a quarter of a
    /// degree and coarser. The Caspian Sea is water; other lakes are land.
    ///
    /// # Example
    /// ```
    /// use squall_climate::map::LandMask;
    /// let grid = squall_data::LatLonGrid::global(181, 360).unwrap();
    /// let land = LandMask::natural_earth(&grid);
    /// assert!(land.is_land(grid.nearest(40.0, 260.0))); // Kansas
    /// assert!(!land.is_land(grid.nearest(25.0, 270.0))); // the Gulf of Mexico
    /// ```
    pub fn natural_earth(grid: &LatLonGrid) -> Self {
        Self::of(Coastline::natural_earth(), grid)
    }

    /// The land inside the given outlines: cells whose centre is within an odd number of rings.
    pub fn of(coastline: &Coastline, grid: &LatLonGrid) -> Self {
        let mut land = Array2::from_elem(grid.shape(), false);
        let mut columns: Vec<(f64, usize)> = grid
            .lon_deg()
            .iter()
            .enumerate()
            .map(|(i, &lon)| (signed_longitude(lon), i))
            .collect();
        columns.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (mut row, &lat) in land.rows_mut().into_iter().zip(grid.lat_deg()) {
            let crossings = crossings(coastline, lat);
            for pair in crossings.chunks_exact(2) {
                let first = columns.partition_point(|&(lon, _)| lon < pair[0]);
                for &(lon, i) in &columns[first..] {
                    if lon >= pair[1] {
                        break;
                    }
                    row[i] = true;
                }
            }
        }
        Self {
            land,
            coastline: coastline.clone(),
        }
    }

    /// Whether a cell (row, column) is land.
    pub fn is_land(&self, cell: (usize, usize)) -> bool {
        self.land[cell]
    }

    /// Whether a position is land, regardless of its cell: on coarse grids, a cell may contain both.
    pub fn is_land_at(&self, lat_deg: f64, lon_deg: f64) -> bool {
        let crossings = crossings(&self.coastline, lat_deg);
        let lon_deg = signed_longitude(lon_deg);
        crossings.partition_point(|&crossing| crossing <= lon_deg) % 2 == 1
    }

    /// Number of rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        self.land.dim()
    }
}

/// Longitudes at which the rings cross a latitude, ascending; an even number, as rings are closed.
fn crossings(coastline: &Coastline, lat_deg: f64) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for ring in coastline.rings() {
        for edge in ring.windows(2) {
            let ([x1, y1], [x2, y2]) = (edge[0], edge[1]);
            // Half open, so that a vertex on the line counts once.
            if (y1 <= lat_deg) != (y2 <= lat_deg) {
                found.push(x1 + (lat_deg - y1) / (y2 - y1) * (x2 - x1));
            }
        }
    }
    found.sort_by(f64::total_cmp);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_places_and_the_share_of_the_globe() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let land = LandMask::natural_earth(&grid);
        for (lat, lon, expected) in [
            (0.0, 25.0, true),     // Congo
            (66.0, 180.0, true),   // Chukotka, on the date line
            (-24.0, 134.0, true),  // Australia
            (49.0, 2.0, true),     // Paris
            (40.0, 255.0, true),   // Denver
            (-16.0, 312.0, true),  // Brasilia
            (62.0, 130.0, true),   // Yakutsk
            (-90.0, 0.0, true),    // the South Pole
            (-89.0, 10.0, true),   // and beside it
            (-85.0, 180.0, true),  // Antarctica on the date line
            (42.0, 51.0, false),   // the Caspian sea
            (90.0, 0.0, false),    // the North Pole
            (30.0, 200.0, false),  // the North Pacific
            (-38.0, 160.0, false), // the Tasman Sea
            (10.0, 180.0, false),  // the date line
            (0.0, 0.0, false),     // the Gulf of Guinea
            (-40.0, 180.0, false), // east of New Zealand
        ] {
            assert_eq!(
                land.is_land(grid.nearest(lat, lon)),
                expected,
                "{lat} {lon}"
            );
            assert_eq!(land.is_land_at(lat, lon), expected, "{lat} {lon}");
        }
        let areas = grid.row_areas_km2();
        let cells = land.land.indexed_iter().filter(|(_, land)| **land);
        let km2: f64 = cells.map(|((j, _), _)| areas[j]).sum();
        // The Earth's land is 149 million km², with Antarctica's ice shelves some 1.5 more.
        assert!((km2 / 149e6 - 1.0).abs() < 0.03, "{km2} km²");
    }

    #[test]
    fn places_are_what_cells_around_them_are() {
        let grid = LatLonGrid::global(91, 120).unwrap();
        let land = LandMask::natural_earth(&grid);
        for ((j, i), is_land) in land.land.indexed_iter() {
            let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
            assert_eq!(land.is_land_at(lat, lon), *is_land, "{lat} {lon}");
        }
        // The mouth of the Mississippi is land, the sea next to it is not; one cell of 3.8 by 5 degrees contains both.
        let grid = LatLonGrid::global(48, 72).unwrap();
        let land = LandMask::natural_earth(&grid);
        assert_eq!(grid.nearest(29.5, 270.4), grid.nearest(28.2, 270.4));
        assert!(land.is_land_at(29.5, 270.4) && !land.is_land_at(28.2, 270.4));
    }
}
