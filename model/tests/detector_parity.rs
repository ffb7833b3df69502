//! The detectors against their PyTorch forms (`validation/peers/detectors.py`) in double precision: the same weights
//! give the same heads and reconstruction, and the same labels the same loss and gradients, those of tied kernels
//! included.
//!
//! `golden/detectors.py` made the expected values; it turns labels into cells by itself.

mod common;

use candle_core::{DType, Device, Tensor};
use common::named;
use serde_json::Value;
use squall_model::detection::{BoxTarget, DetectionLossConfig, DetectionTargets};
use squall_model::exchange::pytorch_name;
use squall_model::parameters::NamedTensors;
use squall_model::{Backend, Gradients, Network, NetworkConfig, Pass};
use std::path::Path;

/// A tensor as the script fills it.
fn fill(name: &str, shape: &[usize]) -> Vec<f32> {
    let (offset, factor) = if name.ends_with("running_var") {
        (1.0, 0.25)
    } else if shape.len() >= 4 {
        let fan_in = shape.iter().product::<usize>() / shape[shape.len() - 4];
        (0.0, ((6.0 / fan_in as f64) as f32).sqrt())
    } else if name.ends_with("weight") {
        (1.0, 0.25)
    } else {
        (0.0, 0.25)
    };
    let all = named(name, shape.iter().product()).into_iter();
    all.map(|v| offset + factor * v).collect()
}

fn filled(config: &NetworkConfig, backend: Backend) -> Network {
    let mut network = Network::build(config, backend, 1).unwrap();
    let ours = network.parameters().to_named().unwrap().into_iter();
    let all: NamedTensors = ours
        .map(|(name, (shape, _))| {
            let values = fill(&pytorch_name(&name), &shape);
            (name, (shape, values))
        })
        .collect();
    (network.parameters_mut().load(Path::new("filled"), &all)).unwrap();
    network
}

/// Values at some places.
fn compare(what: &str, found: &Tensor, expected: &Value, tolerance: f64) {
    let found = common::values(found);
    let numbers = |key: &str| expected[key].as_array().unwrap().iter();
    let rms = expected["rms"].as_f64().unwrap();
    for (at, value) in numbers("at").zip(numbers("values")) {
        let (at, value) = (at.as_u64().unwrap() as usize, value.as_f64().unwrap());
        let off = (f64::from(found[at]) - value).abs();
        assert!(
            off < tolerance * rms,
            "{what} at {at}: {} for {value}, typical {rms}",
            found[at]
        );
    }
}

/// The labels of every frame: lists of y_min, x_min, y_max, x_max, class.
fn labels(frames: &Value) -> Vec<Option<Vec<BoxTarget>>> {
    let target = |label: &Value| {
        let number = |at: usize| label[at].as_f64().unwrap();
        BoxTarget {
            class: number(4) as usize,
            y_min: number(0) as f32,
            x_min: number(1) as f32,
            y_max: number(2) as f32,
            x_max: number(3) as f32,
        }
    };
    let frame = |frame: &Value| Some(frame.as_array()?.iter().map(target).collect());
    frames.as_array().unwrap().iter().map(frame).collect()
}

fn check(name: &str, expected: &Value, backend: Backend) {
    let config: NetworkConfig = serde_json::from_value(expected["config"].clone()).unwrap();
    let network = filled(&config, backend);
    let size: Vec<usize> = (expected["size"].as_array().unwrap().iter())
        .map(|n| n.as_u64().unwrap() as usize)
        .collect();
    let x = named("input", size.iter().product());
    let x = Tensor::from_vec(x, &size[..], &Device::Cpu).unwrap();
    let mut pass = Pass::infer(backend, DType::F32);
    let output = network.detect(&x, &mut pass, false).unwrap();
    let what = |part: &str| format!("{name}, {backend:?}, {part}");
    compare(
        &what("evaluated"),
        output.heads(),
        &expected["evaluated"],
        1e-3,
    );
    let mut pass = Pass::train(backend, DType::F32, 1);
    let output = network.detect(&x, &mut pass, true).unwrap();
    compare(&what("heads"), output.heads(), &expected["heads"], 1e-3);
    if let Some(masks) = output.segmentation() {
        compare(&what("masks"), masks, &expected["masks"], 1e-3);
        return;
    }
    let made = output.reconstruction().unwrap();
    compare(
        &what("reconstruction"),
        made,
        &expected["reconstruction"],
        1e-3,
    );
    let boxes = labels(&expected["boxes"]);
    let targets = DetectionTargets {
        fields: &x,
        boxes: &boxes,
        masks: None,
    };
    let loss = output
        .loss(&targets, &DetectionLossConfig::default(), 1.0)
        .unwrap();
    let total = expected["total"].as_f64().unwrap();
    assert!(
        (loss.total / total - 1.0).abs() < 1e-5,
        "{name}: {} for {total}",
        loss.total
    );
    let mut gradients = Gradients::new(network.parameters());
    (network.backward_detection(loss.gradient, pass, &mut gradients)).unwrap();
    let mut left = expected["gradients"].as_object().unwrap().clone();
    for parameter in network.parameters().iter() {
        let theirs = pytorch_name(&parameter.name);
        let expected = left.remove(&theirs).unwrap_or_else(|| panic!("{theirs}"));
        let number = |at: usize| expected[at].as_f64().unwrap();
        let gradient = &gradients.as_slice()[parameter.range.clone()];
        let norm = common::dot(gradient, gradient).sqrt();
        let direction = named(&format!("{theirs} direction"), gradient.len());
        let along = common::dot(gradient, &direction);
        assert!(
            (norm - number(0)).abs() < 2e-3 * number(0)
                && (along - number(1)).abs() < 5e-3 * number(0),
            "{name}, {backend:?}: gradient of {theirs}: norm {norm}, along {along}, expected {expected}"
        );
    }
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn detectors_are_their_pytorch_forms() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/detectors.json");
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(folder).unwrap()).unwrap();
    let cases = cases.as_object().unwrap();
    assert_eq!(cases.len(), 6);
    for (name, expected) in cases {
        for backend in Backend::all() {
            check(name, expected, backend);
        }
    }
}
