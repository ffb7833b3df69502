//! Frequency of each class per cell.

use crate::error::{ClimateError, Result};
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};
use squall_data::{Class, ClassMask, LatLonGrid};

/// Number of times at which each cell had each class, accumulated over masks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    rows: usize,
    columns: usize,
    times: u64,
    /// Row by row, for each class of [`Class::EVENTS`].
    counts: [Vec<u32>; 2],
    /// Number of masks in which each cell was missing; empty if none was in any.
    missing: Vec<u32>,
}

impl Occurrence {
    /// Creates empty counts.
    pub fn new(grid: &LatLonGrid) -> Self {
        let (rows, columns) = grid.shape();
        Self {
            rows,
            columns,
            times: 0,
            counts: [vec![0; rows * columns], vec![0; rows * columns]],
            missing: Vec::new(),
        }
    }

    /// Number of masks.
    pub fn times(&self) -> u64 {
        self.times
    }

    /// Adds a mask.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] if the mask has another shape.
    pub fn add(&mut self, mask: &ClassMask) -> Result<()> {
        if mask.codes.dim() != (self.rows, self.columns) {
            return Err(ClimateError::shapes(
                "mask and frequency map",
                &[self.rows, self.columns],
                mask.codes.shape(),
            ));
        }
        // A slice lets the compiler vectorise the loop.
        let codes = mask.codes.as_standard_layout();
        for (counts, class) in self.counts.iter_mut().zip(Class::EVENTS) {
            let code = class.code();
            for (count, &cell) in counts.iter_mut().zip(codes.as_slice().unwrap_or(&[])) {
                *count += u32::from(cell == code);
            }
        }
        self.times += 1;
        Ok(())
    }

    /// Records the cells in which a mask of those added was missing: what is there is unknown.
    ///
    /// # Errors
    /// [`ClimateError::Mismatch`] if they have another shape.
    pub fn leave_out(&mut self, missing: ArrayView2<'_, bool>) -> Result<()> {
        if missing.dim() != (self.rows, self.columns) {
            return Err(ClimateError::shapes(
                "missing cells and frequency map",
                &[self.rows, self.columns],
                missing.shape(),
            ));
        }
        self.missing.resize(self.rows * self.columns, 0);
        for (count, &is_missing) in self.missing.iter_mut().zip(&missing) {
            *count += u32::from(is_missing);
        }
        Ok(())
    }

    /// Share of the cells of all masks that were missing, 0 to 1.
    pub fn missing_share(&self) -> f64 {
        let missing: u64 = self.missing.iter().map(|&count| u64::from(count)).sum();
        let all = self.times * (self.rows * self.columns) as u64;
        missing as f64 / all.max(1) as f64
    }

    /// Share of the times at which each cell had a class, 0 to 1, `(lat, lon)`, among those at which it was not
    /// missing; NaN without such times, and for classes that masks do not contain.
    pub fn frequency(&self, class: Class) -> Array2<f64> {
        let found = Class::EVENTS.iter().position(|known| *known == class);
        Array2::from_shape_fn((self.rows, self.columns), |(j, i)| {
            found.map_or(f64::NAN, |index| {
                let cell = j * self.columns + i;
                let missing = self.missing.get(cell).copied().unwrap_or(0);
                let times = self.times - u64::from(missing);
                f64::from(self.counts[index][cell]) / times as f64
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_data::{Calendar, Time};

    #[test]
    fn shares_add_up() {
        let grid = LatLonGrid::global(5, 8).unwrap();
        let time = Time::new(Calendar::Day360, 2000, 2, 30, 0, 0, 0).unwrap();
        let mask = |k: usize| {
            let codes = Array2::from_shape_fn((5, 8), |(j, i)| ((j * 3 + i * (k + 1)) % 3) as u8);
            ClassMask::new(time, codes).unwrap()
        };
        let mut whole = Occurrence::new(&grid);
        for k in 0..5 {
            whole.add(&mask(k)).unwrap();
        }
        let [cyclones, rivers] = Class::EVENTS.map(|class| whole.frequency(class));
        let mut background = Array2::<f64>::zeros((5, 8));
        for k in 0..5 {
            background += &mask(k)
                .codes
                .mapv(|code| f64::from(u8::from(code == 0)) / 5.0);
        }
        let total = cyclones + rivers + background;
        assert!(total.iter().all(|v| (v - 1.0).abs() < 1e-12));
        // Cell (0, 1) has codes (k + 1) % 3 = 1, 2, 0, 1, 2.
        assert_eq!(whole.frequency(Class::TropicalCyclone)[[0, 1]], 0.4);
        assert!(
            whole
                .add(&ClassMask {
                    time,
                    codes: Array2::zeros((4, 8))
                })
                .is_err()
        );
    }

    #[test]
    fn a_missing_cell_counts_neither_for_nor_against_a_class() {
        let grid = LatLonGrid::global(4, 8).unwrap();
        let time = Time::new(Calendar::NoLeap, 2000, 1, 1, 0, 0, 0).unwrap();
        let mut rivers = Occurrence::new(&grid);
        // The first column has a river at two of four times; of one of the others nothing is known. The last column is
        // never known.
        for step in 0..4 {
            let is_river = |column: usize| column == 0 && step < 2;
            let codes = Array2::from_shape_fn((4, 8), |(_, i)| if is_river(i) { 2 } else { 0 });
            rivers.add(&ClassMask::new(time, codes).unwrap()).unwrap();
            let missing = Array2::from_shape_fn((4, 8), |(_, i)| i == 7 || i == 0 && step == 3);
            rivers.leave_out(missing.view()).unwrap();
        }
        let frequency = rivers.frequency(Class::AtmosphericRiver);
        for row in frequency.rows() {
            assert!((row[0] - 2.0 / 3.0).abs() < 1e-12 && row[7].is_nan());
            assert!((1..7).all(|column| row[column] == 0.0));
        }
        assert_eq!(rivers.missing_share(), 20.0 / 128.0);
        let wrong = Array2::from_elem((8, 4), false);
        assert!(rivers.leave_out(wrong.view()).is_err());
    }
}
