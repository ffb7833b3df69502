//! Connected components of a class mask on the sphere.
//!
//! Two cells are connected if they have the same class and share an edge or a corner (8-neighbour). Longitude wraps on
//! periodic grids. The poles are closed: cells do not connect across them.
//!
//! Method: one pass finds the runs of equal class in every row, skipping background eight cells at a time. Each run is
//! joined with the touching runs of the row south of it in a union-find forest, whose trees are the components. Apart
//! from reading the mask, the work is proportional to the number of runs, not cells.
//! Source: He, Chao, Suzuki 2008, "A Run-Based Two-Scan Labeling Algorithm", IEEE Trans. Image Process. 17(5).

use crate::error::{ClimateError, Result};
use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};
use squall_data::{Class, LatLonGrid};
use std::ops::Range;

/// A run of neighbouring cells in one row: columns `first..end`. A run never crosses the seam; cells on both sides are
/// two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Run {
    /// Row, south to north.
    pub row: u32,
    /// First column.
    pub first: u32,
    /// One past the last column.
    pub end: u32,
}

impl Run {
    /// Number of cells.
    pub fn cells(self) -> usize {
        (self.end - self.first) as usize
    }

    /// Row and column of each cell.
    pub fn indices(self) -> impl Iterator<Item = (usize, usize)> {
        (self.first..self.end).map(move |i| (self.row as usize, i as usize))
    }
}

/// A connected component of one class: its cells as runs, sorted by row, then column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// The class of all its cells.
    pub class: Class,
    /// Its cells; never empty.
    pub runs: Vec<Run>,
}

impl Region {
    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.runs.iter().map(|run| run.cells()).sum()
    }

    /// Area on the sphere, km². `row_areas_km2` comes from [`LatLonGrid::row_areas_km2`].
    pub fn area_km2(&self, row_areas_km2: &[f64]) -> f64 {
        self.runs
            .iter()
            .map(|run| run.cells() as f64 * row_areas_km2[run.row as usize])
            .sum()
    }

    /// Row and column of each cell.
    pub fn indices(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.runs.iter().flat_map(|run| run.indices())
    }

    /// Area shared with another region of the same grid, km².
    pub fn overlap_km2(&self, other: &Self, row_areas_km2: &[f64]) -> f64 {
        let (mut a, mut b) = (self.runs.as_slice(), other.runs.as_slice());
        let mut total = 0.0;
        while let (Some(x), Some(y)) = (a.first(), b.first()) {
            if x.row == y.row {
                let shared = x.end.min(y.end).saturating_sub(x.first.max(y.first));
                total += f64::from(shared) * row_areas_km2[x.row as usize];
            }
            // The run that ends first cannot overlap any later run of the other list.
            if (x.row, x.end) <= (y.row, y.end) {
                a = &a[1..];
            } else {
                b = &b[1..];
            }
        }
        total
    }
}

/// Returns the connected components of every class except background, in scan order of their southernmost, westernmost
/// run.
///
/// # Errors
/// [`ClimateError::Mismatch`] if the mask does not have the grid's shape, [`ClimateError::Invalid`] for an unknown
/// class code.
///
/// # Example
/// ```
/// use ndarray::arr2;
/// use squall_data::LatLonGrid;
/// let grid = LatLonGrid::global(4, 4).unwrap();
/// // One cyclone across the seam, one river that touches it without joining it.
/// let codes = arr2(&[[0, 0, 0, 0], [1, 2, 0, 1], [0, 2, 0, 0], [0, 0, 0, 0]]);
/// let found = squall_climate::events::regions(codes.view(), &grid).unwrap();
/// assert_eq!(found.iter().map(|r| r.cells()).collect::<Vec<_>>(), [2, 2]);
/// ```
pub fn regions(codes: ArrayView2<'_, u8>, grid: &LatLonGrid) -> Result<Vec<Region>> {
    if codes.dim() != grid.shape() {
        let (rows, columns) = grid.shape();
        return Err(ClimateError::shapes(
            "mask and grid",
            &[rows, columns],
            codes.shape(),
        ));
    }
    let standard = codes.as_standard_layout();
    let cells = standard.as_slice().unwrap_or(&[]);
    let columns = codes.ncols();
    let mut runs = Vec::new();
    for (row, line) in cells.chunks_exact(columns).enumerate() {
        append_runs(line, row as u32, &mut runs);
    }
    let touch = Touch {
        corners: true,
        wrap: grid.is_periodic(),
    };
    let region = |(code, runs): (u8, Vec<Run>)| match Class::from_code(code) {
        Some(class) => Ok(Region { class, runs }),
        None => Err(ClimateError::Invalid(format!(
            "mask holds class code {code}, expected 0 (background), 1 (tropical cyclone) or 2 (atmospheric river)"
        ))),
    };
    let found = pieces(&runs, columns as u32, touch).into_iter();
    found.map(region).collect()
}

/// Appends the runs of non-zero codes of one row.
fn append_runs(line: &[u8], row: u32, runs: &mut Vec<(Run, u8)>) {
    let mut i = 0;
    while i < line.len() {
        if line[i] == 0 {
            // Most of a mask is background, so skip eight cells at a time.
            match line.get(i..i + 8) {
                Some(eight) if eight == [0; 8] => i += 8,
                _ => i += 1,
            }
            continue;
        }
        let (first, code) = (i, line[i]);
        while i < line.len() && line[i] == code {
            i += 1;
        }
        let run = Run {
            row,
            first: first as u32,
            end: i as u32,
        };
        runs.push((run, code));
    }
}

/// Which cells of a plane count as connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    /// Cells that share a corner.
    pub corners: bool,
    /// Cells of the last and the first column.
    pub wrap: bool,
}

/// The connected components of runs of equal code, each with its code, ordered by first run. `runs` are sorted by row
/// and column, and so are the runs of each component.
pub(crate) fn pieces(runs: &[(Run, u8)], columns: u32, touch: Touch) -> Vec<(u8, Vec<Run>)> {
    let mut forest = Forest::default();
    forest.grow(runs.len());
    let mut south = 0..0;
    for row in runs.chunk_by(|a, b| a.0.row == b.0.row) {
        let here = south.end..south.end + row.len();
        let is_next = !south.is_empty() && runs[south.start].0.row + 1 == row[0].0.row;
        if is_next {
            join_rows(
                runs,
                south.clone(),
                here.clone(),
                touch.corners,
                &mut forest,
            );
        }
        if touch.wrap {
            let diagonal = (is_next && touch.corners).then_some(south);
            join_seam(runs, diagonal, here.clone(), columns, &mut forest);
        }
        south = here;
    }
    let mut number = vec![usize::MAX; runs.len()];
    let mut found: Vec<(u8, Vec<Run>)> = Vec::new();
    for (index, &(run, code)) in runs.iter().enumerate() {
        let root = forest.root(index);
        if number[root] == usize::MAX {
            number[root] = found.len();
            found.push((code, Vec::new()));
        }
        found[number[root]].1.push(run);
    }
    found
}

/// Joins the runs of a row with runs of the row south of it that share an edge or, if `corners` is set, a corner.
fn join_rows(
    runs: &[(Run, u8)],
    south: Range<usize>,
    here: Range<usize>,
    corners: bool,
    forest: &mut Forest,
) {
    let slack = u32::from(corners);
    let mut below = south.start;
    for index in here {
        let (run, code) = runs[index];
        while below < south.end && runs[below].0.end + slack <= run.first {
            below += 1;
        }
        let mut other = below;
        while other < south.end && runs[other].0.first < run.end + slack {
            if runs[other].1 == code {
                forest.join(index, other);
            }
            other += 1;
        }
    }
}

/// Joins runs across the seam: the last run of a row with the first one and, if `south` is given because corners count,
/// each with those of the row south of it at the other end.
fn join_seam(
    runs: &[(Run, u8)],
    south: Option<Range<usize>>,
    here: Range<usize>,
    columns: u32,
    forest: &mut Forest,
) {
    let starts = |range: &Range<usize>| (runs[range.start].0.first == 0).then_some(range.start);
    let ends = |range: &Range<usize>| (runs[range.end - 1].0.end == columns).then(|| range.end - 1);
    let south = south.as_ref();
    let meetings = [
        (ends(&here), starts(&here)),
        (ends(&here), south.and_then(starts)),
        (starts(&here), south.and_then(ends)),
    ];
    for (a, b) in meetings {
        if let (Some(a), Some(b)) = (a, b)
            && runs[a].1 == runs[b].1
        {
            forest.join(a, b);
        }
    }
}

/// Union-find with path halving. The smaller index becomes the root, so roots come in scan order.
#[derive(Default)]
pub(crate) struct Forest {
    parent: Vec<u32>,
}

impl Forest {
    /// Adds single-node trees until there are `len` nodes.
    pub fn grow(&mut self, len: usize) {
        self.parent.extend(self.parent.len() as u32..len as u32);
    }

    /// The root of a node's tree.
    pub fn root(&mut self, index: usize) -> usize {
        let mut node = index;
        while self.parent[node] as usize != node {
            self.parent[node] = self.parent[self.parent[node] as usize];
            node = self.parent[node] as usize;
        }
        node
    }

    /// Merges the trees of two nodes.
    pub fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use proptest::prelude::*;
    use squall_data::LatLonGrid;

    fn region_grid(rows: usize, columns: usize) -> LatLonGrid {
        let lat = (0..rows).map(|j| j as f64).collect();
        let lon = (0..columns).map(|i| 350.0 + i as f64).collect();
        LatLonGrid::from_axes(lat, lon).unwrap().0
    }

    /// Paints the regions into a plane: 0 for no region, `k + 1` for region `k`.
    fn label_plane(regions: &[Region], shape: (usize, usize)) -> Array2<u32> {
        let mut plane = Array2::zeros(shape);
        for (region, label) in regions.iter().zip(1u32..) {
            for (j, i) in region.indices() {
                plane[[j, i]] = label;
            }
        }
        plane
    }

    /// Reference: flood fill over [`LatLonGrid::neighbours8`]; labels in scan order of their first cell.
    fn flood_fill(codes: &Array2<u8>, grid: &LatLonGrid) -> Array2<u32> {
        let mut labels = Array2::zeros(codes.dim());
        let mut next = 0;
        for start in ndarray::indices(codes.dim()) {
            if codes[start] == 0 || labels[start] != 0 {
                continue;
            }
            next += 1;
            labels[start] = next;
            let mut stack = vec![start];
            while let Some((j, i)) = stack.pop() {
                for cell in grid.neighbours8(j, i) {
                    if labels[cell] == 0 && codes[cell] == codes[(j, i)] {
                        labels[cell] = next;
                        stack.push(cell);
                    }
                }
            }
        }
        labels
    }

    fn random_codes(rows: usize, columns: usize) -> impl Strategy<Value = Array2<u8>> {
        // The density varies from sparse to crowded, to generate both islands and labyrinths.
        (1usize..10).prop_flat_map(move |density| {
            proptest::collection::vec((0usize..10, 1u8..3), rows * columns).prop_map(move |cells| {
                let codes = cells
                    .iter()
                    .map(|&(draw, class)| if draw < density { class } else { 0 })
                    .collect();
                Array2::from_shape_vec((rows, columns), codes).unwrap()
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn agrees_with_flood_fill(codes in random_codes(9, 20), periodic in any::<bool>()) {
            let grid = if periodic { LatLonGrid::global(9, 20).unwrap() } else { region_grid(9, 20) };
            let found = regions(codes.view(), &grid).unwrap();
            prop_assert_eq!(label_plane(&found, (9, 20)), flood_fill(&codes, &grid));
            for region in &found {
                prop_assert!(region.runs.is_sorted());
                prop_assert!(region.indices().all(|cell| codes[cell] == region.class.code()));
            }
        }

        #[test]
        fn rolling_columns_rolls_labels(codes in random_codes(7, 12), shift in 0usize..12) {
            let grid = LatLonGrid::global(7, 12).unwrap();
            let rolled = Array2::from_shape_fn((7, 12), |(j, i)| codes[[j, (i + 12 - shift) % 12]]);
            let here = label_plane(&regions(codes.view(), &grid).unwrap(), (7, 12));
            let there = label_plane(&regions(rolled.view(), &grid).unwrap(), (7, 12));
            // Labels may be numbered differently, but each region must map to exactly one region.
            let mut pairs: Vec<_> = ndarray::indices((7, 12))
                .into_iter()
                .map(|(j, i)| (here[[j, i]], there[[j, (i + shift) % 12]]))
                .collect();
            pairs.sort_unstable();
            pairs.dedup();
            let count = |pick: fn(&(u32, u32)) -> u32| {
                let mut labels: Vec<_> = pairs.iter().map(pick).collect();
                labels.sort_unstable();
                labels.dedup();
                labels.len()
            };
            prop_assert_eq!((count(|p| p.0), count(|p| p.1)), (pairs.len(), pairs.len()));
        }

        #[test]
        fn overlap_is_the_shared_area(a in random_codes(6, 9), b in random_codes(6, 9)) {
            let grid = LatLonGrid::global(6, 9).unwrap();
            let areas = grid.row_areas_km2();
            for x in regions(a.view(), &grid).unwrap() {
                for y in regions(b.view(), &grid).unwrap() {
                    let cells: Vec<_> = y.indices().collect();
                    let shared: f64 =
                        x.indices().filter(|cell| cells.contains(cell)).map(|(j, _)| areas[j]).sum();
                    prop_assert!((x.overlap_km2(&y, &areas) - shared).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn the_seam_joins_and_the_poles_do_not() {
        let grid = LatLonGrid::global(6, 8).unwrap();
        let mut codes = Array2::zeros((6, 8));
        codes[[2, 7]] = 1;
        codes[[3, 0]] = 1; // touches the former by a corner across the seam
        codes[[0, 4]] = 2;
        codes[[5, 4]] = 2; // other pole
        codes[[5, 0]] = 2; // same pole, other side
        let found = regions(codes.view(), &grid).unwrap();
        let sizes: Vec<_> = found.iter().map(Region::cells).collect();
        assert_eq!(sizes, [1, 2, 1, 1]);
        let regional = regions(codes.view(), &region_grid(6, 8)).unwrap();
        assert_eq!(regional.len(), 5);
    }

    #[test]
    fn wrong_shape_and_code_are_refused() {
        let grid = LatLonGrid::global(6, 8).unwrap();
        let error = regions(Array2::zeros((6, 9)).view(), &grid).unwrap_err();
        assert!(error.to_string().contains("expected (6, 8), found (6, 9)"));
        let error = regions(Array2::from_elem((6, 8), 7).view(), &grid).unwrap_err();
        assert!(error.to_string().contains("code 7"));
    }
}
