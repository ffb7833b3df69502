//! `squall bench optimizer`: one step of every rule on the 43.67-million-parameter network, compared with memory
//! bandwidth.

use super::ceilings::Triad;
use super::{Row, forget_peak, median, row};
use squall_model::optim::{Mirror, Optimizer, OptimizerConfig, Rounding, Rule, Update};
use squall_model::{Backend, Gradients, Network, NetworkConfig};
use std::time::Instant;

/// Returns one row per rule. The percentage refers to a triad that runs before each step, on the same device, so that
/// both meet the same load.
///
/// The minimum traffic of a step: gradient, values and moments read, values and moments written, 4 bytes each. LAMB
/// needs the norm of a tensor's whole direction, so 12 bytes are added for its second pass. That is exact only for
/// tensors larger than the last-level cache, such as DeepLabV3+'s largest; if every tensor fitted into cache, LAMB's
/// percentage would be 28/40 of the reported one. Any further traffic counts against the step: there is one more pass
/// over the gradient, which checks it for NaN and infinities.
pub(super) fn rows(repeat: usize) -> anyhow::Result<Vec<Row>> {
    let backend = Backend::best();
    let mut network = Network::build(&NetworkConfig::default(), backend, 1)?;
    let count = network.parameters().count();
    let mut gradients = Gradients::new(network.parameters());
    let values = gradients.as_mut_slice().iter_mut().enumerate();
    values.for_each(|(i, g)| *g = ((i % 1013) as f32 - 506.0) * 1e-5);
    // A network's gradients exist before its step begins.
    gradients.settle()?;
    let mut triad = Triad::new(backend, count)?;
    let sgd = OptimizerConfig {
        rule: Rule::Sgd,
        ..OptimizerConfig::default()
    };
    // A GPU keeps copies in f32, which its operations take.
    let with_copy = if backend.is_gpu() { 32 } else { 30 };
    let cases = [
        ("SGD", sgd, false, 20),
        ("AdamW", OptimizerConfig::default(), false, 28),
        (
            "AdamW + bf16 copies",
            OptimizerConfig::default(),
            true,
            with_copy,
        ),
        ("LARC-Adam", OptimizerConfig::larc_adam(), false, 28),
        ("LAMB", OptimizerConfig::mlperf_deepcam(), false, 40),
    ];
    let mut found = Vec::new();
    for (name, config, copies, bytes) in cases {
        forget_peak();
        let mut optimizer = Optimizer::new(&config, network.parameters())?;
        let mut mirror = copies
            .then(|| Mirror::new(network.parameters(), Rounding::Nearest))
            .transpose()?;
        let (mut triads, mut steps) = (Vec::new(), Vec::new());
        for turn in 0..=repeat.max(1) {
            let triad_seconds = triad.seconds()?;
            let update = Update {
                mirror: mirror.as_mut(),
                ..Update::rate(1e-4)
            };
            let started = Instant::now();
            let parameters = network.parameters_mut();
            optimizer.update(parameters, &gradients, update)?;
            backend.wait()?;
            // The first turn touches fresh memory.
            if turn > 0 {
                triads.push(triad_seconds);
                steps.push(started.elapsed().as_secs_f64());
            }
        }
        let rate = (12 * count) as f64 / median(&mut triads);
        let ceiling = (bytes * count) as f64 / rate;
        found.push(row(
            format!("{name}, {:.2} M parameters", count as f64 / 1e6),
            median(&mut steps),
            Some(ceiling),
            triad.words(),
        ));
    }
    Ok(found)
}
