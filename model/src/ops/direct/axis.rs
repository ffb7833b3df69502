//! The positions that a kernel reads along one axis, in both directions.
//!
//! In the forward direction all outputs use the same offsets. In the gradient of the input, a stride of n splits
//! positions into n classes, each of which uses only every n-th tap, so the zeros between are never multiplied.

use crate::ops::conv_spec::ConvSpec;

/// Positions that read the input at the same offsets relative to themselves.
#[derive(Debug, Clone)]
pub struct Class {
    /// Each tap with its offset: position t of the class reads the input at `t * step + offset`.
    pub taps: Vec<(usize, isize)>,
    /// The first position, and the distance between positions.
    pub first: usize,
    pub every: usize,
    step: usize,
}

/// One axis of a convolution.
#[derive(Debug, Clone)]
pub struct Axis {
    pub classes: Vec<Class>,
    inputs: usize,
    wraps: bool,
}

impl Axis {
    /// The axis of a convolution over `inputs` positions.
    pub fn forward(
        spec: &ConvSpec,
        kernel: usize,
        padding: usize,
        inputs: usize,
        wraps: bool,
    ) -> Self {
        let offset = |tap: usize| (tap * spec.dilation) as isize - padding as isize;
        let class = Class {
            taps: (0..kernel).map(|tap| (tap, offset(tap))).collect(),
            first: 0,
            every: 1,
            step: spec.stride,
        };
        Self {
            classes: vec![class],
            inputs,
            wraps,
        }
    }

    /// The axis of the gradient of its input, which reads `outputs` positions.
    pub fn backward(
        spec: &ConvSpec,
        kernel: usize,
        padding: usize,
        outputs: usize,
        wraps: bool,
    ) -> Self {
        let stride = spec.stride as isize;
        let class = |first: usize| {
            // Output p contributes to position first + stride t by the tap with p stride + tap dilation - padding =
            // position.
            let at =
                |tap: usize| first as isize + padding as isize - (tap * spec.dilation) as isize;
            let taps = (0..kernel).filter(|&tap| at(tap).rem_euclid(stride) == 0);
            Class {
                taps: taps.map(|tap| (tap, at(tap).div_euclid(stride))).collect(),
                first,
                every: spec.stride,
                step: 1,
            }
        };
        Self {
            classes: (0..spec.stride).map(class).collect(),
            inputs: outputs,
            wraps,
        }
    }

    /// The number of (written position, tap) pairs, for `outputs` positions, whose tap does not read padding.
    pub fn seen(&self, outputs: usize) -> usize {
        let of_class = |class: &Class| {
            let positions = outputs.saturating_sub(class.first).div_ceil(class.every);
            let sees = |t, offset: isize| usize::from(self.source(class, t, offset).is_some());
            let taps = |t| {
                class
                    .taps
                    .iter()
                    .map(move |tap| sees(t, tap.1))
                    .sum::<usize>()
            };
            (0..positions).map(taps).sum::<usize>()
        };
        self.classes.iter().map(of_class).sum()
    }

    /// The input position that position `t` of a class reads at an offset; `None` for zero padding.
    #[inline(always)]
    pub fn source(&self, class: &Class, t: usize, offset: isize) -> Option<usize> {
        let at = (t * class.step) as isize + offset;
        let extent = self.inputs as isize;
        if self.wraps {
            Some(at.rem_euclid(extent) as usize)
        } else {
            (0..extent).contains(&at).then_some(at as usize)
        }
    }
}
