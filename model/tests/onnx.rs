//! ONNX files of every network, in every way of padding: well formed, and by plain loops the same logits as ours.
//!
//! ONNX Runtime itself judges them in `validation/peers/parity.sh`.

mod onnx_graph;

use candle_core::{DType, Device, Tensor};
use onnx_graph::{Graph, Values, run::run};
use squall_model::exchange::{onnx, sample};
use squall_model::networks::NetworkName;
use squall_model::{Backend, Network, NetworkConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Neither square nor a power of two nor a multiple of what the networks halve.
const GRID: (usize, usize) = (19, 42);

/// Deep layers have a pixel or two, fewer than their kernels reach: wrapping goes round more than once.
const SMALL: (usize, usize) = (6, 10);

/// Every network, small; wrapping and not, with batch normalisation and without, with latitude channels and without.
fn cases() -> Vec<NetworkConfig> {
    let small = |name: NetworkName| {
        let base = NetworkConfig {
            width: 0.05,
            channels_in: 3,
            ..NetworkConfig::of(name)
        };
        match name {
            NetworkName::DeepCam => NetworkConfig {
                blocks: vec![1],
                atrous_rates: vec![1, 3],
                ..base
            },
            NetworkName::Tiramisu => NetworkConfig {
                blocks: vec![1, 2, 2],
                ..base
            },
            NetworkName::CgNet => NetworkConfig {
                blocks: vec![2, 3],
                ..base
            },
            _ => NetworkConfig {
                blocks: vec![1, 1],
                atrous_rates: vec![2],
                ..base
            },
        }
    };
    let mut cases = Vec::new();
    for name in NetworkName::SEGMENTATION {
        let (small, own) = (small(name), name.own_keys());
        for wraps in [true, false] {
            cases.push(NetworkConfig {
                periodic_longitude: wraps,
                latitude_input: wraps,
                ..small.clone()
            });
        }
        if own.contains(&"batch_norm") {
            cases.push(NetworkConfig {
                batch_norm: false,
                ..small.clone()
            });
        }
        if own.contains(&"preactivation_relu") {
            cases.push(NetworkConfig {
                batch_norm: false,
                preactivation_relu: false,
                ..small.clone()
            });
        }
        if own.contains(&"periodic_latitude") {
            cases.push(NetworkConfig {
                periodic_latitude: true,
                ..small.clone()
            });
        }
    }
    cases
}

/// A network whose biases, slopes, normalisations and statistics are all away from where they start.
fn shaken(config: &NetworkConfig) -> Network {
    let mut network = Network::build(config, Backend::best(), 1).unwrap();
    let mut named = network.parameters().to_named().unwrap();
    for (name, (_, values)) in &mut named {
        if name.ends_with(".weight") {
            continue;
        }
        let spread = if name.ends_with("running_variance") {
            0.7
        } else {
            0.3
        };
        for (index, value) in values.iter_mut().enumerate() {
            *value += spread * ((index * 7 + name.len()) as f32).sin();
        }
    }
    (network.parameters_mut())
        .load(Path::new("shaken"), &named)
        .unwrap();
    network
}

fn graph(network: &Network, grid: (usize, usize)) -> Graph {
    let options = onnx::OnnxOptions {
        grid,
        classes: true,
    };
    Graph::read(&onnx::encode(network, &options, &BTreeMap::new()).unwrap())
}

#[test]
fn every_value_is_made_before_it_is_read_and_every_constant_is_read_once() {
    for config in cases() {
        let network = shaken(&config);
        let graph = graph(&network, GRID);
        let mut known = BTreeSet::from(["fields".to_string()]);
        let mut unread = BTreeSet::new();
        for (name, _) in &graph.constants {
            assert!(known.insert(name.clone()), "`{name}` twice: {config:?}");
            unread.insert(name.clone());
        }
        let (constants, mut nodes) = (unread.clone(), BTreeSet::new());
        for node in &graph.nodes {
            assert!(nodes.insert(&node.name), "two nodes `{}`", node.name);
            for input in node.inputs.iter().filter(|input| !input.is_empty()) {
                assert!(known.contains(input), "{}: no `{input}` yet", node.name);
                assert!(
                    !constants.contains(input) || unread.remove(input),
                    "{}: `{input}` is read twice",
                    node.name
                );
            }
            let output = &node.output;
            assert!(known.insert(output.clone()), "`{output}` is made twice");
        }
        assert!(unread.is_empty(), "nothing reads {unread:?}: {config:?}");
        // Kernels keep their names, each in the graph once; the rest is folded into them or beside them.
        for name in network.parameters().to_named().unwrap().keys() {
            if name.ends_with(".weight") || name.ends_with(".slope") {
                assert!(constants.contains(name), "`{name}`: {config:?}");
            }
        }
    }
}

#[test]
fn plain_loops_over_the_graph_give_the_networks_logits() {
    let cases = cases().into_iter();
    for (config, grid) in cases.flat_map(|config| [(config.clone(), GRID), (config, SMALL)]) {
        let network = shaken(&config);
        let (h, w) = grid;
        let x = sample::fields(config.channels_in, grid, 3).unwrap();
        let expected = channels_first(&network.infer(&x, DType::F32).unwrap());
        let graph = graph(&network, grid);
        let values = run(&graph, channels_first(&x));
        for (name, promised) in &graph.outputs {
            let found = &values[name].shape;
            assert_eq!((promised[0], &promised[1..]), (0, &found[1..]), "{name}");
        }
        let logits = &values["logits"];
        assert_eq!(logits.shape, [1, config.classes, h, w]);
        let relative = error(&logits.values, &expected.values, h * w);
        assert!(relative < 1e-5, "{relative:.1e} on {grid:?}: {config:?}");
        for (pixel, &class) in values["classes"].values.iter().enumerate() {
            let logit = |k: usize| logits.values[k * h * w + pixel];
            let largest = (0..config.classes).map(logit).fold(f32::MIN, f32::max);
            assert_eq!(logit(class as usize), largest);
        }
    }
}

/// The L2 norm of the difference over that of what the fields vary by: a constant must not hide an error.
fn error(found: &[f32], expected: &[f32], pixels: usize) -> f64 {
    let square = |a: f32, b: f32| f64::from(a - b).powi(2);
    let (mut wrong, mut varies) = (0.0, 0.0);
    for (found, expected) in found.chunks(pixels).zip(expected.chunks(pixels)) {
        let mean = expected.iter().sum::<f32>() / pixels as f32;
        wrong += (found.iter().zip(expected))
            .map(|(&a, &b)| square(a, b))
            .sum::<f64>();
        varies += expected.iter().map(|&v| square(v, mean)).sum::<f64>();
    }
    (wrong / varies).sqrt()
}

/// (b, h, w, c) as (b, c, h, w).
fn channels_first(x: &Tensor) -> Values {
    let x = x.permute((0, 3, 1, 2)).unwrap().contiguous().unwrap();
    Values {
        shape: x.dims().to_vec(),
        values: x.flatten_all().unwrap().to_vec1().unwrap(),
    }
}

#[test]
fn latitude_channels_follow_the_batch() {
    let config = NetworkConfig {
        latitude_input: true,
        ..cases().remove(0)
    };
    let network = shaken(&config);
    let x = sample::fields(config.channels_in, GRID, 3).unwrap();
    let none = Tensor::zeros(x.dims(), DType::F32, &Device::Cpu).unwrap();
    let alone = run(&graph(&network, GRID), channels_first(&x));
    let both = Tensor::cat(&[&none, &x], 0).unwrap();
    let pair = run(&graph(&network, GRID), channels_first(&both));
    let (alone, pair) = (&alone["logits"].values, &pair["logits"].values);
    assert_eq!(&pair[alone.len()..], &alone[..]);
}

/// By them the file is known where it lies alone. A pair is its name (field 1) and its value (field 2), each behind its
/// length.
#[test]
fn facts_are_metadata_and_classes_are_there_if_asked_for() {
    let network = shaken(&cases().remove(0));
    let options = onnx::OnnxOptions {
        grid: GRID,
        classes: false,
    };
    let facts = BTreeMap::from([("contract".to_string(), "{\"a\": 1}".to_string())]);
    let bytes = onnx::encode(&network, &options, &facts).unwrap();
    let pair = b"\x0a\x0fsquall.contract\x12\x08{\"a\": 1}";
    assert!(bytes.windows(pair.len()).any(|found| found == pair));
    let names = |graph: Graph| -> Vec<String> {
        let outputs = graph.outputs.iter();
        outputs.map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(Graph::read(&bytes)), ["logits"]);
    let both = names(graph(&network, GRID));
    assert_eq!(both, ["logits", "classes"]);
}
