//! A parameter: its name, its position, its initialisation and its values.

use crate::error::Result;
use candle_core::Tensor;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// The role of a parameter, for weight decay and LARC.
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
    /// Its role in the layer.
    pub kind: Kind,
    /// Its range in the flat order of all parameters.
    pub range: Range<usize>,
    pub(super) shape: Vec<usize>,
    /// Its initialisation; `None` once it has values.
    pub(super) initial: Option<Initial>,
    /// The f32 master weights; an empty tensor until they are allocated.
    pub(super) tensor: Tensor,
}

/// The initial values of a parameter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Initial {
    Constant(f32),
    /// Uniform in ± the bound, generated from this seed.
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
    /// The f32 master weights.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Its values, copied from their device.
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

/// Whether a name matches a pattern, in which `*` stands for any text.
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

/// The name of a parameter's layer: the parameter's name without its last part.
pub(crate) fn layer_of(parameter: &str) -> &str {
    parameter
        .rsplit_once('.')
        .map_or(parameter, |(layer, _)| layer)
}

/// Whether a name of a layer or parameter matches a pattern or lies below a match; `block1` is no prefix of `block10`
/// in this sense.
pub(crate) fn lies_under(pattern: &str, name: &str) -> bool {
    let pattern = pattern.trim_end_matches('.');
    let dots = name.match_indices('.').map(|(at, _)| at);
    let mut ends = dots.chain([name.len()]);
    ends.any(|end| fits(pattern, &name[..end]))
}

/// Suggestions for a pattern that matches nothing: the names with the same first part or, if there are none, all first
/// parts.
pub(crate) fn near<'a>(pattern: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let part = |name: &'a str| name.split('.').next().unwrap_or(name);
    let first = pattern.split('.').next();
    let near = names.clone().filter(|name| Some(part(name)) == first);
    let mut near: Vec<&str> = near.collect();
    if near.is_empty() {
        near = names.map(part).collect();
        near.sort_unstable();
        near.dedup();
    }
    near.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_of_its_own_part_or_of_the_parts_that_there_are() {
        let names = ["encoder.stem", "decoder.up1", "encoder.block1"];
        let near = |pattern| near(pattern, names.into_iter());
        assert_eq!(near("encoder.stm"), "encoder.stem, encoder.block1");
        assert_eq!(near("encodr"), "decoder, encoder");
    }

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
