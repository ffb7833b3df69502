//! Lows with a closed contour, for the tempest method and the labels of extratropical cyclones.
//!
//! # Source
//! TempestExtremes `DetectNodes` (Ullrich and Zarzycki 2017, GMD 10, 1069): `--searchbymin`, `--mergedist`,
//! `--closedcontourcmd`. As there, lows are merged before the search for contours.

mod contour;
mod minima;

pub(crate) use contour::Walker;

use minima::{local_minima, merged};
use ndarray::ArrayView2;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use squall_data::LatLonGrid;

/// How a contour that reaches the edge of a regional grid is treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DomainEdge {
    /// As open: a contour that meets the edge is not closed, and a low cut off by it is no cyclone.
    #[default]
    Open,
    /// As a wall, like TempestExtremes: a low cut off by the edge has a closed contour if its inner part has one, and
    /// its centre may be the point on the edge nearest to the true one.
    Wall,
}

/// Criteria of a closed low.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClosedLow {
    /// Minimum rise on every path outwards ...
    pub rise: f64,
    /// ... within this great-circle distance, degrees.
    pub radius_deg: f64,
    /// Of two lows closer than this, only the deeper one is kept, degrees.
    pub merge_deg: f64,
    /// Minimum and maximum distance from the equator, degrees of latitude. Deeper lows outside of these do not suppress
    /// those inside.
    pub latitudes_deg: (f64, f64),
    /// How the edge of a regional grid is treated.
    pub edge: DomainEdge,
}

impl ClosedLow {
    /// The cells of the lows that meet the criteria, from south to north, then by column.
    pub(crate) fn find(
        &self,
        plane: ArrayView2<'_, f32>,
        grid: &LatLonGrid,
    ) -> Vec<(usize, usize)> {
        let (low, high) = self.latitudes_deg;
        let mut minima = local_minima(plane, grid);
        minima.retain(|&(j, _)| (low..=high).contains(&grid.lat_deg()[j].abs()));
        merged(&minima, plane, grid, self.merge_deg)
            .into_par_iter()
            .with_min_len(32)
            .map_init(
                || Walker::new(grid, self.edge),
                |walker, low| {
                    let values = |j: usize, i: usize| plane[[j, i]];
                    let contour = walker.contour(&values, low, self.rise, self.radius_deg);
                    contour.closed.then_some(low)
                },
            )
            .flatten_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use squall_data::grid::distance_km;

    const CRITERIA: ClosedLow = ClosedLow {
        rise: 200.0,
        radius_deg: 6.0,
        merge_deg: 6.0,
        latitudes_deg: (0.0, 85.0),
        edge: DomainEdge::Open,
    };

    /// Finds Gaussian lows `(lat, lon, depth)` of 400 km on a flat field.
    fn found(lows: &[(f64, f64, f64)]) -> Vec<(f64, f64)> {
        found_by(&CRITERIA, lows)
    }

    fn found_by(criteria: &ClosedLow, lows: &[(f64, f64, f64)]) -> Vec<(f64, f64)> {
        let grid = LatLonGrid::global(181, 360).unwrap();
        let values = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            let (lat, lon) = (grid.lat_deg()[j], grid.lon_deg()[i]);
            let deficit = lows.iter().map(|&(a, b, depth)| {
                depth * (-(distance_km(a, b, lat, lon) / 400.0).powi(2)).exp()
            });
            (101_000.0 - deficit.sum::<f64>()) as f32
        });
        let cells = criteria.find(values.view(), &grid);
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
        // exp(-(667/400)²) = 0.06: the rise within six degrees is 0.94 of the depth. Cells that have not risen enough
        // must lie a cell farther in, where the share is 1 - exp(-(556/400)²) = 0.855: 235 Pa are enough.
        assert_eq!(found(&[(45.0, 100.0, 235.0)]).len(), 1);
        assert!(found(&[(45.0, 100.0, 205.0)]).is_empty());
        assert!(found(&[(45.0, 100.0, -1000.0)]).is_empty());
    }

    #[test]
    fn a_deeper_low_outside_the_latitudes_leaves_one_inside() {
        // 8.8 degrees apart.
        let lows = [(28.0, 100.0, 1500.0), (32.0, 109.0, 1000.0)];
        let between = |latitudes_deg: (f64, f64)| {
            let criteria = ClosedLow {
                merge_deg: 12.0,
                latitudes_deg,
                ..CRITERIA
            };
            found_by(&criteria, &lows)
        };
        assert_eq!(between((0.0, 85.0)), [(28.0, 100.0)]);
        assert_eq!(between((30.0, 85.0)), [(32.0, 109.0)]);
        assert!(between((33.0, 85.0)).is_empty() && between((0.0, 27.0)).is_empty());
    }

    #[test]
    fn the_deeper_of_two_near_lows_is_kept_and_open_ones_are_not() {
        // The shallower one shifts the other's minimum one cell towards it.
        assert_eq!(
            found(&[(45.0, 100.0, 800.0), (50.0, 100.0, 1000.0)]),
            [(49.0, 100.0)]
        );
        assert_eq!(
            found(&[(40.0, 100.0, 800.0), (50.0, 100.0, 1000.0)]).len(),
            2
        );
        // A trough to the east: overlapping lows every three degrees add up to three times their depth. The low at its
        // western end stands out by 400 Pa or by 160.
        let at_end = |depth: f64| {
            let trough = (1..20).map(|k| (45.0, 100.0 + 3.0 * f64::from(k), depth));
            let lows: Vec<_> = trough.chain([(45.0, 100.0, 1000.0)]).collect();
            let near = |low: &(f64, f64)| (98.0..101.5).contains(&low.1);
            found(&lows).into_iter().filter(near).count()
        };
        assert_eq!((at_end(300.0), at_end(420.0)), (1, 0));
    }
}
