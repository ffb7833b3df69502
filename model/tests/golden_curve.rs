//! Twenty steps of a tiny DeepLabV3+ on fixed data: the losses of each backend and precision against committed ones.
//!
//! `golden/loss_curve_*.csv` hold the plain loops' f32 losses. A change that means to change results writes them anew:
//! `UPDATE_GOLDEN=1 cargo test -p squall-model --test golden_curve`.
//!
//! Without batch normalisation backends stay within 2e-7 over all steps. With it, over twelve values a channel in the
//! deepest layers, a value that crosses zero under a ReLU changes gradients by percents: weights that differ by 1e-4 of
//! themselves give gradients that differ by 15 % after six steps, in one and the same backend. So that curve is held
//! tightly for its first steps only.

use candle_core::{DType, Device, Tensor};
use squall_model::ops::loss::Criterion;
use squall_model::optim::{Optimizer, OptimizerConfig, Rule, Schedule, Update};
use squall_model::{Backend, Gradients, Network, NetworkConfig, Pass};
use std::path::PathBuf;

const STEPS: u64 = 20;
const SIZE: [usize; 4] = [2, 16, 24, 4];

/// A low and a band under noise; the low is class 1, the band class 2. Sums of products only, so that every machine has
/// the same, and no two pixels alike: a maximum of equals is a matter of rounding.
fn batch(step: u64) -> (Tensor, Vec<u8>) {
    let [b, h, w, c] = SIZE;
    let (mut x, mut labels) = (Vec::new(), Vec::new());
    let mut state = step + 1;
    for sample in 0..b as u64 {
        let shift = ((step * 2 + sample) * 5 % w as u64) as f32;
        for j in 0..h {
            for i in 0..w {
                let east = (i as f32 - shift).rem_euclid(w as f32) / w as f32 - 0.5;
                let north = j as f32 / h as f32 - 0.5;
                let low = (1.0 - 30.0 * (east * east + (north + 0.2) * (north + 0.2))).max(0.0);
                let band = (1.0 - 8.0 * (north - 0.25 - east * east).abs()).max(0.0);
                let mut noise = || {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
                };
                x.extend([low, band, 2.0 * north, east].map(|value| value + 0.4 * noise()));
                labels.push(if low > 0.3 {
                    1
                } else {
                    u8::from(band > 0.4) * 2
                });
            }
        }
    }
    (
        Tensor::from_vec(x, (b, h, w, c), &Device::Cpu).unwrap(),
        labels,
    )
}

/// One committed curve.
#[derive(Clone, Copy)]
struct Golden {
    name: &'static str,
    batch_norm: bool,
    rate: f32,
    /// Steps for which backends are held to the tolerance.
    tight: usize,
    /// What the last loss is below, as a share of the first.
    learns: f64,
}

const PLAIN: Golden = Golden {
    name: "plain",
    batch_norm: false,
    rate: 0.01,
    tight: 20,
    learns: 0.3,
};

const NORMALISED: Golden = Golden {
    name: "normalised",
    batch_norm: true,
    rate: 0.003,
    tight: 5,
    learns: 0.8,
};

fn curve(golden: Golden, backend: Backend, dtype: DType) -> Vec<f64> {
    let config = NetworkConfig {
        channels_in: SIZE[3],
        width: 0.05,
        blocks: vec![1, 1],
        atrous_rates: vec![2],
        batch_norm: golden.batch_norm,
        ..NetworkConfig::default()
    };
    let mut network = Network::build(&config, backend, 11).unwrap();
    // Not Adam: its first steps are the signs of gradients, and those of tiny ones are a matter of rounding.
    let rule = OptimizerConfig {
        rule: Rule::Sgd,
        nesterov: true,
        ..OptimizerConfig::default()
    };
    let mut optimizer = Optimizer::new(&rule, network.parameters()).unwrap();
    let schedule = Schedule {
        rate: golden.rate,
        warmup_steps: 3,
        ..Schedule::default()
    };
    let criterion = Criterion::cross_entropy(&[0.2, 1.0, 0.6]);
    // f16 loses small gradients; a power of two changes nothing in the other types.
    let scale = 1024.0;
    let mut gradients = Gradients::new(network.parameters());
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let (x, labels) = batch(step);
        let mut pass = Pass::train(backend, dtype, step);
        let logits = network.forward(&x, &mut pass).unwrap();
        let loss = backend
            .segmentation_loss(&logits, &labels, &criterion, scale)
            .unwrap();
        network.update_running_statistics(&mut pass).unwrap();
        gradients.clear();
        network
            .backward(&loss.gradient, pass, &mut gradients)
            .unwrap();
        let rate = schedule.rate(step, STEPS);
        let update = Update {
            gradient_scale: 1.0 / scale,
            ..Update::rate(rate)
        };
        optimizer
            .update(network.parameters_mut(), &gradients, update)
            .unwrap();
        losses.push(loss.value());
    }
    losses
}

fn committed(golden: Golden) -> Vec<f64> {
    let file = format!("tests/golden/loss_curve_{}.csv", golden.name);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let losses = curve(golden, Backend::Reference, DType::F32);
        let rows: Vec<String> = (losses.iter().enumerate())
            .map(|(step, loss)| format!("{step},{loss:.6}\n"))
            .collect();
        std::fs::write(&path, format!("step,loss\n{}", rows.concat())).unwrap();
    }
    let text = std::fs::read_to_string(path).unwrap();
    let loss = |line: &str| line.split_once(',').unwrap().1.parse().unwrap();
    text.lines().skip(1).map(loss).collect()
}

fn check(golden: Golden, dtype: DType, tolerance: f64) {
    let expected = committed(golden);
    for backend in Backend::all() {
        let got = curve(golden, backend, dtype);
        assert_eq!(expected.len(), got.len());
        for (step, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let off = (got / expected - 1.0).abs();
            let allowed = if step < golden.tight { tolerance } else { 0.15 };
            assert!(
                off < allowed,
                "{backend:?} {dtype:?} step {step}: {got} instead of {expected}"
            );
        }
        let (first, last) = (got[0], got[got.len() - 1]);
        assert!(last < golden.learns * first, "it does not learn: {got:?}");
    }
}

#[test]
fn f32_without_batch_normalisation() {
    check(PLAIN, DType::F32, 2e-3);
}

#[test]
fn bf16_without_batch_normalisation() {
    check(PLAIN, DType::BF16, 3e-2);
}

#[test]
fn f16_without_batch_normalisation() {
    check(PLAIN, DType::F16, 1e-2);
}

#[test]
fn f32_with_batch_normalisation() {
    check(NORMALISED, DType::F32, 2e-3);
}

#[test]
fn bf16_with_batch_normalisation() {
    // More than twice the tolerance: the mean and spread of twelve values rounded to eight bits are that much off, and
    // oneDNN 3.2 adds up in another order than 2.6 (6.2 % in the fifth step).
    check(NORMALISED, DType::BF16, 8e-2);
}

#[test]
fn f16_with_batch_normalisation() {
    // Rounding to eleven bits is as good a start for that divergence as rounding to eight.
    check(NORMALISED, DType::F16, 8e-2);
}
