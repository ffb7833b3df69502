//! The overlap of two boxes that contain a common point, each given by the distances from it to its sides.
//!
//! # Source
//! Rezatofighi et al. 2019 (arXiv:1902.09630): GIoU = I / U − (C − U) / C, with the intersection I, the union U and the
//! area C of the smallest box around both. Distances from a point: Tian et al. 2019 (FCOS, arXiv:1904.01355).

/// Distances to the sides x_min, y_min, x_max, y_max; positive outward.
pub(super) type Sides = [f64; 4];

/// 1 − GIoU of two boxes, and its derivatives with respect to the distances of the first.
pub(super) fn loss(ours: Sides, theirs: Sides) -> (f64, Sides) {
    let area = |s: Sides| (s[0] + s[2]) * (s[1] + s[3]);
    let inner = |a: usize| ours[a].min(theirs[a]);
    let outer = |a: usize| ours[a].max(theirs[a]);
    let shared = [
        (inner(0) + inner(2)).max(0.0),
        (inner(1) + inner(3)).max(0.0),
    ];
    let around = [outer(0) + outer(2), outer(1) + outer(3)];
    let (i, c) = (shared[0] * shared[1], around[0] * around[1]);
    let u = area(ours) + area(theirs) - i;
    let giou = i / u + u / c - 1.0;
    let mut slopes = [0.0; 4];
    for (side, slope) in slopes.iter_mut().enumerate() {
        // Moving a side in x changes areas in proportion to the extent in y, and vice versa.
        let (own, other) = (side % 2, 1 - side % 2);
        let extent = ours[other] + ours[other + 2];
        let di = if ours[side] < theirs[side] && shared[own] > 0.0 {
            shared[other]
        } else {
            0.0
        };
        let dc = if ours[side] > theirs[side] {
            around[other]
        } else {
            0.0
        };
        let du = extent - di;
        *slope = -((di * u - i * du) / (u * u) + (du * c - u * dc) / (c * c));
    }
    (1.0 - giou, slopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_boxes_lose_nothing_and_distant_ones_lose_more_than_touching_ones() {
        let unit = [1.0, 1.0, 1.0, 1.0];
        assert!(loss(unit, unit).0.abs() < 1e-12);
        // Side by side: no intersection, no gap. Then with a gap of one box's width: 2 of 6 parts are empty.
        let beside = loss(unit, [-1.0, 1.0, 3.0, 1.0]).0;
        let apart = loss(unit, [-3.0, 1.0, 5.0, 1.0]).0;
        assert!((beside - 1.0).abs() < 1e-12, "{beside}");
        assert!((apart - 4.0 / 3.0).abs() < 1e-12, "{apart}");
    }

    #[test]
    fn slopes_are_those_of_finite_differences() {
        let cases = [
            ([1.0, 2.0, 3.0, 0.5], [1.5, 1.0, 2.0, 2.5]),
            ([0.5, 0.5, 0.4, 0.6], [3.0, 2.0, 1.0, 2.0]),
            // Their box does not hold the point.
            ([1.0, 1.0, 1.0, 1.0], [-0.5, 2.0, 3.0, 1.5]),
            ([0.2, 1.0, 0.3, 1.0], [-1.5, 2.0, 3.0, 1.5]),
        ];
        for (ours, theirs) in cases {
            let (_, slopes) = loss(ours, theirs);
            for side in 0..4 {
                let moved = |by: f64| {
                    let mut moved = ours;
                    moved[side] += by;
                    loss(moved, theirs).0
                };
                let numeric = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((numeric - slopes[side]).abs() < 1e-6, "{ours:?} {side}");
            }
        }
    }
}
