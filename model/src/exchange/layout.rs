//! Weight layouts: the names and forms in which a foreign file stores the values of our weights.

use super::{Weights, cgnet, deepcam, torchvision};
use crate::error::{ModelError, Result};
use crate::networks::NetworkConfig;

/// The source of the values of one of our weights.
#[derive(Debug, Clone, PartialEq)]
pub enum WeightSource {
    /// The tensor of this name, with our shape, except for trailing extents of 1.
    Same(String),
    /// A kernel, with the following batch normalisation folded in: w · γ / √(σ² + ε).
    FoldedKernel {
        /// Name of the kernel.
        kernel: String,
        /// Name of the normalisation, whose tensors have PyTorch's names.
        norm: String,
        /// Whether the kernel may have a different number of input channels. Each of ours then gets the mean over
        /// theirs, times theirs / ours, so that a field that is equal in all channels has the same output.
        spread: bool,
    },
    /// The bias that results from folding this normalisation: β − μ · γ / √(σ² + ε).
    FoldedBias {
        /// Name of the normalisation.
        norm: String,
    },
    /// The file's network has no weight of this kind and behaves as if it had this value everywhere.
    Constant(f32),
    /// The file's network has no equivalent.
    Absent,
}

impl WeightSource {
    /// The names of the tensors that are read.
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

/// A weight layout.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Its name on the command line.
    pub name: &'static str,
    /// The source of our weight of a given name.
    pub source: fn(&str) -> WeightSource,
    /// The shape in the file of a tensor of this name, given our shape.
    pub shape: fn(&str, &[usize]) -> Vec<usize>,
    /// Whether a tensor of this name identifies a file as having this layout.
    pub tells: fn(&str) -> bool,
    /// Why a tensor of this name is not needed, if it is not.
    pub unused: fn(&str) -> Option<&'static str>,
    /// Whether a tensor of this name belongs to the encoder.
    pub encoder: fn(&str) -> bool,
    /// Differences between the original network and ours of these sizes that importing cannot carry over.
    pub differences: fn(&NetworkConfig) -> &'static [&'static str],
    /// Whether our network needs batch normalisation to import these weights.
    pub needs_batch_norm: bool,
}

/// Our shape, for layouts whose tensors have the same shapes as ours.
pub(super) fn as_ours(_: &str, ours: &[usize]) -> Vec<usize> {
    ours.to_vec()
}

/// The common prefix of our encoders' weights.
pub(super) const ENCODER: &str = "encoder.";

/// Squall's own names, as in its model files.
pub const SQUALL: Layout = Layout {
    name: "squall",
    source: |ours| WeightSource::Same(ours.to_string()),
    shape: as_ours,
    tells: |name| name.ends_with(".running_variance"),
    unused: |_| None,
    encoder: |name| name.starts_with(ENCODER),
    differences: |_| &[],
    needs_batch_norm: false,
};

/// The names that `squall model export` writes: ours, with the tensors of normalisations named as in PyTorch.
pub const PYTORCH: Layout = Layout {
    name: "pytorch",
    source: |ours| WeightSource::Same(pytorch_name(ours)),
    shape: as_ours,
    tells: |_| false,
    unused: counter,
    encoder: |name| name.starts_with(ENCODER),
    differences: |_| &[],
    needs_batch_norm: false,
};

/// Components of our names that denote normalisations.
const NORMS: [&str; 3] = ["norm", "preact", "post"];

/// PyTorch's name of our weight: the tensors of normalisations are `weight`, `bias`, `running_mean`, `running_var`.
///
/// # Example
/// ```
/// use squall_model::exchange::pytorch_name;
///
/// assert_eq!(pytorch_name("encoder.block1.unit1.preact.scale"), "encoder.block1.unit1.preact.weight");
/// assert_eq!(pytorch_name("encoder.stem.bias"), "encoder.stem.bias");
/// // A trainable factor beside a kernel is not a normalisation: both would be called `weight`.
/// assert_eq!(pytorch_name("aspp.image_pooling.scale"), "aspp.image_pooling.scale");
/// ```
pub fn pytorch_name(ours: &str) -> String {
    let Some((parent, leaf)) = ours.rsplit_once('.') else {
        return ours.to_string();
    };
    let part = parent.rsplit('.').next().unwrap_or(parent);
    let is_norm = NORMS.contains(&part);
    let leaf = norm_leaf(leaf).filter(|_| is_norm).unwrap_or(leaf);
    format!("{parent}.{leaf}")
}

/// PyTorch's name of a tensor of our batch normalisation.
pub(super) fn norm_leaf(ours: &str) -> Option<&'static str> {
    match ours {
        "scale" => Some("weight"),
        "shift" => Some("bias"),
        "running_mean" => Some("running_mean"),
        "running_variance" => Some("running_var"),
        _ => None,
    }
}

/// The batch counter that PyTorch's batch normalisation also saves.
pub(super) fn counter(name: &str) -> Option<&'static str> {
    name.ends_with(".num_batches_tracked")
        .then_some("a counter of PyTorch's batch normalisation")
}

impl Layout {
    /// Every known layout.
    pub const ALL: [Self; 5] = [
        SQUALL,
        PYTORCH,
        torchvision::RESNET,
        deepcam::DEEPCAM,
        cgnet::CGNET,
    ];

    /// The layout of a file, identified by names that only this layout has; otherwise [`PYTORCH`].
    pub fn guess(weights: &Weights) -> Self {
        let told = |layout: &Self| weights.tensors.keys().any(|name| (layout.tells)(name));
        Self::ALL.into_iter().find(told).unwrap_or(PYTORCH)
    }

    /// The naming called `name`.
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
