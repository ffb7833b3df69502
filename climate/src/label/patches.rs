//! Connected pieces of a boolean field.
//!
//! [`crate::events::regions`] does the same for finished masks. The recipes here also need pieces that connect across
//! edges only (the flood fill of the rivers), and fields that are boxes rather than grids.

pub(crate) use crate::events::components::Touch;

use crate::events::Run;
use crate::events::components::pieces;

/// The connected pieces of the runs, ordered by the scan order of their first cell; each is sorted by row and column.
pub(crate) fn patches(rows: &[Vec<(u32, u32)>], columns: u32, touch: Touch) -> Vec<Vec<Run>> {
    let mut runs = Vec::new();
    for (row, line) in (0..).zip(rows) {
        runs.extend((line.iter()).map(|&(first, end)| (Run { row, first, end }, 1)));
    }
    let found = pieces(&runs, columns, touch).into_iter();
    found.map(|(_, runs)| runs).collect()
}

/// The runs `(first, end)` of a row's cells that are `true`.
pub(crate) fn row_runs(cells: impl Iterator<Item = bool>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    let mut open = false;
    for (i, inside) in (0u32..).zip(cells) {
        match (inside, open, runs.last_mut()) {
            (true, true, Some(run)) => run.1 = i + 1,
            (true, ..) => runs.push((i, i + 1)),
            _ => {}
        }
        open = inside;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The reference: spread the smallest label until nothing changes.
    fn spread(cells: &[Vec<bool>], touch: Touch) -> Vec<Vec<usize>> {
        let (rows, columns) = (cells.len() as isize, cells[0].len() as isize);
        let mut label: Vec<Vec<usize>> = (0..rows as usize)
            .map(|j| {
                (0..columns as usize)
                    .map(|i| j * columns as usize + i)
                    .collect()
            })
            .collect();
        loop {
            let mut changed = false;
            for (j, i) in (0..rows).flat_map(|j| (0..columns).map(move |i| (j, i))) {
                for (dj, di) in (-1..=1).flat_map(|a| (-1..=1).map(move |b| (a, b))) {
                    let (a, mut b) = (j + dj, i + di);
                    if touch.wrap {
                        b = b.rem_euclid(columns);
                    }
                    let inside = (0..rows).contains(&a) && (0..columns).contains(&b);
                    if !inside || (!touch.corners && dj * di != 0) {
                        continue;
                    }
                    let (here, there) = ((j as usize, i as usize), (a as usize, b as usize));
                    if cells[here.0][here.1]
                        && cells[there.0][there.1]
                        && label[there.0][there.1] < label[here.0][here.1]
                    {
                        label[here.0][here.1] = label[there.0][there.1];
                        changed = true;
                    }
                }
            }
            if !changed {
                return label;
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_agree_with_spreading(flat in proptest::collection::vec(proptest::bool::weighted(0.45), 7 * 11), corners in any::<bool>(), wrap in any::<bool>()) {
            let cells: Vec<Vec<bool>> = flat.chunks(11).map(<[bool]>::to_vec).collect();
            let touch = Touch { corners, wrap };
            let rows: Vec<_> = cells.iter().map(|row| row_runs(row.iter().copied())).collect();
            let found = patches(&rows, 11, touch);
            let label = spread(&cells, touch);
            let mut painted = 0;
            let mut seen = std::collections::HashSet::new();
            for piece in &found {
                let labels: std::collections::BTreeSet<usize> =
                    piece.iter().flat_map(|r| r.indices()).map(|(j, i)| label[j][i]).collect();
                prop_assert_eq!(labels.len(), 1);
                prop_assert!(seen.insert(labels), "two pieces are one");
                painted += piece.iter().map(|r| r.cells()).sum::<usize>();
                prop_assert!(piece.iter().flat_map(|r| r.indices()).all(|(j, i)| cells[j][i]));
            }
            prop_assert_eq!(painted, flat.iter().filter(|c| **c).count());
        }
    }
}
