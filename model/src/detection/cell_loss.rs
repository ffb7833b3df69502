//! The loss of a cell detector.
//!
//! 5 Σ SmoothL1(x, y) + 7 Σ SmoothL1(log2 w, log2 h) − Σ_object ln p(object) − ½ Σ_no object ln p(no object) −
//! Σ_object ln p(class), all divided by the frames of the batch.
//!
//! # Source
//! Racah et al. 2017 (arXiv:1612.02095), section 3.2, and `hur-detect` (`configs.py`: penalties 5, 7, 0.5).

use super::cells::{self, BOX, CLASS, CellTarget, OBJECT};
use super::loss::{Frame, Rules, Sums};

/// Adds the terms of one frame to `sums` (not divided by frames), and their gradient times the rules' factor to the
/// frame's.
pub(super) fn add(rules: &Rules<'_>, frame: Frame<'_>, sums: &mut Sums) {
    let channels = CLASS + rules.layout.classes;
    let cells = frame.values.chunks_exact(channels);
    let all = cells.zip(frame.gradient.chunks_exact_mut(channels));
    let targets = cells::assign(rules.layout, frame.grid, frame.targets);
    for ((z, g), target) in all.zip(targets) {
        rules.add_cell(z, g, target, sums);
    }
}

impl Rules<'_> {
    /// Adds the terms of one cell with outputs `z` to `sums`, and their gradient to `g`.
    fn add_cell(&self, z: &[f32], g: &mut [f32], target: Option<CellTarget>, sums: &mut Sums) {
        let config = self.config;
        let objectness = (&z[OBJECT..CLASS], &mut g[OBJECT..CLASS]);
        let Some(target) = target else {
            let weight = config.no_object;
            sums.no_object += weight * cross_entropy(objectness, 1, weight * self.factor);
            return;
        };
        let weight = config.object;
        sums.object += weight * cross_entropy(objectness, 0, weight * self.factor);
        let weight = config.class;
        let classes = (&z[CLASS..], &mut g[CLASS..]);
        sums.class += weight * cross_entropy(classes, target.class, weight * self.factor);
        let code = cells::code(self.layout, z);
        for at in 0..BOX {
            let (weight, sum) = match at {
                0 | 1 => (config.centre, &mut sums.centre),
                _ => (config.size, &mut sums.size),
            };
            let (loss, slope) = smooth_l1(f64::from(code[at]) - f64::from(target.code[at]));
            *sum += weight * loss;
            if !self.layout.box_relu || z[at] > 0.0 || z[at].is_nan() {
                g[at] += (self.factor * weight * slope) as f32;
            }
        }
    }
}

/// d² / 2 below 1, |d| − ½ beyond; and its derivative (Girshick 2015, arXiv:1504.08083).
fn smooth_l1(d: f64) -> (f64, f64) {
    if d.abs() < 1.0 {
        (0.5 * d * d, d)
    } else {
        (d.abs() - 0.5, d.signum())
    }
}

/// Returns −ln softmax(z)[label] and adds its gradient times `factor`.
fn cross_entropy((z, g): (&[f32], &mut [f32]), label: usize, factor: f64) -> f64 {
    let top = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let term = |&z: &f32| (f64::from(z) - f64::from(top)).exp();
    let sum: f64 = z.iter().map(term).sum();
    for (k, (g, z)) in g.iter_mut().zip(z).enumerate() {
        let hit = if k == label { 1.0 } else { 0.0 };
        *g += (factor * (term(z) / sum - hit)) as f32;
    }
    sum.ln() + f64::from(top) - f64::from(z[label])
}
