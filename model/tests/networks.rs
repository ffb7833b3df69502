//! Whole networks: counts against the published ones, gradients against finite differences, learning, saving.

mod common;

use candle_core::{DType, Tensor};
use common::{distance, field, first_step, learn, reloaded, shake, values, wrong_gradients};
use squall_model::networks::NetworkName;
use squall_model::{Backend, Network, NetworkConfig};
use std::path::Path;

/// The other networks have `published_networks.rs`.
const DEEPLABS: [NetworkName; 3] = [
    NetworkName::DeepLabV3Plus,
    NetworkName::DeepLabV3PlusDeconv,
    NetworkName::DeepLabV3PlusBilinear,
];

fn tiny(name: NetworkName) -> NetworkConfig {
    NetworkConfig {
        name,
        channels_in: 4,
        width: 0.05,
        blocks: vec![2, 1, 1],
        atrous_rates: vec![2, 3],
        ..NetworkConfig::default()
    }
}

#[test]
fn published_counts() {
    // Hand counts: parameters in millions, TF per training sample.
    for (name, parameters, training) in [
        (NetworkName::DeepLabV3Plus, 43.67, 13.02),
        (NetworkName::DeepLabV3PlusDeconv, 42.11, 4.76),
        (NetworkName::DeepLabV3PlusBilinear, 40.34, 3.73),
    ] {
        let network = Network::build(&NetworkConfig::published(name), Backend::best(), 1).unwrap();
        let summary = network.summary(768, 1152).unwrap();
        assert_eq!(
            summary.parameters,
            network.parameters().count(),
            "{name:?}: the tree forgets parameters"
        );
        let found = (
            summary.parameters as f64 / 1e6,
            summary.training_flops as f64 / 1e12,
        );
        assert!(
            (found.0 - parameters).abs() < 0.01,
            "{name:?}: {found:?}, published {parameters}"
        );
        assert!(
            (found.1 - training).abs() < 0.005 * training,
            "{name:?}: {found:?}, published {training}"
        );
        assert_eq!(summary.training_flops, 3 * summary.forward_flops);
    }
}

#[test]
fn one_layer_counted_by_hand() {
    let network = Network::build(
        &NetworkConfig::published(NetworkName::DeepLabV3Plus),
        Backend::best(),
        1,
    )
    .unwrap();
    let summary = network.summary(768, 1152).unwrap();
    let row = |name: &str| {
        summary
            .layers
            .iter()
            .find(|row| row.name == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    let stem = row("encoder.stem");
    assert_eq!(
        (stem.output, stem.parameters),
        ([384, 576, 64], 7 * 7 * 16 * 64 + 64)
    );
    assert_eq!(stem.forward_flops, 2 * 384 * 576 * 64 * 7 * 7 * 16);
    let full = row("decoder.full1");
    assert_eq!(
        (full.output, full.parameters),
        ([768, 1152, 256], 9 * 384 * 256 + 256)
    );
    assert_eq!(row("encoder.block4.unit3.conv3").output, [96, 144, 2048]);
}

#[test]
fn gradients_of_whole_networks() {
    let kinds = |name| {
        let with = |batch_norm, preactivation_relu| NetworkConfig {
            batch_norm,
            preactivation_relu,
            ..tiny(name)
        };
        [with(true, true), with(false, true), with(false, false)]
    };
    for kind in DEEPLABS.into_iter().flat_map(kinds) {
        // 13 x 18: neither extent is a multiple of 8, so every rounding is met.
        let config = NetworkConfig {
            dropout: 0.2,
            ..kind
        };
        let mut network = Network::build(&config, Backend::Reference, 3).unwrap();
        shake(&mut network);
        let (wrong, judged) =
            wrong_gradients(&mut network, [2, 13, 18, 4], &DType::F32.into(), |_| true);
        assert_eq!(judged, network.parameters().iter().count());
        assert!(
            wrong.is_empty(),
            "{:?}, batch norm {}, ReLU before units {}:\n{}",
            config.name,
            config.batch_norm,
            config.preactivation_relu,
            wrong.join("\n")
        );
    }
}

/// The SC18 network has no ReLU before its units, and the key that says so is heard.
#[test]
fn without_its_relu_a_unit_reads_what_lies_below_zero() {
    let logits = |preactivation_relu| {
        let config = NetworkConfig {
            batch_norm: false,
            preactivation_relu,
            ..tiny(NetworkName::DeepLabV3PlusBilinear)
        };
        let mut network = Network::build(&config, Backend::best(), 3).unwrap();
        shake(&mut network);
        values(
            &network
                .infer(&field(1, [1, 16, 24, 4]), DType::F32)
                .unwrap(),
        )
    };
    assert_ne!(logits(true), logits(false));
    assert!(!NetworkConfig::published(NetworkName::DeepLabV3Plus).preactivation_relu);
}

#[test]
fn backends_agree_on_whole_networks() {
    for name in DEEPLABS {
        let x = field(1, [2, 24, 32, 4]);
        let run = |backend: Backend| {
            let network = Network::build(&tiny(name), backend, 3).unwrap();
            first_step(&network, &x)
        };
        let (reference, expected) = run(Backend::Reference);
        let (loss, gradients) = run(Backend::best());
        assert!(
            (loss - reference).abs() < 1e-4 * reference,
            "{loss} {reference}"
        );
        let off = distance(&gradients.as_slice(), &expected.as_slice());
        assert!(off < 2e-3, "{name:?}: {off}");
    }
}

#[test]
fn one_batch_is_learnt_saved_and_found_again() {
    let config = tiny(NetworkName::DeepLabV3Plus);
    let mut network = Network::build(&config, Backend::best(), 3).unwrap();
    let x = field(1, [2, 16, 24, 4]);
    // A label that needs more than one pixel: the sign of a neighbour's first channel, on a blob.
    let input = values(&x);
    let labels: Vec<u8> = (0..2 * 16 * 24)
        .map(|i| {
            if input[i * 4] > 0.3 {
                1
            } else {
                2 * u8::from(i % 24 > 12)
            }
        })
        .collect();
    let losses = learn(&mut network, &x, &labels, 120);
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    assert!(last < first / 10.0, "loss {first} -> {last}");

    // Folded inference sees nearly what training saw: the same batch filled the running statistics.
    let logits = network.infer(&x, DType::F32).unwrap();
    let found = network.backend().argmax(&logits).unwrap();
    let right = found.iter().zip(&labels).filter(|(a, b)| a == b).count();
    assert!(
        right * 10 > labels.len() * 9,
        "{right} of {} pixels",
        labels.len()
    );

    assert_eq!(
        values(&reloaded(&network).infer(&x, DType::F32).unwrap()),
        values(&logits),
        "a loaded model gives the same bits"
    );
    let mut wider = Network::build(
        &NetworkConfig {
            width: 0.2,
            ..config
        },
        Backend::best(),
        4,
    )
    .unwrap();
    let error = wider
        .parameters_mut()
        .load(Path::new("here"), &network.parameters().to_named().unwrap())
        .unwrap_err()
        .to_string();
    assert!(error.contains("encoder.stem.weight"), "{error}");
}

#[test]
fn rolling_the_globe_rolls_the_logits() {
    let network = Network::build(&tiny(NetworkName::DeepLabV3Plus), Backend::best(), 3).unwrap();
    let (x, shift) = (field(1, [1, 16, 48, 4]), 16);
    let roll = |x: &Tensor| {
        Tensor::cat(
            &[
                x.narrow(2, 48 - shift, shift).unwrap(),
                x.narrow(2, 0, 48 - shift).unwrap(),
            ],
            2,
        )
        .unwrap()
        .contiguous()
        .unwrap()
    };
    let rolled_after = values(&roll(&network.infer(&x, DType::F32).unwrap()));
    let rolled_before = values(&network.infer(&roll(&x), DType::F32).unwrap());
    let off = rolled_after
        .iter()
        .zip(&rolled_before)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(off < 1e-4, "{off}");
}

#[test]
fn impossible_configurations_are_refused_by_key() {
    for (key, config) in [
        (
            "width",
            NetworkConfig {
                width: 0.0,
                ..NetworkConfig::default()
            },
        ),
        (
            "blocks",
            NetworkConfig {
                blocks: vec![3],
                ..NetworkConfig::default()
            },
        ),
        (
            "blocks",
            NetworkConfig {
                blocks: vec![1, 1_000_000_000],
                ..NetworkConfig::default()
            },
        ),
        (
            "atrous_rates",
            NetworkConfig {
                atrous_rates: vec![usize::MAX / 2],
                ..NetworkConfig::default()
            },
        ),
        (
            "output_stride",
            NetworkConfig {
                output_stride: 32,
                ..NetworkConfig::default()
            },
        ),
        (
            "channels_in",
            NetworkConfig {
                channels_in: 0,
                ..NetworkConfig::default()
            },
        ),
        (
            "classes",
            NetworkConfig {
                classes: 1,
                ..NetworkConfig::default()
            },
        ),
        (
            "classes",
            NetworkConfig {
                classes: 251,
                ..NetworkConfig::default()
            },
        ),
        (
            "decoder_width",
            NetworkConfig {
                decoder_width: Some(0.0),
                ..NetworkConfig::default()
            },
        ),
        (
            "output_stride",
            NetworkConfig {
                output_stride: 16,
                ..NetworkConfig::default()
            },
        ),
        (
            "batch_norm_decay",
            NetworkConfig {
                batch_norm_decay: 1.0,
                ..NetworkConfig::default()
            },
        ),
        (
            "preactivation_relu",
            NetworkConfig {
                preactivation_relu: false,
                ..NetworkConfig::default()
            },
        ),
        (
            "dropout",
            NetworkConfig {
                dropout: 1.0,
                ..NetworkConfig::default()
            },
        ),
    ] {
        let error = Network::build(&config, Backend::best(), 1)
            .unwrap_err()
            .to_string();
        assert!(error.contains(key), "{error}");
    }
}
