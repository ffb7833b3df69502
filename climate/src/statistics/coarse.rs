//! Monthly frequency of each class on coarse cells, which comparisons use to test changes of frequency.

use crate::error::{ClimateError, Result};
use serde::{Deserialize, Serialize};
use squall_data::grid::eastern_longitude;
use squall_data::{Class, ClassMask, DataError, LatLonGrid, Time};

/// Width of a coarse cell in latitude and longitude, degrees.
pub const COARSE_CELL_DEG: f64 = 5.0;
/// Rows of coarse cells, south to north.
pub const COARSE_ROWS: usize = 36;
/// Columns of coarse cells, eastward from 0°E.
pub const COARSE_COLUMNS: usize = 72;
/// Number of coarse cells of the Earth.
pub const COARSE_CELLS: usize = COARSE_ROWS * COARSE_COLUMNS;

/// The index of the coarse cell of a point, row by row.
pub fn coarse_cell(lat_deg: f64, lon_deg: f64) -> usize {
    let row = ((lat_deg + 90.0) / COARSE_CELL_DEG).floor();
    let column = (eastern_longitude(lon_deg) / COARSE_CELL_DEG).floor();
    let row = (row.max(0.0) as usize).min(COARSE_ROWS - 1);
    row * COARSE_COLUMNS + (column as usize).min(COARSE_COLUMNS - 1)
}

/// The grid of the coarse cells' centres.
///
/// # Errors
/// Never for these axes; the type is that of [`LatLonGrid::from_axes`].
pub fn coarse_grid() -> std::result::Result<LatLonGrid, DataError> {
    let axis = |count: usize, first: f64| -> Vec<f64> {
        (0..count)
            .map(|k| first + COARSE_CELL_DEG * (k as f64 + 0.5))
            .collect()
    };
    Ok(LatLonGrid::from_axes(axis(COARSE_ROWS, -90.0), axis(COARSE_COLUMNS, 0.0))?.0)
}

/// Whether each coarse cell overlaps a grid.
pub(crate) fn on_grid(grid: &LatLonGrid) -> Vec<bool> {
    // Cells that only touch an edge do not overlap.
    const TOUCH_DEG: f64 = 1e-6;
    let bounds = grid.lat_bounds_deg();
    let (south, north) = (bounds[0] + TOUCH_DEG, bounds[bounds.len() - 1] - TOUCH_DEG);
    let columns = grid.lon_deg().len() as f64;
    let west = grid.lon_deg()[0] - 0.5 * grid.lon_spacing_deg() + TOUCH_DEG;
    let width = columns * grid.lon_spacing_deg() - 2.0 * TOUCH_DEG;
    let is_on = |cell: usize| {
        let from = COARSE_CELL_DEG * (cell / COARSE_COLUMNS) as f64 - 90.0;
        let east = eastern_longitude(COARSE_CELL_DEG * (cell % COARSE_COLUMNS) as f64 - west);
        let in_columns = grid.is_periodic() || east < width || east + COARSE_CELL_DEG > 360.0;
        in_columns && from < north && from + COARSE_CELL_DEG > south
    };
    (0..COARSE_CELLS).map(is_on).collect()
}

/// Coarse counts of one month.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoarseMonth {
    /// Year of the data's calendar.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: i64,
    /// Number of marked grid cells of each class, summed over all times of the month, per coarse cell.
    pub marked: [Vec<u32>; 2],
}

/// Monthly counts of marked cells on coarse cells: 21 kB per month, independent of the grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoarseOccurrence {
    rows: usize,
    columns: usize,
    /// The coarse cell of each grid cell, row by row.
    cell_of: Vec<u16>,
    /// Ascending by year and month.
    months: Vec<CoarseMonth>,
}

impl CoarseOccurrence {
    /// Creates empty counts.
    pub fn new(grid: &LatLonGrid) -> Self {
        let (rows, columns) = grid.shape();
        let cell_of = (grid.lat_deg().iter())
            .flat_map(|&lat| (grid.lon_deg().iter()).map(move |&lon| coarse_cell(lat, lon) as u16))
            .collect();
        Self {
            rows,
            columns,
            cell_of,
            months: Vec::new(),
        }
    }

    /// Adds a mask.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] if the mask has another shape.
    pub fn add(&mut self, mask: &ClassMask) -> Result<()> {
        if mask.codes.dim() != (self.rows, self.columns) {
            return Err(ClimateError::shapes(
                "mask and coarse frequency map",
                &[self.rows, self.columns],
                mask.codes.shape(),
            ));
        }
        let [cyclone, river] = Class::EVENTS.map(Class::code);
        let cell_of = std::mem::take(&mut self.cell_of);
        let month = self.month(mask.time);
        for (&code, &cell) in mask.codes.iter().zip(&cell_of) {
            if code == cyclone {
                month.marked[0][usize::from(cell)] += 1;
            } else if code == river {
                month.marked[1][usize::from(cell)] += 1;
            }
        }
        self.cell_of = cell_of;
        Ok(())
    }

    /// Removes and returns the months before the given one.
    pub(super) fn take_before(&mut self, year: i64, month: i64) -> Vec<CoarseMonth> {
        let past = (self.months).partition_point(|m| (m.year, m.month) < (year, month));
        self.months.drain(..past).collect()
    }

    /// Adds partial counts of a month.
    pub(super) fn put_back(&mut self, more: &CoarseMonth) {
        let month = self.month_of(more.year, more.month);
        for (mine, theirs) in month.marked.iter_mut().zip(&more.marked) {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        }
    }

    /// Number of grid cells in each coarse cell.
    pub fn cells(&self) -> Vec<u32> {
        let mut cells = vec![0; COARSE_CELLS];
        (self.cell_of.iter()).for_each(|&cell| cells[usize::from(cell)] += 1);
        cells
    }

    /// The counts of a month; `None` if there are none.
    pub fn of_month(&self, year: i64, month: i64) -> Option<&CoarseMonth> {
        let found = (self.months).binary_search_by_key(&(year, month), |m| (m.year, m.month));
        found.ok().map(|index| &self.months[index])
    }

    fn month(&mut self, time: Time) -> &mut CoarseMonth {
        let (year, month, _) = time.date();
        self.month_of(year, month)
    }

    fn month_of(&mut self, year: i64, month: i64) -> &mut CoarseMonth {
        let found = (self.months).binary_search_by_key(&(year, month), |m| (m.year, m.month));
        let index = found.unwrap_or_else(|index| {
            let marked = [vec![0; COARSE_CELLS], vec![0; COARSE_CELLS]];
            let empty = CoarseMonth {
                year,
                month,
                marked,
            };
            self.months.insert(index, empty);
            index
        });
        &mut self.months[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use squall_data::Calendar;

    #[test]
    fn cells_lie_where_their_grid_says() {
        let grid = coarse_grid().unwrap();
        assert_eq!(grid.shape(), (COARSE_ROWS, COARSE_COLUMNS));
        for (j, &lat) in grid.lat_deg().iter().enumerate() {
            for (i, &lon) in grid.lon_deg().iter().enumerate() {
                assert_eq!(coarse_cell(lat, lon), j * COARSE_COLUMNS + i);
            }
        }
        assert_eq!(coarse_cell(90.0, 360.0), (COARSE_ROWS - 1) * COARSE_COLUMNS);
        assert_eq!(coarse_cell(-90.0, -0.001), COARSE_COLUMNS - 1);
    }

    #[test]
    fn a_region_has_the_cells_that_it_reaches_into() {
        let global = LatLonGrid::global(19, 36).unwrap();
        assert!(on_grid(&global).iter().all(|on| *on));
        // From 2°S to 10°N; across 0°E from 350 to 15°E.
        let axis = |from: f64, count: usize| -> Vec<f64> {
            (0..count).map(|k| from + k as f64 + 0.5).collect()
        };
        let lon = axis(350.0, 25).into_iter().map(|lon| lon.rem_euclid(360.0));
        let (grid, _) = LatLonGrid::from_axes(axis(-2.0, 12), lon.collect()).unwrap();
        let on: Vec<(usize, usize)> = (on_grid(&grid).iter().enumerate())
            .filter(|(_, on)| **on)
            .map(|(cell, _)| (cell / COARSE_COLUMNS, cell % COARSE_COLUMNS))
            .collect();
        let rows = 17..20;
        let expected = rows.flat_map(|row| [0, 1, 2, 70, 71].map(|column| (row, column)));
        assert_eq!(on, expected.collect::<Vec<_>>());
    }

    #[test]
    fn counts_are_kept_by_month_and_months_taken_out_come_back() {
        let grid = LatLonGrid::global(37, 72).unwrap();
        let mask = |month: i64, k: usize| {
            let time = Time::new(Calendar::NoLeap, 2001, month, 3, 0, 0, 0).unwrap();
            let codes = Array2::from_shape_fn((37, 72), |(j, i)| ((j + i * k) % 3) as u8);
            ClassMask::new(time, codes).unwrap()
        };
        let mut whole = CoarseOccurrence::new(&grid);
        let mut parts = [whole.clone(), whole.clone()];
        for (month, k) in [(3, 1), (3, 2), (1, 1)] {
            whole.add(&mask(month, k)).unwrap();
            parts[k - 1].add(&mask(month, k)).unwrap();
        }
        let [mut first, mut second] = parts;
        for month in second.take_before(2002, 1) {
            first.put_back(&month);
        }
        assert_eq!(first, whole);
        assert_eq!(whole.months.len(), 2);
        assert_eq!(whole.months[0].month, 1);
        let all: u32 = whole
            .of_month(2001, 1)
            .unwrap()
            .marked
            .iter()
            .flatten()
            .sum();
        assert_eq!(
            all as usize,
            mask(1, 1).codes.iter().filter(|c| **c > 0).count()
        );
        assert_eq!(whole.cells().iter().sum::<u32>(), 37 * 72);
        assert!(whole.of_month(2001, 2).is_none());
        let small = LatLonGrid::global(8, 16).unwrap();
        assert!(CoarseOccurrence::new(&small).add(&mask(1, 1)).is_err());
    }
}
