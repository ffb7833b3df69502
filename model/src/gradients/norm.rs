//! The norm of all gradients.

use super::Gradients;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Values per partial sum.
const CHUNK: usize = 1 << 14;

impl Gradients {
    /// √Σ g², bit-identical for any number of threads and any division into buckets: a resumed run may hold in one
    /// buffer what was in buckets before.
    ///
    /// The norm is finite if and only if every value is: a sum of squared f32 values cannot overflow in f64.
    pub fn norm(&self) -> f64 {
        let (slices, count) = (self.slices(), self.len());
        let starts = (0..count).into_par_iter().step_by(CHUNK);
        let parts: Vec<f64> = starts
            .map(|start| {
                let chunk = slices.at(start..count.min(start + CHUNK));
                Arch::new().dispatch(Squares(&chunk))
            })
            .collect();
        parts.iter().sum::<f64>().sqrt()
    }
}

/// [`squares`] with the processor's widest vectors; the result does not depend on their width.
struct Squares<'a>(&'a [f32]);

impl WithSimd for Squares<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        squares(self.0)
    }
}

/// Σ v² in f64, with enough partial sums that consecutive vector additions do not depend on each other.
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
