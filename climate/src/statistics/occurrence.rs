//! Frequency of each class per cell.

use crate::error::{ClimateError, Result};
use ndarray::Array2;
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

    /// Share of the times at which each cell had a class, 0 to 1, `(lat, lon)`; NaN without times, and for classes that
    /// masks do not contain.
    pub fn frequency(&self, class: Class) -> Array2<f64> {
        let found = Class::EVENTS.iter().position(|known| *known == class);
        Array2::from_shape_fn((self.rows, self.columns), |(j, i)| {
            found.map_or(f64::NAN, |index| {
                f64::from(self.counts[index][j * self.columns + i]) / self.times as f64
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
}
