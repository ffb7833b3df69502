//! Kernels packed for the inner loop.

use crate::ops::gemm::{Block, block};
use crate::ops::kept::{Lifetime, Values};
use rayon::prelude::*;

/// Kernels in panels of [`Block::columns`] outputs: `[panel][tap][input][output in the panel]`.
#[derive(Debug)]
pub struct Panels {
    pub inputs: usize,
    pub outputs: usize,
    pub taps: usize,
    pub block: Block,
    values: Values,
}

impl Panels {
    /// The panels of weights `(outputs, inputs, taps)`.
    pub fn forward(
        weights: &[f32],
        (outputs, inputs, taps): (usize, usize, usize),
        lifetime: Lifetime,
    ) -> Self {
        let steps = (inputs * taps, taps);
        Self::new(weights, (outputs, inputs, taps), steps, lifetime)
    }

    /// The panels for the gradient of the input, with outputs and inputs swapped.
    pub fn backward(
        weights: &[f32],
        (outputs, inputs, taps): (usize, usize, usize),
        lifetime: Lifetime,
    ) -> Self {
        let steps = (taps, inputs * taps);
        Self::new(weights, (inputs, outputs, taps), steps, lifetime)
    }

    /// The panels of weights, where `output_step` and `input_step` are the strides of outputs and inputs in `weights`.
    ///
    /// Panels are written row by row, each once: the kernels of a row's outputs at one input stay in the cache while
    /// their taps are distributed.
    fn new(
        weights: &[f32],
        (outputs, inputs, taps): (usize, usize, usize),
        (output_step, input_step): (usize, usize),
        lifetime: Lifetime,
    ) -> Self {
        let block = block();
        let columns = block.columns;
        let panel = taps * inputs * columns;
        let mut values = Values::zeros(outputs.div_ceil(columns) * panel, lifetime);
        values
            .par_chunks_mut(panel)
            .enumerate()
            .for_each(|(index, values)| {
                let first = index * columns;
                let lanes = columns.min(outputs - first);
                for input in 0..inputs {
                    let start = first * output_step + input * input_step;
                    for tap in 0..taps {
                        let row = &mut values[(tap * inputs + input) * columns..][..lanes];
                        let kernels = &weights[start + tap..];
                        for (lane, value) in row.iter_mut().enumerate() {
                            *value = kernels[lane * output_step];
                        }
                    }
                }
            });
        Self {
            inputs,
            outputs,
            taps,
            block,
            values,
        }
    }

    /// The number of panels.
    pub fn count(&self) -> usize {
        self.outputs.div_ceil(self.block.columns)
    }

    /// The rows `from..to` (input channels) of one panel at one tap.
    #[inline(always)]
    pub fn rows(&self, panel: usize, tap: usize, from: usize, to: usize) -> &[f32] {
        let columns = self.block.columns;
        let start = (panel * self.taps + tap) * self.inputs;
        &self.values[(start + from) * columns..(start + to) * columns]
    }
}
