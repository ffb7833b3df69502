//! Lows of a plane with a closed contour around them.
//!
//! # Source
//! TempestExtremes `DetectNodes` (Ullrich and Zarzycki 2017, GMD 10, 1069): `--searchbymin`, `--mergedist`, `--closedcontourcmd`. As there,
//! lows are merged before their contours are looked at.

use ndarray::ArrayView2;
use rayon::prelude::*;
use squall_data::LatLonGrid;

/// Criteria of a closed low.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contour {
    /// Every way out must rise by this ...
    pub rise: f64,
    /// ... within this great-circle distance, degrees.
    pub radius_deg: f64,
    /// Of two lows closer than this the deeper one stands, degrees.
    pub merge_deg: f64,
    /// Distances from the equator between which lows are searched for, degrees.
    pub latitudes_deg: (f64, f64),
}

/// A plane with what distances on it take.
pub(super) struct Plane<'a> {
    grid: &'a LatLonGrid,
    values: ArrayView2<'a, f32>,
    /// sin and cos of the latitudes.
    rows: Vec<(f64, f64)>,
    /// cos of so many columns.
    columns: Vec<f64>,
}

impl<'a> Plane<'a> {
    pub(super) fn new(grid: &'a LatLonGrid, values: ArrayView2<'a, f32>) -> Self {
        let spacing = grid.lon_spacing_deg();
        let lat = grid.lat_deg().iter();
        Self {
            rows: lat.map(|lat| lat.to_radians().sin_cos()).collect(),
            columns: (0..grid.shape().1)
                .map(|k| (k as f64 * spacing).to_radians().cos())
                .collect(),
            grid,
            values,
        }
    }

    /// The cells of the lows that meet the criteria, from south to north, then by column.
    pub(super) fn closed_lows(&self, contour: &Contour) -> Vec<(usize, usize)> {
        let lows = self.merged(self.minima(contour), contour);
        lows.into_par_iter()
            .filter(|&at| self.is_closed(at, contour))
            .collect()
    }

    /// Cells that no neighbour undercuts; of equals the south-westernmost.
    fn minima(&self, contour: &Contour) -> Vec<(usize, usize)> {
        let (rows, columns) = self.grid.shape();
        let (low, high) = contour.latitudes_deg;
        let searched = |j: &usize| (low..=high).contains(&self.grid.lat_deg()[*j].abs());
        (1..rows - 1)
            .into_par_iter()
            .filter(searched)
            .flat_map_iter(|j| {
                let row = |j: usize| self.values.row(j).to_slice().unwrap_or(&[]);
                let (south, here, north) = (row(j - 1), row(j), row(j + 1));
                (0..here.len().min(columns)).filter_map(move |i| {
                    let value = here[i];
                    let (west, east) = (self.grid.column(i, -1)?, self.grid.column(i, 1)?);
                    // NaN compares as false: a low beside a hole is none.
                    let lowest = value < here[west]
                        && value <= here[east]
                        && value < south[west]
                        && value < south[i]
                        && value < south[east]
                        && value <= north[west]
                        && value <= north[i]
                        && value <= north[east];
                    lowest.then_some((j, i))
                })
            })
            .collect()
    }

    /// Lows without a deeper one nearby. Cells come by row, and so they stay.
    fn merged(&self, lows: Vec<(usize, usize)>, contour: &Contour) -> Vec<(usize, usize)> {
        let lat = |k: usize| self.grid.lat_deg()[lows[k].0];
        let near = contour.merge_deg.to_radians().cos();
        let deeper = |a: usize, b: usize| {
            let (va, vb) = (self.values[lows[a]], self.values[lows[b]]);
            va < vb || va == vb && a < b
        };
        let stands = |&k: &usize| {
            let from =
                lows.partition_point(|low| self.grid.lat_deg()[low.0] < lat(k) - contour.merge_deg);
            !(from..lows.len())
                .take_while(|&other| lat(other) <= lat(k) + contour.merge_deg)
                .any(|other| {
                    other != k && deeper(other, k) && self.cos_distance(lows[k], lows[other]) > near
                })
        };
        (0..lows.len()).filter(stands).map(|k| lows[k]).collect()
    }

    /// cos of the great-circle distance of two cells.
    fn cos_distance(&self, a: (usize, usize), b: (usize, usize)) -> f64 {
        let ((sin_a, cos_a), (sin_b, cos_b)) = (self.rows[a.0], self.rows[b.0]);
        sin_a * sin_b + cos_a * cos_b * self.columns[a.1.abs_diff(b.1)]
    }

    /// Whether what lies less than the rise above a low, and hangs together with it, ends within the radius.
    fn is_closed(&self, low: (usize, usize), contour: &Contour) -> bool {
        let (rows, columns) = self.grid.shape();
        let limit = f64::from(self.values[low]) + contour.rise;
        let edge = contour.radius_deg.to_radians().cos();
        let reach = (contour.radius_deg / self.grid.lat_spacing_deg()).ceil() as usize + 2;
        let south = low.0.saturating_sub(reach);
        let north = (low.0 + reach + 1).min(rows);
        let mut seen = vec![false; (north - south) * columns];
        let mut open = vec![low];
        seen[(low.0 - south) * columns + low.1] = true;
        while let Some((j, i)) = open.pop() {
            for (dj, di) in STEPS {
                let row = j.wrapping_add_signed(dj);
                if row >= rows {
                    // Beyond a pole there is nothing; beyond the edge of a region nobody knows.
                    if self.grid.is_periodic() && self.ends_at_pole(j) {
                        continue;
                    }
                    return false;
                }
                let Some(column) = self.grid.column(i, di) else {
                    return false;
                };
                let next = (row, column);
                let inside = self.cos_distance(low, next) >= edge;
                let value = f64::from(self.values[next]);
                // A hole in the data closes nothing.
                if value >= limit {
                    continue;
                }
                if !inside || value.is_nan() || !(south..north).contains(&row) {
                    return false;
                }
                let place = &mut seen[(row - south) * columns + column];
                if !*place {
                    *place = true;
                    open.push(next);
                }
            }
        }
        true
    }

    fn ends_at_pole(&self, j: usize) -> bool {
        90.0 - self.grid.lat_deg()[j].abs() < self.grid.lat_spacing_deg()
    }
}

/// To the eight neighbours.
const STEPS: [(isize, isize); 8] = [
    (-1, -1),
    (-1, 0),
    (-1, 1),
    (0, -1),
    (0, 1),
    (1, -1),
    (1, 0),
    (1, 1),
];

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use squall_data::grid::distance_km;

    const CONTOUR: Contour = Contour {
        rise: 200.0,
        radius_deg: 6.0,
        merge_deg: 6.0,
        latitudes_deg: (0.0, 85.0),
    };

    /// Gaussian lows `(lat, lon, depth)` of 400 km on a level plane.
    fn found(lows: &[(f64, f64, f64)]) -> Vec<(f64, f64)> {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let values = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
            let deficit = lows.iter().map(|&(a, b, depth)| {
                depth * (-(distance_km(a, b, lat, lon) / 400.0).powi(2)).exp()
            });
            (101_000.0 - deficit.sum::<f64>()) as f32
        });
        let cells = Plane::new(&grid, values.view()).closed_lows(&CONTOUR);
        cells
            .into_iter()
            .map(|(j, i)| (grid.lat_deg()[j], grid.lon_deg()[i]))
            .collect()
    }

    #[test]
    fn closed_lows_are_found_anywhere_and_shallow_ones_are_not() {
        for (lat, lon) in [(45.0, 100.0), (-45.0, 0.0), (60.0, 359.0), (84.0, 10.0)] {
            assert_eq!(found(&[(lat, lon, 1000.0)]), [(lat, lon)]);
        }
        // exp(-(667/400)²) = 0.06: the rise within six degrees is 0.94 of the depth.
        assert_eq!(found(&[(45.0, 100.0, 220.0)]).len(), 1);
        assert!(found(&[(45.0, 100.0, 205.0)]).is_empty());
        assert!(found(&[(45.0, 100.0, -1000.0)]).is_empty());
    }

    #[test]
    fn of_two_near_lows_the_deeper_one_stands_and_open_ones_do_not() {
        // The shallower one draws the other's minimum a cell towards it.
        assert_eq!(
            found(&[(45.0, 100.0, 800.0), (50.0, 100.0, 1000.0)]),
            [(49.0, 100.0)]
        );
        assert_eq!(
            found(&[(40.0, 100.0, 800.0), (50.0, 100.0, 1000.0)]).len(),
            2
        );
        // A trough eastward: overlapping lows every three degrees add up to three times their depth. The low at its western end
        // stands out by 400 Pa or by 160.
        let at_end = |depth: f64| {
            let trough = (1..20).map(|k| (45.0, 100.0 + 3.0 * f64::from(k), depth));
            let lows: Vec<_> = trough.chain([(45.0, 100.0, 1000.0)]).collect();
            let near = |low: &(f64, f64)| (98.0..101.5).contains(&low.1);
            found(&lows).into_iter().filter(near).count()
        };
        assert_eq!((at_end(300.0), at_end(420.0)), (1, 0));
    }
}
