//! Softmax and weighted cross entropy in one parallel pass.

use super::CHUNK;
use crate::ops::reference::loss as plain;
use rayon::prelude::*;

/// exp(z_k) / Σ exp(z_j) per pixel.
pub fn softmax(logits: &[f32], classes: usize) -> Vec<f32> {
    let parts: Vec<Vec<f32>> = logits
        .par_chunks(CHUNK / classes * classes)
        .map(|chunk| plain::softmax(chunk, classes))
        .collect();
    parts.concat()
}

/// Σ w[label] · −ln p[label], Σ w[label], and w[label] (p − onehot) per pixel.
pub fn cross_entropy(logits: &[f32], labels: &[u8], class_weights: &[f32]) -> (f64, f64, Vec<f32>) {
    let classes = class_weights.len();
    let pixels = CHUNK / classes;
    let parts: Vec<_> = logits
        .par_chunks(pixels * classes)
        .zip(labels.par_chunks(pixels))
        .map(|(logits, labels)| plain::cross_entropy(logits, labels, class_weights))
        .collect();
    let (mut loss, mut weights, mut gradient) = (0.0, 0.0, Vec::with_capacity(logits.len()));
    for (part_loss, part_weights, part_gradient) in parts {
        loss += part_loss;
        weights += part_weights;
        gradient.extend_from_slice(&part_gradient);
    }
    (loss, weights, gradient)
}
