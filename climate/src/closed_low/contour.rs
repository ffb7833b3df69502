//! Closed contours and minima near a cell, by walking from neighbour to neighbour.
//!
//! # Source
//! TempestExtremes `HasClosedContour` (`DetectNodes.cpp`) and `FindLocalMinMax` (`SimpleGridUtilities.cpp`): neighbours
//! share an edge, distances are great circles, poles are closed.

use super::DomainEdge;
use crate::events::is_pole;
use squall_data::LatLonGrid;
use std::collections::VecDeque;

/// Breadth-first walks over a grid; reuses its buffers for many walks.
#[derive(Debug)]
pub(crate) struct Walker<'g> {
    grid: &'g LatLonGrid,
    sin_lat: Vec<f64>,
    cos_lat: Vec<f64>,
    /// Cosine of the longitude difference of `k` columns.
    cos_lon: Vec<f64>,
    /// Whether nothing lies beyond the first and the last row, because a pole or a wall is there.
    closed: [bool; 2],
    /// Whether nothing lies beyond the first and the last column of a regional grid.
    walls: bool,
    visited: Vec<u32>,
    walk: u32,
    queue: VecDeque<(u32, u32)>,
}

/// The result of a walk for a closed contour.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Contour {
    /// Whether the field rises enough on every path outwards within the distance.
    pub closed: bool,
    /// Cells inside, the origin first; incomplete if the contour is not closed.
    pub inside: Vec<(usize, usize)>,
}

impl<'g> Walker<'g> {
    pub(crate) fn new(grid: &'g LatLonGrid, edge: DomainEdge) -> Self {
        let (rows, columns) = grid.shape();
        let lat = || grid.lat_deg().iter().map(|lat| lat.to_radians());
        let step = grid.lon_spacing_deg().to_radians();
        let bounds = grid.lat_bounds_deg();
        let walls = edge == DomainEdge::Wall;
        Self {
            grid,
            sin_lat: lat().map(f64::sin).collect(),
            cos_lat: lat().map(f64::cos).collect(),
            cos_lon: (0..columns).map(|k| (k as f64 * step).cos()).collect(),
            closed: [
                walls || is_pole(bounds[0], grid),
                walls || is_pole(bounds[rows], grid),
            ],
            walls,
            visited: vec![0; rows * columns],
            walk: 0,
            queue: VecDeque::new(),
        }
    }

    /// Cosine of the angle between two cells.
    fn cosine(&self, a: (usize, usize), b: (usize, usize)) -> f64 {
        self.sin_lat[a.0] * self.sin_lat[b.0]
            + self.cos_lat[a.0] * self.cos_lat[b.0] * self.cos_lon[a.1.abs_diff(b.1)]
    }

    fn start(&mut self, origin: (usize, usize)) {
        self.walk = match self.walk.checked_add(1) {
            Some(next) => next,
            None => {
                self.visited.fill(0);
                1
            }
        };
        self.queue.clear();
        self.visit(origin);
    }

    fn visit(&mut self, (j, i): (usize, usize)) {
        let cell = &mut self.visited[j * self.cos_lon.len() + i];
        if *cell != self.walk {
            *cell = self.walk;
            self.queue.push_back((j as u32, i as u32));
        }
    }

    /// Queues the neighbours; returns false if one lies beyond an open edge of a regional grid.
    fn visit_neighbours(&mut self, (j, i): (usize, usize)) -> bool {
        let mut whole = true;
        match j.checked_sub(1) {
            Some(south) => self.visit((south, i)),
            None => whole &= self.closed[0],
        }
        if j + 1 < self.sin_lat.len() {
            self.visit((j + 1, i));
        } else {
            whole &= self.closed[1];
        }
        for step in [1, -1] {
            match self.grid.column(i, step) {
                Some(column) => self.visit((j, column)),
                None => whole &= self.walls,
            }
        }
        whole
    }

    /// Searches for a closed contour around a cell on which the field has risen by `rise`. All cells inside and on the
    /// contour must be within `radius_deg`.
    ///
    /// A missing value counts as not risen. A contour that meets an open edge of a regional grid ([`DomainEdge`]) is
    /// not closed.
    pub(crate) fn contour(
        &mut self,
        field: &impl Fn(usize, usize) -> f32,
        origin: (usize, usize),
        rise: f64,
        radius_deg: f64,
    ) -> Contour {
        let nearest = radius_deg.to_radians().cos() - 1e-12;
        let reference = field(origin.0, origin.1);
        let mut contour = Contour {
            closed: false,
            inside: Vec::new(),
        };
        self.start(origin);
        while let Some((j, i)) = self.queue.pop_front() {
            let cell = (j as usize, i as usize);
            if self.cosine(origin, cell) < nearest {
                return contour;
            }
            if f64::from(field(cell.0, cell.1) - reference) >= rise {
                continue;
            }
            contour.inside.push(cell);
            if !self.visit_neighbours(cell) {
                return contour;
            }
        }
        contour.closed = true;
        contour
    }

    /// The lowest cell within `radius_deg`; of equal ones the one that takes the fewest steps. Returns the origin if
    /// all values are missing.
    pub(crate) fn lowest_near(
        &mut self,
        field: &impl Fn(usize, usize) -> f32,
        origin: (usize, usize),
        radius_deg: f64,
    ) -> (usize, usize) {
        let nearest = radius_deg.to_radians().cos() - 1e-12;
        let mut best = origin;
        let mut lowest = field(origin.0, origin.1);
        self.start(origin);
        while let Some((j, i)) = self.queue.pop_front() {
            let cell = (j as usize, i as usize);
            if self.cosine(origin, cell) < nearest {
                continue;
            }
            let value = field(cell.0, cell.1);
            if value < lowest || lowest.is_nan() && !value.is_nan() {
                (best, lowest) = (cell, value);
            }
            self.visit_neighbours(cell);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::grid::{EARTH_RADIUS_KM, distance_km};

    /// A Gaussian low of some depth, Pa, and e-folding radius, degrees.
    fn low(grid: &LatLonGrid, centre: (usize, usize), depth: f64, radius_deg: f64) -> Vec<f32> {
        let (rows, columns) = grid.shape();
        let at = |j: usize, i: usize| (grid.lat_deg()[j], grid.lon_deg()[i]);
        let (lat, lon) = at(centre.0, centre.1);
        (0..rows * columns)
            .map(|k| {
                let (y, x) = at(k / columns, k % columns);
                let r = (distance_km(lat, lon, y, x) / EARTH_RADIUS_KM).to_degrees();
                (101_000.0 - depth * (-(r / radius_deg).powi(2)).exp()) as f32
            })
            .collect()
    }

    #[test]
    fn a_gaussian_low_is_closed_if_and_only_if_it_is_deep_enough() {
        // A low of e-folding radius 3 degrees has risen by 1 − exp(−(5.5/3)²) = 0.965 of its depth at 5.5 degrees: a
        // depth of less than 207.2 Pa cannot rise by 200. Cells that have not risen enough must lie a cell farther in,
        // at 4.5 degrees, where the share is 0.895: 223.6 Pa are enough.
        let grid = LatLonGrid::global(181, 360).unwrap();
        let mut walker = Walker::new(&grid, DomainEdge::Open);
        for centre in [(110, 180), (70, 0), (110, 359)] {
            let mut closed = |depth: f64| {
                let field = low(&grid, centre, depth, 3.0);
                walker.contour(&|j, i| field[j * 360 + i], centre, 200.0, 5.5)
            };
            assert!(!closed(206.0).closed, "{centre:?}");
            let deep = closed(224.0);
            assert!(deep.closed, "{centre:?}");
            assert!(deep.inside.len() > 50 && deep.inside[0] == centre);
            assert!(closed(2000.0).inside.len() < deep.inside.len());
        }
    }

    #[test]
    fn a_way_out_opens_it_and_missing_values_do() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let mut walker = Walker::new(&grid, DomainEdge::Open);
        let centre = (120, 2);
        let field = low(&grid, centre, 1000.0, 2.0);
        let mut closed = |field: &dyn Fn(usize, usize) -> f32| {
            walker
                .contour(&|j, i| field(j, i), centre, 200.0, 5.5)
                .closed
        };
        assert!(closed(&|j, i| field[j * 360 + i]));
        let trough = |j: usize, i: usize| {
            if j == 120 && !(3..200).contains(&i) {
                100_000.0
            } else {
                field[j * 360 + i]
            }
        };
        assert!(!closed(&trough), "a trough to the west over the seam");
        let hole = |j: usize, i: usize| {
            if !(2..=340).contains(&i) {
                f32::NAN
            } else {
                field[j * 360 + i]
            }
        };
        assert!(!closed(&hole));
    }

    #[test]
    fn poles_close_and_edges_open() {
        let grid = LatLonGrid::global(91, 180).unwrap();
        let field = low(&grid, (0, 0), 1000.0, 2.0);
        let mut walker = Walker::new(&grid, DomainEdge::Open);
        let pole = walker.contour(&|j, i| field[j * 180 + i], (0, 0), 200.0, 5.5);
        assert!(pole.closed && pole.inside.len() >= 180);
        // T42: the last row of a Gaussian grid is not at the pole.
        let step = 2.0 * 87.8638 / 63.0;
        let lat = (0..64).map(|j| -87.8638 + step * f64::from(j)).collect();
        let lon = (0..128).map(|i| 2.8125 * f64::from(i)).collect();
        let gaussian = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let mut walker = Walker::new(&gaussian, DomainEdge::Open);
        for centre in [(0, 0), (63, 127)] {
            let field = low(&gaussian, centre, 1000.0, 4.0);
            let found = walker.contour(&|j, i| field[j * 128 + i], centre, 200.0, 5.5);
            assert!(found.closed, "{centre:?}");
        }
        let lat = (0..30).map(f64::from).collect();
        let lon = (0..30).map(f64::from).collect();
        let grid = LatLonGrid::from_axes(lat, lon).unwrap().0;
        let mut walker = Walker::new(&grid, DomainEdge::Open);
        for (centre, expected) in [((15, 15), true), ((15, 1), false), ((28, 15), false)] {
            let field = low(&grid, centre, 1000.0, 4.0);
            let found = walker.contour(&|j, i| field[j * 30 + i], centre, 200.0, 5.5);
            assert_eq!(found.closed, expected, "{centre:?}");
            let walled = Walker::new(&grid, DomainEdge::Wall).contour(
                &|j, i| field[j * 30 + i],
                centre,
                200.0,
                5.5,
            );
            assert!(walled.closed, "{centre:?}");
        }
        // A wall does not make a shallow low deep.
        let field = low(&grid, (15, 1), 150.0, 4.0);
        let mut walker = Walker::new(&grid, DomainEdge::Wall);
        let found = walker.contour(&|j, i| field[j * 30 + i], (15, 1), 200.0, 5.5);
        assert!(!found.closed);
    }

    #[test]
    fn the_lowest_cell_is_found_within_the_distance_only() {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let mut walker = Walker::new(&grid, DomainEdge::Open);
        let field = |j: usize, i: usize| match (j, i) {
            (120, 359) => -1.0,
            (120, 356) => -2.0,
            _ => 0.0,
        };
        assert_eq!(walker.lowest_near(&field, (120, 1), 2.0), (120, 359));
        assert_eq!(walker.lowest_near(&field, (120, 1), 1.0), (120, 1));
        assert_eq!(walker.lowest_near(&field, (120, 1), 5.0), (120, 356));
    }
}
