//! The values of one of our weights from the tensors of a file: copied, folded or spread, according to its
//! [`WeightSource`].

use super::{EPSILON, WeightProblem, WeightSource};
use crate::parameters::NamedTensors;

/// The values of our weight `ours` of shape `shape`, read from `theirs`.
///
/// # Errors
/// [`WeightProblem::Missing`] if the file lacks a tensor that `source` reads; [`WeightProblem::Shape`] if a shape does
/// not fit.
pub(super) fn value_of(
    source: &WeightSource,
    ours: &str,
    shape: &[usize],
    theirs: &NamedTensors,
) -> Result<Vec<f32>, WeightProblem> {
    let own = OwnWeight {
        ours,
        shape,
        theirs,
    };
    match source {
        WeightSource::Same(name) => Ok(own.fitting(name, shape)?.to_vec()),
        WeightSource::Constant(value) => Ok(vec![*value; shape.iter().product()]),
        WeightSource::Absent => Err(own.missing(None)),
        WeightSource::FoldedBias { norm } => own.folded_bias(norm),
        WeightSource::FoldedKernel {
            kernel,
            norm,
            spread,
        } => own.folded_kernel(kernel, norm, *spread),
    }
}

/// One of our weights, to be found among a file's tensors.
struct OwnWeight<'a> {
    ours: &'a str,
    shape: &'a [usize],
    theirs: &'a NamedTensors,
}

impl<'a> OwnWeight<'a> {
    /// The problem that the file lacks a tensor, or has no equivalent.
    fn missing(&self, tensor: Option<&str>) -> WeightProblem {
        WeightProblem::Missing {
            name: self.ours.to_string(),
            expected: self.shape.to_vec(),
            wanted: tensor.map(str::to_string),
        }
    }

    /// Shape and values of the file's tensor of this name.
    fn tensor(&self, name: &str) -> Result<(&'a [usize], &'a [f32]), WeightProblem> {
        match self.theirs.get(name) {
            Some((shape, values)) => Ok((shape.as_slice(), values.as_slice())),
            None => Err(self.missing(Some(name))),
        }
    }

    /// The values of the file's tensor of this name, which must have the shape `expected`.
    fn fitting(&self, name: &str, expected: &[usize]) -> Result<&'a [f32], WeightProblem> {
        let (found, values) = self.tensor(name)?;
        // Trailing extents of 1 are a matter of convention, such as for scale vectors and 1x1 kernels.
        if found == expected || significant(found) == significant(expected) {
            return Ok(values);
        }
        Err(WeightProblem::Shape {
            name: self.ours.to_string(),
            tensor: name.to_string(),
            expected: expected.to_vec(),
            found: found.to_vec(),
        })
    }

    /// γ / √(σ² + ε) of a normalisation of `channels`.
    fn factors(&self, norm: &str, channels: usize) -> Result<Vec<f32>, WeightProblem> {
        let gamma = self.fitting(&format!("{norm}.weight"), &[channels])?;
        let variance = self.fitting(&format!("{norm}.running_var"), &[channels])?;
        let factor = |(g, v): (&f32, &f32)| g / (v + EPSILON).sqrt();
        Ok(gamma.iter().zip(variance).map(factor).collect())
    }

    /// The bias that results from folding a normalisation.
    fn folded_bias(&self, norm: &str) -> Result<Vec<f32>, WeightProblem> {
        let factors = self.factors(norm, self.shape[0])?;
        let beta = self.fitting(&format!("{norm}.bias"), self.shape)?;
        let mean = self.fitting(&format!("{norm}.running_mean"), self.shape)?;
        let folded = (0..self.shape[0]).map(|i| beta[i] - mean[i] * factors[i]);
        Ok(folded.collect())
    }

    /// A kernel with a normalisation folded in; with `spread`, the number of input channels may differ from ours.
    fn folded_kernel(
        &self,
        kernel: &str,
        norm: &str,
        spread: bool,
    ) -> Result<Vec<f32>, WeightProblem> {
        let (found, values) = self.tensor(kernel)?;
        let mut values = match (found, self.shape) {
            (_, _) if found == self.shape => values.to_vec(),
            (&[out, ins, kh, kw], &[n, ours, h, w])
                if spread && ins > 0 && (out, kh, kw) == (n, h, w) =>
            {
                spread_inputs(values, ins, ours, kh * kw)
            }
            _ => self.fitting(kernel, self.shape)?.to_vec(),
        };
        let outputs = self.shape[0];
        let per_output = values.len() / outputs.max(1);
        let factors = self.factors(norm, outputs)?;
        for (kernel, factor) in values.chunks_exact_mut(per_output.max(1)).zip(&factors) {
            kernel.iter_mut().for_each(|w| *w *= factor);
        }
        Ok(values)
    }
}

/// A shape without trailing extents of 1.
fn significant(shape: &[usize]) -> &[usize] {
    let ones = shape
        .iter()
        .rev()
        .take_while(|&&extent| extent == 1)
        .count();
    &shape[..shape.len() - ones]
}

/// Converts a kernel of `ins` input channels to `ours` channels: the mean over theirs, times theirs / ours.
fn spread_inputs(values: &[f32], ins: usize, ours: usize, taps: usize) -> Vec<f32> {
    let mut spread = Vec::with_capacity(values.len() / ins * ours);
    for kernel in values.chunks_exact(ins * taps) {
        // Σ over their channels / ins · ins / ours
        let shared: Vec<f32> = (0..taps)
            .map(|tap| (0..ins).map(|c| kernel[c * taps + tap]).sum::<f32>() / ours as f32)
            .collect();
        (0..ours).for_each(|_| spread.extend_from_slice(&shared));
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_kernel_answers_equal_channels_as_before() {
        // Two outputs, three inputs, two taps.
        let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let spread = spread_inputs(&values, 3, 4, 2);
        assert_eq!(spread.len(), 16);
        // First output, first tap: (0 + 2 + 4) / 4 for each of four channels; all channels equal to 1 give 6, as
        // before.
        let sum: f32 = (0..4).map(|c| spread[c * 2]).sum();
        assert_eq!(sum, 6.0);
        assert_eq!(spread[8 + 1], (7.0 + 9.0 + 11.0) / 4.0);
    }

    #[test]
    fn folding_equals_normalising_afterwards() {
        let mut theirs = NamedTensors::new();
        theirs.insert("c.weight".into(), (vec![1, 1, 1, 1], vec![3.0]));
        for (leaf, value) in [
            ("weight", 2.0),
            ("bias", 0.5),
            ("running_mean", 4.0),
            ("running_var", 0.25 - EPSILON),
        ] {
            theirs.insert(format!("n.{leaf}"), (vec![1], vec![value]));
        }
        let kernel = WeightSource::FoldedKernel {
            kernel: "c.weight".into(),
            norm: "n".into(),
            spread: false,
        };
        let bias = WeightSource::FoldedBias { norm: "n".into() };
        let weight = value_of(&kernel, "w", &[1, 1, 1, 1], &theirs).unwrap()[0];
        let bias = value_of(&bias, "b", &[1], &theirs).unwrap()[0];
        // x = 1: conv 3, normalised 2 · (3 − 4) / 0.5 + 0.5 = −3.5
        approx::assert_relative_eq!(weight + bias, -3.5, epsilon = 1e-5);
    }

    /// γ / √(σ² + ε) is 2 / 0.5 for the first output and 3 / 1 for the second, whatever the input.
    #[test]
    fn every_output_has_its_own_factor_and_shift() {
        let mut theirs = NamedTensors::new();
        let kernel = vec![1.0, 2.0, 3.0, 4.0];
        theirs.insert("c.weight".into(), (vec![2, 2, 1, 1], kernel));
        for (leaf, values) in [
            ("weight", [2.0, 3.0]),
            ("bias", [1.0, 2.0]),
            ("running_mean", [0.5, -1.0]),
            ("running_var", [0.25 - EPSILON, 1.0 - EPSILON]),
        ] {
            theirs.insert(format!("n.{leaf}"), (vec![2], values.to_vec()));
        }
        let kernel = WeightSource::FoldedKernel {
            kernel: "c.weight".into(),
            norm: "n".into(),
            spread: false,
        };
        let bias = WeightSource::FoldedBias { norm: "n".into() };
        let kernel = value_of(&kernel, "w", &[2, 2, 1, 1], &theirs).unwrap();
        let bias = value_of(&bias, "b", &[2], &theirs).unwrap();
        // β − μ times the factor: 1 − 2 and 2 + 3.
        let expected = [4.0, 8.0, 9.0, 12.0, -1.0, 5.0];
        for (found, expected) in kernel.into_iter().chain(bias).zip(expected) {
            approx::assert_relative_eq!(found, expected, epsilon = 1e-5);
        }
    }
}
