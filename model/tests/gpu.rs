//! Networks and optimisers on the GPU against the CPU: on a real one where there is a driver, else on the stand-in.
#![cfg(feature = "cuda")]
#![allow(clippy::print_stderr)] // says what it skips

mod common;
mod stand_in_gpu;

use candle_core::{DType, Device, Tensor};
use common::{distance, draw, field, first_step, labels, values};
use squall_model::detection::{BoxTarget, DetectionLossConfig, DetectionTargets};
use squall_model::networks::NetworkName;
use squall_model::ops::{ConvSpec, Fuse, cuda};
use squall_model::optim::{
    Average, Larc, Mirror, Optimizer, OptimizerConfig, Rounding, Rule, Update,
};
use squall_model::{
    Backend, FileContents, Gradients, ModelError, ModelFile, Network, NetworkConfig, Pass,
    Recompute, SavedActivations, Storage,
};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The GPU; `None`, with a printed reason, where not even the stand-in can be built.
fn gpu() -> Option<Backend> {
    static KEPT: OnceLock<Option<PathBuf>> = OnceLock::new();
    // What one stand-in compiled is not for another one.
    let kept = KEPT.get_or_init(|| match cuda::finds("libcuda.so.1") {
        true => Some(env!("CARGO_TARGET_TMPDIR").into()),
        false => {
            stand_in_gpu::folder().inspect(|folder| cuda::look_in(std::slice::from_ref(folder)))
        }
    });
    cuda::cache_in(kept.as_ref()?.join("gpu-cache"));
    let gpu = Backend::all().into_iter().find(|backend| backend.is_gpu());
    assert!(gpu.is_some(), "{}", cuda::describe());
    gpu
}

/// Ranks of a node, which have GPUs of other numbers, compare it.
#[test]
fn the_kind_of_a_gpu_is_told_without_its_number() {
    let Some(gpu) = gpu() else { return };
    let (whole, kind) = (gpu.describe(), gpu.kind());
    assert!(whole.starts_with("GPU "), "{whole}");
    assert_eq!(whole.split_once(": ").unwrap().1, kind);
    assert!(kind.contains("compute capability"), "{kind}");
}

const EXTENTS: [usize; 4] = [1, 12, 20, 4];

/// Every segmentation network, thin.
fn networks() -> Vec<NetworkConfig> {
    let thin = |name, blocks: &[usize]| NetworkConfig {
        channels_in: 4,
        width: 0.06,
        blocks: blocks.to_vec(),
        ..NetworkConfig::of(name)
    };
    let atrous = |config| NetworkConfig {
        atrous_rates: vec![2],
        ..config
    };
    vec![
        NetworkConfig {
            latitude_input: true,
            dropout: 0.2,
            ..atrous(thin(NetworkName::DeepLabV3Plus, &[1, 1]))
        },
        NetworkConfig {
            batch_norm: false,
            preactivation_relu: false,
            ..atrous(thin(NetworkName::DeepLabV3PlusDeconv, &[1, 1]))
        },
        atrous(thin(NetworkName::DeepLabV3PlusBilinear, &[1, 1])),
        atrous(thin(NetworkName::DeepCam, &[1])),
        thin(NetworkName::Tiramisu, &[1, 2, 2]),
        NetworkConfig {
            periodic_latitude: true,
            ..thin(NetworkName::CgNet, &[2, 2])
        },
    ]
}

/// Losses and gradient norms of two steps.
fn learn(config: &NetworkConfig, backend: Backend, storage: &Storage) -> Vec<[f64; 2]> {
    let mut network = Network::build(config, backend, 3).unwrap();
    let optimiser = OptimizerConfig {
        rule: Rule::Sgd,
        ..OptimizerConfig::default()
    };
    let mut optimizer = Optimizer::new(&optimiser, network.parameters()).unwrap();
    let mut gradients = Gradients::new(network.parameters());
    let [b, h, w, _] = EXTENTS;
    let labels = labels(b * h * w);
    let mut seen = Vec::new();
    for step in 0..2 {
        let mut pass = Pass::train(backend, storage, step);
        let logits = network.forward(&field(1, EXTENTS), &mut pass).unwrap();
        let loss = backend
            .softmax_cross_entropy(&logits, &labels, &[0.2, 1.0, 0.5], 1.0)
            .unwrap();
        network.update_running_statistics(&mut pass).unwrap();
        gradients.clear();
        network
            .backward(&loss.gradient, pass, &mut gradients)
            .unwrap();
        let norm = optimizer
            .step(network.parameters_mut(), &gradients, 0.01)
            .unwrap();
        seen.push([loss.value(), norm]);
    }
    seen
}

fn close(a: &[[f64; 2]], b: &[[f64; 2]], tolerance: f64) -> bool {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    a.len() == b.len()
        && pairs
            .into_iter()
            .all(|(a, b)| (a - b).abs() <= tolerance * b.abs())
}

/// The gradient of a network's first step.
fn gradient(config: &NetworkConfig, backend: Backend) -> (f64, Vec<f32>) {
    let network = Network::build(config, backend, 3).unwrap();
    let (loss, gradients) = first_step(&network, &field(1, EXTENTS));
    (loss, gradients.as_slice().to_vec())
}

/// ReLUs make much of rounding where a network is small: how far the CPU's own loops are apart is the measure.
#[test]
fn every_network_has_the_gradient_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    for config in networks() {
        let plain = gradient(&config, Backend::Reference);
        let fast = gradient(&config, Backend::best_of_cpu());
        let ours = gradient(&config, gpu);
        let off = (ours.0 - plain.0).abs() / plain.0;
        assert!(
            off < 1e-5,
            "{:?}: loss {} against {}",
            config.name,
            ours.0,
            plain.0
        );
        let (noise, apart) = (distance(&fast.1, &plain.1), distance(&ours.1, &plain.1));
        assert!(
            apart < 1e-4 + 10.0 * noise && apart < 0.02,
            "{:?}: {apart}, the CPU's own {noise}",
            config.name
        );
    }
}

#[test]
fn the_tape_may_keep_less_on_the_gpu_too() {
    let Some(gpu) = gpu() else { return };
    let config = &networks()[0];
    let plain = learn(config, gpu, &DType::F32.into());
    for recompute in Recompute::ALL {
        let storage = Storage::from(DType::F32).keeping(recompute, SavedActivations::Same);
        let same = learn(config, gpu, &storage);
        assert_eq!(same, plain, "{recompute:?}: not the same bits");
    }
    let storage = Storage::from(DType::F32).keeping(Recompute::None, SavedActivations::Bf16);
    let rounded = learn(config, gpu, &storage);
    assert!(
        close(&rounded[..1], &plain[..1], 0.05),
        "{rounded:?} against {plain:?}"
    );
    let cgnet = networks().pop().unwrap();
    let plain = learn(&cgnet, gpu, &DType::F32.into());
    let storage = Storage::from(DType::F32).keeping(Recompute::Norms, SavedActivations::Same);
    assert_eq!(learn(&cgnet, gpu, &storage), plain);
}

#[test]
fn half_precisions_learn_as_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    // Without batch norm, which on so few pixels makes much of any rounding.
    let config = &networks()[1];
    let plain = learn(config, gpu, &DType::F32.into());
    for dtype in [DType::BF16, DType::F16] {
        let half = learn(config, gpu, &dtype.into())[0];
        assert_ne!(half[0], plain[0][0], "nothing was rounded");
        // Where values are rounded depends on how operations are cut, so the CPU is off by as much from itself.
        let judge = learn(config, Backend::Reference, &dtype.into())[0];
        let other = learn(config, Backend::best_of_cpu(), &dtype.into())[0];
        for at in 0..2 {
            let spread = (other[at] - judge[at]).abs();
            let off = (half[at] - judge[at]).abs();
            assert!(
                off < 3.0 * spread + 0.01 * judge[at],
                "{dtype:?}: {half:?} against {judge:?}, {other:?} by other loops"
            );
        }
    }
}

#[test]
fn inference_agrees_whole_and_in_strips() {
    let Some(gpu) = gpu() else { return };
    for config in networks() {
        let x = field(7, EXTENTS);
        let infer = |backend| {
            let network = Network::build(&config, backend, 3).unwrap();
            let logits = network.infer(&x, DType::F32).unwrap();
            (network, logits)
        };
        let (_, expected) = infer(Backend::best_of_cpu());
        let (network, logits) = infer(gpu);
        let got = gpu.to_host(&logits).unwrap();
        let apart = distance(&values(&got), &values(&expected));
        assert!(apart < 1e-4, "{:?}: {apart}", config.name);
        // Prepared weights serve a second time.
        let again = gpu
            .to_host(&network.infer(&x, DType::F32).unwrap())
            .unwrap();
        assert_eq!(values(&again), values(&got));
        if config.name == NetworkName::DeepLabV3Plus {
            let strips = NonZeroUsize::new(3).unwrap();
            let cut = network
                .predict_in_strips(&x, DType::F32, true, strips)
                .unwrap();
            let whole = network.predict(&x, DType::F32, true).unwrap();
            let apart = distance(
                &values(&cut.probabilities.unwrap()),
                &values(&whole.probabilities.unwrap()),
            );
            assert!(apart < 1e-5, "{apart}");
            assert_eq!(cut.classes.len(), whole.classes.len());
        }
    }
}

#[test]
fn detectors_learn_as_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let tiny = |name, blocks: &[usize]| NetworkConfig {
        channels_in: 4,
        width: 0.05,
        blocks: blocks.to_vec(),
        ..NetworkConfig::of(name)
    };
    for config in [
        tiny(NetworkName::Detector2d, &[2]),
        NetworkConfig {
            time_steps: 3,
            ..tiny(NetworkName::Detector3d, &[2])
        },
    ] {
        let target = BoxTarget {
            class: 1,
            y_min: 8.0,
            x_min: 12.0,
            y_max: 14.0,
            x_max: 19.0,
        };
        let x = field(1, [config.frames(), 32, 64, 4]);
        let run = |backend| {
            let network = Network::build(&config, backend, 3).unwrap();
            let mut pass = Pass::train(backend, DType::F32, 1);
            let output = network.detect(&x, &mut pass, true).unwrap();
            let boxes = vec![Some(vec![target]); output.frames()];
            let targets = DetectionTargets {
                fields: &x,
                boxes: &boxes,
                masks: None,
            };
            let loss = output
                .loss(&targets, &DetectionLossConfig::default(), 1.0)
                .unwrap();
            let mut gradients = Gradients::new(network.parameters());
            network
                .backward_detection(loss.gradient, pass, &mut gradients)
                .unwrap();
            (loss.total, gradients.as_slice().to_vec())
        };
        let (theirs, ours) = (run(Backend::best_of_cpu()), run(gpu));
        assert!(
            (ours.0 - theirs.0).abs() < 1e-3 * theirs.0,
            "{} against {}",
            ours.0,
            theirs.0
        );
        let apart = distance(&ours.1, &theirs.1);
        assert!(apart < 2e-3, "{:?}: {apart}", config.name);
    }
}

fn small() -> NetworkConfig {
    NetworkConfig {
        channels_in: 4,
        width: 0.05,
        blocks: vec![1, 1],
        atrous_rates: vec![2],
        ..NetworkConfig::default()
    }
}

/// Gradients with these values.
fn gradients(network: &Network, seed: u64) -> Gradients {
    let mut gradients = Gradients::new(network.parameters());
    let count = gradients.len();
    gradients.as_mut_slice().copy_from_slice(&draw(seed, count));
    gradients
}

fn flat(network: &Network) -> Vec<f32> {
    let all = network.parameters().iter();
    all.flat_map(|parameter| parameter.values().unwrap())
        .collect()
}

#[test]
fn optimisers_step_as_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let rule = |rule| OptimizerConfig {
        rule,
        weight_decay: 0.01,
        ..OptimizerConfig::default()
    };
    let configs = [
        OptimizerConfig {
            nesterov: true,
            ..rule(Rule::Sgd)
        },
        rule(Rule::AdamW),
        OptimizerConfig {
            larc: Some(Larc::default()),
            bias_correction: false,
            ..rule(Rule::Adam)
        },
        OptimizerConfig {
            larc: Some(Larc {
                clip: false,
                ..Larc::default()
            }),
            clip_norm: Some(2.0),
            ..rule(Rule::Sgd)
        },
        OptimizerConfig::mlperf_deepcam(),
    ];
    for config in configs {
        let run = |backend: Backend, rounding| {
            let mut network = Network::build(&small(), backend, 3).unwrap();
            let mut optimizer = Optimizer::new(&config, network.parameters()).unwrap();
            let mut mirror = Mirror::new(network.parameters(), rounding).unwrap();
            let mut norms = Vec::new();
            for step in 0..3 {
                let gradients = gradients(&network, step);
                let update = Update {
                    gradient_scale: 0.5,
                    mirror: Some(&mut mirror),
                    ..Update::rate(0.01)
                };
                norms.push(
                    optimizer
                        .update(network.parameters_mut(), &gradients, update)
                        .unwrap(),
                );
            }
            let state = optimizer.state().unwrap().map(std::borrow::Cow::into_owned);
            (network, optimizer, mirror, norms, state)
        };
        for rounding in [Rounding::Nearest, Rounding::Stochastic { seed: 5 }] {
            let (theirs, mut ours) = (run(Backend::best_of_cpu(), rounding), run(gpu, rounding));
            let apart = distance(&flat(&ours.0), &flat(&theirs.0));
            assert!(apart < 1e-6, "{config:?}: {apart}");
            for (a, b) in ours.3.iter().zip(&theirs.3) {
                assert!((a - b).abs() < 1e-6 * b, "{config:?}: {a} against {b}");
            }
            for (a, b) in ours.4.iter().zip(&theirs.4) {
                assert_eq!(a.len(), b.len());
                assert!(a.is_empty() || distance(a, b) < 1e-6, "{config:?}");
            }
            let halves = |mirror: &Mirror| -> Vec<f32> {
                mirror
                    .values()
                    .unwrap()
                    .iter()
                    .map(|half| half.to_f32())
                    .collect()
            };
            assert!(
                distance(&halves(&ours.2), &halves(&theirs.2)) < 1e-4,
                "{config:?}"
            );
            // A run that goes on multiplies by the same kernels as before it stopped.
            let mut filled = Mirror::new(ours.0.parameters(), rounding).unwrap();
            let filling = ours.1.fill_mirror(ours.0.parameters_mut(), &mut filled);
            filling.unwrap();
            assert!(halves(&filled) == halves(&ours.2), "{config:?}");
        }
        // What was saved goes on with the same bits, on either device.
        let (mut network, mut optimizer, ..) = run(gpu, Rounding::Nearest);
        let mut file = ModelFile::default();
        optimizer.save_into(&mut file).unwrap();
        let mut other = Network::build(&small(), gpu, 9).unwrap();
        let named = network.parameters().to_named().unwrap();
        let path = Path::new("memory");
        other.parameters_mut().load(path, &named).unwrap();
        let mut restored = Optimizer::new(&config, other.parameters()).unwrap();
        (restored.load_from(path, &file.facts, &file.tensors)).unwrap();
        let last = gradients(&network, 9);
        let a = optimizer
            .step(network.parameters_mut(), &last, 0.01)
            .unwrap();
        let b = restored.step(other.parameters_mut(), &last, 0.01).unwrap();
        assert_eq!((a, flat(&network)), (b, flat(&other)), "{config:?}");
    }
}

#[test]
fn averages_are_those_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let run = |backend: Backend| {
        let mut network = Network::build(&small(), backend, 3).unwrap();
        let config = OptimizerConfig::default();
        let mut optimizer = Optimizer::new(&config, network.parameters()).unwrap();
        let mut average = Average::new(0.2, network.parameters()).unwrap();
        for step in 0..3 {
            let gradients = gradients(&network, step);
            (optimizer.step(network.parameters_mut(), &gradients, 0.01)).unwrap();
            average.update(network.parameters()).unwrap();
        }
        (network, average)
    };
    let saved = |network: &Network, average: &Average| {
        let (mut contents, mut file) = (FileContents::default(), ModelFile::default());
        average
            .lend_to(network.parameters(), &mut contents)
            .unwrap();
        contents.copy_into(&mut file).unwrap();
        file
    };
    let all = |file: &ModelFile| -> Vec<f32> {
        let values = file.tensors.values().flat_map(|(_, values)| values);
        values.copied().collect()
    };
    let (theirs, their_average) = run(Backend::best_of_cpu());
    let (mut ours, mut average) = run(gpu);
    let (expected, found) = (saved(&theirs, &their_average), saved(&ours, &average));
    assert_eq!(found.facts, expected.facts);
    assert!(found.tensors.keys().eq(expected.tensors.keys()));
    let apart = distance(&all(&found), &all(&expected));
    assert!(apart < 1e-6, "{apart}");

    // In the network's place, and back.
    let own = ours.parameters().to_named().unwrap();
    average.exchange(ours.parameters_mut()).unwrap();
    let averaged = ours.parameters().to_named().unwrap();
    assert!(averaged != own && averaged.len() == found.tensors.len());
    for (name, values) in &averaged {
        assert!(
            found.tensors[&format!("average.{name}")] == *values,
            "{name}"
        );
    }
    average.exchange(ours.parameters_mut()).unwrap();
    assert!(ours.parameters().to_named().unwrap() == own);

    // What was saved is taken up.
    let mut restored = Average::new(0.2, ours.parameters()).unwrap();
    let (facts, tensors) = (&found.facts, &found.tensors);
    (restored.load_from(ours.parameters(), Path::new("memory"), facts, tensors)).unwrap();
    let again = saved(&ours, &restored);
    assert!(again.tensors == found.tensors && again.facts == found.facts);
}

/// LARC keeps the norms of the weights from the step before, and a step that was skipped has none.
#[test]
fn larc_goes_on_after_a_step_that_was_skipped() {
    let Some(gpu) = gpu() else { return };
    for (rule, clip) in [(Rule::Sgd, false), (Rule::AdamW, false), (Rule::Adam, true)] {
        let config = OptimizerConfig {
            rule,
            larc: Some(Larc {
                clip,
                ..Larc::default()
            }),
            ..OptimizerConfig::default()
        };
        let run = |backend: Backend, overflows: &[u64]| {
            let mut network = Network::build(&small(), backend, 3).unwrap();
            let mut optimizer = Optimizer::new(&config, network.parameters()).unwrap();
            for step in 0..4 {
                if overflows.contains(&step) {
                    let mut over = gradients(&network, 20 + step);
                    over.as_mut_slice()[7] = f32::INFINITY;
                    let skipped = optimizer.step(network.parameters_mut(), &over, 0.01);
                    assert!(matches!(skipped, Err(ModelError::NotFinite { .. })));
                }
                let good = gradients(&network, step);
                optimizer
                    .step(network.parameters_mut(), &good, 0.01)
                    .unwrap();
            }
            flat(&network)
        };
        let without = run(gpu, &[]);
        assert!(run(gpu, &[0, 2]) == without, "{config:?}");
        assert!(distance(&without, &run(Backend::best_of_cpu(), &[0, 2])) < 1e-6);
    }
}

#[test]
fn what_is_no_number_changes_nothing() {
    let Some(gpu) = gpu() else { return };
    let mut network = Network::build(&small(), gpu, 3).unwrap();
    let mut optimizer = Optimizer::new(&OptimizerConfig::default(), network.parameters()).unwrap();
    let before = flat(&network);
    let mut bad = gradients(&network, 1);
    bad.as_mut_slice()[5] = f32::NAN;
    let error = optimizer
        .step(network.parameters_mut(), &bad, 0.1)
        .unwrap_err();
    assert!(
        matches!(
            error,
            ModelError::NotFinite {
                step: 1,
                index: 5,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!((flat(&network), optimizer.steps()), (before, 0));
    bad.clear();
    assert_eq!(bad.norm(), 0.0);
}

/// Buckets of gradients are told in order, with the values that the backward pass left.
#[test]
fn gradients_leave_the_gpu_bucket_by_bucket() {
    let Some(gpu) = gpu() else { return };
    let network = Network::build(&small(), gpu, 3).unwrap();
    let buckets = Gradients::buckets(network.parameters(), 2000);
    assert!(buckets.len() > 2);
    let (tell, told) = std::sync::mpsc::channel();
    let mut gradients = Gradients::new(network.parameters());
    gradients.give(
        buckets.clone(),
        Box::new(move |bucket, values| tell.send((bucket, values)).unwrap()),
    );
    gradients.clear();
    let mut pass = Pass::train(gpu, DType::F32, 1);
    let logits = network.forward(&field(1, EXTENTS), &mut pass).unwrap();
    network.backward(&logits, pass, &mut gradients).unwrap();
    let told: Vec<(usize, Vec<f32>)> = told.try_iter().collect();
    assert_eq!(told.len(), buckets.len());
    for (at, ((bucket, values), range)) in told.into_iter().zip(buckets).enumerate() {
        assert_eq!((at, &values[..]), (bucket, &gradients.as_slice()[range]));
    }
}

/// Buckets that come back replace what lay there, and nothing else: whoever knows only some of them loses no other.
#[test]
fn buckets_come_back_into_the_gradients_of_the_gpu() {
    let Some(gpu) = gpu() else { return };
    let network = Network::build(&small(), gpu, 3).unwrap();
    let buckets = Gradients::buckets(network.parameters(), 2000);
    let mut gradients = gradients(&network, 7);
    let mut expected = gradients.as_slice().into_owned();
    // Also of what was looked at, or written from here, before.
    for (at, bucket) in buckets.iter().step_by(2).enumerate() {
        let values = vec![at as f32; bucket.len()];
        expected[bucket.clone()].copy_from_slice(&values);
        gradients.put(bucket, values).unwrap();
        assert!(gradients.as_slice() == expected, "bucket {at}");
    }
    assert!(gradients.is_on_gpu());
}

/// The CPU's own ways of computing are no ways of a GPU's: nothing of a network leaves it.
#[test]
fn convolutions_stay_on_the_gpu() {
    let Some(gpu) = gpu() else { return };
    for spec in [
        ConvSpec::same(3),
        ConvSpec::same(5),
        ConvSpec::same(1),
        ConvSpec::same(3).stride(2),
    ] {
        // Large enough for Winograd to pay, and wide enough for direct loops.
        let (shape, kernel) = ([1, 32, 48, 32], spec.kernel.0);
        let x = gpu.bring(&field(1, shape)).unwrap();
        let w = field(2, [32, 32, kernel, kernel]);
        let y = gpu.conv2d(&x, &w, None, &spec, Fuse::None).unwrap();
        let dx = gpu.conv2d_backward_data(&y, &w, shape, &spec).unwrap();
        let both = gpu.conv2d_joined(
            &[&x, &x],
            &field(3, [32, 64, kernel, kernel]),
            None,
            &spec,
            Fuse::None,
        );
        for (what, tensor) in [("y", y), ("dx", dx), ("joined", both.unwrap())] {
            assert!(tensor.device().is_cuda(), "{what} of {spec:?}");
        }
    }
}

/// A network that has diverged must not look well.
#[test]
fn what_is_no_number_is_none_after_relu() {
    let Some(gpu) = gpu() else { return };
    let (spec, shape) = (ConvSpec::same(3), [1, 8, 12, 32]);
    let w = field(2, [32, 32, 3, 3]);
    let bias = Tensor::zeros(32, DType::F32, &Device::Cpu).unwrap();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let x = (field(1, shape) * f64::NAN).unwrap().to_dtype(dtype);
        let x = gpu.bring(&x.unwrap()).unwrap();
        for fuse in [Fuse::Relu, Fuse::AddRelu(&x)] {
            let y = gpu.conv2d(&x, &w, Some(&bias), &spec, fuse).unwrap();
            let y = gpu.to_host(&y).unwrap().to_dtype(DType::F32).unwrap();
            assert!(values(&y).iter().all(|y| y.is_nan()), "{dtype:?} {fuse:?}");
        }
    }
}

/// What is computed on the CPU meanwhile stays there, and what meets on the GPU is brought there.
#[test]
fn tensors_of_both_sides_meet() {
    let Some(gpu) = gpu() else { return };
    let x = field(1, [1, 6, 9, 5]);
    let y = gpu.relu(&x).unwrap();
    let sum = gpu.add(&y, &x).unwrap();
    assert!(sum.device().is_cuda());
    let expected = Backend::Reference.relu(&x).unwrap();
    let expected = Backend::Reference.add(&expected, &x).unwrap();
    assert_eq!(values(&gpu.to_host(&sum).unwrap()), values(&expected));
    assert_eq!(
        values(&Backend::Reference.add(&y, &x).unwrap()),
        values(&expected)
    );
    let whole = Tensor::ones((2, 4, 6, 3), DType::F32, &Device::Cpu).unwrap();
    let view = gpu.bring(&whole).unwrap().narrow(1, 1, 2).unwrap();
    assert!(
        gpu.relu(&view)
            .unwrap_err()
            .to_string()
            .contains("one piece")
    );
}

#[test]
fn large_fields_arrive_whole() {
    let Some(gpu) = gpu() else { return };
    // More than all places of the page-locked memory together, and no multiple of one.
    let count = 13_500_001;
    let whole: Vec<f32> = (0..count).map(|i| i as f32).collect();
    let x = Tensor::from_vec(whole.clone(), (1, 1, 1, count), &Device::Cpu).unwrap();
    for _ in 0..2 {
        let there = gpu.bring(&x).unwrap();
        assert!(there.device().is_cuda());
        assert_eq!(values(&gpu.to_host(&there).unwrap()), whole);
    }
}
