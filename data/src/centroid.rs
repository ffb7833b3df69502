//! The middle of a patch of cells.

use crate::LatLonGrid;

impl LatLonGrid {
    /// The mean place of cells `(row, column)` on the sphere, (°N, °E in [0, 360)), each by its area; of cells that
    /// balance each other around the whole globe the place of the first, of none nothing.
    ///
    /// `row_areas_km2` is [`LatLonGrid::row_areas_km2`].
    pub fn centroid(&self, cells: &[(usize, usize)], row_areas_km2: &[f64]) -> Option<(f64, f64)> {
        let &(first_j, first_i) = cells.first()?;
        let (mut x, mut y, mut z, mut total) = (0.0, 0.0, 0.0, 0.0);
        for &(j, i) in cells {
            let (lat, lon) = (
                self.lat_deg()[j].to_radians(),
                self.lon_deg()[i].to_radians(),
            );
            let weight = row_areas_km2[j];
            x += weight * lat.cos() * lon.cos();
            y += weight * lat.cos() * lon.sin();
            z += weight * lat.sin();
            total += weight;
        }
        let length = (x * x + y * y + z * z).sqrt();
        if length < 1e-9 * total || total == 0.0 {
            return Some((self.lat_deg()[first_j], self.lon_deg()[first_i]));
        }
        let lon = y.atan2(x).to_degrees().rem_euclid(360.0);
        // rem_euclid of a tiny negative angle rounds to 360 itself.
        let lon = if lon >= 360.0 { 0.0 } else { lon };
        Some(((z / length).clamp(-1.0, 1.0).asin().to_degrees(), lon))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_have_their_middle_across_the_date_line_and_none_if_they_are_empty() {
        let grid = LatLonGrid::global(48, 72).unwrap();
        let areas = grid.row_areas_km2();
        assert_eq!(grid.centroid(&[], &areas), None);
        let (lat, lon) = grid.centroid(&[(30, 71), (30, 0)], &areas).unwrap();
        let between = 0.5 * (grid.lon_deg()[71] + grid.lon_deg()[0] + 360.0) % 360.0;
        assert!((lon - between).abs() < 1e-9, "{lon}");
        // The great circle between two cells of a row runs nearer to the pole.
        assert!((lat - grid.lat_deg()[30]).abs() < 0.1, "{lat}");
        let row: Vec<(usize, usize)> = (0..72).map(|i| (30, i)).collect();
        let (lat, _) = grid.centroid(&row, &areas).unwrap();
        assert!((lat - 90.0).abs() < 1e-6, "the pole is its middle: {lat}");
    }
}
