//! The loss of a centre detector: focal loss for scores and GIoU for boxes, both normalised by the boxes of a frame,
//! then averaged over frames.
//!
//! With p the probability of a class in a cell and Y the height of the labels' bump there: −(1 − p)^α ln p where Y = 1,
//! otherwise −(1 − Y)^β p^α ln(1 − p), with α 2 and β 4 (CenterNet, equation 1).

use super::centres::{self, LARGEST_LOG};
use super::giou;
use super::loss::{Frame, Rules, Sums};

/// Adds the terms of one frame to `sums`, and their gradient times the rules' factor to the frame's.
pub(super) fn add(rules: &Rules<'_>, frame: Frame<'_>, sums: &mut Sums) {
    let &Rules {
        config,
        layout,
        factor,
    } = rules;
    let wanted = centres::assign(layout, frame.grid, frame.targets);
    let each = 1.0 / wanted.objects.max(1) as f64;
    let channels = layout.classes + 4;
    let cells = frame.values.chunks_exact(channels);
    let cells = cells.zip(frame.gradient.chunks_exact_mut(channels));
    let labels = wanted.bumps.chunks_exact(layout.classes).zip(wanted.boxes);
    for ((z, g), (bumps, target)) in cells.zip(labels) {
        let (z_class, z_box) = z.split_at(layout.classes);
        let (g_class, g_box) = g.split_at_mut(layout.classes);
        for ((&z, g), &bump) in z_class.iter().zip(g_class).zip(bumps) {
            let (loss, slope) = focal(f64::from(z), f64::from(bump));
            sums.scores += config.scores * each * loss;
            *g += (factor * config.scores * each * slope) as f32;
        }
        if let Some((share, sides)) = target {
            // NaN stays NaN and propagates to the gradient.
            let is_beyond = |z: f32| z >= LARGEST_LOG;
            let log = |z: f32| if is_beyond(z) { LARGEST_LOG } else { z };
            let ours = [0, 1, 2, 3].map(|side| f64::from(log(z_box[side])).exp());
            let (loss, slopes) = giou::loss(ours, sides);
            let weight = config.overlap * each * share;
            sums.overlap += weight * loss;
            for (side, g) in g_box.iter_mut().enumerate() {
                // The distance is clamped there, so the derivative is zero.
                if !is_beyond(z_box[side]) {
                    *g += (factor * weight * slopes[side] * ours[side]) as f32;
                }
            }
        }
    }
}

/// The loss of one score with logit z, and its derivative with respect to z.
fn focal(z: f64, bump: f64) -> (f64, f64) {
    // ln p and ln(1 − p) without cancellation.
    let (ln_p, ln_q) = (-softplus(-z), -softplus(z));
    let (p, q) = (ln_p.exp(), ln_q.exp());
    if bump >= 1.0 {
        let loss = -q * q * ln_p;
        (loss, q * q * (2.0 * p * ln_p - q))
    } else {
        let damped = (1.0 - bump).powi(4);
        let loss = -damped * p * p * ln_q;
        (loss, damped * p * p * (p - 2.0 * q * ln_q))
    }
}

/// ln(1 + e^z).
fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detection::{BoxTarget, CellLayout, DetectionLossConfig, Scheme};
    use approx::assert_relative_eq;

    /// α is 2 and β is 4.
    #[test]
    fn scores_lose_what_the_published_equation_says() {
        let ln = f64::ln;
        for (z, bump, loss) in [
            // p = ¾ where it should be 1: (1 − ¾)² ln 4/3.
            (ln(3.0), 1.0, 0.0625 * ln(4.0 / 3.0)),
            // Half up a bump: (1 − ½)⁴ (¾)² ln 4. Beside it: (¾)² ln 4.
            (ln(3.0), 0.5, 0.0625 * 0.5625 * ln(4.0)),
            (ln(3.0), 0.0, 0.5625 * ln(4.0)),
            // Certain and wrong: ln of e⁻⁸⁰⁰, for which f64 has no room.
            (800.0, 0.0, 800.0),
            (-800.0, 1.0, 800.0),
        ] {
            assert_relative_eq!(focal(z, bump).0, loss, max_relative = 1e-12);
        }
    }

    /// Two cells of 4 pixels, one after the other, with a box in each.
    fn judged(values: &[f32]) -> (Sums, Vec<f32>) {
        let layout = CellLayout {
            scheme: Scheme::Centres,
            classes: 1,
            cell_px: 4,
            field: (4, 8),
            periodic: false,
            box_relu: false,
        };
        let config = DetectionLossConfig {
            scores: 2.0,
            overlap: 3.0,
            ..DetectionLossConfig::default()
        };
        let target = |x_min: f32| BoxTarget {
            class: 0,
            y_min: 0.0,
            x_min,
            y_max: 4.0,
            x_max: x_min + 4.0,
        };
        let targets = [target(0.0), target(4.0)];
        let (mut gradient, mut sums) = (vec![0.0; values.len()], Sums::default());
        let rules = Rules {
            config: &config,
            layout: &layout,
            factor: 0.5,
        };
        let frame = Frame {
            values,
            gradient: &mut gradient,
            grid: (1, 2),
            targets: &targets,
        };
        add(&rules, frame, &mut sums);
        (sums, gradient)
    }

    /// Scores of ½; the second box is right, the first reaches a whole cell to the east instead of half of one.
    #[test]
    fn terms_and_slopes_by_hand() {
        let half = 0.5f32.ln();
        let mut values = [0.0, half, half, half, half].repeat(2);
        values[3] = 0.0;
        let (sums, gradient) = judged(&values);
        // Each of two cells loses (½)² ln 2; by weight, and over two boxes.
        let scores = 2.0 * 0.5 * (2.0 * 0.25 * 2f64.ln());
        assert_relative_eq!(sums.scores, scores, max_relative = 1e-6);
        // 1 x 1 cells in common of 1.5 x 1 together, without a gap: 1 − ⅔.
        let overlap = 3.0 * 0.5 * (1.0 / 3.0);
        assert_relative_eq!(sums.overlap, overlap, max_relative = 1e-5);
        // (1 − p)² (2 p ln p − (1 − p)) of a score.
        let slope = 0.25 * (0.5f32.ln() - 0.5);
        for at in [0, 5] {
            assert_relative_eq!(gradient[at], 0.5 * slope, max_relative = 1e-5);
        }
        // 1 − 1 / (½ + d) has the slope 1 / 2.25 at a distance d of 1, and so has the logarithm of d.
        assert_relative_eq!(gradient[3], 0.5 * 1.5 / 2.25, max_relative = 1e-5);
    }

    /// Distances end at e⁸ cells.
    #[test]
    fn beyond_the_largest_distance_nothing_changes() {
        let of = |log: f32| {
            let mut values = vec![0.0; 10];
            values[3] = log;
            let (sums, gradient) = judged(&values);
            (sums.overlap, gradient[3])
        };
        assert!(of(7.9).0 < of(8.0).0 && of(7.9).1 > 0.0);
        for beyond in [9.0, 100.0] {
            assert_eq!(of(beyond), (of(8.0).0, 0.0));
        }
    }
}
