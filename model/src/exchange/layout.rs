//! Namings of weights: where in a foreign file the values of ours are.

use super::{Weights, torchvision};
use crate::error::{ModelError, Result};

/// Where the values of one of our weights come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// The tensor of this name, of our shape.
    Same(String),
    /// A kernel, with the batch normalisation after it folded in: w · γ / √(σ² + ε).
    FoldedKernel {
        /// Name of the kernel.
        kernel: String,
        /// Name of the normalisation, whose leaves are PyTorch's.
        norm: String,
        /// The kernel may have another number of input channels: each of ours then gets the mean over theirs, times
        /// theirs / ours, so that a field that is equal in all channels gives what it gave.
        spread: bool,
    },
    /// The bias that folding that normalisation leaves: β − μ · γ / √(σ² + ε).
    FoldedBias {
        /// Name of the normalisation.
        norm: String,
    },
    /// The file's network has no such weight and acts as if it were this value everywhere.
    Constant(f32),
    /// The file's network has nothing of the kind.
    Absent,
}

impl Source {
    /// The names of the tensors that it reads.
    pub fn reads(&self) -> Vec<String> {
        match self {
            Self::Same(name) => vec![name.clone()],
            Self::FoldedKernel { kernel, norm, .. } => [
                vec![kernel.clone()],
                norm_leaves(norm, &["weight", "running_var"]),
            ]
            .concat(),
            Self::FoldedBias { norm } => {
                norm_leaves(norm, &["weight", "bias", "running_mean", "running_var"])
            }
            Self::Constant(_) | Self::Absent => Vec::new(),
        }
    }
}

fn norm_leaves(norm: &str, leaves: &[&str]) -> Vec<String> {
    leaves.iter().map(|leaf| format!("{norm}.{leaf}")).collect()
}

/// A naming of weights.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// As on the command line.
    pub name: &'static str,
    /// Where the values of our weight of a name come from.
    pub source: fn(&str) -> Source,
    /// Why a tensor of this name is not needed, if it is not.
    pub unused: fn(&str) -> Option<&'static str>,
    /// How the network that it comes from differs from ours: what importing cannot carry over.
    pub differences: &'static [&'static str],
    /// It needs batch normalisation in our network.
    pub needs_batch_norm: bool,
}

/// Squall's own names, as in its model files.
pub const SQUALL: Layout = Layout {
    name: "squall",
    source: |ours| Source::Same(ours.to_string()),
    unused: |_| None,
    differences: &[],
    needs_batch_norm: false,
};

/// The names that `squall model export` writes: ours, with the leaves of normalisations named as PyTorch names them.
pub const PYTORCH: Layout = Layout {
    name: "pytorch",
    source: |ours| Source::Same(pytorch_name(ours)),
    unused: counter,
    differences: &[],
    needs_batch_norm: false,
};

/// PyTorch's name of our weight: the leaves of normalisations are `weight`, `bias`, `running_mean`, `running_var`.
///
/// # Example
/// ```
/// use squall_model::exchange::pytorch_name;
///
/// assert_eq!(pytorch_name("encoder.block1.unit1.preact.scale"), "encoder.block1.unit1.preact.weight");
/// assert_eq!(pytorch_name("encoder.stem.bias"), "encoder.stem.bias");
/// ```
pub fn pytorch_name(ours: &str) -> String {
    let (parent, leaf) = ours.rsplit_once('.').unwrap_or(("", ours));
    let leaf = match leaf {
        "scale" => "weight",
        "shift" => "bias",
        "running_variance" => "running_var",
        leaf => leaf,
    };
    if parent.is_empty() {
        leaf.to_string()
    } else {
        format!("{parent}.{leaf}")
    }
}

/// What PyTorch's batch normalisation saves besides its statistics.
pub(super) fn counter(name: &str) -> Option<&'static str> {
    name.ends_with(".num_batches_tracked")
        .then_some("a counter of PyTorch's batch normalisation")
}

impl Layout {
    /// Every naming that is known.
    pub const ALL: [Self; 3] = [SQUALL, PYTORCH, torchvision::RESNET];

    /// The naming that a file has, by names that only it has.
    pub fn guess(weights: &Weights) -> Self {
        let names = || weights.tensors.keys();
        let own = |name: &String| name.ends_with(".running_variance") || name.ends_with(".scale");
        if names().any(|name| name == "layer1.0.conv1.weight") {
            torchvision::RESNET
        } else if names().any(own) {
            SQUALL
        } else {
            PYTORCH
        }
    }

    /// The naming of a name.
    ///
    /// # Errors
    /// [`ModelError::Config`] listing the known ones.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|layout| layout.name == name);
        found.ok_or_else(|| {
            let known = Self::ALL.map(|layout| layout.name).join(", ");
            ModelError::Config {
                key: "layout",
                reason: format!("expected one of {known}, found `{name}`"),
            }
        })
    }
}
