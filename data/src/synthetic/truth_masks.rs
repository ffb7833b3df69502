//! Builds the truth while fields are computed: the cells of each storm, and its object.

use super::SyntheticRun;
use super::cyclone::Vortex;
use super::planes::Touched;
use super::range_of;
use super::truth::TruthObject;
use crate::Class;
use crate::grid::{eastern_longitude, lon_difference_deg};
use ndarray::Array2;

/// Ratio to the axis value that delimits a river's true extent.
const TRUE_SHARE: f64 = 0.5;

/// Collects the truth while storms are added.
pub(super) struct TruthBuilder<'a> {
    run: &'a SyntheticRun,
    row_areas_km2: Vec<f64>,
    /// Class of every cell.
    pub(super) codes: Array2<u8>,
    /// The objects so far.
    pub(super) objects: Vec<TruthObject>,
}

impl<'a> TruthBuilder<'a> {
    pub(super) fn new(run: &'a SyntheticRun) -> Self {
        Self {
            run,
            row_areas_km2: run.grid.row_areas_km2(),
            codes: Array2::zeros(run.grid.shape()),
            objects: Vec::new(),
        }
    }

    pub(super) fn river(&mut self, track_id: u64, touched: &Touched) {
        let cells: Vec<(usize, usize)> = touched
            .iter()
            .filter(|(_, share)| *share >= TRUE_SHARE)
            .map(|(at, _)| *at)
            .collect();
        // Not the cell with the largest share: shares are nearly equal along the axis, so it would jump between times.
        if let Some(place) = self.run.grid.centroid(&cells, &self.row_areas_km2) {
            self.object(Class::AtmosphericRiver, track_id, place, &cells, None);
        }
    }

    pub(super) fn cyclone(&mut self, id: u64, vortex: &Vortex, touched: &Touched) {
        let cells: Vec<(usize, usize)> = touched.iter().map(|(at, _)| *at).collect();
        let wind = touched.iter().map(|(_, wind)| *wind).fold(0.0, f64::max);
        let place = (vortex.state.lat, vortex.state.lon);
        self.object(Class::TropicalCyclone, id, place, &cells, Some(wind));
    }

    /// Marks the cells and adds the object. Cyclones come after rivers and overwrite them.
    fn object(
        &mut self,
        class: Class,
        track_id: u64,
        (lat, lon): (f64, f64),
        cells: &[(usize, usize)],
        wind: Option<f64>,
    ) {
        if cells.is_empty() {
            return;
        }
        let grid = &self.run.grid;
        let area_km2 = cells.iter().map(|&(j, _)| grid.cell_area_km2(j)).sum();
        cells.iter().for_each(|&at| self.codes[at] = class.code());
        let rows = cells.iter().map(|&(j, _)| grid.lat_deg()[j]);
        let east = |&(_, i): &(usize, usize)| lon_difference_deg(grid.lon_deg()[i], lon);
        let half = (grid.lat_spacing_deg() / 2.0, grid.lon_spacing_deg() / 2.0);
        let (south, north) = range_of(rows);
        let (west, east) = range_of(cells.iter().map(east));
        self.objects.push(TruthObject {
            class,
            track_id,
            lat_deg: lat,
            lon_deg: lon,
            area_km2,
            west_deg: eastern_longitude(lon + west - half.1),
            east_deg: eastern_longitude(lon + east + half.1),
            south_deg: (south - half.0).max(-90.0),
            north_deg: (north + half.0).min(90.0),
            max_wind_m_s: wind,
        });
    }
}
