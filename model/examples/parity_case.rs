//! Writes what another program needs to check a network against ours: configuration, exported weights, ONNX file, and a
//! sample with our logits. `validation/peers/parity.sh` runs it.
//!
//! `cargo run --release -p squall-model --example parity_case -- OUT CONFIG.json HEIGHTxWIDTH`
#![allow(clippy::print_stdout)]

use squall_model::exchange::{onnx, safetensors, sample};
use squall_model::parameters::NamedTensors;
use squall_model::{Backend, Network, NetworkConfig};
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
    let mut network = Network::build(&config, Backend::best(), 1)?;
    shake(&mut network)?;
    let at = |name: &str| -> PathBuf { Path::new(out).join(name) };
    std::fs::create_dir_all(out)?;
    std::fs::write(at("network.json"), serde_json::to_string_pretty(&config)?)?;
    let (tensors, facts) = (network.parameters().to_named()?, BTreeMap::new());
    safetensors::write(&at("weights.safetensors"), &tensors, &facts)?;
    let options = onnx::OnnxOptions {
        grid,
        classes: true,
    };
    onnx::write(&at("model.onnx"), &network, &options, &facts)?;
    sample::sample(&network, grid, 1)?.write(&at("sample.safetensors"))?;
    println!("{out}: {} parameters", network.parameters().count());
    Ok(())
}

/// Moves biases and normalisations away from 0 and 1, where an error in them would not show.
fn shake(network: &mut Network) -> Result<(), Failure> {
    let mut named: NamedTensors = network.parameters().to_named()?;
    for (name, (_, values)) in &mut named {
        let is = |leaf: &str| name.ends_with(leaf);
        if is(".weight") {
            continue;
        }
        let spread = if is(".scale") || is(".running_variance") {
            0.3
        } else {
            0.1
        };
        let wave = |i: usize| ((i * 7 + name.len()) as f32).sin();
        values
            .iter_mut()
            .enumerate()
            .for_each(|(i, value)| *value += spread * wave(i));
    }
    let find = |name: &str| {
        let (shape, values) = named.get(name)?;
        Some((&shape[..], &values[..]))
    };
    network.parameters_mut().load(Path::new("shaken"), find)?;
    Ok(())
}
