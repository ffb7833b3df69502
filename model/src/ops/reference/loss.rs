//! Softmax, weighted cross entropy and focal loss, by their definitions.

use crate::ops::loss::{IGNORED, PixelRule};

/// exp(z_k) / Σ exp(z_j) per pixel, relative to the largest logit so that nothing overflows.
pub fn softmax(logits: &[f32], classes: usize) -> Vec<f32> {
    let mut probabilities = Vec::with_capacity(logits.len());
    for pixel in logits.chunks_exact(classes) {
        let top = pixel.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let terms: Vec<f64> = pixel.iter().map(|&z| f64::from(z - top).exp()).collect();
        let sum: f64 = terms.iter().sum();
        probabilities.extend(terms.iter().map(|term| (term / sum) as f32));
    }
    probabilities
}

/// Σ w[label] · α (1 − p)^γ · −ln p with p = p[label], and its gradient times `factor`; without focal loss α is 1 and
/// γ 0.
pub fn segmentation(logits: &[f32], labels: &[u8], rule: &PixelRule<'_>) -> (f64, Vec<f32>) {
    let classes = rule.class_weights.len();
    let (alpha, gamma) = (rule.focal).map_or((1.0, 0.0), |focal| (focal.alpha, focal.gamma));
    let (alpha, gamma) = (f64::from(alpha), f64::from(gamma));
    let (mut loss, mut gradient) = (0.0, vec![0.0; logits.len()]);
    for ((pixel, grad), &label) in logits
        .chunks_exact(classes)
        .zip(gradient.chunks_exact_mut(classes))
        .zip(labels)
    {
        if label == IGNORED {
            continue;
        }
        let label = usize::from(label);
        let top = f64::from(pixel.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let terms: Vec<f64> = (pixel.iter())
            .map(|&z| (f64::from(z) - top).exp())
            .collect();
        let sum: f64 = terms.iter().sum();
        let log_p = f64::from(pixel[label]) - top - sum.ln();
        let p = terms[label] / sum;
        // Not computed as 1 − p, which cancels where p is close to 1.
        let others = terms.iter().enumerate().filter(|&(k, _)| k != label);
        let rest = others.map(|(_, term)| term).sum::<f64>() / sum;
        let weight = f64::from(rule.class_weights[label]) * alpha;
        loss -= weight * rest.powf(gamma) * log_p;
        // d/dz_k of −(1 − p)^γ ln p is ((1 − p)^γ − γ (1 − p)^(γ−1) p ln p) (p_k − δ_k); the second term has the
        // limit 0.
        let slope = if gamma == 0.0 || rest == 0.0 {
            0.0
        } else {
            gamma * rest.powf(gamma - 1.0) * p * log_p
        };
        let common = f64::from(rule.factor) * weight * (rest.powf(gamma) - slope);
        for (k, (g, term)) in grad.iter_mut().zip(&terms).enumerate() {
            let towards = if k == label { -rest } else { term / sum };
            *g = (common * towards) as f32;
        }
    }
    (loss, gradient)
}
