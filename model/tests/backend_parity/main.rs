//! Every backend against the reference loops, on the shapes that break index arithmetic.

mod any_convolution;
mod convolutions;
mod joined;
mod loops;
mod odd_values;

use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn random(seed: u64, shape: &[usize]) -> Tensor {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor
        .to_device(&Device::Cpu)
        .unwrap()
        .to_dtype(DType::F32)
        .unwrap()
        .flatten_all()
        .unwrap()
        .to_vec1()
        .unwrap()
}

/// ‖a − b‖ / ‖b‖ of two vectors.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    distance_of_sums(a, b, 1e-15)
}

/// ‖a − b‖ of two vectors, to ‖b‖ or to what that norm usually is, whichever is more: what `b` sums may cancel.
fn distance_of_sums(a: &[f32], b: &[f32], usual: f64) -> f64 {
    assert_eq!(a.len(), b.len());
    let norm =
        |v: &mut dyn Iterator<Item = f32>| v.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied()).max(usual)
}

/// Sums of f32 products of up to a few thousand terms differ from f64 ones by a few 1e-7.
const TOLERANCE: f64 = 2e-6;
