//! Softmax and weighted cross entropy, as their definitions say.

use crate::ops::loss::IGNORED;

/// exp(z_k) / Σ exp(z_j) per pixel, from the largest logit down so that nothing overflows.
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

/// Σ w[label] · −ln p[label], Σ w[label], and w[label] (p − onehot) per pixel.
pub fn cross_entropy(logits: &[f32], labels: &[u8], class_weights: &[f32]) -> (f64, f64, Vec<f32>) {
    let classes = class_weights.len();
    let mut gradient = softmax(logits, classes);
    let (mut loss, mut weights) = (0.0, 0.0);
    for ((pixel, grad), &label) in logits
        .chunks_exact(classes)
        .zip(gradient.chunks_exact_mut(classes))
        .zip(labels)
    {
        if label == IGNORED {
            grad.fill(0.0);
            continue;
        }
        let (label, top) = (
            usize::from(label),
            pixel.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        );
        let log_sum = pixel
            .iter()
            .map(|&z| f64::from(z - top).exp())
            .sum::<f64>()
            .ln();
        let weight = class_weights[label];
        loss += f64::from(weight) * (log_sum - f64::from(pixel[label] - top));
        weights += f64::from(weight);
        grad[label] -= 1.0;
        grad.iter_mut().for_each(|g| *g *= weight);
    }
    (loss, weights, gradient)
}
