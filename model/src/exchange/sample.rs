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
/// `input` `(1, h, w, c)`, normalised values; `logits` `(1, h, w, k)`.
/// # Errors
/// [`crate::ModelError::Shape`] if the field is too small for the network.
pub fn sample(network: &Network, (h, w): (usize, usize), seed: u64) -> Result<ModelFile> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let shape = vec![1, h, w, network.config().channels_in];
    let input: Vec<f32> = (0..shape.iter().product())
        .map(|_| rng.random_range(-2.0..2.0))
        .collect();
    let x = Tensor::from_slice(&input, &shape[..], &Device::Cpu)?;
    let logits = network.infer(&x, DType::F32)?;
    let mut file = ModelFile::default();
    let values = logits.flatten_all()?.to_vec1()?;
    file.tensors
        .insert("logits".into(), (logits.dims().to_vec(), values));
    file.tensors.insert("input".into(), (shape, input));
    Ok(file)
}
