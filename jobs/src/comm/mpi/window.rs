//! A window whose sums read the neighbours' memory straight.

use super::ffi::Segments;
use crate::comm::{Result, Window};
use std::ops::Range;

/// Sums go over so many values at a time, so that they stay in the first-level cache between two ranks.
const BLOCK: usize = 2048;

/// Shared memory of one node's ranks.
pub(super) struct NodeWindow {
    segments: Segments,
}

impl NodeWindow {
    pub fn new(segments: Segments) -> Self {
        Self { segments }
    }
}

impl Window for NodeWindow {
    fn write(&mut self, at: usize, values: &[f32]) {
        let part = at..at + values.len();
        self.segments.own(part).copy_from_slice(values);
    }

    fn sum(&self, range: Range<usize>, into: &mut [f32]) {
        let ranks = self.segments.group.size;
        for (start, block) in range.step_by(BLOCK).zip(into.chunks_mut(BLOCK)) {
            let part = start..start + block.len();
            block.copy_from_slice(self.segments.of(0, part.clone()));
            for rank in 1..ranks {
                for (sum, value) in block.iter_mut().zip(self.segments.of(rank, part.clone())) {
                    *sum += value;
                }
            }
        }
    }

    fn read(&self, rank: usize, range: Range<usize>, into: &mut [f32]) {
        into.copy_from_slice(self.segments.of(rank, range));
    }

    fn sync(&mut self) -> Result<()> {
        self.segments.sync()
    }
}
