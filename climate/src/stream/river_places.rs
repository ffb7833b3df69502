//! How long and how strongly a river has been over each cell.

use super::seen::is_river;
use crate::events::DetectedEvent;
use crate::statistics::{RIVER_SCALE_MIN_IVT_KG_M_S, river_scale};
use serde::{Deserialize, Serialize};
use squall_data::LatLonGrid;
use std::collections::BTreeSet;

/// For every cell under a river: the time for which its transport has been 250 kg m-1 s-1 or more without a break, and
/// the highest. Three numbers for each cell, whatever the length of the run; saved are only the cells that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub(super) struct RiverPlaces {
    columns: usize,
    hours: Vec<f32>,
    max_ivt: Vec<f32>,
    /// The cells that count, ascending.
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
    /// The places of a grid, without a river anywhere.
    pub fn new(grid: &LatLonGrid) -> Self {
        let (rows, columns) = grid.shape();
        Self {
            columns,
            hours: vec![0.0; rows * columns],
            max_ivt: vec![0.0; rows * columns],
            active: Vec::new(),
        }
    }

    /// Adds a time that stands for some hours and writes the rank of every river. `transport` is that of the cells of
    /// every river, river by river.
    pub fn add(&mut self, found: &mut [DetectedEvent], hours: f64, transport: &[f64]) {
        let mut next: Vec<(u32, f32, f32)> = Vec::new();
        let mut transport = transport.iter();
        for DetectedEvent { event, region } in found.iter_mut().filter(|one| is_river(one)) {
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
        self.forget();
        next.sort_unstable_by_key(|&(cell, _, _)| cell);
        self.remember(&next);
    }

    /// Ends the stays of cells that no river covers at a time whose transport is not known.
    pub fn stay_under(&mut self, found: &[DetectedEvent]) {
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
        self.forget();
        self.remember(&kept);
    }

    /// Forgets all stays.
    pub fn forget(&mut self) {
        for cell in self.active.drain(..) {
            (self.hours[cell as usize], self.max_ivt[cell as usize]) = (0.0, 0.0);
        }
    }

    fn remember(&mut self, active: &[(u32, f32, f32)]) {
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
        places.remember(&saved.active);
        places
    }
}
