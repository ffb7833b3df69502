//! Kernels packed for the inner loop.

use crate::ops::gemm::{Block, block};
use rayon::prelude::*;

/// Kernels in panels of [`Block::columns`] outputs: `[panel][tap][input][output in the panel]`.
#[derive(Debug, Clone)]
pub struct Panels {
    pub inputs: usize,
    pub outputs: usize,
    pub taps: usize,
    pub block: Block,
    values: Vec<f32>,
}

impl Panels {
    /// Of weights `(outputs, inputs, taps)`.
    pub fn forward(weights: &[f32], (outputs, inputs, taps): (usize, usize, usize)) -> Self {
        Self::new(outputs, inputs, taps, |output, input| {
            &weights[(output * inputs + input) * taps..][..taps]
        })
    }

    /// Of the gradient of the input: outputs and inputs change sides.
    pub fn backward(weights: &[f32], (outputs, inputs, taps): (usize, usize, usize)) -> Self {
        Self::new(inputs, outputs, taps, |output, input| {
            &weights[(input * inputs + output) * taps..][..taps]
        })
    }

    fn new<'a>(
        outputs: usize,
        inputs: usize,
        taps: usize,
        kernel: impl Fn(usize, usize) -> &'a [f32] + Sync,
    ) -> Self {
        let block = block();
        let panel = taps * inputs * block.columns;
        let mut values = vec![0.0; outputs.div_ceil(block.columns) * panel];
        values
            .par_chunks_mut(panel)
            .enumerate()
            .for_each(|(index, values)| {
                let first = index * block.columns;
                for lane in 0..block.columns.min(outputs - first) {
                    for input in 0..inputs {
                        for (tap, &weight) in kernel(first + lane, input).iter().enumerate() {
                            values[(tap * inputs + input) * block.columns + lane] = weight;
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

    /// Panels in all.
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
