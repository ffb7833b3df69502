//! 1x1 convolutions (one group, no padding) as one dense matrix product, pixels x inputs by inputs x outputs.
//!
//! Pixels are read where they lie; the kernels are packed in panels. What follows the sums (bias, residual, ReLU) happens while
//! they are in registers. The order of a pixel's sum depends on the channels alone.

#[cfg(test)]
mod tests;

use super::conv_spec::ConvSpec;
use super::direct::Panels;
use super::finish::Finish;
use super::value::Value;
use super::{gemm, scratch};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Pixels that share one walk through the kernels.
const PIXELS: usize = 192;
/// Inputs whose products are added before the next: the more, the less often sums are put aside.
const DEPTH: usize = 512;
/// Values of the panels that stay in the second cache while all pixels pass: half of the smallest in use.
const KEPT: usize = 1 << 16;

/// Whether these loops can run the convolution.
pub fn fits(spec: &ConvSpec) -> bool {
    spec.kernel == (1, 1) && spec.groups == 1 && spec.padding == (0, 0)
}

/// Whether they should: of stride 1 oneDNN is faster, even against kernels packed before (`--example pointwise_paths`).
pub fn pays(spec: &ConvSpec, x: [usize; 4], y: [usize; 4]) -> bool {
    fits(spec) && spec.stride > 1 && x[3] >= 16 && y[3] >= 16 && gemm::is_fast()
}

/// The convolution of x, stored as x is.
pub fn forward<V: Value>(
    spec: &ConvSpec,
    (x_shape, y_shape): ([usize; 4], [usize; 4]),
    x: &[V],
    panels: &Panels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let pixels: usize = y_shape[..3].iter().product();
    let outputs = panels.outputs;
    let mut y = vec![V::default(); pixels * outputs];
    // Equal shares of whole blocks, as many as let every thread work to the end.
    let blocks = pixels.div_ceil(panels.block.rows);
    let units = (blocks * panels.block.rows).div_ceil(PIXELS);
    let units = units.next_multiple_of(rayon::current_num_threads());
    let share = blocks.div_ceil(units) * panels.block.rows;
    y.par_chunks_mut(share * outputs)
        .enumerate()
        .for_each(|(unit, y)| {
            Arch::new().dispatch(RunUnit {
                stride: spec.stride,
                input: (x_shape[1], x_shape[2]),
                output: (y_shape[1], y_shape[2]),
                x,
                panels,
                finish,
                first: unit * share,
                y,
            });
        });
    y
}

struct RunUnit<'a, V> {
    stride: usize,
    /// (h, w) that is read and that is written.
    input: (usize, usize),
    output: (usize, usize),
    x: &'a [V],
    panels: &'a Panels,
    finish: Finish<'a, V>,
    /// The pixel whose outputs begin `y`.
    first: usize,
    y: &'a mut [V],
}

impl<V: Value> WithSimd for RunUnit<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::F32_LANES == 16 {
            self.run::<S, 12>(simd);
        } else {
            self.run::<S, 6>(simd);
        }
    }
}

/// Where a part of the inputs begins and ends, and whether it is the first or the last.
#[derive(Clone, Copy)]
struct Part {
    from: usize,
    to: usize,
    first: bool,
    last: bool,
}

impl<'a, V: Value> RunUnit<'a, V> {
    #[inline(always)]
    fn run<S: Simd, const M: usize>(mut self, simd: S) {
        let panels = self.panels;
        let (inputs, columns) = (panels.inputs, panels.block.columns);
        let pixels = self.y.len() / panels.outputs;
        let padded = pixels.next_multiple_of(M);
        let depth = inputs.div_ceil(inputs.div_ceil(DEPTH));
        let at_once = (KEPT / depth / columns).clamp(1, panels.count());
        let width = at_once * columns;
        let is_f32 = V::as_f32(self.x).is_some();
        let widened = if is_f32 { 0 } else { padded * depth };
        let unfinished = if depth < inputs { padded * width } else { 0 };
        let [mut wide, mut sums] = scratch::take(widened, unfinished);
        for first_panel in (0..panels.count()).step_by(at_once) {
            let last_panel = panels.count().min(first_panel + at_once);
            for from in (0..inputs).step_by(depth) {
                let to = inputs.min(from + depth);
                let part = Part {
                    from,
                    to,
                    first: from == 0,
                    last: to == inputs,
                };
                self.widen(simd, part, pixels, &mut wide);
                // Panels lie one after the other, so that the walk through them runs ahead of itself; pixels do not.
                for block in (0..pixels).step_by(M) {
                    let mut lines = [&[0.0f32; 0][..]; M];
                    for (i, line) in lines.iter_mut().enumerate() {
                        *line = self.line(part, (block + i).min(pixels - 1), &wide);
                    }
                    for panel in first_panel..last_panel {
                        let (values, _) = S::as_simd_f32s(panels.rows(panel, 0, from, to));
                        let place = (panel - first_panel) * columns;
                        self.block::<S, M>(
                            simd,
                            part,
                            &lines,
                            values,
                            (block, panel),
                            &mut sums,
                            (place, width),
                        );
                    }
                }
            }
        }
        scratch::give_back([wide, sums]);
    }

    /// A part of the inputs of one pixel of this unit.
    #[inline(always)]
    fn line<'w>(&self, part: Part, pixel: usize, wide: &'w [f32]) -> &'w [f32]
    where
        'a: 'w,
    {
        match V::as_f32(self.x) {
            Some(x) => &x[self.source(pixel) + part.from..][..part.to - part.from],
            None => &wide[pixel * (part.to - part.from)..][..part.to - part.from],
        }
    }

    /// Where the inputs of a pixel begin.
    #[inline(always)]
    fn source(&self, pixel: usize) -> usize {
        let pixel = self.first + pixel;
        let inputs = self.panels.inputs;
        if self.stride == 1 {
            return pixel * inputs;
        }
        let ((height, width), (out_h, out_w)) = (self.input, self.output);
        let (row, column) = (pixel / out_w, pixel % out_w);
        let row = row / out_h * height + row % out_h * self.stride;
        (row * width + column * self.stride) * inputs
    }

    /// The part of the inputs of all pixels as f32, if they are not stored so.
    #[inline(always)]
    fn widen<S: Simd>(&self, simd: S, part: Part, pixels: usize, wide: &mut [f32]) {
        if V::as_f32(self.x).is_some() {
            return;
        }
        let length = part.to - part.from;
        for pixel in 0..pixels {
            let values = &self.x[self.source(pixel) + part.from..][..length];
            let wide = &mut wide[pixel * length..][..length];
            for at in (0..length).step_by(S::F32_LANES) {
                let vector = V::load(simd, &values[at..]);
                f32::store(simd, &mut wide[at..], vector);
            }
        }
    }

    /// One block: the sums begun or taken up, then put aside or finished.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn block<S: Simd, const M: usize>(
        &mut self,
        simd: S,
        part: Part,
        lines: &[&[f32]; M],
        values: &[S::f32s],
        (block, panel): (usize, usize),
        unfinished: &mut [f32],
        (place, width): (usize, usize),
    ) {
        let mut sums = [[simd.splat_f32s(0.0); gemm::SIDE]; M];
        if !part.first {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let at = (block + i) * width + place + j * S::F32_LANES;
                    *sum = f32::load(simd, &unfinished[at..]);
                }
            }
        }
        let sums = gemm::add_products::<S, M>(simd, lines, values, sums);
        if !part.last {
            for (i, sums) in sums.iter().enumerate() {
                for (j, &sum) in sums.iter().enumerate() {
                    let at = (block + i) * width + place + j * S::F32_LANES;
                    f32::store(simd, &mut unfinished[at..], sum);
                }
            }
            return;
        }
        let outputs = self.panels.outputs;
        let rows = self.y[block * outputs..].chunks_exact_mut(outputs);
        for ((i, sums), row) in sums.iter().enumerate().zip(rows) {
            let whole = (self.first + block + i) * outputs;
            for (j, &sum) in sums.iter().enumerate() {
                let at = panel * self.panels.block.columns + j * S::F32_LANES;
                if at < outputs {
                    let value = self.finish.apply(simd, sum, whole, (at, outputs));
                    V::store(simd, &mut row[at..], value);
                }
            }
        }
    }
}
