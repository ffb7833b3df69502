//! Every rule against plain loops ([`reference`]) and steps worked out by hand ([`by_hand`]); bits, refusals, saved
//! states ([`saved`]).

mod by_hand;
mod reference;
mod saved;

use super::*;
use crate::model_file::ModelFile;
use crate::ops::Backend;
use crate::parameters::Kind;
use approx::assert_relative_eq;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::Path;

/// Kernels and biases of these sizes with random values.
fn network(sizes: &[usize], seed: u64) -> Parameters {
    let mut parameters = Parameters::new(seed);
    for (index, &size) in sizes.iter().enumerate() {
        if index % 3 == 2 {
            parameters
                .vector(format!("p{index}.bias"), Kind::Bias, size, 0.0)
                .unwrap();
        } else {
            parameters
                .weight(format!("p{index}.weight"), &[size, 1, 1, 1], 6)
                .unwrap();
        }
    }
    parameters.settle(Backend::Reference).unwrap();
    parameters
}

fn gradients(parameters: &Parameters, seed: u64) -> Gradients {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut gradients = Gradients::new(parameters);
    gradients
        .as_mut_slice()
        .iter_mut()
        .for_each(|g| *g = rng.random_range(-0.1..0.1));
    gradients
}

fn values(parameters: &mut Parameters) -> Vec<f32> {
    parameters.update_all(|values| values.to_vec()).unwrap()
}

fn configs() -> Vec<OptimizerConfig> {
    let base = OptimizerConfig {
        weight_decay: 0.02,
        ..OptimizerConfig::default()
    };
    let scale = Larc {
        clip: false,
        ..Larc::default()
    };
    let slower = |config: OptimizerConfig| OptimizerConfig {
        rates: [("p3".to_string(), 0.25)].into(),
        ..config
    };
    vec![
        base.clone(),
        slower(base.clone()),
        slower(OptimizerConfig::larc_adam()),
        slower(OptimizerConfig::mlperf_deepcam()),
        slower(OptimizerConfig {
            rule: Rule::Sgd,
            nesterov: true,
            ..base.clone()
        }),
        OptimizerConfig {
            rule: Rule::Adam,
            bias_correction: false,
            ..base.clone()
        },
        OptimizerConfig {
            rule: Rule::Sgd,
            clip_norm: Some(0.5),
            ..base.clone()
        },
        OptimizerConfig {
            rule: Rule::Sgd,
            nesterov: true,
            decay_all: true,
            ..base.clone()
        },
        OptimizerConfig {
            rule: Rule::Sgd,
            larc: Some(scale),
            ..base.clone()
        },
        OptimizerConfig {
            clip_norm: Some(0.3),
            ..OptimizerConfig::larc_adam()
        },
        OptimizerConfig {
            larc: Some(scale),
            ..base.clone()
        },
        // Decay that is most of the step.
        OptimizerConfig {
            weight_decay: 5.0,
            decay_all: true,
            ..OptimizerConfig::larc_adam()
        },
        OptimizerConfig {
            rule: Rule::Sgd,
            larc: Some(Larc::default()),
            weight_decay: 5.0,
            ..base.clone()
        },
        OptimizerConfig::mlperf_deepcam(),
        OptimizerConfig {
            rule: Rule::Lamb,
            grad_averaging: false,
            bias_correction: false,
            ..base
        },
    ]
}

/// Sizes below, at and above a chunk, and many small ones.
const SIZES: [usize; 8] = [3, 20_000, 1, 17, 40_001, 5, 16_384, 2];

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for config in configs() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                let mut parameters = network(&SIZES, 3);
                let mut optimizer = Optimizer::new(&config, &parameters).unwrap();
                let mut mirror =
                    Mirror::new(&parameters, Rounding::Stochastic { seed: 5 }).unwrap();
                for t in 0..3 {
                    let fresh = gradients(&parameters, t);
                    let update = Update {
                        mirror: Some(&mut mirror),
                        ..Update::rate(0.01)
                    };
                    optimizer.update(&mut parameters, &fresh, update).unwrap();
                }
                let bits: Vec<u32> = values(&mut parameters)
                    .iter()
                    .map(|v| v.to_bits())
                    .collect();
                let halves: Vec<u16> = mirror
                    .values()
                    .unwrap()
                    .iter()
                    .map(|h| h.to_bits())
                    .collect();
                (bits, halves)
            })
        };
        let one = run(1);
        assert!(one == run(2) && one == run(5), "{config:?}");
    }
}

/// LARC reuses the weights' norms of the last step unless values changed in between, with results bit-identical to
/// those of an optimiser that was restored without norms.
#[test]
fn kept_norms_are_those_of_the_values() {
    let path = Path::new("checkpoint.safetensors");
    for config in configs() {
        let run = |fresh: bool| {
            let mut parameters = network(&SIZES, 3);
            let mut optimizer = Optimizer::new(&config, &parameters).unwrap();
            for t in 0..4 {
                if fresh {
                    let mut file = ModelFile::default();
                    optimizer.save_into(&mut file).unwrap();
                    optimizer = Optimizer::new(&config, &parameters).unwrap();
                    (optimizer.load_from(path, &file.facts, &file.tensors)).unwrap();
                }
                let step = gradients(&parameters, t);
                optimizer.step(&mut parameters, &step, 0.01).unwrap();
                if t == 2 {
                    let double =
                        |_: &_, values: &mut [f32]| values.iter_mut().for_each(|v| *v *= 2.0);
                    parameters.update(double).unwrap();
                }
            }
            values(&mut parameters)
                .iter()
                .map(|v| v.to_bits())
                .collect::<Vec<_>>()
        };
        assert!(run(false) == run(true), "{config:?}");
    }
}

/// Tensors below, at and above what is taken as one group.
#[test]
fn lamb_in_groups_is_lamb_of_each_tensor() {
    let config = OptimizerConfig {
        clip_norm: None,
        ..OptimizerConfig::mlperf_deepcam()
    };
    let sizes = [700_000, 600_000, 5, 1_200_000, 3, 1 << 20];
    let mut all = network(&sizes, 3);
    let steps = gradients(&all, 1);
    let before = values(&mut all);
    let mut optimizer = Optimizer::new(&config, &all).unwrap();
    optimizer.step(&mut all, &steps, 0.1).unwrap();
    let after = values(&mut all);
    let mut start = 0;
    for size in sizes {
        let range = start..start + size;
        start = range.end;
        let mut alone = network(&[size], 1);
        let copy = |values: &mut [f32]| values.copy_from_slice(&before[range.clone()]);
        alone.update_all(copy).unwrap();
        let mut step = Gradients::new(&alone);
        let part = &steps.as_slice()[range.clone()];
        step.as_mut_slice().copy_from_slice(part);
        let mut optimizer = Optimizer::new(&config, &alone).unwrap();
        optimizer.step(&mut alone, &step, 0.1).unwrap();
        for (got, expected) in after[range].iter().zip(values(&mut alone)) {
            assert_relative_eq!(*got, expected, epsilon = 1e-6, max_relative = 1e-5);
        }
    }
}

#[test]
fn what_is_no_number_stops_before_anything_changes() {
    let mut parameters = network(&[5, 7, 3], 1);
    let mut optimizer = Optimizer::new(&OptimizerConfig::default(), &parameters).unwrap();
    let fine = gradients(&parameters, 1);
    optimizer.step(&mut parameters, &fine, 0.1).unwrap();
    let (before, state) = (
        values(&mut parameters),
        optimizer.state().unwrap().map(|s| s.to_vec()),
    );
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut broken = gradients(&parameters, 2);
        broken.as_mut_slice()[8] = bad;
        broken.as_mut_slice()[13] = bad;
        let error = optimizer
            .step(&mut parameters, &broken, 0.1)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!("step 2: the gradient of `p1.weight` is {bad} at value 3")
        );
    }
    assert_eq!(values(&mut parameters), before);
    assert_eq!(optimizer.state().unwrap().map(|s| s.to_vec()), state);
    assert_eq!(optimizer.steps(), 1);
    // Gradients of another network are refused, not cut off.
    let other = Gradients::new(&network(&[5, 7], 1));
    let error = optimizer
        .step(&mut parameters, &other, 0.1)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("gradients") && error.contains("15") && error.contains("12"),
        "{error}"
    );
}

#[test]
fn copies_are_the_new_values() {
    let mut parameters = network(&SIZES, 2);
    // A step rounds chunk by chunk, `fill_mirror` all at once: random bits depend on the index alone.
    let roundings = [Rounding::Nearest, Rounding::Stochastic { seed: 5 }];
    for (config, rounding) in [
        OptimizerConfig::default(),
        OptimizerConfig::mlperf_deepcam(),
    ]
    .iter()
    .flat_map(|config| roundings.map(|rounding| (config, rounding)))
    {
        let mut optimizer = Optimizer::new(config, &parameters).unwrap();
        let mut mirror = Mirror::new(&parameters, rounding).unwrap();
        let fresh = gradients(&parameters, 1);
        let update = Update {
            mirror: Some(&mut mirror),
            ..Update::rate(0.01)
        };
        optimizer.update(&mut parameters, &fresh, update).unwrap();
        let expected: Vec<half::bf16> = (values(&mut parameters).iter())
            .map(|&v| half::bf16::from_f32(v))
            .collect();
        let nearest = *mirror.values().unwrap() == expected;
        assert_eq!(nearest, rounding == Rounding::Nearest);
        let mut filled = Mirror::new(&parameters, rounding).unwrap();
        optimizer.fill_mirror(&mut parameters, &mut filled).unwrap();
        assert!(
            filled.values().unwrap() == mirror.values().unwrap(),
            "{rounding:?}"
        );
    }
}

proptest! {
    #[test]
    fn a_power_of_two_loss_scale_changes_no_bit(
        exponent in -8i32..16,
        config in proptest::sample::select(configs()),
    ) {
        let run = |scale: f32| {
            let mut parameters = network(&[5, 300, 7], 3);
            let mut optimizer = Optimizer::new(&config, &parameters).unwrap();
            for t in 0..3 {
                let mut fresh = gradients(&parameters, t);
                fresh.scale(scale);
                let update = Update { gradient_scale: 1.0 / scale, ..Update::rate(0.01) };
                optimizer.update(&mut parameters, &fresh, update).unwrap();
            }
            values(&mut parameters).iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(1.0), run(2f32.powi(exponent)));
    }
}

#[test]
fn the_longest_name_that_fits_decides_the_rate() {
    let rates = [("encoder", 0.1), ("encoder.block1", 0.0), ("*.bias", 2.0)];
    let config = OptimizerConfig {
        rates: rates.map(|(of, factor)| (of.to_string(), factor)).into(),
        ..OptimizerConfig::default()
    };
    config.check().unwrap();
    for (name, factor) in [
        ("encoder.stem.weight", 0.1),
        ("encoder.block1.conv.weight", 0.0),
        ("encoder.block10.conv.weight", 0.1),
        ("encoder.block10.conv.bias", 0.1),
        ("decoder.classify.bias", 2.0),
        ("decoder.classify.weight", 1.0),
    ] {
        assert_eq!(config.rate_of(name), factor, "{name}");
    }
}

#[test]
fn a_rate_of_zero_freezes_a_parameter_that_must_exist() {
    for rule in [Rule::Sgd, Rule::Adam, Rule::AdamW, Rule::Lamb] {
        let config = OptimizerConfig {
            rule,
            weight_decay: 0.1,
            decay_all: true,
            rates: [("p1".to_string(), 0.0)].into(),
            ..OptimizerConfig::default()
        };
        let mut parameters = network(&SIZES, 3);
        config.check_rates(&parameters).unwrap();
        let ranges: Vec<_> = parameters.iter().map(|p| p.range.clone()).collect();
        let start = values(&mut parameters);
        let mut optimizer = Optimizer::new(&config, &parameters).unwrap();
        let slopes = gradients(&parameters, 1);
        optimizer.step(&mut parameters, &slopes, 0.01).unwrap();
        let end = values(&mut parameters);
        for (index, range) in ranges.into_iter().enumerate() {
            let same = start[range.clone()] == end[range];
            assert_eq!(same, index == 1, "{rule:?}: parameter {index}");
        }
    }
    let of = |name: &str, factor| OptimizerConfig {
        rates: [(name.to_string(), factor)].into(),
        ..OptimizerConfig::default()
    };
    let parameters = network(&SIZES, 3);
    let error = of("p11", 0.1).check_rates(&parameters).unwrap_err();
    let error = error.to_string();
    for part in ["optimiser.rates", "`p11`", "p0, p1, p2"] {
        assert!(error.contains(part), "{error}");
    }
    for wrong in [-0.1, f32::NAN, f32::INFINITY] {
        let error = of("p1", wrong).check().unwrap_err().to_string();
        assert!(error.contains("rates") && error.contains("`p1`"), "{error}");
    }
}
