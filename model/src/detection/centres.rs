//! Boxes around centres: a bump in the scores of its class for every label, and peaks of scores back to boxes.
//!
//! # Source
//! Zhou et al. 2019 (CenterNet, arXiv:1904.07850) for scores and their peaks; Liu et al. 2020 (TTFNet,
//! arXiv:1909.00700) for bumps as wide as the box and for learning the box from every cell under the bump, by the
//! bump's height.

use super::giou::Sides;
use super::layout::{Layout, are_numbers};
use super::{BoxTarget, ScoredBox};

/// Share of the box that its bump covers (TTFNet's α).
const COVERED: f32 = 0.54;
/// Distances are at most e to this power cells.
pub(super) const LARGEST_LOG: f32 = 8.0;

/// What the scores and boxes of one frame should be.
pub(super) struct CentreTargets {
    /// The score that every cell and class should have, 0 to 1; 1 at a centre.
    pub bumps: Vec<f32>,
    /// Centres, counted as often as there are boxes.
    pub objects: usize,
    /// How much each cell learns of a box, and the distances to its sides in cells; none where it learns none. The
    /// weights of a box sum to 1; where boxes overlap a cell belongs to the smallest.
    pub boxes: Vec<Option<(f64, Sides)>>,
}

/// What a frame with these boxes should look like.
pub(super) fn assign(
    layout: &Layout,
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

/// The cells under a box's bump, each with the bump's height there.
fn under(
    layout: &Layout,
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

/// Pixels (y, x) of a cell's centre.
fn middle(layout: &Layout, (row, column): (usize, usize)) -> (f32, f32) {
    let size = layout.cell_px as f32;
    (size * (row as f32 + 0.5), size * (column as f32 + 0.5))
}

/// The distances from a cell's centre to a box's sides, in cells.
fn sides(layout: &Layout, cell: (usize, usize), target: &BoxTarget) -> Sides {
    let (y, x) = middle(layout, cell);
    let (_, centre) = layout.centre(target);
    let off = layout.eastward(x, centre);
    let half = (target.x_max - target.x_min) / 2.0;
    let distances = [half - off, y - target.y_min, half + off, target.y_max - y];
    distances.map(|px| f64::from(px) / layout.cell_px as f64)
}

/// The boxes of one frame.
pub(super) fn decode(
    layout: &Layout,
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
            // The largest distance would make a number of what is none.
            if !are_numbers(&cell[layout.classes..]) {
                continue;
            }
            let mut around = neighbours(layout, (row, column), (rows, columns));
            // Of equal neighbours the first is the peak.
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

/// The cells around one, itself not among them.
fn neighbours(
    layout: &Layout,
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
