//! Latitude-longitude grids: the only place where degrees are computed from indices.
//!
//! Letters: j row (latitude, south to north), i column (longitude, eastward from 0).

mod axes;

pub use axes::AxisOrder;

use crate::error::{DataError, Result};
use axes::{latitude_bounds, normalise_longitude};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Mean radius of the Earth, km (IUGG mean radius R1).
pub const EARTH_RADIUS_KM: f64 = 6371.0088;
/// Kilometres per degree of a great circle.
pub const KM_PER_DEGREE: f64 = EARTH_RADIUS_KM * std::f64::consts::PI / 180.0;
/// Tolerance beyond 90 degrees: the error of a pole computed as the sum of two thousand f32 steps.
const BEYOND_POLE_DEG: f64 = 3e-3;

/// A grid of latitudes (ascending) times longitudes (ascending in [0, 360), or eastward across the seam if regional).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatLonGrid {
    lat_deg: Vec<f64>,
    lon_deg: Vec<f64>,
    lat_bounds_deg: Vec<f64>,
    periodic: bool,
}

impl LatLonGrid {
    /// The global grid of a finite-volume model: rows at both poles, first column at 0°E.
    ///
    /// 768 x 1152 is CAM5's 0.25-degree grid, 192 x 288 its 1-degree grid.
    ///
    /// # Errors
    /// [`DataError::Grid`] below 4 rows or 4 columns.
    pub fn global(rows: usize, columns: usize) -> Result<Self> {
        if rows < 4 || columns < 4 {
            return Err(DataError::Grid(format!(
                "{rows} x {columns}: at least 4 x 4 is needed"
            )));
        }
        let lat = (0..rows)
            .map(|j| -90.0 + 180.0 * j as f64 / (rows - 1) as f64)
            .collect();
        let lon = (0..columns)
            .map(|i| 360.0 * i as f64 / columns as f64)
            .collect();
        Ok(Self::from_axes(lat, lon)?.0)
    }

    /// Creates a grid from two coordinate axes in any order, with the mapping from fields in that order to the grid's.
    ///
    /// # Errors
    /// [`DataError::Grid`] if an axis is not finite, not strictly monotonic (after unwrapping longitude), out of
    /// range, shorter than 2, or if longitudes cover more than a full circle.
    pub fn from_axes(mut lat: Vec<f64>, lon: Vec<f64>) -> Result<(Self, AxisOrder)> {
        let mut order = AxisOrder::default();
        if lat.len() < 2 || lon.len() < 2 {
            return Err(DataError::Grid(format!(
                "{} latitudes, {} longitudes: too few",
                lat.len(),
                lon.len()
            )));
        }
        if lat[0] > lat[1] {
            lat.reverse();
            order.flip_lat = true;
        }
        let rises = |axis: &[f64]| axis.windows(2).all(|w| w[1] > w[0]);
        let in_range = |&v: &f64| v.is_finite() && v.abs() <= 90.0 + BEYOND_POLE_DEG;
        let is_known = lat.iter().all(in_range);
        lat.iter_mut().for_each(|v| *v = v.clamp(-90.0, 90.0));
        if !is_known || !rises(&lat) {
            return Err(DataError::Grid(
                "latitude is not strictly monotonic within [-90, 90]".into(),
            ));
        }
        let (lon, periodic) = normalise_longitude(lon, &mut order)?;
        let lat_bounds_deg = latitude_bounds(&lat);
        Ok((
            Self {
                lat_deg: lat,
                lon_deg: lon,
                lat_bounds_deg,
                periodic,
            },
            order,
        ))
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.lat_deg.len(), self.lon_deg.len())
    }

    /// Latitudes of the rows, south to north.
    pub fn lat_deg(&self) -> &[f64] {
        &self.lat_deg
    }

    /// Longitudes of the columns, in [0, 360).
    pub fn lon_deg(&self) -> &[f64] {
        &self.lon_deg
    }

    /// Edges of the rows: one more than rows, closed at the poles if the grid reaches them.
    pub fn lat_bounds_deg(&self) -> &[f64] {
        &self.lat_bounds_deg
    }

    /// Whether the grid spans all longitudes, so that the first column follows the last.
    pub fn is_periodic(&self) -> bool {
        self.periodic
    }

    /// Whether the grid spans all longitudes, and latitudes to within a degree of both poles or to a row and a half from
    /// them: those of coarse Gaussian grids, or without the poles themselves.
    pub fn is_global(&self) -> bool {
        let (bounds, lat) = (&self.lat_bounds_deg, &self.lat_deg);
        // Axes in files are rounded.
        let near_deg = 1.5 * self.lat_spacing_deg() + 1e-3;
        let reaches = |edge: f64, row: f64| edge > 89.0 || row + near_deg > 90.0;
        self.periodic
            && reaches(-bounds[0], -lat[0])
            && reaches(bounds[bounds.len() - 1], lat[lat.len() - 1])
    }

    /// Mean distance between rows, degrees.
    pub fn lat_spacing_deg(&self) -> f64 {
        (self.lat_deg[self.lat_deg.len() - 1] - self.lat_deg[0]) / (self.lat_deg.len() - 1) as f64
    }

    /// Mean distance between columns in degrees: in files of f32 the difference of two neighbouring columns has
    /// rounding errors.
    pub fn lon_spacing_deg(&self) -> f64 {
        let columns = self.lon_deg.len();
        if self.periodic {
            360.0 / columns as f64
        } else {
            eastern_longitude(self.lon_deg[columns - 1] - self.lon_deg[0]) / (columns - 1) as f64
        }
    }

    /// The resolution in km: the mean distance between rows.
    pub fn spacing_km(&self) -> f64 {
        self.lat_spacing_deg() * KM_PER_DEGREE
    }

    /// Area of one cell of row `j` on the sphere, km²: R² Δλ (sin φ₂ − sin φ₁).
    pub fn cell_area_km2(&self, j: usize) -> f64 {
        let south = self.lat_bounds_deg[j].to_radians().sin();
        let north = self.lat_bounds_deg[j + 1].to_radians().sin();
        EARTH_RADIUS_KM.powi(2) * self.lon_spacing_deg().to_radians() * (north - south)
    }

    /// [`Self::cell_area_km2`] of every row.
    pub fn row_areas_km2(&self) -> Vec<f64> {
        (0..self.lat_deg.len())
            .map(|j| self.cell_area_km2(j))
            .collect()
    }

    /// The column `steps` east of `i` (west if negative); `None` past the edge of a regional grid.
    pub fn column(&self, i: usize, steps: isize) -> Option<usize> {
        let columns = self.lon_deg.len() as isize;
        let moved = i as isize + steps;
        if self.periodic {
            Some(moved.rem_euclid(columns) as usize)
        } else {
            (0..columns).contains(&moved).then_some(moved as usize)
        }
    }

    /// The up to eight neighbours of a cell: longitude wraps if the grid does, poles are closed.
    pub fn neighbours8(&self, j: usize, i: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let rows = self.lat_deg.len() as isize;
        (-1..=1isize)
            .flat_map(move |dj| (-1..=1isize).map(move |di| (dj, di)))
            .filter_map(move |(dj, di)| {
                let row = j as isize + dj;
                if (dj, di) == (0, 0) || !(0..rows).contains(&row) {
                    return None;
                }
                Some((row as usize, self.column(i, di)?))
            })
    }

    /// The cell whose centre is nearest in latitude and in longitude.
    pub fn nearest(&self, lat_deg: f64, lon_deg: f64) -> (usize, usize) {
        let closest = |axis: &[f64], distance: &dyn Fn(f64) -> f64| {
            let by_distance =
                |a: &usize, b: &usize| distance(axis[*a]).total_cmp(&distance(axis[*b]));
            (0..axis.len()).min_by(by_distance).unwrap_or(0)
        };
        let j = closest(&self.lat_deg, &|lat| (lat - lat_deg).abs());
        let i = closest(&self.lon_deg, &|lon| lon_difference_deg(lon, lon_deg).abs());
        (j, i)
    }

    /// The area-weighted mean position of cells `(row, column)` on the sphere, (°N, °E in [0, 360)). If cells balance
    /// each other around the whole globe, the position of the first; without cells, `None`.
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
        let lon = eastern_longitude(y.atan2(x).to_degrees());
        Some(((z / length).clamp(-1.0, 1.0).asin().to_degrees(), lon))
    }

    /// Whether both grids have the same positions, within a thousandth of the grid spacing: one file may store f32
    /// axes, another f64.
    pub fn same_as(&self, other: &Self) -> bool {
        let near = |step: f64| move |(a, b): (&f64, &f64)| (a - b).abs() < 1e-3 * step;
        self.shape() == other.shape()
            && self.periodic == other.periodic
            && (self.lat_deg.iter().zip(&other.lat_deg)).all(near(self.lat_spacing_deg()))
            && (self.lon_deg.iter().zip(&other.lon_deg)).all(near(self.lon_spacing_deg()))
    }

    /// A short hash of the coordinates for distinguishing grids. Use [`Self::same_as`] to compare them: grids that
    /// differ only by rounding may have different hashes.
    pub fn hash(&self) -> u64 {
        let values = self.lat_deg.iter().chain(&self.lon_deg);
        // Rounded, so that f32 and f64 axes agree except at rounding boundaries.
        let bytes: Vec<u8> = values
            .flat_map(|v| ((v * 1e4).round() as i64).to_le_bytes())
            .collect();
        xxh3_64(&bytes)
    }

    /// A description such as `192 x 288 (0.94 x 1.25 degrees), global`.
    pub fn describe(&self) -> String {
        let (rows, columns) = self.shape();
        let extent = if self.is_global() {
            "global".to_string()
        } else {
            let (south, north) = (self.lat_deg[0], self.lat_deg[rows - 1]);
            let (west, east) = (self.lon_deg[0], self.lon_deg[columns - 1]);
            format!("{south:.1}..{north:.1}N {west:.1}..{east:.1}E")
        };
        format!(
            "{rows} x {columns} ({:.2} x {:.2} degrees), {extent}",
            self.lat_spacing_deg(),
            self.lon_spacing_deg()
        )
    }

    /// [`Self::describe`] for this grid and another; if the texts are equal, adds the first coordinate that differs.
    pub fn describe_beside(&self, other: &Self) -> [String; 2] {
        let [own, others] = [self.describe(), other.describe()];
        if own != others {
            return [own, others];
        }
        let lat = (self.lat_spacing_deg(), &self.lat_deg, &other.lat_deg);
        let lon = (self.lon_spacing_deg(), &self.lon_deg, &other.lon_deg);
        for (axis, (step, a, b)) in [("latitude", lat), ("longitude", lon)] {
            let apart = |(a, b): (&f64, &f64)| (a - b).abs() >= 1e-3 * step;
            if let Some(at) = a.iter().zip(b).position(apart) {
                let told = |words: String, axis_deg: &[f64]| {
                    format!("{words}, {axis} {} at {:.4}", at + 1, axis_deg[at])
                };
                return [told(own, a), told(others, b)];
            }
        }
        [own, others]
    }
}

/// Great-circle distance in km (haversine).
pub fn distance_km(lat1_deg: f64, lon1_deg: f64, lat2_deg: f64, lon2_deg: f64) -> f64 {
    let (p1, p2) = (lat1_deg.to_radians(), lat2_deg.to_radians());
    let half_lat = ((p2 - p1) / 2.0).sin();
    let half_lon = ((lon2_deg - lon1_deg).to_radians() / 2.0).sin();
    let h = half_lat.powi(2) + p1.cos() * p2.cos() * half_lon.powi(2);
    2.0 * EARTH_RADIUS_KM * h.sqrt().min(1.0).asin()
}

/// `a - b` of two longitudes, in [-180, 180).
pub fn lon_difference_deg(a: f64, b: f64) -> f64 {
    let x = a - b + 180.0;
    // Same bits as the remainder, which is slow, for longitudes less than a circle apart.
    let wrapped = match x {
        0.0..360.0 => x,
        360.0..720.0 => x - 360.0,
        -360.0..0.0 => x + 360.0,
        _ => x.rem_euclid(360.0),
    };
    wrapped - 180.0
}

/// A longitude, or a distance eastward, in [0, 360).
///
/// # Example
/// The bare remainder of a tiny negative number would be 360 itself.
/// ```
/// use squall_data::grid::eastern_longitude;
/// assert_eq!([-90.0, 360.0, -1e-17].map(eastern_longitude), [270.0, 0.0, 0.0]);
/// assert!(eastern_longitude(f64::NAN).is_nan());
/// ```
pub fn eastern_longitude(lon_deg: f64) -> f64 {
    wrapped(lon_deg, 360.0)
}

/// `x` modulo `circle`, such as a longitude on 360 degrees, or a column on the number of columns.
pub(crate) fn wrapped(x: f64, circle: f64) -> f64 {
    let x = x.rem_euclid(circle);
    // The remainder of a tiny negative number rounds to `circle` itself.
    if x >= circle { 0.0 } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Latitudes of 0.25 degrees, eight of which rounded to 1e-4 fall on the other side as f32.
    #[test]
    fn axes_stored_as_f32_and_as_f64_are_one_grid() {
        for (rows, columns) in [(768, 1152), (192, 288), (640, 1280)] {
            let grid = LatLonGrid::global(rows, columns).unwrap();
            let rounded = |axis: &[f64]| axis.iter().map(|v| f64::from(*v as f32)).collect();
            let (lat, lon) = (rounded(grid.lat_deg()), rounded(grid.lon_deg()));
            let stored = LatLonGrid::from_axes(lat, lon).unwrap().0;
            assert!(stored != grid && stored.same_as(&grid));
        }
        let grid = LatLonGrid::global(8, 16).unwrap();
        assert!(!grid.same_as(&LatLonGrid::global(8, 18).unwrap()));
        let mut lat = grid.lat_deg().to_vec();
        lat[3] += 0.1;
        let moved = LatLonGrid::from_axes(lat, grid.lon_deg().to_vec())
            .unwrap()
            .0;
        assert!(!grid.same_as(&moved) && grid.hash() != moved.hash());
        // "expected 8 x 16 ..., found 8 x 16 ..." had been the same words twice.
        let [expected, found] = grid.describe_beside(&moved);
        assert_ne!(expected, found);
        assert!(found.starts_with(&grid.describe()), "{found}");
        assert!(found.contains(" at "), "{found}");
        let [expected, found] = grid.describe_beside(&grid);
        assert_eq!([&expected, &found], [&grid.describe(); 2]);
    }

    /// Rows from 88 degrees south to 88 north, and those of T21, had been a part of the globe.
    #[test]
    fn a_grid_without_rows_at_the_poles_is_global_and_one_of_some_latitudes_is_not() {
        let is_global = |first: f64, rows: usize, columns: usize| {
            let step = -2.0 * first / (rows - 1) as f64;
            let lat = (0..rows).map(|j| first + step * j as f64).collect();
            let lon = (0..columns).map(|i| 2.0 * i as f64).collect();
            let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
            assert_eq!(grid.describe().ends_with("global"), grid.is_global());
            grid.is_global()
        };
        assert!(is_global(-90.0, 91, 180) && is_global(-89.0, 90, 180));
        assert!(is_global(-88.0, 89, 180) && is_global(-85.7606, 32, 180));
        assert!(!is_global(-85.0, 86, 180) && !is_global(-30.0, 31, 180));
        assert!(!is_global(-90.0, 91, 120), "a part of all longitudes");
    }

    /// Steps of 650 rows, added up in f32, end at 90.0006 degrees: such grids had been refused.
    #[test]
    fn a_pole_that_is_beyond_itself_for_rounding_is_the_pole() {
        let step = 180.0_f32 / 649.0;
        let rows = std::iter::successors(Some(-90.0_f32), |lat| Some(lat + step));
        let mut lat: Vec<f64> = rows.take(650).map(f64::from).collect();
        assert!(lat[649] > 90.0005, "{}", lat[649]);
        let lon: Vec<f64> = (0..8).map(|i| 45.0 * f64::from(i)).collect();
        for _ in 0..2 {
            let (grid, _) = LatLonGrid::from_axes(lat.clone(), lon.clone()).unwrap();
            assert_eq!((grid.lat_deg()[0], grid.lat_deg()[649]), (-90.0, 90.0));
            lat.reverse();
        }
        for lat in [vec![0.0, 90.01], vec![0.0, 90.0, 90.001]] {
            assert!(LatLonGrid::from_axes(lat, lon.clone()).is_err());
        }
    }

    /// The first two columns are 0.2 % closer than the others: areas would be, and the last column lie one column off.
    #[test]
    fn fine_columns_of_a_region_in_f32_are_as_far_apart_as_they_are() {
        let lon: Vec<f64> = (0..500)
            .map(|i| f64::from((300.01 + 0.01 * f64::from(i)) as f32))
            .collect();
        let lat = (0..4).map(|j| 0.01 * f64::from(j)).collect();
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        assert!((grid.lon_spacing_deg() / 0.01 - 1.0).abs() < 1e-5);
        let lon = (0..20).map(|i| 350.0 + f64::from(i)).collect();
        let over_the_seam = LatLonGrid::from_axes(vec![0.0, 1.0], lon).unwrap().0;
        assert_eq!(over_the_seam.lon_spacing_deg(), 1.0);
    }

    #[test]
    fn differences_of_longitudes_are_remainders() {
        let near = [-360.0, -180.0, 0.0, 180.0, 360.0, 540.0].map(|edge: f64| {
            let apart = edge - 180.0;
            [apart, apart.next_down(), apart.next_up(), apart - 1e-9]
        });
        let far = (-2000..2000).map(|k| f64::from(k) * 0.731_058_5);
        for a in far.chain(near.into_iter().flatten()) {
            for b in [0.0, 17.3, 359.9] {
                let expected = (a - b + 180.0).rem_euclid(360.0) - 180.0;
                assert_eq!(lon_difference_deg(a, b), expected, "{a} - {b}");
            }
        }
        assert_eq!(lon_difference_deg(350.0, 20.0), -30.0);
        assert_eq!(lon_difference_deg(20.0, 350.0), 30.0);
        assert_eq!(lon_difference_deg(200.0, 20.0), -180.0);
    }

    #[test]
    fn areas_add_up_to_the_sphere() {
        for (rows, columns) in [(4, 4), (73, 144), (192, 288), (768, 1152)] {
            let grid = LatLonGrid::global(rows, columns).unwrap();
            let total: f64 = grid.row_areas_km2().iter().sum::<f64>() * columns as f64;
            let sphere = 4.0 * std::f64::consts::PI * EARTH_RADIUS_KM.powi(2);
            approx::assert_relative_eq!(total, sphere, max_relative = 1e-9);
        }
    }

    /// The cosine of the angle is sin φ₁ sin φ₂ + cos φ₁ cos φ₂ cos Δλ.
    #[test]
    fn distances_are_those_of_great_circles() {
        for (from, to, angle_deg) in [
            ((0.0, 350.0), (0.0, 20.0), 30.0),
            ((10.0, 40.0), (-35.0, 40.0), 45.0),
            // Over the pole.
            ((60.0, 10.0), (60.0, 190.0), 60.0),
            // The cosines are 3/4 and, with 1/2 and 1/2 at 45 degrees, 3/4 again.
            ((60.0, 0.0), (60.0, 90.0), 0.75f64.acos().to_degrees()),
            ((45.0, 330.0), (45.0, 30.0), 0.75f64.acos().to_degrees()),
            ((90.0, 0.0), (-90.0, 77.0), 180.0),
        ] {
            let found = distance_km(from.0, from.1, to.0, to.1);
            let expected = angle_deg * KM_PER_DEGREE;
            assert!((found / expected - 1.0).abs() < 1e-9, "{from:?} {to:?}");
        }
        // A quarter of a meridian of a sphere of 6371.0088 km.
        assert!((distance_km(0.0, 5.0, 90.0, 5.0) - 10_007.557).abs() < 1e-3);
    }

    #[test]
    fn the_nearest_cell_may_lie_across_the_seam_and_at_a_pole() {
        let grid = LatLonGrid::global(19, 36).unwrap();
        for (lat, lon, cell) in [
            (4.0, 356.0, (9, 0)),
            (6.0, 354.0, (10, 35)),
            (-89.0, 180.0, (0, 18)),
            (86.0, 14.0, (18, 1)),
        ] {
            assert_eq!(grid.nearest(lat, lon), cell, "{lat} {lon}");
        }
    }

    proptest! {
        #[test]
        fn distance_is_a_metric(a in -90.0..90.0f64, b in 0.0..360.0f64, c in -90.0..90.0f64, d in 0.0..360.0f64) {
            let there = distance_km(a, b, c, d);
            prop_assert!((there - distance_km(c, d, a, b)).abs() < 1e-6);
            prop_assert!(there <= std::f64::consts::PI * EARTH_RADIUS_KM + 1e-6);
            prop_assert!((there - distance_km(a, b + 360.0, c, d)).abs() < 1e-6);
        }

        #[test]
        fn neighbours_are_mutual(j in 0usize..12, i in 0usize..16) {
            let grid = LatLonGrid::global(12, 16).unwrap();
            for (nj, ni) in grid.neighbours8(j, i) {
                prop_assert!(grid.neighbours8(nj, ni).any(|cell| cell == (j, i)));
            }
        }
    }

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
        // One cell at the equator and one at 60N, which has half the area: tan φ = sin 60° / 2 / (1 + cos 60° / 2).
        let coarse = LatLonGrid::global(19, 36).unwrap();
        let (lat, lon) = (coarse.centroid(&[(9, 4), (15, 4)], &coarse.row_areas_km2())).unwrap();
        let expected = (3f64.sqrt() / 4.0).atan2(1.25).to_degrees();
        assert!(
            (lat - expected).abs() < 1e-9 && (lon - 40.0).abs() < 1e-9,
            "{lat} {lon}"
        );
        let row: Vec<(usize, usize)> = (0..72).map(|i| (30, i)).collect();
        let (lat, _) = grid.centroid(&row, &areas).unwrap();
        assert!((lat - 90.0).abs() < 1e-6, "the pole is its middle: {lat}");
    }
}
