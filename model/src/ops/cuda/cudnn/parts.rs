//! Problems that are too large for cuDNN, some samples at a time.

use super::problem::Problem;
use crate::error::Result;
use candle_core::Tensor;
use std::ops::Range;

/// cuDNN counts the values of a tensor in 32 bits: eight samples of 768 x 1152 with 384 channels are too many.
const MOST_VALUES: usize = i32::MAX as usize;

impl Problem {
    /// Of some samples at a time, as many as cuDNN takes; the sum of parts is the gradient of the kernel.
    pub(in super::super) fn parts(&self) -> Vec<(Range<usize>, Self)> {
        self.parts_of(MOST_VALUES)
    }

    fn parts_of(&self, most: usize) -> Vec<(Range<usize>, Self)> {
        let values = |[_, h, w, c]: [usize; 4]| h * w * c;
        let sample = values(self.x).max(values(self.y)).max(1);
        let (batch, step) = (self.x[0], (most / sample).max(1));
        // Parts of nearly the same size: few different problems.
        let step = batch.div_ceil(batch.div_ceil(step).max(1)).max(1);
        let of = |first: usize| {
            let mut part = *self;
            let samples = first..batch.min(first + step);
            (part.x[0], part.y[0]) = (samples.len(), samples.len());
            (samples, part)
        };
        (0..batch).step_by(step).map(of).collect()
    }
}

/// The values of these samples of a batch.
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
            stride: 1,
            dilation: 1,
            groups: 1,
        }
    }

    #[test]
    fn every_sample_is_in_one_part_that_is_small_enough() {
        for batch in 1..40 {
            let whole = problem(batch);
            let mut next = 0;
            for (samples, part) in whole.parts() {
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
        assert_eq!(problem(6).parts().len(), 1);
        let eight = problem(8).parts();
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
    fn a_sample_that_is_too_large_is_a_part() {
        let parts = problem(3).parts_of(1000);
        assert_eq!(
            parts.iter().map(|p| p.0.clone()).collect::<Vec<_>>(),
            [0..1, 1..2, 2..3]
        );
    }
}
