//! Kernels transformed to the points of a tile and packed for the matrix product.

use super::transform::{Kernel, both_axes};
use crate::ops::gemm::{Block, block};
use crate::ops::kept::{Lifetime, Values};
use crate::ops::value::{PADDING, Value};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Transformed kernels, in panels of [`Block::columns`] outputs: `[panel][point][input][output in the panel]`.
#[derive(Debug)]
pub struct Kernels {
    pub inputs: usize,
    pub outputs: usize,
    pub block: Block,
    /// The number of points of a tile.
    points: usize,
    values: Values,
}

impl Kernels {
    /// The transformed kernels of a convolution with weights `(outputs, inputs, 3, 3)` or `(outputs, inputs, 5, 5)`;
    /// `taps` is 9 or 25.
    pub fn forward(
        weights: &[f32],
        (outputs, inputs, taps): (usize, usize, usize),
        lifetime: Lifetime,
    ) -> Self {
        Self::new((outputs, inputs, taps), lifetime, |output, input, tap| {
            weights[(output * inputs + input) * taps + tap]
        })
    }

    /// The transformed kernels of the gradient of the input: outputs and inputs are swapped and the taps are flipped.
    pub fn backward(
        weights: &[f32],
        (outputs, inputs, taps): (usize, usize, usize),
        lifetime: Lifetime,
    ) -> Self {
        Self::new((inputs, outputs, taps), lifetime, |output, input, tap| {
            weights[(input * inputs + output) * taps + taps - 1 - tap]
        })
    }

    fn new(
        (outputs, inputs, taps): (usize, usize, usize),
        lifetime: Lifetime,
        at: impl Fn(usize, usize, usize) -> f32 + Sync,
    ) -> Self {
        if taps == 9 {
            Self::at_points::<3, 6>((outputs, inputs), lifetime, at)
        } else {
            Self::at_points::<5, 8>((outputs, inputs), lifetime, at)
        }
    }

    fn at_points<const R: usize, const P: usize>(
        (outputs, inputs): (usize, usize),
        lifetime: Lifetime,
        at: impl Fn(usize, usize, usize) -> f32 + Sync,
    ) -> Self {
        let block = block();
        let panel = P * P * inputs * block.columns;
        let mut values = Values::zeros(outputs.div_ceil(block.columns) * panel, lifetime);
        values
            .par_chunks_mut(panel)
            .enumerate()
            .for_each(|(index, values)| {
                Arch::new().dispatch(FillPanel::<_, R, P> {
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
            points: P * P,
            values,
        }
    }

    /// The number of panels.
    pub fn panels(&self) -> usize {
        self.outputs.div_ceil(self.block.columns)
    }

    /// The rows `from..to` (input channels) of one panel at one point.
    #[inline(always)]
    pub fn panel(&self, panel: usize, point: usize, from: usize, to: usize) -> &[f32] {
        let columns = self.block.columns;
        let start = (panel * self.points + point) * self.inputs;
        &self.values[(start + from) * columns..(start + to) * columns]
    }
}

/// Fills one panel with transformed kernels; `at` returns the weight of an output, an input and a tap.
struct FillPanel<'a, F, const R: usize, const P: usize> {
    values: &'a mut [f32],
    inputs: usize,
    columns: usize,
    first: usize,
    outputs: usize,
    at: &'a F,
}

impl<F: Fn(usize, usize, usize) -> f32, const R: usize, const P: usize> WithSimd
    for FillPanel<'_, F, R, P>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for input in 0..self.inputs {
            for from in (0..self.columns).step_by(S::F32_LANES) {
                let mut taps = [[simd.splat_f32s(0.0); R]; R];
                for (tap, vector) in taps.as_flattened_mut().iter_mut().enumerate() {
                    let mut lanes = [0.0; PADDING];
                    for (lane, value) in lanes.iter_mut().take(S::F32_LANES).enumerate() {
                        let output = self.first + from + lane;
                        if output < self.outputs {
                            *value = (self.at)(output, input, tap);
                        }
                    }
                    *vector = f32::load(simd, &lanes);
                }
                let points: [[S::f32s; P]; P] = both_axes::<Kernel, S, R, P>(simd, &taps);
                for (point, &vector) in points.as_flattened().iter().enumerate() {
                    let place = (point * self.inputs + input) * self.columns + from;
                    f32::store(simd, &mut self.values[place..], vector);
                }
            }
        }
    }
}
