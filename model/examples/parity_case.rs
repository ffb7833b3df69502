//! Writes what another program needs to check a network against ours: configuration, exported weights, ONNX file, and a
//! sample with our logits. `validation/peers/parity.sh` runs it.
//!
//! `cargo run --release -p squall-model --example parity_case -- OUT CONFIG.json HEIGHTxWIDTH`
#![allow(clippy::print_stdout)]

use candle_core::DType;
use squall_model::exchange::{PYTORCH, onnx, safetensors, sample};
use squall_model::parameters::NamedTensors;
use squall_model::{Backend, Network, NetworkConfig, Pass};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, config, grid] = &arguments[..] else {
        return Err("expected OUT CONFIG.json HEIGHTxWIDTH".into());
    };
    let (h, w) = grid.split_once('x').ok_or("expected HEIGHTxWIDTH")?;
    let grid = (h.parse()?, w.parse()?);
    let config: NetworkConfig = serde_json::from_str(&std::fs::read_to_string(config)?)?;
    let network = prepared(&config, grid)?;
    let at = |name: &str| -> PathBuf { Path::new(out).join(name) };
    std::fs::create_dir_all(out)?;
    std::fs::write(at("network.json"), serde_json::to_string_pretty(&config)?)?;
    let (tensors, facts) = (network.parameters().to_named()?, BTreeMap::new());
    safetensors::write(&at("weights.safetensors"), &tensors, &PYTORCH, &facts)?;
    let options = onnx::OnnxOptions {
        grid,
        classes: true,
    };
    onnx::write(&at("model.onnx"), &network, &options, &facts)?;
    sample::sample(&network, grid, 1)?.write(&at("sample.safetensors"))?;
    println!("{out}: {} parameters", network.parameters().count());
    Ok(())
}

/// A network whose biases and normalisations are away from 0 and 1, where an error in them would not show, and whose
/// running statistics are those of a field, so that logits have the size of a trained network's.
fn prepared(config: &NetworkConfig, grid: (usize, usize)) -> Result<Network, Failure> {
    let forgetful = NetworkConfig {
        batch_norm_decay: 0.0,
        ..config.clone()
    };
    let mut calibrated = Network::build(&forgetful, Backend::best(), 1)?;
    load(&mut calibrated, |name, values| {
        let spread = if name.ends_with(".scale") { 0.3 } else { 0.1 };
        let wave = |i: usize| ((i * 7 + name.len()) as f32).sin();
        if !name.ends_with(".weight") {
            (values.iter_mut().enumerate()).for_each(|(i, value)| *value += spread * wave(i));
        }
    })?;
    let x = sample::fields(config.channels_in, grid, 2)?;
    let mut pass = Pass::train(calibrated.backend(), DType::F32, 1);
    calibrated.forward(&x, &mut pass)?;
    calibrated.update_running_statistics(&mut pass).unwrap();
    let mut network = Network::build(config, Backend::best(), 1)?;
    let named = calibrated.parameters().to_named()?;
    load(&mut network, |name, values| {
        values.clone_from(&named[name].1)
    })?;
    Ok(network)
}

/// Changes every tensor of a network.
fn load(network: &mut Network, change: impl Fn(&str, &mut Vec<f32>)) -> Result<(), Failure> {
    let mut named: NamedTensors = network.parameters().to_named()?;
    for (name, (_, values)) in &mut named {
        change(name, values);
    }
    network
        .parameters_mut()
        .load(Path::new("prepared"), &named)?;
    Ok(())
}
