//! The loss of a detector of centres: focal for scores, GIoU for boxes, both over the boxes of a frame, then over
//! frames.
//!
//! With p the probability of a class in a cell and Y the height of the labels' bump there: −(1 − p)^α ln p where Y = 1,
//! else −(1 − Y)^β p^α ln(1 − p), with α 2 and β 4 (CenterNet, equation 1).

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
            // NaN stays NaN, and goes on into the gradient.
            let is_beyond = |z: f32| z >= LARGEST_LOG;
            let log = |z: f32| if is_beyond(z) { LARGEST_LOG } else { z };
            let ours = [0, 1, 2, 3].map(|side| f64::from(log(z_box[side])).exp());
            let (loss, slopes) = giou::loss(ours, sides);
            let weight = config.overlap * each * share;
            sums.overlap += weight * loss;
            for (side, g) in g_box.iter_mut().enumerate() {
                // Beyond the largest distance nothing changes.
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
