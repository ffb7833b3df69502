//! How a pass stores activations: in which data types, and what of them it keeps for its backward pass.

use crate::parameters::ParameterId;
use candle_core::DType;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which activations the backward pass computes again instead of keeping them. Gradients have the same bits either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    /// None: the fastest.
    #[default]
    None,
    /// What follows a batch normalisation without a residual, from the normalisation's input: one more pass over
    /// memory.
    Norms,
    /// The inside of every block from the block's input, a second forward pass; and what [`Self::Norms`] does.
    Blocks,
}

impl Recompute {
    /// All of them, the fastest first.
    pub const ALL: [Self; 3] = [Self::None, Self::Norms, Self::Blocks];

    /// Its name in a recipe.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Norms => "norms",
            Self::Blocks => "blocks",
        }
    }
}

/// What activations are kept as for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SavedActivations {
    /// The type that they were computed in.
    #[default]
    Same,
    /// bf16 where the network computes in f32: half the memory, and gradients that are wrong by about 3e-3. Logits and
    /// running statistics are not changed; ReLUs keep which values they let through; inputs of blocks that are computed
    /// again are kept as they are.
    Bf16,
}

/// How a pass stores activations.
///
/// A data type alone is the plain case: `DType::F32.into()`.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// What layers compute and store in unless they have a type of their own.
    pub dtype: DType,
    /// What the layer that owns a parameter computes in, by the parameter's index; none if all are alike.
    pub(crate) layers: Option<Arc<[DType]>>,
    /// The names of the layers that compute in f32 although the others do not: a dry run knows names alone.
    pub(crate) f32_layers: Arc<[String]>,
    /// The index of the first convolution's kernel, if that computes in f32 and the layer after it does not: its output is
    /// rounded at once. Left to its readers, each of them would keep a copy of its own, and what joins it with other
    /// tensors would widen those.
    pub(crate) rounded_output: Option<usize>,
    /// What the backward pass computes again.
    pub recompute: Recompute,
    /// What is kept for the backward pass, and as what.
    pub saved: SavedActivations,
}

impl From<DType> for Storage {
    fn from(dtype: DType) -> Self {
        Self {
            dtype,
            layers: None,
            f32_layers: Arc::default(),
            rounded_output: None,
            recompute: Recompute::default(),
            saved: SavedActivations::default(),
        }
    }
}

impl From<&Self> for Storage {
    fn from(storage: &Self) -> Self {
        storage.clone()
    }
}

impl Storage {
    /// The same data types, with another choice of what is kept for the backward pass.
    pub fn keeping(self, recompute: Recompute, saved: SavedActivations) -> Self {
        Self {
            recompute,
            saved,
            ..self
        }
    }

    /// The data type that the layer that owns this parameter computes in.
    pub(crate) fn of(&self, parameter: ParameterId) -> DType {
        let own = self.layers.as_deref();
        own.and_then(|layers| layers.get(parameter.index()).copied())
            .unwrap_or(self.dtype)
    }

    /// The data type that the layer that owns this kernel gives its output in.
    pub(crate) fn given_by(&self, kernel: ParameterId) -> DType {
        if self.rounded_output == Some(kernel.index()) {
            self.dtype
        } else {
            self.of(kernel)
        }
    }

    /// Whether the layer of this name computes in f32 although the others do not.
    pub(crate) fn is_f32(&self, layer: &str) -> bool {
        self.f32_layers.iter().any(|name| name == layer)
    }

    /// Whether the tape rounds what is computed in f32: not where f32 is what some layers keep on purpose.
    pub(crate) fn rounds(&self) -> bool {
        self.saved == SavedActivations::Bf16 && self.dtype == DType::F32
    }

    /// Bytes of a value as it is computed, and as it is kept.
    pub(crate) fn value_bytes(&self) -> (u64, u64) {
        let computed = self.dtype.size_in_bytes() as u64;
        (computed, if self.rounds() { 2 } else { computed })
    }
}
