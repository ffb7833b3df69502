//! Splits problems that exceed cuDNN's limits or the workspace limit into groups of samples.

use super::bands::Band;
use super::library::Direction;
use super::problem::Problem;
use crate::error::Result;
use crate::lock::locked;
use crate::ops::cuda::device::Gpu;
use candle_core::{DType, Tensor};
use std::ops::Range;

/// cuDNN counts the values of a tensor in 32 bits; eight samples of 768 x 1152 with 384 channels are too many.
const MOST_VALUES: usize = i32::MAX as usize;

/// Bytes of a sample's f32 fields after transposition, with a small margin.
pub(super) fn turned([_, h, w, c]: [usize; 4], [_, p, q, o]: [usize; 4]) -> usize {
    let bytes = (h * w * c + p * q * o) * size_of::<f32>();
    bytes + bytes / 64
}

/// The workspace limit of a problem, given the general limit `most_memory`: up to three times that if a single sample
/// needs it, as in `deconv1x`, which transposes 2.3 GB.
pub(super) fn memory(most_memory: usize, turned: usize) -> usize {
    most_memory.max(turned.min(3 * most_memory))
}

impl Gpu {
    /// Splits a problem into groups of as many samples as cuDNN accepts.
    pub(in super::super) fn parts(&self, problem: &Problem) -> Vec<(Range<usize>, Problem)> {
        let cudnn = locked(&self.cudnn);
        problem.parts(cudnn.most_memory)
    }

    /// The bands whose sum is a kernel gradient.
    pub(in super::super) fn bands(&self, problem: &Problem) -> Vec<Band> {
        let cudnn = locked(&self.cudnn);
        problem.bands(cudnn.most_memory)
    }
}

impl Problem {
    /// The parts of a problem for this workspace limit, each with its range of samples.
    pub(in super::super) fn parts(&self, most_memory: usize) -> Vec<(Range<usize>, Self)> {
        self.parts_of_samples(most_memory, usize::MAX)
    }

    /// As [`Self::parts`], with at most this many samples per part.
    pub(super) fn parts_of_samples(
        &self,
        most_memory: usize,
        most_samples: usize,
    ) -> Vec<(Range<usize>, Self)> {
        let values = |[_, h, w, c]: [usize; 4]| h * w * c;
        let sample = values(self.x).max(values(self.y)).max(1);
        let step = (MOST_VALUES / sample).min(most_memory / self.turned().max(1));
        let step = step.min(most_samples);
        let (batch, step) = (self.x[0], step.max(1));
        // Parts of nearly equal size, so that there are few distinct problems.
        let step = batch.div_ceil(batch.div_ceil(step).max(1)).max(1);
        let of = |first: usize| {
            let mut part = *self;
            let samples = first..batch.min(first + step);
            (part.x[0], part.y[0]) = (samples.len(), samples.len());
            (samples, part)
        };
        (0..batch).step_by(step).map(of).collect()
    }

    /// The workspace limit in bytes, given the general limit.
    pub(super) fn memory(&self, most_memory: usize) -> usize {
        memory(most_memory, self.turned())
    }

    /// Workspace per sample of engines without tensor cores: all except the slowest transpose both fields to planar
    /// channels. For kernel gradients they do not.
    fn turned(&self) -> usize {
        match self.direction {
            Direction::BackwardFilter => 0,
            _ if self.dtype != DType::F32 || self.tf32 => 0,
            _ => turned(self.x, self.y),
        }
    }
}

/// The values of a range of samples of a batch.
pub(in super::super) fn samples(
    tensor: &Tensor,
    samples: &Range<usize>,
    batch: usize,
) -> Result<Tensor> {
    let each = tensor.elem_count() / batch;
    let values = tensor.flatten_all()?;
    Ok(values.narrow(0, samples.start * each, samples.len() * each)?)
}

#[cfg(test)]
mod tests {
    use super::super::library::Direction;
    use super::*;
    use candle_core::DType;

    fn problem(batch: usize) -> Problem {
        Problem {
            direction: Direction::Forward,
            dtype: DType::BF16,
            tf32: false,
            x: [batch, 768, 1152, 384],
            y: [batch, 768, 1152, 256],
            kernel: (3, 3),
            padding: (1, 1),
            padding_below: 1,
            stride: 1,
            dilation: 1,
            groups: 1,
            ending: None,
        }
    }

    #[test]
    fn every_sample_is_in_one_part_that_is_small_enough() {
        for batch in 1..40 {
            let whole = problem(batch);
            let mut next = 0;
            for (samples, part) in whole.parts(1 << 30) {
                assert_eq!(samples.start, next);
                next = samples.end;
                assert_eq!([part.x[0], part.y[0]], [samples.len(); 2]);
                assert!(part.x.iter().product::<usize>() <= MOST_VALUES);
                let back = Problem {
                    x: whole.x,
                    y: whole.y,
                    ..part
                };
                assert_eq!(back, whole);
            }
            assert_eq!(next, batch);
        }
        // Six fit; eight are four and four.
        assert_eq!(problem(6).parts(1 << 30).len(), 1);
        let eight = problem(8).parts(1 << 30);
        assert_eq!(eight.iter().map(|p| p.0.len()).collect::<Vec<_>>(), [4, 4]);
    }

    #[test]
    fn values_of_parts_are_those_of_their_samples() {
        let values: Vec<f32> = (0..24).map(|v| v as f32).collect();
        let batch = Tensor::from_vec(values.clone(), (4, 2, 3), &candle_core::Device::Cpu).unwrap();
        let of = |range: Range<usize>| {
            let part = samples(&batch, &range, 4).unwrap();
            part.to_vec1::<f32>().unwrap()
        };
        assert_eq!(of(0..4), values);
        assert_eq!(of(1..3), values[6..18]);
    }

    #[test]
    fn fields_of_f32_are_as_many_as_can_be_turned() {
        let products = |direction| Problem {
            direction,
            dtype: DType::F32,
            x: [8, 384, 576, 32],
            y: [8, 384, 576, 256],
            kernel: (1, 1),
            padding: (0, 0),
            padding_below: 0,
            ..problem(8)
        };
        let counts = |problem: Problem| -> Vec<usize> {
            let parts = problem.parts(1 << 30).into_iter();
            parts.map(|(samples, _)| samples.len()).collect()
        };
        assert_eq!(counts(products(Direction::BackwardData)), [4, 4]);
        assert_eq!(counts(products(Direction::Forward)), [4, 4]);
        assert_eq!(counts(products(Direction::BackwardFilter)), [8]);
        let tf32 = Problem {
            tf32: true,
            ..products(Direction::Forward)
        };
        assert_eq!(counts(tf32), [8]);
        // No part is empty where not even one fits.
        assert_eq!(products(Direction::Forward).parts(1000).len(), 8);
        // One that cannot do with less may work in more, up to a limit.
        let large = Problem {
            dtype: DType::F32,
            ..problem(1)
        };
        let bytes = 4 * 768 * 1152 * (384 + 256);
        assert!((bytes..3 << 30).contains(&large.memory(1 << 30)));
        assert_eq!(large.memory(1 << 29), 3 << 29);
        assert_eq!(products(Direction::Forward).memory(1 << 30), 1 << 30);
        assert_eq!(problem(1).memory(1 << 30), 1 << 30);
    }

    #[test]
    fn a_sample_that_is_too_large_is_a_part() {
        let large = Problem {
            y: [3, 4 * 768, 4 * 1152, 256],
            ..problem(3)
        };
        let parts = large.parts(1 << 30);
        assert_eq!(
            parts.iter().map(|p| p.0.clone()).collect::<Vec<_>>(),
            [0..1, 1..2, 2..3]
        );
    }
}
