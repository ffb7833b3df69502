//! Counts the members that flag each cell.
//!
//! A member flags the connected areas above a minimum size in which the filtered field reaches its threshold. Three
//! measures make this fast. The filter depends on latitude alone, so each row of the unfiltered field is compared with
//! a threshold of its own. Blocks of cells with known minimum and maximum are accepted or rejected as a whole. Flagged
//! runs are added to row-wise differences, which one prefix sum turns into counts for all members of a thread.

use ndarray::Array2;
use rayon::prelude::*;

/// Cells per block.
const BLOCK: usize = 16;

/// A field prepared for fast thresholding.
#[derive(Debug)]
pub(super) struct Blocks<'a> {
    field: &'a [f32],
    columns: usize,
    per_row: usize,
    /// Minimum and maximum of each block; minus infinity as minimum if a value is missing.
    range: Vec<(f32, f32)>,
    /// Maximum of each row.
    row_max: Vec<f32>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(field: &'a [f32], columns: usize) -> Self {
        let per_row = columns.div_ceil(BLOCK);
        let range: Vec<(f32, f32)> = field
            .par_chunks(columns)
            .with_min_len(16)
            .flat_map_iter(|row| row.chunks(BLOCK).map(block_range))
            .collect();
        let row_max = range
            .chunks(per_row)
            .map(|blocks| blocks.iter().fold(f32::NEG_INFINITY, |m, b| m.max(b.1)));
        Self {
            field,
            columns,
            per_row,
            row_max: row_max.collect(),
            range,
        }
    }

    /// Appends the runs of a row in which the field is at least `least`.
    fn runs(&self, j: usize, least: f32, runs: &mut Vec<(u32, u32)>) {
        if self.row_max[j] < least {
            return;
        }
        let row = &self.field[j * self.columns..(j + 1) * self.columns];
        let blocks = &self.range[j * self.per_row..(j + 1) * self.per_row];
        let mut open: Option<u32> = None;
        for (k, &(smallest, largest)) in blocks.iter().enumerate() {
            let first = (k * BLOCK) as u32;
            if largest < least {
                if let Some(begin) = open.take() {
                    runs.push((begin, first));
                }
            } else if smallest >= least {
                open.get_or_insert(first);
            } else {
                let end = (first as usize + BLOCK).min(self.columns);
                for (i, &value) in (first..).zip(&row[first as usize..end]) {
                    match (value >= least, open) {
                        (true, None) => open = Some(i),
                        (false, Some(begin)) => {
                            runs.push((begin, i));
                            open = None;
                        }
                        _ => {}
                    }
                }
            }
        }
        if let Some(begin) = open {
            runs.push((begin, self.columns as u32));
        }
    }
}

fn block_range(cells: &[f32]) -> (f32, f32) {
    let mut range = (f32::INFINITY, f32::NEG_INFINITY);
    for &value in cells {
        range.1 = if value > range.1 { value } else { range.1 };
        // Written so that NaN becomes the minimum: no comparison with it holds.
        range.0 = if value >= range.0 { range.0 } else { value };
    }
    if range.0.is_nan() || cells.iter().any(|v| v.is_nan()) {
        range.0 = f32::NEG_INFINITY;
    }
    range
}

/// The thresholds of one member for one field.
#[derive(Debug, Clone)]
pub(super) struct MemberThresholds {
    /// Smallest value of each row that counts.
    pub least: Vec<f32>,
    pub min_area_km2: f64,
}

/// The smallest value whose product with `factor` is at least `threshold`.
///
/// Division may be off by an ulp or two, so the search checks adjacent values. Comparing the field with the result is
/// then equivalent to comparing the product.
pub(super) fn smallest_reaching(threshold: f64, factor: f32) -> f32 {
    let reaches = |value: f32| f64::from(value * factor) >= threshold;
    if threshold <= 0.0 {
        return 0.0;
    }
    if factor <= 0.0 || threshold.is_nan() {
        return f32::INFINITY;
    }
    let mut value = (threshold / f64::from(factor)) as f32;
    while value > 0.0 && reaches(value.next_down()) {
        value = value.next_down();
    }
    while value.is_finite() && !reaches(value) {
        value = value.next_up();
    }
    value
}

/// The number of members that flag each cell. Cells connect across edges and corners, and across the seam if `wrap`.
pub(super) fn flag_counts<M>(
    blocks: &Blocks<'_>,
    row_areas_km2: &[f64],
    wrap: bool,
    members: &[M],
    thresholds: impl Fn(&M) -> MemberThresholds + Sync,
) -> Array2<u16>
where
    M: Sync,
{
    let (rows, columns) = (row_areas_km2.len(), blocks.columns);
    let share = members.len().div_ceil(rayon::current_num_threads().max(1));
    let differences = members
        .par_chunks(share.max(1))
        .map(|members| {
            let mut sweep = Sweep::new(rows, columns);
            for member in members {
                sweep.add(blocks, row_areas_km2, wrap, &thresholds(member));
            }
            sweep.differences
        })
        .reduce_with(|mut a, b| {
            a.iter_mut().zip(&b).for_each(|(a, b)| *a += b);
            a
        });
    let differences = differences.unwrap_or_else(|| vec![0; rows * (columns + 1)]);
    let mut counts = Array2::zeros((rows, columns));
    for (mut row, line) in counts.outer_iter_mut().zip(differences.chunks(columns + 1)) {
        let mut count = 0i32;
        for (cell, &difference) in row.iter_mut().zip(line) {
            count += i32::from(difference);
            *cell = count as u16;
        }
    }
    counts
}

/// The buffers of one thread.
struct Sweep {
    /// Has one column more than the field.
    differences: Vec<i16>,
    columns: usize,
    runs: Vec<(u32, u32)>,
    /// Index of the first run of each row, then the number of runs.
    starts: Vec<usize>,
    parent: Vec<u32>,
    area: Vec<f64>,
}

impl Sweep {
    fn new(rows: usize, columns: usize) -> Self {
        Self {
            differences: vec![0; rows * (columns + 1)],
            columns,
            runs: Vec::new(),
            starts: Vec::with_capacity(rows + 1),
            parent: Vec::new(),
            area: Vec::new(),
        }
    }

    fn add(
        &mut self,
        blocks: &Blocks<'_>,
        row_areas_km2: &[f64],
        wrap: bool,
        member: &MemberThresholds,
    ) {
        self.runs.clear();
        self.starts.clear();
        for (j, &least) in member.least.iter().enumerate() {
            self.starts.push(self.runs.len());
            if least.is_finite() {
                blocks.runs(j, least, &mut self.runs);
            }
        }
        self.starts.push(self.runs.len());
        self.parent.clear();
        self.parent.extend(0..self.runs.len() as u32);
        for j in 0..row_areas_km2.len() {
            self.join_row(j, wrap);
        }
        self.area.clear();
        self.area.resize(self.runs.len(), 0.0);
        for (j, row_area) in row_areas_km2.iter().enumerate() {
            for k in self.starts[j]..self.starts[j + 1] {
                // Roots have the smallest index, so all runs before k already point to their root.
                let root = self.parent[self.parent[k] as usize];
                self.parent[k] = root;
                let (first, end) = self.runs[k];
                self.area[root as usize] += f64::from(end - first) * row_area;
            }
        }
        for j in 0..row_areas_km2.len() {
            let line = j * (self.columns + 1);
            for k in self.starts[j]..self.starts[j + 1] {
                if self.area[self.parent[k] as usize] >= member.min_area_km2 {
                    let (first, end) = self.runs[k];
                    self.differences[line + first as usize] += 1;
                    self.differences[line + end as usize] -= 1;
                }
            }
        }
    }

    /// Joins the runs of a row with those they touch in the row to the south, and across the seam.
    fn join_row(&mut self, j: usize, wrap: bool) {
        let here = self.starts[j]..self.starts[j + 1];
        let south = if j == 0 {
            0..0
        } else {
            self.starts[j - 1]..self.starts[j]
        };
        let (mut a, mut b) = (south.start, here.start);
        while a < south.end && b < here.end {
            let (below, run) = (self.runs[a], self.runs[b]);
            if below.0 <= run.1 && run.0 <= below.1 {
                self.join(a, b);
            }
            if below.1 < run.1 {
                a += 1;
            } else {
                b += 1;
            }
        }
        if !wrap || here.is_empty() {
            return;
        }
        let columns = self.columns as u32;
        let begins = self.runs[here.start].0 == 0;
        let ends = self.runs[here.end - 1].1 == columns;
        if begins && ends {
            self.join(here.start, here.end - 1);
        }
        if !south.is_empty() {
            if begins && self.runs[south.end - 1].1 == columns {
                self.join(here.start, south.end - 1);
            }
            if ends && self.runs[south.start].0 == 0 {
                self.join(here.end - 1, south.start);
            }
        }
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b) as u32;
    }

    fn root(&mut self, mut k: usize) -> usize {
        while self.parent[k] as usize != k {
            self.parent[k] = self.parent[self.parent[k] as usize];
            k = self.parent[k] as usize;
        }
        k
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::patches::{Touch, patches, row_runs};
    use proptest::prelude::*;

    /// The reference: connected components of the filtered field, per member.
    fn by_components(
        field: &[f32],
        columns: usize,
        areas: &[f64],
        wrap: bool,
        members: &[(f64, Vec<f32>, f64)],
    ) -> Array2<u16> {
        let rows = areas.len();
        let mut counts = Array2::<u16>::zeros((rows, columns));
        for (threshold, factors, min_area) in members {
            let lines: Vec<_> = (0..rows)
                .map(|j| {
                    let row = &field[j * columns..(j + 1) * columns];
                    row_runs(row.iter().map(|v| f64::from(v * factors[j]) >= *threshold))
                })
                .collect();
            let touch = Touch {
                corners: true,
                wrap,
            };
            for piece in patches(&lines, columns as u32, touch) {
                let area: f64 = piece
                    .iter()
                    .map(|run| run.cells() as f64 * areas[run.row as usize])
                    .sum();
                if area >= *min_area {
                    for cell in piece.iter().flat_map(|run| run.indices()) {
                        counts[cell] += 1;
                    }
                }
            }
        }
        counts
    }

    proptest! {
        #[test]
        fn counts_agree_with_components_per_member(
            cells in proptest::collection::vec(prop_oneof![9 => 0.0f32..8.0, 1 => Just(f32::NAN)], 9 * 37),
            coarse in any::<bool>(),
            wrap in any::<bool>(),
            members in proptest::collection::vec((0.5f64..6.0, proptest::collection::vec(0.3f32..1.0, 9), 1.0f64..60.0), 1..7),
        ) {
            // Coarse fields have larger pieces and many equal values.
            let field: Vec<f32> = cells.iter().enumerate().map(|(k, v)| {
                if coarse { cells[k - k % 5].round() } else { *v }
            }).collect();
            let areas: Vec<f64> = (0..9).map(|j| 1.0 + 0.1 * f64::from(j)).collect();
            let blocks = Blocks::new(&field, 37);
            let found = flag_counts(&blocks, &areas, wrap, &members, |(threshold, factors, area)| MemberThresholds {
                least: factors.iter().map(|f| smallest_reaching(*threshold, *f)).collect(),
                min_area_km2: *area,
            });
            prop_assert_eq!(found, by_components(&field, 37, &areas, wrap, &members));
        }

        #[test]
        fn the_smallest_value_is_the_smallest(threshold in 1e-3f64..2000.0, factor in 1e-4f32..1.0) {
            let least = smallest_reaching(threshold, factor);
            prop_assert!(f64::from(least * factor) >= threshold);
            prop_assert!(f64::from(least.next_down() * factor) < threshold);
        }
    }

    #[test]
    fn filters_that_let_nothing_through() {
        assert_eq!(smallest_reaching(1.0, 0.0), f32::INFINITY);
        assert_eq!(smallest_reaching(f64::NAN, 1.0), f32::INFINITY);
        assert_eq!(smallest_reaching(0.0, 0.0), 0.0);
    }
}
