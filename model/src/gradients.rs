//! The flat buffer that the gradients of all parameters land in.

use crate::parameters::{Parameter, Parameters};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;

/// The gradient of every parameter, in one buffer.
#[derive(Debug, Clone)]
pub struct Gradients {
    values: Vec<f32>,
}

impl Gradients {
    /// Zeros for every parameter.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            values: vec![0.0; parameters.count()],
        }
    }

    /// Back to zero, keeping the memory.
    pub fn clear(&mut self) {
        self.values.fill(0.0);
    }

    /// All values, parameters in forward order.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// All values, parameters in forward order.
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The place of one parameter.
    pub(crate) fn of(&mut self, range: Range<usize>) -> &mut [f32] {
        &mut self.values[range]
    }

    /// The places of two parameters, the first of which comes first.
    pub(crate) fn of_two(
        &mut self,
        first: Range<usize>,
        second: Range<usize>,
    ) -> (&mut [f32], &mut [f32]) {
        let (head, tail) = self.values.split_at_mut(second.start);
        (&mut head[first], &mut tail[..second.end - second.start])
    }

    /// Consecutive ranges of at least `values` values each (the last may be shorter), in the order in which the backward
    /// pass completes them: from the end of the network to its start. Together they cover the buffer once.
    ///
    /// What several ranks average piece by piece. Boundaries lie between parameters.
    pub fn buckets(parameters: &Parameters, values: usize) -> Vec<Range<usize>> {
        let mut buckets = Vec::new();
        let mut end = parameters.count();
        for parameter in parameters.iter().rev() {
            let start = parameter.range.start;
            if end - start >= values.max(1) || start == 0 && end > 0 {
                buckets.push(start..end);
                end = start;
            }
        }
        buckets
    }

    /// Whether no value is infinite or NaN.
    pub fn is_finite(&self) -> bool {
        self.values.iter().all(|g| g.is_finite())
    }

    /// Parameter, place in it and value of the first that is infinite or no number.
    pub fn first_not_finite<'a>(
        &self,
        parameters: &'a Parameters,
    ) -> Option<(&'a Parameter, usize, f32)> {
        let at = self.values.iter().position(|g| !g.is_finite())?;
        let owner = parameters.iter().find(|p| p.range.contains(&at))?;
        Some((owner, at - owner.range.start, self.values[at]))
    }

    /// The parameters whose whole gradient is exactly zero: a backward pass did not reach them.
    pub fn all_zero<'a>(&self, parameters: &'a Parameters) -> Vec<&'a Parameter> {
        let zero = |p: &&Parameter| self.values[p.range.clone()].iter().all(|&g| g == 0.0);
        parameters.iter().filter(zero).collect()
    }

    /// √Σ g², the same bits on any number of threads.
    ///
    /// It is finite exactly if every value is: squares of f32 cannot overflow a sum in f64.
    pub fn norm(&self) -> f64 {
        let chunks = self.values.par_chunks(1 << 14);
        let parts: Vec<f64> = chunks
            .map(|chunk| Arch::new().dispatch(Squares(chunk)))
            .collect();
        parts.iter().sum::<f64>().sqrt()
    }

    /// Multiplies every value.
    pub fn scale(&mut self, factor: f32) {
        self.values.iter_mut().for_each(|g| *g *= factor);
    }
}

/// [`squares`] with the processor's widest vectors; the same bits with any.
struct Squares<'a>(&'a [f32]);

impl WithSimd for Squares<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        squares(self.0)
    }
}

/// Σ v² in f64. With so many partial sums no vector waits for the addition before it.
#[inline(always)]
pub(crate) fn squares(values: &[f32]) -> f64 {
    let mut lanes = [0.0f64; 32];
    let groups = values.chunks_exact(32);
    let rest = groups.remainder().iter();
    for group in groups {
        for (lane, &value) in lanes.iter_mut().zip(group) {
            *lane += f64::from(value) * f64::from(value);
        }
    }
    let rest: f64 = rest.map(|&v| f64::from(v) * f64::from(v)).sum();
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Kind;

    #[test]
    fn what_is_missing_or_no_number_is_named() {
        let mut parameters = Parameters::new(1);
        for (name, length) in [("a", 3), ("b", 2), ("c", 4)] {
            parameters
                .vector(name.into(), Kind::Bias, length, 0.0)
                .unwrap();
        }
        let mut gradients = Gradients::new(&parameters);
        gradients.as_mut_slice()[1] = 1.0;
        gradients.as_mut_slice()[8] = -2.0;
        let names: Vec<&str> = (gradients.all_zero(&parameters).iter())
            .map(|p| p.name.as_str())
            .collect();
        assert_eq!(names, ["b"]);
        assert_eq!(gradients.norm(), 5f64.sqrt());
        assert!(gradients.first_not_finite(&parameters).is_none());
        gradients.as_mut_slice()[4] = f32::INFINITY;
        gradients.as_mut_slice()[6] = f32::NAN;
        let (parameter, index, value) = gradients.first_not_finite(&parameters).unwrap();
        assert_eq!((parameter.name.as_str(), index), ("b", 1));
        assert!(value.is_infinite() && !gradients.norm().is_finite());
    }
}
