//! What the tests of networks share: fixed random numbers, tensors of them, and gradients against finite differences.

#![allow(dead_code)] // each test file takes what it needs

use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use squall_model::optim::{Optimizer, OptimizerConfig};
use squall_model::parameters::{Kind, Parameter};
use squall_model::{Gradients, ModelFile, Network, Pass, Storage};

/// `count` numbers in [-1, 1), the same for the same seed.
pub fn draw(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
}

/// Numbers in [-1, 1) that other programs can make too: SplitMix64 of the position, keyed by the name
/// (`golden/published_networks.py`).
pub fn named(name: &str, count: usize) -> Vec<f32> {
    let digest = Sha256::digest(name.as_bytes());
    let key = u64::from_le_bytes(digest[..8].try_into().unwrap());
    let draw = |index: u64| {
        let mut z = key.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..count as u64).map(draw).collect()
}

/// A tensor of [`draw`].
pub fn field(seed: u64, [b, h, w, c]: [usize; 4]) -> Tensor {
    Tensor::from_vec(draw(seed, b * h * w * c), (b, h, w, c), &Device::Cpu).unwrap()
}

/// A tensor's values in row-major order.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// ‖a − b‖ / ‖b‖.
pub fn distance(a: &[f32], b: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let off = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
    off / norm(&mut b.iter().map(|&b| f64::from(b)))
}

/// Σ a · b.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum()
}

/// Moves a network away from its symmetric start, so that γ and β matter, with most ReLUs well inside their linear
/// part: their kinks spoil finite differences (`gradient_check.rs` tests them alone).
pub fn shake(network: &mut Network) {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let moved = |p: &Parameter, values: &mut [f32]| {
        let (factor, offset) = match p.kind {
            Kind::Scale => (0.6, 0.0),
            Kind::Shift => (1.0, 2.0),
            _ => (1.0, 0.0),
        };
        values
            .iter_mut()
            .for_each(|v| *v = factor * *v + offset + rng.random_range(-0.1..0.1));
    };
    network.parameters_mut().update(moved).unwrap();
}

/// The parameters, of those that `of` chooses, whose gradients are not what finite differences say of Σ r · logits with
/// random r, along one random direction each; and how many were judged.
pub fn wrong_gradients(
    network: &mut Network,
    extents: [usize; 4],
    storage: &Storage,
    of: impl Fn(&Parameter) -> bool,
) -> (Vec<String>, usize) {
    let [b, h, w, _] = extents;
    let (x, r) = (field(1, extents), draw(2, b * h * w * 3));
    let probe = |network: &Network| {
        let mut pass = Pass::train(network.backend(), storage, 5);
        let logits = values(&network.forward(&x, &mut pass).unwrap());
        (dot(&logits, &r), pass)
    };
    let (_, pass) = probe(network);
    let mut gradients = Gradients::new(network.parameters());
    let dlogits = Tensor::from_vec(r.clone(), (b, h, w, 3), &Device::Cpu).unwrap();
    network.backward(&dlogits, pass, &mut gradients).unwrap();
    let chosen: Vec<_> = (network.parameters().iter())
        .filter(|p| of(p))
        .map(|p| (p.name.clone(), p.range.clone()))
        .collect();
    let mut wrong = Vec::new();
    let judged = chosen.len();
    for (parameter, range) in chosen {
        let direction = draw(range.start as u64, range.len());
        let length = dot(&direction, &direction).sqrt();
        let analytic = dot(&gradients.as_slice()[range], &direction);
        let shift = |network: &mut Network, shift: f64| {
            let moved = |p: &Parameter, values: &mut [f32]| {
                if p.name == parameter {
                    let pairs = values.iter_mut().zip(&direction);
                    pairs.for_each(|(v, d)| *v += shift as f32 * d);
                }
            };
            network.parameters_mut().update(moved).unwrap();
        };
        // Kinks spoil large steps, rounding spoils small ones: one of several must agree.
        let bound = 0.02 * length + 0.02 * analytic.abs();
        let mut numeric = Vec::new();
        for step in [1e-3, 3e-3, 3e-4].map(|step| step / length) {
            shift(network, step);
            let up = probe(network).0;
            shift(network, -2.0 * step);
            let down = probe(network).0;
            shift(network, step);
            numeric.push((up - down) / (2.0 * step));
            if numeric.iter().any(|n| (n - analytic).abs() <= bound) {
                break;
            }
        }
        if numeric.iter().all(|n| (n - analytic).abs() > bound) {
            wrong.push(format!(
                "{parameter}: numeric {numeric:.3?}, analytic {analytic:.3}"
            ));
        }
    }
    (wrong, judged)
}

/// Made-up labels of three classes for this many pixels.
pub fn labels(pixels: usize) -> Vec<u8> {
    let values = draw(4, pixels);
    values.iter().map(|v| ((v + 1.0) * 1.4) as u8).collect()
}

/// The loss of a training pass in f32 with [`labels`], and the gradients.
pub fn first_step(network: &Network, x: &Tensor) -> (f64, Gradients) {
    let mut pass = Pass::train(network.backend(), DType::F32, 5);
    let logits = network.forward(x, &mut pass).unwrap();
    let (b, h, w, _) = x.dims4().unwrap();
    assert_eq!(logits.dims(), [b, h, w, 3]);
    let loss = (network.backend())
        .softmax_cross_entropy(&logits, &labels(b * h * w), &[0.2, 1.0, 0.5], 1.0)
        .unwrap();
    let mut gradients = Gradients::new(network.parameters());
    network
        .backward(&loss.gradient, pass, &mut gradients)
        .unwrap();
    (loss.mean(), gradients)
}

/// A network like this one, with the weights that this one wrote to a file.
pub fn reloaded(network: &Network) -> Network {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let file = ModelFile {
        tensors: network.parameters().to_named().unwrap(),
        ..ModelFile::default()
    };
    file.write(&path).unwrap();
    let back = ModelFile::read(&path).unwrap();
    let mut other = Network::build(network.config(), network.backend(), 4).unwrap();
    (other.parameters_mut().load(&path, &back.tensors)).unwrap();
    other
}

/// The loss of each of so many steps of Adam on one batch, in f32.
pub fn learn(network: &mut Network, x: &Tensor, labels: &[u8], steps: u64) -> Vec<f64> {
    let mut optimizer = Optimizer::new(&OptimizerConfig::default(), network.parameters()).unwrap();
    let mut gradients = Gradients::new(network.parameters());
    let step = |step| {
        let mut pass = Pass::train(network.backend(), DType::F32, step);
        let logits = network.forward(x, &mut pass).unwrap();
        let loss = (network.backend())
            .softmax_cross_entropy(&logits, labels, &[1.0; 3], 1.0)
            .unwrap();
        network.update_running_statistics(&mut pass).unwrap();
        gradients.clear();
        network
            .backward(&loss.gradient, pass, &mut gradients)
            .unwrap();
        optimizer
            .step(network.parameters_mut(), &gradients, 5e-3)
            .unwrap();
        loss.mean()
    };
    (0..steps).map(step).collect()
}
