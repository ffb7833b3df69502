//! Softmax, weighted cross entropy and focal loss in one parallel pass, in f32; sums over pixels in f64.

use super::CHUNK;
use crate::ops::loss::{IGNORED, PixelRule};
use rayon::prelude::*;

/// exp(z_k) / Σ exp(z_j) per pixel.
pub fn softmax(logits: &[f32], classes: usize) -> Vec<f32> {
    let mut probabilities = vec![0.0; logits.len()];
    let length = CHUNK / classes * classes;
    (probabilities
        .par_chunks_mut(length)
        .zip(logits.par_chunks(length)))
    .for_each(|(probabilities, logits)| {
        let pixels = probabilities.chunks_exact_mut(classes);
        for (terms, pixel) in pixels.zip(logits.chunks_exact(classes)) {
            let (_, sum) = exponentials(pixel, terms);
            terms.iter_mut().for_each(|term| *term /= sum);
        }
    });
    probabilities
}

/// Σ w[label] · α (1 − p)^γ · −ln p with p = p[label], and its gradient times `factor`; without focal loss α is 1 and
/// γ 0.
pub fn segmentation(logits: &[f32], labels: &[u8], rule: &PixelRule<'_>) -> (f64, Vec<f32>) {
    let classes = rule.class_weights.len();
    let pixels = CHUNK / classes;
    let mut gradient = vec![0.0; logits.len()];
    let parts: Vec<f64> = (gradient.par_chunks_mut(pixels * classes))
        .zip(logits.par_chunks(pixels * classes))
        .zip(labels.par_chunks(pixels))
        .map(|((gradient, logits), labels)| {
            let pixels = (logits.chunks_exact(classes)).zip(gradient.chunks_exact_mut(classes));
            let counting = pixels.zip(labels).filter(|(_, label)| **label != IGNORED);
            counting
                .map(|((z, g), &label)| f64::from(pixel(z, g, usize::from(label), rule)))
                .sum()
        })
        .collect();
    (parts.iter().sum(), gradient)
}

/// The loss of one pixel; its gradient goes into `grad`.
fn pixel(z: &[f32], grad: &mut [f32], label: usize, rule: &PixelRule<'_>) -> f32 {
    let (top, sum) = exponentials(z, grad);
    // The sum without the label's own term. Near p = 1 the result depends entirely on it, and in `sum` it is lost to
    // rounding.
    let others = grad.iter().enumerate().filter(|&(k, _)| k != label);
    let rest = others.map(|(_, term)| term).sum::<f32>();
    let minus_log = if z[label] == top {
        rest.ln_1p()
    } else {
        sum.ln() + (top - z[label])
    };
    let rest = rest / sum;
    let (damped, slope) = match rule.focal {
        None => (1.0, 1.0),
        Some(focal) => {
            let damped = match focal.gamma {
                2.0 => rest * rest,
                gamma => rest.powf(gamma),
            };
            // As in the reference, with −ln p / (1 − p) as one factor, which stays near 1 where both vanish.
            let ratio = if rest > 0.0 { minus_log / rest } else { 1.0 };
            let slope = damped * (1.0 + focal.gamma * (1.0 - rest) * ratio);
            (focal.alpha * damped, focal.alpha * slope)
        }
    };
    let weight = rule.class_weights[label];
    let common = rule.factor * weight * slope;
    let share = common / sum;
    grad.iter_mut().for_each(|term| *term *= share);
    grad[label] = -common * rest;
    weight * damped * minus_log
}

/// Writes exp(z − top) into `terms`; returns top and Σ exp(z − top).
fn exponentials(z: &[f32], terms: &mut [f32]) -> (f32, f32) {
    let top = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (term, &z) in terms.iter_mut().zip(z) {
        *term = (z - top).exp();
        sum += *term;
    }
    (top, sum)
}
