//! Kernel gradients computed in bands of rows, so that no sum is long.
//!
//! Tensor cores accumulate in f32 but truncate instead of rounding, and the truncation error always has the sign of the
//! sum. Over the 885 thousand pixels of 768 x 1152 the error on an H200 is 1e-3, five times that of rounding the result
//! to f16. Partial sums are therefore added in f32 by a kernel that rounds.

use super::library::Direction;
use super::problem::Problem;
use crate::error::Result;
use candle_core::{DType, Tensor};
use std::ops::Range;

/// The maximum number of pixels that tensor cores sum: their error is then about three times that of rounding to f16.
const MOST_PIXELS: usize = 1 << 19;

/// Some rows of some samples: one partial sum of a kernel gradient.
#[derive(Debug, Clone)]
pub(in super::super) struct Band {
    samples: Range<usize>,
    /// Rows of x that the kernels read.
    x_rows: Range<usize>,
    /// Rows of y.
    y_rows: Range<usize>,
    /// The problem passed to cuDNN.
    pub(in super::super) problem: Problem,
}

impl Band {
    /// The values of x and of dy in this band.
    pub(in super::super) fn slices(
        &self,
        whole: &Problem,
        x: &Tensor,
        dy: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let rows = |tensor: &Tensor, [b, h, w, c]: [usize; 4], rows: &Range<usize>| {
            let values = tensor.reshape((b * h, w * c))?;
            // Either some rows of one sample, or all rows of several.
            let first = self.samples.start * h + rows.start;
            values.narrow(0, first, self.samples.len() * rows.len())
        };
        let x = rows(x, whole.x, &self.x_rows)?;
        Ok((x, rows(dy, whole.y, &self.y_rows)?))
    }
}

impl Problem {
    /// The bands whose sum is a kernel gradient, given a workspace limit in bytes.
    pub(in super::super) fn bands(&self, most_memory: usize) -> Vec<Band> {
        debug_assert_eq!(self.direction, Direction::BackwardFilter);
        self.bands_of(most_memory, MOST_PIXELS)
    }

    fn bands_of(&self, most_memory: usize, most_pixels: usize) -> Vec<Band> {
        let [_, p, q, _] = self.y;
        let by_matrix_units = self.dtype != DType::F32 || self.tf32;
        let most_samples = match by_matrix_units {
            true => (most_pixels / (p * q).max(1)).max(1),
            false => usize::MAX,
        };
        let parts = self.parts_of_samples(most_memory, most_samples);
        // A single sample that is too large is cut.
        let cuts = match by_matrix_units && most_samples == 1 {
            true => (p * q).div_ceil(most_pixels).clamp(1, p.max(1)),
            false => 1,
        };
        let bands = parts.into_iter().flat_map(|(samples, part)| {
            let rows = p.div_ceil(cuts).max(1);
            let starts = (0..p).step_by(rows);
            starts.map(move |first| part.band(samples.clone(), first..p.min(first + rows)))
        });
        bands.collect()
    }

    /// A range of rows of y, and the rows of x that its kernels read.
    fn band(&self, samples: Range<usize>, y_rows: Range<usize>) -> Band {
        let [_, h, w, c] = self.x;
        let [_, p, q, o] = self.y;
        if y_rows == (0..p) {
            // The unchanged problem, including rows that no kernel reads.
            return Band {
                samples,
                x_rows: 0..h,
                y_rows,
                problem: *self,
            };
        }
        let (above, reach) = (self.padding.0, self.dilation * (self.kernel.0 - 1) + 1);
        // Counted from the first row of padding.
        let seen = y_rows.start * self.stride..(y_rows.end - 1) * self.stride + reach;
        let x_rows = seen.start.saturating_sub(above).min(h)..seen.end.saturating_sub(above).min(h);
        let problem = Self {
            x: [samples.len(), x_rows.len(), w, c],
            y: [samples.len(), y_rows.len(), q, o],
            padding: (above.saturating_sub(seen.start), self.padding.1),
            padding_below: seen.end.saturating_sub(above + h),
            ..*self
        };
        Band {
            samples,
            x_rows,
            y_rows,
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem(dtype: DType, batch: usize, [h, w]: [usize; 2]) -> Problem {
        Problem {
            direction: Direction::BackwardFilter,
            dtype,
            tf32: false,
            x: [batch, h, w, 8],
            y: [batch, h, w, 8],
            kernel: (3, 3),
            padding: (1, 1),
            padding_below: 1,
            stride: 1,
            dilation: 1,
            groups: 1,
            ending: None,
        }
    }

    #[test]
    fn no_sum_of_matrix_units_is_long() {
        let counts = |problem: &Problem| -> Vec<usize> {
            let pixels = |band: &Band| band.samples.len() * band.y_rows.len() * problem.y[2];
            problem.bands(1 << 30).iter().map(pixels).collect()
        };
        let large = problem(DType::BF16, 2, [768, 1152]);
        assert_eq!(counts(&large), [442_368; 4]);
        let tf32 = Problem {
            tf32: true,
            ..problem(DType::F32, 2, [768, 1152])
        };
        assert_eq!(counts(&tf32), [442_368; 4]);
        // What rounds may sum for long.
        let f32s = problem(DType::F32, 2, [768, 1152]);
        assert_eq!(counts(&f32s), [2 * 768 * 1152]);
        let small = problem(DType::F16, 40, [48, 72]);
        assert_eq!(counts(&small), [40 * 48 * 72]);
        let many = problem(DType::F16, 8, [384, 576]);
        assert_eq!(counts(&many), [2 * 384 * 576; 4]);
    }

    proptest! {
        /// Every row of y meets every tap in one band, with the row of x that it meets in the whole.
        #[test]
        fn bands_see_what_the_whole_sees(
            (h, kernel, stride, dilation) in (5usize..40, 1usize..5, 1usize..4, 1usize..4),
            (pad, batch, most) in (0usize..5, 1usize..4, 1usize..90),
        ) {
            let reach = dilation * (kernel - 1) + 1;
            prop_assume!(pad < reach && h + 2 * pad >= reach);
            let p = (h + 2 * pad - reach) / stride + 1;
            let whole = Problem {
                x: [batch, h, 3, 8],
                y: [batch, p, 3, 8],
                kernel: (kernel, 1),
                padding: (pad, 0),
                padding_below: pad,
                stride,
                dilation,
                ..problem(DType::F16, batch, [h, 3])
            };
            let meets = |problem: &Problem, row: usize, tap: usize| {
                let at = (row * stride + tap * dilation).checked_sub(problem.padding.0)?;
                (at < problem.x[1]).then_some(at)
            };
            let mut next = (0, 0);
            for band in whole.bands_of(1 << 30, most) {
                prop_assert_eq!((band.samples.start, band.y_rows.start), next);
                let part = &band.problem;
                prop_assert_eq!(part.x[..2].to_vec(), vec![band.samples.len(), band.x_rows.len()]);
                prop_assert_eq!(part.y[..2].to_vec(), vec![band.samples.len(), band.y_rows.len()]);
                // As cuDNN counts the rows of a result.
                let rows = (part.x[1] + part.padding.0 + part.padding_below - reach) / stride + 1;
                prop_assert_eq!(rows, part.y[1]);
                for row in band.y_rows.clone() {
                    for tap in 0..kernel {
                        let inside = meets(part, row - band.y_rows.start, tap);
                        prop_assert_eq!(
                            inside.map(|at| at + band.x_rows.start),
                            meets(&whole, row, tap)
                        );
                    }
                }
                next = match band.y_rows.end == p {
                    true => (band.samples.end, 0),
                    false => (band.samples.start, band.y_rows.end),
                };
            }
            prop_assert_eq!(next, (batch, 0));
        }
    }
}
