//! Duration and intensity of rivers over each cell.

use super::seen::is_river;
use crate::events::DetectedEvent;
use crate::statistics::{RIVER_SCALE_MIN_IVT_KG_M_S, river_scale};
use serde::{Deserialize, Serialize};
use squall_data::LatLonGrid;
use std::collections::BTreeSet;

/// For every cell under a river: for how long its transport has been at least 250 kg m-1 s-1 without interruption, and
/// the highest transport. Memory is three numbers per cell, independent of the length of the run; only active cells are
/// saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub(super) struct RiverPlaces {
    columns: usize,
    hours: Vec<f32>,
    max_ivt: Vec<f32>,
    /// The active cells, ascending.
    active: Vec<u32>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Saved {
    cells: usize,
    columns: usize,
    /// Cell, hours, highest transport.
    active: Vec<(u32, f32, f32)>,
}

impl RiverPlaces {
    /// The cells of a grid, without rivers.
    pub fn new(grid: &LatLonGrid) -> Self {
        let (rows, columns) = grid.shape();
        Self {
            columns,
            hours: vec![0.0; rows * columns],
            max_ivt: vec![0.0; rows * columns],
            active: Vec::new(),
        }
    }

    /// Adds a time that represents `hours`, and sets the rank of every river. `transport` has the values of the cells
    /// of all rivers, river by river.
    pub fn add(&mut self, found: &mut [DetectedEvent], hours: f64, transport: &[f64]) {
        let mut next: Vec<(u32, f32, f32)> = Vec::new();
        let mut transport = transport.iter();
        for DetectedEvent { event, region, .. } in found.iter_mut().filter(|one| is_river(one)) {
            for ((j, i), &ivt) in region.indices().zip(&mut transport) {
                if ivt.is_nan() || ivt < RIVER_SCALE_MIN_IVT_KG_M_S {
                    continue;
                }
                let cell = j * self.columns + i;
                let stay = self.hours[cell] + hours as f32;
                let most = self.max_ivt[cell].max(ivt as f32);
                let rank = river_scale(f64::from(most), f64::from(stay));
                event.details.river_scale = event.details.river_scale.max(rank);
                next.push((cell as u32, stay, most));
            }
        }
        self.reset();
        next.sort_unstable_by_key(|&(cell, _, _)| cell);
        self.set_active(&next);
    }

    /// The rank that rivers have reached at a cell (row, column) without a break until now.
    pub fn rank(&self, (row, column): (u32, u32)) -> Option<u8> {
        let cell = row as usize * self.columns + column as usize;
        let (max_ivt, hours) = (self.max_ivt.get(cell)?, self.hours.get(cell)?);
        river_scale(f64::from(*max_ivt), f64::from(*hours))
    }

    /// At a time without known transport, resets the cells not covered by a river.
    pub fn keep_covered(&mut self, found: &[DetectedEvent]) {
        if self.active.is_empty() {
            return;
        }
        let rivers = found.iter().filter(|one| is_river(one));
        let covered: BTreeSet<u32> = (rivers.flat_map(|river| river.region.indices()))
            .map(|(j, i)| (j * self.columns + i) as u32)
            .collect();
        let kept: Vec<(u32, f32, f32)> = (self.active.iter())
            .filter(|cell| covered.contains(cell))
            .map(|&cell| (cell, self.hours[cell as usize], self.max_ivt[cell as usize]))
            .collect();
        self.reset();
        self.set_active(&kept);
    }

    /// Resets all cells.
    pub fn reset(&mut self) {
        for cell in self.active.drain(..) {
            (self.hours[cell as usize], self.max_ivt[cell as usize]) = (0.0, 0.0);
        }
    }

    fn set_active(&mut self, active: &[(u32, f32, f32)]) {
        for &(cell, hours, max_ivt) in active {
            if let (Some(h), Some(m)) = (
                self.hours.get_mut(cell as usize),
                self.max_ivt.get_mut(cell as usize),
            ) {
                (*h, *m) = (hours, max_ivt);
                self.active.push(cell);
            }
        }
    }
}

impl From<RiverPlaces> for Saved {
    fn from(places: RiverPlaces) -> Self {
        let of = |&cell: &u32| {
            let at = cell as usize;
            (cell, places.hours[at], places.max_ivt[at])
        };
        Self {
            cells: places.hours.len(),
            columns: places.columns,
            active: places.active.iter().map(of).collect(),
        }
    }
}

impl From<Saved> for RiverPlaces {
    fn from(saved: Saved) -> Self {
        let mut places = Self {
            columns: saved.columns,
            hours: vec![0.0; saved.cells],
            max_ivt: vec![0.0; saved.cells],
            active: Vec::new(),
        };
        places.set_active(&saved.active);
        places
    }
}
