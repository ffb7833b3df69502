//! Boxes around centres: labels become bumps in their class's scores, and score peaks are decoded to boxes.
//!
//! # Source
//! Zhou et al. 2019 (CenterNet, arXiv:1904.07850) for scores and their peaks; Liu et al. 2020 (TTFNet,
//! arXiv:1909.00700) for bumps as wide as the box, and for training the box in every cell under the bump, weighted by
//! the bump's height.

use super::giou::Sides;
use super::layout::{CellLayout, are_numbers};
use super::{BoxTarget, ScoredBox};

/// The share of the box that its bump covers (TTFNet's α).
const COVERED: f32 = 0.54;
/// Distances are at most e to this power cells.
pub(super) const LARGEST_LOG: f32 = 8.0;

/// The targets of one frame.
pub(super) struct CentreTargets {
    /// The target score of every cell and class, from 0 to 1; 1 at a centre.
    pub bumps: Vec<f32>,
    /// The number of centres, one per box.
    pub objects: usize,
    /// For each cell that trains a box: its weight, and the distances to the box's sides in cells. The weights of a box
    /// sum to 1; where boxes overlap, the cell belongs to the smallest.
    pub boxes: Vec<Option<(f64, Sides)>>,
}

/// The targets for a frame with these boxes.
pub(super) fn assign(
    layout: &CellLayout,
    (rows, columns): (usize, usize),
    targets: &[BoxTarget],
) -> CentreTargets {
    let targets: Vec<BoxTarget> = targets.iter().map(|target| layout.cut(target)).collect();
    let mut bumps = vec![0.0f32; rows * columns * layout.classes];
    let mut owners: Vec<Option<(usize, f32)>> = vec![None; rows * columns];
    let area = |index: usize| {
        let target: &BoxTarget = &targets[index];
        (target.x_max - target.x_min) * (target.y_max - target.y_min)
    };
    for (index, target) in targets.iter().enumerate() {
        for (cell, height) in under(layout, (rows, columns), target) {
            let bump = &mut bumps[cell * layout.classes + target.class];
            *bump = bump.max(height);
            let owner = &mut owners[cell];
            if owner.is_none_or(|(other, _)| area(index) < area(other)) {
                *owner = Some((index, height));
            }
        }
    }
    let mut heights = vec![0.0f64; targets.len()];
    let owned = owners.iter().flatten();
    owned.for_each(|&(index, height)| heights[index] += f64::from(height));
    let of_cell = |(cell, owner): (usize, &Option<(usize, f32)>)| {
        let (index, height) = (*owner)?;
        let place = (cell / columns, cell % columns);
        let sides = sides(layout, place, &targets[index]);
        Some((f64::from(height) / heights[index], sides))
    };
    CentreTargets {
        boxes: owners.iter().enumerate().map(of_cell).collect(),
        objects: targets.len(),
        bumps,
    }
}

/// The cells under a box's bump, with the bump's height in each.
fn under(
    layout: &CellLayout,
    (rows, columns): (usize, usize),
    target: &BoxTarget,
) -> Vec<(usize, f32)> {
    let (row, column) = layout.cell(layout.centre(target), (rows, columns));
    let size = layout.cell_px as f32;
    let reach = |extent: f32| (extent / size / 2.0 * COVERED) as isize;
    let (down, across) = (
        reach(target.y_max - target.y_min),
        reach(target.x_max - target.x_min)
            .min(columns as isize / 2 - 1)
            .max(0),
    );
    let spread = |reach: isize| (2 * reach + 1) as f32 / 6.0;
    let (sigma_y, sigma_x) = (spread(down), spread(across));
    let mut cells = Vec::new();
    for j in -down..=down {
        let at = row as isize + j;
        if !(0..rows as isize).contains(&at) {
            continue;
        }
        for i in -across..=across {
            let mut east = column as isize + i;
            if layout.periodic {
                east = east.rem_euclid(columns as isize);
            } else if !(0..columns as isize).contains(&east) {
                continue;
            }
            let off = (j as f32 / sigma_y).powi(2) + (i as f32 / sigma_x).powi(2);
            cells.push((at as usize * columns + east as usize, (-off / 2.0).exp()));
        }
    }
    cells
}

/// The position (y, x) of a cell's centre, in pixels.
fn middle(layout: &CellLayout, (row, column): (usize, usize)) -> (f32, f32) {
    let size = layout.cell_px as f32;
    (size * (row as f32 + 0.5), size * (column as f32 + 0.5))
}

/// The distances from a cell's centre to a box's sides, in cells.
fn sides(layout: &CellLayout, cell: (usize, usize), target: &BoxTarget) -> Sides {
    let (y, x) = middle(layout, cell);
    let (_, centre) = layout.centre(target);
    let off = layout.eastward(x, centre);
    let half = (target.x_max - target.x_min) / 2.0;
    let distances = [half - off, y - target.y_min, half + off, target.y_max - y];
    distances.map(|px| f64::from(px) / layout.cell_px as f64)
}

/// Decodes the boxes of one frame.
pub(super) fn decode(
    layout: &CellLayout,
    values: &[f32],
    (rows, columns): (usize, usize),
    min_confidence: f32,
) -> Vec<ScoredBox> {
    let channels = layout.classes + 4;
    let score = |row: usize, column: usize, class: usize| {
        values[(row * columns + column) * channels + class]
    };
    let mut boxes = Vec::new();
    for (index, cell) in values.chunks_exact(channels).enumerate() {
        let (row, column) = (index / columns, index % columns);
        for (class, &z) in cell[..layout.classes].iter().enumerate() {
            let confidence = 1.0 / (1.0 + (-z).exp());
            if confidence < min_confidence || confidence.is_nan() {
                continue;
            }
            // Clamping to the largest distance would turn NaN into a number.
            if !are_numbers(&cell[layout.classes..]) {
                continue;
            }
            let mut around = neighbours(layout, (row, column), (rows, columns));
            // Among equal neighbours the first one is the peak.
            let beaten = around.any(|(j, i)| {
                let other = score(j, i, class);
                other > z || other == z && j * columns + i < index
            });
            if beaten {
                continue;
            }
            let distance = |side: usize| {
                layout.cell_px as f32 * cell[layout.classes + side].min(LARGEST_LOG).exp()
            };
            let (y, x) = middle(layout, (row, column));
            let edges = [
                x - distance(0),
                y - distance(1),
                x + distance(2),
                y + distance(3),
            ];
            boxes.extend(layout.place(class, confidence, edges));
        }
    }
    boxes
}

/// The neighbours of a cell, excluding itself.
fn neighbours(
    layout: &CellLayout,
    (row, column): (usize, usize),
    (rows, columns): (usize, usize),
) -> impl Iterator<Item = (usize, usize)> {
    let periodic = layout.periodic;
    (0..9).filter(|&at| at != 4).filter_map(move |at| {
        let j = (row + at / 3).checked_sub(1).filter(|&j| j < rows)?;
        let i = column + at % 3;
        let i = if periodic {
            (i + columns - 1) % columns
        } else {
            i.checked_sub(1).filter(|&i| i < columns)?
        };
        Some((j, i)).filter(|&place| place != (row, column))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detection::Scheme;
    use approx::assert_relative_eq;

    /// 8 x 16 cells of 4 pixels, two classes.
    fn layout(periodic: bool) -> CellLayout {
        CellLayout {
            scheme: Scheme::Centres,
            classes: 2,
            cell_px: 4,
            field: (32, 64),
            periodic,
            box_relu: false,
        }
    }

    const GRID: (usize, usize) = (8, 16);

    fn target([y_min, x_min, y_max, x_max]: [f32; 4]) -> BoxTarget {
        BoxTarget {
            class: 1,
            y_min,
            x_min,
            y_max,
            x_max,
        }
    }

    /// A box 6 cells high and 9 wide, with its centre in row 4. 54 % of its half extents are 1.62 and 2.43 cells, so
    /// the bump extends 1 and 2 cells from the centre; standard deviations are 3 / 6 and 5 / 6 of a cell:
    /// exp(−(j / ½)² / 2 − (i / ⅚)² / 2).
    #[test]
    fn a_bump_is_as_wide_as_its_box() {
        let down = [0.135_335_28, 1.0, 0.135_335_28];
        let across = [
            0.056_134_764,
            0.486_752_27,
            1.0,
            0.486_752_27,
            0.056_134_764,
        ];
        let sum: f64 = 2.650_331_677_9;
        for (periodic, west, column) in [(false, 24.0, 10), (true, 24.0, 10), (true, 48.0, 0)] {
            let boxes = [target([4.0, west, 28.0, west + 36.0])];
            let found = assign(&layout(periodic), GRID, &boxes);
            let mut expected = [[0.0f32; 16]; 8];
            for (row, down) in (3..6).zip(down) {
                for (east, across) in (14..19).zip(across) {
                    expected[row][(column + east) % 16] = down * across;
                }
            }
            assert_eq!(found.objects, 1);
            let cells = found.bumps.chunks_exact(2).zip(&found.boxes);
            for ((bump, learnt), height) in cells.zip(expected.concat()) {
                assert_eq!(bump[0], 0.0, "nothing is of the other class");
                assert_relative_eq!(bump[1], height, epsilon = 1e-6);
                let share = learnt.map_or(0.0, |(share, _)| share);
                assert_relative_eq!(share, f64::from(height) / sum, epsilon = 1e-6);
            }
            // Distances from cell centres to x_min, y_min, x_max and y_max; the box's centre is at the centre of its
            // column, and 2 pixels north of that of its row.
            for (row, east, sides) in [
                (4, 0, [4.5, 3.5, 4.5, 2.5]),
                (4, 2, [6.5, 3.5, 2.5, 2.5]),
                (3, 14, [2.5, 2.5, 6.5, 3.5]),
            ] {
                let cell = 16 * row + (column + east) % 16;
                assert_eq!(found.boxes[cell].map(|(_, sides)| sides), Some(sides));
            }
        }
    }

    /// Rows end at the poles. 12 cells of height reach 3 cells from the centre, which lies beyond the pole here and is
    /// moved to it.
    #[test]
    fn a_bump_ends_at_the_poles() {
        for (y_min, rows) in [(-40.0, 0..4), (24.0, 4..8)] {
            let boxes = [target([y_min, 24.0, y_min + 48.0, 60.0])];
            let found = assign(&layout(true), GRID, &boxes);
            let share = |(cell, learnt): (usize, &Option<(f64, Sides)>)| {
                let inside = rows.contains(&(cell / 16)) && (8..13).contains(&(cell % 16));
                assert_eq!(learnt.is_some(), inside, "cell {cell} for {y_min}");
                assert_eq!(found.bumps[2 * cell + 1] > 0.0, inside, "cell {cell}");
                learnt.map_or(0.0, |(share, _)| share)
            };
            let shares: f64 = found.boxes.iter().enumerate().map(share).sum();
            assert_relative_eq!(shares, 1.0, epsilon = 1e-12);
        }
    }

    /// The small box has the cell that both have their centres in, and of both the bump is 1 there.
    #[test]
    fn a_cell_under_two_boxes_learns_the_smaller() {
        let large = target([4.0, 24.0, 28.0, 60.0]);
        let small = target([12.0, 36.0, 20.0, 48.0]);
        for boxes in [[large, small], [small, large]] {
            let found = assign(&layout(true), GRID, &boxes);
            assert_eq!(found.objects, 2);
            let shared = 16 * 4 + 10;
            assert_eq!(found.boxes[shared], Some((1.0, [1.5, 1.5, 1.5, 0.5])));
            assert_eq!(found.bumps[2 * shared + 1], 1.0);
            let others = found.boxes.iter().flatten().filter(|learnt| learnt.0 < 1.0);
            let (count, sum) =
                others.fold((0, 0.0f64), |(n, sum), (share, _)| (n + 1, sum + share));
            assert_eq!(count, 14);
            assert_relative_eq!(sum, 1.0, epsilon = 1e-12);
        }
    }

    /// Head outputs with these (row, column, class, probability), near-zero probabilities elsewhere, and a distance of
    /// one cell to every side.
    fn frame(scores: &[(usize, usize, usize, f32)]) -> Vec<f32> {
        let mut values = [-9.0, -9.0, 0.0, 0.0, 0.0, 0.0].repeat(8 * 16);
        for &(row, column, class, p) in scores {
            values[(16 * row + column) * 6 + class] = (p / (1.0 - p)).ln();
        }
        values
    }

    #[test]
    fn a_box_is_a_peak_among_its_neighbours() {
        let values = frame(&[
            // The poles are no neighbours of each other.
            (0, 3, 1, 0.8),
            (7, 3, 1, 0.7),
            // Corner to corner, on a globe across the seam.
            (2, 0, 1, 0.75),
            (3, 15, 1, 0.9),
            // Equal scores across the seam, and three equal neighbours: the first is the peak.
            (5, 0, 1, 0.6),
            (5, 15, 1, 0.6),
            (5, 7, 1, 0.95),
            (5, 8, 1, 0.95),
            (6, 8, 1, 0.95),
            // Another class is no neighbour.
            (5, 8, 0, 0.85),
        ]);
        let peaks = |periodic: bool, least: f32| -> Vec<(usize, i32)> {
            let boxes = decode(&layout(periodic), &values, GRID, least);
            let percent = |found: &ScoredBox| (100.0 * found.confidence).round() as i32;
            boxes
                .iter()
                .map(|found| (found.class, percent(found)))
                .collect()
        };
        let globe = [(1, 80), (1, 90), (1, 60), (1, 95), (0, 85), (1, 70)];
        assert_eq!(peaks(true, 0.5), globe);
        let sure = [(1, 80), (1, 90), (1, 95), (0, 85), (1, 70)];
        assert_eq!(peaks(true, 0.65), sure);
        let region = [
            (1, 80),
            (1, 75),
            (1, 90),
            (1, 60),
            (1, 95),
            (0, 85),
            (1, 60),
            (1, 70),
        ];
        assert_eq!(peaks(false, 0.5), region);
    }

    #[test]
    fn sides_are_as_far_as_their_logarithms_say() {
        let mut values = frame(&[(3, 15, 1, 0.9)]);
        let edges = |values: &[f32], periodic: bool| {
            let boxes = decode(&layout(periodic), values, GRID, 0.5);
            assert_eq!(boxes.len(), 1);
            [
                boxes[0].x_min,
                boxes[0].y_min,
                boxes[0].x_max,
                boxes[0].y_max,
            ]
        };
        let sides = (16 * 3 + 15) * 6 + 2;
        values[sides..sides + 4].copy_from_slice(&[1.0, 2.0, 3.0, 0.5].map(f32::ln));
        // The middle of the cell is x 62, y 14.
        for (periodic, expected) in [
            (true, [58.0, 6.0, 74.0, 16.0]),
            (false, [58.0, 6.0, 64.0, 16.0]),
        ] {
            for (got, expected) in edges(&values, periodic).into_iter().zip(expected) {
                assert_relative_eq!(got, expected, epsilon = 1e-4);
            }
        }
        // e¹⁰⁰ has no room in f32: the box is the whole field, on a globe with x 62 in its middle.
        values[sides..sides + 4].fill(100.0);
        assert_eq!(edges(&values, true), [30.0, 0.0, 94.0, 32.0]);
        assert_eq!(edges(&values, false), [0.0, 0.0, 64.0, 32.0]);
    }
}
