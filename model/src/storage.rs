//! How a pass stores activations: their data types, and which of them the backward pass keeps.

use crate::parameters::ParameterId;
use candle_core::DType;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which activations the backward pass recomputes instead of keeping. Gradients are bit-identical either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    /// None: the fastest.
    #[default]
    None,
    /// Outputs of batch normalisations without a residual, from the normalisation's input: one more pass over memory.
    Norms,
    /// The inside of every block, from the block's input (a second forward pass), and everything that [`Self::Norms`]
    /// recomputes.
    Blocks,
}

impl Recompute {
    /// All variants, fastest first.
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

/// The data type in which activations are kept for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SavedActivations {
    /// The type in which they were computed.
    #[default]
    Same,
    /// bf16 where the network computes in f32: half the memory, and a gradient error of about 3e-3. Logits and running
    /// statistics do not change. ReLU gates are kept exactly, and inputs of recomputed blocks are not rounded.
    Bf16,
}

/// How a pass stores activations.
///
/// A data type alone is the plain case: `DType::F32.into()`.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// The type in which layers compute and store, unless they have their own.
    pub dtype: DType,
    /// The compute type of the layer that owns a parameter, by the parameter's index; `None` if all layers share one
    /// type.
    pub(crate) layers: Option<Arc<[DType]>>,
    /// The names of the layers that compute in f32 while the others do not, for dry runs, which have only names.
    pub(crate) f32_layers: Arc<[String]>,
    /// The index of the first convolution's kernel, if that layer computes in f32 and the next one does not. Its output
    /// is then rounded at once. Otherwise each consumer would keep a rounded copy of its own, and concatenation would
    /// widen the tensors joined with it.
    pub(crate) rounded_output: Option<usize>,
    /// What the backward pass recomputes.
    pub recompute: Recompute,
    /// The type in which tensors are kept for the backward pass.
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
    /// Returns these data types with another choice of what the backward pass recomputes and how the rest is kept.
    pub fn keeping(self, recompute: Recompute, saved: SavedActivations) -> Self {
        Self {
            recompute,
            saved,
            ..self
        }
    }

    /// The data type in which the layer that owns this parameter computes.
    pub(crate) fn compute_dtype(&self, parameter: ParameterId) -> DType {
        let own = self.layers.as_deref();
        own.and_then(|layers| layers.get(parameter.index()).copied())
            .unwrap_or(self.dtype)
    }

    /// The output data type of the layer that owns this kernel.
    pub(crate) fn output_dtype(&self, kernel: ParameterId) -> DType {
        if self.rounded_output == Some(kernel.index()) {
            self.dtype
        } else {
            self.compute_dtype(kernel)
        }
    }

    /// Whether the layer of this name computes in f32 while the others do not.
    pub(crate) fn is_f32(&self, layer: &str) -> bool {
        self.f32_layers.iter().any(|name| name == layer)
    }

    /// Whether the tape rounds f32 tensors: not where some layers stay in f32 on purpose.
    pub(crate) fn rounds(&self) -> bool {
        self.saved == SavedActivations::Bf16 && self.dtype == DType::F32
    }

    /// Bytes of a value as computed, and as kept.
    pub(crate) fn value_bytes(&self) -> (u64, u64) {
        let computed = self.dtype.size_in_bytes() as u64;
        (computed, if self.rounds() { 2 } else { computed })
    }
}
