//! Exact percentiles of a field times a factor per row, for many sets of factors, with a single sort.
//!
//! Each row is sorted once into bins of equal ratio, largest first, with cumulative counts. For a set of factors, a few
//! dozen sums over rows bracket the value of the wanted rank between bins; only the cells in the bracket, one in some
//! hundreds, are multiplied and selected from.

use rayon::prelude::*;

const BINS: usize = 1024;

/// A field prepared for percentiles.
#[derive(Debug)]
pub(super) struct RowRanks {
    rows: Vec<RankedRow>,
    /// Number of cells with values.
    cells: usize,
    /// Bins per unit of the natural logarithm.
    per_unit: f64,
}

#[derive(Debug)]
struct RankedRow {
    /// Number of cells at or above each bin; two trailing zeros.
    at_least: Vec<u16>,
    /// The cells in descending order of bins, unordered within a bin.
    sorted: Vec<f32>,
}

impl RowRanks {
    /// Bins a field of rows of equal length. Missing values are left out; negative ones count as 0.
    pub(super) fn new(field: &[f32], columns: usize) -> Self {
        let largest = field
            .par_chunks(columns)
            .map(|row| row.iter().copied().fold(0f32, f32::max))
            .reduce(|| 0.0, f32::max);
        // Four decades: values below a ten-thousandth of the maximum are irrelevant for the percentiles in use.
        let high = f64::from(largest.max(f32::MIN_POSITIVE)).ln();
        let low = high - 1e4f64.ln();
        let per_unit = (BINS - 2) as f64 / (high - low);
        let bin = |value: f32| {
            // Only monotonicity in the value matters.
            let place = (f64::from(value).ln() - low) * per_unit;
            if place > 0.0 {
                (place as usize + 1).min(BINS - 1)
            } else {
                0
            }
        };
        let rank = |row: &[f32]| {
            let finite = row.iter().copied().filter(|v| !v.is_nan());
            let binned: Vec<(u16, f32)> = finite
                .map(|v| v.max(0.0))
                .map(|v| (bin(v) as u16, v))
                .collect();
            let mut at_least = vec![0u16; BINS + 2];
            for &(bin, _) in &binned {
                at_least[usize::from(bin)] += 1;
            }
            for k in (0..BINS).rev() {
                at_least[k] += at_least[k + 1];
            }
            let mut next = at_least.clone();
            let mut sorted = vec![0.0; binned.len()];
            for (bin, value) in binned {
                // The cells of a bin start at the count above it.
                let place = &mut next[usize::from(bin) + 1];
                sorted[usize::from(*place)] = value;
                *place += 1;
            }
            RankedRow { at_least, sorted }
        };
        let rows: Vec<RankedRow> = field.par_chunks(columns).map(rank).collect();
        Self {
            cells: rows.iter().map(|row| row.sorted.len()).sum(),
            rows,
            per_unit,
        }
    }

    /// The percentile (0 to 100) of field · factor as defined by numpy and TECA: linear between the two nearest ranks.
    /// NaN if all values are missing. `log_factors` are the natural logarithms of `factors`.
    pub(super) fn percentile(&self, factors: &[f32], log_factors: &[f64], percent: f64) -> f64 {
        if self.cells == 0 {
            return f64::NAN;
        }
        let position = (self.cells - 1) as f64 * percent / 100.0;
        let rank = (position as usize).min(self.cells - 1);
        let share = position - rank as f64;
        // Ranks from the top, starting at 1: the lower neighbour of the position and the next higher one.
        let lower = self.cells - rank;
        let upper = (lower - 1).max(1);
        let [y0, y1] = self.largest(factors, log_factors, lower, upper);
        y0 + (y1 - y0) * share
    }

    /// The `lower`-th and `upper`-th largest products; `upper` ≤ `lower`.
    fn largest(&self, factors: &[f32], logs: &[f64], lower: usize, upper: usize) -> [f64; 2] {
        // Positions in units of bins; a factor of 1 leaves the bins of the field unchanged.
        let place = |row: usize, x: f64| {
            let bin = x - logs[row] * self.per_unit;
            // Bin 0 has no lower bound, and bins from BINS on are empty.
            (bin.max(0.0) as usize).min(BINS)
        };
        let sure = |x: f64| -> usize {
            let rows = self.rows.iter().enumerate();
            rows.map(|(j, row)| usize::from(row.at_least[place(j, x) + 1]))
                .sum()
        };
        let possible = |x: f64| -> usize {
            let rows = self.rows.iter().enumerate();
            rows.map(|(j, row)| usize::from(row.at_least[place(j, x)]))
                .sum()
        };
        // Bracket: the smallest x above which there may be fewer than `upper` cells, and the largest above which there
        // are certainly `lower`.
        let mut top = (0.0, BINS as f64 + 1.0);
        while top.1 - top.0 > 1.0 {
            let middle = 0.5 * (top.0 + top.1);
            if possible(middle) < upper {
                top.1 = middle;
            } else {
                top.0 = middle;
            }
        }
        let mut bottom = (1.0, top.1);
        let enclosed = sure(bottom.0) >= lower;
        while enclosed && bottom.1 - bottom.0 > 1.0 {
            let middle = 0.5 * (bottom.0 + bottom.1);
            if sure(middle) >= lower {
                bottom.0 = middle;
            } else {
                bottom.1 = middle;
            }
        }
        // One extra bin on either side, so that rounding of products cannot move a cell out of the bracket.
        let (from, to) = (bottom.0 - 1.0, top.1 + 1.0);
        let mut above = 0;
        let mut between: Vec<f32> = Vec::with_capacity(self.cells / 128);
        for (j, row) in self.rows.iter().enumerate() {
            let high = row.at_least[place(j, to) + 1];
            let low = if enclosed && from > 0.0 {
                row.at_least[place(j, from)]
            } else {
                row.at_least[0]
            };
            above += usize::from(high);
            let cells = &row.sorted[usize::from(high)..usize::from(low.max(high))];
            between.extend(cells.iter().map(|&value| value * factors[j]));
        }
        if between.is_empty() {
            return [f64::NAN; 2];
        }
        [lower, upper].map(|rank| {
            let index = rank.saturating_sub(above + 1).min(between.len() - 1);
            let (_, value, _) = between.select_nth_unstable_by(index, |a, b| b.total_cmp(a));
            f64::from(*value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_sorting(field: &[f32], columns: usize, factors: &[f32], percent: f64) -> f64 {
        let mut products: Vec<f32> = field
            .iter()
            .enumerate()
            .filter(|(_, v)| !v.is_nan())
            .map(|(k, v)| v.max(0.0) * factors[k / columns])
            .collect();
        products.sort_by(f32::total_cmp);
        let position = (products.len() - 1) as f64 * percent / 100.0;
        let k = (position as usize).min(products.len() - 1);
        let next = (k + 1).min(products.len() - 1);
        let (a, b) = (f64::from(products[k]), f64::from(products[next]));
        a + (b - a) * (position - k as f64)
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_sorting(
            values in proptest::collection::vec(prop_oneof![5 => 0.0f32..1000.0, 1 => Just(0.0), 1 => 0.0f32..1e-3, 1 => Just(f32::NAN)], 30 * 16),
            factors in proptest::collection::vec(prop_oneof![8 => 1e-4f32..1.0, 1 => Just(0.0f32)], 30),
            percent in 0.0f64..=100.0,
        ) {
            let logs: Vec<f64> = factors.iter().map(|f| f64::from(*f).ln()).collect();
            let ranks = RowRanks::new(&values, 16);
            let found = ranks.percentile(&factors, &logs, percent);
            let expected = by_sorting(&values, 16, &factors, percent);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn nothing_has_no_percentile() {
        let ranks = RowRanks::new(&[f32::NAN; 8], 4);
        assert!(ranks.percentile(&[1.0; 2], &[0.0; 2], 90.0).is_nan());
        let zeros = RowRanks::new(&[0.0; 8], 4);
        assert_eq!(zeros.percentile(&[1.0; 2], &[0.0; 2], 90.0), 0.0);
    }
}
