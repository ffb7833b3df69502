//! The recipes of TempestExtremes: cyclones by closed contours, rivers by the Laplacian of vapour transport.
//!
//! # Source
//! Ullrich et al. 2021, "TempestExtremes v2.1", GMD 14, 5023-5048; McClenny et al. 2020 (JGR 125) for the rivers;
//! details from the program's source. Differences: if files lack 300 and 500 hPa, the warm core is detected by 250 and
//! 500 hPa or by the channels ([`super::WarmCore`]); transport may be a proxy ([`super::VapourTransport::proxy`]);
//! edges of regional grids are open, not walls, unless [`NodeThresholds::domain_edge`] says otherwise.

mod laplacian;
mod nodes;
mod stitch;
mod thresholds;

pub(super) use nodes::is_warm_above;
pub use nodes::{Node, closed_lows};
pub(crate) use stitch::Stitcher;
pub use thresholds::{NodeThresholds, RidgeThresholds, StitchThresholds, TempestThresholds};

pub use crate::closed_low::DomainEdge;

use super::transport::DetectFields;
use crate::closed_low::Walker;
use crate::derived::check_shape;
use crate::error::Result;
use crate::events::{Region, Run};
use crate::label::check_grid;
use crate::label::objects;
use crate::label::patches::{Touch, patches, row_runs};
use crate::label::{CycloneCandidate, LabelledSnapshot, never_joined, planes};
use laplacian::Laplacian;
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use squall_data::{Class, LatLonGrid, Time, Variable};
use std::sync::Arc;

/// Applies the recipes on one grid.
#[derive(Debug, Clone)]
pub struct TempestDetector {
    grid: Arc<LatLonGrid>,
    thresholds: TempestThresholds,
    laplacian: Laplacian,
    row_areas_km2: Vec<f64>,
}

impl TempestDetector {
    /// Creates the detector for a grid and computes its stencils.
    ///
    /// # Errors
    /// [`crate::ClimateError::Invalid`] if a threshold is out of range.
    pub fn new(thresholds: &TempestThresholds, grid: Arc<LatLonGrid>) -> Result<Self> {
        thresholds.check()?;
        let mut thresholds = thresholds.clone();
        if thresholds.adapt_to_grid {
            thresholds.node = thresholds.node.adapted_to(&grid);
        }
        let ridge = &thresholds.ridge;
        let laplacian = Laplacian::new(&grid, ridge.laplacian_points, ridge.laplacian_radius_deg);
        Ok(Self {
            row_areas_km2: grid.row_areas_km2(),
            laplacian,
            thresholds,
            grid,
        })
    }

    /// The thresholds in use on this grid.
    pub fn thresholds(&self) -> &TempestThresholds {
        &self.thresholds
    }

    /// Whether these times are too far apart to join any track, and the series so long that no storm is accepted
    /// without one.
    pub(super) fn never_joins(&self, times: &[Time]) -> bool {
        let stitch = &self.thresholds.stitch;
        never_joined(times, stitch.max_gap_hours, stitch.min_duration_hours)
    }

    /// An empty set of tracks.
    pub(crate) fn stitcher(&self) -> Stitcher {
        Stitcher::new(&self.thresholds.stitch)
    }

    /// The lows with a warm core at one time, from south to north. Needs PSL, UBOT, VBOT, and either the thickness of
    /// the upper layer or T200, T500, Z200 and Z1000.
    ///
    /// # Errors
    /// [`crate::ClimateError::MissingField`] or [`crate::ClimateError::Mismatch`].
    pub fn nodes(&self, fields: &DetectFields) -> Result<Vec<Node>> {
        check_grid(&self.grid, &fields.snapshot)?;
        nodes::nodes(fields, &self.thresholds.node)
    }

    /// The rivers in a field of transport, kg m-1 s-1, in scan order; each as runs sorted by row and column.
    ///
    /// # Errors
    /// [`crate::ClimateError::Mismatch`] if the field does not have the grid's shape.
    pub fn rivers(&self, transport: ArrayView2<'_, f32>) -> Result<Vec<Vec<Run>>> {
        check_shape("vapour transport", &transport, &self.grid)?;
        let (rows, columns) = self.grid.shape();
        let ridge = &self.thresholds.ridge;
        let (most, nearest) = (ridge.max_laplacian as f32, ridge.min_abs_latitude_deg);
        let lines: Vec<Vec<(u32, u32)>> = (0..rows)
            .into_par_iter()
            .with_min_len(32)
            .map_init(
                || vec![0.0; columns],
                |line, j| {
                    if self.grid.lat_deg()[j].abs() < nearest {
                        return Vec::new();
                    }
                    self.laplacian.row(transport, j, line);
                    row_runs(line.iter().map(|&value| value <= most))
                },
            )
            .collect();
        let touch = Touch {
            corners: false,
            wrap: self.grid.is_periodic(),
        };
        let mut pieces = patches(&lines, columns as u32, touch);
        pieces.retain(|piece| {
            let cells = piece
                .iter()
                .map(|run| run.cells() as f64 * self.row_areas_km2[run.row as usize]);
            cells.sum::<f64>() >= ridge.min_area_km2
        });
        Ok(pieces)
    }

    /// The mask and the objects of one time, given its cyclones.
    ///
    /// A cyclone's cells are those inside its closed contour of pressure (`NodeFileFilter --bycontour`). Cells near a
    /// cyclone do not count as rivers.
    ///
    /// # Errors
    /// [`crate::ClimateError::MissingField`] or [`crate::ClimateError::Mismatch`].
    pub fn masks(&self, fields: &DetectFields, cyclones: &[Node]) -> Result<LabelledSnapshot> {
        let snapshot = &fields.snapshot;
        check_grid(&self.grid, snapshot)?;
        let rivers = self.rivers(fields.transport()?.magnitude.view())?;
        let mut codes = Array2::<u8>::zeros(self.grid.shape());
        for (j, i) in rivers.iter().flatten().flat_map(|run| run.indices()) {
            codes[[j, i]] = Class::AtmosphericRiver.code();
        }
        let reach = self.thresholds.ridge.cyclone_distance_deg;
        for cyclone in cyclones {
            clear_disc(&mut codes, &self.grid, cyclone.cell, reach);
        }
        let candidates: Vec<CycloneCandidate> = cyclones.iter().map(Node::as_candidate).collect();
        let mut storms = Vec::with_capacity(cyclones.len());
        if !cyclones.is_empty() {
            let [psl] = planes(snapshot, "the tempest cyclones", [Variable::Psl])?;
            let node = &self.thresholds.node;
            let mut walker = Walker::new(&self.grid, node.domain_edge);
            let (rise, radius) = (node.contour_rise_pa, node.contour_radius_deg);
            for (cyclone, candidate) in cyclones.iter().zip(&candidates) {
                let contour = walker.contour(&|j, i| psl[[j, i]], cyclone.cell, rise, radius);
                for &cell in &contour.inside {
                    codes[cell] = Class::TropicalCyclone.code();
                }
                let runs = to_runs(contour.inside);
                let class = Class::TropicalCyclone;
                storms.push((candidate, Region { class, runs }));
            }
        }
        let rivers = objects::uncovered(rivers, &codes);
        let objects = objects::describe(snapshot, &storms, &rivers);
        Ok(LabelledSnapshot::from_codes(snapshot.time, codes, objects))
    }
}

/// Sets the cells within a great-circle distance of a cell to background.
fn clear_disc(codes: &mut Array2<u8>, grid: &LatLonGrid, centre: (usize, usize), radius_deg: f64) {
    let (lat0, lon0) = (grid.lat_deg()[centre.0], grid.lon_deg()[centre.1]);
    let (sin0, cos0) = lat0.to_radians().sin_cos();
    let least = radius_deg.to_radians().cos() - 1e-12;
    for (j, lat) in grid.lat_deg().iter().enumerate() {
        if (lat - lat0).abs() > radius_deg + 1e-9 {
            continue;
        }
        let (sin, cos) = lat.to_radians().sin_cos();
        for (i, lon) in grid.lon_deg().iter().enumerate() {
            if sin * sin0 + cos * cos0 * (lon - lon0).to_radians().cos() >= least {
                codes[[j, i]] = 0;
            }
        }
    }
}

/// Converts cells in any order to runs.
fn to_runs(mut cells: Vec<(usize, usize)>) -> Vec<Run> {
    cells.sort_unstable();
    let mut runs: Vec<Run> = Vec::new();
    for (j, i) in cells {
        match runs.last_mut() {
            Some(run) if run.row as usize == j && run.end as usize == i => run.end += 1,
            _ => runs.push(Run {
                row: j as u32,
                first: i as u32,
                end: i as u32 + 1,
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{TransportSource, VapourTransport};
    use squall_data::grid::{KM_PER_DEGREE, distance_km};
    use squall_data::{Calendar, Snapshot};

    fn one_degree() -> Arc<LatLonGrid> {
        Arc::new(LatLonGrid::global(181, 360).unwrap())
    }

    /// A ridge of 500 kg m-1 s-1 around the globe at one latitude. Its Laplacian by eight points at 10 degrees is about
    /// 16.4 · (2 · (0 − 500) + 4 · (23 − 500)) = −48,000 on its crest.
    fn ridge(grid: &LatLonGrid, lat_deg: f64) -> Array2<f32> {
        Array2::from_shape_fn(grid.shape(), |(j, _)| {
            let off = (grid.lat_deg()[j] - lat_deg) / 4.0;
            (500.0 * (-off.powi(2)).exp()) as f32
        })
    }

    #[test]
    fn a_ridge_is_a_river_if_it_is_sharp_large_and_far_enough_from_the_equator() {
        let grid = one_degree();
        let rivers = |lat_deg: f64, change: fn(&mut RidgeThresholds)| {
            let mut thresholds = TempestThresholds::default();
            change(&mut thresholds.ridge);
            let detector = TempestDetector::new(&thresholds, grid.clone()).unwrap();
            detector.rivers(ridge(&grid, lat_deg).view()).unwrap()
        };
        for lat_deg in [40.0, -40.0] {
            let found = rivers(lat_deg, |_| ());
            assert_eq!(found.len(), 1, "one over the seam");
            let off = |run: &Run| (grid.lat_deg()[run.row as usize] - lat_deg).abs();
            assert!(found[0].iter().all(|run| off(run) < 4.5));
            assert_eq!(rivers(lat_deg, |r| r.max_laplacian = -40_000.0).len(), 1);
            assert!(rivers(lat_deg, |r| r.max_laplacian = -60_000.0).is_empty());
            assert!(rivers(lat_deg, |r| r.min_abs_latitude_deg = 46.0).is_empty());
            // Six rows around 39.5 degrees: 667 km by 30,900 km, or 20.6 million km².
            assert_eq!(rivers(lat_deg, |r| r.min_area_km2 = 19e6).len(), 1);
            assert!(rivers(lat_deg, |r| r.min_area_km2 = 22e6).is_empty());
        }
        assert!(rivers(10.0, |_| ()).is_empty());
        assert_eq!(rivers(10.0, |r| r.min_abs_latitude_deg = 0.0).len(), 1);
    }

    #[test]
    fn rivers_end_before_a_cyclone_which_is_what_its_contour_encloses() {
        let grid = one_degree();
        let (lat_deg, lon_deg) = (40.0, 1.0);
        let cell = grid.nearest(lat_deg, lon_deg);
        let off_km = |j: usize, i: usize| {
            distance_km(lat_deg, lon_deg, grid.lat_deg()[j], grid.lon_deg()[i])
        };
        // 3000 (1 - exp(-(r/600)²)) reaches 200 Pa at 158 km: the cell and the eight around it are nearer.
        let psl = Array2::from_shape_fn(grid.shape(), |(j, i)| {
            (101_000.0 - 3000.0 * (-(off_km(j, i) / 600.0).powi(2)).exp()) as f32
        });
        let snapshot = Snapshot {
            time: Time::new(Calendar::NoLeap, 2000, 9, 1, 0, 0, 0).unwrap(),
            grid: grid.clone(),
            variables: vec![Variable::Psl],
            fields: psl.insert_axis(ndarray::Axis(0)),
            source: ("ridge".into(), 0),
        };
        let parts = [ridge(&grid, lat_deg), Array2::zeros(grid.shape())];
        let transport = VapourTransport::from_components(parts, TransportSource::File).unwrap();
        let fields = DetectFields {
            transport: Some(transport),
            ..DetectFields::from_snapshot(snapshot)
        };
        let cyclone = Node {
            cell,
            lat_deg,
            lon_deg,
            min_psl_pa: 98_000.0,
            max_wind_m_s: 30.0,
            surface_height_m: None,
            track_id: Some(4),
        };
        let detector = TempestDetector::new(&TempestThresholds::default(), grid.clone()).unwrap();
        let labelled = detector.masks(&fields, &[cyclone]).unwrap();
        let mut counts = [0; 3];
        for ((j, i), &code) in labelled.mask.codes.indexed_iter() {
            counts[usize::from(code)] += 1;
            assert_eq!(code == 1, off_km(j, i) < 158.0, "{j} {i}");
            assert!(code != 2 || off_km(j, i) > 8.0 * KM_PER_DEGREE, "{j} {i}");
        }
        assert!(counts[1] == 9 && counts[2] > 1000, "{counts:?}");
        let objects = labelled.objects.iter();
        let objects: Vec<_> = objects.map(|event| (event.class, event.track_id)).collect();
        let expected = [
            (Class::TropicalCyclone, Some(4)),
            (Class::AtmosphericRiver, None),
        ];
        assert_eq!(objects, expected);
        // Without the cyclone, the river circles the globe.
        let alone = detector.masks(&fields, &[]).unwrap();
        assert_eq!(alone.mask.codes[cell], 2);
    }

    #[test]
    fn a_disc_is_round_over_the_seam_and_the_pole() {
        let grid = LatLonGrid::global(61, 120).unwrap();
        for centre in [(25, 0), (50, 118), (59, 40), (1, 7)] {
            let mut codes = Array2::from_elem(grid.shape(), 2u8);
            clear_disc(&mut codes, &grid, centre, 8.0);
            let (lat, lon) = (grid.lat_deg()[centre.0], grid.lon_deg()[centre.1]);
            for ((j, i), &code) in codes.indexed_iter() {
                let km = distance_km(lat, lon, grid.lat_deg()[j], grid.lon_deg()[i]);
                assert_eq!(code == 0, km < 8.0 * KM_PER_DEGREE, "{centre:?}: {j} {i}");
            }
        }
    }

    #[test]
    fn cells_in_any_order_are_runs() {
        let run = |row, first, end| Run { row, first, end };
        let cells = vec![(2, 5), (1, 3), (3, 7), (1, 4), (2, 0), (1, 6), (2, 6)];
        let expected = [
            run(1, 3, 5),
            run(1, 6, 7),
            run(2, 0, 1),
            run(2, 5, 7),
            run(3, 7, 8),
        ];
        assert_eq!(to_runs(cells), expected);
        assert!(to_runs(Vec::new()).is_empty());
    }
}
