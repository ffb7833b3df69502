//! An input and what the network makes of it, to check a copy of the network elsewhere.

use crate::error::Result;
use crate::model_file::ModelFile;
use crate::networks::Network;
use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Tensors `input` and `logits` of one made-up sample, computed in f32.
///
/// # Shapes
/// `input` `(1, h, w, c)`, as [`fields`] makes them; `logits` `(1, h, w, k)`.
/// # Errors
/// [`crate::ModelError::Shape`] if the field is too small for the network.
pub fn sample(network: &Network, grid: (usize, usize), seed: u64) -> Result<ModelFile> {
    let x = fields(network.config().channels_in, grid, seed)?;
    let logits = network.infer(&x, DType::F32)?;
    let mut file = ModelFile::default();
    for (name, tensor) in [("input", &x), ("logits", &logits)] {
        let values = tensor.flatten_all()?.to_vec1()?;
        let named = (tensor.dims().to_vec(), values);
        file.tensors.insert(name.to_string(), named);
    }
    Ok(file)
}

/// Fields like normalised ones: in every channel a few planetary waves that differ by channel, and noise.
///
/// Noise alone would make deep features nearly constant in space; batch normalisation then divides by almost nothing,
/// and rounding is all that is left to compare.
///
/// # Shapes
/// `(1, h, w, channels)`
/// # Errors
/// [`crate::ModelError::Candle`] if there are no pixels.
pub fn fields(channels: usize, (h, w): (usize, usize), seed: u64) -> Result<Tensor> {
    use std::f32::consts::{PI, TAU};
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Per channel and wave: how often around the globe, how often from pole to pole, phase, height.
    let mut wave = || {
        [
            rng.random_range(0..9) as f32 * TAU,
            rng.random_range(1..7) as f32 * PI,
            rng.random_range(0.0..TAU),
            rng.random_range(0.3..1.0),
        ]
    };
    let waves: Vec<[[f32; 4]; 3]> = (0..channels).map(|_| [wave(), wave(), wave()]).collect();
    let mut values = Vec::with_capacity(h * w * channels);
    for pixel in 0..h * w {
        let north = (pixel / w) as f32 / h as f32;
        let east = (pixel % w) as f32 / w as f32;
        for waves in &waves {
            let sum: f32 = (waves.iter())
                .map(|[around, across, phase, height]| {
                    height * (around * east + phase).sin() * (across * north + phase).cos()
                })
                .sum();
            values.push(sum + rng.random_range(-0.3..0.3));
        }
    }
    Ok(Tensor::from_vec(values, (1, h, w, channels), &Device::Cpu)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_of_order_one_and_follow_from_the_seed() {
        let values = |seed| -> Vec<f32> {
            let x = fields(3, (24, 48), seed).unwrap();
            x.flatten_all().unwrap().to_vec1().unwrap()
        };
        assert_eq!(values(1), values(1));
        assert_ne!(values(1), values(2));
        let squares: f32 = values(1).iter().map(|v| v * v).sum();
        let rms = (squares / (24.0 * 48.0 * 3.0)).sqrt();
        assert!((0.3..1.5).contains(&rms), "{rms}");
    }
}
