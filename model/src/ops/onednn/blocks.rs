//! Kernels packed into oneDNN's blocked layout for bf16 forward convolutions: many outputs by pairs of inputs.
//!
//! oneDNN's own reordering of `(out, in, kh, kw)` reads and writes with strides that use few values of each cache line:
//! for 640 x 512 kernels of 5 x 5 it takes ten times as long as the convolution of a small field. Here blocks are
//! filled in the L1 cache and then copied to the positions of their taps, in half the time. For other blocked layouts
//! oneDNN is as fast.

use super::sys;
use crate::ops::value::Value;
use half::bf16;
use pulp::Arch;
use rayon::prelude::*;

/// Bytes of the blocks that are filled together, before conversion to bf16.
const TILE: usize = 26 << 10;

/// Inputs per block.
const PAIR: usize = 2;

/// Kernels with fewer taps are left to oneDNN, which reads them contiguously.
const LEAST_TAPS: usize = 4;

/// The positions of kernels `(out, in, kh, kw)` in a primitive's blocked layout: blocks of outputs by inputs, ordered
/// by tap.
pub struct Blocks {
    outputs: usize,
    inputs: usize,
    taps: usize,
    /// Outputs and inputs of a block.
    block: (usize, usize),
    /// The position of each output and each input within a block.
    output_at: Vec<usize>,
    input_at: Vec<usize>,
    /// Strides between blocks of outputs and blocks of inputs, and the offset of each tap.
    output_blocks: usize,
    input_blocks: usize,
    tap_at: Vec<usize>,
    padded: bool,
}

impl Blocks {
    /// The layout that a primitive expects; `None` if the kernels have few taps or the layout is another one.
    pub fn from_layout(desc: &sys::ConvDesc, layout: &sys::Layout) -> Option<Self> {
        let extents = [
            desc.channels_out,
            desc.channels_in,
            desc.kernel_h,
            desc.kernel_w,
        ];
        let [outputs, inputs, kh, kw] = extents.map(|extent| extent as usize);
        let count = layout.blocks as usize;
        let blocks = || {
            let axes = layout.block_axes[..count].iter();
            let sizes = layout.block_sizes[..count].iter();
            axes.zip(sizes).map(|(&axis, &size)| (axis, size as usize))
        };
        if layout.rank != 4 || kh * kw < LEAST_TAPS || blocks().any(|(axis, _)| axis > 1) {
            return None;
        }
        let all: usize = blocks().map(|(_, size)| size).product();
        // The last block is the innermost.
        let inside = |axis: i64| {
            let mut at = vec![0];
            let mut below = 1;
            for (of, size) in blocks().collect::<Vec<_>>().into_iter().rev() {
                if of == axis {
                    let digits = (0..size)
                        .flat_map(|digit| at.iter().map(move |lower| lower + digit * below));
                    at = digits.collect();
                }
                below *= size;
            }
            at
        };
        let (output_at, input_at) = (inside(0), inside(1));
        let block = (output_at.len(), input_at.len());
        if block.1 != PAIR || desc.bf16 == 0 {
            return None;
        }
        let stride = |axis: usize| layout.strides[axis] as usize;
        let tap_at = (0..kh).flat_map(|r| (0..kw).map(move |s| r * stride(2) + s * stride(3)));
        let padded = [0, 1].map(|axis| layout.padded[axis] as usize);
        let outermost = stride(0) == padded[1] / block.1 * kh * kw * all;
        outermost.then(|| Self {
            outputs,
            inputs,
            taps: kh * kw,
            block,
            output_at,
            input_at,
            output_blocks: stride(0),
            input_blocks: stride(1),
            tap_at: tap_at.collect(),
            padded: padded != [outputs, inputs],
        })
    }

    /// The number of values of all kernels, including the zeros that pad blocks.
    pub fn len(&self) -> usize {
        self.outputs.div_ceil(self.block.0) * self.output_blocks
    }

    /// Writes plain kernels in the primitive's layout.
    pub fn pack(&self, plain: &[f32], to: &mut [bf16]) {
        let blocks = to[..self.len()].par_chunks_exact_mut(self.output_blocks);
        blocks.enumerate().for_each(|(index, to)| {
            Arch::new().dispatch(
                #[inline(always)]
                || self.pack_outputs(index, plain, to),
            );
        });
    }

    /// Packs one block of outputs.
    #[inline(always)]
    fn pack_outputs(&self, index: usize, plain: &[f32], to: &mut [bf16]) {
        let (size, taps) = (self.block.0 * self.block.1, self.taps);
        let together = (TILE / (taps * size * size_of::<f32>())).max(1);
        let inputs = together * self.block.1;
        let mut tile = vec![0.0; together * taps * size];
        let first = index * self.block.0;
        let outputs = first..self.outputs.min(first + self.block.0);
        for (group, begin) in (0..self.inputs).step_by(inputs).enumerate() {
            let end = self.inputs.min(begin + inputs);
            if self.padded {
                tile.fill(0.0);
            }
            for (output, at) in outputs.clone().zip(&self.output_at) {
                let kernels = &plain[(output * self.inputs + begin) * taps..];
                let kernels = kernels[..(end - begin) * taps].chunks_exact(taps);
                for (input, kernel) in kernels.enumerate() {
                    let block = input / self.block.1 * taps * size;
                    let place = block + at + self.input_at[input % self.block.1];
                    let tile = &mut tile[place..][..(taps - 1) * size + 1];
                    for (tap, w) in kernel.iter().enumerate() {
                        // SAFETY: of `taps` places that lie `size` apart the last is the slice's last.
                        unsafe { *tile.get_unchecked_mut(tap * size) = *w };
                    }
                }
            }
            let blocks = (end - begin).div_ceil(self.block.1);
            for (block, tile) in tile.chunks_exact(taps * size).take(blocks).enumerate() {
                let first = (group * together + block) * self.input_blocks;
                for (tap, values) in self.tap_at.iter().zip(tile.chunks_exact(size)) {
                    let to = &mut to[first + tap..][..size];
                    to.iter_mut()
                        .zip(values)
                        .for_each(|(to, w)| *to = bf16::narrow(*w));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::primitive::{descriptor, with_primitive};
    use super::*;
    use crate::ops::ConvSpec;
    use crate::ops::conv_spec::Convolution;
    use crate::ops::testing::draw;
    use std::ffi::c_void;

    #[test]
    fn packs_as_onednn_does() {
        if !crate::ops::onednn::computes_bf16() {
            return;
        }
        let mut seen = 0;
        for (channels, outputs, kernel, stride) in [
            (384, 512, 5, 2),
            (96, 64, 3, 1),
            (33, 17, 5, 2),
            (16, 40, 3, 1),
            (70, 2, 3, 1),
        ] {
            let geometry = Convolution {
                x: [2, 12, 18, channels],
                y: [2, 12 / stride, 18 / stride, outputs],
                spec: ConvSpec::same(kernel).stride(stride),
            };
            let desc = descriptor::<bf16>(sys::FORWARD, &geometry);
            let plain = draw(3, channels * outputs * kernel * kernel);
            let (layout, theirs) = with_primitive("conv2d", desc, |primitive| {
                let mut layout = sys::Layout::default();
                // SAFETY: the primitive exists; pages have room for what it asks for.
                let theirs = unsafe {
                    sys::squall_conv_layout(primitive.0, &raw mut layout);
                    let bytes = sys::squall_conv_packed_bytes(primitive.0);
                    let mut pages = crate::ops::kept::pages(bytes).unwrap();
                    let (from, to) = (plain.as_ptr() as *mut c_void, pages.as_mut_ptr());
                    assert_eq!(sys::squall_conv_pack(primitive.0, from, to.cast()), 0);
                    pages
                };
                Ok((layout, theirs))
            })
            .unwrap();
            let Some(blocks) = Blocks::from_layout(&desc, &layout) else {
                continue;
            };
            seen += 1;
            // What was there before must not show through.
            let mut ours = vec![bf16::from_f32(7.0); blocks.len()];
            blocks.pack(&plain, &mut ours);
            assert!(ours[..] == bytemuck::cast_slice(&theirs)[..ours.len()]);
        }
        // Tiles and other versions of oneDNN may want others.
        let pairs = !crate::ops::onednn::multiplies_tiles();
        assert!(seen > 0 || !pairs, "no kernels in pairs of inputs");
    }
}
