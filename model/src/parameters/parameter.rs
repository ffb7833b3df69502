//! One parameter: its name, its place, what it starts with and its values.

use crate::error::Result;
use candle_core::Tensor;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// What a parameter does; weight decay and LARC ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A convolution's kernel.
    Weight,
    /// A convolution's bias.
    Bias,
    /// γ of a batch normalisation.
    Scale,
    /// β of a batch normalisation.
    Shift,
    /// Slope of a parametric ReLU below zero.
    Slope,
}

/// One trainable tensor.
#[derive(Debug)]
pub struct Parameter {
    /// Its path in the network, such as `encoder.block1.unit1.conv2.weight`.
    pub name: String,
    /// What it does in its layer.
    pub kind: Kind,
    /// Its place in the flat gradient.
    pub range: Range<usize>,
    pub(super) shape: Vec<usize>,
    /// What it will start with; none once it has values.
    pub(super) initial: Option<Initial>,
    /// The f32 master; a tensor of no values before it has any.
    pub(super) tensor: Tensor,
}

/// What a parameter starts with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Initial {
    Constant(f32),
    /// Uniform between minus a bound and the bound, drawn from this seed.
    Uniform([u8; 32], f32),
}

impl Initial {
    pub fn fill(self, values: &mut [f32]) {
        match self {
            Self::Constant(value) => values.fill(value),
            Self::Uniform(seed, bound) => {
                let mut rng = ChaCha8Rng::from_seed(seed);
                values.fill_with(|| rng.random_range(-bound..bound));
            }
        }
    }
}

impl Parameter {
    /// The f32 master.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Its values, wherever they lie.
    ///
    /// # Errors
    /// [`crate::ModelError::Candle`] or [`crate::ModelError::Gpu`] if they cannot be read.
    pub fn values(&self) -> Result<Vec<f32>> {
        #[cfg(feature = "cuda")]
        if self.tensor.device().is_cuda() {
            return crate::ops::cuda::read(&self.tensor);
        }
        Ok(self.tensor.flatten_all()?.to_vec1()?)
    }
}

/// Whether a name is what a pattern says, in which `*` is any text.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(tail) = name.strip_prefix(head) else {
        return false;
    };
    let mut ends = tail.char_indices().map(|(at, _)| at).chain([tail.len()]);
    ends.any(|at| fits(rest, &tail[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_of_whole_names() {
        assert!(fits("decoder.*", "decoder.up1.weight"));
        assert!(fits("*.bias", "decoder.classify.bias"));
        assert!(fits("*", ""));
        assert!(fits("a*c*e", "abcde"));
        assert!(!fits("decoder", "decoder.up1.weight"));
        assert!(!fits("*.bias", "decoder.classify.bias2"));
    }
}
