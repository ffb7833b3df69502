//! Kernels at the 36 points, packed for the matrix product.

use super::transform::{Kernel, POINTS, TAPS, both_axes};
use crate::ops::gemm::{Block, block};
use crate::ops::value::{PADDING, Value};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Points of a tile.
pub const SQUARE: usize = POINTS * POINTS;

/// Transformed kernels, in panels of [`Block::columns`] outputs: `[panel][point][input][output in the panel]`.
#[derive(Debug, Clone)]
pub struct Kernels {
    pub inputs: usize,
    pub outputs: usize,
    pub block: Block,
    values: Vec<f32>,
}

impl Kernels {
    /// Of a convolution with weights `(outputs, inputs, 3, 3)`.
    pub fn forward(weights: &[f32], outputs: usize, inputs: usize) -> Self {
        Self::new(outputs, inputs, |output, input, tap| {
            weights[(output * inputs + input) * 9 + tap]
        })
    }

    /// Of the gradient of its input: outputs and inputs change sides and the taps turn around.
    pub fn backward(weights: &[f32], outputs: usize, inputs: usize) -> Self {
        Self::new(inputs, outputs, |output, input, tap| {
            weights[(input * inputs + output) * 9 + 8 - tap]
        })
    }

    fn new(outputs: usize, inputs: usize, at: impl Fn(usize, usize, usize) -> f32 + Sync) -> Self {
        let block = block();
        let panel = SQUARE * inputs * block.columns;
        let mut values = vec![0.0; outputs.div_ceil(block.columns) * panel];
        values
            .par_chunks_mut(panel)
            .enumerate()
            .for_each(|(index, values)| {
                Arch::new().dispatch(FillPanel {
                    values,
                    inputs,
                    columns: block.columns,
                    first: index * block.columns,
                    outputs,
                    at: &at,
                });
            });
        Self {
            inputs,
            outputs,
            block,
            values,
        }
    }

    /// Panels in all.
    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(self.block.columns)
    }

    /// The rows `from..to` (input channels) of one panel at one point.
    #[inline(always)]
    pub fn panel(&self, panel: usize, point: usize, from: usize, to: usize) -> &[f32] {
        let columns = self.block.columns;
        let start = (panel * SQUARE + point) * self.inputs;
        &self.values[(start + from) * columns..(start + to) * columns]
    }
}

struct FillPanel<'a, F> {
    values: &'a mut [f32],
    inputs: usize,
    columns: usize,
    first: usize,
    outputs: usize,
    at: &'a F,
}

impl<F: Fn(usize, usize, usize) -> f32> WithSimd for FillPanel<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for input in 0..self.inputs {
            for from in (0..self.columns).step_by(S::F32_LANES) {
                let mut taps = [simd.splat_f32s(0.0); TAPS * TAPS];
                for (tap, vector) in taps.iter_mut().enumerate() {
                    let mut lanes = [0.0; PADDING];
                    for (lane, value) in lanes.iter_mut().take(S::F32_LANES).enumerate() {
                        let output = self.first + from + lane;
                        if output < self.outputs {
                            *value = (self.at)(output, input, tap);
                        }
                    }
                    *vector = f32::load(simd, &lanes);
                }
                let points: [S::f32s; SQUARE] =
                    both_axes::<Kernel, S, TAPS, POINTS, _, _>(simd, &taps);
                for (point, &vector) in points.iter().enumerate() {
                    let place = (point * self.inputs + input) * self.columns + from;
                    f32::store(simd, &mut self.values[place..], vector);
                }
            }
        }
    }
}
