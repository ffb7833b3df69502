//! The costs of a network, from shapes alone: its layers with their shapes, parameters and operations, and the memory
//! that training and inference need.

mod memory;
mod table;

use crate::ops::Convolution;
use crate::trace::Trace;
use serde::Serialize;

/// One layer with its costs for one sample.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Path in the network.
    pub name: String,
    /// Output (h, w, c).
    pub output: [usize; 3],
    /// Trainable values.
    pub parameters: usize,
    /// Floating-point operations of the forward pass; a multiply-add counts 2.
    pub forward_flops: u64,
}

/// Costs of a network for one sample of a given size.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The network's name.
    pub network: String,
    /// Input (h, w, c) of a frame.
    pub input: [usize; 3],
    /// Frames of a sample: 1, except for networks over time.
    pub frames: usize,
    /// Trainable values.
    pub parameters: usize,
    /// Floating-point operations of one forward pass.
    pub forward_flops: u64,
    /// Floating-point operations of inference, which skips parts used only in training, such as a detector's decoder.
    pub inference_flops: u64,
    /// Floating-point operations of one training step per sample: three forward passes.
    pub training_flops: u64,
    /// Bytes of f32 activations that a training step keeps per sample: every layer's output once.
    pub activation_bytes: u64,
    /// Layers in forward order.
    pub layers: Vec<Row>,
    #[serde(skip)]
    pub(crate) trace: Trace,
}

impl Summary {
    pub(crate) fn new(network: &str, frames: usize, input: [usize; 3], trace: Trace) -> Self {
        let forward_flops = trace.rows.iter().map(|row| row.forward_flops).sum();
        Self {
            network: network.to_string(),
            input,
            frames,
            parameters: trace.rows.iter().map(|row| row.parameters).sum::<usize>()
                + trace.parameters_skipped,
            forward_flops,
            inference_flops: trace
                .inference_rows()
                .iter()
                .map(|row| row.forward_flops)
                .sum(),
            training_flops: 3 * forward_flops,
            activation_bytes: 4 * trace.output_values,
            layers: trace.rows.clone(),
            trace,
        }
    }

    /// The convolutions in forward order, one entry per execution.
    pub fn convolutions(&self) -> &[Convolution] {
        &self.trace.convolutions
    }
}
