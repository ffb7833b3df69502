//! LAMB: Adam's direction, with a step per tensor proportional to the tensor's norm.

use super::Step;
use super::sweep::{Kernel, Memory, Order, Piece, Place, per_parameter, sweep};
use crate::gradients::squares;
use std::ops::Range;

/// Values per group, chosen so that two arrays of them stay in most last-level caches between the two passes.
const GROUP: usize = 1 << 20;

/// The first pass: moments, Σ θ² and Σ u².
struct Moments<'a>(&'a Step<'a>);

impl Kernel for Moments<'_> {
    #[inline(always)]
    fn run(&self, piece: Piece<'_>) -> [f64; 2] {
        let &Step { config, unbias, .. } = self.0;
        let (beta1, beta2, epsilon) = (config.beta1, config.beta2, config.epsilon);
        let beta3 = match config.grad_averaging {
            true => 1.0 - beta1,
            false => 1.0,
        };
        let (_, decay, factor) = self.0.rate_decay_factor(piece.parameter);
        let moments = piece.first.iter_mut().zip(piece.second);
        let values = piece.values.iter().zip(piece.gradient);
        let all = values.zip(moments).zip(piece.direction.iter_mut());
        for (((&value, &g), (m, v)), u) in all {
            let g = factor * g;
            *m = beta1 * *m + beta3 * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *u = (*m * unbias.0) / ((*v * unbias.1).sqrt() + epsilon) + decay * value;
        }
        [squares(piece.values), squares(piece.direction)]
    }
}

/// The second pass: the step along u, with the factor η r of each parameter.
struct Apply<'a>(&'a [f32]);

impl Kernel for Apply<'_> {
    #[inline(always)]
    fn run(&self, piece: Piece<'_>) -> [f64; 2] {
        let rate = self.0[piece.parameter];
        for (value, &u) in piece.values.iter_mut().zip(piece.direction.iter()) {
            *value -= rate * u;
        }
        [0.0; 2]
    }
}

/// Takes one step of all parameters, group by group; a group consists of whole tensors.
///
/// u = m̂ / (√v̂ + ε) + λ θ, θ ← θ − η r u, with r = ‖θ‖ / ‖u‖ per tensor.
///
/// r is 1 where a norm is zero and for tensors without weight decay (Apex's `use_nvlamb = False`). The gradient is
/// already clipped. The first pass over a tensor updates the moments, sums both norms and stores u; the second steps
/// along u. Tensors are processed in groups, so that the second pass finds u and θ in cache. Only tensors larger than
/// the cache are read from memory twice.
///
/// # Source
/// You et al. 2020 (arXiv:1904.00962) algorithm 2, as implemented by Apex's `multi_tensor_lamb.cu`, which MLPerf HPC
/// DeepCAM uses.
pub(super) fn take(step: &Step<'_>, places: &[Place], mut memory: Memory<'_>) {
    let direction = std::mem::take(&mut memory.direction);
    let mut rates = vec![0.0; places.len()];
    let mut left = memory;
    for group in groups(places) {
        let length = length(&places[group.clone()]);
        let (memory, rest) = left.split_at(length);
        left = rest;
        let mut memory = Memory {
            direction: &mut direction[..length],
            ..memory
        };
        let sums = sweep(
            places,
            memory.without_mirror(),
            &Moments(step),
            Order::Forward,
        );
        let sums = per_parameter(places, sums);
        for parameter in group {
            let trust = trust(sums[parameter], step.decay[parameter]);
            rates[parameter] = step.rates[parameter] * trust;
        }
        sweep(places, memory, &Apply(&rates), Order::Backward);
    }
}

/// Size of the largest group: the length of the direction buffer that [`take`] needs.
pub(super) fn direction_len(places: &[Place]) -> usize {
    let lengths = groups(places)
        .into_iter()
        .map(|group| length(&places[group]));
    lengths.max().unwrap_or(0)
}

fn length(places: &[Place]) -> usize {
    places.iter().map(|place| place.range.len()).sum()
}

/// Consecutive parameters of at most [`GROUP`] values in total, or a single larger one.
fn groups(places: &[Place]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut values = usize::MAX;
    for (parameter, place) in places.iter().enumerate() {
        let more = values.saturating_add(place.range.len());
        match groups.last_mut() {
            Some(group) if more <= GROUP => {
                group.end = parameter + 1;
                values = more;
            }
            _ => {
                groups.push(parameter..parameter + 1);
                values = place.range.len();
            }
        }
    }
    groups
}

/// The ratio r of one tensor, from Σ θ² and Σ u².
fn trust([values, direction]: [f64; 2], decay: f32) -> f32 {
    if decay != 0.0 && values > 0.0 && direction > 0.0 {
        (values.sqrt() / direction.sqrt()) as f32
    } else {
        1.0
    }
}
