//! One box per cell: assigns labels to cells, and decodes cells to boxes.
//!
//! The box code is x and y of the centre within the cell, in cells, and log2 of width and height in cells. A box of one
//! cell's size has size values of zero.
//!
//! # Source
//! Racah et al. 2017 (arXiv:1612.02095) and `hur-detect/scripts/load_data/ground_truth_maker.py`.

use super::layout::{CellLayout, are_numbers};
use super::{BoxTarget, ScoredBox};

/// Values of a box: x, y, log2 width, log2 height.
pub(super) const BOX: usize = 4;
/// The index of the objectness logits: object, no object.
pub(super) const OBJECT: usize = BOX;
/// The index of the first class.
pub(super) const CLASS: usize = OBJECT + 2;
/// Boxes extend over at most 2 to this power cells.
const LARGEST_LOG2: f32 = 12.0;

/// The target of a cell: the class and the box code of its label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CellTarget {
    pub class: usize,
    pub code: [f32; BOX],
}

/// The target of each cell, row by row; `None` for cells without a box centre.
///
/// If several boxes share a cell the largest wins; among equally large ones the one nearest the cell's centre, then the
/// first.
pub(super) fn assign(
    layout: &CellLayout,
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
pub(super) fn code(layout: &CellLayout, values: &[f32]) -> [f32; BOX] {
    // NaN stays NaN.
    let active = |at: usize| match values[at] {
        value if layout.box_relu && value <= 0.0 => 0.0,
        value => value,
    };
    [active(0), active(1), active(2), active(3)]
}

/// The softmax probability of the first of two logits.
fn first_of_two(first: f32, second: f32) -> f32 {
    1.0 / (1.0 + (second - first).exp())
}

/// Decodes the boxes of one frame.
pub(super) fn decode(
    layout: &CellLayout,
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
        // Clamping to the largest size would turn NaN into a number.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detection::Scheme;
    use approx::assert_relative_eq;

    /// 2 x 3 cells of 8 pixels.
    fn layout(periodic: bool, box_relu: bool) -> CellLayout {
        CellLayout {
            scheme: Scheme::Cells,
            classes: 3,
            cell_px: 8,
            field: (16, 24),
            periodic,
            box_relu,
        }
    }

    /// Edges x_min, y_min, x_max, y_max of the box decoded from this code in row 1 and column 2.
    fn edges(layout: &CellLayout, code: [f32; BOX]) -> [f32; 4] {
        let mut values = [0.0, 0.0, 0.0, 0.0, -9.0, 9.0, 0.0, 0.0, 0.0].repeat(6);
        let cell = &mut values[5 * 9..];
        cell[..BOX].copy_from_slice(&code);
        // e² · 3 against e², and two classes that are as good.
        cell[BOX..].copy_from_slice(&[2.0 + 3f32.ln(), 2.0, 1.0, 4.0, 4.0]);
        let boxes = decode(layout, &values, (2, 3), 0.7);
        assert_eq!(boxes.len(), 1);
        assert_eq!(boxes[0].class, 1, "the first of equals");
        assert_relative_eq!(boxes[0].confidence, 0.75, epsilon = 1e-6);
        assert!(decode(layout, &values, (2, 3), 0.76).is_empty());
        let ScoredBox {
            x_min,
            y_min,
            x_max,
            y_max,
            ..
        } = boxes[0];
        [x_min, y_min, x_max, y_max]
    }

    #[test]
    fn a_cell_says_a_box_by_hand() {
        // The centre is x = 8 · 2.25 and y = 8 · 1.75; two cells wide, half a cell high.
        let code = [0.25, 0.75, 1.0, -1.0];
        assert_eq!(edges(&layout(true, false), code), [10.0, 12.0, 26.0, 16.0]);
        assert_eq!(edges(&layout(false, false), code), [10.0, 12.0, 24.0, 16.0]);
        // With the published ReLU no centre lies before its cell, and no box is smaller than one.
        let before = [-1.0, 0.5, -2.0, -2.0];
        assert_eq!(edges(&layout(true, false), before), [7.0, 11.0, 9.0, 13.0]);
        assert_eq!(edges(&layout(true, true), before), [12.0, 8.0, 20.0, 16.0]);
        // 2²⁰⁰ has no room in f32: the box is the whole field.
        let huge = [0.5, 0.5, 200.0, 200.0];
        assert_eq!(edges(&layout(false, false), huge), [0.0, 0.0, 24.0, 16.0]);
    }

    #[test]
    fn a_label_is_a_code_by_hand() {
        let target = BoxTarget {
            class: 2,
            y_min: 4.0,
            x_min: 3.0,
            y_max: 20.0,
            x_max: 7.0,
        };
        let found = assign(&layout(true, false), (2, 3), &[target]);
        // The centre x = 5 and y = 12 lies in row 1 and column 0; half a cell wide, two cells high.
        let expected = CellTarget {
            class: 2,
            code: [0.625, 0.5, -1.0, 1.0],
        };
        for (cell, found) in found.into_iter().enumerate() {
            assert_eq!(found, (cell == 3).then_some(expected), "cell {cell}");
        }
    }
}
