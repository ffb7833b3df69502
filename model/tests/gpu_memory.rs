//! Memory that is taken of a GPU, beside what is counted before.
#![cfg(feature = "cuda")]

mod gpu_alone;
mod stand_in_gpu;

use gpu_alone::Device;
use squall_model::networks::NetworkName;
use squall_model::optim::{Optimizer, OptimizerConfig, Rule};
use squall_model::{Network, NetworkConfig};

/// Tables of where tensors lie, and the ends of the pieces in which memory is given out.
const TABLES: u64 = 16 << 10;

#[test]
fn an_optimiser_takes_as_much_as_is_counted() {
    let Some(device) = Device::open() else { return };
    if device.stand_in().is_none() {
        return;
    }
    let gpu = device.backend;
    let config = NetworkConfig {
        width: 0.1,
        blocks: vec![1],
        ..NetworkConfig::of(NetworkName::DeepCam)
    };
    let network = Network::build(&config, gpu, 3).unwrap();
    assert!(4 * network.parameters().count() as u64 > 2 * TABLES);
    for rule in [Rule::Sgd, Rule::AdamW, Rule::Lamb] {
        let config = OptimizerConfig {
            rule,
            ..OptimizerConfig::default()
        };
        gpu.wait().unwrap();
        gpu.forget_peak();
        let before = gpu.peak_memory().unwrap();
        let optimizer = Optimizer::new(&config, network.parameters()).unwrap();
        let taken = gpu.peak_memory().unwrap() - before;
        let counted = 4 * (optimizer.state_len() + optimizer.working_len()) as u64;
        assert!(
            (counted..counted + TABLES).contains(&taken),
            "{rule:?}: {taken} bytes, {counted} counted"
        );
    }
}
