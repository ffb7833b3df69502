//! The pixels that a tile reads and writes along one axis.
//!
//! A dilated kernel reads every `dilation`-th pixel, so its output separates into that many interleaved fields, each of
//! which is a plain convolution: the outputs and inputs of a tile lie `dilation` apart.

use crate::ops::conv_spec::source;

/// The number of tiles of `tile` outputs that cover `outputs` positions.
pub fn count(outputs: usize, dilation: usize, tile: usize) -> usize {
    let phases = 0..dilation.min(outputs);
    phases
        .map(|phase| (outputs - phase).div_ceil(tile * dilation))
        .sum()
}

/// One axis of a stride-1 convolution, in tiles of `P` inputs and `M` outputs.
#[derive(Debug, Clone)]
pub struct Axis<const P: usize, const M: usize> {
    /// First output position of every tile.
    pub starts: Vec<usize>,
    dilation: usize,
    padding: usize,
    outputs: usize,
    inputs: usize,
    wraps: bool,
}

impl<const P: usize, const M: usize> Axis<P, M> {
    /// The tiles of `outputs` positions that read `inputs` positions.
    pub fn new(
        outputs: usize,
        inputs: usize,
        dilation: usize,
        padding: usize,
        wraps: bool,
    ) -> Self {
        let phases = 0..dilation.min(outputs);
        let starts = phases.flat_map(|phase| (phase..outputs).step_by(M * dilation));
        Self {
            starts: starts.collect(),
            dilation,
            padding,
            outputs,
            inputs,
            wraps,
        }
    }

    /// The positions that the tile at `start` reads; `None` for zero padding.
    pub fn reads(&self, start: usize) -> [Option<usize>; P] {
        std::array::from_fn(|point| {
            let offset = point * self.dilation;
            source(start, 1, offset, self.padding, self.inputs, self.wraps)
        })
    }

    /// The positions that the tile at `start` writes; `None` beyond the end.
    pub fn writes(&self, start: usize) -> [Option<usize>; M] {
        std::array::from_fn(|i| Some(start + i * self.dilation).filter(|&at| at < self.outputs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_output_is_written_once(outputs in 1usize..60, dilation in 1usize..40, padding in 0usize..40) {
            let axis = Axis::<6, 4>::new(outputs, outputs + 2, dilation, padding, false);
            prop_assert_eq!(axis.starts.len(), count(outputs, dilation, 4));
            let mut written: Vec<usize> = axis.starts.iter().flat_map(|&s| axis.writes(s)).flatten().collect();
            written.sort_unstable();
            prop_assert_eq!(written, (0..outputs).collect::<Vec<_>>());
        }

        #[test]
        fn output_i_reads_its_five_taps(outputs in 1usize..60, dilation in 1usize..40, wraps: bool) {
            let axis = Axis::<8, 4>::new(outputs, outputs, dilation, 2 * dilation, wraps);
            for &start in &axis.starts {
                for (i, at) in axis.writes(start).into_iter().enumerate() {
                    let Some(at) = at else { continue };
                    for tap in 0..5 {
                        let expected = source(at, 1, tap * dilation, 2 * dilation, outputs, wraps);
                        prop_assert_eq!(axis.reads(start)[i + tap], expected);
                    }
                }
            }
        }
    }
}
