//! The geometry of a detector's output: the pixels of the field that its cells cover.

use super::{BoxTarget, ScoredBox};

/// The meaning of a head's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// One box per cell: x, y, log2 width, log2 height, object, no object, classes.
    Cells,
    /// Scores of every class, and the logarithms of the distances to the sides x_min, y_min, x_max, y_max, in cells.
    Centres,
}

/// The geometry of a detector's output over its field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CellLayout {
    pub scheme: Scheme,
    pub classes: usize,
    /// Cell size in pixels.
    pub cell_px: usize,
    /// Extents (h, w) of the field in pixels.
    pub field: (usize, usize),
    /// Whether longitude wraps.
    pub periodic: bool,
    /// Whether negative values of the box head count as zero.
    pub box_relu: bool,
}

impl CellLayout {
    /// Clips a label to the field; on a globe, where longitude has no end, it is clipped in latitude only.
    ///
    /// Centre and extent of a label that reaches beyond the field are those of the clipped part: no network can see
    /// where the rest ends.
    pub fn cut(&self, target: &BoxTarget) -> BoxTarget {
        if self.periodic {
            return *target;
        }
        let w = self.field.1 as f32;
        BoxTarget {
            x_min: target.x_min.clamp(0.0, w),
            x_max: target.x_max.clamp(0.0, w),
            ..*target
        }
    }

    /// The centre (y, x) of a box clipped by [`Self::cut`], in pixels, inside the field; on a globe after wrapping.
    pub fn centre(&self, target: &BoxTarget) -> (f32, f32) {
        let (h, w) = (self.field.0 as f32, self.field.1 as f32);
        let y = (target.y_min + target.y_max) / 2.0;
        let x = (target.x_min + target.x_max) / 2.0;
        let x = if self.periodic { turned(x, w) } else { x };
        (y.clamp(0.0, h), x)
    }

    /// The row and column of the cell that contains a point, in a grid of (rows, columns).
    pub fn cell(&self, (y, x): (f32, f32), (rows, columns): (usize, usize)) -> (usize, usize) {
        let size = self.cell_px as f32;
        let row = ((y / size) as usize).min(rows - 1);
        let column = ((x / size) as usize).min(columns - 1);
        (row, column)
    }

    /// The eastward distance from `from` to `to` in pixels (negative: westward), along the shorter way round a globe.
    pub fn eastward(&self, from: f32, to: f32) -> f32 {
        let w = self.field.1 as f32;
        if !self.periodic {
            return to - from;
        }
        let east = turned(to - from, w);
        if east > w / 2.0 { east - w } else { east }
    }

    /// A box with these edges, clipped to the field; `None` if it lies outside, or an edge is not finite.
    pub fn place(&self, class: usize, confidence: f32, edges: [f32; 4]) -> Option<ScoredBox> {
        // `max` and `min` of a number and NaN return the number, which would be the field's edge.
        if !are_numbers(&edges) {
            return None;
        }
        let [x_min, y_min, x_max, y_max] = edges;
        let (h, w) = (self.field.0 as f32, self.field.1 as f32);
        let (y_min, y_max) = (y_min.max(0.0), y_max.min(h));
        let (x_min, x_max) = if self.periodic {
            let width = (x_max - x_min).min(w);
            let west = turned((x_min + x_max - width) / 2.0, w);
            (west, west + width)
        } else {
            (x_min.max(0.0), x_max.min(w))
        };
        (y_min < y_max && x_min < x_max).then_some(ScoredBox {
            class,
            y_min,
            x_min,
            y_max,
            x_max,
            confidence,
        })
    }
}

/// Whether all values are finite, so that they can form a box.
pub(super) fn are_numbers(values: &[f32]) -> bool {
    values.iter().all(|value| value.is_finite())
}

/// Wraps x to [0, width).
fn turned(x: f32, width: f32) -> f32 {
    let x = x.rem_euclid(width);
    // The remainder of a tiny negative number rounds to the width itself.
    if x < width { x } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 x 64 pixels.
    fn layout(periodic: bool) -> CellLayout {
        CellLayout {
            scheme: Scheme::Cells,
            classes: 3,
            cell_px: 8,
            field: (32, 64),
            periodic,
            box_relu: false,
        }
    }

    #[test]
    fn boxes_end_at_the_poles_and_go_on_across_the_seam() {
        type Edges = [f32; 4];
        // Edges x_min, y_min, x_max, y_max; the same clipped on a globe, and in a region.
        let cases: [(Edges, Option<Edges>, Option<Edges>); 6] = [
            (
                [60.0, -5.0, 70.0, 40.0],
                Some([60.0, 0.0, 70.0, 32.0]),
                Some([60.0, 0.0, 64.0, 32.0]),
            ),
            (
                [-6.0, 4.0, 2.0, 8.0],
                Some([58.0, 4.0, 66.0, 8.0]),
                Some([0.0, 4.0, 2.0, 8.0]),
            ),
            ([70.0, 4.0, 80.0, 8.0], Some([6.0, 4.0, 16.0, 8.0]), None),
            // Wider than the globe: all of it, with the same centre.
            (
                [-40.0, 4.0, 60.0, 8.0],
                Some([42.0, 4.0, 106.0, 8.0]),
                Some([0.0, 4.0, 60.0, 8.0]),
            ),
            // Beyond the poles.
            ([4.0, -8.0, 8.0, 0.0], None, None),
            ([4.0, 32.0, 8.0, 40.0], None, None),
        ];
        for (said, globe, region) in cases {
            for (periodic, expected) in [(true, globe), (false, region)] {
                let found = layout(periodic).place(2, 0.75, said);
                let expected = expected.map(|[x_min, y_min, x_max, y_max]| ScoredBox {
                    class: 2,
                    y_min,
                    x_min,
                    y_max,
                    x_max,
                    confidence: 0.75,
                });
                assert_eq!(found, expected, "{said:?}, periodic: {periodic}");
            }
        }
    }

    #[test]
    fn the_short_way_round_is_at_most_half_the_globe() {
        for (from, to, globe) in [
            (60.0, 2.0, 6.0),
            (2.0, 60.0, -6.0),
            (0.0, 32.0, 32.0),
            (0.0, 33.0, -31.0),
            (10.0, 10.0, 0.0),
        ] {
            assert_eq!(layout(true).eastward(from, to), globe);
            assert_eq!(layout(false).eastward(from, to), to - from);
        }
    }

    /// The remainder of less than nothing rounds to the width itself, which is the first column and not one behind the
    /// last.
    #[test]
    fn a_hair_west_of_the_seam_is_the_seam() {
        assert_eq!(turned(-1e-8, 64.0), 0.0);
        assert_eq!(turned(-1.0, 64.0), 63.0);
        assert_eq!(turned(64.0, 64.0), 0.0);
        assert_eq!(turned(131.0, 64.0), 3.0);
    }
}
