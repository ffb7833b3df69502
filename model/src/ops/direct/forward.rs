//! The convolution, or the gradient of its input, as products of lines of pixels and panels of kernels.

use super::axis::{Axis, Class};
use super::panels::Panels;
use crate::ops::finish::Finish;
use crate::ops::value::Value;
use crate::ops::{gemm, scratch};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Pixels per block whose sums stay in the cache together.
const PIXELS: usize = 96;
/// The minimum number of pixels per unit of work, if every thread gets that many. Each unit reads all kernels, so small
/// units waste time.
const LEAST_PIXELS: usize = 48;
/// Channels of the input or output per block whose kernels and sums stay in the cache together.
const CHANNELS: usize = 256;

/// Both axes of a convolution in one direction.
#[derive(Debug, Clone)]
pub struct Geometry {
    pub rows: Axis,
    pub columns: Axis,
    /// The extents (h, w) of the input and of the output.
    pub input: (usize, usize),
    pub output: (usize, usize),
    pub kernel_width: usize,
}

/// The convolution of `x` with the panels; the result is stored as `V`.
pub fn convolve<V: Value>(
    geometry: &Geometry,
    batch: usize,
    x: &[f32],
    panels: &Panels,
    finish: Finish<'_, V>,
) -> Vec<V> {
    let ((height, width), channels) = (geometry.output, panels.outputs);
    let mut y = vec![V::default(); batch * height * width * channels];
    // Units are whole rows, of one or several images, few enough per unit that every thread gets some.
    let (classes, threads) = (geometry.rows.classes.len(), rayon::current_num_threads());
    let of_pixels = |pixels: usize| (pixels * classes).div_ceil(width);
    let all = batch * height;
    let least = of_pixels(LEAST_PIXELS).min(all.div_ceil(threads));
    let share = all.div_ceil(4 * threads).max(least);
    let rows = of_pixels(PIXELS).min(share).next_multiple_of(classes);
    y.par_chunks_mut(rows * width * channels)
        .enumerate()
        .for_each(|(unit, y)| {
            Arch::new().dispatch(RunUnit {
                geometry,
                first_row: unit * rows,
                x,
                panels,
                finish,
                y,
            });
        });
    y
}

/// Computes one unit: consecutive rows of the output.
struct RunUnit<'a, V> {
    geometry: &'a Geometry,
    /// The unit's first row, counted over all images.
    first_row: usize,
    x: &'a [f32],
    panels: &'a Panels,
    finish: Finish<'a, V>,
    y: &'a mut [V],
}

/// One output pixel: its image, its indices within its classes of rows and columns, and its row and column in the
/// output, with rows counted over all images.
#[derive(Clone, Copy)]
struct Pixel {
    image: usize,
    at: (usize, usize),
    row: usize,
    column: usize,
}

impl<V: Value> WithSimd for RunUnit<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (geometry, panels) = (self.geometry, self.panels);
        let (height, width) = geometry.output;
        let last_row = self.first_row + self.y.len() / (width * panels.outputs);
        let zeros = vec![0.0; panels.inputs];
        let mut lines: Vec<&[f32]> = Vec::new();
        let mut pixels: Vec<Pixel> = Vec::with_capacity(PIXELS);
        // For each tap: its index, and the row and column offsets that it reads.
        let mut taps: Vec<(usize, isize, isize)> = Vec::new();
        let mut padding: Vec<bool> = Vec::new();
        for row_class in &geometry.rows.classes {
            for column_class in &geometry.columns.classes {
                taps.clear();
                for &(r, down) in &row_class.taps {
                    for &(s, right) in &column_class.taps {
                        taps.push((r * geometry.kernel_width + s, down, right));
                    }
                }
                let unit_row = self.first_row;
                let begin = |image: usize| {
                    let first_row = unit_row.saturating_sub(image * height);
                    let before = first_row.saturating_sub(row_class.first);
                    (before.div_ceil(row_class.every), 0)
                };
                let mut image = self.first_row / height;
                let mut next = begin(image);
                loop {
                    pixels.clear();
                    while pixels.len() < PIXELS && image * height < last_row {
                        let row = row_class.first + next.0 * row_class.every;
                        let column = column_class.first + next.1 * column_class.every;
                        if row >= height.min(last_row - image * height) {
                            image += 1;
                            next = begin(image);
                        } else if column >= width {
                            next = (next.0 + 1, 0);
                        } else {
                            pixels.push(Pixel {
                                image,
                                at: next,
                                row: image * height + row,
                                column,
                            });
                            next.1 += 1;
                        }
                    }
                    if pixels.is_empty() {
                        break;
                    }
                    let padded = pixels.len().next_multiple_of(panels.block.rows);
                    self.find_lines(
                        (row_class, column_class),
                        &pixels,
                        padded,
                        &taps,
                        &zeros,
                        (&mut lines, &mut padding),
                    );
                    self.multiply(simd, &pixels, padded, &taps, (&lines, &padding));
                }
            }
        }
    }
}

impl<'a, V: Value> RunUnit<'a, V> {
    /// Fills `lines` with the line of channels that each pixel reads for every tap, or with `zeros` for padding and
    /// beyond the last pixel. Sets `padding` for blocks of lines that are entirely zero.
    #[inline(always)]
    fn find_lines<'l>(
        &self,
        (row_class, column_class): (&Class, &Class),
        pixels: &[Pixel],
        padded: usize,
        taps: &[(usize, isize, isize)],
        zeros: &'l [f32],
        (lines, padding): (&mut Vec<&'l [f32]>, &mut Vec<bool>),
    ) where
        'a: 'l,
    {
        let (geometry, x, inputs) = (self.geometry, self.x, self.panels.inputs);
        lines.clear();
        padding.clear();
        for &(_, down, right) in taps {
            let first = lines.len();
            for pixel in pixels {
                let row = geometry.rows.source(row_class, pixel.at.0, down);
                let column = geometry.columns.source(column_class, pixel.at.1, right);
                lines.push(match (row, column) {
                    (Some(row), Some(column)) => {
                        let (height, width) = geometry.input;
                        let pixel = (pixel.image * height + row) * width + column;
                        &x[pixel * inputs..][..inputs]
                    }
                    _ => zeros,
                });
            }
            lines.resize(first + padded, zeros);
            // Blocks of padding are skipped in the products.
            let is_padding = |line: &&[f32]| std::ptr::eq(*line, zeros);
            let blocks = lines[first..].chunks_exact(self.panels.block.rows);
            padding.extend(blocks.map(|block| block.iter().all(is_padding)));
        }
    }

    /// Computes and writes some pixels from the lines that they read for every tap; `padding` marks blocks of lines
    /// that are entirely padding.
    #[inline(always)]
    fn multiply<S: Simd>(
        &mut self,
        simd: S,
        pixels: &[Pixel],
        padded: usize,
        taps: &[(usize, isize, isize)],
        (lines, padding): (&[&[f32]], &[bool]),
    ) {
        let panels = self.panels;
        let block = panels.block;
        let at_once = CHANNELS / block.columns;
        let depth = panels.inputs.div_ceil(panels.inputs.div_ceil(CHANNELS));
        // Taps per pass over the sums, so that few channels do not require many passes.
        let together = (CHANNELS / depth).max(1);
        let c_row = at_once.min(panels.count()) * block.columns;
        let [mut sums, mut packed] =
            scratch::take(padded * c_row, together * depth * block.columns);
        let mut part: Vec<&[f32]> = Vec::new();
        for first_panel in (0..panels.count()).step_by(at_once) {
            let last_panel = panels.count().min(first_panel + at_once);
            let mut add = false;
            for from in (0..panels.inputs).step_by(depth) {
                let to = panels.inputs.min(from + depth);
                for group in (0..taps.len()).step_by(together) {
                    let group = group..taps.len().min(group + together);
                    let group_lines = &lines[group.start * padded..group.end * padded];
                    let blocks = padded / block.rows;
                    let padding = &padding[group.start * blocks..group.end * blocks];
                    // Groups of taps are the same whatever is skipped, so that every pixel is summed in the same order.
                    if padding.iter().all(|only| *only) {
                        continue;
                    }
                    let group_lines = if to - from == panels.inputs {
                        group_lines
                    } else {
                        part.clear();
                        part.extend(group_lines.iter().map(|line| &line[from..to]));
                        &part
                    };
                    for panel in first_panel..last_panel {
                        let size = (to - from) * block.columns;
                        let panel_rows = if group.len() == 1 {
                            panels.rows(panel, taps[group.start].0, from, to)
                        } else {
                            for (place, tap) in
                                packed.chunks_exact_mut(size).zip(&taps[group.clone()])
                            {
                                place.copy_from_slice(panels.rows(panel, tap.0, from, to));
                            }
                            &packed[..group.len() * size]
                        };
                        let c = &mut sums[(panel - first_panel) * block.columns..];
                        let a = gemm::Taps {
                            lines: group_lines,
                            zeros: padding,
                            pixels: padded,
                            k: to - from,
                        };
                        let target = gemm::Target { stride: c_row, add };
                        gemm::lines_by_panel(simd, a, panel_rows, c, target);
                    }
                    add = true;
                }
            }
            if !add {
                sums.fill(0.0);
            }
            let channels =
                first_panel * block.columns..panels.outputs.min(last_panel * block.columns);
            self.write(simd, pixels, &sums, c_row, channels);
        }
        scratch::give_back([sums, packed]);
    }

    #[inline(always)]
    fn write<S: Simd>(
        &mut self,
        simd: S,
        pixels: &[Pixel],
        sums: &[f32],
        c_row: usize,
        channels: std::ops::Range<usize>,
    ) {
        let all = self.panels.outputs;
        let width = self.geometry.output.1;
        for (pixel, sums) in pixels.iter().zip(sums.chunks_exact(c_row)) {
            let place = ((pixel.row - self.first_row) * width + pixel.column) * all;
            let whole = (pixel.row * width + pixel.column) * all;
            for at in channels.clone().step_by(S::F32_LANES) {
                let sum = f32::load(simd, &sums[at - channels.start..]);
                let value = self.finish.apply(simd, sum, whole, (at, channels.end));
                V::store(simd, &mut self.y[place + at..place + channels.end], value);
            }
        }
    }
}
