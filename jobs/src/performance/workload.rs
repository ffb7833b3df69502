//! The work and traffic of a rank in a step.

use crate::error::Result;
use crate::memory;
use crate::recipe::Recipe;
use crate::train::facts_of_step;
use candle_core::DType;
use squall_model::summary::Summary;
use squall_model::{Backend, Network};

/// The work and traffic of a rank in a step, independent of the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The network's name.
    pub network: String,
    /// The number format: `f32`, `bf16` or `f16`.
    pub precision: String,
    /// Gradients in the order in which the backward pass completes them.
    pub layers: Vec<Layer>,
    /// Values beside the gradients that ranks sum in a step: of its loss, running statistics, signals.
    pub facts: usize,
    /// Operations per sample of a step, forward and backward.
    pub training_flops: f64,
    /// Bytes per stored sample.
    pub sample_bytes: f64,
    /// Pixels of a field.
    pub pixels: usize,
    /// Bytes for a training step of one sample, and for each further one; 0 if unknown.
    pub memory: (u64, u64),
}

/// The gradients of a layer, or of a bucket of layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layer {
    /// Number of values.
    pub values: usize,
    /// The share of the backward pass after which they are ready.
    pub at: f64,
}

impl Workload {
    /// The workload of a recipe's network on fields of this size. `bytes_per_pixel` is what the store keeps per pixel:
    /// all its channels, including those that the recipe does not use, and a byte of label.
    ///
    /// `auto` precision is bf16 on devices that support it; the caller decides that.
    ///
    /// # Errors
    /// Those of the network.
    pub fn of(
        recipe: &Recipe,
        (rows, columns): (usize, usize),
        bytes_per_pixel: usize,
        auto: &str,
    ) -> Result<Self> {
        let mut config = recipe.network.clone();
        if let Some(channels) = &recipe.data.channels {
            config.channels_in = channels.len();
        }
        let network = Network::outline(&config, Backend::Reference, recipe.seed)?;
        let summary = network.training_summary(rows, columns, recipe.detection.reconstructs())?;
        let auto = match auto {
            "bf16" => DType::BF16,
            _ => DType::F32,
        };
        let dtype = recipe.precision.compute.stored().unwrap_or(auto);
        let storage = recipe.precision.storage(&network, dtype)?;
        let kept = (recipe.training.recompute, recipe.training.saved_activations);
        let storage = storage.keeping(kept.0, kept.1);
        // The summary already counts parameters and gradients.
        let state = (memory::kept_values(recipe, false) - 2) * summary.parameters;
        // For plain operations: the workspace of libraries is not known here.
        let bytes = |batch| summary.training_bytes(Backend::Reference, batch, &storage, state);
        let (one, two) = (bytes(1), bytes(2));
        Ok(Self {
            memory: (one, two.saturating_sub(one)),
            facts: facts_of_step(network.parameters()),
            ..Self::of_summary(&summary, dtype.as_str(), bytes_per_pixel)
        })
    }

    /// The workload of a network's summary, without facts, which the summary does not tell.
    #[must_use]
    pub fn of_summary(summary: &Summary, precision: &str, bytes_per_pixel: usize) -> Self {
        let mut done = 0.0;
        let total = summary.forward_flops.max(1) as f64;
        let layers = summary.layers.iter().rev().filter_map(|row| {
            done += row.forward_flops as f64 / total;
            (row.parameters > 0).then_some(Layer {
                values: row.parameters,
                at: done,
            })
        });
        let [rows, columns, _] = summary.input;
        let pixels = rows * columns;
        Self {
            network: summary.network.clone(),
            precision: precision.to_string(),
            layers: layers.collect(),
            facts: 0,
            training_flops: summary.training_flops as f64,
            sample_bytes: (pixels * summary.frames * bytes_per_pixel) as f64,
            pixels,
            memory: (0, 0),
        }
    }

    /// Bytes per rank for steps of `batch` samples; 0 if unknown.
    #[must_use]
    pub fn memory_bytes(&self, batch: usize) -> u64 {
        let (one, more) = self.memory;
        one + more * (batch as u64).saturating_sub(1)
    }

    /// Trainable values.
    #[must_use]
    pub fn values(&self) -> usize {
        self.layers.iter().map(|layer| layer.values).sum()
    }

    /// Fuses layers into buckets of at least this many values, as [`squall_model::gradients::Gradients::buckets`] does:
    /// a bucket is complete when its last layer is.
    #[must_use]
    pub fn buckets(&self, values: usize) -> Vec<Layer> {
        let mut buckets = Vec::new();
        let mut open = Layer { values: 0, at: 0.0 };
        for layer in &self.layers {
            open.values += layer.values;
            open.at = layer.at;
            if open.values >= values.max(1) {
                buckets.push(open);
                open.values = 0;
            }
        }
        if open.values > 0 {
            buckets.push(open);
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_model::gradients::Gradients;

    #[test]
    fn an_average_takes_four_bytes_for_each_parameter() {
        let of = |changes: &[String]| {
            let text = "[network]\nname = 'deeplabv3plus'\nwidth = 0.25";
            let recipe = Recipe::parse(text, changes).unwrap();
            Workload::of(&recipe, (192, 288), 33, "f32").unwrap()
        };
        let (plain, averaged) = (of(&[]), of(&["training.average=0.9".to_string()]));
        let more = averaged.memory_bytes(2) - plain.memory_bytes(2);
        assert_eq!(more, 4 * plain.values() as u64);
    }

    /// Means and variances of all channels that are normalised, three values of the loss and two signals.
    #[test]
    fn facts_are_as_many_as_a_step_sends() {
        for (name, expected) in [("deepcam", 97_760 + 5), ("cgnet", 10_256 + 5)] {
            let recipe = Recipe::named(name.as_ref(), &[]).unwrap();
            let workload = Workload::of(&recipe, (192, 288), 33, "f32").unwrap();
            assert_eq!(workload.facts, expected, "{name}");
        }
        // A training's network has values, a prediction's has none.
        let config = Recipe::named("cgnet".as_ref(), &[]).unwrap().network;
        let network = Network::build(&config, Backend::Reference, 1).unwrap();
        assert_eq!(facts_of_step(network.parameters()), 10_256 + 5);
    }

    /// The plan of the model is the plan of the training.
    #[test]
    fn buckets_are_those_of_the_gradients() {
        let recipe = Recipe::parse("[network]\nname = 'deeplabv3plus'\nwidth = 0.25", &[]).unwrap();
        let workload = Workload::of(&recipe, (192, 288), 33, "f32").unwrap();
        let config = squall_model::NetworkConfig {
            channels_in: recipe.network.channels_in,
            ..recipe.network.clone()
        };
        let network = Network::build(&config, Backend::best(), 1).unwrap();
        assert_eq!(workload.values(), network.parameters().count());
        let at_once = 100_000;
        let real = Gradients::buckets(network.parameters(), at_once);
        let ours = workload.buckets(at_once);
        // In the same order, from the end of the network. Rows are layers and borders of buckets lie between parameters,
        // so a kernel and its bias may part.
        let (mut sums, mut there) = (Vec::new(), 0);
        for bucket in &ours {
            there += bucket.values;
            sums.push(there);
        }
        let mut there = 0;
        for bucket in &real {
            there += bucket.len();
            let nearest = sums.iter().map(|sum| sum.abs_diff(there)).min();
            assert!(nearest.is_some_and(|off| off <= 2048), "{there}: {sums:?}");
        }
        assert!(
            real.len().abs_diff(ours.len()) <= 1,
            "{} and {}",
            real.len(),
            ours.len()
        );
        assert!(ours.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert!((ours.last().unwrap().at - 1.0).abs() < 1e-9);
        assert_eq!(workload.sample_bytes, (192 * 288 * (16 * 2 + 1)) as f64);
    }
}
