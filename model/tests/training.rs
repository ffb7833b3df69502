//! Training as a whole: gradients add up, statistics agree, a run resumed from a file gives the same bits.

use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use squall_model::networks::NetworkName;
use squall_model::optim::{Larc, Mirror, Optimizer, OptimizerConfig, Rounding, Rule};
use squall_model::{Backend, Gradients, ModelFile, Network, NetworkConfig, Pass};

const SIZE: [usize; 4] = [2, 16, 24, 4];

fn tiny() -> NetworkConfig {
    NetworkConfig {
        channels_in: SIZE[3],
        width: 0.05,
        blocks: vec![1, 1],
        atrous_rates: vec![2],
        ..NetworkConfig::default()
    }
}

fn batch(seed: u64) -> (Tensor, Vec<u8>) {
    batch_of(SIZE, seed)
}

fn batch_of([b, h, w, c]: [usize; 4], seed: u64) -> (Tensor, Vec<u8>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let x: Vec<f32> = (0..b * h * w * c)
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    let labels = (0..b * h * w).map(|_| rng.random_range(0..3)).collect();
    let x = Tensor::from_vec(x, (b, h, w, c), &Device::Cpu).unwrap();
    (x, labels)
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Adds the gradient of one batch.
fn accumulate(network: &mut Network, step: u64, gradients: &mut Gradients) {
    let (x, labels) = batch(step);
    let backend = network.backend();
    let mut pass = Pass::train(backend, DType::F32, step);
    let logits = network.forward(&x, &mut pass).unwrap();
    let loss = backend
        .softmax_cross_entropy(&logits, &labels, &[0.3, 1.0, 0.6], 1.0)
        .unwrap();
    network.update_running_statistics(&mut pass).unwrap();
    network.backward(&loss.gradient, pass, gradients).unwrap();
}

fn advance(network: &mut Network, optimizer: &mut Optimizer, steps: std::ops::Range<u64>) {
    let mut gradients = Gradients::new(network.parameters());
    for step in steps {
        gradients.clear();
        accumulate(network, step, &mut gradients);
        optimizer
            .step(network.parameters_mut(), &gradients, 1e-3)
            .unwrap();
    }
}

#[test]
fn gradients_add_up_in_place() {
    let mut network = Network::build(&tiny(), Backend::best(), 1).unwrap();
    let mut once = Gradients::new(network.parameters());
    accumulate(&mut network, 7, &mut once);
    let mut other = Gradients::new(network.parameters());
    accumulate(&mut network, 8, &mut other);
    let mut both = once.clone();
    accumulate(&mut network, 8, &mut both);
    let scale = once.norm() + other.norm();
    for ((a, b), sum) in once
        .as_slice()
        .iter()
        .zip(other.as_slice().iter())
        .zip(both.as_slice().iter())
    {
        assert!(
            f64::from(a + b - sum).abs() < 1e-6 * scale,
            "{a} + {b} is not {sum}"
        );
    }
    // Every parameter takes part: none is left without a gradient.
    for parameter in network.parameters().iter() {
        let any = once.as_slice()[parameter.range.clone()]
            .iter()
            .any(|&g| g != 0.0);
        assert!(any, "{} has no gradient", parameter.name);
    }
}

#[test]
fn a_resumed_run_gives_the_same_bits() {
    let configs = [
        OptimizerConfig {
            larc: Some(Larc::default()),
            ..OptimizerConfig::default()
        },
        OptimizerConfig {
            rule: Rule::Sgd,
            nesterov: true,
            weight_decay: 1e-4,
            clip_norm: Some(0.5),
            ..OptimizerConfig::default()
        },
    ];
    let config = NetworkConfig {
        dropout: 0.1,
        ..tiny()
    };
    for rule in configs {
        let mut straight = Network::build(&config, Backend::best(), 1).unwrap();
        let mut optimizer = Optimizer::new(&rule, straight.parameters()).unwrap();
        advance(&mut straight, &mut optimizer, 0..3);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint.safetensors");
        let mut file = ModelFile {
            tensors: straight.parameters().to_named().unwrap(),
            ..ModelFile::default()
        };
        optimizer.save_into(&mut file).unwrap();
        file.write(&path).unwrap();
        advance(&mut straight, &mut optimizer, 3..6);

        let file = ModelFile::read(&path).unwrap();
        let mut resumed = Network::build(&config, Backend::best(), 99).unwrap();
        resumed.parameters_mut().load(&path, &file.tensors).unwrap();
        let mut restored = Optimizer::new(&rule, resumed.parameters()).unwrap();
        restored
            .load_from(&path, &file.facts, &file.tensors)
            .unwrap();
        assert_eq!(restored.steps(), 3);
        advance(&mut resumed, &mut restored, 3..6);
        let (a, b) = (
            straight.parameters().to_named().unwrap(),
            resumed.parameters().to_named().unwrap(),
        );
        for (name, (_, values)) in &a {
            assert_eq!(bits(values), bits(&b[name].1), "{name}");
        }
        for (a, b) in (optimizer.state().unwrap().into_iter()).zip(restored.state().unwrap()) {
            assert_eq!(bits(&a), bits(&b));
        }
        // Another rule's state is refused, not taken for its own.
        let other = OptimizerConfig {
            rule: if rule.rule == Rule::Sgd {
                Rule::Adam
            } else {
                Rule::Sgd
            },
            ..OptimizerConfig::default()
        };
        let mut other = Optimizer::new(&other, resumed.parameters()).unwrap();
        assert!(other.load_from(&path, &file.facts, &file.tensors).is_err());
    }
}

#[test]
fn inference_with_a_batchs_own_statistics_is_training() {
    let config = NetworkConfig {
        batch_norm_decay: 0.0,
        ..tiny()
    };
    let mut network = Network::build(&config, Backend::best(), 1).unwrap();
    let (x, _) = batch_of([2, 64, 96, 4], 3);
    let mut pass = Pass::train(network.backend(), DType::F32, 0);
    let trained = values(&network.forward(&x, &mut pass).unwrap());
    network.update_running_statistics(&mut pass).unwrap();
    let inferred = values(&network.infer(&x, DType::F32).unwrap());
    // Not equal: running variances are unbiased, n / (n - 1) of the batch's, with n = 2 * 8 * 12 pixels at the deepest.
    let spread = trained.iter().map(|v| v * v).sum::<f32>();
    let off = trained
        .iter()
        .zip(&inferred)
        .map(|(a, b)| (a - b) * (a - b))
        .sum::<f32>();
    let off = (off / spread).sqrt();
    assert!(off < 0.1, "relative distance {off}");
    // And it is the statistics that do it: before them the two differ.
    let fresh = Network::build(&config, Backend::best(), 1).unwrap();
    let before = values(&fresh.infer(&x, DType::F32).unwrap());
    let far = trained
        .iter()
        .zip(&before)
        .map(|(a, b)| (a - b) * (a - b))
        .sum::<f32>();
    assert!((far / spread).sqrt() > 3.0 * off);
}

/// Passes of a step move running statistics once, by their mean, as ranks do; also when their values were away, as in a
/// checkpoint.
#[test]
fn statistics_of_several_passes_are_averaged() {
    let build = || Network::build(&tiny(), Backend::best(), 1).unwrap();
    let (mut together, mut restored) = (build(), build());
    let of_pass = |seed| {
        let network = build();
        let mut pass = Pass::train(network.backend(), DType::F32, 0);
        network.forward(&batch(seed).0, &mut pass).unwrap();
        pass.batch_statistics().unwrap()
    };
    let [first, second, third] = [3, 4, 5].map(of_pass);
    let mut all = first.clone();
    all.include(&second);
    all.include(&third);
    all.average_over(3);
    let others = second.values.iter().zip(&third.values);
    let each = first.values.iter().zip(others);
    let means: Vec<f32> = each.map(|(a, (b, c))| (a + b + c) / 3.0).collect();
    assert!(!means.is_empty() && means != first.values);
    assert_eq!(bits(&all.values), bits(&means));
    together.blend_statistics(&all);
    let again = restored.statistics_of(all.values);
    restored.blend_statistics(&again);
    let running = |network: &Network| {
        let buffers = network.parameters().buffers().iter();
        buffers.flat_map(|b| bits(&b.values)).collect::<Vec<_>>()
    };
    assert!(running(&together) != running(&build()));
    assert_eq!(running(&restored), running(&together));
}

/// The copies are those of another network, so that they show.
#[test]
fn copies_are_for_training_in_bf16_alone() {
    let build = |seed| Network::build(&tiny(), Backend::best(), seed).unwrap();
    let (mut network, mut other) = (build(1), build(2));
    let (x, _) = batch(3);
    let trained = |network: &Network, dtype: DType| {
        let mut pass = Pass::train(network.backend(), dtype, 0);
        values(&network.forward(&x, &mut pass).unwrap())
    };
    let inferred = |network: &Network| values(&network.infer(&x, DType::BF16).unwrap());
    let own = (trained(&network, DType::BF16), inferred(&network));
    let theirs = trained(&other, DType::BF16);
    let optimizer = Optimizer::new(&OptimizerConfig::default(), other.parameters()).unwrap();
    let mut copies = Mirror::new(other.parameters(), Rounding::Nearest).unwrap();
    (optimizer.fill_mirror(other.parameters_mut(), &mut copies)).unwrap();
    let narrow = DType::BF16.into();
    (network.parameters_mut().compute_with(&copies, &narrow)).unwrap();
    let off = |a: &[f32], b: &[f32]| -> f32 {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f32>().sqrt()
    };
    let now = trained(&network, DType::BF16);
    let (near, far) = (off(&now, &theirs), off(&now, &own.0));
    assert!(near < far / 2.0, "{near} {far}");
    assert!(inferred(&network) == own.1, "inference keeps the masters");
    let mut wide = build(1);
    let before = trained(&wide, DType::F32);
    (wide
        .parameters_mut()
        .compute_with(&copies, &DType::F32.into()))
    .unwrap();
    assert!(trained(&wide, DType::F32) == before);
}

#[test]
fn predictions_are_the_largest_probabilities() {
    let network = Network::build(&tiny(), Backend::best(), 1).unwrap();
    let (x, _) = batch(3);
    let prediction = network.predict(&x, DType::F32, true).unwrap();
    let probabilities = values(&prediction.probabilities.unwrap());
    assert_eq!(prediction.classes.len() * 3, probabilities.len());
    for (&class, pixel) in prediction.classes.iter().zip(probabilities.chunks(3)) {
        assert!((pixel.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        assert!(pixel.iter().all(|&p| p <= pixel[usize::from(class)]));
    }
    assert!(
        network
            .predict(&x, DType::F32, false)
            .unwrap()
            .probabilities
            .is_none()
    );
}

#[test]
fn buckets_cover_every_gradient_once_from_the_end() {
    let network = Network::build(&tiny(), Backend::best(), 1).unwrap();
    let parameters = network.parameters();
    for size in [0, 1, 1000, 10_000, usize::MAX] {
        let buckets = Gradients::buckets(parameters, size);
        let mut end = parameters.count();
        for bucket in &buckets {
            assert_eq!(bucket.end, end);
            assert!(bucket.len() >= size.min(bucket.end) || bucket.start == 0);
            assert!(parameters.iter().any(|p| p.range.start == bucket.start));
            end = bucket.start;
        }
        assert_eq!(end, 0);
    }
    assert_eq!(Gradients::buckets(parameters, usize::MAX).len(), 1);
}

#[test]
fn the_small_network_is_small() {
    let network = Network::build(&NetworkConfig::small(), Backend::best(), 1).unwrap();
    let summary = network.summary(192, 288).unwrap();
    assert!(summary.parameters < 600_000, "{summary}");
    assert!(summary.training_flops < 10_000_000_000, "{summary}");
}

#[test]
fn initial_values_follow_from_seed_and_name() {
    let named = |config: &NetworkConfig, seed| {
        let network = Network::build(config, Backend::best(), seed).unwrap();
        network.parameters().to_named().unwrap()
    };
    let deeper = NetworkConfig {
        blocks: vec![1, 2],
        ..tiny()
    };
    let (a, b, other) = (named(&tiny(), 1), named(&deeper, 1), named(&tiny(), 2));
    let stem = "encoder.stem.weight";
    assert_eq!(bits(&a[stem].1), bits(&b[stem].1));
    assert_ne!(bits(&a[stem].1), bits(&other[stem].1));
    // He uniform, within ±√(6 / fan-in): variance 2 / fan-in. Inputs that reach an output: 7 x 7 pixels; a quarter of
    // 3 x 3 where a stride of 2 lies between; 3 x 3 of one channel; all channels of one pixel; 5 x 5 of three frames.
    let deepcam = NetworkConfig {
        width: 0.25,
        blocks: vec![1],
        ..NetworkConfig::of(NetworkName::DeepCam)
    };
    let over_time = NetworkConfig {
        width: 0.05,
        ..NetworkConfig::of(NetworkName::Detector3d)
    };
    let (deepcam, over_time) = (named(&deepcam, 1), named(&over_time, 1));
    for (named, name, fan_in) in [
        (&a, stem, 7 * 7 * SIZE[3]),
        (&a, "decoder.up2.weight", 16 * 9 / 4),
        (&deepcam, "encoder.block4.sep1.depthwise.weight", 9),
        (&deepcam, "encoder.block4.sep1.pointwise.weight", 184),
        (&over_time, "encoder.layer2.weight", 3 * 5 * 5 * 8),
    ] {
        let values = &named[name].1;
        let variance = values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32;
        let share = variance * fan_in as f32 / 2.0;
        assert!((share - 1.0).abs() < 0.1, "{name}: {share}");
        let most = values.iter().fold(0f32, |most, v| most.max(v.abs()));
        let bound = (6.0 / fan_in as f32).sqrt();
        assert!(most <= bound && most > 0.97 * bound, "{name}: {most}");
    }
}
