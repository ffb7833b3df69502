//! Inference in strips of latitude gives the logits of the whole.

use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use squall_model::networks::NetworkName;
use squall_model::parameters::{Kind, Parameter};
use squall_model::{Backend, ModelError, Network, NetworkConfig};
use std::num::NonZeroUsize;

const CAN: [NetworkName; 4] = [
    NetworkName::DeepLabV3Plus,
    NetworkName::DeepLabV3PlusDeconv,
    NetworkName::DeepLabV3PlusBilinear,
    NetworkName::DeepCam,
];

fn strips(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

fn config(name: NetworkName) -> NetworkConfig {
    let base = NetworkConfig {
        channels_in: 4,
        width: 0.05,
        ..NetworkConfig::of(name)
    };
    match name {
        NetworkName::DeepCam => NetworkConfig {
            blocks: vec![1],
            atrous_rates: vec![2, 3],
            ..base
        },
        _ => NetworkConfig {
            blocks: vec![2, 1, 1],
            atrous_rates: vec![2, 3],
            ..base
        },
    }
}

fn field(seed: u64, [b, h, w, c]: [usize; 4]) -> Tensor {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let values: Vec<f32> = (0..b * h * w * c)
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    Tensor::from_vec(values, (b, h, w, c), &Device::Cpu).unwrap()
}

/// A network whose biases and shifts are not zero: a row of zeros would otherwise stay one, padded or not.
fn network(config: &NetworkConfig, backend: Backend) -> Network {
    let mut network = Network::build(config, backend, 1).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let shift = |parameter: &Parameter, values: &mut [f32]| {
        if parameter.kind != Kind::Weight {
            values
                .iter_mut()
                .for_each(|value| *value += rng.random_range(0.1..0.5));
        }
    };
    network.parameters_mut().update(shift).unwrap();
    network
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Logits in strips against those of the whole, which differ from row to row, lest strips could be mixed up. `exact`:
/// the same bits, and with them the same classes; otherwise within 1e-5 of their scale.
fn check(config: &NetworkConfig, backend: Backend, shape: [usize; 4], dtype: DType, exact: bool) {
    let network = network(config, backend);
    let x = field(3, shape);
    let whole = network.infer(&x, dtype).unwrap();
    let expected = values(&whole);
    let row = expected.len() / shape[0] / shape[1];
    let mut rows = expected.chunks_exact(row);
    assert!(rows.any(|values| values != &expected[..row]));
    for count in [1, 2, 3, 5, 1000] {
        let found = network.infer_in_strips(&x, dtype, strips(count)).unwrap();
        assert_eq!(found.dims(), whole.dims());
        let scale = expected.iter().fold(0f32, |most, v| most.max(v.abs()));
        let found = values(&found);
        let apart = found
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs() / scale)
            .fold(0f32, f32::max);
        let (name, periodic) = (config.name, config.periodic_longitude);
        let what = format!("{name:?} {backend:?} {shape:?} {dtype:?} {periodic} {count} strips");
        // oneDNN's order of sums depends on the extents for some layers of few channels.
        let tolerance = if dtype == DType::F32 { 1e-5 } else { 1e-2 };
        assert!(apart <= tolerance, "{what}: {apart:.1e} of the scale");
        if !exact {
            continue;
        }
        assert_eq!(apart, 0.0, "{what}: not the same bits");
        let classes = |p: squall_model::Prediction| p.classes;
        let all = network.predict(&x, dtype, false).unwrap();
        let some = network.predict_in_strips(&x, dtype, false, strips(count));
        assert_eq!(classes(some.unwrap()), classes(all), "{what}");
    }
}

#[test]
fn strips_have_the_logits_of_the_whole() {
    for name in CAN {
        for periodic_longitude in [false, true] {
            for shape in [[1, 64, 48, 4], [2, 50, 34, 4], [1, 37, 47, 4]] {
                let config = NetworkConfig {
                    periodic_longitude,
                    ..config(name)
                };
                check(&config, Backend::best(), shape, DType::F32, false);
            }
        }
    }
}

#[test]
fn strips_have_the_logits_of_the_whole_for_published_layers_types_and_inputs() {
    for name in CAN {
        let config = config(name);
        check(&config, Backend::best(), [1, 37, 34, 4], DType::BF16, false);
        check(
            &config,
            Backend::Reference,
            [1, 21, 18, 4],
            DType::F32,
            true,
        );
        let placed = NetworkConfig {
            latitude_input: true,
            ..config.clone()
        };
        check(&placed, Backend::best(), [1, 41, 34, 4], DType::F32, false);
        if name != NetworkName::DeepCam {
            let published = NetworkConfig {
                batch_norm: false,
                ..config
            };
            check(
                &published,
                Backend::best(),
                [1, 45, 34, 4],
                DType::F32,
                false,
            );
        }
    }
}

/// Wide enough that Winograd's loops and the strided ones run as they do for published widths; on the narrow field they
/// would not for a strip alone.
#[test]
fn strips_have_the_bits_of_the_whole_where_our_loops_run() {
    for name in CAN {
        let config = NetworkConfig {
            width: 0.1,
            decoder_width: Some(0.25),
            ..config(name)
        };
        for shape in [[1, 130, 24, 4], [1, 66, 100, 4]] {
            check(&config, Backend::best(), shape, DType::F32, true);
        }
    }
}

/// Whole groups of four rows, so that there may be fewer than asked for.
#[test]
fn strips_are_counted_as_they_are_cut() {
    for (rows, asked, count) in [
        (768, 1, 1),
        // 156 rows each.
        (768, 5, 5),
        // 24 rows each: 24, 24 and 16.
        (64, 3, 3),
        // 8 rows each: 8, 8 and 4.
        (20, 4, 3),
        (37, 1000, 10),
        (0, 2, 1),
    ] {
        let found = Network::strips_of(rows, strips(asked));
        assert_eq!(found, strips(count), "{rows} rows in {asked} strips");
    }
}

#[test]
fn other_networks_refuse() {
    for name in [NetworkName::Tiramisu, NetworkName::CgNet] {
        let config = NetworkConfig {
            width: 0.25,
            ..NetworkConfig::of(name)
        };
        let network = Network::build(&config, Backend::best(), 1).unwrap();
        let x = field(3, [1, 32, 32, config.channels_in]);
        network.infer_in_strips(&x, DType::F32, strips(1)).unwrap();
        match network.infer_in_strips(&x, DType::F32, strips(2)) {
            Err(ModelError::Strips {
                network: found,
                strips: 2,
            }) => assert_eq!(found, name.as_str()),
            other => panic!("{other:?}"),
        }
    }
}

/// Its masks come from a decoder that others compute in strips.
#[test]
fn a_detector_with_masks_refuses_and_is_not_planned_in_strips() {
    let config = NetworkConfig {
        mask_classes: 3,
        ..config(NetworkName::DetectorDense)
    };
    let network = Network::build(&config, Backend::best(), 1).unwrap();
    let summary = network.summary(64, 96).unwrap();
    let needed =
        |count| summary.inference_bytes(network.backend(), 1, &DType::F32.into(), strips(count));
    assert!(needed(1).unwrap() > 0);
    let x = field(3, [1, 64, 96, config.channels_in]);
    network.infer_in_strips(&x, DType::F32, strips(1)).unwrap();
    let cut = network.infer_in_strips(&x, DType::F32, strips(2));
    for refused in [needed(2).err(), cut.err()] {
        match refused {
            Some(ModelError::Strips { network, strips: 2 }) => {
                assert_eq!(network, NetworkName::DetectorDense.as_str())
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn more_strips_are_predicted_to_need_less_until_the_rest_needs_more() {
    let needed = |name, size: (usize, usize), batch, count| {
        let network = Network::build(&NetworkConfig::of(name), Backend::best(), 1).unwrap();
        let summary = network.summary(size.0, size.1).unwrap();
        summary.inference_bytes(network.backend(), batch, &DType::F32.into(), strips(count))
    };
    let deep =
        |batch, count| needed(NetworkName::DeepLabV3Plus, (768, 1152), batch, count).unwrap();
    assert!(2 * deep(1, 1) > 3 * deep(1, 4) && deep(1, 4) > deep(1, 8));
    assert_eq!(deep(1, 192), deep(1, 1000), "four rows are the least");
    // Strips are of one sample, however many there are.
    assert!(deep(2, 8) - deep(1, 8) < (deep(2, 1) - deep(1, 1)) / 2);
    let refused = needed(NetworkName::Tiramisu, (192, 288), 1, 2);
    assert!(matches!(refused, Err(ModelError::Strips { strips: 2, .. })));
}
