//! DeepCAM and CGNet against their PyTorch references: the same weights give the same logits and gradients.
//!
//! `golden/published_networks.py` made the expected values; weights and input follow from names there and here.

mod common;

use candle_core::{DType, Device, Tensor};
use common::named as values;
use serde_json::Value;
use squall_model::exchange::{Layout, WeightSource};
use squall_model::networks::NetworkName;
use squall_model::parameters::{Kind, NamedTensors};
use squall_model::{Backend, Gradients, Network, NetworkConfig, Pass};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn golden(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// Name and shape of every tensor of the reference's state dictionary.
fn their_shapes(network: &str) -> BTreeMap<String, Vec<usize>> {
    let text = golden(&format!("{network}.names"));
    let line = |line: &str| {
        let (name, shape) = line.split_once(' ').unwrap();
        let shape = shape.split('x').map(|n| n.parse().unwrap()).collect();
        (name.to_string(), shape)
    };
    text.lines().map(line).collect()
}

/// A tensor of the reference, filled as the script fills it.
fn fill(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut all = values(name, shape.iter().product());
    let (offset, factor) = if name.ends_with("running_var") {
        (1.0, 0.25)
    } else if matches!(shape.len(), 2 | 4) {
        let fan_in: usize = shape[1..].iter().product();
        (0.0, ((6.0 / fan_in as f64) as f32).sqrt())
    } else if name.ends_with("weight") || name.ends_with("weights") {
        (1.0, 0.25)
    } else {
        (0.0, 0.25)
    };
    all.iter_mut().for_each(|v| *v = offset + factor * *v);
    all
}

/// `inference` is the tolerance of logits with made-up running statistics, which let activations grow.
fn check(name: NetworkName, inference: f64) {
    let config = NetworkConfig::published(name);
    let label = name.as_str();
    let layout = Layout::named(label).unwrap();
    let theirs = |ours: &str| match (layout.source)(ours) {
        WeightSource::Same(name) => name,
        other => panic!("`{ours}` has no name in PyTorch: {other:?}"),
    };
    let mut network = Network::build(&config, Backend::best(), 1).unwrap();
    let expected: Value = serde_json::from_str(&golden(&format!("{label}.json"))).unwrap();
    assert_eq!(
        network.parameters().count() as u64,
        expected["parameters"].as_u64().unwrap()
    );

    // Every tensor of theirs is one of ours, of the same shape but for extents of 1.
    let mut left = their_shapes(label);
    let mut filled = NamedTensors::new();
    for (ours, (shape, _)) in network.parameters().to_named().unwrap() {
        let name = theirs(&ours);
        let found = left
            .remove(&name)
            .unwrap_or_else(|| panic!("`{ours}`: PyTorch has no `{name}`, or had it twice"));
        let squeezed =
            |shape: &[usize]| -> Vec<usize> { shape.iter().copied().filter(|&n| n != 1).collect() };
        assert_eq!(squeezed(&shape), squeezed(&found), "{ours} and {name}");
        filled.insert(ours, (shape, fill(&name, &found)));
    }
    assert!(left.is_empty(), "PyTorch has more: {left:?}");
    network
        .parameters_mut()
        .load(&PathBuf::from(label), &filled)
        .unwrap();

    let size: Vec<usize> = (expected["size"].as_array().unwrap().iter())
        .map(|n| n.as_u64().unwrap() as usize)
        .collect();
    let x = values("input", size.iter().product());
    let x = Tensor::from_vec(x, &size[..], &Device::Cpu).unwrap();
    let flat = |t: &Tensor| -> Vec<f32> { t.flatten_all().unwrap().to_vec1().unwrap() };
    let compare = |what: &str, logits: &[f32], tolerance: f64| {
        let rms = expected[format!("{what}_rms")].as_f64().unwrap();
        let at = expected["at"].as_array().unwrap();
        for (at, value) in at.iter().zip(expected[what].as_array().unwrap()) {
            let (at, value) = (at.as_u64().unwrap() as usize, value.as_f64().unwrap());
            let off = (f64::from(logits[at]) - value).abs();
            assert!(
                off < tolerance * rms,
                "{label}, {what} at {at}: {} for {value}, typical {rms}",
                logits[at]
            );
        }
    };
    compare(
        "evaluated",
        &flat(&network.infer(&x, DType::F32).unwrap()),
        inference,
    );
    let mut pass = Pass::train(network.backend(), DType::F32, 1);
    let logits = network.forward(&x, &mut pass).unwrap();
    compare("trained", &flat(&logits), 1e-3);

    let r = values("gradient", logits.elem_count());
    let dlogits = Tensor::from_vec(r, logits.dims(), &Device::Cpu).unwrap();
    let mut gradients = Gradients::new(network.parameters());
    network.backward(&dlogits, pass, &mut gradients).unwrap();
    let mut norms = expected["gradient_norms"].as_object().unwrap().clone();
    for parameter in network.parameters().iter() {
        let name = theirs(&parameter.name);
        let Some(norm) = norms.remove(&name) else {
            continue;
        };
        let gradient = &gradients.as_slice()[parameter.range.clone()];
        let found = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>();
        let (found, norm) = (found.sqrt(), norm.as_f64().unwrap());
        assert!(
            (found - norm).abs() < 5e-3 * norm,
            "{label}: gradient of {name}: {found} for {norm}"
        );
        assert!(parameter.kind != Kind::Weight || norm > 0.0);
    }
    assert!(norms.is_empty(), "{norms:?}");
}

#[test]
fn deepcam_is_the_pytorch_reference() {
    check(NetworkName::DeepCam, 1e-3);
}

#[test]
fn cgnet_is_the_pytorch_reference() {
    // PyTorch's own f32 is 1.6e-3 from its f64 here.
    check(NetworkName::CgNet, 4e-3);
}
