//! One box for each cell: which label belongs to which cell, and back from cells to boxes.
//!
//! The box code is x and y of the centre within the cell, in cells, and log2 of width and height in cells: a box of one
//! cell's size is all zeros behind its centre.
//!
//! # Source
//! Racah et al. 2017 (arXiv:1612.02095) and `hur-detect/scripts/load_data/ground_truth_maker.py`.

use super::layout::{Layout, are_numbers};
use super::{BoxTarget, ScoredBox};

/// Values of a box: x, y, log2 width, log2 height.
pub(super) const BOX: usize = 4;
/// Where objectness stands: object, no object.
pub(super) const OBJECT: usize = BOX;
/// Where classes begin.
pub(super) const CLASS: usize = OBJECT + 2;
/// Boxes are at most 2 to this power cells large.
const LARGEST_LOG2: f32 = 12.0;

/// What a cell should predict: the class and the box code of its label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CellTarget {
    pub class: usize,
    pub code: [f32; BOX],
}

/// The target of each cell, row by row; none where no box has its centre.
///
/// Of several boxes in one cell the largest stays; of equally large ones the one nearest the cell's centre, then the
/// first.
pub(super) fn assign(
    layout: &Layout,
    (rows, columns): (usize, usize),
    targets: &[BoxTarget],
) -> Vec<Option<CellTarget>> {
    let mut cells: Vec<Option<(f32, f32, CellTarget)>> = vec![None; rows * columns];
    let size = layout.cell_px as f32;
    for target in targets.iter().map(|target| layout.cut(target)) {
        let (width, height) = (target.x_max - target.x_min, target.y_max - target.y_min);
        let (y, x) = layout.centre(&target);
        let (row, column) = layout.cell((y, x), (rows, columns));
        let (dx, dy) = (x / size - column as f32, y / size - row as f32);
        let (area, off) = (width * height, (dx - 0.5).powi(2) + (dy - 0.5).powi(2));
        let cell = &mut cells[row * columns + column];
        if let Some((other_area, other_off, _)) = cell
            && (area < *other_area || area == *other_area && off >= *other_off)
        {
            continue;
        }
        let code = [dx, dy, (width / size).log2(), (height / size).log2()];
        let class = target.class;
        *cell = Some((area, off, CellTarget { class, code }));
    }
    let target = |cell: Option<(f32, f32, CellTarget)>| cell.map(|(_, _, target)| target);
    cells.into_iter().map(target).collect()
}

/// The box code that a cell predicts, after its activation.
pub(super) fn code(layout: &Layout, values: &[f32]) -> [f32; BOX] {
    // NaN stays NaN.
    let active = |at: usize| match values[at] {
        value if layout.box_relu && value <= 0.0 => 0.0,
        value => value,
    };
    [active(0), active(1), active(2), active(3)]
}

/// The probability of the first of two logits.
fn first_of_two(first: f32, second: f32) -> f32 {
    1.0 / (1.0 + (second - first).exp())
}

/// The boxes of one frame.
pub(super) fn decode(
    layout: &Layout,
    values: &[f32],
    (_, columns): (usize, usize),
    min_confidence: f32,
) -> Vec<ScoredBox> {
    let size = layout.cell_px as f32;
    let of_cell = |(index, cell): (usize, &[f32])| {
        let confidence = first_of_two(cell[OBJECT], cell[OBJECT + 1]);
        if confidence < min_confidence || confidence.is_nan() {
            return None;
        }
        // The largest size would make a number of what is none.
        if !are_numbers(&cell[..BOX]) {
            return None;
        }
        let (row, column) = (index / columns, index % columns);
        let [dx, dy, log_width, log_height] = code(layout, cell);
        let (x, y) = (size * (column as f32 + dx), size * (row as f32 + dy));
        let half = |log: f32| size * log.min(LARGEST_LOG2).exp2() / 2.0;
        let (w, h) = (half(log_width), half(log_height));
        let classes = &cell[CLASS..];
        let best = (1..classes.len()).fold(
            0,
            |best, k| {
                if classes[k] > classes[best] { k } else { best }
            },
        );
        layout.place(best, confidence, [x - w, y - h, x + w, y + h])
    };
    let cells = values.chunks_exact(CLASS + layout.classes).enumerate();
    cells.filter_map(of_cell).collect()
}
