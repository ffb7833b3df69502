//! A sample input with the network's output, to verify a copy of the network in another program.

use crate::error::Result;
use crate::model_file::ModelFile;
use crate::networks::Network;
use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Tensors `input` and `logits` of one synthetic sample, computed in f32.
///
/// # Shapes
/// `input` `(1, h, w, c)`, from [`fields`]; `logits` `(1, h, w, k)`.
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

/// Fields that resemble normalised ones: in every channel a few planetary waves that differ by channel, and noise.
///
/// With noise alone, deep features would be nearly constant in space. Batch normalisation would then divide by almost
/// zero, and the comparison would see only rounding errors.
///
/// # Shapes
/// `(1, h, w, channels)`
/// # Errors
/// [`crate::ModelError::Candle`] if there are no pixels.
pub fn fields(channels: usize, (h, w): (usize, usize), seed: u64) -> Result<Tensor> {
    use std::f32::consts::{PI, TAU};
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Per channel and wave: zonal wavenumber, meridional wavenumber, phase, amplitude.
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
