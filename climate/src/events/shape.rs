//! Position, length and width of a region on the sphere, independent of the seam.
//!
//! Positions are unit vectors, so longitudes are never averaged. Axes are computed in the azimuthal equidistant plane
//! about the centroid; lengths are great-circle distances.

use crate::events::components::Region;
use squall_data::LatLonGrid;
use squall_data::grid::{EARTH_RADIUS_KM, distance_km, eastern_longitude};

/// Size, position and axes of a region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Area on the sphere, km².
    pub area_km2: f64,
    /// Longitude of the centroid, [0, 360).
    pub lon_deg: f64,
    /// Latitude of the centroid.
    pub lat_deg: f64,
    /// Length along the curved axis, km.
    pub length_km: f64,
    /// Area divided by length, km.
    pub width_km: f64,
    /// Major axis at the centroid, degrees anticlockwise from east, in [0, 180).
    pub orientation_deg: f64,
}

/// Returns the western, southern, eastern and northern edges of the outermost cells of a region.
///
/// The box covers the shortest arc of longitude that contains the region, eastward from west to east; it crosses the
/// seam if `west > east`. For a region around the globe the eastern edge is 0.001 degrees short of the western one, to
/// distinguish it from an empty box.
pub fn bounding_box_deg(region: &Region, grid: &LatLonGrid) -> [f64; 4] {
    let columns = grid.shape().1;
    let mut used = vec![false; columns];
    for run in &region.runs {
        used[run.first as usize..run.end as usize].fill(true);
    }
    let (first, last) = occupied_arc(&used, grid.is_periodic());
    let half = grid.lon_spacing_deg() / 2.0;
    let west = grid.lon_deg()[first] - half;
    let mut east = grid.lon_deg()[last] + half;
    if grid.is_periodic() && used.iter().all(|&u| u) {
        east = west - 0.001;
    }
    let row = |pick: fn(u32, u32) -> u32| region.runs.iter().map(|r| r.row).reduce(pick);
    let south = row(u32::min).unwrap_or(0) as usize;
    let north = row(u32::max).unwrap_or(0) as usize;
    [
        eastern_longitude(west),
        grid.lat_bounds_deg()[south],
        eastern_longitude(east),
        grid.lat_bounds_deg()[north + 1],
    ]
}

/// First and last column of the shortest arc that contains all used columns: the complement of the widest gap.
fn occupied_arc(used: &[bool], periodic: bool) -> (usize, usize) {
    let columns: Vec<usize> = (0..used.len()).filter(|&i| used[i]).collect();
    let (Some(&first), Some(&last)) = (columns.first(), columns.last()) else {
        return (0, 0);
    };
    if !periodic {
        return (first, last);
    }
    // The gap across the seam, unless a gap inside is wider.
    let mut best = (first + used.len() - last, first, last);
    for pair in columns.windows(2) {
        if pair[1] - pair[0] > best.0 {
            best = (pair[1] - pair[0], pair[1], pair[0]);
        }
    }
    (best.1, best.2)
}

/// Measures a region.
///
/// - *Centroid*: area-weighted mean of the cells' unit vectors, projected back to the sphere. (A belt around the globe
///   has no such mean; the region's first cell replaces it.)
/// - *Axes*: principal axes of the cells in the azimuthal equidistant plane about the centroid, area-weighted.
/// - *Length*: the region is cut across the major axis into slices about two cells thick (at most 24). The length is
///   that of the great-circle polyline through the slices' centroids, plus straight ends to the edges of the outermost
///   cells. A straight rectangle gives its length, a disc its diameter, a bow more than its chord. An arc that turns by
///   more than half a circle is measured too short: where it runs across the axis, a slice holds a part of it
///   lengthwise, as one point.
/// - *Width*: area divided by length.
pub fn measure(region: &Region, grid: &LatLonGrid, row_areas_km2: &[f64]) -> Shape {
    let cells: Vec<(usize, usize)> = region.indices().collect();
    let area_km2 = region.area_km2(row_areas_km2);
    let (lat_deg, lon_deg) = (grid.centroid(&cells, row_areas_km2)).unwrap_or_default();
    let plane = TangentPlane::new(lat_deg, lon_deg);
    let points: Vec<[f64; 3]> = cells
        .iter()
        .map(|&(j, i)| {
            let (east, north) = plane.project(grid.lat_deg()[j], grid.lon_deg()[i]);
            [east, north, row_areas_km2[j]]
        })
        .collect();
    let angle = major_axis(&points);
    let slice_km = 2.0 * grid.spacing_km();
    let length_km = curved_length(&points, angle, slice_km, cell_reach(&cells, grid), &plane);
    let turned = angle.to_degrees().rem_euclid(180.0);
    Shape {
        area_km2,
        lon_deg,
        lat_deg,
        length_km,
        width_km: area_km2 / length_km,
        // The remainder of a tiny negative angle rounds to 180 itself.
        orientation_deg: if turned < 180.0 { turned } else { 0.0 },
    }
}

/// Half extents of the largest cell, km: (east, north).
fn cell_reach(cells: &[(usize, usize)], grid: &LatLonGrid) -> (f64, f64) {
    let widest = cells
        .iter()
        .map(|&(j, _)| grid.lat_deg()[j].to_radians().cos())
        .fold(0.0, f64::max);
    let north = grid.spacing_km() / 2.0;
    // Cells centred on a pole extend half a row in every direction.
    let east = if widest < 1e-9 {
        north
    } else {
        grid.lon_spacing_deg().to_radians() * EARTH_RADIUS_KM * widest / 2.0
    };
    (east, north)
}

/// Direction of the larger principal axis, radians anticlockwise from east.
fn major_axis(points: &[[f64; 3]]) -> f64 {
    let total: f64 = points.iter().map(|p| p[2]).sum();
    let mean = |axis: usize| points.iter().map(|p| p[axis] * p[2]).sum::<f64>() / total;
    let (mean_east, mean_north) = (mean(0), mean(1));
    let (mut ee, mut en, mut nn) = (0.0, 0.0, 0.0);
    for &[east, north, weight] in points {
        let (e, n) = (east - mean_east, north - mean_north);
        ee += weight * e * e;
        en += weight * e * n;
        nn += weight * n * n;
    }
    0.5 * (2.0 * en).atan2(ee - nn)
}

fn curved_length(
    points: &[[f64; 3]],
    angle: f64,
    slice_km: f64,
    reach: (f64, f64),
    plane: &TangentPlane,
) -> f64 {
    let (sin, cos) = angle.sin_cos();
    let along = |p: &[f64; 3]| p[0] * cos + p[1] * sin;
    let low = points.iter().map(along).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(along).fold(f64::NEG_INFINITY, f64::max);
    // Distance from a cell's centre to its edge in the direction of the axis.
    let margin = (reach.0 * cos.abs()).max(reach.1 * sin.abs());
    let slices = (((high - low) / slice_km) as usize).clamp(1, 24);
    let mut sums = vec![[0.0; 3]; slices];
    for p in points {
        let slice = ((along(p) - low) / (high - low).max(1e-9) * slices as f64) as usize;
        let sum = &mut sums[slice.min(slices - 1)];
        sum[0] += p[0] * p[2];
        sum[1] += p[1] * p[2];
        sum[2] += p[2];
    }
    let line: Vec<[f64; 3]> = sums
        .iter()
        .filter(|s| s[2] > 0.0)
        .map(|s| [s[0] / s[2], s[1] / s[2], 0.0])
        .collect();
    let bends: f64 = line
        .windows(2)
        .map(|pair| {
            let (lat1, lon1) = plane.unproject(pair[0][0], pair[0][1]);
            let (lat2, lon2) = plane.unproject(pair[1][0], pair[1][1]);
            distance_km(lat1, lon1, lat2, lon2)
        })
        .sum();
    let ends = match (line.first(), line.last()) {
        (Some(first), Some(last)) => (along(first) - low) + (high - along(last)),
        _ => 0.0,
    };
    bends + ends + 2.0 * margin
}

/// The azimuthal equidistant plane about a point: distances and directions from the point are true.
///
/// Source: Snyder 1987, "Map projections: a working manual", USGS PP 1395, equations 5-3, 22-4, 22-5, 20-14, 20-15.
#[derive(Debug, Clone, Copy)]
pub struct TangentPlane {
    sin_lat: f64,
    cos_lat: f64,
    lat_deg: f64,
    lon_deg: f64,
}

impl TangentPlane {
    /// The plane tangent to the sphere at a point.
    pub fn new(lat_deg: f64, lon_deg: f64) -> Self {
        let (sin_lat, cos_lat) = lat_deg.to_radians().sin_cos();
        Self {
            sin_lat,
            cos_lat,
            lat_deg,
            lon_deg,
        }
    }

    /// Kilometres east and north of the point of tangency.
    pub fn project(&self, lat_deg: f64, lon_deg: f64) -> (f64, f64) {
        let (sin_lat, cos_lat) = lat_deg.to_radians().sin_cos();
        let (sin_lon, cos_lon) = (lon_deg - self.lon_deg).to_radians().sin_cos();
        let east = cos_lat * sin_lon;
        let north = self.cos_lat * sin_lat - self.sin_lat * cos_lat * cos_lon;
        let sine = east.hypot(north);
        let cosine = self.sin_lat * sin_lat + self.cos_lat * cos_lat * cos_lon;
        let stretch = if sine < 1e-12 {
            if cosine < 0.0 {
                // The antipode lies in every direction; choose north.
                return (0.0, std::f64::consts::PI * EARTH_RADIUS_KM);
            }
            1.0
        } else {
            sine.atan2(cosine) / sine
        };
        (
            EARTH_RADIUS_KM * stretch * east,
            EARTH_RADIUS_KM * stretch * north,
        )
    }

    /// Latitude and longitude of a point given by kilometres east and north.
    pub fn unproject(&self, east_km: f64, north_km: f64) -> (f64, f64) {
        let distance = east_km.hypot(north_km);
        if distance < 1e-9 {
            return (self.lat_deg, self.lon_deg);
        }
        let (sin_c, cos_c) = (distance / EARTH_RADIUS_KM).sin_cos();
        let sin_lat = cos_c * self.sin_lat + north_km / distance * sin_c * self.cos_lat;
        let lon = (east_km * sin_c)
            .atan2(distance * self.cos_lat * cos_c - north_km * self.sin_lat * sin_c);
        (
            sin_lat.clamp(-1.0, 1.0).asin().to_degrees(),
            eastern_longitude(self.lon_deg + lon.to_degrees()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Run, regions};
    use ndarray::Array2;
    use proptest::prelude::*;
    use squall_data::Class;
    use squall_data::grid::KM_PER_DEGREE;

    fn grid() -> LatLonGrid {
        LatLonGrid::global(361, 720).unwrap()
    }

    fn painted(grid: &LatLonGrid, inside: impl Fn(f64, f64) -> bool) -> Region {
        let codes = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            u8::from(inside(grid.lat_deg()[j], grid.lon_deg()[i])) * 2
        });
        let mut found = regions(codes.view(), grid).unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    /// It was 360.
    #[test]
    fn a_point_just_west_of_the_meridian_has_a_longitude_below_360() {
        let plane = TangentPlane::new(20.0, 0.0);
        assert_eq!(plane.unproject(-1e-17, 100.0).1, 0.0);
    }

    #[test]
    fn a_disc_has_its_centre_area_and_diameter() {
        let grid = grid();
        // A spherical cap of angular radius 5 degrees has area 2πR²(1 − cos 5°); also across the seam and near the
        // pole. Centres are off the grid points, since many cells would otherwise lie exactly on the edge.
        for (lat, lon) in [(12.13, 0.31), (-50.1, 180.1), (84.05, 359.8)] {
            let radius_km = 5f64.to_radians() * EARTH_RADIUS_KM;
            let cap = painted(&grid, |a, b| distance_km(lat, lon, a, b) < radius_km);
            let shape = measure(&cap, &grid, &grid.row_areas_km2());
            let area =
                std::f64::consts::TAU * EARTH_RADIUS_KM.powi(2) * (1.0 - 5f64.to_radians().cos());
            assert!((shape.area_km2 / area - 1.0).abs() < 0.02, "{shape:?}");
            assert!(distance_km(lat, lon, shape.lat_deg, shape.lon_deg) < 20.0);
            assert!((shape.length_km / (2.0 * radius_km) - 1.0).abs() < 0.06);
        }
    }

    #[test]
    fn a_filament_has_its_length_width_and_tilt() {
        let grid = grid();
        // 4,000 km x 500 km around 40N 2E, tilted 30 degrees anticlockwise from east, across the seam.
        let plane = TangentPlane::new(40.0, 2.0);
        let (sin, cos) = 30f64.to_radians().sin_cos();
        let filament = painted(&grid, |lat, lon| {
            let (e, n) = plane.project(lat, lon);
            (e * cos + n * sin).abs() < 2000.0 && (n * cos - e * sin).abs() < 250.0
        });
        let shape = measure(&filament, &grid, &grid.row_areas_km2());
        assert!((shape.orientation_deg - 30.0).abs() < 1.0, "{shape:?}");
        assert!((shape.length_km - 4000.0).abs() < 120.0, "{shape:?}");
        assert!((shape.width_km - 500.0).abs() < 30.0, "{shape:?}");
        let [west, _, east, _] = bounding_box_deg(&filament, &grid);
        assert!(west > 330.0 && east < 30.0, "{west} {east}");
    }

    #[test]
    fn a_bow_is_longer_than_its_chord() {
        let grid = grid();
        // A half ring of radius 1,500 km and width 300 km: the middle line is π 1,500 km, the chord 3,000 km. Slices
        // across the chord follow the line except at the ends, where it turns back.
        let plane = TangentPlane::new(20.0, 200.0);
        let bow = painted(&grid, |lat, lon| {
            let (e, n) = plane.project(lat, lon);
            n > 0.0 && (e.hypot(n) - 1500.0).abs() < 150.0
        });
        let shape = measure(&bow, &grid, &grid.row_areas_km2());
        let line = std::f64::consts::PI * 1500.0;
        assert!(
            shape.length_km > 0.8 * line && shape.length_km < 1.05 * line,
            "{shape:?}"
        );
    }

    /// docs/events.md gives these errors.
    #[test]
    fn an_arc_is_measured_too_short_beyond_half_a_circle() {
        let grid = grid();
        let plane = TangentPlane::new(45.0, 200.0);
        for (turn_deg, percent) in [
            (150.0, -2.0..5.0),
            (180.0, -6.0..-1.0),
            (210.0, -13.0..-8.0),
            (240.0, -20.0..-16.0),
        ] {
            let arc = painted(&grid, |lat, lon| {
                let (e, n) = plane.project(lat, lon);
                (e.hypot(n) - 1500.0).abs() < 200.0
                    && e.atan2(n).abs().to_degrees() < turn_deg / 2.0
            });
            // The middle line is part of a circle on the sphere.
            let radius_km = EARTH_RADIUS_KM * (1500.0 / EARTH_RADIUS_KM).sin();
            let line_km = f64::to_radians(turn_deg) * radius_km;
            let length_km = measure(&arc, &grid, &grid.row_areas_km2()).length_km;
            let error = 100.0 * (length_km / line_km - 1.0);
            assert!(percent.contains(&error), "{turn_deg} degrees: {error} %");
        }
    }

    #[test]
    fn a_belt_around_the_globe_is_boxed() {
        let grid = grid();
        let belt = painted(&grid, |lat, _| lat.abs() < 2.1);
        let [west, south, east, north] = bounding_box_deg(&belt, &grid);
        assert!((west - 359.75).abs() < 1e-9 && (east - 359.749).abs() < 1e-9);
        assert!((south + 2.25).abs() < 1e-9 && (north - 2.25).abs() < 1e-9);
        assert!(
            measure(&belt, &grid, &grid.row_areas_km2())
                .length_km
                .is_finite()
        );
    }

    #[test]
    fn boxes_end_at_the_edges_of_the_outermost_cells() {
        let run = |row, first, end| Run { row, first, end };
        let check = |grid: &LatLonGrid, runs: Vec<Run>, expected: [f64; 4]| {
            let class = Class::AtmosphericRiver;
            let found = bounding_box_deg(&Region { class, runs }, grid);
            let off = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-9;
            let wrong = found.iter().zip(&expected).any(off);
            assert!(!wrong, "{found:?} for {expected:?}");
        };
        // Cells of half a degree: 359E to 1E, 40S to 39S.
        let over_the_seam = [(100, 0, 3), (100, 718, 720), (101, 0, 1), (102, 719, 720)];
        let runs = over_the_seam.map(|(row, first, end)| run(row, first, end));
        check(&grid(), runs.to_vec(), [358.75, -40.25, 1.25, -38.75]);
        // 5E to 5.5E and 200E to 204.5E: the widest gap lies between them, not across the seam.
        let runs = vec![run(100, 10, 12), run(101, 400, 410)];
        check(&grid(), runs, [199.75, -40.25, 5.75, -39.25]);
        // A regional grid from 300E to 139.5E: western columns stay west, however wide the gap.
        let lat = (0..10).map(f64::from).collect();
        let lon = (0..400).map(|i| 300.0 + 0.5 * f64::from(i)).collect();
        let regional = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let runs = vec![run(3, 2, 4), run(4, 390, 392)];
        check(&regional, runs, [300.75, 2.5, 135.75, 4.5]);
    }

    /// All cells of the row are at one point. Regression: the length was 0 and the width 10¹⁶ km.
    #[test]
    fn a_row_at_a_pole_is_a_disc() {
        let grid = grid();
        let row = painted(&grid, |lat, _| lat > 89.9);
        assert_eq!(row.cells(), 720);
        let shape = measure(&row, &grid, &grid.row_areas_km2());
        // A cap of a quarter of a degree; its axis has no direction.
        let across = 0.5 * KM_PER_DEGREE;
        assert!(
            (0.7..1.01).contains(&(shape.length_km / across)),
            "{shape:?}"
        );
        assert!((0.7..1.2).contains(&(shape.width_km / across)), "{shape:?}");
    }

    proptest! {
        #[test]
        fn the_plane_and_back(lat in -89.0..89.0f64, lon in 0.0..360.0f64, e in -6000.0..6000.0f64, n in -6000.0..6000.0f64) {
            let plane = TangentPlane::new(lat, lon);
            let (a, b) = plane.unproject(e, n);
            prop_assert!((distance_km(lat, lon, a, b) - e.hypot(n)).abs() < 1e-6);
            let (east, north) = plane.project(a, b);
            prop_assert!((east - e).abs() < 1e-5 && (north - n).abs() < 1e-5);
        }
    }
}
