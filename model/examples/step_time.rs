//! Milliseconds of a training step and of inference, of the small network or of a published one.
//!
//! `cargo run --release -p squall-model --example step_time -- [small | NETWORK] [HEIGHT WIDTH [BATCH [STEPS]]]`
#![allow(clippy::print_stdout)]

use candle_core::{DType, Device, Tensor};
use squall_model::optim::{Optimizer, OptimizerConfig};
use squall_model::{Backend, Gradients, Network, NetworkConfig, Pass};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    squall_model::memory::keep_large_buffers();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| -> Result<usize, std::num::ParseIntError> {
        arguments
            .get(index)
            .map_or(Ok(default), |text| text.parse())
    };
    let config = match arguments.first().map_or("small", String::as_str) {
        "small" => NetworkConfig::small(),
        name => NetworkConfig::of(name.parse()?),
    };
    let (h, w) = (number(1, 192)?, number(2, 288)?);
    let (batch, steps) = (number(3, 1)?, number(4, 10)?);
    let backend = Backend::best();
    let mut network = Network::build(&config, backend, 1)?;
    let summary = network.summary(h, w)?;
    println!("{summary}{}", backend.describe());

    let count = batch * h * w * config.channels_in;
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 7919) % 1009) as f32 / 504.0 - 1.0)
        .collect();
    let x = Tensor::from_vec(values, (batch, h, w, config.channels_in), &Device::Cpu)?;
    let labels: Vec<u8> = (0..batch * h * w)
        .map(|i| (i / 97 % config.classes) as u8)
        .collect();
    let weights = vec![1.0; config.classes];
    let mut optimizer = Optimizer::new(&OptimizerConfig::default(), network.parameters())?;
    let mut gradients = Gradients::new(network.parameters());
    let mut phases: Vec<[f64; 4]> = Vec::new();
    for step in 0..steps {
        if step + 1 == steps {
            squall_model::profile::start();
        }
        let start = Instant::now();
        let mut pass = Pass::train(backend, DType::F32, step as u64);
        let logits = network.forward(&x, &mut pass)?;
        let forward = start.elapsed();
        let loss = backend.softmax_cross_entropy(&logits, &labels, &weights, 1.0)?;
        network.update_running_statistics(&mut pass).unwrap();
        gradients.clear();
        network.backward(&loss.gradient, pass, &mut gradients)?;
        let backward = start.elapsed();
        optimizer.step(network.parameters_mut(), &gradients, 1e-4)?;
        let total = start.elapsed();
        if step + 1 == steps {
            print_profile(total);
        }
        let inference = Instant::now();
        network.infer(&x, DType::F32)?;
        let parts = [
            forward,
            backward - forward,
            total - backward,
            inference.elapsed(),
        ];
        phases.push(parts.map(|part| part.as_secs_f64() * 1e3 / batch as f64));
    }
    let [forward, backward, update, inference] = [0, 1, 2, 3].map(|part| median(&phases, part));
    let step = forward + backward + update;
    println!(
        "per sample, median of {steps}: training {step:.1} ms (forward {forward:.1}, loss and backward {backward:.1}, \
         update {update:.1}), {:.1} GF/s; inference {inference:.1} ms, {:.1} GF/s",
        summary.training_flops as f64 / step / 1e6,
        summary.forward_flops as f64 / inference / 1e6,
    );
    Ok(())
}

/// Prints the operations that took the most time of a step of `total`, which was profiled.
fn print_profile(total: Duration) {
    let entries = squall_model::profile::finish();
    let accounted: f64 = entries.iter().map(|entry| entry.time.as_secs_f64()).sum();
    println!(
        "{:.1} % of the last step is in operations:",
        100.0 * accounted / total.as_secs_f64()
    );
    for entry in entries.iter().take(40) {
        println!(
            "{:9.2} ms {:3} x  {}",
            entry.time.as_secs_f64() * 1e3,
            entry.calls,
            entry.operation
        );
    }
}

/// The median over all steps of one part of their time.
fn median(phases: &[[f64; 4]], part: usize) -> f64 {
    let mut all: Vec<f64> = phases.iter().map(|phase| phase[part]).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
